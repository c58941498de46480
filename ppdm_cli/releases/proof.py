"""Proofs for `inspect --prove`: what each sampler of a release publishes, counted number by number.

A published code follows from a true one and from one whole number below a range, all of them equally likely.
How many of the numbers publish each code is the matrix, without rounding. Anyone can add up its columns and
divide the entries of its rows (docs/technical/check_proof.py). Where a sampler has too many numbers or entries,
the counts are those of its proof, which tests verify for every gamma and size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import inf, lcm, log, prod
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec import UNSET

from ppdm_cli.channels import Channel, Matrix
from ppdm_cli.display import up
from ppdm_cli.errors import MismatchError, RefusedError
from ppdm_cli.files import one_run
from ppdm_cli.releases.inspection import inspect
from ppdm_cli.releases.opened_release import opened
from ppdm_cli.sidecar import TOOL, Sidecar
from ppdm_cli.tables import PendingFile, TableLike, commit, path_of

FORMAT = "ppdm-proof"
MOST_DRAWS = 1 << 25
MOST_OF_ONE = 1 << 18
"""The most draws of a sampler that is run on every number."""
MOST_WRITTEN = 1 << 20
"""The most entries of matrices that are written whole, where every column has the same ones."""
EVERY, ENDS, PROOF = "every number", "ends of runs", "proof"
"""The way of counting: each number was run, or the first and last of those with one answer, or none."""
Ratio = Fraction | float
"""A ratio of chances; infinite where one of them is 0."""


@dataclass
class _Counting:
    """The laws that were counted so far, and what is left to be run and written."""

    laws: list[dict[str, Any]] = field(default_factory=list)
    ratios: list[Ratio] = field(default_factory=list)
    _known: dict[Matrix, int] = field(default_factory=dict)
    _left: int = MOST_DRAWS
    _entries: int = MOST_WRITTEN

    def number(self, channel: Channel) -> int:
        """Return the number of a channel's law among those counted."""
        matrix = channel.matrix
        if not matrix.parts:
            what = "a release with additive noise has no matrix to prove: no gamma holds for it"
            raise RefusedError("nothing-to-prove", what, "publish by randomised response to have one")
        if matrix not in self._known:
            law, ratio = self._counted(matrix)
            assert channel.spec is not None
            self._known[matrix] = len(self.laws)
            self.laws.append({"kind": channel.spec.kind, "law": channel.spec.described(), **law})
            self.ratios.append(ratio)
        return self._known[matrix]

    def _counted(self, matrix: Matrix) -> tuple[dict[str, Any], Ratio]:
        if each := self._too_large(matrix):
            bound = Fraction(max(each)[0], min(each)[0])
            numbers = sum(n * outputs for n, outputs in each)
            law = {"counted": PROOF, "values": matrix.inputs, "range": [numbers], "each": each}
            return {**law, "ratio": str(bound)}, bound
        ranges, columns = [1] * matrix.inputs, np.zeros((matrix.inputs, matrix.outputs), np.int64)
        by = EVERY
        for codes, draw in matrix.parts:
            if draw is None:
                columns[codes, codes] = 1
                continue
            every = draw.range * draw.inputs <= min(self._left, MOST_OF_ONE)
            by = by if every else ENDS
            self._left -= (draw.range if every else 2 * len(draw.starts(0))) * draw.inputs
            places = codes if draw.outputs == len(codes) else range(draw.outputs)
            columns[np.ix_(codes, places)] = draw.counted(every).T
            for code in codes:
                ranges[code] = draw.range
        if not np.allclose(columns.T / ranges, matrix.dense(), 1e-9, 1e-15):
            raise ValueError("a sampler does not draw by its matrix")
        ratio = largest_ratio(columns, ranges)
        law = {"counted": by, "values": matrix.inputs, "range": ranges, "columns": columns.tolist()}
        return {**law, "ratio": "inf" if ratio == inf else str(ratio)}, ratio

    def _too_large(self, matrix: Matrix) -> list[tuple[int, int]]:
        """Return what every column of a matrix has, where it is too large to be written or run."""
        (_, draw), *others = matrix.parts
        if others or draw is None or draw.alike is None:
            return []
        entries = draw.inputs * draw.outputs
        runs = 2 * draw.inputs * (sum(outputs for _, outputs in draw.alike) + 1)
        if entries <= self._entries and runs <= self._left:
            self._entries -= entries
            return []
        return [pair for pair in draw.alike if pair[1]]


