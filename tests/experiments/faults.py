"""Faults injected into the commands that write files: the n-th call of each kind fails, for every n.

After each the old files are there or the new ones, byte for byte, never a mixture, and nothing else; the exit
code is 1 with one line, or 0 where the command got by. `tests/test_injected.py` stands between the commands
and Python's calls; `make faults` has strace do it, which sees every call of the system.
"""

from __future__ import annotations

import errno
import io
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from tests.vocabulary import listing, people

SEEDED = ("--gamma", "9", "--seed", "3", "--force")
COMMANDS: dict[str, tuple[str, ...]] = {
    "perturb": ("perturb", "in.parquet", "-o", "out.parquet", *SEEDED),
    "perturb to CSV": ("perturb", "in.parquet", "-o", "out.csv", "--shuffle", *SEEDED),
    "perturb in copies": ("perturb", "in.parquet", "-o", "two.csv", "--copies", "2", *SEEDED),
    "inspect --describe": ("inspect", "in.csv", "--describe", "plan.toml", "-o", "in.csv.ppdm.json", "--force"),
    "reconstruct": ("reconstruct", "r.parquet", "-o", "out.arrow", "--force"),
    "train-tree": (
        *("train-tree", "in.parquet", "--class", "group", "-o", "out.json", "--export", "out.txt"),
        *("--predicted", "out.csv", "--force"),
    ),
    "predict": ("predict", "t.json", "in.parquet", "-o", "out.feather", "--force"),
    "estimate -o": ("estimate", "r.parquet", "-o", "out.parquet", "--force"),
    "query -o": ("query", "r.parquet", "select count()", "-o", "out.parquet", "--force"),
}
PLAN = """gamma = 9
[attributes]
age.domain = "18:89"
income.domain = "0:1000000"
since.domain = "1970-01-01:1980-01-01"
"""
OLD = ("out.parquet", "out.csv", "out.arrow", "out.feather")
KINDS = ("open", "write", "fsync", "link", "rename", "unlink")
NAMELESS: int = getattr(os, "O_TMPFILE", 0) or -1
CALLS = {
    "write": "write,pwrite64",
    "fsync": "fsync",
    "link": "link,linkat",
    "rename": "rename,renameat,renameat2",
}

HUNG = -1
UNIQUE = re.compile(rb'"release": ?"[-0-9a-f]{36}"')
"""What no two runs of --describe have in common; a seeded release has a seeded one."""

Points = Counter[str]
Ran = tuple[int, str]


def prepared(folder: Path, run: Callable[..., Any]) -> Path:
    """Fill a folder with what the commands read, and with files in the place of their outputs."""
    people(300).write_parquet(folder / "in.parquet")
    run("perturb", "in.parquet", "-o", "r.parquet", "--gamma", "9", "--class", "group", "--seed", "1")
    run("train-tree", "in.parquet", "--class", "group", "-o", "t.json")
    run("train-tree", "in.parquet", "--class", "member", "-o", "out.json", "--export", "out.txt")
    people(300).write_csv(folder / "in.csv")
    (folder / "plan.toml").write_text(PLAN)
    run("inspect", "in.csv", "--describe", "plan.toml", "-o", "in.csv.ppdm.json")
    (folder / "plan.toml").write_text(PLAN.replace("9", "5", 1))
    run("perturb", "in.parquet", "-o", "two.csv", "--gamma", "5", "--seed", "2", "--copies", "2")
    for name in OLD:
        run("perturb", "in.parquet", "-o", name, "--gamma", "5", "--seed", "2")
    return folder


