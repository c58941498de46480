"""The sample that models are learned from: codes of all attributes in memory, in folds, and their sub-tables.

A release of more records than fit is thinned by a hash of the row's number, so learners get the same records
whatever the number of threads or the size of the partitions. Codes are over all exposures of an attribute
(`releases.strata`); records that reveal the same of some attributes make one sub-table of counts.

Kept columns get domains from the release itself, and take part as exact evidence: words and a few numbers are
their values, many numbers are cut at quantiles. The same rows decide whatever the size of the partitions; a
value that they lack goes to the nearest code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ppdm_cli import dtypes
from ppdm_cli.arrays import Codes, Floats, code_type
from ppdm_cli.channels import Channel, blended
from ppdm_cli.domain import Bins, Categories, Domain
from ppdm_cli.engine import Batch, fold
from ppdm_cli.errors import UsageError, argument, quoted
from ppdm_cli.estimating import Part, Steps, Tables, maximum_likelihood, shares, tabulated
from ppdm_cli.releases import Exposure, Exposures, Strata, axis_of
from ppdm_cli.repeatable import mixed as hashed_address
from ppdm_cli.sidecar import Sidecar
from ppdm_cli.tables import Table

LABEL = -2
"""The place of the class."""
FOLDS = 4
ALIKE = 2.0
"""The factor of lam within which records are counted together: .6 and .2 pooled lose a fifth."""
MOST_RECORDS = 1 << 20
MOST_CODES = 1 << 26
LABEL_STEPS = 1_000
LARGEST_DOMAIN = 1024
"""The most published values of an attribute in a model; others are left to the class-wise reconstruction."""
MOST_WORK = 1 << 30
"""The most multiplications of a step of EM for the tables of attributes with the class; others are left."""
MOST_ENTRIES = 1 << 23
"""The most entries that the matrices of all attributes have, which are written out."""
MOST_CHANNELS = 128
"""The most attributes of a model: those whose published values differ most between the labels."""


@dataclass(frozen=True, eq=False)
class SubTable:
    """The counts of records that reveal the same of some attributes and the class, and their law."""

    counts: np.ndarray
    """The counts, (folds, published labels, cells ...); without the labels if the class is withheld."""
    axes: tuple[int, ...]
    """The axes of a table of the class (if it was perturbed) and all the attributes."""
    exposures: Sequence[Exposure]
    kept: bool
    """True if the class was kept: then it has no exposure."""
    lam: Floats | float = 1.0

    @property
    def labelled(self) -> bool:
        return self.kept or self.axes[0] == 0

    def part(self, observed: Tables) -> Part:
        """Return the part for EM, of `counts` or shares of them."""
        each = self.exposures
        return Part([e.matrix for e in each], observed, self.axes, [e.noise for e in each], self.lam)


@dataclass(frozen=True, eq=False)
class RecordCoin:
    """The random choice for each record whether its cells reveal anything, or all are noise."""

    lam: Floats
    """The probability lam, by recipe."""
    attributes: tuple[Exposures, ...]
    label: Exposures

    @cached_property
    def alone(self) -> bool:
        """Return whether all that is ever published of attributes may be noise."""
        return all(e.noisy[: e.withheld].all() for e in self.attributes)

    def noise(self, codes: Sequence[Codes], places: Sequence[int]) -> Floats:
        """Return the probability that a record is noise, and that noise gives its codes."""
        found: Floats = 1 - self.lam[codes[-1]]
        for place in places:
            found = found * self.attributes[place].noise[codes[place]]
        return found

    def as_noise(self, codes: Sequence[Codes], which: Any = True) -> list[Codes]:
        """Return the codes of records, or of `which`, that may be noise; the rest is withheld."""
        each = zip(self.attributes, codes, strict=False)  # kept columns and the recipes' numbers follow
        noise = [np.where(which & e.noisy[c], e.withheld, c) for e, c in each]
        return [*noise, *codes[len(noise) :]]


def varies(strata: Strata) -> bool:
    """Return whether records differ in what they reveal: some withhold cells, or are noise."""
    return strata.withholds or strata.noisy or any(len(e.each) > 1 for e in strata.exposures)


@dataclass(frozen=True, eq=False)
class Sample:
    """Published codes, (attributes, records), and published labels."""

    strata: Strata
    """The strata of the attributes that a model may use, kept ones last, and of the class."""
    codes: list[Codes]
    """The attributes' codes; if records differ in what they reveal, the numbers of their recipes come last."""
    labels: Codes
    folds: Codes
    published: np.ndarray
    """The number of records of the release with each label; the sample may have fewer."""

    @property
    def channels(self) -> tuple[Channel, ...]:
        return self.strata.axes[:-1]

    @property
    def label(self) -> Channel:
        return self.strata.axes[-1]

    @property
    def total(self) -> int:
        return int(self.published.sum())

    @property
    def records(self) -> int:
        return len(self.labels)

    @cached_property
    def varies(self) -> bool:
        """Return whether records differ in what they reveal, so that no table has all of them."""
        return varies(self.strata)

    @cached_property
    def recipes(self) -> np.ndarray:
        """Return the number of each record's recipe."""
        return self.codes[-1] if self.varies else np.zeros(self.records, np.uint16)

    @cached_property
    def matrices(self) -> list[Floats]:
        """Return p(code | original code) of records that are not noise; *withheld* comes last."""
        found = []
        for one in self.strata.exposures[:-1]:  # what is noise counts as withheld
            added = np.ones((int(one.noisy.any() and not one.withholds), one.values))
            found.append(np.concatenate([one.matrix, added]))
        return found

    def cells(self, pair: tuple[int, int]) -> int:
        """Return the number of cells of the table of two attributes' values."""
        return self.matrices[pair[0]].shape[1] * self.matrices[pair[1]].shape[1]

    @cached_property
    def label_matrix(self) -> Floats:
        """Return p(published label | original class), of all records together."""
        return self.law(LABEL)

    def law(self, place: int) -> Floats:
        """Return p(code | original code) of a single column, of all records together."""
        last = place == LABEL
        own, lam = self.strata.exposures[-1 if last else place], self.strata.lam[self.recipes]
        if not own.noisy.any():
            return own.matrix
        codes = self.labels if last else self.codes[place]
        which = np.searchsorted(own.first, codes, side="right") - 1
        sums, records = np.bincount(which, lam, len(own.first)), np.bincount(which, minlength=len(own.first))
        each = np.repeat(sums / np.maximum(records, 1), [*np.diff(own.first), 1])[: own.codes]
        return blended(each[:, None], own.matrix, own.as_noise)

    @property
    def classes(self) -> int:
        """Return the number of labels, published or original, whichever is larger."""
        label = self.strata.exposures[-1]
        return max(label.withheld, label.values)

    @cached_property
    def label_counts(self) -> Floats:
        """Return the counts by (fold, published label)."""
        return self.counts([]).astype(np.float64)

    def counts(self, places: Sequence[int]) -> np.ndarray:
        """Return the counts of each published combination: (folds, labels, cells ...)."""
        shape = [FOLDS, len(self.label_matrix), *(len(self.matrices[p]) for p in places)]
        return tabulated([self.folds, self.labels, *(self.codes[p] for p in places)], shape)

    def sub_tables(self, places: Sequence[int]) -> list[SubTable]:
        """Return the counts of some attributes and the class, by the part of them that records reveal."""
        columns, kept = [self.labels, *(self.codes[p] for p in places)], self.label.kept
        grouped = self.strata.grouped([len(self.channels), *places], ALIKE)
        revealing = [i for i, s in enumerate(grouped.strata) if not places or any(s.axes)]
        found, records = [], [self.records]
        if len(grouped.strata) > 1:
            records = np.bincount(grouped.which[self.recipes], minlength=len(grouped.strata)).tolist()
        # an attribute that no record happens to reveal has an empty table
        for number in [i for i in revealing if records[i]] or revealing[:1]:
            stratum, rows = grouped.strata[number], grouped.rows(self.recipes, number)
            codes, shape = stratum.codes(columns, rows), (FOLDS, *stratum.shape)
            counts = tabulated([self.folds[rows], *codes], shape)
            by: Floats | float = 1.0
            if self.varies and records[number]:
                lam, labels = self.strata.lam[self.recipes[rows]], self.labels[rows]
                by = float(lam.mean())
                if kept:
                    of_label = np.maximum(np.bincount(labels, minlength=shape[1]), 1)
                    by = np.bincount(labels, lam, shape[1]) / of_label
            own = int(kept)
            axes = tuple(a - own for a in stratum.axes[own:])
            found.append(SubTable(counts, axes, stratum.exposures[own:], kept, by))
        return found

    def most_informative(self) -> Sample:
        """Return the sample of as many attributes as a model may have, the most informative ones."""
        if len(self.channels) <= MOST_CHANNELS or self.varies or not self.records:
            return self
        departures = [departure(self.counts([p]).sum(axis=0)) for p in range(len(self.channels))]
        return self.only(np.sort(np.argsort(departures, kind="stable")[-MOST_CHANNELS:]).tolist())

    def only(self, places: Sequence[int]) -> Sample:
        """Return the sample of some attributes."""
        strata, of = self.strata, [*places, len(self.channels)]
        fewer = replace(
            strata,
            axes=tuple(strata.axes[p] for p in of),
            exposures=tuple(strata.exposures[p] for p in of),
            numbers=strata.numbers[:, of],
            cells=tuple(strata.cells[p] for p in of),
        )
        own = [self.codes[p] for p in places]
        return replace(self, strata=fewer, codes=own + self.codes[len(self.channels) :])

    @property
    def coin(self) -> RecordCoin | None:
        if not self.varies:
            return None
        *attributes, label = self.strata.exposures
        return RecordCoin(self.strata.lam, tuple(attributes), label)

    @property
    def withheld(self) -> tuple[float, float] | None:
        """Return the shares of the perturbed cells that are withheld, and that are to be expected noise."""
        if not self.varies or not self.records:
            return None
        published = self.strata.numbers[:, [i for i, c in enumerate(self.strata.axes) if not c.kept]] > 0
        noise = published.mean(axis=1) * (1 - self.strata.lam)
        return float((~published).mean(axis=1)[self.recipes].mean()), float(noise[self.recipes].mean())

    def channel(self, place: int) -> Channel:
        """Return the channel of a column."""
        return self.label if place == LABEL else self.channels[place]

    def shares(self, counts: Floats, place: int = LABEL) -> Floats:
        """Return the most likely shares of a column's original values, from counts of published codes.

        If records differ in what they reveal, there may be several rows of counts.
        """
        channel = self.channel(place)
        if self.varies and not channel.kept:
            own = self.strata.exposures[-1 if place == LABEL else place]
            law, rows = self.law(place)[: own.withheld], np.atleast_2d(counts)
            start = np.full((len(rows), law.shape[1]), 1 / law.shape[1])
            found = Steps(Part([law], shares(rows[:, : len(law)], 1)))(start, LABEL_STEPS)
            counts = found.reshape(*counts.shape[:-1], -1)
        elif not channel.kept:
            likeliest = shares(maximum_likelihood(counts, [channel.law])[None])[0]
            counts = _shrunk(likeliest, self.law(place), counts) if place == LABEL else likeliest
        raised = np.maximum(counts, 1e-9)
        return np.asarray(raised / raised.sum(axis=-1, keepdims=True))


