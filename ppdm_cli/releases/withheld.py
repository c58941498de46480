"""Records of several recipes, read: what each published, its withheld cells told from nulls of its own.

A cell outside a recipe's list is null, and one inside it only where the attribute has nulls; whatever is not so
is no such release.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from ppdm_cli.arrays import Codes, code_type
from ppdm_cli.errors import MismatchError, quoted
from ppdm_cli.releases.opened_release import OpenedRelease, RecipeInUse, opened
from ppdm_cli.sidecar import COLUMN, Sidecar

FETCH_AGAIN = "the data were changed, or the sidecar is another's: fetch both again"


class Rows(Protocol):
    """Some rows of a table, such as the engine's batches."""

    def column(self, name: str) -> pa.Array: ...
    def where(self, row: int) -> str: ...


@dataclass(frozen=True, eq=False)
class Published:
    """What a batch of records published, by recipe."""

    recipes: np.ndarray
    """The number of each record's recipe."""
    codes: dict[str, Codes]
    """Of each attribute that was asked for, in the domain of its whole column; of withheld cells, null's."""
    release: OpenedRelease

    def rows(self, recipe: RecipeInUse) -> np.ndarray:
        """Return the rows that went through a recipe."""
        return np.flatnonzero(self.recipes == recipe.number)

    def of(self, recipe: RecipeInUse, name: str, rows: np.ndarray) -> Codes:
        """Return what its records published of an attribute, as codes of what the recipe publishes of it."""
        channel = recipe.through[name]
        own = self.release.wide(name).own_codes(channel).astype(code_type(channel.shown(name).size))
        return own.take(self.codes[name][rows])


def published(batch: Rows, sidecar: Sidecar, names: Sequence[str]) -> Published:
    """Return what the records of a batch published of some perturbed attributes; they must fit the sidecar."""
    release, column = opened(sidecar), batch.column(COLUMN)
    numbers = column.fill_null(len(release.recipes)).to_numpy(zero_copy_only=False)
    unknown = np.flatnonzero(numbers >= len(release.recipes))
    if unknown.size:
        raise MismatchError(
            "unknown-recipe",
            f"{batch.where(int(unknown[0]))} has a recipe that the sidecar does not list, in {quoted(COLUMN)}",
            FETCH_AGAIN,
        )
    return Published(numbers, {n: _codes(batch, release, n, numbers) for n in names}, release)


def _codes(batch: Rows, release: OpenedRelease, name: str, numbers: np.ndarray) -> Codes:
    wide = release.wide(name)
    domain = wide.domain
    encoded = domain.encode(batch.column(name))
    codes = encoded.codes
    forms, which = dict[int, tuple[int, np.ndarray]](), np.zeros(len(release.recipes), np.intp)
    for recipe in release.recipes:
        if name in recipe.through:
            shown = wide.codes_of(recipe.through[name])
            which[recipe.number] = forms.setdefault(id(shown), (1 + len(forms), shown))[0]
    possible = np.zeros((1 + len(forms), domain.size), bool)
    possible[0, domain.null_code] = True  # withheld
    for number, shown in forms.values():
        possible[number, shown] = True
    codes[encoded.outside] = 0
    fits = possible[which[numbers], codes]
    fits[encoded.outside] = False
    wrong = np.flatnonzero(~fits)
    if wrong.size:
        row = int(wrong[0])
        what = "a value that its recipe withholds"
        if which[numbers[row]]:
            null = codes[row] == domain.null_code
            what = "no value, which its recipe publishes" if null else "a value that its recipe never publishes"
        raise MismatchError(
            "recipe-mismatch", f"the column {quoted(name)} has {what}, in {batch.where(row)}", FETCH_AGAIN
        )
    return codes