class Injector:
    """Counts the calls on files below a folder, with or without nameless ones, and makes one of them fail."""

    def __init__(self, folder: Path, nameless: bool = True, kind: str = "", at: int = 0) -> None:
        self._folder, self._nameless, self._kind, self._at = str(folder.resolve()), nameless, kind, at
        self.points: Points = Counter()

    def called(self, kind: str) -> None:
        self.points[kind] += 1
        if kind == self._kind and self.points[kind] == self._at:
            number = errno.ENOSPC if kind in ("open", "write") else errno.EIO
            raise OSError(number, os.strerror(number))

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Stand between the commands and the operating system."""
        real_open, real_fdopen = os.open, os.fdopen
        injector = self

        class File(io.FileIO):
            def write(self, data: Any) -> int:
                injector.called("write")
                return super().write(data)

        def opened(path: Any, flags: int, *rest: Any, **options: Any) -> int:
            if flags & os.O_RDWR and str(Path(path).resolve()).startswith(self._folder):
                if flags & NAMELESS == NAMELESS and not self._nameless:
                    raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
                self.called("open")
            return real_open(path, flags, *rest, **options)

        def fdopened(descriptor: int, mode: str = "r", *rest: Any, **options: Any) -> Any:
            if mode == "w+b":
                return io.BufferedRandom(File(descriptor, "r+b"))  # type: ignore[arg-type]
            return real_fdopen(descriptor, mode, *rest, **options)

        def counted(kind: str, real: Callable[..., Any]) -> Callable[..., Any]:
            def call(*args: Any, **options: Any) -> Any:
                self.called(kind)
                return real(*args, **options)

            return call

        with (
            mock.patch.object(os, "open", opened),
            mock.patch.object(os, "fdopen", fdopened),
            mock.patch.object(os, "fsync", counted("fsync", os.fsync)),
            mock.patch.object(os, "link", counted("link", os.link)),
            mock.patch.object(os, "rename", counted("rename", os.rename)),
            mock.patch.object(os, "replace", counted("rename", os.replace)),
            mock.patch.object(os, "unlink", counted("unlink", os.unlink)),
        ):
            yield


def check(folder: Path, old: dict[str, bytes], new: dict[str, bytes], ran: Ran, kind: str) -> None:
    """Old or new, with the exit code and the words that go with it; then the old files are put back."""
    code, said = ran
    after = listing(folder)
    left = {n for n in after if n.startswith(".")}
    assert not left or kind == "unlink", "nobody can tidy up where removing fails, but only there"
    after = {n: b for n, b in after.items() if n not in left}
    mixed = [n for n in {*after, *old} if after.get(n) not in (old.get(n), new.get(n))]
    assert _plain(after) in (_plain(old), _plain(new)), mixed
    assert (code == 0) == (_plain(after) == _plain(new)) or "'standard output'" in said, (code, said)
    if code:
        assert code == 1 and said.startswith("ppdm: ") and said.count("\n") == 1, said
        assert ". " in said and "inside ppdm" not in said and "(ppdm_cli" not in said, said
    for name in {*after, *left}:
        (folder / name).unlink()
    for name, content in old.items():
        (folder / name).write_bytes(content)


def _plain(files: dict[str, bytes]) -> dict[str, bytes]:
    return {n: UNIQUE.sub(b"", b) for n, b in files.items()}


def _run(folder: Path, *args: str, before: tuple[str, ...] = ()) -> Ran:
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(Path.cwd())}
    command = [*before, sys.executable, "-m", "ppdm_cli", *args]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, cwd=folder, stdout=pipe, stderr=pipe, env=environment, start_new_session=True
    ) as running:
        try:
            _, said = running.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGTERM)
            return HUNG, ""
    return running.returncode, said.decode()


def _traced(folder: Path, log: Path, args: tuple[str, ...]) -> Points:
    """Make every call fail by the system's own name, until none is left."""
    old = listing(folder)
    assert _run(folder, *args)[0] == 0
    new, points = listing(folder), Points()
    check(folder, old, new, (0, ""), "")
    for kind, calls in CALLS.items():
        code = "ENOSPC" if kind == "write" else "EIO"
        for at in range(1, 1000):
            inject = f"inject={calls}:error={code}:when={at}"
            ran = _run(folder, *args, before=("strace", "-f", "-y", "-o", str(log), "-e", inject))
            failed = _injected(log.read_text())
            if ran[0] == HUNG or any("anon_inode" in line for line in failed):
                ran = (1, "ppdm: threads; they wake each other by writing, to what is no file\n")
            else:
                points[kind] += len(failed)
            check(folder, old, new, ran, kind)
            if not failed and ran[0] == 0:
                break
    return points


def _injected(log: str) -> list[str]:
    """Return the calls that were made to fail, whole where strace tells of one in two lines."""
    begun, failed = dict[str, str](), []
    for line in log.splitlines():
        thread = line.partition(" ")[0]
        if line.endswith("<unfinished ...>"):
            begun[thread] = line
        elif line.endswith("(INJECTED)"):
            failed.append(begun.get(thread, "") + line if " resumed>" in line else line)
    return failed


def main() -> None:
    """Print how many points there were for each command; stop at the first that goes wrong."""
    with tempfile.TemporaryDirectory() as place:
        folder, log = Path(place) / "run", Path(place) / "log"
        folder.mkdir()
        prepared(folder, lambda *args: _run(folder, *args))
        for name, args in COMMANDS.items():
            points = _traced(folder, log, args)
            sys.stdout.write(f"{name}: {points.total()} points {dict(points)}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
