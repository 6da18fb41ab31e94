"""Find numbers, dates, names and adjectives that the evidence has, but says of something else than the claim does.

``attached_otherwise`` tells apart what one sentence says of several things: "8 euros for adults and 3 for children".
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence, Set
from functools import lru_cache
from typing import NamedTuple

from shared_core.citation.facts.arithmetic import equal_quantity
from shared_core.citation.facts.dates import Date, dates_in_digits, dates_of, same_date
from shared_core.citation.facts.negations import is_denied
from shared_core.citation.facts.opposites import side_of
from shared_core.citation.facts.quantities import UNITS, Quantity, quantities_of
from shared_core.citation.facts.tokens import (
    Found,
    Sentence,
    Token,
    clauses_of,
    content_keys,
    fields_of,
    fold,
    stem,
    telling_keys_of,
    tokens_of,
)
from shared_core.support.regex import lazy_regex

_FAR = 8
"""Words between two numbers at most: what is further apart is no list."""
_MOST = 12  # numbers of a sentence; more are a table
_OF_BOTH = lazy_regex(r"\bof (?:whom|which|these|those)\b")
_CUT = lazy_regex(r"\b(?:and|but|while|to|or|whereas)\b|[,;](?!\d)|[()]")


def attached_otherwise(
    claim: Sentence, quantity: Quantity, held: Sentence, asked: Set[str] = frozenset()
) -> Quantity | None:
    """Return the number that a sentence gives for what the claim speaks of, where it gives the claim's for another.

    The sentence is cut between its numbers, at the conjunction before the next or else behind the last. Each part has
    words that the others lack. If the claim has such words of another number's part, and none of its own number's, it
    speaks of the other.

    Args:
        quantity: one of its numbers, which ``held`` has as well.
        asked: words of the question, which may name what the claim only answers ("Up to 190 euros").
    """
    dated = dates_in_digits(held.text)
    every = [q for q in quantities_of(held.text) if not q.is_year and not q.ordinal]
    numbers = [q for q in every if not any(q.start in r for r in dated)]
    own = next((i for i, q in enumerate(numbers) if q.values & quantity.values), None)
    if own is None or not 2 <= len(numbers) <= _MOST:
        return None
    claimed = quantities_of(claim.text)
    parts = parts_of(held.text, numbers)
    if parts is None:
        return None
    said = _words(claim.text)
    whole = [_words(held.text[a:b]) for a, b in parts]
    if own and _OF_BOTH.search(held.text, numbers[own].end):
        return None  # "3 million served, 1.5 million of whom fought": the part shares the words of the whole
    behind = _words(held.text[numbers[own].end : parts[own][1]]) if own == 0 else whole[own]
    mine = (behind or whole[own]) - set().union(*(w for i, w in enumerate(whole) if i != own))
    if mine & asked and not mine & said:
        return None
    for i, other in enumerate(numbers):
        theirs = whole[i] - set().union(*(w for j, w in enumerate(whole) if j != i))
        comparable = other.dimension == quantity.dimension and not any(other.values & c.values for c in claimed)
        if i == own or not comparable or not theirs & said:
            continue
        if own == 0 and not _words(held.text[other.end : parts[i][1]]):
            # ", the team plan 50": what it leaves out stands behind the first number, what it has before it
            before = [t.key for t in tokens_of(held.text[parts[0][0] : numbers[own].start]) if t.is_content]
            first = [w for w in before if w not in whole[i]][: len(theirs)]
            if first and not said & set(first):
                return other
        elif mine and (not mine & said or (theirs <= said and not mine <= said)):
            return other
    return None


def in_other_year(claim: Sentence, held: Sentence) -> Found:
    """Find "enlarged in 1890" where the evidence has "built in 1890 and enlarged in 1923": another part's year."""
    years = [q for q in quantities_of(held.text) if q.is_year and not q.last]
    said = [q for q in quantities_of(claim.text) if q.is_year]
    if not 2 <= len(years) <= _MOST or len(said) != 1 or is_denied(claim) != is_denied(held):
        return None
    own = [i for i, year in enumerate(years) if year.values & said[0].values]
    parts = parts_of(held.text, years)
    if len(own) != 1 or parts is None:
        return None
    clause = content_keys(next(c for c in clauses_of(claim) if c[-1].end > said[0].start))
    words = [content_keys(tokens_of(held.text[a:b])) for a, b in parts]
    alone = [w - set().union(*(o for o in words if o is not w)) for w in words]
    if not alone[own[0]] or alone[own[0]] <= clause:
        return None
    other = next((i for i, w in enumerate(alone) if i != own[0] and w and w <= clause), None)
    return None if other is None else (said[0].text, years[other].text)


