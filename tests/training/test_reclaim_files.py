"""Files of ReClaim's sources and rows, and the command that makes the one of the other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shared_core.errors import InputError, SettingsError
from shared_core.lm.base import Prompt
from shared_core.training.reclaim.rows import RowSettings, build_rows
from shared_core.training.reclaim.sources import Segment, read_sources
from shared_core.training.rows import TrainingRow, read_rows, write_rows
from tests.command import selfreflect, succeeds
from tests.training.test_reclaim_rows import GOOD, PASSAGES, QUESTION, source


def test_sources_are_read_with_their_labels_and_bad_lines_are_named(tmp_path: Path) -> None:
    good = {"question": "Q?", "references": ["One. Two.", "Three."], "answer": "It is one [1]."}
    labelled = {"id": "x", "question": "Q?", "passages": [{"id": "p", "text": "One."}],
                "segments": [{"text": "It  is\none.", "sentences": [0]}]}  # fmt: skip
    path = tmp_path / "s.jsonl"
    path.write_text("\n".join(map(json.dumps, (good, labelled))), "utf-8")
    first, second = read_sources(path)
    assert [p.id for p in first.passages] == ["1", "2"]
    assert second.segments == (Segment("It is one.", (0,)),)
    for bad in ({"question": "Q?"}, {**good, "question": " "}, {**labelled, "segments": [{"text": 3}]}, []):
        path.write_text(json.dumps(good) + "\n" + json.dumps(bad), "utf-8")
        with pytest.raises(InputError, match="line 2"):
            read_sources(path)


def test_rows_survive_their_file_and_bad_ones_are_named(tmp_path: Path) -> None:
    made = build_rows([source(*GOOD)])
    path = tmp_path / "rows.jsonl"
    assert write_rows(made.rows, path) == 8
    assert [r.key for r in read_rows(path)] == [r.key for r in made.rows]
    value = json.loads(path.read_text("utf-8").splitlines()[1])
    assert [m["role"] for m in value["prompt"]] == ["user", "assistant"]
    assert value["completion"] == [{"role": "assistant", "content": f" {GOOD[0].text} </claim>"}]
    wordless = {**value, "completion": [{"role": "assistant", "content": None}]}  # would be taught as "None"
    unsure = {**value, "ends": "false"}  # would be taught as true
    shifted = {**value, "untrusted": [[[5, 3]], []]}
    for bad in (shifted, wordless, unsure, {**value, "completion": []}, {"prompt": "x"}, 7):
        path.write_text(json.dumps(bad), "utf-8")
        with pytest.raises(InputError, match="line 1"):
            read_rows(path)
    with pytest.raises(InputError):
        TrainingRow("claim", Prompt.trusted("x"), "")


def test_the_command_writes_rows_drops_and_report(tmp_path: Path) -> None:
    segments = [{"text": s.text, "sentences": s.sentences} for s in (*GOOD, Segment("no", ("no",)))]
    value = {"question": QUESTION, "passages": [p.to_dict() for p in PASSAGES], "segments": segments}
    (tmp_path / "s.jsonl").write_text(json.dumps(value), "utf-8")
    out, dropped = tmp_path / "rows.jsonl", tmp_path / "dropped.jsonl"
    command = ["train", "reclaim-rows", tmp_path / "s.jsonl", "--output", out, "--dropped", dropped]
    succeeds(*command, "--report", tmp_path / "report.json")
    assert len(read_rows(out)) == 6  # three pairs; the end of an answer that lost a segment is not taught
    told = [json.loads(line)["reason"] for line in dropped.read_text("utf-8").splitlines()]
    assert told == ["not verbatim", "unified row of an answer that is not whole"]
    assert json.loads((tmp_path / "report.json").read_text("utf-8"))["pairs"] == 3
    for wrong in (["--form", "verse"], ["--mode", "verse"]):
        assert selfreflect(*command, *wrong).exit_code == 2
    assert selfreflect("train", "reclaim-rows", tmp_path / "none.jsonl", "-o", out).exit_code == 2


def test_limits_that_cannot_be_held_are_refused() -> None:
    with pytest.raises(SettingsError):
        RowSettings(min_sentences=3, max_sentences=2)
