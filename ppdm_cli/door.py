"""The library's front door: how its functions treat the arguments that a notebook passes.

Where names are expected, a string is one name, and errors name arguments. Inside, messages name the
options of the command line; `spoken` rewrites them with the function's arguments.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import ParamSpec, TypeVar

from ppdm_cli.display import names
from ppdm_cli.errors import PpdmError, quoted

P = ParamSpec("P")
R = TypeVar("R")

_ARGUMENTS = {
    "attribute": "attributes",
    "class": "class_",
    "domain": "attributes",
    "from": "from_",
    "no-mdl": "mdl",
    "no-prune": "prune",
    "with": "attacks",
}
_CSV = {
    "date-format": "formats",
    "decimal": "decimal",
    "delimiter": "delimiter",
    "encoding": "encoding",
    "null": "nulls",
    "type": "types",
}
_SWITCHES = {"clip", "force", "keep-order", "no-mdl", "no-prune", "shuffle", "spread"}
_PROSE = "and changes contradict for go goes if is it names needs nor or takes the them to with"
_VERB = re.compile(r"--(drop|keep) (it|them|the column)")
_COMMAND = re.compile(r"ppdm ([a-z-]+) RELEASE -o (\S+)")
_FLAG = re.compile(
    r"(?<![\w'-])--([a-z][a-z0-9-]*)"  # not in the quotes of a name
    rf"(?: (?!(?:{_PROSE.replace(' ', '|')})\b)(?!--)('[^']*'|\S+?)(?=[,;:.)]*(?:\s|$)))?"
)


def front(function: Callable[P, R]) -> Callable[P, R]:
    """Return the function as notebooks call it."""
    takes = signature(function)
    listed = [p.name for p in takes.parameters.values() if p.annotation == "Sequence[str]"]

    @wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            given = takes.bind(*args, **kwargs)
        except TypeError:
            return function(*args, **kwargs)  # whose own error names the function and the argument
        try:
            for name in given.arguments.keys() & listed:
                given.arguments[name] = names(name, given.arguments[name])
            return function(*given.args, **given.kwargs)
        except PpdmError as error:
            raise type(error)(error.id, spoken(error.what), spoken(error.next_step)) from None

    called.__module__ = "ppdm_cli"  # where pickle finds it
    return called


def spoken(text: str) -> str:
    """Return a message that names arguments where it named options: gamma=9 for --gamma 9."""
    text = _VERB.sub(r"\1 \2 with --\1", _COMMAND.sub(r"\1(release, '\2')", text))
    return _FLAG.sub(_argument, text)


def _argument(found: re.Match[str]) -> str:
    option, value = found[1], found[2]
    name = _ARGUMENTS.get(option, option.replace("-", "_"))
    if option in _SWITCHES:
        return f"{name}={not option.startswith('no-')}{' ' + value if value else ''}"
    if option in ("header", "no-header"):
        return f"csv=CsvOptions(header={option == 'header'}){' ' + value if value else ''}"
    if option in _CSV:
        return f"csv=CsvOptions({_CSV[option]}={_in_python(option, value) if value else '...'})"
    return f"{name}={_in_python(option, value) if value else ''}"


def _in_python(option: str, value: str) -> str:
    """Return the value of an option in Python's notation."""
    if option in ("domain", "type", "attribute", "date-format") and value[0] == value[-1] == "'":
        value = value[1:-1]  # a word of the shell
    if option in ("domain", "type", "date-format"):
        column, _, rest = value.rpartition("=")
        return (
            f"{{{quoted(column)}: {{'domain': {rest!r}}}}}"
            if option == "domain"
            else f"{{{quoted(column)}: {rest!r}}}"
        )
    if option == "attribute":
        column, _, rest = value.partition(":")
        return f"{{{quoted(column)}: {dict(s.split('=', 1) for s in rest.split(',') if '=' in s)}}}"
    if option == "null":
        return f"('', {quoted(value)})"
    if re.fullmatch(r"\d+:\d+", value):
        first, last = map(int, value.split(":"))
        return f"range({first}, {last + 1})"
    if "," in value:
        return f"[{', '.join(_in_python('', v) for v in value.split(','))}]"
    return value if re.fullmatch(r"[\d.]+|'.*'", value) else quoted(value)
