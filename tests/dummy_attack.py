"""An attack in one file, which no other file knows: what adding one takes.

`python -m tests.dummy_attack ARGS` is the command line with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import numpy as np

from ppdm_cli.attacks import Adversary, Attack, Beliefs, Guess, Measures, Records, expected, register_attack


class Copying(Attack):
    """The guess is the published value itself."""

    name, strength = "copying", 1
    about = "The published value is the guess."

    def __init__(self, adversary: Adversary) -> None:
        targets = adversary.targets.items()
        self._targets = {n: t for n, t in targets if t.matrix.inputs == t.matrix.outputs}
        self.closed = adversary.targets.keys()

    @classmethod
    def why_not(cls, adversary: Adversary) -> str | None:
        return None if adversary.separate else "what is withheld cannot be copied"

    @classmethod
    def learn(cls, adversary: Adversary) -> Self:
        return cls(adversary)

    def guesses(self, records: Records) -> dict[str, Guess]:
        codes = {n: records.codes[n] for n in self._targets}
        return {n: Guess(c, c, self._targets[n].values[c]) for n, c in codes.items()}

    def expected(self, beliefs: Mapping[str, Beliefs]) -> dict[str, Measures]:
        found = {}
        for name, target in self._targets.items():
            law = target.matrix.dense().T  # (originals, codes)
            around = target.windows(law) if target.ordered else law
            exact, near = (float(target.prior @ np.diag(w)) for w in (law, around))
            found[name] = expected(target, exact, near, None)
        return found


if __name__ == "__main__":
    from ppdm_cli.commands import run_command_line

    register_attack(Copying)
    run_command_line()
