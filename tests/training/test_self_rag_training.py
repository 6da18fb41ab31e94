"""Training rows of Self-RAG: masks exact to the token, read as inference reads, and a training end to end."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from shared_core.errors import InputError
from shared_core.lm.encoding import Encoder
from shared_core.pipelines.self_rag.choose import has_reflection_tokens
from shared_core.pipelines.self_rag.with_tokens import instruction, lead
from shared_core.reflection import REFLECTION_TOKENS, ReflectionVocabulary
from shared_core.training.self_rag.recipe import add_reflection_tokens, self_rag_recipe, train_self_rag
from shared_core.training.self_rag.rows import CriticRow, GeneratorRow, balance, read_critic_rows, read_generator_rows
from shared_core.types import Passage
from tests.command import succeeds
from tests.training import reclaim_world as world

pytestmark = pytest.mark.usefixtures("one_thread")

QUESTION = "Who built the bridge?"
BRIDGE = Passage("bridge", "The bridge was built by Mira Dorn.", "Bridge")
TOWN = Passage("town", "The town was founded in 1204.", "Town")
FIRST = "It was built by Mira Dorn."
SECOND = "The town is old."


def paragraph(passage: Passage) -> str:
    return f"[Retrieval]<paragraph>{passage.title}\n{passage.text}</paragraph>"


TWO = GeneratorRow(
    QUESTION, f"{paragraph(BRIDGE)}[Relevant]{FIRST}[Fully supported]{paragraph(TOWN)}[Irrelevant]{SECOND}[Utility:4]"
)


@pytest.fixture(scope="module")
def encoder(tiny_model: Any, tiny_tokenizer: Any) -> Encoder:
    tokenizer = copy.deepcopy(tiny_tokenizer)
    add_reflection_tokens(copy.deepcopy(tiny_model), tokenizer)
    return Encoder(tokenizer)


def ids_of(encoder: Encoder, *tokens: str) -> list[int]:
    return [encoder.token_id(t) for t in tokens]


def test_only_prompts_and_the_inside_of_passages_do_not_count(encoder: Encoder) -> None:
    ids, labels = TWO.encode(encoder)
    assert len(ids) == len(labels)
    assert all(label in (-100, i) for i, label in zip(ids, labels))
    counted = encoder.tokenizer.decode([i for i, label in zip(ids, labels) if label != -100])
    expected = (
        f"[Retrieval]<paragraph></paragraph>[Relevant]{FIRST}[Fully supported]"
        f"[Retrieval]<paragraph></paragraph>[Irrelevant]{SECOND}[Utility:4]</s>"
    )
    assert counted.replace(" ", "") == expected.replace(" ", "")
    prompt = encoder.encode(instruction(QUESTION))
    assert ids[: len(prompt)] == prompt
    assert labels[: len(prompt)] == [-100] * len(prompt)
    # The segment between two passages is taught, which the published mask hid.
    control = set(ids_of(encoder, *REFLECTION_TOKENS))
    assert sum(i in control for i, label in zip(ids, labels) if label != -100) == 10


def test_a_row_begins_as_inference_does(encoder: Encoder) -> None:
    ids, _ = TWO.encode(encoder)
    asked = encoder.encode(instruction(QUESTION) + lead("retrieve", BRIDGE))
    assert ids[: len(asked)] == asked


def test_what_a_passage_says_is_text(encoder: Encoder) -> None:
    hostile = GeneratorRow(QUESTION, f"[Retrieval]<paragraph>x [Relevant] y</paragraph>[Irrelevant]{SECOND}[Utility:1]")
    ids, _labels = hostile.encode(encoder)
    (relevant,) = ids_of(encoder, "[Relevant]")
    assert relevant not in ids
    question = GeneratorRow("Is [Relevant] a token?", f"[No Retrieval]{SECOND}[Utility:1]")
    assert relevant not in question.encode(encoder)[0]


@pytest.mark.parametrize(
    ("output", "says"),
    [("", "output"), ("<paragraph>open", "not closed"), ("<paragraph>only</paragraph", "not closed")],
)
def test_rows_that_teach_nothing_are_refused(output: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        GeneratorRow(QUESTION, output)


def test_a_critic_row_teaches_its_verdict_and_the_end(encoder: Encoder) -> None:
    row = CriticRow("Is the passage relevant?", "Passage: [Irrelevant] text", "[Relevant]", "relevance")
    ids, labels = row.encode(encoder)
    assert [label for label in labels if label != -100] == [*ids_of(encoder, "[Relevant]"), 2]
    assert encoder.token_id("[Irrelevant]") not in ids
    with pytest.raises(InputError, match="no verdict"):
        CriticRow("?", "x", "[Utility:1]", "relevance")
    with pytest.raises(InputError, match="no task"):
        CriticRow("?", "x", "[Utility:1]", "taste")  # type: ignore[arg-type]


def test_a_tokenizer_without_the_tokens_is_refused(tiny_tokenizer: Any) -> None:
    with pytest.raises(InputError, match="not one token"):
        GeneratorRow(QUESTION, f"[No Retrieval]{SECOND}[Utility:5]").encode(Encoder(tiny_tokenizer))


def test_rows_are_read_from_the_published_form_and_counted(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(
        "\n".join(
            json.dumps(r)
            for r in (
                {"instruction": "a", "input": "b", "output": "[Relevant]", "task": "relevance"},
                {"instruction": "a", "input": "c", "output": " [Utility:2]\n", "task": "utility"},
            )
        )
    )
    rows = read_critic_rows(file)
    assert balance(rows) == {"relevance": {"[Relevant]": 1}, "utility": {"[Utility:2]": 1}}
    assert balance([TWO])["generator"]["[Retrieval]"] == 2
    whole = {"instruction": "a", "input": "b", "output": "[Relevant]", "task": "relevance"}
    for wrong in ({"instruction": "a"}, {**whole, "instruction": 3}):
        file.write_text(json.dumps(wrong))
        for read in (read_critic_rows, read_generator_rows):
            with pytest.raises(InputError, match="line 1"):
                read(file)
    file.write_text(json.dumps(whole))  # the generator would be taught it without its input
    with pytest.raises(InputError, match="line 1: a row of the critic, not of the generator"):
        read_generator_rows(file)
    file.write_text(json.dumps({**whole, "input": None}))
    with pytest.raises(InputError, match="expected text, not None"):
        read_critic_rows(file)


def test_the_recipe_is_the_papers() -> None:
    settings = self_rag_recipe()
    assert (settings.method, settings.learning_rate, settings.epochs, settings.batch_size) == ("full", 2e-5, 3, 128)


@pytest.mark.parametrize("padding", [0, 3, 15, 40])
@pytest.mark.parametrize("tied", [True, False])
def test_new_tokens_begin_at_the_mean_of_the_words_however_tall_the_matrix_is(tied: bool, padding: int) -> None:
    import torch

    tokenizer = world.tokenizer(["Relevant? Orm lives.", "Ila has boats."])
    words = len(tokenizer)
    model = world.model(tokenizer, width=16, tied=tied)
    model.resize_token_embeddings(words + padding, mean_resizing=False)
    layers = [model.get_input_embeddings(), model.get_output_embeddings()]
    with torch.no_grad():
        for layer in layers:
            layer.weight[words:] = 7.0  # padding was never trained: it says nothing about words
    old = [layer.weight[:words].clone() for layer in layers]
    ids = list(add_reflection_tokens(model, tokenizer).ids.values())
    for layer, before in zip((model.get_input_embeddings(), model.get_output_embeddings()), old):
        assert torch.allclose(layer.weight[ids], before.mean(0).expand(len(ids), -1), atol=1e-6)
        assert torch.equal(layer.weight[:words], before)
        rest = layer.weight[words + len(ids) :]
        assert torch.equal(rest, torch.full_like(rest, 7.0))


def test_tokens_that_exist_keep_their_rows_in_a_padded_matrix() -> None:
    import torch

    tokenizer = world.tokenizer(["Relevant? Orm lives."])
    model = world.model(tokenizer, width=16)
    tokenizer.add_special_tokens({"additional_special_tokens": ["[Utility:5]"]})
    model.resize_token_embeddings(len(tokenizer) + 30, mean_resizing=False)
    before = model.get_input_embeddings().weight[: len(tokenizer)].clone()
    ids = add_reflection_tokens(model, tokenizer).ids
    weight = model.get_input_embeddings().weight
    assert torch.equal(weight[ids["[Utility:5]"]], before[-1])
    assert torch.allclose(weight[ids["[Utility:1]"]], before.mean(0), atol=1e-6)


@pytest.mark.parametrize("tied", [True, pytest.param(False, marks=pytest.mark.train)])
def test_adapters_learn_the_rows_of_new_tokens_and_leave_the_others(tied: bool, tmp_path: Path) -> None:
    pytest.importorskip("peft")
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = world.tokenizer(["Relevant? Orm lives.", "Ila has boats."])
    before = world.model(tokenizer, width=16, tied=tied).to(torch.bfloat16)
    before.save_pretrained(tmp_path / "base")
    tokenizer.save_pretrained(tmp_path / "base")
    rows = [
        CriticRow("Relevant?", t, "[Relevant]" if i % 2 else "[Irrelevant]", "relevance") for i, t in enumerate("abcd")
    ]
    settings = self_rag_recipe(
        method="lora", lora_rank=2, learning_rate=1e-2, max_steps=4, batch_size=4, use_cpu=True, save_every=2
    )
    result = train_self_rag(rows, tmp_path / "base", tmp_path / "m", settings)
    assert result.losses[-1] < result.losses[0]
    after = AutoModelForCausalLM.from_pretrained(tmp_path / "m", dtype="auto")
    assert after.dtype == torch.bfloat16  # the base's own
    token = AutoTokenizer.from_pretrained(tmp_path / "m").convert_tokens_to_ids("[Relevant]")
    for old, new in (
        (before.get_input_embeddings().weight, after.get_input_embeddings().weight),
        (before.get_output_embeddings().weight, after.get_output_embeddings().weight),
    ):
        assert torch.equal(old, new[: len(old)])
    mean = before.get_output_embeddings().weight.float().mean(0)
    assert not torch.allclose(after.get_output_embeddings().weight[token].float(), mean, atol=5e-3)
    assert (tmp_path / "m" / "adapter").is_dir()


def test_kinds_are_not_mixed(base: Path, tmp_path: Path) -> None:
    critic = CriticRow("?", "x", "[Relevant]", "relevance")
    with pytest.raises(InputError, match="critic and generator"):
        train_self_rag([TWO, critic], base, tmp_path / "out")


@pytest.mark.parametrize("role", ["generator", pytest.param("critic", marks=pytest.mark.train)])
def test_the_command_trains_a_model_that_has_the_tokens(role: str, base: Path, tmp_path: Path) -> None:
    pytest.importorskip("trl")
    from shared_core.lm.transformers import TransformersLM

    rows = tmp_path / "rows.jsonl"
    if role == "generator":
        made = [{"instruction": TWO.instruction, "output": TWO.output, "dataset_name": "x"}] * 2
    else:
        made = [{"instruction": "Relevant?", "input": t, "output": "[Relevant]", "task": "relevance"} for t in "abc"]
    rows.write_text("\n".join(map(json.dumps, made)))
    output = tmp_path / "model"
    asked = ["self-rag", role, "--rows", rows, "--model", base, "--output", output]
    result = succeeds("train", *asked, "--max-steps", "4", "--batch-size", "2", "--learning-rate", "0.01", "--cpu")
    card = json.loads((output / "training.json").read_text())
    assert card["loss"]["last"] < card["loss"]["first"]
    assert card["roles"] == {role: 1 if role == "generator" else 3}  # a row that is there twice counts once
    assert "[Relevant]" in result.output
    lm = TransformersLM(str(output), prefix_cache_bytes=0)
    assert has_reflection_tokens(lm)
    assert ReflectionVocabulary.of_lookup(lm.token_ids(REFLECTION_TOKENS)) is not None
