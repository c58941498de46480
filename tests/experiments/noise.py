"""Islam and Brankovic's experiments: noise that keeps a tree, on Boston (300 records) and breast cancer (350).

The paper's trees are C5's, of records that it does not name; ours are C4.5's, of records drawn with a seed.
Draw 1 is looked at as the paper looks at its own, and nine more say what of it is luck. How many classes change
is held against its exact distribution, and against that of a tree with one more record of a minority, which
must not fit. "Very similar" means: the same root, and at least three quarters of the original tree's records
under rules that are kept. FULL=1 counts the changes of 1,000 releases each, where it otherwise takes 300.
Tables go to build/papers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, reduce
from itertools import product
from typing import Any

import numpy as np
import polars as pl
from scipy import stats

from ppdm_cli import compare, perturb, train_tree
from ppdm_cli.arrays import Floats
from ppdm_cli.coins import Key
from ppdm_cli.perturbing.noise_laws import ClassNoise
from ppdm_cli.trees import Fitted
from tests.experiments.common import DATA, FULL, Results, saved

RECORDS = {"boston": 300, "breast cancer": 350}
CLASS = ("class-random", "class-probabilistic", "class-all-leaves")
NOISES: dict[str, dict[str, str]] = {
    **{scheme: {"scheme": scheme} for scheme in CLASS},
    "tia, heterogeneous leaves": {"scheme": "innocent", "innocent": "tia", "leaves": "heterogeneous"},
    "tia, all leaves": {"scheme": "innocent", "innocent": "tia"},
    "lia": {"scheme": "innocent", "innocent": "lia"},
}
PAPER = {
    ("boston", "class-random"): 5, ("boston", "class-probabilistic"): 10, ("boston", "class-all-leaves"): 10,
    ("breast cancer", "class-random"): 5, ("breast cancer", "tia, heterogeneous leaves"): 10,
    ("breast cancer", "tia, all leaves"): 10, ("breast cancer", "lia"): 10,
}  # fmt: skip
"""How often the paper ran what it tells of; of its 20 runs of TIA it does not say how they were divided."""
PRINTED = [(240, 8), (2, 1), (10, 0), (5, 0), (26, 0), (2, 0), (6, 0)]
"""The leaves of the paper's Figure 2."""
SAMPLED = range(10_000, 18_000)
DRAWS, RUNS = range(1, 11), 10
CHANGED_RUNS = 1000 if FULL else 300
SIMILAR = 0.75


@cache
def original(name: str, draw: int) -> pl.DataFrame:
    file = "boston_class.csv" if name == "boston" else "breast_cancer.csv"
    whole = pl.read_csv(DATA / file).drop("id", strict=False)
    return whole.sample(RECORDS[name], shuffle=True, seed=draw)


@cache
def tree_of(name: str, draw: int) -> Fitted:
    fitted = train_tree(original(name, draw), original(name, draw).columns[-1])
    assert isinstance(fitted, Fitted)
    return fitted


def released(name: str, draw: int, noise: str, seed: int) -> Any:
    settings: dict[str, Any] = {"tree": tree_of(name, draw), "keep_order": True, **NOISES[noise]}
    return perturb(original(name, draw), seed=seed, **settings)


# -- how many classes change


def chances(scheme: str, leaves: list[tuple[int, int]]) -> Floats:
    """The exact distribution of the number of changed classes; leaves are (majority, minority)."""
    laws = []
    if scheme == "class-all-leaves":
        n = sum(m + k for m, k in leaves)
        laws = [stats.binom.pmf(np.arange(n + 1), n, sum(2 * m * k / (m + k) for m, k in leaves) / n)]
    for m, k in [] if laws else leaves:
        if scheme == "class-random":  # so many of the minority were of it before; each other one changes two
            law = np.zeros(2 * k + 1)
            law[::2] = stats.hypergeom.pmf(k - np.arange(k + 1), m + k, k, k)
            laws.append(law)
        else:
            laws += [stats.binom.pmf(np.arange(a + 1), a, b / (m + k)) for a, b in ((m, k), (k, m))]
    return reduce(np.convolve, laws)


