"""The kinds of channel by the names that people ask for."""

from __future__ import annotations

from ppdm_cli.channels.base import KINDS, Spec
from ppdm_cli.channels.gamma_diagonal import GammaDiagonalSpec
from ppdm_cli.errors import unknown

DEFAULT: type[Spec] = GammaDiagonalSpec
"""The kind of channel that an attribute has by default."""
SUBSTITUTION = "substitution"
"""The scheme in which each attribute has a kind of its own."""


def schemes() -> list[str]:
    """Return what may be asked for with --scheme: substitution, and kinds that all attributes have or none."""
    return [SUBSTITUTION, *(k for k, spec in KINDS.items() if spec.everywhere)]


def kinds() -> list[str]:
    """Return what may be asked for with --matrix, the default first."""
    others = sorted(k for k, s in KINDS.items() if s.by_name and not s.everywhere and s is not DEFAULT)
    return [DEFAULT.kind, *others]


def checked_kind(matrix: str) -> str:
    """Return the name of a kind, if it is one."""
    if matrix not in kinds():
        raise unknown("kind of matrix", matrix, kinds())
    return matrix
