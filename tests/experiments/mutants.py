"""Mutants of the arithmetic that privacy depends on: how many of them the tests kill.

`python -m tests.experiments.mutants [HOW_MANY [SEED]]` changes one operator or number at a time in `channels/`,
`coins.py`, the strata and the arithmetic of budgets, runs the quick tests of that module, and those of the
whole package where these pass. It prints each survivor, and the share that was killed. Words, errors and
annotations are left as they are. A mutant is made in memory: no file changes.

On 2026-11-20, of 68 drawn at random, 65 were killed (95.6%), 13 of them by tests that were then written or put among
the quick ones. The others change nothing that is published: which of two equal counts `proof` makes when its time runs out; a short
cut of `uniform_below` around a step that finds nothing to do; and by how much a sidecar may promise too little
protection before it counts as damaged.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import importlib.abc
import importlib.util
import os
import random
import resource
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SLOW = "not own_works and not spark and not nothing_outside and not the_law_of_the_sampler"
SECONDS = 150
"""The processor time after which a mutant counts as killed: it never ends."""
WORDS = {
    "described",
    "short",
    "warnings",
    "remarks",
    "missed",
    "labels",
    "limit",
    "limit_sentence",
    "proposed",
    "proof_sentences",
}
"""Functions that make sentences, which are left as they are."""
CHANNELS = [
    "channels/test_figures.py", "channels/test_sampler.py", "channels/test_formulas.py", "releases/test_proof.py",
    "channels/test_matrix.py", "channels/test_kinds.py", "channels/test_channels.py",
]  # fmt: skip
OWN = {
    "additive": "channels/test_additive.py", "band": "channels/test_band.py", "box": "channels/test_box.py",
    "mixture": "channels/test_box.py", "base": "channels/test_channels.py", "copies": "releases/test_together.py",
    "dense": "channels/test_kinds.py", "binary": "channels/test_kinds.py", "block": "channels/test_kinds.py",
}  # fmt: skip
"""The file that has most tests of a module of channels: it comes first."""
COINS = ["test_coins.py", "perturbing/test_record_keys.py", "test_digests.py"]
STRATA = [
    "releases/test_strata.py",
    "releases/test_together.py",
    "estimating/test_tables.py",
    "joint/test_recipes_learnt.py",
]
BUDGETS = [
    "test_privacy.py",
    "perturbing/test_resolving.py", "perturbing/test_plan.py", "releases/test_proof.py", "releases/test_sidecar.py",
    "perturbing/test_persons.py", "attacks/test_run.py",
]  # fmt: skip
THEN = [
    "channels", "estimating", "attacks/test_audit.py", "attacks/test_known.py", "perturbing", "releases",
    "test_coins.py", "test_black_box.py", "test_metamorphic.py", "domain", "commands/test_commands_perturb.py",
    "commands/test_commands_estimate.py", "commands/test_commands_inspect.py", "statement", "test_digests.py",
]  # fmt: skip
"""Files of tests for what survives those of its module."""


@dataclass(frozen=True)
class Target:
    """A module, the functions of it that are mutated (all where none is named), and its tests."""

    module: str
    tests: list[str]
    functions: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        return ROOT / (self.module.replace(".", "/") + ".py")


TARGETS = [
    *(
        Target(
            f"ppdm_cli.channels.{p.stem}",
            list(dict.fromkeys([CHANNELS[0], OWN.get(p.stem, CHANNELS[1]), *CHANNELS])),
        )
        for p in sorted((ROOT / "ppdm_cli" / "channels").glob("*.py"))
        if p.stem != "__init__"
    ),
    Target("ppdm_cli.coins", COINS),
    Target("ppdm_cli.releases.strata", STRATA),
    Target("ppdm_cli.releases.proof", ["releases/test_proof.py"]),
    Target("ppdm_cli.privacy", BUDGETS),
    Target("ppdm_cli.perturbing.resolving", BUDGETS, ("gammas_of", "privacy", "request", "chosen")),
    Target("ppdm_cli.releases.opened_release", BUDGETS, ("_check_promise",)),
]

SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.BitXor: ast.BitOr,
}  # fmt: skip


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what of a node may be mutated."""
    if isinstance(node, (ast.Raise, ast.JoinedStr, ast.Import, ast.ImportFrom, ast.arg, ast.Assert)):
        return
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        if name == "keywords" and isinstance(node, ast.ClassDef):
            continue
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, ast.FunctionDef) and one.name in WORDS:
                continue
            if isinstance(one, ast.keyword) and one.arg == "strict":
                continue
            if isinstance(one, ast.If) and "TYPE_CHECKING" in ast.dump(one.test):
                continue
            if isinstance(one, ast.AST):
                yield one


def sites(node: ast.AST, functions: tuple[str, ...] = (), inside: bool = False) -> Iterator[ast.AST]:
    """Yield the nodes that have a mutant, in an order that a copy of the tree has too."""
    inside = inside or not functions or getattr(node, "name", "") in functions
    if inside and _mutated(node) is not None:
        yield node
    for child in _children(node):
        yield from sites(child, functions, inside)


