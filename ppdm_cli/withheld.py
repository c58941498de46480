"""Records of several recipes, read: what each published, its withheld cells told from nulls of its own.

A cell outside a recipe's list is null, and one inside it only where the attribute has nulls; whatever is not so
is no such release.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ppdm_cli.arrays import Codes, code_type
from ppdm_cli.engine import Batch
from ppdm_cli.errors import MismatchError, quoted
from ppdm_cli.sidecar import Sidecar
from ppdm_cli.sidecar_attributes import Attribute
from ppdm_cli.sidecar_recipes import COLUMN, Dealt

AGAIN = "the data were changed, or the sidecar is another's: fetch both again"


@dataclass(frozen=True, eq=False)
class Published:
    """What a batch of records published, by recipe."""

    recipes: np.ndarray
    """The number of each record's recipe."""
    codes: dict[str, Codes]
    """Of each attribute that was asked for, in the domain of its whole column; of withheld cells, null's."""
    sidecar: Sidecar

    def rows(self, recipe: Dealt) -> np.ndarray:
        """Return the rows that went through a recipe."""
        return np.flatnonzero(self.recipes == recipe.number)

    def of(self, recipe: Dealt, name: str, rows: np.ndarray) -> Codes:
        """Return what its records published of an attribute, as codes of what the recipe publishes of it."""
        channel = recipe.through[name]
        own = self.sidecar.by_name[name].own_codes(channel).astype(code_type(channel.shown(name).size))
        return own.take(self.codes[name][rows])


def published(batch: Batch, sidecar: Sidecar, names: Sequence[str]) -> Published:
    """Return what the records of a batch published of some perturbed attributes; they must fit the sidecar."""
    column = batch.column(COLUMN)
    numbers = column.fill_null(len(sidecar.dealt)).to_numpy(zero_copy_only=False)
    unknown = np.flatnonzero(numbers >= len(sidecar.dealt))
    if unknown.size:
        raise MismatchError(
            f"{batch.where(int(unknown[0]))} has a recipe that the sidecar does not list, in {quoted(COLUMN)}",
            AGAIN,
        )
    codes = {n: _codes(batch, sidecar, sidecar.by_name[n], numbers) for n in names}
    return Published(numbers, codes, sidecar)


def _codes(batch: Batch, sidecar: Sidecar, attribute: Attribute, numbers: np.ndarray) -> Codes:
    domain, name = attribute.column, attribute.name
    encoded = domain.encode(batch.column(name))
    codes = encoded.codes
    laws, which = dict[int, tuple[int, np.ndarray]](), np.zeros(len(sidecar.dealt), np.intp)
    for recipe in sidecar.dealt:
        if name in recipe.through:
            places = attribute.places(recipe.through[name])
            which[recipe.number] = laws.setdefault(id(places), (1 + len(laws), places))[0]
    possible = np.zeros((1 + len(laws), domain.size), bool)
    possible[0, domain.null_code] = True  # withheld
    for number, places in laws.values():
        possible[number, places] = True
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
        raise MismatchError(f"the column {quoted(name)} has {what}, in {batch.where(row)}", AGAIN)
    return codes
