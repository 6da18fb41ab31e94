"""Find what contradicts the best quote in other documents: another value, another edition, an older mail."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from shared_core.citation.facts import compare_claim
from shared_core.citation.facts.tokens import stem
from shared_core.pipelines.evidence import quoted_places, titled
from shared_core.reading.disagreements import (
    Said,
    agree_where_asked,
    answer_otherwise,
    kinds_apart,
    names_subject,
    narrowed_apart,
    only_one_holds,
    speak_of_same,
    tells_another,
    tells_change,
    tells_of_two_times,
)
from shared_core.reading.editions import is_newer_edition
from shared_core.reading.features import STOP_WORDS
from shared_core.reading.places import above, innermost, section_of, source_of
from shared_core.support.regex import lazy_regex
from shared_core.types import Claim, Passage

_SHARE, _LEAST = 0.1, 0.1
"""Probability that the less probable quote must have: of the other's, and in any case. What hardly answers at all may
differ in anything."""
_LIKELY = 0.2
"""Share of the surer one's probability that a quote needs, too, if it does not say the same of the same thing."""

_WORD = lazy_regex(rf"\b(?!(?:many|much|{'|'.join(sorted(STOP_WORDS))})\b)\w{{3,}}")
_NUMBERED = lazy_regex(r"\b(?=[a-z]*\d)[a-z\d]+\b")  # "b7", "2023"
_COMPOUND = lazy_regex(r"\b\w{3,}-(?:in|out|up|off|on|down|over)\b")  # "check-in" is not "check-out"
_NAMES = lazy_regex(r"(?<=\s)\w{3,}")  # where they have a capital; a question's first word has one anyway
_OLDER_MAIL = lazy_regex(r"On\b.*\bwrote:|-{3,} ?(?:Original|Forwarded) message ?-{3,}|From: .+", re.IGNORECASE)
"""The heading of a section that holds an older mail within a newer one."""


class Disputed(NamedTuple):
    """Claims of which two contradict each other, or none do.

    Attributes:
        pair: numbers of the two that contradict each other, neighbours, the surer first; ``None`` if none do.
        undisputed: the support of the surer one without the other; ``None`` if there is no pair.
    """

    claims: list[Claim]
    pair: tuple[int, int] | None = None
    undisputed: float | None = None


def add_contradiction(
    claims: Sequence[Claim], quotes: Sequence[Claim], passages: Sequence[Passage], question: str
) -> Disputed:
    """Add to the claims the quote that contradicts one of them.

    Args:
        quotes: the reader's best quotes as claims, with support and short answer.

    Returns:
        The claims, with one or two quotes more where documents contradict each other. At most one of the two can be
        right, which lowers both; but what a mail says comes before what the older mail below it said, and what was
        changed before what it was, and is as sure as that was.
    """
    pair = find_contradiction(quotes, passages, question)
    if pair is None:
        return Disputed(list(claims))
    out = list(claims)
    numbers = []
    for quote in pair:
        # Already claimed: the surest claim that shows this quote takes part, in place of a copy of it.
        same = [i for i, c in enumerate(out) if quoted_places(c) & quoted_places(quote)]
        if not same:
            out.append(quote)
        numbers.append(max(same, key=lambda i: out[i].support or 0.0) if same else len(out) - 1)
    first, second = sorted(numbers, key=lambda i: -(out[i].support or 0.0))
    if first == second:  # one claim that cites both
        return Disputed(list(claims))
    undisputed = out[first].support
    one, other = _weighed(out[first], out[second], {p.id: p for p in passages}, question)
    out[first] = one
    del out[second]
    first -= second < first  # the deletion before it moves it up by one
    return Disputed([*out[: first + 1], other, *out[first + 1 :]], (first, first + 1), undisputed)


def _weighed(one: Claim, other: Claim, passages: Mapping[str, Passage], question: str) -> tuple[Claim, Claim]:
    """Return two claims of which at most one is right, the one that holds first, with their supports."""
    for old, new in ((one, other), (other, one)):
        if tells_of_two_times(question, _said(new), _said(old)) and _is_of_newer_edition(new, old, passages):
            # Each took from the other's probability when they were read; that either answers is what the newer one has.
            sure = 1 - (1 - (one.support or 0.0)) * (1 - (other.support or 0.0))
            left = (old.support or 0.0) * (1 - sure)
            return dataclasses.replace(new, support=sure), dataclasses.replace(old, support=left)
        if _is_superseded(old, new, passages) or tells_change(question, _said(new), _said(old)):
            sure, less = one.support or 0.0, other.support or 0.0
            return dataclasses.replace(new, support=sure), dataclasses.replace(old, support=less * (1 - sure))
    return _exclusive(one, other)


