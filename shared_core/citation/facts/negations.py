"""Negations: which words a sentence denies, and whether a claim and its evidence deny the same."""

from __future__ import annotations

import re
from collections.abc import Sequence, Set

from shared_core.citation.facts.tokens import Found, Sentence, Token, clauses_of, content_keys, fold, stem, telling_keys
from shared_core.support.regex import lazy_regex

_LACK = frozenset(
    stem(word)
    for word in """fail lack lacks refuse refused deny denied absent absence hardly rarely seldom unable except instead
    avoid prevent rather stop cease abandoned cancelled dropped removed discontinued ended unless fixed resolved
    eliminated decline declined postpone postponed reject rejected false untrue""".split()
)
_ONCE = frozenset(map(stem, "fixed fixes resolved bug problem previously formerly earlier before until used".split()))
_FORBIDS = frozenset(map(stem, "prohibited forbidden banned prohibits forbids disallowed".split()))
_REQUIRES = frozenset(map(stem, "only need needed require required must necessary".split()))
_QUOTED = frozenset([('"', '"'), ("`", "`"), ("“", "”")])
_APART = ("un", "in", "im", "dis", "non", "ir", "il")
_REACH = 5


def contradicts(claim: Sentence, nearest: Sentence) -> Found:
    """The words that a negation turns round, as claim and evidence have them; ``None`` if no negation differs.

    The evidence's are empty if it lacks the word that the claim negates: then it says nothing of the kind.
    """
    own, other = _negated(claim), _negated(nearest)
    if _says_twice(own, other, nearest) or _says_twice(other, own, claim):
        return None
    if _both_free(claim, nearest) or _both_free(nearest, claim):
        return None
    if _forbids_without(claim, own, nearest, other) or _forbids_without(nearest, other, claim, own):
        return None
    if not own and _needs(nearest, other, claim):
        return None
    held, said = nearest.keys, claim.keys
    if own and not other:
        negator, word = own[0]
        # "Not really, …", "No, …" speak to somebody
        if (word.key in held or not negator.first) and not (
            _says_no_otherwise(nearest, said, word) or _is_supposed(nearest, word)
        ):
            return f"{negator.text} {word.text}", _around(nearest, word) if word.key in held else ""
    if not own:
        for negator, word in other:
            if (
                word.key in said
                and not _says_no_otherwise(claim, held, word)
                and not _is_denied_elsewhere(nearest, negator, word, claim)
                and not _tells_of_before(claim, nearest, negator)
            ):
                return _around(claim, word), f"{negator.text} {word.text}"
    # "No volume and no definite shape" denies the volume too
    denied = {t.key for n, w in own for t in (w, *_near(claim, n)) if t is w or t.start >= n.start}
    more = [(n, w) for n, w in other if w.key in said and w.key not in denied]
    if own and more and {w.key for _, w in own} <= {w.key for _, w in other}:  # "not … without" against "… without"
        return _around(claim, more[0][1]), f"{more[0][0].text} {more[0][1].text}"
    if own and other and _denies_rest(claim, nearest, other[0][0]):
        return None
    if own and other and not _negate_together(claim, nearest, own[0], other[0]):
        turned = [(n, w) for n, w in own if w.key in held and w.key not in {x.key for _, x in other}]
        back = [w for _, w in other if w.key in said and w.key not in {x.key for _, x in own}]
        elsewhere = not any(w.key in said for _, w in other)  # the evidence negates what the claim leaves out
        if not back and len(own) == len(other) == 1 and turned and _reaches(nearest, other[0][0], turned[0][1]):
            return None  # "it is no risk to health", "not harmful to health"
        if turned and (back or elsewhere or len(own) > len(other)):
            negator, word = turned[0]
            return f"{negator.text} {word.text}", _around(nearest, word)
    return None


def _both_free(one: Sentence, other: Sentence) -> bool:
    """Whether the one costs nothing, and the other is free, or included."""
    free = _FREE.search(other.text)
    return bool(_COSTS_NOTHING.search(one.text) and free and not _NOT_FREE.search(other.text[: free.start()]))


