"""A folder of Parquet parts that Spark writes, which appears whole or not at all."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from os import PathLike
from typing import Any

from py4j.protocol import Py4JJavaError

from ppdm_cli.engine.spark_store import Store, understood
from ppdm_cli.errors import DataError, PpdmError, UsageError, quoted
from ppdm_cli.tables import FOLDER_SIDECAR, PARQUET, Output

_PART = re.compile(r"part-(\d+)-.*\.parquet")
_OURS = re.compile(r"part-\d+\.parquet|_SUCCESS|_ppdm\.json|\..*\.crc")


class Folder(Output):
    """A folder of parts that Spark writes under a hidden name; it is renamed when all is in it."""

    def __init__(self, store: Store, uri: Any, force: bool, read: Iterable[str]) -> None:
        self.frame, self.folder, self.targets = None, None, [self]  # type: ignore[list-item]
        self._named, self._force, self._store = str(uri), force, store
        self.path = None
        if uri is None or str(uri) == "-":
            raise UsageError("what Spark makes goes to a folder", "name the folder")
        if not isinstance(uri, (str, PathLike)):
            raise UsageError(f"an object of type {type(uri).__name__} is not a name", "name the folder")
        self._system, self._path = store.at(self._named)
        name = str(self._path.toString()).rstrip("/")
        for root in read:
            if f"{name}/".startswith(f"{root}/") or f"{root}/".startswith(f"{name}/"):
                raise UsageError(f"the output {quoted(uri)} is also the input", "name another output")
        self._check_free()
        hidden = f".{self._path.getName()[:80]}.{secrets.token_hex(6)}.ppdm-part"
        parent = name.rpartition("/")[0]
        self.hidden, self._kept = f"{parent}/{hidden}", f"{parent}/{hidden}.old"
        self._full, self._aside = False, False

    def _check_free(self) -> None:
        with understood(self._named):
            if not self._system.exists(self._path):
                return
            if not self._force:
                raise UsageError(f"the output {quoted(self._named)} exists", "name another, or add --force")
            there = self._system.listStatus(self._path)
            if self._system.getFileStatus(self._path).isFile() or not all(
                s.isFile() and _OURS.fullmatch(s.getPath().getName()) for s in there
            ):
                raise UsageError(
                    f"the output {quoted(self._named)} is not a folder that Spark and ppdm wrote",
                    "name another",
                )

    def send(self) -> None:
        """Send nothing: it is all in its place."""

    def __enter__(self) -> Folder:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(Py4JJavaError):
            self._system.delete(self._store.at(self.hidden)[1], True)

    def filled(self, order: Mapping[int, int] | None, sidecar: bytes | None) -> None:
        """Give the parts names in the order of their rows, and add the sidecar."""
        system, hidden = self._store.at(self.hidden)
        with understood(self._named):
            found = {}
            for status in system.listStatus(hidden):
                name = status.getPath().getName()
                if match := _PART.fullmatch(name):
                    found[int(match[1])] = status.getPath()
            numbers = sorted(found, key=lambda p: p if order is None else order.get(p, -1))
            kept = [p for p in numbers if order is None or p in order]
            for number in numbers:
                if number not in kept:
                    system.delete(found[number], False)
            for place, number in enumerate(kept):
                into = self._store.at(f"{self.hidden}/part-{place:05d}{PARQUET.suffixes[0]}")[1]
                if not system.rename(found[number], into):
                    raise _unwritable(self._named, "a part cannot be renamed")
            if sidecar is not None:
                stream = system.create(self._store.at(f"{self.hidden}/{FOLDER_SIDECAR}")[1], False)
                try:
                    stream.write(sidecar)
                finally:
                    stream.close()
            self._without_checksums(hidden)
        self._full = True

    def _without_checksums(self, folder: Any) -> None:
        """Delete the files of checksums that a local disk has beside the parts: readers take them for parts."""
        if not hasattr(self._system, "getRawFileSystem"):
            return
        for status in self._system.getRawFileSystem().listStatus(folder):
            if status.getPath().getName().endswith(".crc"):
                self._system.getRawFileSystem().delete(status.getPath(), False)

    def set_aside(self, undo: list[Any]) -> None:
        if not self._full:
            return
        with understood(self._named):
            if self._force and self._system.exists(self._path):
                self._rename(self._path, self._store.at(self._kept)[1])
                self._aside = True
                undo.append(partial(self._rename, self._store.at(self._kept)[1], self._path))

    def place(self, undo: list[Any]) -> None:
        if not self._full:
            return
        with understood(self._named):
            if self._system.exists(self._path):
                raise UsageError(
                    f"the output {quoted(self._named)} was made by another run in the meantime",
                    "run this again, or name another",
                )
            hidden = self._store.at(self.hidden)[1]
            self._rename(hidden, self._path)
        undo.append(partial(self._rename, self._path, hidden))

    def forget(self) -> None:
        if self._aside:
            with suppress(Py4JJavaError):
                self._system.delete(self._store.at(self._kept)[1], True)

    def _rename(self, one: Any, other: Any) -> None:
        if not self._system.rename(one, other):
            raise _unwritable(self._named, "it cannot be renamed")


def _unwritable(uri: str, what: str) -> PpdmError:
    return DataError(f"{quoted(uri)} cannot be written: {what}", "name a folder that you can write to")
