"""The entry of a release in the registry of differential-privacy deployments, and its text in YAML.

The fields and their types are those of `schemas/deployments-schema.yaml` in the repository
opendp/deployments-registry-data. No figure of an attack is in it, whether expected or measured.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from ppdm_cli.display import up
from ppdm_cli.errors import RefusedError, one_line
from ppdm_cli.ledger import told
from ppdm_cli.releases import opened
from ppdm_cli.statement.about import check_complete
from ppdm_cli.statement.content import composition, mechanism, post_processing, unit, unprotected
from ppdm_cli.statement.material import Material

_UNTIL = 80
"""The most characters of the slug."""


def entry(m: Material) -> dict[str, Any]:
    """Return the entry; refused where the release promises nothing, or something required is not told."""
    if m.epsilon is None:
        raise RefusedError(
            "nothing is promised of this release, so it is no deployment of differential privacy",
            "register a release with a gamma; statements in .html, .md and .json can be made of any",
        )
    a = m.about
    check_complete(a)
    assert a.published is not None
    full = a.population and a.actors and a.preparation and a.choices
    deployment = {
        "basic": {
            "name": a.name,
            "data_curators": a.curators,
            "intended_use": a.purpose,
            "data_product_type": "Dataset",
            "data_product_region": a.region,
            "description": a.description,
            "publication_date": a.published.isoformat(),
            "data_product_sector": a.sector,
        },
        "dp_variant": {
            "variant_name": "Pure DP",
            "data_domain": a.population,
            "unprotected_quantities": " ".join(unprotected(m)),
        },
        "privacy_loss": {
            "privacy_unit": "Person" if m.privacy.unit == "person" else "Record",
            "privacy_unit_details": " ".join(map(str, unit(m))),
            "privacy_parameters": {"epsilon": m.epsilon},
            "privacy_parameters_details": _per_attribute(m),
        },
        "deployment_model": {
            "model_name": "Local",
            "model_name_details": "Each record is perturbed by itself, as in the local model, but by the "
            "curator, who holds the originals.",
            "actors": a.actors,
            "release_type": {"one": "One release", "many": "Many releases", None: None}[a.releases],
            "release_type_details": a.later,
            "data_source_type": {"static": "Static", "dynamic": "Dynamic", None: None}[a.source],
            "access_type": "Non-interactive",
        },
        "accounting": {"post_processing": post_processing(m), "composition": _composition(m)},
        "implementation": {
            "preprocessing_and_hyperparameter_tuning": a.preparation,
            "mechanisms": f"{mechanism(m)[0]} Made by {m.sidecar.tool}.",
            "justification": a.choices,
        },
        "administrative": {"sources": a.sources, "notes": a.notes, "registry_authors": a.authors},
    }
    slug = re.sub(r"[^a-z0-9]+", "_", a.name.lower()).strip("_")[:_UNTIL] or "release"
    return {"url_slug": slug, "status": "Draft", "tier": 3 if full else 2, "deployment": _told(deployment)}


def _told(part: Any) -> Any:
    """Return the part without what is not stated, and in lines that no name can break."""
    if isinstance(part, dict):
        return {k: _told(v) for k, v in part.items() if v not in (None, "", [])}
    if isinstance(part, list):
        return [_told(v) for v in part]
    return one_line(part) if isinstance(part, str) else part


def _per_attribute(m: Material) -> str:
    if opened(m.sidecar).withholding:
        return "Epsilon is for the whole record, and no attribute of it has a smaller one."
    rows = [f"{r['attribute']} {up(float(r['epsilon'])):.4g}" for r in m.attributes]
    each = "; ".join(rows[:100]) + ("; ..." if len(rows) > 100 else "")
    return f"Epsilon of each attribute by itself: {each}."


def _composition(m: Material) -> str:
    earlier = "" if m.account is None else f" All {len(m.account.entries)} releases about the same people " + (
        f"in the curator's ledger add up to {told(m.account.total)}."
    )  # fmt: skip
    return composition(m) + earlier


def yaml(value: Any) -> str:
    """Return the entry as YAML; texts are in double quotes, as in JSON, which YAML reads alike."""
    return "\n".join(_lines(value, "")) + "\n"


def _lines(value: dict[str, Any], indent: str) -> Iterator[str]:
    for key, inside in value.items():
        if isinstance(inside, dict):
            yield f"{indent}{key}:"
            yield from _lines(inside, indent + "  ")
        elif isinstance(inside, list):
            yield f"{indent}{key}:"
            yield from (f"{indent}  - {json.dumps(v)}" for v in inside)
        else:
            yield f"{indent}{key}: {json.dumps(inside)}"
