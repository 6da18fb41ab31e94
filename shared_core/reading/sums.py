"""Find whether a sentence gives the sum of money that a question asks for, rather than a time, a change or a favour."""

from __future__ import annotations

import re
from itertools import pairwise

from shared_core.citation.facts.quantities import quantities_of
from shared_core.reading.questions import asks_price, content_stems, names_price
from shared_core.support.regex import lazy_regex

_FEE_ASKED = lazy_regex(
    r"\b(?:how much|what) (?:is|are|was|were) (?:the|an?|my|our) (?:\w+ )?(?:fine|charge|deposit|rent|fare|penalty)\b",
    re.IGNORECASE,
)
_PENALTY_ASKED = lazy_regex(
    r"\bwhat(?:['’]s| is| are| was| were) the (?:[\w-]+ ){0,2}(?:fine|penalt(?:y|ies)|charge|fee)s?\b", re.IGNORECASE
)
_ELSEWHERE = lazy_regex(
    r"\b(?:fined?|fines|penalt(?:y|ies)|charged?|charges|fees?|sums?|amounts?|levied|rates?)\b[^.;]{0,60}?\b"
    r"(?:in accordance with|as per|according to|under"
    r"|(?:set[- ]out|specified|given|listed|shown|found|stated|laid down) in)"
    r" (?:the |our |its |this )?[^.;]{0,40}\b(?:tariffs?|schedules?|tables?|appendix|annex|lists?|scale|polic(?:y|ies)"
    r"|handbook|regulations?|rules?|section|page|website|guidelines)\b",
    re.IGNORECASE,
)
_RULE = lazy_regex(
    r"\b(?:rule|section|clause|article|appendix|annex|schedule|page|paragraph) [\dA-Z][\w.()]*", re.IGNORECASE
)
_EARNED_ASKED = lazy_regex(
    r"\bhow much (?:money )?(?:do|does|did|will|would|can|could|has|have|had|was|were)\b[^?,;]*"
    r"\b(?:earn(?:ed)?|spen[dt]|owed?|donated?|borrow(?:ed)?|lend|lent|invest(?:ed)?)\b",
    re.IGNORECASE,
)
_PAID = lazy_regex(
    r"[£$€¥]|\b(?:free|nothing|wages?|salar(?:y|ies)|pa(?:y|id)|money|half|twice|percent)\b", re.IGNORECASE
)
_MUCH_ASKED = lazy_regex(r"\W*how much (?:is|are|was|were)\b", re.IGNORECASE)
_MUCH_OF_THING = lazy_regex(r"\W*how much (?:is|are|was|were) (?:an?|the|one|it|my|our|your)\b", re.IGNORECASE)
_PAY_ASKED = lazy_regex(
    r"\W*how much (?:do|does|did|will|would|is|are) .{2,60}\b(?:get paid|be paid|paid|earn|make)\b(?! (?:for|of)\b)",
    re.IGNORECASE,
)
_COST_OF = lazy_regex(r"\b(?:cost|price|fee|charge)s? (?:of|for) |\bcosts?\b", re.IGNORECASE)
_WAGE = lazy_regex(
    r"\b(?:pa(?:y|ys|id)|wages?|salar(?:y|ies)|earns?|an hour"
    r"|(?:per|a|each) (?:hour|week|month|year|meeting))\b",
    re.IGNORECASE,
)
_CHANGE_ASKED = lazy_regex(
    r"\b(?:more|less|extra|increas\w*|ris(?:e|es|en|ing)|rose|up|down|off|rais\w*|grow\w*|grew|discount\w*|reduc\w*|sav\w+"
    r"|cheaper|dearer|differ\w*|cut|cuts|lower\w*|higher|drop\w*|f[ae]ll\w*|chang\w*|addition\w*|add(?:s|ed)?|supplement|surcharge"
    r"|rebate|concession|by|than)\b",
    re.IGNORECASE,
)
_SUM = lazy_regex(r"[£$€] ?\d[\d.,]*\b|\b\d[\d.,]* ?(?:[£$€]|(?:euros?|dollars?|pounds?|pence|cents)\b)", re.IGNORECASE)
_NEAR = 90
"""Characters between "increase" and the sum by which, at most."""
_MORE_BEHIND = lazy_regex(
    r"(?: (?:an?|per|each|every) (?:\w+))? (?:(?:more|less|cheaper|dearer|higher|lower)\b(?! or\b)|off\b(?!-))",
    re.IGNORECASE,
)
_BY_BEFORE = lazy_regex(
    r"\b(?:increas\w*|ris(?:e|es|en|ing)|rose|rais(?:e|es|ed|ing)|reduc\w*|lower(?:s|ed|ing)?|cut|f[ae]ll(?:s|en|ing)?|drop\w*"
    r"|up|down|grow\w*|grew|goes|go|went)\b[^.;:£$€]*\bby(?: (?:up to|about|around|at least|at most|another))? \Z"
    r"|\b(?:increase|rise|reduction|discount|saving|cut|drop|rebate) of(?: (?:up to|about|around))? \Z",
    re.IGNORECASE,
)
_SUM_TOO = lazy_regex(r"(?:(?!\b(?:to|from|is|are|costs?|pays?|at)\b)[^.;:])*(?:\band|,|\bor) (?:by )?", re.IGNORECASE)
_BECOME_ASKED = lazy_regex(
    r"\b(?:cost|much|fee|price|pay)\b.{0,40}\b(?:become|becoming|be|being|join as)\b (?:an? )?(.+)", re.IGNORECASE
)
_FREE = lazy_regex(r"\b(?:free|no charge|without charge)\b", re.IGNORECASE)
_JOINS = lazy_regex(r"\b(?:becom\w+|join\w*|member(?:ship)?\b(?= (?:is|fee|costs?))|subscri\w+|dues)\b", re.IGNORECASE)
_NO_MONEY = frozenset(("clock", "time", "length", "mass", "area", "volume", "temperature"))


