"""Charts for `--plot` of estimate, attack and entropy, from the rows of their tables."""

from __future__ import annotations

from ppdm_cli.pictures.charts import attacks, designs, distributions, entropy
from ppdm_cli.pictures.drawing import open_picture

__all__ = ["attacks", "designs", "distributions", "entropy", "open_picture"]