def parts_of(text: str, numbers: Sequence[Quantity]) -> list[tuple[int, int]] | None:
    """Cut the text between each two numbers; ``None`` if there is no conjunction or comma to cut at.

    What stands before a colon ("Fees (in euros): adults 8, children 3") is said of all of them, and of no part.
    """
    colon = text.rfind(": ", 0, numbers[0].start) + 1
    cuts = [colon if _words(text[colon : numbers[0].start]) else 0]
    for one, other in itertools.pairwise(numbers):
        found = list(_CUT.finditer(text, one.end, other.start))
        if not found or len(text[one.end : other.start].split()) > _FAR:
            return None
        directly = not text[found[-1].end() : other.start].strip()
        cuts.append((found[-1] if directly else found[0]).start())
    return list(zip(cuts, [*cuts[1:], len(text)], strict=True))


@lru_cache(maxsize=4096)
def _words(text: str) -> frozenset[str]:
    """Keys of content words and years."""
    years = {str(int(min(q.values))) for q in quantities_of(text) if q.is_year and not q.last}
    return frozenset(content_keys(tokens_of(text)) | years)


def exchanged(claim: Sentence, held: Sentence) -> tuple[Quantity, Quantity] | None:
    """Find two numbers of both sentences that have changed places: each has the word beside it that the other had.

    "Elected in 1817, served until 1809"; "2 euros for adults and 3 for children", where "euros" tells nothing. Returns
    a number of the claim, and the one that the sentence has in its place.
    """
    one, other = _by_value(claim), _by_value(held)
    for a, b in itertools.combinations(sorted(one.keys() & other.keys()), 2):
        for mine, theirs in (
            ((one[a].before, one[b].before), (other[b].before, other[a].before)),
            ((one[a].behind, one[b].behind), (other[b].behind, other[a].behind)),
        ):
            said = _telling(*mine)
            if said is not None and said == _telling(*theirs):
                return one[a].number, other[b].number
    return None


class _Placed(NamedTuple):
    """A number, with the content words up to the numbers beside it, nearest first."""

    number: Quantity
    before: list[str]
    behind: list[str]


def _by_value(sentence: Sentence) -> dict[float, _Placed]:
    """Map the values of the numbers that a sentence has once to them."""
    numbers = quantities_of(sentence.text)
    content = [t for t in sentence.tokens if t.is_content and t.key != "compar"]  # either way round
    found: dict[float, _Placed] = {}
    for last, q, following in zip([None, *numbers], numbers, [*numbers[1:], None], strict=False):
        before = [t.key for t in content if (last.end if last else 0) <= t.start < q.start]
        end = following.start if following else len(sentence.text)
        if len(q.values) == 1:
            found[min(q.values)] = _Placed(q, before[::-1], [t.key for t in content if q.end <= t.start < end])
    return {v: found[v] for v in found if sum(v in q.values for q in numbers) == 1}


def _telling(words: Sequence[str], others: Sequence[str]) -> Found:
    """Return the nearest word of each that the other lacks; ``None`` if one has none."""
    mine, theirs = [w for w in words if w not in others], [w for w in others if w not in words]
    return (mine[0], theirs[0]) if mine and theirs else None


_FROM_BEFORE = lazy_regex(r"\bfrom (?:about |around |just )?\Z", re.IGNORECASE)
_TO = lazy_regex(r",? to (?:about |around |just |over |nearly )?")
_FROM = lazy_regex(r",? (?:up|down|an? \w+|\w+(?:ed|ing)) from (?:about |around |just )?")
_RISES = side_of("rise") or (-1, 0)
_AGAINST = lazy_regex(r",? (?:(?:up|down|as) )?(?:compared (?:with|to)|versus|vs\.?|against) (?:about |around |just )?")
_EARLIER = lazy_regex(r"[^.;,]{0,40}\b(?:prior|previous|last|earlier|ago|before|preceding)\b")


