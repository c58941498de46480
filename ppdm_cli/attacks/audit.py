"""Audits for `attack`: tests with the original whether values were perturbed as the sidecar says, and whether
the random numbers depend on anything else.

Each published cell has a place in its declared law, and so have the coin of several cells and the recipe of a
record (`positions`). In an honest release positions are uniform and independent of the original, of each
other, of the other rows and of their own row's number. Families of tests look whether they are; each has an
equal share of `LEVEL`, which its tests share equally (Bonferroni). The p-values hold for every shape of data
(`evidence`). What the records cannot show follows from the same levels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from operator import itemgetter
from typing import Self

import numpy as np

from ppdm_cli.arrays import Floats, code_counts, joined
from ppdm_cli.attacks import evidence
from ppdm_cli.attacks.adversary import Adversary, Records
from ppdm_cli.attacks.positions import PlacedRecords, Positions
from ppdm_cli.attacks.report import Attacked, CoinVerdict, LawVerdict, Unseen
from ppdm_cli.attacks.run import Attack
from ppdm_cli.errors import listed
from ppdm_cli.joint import LARGEST_DOMAIN, kept_channels
from ppdm_cli.repeatable import hashed

LEVEL = 1e-4
"""The probability that an honest release is rejected, over all tests together."""
TESTED = {
    "record": "how much is kept in a record",
    "pairs": "two cells of a record",
    "values": "records of one original value",
    "others": "records of two original values",
    "place": "stretches of the file",
    "rows": "two rows of the file, and periods",
    "recipes": "which recipe a record has",
}
"""The families of tests in addition to that of the attributes' own laws, with what each looks at."""
_BLOCKS = 1 << 10
"""The most blocks into which the rows are divided; stretches consist of them."""
_OF_RECIPES = 1 << 6
"""The blocks in which recipes are counted."""
_WINDOW = 1 << 20
"""The number of first rows that are compared at every distance; neighbours are compared in all."""
CELLS = 16
"""The cells in which positions are counted by two original values."""
MOST_PAIRS = 1 << 7
"""The most pairs of attributes whose original values are looked at together; of more, a sample."""
_MOST_GROUPS, _LARGEST = 32, 1 << 22
"""The most groups of an attribute's values in such pairs, and the most counts of all of them."""
_AT_ONCE = 1 << 12
"""The pairs of cells that are tested at a time, and the rows whose products are added up."""
_ON_CIRCLE = np.array(
    [[p.real, p.imag, p != 0, kept] for kept in (0, 1) for p in evidence.CIRCLE], np.float32
).view(np.complex128)
"""The cosine and sine of each place, 1 if a cell is shown and 1 if it is kept, as one item: fast to take."""


Tests = list[tuple[str, np.ndarray]]
"""P-values, with the subject of each."""


@dataclass
class AuditCounts:
    """The counts of some rows in a run."""

    sums: dict[str, list[np.ndarray]]
    lagged: np.ndarray
    """The sum over rows of the place of column b in the next row minus that of column a, on the circle."""
    first: np.ndarray
    last: np.ndarray
    window: list[np.ndarray]

    def __add__(self, after: AuditCounts) -> AuditCounts:
        sums, lagged = merged(self.sums, after.sums), self.lagged + after.lagged
        if len(self.last) and len(after.first):
            lagged = lagged + _lagged(np.concatenate([self.last, after.first]))
        first = self.first if len(self.first) else after.first
        last = after.last if len(after.last) else self.last
        return AuditCounts(sums, lagged, first, last, [*self.window, *after.window])


def _lagged(places: np.ndarray) -> np.ndarray:
    """Return sums on the circle over each row and the next, with the number of their cells."""
    published = places != evidence.ABSENT
    (cc, cs, *_), (sc, ss, *_), _, (*_, numbers) = _products(places, published, 1)
    return np.stack([cc + ss + 1j * (cs - sc), numbers])


