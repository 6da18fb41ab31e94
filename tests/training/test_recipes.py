"""The recipes on TRL: a few steps of each end to end, and a model that learns to quote."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shared_core import SelfReflectEngine, SelfReflectSettings
from shared_core.errors import InputError, ModelLoadError, SettingsError
from shared_core.lm import ScriptedLM
from shared_core.lm.base import Prompt
from shared_core.lm.encoding import Encoder
from shared_core.lm.transformers import TransformersLM
from shared_core.training.folder import CARD
from shared_core.training.recipes import encode_rows, recipe, train
from shared_core.training.reclaim.sources import SourceAnswer
from shared_core.training.rows import TrainingRow, write_rows
from shared_core.training.settings import TrainingSettings
from shared_core.types import Answer
from tests.command import selfreflect, succeeds
from tests.fakes import Critic
from tests.training import reclaim_world as world

pytest.importorskip("trl")
pytest.importorskip("peft")
torch = pytest.importorskip("torch")

pytestmark = pytest.mark.usefixtures("one_thread")
SMALL = {"batch_size": 4, "max_steps": 2, "use_cpu": True}


@pytest.fixture(scope="module")
def rows() -> list[TrainingRow]:
    return world.rows(world.sources(6), "reference", "claim", "unified")


@pytest.fixture(scope="module")
def checkpoint(tokenizer: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return world.checkpoint(tmp_path_factory.mktemp("base"), tokenizer)


def ask(models: dict[str, Any], given: list[SourceAnswer]) -> list[Answer]:
    """Each source's question through the pipeline, over its own passages."""

    class Shelf:
        def retrieve(self, query: str, k: int = 5) -> Any:
            return list(by_question[query].passages)

    made = SelfReflectSettings(pipeline="reclaim", compete=False, reclaim={"max_pairs": 2, "max_sentences": 1})
    answers: list[Answer] = []
    for source in given:  # questions repeat over different passages
        by_question = {source.question: source}
        engine = SelfReflectEngine(Shelf(), models["default"], made, models=models, judge=Critic(0.95))
        answers.append(engine.answer(source.question))
    return answers


def weights(model: Any) -> dict[str, Any]:
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


# --- quick


@pytest.mark.parametrize("method", ["full", pytest.param("lora", marks=pytest.mark.train)])
def test_a_recipe_runs_end_to_end_and_its_result_answers(
    method: str, rows: list[TrainingRow], checkpoint: Path, tmp_path: Path
) -> None:

    seen: list[tuple[int, int, float | None]] = []
    role = "reference" if method == "full" else "claim"
    settings = recipe(role, **SMALL, lora_rank=2)
    assert settings.method == method
    chosen = [r for r in rows if r.role == role]
    result = train(chosen, checkpoint, tmp_path / "m", settings, sources={"f": "x"}, progress=lambda *s: seen.append(s))
    assert result.steps == 2
    assert len(result.losses) == 2
    assert [s[:2] for s in seen if s[2] is not None] == [(1, 2), (2, 2)]
    card = json.loads((tmp_path / "m" / CARD).read_text("utf-8"))
    assert card["roles"] == {role: len(chosen)}
    assert card["sources"] == {"f": "x"}
    assert {"torch", "trl", "transformers"} <= set(card["versions"])
    assert (tmp_path / "m" / "adapter" / "adapter_config.json").exists() == (method == "lora")

    lm = TransformersLM(str(tmp_path / "m"))
    (answer,) = ask({"default": lm}, world.sources(1, seed=9))
    assert all(c.citations[0].match == "verbatim" for c in answer.claims)
    before = weights(TransformersLM(str(checkpoint)).model)
    after = weights(lm.model)
    assert before.keys() == after.keys()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    attention = {name for name in before if "q_proj" in name}
    assert attention <= changed
    assert ("model.embed_tokens.weight" in changed) == (method == "full")


@pytest.mark.train
def test_only_completions_count_in_the_loss(rows: list[TrainingRow], tokenizer: Any, tmp_path: Path) -> None:
    row = rows[0]
    model = world.model(tokenizer, width=16)
    ids, labels = row.encode(Encoder(tokenizer))
    start = labels.index(next(i for i in labels if i >= 0))
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0]
    expected = torch.nn.functional.cross_entropy(logits[start - 1 : -1], torch.tensor(ids[start:]))
    settings = TrainingSettings(batch_size=1, max_steps=1, use_cpu=True)
    result = train([row], model, tmp_path / "m", settings, tokenizer=tokenizer)
    assert result.losses[0] == pytest.approx(float(expected), rel=1e-3)


def test_rows_that_are_too_long_are_left_out_and_counted_never_cut(rows: list[TrainingRow], tokenizer: Any) -> None:
    encoder = Encoder(tokenizer)
    lengths = sorted(len(r.encode(encoder)[0]) for r in rows)
    limit = sorted(set(lengths))[-2]
    kept, dropped = encode_rows(rows, encoder, limit)
    assert len(kept) + dropped == len(rows)
    assert dropped == sum(n > limit for n in lengths)
    assert max(len(k["input_ids"]) for k in kept) == limit
    with pytest.raises(InputError, match="tokens, more than"):
        encode_rows(rows, encoder, limit, "raise")
    with pytest.raises(InputError, match="All"):
        encode_rows(rows, encoder, 5)
    with pytest.raises(InputError, match="no rows"):
        encode_rows([], encoder, 5)


