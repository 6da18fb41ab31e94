"""Answer from changelogs: in which version, or when, something was added, removed, fixed or changed.

The item says what changed; the heading above it has the version and its date.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from shared_core.citation.facts.dates import dates_of
from shared_core.reading.candidates import Candidate
from shared_core.reading.questions import content_stems, words
from shared_core.reading.rows import above, source_of
from shared_core.types import Passage

_ASKS_VERSION = re.compile(
    r"\W*(?:(?:in|with|since|from|as of) )?(?:which|what)(?: [\w.-]+){0,2}? (?:version|release)\b", re.IGNORECASE
)
_ASKS_WHEN = re.compile(r"\W*(?:since )?(?:when|(?:on )?(?:which|what) (?:date|day))\b", re.IGNORECASE)
_RELEASE = re.compile(
    r"^[#=*\[\s]*(?:[A-Za-z][\w.-]* ){0,2}\[?(?P<version>v?\d+(?:\.\d+)+(?:[-.]?(?:alpha|beta|rc)\.?\d*)?)(?![\d.]*\w)"
    r"[^\n]{0,60}$",
    re.MULTILINE | re.IGNORECASE,
)
_ITEM = re.compile(r"\s*(?:[-*+•–]|\d+[.)])\s")
_SHORT_LINE = 40
_KINDS = {
    "added": "add adds added adding introduce introduces introduced new arrive arrived come came appear appeared ship"
    " shipped debut gain gained get got land landed support supports supported available feature features addition"
    " additions enhancement enhancements",
    "removed": "remove removes removed removal removals removing drop drops dropped delete deleted discontinue"
    " discontinued disappear disappeared",
    "fixed": "fix fixes fixed fixing resolve resolved patch patched correct corrected repair repaired solve solved"
    " bug bugs bugfixes fixup",
    "changed": "change changes changed update updated rename renamed increase increased raise raised replace replaced"
    " bump bumped switch switched move moved improve improved improvements",
    "deprecated": "deprecate deprecates deprecated deprecation deprecations",
}
_KIND_OF = {word: kind for kind, some in _KINDS.items() for word in some.split()}
_ENDED = re.compile(r"\b(?:no longer|stop(?:ped)?|end(?:ed)?|without)\b", re.IGNORECASE)
_LIGHT = content_stems("version release date day first since start able use work begin")
_LONGEST = 1000
"""Characters from the heading to the item's end at most, for both to be quoted as one stretch."""


@dataclass(frozen=True, slots=True)
class Release:
    """The heading of a release above an item.

    Attributes:
        start: offset of its line in the passage's text.
        answer: offsets of the version or the date in it, whichever is asked for.
        name: the version.
    """

    start: int
    answer: tuple[int, int]
    name: str


def release_of(question: str, passage: Passage, start: int, end: int) -> Release | None:
    """Return the release whose changes have what a question asks the version or date of, if an item is that change.

    The item has all that the question says, but for words above it; and it is of the kind asked for, as it or the
    heading above it says: what was fixed in a release need not be new in it.

    Args:
        question: as asked.
        passage: which has the item, and the heading of its release not far above.
        start: of the item in the passage's text.
        end: of the item.

    >>> text = "## 3.2.0 (2025-10-14)\\n- Added: dark mode on Android.\\n- Fixed: a crash on rotation."
    >>> at = text.index("- Added"), text.index("\\n- Fixed")
    >>> release_of("Which version introduced dark mode?", Passage("p", text), *at).name
    '3.2.0'
    >>> release_of("Which version fixed dark mode?", Passage("p", text), *at)
    """
    kind, head = _asked_kind(question), _heading_above(passage.text, start)
    if not kind or head is None or end - head.start() > _LONGEST or "\n" in passage.text[start:end].strip():
        return None
    item = passage.text[start:end]
    if (_kind_of_item(item) or _kind_above(passage.text[head.end() : start]) or "added") != kind:
        return None
    asked = _things_asked(question)
    own = asked & content_stems(item)
    if not own or not asked <= own | content_stems(f"{above(passage)} {source_of(passage)}"):
        return None
    begin = head.start() + len(head.group()) - len(head.group().lstrip())
    if _ASKS_VERSION.match(question):
        return Release(begin, head.span("version"), head["version"])
    dated = [d for d in dates_of(head.group()) if d.year]
    at = head.start() + head.group().find(dated[0].text) if dated else 0
    return Release(begin, (at, at + len(dated[0].text)), head["version"]) if dated else None


def is_other_change(question: str, passage: Passage, start: int, end: int) -> bool:
    """Return whether a question asks for the version or date of a change, and an item of a changelog is another one."""
    if not _asked_kind(question) or _heading_above(passage.text, start) is None:
        return False
    asked = _things_asked(question)
    return bool(asked) and asked.isdisjoint(content_stems(passage.text[start:end]))


def only_release(releases: Mapping[int, Release | None]) -> set[int]:
    """Return which candidates are changes of the one release that has such changes; none if several have."""
    found = {i: release.name for i, release in releases.items() if release}
    return {*found} if len({*found.values()}) == 1 else set()


def from_release(question: str, passage: Passage, candidate: Candidate) -> Candidate:
    """Return a change begun at the heading of its release, if the question asks for that: a quote is one stretch."""
    release = release_of(question, passage, candidate.start, candidate.end) if candidate.defines > 0 else None
    return replace(candidate, start=release.start, answer=release.answer) if release else candidate


def _is_heading(line: re.Match[str]) -> bool:
    """Return whether a line that begins with a version is marked as a heading, or has nothing else but a date."""
    after = line.group()[line.end("version") - line.start() :].strip(" ]*:=\t")
    return not _ITEM.match(line.group()) and (line.group().startswith("#") or not after or bool(dates_of(after)))


def _heading_above(text: str, start: int) -> re.Match[str] | None:
    """Return the nearest heading of a release above an item."""
    return next((m for m in reversed([*_RELEASE.finditer(text, 0, start)]) if _is_heading(m)), None)


def _things_asked(question: str) -> set[str]:
    return content_stems(" ".join(w for w in words(_ENDED.sub(" ", question)) if w not in _KIND_OF)) - _LIGHT


def _asked_kind(question: str) -> str:
    """Return the kind of change of which a question asks the version or date; "" if it does not."""
    if not (_ASKS_VERSION.match(question) or _ASKS_WHEN.match(question)):
        return ""
    if _ENDED.search(question):
        return "removed"
    verbs = [_KIND_OF[w] for w in words(question) if w in _KIND_OF]
    return next((kind for kind in verbs if kind != "added"), verbs[0] if verbs else "")


def _kind_of_item(item: str) -> str:
    """Return what an item begins with, perhaps after a label: "Added: …", "Security: fix the …"."""
    label, _, rest = item.partition(":")
    first = [*words(label)[:1], *words(rest)[:1]]
    return next((_KIND_OF[w] for w in first if w in _KIND_OF), "")


def _kind_above(text: str) -> str:
    """Return what the last line above an item that is no item says of it: "### Added", "Bug fixes"."""
    lines = [line for line in text.splitlines() if line.strip() and not _ITEM.match(line) and not line.startswith(" ")]
    heading = lines[-1] if lines and len(lines[-1]) <= _SHORT_LINE else ""
    return next((_KIND_OF[w] for w in reversed(words(heading)) if w in _KIND_OF), "")
