"""What a statement says: sections of sentences, lists, tables and one picture, whatever page they go to.

Every text in them is plain: pages escape all of it. The headings follow the layers of NIST SP 800-226, from
epsilon and the unit of privacy down to what the collected data are exposed to.
"""

from __future__ import annotations

from dataclasses import dataclass

from ppdm_cli.display import at_most, exactly


@dataclass(frozen=True)
class Table:
    """Rows of text; the first columns are words, the others figures."""

    columns: list[str]
    rows: list[list[str]]
    words: int = 1
    more: int = 0
    """How many further rows there are."""


@dataclass(frozen=True)
class Items:
    """Sentences in a list."""

    sentences: list[str]


@dataclass(frozen=True)
class Belief:
    """What a belief becomes: whose, and the share."""

    bars: list[tuple[str, float]]

    @property
    def table(self) -> Table:
        rows = [[name, at_most(share) if i else exactly(share)] for i, (name, share) in enumerate(self.bars)]
        return Table(["belief", "at most"], rows)


Part = str | Table | Items | Belief


@dataclass(frozen=True)
class Section:
    """A heading, and what stands below it."""

    title: str
    parts: list[Part]
