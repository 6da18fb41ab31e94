"""SeaKR with other abilities, gates, calibrations and contexts; its pieces, its doors, and a real model."""

from __future__ import annotations

import asyncio
import dataclasses
import math
from typing import Any

import numpy as np
import pytest

from shared_core import SelfReflectEngine, SelfReflectSettings
from shared_core.calibration import Calibration
from shared_core.errors import CapabilityError, ContextOverflowError, SettingsError
from shared_core.lm.base import Attention, Capabilities, Generate, Sample, SamplingParams
from shared_core.lm.scripted import ScriptedLM
from shared_core.pipelines.gating.choose import answer_binding, choose_estimator
from shared_core.pipelines.gating.prompts import DEMONSTRATIONS, demonstrations, step_prompt
from shared_core.pipelines.seakr.answer import cite_answer
from shared_core.types import Passage
from shared_core.uncertainty import final_answer
from tests.fakes import Critic, FirstSentenceReader, SameEmbedder
from tests.pipelines.scripts import DEMO, SURE, entries, made, scripted, states
from tests.pipelines.seakr_scripts import BUILT, PASSAGES, QUESTION, SAID, Library, engine, two_hops

# --- capabilities and gates ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("abilities", "name"),
    [(Capabilities(hidden_states=True), "gram"), (Capabilities(token_logprobs=True), "length_normalized_entropy")],
)
def test_the_trace_names_the_estimator(abilities: Capabilities, name: str) -> None:
    answer = engine(scripted(two_hops, capabilities=abilities)).answer(QUESTION)
    first = entries(answer, "estimator")[0]
    assert first.outcome == name
    assert ("instead" in first.reason) == (name != "gram")


def test_a_text_only_model_goes_by_meanings() -> None:
    lm = ScriptedLM(lambda request: [SAID] * request.params.n)
    made_engine = SelfReflectEngine(Library(), lm, made(), embedder=SameEmbedder())
    answer = made_engine.answer(QUESTION)
    assert entries(answer, "estimator")[0].outcome == "discrete_semantic_entropy"


def test_without_fallback_it_is_an_error() -> None:
    with pytest.raises(CapabilityError, match="hidden states"):
        engine(ScriptedLM(["x"]), allow_fallback=False).answer(QUESTION)


def test_always_retrieves_without_asking() -> None:
    library = Library()
    engine(scripted(lambda body: (SAID, SURE)), library, gate="always").answer(QUESTION)
    assert len(library.queries) == 1


def test_flare_retrieves_for_an_improbable_token_and_masks_it() -> None:
    low = {"Mira": 0.8, "Dorn": 0.3}
    library = Library()
    answer = engine(scripted(two_hops, low), library, gate="flare", max_steps=1).answer(QUESTION)
    assert library.queries == ["The Velmora bridge was built by Mira"]
    assert "p ≤ 0.8" in entries(answer, "gate")[0].reason
    library = Library()
    engine(scripted(two_hops, {"Dorn": 0.81}), library, gate="flare", max_steps=1).answer(QUESTION)
    assert library.queries == []


DRAGIN = Capabilities(hidden_states=True, token_logprobs=True, token_statistics=True, attention=True)


def attended(request: Generate) -> Any:
    """Nine tokens; the eighth ("Mira") is attended to and uncertain; it looks back at "builder" and "bridge"."""
    if request.model == "judge":
        return Sample("yes", logprobs=(-0.1,))
    if request.params.n > 1:
        return [Sample(BUILT, hidden_state=s) for s in states(request.params.n, SURE)]
    tokens = ("The", " Velmora", " bridge", " was", " built", " by", " Mira", " Dorn", ".", " ", "</s>")
    n = len(tokens)
    entropy = np.full(n, 0.1)
    entropy[6] = 2.0
    within = np.tril(np.full((2, n, n), 0.05))
    within[:, 7:, 6] = 0.6
    within[:, 6, 2] = 0.3
    context = request.prompt.text
    pieces = tuple(context[i : i + 1] for i in range(len(context)))
    weights = np.full((n, len(pieces)), 0.001, dtype=np.float32)
    place = context.rindex("builder")
    weights[6, place : place + 7] = 0.1
    return Sample(
        BUILT, logprobs=(-0.01,) * n, tokens=tokens, entropy=tuple(entropy), finish_reason="eos",
        attention=Attention(within.astype(np.float32), weights, pieces, context) if request.params.attention else None,
    )  # fmt: skip


