"""The plan of an earlier release for the next batch of the same table (--like)."""

from __future__ import annotations

import msgspec
import pyarrow as pa
from msgspec import UNSET

from ppdm_cli.errors import MismatchError, quoted
from ppdm_cli.perturbing.resolving import ResolvedPlan, clipped, nothing_perturbed
from ppdm_cli.sidecar import Sidecar
from ppdm_cli.sidecar_attributes import Attribute


def like(earlier: Sidecar, schema: pa.Schema, clip: bool = False) -> ResolvedPlan:
    """Return an earlier release's plan for the next batch; columns that it does not name are dropped.

    What it did to values outside domains is done again; `clip` has the others moved too.
    """
    if earlier.stage != "perturbed":
        raise MismatchError(
            f"the sidecar is at stage {earlier.stage!r}, so it holds no owner's plan",
            "name the sidecar of a perturbed release",
        )
    for attribute in earlier.attributes:
        if attribute.name not in schema.names:
            raise MismatchError(
                f"the earlier release has the column {quoted(attribute.name)}, which the data does not have",
                "give the next batch of the same table",
            )
        found = schema.field(attribute.name).type
        if str(found) != attribute.dtype:
            raise MismatchError(
                f"the column {quoted(attribute.name)} is of type {found}, in the earlier "
                f"release {attribute.dtype}",
                "cast it, or declare it with --type",
            )
    names = {a.name: a for a in earlier.attributes}
    attributes = [names[n] for n in schema.names if n in names]
    if clip:
        attributes = [_with_clip(a) for a in attributes]
    if not any(a.role == "perturbed" for a in attributes):
        raise nothing_perturbed()
    class_ = earlier.class_ if isinstance(earlier.class_, str) else None
    merging = frozenset(a.name for a in attributes if a.outside == "other")
    several = tuple(earlier.recipes) if earlier.withholding else ()
    specs = [] if several else [s for d in earlier.dealt for c in d.channels if (s := c.spec) is not None]
    dropped = [n for n in schema.names if n not in names]
    return ResolvedPlan(attributes, specs, class_, dropped, merging, several)


def _with_clip(attribute: Attribute) -> Attribute:
    if attribute.role != "perturbed" or attribute.outside is not UNSET:
        return attribute
    return msgspec.structs.replace(attribute, outside=clipped(attribute.domain))
