"""Stores for URIs: buckets, and all else that pyarrow or fsspec opens.

A store shows a file whole or not at all: an upload to S3 or GCS appears when it is closed, and elsewhere it has
a hidden name until then. Credentials come from the store's own settings, never from a URI. A store is asked
about a file once in a run, and again at its end.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import stat
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from functools import lru_cache
from os import PathLike
from pathlib import Path, PosixPath
from typing import IO, Any, Self
from urllib.parse import unquote

from ppdm_cli import files
from ppdm_cli.errors import DataError, UsageError, argument, quoted

_URI = re.compile(r"([a-z][a-z0-9+.-]+):/+(.*)", re.DOTALL | re.IGNORECASE)
"""A URI; as a path it has lost a slash."""
_PATTERN = re.compile(r"[*?[]")
_BUCKETS = {"s3": "s3", "s3a": "s3", "s3n": "s3", "gs": "gs", "gcs": "gs"}
"""Schemes of stores in which uploads appear when they are closed, with pyarrow's names for them."""
_SETTINGS = ("AWS_", "AZURE_", "GOOGLE_")
"""The prefixes of the environment's settings of stores."""
_PLAIN = re.compile(r"([^:@/?]+@)?[^:@/?]*(:\d+(?!.*@))?(/(?!.*\?[^/]*=).*)?", re.DOTALL)
"""The part of a URI after its scheme, if it has neither a password nor settings."""
_ANSWER = re.compile(r"AWS Error ([A-Z_]+)|\b(UNAUTHENTICATED|PERMISSION_DENIED|UNAVAILABLE)\b")
_PARTS = 32 << 20
"""The number of bytes that may wait for a store to take them."""


def path_of(name: object, secret: str = "") -> Path:
    """Return the path that a person means: of this machine or, if it is a URI, of a store.

    An option that names a `secret`, such as a key, means a file of this machine.
    """
    if not isinstance(name, (str, PathLike)):
        what = f"an object of type {type(name).__name__} is not the name of a file"
        raise UsageError("no-name-of-a-file", what, "give a path")
    text = str(name)
    uri = _URI.fullmatch(text)
    if uri is None or Path(text).exists():
        return Path(text)
    scheme, rest = uri[1].lower(), uri[2]
    if scheme == "file":
        return Path("/" + unquote(rest))
    if not _PLAIN.fullmatch(rest) or (scheme in _BUCKETS and "@" in rest.partition("/")[0]):
        what = f"a URI of {scheme}:// has credentials or settings in it, so it is not shown"
        step = "name the file alone, and set them in the environment or a profile"
        raise UsageError("credentials-in-uri", what, step)
    if secret:
        what = f"{argument(secret)} must stay on this machine, but {quoted(text)} is in a store"
        raise UsageError("secret-in-store", what, "name a file on a local disk")
    return StorePath(f"{scheme}://{rest}")


def expanded(sources: Any) -> Any:
    """Return sources with each URI pattern replaced by its matches, as a shell would."""
    several = isinstance(sources, (list, tuple))
    found = list[Any]()
    for source in sources if several else [sources]:
        uri = isinstance(source, (str, Path)) and "://" in str(source)
        found += _matching(path_of(source)) if uri else [source]
    return found if several or len(found) != 1 else found[0]


def _matching(path: Path) -> Sequence[Path]:
    """Return the files with the name of the path or, if there are none, matching it as a pattern."""
    if not _PATTERN.search(str(path)) or path.exists():
        return [path]
    start = 2 if isinstance(path, StorePath) else 1
    found = [type(path)(*path.parts[:start])]
    for part in path.parts[start:]:
        if not _PATTERN.search(part):
            found = [f / part for f in found]
            continue
        below = (b for f in found if f.is_dir() for b in f.iterdir() if not b.name.startswith((".", "_")))
        found = [b for b in below if fnmatchcase(b.name, part)]
    if not (found := sorted(f for f in found if f.exists())):
        raise DataError("nothing-matches", f"nothing matches {quoted(path)}", "check its name")
    return found


