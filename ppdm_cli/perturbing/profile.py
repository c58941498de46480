"""What domains must be learnt from the private data: one fold, before anything is perturbed.

Runs only over the columns whose domain nobody declared.
"""

from __future__ import annotations

from collections.abc import Mapping

from ppdm_cli import dtypes
from ppdm_cli.domain import MOST_VALUES
from ppdm_cli.errors import DataError, RefusedError, quoted, word
from ppdm_cli.facts import Counting, Facts, facts_of
from ppdm_cli.tables import Table


def profile(table: Table, most: Mapping[str, int], counting: Counting | None = None) -> dict[str, Facts]:
    """Return the facts of each column named in `most`, which says how many distinct numbers are few."""
    words = [n for n in most if dtypes.is_discrete(table.schema.field(n).type)]
    found = facts_of(table, {**most, **dict.fromkeys(words, MOST_VALUES)}, counting)
    if not found:
        raise DataError(f"{quoted(table.name)} has no records", "there is nothing to perturb")
    for name in words:
        if found[name].values is None:
            raise RefusedError(
                f"the column {quoted(name)} has more than {MOST_VALUES} different values: "
                "no release of it could be mined",
                f"--drop {word(name)}, or group its values first",
            )
    return found
