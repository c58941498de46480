"""The shell for every command: its environment, its standard streams, and messages about failures.

The environment sets threads, the temporary folder, the writer of Parquet and quietness, and nothing else: not
privacy, not keys, and not what may be overwritten. The streams are whole or in trouble, never in part, whatever
the shell gave: closed ones are opened, so that no file takes their numbers; in unbuffered Python, whose streams
may write a part of what they are given, they are buffered. Trouble with them is kept for the end of the
command: that nobody reads a report any more stops no work.
"""

from __future__ import annotations

import io
import json
import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO, cast

import click

from ppdm_cli.errors import UsageError, in_sentences, one_line, quoted

THREADS, FOLDER, WRITER = "PPDM_THREADS", "PPDM_TMPDIR", "PPDM_WRITER"
_MOST_THREADS = 1024
_OUTPUTS = {"perturb": "release.parquet", "plan": "plan.toml", "train-tree": "tree.json"}
"""The names of outputs in an error that shows how to name one."""


@contextmanager
def surroundings() -> Iterator[None]:
    """Take the defaults of the environment while a command runs."""
    with ExitStack() as stack:
        for name, take in ((THREADS, _threads), (FOLDER, _folder), (WRITER, _writer)):
            if os.environ.get(name):
                variable, value = take(os.environ[name])
                stack.callback(variable.reset, variable.set(value))
        yield


def _threads(text: str) -> tuple[Any, int]:
    from ppdm_cli import files

    if not (text.isascii() and text.isdigit() and 1 <= int(text[:6]) <= _MOST_THREADS):
        raise UsageError(
            "bad-threads",
            f"{THREADS} is {quoted(text)}, which is not a number of threads",
            f"set it to 1 to {_MOST_THREADS}, or unset it",
        )
    return files.THREADS, int(text)


def _folder(text: str) -> tuple[Any, Path]:
    from ppdm_cli import files

    if not Path(text).is_dir():
        raise UsageError(
            "bad-folder",
            f"{FOLDER} is {quoted(text)}, which is not a folder",
            "create it, or unset the variable",
        )
    return files.TEMPORARY, Path(text)


def _writer(text: str) -> tuple[Any, str]:
    from ppdm_cli import files

    if text != "pyarrow":
        what = f"{WRITER} is {quoted(text)}, but can only be pyarrow"
        raise UsageError("bad-writer", what, "set it to pyarrow, or unset it")
    return files.WRITER, text


def for_programs() -> bool:
    """Return whether the command line asks for JSON, even one that could not be read."""
    return "--json" in sys.argv[1:]


def say_line(text: str) -> None:
    """Print one line for people on standard error."""
    click.echo(f"ppdm: {text}", err=True)


def fail(kind: str, what: str, next_step: str, code: int, id: str = "") -> int:
    """Report a failure and the next step; return the exit code."""
    if for_programs():
        named = {"id": id or kind.replace(" ", "-"), "kind": kind, "what": what, "next_step": next_step}
        error = {**named, "exit_code": int(code)}
        click.echo(json.dumps({"error": error}), err=True)
    else:
        say_line(f"{kind}: {in_sentences(what, next_step)}")
    return int(code)


def misused(error: click.ClickException, code: int) -> int:
    """Report in one line what click found wrong with the command line; it quotes arguments."""
    context = getattr(error, "ctx", None)
    message = one_line(error.format_message())
    if isinstance(error, click.NoSuchOption) and context is not None:
        own = [o for p in context.command.params for o in p.opts if o.startswith("--")]
        if held := [quoted(o) for o in own if error.option_name.strip("-") in o]:
            message = f"{one_line(error.message)} Did you mean {' or '.join(held[:3])}?"
    if isinstance(error, click.MissingParameter) and isinstance(error.param, click.Option):
        name = "" if context is None else context.info_name
        typed = shlex.join([*sys.argv[1:], error.param.opts[0], _OUTPUTS.get(name, "result.parquet")])
        message += f" Add it: ppdm {one_line(typed)}"
    path = "ppdm" if context is None else context.command_path
    hinted = "Did you mean" in message or "Add it:" in message
    next_step = "" if hinted and not for_programs() else f"see {path} --help"
    message = message[:1].lower() + (message[1:] if hinted else message[1:].rstrip("."))
    return fail("usage", message, next_step, code)


class Stream:
    """A text stream whose first failure is kept instead of raised, with nothing written after it."""

    def __init__(self, stream: TextIO) -> None:
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
    """Return a stream that writes all that it gets; standard error is written line by line."""
    if stream is not None and not isinstance(getattr(stream, "buffer", None), io.RawIOBase):
        return stream
    encoding, errors = (stream.encoding, stream.errors) if stream is not None else ("utf-8", "backslashreplace")
    buffered = io.BufferedWriter(io.FileIO(descriptor, "w", closefd=False))
    return io.TextIOWrapper(buffered, encoding, errors, line_buffering=descriptor == 2)
