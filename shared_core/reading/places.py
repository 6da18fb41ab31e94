"""Tell where a passage is: its document, its section, and the headings above it."""

from __future__ import annotations

import re

from shared_core.support.regex import lazy_regex
from shared_core.types import Passage

_HEADED = lazy_regex(r"^#{1,6} \S", re.MULTILINE)


def above(passage: Passage) -> str:
    """Return what stands above a passage: its title and the headings of its section."""
    return f"{passage.title}\n{section_of(passage)}"


def is_structured(passage: Passage) -> bool:
    """Return whether a passage is from a document of sections or rows: below a heading, with one, or a row of a table.

    >>> hours = Passage("hours", "It opens at 9.", metadata={"section": "Hours"})
    >>> is_structured(hours), is_structured(Passage("tale", "It was a dark night."))
    (True, False)
    """
    return bool(passage.metadata.get("section")) or "row" in passage.metadata or bool(_HEADED.search(passage.text))


def source_of(passage: Passage) -> str:
    """Return the document of a passage; the passage itself where it has none."""
    return str(passage.metadata.get("source", passage.id))


def section_of(passage: Passage) -> str:
    """Return the headings above a passage, the outermost first, with " > " between them; "" if there are none."""
    return str(passage.metadata.get("section") or "")


def place_of(passage: Passage) -> tuple[str, str]:
    """Return the document and the section of a passage."""
    return source_of(passage), section_of(passage)


def innermost(passage: Passage) -> str:
    """Return the innermost heading above a passage."""
    return section_of(passage).rpartition(" > ")[2]


def heading_above(passage: Passage) -> str:
    """Return the heading above the innermost one, "" if there is none."""
    return section_of(passage).rpartition(" > ")[0].rpartition(" > ")[2]
