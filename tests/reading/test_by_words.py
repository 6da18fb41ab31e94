"""Questions and passages in other languages than English: ranked and judged by the words that they share."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared_core import Passage, SelfReflectEngine
from shared_core.errors import CalibrationError
from shared_core.facades import engine
from shared_core.lm.scripted import ScriptedLM
from shared_core.reading.base import OTHER_QUESTION, OTHER_TEXT, Read, ReadResult
from shared_core.reading.by_words import ByWords, load_by_words, parts_of
from shared_core.reading.extractive import ExtractiveReader

READER = ExtractiveReader()
BRIDGE = Passage(
    "bruecke",
    "Die Hängebrücke über die Lauter wurde 1931 von dem Ingenieur Karl Weber gebaut. Sie ist 84 Meter lang. "
    "Im Winter bleibt sie bei Schnee gesperrt.",
    "Brücken",
)
MUSEUM = Passage(
    "museum",
    "Das Heimatmuseum hat von Dienstag bis Sonntag geöffnet. Erwachsene zahlen sechs Euro Eintritt. "
    "Die Sammlung zeigt Werkzeuge der Schiefergruben.",
    "Museum",
)
GERMAN = (BRIDGE, MUSEUM)


class Shelf:
    """A retriever of all its passages."""

    def __init__(self, passages: tuple[Passage, ...]) -> None:
        self.passages = passages

    def retrieve(self, query: str, k: int = 5) -> list[Passage]:
        return [*self.passages]


def read(question: str, passages: tuple[Passage, ...] = GERMAN, *, by_words: bool = True) -> ReadResult:
    (result,) = READER.read([Read(question, passages, by_words=by_words)])
    assert isinstance(result, ReadResult)
    return result


def chance(question: str, passages: tuple[Passage, ...] = GERMAN, expected: float | None = None) -> float:
    (result,) = READER.read([Read(question, passages, expected=expected, by_words=True)])
    assert isinstance(result, ReadResult)
    assert result.answerable is not None
    assert result.readings[0].probability == result.answerable
    return result.answerable


@pytest.mark.parametrize(
    ("question", "quote"),
    [
        ("In welchem Jahr wurde die Hängebrücke über die Lauter gebaut?", "1931"),
        ("Wann hat das Heimatmuseum geöffnet?", "Dienstag bis Sonntag"),
        ("Was zeigt die Sammlung des Museums?", "Werkzeuge"),
    ],
)
def test_a_question_in_another_language_is_answered_with_a_sentence(question: str, quote: str) -> None:
    answer = SelfReflectEngine(Shelf(GERMAN)).answer(question)
    assert not answer.abstained
    assert quote in answer.text
    (span,) = [s for claim in answer.kept_claims for c in claim.citations for s in c.spans]
    passage = next(p for p in GERMAN if p.id == span.passage_id)
    assert passage.text[span.start : span.end] == span.text


def test_the_answer_says_that_its_probability_is_of_another_language() -> None:
    answer = SelfReflectEngine(Shelf(GERMAN)).answer("Wann hat das Heimatmuseum geöffnet?")
    assert answer.calibrated is False
    assert any("another language" in decision.reason for decision in answer.trace)


def test_the_log_says_so_and_blames_no_model(caplog: pytest.LogCaptureFixture) -> None:
    engine._warn_uncalibrated.cache_clear()
    SelfReflectEngine(Shelf(GERMAN)).answer("Wann hat das Heimatmuseum geöffnet?")
    assert "other languages than English" in caplog.text
    assert "this model" not in caplog.text


def test_what_the_passages_do_not_say_is_less_probable() -> None:
    asked = chance("Wie viel Eintritt zahlen Erwachsene im Heimatmuseum?")
    other = chance("Wie viel Eintritt zahlen Erwachsene im Schwimmbad von Ellingen?")
    nothing = chance("Welcher Präsident unterschrieb den Vertrag von Lissabon?")
    assert nothing < other < asked
    assert nothing < 0.3


def test_another_number_makes_a_quote_less_probable() -> None:
    assert chance("Wer hat die Hängebrücke 1938 gebaut?") < chance("Wer hat die Hängebrücke 1931 gebaut?")


@pytest.mark.parametrize("passages", [GERMAN, GERMAN[::-1]])
def test_the_passage_with_the_sentence_comes_first(passages: tuple[Passage, ...]) -> None:
    result = read("Was zeigt die Sammlung des Museums?", passages)
    assert len(result.passage_scores) == len(passages)
    assert passages[int(np.argmax(result.passage_scores))] is MUSEUM


def test_without_being_asked_for_by_words_probabilities_are_unknown() -> None:
    result = read("Was zeigt die Sammlung des Museums?", by_words=False)
    assert result.unknown == OTHER_QUESTION
    assert result.answerable is None
    assert {r.probability for r in result.readings} == {None}


def test_with_a_language_model_its_word_counts() -> None:
    answer = SelfReflectEngine(Shelf(GERMAN), ScriptedLM(lambda request: "Ich weiß es nicht.")).answer(
        "Was zeigt die Sammlung des Museums?"
    )
    assert answer.abstained


def test_question_and_passages_must_be_of_one_language() -> None:
    english = (Passage("museum", "The museum is open from Tuesday to Sunday. Adults pay six euros.", "Museum"),)
    assert read("When was the suspension bridge built?").unknown == OTHER_TEXT
    assert read("Wie viel Eintritt zahlen Erwachsene im Museum?", english).unknown == OTHER_QUESTION


def test_a_share_of_answerable_questions_that_is_expected_moves_the_probability() -> None:
    low, middle, high = (chance("Was zeigt die Sammlung des Museums?", expected=e) for e in (0.3, 0.6, 0.9))
    assert low < middle < high


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("Größe der Brücken", ["grosse"[:5], "der", "bruck"]),
        ("КНИГА Книгу", ["книга", "книгу"]),
        ("المَكتبة", ["المكت"]),
        ("東京タワー 1958", ["東京", "京タ", "タワ", "ワー", "1958"]),
        ("", []),
    ],
)
def test_parts_of_words_in_several_scripts(text: str, parts: list[str]) -> None:
    assert parts_of(text) == parts


@given(st.text(max_size=60))
def test_any_text_is_split(text: str) -> None:
    assert all(part and part == part.casefold() for part in parts_of(text))


def test_a_damaged_model_is_refused() -> None:
    data = load_by_words().to_dict()
    assert ByWords.from_dict(data).to_dict() == data
    for broken in (
        {**data, "expected": 1.5},
        {**data, "rank": {}},
        {**data, "rank": {**data["rank"], "score": np.nan}},
        {},
    ):
        with pytest.raises(CalibrationError):
            ByWords.from_dict(broken)