_COSTS_NOTHING = lazy_regex(
    r"\b(?:no|nothing|not|never|without|cannot|\w+n['’]t)\b(?: \w+){0,3}? "
    r"(?:pay\w*|fees?|charg\w+|cost\w*|extra|admission|price)\b"
    r"|\b(?:costs?|pays?|charged?|charges?) (?:\w+ )?(?:nothing|no )",
    re.IGNORECASE,
)
_FREE = lazy_regex(r"\b(?:free|gratis|complimentary|included|includes?|covered|covers?)\b", re.IGNORECASE)
_NOT_FREE = lazy_regex(r"(?:\b(?:not|never|no|nor|neither)|n['’]t)(?: \w+)? \Z", re.IGNORECASE)


def _denies_rest(claim: Sentence, nearest: Sentence, negator: Token) -> bool:
    """Whether the negation ("but not in Paper 1") denies of its phrase, all of which the claim has, what is before."""
    before = nearest.beside(negator, -1)
    if before is None or fold(before.text) not in ("but", "and", "though"):
        return False
    clause = next(c for c in clauses_of(nearest) if negator in c)
    rest = telling_keys(t for t in clause if t.start > negator.start)
    return bool(rest) and rest <= claim.keys


def _is_denied_elsewhere(nearest: Sentence, negator: Token, word: Token, claim: Sentence) -> bool:
    """Whether the claim says what another clause says of the word, or the word is denied with another number.

    "The warranty covers defects, but it does not cover damage"; "not in Paper 1" says nothing of Paper 2.
    """
    behind = next((t for t in nearest.tokens if t.start > word.start), None)
    if behind is not None and behind.is_number:
        return behind.key not in claim.keys
    clauses = clauses_of(nearest)
    denying = next(c for c in clauses if negator in c)
    content = content_keys(claim.tokens)
    own = {t.key for t in denying}
    held = len(content & own)
    objects = content_keys(t for t in denying if t.start > word.start)
    other = bool(objects) and not objects & content  # "It does not sell meat, but sells bread": no other subject there
    return any(
        word.key in keys and (len(content & keys) > held or (other and content & keys - own))
        for c in clauses
        if c is not denying and not any(t.is_negation for t in c)
        for keys in [{t.key for t in c}]
    )


def _says_twice(twice: Sequence[tuple[Token, Token]], never: Sequence[tuple[Token, Token]], other: Sentence) -> bool:
    """Whether one sentence has "not without …" where the other, with no negation, has "only with …" or "needs …"."""
    doubled = len(twice) == 2 and fold(twice[1][0].text) in ("without", "unless")
    return doubled and not never and any(t.key in _REQUIRES for t in other.tokens)


def _forbids_without(
    claim: Sentence, own: Sequence[tuple[Token, Token]], held: Sentence, other: Sequence[tuple[Token, Token]]
) -> bool:
    """Whether one sentence has "prohibited without consent" where the other has "requires consent" or "may not"."""
    forbids = any(t.key in _FORBIDS for t in held.tokens) and len(other) == 1
    without = bool(other) and fold(other[0][0].text) in ("without", "unless")
    return forbids and without and (len(own) == 2 or (not own and any(t.key in _REQUIRES for t in claim.tokens)))


def _is_supposed(sentence: Sentence, word: Token) -> bool:
    """Whether a word stands only shortly behind an "if" or "when": what is not so there may not be so."""
    places = [(c, i) for c in clauses_of(sentence) for i, t in enumerate(c) if t.key == word.key]
    return bool(places) and all(
        i <= _REACH
        and fold(c[0].text) in ("if", "when", "unless", "whether")
        and "(" not in sentence.text[c[0].start : c[i].start]
        for c, i in places
    )


def _tells_of_before(claim: Sentence, held: Sentence, negator: Token) -> bool:
    """Whether the claim tells of what once was ("fixed a bug by which …") where the evidence has "no longer"."""
    behind = held.beside(negator)
    ended = behind is not None and fold(behind.text) == "longer"
    return ended and any(t.key in _ONCE for t in claim.tokens)


def _needs(held: Sentence, other: Sequence[tuple[Token, Token]], claim: Sentence) -> bool:
    """Whether the evidence has "not … without X", and the claim, without a negation, speaks of X."""
    without = [n for n, _ in other[1:] if fold(n.text) in ("without", "unless")]
    clauses = [c for c in clauses_of(held) if any(n in c for n in without)]
    return any(content_keys(t for t in c if t.start > n.start) & claim.keys for c in clauses for n in without if n in c)


