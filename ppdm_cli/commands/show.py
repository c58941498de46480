"""What people see: tables and sentences on stderr or stdout, and progress on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import itemgetter
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from ppdm_cli.errors import one_line
from ppdm_cli.promise import at_most, percent

_WIDE = 120
"""Columns where nobody reads on a terminal, and the most of a table on a narrower one."""

MOST_ROWS = 1000
"""Rows of a table that are shown."""

_PATIENCE = 1.0
"""Seconds of work before progress is shown."""


def console(stderr: bool = False) -> Console:
    """Plain and wide where nobody reads on a terminal."""
    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, highlight=False, width=None if stream.isatty() else _WIDE)


def table(out: Console, title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """A table; text to the left, numbers to the right.

    Where it is too wide, titles are broken and the gaps narrowed, but no cell: a terminal that is narrower
    still has longer lines than it likes.
    """
    texts = {i for row in rows for i, cell in enumerate(row) if isinstance(cell, str)}
    cells = [[Text(cell_text(cell)) for cell in row] for row in rows[:MOST_ROWS]]
    if len(rows) > MOST_ROWS:
        say(out, [f"The first {MOST_ROWS} of {len(rows)} rows; --json has all."])
    titles, gap = [one_line(name) for name in columns], 2
    widest = [max((row[i].cell_len for row in cells), default=0) for i in range(len(titles))]
    if _width(titles, widest, gap) > out.width:
        titles, gap = [_broken(t, w) for t, w in zip(titles, widest, strict=True)], 1
    shown = Table(header_style="bold", box=None, padding=(0, gap, 0, 0))
    for index, name in enumerate(titles):
        shown.add_column(Text(name), justify="left" if index in texts else "right", overflow="fold")
    for row in cells:
        shown.add_row(*row)
    out.print(Text(title))
    has = out.width
    out.width = max(has, min(_width(titles, widest, gap), _WIDE))
    out.print(shown)
    out.width = has


def _width(titles: Sequence[str], widest: Sequence[int], gap: int) -> int:
    """Of a table whose columns' cells are so wide."""
    lines = [max(Text(line).cell_len for line in t.split("\n")) for t in titles]
    return sum(max(line, cells) + gap for line, cells in zip(lines, widest, strict=True))


def _broken(title: str, width: int) -> str:
    """A title with its words on lines of their own, where it is wider than its cells."""
    return title if Text(title).cell_len <= width else title.replace(" ", "\n")


def cell_text(cell: Any) -> str:
    """A number with as many digits as a person reads."""
    if cell is None:
        return "-"
    if isinstance(cell, float):
        return f"{cell:.4g}"
    return one_line(str(cell))


def matrix(figures: Mapping[str, Any]) -> str:
    """What kind of matrix an attribute has, in a cell."""
    return f"band +-{figures['half_width']}" if figures["half_width"] else str(figures["matrix"])


WHAT = ["attribute", "type", "N"]
NOISE = ["noise", "sd", "95% within", "of the domain"]
_CELLS: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "type": lambda r: f"{r['type']} {r['dtype']}",
    "matrix": matrix,
    "stays": lambda r: percent(r["staying"]),
    "condition": lambda r: r["condition_number"],
    "domain": lambda r: r["domain_from"],
    "95% within": lambda r: r["interval"],
    "of the domain": lambda r: f"{100 * r['interval_share']:.3g}%",
    "becomes": lambda r: at_most(r["worst_posterior"]),
}


def attributes(out: Console, title: str, columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    """The figures of attributes (`promise.of_attributes`), a row each; a column is named by its title.

    A title's last word says which figure it is of, where something goes before it.
    """
    of = [_CELLS.get(c) or _CELLS.get(c.split()[-1]) or itemgetter(c) for c in columns]
    table(out, title, columns, [[cell(r) for cell in of] for r in rows])


def say(out: Console, sentences: Sequence[str]) -> None:
    for sentence in sentences:
        out.print(Text(one_line(sentence)), soft_wrap=False)


class Steps:
    """Progress with rate and remaining time, once a pass takes over a second."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task: TaskID | None = None
        self._began, self._rows = 0.0, 0
        self._doing = ""
        self._total: int | None = None

    def begin(self, doing: str, total: int | None) -> None:
        if self._task is not None:
            self._progress.remove_task(self._task)
        self._doing, self._total, self._rows, self._task = doing, total, 0, None
        self._began = time.monotonic()

    def advance(self, rows: int) -> None:
        self._rows += rows
        took = time.monotonic() - self._began
        if self._task is None and took > _PATIENCE:
            self._progress.start()
            self._task = self._progress.add_task(self._doing, total=self._total)
        if self._task is not None:
            self._progress.update(
                self._task, completed=self._rows, rate=f"{self._rows / took / 1e6:.1f}M rows/s"
            )


@contextmanager
def progress() -> Iterator[Steps | None]:
    """Something to tell the rows to; None where stderr is no terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    shown = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        console=console(stderr=True),
        transient=True,
    )
    try:
        yield Steps(shown)
    finally:
        shown.stop()
