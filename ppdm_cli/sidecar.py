"""The sidecar: the contract between owner and miner, as typed, versioned, validated JSON.

It says how a release was made: domains, matrices, what they promise; never a key, a seed or a
value of the data beyond the domains. Decoded strictly: an unknown field, an impossible domain or a
matrix that cannot be is refused with one line, and no size in it decides how much is allocated.
"""

from __future__ import annotations

import json
import re
import uuid
from functools import cached_property
from itertools import pairwise
from math import inf, isfinite, log
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import UNSET, Meta, UnsetType

from ppdm_cli import dtypes
from ppdm_cli.domain import MOST_VALUES, Bins, Categories, Domain, Representative
from ppdm_cli.errors import MismatchError, PpdmError, counted, quoted
from ppdm_cli.matrices import Additive, AdditiveSpec, AnyMatrix, Extents, MatrixSpec, build
from ppdm_cli.shown import Shown
from ppdm_cli.version import __version__

FORMAT, VERSION = "ppdm-sidecar", 1
LARGEST = 64 << 20
"""Bytes of JSON that are read at most."""
SUFFIX = ".ppdm.json"
METADATA_KEY = b"ppdm"

Name = Annotated[str, Meta(min_length=1, max_length=1 << 12)]
Scalar = int | float | bool | Annotated[str, Meta(max_length=1 << 14)]
Stage = Literal["perturbed", "reconstructed", "estimated", "evaluated", "tree"]
Origin = Literal["declared", "data"]
CoinsOrigin = Literal["system", "seeded", "key-file"]


