"""Measure one step of Self-RAG with K passages in one batch, on a random Llama built here.

    python benchmarks/self_rag.py [--quick] [--json FILE] [--clock cpu|wall] [--threads N]

A step at depth two: instruction, two passages with their segments, and ten candidate passages, each continued by 30
tokens with the log-probabilities of the thirteen verdicts at each token. One batch over a shared prefix is compared
with one request per call, with an empty cache (``passage_batch_speedup``) and with the prefix cached
(``passage_batch_speedup_kept_prefix``), and with transformers' ``generate`` per passage with scores of the whole
vocabulary (``passage_batch_speedup_vs_generate``). ``_prefill`` is the same ratio for one new token (prefill
dominates), ``_decode`` that of the other 29 tokens; ``prompt_tokens_ratio`` is how many fewer prompt tokens one batch
reads, an upper bound of the speedup at prefill. Methods alternate in one process; the figures are ratios of medians.
The random model's text is meaningless: only time is measured.
"""

from __future__ import annotations

import dataclasses
import random
import statistics
from collections.abc import Callable

import torch
from lm import CLOCKS, checked, make_model, make_tokenizer, sentences

from benchmarks import alternate, command_line, show_figures, write_figures
from shared_core.lm.base import Generate, Generation, Prompt
from shared_core.lm.transformers import TransformersLM
from shared_core.pipelines.decision.question_run import Abilities, QuestionRun
from shared_core.pipelines.self_rag.segments import Job, Written
from shared_core.pipelines.self_rag.with_tokens import TokenWriter
from shared_core.reflection import REFLECTION_TOKENS, Path, ReflectionVocabulary, Segment
from shared_core.runtime.flow import Resources, Together
from shared_core.settings import SelfReflectSettings
from shared_core.training.self_rag.recipe import add_reflection_tokens
from shared_core.types import Passage

TARGETS = {"passage_batch_speedup": "≥ 4"}
PASSAGES, NEW_TOKENS = 10, 30


class Step:
    """The model under test, and the requests of one step."""

    def __init__(self, quick: bool, clock: Callable[[], float]) -> None:
        self.clock = clock
        rng = random.Random(0)
        text = sentences(400, rng)
        tokenizer = make_tokenizer(text)
        self.model = make_model(len(tokenizer), *((256, 6) if quick else (384, 8)))
        self.vocabulary: ReflectionVocabulary = add_reflection_tokens(self.model, tokenizer)
        self.plain = TransformersLM(self.model, tokenizer, prefix_cache_bytes=0)
        self.keeping = TransformersLM(self.model, tokenizer)
        for lm in (self.plain, self.keeping):
            lm._eos = []  # a random model ends at random positions; every method must write the same number of tokens
        shelf = [Passage(str(i), " ".join(text[5 * i : 5 * i + 5]), f"Title {i}") for i in range(PASSAGES + 2)]
        self.requests = self._ask(text, shelf)
        self.first = [dataclasses.replace(r, params=dataclasses.replace(r.params, max_tokens=1)) for r in self.requests]

    def _ask(self, text: list[str], shelf: list[Passage]) -> list[Generate]:
        settings = SelfReflectSettings(self_rag={"max_segment_tokens": NEW_TOKENS})
        context = Abilities.of(Resources(models={"default": self.plain}))
        writer = TokenWriter(text[-1], QuestionRun(settings, context), self.vocabulary)
        path: Path[Written] = Path()
        for i, passage in enumerate(shelf[:2]):
            ids = tuple(self.plain.encoder.encode_continuation(Prompt.untrusted(text[-2 - i])))
            path += Segment(text[-2 - i], 1.0, Written(text[-2 - i], "retrieve", passage, ids), passage.id)
        sent = next(writer.write([Job(path, "retrieve", p) for p in shelf[2:]]))
        assert isinstance(sent, Together)
        requests = [r for r in sent.requests if isinstance(r, Generate)]
        # No boundary ends a segment early: all methods write the same number of tokens.
        return [dataclasses.replace(r, params=dataclasses.replace(r.params, stop_token_ids=())) for r in requests]

    def batch(self, requests: list[Generate] | None = None) -> list[Generation]:
        """Generate for all passages in one batch."""
        return checked(self.plain.generate(requests or self.requests))

    def one_by_one(self, lm: TransformersLM, requests: list[Generate] | None = None) -> list[Generation]:
        """Generate with one call per passage."""
        return [g for r in requests or self.requests for g in checked(lm.generate([r]))]

    def generate(self) -> None:
        """Run transformers' ``generate`` once per passage, with scores of the whole vocabulary."""
        for request in self.requests:
            ids = torch.tensor([self.plain.encoder.encode(request.prompt)])
            with torch.inference_mode():
                self.model.generate(
                    ids,
                    attention_mask=torch.ones_like(ids),
                    do_sample=False,
                    max_new_tokens=NEW_TOKENS,
                    pad_token_id=0,
                    output_scores=True,
                    return_dict_in_generate=True,
                )

    def times(self, repeats: int, **actions: Callable[[], object]) -> dict[str, float]:
        """Return the median seconds of each action, with an empty prompt cache."""
        return alternate(actions, repeats, self.clock, self.keeping.clear_cache)


def measure(step: Step, repeats: int) -> dict[str, float]:
    """Return the figures, after checking that all methods agree."""
    together, alone = step.batch(), step.one_by_one(step.plain)
    assert [g.samples[0].token_ids for g in together] == [g.samples[0].token_ids for g in alone]
    run_ids = step.plain.token_ids(REFLECTION_TOKENS)
    assert None not in run_ids
    taken = step.times(
        repeats,
        batch=step.batch,
        one_by_one=lambda: step.one_by_one(step.plain),
        kept=lambda: step.one_by_one(step.keeping),
        generate=step.generate,
        batch_first=lambda: step.batch(step.first),
        one_by_one_first=lambda: step.one_by_one(step.plain, step.first),
    )
    prompts = [step.plain.encoder.encode(r.prompt) for r in step.requests]
    shared = next(n for n in range(len(prompts[0])) if len({tuple(p[: n + 1]) for p in prompts}) > 1)
    read = sum(map(len, prompts)) - (len(prompts) - 1) * shared
    alone, together = taken["one_by_one"] - taken["one_by_one_first"], taken["batch"] - taken["batch_first"]
    return {
        "model_parameters": float(sum(p.numel() for p in step.model.parameters())),
        "prompt_tokens": statistics.mean(map(len, prompts)),
        "prompt_tokens_ratio": sum(map(len, prompts)) / read,
        "passage_batch_speedup_prefill": taken["one_by_one_first"] / taken["batch_first"],
        "passage_batch_speedup_decode": alone / together,
        "batch_seconds": taken["batch"],
        "passage_batch_speedup": taken["one_by_one"] / taken["batch"],
        "passage_batch_speedup_kept_prefix": taken["kept"] / taken["batch"],
        "passage_batch_speedup_vs_generate": taken["generate"] / taken["batch"],
    }


def main() -> None:
    parser = command_line(__doc__, quick="a smaller model, fewer repeats", data=False)
    parser.add_argument("--clock", choices=sorted(CLOCKS), default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    figures = measure(Step(options.quick, CLOCKS[options.clock]), 3 if options.quick else 7)
    show_figures(figures, f"A step of {PASSAGES} passages, {options.clock} time", TARGETS)
    write_figures(figures, options.json)


if __name__ == "__main__":
    main()
