"""The parts of the reader that are plain arithmetic."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from shared_core.errors import CalibrationError
from shared_core.reading.candidates import (
    FIGURES,
    MAX_ANSWER_TOKENS,
    Candidate,
    Verdict,
    best_span,
    distinct,
    figures,
    log_sum,
    trim_answer,
)
from shared_core.reading.confidence import Logistic, estimate_share, logit, shift, sigmoid
from shared_core.reading.features import (
    QUESTION_FEATURES,
    RARITY_BUCKETS,
    TOKEN_FEATURES,
    Lacking,
    Shape,
    Tokens,
    Words,
    asked_kind,
    code,
    is_of_kind,
    lacking,
    missing_words,
    shape_of,
    stem,
    surface,
    words_of,
)
from shared_core.reading.language import is_english, is_english_beside_names
from shared_core.reading.network import MAX_TOKENS, ranges
from shared_core.reading.weights import WEIGHTS, load_weights

RARITY = np.full(RARITY_BUCKETS, 0.5, dtype=np.float32)
NO_TITLE = np.zeros(0, dtype=np.int64)


def candidate(score: float, passage: int = 0, start: int = 0) -> Candidate:
    return Candidate(passage, start, start + 1, score, (0, 1), score, -0.1, 0.0, 0.5, 0.5, (0, 0, 0), 0.5)


@given(hnp.arrays(float, st.integers(1, 40), elements=st.floats(-20, 20)), st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_best_span_is_the_best_allowed_one(start: np.ndarray, seed: int) -> None:  # type: ignore[type-arg]
    end = np.random.default_rng(seed).normal(size=len(start)) * 5
    first, last, logit, share = best_span(start, end)
    every = [start[i] + end[j] for i in range(len(start)) for j in range(i, min(len(start), i + MAX_ANSWER_TOKENS))]
    assert 0 <= last - first < MAX_ANSWER_TOKENS
    assert start[first] + end[last] == max(every) == pytest.approx(2 * logit)
    assert share == pytest.approx(max(every) - np.log(np.sum(np.exp(np.array(every)))), abs=1e-6)


def test_log_sum() -> None:
    assert log_sum(np.array([0.0, 0.0])) == pytest.approx(np.log(2))
    assert log_sum(np.array([])) == -np.inf
    assert log_sum(np.array([-np.inf])) == -np.inf


def test_figures_are_a_distribution_with_no_answer() -> None:
    rows = figures([candidate(2.0), candidate(0.5), candidate(-1.0)], Shape(4, 0))
    assert rows.shape == (3, len(FIGURES))
    log_probability = rows[:, FIGURES.index("log_probability")]
    odds = rows[0, FIGURES.index("answer_log_odds")]
    assert np.exp(log_probability).sum() == pytest.approx(1 / (1 + np.exp(-odds)))
    assert rows[:, FIGURES.index("margin")].tolist() == [1.5, -1.5, -3.0]
    assert rows[:, FIGURES.index("first")].tolist() == [1, 0, 0]
    assert figures([], Shape(3, 0)).shape == (0, len(FIGURES))
    assert np.isfinite(figures([candidate(1.0)], Shape(0, 0))).all()


def test_candidate_that_was_not_read_again_is_no_surer_than_those_that_were() -> None:
    verdicts = Verdict(3, 2, 1, 0), Verdict(1, 4, 0, 1)
    first, second = (replace(candidate(s), verdict=v) for s, v in zip((2.0, 1.0), verdicts))
    rows = figures([first, second, candidate(0.0)], Shape(4, 0))
    places = range(FIGURES.index("verifier_window"), len(FIGURES))
    assert rows[:, places].tolist() == [[*verdicts[0]], [*verdicts[1]], [1, 2, 0, 0]]


def test_distinct_keeps_the_best_of_each_sentence() -> None:
    found = distinct([candidate(1, 0), candidate(3, 1), candidate(2, 2)], ["a b", "c", "a  b"])
    assert [(c.passage, c.score) for c in found] == [(1, 3), (2, 2)]


def model(coefficients: tuple[float, ...] = (1.0, 2.0)) -> Logistic:
    two = np.ones(2)
    products = np.array([[0.0, 0.25], [0.0, -0.5]])
    return Logistic(("a", "b"), 0 * two, two, -5 * two, 5 * two, np.array(coefficients), 0.5, products)


def test_logistic_picks_columns_clips_and_knows_what_it_does_not_know() -> None:
    rows = np.array([[9.0, 0.0, 1.0], [9.0, 100.0, 0.0], [9.0, np.nan, 0.0], [9.0, 2.0, 1.0]])
    p = model().probability(rows, ("other", "b", "a"))
    assert p[0] == pytest.approx(1 / (1 + np.exp(-1.5)))
    assert p[1] == pytest.approx(1 / (1 + np.exp(-(0.5 + 10 - 0.5 * 25))))
    assert p[2] is None
    assert p[3] == pytest.approx(1 / (1 + np.exp(-(0.5 + 1 + 4 + 0.25 * 2 - 0.5 * 4))))


def test_logistic_survives_json() -> None:
    again = Logistic.from_dict(model().to_dict())
    rows = np.array([[0.3, -0.7]])
    assert again.probability(rows, ("a", "b")) == model().probability(rows, ("a", "b"))


@pytest.mark.parametrize("damage", [
    {"figures": {"a": [1, 2]}}, {"figures": {"a": [0, 0, 0, 0, 0]}},
    {"figures": {"a": [0, 1, 0, 1, float("nan")]}}, {"products": {}}, {"products": {"a": [0, 0]}},
    {"products": {"a": [float("nan")]}}, {"intercept": None},
])  # fmt: skip
def test_damage_of_a_logistic_is_noticed(damage: dict[str, object]) -> None:
    sound = {"figures": {"a": [0, 1, 0, 1, 0]}, "intercept": 0, "products": {"a": [0]}}
    Logistic.from_dict(sound)
    for data in (sound | damage, {}):
        with pytest.raises(CalibrationError):
            Logistic.from_dict(data)


@given(st.lists(st.integers(1, 2 * MAX_TOKENS), max_size=12))
@settings(max_examples=100, deadline=None)
def test_windows_hold_every_token_once_and_break_between_sentences(lengths: list[int]) -> None:
    starts = np.arange(sum(lengths))
    begins = np.cumsum([0, *lengths])
    found = ranges(starts, [(int(a), int(b)) for a, b in itertools.pairwise(begins)])
    assert [i for a, b in found for i in range(a, b)] == starts.tolist()
    for a, b in found:
        assert b - a <= MAX_TOKENS
        if b not in begins:  # cut only where a single sentence is longer than a window
            assert b - a == MAX_TOKENS


def tokens_of(text: str) -> tuple[Tokens, object]:
    words = words_of(text, RARITY)
    return Tokens.of(words, np.arange(len(words)), words.starts, [(0, len(text))]), words


def test_surface_finds_matches_by_stem_and_missing_names_and_numbers() -> None:
    asked, question = tokens_of("Which lighthouses did Veldt build in 1875?")
    here, words = tokens_of("Anna Veldt builds a lighthouse in 1874.")
    seen = surface(question, asked, words, here, NO_TITLE)  # type: ignore[arg-type]
    assert seen.tokens.shape == (7, TOKEN_FEATURES)
    assert seen.question.shape == (7, QUESTION_FEATURES)
    assert seen.tokens[:, 1].tolist() == [0, 1, 1, 0, 1, 0, 0]  # Veldt, builds, lighthouse
    assert seen.coverage == {0: pytest.approx(0.75)}
    numbers, names, rarest = missing_words(seen)
    assert (numbers, names) == (1, 0)
    assert rarest == pytest.approx(0.5)


def test_a_title_counts_as_seen() -> None:
    asked, question = tokens_of("When was Corrow founded?")
    here, words = tokens_of("It was founded in 1200.")
    title = words_of("Corrow", RARITY).content
    assert missing_words(surface(question, asked, words, here, title))[1] == 0  # type: ignore[arg-type]
    assert missing_words(surface(question, asked, words, here, NO_TITLE))[1] == 1  # type: ignore[arg-type]


@pytest.mark.parametrize(("question", "kind"), [
    ("When did it open?", "date"), ("In what year did it open?", "date"), ("How many people live there?", "number"),
    ("Who lives there?", "name"), ("Why is it so?", None),
])  # fmt: skip
def test_kinds_of_answers_that_are_asked_for(question: str, kind: str | None) -> None:
    assert asked_kind(question) == kind


@pytest.mark.parametrize(("kind", "answer", "typed"), [
    ("date", "May 1999", 1), ("name", "Tom Hale", 1), ("number", "two", 1), ("number", "Tom Hale", 0),
    (None, "In", 0.5),
])  # fmt: skip
def test_kinds_of_answers(kind: str | None, answer: str, typed: float) -> None:
    text = "In May 1999 Tom Hale sold two boats"
    start = text.index(answer)
    assert is_of_kind(kind, words_of(text, RARITY), text, start, start + len(answer)) == typed


@pytest.mark.parametrize(("text", "answer", "typed"), [
    ("runs-on: ubuntu-24.04", "ubuntu-24.04", 0), ("runs-on: ubuntu-24.04", "24.04", 0),
    ("the HX-60 of May", "HX-60", 0),
    ("the HX-60 of May", "HX-60 of May", 1), ("since mid-2024", "mid-2024", 1), ("from Jan-24 on", "Jan-24", 1),
    ("since version 1.4", "1.4", 1), ("on 2024-05-14", "2024-05-14", 1),
])  # fmt: skip
def test_a_number_that_belongs_to_a_name_tells_no_date(text: str, answer: str, typed: float) -> None:
    start = text.index(answer)
    assert is_of_kind("date", words_of(text, RARITY), text, start, start + len(answer)) == typed


@pytest.mark.parametrize(("text", "english"), [
    ("Who built the old tower?", True), ("tallest tower lisbon", True), ("gzip -6", True), ("Mozart", True),
    ("12", True), ("It is 83 metres.", True), ("It was 1911.", True), ("Yes, it is.", True), ("It's in Paris.", True),
    ("Es ist 83 Meter.", False), ("Das war in 1911.", False), ("Het is 83 meter.", False), ("Wer war Mozart?", False),
    ("Später sah man die beiden im Film The Keys of the Seven Seas and the Doctor, wo sie spielen.", False),
    ("De vuurtoren is in 1911 gebouwd en was of is de hoogste van het land, maar wij weten het niet.", False),
    ("Fyret er for alle, og det var her at han havde sit hjem i over tyve år, men han er nu død.", False),
    ("The tower, which was built by Mira Dorn in 1911, is for all who are at home on the coast.", True),
    ("¿Quién fue el primer emperador?", False), ("Qui est Napoléon ?", False), ("Bu kuleyi kim inşa etti?", False),
    ("Кто построил маяк?", False), ("灯台は誰が建てましたか", False),
    ("Material: Aluminium; Finish: matt; Tolerance: ±0.1 mm", True), ("Cogito ergo sum.", False),
])  # fmt: skip
def test_english_or_not(text: str, english: bool) -> None:
    assert is_english(text) is english


@pytest.mark.parametrize(("text", "english"), [
    ("Author: Paul Marchetti. Publisher: Edizioni Nord.", True), ("Tenant: Carlos Mendoza Ruiz.", True),
    ("Chair: Olaf Brandt, Secretary: Ingrid Moe.", True), ("Address: Rue de la Gare 12, 1003 Lausanne.", True),
    ("Lessee: Carlos Mendoza Ruiz.", True), ("Contact: Dr. Anna Kowalska, Gdańsk.", True),
    ("# Parties\nLandlord: Edizioni Nord. Tenant: Carlos Mendoza Ruiz.\n\nThe rent is €900.", True),
    ("Signature: Giovanni Bianchi, Date: 3 May 2024", True), ("- Project manager: Anna Kowalska", True),
    ("Vermieter: Harrow Estates Ltd. Mieter: Maria Dolan.", False), ("Inquilino: Carlos Mendoza Ruiz.", False),
    ("Prix: 12 euros.", False), ("Locataire: Jean Dupont.", False), ("Prijs: 12 euro. Huurder: Jan de Vries.", False),
    ("Director: Juan Pérez. Productor: María López.", False), ("Information: Der Laden ist montags zu.", False),
    ("Restaurant: Nur abends geöffnet.", False), ("Menu: soupe à l'oignon. Dessert: tarte aux pommes.", False),
    ("Parking: Gratis para clientes.", False), ("Servizio: Gratuito. Hotel: Chiuso in inverno.", False),
])  # fmt: skip
def test_names_behind_english_labels_are_of_no_language(text: str, english: bool) -> None:
    assert is_english_beside_names(text, load_weights(WEIGHTS).network.tokenizer.number) is english


@given(st.floats(0.01, 0.99), st.floats(0.05, 0.95), st.floats(0.05, 0.95))
def test_a_probability_moves_with_the_share_that_is_expected(p: float, assumed: float, expected: float) -> None:
    moved = shift(p, assumed, expected)
    assert (moved - p) * (expected - assumed) >= -1e-12
    assert shift(moved, expected, assumed) == pytest.approx(p, abs=1e-6)
    assert sigmoid(logit(p)) == pytest.approx(p)


def test_the_share_of_answerable_questions_is_found_without_labels() -> None:
    rng = np.random.default_rng(0)
    for share in (0.15, 0.5, 0.9):
        labels = rng.random(4000) < share
        # scores whose probabilities are right where half of the cases are positive
        scores = rng.normal(np.where(labels, 1.0, -1.0), 1.0)
        found = estimate_share([sigmoid(2 * s) for s in scores], 0.5)
        assert found == pytest.approx(share, abs=0.05)
    assert estimate_share([], 0.3) == 0.3
    assert 0 < estimate_share([0.001] * 4, 0.5) < 0.5 < estimate_share([0.999] * 4, 0.5) < 1


def test_fixed_answers_do_not_move() -> None:
    assert shift(0.0, 0.5, 0.9) == 0.0
    assert shift(1.0, 0.5, 0.1) == 1.0


OF_SOME = np.full(RARITY_BUCKETS, 0.2, dtype=np.float32)
for word, rarity in {"zstd": 1.0, "gzip": 0.9, "ratio": 0.5}.items():
    OF_SOME[code(stem(word)) % RARITY_BUCKETS] = rarity


def words(text: str) -> Words:
    return words_of(text, OF_SOME)


def shape(question: str) -> Shape:
    return shape_of(question, words(question))


def test_a_word_that_another_passage_holds_is_lacking_elsewhere() -> None:
    question = words("What is the expansion ratio of zstd?")
    gzip, zstd = words("The worst expansion of gzip files.").stem, words("zstd is a compressor.").stem
    first, second = lacking(question, [gzip, zstd])
    assert first == Lacking(pytest.approx(1.0), pytest.approx(0.5))  # "zstd"; neither holds "ratio"
    assert second == Lacking(pytest.approx(0.2), pytest.approx(0.5))  # "expansion"
    (alone,) = lacking(question, [gzip])
    assert alone == Lacking(0.0, pytest.approx(1.0))


def test_nothing_lacks_where_all_is_held_or_nothing_is_asked() -> None:
    question = words("the ratio of gzip")
    assert lacking(question, [words("gzip's ratio is fine").stem]) == [Lacking(0.0, 0.0)]
    assert lacking(words("what is it"), [words("gzip").stem]) == [Lacking(0.0, 0.0)]
    assert lacking(question, []) == []
    assert lacking(question, [words("").stem])[0].nowhere == pytest.approx(0.9)


def test_questions_of_several_steps_link_more() -> None:
    one = shape("Who is Ada Lovelace?")
    several = shape("Who is the mother of the director of the film that Ada Lovelace's friend made?")
    assert one == Shape(words=4, links=1)
    assert several.links > 4 > one.links
    assert shape("") == Shape(0, 0)


@given(st.text('ab ()[]“”"*`.', min_size=1, max_size=20), st.data())
def test_trimmed_answers_are_within_the_answer_and_hold_its_words(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    first, last = trim_answer(text, start, end)
    assert start <= first < last <= end
    assert [c for c in text[start:end] if c.isalpha()] == [c for c in text[first:last] if c.isalpha()]


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("How is the camera?", True),
        ("how's the food", True),
        ("How many are there?", False),
        ("Is it how it was?", False),
    ],
)
def test_questions_that_ask_how_something_is(question: str, expected: bool) -> None:
    assert shape(question).asks_how is expected
