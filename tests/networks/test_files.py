"""Networks in files: what we write is read back, by us and by other tools; what is broken is told in a line."""

from __future__ import annotations

import tempfile
from importlib.util import find_spec
from itertools import product
from math import log
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ppdm_cli import MismatchError
from ppdm_cli.networks import Network, Node, load
from ppdm_cli.networks.files import GRID, as_bif, as_json, on_grid
from ppdm_cli.networks.network import NetworkSource, distances, marginal
from tests.networks.test_learning import DATA, THREE
from tests.vocabulary import raises, structure

HOSTILE = ["self employed", "[20, 23)", 'say "x"', "a,b", "table", "Probability", "}", "//", "*/", "\u00e9"]
labels = st.sampled_from([*HOSTILE, "", "null", "yes", "no", "s0", "n1", "A", "a"]) | st.text(
    min_size=1, max_size=5
)


@st.composite
def networks(draw: st.DrawFn) -> Network:
    nodes: list[Node] = []
    for i, name in enumerate(draw(st.lists(labels.filter(bool), min_size=1, max_size=4, unique=True))):
        parents = tuple(n.name for n in nodes[: draw(st.integers(0, min(i, 2)))])
        states = tuple(draw(st.lists(labels, min_size=1, max_size=3, unique=True)))
        rows = int(np.prod([len(n.states) for n in nodes if n.name in parents], dtype=int))
        cells = rows * len(states)
        table = np.array(draw(st.lists(st.integers(0, 9), min_size=cells, max_size=cells)), float)
        shares = table.reshape(rows, -1) + np.eye(len(states))[0] * 1e-9
        shares /= shares.sum(axis=1, keepdims=True)
        error = None if draw(st.booleans()) else np.where(shares > 0.5, np.nan, 0.25)
        records = None if error is None else np.full(rows, 7.0)
        raw = (name,) if draw(st.booleans()) else ()
        nodes.append(Node(name, parents, states, shares, error, records, raw))
    return Network.of(nodes, [NetworkSource("0" * 36, draw(st.sampled_from([None, 2.5, float("inf")])))])


def read(text: str, name: str) -> Network:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_text(text, "utf-8")
        return load(path)


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_the_order_is_by_generation_and_then_that_of_the_file(data: st.DataObject) -> None:
    names = [f"n{i}" for i in range(data.draw(st.integers(1, 8)))]
    before = data.draw(st.permutations(names))
    parents = {n: tuple(p for p in before[: before.index(n)] if data.draw(st.booleans())) for n in names}
    done: list[str] = []
    while len(done) < len(names):
        done += [n for n in names if n not in done and all(p in done for p in parents[n])]
    assert Network.of([Node(n, parents[n]) for n in names]).order == done


@pytest.mark.parametrize("turned", [1, -1])
def test_a_long_chain_takes_no_longer_than_it_is(turned: int) -> None:
    """Thirty thousand nodes took hours where each generation looked at all of them."""
    chain = [Node(f"n{i}", (f"n{i - 1}",) if i else ()) for i in range(30_000)]
    assert Network.of(chain[::turned]).order == [n.name for n in chain]
    ring = [*chain[1:], Node("n0", ("n29999",))]
    with pytest.raises(ValueError, match="it has a cycle"):
        Network.of(ring)


def bif_of(parents: int, rows: str) -> str:
    names = [f"p{i}" for i in range(parents)]
    lines = [f"variable {n} {{ type discrete [ 2 ] {{ a, b }}; }}" for n in [*names, "x"]]
    lines += [f"probability ( {n} ) {{ table .5, .5; }}" for n in names]
    return "\n".join([*lines, f"probability ( x | {', '.join(names)} ) {{ {rows} }}"])


@settings(max_examples=30, deadline=None)
@given(networks())
def test_what_is_written_is_read_back(network: Network) -> None:
    for text, name, off in ((as_bif(network), "n.bif", 3 / GRID), (as_json(network), "n.json", 1e-15)):
        assert text.isascii()
        found = read(text, name)
        assert (list(found.nodes), found.sources) == (list(network.nodes), network.sources)
        for a, b in zip(network, found, strict=True):
            assert (a.parents, a.states, a.raw) == (b.parents, b.states, b.raw)
            assert a.parameters is not None and b.parameters is not None
            assert np.abs(a.parameters - b.parameters).max() <= off
            assert ((a.parameters > 0) == (b.parameters > 0)).all()
            for one, other in ((a.std_error, b.std_error), (a.records, b.records)):
                np.testing.assert_array_equal(one, other)  # type: ignore[arg-type]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8).filter(lambda v: sum(v) > 0))
