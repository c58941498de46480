"""Facts about releases for reports, statements, JSON and notebooks, from a sidecar.

All reports on a release take their sentences from `release_facts`, and their figures from `attribute_figures`
and `record_figures`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from ppdm_cli.channels import FIGURES, KINDS, Channel
from ppdm_cli.display import UNLIMITED, Displayed, at_most, percent, up
from ppdm_cli.errors import UsageError, argument, counted, listed, some
from ppdm_cli.files import one_run
from ppdm_cli.privacy import PRIOR, believed_after, epsilon, limit_sentence, worst_posterior
from ppdm_cli.releases.opened_release import in_rounds, opened, read_sidecar
from ppdm_cli.releases.release import open_release
from ppdm_cli.sidecar import Sidecar
from ppdm_cli.tables import TableLike, is_sidecar, path_of

if TYPE_CHECKING:
    import polars as pl

MOST_ENTRIES = 1 << 22
"""The most entries of matrices without closed forms, over all attributes, that are computed for figures."""


class Fact(NamedTuple):
    """A sentence about a release, with its topic."""

    topic: Literal[
        "results", "kind", "limit", "withheld", "unit", "keys", "times", "kept", "domains", "grouped"
    ]
    sentence: str


class AttributeFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The promise for an attribute, or for several that all records publish through one channel.

    A figure is None if it would take too long, or does not apply; it is unset if only records that publish the
    attribute have it.
    """

    attribute: str
    type: str
    dtype: str
    N: int
    matrix: str | None
    law: str | None
    published: float | UnsetType = UNSET
    """The share of the records that publish it, if some withhold it."""
    half_width: int | UnsetType | None = UNSET
    noise: str | UnsetType | None = UNSET
    sd: float | UnsetType | None = UNSET
    interval: float | UnsetType | None = UNSET
    interval_share: float | UnsetType | None = UNSET
    neighbourhood: float | UnsetType | None = UNSET
    gamma: float | str
    """The gamma of all attributes that share its coin: each of them reveals something about that coin."""
    epsilon: float | str
    staying: float | None
    condition_number: float | str | UnsetType | None = UNSET
    candidates: int | UnsetType | None = UNSET
    entropy: float | UnsetType | None = UNSET
    domain_from: str
    nulls: bool


class RecordFigures(msgspec.Struct, frozen=True):
    """The promise over all perturbed attributes of a record, and the attributes outside every promise."""

    unit: str
    rows: int | None
    perturbed_gamma: float | str | None
    perturbed_epsilon: float | str | None
    prior: float
    worst_posterior: float | None
    unbounded: list[str]
    coins: str
    recipes: int | UnsetType = UNSET
    """The number of recipes, if records withhold attributes."""
    rounds: int | UnsetType = UNSET
    published_cells: float | UnsetType = UNSET


@dataclass(frozen=True, repr=False)
class Inspected(Displayed):
    """The result of `inspect`: a sidecar, and its promise against an attacker with some prior belief."""

    sidecar: Sidecar
    prior: float

    @property
    def figures(self) -> dict[str, object]:
        return promise_figures(self.sidecar, self.prior)

    @property
    def sentences(self) -> list[str]:
        return sentences(self.sidecar, self.prior)

    @property
    def frame(self) -> pl.DataFrame:
        import polars as pl

        rows = msgspec.to_builtins(attribute_figures(self.sidecar))
        return pl.DataFrame(rows, infer_schema_length=None, strict=False)

    def _words(self) -> list[str]:
        return [*self.sidecar._words(), *self.sentences]

    def _body(self) -> list[str]:
        return self.sentences


@one_run()
def inspect(
    data: TableLike | Sidecar, sidecar: Sidecar | str | Path | None = None, *, prior: float = PRIOR
) -> Inspected:
    """Return the promise of a file, a table in memory or a sidecar; the data must fit the sidecar.

    Parameters
    ----------
    data : path, table or Sidecar
        A release, a table of results, or a sidecar alone.
    sidecar : Sidecar or path, optional
        The sidecar, if it is not beside the data.
    prior : float, default 0.05
        The probability with which a reader believed a value before.
    """
    if not 0 < prior < 1:
        raise UsageError(
            "impossible-prior", "the prior must lie between 0 and 1", f"try {argument('prior', 0.05)}"
        )
    if isinstance(data, Sidecar):
        return Inspected(data, prior)
    if isinstance(data, (str, Path)) and is_sidecar(path_of(data)):
        return Inspected(read_sidecar(path_of(data), None, str(data)), prior)
    return Inspected(open_release(data, sidecar, stages=None)[1], prior)