def _exclusive(one: Claim, other: Claim) -> tuple[Claim, Claim]:
    """Lower the supports a and b of two claims of which at most one is right: to a(1 - b) / (1 - ab), and so for b."""
    # P(A, not B | not both), with A and B independent but for that; the rest is that neither is right.
    a, b = one.support or 0.0, other.support or 0.0
    either = 1 - a * b
    if either <= 0:  # both certain: 0 / 0, and nothing prefers one of them
        return dataclasses.replace(one, support=0.5), dataclasses.replace(other, support=0.5)
    lowered = a * (1 - b) / either, b * (1 - a) / either
    return dataclasses.replace(one, support=lowered[0]), dataclasses.replace(other, support=lowered[1])


def _said(claim: Claim, passages: Mapping[str, Passage] | None = None) -> Said:
    return Said(claim.text, claim.short_answer or "", " ".join(p.title for p in _quoted(claim, passages or {})))


def _quoted(claim: Claim, passages: Mapping[str, Passage]) -> list[Passage]:
    """Return the passages that a claim quotes."""
    return [passages[i] for i, _, _ in quoted_places(claim) if i in passages]


def _is_of_newer_edition(new: Claim, old: Claim, passages: Mapping[str, Passage]) -> bool:
    """Return whether all that one claim quotes is of newer editions of the documents that another one quotes."""
    pairs = [(_names(a), _names(b)) for a in _quoted(new, passages) for b in _quoted(old, passages)]
    return bool(pairs) and all(is_newer_edition(a, b) for a, b in pairs)


def _names(passage: Passage) -> tuple[str, str, str]:
    source = str(passage.metadata.get("source", ""))
    return passage.title, re.split(r"[/\\]", source)[-1], source


def _is_superseded(one: Claim, other: Claim, passages: Mapping[str, Passage]) -> bool:
    """Return whether a mail that ``other`` quotes repeats ``one`` as part of an older mail."""
    old, new = (_quoted(c, passages) for c in (one, other))
    newer = {p.metadata.get("source") for p in new if not _is_of_older_mail(p)}
    return any(_is_of_older_mail(p) and p.metadata.get("source") in newer for p in old)


def _is_of_older_mail(passage: Passage) -> bool:
    return _OLDER_MAIL.fullmatch(innermost(passage)) is not None


def find_contradiction(
    quotes: Sequence[Claim], passages: Sequence[Passage], question: str
) -> tuple[Claim, Claim] | None:
    """Return the surest quote and the first of the others that contradicts it from another passage.

    What the newest edition of the same document says comes before those.
    """
    by_id = {p.id: p for p in passages}
    ranked = sorted((c for c in quotes if c.support and c.citations), key=lambda c: -(c.support or 0.0))
    if not ranked:
        return None
    first, *others = ranked
    least = max(_SHARE * (first.support or 0.0), _LEAST)
    others = [c for c in others if (c.support or 0.0) >= least]
    newest = _newest_edition(first, others, by_id, question)
    if newest is not None:
        return first, newest
    for other in others:
        # Passages contradict each other; two sentences of one passage may be before and after, rule and exception.
        apart = {s[0] for s in quoted_places(first)}.isdisjoint(s[0] for s in quoted_places(other))
        if apart and _disagree(first, other, question, by_id):
            pairs = [(a, b) for a in _quoted(first, by_id) for b in _quoted(other, by_id)]
            if not any(_about_another(a, b, question) or _lacks_names(first, b, question) for a, b in pairs):
                return first, other
    return None


def _newest_edition(
    first: Claim, others: Sequence[Claim], passages: Mapping[str, Passage], question: str
) -> Claim | None:
    """Return the quote of the newest edition of the first quote's document; of the edition before, if that is it."""
    told = [c for c in others if tells_of_two_times(question, _said(first), _said(c))]
    newer = [c for c in told if _is_of_newer_edition(c, first, passages)]
    for quote in newer:
        if not any(_is_of_newer_edition(c, quote, passages) for c in newer):
            return quote
    return next((c for c in told if _is_of_newer_edition(first, c, passages)), None)


def _lacks_names(claim: Claim, other: Passage, question: str) -> bool:
    """Return whether a quote has all names of the question, and another passage none: the mill is not the museum."""
    names = {word.casefold() for word in _NAMES.findall(question) if word[0].isupper()}
    said, elsewhere = (
        {w.casefold() for w in re.findall(r"\w+", text)} for text in (claim.text, f"{titled(other)} {other.metadata}")
    )
    return bool(names) and names <= said and names.isdisjoint(elsewhere)


