"""Flag candidates that say something else than a question asks, and take it off their scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from shared_core.reading.ages import is_for_others
from shared_core.reading.candidates import Candidate
from shared_core.reading.changes import is_other_change
from shared_core.reading.conflicts import ABSENT, OPPOSITE, VALUE, find_conflicts, is_said_by_another
from shared_core.reading.days import excludes_day
from shared_core.reading.direct import answers_by_form
from shared_core.reading.names import find_others
from shared_core.reading.places import innermost
from shared_core.reading.questions import only_refers
from shared_core.reading.subjects import is_of_another
from shared_core.reading.sums import frees_members, names_no_sum, tells_only_change
from shared_core.reading.told import LATER, dates_another_act, measures_only, names_only_asked, tells_what_is_asked
from shared_core.reading.values import Value, gives_another, lack_number, of_another_year, values_of
from shared_core.types import Passage


def flag_candidates(
    question: str,
    passages: Sequence[Passage],
    candidates: Sequence[Candidate],
    places: Sequence[str],
    unknown: Sequence[Value],
    lost_option: bool,
    lost: float,
) -> list[Candidate]:
    """Return the candidates with their conflicts, whether they are untold, and what that takes off their scores.

    So does what only refers to another place lose.

    Args:
        places: title, headings and source of each passage.
        unknown: values of the question that no passage has.
        lost_option: whether the question has an option that its command's documents lack.
        lost: added to the score of what gives another value or the opposite; at most 0.
    """
    values = values_of(question)
    absent = {ABSENT} if lost_option or unknown else set()
    coded = [v for v in unknown if v.code]
    others = find_others(question, passages)
    others |= {i for i, place in enumerate(places) if any(gives_another(v, place) for v in coded)}
    lacking = lack_number(values, [f"{place}\n{p.text}" for place, p in zip(places, passages)])
    out = []
    for c in candidates:
        passage, place = passages[c.passage], places[c.passage]
        text = passage.text[c.start : c.end]
        found = find_conflicts(question, text, place)
        # "open Tuesday to Sunday" names another day than Monday, "over 20 kg" another weight than 25 kg
        if VALUE in found and (
            c.defines > 0 or excludes_day(question, text) or answers_by_form(question, text, passage)
        ):
            found -= {VALUE}
        # "How heavy is the HX-60?" in the manual of the HX-40; "What did Ann say?" and an entry of Bo
        of_another = is_of_another(question, text, place, passage.text)
        if of_another or c.passage in others or is_said_by_another(question, passage.text, c.start, c.end):
            found |= {VALUE}
        if of_another_year(values, text, place):
            found |= {ABSENT}
        untold = of_another or _is_untold(question, passage, c, place)
        lower = bool({VALUE, OPPOSITE} & found) or only_refers(text, question, innermost(passage))
        score = c.score + lost * lower + LATER * (untold or c.passage in lacking)
        out.append(replace(c, conflicts=found | absent, untold=untold, score=score))
    return out


def _is_untold(question: str, passage: Passage, candidate: Candidate, place: str) -> bool:
    """Whether a candidate does not tell what the question's form asks for."""
    text = passage.text[candidate.start : candidate.end]
    return (
        not tells_what_is_asked(question, text, place)
        or names_only_asked(question, text)
        or is_for_others(question, text)
        or is_other_change(question, passage, candidate.start, candidate.end)
        or measures_only(question, text)
        or names_no_sum(question, text)
        or tells_only_change(question, text)
        or frees_members(question, text)
        or dates_another_act(question, text)
    )
