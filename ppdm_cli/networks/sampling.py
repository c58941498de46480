"""Records drawn from a network: each node's state by those of its parents, block by block."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa

from ppdm_cli.errors import UsageError, listed
from ppdm_cli.networks.network import Network

BLOCK = 1 << 16


def sample(network: Network, records: int, seed: int) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Return the schema of the records, a text column for each node, and the records in batches."""
    missing = [n.name for n in network if n.parameters is None]
    if missing:
        raise UsageError(f"the network has no parameters for {listed(missing)}", "give one that has them all")
    schema = pa.schema([pa.field(n, pa.string(), False) for n in network.nodes])
    return schema, map(partial(_block, network, schema, records, seed), range(0, records, BLOCK))


def _block(network: Network, schema: pa.Schema, records: int, seed: int, start: int) -> pa.RecordBatch:
    rng, rows = np.random.default_rng([seed, start // BLOCK]), min(BLOCK, records - start)
    codes: dict[str, np.ndarray] = {}
    for name in network.order:
        node = network[name]
        assert node.parameters is not None
        row = np.zeros(rows, np.int64)
        for parent in node.parents:
            row = row * len(network[parent].states) + codes[parent]
        limits = np.cumsum(node.parameters, axis=1)[:, :-1]
        # a state of no chance is never drawn: the uniform numbers are below 1, which rounding may miss
        limits = np.where(limits > 1 - 1e-12, 1.0, limits)
        codes[name] = (rng.random(rows)[:, None] >= limits.take(row, axis=0)).sum(axis=1)
    columns = [pa.array(n.states).take(pa.array(codes[n.name])) for n in network]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
