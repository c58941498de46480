"""`ppdm perturb`: parse, call `perturbing.perturb`, show what was promised."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ppdm_cli.commands.command import Command, Report
from ppdm_cli.commands.options import (
    attribute_settings,
    cluster_options,
    complete_kinds,
    csv_options,
    file_option,
    files_argument,
    from_option,
    output_option,
    pair,
    to_option,
    together_settings,
)
from ppdm_cli.display import percent

if TYPE_CHECKING:
    from rich.console import Console

    from ppdm_cli.perturbing import NoiseReport, Release
    from ppdm_cli.tables import CsvOptions

_LEAVES = 20
"""The most leaves of a tree that are shown."""


@click.command(
    "perturb",
    cls=Command,
    groups={
        "Budgets": "rho1 rho2 publish rounds class_in_budget together",
        "Persons and several releases": "person rows_per_person rows_taken copies key_file id like "
        "open_domains ledger people",
        "What is published": "representative matrix rare clip strict shuffle keep_order seed",
        "Noise, for comparison": "scheme noise sd tree innocent leaves sd_percent percent_of",
    },
    epilog="""\b
Examples:
  ppdm perturb patients.csv -o release.parquet --record-epsilon 2 --drop name \\
       --class outcome --keep outcome --attribute age:bins=24,domain=0:120
  ppdm perturb february.parquet -o february-release.parquet --like january-release.parquet

