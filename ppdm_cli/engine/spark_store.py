"""Where Spark's files are: what a name or a DataFrame means by them, and how they are read and listed.

Everything goes through the Hadoop classes in the session's JVM, so that any URI works that Spark reads. Of the
data the driver reads nothing but the footers of files.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from ppdm_cli import files
from ppdm_cli.errors import DataError, PpdmError, UsageError, quoted
from ppdm_cli.tables import LOGS, PARQUET, Footer, check_plain, format_of, logs_above, logs_among

_UNREAD = re.compile(r"_[^=]*|\..*")
"""Files that a DataFrame does not read, such as those that sum up the footers of others."""
_TAIL = 1 << 16
"""Bytes of a file's end that are read first."""


class Part(NamedTuple):
    """A file of a table: under its root, by its full name, and by the name that Spark gives with each row."""

    under: PurePosixPath
    name: str
    uri: str
    size: int
    time: int
    """When it was written, in milliseconds."""

    @property
    def local(self) -> Path:
        """Return its path, if it is on this machine."""
        return Path(self.name.removeprefix("file:"))


class Source(NamedTuple):
    """A file or folder by the name that it was given and its full one, with its files that are the table's."""

    named: str
    root: str
    folder: bool
    parts: list[Part]
    whole: bool = True
    """Whether these are all Parquet files in it."""


class Store:
    """The file systems that a session knows."""

    def __init__(self, session: Any) -> None:
        self._jvm = session.sparkContext._jvm
        self._conf = session._jsparkSession.sessionState().newHadoopConf()

    def at(self, uri: str) -> tuple[Any, Any]:
        """Return a file system, and the path in it."""
        with understood(uri):
            path = self._jvm.org.apache.hadoop.fs.Path(uri)
            system = path.getFileSystem(self._conf)
            if not path.isAbsolute() and system.getUri().getScheme() == "file":  # the JVM stays where it began
                path = self._jvm.org.apache.hadoop.fs.Path(str(Path.cwd() / uri))
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
        files.watching(uri, self._state, uri, None)
        return Source(uri, root, folder, parts)

    def sources(self, index: Any) -> list[Source]:
        """Return what a DataFrame reads: by its own list of files, as another look may find others."""
        keys, roots = set(index.partitionSchema().fieldNames()), list(map(_name, _each(index.rootPaths())))
        statuses = [(_name(s.getPath()), s) for s in _each(index.allFiles())]
        statuses = [(n, s) for n, s in statuses if _UNREAD.fullmatch(n.rpartition("/")[2]) is None]
        found = []
        for root in roots:
            parts = [_part(s, _base(root, n, keys)) for n, s in statuses if f"{n}/".startswith(f"{root}/")]
            names = frozenset(p.name for p in parts)
            _, folder, every = self._listed(root)
            if {p[1:] for p in parts} != {p[1:] for p in every if p.name in names}:
                raise DataError(f"{quoted(root)} changed since the DataFrame was made", "make it again")
            self._check_plain(root, root, parts, every)
            files.watching(root, self._state, root, names)
            whole = names == {p.name for p in every if _is_part(p)}
            found.append(Source(root, root, folder, sorted(parts), whole))
        return found

    def _listed(self, uri: str) -> tuple[str, bool, list[Part]]:
        """Return the full name of a file or folder, whether it is a folder, and all files in it."""
        system, path = self.at(uri)
        root = _name(path)
        with understood(uri):
            status = system.getFileStatus(path)
            if status.isFile():
                return root, False, [_part(status, root.rpartition("/")[0])]
            found, there = list[Part](), system.listFiles(path, True)
            while there.hasNext():
                found.append(_part(there.next(), root))
        return root, True, found

    def _state(self, uri: str, names: frozenset[str] | None) -> object:
        """Return a table's files, or those of these names, with their sizes and times; None if it is gone."""
        with suppress(PpdmError):
            return {p for p in self._listed(uri)[2] if (_is_part(p) if names is None else p.name in names)}
        return None

    def _check_plain(self, uri: str, root: str, parts: Sequence[Part], every: Sequence[Part]) -> None:
        """Refuse the parts of a lakehouse table, whose log is among all files, or above them."""
        system, path = self.at(root)
        if system.getUri().getScheme() == "file":  # where there are links
            check_plain(logs_above([p.local for p in parts]), uri)
        folder = PurePosixPath(str(path.toUri().getPath()))
        check_plain(logs_among(folder / p.under for p in every), uri)
        for above in (folder, *folder.parents):
            pattern = self._jvm.org.apache.hadoop.fs.Path(f"{spelt(str(above)).rstrip('/')}/{LOGS}")
            with suppress(Py4JJavaError):  # not every folder may be listed
                found = system.globStatus(pattern) or ()
                check_plain((PurePosixPath(str(s.getPath().toUri().getPath())) for s in found), uri)

    def footer(self, part: Part, label: str) -> Footer:
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
        return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream, length))

    def content(self, uri: str) -> bytes | None:
        """Return what is in a small file, or None if there is none."""
        system, path = self.at(uri)
        with understood(uri):
            if not system.exists(path):
                return None
            stream = system.open(path)
            try:
                return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
            finally:
                stream.close()


def _each(several: Any) -> Iterator[Any]:
    """Yield what is in a sequence of Scala's."""
    there = several.iterator()
    while there.hasNext():
        yield there.next()


def _name(path: Any) -> str:
    return str(path.toString()).rstrip("/")


def _part(status: Any, base: str) -> Part:
    """Return a file from its status, under a folder."""
    path = status.getPath()
    name, uri = _name(path), str(path.toUri().toString())
    under = PurePosixPath(name[len(base) :].lstrip("/"))
    return Part(under, name, uri, status.getLen(), status.getModificationTime())


def _is_part(part: Part) -> bool:
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
    """Turn what a file system says into an error of ours."""
    try:
        yield
    except Py4JJavaError as error:
        kind, cause = error.java_exception.getClass().getSimpleName(), error.java_exception.getCause()
        if kind == "RuntimeException" and cause is not None:  # a file system's class is not there
            kind = cause.getClass().getSimpleName()
        if kind == "FileNotFoundException":
            raise DataError(f"{quoted(uri)} does not exist", "check its name") from None
        if kind in ("UnsupportedFileSystemException", "ClassNotFoundException") or "scheme" in str(
            error.java_exception.getMessage()
        ):
            raise UsageError(
                f"Spark knows no file system for {quoted(uri)}",
                "give Spark the package that has it, by the setting spark.jars.packages",
            ) from None
        raise DataError(
            f"{quoted(uri)} cannot be used ({kind})", "check its name and rights, and what Spark was given"
        ) from None
    except PySparkException:  # such as of a host that is not there
        raise DataError(
            f"{quoted(uri)} cannot be used", "check its name and rights, and what Spark was given"
        ) from None


def _no_rows(uri: str) -> PpdmError:
    return UsageError(
        f"{quoted(uri)} has no Parquet: in no other format do rows have a number that a cluster agrees on",
        "name a Parquet file or a folder of them, or do this on one machine",
    )
