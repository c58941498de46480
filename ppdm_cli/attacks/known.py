"""An adversary who knows one of the attributes that a record publishes together with others (maths 11).

By it they see how likely the record's values were revealed, and are not noise; then they apply Bayes' rule to
the others. Everything else is learnt from the release alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np

from ppdm_cli.arrays import Floats
from ppdm_cli.attacks.adversary import Adversary, Guess, Records
from ppdm_cli.attacks.run import Attack


class Known(Attack):
    """The attack on every attribute, in the records that publish another one together with it."""

    name = "known"
    about = "Someone who knows one of the attributes that a record publishes together guesses the others."
    needs_original = True

    def __init__(self, adversary: Adversary) -> None:
        self._targets = adversary.targets

    @classmethod
    def why_not(cls, adversary: Adversary) -> str | None:
        if any(t.exposures.noisy.any() for t in adversary.targets.values()):
            return None
        return "no record publishes several attributes together"

    @classmethod
    def learn(cls, adversary: Adversary) -> Self:
        return cls(adversary)

    def guesses(self, records: Records) -> dict[str, Guess]:
        found = {}
        for name, target in self._targets.items():
            lam, rows = self._confirmed(name, records)
            found[name] = target.guessed_by(records.codes[name][rows], lam[rows])._replace(rows=rows)
        return found

    def before(self, records: Records, names: Sequence[str]) -> dict[str, Floats]:
        return {n: np.tile(self._targets[n].prior, (records.count, 1)) for n in names}

    def _confirmed(self, name: str, records: Records) -> tuple[Floats, np.ndarray]:
        """Return how likely each record's values were revealed, by the other attribute that is known of it.

        With the records that publish both; of several others the first is the one that is known.
        """
        after, together = records.lam.copy(), self._targets[name].exposures.noisy[records.codes[name]]
        rows = np.zeros(records.count, bool)
        for other, target in self._targets.items():
            exposures, codes = target.exposures, records.codes[other]
            here = together & ~rows & exposures.noisy[codes]
            if other == name or not here.any():
                continue
            lam, code = records.lam[here], codes[here]
            revealed = lam * exposures.matrix[code, records.known[other].codes[here]]
            after[here] = revealed / (revealed + (1 - lam) * exposures.noise[code])
            rows |= here
        return after, np.flatnonzero(rows)
