"""Exact beliefs of readers of small releases, and the figures that texts and objects state as their limits.

The law of a release comes from its sidecar, for all records and all that may be published of them. A reader
knows the population, and guesses one attribute of a record, or all of it. Every figure that a text or an object
states is found by its form, so a new sentence is compared as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from itertools import product
from typing import Any

import numpy as np

from ppdm_cli.releases import opened
from ppdm_cli.sidecar import Sidecar

# -- what readers can believe


@dataclass(frozen=True, eq=False)
class Reader:
    """A reader of a release: the chance of each thing that may be seen, of each record or person."""

    sees: tuple[str, ...]
    """The attributes whose published values the reader looks at."""
    law: np.ndarray
    """By what is seen, and by state: the codes of a record, or of all records of a person."""
    facts: dict[str, np.ndarray]
    """By attribute the facts about it, as masks of states; of no attribute those about whole records."""

    def worst(self, prior: float, name: str | None = None) -> float:
        """Return the largest belief in a fact that was believed with `prior`, in the worst population.

        That population has two kinds of records: with the fact, and without.
        """
        facts = self.facts.values() if name is None else [self.facts[name]]
        worst = 0.0
        for fact in np.concatenate(list(facts)):
            true, false = self.law[:, fact].max(axis=1), self.law[:, ~fact].min(axis=1)
            possible = true > 0
            seen = prior * true[possible] / (prior * true[possible] + (1 - prior) * false[possible])
            worst = max(worst, float(seen.max()))
        return worst

    def believed(self, population: np.ndarray, fact: np.ndarray) -> float:
        """Return the largest belief of a reader who knows the shares of a population, or of each of several."""
        both = self.law @ population
        return float(((self.law[:, fact] @ population[fact])[both > 0] / both[both > 0]).max())


def readers(sidecar: Sidecar) -> dict[bool, list[Reader]]:
    """The readers of whole records, and (True) those of one attribute alone, whom it is to be said of."""
    names = [a.name for a in sidecar.perturbed]
    sizes = [sidecar.by_name[n].domain.size for n in names]
    states = np.array(list(product(*map(range, sizes))))
    total = sum(d.weight for d in opened(sidecar).recipes)

    def of(channel: Any) -> np.ndarray:
        places = [names.index(n) for n in channel.attributes]
        codes = np.ravel_multi_index(tuple(states[:, places].T), [sizes[p] for p in places])
        return np.asarray(channel.matrix.dense()[:, codes])

    rows = sidecar.privacy.rows or 1
    copies = sidecar.copy.of if sidecar.copy else 1
    whole = [reduce(_and, map(of, d.channels)) * (d.weight / total) for d in opened(sidecar).recipes]
    # what comes out of separate recipes is never the same, nor is it in separate copies
    laws = {False: [(tuple(names), np.concatenate(whole))], True: []}
    if not opened(sidecar).beside:
        laws[True] = [(c.attributes, of(c)) for c in opened(sidecar).channels]
    facts = {n: np.array([states[:, j] == v for v in range(sizes[j])]) for j, n in enumerate(names)}
    facts[""] = np.eye(len(states), dtype=bool)
    if rows > 1:  # a fact is about one of the rows, or about both
        every = np.ones(len(states), bool)
        facts = {n: np.array([np.kron(m, o) for m in masks for o in (every, m)]) for n, masks in facts.items()}
    found = {}
    for alone, each in laws.items():
        several = [(sees, reduce(_and, [law] * copies)) for sees, law in each]
        found[alone] = [Reader(sees, reduce(np.kron, [law] * rows), facts) for sees, law in several]
    return found


def _and(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The law of both of two answers, drawn separately."""
    return np.einsum("ax,bx->abx", one, other).reshape(-1, one.shape[1])


# -- what is said


@dataclass(frozen=True)
class Claim:
    """A figure that a text or an object gives as the most that may be believed."""

    share: Fraction
    words: str

    @property
    def alone(self) -> bool:
        return re.search(r"\b(attribute|value) alone\b|\balone becomes\b", self.words) is not None


_LIMIT = re.compile(r"\b(?:at most|up to|no more than|reach|rho2|bound) \(?([\d.]+)%", re.I)
_KEYS = re.compile(r"posterior|becomes|belief|rho2|^bound$")


def claims(text: str) -> list[Claim]:
    """Find each figure with the words around it: of its sentence or cell, up to the figures next to it."""
    text = re.sub(r"--record-epsilon \d+\s\(.*?\)", "", text, flags=re.DOTALL)  # proposed for another release
    found, text = [], _rows(text)
    for sentence in re.split(r"(?<=[.!?;])\s|\||\n\s*(?=[A-Z])", text):
        sentence = " ".join(sentence.split())
        hits = list(_LIMIT.finditer(sentence))
        for before, hit, after in zip([None, *hits], hits, [*hits[1:], None], strict=False):
            start, end = before.end() if before else 0, after.start() if after else len(sentence)
            following = re.split("[,(]| and ", sentence[hit.end() : end])[0]
            words = f"{sentence[start : hit.start()]} {following}"
            found.append(Claim(Fraction(hit[1]), words))
    return found


def _rows(text: str) -> str:
    """Write out each row of a table one of whose columns states a limit, as a sentence."""
    lines: list[str] = []
    at, last = "", 0
    for line in text.splitlines():
        drawn = line.startswith("|")
        cells = [c.strip() for c in line.split("|")[1:-1]] if drawn else re.split(r"\s{2,}", line)
        if re.search(r"\b(at most|becomes|rho2)$", line.replace("|", " ").strip()):
            at, last = ("|" if drawn else " "), len(cells) - 1
        elif at and (drawn if at == "|" else len(cells) > 2):
            if "before" not in cells[0] and re.fullmatch(r"[\d.]+%", cells[last]):
                lines.append(f"{cells[0]} at most {cells[last]}. ")
        else:
            at = ""
        lines.append(line)
    return "\n".join(lines)


def plain(page: str) -> str:
    """Return the text of a page of HTML, a label of its picture before its figure."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", re.sub(r"</(p|li|td|h\d)>", ". ", page)))


def objects(said: Any, path: str = "") -> Iterator[Claim]:
    """Find the figures of an object by their names, and those of the sentences in it."""
    if isinstance(said, Mapping):
        about = f"{path} {said.get('attribute', '')}"
        for key, value in said.items():
            if isinstance(value, float) and _KEYS.search(key) and key != "largest_posterior":
                yield Claim(Fraction(value) * 100, f"{about} {key}".replace("_", " "))
            else:
                yield from objects(value, f"{about} {key}")
    elif isinstance(said, list):
        for value in said:
            yield from objects(value, path)
    elif isinstance(said, str):
        yield from claims(said)


def check(found: list[Claim], sidecar: Sidecar, prior: float = 0.05) -> int:
    """Compare each claim with the exact posteriors of those whom it is for; return how many there were."""
    who, exact = readers(sidecar), dict[tuple[bool, str | None], float]()
    for claim in found:
        named = [a.name for a in sidecar.perturbed if re.search(rf"\b{a.name}\b", claim.words)]
        key = (claim.alone, named[0] if len(named) == 1 else None)
        if key not in exact:
            those = [r for r in who[claim.alone] if key[1] is None or key[1] in r.sees]
            exact[key] = max((r.worst(prior, key[1]) for r in those), default=1.0)
        assert float(claim.share) / 100 >= exact[key] - 1e-9, (claim, exact[key])
    return len(found)