class Beyond(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a band publishes beyond the domain: as many edges (or numbers) more on either side.

    `dtype` is the type of the published column, which is wider where the attribute's own has no room.
    """

    dtype: Annotated[str, Meta(max_length=128)]
    below: Annotated[list[Scalar], Meta(max_length=MOST_VALUES)]
    above: Annotated[list[Scalar], Meta(max_length=MOST_VALUES)]


class Attribute(
    Shown, msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True
):
    """One column of the release: what its values are, and what was done to them."""

    name: Name
    role: Literal["perturbed", "kept"]
    type: Literal["continuous", "discrete"]
    dtype: Annotated[str, Meta(max_length=128)]
    N: Annotated[int, Meta(ge=1, le=MOST_VALUES + 1)] | UnsetType = UNSET
    edges: Annotated[list[Scalar], Meta(max_length=MOST_VALUES + 1)] | UnsetType = UNSET
    categories: Annotated[list[Scalar], Meta(max_length=MOST_VALUES)] | UnsetType = UNSET
    nulls: bool | UnsetType = UNSET
    representative: Representative | UnsetType = UNSET
    domain_from: Origin | UnsetType = UNSET
    matrix: MatrixSpec | UnsetType = UNSET
    beyond: Beyond | UnsetType = UNSET

    def __post_init__(self) -> None:
        kind = self._parsed(dtypes.parse, self.dtype)
        if (self.edges is not UNSET) and (self.categories is not UNSET):
            raise ValueError(f"{quoted(self.name)} has both edges and categories")
        if self.role == "perturbed":
            for part in ("N", "nulls", "domain_from", "matrix"):
                if getattr(self, part) is UNSET:
                    raise ValueError(f"{quoted(self.name)} is perturbed, so it needs {part!r}")
            if self.edges is UNSET and self.categories is UNSET:
                raise ValueError(f"{quoted(self.name)} is perturbed, so it needs edges or categories")
            if self.edges is not UNSET and self.representative is UNSET:
                raise ValueError(f"{quoted(self.name)} has edges, so it needs a representative")
        elif self.matrix is not UNSET:
            raise ValueError(f"{quoted(self.name)} is kept, so it has no matrix")
        if self.edges is not UNSET and dtypes.is_discrete(kind):
            raise ValueError(f"{quoted(self.name)} is of type {self.dtype}, which has no edges")
        if (self.type == "continuous") != (self.edges is not UNSET) and self.has_domain:
            raise ValueError(f"{quoted(self.name)}: continuous goes with edges, discrete with categories")
        if self.has_domain and self._parsed(lambda: self.domain.size) != self.N:
            raise ValueError(f"{quoted(self.name)}: N is not the number of its codes")
        if self.matrix is not UNSET:
            matrix = self._parsed(lambda: self.built_matrix)
            if self._parsed(lambda: self.published_domain.size) != matrix.outputs:
                raise ValueError(f"{quoted(self.name)}: the codes are not the ones that its matrix publishes")
            if isinstance(matrix, Additive) and (self.nulls is True or self.beyond is not UNSET):
                raise ValueError(f"{quoted(self.name)}: noise goes with neither nulls nor 'beyond'")
        elif self.beyond is not UNSET:
            raise ValueError(f"{quoted(self.name)} has no matrix that publishes anything beyond its domain")

    def _parsed(self, make: Any, *args: Any) -> Any:
        """A validation step; what goes wrong says the attribute."""
        try:
            return make(*args)
        except PpdmError as error:
            raise ValueError(f"{quoted(self.name)}: {error.what}") from None
        except (ValueError, ArithmeticError) as error:
            raise ValueError(f"{quoted(self.name)}: {error}") from None

    def _words(self) -> list[str]:
        matrix = [] if self.matrix is UNSET else [self.matrix.kind]
        return [quoted(self.name), self.role, f"{self.type} {self.dtype}", *matrix, f"N {self.N or 'unknown'}"]

    @property
    def has_domain(self) -> bool:
        return self.edges is not UNSET or self.categories is not UNSET

    @property
    def kind(self) -> Any:
        """The Arrow type of the column."""
        return dtypes.parse(self.dtype)

    @property
    def domain(self) -> Domain:
        """The domain, built anew: keep it where it is used for many batches."""
        kind, nulls = self.kind, self.nulls is True
        if self.edges is not UNSET:
            edges = [dtypes.from_json(e, kind) for e in self.edges]
            representative = "center" if self.representative is UNSET else self.representative
            return Bins(kind, edges, nulls, representative)
        if self.categories is not UNSET:
            return Categories(kind, [dtypes.from_json(c, kind) for c in self.categories], nulls)
        raise MismatchError(
            f"the sidecar gives no domain for {quoted(self.name)}",
            "ask the owner for a release that declares it",
        )

    @property
    def published_kind(self) -> Any:
        """The Arrow type of the column in the release."""
        if isinstance(self.matrix, AdditiveSpec):
            return dtypes.parse(self.matrix.dtype)
        return self.kind if self.beyond is UNSET else dtypes.parse(self.beyond.dtype)

    @property
    def published_domain(self) -> Domain:
        """What the release's column may hold: the domain, and what is published beyond it."""
        matrix = self.built_matrix if isinstance(self.matrix, AdditiveSpec) else None
        if isinstance(matrix, Additive):
            return Bins(self.published_kind, matrix.edges.tolist(), False)
        if self.beyond is UNSET:
            return self.domain
        kind = self.published_kind
        below, above = ([dtypes.from_json(e, kind) for e in s] for s in (self.beyond.below, self.beyond.above))
        if not below or len(below) != len(above):
            raise ValueError("a band publishes as much below the domain as above it")
        if dtypes.is_discrete(self.kind) or dtypes.holding(self.kind, below[0], above[-1]) != kind:
            raise ValueError(f"a band on type {self.dtype} is not published as {self.beyond.dtype}")
        return self.domain.extended(kind, below, above)

    @property
    def built_matrix(self) -> AnyMatrix:
        if self.matrix is UNSET or self.N is UNSET:
            raise MismatchError(f"{quoted(self.name)} is kept: it has no matrix", "name a perturbed attribute")
        extents = extents_of(self.domain) if isinstance(self.matrix, AdditiveSpec) else ()
        return build(self.matrix, self.N, self.nulls is True, extents)


def extents_of(domain: Domain) -> Extents:
    """Between which numbers the values of each code lie; whole steps count half a step to either side."""
    if not (pa.types.is_integer(domain.kind) or pa.types.is_floating(domain.kind)):
        raise ValueError(f"values of type {domain.kind} take no noise")
    if isinstance(domain, Categories):
        return tuple((float(v), float(v)) for v in domain.values)
    assert isinstance(domain, Bins)
    edges = domain.edges.astype(np.float64)
    if dtypes.is_whole(domain.kind):
        edges -= 0.5
        edges[-1] += 1
    return tuple(pairwise(edges.tolist()))


class Privacy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the release promises over a record, and of what it promises nothing."""

    perturbed_gamma: int | float | Literal["inf"] | None
    perturbed_epsilon: int | float | Literal["inf"] | None
    kept: list[Name]
    coins: CoinsOrigin


class Past(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A stage that came before: which release, how many records, made by what."""

    stage: Stage
    release: Annotated[str, Meta(max_length=36)]
    records: Annotated[int, Meta(ge=0)] | None
    tool: Annotated[str, Meta(max_length=128)]

    @classmethod
    def of(cls, sidecar: Sidecar) -> Past:
        return cls(sidecar.stage, sidecar.release, sidecar.records, sidecar.tool)


class Reconstruction(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How a data set was made from a release (stage "reconstructed")."""

    method: Literal["joint", "by-class", "global"]
    estimator: Literal["set-scale", "simplex", "ml"]
    spread: bool
    shuffled: bool = False
    """Whether the rows are in an order of their own; else row i is a guess about row i of the release."""


class Evaluated(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The grid that a result table speaks of (stage "evaluated")."""

    gammas: Annotated[list[float], Meta(max_length=1 << 12)]
    N: Annotated[list[Annotated[int, Meta(ge=2, le=MOST_VALUES + 1)]], Meta(max_length=1 << 12)]


class Sidecar(
    Shown, msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True, dict=True
):
    """A whole sidecar."""

    format: Literal["ppdm-sidecar"]
    version: Literal[1]
    tool: Annotated[str, Meta(max_length=128)]
    stage: Stage
    release: Annotated[str, Meta(max_length=36)]
    records: Annotated[int, Meta(ge=0, le=(1 << 63) - 1)] | None
    attributes: Annotated[list[Attribute], Meta(max_length=1 << 16)]
    class_: Name | UnsetType = msgspec.field(default=UNSET, name="class")
    privacy: Privacy | UnsetType = UNSET
    blake2b: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")] | UnsetType = UNSET
    evaluated: Evaluated | UnsetType = UNSET
    reconstruction: Reconstruction | UnsetType = UNSET
    history: Annotated[list[Past], Meta(max_length=1 << 12)] | UnsetType = UNSET

    def __post_init__(self) -> None:
        uuid.UUID(self.release)
        names = [a.name for a in self.attributes]
        if len(set(names)) != len(names):
            raise ValueError("an attribute is listed twice")
        if self.class_ is not UNSET and self.class_ not in names:
            raise ValueError("the class is not among the attributes")
        if len({getattr(a.matrix, "noise", None) for a in self.perturbed}) > 1:
            raise ValueError("noise of one law is on all perturbed attributes or on none")
        if self.stage == "perturbed" and self.privacy is UNSET:
            raise ValueError("a perturbed release needs 'privacy'")
        if self.privacy is not UNSET:
            kept = [a.name for a in self.attributes if a.role == "kept"]
            if sorted(self.privacy.kept) != sorted(kept):
                raise ValueError("privacy.kept is not the list of the kept attributes")
            if (self.privacy.perturbed_gamma is None) != (self.privacy.coins == "seeded"):
                raise ValueError("a gamma is promised just where the coins were not seeded")
            self._check_promise(self.privacy)

    def _check_promise(self, privacy: Privacy) -> None:
        """What is promised over a record is what the attributes' matrices give (maths 2)."""
        if privacy.perturbed_gamma is None or privacy.perturbed_epsilon is None:
            if privacy.perturbed_gamma != privacy.perturbed_epsilon:
                raise ValueError("gamma and epsilon are promised both or neither")
            return
        epsilon = sum(log(a.built_matrix.amplification) for a in self.perturbed)
        gamma = float(privacy.perturbed_gamma)
        told = log(gamma) if isfinite(gamma) and gamma > 0 else inf if gamma > 0 else -inf
        if told < epsilon - 1e-4 or (isfinite(told) and told > epsilon + 1e-3 * max(1.0, epsilon)):
            raise ValueError("privacy.perturbed_gamma is not what the attributes give")
        said = float(privacy.perturbed_epsilon)
        if said != epsilon and not abs(said - epsilon) <= 1e-4 * max(1.0, epsilon) < inf:
            raise ValueError("privacy.perturbed_epsilon is not what the attributes give")

    def column_kind(self, attribute: Attribute) -> Any:
        """The type of an attribute's column in the data that this sidecar goes with."""
        return attribute.published_kind if self.stage == "perturbed" else attribute.kind

    @cached_property
    def perturbed(self) -> list[Attribute]:
        return [a for a in self.attributes if a.role == "perturbed"]

    @cached_property
    def kept(self) -> list[Attribute]:
        return [a for a in self.attributes if a.role == "kept"]

    def _words(self) -> list[str]:
        attributes = [f"{counted(len(self.perturbed), 'attribute')} perturbed", f"{len(self.kept)} kept"]
        gamma = [] if self.privacy is UNSET else [f"gamma {self.privacy.perturbed_gamma}"]
        records = "unknown" if self.records is None else self.records
        return [self.stage, f"{records} records", *attributes, *gamma, f"release {self.release}"]

    def _body(self) -> list[str]:
        return [repr(a) for a in self.attributes]

    def encode(self) -> bytes:
        """Canonical JSON, one attribute a line: the bytes that file and metadata both hold."""
        raw = msgspec.json.decode(_ENCODER.encode(self), type=dict[str, msgspec.Raw])
        ordered = {k: bytes(raw[k]) for k in _ORDER if k in raw}
        attributes = msgspec.json.decode(ordered["attributes"], type=list[msgspec.Raw])
        lines = b",\n    ".join(bytes(a) for a in attributes)
        ordered["attributes"] = b"[\n    " + lines + b"]" if attributes else b"[]"
        body = b",\n  ".join(b'"%s": %s' % (k.encode(), v) for k, v in ordered.items())
        return b"{ " + body + b" }\n"


_ENCODER = msgspec.json.Encoder()
_ORDER = (
    "format",
    "version",
    "tool",
    "stage",
    "release",
    "records",
    "class",
    "privacy",
    "blake2b",
    "evaluated",
    "reconstruction",
    "history",
    "attributes",
)


def tool() -> str:
    return f"ppdm {__version__}"


def decode(data: bytes, where: str) -> Sidecar:
    """Read a sidecar strictly; `where` names the file for the error."""
    if len(data) > LARGEST:
        raise MismatchError(
            f"the sidecar {quoted(where)} is larger than {LARGEST >> 20} MiB",
            "ask for the one that was published with the release",
        )
    try:
        return msgspec.json.decode(data, type=Sidecar)
    except (msgspec.MsgspecError, ValueError, RecursionError, OverflowError) as error:
        what = explained(data, error)
        raise MismatchError(
            f"the sidecar {quoted(where)} is not valid: {what}",
            "ask for the one that was published with the release, unedited",
        ) from None
    except PpdmError as error:
        raise MismatchError(
            f"the sidecar {quoted(where)} is not valid: {error.what}",
            "ask for the one that was published with the release, unedited",
        ) from None


def explained(data: bytes, error: Exception, form: str = FORMAT, version: int = VERSION) -> str:
    """What is wrong; an unknown format or version in words of its own."""
    try:
        head = msgspec.json.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return "it is no JSON"
    if not isinstance(head, dict) or head.get("format") != form:
        return f'it does not say "format": "{form}"'
    if head.get("version") != version:
        return f"it has another major version; this ppdm reads version {version}"
    return str(error)[:300]


def json_schema() -> bytes:
    """The JSON Schema of sidecars, as shipped in `sidecar.schema.json`."""
    return msgspec.json.format(msgspec.json.encode(msgspec.json.schema(Sidecar)), indent=2) + b"\n"


def display_json(value: Any) -> bytes:
    """Return JSON for programs, as `--json` prints it: in ASCII, so that nothing in it moves a terminal."""
    text = msgspec.json.format(_ENCODER.encode(value), indent=2).decode()
    return re.sub(r"[^ -~\n]", lambda c: json.dumps(c[0])[1:-1], text).encode()
