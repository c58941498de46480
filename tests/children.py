"""The command line in a child of its own, with what it cost: its largest memory and its time."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

CODES = {0, 1, 2, 3, 4}
MOST_SECONDS, MOST_MIB = 10.0, 1024.0
"""What a small input may cost, whatever it asks for."""
HANG = 60.0
"""Seconds after which a child is taken for hung; generous, as a test machine may be busy."""
_ALLOWED = 6 << 30
"""Bytes of addresses that a child may have, so that no test takes the machine with it."""
_MAIN = """
import re, sys
from ppdm_cli.commands import run_command_line
told = sys.argv[1]
sys.argv = ["ppdm", *sys.argv[2:]]
try:
    run_command_line()
finally:
    status = open("/proc/self/status").read()
    open(told, "w").write(re.search(r"VmHWM:\\s*(\\d+)", status)[1])
"""
"""It says at its end what its own memory was: the kernel's figure for a child has the parent's in it."""


@dataclass(frozen=True)
class Child:
    """What became of a run: `code` is None where it was stopped."""

    code: int | None
    out: bytes
    err: bytes
    seconds: float
    busy: float
    """Seconds of the processor; a machine that others use stretches those of the clock."""
    mib: float

    @property
    def clean(self) -> bool:
        """Whether it ended with a code of the table and without a stray word."""
        return self.code in CODES and not stray(self.out + self.err)

    @property
    def cheap(self) -> bool:
        """Whether it took no more than a small input may, by the clock or by the processor."""
        return min(self.seconds, self.busy) <= MOST_SECONDS and self.mib <= MOST_MIB


def stray(said: bytes) -> bool:
    """Whether a traceback or an error of our own was said."""
    words = (b"Traceback", b"inside ppdm", b"Exception ignored", b"terminate called", b"panicked")
    return any(word in said for word in words)


def child(*args: object, cwd: Path, stdin: bytes = b"", seconds: float = HANG) -> Child:
    """Run `ppdm` with these arguments in a folder."""
    with ExitStack() as stack:
        out, err, given = (stack.enter_context(tempfile.TemporaryFile()) for _ in range(3))
        told = stack.enter_context(tempfile.NamedTemporaryFile())
        given.write(stdin)
        given.seek(0)
        began, before = time.monotonic(), _busy()
        run = subprocess.Popen(
            [sys.executable, "-c", _MAIN, told.name, *map(str, args)],
            cwd=cwd,
            stdin=given,
            stdout=out,
            stderr=err,
            env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},  # its threads are busy while they wait
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (_ALLOWED, _ALLOWED)),
        )
        timer = threading.Timer(seconds, run.kill)
        timer.start()
        code = run.wait()
        timer.cancel()
        took, busy = time.monotonic() - began, _busy() - before
        out.seek(0)
        err.seek(0)
        stopped = code == -signal.SIGKILL
        mib = int(told.read() or 0) / 1024
        return Child(None if stopped else code, out.read(), err.read(), took, busy, mib)


def _busy() -> float:
    """Seconds of the processor that ended children took."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
