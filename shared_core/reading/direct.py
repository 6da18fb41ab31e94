"""Find sentences whose form alone tells that they answer: the hours of the day asked for, an office and its holder."""

from __future__ import annotations

from shared_core.reading.attributes import is_property
from shared_core.reading.days import gives_hours, says_whether_open
from shared_core.reading.people import has_office, names_holder, names_person
from shared_core.reading.questions import words
from shared_core.reading.rows import above, innermost, source_of
from shared_core.reading.values import gives_date
from shared_core.types import Passage


def answers_by_form(question: str, sentence: str, passage: Passage) -> bool:
    """Return whether a sentence of a passage is just what a question asks for, as sure as a definition.

    The date of a version, a property of a thing, the hours of a day, the days on which something is open, an office
    with the name of its holder, or the name that heads a record with the office.

    >>> hours = Passage("p", "Sunday: 1 pm - 5 pm", "Town library")
    >>> answers_by_form("When is the library open on Sunday?", hours.text, hours)
    True
    """
    if gives_date(question, sentence) or is_property(question, sentence, passage.text):
        return True
    around = f"{above(passage)} {source_of(passage)}"
    if gives_hours(question, sentence, f"{around}\n{passage.text}"):
        return True
    if says_whether_open(question, sentence, around, passage.text):
        return True
    if names_holder(question, sentence, around):
        return True
    headed = words(sentence) == words(innermost(passage)) and names_person(sentence, question)
    return headed and has_office(question, passage.text, around)
