"""Output that appears whole or not at all: written beside the target, flushed, then renamed.

On Linux the file has no name until it is whole, so that even `kill -9` leaves nothing. The old
sidecar goes first, the data follow, the new sidecar comes last: no moment pairs a file with the
wrong promise.
"""

from __future__ import annotations

import errno
import os
import secrets
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from ppdm_cli.errors import DataError, UsageError, quoted


class Target:
    """A file to be written under its name when `publish` is called, and never otherwise."""

    def __init__(self, path: Path, force: bool, inputs: Sequence[Path] = ()) -> None:
        """Checks that it may be written; nothing is touched yet."""
        self.path = path.resolve() if path.is_symlink() else path
        for source in inputs:
            if path.exists() and path.samefile(source):
                raise UsageError(
                    f"the output {quoted(path)} is also the input",
                    "name another output",
                )
        if path.exists() and not path.is_file():
            raise UsageError(
                f"the output {quoted(path)} is no ordinary file", "name a file, or - for standard output"
            )
        if path.exists() and not force:
            raise UsageError(f"the output {quoted(path)} exists", "name another, or say --force")
        self._force = force
        self._file, self._temporary = _nameless(self.path)

    @property
    def file(self) -> IO[bytes]:
        return self._file

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):
            self._file.close()
        if self._temporary is not None:
            self._temporary.unlink(missing_ok=True)

    def put(self, content: bytes) -> None:
        """All of a small file, on the disk."""
        with writing(self.path):
            self._file.write(content)
        self.flush()

    def flush(self) -> None:
        """Everything on the disk, so that what is renamed is whole."""
        if self._file.closed:
            return
        with writing(self.path):
            self._file.flush()
            os.fsync(self._file.fileno())
            if self._temporary is not None:
                self._file.close()  # Windows renames no file that is open

    def rename(self) -> None:
        """Put the flushed file in its place, over what was there."""
        with writing(self.path), self._respecting_others():
            if self._temporary is None:
                # straight to its name where that is free: then not even a kill leaves a hidden file
                named = _beside(self.path) if self._force and self.path.exists() else self.path
                folder = os.open(self.path.parent, os.O_RDONLY)
                try:  # with a folder given, Python calls linkat, which alone follows /proc/self/fd
                    os.link(
                        f"/proc/self/fd/{self._file.fileno()}",
                        named.name,
                        dst_dir_fd=folder,
                        follow_symlinks=True,
                    )
                finally:
                    os.close(folder)
                if named == self.path:
                    return
                self._temporary = named
            if self._force:
                self._temporary.replace(self.path)
                self._temporary = None
            else:
                os.link(self._temporary, self.path)

    @contextmanager
    def _respecting_others(self) -> Iterator[None]:
        """What another run put there in the meantime is not overwritten without --force."""
        try:
            yield
        except FileExistsError:
            raise UsageError(
                f"the output {quoted(self.path)} was made by another run in the meantime",
                "name another, or say --force",
            ) from None

    def publish(self, sidecar: bytes | None, sidecar_path: Path) -> None:
        """Old sidecar away, data in place, new sidecar last."""
        self.flush()
        if sidecar is None:
            with writing(sidecar_path):
                sidecar_path.unlink(missing_ok=True)
            self.rename()
        else:
            with Target(sidecar_path, self._force) as beside:
                with writing(sidecar_path):
                    beside.file.write(sidecar)
                beside.flush()
                with writing(sidecar_path):
                    if self._force:
                        sidecar_path.unlink(missing_ok=True)
                self.rename()
                beside.rename()
        _flush_folder(self.path.parent)


def check_sidecar(path: Path, data: Path, force: bool, inputs: Sequence[Path] = ()) -> None:
    """Before any work is done: the sidecar may be written too."""
    if path.resolve() == data.resolve():
        raise UsageError(f"the sidecar {quoted(path)} is also the output", "name another --sidecar")
    with Target(path, force, inputs):
        pass


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turns what the operating system says about writing a file into an error of ours."""
    try:
        yield
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        raise _unwritable(path, error) from None


def spool(beside: Path | None = None) -> IO[bytes]:
    """A nameless file for what is published anyway; gone when closed, or when the process dies."""
    return tempfile.TemporaryFile(dir=beside, prefix=".ppdm-")


def _unwritable(path: Path, error: OSError) -> DataError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DataError(f"no space left for {quoted(path)}", "free some, or name another disk")
    reason = error.strerror or "it failed"
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return DataError("too many files are open", "raise the limit, for instance with ulimit -n 4096")
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return DataError(f"the folder of {quoted(path)} does not exist", "make it first")
    return DataError(
        f"{quoted(path)} cannot be written: {reason}", "name a file in a folder that you can write to"
    )


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name[:80]}.{secrets.token_hex(6)}.ppdm-part")


def _nameless(path: Path) -> tuple[IO[bytes], Path | None]:
    """A file in the target's folder without a name, or, where there are none, with a hidden one."""
    with writing(path):
        if hasattr(os, "O_TMPFILE"):
            try:
                return os.fdopen(os.open(path.parent, os.O_TMPFILE | os.O_RDWR, 0o666), "w+b"), None
            except OSError as error:
                if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL):
                    raise
        temporary = _beside(path)
        return temporary.open("x+b"), temporary


def _flush_folder(folder: Path) -> None:
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
