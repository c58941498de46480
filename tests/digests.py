"""What fixed seeds give, as digests: releases of sample data and of made records, and what is learnt there.

`python -m tests.digests` writes `tests/data/digests.json` anew, after a change that is meant to change them.
Releases and reconstructions are compared byte for byte. What floating-point sums enter is rounded to six digits
first, so that another machine's order of additions does not count, and to four where an iteration stops by a
threshold; a model's tables are in single precision, so of a tree from a release only the nodes are compared.
What is refused is held by the error's name. `tests.digests_recipes` has the releases whose records publish a
few of their attributes, `tests.digests_kinds` the small ones of every other kind.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import numpy as np
import polars as pl

from ppdm_cli import (
    PpdmError,
    attack,
    estimate,
    inspect,
    perturb,
    query,
    reconstruct,
    state,
    train_tree,
)
from ppdm_cli.tables import synthetic

ROOT = Path(__file__).resolve().parents[1]
KEPT = Path(__file__).parent / "data" / "digests.json"
RECORDS = 20_000
KINDS = ("gamma-diagonal", "band")
CANCER = ROOT / "sample_data" / "breast_cancer.csv"
EXACT, ITERATED = 6, 4
"""Digits that are compared of sums, and of what an iteration came to."""
LEFT_OUT = ("tool", "stated", "files", "united_bins", "about")
"""What a statement says of the run that made it, and of a feature that no release here has."""
TOOL = re.compile(rb'"tool": ?"[^"]*"')
Digests = dict[str, str]


def digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=12).hexdigest()


def rounded(value: Any, digits: int = EXACT) -> Any:
    if isinstance(value, (float, np.floating)):
        return float(f"{value:.{digits}g}")
    if isinstance(value, (list, tuple)):
        return [rounded(v, digits) for v in value]
    if isinstance(value, Mapping):
        return {str(k): rounded(v, digits) for k, v in value.items()}
    return value


def of_data(value: Any, digits: int = EXACT) -> str:
    """Return the digest of figures, without what is left out; what rounding left of 0 is 0."""
    return digest(json.dumps(rounded(_plain(value), digits), default=str, sort_keys=True).encode())


def _plain(value: Any) -> Any:
    if isinstance(value, (float, np.floating)):
        return 0.0 if abs(value) < 1e-9 else value
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, Mapping):
        return {k: _plain(v) for k, v in value.items() if k not in LEFT_OUT}
    return value


def of_frame(frame: pl.DataFrame) -> str:
    return digest(json.dumps([rounded(list(row)) for row in frame.rows()], default=str).encode())


def of_table(frame: pl.DataFrame, digits: int = EXACT) -> str:
    """Return the digest of a frame with the names of its columns."""
    return of_data([frame.columns, [list(row) for row in frame.rows()]], digits)


def of_csv(frame: pl.DataFrame) -> str:
    return digest(frame.write_csv().encode())


def of_tree(tree: Any) -> str:
    """Return the digest of what a tree tests and says, and of records counted; not of a model's sums."""
    parts = [tree.feature.tolist(), tree.first_child.tolist(), tree.label.tolist()]
    if (tree.counts % 1 == 0).all():
        parts.append(tree.counts.tolist())
    return digest(json.dumps(parts).encode())


def of_sidecar(path: Path) -> str:
    """Return the digest of a sidecar's bytes, but for the version that wrote it."""
    return digest(TOOL.sub(b"", path.read_bytes()))


def original(function: int, records: int = RECORDS) -> pl.DataFrame:
    return pl.DataFrame(pl.from_arrow(list(synthetic.generate(function, records, 70 + function, False))))


def or_refused(call: Callable[[], str]) -> str:
    """Return a digest, or which error says why there is none."""
    try:
        return call()
    except PpdmError as error:
        return f"refused: {type(error).__name__}"


@dataclass(frozen=True)
class Made:
    """A release in a file, with its original, and what is asked of it."""

    path: Path
    truth: pl.DataFrame
    pair: tuple[str, str]
    """The attributes whose combinations are estimated."""
    by: str
    """The class."""
    questions: Mapping[str, str] = field(default_factory=dict)
    attacked: bool = True

    @property
    def sidecar(self) -> Path:
        return self.path.with_name(f"{self.path.name}.ppdm.json")


def in_file(folder: Path, truth: pl.DataFrame, asked: Mapping[str, Any], **about: Any) -> Made:
    """Perturb into a CSV file; rows stay in order, so that attacks can be measured."""
    path = folder / "release.csv"
    perturb(truth, path, force=True, **{"keep_order": True} | dict(asked))
    return Made(path, truth, **about)


