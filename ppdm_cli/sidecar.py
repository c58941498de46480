"""The sidecar for owner and miner: the contract between them, as typed, versioned JSON.

It describes how a release was made: domains, channels and their promise; never a key, a seed or a value of the
data beyond the domains. These are plain records, read strictly: an unknown field or a wrong type is refused
with one line. `releases.decode` checks once that a sidecar makes sense. An opened release has all that follows
from it: its channels, recipes and axes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import combinations
from math import comb
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from ppdm_cli import __version__, dtypes
from ppdm_cli.channels import KINDS, Beyond, Name, Recorded, Scalar, Spec
from ppdm_cli.display import Displayed
from ppdm_cli.domain import MOST_VALUES, Bins, Categories, Domain, Representative
from ppdm_cli.errors import MismatchError, counted, quoted

FORMAT, VERSION = "ppdm-sidecar", 1
TOOL = f"ppdm {__version__}"
LARGEST_SIDECAR = 64 << 20
MOST_COPIES, SUFFIX = 64, ".ppdm.json"
MOST_PERSON_ROWS = 1 << 16
"""The most rows that a person may have, if the promise is for a person."""
METADATA_KEY = b"ppdm"
MOST_RECIPES, MOST_ROUNDS, LONGEST_PREFIX = 1 << 12, 16, 64
COLUMN = "ppdm_recipe"
"""The column with the number of each record's recipe."""

Stage = Literal["perturbed", "reconstructed", "estimated", "evaluated", "tree"]
Scheme = Literal["class-random", "class-probabilistic", "class-all-leaves", "innocent"]
"""Noise that keeps a decision tree; no gamma holds for it."""
CoinsOrigin = Literal["system", "seeded", "key-file", "unknown"]
UNPROMISED = ("seeded", "unknown")
"""The origins of coins without a promise: someone else may compute them, or nobody knows them."""
Origin = Literal["declared", "data"]
Outside = Literal["nearest", "null", "other"]
Several = Annotated[list[Name], Meta(max_length=1 << 10)]


