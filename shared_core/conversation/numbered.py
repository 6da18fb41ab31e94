"""Numbers, versions and letters that belong to a name: "Windows 11", "flat 12", "hepatitis B", "12 Harbour Street"."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from shared_core.support.files import read_lists
from shared_core.support.regex import lazy_regex

WORD = lazy_regex(r"[^\W_]+(?:[-'’_.&][^\W_]+)*|&")
LISTS = read_lists("shared_core.conversation", "words.txt")
WORDS = {name: frozenset(words.split()) for name, words in LISTS.items()}
"""Lists of words by name, in lower case."""

_FORM = r"\d[\d.-]*(?:[a-z]|-?(?:rc|beta|alpha|b)\d*)?"
_NUMBER = lazy_regex(rf"(?:{_FORM})\Z", re.I)
YEAR = lazy_regex(r"(?:1[5-9]|20)\d\d\Z")
_BEHIND = lazy_regex(
    rf"[ \t]+(?:(?:number|num\.?|no\.?|nr\.?)\s+)?#?(?P<number>(?:{_FORM}|[a-z]|[ivx]{{2,4}}|[A-Z]))"
    r"(?![^\W_]|[-_.&/][^\W_]|['’](?!s\b)[^\W_]|[,:]\d|\s?[%°€$£+])"
)
SAYS_NUMBER = frozenset("number num no nr".split())
_STREETS = lazy_regex(
    r"(?:\w*(?:street|strasse|straße)|road|avenue|lane|square|place|drive|way|terrace|row|quay|st)\Z", re.I
)
_NUMBERED = WORDS["numbered"]
_NEVER = WORDS["not numbered"] | WORDS["plain"] | WORDS["stop"] | WORDS["not nouns"] | WORDS["units"]
_NO_NAMES = WORDS["not numbered"] | WORDS["plain"] | WORDS["units"]
_UNITS = WORDS["units"]
_BEFORE = WORDS["before numbered"]
_PLURAL = lazy_regex(r"(?:[^sui]s|people|children|men|women)\Z")
_SENTENCE = lazy_regex(r"(?<=[.?!])\s+|\n")
_LISTED = frozenset("and or & to".split())


def is_number(word: str) -> bool:
    """Whether a word can number something: ``11``, ``3.12``, ``12b``, or one letter.

    >>> [is_number(word) for word in ("11", "3.12", "12b", "B", "5kg", "2nd")]
    [True, True, True, True, False, False]
    """
    return bool(_NUMBER.match(word)) or (len(word) == 1 and word.isalpha())


def numbers_in(words: frozenset[str]) -> frozenset[str]:
    """Return the numbers and single letters among the words of a name, where other words are left to be numbered."""
    found = frozenset(word for word in words if is_number(word))
    return found if found < words else frozenset()


def number_end(text: str, tokens: Sequence[re.Match[str]], i: int) -> int:
    """Return the end of the number that names token ``i``, the last word of a name or a noun; ``i + 1`` without one.

    >>> text = "Is flat no. 12 larger than 5 metres?"
    >>> number_end(text, list(WORD.finditer(text)), 1)
    4
    """
    found = _BEHIND.match(text, tokens[i].end())
    if not found or _is_amount(text, found.end()) or tokens[i].group().lower() in _NO_NAMES:
        return i + 1
    number, noun = found["number"], tokens[i].group()
    if number.isalpha() and not _is_letter(number, noun):
        return i + 1
    end = i + 1
    while end < len(tokens) and tokens[end].start() < found.end():
        end += 1
    return end


def _is_letter(letter: str, noun: str) -> bool:
    """Whether a letter, or a Roman number, can name a noun in small letters; a capital one behind names is theirs."""
    if letter == "I" or (letter.islower() and letter in ("a", "i")):
        return False
    return noun.islower() and (noun in _NUMBERED or (len(letter) == 1 and letter.isupper()))


def _is_amount(text: str, end: int) -> bool:
    following = WORD.match(text, end + 1) if text[end : end + 1] == " " else None
    return following is not None and following.group().lower() in _UNITS


def is_numbered_noun(text: str, tokens: Sequence[re.Match[str]], i: int) -> bool:
    """Whether token ``i`` is a noun, in small letters or at the head of a sentence, that the number behind it names."""
    word = tokens[i].group()
    lower = word.lower()
    end = number_end(text, tokens, i)
    if end == i + 1 or lower in _NEVER or not word.isalpha() or not (word.islower() or word.istitle()):
        return False
    if lower in _NUMBERED or word.istitle():
        return True
    if _PLURAL.search(lower) or lower.endswith(("ed", "ing", "ly")) or lower in WORDS["forms"]:
        return False
    before = tokens[i - 1].group().lower() if i else ""
    following = tokens[end].group().lower() if end < len(tokens) else ""
    counts = following not in WORDS["plain"] | WORDS["not nouns"] and bool(_PLURAL.search(following))
    return before in _BEFORE and not counts


def number_before(text: str, tokens: Sequence[re.Match[str]], i: int, end: int) -> int:
    """Return the start of a name with the number before it: "12 Harbour Street", or a year in "the 2023 festival"."""
    if i == 0 or text[tokens[i - 1].end() : tokens[i].start()].strip() or not _NUMBER.match(tokens[i - 1].group()):
        return i
    number = tokens[i - 1].group()
    article = i > 1 and tokens[i - 2].group().lower() in ("the", "a")
    house = not YEAR.match(number) and _STREETS.match(tokens[end - 1].group())
    return i - 1 if house or (article and YEAR.match(number)) else i


def has_its_number(topic: frozenset[str], claim: str, before: str) -> bool:
    """Whether a claim speaks of a topic with its own number, and not of "Windows 10" where "Windows 11" is the topic.

    A claim that does not name it is about what was named last before it.

    >>> topic = frozenset({"windows", "11"})
    >>> has_its_number(topic, "Support for Windows 10 ends in 2025.", "Windows 11 came in 2021.")
    False
    >>> has_its_number(topic, "Support ends in 2031.", "Windows 10 came first. Windows 11 came in 2021.")
    True
    """
    numbers = numbers_in(topic)
    if not numbers:
        return True
    whole = [word.lower() for word in WORD.findall(f"{before} {claim}")]
    beside = {w for pair in pairwise(whole) if numbers & set(pair) for w in pair}
    heads = (topic - numbers) & beside or topic - numbers  # of "the price of the Nova 7" the number is not the price's
    if named := list(_numbers_of(heads, numbers, claim)):
        return any(numbers <= found for found in named)
    for sentence in reversed(_SENTENCE.split(before)):
        if named := list(_numbers_of(heads, numbers, sentence)):
            return any(numbers <= found for found in named)
    return True


def _numbers_of(heads: frozenset[str], numbers: frozenset[str], text: str) -> Iterator[frozenset[str]]:
    """Yield the numbers at each place where a name is numbered: 10 and 11 in "Windows 10 and 11"."""
    words = [re.sub(r"['’]s?$", "", word) for word in WORD.findall(text)]
    may_precede = any(map(_STREETS.match, heads)) or any(map(YEAR.match, numbers))
    named = [singular(w.lower()) in {singular(h) for h in heads} for w in words]
    i = 0
    while i < len(words):
        if not named[i]:
            i += 1
            continue
        found = {words[i - 1].lower()} if may_precede and i and _counts(words[i - 1], numbers) else set[str]()
        while i < len(words) and named[i]:
            i += 1
        while i < len(words) and (_counts(words[i], numbers) or words[i].lower() in _LISTED | SAYS_NUMBER):
            found.update([words[i].lower()] if _counts(words[i], numbers) else ())
            i += 1
        edition = words[i].lower() if found and i < len(words) else ""
        other = edition in WORDS["editions"] and not named[i] and words[i][:1].isupper()
        if found:
            yield frozenset(f"{number} {edition}" for number in found) if other else frozenset(found)


def _counts(word: str, numbers: frozenset[str]) -> bool:
    return is_number(word) and (not word.isalpha() or word.isupper() or (word in numbers and word != "a"))


def singular(word: str) -> str:
    """Return a longer word without its plural s."""
    return word.removesuffix("s") if len(word) > 3 else word
