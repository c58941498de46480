"""The contract that a room is opened by its front door only, for the import linter."""

from __future__ import annotations

from typing import Any

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, output


class FrontDoors(Contract):
    """Modules import a package's `__init__` and nothing inside it, except those of the package itself."""

    type_name = "front_doors"

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        found = [
            (module, other)
            for module in sorted(graph.modules)
            for other in sorted(graph.find_modules_directly_imported_by(module))
            if other.count(".") > 1 and module.split(".")[:2] != other.split(".")[:2]
        ]
        return ContractCheck(kept=not found, metadata={"found": found})

    def render_broken_contract(self, check: ContractCheck) -> None:
        found: list[Any] = check.metadata["found"]
        for module, other in found:
            output.print_error(
                f"{module} imports {other}: import what it needs from {other.rpartition('.')[0]}"
            )
