"""Answer from changelogs: in which version, or when, something was added, removed, fixed or changed; is it still there?

The item says what changed; the heading above it has the version and its date, and often one between them the kind of
change ("Removed"). A long release is several passages, of which only the first has the heading in its text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from shared_core.citation.facts.dates import dates_of
from shared_core.reading.candidates import Candidate
from shared_core.reading.places import above, section_of, source_of
from shared_core.reading.questions import asks_yes_or_no, content_stems, words
from shared_core.support.regex import lazy_regex
from shared_core.types import Passage

_ASKS_VERSION = lazy_regex(
    r"\W*(?:(?:in|with|since|from|as of) )?(?:which|what)(?: [\w.-]+){0,2}? (?:version|release)\b", re.IGNORECASE
)
_ASKS_WHEN = lazy_regex(r"\W*(?:since )?(?:when|(?:on )?(?:which|what) (?:date|day))\b", re.IGNORECASE)
_RELEASE = lazy_regex(
    r"^[#=*\[\s]*(?:[A-Za-z][\w.-]* ){0,2}\[?(?P<version>v?\d+(?:\.\d+)+(?:[-.]?(?:alpha|beta|rc)\.?\d*)?)(?![\d.]*\w)"
    r"[^\n]{0,60}$",
    re.MULTILINE | re.IGNORECASE,
)
_ITEM = lazy_regex(r"\s*(?:[-*+•–]|\d+[.)])\s")
_SHORT_LINE = 40
_KINDS = {
    "added": "add adds added adding introduce introduces introduced new arrive arrived come came appear appeared ship"
    " shipped debut gain gained get got land landed support supports supported available feature features addition"
    " additions enhancement enhancements",
    "removed": "remove removes removed removal removals removing drop drops dropped delete deleted discontinue"
    " discontinued disappear disappeared",
    "fixed": "fix fixes fixed fixing resolve resolved patch patched correct corrected repair repaired solve solved"
    " close closes closed bug bugs bugfixes fixup",
    "changed": "change changes changed update updated rename renamed increase increased raise raised replace replaced"
    " bump bumped switch switched move moved improve improved improvements",
    "deprecated": "deprecate deprecates deprecated deprecation deprecations",
    "security": "security vulnerability vulnerabilities",
}
_KIND_OF = {word: kind for kind, some in _KINDS.items() for word in some.split()}
_GONE = "removed", "deprecated"
_ENDED = lazy_regex(r"\b(?:no longer|stop(?:ped)?|end(?:ed)?|without)\b", re.IGNORECASE)
_STILL = lazy_regex(r"\b(?:still|any ?more|(?:no|any) longer)\b", re.IGNORECASE)
_HOLE = lazy_regex(r"\b(security|vulnerabilit(?:y|ies)) (?:holes?|flaws?|issues?|problems?|leaks?)\b", re.IGNORECASE)
_LIGHT = content_stems("version release date day first since start able use work begin")
_LIGHT_STILL = _LIGHT | content_stems("still anymore longer run possible computer machine device system platform")
_LONGEST = 1000
"""Characters from the heading to the item's end at most, for both to be quoted as one stretch."""


@dataclass(frozen=True, slots=True)
class Release:
    """The release that has an item, as the heading above says.

    Attributes:
        name: the version.
        kind: of the change that the item is.
        start: offset of the heading's line in the passage's text; ``None`` if only the passage's section has it.
        answer: offsets of the version or the date in it, whichever is asked for; ``None`` alike.
    """

    name: str
    kind: str
    start: int | None = None
    answer: tuple[int, int] | None = None

    @property
    def order(self) -> list[int]:
        """The numbers of the version, by which later releases come behind earlier ones."""
        return [int(number) for number in re.findall(r"\d+", self.name)]


class _Head(NamedTuple):
    """The heading of a release: its match, where its line is in the passage, if there, and the text below it."""

    match: re.Match[str]
    start: int | None
    below: str


def release_of(question: str, passage: Passage, start: int, end: int) -> Release | None:
    """Return the release whose changes have what a question asks the version or date of, if an item is that change.

    The item has all that the question says, but for words above it; and it is of the kind asked for, as it or the
    heading above it says: what was fixed in a release need not be new in it. If the question is whether something is
    still there, it is of any kind.

    Args:
        passage: which has the item, and the heading of its release not far above, or in its section.
        start: of the item in the passage's text.

    >>> text = "## 3.2.0 (2025-10-14)\\n- Added: dark mode on Android.\\n- Fixed: a crash on rotation."
    >>> at = text.index("- Added"), text.index("\\n- Fixed")
    >>> release_of("Which version introduced dark mode?", Passage("p", text), *at).name
    '3.2.0'
    >>> release_of("Which version fixed dark mode?", Passage("p", text), *at)
    """
    kind, still = _asked_kind(question), _asks_still(question)
    head = _head_above(passage, start) if kind or still else None
    if head is None or end - (head.start or 0) > _LONGEST or "\n" in passage.text[start:end].strip():
        return None
    item = passage.text[start:end]
    found = _kind_of_item(item) or _kind_above(head.below) or "added"
    if not (still or _is_of_kind(found, kind)) or not _has_all(question, item, found, passage):
        return None
    name = head.match["version"]
    if still or head.start is None:
        return Release(name, found) if still or _has_answer(question, head) else None
    if _ASKS_VERSION.match(question):
        return Release(name, found, head.start, head.match.span("version"))
    at = head.match.start() + head.match.group().find(dated) if (dated := _date_in(head)) else 0
    return Release(name, found, head.start, (at, at + len(dated))) if dated else None


