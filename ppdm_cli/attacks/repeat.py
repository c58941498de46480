"""Repeated perturbation (Dowd et al. 4.3), to show that it doesn't lead back to the original.

It leads to uniform noise: M^t = lam^t I + (1 - lam^t)/N J (docs/technical/method.md), whose entropy rises to
log2 N. The same is done to the file, to see that it is so. Only a matrix that publishes what it takes can be
repeated, so a band cannot.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np

from ppdm_cli.arrays import Addresses, Codes, code_type, wilson
from ppdm_cli.attacks.adversary import Adversary, Records
from ppdm_cli.attacks.report import Attacked, RepeatFigures
from ppdm_cli.attacks.run import Attack, SumsByAttribute
from ppdm_cli.channels import Substitution
from ppdm_cli.errors import listed
from ppdm_cli.repeatable import hashed, mixed

TIMES = 8


class Repeat(Attack):
    """Every attribute of a file that can be perturbed again, t = 1..T times."""

    name = "repeat"
    about = "Perturbing again and again, which leads to noise."
    needs_every_attribute = True

    def __init__(self, adversary: Adversary) -> None:
        targets = adversary.targets.values()
        self._matrices = {t.name: t.channel.again for t in targets if t.channel.again is not None}
        self._release = adversary.sidecar.release

    @classmethod
    def learn(cls, adversary: Adversary) -> Self:
        found = cls(adversary)
        if left := [n for n in adversary.targets if n not in found._matrices]:
            adversary.remarks.append(
                f"repeat: {listed(left)} cannot be perturbed again, because published values go beyond the "
                "domain, or each has several answers."
            )
        return found

    def counted(self, records: Records) -> SumsByAttribute:
        """Count records and those unchanged after t = 1..T times; with the original, the release is t = 1."""
        found = {}
        for name, matrix in self._matrices.items():
            published, original = records.codes[name], records.truths
            start = published if original is None else original[name].codes
            now = published.astype(code_type(matrix.inputs))
            counts = [len(now)]
            for t in range(1, TIMES + 1):
                if t > 1 or original is None:
                    now = _again(matrix, now, records.addresses, [self._release, "repeat", name, t])
                counts.append(int(np.count_nonzero(now == start)))
            found[name] = np.array(counts)
        return SumsByAttribute(found)

    def conclude(self, counted: object, done: Attacked) -> None:
        assert isinstance(counted, SumsByAttribute)
        for name, matrix in self._matrices.items():
            n, *stayed = counted.sums[name].tolist()
            for row, hits in zip(matrix.repeated(TIMES), stayed, strict=True):
                share, (low, high) = hits / n if n else None, wilson(hits, n)
                done.repeat.append(
                    RepeatFigures(
                        **row,  # type: ignore[arg-type]
                        attribute=name,
                        N=matrix.inputs,
                        stayed=share,
                        stayed_low=low,
                        stayed_high=high,
                        entropy_seen=None if share is None else matrix.entropy_of(share),
                    )
                )


def _again(matrix: Substitution, codes: Codes, addresses: Addresses, purpose: Sequence[object]) -> Codes:
    """Return the codes perturbed once more, repeatably: by each row's address, however the table is cut."""
    out = np.empty_like(codes)

    def blocks(retry: int, rows: np.ndarray | None = None) -> np.ndarray:
        here = addresses if rows is None else addresses[rows]
        halves = [mixed(here, hashed([*purpose, int(retry), half])) for half in (0, 1)]
        return np.stack(halves, axis=1).view(np.uint32)

    matrix.sample(codes, blocks, out)
    return out
