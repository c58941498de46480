"""Repeated perturbation (Dowd et al. 4.3): does perturbing again and again lead back to the original?

It leads to uniform noise: M^t = lam^t I + (1 - lam^t)/N J (maths 1), whose entropy rises to log2 N. The
same is done to the file, to see that it is so. Only a matrix that publishes what it takes can be repeated,
so a band cannot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ppdm_cli.arrays import Addresses, Codes, code_type, wilson
from ppdm_cli.attacks.attacked_attribute import Rows, Target
from ppdm_cli.channels import Substitution
from ppdm_cli.repeatable import hashed, mixed

TIMES = 8


class Repeat:
    """Every attribute of a file that can be perturbed again, t = 1..T times."""

    name = "repeat"

    def __init__(self, targets: list[Target], release: str) -> None:
        self._matrices = {t.name: t.channel.again for t in targets if t.channel.again is not None}
        self._release = release
        self.left_out = [t.name for t in targets if t.name not in self._matrices]

    def counted(self, rows: Rows) -> dict[str, list[np.ndarray]]:
        """Return how many are unchanged after t = 1..T times; with the original, the release is t = 1."""
        found = {}
        for name, matrix in self._matrices.items():
            published = rows.codes[name]
            start = published if rows.truths is None else rows.truths[name].codes
            now = published.astype(code_type(matrix.inputs))
            counts = [len(now)]
            for t in range(1, TIMES + 1):
                if t > 1 or rows.truths is None:
                    now = _again(matrix, now, rows.addresses, [self._release, "repeat", name, t])
                counts.append(int(np.count_nonzero(now == start)))
            found[name] = [np.array(counts)]
        return found

    def rows(self, states: Mapping[str, list[np.ndarray]]) -> list[dict[str, Any]]:
        found = []
        for name, matrix in self._matrices.items():
            n, *stayed = states[name][0].tolist()
            for row, hits in zip(matrix.repeated(TIMES), stayed, strict=True):
                low, high = wilson(hits, n)
                simulated = hits / n if n else None
                seen = {"stayed": simulated, "stayed_low": low, "stayed_high": high}
                seen["entropy_seen"] = None if simulated is None else matrix.entropy_of(simulated)
                found.append({"attribute": name, "N": matrix.inputs} | row | seen)
        return found


def _again(matrix: Substitution, codes: Codes, addresses: Addresses, purpose: Sequence[object]) -> Codes:
    """Return the codes perturbed once more, repeatably: by each row's address, however the table is cut."""
    out = np.empty_like(codes)

    def blocks(retry: int, rows: np.ndarray | None = None) -> np.ndarray:
        here = addresses if rows is None else addresses[rows]
        halves = [mixed(here, hashed([*purpose, int(retry), half])) for half in (0, 1)]
        return np.stack(halves, axis=1).view(np.uint32)

    matrix.sample(codes, blocks, out)
    return out
