"""Tests with the original whether values were perturbed as the sidecar says, and coins independent of all else.

Each published cell has a place in its declared law (`law`). In an honest release it is uniform and independent
of the original, of the record's other attributes, of the other rows and of its own row's number. Six families
of tests look whether it is so; each has a sixth of `LEVEL`, which its tests share equally (Bonferroni). Their
p-values hold for every shape of data (`evidence`). What the records cannot show follows from the same levels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, inf, prod
from typing import Any
from uuid import UUID

import numpy as np

from ppdm_cli.arrays import Floats
from ppdm_cli.attacks import evidence
from ppdm_cli.attacks.attacked_attribute import Rows, Target
from ppdm_cli.attacks.law import Law
from ppdm_cli.channels import Channel, Matrix
from ppdm_cli.stats import binomial_at_least, binomial_p, clopper_pearson

LEVEL = 1e-4
"""The probability that an honest release is rejected, over all tests together."""
TESTED = {
    "record": "the number kept in a record",
    "pairs": "two attributes of a record",
    "values": "records of one true value",
    "place": "stretches of the file",
    "rows": "two rows of the file",
}
OF_RECIPES = {"together": "the cells of a record that show their value", "recipes": "what each record shows"}
"""The same of releases with several recipes."""
"""The families of tests besides that of the attributes' own laws, and what each looks at."""
_FAMILY = LEVEL / (len(TESTED) + 1)
_BLOCKS = 1 << 10
"""The most blocks into which the rows are divided; stretches consist of them."""
_WINDOW = 1 << 20
"""The number of first rows in which coins are compared at every distance; neighbours are compared in all."""


@dataclass
class State:
    """What was counted of some rows in a run."""

    sums: dict[str, list[np.ndarray]]
    lagged: np.ndarray
    """For attributes a and b the sum over rows of the place of b in the next row minus a, on the circle."""
    first: np.ndarray
    last: np.ndarray
    window: list[np.ndarray]

    def __add__(self, after: State) -> State:
        sums = merged(self.sums, after.sums)
        lagged = self.lagged + after.lagged
        if len(self.last) and len(after.first):
            lagged = lagged + self.last.conj().T @ after.first
        first = self.first if len(self.first) else after.first
        last = after.last if len(after.last) else self.last
        return State(sums, lagged, first, last, [*self.window, *after.window])


