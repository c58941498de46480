"""What every hostile input costs: `python -m tests.costs`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests import hostile_tables
from tests.children import child
from tests.hostile import CASES

assert hostile_tables


def main() -> int:
    """Run every case and print what it cost."""
    bad = 0
    for name, make in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            done = child(*make(Path(folder)), cwd=Path(folder))
        failed = not done.clean or done.mib > 1024
        bad += failed
        print(
            f"{name:52} code {done.code} {done.seconds:5.1f} s {done.mib:5.0f} MiB {'FAILED' if failed else ''}"
        )
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
