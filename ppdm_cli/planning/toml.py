"""A plan in commented TOML: its comments are constants, the rest names of columns and choices from lists."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ppdm_cli.perturbing import QUESTION
from ppdm_cli.planning.advice import BINS, Advice
from ppdm_cli.planning.csv_reading import Written

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_WHY = {
    "prefix": 'so many characters of each code are kept; or mapping = "groups.csv", a file of value,group',
    "other": "rare values, and new ones in later batches, become (other)",
    "scale": "bins of the calendar: month, quarter, year or decade",
    "nulls": "null is a category of its own",
    "domain": 'the interval that is publicly known to hold what matters, such as "0:5000"; the rest is clipped',
}


def text(value: str) -> str:
    """Return text as TOML writes it, on one line whatever it holds."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    escaped = escaped.replace("\t", "\\t")
    return '"' + "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in escaped) + '"'


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else text(name)


def _value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_value, value))}]"
    return text(value) if isinstance(value, str) else str(value)


def written_plan(
    found: Sequence[Advice],
    privacy: Mapping[str, Any],
    shuffle: bool,
    csv: Mapping[str, Any],
    written: Mapping[str, Written],
) -> str:
    """Return the plan; `csv` says how the file is read, `written` how its columns are, where it is a CSV."""
    lines = [
        "# A plan for ppdm perturb. It holds names of columns and choices, no value and no count of the data.",
        f"# Answer each {text(QUESTION)} from public knowledge, then perturb by this plan.",
        "",
    ]
    if privacy:
        lines += [f"{k} = {_value(v)}" for k, v in privacy.items()]
    else:
        lines.append(f"gamma = {text(QUESTION)}  # what each attribute reveals, above 1; or record_epsilon")
    if any(a.repeats for a in found):
        lines += [
            f'person = {text(QUESTION)}  # the column that says whose a record is; or "" for none',
            "rows_per_person = 1  # the most rows of a person; the promise is gamma to that power",
        ]
    lines += [
        f"bins = {BINS}",
        'rare = "merge"  # values of fewer than ten records go to a more common one',
        "clip = true  # values outside a domain go to its nearest value, or to null",
        f"shuffle = {_value(shuffle)}  # true if the order of the rows reveals values",
    ]
    dropped = [a for a in found if a.drop]
    if dropped:
        lines += ["drop = [", *(f"  {text(a.name)},  # {a.drop}" for a in dropped), "]"]
    lines.append("# keep = []  # columns to publish unchanged: nothing protects them")
    taking_part = {a.name for a in found if not a.drop}
    lines += _csv(csv, {n: w for n, w in written.items() if n in taking_part}) + _attributes(found)
    return "\n".join(lines) + "\n"


def _csv(csv: Mapping[str, Any], written: Mapping[str, Written]) -> list[str]:
    if not csv:
        return []
    lines = ["", "[csv]", *(f"{k} = {_value(v)}" for k, v in csv.items())]
    lines[-1] += "  # usual spellings of no value, and yours"
    for name, w in written.items():
        lines.append(f"types.{_key(name)} = {_value(w.type)}" + "  # digits that begin with zeros" * w.padded)
    for name, w in written.items():
        if w.formats:
            unsure = w.doubt.startswith("day and month")
            said = _value(QUESTION if unsure else list(w.formats))
            lines.append(f"formats.{_key(name)} = {said}" + '  # "%d/%m/%Y" or "%m/%d/%Y"' * unsure)
        if w.nulls:
            lines.append(f"null_of.{_key(name)} = {_value(w.nulls)}  # for no value, in this column")
    return lines


def _attributes(found: Sequence[Advice]) -> list[str]:
    lines = []
    for one in found:
        if one.drop:
            continue
        domain = {} if "domain" in one.settings else {"domain": "data"}
        lines += ["", f"[attributes.{_key(one.name)}]"]
        for key, value in (domain | one.settings).items():
            why = one.asked if key == "domain" and one.asked else _WHY[key]
            lines.append(f"{key} = {_value(value)}" + (f"  # {why}" if value != "data" else ""))
    return lines