def changed_otherwise(claim: Sentence, held: Sentence) -> Found:
    """Find "rose from 39 to 40", or "rose to 39", where the sentence has "39, compared with 40 the year before"."""
    for before, now in _changes(held.text):
        if any(equal_quantity(a, now) and equal_quantity(b, before) for a, b in _changes(claim.text)):
            return claim.text.strip(), held.text[min(before.start, now.start) : max(before.end, now.end)]
        own = [q for q in quantities_of(claim.text) if q.dimension == now.dimension and not q.is_year]
        if is_denied(claim) or len(own) != 1 or not equal_quantity(own[0], now):
            continue
        clause = next((c for c in clauses_of(claim) if c[-1].end > own[0].start), ())
        ways = {side[1] for t in clause if (side := side_of(t.text)) and side[0] == _RISES[0]}
        if len(ways) != 1:
            continue
        rises = min(now.values) > min(before.values)
        if (
            len(before.values) == len(now.values) == 1
            and rises != (ways == {_RISES[1]})
            and now.values != before.values
        ):
            return claim.text.strip(), held.text[min(before.start, now.start) : max(before.end, now.end)]
    return None


def _changes(text: str) -> list[tuple[Quantity, Quantity]]:
    """Pairs of numbers of one unit, of which the first became the second."""
    found = []
    for one, two in itertools.pairwise(q for q in quantities_of(text) if not q.is_year and not q.ordinal):
        between = text[one.end : two.start]
        if one.dimension != two.dimension:
            continue
        if _FROM_BEFORE.search(text[: one.start]) and _TO.fullmatch(between):
            found.append((one, two))
        elif _FROM.fullmatch(between) or (_AGAINST.fullmatch(between) and _EARLIER.match(text, two.end)):
            found.append((two, one))
    return found


def dated_otherwise(claim: Sentence, held: Sentence) -> Found:
    """Find a date that a sentence gives for another of the things it dates: "A goes in May, and B goes in June"."""
    said = dates_of(claim.text)
    clauses = [(c, found) for c in clauses_of(held) if len(found := dates_of(held.text[c[0].start : c[-1].end])) == 1]
    if len(said) != 1 or len(clauses) != len(dates_of(held.text)) or len(clauses) < 2:
        return None
    words = [content_keys(c) for c, _ in clauses]
    alone = [w - set().union(*(o for o in words if o is not w)) for w in words]
    mine = [i for i, (_, found) in enumerate(clauses) if same_date(said[0], found[0])]
    if len(mine) != 1 or (alone[mine[0]] - _dated(clauses[mine[0]][1])) & claim.keys:
        return None
    if not words[mine[0]] - _dated(clauses[mine[0]][1]):
        return None  # the last of a list: "in January, March and June"
    others = [i for i, keys in enumerate(alone) if i != mine[0] and (keys - _dated(clauses[i][1])) & claim.keys]
    return (said[0].text, clauses[others[0]][1][0].text) if len(others) == 1 else None


def _dated(dates: Sequence[Date]) -> set[str]:
    return {t.key for d in dates for t in tokens_of(d.text)}


_RATE = lazy_regex(
    r"\s?(?:[^\W\d_]+\s)?(?:(?:per\s|/\s?)([^\W\d_]+)"
    r"|(?:an?|each|every)\s(second|minute|hour|day|night|week|fortnight|month|quarter|year)\b)"
)
_WITHIN = lazy_regex(r"\b(within|after)\s\Z", re.IGNORECASE)


def other_rate(claim: Sentence, quantity: Quantity, held: Sentence) -> Found:
    """Find a number that is "per week" in the claim and "per night" in the sentence, or "after" and "within"."""
    same = [q for q in quantities_of(held.text) if equal_quantity(quantity, q)]
    if len(same) != 1:
        return None
    other = same[0]
    own_bound, bound = (_WITHIN.search(s.text[: q.start]) for s, q in ((claim, quantity), (held, other)))
    if own_bound and bound and own_bound[1].lower() != bound[1].lower() and is_denied(claim) == is_denied(held):
        return claim.text[own_bound.start() : quantity.end], held.text[bound.start() : other.end]
    own_rates, rates = _rates(claim.text, quantity.end), _rates(held.text, other.end)
    if own_rates and rates and not own_rates.keys() & rates.keys():
        return next(iter(own_rates.values())), next(iter(rates.values()))
    return None


def _rates(text: str, at: int) -> dict[object, str]:
    """Map what a number is for each of ("per person per night") to the words."""
    found: dict[object, str] = {}
    while match := _RATE.match(text, at):
        word = (match[1] or match[2]).lower()
        found[UNITS.get("day" if word == "night" else word) or stem(word)] = match.group().strip()
        at = match.end()
    return found