def is_other_change(question: str, passage: Passage, start: int, end: int) -> bool:
    """Return whether a question asks for the version or date of a change, and an item of a changelog is another one."""
    if not _asked_kind(question) or _head_above(passage, start) is None:
        return False
    asked = _things_asked(question)
    return bool(asked) and asked.isdisjoint(content_stems(passage.text[start:end]))


def only_release(question: str, releases: Mapping[int, Release | None]) -> set[int]:
    """Return which candidates are changes of the one release that has such changes; none if several have.

    Of what is still there, the latest release decides, if it has removed it.
    """
    found = {i: release for i, release in releases.items() if release}
    if found and _asks_still(question):
        last = max(release.order for release in found.values())
        found = {i: release for i, release in found.items() if release.order == last}
        return {*found} if all(release.kind in _GONE for release in found.values()) else set()
    return {*found} if len({release.name for release in found.values()}) == 1 else set()


def from_release(question: str, passage: Passage, candidate: Candidate) -> Candidate:
    """Return a change begun at the heading of its release, if the question asks for that: a quote is one stretch.

    Where the heading is not in the passage, the change is without a short answer.
    """
    release = release_of(question, passage, candidate.start, candidate.end) if candidate.defines > 0 else None
    if release is None:
        return candidate
    if release.start is None or release.answer is None:
        return replace(candidate, answer=(candidate.start, candidate.start))
    return replace(candidate, start=release.start, answer=release.answer)


def _has_all(question: str, item: str, kind: str, passage: Passage) -> bool:
    """Return whether an item has what a question names, but for words above it; of "security" any such item."""
    asked = _things_asked(question)
    own = asked & content_stems(item)
    if not asked:
        named = any(_KIND_OF.get(word) == "security" for word in words(question))
        return kind == "security" and named and _ITEM.match(item) is not None
    return bool(own) and asked <= own | content_stems(f"{above(passage)} {source_of(passage)}")


def _is_of_kind(found: str, asked: str) -> bool:
    """Return whether a change is of a kind: what is done for security mends or changes something."""
    return found == asked or {found, asked} in ({"security", "fixed"}, {"security", "changed"})


def _has_answer(question: str, head: _Head) -> bool:
    return _ASKS_VERSION.match(question) is not None or _date_in(head) != ""


def _date_in(head: _Head) -> str:
    """Return the date of a release as it is written; "" if its heading has none."""
    return next((date.text for date in dates_of(head.match.group()) if date.year), "")


def _is_heading(line: re.Match[str]) -> bool:
    """Return whether a line that begins with a version is marked as a heading, or has nothing else but a date."""
    after = line.group()[line.end("version") - line.start() :].strip(" ]*:=\t")
    return not _ITEM.match(line.group()) and (line.group().startswith("#") or not after or bool(dates_of(after)))


def _head_above(passage: Passage, start: int) -> _Head | None:
    """Return the nearest heading of a release above an item, in the passage or its section."""
    found = next((m for m in reversed([*_RELEASE.finditer(passage.text, 0, start)]) if _is_heading(m)), None)
    if found is not None:
        line = found.group()
        return _Head(found, found.start() + len(line) - len(line.lstrip()), passage.text[found.end() : start])
    labels = section_of(passage).split(" > ")
    for i in range(len(labels) - 1, -1, -1):
        match = _RELEASE.match(labels[i])
        if match is not None and _is_heading(match):
            return _Head(match, None, "\n".join([*labels[i + 1 :], passage.text[:start]]))
    return None


def _things_asked(question: str) -> set[str]:
    text = _HOLE.sub(r"\1", question)
    light = _LIGHT_STILL if _asks_still(question) else _LIGHT
    return content_stems(" ".join(w for w in words(_ENDED.sub(" ", text)) if w not in _KIND_OF)) - light


def _asks_still(question: str) -> bool:
    """Return whether a question is whether something is still there."""
    return asks_yes_or_no(question) and _STILL.search(question) is not None


def _asked_kind(question: str) -> str:
    """Return the kind of change of which a question asks the version or date; "" if it does not."""
    if not (_ASKS_VERSION.match(question) or _ASKS_WHEN.match(question)):
        return ""
    if _ENDED.search(question):
        return "removed"
    verbs = [_KIND_OF[w] for w in words(question) if w in _KIND_OF]
    verbs = [kind for kind in verbs if kind != "security"] or verbs
    return next((kind for kind in verbs if kind != "added"), verbs[0] if verbs else "")


def _kind_of_item(item: str) -> str:
    """Return what an item begins with, perhaps after a label: "Added: …", "Security: fix the …"."""
    label, _, rest = item.partition(":")
    first = [*words(label)[:1], *words(rest)[:1]]
    kinds = [_KIND_OF[w] for w in first if w in _KIND_OF]
    return next((kind for kind in kinds if kind != "security"), kinds[0] if kinds else "")


def _kind_above(text: str) -> str:
    """Return what the last line above an item that is no item says of it: "### Added", "Bug fixes"."""
    lines = [line for line in text.splitlines() if line.strip() and not _ITEM.match(line) and not line.startswith(" ")]
    heading = lines[-1] if lines and len(lines[-1]) <= _SHORT_LINE else ""
    return next((_KIND_OF[w] for w in reversed(words(heading)) if w in _KIND_OF), "")
