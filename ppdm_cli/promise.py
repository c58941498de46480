"""What a sidecar promises, in numbers that people can weigh: per attribute and over a record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from ppdm_cli.domain import Bins
from ppdm_cli.errors import UsageError
from ppdm_cli.matrices import Additive, AdditiveSpec, Band, GammaDiagonalSpec
from ppdm_cli.privacy import epsilon, worst_posterior
from ppdm_cli.shown import Shown
from ppdm_cli.sidecar import SUFFIX, Attribute, Sidecar
from ppdm_cli.tables import open_release, read_sidecar

if TYPE_CHECKING:
    import polars as pl

PRIOR = 0.05
"""The prior that worst posteriors are shown for, unless asked otherwise."""


MOST_ENTRIES = 1 << 22
"""Entries of matrices without closed forms, of all attributes, that are worked out for their figures."""


@dataclass(frozen=True, repr=False)
class Inspected(Shown):
    """What `inspect` gives: a sidecar, and what it promises against an adversary of some prior belief."""

    sidecar: Sidecar
    prior: float

    @property
    def figures(self) -> dict[str, Any]:
        return figures(self.sidecar, self.prior)

    @property
    def sentences(self) -> list[str]:
        return sentences(self.sidecar, self.prior)

    @property
    def frame(self) -> pl.DataFrame:
        """A polars DataFrame of the perturbed attributes' figures."""
        import polars as pl

        rows = of_attributes(self.sidecar.perturbed, self.prior)
        return pl.DataFrame(rows, infer_schema_length=None, strict=False)

    def _words(self) -> list[str]:
        return [*self.sidecar._words(), *self.sentences]

    def _body(self) -> list[str]:
        return self.sentences


def inspect(data: Any, sidecar: Sidecar | str | Path | None = None, *, prior: float = PRIOR) -> Inspected:
    """Say what a file, a table in memory or a sidecar promises; the data must fit the sidecar."""
    if not 0 < prior < 1:
        raise UsageError("the prior must lie between 0 and 1", "such as --prior 0.05")
    if isinstance(data, Sidecar):
        return Inspected(data, prior)
    if isinstance(data, (str, Path)) and str(data).endswith((SUFFIX, ".json")):
        return Inspected(read_sidecar(Path(data), None, str(data)), prior)
    return Inspected(open_release(data, sidecar, stages=None)[1], prior)


def of_attributes(attributes: Sequence[Attribute], prior: float = PRIOR) -> list[dict[str, Any]]:
    """The figures of perturbed attributes; None for what would take too long together."""
    figures, entries = [], 0
    for attribute in attributes:
        closed = isinstance(attribute.matrix, GammaDiagonalSpec)
        if not closed and attribute.N is not UNSET:
            entries += (attribute.N + 64) ** 2  # so that many small ones count too
        figures.append(_of_attribute(attribute, prior, closed or entries <= MOST_ENTRIES))
    return figures


def _of_attribute(attribute: Attribute, prior: float, whole: bool) -> dict[str, Any]:
    """The figures of one; `whole` tells whether the entries of its matrix may be worked out."""
    matrix = attribute.built_matrix
    gamma = matrix.amplification
    noise = matrix if isinstance(matrix, Additive) else None
    closed = whole or noise is None
    return {
        "attribute": attribute.name,
        "type": attribute.type,
        "dtype": attribute.dtype,
        "N": attribute.N,
        "matrix": attribute.matrix.kind if attribute.matrix is not UNSET else None,
        "half_width": matrix.half_width if isinstance(matrix, Band) else None,
        "noise": None if noise is None else noise.noise,
        "sd": None if noise is None else noise.sd,
        "interval": None if noise is None else noise.interval,
        "interval_share": None if noise is None else noise.interval / _width(attribute),
        "gamma": _finite(gamma),
        "epsilon": _finite(epsilon(gamma)),
        "staying": matrix.staying if closed else None,
        "neighbourhood": matrix.neighbourhood if isinstance(matrix, Band) else None,
        "condition_number": _finite(matrix.condition_number) if whole else None,
        "entropy": matrix.entropy() if closed else None,
        "prior": prior,
        "worst_posterior": worst_posterior(gamma, prior),
        "domain_from": attribute.domain_from,
        "nulls": attribute.nulls,
    }


def _finite(number: float) -> float | str:
    """JSON has no infinity, and the sidecar calls it so."""
    return number if isfinite(number) else "inf"


def _width(attribute: Attribute) -> float:
    """From the first to the last number of a domain."""
    domain = attribute.domain
    values = domain.edges if isinstance(domain, Bins) else domain.values  # type: ignore[attr-defined]
    return float(values[-1]) - float(values[0])


def of_record(sidecar: Sidecar, prior: float = PRIOR) -> dict[str, Any]:
    """The product over the perturbed attributes, and what is outside every promise."""
    privacy = sidecar.privacy
    if privacy is UNSET:
        return {}
    gamma = privacy.perturbed_gamma
    posterior = None if gamma is None else worst_posterior(float(gamma), prior)
    return {
        "perturbed_gamma": gamma,
        "perturbed_epsilon": privacy.perturbed_epsilon,
        "prior": prior,
        "worst_posterior": posterior,
        "unbounded": privacy.kept,
        "coins": privacy.coins,
    }