class Audit(Attack):
    """The audit of a release of `records` rows."""

    name = "audit"
    about = "Tests whether the release was perturbed as its sidecar says."
    needs_original = needs_every_record = True

    def __init__(self, positions: Positions, records: int, seed: int) -> None:
        self.positions, self._records, self._seed = positions, records, seed
        self._columns = len(positions.names)
        self._blocks = 1 << max(min(_BLOCKS, records // 16), 1).bit_length() - 1
        pairs = list(combinations(range(len(positions.groups)), 2))
        self._all_pairs = len(pairs)
        if len(pairs) > MOST_PAIRS:
            some = np.random.default_rng(seed).choice(len(pairs), MOST_PAIRS, replace=False)
            pairs = [pairs[i] for i in np.sort(some)]
        self._pairs = pairs
        each = positions.numbers.law.size + 3 * CELLS
        most = int(np.clip((_LARGEST / (max(len(pairs), 1) * each)) ** 0.5, 4, _MOST_GROUPS))
        self._coarse = [min(rows, most) for _, rows, _ in positions.groups]
        self.share = LEVEL / (len(TESTED) + (len(positions.recipes) > 0))
        """The level of each family; the attributes' own laws are one more, recipes one less without any."""

    @classmethod
    def learn(cls, adversary: Adversary) -> Self:
        sidecar, targets = adversary.sidecar, list(adversary.targets.values())
        names = [a.name for a in sidecar.kept]
        kept = kept_channels(adversary.table, names, LARGEST_DOMAIN)
        adversary.kept += tuple(kept)
        if left := sorted({*names} - {c.name for c in kept}):
            adversary.remarks.append(
                f"The audit leaves out {listed(left)}, because they have too many values or only one."
            )
        positions = Positions(targets, adversary.reader().strata, kept, sidecar.release)
        return cls(positions, adversary.records, int(hashed(sidecar.release)))

    def counted(self, records: Records) -> AuditCounts:
        return self.counts(self.positions.placed(records))

    def conclude(self, counted: object, done: Attacked) -> None:
        assert isinstance(counted, AuditCounts)
        done.audit, done.coins, done.unseen = self.verdicts(counted)

    def counts(self, placed: PlacedRecords) -> AuditCounts:
        """Return the counts of some records."""
        positions, n, d = self.positions, len(placed.kinds), self._columns
        coarse = _places(placed.own)
        present = coarse != evidence.ABSENT
        row = placed.first_row + np.arange(n)
        block = row * self._blocks // max(self._records, 1)
        ends = np.searchsorted(block, np.arange(self._blocks), side="right")
        kept = placed.own < positions.kept
        by_block = [[_by_run(w[:, j], ends) for w in (present, kept)] for j in range(d)]
        numbers = [(g, rows) for g, (_, rows, _) in zip(placed.groups, positions.groups, strict=True)]
        of_recipes = []
        if many := len(positions.recipes):
            of_block = row * _OF_RECIPES // max(self._records, 1)
            of_recipes = [_table(g, placed.recipes, k, many) for g, k in [*numbers, (of_block, _OF_RECIPES)]]
            numbers.append((placed.recipes, many))
        level, levels = self._levels(placed)
        exposed = np.bincount(placed.kinds, placed.exposed, len(positions.numbers.law))
        sums = {
            "laws": [self._transitions(j, placed) for j in range(len(positions.tables))],
            "extra": placed.extra,
            "numbers": [_table(g, level, k, levels) for g, k in [*numbers, (block, self._blocks)]],
            "others": list(self._by_two(placed, level, levels)),
            "recipes": of_recipes,
            "blocks": [np.array(by_block)],
            "pairs": _two_columns(_places(placed.joint), placed.joint < positions.kept),
            "exposed": [exposed],
        }
        window = coarse[: max(0, _WINDOW - placed.first_row)]
        return AuditCounts(
            sums, _lagged(coarse), coarse[:1].copy(), coarse[-1:].copy(), [window] if len(window) else []
        )

    def _levels(self, placed: PlacedRecords) -> tuple[np.ndarray, int]:
        kinds, numbers = self.positions.numbers.law.shape
        return joined([placed.kinds, placed.numbers], [kinds, numbers]), kinds * numbers

    def _transitions(self, column: int, placed: PlacedRecords) -> np.ndarray:
        rows, law = self.positions.tables[column]
        some = _shown(positions := placed.own[:, column])
        moved = (positions[some] - law[0]) * ((len(law) - 1) / (1 - law[0]))
        cells = np.clip(np.floor(moved) + 1, 0, len(law) - 1).astype(np.uint8)
        return _table(placed.rows[column][some], cells, rows, len(law))

    def _by_two(self, placed: PlacedRecords, level: np.ndarray, levels: int) -> Iterator[np.ndarray]:
        """Yield the levels, positions and recipes of the records of each pair of original values."""
        groups = [
            g if rows == few else g.astype(np.uint32) * few // rows
            for g, few, (_, rows, _) in zip(placed.groups, self._coarse, self.positions.groups, strict=True)
        ]
        published = {}
        for column in {c for _, _, c in self.positions.groups if c is not None}:
            some = _shown(positions := placed.own[:, column])
            published[column] = some, (positions[some] * CELLS).astype(np.uint8)
        for a, b in self._pairs:
            size = self._coarse[a] * self._coarse[b]
            both = joined([groups[a], groups[b]], [self._coarse[a], self._coarse[b]])
            yield _table(both, level, size, levels)
            for column in self._columns_of(a, b):
                some, cells = published[column]
                yield _table(both[some], cells, size, CELLS)
            if many := len(self.positions.recipes):
                yield _table(both, placed.recipes * min(many, CELLS) // many, size, min(many, CELLS))

    def _columns_of(self, a: int, b: int) -> list[int]:
        columns = [self.positions.groups[g][2] for g in (a, b)]
        return sorted({c for c in columns if c is not None})

    def verdicts(self, state: AuditCounts) -> tuple[list[LawVerdict], list[CoinVerdict], Unseen]:
        """Return a row for each attribute and each family of tests, and the deviations that they could miss."""
        recipes = len(self.positions.recipes) > 0
        *values, place = state.sums["numbers"]
        own = [n for n, _, _ in self.positions.groups]
        names = own + ["the recipe"] * recipes
        found: dict[str, Tests] = {
            "record": [("", self._record(place.sum(axis=0)))],
            "pairs": self._two_cells(state.sums["pairs"]),
            "values": [(n, self._numbers_p(t)) for n, t in zip(names, values, strict=True)],
            "others": [],
            "place": self._stretches(place, state.sums["blocks"][0]),
            "rows": self._rows(state),
        }
        found["recipes"] = [
            (n, np.array([evidence.table_p(t, self.positions.recipes)]))
            for n, t in zip([*own, "the place in the file"], state.sums["recipes"], strict=False)
        ]
        self._two_values(state.sums["others"], found["others"], found["recipes"])
        families = [self._family(name, tests) for name, tests in found.items()]
        return self.laws(state), [f for f in families if f.tests], self._unseen(state)

    # -- the families

    def laws(self, state: AuditCounts) -> list[LawVerdict]:
        """Return a row for each attribute: its transitions compared with its own law."""
        level, tables = self.share / len(self.positions.tables), enumerate(state.sums["laws"])
        return [self.positions.verdict(j, table, state.sums["extra"], level) for j, table in tables]

    def _record(self, counts: np.ndarray) -> Floats:
        numbers = self.positions.numbers
        whole = numbers.whole_p(counts.reshape(numbers.law.shape), self._seed)
        return np.array([whole, *self._numbers_p(counts[None])])

    def _numbers_p(self, counts: np.ndarray) -> Floats:
        return self.positions.numbers.p(counts)

    def _levels_p(self, counts: np.ndarray) -> Floats:
        """Return p-values of rows of levels, and for each kind one of all rows together."""
        law = self.positions.numbers.law
        by_kind = counts.reshape(len(counts), *law.shape)
        each = [evidence.table_p(by_kind[:, k, one > 0], one[one > 0]) for k, one in enumerate(law)]
        return np.array([*each, *self._numbers_p(counts)])

    def _stretches(self, numbers: np.ndarray, by_block: np.ndarray) -> Tests:
        found = [("", [self._numbers_p(part) for part in evidence.stretches(numbers)])]
        for name, kept, (present, own) in zip(self.positions.names, self.positions.kept, by_block, strict=True):
            law = np.array([[1 - kept, kept]])
            parts = evidence.stretches(np.stack([present - own, own], axis=1))
            found.append((name, [evidence.tilted_p(part, law, np.array([[0.0, 1.0]])) for part in parts]))
        return [(n, np.concatenate([np.ones(0), *ps])) for n, ps in found]

    def _two_cells(self, sums: Sequence[np.ndarray]) -> Tests:
        n, kept, both, apart, together = sums
        a, b = np.triu_indices(self._columns, 1)
        k, some = both[a, b], n[a, b]
        counts = np.stack([some - kept[a, b] - kept[b, a] + k, kept[b, a] - k, kept[a, b] - k, k], axis=1)
        p, q = self.positions.kept[a], self.positions.kept[b]
        laws = np.stack([(1 - p) * (1 - q), (1 - p) * q, p * (1 - q), p * q], axis=1)
        scores = np.stack([p * q, -p * (1 - q), -(1 - p) * q, (1 - p) * (1 - q)], axis=1)
        parts = [slice(i, i + _AT_ONCE) for i in range(0, len(a), _AT_ONCE)]
        kept_p = [evidence.tilted_p(counts[w], laws[w], scores[w]) for w in parts]
        circles = [evidence.circle_p(c[a, b], some) for c in (apart, together)]
        found = np.stack([np.concatenate([np.ones(0), *kept_p]), *circles], axis=1)
        names = self.positions.names
        return [(f"{names[i]}, {names[j]}", p) for i, j, p in zip(a, b, found, strict=True)]

    def _rows(self, state: AuditCounts) -> Tests:
        window, (sums, numbers) = np.concatenate(state.window), state.lagged
        next_p = evidence.circle_p(sums, np.real(numbers))
        each = enumerate(self.positions.names)
        return [(n, np.concatenate([next_p[:, j], evidence.series_p(window[:, j])])) for j, n in each]

    def _two_values(self, tables: Sequence[np.ndarray], found: Tests, crossed: Tests) -> None:
        """Add the tests by two original values, of levels and cells to `found`, of recipes to `crossed`."""
        left, even = iter(tables), np.full(CELLS, 1 / CELLS)
        for a, b in self._pairs:
            name = f"{self.positions.groups[a][0]}, {self.positions.groups[b][0]}"
            tests = [self._levels_p(next(left))]
            for column in self._columns_of(a, b):
                table = next(left)
                own = 0 if self.positions.groups[a][2] == column else 1
                by_other = table.reshape(self._coarse[a], self._coarse[b], CELLS).sum(axis=own)
                tests.append(np.array([evidence.table_p(t, even) for t in (table, by_other)]))
            found.append((name, np.concatenate(tests)))
            if many := len(self.positions.recipes):
                group = np.arange(many) * min(many, CELLS) // many
                chances = np.bincount(group, self.positions.recipes).astype(np.float64)
                crossed.append((name, np.array([evidence.table_p(next(left), chances)])))

    def _family(self, name: str, found: Tests) -> CoinVerdict:
        """Return the least p-value of a family, by which all its tests are judged, and its place."""
        some = [(float(p.min()), n) for n, p in found if p.size]
        (least, where), tests = min(some, key=itemgetter(0), default=(1.0, "")), sum(p.size for _, p in found)
        p = min(1.0, tests * least)
        return CoinVerdict(name, tests, where, p, p >= self.share)

    # -- what they could not have seen

    def _unseen(self, state: AuditCounts) -> Unseen:
        """Return the largest share of unperturbed records, and factor on all gammas, that stay unseen."""
        n, level, numbers = self._records, self.share / 2, self.positions.numbers
        exposed = float(state.sums["exposed"][0].sum()) / max(n, 1)
        laws = [(r.gamma_unseen, r.declared_gamma) for r in self.laws(state)]
        factors = [
            unseen / declared for unseen, declared in laws if unseen is not None and declared is not None
        ]
        return Unseen(
            n,
            evidence.POWER,
            numbers.share_unseen(n, exposed, level),
            min([numbers.factor_unseen(n, level), *factors]),
            len(self._pairs),
            self._all_pairs,
        )


def _shown(positions: Floats) -> slice | np.ndarray:
    """Return where a column has positions."""
    absent = np.isnan(positions)
    return np.flatnonzero(~absent) if absent.any() else slice(None)


def _by_run(some: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Return how many rows are marked in each of the runs that end there."""
    return np.diff(np.append(0, np.cumsum(some))[ends], prepend=0)


def _products(places: np.ndarray, kept: np.ndarray, apart: int = 0) -> np.ndarray:
    """Return the sums of products of each row's and a later row's columns, (4, 4, columns, columns).

    The columns are cosines, sines, 1 where a cell is shown and 1 where it is kept, in parts that fit the cache.
    """
    rows, d = places.shape
    found = np.zeros((4 * d, 4 * d))
    for start in range(0, rows - apart, _AT_ONCE):
        part = slice(start, start + _AT_ONCE + apart)
        some = _ON_CIRCLE.take(places[part] + (kept[part] << np.uint16(8))).view(np.float32)
        found += some[: len(some) - apart].T @ some[apart:]
    return found.reshape(d, 4, d, 4).transpose(1, 3, 0, 2)


def _two_columns(places: np.ndarray, kept: np.ndarray) -> list[np.ndarray]:
    """Count for any two columns the records that show both, keep the first and show the second, and keep both.

    With them the sums of their positions on the circle, apart and together.
    """
    (cc, cs, *_), (sc, ss, *_), (*_, published, _), (*_, stayed, both) = _products(places, kept)
    apart, together = cc + ss + 1j * (cs - sc), cc - ss + 1j * (cs + sc)
    return [published, stayed, both, apart, together]


def _places(positions: Floats) -> np.ndarray:
    """Return the places of positions on the circle."""
    absent = np.isnan(positions)
    published = np.where(absent, 1.0, positions) if absent.any() else positions
    return (published * evidence.ABSENT).astype(np.uint8)


def _table(rows: np.ndarray, cells: np.ndarray, height: int, width: int) -> np.ndarray:
    return code_counts(joined([rows, cells], [height, width]), height * width).reshape(height, width)


def merged(a: dict[str, list[np.ndarray]], b: dict[str, list[np.ndarray]]) -> dict[str, list[np.ndarray]]:
    """Add up two states, array by array."""
    return {n: [x + y for x, y in zip(a[n], b[n], strict=True)] for n in a}
