"""Advice for `plan`, from the contents of columns to the TOML of the plan: leave each out, group it, bin it or
ask.

Every answer comes from a fixed list, so a plan reveals only which answer fits a column. Names of columns are
public, and the plan's comments are constants.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ppdm_cli import dtypes
from ppdm_cli.domain import CALENDAR, starts
from ppdm_cli.engine import Batch, Sketch, fold
from ppdm_cli.perturbing import QUESTION, RowBlocks, in_order, relative_error, revealed_columns
from ppdm_cli.planning.csv_reading import Written
from ppdm_cli.privacy import FEW
from ppdm_cli.tables import Table

BINS = 10
_NUMBERS = re.compile(
    r"""(?x) id|nr|no|num|numero|number|nummer|key|uuid|guid|pid|mrn|ssn|nss|nir|dni|nif|nie|iban|passport|
    ausweis|fall|case|dossier|expediente|folio|vorgang|akten?|aktenzeichen|ref|referenz|reference|referencia|record|lfd|
    account|konto|compte|cuenta|kunden?|client|cliente|customer|member|mitglied|membre|miembro|socio|patient|
    patienten|patiente|paciente|versicherten?|assure|afiliado|person|persona|personne|matricule|identifiant|
    identificador|kennung|kennzeichen|schluessel|cle|clave|serial|token|.+nr|.+nummer|.+numero"""
)
"""The words of a header, without accents, by which many values are identifiers."""
_NOTES = re.compile(
    r"""(?x) remarks?|remarques?|comments?|commentaires?|kommentare?|comentarios?|notes?|notiz|notizen|notas?|
    bemerkung|bemerkungen|anmerkung|anmerkungen|observations?|observacion|observaciones|texto?|freitext|memo"""
)
"""The words of a header by which text may have been written about persons."""
_PERSONAL = re.compile(
    r"""(?x) .*names?|noms?|prenoms?|nombres?|apellidos?|patronyme|patient(?:in)?|paciente|person|versicherter|
    versicherte|mitarbeiter|employee|empleado|kunde|arzt|aerzt(?:e|in)|doctor|physician|medecin|medico|hausarzt|
    .*mail|mel|courriel|correo|.*phone|telephone|.*telefon|telefono|tel|handy|mobile?|movil|rufnummer|fax|
    portable|cell|celular|street|.*strasse|str|addr|address|.*adresse|anschrift|rue|calle|direccion|domicilio|
    domicile|contact|contacto|kontakt|ansprechpartner|"""
    + _NOTES.pattern[4:]
)
"""The words of a header by which text names persons, or may have been written about one."""
_CONTENTS = (
    (r"^[^@\s]+@[^@\s]+\.\pL{2,}$", 0.0),
    (r"^[+(]{0,2}\d(?:[ ()/.-]{0,3}\d){6,}$", 0.0),
    (r"^\p{Lu}[\pL'-]+, ?\p{Lu}[\pL' .-]*$", 0.0),
    (r"^\pL.* \d+ ?\pL?$|^\d+ ?\pL?,? .*\pL$", 0.2),
)
"""E-mail addresses, telephone numbers, names and addresses, and the least values for each record."""
_CHOICES = 20
"""The most values that are a choice, and name nobody."""
_CODE = r"^[A-Za-z]{0,4}[-_ ]?\d[\w./-]{0,12}$"
POOLED = 0.3
"""The share of the records in rare values above which they are too many to keep the others."""
USELESS = 0.5
"""The expected error of a count above which codes are grouped."""
FULL = 0.9
"""The share of the records in one of ten equal bins above which most of the others are wasted."""
_USUAL = 9.0
"""The gamma by which columns are judged if none is given."""
_COMPARED, _MOST_PAIRED, _MOST_LABELS = 1 << 13, 60, 500
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_WHY = {
    "prefix": 'so many characters of each code are kept; or mapping = "groups.csv", a file of value,group',
    "other": "rare values, and new ones in later batches, become (other)",
    "scale": "bins of the calendar: month, quarter, year or decade",
    "nulls": "null is a category of its own",
    "domain": 'the interval that is publicly known to hold what matters, such as "0:5000"; the rest is clipped',
}


@dataclass
class TableSketch:
    """A table's columns; adds up. Blocks of rows show what columns reveal of each other and the order."""

    columns: dict[str, Sketch]
    sample: RowBlocks

    @classmethod
    def of(cls, table: Table, columns: Sequence[str]) -> TableSketch | None:
        """Return the contents of columns, in one fold; None for a table without records."""
        return fold(table, partial(_sketched, list(columns)), cls.merge, columns=list(columns))

    @classmethod
    def of_batch(cls, batch: Batch, columns: Mapping[str, pa.Array]) -> TableSketch:
        """Return what columns of a batch hold, which may be read otherwise than the batch has them."""
        sample = RowBlocks.of(batch.first_row, batch.rows, columns)
        return cls({n: Sketch.of_column(c) for n, c in columns.items()}, sample)

    def merge(self, after: TableSketch) -> TableSketch:
        for name, sketch in after.columns.items():
            self.columns[name].merge(sketch)
        self.sample.merge(after.sample)
        return self


