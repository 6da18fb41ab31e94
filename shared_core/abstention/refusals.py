"""Tell refusals from answers: replies that begin by declining, and sentences that do nothing else."""

from __future__ import annotations

import re

from shared_core.citation.english import AUXILIARIES
from shared_core.citation.facts.attributions import without_attribution
from shared_core.support.regex import lazy_regex

__all__ = ["is_refusal", "only_refuses"]

# Only names for what was retrieved: "The report does not mention it" is a claim about a report.
_SOURCE = (
    r"(?:the|these|this|those|your)\s+(?:(?:given|provided|retrieved|above|available|supplied)\s+)?"
    r"(?:passages?|texts?|contexts?|documents?|sources?|sentences?|quotes?|excerpts?|information)"
    r"(?:\s+(?:that\s+)?(?:(?:i|we|you)(?:['’]ve| have)?\s+)?(?:was\s+|were\s+)?"
    r"(?:given|provided|retrieved|found|above|available))?"
)
_SAYS = (
    r"(?:say|answer|help|mention|contain|provide|state|specify|tell|give|include|discuss|address|indicate|explain|"
    r"describe|cover|disclose|reveal|have)"
)
_SAID = (
    r"(?:mentioned|stated|specified|given|provided|included|found|contained|discussed|addressed|indicated|explained|"
    r"described|covered|disclosed|available)"
)
_NOT = r"(?:do|does|did)(?: not|n['’]t)"
_SAYS_NOTHING = (
    rf"(?:(?:none|nothing) (?:of|in) {_SOURCE} {_SAYS}s?\b|"
    rf"{_SOURCE} (?:{_NOT} (?:(?:explicitly|specifically|directly|actually) |(?:seem|appear) to )?{_SAYS}|"
    rf"(?:{_SAYS}s?|has) no(?:thing)?)\b)"
)
_ON = r"(?:about|on|regarding|concerning)"
_WHERE = rf"(?:\s+{_ON}\b|\s+(?:in|by|within) {_SOURCE}|\W*\Z)"
_ABOUT = rf"(?:\s+(?:{_ON}|as to|in|within|for|from|of|that|to|whether|here|or|with)\b|\W*\Z)"
_FINDINGS = r"(?:information|answers?|results?|details?|data|mention|match(?:es)?)"
_SOME = r"(?:(?:relevant|specific|further|such|matching|additional) )?"
_NOTHING_FOUND = (
    # "No information is given to third parties" is a claim.
    rf"(?:no {_SOME}(?:{_FINDINGS}|documents|passages) (?:(?:is|are|was|were|could be|can be) )?"
    rf"(?:found\b|(?:available|provided|given){_WHERE})|"
    rf"there (?:is|was|are|were) (?:no|not enough|insufficient) {_SOME}{_FINDINGS}{_ABOUT}|"
    rf"(?:(?:the|this|that|such) )?(?:answer|information) (?:(?:is|was) |(?:can|could) )?not (?:be )?(?:{_SAID}|known)"
    rf"(?: (?:in|by) {_SOURCE})?\W*\Z|"
    rf"(?:not|insufficient) (?:enough )?(?:information|context)\b)"
)
_UNSAID = (
    rf"[^.;:]{{3,200}}? (?:is|are|was|were) not (?:explicitly |specifically )?{_SAID} (?:in|by|within) {_SOURCE}\W*\Z"
)

# Only at the beginning ("The mayor said: I don't know" is a claim), and with either apostrophe.
_REFUSAL = lazy_regex(
    r"^\W*(?:no answer\b|i(?:['’]m| am) (?:sorry|afraid|unable|not (?:sure|aware|familiar|able|in a position))|sorry\b|"
    r"(?:i|we) (?:do not|don['’]t|cannot|can['’]t|could not|couldn['’]t|am unable|must decline|have no)\b|"
    r"(?:i|we) (?:sincerely )?apologi[sz]e\b|my apologies\b|"
    r"(?:as|i(?:['’]m| am)) (?:just )?an? (?:large )?(?:language model|ai)\b|"
    # Not every "unfortunately": "Unfortunately, the dam broke." is a claim.
    r"unfortunately,? (?:i|we|the passages)\b|the passages (?:do not|don['’]t)\b|"
    r"(?:it|that) is not possible to (?:determine|answer|say|tell)\b|that['’]s beyond my\b|"
    rf"{_SAYS_NOTHING}|{_NOTHING_FOUND}|{_UNSAID})",
    re.IGNORECASE,
)
_ANSWERS_YET = lazy_regex(r"\b(?:but|however|though|although|except|think|believe|guess|probably|perhaps)\b", re.I)
"""“I am not sure, but …” goes on to make a claim, which is judged like any other."""
_APOLOGY = lazy_regex(
    r"^\W*(?:i(?:['’]m| am) (?:very |so )?(?:sorry|afraid)|sorry|(?:i|we) (?:sincerely )?apologi[sz]e|my apologies)"
    r"[^,.;]*[,;.]?\s+(?:but|however,?)\s+",
    re.IGNORECASE,
)
"""“I'm sorry, but I can't …” goes on to refuse."""


def is_refusal(text: str) -> bool:
    """Return whether a sentence says that there is no answer, instead of giving one.

    >>> is_refusal("The passages do not mention it."), is_refusal("I'm not sure, but probably 1911.")
    (True, False)
    """
    # First, since the "but" of "I'm sorry, but I can't" would count as going on to answer.
    plain = _APOLOGY.sub("", text)
    return _REFUSAL.search(plain) is not None and not _ANSWERS_YET.search(plain)


# --- nothing but a refusal -----------------------------------------------------------------------------------------


