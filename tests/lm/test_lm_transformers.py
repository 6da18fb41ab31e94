"""The transformers backend on small random models: every layout must give what plain forward passes give."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shared_core.errors import GrammarError
from shared_core.lm.base import (
    Capture,
    Generate,
    Generation,
    Grammar,
    HiddenStates,
    Prompt,
    Sample,
    SamplingParams,
    Score,
    Scores,
    States,
)
from shared_core.lm.transformers import TransformersLM
from tests.lm.test_lm_sample import distribution
from tests.lm.tiny_models import make, number_tokenizer
from tests.lm.tiny_requests import FEW_SHOT, QUESTIONS, one, requests, same, samples

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def layouts(tiny_model: Any, tiny_tokenizer: Any) -> dict[str, TransformersLM]:
    names = ("auto", "tree", "rows", "fallback")
    return {n: TransformersLM(tiny_model, tiny_tokenizer, layout=n) for n in names}  # type: ignore[arg-type]


# --- equal in every layout, and equal to plain forward passes


def test_batched_and_alone_give_the_same(layouts: dict[str, TransformersLM]) -> None:
    mixed = [
        *requests(),
        Generate(Prompt.untrusted("river"), SamplingParams(max_tokens=30)),
        Generate(FEW_SHOT, SamplingParams(n=2, max_tokens=5, temperature=0.7, seed=3)),
        Generate(FEW_SHOT, SamplingParams(n=2, max_tokens=14, temperature=1.3, top_p=0.8, seed=3)),
    ]
    together = samples(layouts["auto"].generate(mixed))
    layouts["auto"].clear_cache()
    alone = [s for r in mixed for s in samples(layouts["auto"].generate([r]))]
    same(together, alone)


def test_statistics_are_those_of_a_plain_forward_pass(tiny_model: Any, tiny_tokenizer: Any, tiny_lm: Any) -> None:
    import torch

    for request, result in zip(requests(), tiny_lm.generate(requests())):
        prompt = tiny_lm.encoder.encode(request.prompt)
        for sample in result.samples:
            ids = [*prompt, *sample.token_ids]
            eos = [] if ids[-1] == tiny_tokenizer.eos_token_id else [tiny_tokenizer.eos_token_id]
            states: list[Any] = []
            # of two layers the lower one is the middle
            hook = tiny_model.model.layers[0].mlp.register_forward_hook(lambda m, i, o, keep=states: keep.append(o))
            with torch.no_grad():
                logits = tiny_model(torch.tensor([ids + eos])).logits[0].double()
            hook.remove()
            rows = logits[len(prompt) - 1 : len(ids) - 1]
            logp = rows.log_softmax(-1)
            picked = logp[torch.arange(len(rows)), torch.tensor(sample.token_ids)]
            np.testing.assert_allclose(sample.logprobs, picked, atol=1e-4)
            columns = [tiny_lm.encoder.token_id("[Relevant]"), 9]
            np.testing.assert_allclose(sample.verdict_logprobs, logp[:, columns], atol=1e-4)
            np.testing.assert_allclose(sample.entropy, -(logp.exp() * logp).sum(-1), atol=1e-4)
            np.testing.assert_allclose(sample.logsumexp, rows.logsumexp(-1), atol=1e-4)
            np.testing.assert_allclose(sample.hidden_state, states[0][0, -1], atol=1e-3)
            assert sample.hidden_state.dtype == np.float32


def test_greedy_equals_transformers_generate(tiny_model: Any, tiny_lm: Any) -> None:
    import torch

    for request in requests(SamplingParams(max_tokens=20)):
        ids = torch.tensor([tiny_lm.encoder.encode(request.prompt)])
        expected = tiny_model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=20, do_sample=False)
        [result] = tiny_lm.generate([request])
        assert list(result.samples[0].token_ids) == expected[0, ids.shape[1] :].tolist()


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_what_repeats_is_checked_in_one_pass_and_comes_out_the_same(
    data: st.DataObject, layouts: dict[str, TransformersLM]
) -> None:
    words = data.draw(st.lists(st.sampled_from(["river", "lamp", "1871", "the", "of"]), min_size=1, max_size=12))
    params = SamplingParams(
        max_tokens=data.draw(st.integers(1, 60)),
        min_tokens=data.draw(st.integers(0, 1)),
        logprobs=data.draw(st.booleans()),
        stop=data.draw(st.sampled_from([(), ("e",), ("river", "1")])),
        alternatives=data.draw(st.sampled_from([0, 3])),
    )
    request = Generate(Prompt.untrusted(" ".join(words * 2)), params)
    same(samples(layouts["auto"].generate([request])), samples(layouts["fallback"].generate([request])))


def test_what_repeats_costs_few_passes(tiny_model: Any, tiny_tokenizer: Any) -> None:
    repeating = copy.deepcopy(tiny_model)
    repeating.get_output_embeddings().weight.data.zero_()  # of equal logits the first wins: the same token for ever
    lm = TransformersLM(repeating, tiny_tokenizer)
    usage = one(lm, max_tokens=200).usage
    assert usage.generated_tokens == 200
    assert usage.forwards < 30


def test_no_token_of_a_draft_that_was_given_up_is_kept(layouts: dict[str, TransformersLM]) -> None:
    lm = layouts["auto"]
    text = one(lm, Prompt.untrusted("river lamp river lamp river"), max_tokens=40).text
    on = [Generate(Prompt.untrusted(f"river lamp river lamp river{text}"), SamplingParams(max_tokens=20))]
    same(samples(lm.generate(on)), samples(layouts["fallback"].generate(on)))


def test_within_its_window_a_sliding_model_decodes_as_a_tree(caplog: Any) -> None:
    lm = TransformersLM(make("mistral with a window"), number_tokenizer())
    for length, session in ((10, "Forest"), (30, "Repeated")):
        with lm._inference():
            request = Generate(Prompt.tokens([5] * length), SamplingParams(max_tokens=4))
            [wave] = lm._scheduler.waves([lm._generate_job(request)])
        assert type(wave.session).__name__ == session
    assert "sliding window of 24" in caplog.text


def test_small_memory_cuts_batches_without_changing_results(tiny_model: Any, tiny_tokenizer: Any, tiny_lm: Any) -> None:
    tight = TransformersLM(tiny_model, tiny_tokenizer, cache_bytes=1)
    same(samples(tight.generate(requests())), samples(tiny_lm.generate(requests())))


# --- what is shared is computed once


def test_shared_prefixes_are_computed_once_and_kept(tiny_model: Any, tiny_tokenizer: Any) -> None:
    lm = TransformersLM(tiny_model, tiny_tokenizer)
    shared = len(lm.encoder.encode(FEW_SHOT)) - 1
    first = lm.generate(requests())
    assert (
        sum(r.usage.prompt_tokens for r in first)
        < sum(len(lm.encoder.encode(r.prompt)) for r in requests()) - 2 * shared
    )
    assert sum(r.usage.cached_tokens for r in first) == 0
    again = lm.generate(requests())
    assert sum(r.usage.cached_tokens for r in again) >= shared
    same(samples(again), samples(first))
    lm.clear_cache()
    assert sum(r.usage.cached_tokens for r in lm.generate(requests())) == 0


def test_a_dialogue_between_two_contexts_prefills_neither_again(tiny_lm: Any) -> None:
    """Interleaved generation: the long context and the short one take turns, each continuing what was written."""
    tiny_lm.clear_cache()
    long, short = FEW_SHOT + FEW_SHOT, Prompt.trusted("Claims: ")
    for turn in range(3):
        a, b = (one(tiny_lm, prompt, max_tokens=6) for prompt in (long, short))
        assert not turn or all(r.usage.prompt_tokens - r.usage.cached_tokens <= 8 for r in (a, b))
        reference, claim = Prompt.tokens(a.samples[0].token_ids), Prompt.tokens(b.samples[0].token_ids)
        long, short = long + reference + claim, short + claim + reference


def test_the_prefix_cache_is_bounded(tiny_model: Any, tiny_tokenizer: Any) -> None:
    lm = TransformersLM(tiny_model, tiny_tokenizer, prefix_cache_bytes=40_000)
    for q in QUESTIONS * 3:
        one(lm, FEW_SHOT + Prompt.untrusted(q), max_tokens=3)
        assert lm._scheduler.prefixes.nbytes <= 40_000
    off = TransformersLM(tiny_model, tiny_tokenizer, prefix_cache_bytes=0)
    off.generate(requests())
    assert off._scheduler.prefixes.nbytes == 0


# --- sampling


def test_seeds(tiny_lm: Any) -> None:
    def drawn(seed: int | None) -> list[tuple[int, ...]]:
        return [s.token_ids for s in one(tiny_lm, n=4, max_tokens=8, temperature=1.0, seed=seed).samples]

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)
    assert drawn(None) != drawn(None)
    assert len(set(drawn(1))) == 4


def test_sampling_follows_the_distribution(tiny_model: Any, tiny_lm: Any) -> None:
    import torch

    with torch.no_grad():
        logits = tiny_model(torch.tensor([tiny_lm.encoder.encode(FEW_SHOT)])).logits[:, -1]
    for top_k, top_p in ((0, 1.0), (6, 1.0), (0, 0.6), (12, 0.5)):
        params = SamplingParams(n=4000, max_tokens=1, temperature=2.0, top_k=top_k, top_p=top_p, seed=0)
        p = distribution(logits, params)
        drawn = [s.token_ids[0] for s in samples(tiny_lm.generate([Generate(FEW_SHOT, params)]))]
        observed = np.bincount(drawn, minlength=len(p)) / len(drawn)
        assert observed[p == 0].sum() == 0
        top = p.argsort()[-5:]
        deviation = np.sqrt(p[top] * (1 - p[top]) / len(drawn))
        assert np.all(np.abs(observed[top] - p[top]) <= 5 * deviation)


def test_stop_strings_are_cut_exactly(tiny_lm: Any) -> None:
    free = one(tiny_lm, max_tokens=30)
    text = free.text
    for start in range(1, min(12, len(text) - 2)):
        stop = text[start : start + 2]
        if "�" in stop:
            continue
        [sample] = one(tiny_lm, max_tokens=30, stop=(stop, "never there")).samples
        assert (sample.finish_reason, sample.stop) == ("stop", stop)
        assert sample.text == text[: text.index(stop)]
        assert one(tiny_lm, max_tokens=30, stop=(stop,), include_stop=True).text == sample.text + stop
        assert free.samples[0].token_ids[: len(sample.token_ids)] == sample.token_ids


def test_min_tokens_and_eos(tiny_model: Any, tiny_tokenizer: Any) -> None:
    lm = TransformersLM(tiny_model, tiny_tokenizer)
    params: dict[str, Any] = {"n": 64, "max_tokens": 12, "temperature": 3.0, "seed": 1}
    ended = [s for s in one(lm, **params).samples if s.finish_reason == "eos"]
    assert ended
    for sample in ended:
        assert sample.token_ids[-1] == tiny_tokenizer.eos_token_id
        assert sample.token_ids.count(tiny_tokenizer.eos_token_id) == 1
        assert not sample.text.endswith("</s>")
    assert all(len(s.token_ids) == 12 for s in one(lm, **params, min_tokens=12).samples)


# --- grammar

QUOTES = Grammar(
    'start: ("The river Thale rises in the hills." | "The bridge was built by Mira Dorn.") "</claim>"', "quotes"
)


def test_every_layout_gives_the_same_with_and_without_tokens_that_a_grammar_forces(
    layouts: dict[str, TransformersLM],
) -> None:
    params = SamplingParams(
        n=3, max_tokens=60, temperature=1.0, seed=2, logprobs=True, grammar=QUOTES, capture=Capture(position="last")
    )
    mixed = [*requests(params), *requests()]
    expected = samples(layouts["fallback"].generate(mixed))
    assert len({s.token_ids for s in expected[3 * len(QUESTIONS) :]}) > 8  # the free samples do differ
    for name in ("auto", "tree", "rows"):
        results = layouts[name].generate(mixed)
        same(samples(results), expected)
        assert sum(r.usage.forwards_saved for r in results) > 20
    quoted = expected[: 3 * len(QUESTIONS)]
    assert {s.finish_reason for s in quoted} == {"grammar"}
    assert {s.text for s in quoted} == {
        "The river Thale rises in the hills.</claim>", "The bridge was built by Mira Dorn.</claim>",
    }  # fmt: skip


def test_forced_tokens_cost_no_forward_passes_of_their_own(tiny_model: Any, tiny_tokenizer: Any) -> None:
    lm = TransformersLM(tiny_model, tiny_tokenizer)
    usage = one(lm, max_tokens=60, grammar=QUOTES).usage
    assert usage.generated_tokens > 10
    assert usage.forwards <= 5


def test_special_tokens_in_a_grammar_by_id(tiny_lm: Any) -> None:
    relevant, irrelevant = (tiny_lm.encoder.token_id(t) for t in ("[Relevant]", "[Irrelevant]"))
    grammar = Grammar(f"start: (<[{relevant}]> | <[{irrelevant}]>) /[a-z]{{2,4}}/")
    drawn = one(tiny_lm, n=8, max_tokens=10, temperature=1.0, seed=0, grammar=grammar).samples
    assert {s.token_ids[0] for s in drawn} <= {relevant, irrelevant}
    assert all(s.text.startswith(("[Relevant]", "[Irrelevant]")) for s in drawn)


@pytest.mark.parametrize("lark", ['start: "a', "start: nothing", "start: <[99999]>", 'start: A\nA: "x" /[a&&b]/'])
def test_bad_grammars_fail_alone_with_a_reason(lark: str, tiny_lm: Any) -> None:
    bad = Generate(FEW_SHOT, SamplingParams(max_tokens=5, grammar=Grammar(lark, "mine")))
    failed, fine = tiny_lm.generate([bad, Generate(FEW_SHOT, SamplingParams(max_tokens=5))])
    assert isinstance(failed, GrammarError)
    assert "mine" in failed.message
    assert isinstance(fine, Generation)


def test_grammar_with_limits(tiny_lm: Any) -> None:
    def written(lark: str, **limits: int) -> Sample:
        return one(tiny_lm, grammar=Grammar(lark), **limits).samples[0]

    assert written("start: /a{40}/", max_tokens=7).finish_reason == "length"
    assert len(written("start: /[a-z]*/", max_tokens=20, min_tokens=5).token_ids) >= 5
    cut = written('start: "The river Thale rises in the hills"', max_tokens=2)
    assert (cut.text, cut.finish_reason) == ("The river", "length")
    assert written('start: "ab"', max_tokens=9, min_tokens=9).text == "ab"  # the grammar ends before
    assert written('start: ""', max_tokens=5, min_tokens=3).text == ""


# --- scores and states


def test_scores_in_every_layout(layouts: dict[str, TransformersLM], tiny_model: Any) -> None:
    import torch

    continuations = tuple(map(Prompt.untrusted, ["river", " the town was founded in 1841", " </s>", ""]))
    request = [Score(FEW_SHOT, continuations), Score(Prompt.untrusted("The"), continuations[:1])]
    for lm in layouts.values():
        first, second = lm.score(request)
        assert isinstance(first, Scores)
        assert isinstance(second, Scores)
        for continuation, found in zip(continuations, first.token_logprobs):
            prompt, tail = lm.encoder.encode(FEW_SHOT), lm.encoder.encode_continuation(continuation)
            with torch.no_grad():
                logp = tiny_model(torch.tensor([prompt + tail])).logits[0].log_softmax(-1)
            expected = [float(logp[len(prompt) - 1 + i, t]) for i, t in enumerate(tail)]
            np.testing.assert_allclose(found, expected, atol=1e-4)


@pytest.mark.parametrize("kind", ["mlp", "residual"])
def test_hidden_states_in_every_layout(kind: Any, layouts: dict[str, TransformersLM], tiny_model: Any) -> None:
    import torch

    sequences = tuple(FEW_SHOT + Prompt.untrusted(q) for q in QUESTIONS)
    for position in ("eos", "last"):
        for lm in layouts.values():
            [found] = lm.hidden_states([HiddenStates(sequences, Capture(0, kind, position))])
            assert isinstance(found, States)
            assert found.states.shape == (len(QUESTIONS), 48)
            for row, sequence in zip(found.states, sequences):
                ids = lm.encoder.encode(sequence) + ([2] if position == "eos" else [])
                kept: list[Any] = []
                module = tiny_model.model.layers[0] if kind == "residual" else tiny_model.model.layers[0].mlp
                hook = module.register_forward_hook(lambda m, i, o, keep=kept: keep.append(o))
                with torch.no_grad():
                    tiny_model(torch.tensor([ids]))
                hook.remove()
                np.testing.assert_allclose(row, kept[0][0, -1], atol=1e-3)


@pytest.mark.parametrize("position", ["eos", "last"])
@pytest.mark.parametrize("include", [True, False])
def test_a_capture_ends_where_the_text_does(position: Any, include: bool, layouts: dict[str, TransformersLM]) -> None:
    """A token that completes the stop string and begins what comes next is not in the state: it is not in the text."""
    sampling: dict[str, Any] = {"n": 4, "max_tokens": 12, "temperature": 1.0, "seed": 3}
    borders = [
        (sample, i, f"{before[-1]} ")
        for sample in one(layouts["auto"], **sampling).samples
        for i, (before, token) in enumerate(itertools.pairwise(sample.tokens or ()), 1)
        if before.strip() and before[-1].isascii() and len(token) > 1 and token[0] == " " and token[1:].isalnum()
    ]
    assert borders  # the tokenizer puts blanks before words
    stop = borders[0][2]
    sampling |= {"stop": (stop,), "include_stop": include, "capture": Capture(position=position)}
    overran = 0
    for layout in layouts.values():
        for sample in one(layout, **sampling).samples:
            ids = list(sample.token_ids)
            if sample.finish_reason == "eos" or (sample.stop and not sample.tokens[-1].startswith(stop[0])):
                ids, overran = ids[:-1], overran + (sample.finish_reason == "stop")
            prompt = FEW_SHOT + Prompt.tokens(ids) if ids else FEW_SHOT
            [states] = layout.hidden_states([HiddenStates((prompt,), Capture(position=position))])
            np.testing.assert_allclose(sample.hidden_state, states.states[0], atol=1e-3)
    assert overran


@pytest.mark.parametrize("stop", [(), ("never there",)])
def test_an_end_of_sequence_is_not_the_last_token_of_a_text(stop: Any, layouts: dict[str, TransformersLM]) -> None:
    """Else samples that end by themselves would all be read at the same token, and others at their text's last."""
    sampling: dict[str, Any] = {"n": 64, "max_tokens": 12, "temperature": 3.0, "seed": 1, "stop": stop}
    for layout in layouts.values():
        for position in ("eos", "last"):
            at = Capture(position=position)
            ended = [s for s in one(layout, **sampling, capture=at).samples if s.finish_reason == "eos"]
            texts = tuple(FEW_SHOT + Prompt.tokens(s.token_ids[:-1]) for s in ended if len(s.token_ids) > 1)
            assert texts
            [states] = layout.hidden_states([HiddenStates(texts, at)])
            found = np.stack([s.hidden_state for s in ended if len(s.token_ids) > 1])
            np.testing.assert_allclose(found, states.states, atol=1e-3)
