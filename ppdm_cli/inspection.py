"""What a sidecar promises, in figures that people can judge: per attribute and over a record."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from ppdm_cli.channels import FIGURES, KINDS, Channel
from ppdm_cli.display import Displayed, at_most, percent, up
from ppdm_cli.errors import UsageError, counted, listed, some
from ppdm_cli.files import one_run
from ppdm_cli.privacy import believed_after, epsilon, limit, worst_posterior
from ppdm_cli.releases import in_rounds, open_release, opened, read_sidecar
from ppdm_cli.sidecar import SUFFIX, Sidecar

if TYPE_CHECKING:
    import polars as pl

PRIOR = 0.05
"""The prior for which worst posteriors are shown by default."""


_SEEDED = [
    "The coins came from a seed, which can be guessed and checked against the release: nothing is promised. "
    "For publishing, perturb without --seed."
]
MOST_ENTRIES = 1 << 22
"""The most entries of matrices without closed forms, over all attributes, that are computed for figures."""


@dataclass(frozen=True, repr=False)
class Inspected(Displayed):
    """The result of `inspect`: a sidecar, and what it promises against an adversary with some prior belief."""

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
        """Return the figures of the perturbed attributes as a polars DataFrame."""
        import polars as pl

        rows = of_attributes(self.sidecar)
        return pl.DataFrame(rows, infer_schema_length=None, strict=False)

    def _words(self) -> list[str]:
        return [*self.sidecar._words(), *self.sentences]

    def _body(self) -> list[str]:
        return self.sentences


@one_run()
def inspect(data: Any, sidecar: Sidecar | str | Path | None = None, *, prior: float = PRIOR) -> Inspected:
    """Say what a file, a table in memory or a sidecar promises; the data must fit the sidecar."""
    if not 0 < prior < 1:
        raise UsageError("the prior must lie between 0 and 1", "such as --prior 0.05")
    if isinstance(data, Sidecar):
        return Inspected(data, prior)
    if isinstance(data, (str, Path)) and str(data).endswith((SUFFIX, ".json")):
        return Inspected(read_sidecar(Path(data), None, str(data)), prior)
    return Inspected(open_release(data, sidecar, stages=None)[1], prior)


def of_attributes(sidecar: Sidecar) -> list[dict[str, Any]]:
    """Return the figures of every channel; None for what would take too long together."""
    if opened(sidecar).withholding:
        return [_of_withheld(sidecar, a.name) for a in sidecar.perturbed]
    figures, entries = [], 0
    for channel in opened(sidecar).channels:
        matrix = channel.matrix
        if not matrix.diagonal:
            entries += (matrix.inputs + 64) ** 2  # so that many small ones count too
        whole = matrix.diagonal or entries <= MOST_ENTRIES
        figures.append(_of_channel(sidecar, channel, whole))
    return figures


def _of_channel(sidecar: Sidecar, channel: Channel, whole: bool) -> dict[str, Any]:
    """Return the figures of one channel; `whole` says whether the entries of its matrix may be computed."""
    own = [sidecar.by_name[n] for n in channel.attributes]
    matrix, spec = channel.matrix, channel.spec
    gamma = matrix.amplification
    closed = whole or channel.noise is None
    return {
        "attribute": channel.name,
        "type": own[0].type if len(own) == 1 else "together",
        "dtype": ", ".join(a.dtype for a in own),
        "N": channel.domain.size,
        "matrix": None if spec is None else spec.kind,
        "law": None if spec is None else spec.short(),
        **dict.fromkeys(FIGURES),
        **channel.figures,
        "gamma": _finite(gamma),
        "epsilon": _finite(epsilon(gamma)),
        "staying": matrix.staying if closed else None,
        "condition_number": _finite(matrix.condition_number) if whole else None,
        "candidates": matrix.candidates if closed else None,
        "entropy": matrix.entropy() if closed else None,
        "domain_from": "data" if any(a.domain_from == "data" for a in own) else "declared",
        "nulls": any(a.nulls for a in own),
    }


def _of_withheld(sidecar: Sidecar, name: str) -> dict[str, Any]:
    """Return the figures of an attribute that some records publish: what holds of those, and their share.

    Gamma is of all attributes that share its coin: each of them reveals something about that coin.
    """
    attribute, total = sidecar.by_name[name], sum(d.weight for d in opened(sidecar).recipes)
    having = [d for d in opened(sidecar).recipes if name in d.attributes]
    axes = [axis for d in having if (axis := d.marginal([name])) is not None]
    weights = [d.weight for d in having]
    staying = sum(w * a.matrix.staying for w, a in zip(weights, axes, strict=True)) / sum(weights)
    specs = [d.through[name].spec for d in having]
    gamma = max(d.through[name].matrix.amplification for d in having)
    return {
        "attribute": name,
        "type": attribute.type,
        "dtype": attribute.dtype,
        "N": attribute.N,
        "matrix": ", ".join(dict.fromkeys(s.kind for s in specs if s is not None)),
        "law": ", ".join(dict.fromkeys(s.kind for s in specs if s is not None)),
        "published": sum(weights) / total,
        "gamma": _finite(gamma),
        "epsilon": _finite(epsilon(gamma)),
        "staying": staying,
        "domain_from": attribute.domain_from,
        "nulls": attribute.nulls,
    }


def _finite(number: float) -> float | str:
    """Return "inf" for infinity, which JSON lacks; the sidecar writes it so."""
    return number if isfinite(number) else "inf"


def of_record(sidecar: Sidecar, prior: float = PRIOR) -> dict[str, Any]:
    """Return the product over the perturbed attributes, and what is outside every promise."""
    privacy = sidecar.privacy
    if privacy is UNSET:
        return {}
    gamma, stated = privacy.perturbed_gamma, privacy.perturbed_epsilon
    posterior = None if gamma is None else worst_posterior(float(gamma), prior)
    if gamma == "inf" and stated is not None:
        posterior = believed_after(float(stated), prior)
    return {
        "unit": privacy.unit,
        "rows": None if privacy.rows is UNSET else privacy.rows,
        "perturbed_gamma": gamma,
        "perturbed_epsilon": stated,
        "prior": prior,
        "worst_posterior": posterior,
        "unbounded": privacy.kept,
        "coins": privacy.coins,
        **(_of_recipes(sidecar) if opened(sidecar).withholding else {}),
    }


def _of_recipes(sidecar: Sidecar) -> dict[str, Any]:
    """Return how much is published."""
    total = sum(d.weight for d in opened(sidecar).recipes)
    cells = sum(d.weight * len(d.attributes) for d in opened(sidecar).recipes) / total
    return {
        "recipes": len(opened(sidecar).recipes),
        "rounds": len(in_rounds(opened(sidecar).recipes)),
        "published_cells": cells / len(sidecar.perturbed),
    }


def figures(sidecar: Sidecar, prior: float = PRIOR) -> dict[str, Any]:
    """Return all that `perturb` reports and `inspect` shows, as `--json` prints it."""
    return {
        "release": sidecar.release,
        "stage": sidecar.stage,
        "records": sidecar.records,
        "class": None if sidecar.class_ is UNSET else sidecar.class_,
        "record": of_record(sidecar, prior),
        "attributes": of_attributes(sidecar),
        **(
            {}
            if sidecar.scheme is UNSET
            else {"scheme": sidecar.scheme, "altered": [a.name for a in sidecar.altered]}
        ),
        "kept": [{"attribute": a.name, "dtype": a.dtype} for a in sidecar.kept],
    }


def sentences(sidecar: Sidecar, prior: float = PRIOR) -> list[str]:
    """Return the promise over a record in plain words."""
    record = of_record(sidecar, prior)
    lines = []
    if sidecar.privacy is UNSET:
        return [f"This is a table of results (stage {sidecar.stage!r}); it makes no promise about records."]
    if sidecar.reconstruction is not UNSET:
        row = (
            "The rows were shuffled, but each is a guess about the person in some row of the release"
            if sidecar.reconstruction.shuffled
            else "Each row is a guess about the person in the same row of the release"
        )
        lines.append(
            f"{row}, and many of its values are right. Anyone who has the release can make the same guesses: "
            "handle this file as you would the release."
        )
    kinds = _by_kind(sidecar)
    for kind, channels in kinds.items():
        lines += KINDS[kind].warnings(channels)
    lines += _over_a_record(sidecar, record, prior)
    if opened(sidecar).withholding:
        lines += _of_what_is_withheld(sidecar, record)
    if record["coins"] == "key-file" and opened(sidecar).withholding:
        lines.append(
            "The coins follow from a key and an identifier: a record shows the same attributes in each "
            "release under this key, which refuses another design, and unchanged ones get the same answers. A "
            "change in one value redraws all that are published with it, costs the record's gamma again, and "
            "is not hidden."
        )
    elif record["coins"] == "key-file":
        lines.append(
            "The coins follow from a key and an identifier: an unchanged value gets the same answer in "
            "each release under this key with the same domain and gamma (as --like takes them); a changed "
            "value, domain or gamma costs its gamma again, and a changed answer proves a change."
        )
    if record["unbounded"]:
        lines.append(
            f"Published unchanged, so not protected: {some(record['unbounded'])}. No limit covers them, or "
            "what they reveal about the others."
        )
    for kind, channels in kinds.items():
        lines += KINDS[kind].remarks(channels)
    if fine := [a.name for a in sidecar.attributes if a.dtype.startswith("timestamp[ns")]:
        lines.append(
            f"Times in nanoseconds: {some(fine)}. Spark reads them as whole numbers. If a miner uses Spark, "
            "cast them to microseconds before they are perturbed."
        )
    from_data = [a.name for a in sidecar.perturbed if a.domain_from == "data"]
    if from_data:
        lines.append(
            f"Domains taken from the private data, and published with the sidecar: {some(from_data)}. No limit "
            "covers what they reveal."
        )
    return lines


def alone(sidecar: Sidecar, prior: float = PRIOR) -> float | None:
    """Return the bound for someone who looks at one attribute alone; None where it is that of the record.

    The attributes of one recipe have coins of their own. Where records share a coin between attributes,
    a reader who knows or guesses one of a record's values learns as much about the others as gamma allows.
    """
    if opened(sidecar).withholding or len(opened(sidecar).channels) < 2:
        return None
    gamma = max(c.matrix.amplification for c in opened(sidecar).recipes[0].channels)
    return believed_after(sidecar.times * epsilon(gamma), prior)


def limits(sidecar: Sidecar, posterior: float, prior: float = PRIOR) -> list[str]:
    """Say how far a belief may go: after the whole record, and after one attribute where that is less."""
    privacy, one = sidecar.privacy, alone(sidecar, prior)
    seen = "the whole record"
    if privacy is not UNSET and privacy.rows is not UNSET:
        seen = "all records of the person"
    if sidecar.copy is not UNSET:
        seen += f" in all {sidecar.copy.of} copies"
    said = limit(posterior, prior, seen)
    lines = [f"{said[0].upper()}{said[1:]}."]
    if one is not None and not (shown := at_most(one)).startswith("over"):
        lines.append(
            f"From one attribute alone, without the others of the record, they become at most {shown} sure."
        )
    return lines


def _over_a_record(sidecar: Sidecar, record: dict[str, Any], prior: float) -> list[str]:
    """Say what is promised over all perturbed attributes of a record, in all copies."""
    if record["coins"] == "unknown":
        return ["Another tool perturbed it, and nothing is known of its coins: nothing is promised."]
    if sidecar.scheme is not UNSET:
        altered = some(a.name for a in sidecar.altered)
        lines = [
            f"Noise that keeps a decision tree ({', '.join(sidecar.scheme)}) is on {altered}. It promises no "
            "gamma and no epsilon: any value may be published as it was. A miner takes the values as they are."
        ]
        return lines + _SEEDED * (record["coins"] == "seeded")
    if record["perturbed_gamma"] is None:
        return _SEEDED
    open_ones = [c for c in opened(sidecar).channels if not isfinite(c.matrix.amplification)]
    if open_ones:
        names = ", ".join(c.name for c in open_ones if c.noise is None)
        return [f"No limit for a whole record: no gamma holds for {names}."] * bool(names)
    many = len(sidecar.perturbed)
    attributes = f"{many} perturbed attributes" if many > 1 else "one perturbed attribute"
    whose = f"the {counted(record['rows'], 'record')} of a person" if record["unit"] == "person" else "a record"
    of_copies = "" if sidecar.copy is UNSET else f", in all {sidecar.copy.of} copies together,"
    stated, cost = record["perturbed_gamma"], f"{up(record['perturbed_epsilon']):.4g}"
    figures = f"epsilon is {cost}" if stated == "inf" else f"gamma is {stated} (epsilon {cost})"
    return [
        *limits(sidecar, record["worst_posterior"], prior),
        f"Over the {attributes} of {whose}{of_copies or ','} {figures}.",
    ]


def _of_what_is_withheld(sidecar: Sidecar, record: dict[str, Any]) -> list[str]:
    """Say how much is published, and what the limit is for."""
    sizes = sorted({len(d.attributes) for d in opened(sidecar).recipes})
    few = " or ".join(map(str, sizes))
    lines = [
        f"Each record publishes {few} of {len(sidecar.perturbed)} attributes, chosen by a coin that sees no "
        f"value: {percent(record['published_cells'])} of the cells; the others are withheld."
    ]
    if sizes[-1] > 1:
        lines[0] += (
            " The limit for a single value is the same, because a reader who knows or guesses another value of "
            "the record may become that sure."
        )
    if len(rounds := in_rounds(opened(sidecar).recipes)) > 1:
        total = sum(d.weight for d in opened(sidecar).recipes)
        shares = [percent(sum(d.weight for d in own) / total) for own in rounds]
        last = dict.fromkeys(n for d in rounds[-1] for n in d.attributes if n != sidecar.class_)
        lines.append(
            f"The records were dealt to {len(rounds)} rounds by a coin ({', '.join(shares)}). What later ones "
            f"publish was chosen by what earlier ones had published: in the last round {listed(last)}."
        )
    if record["unit"] == "record":
        lines.append(
            "The promise is for a record: of a person with several records it is their product, unless "
            "--person limits them."
        )
    return lines


def _by_kind(sidecar: Sidecar) -> dict[str, list[Channel]]:
    found: dict[str, list[Channel]] = {}
    for channel in opened(sidecar).channels:
        if channel.spec is not None:
            found.setdefault(channel.spec.kind, []).append(channel)
    return found


def noisy(sidecar: Sidecar) -> bool:
    """Return whether the published values are numbers with noise, not values of domains."""
    return any(c.noise is not None for c in opened(sidecar).channels)