def _about_another(one: Passage, other: Passage, question: str) -> bool:
    """Return whether a heading of either names something of the question that the other does not speak of.

    The oven of another recipe may be hotter. Of two sections beside each other, such as records of two people, what
    the text of either names counts, too.
    """
    asked = _words(question)
    headings = [f"{p.title} {p.metadata.get('section', '')}".casefold() for p in (one, other)]
    named = [_words(heading) & asked for heading in headings]
    spoken = [_words(f"{heading} {p.text}") for heading, p in zip(headings, (one, other))]
    if _are_siblings(one, other):
        named = [words & asked for words in spoken]
    return bool(named[0] - spoken[1] or named[1] - spoken[0]) or kinds_apart(question, *headings)


def _words(text: str) -> set[str]:
    folded = text.casefold()
    return {stem(w) for w in _WORD.findall(folded)} | {*_COMPOUND.findall(folded), *_NUMBERED.findall(folded)}


def _are_fragments_apart(one: Claim, other: Claim, passages: Mapping[str, Passage]) -> bool:
    """Return whether a quote has no subject but the heading above it, and the other one's of that document is another.

    "Between 14:00 and 20:00." is of check-in, "Before 11:00." of check-out.
    """
    if names_subject(_said(one)) and names_subject(_said(other)):
        return False
    places = [(p, q) for p in _quoted(one, passages) for q in _quoted(other, passages)]
    return any(source_of(p) == source_of(q) and innermost(p) != innermost(q) for p, q in places)


def _are_siblings(one: Passage, other: Passage) -> bool:
    """Return whether two passages are of different sections of one document, below the same heading."""
    sections = [section_of(p).rpartition(" > ") for p in (one, other)]
    same = one.metadata.get("source") == other.metadata.get("source") and sections[0][0] == sections[1][0]
    return same and "" != sections[0][2] != sections[1][2] != ""


def _disagree(one: Claim, other: Claim, question: str, passages: Mapping[str, Passage]) -> bool:
    """Return whether one of two quotes refutes the other, or both answer otherwise in words of their own."""
    sides = [_said(one, passages), _said(other, passages)]
    if agree_where_asked(question, *sides) or only_one_holds(question, *sides):
        return False
    if _are_fragments_apart(one, other, passages):
        return False
    likely = (other.support or 0.0) >= _LIKELY * (one.support or 0.0)
    if any(_refutes(a, b, question, passages, likely) for a, b in ((one, other), (other, one))):
        return True
    changed = tells_change(question, *sides) or tells_change(question, *reversed(sides))
    return likely and (changed or answer_otherwise(question, *sides))


def _refutes(one: Claim, other: Claim, question: str, passages: Mapping[str, Passage], likely: bool) -> bool:
    """Return whether ``one`` refutes ``other``, and no longer does once one fact or the answers are exchanged.

    Args:
        likely: both are nearly as probable; else they have to say the same, but for one fact, of the same thing.
    """
    if tells_another(one.text, other.text):
        return False
    context = "\n".join([question, *(p.title for p in _quoted(one, passages))])
    found = compare_claim(other.text, one.text, context)
    if not found.refuted:
        return False
    sides = [_said(one, passages), _said(other, passages)]
    # Two numbers may differ as well because each counts something else: of notice, and of the deposit.
    if not found.same_subject and not (likely and speak_of_same(*sides)):
        return False
    # of two quotes each has names of its own for code and files
    (fact, *more) = [m for m in found.mismatches if m.kind != "literal"]
    # What speaks of a part or a case only says nothing of the whole but by a negation.
    narrowed = narrowed_apart(question, *sides)
    if narrowed and (fact.kind != "negation" or _one_is_asked_about(question, one, other, passages)):
        return False
    # A fact that the question names says which thing is meant ("the 1911 dam"); it is not what was asked.
    if not more and fact.kind != "addition" and not _holds(question, fact.claimed):
        return True
    mine, theirs = one.short_answer, other.short_answer
    if not mine or not theirs or _holds(mine, theirs) or _holds(theirs, mine):  # one is more exact
        return False
    exchanged = compare_claim(other.text.replace(theirs, mine), one.text, context)
    return all(m.kind == "literal" for m in exchanged.mismatches)


def _one_is_asked_about(question: str, one: Claim, other: Claim, passages: Mapping[str, Passage]) -> bool:
    """Return whether only one of two documents, as far as it was found, has a word that is asked about.

    What is not allowed "on the grounds" says nothing of the flat, of which the other document is.
    """
    texts: dict[str, str] = {}
    for p in passages.values():
        texts[source_of(p)] = f"{texts.get(source_of(p), '')}\n{above(p)}\n{p.text}"
    sides = [{source_of(p) for p in _quoted(c, passages)} for c in (one, other)]
    mine, theirs = ({w for source in side for w in _words(texts[source])} for side in sides)
    return bool(_words(question) & (mine ^ theirs))


def _holds(text: str, part: str) -> bool:
    # Not \b: an answer may begin or end with a sign ("$5", "C++"), where \b would want a letter beside it.
    return re.search(rf"(?<!\w){re.escape(part.casefold())}(?!\w)", text.casefold()) is not None
