"""`selfreflect check`: what it prints, its exit codes, and where an answer may come from."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from shared_core.facades import assembly as parts
from tests.command import selfreflect, succeeds
from tests.fakes import WordCritic

LIT = "The lamp was lit in 1871."
Check = Callable[..., Result]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("check")
    (root / "lamp.md").write_text("# Lamps\n\nThe lamp was lit in 1871. It burned whale oil.\n", "utf-8")
    succeeds("index", root / "lamp.md", "--index", root / "index")
    return root / "index"


@pytest.fixture
def check(index: Path, monkeypatch: pytest.MonkeyPatch) -> Check:
    monkeypatch.setattr(parts, "default_critic", WordCritic)
    return lambda *args, **more: selfreflect("check", "--index", index, *args, **more)


def test_all_supported_is_0_and_each_claim_has_its_quote(check: Check) -> None:
    result = check(f"{LIT} It burned whale oil.", "-t", "0.8")
    assert result.exit_code == 0, result.output
    assert "supported    0.90  The lamp was lit in 1871. [1]" in result.output
    assert "[1] “The lamp was lit in 1871.”" in result.output
    assert "lamp.md:" in result.output
    assert "all supported · 2 supported" in result.output


def test_one_that_is_not_is_3(check: Check) -> None:
    result = check(f"{LIT} The lamp was lit in 1950.")
    assert result.exit_code == 3
    assert "contradicted 0.05" in result.output
    assert "1 supported, 1 contradicted" in result.output


def test_json_holds_the_whole_result(check: Check) -> None:
    result = check(LIT, "--question", "When was it lit?", "--json")
    assert result.exit_code == 0
    told = json.loads(result.stdout)
    assert (told["text"], told["question"], told["claims"][0]["verdict"]) == (LIT, "When was it lit?", "supported")
    assert told["metadata"]["passing"] is True


def test_an_answer_comes_from_a_file_or_from_standard_input(check: Check, tmp_path: Path) -> None:
    path = tmp_path / "answer.md"
    path.write_text(f"\ufeff# Answer\n\n{LIT}\n", "utf-8")
    assert check(path).exit_code == 0
    assert check("-", input=LIT).exit_code == 0
    assert check("-", input="The lamp was lit in 1950.").exit_code == 3


def test_the_report_is_written(check: Check, tmp_path: Path) -> None:
    result = check(LIT, "--html", tmp_path / "r.html")
    assert result.exit_code == 0
    assert "All claims are supported" in (tmp_path / "r.html").read_text("utf-8")


def test_what_states_nothing_passes_nothing(check: Check) -> None:
    result = check("```\nx = 1\n```")
    assert result.exit_code == 3
    assert "nothing to check" in result.output


def test_what_only_declines_passes(check: Check, tmp_path: Path) -> None:
    result = check("I don't know the answer to that.", "--html", tmp_path / "r.html")
    assert result.exit_code == 0
    assert "declines to answer · no claims" in result.output
    assert "Declines to answer" in (tmp_path / "r.html").read_text("utf-8")


def test_bad_input_is_2(check: Check, tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"caf\xe9")
    for answer, says in (
        ("", "nothing to check"),
        ("missing.md", "no file"),
        (tmp_path, "is a folder"),
        (tmp_path / "latin", "not UTF-8"),
    ):
        result = check(answer)
        assert result.exit_code == 2, answer
        assert says in result.output
    assert check("-", input=" \n").exit_code == 2
    assert check(LIT, "-t", "2").exit_code == 2
    assert selfreflect("check", LIT).exit_code == 2
