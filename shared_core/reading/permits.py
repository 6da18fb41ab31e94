"""Find whether one may bring or have something: "Dogs are welcome", asked "Can I bring my dog?"."""

from __future__ import annotations

import re

from shared_core.reading.questions import content_stems
from shared_core.support.regex import lazy_regex

_THING = r"(?:my |our |your |an? |the |any |some )?(?:own )?([\w'’-]+(?: [\w'’-]+){0,2}?)"
_MAY_I = lazy_regex(
    r"\W*(?:can|may|could) (?:I|we|you|one|guests|visitors|members|residents) (?:also )?"
    rf"(?:bring|take|have|keep|wear|come with|use) {_THING}"
    r"(?: (?:along|here|there|with (?:me|us|you)|too))?(?: (?:in|into|on|onto|at|to|inside) (.+?))?\W*",
    re.IGNORECASE,
)
_ALLOWED = lazy_regex(
    rf"\W*(?:are|is) {_THING} (?:allowed|permitted|welcome|ok|okay)(?: (?:in|into|on|onto|at|to|inside) (.+?))?\W*",
    re.IGNORECASE,
)
_PERMITS = lazy_regex(
    r"\W*(?:all |any |no |the |please note that )?([\w'’-]+(?: [\w'’-]+){0,2}?) (?:is|are) "
    r"(?:(?:also|always|not|never|only|strictly|very|most|more than|generally|usually) )*"
    r"(?:welcome|allowed|permitted|accepted|admitted|banned|prohibited|forbidden)\b",
    re.IGNORECASE,
)


def permits(question: str, sentence: str, around: str) -> bool:
    """Return whether a question asks if one may bring or have a thing, and a sentence says so of that very thing.

    Args:
        around: the passage with its title and headings, which has the place that the question may name.

    >>> asked = "Can I bring my dog?"
    >>> [permits(asked, told, "") for told in ("Dogs are welcome.", "Guide dogs are allowed.", "Cats are welcome.")]
    [True, False, False]
    >>> permits("Can I take my dog on the ferry?", "Dogs are not allowed.", "Garden rules")
    False
    """
    asked, told = _MAY_I.fullmatch(question) or _ALLOWED.fullmatch(question), _PERMITS.match(sentence)
    if asked is None or told is None:
        return False
    thing = content_stems(asked[1])
    return bool(thing) and thing == content_stems(told[1]) and content_stems(asked[2] or "") <= content_stems(around)
