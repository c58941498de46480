"""Key files (--key-file): read, made, and given the design that they were first used with.

A run that may write one holds a lock until its release is published, so others that start with the same file
wait, and then use the key and the design that it left.
"""

from __future__ import annotations

import os
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

from ppdm_cli import files
from ppdm_cli.coins import Key, key_from_file
from ppdm_cli.errors import DataError, RefusedError, UsageError, quoted
from ppdm_cli.perturbing.resolving import ResolvedPlan
from ppdm_cli.tables import PendingFile


@dataclass
class KeyFile:
    """A run's key, the file that it is in, if any, and the design that the file names."""

    key: Key
    path: Path | None = None
    design: str = ""
    """The digest of the design that the key was used with; empty before one with several recipes."""
    _locked: ExitStack = field(default_factory=ExitStack)

    @classmethod
    def of(
        cls, stack: ExitStack, seed: int | None, path: str | Path | None, identifier: str | None
    ) -> KeyFile:
        """Return the key of a run, locked until the stack ends where it comes from a file."""
        if seed is not None and path is not None:
            raise UsageError("--seed and --key-file contradict each other", "a seed is for tests only")
        if (path is None) != (identifier is None):
            raise UsageError(
                "--key-file and --id go together: without identifiers the same person would be another row the "
                "next time",
                "such as --key-file release.key --id patient",
            )
        if path is None:
            return cls(Key.fresh() if seed is None else Key.from_seed(seed))
        path, lock = Path(path), stack.enter_context(ExitStack())
        _lock(lock, path.resolve().parent)
        if not path.exists():
            return cls(Key.fresh("key-file"), path, "", lock)
        files.reading(path)
        key, design = key_from_file(path)
        return cls(key, path, design, lock)

    def kept(self, stack: ExitStack, plan: ResolvedPlan) -> list[PendingFile]:
        """Return the file, where it is new or is to remember the design; it comes before the release.

        Another design would show other attributes of the same people, and cost them as much again.
        """
        if self.path is None:
            return []
        path, design = self.path, plan.digest if plan.several else ""
        if self.design and self.design != design:
            raise RefusedError(
                f"the key file {quoted(path)} was used with another design: another choice of recipes would "
                "show other attributes of the same people",
                "add --like with the earlier release, or use another key file, which spends epsilon again",
            )
        there = path.exists()
        if there and self.design == design:
            self._locked.close()
            return []
        if there:
            files.rewriting(path, str(path))
        try:
            target = stack.enter_context(PendingFile(path, there, mode=0o600))
        except (DataError, UsageError) as error:
            if not there or "also the input" in error.what:
                raise
            raise type(error)(
                f"the key file {quoted(path)} has to remember this design in a second line, but cannot be "
                "written",
                f"make its folder writable, or add the line yourself: {design}",
            ) from None
        target.put("".join(f"{line}\n" for line in (self.key.secret.hex(), design) if line).encode())
        return [target]


def _lock(stack: ExitStack, folder: Path) -> None:
    """Hold a folder against other runs with a key file in it, where the system can."""
    with suppress(ImportError, OSError):
        import fcntl

        descriptor = os.open(folder, os.O_RDONLY)
        stack.callback(os.close, descriptor)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