def test_parameters_in_a_bif_are_the_same_in_single_precision_and_sum_to_1(values: list[float]) -> None:
    shares = np.array(values) / sum(values)
    found = np.array(on_grid(shares))
    assert found.sum() == 1 and (found.astype(np.float32) == found).all()
    assert ((found > 0) == (shares > 0)).all()


needs_readers = pytest.mark.skipif(
    not (find_spec("pgmpy") and find_spec("pyagrum")),
    reason="pgmpy and pyagrum are peers, not development tools; `make peers` installs them and runs this",
)


@needs_readers
@pytest.mark.parametrize("name", ["asia", "alarm", "hostile"])
@pytest.mark.filterwarnings("ignore")
def test_pgmpy_and_pyagrum_read_it_and_infer_the_same(name: str, tmp_path: Path) -> None:
    import pyagrum
    from pgmpy.inference import VariableElimination
    from pgmpy.readwrite import BIFReader

    names = {n: n for n in "abc"}
    network = THREE
    if name == "hostile":
        names = dict(zip("abc", ["is it, so?", "Probability", "probability"], strict=True))
        states = dict(zip("abc", [("[0, 1)", "[1, 2]"), ("a b", '"', "}"), ("yes", "no")], strict=True))
        nodes = [Node(names[n.name], tuple(names[p] for p in n.parents), states[n.name], n.parameters)
                 for n in THREE]  # fmt: skip
        network = Network.of(nodes)
    else:
        whole = load(DATA / f"{name}.bif")
        rng = np.random.default_rng(1)  # parameters with all their digits, as learnt ones have
        tables = {n.name: np.asarray(n.parameters) * rng.uniform(0.5, 1, np.shape(n.parameters)) for n in whole}
        nodes = [Node(n.name, n.parents, n.states, tables[n.name] / tables[n.name].sum(1, keepdims=True))
                 for n in whole]  # fmt: skip
        network = Network.of(nodes)
    path = tmp_path / "n.bif"
    path.write_text(as_bif(network))
    network = load(path)
    theirs, other = pyagrum.loadBN(str(path)), BIFReader(str(path)).get_model()
    assert theirs.size() == len(other.nodes()) == len(network.nodes)
    inferred, elimination = pyagrum.LazyPropagation(theirs), VariableElimination(other)
    inferred.makeInference()
    written = list(other.nodes()) if name == "hostile" else list(network.nodes)
    for node, called in zip(network, written, strict=True):
        one = np.array(inferred.posterior(called).tolist())
        found = elimination.query([called], show_progress=False)
        assert np.abs(found.values - one).max() < 1e-9
        assert np.abs(marginal(network, [node.name]) - one).max() < 1e-9


def test_a_joint_distribution_is_that_of_all_combinations() -> None:
    network = load(DATA / "asia.bif")
    names = ("tub", "dysp", "smoke")
    expected = np.zeros((2, 2, 2))
    for states in product(range(2), repeat=8):
        codes = dict(zip(network.nodes, states, strict=True))
        chance = 1.0
        for node in network:
            row = int(np.ravel_multi_index([codes[p] for p in node.parents], [2] * len(node.parents))) \
                if node.parents else 0  # fmt: skip
            chance *= np.asarray(node.parameters)[row, codes[node.name]]
        expected[tuple(codes[n] for n in names)] += chance
    np.testing.assert_allclose(marginal(network, names), expected, rtol=1e-12)


def test_the_distance_is_that_of_the_paper() -> None:
    def two(a: float, b: float, order: tuple[str, ...] = ("no", "yes")) -> Network:
        rows = np.array([[a, 1 - a], [b, 1 - b]])
        root = Node("p", (), order, np.array([[0.25, 0.75]]))
        return Network.of([root, Node("c", ("p",), ("x", "y"), rows)])

    found = distances(two(0.5, 0.2), two(0.4, 0.2))
    expected = 0.25 * (0.5 * log(0.5 / 0.4) + 0.5 * log(0.5 / 0.6))
    assert [d.node for d in found] == ["p", "c"] and found[1].nats == pytest.approx(expected)
    (_, infinite) = distances(two(0.5, 0.2), two(0.5, 0.0))
    assert infinite.nats == float("inf") and infinite.where == ("p = yes",)
    (root, same) = distances(two(0.5, 0.2), two(0.2, 0.5, ("yes", "no")))
    assert root.nats > 0 and same.nats == 0
    with pytest.raises(MismatchError):
        distances(two(0.5, 0.2), two(0.5, 0.2, ("no", "perhaps")))


