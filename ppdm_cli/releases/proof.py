"""Proofs for `inspect --prove`: what each sampler of a release publishes, counted number by number.

A published code follows from a true one and from one whole number below a range, all of them equally likely.
How many of the numbers publish each code is the matrix, without rounding. Anyone can add up its columns and
divide the entries of its rows (docs/technical/check_proof.py). The samplers are run on every number; where there
are too many, the counts are those of the samplers' proofs, which tests hold for every gamma and size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import inf, lcm, log, prod
from typing import Any

import numpy as np
from msgspec import UNSET

from ppdm_cli.channels import Channel, ExactDraw, Substitution
from ppdm_cli.display import up
from ppdm_cli.errors import MismatchError, RefusedError, counted
from ppdm_cli.privacy import epsilon
from ppdm_cli.releases.strata import opened
from ppdm_cli.sidecar import TOOL, Sidecar

FORMAT = "ppdm-proof"
MOST_ENUMERATED = 1 << 26
"""The most draws of all samplers that are run."""
MOST_WRITTEN = 1 << 20
"""The most entries of matrices that are written whole, where every column has the same ones."""
Ratio = Fraction | float
"""A ratio of chances; infinite where one of them is 0."""


@dataclass
class _Counting:
    """The laws that were counted so far, and what is left to be run and written."""

    laws: list[dict[str, Any]] = field(default_factory=list)
    ratios: list[Ratio] = field(default_factory=list)
    _known: dict[Substitution, int] = field(default_factory=dict)
    _draws: int = MOST_ENUMERATED
    _entries: int = MOST_WRITTEN

    def number(self, channel: Channel) -> int:
        """Return the number of a channel's law among those counted."""
        matrix = channel.law
        if not isinstance(matrix, Substitution):
            raise RefusedError(
                "nothing-to-prove",
                "a release with additive noise has no matrix to prove: no gamma holds for it",
                "use `ppdm inspect` without --prove",
            )
        if matrix not in self._known:
            law, ratio = self._counted(matrix)
            assert channel.spec is not None
            self._known[matrix] = len(self.laws)
            self.laws.append({"kind": channel.spec.kind, "law": channel.spec.described(), **law})
            self.ratios.append(ratio)
        return self._known[matrix]

    def _counted(self, matrix: Substitution) -> tuple[dict[str, Any], Ratio]:
        (_, draw), *others = matrix.parts
        if not others and draw is not None and draw.alike and draw.inputs * draw.outputs > self._entries:
            each = [pair for pair in draw.alike if pair[1]]
            ratio = Fraction(max(each)[0], min(each)[0])
            law = {"how": "counted", "values": draw.inputs, "range": draw.range, "each": each}
            return {**law, "ratio": str(ratio)}, ratio
        ranges, columns = [1] * matrix.inputs, np.zeros((matrix.inputs, matrix.outputs), np.int64)
        run = True
        for codes, draw in matrix.parts:
            if draw is None:
                columns[codes, codes] = 1
                continue
            found, enumerated = self._table(draw)
            run &= enumerated
            places = codes if draw.outputs == len(codes) else range(draw.outputs)
            columns[np.ix_(codes, places)] = found.T
            for code in codes:
                ranges[code] = draw.range
        self._entries -= columns.size
        ratio = largest_ratio(columns, ranges)
        law = {"how": "enumerated" if run else "counted", "values": matrix.inputs, "range": ranges}
        return {**law, "columns": columns.tolist(), "ratio": "inf" if ratio == inf else str(ratio)}, ratio

    def _table(self, draw: ExactDraw) -> tuple[np.ndarray, bool]:
        """Return the counts of a sampler, and whether it was run; MismatchError where it does not follow them."""
        table, draws = draw.counted(), draw.range * draw.inputs
        if draws > self._draws:
            return table, False
        self._draws -= draws
        if not np.array_equal(draw.enumerated(), table):
            raise MismatchError(
                "sampler-without-proof",
                "a sampler of this ppdm doesn't draw by the matrix that the sidecar names",
                "install ppdm again, and publish nothing with this one",
            )
        return table, True


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


def prove(sidecar: Sidecar) -> dict[str, Any]:
    """Return the matrices of a release as whole numbers, and what follows from them for a record."""
    release, privacy = opened(sidecar), sidecar.privacy
    if sidecar.stage != "perturbed" or sidecar.scheme is not UNSET or privacy is UNSET:
        raise RefusedError(
            "no-release-to-prove",
            "only a release by randomised response has matrices to prove",
            "name a release",
        )
    counting = _Counting()
    recipes = [[counting.number(c) for c in recipe.channels] for recipe in release.recipes]
    ratios = [inf if inf in (own := [counting.ratios[n] for n in r]) else prod(own) for r in recipes]
    largest = max(ratios, default=1)
    stated: list[object] = [privacy.perturbed_gamma, privacy.perturbed_epsilon]
    whole = epsilon_of(largest) * sidecar.times
    if privacy.perturbed_epsilon not in (None, "inf") and whole > float(privacy.perturbed_epsilon or 0):
        raise MismatchError(
            "promise-below-proof",
            f"the matrices give a record epsilon {up(whole)}, and the sidecar promises {stated[1]}",
            "ask the owner for a release that promises what its matrices give",
        )
    return {
        "format": FORMAT,
        "version": 1,
        "tool": TOOL,
        "release": sidecar.release,
        "laws": counting.laws,
        "recipes": [
            {"attributes": [c.attributes for c in recipe.channels], "laws": laws, "ratio": str(ratio)}
            for recipe, laws, ratio in zip(release.recipes, recipes, ratios, strict=True)
        ],
        "record": {"times": sidecar.times, "ratio": str(largest), "epsilon": "inf" if whole == inf else whole}
        | {"perturbed_gamma": stated[0], "perturbed_epsilon": stated[1], "coins": privacy.coins},
    }


def epsilon_of(ratio: Ratio) -> float:
    """Return the natural logarithm of a ratio, however many digits it has."""
    return log(ratio.numerator) - log(ratio.denominator) if isinstance(ratio, Fraction) else epsilon(ratio)


def proof_sentences(proof: dict[str, Any]) -> list[str]:
    """Return what a proof shows in plain words, the result first."""
    record, laws = proof["record"], proof["laws"]
    run = sum(law["how"] == "enumerated" for law in laws)
    bound, times = record["ratio"], record["times"]
    found = [
        "Two originals of a record can have published the same values with chances that differ by any factor."
        if bound == "inf"
        else "Whatever a record shows, two originals have chances to show it whose ratio is at most "
        f"{float(Fraction(bound)):.6g}{f', to the power of {times} over all its answers' if times > 1 else ''} "
        f"(epsilon {up(record['epsilon'])}).",
        f"{counted(len(laws), 'matrix', 'matrices')} counted in whole numbers, {run} by running the sampler on "
        "every number. All columns sum to 1.",
    ]
    if record["perturbed_epsilon"] is None:
        found.append(f"The sidecar promises nothing all the same: its coins are {record['coins']}.")
    elif bound != "inf":
        found.append(f"The sidecar promises epsilon {record['perturbed_epsilon']}, which is no less.")
    return found
