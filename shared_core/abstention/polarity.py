"""Tell whether the "yes" or "no" that an answer opens with agrees with the sentence behind it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from shared_core.citation.english import AUXILIARIES, BE, DO
from shared_core.citation.facts.tokens import Sentence, Token, content_keys, stem, tokens_of
from shared_core.support.regex import lazy_regex

__all__ = ["opening_of", "turns_opening"]

_OPENING = lazy_regex(r"\W*(yes|yeah|yep|no|nope)\s*(?:[,.;:!]|\s[–—-]\s)\s*", re.IGNORECASE)
_ASKS = lazy_regex(rf"\W*(?:(?:and|but|so|also|hi|hello|please),? )*(?:{AUXILIARIES}|am)\b(?!n['’]t)", re.IGNORECASE)
# "Yes" to one of these may be meant either way, or what denies it affirms: "Is it forbidden?" – "Yes, it is not."
_EITHER_WAY = lazy_regex(
    r"n['’]t\b|\b(?:not|no|never|nobody|nothing|none|neither|nor|without|unless|mind|or|only|still|any ?more|forbidden|"
    r"prohibited|banned|illegal|impossible|exempt|exempted|excluded|unable|unlimited|lack|lacks|miss|missing|refuse|"
    r"fail|stop|avoid|closed|cancelled|against|instead|free)\b",
    re.IGNORECASE,
)
_CLAUSE_ENDS = lazy_regex(
    r"[,;:()–—]|\b(?:but|although|though|unless|except|if|when|because|since|as|and|so|until|who|which|that|where)\b",
    re.I,
)
_QUALIFIED = lazy_regex(
    r"\b(?:only|just|always|necessarily|all|every|everyone|everything|both|any ?more|have to|has to|need|longer|yet|"
    r"few|hardly|rarely|seldom|without|free|forbidden|prohibited|banned|instead|optional|voluntary)\b",
    re.IGNORECASE,
)
_PERMITS = frozenset(map(stem, ("allowed", "permitted", "possible", "able", "allow", "permit")))
_MAY = lazy_regex(r"\b(?:can|could|may|allowed|permitted|possible|able)\b", re.IGNORECASE)
_MAY_NOT = lazy_regex(r"\b(?:can['’]t|cannot|can not|couldn['’]t|may not|must not|mustn['’]t)\b", re.IGNORECASE)
_CUT_SHORT = lazy_regex(r"(?:\bnot|n['’]t|\bcannot)\W*\Z", re.IGNORECASE)  # "they are not"
_CUT_SHORT_YES = lazy_regex(rf"\b(?:{BE}|{DO}|can|could|may|will|would|has|have)\W*\Z", re.IGNORECASE)
_ABOUT = 0.5  # of the question's words: the sentence speaks of what is asked


def opening_of(answer: str) -> tuple[str, str]:
    """Return the "yes" or "no" that an answer opens with, and the rest; empty and all of it where there is none.

    >>> opening_of("No, dogs may not."), opening_of("No dogs."), opening_of("Yes.")
    (('no', 'dogs may not.'), ('', 'No dogs.'), ('yes', ''))
    """
    found = _OPENING.match(answer)
    if found is None:
        return "", answer
    return ("yes" if found[1][:1] in "yY" else "no"), answer[found.end() :]


def turns_opening(question: str, opening: str, sentence: str) -> bool:
    """Return whether a sentence says the contrary of the "yes" or "no" before it, as an answer to the question.

    Only where that is plain: the sentence denies, or affirms, what is asked in its own words or as what is allowed.

    >>> turns_opening("Can I bring my dog?", "yes", "Dogs are not allowed.")
    True
    >>> turns_opening("Do you mind?", "yes", "I don't.")
    False
    >>> turns_opening("Is the hall heated?", "no", "The hall is heated.")
    True
    """
    asked = re.split(r"(?<=[.!?])\s+", question.strip())[-1]
    if not opening or not _ASKS.match(asked) or _EITHER_WAY.search(asked):
        return False
    clause = _CLAUSE_ENDS.split(sentence.strip(), maxsplit=1)[0].strip()
    if not clause or _QUALIFIED.search(clause):
        return False
    said, about = Sentence(clause, tokens_of(clause)), content_keys(tokens_of(asked))
    if not said.tokens:
        return False
    if opening == "yes":
        return _denies(asked, about, said)
    return not said.is_negated and _affirms(asked, about, said)


def _denies(asked: str, about: set[str], said: Sentence) -> bool:
    if not said.is_negated:
        return False
    if _CUT_SHORT.search(said.text):
        return True
    denied = {w.key for t in said.tokens if t.is_negation for w in _behind(said.tokens, t)}
    forbids = _MAY.search(asked) is not None and (bool(denied & _PERMITS) or _MAY_NOT.search(said.text) is not None)
    return (bool(denied & about) or forbids) and _share(about, said) >= _ABOUT


def _behind(tokens: Sequence[Token], token: Token) -> Sequence[Token]:
    """The word that a negation denies: the first one with content behind it."""
    return [t for t in tokens[tokens.index(token) + 1 :] if t.is_content][:1]


def _affirms(asked: str, about: set[str], said: Sentence) -> bool:
    if _CUT_SHORT_YES.search(said.text):
        return True
    own = content_keys(said.tokens) - _PERMITS
    allowed = _MAY.search(said.text) is not None and _MAY.search(asked) is not None
    numbers = any(t.is_number for t in said.tokens)
    return not numbers and bool(own) and own <= about and (own == about or (allowed and _share(about, said) >= _ABOUT))


def _share(about: set[str], said: Sentence) -> float:
    """Share of the question's words that the sentence has; words for what is allowed aside."""
    asked = about - _PERMITS
    return len(asked & said.keys) / len(asked) if asked else 0.0
