"""Tables for Spark's passes: the files of a name or a DataFrame, and the partitions of one machine.

Everything goes through the Hadoop classes in the session's JVM, so that any URI works that Spark reads. The
driver reads no data but the footers of files, which give the columns and the partitions.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import types as spark

from ppdm_cli import dtypes, files
from ppdm_cli.engine.spark_types import Rows, loaded_here, spark_type
from ppdm_cli.errors import DataError, PpdmError, UsageError, listed, quoted
from ppdm_cli.releases import check_same, decode
from ppdm_cli.sidecar import SUFFIX
from ppdm_cli.tables import (
    FOLDER_SIDECAR,
    LOGS,
    PARQUET,
    Footer,
    ParquetTable,
    Partition,
    check_plain,
    format_of,
    logs_above,
    logs_among,
    rows_per_partition,
)

_UNREAD = re.compile(r"_[^=]*|\..*")
"""Files that a DataFrame does not read, such as those that sum up the footers of others."""
_PLAIN = re.compile(r"[\w/:.=-]+", re.ASCII)
"""Names that are URIs without changes."""
_TAIL = 1 << 16
"""Bytes of a file's end that are read first."""
_AT_ONCE = 16
"""Files that are opened at the same time."""


class PartFile(NamedTuple):
    """A file of a table: under its root, by its full name, and by the name that Spark gives with each row."""

    under: PurePosixPath
    name: str
    uri: str
    size: int
    time: int
    """The time when it was written, in milliseconds."""

    @property
    def local(self) -> Path:
        """Return its path, if it is on this machine."""
        return Path(self.name.removeprefix("file:"))


class Source(NamedTuple):
    """A file or folder by the name that it was given and its full one, with its files that are the table's."""

    named: str
    root: str
    folder: bool
    parts: list[PartFile]
    whole: bool = True
    """True if these are all Parquet files in it."""


class Store:
    """The file systems of a session."""

    def __init__(self, session: Any) -> None:
        self._jvm = session.sparkContext._jvm
        self._path = self._jvm.org.apache.hadoop.fs.Path  # found once: each part of its name is a question
        self._bytes = self._jvm.org.apache.commons.io.IOUtils.toByteArray
        self._conf = session._jsparkSession.sessionState().newHadoopConf()

    def at(self, uri: str) -> tuple[Any, Any]:
        """Return a file system, and the path in it."""
        with understood(uri):
            path = self._path(uri)
            system = path.getFileSystem(self._conf)
            if not path.isAbsolute() and system.getUri().getScheme() == "file":  # the JVM stays where it began
                path = self._path(str(Path.cwd() / uri))
            return system, system.makeQualified(path)

    def source(self, uri: str) -> Source:
        """Return a file, or a folder with its Parquet files in order, which must stay as they are."""
        root, folder, every = self._listed(uri)
        if not folder and format_of(Path(root)) is not PARQUET:
            raise _no_rows(uri)
        parts = sorted(p for p in every if _is_part(p))
        if not parts:
            raise _no_rows(uri)
        self._check_plain(uri, root, parts, every)
        files.watching(uri, self._state, uri, None, now=set(parts))
        return Source(uri, root, folder, parts)

    def sources(self, index: Any) -> list[Source]:
        """Return the files that a DataFrame reads: from its own list, because another look may find others."""
        keys, roots = set(index.partitionSchema().fieldNames()), list(map(_name, _each(index.rootPaths())))
        statuses = [(_name(s.getPath()), s) for s in _each(index.allFiles())]
        statuses = [(n, s) for n, s in statuses if _UNREAD.fullmatch(n.rpartition("/")[2]) is None]
        found = []
        for root in roots:
            parts = [_part(s, _base(root, n, keys)) for n, s in statuses if f"{n}/".startswith(f"{root}/")]
            names = frozenset(p.name for p in parts)
            _, folder, every = self._listed(root)
            if {p[1:] for p in parts} != {p[1:] for p in every if p.name in names}:
                raise DataError(
                    "changed-since-dataframe",
                    f"{quoted(root)} changed since the DataFrame was made",
                    "make it again",
                )
            self._check_plain(root, root, parts, every)
            state = {p for p in every if p.name in names}
            files.watching(root, self._state, root, names, now=state)
            whole = names == {p.name for p in every if _is_part(p)}
            found.append(Source(root, root, folder, sorted(parts), whole))
        return found

    def _listed(self, uri: str) -> tuple[str, bool, list[PartFile]]:
        """Return the full name of a file or folder, whether it is a folder, and all files in it."""
        system, path = self.at(uri)
        root = _name(path)
        with understood(uri):
            status = system.getFileStatus(path)
            if status.isFile():
                return root, False, [_part(status, root.rpartition("/")[0])]
            found, there = list[PartFile](), system.listFiles(path, True)
            while there.hasNext():
                found.append(_part(there.next(), root))
        return root, True, found

    def _state(self, uri: str, names: frozenset[str] | None) -> object:
        """Return a table's files, or those of these names, with their sizes and times; None if it is gone."""
        with suppress(PpdmError):
            return {p for p in self._listed(uri)[2] if (_is_part(p) if names is None else p.name in names)}
        return None

    def _check_plain(self, uri: str, root: str, parts: Sequence[PartFile], every: Sequence[PartFile]) -> None:
        """Refuse the parts of a lakehouse table, whose log is among all files, or above them."""
        system, path = self.at(root)
        if system.getUri().getScheme() == "file":  # where there are links
            check_plain(logs_above([p.local for p in parts]), uri)
        folder = PurePosixPath(str(path.toUri().getPath()))
        check_plain(logs_among(folder / p.under for p in every), uri)
        for above in (folder, *folder.parents):
            pattern = self._path(f"{spelt(str(above)).rstrip('/')}/{LOGS}")
            with suppress(Py4JJavaError):  # not every folder may be listed
                found = system.globStatus(pattern) or ()
                check_plain((PurePosixPath(str(s.getPath().toUri().getPath())) for s in found), uri)

    def footer(self, part: PartFile, label: str) -> Footer:
        system, path = self.at(part.name)
        with understood(label):
            stream = system.open(path)
            try:
                end = self._end(stream, part.size, _TAIL)
                length = int.from_bytes(end[-8:-4], "little") + 8
                if length > len(end):
                    end = self._end(stream, part.size, length)
            finally:
                stream.close()
        return Footer.read(pa.BufferReader(end), label, part.size)

    def _end(self, stream: Any, size: int, length: int) -> bytes:
        length = min(size, length)
        stream.seek(size - length)
        return bytes(self._bytes(stream, length))

    def content(self, uri: str) -> bytes | None:
        """Return the content of a small file, or None if there is none."""
        system, path = self.at(uri)
        with understood(uri):
            if not system.exists(path):
                return None
            stream = system.open(path)
            try:
                return bytes(self._bytes(stream))
            finally:
                stream.close()


