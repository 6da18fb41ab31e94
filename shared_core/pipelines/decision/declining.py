"""Recognise replies that decline to answer, by the English wordings that chat models use."""

from __future__ import annotations

import re

DECLINED = "no answer"
"""The outcome in the trace of a model that declines to answer."""

_SOURCE = (
    r"(?:the|these|this|those)\s+(?:(?:given|provided|retrieved|above)\s+)?"
    r"(?:passages?|texts?|context|documents?|sources?|sentences?|quotes?|information)"
    r"(?:\s+(?:given|provided|retrieved|found|above))?"
)
_SAYS = (
    r"(?:say|answer|help|mention|contain|provide|state|specify|tell|give|include|discuss|address|indicate|explain|"
    r"describe)"
)
_REFUSAL = re.compile(
    r"^\W*(?:no answer\b|i(?:['’]m| am) (?:sorry|afraid|unable|not (?:sure|aware|familiar|able|in a position))|sorry\b|"
    r"(?:i|we) (?:do not|don['’]t|cannot|can['’]t|could not|couldn['’]t|am unable|must decline|have no)\b|"
    r"(?:i|we) (?:sincerely )?apologi[sz]e\b|my apologies\b|"
    r"(?:as|i(?:['’]m| am)) (?:just )?an? (?:large )?(?:language model|ai)\b|"
    r"unfortunately,? (?:i|we|the passages)\b|the passages (?:do not|don['’]t)\b|"
    r"(?:it|that) is not possible to (?:determine|answer|say|tell)\b|not enough information\b|that['’]s beyond my\b|"
    rf"(?:none|nothing) (?:of|in) {_SOURCE} {_SAYS}s?\b|"
    rf"{_SOURCE} (?:(?:do|does|did)(?: not|n['’]t) {_SAYS}|{_SAYS}s? no(?:thing)?)\b|"
    r"there is (?:no|not enough) information\b)",
    re.IGNORECASE,
)
_ANSWERS_YET = re.compile(r"\b(?:but|however|though|although|except|think|believe|guess|probably|perhaps)\b", re.I)
"""“I am not sure, but …” goes on to make a claim, which is judged like any other."""


_APOLOGY = re.compile(
    r"^\W*(?:i(?:['’]m| am) (?:very |so )?(?:sorry|afraid)|sorry|(?:i|we) (?:sincerely )?apologi[sz]e|my apologies)"
    r"[^,.;]*[,;.]?\s+(?:but|however,?)\s+",
    re.IGNORECASE,
)
"""“I'm sorry, but I can't …” goes on to refuse."""


def is_refusal(text: str) -> bool:
    """Return whether a sentence says that there is no answer, instead of giving one.

    Example:
        >>> is_refusal("The passages do not mention it."), is_refusal("I'm not sure, but probably 1911.")
        (True, False)
    """
    plain = _APOLOGY.sub("", text)
    return _REFUSAL.search(plain) is not None and not _ANSWERS_YET.search(plain)
