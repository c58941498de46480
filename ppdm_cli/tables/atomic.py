"""Files for all writers: they appear whole or not at all, written beside their name, flushed, then renamed.

On Linux the file has no name until it is whole. An old sidecar goes first, the data follow, the new sidecar
comes last: no moment, not even that of a `kill -9`, pairs a file with the wrong sidecar. Earlier files are kept
under a hidden name until everything is in its place, and put back if a step fails.
"""

from __future__ import annotations

import errno
import os
import secrets
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO, Self

from ppdm_cli import files
from ppdm_cli.errors import DataError, UsageError, argument, quoted
from ppdm_cli.tables.stores import StorePath, path_of

Steps = list[Callable[[], object]]
"""Steps that restore the earlier state, the last first."""


class PendingFile:
    """A file to be written by `commit` alone; an old `sidecar` is removed before the data are."""

    def __init__(self, path: Path, force: bool, *, sidecar: bool = False, mode: int = 0o666) -> None:
        """Check that it may be written; nothing is touched yet."""
        self.named = path = path_of(path)
        self.path = path.resolve() if path.is_symlink() else path
        files.claim(path)
        if str(path) == "-":
            raise UsageError("file-wanted", "this output cannot be '-', standard output", "name a file")
        if path.exists() and not path.is_file():
            what = f"the output {quoted(path)} is not an ordinary file"
            raise UsageError("output-no-ordinary-file", what, "name a file, or - for standard output")
        if path.exists() and not force:
            step = f"name another, or add {argument('force', True)}"
            raise UsageError("output-exists", f"the output {quoted(path)} exists", step)
        self._force, self._sidecar, self._whole = force, sidecar, False
        self._kept: Path | None = None
        self._file, self._temporary = _nameless(self.path, mode)

    @property
    def file(self) -> IO[bytes]:
        return self._file

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._file.close()
        if self._temporary is not None:
            with suppress(OSError):
                self._temporary.unlink(missing_ok=True)

    def put(self, content: bytes) -> None:
        with writing(self.path):
            self._file.write(content)
        self.flush()

    def flush(self) -> None:
        """Put everything on the disk, so that the renamed file is whole."""
        if self._file.closed:
            return
        with writing(self.path):
            self._file.flush()
            if not isinstance(self.path, StorePath):
                os.fsync(self._file.fileno())
            if self._temporary is not None:
                self._file.close()  # Windows renames no file that is open
        self._whole = True

    def set_aside(self, undo: Steps) -> None:
        """Keep an existing file, to be put back; an old sidecar is no longer under its name."""
        if not (self._force and (self._whole or self._sidecar) and self.path.exists()):
            return
        kept = _beside(self.path)
        with writing(self.path):
            if self._sidecar or not _linked(self.path, kept):
                self.path.rename(kept)
        undo.append(partial(_put_back, kept, self.path))
        self._kept = kept

    def place(self, undo: Steps) -> None:
        """Put the file in its place, if it was filled; else the old one is just set aside."""
        if not self._whole:
            return
        named = self._temporary
        with writing(self.path), self._respecting_others():
            if isinstance(self.path, StorePath):
                self.path.upload(self._file, _beside(self.path), self._force)
                named = self.path
            elif named is None:  # straight to a name that is free: then not even a kill leaves a hidden file
                over = self._force and self.path.exists()
                named = _named(self._file, _beside(self.path) if over else self.path)
                self._temporary = named if over else None
            if named != self.path and self._force:
                named.replace(self.path)
                self._temporary = None
            elif named != self.path:
                os.link(named, self.path)
        if self._kept is None or self._sidecar:
            undo.append(self.path.unlink)

    def forget(self) -> None:
        """Remove the old file that was kept: the new one is in its place."""
        if self._kept is not None:
            with suppress(OSError, DataError):
                self._kept.unlink(missing_ok=True)

    @contextmanager
    def _respecting_others(self) -> Iterator[None]:
        """Check that, without --force, no file is overwritten that another run put there in the meantime."""
        try:
            yield
        except FileExistsError:
            what = f"the output {quoted(self.path)} was made by another run in the meantime"
            raise UsageError("output-of-another-run", what, "run this again, or name another") from None


@contextmanager
def placed(*targets: PendingFile) -> Iterator[None]:
    """Put all in their places, in this order; restore everything if a step fails, or the body."""
    files.check_unchanged()
    undo: Steps = []
    try:
        for target in reversed(targets):
            target.set_aside(undo)
        for target in targets:
            target.place(undo)
        yield
    except BaseException:
        with suppress(Exception):  # a step back that fails is the last: better no sidecar than a wrong one
            for step in reversed(undo):
                step()
        raise
    files.committed()
    for target in targets:
        target.forget()
    for folder in {t.path.parent for t in targets if isinstance(t, PendingFile)}:
        _flush_folder(folder)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn the operating system's error about writing a file into one of ours."""
    try:
        yield
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        raise unwritable(path, error) from None


def spool(beside: Path | None = None) -> IO[bytes]:
    """Return a nameless file for published data; it is gone when closed, or when the process dies."""
    return tempfile.TemporaryFile(dir=files.TEMPORARY.get() or beside, prefix=".ppdm-")


def unwritable(path: Path | str, error: OSError) -> DataError:
    """Return the operating system's error about writing a file as one of ours."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DataError("no-space", f"no space left for {quoted(path)}", "free some, or use another disk")
    if error.errno in (errno.EMFILE, errno.ENFILE):
        step = "raise the limit, for example with ulimit -n 4096"
        return DataError("too-many-open-files", "too many files are open", step)
    if error.errno == errno.EBADF:
        return DataError("closed-output", f"{quoted(path)} is closed", "open it, or name a file")
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return DataError("no-folder", f"the folder of {quoted(path)} does not exist", "create it first")
    what = f"{quoted(path)} cannot be written: {error.strerror or 'it failed'}"
    large = error.errno == errno.EFBIG
    step = "raise ulimit -f, or use another disk" if large else "name a file in a folder that you can write to"
    return DataError("unwritable-file", what, step)


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name[:80]}.{secrets.token_hex(6)}.ppdm-part")


def _nameless(path: Path, mode: int) -> tuple[IO[bytes], Path | None]:
    """Return a file in the target's folder without a name or, if that isn't possible, with a hidden one."""
    with writing(path):
        if isinstance(path, StorePath):  # nothing leaves this machine until it is checked
            return spool(), None
        if hasattr(os, "O_TMPFILE"):
            try:
                return os.fdopen(os.open(path.parent, os.O_TMPFILE | os.O_RDWR, mode), "w+b"), None
            except OSError as error:
                if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL):
                    raise
        temporary = _beside(path)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        return os.fdopen(os.open(temporary, flags, mode), "w+b"), temporary


def _named(file: IO[bytes], path: Path) -> Path:
    """Give a nameless file a name that is free."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:  # with a folder given, Python calls linkat, which alone follows /proc/self/fd
        os.link(f"/proc/self/fd/{file.fileno()}", path.name, dst_dir_fd=folder, follow_symlinks=True)
    finally:
        os.close(folder)
    return path


def _linked(path: Path, kept: Path) -> bool:
    """Give the file a second name, so that the first is never without a file; not every disk can."""
    if isinstance(path, StorePath):
        path.copy_to(kept)
        return True
    try:
        os.link(path, kept)
    except OSError:
        return False
    return True


def _put_back(kept: Path, path: Path) -> None:
    kept.replace(path)
    kept.unlink(missing_ok=True)  # it is still there if it was only a second name


def _flush_folder(folder: Path) -> None:
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
