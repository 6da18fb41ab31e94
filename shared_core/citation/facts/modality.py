"""Tell a duty from a permission, a deed from a plan, a fact from a condition, and a cause from a coincidence."""

from __future__ import annotations

import re
from collections.abc import Sequence, Set

from shared_core.citation.facts.asserted import does, mentions
from shared_core.citation.facts.negations import is_denied
from shared_core.citation.facts.scope import LIMITS
from shared_core.citation.facts.tokens import (
    Found,
    Sentence,
    clauses_of,
    content_keys,
    fold,
    stem,
    telling_keys,
    tokens_of,
    with_word_before,
)
from shared_core.support.regex import lazy_regex

_ALIKE, _HALF = 0.6, 0.5  # of the words that the claim and a clause have in common

_MAY = lazy_regex(r"\b(?:(?-i:may)|might|can|could)\b", re.IGNORECASE)
_MUST = lazy_regex(r"\b(?:must|shall|(?:has|have|needs?|(?:is|are) (?:required|obliged)) to)\b", re.IGNORECASE)
_PLANS = lazy_regex(
    r"\b(?:will|(?:plan|intend|expect|hope|aim|propose|promise|schedule)(?:s|d|ed|ned|ing|ning)?(?: \w+)? to"
    r"|(?:expect|forecast|predict)(?:s|ed)?(?: \w+){1,3} to"
    r"|(?:is|are) (?:(?:due|set|going|about) to|to (?!the\b|an?\b))"
    r"|consider(?:s|ing)|(?:is|are) thinking (?:about|of))\b",
    re.IGNORECASE,
)
_AHEAD = lazy_regex(
    r"\b(?:will|would|shall|going|to be|plan(?:s|ned|ning)?|inten[dt]\w*|expect\w*|propos\w*|schedul\w*|hop\w*"
    r"|aim\w*)\b",
    re.IGNORECASE,
)
_CONDITION = lazy_regex(r"\b(?:(unless)|if|when|provided that)\b([^,.;]*)", re.IGNORECASE)
_EXCEPTION = lazy_regex(r"(?:, )?\b(?:unless|only (?:if|when|with|after|by|on|in|for|to|during|from))\b", re.IGNORECASE)


def obliged(claim: Sentence, nearest: Sentence) -> Found:
    """Find "must" in the claim where the evidence has "may" before the same word."""
    must, may = _MUST.search(claim.text), _MAY.search(nearest.text)
    if must is None or may is None or claim.is_negated:
        return None
    own, other = claim.content_behind(must.end()), nearest.content_behind(may.end())
    if own is None or other is None or own.key != other.key:
        return None
    if any((held := nearest.content_behind(m.end())) and held.key == own.key for m in _MUST.finditer(nearest.text)):
        return None
    return f"{must.group()} {own.text}", f"{may.group()} {other.text}"


def done(claim: Sentence, nearest: Sentence, held: Sequence[Sentence]) -> Found:
    """Find a deed ("was replaced") of which the evidence only says that it is planned ("plans to replace")."""
    if _AHEAD.search(claim.text):
        return None
    said = content_keys(claim.tokens)
    alike = (s for s in held if len(said & s.keys) >= _ALIKE * len(said))  # the nearest may be a title
    for sentence in (nearest, *alike):
        plan = _PLANS.search(sentence.text)
        verb = sentence.content_behind(plan.end()) if plan else None
        if plan is None or verb is None or mentions(verb.key, held) > 1:
            continue  # said again: it may have come to pass
        if found := does(claim, verb.key):
            return found, sentence.text[plan.start() : verb.end]
    return None


_HEDGED = lazy_regex(
    r"\b(?:may|might|could|would|can|should|must|possib\w*|perhaps|maybe|potential\w*|likely|unlikely|suggest\w*|suspect\w*|risk"
    r"|expect\w*|plan(?:s|ned|ning)?|if|unless|believ\w*|think\w*|thought|hypoth\w*|seem\w*|appear\w*|probab\w*|sometimes|often|hop\w+"
    r"|provided|depend\w*|allow\w*|permit\w*|whether|able)\b",
    re.IGNORECASE,
)
_PERHAPS = lazy_regex(  # "may only cover" limits what is covered
    r"\b(?:may|might|could)\b(?! only\b)(?: (?:also|well|even|still|\w+ly|have|be|have been))* ([a-z]\w+)"
)
_IF = lazy_regex(r"\b(?:if|provided that|in case)\b ([^,.;]*)", re.IGNORECASE)


def certain(claim: Sentence, nearest: Sentence, held: Sequence[Sentence]) -> Found:
    """Find "opened" or "will open" in the claim where the evidence has "could open"."""
    if _HEDGED.search(claim.text) or claim.is_negated:
        return None
    for perhaps in _PERHAPS.finditer(nearest.text):
        verb = stem(perhaps[1])
        if mentions(verb, held) > 1:
            continue
        for before, token in with_word_before(claim.tokens):
            word = token.text.lower()
            noun = word.endswith(("er", "ers")) and not perhaps[1].lower().endswith("er")  # "opener", but "lowers"
            if token.key != verb or noun or word.endswith(("ing", "ion", "able")):
                continue
            if before == "will" or (word.endswith(("s", "ed")) and before not in ("the", "a", "an", "of", "its")):
                return f"{before} {token.text}".strip(), perhaps.group()
    return None


