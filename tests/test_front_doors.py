"""The linter's contract on front doors finds an import past one."""

from __future__ import annotations

import pytest
from grimp import ImportGraph

from tests.front_doors import FrontDoors


@pytest.mark.parametrize(
    ("importer", "imported", "kept"),
    [
        ("p.attacks.order", "p.perturbing", True),
        ("p.attacks.order", "p.attacks.law", True),
        ("p.attacks.order", "p.errors", True),
        ("p.attacks.order", "p.perturbing.order", False),
        ("p.pictures", "p.tables.atomic", False),
    ],
)
def test_only_an_import_past_a_front_door_breaks_the_contract(importer: str, imported: str, kept: bool) -> None:
    graph = ImportGraph()
    graph.add_import(importer=importer, imported=imported)
    contract = FrontDoors("front doors", session_options={}, contract_options={})
    assert contract.check(graph, verbose=False).kept is kept
