"""Errors for every package: one family, each with an exit code, and the names of arguments in messages.

Every error says what was wrong (column, file, row) and the next step, but never a value of a private column: a
message is published more easily than data. Names of columns and files are quoted, so that all their characters
stay on one line.

A message names an argument with `argument("gamma", 9)`: that is "--gamma 9" while a command runs, and
"gamma=9" for whoever calls the library.
"""

from __future__ import annotations

import difflib
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import IntEnum
from pathlib import PurePath
from typing import Self


class Exit(IntEnum):
    """The exit codes of commands."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    MISMATCH = 3
    REFUSED = 4
    INTERRUPTED = 130
    TERMINATED = 143


def in_sentences(what: str, next_step: str) -> str:
    """Return what is wrong and what to do about it, the latter as a sentence of its own."""
    return f"{what}. {next_step[:1].upper()}{next_step[1:]}" if next_step else what


class PpdmError(Exception):
    """An error that a person can act on.

    Tests and programs use its `id`, which never changes with the words. Both `what` happened and where (column,
    file, row), and the `next_step`, name arguments by `argument`.
    """

    title = "ppdm failed"
    exit_code = Exit.FAILED

    def __init__(self, id: str, what: str, next_step: str) -> None:
        self.id, self.what, self.next_step = id, one_line(what), one_line(next_step)
        super().__init__(id, self.what, self.next_step)

    def __str__(self) -> str:
        return f"{self.title}: {in_sentences(self.what, self.next_step)}"

    def at(self, where: str) -> Self:
        """Return the same error, with the place where it arose in front."""
        return type(self)(self.id, f"{where}: {self.what}", self.next_step)


class DataError(PpdmError):
    """The error for data or runs that fail: outside the domain, ragged, truncated, disk full."""

    title = "data"
    exit_code = Exit.FAILED


class UsageError(PpdmError):
    """The error for a wrong call: an unknown column, a bad number, a missing option."""

    title = "usage"
    exit_code = Exit.USAGE


def missing_package(what: str, *packages: str) -> UsageError:
    """Return the error about packages that aren't installed, with the command that adds them here."""
    command = shlex.join([sys.executable, "-m", "pip", "install", *packages])
    return UsageError("missing-package", f"{what} that isn't installed", f"install it: {command}")


class MismatchError(PpdmError):
    """The error for a sidecar and data that do not fit."""

    title = "mismatch"
    exit_code = Exit.MISMATCH


class RefusedError(PpdmError):
    """The error for a call that would reveal too much, or mean nothing."""

    title = "refused"
    exit_code = Exit.REFUSED


Options = Mapping[str, tuple[str, bool]]
"""The options of a command by the library's names of them, each with whether it may be repeated."""
_OPTIONS: Options | None = None


def options_in_use() -> Options | None:
    """Return the options of the command that runs; None in Python."""
    return _OPTIONS


@contextmanager
def worded_by(options: Options | None) -> Iterator[None]:
    """Name arguments as these options in all messages that are made inside, on whichever thread."""
    global _OPTIONS
    before, _OPTIONS = _OPTIONS, options
    try:
        yield
    finally:
        _OPTIONS = before


def argument(name: str, example: object = "", column: str = "") -> str:
    """Return an argument of the library with a value that can be pasted, as the caller writes it.

    `argument("gamma", 9)` is gamma=9, and --gamma 9 while a command runs; `argument("shuffle", True)` is
    shuffle=True and --shuffle; `argument("drop", ["age", "sex"])` is drop=['age', 'sex'] and --drop age --drop
    sex. A setting of one column, such as `argument("bins", 24, "age")`, is --attribute age:bins=24, and
    attributes={'age': {'bins': 24}}. Call it where the message is made, never when a module is imported.
    """
    field = None if column and name == "nulls" else _CSV.get(name)  # an attribute has nulls of its own
    if _OPTIONS is not None:
        return _option(field or name, example, column)
    if field:
        value = f"{{{quoted(column)}: {_literal(example)}}}" if column else _literal(example)
        value = value if column or example != "" else "..."
        return f"csv=CsvOptions({field}={value})"
    if column:
        return f"attributes={{{quoted(column)}: {{{name!r}: {_literal(example)}}}}}"
    return f"{name}={'' if example == '' else _literal(example)}"