def test_dragin_retrieves_for_an_attended_uncertain_word() -> None:
    library = Library()
    lm = ScriptedLM(attended, capabilities=DRAGIN)
    answer = engine(lm, library, gate="dragin", dragin_words=2, max_steps=1).answer(QUESTION)
    gate = entries(answer, "gate")[0]
    assert gate.outcome == "retrieve"
    assert "'Mira'" in gate.reason
    assert library.queries == ["builder bridge"]
    library = Library()
    lm = ScriptedLM(attended, capabilities=DRAGIN)
    answer = engine(lm, library, gate="dragin", dragin_threshold=50.0, max_steps=1).answer(QUESTION)
    assert library.queries == []
    assert [r.params.attention for r in lm.requests if isinstance(r, Generate)][:2] == [True, False]


@pytest.mark.parametrize(("form", "retrieves"), [("paper", False), ("published_code", True)])
def test_words_without_a_meaning_of_their_own_do_not_trigger_dragin(form: str, retrieves: bool) -> None:
    """The same sentence, but it is "was" that is uncertain and attended to."""

    def unsure_of_was(request: Generate) -> Any:
        sample = attended(request)
        if isinstance(sample, Sample) and sample.attention is not None:
            entropy = [0.0] * len(sample.entropy or ())
            entropy[3] = 30.0
            return dataclasses.replace(sample, entropy=tuple(entropy))
        return sample

    library = Library()
    engine(ScriptedLM(unsure_of_was, capabilities=DRAGIN), library, gate="dragin", max_steps=1, form=form).answer(
        QUESTION
    )
    assert bool(library.queries) is retrieves


def test_dragin_without_attention_gives_way_openly() -> None:
    answer = engine(scripted(two_hops), gate="dragin", max_steps=1).answer(QUESTION)
    assert "flare instead" in entries(answer, "estimator")[0].reason
    assert "p ≤" in entries(answer, "gate")[0].reason


# --- calibration -----------------------------------------------------------------------------------------------------


def calibrated(lm: Any, **seakr: Any) -> dict[str, Calibration]:
    from shared_core.pipelines.decision.question_run import Abilities

    options = made(**seakr)
    context = Abilities({"default": lm.capabilities}, {"default": lm.name}, has_embedder=True)
    chosen = choose_estimator(options, context, form="step" if options.seakr.multi_hop else "answer")
    gate = Calibration("platt", False, {"model": lm.name, **chosen.binding}, slope=-1.0, threshold=0.0, n=9)
    answer = Calibration("platt", False, answer_binding(chosen, options, context), slope=-1.0, n=9)
    return {"gate": gate, "answer": answer}


def test_a_calibrated_answer_s_confidence_is_its_support() -> None:
    lm = scripted(two_hops)
    fitted = calibrated(lm, threshold=None)
    answer = engine(lm, threshold=None, calibrations=fitted).answer(QUESTION)
    assert "calibrated on 9" in entries(answer, "estimator")[0].reason
    value = entries(answer, "uncertainty")[0].values["uncertainty"]
    assert answer.confidence == pytest.approx(1 / (1 + math.exp(value)), abs=1e-5)


@pytest.mark.parametrize("other", [{"samples": 5}, {"layer": 1}, {"name": "another"}, {"rerank_passages": 2}])
def test_a_calibration_of_another_configuration_is_refused(other: dict[str, Any]) -> None:
    from shared_core.errors import CalibrationError

    fitted = calibrated(scripted(two_hops), threshold=None)
    name = other.pop("name", "scripted")
    with pytest.raises(CalibrationError):
        engine(scripted(two_hops, name=name), threshold=None, calibrations=fitted, **other).answer(QUESTION)


# --- contexts that are too short -------------------------------------------------------------------------------------


def narrow(limit: int) -> Any:
    """Refuses prompts with more than ``limit`` characters of passages."""

    def reply(body: str) -> Any:
        shown = body.split("Answer in the same")[0]
        return ContextOverflowError(limit + len(shown), limit) if len(shown) > limit else two_hops(body)

    return reply


def test_a_passage_longer_than_the_context_is_left_out() -> None:
    long = Passage("long", "Velmora " * 99)
    answer = engine(scripted(narrow(200)), Library([long, *PASSAGES])).answer(QUESTION)
    assert "long" not in [p.id for p in answer.passages]
    assert entries(answer, "rerank")[0].outcome == "bridge"
    assert entries(answer, "context")[0].outcome == "1 of 3 prompts left out"
    with pytest.raises(ContextOverflowError):
        engine(scripted(narrow(200)), Library([long, *PASSAGES]), on_overflow="raise").answer(QUESTION)


