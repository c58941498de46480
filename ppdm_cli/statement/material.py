"""All that a statement speaks of: the sidecar, the release's files, the curator's words, attacks, the ledger.

No file but the release's own is hashed: a digest of the original, a key or the ledger would confirm guesses.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET

from ppdm_cli import files, inspection
from ppdm_cli.errors import MismatchError, RefusedError, UsageError, quoted
from ppdm_cli.ledger import Account
from ppdm_cli.releases import open_release, read_sidecar
from ppdm_cli.sidecar import SUFFIX, Privacy, Sidecar
from ppdm_cli.statement.about import About
from ppdm_cli.tables import sidecar_path

MOST_REPORT = 64 << 20


class Row(msgspec.Struct, frozen=True):
    """How one attack does on one attribute; other figures of the report are passed over."""

    attack: str
    attribute: str
    exact: float | None = None
    exact_prior: float | None = None
    exact_low: float | None = None
    exact_high: float | None = None
    rmse_share: float | None = None
    largest_posterior: float | None = None


class Ordered(msgspec.Struct, frozen=True):
    """Whether the published order of the rows tells values of an attribute."""

    attribute: str
    published_tells: bool


class Report(msgspec.Struct, frozen=True):
    """What `ppdm attack --json` printed."""

    release: str
    measured: bool
    attacks: list[Row]
    sentences: list[str]
    order: list[Ordered] = []
    honest: bool | None = None


@dataclass(frozen=True)
class File:
    """One of the release's files."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Material:
    """What the sections, the registry's entry and the JSON of a statement are made of."""

    sidecar: Sidecar
    files: list[File]
    about: About
    attack: Report | None
    account: Account | None
    internal: bool
    prior: float

    @cached_property
    def privacy(self) -> Privacy:
        assert self.sidecar.privacy is not UNSET
        return self.sidecar.privacy

    @cached_property
    def epsilon(self) -> float | None:
        """Return the promise over a record or a person; None where there is none."""
        stated = self.privacy.perturbed_epsilon
        return None if stated is None or not isfinite(float(stated)) else float(stated)

    @cached_property
    def attributes(self) -> list[dict[str, Any]]:
        return [] if self.sidecar.altered else inspection.of_attributes(self.sidecar)

    @cached_property
    def record(self) -> dict[str, Any]:
        return inspection.of_record(self.sidecar, self.prior)

    @cached_property
    def sentences(self) -> list[str]:
        return inspection.sentences(self.sidecar, self.prior)

    @cached_property
    def today(self) -> str:
        return dt.datetime.now(dt.UTC).date().isoformat()


def read_release(file: Path, sidecar: Path | None) -> tuple[Sidecar, list[File]]:
    """Return the sidecar of a release that it fits, or of a sidecar alone, and what is there to be checked."""
    if file.name.endswith((SUFFIX, ".json")):
        found, parts = read_sidecar(file, None, str(file)), [file]
    else:
        _, found = open_release(file, sidecar, stages=None)
        beside = sidecar or sidecar_path(file)
        parts = [file, *[beside] * beside.exists()]
    if found.stage != "perturbed":
        raise UsageError(f"{quoted(file)} is no release: its stage is {found.stage!r}", "name the release")
    return found, [_hashed(p) for p in parts]


def _hashed(path: Path) -> File:
    with files.readable(path), path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return File(path.name, file.tell(), digest)


def read_report(path: Path | None, sidecar: Sidecar, internal: bool) -> Report | None:
    """Return what `attack --json` said of this release; what was measured stays inside."""
    if path is None:
        return None
    data = files.content(path, "the report of attacks ", MOST_REPORT)
    try:
        report = msgspec.json.decode(data, type=Report)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise UsageError(
            f"{quoted(path)} is not what ppdm attack prints for programs", "make it again, as JSON"
        ) from None
    if report.release != sidecar.release:
        raise MismatchError(
            f"the attacks in {quoted(path)} were on another release", "attack this one, or name its report"
        )
    if report.measured and not internal:
        raise RefusedError(
            f"the figures in {quoted(path)} were measured against the original, and tell of it",
            "run attack without --truth for what is expected, or add --internal for a statement that nobody "
            "else gets",
        )
    return report