@pytest.mark.train
def test_rows_to_evaluate_on_that_are_too_long_are_counted_and_named(
    rows: list[TrainingRow], checkpoint: Path, tmp_path: Path
) -> None:
    long = TrainingRow("reference", Prompt.trusted("a " * 2000), "b", ends=True, source="long")
    options = TrainingSettings(use_cpu=True, batch_size=2, max_steps=1, save_every=1)
    done = train(rows[:4], checkpoint, tmp_path / "m", options, evaluate_on=[*rows[4:6], long])
    assert done.card["rows"] == {"given": 4, "trained_on": 4, "too_long": 1, "evaluated_on": 2}
    with pytest.raises(InputError, match="All 1 evaluation rows are longer"):
        train(rows[:4], checkpoint, tmp_path / "n", options, evaluate_on=[long])


def test_what_cannot_be_trained_is_refused_before_anything_is_written(
    rows: list[TrainingRow], checkpoint: Path, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="no recipe"):
        recipe("critic")
    with pytest.raises(SettingsError):
        recipe("claim", learning_rate=-1)
    with pytest.raises(InputError, match="divide"):
        train(rows, checkpoint, tmp_path / "m", TrainingSettings(batch_size=4, micro_batch_size=3))
    with pytest.raises(ModelLoadError):
        train(rows, tmp_path / "nothing", tmp_path / "m", TrainingSettings(use_cpu=True))
    assert not (tmp_path / "m").exists()
    with pytest.raises(InputError, match="in use"):
        train(rows, checkpoint, checkpoint)


def test_the_command_trains_the_rows_of_its_role(rows: list[TrainingRow], checkpoint: Path, tmp_path: Path) -> None:
    write_rows([r for r in rows if r.role != "unified"], tmp_path / "rows.jsonl")
    command = ["train", "reclaim", "--rows", tmp_path / "rows.jsonl", "--model", checkpoint, "--cpu"]
    options = ["--max-steps", "1", "--batch-size", "2"]
    succeeds(*command, "--output", tmp_path / "m", "--role", "claim", "--full", *options)
    card = json.loads((tmp_path / "m" / CARD).read_text("utf-8"))
    assert card["settings"]["method"] == "full"
    assert card["settings"]["learning_rate"] == 5e-5
    assert list(card["roles"]) == ["claim"]
    assert list(card["sources"]) == [str(tmp_path / "rows.jsonl")]
    missing = selfreflect(*command, "--output", tmp_path / "n", "--role", "unified")
    assert missing.exit_code == 2


# --- a model that learns to quote: `make test-slow`


@pytest.mark.slow
def test_a_small_model_learns_to_quote_the_right_sentence(tmp_path: Path) -> None:

    torch.set_num_threads(2)
    given = world.sources(3000)
    taught, held_out = given[:-60], given[-60:]
    rows = world.rows(taught, "reference")
    tokenizer = world.tokenizer(["".join(r.render().values()) for r in rows[:600]])
    settings = TrainingSettings(
        learning_rate=4e-3, batch_size=16, max_steps=300, warmup=0.1, schedule="cosine", use_cpu=True
    )
    model = world.model(tokenizer)
    result = train(rows, model, tmp_path / "m", settings, tokenizer=tokenizer, progress=lambda *state: None)
    first, last = sum(result.losses[:10]) / 10, sum(result.losses[-10:]) / 10
    assert last < first / 5

    claims = ScriptedLM(lambda request: " It says so. </claim>")
    answers = ask({"default": TransformersLM(str(tmp_path / "m")), "claim": claims}, held_out)
    right = [a.claims[0].citations[0].quote == s.segments[0].text for a, s in zip(answers, held_out)]
    share = sum(right) / len(right)
    print(f"loss {first:.2f} → {last:.3f}, right sentence {share:.2f}, {result.seconds:.0f} s")
    assert share > 0.6  # chance is 1 in 4
    assert sum(len(a.claims) == 1 for a in answers) / len(answers) > 0.8  # it has learnt where to end


@pytest.mark.train
def test_research_trains_on_the_best_answers(checkpoint: Path, rows: list[TrainingRow], tmp_path: Path) -> None:
    best = [replace(r, role="research", ends=True) for r in rows[:6]]
    write_rows(best, tmp_path / "sft.jsonl")
    command = ["train", "research", "-m", checkpoint, "-o", tmp_path / "m", "-r"]
    succeeds(*command, tmp_path / "sft.jsonl", "--max-steps", "2", "--batch-size", "4", "--cpu")
    card = json.loads((tmp_path / "m" / CARD).read_text())
    assert card["settings"]["learning_rate"] == 5e-6
    assert card["steps"] == 2
    write_rows(rows[:2], tmp_path / "other.jsonl")
    refused = selfreflect(*command, tmp_path / "other.jsonl")
    assert (refused.exit_code, "no rows for the research model" in refused.output) == (2, True)
    assert recipe("research").max_steps == 2000
