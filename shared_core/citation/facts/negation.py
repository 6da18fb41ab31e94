"""Negations of a claim against the sentence it rests on."""

from __future__ import annotations

from shared_core.citation.facts.tokens import Sentence, Token, fold, stem

_LACK = frozenset(
    stem(word)
    for word in """fail lack lacks refuse refused deny denied absent absence hardly rarely seldom unable except instead
    avoid prevent rather stop cease abandoned cancelled""".split()
)
_APART = ("un", "in", "im", "dis", "non", "ir", "il")
_REACH = 5


def contradicts(claim: Sentence, nearest: Sentence) -> tuple[str, str] | None:
    """The words that a negation turns round, as claim and evidence have them; ``None`` if no negation differs.

    The evidence's are empty if it lacks the word that the claim negates: then it says nothing of the kind.
    """
    own, other = _negated(claim), _negated(nearest)
    held = {t.key for t in nearest.tokens}
    said = {t.key for t in claim.tokens}
    if own and not other:
        negator, word = own[0]
        # "Not really, …", "No, …" speak to somebody
        if (word.key in held or not negator.first) and not _says_no_otherwise(nearest, said, word):
            return f"{negator.text} {word.text}", _around(nearest, word) if word.key in held else ""
    if not own:
        for negator, word in other:
            if word.key in said and not _says_no_otherwise(claim, held, word):
                return _around(claim, word), f"{negator.text} {word.text}"
    if own and other:
        turned = [(n, w) for n, w in own if w.key in held and w.key not in {x.key for _, x in other}]
        back = [w for _, w in other if w.key in said and w.key not in {x.key for _, x in own}]
        elsewhere = not any(w.key in said for _, w in other)  # the evidence negates what the claim leaves out
        if turned and (back or elsewhere or len(own) > len(other)):
            negator, word = turned[0]
            return f"{negator.text} {word.text}", _around(nearest, word)
    return None


def _negated(sentence: Sentence) -> list[tuple[Token, Token]]:
    """Each negation with the first content word behind it (before it, where none follows)."""
    found = []
    for i, token in enumerate(sentence.tokens):
        if not _is_negation(sentence, i):
            continue
        behind = [t for t in sentence.tokens[i + 1 : i + 1 + _REACH] if t.is_content]
        before = [t for t in sentence.tokens[max(0, i - _REACH) : i] if t.is_content]
        if behind or before:
            found.append((token, behind[0] if behind else before[-1]))
    return found


def _is_negation(sentence: Sentence, i: int) -> bool:
    token = sentence.tokens[i]
    if not token.is_negation:
        return False
    word = fold(token.text)
    after = sentence.tokens[i + 1] if i + 1 < len(sentence.tokens) else None
    follows = fold(after.text) if after else ""
    if word == "no":  # "No. 5", "no fewer than"
        return follows not in ("fewer", "less", "later", "more") and not (after and after.is_number)
    return not (word in ("not", "nicht", "non") and follows in ("only", "nur", "solo", "just", "least"))


def _says_no_otherwise(sentence: Sentence, words: set[str], near: Token) -> bool:
    """Whether the sentence denies by a verb ("failed to") or a prefix ("unknown" where the other has "known").

    Looked for near the word that the other sentence negates; all over the sentence where it does not hold the word.
    """
    at = next((i for i, t in enumerate(sentence.tokens) if t.key == near.key), None)
    tokens = sentence.tokens if at is None else sentence.tokens[max(0, at - _REACH) : at + _REACH]
    return any(_denies(t, words) for t in tokens)


def _denies(token: Token, words: set[str]) -> bool:
    plain = fold(token.text)
    apart = [plain[len(p) :] for p in _APART if plain.startswith(p) and len(plain) > len(p) + 2]
    return token.key in _LACK or any(stem(rest) in words and token.key not in words for rest in apart)


def _around(sentence: Sentence, word: Token) -> str:
    """The word in the sentence, with the one before it."""
    at = next((i for i, t in enumerate(sentence.tokens) if t.key == word.key), None)
    if at is None:
        return sentence.text[:60]
    return " ".join(t.text for t in sentence.tokens[max(0, at - 1) : at + 1])
