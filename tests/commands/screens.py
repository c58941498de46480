"""A terminal for the tests: the real command line in a child of its own, its screen read with pyte."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pyte

_CHILD = """
import fcntl, json, os, signal, sys, termios, time
fcntl.ioctl(2, termios.TIOCSCTTY, 0)  # so that ^C is a signal
from ppdm_cli.commands import run_command_line, show
show._PATIENCE = {patience}
if {stuck}:
    show.PassProgress.advance = lambda *_: time.sleep(60)
for call in json.loads(sys.argv[1]):
    sys.argv = ["ppdm", *call]
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a run that was interrupted lets no second one in
    try:
        run_command_line()
    except SystemExit as left:
        sys.stdout.flush()
        os.write(2, b"\\0" + str(left.code).encode() + b"\\0")
"""
_DOING = re.compile("(counting|reading|perturbing|learning|growing|reconstructing|predicting|generating)")


@dataclass
class Seen:
    """What a person saw of one call: each line of progress, the screen that stayed, and the exit code."""

    call: list[str]
    code: int
    progress: list[str]
    screen: pyte.Screen
    raw: bytes

    @cached_property
    def lines(self) -> list[str]:
        return [line.rstrip() for line in self.screen.display if line.strip()]

    @cached_property
    def bold(self) -> set[str]:
        """The lines with something bold: the heads of tables."""
        rows = self.screen.buffer
        return {
            line.rstrip() for i, line in enumerate(self.screen.display) if any(c.bold for c in rows[i].values())
        }


def watch(
    calls: list[list[str]],
    folder: Path,
    columns: int,
    patience: float = 0,
    interrupt: bool = False,
    stdin: bytes | None = None,
    **environment: str,
) -> list[Seen]:
    """Run calls one after the other on a terminal; to `interrupt` is to press ^C when progress shows."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 500, columns, 0, 0))
    code = _CHILD.format(patience=patience, stuck=interrupt)
    env = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES")} | {"TERM": "xterm-256color"}
    running = subprocess.Popen(
        [sys.executable, "-c", code, json.dumps(calls)],
        cwd=folder,
        env=env | environment,
        stdin=follower if stdin is None else subprocess.PIPE,
        stdout=follower,
        stderr=follower,
        start_new_session=True,
    )
    os.close(follower)
    if running.stdin is not None:
        assert stdin is not None
        running.stdin.write(stdin)
        running.stdin.close()
    whole, pressed = b"", 0
    while True:
        try:
            block = os.read(leader, 1 << 16)
        except OSError:  # how Linux says that the other end is closed
            break
        if not block:
            break
        whole += block
        now = whole.rpartition(b"\0")[2].decode(errors="replace")
        if interrupt and pressed == whole.count(b"\0") // 2 and _DOING.search(now):
            os.write(leader, b"\x03")
            pressed += 1
    os.close(leader)
    assert running.wait() == 0, whole.decode(errors="replace")
    parts = whole.split(b"\0")
    assert len(parts) == 2 * len(calls) + 1 and not parts[-1], whole.decode(errors="replace")
    return [
        _seen(call, raw, int(left), columns)
        for call, raw, left in zip(calls, parts[::2], parts[1::2], strict=False)
    ]


def _seen(call: list[str], raw: bytes, code: int, columns: int) -> Seen:
    screen = pyte.Screen(columns, 500)
    stream = pyte.ByteStream(screen)
    progress = []
    for piece in re.split(rb"(?=\x1b\[2K)", raw):  # before a line is cleared: what it was
        stream.feed(piece)
        row = screen.buffer[screen.cursor.y]
        line = "".join(row[x].data for x in range(columns)).rstrip()
        if _DOING.match(line):
            progress.append(line)
    return Seen(call, code, progress, screen, raw)
