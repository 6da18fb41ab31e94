"""Tell how often, how many and how much: every week or every other, both or one of the two, in full or in part."""

from __future__ import annotations

import re

from shared_core.citation.facts.quantities import UNITS, Quantity, Unit
from shared_core.citation.facts.tokens import Found, Sentence, content_keys, fold, stem, tokens_of
from shared_core.support.regex import lazy_regex

_EVERY_OTHER = lazy_regex(
    r"\bevery (second|other|third|fourth|fifth|sixth|2nd|3rd|4th|two|three|four|five|six) (\w+)", re.IGNORECASE
)
_ON_EACH = lazy_regex(r"\b(?:every|each) (?!second\b|other\b|third\b|two\b|single\b)(\w+)", re.IGNORECASE)
_DAILY = {"daily": "day", "weekly": "week", "monthly": "month", "yearly": "year", "annually": "year", "hourly": "hour"}


def more_often(claim: Sentence, nearest: Sentence) -> Found:
    """Find "every Friday", "daily" where the evidence has "every second Friday", "every two days"; or the reverse."""
    for one, other, turned in ((claim, nearest, False), (nearest, claim, True)):
        for rare in _EVERY_OTHER.finditer(other.text):
            often = next((m for m in _ON_EACH.finditer(one.text) if stem(m[1]) == stem(rare[2])), None)
            adverb = next((t.text for t in one.tokens if _DAILY.get(fold(t.text)) == stem(rare[2])), None)
            said = often.group() if often else adverb
            if said and not any(stem(m[2]) == stem(rare[2]) for m in _EVERY_OTHER.finditer(one.text)):
                return (rare.group(), said) if turned else (said, rare.group())
    return None


def is_every_other(quantity: Quantity, claim: Sentence, evidence: str) -> bool:
    """Whether a number is that of "every second day", or "every two days", where the evidence has "every other day"."""
    every = quantity.values == {2.0} and re.search(r"\bevery \Z", claim.text[: quantity.start], re.IGNORECASE)
    return bool(every and re.search(r"\b(?:every other|alternate)\b", evidence, re.IGNORECASE))


_BOTH = lazy_regex(r"\b(?:both|the two) (?:of )?(?:the |its |their |his |her )?(\w+)", re.IGNORECASE)
_ONE_OF = lazy_regex(
    r"\b(?:(?:only )?one|either|neither) of (?:the |its |their |his |her )?(?:two |both )?(\w+)", re.IGNORECASE
)


def both_of(claim: Sentence, nearest: Sentence) -> Found:
    """Find "both docks" where the evidence has "one of the two docks", or the other way round."""
    for one, other in ((claim, nearest), (nearest, claim)):
        both, single = _BOTH.search(one.text), _ONE_OF.search(other.text)
        if both is None or single is None or _ONE_OF.search(one.text) or "both " in other.text.lower():
            continue
        if stem(both[1]) == stem(single[1]):
            return (both.group(), single.group()) if one is claim else (single.group(), both.group())
    return None


_OPPOSED = (
    (
        r"\bunanimous\w*|\bwithout (?:a )?(?:dissent\w*|votes? against|abstentions?)|\bno (?:dissent|votes? against)",
        r"\bby (?:\w+ )?votes? to (?!zero|none|nil|0)\w+|\b(?:\d+|\w+) (?:votes? )?(?:against|opposed)\b|\bmajority\b"
        r"|\bby (?:a vote of )?\w+ votes to (?!zero|none|nil|0)\w+|\bvoted against\b",
    ),
    (
        r"\b(?:in part|partial(?:ly)?|partly|parts? of|extracts? (?:of|from)|excerpts? (?:of|from)|half of)\b",
        r"\b(?:only (?:\w+ ){0,3}(?:in full|as a whole|in its entirety|complete(?:ly)?|in one piece|whole)"
        r"|(?:in full|as a whole|in its entirety) only)\b",
    ),
)
_PAIRS = [tuple(lazy_regex(side, re.IGNORECASE) for side in pair) for pair in _OPPOSED]
_ALIKE = 0.5


def in_part(claim: Sentence, nearest: Sentence) -> Found:
    """Find "unanimously" where the evidence has "by five votes to two", "parts of" where it has "only in full"."""
    if claim.is_negated or nearest.is_negated:
        return None
    for pair in _PAIRS:
        for own, other in (pair, pair[::-1]):
            said, held = own.search(claim.text), other.search(nearest.text)
            if said and held and not own.search(nearest.text) and not other.search(claim.text):
                rest = content_keys(claim.tokens) - content_keys(tokens_of(said.group()))
                if rest and len(rest & nearest.keys) >= _ALIKE * len(rest):
                    return said.group(), held.group()
    return None


_ALL_OF = lazy_regex(r"\b(?:all|every|each|any|both) (?:of )?(?:the |our |its )?(\w+)", re.IGNORECASE)
_LIMIT = lazy_regex(
    r"\s(under|over|below|above|aged|with|without|from|who|whose|younger|older|up to)\s([^,;.]*)", re.IGNORECASE
)