def of_release(made: Made) -> Digests:
    """Return what a release says of itself."""
    told = inspect(made.path)
    said = {"figures": told.figures, "sentences": told.sentences}
    return {
        "release": digest(made.path.read_bytes()),
        "sidecar": of_sidecar(made.sidecar),
        "inspect": of_data(said),
        "statement": or_refused(lambda: _statement(made)),
    }


def _statement(made: Made) -> str:
    return of_data(state(made.path, made.path.with_name("statement.html"), force=True))


def of_estimates(made: Made) -> Digests:
    ways: dict[str, dict[str, Any]] = {"estimate": {}, "estimate, by class": {"by": made.by}}
    ways["estimate, joint"] = {"joint": made.pair}
    ways |= {f"estimate, {e}": {"estimator": e} for e in ("inverse", "set-scale", "simplex")}
    return {
        name: or_refused(lambda way=way: of_table(estimate(made.path, **way).frame, ITERATED))
        for name, way in ways.items()
    }


def of_reconstructions(made: Made) -> Digests:
    return {
        f"reconstruction, {method}": or_refused(
            lambda method=method: of_csv(reconstruct(made.path, method=method).frame)
        )
        for method in ("joint", "by-class", "global")
    }


def of_answers(made: Made) -> Digests:
    return {
        f"query, {name}": or_refused(lambda text=text: of_table(query(made.path, text).frame))
        for name, text in made.questions.items()
    }


def of_attacks(made: Made) -> Digests:
    ways: dict[str, dict[str, Any]] = {"expected": {}, "measured": {"truth": made.truth}}
    return {f"attack, {n}": or_refused(lambda way=way: _attacked(made, way)) for n, way in ways.items()}


def _attacked(made: Made, way: Mapping[str, Any]) -> str:
    done = attack(made.path, **way)
    names = ("record", "rows", "kept", "repeat", "order", "audit", "coins", "unseen", "honest", "sentences")
    figures = {n: getattr(done, n) for n in names} | {"unseen": done.unseen or {}}
    return of_data(msgspec.to_builtins(figures), ITERATED)


def of_every_result(made: Made) -> Digests:
    """Return what a release says, and what is learnt from it in every way."""
    tree = or_refused(lambda: of_tree(train_tree(made.path, made.by).tree))
    held = of_release(made) | of_estimates(made) | of_reconstructions(made) | {"tree": tree}
    return held | of_answers(made) | (of_attacks(made) if made.attacked else {})


def named(name: str, digests: Mapping[str, str]) -> Digests:
    return {f"{name}: {what}": held for what, held in digests.items()}


def of_functions() -> Digests:
    """Return the digests of releases of 20,000 records of F1 to F5."""
    digests = {}
    for function in range(1, 6):
        for kind in KINDS:
            settings: dict[str, Any] = {"gamma": 9, "bins": 20, "matrix": kind, "class_": "group"}
            release = perturb(original(function), **settings, seed=function)
            name = f"F{function}, {kind}"
            digests[f"{name}: release"] = of_csv(release.frame)
            told = estimate(release.frame, sidecar=release.sidecar, by="group")
            digests[f"{name}: estimate"] = of_frame(told.frame)
            if function in (1, 2) and kind == "band":
                digests[f"{name}: tree"] = of_tree(train_tree(release.frame, sidecar=release.sidecar).tree)
            if kind == "gamma-diagonal":
                method: Any = "global" if function % 2 else "by-class"
                dealt = reconstruct(release.frame, method=method, sidecar=release.sidecar)
                assert dealt.frame is not None
                digests[f"{name}: reconstruction, {method}"] = of_csv(dealt.frame)
    return digests


def of_cancer() -> Digests:
    digests = {}
    noise: dict[str, Any] = {"scheme": "additive", "noise": "normal", "sd": "25%", "keep": ["class"]}
    noise |= {"drop": ["bare_nuclei"], "rare": "publish"}
    for name, asked in (("plan", {"plan": CANCER.with_suffix(".toml")}), ("noise", noise)):
        release = perturb(CANCER, **asked, seed=3, shuffle=True)
        digests[f"breast cancer, {name}: release"] = of_csv(release.frame)
        told = estimate(release.frame, sidecar=release.sidecar)
        digests[f"breast cancer, {name}: estimate"] = of_frame(told.frame)
    digests["breast cancer: tree"] = of_tree(train_tree(CANCER, "class").tree)
    return digests


def found() -> Digests:
    """The digests of today."""
    from tests.digests_kinds import of_kinds
    from tests.digests_recipes import of_recipes

    digests = of_functions() | of_cancer()
    with TemporaryDirectory() as folder:
        return digests | of_recipes(Path(folder)) | of_kinds(Path(folder))


if __name__ == "__main__":
    KEPT.write_text(json.dumps(found(), indent=1) + "\n")