def _shrunk(likeliest: Floats, matrix: Floats, counts: Floats) -> Floats:
    """Shrink shares towards equal ones, by the part of chi-square that chance alone would give.

    The most likely shares of many labels have zeros: no record would ever get such a label.
    """
    expected = matrix.mean(axis=1) * counts.sum()
    chi_square = float(((counts - expected) ** 2 / np.maximum(expected, 1e-300)).sum())
    weight = min(1.0, (len(likeliest) - 1) / max(chi_square, 1e-300))
    return (1 - weight) * likeliest + weight / len(likeliest)


def usable(sidecar: Sidecar, label: Channel) -> list[Channel]:
    """Return the perturbed channels that a joint model may have; none if the class has too many labels.

    A channel that the label's own attribute goes through is left out: it depends on the label.
    """
    if label.published.size > LARGEST_DOMAIN:
        return []
    strata = Strata.of(sidecar, [a.name for a in sidecar.perturbed])
    own, work, entries, found = set(label.attributes), MOST_WORK, MOST_ENTRIES, set[str]()
    small = [c for c in strata.axes if not own & set(c.attributes) and c.matrix.outputs <= LARGEST_DOMAIN]
    for one in sorted(small, key=lambda c: c.matrix.outputs):
        work -= label.published.size * one.matrix.outputs * (label.published.size + one.matrix.outputs)
        entries -= one.matrix.outputs**2 * (1 + varies(strata))  # U and noise
        if min(work, entries) >= 0:
            found.add(one.name)
    return [c for c in small if c.name in found]


