"""The entry of the command line, as a process of its own: `ppdm` and `python -m ppdm_cli`."""

from __future__ import annotations

import gc
import signal
import sys

from ppdm_cli import commands
from ppdm_cli.errors import Exit

__all__ = ["main"]


class _WithoutPandas:
    """A finder that hides pandas, which pyarrow imports only for a type check: this saves .15 s of each run."""

    def find_spec(self, name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("No module named 'pandas'", name=name)


def main() -> None:
    """Run the command line; Spark alone needs pandas."""
    if not any("spark" in argument for argument in sys.argv):
        sys.meta_path.insert(0, _WithoutPandas())
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(Exit.TERMINATED))  # so that outputs are tidied up
    gc.set_threshold(100_000)  # modules are not garbage: looking for it took a tenth of a short run
    try:
        commands.run_command_line()
    finally:
        gc.freeze()  # else Python, as it exits, looks through all that it has: a fifth of a short run


if __name__ == "__main__":
    main()