BIF = """network "a b" { property author "x; y" ; }
/* declared */ variable a { type discrete [ 2 ] { no, "y e s" }; property position = (1, 2); }
variable b { type discrete[2] { x y }; }
probability ( a ) { table 0.25 0.75; } // the root
probability ( b | a ) { default 0.1, 0.9; ("y e s") 0.3, 0.7; }
"""


def test_bif_is_read_as_others_write_it() -> None:
    table = "probability ( b | a ) { table 0.1, 0.3, 0.9, 0.7; }"
    for text in (BIF, BIF.partition("probability ( b")[0] + table):
        network = read(text, "n.bif")
        assert (network["a"].states, network["b"].parents) == (("no", "y e s"), ("a",))
        assert np.asarray(network["a"].parameters).tolist() == [[0.25, 0.75]]
        assert np.asarray(network["b"].parameters).tolist() == [[0.1, 0.9], [0.3, 0.7]]


def test_json_may_say_the_structure_alone() -> None:
    found = read(structure("smoke -> lung", "lung -> xray", "smoke -> bronchitis"), "net.json")
    parents = {"smoke": (), "lung": ("smoke",), "xray": ("lung",), "bronchitis": ("smoke",)}
    assert {n.name: n.parents for n in found} == parents


BROKEN = {
    "cycle": ("n.json", structure("a -> b", "b -> c", "c -> a")),
    "nothing": ("n.json", structure()),
    "own parent": ("n.json", structure("a -> a")),
    "another format": ("n.xml", "<BIF>"),
    "continuous": ("n.bif", BIF.replace("discrete [ 2 ] { no, \"y e s\" }", "continuous")),
    "space": ("n.bif", BIF.replace('"y e s"', "y e s")),
    "comma": ("n.bif", BIF.replace("x y", "x, y, z")),
    "bracket": ("n.bif", BIF.replace("x y", "[0, 1)")),
    "quote": ("n.bif", BIF.replace('"y e s"', '"y e s')),
    "twice": ("n.bif", BIF.replace("variable b", "variable a")),
    "unknown state": ("n.bif", BIF.replace('("y e s")', "(perhaps)")),
    "no parent": ("n.bif", BIF.replace("b | a", "b | c")),
    "short row": ("n.bif", BIF.replace("0.3, 0.7", "0.3")),
    "no number": ("n.bif", BIF.replace("0.3, 0.7", "0.3, x")),
    "no sum": ("n.bif", BIF.replace("0.3, 0.7", "0.3, 0.8")),
    "negative": ("n.bif", BIF.replace("0.3, 0.7", "-0.3, 1.3")),
    "infinite": ("n.bif", BIF.replace("0.3, 0.7", "-inf, inf")),
    "too large a sum": ("n.bif", BIF.replace("0.3, 0.7", "1e308, 1e308")),
    "nan": ("n.bif", BIF.replace("0.3, 0.7", "nan, nan")),
    "no row": ("n.bif", BIF.replace("default 0.1, 0.9; ", "")),
    "open statement": ("n.bif", BIF.replace("0.3, 0.7;", "0.3, 0.7")),
    "cut": ("n.bif", BIF[:150]),
    "no block": ("n.bif", "hello { }"),
    "parameters without end": ("n.bif", bif_of(20, "default .5, .5;")),
    "more than a number holds": ("n.bif", bif_of(63, "default .5, .5;")),
    "not ours": ("n.bif", '// ppdm a {"x": 1}\n' + BIF),
    "no JSON": ("n.json", "{"),
    "another JSON": ("n.json", '{"format": "ppdm-tree"}'),
    "a field": ("n.json", as_json(THREE).replace('"name"', '"nom"')),
}  # fmt: skip


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_file_is_refused_in_a_line(case: str) -> None:
    name, text = BROKEN[case]
    with raises("invalid-network") as refused:
        read(text, name)
    assert "\n" not in str(refused.value) and len(refused.value.what) < 500


def test_no_cut_of_a_file_is_anything_but_a_network_or_a_line() -> None:
    for text, name in ((as_bif(THREE), "n.bif"), (as_json(THREE), "n.json")):
        for end in range(0, len(text), max(1, len(text) // 60)):
            try:
                read(text[:end], name)
            except MismatchError as error:
                assert error.id == "invalid-network"
