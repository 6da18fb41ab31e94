"""Tell the editions of a document apart by the dates and versions in its names."""

from __future__ import annotations

import re
from collections.abc import Sequence

from shared_core.citation.facts.dates import MONTHS, dates_of
from shared_core.citation.facts.periods import MONTH, SEASONS
from shared_core.citation.facts.quantities import quantities_of
from shared_core.citation.facts.tokens import as_matched
from shared_core.reading.values import holds, values_of
from shared_core.support.regex import lazy_regex

DATED = lazy_regex(
    rf"(?<![\d.])(?P<y1>(?:19|20)\d\d)[-_. ]?(?P<m1>0[1-9]|1[0-2])(?:[-_. ]?(?P<d1>[0-2]\d|3[01]))?(?!\d)"
    rf"|(?:(?<!\d)(?P<d2>[0-3]?\d)(?:st|nd|rd|th)?[ _-])?\b(?P<m2>{MONTH})\.?[ _-](?:(?P<d3>[0-3]?\d),? )?"
    r"(?P<y2>(?:19|20)\d\d)"
    r"|(?<![\d.])(?P<y3>(?:19|20)\d\d)(?:[-/–]\d\d(?!\d))?(?!\d)"
    r"|\b(?:v|version|edition|release|rev|revision)[ ._-]?(?P<version>\d{1,4}(?:\.\d{1,4}){0,3})\b",
    re.IGNORECASE,
)
"""The date or version in the name of a document of which there are several editions."""
_OF_A_WORK = lazy_regex(r"\((?:19|20)\d\d [^\W\d_]|[^\W\d_],? (?:19|20)\d\d\)")
"""The year that tells works of one name apart: "(1950 film)"."""

_NO_EDITION = lazy_regex(
    r"\b(?:since|est|established|founded|from|Act|Regulations?|Order|Directive|ISO|vision|strategy|agenda|plan|horizon"
    r"|targets?|goals?|copyright)\b|©",
    re.IGNORECASE,
)
"""Words of titles whose year is another one than that of what they tell: of foundation, of a law, of an aim."""
_RECURS = lazy_regex(
    r"\b(?:every|each|any|annual(?:ly)?|yearly|always|usually|normally|typically|generally)\b", re.IGNORECASE
)
_NEAR_YEARS = 10
"""Years between two editions at most: else the one is a year of foundation."""
_NEAR_MONTHS = 7
"""Months of which a document dated by a month may tell before or after it without the year."""


def edition(name: str) -> tuple[str, tuple[int, ...]] | None:
    """Return a document's name without its date or version, and this as numbers; ``None`` if it has neither.

    >>> edition("Fees 2025"), edition("minutes/2024-03.md"), edition("Minutes of 9 April 2025"), edition("Guide v2.10")
    (('fees', (0, 2025)), ('minutes md', (0, 2024, 3)), ('minutes of', (0, 2025, 4, 9)), ('guide', (1, 2, 10)))
    """
    match = DATED.search(name)
    if match is None or _OF_A_WORK.search(name):
        return None
    rest = " ".join(re.findall(r"\w+", f"{name[: match.start()]} {name[match.end() :]}")).casefold()
    if match["version"]:
        return rest, (1, *map(int, match["version"].split(".")))
    month = match["m1"] or (str(MONTHS.index(as_matched(match["m2"])[:3]) + 1) if match["m2"] else "")
    parts = (match["y1"] or match["y2"] or match["y3"], month, match["d1"] or match["d2"] or match["d3"])
    return rest, (0, *(int(part) for part in parts if part))


def is_newer_edition(new: Sequence[str], old: Sequence[str]) -> bool:
    """Return whether a document is a newer edition of another one, by the first pair of their names that tells.

    >>> is_newer_edition(["Fees", "2025/fees.md"], ["Fees", "2023/fees.md"])
    True
    """
    for mine, theirs in zip(map(edition, new), map(edition, old), strict=False):
        if mine and theirs and mine[1] != theirs[1]:
            return mine[0] == theirs[0] and mine[1][0] == theirs[1][0] and mine[1] > theirs[1]
    return False


def dates_other_year(question: str, quote: str, above: str) -> bool:
    """Return whether a year is asked, and a quote gives a date without one below the name of another year only.

    A document dated by a month may tell of the year before or after: in December of January, in January of December.

    Args:
        above: title and headings, a line each, and what else names the document below these.

    >>> told = "The fair is on 12 June."
    >>> [dates_other_year("When is the fair in 2026?", told, name) for name in ("May 2025", "May 2026", "Fair 2025/26")]
    [True, False, False]
    >>> dates_other_year("When is the fair in January 2026?", "The fair is on 9 January.", "News of December 2025")
    False
    """
    asked = [v for v in values_of(question) if v.number is not None and v.number.is_year]
    if len(asked) != 1 or any(holds(v, f"{above}\n{quote}") for v in asked) or _RECURS.search(quote):
        return False
    months = {date.month for date in dates_of(quote) if date.month and not date.year}
    if not months or any(q.is_year for q in quantities_of(quote)):
        return False
    names = "\n".join(above.splitlines()[:2])
    years = {int(year) for q in quantities_of(names) if q.is_year for year in q.values}
    wanted = max(year for v in asked if v.number is not None for year in v.number.values)
    if not years or max(years) - min(years) > 1 or _NO_EDITION.search(names):
        return False
    own = min(years, key=lambda year: abs(year - wanted))
    if abs(own - wanted) > _NEAR_YEARS:
        return False
    named = _months_named(names)
    return not any(abs(12 * (wanted - own) + month - of) <= _NEAR_MONTHS for month in months for of in named)


def _months_named(names: str) -> set[int]:
    """Return the months that names of a document have, or those in the middle of the seasons."""
    months = {date.month for date in dates_of(names) if date.month}
    return months or {month for season, month in SEASONS.items() if re.search(rf"\b{season}\b", names, re.IGNORECASE)}
