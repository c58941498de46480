"""Several independent answers about one value, taken together (Kang's multiple substitutions).

The law of k answers is the product of their laws. Their order carries no information, because all have the same
law. So the observation is how often each code was answered: a multiset, numbered by its sorted codes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations_with_replacement
from math import comb

import numpy as np
import pyarrow as pa

from ppdm_cli.arrays import Floats, code_type
from ppdm_cli.channels.base import Channel
from ppdm_cli.channels.matrix import Explicit, Matrix, applied
from ppdm_cli.domain import Domain, Encoded
from ppdm_cli.errors import RefusedError

MOST_COPY_ENTRIES = 1 << 22


@dataclass(frozen=True)
class Copies(Explicit):
    """The matrix of `copies` answers of `one` matrix: a row for each multiset of published codes."""

    one: Matrix
    copies: int

    def __post_init__(self) -> None:
        many = comb(self.one.outputs + self.copies - 1, self.copies) * self.one.inputs > MOST_COPY_ENTRIES
        if many or self.one.outputs**self.copies >= 1 << 63:  # a multiset's key is a number of 64 bits
            raise RefusedError(
                "too-many-copies",
                f"{self.copies} copies of an attribute with {self.one.outputs} published values have too many "
                "combinations to be taken together",
                "take fewer of the copies, or one by one",
            )

    @cached_property
    def multisets(self) -> np.ndarray:
        """Return the codes of each multiset, ascending; the multisets in lexicographic order."""
        return np.array(list(combinations_with_replacement(range(self.one.outputs), self.copies)), np.int64)

    @cached_property
    def entries(self) -> Floats:
        law = self.one.dense()
        found = np.ones((len(self.multisets), law.shape[1]))
        for place in range(self.copies):
            found *= law[self.multisets[:, place]]
        return found * self._orders[:, None]

    @cached_property
    def _orders(self) -> Floats:
        orders, run = np.ones(len(self.multisets)), np.ones(len(self.multisets))
        for place in range(1, self.copies):
            same = self.multisets[:, place] == self.multisets[:, place - 1]
            run = np.where(same, run + 1, 1)
            orders *= (place + 1) / run
        return orders

    @cached_property
    def unchanged(self) -> np.ndarray:
        return self.numbered([self.one.unchanged] * self.copies)

    def seen(self, observed: Floats, axis: int = 0) -> Floats:
        """Return the mean over the copies."""
        shares = np.stack([(self.multisets == code).mean(axis=1) for code in self.one.unchanged])
        return applied(shares, observed, axis)

    @property
    def amplification(self) -> float:
        return self.one.amplification**self.copies

    @property
    def stop_gain(self) -> float:
        return self.one.stop_gain

    def numbered(self, codes: list[np.ndarray]) -> np.ndarray:
        """Return the multisets' numbers, of codes given copy by copy."""
        places = np.sort(np.stack(codes).astype(np.int64), axis=0)
        key = np.zeros(places.shape[1], np.int64)
        for row in places:
            key = key * self.one.outputs + row
        return np.searchsorted(self._keys, key)

    @cached_property
    def _keys(self) -> np.ndarray:
        powers = self.one.outputs ** np.arange(self.copies - 1, -1, -1, dtype=np.int64)
        keys: np.ndarray = self.multisets @ powers
        return keys


class CopiedAnswers(Domain):
    """The answers of several copies about an attribute: a struct of their columns, coded by its multiset."""

    def __init__(self, one: Domain, matrix: Copies) -> None:
        super().__init__(pa.struct([(str(i), one.kind) for i in range(matrix.copies)]), False)
        object.__setattr__(self, "one", one)
        object.__setattr__(self, "matrix", matrix)

    one: Domain
    matrix: Copies

    @property
    def ordinary(self) -> int:
        return self.matrix.outputs

    def labels(self) -> list[str]:
        names = self.one.labels()
        return [", ".join(names[c] for c in codes) for codes in self.matrix.multisets.tolist()]

    def encode(self, array: pa.Array, clip: bool = False) -> Encoded:
        parts = [self.one.encode(self._copy(array, i)) for i in range(self.matrix.copies)]
        outside = np.unique(np.concatenate([p.outside for p in parts]))
        codes = [p.codes.copy() for p in parts]
        for part in codes:
            part[outside] = 0
        return Encoded(self.matrix.numbered(codes).astype(code_type(self.size)), outside)

    def _copy(self, array: pa.Array, number: int) -> pa.Array:
        """Return one copy's column, of several attributes a struct of theirs."""
        if len(self.one.parts) == 1:
            return array.field(number)
        columns = [array.field(i).field(number) for i in range(len(self.one.parts))]
        return pa.StructArray.from_arrays(columns, [str(i) for i in range(len(columns))])


def together(channel: Channel, copies: int) -> Channel:
    """Return the channel of several independent answers about one attribute."""
    matrix = Copies(channel.matrix, copies)
    return replace(channel, published=CopiedAnswers(channel.published, matrix), law=matrix)
