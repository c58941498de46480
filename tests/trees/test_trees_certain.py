"""Pruning by certainty: what a subtree saves must stand out from how the tables without a fold differ."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ppdm_cli.trees import Options
from ppdm_cli.trees.growing import grow
from ppdm_cli.trees.pruning import landed, prune
from ppdm_cli.trees.records import CodedColumn, CodedRecords
from ppdm_cli.trees.tree import Feature


def table(saved: float) -> np.ndarray:
    """(classes, cells): 1,000 records; the split between the cells saves so many errors."""
    return np.array([[400.0, 250.0 - saved / 2], [100.0, 250.0 + saved / 2]])


def leaves(folded: list[float], saved: float = 40.0, classes: int = 2) -> int:
    """How many leaves stay of two, where the tables without a fold save `folded`; most classes are empty."""
    codes = np.array([0, 1], np.uint8)
    column = CodedColumn(Feature("x", "double", True), codes, 2, np.array([0.0, 1.0]), False)
    cells = CodedRecords((column,), "y", "string", tuple("abcdefgh"[:classes]), np.zeros(2, np.intp))
    nobody = np.zeros((classes - 2, 2))
    tables = np.stack([np.vstack([table(s), nobody]) for s in (saved, *folded)])
    both = replace(column, codes=np.tile(codes, classes))
    labels = np.repeat(np.arange(classes), 2)
    records = replace(cells, columns=(both,), classes=labels, weights=tables[0].ravel())
    grown = grow(records, Options("gain", 2, None, 0.25, False, False), False)
    assert grown.feature[0] == 0
    sums = landed(cells, grown, tables.reshape(-1, 2).T)
    prune(grown, sums.reshape(-1, *tables.shape[:2]))
    return 2 if grown.feature[0] == 0 else 1


@pytest.mark.parametrize(("spread", "kept"), [(0, 2), (40, 2), (44, 2), (48, 1), (80, 1)])
def test_a_subtree_must_save_half_of_its_standard_error(spread: float, kept: int) -> None:
    """Of four savings 40 +- s the jackknife's standard error is s sqrt(3), half of it is 40 at s = 46.2."""
    assert leaves([40 + spread, 40 - spread, 40 + spread, 40 - spread]) == kept


@pytest.mark.parametrize(("saved", "classes", "kept"), [(0.05, 2, 1), (0.2, 2, 2), (0.02, 8, 1), (0.05, 8, 2)])
def test_a_leaf_must_save_a_share_of_the_records_less_of_it_with_many_classes(
    saved: float, classes: int, kept: int
) -> None:
    assert leaves([saved] * 4, saved, classes) == kept
