"""Several systems on the same questions: killed and gone on with, in shards, and what may not be mixed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shared_core.errors import InputError, SettingsError
from shared_core.evaluation import Comparison, Question, compare, merge
from shared_core.evaluation.compare.run import missing_shards
from shared_core.evaluation.compare.run_folder import CARD, ROWS, read_run
from shared_core.facades.engine import SelfReflectEngine
from shared_core.settings import SelfReflectSettings
from shared_core.types import Answer
from tests.evaluation.systems import DESCRIBED, Dice, Short, questions
from tests.fakes import FirstSentenceReader, Shelf

FAST: dict[str, Any] = {"resamples": 20, "batch_size": 4}


def figures(comparison: Comparison) -> dict[str, Any]:
    """All but what the clock says."""
    found = comparison.to_dict()["configurations"]
    for configuration in found.values():
        del configuration["figures"]["seconds_per_question"]
    return found


def two(**more: Any) -> dict[str, Dice]:
    return {"good": Dice(0.8, "g", **more), "bad": Dice(0.4, "b", **more)}


def test_all_are_asked_everything_and_judged() -> None:
    systems, told = two(), []
    found = compare(systems, questions(10), progress=lambda *at: told.append(at), **FAST)
    assert [sorted(s.asked) for s in systems.values()] == [sorted(q.question for q in questions(10))] * 2
    assert told == [(0, 20), (4, 20), (8, 20), (12, 20), (16, 20), (18, 20), (20, 20)]
    assert found.names == ("good", "bad")
    assert [row.record.id for row in found.rows["bad"]] == [q.id for q in questions(10)]
    assert found.figures["good"]["retrieved"].value == 1.0


def test_nobody_is_always_asked_first() -> None:
    order: list[str] = []

    class Noted(Dice):
        def answer_many(self, questions: Sequence[str], /) -> list[Answer | Exception]:
            order.append(self.name)
            return super().answer_many(questions)

    compare({n: Noted(0.5, n) for n in "abc"}, questions(12), **FAST)
    assert "".join(order) == "abcbcacab"


KILLED = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's background jobs ignore
from shared_core.evaluation import compare
from tests.evaluation.systems import DESCRIBED, Dice, questions

class Mortal(Dice):
    def answer_many(self, asked, /):
        if len(self.asked) >= 8:
            os.kill(os.getpid(), getattr(signal, sys.argv[2]))
        return super().answer_many(asked)

systems = {"good": Mortal(0.8, "g"), "bad": Mortal(0.4, "b")}
compare(systems, questions(20), folder=sys.argv[1], batch_size=4, made_with=DESCRIBED)
"""


@pytest.mark.parametrize("how", ["SIGKILL", "SIGINT", "SIGTERM"])
def test_a_killed_run_goes_on_where_it_was(tmp_path: Path, how: str) -> None:
    folder = tmp_path / "run"
    root = Path(__file__).parents[2]
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, str(folder), how],
        cwd=root, env={**os.environ, "PYTHONPATH": str(root)}, capture_output=True, text=True,
    )  # fmt: skip
    assert ended.returncode == -getattr(signal, how), ended.stderr
    kept = read_run(folder).rows
    assert len(kept) == 16  # two batches of four of each
    with (folder / ROWS).open("a") as torn:
        torn.write('{"configuration": "go')
    systems = two()
    found = compare(systems, questions(20), folder=folder, made_with=DESCRIBED, **FAST)
    assert len(systems["good"].asked) == len(systems["bad"].asked) == 12
    answered = {row.record.question for row in kept if row.configuration == "good"}
    assert not answered & set(systems["good"].asked)
    assert figures(found) == figures(compare(two(), questions(20), made_with=DESCRIBED, **FAST))
    assert len(found.run.sessions) == 2


def test_more_questions_and_more_systems_may_join(tmp_path: Path) -> None:
    compare({"good": Dice(0.8, "g")}, questions(8), folder=tmp_path, **FAST)
    systems = two()
    found = compare(systems, questions(12), folder=tmp_path, **FAST)
    assert (len(systems["good"].asked), len(systems["bad"].asked)) == (4, 12)
    assert len(found.questions) == 12
    fewer = compare({"third": Dice(0.5, "t")}, questions(5), folder=tmp_path, **FAST)
    assert fewer.names == ("good", "bad", "third")
    assert (len(fewer.questions), fewer.left_out) == (5, 0)


def test_errors_are_counted_and_asked_again(tmp_path: Path) -> None:
    unlucky = two(fails=lambda q: q in ("Question 3?", "Question 5?"))
    found = compare(unlucky, questions(8), folder=tmp_path, **FAST)
    assert found.figures["good"]["errors"].value == 2
    assert found.figures["good"]["questions"].value == 8
    assert list(found.errors("bad").values()) == [("q3", "q5")]
    assert found.figures["good"]["exact_match"].over == 8  # wrong, not left out
    assert found.figures["good"]["calls"].over == 6
    systems = two()
    again = compare(systems, questions(8), folder=tmp_path, **FAST)
    assert sorted(systems["good"].asked) == ["Question 3?", "Question 5?"]
    assert again.figures["good"]["errors"].value == 0
    assert figures(again) == figures(compare(two(), questions(8), **FAST))


