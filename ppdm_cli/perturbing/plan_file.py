"""Plan files in TOML: read within bounds, and never quoted in a message; open questions are named."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from math import isfinite
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from ppdm_cli.errors import DataError, UsageError, argument, listed, quoted, unknown
from ppdm_cli.files import content
from ppdm_cli.privacy import proposed
from ppdm_cli.tables import NULL, CsvOptions, Groups, path_of, read_mapping

QUESTION = "?"
"""The text of a plan's setting that only its owner can answer."""
PRIVACY = {"gamma", "rho1", "record_epsilon"}
_CSV = {
    "delimiter": "delimiter",
    "encoding": "encoding",
    "decimal": "decimal",
    "header": "header",
    "null": "nulls",
    "types": "types",
    "formats": "formats",
    "null_of": "nulls_of",
    "odd": "odd",
}
"""Settings of a plan's table `csv`, and their fields of `CsvOptions`."""

FROM_DATA = "data"
"""The text of a domain in a plan that is left to the data."""
LARGEST_DOMAIN = 64 << 20
"""The most bytes of a file of values that are read."""
LARGEST_PLAN = 16 << 20
_PART = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')"""
_LONG_KEY = re.compile(rf"(?<![\w-]){_PART}(?:[ \t]*+\.[ \t]*+{_PART}){{64}}")


def read_toml(path: Path, what: str = "the plan ") -> dict[str, Any]:
    """Return the settings in a plan, or in another small file of an owner (`what` it is, for messages)."""
    try:
        text = content(path, what, LARGEST_PLAN).decode("utf-8-sig")
        if _LONG_KEY.search(text):  # tomllib takes the square of its length
            raise UsageError("long-key", f"{what}{quoted(path)} has a key of too many parts", "fix that line")
        return tomllib.loads(text)
    except UnicodeError:
        step = "convert it" if path.suffix == ".toml" else "name a TOML file"
        raise UsageError("plan-encoding", f"{what}{quoted(path)} is not in UTF-8", step) from None
    except RecursionError:
        raise UsageError(
            "plan-too-deep", f"{what}{quoted(path)} is nested too deep", "use fewer levels"
        ) from None
    except tomllib.TOMLDecodeError as error:
        place = re.search(r"line \d+", str(error))  # the rest of the message may quote a category
        raise UsageError(
            "bad-toml",
            f"{what}{quoted(path)} is not valid TOML ({place[0] if place else 'at its end'})",
            "fix that line" if path.suffix == ".toml" else "name a TOML file",
        ) from None


@contextmanager
def locating(path: Path) -> Iterator[None]:
    """Add the plan's name to an error in its settings, and the line of the setting that the error names."""
    try:
        yield
    except UsageError as error:
        if quoted(path) in error.what:
            raise
        raise error.at(f"{quoted(path)}{_line(path, error.what)}") from None


def _line(path: Path, what: str) -> str:
    """Return the line on which a plan has a setting that an error names in quotes, or a table of that name."""
    lines = path.read_bytes().decode("utf-8-sig").splitlines() if path.is_file() else []
    for form in (r"\s*[\"']?{}[\"']?\s*=", r"\s*\[+[^=]*\b{}[\"']?\]"):
        for name in reversed(re.findall("'([^']+)'", what)):
            for number, line in enumerate(lines, 1):
                if re.match(form.format(re.escape(name)), line):
                    return f", line {number}"
    return ""


def read_reading(path: Path) -> tuple[dict[str, Any], list[Groups]]:
    """Return a plan's settings for reading: of a CSV, and its files of groups."""
    plan = without_questions(read_toml(path))
    tables = [w for _, w in _items(plan.get("attributes")) if isinstance(w, Mapping)]
    with locating(path):
        return csv_settings(plan.get("csv", {})), [
            read_mapping(str(w["mapping"])) for w in tables if "mapping" in w
        ]


def csv_settings(value: object) -> dict[str, Any]:
    """Return the settings for reading a CSV, as fields of `CsvOptions`."""
    if not isinstance(value, Mapping) or not set(value) <= set(_CSV):
        strange = next((k for k in value if k not in _CSV), value) if isinstance(value, Mapping) else value
        raise unknown("setting", strange, _CSV, " of csv")
    found = {_CSV[k]: v for k, v in value.items()}
    tables = [found.get(f, {}) for f in ("types", "formats", "nulls_of")]
    texts = [found.get(f, "") for f in ("delimiter", "encoding", "decimal")]
    if not all(isinstance(t, Mapping) for t in tables) or not all(isinstance(t, str) for t in texts):
        raise UsageError(
            "csv-setting", "a setting of csv has the wrong type", 'try delimiter = ";" and types.zip = "string"'
        )
    lists = [found.get("nulls", ()), *tables[1].values(), *tables[2].values()]
    if not all(_is_texts(v) for v in lists) or not all(isinstance(v, str) for v in tables[0].values()):
        raise UsageError(
            "csv-texts", "a setting of csv is not a text or a list of texts", 'try null = ["NA", "."]'
        )
    if "nulls" in found:
        found["nulls"] = ("", *([found["nulls"]] if isinstance(found["nulls"], str) else found["nulls"]))
    checked = CsvOptions(**found)
    return {name: getattr(checked, name) for name in found} | {"types": checked.types}


