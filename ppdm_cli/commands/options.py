"""Options that several subcommands share, and the readers of their values."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from ppdm_cli.errors import UsageError, quoted


class _File(click.Path):
    """A path; an empty one, as of an unset variable of the shell, is not the current folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            raise UsageError("the name of a file is empty", "check the variable that it comes from")
        return super().convert(value, param, ctx)


FILE = _File(path_type=Path)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object, for programs.")
force_option = click.option("--force", is_flag=True, help="Overwrite an existing output.")
sidecar_option = click.option(
    "--sidecar", type=FILE, metavar="FILE", help="The sidecar, if not beside the data as NAME.ppdm.json."
)
from_option = click.option(
    "--from",
    "from_",
    type=click.Choice(["arrow", "csv"]),
    default=None,
    help="The format of standard input.  [default: arrow]",
)
to_option = click.option(
    "--to",
    type=click.Choice(["arrow", "csv"]),
    default=None,
    help="The format of standard output.  [default: arrow]",
)


def kinds(_: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of a kind of matrix, or of a scheme; they are loaded only then."""
    from ppdm_cli import channels

    known = channels.schemes() if param.name == "scheme" else channels.kinds()
    return [k for k in known if k.startswith(incomplete)]


def csv_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """How a CSV is to be read: the command gets it as `csv`, the library's options."""

    @wraps(function)
    def command(
        *args: Any, types: Any, delimiter: str, encoding: str, nulls: Any, header: bool | None, **settings: Any
    ) -> Any:
        return function(*args, csv=_csv_reading(types, delimiter, encoding, nulls, header), **settings)

    wrapped: Callable[..., Any] = command
    for option in (
        click.option(
            "--header/--no-header",
            default=None,
            help="Whether a CSV's first line names the columns; without one they are column_1, column_2, ...  "
            "[default: it does, and one that looks like a record is refused]",
        ),
        click.option(
            "--null",
            "nulls",
            multiple=True,
            metavar="TEXT",
            help="A CSV cell that stands for no value, besides the empty one; repeatable.",
        ),
        click.option(
            "--encoding", default="utf-8", metavar="NAME", show_default=True, help="The encoding of a CSV."
        ),
        click.option(
            "--delimiter", default=",", metavar="CHAR", show_default=True, help="What parts the cells of a CSV."
        ),
        click.option(
            "--type",
            "types",
            multiple=True,
            metavar="COL=TYPE",
            help="The type of a CSV column, such as zip=string; others are inferred; repeatable.",
        ),
    ):
        wrapped = option(wrapped)
    return wrapped


def _csv_reading(
    types: tuple[str, ...], delimiter: str, encoding: str, nulls: tuple[str, ...], header: bool | None
) -> Any:
    """The library's options from the command's."""
    from ppdm_cli.tables import CsvOptions

    pairs = dict(pair(t, "--type", "zip=string") for t in types)
    delimiter = "\t" if delimiter in ("\\t", "tab") else delimiter
    return CsvOptions(delimiter, encoding, ("", *nulls), pairs, header=header)


def pair(text: str, option: str, example: str) -> tuple[str, str]:
    """NAME=VALUE, parted at the first =."""
    name, sign, value = text.partition("=")
    if not sign or not name or not value:
        raise UsageError(f"{option} takes NAME=VALUE", f"such as {option} {example}")
    return name, value


def attribute_settings(text: str) -> tuple[str, dict[str, Any]]:
    """`age:gamma=5,bins=24,domain=0:120` as a name and its settings.

    The name ends at the colon before the first setting, so it may hold colons itself.
    """
    head = text.partition("=")[0]
    name, colon, _ = head.rpartition(":")
    if not colon or not name or "=" not in text:
        raise UsageError(
            f"{quoted(text)} is no setting of an attribute",
            "such as --attribute age:gamma=5,bins=24,domain=0:120",
        )
    return name, dict(
        pair(part, "--attribute", "age:gamma=5,bins=24") for part in text[len(name) + 1 :].split(",")
    )


def numbers(text: str, example: str) -> list[Any]:
    """`2:21`, `5,10,15` or `30:100:10`, as exact decimals; ranges include their ends."""
    from decimal import Decimal, InvalidOperation

    found: list[Decimal] = []
    try:
        for part in text.split(","):
            ends = [Decimal(p) for p in part.split(":")]
            if any(abs(e.adjusted()) > 15 for e in ends if e.is_finite()):
                raise InvalidOperation
            if len(ends) == 1:
                found += ends
                continue
            low, high, step = ends[0], ends[1], ends[2] if len(ends) == 3 else Decimal(1)
            if len(ends) > 3 or step <= 0 or high < low or (high - low) / step > 10_000:
                raise InvalidOperation
            found += [low + i * step for i in range(int((high - low) / step) + 1)]
    except (ArithmeticError, ValueError):
        raise UsageError(f"{quoted(text)} is no list of numbers", f"such as {example}") from None
    return found


def whole_numbers(text: str, example: str) -> list[int]:
    values = numbers(text, example)
    if any(not v.is_finite() or v != int(v) for v in values):
        raise UsageError(f"{quoted(text)} has a number that is not whole", f"such as {example}")
    return [int(v) for v in values]


cells_option = click.option(
    "--cells",
    type=click.IntRange(100, 1 << 24),
    default=400_000,
    show_default=True,
    help="The most cells of a joint table: more let more attributes in, and take longer.",
)