_CSV = {"type": "types", "date_format": "formats", "null": "nulls"}
_CSV |= {n: n for n in ("types", "formats", "nulls", "delimiter", "decimal", "encoding", "header", "odd")}
"""The names of fields of CsvOptions in messages: those of Python, and shorter ones of options."""
_SHORT = {"types": "type", "formats": "date-format", "nulls": "null"}


def _option(name: str, example: object, column: str) -> str:
    if example is False:
        name, example = f"no_{name}", True
    if column and name not in ("types", "formats", "odd", "domain"):
        return f"--attribute {word(column, f':{name}={example}')}"
    assert _OPTIONS is not None
    plain = "--" + _SHORT.get(name, name).removesuffix("_").replace("_", "-")
    option, repeated = _OPTIONS.get(name, (plain, False))
    if example is True or example == "":
        return option
    if column:
        return f"{option} {word(column, f'={example}')}"
    if isinstance(example, range):
        return f"{option} {example[0]}:{example[-1]}"
    values = [str(v) for v in example] if isinstance(example, (list, tuple)) else [str(example)]
    return " ".join(f"{option} {word(v)}" for v in (values if repeated else [",".join(values)]))


def _literal(example: object) -> str:
    if isinstance(example, (list, tuple)):
        return f"[{', '.join(map(_literal, example))}]"
    if isinstance(example, str):
        return example if example.replace(".", "", 1).isdigit() else quoted(example)
    return quoted(example) if isinstance(example, PurePath) else repr(example)


def one_line(text: str) -> str:
    """Return the text with every control character written out: no name can forge a second line."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def quoted(name: object) -> str:
    """Return a column or file name as messages show it."""
    return f"'{one_line(str(name))}'"


def word(name: str, rest: str = "") -> str:
    """Return a column's name, and what follows it, as one word of a shell: what to type after an option."""
    return shlex.quote(one_line(name) + rest)


def counted(number: int, thing: str) -> str:
    """Return a number with its noun, such as "1 value" or "2,000 values"."""
    return f"{number:,} {thing}" + "s" * (number != 1)


def some(names: Iterable[str]) -> str:
    """Return names in a row, the first ones where they are very many."""
    names, most = list(names), 40
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def listed(names: Iterable[object]) -> str:
    """Return names in a row, cut where a line would become unreadable."""
    names, most = list(names), 12
    first = ", ".join(quoted(n) for n in names[:most])
    return f"{first} and {len(names) - most} more" if len(names) > most else first or "none"


def near(name: str, known: Iterable[str], likeness: float = 0.6) -> str:
    """Return the question "did you mean 'age'?" with the nearest of a closed list; empty if none is near."""
    known = list(known)
    same = [k for k in known if k.lower() == name.lower()]
    found = same or difflib.get_close_matches(name, known, 1, likeness)
    return f"did you mean {quoted(found[0])}?" if found else ""


def unknown(what: str, name: object, known: Iterable[str], of: str = "") -> UsageError:
    """Return the error for a word that a closed list lacks: it names the nearest one, or lists all."""
    known = list(known)
    step = near(str(name), known) or f"use one of {some(map(quoted, known))}"
    return UsageError(f"unknown-{what.replace(' ', '-')}", f"unknown {what} {quoted(name)}{of}", step)


def unknown_column(name: str, known: Iterable[str], where: str) -> UsageError:
    """Return the error for a column that is not there; it lists those that are, nearest first.

    `where` is an argument, such as "drop", or words, such as "the question".
    """
    known, several = list(known), name.split(",")
    by = argument(where) if where.isidentifier() else where
    if len(several) > 1 and set(several) <= set(known) and where.isidentifier():
        step = f"name them one by one: {argument(where, several)}"
    else:
        step = f"{near(name, known)} The columns are {listed(known)}".lstrip()
    what = f"{by} names the column {quoted(name)}, which the data does not have"
    return UsageError("unknown-column", what, step)


def place_of(error: BaseException) -> str:
    """Return the place in our own code where an error arose, which reveals no data."""
    trace, place = error.__traceback__, "unknown"
    while trace is not None:
        module = trace.tb_frame.f_globals.get("__name__", "")
        if module.startswith("ppdm_cli"):
            place = f"{module}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place
