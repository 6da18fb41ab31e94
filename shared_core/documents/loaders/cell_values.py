"""Tell cells with values (numbers, dates, amounts, years) from cells with words."""

from __future__ import annotations

from shared_core.support.regex import lazy_regex

_VALUE = lazy_regex(
    r"(?=.*\d)[-+–−<>≤≥~±]?[^\w\s]{0,2}\s?[\d.,:/’' \-–−+()%‰°$€£¥]+\s?[^\w\s]{0,2}|TRUE|FALSE|-+|#[\w/?!]+"
)
_UNIT = r"(?:(?!(?:st|nd|rd|th)\b)[°º]?[^\W\d]{1,4}\.?[²³]?|\w{4,7}s\b)(?:/\w{1,6})?"
_MEASURE = lazy_regex(
    rf"[-+–−<>≤≥~±]?[$€£¥]?\s?\d[\d.,]*(?:\s?[-–]\s?\d[\d.,]*)?\s?{_UNIT}(?:\s?\d[\d.,]*(?:\s?{_UNIT})?)?"
)
_YEAR = lazy_regex(r"(?:19|20)\d\d(?:[/–-]\d{2,4})?[*†‡]{0,3}")


def is_value(cell: str) -> bool:
    """Return whether a cell holds a number, a date, an amount or a sign in place of one, rather than words.

    >>> [is_value(cell) for cell in ("1,140", "£3.50", "12–14", "-", "12 May", "Oil")]
    [True, True, True, True, False, False]
    """
    return _VALUE.fullmatch(cell) is not None


def is_amount(cell: str) -> bool:
    """Return whether a cell holds a value, which may have a unit; the name of a column may be like that, too.

    >>> [is_amount(cell) for cell in ("50 °C", "3 h 35", "30 min", "2 months", "5th", "7 Sisters Road")]
    [True, True, True, True, False, False]
    """
    return is_value(cell) or _MEASURE.fullmatch(cell) is not None


def is_year(cell: str) -> bool:
    """Return whether a cell is a year (``1998``, ``2004/05``), which may be a column's name."""
    return _YEAR.fullmatch(cell) is not None
