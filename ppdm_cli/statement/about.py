"""What only the curator can say of a release: whose it is, what for, who has what; a TOML file beside it."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any, Literal

import msgspec

from ppdm_cli.errors import UsageError, quoted
from ppdm_cli.perturbing import read_toml

Sector = Literal["Technology", "Healthcare", "Education", "Government", "Energy", "Finance"]


class About(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The settings of the file; all of them may be left out, and the statement then says so."""

    name: str = ""
    curators: list[str] = []
    purpose: str = ""
    region: str = ""
    description: str = ""
    published: dt.date | None = None
    sector: Sector | None = None
    population: str = ""
    actors: str = ""
    custody: str = ""
    exposure: str = ""
    order: str = ""
    releases: Literal["one", "many"] | None = None
    later: str = ""
    source: Literal["static", "dynamic"] | None = None
    preparation: str = ""
    choices: str = ""
    risks: list[str] = []
    review: dt.date | None = None
    sources: str = ""
    notes: str = ""
    authors: list[str] = []


REQUIRED = ("name", "curators", "purpose", "region", "description", "published", "authors")
"""What the registry of deployments cannot do without, and nobody but the curator knows."""
_EXAMPLES = {"curators": '["Example Hospital"]', "authors": '["A. Person"]', "published": "2026-11-19"}


def read_about(path: Path | None) -> About:
    """Read the file strictly; none is one that says nothing."""
    if path is None:
        return About()
    settings = read_toml(path, "the file about the release, ")
    try:
        return msgspec.convert({k: _plain(v) for k, v in settings.items()}, type=About)
    except msgspec.ValidationError as error:
        raise UsageError(
            f"{quoted(path)} is not what --about takes: {error}",
            f"its settings are {', '.join(About.__struct_fields__)}",
        ) from None


def _plain(value: Any) -> Any:
    """Return a setting without the spaces around it; a date and time is a date."""
    if isinstance(value, list):
        return [_plain(v) for v in value]
    if isinstance(value, dt.datetime):
        return value.date()
    return value.strip() if isinstance(value, str) else value


def missing(about: About) -> list[str]:
    """Return the settings that the registry cannot do without."""
    return [n for n in REQUIRED if not getattr(about, n)]


def check_complete(about: About) -> None:
    """Refuse an export that the registry would refuse."""
    lacking = missing(about)
    if lacking:
        example = " and ".join(f"{n} = {_EXAMPLES.get(n, quoted('...'))}" for n in lacking[:2])
        raise UsageError(
            f"the registry of deployments requires what is not told: {', '.join(lacking)}",
            f"tell it in a TOML file and name that with --about, such as {example}",
        )
