"""Charts from result tables, as SVG, PNG, PDF or stand-alone HTML, without a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ppdm_cli.errors import UsageError, quoted
from ppdm_cli.tables import Target
from ppdm_cli.tables.replacing import writing

_SUFFIXES = (".svg", ".png", ".pdf", ".html")


def check(path: Path, force: bool) -> None:
    """Before anything is computed: the suffix is known, the extra is there, the file may be written."""
    if path.suffix.lower() not in _SUFFIXES:
        raise UsageError(
            f"the suffix of {quoted(path.name)} names no picture",
            f"name a file that ends in {', '.join(_SUFFIXES)}",
        )
    _altair()
    with Target(path, force):
        pass


def _altair() -> Any:
    try:
        import altair
        import vl_convert  # noqa: F401
    except ImportError:
        raise UsageError(
            "pictures need an extra that is not installed", "install it with: pip install 'ppdm-cli[plot]'"
        ) from None
    return altair


def entropy(rows: list[dict[str, Any]], path: Path, force: bool = False) -> None:
    """The paper's Fig. 3: H(M) over N, a line a gamma; of a release, a bar an attribute."""
    alt = _altair()
    data = alt.Data(values=rows)
    if "attribute" in rows[0]:
        chart = (
            alt.Chart(data, width=520)
            .mark_bar()
            .encode(
                x=alt.X("entropy:Q", title="H(M), bits"),
                y=alt.Y("attribute:N", sort="-x", title=None),
                tooltip=["attribute:N", "gamma:Q", "N:Q", "entropy:Q"],
            )
        )
    else:
        gammas = sorted({r["gamma"] for r in rows})
        chart = (
            alt.Chart(data, width=520, height=340)
            .mark_line(point=True)
            .encode(
                x=alt.X("N:Q", title="N, number of values or bins"),
                y=alt.Y("entropy:Q", title="H(M), bits", scale=alt.Scale(zero=False)),
                color=alt.Color("gamma:O", title="gamma", scale=alt.Scale(scheme="viridis"), sort=gammas),
            )
        )
    save(chart.properties(title="Entropy of the perturbation matrix"), path, force)


def save(chart: Any, path: Path, force: bool) -> None:
    """The chart in the format of the path's suffix, whole or not at all."""
    import vl_convert

    form = path.suffix.lower()[1:]
    spec = chart.to_json()
    with Target(path, force) as target:
        if form == "png":
            content = vl_convert.vegalite_to_png(spec, scale=2)
        elif form == "pdf":
            content = vl_convert.vegalite_to_pdf(spec)
        elif form == "html":
            content = vl_convert.vegalite_to_html(spec, bundle=True).encode()
        else:
            content = vl_convert.vegalite_to_svg(spec).encode()
        with writing(path):
            target.file.write(content)
        target.flush()
        target.rename()
