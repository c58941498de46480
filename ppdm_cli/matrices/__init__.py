"""The kinds of perturbation matrix, one small class each; they know numbers only.

A kind is two things: a `spec` (what the sidecar says: its name and parameters) and, for a domain
of N codes, a `Matrix` (what perturbs, and what estimating needs). A matrix maps the input codes
0..inputs-1 to the output codes 0..outputs-1. Nothing here supposes that both are equal, that the
matrix is symmetric: a band and additive noise have more outputs than inputs.
"""

from __future__ import annotations

from functools import lru_cache

from ppdm_cli.matrices.additive import Additive, AdditiveSpec, Extents, Noise
from ppdm_cli.matrices.band import Band, BandSpec, best_half_width
from ppdm_cli.matrices.base import Blocks, Matrix, Substitution
from ppdm_cli.matrices.exact import rounded_down
from ppdm_cli.matrices.gamma_diagonal import GammaDiagonal, GammaDiagonalSpec

MatrixSpec = GammaDiagonalSpec | BandSpec | AdditiveSpec
AnyMatrix = GammaDiagonal | Band | Additive

__all__ = [
    "Additive",
    "AdditiveSpec",
    "AnyMatrix",
    "Band",
    "BandSpec",
    "Blocks",
    "Extents",
    "GammaDiagonal",
    "GammaDiagonalSpec",
    "Matrix",
    "MatrixSpec",
    "Noise",
    "Substitution",
    "best_half_width",
    "build",
    "rounded_down",
]


@lru_cache(maxsize=1 << 8)
def build(spec: MatrixSpec, N: int, nulls: bool = False, extents: Extents = ()) -> AnyMatrix:
    """The matrix that a spec describes, over a domain of N codes, of which null is the last where `nulls`.

    Noise depends on where the values of the codes lie; nothing else does.
    """
    if isinstance(spec, AdditiveSpec):
        return Additive(spec.noise, spec.sd, extents)
    if isinstance(spec, BandSpec):
        return Band(spec.exact, N - nulls, spec.half_width, nulls)
    return GammaDiagonal(spec.exact, N)
