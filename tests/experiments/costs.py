"""What every hostile input costs, or those whose names have these words: `python -m tests.experiments.costs [WORD ...]`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.children import child
from tests.experiments import hostile_recipes, hostile_tables
from tests.experiments.hostile import CASES

assert hostile_recipes and hostile_tables


def main() -> int:
    """Run every case and print what it cost."""
    bad = 0
    for name, make in CASES.items():
        if not all(word in name for word in sys.argv[1:]):
            continue
        with tempfile.TemporaryDirectory() as folder:
            done = child(*make(Path(folder)), cwd=Path(folder), seconds=600)
        failed = not (done.clean and done.cheap)
        bad += failed
        print(
            f"{name:60} code {done.code} {done.seconds:5.1f} s ({done.busy:5.1f} s busy) {done.mib:5.0f} MiB "
            f"{'FAILED' if failed else ''}",
            flush=True,
        )
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