_STRICT = lazy_regex(
    r"(?<!\bno )(?<!\bnot )\b(?:(?:more|greater|higher|longer|larger|less|fewer|lower|shorter) than"
    r"|exceed\w*|under|below|above) \Z",
    re.IGNORECASE,
)
_LARGER = lazy_regex(
    r"\b(?:larger|bigger|more|greater|longer|higher|older|above|over|beyond|exceed\w*)\b", re.IGNORECASE
)
_SMALLER = lazy_regex(r"\b(?:smaller|less|fewer|shorter|lower|younger|below|under)\b", re.IGNORECASE)
_AT_MOST = lazy_regex(r"\b(?:up to|at most|(?:no|not) more than|(?:a )?maximum(?: of)?) \Z", re.IGNORECASE)
_MOST_OF = lazy_regex(
    r"\b(?:may|can|could|might|allow\w*|permit\w*|max\w*|limit\w*|most|cap\w*|range\w*|between|as (?:many|much)"
    r"|sleeps?|seats?|holds?|fits?|accommodat\w+|room for)\b",
    re.IGNORECASE,
)


def other_bound(claim: Sentence, quantity: Quantity, held: Sentence) -> Found:
    """Find a number of both that is "at least" in the claim and "at most" in the sentence, or a bound of one only.

    "Up to 140" is not 140, and 140 is not more than 140; "about 140", and "at least" left out, are let pass.
    """
    same = [q for q in quantities_of(held.text) if equal_quantity(quantity, q)]
    own = _bound_of(quantity, claim.text)
    turned = {"above": "below", "below": "above"}.get(own)
    hedges = {_bound_of(q, held.text) for q in same}
    if (others := _OTHERS.search(held.text)) and any(
        equal_quantity(q, c)
        for q in quantities_of(held.text[others.end() :])
        for c in quantities_of(claim.text)
        if c != quantity
    ):
        return None  # "over 3.5 tonnes €20, others €10" speaks of what is beyond the bound as well
    beyond = {"below": _LARGER, "above": _SMALLER}.get(turned or "")
    if hedges == {turned} and not (beyond and beyond.search(held.text, same[0].end)):
        return f"{own} {quantity.text}", f"{turned} {quantity.text}"
    strict = _STRICT.search(claim.text[: quantity.start])
    if strict and hedges == {""} and not re.search("[<>≤≥]", held.text) and is_denied(claim) == is_denied(held):
        return claim.text[strict.start() : quantity.end], held.text[same[0].start : same[0].end]
    bounds = [_AT_MOST.search(held.text[: q.start]) for q in same]
    says_more = not quantity.hedge and not _MOST_OF.search(claim.text) and not is_denied(claim)
    if says_more and all(bounds) and (bound := bounds[0]) and any(t.end <= quantity.start for t in claim.tokens[1:]):
        return claim.text[quantity.start : quantity.end], held.text[bound.start() : same[0].end]
    return None


def _bound_of(quantity: Quantity, text: str) -> str:
    """Return its bound: "no later than ten days before" is at least ten days before."""
    ahead = _LATEST.search(text[: quantity.start]) and _AHEAD.match(text, quantity.end)
    return {"below": "above", "above": "below"}.get(quantity.hedge, quantity.hedge) if ahead else quantity.hedge


_OTHERS = lazy_regex(r"\b(?:others|otherwise|the rest)\b", re.IGNORECASE)
_LATEST = lazy_regex(r"\b(?:no|not) (?:later|earlier|sooner) than \Z", re.IGNORECASE)
_AHEAD = lazy_regex(r"\s?(?:\w+ )?(?:before|ahead|in advance|prior|earlier|beforehand)\b", re.IGNORECASE)


def other_subject(claim: Sentence, held: Sentence) -> Found:
    """Find "the case is poor" where a sentence has "the case is sturdy, but the cable is poor"."""
    own = _predicated(claim.tokens)
    if own is None or is_denied(claim) or is_denied(held):
        return None
    subject, said = own
    clauses = [(c, found) for c in clauses_of(held) if (found := _predicated(c)) is not None]
    for clause, (thing, told) in clauses:
        if not subject <= thing or said & told:
            continue
        if any(said <= other and not subject & them and not them & thing for _, (them, other) in clauses):
            return claim.text.strip(), held.text[clause[0].start : clause[-1].end]
    return None


