"""`ppdm attack`: show what an adversary can recover from a release."""

from __future__ import annotations

from math import ceil, isinf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ppdm_cli.commands import options
from ppdm_cli.commands.command import Command, Report, results
from ppdm_cli.display import UNLIMITED
from ppdm_cli.errors import MismatchError, UsageError, some

if TYPE_CHECKING:
    from rich.console import Console

    from ppdm_cli.attacks import Attacked, CoinVerdict, GuessFigures, LawVerdict, LinkReport, RepeatFigures

_TIMES = (1, 2, 4, 8)
_GUESSES = (
    "attack", "attribute", "exact %", "exact prior", "near %", "near prior", "RMSE", "of sd",
    "belief %", "bound",
)  # fmt: skip
_UNPROMISED = {
    "seeded": "Nothing is promised, because the random numbers came from a seed. Anyone who guesses the "
    "seed needs none of these attacks. The limits hold only while nobody guesses it.",
    "unknown": "Nothing is promised, because nobody knows how the random numbers of this release were "
    "drawn. The limits hold only if it was perturbed as the sidecar says.",
}


class _Registered(click.ParamType[str]):
    """The name of a registered attack; attacks are loaded only where one is read, completed or explained."""

    name = "attack"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from ppdm_cli.attacks import ATTACKS

        return str(click.Choice(list(ATTACKS)).convert(value, param, ctx))

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[click.shell_completion.CompletionItem]:
        from ppdm_cli.attacks import ATTACKS

        return click.Choice(list(ATTACKS)).shell_complete(ctx, param, incomplete)


class _With(click.Option):
    """The option that names attacks; its help is made of their own sentences."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        from ppdm_cli.attacks import ATTACKS

        each = " ".join(f"{n}: {a.about}" for n, a in ATTACKS.items())
        self.help = f"Run only this attack; repeatable. {each}"
        return super().get_help_record(ctx)


@click.command(
    "attack",
    cls=Command,
    epilog="""\b
Examples:
  ppdm attack release.parquet --truth original.parquet --plot gains.svg
  ppdm attack release.csv --with posterior --with record --recovered guesses.csv

