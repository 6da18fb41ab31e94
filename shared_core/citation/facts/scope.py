"""How far a claim goes: all or some of them, must or may, a deed or a plan, with or without a condition or reason."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from shared_core.citation.facts.tokens import Sentence, Token, clauses_of, fold, stem, tokens_of

_ALL = frozenset("all every each entire entirely exclusively only always".split())
_COUNT = "two|three|four|five|six|seven|eight|nine|ten"
_PART = re.compile(
    r"\b(?:some|most|many|few|several|half|partly|mostly|often|sometimes|usually|of (?:them|these|those|which)"
    rf"|(?:\d[\d.,]*(?: ?%| percent)?|one|{_COUNT}) of (?:the|them|its|their))\b",
    re.IGNORECASE,
)
_SHARE = re.compile(
    rf"\b(\d+|one|{_COUNT}) of (?:the|its|their) ((?:\d+|{_COUNT}) \w+)",
    re.IGNORECASE,
)
_OF = ("of them", "of these", "of those", "of which")
_ALIKE = 0.6
_REACH = 6  # tokens


def overstated(claim: Sentence, nearest: Sentence) -> tuple[str, str] | None:
    """Find "all" or "nine plug-ins" in the claim where the evidence speaks of a part ("three of the nine plug-ins").

    Returns:
        The claim's word, and the evidence's words for the part.
    """
    share, said = _SHARE.search(nearest.text), claim.text.lower()
    if share is not None and share[2].lower() in said and share[1].lower() not in said:
        return share[2], share[0]
    places = [i for i, t in enumerate(claim.tokens) if fold(t.text) in _ALL]
    part = _PART.search(nearest.text)
    if not places or part is None or _PART.search(claim.text) or any(fold(t.text) in _ALL for t in nearest.tokens):
        return None
    every = claim.tokens[places[0]]
    thing = next((t for t in claim.tokens[places[0] + 1 :] if t.is_content), None)
    behind = [t.key for t in nearest.tokens if t.start >= part.start()][:_REACH]
    if thing is None or not (thing.key in behind or (part.group().lower().endswith(_OF) and thing.key in nearest.keys)):
        return None
    return every.text, part.group()


# --- only these, and no others -----------------------------------------------------------------------------------------

_ONLY = frozenset("only solely exclusively alone".split())
_ANYONE = frozenset("anyone anybody everyone everybody all any every each both".split())
_UNLIKE = re.compile(r"\bunlike ([^,;]*)", re.IGNORECASE)
_UNREAL = re.compile(r"\bwould\b.*\bif\b|\bif\b.*\bwould\b", re.IGNORECASE | re.DOTALL)


def denies_others(claim: Sentence, nearest: Sentence) -> bool:
    """Whether one sentence denies what the other implies not to be: "only Clara", "unlike gulls", "if it were so"."""
    if _UNREAL.search(nearest.text) and not _UNREAL.search(claim.text):
        return True
    for one, other in ((claim, nearest), (nearest, claim)):
        if (these := _only(one)) and not {t.key for t in these[0]} <= other.keys:
            return True
        if (unlike := _UNLIKE.search(one.text)) and _content(tokens_of(unlike[1])) <= other.keys:
            return True
    words = {stem(fold(t.text)[len(p) :]) for t in claim.tokens for p in ("un", "non") if fold(t.text).startswith(p)}
    return bool(_ONLY & {fold(t.text) for t in nearest.tokens} and words & nearest.keys)


def _only(sentence: Sentence) -> tuple[tuple[Token, ...], tuple[Token, ...]] | None:
    """Return whom "only X …" at the head of a clause speaks of, and the rest of the clause."""
    for clause in clauses_of(sentence):
        for i, token in enumerate(clause[:-1]):
            if fold(token.text) not in ("only", "just") or any(t.is_content for t in clause[:i]):
                continue
            behind = [t for t in clause[i + 1 :] if fold(t.text) not in ("a", "an", "the")]
            named = [t for t in itertools.takewhile(lambda t: t.is_capitalised, behind)]
            these = named or [t for t in itertools.takewhile(lambda t: not t.is_function_word, behind)]
            rest = tuple(t for t in behind if t not in these)
            if these and rest and not these[0].is_number:
                return tuple(these), rest
    return None


def given_to_others(claim: Sentence, nearest: Sentence) -> tuple[str, str] | None:
    """Find "Ida was paid" or "anyone may enter" where the evidence has "only Clara was paid", "only staff may enter"."""
    only = _only(nearest)
    if only is None or any(t.is_negation or fold(t.text) in _ONLY for t in claim.tokens):
        return None
    these, rest = only
    content = [t for t in claim.tokens if t.is_content]
    others = [t for t in claim.tokens if t.key not in _content(rest) and (t.is_content or fold(t.text) in _ANYONE)]
    if not others or {t.key for t in these} & claim.keys or not _content(rest):
        return None
    open_to = fold(claim.tokens[0].text) in _ANYONE
    named = these[0].is_capitalised and others[0] is claim.tokens[0] and others[0].is_capitalised
    told = {t.key for t in content} & _content(rest)
    if (open_to or (named and not others[0].is_function_word)) and len(told) >= _ALIKE * len(_content(rest)):
        return others[0].text, f"only {' '.join(t.text for t in these)}"
    return None


def _content(tokens: Sequence[Token]) -> set[str]:
    return {t.key for t in tokens if t.is_content}


# --- may and must, plans and deeds, conditions -----------------------------------------------------------------------

_MAY = re.compile(r"\b(?:may|might|can|could)\b", re.IGNORECASE)
_MUST = re.compile(r"\b(?:must|shall|(?:has|have|needs?|(?:is|are) (?:required|obliged)) to)\b", re.IGNORECASE)
_PLANS = re.compile(
    r"\b(?:will|(?:plan|intend|expect|hope|aim|propose|promise|schedule)(?:s|d|ed|ned|ing|ning)?(?: \w+)? to)\b",
    re.IGNORECASE,
)
_AHEAD = re.compile(
    r"\b(?:will|would|shall|going|to be|plan\w*|inten[dt]\w*|expect\w*|propos\w*|schedul\w*|hop\w*|aim\w*)\b",
    re.IGNORECASE,
)
_CONDITION = re.compile(r"\b(?:(unless)|if|when|provided that)\b([^,.;]*)", re.IGNORECASE)
_EXCEPTION = re.compile(r"(?:, )?\b(?:unless|only (?:if|when|with|after|by|on|in|for|to|during|from))\b", re.IGNORECASE)
_LIMITS = re.compile(
    r"\b(?:only|unless|except\w*|if|when|but|provided|conditions?|restrict\w*|subject to|depend\w*|need\w*|requir\w*"
    r"|must)\b",
    re.IGNORECASE,
)


def obliged(claim: Sentence, nearest: Sentence) -> tuple[str, str] | None:
    """Find "must" in the claim where the evidence has "may" before the same word."""
    must, may = _MUST.search(claim.text), _MAY.search(nearest.text)
    if must is None or may is None or _MUST.search(nearest.text) or any(t.is_negation for t in claim.tokens):
        return None
    own, other = _word_behind(claim, must.end()), _word_behind(nearest, may.end())
    if own is None or other is None or own.key != other.key:
        return None
    return f"{must.group()} {own.text}", f"{may.group()} {other.text}"


def done(claim: Sentence, nearest: Sentence, held: Sequence[Sentence]) -> tuple[str, str] | None:
    """Find a deed ("was replaced") of which the evidence only says that it is planned ("plans to replace")."""
    plan = _PLANS.search(nearest.text)
    if plan is None or _AHEAD.search(claim.text):
        return None
    verb = _word_behind(nearest, plan.end())
    if verb is None or sum(t.key == verb.key for s in held for t in s.tokens) > 1:
        return None  # said again: it may have come to pass
    for before, token in itertools.pairwise(claim.tokens):
        past = token.text.lower().endswith("ed") and fold(before.text) not in ("is", "are", "be", "being")
        if token.key == verb.key and past:
            return token.text, nearest.text[plan.start() : verb.end]
    return None


def _word_behind(sentence: Sentence, at: int) -> Token | None:
    return next((t for t in sentence.tokens if t.start >= at and t.is_content), None)


def turned_condition(claim: Sentence, nearest: Sentence) -> tuple[str, str] | None:
    """Find "if X" in the claim where the evidence has "unless X", or the other way round."""
    for own in _CONDITION.finditer(claim.text):
        said = _condition(own)
        for other in _CONDITION.finditer(nearest.text):
            if bool(own[1]) != bool(other[1]) and said and said == _condition(other):
                return own.group().strip(), other.group().strip()
    return None


def _condition(match: re.Match[str]) -> frozenset[str]:
    """Return the keys of its words with content; none of one that is negated, which may say the same."""
    tokens = tokens_of(match[2])
    return frozenset() if any(t.is_negation for t in tokens) else frozenset(t.key for t in tokens if t.is_content)


def left_out(claim: Sentence, nearest: Sentence) -> str | None:
    """Return the exception of the evidence ("unless …", "only with …") that a claim which says the rest leaves out."""
    exception = _EXCEPTION.search(nearest.text)
    if exception is None or _LIMITS.search(claim.text):
        return None
    content = [t for t in nearest.tokens if t.is_content or t.is_number]
    before, behind = ({t.key for t in content if (t.start < exception.start()) is side} for side in (True, False))
    said = {t.key for t in claim.tokens if t.is_content or t.is_number}
    verb = max((t for t in content if t.start < exception.start()), key=lambda t: t.start, default=None)
    says_it = verb is not None and (verb.key in said or len(said & before) >= _ALIKE * len(before))
    if said and behind and says_it and said <= before and not said & (behind - before):
        return nearest.text[exception.start() :].strip(" ,.")
    return None
