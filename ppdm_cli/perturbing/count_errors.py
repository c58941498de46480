"""Errors of counts for owners: how well a miner will be able to estimate each attribute, before it is
published.

The figure is the standard error of a value's estimated count, for even shares, over the mean count. Above 1 a
count cannot be distinguished from none. If neighbours are preserved, ranges may still be estimable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import inf, log, sqrt
from typing import TYPE_CHECKING

import numpy as np
from msgspec import UNSET

from ppdm_cli.arrays import Floats
from ppdm_cli.channels import Channel, Matrix
from ppdm_cli.display import percent
from ppdm_cli.errors import RefusedError, argument, listed, quoted, some
from ppdm_cli.perturbing.domain_choice import is_written
from ppdm_cli.privacy import proposed
from ppdm_cli.releases import RecipeInUse

if TYPE_CHECKING:
    from ppdm_cli.perturbing import Release


MOST_ENTRIES = 1 << 18
"""The most entries of a matrix without closed forms for which an error is computed."""
MOST_POOLED = 0.5
"""The share of merged values above which hardly anything of the column is left."""
MUCH_MOVED = 0.05
"""The share of values moved into a domain above which the counts at its ends are misleading."""
UNCHANGED = 0.95
"""The share of unchanged values above which a column is hardly perturbed."""
WAY_OUT = "group its values (prefix, mapping), use fewer bins or more budget, or drop it"


@dataclass(frozen=True)
class Expected:
    """The expected errors of an attribute's counts, over the mean count."""

    value: float
    """The error of a single value's count."""
    range: float
    """The error if each value were estimated as well as half of the domain; that of a value without blur."""


def expected_errors(
    recipes: Sequence[RecipeInUse], records: int, copies: int = 1
) -> dict[str, Expected | None]:
    """Return the expected errors of each attribute, or of several that are perturbed together."""
    if len(recipes) == 1:
        axes = (_alone(c, n) for c in recipes[0].channels for n in _names(c))
        return {axis.name: _expected([(1.0, axis)], records, copies) for axis in axes}
    names = dict.fromkeys(n for d in recipes for n in d.attributes)
    return {n: _expected(_shares(recipes, n), records, copies) for n in names}


def _names(channel: Channel) -> Sequence[str]:
    """Return the names that a channel is for: a box is for each of its attributes."""
    return channel.attributes if channel.matrix.coin is not None else [channel.name]


def _alone(channel: Channel, name: str) -> Channel:
    axis = channel.marginal([name]) if name in channel.attributes else channel
    return channel if axis is None else axis


def _shares(recipes: Sequence[RecipeInUse], name: str) -> list[tuple[float, Channel]]:
    """Return the shares and channels of records that publish single values, of the last round if some don't."""
    total = sum(d.weight for d in recipes)
    axes = [(d, _alone(d.through[name], name)) for d in recipes if name in d.through]
    axes = [(d, axis) for d, axis in axes if axis.matrix.invertible]
    last = max((d.round for d, _ in axes), default=0)
    if len(axes) < len(recipes):
        axes = [(d, axis) for d, axis in axes if d.round == last]
    shares, alike = Counter[Hashable](), dict[Hashable, Channel]()
    for d, axis in axes:
        law = axis.matrix
        key = id(law) if law.coin is None else (law.coin[1], round(log(law.coin[0]), 2))
        shares[key] += d.weight
        alike.setdefault(key, axis)
    return [(weight / total, alike[key]) for key, weight in shares.items()]


