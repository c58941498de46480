"""Ledgers for owners of several releases: the sum of epsilons about the same people.

Each release is entered before it appears, under a lock, and entries stay: epsilons are added up for the worst
case, whatever their attributes and whether or not answers repeat. Above the total that the first line states, a
release is refused. The people have a name that the owner types; nothing is taken from the data.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from math import inf, isfinite
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta

from ppdm_cli import files
from ppdm_cli.errors import DataError, RefusedError, UsageError, argument, counted, listed, near, quoted
from ppdm_cli.privacy import proposed
from ppdm_cli.sidecar import TOOL, Sidecar
from ppdm_cli.tables import path_of, unwritable

MOST_BYTES = 16 << 20
NAME = 200
_LATEST = 8
"""The digits to which sums are compared and shown: decimals such as 0.1 aren't binary fractions."""


class Head(msgspec.Struct, forbid_unknown_fields=True):
    """The first line, which the owner may change: the total that the releases of some people may reach."""

    format: Literal["ppdm-ledger"]
    version: Literal[1]
    total_epsilon: dict[str, Annotated[float, Meta(gt=0)]]


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One release; an epsilon of null promises nothing."""

    people: Annotated[str, Meta(min_length=1, max_length=NAME)]
    release: Annotated[str, Meta(max_length=36)]
    epsilon: Annotated[float, Meta(ge=0)] | None
    unit: Literal["record", "person"]
    kept: int
    entered: Annotated[str, Meta(max_length=40)]
    tool: Annotated[str, Meta(max_length=128)]


@dataclass(frozen=True)
class Account:
    """The releases of some people, in the order of their entry, and the total that they may reach."""

    people: str
    entries: tuple[Entry, ...]
    limit: float | None

    @property
    def total(self) -> float:
        """Return the sum of the epsilons, the worst case: nobody knows which people the releases share."""
        return round(sum(inf if e.epsilon is None else e.epsilon for e in self.entries), _LATEST)

    @property
    def sentences(self) -> list[str]:
        many, total = counted(len(self.entries), "release"), _in_words(self.total)
        limit = "it states no total" if self.limit is None else f"it allows {_in_words(self.limit)}"
        lines = [f"The ledger has {many} about {quoted(self.people)}: epsilon adds up to {total}, and {limit}."]
        if len(self.entries) > 1:
            lines.append("Someone who has all these releases learns from each, so their epsilons add up.")
        if any(e.epsilon is None for e in self.entries):
            lines.append("One of them has no gamma, so nothing is promised for all of them together.")
        if any(e.kept for e in self.entries):
            lines.append("Columns that were kept unchanged are not protected and not counted.")
        if len({e.unit for e in self.entries}) > 1:
            lines.append(
                "Some releases protect a person, others only a record, and a person may have several records."
            )
        return lines


def _in_words(epsilon: float) -> str:
    return "no bound at all" if epsilon == inf else f"{epsilon:.6g}"


def _checked_people(path: str | Path | None, people: str | None) -> str:
    """Return the people's name, which a ledger always needs; empty if neither is given."""
    if (path is None) != (people is None):
        what = f"{argument('ledger')} and {argument('people')} need each other"
        step = f"try {argument('ledger', 'releases.ledger')} {argument('people', 'patients 2026')}"
        raise UsageError("ledger-without-people", what, step)
    name = "" if people is None else people.strip()
    if people is not None and not 0 < len(name) <= NAME:
        what = f"{argument('people')} must have 1 to {NAME} characters"
        raise UsageError("people-without-name", what, f"add {argument('people', 'NAME')}")
    return name


def open_account(ledger: str | Path | None, people: str | None) -> Account | None:
    """Return a ledger's account of some people; None without a ledger."""
    people = _checked_people(ledger, people)
    if ledger is None:
        return None
    path = path_of(ledger, "ledger")
    files.reading(path)
    with files.readable(path, "the ledger "), path.open("rb") as file:
        return _account(path, file.read(MOST_BYTES + 1), people)