def _is_texts(value: object) -> bool:
    return isinstance(value, str) or (
        isinstance(value, (list, tuple)) and all(isinstance(v, str) for v in value)
    )


def questions(plan: Mapping[str, Any]) -> list[str]:
    """Return the open questions of a plan, as dotted keys."""
    found = [k for k, v in plan.items() if v == QUESTION]
    csv, attributes = plan.get("csv"), plan.get("attributes")
    found += [f"csv.{t}.{n}" for t, own in _items(csv) for n, v in _items(own) if v == QUESTION]
    return found + [f"attributes.{n}.{k}" for n, w in _items(attributes) for k, v in _items(w) if v == QUESTION]


def _example(questions: list[str]) -> str:
    """Return the option that answers a plan's question, or another way to answer several."""
    if len(questions) > 1:
        return ", or let `ppdm plan DATA -o NEW_PLAN -i` ask you"
    question = questions[0]
    name = question.removeprefix("attributes.").removesuffix(".domain")
    if question == f"attributes.{name}.domain":
        return f", or add {argument('drop', name)}"
    if question.startswith("csv.odd."):
        return f", or add {argument('odd', NULL)} if odd cells mean no value"
    if question in PRIVACY:
        return f", or add {proposed(2)}"
    return f", or add {argument('person', 'COLUMN')}, or '' for none" if question == "person" else ""


def answered(plan: object, over: Mapping[str, Any]) -> dict[str, Any]:
    """Return a plan's settings; the settings laid over it must answer its questions ('' means none)."""
    if not isinstance(plan, Mapping):
        raise UsageError(
            "not-a-plan", "a plan is a Plan, a mapping of settings or a file", "try plan={'gamma': 9}"
        )
    left = [q for q in questions(plan) if not _answers(q, over)]
    if left:
        what = f"the plan leaves open {listed(left)}"
        step = f"answer its question marks from public knowledge{_example(left)}"
        raise UsageError("open-questions", what, step)
    found = without_questions(plan)
    found |= {k: over[k] for k in plan if k not in found and k in over and k not in PRIVACY}
    if found.get("person") == "":
        found = {k: v for k, v in found.items() if k not in ("person", "rows_per_person")}
    return found


def without_questions(plan: Mapping[str, Any]) -> dict[str, Any]:
    """Return a plan's settings without its open questions; an open domain is the data's."""
    found = {k: v for k, v in plan.items() if v != QUESTION}
    if isinstance(own := found.get("attributes"), Mapping):
        found["attributes"] = {n: _answered_by_data(w) if isinstance(w, Mapping) else w for n, w in own.items()}
    return found | {"csv": _closed(csv)} if isinstance(csv := found.get("csv"), Mapping) else found


