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
import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO, cast

import click

from ppdm_cli.errors import UsageError, in_sentences, near, one_line, quoted

THREADS, FOLDER, WRITER = "PPDM_THREADS", "PPDM_TMPDIR", "PPDM_WRITER"
_MOST_THREADS = 1024
_OUTPUTS = {"perturb": "release.parquet", "plan": "plan.toml", "train-tree": "tree.json"}
"""The names of outputs in an error that shows how to name one."""
_PLAIN = {
    "is not a valid float( range)?": "is not a number",
    "is not a valid integer( range)?": "is not a whole number",
    "requires an argument": "needs a value",
}
"""Words of click, and those that users know."""


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


def fail(kind: str, what: str, next_step: str, code: int, id: str = "") -> int:
    """Report a failure and the next step; return the exit code.

    A command line that asks for JSON gets it, even one that could not be read.
    """
    if "--json" in sys.argv[1:]:
        named = {"id": id or kind.replace(" ", "-"), "kind": kind, "what": what, "next_step": next_step}
        error = {**named, "exit_code": int(code)}
        click.echo(json.dumps({"error": error}), err=True)
    else:
        pointer = f" (ppdm explain {id})" if id else ""
        click.echo(f"ppdm: {kind}: {in_sentences(what, next_step)}{pointer}", err=True)
    return int(code)


def misused(error: click.ClickException, code: int) -> int:
    """Report in one line what click found wrong with the command line; it quotes arguments."""
    context = getattr(error, "ctx", None)
    unhinted = isinstance(error, click.NoSuchOption)
    message = one_line(error.message if unhinted else error.format_message())
    what, _, hint = message.partition(" Did you mean ")
    for pattern, words in _PLAIN.items():
        what = re.sub(pattern, words, what)
    path = "ppdm" if context is None else context.command_path
    step = f"did you mean {hint}" if hint else _instead(error, context) or f"see {path} --help"
    return fail("usage", what[:1].lower() + what[1:].rstrip("."), step, code)


def _instead(error: click.ClickException, context: click.Context | None) -> str:
    """Return what to type instead; empty where that is not known."""
    if isinstance(error, click.BadOptionUsage):
        return f"add it after {error.option_name}"
    if isinstance(error, click.NoSuchOption) and context is not None:
        return _option(error.option_name, context)
    param = getattr(error, "param", None)
    if context is not None and isinstance(error, click.MissingParameter) and isinstance(param, click.Argument):
        return f"write {' '.join(_call(context))}"
    if context is None or not isinstance(param, click.Option):
        return ""
    name = param.opts[0]
    if isinstance(error, click.MissingParameter):
        typed = shlex.join([*sys.argv[1:], name, _OUTPUTS.get(str(context.info_name), "result.parquet")])
        return f"add it: ppdm {one_line(typed)}"
    wrong = re.match(r"'(.*?)' is not (one of)?", error.message)
    if wrong and wrong[2]:
        return near(wrong[1], re.findall(r"'(.*?)'", error.message[wrong.end() :]))
    whole = isinstance(param.type, click.types.IntParamType)
    if wrong and whole and re.fullmatch(r"\d{1,3}([.,]\d{3})+", wrong[1]):
        return f"use {name} {re.sub('[.,]', '', wrong[1])}"
    if wrong and not whole and re.fullmatch(r"\d+,\d+", wrong[1]):
        return f"use {name} {wrong[1].replace(',', '.')}"
    return ""


def _call(context: click.Context) -> list[str]:
    """Return a command with the arguments that it takes."""
    arguments = (p for p in context.command.params if isinstance(p, click.Argument))
    return [context.command_path, *(str(p.name).upper() for p in arguments)]


def _option(name: str, context: click.Context) -> str:
    """Return the options that a name is a part of, the other commands that have it, or the nearest option."""
    if name.strip("-").upper() in (call := _call(context)):
        return f"leave out {name}: {' '.join(call)}"
    own = [o for p in context.command.params for o in p.opts if o.startswith("--")]
    if held := [quoted(o) for o in own if name.strip("-") in o]:
        return f"did you mean {' or '.join(held[:3])}?"
    above = context.parent
    if above is None or not isinstance(group := above.command, click.Group):
        return near(name, own)
    commands = {n: group.get_command(above, n) for n in group.list_commands(above)}
    others = [f"ppdm {n}" for n, c in commands.items() if c and any(name in p.opts for p in c.params)]
    return f"use it with {' or '.join(others[:3])}" if others else near(name, own)


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