def _mutated(node: ast.AST) -> Callable[[], None] | None:
    """Return what mutates a node in its place."""
    match node:
        case ast.Compare(ops=[op]) if type(op) in SWAPS:
            return lambda: node.ops.__setitem__(0, SWAPS[type(op)]())
        case ast.BinOp(op=op, left=left) if type(op) in SWAPS and not isinstance(
            left, ast.Constant | ast.JoinedStr
        ):
            return lambda: setattr(node, "op", SWAPS[type(op)]())
        case ast.BoolOp(op=op) | ast.AugAssign(op=op) if type(op) in SWAPS:
            return lambda: setattr(node, "op", SWAPS[type(op)]())
        case ast.Constant(value=bool(value)):
            return lambda: setattr(node, "value", not value)
        case ast.Constant(value=int(value)):
            return lambda: setattr(node, "value", value + 1)
        case ast.Constant(value=float(value)):
            return lambda: setattr(node, "value", value * 1.25 + 0.01)
        case ast.UnaryOp(op=ast.Not()):
            return lambda: (setattr(node, "op", ast.UAdd()), setattr(node, "operand", _truth(node.operand)))[0]
        case ast.IfExp(body=body, orelse=orelse):
            return lambda: (setattr(node, "body", orelse), setattr(node, "orelse", body))[0]
    return None


def _truth(node: ast.expr) -> ast.expr:
    return ast.Call(ast.Name("bool", ast.Load()), [node], [])


@dataclass(frozen=True)
class Mutant:
    target: Target
    number: int

    def tree(self) -> tuple[ast.Module, str]:
        """Return the mutated module, and what was changed."""
        tree = ast.parse(self.target.path.read_text("utf-8"))
        node = list(sites(tree, self.target.functions))[self.number]
        before = ast.unparse(copy.deepcopy(node))
        mutate = _mutated(node)
        assert mutate is not None
        mutate()
        where = f"{self.target.module}:{getattr(node, 'lineno', 0)}"
        return ast.fix_missing_locations(tree), f"{where}: {before} -> {ast.unparse(node)}"


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives one module as its mutant."""

    def __init__(self, mutant: Mutant) -> None:
        self.name, (tree, _) = mutant.target.module, mutant.tree()
        self.path = str(mutant.target.path)
        self.code = compile(tree, self.path, "exec")

    def find_spec(self, fullname: str, path: object, target: object = None) -> object:
        if fullname != self.name:
            return None
        return importlib.util.spec_from_file_location(fullname, self.path, loader=self)

    def create_module(self, spec: object) -> None:
        return None

    def exec_module(self, module: object) -> None:
        exec(self.code, vars(module))


def survives(mutant: Mutant | None, tests: list[str], seconds: int = SECONDS) -> bool:
    """Return whether tests pass with a mutant, in a process of their own."""
    child = os.fork()
    if not child:
        code = 1
        with contextlib.suppress(BaseException):
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
            resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
            with Path(os.devnull).open("w") as nowhere:
                os.dup2(nowhere.fileno(), 1)
                os.dup2(nowhere.fileno(), 2)
            if mutant is not None:
                sys.meta_path.insert(0, _Finder(mutant))
            import pytest

            chosen = [str(ROOT / "tests" / t) for t in tests]
            options = ["-x", "-q", "-n", "0", "-p", "no:cacheprovider", "-p", "no:randomly"]
            code = int(pytest.main([*options, *chosen, "-k", SLOW]))
        os._exit(code)
    return os.waitpid(child, 0)[1] == 0


def main(how_many: int, seed: int) -> None:
    os.chdir(ROOT)
    import numpy as np  # noqa: F401 - for all children
    import pytest  # noqa: F401
    import scipy.stats  # noqa: F401

    every = [
        Mutant(target, number)
        for target in TARGETS
        for number in range(len(list(sites(ast.parse(target.path.read_text("utf-8")), target.functions))))
    ]
    chosen = random.Random(seed).sample(every, min(how_many, len(every)))
    print(f"{len(chosen)} of {len(every)} mutants, seed {seed}", flush=True)
    alive, began = list[str](), time.monotonic()
    for done, mutant in enumerate(chosen, 1):
        said = mutant.tree()[1]
        if survives(mutant, mutant.target.tests) and survives(mutant, THEN, 4 * SECONDS):
            alive.append(said)
            print(f"survives: {said}", flush=True)
        if done % 10 == 0:
            print(f"{done}: {1 - len(alive) / done:.1%} killed, {time.monotonic() - began:.0f} s", flush=True)
    print(f"killed: {len(chosen) - len(alive)} of {len(chosen)} ({1 - len(alive) / len(chosen):.1%})")


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 150, int(sys.argv[2]) if sys.argv[2:] else 1)