def _closed(csv: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings for reading a CSV without a plan's open questions."""
    tables = {t: w for t, w in csv.items() if isinstance(w, Mapping)}
    return {**csv, **{t: {n: v for n, v in w.items() if v != QUESTION} for t, w in tables.items()}}


def settled_plan(earlier: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Lay settings over a plan as its file has it, without the questions that will be asked anew."""
    found = {k: v for k, v in earlier.items() if v != QUESTION}
    if PRIVACY & {*given}:
        found = {k: v for k, v in found.items() if k not in (*PRIVACY, "rho2")}
    unsure = [n for n, answer in _items(found.get("csv", {}).get("odd")) if answer != NULL]
    csv = _closed(found.get("csv", {}))
    csv["null_of"] = {n: v for n, v in _items(csv.get("null_of")) if n not in unsure}
    for table, answers in given.get("csv", {}).items():
        csv[table] = {**csv.get(table, {}), **answers}
    aside = {n for key in ("keep", "drop") for n in given.get(key, ())} | {given.get("person")}
    own = {n: w for n, w in found.get("attributes", {}).items() if n not in aside}
    for name, settings in given.get("attributes", {}).items():
        declared = ("domain", "categories", "edges", "mapping") if "domain" in settings else ()
        own[name] = {k: v for k, v in own.get(name, {}).items() if k not in declared} | dict(settings)
    for key in ("keep", "drop"):
        otherwise = {*given.get("attributes", {}), *(aside - {*given.get(key, ())})}
        listed_ones = [n for n in found.get(key, ()) if n not in otherwise]
        found[key] = [*dict.fromkeys([*listed_ones, *given.get(key, ())])]
    found |= {k: v for k, v in given.items() if k not in ("csv", "keep", "drop", "attributes")}
    if found.get("person"):
        found = {"rows_per_person": 1} | found
    return {k: v for k, v in (found | {"csv": csv, "attributes": own}).items() if v not in ([], {})}


def _answered_by_data(own: Mapping[str, Any]) -> dict[str, Any]:
    asked = {"domain": FROM_DATA} if own.get("domain") == QUESTION else {}
    return {k: v for k, v in own.items() if v != QUESTION} | asked


def _answers(question: str, over: Mapping[str, Any]) -> bool:
    """Return whether settings laid over a plan answer one of its questions."""
    if question in PRIVACY:
        return bool(PRIVACY & set(over))
    if question in over:
        return True
    aside = (*over.get("keep", ()), *over.get("drop", ()), over.get("person"))
    if question.startswith("csv."):
        table, name = question.removeprefix("csv.").split(".", 1)
        csv = over.get("csv", {})
        return name in aside or bool({name, ""} & {*csv.get(table, {})}) or name in csv.get("types", {})
    if any(question.startswith(f"attributes.{name}.") for name in aside):
        return True
    own = [(n, w) for n, w in over.get("attributes", {}).items() if question.startswith(f"attributes.{n}.")]
    return any(w.gives(question.removeprefix(f"attributes.{n}.")) for n, w in own)


def _items(value: object) -> Any:
    return value.items() if isinstance(value, Mapping) else ()


# -- values as options, TOML and notebooks write them


class Fields(dict[str, Any]):
    """Fields that one setting fills."""


def converted(name: str, type_: object, value: object) -> Any:
    """Return a value in its field's type: text is read as a number or a truth value if one is meant."""
    kinds = dict.fromkeys((type_, *get_args(type_)))
    literals = [w for k in kinds if get_args(k) and isinstance(get_args(k)[0], str) for w in get_args(k)]
    try:
        value = value.strip() if isinstance(value, str) and str not in kinds else value
        plain = value.item() if hasattr(value, "item") else value
        found = msgspec.convert(plain, type_, strict=False)
        if not (isinstance(found, float) and not isfinite(found)):
            return found
    except (msgspec.ValidationError, OverflowError, ValueError):
        if literals and int not in kinds:
            raise unknown(name.replace("_", " "), value, literals) from None
    what, such = next(words for kind, words in _EXPECTED.items() if kind in kinds)
    more = f", or {' or '.join(literals)}" if literals else ""
    raise UsageError("wrong-type", f"{name}: {quoted(value)} is not {what}", f"use one such as {such}{more}")


_EXPECTED = {
    Decimal: ("a number", "9 or 4.5"),
    float: ("a finite number", "9 or 4.5"),
    int: ("a whole number", "20"),
    bool: ("true or false", "true"),
    str: ("a text", "age"),
}


def _interval(value: object) -> Any:
    """Return both ends, or their text; None if there are none."""
    if isinstance(value, (list, tuple)) and len(value) == 2:
        return tuple(value)
    return value if isinstance(value, str) and ":" in value else None


def core(value: object) -> Any:
    if (found := _interval(value)) is None:
        raise UsageError("bad-core", "a core is not an interval", "write it as 0:5000")
    return found


def domain(value: object) -> Fields:
    if value == FROM_DATA:
        return Fields(data=True)
    if isinstance(value, str) and value.startswith("@"):
        return Fields(categories=tuple(_lines(path_of(value[1:]))))
    if isinstance(value, str) and "|" in value:
        return Fields(categories=tuple(value.split("|")))
    if (interval := _interval(value)) is not None:
        return Fields(interval=interval)
    ends = re.fullmatch(r"(-?[\d.]+)(?: *- *| *, *|\.\.|;)(-?[\d.]+)", str(value))
    example = f"{ends[1]}:{ends[2]}" if ends else "0:120"
    what = "a domain is neither an interval nor a list of values"
    raise UsageError("bad-domain", what, f'write it as {example}, "low|middle|high" or @FILE')


def _lines(path: Path) -> list[str]:
    try:
        text = content(path, "the domain file ", LARGEST_DOMAIN).decode("utf-8-sig")
    except UnicodeError:
        raise DataError(
            "domain-file-encoding", f"the domain file {quoted(path)} is not in UTF-8", "convert it"
        ) from None
    lines = text.split("\n")
    return [line.removesuffix("\r") for line in lines[: -1 if lines[-1] == "" else None]]


def values(name: str) -> Callable[[Any], tuple[Any, ...]]:
    def read(value: object) -> tuple[Any, ...]:
        if not isinstance(value, (list, tuple)) or not value:
            raise UsageError(
                "not-a-list", f"{quoted(name)} must be a list of values", f"try {name} = [1, 2, 3]"
            )
        return tuple(value)

    return read


def publish(value: object) -> int | Literal["all", "auto"]:
    number = converted("publish", int | Literal["all", "auto"], value)
    if isinstance(number, int) and number < 1:
        raise UsageError(
            "bad-publish", "a record publishes 1 attribute or more", f"try {argument('publish', 2)}"
        )
    return number
