"""Words that turn a claim round: "fell" for "rose", "bought from" for "sold to", "all" for "some of them"."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence, Set
from dataclasses import dataclass

from shared_core.citation.facts.arithmetic import equal_quantity
from shared_core.citation.facts.dates import weekdays_of
from shared_core.citation.facts.negations import is_denied
from shared_core.citation.facts.quantities import quantities_of
from shared_core.citation.facts.scope import EXCEPT
from shared_core.citation.facts.tokens import (
    BE,
    Found,
    Sentence,
    Token,
    align,
    clauses_of,
    content_keys,
    cut_tokens,
    fold,
    stem,
    tokens_of,
)
from shared_core.support.files import read_lists
from shared_core.support.regex import lazy_regex


def _pairs(text: str) -> dict[str, tuple[int, int]]:
    """Map each stem to (number of its pair, side)."""
    return {
        stem(word): (number, side)
        for number, line in enumerate(re.sub(r"\n  ", " ", text).splitlines())
        for side, words in enumerate(line.split("/"))
        for word in words.split()
    }


_OPPOSITES, _CONVERSES = map(_pairs, read_lists("shared_core.citation.facts", "opposites.txt").values())


def side_of(word: str) -> tuple[int, int] | None:
    """Return the number of a word's pair (or group) of opposites, and its side of it; ``None`` if it has none.

    >>> side_of("northern")[0] == side_of("South")[0], side_of("north") == side_of("south"), side_of("lamp")
    (True, False, None)
    """
    return _OPPOSITES.get(stem(word.lower()))


_PRONOUNS = frozenset("it he she they this these that those".split())
_RELATIVE = frozenset("who which of".split())
_JOINS = frozenset("and but while whereas".split())
_CUT = lazy_regex(r"[,;:](?!\d)|\b(?:and|but|while|whereas)\b")
_ORDERS = ("before", "after", "above", "below")
_ARTICLES = ("a", "an", "the")
_NO_ORDER = frozenset(
    """and or nor with between both beside near alongside like unlike per versus equal equals meet meets met border
    borders bordering adjoin adjoins match matches resemble resembles differ differs same together either each other
    alternately because""".split()
)
"""Words that say the same with the things around them exchanged, or of which other rules know the order."""
_JOINED = lazy_regex(r"\W*(?:(?:and|or|to)\b)?\W*")
_ALIKE = 0.6
_SIDE_TAKEN = lazy_regex(
    r"\b(vot(?:e[sd]?|ing)|argu(?:e[sd]?|ing)|spoke|speaks?|speaking|campaign(?:s|ed|ing)?|rul(?:e[sd]?|ing)"
    r"|lobb(?:y|ies|ied|ying)|decid(?:e[sd]?|ing))\s+(in favou?r of|for|against)\b",
    re.IGNORECASE,
)
_LONGEST = 3  # words that name a thing


def opposed(claim: Sentence, held: Sequence[Sentence], known: Set[str]) -> Found:
    """Find a word of the claim whose opposite a sentence of the evidence has that says the rest.

    None is found if the claim has a negation, or another sentence says as much with the claim's word.

    Args:
        known: keys of all tokens of evidence and context: "It is closed" may speak of what an earlier sentence names.
    """
    turning = [t for t in claim.tokens if t.key in _OPPOSITES]
    if not turning or claim.is_negated:
        return None
    parts = [(part, sentence) for sentence in held for part in _clauses(sentence)]
    for token in turning:
        if any(is_opposite(token, t) for t in turning):
            continue
        rest = [t.key for t in claim.tokens if t is not token and t.is_telling]
        alike = {id(part): part for part, _ in parts if any(_is_same(token, t) for t in part.tokens)}
        # What its pronoun stands for counts as held, too.
        most = max((part.holds(rest) + part.refers(rest, known) for part in alike.values()), default=-1)
        for part, sentence in parts:
            other = next((t for t in part.tokens if is_opposite(token, t)), None)
            if other is None or id(part) in alike or part.holds(rest) <= most or not part.says(rest, known):
                continue
            if _is_excepted(rest, sentence):
                continue
            own = next((t for t in sentence.tokens if _is_same(token, t)), None)
            if own is not None and (part.holds(rest) < len(rest) or _are_joined(own, other, sentence)):
                continue  # a sentence of both must say all the rest with the other one
            if _is_name(token) == _is_name(other) and not (
                _is_converse(claim, token, sentence, other)
                or _closes_then(claim, token, sentence, other)
                or _lost_to(claim, token, sentence, other)
            ):
                return token.text, other.text
    return None


def on_other_days(claim: Sentence, held: Sentence) -> bool:
    """Whether one sentence has "closed on Saturdays" where the other has "open on weekdays"."""
    days, others = weekdays_of(claim.text), weekdays_of(held.text)
    hours = all(s.keys & (_CLOSES | _OPEN) for s in (claim, held))
    return hours and bool(days and others) and not days.keys() & others.keys()


def _lost_to(claim: Sentence, token: Token, held: Sentence, other: Token) -> bool:
    """Whether "A won" meets "B lost to A", or "A lost" meets "B won against A"."""
    behind = _TO.search(held.text, other.end)
    subject = content_keys(t for t in claim.tokens if t.start < token.start)
    if behind is None or not subject or not {token.key, other.key} <= _WINS:
        return False
    return subject <= content_keys(tokens_of(behind[1]))


_WINS = frozenset(map(stem, "win wins won winning lose loses lost losing".split()))
_TO = lazy_regex(r"\b(?:to|against|over)\s([^,.;]*)", re.IGNORECASE)


def _closes_then(claim: Sentence, token: Token, held: Sentence, other: Token) -> bool:
    """Whether one sentence has "closes at 6 pm" where the other has "open until 6 pm", or "from 9 am to 6 pm"."""
    closing, opened = (claim, held) if token.key in _CLOSES else (held, claim)
    if {token.key, other.key} - _CLOSES - _OPEN:
        return False
    at, until = (
        [q for q in quantities_of(s.text) if behind.search(s.text[: q.start])]
        for s, behind in ((closing, _AT), (opened, _UNTIL))
    )
    return any(equal_quantity(one, two) for one in at for two in until)


_CLOSES = frozenset(map(stem, "close closes closed closing shut shuts".split()))
_OPEN = frozenset(map(stem, "open opens opened opening".split()))
_AT = lazy_regex(r"\b(?:at|by|from|after) \Z", re.IGNORECASE)
_UNTIL = lazy_regex(r"(?:\b(?:until|till|til|to)|[-–—])\s?\Z", re.IGNORECASE)


def _is_excepted(rest: Sequence[str], sentence: Sentence) -> bool:
    """Whether the claim speaks of the exception: "closed on Sundays", where it is "open daily except Sunday"."""
    excepted = EXCEPT.search(sentence.text)
    words = {t.key for t in sentence.tokens if excepted and excepted.start(1) <= t.start < excepted.end(1)}
    return any(key in words or key.removesuffix("s") in words for key in rest)


def opposed_beside(claim: Sentence, held: Sequence[Sentence]) -> Found:
    """Find "after it begins" where a sentence that says most of the rest has "after it ends", beside the same word."""
    if claim.is_negated:
        return None
    for token in [t for t in claim.tokens if t.key in _OPPOSITES and not _is_name(t)]:
        rest = [t.key for t in claim.tokens if t is not token and t.is_telling]
        for sentence in held:
            if sentence.is_negated or any(_is_same(token, t) for t in sentence.tokens):
                continue
            other = next((t for t in sentence.tokens if is_opposite(token, t) and not _is_name(t)), None)
            if other is None or not _neighbours(claim, token) & _neighbours(sentence, other):
                continue
            said = sum(key in sentence.keys for key in rest)
            if said and said >= _MOSTLY * len(rest) and not _is_converse(claim, token, sentence, other):
                return token.text, other.text
    return None


def _neighbours(sentence: Sentence, token: Token) -> set[tuple[int, str]]:
    """Return the words with content right before and behind a token, each with its side."""
    beside = ((step, sentence.beside(token, step)) for step in (-1, 1))
    return {(step, t.key) for step, t in beside if t is not None and t.is_content}


_MOSTLY = 0.7  # of the rest of a claim, by a whole sentence


def _is_converse(claim: Sentence, token: Token, held: Sentence, other: Token) -> bool:
    """Whether "A is smaller than B" meets "B is larger than A", or "A after B" meets "B before A"."""
    (before, behind), (held_before, held_behind) = _content_around(claim, token), _content_around(held, other)
    if _next_word(claim, token) == _next_word(held, other) == "of" and before & held_behind and behind & held_before:
        return True  # "A lies north of B", "B is south of A"
    compares = fold(token.text) in _ORDERS or "than" in (_next_word(claim, token), _next_word(held, other))
    # "The tower stands above the harbour" and "the harbour lies below the tower" have verbs of their own
    turned = behind <= held_before and (before <= held_behind or held_behind <= before)
    return compares and turned and bool(before and behind) and not before <= held_before


def _content_around(sentence: Sentence, token: Token) -> tuple[set[str], set[str]]:
    """Return the keys of the words with content before a token and behind it."""
    at = sentence.tokens.index(token)
    return content_keys(sentence.tokens[:at]), content_keys(sentence.tokens[at + 1 :])


def _next_word(sentence: Sentence, token: Token) -> str:
    behind = sentence.beside(token)
    return fold(behind.text) if behind else ""


def _is_same(token: Token, other: Token) -> bool:
    return token.key == other.key or _OPPOSITES.get(token.key, (-1, -1)) == _OPPOSITES.get(other.key)


def _is_name(token: Token) -> bool:
    return token.is_capitalised and not token.first


def _are_joined(one: Token, other: Token, sentence: Sentence) -> bool:
    """Whether both are said of one thing: "brown and white", "gold, silver, and copper"."""
    first, last = sorted((one, other), key=lambda t: t.start)
    listed = [t for t in sentence.tokens if first.start <= t.start <= last.start and t.key in _OPPOSITES]
    return all(_JOINED.fullmatch(sentence.text[a.end : b.start]) for a, b in itertools.pairwise(listed))


@dataclass(frozen=True, slots=True)
class _Clause:
    """A part of a sentence.

    One that begins with a verb ("and rises in winter") or "of whom" inherits words of the part before.
    """

    tokens: tuple[Token, ...]
    inherited: frozenset[str] = frozenset()

    @property
    def keys(self) -> frozenset[str]:
        return frozenset(t.key for t in self.tokens) | self.inherited

    def holds(self, rest: Sequence[str]) -> int:
        keys = self.keys
        return sum(key in keys for key in rest)

    def says(self, rest: Sequence[str], known: Set[str]) -> bool:
        """Whether it holds most of these words without a negation, or some behind a pronoun for the others."""
        found = self.holds(rest)
        if not found or any(t.is_negation for t in self.tokens):
            return False
        return found >= _ALIKE * len(rest) or self.refers(rest, known)

    def refers(self, rest: Sequence[str], known: Set[str]) -> bool:
        return fold(self.tokens[0].text) in _PRONOUNS and all(key in known for key in rest)


def _clauses(sentence: Sentence) -> list[_Clause]:
    found: list[_Clause] = []
    for tokens in cut_tokens(sentence, _CUT):
        inherited: frozenset[str] = frozenset()
        first = fold(tokens[0].text)
        if found and (first in _RELATIVE or tokens[first in _JOINS and len(tokens) > 1].key in _OPPOSITES):
            turned = {t.key for t in found[-1].tokens if any(is_opposite(t, own) for own in tokens)}
            inherited = found[-1].keys - turned
        found.append(_Clause(tokens, inherited))
    return found


def is_opposite(token: Token, other: Token, of: dict[str, tuple[int, int]] = _OPPOSITES) -> bool:
    """Whether two words stand on different sides of one pair or group."""
    one, two = of.get(token.key), of.get(other.key)
    return one is not None and two is not None and one[0] == two[0] and one[1] != two[1]


def has_converse(claim: Sentence, nearest: Sentence) -> bool:
    """Whether the claim has "bought" where the evidence has "sold": then its names stand the other way round."""
    own, held = ({_CONVERSES[t.key] for t in s.tokens if t.key in _CONVERSES} for s in (claim, nearest))
    return any(pair == other and side != there for pair, side in own for other, there in held)


def conversed(claim: Sentence, nearest: Sentence) -> Found:
    """Find "A bought it from B" where the evidence has "A sold it to B": the same one does the converse.

    Passives are left out; so are sentences with both words.
    """
    if any(fold(t.text) == "by" for t in (*claim.tokens, *nearest.tokens)):
        return None
    for i, token in enumerate(claim.tokens):
        if token.key not in _CONVERSES or token.key in nearest.keys:
            continue
        at = next((j for j, t in enumerate(nearest.tokens) if is_opposite(token, t, _CONVERSES)), None)
        if at is None:
            continue
        doing = content_keys(claim.tokens[:i])
        if doing and doing <= content_keys(nearest.tokens[:at]):
            return claim.text[: token.end].strip(), nearest.text[: nearest.tokens[at].end].strip()
    return None


def other_side(claim: Sentence, held: Sequence[Sentence], known: Set[str]) -> Found:
    """Find "A voted for the plan" where the evidence has "A voted against it", or the other way round."""
    own = _SIDE_TAKEN.search(claim.text)
    if own is None or claim.is_negated:
        return None
    doing, matter = _subjects(claim, 0, own.start()), _subjects(claim, own.end(), len(claim.text))
    found = None
    for sentence in held:
        begin = 0
        for side in _SIDE_TAKEN.finditer(sentence.text):
            did, behind = _subjects(sentence, begin, side.start()), _subjects(sentence, side.end(), len(sentence.text))
            begin = side.end()
            same_matter = matter <= behind or (behind & _PRONOUNS and matter <= known)
            if not (doing and doing <= did and same_matter and stem(fold(own[1])) == stem(fold(side[1]))):
                continue
            if (own[2].lower() == "against") == (side[2].lower() == "against"):
                return None
            if not sentence.is_negated:
                found = own.group(), side.group()
    return found


def _subjects(sentence: Sentence, start: int, end: int) -> set[str]:
    """Return the keys of the words with content, and pronouns, in a range of a sentence."""
    within = [t for t in sentence.tokens if start <= t.start < end]
    return content_keys(within) | ({fold(t.text) for t in within} & _PRONOUNS)


def exchanged_things(claim: Sentence, nearest: Sentence) -> Found:
    """Find "the pump feeds the boiler" where the evidence, in the same words, has "the boiler feeds the pump".

    Only these two things may have changed places, something must be said between them, and not in phrases that may
    stand anywhere ("tours start in the garden in the morning").
    """
    a, b = ([t for t in s.tokens if fold(t.text) not in _ARTICLES] for s in (claim, nearest))
    keys, held = [t.key for t in a], [t.key for t in b]
    if len(a) != len(b) or keys == held or sorted(keys) != sorted(held):
        return None
    unordered = {fold(t.text) for t in a} & _NO_ORDER
    differ = [i for i, (one, other) in enumerate(zip(keys, held)) if one != other]
    first, end = differ[0], differ[-1] + 1
    for one, two in itertools.product(range(1, _LONGEST + 1), repeat=2):
        left, right = a[first : first + one], a[end - two : end]
        between = a[first + one : end - two]
        turned = [t.key for t in (*right, *between, *left)]
        if unordered and (unordered != {"and"} or not _changes_sides(left, between, right, a[end : end + 1])):
            continue
        if between and turned == held[first:end] and (unordered or all(t.is_content for t in (*left, *right))):
            says = any(fold(t.text) not in BE for t in between)
            # "in the garden in the morning", but not "by the maker, not by the owner"
            alike = first > 0 and a[first - 1].is_function_word and a[first - 1].key == between[-1].key
            alike = alike and not any(t.is_negation for t in between)
            return (claim.text.strip(), nearest.text.strip()) if says and not alike else None
    return None


def _changes_sides(
    left: Sequence[Token], between: Sequence[Token], right: Sequence[Token], behind: Sequence[Token]
) -> bool:
    """Whether "free [online] and cost 60p [at the counter]" says another thing turned round; a mere list does not."""
    at = next((i for i, t in enumerate(between) if fold(t.text) == "and"), None)
    if at is None or not all(any(t.is_telling for t in part) for part in (left, right, between[at + 1 :])):
        return False
    listed = {t.key for t in between[:at]} & {t.key for t in behind}  # "a red lamp and a green lamp"
    return not listed and not any(fold(t.text) == "and" for t in (*left, *right, *between[at + 1 :]))


def changed_voice(claim: Sentence, nearest: Sentence) -> Found:
    """Find "A bought B" where the evidence has "A was bought by B", or the other way round."""
    passive = [(s, i) for s in (claim, nearest) if (i := _passive_at(s)) is not None]
    if len(passive) != 1 or any(t.is_negation for t in (*claim.tokens, *nearest.tokens)):
        return None
    (acted_on, at) = passive[0]
    active = nearest if acted_on is claim else claim
    verb = next((i for i, t in enumerate(active.tokens) if t.key == acted_on.tokens[at].key), None)
    by = next(i for i, t in enumerate(acted_on.tokens) if i > at and fold(t.text) == "by")
    if verb is None or any(fold(t.text) == "by" for t in active.tokens):
        return None
    subject, own = (content_keys(tokens) for tokens in (acted_on.tokens[:at], active.tokens[:verb]))
    agent = content_keys(itertools.takewhile(_names_thing, acted_on.tokens[by + 1 :]))
    thing = content_keys(itertools.takewhile(_names_thing, active.tokens[verb + 1 :]))
    if subject and subject == own and agent and agent == thing and not agent & own:
        return claim.text.strip(), nearest.text.strip()
    return None


def acted_on(claim: Sentence, nearest: Sentence) -> Found:
    """Find "the Scots defeated the English" where the evidence has "the Scots were defeated", or the reverse."""
    if is_denied(claim) != is_denied(nearest):
        return None
    for passive, active in ((claim, nearest), (nearest, claim)):
        for i, token in enumerate(passive.tokens[2:], 2):
            if fold(passive.tokens[i - 1].text) not in ("was", "were") or not token.text.endswith("ed"):
                continue
            subject = passive.tokens[i - 2]
            for before, verb, behind in zip(active.tokens, active.tokens[1:], active.tokens[2:], strict=False):
                takes = fold(behind.text) in _ARTICLES or behind.can_name
                if subject.is_content and before.key == subject.key and verb.key == token.key and takes:
                    said = passive.text[subject.start : token.end], active.text[before.start : behind.end]
                    return said if passive is claim else said[::-1]
    return None


def _passive_at(sentence: Sentence) -> int | None:
    """Return the place of the participle in "was bought … by"; ``None`` if there is none."""
    words = [fold(t.text) for t in sentence.tokens]
    found = (i for i in range(1, len(words)) if words[i - 1] in BE and "by" in words[i + 1 :])
    return next((i for i in found if sentence.tokens[i].is_content), None)


def _names_thing(token: Token) -> bool:
    return token.is_content or fold(token.text) in _ARTICLES


# --- in the same place, or with a prefix ------------------------------------------------------------------------------

_PREFIXES = ("un", "non", "dis", "in", "im", "ir", "il")
_ADJECTIVE = lazy_regex(r"(?:able|ible|ed|ent|ant|ate|al|ar|ive|ful|ous|ct|ain|ing|ete)(?:ly)?\Z")
_VERBATIM = 0.7


def in_place(claim: Sentence, nearest: Sentence) -> Found:
    """Find a word in the place of its opposite, or with another prefix ("unlimited"), in a claim of the same words."""
    if sum(t.is_negation for t in claim.tokens) % 2 != sum(t.is_negation for t in nearest.tokens) % 2:
        return None
    own, held = claim.tokens, nearest.tokens
    blocks = align([t.key for t in own], [t.key for t in held])
    same = sum(a2 - a1 for tag, a1, a2, _, _ in blocks if tag == "equal")
    if same < _VERBATIM * (len(own) - 1):
        return None
    for tag, a1, a2, b1, b2 in blocks:
        if tag != "replace" or (a2 - a1, b2 - b1) != (1, 1):
            continue
        one, other = own[a1], held[b1]
        if other.key in claim.keys or one.key in nearest.keys:
            continue
        if is_opposite(one, other) or other.key in _denied(one) or one.key in _denied(other):
            return one.text, other.text
    return None


def _denied(token: Token) -> set[str]:
    """Keys of what the word denies by a prefix: that of "comfortable" for "uncomfortable"."""
    word = fold(token.text)
    return {
        stem(word[len(p) :])
        for p in _PREFIXES
        if word.startswith(p) and (p in ("un", "non") or _ADJECTIVE.search(word))
    }


def denied_by_prefix(claim: Sentence, nearest: Sentence) -> Found:
    """Find "is uncomfortable" where the clause that says the rest has "is comfortable", or the other way round."""
    if claim.is_negated:
        return None
    held = nearest.keys
    clauses = [[(t, _denied(t)) for t in clause] for clause in clauses_of(nearest)]
    for token in claim.tokens:
        if token.key in held or not token.is_content:
            continue
        own = _denied(token)
        for clause in clauses:
            other = next((t for t, denied in clause if t.key in own or token.key in denied), None)
            if other is None or any(t.is_negation for t, _ in clause):
                continue
            rest = content_keys(t for t in claim.tokens if t is not token)
            if rest and len(rest & content_keys(t for t, _ in clause)) >= _ALIKE * len(rest):
                return token.text, other.text
    return None