class Entering:
    """A release that is entered into a ledger: checked before the work, entered before it appears."""

    def __init__(self, path: str | Path | None, people: str | None) -> None:
        self._path = None if path is None else path_of(path, "ledger")
        self._people = _checked_people(path, people)
        self.account: Account | None = None
        """The ledger's account with this release; None without a ledger."""
        if self._path is not None:
            files.claim(self._path)
            if self._path.exists() and not self._path.is_file():
                what = f"the ledger {quoted(self._path)} is not an ordinary file"
                raise UsageError("ledger-not-a-file", what, "name a file")

    def check(self, sidecar: Sidecar) -> None:
        """Refuse a release that would exceed the total, before any work is done."""
        if self._path is not None and self._path.exists():
            with files.readable(self._path, "the ledger "):
                self._judged(self._path.read_bytes(), sidecar)

    def enter(self, sidecar: Sidecar) -> None:
        """Enter the release, unless it would exceed the total by now."""
        if self._path is None:
            return
        files.check_unchanged()  # a release that will not appear is not entered
        with _locked(self._path) as ledger:
            data = os.read(ledger, MOST_BYTES + 1)
            self.account = self._judged(data, sidecar)
            head = b"" if data else _line(Head("ppdm-ledger", 1, {}))
            _append(self._path, ledger, head + _line(self.account.entries[-1]))

    def _judged(self, data: bytes, sidecar: Sidecar) -> Account:
        assert self._path is not None
        before = _account(self._path, data, self._people)
        after = Account(self._people, (*before.entries, _entry(self._people, sidecar)), before.limit)
        if after.limit is not None and after.total > after.limit:
            total, limit, used = map(_in_words, (after.total, after.limit, before.total))
            raise RefusedError(
                "ledger-total-exceeded",
                f"the releases about {quoted(self._people)} would add up to an epsilon of {total}. The ledger "
                f"{quoted(self._path)} allows {limit}, of which {used} is used",
                f"publish with a smaller budget, such as {proposed(1)}, or decide on another "
                "total in its first line",
            )
        return after


def _entry(people: str, sidecar: Sidecar) -> Entry:
    privacy = sidecar.privacy
    assert privacy is not UNSET
    stated = privacy.perturbed_epsilon
    epsilon = None if stated is None or not isfinite(float(stated)) else float(stated)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return Entry(people, sidecar.group_id, epsilon, privacy.unit, len(privacy.kept), now, TOOL)


def _account(path: Path, data: bytes, people: str) -> Account:
    if len(data) > MOST_BYTES:
        what = f"the ledger {quoted(path)} is larger than {MOST_BYTES >> 20} MiB"
        raise UsageError("ledger-too-large", what, "start a new one")
    if not data:
        return Account(people, (), None)
    if not data.endswith(b"\n"):
        what = f"the last line of the ledger {quoted(path)} is incomplete: its release never appeared"
        raise DataError("ledger-cut-off", what, "remove that line, or complete it if you edited the file")
    head, entries = None, []
    for number, line in enumerate(data.splitlines(), 1):
        try:
            if head is None:
                head = msgspec.json.decode(line, type=Head)
            else:
                entries.append(msgspec.json.decode(line, type=Entry))
        except (msgspec.MsgspecError, ValueError, RecursionError):
            what = f"line {number} of the ledger {quoted(path)} is not a line of a ledger"
            step = "fix it, or name a new file, which is then created"
            raise UsageError("ledger-line-invalid", what, step) from None
    assert head is not None
    known = sorted({*head.total_epsilon, *(e.people for e in entries)})
    if head.total_epsilon and people not in known:  # a name with a letter wrong would have no total
        what = f"the ledger {quoted(path)} knows {listed(known)}, but not {quoted(people)}"
        step = near(people, known) or "add these people's total to its first line"
        raise UsageError("people-unknown-to-ledger", what, step)
    return Account(people, tuple(e for e in entries if e.people == people), head.total_epsilon.get(people))


def _line(record: Head | Entry) -> bytes:
    return msgspec.json.encode(record) + b"\n"


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    """Yield a descriptor of the ledger, created if it is new; other runs that enter a release wait."""
    with ExitStack() as stack:
        try:
            ledger = _opened(stack, path)
            while not os.path.samestat(os.fstat(ledger), path.stat()):  # an editor put another in its place
                ledger = _opened(stack, path)
        except OSError as error:
            raise unwritable(path, error) from None
        yield ledger


def _opened(stack: ExitStack, path: Path) -> int:
    ledger = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
    stack.callback(os.close, ledger)
    with suppress(ImportError):  # without flock, nothing keeps two runs apart
        import fcntl

        fcntl.flock(ledger, fcntl.LOCK_EX)
    return ledger


def _append(path: Path, ledger: int, lines: bytes) -> None:
    """Put the lines on the disk whole, or leave the ledger as it was."""
    end = os.lseek(ledger, 0, os.SEEK_END)
    try:
        if os.write(ledger, lines) < len(lines):
            raise OSError(errno.ENOSPC, "no space left")
        os.fsync(ledger)
    except OSError as error:
        with suppress(OSError):
            os.ftruncate(ledger, end)
        raise unwritable(path, error) from None
