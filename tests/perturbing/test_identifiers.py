"""Columns that identify persons: named, refused however rare values are treated, and never hinted at."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from ppdm_cli import perturb
from ppdm_cli.domain import OTHER
from ppdm_cli.errors import RefusedError


def admissions(rows: int = 400, **more: Any) -> pl.DataFrame:
    rng = np.random.default_rng(3)
    columns = {"sex": rng.choice(["f", "m"], rows), "age": rng.integers(0, 90, rows)}
    return pl.DataFrame(columns | {n: rng.permutation(np.array(v, object)).tolist() for n, v in more.items()})


IDENTIFIERS = {
    "unique": [f"P-{i:05}" for i in range(400)],
    "of two rows each": [f"P-{i // 2:05}" for i in range(400)],
    "mostly unique": [f"P-{i}" for i in range(250)] + ["none"] * 150,
}


@pytest.mark.parametrize("cells", [*IDENTIFIERS.values()], ids=[*IDENTIFIERS])
@pytest.mark.parametrize("rare", ["refuse", "publish", "merge"])
@pytest.mark.parametrize("own", [{}, {"domain": "data"}, {"domain": "data", "other": True}], ids=str)
def test_an_identifier_is_refused_by_name_whatever_is_asked_of_rare_values(
    cells: list[str], rare: str, own: dict[str, Any]
) -> None:
    asked: dict[str, Any] = {"gamma": 9, "rare": rare, "attributes": {"patient": own} if own else {}}
    frame, pools = admissions(patient=cells), rare == "merge" or bool(own.get("other"))
    if pools and "none" in cells:
        assert perturb(frame, **asked).sidecar.by_name["patient"].categories == [OTHER, "none"]
        return
    with pytest.raises(RefusedError) as error:
        perturb(frame, shuffle=True, **asked)
    said = str(error.value)
    assert f"'patient' looks like an identifier ({len({*cells})} values in 400 records)" in said
    assert "drop=['patient']" in said and "P-" not in said
    for danger in ("rare=", "domain", "attributes", "keep", "shuffle"):
        assert danger not in said
    listed = {"patient": {"categories": sorted({*cells})}}
    assert perturb(frame, gamma=9, attributes=listed).sidecar.by_name["patient"].domain_from == "declared"


def test_all_identifiers_are_named_at_once_and_rare_categories_beside_them() -> None:
    unique = [f"x{i}" for i in range(400)]
    frame = admissions(patient=unique, mrn=unique[::-1], town=["A"] * 395 + ["B"] * 5)
    with pytest.raises(RefusedError) as error:
        perturb(frame, gamma=9)
    said = str(error.value)
    assert "leave them out: drop=['patient', 'mrn']" in said and "'town' (1 of 2)" in said
    assert "rare='merge'" in said and "publish'" not in said
    one = perturb(frame.drop("patient", "mrn"), gamma=9, rare="publish")
    assert one.sidecar.by_name["town"].categories == ["A", "B"], "what few have is no identifier"


@pytest.mark.parametrize("rows", [11, 30])
def test_an_identifier_of_few_records_is_one(rows: int) -> None:
    with pytest.raises(RefusedError, match=rf"identifier \({rows} values in {rows} records\)"):
        perturb(admissions(rows, patient=[f"p{i}" for i in range(rows)]), gamma=9, rare="publish")


def test_numbers_that_identify_are_binned_and_labels_of_them_refused() -> None:
    frame = admissions(patient=list(range(1000, 1400))).cast({"patient": pl.Int64})
    assert perturb(frame, gamma=9).sidecar.by_name["patient"].type == "continuous"
    for asked in ({"class_": "patient"}, {"bins": 400}):
        with pytest.raises(RefusedError, match="'patient' looks like an identifier"):
            perturb(frame, gamma=9, rare="publish", **asked)


def test_a_persons_other_number_is_an_identifier_though_it_repeats() -> None:
    who = [f"p{i // 8}" for i in range(400)]
    frame = admissions().with_columns(who=pl.Series(who), mrn=pl.Series([w.replace("p", "m") for w in who]))
    asked: dict[str, Any] = {"gamma": 9, "rare": "publish", "person": "who", "rows_per_person": 8}
    with pytest.raises(RefusedError, match="'mrn' looks like an identifier"):
        perturb(frame, keep_order=True, **asked)


@pytest.mark.parametrize(
    "text", ["{0},{1}", "1.{0},{1}", "{0}.{1}", "{2:02}.03.20{1:02}", "{2}/{1}/24", "19{1:02}-0{3}-{2:02}"]
)
@pytest.mark.parametrize("rare", ["refuse", "publish"])
def test_text_that_says_numbers_or_dates_is_for_a_plan(text: str, rare: str) -> None:
    cells = [text.format(100 + i % 97, i % 89 + 10, i % 28 + 1, i % 9 + 1) for i in range(400)]
    cells[0] = "unknown"
    with pytest.raises(RefusedError, match="'cost' looks like decimal numbers or dates") as error:
        perturb(admissions(cost=cells), gamma=9, rare=rare)
    assert "ppdm plan FILE -o plan.toml" in str(error.value)
    for danger in ("drop", "rare=", "domain"):
        assert danger not in str(error.value)


@pytest.mark.parametrize("cell", ["00{}", "A{}", "{}-x", "{}.ab"])
def test_codes_are_not_taken_for_numbers(cell: str) -> None:
    with pytest.raises(RefusedError, match="looks like an identifier"):
        perturb(admissions(code=[cell.format(i) for i in range(400)]), gamma=9)
