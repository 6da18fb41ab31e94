"""``benchmarks.strangers``: its questions, the files that it fetches, and what counts as right."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from benchmarks import strangers
from benchmarks.strangers import Outcome, Question, fetch, figures_of, read_questions
from shared_core.errors import InputError

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")


def test_every_set_has_sources_and_questions_with_and_without_answers() -> None:
    sets = read_questions()
    sources = json.loads(strangers.SOURCES.read_text("utf-8"))
    assert list(sets) == list(sources)
    assert set(strangers.FIT) < set(sets)
    for name, questions in sets.items():
        held = sum(bool(q.answers) for q in questions)
        assert 0.5 < held / len(questions) < 0.7, name
        assert len({q.text for q in questions}) == len(questions), name
        assert all(len(source["commit"]) == 40 and source["files"] for source in sources[name])


@pytest.mark.parametrize(
    ("quote", "right"),
    [
        ("Keep it for `30`  Days.", True),
        ("It’s kept for thirty days.", False),
        ("Kept for 130 days.", False),
        ("", False),
    ],
)
def test_a_quote_is_right_that_has_the_words_of_an_answer(quote: str, right: bool) -> None:
    assert Question("How long is it kept?", ("30 days", "one month")).is_answered_by(quote) is right


def test_no_quote_answers_a_question_without_an_answer() -> None:
    assert not Question("How long is it kept?", ()).is_answered_by("Kept for 30 days.")


def test_what_is_shown_is_counted_by_what_it_is() -> None:
    rows = [
        Outcome(answerable=True, found=True, right=True, confidence=0.9),
        Outcome(answerable=True, found=True, right=True, confidence=0.4),
        Outcome(answerable=True, found=False, right=False, confidence=0.6),
        Outcome(answerable=False, found=False, right=False, confidence=0.7),
    ]
    figures = figures_of(rows)
    assert (figures["right_shown"], figures["wrong_shown"], figures["unanswerable_shown"]) == (1, 1, 1)
    assert figures["first_quote"] == figures["found"] == pytest.approx(2 / 3)


@needs_git
def test_files_are_fetched_as_they_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = tmp_path / "server/someone/manual"
    (repository / "docs/deep").mkdir(parents=True)
    for file in ("docs/a.md", "docs/deep/b.md", "docs/a.png", "c.md"):
        (repository / file).write_text(file)
    me = ["-c", "user.name=me", "-c", "user.email=me@example.org"]
    for arguments in (["init", "-q"], ["add", "."], [*me, "commit", "-qm", "all"]):
        subprocess.run(["git", *arguments], cwd=repository, check=True)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=repository, capture_output=True, text=True).stdout.strip()
    listed = {"manual": [{"repository": "someone/manual", "commit": commit, "files": ["docs/**/*.md"], "into": "x"}]}
    monkeypatch.setattr(strangers, "SOURCES", tmp_path / "sources.json")
    strangers.SOURCES.write_text(json.dumps(listed))
    fetch("manual", tmp_path / "files", str(tmp_path / "server"))
    found = [p.relative_to(tmp_path / "files").as_posix() for p in (tmp_path / "files").rglob("*") if p.is_file()]
    assert sorted(found) == ["manual/x/docs/a.md", "manual/x/docs/deep/b.md"]
    with pytest.raises(InputError, match="git clone"):
        fetch("manual", tmp_path / "elsewhere", str(tmp_path / "nowhere"))
    assert not (tmp_path / "elsewhere").exists()
