"""The ledger: every release is entered before it appears, sums are at worst case, and a total is kept."""

from __future__ import annotations

import fcntl
import json
import os
import time
from multiprocessing.pool import ThreadPool
from pathlib import Path

import pytest

from ppdm_cli import RefusedError, Sidecar, perturb
from ppdm_cli.releases import Entering, ledger
from ppdm_cli.tables import atomic
from tests.vocabulary import Run, listing, people

ENTERED = ("--ledger", "l", "--people", "patients")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    people(300).write_parquet(tmp_path / "in.parquet")
    return tmp_path


def publish(ppdm: Run, output: str, epsilon: object, *more: str, code: int = 0) -> str:
    call = ("perturb", "in.parquet", "-o", output, "--record-epsilon", str(epsilon), "--drop", "since", *more)
    return ppdm(*call, *ENTERED, code=code).stderr.decode()


def lines(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / "l").read_text().splitlines()]


def limit(folder: Path, total: float) -> None:
    head, *rest = (folder / "l").read_text().splitlines()
    head = json.dumps(json.loads(head) | {"total_epsilon": {"patients": total}})
    (folder / "l").write_text("\n".join([head, *rest, ""]))


def test_epsilons_add_up_and_the_total_is_kept(folder: Path, ppdm: Run) -> None:
    assert "1 release about 'patients': epsilon adds up to 2, and it states no total" in publish(
        ppdm, "a.parquet", 2
    )
    said = " ".join(publish(ppdm, "b.parquet", 0.7).split())
    assert "2 releases about 'patients': epsilon adds up to 2.7" in said and "so their epsilons add up" in said
    ppdm("perturb", "in.parquet", "-o", "e.parquet", "--gamma", "9", "--ledger", "l", "--people", "others")
    limit(folder, 3)
    publish(ppdm, "c.parquet", 0.3)
    before = listing(folder)
    said = publish(ppdm, "d.parquet", 0.001, code=4)
    assert "epsilon of 3.00099" in said and "allows 3, of which 2.99999 is used" in said
    assert listing(folder) == before
    entries = lines(folder)[1:]
    assert [e["people"] for e in entries] == ["patients", "patients", "others", "patients"]
    for name, entry in zip("abec", entries, strict=True):
        sidecar = json.loads((folder / f"{name}.parquet.ppdm.json").read_text())
        assert (
            entry["release"] == sidecar["release"]
            and entry["epsilon"] == sidecar["privacy"]["perturbed_epsilon"]
        )


def test_a_name_that_the_ledger_does_not_know_is_refused(folder: Path, ppdm: Run) -> None:
    """Once its first line names anybody: a letter wrong would begin an account without a total."""
    base = ("perturb", "in.parquet", "-o", "b.parquet", "--gamma", "9", "--ledger", "l", "--people")
    publish(ppdm, "a.parquet", 2)
    ppdm(*base, "others", "--force")
    limit(folder, 3)
    before = listing(folder)
    hints = {"patient": "Did you mean 'patients'?", "Patients": "Did you mean", "x": "Add these"}
    for name, hint in hints.items():
        said = ppdm(*base, name, "--force", code=2).stderr.decode()
        assert hint in said and "knows 'others', 'patients', but not" in said
        asked = ("inspect", "a.parquet", "--report", "s.html", "--ledger", "l", "--people", name)
        assert hint in ppdm(*asked, code=2).stderr.decode()
        assert listing(folder) == before
    publish(ppdm, "c.parquet", 0.5)
    assert b"epsilon of" in ppdm(*base, " patients ", "--force", code=4).stderr, "spaces are no other people"
    ppdm(*base, "others", "--force")


def test_a_release_without_a_promise_is_without_bound(folder: Path, ppdm: Run) -> None:
    publish(ppdm, "a.parquet", 2)
    limit(folder, 1000)
    assert "no bound at all" in publish(ppdm, "b.parquet", 2, "--seed", "1", code=4)
    noise = ("--scheme", "additive", "--noise", "normal", "--sd", "25%")
    numbers = (
        "perturb",
        "in.parquet",
        "-o",
        "c.parquet",
        "--drop",
        "since",
        "--drop",
        "region",
        "--drop",
        "member",
    )
    ppdm(*numbers, "--drop", "group", *noise, *ENTERED, code=4)
    limit_free = json.dumps({"format": "ppdm-ledger", "version": 1, "total_epsilon": {}}) + "\n"
    (folder / "l").write_text(limit_free)
    assert "nothing is promised for all of them together" in " ".join(
        publish(ppdm, "d.parquet", 2, "--seed", "1").split()
    )