def through_all(sidecar: Sidecar) -> list[Channel]:
    release = opened(sidecar)
    specs = [{o.attributes: o.spec for o in r.channels} for r in release.recipes]
    return [c for c in release.channels if all(s.get(c.attributes) == c.spec for s in specs)]


def attribute_figures(sidecar: Sidecar) -> list[AttributeFigures]:
    """Return the figures of each attribute, or of several in one channel; None if one takes too long."""
    channels, found, entries = {n: c for c in through_all(sidecar) for n in c.attributes}, [], 0
    for attribute in sidecar.perturbed:
        name, channel = attribute.name, channels.get(attribute.name)
        if channel is None:
            having = [d for d in opened(sidecar).recipes if name in d.through]
            weights = [d.weight for d in having]
            axes = [axis for d in having if (axis := d.marginal([name])) is not None]
            figures = _of_axes(sidecar, axes, weights, [d.through[name] for d in having])
            published = sum(weights) / sum(d.weight for d in opened(sidecar).recipes)
            found.append(msgspec.structs.replace(figures, published=published))
        elif channel.attributes[0] == name:
            matrix = channel.matrix
            if not matrix.diagonal:
                entries += (matrix.inputs + 64) ** 2  # so that many small ones count too
            found.append(_of_channel(sidecar, channel, matrix.diagonal or entries <= MOST_ENTRIES))
    return found


def _of_channel(sidecar: Sidecar, channel: Channel, whole: bool) -> AttributeFigures:
    """Return the figures of one channel; `whole` says whether the entries of its matrix may be computed."""
    matrix, closed = channel.matrix, whole or channel.noise is None
    return msgspec.structs.replace(
        _of_axes(sidecar, [channel], [1] * closed, [channel]),
        **({"law": channel.spec and channel.spec.short()} | dict.fromkeys(FIGURES) | channel.figures),
        condition_number=_finite(matrix.condition_number) if whole else None,
        candidates=matrix.candidates if closed else None,
        entropy=matrix.entropy() if closed else None,
    )


def _of_axes(
    sidecar: Sidecar, axes: Sequence[Channel], weights: Sequence[int], channels: Sequence[Channel]
) -> AttributeFigures:
    """Return the figures of published axes of channels, with the share of records on each."""
    own = [sidecar.by_name[n] for n in axes[0].attributes]
    kinds = ", ".join(dict.fromkeys(c.spec.kind for c in channels if c.spec is not None)) or None
    gamma = max(c.matrix.amplification for c in channels)
    staying = sum(w * a.matrix.staying for w, a in zip(weights, axes, strict=False))
    return AttributeFigures(
        attribute=axes[0].name,
        type=str(own[0].type) if len(own) == 1 else "together",
        dtype=", ".join(a.dtype for a in own),
        N=axes[0].domain.size,
        matrix=kinds,
        law=kinds,
        gamma=_finite(gamma),
        epsilon=_finite(epsilon(gamma)),
        staying=staying / sum(weights) if weights else None,
        domain_from="data" if any(a.domain_from == "data" for a in own) else "declared",
        nulls=any(a.nulls is True for a in own),
    )


def _finite(number: float) -> float | str:
    """Return "inf" for infinity, which JSON lacks, as the sidecar writes it."""
    return number if isfinite(number) else "inf"


def record_figures(sidecar: Sidecar, prior: float = PRIOR) -> RecordFigures | None:
    """Return the promise over a record or a person; None for a table that has no records of theirs."""
    privacy = sidecar.privacy
    if privacy is UNSET:
        return None
    gamma, stated = privacy.perturbed_gamma, privacy.perturbed_epsilon
    posterior = None if gamma is None else worst_posterior(float(gamma), prior)
    if gamma == "inf" and stated is not None:
        posterior = believed_after(float(stated), prior)
    rows = None if privacy.rows is UNSET else privacy.rows
    record = RecordFigures(privacy.unit, rows, gamma, stated, prior, posterior, privacy.kept, privacy.coins)
    weights = [d.weight for d in opened(sidecar).recipes]
    cells = sum(d.weight * len(d.attributes) for d in opened(sidecar).recipes)
    if len(through_all(sidecar)) == len(opened(sidecar).channels):
        return record
    return msgspec.structs.replace(
        record,
        recipes=len(weights),
        rounds=len(in_rounds(opened(sidecar).recipes)),
        published_cells=cells / sum(weights) / len(sidecar.perturbed),
    )


