"""Options for several subcommands, the readers of their values, and the session of Spark that they ask for."""

from __future__ import annotations

import logging
import os
import re
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import wraps
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click

from ppdm_cli.errors import (
    DataError,
    PpdmError,
    RefusedError,
    UsageError,
    argument,
    missing_package,
    quoted,
    word,
)

if TYPE_CHECKING:
    from ppdm_cli.commands.command import Answering, Report
    from ppdm_cli.tables import CsvOptions, Groups

Added = TypeVar("Added", bound=Callable[..., object])
StreamFormat = Literal["arrow", "csv"]

TABLES, STREAMS = ".csv, .csv.gz, .tsv, .tsv.gz, .parquet, .arrow, .feather or .delta", ("arrow", "csv")
"""The formats that `ppdm_cli.tables` registers, repeated because help must not load it (a test compares)."""


GROUPS = {
    "Reading the data": "header nulls odd encoding delimiter decimal formats types sidecar rows_taken from_",
    "Running on Spark": "engine master conf",
    "Output and reports": "to formulas force as_json quiet h _click_default_help",
}
"""Options that several commands share, by purpose."""


class _File(click.Path):
    """A path; an empty one, as of an unset variable of the shell, is not the current folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            raise UsageError(
                "empty-file-name", "the name of a file is empty", "check the shell variable that it comes from"
            )
        if isinstance(value, str) and "://" in value:
            from ppdm_cli.tables import StorePath

            path = StorePath(value)
            path.typed = value
            return path
        return super().convert(value, param, ctx)


FILE = _File(path_type=Path)


def files_argument(name: str, **settings: Any) -> Callable[[Added], Added]:
    """Return the argument that takes the files of a table; a column among them was meant for an option."""
    return click.argument(name, nargs=-1, type=FILE, callback=_no_columns, **{"required": True} | settings)


def _no_columns(ctx: click.Context, _: click.Parameter, value: tuple[Path, ...]) -> tuple[Path, ...]:
    paths = [v for v in value if "://" not in str(v)]
    there = [v for v in paths if v.is_file()]
    stray = next((str(v) for v in paths if str(v) != "-" and not v.exists()), None)
    if stray is None or not there or stray not in (known := _columns(there[0])):
        return value
    before = sys.argv[1 : sys.argv.index(stray)] if stray in sys.argv else []
    place = max((i for i, a in enumerate(before) if a.startswith("-")), default=0)
    option = next((p for p in ctx.command.params if set(before[place : place + 1]) & set(p.opts)), None)
    step = "write an option before each column, or leave it out"
    if isinstance(option, click.Option) and any(a in known for a in before[place + 1 :]):
        after = takewhile(lambda a: a in known, sys.argv[place + 2 :])
        each = " ".join(f"{before[place]} {word(a)}" for a in after)
        step = f"repeat the option: {each}" if option.multiple else f"{before[place]} takes one column"
    raise UsageError("column-as-file", f"{quoted(stray)} is a column of {quoted(there[0])}, not a file", step)


def _columns(file: Path) -> list[str]:
    from ppdm_cli.tables import CsvOptions, open_table

    with suppress(PpdmError):
        return list(open_table(file, csv=CsvOptions(only=frozenset())).schema.names)
    return []


def file_option(*names: str, metavar: str = "FILE", **settings: Any) -> Callable[[Added], Added]:
    """Return an option that names a file."""
    return click.option(*names, type=FILE, metavar=metavar, **settings)


sidecar_option = file_option(
    "--sidecar", help="Read the sidecar from here.  [default: DATA.ppdm.json, or inside the data]"
)
from_option = click.option(
    "--from",
    "from_",
    type=click.Choice(STREAMS),
    default=None,
    help="Read standard input in this format.  [default: arrow]",
)
to_option = click.option(
    "--to",
    type=click.Choice(STREAMS),
    default=None,
    help="Write standard output in this format.  [default: arrow]",
)


def formulas_option(function: Answering) -> Answering:
    """Add the option for text in a CSV that a spreadsheet would compute."""

    @click.option(
        "--formulas",
        type=click.Choice(["refuse", "text", "keep"]),
        default="refuse",
        show_default=True,
        help="Refuse text in a CSV output that a spreadsheet would compute, such as =1+1, write it with an "
        "apostrophe before it (text), or keep it.",
    )
    @wraps(function)
    def command(*args: object, formulas: Literal["keep", "refuse", "text"], **settings: object) -> Report:
        from ppdm_cli.tables import FORMULAS, ComputedTextError

        before = FORMULAS.set(formulas)
        try:
            return function(*args, **settings)
        except ComputedTextError as error:
            ways = "add --formulas text to put an apostrophe before it, or --formulas keep"
            raise RefusedError(error.id, error.what, f"{error.next_step}, or {ways}") from None
        finally:
            FORMULAS.reset(before)

    return command


def output_option(what: str) -> Callable[[Added], Added]:
    """Return the option that names a table's output, with its formats."""
    return file_option("-o", "--output", required=True, help=f"{what}: {TABLES}; - is standard output.")


