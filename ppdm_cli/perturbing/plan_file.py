"""Plan files: TOML, read within bounds, and never quoted in a message."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from ppdm_cli.errors import UsageError, quoted
from ppdm_cli.files import content

LARGEST_PLAN = 16 << 20
"""Bytes of TOML that are read at most."""
_PART = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')"""
_LONG_KEY = re.compile(rf"(?<![\w-]){_PART}(?:[ \t]*+\.[ \t]*+{_PART}){{64}}")


def read_toml(path: Path, what: str = "the plan ") -> dict[str, Any]:
    """Return the settings in a plan, or in another small file of an owner (`what` it is, for messages)."""
    try:
        text = content(path, what, LARGEST_PLAN).decode("utf-8-sig")
        if _LONG_KEY.search(text):  # tomllib takes the square of its length
            raise UsageError(f"{what}{quoted(path)} has a key of too many parts", "mend that line")
        return tomllib.loads(text)
    except UnicodeError:
        raise UsageError(f"{what}{quoted(path)} is not in UTF-8", "convert it") from None
    except RecursionError:
        raise UsageError(f"{what}{quoted(path)} is nested too deep", "mend it") from None
    except tomllib.TOMLDecodeError as error:
        place = re.search(r"line \d+", str(error))  # the rest of the message may quote a category
        raise UsageError(
            f"{what}{quoted(path)} is not valid TOML ({place[0] if place else 'at its end'})",
            "mend that line",
        ) from None
