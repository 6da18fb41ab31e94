"""Names in the turns of a conversation, and the words that refer to them. English, by words alone."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from shared_core.citation.english import DO, HAVE, MODALS
from shared_core.citation.facts.dates import MONTH_NAMES, WEEKDAYS
from shared_core.conversation.numbered import (
    SAYS_NUMBER,
    WORD,
    WORDS,
    is_number,
    is_numbered_noun,
    number_before,
    number_end,
    numbers_in,
)
from shared_core.support.regex import lazy_regex

MARKERS = lazy_regex(r"\s*\[(?:[^\[\]\n]{1,200}:)?\d+\]|\s*\(unsupported\)")

_JOINS = frozenset("of the & de von van".split())
_BEFORE_PLACES = frozenset("in at on near from to between across under over inside outside around".split())
_THINGS = WORDS["things"]
_OPENERS = WORDS["openers"]
_DATES = frozenset((*MONTH_NAMES, *WEEKDAYS))


_IN_SMALL = lazy_regex(rf"\bthe\s+((?:[a-z-]+\s+){{1,2}}(?:{'|'.join(sorted(_THINGS))}))\b")
_APART = frozenset("of in on at to for from by with about and or is are was were did does do the a an".split())


@dataclass(frozen=True, slots=True)
class Phrase:
    """A name in a text.

    >>> [p.text for p in phrases_of("When was the Gut Bridge opened by Steward Roland Peake?")]
    ['Gut Bridge', 'Steward Roland Peake']
    >>> [p.text for p in phrases_of("Does Windows 11 run in room B of flat 12?")]
    ['Windows 11', 'room B', 'flat 12']

    Attributes:
        text: as written, without its article.
        start, end: place in the text, in code points.
        place: whether a preposition of place stands before it.
    """

    text: str
    start: int
    end: int
    article: bool = False
    place: bool = False

    @property
    def words(self) -> frozenset[str]:
        """Its words, in lower case; "number" is none of them in "flat number 12"."""
        words = frozenset(words_of(self.text))
        return words - SAYS_NUMBER if numbers_in(words) else words

    @property
    def numbers(self) -> frozenset[str]:
        """The numbers and single letters in it, in lower case: "11" of "Windows 11"."""
        return numbers_in(self.words)

    @property
    def with_article(self) -> str:
        """Its text, with the article that it had."""
        return f"the {self.text}" if self.article else self.text

    @property
    def is_person(self) -> bool:
        """Whether it can be a person's name: two or more capitalised words, none of them of a thing, no article."""
        if self.article or self.place or self.text[:1].islower() or any(c.isdigit() for c in self.text):
            return False
        last = self.text.split()[-1]
        lettered = len(last) == 1 and bool(self.words & WORDS["numbered"])  # "Plan B", but not "John D."
        return len(self.words) > 1 and not self.words & (_THINGS | _JOINS) and not lettered

    @property
    def can_be_ship(self) -> bool:
        """Whether it can be the name of a ship, which may be a "she": an article, and no word of another thing."""
        return self.article and self.text[:1].isupper() and not self.words & (_THINGS | _JOINS)


def words_of(text: str) -> list[str]:
    """Words of a text in lower case, without possessive endings."""
    return [re.sub(r"['’]s?$", "", w.lower()) for w in WORD.findall(text)]


def is_identifier(word: str) -> bool:
    """Whether a word is a name by its form: ``max_connections``, ``B52``, ``iPhone``, ``git-stash``."""
    inner = any(c.isupper() for c in word[1:]) and not word.isupper()
    return "_" in word or inner or (word[:1].isalpha() and any(c.isdigit() for c in word))


def phrases_of(text: str) -> list[Phrase]:
    """List the names of a text, in order: runs of capitalised words, joined by "of" and "the", and identifiers.

    A number, a version or a single letter that names belongs to them: "Windows 11", "flat 12", "12 Harbour Street".
    """
    text = MARKERS.sub(lambda m: " " * len(m.group()), text)
    tokens = list(WORD.finditer(text))
    found: list[Phrase] = []
    i = 0
    while i < len(tokens):
        end = _run(text, tokens, i)
        if end == i:
            i += 1
            continue
        first = number_before(text, tokens, i, end)
        before = tokens[first - 1].group().lower() if first else ""
        article = before == "the"
        place = (tokens[first - 2].group().lower() if article and first > 1 else before) in _BEFORE_PLACES
        start, stop = tokens[first].start(), tokens[end - 1].end()
        if bracket := _CLAUSE.match(text, stop):  # "section 12(b)"
            stop = bracket.end()
            while end < len(tokens) and tokens[end].start() < stop:
                end += 1
        name = re.sub(r"['’]s?$", "", text[start:stop])
        found.append(Phrase(name, start, start + len(name), article, place))
        i = end
    return found


def thing_in_small(text: str) -> Phrase | None:
    """Return the first thing that is named in small letters: "the gut bridge".

    >>> thing_in_small("when was the gut bridge built?").text
    'gut bridge'
    """
    for match in _IN_SMALL.finditer(text):
        words = match[1].split()
        if not _APART & set(words):
            return Phrase(match[1], match.start(1), match.end(1), True)
    return None


_OF_WHICH = frozenset("the a an our my your which".split())
_DOING = frozenset(f"{DO}|{HAVE}|{MODALS}|shall|might".split("|"))
_PARTICIPLE = lazy_regex(r"(?:ed|ing)\Z")
_LONGEST = 3  # words of a thing, before and behind its "of"


