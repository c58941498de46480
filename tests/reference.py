"""The generated pages of the reference: `make docs` writes them from the code, and a test compares them."""

from __future__ import annotations

import inspect
import re
import sys
from collections import Counter
from collections.abc import Callable

import click

import ppdm_cli
from ppdm_cli.commands import SUBCOMMANDS, cli
from ppdm_cli.commands.command import Command, examples
from tests.docs import DOCS, ROOT

_SHARED = {
    "CSV files": "types formats decimal delimiter encoding odd nulls header",
    "Sidecars and streams": "sidecar from_ to formulas",
    "Spark": "engine master conf",
    "Every command": "force as_json quiet h help",
}
"""Options that several commands take with one text, by the headings that have them once."""
_COMMANDS_HEAD = """# Commands

Each entry has a command's usage, its own options and an example. The options that several commands share come
first. `ppdm COMMAND -h` prints one screen, and `ppdm COMMAND --help` prints every option. [The shell](shell.md)
has exit codes and environment variables.
"""
_PYTHON_HEAD = """# Python

`import ppdm_cli` gives you one function for each command, and some more. A table is a path, a list of paths, or
any table that speaks Arrow: polars, pandas, pyarrow or DuckDB. Name the settings, as in
`perturb(data, record_epsilon=2)`. `help(ppdm_cli.perturb)` explains every parameter; most of them are the
[options](commands.md) of the same name.

[The notebook](../tutorials/notebook.ipynb) shows the functions at work.
"""
_KINDS = {
    "Functions": lambda o: not isinstance(o, type),
    "Results and settings": lambda o: isinstance(o, type) and not issubclass(o, Exception),
    "Errors": lambda o: isinstance(o, type) and issubclass(o, Exception),
}
_REQUIRED = inspect.Parameter.empty


def subcommands() -> dict[str, Command]:
    found = {name: cli.get_command(click.Context(cli), name) for name in SUBCOMMANDS}
    return {name: command for name, command in found.items() if isinstance(command, Command)}


def _options(command_name: str, command: Command) -> dict[str, tuple[str, str, str]]:
    """Each option by its name: what is typed, what it does, and the group of the help that has it."""
    context = click.Context(command, info_name=f"ppdm {command_name}")
    found = {}
    for option in (p for p in command.get_params(context) if isinstance(p, click.Option)):
        typed, text = option.get_help_record(context) or ("", "")
        name = str(option.name)
        found[name.replace("_click_default_", "")] = typed, text, command.group_of.get(name, "")
    return found


def _entry(typed: str, text: str) -> str:
    """An option as an item of a list, with its default and its range as sentences."""
    said, *extras = re.split(r"  (?=\[)", text)
    parts = [part for extra in extras for part in extra.strip("[]").split("; ")]
    for part in parts:
        word, _, value = part.partition(": ")
        shown = value if " " in value else f"`{value}`"
        bare = f"Default: {shown}." if word == "default" else f"Range: `{part}`."
        said += " Required." if part == "required" else f" {bare}"
    return f"- `{typed}`: {_marked(said)}"


def _marked(text: str) -> str:
    """Text with its options as code."""
    return re.sub(r"(?<![\w`-])--?[a-z][\w-]*", r"`\g<0>`", text)


def commands_page() -> str:
    """All commands: the options that several share once, and then each with its own."""
    options = {name: _options(name, command) for name, command in subcommands().items()}
    titles = {name: title for title, names in _SHARED.items() for name in names.split()}
    counted = Counter((n, record[:2]) for of in options.values() for n, record in of.items() if n in titles)
    shared = {name: record for (name, record), count in counted.most_common()[::-1] if count > 2}
    lines = [_COMMANDS_HEAD]
    for title, names in _SHARED.items():
        lines += [f"## {title}\n", *(_entry(*shared[n]) for n in names.split()), ""]
    for name, command in subcommands().items():
        lines += _command(name, command, options[name], shared, titles)
    return "\n".join(lines).rstrip() + "\n"


def _command(
    name: str,
    command: Command,
    options: dict[str, tuple[str, str, str]],
    shared: dict[str, tuple[str, str]],
    titles: dict[str, str],
) -> list[str]:
    usage = " ".join(command.collect_usage_pieces(click.Context(command)))
    about = (_marked(" ".join(part.split())) for part in (command.help or "").split("\n\n"))
    lines = [f"## {name}\n", f"```text\nppdm {name} {usage}\n```\n", "\n\n".join(about), ""]
    own = {n: record for n, record in options.items() if shared.get(n) != record[:2]}
    for group in dict.fromkeys(["", *command.group_of.values()]):
        entries = [_entry(typed, text) for typed, text, of in own.values() if of == group]
        lines += [*[f"{group}:\n"] * bool(group and entries), *entries, *[""] * bool(entries)]
    common = {n for n in options if n in shared and n not in own}
    whole = [t for t, names in _SHARED.items() if t != "Every command" and set(names.split()) <= common]
    links = [f"[{t}](#{t.lower().replace(' ', '-')})" for t in whole]
    links += [
        f"`{shared[n][0].split()[0]}`"
        for n in (n for n in titles if n in common and titles[n] not in ("Every command", *whole))
    ]
    memory = re.search(r"Memory: .+", " ".join((command.epilog or "").split()))
    lines += [*[f"Shared: {', '.join(links)}.\n"] * bool(links), *[f"{memory[0]}\n"] * bool(memory)]
    return [*lines, f"```text\n{examples(command)[0]}\n```\n"]


def python_page() -> str:
    """The public names with their signatures and first sentences."""
    lines = [_PYTHON_HEAD]
    for title, belongs in _KINDS.items():
        lines.append(f"## {title}\n")
        for name in ppdm_cli.__all__:
            found = getattr(ppdm_cli, name)
            if not name.startswith("__") and belongs(found):
                about = (inspect.getdoc(found) or "").split("\n\n")[0].replace("\n", " ")
                shown = _signature(name, found) if title == "Functions" else name
                link = f" See [{name}](commands.md#{name})." if name in SUBCOMMANDS else ""
                lines.append(f"- `{shown}`: {about}{link}")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _signature(name: str, function: Callable[..., object]) -> str:
    """A function's parameters with their defaults; those that are None, False or empty without them."""
    shown, star = [], False
    for p in inspect.signature(function).parameters.values():
        if p.kind is p.KEYWORD_ONLY and not star:
            star = True
            shown.append("*")
        plain = p.default is _REQUIRED or p.default in (None, False, ())
        shown.append(p.name if plain else f"{p.name}={p.default!r}")
    return f"{name}({', '.join(shown)})"


GENERATED = {
    DOCS / "reference" / "commands.md": commands_page,
    DOCS / "reference" / "python.md": python_page,
}


def main() -> None:
    """Write the pages; say which changed."""
    for page, made in GENERATED.items():
        if not page.exists() or page.read_text("utf-8") != made():
            page.write_text(made(), "utf-8")
            sys.stdout.write(f"rewritten: {page.relative_to(ROOT)}\n")


if __name__ == "__main__":
    main()
