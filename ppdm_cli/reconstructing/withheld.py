"""Releases of which most cells are withheld: what is to be drawn from the joint model, and by which class."""

from __future__ import annotations

from ppdm_cli.channels import Channel
from ppdm_cli.errors import RefusedError, listed, unknown
from ppdm_cli.joint import class_of, usable
from ppdm_cli.sidecar import Sidecar


def stand_in(sidecar: Sidecar, method: str | None) -> Channel:
    """Return the class that the model has, or the attribute of the fewest values where none is named."""
    if method not in (None, "joint", "by-class", "global"):
        raise unknown("method", method, ("joint", "by-class", "global"))
    if method not in (None, "joint"):
        raise RefusedError(
            f"--method {method} deals out what was published, and most of this release is withheld",
            "leave out --method: what is withheld is drawn from the joint model",
        )
    label = class_of(sidecar)
    known = {c.name for c in usable(sidecar, label)} | {label.name}
    large = [a.name for a in sidecar.perturbed if a.name not in known]
    if large:
        raise RefusedError(
            f"{listed(large)} has too many values for the joint model, and most of them are withheld",
            "ask the owner for fewer bins",
        )
    return label