def _predicated(tokens: Sequence[Token]) -> tuple[set[str], set[str]] | None:
    """Return the words before and behind the one "is", "are", "was" or "were"; ``None`` without words on a side."""
    at = [i for i, t in enumerate(tokens) if fold(t.text) in ("is", "are", "was", "were")]
    if len(at) != 1:
        return None
    subject, said = (content_keys(part) for part in (tokens[: at[0]], tokens[at[0] + 1 :]))
    return (subject, said) if subject and said else None


def other_row(claim: Sentence, held: Sequence[Sentence]) -> Found:
    """Find a value that a table has in another row than the claim: "Sales in the South were 120".

    Rows are written as fields ("Region: South; Sales: 95"); the claim must name the field, and the row by another one.
    """
    text = "\n".join(s.text for s in held)
    rows = [fields for line in text.splitlines() if len(fields := [f for f in fields_of(line) if f[1]]) > 1]
    said = claim.keys
    for row in rows:
        for field, value in row:
            keys = telling_keys_of(value)
            named = [v for f, v in row if f != field and _words(v) and telling_keys_of(v) <= said]
            if not keys or keys <= said or not _words(field) <= said or not _words(field) or not named:
                continue
            others = [
                r for r in rows if r is not row and dict(r).get(field) and telling_keys_of(dict(r)[field]) <= said
            ]
            if others and not any(v in dict(r).values() for r in others for v in named):
                return claim.text.strip(), "; ".join(f"{f}: {v}" for f, v in row)
    return None


_PART = lazy_regex(r";\s|\b(?:and|but|while|whereas|before|after|when|until)\b")
_NAMED = r"(?:the\s+)?(?:[12]\d{3}|[A-Z][\w’'-]+(?:\s+[A-Z][\w’'-]+)*)"
_ITEM = lazy_regex(rf"\W*(?:(?:in|at|to|from|for|on|with)\s+)?{_NAMED}\W*")
_PLACE = lazy_regex(
    r"\b(in|at|to|from|for|on|with)\s+(?:the\s+)?([12]\d{3}\b(?!\s+\w+s\b)|[A-Z][\w’'-]+(?:\s+[A-Z][\w’'-]+)*)"
)


def placed_otherwise(claim: Sentence, held: Sentence) -> Found:
    """Find a name or year of the claim that a sentence gives for another of its statements.

    "She died in Skell" where the evidence has "She was born in Skell and died in Paris": the part that says most of the
    claim has another name behind the same preposition.
    """
    parts = _statements(held.text)
    if len(parts) < 2:
        return None
    said = _words(claim.text)
    plain = said - {t.key for t in tokens_of(claim.text) if t.is_capitalised}
    for mine in _PLACE.finditer(claim.text):
        rest = plain - _words(mine[2])
        best = max(parts, key=lambda part: len(rest & _words(part)))
        elsewhere = any(mine[2] in part for part in parts if part is not best)
        tied = any(mine[2] in part and len(rest & _words(part)) == len(rest & _words(best)) for part in parts)
        names = said - plain - _words(mine[2]) - _words(best)
        if any(mine[2] in part and names & _words(part) and _has_no_verb(part) for part in parts):
            continue  # "Mora was settled in 1910 and Keln in 1920"
        own = [part for part in parts if mine[2] in part]
        if is_denied(claim) and any(t.is_negation for part in own for t in tokens_of(part)):
            continue  # "on Windows, but not on Linux"
        if tied or not elsewhere or all(key[:1].isdigit() for key in rest & _words(best)):
            continue
        for other in _PLACE.finditer(best):
            same_kind = mine[2][:1].isdigit() == other[2][:1].isdigit()
            if mine[1] == other[1] and same_kind and not _words(other[2]) & said:
                return mine[0], other[0]
    return None


def _has_no_verb(part: str) -> bool:
    """Whether a part of a sentence has but names and numbers: "Keln in 1920"."""
    return all(t.is_capitalised or t.is_number or not t.is_content for t in tokens_of(part))


def _statements(text: str) -> list[str]:
    """Cut a text at semicolons and conjunctions, but not before the last of a list: "in York and Leeds"."""
    parts: list[str] = []
    for part in _PART.split(text):
        if parts and _ITEM.fullmatch(part):
            parts[-1] += f" {part}"
        elif part.strip():
            parts.append(part)
    return parts