def is_denied(sentence: Sentence) -> bool:
    """Whether the sentence holds an odd number of negations."""
    return sum(_is_negation(sentence, i) for i in range(len(sentence.tokens))) % 2 == 1


def _negate_together(claim: Sentence, nearest: Sentence, own: tuple[Token, Token], other: tuple[Token, Token]) -> bool:
    """Whether each negation stands near both negated words: "does not pay tax", "pays no tax"."""
    keys = {own[1].key, other[1].key}
    return all(keys <= {t.key for t in _near(s, negator)} for s, (negator, _) in ((claim, own), (nearest, other)))


def _near(sentence: Sentence, token: Token) -> tuple[Token, ...]:
    at = sentence.tokens.index(token)
    return sentence.tokens[max(0, at - _REACH) : at + _REACH + 1]


def _reaches(sentence: Sentence, negator: Token, word: Token) -> bool:
    """Whether a negation denies a phrase with the word: it stands behind it, with nothing but a preposition between."""
    clause = next(c for c in clauses_of(sentence) if negator in c)
    behind = [t for t in clause if t.start > negator.start]
    at = next((i for i, t in enumerate(behind) if t.key == word.key), None)
    return at is not None and 0 < at < _REACH and any(fold(t.text) in ("to", "for", "of") for t in behind[:at])


def _negated(sentence: Sentence) -> list[tuple[Token, Token]]:
    """Each negation with the first content word behind it (before it, where none follows)."""
    found = []
    for i, token in enumerate(sentence.tokens):
        if not _is_negation(sentence, i):
            continue
        behind = [t for t in sentence.tokens[i + 1 : i + 1 + _REACH] if t.is_content]
        if behind and fold(token.text) == "no" and fold(behind[0].text) == "longer":
            behind = behind[1:]
        if not behind and sentence.text[: token.start].rstrip().endswith(","):
            continue  # "before it, not after it"
        before = [t for t in sentence.tokens[max(0, i - _REACH) : i] if t.is_content]
        if behind or before:
            # "neither party is liable" denies "the parties are liable"
            whole = fold(token.text) == "neither" and len(behind) > 1 and sentence.tokens[i + 1].is_content
            found.append((token, behind[whole] if behind else before[-1]))
    return found


def _is_negation(sentence: Sentence, i: int) -> bool:
    token = sentence.tokens[i]
    if not token.is_negation:
        return False
    word = fold(token.text)
    after = sentence.tokens[i + 1] if i + 1 < len(sentence.tokens) else None
    follows = fold(after.text) if after else ""
    if token.first and sentence.text[token.end :].lstrip()[:1] in (",", ";", ":", "–", "—"):
        return False  # "No, …" answers
    if (sentence.text[token.start - 1 : token.start], sentence.text[token.end : token.end + 1]) in _QUOTED:
        return False  # the value "none" denies nothing
    if word == "no":  # "No. 5", "no fewer than"
        return follows not in ("fewer", "less", "later", "more") and not (after and after.is_number)
    return not (word in ("not", "nicht", "non") and follows in ("only", "nur", "solo", "just", "least"))


def _says_no_otherwise(sentence: Sentence, words: Set[str], near: Token) -> bool:
    """Whether the sentence denies by a verb ("failed to") or a prefix ("unknown" where the other has "known").

    Looked for near the word that the other sentence negates; all over the sentence where it does not hold the word.
    """
    at = next((i for i, t in enumerate(sentence.tokens) if t.key == near.key), None)
    tokens = sentence.tokens if at is None else sentence.tokens[max(0, at - _REACH) : at + _REACH]
    return any(_denies(t, words) or t.key in _FORBIDS - words for t in tokens)


def _denies(token: Token, words: Set[str]) -> bool:
    plain = fold(token.text)
    apart = [plain[len(p) :] for p in _APART if plain.startswith(p) and len(plain) > len(p) + 2]
    return (token.key in _LACK and token.key not in words) or any(
        stem(rest) in words and token.key not in words for rest in apart
    )


def _around(sentence: Sentence, word: Token) -> str:
    """The word in the sentence, with the one before it."""
    at = next((i for i, t in enumerate(sentence.tokens) if t.key == word.key), None)
    if at is None:
        return sentence.text[:60]
    return " ".join(t.text for t in sentence.tokens[max(0, at - 1) : at + 1])
