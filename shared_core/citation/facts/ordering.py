"""Tell what comes first and what is more: "before it begins" for "after it ends", "A is larger than B"."""

from __future__ import annotations

import itertools
import re

from shared_core.citation.facts.negations import is_denied
from shared_core.citation.facts.opposites import is_opposite
from shared_core.citation.facts.tokens import Found, Sentence, Token, fold, stem, telling_keys, tokens_of
from shared_core.support.regex import lazy_regex

_BEFORE, _AFTER = ("before", "prior"), ("after", "following")
_THAN = lazy_regex(r"\bthan\b|\bas (?:\w+ly )?[a-z]+ (as)\b", re.IGNORECASE)
_END = lazy_regex(r"[,;](?!\d)|\b(?:and|but|while|whereas|although)\b")
_MORE, _LESS = frozenset("more better greater".split()), frozenset("less fewer worse".split())
_ALIKE = 0.6
_DEGREE = lazy_regex(r"\b(?:(more)|less|fewer) ([^\W\d_]{3,})", re.IGNORECASE)


def degree_turned(claim: Sentence, nearest: Sentence) -> Found:
    """Find "more often" where the evidence has "less often", and not "more often" too."""
    held = {(bool(m[1]), stem(m[2])): m.group() for m in _DEGREE.finditer(nearest.text)}
    for own in _DEGREE.finditer(claim.text):
        more, word = bool(own[1]), stem(own[2])
        if (not more, word) in held and (more, word) not in held and is_denied(claim) == is_denied(nearest):
            return own.group(), held[not more, word]
    return None


def order_turned(claim: Sentence, nearest: Sentence) -> bool | None:
    """Whether two things are said to come in another order ("before X, do Y": "after X, do Y", "before Y, do X").

    ``None`` where claim or evidence does not tell of an order, or they do not speak of the same two things.
    """
    own, other = _ordered(claim), _ordered(nearest)
    if own is None or other is None or is_denied(claim) != is_denied(nearest):
        return None
    straight = _are_alike(own[0], other[0]) and _are_alike(own[1], other[1])
    across = _are_alike(own[0], other[1]) and _are_alike(own[1], other[0])
    return None if straight == across else across


def _ordered(sentence: Sentence) -> tuple[set[str], set[str]] | None:
    """Return the words of what comes first, and of what comes then, by the one "before" or "after" of a sentence."""
    words = [fold(t.text) for t in sentence.tokens]
    for i, (one, following) in enumerate(itertools.pairwise(words)):
        if one == "once" and following not in _FREQUENCY and not sentence.tokens[i + 1].is_number:
            words[i] = "after"  # "once you have emptied it"
    at = [i for i, w in enumerate(words) if w in (*_BEFORE, *_AFTER)]
    if len(at) != 1:
        return _one_then_other(sentence) if not at else None
    start = sentence.tokens[at[0]].end
    cut = _END.search(sentence.text, start)
    end = cut.start() if cut else len(sentence.text)
    thing = telling_keys(t for t in sentence.tokens if start <= t.start < end)
    rest = [
        t for t in sentence.tokens if not start <= t.start < end and fold(t.text) not in (*_BEFORE, *_AFTER, "once")
    ]
    other = telling_keys(rest) - thing
    if not thing or not other:
        return None
    return (other, thing) if words[at[0]] in _BEFORE else (thing, other)


_FREQUENCY = frozenset("a an every per each in daily weekly monthly yearly again more upon only".split())


def _one_then_other(sentence: Sentence) -> tuple[set[str], set[str]] | None:
    """Return the words of the two parts of "let it cool, and only then stir in the eggs"."""
    match = _THEN.search(sentence.text)
    if match is None:
        return None
    cut = _END.search(sentence.text, match.end())
    end = cut.start() if cut else len(sentence.text)
    first = telling_keys(t for t in sentence.tokens if t.start < match.start())
    then = telling_keys(t for t in sentence.tokens if match.end() <= t.start < end)
    return (first - then, then) if first - then and then else None


_THEN = lazy_regex(r"[,;] (?:and |but )?(?:only )?then\b", re.IGNORECASE)


def _are_alike(one: set[str], other: set[str]) -> bool:
    """Whether most words of the smaller are words of the other."""
    small, large = sorted((one, other), key=len)
    return len(small & large) >= _ALIKE * len(small)


