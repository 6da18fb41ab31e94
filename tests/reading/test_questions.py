"""What a question's words tell: that nothing is asked, that it is English, that a sentence repeats it."""

from __future__ import annotations

import pytest

from shared_core import SelfReflectEngine
from shared_core.lm.scripted import ScriptedLM
from shared_core.reading.base import NO_WORDS, OTHER_QUESTION, OTHER_TEXT, Read, ReadResult
from shared_core.reading.extractive import ExtractiveReader
from shared_core.reading.questions import asks_nothing, only_refers, opens_in_english, repeats
from shared_core.types import Passage
from tests.fakes import FirstSentenceReader, Shelf

FAQ = Passage(
    "faq",
    "**What does error E3 mean?**\nThe motor is blocked.\n\n**Who wrote this?**\nPetra Nowak of the service wrote it.",
    "Grinder",
)


@pytest.fixture(scope="module")
def reader() -> ExtractiveReader:
    return ExtractiveReader()


def read(reader: ExtractiveReader, question: str, *passages: Passage) -> ReadResult:
    (result,) = reader.read([Read(question, passages or (FAQ,))])
    assert isinstance(result, ReadResult)
    return result


@pytest.mark.parametrize("text", ["hello", "Hi there, how are you?", "Thanks a lot! 🙂", "Guten Tag!", "How are you?"])
def test_greetings_ask_nothing(text: str) -> None:
    assert asks_nothing(text)


@pytest.mark.parametrize("text", [
    "hello world", "What is good?", "Is it okay?", "", "???", "How are you paid?", "today",
    "Thanks to whom was it built?",
])  # fmt: skip
def test_questions_do(text: str) -> None:
    assert not asks_nothing(text)


def test_a_greeting_is_not_looked_up_and_no_model_is_asked() -> None:
    model = ScriptedLM(lambda request: pytest.fail("asked"))
    for lm in (None, model):
        answer = SelfReflectEngine(Shelf(), lm, reader=FirstSentenceReader(0.9)).answer("Hello!")
        assert (answer.abstained, answer.reason, answer.passages) == (True, "nothing asked", ())
        assert "Ask a question" in answer.text


def test_the_question_itself_is_no_answer(reader: ExtractiveReader) -> None:
    assert repeats("**What does error E3 mean?**", "What does the error E3 mean?")
    assert not repeats("Did you know that the museum opened in 1998?", "When did the museum open?")
    assert not repeats("The error E3 means that it is blocked.", "What does the error E3 mean?")
    assert repeats("Budget", "Did the board approve the budget?")
    assert repeats("[09:23] Mika: great, thanks. who signs off the release today?", "Who signs off the release?")
    assert not repeats("Closed.", "Is the station open or closed?")
    quotes = [r.quote.text for r in read(reader, "What does the error E3 mean?").readings]
    assert quotes[0] == "The motor is blocked."
    assert not any("E3" in q for q in quotes)


def test_what_the_question_of_an_faq_begins_with_is_no_answer(reader: ExtractiveReader) -> None:
    text = (
        "Q: My seeds did not germinate. What can I do?\nA: Send us a photo and we will replace the packet.\n\n"
        "**Question 2:** My box is late. Why?\n**Answer:** The post is slow in winter.\n\nQ: Organic? A: All of it is."
    )
    for question in ("What if my seeds don't come up?", "What if my box comes late?", "Is it organic?"):
        quotes = " ".join(r.quote.text for r in read(reader, question, Passage("p", text)).readings)
        assert [part in quotes for part in ("germinate", "box is late")] == [False, False]
        assert all(part in quotes for part in ("replace the packet", "slow in winter", "All of it is"))


def test_a_sentence_that_only_refers_elsewhere_comes_after_what_answers(reader: ExtractiveReader) -> None:
    pointer = "For ways to disable the telemetry, see the [Telemetry](#telemetry) section below."
    passage = Passage("p", f"{pointer} Set `NO_SENDING=1` before it starts, and nothing is sent at runtime.")
    first = read(reader, "How do I disable the telemetry at runtime?", passage).readings[0].quote.text
    assert first.startswith("Set")
    first = read(reader, "Where can I read how to disable the telemetry?", passage).readings[0].quote.text
    assert first == pointer


@pytest.mark.parametrize(("sentence", "refers"), [
    ("See systemctl(1) for more details about units.", True), ("Please refer to chapter 4 of the manual.", True),
    ("To change it, see https://example.org/a.", True), ("If it hurts, see a doctor.", False),
    ("If you want to see stars below, go outside.", False), ("See the light below; then press the button.", False),
])  # fmt: skip
def test_what_only_refers(sentence: str, refers: bool) -> None:
    assert only_refers(sentence, "How does it work?") == refers
    assert not only_refers(sentence, "Which section explains it?")


@pytest.mark.parametrize("question", ["When did Nikolaj Kierkegaard die?", "Petra Nowak", "Who wrote it"])
def test_names_and_short_questions_are_not_taken_for_another_language(reader: ExtractiveReader, question: str) -> None:
    result = read(reader, question)
    assert result.unknown == ""
    assert all(r.probability is not None for r in result.readings)


def test_why_it_cannot_tell_is_true(reader: ExtractiveReader) -> None:
    german = Passage("de", "Die Bibliothek wurde 1903 gegründet und hat montags geschlossen.")
    for question in ("???", "What?", "a", "Who is it?"):
        assert read(reader, question).unknown == NO_WORDS
    assert read(reader, "Wer hat die Bibliothek gegründet?").unknown == OTHER_QUESTION
    assert read(reader, "When was the library founded?", german).unknown == OTHER_TEXT
    assert opens_in_english("Who wrote Die Zauberflöte?")
    assert not opens_in_english("Was kostet das?")
