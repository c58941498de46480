"""The keys of channels: all that an answer depends on besides the cell, so that other laws have other coins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import UNSET

from ppdm_cli.channels import Channel
from ppdm_cli.coins import Key
from ppdm_cli.sidecar import Attribute


@dataclass(frozen=True)
class Ready:
    """A channel, ready to perturb."""

    channel: Channel
    keys: dict[str, bytes]


def prepared(channel: Channel, known: Mapping[str, Attribute], key: Key) -> Ready:
    """Return a channel with its keys, which follow from its attributes' domains and its law."""
    assert channel.spec is not None
    own = [attribute_facts(known[n]) for n in channel.attributes]
    decides = (*own[0], channel.spec.decides) if len(own) == 1 else (own, channel.spec.decides)
    return Ready(channel, {p: key.derive(p, *decides) for p in ("perturb", "representative")})


def attribute_facts(attribute: Attribute) -> tuple[Any, ...]:
    """Return what an attribute's codes are."""
    a = attribute
    return (a.name, a.dtype, _given(a.edges), _given(a.categories), _given(a.nulls))


def _given(value: Any) -> Any:
    """Return a sidecar's field, or None where it is not set."""
    return None if value is UNSET else value