def class_of(sidecar: Sidecar) -> Channel:
    """Return the axis of the class, or of the attribute with the fewest values if no class has a domain."""
    named = sidecar.by_name.get(str(sidecar.class_))
    fewest = min(sidecar.perturbed, key=lambda a: a.domain.size).name
    return axis_of(sidecar, named.name if named is not None and named.has_domain else fewest)


def read(
    table: Table,
    sidecar: Sidecar,
    label: Channel,
    through: tuple[Callable[[Batch], Batch], Sequence[str]] | None = None,
) -> Sample:
    """Read the release as a sample, in one pass.

    A table that is to become a release goes `through` its publisher, which reads these columns; then kept
    columns are left out.
    """
    names = [a.name for a in sidecar.kept if a.name not in label.attributes]
    chosen = usable(sidecar, label) + ([] if through else kept_channels(table, names, LARGEST_DOMAIN))
    if not chosen:
        raise UsageError(
            "nothing-to-learn-class-from",
            f"nothing can be learned about {quoted(label.name)}: it, or every other attribute, has too many "
            f"values (at most {LARGEST_DOMAIN} each, and fewer of both together)",
            f"ask the owner for fewer bins, or reconstruct with {argument('method', 'by-class')}",
        )
    strata = Strata.of_axes(sidecar, [*chosen, label])
    most = min(MOST_RECORDS, max(MOST_CODES // (len(chosen) + 1), 1))
    first, columns = through or (None, strata.columns)
    shift = max(((table.rows or 0) // most).bit_length() - 1, 0)  # with one less, too many would stay
    found = fold(table, partial(_Thinned.of, strata, most, shift, first), _Thinned.__add__, columns=columns)
    if found is None:
        sizes = [e.codes for e in strata.exposures] + [1] * varies(strata)
        none = [np.empty(0, code_type(size)) for size in sizes]
        nobody = np.zeros(strata.exposures[-1].withheld, np.int64)
        found = _Thinned(most, nobody, 0, np.empty(0, np.uint64), none)
    # the low bits choose the fold, the high ones who stays
    folds = (found.hashes & np.uint64(FOLDS - 1)).astype(np.uint8)
    *codes, labels = found.columns
    return Sample(strata, codes, labels, folds, found.published).most_informative()


def departure(table: np.ndarray) -> float:
    """Return the standard deviations by which chi-square exceeds that of two independent axes."""
    table = table[table.any(axis=1)][:, table.any(axis=0)].astype(np.float64)
    independent = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    free = max((len(table) - 1) * (table.shape[1] - 1), 1)
    return float((((table - independent) ** 2 / independent).sum() - free) / np.sqrt(2 * free))


@dataclass(frozen=True, eq=False)
class _Thinned:
    """The codes of at most so many records: of those whose hash begins with `shift` zeros."""

    most: int
    published: np.ndarray
    """The number of records with each published label, of all records."""
    shift: int
    hashes: np.ndarray
    columns: list[np.ndarray]

    @classmethod
    def of(
        cls, strata: Strata, most: int, shift: int, first: Callable[[Batch], Batch] | None, batch: Batch
    ) -> _Thinned:
        batch = batch if first is None else first(batch)
        hashes = hashed_address(batch.addresses)
        numbers, (*codes, labels) = strata.read(batch)
        many = strata.exposures[-1].withheld
        published = np.bincount(labels, minlength=many)[:many]
        columns = [*codes, *[numbers] * varies(strata), labels]
        return cls(most, published, 0, hashes, columns)._to(shift)._fitting()

    def __add__(self, other: _Thinned) -> _Thinned:
        a, b = (side._to(max(self.shift, other.shift)) for side in (self, other))
        columns = [np.concatenate(pair) for pair in zip(a.columns, b.columns, strict=True)]
        hashes = np.concatenate([a.hashes, b.hashes])
        return _Thinned(self.most, a.published + b.published, a.shift, hashes, columns)._fitting()

    def _to(self, shift: int) -> _Thinned:
        if shift == self.shift:
            return self
        kept = np.flatnonzero(self.hashes >> np.uint64(64 - shift) == 0)
        return replace(self, shift=shift, hashes=self.hashes[kept], columns=[c[kept] for c in self.columns])

    def _fitting(self) -> _Thinned:
        found = self
        while len(found.hashes) > self.most:
            found = found._to(found.shift + 1)
        return found


MOST_BINS = 128
"""The most values of numbers; more are cut at so many quantiles."""
DECIDING_ROWS = 1 << 16
"""The approximate number of rows that decide on the quantiles."""


def kept_channels(table: Table, names: Sequence[str], most: int) -> list[Channel]:
    """Return the kept columns that can take part: with two values or more, and of words at most `most`."""
    if not names:
        return []
    kinds = {n: dtypes.normal(table.schema.field(n).type, n) for n in names}
    thin = 0 if table.rows is None else max(table.rows // DECIDING_ROWS, 0).bit_length()
    task = partial(_seen, kinds, most, thin)
    found = fold(table, task, partial(_merged, most), columns=list(kinds))
    domains = {n: s.domain(kinds[n]) for n, s in (found or {}).items()}
    return [Channel(n, d, d) for n, d in domains.items() if d is not None and d.size > 1]


@dataclass(frozen=True, eq=False)
class _Seen:
    """The values of a column: every word (None where they are too many), or some of the numbers."""

    nulls: bool
    words: frozenset[Any] | None
    numbers: np.ndarray | None

    def domain(self, kind: pa.DataType) -> Domain | None:
        if self.numbers is None:
            return Categories(kind, sorted(self.words), self.nulls) if self.words else None
        distinct = np.unique(self.numbers)
        if len(distinct) <= MOST_BINS:
            return Categories(kind, distinct.tolist(), self.nulls) if len(distinct) else None
        edges = np.unique(np.quantile(self.numbers, np.linspace(0, 1, MOST_BINS + 1), method="lower"))
        return Bins(kind, edges.tolist(), self.nulls)


def _seen(kinds: Mapping[str, pa.DataType], most: int, thin: int, batch: Batch) -> dict[str, _Seen]:
    rows = np.flatnonzero(hashed_address(batch.addresses) >> np.uint64(64 - thin) == 0) if thin else None
    found = {}
    for name, kind in kinds.items():
        array = batch.column(name)
        if dtypes.is_discrete(kind):
            words = set(pc.unique(array).to_pylist()) - {None}
            found[name] = _Seen(array.null_count > 0, frozenset(words) if len(words) <= most else None, None)
            continue
        some = array if rows is None else array.take(pa.array(rows))
        values = dtypes.carrier(some.drop_null())
        finite = values[np.isfinite(values)] if values.dtype.kind == "f" else values
        nulls = array.null_count > 0 or (
            values.dtype.kind == "f" and bool(np.isnan(dtypes.carrier(array)).any())
        )
        found[name] = _Seen(nulls, None, finite)
    return found


def _merged(most: int, a: dict[str, _Seen], b: dict[str, _Seen]) -> dict[str, _Seen]:
    return {n: _both(most, a[n], b[n]) for n in a}


def _both(most: int, a: _Seen, b: _Seen) -> _Seen:
    if a.numbers is not None and b.numbers is not None:
        return _Seen(a.nulls or b.nulls, None, np.concatenate([a.numbers, b.numbers]))
    words = None if a.words is None or b.words is None else a.words | b.words
    return _Seen(a.nulls or b.nulls, None if words is None or len(words) > most else words, None)
