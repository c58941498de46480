"""Show tables and sentences on stderr or stdout, and progress on a terminal."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from operator import itemgetter
from textwrap import wrap
from threading import Timer
from typing import TYPE_CHECKING, Any, Literal

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from ppdm_cli.commands.command import is_quiet
from ppdm_cli.display import percent, up
from ppdm_cli.engine import running
from ppdm_cli.errors import counted, one_line

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.progress import Progress, ProgressColumn

_WIDE = 120
"""The width of output that does not go to a terminal, unless COLUMNS says another."""

MOST_ROWS = 1000
"""The most rows of a table that are shown."""

MOST_COLUMNS = 40
"""The most columns of the data that have lines of their own."""

_ROOM = 12
"""The least width in which the words of a last column are wrapped."""

_PATIENCE = 1.0
"""Seconds of work before progress is shown."""


def console(stderr: bool = False) -> Console:
    """Return a console that is plain, and as wide as COLUMNS says, if its stream is not a terminal; a quiet
    one for no reports.

    NO_COLOR makes it plain on a terminal too: neither colours nor bold letters.
    """
    stream = sys.stderr if stderr else sys.stdout
    if hasattr(stream, "reconfigure"):  # a terminal without the letters of a name gets their numbers
        stream.reconfigure(errors="backslashreplace")
    width = None if stream.isatty() or _sized() else _WIDE
    colors: Literal["auto"] | None = None if os.environ.get("NO_COLOR") else "auto"
    quiet = stderr and is_quiet()
    return Console(stderr=stderr, highlight=False, width=width, quiet=quiet, color_system=colors)


def _sized() -> bool:
    return os.environ.get("COLUMNS", "").isdigit()


def table(out: Console, title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table; text to the left, numbers to the right.

    If it is too wide for a terminal, titles are broken and the gaps narrowed, and the words of a last column of
    text continue below it. Words are never broken or cut. In a file each row is one line.
    """
    texts = {i for row in rows for i, cell in enumerate(row) if isinstance(cell, str)}
    cells = [[cell_text(cell) for cell in row] for row in rows[:MOST_ROWS]]
    if len(rows) > MOST_ROWS:
        say(out, [f"The first {MOST_ROWS:,} of {len(rows):,} rows. Use --json for all."])
    titles, gap = [one_line(name) for name in columns], 2
    widest = [max((cell_len(row[i]) for row in cells), default=0) for i in range(len(titles))]
    broken = [t.split(" ") if len(t) > w else [t] for t, w in zip(titles, widest, strict=True)]
    wide = sum(map(max, map(cell_len, titles), widest)) + gap * len(titles) - gap
    if wide <= out.width or not (out.is_terminal or _sized()):
        broken = [[t] for t in titles]
    else:
        gap = 1
    high = max(map(len, broken), default=0)
    heads = [list(line) for line in zip(*([""] * (high - len(t)) + t for t in broken), strict=True)]
    widths = [max(map(cell_len, column)) for column in zip(*heads, *cells, strict=True)]
    if title:
        out.print(Text(one_line(title)), soft_wrap=True)
    for number, line in enumerate([*heads, *cells]):
        padded = [
            set_cell_size(cell, width) if i in texts else " " * (width - cell_len(cell)) + cell
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        before = (" " * gap).join([*padded[:-1], ""])
        room, words = out.width - cell_len(before), padded[-1:]
        if gap == 1 and len(titles) - 1 in texts and room >= _ROOM:
            words = wrap(line[-1], room, break_long_words=False, break_on_hyphens=False) or words
        text = before + ("\n" + " " * cell_len(before)).join(words)
        out.print(Text(text.rstrip(), style="bold" * (number < high)), soft_wrap=True)


def cell_text(cell: object) -> str:
    """Return a cell as text; a number has as many digits as a person reads."""
    if cell is None:
        return "-"
    if isinstance(cell, float):
        return f"{cell:.4g}"
    return one_line(str(cell))


def share(value: float | None) -> str:
    """Return a share that may be above 1."""
    return "" if value is None else f"{100 * value:.2g}%" if value < 1 else f"{100 * value:.0f}%"


def promise(bound: object) -> object:
    """Return a gamma, an epsilon or a belief as its cell shows it, rounded up."""
    return up(bound) if isinstance(bound, (int, float)) else bound


WHAT = ["attribute", "type", "N"]
NOISE = ["noise", "sd", "95% within", "of the domain"]
_CELLS: dict[str, Callable[[Mapping[str, Any]], object]] = {
    "type": lambda r: f"{r['type']} {r['dtype']}",
    "matrix": itemgetter("law"),
    "stays": lambda r: percent(r["staying"]),
    "published": lambda r: percent(r.get("published", 1.0)),
    "condition": lambda r: r.get("condition_number"),
    "domain": lambda r: r["domain_from"],
    "error": lambda r: share(r["error"]),
    "95% within": lambda r: r["interval"],
    "of the domain": lambda r: f"{100 * r['interval_share']:.3g}%",
    "gamma": lambda r: promise(r["gamma"]),
    "epsilon": lambda r: promise(r["epsilon"]),
}


def promised(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the columns with the promises for attributes, without those that are equal in all rows."""
    from ppdm_cli.channels import DEFAULT_KIND

    if any("published" in r for r in rows):  # the record's budget is for all
        return ["published", "stays"]
    return [*["matrix"] * any(r["law"] != DEFAULT_KIND for r in rows), "gamma", "epsilon", "stays"]


def attributes(out: Console, title: str, columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the figures of attributes (`attribute_figures`), one row each, a column for each title.

    If a title has several words, the last one names the figure.
    """
    of = [_CELLS.get(c) or _CELLS.get(c.split()[-1]) or itemgetter(c) for c in columns]
    of_columns(out, title, columns, [[cell(r) for cell in of] for r in rows])


def of_columns(
    out: Console, title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], keys: int = 1
) -> None:
    """Print a table with lines for each column of the data, the last key; only the first of many columns."""
    names = list(dict.fromkeys(row[keys - 1] for row in rows))
    first = set(names[:MOST_COLUMNS])
    table(out, title, columns, [r for r in rows if r[keys - 1] in first])
    if more := len(names) - len(first):
        say(out, [f"... and {counted(more, 'more column')}. Use --json for all."])


def say(out: Console, sentences: Sequence[str]) -> None:
    """Print sentences, warnings last."""
    for sentence in sorted(sentences, key=lambda s: s.startswith("Warning:")):
        out.print(Text(one_line(sentence)), crop=False)  # cropping takes the square of its length


def _short(number: float) -> str:
    """Return a large number in short form: 950, 12k, 2.3M."""
    if number < 1e4:
        return f"{number:.0f}"
    return f"{number / 1e3:.0f}k" if number < 1e6 else f"{number / 1e6:.1f}M"


def _figures(rate: bool) -> ProgressColumn:
    """Return the column of a progress bar that shows the share done, the rate and the remaining time."""
    from rich.progress import ProgressColumn, Task

    class Figures(ProgressColumn):
        def render(self, task: Task) -> Text:
            done = f"{task.percentage:.0f}%" if task.total is not None else f"{_short(task.completed)} rows"
            speed = f"{_short(task.speed)} rows/s" if rate and task.speed else ""
            left = f"{timedelta(seconds=task.time_remaining)} left" if task.time_remaining else ""
            return Text(", ".join(filter(None, [done if task.completed else "", speed, left])), no_wrap=True)

    return Figures()


class PassProgress:
    """Show progress, pass after pass, once the run takes over a second; each line goes with its pass."""

    def __init__(self, out: Console) -> None:
        self._out, self._from = out, time.monotonic() + _PATIENCE
        self._progress: Progress | None = None
        self._waiting: Timer | None = None

    def begin(self, doing: str, total: int | None) -> None:
        from rich.progress import BarColumn, Progress, TextColumn

        self.end()
        bar = max(0, min(30, self._out.width - 50))  # the rest is for words, and for ^C: no line may break
        columns = [TextColumn("{task.description}"), *[BarColumn(bar)] * (bar > 0), _figures(bar > 0)]
        self._progress = Progress(
            *columns, console=self._out, transient=True, redirect_stdout=False, redirect_stderr=False
        )
        self._progress.add_task(doing, total=total)
        wait = self._from - time.monotonic()
        self._waiting = Timer(wait, self._progress.start)  # in a thread of its own: no ^C breaks what it draws
        self._waiting.daemon = True
        self._waiting.start()
        if wait <= 0:
            self._waiting.join()

    def advance(self, rows: int) -> None:
        if self._progress is not None:
            self._progress.advance(self._progress.task_ids[0], rows)

    def end(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting.join()
        if self._progress is not None:
            self._progress.stop()
        self._progress = self._waiting = None


def advancing(batches: Iterable[pa.RecordBatch], advance: Callable[[int], None]) -> Iterator[pa.RecordBatch]:
    """Pass the batches on, and report their rows as progress."""
    for batch in batches:
        yield batch
        advance(batch.num_rows)


@contextmanager
def progress() -> Iterator[None]:
    """Show the progress of calls inside, if stderr is a terminal that can redraw a line."""
    out = console(stderr=True)
    visible = sys.stderr.isatty() and not out.is_dumb_terminal and not is_quiet()
    steps = PassProgress(out) if visible else None
    try:
        with running(progress=steps):
            yield
    finally:
        if steps is not None:  # wherever ^C came
            steps.end()
