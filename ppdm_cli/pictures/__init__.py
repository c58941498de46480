"""Charts for `--plot` of estimate, attack and entropy, and the page of `plan --explore`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ppdm_cli.pictures.charts import distributions, draw_attacks, draw_entropy, open_picture

if TYPE_CHECKING:
    from ppdm_cli.planning import Proposal

__all__ = ["distributions", "draw_attacks", "draw_entropy", "explorer_page", "open_picture"]


def explorer_page(done: Proposal) -> bytes:
    """Return the page of a proposal; charts don't load what only this page needs."""
    from ppdm_cli.pictures import explorer

    return explorer.page_of(done)
