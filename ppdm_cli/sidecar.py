"""The sidecar: the contract between owner and miner, as typed, versioned, validated JSON.

It says how a release was made: domains, matrices, what they promise; never a key, a seed or a
value of the data beyond the domains. Decoded strictly: an unknown field, an impossible domain or a
matrix that cannot be is refused with one line, and no size in it decides how much is allocated.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Sequence
from functools import cached_property
from math import inf, isfinite, log
from typing import Annotated, Any, Literal

import msgspec
import pyarrow as pa
from msgspec import UNSET, Meta, UnsetType

from ppdm_cli import __version__
from ppdm_cli.channels import KINDS, Channel, Name, Spec, together
from ppdm_cli.display import Displayed
from ppdm_cli.domain import MOST_VALUES
from ppdm_cli.errors import MismatchError, PpdmError, RefusedError, counted, quoted
from ppdm_cli.sidecar_attributes import Attribute
from ppdm_cli.sidecar_recipes import COLUMN, MOST_RECIPES, Dealt, Recipe, dealt

FORMAT, VERSION = "ppdm-sidecar", 1
TOOL = f"ppdm {__version__}"
LARGEST = 64 << 20
"""The most bytes of JSON that are read."""
MOST_COPIES, SUFFIX = 64, ".ppdm.json"
MOST_ROWS = 1 << 16
"""The most rows that a person may have, where the promise is for a person."""
METADATA_KEY = b"ppdm"

Stage = Literal["perturbed", "reconstructed", "estimated", "evaluated", "tree"]
Scheme = Literal["class-random", "class-probabilistic", "class-all-leaves", "innocent"]
"""Noise that keeps a decision tree; no gamma holds for it."""
CoinsOrigin = Literal["system", "seeded", "key-file", "unknown"]
UNPROMISED = ("seeded", "unknown")
"""Coins that nothing can be promised of: someone else may compute them, or nobody knows what they were."""


SEVERAL = RefusedError(
    "the release has several recipes: most of its cells are withheld, and this cannot read it yet",
    "see `ppdm inspect`, or ask the owner for a release with --publish all",
)
"""What is said where a cell that is withheld would be taken for null."""


class Privacy(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What the release promises over a record, and of what it promises nothing."""

    unit: Literal["record", "person"]
    perturbed_gamma: int | float | Literal["inf"] | None
    perturbed_epsilon: int | float | Literal["inf"] | None
    kept: list[Name]
    coins: CoinsOrigin
    rows: Annotated[int, Meta(ge=1, le=MOST_ROWS)] | UnsetType = UNSET
    """How many records a person has at most, where the promise is for a person."""
    person: Name | UnsetType = UNSET
    """The column that names the person, by which the next batch has the same limit."""
    shuffled: bool = False
    """Whether the rows are in a random order."""
    key: Annotated[str, Meta(pattern="^[0-9a-f]{16}$")] | UnsetType = UNSET
    """A keyed digest by which releases under one key file are known."""
    id: Name | UnsetType = UNSET
    """The column that records are known by under that key, which the next batch must use again."""

    def __post_init__(self) -> None:
        if {self.unit == "person"} != {self.rows is not UNSET, self.person is not UNSET}:
            raise ValueError("a promise for a person has their column and how many rows they have at most")
        if {self.coins == "key-file"} != {self.key is not UNSET, self.id is not UNSET}:
            raise ValueError("a key has a digest and an identifier just where the coins follow from a key file")


