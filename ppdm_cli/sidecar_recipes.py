"""What a sidecar says of recipes: which channels a record goes through, where records differ in that.

With one recipe every record goes through the same channels. With several, each has a weight, and a record's is
chosen by a coin that sees nothing of it (maths 11). A family is many recipes in one entry: `choose` of the
attributes `of`, and always those `with` them, go through one channel; its members are in lexicographic order.
Where records were dealt to rounds, each recipe says which round is dealt it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, pairwise
from math import comb, lcm, log
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from ppdm_cli.channels import KINDS, Channel, Name, Recorded, Spec
from ppdm_cli.sidecar_attributes import Attribute, channel, named

MOST_RECIPES = 1 << 12
MOST_ROUNDS = 16
MOST_CODES = 1 << 21
"""The most codes that recipes publish of all attributes, those of each half-width counted apart."""
LARGEST_TOTAL = 1 << 62
"""The largest sum of weights that a coin is drawn below."""
COLUMN = "ppdm_recipe"
"""The column that has the number of each record's recipe."""
Several = Annotated[list[Name], Meta(max_length=1 << 10)]


class Recipe(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, dict=True):
    """The channels that a record goes through, or a family of such recipes."""

    channels: Annotated[list[Recorded], Meta(max_length=1 << 16)] | UnsetType = UNSET
    weight: Annotated[int, Meta(ge=1, le=1 << 32)] | UnsetType = UNSET
    round: Annotated[int, Meta(ge=1, le=MOST_ROUNDS)] | UnsetType = UNSET
    """The round of records that is dealt it; later ones were chosen by what earlier ones had published."""
    choose: Annotated[int, Meta(ge=1, le=1 << 10)] | UnsetType = UNSET
    of: Several | UnsetType = UNSET
    with_: Several | UnsetType = msgspec.field(default=UNSET, name="with")
    channel: dict[str, Any] | UnsetType = UNSET
    """What the channel of each member is, but for its attributes; numbers go by `of`, then `with`."""

    def __post_init__(self) -> None:
        family = [self.choose is not UNSET, self.of is not UNSET, self.channel is not UNSET]
        if any(family) != all(family) or all(family) == (self.channels is not UNSET):
            raise ValueError("a recipe has either channels, or 'choose', 'of' and 'channel'")
        if not any(family):
            if self.with_ is not UNSET:
                raise ValueError("'with' goes with 'choose' and 'of'")
            return
        most = len(self.of) if self.of is not UNSET else 0
        if self.choose is UNSET or self.choose > most or self.members > MOST_RECIPES:
            raise ValueError(f"a family chooses at most all of its attributes, in at most {MOST_RECIPES} ways")
        self.pattern  # noqa: B018 - fails where it is no channel

    @property
    def members(self) -> int:
        """Return how many recipes this is."""
        return comb(len(self.of), self.choose) if self.of is not UNSET and self.choose is not UNSET else 1

    @cached_property
    def pattern(self) -> Spec:
        """Return the channel of a family as if it went through all of its attributes."""
        assert self.of is not UNSET and self.channel is not UNSET
        names = [*self.of, *([] if self.with_ is UNSET else self.with_)]
        kind = KINDS.get(str(self.channel.get("kind")))
        if kind is None:
            raise ValueError(f"a channel's kind is none of {', '.join(KINDS)}")
        return msgspec.convert({**self.channel, "attributes": names}, type=kind)

    def each(self) -> Iterator[list[Spec]]:
        """Yield the channels of each member."""
        if self.channels is not UNSET:
            yield [c for c in self.channels if isinstance(c, Spec)]
        elif self.of is not UNSET and self.choose is not UNSET:
            always = range(len(self.of), len(self.pattern.attributes))
            for chosen in combinations(range(len(self.of)), self.choose):
                yield [self.pattern.of_some([*chosen, *always])]

    @property
    def specs(self) -> list[Spec]:
        return [s for specs in self.each() for s in specs]

    def encoded(self, encode: Any) -> bytes:
        """Return its JSON, one channel per line."""
        head = {k: v for k, v in msgspec.to_builtins(self).items() if k not in ("channels", "channel")}
        parts = [b"%s: %s" % (encode(k), encode(v)) for k, v in head.items()]
        if self.channels is not UNSET:
            lines = b",\n    ".join(encode(_attributes_first(s)) for s in self.specs)
            parts.append(b'"channels": [\n    %s]' % lines)
        else:
            fields = {k: v for k, v in msgspec.to_builtins(self.pattern).items() if k != "attributes"}
            parts.append(b'"channel": %s' % encode(fields))
        return b"{%s}" % b", ".join(parts)