class Audit:
    """The audit of a release of `records` rows, as a fold."""

    def __init__(self, targets: Sequence[Target], records: int, release: UUID, label: Channel | None) -> None:
        self._targets, self._records = list(targets), records
        self._laws = [Law(t, release) for t in targets]
        self._kept = np.array([law.kept for law in self._laws])
        self._number = evidence.number_law(self._kept)
        """The law of the number kept, for every record alike."""
        self._label = label if label is not None and label.kept else None
        self._blocks = 1 << max(min(_BLOCKS, records // 16), 1).bit_length() - 1

    def counted(self, rows: Rows) -> State:
        """Return the counts of a batch."""
        d, n = len(self._targets), len(next(iter(rows.codes.values())))
        kept, coarse = np.empty((n, d), bool), np.empty((n, d), np.uint8)
        tables, stayed, beyond, around = [], [], [], []
        for j, (target, law) in enumerate(zip(self._targets, self._laws, strict=True)):
            places, outside = law.places(rows)
            kept[:, j], coarse[:, j] = places < law.kept, (places * 256).astype(np.uint8)
            true = rows.known[target.name].codes
            tables.append(_table(law.row(true), law.cell(places), law.rows, len(law.cells)))
            stayed.append(np.bincount(law.row(true)[places < law.stays[true]], minlength=law.rows))
            beyond.append(outside)
            shown = target.matrix.around(true, rows.codes[target.name])
            around.append(np.count_nonzero(shown) if target.channel.noise is None else 0)
        number = kept.sum(axis=1)
        block = np.arange(rows.first_row, rows.first_row + n) * self._blocks // max(self._records, 1)
        groups = [
            (law.row(rows.known[t.name].codes), law.rows)
            for t, law in zip(self._targets, self._laws, strict=True)
        ]
        if self._label is not None:
            assert rows.labels is not None
            groups.append((rows.labels.astype(np.int64), self._label.domain.size))
        numbers = [_table(g, number, size, d + 1) for g, size in [*groups, (block, self._blocks)]]
        by_block = np.stack([np.bincount(block, kept[:, j], self._blocks) for j in range(d)], axis=1)
        circle = evidence.CIRCLE[coarse]
        window = coarse[: max(0, _WINDOW - rows.first_row)]
        both = kept.astype(np.float64)
        sums = {
            "tables": tables,
            "stayed": stayed,
            "outside": [np.array(beyond), np.array(around)],
            "numbers": numbers,
            "blocks": [by_block],
            "pairs": [both.T @ both, circle.conj().T @ circle, circle.T @ circle],
        }
        return State(
            sums,
            circle[:-1].conj().T @ circle[1:],
            circle[:1].copy(),
            circle[-1:].copy(),
            [window] if len(window) else [],
        )

    def verdicts(self, state: State) -> tuple[list[dict[str, Any]], list[dict[str, Any]], dict[str, Any]]:
        """Return a row an attribute, a row a family of further tests, and what they could not have seen."""
        attributes = self.laws(state)
        *values, place = state.sums["numbers"]
        found = [
            self._record(place.sum(axis=0)),
            self._pairs(state),
            self._values(values),
            self._place(place, state.sums["blocks"][0]),
            self._rows(state),
        ]
        return attributes, [f for f in found if f["tests"]], self._unseen(attributes, state)

    # -- the families

    def laws(self, state: State) -> list[dict[str, Any]]:
        """Return a row an attribute: its transitions against its own law."""
        return [self._attribute(j, state) for j in range(len(self._targets))]

    def _attribute(self, j: int, state: State) -> dict[str, Any]:
        target, law, n = self._targets[j], self._laws[j], self._records
        table, stayed = state.sums["tables"][j], state.sums["stayed"][j]
        beyond, around = (int(counts[j]) for counts in state.sums["outside"])
        level = _FAMILY / len(self._targets)
        transitions = 0.0 if beyond else evidence.table_p(table, law.cells)
        row = {"attribute": target.name, "records": n}
        if target.channel.noise is not None:
            p = transitions
            row |= {"declared_sd": target.channel.noise.noise_variance**0.5}
        else:
            each = zip(stayed.tolist(), table.sum(axis=1).tolist(), law.staying.tolist(), strict=True)
            codes_p = min(1.0, len(stayed) * min(binomial_p(k, m, s) for k, m, s in each))
            p = min(1.0, 2 * min(transitions, codes_p))
            row |= {"codes_p": codes_p}
        declared = _declared(target.matrix)
        if declared is not None:
            chance, odds = declared
            low, high = clopper_pearson(around, n)
            staying_p = binomial_p(around, n, chance)
            p = min(1.0, 3 * min(transitions, staying_p, codes_p))
            row |= {
                "declared_gamma": target.matrix.amplification,
                "gamma": _gamma(around / n, odds),
                "gamma_low": _gamma(low, odds),
                "gamma_high": _gamma(high, odds),
                "gamma_unseen": _gamma(evidence.betraying(n, chance, level / 6), odds),
                "stayed": around / n,
                "stayed_declared": chance,
                "stayed_p": staying_p,
            }
        return row | {"transitions_p": transitions, "p": p, "honest": p >= level}

    def _scores(self) -> list[Floats]:
        """Return the scores by which the number kept is tested: all kept, mean too large or small, spread."""
        numbers = np.arange(len(self._number), dtype=np.float64)
        spread = (numbers - self._number @ numbers) ** 2
        return [(numbers == numbers[-1]).astype(np.float64), numbers, -numbers, spread, -spread]

    def _record(self, counts: np.ndarray) -> dict[str, Any]:
        whole = binomial_at_least(int(counts[-1]), int(counts.sum()), float(self._number[-1]))
        others = [float(evidence.sums_p(counts[None], self._number, s)[0]) for s in self._scores()[1:]]
        return _family("record", {"": np.array([whole, *others])})

    def _values(self, numbers: Sequence[np.ndarray]) -> dict[str, Any]:
        names = [t.name for t in self._targets] + ([self._label.name] if self._label else [])
        return _family("values", {n: self._numbers_p(t) for n, t in zip(names, numbers, strict=True)})

    def _numbers_p(self, counts: np.ndarray) -> np.ndarray:
        return np.stack([evidence.sums_p(counts, self._number, s) for s in self._scores()])

    def _place(self, numbers: np.ndarray, by_block: np.ndarray) -> dict[str, Any]:
        sizes = numbers.sum(axis=1)
        found = {"": [self._numbers_p(part) for part in evidence.stretches(numbers)]}
        for j, target in enumerate(self._targets):
            counts = np.stack([sizes - by_block[:, j], by_block[:, j]], axis=1)
            law = np.array([1 - self._kept[j], self._kept[j]])
            found[target.name] = [
                evidence.sums_p(part, law, np.array([-sign, sign]))
                for part in evidence.stretches(counts)
                for sign in (1.0, -1.0)
            ]
        return _family(
            "place", {n: np.concatenate([np.ones(0), *map(np.ravel, ps)]) for n, ps in found.items()}
        )

    def _pairs(self, state: State) -> dict[str, Any]:
        both, apart, together = state.sums["pairs"]
        n, found = self._records, {}
        for a in range(len(self._targets)):
            for b in range(a + 1, len(self._targets)):
                p, q, k = self._kept[a], self._kept[b], both[a, b]
                counts = np.array([[n - both[a, a] - both[b, b] + k, both[b, b] - k, both[a, a] - k, k]])
                law = np.array([(1 - p) * (1 - q), (1 - p) * q, p * (1 - q), p * q])
                product = np.array([p * q, -p * (1 - q), -(1 - p) * q, (1 - p) * (1 - q)])
                found[f"{self._targets[a].name}, {self._targets[b].name}"] = np.array(
                    [
                        float(evidence.sums_p(counts, law, product)[0]),
                        float(evidence.sums_p(counts, law, -product)[0]),
                        *evidence.circle_p(np.array([apart[a, b], together[a, b]]), n),
                    ]
                )
        return _family("pairs", found)

    def _rows(self, state: State) -> dict[str, Any]:
        names = [t.name for t in self._targets]
        window = np.concatenate(state.window)
        next_p = evidence.circle_p(state.lagged, self._records - 1)
        found = {}
        for j, name in enumerate(names):
            found[name] = np.concatenate([next_p[:, j], evidence.lags_p(window[:, j])])
        return _family("rows", found)

    # -- what they could not have seen

    def _unseen(self, attributes: Sequence[dict[str, Any]], state: State) -> dict[str, Any]:
        """Return the largest share of unperturbed records, and factor on all gammas, that stay unseen."""
        n, level = self._records, _FAMILY / len(self._scores())
        # a code that stays more often than others counts as kept in part only
        tables = zip(self._laws, state.sums["tables"], strict=True)
        shown = prod(
            float(law.kept / np.maximum(law.staying, law.kept) @ t.sum(axis=1)) / n for law, t in tables
        )
        chance = float(self._number[-1])
        share = (evidence.betraying(n, chance, level) - chance) / max(shown - chance, 1e-300)
        own = [r["gamma_unseen"] / r["declared_gamma"] for r in attributes if "gamma_unseen" in r]
        return {
            "records": n,
            "power": evidence.POWER,
            "unperturbed": min(share, 1.0),
            "gamma_factor": min([self._factor(level), *own]),
        }

    def _factor(self, level: float) -> float:
        def seen(factor: float) -> bool:
            kept = self._kept.copy()
            for j, target in enumerate(self._targets):
                if (declared := _declared(target.matrix)) is not None:
                    chance, odds = declared
                    gamma = factor * target.matrix.amplification
                    kept[j] *= gamma / (gamma + odds) / chance
            return evidence.betrayed(self._records, self._number, evidence.number_law(kept), level)

        low, high = 0.0, 30.0
        if not seen(exp(high)):
            return inf
        for _ in range(50):
            middle = (low + high) / 2
            low, high = (low, middle) if seen(exp(middle)) else (middle, high)
        return exp(high)


def _family(name: str, found: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Return the least p-value of a family, by which all its tests are judged, and where it was."""
    least = {n: float(p.min()) for n, p in found.items() if p.size}
    where, tests = min(least, key=lambda n: least[n], default=""), sum(p.size for p in found.values())
    p = min(1.0, tests * least.get(where, 1.0))
    return {"test": name, "tests": tests, "where": where, "p": p, "honest": p >= _FAMILY}


def _table(rows: np.ndarray, cells: np.ndarray, height: int, width: int) -> np.ndarray:
    return np.bincount(rows * width + cells, minlength=height * width).reshape(height, width)


def _declared(matrix: Matrix) -> tuple[float, float] | None:
    """Return the chance of what gamma is for, and o with chance = gamma / (gamma + o), if all have one."""
    if matrix.own_outputs is None:
        return None
    own, others = matrix.own_outputs
    gamma, odds = matrix.amplification, others / own
    return gamma / (gamma + odds), odds


def _gamma(share: float, odds: float) -> float:
    """Return the gamma that corresponds to a share of values that stayed."""
    return inf if share >= 1 else share * odds / (1 - share)


class Agreement:
    """Whether release and original look as if their rows belonged together, as a fold."""

    def __init__(self, targets: Sequence[Target]) -> None:
        self._targets = [t for t in targets if t.channel.noise is None]

    def counted(self, rows: Rows) -> dict[str, list[np.ndarray]]:
        """Return how many values were published as they were, and how many records each code has."""
        found = {}
        for target in self._targets:
            original = rows.known[target.name].codes
            stayed = np.count_nonzero(rows.codes[target.name] == target.matrix.unchanged[original])
            found[target.name] = [np.array(stayed), np.bincount(original, minlength=target.matrix.inputs)]
        return found

    def pairs(self, states: Mapping[str, list[np.ndarray]], counts: Mapping[str, Floats]) -> bool:
        """Return whether the rows pair, or there are too few to tell.

        Rows that do not pair agree as often as chance has it; that much is only told of a release in which
        many more were to agree.
        """
        seen = wanted = variance = 0.0
        for target in self._targets:
            stayed, originals = states[target.name]
            published = counts[target.name] / max(counts[target.name].sum(), 1.0)
            n, alone = max(float(originals.sum()), 1.0), float(originals @ published[target.matrix.unchanged])
            seen += float(stayed) - alone
            wanted += float(originals @ target.matrix.stays()) - alone
            variance += alone * (1 - alone / n)
        spread = max(variance, 1.0) ** 0.5
        return wanted < 8 * spread or seen > 4 * spread


def merged(a: Mapping[str, list[np.ndarray]], b: Mapping[str, list[np.ndarray]]) -> dict[str, list[np.ndarray]]:
    """Add up two states, array by array."""
    return {n: [x + y for x, y in zip(a[n], b[n], strict=True)] for n in a}
