"""`ppdm train-bayes`: learn the parameters of a Bayesian network, and a tree if no structure is known."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ppdm_cli.commands.command import Command, Report
from ppdm_cli.commands.options import csv_options, file_option, files_argument, formulas_option
from ppdm_cli.errors import UsageError, counted, some

if TYPE_CHECKING:
    from ppdm_cli.networks import LearnedNetwork

_ROWS = 40
"""The most parameters that are shown on a terminal."""


@click.command(
    "train-bayes",
    cls=Command,
    epilog="""\b
Examples:
  ppdm train-bayes release.parquet --network asia.bif -o learned.bif -o params.parquet
  ppdm train-bayes release.parquet --learn-structure auto -o learned.bif
  ppdm train-bayes clinic.csv insurer.csv --network net.bif --prior 1 -o net.bif
  ppdm train-bayes own.csv theirs.csv --network net.bif --nodes flu,fever -o mine.bif
  ppdm train-bayes --merge mine.bif theirs.bif -o all.bif --compare true.bif

\b
Exit codes: 0 done, 1 unreadable, 2 usage, 3 network and data, or parties, do not fit, 4 a matrix
without an inverse. Memory: the largest table of a node and its parents.""",
)
@files_argument("data", required=False)
@file_option("--network", help="Use this structure: .bif, or .json of train-bayes.")
@click.option(
    "--learn-structure",
    type=click.Choice(["tree", "auto"]),
    help="Learn the structure too, as the tree of the largest mutual information (Chow and Liu) over all "
    "perturbed columns and the class, or over --nodes. tree: all edges. auto: only edges beyond "
    "chance, at a level of 5% over all pairs.",
)
@file_option(
    "-o",
    "--output",
    "outputs",
    multiple=True,
    help="Write the network as .bif or .json, or its parameters as a table (.parquet, .arrow, .csv); "
    "repeatable.",
)
@click.option(
    "--estimator",
    type=click.Choice(["inverse", "em"]),
    default="inverse",
    show_default=True,
    help="Estimate counts in this way. inverse: the paper's, unbiased before negative counts are cut off. em: "
    "the most likely counts.",
)
@click.option(
    "--prior",
    type=float,
    default=0.0,
    metavar="A",
    help="Add a Dirichlet prior of this many records to every parameter.  [default: none, maximum likelihood]",
)
@click.option("--nodes", metavar="A,B,...", help="Learn only these nodes, such as a party's own.")
@click.option(
    "--merge", is_flag=True, help="Merge networks that several parties learned, which are then the DATA."
)
@file_option(
    "--compare",
    metavar="REFERENCE",
    help="Show how far the parameters are from another network's, or from those of original records.",
)
@csv_options
@formulas_option
def train_bayes_command(
    data: tuple[Path, ...],
    network: Path | None,
    outputs: tuple[Path, ...],
    nodes: str | None,
    merge: bool,
    force: bool,
    **settings: Any,
) -> Report:
    """Learn the parameters of a Bayesian network from DATA: releases, originals, or both.

    Several DATA are several parties' columns about the same records. Perturbed columns may have any kind of
    matrix; original ones are used as they are. For every node, the matrices are inverted on the published
    counts of its family (Ma and Sivakumar), and each parameter has a standard error. pgmpy and pyAgrum read the
    .bif.
    """
    from ppdm_cli import networks
    from ppdm_cli.tables import commit

    own = tuple(nodes.split(",")) if nodes else ()
    stack = click.get_current_context().with_resource(ExitStack())
    files = [networks.NetworkFile(stack, p, force) for p in outputs]
    compare, csv = settings["compare"], settings["csv"]
    if merge:
        _check(network, own, settings)
        done = networks.merge_networks(data, compare, csv)
    else:
        done = networks.train_bayes(list(data), network, nodes=own, **settings)
    for file in files:
        file.fill(done.network, done.sidecar)
    commit(*(f.into for f in files))
    return Report(lambda: _figures(done), lambda: _show(done, outputs, in_file=bool(outputs)))


def _check(network: Path | None, own: tuple[str, ...], settings: dict[str, Any]) -> None:
    given = {"network": network, "nodes": own, "prior": settings["prior"]}
    given["learn-structure"] = settings["learn_structure"]
    if any(given.values()):
        name = next(n for n, v in given.items() if v)
        raise UsageError(
            "only-for-training",
            f"--{name} is for training, but --merge only joins networks",
            "leave it out",
        )


def _figures(done: LearnedNetwork) -> dict[str, object]:
    nodes = {d.node: _finite(d.nats) for d in done.distances}
    compared = {"nodes": nodes, "total": _finite(done.distance)} if nodes else None
    figures = {"records": done.records, "compared": compared, "remarks": done.remarks}
    return figures | {"parameters": done.frame.to_dicts()}


def _show(done: LearnedNetwork, files: Sequence[Path], in_file: bool) -> None:
    from ppdm_cli.commands import show

    nodes = {d.node: d.nats for d in done.distances}
    out = show.console()
    rows = []
    for node in done.network:
        if node.parameters is None:
            continue
        errors = [e for e in ([] if node.std_error is None else node.std_error.ravel().tolist()) if e == e]
        row = [node.name, len(node.states), ", ".join(node.parents), node.parameters.size]
        row += [max(errors, default=None), "exact" if node.exact else "estimated"]
        rows.append(row + ([nodes.get(node.name)] if nodes else []))
    titles = ["node", "states", "parents", "parameters", "largest std error", "from"]
    records = "" if done.records is None else f"{counted(done.records, 'record')}, "
    title = f"{records}{counted(len(rows), 'node')}" + (f" to {some(map(str, files))}" if files else "")
    show.table(out, title, [*titles, *["distance"] * bool(nodes)], rows)
    listed = done.frame.head(_ROWS) if not in_file else done.frame.head(0)
    if not in_file:
        columns = ["node", "parents", "state", "parameter", "std_error", "low", "high"]
        show.table(out, "Parameters", [c.replace("_", " ") for c in columns], listed.select(columns).rows())
    if not in_file and len(done.frame) > _ROWS:
        show.say(out, [f"... and {len(done.frame) - _ROWS:,} more. Use -o FILE or --json for all."])
    if nodes:
        show.say(out, [f"The conditional Kullback-Leibler distance is {done.distance:.4g} nats in total."])
    show.say(out, done.remarks)


def _finite(value: float) -> float | str:
    return "inf" if value == float("inf") else value
