"""The promise of records in rounds, by every release of two small records and the samplers' own integers."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import exp, log
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from ppdm_cli import perturb
from ppdm_cli.domain import Categories
from ppdm_cli.joint import Tells
from ppdm_cli.perturbing.recipe_choice import RecipeMaker, Rounds
from ppdm_cli.perturbing.record_design import ChooseBy, Round
from ppdm_cli.perturbing.substitution import UNDECIDED, Lot, Withholder
from ppdm_cli.releases import RecipeInUse, recipes_in_use
from ppdm_cli.sidecar import COLUMN, Attribute
from tests.chances import LEVEL, chi_square
from tests.channels.test_box import enumerated
from tests.perturbing.test_rounds import ASKED, DOMAINS, rounds_of, table

NAMES = "abc"
DOMAIN = Categories(pa.string(), ["0", "1"], False)
KNOWN = {n: Attribute(name=n, role="perturbed", domain_from="declared", **DOMAIN.written()) for n in NAMES}
RECORDS = list(product((0, 1), repeat=3))
PUBLISHER = RecipeMaker(dict.fromkeys(NAMES, (DOMAIN, False)), None, log(3) + 1e-7)
ROUNDS = Rounds(PUBLISHER, (Round(1, 1, ChooseBy.EVERY), Round(2, 2, ChooseBy.BEST, 2)))
SHARE = [s / sum(ROUNDS.shares) for s in ROUNDS.shares]
See = Callable[[Any, Any], Any]
"""What the second round's recipes are chosen by: of what the first's record published, and both records."""


def answers(recipe: RecipeInUse) -> np.ndarray:
    """P(answer | record), by all of the sampler's draws."""
    [channel] = recipe.channels
    box: Any = channel.matrix
    places = [NAMES.index(n) for n in channel.attributes]
    at = [int(np.ravel_multi_index([r[p] for p in places], [2] * len(places))) for r in RECORDS]
    law: np.ndarray = enumerated(box)[:, at] / box.range
    return law


def dealt_with(recipes: list[RecipeInUse]) -> list[tuple[RecipeInUse, float]]:
    total = sum(d.weight for d in recipes)
    return [(d, d.weight / total) for d in recipes]


class Whole:
    """All releases of two records, by a choice that is arbitrary in what it sees."""

    def __init__(self, see: See) -> None:
        self._see, self._whims, self._rng = see, dict[Any, list[float]](), np.random.default_rng(3)
        self.first = dealt_with(recipes_in_use(ROUNDS.first(), [*KNOWN.values()]))

    def second(self, published: Any, records: Any) -> list[tuple[RecipeInUse, float]]:
        whim = self._whims.setdefault(self._see(published, records), self._rng.random(3).tolist())
        tells = Tells(dict(zip(NAMES, whim, strict=True)), {})
        every = recipes_in_use(ROUNDS.further(ROUNDS.first(), tells), [*KNOWN.values()])
        return dealt_with([d for d in every if d.round == 2])

    def law(self) -> np.ndarray:
        """P(release | both records), (releases, records, records)."""
        found = []
        for own, share in ((self.first, SHARE[0]), (self.second((), None), SHARE[1])):  # both in one round
            for (one, p), (other, q) in product(own, own):
                both = product(answers(one), answers(other))
                found += [share**2 * p * q * np.multiply.outer(a, b) for a, b in both]
        for one, p in self.first:  # one in each
            for number, a in enumerate(answers(one)):
                cells = SHARE[0] * SHARE[1] * p * self._after((one.number, number), a)
                found += [*cells, *(c.T for c in cells)]
        return np.array(found)

    def _after(self, published: Any, chances: np.ndarray) -> np.ndarray:
        cells: dict[Any, np.ndarray] = {}
        for x, y in np.ndindex(len(RECORDS), len(RECORDS)):
            for other, q in self.second(published, (RECORDS[x], RECORDS[y])):
                for answer, b in enumerate(answers(other)):
                    cell = cells.setdefault((other.attributes, answer), np.zeros((len(RECORDS), len(RECORDS))))
                    cell[x, y] += chances[x] * q * b[y]
        return np.array(list(cells.values()))


def amplification(see: See) -> float:
    whole = Whole(see).law()
    np.testing.assert_allclose(whole.sum(axis=0), 1)
    worst = 1.0
    for axis in (1, 2):
        least, most = whole.min(axis=axis), whole.max(axis=axis)
        worst = max(worst, float((most[most > 0] / np.maximum(least[most > 0], 1e-300)).max()))
    return worst


def test_the_whole_release_keeps_its_promise_whatever_a_later_round_makes_of_what_was_published() -> None:
    found = amplification(lambda published, _: published)
    assert found == pytest.approx(3, abs=1e-4) and found <= exp(PUBLISHER.epsilon)


def test_a_choice_that_sees_the_records_own_value_or_originals_is_caught() -> None:
    assert amplification(lambda published, both: (published, both and both[1][0])) > 4
    assert amplification(lambda _, both: both and both[0]) > 4


@pytest.mark.parametrize("rounds", [2, 3])
@pytest.mark.parametrize("epsilon", [1, 2, 4, 8])
@pytest.mark.parametrize("inside", [False, True])
def test_who_chose_a_design_is_published_as_it_was_chosen_by(
    rounds: int, epsilon: float, inside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would have answered twice, and the first answer would be in the design: epsilon once more."""
    seen: list[tuple[pl.Series, pl.DataFrame]] = []
    real = Withholder.published

    def heard(self: Withholder, codes: Any, batch: Any, addresses: Any) -> dict[str, pa.Array]:
        columns = real(self, codes, batch, addresses)
        seen.append((pl.Series(addresses), pl.DataFrame(pa.table(columns))))
        return columns

    monkeypatch.setattr(Withholder, "published", heard)
    asked = ASKED | {"rounds": rounds, "record_epsilon": epsilon, "seed": 5, "keep_order": True}
    if inside:
        asked |= {"keep": [], "attributes": DOMAINS | {"ill": {"domain": "yes|no"}}}
    made = perturb(table(3000), **asked)
    *choosing, (rows, final) = seen
    assert len(choosing) == rounds - 1 and all(r.equals(rows) for r, _ in choosing)
    assert made.frame.select(final.columns).equals(final.cast(dict(made.frame.select(final.columns).schema)))
    own = rounds_of(made)
    for number, (_, before) in enumerate(choosing, 1):
        decided = before[COLUMN].to_numpy() != UNDECIDED
        assert (decided == (own <= number)).all()
        names = [c for c in final.columns if c in before.columns]
        # the types may widen as later rounds reach further
        assert before.filter(decided)[names].cast(final[names].schema).equals(final.filter(decided)[names])


def test_a_draw_is_of_the_ratios_of_weights_and_a_scaled_one_the_same() -> None:
    addresses = np.arange(4000, dtype=np.uint64)
    for weights in ([3] * 5, [1, 2, 4]):
        one, scaled = Lot(b"k" * 32, weights).drawn(addresses), Lot(b"k" * 32, [21 * w for w in weights])
        assert (one == scaled.drawn(addresses)).all()
        assert chi_square(np.bincount(one), np.array(weights, float)) > LEVEL
