"""Rows are made of the prompts that the pipelines send, fixed by seed and number, and true."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest

from benchmarks.lab.rows.row import IGNORED, LabRow
from benchmarks.lab.rows.source import SKILLS, Group, RowSource
from shared_core import SelfReflectEngine, SelfReflectSettings
from shared_core.lab import World
from shared_core.lm.base import BaseLanguageModel, Prompt
from shared_core.lm.transformers import TransformersLM
from shared_core.reflection import REFLECTION_TOKENS
from shared_core.retrieval import BM25Retriever
from shared_core.settings import PipelineName, ResearchSettings, SeakrSettings


class Recorder(BaseLanguageModel):
    """Passes everything on, and keeps the prompts."""

    def __init__(self, lm: TransformersLM) -> None:
        self.lm, self.prompts = lm, list[Prompt]()
        self.name, self.capabilities = lm.name, lm.capabilities

    def generate(self, requests: Any) -> list[Any]:
        self.prompts += [r.prompt for r in requests]
        return self.lm.generate(requests)

    def score(self, requests: Any) -> list[Any]:
        self.prompts += [r.prompt for r in requests]
        return self.lm.score(requests)

    def token_ids(self, texts: Sequence[str]) -> list[int | None]:
        return self.lm.token_ids(texts)


def ours(prompt: Prompt) -> set[str]:
    """Return the trusted parts of a prompt with numbers normalised; adjoining parts are joined."""
    text = "".join(p.text if p.trusted else "\0" for p in prompt.parts)
    return {re.sub(r"\d+", "0", part) for part in re.split("\0+", text) if part.strip()}


@pytest.fixture(scope="module")
def groups(world: World) -> list[Group]:
    source = RowSource(world)
    return [source.group(number) for number in range(20_000, 20_400)]


@pytest.fixture(scope="module")
def rows(groups: list[Group]) -> list[LabRow]:
    return [row for group in groups for row in group.rows]


@pytest.fixture(scope="module")
def wordings(rows: list[LabRow]) -> set[str]:
    found: set[str] = set()
    for row in rows:
        whole = row.prompt
        for piece in row.pieces:
            whole += piece.text
        found |= ours(row.prompt) | ours(whole)
    return found


SEAKR = SeakrSettings(samples=2, max_step_tokens=24, max_steps=2)
BIOGRAPHY = ResearchSettings(
    rounds=1, samples=2, max_tokens=48, closed_book=True, published={"prompts": "biography", "safe_prompt": True}
)
QUICK: list[tuple[PipelineName, dict[str, Any]]] = [
    ("seakr", {"seakr": SEAKR.replace(multi_hop=False, threshold=-100.0)}), ("reclaim", {}), ("self_rag", {}),
    ("research", {"research": BIOGRAPHY}), ("composed", {}),
]  # fmt: skip
MORE: list[tuple[PipelineName, dict[str, Any]]] = [
    ("seakr", {"seakr": SEAKR}), ("research", {"research": ResearchSettings(rounds=2, samples=2, max_tokens=48)}),
    ("research", {"research": ResearchSettings(rounds=2, samples=2, max_tokens=48, closed_book=True)}),
    ("composed", {"rerank": "uncertainty", "on_abstain": "fallback", "seakr": SEAKR}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("pipeline", "changes"), [*QUICK, *(pytest.param(*more, marks=pytest.mark.train) for more in MORE)]
)
def test_every_wording_that_a_pipeline_sends_is_in_the_rows(
    pipeline: PipelineName, changes: dict[str, Any], world: World, lab_lm: TransformersLM, wordings: set[str]
) -> None:
    recorder = Recorder(lab_lm)
    settings = SelfReflectSettings(pipeline=pipeline, top_k=2, **changes)
    engine = SelfReflectEngine(BM25Retriever(world.documents()), recorder, settings)
    for question in world.questions(kind="single", split="test")[:1]:
        neutral = settings.research.published.prompts == "neutral"
        engine.answer(question.text if neutral else world.entity(question.entities[0]).phrase)
    assert recorder.prompts
    sent = {wording for prompt in recorder.prompts for wording in ours(prompt)}
    assert not {s for s in sent if not any(w.startswith(s) for w in wordings)}  # what is learned may follow at once


def test_rows_are_fixed_by_seed_and_number(world: World) -> None:
    one, two = RowSource(world), RowSource(world)
    next(two.groups(5))
    for number in (0, 1234, 7400):
        assert one.group(number) == two.group(number)
    assert RowSource(world, 1).group(1234) != one.group(1234)


def test_every_skill_is_practised(groups: list[Group]) -> None:
    assert {group.skill for group in groups} == set(SKILLS)


def test_as_much_is_to_be_looked_up_as_is_known(world: World, groups: list[Group]) -> None:
    """From worlds of which nothing is known alone, a model learns to look everything up."""
    deciding = [g for g in groups if g.skill == "deciding"]
    assert deciding
    for group in deciding:
        decided = [row.completion.startswith("[No Retrieval]") for row in group.rows]
        assert sum(decided) == len(decided) - sum(decided)
        assert decided == [world.fact(row.source).known for row in group.rows]


def test_several_questions_share_the_passages_they_are_quoted_from(groups: list[Group]) -> None:
    """Reading the passages is what a row costs; most of what is asked is about one and the same thing."""
    quoting = [g for g in groups if g.skill == "reclaim"]
    asked = [len({row.prompt.text for row in g.rows if "Question: " in row.prompt.text}) for g in quoting]
    assert max(asked) > 4


def test_obscure_facts_are_never_learned_by_heart(rows: list[LabRow], world: World) -> None:
    families = {"closed_book", "sentences", "memory", "closed_chain", "recalled"}
    strange = {f.id for f in world.facts if not f.known}
    told = [row for row in rows if row.family in families and row.source in strange]
    assert all("not know" in row.completion for row in told)


def test_only_the_training_split_is_read(world: World, rows: list[LabRow]) -> None:
    """The test split is in no row's context; only facts to memorise are."""
    for row in rows:
        if row.family in {"reading", "open_chain", "reclaim", "numbered", "self_rag", "support"}:
            subject = row.source.rpartition(".")[0]
            facts = {f.id for f in world.facts_of(subject)} if subject else set()
            if row.source in facts:
                assert world.fact(row.source).split == "train"


def test_reading_rows_say_what_their_passages_say(rows: list[LabRow]) -> None:
    found = [r for r in rows if r.family == "reading" and r.completion.strip(" .") not in ("yes", "no")]
    assert found
    for row in found:
        answer = row.completion.rpartition("answer is ")[2].strip(" .")
        assert answer.lower().removeprefix("the ") in row.prompt.text.lower()


def test_verdicts_are_learned_and_passages_are_not(rows: list[LabRow], lab_lm: TransformersLM) -> None:
    encoder = lab_lm.encoder
    row = next(r for r in rows if r.family == "self_rag" and "<paragraph>" in r.completion and r.ends)
    ids, labels = row.encode(encoder)
    start, end = (encoder.token_id(t) for t in ("<paragraph>", "</paragraph>"))
    inside = slice(ids.index(start), ids.index(end) + 1)
    assert set(labels[inside]) == {IGNORED}
    verdicts = {encoder.token_id(t) for t in REFLECTION_TOKENS}
    assert any(label in verdicts for label in labels)
    assert labels[-1] == encoder.tokenizer.eos_token_id
