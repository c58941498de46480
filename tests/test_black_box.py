"""What a test from outside can tell of two records is no more than was promised; more where a release is wrong.

The same at full size, with samplers wrong by 5 % in every composition: `python -m tests.experiments.black_box`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np
import pytest

from ppdm_cli.channels import Box, GammaDiagonal
from ppdm_cli.coins import Key
from ppdm_cli.perturbing import substitution
from tests.experiments import black_box
from tests.experiments.black_box import COMPOSITIONS, audited, drawn_at, publish

EACH = 40_000


@pytest.fixture(autouse=True)
def _one_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw by one key, and promise as by a fresh one: what passes once passes always."""
    fixed = Key.from_seed(7).secret
    monkeypatch.setattr(Key, "fresh", classmethod(lambda cls, origin="system": cls(fixed, origin)))


@pytest.mark.parametrize("name", COMPOSITIONS)
def test_no_tester_shows_more_than_was_promised(name: str) -> None:
    found, promised = audited(COMPOSITIONS[name], EACH // 4)
    assert max(found.values()) <= promised
    if "copies" not in name:  # whose outcomes are many
        assert max(found.values()) > 0.4 * promised, "the testers have power"


def test_the_guess_of_an_exact_release_comes_close_to_its_epsilon() -> None:
    (one, other), promised = publish(
        [(5, "n", 1.0, "no"), (5, None, 1.0, "no")], 4 * EACH, COMPOSITIONS["one attribute, with null"]
    )
    for test in black_box.TESTS.values():
        assert 0.93 * promised < test(one, other, promised) <= promised


@contextmanager
def null_as_it_is() -> Iterator[None]:
    """Publish a missing value as missing, whatever the coin says."""
    real = GammaDiagonal.replace

    def replace(self: Any, codes: Any, numbers: Any, out: Any) -> None:
        real(self, codes, numbers, out)
        out[codes == self.N - 1] = self.N - 1

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GammaDiagonal, "replace", replace)
        yield


@contextmanager
def recipe_by_value() -> Iterator[None]:
    """Let a value have a say in which recipe its record gets."""
    real = substitution.Withholder.published

    def published(self: Any, codes: Any, batch: Any, addresses: Any) -> Any:
        numbers = self.recipes(addresses)
        numbers[(codes["age"] > 2) & (numbers == 0)] = 1
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(substitution.Withholder, "recipes", lambda *_: numbers)
            return real(self, codes, batch, addresses)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(substitution.Withholder, "published", published)
        yield


@contextmanager
def class_as_it_is() -> Iterator[None]:
    """Publish the last attribute of a box unperturbed."""
    real = Box.drawn

    def drawn(self: Any, u: Any, codes: Any) -> Any:
        return [*real(self, u, codes)[:-1], np.asarray(codes[-1], np.int64)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Box, "drawn", drawn)
        yield


@contextmanager
def whole_budget_for_each() -> Iterator[None]:
    """Give every attribute what all of them were to share."""
    with drawn_at(160):
        yield


WRONG: dict[str, tuple[Callable[[], AbstractContextManager[None]], tuple[str, ...], int]] = {
    "gamma 5 % larger": (lambda: drawn_at(105), COMPOSITIONS["one attribute, with null"], 4 * EACH),
    "null as it is": (null_as_it_is, COMPOSITIONS["one attribute, with null"], EACH),
    "recipe by value": (recipe_by_value, COMPOSITIONS["recipes of a box"], EACH),
    "class as it is": (class_as_it_is, COMPOSITIONS["recipes with the class"], EACH),
    "class as it is, in rounds": (class_as_it_is, COMPOSITIONS["rounds with the class"], EACH),
    "whole budget for each": (whole_budget_for_each, COMPOSITIONS["every attribute"], EACH),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_release_made_wrong_is_caught(name: str) -> None:
    wrong, options, each = WRONG[name]
    with wrong():
        found, promised = audited(options, each)
    assert max(found.values()) > promised


def test_budget_that_forgets_a_copy_is_caught() -> None:
    found, promised = audited((*COMPOSITIONS["one attribute, with null"], "--copies", "2"), EACH)
    assert promised / 2 < max(found.values()) <= promised
