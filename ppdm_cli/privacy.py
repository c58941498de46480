"""The promises of a gamma: rho1-to-rho2 breaches, epsilon, and how often a row can be found.

Evfimievski et al. as the papers use them (docs/technical/method.md). A per-attribute gamma is not the record's:
attributes perturbed independently multiply (`perturbing.resolving.privacy`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ppdm_cli.display import UNLIMITED, at_most, exactly
from ppdm_cli.errors import UsageError, argument

PRIOR = 0.05
"""The prior for which worst posteriors are shown by default."""
FEW = 10
"""The number of records, or persons, below which a value is rare."""


def epsilon(gamma: float) -> float:
    """Return the epsilon of local differential privacy, ln gamma."""
    return math.log(gamma)


def worst_posterior(gamma: float, prior: float) -> float:
    """Return the largest posterior that gamma allows for a property of that prior."""
    if math.isinf(gamma):
        return 1.0
    found = gamma * prior / (1 - prior + gamma * prior)
    return min(found, math.nextafter(1.0, 0.0)) if prior < 1 else found  # no finite gamma proves


def believed_after(epsilon: float, prior: float) -> float:
    """Return the largest posterior for an epsilon, whose gamma may be beyond floating point."""
    return worst_posterior(math.exp(min(epsilon, 690.0)) if epsilon < math.inf else math.inf, prior)


def row_found(gamma: float, near: Sequence[float], records: int) -> float:
    """Return a bound on how often a published record's best row is its own; `near`: the likelier outputs."""
    fits = np.ones(1)  # chances that an output drawn evenly is near a row in 0, 1, ... channels
    for share in near:
        fits = np.convolve(fits, [1 - share, share])
    some_row = np.minimum(1, records * fits[::-1].cumsum()[::-1])
    rises = np.diff(gamma ** np.arange(len(fits)))
    even = math.prod(1 / (1 + (gamma - 1) * share) for share in near)
    return float(even * (1 + rises @ some_row[1:]) / records)


def limit(posterior: float, prior: float, seen: str) -> str:
    """Return the clause on how sure of a value a reader may become after seeing this."""
    most, reader = at_most(posterior), f"a reader who was {exactly(prior)} sure of a value"
    if posterior > UNLIMITED:
        return f"no meaningful protection for {seen}: {reader} may become {most} sure"
    return f"{reader} becomes at most {most} sure after seeing {seen}"


def limit_sentence(posterior: float, prior: float, seen: str) -> str:
    """Return the clause of `limit` as a sentence."""
    clause = limit(posterior, prior, seen)
    return f"{clause[0].upper()}{clause[1:]}."


def proposed(*epsilons: float) -> str:
    """Return budgets for the whole record to choose from, with their promises, the safest first."""
    first, *others = (
        (argument("record_epsilon", e), at_most(believed_after(e, PRIOR))) for e in sorted(epsilons)
    )
    meant = f"{first[0]} (a belief of {exactly(PRIOR)} becomes at most {first[1]})"
    return " or ".join([meant, *(f"{budget} (at most {most})" for budget, most in others)])


def gamma_from_rhos(rho1: float, rho2: float) -> float:
    """Return the largest gamma that allows no rho1-to-rho2 breach, for any prior."""
    if not 0 < rho1 < rho2 < 1:
        raise UsageError(
            "bad-rhos",
            "rho1 and rho2 must satisfy 0 < rho1 < rho2 < 1",
            f"try {argument('rho1', 0.05)} {argument('rho2', 0.5)}: a reader who is 5% sure of a value "
            "becomes at most 50% sure",
        )
    return rho2 * (1 - rho1) / (rho1 * (1 - rho2))
