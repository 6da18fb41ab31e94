"""Tell the editions of a document apart by the dates and versions in its names."""

from __future__ import annotations

import re
from collections.abc import Sequence

from shared_core.citation.facts.dates import MONTHS
from shared_core.citation.facts.tokens import as_matched
from shared_core.reading.periods import MONTH

DATED = re.compile(
    rf"(?<![\d.])(?P<y1>(?:19|20)\d\d)[-_. ]?(?P<m1>0[1-9]|1[0-2])(?:[-_. ]?(?P<d1>[0-2]\d|3[01]))?(?!\d)"
    rf"|(?:(?<!\d)(?P<d2>[0-3]?\d)(?:st|nd|rd|th)?[ _-])?\b(?P<m2>{MONTH})\.?[ _-](?:(?P<d3>[0-3]?\d),? )?"
    r"(?P<y2>(?:19|20)\d\d)"
    r"|(?<![\d.])(?P<y3>(?:19|20)\d\d)(?:[-/–]\d\d(?!\d))?(?!\d)"
    r"|\b(?:v|version|edition|release|rev|revision)[ ._-]?(?P<version>\d{1,4}(?:\.\d{1,4}){0,3})\b",
    re.IGNORECASE,
)
"""The date or version in the name of a document of which there are several editions."""
_OF_A_WORK = re.compile(r"\((?:19|20)\d\d [^\W\d_]|[^\W\d_],? (?:19|20)\d\d\)")
"""The year that tells works of one name apart: "(1950 film)"."""


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
