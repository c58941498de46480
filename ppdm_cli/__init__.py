"""ppdm: publish records that can be mined but no longer say what anyone's values were.

The library's front door, for notebooks. `perturb` works on paths and on any table that speaks Arrow
(polars, pyarrow, pandas, DuckDB).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ppdm_cli.version import __version__

if TYPE_CHECKING:
    from ppdm_cli.attacks import Attacked, attack
    from ppdm_cli.estimating import Estimate, estimate
    from ppdm_cli.perturbing import Release, perturb
    from ppdm_cli.reconstructing import Reconstructed, reconstruct
    from ppdm_cli.trees import Fitted, Tree, predict, train_tree

__all__ = [
    "Attacked",
    "Estimate",
    "Fitted",
    "Reconstructed",
    "Release",
    "Tree",
    "__version__",
    "attack",
    "estimate",
    "perturb",
    "predict",
    "reconstruct",
    "train_tree",
]

_WHERE = {
    "attack": "ppdm_cli.attacks",
    "Attacked": "ppdm_cli.attacks",
    "perturb": "ppdm_cli.perturbing",
    "Release": "ppdm_cli.perturbing",
    "estimate": "ppdm_cli.estimating",
    "Estimate": "ppdm_cli.estimating",
    "reconstruct": "ppdm_cli.reconstructing",
    "Reconstructed": "ppdm_cli.reconstructing",
    "train_tree": "ppdm_cli.trees",
    "predict": "ppdm_cli.trees",
    "Fitted": "ppdm_cli.trees",
    "Tree": "ppdm_cli.trees",
}


def __getattr__(name: str) -> Any:
    """Import on first use: `ppdm --help` must not wait for numpy."""
    if name in _WHERE:
        from importlib import import_module

        return getattr(import_module(_WHERE[name]), name)
    raise AttributeError(f"module 'ppdm_cli' has no attribute {name!r}")
