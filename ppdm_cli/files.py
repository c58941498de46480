"""The files of one run: what it reads is not written over and does not change, and no two outputs are one file.

Code that opens a file named by a person registers it (`reading`), and code that will write or remove one claims
it before any work is done (`claim`), in either order. Files are identified by their inode, not by their names:
a hard link, a symbolic link or another path to the same folder is the same file. A run that reads a table
several times must read the same rows each time, so nothing is published if what it read has changed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from ppdm_cli.errors import DataError, PpdmError, UsageError, near, quoted

Identity = tuple[int, int] | str


@dataclass
class Run:
    """The files that a run reads and writes, by identity, each under its first name."""

    reads: dict[Identity, str] = field(default_factory=dict)
    writes: dict[Identity, str] = field(default_factory=dict)
    watched: dict[tuple[Any, ...], tuple[str, object]] = field(default_factory=dict)
    """The inputs that must not change: how to look at each, its name, and its first state."""
    answers: dict[Any, Any] = field(default_factory=dict)
    """The stores' answers about files, kept until the run asks again whether they changed."""
    committed: bool = False
    """True if its outputs are in their places: later events are not a failure of the run."""


_RUN: ContextVar[Run | None] = ContextVar("ppdm_run", default=None)


TEMPORARY: ContextVar[Path | None] = ContextVar("ppdm_temporary", default=None)
"""The folder of temporary files, if one is set."""
THREADS: ContextVar[int | None] = ContextVar("ppdm_threads", default=None)
"""The number of threads, if it is set."""
WRITER: ContextVar[str | None] = ContextVar("ppdm_writer", default=None)
"""The writer of Parquet, if one is set: pyarrow alone."""


@contextmanager
def one_run(*, command: bool = False) -> Iterator[Run]:
    """Yield the current run, starting one if none is active (one per command or library call).

    At the end of a call its inputs must not have changed, unless its outputs are in their places.
    """
    run = _RUN.get() or Run()
    token = _RUN.set(run)
    try:
        yield run
    except PpdmError:
        check_unchanged()  # first: what is wrong with a file that changed may be the change
        raise
    else:
        if not command:
            check_unchanged()
    finally:
        _RUN.reset(token)


def reading(file: Path | int, name: str = "") -> None:
    """Register an input of the run, whether it exists or not; a standard stream by its descriptor and name."""
    run = _RUN.get()
    if run is None:
        return
    for identity in _identities(file):
        if identity in run.writes:
            raise _both(run.writes[identity], name or str(file))
        run.reads.setdefault(identity, name or str(file))
    if isinstance(file, Path):
        watching(name or str(file), _state, file)


def watching(name: str, look: Callable[..., object], *about: Hashable, now: object = None) -> None:
    """Require that `look(*about)` keeps returning `now`: the state of a file, or the parts in a folder."""
    run = _RUN.get()
    if run is not None and (look, *about) not in run.watched:
        run.watched[look, *about] = name, look(*about) if now is None else now


def store_answers() -> dict[Any, Any]:
    """Return the stores' answers about files in this run."""
    run = _RUN.get()
    return {} if run is None else run.answers


def check_unchanged() -> None:
    """Refuse if any input of the run has changed since it was first read."""
    run = _RUN.get()
    if run is None or run.committed:
        return
    run.answers.clear()
    for (look, *about), (name, before) in run.watched.items():
        if look(*about) != before:
            raise changed(name)


def changed(name: str) -> DataError:
    """Return the error for a file that another program writes to while it is read."""
    return DataError(
        "file-changed", f"{quoted(name)} changed while it was read", "run this again when nothing writes to it"
    )


def check_once(files: Iterable[tuple[Path, str]]) -> None:
    """Refuse files, each with its name for messages, of which two are one: its records would count twice."""
    seen: dict[Identity, str] = {}
    for file, name in files:
        identities = _identities(file)
        other = next((seen[i] for i in identities if i in seen), None)
        if other is not None:
            what = f"{quoted(name)} is named twice"
            what = what if other == name else f"{quoted(other)} and {quoted(name)} are the same file"
            raise UsageError(
                "file-named-twice", what, "name each file once, and remove links to it from folders"
            )
        seen |= dict.fromkeys(identities, name)


def rewriting(file: Path, name: str) -> None:
    """Unregister this file as an input under this `name`, so that the run may write it."""
    run = _RUN.get()
    for identity in _identities(file) if run is not None else ():
        if run.reads.get(identity) == name:  # type: ignore[union-attr]
            del run.reads[identity]  # type: ignore[union-attr]


@contextmanager
def readable(file: Path | str, what: str = "") -> Iterator[None]:
    """Turn the operating system's error about reading a file into one of ours."""
    try:
        yield
    except FileNotFoundError:
        raise missing(Path(file), what) from None
    except OSError as error:
        raise DataError(
            "unreadable-file",
            f"{what}{quoted(file)} cannot be read: {error.strerror}",
            "check its name and your permissions",
        ) from None


def missing(path: Path, what: str = "") -> DataError:
    """Return the error for a file that is not there; it names the most similar one, but no folder key=value."""
    try:
        several = islice(path.parent.iterdir(), 1000)
        beside = [str(path.with_name(p.name)) for p in several if "=" not in p.name]
    except (OSError, ValueError):  # neither is its folder, or it has no name
        beside = []
    return DataError(
        "missing-file",
        f"{what}{quoted(path)} does not exist",
        near(str(path), beside, 0.85) or "check its name",
    )


def content(path: Path, what: str, most: int) -> bytes:
    """Return the content of a small file that a person named, even if it is endless."""
    reading(path)
    with readable(path, what), path.open("rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise UsageError(
            "file-too-large", f"{what}{quoted(path)} is larger than {most >> 20} MiB", "use a smaller one"
        )
    return data


def claim(file: Path | int, name: str = "") -> None:
    """Claim a file to write or remove; refused if the run already reads or writes it."""
    run, name, identities = _RUN.get(), name or str(file), _identities(file)
    if run is None:
        return
    for identity in identities:
        if identity in run.reads:
            raise _both(name, run.reads[identity])
        if identity in run.writes:
            other = run.writes[identity]
            names = quoted(name) if other == name else f"{quoted(other)} and {quoted(name)}"
            what = f"two outputs are the same file: {names}"
            raise UsageError("outputs-are-one-file", what, "use a different file for each")
    run.writes |= dict.fromkeys(identities, name)


def committed() -> None:
    """Record that the outputs are in their places."""
    run = _RUN.get()
    if run is not None:
        run.committed = True


def _both(output: str, source: str) -> UsageError:
    other = "" if output == source else f" {quoted(source)}"
    what = f"the output {quoted(output)} is also the input{other}"
    return UsageError("output-is-input", what, "name another output")


def _identities(file: Path | int) -> list[Identity]:
    """Return the file's path and, if it exists, its identity; nothing for a stream that is not a file."""
    found: list[Identity] = [os.path.realpath(file)] if isinstance(file, Path) else []
    try:
        status = file.stat() if isinstance(file, Path) else os.fstat(file)
    except OSError:
        return found
    known = stat.S_ISREG(status.st_mode) and status.st_ino  # some network drives number no file
    return [*found, (status.st_dev, status.st_ino)] if known else found


def _state(file: Path) -> object:
    """Return a state that differs after a file was written or replaced; None if it is absent, a pipe or a
    folder.

    Both times, because programs set the first back, and network drives may round it to seconds.
    """
    try:
        status = file.stat()
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
