"""A release's sidecar, from its file or from inside the data; where there are both, they must agree."""

from __future__ import annotations

from pathlib import Path

from ppdm_cli import files
from ppdm_cli.errors import MismatchError, quoted
from ppdm_cli.sidecar import LARGEST, SUFFIX, Sidecar, decode


def read_sidecar(path: Path | None, carried: bytes | None, name: str) -> Sidecar:
    """Return the sidecar from its file or from the data's own metadata; where both exist they must agree."""
    beside: bytes | None = None
    if path is not None:
        files.reading(path)
    if path is not None and path.exists():
        with files.readable(path, "the sidecar "), path.open("rb") as file:
            beside = file.read(LARGEST + 1)
    if beside is None and carried is None:
        raise MismatchError(
            f"{quoted(name)} has no sidecar",
            f"name it with --sidecar, or put it beside as {quoted(Path(name).name + SUFFIX)}",
        )
    if beside is None:
        assert carried is not None
        return decode(carried, f"in {name}")
    sidecar = decode(beside, str(path))
    if carried is not None and carried != beside and decode(carried, f"in {name}") != sidecar:
        raise MismatchError(
            f"the sidecar {quoted(path)} differs from the one inside {quoted(name)}",
            "one of them belongs to another release: fetch both again",
        )
    return sidecar
