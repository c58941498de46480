"""Man pages for packagers: `make man` writes one for `ppdm` and one for each subcommand, from their help."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ppdm_cli import __version__
from ppdm_cli.commands import SUBCOMMANDS, cli
from ppdm_cli.commands.command import Command


def page(name: str) -> str:
    """Return the man page of a subcommand, in troff."""
    command = cli.get_command(click.Context(cli), name)
    assert isinstance(command, Command) and command.help is not None
    context = click.Context(command, info_name=f"ppdm {name}")
    usage = " ".join(command.collect_usage_pieces(context))
    lines = [*_head(f"ppdm-{name}", SUBCOMMANDS[name]), ".SH SYNOPSIS", _text(f"ppdm {name} {usage}")]
    lines += [".SH DESCRIPTION", *_paragraphs(command.help)]
    for title, records in command.grouped(context).items():
        lines.append(f".SH {_text(title).upper()}")
        for option, meaning in records:
            lines += [".TP", f".B {_text(option)}", _text(" ".join(meaning.split()))]
    examples, _, codes = (command.epilog or "").partition("Exit codes:")
    lines += [
        ".SH EXAMPLES",
        ".nf",
        *map(_text, examples.replace("\b\nExamples:", "").rstrip("\b\n").split("\n")),
    ]
    return "\n".join([*lines, ".fi", ".SH EXIT STATUS", *_paragraphs(codes)]) + "\n"


def overview() -> str:
    """Return the man page of the program, which names the others."""
    lines = [*_head("ppdm", cli.help or ""), ".SH SYNOPSIS", "ppdm COMMAND [OPTIONS]", ".SH COMMANDS"]
    for name, meaning in SUBCOMMANDS.items():
        lines += [".TP", f".BR ppdm\\-{_text(name)} (1)", _text(meaning)]
    return "\n".join(lines) + "\n"


def _head(name: str, meaning: str) -> list[str]:
    title = f'.TH {_text(name).upper()} 1 "" "ppdm {__version__}"'
    return [title, ".SH NAME", f"{_text(name)} \\- {_text(meaning)}"]


def _paragraphs(text: str) -> list[str]:
    return [line for part in text.strip().split("\n\n") for line in (".PP", _text(" ".join(part.split())))]


def _text(text: str) -> str:
    """Return text of which no character means anything to troff."""
    safe = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{safe}" if safe.startswith((".", "'")) else safe


def main(folder: Path) -> None:
    """Write all pages into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "ppdm.1").write_text(overview(), "utf-8")
    for name in SUBCOMMANDS:
        (folder / f"ppdm-{name}.1").write_text(page(name), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
