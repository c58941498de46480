"""The product of several attributes' domains: a code for each combination, the last attribute fastest.

Its columns are structs with a field an attribute, which whoever reads or writes a table puts together.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import prod

import numpy as np
import pyarrow as pa

from ppdm_cli.arrays import Codes, code_type, joined, split
from ppdm_cli.domain.base import Domain, Encoded

MOST_COMBINATIONS = 1 << 32
"""The most combinations: codes are of 32 bits, and a cell's coins have 32 bits for which one it has."""
TIMES = " x "


class Product(Domain):
    """The combinations of several domains."""

    def __init__(self, parts: Sequence[Domain]) -> None:
        super().__init__(pa.struct([(str(i), p.kind) for i, p in enumerate(parts)]), False)
        if prod(p.size for p in parts) > MOST_COMBINATIONS:
            raise ValueError(f"several attributes together have at most {MOST_COMBINATIONS} combinations")
        object.__setattr__(self, "_parts", tuple(parts))

    _parts: tuple[Domain, ...]

    @property
    def parts(self) -> tuple[Domain, ...]:
        return self._parts

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(p.size for p in self._parts)

    @property
    def ordinary(self) -> int:
        return prod(self.sizes)

    @property
    def ordered(self) -> int:
        return 0

    def joined(self, codes: Sequence[Codes]) -> Codes:
        """Return the code of each combination of the attributes' codes."""
        return joined(codes, self.sizes)

    def split(self, codes: Codes) -> list[Codes]:
        found = split(codes, self.sizes)
        return [c.astype(code_type(size)) for c, size in zip(found, self.sizes, strict=True)]

    def labels(self) -> list[str]:
        """Return each combination's labels, such as "F x 40"; one that could be taken for two is in quotes."""
        several = [[_quoted(label) for label in p.labels()] for p in self._parts]
        return reduce(lambda so_far, more: [a + TIMES + b for a in so_far for b in more], several)

    def encode(self, array: pa.Array, clip: bool = False) -> Encoded:
        found = [p.encode(array.field(i), clip) for i, p in enumerate(self._parts)]
        outside = np.unique(np.concatenate([f.outside for f in found]))
        for each in found:
            each.codes[each.outside] = 0
        return Encoded(self.joined([f.codes for f in found]), outside)

    def decode(self, codes: Codes, within: np.ndarray | None = None) -> pa.Array:
        return self._structs(codes, within, "decode")

    def column(self, codes: Codes, within: np.ndarray | None = None) -> pa.Array:
        return self._structs(codes, within, "column")

    def _structs(self, codes: Codes, within: np.ndarray | None, how: str) -> pa.Array:
        """Return a column of structs; `within` has a column an attribute."""
        columns = [
            getattr(part, how)(own, None if within is None else within[:, i])
            for i, (part, own) in enumerate(zip(self._parts, self.split(codes), strict=True))
        ]
        return pa.StructArray.from_arrays(columns, [str(i) for i in range(len(columns))])

    def spread(self) -> Domain:
        return Product([p.spread() for p in self._parts])


def _quoted(label: str) -> str:
    return '"' + label.replace('"', '""') + '"' if TIMES in label or '"' in label else label