def _sketched(names: list[str], batch: Batch) -> TableSketch:
    return TableSketch.of_batch(batch, {n: dtypes.plain(batch.column(n)) for n in names})


@dataclass
class Advice:
    name: str
    kind: str
    look: Sketch | None = None
    drop: str = ""
    """The reason for leaving it out, if any: a table shows the part before a colon."""
    settings: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    N: int | None = None
    repeats: float = 0.0
    """The mean number of records of an identifier's values, if several have some."""
    full: float | None = None
    asked: str = ""
    """The reason why its domain is a question, if no interval answers it."""
    keep: bool = False
    bins: int = BINS
    """The number of bins of numbers, unless the column has a number of its own."""

    @property
    def perturbed(self) -> bool:
        return not (self.drop or self.keep)

    @property
    def size(self) -> tuple[int, bool]:
        """Return its number of values in the plan, with a flag whether they are in order."""
        binned = self.look is not None and self.look.values > self.bins
        return self.N or 0, binned and "other" not in self.settings

    @property
    def words(self) -> str:
        if self.keep:
            return "keep, as you chose"
        if self.drop:
            return f"drop: {self.drop.partition(':')[0]}"
        return ", ".join(f"{k}={v}" for k, v in self.settings.items() if (k, v) != ("domain", "data"))


def advised(
    schema: pa.Schema,
    looks: TableSketch,
    settled: Mapping[str, Any],
    gamma: float | Decimal | None,
    unreadable: list[str],
) -> tuple[list[Advice], list[str]]:
    """Return the advice for each column under settled ones, and the columns that the order of rows reveals."""
    places, columns = looks.sample.columns()
    bins = settled["bins"] if isinstance(settled.get("bins"), int) else BINS
    found = []
    for name in schema.names:
        kind = schema.field(name).type
        if name in unreadable:
            found.append(Advice(name, str(kind), drop="a type without a domain"))
            continue
        look, own = looks.columns[name], settled.get("attributes", {}).get(name, {})
        one = Advice(name, str(kind), look, keep=name in settled.get("keep", ()), bins=bins)
        _judge(one, kind, look, columns[name], gamma or _USUAL, bool(own) and QUESTION not in own.values())
        if settled.get("open_domains") and dtypes.is_dated(kind) and one.perturbed:
            one.settings = {"domain": QUESTION} | one.settings
            one.asked = 'all that later batches may have, such as "2026-01-01:2027-12-31"'
        _lay_over(one, own)
        if name == settled.get("person"):
            one.drop, one.repeats = "the column that identifies persons", 0.0
        elif name in settled.get("drop", ()):
            one.drop = one.drop or "as you said"
        found.append(one)
    codes = {o.name: _codes(columns[o.name]) for o in found if o.look is not None and o.perturbed}
    sample = RowBlocks(list(codes), looks.sample.seen, [[places, *codes.values()]])
    sorted_by = [o.name for o in found if o.drop == "an identifier" and in_order(looks.sample, o.name)]
    return found, [*revealed_columns(sample, list(codes)), *sorted_by]


def _lay_over(one: Advice, own: Mapping[str, Any]) -> None:
    """Lay an owner's settings of a column over those that are proposed for it."""
    declared = {"categories", "edges", "mapping"} & {*own}
    if one.drop and (declared or "prefix" in own or own.get("domain", "data") not in ("data", QUESTION)):
        one.drop, one.settings = "", {"nulls": True} if one.look is not None and one.look.nulls else {}
    given_up = {"domain"} if declared else set()
    given_up |= {"scale"} if {"bins", "core"} & {*own} else {"prefix"} if "mapping" in own else set()
    listed = _listed(own)
    if listed and one.look is not None and one.look.values <= listed:
        given_up |= {"other"}
    one.settings = {k: v for k, v in one.settings.items() if k not in given_up} | dict(own)
    one.settings.pop("N", None)
    size = own.get("bins") or listed or None
    extra = (one.look is not None and one.look.nulls > 0) + bool(listed and one.settings.get("other"))
    one.N = one.N if size is None else int(size) + extra