def _attributes_first(spec: Spec) -> dict[str, Any]:
    fields = msgspec.to_builtins(spec)
    return {"attributes": fields.pop("attributes"), **fields}


@dataclass(frozen=True, eq=False)
class Dealt:
    """A recipe in use: the record's number for it, its channels, and how often it is dealt."""

    number: int
    weight: int
    """Of the whole numbers below the sum of all weights, so many deal it."""
    channels: tuple[Channel, ...]
    round: int = 1

    @cached_property
    def attributes(self) -> tuple[str, ...]:
        return tuple(n for c in self.channels for n in c.attributes)

    @cached_property
    def through(self) -> dict[str, Channel]:
        """Return the channels by attribute."""
        return {n: c for c in self.channels for n in c.attributes}

    @property
    def epsilon(self) -> float:
        """Return what a record of it costs."""
        return sum(log(c.matrix.amplification) for c in self.channels)

    def marginal(self, names: Sequence[str]) -> Channel | None:
        """Return the axis of attributes that go through one of its channels, the others summed out."""
        return self.through[names[0]].marginal(names)


def dealt(recipes: Sequence[Recipe], known: Mapping[str, Attribute]) -> list[Dealt]:
    """Return the recipes in use, in the order of their numbers; ValueError where they do not fit.

    Weights are relative to their sum, and a family's is shared equally by its members.
    """
    members = [r.members for r in recipes]
    if sum(members) > MOST_RECIPES:
        raise ValueError(f"a release has at most {MOST_RECIPES} recipes")
    _check_codes(recipes, known)
    share = lcm(*members)
    rounds = [r.round for r in recipes if r.round is not UNSET]
    if rounds and (len(rounds) < len(recipes) or any(b - a not in (0, 1) for a, b in pairwise([0, *rounds]))):
        raise ValueError("each recipe has a round, or none; rounds are in order, from 1")
    found: list[Dealt] = []
    for recipe in recipes:
        if recipe.weight is UNSET and len(recipes) > 1:
            raise ValueError("each of several recipes has a weight")
        weight = (1 if recipe.weight is UNSET else recipe.weight) * (share // recipe.members)
        for specs in recipe.each():
            names = [n for s in specs for n in s.attributes]
            if len(set(names)) < len(names) or not set(names) <= set(known):
                raise ValueError("a recipe names an attribute twice, or one that the release does not have")
            channels = tuple(_in_use(s, known) for s in specs)
            found.append(Dealt(len(found), weight, channels, 1 if recipe.round is UNSET else recipe.round))
    if sum(d.weight for d in found) > LARGEST_TOTAL:
        raise ValueError("the weights of the recipes are too large")
    return found


def _check_codes(recipes: Sequence[Recipe], known: Mapping[str, Attribute]) -> None:
    """Check that attributes are not published in very many ways: each is a domain and a law of its own."""
    ways: dict[tuple[str, int], int] = {}
    for recipe in recipes:
        specs = [recipe.pattern] if recipe.channel is not UNSET else recipe.specs
        for spec in (s for s in specs if s.reach is not None):
            for name, reach in zip(spec.attributes, spec.reach or [], strict=True):
                if name in known:
                    ways[name, reach] = known[name].domain.ordinary + 2 * reach
    if sum(ways.values()) > MOST_CODES:
        raise ValueError(
            f"its recipes publish attributes in so many ways that there are {sum(ways.values()):,} codes, more "
            f"than {MOST_CODES:,}"
        )


def in_rounds(recipes: Sequence[Dealt]) -> list[list[Dealt]]:
    """Return the recipes of each round; one list where there are no rounds."""
    found: list[list[Dealt]] = [[] for _ in range(max((d.round for d in recipes), default=0))]
    for one in recipes:
        found[one.round - 1].append(one)
    return found


def _in_use(spec: Spec, known: Mapping[str, Attribute]) -> Channel:
    made: Channel = named(" x ".join(spec.attributes), lambda: channel(spec, known))
    return made