def _each(several: Any) -> Iterator[Any]:
    """Yield the items of a Scala sequence."""
    there = several.iterator()
    while there.hasNext():
        yield there.next()


def _name(path: Any) -> str:
    return str(path.toString()).rstrip("/")


def _part(status: Any, base: str) -> PartFile:
    """Return a file from its status, under a folder."""
    path = status.getPath()
    name = _name(path)
    uri = name if _PLAIN.fullmatch(name) else str(path.toUri().toString())
    under = PurePosixPath(name[len(base) :].lstrip("/"))
    return PartFile(under, name, uri, status.getLen(), status.getModificationTime())


def _is_part(part: PartFile) -> bool:
    """Return whether a file is one of its folder's table: hidden ones are not."""
    hidden = any(p.startswith((".", "_")) for p in part.under.parts)
    return part.under.name.endswith(PARQUET.suffixes) and not hidden


def _base(root: str, name: str, keys: Container[str]) -> str:
    """Return the folder below which the names of folders are the keys that a DataFrame has as columns."""
    base = root if name != root else root.rpartition("/")[0]
    while base.rpartition("/")[2].partition("=")[0] in keys:
        base = base.rpartition("/")[0]
    return base


def spelt(path: str) -> str:
    """Return a path as a pattern of Hadoop's that fits nothing else."""
    return re.sub(r"([][{}*?\\])", r"\\\1", path)


@contextmanager
def understood(uri: str) -> Iterator[None]:
    """Turn a file system's message into an error of ours."""
    try:
        yield
    except Py4JJavaError as error:
        kind, cause = error.java_exception.getClass().getSimpleName(), error.java_exception.getCause()
        if kind == "RuntimeException" and cause is not None:  # a file system's class is not there
            kind = cause.getClass().getSimpleName()
        if kind == "FileNotFoundException":
            raise DataError("missing-file", f"{quoted(uri)} does not exist", "check its name") from None
        message = str(error.java_exception.getMessage())
        if kind in ("UnsupportedFileSystemException", "ClassNotFoundException") or "scheme" in message:
            raise UsageError(
                "unknown-file-system",
                f"Spark knows no file system for {quoted(uri)}",
                "add the package that has it to the setting spark.jars.packages",
            ) from None
        raise _unusable(uri, f" ({kind})") from None
    except PySparkException:  # such as of a host that is not there
        raise _unusable(uri) from None


def _unusable(uri: str, why: str = "") -> PpdmError:
    step = "check its name, your permissions and Spark's settings"
    return DataError("unusable-source", f"{quoted(uri)} cannot be used{why}", step)


def _no_rows(uri: str) -> PpdmError:
    return UsageError(
        "no-parquet-on-spark",
        f"{quoted(uri)} has no Parquet, the only format whose rows a cluster can number",
        "name a Parquet file or a folder of them, or use one machine",
    )


