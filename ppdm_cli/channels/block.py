"""Blocks of values: a value is replaced within its block only (Ma and Sivakumar's groups).

Inside a block the matrix is gamma-diagonal. The block itself is published: between blocks no gamma holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from math import inf
from typing import Annotated, ClassVar

import numpy as np
from msgspec import UNSET, Meta, UnsetType

from ppdm_cli.arrays import Codes, Floats
from ppdm_cli.channels.base import Beyond, Channel, GammaSpec, Request, Spec, json_gamma, register_kind
from ppdm_cli.channels.dense import MOST_DENSE_CODES
from ppdm_cli.channels.exact_draw import ExactDraw, rounded_down
from ppdm_cli.channels.gamma_diagonal import GammaDiagonal
from ppdm_cli.channels.matrix import Blocks, Explicit, Substitution, codes_of
from ppdm_cli.domain import Domain
from ppdm_cli.errors import RefusedError, UsageError


@dataclass(frozen=True)
class Block(Explicit, Substitution):
    """A block-diagonal matrix: gamma-diagonal inside each block of codes."""

    gamma: Decimal
    blocks: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        codes = sorted(k for block in self.blocks for k in block)
        if codes != list(range(len(codes))) or not 2 <= len(codes) <= MOST_DENSE_CODES:
            raise ValueError(f"blocks hold each code of a domain of 2 to {MOST_DENSE_CODES} values once")
        for block in self.blocks:
            if len(block) > 1:
                GammaDiagonal(self.gamma, len(block))  # refuses what cannot be drawn exactly

    @cached_property
    def entries(self) -> Floats:
        found = np.zeros((self.inputs, self.inputs))
        for block in self.blocks:
            inside = GammaDiagonal(self.gamma, len(block)).dense() if len(block) > 1 else 1.0
            found[np.ix_(block, block)] = inside
        return found

    @property
    def inputs(self) -> int:
        return sum(map(len, self.blocks))

    @property
    def outputs(self) -> int:
        return self.inputs

    @property
    def amplification(self) -> float:
        return float(self.gamma) if len(self.blocks) == 1 else inf

    @cached_property
    def _place(self) -> tuple[np.ndarray, np.ndarray]:
        """Return each code's block, and its place in it."""
        block, place = np.empty(self.inputs, np.uint16), np.empty(self.inputs, np.uint16)
        for b, codes in enumerate(self.blocks):
            block[list(codes)], place[list(codes)] = b, np.arange(len(codes))
        return block, place

    @property
    def parts(self) -> list[tuple[Sequence[int], ExactDraw | None]]:
        return [(b, GammaDiagonal(self.gamma, len(b)) if len(b) > 1 else None) for b in self.blocks]

    def sample(self, codes: Codes, blocks: Blocks, out: Codes) -> None:
        """Replace each code within its block, exactly as a gamma-diagonal matrix of the block's size does."""
        block, place = self._place
        where = block[codes]
        out[:] = codes
        for b, members in enumerate(self.blocks):
            rows = np.flatnonzero(where == b)
            if len(members) == 1 or not rows.size:
                continue

            drawn = np.empty(len(rows), out.dtype)
            GammaDiagonal(self.gamma, len(members)).sample(place[codes[rows]], _of_rows(blocks, rows), drawn)
            out[rows] = np.array(members, out.dtype)[drawn]


def _of_rows(blocks: Blocks, part: np.ndarray) -> Blocks:
    def of_part(retry: int, rows: np.ndarray | None = None) -> np.ndarray:
        return blocks(retry, part if rows is None else part[rows])

    return of_part


def read_blocks(value: object) -> tuple[tuple[str, ...], ...]:
    """Read blocks of labels: lists of lists, or text such as "a|b;c|d"."""
    if isinstance(value, str):
        value = [part.split("|") for part in value.split(";")]
    if not isinstance(value, (list, tuple)) or not all(isinstance(b, (list, tuple)) and b for b in value):
        what = "blocks are lists of values"
        raise UsageError("wrong-blocks", what, 'try blocks="a|b;c|d", or blocks = [["a", "b"], ["c", "d"]]')
    return tuple(tuple(str(v) for v in block) for block in value)


@register_kind
class BlockSpec(GammaSpec, frozen=True, tag="block", tag_field="kind", kw_only=True):
    """The record of blocks in a sidecar: gamma inside them, and the codes of each."""

    about = (
        "Replaces a value only within its block of values, by a gamma-diagonal matrix of the block's size. "
        "The block itself is published, so no gamma holds between blocks."
    )
    options: ClassVar[Mapping[str, Callable[[object], object]]] = {"blocks": read_blocks}

    blocks: Annotated[
        list[
            Annotated[
                list[Annotated[int, Meta(ge=0, lt=MOST_DENSE_CODES)]],
                Meta(min_length=1, max_length=MOST_DENSE_CODES),
            ]
        ],
        Meta(min_length=1, max_length=MOST_DENSE_CODES),
    ]

    def matrix(self, domain: Domain) -> Block:
        matrix = Block(self.exact, tuple(map(tuple, self.blocks)))
        if matrix.inputs != domain.size:
            raise ValueError("the blocks do not hold as many codes as the domain has")
        return matrix

    def described(self) -> str:
        return f"gamma {self.gamma} within {len(self.blocks)} blocks"

    def short(self) -> str:
        return f"block x{len(self.blocks)}"

    @classmethod
    def warnings(cls, channels: Sequence[Channel]) -> list[str]:
        names = ", ".join(c.name for c in channels)
        alone = any(len(b) == 1 for c in channels if isinstance(c.spec, cls) for b in c.spec.blocks)
        return [
            f"The block of each value of {names} is published, so gamma holds only within a block."
            + (" A block of one value is published unchanged." if alone else "")
        ]

    @classmethod
    def asked(cls, name: str, domain: Domain, request: Request) -> tuple[Spec, Beyond | UnsetType]:
        named, gamma = request.options.get("blocks"), request.gamma
        if named is None:
            raise UsageError("missing-blocks", "a block matrix needs its blocks", "try blocks=a|b;c|d")
        assert gamma is not None
        labels = codes_of(domain.labels())
        if sorted(v for block in named for v in block) != sorted(labels):
            what = "the blocks do not hold every value of the domain once"
            step = "list each value in one block, with bins as `ppdm estimate` shows them and null as null"
            raise UsageError("blocks-miss-values", what, step)
        if len(labels) > MOST_DENSE_CODES:
            what = f"blocks are for at most {MOST_DENSE_CODES} values"
            raise RefusedError("too-many-values-for-blocks", what, "use matrix=gamma-diagonal")
        if not isinstance(gamma, Decimal):
            gamma = rounded_down(gamma, max(map(len, named)))
        codes = [sorted(labels[v] for v in block) for block in named]
        spec = cls(attributes=[name], gamma=json_gamma(gamma), blocks=codes)
        spec.law(domain)
        return spec, UNSET