def fit(seen: np.ndarray, law: Floats) -> float:
    """The p-value of chi-square; neighbouring numbers are taken together up to 5 expected runs."""
    wanted, found, cells = law * len(seen), np.bincount(seen, minlength=len(law)), []
    for w, f in zip(wanted, found, strict=True):
        if cells and cells[-1][0] < 5:
            cells[-1] = (cells[-1][0] + w, cells[-1][1] + f)
        else:
            cells.append((w, f))
    if cells[-1][0] < 5:
        last = cells.pop()
        cells[-1] = (cells[-1][0] + last[0], cells[-1][1] + last[1])
    expected, observed = np.array(cells).T
    return float(stats.chisquare(observed, expected * observed.sum() / expected.sum()).pvalue)


def leaves_of(run: Any) -> list[tuple[int, int]]:
    leaves = run.noise.figures()["leaves"]
    return [(leaf["records"] - leaf["others"], leaf["others"]) for leaf in leaves if leaf["records"]]


def moments(law: Floats) -> tuple[float, float]:
    """The mean and the standard deviation of a distribution of whole numbers."""
    mean = float(law @ np.arange(len(law)))
    return mean, float(np.sqrt(law @ (np.arange(len(law)) - mean) ** 2))


def changes() -> pl.DataFrame:
    rows = []
    for name, scheme in product(RECORDS, CLASS):
        runs = [released(name, 1, scheme, seed) for seed in range(CHANGED_RUNS)]
        seen = np.array([r.noise.figures()["actual_changes"] for r in runs])
        leaves, class_ = leaves_of(runs[0]), original(name, 1).columns[-1]
        largest = leaves.index(max(leaves, key=lambda leaf: leaf[0] * bool(leaf[1])))
        other = [(m - (i == largest), k + (i == largest)) for i, (m, k) in enumerate(leaves)]
        law = chances(scheme, leaves)
        mean, sd = moments(law)
        totals = original(name, 1)[class_].value_counts(sort=True)
        rows.append({
            "data": name, "scheme": scheme, "runs": len(seen), "expected": mean, "mean": seen.mean(),
            "errors off": (seen.mean() - mean) / (sd / np.sqrt(len(seen))),
            "sd expected": sd, "sd": seen.std(ddof=1), "chi-square p": fit(seen, law),
            "p, one more": fit(seen, chances(scheme, other)),
            "totals kept": sum(r.frame[class_].value_counts(sort=True).equals(totals) for r in runs),
        })  # fmt: skip
    return pl.DataFrame(rows)


def sampled() -> pl.DataFrame:
    """The same from the sampler alone, which is fast enough for many more draws; and the paper's own tree."""
    rows = []
    trees = {n: leaves_of(released(n, 1, CLASS[0], 0)) for n in RECORDS} | {"the paper's": PRINTED}
    for (name, leaves), scheme in product(trees.items(), CLASS):
        counts, key = np.array(leaves), Key.from_seed
        leaf, true = (np.repeat(n, counts.ravel()) for n in np.indices(counts.shape).reshape(2, -1))
        row, law = np.arange(len(leaf), dtype=np.uint64), chances(scheme, leaves)
        noises = (ClassNoise.of(scheme, counts[None], key(seed), "class") for seed in SAMPLED)
        seen = np.array([int((noise(leaf, true, row, 0) != true).sum()) for noise in noises])
        mean, sd = moments(law)
        rows.append({
            "tree": name, "scheme": scheme, "expected": mean, "mean": seen.mean(), "sd expected": sd,
            "sd": seen.std(ddof=1), "chi-square p": fit(seen, law),
        })  # fmt: skip
    return pl.DataFrame(rows)


# -- what is left of the tree

KEY = ("data", "draw", "noise", "run")
VALUES = ("same_root", "survive", "lost", "new", "rules", "rules_kept", "cases", "agreement")


