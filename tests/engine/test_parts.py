"""What an engine is made of: put together in one way everywhere, shared in a process, refused early if it won't do."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from langchain_selfreflect import MiniLMEmbeddings, SelfReflectChain
from llamaindex_selfreflect import MiniLMEmbedding, SelfReflectQueryEngine, SelfReflectRerank
from shared_core import SelfReflectEngine, SelfReflectSettings
from shared_core.calibration import io as calibration_io
from shared_core.cli import app
from shared_core.errors import CalibrationError, InputError, SettingsError
from shared_core.evaluation.fitting import FitOptions, fit
from shared_core.facades.assembly import default_embedder, default_reader
from shared_core.facades.gated_retriever import GatedRetriever
from shared_core.facades.reranker import SelfReflectReranker
from shared_core.lm.scripted import ScriptedLM
from shared_core.reading.base import Read, ReadResult
from shared_core.types import Passage
from tests.fakes import Critic, FirstSentenceReader, Shelf, published
from tests.langchain.lc_fakes import ShelfRetriever
from tests.llamaindex.li_fakes import NodeShelf

QUESTION = "When was the lamp lit?"
CLAIMS = [(f"quote {i}", f"{'true' if i % 2 else 'false'} {i}", bool(i % 2)) for i in range(30)]
REPLY = "<reference>S1</reference><claim>The lamp was lit in 1871, true.</claim>"


def nli(name: str = "nli") -> Critic:
    """Knows a true claim by its word."""
    return Critic(lambda quote, claim: 0.9 if "true" in claim else 0.2, name)


def writer() -> ScriptedLM:
    return ScriptedLM(lambda request: REPLY)


def reclaiming(judge: Any, **more: Any) -> SelfReflectEngine:
    return SelfReflectEngine(Shelf(), writer(), published(pipeline="reclaim"), judge=judge, **more)


def test_a_calibration_that_is_not_applied_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    fitted = fit("support", reclaiming(nli()), options=FitOptions(claims=CLAIMS)).calibration
    file = tmp_path / "calibration.json"
    calibration_io.save(file, {"gate": fitted, "confidense": fitted})
    SelfReflectEngine(Shelf(), settings=SelfReflectSettings(calibration=file))
    assert "confidense, gate is not applied without a language model" in caplog.text
    caplog.clear()
    SelfReflectEngine(Shelf(), ScriptedLM([]), SelfReflectSettings(calibration=file))
    assert "confidense is not applied." in caplog.text


# --- a judge and its calibration -----------------------------------------------------------------------------------


def test_support_calibrated_with_a_judge_is_accepted_by_the_engine_with_that_judge(tmp_path: Path) -> None:
    fitted = fit("support", reclaiming(nli()), options=FitOptions(claims=CLAIMS)).calibration
    assert (fitted.bound_to["support_method"], fitted.bound_to["model"]) == ("judge", "nli")
    file = tmp_path / "calibration.json"
    calibration_io.save(file, {"support": fitted})
    settings = published(pipeline="reclaim", calibration=file)
    answer = SelfReflectEngine(Shelf(), writer(), settings, judge=nli()).answer(QUESTION)
    assert not answer.abstained
    assert answer.kept_claims[0].support == pytest.approx(fitted.probability(0.9))
    for other in (nli("another"), None):
        with pytest.raises(CalibrationError, match="fitted for"):
            SelfReflectEngine(Shelf(), writer(), settings, judge=other).answer(QUESTION)


def test_the_commands_take_a_judge(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """``--judge`` reaches the engine, and what is fitted is accepted with the same judge."""
    from shared_core.reading import support

    judges: dict[str, Critic] = {}
    monkeypatch.setattr(support, "CrossEncoderSupportScorer", lambda path: judges.setdefault(path, nli(str(path))))
    monkeypatch.setattr("shared_core.cli.common.build_model", lambda *how: writer())
    opened = SimpleNamespace(retriever=Shelf)
    monkeypatch.setattr("shared_core.cli.common.open_index", lambda *where: opened)
    questions, claims, file = tmp_path / "q.jsonl", tmp_path / "claims.jsonl", tmp_path / "c.json"
    questions.write_text(json.dumps({"question": QUESTION, "answers": ["1871"]}))
    claims.write_text("\n".join(json.dumps({"quote": q, "claim": c, "label": label}) for q, c, label in CLAIMS))
    shared = ["--docs", str(tmp_path), "--model", "m", "--pipeline", "reclaim", "--judge", "my-nli"]
    result = CliRunner().invoke(app, ["calibrate", "support", str(claims), *shared, "-o", str(file)])
    assert result.exit_code == 0, result.output
    assert calibration_io.load(file)["support"].bound_to["model"] == "my-nli"
    written = tmp_path / "eval.json"
    used = ["--calibration", str(file), "--json", str(written)]
    result = CliRunner().invoke(app, ["eval", str(questions), *shared, *used])
    assert result.exit_code == 0, result.output
    (record,) = json.loads(written.read_text())["records"]
    assert (record["error"], record["claims"]) == ("", 1)


# --- roles ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("pipeline", "roles"), [
    ("seakr", ["judge"]), ("self_rag", ["judge"]), ("composed", ["judge"]), ("composed", ["reference", "claim"]),
    ("reclaim", ["judge"]), ("reclaim", ["reference"]),
])  # fmt: skip
def test_roles_that_do_not_suffice_for_the_pipeline_are_refused_when_the_engine_is_made(
    pipeline: Any, roles: list[str]
) -> None:
    models = {role: writer() for role in roles}
    with pytest.raises(SettingsError, match="needs a language model") as caught:
        SelfReflectEngine(Shelf(), settings=SelfReflectSettings(pipeline=pipeline), models=models)
    assert roles[0] in caught.value.message


def test_roles_that_suffice_are_taken() -> None:
    both = {"reference": writer(), "claim": writer()}
    settings = published(pipeline="reclaim")
    assert not SelfReflectEngine(Shelf(), settings=settings, models=both, judge=nli()).answer(QUESTION).abstained
    SelfReflectEngine(Shelf(), settings=settings, models={**both, "judge": writer()})
    SelfReflectEngine(Shelf(), settings=settings, models={"default": writer()})


def test_a_role_that_does_not_exist_is_refused() -> None:
    with pytest.raises(InputError, match="no role 'claims'") as caught:
        SelfReflectEngine(Shelf(), writer(), models={"claims": writer()})
    assert "claim" in caught.value.hint


# --- defaults ------------------------------------------------------------------------------------------------------


def test_reader_and_embedder_are_one_of_each_in_a_process_and_not_wrapped() -> None:
    from shared_core.reading.extractive import ExtractiveReader
    from shared_core.retrieval.embedding import MiniLMEmbedder

    assert isinstance(default_reader(), ExtractiveReader)
    assert isinstance(default_embedder(), MiniLMEmbedder)
    engine = SelfReflectEngine(Shelf())
    assert engine.resources.reader is default_reader()
    assert engine.resources.embedder is default_embedder()
    assert GatedRetriever(Shelf(), gate="always")._resources.embedder is default_embedder()
    assert SelfReflectReranker()._resources.reader is default_reader()
    assert SelfReflectRerank()._reranker._resources.reader is default_reader()
    assert SelfReflectQueryEngine(NodeShelf())._shared.resources.reader is default_reader()
    assert SelfReflectChain(retriever=ShelfRetriever()).engine.resources.reader is default_reader()
    assert MiniLMEmbedding()._embedder is default_embedder()
    assert MiniLMEmbeddings()._embedder is default_embedder()


# --- the same engine over another retriever ------------------------------------------------------------------------


def test_an_engine_over_another_retriever_shares_everything_else() -> None:
    engine = reclaiming(nli())
    other = Shelf([Passage("x", "The lamp of Orm was lit in 1820.")])
    again = engine.over(other)
    assert again.resources.models["default"] is engine.resources.models["default"]
    assert again.resources.judge is engine.resources.judge
    assert again.resources.reader is engine.resources.reader
    assert again.context == engine.context
    assert [p.id for p in again.answer(QUESTION).passages] == ["x"]
    assert engine.over(other, SelfReflectSettings(pipeline="reclaim", top_k=1)).settings.top_k == 1


# --- warming up ----------------------------------------------------------------------------------------------------


class CountingReader(FirstSentenceReader):
    def __init__(self) -> None:
        super().__init__(0.9)
        self.asked: list[str] = []

    def read(self, requests: Sequence[Read]) -> list[ReadResult | Any]:
        self.asked += [r.question for r in requests]
        return super().read(requests)


def test_warming_up_loads_what_the_first_question_would_and_asks_no_model() -> None:
    reader, shelf = CountingReader(), Shelf()
    engine = SelfReflectEngine(shelf, reader=reader)
    assert engine.warm_up() is engine
    assert len(reader.asked) == 1
    assert len(shelf.queries) == 1
    lm, judge = writer(), nli()
    SelfReflectEngine(Shelf(), lm, published(pipeline="reclaim"), judge=judge, reader=reader).warm_up()
    assert len(judge.pairs) == 1
    assert lm.requests == []
    assert len(reader.asked) == 1  # reclaim reads nothing


def test_warming_up_fails_as_the_first_question_would() -> None:
    class Gone(Shelf):
        def retrieve(self, query: str, k: int = 5) -> Any:
            raise OSError("the disk is gone")

    with pytest.raises(Exception, match="the disk is gone"):
        SelfReflectEngine(Gone(), reader=CountingReader()).warm_up()


def test_an_engine_over_another_retriever_learns_from_the_same_questions() -> None:
    """``expected_answerable="auto"`` would otherwise never see enough of them: plug-ins make an engine a question."""
    settings = SelfReflectSettings(expected_answerable="auto")
    first = SelfReflectEngine(Shelf(), settings=settings, reader=FirstSentenceReader(0.9))
    assert first.over(Shelf()).context.expected is first.context.expected
    other = first.over(Shelf(), settings.replace(expected_answerable=0.5))
    assert other.context.expected is not first.context.expected
