"""Measuring uncertainty: one batch, every estimator from one pass, unknown never confident."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from shared_core.errors import CapabilityError, ContextOverflowError, GenerationError, InputError, SettingsError
from shared_core.lm.base import Capabilities, Generate, Prompt, Sample, Score
from shared_core.lm.scripted import ScriptedLM
from shared_core.pipelines.decision.question_run import Abilities
from shared_core.pipelines.gating.choose import choose_estimator, choose_gate
from shared_core.pipelines.gating.measure import Measurement, measure
from shared_core.pipelines.gating.prompts import STEP_STOPS
from shared_core.runtime import flow as flows
from shared_core.runtime.flow import Resources
from shared_core.settings import SeakrSettings, SelfReflectSettings
from shared_core.uncertainty import ESTIMATORS, gram_uncertainty
from tests.fakes import Critic, LetterEmbedder
from tests.pipelines.scripts import SURE, UNSURE, WHITE, samples, states, written

LOW, HIGH = np.ones(8, dtype=np.float32), np.arange(8, dtype=np.float32)
PROMPTS = [Prompt.trusted("one"), Prompt.trusted("two"), Prompt.trusted("three")]


def context(lm: Any, judge: bool = False, embedder: bool = True, calibrations: Any = None) -> Abilities:
    return Abilities(
        {"default": lm.capabilities}, {"default": lm.name}, calibrations or {}, "nli" if judge else None, embedder
    )


def settings(**seakr: Any) -> SelfReflectSettings:
    return SelfReflectSettings(seakr=SeakrSettings(**SeakrSettings.upgrade({"samples": 4, **seakr})))


def run(lm: Any, prompts: Sequence[Prompt] = PROMPTS, also: Sequence[str] = (), **more: Any) -> list[Measurement]:
    judge = more.pop("judge", None)
    options = more.pop("options", settings())
    chosen = choose_estimator(options, context(lm, judge=judge is not None), also=also)
    resources = Resources(models={"default": lm}, embedder=LetterEmbedder(), judge=judge)
    return flows.run(measure(prompts, chosen, **more), resources)


def answering(request: Generate) -> Any:
    level = {"one": SURE, "two": 1.0, "three": UNSURE}[request.prompt.text]
    return written("a b c") if request.params.n == 1 else samples("a b", request.params.n, level)


def test_greedy_texts_and_samples_of_all_prompts_are_one_batch() -> None:
    lm = ScriptedLM(answering, capabilities=WHITE)
    found = run(lm)
    assert lm.batches == [6]
    assert [r.params.n for r in lm.requests if isinstance(r, Generate)] == [1, 1, 1, 4, 4, 4]
    assert [m.uncertainty for m in found] == [gram_uncertainty(states(4, s)) for s in (SURE, 1.0, UNSURE)]
    assert found[0].uncertainty < found[1].uncertainty < found[2].uncertainty
    assert [m.text for m in found] == ["a b c"] * 3


def test_sampling_is_as_the_settings_say() -> None:
    lm = ScriptedLM(answering, capabilities=WHITE)
    run(
        lm, stop=(". ", "\n"), options=settings(layer=1, hidden="residual", position="last", temperature=0.7, top_p=0.5)
    )
    greedy, sampled = (r.params for r in (lm.requests[0], lm.requests[3]) if isinstance(r, Generate))
    assert (greedy.temperature, greedy.n, greedy.capture, greedy.logprobs) == (0.0, 1, None, True)
    assert (sampled.temperature, sampled.top_p, sampled.top_k, sampled.max_tokens) == (0.7, 0.5, 50, 100)
    assert (sampled.capture.layer, sampled.capture.kind, sampled.capture.position) == (1, "residual", "last")
    assert greedy.stop == sampled.stop == (". ", "\n")
    assert greedy.include_stop


def test_the_paper_s_sampling_is_the_default() -> None:
    options, paper = SeakrSettings(), SeakrSettings().published
    assert (options.samples, paper.temperature, paper.top_k_sampling, paper.top_p) == (20, 1.0, 50, 0.9)
    assert (paper.alpha, paper.hidden, paper.position, options.max_step_tokens) == (1e-3, "mlp", "eos", 100)
    assert paper.layer is None  # the middle one


def test_alpha_of_the_settings_counts() -> None:
    lm = ScriptedLM(answering, capabilities=WHITE)
    (found,) = run(lm, PROMPTS[:1], options=settings(alpha=0.5))
    assert found.uncertainty == gram_uncertainty(states(4, SURE), alpha=0.5)


def without(number: float) -> np.ndarray:
    """States of which one holds no number."""
    rows = states(4, SURE)
    rows[2, 1] = number
    return rows


ALIKE = np.array([[1.0, -1.0, 0.0, 0.0]] * 4, dtype=np.float32) / math.sqrt(2)


@pytest.mark.parametrize(("texts", "rows", "expected"), [
    ("aaaa", ALIKE, pytest.approx((3 * math.log(1e-3) + math.log(4 + 1e-3)) / 4)),  # as sure as it gets
    ("aaaa", without(math.nan), math.inf), ("aaaa", without(math.inf), math.inf),
    ("--aa", states(4, 1.0), gram_uncertainty(states(4, 1.0))),  # empty samples stay among the k
    ("---a", states(4, 1.0), math.inf),  # but most of them are empty
], ids=["alike", "nan", "inf", "some empty", "most empty"])  # fmt: skip
def test_uncertainty_of_samples_with_these_states(texts: str, rows: np.ndarray, expected: Any) -> None:
    drawn = [Sample(t.strip("-"), hidden_state=state) for t, state in zip(texts, rows)]
    lm = ScriptedLM(lambda r: written("a") if r.params.n == 1 else drawn, capabilities=WHITE)
    (found,) = run(lm, PROMPTS[:1])
    assert found.uncertainty == expected
    assert (found.known is None) == (expected == math.inf)
    assert found.empty == texts.count("-")


@pytest.mark.parametrize(("greedy", "drawn"), [("", ["a"] * 4), (" \n", ["a"] * 4), ("a", [""] * 4), ("a", ["\n"] * 4)])
def test_nothing_written_is_unknown_and_not_certain(greedy: str, drawn: list[str]) -> None:
    def reply(request: Generate) -> Any:
        rows = zip(drawn, states(4, SURE))
        return greedy if request.params.n == 1 else [Sample(t, hidden_state=s, logprobs=()) for t, s in rows]

    (found,) = run(ScriptedLM(reply, capabilities=WHITE), PROMPTS[:1], also=["length_normalized_entropy"])
    assert found.uncertainty == math.inf
    assert found.others == {"length_normalized_entropy": math.inf}


def test_samples_cut_at_an_initial_are_written_on_in_one_batch() -> None:
    """Each goes on by itself: equal beginnings are not made to agree by an equal seed."""

    def reply(request: Generate) -> Any:
        prompt, k = request.prompt.text, request.params.n
        if prompt.endswith("John F."):
            return Sample(f" Kennedy{request.params.seed} won. ", stop=". ", finish_reason="stop", hidden_state=HIGH)
        cut = Sample(" It was John F. ", stop=". ", finish_reason="stop", token_ids=(1,) * 5, hidden_state=LOW)
        whole = Sample(" It was Bob. ", stop=". ", finish_reason="stop", token_ids=(1,) * 4, hidden_state=LOW)
        return whole if k == 1 else [cut, cut, whole, cut]

    lm = ScriptedLM(reply, capabilities=WHITE)
    (found,) = run(lm, PROMPTS[:1], stop=STEP_STOPS)
    assert lm.batches == [2, 3]
    texts = [s.text for s in found.samples]
    assert texts[2] == " It was Bob. "
    assert len({texts[0], texts[1], texts[3]}) == 3
    assert all(t.startswith(" It was John F. Kennedy") for t in (texts[0], texts[1], texts[3]))
    assert [s.hidden_state is HIGH for s in found.samples] == [True, True, False, True]  # behind the last word


def test_a_step_with_an_initial_keeps_the_probabilities_of_all_its_words() -> None:
    def reply(request: Generate) -> Any:
        first = not request.prompt.text.endswith("F.")
        text, tokens = (" John F. ", (" John", " F", ".", " Ken")) if first else (" Kennedy. ", (" Kennedy", ". "))
        p = tuple(-0.1 * (i + 1) for i in range(len(tokens)))
        return Sample(text, stop=". ", finish_reason="stop", tokens=tokens, token_ids=tuple(range(len(p))), logprobs=p)

    lm = ScriptedLM(reply, capabilities=Capabilities(token_logprobs=True))
    (found,) = run(lm, PROMPTS[:1], stop=STEP_STOPS, options=settings(estimator="perplexity"))
    assert found.text == "John F. Kennedy."
    assert found.greedy.tokens == (" John", " F", ".", " Kennedy", ". ")  # not the word that is written anew
    assert found.greedy.logprobs == pytest.approx((-0.1, -0.2, -0.3, -0.1, -0.2))


def test_one_sample_is_refused() -> None:
    with pytest.raises(SettingsError, match="samples"):
        SeakrSettings(samples=1)


# --- every estimator, from what each needs ---------------------------------------------------------------------------

EVERYTHING = Capabilities(
    hidden_states=True, token_logprobs=True, score=True, token_statistics=True, verdict_logprobs=True
)


@pytest.mark.parametrize("name", sorted(set(ESTIMATORS) - {"dragin", "rauq", "ccp"}))  # see test_alternatives.py
@pytest.mark.parametrize("judged", [False, True])
def test_every_estimator_can_be_measured(name: str, judged: bool) -> None:
    def reply(request: Generate) -> Any:
        if "Confidence:" in request.prompt.text:
            return "80"
        if "Sufficient:" in request.prompt.text:
            return "Yes."
        if request.params.n == 1:
            first = written("a b")
            return Sample(
                first.text, logprobs=first.logprobs, tokens=first.tokens, entropy=(0.5, 0.1), logsumexp=(3.0, 2.0)
            )
        texts = ["a", "b", "a b", "c"]
        return [Sample(t, hidden_state=s, logprobs=(-0.5,)) for t, s in zip(texts, states(4, 1.0))]

    lm = ScriptedLM(reply, capabilities=EVERYTHING, score=lambda r: [(-0.1,), (-2.0,)])
    judge = Critic(lambda a, b: float(a.split()[-1] == b.split()[-1])) if judged else None
    (found,) = run(lm, PROMPTS[:1], options=settings(estimator=name), judge=judge, question="Q?")
    assert math.isfinite(found.uncertainty)


def test_several_estimators_share_one_sampling_pass() -> None:
    lm = ScriptedLM(
        lambda r: "70" if "Confidence" in r.prompt.text else "no" if "Sufficient" in r.prompt.text else answering(r),
        capabilities=WHITE,
    )
    names = ["eigenscore", "perplexity", "length_normalized_entropy", "lexical_similarity", "verbalised", "sufficiency"]
    (found,) = run(lm, PROMPTS[:1], also=[*names, "energy"])
    assert set(found.others) == set(names)  # energy needs what the model does not give
    assert lm.batches[0] == 2
    assert found.others["verbalised"] == pytest.approx(0.3)
    assert found.others["sufficiency"] == 1.0


@pytest.mark.parametrize("verdicts", [False, True])
def test_p_true_by_score_or_by_verdicts(verdicts: bool) -> None:
    def reply(request: Generate) -> Sample:
        if "It is" in request.prompt.text:
            assert request.params.verdicts == (" True", " False")
            return Sample(" True", verdict_logprobs=np.log([[0.6, 0.2]]))
        return written("a")

    def score(request: Score) -> list[tuple[float]]:
        assert [c.text for c in request.continuations] == [" True", " False"]
        return [(math.log(0.6),), (math.log(0.2),)]

    abilities = Capabilities(verdict_logprobs=True) if verdicts else Capabilities(score=True)
    lm = ScriptedLM(reply, capabilities=abilities, score=None if verdicts else score)
    (found,) = run(lm, PROMPTS[:1], options=settings(estimator="p_true"))
    assert found.uncertainty == pytest.approx(0.25)


def test_a_further_prompt_that_fails_is_unknown() -> None:
    lm = ScriptedLM(lambda r: GenerationError("no") if "Confidence" in r.prompt.text else "a")
    (found,) = run(lm, PROMPTS[:1], options=settings(estimator="verbalised"))
    assert found.uncertainty == math.inf


# --- what the model cannot do ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("abilities", "embedder", "expected"), [
    (Capabilities(hidden_states=True), True, "gram"),
    (Capabilities(token_logprobs=True), True, "length_normalized_entropy"),
    (Capabilities(), True, "discrete_semantic_entropy"), (Capabilities(), False, "verbalised"),
])  # fmt: skip
def test_the_best_that_can_be_had_is_chosen_openly(abilities: Capabilities, embedder: bool, expected: str) -> None:
    chosen = choose_estimator(settings(), context(ScriptedLM(capabilities=abilities), embedder=embedder))
    assert chosen.estimator.name == expected
    assert chosen.reason == "gram as asked for" if expected == "gram" else f"{expected} instead" in chosen.reason


def test_without_fallback_a_missing_capability_is_an_error() -> None:
    with pytest.raises(CapabilityError) as caught:
        choose_estimator(settings(allow_fallback=False), context(ScriptedLM()))
    assert caught.value.capability == "hidden_states"
    assert "allow_fallback" in caught.value.hint
    with pytest.raises(CapabilityError):
        choose_estimator(settings(), Abilities())
    with pytest.raises(InputError, match="no estimator"):
        choose_estimator(settings(estimator="guess"), context(ScriptedLM()))


@pytest.mark.parametrize(
    ("wanted", "abilities", "expected"),
    [
        ("dragin", Capabilities(attention=True, token_statistics=True, token_logprobs=True), "dragin"),
        ("dragin", Capabilities(token_logprobs=True), "flare"),
        ("dragin", Capabilities(), "uncertainty"),
        ("flare", Capabilities(token_logprobs=True), "flare"),
        ("flare", Capabilities(), "uncertainty"),
        ("always", Capabilities(), "always"),
    ],
)
def test_gates_give_way_openly(wanted: str, abilities: Capabilities, expected: str) -> None:
    lm = ScriptedLM(capabilities=abilities)
    gate, why = choose_gate(settings(gate=wanted), context(lm))
    assert gate == expected
    if wanted != expected:
        assert f"{expected} instead" in why
        with pytest.raises(CapabilityError):
            choose_gate(settings(gate=wanted, allow_fallback=False), context(lm))


def test_an_error_of_the_model_is_raised() -> None:
    lm = ScriptedLM(lambda r: GenerationError("broken") if r.prompt.text == "two" else answering(r), capabilities=WHITE)
    with pytest.raises(GenerationError, match="broken"):
        run(lm)


@pytest.mark.parametrize("samples_only", [False, True])
def test_a_prompt_that_does_not_fit_can_be_tolerated(samples_only: bool) -> None:
    def reply(request: Generate) -> Any:
        if request.prompt.text == "two" and (request.params.n > 1 or not samples_only):
            return ContextOverflowError(120, 100)
        return answering(request)

    lm = ScriptedLM(reply, capabilities=WHITE)
    with pytest.raises(ContextOverflowError):
        run(lm)
    found = run(lm, tolerate_overflow=True)
    assert [m.error is None for m in found] == [True, False, True]
    assert found[1].uncertainty == math.inf
    assert found[2].uncertainty == gram_uncertainty(states(4, UNSURE))


# --- with a real model -----------------------------------------------------------------------------------------------


def test_real_hidden_states(tiny_lm: Any) -> None:
    options = settings(samples=5, max_step_tokens=12)
    prompts = [Prompt.trusted("Question: Who built the bridge?\nAnswer:"), Prompt.trusted("The river Thale")]
    names = ["normalized_gram", "eigenscore", "length_normalized_entropy", "energy", "p_true", "dragin"]
    first = run(tiny_lm, prompts, also=names, options=options)
    again = run(tiny_lm, prompts, also=names, options=options)
    for m, n in zip(first, again):
        assert math.isfinite(m.uncertainty)
        assert set(m.others) == set(names)
        assert all(math.isfinite(v) for v in m.others.values())
        assert m.uncertainty == pytest.approx(n.uncertainty, abs=1e-4)  # the same seed, the same samples
        assert m.greedy.token_ids == n.greedy.token_ids
        rows = np.stack([s.hidden_state for s in m.samples if s.hidden_state is not None])
        assert rows.shape == (5, 48)
        assert m.uncertainty == gram_uncertainty(rows)
        assert 0 <= m.others["normalized_gram"] <= 1


def test_a_layer_out_of_range_is_refused(tiny_lm: Any) -> None:
    with pytest.raises(CapabilityError, match="layer 2") as caught:
        run(tiny_lm, PROMPTS[:1], options=settings(layer=2))
    assert "0 to 1" in caught.value.hint


def test_a_model_without_end_of_sequence_needs_the_last_position(tiny_model: Any, tiny_tokenizer: Any) -> None:
    import copy

    from shared_core.lm.transformers import TransformersLM

    tokenizer, model = copy.deepcopy(tiny_tokenizer), copy.copy(tiny_model)
    tokenizer.eos_token = None
    model.config, model.generation_config = copy.copy(model.config), copy.copy(model.generation_config)
    model.config.eos_token_id = model.generation_config.eos_token_id = None
    lm = TransformersLM(model, tokenizer)
    with pytest.raises(CapabilityError, match="hidden states") as caught:
        run(lm, PROMPTS[:1], options=settings(max_step_tokens=5))
    assert "position='last'" in caught.value.hint
    (found,) = run(lm, PROMPTS[:1], options=settings(max_step_tokens=5, position="last"))
    assert math.isfinite(found.uncertainty)