def promise_figures(sidecar: Sidecar, prior: float = PRIOR) -> dict[str, object]:
    """Return all that `perturb` reports and `inspect` shows, as `--json` prints it."""
    found: dict[str, object] = {
        "release": sidecar.release,
        "stage": sidecar.stage,
        "records": sidecar.records,
        "class": None if sidecar.class_ is UNSET else sidecar.class_,
        "record": msgspec.to_builtins(record_figures(sidecar, prior)) or {},
        "attributes": msgspec.to_builtins(attribute_figures(sidecar)),
    }
    if sidecar.scheme is not UNSET:
        found |= {"scheme": sidecar.scheme, "altered": [a.name for a in sidecar.altered]}
    return found | {"kept": [{"attribute": a.name, "dtype": a.dtype} for a in sidecar.kept]}


def sentences(sidecar: Sidecar, prior: float = PRIOR) -> list[str]:
    """Return sentences about a release in plain words, the most important first."""
    return [f.sentence for f in release_facts(sidecar, prior)]


def release_facts(sidecar: Sidecar, prior: float = PRIOR) -> list[Fact]:
    """Return the sentences about a release, each with its topic."""
    record = record_figures(sidecar, prior)
    if record is None:
        words = f"This is a table of results (stage {sidecar.stage!r}), so it promises nothing about records."
        return [Fact("results", words)]
    found = list[Fact]()
    if sidecar.reconstruction is not UNSET:
        row = (
            "The rows were shuffled, but each is a guess about the person in some row of the release"
            if sidecar.reconstruction.shuffled
            else "Each row is a guess about the person in the same row of the release"
        )
        words = f"{row}, and many of its values are right. Anyone who has the release can make the same "
        found.append(Fact("results", words + "guesses, so handle this file as you would the release."))
    kinds: dict[str, list[Channel]] = {}
    for channel in opened(sidecar).channels:
        if channel.spec is not None:
            kinds.setdefault(channel.spec.kind, []).append(channel)
    for kind, channels in kinds.items():
        found += [Fact("kind", line) for line in KINDS[kind].warnings(channels)]
    found += [Fact("limit", line) for line in _over_a_record(sidecar, record, prior)]
    if record.published_cells is not UNSET:
        lines = _of_what_is_withheld(sidecar, record.published_cells)
        found += [Fact("withheld", line) for line in lines]
        if record.unit == "record":
            words = (
                "The guarantee is per record. For a person with several records the epsilons add up, "
                f"unless {argument('person')} limits them."
            )
            found.append(Fact("unit", words))
    if record.coins == "key-file":
        found.append(Fact("keys", _KEYED if record.published_cells is UNSET else _KEYED_RECIPES))
    if record.unbounded:
        words = f"Published unchanged, so not protected: {some(record.unbounded)}. This includes anything "
        found.append(Fact("kept", words + "they reveal about other columns."))
    found += [Fact("kind", line) for kind, own in kinds.items() for line in KINDS[kind].remarks(own)]
    if fine := [a.name for a in sidecar.attributes if a.dtype.startswith("timestamp[ns")]:
        words = (
            f"Times in nanoseconds: {some(fine)}. Spark reads them as whole numbers. If a miner uses Spark, "
        )
        found.append(Fact("times", words + "cast them to microseconds before you perturb."))
    if from_data := [a.name for a in sidecar.perturbed if a.domain_from == "data"]:
        words = f"Domains taken from the private data (now public in the sidecar): {some(from_data)}. No limit "
        found.append(Fact("domains", words + "covers what they reveal."))
    if grouped := {a.name: a.group.prefix for a in sidecar.perturbed if a.group is not UNSET}:
        how = ("file of groups" if n is UNSET else f"first {counted(n, 'character')}" for n in grouped.values())
        words = some(f"{name} ({by})" for name, by in zip(grouped, how, strict=True))
        found.append(Fact("grouped", f"Grouped before perturbation: {words}."))
    return found


_SEEDED = [
    "Warning: nothing is promised, because the random numbers came from a seed. A seed can be guessed and "
    "checked against the release. To publish, perturb without a seed."
]
_KEYED = (
    "The random numbers follow from a key and an identifier. An unchanged value gets the same answer in "
    "each release under this key with the same domain and gamma. A changed value, domain or gamma "
    "costs its gamma again, and a changed answer proves a change."
)
_KEYED_RECIPES = (
    "The random numbers follow from a key and an identifier. A record publishes the same attributes in "
    "each release under this key, which refuses another design, and unchanged values get the same answers. "
    "A change in one value redraws all that are published with it, costs the record's gamma again, and is "
    "not hidden."
)


