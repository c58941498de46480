"""Nothing needs Linux: every command runs in a child process from which Linux's own calls are taken away.

What is taken is what Windows and macOS do not have, and what Windows does differently with open files: neither
can be run here, so this is a stand-in, and says so.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ELSEWHERE = '''
import builtins, ctypes, importlib, os, pathlib, pkgutil, signal, sys, tempfile
import click, cryptography.hazmat.primitives.ciphers, msgspec, numpy
import polars, pyarrow.csv, pyarrow.parquet, rich.console

UNKNOWN = """O_TMPFILE O_DIRECTORY O_NOFOLLOW O_CLOEXEC O_NONBLOCK O_SYNC O_PATH sched_getaffinity getuid
geteuid getgid fchmod fchown chown lchown fork killpg setsid mkfifo mknod sysconf pathconf
statvfs fstatvfs sync fdatasync sendfile splice copy_file_range memfd_create posix_fadvise
posix_fallocate pread pwrite readv writev getxattr setxattr listxattr nice uname ttyname openpty
lockf getpgrp tcgetpgrp""".split()
for name in UNKNOWN:
    if hasattr(os, name):
        delattr(os, name)
for name in "SIGPIPE SIGHUP SIGALRM SIGUSR1 SIGWINCH SIGTSTP alarm setitimer pthread_sigmask".split():
    delattr(signal, name)
tempfile.TemporaryFile = tempfile.NamedTemporaryFile  # as tempfile itself does on Windows

real_library = ctypes.CDLL
def no_library(name, *more, **and_more):  # the process itself is none elsewhere
    if name is None or "libc." in str(name):
        raise TypeError("bad argument type for built-in operation")
    return real_library(name, *more, **and_more)
ctypes.CDLL = no_library

real_import = builtins.__import__
def imported(name, globals=None, *more, **and_more):
    ours = str((globals or {}).get("__name__", "")).startswith("ppdm_cli")
    if ours and name.partition(".")[0] in ("fcntl", "grp", "posix", "pty", "pwd", "resource", "termios", "tty"):
        raise ModuleNotFoundError(name)
    return real_import(name, globals, *more, **and_more)
builtins.__import__ = imported

def is_open(path):
    here = os.stat(path)
    for descriptor in real_listdir("/proc/self/fd"):
        try:
            there = os.fstat(int(descriptor))
        except OSError:
            continue
        if (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino):
            return True
    return False
real_listdir = os.listdir
def closed_only(call):
    def called(path, *more, **and_more):
        if str(path).startswith("/proc"):
            raise FileNotFoundError(2, "no such file", str(path))
        if os.path.exists(path) and is_open(path):
            raise PermissionError(13, "the file is used by another process", str(path))
        return call(path, *more, **and_more)
    return called
for name in ("replace", "rename", "link", "unlink", "remove"):
    setattr(os, name, closed_only(getattr(os, name)))
real_open = os.open
def opened(path, *more, **and_more):
    if os.path.isdir(path):
        raise PermissionError(13, "permission denied", str(path))
    return real_open(path, *more, **and_more)
os.open = opened
'''

WORK = """
import ppdm_cli
for module in pkgutil.walk_packages(ppdm_cli.__path__, "ppdm_cli."):
    if module.name != "ppdm_cli.__main__":
        importlib.import_module(module.name)
from ppdm_cli.commands import run_command_line

def ppdm(line):
    sys.argv = ["ppdm", *line.split()]
    try:
        run_command_line()
    except SystemExit as left:
        assert not left.code, (line, left.code)

ppdm("generate --function 2 --records 3000 --seed 7 -o t.csv")
ppdm("generate --function 2 --records 3000 --seed 7 -o t.parquet")
for _ in range(2):
    ppdm("perturb t.csv -o r.csv --gamma 9 --class group --rare merge --shuffle --force")
    ppdm("perturb t.parquet -o r.parquet --gamma 9 --class group --rare merge --matrix band --force")
pathlib.Path("ids.csv").write_text("id,x\\n" + "".join(f"p{i},{'ab'[i % 3 > 0]}\\n" for i in range(300)))
for out in ("k1.csv", "k2.csv"):
    ppdm(f"perturb ids.csv -o {out} --gamma 9 --id id --key-file k.key --keep-order")
    os.chmod("k.key", 0o666)
ppdm("inspect r.csv")
ppdm("estimate r.csv --truth t.csv -o e.csv")
ppdm("estimate r.parquet")
ppdm("reconstruct r.parquet -o u.parquet")
ppdm("train-tree u.parquet --class group --test t.parquet -o tree.json")
ppdm("predict tree.json t.csv -o p.csv")
ppdm("attack r.parquet --truth t.parquet")
ppdm("entropy --gamma 9 --bins 10")
"""


def elsewhere(work: str, folder: Path) -> subprocess.CompletedProcess[bytes]:
    done = [sys.executable, "-c", ELSEWHERE + work]
    return subprocess.run(done, cwd=folder, capture_output=True, check=False, env=os.environ)


def test_every_command_runs_where_linux_is_not(tmp_path: Path) -> None:
    done = elsewhere(WORK, tmp_path)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    left = {p.name for p in tmp_path.iterdir() if "ppdm-part" in p.name}
    assert not left and (tmp_path / "k1.csv").read_bytes() == (tmp_path / "k2.csv").read_bytes()


def test_what_is_taken_away_is_gone(tmp_path: Path) -> None:
    """Each of these runs on Linux, and must not here."""
    for use in (
        "ctypes.CDLL(None)",
        "os.sched_getaffinity(0)",
        "os.open('.', os.O_RDONLY)",
        "f = open('x', 'wb'); os.replace('x', 'y')",
        "f = open('x', 'wb'); pathlib.Path('x').replace('y')",
        "exec('import fcntl', {'__name__': 'ppdm_cli.files'})",
    ):
        subprocess.run([sys.executable, "-c", f"import ctypes, os, pathlib\n{use}"], cwd=tmp_path, check=True)
        assert elsewhere(use, tmp_path).returncode == 1, use
