"""Command for every subcommand: its help, short and whole, the options that all have, and how it answers.

A command parses, calls the library, and returns a Report. That is written where `-o` and `--plot` say, and
printed as JSON for programs or as tables for people: here, once for all.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import click

from ppdm_cli.commands.options import GROUPS, StreamFormat, file_option, to_option
from ppdm_cli.errors import PpdmError, UsageError

QUIET = "PPDM_QUIET"
SHORT_LINES = 40
"""The most lines of `ppdm COMMAND -h`, on a terminal of 80 columns."""
_OWN, _MOST_NAME = "Options", 24
_HYPHEN = "\N{NON-BREAKING HYPHEN}"
"""A hyphen at which no name of an option is broken."""


@dataclass(frozen=True)
class Report:
    """A command's figures for programs, tables for people, and functions that fill a file or a picture."""

    figures: Callable[[], object]
    show: Callable[[], None]
    fill: Callable[[Any], None] | None = None
    draw: Callable[[Any], None] | None = None
    error: PpdmError | None = None
    """The error with which the command ends once all is shown."""


Answering = Callable[..., Report]
"""A function that answers a command."""


class Command(click.Command):
    """A subcommand whose `-h` fits a screen; `--help` has all, with the options in groups.

    The `groups` name options that `-h` lists by name alone. The others form the first group. Options that
    several commands share are in groups of their own (`options.GROUPS`).
    """

    def __init__(self, *args: Any, groups: Mapping[str, str] | None = None, **kwargs: Any):
        super().__init__(*args, **kwargs)
        named = {**(groups or {}), **GROUPS}
        self.group_of = {name: title for title, names in named.items() for name in names.split()}
        self.params.append(click.Option(["--force"], is_flag=True, help="Overwrite an existing output."))
        about = "Print one JSON object, for programs."
        self.params.append(click.Option(["--json", "as_json"], is_flag=True, help=about))
        self.params.append(
            click.Option(
                ["-q", "--quiet"],
                is_flag=True,
                is_eager=True,
                expose_value=False,
                envvar=QUIET,
                callback=_quieten,
                help="Print only errors: no progress, no report, and no result that goes to a file.",
            )
        )
        self.params.append(
            click.Option(
                ["-h"],
                is_flag=True,
                is_eager=True,
                expose_value=False,
                callback=_print_short,
                help="Show the options on one screen and exit.",
            )
        )

    def invoke(self, ctx: click.Context) -> Any:
        from ppdm_cli.commands import show
        from ppdm_cli.sidecar import display_json

        as_json, on_stream = ctx.params.pop("as_json", False), str(ctx.params.get("output")) == "-"
        if as_json and on_stream:
            what = "--json and -o - would both write to standard output"
            raise UsageError("both-on-standard-output", what, "name an output file")
        silent = on_stream and sys.stdout.isatty()  # rows pass to the terminal as they are made
        with nullcontext() if silent else show.progress():
            report = super().invoke(ctx)
        if as_json:
            click.echo(display_json(report.figures()))
        elif not (is_quiet() and any(map(ctx.params.get, ("output", "plot", "report")))):
            report.show()
        if report.error is not None:
            raise report.error

    def grouped(self, ctx: click.Context) -> dict[str, list[tuple[str, str]]]:
        """Return the options with their help by group, their own first."""
        found: dict[str, list[tuple[str, str]]] = {_OWN: [], **{t: [] for t in self.group_of.values()}}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if isinstance(param, click.Option) and record is not None:
                found[self.group_of.get(str(param.name), _OWN)].append(record)
        return {title: records for title, records in found.items() if records}

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, records in self.grouped(ctx).items():
            with formatter.section(title):
                formatter.write_dl(records)

    def short_help_text(self, ctx: click.Context) -> str:
        """Return the help that fits a screen: the first sentence, own options in a line each, two examples."""
        formatter = ctx.make_formatter()
        self.format_usage(ctx, formatter)
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(_sentence(self.help or ""))
        groups = self.grouped(ctx)
        own = groups.pop(_OWN, [])
        with formatter.section(_OWN) if own else nullcontext():
            for name, text in own:
                name = name if len(name) <= _MOST_NAME else name.rpartition(" ")[0]
                room = formatter.width - _MOST_NAME - 4
                formatter.write(f"  {name:{_MOST_NAME}}  {_cut(_sentence(text), room)}\n")
        formatter.write_paragraph()
        with formatter.indentation():
            for title, records in groups.items():
                names = (name.split(", ")[-1].split(" ")[0] for name, _ in records)
                formatter.write_text(f"{title}: {', '.join(names)}".replace("-", _HYPHEN))
        formatter.write_paragraph()
        for example in examples(self)[:2]:
            formatter.write(f"  {example}\n")
        formatter.write(f"\n{ctx.command_path} --help shows all options in full.\n")
        return formatter.getvalue().replace(_HYPHEN, "-")


def examples(command: click.Command) -> list[str]:
    """Return the examples of a command's help, each with the lines that it goes on in."""
    part = (command.epilog or "").partition("Examples:\n")[2].partition("\n\n")[0]
    return [e.strip() for e in re.split(r"(?<!\\)\n", part)]


def _sentence(text: str) -> str:
    return " ".join(re.split(r"(?<=\.) |\n\n", text.strip())[0].split())


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 3].rsplit(" ", 1)[0].rstrip(",:") + "..."


def _print_short(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value and isinstance(ctx.command, Command) and not ctx.resilient_parsing:
        click.echo(ctx.command.short_help_text(ctx), nl=False)
        ctx.exit()


def _quieten(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    ctx.meta[QUIET] = value


def is_quiet() -> bool:
    """Return whether the command that runs is to be quiet."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(QUIET))


def results(
    output: str, plot: str = "", to: bool = False, plan: bool = False
) -> Callable[[Answering], Answering]:
    """Add `-o`, and with its text `--plot`, to a command whose report can fill a table and draw a picture.

    Both files are opened before the work, so that one that cannot be written fails at once, and appear
    together. A command that writes a `plan` may be given a .toml. It hears whether a table goes to a file
    (`in_file`).
    """

    def decorated(function: Answering) -> Answering:
        @wraps(function)
        def command(
            *args: object,
            output: Path | None,
            force: bool,
            plot: Path | None = None,
            to: StreamFormat | None = None,
            **settings: object,
        ) -> Report:
            from ppdm_cli import pictures
            from ppdm_cli.tables import Output, PendingFile, commit

            stack = click.get_current_context().with_resource(ExitStack())
            table: Output | PendingFile | None = None
            if output is not None:
                if plan and output.suffix == ".toml":
                    table = stack.enter_context(PendingFile(output, force))
                else:
                    table = Output(stack, output, force=force, to=to)
            picture = None if plot is None else pictures.open_picture(stack, plot, force)
            done = function(*args, in_file=output is not None, **settings)
            pending = [(f, make) for f, make in ((table, done.fill), (picture, done.draw)) if f is not None]
            if done.error is None and any(make is None for _, make in pending):
                what = "nothing that you asked for gives a table to write or draw"
                raise UsageError("nothing-to-write", what, "leave out -o and --plot, or ask for more")
            for file, make in pending:
                if make is not None:
                    make(file)
            commit(*(file for file, make in pending if make is not None))
            return done

        wrapped: Answering = command
        if plot:
            wrapped = file_option("--plot", help=plot)(wrapped)
        wrapped = file_option("-o", "--output", help=output)(wrapped)
        return to_option(wrapped) if to else wrapped

    return decorated
