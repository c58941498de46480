"""Statements for data protection officers: what a release promises, and all that an answer for it needs.

`state` gathers the release, the curator's own words, what attacks can be expected to achieve and the ledger,
and puts them on one page of HTML, or into JSON. No file but the release's own is hashed: a digest of the
original, a key or the ledger would confirm guesses.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from dataclasses import asdict
from pathlib import Path

import msgspec

from ppdm_cli import files
from ppdm_cli.errors import MismatchError, RefusedError, UsageError, argument, quoted
from ppdm_cli.perturbing import read_toml
from ppdm_cli.privacy import PRIOR
from ppdm_cli.releases import open_account, open_release, promise_figures, read_sidecar
from ppdm_cli.sidecar import SUFFIX, TOOL, Sidecar, display_json
from ppdm_cli.statement.content import About, AttackReport, Material, ReleaseFile, html, material, sections
from ppdm_cli.tables import PendingFile, commit, sidecar_path

__all__ = ["state"]

MOST_REPORT = 64 << 20
_NOTHING = "Nothing is promised of this release."


@files.one_run()
def state(
    release: str | Path,
    output: str | Path,
    *,
    about: str | Path | None = None,
    attack: str | Path | None = None,
    ledger: str | Path | None = None,
    people: str | None = None,
    sidecar: str | Path | None = None,
    force: bool = False,
    prior: float = PRIOR,
) -> None:
    """Write the statement about a release.

    Parameters
    ----------
    release : path
        The release, or its sidecar alone.
    output : path
        Where the statement goes: .html, or .json for programs.
    about : path, optional
        A TOML file of what only the curator can say.
    attack : path, optional
        What `ppdm attack --json` printed of this release.
    ledger : path, optional
        The ledger of releases about the same people.
    people : str, optional
        Their name in the ledger.
    sidecar : path, optional
        The sidecar, where it is not beside the release.
    force : bool, default False
        Replace an existing file.
    prior : float, default 0.05
        How sure of a value a reader was before.
    """
    path = Path(output)
    if path.suffix not in (".html", ".json"):
        raise UsageError(
            "unknown-statement-format",
            f"the suffix of {quoted(path.name)} names no statement",
            "name one of .html, .json",
        )
    account = open_account(ledger, people)
    found, hashed = _read_release(Path(release), None if sidecar is None else Path(sidecar))
    words = About() if about is None else _read_about(Path(about))
    report = None if attack is None else _read_report(Path(attack), found)
    m = material(found, hashed, words, report, account, prior)
    with PendingFile(path, force) as target:
        target.put(_page(m) if path.suffix == ".html" else display_json(_figures(m)))
        commit(target)


def _page(m: Material) -> bytes:
    title = f"Privacy statement: {m.about.name or f'release {m.sidecar.release}'}"
    under = f"Release {m.sidecar.release}, made by {m.sidecar.tool}; stated by {TOOL} on {_today()}"
    return html(title, under, [_NOTHING] * (m.epsilon is None), sections(m)).encode()


def _today() -> str:
    return dt.datetime.now(dt.UTC).date().isoformat()


def _figures(m: Material) -> dict[str, object]:
    """Return the statement for programs."""
    entered = m.account and {
        "people": m.account.people,
        "total": None if m.account.total == float("inf") else m.account.total,
        "limit": m.account.limit,
        "entries": m.account.entries,
    }
    return {
        "format": "ppdm-statement",
        "version": 1,
        "tool": TOOL,
        "stated": _today(),
        "about": m.about,
        "files": [asdict(f) for f in m.files],
        "attack": m.attack,
        "ledger": entered,
        "promise": promise_figures(m.sidecar, m.prior),
        "sentences": [f.sentence for f in m.facts],
    }


def _read_release(file: Path, sidecar: Path | None) -> tuple[Sidecar, list[ReleaseFile]]:
    """Return the sidecar of a release that it fits, or of a sidecar alone, and what is there to be checked."""
    if file.name.endswith((SUFFIX, ".json")):
        found, parts = read_sidecar(file, None, str(file)), [file]
    else:
        _, found = open_release(file, sidecar, stages=None)
        beside = sidecar or sidecar_path(file)
        parts = [file, *[beside] * beside.exists()]
    if found.stage != "perturbed":
        raise UsageError(
            "statement-needs-release",
            f"{quoted(file)} isn't a release: its stage is {found.stage!r}",
            "name the release",
        )
    return found, [_hashed(p) for p in parts]


def _hashed(path: Path) -> ReleaseFile:
    with files.readable(path), path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return ReleaseFile(path.name, file.tell(), digest)


def _read_about(path: Path) -> About:
    """Read the curator's file strictly."""
    settings = read_toml(path, "the file about the release, ")
    try:
        return msgspec.convert({k: _plain(v) for k, v in settings.items()}, type=About)
    except msgspec.ValidationError as error:
        raise UsageError(
            "about-invalid",
            f"{quoted(path)} is not what {argument('about')} takes: {error}",
            f"its settings are {', '.join(About.__struct_fields__)}",
        ) from None


def _plain(value: object) -> object:
    """Return a setting without the spaces around it; a date and time is a date."""
    if isinstance(value, list):
        return [_plain(v) for v in value]
    if isinstance(value, dt.datetime):
        return value.date()
    return value.strip() if isinstance(value, str) else value


def _read_report(path: Path, sidecar: Sidecar) -> AttackReport:
    """Return what `attack --json` said of this release; what was measured is refused."""
    data = files.content(path, "the report of attacks ", MOST_REPORT)
    try:
        report = msgspec.json.decode(data, type=AttackReport)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise UsageError(
            "attack-report-invalid",
            f"{quoted(path)} is not what ppdm attack prints for programs",
            "make it again, as JSON",
        ) from None
    if report.release != sidecar.release:
        raise MismatchError(
            "attack-report-of-another-release",
            f"the attacks in {quoted(path)} were on another release",
            "attack this one, or name its report",
        )
    if report.measured:
        raise RefusedError(
            "measured-figures-published",
            f"the figures in {quoted(path)} were measured against the original, and reveal some of it",
            f"run attack without {argument('truth')} for what is expected",
        )
    return report
