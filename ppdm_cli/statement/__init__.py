"""The statement for a data protection officer: what a release promises, and all that an answer for it needs.

`state` gathers the release, the curator's own words, what attacks can be expected to achieve and the ledger,
and puts them on one page: HTML, Markdown, JSON, or the entry of the registry of deployments in YAML.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec

from ppdm_cli import inspection
from ppdm_cli.errors import PpdmError, UsageError, quoted
from ppdm_cli.files import one_run
from ppdm_cli.ledger import account
from ppdm_cli.sidecar import TOOL, display_json
from ppdm_cli.statement import html, markdown
from ppdm_cli.statement.about import read_about
from ppdm_cli.statement.content import sections
from ppdm_cli.statement.material import Material, read_release, read_report
from ppdm_cli.statement.registry import entry, yaml
from ppdm_cli.tables import PendingFile, commit

__all__ = ["state"]

_SUFFIXES = (".html", ".md", ".json", ".yaml")
_INTERNAL = (
    "Internal: this statement has figures that were measured against the original. It is not for publication."
)
_NOTHING = "Nothing is promised of this release."


@one_run()
def state(
    release: str | Path,
    output: str | Path,
    *,
    about: str | Path | None = None,
    attack: str | Path | None = None,
    ledger: str | Path | None = None,
    people: str | None = None,
    sidecar: str | Path | None = None,
    internal: bool = False,
    force: bool = False,
    prior: float = inspection.PRIOR,
) -> None:
    """Write the statement about a release, in the format of the output's suffix.

    `about` is the curator's TOML file, `attack` what `ppdm attack --json` printed, `ledger` a ledger with the
    name of its `people`.
    """
    path, source = Path(output), Path(release)
    if path.suffix not in _SUFFIXES:
        raise UsageError(
            f"the suffix of {quoted(path.name)} names no statement", f"name one of {', '.join(_SUFFIXES)}"
        )
    if (ledger is None) != (people is None):
        raise UsageError("--ledger and --people go together", "say both")
    with ExitStack() as stack:
        found, hashed = read_release(source, None if sidecar is None else Path(sidecar))
        told = read_about(None if about is None else Path(about))
        report = read_report(None if attack is None else Path(attack), found, internal)
        entered = None if ledger is None else account(Path(ledger), people or "")
        material = Material(found, hashed, told, report, entered, internal, prior)
        target = stack.enter_context(PendingFile(path, force))
        target.put(_written(material, path.suffix).encode())
        commit(target)


def _written(m: Material, suffix: str) -> str:
    if suffix == ".yaml":
        return yaml(entry(m))
    if suffix == ".json":
        return display_json(_figures(m)).decode()
    title = f"Privacy statement: {m.about.name or f'release {m.sidecar.release}'}"
    under = f"Release {m.sidecar.release}, made by {m.sidecar.tool}; stated by {TOOL} on {m.today}"
    measured = m.attack is not None and m.attack.measured
    banners = [_INTERNAL] * measured + [_NOTHING] * (m.epsilon is None)
    return (html if suffix == ".html" else markdown).page(title, under, banners, sections(m))


def _figures(m: Material) -> dict[str, Any]:
    """Return the statement for programs; the registry's entry is null where it would be refused."""
    try:
        registered, lacking = entry(m), None
    except PpdmError as error:
        registered, lacking = None, error.what
    return {
        "format": "ppdm-statement",
        "version": 1,
        "tool": TOOL,
        "stated": m.today,
        "internal": m.internal,
        "about": msgspec.to_builtins(m.about),
        "files": [asdict(f) for f in m.files],
        "attack": None if m.attack is None else msgspec.to_builtins(m.attack),
        "ledger": None
        if m.account is None
        else {"people": m.account.people, "total": _number(m.account.total), "limit": m.account.limit,
              "entries": msgspec.to_builtins(m.account.entries)},
        "promise": inspection.figures(m.sidecar, m.prior),
        "sentences": m.sentences,
        "registry": registered,
        "registry_refused": lacking,
    }  # fmt: skip


def _number(total: float) -> float | None:
    return None if total == float("inf") else total
