"""`ppdm generate`: make the synthetic tables of the papers."""

from __future__ import annotations

from pathlib import Path

import click

from ppdm_cli.commands.command import Command, Report
from ppdm_cli.commands.options import StreamFormat, file_option, formulas_option, output_option, to_option
from ppdm_cli.errors import UsageError


@click.command(
    "generate",
    cls=Command,
    epilog="""\b
Examples:
  ppdm generate --function 2 --records 100000 --seed 7 -o f2.parquet
  ppdm generate --function 1 --records 1000 --balanced -o - --to csv | head
  ppdm generate --network asia.bif --records 20000 -o asia.parquet

\b
Exit codes: 0 done, 1 the output cannot be written, 2 usage, 3 not a network. Memory: constant.""",
)
@click.option("--function", type=click.IntRange(1, 5), metavar="F", help="Decide the class by this function.")
@file_option("--network", help="Draw the records from this Bayesian network: .bif or .json.")
@click.option("--records", type=click.IntRange(0), required=True, metavar="n", help="Make this many records.")
@click.option(
    "--seed",
    type=click.IntRange(0),
    metavar="N",
    help="Make a repeatable table: the same seed gives the same one.  [default: a fresh one]",
)
@click.option("--balanced", is_flag=True, help="Make as many records of class A as of class B.")
@output_option("The table")
@to_option
@formulas_option
def generate_command(
    function: int | None, network: Path | None, records: int, seed: int | None, balanced: bool, output: Path,
    to: StreamFormat | None, force: bool,
) -> Report:  # fmt: skip
    """Make a table of Agrawal and Srikant, or one drawn from a Bayesian network.

    With --function: salary, commission, age, education level, make of car, zip code, value of the house, years
    owned and loan, drawn as the papers say, and the class `group`, A or B, which one of the functions 1 to 5
    decides. With --network: a text column for each node.
    """
    import secrets
    from contextlib import ExitStack

    from ppdm_cli.commands import show
    from ppdm_cli.engine import step
    from ppdm_cli.tables import SYNTHETIC_SCHEMA, Output, commit, generate

    seed = secrets.randbits(63) if seed is None else seed
    if function is not None and network is None:
        schema, batches = SYNTHETIC_SCHEMA, generate(function, records, seed, balanced)
    elif network is not None and function is None and not balanced:
        from ppdm_cli.networks import load, sample

        schema, batches = sample(load(network), records, seed)
    else:
        raise UsageError(
            "function-or-network",
            "--function or --network is missing, or --balanced is used without --function",
            "try --function 2, or --network asia.bif",
        )
    with ExitStack() as stack:
        target = Output(stack, output, None, force, to, spooled=False)
        with step("generating", records) as advance:
            target.fill(show.advancing(batches, advance), schema)
        commit(target)
    return Report(lambda: {"records": records, "seed": seed}, lambda: None)