def names_no_sum(question: str, sentence: str) -> bool:
    """Return whether a question asks for a sum of money, and all numbers of a sentence are times or measures.

    >>> names_no_sum("How much is the fine for bins put out early?", "Put them out by 6.30 am on the day.")
    True
    >>> [names_no_sum("How much did they pay?", text) for text in ("It was 1,200 in 1926.", "Since 1926 it is free.")]
    [False, False]
    """
    if _MUCH_OF_THING.match(question) and not names_price(sentence):
        # "How much is the ferry?" is not asked for a time of day, but may be for a measure
        given = quantities_of(sentence)
        return bool(given) and all(q.dimension == "clock" for q in given)
    if not _asks_sum(question) or "%" in sentence:
        return False
    if _PAID.search(sentence) if _EARNED_ASKED.search(question) else names_price(sentence):
        return False
    given = quantities_of(sentence)
    # "pounds" may be either
    return bool(given) and all(q.is_year or (q.dimension in _NO_MONEY and q.unit[:5] != "pound") for q in given)


def costs_something(question: str, sentence: str) -> bool:
    """Return whether a question asks what someone is paid, and a sentence says only what something costs.

    >>> asked = "How much does the warden get paid?"
    >>> [costs_something(asked, told) for told in ("The cost of a lamp is £40.", "The warden is paid £40 a week.")]
    [True, False]
    """
    return bool(_PAY_ASKED.match(question) and _COST_OF.search(sentence)) and not _WAGE.search(sentence)


def refers_to_tariff(question: str, sentence: str) -> bool:
    """Return whether a question asks for a fine, penalty or fee, and a sentence says only where its amount is given.

    >>> asked = "What is the penalty for a late entry?"
    >>> given = ("A fine as set out in the fees table is due.", "A fine of £5 in accordance with rule 3.", "Expulsion.")
    >>> [refers_to_tariff(asked, sentence) for sentence in given]
    [True, False, False]
    """
    if not (_asks_sum(question) or _PENALTY_ASKED.search(question)) or not _ELSEWHERE.search(sentence):
        return False
    return _SUM.search(sentence) is None and not quantities_of(_RULE.sub(" ", sentence))


def tells_only_change(question: str, sentence: str) -> bool:
    """Return whether a question asks for a sum of money, and a sentence only by how much one changes or differs.

    >>> told = "From May we shall raise the rent by £20."
    >>> [tells_only_change(asked, told) for asked in ("How much is the rent?", "How much will the rent go up?")]
    [True, False]
    """
    if not (_asks_sum(question) or _MUCH_ASKED.match(question)) or _CHANGE_ASKED.search(question):
        return False
    sums = [*_SUM.finditer(sentence)]
    if not sums:
        return False
    changes = [
        _MORE_BEHIND.match(sentence, one.end())
        or _BY_BEFORE.search(sentence[max(0, one.start() - _NEAR) : one.start()])
        for one in sums
    ]
    also = [
        i > 0 and _SUM_TOO.fullmatch(sentence, one.end(), two.start()) for i, (one, two) in enumerate(pairwise(sums), 1)
    ]
    return bool(changes[0]) and all(change or too for change, too in zip(changes[1:], also, strict=True))


def frees_members(question: str, sentence: str) -> bool:
    """Return whether a question asks what it costs to become something, and a sentence what those who are it get free.

    >>> asked = "What does it cost to become a Friend of the park?"
    >>> [frees_members(asked, told) for told in ("Friends of the park enter free.", "Joining the Friends is free.")]
    [True, False]
    """
    asked = _BECOME_ASKED.search(question)
    free = _FREE.search(sentence)
    if asked is None or free is None or _SUM.search(sentence) or _JOINS.search(sentence):
        return False
    return bool(content_stems(asked[1]) & content_stems(sentence[: free.start()]))


def _asks_sum(question: str) -> bool:
    """Whether a question asks for a sum of money: a price, a fee or what someone earned or spent."""
    return any((asks_price(question), _FEE_ASKED.search(question), _EARNED_ASKED.search(question)))
