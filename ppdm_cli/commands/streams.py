"""The standard streams of a command: whole or in trouble, never in part, whatever the shell gave.

A closed one is opened, so that no file takes its number; in unbuffered Python, whose streams may write a
part of what they are given, they are buffered. Trouble with them is kept for the end of the command: that
nobody reads a report any more stops no work.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO, cast


class Stream:
    """A text stream whose first failure is kept instead of raised, with nothing written after it."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.trouble: OSError | None = None

    def write(self, text: str) -> int:
        if self.trouble is None:
            try:
                self._stream.write(text)
            except OSError as error:
                self.trouble = error
        return len(text)

    def flush(self) -> None:
        if self.trouble is None:
            try:
                self._stream.flush()
            except OSError as error:
                self.trouble = error

    def silence(self) -> None:
        """Discard whatever Python still writes when it exits; it would print a message of its own."""
        if self.trouble is not None:
            with suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def standard_streams() -> Iterator[Stream]:
    """Set up the streams while a command runs, and yield that of standard output."""
    for descriptor, flags in enumerate((os.O_WRONLY, os.O_RDONLY, os.O_RDONLY)):
        try:
            os.fstat(descriptor)
        except OSError:  # the wrong way round: using it is an error, as it should be
            os.open(os.devnull, flags)
    before = sys.stdout, sys.stderr
    out, err = Stream(_whole(sys.stdout, 1)), Stream(_whole(sys.stderr, 2))
    sys.stdout, sys.stderr = cast(TextIO, out), cast(TextIO, err)
    try:
        yield out
    finally:
        out.flush()
        err.flush()
        sys.stdout, sys.stderr = before
        out.silence()
        err.silence()


def _whole(stream: Any, descriptor: int) -> Any:
    """Return a stream that writes all that it is given; standard error is written line by line."""
    if stream is not None and not isinstance(getattr(stream, "buffer", None), io.RawIOBase):
        return stream
    encoding, errors = (stream.encoding, stream.errors) if stream is not None else ("utf-8", "backslashreplace")
    buffered = io.BufferedWriter(io.FileIO(descriptor, "w", closefd=False))
    return io.TextIOWrapper(buffered, encoding, errors, line_buffering=descriptor == 2)
