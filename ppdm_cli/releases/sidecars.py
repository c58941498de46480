"""A release's sidecar, from its file or from inside the data; where there are both, they must agree."""

from __future__ import annotations

from pathlib import Path

import msgspec

from ppdm_cli import files
from ppdm_cli.errors import MismatchError, quoted
from ppdm_cli.sidecar import LARGEST, SUFFIX, Sidecar, decode


def read_sidecar(path: Path | None, carried: bytes | None, name: str, step: str = "") -> Sidecar:
    """Return the sidecar from its file or from the data's own metadata; where both exist they must agree.

    `step` is what to do where there is none, unless an option may name it.
    """
    beside: bytes | None = None
    if path is not None:
        files.reading(path)
    if path is not None and path.exists():
        with files.readable(path, "the sidecar "), path.open("rb") as file:
            beside = file.read(LARGEST + 1)
    if beside is None and carried is None:
        raise MismatchError(
            f"{quoted(name)} has no sidecar, so it is not a release",
            step or f"perturb it first, or add --sidecar FILE or the file {quoted(Path(name).name + SUFFIX)}",
        )
    if beside is None:
        assert carried is not None
        return decode(carried, f"in {name}")
    sidecar = decode(beside, str(path))
    if carried is not None and carried != beside:
        check_same(sidecar, decode(carried, f"in {name}"), str(path), name)
    return sidecar


def check_same(beside: Sidecar, inside: Sidecar, path: str, name: str) -> None:
    """Check that a sidecar is the one inside the data; the parts in a folder do not know how many all have."""
    if inside.records is None:
        inside = msgspec.structs.replace(inside, records=beside.records)
    if beside != inside:
        raise MismatchError(
            f"the sidecar {quoted(path)} differs from the one inside {quoted(name)}",
            "one of them belongs to another release: fetch both again",
        )


def cut(folder: object) -> MismatchError:
    """Return the error for a folder of parts of a release that none says are all."""
    return MismatchError(
        f"the folder {quoted(folder)} has parts of a release and no sidecar of its own: whoever wrote it did "
        "not finish, or it was copied in part",
        "make or copy it again",
    )