class StorePath(PosixPath):
    """A path in a store, such as s3://bucket/people.parquet, that behaves like one of this machine."""

    typed = ""
    """A path as it was typed, for engines that read it in their own way."""

    def __str__(self) -> str:
        text = super().__str__()
        whole = self.parts[:1] and self.parts[0].endswith(":")
        return self.typed or (text.replace(":/", "://", 1) if whole else text)

    @property
    def parents(self) -> Sequence[Self]:
        return super().parents[:-2]  # not the scheme

    def listed(self, recursive: bool = True) -> dict[Self, Any]:
        """Return the content of a folder, with the store's facts about it."""
        from pyarrow.fs import FileSelector

        with _answering(self) as (system, path):
            found = system.get_file_info(FileSelector(path, allow_not_found=True, recursive=recursive))
            below = {self / f.path.strip("/")[len(path.strip("/")) :].strip("/"): f for f in found}
        files.store_answers().update(below | ({(self, "all"): True} if recursive else {}))
        return below

    def _asked(self) -> Any:
        """Return the store's facts about this, or those from earlier in this run; None if it doesn't exist."""
        seen = files.store_answers()
        found = seen.get(self)
        if found is None and not any((above, "all") in seen for above in self.parents):
            with _answering(self) as (system, path):
                seen[self] = found = system.get_file_info(path)
        return found if found is not None and (found.is_file or found.type.name == "Directory") else None

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        if (info := self._asked()) is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self))
        kind = stat.S_IFREG if info.is_file else stat.S_IFDIR
        times = dict.fromkeys(("st_mtime_ns", "st_ctime_ns"), info.mtime_ns)
        return os.stat_result((kind, 0, 0, 1, 0, 0, info.size or 0, 0, 0, 0), times)

    def exists(self, *, follow_symlinks: bool = True) -> bool:
        return self._asked() is not None

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        return self.exists() and bool(self._asked().is_file)

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        return self.exists() and not self._asked().is_file

    def iterdir(self) -> Generator[Self, None, None]:
        yield from self.listed(recursive=False)

    def resolve(self, strict: bool = False) -> Self:
        return self

    absolute = resolve

    def open(self, *_: object, **__: object) -> Any:
        with _answering(self) as (system, path):
            return system.open_input_file(path)

    def unlink(self, missing_ok: bool = False) -> None:
        with suppress(*[FileNotFoundError] * missing_ok), _answering(self) as (system, path):
            system.delete_file(path)

    def copy_to(self, target: Path) -> None:
        with _answering(self) as (system, path):
            system.copy_file(path, _place(str(target))[1])

    def rename(self, target: Any) -> Self:
        try:
            with _answering(self) as (system, path):
                system.move(path, _place(str(target))[1])
        except NotImplementedError:  # of Azure without a hierarchy
            self.copy_to(target)
            self.unlink()
        return type(self)(target)

    replace = rename

    def upload(self, file: IO[bytes], hidden: Path, over: bool = True) -> None:
        """Put all of a file here, whole or not at all; `over` replaces an existing one."""
        if not over and self.exists():
            raise FileExistsError
        bucket = self.parts[0][:-1] in _BUCKETS
        with _answering(self if bucket else hidden) as (system, path):
            stream = system.open_output_stream(path, compression=None)
            try:
                file.seek(0)
                while block := file.read(_PARTS):
                    stream.write(block)
                    if bucket:
                        stream.flush()
                stream.close()
            except BaseException:
                # where a stream ends, its upload does too, and shows what there is: so this one never ends
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(stream))
                if not (bucket and over):
                    with suppress(Exception):
                        system.delete_file(path)
                raise
        if not bucket:
            hidden.rename(self)


def reachable(path: Any) -> Any:
    """Return an object for other libraries: a path of this machine unchanged, one of a store opened."""
    return path.open() if isinstance(path, StorePath) else path


@contextmanager
def _answering(path: Path) -> Iterator[tuple[Any, str]]:
    """Yield a file system and the path in it; the store's failures become errors of ours."""
    place = _place(str(path))
    try:
        yield place
    except (FileNotFoundError, NotImplementedError):
        raise
    except Exception as error:  # of pyarrow, or of what fsspec found: it may quote credentials
        raise gave_up(str(path), error) from None


def gave_up(name: str, error: BaseException) -> DataError:
    answer = _ANSWER.search(str(error))
    why = (answer[1] or answer[2]) if answer else type(error).__name__
    step = "check the name, your credentials and the network, then run this again"
    return DataError("store-failed", f"the store of {quoted(name)} failed ({why})", step)


def unread(name: str, error: BaseException, damaged: DataError) -> DataError:
    """Return the error for a file that cannot be read to its end: the store failed, or it is damaged."""
    return gave_up(name, error) if _ANSWER.search(str(error)) else damaged


def _place(uri: str) -> tuple[Any, str]:
    scheme, _, rest = uri.partition("://")
    authority, _, below = rest.partition("/")
    settings = tuple(sorted(i for i in os.environ.items() if i[0].startswith(_SETTINGS)))
    system, root = _system(scheme, authority, settings)
    return system, f"{root.rstrip('/')}/{below}" if below else root


@lru_cache
def _system(scheme: str, authority: str, settings: tuple[tuple[str, str], ...]) -> tuple[Any, str]:
    """Return a file system, and the path in it of a bucket or of a host's root.

    It reads the environment's `settings` once, so others make another.
    """
    from pyarrow import fs

    root = f"{_BUCKETS.get(scheme, scheme)}://{authority}"
    try:
        if scheme == "az" and (account := os.environ.get("AZURE_STORAGE_ACCOUNT")):
            return fs.AzureFileSystem(account, account_key=os.environ.get("AZURE_STORAGE_KEY")), authority
        limit = "?retry_limit_seconds=60" * root.startswith("gs:")  # instead of a quarter of an hour
        return fs.FileSystem.from_uri(root + limit)
    except Exception as error:
        if scheme in _BUCKETS:
            raise gave_up(root, error) from None
    with suppress(Exception):  # where fsspec is not there, or lacks what it needs
        from fsspec.core import url_to_fs

        system, path = url_to_fs(root)
        return fs.PyFileSystem(fs.FSSpecHandler(system)), path
    step = (
        f"see docs/how-to/stores.md for what {scheme}:// needs, copy the file here, "
        "or use Spark (docs/how-to/spark.md)"
    )
    raise UsageError("unknown-store", f"{quoted(root)} can't be opened: packages for it are missing", step)