class SparkTable(ParquetTable):
    """Parquet files and folders that executors read; its partitions are those of one machine."""

    def __init__(self, store: Store, sources: Sequence[Source], frame: Any = None) -> None:
        """Open the named files, or those that a DataFrame reads: its columns, in their order."""
        self.frame = frame
        self.roots = {s.root: s.folder for s in sources}
        """The full names of the given files and folders, and whether each is a folder."""
        self.parts = [p for s in sources for p in s.parts]
        self.named = self.roots if all(s.whole for s in sources) else {p.name: False for p in self.parts}
        """The same for names that mean all of its files and no others to Spark."""
        self.uris, self.size = [p.uri for p in self.parts], sum(p.size for p in self.parts)
        labels = [
            _label(source.named, number, part if source.folder else None)
            for source in sources
            for number, part in enumerate(source.parts, 1)
        ]
        files.check_once((p.local, label) for p, label in zip(self.parts, labels, strict=True))
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            footers = list(pool.map(store.footer, self.parts, labels))
        alone = len(sources) == 1
        keyed = (alone and sources[0].folder) or frame is not None
        root: Any = PurePosixPath(".") if keyed else None
        super().__init__([p.under for p in self.parts], root, labels, footers)  # type: ignore[misc]
        self.name, self.files = sources[0].named, ()
        self.types = self._spark_types(footers[0])
        if frame is not None:
            if lacking := [n for n in frame.columns if n not in self.schema.names]:
                raise UsageError(
                    "columns-not-in-files",
                    f"the schema of the DataFrame has columns that its files lack: {listed(lacking)}",
                    "use what spark.read.parquet makes of the files, without a schema",
                )
            self.schema = pa.schema([self.schema.field(n) for n in frame.columns])
        self.folder = alone and sources[0].folder
        """True if it is all of a folder, whose parts don't contain the number of records."""
        if alone:
            self.sidecar = self._sidecar(store, sources[0].root, sources[0].folder)

    def _sidecar(self, store: Store, root: str, folder: bool) -> bytes | None:
        """Return the sidecar, of which the parts of a folder have all but the number of records."""
        beside = store.content(f"{root}/{FOLDER_SIDECAR}") if folder else None
        beside = store.content(root + SUFFIX) if beside is None else beside
        if self.sidecar is None or beside is None:
            return self.sidecar or beside
        check_same(decode(beside, self.name), decode(self.sidecar, self.name), self.name, self.name)
        return beside

    def _spark_types(self, footer: Footer) -> dict[str, Any]:
        """Return the types in which Spark reads columns; a column that it cannot read may still be dropped."""
        physical = footer.metadata.schema
        raw, found = physical.to_arrow_schema(), dict[str, Any]()
        for place in range(len(raw)):
            name, kind = raw.field(place).name, raw.field(place).type
            with suppress(PpdmError):
                kind = kind if pa.types.is_decimal(kind) else dtypes.normal(kind, name)
                old = pa.types.is_timestamp(kind) and physical.column(place).physical_type == "INT96"
                found[name] = spark.TimestampType() if old else spark_type(kind, name)
        return found

    def partitions(self, columns: Sequence[str] | None = None) -> Iterator[Partition]:
        names = list(self.schema.names if columns is None else columns)
        own = [n for n in names if n in self._own_names]
        for name in own:
            if name not in self.types:
                spark_type(self.schema.field(name).type, name)
        rows = rows_per_partition(len(self.schema))
        text = [n for n in own if pa.types.is_string(self.schema.field(n).type)]
        for part, metadata, label, index in zip(
            self.parts, self._metadata, self._labels, range(len(self.parts)), strict=True
        ):
            keys = {n: (self._keys[n][index], self.schema.field(n).type) for n in names if n not in own}
            load, first = partial(loaded_here, label, own, text, self.schema, keys), 0
            for group in range(metadata.num_row_groups):
                length = metadata.row_group(group).num_rows
                for start in range(0, length, rows):
                    yield Rows(label, load, None, part.uri, first + start, min(rows, length - start))
                first += length


def files_of(frame: Any) -> Any:
    """Return Spark's list of the files whose rows a DataFrame has, if it has all of them, unchanged."""
    plan = frame._jdf.queryExecution().optimizedPlan()

    def is_a(thing: Any, kind: str) -> bool:
        return bool(thing.getClass().getSimpleName() == kind)

    if is_a(plan, "Project"):
        chosen = plan.projectList()
        if not all(is_a(chosen.apply(i), "AttributeReference") for i in range(chosen.size())):
            return None
        plan = plan.child()
    relation = plan.relation() if is_a(plan, "LogicalRelation") else None
    if relation is None or not is_a(relation, "HadoopFsRelation"):
        return None
    index = relation.location()
    if not (is_a(relation.fileFormat(), "ParquetFileFormat") and is_a(index, "InMemoryFileIndex")):
        return None
    return index


def _label(source: str, number: int, part: PartFile | None) -> str:
    """Return a file's name in messages: its number if the names of its folders may be cells."""
    if part is None:
        return source
    if "=" in str(part.under.parent):
        return f"{source}, part {number}"
    return f"{source.rstrip('/')}/{part.under}"
