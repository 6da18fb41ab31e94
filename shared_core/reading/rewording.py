"""Read a question in the words of the passages: misspelt words corrected, abbreviations beside what they stand for.

The network knows words by their pieces, and figures compare words as they are written, so that one wrong letter or an
abbreviation can hide the sentence that answers. Corrections are narrow, as another word can be another question: only
an unknown word in small letters, one letter away from one known word. A name is never corrected.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from string import ascii_lowercase

from shared_core.reading.ages import read_groups
from shared_core.reading.attributes import read_attributes
from shared_core.reading.days import ask_closed, read_days, read_holidays, read_months
from shared_core.reading.features import STOP_WORDS, stem
from shared_core.reading.language import word_list
from shared_core.reading.within import read_ranges
from shared_core.support.regex import lazy_regex
from shared_core.types import Passage

LEAST = 5
"""Letters of a word that is corrected: short ones have too many neighbours."""
MOST = 32
"""Letters of a word that is corrected: longer ones are no words, and their neighbours are as many as they are long."""
COMMON = STOP_WORDS | word_list("common")
"""Words that a misspelt one is corrected to though the passages lack them: they name nothing."""
_WORD = lazy_regex(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
_ALONE = lazy_regex(r"(?<![\w./\\@#$%&*+=~^<>{}\[\]`-])[a-z]+(?![\w/\\@#$%*+=~^<>{}\[\]`'’-]|\.\w)")
_ITEM_BEGINS = lazy_regex(r"(?:^[ \t>]*(?:[-*•+]|\d{1,3}[.)])|\|)[ \t*_\"“]*\Z", re.MULTILINE)
_ABBREVIATION = lazy_regex(r"(?<![\w.(-])(?=[A-Z0-9]*[A-Z][A-Z0-9]*[A-Z])[A-Z][A-Z0-9]{1,6}(?![\w.-])")
_DEFINED = lazy_regex(r"\([\s\"“”'‘]*([A-Z][A-Z0-9]{1,6})[\s\"“”'’]*\)")
_LINKS = word_list("links")
_SET = (
    r"(?:set|given?|specif(?:y|ied)|configured?|changed?|provided?|defined?|ch(?:oo|o)sen?|supplied|supply|passe?d?"
    r"|touche?d?|sa(?:y|id)|t(?:ell|old)|overrid(?:e|den)|customi[sz]ed?)"
)
_NOT = r"(?:(?:do|does|did|have|has|had|is|are|was)(?:n['’]t| not)|never)"
_OTHERWISE = r"(?:otherwise|differently|something else)"
_ANYTHING = rf"(?: (?:it|one|them|that|this|anything|any(?: \w+)?|{_OTHERWISE}|for it|by (?:me|you|us)|at all))*"
_UNSET = lazy_regex(
    r",?\s{1,3}(?:out of the box|(?:if|when|where) (?:"
    rf"(?:nothing|none|no \w+(?: \w+)?) (?:is|are|was|has been|have been) {_SET}{_ANYTHING}"
    rf"|(?:I|you|we|it|they|one) {_NOT} (?:been )?{_SET}{_ANYTHING}"
    r"|(?:(?:I|you|we) leave (?:it|this|that)|(?:(?:it|this) is )?left) (?:unset|empty|blank|alone|unchanged|out)"
    r"|(?:(?:it|this) is |it['’]s )?(?:unset|not set|unspecified|not specified|omitted))"
    rf"|unless (?:(?:I|you|we|it is|it['’]s|they|someone) )?(?:explicitly )?{_SET}(?: it)? {_OTHERWISE}"
    r"|without (?:setting|changing|configuring|specifying) (?:it|anything|any \w+))(?=\s*\??\s*\Z|,)",
    re.IGNORECASE,
)
"""The end of a question for a default that does not call it so."""
_ASKS_EFFECT = lazy_regex(r"\W*what (?:if|happens|(?:will|would|does) happen)\b", re.IGNORECASE)

Number = Callable[[str], int | None]


def reword(question: str, passages: Sequence[Passage], number: Number) -> str:
    """Return the question as it should be read beside these passages; itself if nothing is to be changed.

    Args:
        number: maps a word in small letters to its number among known words, most frequent first; ``None`` if unknown.
    """
    texts = [f"{p.title}\n{p.text}" for p in passages]
    if any("default" in text.casefold() for text in texts):
        question = ask_default(question)
    question = read_holidays(read_months(read_attributes(read_groups(question, texts), texts), texts), texts)
    question = read_ranges(question, texts)
    return _spell_out(ask_closed(read_days(_correct(question, texts, number), texts), texts), texts, number)


def ask_default(question: str) -> str:
    """Return a question that asks for a default in the words that documents have for it.

    >>> ask_default("Which port is used when none is given?"), ask_default("What if no key is set, and none is stored?")
    ('Which port is used by default?', 'What if no key is set, and none is stored?')
    """
    return question if _ASKS_EFFECT.match(question) else _UNSET.sub(" by default", question)


def _correct(question: str, texts: Sequence[str], number: Number) -> str:
    asked = {w for w in _ALONE.findall(question) if LEAST <= len(w) <= MOST and number(w) is None}
    if not asked:
        return question
    words = [Counter(w.casefold() for w in _WORD.findall(text)) for text in texts]
    held = sum(words, Counter[str]())
    fixed = {}
    for word in asked:
        if word in held or any(word.startswith(h) or h.startswith(word) for h in held if len(h) >= LEAST - 1):
            continue  # a form of a word that is there
        near = sorted({other for other in _neighbours(word) if stem(other) != stem(word)}, key=lambda w: (-held[w], w))
        rest = {w for w in _WORD.findall(question.casefold()) if w != word and w not in COMMON}
        beside = tuple(re.findall(rf"(?:([a-z]+) )?\b{word}\b(?: ([a-z]+))?", question)[0])
        fitting = (
            w
            for w in near
            if w in COMMON
            or (held[w] and number(w) is not None and _fits(w, rest, words) and _is_no_name(w, beside, texts))
        )
        if found := next(fitting, None):
            fixed[word] = found
    return _ALONE.sub(lambda m: fixed.get(m.group(), m.group()), question)


def _fits(word: str, rest: set[str], texts: Sequence[Mapping[str, int]]) -> bool:
    """Whether a text with the word has half of the question's other words too: it treats what is asked for."""
    stems = {stem(w) for w in rest}
    return any(2 * len(stems & {stem(w) for w in text}) >= len(stems) for text in texts if word in text)