\b
Exit codes: 0 done, 1 unreadable, 2 usage, 3 release, sidecar and original do not fit, or the audit
rejects the release. Memory: proportional to the number of values; record also holds a sample of the
release, a million records at most, and risks both tables.""",
)
@options.files_argument("release")
@options.file_option(
    "--truth",
    metavar="ORIGINAL",
    help="Measure what each attack gets right, against the original. Its rows must be in the release's order.",
)
@click.option(
    "--with",
    "attacks",
    multiple=True,
    cls=_With,
    type=_Registered(),
    metavar="NAME",
)
@click.option(
    "--knows",
    multiple=True,
    metavar="COL",
    help="Let link know only this attribute of a person; repeatable. By default it knows all.",
)
@options.file_option(
    "--recovered", help="Write the attacker's best guesses. They follow from the release, so they are public."
)
@options.sidecar_option
@options.truth_options
@options.from_option
@options.formulas_option
@results(
    "Write the table as .csv, .parquet or .arrow.",
    plot="Draw each attack beside a guess from the prior, by attribute: .svg, .png, .pdf or .html.",
)
def attack_command(release: tuple[Path, ...], recovered: Path | None, in_file: bool, **settings: Any) -> Report:
    """Show what an attacker who has a RELEASE and knows the method could recover about single records.

    Each attack is compared with guessing from the estimated distribution alone: the share of values (or bins)
    named exactly, the share within one bin, and the error of a guessed number, with 95% intervals, and the
    strongest belief with the bound that gamma promises. With --truth all this is measured. Without it, the
    figures are expected ones. Several releases with one plan count as one. The answers of copies of one release
    are combined for each record. The CSV options are for --truth; the sidecar says how to read a release.
    """
    from ppdm_cli import pictures
    from ppdm_cli.attacks import attack, fill_attacked

    given = click.get_current_context().params
    if "-" in (str(given["output"]), str(recovered)):
        raise UsageError("attack-to-stream", "results of attack go to files", "name a file")
    settings |= {"recovered": recovered or False, "force": given["force"]}
    done = attack([str(r) for r in release], **settings)
    what = "the audit rejects the release: it was not perturbed as its sidecar says"
    step = "make it again, or fetch it again with its own sidecar and original"
    return Report(
        figures=lambda: _figures(done),
        show=lambda: _show(done, in_file),
        fill=(lambda table: fill_attacked(done, table)) if done.rows else None,
        draw=(lambda picture: pictures.draw_attacks(done.rows, picture)) if done.rows else None,
        error=MismatchError("audit-rejects", what, step) if done.honest is False else None,
    )


def _figures(done: Attacked) -> dict[str, object]:
    """Return the object that `--json` prints."""
    tables = ("record", "kept", "link", "risks", "repeat", "order", "audit", "coins", "unseen")
    rest = (*tables, "honest", "remarks", "sentences")
    about = {"release": done.sidecar.release, "measured": done.measured, "attacks": done.rows}
    return about | {name: getattr(done, name) for name in rest} | {"unseen": done.unseen or {}}


def _share(row: GuessFigures) -> str | None:
    if row.exact is None:
        return None
    if row.exact_low is None or row.exact_high is None:
        return f"{100 * row.exact:.1f}"
    return _interval(row.exact, row.exact_low, row.exact_high)


def _tables(out: Console, done: Attacked) -> None:
    from ppdm_cli.attacks import TESTED
    from ppdm_cli.commands import show

    title = "measured against the original" if done.measured else "as expected from the release alone"
    if done.rows:
        show.of_columns(out, f"Guesses, {title}", list(_GUESSES), [_guesses(r) for r in done.rows], keys=2)
    if done.kept:
        show.of_columns(
            out,
            f"Added by the kept {done.kept[0].kept}: percent guessed exactly, as expected",
            ["attribute", "prior", "class", "answer", "both"],
            [
                [k.attribute, *map(_percent, (k.exact_prior, k.exact_class, k.exact_answer, k.exact_both))]
                for k in done.kept
            ],
        )
    if done.link is not None:
        _linked(out, done.link, title)
    if done.risks:
        show.of_columns(
            out,
            "Risks: percent of the tries that succeed. Only the part beyond guessing needs the release",
            ["risk", "tries", "succeed", "by guessing", "beyond guessing"],
            [
                [
                    *(r.risk, r.tried, _interval(r.share, r.low, r.high)),
                    *(_interval(r.guess, r.guess_low, r.guess_high), _percent(max(r.excess, 0.0))),
                ]
                for r in done.risks
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
            "Audit: whether the random numbers depend on anything",
            ["test", "looks at", "times", "least p at", "p", "verdict"],
            [[r.test, TESTED[r.test], r.tests, r.where, r.p, _verdict(r)] for r in done.coins],
        )


def _linked(out: Console, link: LinkReport, title: str) -> None:
    from ppdm_cli.commands import show

    show.table(
        out,
        f"People whose row is found, {title}: percent",
        ["people", "number", "first", "by chance", "at most", "in ten", "by chance"],
        [
            [
                *(f.who, f.people, _interval(f.first, f.first_low, f.first_high), _small(f.first_chance)),
                *(_small(f.first_bound), _interval(f.ten, f.ten_low, f.ten_high), _small(f.ten_chance)),
            ]
            for f in link.found
        ],
    )
    if link.learnt:
        each = [(r, _interval(r.exact, r.exact_low, r.exact_high)) for r in link.learnt]
        rows = [[r.attribute, exact, _percent(r.exact_prior)] for r, exact in each]
        what = "What the search reveals of the other attributes: percent named exactly"
        show.of_columns(out, what, ["attribute", "exact %", "prior"], rows)


def _small(share: float) -> str:
    return f"{100 * share:.3g}"


def _interval(share: float, low: float, high: float) -> str:
    return f"{100 * share:.1f} ({100 * low:.1f}-{100 * high:.1f})"


def _guesses(row: GuessFigures) -> list[object]:
    shares = [_percent(share) for share in (row.exact_prior, row.near, row.near_prior)]
    belief = [_percent(row.largest_posterior), _bound(row.bound)]
    return [row.attack, row.attribute, _share(row), *shares, row.rmse, row.rmse_share, *belief]


def _bound(share: float | None) -> str | None:
    """Return a bound in percent, rounded up to one digit after the point."""
    if share is None or UNLIMITED < share < 1:
        return None if share is None else "> 99.9"
    return f"{ceil(round(1000 * share, 9)) / 10:.1f}"


def _audited(row: LawVerdict) -> list[object]:
    declared = row.declared_sd if row.declared_gamma is None else row.declared_gamma
    limits = [row.gamma_low, row.gamma_high, row.gamma_unseen]
    return [row.attribute, declared, row.gamma, *limits, row.p, _verdict(row)]


def _verdict(row: LawVerdict | CoinVerdict) -> str:
    return "passes" if row.honest else "rejected"


def _repeated(done: Attacked) -> list[list[object]]:
    """Return one row per attribute."""
    by: dict[str, dict[int, RepeatFigures]] = {}
    for row in done.repeat:
        by.setdefault(row.attribute, {})[row.t] = row
    return [
        [
            name,
            *(f"{_percent(rows[t].stayed)} ({_percent(rows[t].staying)})" for t in _TIMES),
            rows[1].entropy,
            rows[_TIMES[-1]].entropy,
            rows[1].entropy_max,
        ]
        for name, rows in by.items()
    ]


def _percent(share: float | None) -> str | None:
    if share is not None and 0.9995 <= share < 1:
        return "> 99.9"
    return None if share is None else f"{100 * share:.1f}"


def _show(done: Attacked, in_file: bool) -> None:
    """Print the verdict, the tables unless they went to a file, and the remarks."""
    from ppdm_cli.commands import show
    from ppdm_cli.releases import limit_sentences, opened

    out, record, sentences = show.console(), done.record, done.sentences
    if record["coins"] in _UNPROMISED:
        sentences.append(_UNPROMISED[record["coins"]])
    if record["bound"] == 1:
        names = [c.name for c in opened(done.sidecar).channels if isinf(c.matrix.amplification)]
        sentences.append(f"No limit for a whole record: no gamma holds for {some(names)}.")
    else:
        sentences += limit_sentences(done.sidecar, record["bound"])
    if record["unbounded"]:
        sentences.append(f"Not protected, because published unchanged: {', '.join(record['unbounded'])}.")
    show.say(out, sentences)
    if not in_file:
        _tables(out, done)
    show.say(out, done.remarks)