def _listed(settings: Mapping[str, Any]) -> int:
    """Return the number of values that an owner lists for a column: 0 without a list."""
    values = settings.get("categories", settings.get("domain", ()))
    if isinstance(values, str):
        return values.count("|") + 1 if "|" in values else 0
    return len(values) if "categories" in settings else 0


def _judge(
    one: Advice, kind: pa.DataType, look: Sketch, column: pa.Array, gamma: float | Decimal, wanted: bool
) -> None:
    """Judge a column; one that is `wanted` names nobody, as its owner has said."""
    common = look.common if look.exact else look.values
    if look.nulls == look.rows:
        one.drop = "no values at all"
    elif look.infinite:
        one.drop = "infinite numbers, which no domain holds"
    elif look.values + (look.nulls > 0) < 2:
        one.drop = "one value only"
    elif not wanted and pa.types.is_string(kind) and _is_prose(one.name, look, column):
        one.drop = "free text"
    elif not wanted and _identifies(one.name, kind, look, column):
        one.drop = "an identifier"
        one.repeats = look.records_each if look.records_each > 1.02 else 0.0
    elif not wanted and pa.types.is_string(kind) and _names_persons(one.name, look, column):
        one.drop = "may name persons: names, contacts or notes"
    elif pa.types.is_string(kind):
        _judge_text(one, look, column, gamma)
    elif (look.values <= one.bins and common + (look.nulls > 0) < 2) or (
        pa.types.is_boolean(kind) and look.common < look.values
    ):
        one.drop = "hardly more than one value"
    elif not pa.types.is_boolean(kind):
        _judge_number(one, kind, look, column)
    if one.drop:
        return
    rare = look.values > 0.3 * look.rows and not look.common
    numbered = rare and pa.types.is_integer(kind) and look.low >= 10_000
    if not wanted and (numbered or (pa.types.is_string(kind) and _has(one.name, _PERSONAL))):
        one.asked = 'it may identify persons: drop it, or "data" to publish its values'
        one.settings = {"domain": QUESTION} | one.settings
    if look.largest_share > 0.99:
        one.notes.append("nearly all records have one value")
    if look.nulls:
        one.settings["nulls"] = True
    one.N = (one.N or look.values) + (look.nulls > 0)


def left_open(one: Advice) -> None:
    """Make a column of numbers or dates a question that cannot be read as such."""
    one.drop, one.settings, one.N = "", {"domain": QUESTION}, None
    one.asked = "numbers or dates that were read as text: drop it, or plan again with its type or format"


def _has(name: str, known: re.Pattern[str]) -> bool:
    spaced = re.sub(r"(?<=[^\W\dA-Z_])(?=[A-Z])", " ", name)
    letters = unicodedata.normalize("NFKD", spaced.casefold())
    words = re.findall("[a-z]+", "".join(c for c in letters if not unicodedata.combining(c)))
    return any(map(known.fullmatch, words))


def _names_persons(name: str, look: Sketch, column: pa.Array) -> bool:
    """Return whether text has more than a choice of values, and names persons by its header or its cells."""
    if look.values <= _CHOICES:
        return False
    spread = look.values / max(look.rows - look.nulls, 1)
    return _has(name, _PERSONAL) or any(spread > s and _share(column, p) > 0.7 for p, s in _CONTENTS)


def _identifies(name: str, kind: pa.DataType, look: Sketch, column: pa.Array) -> bool:
    """Return whether a column's values have one record or a few each, as those of persons and cases have."""
    if pa.types.is_floating(kind) or pa.types.is_boolean(kind) or pa.types.is_temporal(kind):
        return False
    rows = look.rows - look.nulls
    many = look.values > 0.05 * rows and look.values >= min(20, 0.5 * rows) and look.records_each < 20
    named = _has(name, _NUMBERS)
    if pa.types.is_string(kind):
        return many and (named or look.values > 0.9 * rows)
    whole = look.high - look.low + 1
    counter = look.values > 0.98 * rows >= 20 and whole <= 1.1 * look.values
    return (many and named and look.low >= 0) or counter


def _share(column: pa.Array, pattern: str) -> float:
    values = column.drop_null()
    return float(pc.mean(pc.match_substring_regex(values, pattern)).as_py() or 0.0) if len(values) else 0.0


