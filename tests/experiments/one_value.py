"""A value that most records have, among many that nobody has: what each estimator makes of it.

The paper's shapes have no large count, so its grid does not show that set-scale takes from a large count
what it took from the negative ones. Here it does; `ml` and `simplex` are the better for it.
"""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import numpy as np
import polars as pl

from ppdm_cli.channels.gamma_diagonal import GammaDiagonal
from ppdm_cli.estimating import ESTIMATORS

BUILD = Path("build/papers")
CASES = [(10_000, 8_000, 9, 20), (10_000, 8_000, 5, 50), (10_000, 8_000, 5, 100), (100_000, 90_000, 2, 100)]
"""Records, how many have the first value, gamma, N; ten other values share the rest."""
RUNS = 2000


def published(true: np.ndarray, gamma: int, rng: np.random.Generator) -> np.ndarray:
    """The counts of one release: a record keeps its value or takes another, as the matrix says."""
    matrix = GammaDiagonal(Decimal(gamma), len(true))
    columns = matrix.forward(np.eye(len(true)))
    return sum(rng.multinomial(n, columns[:, k]) for k, n in enumerate(true) if n).astype(float)


def one(records: int, most: int, gamma: int, N: int, run: int) -> dict[str, float]:
    true = np.zeros(N, np.int64)
    true[0], true[1:11] = most, (records - most) // 10
    rng = np.random.default_rng([run, gamma, N, records])
    matrix, observed = GammaDiagonal(Decimal(gamma), N), published(true, gamma, rng)
    found: dict[str, float] = {"records": records, "most": most, "gamma": gamma, "N": N}
    for name, estimator in ESTIMATORS.items():
        estimate = estimator(observed, [matrix])
        found |= {name: estimate[0], f"E of {name}": np.abs(estimate - true).sum() / records}
    return found


def main() -> None:
    rows = [one(*case, run) for case in CASES for run in range(RUNS)]
    case = ["records", "most", "gamma", "N"]
    mean = pl.DataFrame(rows).group_by(case, maintain_order=True).mean()
    BUILD.mkdir(parents=True, exist_ok=True)
    mean.write_csv(BUILD / "one_value.csv")
    with pl.Config(tbl_cols=-1, float_precision=3, tbl_hide_dataframe_shape=True, tbl_width_chars=150):
        print(f"Mean estimate of the value that most have, {RUNS} releases\n{mean[[*case, *ESTIMATORS]]}")
        print(f"Mean E\n{mean[[*case, *(f'E of {n}' for n in ESTIMATORS)]]}")


if __name__ == "__main__":
    main()
