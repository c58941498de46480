"""Check what `ppdm inspect RELEASE --prove -o proof.json` wrote, with nothing but Python's own library."""

import json
import sys
from fractions import Fraction
from math import inf, lcm, log, prod


def check(holds: bool, wrong: str) -> None:
    if not holds:  # no assert, which python -O leaves out
        sys.exit(f"The proof fails: {wrong}.")


proof, ratios = json.load(open(sys.argv[1], encoding="utf-8")), []
for law in proof["laws"]:
    whole, rows = lcm(*law["range"]), [[count for count, _ in law.get("each", [])]]
    if "each" in law:  # so many outputs of any value have so many numbers
        check(sum(count * outputs for count, outputs in law["each"]) == whole, "numbers are missing")
        check(min(outputs for _, outputs in law["each"]) > 0, "a count belongs to no output")
    else:  # a column for each value: how many of its numbers publish each code
        check([sum(column) for column in law["columns"]] == law["range"], "a column doesn't add up")
        scales = [whole // numbers for numbers in law["range"]]
        rows = [[n * s for n, s in zip(row, scales)] for row in zip(*law["columns"], strict=True)]
    check(min(map(min, rows)) >= 0, "a count is below 0")
    ratios.append(max(Fraction(max(row), min(row)) if min(row) else inf for row in rows if any(row)))
worst = max((prod(ratios[n] for n in recipe["laws"]) for recipe in proof["recipes"]), default=1)
epsilon = inf if worst == inf else proof["answers"] * (log(worst.numerator) - log(worst.denominator))
promised = proof["promised"]["epsilon"]
check(proof["answers"] >= 1, "it counts no answers")
used = {n for recipe in proof["recipes"] for n in recipe["laws"]}
check(used == {*range(len(ratios))}, "some matrix belongs to none of the recipes")
ends = inf if promised is None else float(promised) * (1 + 1e-9)  # both are rounded in the 16th digit
check(epsilon <= ends, f"the release promises epsilon {promised}, and the matrices give {epsilon}")
print(f"{len(ratios)} matrices add up. A record's epsilon is at most {epsilon:.6g}; promised: {promised}.")