def thing_asked(question: str) -> Phrase | None:
    """Return the first thing of a question that has an article, in small letters: what it is about, without its verb.

    >>> thing_asked("When is the launch of the booking portal?").text, thing_asked("Which hoster did we choose?").text
    ('launch of the booking portal', 'hoster')
    >>> thing_asked("Where does the offsite take place?").text, thing_asked("Why was the launch moved?").text
    ('offsite', 'launch')
    >>> thing_asked("When is the museum open on weekdays?").text
    'museum'
    """
    tokens = list(WORD.finditer(question))
    words = [token.group() for token in tokens]
    for i, word in enumerate(words[:-1]):
        if word.lower() not in _OF_WHICH or words[i + 1][:1].isupper():
            continue
        if word.lower() == "which" and words[i + 1].lower() in _NO_NOUNS:
            continue
        end = _thing_end(question, tokens, i + 1)
        if end < len(words) and words[end].lower() in ("of", "for"):
            behind = end + 1 + (end + 1 < len(words) and words[end + 1].lower() in _OF_WHICH)
            end = max(end, _thing_end(question, tokens, behind)) if behind < len(words) else end
        # "Where does the coffee machine stand?": behind "does" a verb must follow
        asks_of = i > 0 and words[i - 1].lower() in _DOING
        end -= asks_of and end == len(words) and end - i > 2
        start, stop = tokens[i + 1].start(), tokens[end - 1].end()
        return Phrase(question[start:stop], start, stop, True)
    return None


def _thing_end(text: str, tokens: list[re.Match[str]], i: int) -> int:
    """Return the end of the noun with its words before it that begins at token ``i``."""
    end = i + 1
    while end < min(len(tokens), i + _LONGEST) and not _parted(text, tokens, end):
        word = tokens[end].group().lower()
        if word in _NO_NOUNS | _OF_WHICH | WORDS["forms"] or _PARTICIPLE.search(word):
            break
        following = tokens[end + 1].group().lower() if end + 1 < len(tokens) else "in"
        if word in WORDS["states"] and following in WORDS["not nouns"]:
            break
        end += 1
    return end


_CLAUSE = lazy_regex(r"(?<=\d)\([a-z\d]{1,3}\)")
_NO_NOUNS = WORDS["not nouns"] | _DATES


def _run(text: str, tokens: list[re.Match[str]], i: int) -> int:
    """Return the end of the name that begins at token ``i``; ``i`` if none does."""
    if is_numbered_noun(text, tokens, i) and not (tokens[i].group().istitle() and _begins(text, tokens, i)):
        return number_end(text, tokens, i)
    if not _begins(text, tokens, i):
        return i
    end = i + 1
    while end < len(tokens):
        numbered = number_end(text, tokens, end - 1)
        if numbered > end and not is_number(tokens[end - 1].group()) and not _possessive(tokens[end - 1]):
            end = numbered
            continue
        if _possessive(tokens[end - 1]) or _parted(text, tokens, end):
            break
        step = end
        while step < len(tokens) - 1 and tokens[step].group() in _JOINS and step - end < 2:
            step += 1
        if any(_parted(text, tokens, at) for at in range(end, step + 1)) or not _is_name_word(tokens[step].group()):
            break
        end = step + 1
    return end


def _begins(text: str, tokens: list[re.Match[str]], i: int) -> bool:
    word = tokens[i].group()
    if not _is_name_word(word):
        return False
    if len(word) == 1 and i and tokens[i - 1].group()[:1].isdigit() and not _parted(text, tokens, i):
        return False  # "500 W"
    first = i == 0 or bool(re.search(r"[.?!:\n—–•]\W*$", text[: tokens[i].start()]))
    if word.lower() in _OPENERS and (first or not word.isupper() or len(word) == 1):
        return False
    # A sentence capitalises its first word: alone it is a name only by its form, or before a verb of being.
    if first and not is_identifier(word) and not word.isupper():
        following = tokens[i + 1].group() if i + 1 < len(tokens) else ""
        return (
            i + 1 < len(tokens)
            and not _parted(text, tokens, i + 1)
            and (_is_name_word(following) or following.lower() in ("is", "was", "has", "had", "of", "&"))
        )
    return True


def _is_name_word(word: str) -> bool:
    return (word[:1].isupper() or is_identifier(word)) and word.lower() not in _DATES


def _possessive(token: re.Match[str]) -> bool:
    return token.group().endswith(("'s", "’s"))


def _parted(text: str, tokens: list[re.Match[str]], i: int) -> bool:
    return bool(re.search(r"[^\s“”\"*_]", text[tokens[i - 1].end() : tokens[i].start()]))


def names_in_reply(reply: str) -> list[Phrase]:
    """List the names of a reply: neither labels ("Power: 750 W") nor the columns in the head of a table.

    >>> [p.text for p in names_in_reply("Model: AquaLift 500; Power: 750 W; Maker: Benno Krall")]
    ['AquaLift 500', 'Benno Krall']
    """
    heads = [match.span("head") for match in _TABLE_HEAD.finditer(reply)]
    named = [p for p in phrases_of(reply) if not _LABEL.match(reply, p.end)]
    return [p for p in named if not any(start <= p.start < end for start, end in heads)]


_LABEL = lazy_regex(r"[*_]*\s?:")
_TABLE_HEAD = lazy_regex(r"^(?P<head>[^\n]*\|[^\n]*)\n[ |:-]*-[ |:-]*$", re.M)


def new_in(phrases: Iterable[Phrase], known: Iterable[Phrase]) -> list[Phrase]:
    """Phrases that share no word with the known ones, each text once; "Nova 7" is new where "Nova" is known."""
    seen = list(known)
    found: dict[str, Phrase] = {}
    for phrase in phrases:
        alike = [k for k in seen if phrase.words & k.words]
        if all(phrase.numbers and k.words <= phrase.words - phrase.numbers for k in alike):
            found.setdefault(phrase.text.lower(), phrase)
    return list(found.values())
