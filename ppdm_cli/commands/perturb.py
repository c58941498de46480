"""`ppdm perturb`: parse the options, call `perturbing.perturb`, and show what the release promises."""

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
    help="Limit what a whole record reveals. --publish says how the budget is spent; with --matrix or "
    "--together it is split equally over the attributes without a gamma of their own.",
)
@click.option(
    "--gamma",
    metavar="G",
    help="Limit what each attribute alone reveals, by its amplification above 1. A whole record reveals more.",
)
@click.option(
    "--rho1",
    type=float,
    metavar="P",
    help="With --rho2, instead of --gamma: a reader who was this sure of a value becomes at most --rho2 sure.",
)
@click.option(
    "--rho2",
    type=float,
    metavar="P",
    help="With --rho1: limit how sure that reader becomes after seeing one attribute alone. The whole "
    "record may raise it.",
)
@click.option(
    "--publish",
    metavar="k|auto|all",
    help="With --record-epsilon: how many attributes each record publishes. k: that many, picked at "
    "random; the rest are left empty. auto: the most informative k. all: every attribute, with the "
    "budget split equally.  [default: auto]",
)
@click.option(
    "--rounds",
    type=int,
    metavar="R",
    help="With --record-epsilon and --class: split the records at random into 2 or 3 rounds. Later rounds "
    "publish the attributes that earlier ones found most informative about the class. Reads the data "
    "R times. The sidecar shows which attributes these are.",
)
@click.option(
    "--class-in-budget",
    is_flag=True,
    default=None,
    help="With --record-epsilon and --class: publish the class of every record, perturbed under the same "
    "budget.",
)
@click.option(
    "--person",
    metavar="COL",
    help="Protect persons, whom this column identifies. At most --rows-per-person records of each, chosen at "
    "random, are published, and each costs the budget again. The column is dropped unless kept.",
)
@click.option(
    "--rows-per-person",
    type=int,
    metavar="m",
    help="With --person: publish at most this many records of a person.",
)
@file_option(
    "--rows-taken",
    help="With --person or --shuffle: write a private file of the rows that are published, for --truth of "
    "attack and estimate.",
)
@click.option(
    "--bins",
    metavar="N|auto",
    help="Cut a numeric column into N bins, unless it has at most N values. auto: the number that is most "
    "accurate for gamma, the matrix and the number of records.  [default: 10]",
)
@click.option("--keep", multiple=True, metavar="COL", help="Publish a column unchanged; repeatable.")
@click.option("--drop", multiple=True, metavar="COL", help="Leave a column out; repeatable.")
@click.option(
    "--class",
    "class_",
    metavar="COL",
    help="The column that miners will predict. It is perturbed like "
    "any other column unless you also --keep it.",
)
@click.option(
    "--attribute",
    "attributes",
    multiple=True,
    metavar="COL:KEY=V,...",
    help="Change settings of one column: gamma, rho1, rho2, bins, domain, scale, core, nulls, "
    "representative, matrix, half_width, sd; repeatable.",
)
@click.option(
    "--together",
    multiple=True,
    metavar="A,B[:KEY=V,...]",
    help="Perturb these columns together, as combinations of their values, with one gamma for all of them; "
    "repeatable. Takes gamma, rho1, rho2, matrix and its settings.",
)
@click.option(
    "--domain",
    "domains",
    multiple=True,
    metavar="COL=DOMAIN",
    help="Declare the values of a column: age=0:120, level=low|high, or city=@FILE with one value per "
    "line; repeatable.",
)
@file_option("--plan", help="Take all these settings from a TOML file, as ppdm plan writes it.")
@file_option(
    "--like",
    metavar="RELEASE",
    help="Publish the next batch with every protection of an earlier release. A --plan or other options "
    "may add protection, but not contradict that release.",
)
@click.option(
    "--open-domains",
    is_flag=True,
    default=None,
    help="Leave room for later batches: every domain gets null, and text gets a group for new values. Each "
    "costs as much accuracy as one more value.",
)
@click.option(
    "--representative",
    type=click.Choice(["center", "left", "right", "random"]),
    help="Publish each bin as this value of it.  [default: center]",
)
@click.option(
    "--matrix",
    metavar="KIND",
    shell_complete=complete_kinds,
    help="Use this kind of matrix. gamma-diagonal keeps exact values. band keeps the neighbourhood of bins "
    "of numbers and times, so ranges and trees are more accurate at the same gamma.  [default: "
    "gamma-diagonal]",
)
@click.option(
    "--scheme",
    metavar="SCHEME",
    shell_complete=complete_kinds,
    help="Use this scheme; only substitution promises a gamma. additive adds noise to every number, an old "
    "baseline. class-random, class-probabilistic and class-all-leaves alter the class but keep a "
    "decision tree, and innocent (alone, or after a comma) alters attributes that a leaf doesn't "
    "need.  [default: substitution]",
)
@click.option(
    "--noise",
    type=click.Choice(["uniform", "normal"]),
    help="With --scheme additive: use noise of this law, with mean zero.",
)
@click.option(
    "--sd",
    metavar="S",
    help="With --scheme additive: use this standard deviation, a share of each domain's width such as 25%, "
    "or a number in the columns' units.",
)
@file_option("--tree", metavar="TREE", help="Keep this tree, a .json that train-tree made of this very table.")
@click.option(
    "--innocent",
    type=click.Choice(["both", "tia", "lia"]),
    help="With --scheme innocent: alter attributes that the tree tests nowhere (tia), only away from a "
    "record's path (lia), or both.  [default: both]",
)
@click.option(
    "--leaves",
    type=click.Choice(["all", "heterogeneous"]),
    help="With --scheme innocent: alter all records, or only those in leaves of several classes.  "
    "[default: all]",
)
@click.option(
    "--sd-percent",
    type=float,
    metavar="P",
    help="With --scheme innocent: use noise of this standard deviation, in percent.  [default: 27.6]",
)
@click.option(
    "--percent-of",
    type=click.Choice(["value", "sd"]),
    help="What --sd-percent is a percentage of: each value, or the attribute's standard deviation.  "
    "[default: value]",
)
@click.option(
    "--rare",
    type=click.Choice(["refuse", "merge", "publish"]),
    help="Treat categories of fewer than 10 records (with --person: persons) in this way. Identifiers are "
    "always refused.  [default: refuse]",
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
    help="Publish the rows in their order even if the order reveals values.",
)
@click.option(
    "--copies",
    type=int,
    default=1,
    metavar="k",
    help="Publish k independent copies, OUTPUT.1 ... OUTPUT.k, with rows in one order. Only if you must: "
    "they cost gamma^k together, and one release at gamma^k is more accurate. A --record-epsilon is "
    "for all copies together.",
)
@file_option(
    "--key-file",
    help="With --id: draw from this secret key, created if absent, so that an unchanged value gets the "
    "same answer again.",
)
@click.option(
    "--id",
    metavar="COL",
    help="With --key-file: the column that identifies a record. It is dropped unless kept.",
)
@file_option(
    "--ledger",
    help="With --people: enter the release into this file, created if absent, and add up the epsilons of "
    "releases about the same people. A release above the total in the file's first line is refused.",
)
@click.option(
    "--people", metavar="NAME", help="With --ledger: whom the release is about, in words of your own."
)
@click.option(
    "--seed",
    type=int,
    metavar="N",
    help="For tests: draw repeatable random numbers. Such a release promises nothing.",
)
@file_option("--sidecar", help="Write the sidecar here.  [default: OUTPUT.ppdm.json]")
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

    Each value is kept with probability gamma/(gamma+N-1) and otherwise replaced by one of the other values of
    its domain, all equally likely. DATA is CSV, Parquet or Arrow, several parts or a folder of Parquet parts,
    or - for standard input (then every domain must be declared).

    If a domain is public knowledge, declare it with --domain. A domain taken from the data is published,
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
    from ppdm_cli.releases import attribute_figures, has_noise, opened, release_facts

    out = show.console(stderr=True)
    rows = msgspec.to_builtins(attribute_figures(release.sidecar))
    if has_noise(release.sidecar):
        columns = show.NOISE
    else:
        columns = show.promised(rows) + ["error"] * bool(release.errors)
        for row in rows:
            row["error"] = release.error(row["attribute"])
    records = "all" if release.sidecar.records is None else f"{release.sidecar.records:,}"
    copy = release.sidecar.copy
    of_copies = f", in {copy.of} copies" if copy else ""
    verdict = [f.sentence for f in release_facts(release.sidecar) if f.topic == "limit"]
    show.say(out, [f"Wrote {records} records to {output}{of_copies}."])
    show.say(out, verdict)
    if release.noise is not None:
        _show_noise(out, release.noise)
    else:
        show.attributes(out, "", [*show.WHAT, *columns, "domain"], rows)
    missed = [] if asked is None else KINDS[asked].missed(opened(release.sidecar).channels)
    show.say(out, [*(s for s in release.sentences if s not in verdict), *missed])


def _show_noise(out: Console, report: NoiseReport) -> None:
    """Print the alterations by noise that keeps a tree, and how certain each leaf's classes are now."""
    from ppdm_cli.commands import show

    rows = [[n, percent(report.changed.get(n, 0) / max(report.records, 1))] for n in report.altered]
    if rows:
        show.table(out, "Innocent attributes", ["attribute", "altered"], rows)
    leaves = sorted(report.leaves, key=lambda leaf: -leaf["records"])[:_LEAVES]
    if any("wrong" in leaf for leaf in leaves):
        left = len(report.leaves) - len(leaves)
        leaf_rows = [
            [f"{leaf['rule']}: {leaf['class']}", leaf["records"], leaf["others"],
             percent(leaf["wrong"][str(leaf["class"])]), percent(max(leaf["wrong"].values()))]
            for leaf in leaves
        ]  # fmt: skip
        show.table(out, "Leaves", ["rule", "records", "others", "class wrong", "another wrong"], leaf_rows)
        show.say(out, [f"{left} more leaves. Use --json for all."] * (left > 0))
