"""A change that means to change nothing changes no result: fixed seeds give what they gave before."""

from __future__ import annotations

import json

from tests.digests import KEPT, found


def test_fixed_seeds_give_what_they_gave_before() -> None:
    kept, today = json.loads(KEPT.read_text()), found()
    changed = [n for n, d in today.items() if kept.get(n) != d]
    assert changed == [], "if that is meant, say python -m tests.digests"
    assert set(kept) == set(today)