def test_copies_are_entered_once_with_all_that_they_cost(folder: Path, ppdm: Run) -> None:
    ppdm("perturb", "in.parquet", "-o", "a.parquet", "--gamma", "3", "--copies", "2", *ENTERED)
    (entry,) = lines(folder)[1:]
    sidecar = json.loads((folder / "a.1.parquet.ppdm.json").read_text())
    assert entry["epsilon"] == sidecar["privacy"]["perturbed_epsilon"]


def test_the_entry_comes_before_the_release(folder: Path, ppdm: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that dies at the moment of publishing has its entry; one that is refused has none."""

    def dies(*_: object) -> None:
        assert len(lines(folder)) == 2
        raise KeyboardInterrupt

    monkeypatch.setattr(atomic.PendingFile, "place", dies)
    publish(ppdm, "a.parquet", 2, code=130)
    assert len(lines(folder)) == 2 and not (folder / "a.parquet").exists()
    people(300).sort("age").write_parquet(folder / "in.parquet")
    publish(ppdm, "b.parquet", 2, code=4)
    assert len(lines(folder)) == 2


def entered_together(path: Path, sidecar: Sidecar) -> int:
    """How many of eight runs at one time are let in."""

    def enter(_: int) -> bool:
        try:
            Entering(path, "patients").enter(sidecar)
        except RefusedError:
            return False
        return True

    with ThreadPool(8) as pool:
        return sum(pool.map(enter, range(8), chunksize=1))


def test_runs_at_one_time_wait_for_each_other(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of eight releases that each fit, as many are let in as fit together; without the lock it is more."""
    sidecar = perturb(people(300), gamma=9, drop=["since"]).sidecar
    each = float(sidecar.privacy.perturbed_epsilon)  # type: ignore[union-attr, arg-type]
    head = json.dumps({"format": "ppdm-ledger", "version": 1, "total_epsilon": {"patients": 3.5 * each}})
    real = ledger._account

    def slow(path: Path, data: bytes, people: str) -> ledger.Account:
        time.sleep(0.02)
        return real(path, data, people)

    monkeypatch.setattr(ledger, "_account", slow)
    for name in ("locked", "open"):
        (folder / name).write_text(head + "\n")
    assert entered_together(folder / "locked", sidecar) == 3
    monkeypatch.setattr(fcntl, "flock", lambda *_: None)
    assert entered_together(folder / "open", sidecar) > 3


def test_a_line_is_written_whole_or_not_at_all(
    folder: Path, ppdm: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(ppdm, "a.parquet", 2)
    before, real = (folder / "l").read_bytes(), os.write
    monkeypatch.setattr(ledger.os, "write", lambda file, data: real(file, data[:20]))
    assert "no space left" in publish(ppdm, "b.parquet", 2, code=1)
    assert (folder / "l").read_bytes() == before and not (folder / "b.parquet").exists()


@pytest.mark.parametrize(
    ("content", "code", "said"),
    [
        ("not a ledger\n", 2, "line 1 of the ledger"),
        ('{"format":"ppdm-ledger","version":2,"total_epsilon":{}}\n', 2, "line 1"),
        ('{"format":"ppdm-ledger","version":1,"total_epsilon":{"patients":-1}}\n', 2, "line 1"),
        ('{"format":"ppdm-ledger","version":1,"total_epsilon":{}}\n{"people":"x"}\n', 2, "line 2"),
        ('{"format":"ppdm-ledger","version":1,"total_epsilon":{}}', 1, "incomplete"),
    ],
)
def test_a_damaged_ledger_stops_the_release(
    folder: Path, ppdm: Run, content: str, code: int, said: str
) -> None:
    (folder / "l").write_text(content)
    assert said in publish(ppdm, "a.parquet", 2, code=code)
    assert (folder / "l").read_text() == content and not (folder / "a.parquet").exists()


def test_calls_that_make_no_sense(folder: Path, ppdm: Run) -> None:
    base = ("perturb", "in.parquet", "-o", "a.parquet", "--gamma", "9")
    (folder / "d").mkdir()
    for options in (("--ledger", "l"), ("--people", "x"), ("--ledger", "l", "--people", "")):
        assert b"--people" in ppdm(*base, *options, code=2).stderr
    assert b"not an ordinary file" in ppdm(*base, "--ledger", "d", "--people", "x", code=2).stderr
    assert sorted(p.name for p in folder.iterdir()) == ["d", "in.parquet"]
