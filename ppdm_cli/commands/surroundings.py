"""What the shell says to every command besides its own options: be quiet, threads, the temporary folder.

The environment sets nothing else: not privacy, not keys, and not what may be overwritten. Failures are told
here as well, to people in one line, and to programs (`--json`) as one JSON object on standard error.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import click

from ppdm_cli.errors import UsageError, one_line, quoted

QUIET, THREADS, FOLDER = "PPDM_QUIET", "PPDM_THREADS", "PPDM_TMPDIR"
_MOST_THREADS = 1024
_OUTPUTS = {"perturb": "release.parquet", "plan": "plan.toml", "train-tree": "tree.json"}
"""What the outputs are called in an error that shows how to name one."""


@contextmanager
def surroundings() -> Iterator[None]:
    """Take the defaults of the environment while a command runs."""
    with ExitStack() as stack:
        for name, take in ((THREADS, _threads), (FOLDER, _folder)):
            if os.environ.get(name):
                variable, value = take(os.environ[name])
                stack.callback(variable.reset, variable.set(value))
        yield


def _threads(text: str) -> tuple[Any, int]:
    from ppdm_cli import pool

    if not (text.isascii() and text.isdigit() and 1 <= int(text[:6]) <= _MOST_THREADS):
        raise UsageError(
            f"{THREADS} is {quoted(text)}, which is no number of threads",
            f"set it to 1 to {_MOST_THREADS}, or unset it",
        )
    return pool.THREADS, int(text)


def _folder(text: str) -> tuple[Any, Path]:
    from ppdm_cli import files

    if not Path(text).is_dir():
        raise UsageError(f"{FOLDER} is {quoted(text)}, which is no folder", "make it, or unset the variable")
    return files.TEMPORARY, Path(text)


def quietened(command: click.Command) -> click.Command:
    """Add the option that silences reports and progress, which every command has."""
    if not any(p.name == "quiet" for p in command.params):
        command.params.append(
            click.Option(
                ["-q", "--quiet"],
                is_flag=True,
                is_eager=True,
                expose_value=False,
                envvar=QUIET,
                callback=_quieten,
                help="Print neither report nor progress on standard error; only errors.",
            )
        )
    return command


def _quieten(context: click.Context, _: click.Parameter, value: bool) -> None:
    context.meta[QUIET] = value


def is_quiet() -> bool:
    """Return whether the command that runs was told to be quiet."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(QUIET))


def for_programs() -> bool:
    """Return whether the command line asks for JSON, even one that could not be read."""
    return "--json" in sys.argv[1:]


def say(text: str) -> None:
    """Say one line to people."""
    click.echo(f"ppdm: {text}", err=True)


def fail(kind: str, what: str, next_step: str, code: int) -> int:
    """Say what failed and what to do next; return the exit code."""
    if for_programs():
        error = {"kind": kind, "what": what, "next_step": next_step, "exit_code": int(code)}
        click.echo(json.dumps({"error": error}), err=True)
    else:
        say(": ".join([kind, "; ".join(filter(None, [what, next_step]))]))
    return int(code)


def misused(error: click.ClickException, code: int) -> int:
    """Say what click found wrong with the command line; it quotes arguments."""
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
    if for_programs():
        path = "ppdm" if context is None else context.command_path
        return fail("usage", message, f"see {path} --help", code)
    error.format_message = lambda: message  # type: ignore[method-assign]
    error.show()
    return int(code)