def _judge_text(one: Advice, look: Sketch, column: pa.Array, gamma: float | Decimal) -> None:
    N = look.common + 1
    if look.pooled > POOLED or not look.exact or relative_error(gamma, N + 1, look.rows) > USELESS:
        beginnings = pc.value_counts(pc.utf8_slice_codeunits(column.drop_null(), 0, 1)).field("counts")
        if _share(column, _CODE) <= 0.9 or len(beginnings) < 2:
            one.drop = "too many values: a file may group them (mapping)"
            return
        one.settings["prefix"] = 1
        one.notes.append("many codes: their first character is kept")
        N = int((beginnings.to_numpy() >= FEW).sum()) + 1
    if N + (look.nulls > 0) < 2:
        one.drop = "hardly more than one value"
        return
    if look.values > look.common:
        one.notes.append("rare values")
    one.settings["other"] = True
    one.N = N


def _is_prose(name: str, look: Sketch, column: pa.Array) -> bool:
    """Return whether text is written, not chosen: notes, or several words, and hardly ever the same."""
    texts = column.drop_null()
    if look.values < 0.2 * (look.rows - look.nulls) or not len(texts):
        return False
    length = float(pc.mean(pc.utf8_length(texts)).as_py())
    return _has(name, _NOTES) or length > 30 or float(pc.mean(pc.count_substring(texts, " ")).as_py()) > 1.5


def _judge_number(one: Advice, kind: pa.DataType, look: Sketch, column: pa.Array) -> None:
    one.N = min(look.values, one.bins)
    if dtypes.is_dated(kind) and look.values > one.bins:
        for scale in ("month", "quarter", "year", "decade"):
            periods = len(starts(look.low, look.high, CALENDAR[scale], kind)) - 1
            if periods <= 24 or scale == "decade":
                break
        if periods >= 3:
            one.settings["scale"], one.N = scale, periods
        return
    if look.values > BINS:
        values = dtypes.carrier(column.drop_null()).astype(np.float64)
        values = values[np.isfinite(values)]
        width = (float(look.high) - float(look.low)) / BINS
        if len(values) and np.isfinite(width) and width > 0:
            bins = np.clip(((values - float(look.low)) / width).astype(int), 0, BINS - 1)
            one.full = float(np.bincount(bins, minlength=BINS).max()) / len(values)
    if one.full is not None and one.full > FULL:
        one.settings["domain"] = "?"
        one.notes.append("nearly all records would be in one of ten equal bins")


def _codes(column: pa.Array) -> np.ndarray:
    ranks = pc.rank(column, tiebreaker="dense")
    return ranks.to_numpy(zero_copy_only=False).astype(np.int64) - 1


def determined(found: list[Advice], looks: TableSketch) -> list[tuple[str, str]]:
    """Return the pairs of columns of which the first reveals the second, in a sample of records."""
    _, columns = looks.sample.columns()
    codes: dict[str, np.ndarray] = {}
    for one in found:
        few = one.look is not None and 2 <= one.look.values <= _MOST_LABELS and not one.drop
        if few and len(codes) < _MOST_PAIRED:
            codes[one.name] = _codes(columns[one.name][:_COMPARED])
    sizes = {n: len(np.unique(c)) for n, c in codes.items()}
    pairs = []
    for a, ours in codes.items():
        for b, theirs in codes.items():
            if a != b and sizes[a] >= sizes[b] > 1 and sizes[a] * 5 < len(ours):
                together = len(np.unique(ours * (int(theirs.max()) + 1) + theirs))
                if together == sizes[a]:
                    pairs.append((a, b))
    return pairs


