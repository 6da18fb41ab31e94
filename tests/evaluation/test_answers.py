from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared_core.errors import InputError
from shared_core.evaluation import (
    alce_string_match,
    contains_answer,
    exact_match,
    f1,
    normalize_answer,
    rouge_lsum,
    str_em,
)

PARITY = Path(__file__).parents[1] / "parity"
QA = json.loads((PARITY / "qa_metrics.json").read_text())["cases"]
ALCE = json.loads((PARITY / "alce_metrics.json").read_text())["cases"]
ROUGE = json.loads((PARITY / "rouge.json").read_text())["cases"]


def named(cases: list[dict[str, Any]], start: str) -> list[Any]:
    found = [pytest.param(c, id=c["name"]) for c in cases if c["name"].startswith(start)]
    assert found
    return found


def by_function(name: str) -> list[Any]:
    return [pytest.param(c, id=c["name"]) for c in ALCE if c["input"]["function"] == name]


@pytest.mark.parametrize("case", named(QA, "pair_"))
def test_parity_pairs(case: dict[str, Any]) -> None:
    prediction, gold, expected = case["input"]["prediction"], case["input"]["gold"], case["expected"]
    assert normalize_answer(prediction) == expected["norm_prediction"]
    assert normalize_answer(gold) == expected["norm_gold"]
    assert exact_match(prediction, [gold]) == exact_match(prediction, gold) == expected["squad_exact"]
    assert f1(prediction, [gold]) == pytest.approx(expected["squad_f1"], abs=1e-6)
    assert (normalize_answer(prediction) == normalize_answer(gold)) == expected["hotpot_em"]


@pytest.mark.parametrize("case", named(QA, "dataset_"))
def test_parity_squad2(case: dict[str, Any]) -> None:
    rows, expected = case["input"]["qas"], case["expected"]
    em = {q["id"]: exact_match(q["prediction"], q["golds"]) for q in rows}
    overlap = {q["id"]: f1(q["prediction"], q["golds"]) for q in rows}
    assert em == pytest.approx(expected["exact_raw"], abs=1e-6)
    assert overlap == pytest.approx(expected["f1_raw"], abs=1e-6)
    has = [expected["has_ans"][q["id"]] for q in rows]
    no_answer = [q["na_prob"] for q in rows]
    for scores, name in ((em, "exact"), (overlap, "f1")):
        applied = [
            float(not h) if p > case["input"]["na_prob_thresh"] else scores[q["id"]]
            for q, h, p in zip(rows, has, no_answer)
        ]
        assert 100 * sum(applied) / len(rows) == pytest.approx(expected["eval_at_threshold"][name], abs=1e-6)


@pytest.mark.parametrize("case", by_function("normalize_answer"))
def test_parity_normalize(case: dict[str, Any]) -> None:
    assert normalize_answer(case["input"]["text"]) == case["expected"]["value"]


@pytest.mark.parametrize("case", by_function("compute_f1+compute_exact"))
def test_parity_alce_f1(case: dict[str, Any]) -> None:
    prediction, gold = case["input"]["a_pred"], case["input"]["a_gold"]
    assert f1(prediction, gold) == pytest.approx(case["expected"]["f1"], abs=1e-6)
    assert exact_match(prediction, gold) == case["expected"]["exact"]


@pytest.mark.parametrize("case", by_function("compute_str_em+compute_len"))
def test_parity_str_em(case: dict[str, Any]) -> None:
    found = alce_string_match(case["input"]["data"])
    assert 100 * found.str_em == pytest.approx(case["expected"]["str_em"], abs=1e-6)
    assert 100 * found.str_hit == pytest.approx(case["expected"]["str_hit"], abs=1e-6)


def test_str_em_takes_one_or_many_sub_questions() -> None:
    assert str_em("It rose in Orm.", "orm") == 1.0
    assert str_em("It rose in Orm.", ["Thale", "orm"]) == 1.0
    assert str_em("It rose in Orm.", [["Thale"], ["orm", "Orme"]]) == 0.5
    assert str_em("It rose in Orm.", []) == 0.0


def test_an_abstention_is_right_exactly_where_there_is_no_answer() -> None:
    for nothing in ("", None, "The."):
        assert exact_match(nothing, []) == f1(nothing, []) == 1.0
        assert exact_match(nothing, ["Orm"]) == f1(nothing, ["Orm"]) == 0.0
    assert exact_match("Orm", []) == f1("Orm", []) == 0.0
    assert exact_match("Orm", ["the", "Orm"]) == 1.0


@pytest.mark.parametrize("value", [3, ["x"], b"x"])
def test_what_is_no_text_is_refused(value: Any) -> None:
    with pytest.raises(InputError):
        exact_match(value, ["x"])
    with pytest.raises(InputError):
        f1("x", [value])


def test_contained_answers_are_whole_words() -> None:
    assert contains_answer("The bridge, built in 1841.", ["in 1841"])
    assert not contains_answer("The cart", ["art"])
    assert not contains_answer("anything", ["", "the"])
    assert not contains_answer(None, ["x"])


