"""What fixed seeds give, as digests: releases, estimates and trees of the sample data and of 20,000 records.

`python -m tests.digests` writes `tests/data/digests.json` anew, after a change that is meant to change them.
Releases and reconstructions are compared byte for byte. What floating-point sums enter is rounded to six digits
first, so that another machine's order of additions does not count; a model's tables are in single precision, so
of a tree from a release only the nodes are compared.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import polars as pl

from ppdm_cli import estimate, perturb, reconstruct, synthetic, train_tree

ROOT = Path(__file__).resolve().parents[1]
KEPT = Path(__file__).parent / "data" / "digests.json"
RECORDS = 20_000
KINDS = ("gamma-diagonal", "band")


def digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=12).hexdigest()


def rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, (list, tuple)):
        return [rounded(v) for v in value]
    return value


def of_frame(frame: pl.DataFrame) -> str:
    return digest(json.dumps([rounded(list(row)) for row in frame.rows()], default=str).encode())


def of_tree(tree: Any) -> str:
    """Return the digest of what a tree tests and says, and of records counted; not of a model's sums."""
    parts = [tree.feature.tolist(), tree.first_child.tolist(), tree.label.tolist()]
    if (tree.counts % 1 == 0).all():
        parts.append(tree.counts.tolist())
    return digest(json.dumps(parts).encode())


def original(function: int) -> pl.DataFrame:
    return pl.DataFrame(pl.from_arrow(list(synthetic.generate(function, RECORDS, 70 + function, False))))


def found() -> dict[str, str]:
    """The digests of today."""
    digests = {}
    for function in range(1, 6):
        for kind in KINDS:
            settings: dict[str, Any] = {"gamma": 9, "bins": 20, "matrix": kind, "class_": "group"}
            release = perturb(original(function), **settings, seed=function)
            name = f"F{function}, {kind}"
            digests[f"{name}: release"] = digest(release.frame.write_csv().encode())
            told = estimate(release.frame, sidecar=release.sidecar, by="group")
            digests[f"{name}: estimate"] = of_frame(told.frame)
            if function in (1, 2) and kind == "band":
                digests[f"{name}: tree"] = of_tree(train_tree(release.frame, sidecar=release.sidecar).tree)
            if kind == "gamma-diagonal":
                method: Any = "global" if function % 2 else "by-class"
                dealt = reconstruct(release.frame, method=method, sidecar=release.sidecar)
                assert dealt.frame is not None
                digests[f"{name}: reconstruction, {method}"] = digest(dealt.frame.write_csv().encode())
    cancer = ROOT / "sample_data" / "breast_cancer.csv"
    noise: dict[str, Any] = {"scheme": "additive", "noise": "normal", "sd": "25%", "keep": ["class"]}
    noise |= {"drop": ["bare_nuclei"], "rare": "publish"}
    for name, asked in (("plan", {"plan": cancer.with_suffix(".toml")}), ("noise", noise)):
        release = perturb(cancer, **asked, seed=3, shuffle=True)
        digests[f"breast cancer, {name}: release"] = digest(release.frame.write_csv().encode())
        told = estimate(release.frame, sidecar=release.sidecar)
        digests[f"breast cancer, {name}: estimate"] = of_frame(told.frame)
    digests["breast cancer: tree"] = of_tree(train_tree(cancer, "class").tree)
    return digests


if __name__ == "__main__":
    KEPT.write_text(json.dumps(found(), indent=1) + "\n")