class Group(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The grouping of a column's text before it was perturbed: its beginning, or the group in a file."""

    prefix: Annotated[int, Meta(ge=1, le=LONGEST_PREFIX)] | UnsetType = UNSET
    mapping: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")] | UnsetType = UNSET
    """The BLAKE2b digest of the file."""

    def __post_init__(self) -> None:
        if (self.prefix is UNSET) == (self.mapping is UNSET):
            raise ValueError("a group is a prefix or a mapping")


class Attribute(
    Displayed,
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    kw_only=True,
    dict=True,
):
    """One column of the release: its values, and their treatment."""

    name: Name
    role: Literal["perturbed", "altered", "kept"]
    type: Literal["continuous", "discrete"]
    dtype: Annotated[str, Meta(max_length=128)]
    N: Annotated[int, Meta(ge=1, le=MOST_VALUES + 1)] | UnsetType = UNSET
    edges: Annotated[list[Scalar], Meta(max_length=MOST_VALUES + 1)] | UnsetType = UNSET
    categories: Annotated[list[Scalar], Meta(max_length=MOST_VALUES)] | UnsetType = UNSET
    nulls: bool | UnsetType = UNSET
    representative: Representative | UnsetType = UNSET
    domain_from: Origin | UnsetType = UNSET
    beyond: Beyond | UnsetType = UNSET
    group: Group | UnsetType = UNSET
    outside: Outside | UnsetType = UNSET
    """The treatment of values outside the domain; an original may have some only if it is set."""

    def _words(self) -> list[str]:
        return [quoted(self.name), self.role, f"{self.type} {self.dtype}", f"N {self.N or 'unknown'}"]

    @property
    def has_domain(self) -> bool:
        return self.edges is not UNSET or self.categories is not UNSET

    @cached_property
    def kind(self) -> Any:
        return dtypes.parse(self.dtype)

    def changed(self, **fields: object) -> Attribute:
        """Return the attribute with other fields; a domain that there is already is not built again."""
        made = msgspec.structs.replace(self, **fields)
        return made.of_domain(self.domain) if "domain" in vars(self) else made

    def of_domain(self, domain: Domain) -> Attribute:
        vars(self)["domain"] = domain
        return self

    @cached_property
    def domain(self) -> Domain:
        kind, nulls = self.kind, self.nulls is True
        if self.edges is not UNSET:
            edges = [dtypes.from_json(e, kind) for e in self.edges]
            representative = "center" if self.representative is UNSET else self.representative
            return Bins(kind, edges, nulls, representative)
        if self.categories is not UNSET:
            return Categories(kind, [dtypes.from_json(c, kind) for c in self.categories], nulls)
        what = f"the sidecar gives no domain for {quoted(self.name)}"
        raise MismatchError("no-domain", what, "ask the owner for a release that declares it")


class Recipe(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, dict=True):
    """The channels that a record goes through, or a family of such recipes."""

    channels: Annotated[list[Recorded], Meta(max_length=1 << 16)] | UnsetType = UNSET
    weight: Annotated[int, Meta(ge=1, le=1 << 32)] | UnsetType = UNSET
    round: Annotated[int, Meta(ge=1, le=MOST_ROUNDS)] | UnsetType = UNSET
    """The round of its records; later ones were chosen from the published records of earlier ones."""
    choose: Annotated[int, Meta(ge=1, le=1 << 10)] | UnsetType = UNSET
    of: Several | UnsetType = UNSET
    with_: Several | UnsetType = msgspec.field(default=UNSET, name="with")
    channel: dict[str, Any] | UnsetType = UNSET
    """The channel of each member without its attributes; numbers are in the order of `of`, then `with`."""

    def __post_init__(self) -> None:
        family = [self.choose is not UNSET, self.of is not UNSET, self.channel is not UNSET]
        if any(family) != all(family) or all(family) == (self.channels is not UNSET):
            raise ValueError("a recipe has either channels, or 'choose', 'of' and 'channel'")
        if not any(family):
            if self.with_ is not UNSET:
                raise ValueError("'with' goes with 'choose' and 'of'")
            return
        most = len(self.of) if self.of is not UNSET else 0
        if self.choose is UNSET or self.choose > most or self.members > MOST_RECIPES:
            raise ValueError(f"a family chooses at most all of its attributes, in at most {MOST_RECIPES} ways")
        self.pattern  # noqa: B018 - fails unless it is a channel

    @property
    def members(self) -> int:
        return comb(len(self.of), self.choose) if self.of is not UNSET and self.choose is not UNSET else 1

    @cached_property
    def pattern(self) -> Spec:
        """Return the channel of a family as if it went through all of its attributes."""
        assert self.of is not UNSET and self.channel is not UNSET
        names = [*self.of, *([] if self.with_ is UNSET else self.with_)]
        kind = KINDS.get(str(self.channel.get("kind")))
        if kind is None:
            raise ValueError(f"a channel's kind is not one of {', '.join(KINDS)}")
        return msgspec.convert({**self.channel, "attributes": names}, type=kind)

    def each(self) -> Iterator[list[Spec]]:
        if self.channels is not UNSET:
            yield [c for c in self.channels if isinstance(c, Spec)]
        elif self.of is not UNSET and self.choose is not UNSET:
            always = range(len(self.of), len(self.pattern.attributes))
            for chosen in combinations(range(len(self.of)), self.choose):
                yield [self.pattern.of_some([*chosen, *always])]

    @property
    def specs(self) -> list[Spec]:
        return [s for specs in self.each() for s in specs]

    def encode(self) -> bytes:
        """Return the JSON, one channel per line."""
        head = {k: v for k, v in msgspec.to_builtins(self).items() if k not in ("channels", "channel")}
        parts = [b"%s: %s" % (_encoded(k), _encoded(v)) for k, v in head.items()]
        if self.channels is not UNSET:
            parts.append(b'"channels": ' + by_line(_encoded(_attributes_first(s)) for s in self.specs))
        else:
            fields = {k: v for k, v in msgspec.to_builtins(self.pattern).items() if k != "attributes"}
            parts.append(b'"channel": %s' % _encoded(fields))
        return b"{%s}" % b", ".join(parts)


def _attributes_first(spec: Spec) -> dict[str, Any]:
    fields = msgspec.to_builtins(spec)
    return {"attributes": fields.pop("attributes"), **fields}


class Privacy(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The promise of the release over a record, and the columns outside it."""

    unit: Literal["record", "person"]
    perturbed_gamma: int | float | Literal["inf"] | None
    perturbed_epsilon: int | float | Literal["inf"] | None
    kept: list[Name]
    coins: CoinsOrigin
    rows: Annotated[int, Meta(ge=1, le=MOST_PERSON_ROWS)] | UnsetType = UNSET
    """The most records of a person, if the promise is for a person."""
    person: Name | UnsetType = UNSET
    """The column of persons, by which the next batch has the same limit."""
    shuffled: bool = False
    """True if the rows are in a random order."""
    key: Annotated[str, Meta(pattern="^[0-9a-f]{16}$")] | UnsetType = UNSET
    """A keyed digest that identifies releases under one key file."""
    id: Name | UnsetType = UNSET
    """The column that identifies records under that key, which the next batch must use again."""

    def __post_init__(self) -> None:
        if {self.unit == "person"} != {self.rows is not UNSET, self.person is not UNSET}:
            raise ValueError("a promise for a person needs the person's column and number of rows")
        if {self.coins == "key-file"} != {self.key is not UNSET, self.id is not UNSET}:
            raise ValueError(
                "a digest and an identifier are needed exactly if the random numbers follow from a key file"
            )


class Copy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The place of a release among several independent ones of the same records."""

    of: Annotated[int, Meta(ge=2, le=MOST_COPIES)]
    number: Annotated[int, Meta(ge=1, le=MOST_COPIES)]
    release: Annotated[str, Meta(max_length=36)]
    """The id that the copies share."""


class Past(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An earlier stage: its release, number of records and tool."""

    stage: Stage
    release: Annotated[str, Meta(max_length=36)]
    records: Annotated[int, Meta(ge=0)] | None
    tool: Annotated[str, Meta(max_length=128)]

    @classmethod
    def of(cls, sidecar: Sidecar) -> Past:
        return cls(sidecar.stage, sidecar.release, sidecar.records, sidecar.tool)


class Reconstruction(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The settings of a reconstruction (stage "reconstructed")."""

    method: Literal["joint", "by-class", "global"]
    estimator: Literal["set-scale", "simplex", "ml"]
    spread: bool
    shuffled: bool = False
    """True if the rows are in another order; else row i is a guess about row i of the release."""


class Evaluated(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The grid of a result table (stage "evaluated")."""

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

    @property
    def times(self) -> int:
        """Return the largest number of answers about the same value: one in each copy, for each row."""
        rows = UNSET if self.privacy is UNSET else self.privacy.rows
        return (1 if self.copy is UNSET else self.copy.of) * (1 if rows is UNSET else rows)

    @property
    def group_id(self) -> str:
        """Return the identifier of the release, or the one that its copies share."""
        return self.release if self.copy is UNSET else self.copy.release

    @cached_property
    def by_name(self) -> dict[str, Attribute]:
        return {a.name: a for a in self.attributes}

    @cached_property
    def perturbed(self) -> list[Attribute]:
        return [a for a in self.attributes if a.role == "perturbed"]

    @property
    def altered(self) -> list[Attribute]:
        return [a for a in self.attributes if a.role == "altered"]

    @property
    def is_substituted(self) -> bool:
        """Return whether the values are answers of channels, so not values to learn from."""
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
        return self._json

    def of_records(self, records: int | None) -> Sidecar:
        """Return the sidecar with this number of records: itself if it has it already."""
        return self if self.records == records else msgspec.structs.replace(self, records=records)

    @cached_property
    def _json(self) -> bytes:
        raw = msgspec.json.decode(_encoded(self), type=dict[str, msgspec.Raw])
        ordered = {k: bytes(raw[k]) for k in _ORDER if k in raw}
        ordered["attributes"] = by_line(_encoded(a) for a in self.attributes)
        if self.recipes:
            ordered["recipes"] = b"[ %s ]" % b",\n  ".join(r.encode() for r in self.recipes)
        body = b",\n  ".join(b'"%s": %s' % (k.encode(), v) for k, v in ordered.items())
        return b"{ " + body + b" }\n"

    def __hash__(self) -> int:
        return hash((self.release, self.stage, self.records))  # the lists in it have no hash


class CopiesSidecar(Sidecar, frozen=True, kw_only=True):
    """The sidecar of copies that are read side by side: the first one's, with their number; never written."""

    side_by_side: int

    def encode(self) -> bytes:
        return Sidecar(**{n: getattr(self, n) for n in Sidecar.__struct_fields__}).encode()


_encoded = msgspec.json.Encoder().encode


def by_line(rows: Iterable[bytes], end: bytes = b"") -> bytes:
    """Return a JSON list with each row on a line, the form of sidecars, trees and networks."""
    listed = b",\n    ".join(rows)
    return b"[\n    " + listed + end + b"]" if listed else b"[]"


_ORDER = (
    "format", "version", "tool", "stage", "release", "records", "class", "privacy", "copy", "scheme",
    "blake2b", "evaluated", "reconstruction", "history", "attributes", "recipes",
)  # fmt: skip


def new(stage: Stage, release: str, records: int | None, attributes: list[Attribute], **rest: Any) -> Sidecar:
    """Return a sidecar as this version of the tool writes it."""
    named: dict[str, Any] = {"release": release, "records": records, "attributes": attributes, **rest}
    return Sidecar(format="ppdm-sidecar", version=1, tool=TOOL, stage=stage, **named)


def _channel(_: type, record: object) -> Spec:
    """Return the spec from a channel's JSON object."""
    if not isinstance(record, dict) or record.get("kind") not in KINDS:
        raise ValueError(f"a channel's kind is not one of {', '.join(KINDS)}")
    return msgspec.convert(record, type=KINDS[record["kind"]])


def parse_sidecar(data: bytes) -> Sidecar:
    """Return the sidecar that JSON holds, strictly by its types; `releases` checks its sense."""
    return msgspec.json.decode(data, type=Sidecar, dec_hook=_channel)


def explained(data: bytes, error: Exception, form: str = FORMAT, version: int = VERSION) -> str:
    """Return the error in words, a special one for an unknown format or version."""
    try:
        head = msgspec.json.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return "it is not JSON"
    if not isinstance(head, dict) or head.get("format") != form:
        return f'it does not say "format": "{form}"'
    if head.get("version") != version:
        return f"it has another major version; this ppdm reads version {version}"
    return str(error)[:300]


def display_json(value: object) -> bytes:
    """Return JSON for programs, as `--json` prints it: in ASCII, without characters that control a terminal."""
    text = msgspec.json.format(_encoded(value), indent=2).decode()
    return re.sub(r"[^ -~\n]", lambda c: json.dumps(c[0])[1:-1], text).encode()


def json_schema() -> bytes:
    """Return the JSON Schema of sidecars, generated from the types: it is shipped as `sidecar.schema.json`."""

    def of_channel(_: type) -> dict[str, Any]:
        schemas, components = msgspec.json.schema_components(KINDS.values())
        return {"anyOf": [components[s["$ref"].rsplit("/", 1)[1]] for s in schemas]}

    schema = msgspec.json.schema(Sidecar, schema_hook=of_channel)
    return msgspec.json.format(msgspec.json.encode(schema), indent=2) + b"\n"