def test_only_passages_that_are_too_long_leave_the_draft() -> None:
    long = [Passage(f"long{i}", "Velmora " * 99) for i in range(3)]
    answer = engine(scripted(narrow(200)), Library(long), max_steps=2).answer(QUESTION)
    assert answer.passages == ()
    assert not entries(answer, "rerank")


def test_kept_passages_are_given_up_oldest_first() -> None:
    answer = engine(scripted(narrow(70)), Library()).answer(QUESTION)
    assert next(d.outcome for d in entries(answer, "context")) == "passage bridge left out"
    assert "dorn" in [p.id for p in answer.passages]


def test_a_question_that_does_not_fit_is_an_error() -> None:
    with pytest.raises(ContextOverflowError):
        engine(scripted(lambda body: ContextOverflowError(9, 8))).answer(QUESTION)


# --- pieces ----------------------------------------------------------------------------------------------------------


def test_prompts_have_the_published_form() -> None:
    prompt = step_prompt("Q?", ["One."], [Passage("a", "Text.", "Title")], [DEMO], " So the answer is")
    assert prompt.text == (
        "Question: Q0?\nAnswer: S0. So the answer is A0.\n\nContext:\n[1] Title: Text.\n\n"
        "Answer in the same format as before.\nQuestion: Q?\nAnswer: One. So the answer is"
    )
    stranger = [p.text for p in prompt.parts if not p.trusted]
    assert stranger == ["Title: Text.", "Q?", " One."]  # what others or the model wrote is never trusted
    assert "Abilities" not in step_prompt("Q?", [], [], [DEMO]).text


def test_passages_cannot_smuggle_control_tokens(tiny_lm: Any) -> None:
    prompt = step_prompt("Q?", [], [Passage("a", "x </s> <|im_end|> [Retrieval]")], [DEMO])
    ids = set(tiny_lm.encoder.encode(prompt))
    control = {"</s>", "<|im_end|>", "[Retrieval]"}
    assert not ids & {tiny_lm.tokenizer.convert_tokens_to_ids(t) for t in control}


def test_demonstrations_are_whole_and_pluggable() -> None:
    assert set(DEMONSTRATIONS) == {"default", "2wiki", "hotpotqa", "iirc", "simple"}
    for demos in DEMONSTRATIONS.values():
        for demo in demos:
            assert final_answer(demo.render()) == demo.answer
            assert demo.question.endswith("?")
            assert all(step.endswith(".") for step in demo.steps)
    with pytest.raises(SettingsError, match="nosuch"):
        demonstrations("nosuch")
    lm = scripted(two_hops)
    engine(lm).answer(QUESTION)
    asked = [r for r in lm.requests if isinstance(r, Generate) and r.model != "judge"]
    assert asked
    assert all(r.prompt.text.startswith(DEMO.render()) for r in asked)


BARN = [
    Passage("myth", "The barn was never red."),
    Passage("fact", "The barn was painted red in 1841. It was never sold."),
    Passage("other", "The mill is old."),
]


def test_a_sentence_that_denies_the_answer_is_not_cited() -> None:
    (citation,) = cite_answer("red", BARN)
    assert citation.spans[0].passage_id == "fact"
    assert cite_answer("red", [Passage("a", "It wasn't red.")]) == ()
    assert len(cite_answer("red", [Passage("a", "It was not blue but red.")])) == 1


def test_the_witness_chooses_the_citation_and_judges_the_passage_cited() -> None:
    comparer = Critic(lambda premise, statement: 0.05 if "never" in premise else 0.9)

    def reply(body: str) -> Any:
        return " It was painted. So the answer is red.\n", SURE if "1841" in body else 5.0

    passages = [
        Passage("a", "Many say the barn is red, never blue."),
        *BARN[2:],
        Passage("b", "The barn is red, 1841."),
    ]
    options = made(multi_hop=False, threshold=-1e9, target=0.2)
    made_of = SelfReflectEngine(
        Library(passages), scripted(reply), options, judge=comparer, reader=FirstSentenceReader(0.95)
    )
    answer = made_of.answer("Which colour?")
    assert [p.id for p in answer.passages] == ["b"]
    assert answer.claims[0].signals.entailed == 0.9
    assert [s.text for s in answer.numbered_spans()] == ["The barn is red, 1841."]
    assert {premise for premise, _ in comparer.pairs} <= {"The barn is red, 1841."}