_OF_TREES = ("class-random", "class-probabilistic", "class-all-leaves", "innocent")


def complete_kinds(_: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of a kind of matrix, or of a scheme; kinds are loaded only then."""
    from ppdm_cli import channels

    known = [*channels.schemes(), *_OF_TREES] if param.name == "scheme" else channels.kind_names()
    return [k for k in known if k.startswith(incomplete)]


def csv_options(function: Answering) -> Answering:
    """Add the options for reading a CSV; the command gets them as `csv`, the library's options."""
    options = (
        click.option(
            "--header/--no-header",
            default=None,
            help="State whether the first line of a CSV names the columns; if not, they are column_1, "
            "column_2, ...  [default: it does, and is refused if it looks like a record]",
        ),
        click.option(
            "--null",
            "nulls",
            multiple=True,
            metavar="TEXT",
            help="Read this text in a CSV as null, like the empty cell; repeatable.",
        ),
        click.option(
            "--odd",
            multiple=True,
            metavar="[COL=]null|value",
            help="Read odd cells as null or as values, in one column or in all; repeatable. An odd cell "
            "doesn't fit its column's type, or a plan asks about it.",
        ),
        click.option("--encoding", metavar="NAME", help="Read a CSV in this encoding.  [default: utf-8]"),
        click.option(
            "--delimiter", metavar="CHAR", help="Split the cells of a CSV at this character.  [default: ,]"
        ),
        click.option(
            "--decimal",
            metavar="CHAR",
            help="Decimal separator in the CSV. With a comma, points may separate thousands.  [default: .]",
        ),
        click.option(
            "--date-format",
            "formats",
            multiple=True,
            metavar="COL=FORMAT",
            help="Read the dates of a CSV column in this format, such as born=%d.%m.%Y; repeatable. The "
            "first format that fits a cell counts.",
        ),
        click.option(
            "--type",
            "types",
            multiple=True,
            metavar="COL=TYPE",
            help="Read a CSV column as this type, such as zip=string, instead of inferring it; repeatable.",
        ),
    )

    @wraps(function)
    def command(*args: object, **settings: Any) -> Report:
        names = ("types", "formats", "delimiter", "decimal", "encoding", "nulls", "odd", "header")
        return function(*args, csv=_csv_reading(**{n: settings.pop(n) for n in names}), **settings)

    wrapped: Answering = command
    for option in options:
        wrapped = option(wrapped)
    return wrapped


def truth_options(function: Answering) -> Answering:
    """Add the options for reading an original; the command gets them as `csv` and `mappings`."""

    @wraps(function)
    def command(*args: object, plan: Path | None, csv: CsvOptions, **settings: object) -> Report:
        mappings: list[Groups] = []
        if settings["truth"] is None and (plan is not None or csv.given or csv.types or csv.formats):
            raise UsageError(
                "reading-without-truth",
                "a plan or CSV options are given without an original: a release is read by its sidecar",
                f"add {argument('truth', 'ORIGINAL')}, or leave them out",
            )
        if plan is not None:
            from ppdm_cli.perturbing import read_reading

            planned, mappings = read_reading(plan)
            csv = csv.laid_over(planned)
        return function(*args, csv=csv, mappings=mappings, **settings)

    grouping = "With --truth: read and group the original as this plan of the release says."
    rows = "With --truth: use only the rows that the release has, as perturb --rows-taken wrote them."
    return csv_options(file_option("--plan", help=grouping)(file_option("--rows-taken", help=rows)(command)))


def _csv_reading(
    types: tuple[str, ...],
    formats: tuple[str, ...],
    delimiter: str | None,
    nulls: tuple[str, ...],
    odd: tuple[str, ...],
    **others: Any,
) -> CsvOptions:
    """Return the library's options for those of the command; others keep their defaults."""
    from ppdm_cli.tables import CsvOptions

    given = {n: v for n, v in others.items() if v is not None}
    if delimiter is not None:
        given["delimiter"] = "\t" if delimiter in ("\\t", "tab") else delimiter
    if nulls:
        given["nulls"] = ("", *nulls)
    dated: dict[str, list[str]] = {}
    for column, form in (pair(f, "--date-format", "born=%d.%m.%Y") for f in formats):
        dated.setdefault(column, []).append(form)
    typed = dict(pair(t, "--type", "zip=string") for t in types)
    cells = {column: choice for column, _, choice in (o.rpartition("=") for o in odd)}
    return CsvOptions(types=typed, formats=dated, odd=cells, given=frozenset(given), **given)


def pair(text: str, option: str, example: str) -> tuple[str, str]:
    """Split NAME=VALUE at the first =."""
    name, sign, value = text.partition("=")
    if not sign or not name or not value:
        step = f"try {option} {example}, in quotes if it has spaces"
        raise UsageError("not-a-pair", f"{option} takes NAME=VALUE", step)
    return name, value


def attribute_settings(text: str) -> tuple[str, dict[str, str]]:
    """Split `age:gamma=5,bins=24,domain=0:120` into a name and its settings.

    The name ends at the colon before the first setting, so it may hold colons and equals signs itself.
    """
    setting = re.search(r"(?<=.):(?=[a-z]\w*=)", text)
    name = text[: setting.start()] if setting else ""
    if not name:
        raise UsageError(
            "not-a-setting",
            f"{quoted(text)} is not a setting of an attribute",
            "try --attribute age:gamma=5,bins=24,domain=0:120",
        )
    return name, dict(
        pair(part, "--attribute", "age:gamma=5,bins=24") for part in text[len(name) + 1 :].split(",")
    )


def together_settings(text: str) -> dict[str, str | list[str]]:
    """Split `age,sex` or `age,sex:gamma=5,matrix=block` into names and the settings of their channel."""
    names, settings = attribute_settings(text) if "=" in text else (text, {})
    return {"attributes": names.split(","), **settings}


def numbers(text: str, example: str) -> list[Any]:
    """Read `2:21`, `5,10,15` or `30:100:10` as exact decimals; ranges include their ends."""
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
        raise UsageError("not-numbers", f"{quoted(text)} is not a list of numbers", f"try {example}") from None
    return found


def whole_numbers(text: str, example: str) -> list[int]:
    values = numbers(text, example)
    if any(not v.is_finite() or v != int(v) for v in values):
        raise UsageError(
            "not-whole-numbers", f"{quoted(text)} has a number that is not whole", f"try {example}"
        )
    return [int(v) for v in values]


cells_option = click.option(
    "--cells",
    type=click.IntRange(100, 1 << 24),
    metavar="N",
    default=400_000,
    show_default=True,
    help="Limit the cells of a joint table. More cells admit more attributes, but take longer.",
)


_LOG = "spark.log.level"


def cluster_options(function: Answering) -> Answering:
    """Add the options that choose where the command runs; with Spark its files are any that Spark can read."""

    @wraps(function)
    def command(
        *args: object, engine: str, master: str | None, conf: tuple[str, ...], **settings: object
    ) -> Report:
        if engine == "spark":
            with _on_cluster(master, conf):
                return function(*args, **settings)
        if master is not None or conf:
            raise UsageError("only-for-spark", "--master and --conf need --engine spark", "add --engine spark")
        return function(*args, **settings)

    wrapped: Answering = command
    for option in (
        click.option(
            "--conf",
            multiple=True,
            metavar="KEY=VALUE",
            help="With --engine spark: set this in Spark, such as spark.executor.memory=4g; repeatable.",
        ),
        click.option(
            "--master",
            metavar="URL",
            help="With --engine spark: run on this cluster, such as yarn or spark://host:7077.  [default: "
            "from Spark's own files, or all cores of this machine]",
        ),
        click.option(
            "--engine",
            type=click.Choice(["threads", "spark"]),
            default="threads",
            show_default=True,
            help="Where to run: threads of this machine, or a Spark cluster. With spark, input and output "
            "are Parquet folders at any URI that Spark knows.",
        ),
    ):
        wrapped = option(wrapped)
    return wrapped


@contextmanager
def _on_cluster(master: str | None, conf: Sequence[str]) -> Iterator[None]:
    from ppdm_cli.engine import on_spark, running

    settings = dict(pair(c, "--conf", "spark.executor.memory=4g") for c in conf)
    session = _session(master, settings)
    try:
        with running(engine=on_spark(session)):
            yield
    finally:
        session.stop()


def _session(master: str | None, settings: dict[str, str]) -> Any:
    try:
        from pyspark.sql import SparkSession
    except ModuleNotFoundError:
        raise missing_package("--engine spark needs a library", "pyspark", "pandas") from None
    if not (os.environ.get("JAVA_HOME") or shutil.which("java")):
        raise UsageError(
            "java-missing", "Spark needs Java, which isn't installed", "install Java 17, or set JAVA_HOME"
        )
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    warnings.filterwarnings("ignore", "PySpark does not yet", FutureWarning)
    if _LOG not in settings:
        logging.getLogger("py4j").setLevel(logging.CRITICAL)  # it prints pages where a run is interrupted
    builder = SparkSession.builder.appName("ppdm").config("spark.ui.showConsoleProgress", "false")
    for key, value in ({_LOG: "OFF"} | settings).items():
        builder = builder.config(key, value)
    if master is not None:
        builder = builder.master(master)
    try:
        with _silenced(_LOG not in settings):
            return builder.getOrCreate()
    except Exception:  # of Spark, of the JVM, of the way between
        where = "" if master is None else f" at {quoted(master)}"
        raise DataError(
            "spark-not-started",
            f"Spark cannot be started{where}",
            f"check --master and --conf, or add --conf {_LOG}=WARN to see what Spark says",
        ) from None


@contextmanager
def _silenced(silent: bool) -> Iterator[None]:
    """Discard the standard error of processes that start meanwhile: the JVM would mix pages into a report."""
    if not silent:
        yield
        return
    sys.stderr.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
