"""Questions for the version or date of a change, on changelogs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared_core import SelfReflectEngine
from shared_core.documents import DocumentIndex
from shared_core.reading.changes import is_other_change, only_release, release_of
from shared_core.retrieval import BM25Retriever
from shared_core.types import Passage

LOG = """# Changes in Ropework

## [4.1.0] - 2024-05-14
### Added
- Bowline preview on tablets
- Export to DXF

### Fixed
- Crash when a knot had no name (#31)

## 4.0.2 (2024-02-01)
- Security: updated the JPEG library to 9.5.
- Removed the splice wizard.

Version 4.0.1
-------------
* Support splicing of wires
"""
PASSAGE = Passage("p", LOG, "Changes in Ropework")


def _found(question: str) -> tuple[str, str] | None:
    """The quote and the short answer for the one item that answers."""
    items = [(LOG.index(line), LOG.index(line) + len(line)) for line in LOG.splitlines() if line[:2] in ("- ", "* ")]
    found = {i: release_of(question, PASSAGE, *at) for i, at in enumerate(items)}
    for i in only_release(question, found):
        release = found[i]
        assert release is not None
        assert release.start is not None
        assert release.answer is not None
        return LOG[release.start : items[i][1]].splitlines()[0], LOG[slice(*release.answer)]
    return None


@pytest.mark.parametrize(
    ("question", "heading", "answer"),
    [
        ("Which version added DXF export?", "## [4.1.0] - 2024-05-14", "4.1.0"),
        ("When was DXF export added?", "## [4.1.0] - 2024-05-14", "2024-05-14"),
        ("In which release of Ropework was the crash fixed?", "## [4.1.0] - 2024-05-14", "4.1.0"),
        ("When did Ropework drop the splice wizard?", "## 4.0.2 (2024-02-01)", "2024-02-01"),
        ("Since which version is there no longer a splice wizard?", "## 4.0.2 (2024-02-01)", "4.0.2"),
        ("What release updated the JPEG library?", "## 4.0.2 (2024-02-01)", "4.0.2"),
        ("Which version introduced splicing of wires?", "Version 4.0.1", "4.0.1"),
    ],
)
def test_the_release_of_a_change_is_found(question: str, heading: str, answer: str) -> None:
    assert _found(question) == (heading, answer)


@pytest.mark.parametrize(
    "question",
    [
        "Which version removed DXF export?",  # it was added
        "When was the splice wizard added?",
        "When was splicing of wires introduced?",  # that release has no date
        "Which version added SVG export?",
        "How do I export to DXF?",
        "When is the DXF export?",
    ],
)
def test_other_changes_and_questions_have_none(question: str) -> None:
    assert _found(question) is None


def test_changes_in_two_releases_tell_of_neither() -> None:
    text = "## 2.1.0\n- Fixed: login with a token\n\n## 2.0.0\n- Fixed: login with a password\n"
    items = [(text.index(line), text.index(line) + len(line)) for line in text.splitlines() if line.startswith("-")]
    found = {i: release_of("Which version fixed login?", Passage("p", text), *at) for i, at in enumerate(items)}
    assert [r and r.name for r in found.values()] == ["2.1.0", "2.0.0"]
    assert only_release("Which version fixed login?", found) == set()


SUBSECTIONS = """# Changelog

## [2.3.0] - 2023-03-02

### Added
- Kiln timer for phones.

### Fixed
- Printing labels no longer skips the last page.

### Security
- Passwords were kept in plain text in the log (CVE-2023-1111).
- Sessions end after a day.

### Removed
- Import from GlazeBook.
- 16-bit sensors.

## [2.0.0] - 2022-01-15

### Added
- Import from GlazeBook.
- Import from ClayPad.

### Changed
- Glaze recipes are sorted by colour.

### Deprecated
- The serial port.
"""


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> SelfReflectEngine:
    folder = tmp_path_factory.mktemp("log")
    (folder / "CHANGELOG.md").write_text(SUBSECTIONS, "utf-8")
    index = DocumentIndex(None)
    index.update(folder)
    return SelfReflectEngine(index.retriever())


@pytest.mark.parametrize(
    ("question", "item"),
    [
        ("Which version fixed printing labels?", "Printing labels"),  # below the second heading of the release
        ("In which version were 16-bit sensors removed?", "16-bit sensors"),
        ("In which release was the serial port deprecated?", "serial port"),
        ("Which release closed the security hole?", "Passwords"),
        ("Can I still import from GlazeBook?", "Import from GlazeBook"),  # was added, then removed
        ("Does it still work with 16-bit sensors?", "16-bit sensors"),
    ],
)
def test_the_kind_of_a_change_is_in_the_section(log: SelfReflectEngine, question: str, item: str) -> None:
    answer = log.answer(question)
    assert not answer.abstained
    assert item in answer.text
    (span,) = answer.kept_claims[0].citations[0].primary
    section = str(answer.passages[[p.id for p in answer.passages].index(span.passage_id)].metadata["section"])
    assert section.startswith("Changelog > [2.")
    assert not section.endswith("Added")


@pytest.mark.parametrize(
    ("question", "section", "text", "found"),
    [
        ("Can I still import from ClayPad?", "2.0.0 > Added", "- Import from ClayPad.", "added"),
        ("Is the serial port still there?", "[2.0.0] - 2022-01-15 > Deprecated", "- The serial port.", "deprecated"),
        ("Can I still park here?", "2.0.0 > Removed", "- The serial port.", ""),
        ("Can I park here?", "2.0.0 > Removed", "- Park here.", ""),
        ("Which version introduced the vulnerability in links?", "2.1.0 > Security", "- A vulnerability in links.", ""),
        ("Which version fixed the vulnerability in links?", "2.1.0 > Security", "- Escape in links.", "security"),
        ("Which version fixed the lamps?", "3.2 Lamps > Fixed", "- The lamps.", ""),  # a section's number
        ("When were the lamps fixed?", "Version 3.2 > Fixed", "- The lamps.", ""),  # without a date
    ],
)
def test_releases_in_the_section_head_items(question: str, section: str, text: str, found: str) -> None:
    release = release_of(question, Passage("p", text, metadata={"section": section}), 0, len(text))
    assert (release.kind if release else "") == found
    is_asked = only_release(question, {0: release}) == {0}
    assert is_asked == (found not in ("", "added"))


def test_an_item_of_other_things_is_another_change() -> None:
    at = LOG.index("- Removed"), LOG.index("wizard.") + 7
    assert is_other_change("When was DXF export removed?", PASSAGE, *at)
    assert not is_other_change("When was the wizard removed?", PASSAGE, *at)
    prose = Passage("q", "The tower was removed in 1960.")
    assert not is_other_change("When was the bridge removed?", prose, 0, len(prose.text))


def test_a_number_that_begins_a_sentence_heads_nothing() -> None:
    text = "2.5 million visitors came in all.\n- A new hall was added.\n"
    assert release_of("Which version added a hall?", Passage("p", text), text.index("- A"), len(text) - 1) is None


def test_the_engine_quotes_the_heading_with_the_change() -> None:
    answer = SelfReflectEngine(BM25Retriever([PASSAGE])).answer("Which version removed the splice wizard?")
    (span,) = answer.kept_claims[0].citations[0].primary
    assert span.text.startswith("## 4.0.2 (2024-02-01)")
    assert span.text.endswith("- Removed the splice wizard.")
    assert LOG[span.start : span.end] == span.text


@given(st.text(max_size=80), st.text(max_size=200), st.integers(0, 200), st.integers(0, 200))
def test_any_text_is_read(question: str, text: str, a: int, b: int) -> None:
    start, end = sorted((min(a, len(text)), min(b, len(text))))
    for asked in (question, f"Which version added {question}?"):
        found = release_of(asked, Passage("p", f"## 1.2.0\n{text}"), 9 + start, 9 + end)
        if found is not None and found.start is not None and found.answer is not None:
            assert 0 <= found.start <= found.answer[0] < found.answer[1]