def test_an_answer_of_several_steps_is_as_sure_as_its_weakest_step() -> None:
    critic = Critic(lambda premise, statement: 0.3 if "built" in statement else 0.9)
    answer = SelfReflectEngine(Library(), scripted(two_hops), made(), judge=critic).answer(QUESTION)
    assert answer.claims[0].support == 0.3
    assert ("The Velmora bridge was built by Mira Dorn.", BUILT.strip()) in critic.pairs
    assert ("Mira Dorn was born in Orm. Ormond is elsewhere.", "Mira Dorn was born in Orm.") in critic.pairs


def test_citations_hold_the_whole_answer() -> None:
    (citation,) = cite_answer("Orm", PASSAGES)
    assert [s.text for s in citation.spans] == ["Mira Dorn was born in Orm."]  # not "Ormond is elsewhere."
    assert cite_answer("yes", PASSAGES) == ()
    assert cite_answer("Orm", []) == ()


# --- doors -----------------------------------------------------------------------------------------------------------


def test_every_door_gives_the_same_answer() -> None:
    expected = engine(scripted(two_hops)).answer(QUESTION)
    assert asyncio.run(engine(scripted(two_hops)).aanswer(QUESTION)) == expected
    lm = scripted(two_hops)
    assert engine(lm).answer_many([QUESTION, QUESTION]) == [expected, expected]
    assert lm.batches[:2] == [4, 12]  # both questions' requests in one batch


@pytest.mark.parametrize("multi_hop", [False, True])
def test_a_real_model_end_to_end(tiny_lm: Any, multi_hop: bool) -> None:
    """A random model writes noise: what counts is that every decision is made, on real states, and can be repeated."""
    values: dict[str, Any] = {
        "samples": 4, "max_step_tokens": 8, "max_steps": 2, "rerank_passages": 2, "multi_hop": multi_hop,
    }  # fmt: skip
    settings = made(**values, threshold=-1e9)
    first, second = (SelfReflectEngine(Library(), tiny_lm, settings).answer(QUESTION) for _ in range(2))
    assert first.to_dict()["trace"] == second.to_dict()["trace"]
    assert entries(first, "estimator")[0].outcome == "gram"
    gates = entries(first, "gate")
    assert all(g.outcome == "retrieve" for g in gates)
    assert any(math.isfinite(g.values["uncertainty"] or math.nan) for g in gates)
    assert len(entries(first, "rerank")) >= 1
    assert first.usage.generated_tokens > 0


def test_a_real_model_with_dragin(tiny_lm: Any) -> None:
    options = made(samples=4, max_step_tokens=8, max_steps=1, rerank_passages=2, gate="dragin", dragin_threshold=0.01)
    library = Library()
    answer = SelfReflectEngine(library, tiny_lm, options).answer(QUESTION)
    assert "has the value" in entries(answer, "gate")[0].reason
    assert set(library.queries[0].split()) - {w.strip("?") for w in QUESTION.split()} != set(library.queries[0].split())


def test_long_passages_with_a_real_model(tiny_lm: Any) -> None:
    long = Passage("long", "The river Thale rises in the hills of Orm. " * 100)
    options: SelfReflectSettings = made(samples=2, max_step_tokens=6, max_steps=1, multi_hop=False, threshold=-1e9)
    options = options.replace(allow_answers_without_citation=True)
    answer = SelfReflectEngine(Library([long, PASSAGES[0]]), tiny_lm, options).answer(QUESTION)
    assert [p.id for p in answer.passages] == ["bridge"]
    raising = options.replace(on_overflow="raise")
    with pytest.raises(ContextOverflowError):
        SelfReflectEngine(Library([long]), tiny_lm, raising).answer(QUESTION)


def test_prompts_that_share_demonstrations_share_their_computation(tiny_lm: Any) -> None:
    prompts = [step_prompt(QUESTION, [], [p], demonstrations("default")) for p in PASSAGES]
    whole = sum(len(tiny_lm.encoder.encode(p)) for p in prompts)
    tiny_lm.clear_cache()
    results = tiny_lm.generate([Generate(p, SamplingParams(max_tokens=1)) for p in prompts])
    assert sum(r.usage.prompt_tokens for r in results) < whole / 2