def largest_ratio(columns: np.ndarray, ranges: Sequence[int]) -> Ratio:
    """Return the largest ratio of two chances of one published code, by counts of numbers below `ranges`."""
    whole = lcm(*ranges)
    scales, found = [whole // r for r in ranges], Fraction(1)
    if len(set(ranges)) == 1:  # then the counts themselves compare
        rows = [(int(row.min()), int(row.max())) for row in columns.T]
    else:
        scaled = [[int(n) * s for n, s in zip(row, scales, strict=True)] for row in columns.T]
        rows = [(min(row), max(row)) for row in scaled]
    for least, most in rows:
        if most and not least:
            return inf
        if most:
            found = max(found, Fraction(most, least))
    return found


@one_run()
def prove(
    data: TableLike,
    output: str | Path | None = None,
    *,
    sidecar: Sidecar | str | Path | None = None,
    force: bool = False,
) -> dict[str, Any]:
    """Count the matrices of a release, and return them with what follows for a record.

    Parameters
    ----------
    data : path or table
        The release, or its sidecar alone.
    output : path, optional
        Where the result goes, as JSON.
    sidecar : Sidecar or path, optional
        The sidecar, where it is not beside the data.
    force : bool, default False
        Replace an existing file.
    """
    if output is None:
        return proof_of(inspect(data, sidecar).sidecar)
    with PendingFile(path_of(output), force) as target:
        proof = proof_of(inspect(data, sidecar).sidecar)
        target.put(msgspec.json.encode(proof) + b"\n")
        commit(target)
    return proof


def proof_of(sidecar: Sidecar) -> dict[str, Any]:
    """Return what `prove` does for the release of a sidecar."""
    release, privacy = opened(sidecar), sidecar.privacy
    if sidecar.stage != "perturbed" or sidecar.scheme is not UNSET or privacy is UNSET:
        what = "only a release by randomised response has matrices to prove"
        raise RefusedError("no-release-to-prove", what, "name a release")
    counting = _Counting()
    recipes = [[counting.number(c) for c in recipe.channels] for recipe in release.recipes]
    ratios = [[counting.ratios[n] for n in r] for r in recipes]
    largest: Ratio = max((inf if inf in own else prod(own) for own in ratios), default=Fraction(1))
    whole, stated = _epsilon(largest) * sidecar.times, privacy.perturbed_epsilon
    if stated is not None and whole > float(stated) * (1 + 1e-9):  # both are rounded in the 16th digit
        raise MismatchError(
            "promise-below-proof",
            f"a record's epsilon is {up(whole)} by the matrices, and {stated} by the sidecar",
            "ask the owner for a release that promises what its matrices give",
        )
    return {
        "format": FORMAT,
        "version": 1,
        "tool": TOOL,
        "release": sidecar.release,
        "laws": counting.laws,
        "recipes": [
            {"attributes": [c.attributes for c in recipe.channels], "laws": laws}
            for recipe, laws in zip(release.recipes, recipes, strict=True)
        ],
        "answers": sidecar.times,
        "epsilon": "inf" if whole == inf else whole,
        "promised": {"gamma": privacy.perturbed_gamma, "epsilon": stated, "coins": privacy.coins},
    }


def _epsilon(ratio: Ratio) -> float:
    """Return the natural logarithm of a ratio, however many digits it has."""
    return log(ratio.numerator) - log(ratio.denominator) if isinstance(ratio, Fraction) else log(ratio)


def proof_sentences(proof: dict[str, Any]) -> list[str]:
    """Return what a proof shows in plain words, the result first."""
    laws, promised = proof["laws"], proof["promised"]
    run, many = sum(law["counted"] != PROOF for law in laws), len(laws)
    times = f" in all {proof['answers']} answers about it" if proof["answers"] > 1 else ""
    if proof["epsilon"] == "inf":
        found = ["Nothing is proved of a record: some published values rule out some originals."]
    else:
        bound = up(proof["epsilon"])
        words = f"No original makes what a record shows{times} more than e^{bound} times as likely as another "
        found = [f"{words}original does: its epsilon is {bound}."]
    if promised["epsilon"] is None:
        found.append(f"The sidecar promises nothing all the same: its coins are {promised['coins']}.")
    else:
        found.append(f"The sidecar promises epsilon {promised['epsilon']}.")
    how = f"{run} by running the sampler" if run < many else "by running the sampler"
    matrices = "1 matrix was" if many == 1 else f"{many} matrices were"
    return [*found, f"{matrices} counted in whole numbers, {how}. Every column sums to 1."]