def as_toml(value: object) -> str:
    """Return a value as TOML writes it, always on one line."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(as_toml, value))}]"
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{_key(k)} = {as_toml(v)}' for k, v in value.items())} }}"
    if not isinstance(value, str):
        return str(value)
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t")
    return '"' + "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in escaped) + '"'


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else as_toml(name)


_HEAD = {
    "bins": (BINS, "how many bins numbers get"),
    "rare": ("merge", "values of fewer than ten records go to a more common one"),
    "clip": (True, "values outside a domain go to its nearest value, or to null"),
}
_PLACED = {"gamma", "rho1", "rho2", "record_epsilon", "person", "rows_per_person", "shuffle", "keep", "drop"}
_PLACED |= {"csv", "attributes", "open_domains", *_HEAD}
"""Settings that a plan has in places of their own."""


def written_plan(
    found: Sequence[Advice],
    settled: Mapping[str, Any],
    shuffle: bool,
    csv: Mapping[str, Any],
    written: Mapping[str, Written],
) -> str:
    """Return the plan; `csv` has the settings for reading a CSV, and `written` those of its columns."""
    privacy = {k: settled[k] for k in ("gamma", "rho1", "rho2", "record_epsilon") if k in settled}
    lines = [
        "# A plan for ppdm perturb. It holds names of columns and choices, and no value of the data.",
        "# N is how many values of a column a release shows, with n if they are in no order.",
        f"# Answer each {as_toml(QUESTION)} from public knowledge, then perturb by this plan.",
        "",
        *(f"{k} = {v}" for k, v in privacy.items()),
    ]
    if not privacy:
        why = "how much a whole record may reveal, such as 2"
        lines.append(f"record_epsilon = {as_toml(QUESTION)}  # {why}")
    if "person" in settled or any(a.repeats for a in found):
        person, rows = settled.get("person", QUESTION), settled.get("rows_per_person", 1)
        lines.append(
            f'person = {as_toml(person)}  # the column that identifies persons, or "" if each has one row'
        )
        if person:
            lines.append(f"rows_per_person = {rows}  # the most rows of a person: each costs the budget again")
    lines += [f"{k} = {as_toml(settled.get(k, v))}  # {why}" for k, (v, why) in _HEAD.items()]
    lines.append(
        f"shuffle = {as_toml(settled.get('shuffle', shuffle))}  # true if the order of the rows reveals values"
    )
    later = f"open_domains = {as_toml(settled.get('open_domains', True))}"
    why = "for later batches: every domain has null, and text has (other)"
    lines.append(f"{'# ' * ('open_domains' not in settled)}{later}  # {why}")
    lines += [f"{_key(k)} = {as_toml(v)}" for k, v in settled.items() if k not in _PLACED]
    dropped = [a for a in found if a.drop and not a.keep]
    if dropped:
        lines += ["drop = [", *(f"  {as_toml(a.name)},  # {a.drop}" for a in dropped), "]"]
    kept = as_toml([a.name for a in found if a.keep])
    lines.append(f"{'# ' * (kept == '[]')}keep = {kept}  # columns to publish unchanged, so not protected")
    taking_part = {a.name for a in found if a.keep or not a.drop}
    lines += _csv(csv, {n: w for n, w in written.items() if n in taking_part}) + _attributes(found)
    return "\n".join(lines) + "\n"


def _csv(csv: Mapping[str, Any], written: Mapping[str, Written]) -> list[str]:
    if not csv:
        return []
    lines = ["", "[csv]", *(f"{k} = {as_toml(v)}" for k, v in csv.items())]
    lines[-1] += "  # cells for no value in every column, besides the empty one"
    for name, w in written.items():
        lines.append(f"types.{_key(name)} = {as_toml(w.type)}" + "  # digits that begin with zeros" * w.padded)
    for name, w in ((n, w) for n, w in written.items() if w.formats):
        unsure = w.doubt.startswith("day and month")
        formats = as_toml(QUESTION if unsure else w.formats)
        lines.append(f"formats.{_key(name)} = {formats}" + '  # "%d/%m/%Y" or "%m/%d/%Y"' * unsure)
    for name, w in ((n, w) for n, w in written.items() if w.nulls):
        lines.append(f"null_of.{_key(name)} = {as_toml(w.nulls)}  # odd cells of this column")
    for name, w in ((n, w) for n, w in written.items() if w.odd):
        why = '"null" if odd cells mean no value, "value" if they are values; or drop the column'
        lines.append(f"odd.{_key(name)} = {as_toml(w.odd)}  # {why}")
    return lines


def _attributes(found: Sequence[Advice]) -> list[str]:
    lines = []
    for one in (a for a in found if a.perturbed):
        declared = {"domain", "categories", "edges", "mapping"} & {*one.settings}
        domain = {} if declared - {"domain"} else {"domain": one.settings.get("domain", "data")}
        number = {"N": f"{one.N}{'' if one.size[1] else 'n'}"} if one.N is not None and one.N >= 2 else {}
        lines += ["", f"[attributes.{_key(one.name)}]"]
        for key, value in (domain | one.settings | number).items():
            why = one.asked if key == "domain" and one.asked and value == QUESTION else _WHY.get(key, "")
            why = "" if key == "domain" and _listed(one.settings) else why
            lines.append(f"{key} = {as_toml(value)}" + (f"  # {why}" if why and value != "data" else ""))
    return lines
