"""Charts for `--plot` of estimate, attack and entropy, from the rows of their tables."""

from __future__ import annotations

from ppdm_cli.pictures.charts import draw_attacks, draw_distributions, draw_entropy, open_picture

__all__ = ["draw_attacks", "draw_distributions", "draw_entropy", "open_picture"]
