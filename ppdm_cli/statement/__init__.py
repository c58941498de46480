"""Statements for data protection officers to sign: the promise of a release, and questions for its owner.

`state` gathers the release, the owner's own words, what attacks can be expected to achieve and the ledger, and
puts them on one page of HTML. No file but the release's own is hashed: a digest of the original, a key or the
ledger would confirm guesses.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from pathlib import Path

import msgspec
from msgspec import UNSET

from ppdm_cli import files
from ppdm_cli.errors import MismatchError, RefusedError, UsageError, argument, quoted, unknown
from ppdm_cli.perturbing import read_toml
from ppdm_cli.privacy import PRIOR
from ppdm_cli.releases import open_account, open_release, read_sidecar
from ppdm_cli.sidecar import Sidecar
from ppdm_cli.statement.content import QUESTIONS, AttackReport, Statement, about_template
from ppdm_cli.tables import PendingFile, commit, is_sidecar, path_of, sidecar_path

__all__ = ["about_template", "state"]

MOST_REPORT = 64 << 20


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
) -> dict[str, object]:
    """Write the statement about a release, and return its figures, as `--json` prints them.

    Parameters
    ----------
    release : path
        The release, or its sidecar alone.
    output : path
        The file of the statement, which ends in .html.
    about : path, optional
        A TOML file of the owner's answers.
    attack : path, optional
        The output of `ppdm attack --json` for this release.
    ledger : path, optional
        The ledger of releases about the same people.
    people : str, optional
        Their name in the ledger.
    sidecar : path, optional
        The sidecar, if it is not beside the release.
    force : bool, default False
        True to replace an existing file.
    prior : float, default 0.05
        The probability with which a reader believed a value before.
    """
    path = path_of(output)
    if path.suffix != ".html":
        what = f"the statement {quoted(path.name)} does not end in .html"
        raise UsageError("unknown-statement-format", what, f"use {argument('report', 'statement.html')}")
    account = open_account(ledger, people)
    found, hashed = _read_release(path_of(release), None if sidecar is None else path_of(sidecar))
    answers = {} if about is None else _read_about(path_of(about))
    report = None if attack is None else _read_report(path_of(attack), found)
    assert found.privacy is not UNSET
    statement = Statement(found, found.privacy, hashed, answers, report, account, prior)
    with PendingFile(path, force) as target:
        target.put(statement.page.encode())
        commit(target)
    return statement.figures


def _read_release(file: Path, sidecar: Path | None) -> tuple[Sidecar, dict[str, str]]:
    """Return the sidecar of a release that it fits, or a sidecar alone, and the files to list."""
    if is_sidecar(file):
        found, parts = read_sidecar(file, None, str(file)), [file]
    else:
        table, found = open_release(file, sidecar, stages=None)
        beside = sidecar or sidecar_path(file)
        parts = [*table.files, *[beside] * beside.exists()]
    if found.stage != "perturbed":
        what = f"{quoted(file)} isn't a release: its stage is {found.stage!r}"
        raise UsageError("statement-needs-release", what, "name the release")
    return found, {p.name: _hashed(p) for p in parts}


def _hashed(path: Path) -> str:
    with files.readable(path), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read_about(path: Path) -> dict[str, str]:
    """Read the owner's answers: text, dates, or lists of texts."""
    found = dict[str, str]()
    for name, value in read_toml(path, "the file about the release, ").items():
        if name not in QUESTIONS:
            raise unknown("setting", name, QUESTIONS, f" in {quoted(path)}")
        several = value if isinstance(value, list) else [value]
        if not all(isinstance(v, (str, dt.date)) for v in several):
            what = f"the setting {quoted(name)} in {quoted(path)} isn't text"
            raise UsageError("about-invalid", what, f'write it in quotes: {name} = "..."')
        found[name] = "; ".join(str(v).strip() for v in several)
    return found


def _read_report(path: Path, sidecar: Sidecar) -> AttackReport:
    """Return the output of `attack --json` for this release; measured figures are refused."""
    data = files.content(path, "the report of attacks ", MOST_REPORT)
    try:
        report = msgspec.json.decode(data, type=AttackReport)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        what = f"{quoted(path)} is not a JSON report of ppdm attack"
        raise UsageError("attack-report-invalid", what, "make it again, as JSON") from None
    if report.release != sidecar.release:
        what = f"{quoted(path)} is the report of another release"
        step = "run ppdm attack on this release, or name its report"
        raise MismatchError("attack-report-of-another-release", what, step)
    if report.measured:
        what = f"the figures in {quoted(path)} were measured against the original, so they reveal private data"
        raise RefusedError("measured-figures-published", what, f"run attack without {argument('truth')}")
    return report