def _expected(channels: Sequence[tuple[float, Channel]], records: int, copies: int) -> Expected | None:
    """Return the errors of an attribute that shares of the records publish by channels; None if unknown."""
    laws = [(share, channel.matrix) for share, channel in channels if channel.noise is None]
    if not (laws and records and all(w.plain or w.inputs**2 <= MOST_ENTRIES for _, w in laws)):
        return None
    sampled, domain = sum(share for share, _ in laws), channels[0][1].domain
    equal = np.full(domain.size, 1 / domain.size)
    squares = [_square(law, equal) for _, law in laws]
    # as estimates do, records are weighed by how certain their channel makes equal counts
    certain = [share / square for (share, _), square in zip(laws, squares, strict=True)]
    whole = sum(certain)
    if not whole:
        return Expected(inf, inf)
    value = _error(sampled / whole, 1 / domain.size, sampled, records * copies)
    if not any(law.stop_gain for _, law in laws):
        return Expected(value, value)
    half = (np.arange(domain.size) < domain.ordinary // 2).astype(np.float64)
    seen = [float(law.forward(equal) @ law.scores(half) ** 2) if law.invertible else 0.0 for _, law in laws]
    weights = [(c / whole) ** 2 / share for c, (share, _) in zip(certain, laws, strict=True)]
    q = float(half @ equal)
    square = sampled * sum(w * s for w, s in zip(weights, seen, strict=True))
    of_half = _error(square, q, sampled, records * copies)
    return Expected(value, of_half * sqrt((domain.size - 1) * q / (1 - q)))


def _square(law: Matrix, equal: Floats) -> float:
    """Return the mean square of a record's contribution to the estimate of a value's share."""
    if law.plain and law.coin is not None:
        return _square_of(law.coin[0], law.inputs)
    return float(law.solve_power(law.forward(equal), 2).mean()) if law.invertible else inf


def _error(square: float, share: float, sampled: float, records: float) -> float:
    """Return the relative standard error of a share, from the mean square of a record's contribution."""
    variance = square - (sampled + (1 - sampled) * share) * share
    return sqrt(max(variance, 0.0) / (sampled * records)) / share


def _square_of(lam: float, N: int) -> float:
    """Return the mean square if a value is kept with probability lam and otherwise becomes any of N."""
    other = (1 - lam) / (lam * N)
    return ((1 / lam - other) ** 2 + (N - 1) * other**2) / N


def relative_error(gamma: float | Decimal, N: int, records: int) -> float:
    """Return the error of a value for the default matrix of so many values."""
    gamma = float(gamma)
    return _error(_square_of((gamma - 1) / (gamma + N - 1), N), 1 / N, 1.0, max(records, 1))


def unlearnable(errors: Mapping[str, Expected | None]) -> list[str]:
    """Return the attributes of which neither values nor ranges can be estimated."""
    return [n for n, e in errors.items() if e is not None and e.range > 1]


def refuse_useless(errors: Mapping[str, Expected | None], unchanged: Sequence[str]) -> None:
    """Refuse attributes that are too noisy to use, or hardly perturbed (--strict)."""
    if useless := unlearnable(errors):
        raise RefusedError(
            "nothing-learnable",
            f"{listed(useless)} would be too noisy to use: each count's error exceeds the count",
            f"group values, use fewer bins or more budget, drop them, or leave out {argument('strict', True)}",
        )
    if unchanged:
        what = f"over {UNCHANGED:.0%} of the values of {listed(unchanged)} would be published unchanged"
        raise RefusedError("hardly-perturbed", what, f"use a smaller budget, such as {proposed(2)}")


def unchanged(recipes: Sequence[RecipeInUse]) -> list[str]:
    """Return the attributes that are published unchanged in over `UNCHANGED` of all records."""
    total, shares = sum(d.weight for d in recipes), dict[str, float]()
    for d in recipes:
        for axis in (_alone(c, n) for c in d.channels for n in _names(c)):
            if axis.noise is None:
                own = axis.matrix.staying * d.weight / total
                shares[axis.name] = shares.get(axis.name, 0.0) + own
    return [n for n, share in shares.items() if share > UNCHANGED]


def release_remarks(release: Release) -> list[str]:
    """Return remarks on noisy and revealing attributes, and on dropped, moved or merged values."""
    found = [] if release.noise is None else release.noise.sentences()
    if release.sized and any(a.type == "continuous" for a in release.sidecar.perturbed):
        found.append("The number of bins was chosen from gamma, the matrix and the number of records.")
    if release.unlearnable:
        found.append(
            f"Warning: too noisy to use: {', '.join(release.unlearnable)}. The error of each count is "
            f"larger than the count. For each column, {WAY_OUT}."
        )
    if release.in_ranges:
        found.append(
            f"Only ranges of {', '.join(release.in_ranges)} can be estimated: the error of a single value's "
            "count is larger than the count."
        )
    if release.unchanged:
        found.append(
            f"Warning: over {UNCHANGED:.0%} of the values of {', '.join(release.unchanged)} are published "
            f"unchanged. Use a smaller budget, such as {proposed(2)}."
        )
    if release.identifying:
        drops = argument("drop", release.identifying)
        found.append(
            "Warning: published unchanged, though likely to be an identifier: "
            f"{', '.join(release.identifying)}. Use {drops} instead."
        )
    if release.typed:
        kinds = " ".join(argument("type", release.sidecar.by_name[n].dtype, n) for n in release.typed)
        found.append(
            f"Warning: the domain of {', '.join(release.typed)} is declared without a type, so private "
            f"cells decide the type that is published. Add {kinds}."
        )
    if release.crowded:
        found.append(
            f"Warning: nearly all values of {', '.join(release.crowded)} are in one bin. Use `ppdm plan FILE "
            "-o plan.toml`, which proposes bins."
        )
    found_in_data = [a for a in release.sidecar.perturbed if a.domain_from == "data" and a.dtype == "string"]
    if text := [a.name for a in found_in_data if a.group is UNSET and is_written(a.domain.marks)]:
        found.append(
            f"Warning: the text in {', '.join(text)} looks like decimal numbers or dates. Use `ppdm plan FILE "
            "-o plan.toml`, which finds how they are written."
        )
    if release.padded:
        found.append(f"Read as text, because digits begin with zeros: {', '.join(release.padded)}.")
    if release.dropped:
        found.append(f"Dropped: {some(release.dropped)}.")
    if release.left_out:
        total = release.left_out + (release.sidecar.records or 0)
        found.append(
            f"Left out: {release.left_out:,} of {total:,} records, because their persons have more than "
            f"{argument('rows_per_person')}. Persons with many records count less than in the original."
        )
    for moved, what in (
        (release.clipped, "Values outside the domain were moved to its nearest bin, or to null"),
        (release.merged, "Rare or new values were merged into more common ones"),
    ):
        each = some(f"{n} {m.count:,} ({percent(m.share)})" for n, m in moved.items())
        found += [f"{what}: {each}."] * bool(moved)
    if pooled := [n for n, m in release.merged.items() if m.share > MOST_POOLED]:
        found.append(
            f"Warning: most values of {', '.join(pooled)} were merged, so little can be learned. Group them "
            f"instead (prefix, mapping), or add {argument('drop', pooled)}."
        )
    if far := [n for n, m in release.clipped.items() if m.share > MUCH_MOVED]:
        found.append(
            f"Warning: over {MUCH_MOVED:.0%} of the values of {', '.join(far)} were moved, so the ends of its "
            f"domain seem too full. Use a wider one: {argument('domain', 'FROM:TO', far[0])}."
        )
    if release.telling_order:
        found.append(
            f"Warning: the order of the rows reveals {', '.join(release.telling_order)}, but was published."
        )
    if release.in_order_of:
        found.append(
            f"Warning: rows are sorted by {quoted(release.in_order_of)}. Someone who knows a person's value "
            f"can tell roughly which row is theirs. Add {argument('shuffle', True)}."
        )
    return found + ([] if release.account is None else release.account.sentences)
