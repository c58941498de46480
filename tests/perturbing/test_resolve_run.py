"""One run of `perturb` checks one sidecar, and builds each domain and each matrix once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from ppdm_cli import perturb
from ppdm_cli.channels import KINDS
from ppdm_cli.domain import Bins, Categories
from ppdm_cli.releases import sidecars
from ppdm_cli.sidecar import Sidecar

DECLARED = {
    "x": {"domain": "0:100"},
    "y": {"domain": [0, 9], "bins": 5, "nulls": True},
    "z": {"domain": "a|b|c"},
}
ONCE = {
    "gamma": {"gamma": 9},
    "band": {"gamma": 9, "matrix": "band"},
    "declared": {"gamma": 3, "attributes": DECLARED},
}


@pytest.mark.parametrize("asked", ONCE.values(), ids=ONCE)
def test_one_run_builds_everything_once(
    asked: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: Counter[str] = Counter()

    def count(owner: Any, name: str, what: str) -> None:
        real: Callable[..., Any] = getattr(owner, name)

        def counting(*args: Any, **named: Any) -> Any:
            counted[what] += 1
            return real(*args, **named)

        monkeypatch.setattr(owner, name, counting)

    for kind in {k for k in KINDS.values() if "matrix" in vars(k)}:
        count(kind, "matrix", "matrices")
    count(sidecars, "_check", "checks")
    count(Bins, "__init__", "domains")
    count(Categories, "__init__", "domains")
    monkeypatch.setattr(Sidecar._json, "func", _counting(Sidecar._json.func, counted))  # type: ignore[attr-defined]
    rng = np.random.default_rng(1)
    columns = {"x": rng.random(3000) * 100, "y": rng.integers(0, 9, 3000), "z": rng.choice([*"abc"], 3000)}
    perturb(pl.DataFrame(columns), tmp_path / "r.parquet", **asked)
    beyond = 3 * (asked.get("matrix") == "band")  # what a band publishes reaches beyond a domain
    assert counted["domains"] <= 3 + beyond
    del counted["domains"]
    assert counted == {"matrices": 3, "checks": 1, "encodings": 1}


def _counting(real: Callable[..., Any], counted: Counter[str]) -> Callable[..., Any]:
    def counting(sidecar: Sidecar) -> Any:
        counted["encodings"] += 1
        return real(sidecar)

    return counting