def _neighbours(word: str) -> Iterator[str]:
    """Yield what is one slip away: a letter left out, added, wrong or swapped with the next.

    The first letter and the last stay: other ends make other forms or other words ("system", "systemd").
    """
    for i in range(1, len(word)):
        head, tail = word[:i], word[i:]
        yield from (head + x + tail for x in ascii_lowercase)
        if len(tail) > 1:
            yield from (head + x + tail[1:] for x in ascii_lowercase if x != tail[0])
            yield head + tail[1:]
            yield head + tail[1] + tail[0] + tail[2:]


def _is_no_name(word: str, beside: tuple[str, str], texts: Sequence[str]) -> bool:
    """Whether a word stands somewhere in small letters, or at the beginning of an item of a list or table.

    Or in capitals, which names have too, behind or before the same word as in the question.
    """
    before, after = (w.upper() if w not in COMMON else "" for w in beside)
    shouted = [rf"{before} {word.upper()}"] * bool(before) + [rf"{word.upper()} {after}"] * bool(after)
    if any(re.search(rf"\b(?:{'|'.join((word, *shouted))})\b", text) for text in texts):
        return True
    capital = re.compile(rf"\b{word.capitalize()}\b")
    return any(_ITEM_BEGINS.search(text[: m.start()][-40:]) for text in texts for m in capital.finditer(text))


def _spell_out(question: str, texts: Sequence[str], number: Number) -> str:
    """Put beside an abbreviation what it stands for, and the other way round, where a passage has only the other."""
    defined = _defined(texts)
    for match in reversed(list(_ABBREVIATION.finditer(question))):
        short = match.group()
        long = defined.get(short) or ("" if number(short.lower()) is not None else _implied(short, texts))
        if long and long.casefold() not in question.casefold() and _one_without(texts, long, short):
            question = f"{question[: match.end()]} ({long}){question[match.end() :]}"
    for short, long in defined.items():
        at = re.search(rf"\b{re.escape(long)}\b", question, re.IGNORECASE)
        if at and not re.search(rf"\b{re.escape(short)}\b", question) and _one_without(texts, short, long):
            question = f"{question[: at.end()]} ({short}){question[at.end() :]}"
    return question


def _one_without(texts: Iterable[str], one: str, other: str) -> bool:
    """Whether a text has the one and not the other."""
    a, b = (re.compile(rf"\b{re.escape(x)}\b", re.IGNORECASE) for x in (one, other))
    return any(a.search(text) and not b.search(text) for text in texts)


def _defined(texts: Iterable[str]) -> dict[str, str]:
    """Find abbreviations that a text explains: "Homeowners Association (HOA)"."""
    found: dict[str, str] = {}
    for text in texts:
        for match in _DEFINED.finditer(text):
            short, before = match.group(1), text[: match.start()][-150:].split()
            long = _long_form(short, " ".join(before[-min(len(short) + 5, 2 * len(short)) :]))
            if len(long.split()) > 1:
                found.setdefault(short, long)
    return found


def _long_form(short: str, before: str) -> str:
    """Return the end of the words ``before`` an abbreviation that has its letters in order; "" if there is none.

    Source: Schwartz & Hearst 2003, "A simple algorithm for identifying abbreviation definitions in biomedical text",
    figure 1: from the right, each letter at its last place, and the first at the beginning of a word.
    """
    at = len(before)
    for i in range(len(short) - 1, -1, -1):
        at -= 1
        while at >= 0 and (before[at].upper() != short[i] or (i == 0 and at > 0 and before[at - 1].isalnum())):
            at -= 1
        if at < 0:
            return ""
    return before[at:]


def _implied(short: str, texts: Iterable[str]) -> str:
    """Find the name of three words or more whose capitals an abbreviation has; "" if there is none, or several."""
    if len(short) < 3 or not short.isalpha():
        return ""
    found = set()
    for text in texts:
        words = text.split()
        for start, word in enumerate(words):
            if word[:1] != short[0]:
                continue
            for stop in range(start + len(short), min(len(words), start + 2 * len(short)) + 1):
                named = [w.strip('.,;:()"“”') for w in words[start:stop]]
                if all(w in _LINKS or w[:1].isupper() for w in named) and _stands_for(short, named):
                    found.add(" ".join(named))
                    break
    return found.pop() if len(found) == 1 else ""


def _stands_for(short: str, words: Sequence[str]) -> bool:
    """Whether an abbreviation consists of the words' first letters, with or without those of small words."""
    if words[0].casefold() in _LINKS or words[-1].casefold() in _LINKS:
        return False
    parts = [p for w in words for p in re.findall(r"\w[\w'’]*", w)]
    every = "".join(p[0] for p in parts).upper()
    return short in (every, "".join(p[0] for p in parts if p.casefold() not in _LINKS).upper())
