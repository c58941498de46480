"""What an owner asks of noise that keeps a decision tree: schemes, the tree, and what is altered.

Islam and Brankovic, sections 3.1 and 3.2. Every column that is not altered is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

import pyarrow as pa

from ppdm_cli import dtypes
from ppdm_cli.errors import UsageError, listed, quoted, unknown_column
from ppdm_cli.settings import names, real
from ppdm_cli.sidecar import Scheme
from ppdm_cli.trees import Tree, as_tree

SCHEMES: tuple[str, ...] = get_args(Scheme)
INNOCENT = SCHEMES[-1]
PAPER = 27.6
"""The standard deviation of the paper's noise, in per cent of the value."""
_CHOICES = {
    "innocent": ("both", "tia", "lia"),
    "leaves": ("all", "heterogeneous"),
    "percent_of": ("value", "sd"),
}


def named(scheme: Any) -> bool:
    """Return whether any of the schemes that are asked for keeps a tree."""
    return any(s in SCHEMES for s in _parts(scheme))


def _parts(scheme: Any) -> list[str]:
    return [s.strip() for s in str(scheme or "").split(",")]


@dataclass(frozen=True)
class NoisePlan:
    """Noise that keeps a tree, as it is asked for."""

    schemes: tuple[str, ...]
    tree: Tree
    innocent: str = "both"
    """`tia`: attributes that the tree tests nowhere; `lia`: those tested elsewhere than on a leaf's path."""
    leaves: str = "all"
    """Whether cases of all leaves get other innocent attributes, or only those of heterogeneous ones."""
    sd_percent: float = PAPER
    percent_of: str = "value"
    keep: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()

    @classmethod
    def of(cls, tree: Any, settings: Mapping[str, Any]) -> NoisePlan:
        """Return the plan that settings ask for; those of random substitution are refused."""
        given = {
            k: v for k, v in settings.items() if v is not None and v is not False and v not in ((), {}, [])
        }
        if not named(given.get("scheme")):
            raise UsageError("a tree goes with noise that keeps it", "use --scheme class-random, or no --tree")
        schemes = tuple(_parts(given.pop("scheme")))
        if (
            len(set(schemes)) < len(schemes)
            or sum(s != INNOCENT for s in schemes) > 1
            or {*schemes} - {*SCHEMES}
        ):
            raise UsageError(
                f"{quoted(','.join(schemes))} are no schemes that go together",
                f"one of {', '.join(SCHEMES[:-1])}, or {INNOCENT}, or one with {INNOCENT} after a comma",
            )
        if tree is None:
            raise UsageError(
                f"{schemes[0]} noise keeps a tree, and none is named",
                "train it on this very table (ppdm train-tree), and add --tree tree.json",
            )
        tree, own = as_tree(tree), {k: given.pop(k) for k in [*_CHOICES, "sd_percent"] if k in given}
        if own and INNOCENT not in schemes:
            raise UsageError(f"{listed(own)} go with innocent noise only", "add innocent to --scheme")
        for name, values in _CHOICES.items():
            if name in own and own[name] not in values:
                raise UsageError(
                    f"{quoted(own[name])} is no {name.replace('_', ' ')}", f"one of {listed(values)}"
                )
        if "sd_percent" in own:
            own["sd_percent"] = real(own["sd_percent"])
            if not 0 < own["sd_percent"] <= 1e6:
                raise UsageError("the standard deviation must be above 0 %", f"the paper's is {PAPER}")
        keep, drop = (names(k, given.pop(k, ())) for k in ("keep", "drop"))
        if given.pop("class_", tree.class_name) != tree.class_name:
            raise UsageError(f"the tree's class is {quoted(tree.class_name)}", "leave out --class")
        if given:
            raise UsageError(
                f"{schemes[0]} noise takes no {listed(given)}: that is for random substitution",
                "leave them out",
            )
        return cls(schemes, tree, **own, keep=keep, drop=drop)

    @property
    def class_scheme(self) -> str | None:
        """Return how the class is altered, if it is."""
        return next((s for s in self.schemes if s != INNOCENT), None)

    def check(self, schema: pa.Schema) -> None:
        """Check that the columns are the tree's, or are kept or dropped by name."""
        tree = self.tree
        known = [f.name for f in tree.features] + [tree.class_name]
        for option, asked in (("keep", self.keep), ("drop", self.drop)):
            for name in asked:
                if name not in schema.names:
                    raise unknown_column(name, schema.names, option)
        tested = {tree.features[i].name for i in tree.feature.tolist() if i >= 0}
        if lost := sorted((tested | {tree.class_name}) & {*self.drop}):
            raise UsageError(f"{listed(lost)} cannot be dropped: the tree needs them", "keep them")
        if twice := sorted({*self.keep} & {*self.drop}):
            raise UsageError(f"{listed(twice)} both kept and dropped", "say one of them")
        if self.class_scheme and tree.class_name in self.keep:
            raise UsageError(f"the class is kept, and {self.class_scheme} noise alters it", "leave out --keep")
        if tree.class_name not in schema.names:
            raise unknown_column(tree.class_name, schema.names, "tree")
        strange = [n for n in schema.names if n not in {*known, *self.keep, *self.drop}]
        if strange:
            raise UsageError(
                f"the tree was not trained on {listed(strange)}, so nothing says that they are innocent",
                "--drop them, or --keep them if they are public",
            )

    def innocents(self, schema: pa.Schema) -> tuple[list[str], list[str]]:
        """Return the attributes that may be altered, and those that are innocent but cannot take noise."""
        if INNOCENT not in self.schemes:
            return [], []
        tree = self.tree
        able: list[str] = []
        unable: list[str] = []
        tested = {tree.features[i].name for i in tree.feature.tolist() if i >= 0}
        for name in (n for n in schema.names if n not in {*self.keep, *self.drop, tree.class_name}):
            if (self.innocent == "tia" and name in tested) or (self.innocent == "lia" and name not in tested):
                continue
            kind = dtypes.normal(schema.field(name).type, name)
            plain = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
            takes = (plain or self.percent_of == "sd") and not dtypes.is_discrete(kind) and kind != pa.uint64()
            (able if takes else unable).append(name)
        return able, unable
