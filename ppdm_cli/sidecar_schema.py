"""The JSON Schema of sidecars, generated from the types that read them."""

from __future__ import annotations

from typing import Any

import msgspec

from ppdm_cli.channels import KINDS
from ppdm_cli.sidecar import Sidecar


def _channel_schema(_: type) -> dict[str, Any]:
    """Return the JSON Schema of a channel: one of the registered kinds."""
    schemas, components = msgspec.json.schema_components(KINDS.values())
    return {"anyOf": [components[s["$ref"].rsplit("/", 1)[1]] for s in schemas]}


def json_schema() -> bytes:
    """Return the JSON Schema of sidecars, as shipped in `sidecar.schema.json`."""
    schema = msgspec.json.schema(Sidecar, schema_hook=_channel_schema)
    return msgspec.json.format(msgspec.json.encode(schema), indent=2) + b"\n"
