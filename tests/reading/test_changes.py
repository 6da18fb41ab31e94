"""Questions for the version or date of a change, on changelogs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared_core import SelfReflectEngine
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
    for i in only_release(found):
        release = found[i]
        assert release is not None
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
    assert only_release(found) == set()


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
        assert found is None or 0 <= found.start <= found.answer[0] < found.answer[1]
