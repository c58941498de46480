"""The library's front door: `perturb` on anything that speaks Arrow, as the command does it on files."""

from __future__ import annotations

import pickle
from concurrent.futures import ProcessPoolExecutor
from copy import copy, deepcopy
from importlib import import_module
from inspect import signature
from multiprocessing import get_context
from pathlib import Path
from pkgutil import walk_packages
from typing import Any, cast

import polars as pl
import pyarrow as pa
import pytest
from msgspec import UNSET
from msgspec.structs import replace

import ppdm_cli
from ppdm_cli import Plan, Release, perturb
from ppdm_cli.errors import DataError, MismatchError, PpdmError, UsageError
from ppdm_cli.releases import open_release
from tests.vocabulary import Run, people


class Speaks:
    """A table of someone else's that offers the Arrow stream and nothing more."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)


def test_any_table_that_speaks_arrow_gives_the_same_release() -> None:
    frame = people()
    table = frame.to_arrow()
    batches = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=77))
    releases = [perturb(t, gamma=9, seed=3) for t in (frame, table, batches, Speaks(table))]
    first = releases[0]
    assert isinstance(first, Release) and isinstance(first.frame, pl.DataFrame)
    for release in releases[1:]:
        assert release.frame.equals(first.frame) and release.sidecar == first.sidecar
    assert first.frame.columns == frame.columns and first.frame.height == 1000
    assert first.sidecar.records == 1000 and not first.frame.equals(frame)


def test_the_input_is_not_touched() -> None:
    frame, copy = people(), people().clone()
    table = people().to_arrow()
    before = [bytes(b) for c in table.itercolumns() for k in c.chunks for b in k.buffers() if b is not None]
    perturb(frame, gamma=2, shuffle=True)
    perturb(table, gamma=2)
    assert frame.equals(copy)
    assert before == [
        bytes(b) for c in table.itercolumns() for k in c.chunks for b in k.buffers() if b is not None
    ]


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "csv", "csv.gz"])
def test_library_and_command_give_the_same_bytes_for_the_same_seed(
    suffix: str, tmp_path: Path, ppdm: Run
) -> None:
    people().write_parquet(tmp_path / "data.parquet")
    options = ("--gamma", "9", "--class", "group", "--keep", "group", "--seed", "5", "--bins", "7", "--shuffle")
    domain = ("--attribute", "age:domain=0:120,gamma=2.5,representative=random")
    ppdm("perturb", "data.parquet", "-o", f"command.{suffix}", *options, *domain)
    wishes: dict[str, Any] = {
        "gamma": 9,
        "class_": "group",
        "keep": ["group"],
        "seed": 5,
        "bins": 7,
        "shuffle": True,
        "attributes": {"age": {"domain": [0, 120], "gamma": 2.5, "representative": "random"}},
    }
    made = perturb(tmp_path / "data.parquet", tmp_path / f"library.{suffix}", **wishes)
    assert made.frame is None
    for end in ("", ".ppdm.json"):
        one, other = (tmp_path / f"{name}.{suffix}{end}" for name in ("command", "library"))
        assert one.read_bytes() == other.read_bytes()
    frame = perturb(people(), **wishes).frame
    written = open_release(tmp_path / f"library.{suffix}")[0]
    rows = [p.load() for p in written.partitions()]
    assert pl.concat(pl.from_arrow(r) for r in rows).cast(frame.schema).equals(frame)


def test_an_earlier_sidecar_is_a_plan_for_the_next_frame() -> None:
    first = perturb(people(), gamma=9, attributes={"age": {"domain": [0, 120]}}, bins=5)
    again = perturb(people(seed=8), like=first.sidecar, clip=True)
    assert [replace(a, outside=UNSET) for a in again.sidecar.attributes] == first.sidecar.attributes
    assert again.sidecar.release != first.sidecar.release
    with pytest.raises(MismatchError, match="'age'"):
        perturb(people().drop("age"), like=first.sidecar)
    with pytest.raises(MismatchError, match="of type double"):
        perturb(people().with_columns(pl.col("age").cast(pl.Float64)), like=first.sidecar)
    with pytest.raises(UsageError, match="can't be gamma 3, because it is gamma 9 in the earlier"):
        perturb(people(), like=first.sidecar, gamma=3)


def errors() -> list[Any]:
    """Return every exception class of the package, once all of its modules are loaded."""
    for module in walk_packages(ppdm_cli.__path__, "ppdm_cli."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
    found, left = list[Any](), list[Any]([Exception])
    while left:
        kind = left.pop()
        left += kind.__subclasses__()
        found += [kind] * kind.__module__.startswith("ppdm_cli")
    return sorted(set(found), key=lambda kind: kind.__qualname__)


def one_of(kind: Any) -> Exception:
    """Return an exception of a class, with as many texts as it takes."""
    most = 3 if issubclass(kind, PpdmError) else len(signature(kind).parameters)
    return cast(Exception, kind(*["age-outside", "age is outside", "add --clip", "retry"][:most]))


def refused(number: int) -> None:
    """Raise an error in a worker: that of a real call, or one of each kind."""
    if number < 0:
        perturb("nope.parquet", gamma=9)
    raise one_of(errors()[number])


def test_errors_of_workers_come_back_whole() -> None:
    """Pools hang for ever on an exception that cannot be unpickled."""
    kinds = errors()
    assert {PpdmError, UsageError} < set(kinds)
    with get_context("spawn").Pool(1) as pool, ProcessPoolExecutor(1, get_context("spawn")) as executor:
        tasks = [(n, pool.apply_async(refused, (n,)).get) for n in range(-1, len(kinds))]
        tasks += [(n, executor.submit(refused, n).result) for n in range(-1, len(kinds))]
        for number, get in tasks:
            with pytest.raises(Exception) as error:
                get(timeout=100)
            wanted: Exception = DataError("missing-file", "'nope.parquet' does not exist", "check its name")
            if number >= 0:
                wanted = one_of(kinds[number])
            assert type(error.value) is type(wanted) and str(error.value) == str(wanted)
            assert {n: v for n, v in vars(error.value).items() if n != "__notes__"} == vars(wanted)
            assert getattr(error.value, "exit_code", 1) == getattr(wanted, "exit_code", 1)


def test_errors_are_copied_whole() -> None:
    for kind in errors():
        error = one_of(kind)
        for again in (copy(error), deepcopy(error), pickle.loads(pickle.dumps(error))):
            assert type(again) is kind and vars(again) == vars(error) and str(again) == str(error)


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ("gamma = 9\nnosuch = 1\n", "unknown setting 'nosuch'"),
        ("gamma = \n", "not valid TOML (line 1)"),
        ("keep = 5\n", "a list of names"),
        ("keep = [1]\n", "a list of names"),
        ("attributes = 5\n", "tables of settings"),
        ("[attributes]\nage = 5\n", "tables of settings"),
        ("[attributes.age]\nnosuch = 5\n", "unknown setting 'nosuch'"),
        ("[attributes.age]\nedges = 5\n", "must be a list"),
        ("gamma = 9\n[attributes.age]\nedges = [3, 1]\n", "'age' does not fit its type"),
        ("gamma = 9\n[attributes.aeg]\ngamma = 3\n", "Did you mean 'age'"),
        ("bins = 1e400\n", "whole number"),
        ("gamma = [1]\n", "is not a number"),
        ("rho1 = inf\nrho2 = 0.5\n", "is not a finite number"),
        ('representative = "middle"\n', "unknown representative"),
    ],
)
def test_a_plan_that_means_nothing_is_a_usage_error(plan: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(plan)
    with pytest.raises(Exception) as caught:
        perturb(people(), plan=tmp_path / "plan.toml")
    assert getattr(caught.value, "exit_code", None) == 2 and said in str(caught.value)


def test_a_plan_is_an_object_a_mapping_or_a_file_and_settings_are_laid_over_it(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(
        'gamma = 9\nclass = "group"\nkeep = ["group"]\n[attributes]\nage.bins = 5\n'
    )
    settings = {"gamma": 9, "class": "group", "keep": "group", "attributes": {"age": {"bins": 5}}}
    plan = Plan.of(settings)
    assert plan == Plan.of(tmp_path / "plan.toml") == Plan.of(plan)
    expected = perturb(
        people(), gamma=3, class_="group", keep=["group"], attributes={"age": {"bins": 5}}, seed=1
    )
    for given in (settings, plan, tmp_path / "plan.toml", str(tmp_path / "plan.toml")):
        assert perturb(people(), None, given, gamma=3, seed=1).frame.equals(expected.frame)
    for wrong in (5, ["gamma"], b"plan.toml"):
        with pytest.raises(UsageError, match="a plan is a Plan"):
            perturb(people(), plan=wrong)
    with pytest.raises(UsageError, match="unknown setting 'gama' of a plan"):
        perturb(people(), plan={"gama": 9})
    with pytest.raises(TypeError, match="gama"):
        perturb(people(), gama=9)  # type: ignore[call-arg]


def test_an_index_of_pandas_is_a_column_only_where_it_has_a_name(tmp_path: Path) -> None:
    frame = people(200).to_pandas()
    chosen = frame[frame["age"] > 30]
    assert chosen.index.to_list() != list(range(len(chosen)))
    release = perturb(chosen, tmp_path / "r.csv", gamma=9, keep_order=True)
    assert [a.name for a in release.sidecar.attributes] == list(frame.columns)
    named = perturb(chosen.rename_axis("bed"), tmp_path / "n.csv", gamma=9, keep="bed", keep_order=True)
    assert "bed" in [a.name for a in named.sidecar.attributes]