class Copy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which of several independent releases of the same records this is."""

    of: Annotated[int, Meta(ge=2, le=MOST_COPIES)]
    number: Annotated[int, Meta(ge=1, le=MOST_COPIES)]
    release: Annotated[str, Meta(max_length=36)]
    """The id that the copies share."""


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
    Displayed,
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    kw_only=True,
    dict=True,
):
    """A whole sidecar."""

    format: Literal["ppdm-sidecar"]
    version: Literal[1]
    tool: Annotated[str, Meta(max_length=128)]
    stage: Stage
    release: Annotated[str, Meta(max_length=36)]
    records: Annotated[int, Meta(ge=0, le=(1 << 63) - 1)] | None
    attributes: Annotated[list[Attribute], Meta(max_length=1 << 16)]
    recipes: Annotated[list[Recipe], Meta(max_length=MOST_RECIPES)] = []
    class_: Name | UnsetType = msgspec.field(default=UNSET, name="class")
    privacy: Privacy | UnsetType = UNSET
    copy: Copy | UnsetType = UNSET
    scheme: Annotated[list[Scheme], Meta(min_length=1, max_length=4)] | UnsetType = UNSET
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
        self._check_channels()
        if self.stage == "perturbed" and self.privacy is UNSET:
            raise ValueError("a perturbed release needs 'privacy'")
        if self.privacy is not UNSET:
            kept = [a.name for a in self.attributes if a.role == "kept"]
            if sorted(self.privacy.kept) != sorted(kept):
                raise ValueError("privacy.kept is not the list of the kept attributes")
            unpromised = self.privacy.coins in UNPROMISED or self.scheme is not UNSET
            if (self.privacy.perturbed_gamma is None) != unpromised:
                raise ValueError("a gamma is promised just where the coins are known, and no seed's")
            self._check_promise(self.privacy)

    def _check_channels(self) -> None:
        """Check that each perturbed attribute goes through a channel, and through one in each recipe."""
        if (self.scheme is UNSET) != (not self.altered) or (self.altered and self.perturbed):
            raise ValueError("attributes are altered just where a scheme is named, and none is perturbed then")
        perturbed = {a.name for a in self.perturbed}
        through = [n for d in self.dealt for n in d.attributes]
        if set(through) != perturbed or (not self.withholding and len(through) > len(perturbed)):
            raise ValueError("the channels do not have each of the perturbed attributes once")
        specs = [c.spec for c in self.channels if c.spec is not None]
        for spec in specs:
            if not spec.goes_with(specs[0]):
                raise ValueError(f"{spec.kind} channels of one law are on all perturbed attributes or on none")
            if self.withholding and spec.everywhere:
                raise ValueError(f"{spec.kind} channels have no recipes")
        if self.withholding and COLUMN in self.by_name:
            raise ValueError(f"a column has the name of the recipes' own, {COLUMN}")
        names = [c.name for c in self.channels]
        if not self.withholding and len({*names, *(a.name for a in self.kept)}) < len(names) + len(self.kept):
            raise ValueError("attributes that are perturbed together have, together, the name of another")

    def _check_promise(self, privacy: Privacy) -> None:
        """Check that the promise over a record is what the attributes' matrices give (maths 2)."""
        if privacy.perturbed_gamma is None or privacy.perturbed_epsilon is None:
            if privacy.perturbed_gamma != privacy.perturbed_epsilon:
                raise ValueError("gamma and epsilon are promised both or neither")
            return
        epsilon = self.times * max((d.epsilon for d in self.dealt), default=0.0)
        gamma = float(privacy.perturbed_gamma)
        told = log(gamma) if isfinite(gamma) and gamma > 0 else inf if gamma > 0 else -inf
        if told < epsilon - 1e-4 or (isfinite(told) and told > epsilon + 1e-3 * max(1.0, epsilon)):
            raise ValueError("privacy.perturbed_gamma is not what the attributes give")
        stated = float(privacy.perturbed_epsilon)
        if stated != epsilon and not abs(stated - epsilon) <= 1e-4 * max(1.0, epsilon) < inf:
            raise ValueError("privacy.perturbed_epsilon is not what the attributes give")

    @property
    def times(self) -> int:
        """Return how many answers about the same value there may be: one in each copy, for each row."""
        rows = UNSET if self.privacy is UNSET else self.privacy.rows
        return (1 if self.copy is UNSET else self.copy.of) * (1 if rows is UNSET else rows)

    def column_kind(self, attribute: Attribute) -> Any:
        """Return the type of an attribute's column in the data that this sidecar goes with."""
        if self.stage != "perturbed" or attribute.role != "perturbed":
            return attribute.kind
        return (
            attribute.column.kind
            if self.withholding
            else self.through(attribute.name).shown(attribute.name).kind
        )

    @cached_property
    def dealt(self) -> list[Dealt]:
        """Return the recipes, by their numbers."""
        return dealt(self.recipes, {a.name: a for a in self.perturbed})

    @property
    def withholding(self) -> bool:
        """Return whether records differ in their recipes, and withhold what theirs leaves out."""
        return len(self.dealt) > 1

    @cached_property
    def columns(self) -> list[tuple[str, Any]]:
        """Return the names and types of the data's columns, in order."""
        found = [(a.name, self.column_kind(a)) for a in self.attributes]
        return found + [(COLUMN, pa.uint16())] * (self.stage == "perturbed" and self.withholding)

    @cached_property
    def taken(self) -> int:
        """Return how many copies are read side by side."""
        return 1

    @cached_property
    def by_name(self) -> dict[str, Attribute]:
        return {a.name: a for a in self.attributes}

    @cached_property
    def _spec_of(self) -> dict[str, Spec]:
        return {n: c.spec for c in self.channels if c.spec is not None for n in c.attributes}

    def spec(self, name: str) -> Spec | None:
        """Return what the sidecar says of an attribute's channel; None where it was kept."""
        return self._spec_of.get(name)

    def through(self, name: str) -> Channel:
        """Return the channel that an attribute goes through, by itself or with others; itself where kept."""
        return self._through[name] if name in self._through else self.axis(name)

    def axis(self, name: str) -> Channel:
        """Return the axis of an attribute alone: its channel, or itself as it was kept."""
        if name not in self._axes:
            self._axes[name] = self._axis(name)
        return self._axes[name]

    def _axis(self, name: str) -> Channel:
        if name not in self._alone:
            if self.withholding and self.by_name[name].role == "perturbed":
                raise SEVERAL
            return self.by_name[name].as_kept
        found = self.marginal([name])
        if found is None:
            raise RefusedError(
                f"{quoted(name)} was perturbed together with others, and what is published of it hangs on "
                "their values too",
                "name another column",
            )
        return found

    def marginal(self, names: Sequence[str]) -> Channel | None:
        """Return the axis of attributes that share a channel, None where these have no law of their own."""
        found = self._alone[names[0]].marginal(names)
        return found if found is None or self.taken == 1 else together(found, self.taken)

    @cached_property
    def _axes(self) -> dict[str, Channel]:
        return {c.name: c for c in self.channels}

    @cached_property
    def _through(self) -> dict[str, Channel]:
        return {n: c for c in self.channels for n in c.attributes}

    @cached_property
    def _alone(self) -> dict[str, Channel]:
        """Return by attribute the channels of one copy."""
        return {} if self.withholding else {n: c for d in self.dealt for c in d.channels for n in c.attributes}

    @cached_property
    def channels(self) -> list[Channel]:
        """Return the channels, in the order of the first of their columns; of several recipes those of all."""
        if self.withholding:
            return list({msgspec.json.encode(c.spec): c for d in self.dealt for c in d.channels}.values())
        return list({c.name: c for a in self.perturbed for c in [self._alone[a.name]]}.values())

    def take_together(self, copies: int) -> None:
        """Let the channels be those of so many copies, read side by side."""
        channels = [together(c, copies) for c in self.channels]
        self.__dict__.update(channels=channels, taken=copies)
        for part in ("_axes", "_through"):
            self.__dict__.pop(part, None)

    @cached_property
    def perturbed(self) -> list[Attribute]:
        return [a for a in self.attributes if a.role == "perturbed"]

    @property
    def altered(self) -> list[Attribute]:
        return [a for a in self.attributes if a.role == "altered"]

    @property
    def is_substituted(self) -> bool:
        """Return whether the values are answers of channels, which are no values to learn from."""
        return self.stage == "perturbed" and self.scheme is UNSET

    @cached_property
    def kept(self) -> list[Attribute]:
        return [a for a in self.attributes if a.role == "kept"]

    def _words(self) -> list[str]:
        attributes = [
            f"{counted(len(self.altered or self.perturbed), 'attribute')} perturbed",
            f"{len(self.kept)} kept",
        ]
        gamma = [] if self.privacy is UNSET else [f"gamma {self.privacy.perturbed_gamma}"]
        records = "unknown" if self.records is None else self.records
        return [self.stage, f"{records} records", *attributes, *gamma, f"release {self.release}"]

    def _body(self) -> list[str]:
        return [repr(a) for a in self.attributes]

    def encode(self) -> bytes:
        """Return canonical JSON, one attribute per line: the bytes that file and metadata both hold."""
        raw = msgspec.json.decode(_ENCODER.encode(self), type=dict[str, msgspec.Raw])
        ordered = {k: bytes(raw[k]) for k in _ORDER if k in raw}
        attributes = msgspec.json.decode(ordered["attributes"], type=list[msgspec.Raw])
        lines = b",\n    ".join(bytes(a) for a in attributes)
        ordered["attributes"] = b"[\n    " + lines + b"]" if attributes else b"[]"
        if self.recipes:
            ordered["recipes"] = b"[ %s ]" % b",\n  ".join(r.encoded(_ENCODER.encode) for r in self.recipes)
        body = b",\n  ".join(b'"%s": %s' % (k.encode(), v) for k, v in ordered.items())
        return b"{ " + body + b" }\n"