def figures(sidecar: Sidecar, prior: float = PRIOR) -> dict[str, Any]:
    """Everything that `perturb` reports and `inspect` shows, as `--json` prints it."""
    return {
        "release": sidecar.release,
        "stage": sidecar.stage,
        "records": sidecar.records,
        "class": None if sidecar.class_ is UNSET else sidecar.class_,
        "record": of_record(sidecar, prior),
        "attributes": of_attributes(sidecar.perturbed, prior),
        "kept": [{"attribute": a.name, "dtype": a.dtype} for a in sidecar.kept],
    }


def at_most(share: float) -> str:
    """A bound as a percentage: rounded up, so that it holds."""
    rounded = Context(prec=3, rounding=ROUND_CEILING).create_decimal(repr(100 * share))
    return f"{rounded.normalize():f}%" if share < 0.9995 or share == 1 else "over 99.9%"


def percent(share: float) -> str:
    return f"{100 * share:.3g}%" if share < 0.9995 or share == 1 else "over 99.9%"


def sentences(sidecar: Sidecar, prior: float = PRIOR) -> list[str]:
    """The promise over a record in plain words."""
    record = of_record(sidecar, prior)
    said = []
    if sidecar.privacy is UNSET:
        return [f"This is a table of results (stage {sidecar.stage!r}); it makes no promise about records."]
    if sidecar.reconstruction is not UNSET:
        row = (
            "The rows were shuffled, but each is a guess about the person in some row of the release"
            if sidecar.reconstruction.shuffled
            else "Each row is a guess about the person in the same row of the release"
        )
        said.append(
            f"{row}, and many of its values are right. Whoever has the release can make the same guesses: "
            "handle this file as you would the release."
        )
    many, noisy = len(sidecar.perturbed), additive(sidecar)
    if noisy:
        said.append(
            "Additive noise promises nothing: no finite gamma or epsilon holds for it, as a published value "
            + (
                "makes some originals as much likelier than others as you like"
                if sidecar.perturbed[0].matrix.noise == "normal"  # type: ignore[union-attr]
                else "rules out every original further from it than the noise reaches"
            )
            + ". It is the baseline that fell to attacks, for comparison; publish with random substitution."
        )
    if record["perturbed_gamma"] is None:
        said.append(
            "The coins came from a seed, which can be guessed and checked against the release: "
            "nothing is promised. For publishing, perturb without --seed."
        )
    elif not noisy:
        attributes = f"{many} perturbed attributes" if many > 1 else "one perturbed attribute"
        worst = at_most(record["worst_posterior"])
        worst = "over 99.9%" if worst == "100%" else worst  # rounded: no finite gamma proves
        said.append(
            f"Over the {attributes} of a record, gamma is {record['perturbed_gamma']} "
            f"(epsilon {record['perturbed_epsilon']:.4g}): what an adversary believed with {percent(prior)}"
            f" before may be believed with {worst if worst.startswith('over') else 'at most ' + worst} after."
        )
    if record["coins"] == "key-file":
        said.append(
            "The coins follow from a key and an identifier: an unchanged value gets the same answer in "
            "each release under this key with the same domain and gamma (as --like takes them); a changed "
            "value, domain or gamma costs its gamma again, and a changed answer proves a change."
        )
    if record["unbounded"]:
        said.append(
            "Unbounded, because published as they are: "
            + ", ".join(record["unbounded"])
            + ". No gamma covers them, nor what they tell of the others."
        )
    said += bands(sidecar)
    from_data = [a.name for a in sidecar.perturbed if a.domain_from == "data"]
    if from_data:
        said.append(
            "Domains taken from the private data, and published with the sidecar: " + ", ".join(from_data) + "."
        )
    return said


def additive(sidecar: Sidecar) -> bool:
    """Whether a release was made with noise: one scheme holds for all of its attributes."""
    return any(isinstance(a.matrix, AdditiveSpec) for a in sidecar.perturbed)


def bands(sidecar: Sidecar) -> list[str]:
    """One sentence, where there are bands: what they tell more, and less, than the gamma-diagonal would."""
    alike: dict[Band, list[str]] = {}
    for attribute in sidecar.perturbed:
        matrix = attribute.built_matrix
        if isinstance(matrix, Band):
            alike.setdefault(matrix, []).append(attribute.name)
    if not alike:
        return []
    parts = [f"{', '.join(names)} {_compared(band)}" for band, names in alike.items()]
    return [
        "A band tells more of a value's neighbourhood and less of the exact value than a gamma-diagonal matrix "
        "of the same gamma and N, whose figures are in brackets: " + "; ".join(parts) + "."
    ]


def _compared(band: Band) -> str:
    """The chances to publish the neighbourhood and the value; of the gamma-diagonal for equal counts."""
    b, N, gamma = band.half_width, band.ordered, band.amplification
    others = sum(2 * (N - d) / N for d in range(1, b + 1))
    D = gamma + band.inputs - 1
    return (
        f"within {b} of the true one with {percent(band.neighbourhood)} ({percent((gamma + others) / D)}), "
        f"at the true one with {percent(band.staying)} ({percent(gamma / D)})"
    )