\b
Exit codes: 0 done, 1 the data or the run failed, 2 usage, 4 refused because it would give
away too much. Memory: constant; with --id, 8 bytes a record; with --person, 16.""",
)
@files_argument("data")
@output_option("The release")
@click.option(
    "--record-epsilon",
    type=float,
    metavar="E",
    help="A budget for the whole record. By itself it is spent as --publish auto says; where channels are "
    "asked for, it is split equally over the attributes without a gamma of their own.",
)
@click.option("--gamma", metavar="G", help="The amplification of each attribute, above 1.")
@click.option(
    "--rho1",
    type=float,
    metavar="P",
    help="With --rho2, instead of --gamma: how sure of a value a reader may be before.",
)
@click.option(
    "--rho2",
    type=float,
    metavar="P",
    help="The most that --rho1 becomes after seeing one attribute alone. The whole record may raise it.",
)
@click.option(
    "--publish",
    metavar="k|auto|all",
    help="With --record-epsilon: each record publishes k of its attributes, chosen by a coin that sees no "
    "value, at the whole budget; the others are withheld (null). auto: as many as tell a miner most. all: "
    "every attribute, with an equal part of the budget each.  [default: auto]",
)
@click.option(
    "--rounds",
    type=int,
    metavar="R",
    help="With --record-epsilon and --class: deal the records to 2 or 3 rounds by a coin, and choose what the "
    "later ones publish by what the earlier ones published, for the class. Reads the data R times; which "
    "attributes were found to tell most of the class can be seen from the sidecar.",
)
@click.option(
    "--class-in-budget",
    is_flag=True,
    default=None,
    help="Publish the class of every record, perturbed with its other attributes and under the same budget.",
)
@click.option(
    "--person",
    metavar="COL",
    help="With --rows-per-person m: the column that says whose a record is; dropped unless kept. At most m "
    "records of each person are published, chosen by a coin, and the promise is for the person: gamma^m.",
)
@click.option("--rows-per-person", type=int, metavar="m", help="See --person.")
@file_option(
    "--rows-taken",
    help="With --person or --shuffle: a private file of the rows that are published, for --truth of attack "
    "and estimate.",
)
@click.option(
    "--bins",
    metavar="N|auto",
    help="Number of bins of a numeric column; columns with at most N values keep them. auto: as many as serve "
    "a miner best, given gamma, the matrix and the number of records.  [default: 10]",
)
@click.option("--keep", multiple=True, metavar="COL", help="Publish a column unchanged; repeatable.")
@click.option("--drop", multiple=True, metavar="COL", help="Leave a column out; repeatable.")
@click.option(
    "--class", "class_", metavar="COL", help="Name the label. It is perturbed like the rest, unless kept."
)
@click.option(
    "--attribute",
    "attributes",
    multiple=True,
    metavar="COL:KEY=V,...",
    help="Settings of one column: gamma, rho1, rho2, bins, domain, scale, core, nulls, representative, matrix, "
    "half_width, sd; repeatable.",
)
@click.option(
    "--together",
    multiple=True,
    metavar="A,B[:KEY=V,...]",
    help="Perturb columns together, as one of their combinations: by the gamma for all or gamma, rho1, rho2, "
    "matrix and its settings of their own. Their gamma is for all of them at once; repeatable.",
)
@click.option(
    "--domain",
    "domains",
    multiple=True,
    metavar="COL=DOMAIN",
    help="Declare a domain: age=0:120, level=low|high, or city=@FILE with one value per line; repeatable.",
)
@file_option("--plan", help="Take all of these settings from a TOML file.")
@file_option(
    "--like",
    metavar="RELEASE",
    help="Publish the next batch with every protection of an earlier release. A --plan or other options may "
    "add protection. Anything that contradicts that release is refused.",
)
@click.option(
    "--open-domains",
    is_flag=True,
    default=None,
    help="Give every domain null, and of text a group for new values, which later batches may have. Each costs "
    "as much accuracy as a value more.",
)
@click.option(
    "--representative",
    type=click.Choice(["center", "left", "right", "random"]),
    help="The value that represents a bin.  [default: center]",
)
@click.option(
    "--matrix",
    metavar="KIND",
    shell_complete=complete_kinds,
    help="gamma-diagonal, or band, which preserves the neighbourhood of bins of numbers and times rather than "
    "the exact bin and serves ranges and trees better at the same gamma.  [default: gamma-diagonal]",
)
@click.option(
    "--scheme",
    metavar="SCHEME",
    shell_complete=complete_kinds,
    help="substitution; additive: noise of one law is added to every number, the old baseline for comparison; "
    "or noise that keeps a decision tree: class-random, class-probabilistic or class-all-leaves alter the "
    "class, innocent (alone, or after a comma) attributes that a leaf does not need. Only substitution "
    "promises a gamma.  [default: substitution]",
)
@click.option(
    "--noise", type=click.Choice(["uniform", "normal"]), help="The law of the additive noise; its mean is zero."
)
@click.option(
    "--sd",
    metavar="S",
    help="The standard deviation of the noise: a share of each domain's width, such as 25%, or a number in the "
    "columns' units.",
)
@file_option(
    "--tree", metavar="TREE", help="The tree to keep, a .json that train-tree made of this very table."
)
@click.option(
    "--innocent",
    type=click.Choice(["both", "tia", "lia"]),
    help="Which innocent attributes: those that the tree tests nowhere (tia), elsewhere than on the way to a "
    "record's leaf (lia), or both.  [default: both]",
)
@click.option(
    "--leaves",
    type=click.Choice(["all", "heterogeneous"]),
    help="Whose innocent attributes: all records', or only those in leaves of several classes.  [default: all]",
)
@click.option(
    "--sd-percent",
    type=float,
    metavar="P",
    help="The standard deviation of their noise, in per cent.  [default: 27.6]",
)
@click.option(
    "--percent-of",
    type=click.Choice(["value", "sd"]),
    help="Of what: of the value itself, or of the attribute's standard deviation.  [default: value]",
)
@click.option(
    "--rare",
    type=click.Choice(["refuse", "merge", "publish"]),
    help="What to do with categories of fewer than 10 records, or persons with --person. Identifiers are "
    "refused anyway.  [default: refuse]",
)
@click.option(
    "--clip",
    is_flag=True,
    default=None,
    help="Move values outside a declared domain to its nearest bin, or to null.",
)
@click.option(
    "--strict",
    is_flag=True,
    default=None,
    help="Refuse attributes whose counts can't be estimated (a standard error above the mean count), and "
    "attributes with over 95% of their values unchanged.",
)
@click.option(
    "--shuffle", is_flag=True, default=None, help="Publish the rows in a random order (uses temporary files)."
)
@click.option(
    "--keep-order",
    is_flag=True,
    default=None,
    help="Publish the rows in their order even if it gives values away.",
)
@click.option(
    "--copies",
    type=int,
    default=1,
    metavar="k",
    help="Publish k independent answers for each value, in files OUTPUT.1 ... OUTPUT.k with rows in one order. "
    "Each costs its gamma, gamma^k in all; a --record-epsilon is for all of them together. One release at "
    "gamma^k is more useful to a miner (two copies at gamma 3 have over three times the squared error of one "
    "at gamma 9).",
)
@file_option(
    "--key-file",
    help="With --id: a secret key, created if absent, so that an unchanged value gets the same answer again.",
)
@click.option("--id", metavar="COL", help="The column that identifies a record; dropped unless kept.")
@file_option(
    "--ledger",
    help="With --people: a file, begun if absent, that each release is entered into before it appears. The "
    "epsilons of those about the same people are added up; above the total that its first line states it is "
    "refused.",
)
@click.option("--people", metavar="NAME", help="Whom the release is about, in words of your own; see --ledger.")
@click.option(
    "--seed", type=int, metavar="N", help="Repeatable coins, for tests. Such a release promises nothing."
)
@file_option("--sidecar", help="Where the sidecar goes.  [default: OUTPUT.ppdm.json]")
@cluster_options
@csv_options
@from_option
@to_option
def perturb_command(
    data: tuple[Path, ...],
    output: Path,
    attributes: tuple[str, ...],
    domains: tuple[str, ...],
    together: tuple[str, ...],
    id: str | None,
    csv: CsvOptions,
    **settings: Any,
) -> Report:
    """Perturb every column of DATA unless it is kept or dropped, and publish it.

    Each value is kept with probability gamma/(gamma+N-1) and otherwise replaced by one of the other
    values of its domain, all equally likely. The release and its sidecar are all that a miner needs;
    the sidecar states gamma, N and the domains, never a key or a value. DATA is CSV, Parquet or Arrow,
    several parts or a folder of Parquet parts, or - for standard input (then every domain must be
    declared).

    Declare a domain with --domain where it is public knowledge: one taken from the data is published,
    rounded outward, and the report says so.
    """
    from ppdm_cli.perturbing import perturb

    release = perturb(
        [str(d) for d in data],
        output,
        attributes=_settings(attributes, domains),
        together=[together_settings(t) for t in together],
        id=id,
        csv=csv,
        **settings,
    )
    return Report(lambda: _figures(release), lambda: _show(release, output, settings["matrix"]))


def _settings(attributes: tuple[str, ...], domains: tuple[str, ...]) -> dict[str, dict[str, str]]:
    settings: dict[str, dict[str, str]] = {}
    for text in attributes:
        name, given = attribute_settings(text)
        settings.setdefault(name, {}).update(given)
    for text in domains:
        name, domain = pair(text, "--domain", "age=0:120")
        settings.setdefault(name, {})["domain"] = domain
    return settings


def _figures(release: Release) -> dict[str, object]:
    from ppdm_cli.releases import promise_figures

    done = (
        "dropped", "left_out", "merged", "telling_order", "in_order_of", "clipped", "shuffled", "errors",
        "unlearnable", "in_ranges", "unchanged", "crowded", "identifying", "typed",
        "padded",
    )  # fmt: skip
    figures = promise_figures(release.sidecar) | {n: getattr(release, n) for n in done}
    if release.account is not None:
        figures["ledger"] = {"total": release.account.total, "sentences": release.account.sentences}
    if release.noise is not None:
        figures["noise"] = release.noise.figures()
    return figures | {"sentences": release.sentences}


def _show(release: Release, output: Path, asked: str | None) -> None:
    import msgspec

    from ppdm_cli.channels import KINDS
    from ppdm_cli.commands import show
    from ppdm_cli.releases import attribute_figures, has_noise, opened, unprotected

    out = show.console(stderr=True)
    rows = msgspec.to_builtins(attribute_figures(release.sidecar))
    if has_noise(release.sidecar):
        columns = show.NOISE
    else:
        columns = show.promised(rows) + ["error"] * bool(release.errors)
        for row in rows:
            row["error"] = release.error(row["attribute"])
    records = release.sidecar.records if release.sidecar.records is not None else "All"
    copy = release.sidecar.copy
    of_copies = f", in {copy.of} copies" if copy else ""
    title = f"{records} records to {output}{of_copies}"
    warning = unprotected(release.sidecar)
    show.say(out, warning)
    if release.noise is not None:
        _show_noise(out, title, release.noise)
    else:
        show.attributes(out, title, [*show.WHAT, *columns, "domain"], rows)
    missed = [] if asked is None else KINDS[asked].missed(opened(release.sidecar).channels)
    show.say(out, [*(s for s in release.sentences if s not in warning), *missed])


def _show_noise(out: Console, title: str, report: NoiseReport) -> None:
    """Print what noise that keeps a tree altered, and what each leaf's classes are worth now."""
    from ppdm_cli.commands import show

    show.say(out, [f"{title}."])
    rows = [[n, percent(report.changed.get(n, 0) / max(report.records, 1))] for n in report.altered]
    if rows:
        show.table(out, "Innocent attributes", ["attribute", "altered"], rows)
    leaves = sorted(report.leaves, key=lambda leaf: -leaf["records"])[:_LEAVES]
    if any("wrong" in leaf for leaf in leaves):
        left = len(report.leaves) - len(leaves)
        shown = [
            [f"{leaf['rule']}: {leaf['class']}", leaf["records"], leaf["others"],
             percent(leaf["wrong"][str(leaf["class"])]), percent(max(leaf["wrong"].values()))]
            for leaf in leaves
        ]  # fmt: skip
        show.table(out, "Leaves", ["rule", "records", "others", "class wrong", "another wrong"], shown)
        show.say(out, [f"{left} more leaves; --json has all."] * (left > 0))
