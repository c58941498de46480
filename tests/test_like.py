"""The next batch with an earlier release's plan: what the plan drops does not matter, what it merges does."""

from __future__ import annotations

from pathlib import Path

import pytest

from ppdm_cli import perturb
from ppdm_cli.errors import RefusedError


def table(path: Path, towns: str, notes: list[str]) -> Path:
    rows = [f"{i % 5},{t},{notes[i % len(notes)]}" for i, t in enumerate(towns)]
    path.write_text("\n".join(["a,town,note", *rows]) + "\n")
    return path


def test_a_column_that_the_plan_drops_needs_no_type(tmp_path: Path) -> None:
    first = table(tmp_path / "first.csv", "xyzx" * 50, ["1"])
    perturb(first, tmp_path / "january.csv", gamma=9, drop=["note"], shuffle=True)
    mixed = table(tmp_path / "mixed.csv", "xyzx" * 50, ["1", "two"])
    done = perturb(mixed, tmp_path / "february.csv", like=tmp_path / "january.csv", shuffle=True)
    assert done.dropped == ["note"]


def test_rare_labels_go_on_being_merged(tmp_path: Path) -> None:
    first = table(tmp_path / "first.csv", "xy" * 100 + "qrs" * 4, ["1"])
    made = perturb(first, tmp_path / "january.csv", gamma=9, drop=["note"], rare="merge", shuffle=True)
    assert made.merged == ["town"]
    second = table(tmp_path / "second.csv", "xy" * 100 + "tuv" * 4, ["1"])
    done = perturb(second, like=made.sidecar, shuffle=True)
    assert done.merged == ["town"]
    assert set(done.frame["town"]) == {"x", "y", "(other)"}


def test_a_plan_that_perturbs_nothing_is_refused(tmp_path: Path) -> None:
    made = perturb(table(tmp_path / "first.csv", "xyzx" * 50, ["1"]), gamma=9, drop=["note"], shuffle=True)
    text = made.sidecar.encode().decode()
    assert '"role":"perturbed"' in text
    kept = tmp_path / "kept.json"
    kept.write_text(
        '{"format": "ppdm-sidecar", "version": 1, "tool": "ppdm 0", "stage": "perturbed", "records": 1,'
        f'"release": "{made.sidecar.release}", "privacy": {{"unit": "record",'
        '"perturbed_gamma": 1, "perturbed_epsilon": 0,'
        '"kept": ["a"], "coins": "system"}, "attributes": [{"name": "a", "role": "kept",'
        '"type": "continuous", "dtype": "int64"}]}'
    )
    with pytest.raises(RefusedError, match="nothing would be perturbed"):
        perturb(tmp_path / "first.csv", like=kept)
