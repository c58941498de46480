"""An engine is one file: a pool of processes gives what threads give, in every command's library function."""

from __future__ import annotations

from typing import Any

import pytest

from ppdm_cli import attack, estimate, perturb, query, reconstruct, running, train_tree
from tests.engine.dummy_engine import Processes
from tests.vocabulary import generated


def results(original: Any) -> list[Any]:
    """Return what each function makes of a release of the table."""
    release = perturb(original, gamma=9, bins=10, class_="group", seed=1)
    given = {"sidecar": release.sidecar}
    return [
        release.frame,
        estimate(release.frame, **given).frame,
        query(release.frame, 'select mean(age) group by "group"', **given).frame,
        reconstruct(release.frame, method="global", **given).frame,
        train_tree(release.frame, **given).tree.label.tolist(),
        attack(release.frame, **given, attacks=["posterior"]).frame,
    ]


@pytest.mark.long
def test_a_pool_of_processes_gives_what_threads_give() -> None:
    original = generated(2_000)
    with running(engine=Processes()):
        by_processes = results(original)
    for a, b in zip(by_processes, results(original), strict=True):
        assert a == b if isinstance(a, list) else a.equals(b)