def compared_otherwise(claim: Sentence, nearest: Sentence) -> bool | None:
    """Whether "B is larger", or "A is smaller", stands against "A is larger than B" or "as large as B".

    ``None`` where the claim does not compare these.
    """
    for held_subject, word, held_standard in _compared(nearest):
        own = next((t for t in claim.tokens if t.key == word.key or _is_contrary(t, word)), None)
        if own is None or is_denied(claim) != is_denied(nearest):
            continue
        compared = [(named, s) for named, w, s in _compared(claim) if w is own]
        subject, standard = compared[0] if compared else (set(), set())
        subject |= telling_keys(t for t in claim.tokens if t.start < own.start) - standard
        subject |= {t.key for t in claim.tokens if t.start > own.end and t.is_number and t.key not in standard}
        mine = subject - held_subject
        if mine and mine <= held_standard and not standard & held_standard:
            return own.key == word.key
        if subject <= held_subject and (standard & held_standard or (subject and not standard)):
            return own.key != word.key
    return None


_BECAUSE = lazy_regex(r"\b(?:because(?: of)?|due to|owing to|as a (?:result|consequence) of)\b", re.IGNORECASE)
_CAUSED = lazy_regex(r"\b(?:(?:is|are|was|were|been) (?:\w+ly )?caused by|(?:resulted|results) from)\b", re.IGNORECASE)
_CAUSES = lazy_regex(
    r"(?<!\bwas )(?<!\bwere )(?<!\bis )(?<!\bare )\b(?:caused|causes|led to|leads to|resulted in|results in)\b",
    re.IGNORECASE,
)
_STEM = 4  # letters that "failed" and "failure" have in common


def cause_turned(claim: Sentence, nearest: Sentence) -> bool | None:
    """Whether the claim has as the cause what the evidence has as the effect, and the other way round.

    ``None`` where claim or evidence names no cause, or they do not speak of the same two things in the same words.
    """
    own, other = _caused(claim), _caused(nearest)
    if own is None or other is None or is_denied(claim) != is_denied(nearest):
        return None
    if own == other:
        return False
    (cause, effect), (held_cause, held_effect) = ((set(a), set(b)) for a, b in (own, other))
    straight = _are_alike(cause, held_cause) or _are_alike(effect, held_effect)
    return (not straight and _are_alike(cause, held_effect) and _are_alike(effect, held_cause)) or None


def _caused(sentence: Sentence) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Return the beginnings of the words of the cause and of those of the effect."""
    for pattern in (_CAUSED, _BECAUSE, _CAUSES):
        match = pattern.search(sentence.text)
        if match is None:
            continue
        before, behind = _beginnings(sentence.text[: match.start()]), _beginnings(sentence.text[match.end() :])
        if not before and (comma := sentence.text.find(", ", match.end())) > 0:  # "Because the dam broke, …"
            before, behind = _beginnings(sentence.text[comma:]), _beginnings(sentence.text[match.end() : comma])
        if before and behind and not set(before) & set(behind):
            return (before, behind) if pattern is _CAUSES else (behind, before)
    return None


def _beginnings(text: str) -> tuple[str, ...]:
    return tuple(t.key[:_STEM] for t in tokens_of(text) if t.is_content)


def _is_contrary(one: Token, other: Token) -> bool:
    words = {fold(one.text), fold(other.text)}
    return is_opposite(one, other) or bool(words & _MORE and words & _LESS)


def _compared(sentence: Sentence) -> list[tuple[set[str], Token, set[str]]]:
    """Return what is compared, the word by which it is, and what it is compared with, of each "than" and "as … as"."""
    found = []
    for match in _THAN.finditer(sentence.text):
        before = [t for t in sentence.tokens if t.end <= match.end(0) - len("than")]
        words = [t for t in before if fold(t.text) != "as"]
        word = next((t for t in reversed(words) if fold(t.text).endswith("er") or fold(t.text) in _MORE | _LESS), None)
        word = words[-1] if match[1] and words else word
        if word is None:
            continue
        cuts = [m.end() for m in _END.finditer(sentence.text, 0, word.start)]
        begin = cuts[-1] if cuts and not match[1] and any(cuts[-1] <= t.start < word.start for t in words) else 0
        end = next((m.start() for m in _END.finditer(sentence.text, match.end())), len(sentence.text))
        subject = telling_keys(t for t in words if t.start >= begin and t is not word)
        behind = telling_keys(t for t in sentence.tokens if match.end() <= t.start < end)
        found.append((subject, word, behind - subject))
    return found
