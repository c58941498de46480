"""Which channel an attribute gets: the kind asked for it, or for all where it suits, else the default.

Bins of numbers and times are in order, and so is what is declared as an interval. Other single numbers
may be codes (a zip code, a car's make), so a kind for values in order is theirs only where it is asked of
the attribute itself; labels have no order at all.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from math import exp

from msgspec import UnsetType

from ppdm_cli.channels import DEFAULT, KINDS, SUBSTITUTION, Beyond, Request, Spec
from ppdm_cli.display import at_most, percent
from ppdm_cli.domain import Bins, Domain
from ppdm_cli.errors import RefusedError, UsageError, listed
from ppdm_cli.inspection import PRIOR
from ppdm_cli.perturbing.attribute_plan import AttributePlan
from ppdm_cli.perturbing.plan import Plan
from ppdm_cli.privacy import worst_posterior


def in_order(domain: Domain, own: AttributePlan) -> bool:
    """Return whether neighbours among an attribute's values are alike."""
    return isinstance(domain, Bins) or own.interval is not None


def kind_for(own: AttributePlan, plan: Plan) -> type[Spec]:
    """Return the kind that is asked for an attribute, by itself or with all."""
    if plan.scheme != SUBSTITUTION:
        return KINDS[plan.scheme]
    return KINDS[own.kind or plan.matrix or DEFAULT.kind]


def request(gamma: Decimal | float | None, own: AttributePlan, plan: Plan) -> Request:
    """Return what is asked of an attribute's channel, its own settings laid over those for all."""
    return Request(gamma, {**plan.options, **own.options})


def chosen(
    name: str, domain: Domain, gamma: Decimal | float | None, own: AttributePlan, plan: Plan
) -> tuple[Spec, Beyond | UnsetType]:
    """Return the channel, checked, and what it publishes beyond the domain."""
    kind, asked = kind_for(own, plan), request(gamma, own, plan)
    if own.kind is not None or kind.everywhere:
        return kind.asked(name, domain, asked)
    if not kind.suits(domain, in_order(domain, own)):
        return DEFAULT.asked(name, domain, asked)
    try:
        return kind.asked(name, domain, asked)
    except RefusedError:
        if kind is DEFAULT:
            raise
        return DEFAULT.asked(name, domain, asked)  # asked for all, a kind goes to those that can have it


def without_gamma(names: Iterable[str]) -> UsageError:
    """Return the error of columns without a gamma: the budgets to choose from, the safest first."""
    ways = (f"--record-epsilon {e} ({{}}at most {at_most(worst_posterior(exp(e), PRIOR))})" for e in (1, 2))
    return UsageError(
        f"no gamma is given for {listed(names)}, and gamma has no default",
        "use " + " or ".join(ways).format(f"a belief of {percent(PRIOR)} becomes ", ""),
    )