def one(name: str, draw: int, noise: str, run: int) -> tuple[Any, ...]:
    """A release, its tree, and what of the original's it keeps; agreement is on the original records."""
    seed = 1000 * draw + 100 * list(NOISES).index(noise) + run  # no two noises with the same coins
    release = released(name, draw, noise, seed)
    taught = train_tree(release.frame, sidecar=release.sidecar)
    found = compare(taught, tree_of(name, draw), original(name, draw)).figures()
    names, rules = found["attributes"], found["rules"]
    lists = (" ".join(names[k]) for k in ("shared", "only_other", "only_here"))
    cases = found["cases_under_kept_rules"]
    return (int(found["same_root"]), *lists, rules["other"], rules["kept"], cases, found["agreement"])


def of_paper() -> pl.Expr:
    """The runs that stand for the paper's: as many, on draw 1."""
    number = pl.concat_list("data", "noise").map_elements(
        lambda key: PAPER.get((key[0], key[1]), 0), return_dtype=pl.Int64
    )
    return (pl.col("draw") == 1) & (pl.col("run") < number)


def similar() -> pl.Expr:
    return (pl.col("same_root") == 1) & (pl.col("cases") >= SIMILAR)


def survival(found: pl.DataFrame) -> pl.DataFrame:
    """In how many runs each attribute of the original tree is tested, Boston, draw 1."""
    runs = found.filter(of_paper() & (pl.col("data") == "boston"))
    tree = tree_of("boston", 1).tree
    tested = list(dict.fromkeys(tree.features[f].name for f in tree.feature.tolist() if f >= 0))
    survives = [pl.col("survive").str.split(" ").list.contains(n).sum().alias(n) for n in tested]
    return runs.group_by("noise", maintain_order=True).agg(pl.len().alias("runs"), *survives)


def summary(found: pl.DataFrame) -> pl.DataFrame:
    agree, share = pl.col("agreement"), pl.col("survive").fill_null("").str.split(" ").list.len()
    share = share / (share + pl.col("lost").fill_null("").str.extract_all(r"\S+").list.len())
    return found.group_by("data", "noise", maintain_order=True).agg(
        pl.len().alias("runs"), pl.col("same_root").sum().alias("root kept"), similar().sum().alias("similar"),
        ((pl.col("same_root") == 1) & (agree >= 0.95)).sum().alias("root, 95 % agree"),
        share.mean().alias("attributes"), (pl.col("rules_kept") / pl.col("rules")).mean().alias("rules"),
        pl.col("cases").mean(), agree.mean(), agree.std().alias("sd"),
    )  # fmt: skip


def differences(found: pl.DataFrame) -> pl.DataFrame:
    """By how many standard errors all-leaves agrees less: in the paper's runs, and paired over all draws."""
    rows = []
    for name, other in product(RECORDS, CLASS[:2]):
        data = found.filter(pl.col("data") == name)
        first = data.filter((pl.col("draw") == 1) & (pl.col("run") < PAPER.get(("boston", other), RUNS)))
        last = data.filter((pl.col("draw") == 1) & (pl.col("noise") == CLASS[2]))["agreement"].to_numpy()
        ours = first.filter(pl.col("noise") == other)["agreement"].to_numpy()
        apart = ours.mean() - last.mean()
        error = np.sqrt(ours.var(ddof=1) / len(ours) + last.var(ddof=1) / len(last))
        means = data.pivot("noise", index="draw", values="agreement", aggregate_function="mean")
        paired = (means[other] - means[CLASS[2]]).to_numpy()
        error_paired = paired.std(ddof=1) / np.sqrt(len(paired))
        rows.append({
            "data": name, "scheme": other, "draw 1": apart, "in errors": apart / error,
            "all draws": paired.mean(), "in errors, paired": paired.mean() / error_paired,
        })  # fmt: skip
    return pl.DataFrame(rows)


def main() -> None:
    found = Results("noise_runs", KEY, VALUES).measured(product(RECORDS, DRAWS, NOISES, range(RUNS)), one)
    made: dict[str, Callable[[], pl.DataFrame]] = {
        "survival": lambda: survival(found), "paper": lambda: summary(found.filter(of_paper())),
        "draws": lambda: summary(found), "differences": lambda: differences(found), "changes": changes,
        "sampled": sampled,
    }  # fmt: skip
    for name, make in made.items():
        saved(f"noise_{name}", make())


if __name__ == "__main__":
    main()