_REGRETS = lazy_regex(
    r"^\W*(?:(?:well|as an? (?:large )?(?:ai\b(?: language)?(?: model)?|language model)|"
    r"unfortunately|regrettably|however|i(?:['’]m| am) (?:very |so )?(?:sorry|afraid)|sorry|"
    r"(?:i|we) (?:sincerely )?apologi[sz]e|my apologies)\b(?: (?:for|about) [^,.;]{1,60})?"
    r"(?:[,;.:]?\s+(?:but\b|however\b,?|that\b)?|\W*\Z)\s*)+",
    re.IGNORECASE,
)
_ANYTHING = r"(?:any |enough |the |that |this |an? |you with |specific |sufficient |further |more |relevant ){0,4}"
_INFORMED = r"(?:information|details?|answers?|data|knowledge|context|access|idea|record)\b"
_CANNOT = (
    r"(?:do not|don['’]t|did not|didn['’]t|cannot|can['’]t|can not|could not|couldn['’]t|"
    r"(?:am|are|was|were|['’]m|['’]re) (?:unable|not able) to)"
)
_THAT = r"(?!\s+that\s+(?:the|an?|it|he|she|they|there|we|you|this)\b)"  # "I don't know that it was lit" is a doubt
# "We cannot provide refunds" and "We have no pool" are claims.
_DECLINES = lazy_regex(
    r"\W*(?:no answer\W*\Z|"
    rf"(?:i|we) ?{_CANNOT} (?:currently |really |actually )?(?:know|find|answer|determine|see any|locate any)\b{_THAT}|"
    rf"i ?{_CANNOT} (?:say|tell(?: you)?|confirm|help|assist|verify)\b{_THAT}|"
    rf"(?:i|we) ?(?:{_CANNOT} (?:provide|give|offer|have|see|find)|have no) {_ANYTHING}{_INFORMED}|"
    r"i(?:['’]m| am) not (?:sure|certain|aware|familiar)\b|"
    r"(?:it|that|this) is (?:not possible|impossible) to (?:determine|answer|say|tell|know)\b|"
    rf"{_SAYS_NOTHING}|{_NOTHING_FOUND}|{_UNSAID})",
    re.IGNORECASE,
)
_DOCUMENT = (
    r"(?:the|this|that|your)\s+(?:[\w'’&-]+\s+){0,3}(?:leaflet|handbook|manual|guide|guidelines?|brochure|polic(?:y|ies)|"
    r"contract|agreement|minutes|terms|instructions|documentation|docs|faqs?|web ?site|page|article|recipe|transcript)"
)
_UNMENTIONED = lazy_regex(
    # Of these verbs only: "The policy does not cover theft" is a claim.
    rf"\W*(?:{_DOCUMENT} (?:{_NOT} (?:(?:explicitly|specifically|directly|actually) )?(?:mention|say|specify|state)\b"
    rf"(?! that\b)|(?:says?|mentions?|states?) nothing (?:about|on|of|regarding)\b)|"
    r"(?:(?:it|this|that) (?:is|was) )?not (?:explicitly |specifically )?(?:specified|stated|mentioned|disclosed)"
    r"(?:\s+(?:in|by|within)\s+[^.,;:]{1,60})?\W*\Z)",
    re.IGNORECASE,
)
"""What only a check takes for a refusal: whether a document is silent is not for its passages to say."""
_PARTS = lazy_regex(
    r"[,;:–—(]\s*(?:(?:and|but|so|therefore|thus|hence|because|since|as|which means(?: that)?)\b,?\s*)?|"
    r"\s+(?:but|so|because|since|therefore|and (?=(?:the|it|they|he|she|we|you|there|this|that|i)\b))\b,?\s*",
    re.IGNORECASE,
)
_OFFERS = lazy_regex(
    r"(?:please|feel free|let me know|if you|could you|i (?:can|could|would|['’]d) (?:help|assist|be happy|be glad))\b"
    r"[^@\d]*\Z",
    re.IGNORECASE,
)
_NOR_DOES_IT = lazy_regex(rf"(?:it|they|this|that) {_NOT} {_SAYS}\b", re.IGNORECASE)
_FINITE = lazy_regex(rf"\b(?:{AUXILIARIES}|shall)\b|\w['’]s\b|\d", re.I)
_LISTED = lazy_regex(r"(?:or|nor|and|such as|including|like|even|neither)\b", re.IGNORECASE)
_WORDS_LISTED = 8
_WORDS_LEFT = 3  # "… of the pool and the hall"


def only_refuses(sentence: str) -> bool:
    """Return whether a sentence declines to answer and states nothing beside that.

    >>> only_refuses("I'm sorry, but the provided context does not contain information about her salary.")
    True
    >>> only_refuses("I'm sorry, the office is closed on Monday.")
    False
    """
    plain = _REGRETS.sub("", without_attribution(_REGRETS.sub("", sentence)))
    if not _declines(plain):
        return False
    first, *others = [part.strip() for part in _PARTS.split(plain)]
    return _declines(first) and all(_adds_nothing(part) for part in others)


def _declines(text: str) -> bool:
    return _DECLINES.match(text) is not None or _UNMENTIONED.match(text) is not None


def _adds_nothing(part: str) -> bool:
    """Return whether a part behind a refusal is one itself, an offer to help, or goes on with a list of its objects."""
    if not any(c.isalnum() for c in part) or any(
        p.match(part) for p in (_DECLINES, _UNMENTIONED, _OFFERS, _NOR_DOES_IT)
    ):
        return True
    words = len(part.split())
    if _FINITE.search(part):
        return False
    return words <= (_WORDS_LISTED if _LISTED.match(part) else _WORDS_LEFT)
