"""The generated pages of the reference: `make docs` writes them from the code, and a test compares them."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence

import click

import ppdm_cli
from ppdm_cli import errors
from ppdm_cli.commands import SUBCOMMANDS, cli
from ppdm_cli.commands.command import Command, examples
from ppdm_cli.commands.explain import Explanation, explanations
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
_GLOSSARY_HEAD = """# Glossary

`ppdm explain WORD` prints these entries, and explains every command, option, setting and kind of matrix.
"""
_ERRORS_HEAD = """# Errors and refusals

Every failure is one line: what is wrong and where, what to do next, and the command that explains it, such as
`ppdm explain no-gamma`. It never quotes a cell of your data. `--json` prints an object instead, whose `id`
stays the same when the words change. Python raises the same error, with `id`, `what` and `next_step`.

`ppdm explain ID` prints the entry here that has the id. *Refused* means that the command would give away too
much, or that its result would mean nothing. The number is the [exit code](shell.md).
"""
_REPORTS_HEAD = """# Reports

These columns of tables need an explanation; [Questions](query.md#output) has those of `query`. `ppdm explain
stays` prints one. `-o` and `--json` have all digits.

| column | in files | meaning |
|---|---|---|"""
_PICTURED = ("gamma-diagonal", "band", "box")
"""The kinds of matrix that the glossary has."""
_SETTINGS = re.compile(r"(?<=<!-- settings -->\n).*?(?=<!-- end of settings -->)", re.DOTALL)
_KINDS = {
    "Functions": lambda o: not isinstance(o, type),
    "Results and settings": lambda o: isinstance(o, type) and not issubclass(o, Exception),
    "Errors": lambda o: isinstance(o, type) and issubclass(o, Exception),
}
_REQUIRED = inspect.Parameter.empty
_MAKERS = {"unknown": "UsageError", "_wrong": "UsageError", "RowTrouble": "DataError"}
"""Functions that make an error, whose id is among their first two arguments, with its class."""
_OF_WORDS = ("representative", "rare", "innocent", "leaves", "percent-of", "scale")
"""Settings of a plan that are one of a few words."""
_MADE = {
    **dict.fromkeys(("header-too-long", "line-too-long", "delta-failed", "iceberg-failed"), ("data", 1)),
    **{f"unknown-{name}": ("usage", 2) for name in _OF_WORDS},
    **{"wrong-encoding": ("data", 1), "usage": ("usage", 2), "failed": ("failed", 1)},
    **{"out-of-memory": ("out of memory", 1), "interrupted": ("interrupted", 130)},
}
"""Errors whose id no call has as it is, with their kind and exit code."""


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
    """Text with its options as code, in one line."""
    marked = re.sub(r"`[^`]*`|(?<![\w-])--?[a-z][\w-]*", lambda m: f"`{m[0].strip('`')}`", text)
    return " ".join(marked.split())


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
    about = map(_marked, (command.help or "").split("\n\n"))
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


def _term(name: str, text: str, also: Sequence[str], see: str, folder: str) -> str:
    """An entry of a list, with a link to the page that has more."""
    others = f" ({', '.join(also)})" if also else ""
    path = f"../{see}" if folder else see
    return f"- **{name}**{others}: {text}" + (f" [More]({path.replace(f'../{folder}/', '')})" if see else "")


def _words(sort: str) -> list[Explanation]:
    return [entry for entry in explanations() if entry.sort == sort]


def glossary_page() -> str:
    """The terms that the package ships, and the kinds of matrix that other pages speak of."""
    found = [*_words("term"), *(entry for entry in _words("matrix") if entry.name in _PICTURED)]
    found.sort(key=lambda entry: entry.name.casefold())
    return "\n".join([_GLOSSARY_HEAD, *(_term(e.name, e.text, e.also, e.see, "") for e in found), ""])


def exit_codes() -> dict[str, tuple[str, int]]:
    """The kind and the exit code of each error, by its id, as the code raises it."""
    found = dict(_MADE)
    for source in sorted((ROOT / "ppdm_cli").rglob("*.py")):
        for node in ast.walk(ast.parse(source.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                raised = getattr(errors, _MAKERS.get(name := node.func.id, name), None)
                ids = [str(a.value) for a in node.args[:2] if isinstance(a, ast.Constant)]
                if isinstance(raised, type) and issubclass(raised, errors.PpdmError) and ids:
                    id = f"unknown-{ids[0]}".replace(" ", "-") if name == "unknown" else ids[0]
                    found[id] = raised.title, int(raised.exit_code)
    return found


def errors_page() -> str:
    """The topics of errors from A to Z, each with its ids by their kind and exit code."""
    codes, lines = exit_codes(), [_ERRORS_HEAD]
    for e in _words("error"):
        kinds: dict[tuple[str, int], list[str]] = {}
        for id in e.also:
            kinds.setdefault(codes[id], []).append(f"`{id}`")
        ids = "\n".join(f"  {kind} ({code}): {', '.join(kinds[kind, code])}." for kind, code in sorted(kinds))
        lines.append(f"{_term(e.name, e.text, (), e.see, 'reference')}\n{ids}")
    return "\n".join([*lines, ""])


def reports_page() -> str:
    """The columns that commands print, with their names in files."""
    lines = [_REPORTS_HEAD]
    for e in _words("column"):
        form = ", ".join(f"`{name}`" for name in e.form.split(", "))
        lines.append(f"| {e.name} | {form} | {e.text} |")
    return "\n".join([*lines, ""])


def plan_page() -> str:
    """The page on plans with today's settings of an attribute."""
    names = [(", ".join(f"`{n}`" for n in (e.name, *e.also)), e) for e in _words("setting")]
    lines = [f"- {shown}, {e.form}: {e.text}\n" for shown, e in names]
    return _SETTINGS.sub(lambda _: "".join(lines), PLAN.read_text("utf-8"))


PLAN = DOCS / "reference" / "plan.md"
GENERATED = {
    DOCS / "glossary.md": glossary_page,
    DOCS / "reference" / "errors.md": errors_page,
    DOCS / "reference" / "reports.md": reports_page,
    PLAN: plan_page,
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