def one_attribute_limit(sidecar: Sidecar, prior: float = PRIOR) -> float | None:
    """Return the bound for someone who looks at one attribute alone; None if it is that of the record.

    Channels that all records go through have their own coins. If records share a coin between attributes, a
    reader who knows or guesses one of a record's values learns as much about the others as gamma allows.
    """
    release = opened(sidecar)
    if len(through_all(sidecar)) < max(2, len(release.channels)):
        return None
    of_one_copy = [c for recipe in release.recipes for c in recipe.channels]
    gamma = max(c.matrix.amplification for c in of_one_copy)
    return believed_after(sidecar.times * epsilon(gamma), prior)


def limit_sentences(sidecar: Sidecar, posterior: float, prior: float = PRIOR) -> list[str]:
    """Return the limits on a belief: after the whole record, and after one attribute if that is less."""
    privacy, one = sidecar.privacy, one_attribute_limit(sidecar, prior)
    seen = "a whole record"
    if privacy is not UNSET and privacy.rows is not UNSET:
        seen = "all records of a person"
    if sidecar.copy is not UNSET:
        seen += f" in all {sidecar.copy.of} copies"
    lines = [limit_sentence(posterior, prior, seen)]
    if one is not None and not (most := at_most(one)).startswith("over"):
        lines.append(
            f"A reader of one attribute alone, without the rest of the record, becomes at most {most} sure."
        )
    return lines


def unprotected(sidecar: Sidecar, prior: float = PRIOR) -> list[str]:
    """Return the sentence that a whole record has no meaningful protection, if so, to print first."""
    record = record_figures(sidecar, prior)
    posterior = 0.0 if record is None else record.worst_posterior or 0.0
    return limit_sentences(sidecar, posterior, prior)[: posterior > UNLIMITED]


def _over_a_record(sidecar: Sidecar, record: RecordFigures, prior: float) -> list[str]:
    """Return the promise over all perturbed attributes of a record, in all copies."""
    if record.coins == "unknown":
        return [
            "Nothing is promised, because another tool perturbed this table and its random numbers are unknown."
        ]
    if sidecar.scheme is not UNSET:
        altered = some(a.name for a in sidecar.altered)
        lines = [
            f"Noise that keeps a decision tree ({', '.join(sidecar.scheme)}) is on {altered}. It promises "
            "no gamma and no epsilon: any value may be published unchanged. A miner uses the values as "
            "they are."
        ]
        return lines + _SEEDED * (record.coins == "seeded")
    if record.perturbed_gamma is None:
        return _SEEDED
    open_ones = [c for c in opened(sidecar).channels if not isfinite(c.matrix.amplification)]
    if open_ones:
        names = ", ".join(c.name for c in open_ones if c.noise is None)
        return [f"No limit for a whole record: no gamma holds for {names}."] * bool(names)
    many = len(sidecar.perturbed)
    attributes = f"the {many} perturbed attributes" if many > 1 else "the perturbed attribute"
    person = "a person's record" if (record.rows or 1) == 1 else f"a person's {record.rows} records"
    whose = person if record.unit == "person" else "a record"
    of_copies = "" if sidecar.copy is UNSET else f", in all {sidecar.copy.of} copies"
    stated, cost = record.perturbed_gamma, f"{up(float(record.perturbed_epsilon or 0)):.4g}"
    gamma = "" if stated == "inf" else f" (gamma {stated})"
    return [
        *limit_sentences(sidecar, record.worst_posterior or 1.0, prior),
        f"Epsilon is {cost}{gamma} for {attributes} of {whose}{of_copies}.",
    ]


def _of_what_is_withheld(sidecar: Sidecar, cells: float) -> list[str]:
    """Return how much is published, and the scope of the limit."""
    sizes = sorted({len(d.attributes) for d in opened(sidecar).recipes})
    few = " or ".join(map(str, sizes))
    lines = [
        f"Each record publishes {few} of {len(sidecar.perturbed)} attributes ({percent(cells)} of the "
        "cells), chosen at random whatever its values. The other cells are blank."
    ]
    if sizes[-1] > 1:
        lines[0] += (
            " The limit for a single value is the same, because a reader who knows or guesses another value of "
            "the record may become that sure."
        )
    if len(rounds := in_rounds(opened(sidecar).recipes)) > 1:
        total = sum(d.weight for d in opened(sidecar).recipes)
        shares = [percent(sum(d.weight for d in own) / total) for own in rounds]
        last = dict.fromkeys(n for d in rounds[-1] for n in d.attributes if n != sidecar.class_)
        lines.append(
            f"Records were split at random into {len(rounds)} rounds ({', '.join(shares)}). Later rounds "
            f"publish what earlier rounds found most useful: the last one publishes {listed(last)}."
        )
    return lines


def has_noise(sidecar: Sidecar) -> bool:
    """Return whether the published values are numbers with noise, not values of domains."""
    return any(c.noise is not None for c in opened(sidecar).channels)
