"""Training data of ReSearch: what rows teach, and searches that survive being killed at any moment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from shared_core import SelfReflectEngine, SelfReflectSettings
from shared_core.errors import GenerationError, InputError
from shared_core.evaluation.dataset import Question
from shared_core.lm.base import Prompt
from shared_core.training.research.rows import Scored, Searched, make_rows, preferences
from shared_core.training.research.searches import SEARCHES, run_searches, searches_log
from shared_core.training.rows import read_rows
from tests.command import selfreflect, succeeds
from tests.fakes import FirstSentenceReader, Shelf
from tests.pipelines.research_scripts import Model, believes, by_words, kind

PROMPT = Prompt.trusted("Answer: ", "user") + Prompt.untrusted("When was the lamp lit?", "user")
LIT, SANK = "The lamp was lit in 1871.", "The lamp sank in 1900."


def scored(**utilities: float) -> Searched:
    candidates = tuple(Scored(text, u, (text,), (0.5,)) for text, u in utilities.items())
    return Searched("1", "When?", PROMPT, candidates, "PASS")


def test_the_best_answer_is_learned_or_the_abstention() -> None:
    rows = make_rows([scored(a=1.0, b=2.0, c=-1.0), scored(a=-1.0, b=0.0)])
    assert [r.completion for r in rows.sft] == ["b", "PASS"]
    assert all(r.ends for r in rows.sft)
    assert rows.sft[0].prompt == PROMPT
    assert rows.counts["abstentions"] == 1


def test_each_of_the_two_best_comes_before_each_of_the_two_worst() -> None:
    made = preferences(scored(a=3.0, b=2.0, c=1.0, d=-1.0, e=-2.0))
    assert [(r["chosen"][0]["content"], r["rejected"][0]["content"]) for r in made] == [
        ("a", "e"), ("a", "d"), ("b", "e"), ("b", "d"),
    ]  # fmt: skip
    assert made[0]["prompt"] == [{"role": "user", "content": "Answer: When was the lamp lit?"}]


def test_nothing_is_preferred_to_what_is_worth_as_much() -> None:
    assert preferences(scored()) == []
    assert [r["utilities"] for r in preferences(scored(a=1.0))] == [[1.0, 0.0]]
    assert preferences(scored(a=0.0, b=0.0)) == []


def test_the_same_text_is_one_candidate_and_one_without_claims_is_none() -> None:
    search = Searched(
        "1", "q", PROMPT, (Scored("a", 1.0, ("a",), (1.0,)), Scored("a", 1.0, ("a",), (1.0,)), Scored("Sorry.", 0.0))
    )
    assert [c.text for c in search.ranked()] == ["a", "I do not know."]


def test_rewards_have_unit_spread() -> None:
    rows = make_rows([scored(a=2.0, b=-2.0), scored(c=4.0)])
    rewards = [c["utility"] / rows.utility_sd for r in rows.rloo for c in r["candidates"]]
    mean = sum(rewards) / len(rewards)
    assert sum((r - mean) ** 2 for r in rewards) / len(rewards) == pytest.approx(1.0)
    assert rows.rloo[0]["claims"] == [{"claim": "a", "probability": 0.5}, {"claim": "b", "probability": 0.5}]


def test_a_search_survives_being_written() -> None:
    for search in (scored(a=1.0), Searched("2", "q", Prompt.trusted("raw"), ())):
        assert Searched.from_dict(json.loads(json.dumps(search.to_dict()))) == search


# --- searches on disk ----------------------------------------------------------------------------------------------

QUESTIONS = [Question(str(i), f"When was lamp {i} lit?") for i in range(7)]


def made(model: Model | None = None, **research: Any) -> tuple[SelfReflectEngine, Model]:
    model = model or Model([[f"{LIT} {SANK}", LIT]], think=believes(lit="90", sank="20"))
    values = {"closed_book": True, "samples": 2, "rounds": 1, "splitter": "sentences", **research}
    settings = SelfReflectSettings(pipeline="research", research=values)
    return SelfReflectEngine(Shelf(), model.lm, settings, reader=FirstSentenceReader(0.9), judge=by_words({})), model


def test_every_question_is_searched_once(tmp_path: Path) -> None:
    engine, model = made()
    told: list[tuple[int, int]] = []
    searches, failed = run_searches(engine, QUESTIONS, tmp_path, batch_size=3, progress=lambda *at: told.append(at))
    assert [s.id for s in searches] == [q.id for q in QUESTIONS]
    assert failed == {}
    assert told == [(0, 7), (3, 7), (6, 7), (7, 7)]
    assert searches[0].ranked()[0].text == LIT
    assert searches[0].candidates[0].probabilities == (0.9, 0.2)
    asked = len(model.lm.requests)
    again, _ = run_searches(engine, QUESTIONS, tmp_path)
    assert again == searches
    assert len(model.lm.requests) == asked


class Killed(BaseException):
    """Ends the process, as far as a test can."""


@pytest.mark.parametrize("after", [2, 4, 6])
def test_killed_between_batches_or_in_a_line_it_goes_on(tmp_path: Path, after: int) -> None:
    engine, _ = made()
    whole, _ = run_searches(engine, QUESTIONS, tmp_path / "whole", batch_size=2)

    def kill(done: int, total: int) -> None:
        if done >= after:
            raise Killed

    with pytest.raises(Killed):
        run_searches(engine, QUESTIONS, tmp_path / "killed", batch_size=2, progress=kill)
    file = tmp_path / "killed" / SEARCHES
    with file.open("a") as torn:
        torn.write('{"id": "half')
    resumed, model = made()
    searches, _ = run_searches(resumed, QUESTIONS, tmp_path / "killed", batch_size=2)
    assert searches == whole
    assert model.counts["write"] == 7 - after
    assert file.read_bytes() == (tmp_path / "whole" / SEARCHES).read_bytes()


def test_what_failed_is_told_of_and_asked_again(tmp_path: Path) -> None:
    class Shy(Model):
        def _reply(self, request: Any) -> Any:
            if kind(request) == "write" and "lamp 2" in request.prompt.text:
                return GenerationError("Not now.")
            return super()._reply(request)

    engine, _ = made(Shy([[LIT]]))
    searches, failed = run_searches(engine, QUESTIONS[:4], tmp_path)
    assert [s.id for s in searches] == ["0", "1", "3"]
    assert "Not now." in failed["2"]
    engine, _ = made(Model([[LIT]]))
    searches, failed = run_searches(engine, QUESTIONS[:4], tmp_path)
    assert [s.id for s in searches] == ["0", "1", "2", "3"]
    assert failed == {}


def test_a_search_that_a_limit_ended_teaches_nothing(tmp_path: Path) -> None:
    engine, _ = made()
    limited = engine.over(Shelf(), engine.settings.replace(max_calls=2))
    searches, failed = run_searches(limited, QUESTIONS[:1], tmp_path)
    assert searches == []
    assert "max_calls=2" in failed["0"]


def test_another_configuration_is_refused(tmp_path: Path) -> None:
    run_searches(made()[0], QUESTIONS[:1], tmp_path)
    with pytest.raises(InputError, match=r"made with settings\.research\.samples 2, not 3\."):
        run_searches(made(samples=3)[0], QUESTIONS[:1], tmp_path)
    with pytest.raises(InputError, match="not the one that was asked here before"):
        run_searches(made()[0], [Question("0", "Something else?")], tmp_path)
    with pytest.raises(InputError, match="same id"):
        run_searches(made()[0], [QUESTIONS[0], QUESTIONS[0]], tmp_path)
    with searches_log(tmp_path).locked(), pytest.raises(InputError, match="Another run"):
        run_searches(made()[0], QUESTIONS, tmp_path)


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / SEARCHES).write_text("mine\n", "utf-8")
    with pytest.raises(InputError, match="folder of its own"):
        run_searches(made()[0], QUESTIONS[:1], tmp_path)
    assert (tmp_path / SEARCHES).read_text("utf-8") == "mine\n"


def research_data(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[list[Any], Model]:
    """The command for a file of ``QUESTIONS``, without an output, and the model that it asks."""
    model = Model([[f"{LIT} {SANK}", LIT]], think=believes(lit="90", sank="20"))
    monkeypatch.setattr("shared_core.cli.common.build_model", lambda *_: model.lm)
    file = folder / "q.jsonl"
    file.write_text("\n".join(json.dumps({"id": q.id, "question": q.question}) for q in QUESTIONS), "utf-8")
    settings = [f"--set=research.{value}" for value in ("samples=2", "rounds=1", "splitter=sentences")]
    return ["train", "research-data", file, "--model", "m", *settings], model


def test_the_command_writes_rows_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command, model = research_data(tmp_path, monkeypatch)
    out = tmp_path / "out"
    command += ["-o", out]
    succeeds(*command, "--limit", "3")
    succeeds(*command)
    assert model.counts["write"] == len(QUESTIONS)
    rows = read_rows(out / "sft.jsonl")
    assert [r.source for r in rows] == [q.id for q in QUESTIONS]
    assert {r.completion for r in rows} == {LIT}
    preferred = [json.loads(line) for line in (out / "dpo.jsonl").read_text("utf-8").splitlines()]
    assert {"prompt", "chosen", "rejected"} <= set(preferred[0])
    report = json.loads((out / "report.json").read_text("utf-8"))
    assert report["searches"] == report["rloo"] == 7
    refused = selfreflect(*command, "--set", "research.samples=4")
    assert refused.exit_code == 2
    assert selfreflect("train", "research-data", tmp_path / "q.jsonl", "-o", out).exit_code == 2  # no model


def test_the_old_name_of_the_command_works_and_names_the_new_one(tmp_path: Path) -> None:
    questions = tmp_path / "q.jsonl"
    questions.write_text(json.dumps({"question": "Who?"}), "utf-8")
    done = selfreflect("research-data", questions, "-o", tmp_path / "out")
    assert (done.exit_code, "use: selfreflect train research-data" in " ".join(done.output.split())) == (2, True)
    assert "research-data" not in selfreflect("--help").output
    assert "research-data" in selfreflect("train", "--help").output


def test_other_documents_or_options_are_refused_before_a_model_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command, model = research_data(tmp_path, monkeypatch)
    for name, text in (("one", f"{LIT} {SANK}"), ("two", f"{SANK} {LIT} And more.")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "lamps.txt").write_text(text, "utf-8")

    def search(documents: str, *more: str) -> Any:
        searched = ["--docs", tmp_path / documents, "--index", tmp_path / f"index-{documents}"]
        return selfreflect(*command, "-o", tmp_path / "out", "--limit", "1", *searched, *more)

    first = search("one")
    assert first.exit_code == 0, first.output
    asked = len(model.lm.requests)

    def load(*_: object) -> Any:
        raise AssertionError("a model was loaded")

    monkeypatch.setattr("shared_core.cli.common.build_model", load)
    refused = search("two")
    assert (refused.exit_code, "made with documents." in refused.output) == (2, True), refused.output
    refused = search("one", "--top-k", "3")
    assert (refused.exit_code, "made with settings.top_k 5, not 3." in " ".join(refused.output.split())) == (2, True)
    monkeypatch.setattr("shared_core.cli.common.build_model", lambda *_: model.lm)
    assert search("one").exit_code == 0
    assert len(model.lm.requests) == asked


def test_other_weights_under_the_same_name_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, model = made()
    monkeypatch.setattr(type(model.lm), "identity", "ScriptedLM, weights 1111", raising=False)
    run_searches(engine, QUESTIONS[:1], tmp_path)
    monkeypatch.setattr(type(model.lm), "identity", "ScriptedLM, weights 2222")
    with pytest.raises(InputError, match=r'weights\.default "ScriptedLM, weights 1111", not'):
        run_searches(made()[0], QUESTIONS[:2], tmp_path)
