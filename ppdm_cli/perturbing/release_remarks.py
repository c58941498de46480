"""Remarks for the owner beside a release: what it cannot tell, what it hardly hides, how cells were read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ppdm_cli.errors import word
from ppdm_cli.perturbing.costs import UNCHANGED, WAY_OUT

if TYPE_CHECKING:
    from ppdm_cli.perturbing import Release


def remarks(release: Release) -> list[str]:
    """Return what the release cannot tell, gives away, or was read as."""
    found = []
    if release.unlearnable:
        found.append(
            f"Nothing can be learnt about {', '.join(release.unlearnable)}: the standard error of a value's "
            f"count exceeds the mean count. For each, {WAY_OUT}."
        )
    if release.in_ranges:
        found.append(
            f"Only ranges of {', '.join(release.in_ranges)} can be estimated: the standard error of a single "
            "value's count exceeds the mean count."
        )
    if release.unchanged:
        found.append(
            f"Warning: over {UNCHANGED:.0%} of the values of {', '.join(release.unchanged)} are published "
            "unchanged. Use a smaller budget, such as --record-epsilon 2."
        )
    if release.identifying:
        drops = " ".join(f"--drop {word(n)}" for n in release.identifying)
        found.append(
            "Warning: published unchanged, though likely to be an identifier: "
            f"{', '.join(release.identifying)}. Add {drops}."
        )
    if release.typed:
        kinds = " ".join(f"--type {word(n, f'={release.sidecar.by_name[n].dtype}')}" for n in release.typed)
        found.append(
            f"The domain of {', '.join(release.typed)} is declared without a type, so private cells decide the "
            f"type that is published. Add {kinds}."
        )
    if release.crowded:
        found.append(
            f"Warning: nearly all values of {', '.join(release.crowded)} are in one bin. Use `ppdm plan FILE "
            "-o plan.toml`, which proposes bins."
        )
    if release.padded:
        found.append(f"Read as text, because digits begin with zeros: {', '.join(release.padded)}.")
    return found
