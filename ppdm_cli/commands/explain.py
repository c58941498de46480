"""`ppdm explain`: look up a term, a command, an option, a setting of a plan, a kind of matrix or an error."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files

import click

from ppdm_cli.commands.command import Command, Report
from ppdm_cli.errors import UsageError, near, quoted


@dataclass(frozen=True)
class Explanation:
    """An explanation of a name: what sort of name it is, its other names, and the page that has more."""

    name: str
    sort: str
    text: str
    also: Sequence[str] = ()
    see: str = ""
    form: str = ""


def explanations() -> Iterator[Explanation]:
    """Yield everything that can be looked up."""
    from ppdm_cli.channels import KINDS
    from ppdm_cli.commands import SUBCOMMANDS, cli

    for sort, words in tomllib.loads((files(__package__) / "words.toml").read_text("utf-8")).items():
        yield from (Explanation(name, sort.removesuffix("s"), **fields) for name, fields in words.items())
    for kind, spec in KINDS.items():
        yield Explanation(kind, "matrix", spec.about, see="reference/sidecar.md")
    for command, about in SUBCOMMANDS.items():
        yield Explanation(command, "command", about, see=(page := f"reference/commands.md#{command}"))
        found = cli.get_command(click.Context(cli), command)
        for option in found.params if found else []:
            if isinstance(option, click.Option) and option.help:
                typed = option.opts[-1]
                yield Explanation(f"ppdm {command} {typed}", "option", option.help, [typed], page)


@click.command(
    "explain",
    cls=Command,
    epilog="""\b
Examples:
  ppdm explain effective sample size
  ppdm explain no-gamma --json

\b
Exit codes: 0 done, 2 the word is unknown. Memory: constant.""",
)
@click.argument("word", nargs=-1, required=True)
def explain_command(word: tuple[str, ...], force: bool) -> Report:
    """Explain WORD: a term, a command, an option, a setting of a plan, a kind of matrix or the id of an error.

    Several words are one term. Write an option without its hyphens: ppdm explain record-epsilon.
    """
    from ppdm_cli.commands import show

    known: dict[str, dict[str, Explanation]] = {}
    for entry in explanations():
        for name in (entry.name, *entry.also):
            known.setdefault(_plain(name), {}).setdefault(entry.text, entry)
    if (found := known.get(_plain(" ".join(word)))) is None:
        step = near(_plain(" ".join(word)), known) or "see docs/glossary.md"
        raise UsageError("unknown-word", f"ppdm explain has no entry for {quoted(' '.join(word))}", step)
    sentences = [f"{e.name} ({e.sort}): {e.text}" + f" See docs/{e.see}." * bool(e.see) for e in found.values()]
    figures = {"word": " ".join(word), "entries": [asdict(e) for e in found.values()]}
    return Report(lambda: figures, lambda: show.say(show.console(), sentences))


def _plain(name: str) -> str:
    """Return a name as it is looked up, however it is typed."""
    return re.sub(r"[\s_-]+", "-", name.casefold()).strip("-")
