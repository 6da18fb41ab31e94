"""Find what the evidence says in another clause of something else: "Ana became a chemist, and Ida a nurse"."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, takewhile

from shared_core.citation.facts.tokens import BE, Found, Sentence, Token, clauses_of, fold, stem, telling_keys

_AUXILIARY = frozenset(
    (*BE, *"has have had do does did can could may might must shall should will would cannot".split())
)
_JOINS = frozenset("and but while whereas although though or yet".split())
_DETERMINERS = frozenset("the a an its his her their our your my this that these those each every all both no".split())
_PRONOUNS = frozenset(
    "it he she they we you i this that these those who which what there when if as since because so where".split()
)
_WORDED = 0.8  # of the claim's words are the sentence's: it is worded alike


def said_of_another(claim: Sentence, nearest: Sentence) -> Found:
    """Find "Ida became a chemist" where the sentence has "Klara became a chemist, and Ida took over the studio".

    The claim's subject has a predicate of its own in one clause, of which the claim says nothing, and the claim's
    predicate stands only in another clause, which cannot have that subject.
    """
    said = telling_keys(claim.tokens)
    if len(said & nearest.keys) < _WORDED * len(said):
        return None
    clauses = clauses_of(nearest)
    if len(clauses) < 2:
        return None
    for own in clauses_of(claim):
        subject, predicate = _subject(own)
        about, says = telling_keys(subject), telling_keys(predicate)
        if not about or not says or any(t.is_negation for t in own):
            continue
        for i, clause in enumerate(clauses):
            thing, does = _subject(clause)
            if not about <= telling_keys(thing) or telling_keys(does) & says or not telling_keys(does):
                continue
            other = _saying(says, about, clauses, i)
            if other is not None:
                return (claim.text[own[0].start : own[-1].end], nearest.text[other[0].start : other[-1].end])
    return None


def _saying(says: set[str], about: set[str], clauses: Sequence[tuple[Token, ...]], at: int) -> tuple[Token, ...] | None:
    """Return the one other clause that holds all of a predicate, if it has a subject of its own and not this one."""
    if any(about & telling_keys(c) for j, c in enumerate(clauses) if j != at):
        return None
    found: list[tuple[Token, ...]] = []
    last: set[str] = set()
    for clause in clauses:
        thing, does = _subject(clause)
        last = telling_keys(thing) or last  # without a subject of its own it has that of a clause before
        keys = telling_keys(does) | (last if any(fold(t.text) == "by" for t in does) else set())
        if says <= keys and last and not about & last:
            found.append(clause)
    others = sum(says <= telling_keys(c) for c in clauses if c not in found)
    return found[0] if len(found) == 1 and not others else None


def acts_on_it(claim: Sentence, nearest: Sentence) -> Found:
    """Find "the company accused the union" where the sentence has that someone "accused the company".

    The one that does it in the claim is right behind the same verb in the sentence, both in the active voice.
    """
    if claim.is_negated or nearest.is_negated or _EITHER_WAY & {t.key for t in claim.tokens}:
        return None
    clause = clauses_of(claim)[0]
    subject, predicate = _subject(clause)
    verb = next((t for t in predicate if fold(t.text) not in _AUXILIARY), None)
    about = telling_keys(subject)
    if not about or verb is None or not verb.is_content or {fold(t.text) for t in predicate} & {*BE, "by"}:
        return None
    behind = [t for t in clause if t.start > verb.start]
    has_object = behind and (fold(behind[0].text) in _DETERMINERS or behind[0].can_name)
    held = [i for i, t in enumerate(nearest.tokens) if t.key == verb.key]
    if not has_object or len(held) != 1 or telling_keys(behind[: len(about) + 1]) & about:
        return None
    before, after = nearest.tokens[max(0, held[0] - 2) : held[0]], nearest.tokens[held[0] + 1 :]
    determined = after[1:] if after and fold(after[0].text) in _DETERMINERS else after
    thing = telling_keys(determined[: len(about)])
    elsewhere = telling_keys(t for t in nearest.tokens if t.start < nearest.tokens[held[0]].start)
    compound = any(t.is_content for t in determined[len(about) : len(about) + 1])  # "the storm shelter" is no storm
    if {fold(t.text) for t in before} & set(BE) or thing != about or compound or about & elsewhere:
        return None
    return claim.text[clause[0].start : clause[-1].end], nearest.text[nearest.tokens[held[0]].start :].strip()


_EITHER_WAY = frozenset(
    map(
        stem,
        """met meet married marry joined resembles fought fight equals borders touches followed divorced
    replaced""".split(),
    )
)


def done_to_another(claim: Sentence, nearest: Sentence) -> Found:
    """Find "Ilse was founded in 2009" where the sentence has "the workshop was founded in 2009 by Ilse".

    Both have the verb in the passive voice; the sentence names the claim's subject behind the verb and a preposition.
    """
    own, held = _passive(claim.tokens), _passive(nearest.tokens)
    if own is None or held is None or claim.is_negated or nearest.is_negated:
        return None
    about, thing = (telling_keys(s.tokens[:at]) for s, at in ((claim, own), (nearest, held)))
    behind = nearest.tokens[held + 2 :]
    first = next((i for i, t in enumerate(behind) if t.key in about), None)
    if (
        claim.tokens[own + 1].key != nearest.tokens[held + 1].key
        or not about
        or not thing
        or about & thing
        or not first
    ):
        return None
    before = [t for t in behind[:first] if not t.is_capitalised and fold(t.text) not in _DETERMINERS]
    if not about <= telling_keys(behind) or not before or fold(before[-1].text) not in _PREPOSITIONS:
        return None
    return claim.text.strip(), nearest.text.strip()


def _passive(tokens: Sequence[Token]) -> int | None:
    """Return the place of the only "is", "was" or the like right before a word in "-ed" or "-en"; ``None`` without."""
    pairs = enumerate(pairwise(tokens))
    found = [i for i, (a, b) in pairs if fold(a.text) in BE and fold(b.text).endswith(_PARTICIPLES)]
    return found[0] if len(found) == 1 else None


_PARTICIPLES = ("ed", "en", "made", "built", "sold", "held", "bought", "won", "led", "run", "cut", "set", "put", "paid")
_PREPOSITIONS = frozenset("by from in at of for to with near on".split())


def _subject(clause: Sequence[Token]) -> tuple[list[Token], list[Token]]:
    """Return the words of a clause before its verb, and those from it on; none where that cannot be told."""
    words = list(clause)
    if words and fold(words[0].text) in _JOINS:
        words = words[1:]
    determined = bool(words) and fold(words[0].text) in _DETERMINERS
    if not words or (fold(words[0].text) in _PRONOUNS and not determined):
        return [], words
    ahead = list(takewhile(lambda t: fold(t.text) not in _AUXILIARY, words))
    plain = ahead[1:] if determined else ahead
    if len(ahead) < len(words):
        simple = plain and len(plain) <= 3 and all(t.is_telling for t in plain)
        return (plain, words[len(ahead) :]) if simple else ([], words)
    named = list(takewhile(lambda t: t.is_capitalised or t.is_number, plain))
    if not named and determined:
        named = plain[:1]
    behind = plain[len(named) :]
    finite = behind and behind[0].is_content and not behind[0].is_capitalised and not behind[0].text.endswith("ing")
    return (named, behind) if named and finite and named[0].is_telling else ([], words)