def engine(**settings: Any) -> SelfReflectEngine:
    return SelfReflectEngine(Shelf(), settings=SelfReflectSettings(**settings), reader=FirstSentenceReader(0.9))


def test_another_configuration_of_that_name_is_refused(tmp_path: Path) -> None:
    asked = [Question("1", "When was the lamp lit?", ("1871",), True)]
    compare({"ours": engine(top_k=3)}, asked, folder=tmp_path, **FAST)
    compare({"ours": engine(top_k=3)}, asked, folder=tmp_path, **FAST)
    content = (tmp_path / ROWS).read_bytes()
    with pytest.raises(InputError, match=r"settings\.top_k 3, not 4"):
        compare({"ours": engine(top_k=4)}, asked, folder=tmp_path, **FAST)
    assert (tmp_path / ROWS).read_bytes() == content
    found = compare({"theirs": engine(top_k=4)}, asked, folder=tmp_path, **FAST)  # kept apart
    assert found.names == ("ours", "theirs")


def test_other_questions_of_the_same_ids_are_refused(tmp_path: Path) -> None:
    compare(two(), questions(4), folder=tmp_path, **FAST)
    changed = [replace(q, answers=("Bari",)) if q.id == "q1" else q for q in questions(4)]
    with pytest.raises(InputError, match="'q1'"):
        compare(two(), changed, folder=tmp_path, **FAST)


@pytest.mark.parametrize("shards", [2, 3])
def test_shards_merged_are_one_run(tmp_path: Path, shards: int) -> None:
    whole = compare(two(), questions(13), folder=tmp_path / "whole", **FAST)
    folders = []
    for i in range(1, shards + 1):
        folders.append(tmp_path / f"part{i}")
        compare(two(), questions(13), folder=folders[-1], shard=(i, shards), **FAST)
    assert sum(len(read_run(f).rows) for f in folders) == 26
    found = merge(folders, tmp_path / "all", resamples=20)
    assert figures(found) == figures(whole)
    assert missing_shards(found.run.sessions) == []
    assert figures(merge([tmp_path / "all"], resamples=20)) == figures(whole)
    some = merge(folders[1:], resamples=20)
    assert missing_shards(some.run.sessions) == [f"1/{shards}"]
    assert len(some.questions) == sum(i % shards != 0 for i in range(13))


def test_runs_of_different_systems_merge_into_a_comparison(tmp_path: Path) -> None:
    compare({"good": Dice(0.8, "g")}, questions(9), folder=tmp_path / "1", **FAST)
    compare({"bad": Dice(0.4, "b")}, questions(7), folder=tmp_path / "2", **FAST)
    found = merge([tmp_path / "1", tmp_path / "2"], resamples=20)
    assert figures(found) == figures(compare(two(), questions(7), **FAST))
    assert found.left_out == 2
    described = {"bad": {"kind": "another"}}
    compare({"bad": Dice(0.4, "b")}, questions(7), folder=tmp_path / "3", made_with=described, **FAST)
    with pytest.raises(InputError, match="another"):
        merge([tmp_path / "2", tmp_path / "3"])


def test_what_was_run_is_told(tmp_path: Path) -> None:
    asked = [Question("1", "When was the lamp lit?", ("1871",), True)]
    compare({"ours": engine(top_k=3)}, asked, folder=tmp_path, about={"note": "a trial"}, **FAST)
    card = json.loads((tmp_path / CARD).read_text())
    ours, session = card["configurations"]["ours"], card["sessions"][0]
    assert (ours["kind"], ours["settings"]["top_k"], ours["reader"]) == ("composed", 3, "first-sentence")
    assert (session["questions"]["count"], session["note"], session["batch_size"]) == (1, "a trial", 4)
    assert {"selfreflect", "python", "numpy"} <= session["versions"].keys()


def test_measures_of_ones_own() -> None:
    measures = {"words": lambda q, a: float(len(a.text.split())), "never": lambda q, a: None}
    found = compare(two(), questions(8), measures=measures, **FAST)
    assert found.figures["good"]["words"].value == 1.0
    assert found.figures["good"]["words"].over == 8
    assert found.figures["good"]["never"].over == 0


def test_bad_input(tmp_path: Path) -> None:
    twice = [*questions(2), questions(2)[0]]
    for systems, asked, more in (
        ({}, questions(2), {}),
        ({"": Dice(1)}, questions(2), {}),
        (two(), [], {}),
        (two(), twice, {}),
        (two(), questions(3), {"shard": (0, 2)}),
        (two(), questions(3), {"shard": (3, 2)}),
        (two(), questions(3), {"shard": (4, 4)}),
        (two(), questions(3), {"baseline": "nobody"}),
        ({"short": Short()}, questions(3), {}),
    ):
        with pytest.raises(InputError):
            compare(systems, asked, **more)
    for more in ({"batch_size": 0}, {"targets": [1.0]}, {"level": 0.0}, {"resamples": -1}):
        asked = two()
        with pytest.raises(SettingsError):
            compare(asked, questions(3), **more)
        assert asked["good"].asked == []
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match=r"notes\.txt"):
        compare(two(), questions(2), folder=tmp_path)
    with pytest.raises(InputError):
        merge([])
    with pytest.raises(InputError):
        merge([tmp_path])
