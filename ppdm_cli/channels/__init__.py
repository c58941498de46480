"""Channels for perturbing and for all readers of releases: the laws by which codes are replaced, in kinds.

A kind is two things: a *spec* (its name and parameters, as in the sidecar) and, for a domain, a *matrix* (the
law as numbers, for perturbing and estimating). A `Channel` is both with the domains that they are for. Kinds
register themselves; nothing outside this package asks which kind it has.
"""

from __future__ import annotations

from ppdm_cli.channels.additive import AdditiveSpec
from ppdm_cli.channels.band import BandSpec
from ppdm_cli.channels.base import (
    DEFAULT_KIND,
    FIGURES,
    KINDS,
    SUBSTITUTION,
    Beyond,
    Channel,
    GammaSpec,
    Name,
    Recorded,
    Request,
    Scalar,
    Spec,
    checked_kind,
    continued,
    json_gamma,
    kind_names,
    register_kind,
    schemes,
    within,
)
from ppdm_cli.channels.block import BlockSpec
from ppdm_cli.channels.box import Box, BoxSpec, best_widths, information
from ppdm_cli.channels.copies import together
from ppdm_cli.channels.dense import BinarySpec, DenseSpec, SymmetricSpec
from ppdm_cli.channels.exact_draw import (
    ExactDraw,
    checked_gamma,
    rounded_down,
    uniform_below,
    uniform_below_wide,
)
from ppdm_cli.channels.gamma_diagonal import GammaDiagonal, GammaDiagonalSpec
from ppdm_cli.channels.matrix import (
    Law,
    Matrix,
    Noisy,
    Substitution,
    WrittenLaw,
    applied,
    left_inverse,
    likeliest,
)
from ppdm_cli.channels.mixture import Blur, Mixture, blended

__all__ = [
    "DEFAULT_KIND", "FIGURES", "KINDS", "SUBSTITUTION", "AdditiveSpec", "BandSpec", "Beyond", "BinarySpec",
    "BlockSpec", "Blur", "Box", "BoxSpec", "Channel", "DenseSpec", "ExactDraw",
    "GammaDiagonal", "GammaDiagonalSpec", "GammaSpec", "Law", "Matrix", "Mixture", "Name", "Noisy",
    "Recorded", "Request", "Scalar", "Spec", "Substitution", "SymmetricSpec", "WrittenLaw", "applied",
    "best_widths", "blended", "checked_gamma", "checked_kind", "continued", "information",
    "json_gamma", "kind_names", "left_inverse", "likeliest", "register_kind", "rounded_down", "schemes",
    "together", "uniform_below", "uniform_below_wide", "within",
]  # fmt: skip