@pytest.mark.parametrize("text", ["Mozilla's browser", "It is Mozilla’s.", "MOZILLA'S", "Mozilla"])
def test_a_possessive_is_the_name(text: str) -> None:
    assert contains_answer(text, ["Mozilla"])
    assert contains_answer("at McDonald's", ["McDonald's"])
    assert not contains_answer("in the 1980's", ["1980"])
    assert not contains_answer("Mozillas", ["Mozilla"])


@pytest.mark.parametrize(
    ("text", "gold"),
    [
        ("The “Gull” sailed.", "Gull"),
        ("Founded by O’Brien in 1911.", "O'Brien"),
        ("It lasted 1914–1918.", "1914-1918"),
        ("Peace—in 1918—came late.", "in 1918"),
        ("Le cafe\u0301 de Paris", "café"),
        ("C’est l’école de Paris.", "école de Paris"),
        ("Fu il duca dell'Aquila.", "Aquila"),
        ("¿Dónde? ¡Madrid!", "Madrid"),
        ("«Париж» — столица.", "Париж"),
        ("Große Straße 5", "GROSSE STRASSE"),
        ("首都是北京。", "北京"),
        ("กรุงเทพเป็นเมืองหลวง", "กรุงเทพ"),
        ("수도는 서울이다.", "서울"),
    ],
)
def test_answers_are_found_in_other_languages_and_typography(text: str, gold: str) -> None:
    assert contains_answer(text, [gold])


@pytest.mark.parametrize(
    ("text", "gold"), [("$3.5 million", "5 million"), ("don’t", "t"), ("首都是北京。", "京北"), ("“Gulls”", "Gull")]
)
def test_no_part_of_a_word_or_number_is_an_answer(text: str, gold: str) -> None:
    assert not contains_answer(text, [gold])


@pytest.mark.parametrize(("text", "gold", "right"), [
    ("#", "#", True), ("The sign is #.", "#", True), ('It is the sign "#".', "#", True), ("(#)", "#", True),
    ("C#", "#", False), ("##", "#", False), ("%", "#", False), ("The sign is %.", "#", False), ("", "#", False),
    ("It ends there.", ".", False), ("A full stop: .", ".", True), ("A", "A", True), ("The group is A.", "A", True),
    ("Answer: A", "A", True), ("A lamp was lit. A man came.", "A", False), ("It had a lamp.", "A", False),
    ("It is the lamp.", "the", False), ("It is the lamp.", " ", False), ("+ +", "+  +", True),
])  # fmt: skip
def test_what_the_normal_form_leaves_nothing_of_is_looked_for_as_it_is(text: str, gold: str, right: bool) -> None:
    assert contains_answer(text, [gold]) is right
    assert contains_answer(text, [gold, "zebra"]) is right


TEXT = st.text(alphabet="ab the.C", max_size=12)


@given(TEXT, st.lists(TEXT, max_size=3))
@settings(deadline=None)
def test_f1_lies_between_exact_match_and_one(prediction: str, golds: list[str]) -> None:
    assert 0 <= exact_match(prediction, golds) <= f1(prediction, golds) <= 1
    assert f1(prediction, [prediction]) == 1


# --- ROUGE ---------------------------------------------------------------------------------------------------------


def by_stops(text: str) -> list[tuple[int, int]]:
    """The sentences of ROUGE's parity file."""
    return [m.span() for m in re.finditer(r"\S.*?(?:[.!?](?=\s|$)|$)", text, re.DOTALL)]


def references(item: dict[str, Any]) -> list[str]:
    if "annotations" in item:
        return [a["long_answer"] for a in item["annotations"]]
    return [item["answer"]]


@pytest.mark.parametrize("case", ROUGE, ids=lambda c: c["name"])
def test_parity_rouge(case: dict[str, Any]) -> None:
    given, expected = case["input"], case["expected"]
    if "data" in given:
        scores = [rouge_lsum(i["output"], references(i), splitter=by_stops) for i in given["data"]]
        assert scores == pytest.approx(expected["per_item_max_f"], abs=1e-6)
        # ALCE prints the median of bootstrap samples; ours is averaged plainly.
        mean = 100 * sum(scores) / len(scores)
        assert mean == pytest.approx(expected["plain_mean_of_max_f_x100"], abs=1e-6)
        return
    for name, stemmer in (("stemmed_p_r_f", True), ("unstemmed_p_r_f", False)):
        ours = rouge_lsum(given["hypothesis"], given["reference"], stemmer=stemmer, splitter=by_stops)
        assert ours == pytest.approx(expected[name]["rougeLsum"][2], abs=1e-6)


def test_rouge_of_our_sentences_and_bad_input() -> None:
    assert rouge_lsum("Mira built it. It opened.", ["It opened. Mira built it."]) == 1.0
    with pytest.raises(InputError):
        rouge_lsum("x", [])
