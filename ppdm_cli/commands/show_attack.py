"""Show the figures of `ppdm attack`: to people as tables and sentences, to programs as one object."""

from __future__ import annotations

from math import ceil, isinf
from typing import TYPE_CHECKING, Any

from ppdm_cli.attacks import OF_RECIPES, TESTED
from ppdm_cli.commands import show
from ppdm_cli.display import up
from ppdm_cli.errors import some
from ppdm_cli.inspection import limits
from ppdm_cli.releases import opened

if TYPE_CHECKING:
    from ppdm_cli.attacks import Attacked

_TIMES = (1, 2, 4, 8)
LOOKS_AT = {**TESTED, **OF_RECIPES}
_GUESSES = (
    "attack", "attribute", "exact %", "exact prior", "near %", "near prior", "RMSE", "of sd",
    "belief %", "bound",
)  # fmt: skip
_UNPROMISED = {
    "seeded": "Nothing is promised, because the coins came from a seed: anyone who guesses the seed needs none "
    "of these attacks. The limits hold only while nobody guesses it.",
    "unknown": "Nobody knows the coins of this release, so nothing is promised. The limits hold only if it was "
    "perturbed as the sidecar says.",
}


def figures(done: Attacked) -> dict[str, Any]:
    """Return the object that `--json` prints."""
    rest = ("record", "kept", "repeat", "order", "audit", "coins", "unseen", "honest", "remarks", "sentences")
    told = {"release": done.sidecar.release, "measured": done.measured, "attacks": done.rows}
    return told | {name: getattr(done, name) for name in rest}


def _share(row: dict[str, Any], what: str) -> str | None:
    if row.get(what) is None:
        return None
    low, high = row.get(f"{what}_low"), row.get(f"{what}_high")
    interval = "" if low is None or high is None else f" ({100 * low:.1f}-{100 * high:.1f})"
    return f"{100 * row[what]:.1f}{interval}"


def _tables(done: Attacked) -> None:
    out = show.console()
    if done.rows:
        title = "measured against the original" if done.measured else "as expected from the release alone"
        show.of_columns(out, f"Guesses, {title}", list(_GUESSES), [_guesses(r) for r in done.rows], keys=2)
    if done.kept:
        show.of_columns(
            out,
            f"What the kept {done.kept[0]['kept']} adds: percent to name exactly, as expected",
            ["attribute", "prior", "class", "answer", "both"],
            [
                [k["attribute"], *(_percent(k[f"exact_{w}"]) for w in ("prior", "class", "answer", "both"))]
                for k in done.kept
            ],
        )
    if done.repeat:
        show.of_columns(
            out,
            "Perturbed t times: percent unchanged, measured (and computed), and entropy in bits",
            ["attribute", *(f"t = {t}" for t in _TIMES), "entropy 1", f"entropy {_TIMES[-1]}", "at most"],
            _repeated(done),
        )
    if done.audit:
        show.of_columns(
            out,
            "Audit: the gamma that the transitions prove, with its 95% interval; for noise, its sd",
            ["attribute", "declared", "proved", "low", "high", "unseen", "p", "verdict"],
            [_audited(r) for r in done.audit],
        )
        show.table(
            out,
            "Audit: whether the coins depend on anything",
            ["test", "looks at", "times", "least p at", "p", "verdict"],
            [[r["test"], LOOKS_AT[r["test"]], r["tests"], r["where"], r["p"], _verdict(r)] for r in done.coins],
        )


def _guesses(row: dict[str, Any]) -> list[Any]:
    shares = [_percent(row.get(k)) for k in ("exact_prior", "near", "near_prior")]
    errors = [row.get("rmse"), row.get("rmse_share")]
    belief = [_percent(row.get("largest_posterior")), _bound(row.get("bound"))]
    return [row["attack"], row["attribute"], _share(row, "exact"), *shares, *errors, *belief]


def _bound(share: float | None) -> str | None:
    """Return a bound in percent, rounded up to one digit after the point."""
    if share is None or 0.999 < share < 1:
        return None if share is None else "> 99.9"
    return f"{ceil(round(1000 * share, 9)) / 10:.1f}"


def _audited(row: dict[str, Any]) -> list[Any]:
    proved = [row.get("declared_gamma", row.get("declared_sd")), row.get("gamma", row.get("sd"))]
    limits = [row.get(k) for k in ("gamma_low", "gamma_high", "gamma_unseen")]
    return [row["attribute"], *proved, *limits, row["p"], _verdict(row)]


def _verdict(row: dict[str, Any]) -> str:
    return "passes" if row["honest"] else "rejected"


def _repeated(done: Attacked) -> list[list[Any]]:
    """Return one row per attribute."""
    by: dict[str, dict[int, dict[str, Any]]] = {}
    for row in done.repeat:
        by.setdefault(row["attribute"], {})[row["t"]] = row
    return [
        [
            name,
            *(f"{_percent(rows[t]['stayed'])} ({_percent(rows[t]['staying'])})" for t in _TIMES),
            rows[1]["entropy"],
            rows[_TIMES[-1]]["entropy"],
            rows[1]["entropy_max"],
        ]
        for name, rows in by.items()
    ]


def _percent(share: float | None) -> str | None:
    if share is not None and 0.9995 <= share < 1:
        return "> 99.9"
    return None if share is None else f"{100 * share:.1f}"


def _sentences(done: Attacked) -> None:
    record, sentences = done.record, list(done.remarks)
    if record["coins"] in _UNPROMISED:
        sentences.append(_UNPROMISED[record["coins"]])
    if record["bound"] == 1:
        names = [c.name for c in opened(done.sidecar).channels if isinf(c.matrix.amplification)]
        sentences.append(f"No limit for a whole record: no gamma holds for {some(names)}.")
    else:
        sentences += limits(done.sidecar, record["bound"])
        if record["gamma"] != "inf":
            sentences.append(f"In all, gamma is {up(record['gamma'], 10):.10g}.")
    if record["unbounded"]:
        sentences.append(
            f"Outside every bound, because published unperturbed: {', '.join(record['unbounded'])}."
        )
    show.say(show.console(), [*sentences, *done.sentences])


def show_all(done: Attacked, tables: bool) -> None:
    """Print the tables, unless they went to a file, and what they mean."""
    if tables:
        _tables(done)
    _sentences(done)
