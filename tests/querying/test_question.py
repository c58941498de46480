"""What a question is read as: every token of it counts, so that a truncated one is refused."""

from __future__ import annotations

from itertools import pairwise

import pytest
import sqlglot

from ppdm_cli import UsageError
from ppdm_cli.querying.question import read_question

WHOLE = (
    "select mean(age) as m, count() where age >= 40 group by smoker, ward",
    "select share(smoker = 'yes' and age < 40) as s, quantile(age, 0.5) from r as x group by age >= 40",
    "select mean(age) filter(where smoker = 'yes') - mean(age) filter(where smoker = 'no') as gap",
    "select corr(age, kids), independent(smoker, ward) where kids in (1, 2) or (kids = 3)",
    "select fits(smoker, 'yes', 0.5, 'no', 0.5), same(mean(age), smoker) where kids between 1 and 2",
    "select linear(age, kids, smoker = 'yes') where smoker is null group by ward",
    'select (sum(age) + 2 * sum(kids)) / count() as "a b" where "smoker" <> \'no\'',
)


def spelled(text: str) -> list[str]:
    return [t.text.lower() for t in sqlglot.tokenize(text)]


@pytest.mark.parametrize("text", WHOLE)
def test_no_token_of_a_question_is_passed_over(text: str) -> None:
    """A question without some of its tokens is refused, or is another question, made of all that is left."""
    tokens = sqlglot.tokenize(text)
    read_question(text)
    assert spelled(sqlglot.parse_one(text).sql(normalize_functions=False)) == spelled(text)
    ends = [text[: t.start] for t in tokens] + [text + f" {word}" for word in (",", "as", "group by", "limit")]
    holes = [text[: a.start] + " " + text[b.end + 1 :] for a, b in zip(tokens, tokens, strict=True)]
    holes += [text[: a.start] + " " + text[b.end + 1 :] for a, b in pairwise(tokens)]
    holes += [text[: t.end + 1] + "," + text[t.end + 1 :] for t in tokens]
    whole = 0
    for typed in ends + holes:
        try:
            read_question(typed)
        except UsageError:
            continue
        assert spelled(sqlglot.parse_one(typed).sql(normalize_functions=False)) == spelled(typed), typed
        whole += 1
    assert whole > 1, "some are questions still"


def test_comments_and_a_last_semicolon_say_nothing() -> None:
    same = read_question("select mean(age) /* in years */ group by kids;")
    assert same == read_question("select mean(age) group by kids")
    cast = "select count() as n where since < date '2024-01-01' and since > cast('2020-01-01' as date)"
    assert read_question(cast).titles == ()


@pytest.mark.parametrize("text", ["select count(*) where Alter > 6", "select Alter, count(*) group by Alter"])
def test_a_question_names_a_column_to_quote_when_sql_reserves_its_name(text: str) -> None:
    with pytest.raises(UsageError, match="If 'Alter' is a column, put its name in double quotes"):
        read_question(text)


def test_a_question_names_a_column_to_quote_when_its_name_has_a_space() -> None:
    with pytest.raises(UsageError, match="If 'Kunde seit' is a column, put its name in double quotes"):
        read_question("select mean(Kunde seit)")


@pytest.mark.parametrize("text", ["select mean(age where x", "select count(*) where sex = 'F' and"])
def test_a_question_shows_an_example_when_it_is_not_sql(text: str) -> None:
    with pytest.raises(UsageError, match="Try 'select mean"):
        read_question(text)
