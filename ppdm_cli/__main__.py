"""The entry of the command line: `ppdm` and `python -m ppdm_cli`."""

from __future__ import annotations

from ppdm_cli.commands import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
