"""Keeps the documentation true: `make docs` puts real output into the pages.

A `console` block is run, command by command, in a folder of its own that has `sample_data`. A block under
`<!-- file: NAME -->` is written to that file for the commands after it. Output is compared letter by
letter, but of learnt trees the structure and the rounded figures.
"""

from __future__ import annotations

import math
import os
import re
import shlex
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import IO

import pytest

from tests.vocabulary import here

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = [*sorted(ROOT.glob("*.md")), ROOT / "sample_data" / "README.md", *sorted(DOCS.rglob("*.md"))]

_BLOCK = re.compile(r"^(?:<!-- file: (?P<name>\S+) -->\n)?```(?P<kind>\w+)\n(?P<body>.*?)^```$", re.M | re.S)
_VARIES = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{64}")
"""A release's number and a digest: another one each time."""

_LEARNT = re.compile(r"\bppdm (train-tree|predict)\b")
"""What shows learnt trees: their figures differ in late digits between machines and versions of numpy."""
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[+-]\d+)?")

_PLAIN = re.compile(
    r"""ppdm (?P<arguments>(?:[^'"|;&<>$`*\\]|'[^']*'|"[^"$`\\]*")+?)(?: (?P<stream>2?)> (?P<file>\S+))?"""
    r"""(?: (?P<both>2>&1 )?\| (?P<rest>(?!.*ppdm).*))?"""
)
"""A command that is run here: ppdm, whose streams may go to a file or through a pipe to tools of the shell."""
_SURROUNDINGS = {"LC_ALL": "C.UTF-8", "NO_COLOR": "1"}


def alike(new: str, old: str) -> bool:
    """Whether two texts are the same but for spaces and rules, and for numbers that differ by at most 1 %."""

    def words(text: str) -> list[str]:
        return re.sub("\u2500+", "\u2500", _NUMBER.sub("#", text.replace(",", ""))).split()

    def numbers(text: str) -> list[float]:
        return [float(n) for n in _NUMBER.findall(text.replace(",", ""))]

    return words(new) == words(old) and all(
        math.isclose(a, b, rel_tol=0.01) for a, b in zip(numbers(new), numbers(old), strict=True)
    )


def page_name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def rebuilt(text: str, folder: Path) -> str:
    """A page's text with the output that its commands have today."""
    (folder / "sample_data").symlink_to(ROOT / "sample_data")
    return _BLOCK.sub(lambda block: _rebuilt_block(block, folder), text)


def _rebuilt_block(block: re.Match[str], folder: Path) -> str:
    whole, body = block.group(), block["body"]
    if block["name"]:
        (folder / block["name"]).write_text(body, "utf-8")
        return whole
    if block["kind"] != "console":
        return whole
    new = _session(body, folder)
    learnt = any(_LEARNT.search(c) for c in commands(body))
    new_text, old_text = _VARIES.sub("?", new), _VARIES.sub("?", body)
    if new_text == old_text or (learnt and alike(new_text, old_text)):
        return whole
    return f"{whole.removesuffix(f'{body}```')}{new}```"


def _session(body: str, folder: Path) -> str:
    """The commands of a console block, each followed by what it prints."""
    shown, code = "", 0
    for command in commands(body):
        output, code = _run(command, folder, code)
        shown += f"$ {command}\n{output}"
    return shown


def commands(body: str) -> list[str]:
    """What follows `$ ` in a console block; a backslash at the end takes the next line too."""
    found: list[str] = []
    open_ended = False
    for line in body.splitlines():
        if open_ended:
            found[-1] += f"\n{line}"
        elif line.startswith("$ "):
            found.append(line[2:])
        else:
            continue
        open_ended = line.endswith("\\")
    return found


def _run(command: str, folder: Path, last_code: int) -> tuple[str, int]:
    """What a command prints on both streams, without spaces at the ends of lines, and its exit code."""
    plain = _PLAIN.fullmatch(command.replace("\\\n", ""))
    with ExitStack() as stack:
        printed, piped = (stack.enter_context(tempfile.TemporaryFile()) for _ in range(2))
        if plain is None:
            code = _in_shell(f"(exit {last_code}); {command}", folder, printed)
        else:
            streams = {"": piped if plain["rest"] else printed, "2": piped if plain["both"] else printed}
            if plain["file"]:
                streams[plain["stream"]] = stack.enter_context((folder / plain["file"]).open("wb"))
            with pytest.MonkeyPatch.context() as patch:
                for variable in [v for v in os.environ if "COLOR" in v or v == "COLUMNS"]:
                    patch.delenv(variable)
                for variable, value in _SURROUNDINGS.items():
                    patch.setenv(variable, value)
                code = here(folder, *shlex.split(plain["arguments"]), out=streams[""], err=streams["2"])
            if plain["rest"]:
                piped.seek(0)
                code = _in_shell(plain["rest"], folder, printed, piped)
        printed.seek(0)
        lines = printed.read().decode().splitlines()
    return "".join(f"{line.rstrip()}\n" for line in lines), code


def _in_shell(
    command: str, folder: Path, printed: IO[bytes], stdin: IO[bytes] | int = subprocess.DEVNULL
) -> int:
    variables = {k: v for k, v in os.environ.items() if "COLOR" not in k and k != "COLUMNS"} | _SURROUNDINGS
    variables["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), variables.get("PATH", os.defpath)])
    call = ["sh", "-c", command]
    done = subprocess.run(call, cwd=folder, env=variables, stdin=stdin, stdout=printed, stderr=printed)
    return done.returncode


def main() -> None:
    """Rewrite the pages; say which ones changed."""
    for page in PAGES:
        old = page.read_text("utf-8")
        with tempfile.TemporaryDirectory() as folder:
            new = rebuilt(old, Path(folder))
        if new != old:
            page.write_text(new, "utf-8")
            sys.stdout.write(f"rewritten: {page_name(page)}\n")


if __name__ == "__main__":
    main()
