"""The library of ppdm: share a table with its values randomised, and recover accurate statistics from it.

Notebooks import these functions. They take paths and any table that speaks Arrow (polars, pyarrow, pandas,
DuckDB), and treat a table by the stage in its sidecar.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from ppdm_cli.attacks import Attacked, attack
    from ppdm_cli.engine import on_spark, running
    from ppdm_cli.entropies import Entropy, RecordDesigns, designs, entropy, record_designs
    from ppdm_cli.errors import DataError, MismatchError, PpdmError, RefusedError, UsageError
    from ppdm_cli.estimating import Estimate, estimate
    from ppdm_cli.networks import Network, merge_networks, train_bayes
    from ppdm_cli.perturbing import Plan, Release, describe, perturb
    from ppdm_cli.planning import Proposal, plan
    from ppdm_cli.querying import Answers, query
    from ppdm_cli.reconstructing import Reconstructed, reconstruct
    from ppdm_cli.releases import Inspected, inspect
    from ppdm_cli.sidecar import Sidecar
    from ppdm_cli.sklearn import PpdmTreeClassifier as PpdmTreeClassifier  # needs an extra: not in __all__
    from ppdm_cli.statement import state
    from ppdm_cli.tables import CsvOptions
    from ppdm_cli.trees import Compared, Fitted, FromRelease, Tree, compare, predict, train_tree

__all__ = [
    "Answers", "Attacked", "Compared", "CsvOptions", "DataError", "Entropy", "Estimate", "Fitted",
    "FromRelease", "Inspected", "MismatchError", "Network", "Plan", "PpdmError", "Proposal",
    "Reconstructed", "RecordDesigns", "RefusedError", "Release", "Sidecar", "Tree", "UsageError",
    "__version__", "attack", "compare", "describe", "designs", "entropy", "estimate", "inspect",
    "merge_networks", "on_spark", "perturb", "plan", "predict", "query", "reconstruct", "record_designs",
    "running", "state", "train_bayes", "train_tree",
]  # fmt: skip

_ROOMS = {
    "attacks": ("Attacked", "attack"),
    "engine": ("on_spark", "running"),
    "errors": ("DataError", "MismatchError", "PpdmError", "RefusedError", "UsageError"),
    "estimating": ("Estimate", "estimate"),
    "entropies": ("Entropy", "RecordDesigns", "designs", "entropy", "record_designs"),
    "networks": ("Network", "merge_networks", "train_bayes"),
    "perturbing": ("Plan", "Release", "describe", "perturb"),
    "planning": ("Proposal", "plan"),
    "querying": ("Answers", "query"),
    "reconstructing": ("Reconstructed", "reconstruct"),
    "releases": ("Inspected", "inspect"),
    "sidecar": ("Sidecar",),
    "sklearn": ("PpdmTreeClassifier",),
    "statement": ("state",),
    "tables": ("CsvOptions",),
    "trees": ("Compared", "Fitted", "FromRelease", "Tree", "compare", "predict", "train_tree"),
}
_WHERE = {name: f"ppdm_cli.{room}" for room, names in _ROOMS.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import a name on first use: `ppdm --help` must not wait for numpy."""
    if name not in _WHERE:
        raise AttributeError(f"module 'ppdm_cli' has no attribute {name!r}")
    from importlib import import_module

    found = getattr(import_module(_WHERE[name]), name)
    if not isinstance(found, type):
        from ppdm_cli.engine import where_the_data_are

        found = where_the_data_are(found)
        found.__module__ = __name__  # where pickle finds it
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return __all__