def unconditional(claim: Sentence, nearest: Sentence) -> Found:
    """Find a claim that states as a fact what the evidence only has behind an "if"."""
    if _HEDGED.search(claim.text) or claim.is_negated or re.search(r"\bwhen\b", claim.text):
        return None
    said = [t for t in claim.tokens if t.is_content]
    for condition in _IF.finditer(nearest.text):
        inside = content_keys(tokens_of(condition[1]))
        outside = content_keys([t for t in nearest.tokens if not condition.start() <= t.start < condition.end()])
        keys = {t.key for t in said}
        finite = any(t.text.lower().endswith(("s", "ed")) for t in said[1:]) or {"is", "was", "are", "were"} & {
            fold(t.text) for t in claim.tokens
        }
        if len(keys) > 1 and finite and keys <= inside and not keys <= outside:
            return claim.text.strip(), condition.group().strip()
    return None


def turned_condition(claim: Sentence, nearest: Sentence) -> Found:
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
    return frozenset() if any(t.is_negation for t in tokens) else frozenset(content_keys(tokens))


def left_out(claim: Sentence, nearest: Sentence) -> Found:
    """Find the exception of the evidence ("unless …", "only with …") that a claim which says the rest leaves out."""
    exception = _EXCEPTION.search(nearest.text)
    if exception is None or LIMITS.search(claim.text):
        return None
    content = [t for t in nearest.tokens if t.is_telling]
    before, behind = ({t.key for t in content if (t.start < exception.start()) is side} for side in (True, False))
    said = telling_keys(claim.tokens)
    verb = max((t for t in content if t.start < exception.start()), key=lambda t: t.start, default=None)
    says_it = verb is not None and (verb.key in said or len(said & before) >= _ALIKE * len(before))
    if said and behind and says_it and said <= before and not said & (behind - before):
        return nearest.text[exception.start() :].strip(" ,."), ""
    return None


# --- reasons ---------------------------------------------------------------------------------------------------------

_BECAUSE = lazy_regex(
    r"\b(?:because(?: of)?|due to|owing to|as a result of|thanks to|caused by)\b([^,.;]*)", re.IGNORECASE
)
_CAUSES = lazy_regex(r"\bcaus(?:e|es|ed|ing)\b(?! of)", re.IGNORECASE)
_RELATED = lazy_regex(r"\b(?:associat\w+|link(?:ed|s)?|correlat\w+|related|connected|tend\w*)\b", re.IGNORECASE)


def presumed_cause(claim: Sentence, nearest: Sentence) -> Found:
    """Find "causes" in the claim where the evidence only has "is associated with"."""
    related, causes = _RELATED.search(nearest.text), _CAUSES.search(claim.text)
    if causes and related and not re.search(r"\bcaus|\bdue\b|\bbecause\b", nearest.text, re.IGNORECASE):
        return causes.group(), related.group()
    return None


_NO_EFFECT = lazy_regex(
    r"\bno (?:[^\W\d_]+ly )?(?:significant |clear |measurable |marked |meaningful |further )?"
    r"(?:effects?|differences?|changes?|improvements?|reductions?|associations?|correlations?|benefits?)\b",
    re.IGNORECASE,
)
_EFFECT = lazy_regex(
    r"\b(?:improv|reduc|rais|lower|increas|decreas|worsen|affect|rose|fell|boost|cut|declin|differ|influenc)(?:e[sd]?|s|ed|ing)?\b",
    re.IGNORECASE,
)


def presumed_effect(claim: Sentence, nearest: Sentence) -> Found:
    """Find "reduced the pain" in the claim where the clause of the evidence that says the rest has "no effect"."""
    effect = _EFFECT.search(claim.text)
    if effect is None or is_denied(claim) or re.search(r"\b(?:no|little|without|un\w+)\b", claim.text):
        return None
    said = telling_keys(t for t in claim.tokens if not effect.start() <= t.start < effect.end())
    for clause in clauses_of(nearest):
        text = nearest.text[clause[0].start : clause[-1].end]
        none = _NO_EFFECT.search(text)
        if none and len(said & telling_keys(clause)) >= max(2, _HALF * len(said)):
            return effect.group(), none.group()
    return None


def other_reason(claim: Sentence, known: Set[str]) -> Found:
    """Find a reason ("because of drought") of which the evidence holds no word."""
    own = _BECAUSE.search(claim.text)
    said = content_keys(tokens_of(own[1])) if own is not None else set()
    if own is None or not said or {k[:4] for k in said} & {k[:4] for k in known}:
        return None
    return own.group().strip(), ""
