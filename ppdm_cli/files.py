"""The files of one run: nothing that it reads is ever written over, and no two outputs are one file.

Whatever opens a file that a person named says so (`reading`), and whatever will write or remove one says so
before any work is done (`claim`), in either order. Files are told apart by what they are, not by their names:
a hard link, a symbolic link or another way to the same folder is the same file.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path

from ppdm_cli.errors import DataError, UsageError, quoted

Identity = tuple[int, int] | str


@dataclass
class Run:
    """What a run reads and writes, by identity, each under the name that it was first given."""

    reads: dict[Identity, str] = field(default_factory=dict)
    writes: dict[Identity, str] = field(default_factory=dict)
    published: bool = False
    """Whether its outputs are in their places: what happens afterwards is not a failure of the run."""


_RUN: ContextVar[Run | None] = ContextVar("ppdm_run", default=None)


TEMPORARY: ContextVar[Path | None] = ContextVar("ppdm_temporary", default=None)
"""The folder of temporary files, where one is set."""


@contextmanager
def one_run() -> Iterator[Run]:
    """Yield a run, or the one that is under way: a command, or a call of the library."""
    under_way = _RUN.get()
    if under_way is not None:
        yield under_way
        return
    token = _RUN.set(Run())
    try:
        run = _RUN.get()
        assert run is not None
        yield run
    finally:
        _RUN.reset(token)


def reading(file: Path | int, name: str = "") -> None:
    """Say that this is read, whether it is there or not; a standard stream by its descriptor and name."""
    run = _RUN.get()
    if run is None:
        return
    for identity in _identities(file):
        if identity in run.writes:
            raise _both(run.writes[identity], name or str(file))
        run.reads.setdefault(identity, name or str(file))


def rewriting(file: Path, name: str) -> None:
    """Say that this file, so far read under this `name`, is to be written; all else that is read stays so."""
    run = _RUN.get()
    for identity in _identities(file) if run is not None else ():
        if run.reads.get(identity) == name:  # type: ignore[union-attr]
            del run.reads[identity]  # type: ignore[union-attr]


@contextmanager
def readable(file: Path | str, what: str = "") -> Iterator[None]:
    """Turn what the operating system says about reading a file into an error of ours."""
    try:
        yield
    except OSError as error:
        raise DataError(
            f"{what}{quoted(file)} cannot be read: {error.strerror}", "check its name and rights"
        ) from None


def content(path: Path, what: str, most: int) -> bytes:
    """Return what a small file holds that a person named, be it an endless one."""
    reading(path)
    with readable(path, what), path.open("rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise UsageError(f"{what}{quoted(path)} is larger than {most >> 20} MiB", "give a smaller one")
    return data


def claim(file: Path | int, name: str = "") -> None:
    """Say that this will be written or removed; refused where the run reads it or writes it already."""
    run, name, identities = _RUN.get(), name or str(file), _identities(file)
    if run is None:
        return
    for identity in identities:
        if identity in run.reads:
            raise _both(name, run.reads[identity])
        if identity in run.writes:
            other = run.writes[identity]
            names = quoted(name) if other == name else f"{quoted(other)} and {quoted(name)}"
            raise UsageError(f"two outputs are one file: {names}", "name a file for each")
    run.writes |= dict.fromkeys(identities, name)


def published() -> None:
    """Say that the outputs are in their places."""
    run = _RUN.get()
    if run is not None:
        run.published = True


def _both(output: str, source: str) -> UsageError:
    other = "" if output == source else f" {quoted(source)}"
    return UsageError(f"the output {quoted(output)} is also the input{other}", "name another output")


def _identities(file: Path | int) -> list[Identity]:
    """Return the file's path and, if it exists, its identity; nothing for a stream that is not a file."""
    found: list[Identity] = [os.path.realpath(file)] if isinstance(file, Path) else []
    try:
        status = file.stat() if isinstance(file, Path) else os.fstat(file)
    except OSError:
        return found
    return [*found, (status.st_dev, status.st_ino)] if stat.S_ISREG(status.st_mode) else found
