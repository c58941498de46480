"""Channels: the laws by which the codes of attributes are replaced, one file a kind.

A kind is two things: a *spec* (what the sidecar says: its name and parameters) and, for a domain, a
*matrix* (the law as numbers, which perturbs, and which estimating needs). A `Channel` is both with the
domains that they are for. Kinds register themselves; nothing outside this room asks which kind it has.
"""

from __future__ import annotations

from ppdm_cli.channels.additive import AdditiveSpec
from ppdm_cli.channels.asking import DEFAULT, SUBSTITUTION, checked_kind, kinds, schemes
from ppdm_cli.channels.band import BandSpec
from ppdm_cli.channels.base import FIGURES, KINDS, Cells, Name, Recorded, Request, Spec, register
from ppdm_cli.channels.beyond import Beyond, Scalar, beyond_values, continued, within
from ppdm_cli.channels.binary import BinarySpec
from ppdm_cli.channels.block import BlockSpec
from ppdm_cli.channels.blur import Blur
from ppdm_cli.channels.box import Box, BoxSpec
from ppdm_cli.channels.channel import Channel
from ppdm_cli.channels.copies import together
from ppdm_cli.channels.dense import DenseSpec
from ppdm_cli.channels.exact_draw import checked_gamma, rounded_down, uniform_below_wide
from ppdm_cli.channels.explicit import Written
from ppdm_cli.channels.gamma_diagonal import GammaDiagonal, GammaDiagonalSpec
from ppdm_cli.channels.half_widths import best_widths, information
from ppdm_cli.channels.least_squares import applied, left_inverse, likeliest
from ppdm_cli.channels.matrix import Blocks, Law, Matrix, Noisy, Substitution
from ppdm_cli.channels.mixture import Marginal, Mixture
from ppdm_cli.channels.symmetric import SymmetricSpec

__all__ = [
    "DEFAULT",
    "FIGURES",
    "KINDS",
    "SUBSTITUTION",
    "AdditiveSpec",
    "BandSpec",
    "Beyond",
    "BinarySpec",
    "BlockSpec",
    "Blocks",
    "Blur",
    "Box",
    "BoxSpec",
    "Cells",
    "Channel",
    "DenseSpec",
    "GammaDiagonal",
    "GammaDiagonalSpec",
    "Law",
    "Marginal",
    "Matrix",
    "Mixture",
    "Name",
    "Noisy",
    "Recorded",
    "Request",
    "Scalar",
    "Spec",
    "Substitution",
    "SymmetricSpec",
    "Written",
    "applied",
    "best_widths",
    "beyond_values",
    "checked_gamma",
    "checked_kind",
    "continued",
    "information",
    "kinds",
    "left_inverse",
    "likeliest",
    "register",
    "rounded_down",
    "schemes",
    "together",
    "uniform_below_wide",
    "within",
]  # fmt: skip
