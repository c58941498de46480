"""Dealing original values to the records of one partition, ties broken by coins.

The records are put in a random order first and sorted by their published value then, so that among
records of one published value every assignment is equally likely. Each attribute has an order of
its own: a shared one would tie the attributes together.
"""

from __future__ import annotations

import hashlib

import msgspec
import numpy as np

from ppdm_cli.arrays import Codes


def coins(release: str, *purpose: object) -> np.random.Generator:
    """A generator that follows from the release's id and a purpose: the result is repeatable.

    These coins protect nothing: who has the release may know them.
    """
    digest = hashlib.blake2b(msgspec.json.encode([release, *purpose]), digest_size=32).digest()
    return np.random.Generator(np.random.SFC64(list(np.frombuffer(digest, np.uint32))))


def deal(
    codes: np.ndarray, targets: np.ndarray, amounts: np.ndarray, rng: np.random.Generator, out: Codes
) -> None:
    """Give the records, in the order of their codes, `amounts` times each of `targets`.

    `targets` and `amounts` are the steps of a plan, by source; the amounts sum to the records.
    """
    order = rng.permutation(len(codes))
    # numpy sorts narrow integers by radix where a stable sort is asked for; here any sort will do
    by_code = np.argsort(codes[order], kind="stable" if codes.itemsize <= 2 else None)
    out[order[by_code]] = np.repeat(targets, amounts)
