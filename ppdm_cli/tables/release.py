"""A release: data and sidecar opened together, and only if they fit."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec import UNSET

from ppdm_cli.errors import DataError, MismatchError, listed, quoted
from ppdm_cli.sidecar import Sidecar
from ppdm_cli.tables.base import Table
from ppdm_cli.tables.csv import CsvOptions
from ppdm_cli.tables.formats import format_of
from ppdm_cli.tables.opening import is_stream, open_table, read_sidecar, sidecar_path


def open_release(
    source: Any,
    sidecar: Path | None = None,
    standard_format: Literal["arrow", "csv"] | None = None,
    stages: Sequence[str] | None = ("perturbed",),
) -> tuple[Table, Sidecar]:
    """Open a release with its sidecar; the sidecar's types govern how a CSV is read."""
    path = None if is_stream(source) else Path(source)
    if path is not None and not path.exists():
        raise DataError(f"{quoted(path)} does not exist", "check its name")
    beside = sidecar if sidecar is not None else sidecar_path(path) if path is not None else None
    is_csv = format_of(path).is_csv if path is not None else standard_format == "csv"
    if is_csv:
        promise = read_sidecar(beside, None, str(source))
        if path is not None:
            _check_digest(path, promise)
        known = {a.name: promise.column_kind(a) for a in promise.attributes}
        table = open_table(source, csv=CsvOptions(known=known), standard_format="csv")
    else:
        table = open_table(source, standard_format=standard_format)
        promise = read_sidecar(beside, table.sidecar, str(source))
    if stages is not None and promise.stage not in stages:
        raise MismatchError(
            f"{quoted(source)} is at stage {promise.stage!r}, not {' or '.join(stages)}",
            "give the file of the stage before",
        )
    if promise.stage in ("perturbed", "reconstructed"):
        check_fit(table, promise)
    return table, promise


def _check_digest(path: Path, promise: Sidecar) -> None:
    if promise.blake2b is UNSET:
        return
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=32)).hexdigest()
    except OSError as error:
        raise DataError(f"{quoted(path)} cannot be read: {error.strerror}", "check its rights") from None
    if digest != promise.blake2b:
        raise MismatchError(
            f"the bytes of {quoted(path)} are not those its sidecar was made with",
            "the file was changed, or the sidecar is another's: fetch both again",
        )


def check_fit(table: Table, promise: Sidecar) -> None:
    """Columns, types and the number of records are those of the sidecar."""
    expected, found = [a.name for a in promise.attributes], list(table.schema.names)
    for names, what in (
        ([n for n in expected if n not in found], "lacks"),
        ([n for n in found if n not in expected], "has"),
    ):
        if names:
            other = "has" if what == "lacks" else "lacks"
            raise MismatchError(
                f"{quoted(table.name)} {what} the columns {listed(names)}, which its sidecar {other}",
                "one of them belongs to another release: fetch both again",
            )
    for attribute in promise.attributes:
        kind = table.schema.field(attribute.name).type
        expected_kind = promise.column_kind(attribute)
        if kind != expected_kind:
            raise MismatchError(
                f"the column {quoted(attribute.name)} is of type {kind}, in the sidecar {expected_kind}",
                "fetch the release again, unconverted",
            )
    if table.rows is not None and promise.records is not None and table.rows != promise.records:
        raise MismatchError(
            f"{quoted(table.name)} has {table.rows} records, its sidecar says {promise.records}",
            "the file was cut or the sidecar is another's: fetch both again",
        )
