"""Faults injected: after each the old files are there or the new ones, and the exit code says which."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.experiments.faults import COMMANDS, KINDS, Injector, check, prepared
from tests.vocabulary import Anything, Run, listing


@pytest.fixture
def folder(tmp_path: Path, ppdm: Run) -> Path:
    return prepared(tmp_path, ppdm)


@pytest.mark.parametrize("nameless", [True, False])
@pytest.mark.parametrize("name", COMMANDS)
def test_a_fault_at_any_point_leaves_the_old_files_or_the_new(
    name: str, nameless: bool, folder: Path, ppdm: Run
) -> None:
    old, counting = listing(folder), Injector(folder, nameless)
    with counting():
        ppdm(*COMMANDS[name])
    new, points = listing(folder), counting.points
    assert new != old and set(points) == set(KINDS)
    check(folder, old, new, (0, ""), "")
    for kind in KINDS:
        for at in range(1, points[kind] + 1):
            code = Anything()
            with Injector(folder, nameless, kind, at)():
                done = ppdm(*COMMANDS[name], code=code)  # type: ignore[arg-type]
            check(folder, old, new, (done.returncode.code, done.stderr.decode()), kind)