def limited(claim: Sentence, nearest: Sentence) -> Found:
    """Find "all children" where the evidence has "children under six", whatever else it has all of."""
    for own in _ALL_OF.finditer(claim.text):
        thing = stem(own[1])
        held = [t for t in nearest.tokens if t.key == thing]
        if len(held) != 1 or any(stem(m[1]) == thing for m in _ALL_OF.finditer(nearest.text)):
            continue
        limit = _LIMIT.match(nearest.text, held[0].end)
        word = next((t for t in tokens_of(limit[2]) if not t.is_function_word), None) if limit else None
        if limit and word and word.key not in claim.keys and limit[1].lower() not in claim.text.lower():
            return own.group(), f"{held[0].text}{limit.group()}"
    return None


_COUNTED = lazy_regex(
    r"\b(half an?|half of an?|a quarter of an?|one|an?|two|three|four|[1-9]) "
    r"(\d+(?:[.,]\d+)? ?(?:mg|µg|mcg|g|kg|ml|l|cl|litre|liter|cm|mm|m)\b)",
    re.IGNORECASE,
)
_TIMES = {"one": 1.0, "a": 1.0, "an": 1.0, "two": 2.0, "three": 3.0, "four": 4.0}


def counted_otherwise(claim: Sentence, nearest: Sentence) -> Found:
    """Find "one 20 mg tablet" where the evidence has "half a 20 mg tablet"."""
    own, held = (
        {re.sub(r"\s", "", m[2].lower()): (_times(m[1].lower()), m.group()) for m in _COUNTED.finditer(s.text)}
        for s in (claim, nearest)
    )
    for measure, (times, words) in own.items():
        if measure in held and held[measure][0] != times:
            return words, held[measure][1]
    return None


def _times(word: str) -> float:
    if word.startswith("half"):
        return 0.5
    return 0.25 if word.startswith("a quarter") else _TIMES.get(word) or float(word)


_IN_UNIT = lazy_regex(r"\b(?:in|as) (?:whole |full )?([^\W\d_]{2,12})\b", re.IGNORECASE)


def in_other_unit(claim: Sentence, nearest: Sentence) -> Found:
    """Find "is given in kilograms" where the evidence has "in grams"."""
    own, held = ({m.group(): u for m in _IN_UNIT.finditer(s.text) if (u := _measure(m[1]))} for s in (claim, nearest))
    if len(own) != 1 or len(held) != 1:
        return None
    ((said, one),), ((other_said, other),) = own.items(), held.items()
    return (said, other_said) if one.dimension == other.dimension and one.factor != other.factor else None


def _measure(word: str) -> Unit | None:
    unit = UNITS.get(fold(word))
    return unit if unit and unit.dimension in ("mass", "length", "volume", "area", "time", "data", "speed") else None


_EVEN_IF = lazy_regex(
    r"\b(?:even (?:if|when|for|on|in|with)|whatever|whether or not|regardless of|no matter|irrespective of|including)\b"
    r"([^,.;]*)",
    re.IGNORECASE,
)
_CONDITION = lazy_regex(
    r"\b(?:if|unless|provided(?: that)?|as long as|except\w*|excluding|apart from|but not|not)\b([^,.;]*)",
    re.IGNORECASE,
)
_MOSTLY = 0.5


def even_if(claim: Sentence, nearest: Sentence) -> Found:
    """Find "whatever the label says" or "even if it rains" where the evidence makes it a condition or exception."""
    own = _EVEN_IF.search(claim.text)
    if own is None or _EVEN_IF.search(nearest.text):
        return None
    said = content_keys(tokens_of(own[1]))
    for condition in _CONDITION.finditer(nearest.text):
        if said and len(said & content_keys(tokens_of(condition[1]))) >= _MOSTLY * len(said):
            return own.group().strip(), condition.group().strip()
    return None


_ALWAYS = lazy_regex(r"\b(?:always|in (?:any|every|all) cases?|without exception)\b", re.IGNORECASE)
_NOT_ALWAYS = lazy_regex(
    r"\b(?:if|unless|except\w*|usual\w*|normal\w*|general\w*|typical\w*|mostly|often|sometimes|occasional\w*|provided"
    r"|(?-i:may)|might|only when|as a rule)\b",
    re.IGNORECASE,
)


def always_added(claim: Sentence, nearest: Sentence) -> Found:
    """Find "always" in the claim where the evidence has "usually", or a condition."""
    always, not_always = _ALWAYS.search(claim.text), _NOT_ALWAYS.search(nearest.text)
    if always is None or not_always is None or claim.is_negated or _ALWAYS.search(nearest.text):
        return None
    return None if _NOT_ALWAYS.search(claim.text) else (always.group(), not_always.group())


_ANY = lazy_regex(r"\bany (?!of\b)([^\W\d_]{3,})", re.IGNORECASE)


def any_kind(claim: Sentence, nearest: Sentence) -> Found:
    """Find "any colour" where the evidence has "a neutral colour"."""
    for own in _ANY.finditer(claim.text):
        at = [i for i, t in enumerate(nearest.tokens) if t.key == stem(own[1])]
        if len(at) != 1 or at[0] < 2:
            continue
        article, kind, thing = nearest.tokens[at[0] - 2 : at[0] + 1]
        plain = kind.is_content and not kind.is_capitalised and kind.key not in claim.keys
        if plain and fold(article.text) in ("a", "an", "one"):
            return own.group(), nearest.text[article.start : thing.end]
    return None


RULES = (
    more_often, both_of, in_part, limited, counted_otherwise, in_other_unit, even_if, always_added, any_kind,
)  # fmt: skip
"""What a claim says more, or less, than the sentence that speaks of the same."""
