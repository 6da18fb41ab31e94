"""Mark candidates by rules: which state what is asked, define it or give its very cell, and which lack a name of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from shared_core.reading.ages import is_for_others
from shared_core.reading.candidates import Candidate
from shared_core.reading.cells import Chosen, Place, Range
from shared_core.reading.changes import is_other_change, only_release, release_of
from shared_core.reading.conflicts import ABSENT, OPPOSITE, VALUE, find_conflicts, is_said_by_another
from shared_core.reading.days import excludes_day
from shared_core.reading.direct import answers_by_form, heads_office
from shared_core.reading.entries import lacks_names, of_entries_asked
from shared_core.reading.measures import lacks_measure
from shared_core.reading.names import absent_names, find_others
from shared_core.reading.numbered import is_of_another_number
from shared_core.reading.places import above, innermost
from shared_core.reading.prepared import Asked, Prepared
from shared_core.reading.questions import counts_nothing, defines_links, names_nobody, only_asks, only_refers, repeats
from shared_core.reading.quotable import is_heading, is_signature
from shared_core.reading.rows import Entry, answer_in_row
from shared_core.reading.spans import gives_no_span, times_only_price
from shared_core.reading.subjects import is_of_another
from shared_core.reading.sums import costs_something, frees_members, names_no_sum, refers_to_tariff, tells_only_change
from shared_core.reading.told import (
    LATER,
    dates_another_act,
    forbids_only,
    measures_only,
    names_no_holder,
    names_only_asked,
    tells_what_is_asked,
)
from shared_core.reading.values import (
    Value,
    absent_values,
    gives_another,
    gives_date,
    lack_number,
    of_another_year,
    values_of,
)
from shared_core.types import Passage


def mark_candidates(
    asked: Asked,
    passages: Sequence[Passage],
    candidates: Sequence[Candidate],
    prepared: Mapping[int, Prepared],
    chosen: Chosen,
    weight: float,
) -> tuple[list[Candidate], list[int]]:
    """Return the candidates with their marks, and the numbers of those that may be quoted.

    Args:
        passages: that the candidates number.
        candidates: as the network scored them.
        prepared: the passages that have words, by number.
        chosen: rows and lines that answer by their values; candidates in the others of their tables are left out.
        weight: of a conflict in a candidate's score.
    """
    lost = lacks_names(asked.text, asked.words, [(passages[number], p.title) for number, p in prepared.items()])
    headings = [f"{above(p)}\n{p.metadata.get('source', '')}" for p in passages]
    told = [f"{heading}\n{p.text}" for heading, p in zip(headings, passages)]
    unknown = [v for v in absent_values(values_of(asked.text), told) if not v.number or v.number != chosen.value]
    out = [c for c in candidates if not chosen.leaves_out(_place(c))]
    lines = [chosen.line_of(_place(c)) for c in out]
    out = [replace(c, defines=int(line is not None)) for c, line in zip(out, lines)]
    out = _flag_candidates(asked.text, passages, out, headings, unknown, lost, weight)
    texts = [passages[c.passage].text[c.start : c.end] for c in out]
    said = [i for i, c in enumerate(out) if _states(asked.text, texts[i], c, passages[c.passage])]
    entries = {i: Entry(passages[out[i].passage], prepared[out[i].passage], out[i]) for i in said}
    said, marks = _mark_entries(asked, entries, lines, chosen)
    answers = _cells(asked, entries, lines, chosen)
    unsaid = [
        lost or names_nobody(t, asked.text) or counts_nothing(t, asked.text) or forbids_only(asked.text, t)
        for t in texts
    ]
    # the entry of a setting need not name the product whose it is
    named = not any(map(str.strip, headings)) or not absent_names(asked.text, told)
    absent = [frozenset() if named or marks.get(i, 0) > 0 else frozenset({ABSENT}) for i in range(len(out))]
    out = [
        replace(
            c,
            defines=marks.get(i, 0) - unsaid[i],
            chosen=lines[i] is not None and len(chosen.lines) > 1,
            conflicts=c.conflicts | absent[i],
            answer=answers.get(i) or c.answer,
        )
        for i, c in enumerate(out)
    ]
    return out, said


def _mark_entries(
    asked: Asked, entries: Mapping[int, Entry], lines: Sequence[Place | None], chosen: Chosen
) -> tuple[list[int], dict[int, int]]:
    """Return the numbers of the candidates that may be about what is asked, and the marks of those that define it."""
    numbers = [*entries]
    kept, found = of_entries_asked(asked, [*entries.values()])
    kept = sorted({*kept, *(at for at, i in enumerate(numbers) if lines[i] is not None)})
    marks = {numbers[at]: mark for at, mark in found.items()}
    marks |= {i: 1 + chosen.is_whole for i, line in enumerate(lines) if line is not None}
    marks |= {i: 1 for i, entry in entries.items() if answers_by_form(asked.text, entry.text, entry.passage)}
    releases = {
        i: release_of(asked.text, entry.passage, entry.candidate.start, entry.candidate.end)
        for i, entry in entries.items()
    }
    marks |= dict.fromkeys(only_release(asked.text, releases), 1)
    return [numbers[at] for at in kept], marks


def _cells(
    asked: Asked, entries: Mapping[int, Entry], lines: Sequence[Place | None], chosen: Chosen
) -> dict[int, Range | None]:
    """Return the short answers that rows of tables give by their cells."""
    answers = {i: answer_in_row(asked, entry) for i, entry in entries.items()}
    return answers | {i: chosen.lines[line] or answers.get(i) for i, line in enumerate(lines) if line is not None}


def _place(candidate: Candidate) -> Place:
    return candidate.passage, candidate.start, candidate.end


def _states(question: str, text: str, candidate: Candidate, passage: Passage) -> bool:
    """Whether a sentence states something: it asks nothing, defines no link, and is no heading but one asked for."""
    if repeats(text, question) or defines_links(text, question) or only_asks(text, question):
        return False
    if is_signature(text, passage, candidate.start, question):
        return False
    is_asked = gives_date(question, text) or heads_office(question, text, passage)
    return is_asked or not is_heading(candidate, text, passage)


def _flag_candidates(
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
        if (
            of_another
            or c.passage in others
            or is_said_by_another(question, passage.text, c.start, c.end)
            or is_of_another_number(question, passage, c.start, c.end)
        ):
            found |= {VALUE}
        if of_another_year(values, text, place):
            found |= {ABSENT}
        # a line for the value asked about tells what there is to tell: "Over 5 kg: please ask"
        untold = of_another or (c.defines <= 0 and _is_untold(question, passage, c, place))
        lower = bool({VALUE, OPPOSITE} & found) or only_refers(text, question, innermost(passage))
        score = c.score + lost * lower + LATER * (untold or c.passage in lacking)
        out.append(replace(c, conflicts=found | absent, untold=untold, score=score))
    return out


def _is_untold(question: str, passage: Passage, candidate: Candidate, place: str) -> bool:
    """Whether a candidate does not tell what the question's form asks for."""
    text = passage.text[candidate.start : candidate.end]
    return (
        not tells_what_is_asked(question, text, place)
        or gives_no_span(question, text, place)
        or times_only_price(question, text)
        or names_only_asked(question, text)
        or names_no_holder(question, text)
        or forbids_only(question, text)
        or is_for_others(question, text)
        or is_other_change(question, passage, candidate.start, candidate.end)
        or measures_only(question, text)
        or lacks_measure(question, text)
        or names_no_sum(question, text)
        or costs_something(question, text)
        or refers_to_tariff(question, text)
        or tells_only_change(question, text)
        or frees_members(question, text)
        or dates_another_act(question, text)
    )
