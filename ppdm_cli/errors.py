"""One family of errors, each with its exit code.

Every error says what was wrong (column, file, row) and the next step, and never a value of a
private column: a message is published more easily than data. Names of columns and files are
quoted, so that whatever characters they have stay on one line.
"""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Iterable
from enum import IntEnum


class Exit(IntEnum):
    """What the shell gets back (design, "The commands")."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    MISMATCH = 3
    REFUSED = 4
    INTERRUPTED = 130


class PpdmError(Exception):
    """An error that a person can act on: `what` happened, and the `next_step`."""

    title = "ppdm failed"
    exit_code = Exit.FAILED

    def __init__(self, what: str, next_step: str) -> None:
        self.what = one_line(what)
        self.next_step = one_line(next_step)
        super().__init__(f"{self.title}: {self.what}; {self.next_step}")

    def __reduce__(self) -> tuple[type[PpdmError], tuple[str, str]]:
        return type(self), (self.what, self.next_step)  # an exception's own pickles what str() gives


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
