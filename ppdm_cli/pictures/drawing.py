"""From a chart to a file: SVG, PNG, PDF or stand-alone HTML, without a browser."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from ppdm_cli.errors import DataError, UsageError, argument, one_line, quoted
from ppdm_cli.tables import PendingFile

Chart = Any
"""A chart, or a part of one, as altair has it: an extra that says nothing of its types."""
_SUFFIXES = (".svg", ".png", ".pdf", ".html")


def open_picture(stack: ExitStack, path: Path, force: bool) -> PendingFile:
    """Open a picture before anything is computed: check its suffix, the extra, and that it may be written."""
    if path.suffix.lower() not in _SUFFIXES:
        raise UsageError(
            "unknown-picture-format",
            f"the suffix of {quoted(path.name)} names no picture",
            f"name a file that ends in {', '.join(_SUFFIXES)}",
        )
    altair()
    return stack.enter_context(PendingFile(path, force))


def altair() -> Chart:
    """Return the library that describes charts; a picture needs an extra."""
    try:
        import altair as found
        import vl_convert  # noqa: F401
    except ImportError:
        raise UsageError(
            "plot-extra-missing",
            "pictures need an extra that is not installed",
            "install it with: pip install 'ppdm-cli[plot]'",
        ) from None
    return found


def save(chart: Chart, target: PendingFile) -> None:
    """Fill the file with the chart, in the format of its suffix; `commit` puts it in its place."""
    import vl_convert

    form = target.named.suffix.lower()[1:]
    try:
        content = _drawn(vl_convert, _shown_in(chart.to_dict()), form)
    except (KeyboardInterrupt, SystemExit, MemoryError, OSError):
        raise
    except BaseException:  # its message is Vega's, and may quote a label; a panic is no Exception
        raise DataError(
            "picture-too-large",
            f"the picture {quoted(target.named)} cannot be drawn: it is too large for the drawing library",
            f"draw less of it, such as {argument('attributes', 'COL')} of estimate, or write a table instead",
        ) from None
    target.put(content)


def _drawn(vl_convert: Any, spec: Any, form: str) -> bytes:
    if form == "png":
        return bytes(vl_convert.vegalite_to_png(spec, scale=2))
    if form == "pdf":
        return bytes(vl_convert.vegalite_to_pdf(spec))
    if form == "svg":
        return str(vl_convert.vegalite_to_svg(spec)).encode()
    # The page holds the specification as it is. What could end its script travels as characters of private
    # use, which no name has any more (`_shown_in`), and arrives as escapes.
    page = str(vl_convert.vegalite_to_html(_mapped(spec, lambda t: t.translate(_MARKS)), bundle=True))
    for mark, stand_in in _MARKS.items():
        page = page.replace(stand_in, f"\\u{mark:04x}")
    return page.encode()


_MARKS = {ord("<"): "\ue000", ord(">"): "\ue001", ord("&"): "\ue002"}


def _shown_in(part: object) -> Any:
    """Return text with control characters spelt out: a drawing that had one could not be read."""
    return _mapped(part, one_line)


def _mapped(part: object, change: Callable[[str], str]) -> Any:
    """Return the same with every text in it changed."""
    if isinstance(part, dict):
        return {k: _mapped(v, change) for k, v in part.items()}
    if isinstance(part, list):
        return [_mapped(v, change) for v in part]
    return change(part) if isinstance(part, str) else part
