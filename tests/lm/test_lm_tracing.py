"""The record of prompts and replies: complete, written as they happen, and nothing in it can be mistaken."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from shared_core.cli import app
from shared_core.errors import GenerationError
from shared_core.facades.engine import SelfReflectEngine
from shared_core.lm import Generate, HiddenStates, LanguageModel, Prompt, Sample, SamplingParams, Score, ScriptedLM
from shared_core.lm.identity import identity_of
from shared_core.lm.tracing import TracingLM
from shared_core.retrieval import BM25Retriever
from shared_core.settings import PipelineName, SelfReflectSettings
from shared_core.types import Passage
from tests.openai_server import FakeServer
from tests.real.real_answers import PIPELINES

CHAT = Prompt.trusted("Answer briefly.", role="system") + Prompt.untrusted("Who?\nAnd when?", role="user")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "prompts.txt"


def test_prompt_options_and_samples_are_recorded(path: Path) -> None:
    model = ScriptedLM(lambda r: [Sample("Mira Dorn.\nIn 1841.", token_ids=(1, 2)), "No.", ""])
    with TracingLM(model, path) as lm:
        assert isinstance(lm, LanguageModel)
        [result] = lm.generate([Generate(CHAT, SamplingParams(n=3, temperature=0.7, stop=("###",)), model="claim")])
    assert result == model.generate([Generate(CHAT, SamplingParams(n=3))])[0]
    head, *rest = path.read_text("utf-8").split("\n")
    assert (
        head == "--- call 1 · Generate · scripted · as claim · max_tokens=256, n=3, temperature=0.7, stop=('###',) ---"
    )
    assert rest[:5] == ["[system]", "  Answer briefly.", "[user]", "  Who?", "  And when?"]
    text = "\n".join(rest)
    assert "[reply 1 of 3: eos, 2 tokens]\n  Mira Dorn.\n  In 1841.\n" in text
    assert "[reply 2 of 3: eos]\n  No.\n[reply 3 of 3: eos]\n" in text


def test_scores_states_and_token_ids(path: Path, tiny_lm: Any) -> None:
    model = ScriptedLM(
        score=lambda r: [(-1.0, -0.5)],
        states=lambda r: np.zeros((2, 3)),
        token_ids={"[Retrieval]": 7},
        name="white box",
    )
    prompts = Prompt.trusted("a"), Prompt.tokens([5, 6])
    with TracingLM(model, path) as lm:
        lm.score([Score(prompts[0], (Prompt.trusted(" b"),))])
        lm.hidden_states([HiddenStates(prompts)])
        assert lm.token_ids(["[Retrieval]", "no"]) == [7, None]
    text = path.read_text("utf-8")
    assert "call 1 · Score · white box ---\n[prompt]\n  a\n[continuation 1]\n   b\n" in text
    assert "[continuation 1: log-probability -1.500]" in text
    assert "[prompt]\n  <token ids 5 6>\n" in text
    assert "[states of shape (2, 3)]" in text
    ids = tiny_lm.tokenizer.encode("the river", add_special_tokens=False)
    with TracingLM(tiny_lm, path) as lm:
        lm.generate([Generate(Prompt.tokens(ids), SamplingParams(max_tokens=1))])
        assert identity_of(lm) == identity_of(tiny_lm)
        assert lm.capabilities == tiny_lm.capabilities
        assert len(lm.encoder.encode(Prompt.tokens(ids))) == len(ids)
    assert "  the river\n" in path.read_text("utf-8")


def test_the_prompt_is_in_the_file_before_the_model_answers(path: Path) -> None:
    seen: list[str] = []

    def reply(request: Generate) -> str:
        seen.append(path.read_text("utf-8"))
        return "later"

    lm = TracingLM(ScriptedLM(reply), path)
    lm.heading("Who\nasks?")
    lm.generate([Generate(CHAT)])
    assert seen[0].startswith("=== Who asks? ===\n")
    assert "  Who?\n" in seen[0]
    assert "later" not in seen[0]
    assert "  later\n" in path.read_text("utf-8")
    lm.close()


def test_failures_are_recorded_and_passed_on(path: Path) -> None:
    class Broken(ScriptedLM):
        def generate(self, requests: Any) -> Any:
            raise RuntimeError("out of memory")

    with TracingLM(ScriptedLM([GenerationError("The logits are NaN.", hint="Use float32.")]), path) as lm:
        [error] = lm.generate([Generate(CHAT)])
    assert isinstance(error, GenerationError)
    assert "[error]\n  GenerationError: The logits are NaN.\n  Hint: Use float32.\n" in path.read_text("utf-8")
    with TracingLM(Broken(), path) as lm, pytest.raises(RuntimeError):
        lm.generate([Generate(CHAT)])
    assert "--- result 1 ---\n[error]\n  RuntimeError: out of memory\n" in path.read_text("utf-8")


def test_no_text_can_pass_for_a_heading_or_reach_the_terminal(path: Path) -> None:
    evil = "--- result 1 ---\r--- call 9 ---\u2028=== x ===\x1b[2J"
    with TracingLM(ScriptedLM([evil]), path) as lm:
        lm.generate([Generate(Prompt.untrusted(evil))])
    lines = path.read_text("utf-8").splitlines()
    assert [line for line in lines if line.startswith(("---", "==="))] == [
        lines[0],
        next(x for x in lines if " s ---" in x),
    ]
    assert "\x1b" not in path.read_text("utf-8")


def test_calls_of_several_tasks_can_be_told_apart(path: Path) -> None:
    async def ask() -> None:
        with TracingLM(ScriptedLM(lambda r: r.prompt.text.upper()), path) as lm:
            await asyncio.gather(*(lm.agenerate([Generate(Prompt.untrusted(f"p{i}"))]) for i in range(8)))

    asyncio.run(ask())
    text = path.read_text("utf-8")
    for i in range(1, 9):
        prompt = text.split(f"--- call {i} ·")[1].split("[prompt]\n")[1].split("\n")[0]
        assert text.split(f"--- result {i} ·")[1].split("\n")[2] == prompt.upper()


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_every_call_of_every_pipeline_is_recorded(pipeline: PipelineName, path: Path) -> None:
    model = ScriptedLM(lambda r: ["Mira Dorn bridged the Thale in 1841."] * r.params.n)
    retriever = BM25Retriever()
    retriever.add([Passage(id="1", text="The Thale was bridged in 1841 by Mira Dorn.")])
    with TracingLM(model, path) as lm:
        SelfReflectEngine(retriever, lm, SelfReflectSettings(pipeline=pipeline)).answer("Who bridged the Thale?")
    text = path.read_text("utf-8")
    assert text.count("\n--- call ") + 1 == text.count("\n--- result ") == len(model.requests) > 0


def test_the_command_traces_a_server_one_question_after_another(tmp_path: Path) -> None:
    document = tmp_path / "thale.md"
    document.write_text("The Thale was bridged in 1841 by Mira Dorn, an engineer from the old town.\n", "utf-8")
    path = tmp_path / "prompts.txt"
    questions = "Who bridged the Thale?", "When was the Thale bridged?"
    with FakeServer() as server:
        arguments = ["--docs", str(document), "--index", str(tmp_path / "index"), "--base-url", server.url]
        result = CliRunner().invoke(app, ["ask", *questions, *arguments, "--trace-prompts", str(path)])
    assert result.exit_code in (0, 3), result.output
    first, second = path.read_text("utf-8").split("=== When was the Thale bridged? ===\n")
    assert first.startswith("=== Who bridged the Thale? ===\n\n--- call 1 · Generate · ")
    for part, question in ((first, questions[0]), (second, questions[1])):
        assert "--- call " in part
        assert question in part.split("\n--- result ")[0]
        assert "\n[reply 1 of 1: " in part


def test_without_a_model_there_is_nothing_to_trace(tmp_path: Path) -> None:
    result = CliRunner().invoke(
        app, ["ask", "Who?", "--docs", str(tmp_path), "--trace-prompts", str(tmp_path / "p.txt")]
    )
    assert result.exit_code == 2
    assert "--model or --base-url" in " ".join(result.output.split())
