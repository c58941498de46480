"""Errors for every package: one family, each with an exit code, and how a message names an argument.

Every error says what was wrong (column, file, row) and the next step, and never a value of a
private column: a message is published more easily than data. Names of columns and files are
quoted, so that whatever characters they have stay on one line.

A message names an argument with `argument("gamma", 9)`, which is text for neither door yet. The
command line prints `in_shell(message)`, "--gamma 9"; Python shows `in_python(message)`, "gamma=9".
"""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import NamedTuple


class Exit(IntEnum):
    """What the shell gets back (design, "The commands")."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    MISMATCH = 3
    REFUSED = 4
    INTERRUPTED = 130


class PpdmError(Exception):
    """An error that a person can act on.

    Its `id` is what tests and programs go by, and never changes with the words. `what` happened, where (column,
    file, row), and the `next_step` may name arguments with examples; `arguments` lists those.
    """

    title = "ppdm failed"
    exit_code = Exit.FAILED

    def __init__(self, *words: str) -> None:
        id, what, next_step = words if len(words) == 3 else ("", *words)
        self.id, self.what, self.next_step = id, one_line(what), one_line(next_step)
        super().__init__(id, self.what, self.next_step)

    def __str__(self) -> str:
        return in_python(f"{self.title}: {self.what}; {self.next_step}")

    @property
    def arguments(self) -> list[Argument]:
        """Return the arguments that the message names, in its order."""
        return [p for p in _parts(self.what + self.next_step) if isinstance(p, Argument)]


class DataError(PpdmError):
    """The data or the run failed: outside the domain, ragged, truncated, disk full."""

    title = "data"
    exit_code = Exit.FAILED


class UsageError(PpdmError):
    """The call is wrong: an unknown column, a bad number, a missing option."""

    title = "usage"
    exit_code = Exit.USAGE


class MismatchError(PpdmError):
    """A sidecar and its data do not fit."""

    title = "mismatch"
    exit_code = Exit.MISMATCH


class RefusedError(PpdmError):
    """Refused because it would give away too much, or mean nothing."""

    title = "refused"
    exit_code = Exit.REFUSED


_START, _NEXT, _END = "\ue000", "\ue001", "\ue002"
"""What stands around an argument in a message until a door words it; `quoted` writes them out in a name."""


class Argument(NamedTuple):
    """An argument of the library, or an option of the command line, that a message names."""

    name: str
    """As the library calls it, such as record_epsilon."""
    example: str
    """A value that would work; empty where only the name is meant."""
    column: str
    """The column that the value is for, such as age in --domain age=0:120; else empty."""

    def in_shell(self) -> str:
        """Return the option of the command line, with a value that can be pasted."""
        option = "--" + _OPTIONS.get(self.name, self.name).removesuffix("_").replace("_", "-")
        if self.example == "True":
            return option
        if self.column:
            return f"{option} {word(self.column, f'={self.example}' if self.example else '')}"
        return f"{option} {shlex.quote(self.example)}" if self.example else option

    def in_python(self) -> str:
        """Return the keyword of the library, with a value that can be pasted."""
        if self.column and self.example:
            return f"{self.name}={{{quoted(self.column)}: {self.example!r}}}"
        if self.column:
            return f"{self.name}=[{quoted(self.column)}]"
        return f"{self.name}={_literal(self.example)}" if self.example else self.name


_OPTIONS = {"attacks": "with", "attributes": "attribute"}
"""Arguments of the library that the command line calls otherwise."""


def argument(name: str, example: object = "", column: str = "") -> str:
    """Return what stands for an argument in a message, for each door to word.

    `argument("shuffle", True)` is --shuffle and shuffle=True; `argument("domain", "0:120", "age")` is
    --domain age=0:120 and domain={'age': '0:120'}.
    """
    return f"{_START}{name}{_NEXT}{_inner(example)}{_NEXT}{_inner(column)}{_END}"


def in_shell(message: str) -> str:
    """Return a message with the options of the command line."""
    return "".join(p if isinstance(p, str) else p.in_shell() for p in _parts(message))


def in_python(message: str) -> str:
    """Return a message with the arguments of the library."""
    return "".join(p if isinstance(p, str) else p.in_python() for p in _parts(message))


def _parts(message: str) -> Iterator[str | Argument]:
    head, *rest = message.split(_START)
    yield head
    for piece in rest:
        inside, _, after = piece.partition(_END)
        yield Argument(*inside.split(_NEXT))
        yield after


def _inner(value: object) -> str:
    return "".join(c for c in one_line(str(value)) if c not in _MARKS)


def _literal(example: str) -> str:
    plain = example in ("True", "False", "None") or example.replace(".", "", 1).isdigit()
    return example if plain else repr(example)


_MARKS = (_START, _NEXT, _END)


def one_line(text: str) -> str:
    """Return the text with every control character written out: no name can forge a second line."""
    return "".join(c if c.isprintable() or c in _MARKS else c.encode("unicode_escape").decode() for c in text)


def quoted(name: object) -> str:
    """Return a column or file name as messages show it."""
    return f"'{_inner(name)}'"


def word(name: str, rest: str = "") -> str:
    """Return a column's name, and what follows it, as one word of a shell: what to type after an option."""
    return shlex.quote(one_line(name) + rest)


def counted(number: int, thing: str) -> str:
    """Return a number with its noun, such as "1 value" or "2 values"."""
    return f"{number} {thing}" + "s" * (number != 1)


def some(names: Iterable[str]) -> str:
    """Return names in a row, the first ones where they are very many."""
    names, most = list(names), 40
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def listed(names: Iterable[object]) -> str:
    """Return names in a row, cut where a line would become unreadable."""
    names, most = list(names), 12
    shown = ", ".join(quoted(n) for n in names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown or "none"


def near(name: str, known: Iterable[str], likeness: float = 0.6) -> str:
    """Return the question "did you mean 'age'?" with the nearest of a closed list; empty if none is near."""
    known = list(known)
    same = [k for k in known if k.lower() == name.lower()]
    found = same or difflib.get_close_matches(name, known, 1, likeness)
    return f"did you mean {quoted(found[0])}?" if found else ""


def unknown(what: str, name: object, known: Iterable[str], of: str = "") -> UsageError:
    """Return the error for a word that a closed list lacks: names the nearest one, or lists all."""
    known = list(known)
    step = near(str(name), known) or f"use one of {some(map(quoted, known))}"
    return UsageError(f"unknown {what} {quoted(name)}{of}", step)


def unknown_column(name: str, known: Iterable[str], where: str) -> UsageError:
    """Return the error for a column that is not there; lists those that are, nearest first."""
    known = list(known)
    several = name.split(",")
    if len(several) > 1 and set(several) <= set(known) and where.startswith("--"):
        step = "repeat the option: " + " ".join(f"{where} {word(n)}" for n in several)
    else:
        step = f"{near(name, known)} columns: {listed(known)}".lstrip()
    return UsageError(f"{where} names the column {quoted(name)}, which the data does not have", step)
