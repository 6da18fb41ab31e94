"""Measure one decision and one re-ranking by uncertainty against the usual implementations.

Part of ``uncertainty.py``. The model is a random Llama built here (4 to 30 million parameters): the cost of tree
decoding and state capture does not depend on the weights. Methods alternate in one process; the figures are ratios of
median CPU times.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from lm import DRAW, make_model, make_tokenizer, sentences

from benchmarks import alternate
from shared_core import uncertainty as u
from shared_core.lm.base import BaseLanguageModel, Capture, Generation, Prompt, SamplingParams
from shared_core.lm.requests import middle_layer
from shared_core.lm.transformers import TransformersLM
from shared_core.pipelines.decision.question_run import Abilities
from shared_core.pipelines.gating.choose import choose_estimator
from shared_core.pipelines.gating.measure import measure
from shared_core.runtime.flow import Generate, Resources, run
from shared_core.settings import SeakrSettings, SelfReflectSettings

K, STEPS, PROMPT, PASSAGES = 20, 10, 600, 10
Figures = dict[str, float]


class Lab:
    """The random model, its backend, and prompts of random ids."""

    def __init__(self, quick: bool) -> None:
        torch.set_num_threads(1)
        self.tokenizer = make_tokenizer(sentences(400, random.Random(0)))
        self.model = make_model(len(self.tokenizer), *((256, 6) if quick else (384, 8)))
        self.parameters = sum(p.numel() for p in self.model.parameters())
        # The random model would end at random positions: all methods must write the same number of tokens.
        self.eos = int(self.tokenizer.eos_token_id)
        self.lm = TransformersLM(self.model, self.tokenizer)
        self.middle = middle_layer(self.model.config.num_hidden_layers)

    def ids(self, count: int, seed: int) -> list[int]:
        return [int(i) for i in np.random.default_rng(seed).integers(3, len(self.tokenizer), count)]

    def times(self, repeats: int, **actions: Callable[[], object]) -> dict[str, float]:
        """Return the median CPU seconds of each method, with an empty prompt cache."""
        return alternate(actions, repeats, time.process_time, self.lm.clear_cache)

    # --- ours --------------------------------------------------------------------------------------------------

    def settings(self) -> SelfReflectSettings:
        return SelfReflectSettings(
            seakr=SeakrSettings(samples=K, max_step_tokens=STEPS, published={"hidden": "residual"})
        )

    def decide(self, prompts: list[list[int]]) -> list[float]:
        """Measure as the pipeline does: greedy and k samples of every prompt in one batch, with captured states."""
        resources = Resources(models={"default": self.lm})
        chosen = choose_estimator(self.settings(), Abilities.of(resources))
        found = run(measure([Prompt.tokens(p) for p in prompts], chosen), resources)
        return [m.uncertainty for m in found]

    # --- the usual implementation -------------------------------------------------------------------------------------

    def usual(self, prompt: list[int]) -> float:
        """Run a greedy answer and ``generate`` with ``num_return_sequences`` and hidden states, and score them."""
        ids = torch.tensor([prompt])
        options = {"attention_mask": torch.ones_like(ids), "pad_token_id": 0, "max_new_tokens": STEPS}
        with torch.inference_mode():
            self.model.generate(ids, do_sample=False, **options)
            out = self.model.generate(
                ids, do_sample=True, num_return_sequences=K, output_hidden_states=True, return_dict_in_generate=True,
                **DRAW, **options,
            )  # fmt: skip
        # One state of each sample: the layer's output at its last fed token.
        states = out.hidden_states[-1][self.middle + 1][:, -1]
        return u.gram_uncertainty(states.double().numpy())


def check(lab: Lab) -> None:
    """Check that the captured states equal those of a plain forward pass over the same tokens."""
    prompt = lab.ids(40, 9)
    capture = Capture(None, "residual")
    params = SamplingParams(n=4, max_tokens=STEPS, seed=1, capture=capture, **DRAW)
    (result,) = lab.lm.generate([Generate(Prompt.tokens(prompt), params)])
    assert isinstance(result, Generation)
    for sample in result.samples:
        tail = [*sample.token_ids] + ([] if sample.finish_reason == "eos" else [lab.eos])
        with torch.inference_mode():
            out = lab.model(torch.tensor([[*prompt, *tail]]), output_hidden_states=True)
        plain = out.hidden_states[lab.middle + 1][0, -1].numpy()
        assert sample.hidden_state is not None
        assert np.abs(plain - sample.hidden_state).max() < 1e-3 * np.abs(plain).max()


def decision(lab: Lab, quick: bool) -> Figures:
    """Measure one decision at k = 20 after a few-shot prompt of 600 tokens."""
    prompt = lab.ids(PROMPT, 1)
    lab.times(1, ours=lambda: lab.decide([prompt]))  # warm up
    taken = lab.times(2 if quick else 3, ours=lambda: lab.decide([prompt]), usual=lambda: lab.usual(prompt))
    return {
        "model_million_parameters": lab.parameters / 1e6,
        "decision_seconds": taken["ours"],
        "decision_speedup_vs_num_return_sequences": taken["usual"] / taken["ours"],
    }


def rerank(lab: Lab, quick: bool) -> Figures:
    """Compare one batch with sequential calls for N = 10 passages of 60 tokens after shared demonstrations.

    The sequential calls are the usual ones (``num_return_sequences``), and our own decisions with an empty cache.
    """
    shared = lab.ids(PROMPT, 2)
    prompts = [shared + lab.ids(60, 10 + i) for i in range(PASSAGES)]

    def own() -> None:
        for prompt in prompts:
            lab.lm.clear_cache()  # nothing shared
            lab.decide([prompt])

    def naive() -> None:
        for prompt in prompts:
            lab.usual(prompt)

    lab.decide(prompts[:2])
    taken = lab.times(1 if quick else 2, batch=lambda: lab.decide(prompts), own=own, naive=naive)
    return {
        "rerank_seconds": taken["batch"],
        "rerank_batch_speedup": taken["naive"] / taken["batch"],
        "rerank_batch_speedup_vs_own_one_by_one": taken["own"] / taken["batch"],
    }


def polygraph(lab: Lab, quick: bool) -> Figures:
    """Compare one decision with lm-polygraph's EigenScore: k samples, then the states of all their tokens.

    Skipped with a message if that package is not installed.
    """
    try:
        from lm_polygraph import WhiteboxModel  # type: ignore[import-not-found]
        from lm_polygraph.estimators import EigenScore  # type: ignore[import-not-found]
        from lm_polygraph.stat_calculators import GreedyProbsCalculator, SamplingGenerationCalculator  # type: ignore[import-not-found]
    except ImportError as error:
        print(f"decision_speedup_vs_lm_polygraph left out: lm-polygraph cannot be imported ({error}).")
        return {}
    from lm_polygraph.utils.generation_parameters import GenerationParameters  # type: ignore[import-not-found]

    prompt = lab.ids(PROMPT, 1)
    text = lab.tokenizer.decode(prompt)
    wrapped = WhiteboxModel(
        lab.model, lab.tokenizer, generation_parameters=GenerationParameters(**DRAW, do_sample=True)
    )
    greedy = GreedyProbsCalculator(output_attentions=False, output_hidden_states=True)
    sampling = SamplingGenerationCalculator(samples_n=K)
    estimator = EigenScore()

    def theirs() -> None:
        known: dict[str, Any] = {"input_texts": [text]}
        known |= greedy(known, [text], wrapped, STEPS)
        known |= sampling(known, [text], wrapped, STEPS)
        estimator(known)

    ours = [int(i) for i in lab.tokenizer(text).input_ids]
    theirs()
    taken = lab.times(1 if quick else 3, ours=lambda: lab.decide([ours]), theirs=theirs)
    return {"decision_speedup_vs_lm_polygraph": taken["theirs"] / taken["ours"]}


def token_cost(lab: Lab, quick: bool) -> Figures:
    """Count the tokens that each estimator reads and writes for one decision, beyond those of a greedy answer."""
    prompt = lab.ids(PROMPT, 3)
    context = Abilities.of(Resources(models={"default": lab.lm}, embedder=Letters(), critic=Silent()))
    found: Figures = {}
    for name in u.ESTIMATORS:
        settings = SelfReflectSettings(seakr=SeakrSettings(estimator=name, samples=K, max_step_tokens=STEPS))
        chosen = choose_estimator(settings, context)
        lab.lm.clear_cache()
        meter = Meter(lab.lm)
        run(
            measure([Prompt.tokens(prompt)], chosen),
            Resources(models={"default": meter}, embedder=Letters(), critic=Silent()),
        )
        found[f"tokens_{name}"] = float(meter.tokens - PROMPT - STEPS)
    return found


class Meter(BaseLanguageModel):
    """Backend that counts the tokens it reads (cached ones excepted) and writes."""

    def __init__(self, lm: Any) -> None:
        self.lm, self.tokens = lm, 0
        self.name, self.capabilities = lm.name, lm.capabilities

    def _counted(self, results: list[Any]) -> list[Any]:
        for result in results:
            if isinstance(result, Exception):
                raise result
            usage = result.usage
            self.tokens += usage.prompt_tokens - usage.cached_tokens + usage.generated_tokens
        return results

    def generate(self, requests: Any) -> list[Any]:
        self.tokens += sum(PROMPT + STEPS for r in requests if r.params.attention)  # read once more for the weights
        return self._counted(self.lm.generate(requests))

    def score(self, requests: Any) -> list[Any]:
        return self._counted(self.lm.score(requests))


class Letters:
    """Embedder without cost, as only the language model's tokens are counted."""

    name = "letters"

    def embed(self, texts: Any) -> Any:
        rows = np.array([[1.0, *(t.count(c) for c in "aeiou")] for t in texts])
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


class Silent:
    """Critic without cost, for the same reason."""

    name = "silent"

    def score(self, pairs: Any) -> list[float | None]:
        return [0.0] * len(pairs)


def with_model(quick: bool) -> Figures:
    """Measure all figures that need a model."""
    lab = Lab(quick)
    check(lab)
    return decision(lab, quick) | rerank(lab, quick) | polygraph(lab, quick) | token_cost(lab, quick)
