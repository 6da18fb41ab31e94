"""Find sentences whose form alone tells that they answer: the hours of the day asked for, an office and its holder."""

from __future__ import annotations

from collections.abc import Sequence

from shared_core.reading.ages import charges_for_age, decides_for_age
from shared_core.reading.attributes import is_property
from shared_core.reading.bands import find_for_age, find_in_range
from shared_core.reading.cells import Chosen
from shared_core.reading.days import gives_hours, says_hours, says_whether_open
from shared_core.reading.labelled import is_labelled_below
from shared_core.reading.people import has_office, names_holder, names_person
from shared_core.reading.permits import permits
from shared_core.reading.places import above, innermost, source_of
from shared_core.reading.questions import words
from shared_core.reading.row_values import choose_compared, choose_extreme, choose_holding
from shared_core.reading.values import gives_date
from shared_core.types import Passage


def answers_by_form(question: str, sentence: str, passage: Passage) -> bool:
    """Return whether a sentence of a passage is just what a question asks for, as sure as a definition.

    The date of a version, the ages to which something is open, a property of a thing, the hours of a day, the days on
    which something is open, an office with the name of its holder, the name that heads a record with the office,
    whether one may bring a thing, or a label's line below the name of what it is of.

    >>> hours = Passage("p", "Sunday: 1 pm - 5 pm", "Town library")
    >>> answers_by_form("When is the library open on Sunday?", hours.text, hours)
    True
    """
    around = f"{above(passage)} {source_of(passage)}"
    return (
        gives_date(question, sentence)
        or decides_for_age(question, sentence)
        or charges_for_age(question, sentence, f"{around}\n{passage.text}")
        or is_property(question, sentence, passage.text)
        or gives_hours(question, sentence, f"{around}\n{passage.text}")
        or says_whether_open(question, sentence, around, passage.text)
        or says_hours(question, sentence, around, passage.text)
        or names_holder(question, sentence, around)
        or permits(question, sentence, f"{around}\n{passage.text}")
        or is_labelled_below(question, sentence, passage.text, around)
        or heads_office(question, sentence, passage)
    )


def choose_rows(question: str, passages: Sequence[Passage]) -> Chosen:
    """Return the rows and lines that answer by their values: a range that a value is in, an extreme, a limit, a cell.

    >>> mugs = Passage("p", "Quantity: 1–9; Each: £8\\nQuantity: 10–49; Each: £6", "Mugs")
    >>> choose_rows("What does each mug cost if I order 20?", [mugs]).lines
    {(0, 24, 49): None}
    """
    ways = find_in_range, find_for_age, choose_extreme, choose_compared, choose_holding
    return next((chosen for choose in ways if (chosen := choose(question, passages)) is not None), Chosen())


def heads_office(question: str, sentence: str, passage: Passage) -> bool:
    """Return whether a name heads a record with the office that a question asks for the holder of."""
    headed = names_person(sentence, question) and words(sentence) == words(innermost(passage))
    return headed and has_office(question, passage.text, f"{above(passage)} {source_of(passage)}")
