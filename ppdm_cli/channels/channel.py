"""A channel in use: a spec, its attributes' domains, and its matrix; one axis of every table of counts.

What was kept as it was is an axis too, without a spec or a matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ppdm_cli.arrays import Addresses, Codes
from ppdm_cli.channels.matrix import Matrix, Noisy, Substitution
from ppdm_cli.coins import Coins
from ppdm_cli.domain import Domain, Product

if TYPE_CHECKING:
    from ppdm_cli.channels.base import Cells, Spec


@dataclass(frozen=True, eq=False)
class Channel:
    """One axis: what its original and its published codes are, and the law between them.

    The codes of several attributes that are perturbed together are those of the product of their domains.
    """

    name: str
    domain: Domain
    published: Domain
    spec: Spec | None = None
    law: Matrix | None = None
    several: tuple[str, ...] = ()
    """The attributes, where they are more than the one that `name` is."""

    @property
    def attributes(self) -> tuple[str, ...]:
        return self.several or (self.name,)

    def each(self) -> Iterator[tuple[str, Domain]]:
        """Yield its attributes with their domains."""
        yield from zip(self.attributes, self.domain.parts, strict=True)

    def shown(self, attribute: str) -> Domain:
        """Return the domain of what is published in an attribute's column."""
        return self.published.parts[self.attributes.index(attribute)]

    def column(self, of: Callable[[str], pa.Array]) -> pa.Array:
        """Return what its domains encode: its attribute's column, or a struct of several."""
        if not self.several:
            return of(self.name)
        return pa.StructArray.from_arrays(list(map(of, self.several)), list(map(str, range(len(self.several)))))

    def marginal(self, names: Sequence[str]) -> Channel | None:
        """Return the axis of some of its attributes, None where these have no law of their own.

        They have one where the chances of what is published of them hang on nothing but their own values.
        """
        places = [i for i, n in enumerate(self.attributes) if n in names]
        if len(places) == len(self.attributes):
            return self
        law = self.matrix.marginal(places, self.domain.sizes, self.published.sizes)
        if law is None:
            return None
        own, shown = ([d.parts[p] for p in places] for d in (self.domain, self.published))
        if len(places) == 1:
            return Channel(names[0], own[0], shown[0], None, law)
        several = tuple(self.attributes[p] for p in places)
        return Channel(" x ".join(several), Product(own), Product(shown), None, law, several)

    @property
    def kept(self) -> bool:
        return self.law is None

    @property
    def matrix(self) -> Matrix:
        """Return the law of a perturbed channel."""
        assert self.law is not None, "a kept attribute has no matrix"
        return self.law

    @property
    def kind(self) -> pa.DataType:
        """Return the type of the original column."""
        return self.domain.kind

    @property
    def noise(self) -> Noisy | None:
        """Return the law of a channel that publishes numbers."""
        return self.law if isinstance(self.law, Noisy) else None

    @property
    def again(self) -> Substitution | None:
        """Return the law, where what is published can go through it again."""
        same = self.published.size == self.domain.size
        return self.law if isinstance(self.law, Substitution) and same else None

    @property
    def no_nulls(self) -> str:
        """Return the next step where a column without nulls turns out to have some."""
        assert self.spec is not None
        return self.spec.no_nulls

    def publish(self, codes: Codes, values: pa.Array, cells: Cells) -> pa.Array:
        """Return the column that is published for values and their codes: exactly drawn from the law."""
        assert self.spec is not None
        return self.spec.publish(self.matrix, self.domain, self.published, codes, values, cells)

    def drawn(self, codes: Codes, coins: Coins, addresses: Addresses) -> Codes:
        """Return published codes for codes, exactly drawn from the law."""
        assert self.spec is not None
        return self.spec.drawn(self.matrix, codes, coins, addresses)

    @cached_property
    def figures(self) -> dict[str, Any]:
        """Return the figures that only the channel's kind has."""
        return {} if self.spec is None else self.spec.figures(self.matrix, self.domain)