_ENCODER = msgspec.json.Encoder()
_ORDER = (
    "format", "version", "tool", "stage", "release", "records", "class", "privacy", "copy", "scheme",
    "blake2b", "evaluated", "reconstruction", "history", "attributes", "recipes",
)  # fmt: skip


def new(stage: Stage, release: str, records: int | None, attributes: list[Attribute], **rest: Any) -> Sidecar:
    """Return a sidecar as this version of the tool writes it."""
    named: dict[str, Any] = {"release": release, "records": records, "attributes": attributes, **rest}
    return Sidecar(format="ppdm-sidecar", version=1, tool=TOOL, stage=stage, **named)


def _channel(_: type, record: Any) -> Spec:
    """Return the spec that a channel's JSON object is."""
    if not isinstance(record, dict) or record.get("kind") not in KINDS:
        raise ValueError(f"a channel's kind is none of {', '.join(KINDS)}")
    return msgspec.convert(record, type=KINDS[record["kind"]])


def decode(data: bytes, where: str) -> Sidecar:
    """Read a sidecar strictly; `where` names the file for the error."""
    if len(data) > LARGEST:
        raise MismatchError(
            f"the sidecar {quoted(where)} is larger than {LARGEST >> 20} MiB",
            "ask for the one that was published with the release",
        )
    try:
        return msgspec.json.decode(data, type=Sidecar, dec_hook=_channel)
    except (msgspec.MsgspecError, ValueError, RecursionError, OverflowError, PpdmError) as error:
        what = error.what if isinstance(error, PpdmError) else explained(data, error)
        raise MismatchError(
            f"the sidecar {quoted(where)} is not valid: {what}",
            "ask for the one that was published with the release, unedited",
        ) from None


def explained(data: bytes, error: Exception, form: str = FORMAT, version: int = VERSION) -> str:
    """Return what is wrong; an unknown format or version in words of its own."""
    try:
        head = msgspec.json.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return "it is not JSON"
    if not isinstance(head, dict) or head.get("format") != form:
        return f'it does not say "format": "{form}"'
    if head.get("version") != version:
        return f"it has another major version; this ppdm reads version {version}"
    return str(error)[:300]


def display_json(value: Any) -> bytes:
    """Return JSON for programs, as `--json` prints it: in ASCII, so that nothing in it moves a terminal."""
    text = msgspec.json.format(_ENCODER.encode(value), indent=2).decode()
    return re.sub(r"[^ -~\n]", lambda c: json.dumps(c[0])[1:-1], text).encode()
