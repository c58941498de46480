"""Whatever names, labels, paths and arguments hold: one line of printable text, no word of other libraries."""

from __future__ import annotations

import json
import re
import tomllib
from decimal import Decimal
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from ppdm_cli import attack, estimate, perturb
from ppdm_cli.commands import SUBCOMMANDS
from ppdm_cli.dtypes import carrier
from tests.vocabulary import Run, write_table

HOSTILE = "\x1b]0;PWN\x07\x1b[2J\r\nppdm: done\u202e\u200b\x9b2J\x7f\ue000<b>[red]"
FOLDER, FILE = f"in {HOSTILE}".replace("<b>", ""), f"t {HOSTILE}.parquet".replace("<b>", "")
CLASS, NAME = f"class {HOSTILE}", f"name {HOSTILE}"


def printable(text: bytes) -> None:
    """Nothing in it moves a cursor or hides, and no line is of someone else's making."""
    for line in text.decode().split("\n"):
        assert line.isprintable(), line
        assert not line.startswith(("ppdm: done", "forged")), line


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A table all of whose names and labels are hostile, in a file and a folder of such names."""
    rng, rows = np.random.default_rng(3), 3000
    label = rng.integers(0, 2, rows)
    word = np.where(rng.random(rows) < 0.9, label, rng.integers(0, 3, rows))
    made = pl.DataFrame(
        {
            CLASS: [f"{i}{HOSTILE}" for i in label],
            NAME: [f"{i}{HOSTILE}" for i in word],
            f"number {HOSTILE}": rng.random(rows) + label,
            f"kept {HOSTILE}": [f"{i}{HOSTILE}" for i in rng.integers(0, 2, rows)],
        }
    )
    (tmp_path / FOLDER).mkdir()
    made.write_parquet(tmp_path / FOLDER / FILE)
    return tmp_path


def test_nothing_that_a_name_holds_reaches_the_terminal(folder: Path, ppdm: Run) -> None:
    data, out = f"{FOLDER}/{FILE}", f"{FOLDER}/out {HOSTILE}".replace("<b>", "")
    release, tree = f"{out}.parquet", f"{out}.json"
    calls = [
        ("perturb", data, "-o", release, "--gamma", "50", "--class", CLASS, "--keep", f"kept {HOSTILE}"),
        ("plan", data, "-o", f"{out}.toml"),
        ("inspect", release),
        ("estimate", release, "--truth", data),
        ("estimate", release, "--by", CLASS),
        ("estimate", release, "--joint", f"{CLASS},{NAME}"),
        ("estimate", release, "-o", f"{out}.csv", "--truth", data),
        ("query", release, f'select share("{NAME}" = \'0{HOSTILE}\') group by "{CLASS}", "kept {HOSTILE}"'),
        ("reconstruct", release, "-o", f"{out}2.parquet"),
        ("train-tree", release, "-o", tree, "--test", data),
        ("train-tree", data, "-o", tree, "--class", CLASS, "--force", "--predicted", f"{out}3.csv"),
        ("predict", tree, data, "-o", f"{out}4.csv"),
        ("entropy", release),
        ("attack", release, "--truth", data),
        ("train-bayes", release, "--network", "net.json", "-o", f"{out}6.bif", "-o", f"{out}6.csv"),
        ("generate", "--function", "1", "--records", "10", "-o", f"{out}5.csv"),
        ("explain", "epsilon"),
    ]
    nodes = [{"name": CLASS, "states": []}, {"name": NAME, "states": [], "parents": [CLASS]}]
    head = {"format": "ppdm-network", "version": 1, "tool": "ppdm"}
    (folder / "net.json").write_text(json.dumps(head | {"nodes": nodes}))
    assert {c[0] for c in calls} == set(SUBCOMMANDS)
    for call in calls:
        done = ppdm(*call)
        assert done.stdout or done.stderr or call[0] == "generate", call
        printable(done.stdout + done.stderr)
        if call[0] in ("plan", "inspect", "estimate", "query", "entropy", "attack", "train-bayes"):
            shown = ppdm(*call, "--json", *(["--force"] * ("-o" in call))).stdout
            printable(shown)
            assert json.dumps(HOSTILE)[1:-1] in json.dumps(json.loads(shown)), "data is as it was"
    plan = tomllib.loads((folder / f"{out}.toml").read_text())
    assert {CLASS, NAME} <= {*plan["attributes"], *plan.get("drop", [])}


def test_nor_does_what_an_error_quotes(folder: Path, ppdm: Run) -> None:
    data, arg = f"{FOLDER}/{FILE}", f"x{HOSTILE}"
    (folder / "broken").write_bytes(b"junk")
    (folder / FOLDER / f"{FILE}.broken.parquet").write_bytes(b"junk")
    (folder / "plan.toml").write_text(f"{json.dumps(arg)} = 1\n")
    (folder / "ragged.csv").write_text(f'"{HOSTILE}",b\n1,2\n1,"{HOSTILE}",3\n')
    (folder / "plain.csv").write_text("a,b\n1,2\n")
    (folder / "twice.csv").write_text(f'"{HOSTILE}","{HOSTILE}"\n1,2\n')
    base = ("perturb", data, "-o", "x.csv", "--gamma", "9")
    calls: list[tuple[tuple[str, ...], int]] = [
        ((arg,), 2),
        ((f"--{arg}",), 2),
        (("inspect", f"--{arg}"), 2),
        (("inspect", "a", arg), 2),
        (("inspect", arg), 1),
        (("inspect", f"{FOLDER}/{FILE}.broken.parquet"), 1),
        (("inspect", data), 3),
        ((*base, "--keep", arg), 2),
        ((*base, "--attribute", arg), 2),
        ((*base, "--attribute", f"{NAME}:{arg}=1"), 2),
        ((*base, "--domain", arg), 2),
        ((*base, "--domain", f"{NAME}=@{arg}"), 1),
        ((*base, "--plan", "plan.toml"), 2),
        ((*base, "--matrix", arg), 2),
        ((*base, "--rho1", arg), 2),
        ((*base, "--like", arg), 1),
        ((*base, "--encoding", arg), 2),
        (("perturb", "plain.csv", *base[2:], "--type", f"{arg}=int64"), 2),
        ((*base, "--type", f"a={arg}"), 2),
        (("perturb", data, "-o", arg, "--gamma", "9"), 2),
        (("perturb", "ragged.csv", "-o", "x.csv", "--gamma", "9"), 1),
        (("perturb", "twice.csv", "-o", "x.csv", "--gamma", "9"), 1),
        (("entropy", "--gamma", arg), 2),
        (("entropy", "--plot", arg), 2),
        (("query", arg, "select count()"), 1),
        (("query", data, arg), 2),
        (("query", data, f'select "{arg}"()'), 2),
        (("train-tree", data, "-o", "t.json", "--export", arg, "--class", CLASS), 2),
        (("train-tree", data, "-o", "t.json", "--class", arg), 2),
        (("predict", arg, data, "-o", "x.csv"), 2),
        (("generate", "--function", "1", "--records", "1", "-o", arg), 2),
    ]
    for call, code in calls:
        done = ppdm(*call, code=code)
        assert done.stderr and not done.stdout, call
        printable(done.stderr)


@pytest.mark.parametrize("suffix", ["html", "svg"])
def test_no_label_leaves_the_script_or_the_text_of_a_picture(folder: Path, ppdm: Run, suffix: str) -> None:
    pytest.importorskip("vl_convert")
    attack = "</script><script>globalThis.PWNED=1</script>&amp;]]>\u2028\ue000'\"--><!--"
    data = pl.read_parquet((folder / FOLDER / FILE).read_bytes())
    data.columns = [attack, f"b{attack}", f"c{attack}", f"d{attack}"]
    data.with_columns(pl.col(attack) + attack, pl.col(f"b{attack}") + attack).write_parquet(
        folder / "p.parquet"
    )
    ppdm("perturb", "p.parquet", "-o", "r.parquet", "--gamma", "9", "--class", attack)
    for call in ("estimate", "attack"):
        ppdm(call, "r.parquet", "--plot", f"{call}.{suffix}")
    for path in folder.glob(f"*.{suffix}"):
        shown = path.read_text()
        assert "PWNED" in shown, "the label is there"
        if suffix == "svg":
            tags = {e.tag.rpartition("}")[2] for e in ElementTree.fromstring(shown).iter()}
            assert not tags & {"script", "b", "foreignObject"}, path
        else:
            assert shown.count("<script") == 2 and not re.search("script>globalThis|\u2028|\ue000", shown), path
            assert "\\u003c/script\\u003e\\u003cscript\\u003eglobalThis" in shown, "it reads as it was"


def test_what_cannot_be_drawn_is_said_in_one_line(
    tmp_path: Path, ppdm: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    vl_convert = pytest.importorskip("vl_convert")

    def fails(*_: object, **__: object) -> str:
        raise ValueError("RangeError: Maximum call stack size exceeded at CANARY")

    monkeypatch.setattr(vl_convert, "vegalite_to_svg", fails)
    said = ppdm("entropy", "--plot", "x.svg", code=1).stderr.decode()
    assert "cannot be drawn" in said and "CANARY" not in said and said.count("\n") == 1
    assert not (tmp_path / "x.svg").exists()


@pytest.mark.parametrize("row", [b"31,M\xfcller, Hans", b"31,M\xfcller", b'31,"M\xfcller"x', b'31,"M\xfcller'])
def test_a_byte_that_is_no_text_is_told_by_its_row(tmp_path: Path, ppdm: Run, row: bytes) -> None:
    (tmp_path / "t.csv").write_bytes(b"age,name\n30,Ann\n" + row + b"\n")
    said = ppdm("perturb", "t.csv", "-o", "r.csv", "--gamma", "5", "--domain", "age=0:100", code=1).stderr
    assert re.fullmatch(rb"ppdm: data: row 2 of 't.csv': [ -~]+\n", said), said
    assert not re.search(rb"ller|fc|codec|Exception|Hans", said)


def hive(folder: Path, part: pa.Table | bytes) -> None:
    """A folder whose second part is as given; the keys in the paths are cells."""
    for number, name in enumerate(("ANN_SECRET", "BOB_SECRET")):
        (folder / "hv" / f"patient={name}").mkdir(parents=True)
        path = folder / "hv" / f"patient={name}" / "p.parquet"
        if isinstance(part, bytes) and number:
            path.write_bytes(part)
        else:
            whole = pa.table({"age": list(range(200)), "word": ["a", "b"] * 100})
            pq.write_table(part if number and not isinstance(part, bytes) else whole, path)


DAMAGES = {
    "empty": b"",
    "junk": b"junk",
    "other columns": pa.table({"age": [1], "more": ["x"]}),
    "other type": pa.table({"age": ["x"], "word": ["x"]}),
    "not UTF-8": pa.table({"age": [1], "word": pa.array([b"\xff"]).view(pa.string())}),
    "outside": pa.table({"age": [5000], "word": ["a"]}),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_part_whose_path_holds_cells_goes_by_number(tmp_path: Path, ppdm: Run, damage: str) -> None:
    hive(tmp_path, DAMAGES[damage])
    options = ("--gamma", "5", "--domain", "age=0:300", "--rare", "publish", "--drop", "patient")
    said = ppdm("perturb", "hv", "-o", "r.parquet", *options, code=1).stderr.decode()
    assert "part 2" in said and "SECRET" not in said, said


def test_a_part_that_would_be_written_over_goes_by_number(tmp_path: Path, ppdm: Run) -> None:
    hive(tmp_path, pa.table({"age": [1], "word": ["a"]}))
    part = next((tmp_path / "hv").glob("*BOB*")) / "p.parquet"
    (tmp_path / "alias.parquet").hardlink_to(part)
    (tmp_path / "alias.json").symlink_to(part.with_name("p.parquet.ppdm.json"))
    options = ("--gamma", "5", "--drop", "patient", "--force")
    for outputs in (["alias.parquet"], ["r.parquet", "--sidecar", "alias.json"]):
        said = ppdm("perturb", "hv", "-o", *outputs, *options, code=2).stderr.decode()
        assert "part 2" in said and "SECRET" not in said, said


def test_a_hollow_part_goes_by_number(tmp_path: Path, ppdm: Run) -> None:
    hive(tmp_path, b"")
    path = next((tmp_path / "hv").glob("*BOB*")) / "p.parquet"
    pq.write_table(pa.table({"age": list(range(5000)), "word": ["a", "b"] * 2500}), path, compression="none")
    content = bytearray(path.read_bytes())
    content[4:2000] = bytes(1996)
    path.write_bytes(content)
    said = ppdm("perturb", "hv", "-o", "r.parquet", "--gamma", "5", "--drop", "patient", code=1).stderr.decode()
    assert "part 2" in said and "SECRET" not in said, said


def test_names_that_are_not_text_end_in_one_line(tmp_path: Path, ppdm: Run) -> None:
    table = pa.table({"age": list(range(50)), "nXXe": list(range(50))})
    for name, stored in (("a.parquet", True), ("b.parquet", False)):
        pq.write_table(table, tmp_path / name, compression="none", store_schema=stored)
    with pa.OSFile(str(tmp_path / "c.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    for path in list(tmp_path.iterdir()):
        path.write_bytes(path.read_bytes().replace(b"nXXe", b"n\xff\xfee"))
        said = ppdm("perturb", path.name, "-o", "x.csv", "--gamma", "5", code=1).stderr.decode()
        assert f"'{path.name}' has a name that is not in UTF-8" in said and said.count("\n") == 1


def test_a_buffer_may_be_longer_than_its_values() -> None:
    for kind, width in ((pa.int64(), 8), (pa.date32(), 4), (pa.decimal128(10, 2), 16)):
        content = b"".join(i.to_bytes(width, "little") for i in range(200)) + b"\xff" * 3
        odd = pa.Array.from_buffers(kind, 200, [None, pa.py_buffer(content)])
        assert carrier(odd).tolist() == list(range(200)) and carrier(odd.slice(7, 5)).tolist() == [
            7,
            8,
            9,
            10,
            11,
        ]
        done = perturb(pa.table({"age": odd}), gamma=5, shuffle=True)
        assert done.frame.height == 200


@pytest.mark.parametrize("suffix", [".arrow", ".parquet", ".csv"])
@pytest.mark.parametrize("nulls", [False, True])
def test_rows_that_are_left_out_leave_no_byte(tmp_path: Path, suffix: str, nulls: bool) -> None:
    """Arrow pads its buffers, with what follows where a slice ends: the file may not depend on it."""
    written = []
    for secret in (1, 2):
        tail = [secret] * 99
        whole = pa.table(
            {
                "whole": pa.array([*range(101), *tail], pa.int32()),
                "flag": pa.array([True] * 101 + [secret == 2] * 99),
                "text": pa.array([f"n{i}" for i in range(101)] + [f"SECRET{i}" for i in tail]),
                "exact": pa.array([None if nulls and i % 7 == 0 else Decimal(i) for i in [*range(101), *tail]]),
            }
        )
        feather.write_feather(whole.slice(0, 101), tmp_path / "in.feather", compression="uncompressed")
        for table in (whole.slice(0, 101), feather.read_table(tmp_path / "in.feather", memory_map=True)):
            written.append(write_table(table, tmp_path / f"out{suffix}").read_bytes())
    assert len(set(written)) == 1 and b"SECRET" not in written[0]


def test_letters_that_the_output_does_not_have_are_written_out(tmp_path: Path, process: Run) -> None:
    pl.DataFrame({"Größe": ["ä", "ö"] * 100}).write_parquet(tmp_path / "p.parquet")
    process("perturb", "p.parquet", "-o", "r.parquet", "--gamma", "5", "--shuffle", PYTHONIOENCODING="ascii")
    assert b"Gr\\xf6\\xdfe" in process("estimate", "r.parquet", PYTHONIOENCODING="ascii").stdout
    figures = json.loads(process("inspect", "r.parquet", "--json", PYTHONIOENCODING="ascii").stdout)
    assert figures["attributes"][0]["attribute"] == "Größe"


def test_a_table_in_a_file_has_one_line_for_each_row(tmp_path: Path, ppdm: Run) -> None:
    """Whatever its width; no line ends with spaces."""
    pl.DataFrame({"a": [1, 2, 3] * 100, "b" * 70: ["x", "y", "z"] * 100}).write_csv(tmp_path / "t.csv")
    lines = ppdm("plan", "t.csv", "-o", "t.toml").stderr.decode().splitlines()
    table = lines[1:4]
    assert max(map(len, table)) > 120 and table[0].startswith("column ")
    assert table[0].count("error at ") == 4 and table[2].startswith("b" * 70)
    assert not [line for line in table if line.endswith(" ")]


def test_plan_fits_a_terminal_when_proposals_are_long(
    tmp_path: Path, ppdm: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    pl.DataFrame({"Versicherung": ["x", "y", None] * 100}).write_csv(tmp_path / "t.csv")
    table = ppdm("plan", "t.csv", "-o", "t.toml").stderr.decode().partition("The file")[0].splitlines()
    assert max(map(len, table)) <= 80
    row, below = table[-2:]
    assert row.endswith("other=True,") and below == " " * row.index("other=True,") + "nulls=True"


def test_output_to_a_file_is_as_wide_as_columns_says(ppdm: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ("entropy", "--record-epsilon", "2", "--records", "20000", "--attributes", "9x10")
    assert max(map(len, ppdm(*asked).stdout.splitlines())) > 120
    monkeypatch.setenv("COLUMNS", "80")
    assert max(map(len, ppdm(*asked).stdout.splitlines())) <= 80


def test_a_quiet_run_prints_no_result_that_goes_to_a_file(tmp_path: Path, ppdm: Run) -> None:
    pl.DataFrame({"a": [1, 2, 3] * 100, "b": ["x", "y", "z"] * 100}).write_csv(tmp_path / "t.csv")
    ppdm("perturb", "t.csv", "-o", "r.csv", "--record-epsilon", "2", "--shuffle", "-q")
    for line in ("inspect r.csv --report s.html", "estimate r.csv -o e.csv", "attack r.csv -o a.csv"):
        assert ppdm(*line.split(), "-q").stdout == b"", line
    said = ppdm("inspect", "r.csv", "--report", "s.html", "--force").stdout.decode().splitlines()
    assert said[-1] == "Wrote the statement to s.html."
    assert ppdm("inspect", "r.csv", "-q").stdout and ppdm("estimate", "r.csv", "-q").stdout


def test_months_of_points_in_time_are_named_by_days(tmp_path: Path, ppdm: Run) -> None:
    rng, n = np.random.default_rng(1), 3000
    seconds = rng.integers(0, 200 * 86_400, n)
    when = np.datetime64("2024-01-01T00:00:00") + seconds.astype("timedelta64[s]")
    days = when.astype("datetime64[D]")
    table = pl.DataFrame({"at": when.astype("datetime64[ms]"), "day": days, "x": rng.integers(0, 3, n)})
    months = {n: {"scale": "month"} for n in ("at", "day")}
    release = perturb(table, gamma=9, attributes=months, seed=1)
    labels = estimate(release.frame, sidecar=release.sidecar).frame["label"].to_list()
    assert labels[:2] == ["[2024-01-01, 2024-02-01)", "[2024-02-01, 2024-03-01)"] and labels[0] in labels[7:]
    rows = attack(release.frame, sidecar=release.sidecar, truth=table, attacks=["posterior"]).rows
    at, day = (next(r.rmse for r in rows if r.attribute == name) for name in ("at", "day"))
    assert at is not None and day is not None and 20 < at < 80 and at == pytest.approx(day, rel=0.1), "days"


def test_a_result_prints_what_it_holds_with_the_digits_that_people_read() -> None:
    table = pl.DataFrame({"a": [1, 2, 3] * 100, "b": ["x", "y\n\x1b[31m", "z"] * 100})
    release = perturb(table, gamma=9, seed=1, keep_order=True)
    text = str(estimate(release.frame, sidecar=release.sidecar))
    assert text.startswith("<Estimate: 300 records") and "y\\n\\x1b[31m" in text and "\x1b" not in text
    assert text.splitlines()[1].split()[:4] == ["attribute", "code", "label", "lower"]
    numbers = re.findall(r"\d+\.\d+", text)
    assert numbers and max(len(n.replace(".", "").lstrip("0")) for n in numbers) <= 4
