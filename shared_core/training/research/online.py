"""RLOO (Ahmadian et al. 2024) on TRL: the model samples answers, and those of higher reward become more likely.

The reward is the expected utility of a sampled answer. It is cut into claims, each claim is judged once, by the
passages or by self-evaluation, and the expected utility of the whole answer over the spread of utilities is its reward.
An engine of its own judges, the model as it was before training for instance: a model that judged itself while it
learns would learn to believe itself. For the same reason what it writes in training is no source to judge claims by;
those are the candidates of the search.

An unknown reward is ``None``, and TRL leaves such an answer out of the step. It is not 0: that is what abstaining is
worth.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shared_core.abstention import claim_key, expected_utility, split_claims
from shared_core.errors import GenerationError, InputError, LanguageModelError, LimitError
from shared_core.lm.encoding import Encoder, plain_text
from shared_core.pipelines.decision.question_run import QuestionRun
from shared_core.pipelines.research.asking import spoken
from shared_core.pipelines.research.claims import Candidate, Part, Splits, split
from shared_core.pipelines.research.search import Search, judge_claims, whole_sentences
from shared_core.runtime import flow as flows
from shared_core.runtime.flow import Flow
from shared_core.training.recipes import digest
from shared_core.training.research.rows import Prompted, spread
from shared_core.training.settings import OnlineSettings
from shared_core.training.trainer import Setup, TrainingResult, make_trainer, prepare, processes, run
from shared_core.training.watch import Progress
from shared_core.types import Claim

if TYPE_CHECKING:
    from shared_core.facades.engine import SelfReflectEngine


@dataclass(frozen=True, slots=True)
class Sampled:
    """An answer to judge: its row, its text, and whether the model ended it (else it was cut off)."""

    source: str
    text: str
    ended: bool = True


Reward = Callable[[Sequence[Sampled]], list[float | None]]
"""Gives a reward for each sampled answer, ``None`` where it is unknown; ``UtilityReward`` is one."""


@dataclass
class UtilityReward:
    """Reward function for sampled answers; remembers judged claims from step to step.

    Args:
        engine: of the pipeline ``research``, whose model splits and judges; its target accuracy is ρ*.
        rows: that answers are sampled for; a claim judged in the search is not judged again.
        scale: what a utility is divided by; the standard deviation of the rows' utilities if not given.

    Attributes:
        unknown: answers so far whose reward is unknown.
        judged: claims so far that the engine was asked about.

    Raises:
        InputError: another pipeline, rows with and without passages, or two of one id.
    """

    engine: SelfReflectEngine
    rows: Sequence[Prompted]
    scale: float | None = None
    unknown: int = 0
    judged: int = 0
    _states: dict[str, Search] = field(default_factory=dict, repr=False)
    _rows: dict[str, Prompted] = field(default_factory=dict, repr=False)
    _problem: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        settings = self.engine.settings
        if settings.pipeline != "research":
            raise InputError("The reward needs an engine of the pipeline research.")
        closed = settings.research.closed_book
        if any(bool(row.passages) == closed for row in self.rows):
            raise InputError(
                "The rows are of searches from passages, and the reward is closed book."
                if closed
                else "The rows are of closed-book searches, and the reward is by passages.",
                hint="research.closed_book must be as it was when the rows were made.",
            )
        self._rows = {row.source: row for row in self.rows}
        if len(self._rows) < len(self.rows):
            raise InputError("Two rows have the same source.", hint="Give the rows of one run of research-data.")
        if self.scale is None:
            self.scale = spread([utility for row in self.rows for _, utility in row.candidates])

    def __call__(self, answers: Sequence[Sampled]) -> list[float | None]:
        """Compute the reward of each answer, in order; ``None`` where it is unknown.

        Raises:
            GenerationError: every one is unknown.
            SelfReflectError: what would fail at every answer (a capability that the judge lacks, …).
        """
        grouped: dict[str, list[int]] = {}
        for i, answer in enumerate(answers):
            grouped.setdefault(answer.source, []).append(i)
        todo = [self._told(source, [answers[i] for i in places]) for source, places in grouped.items()]
        settings = self.engine.settings
        found: list[float | None] = [None] * len(answers)
        for places, result in zip(
            grouped.values(), flows.run_many(todo, self.engine.resources, deadline=settings.deadline)
        ):
            if isinstance(result, (LanguageModelError, LimitError)):
                self._problem = str(result)
                continue
            if isinstance(result, Exception):
                raise result
            for i, utility in zip(places, result):
                found[i] = None if utility is None else utility / (self.scale or 1.0)
        silent = sum(reward is None for reward in found)
        self.unknown += silent
        if answers and silent == len(answers):
            raise GenerationError(
                f"Not one of {silent} answers could be judged: {self._problem or 'no probability could be read'}.",
                hint="Check the judge: its replies must state whole numbers from 0 to 100, or use "
                "research.published.evaluation=logits.",
            )
        return found

    def _told(self, source: str, answers: Sequence[Sampled]) -> Flow[list[float | None]]:
        state, row = self._state(source), self._rows[source]
        state.run = run = QuestionRun(self.engine.settings, self.engine.context)
        texts = [whole_sentences(spoken(a.text).strip(), cut=not a.ended) for a in answers]
        texts = ["" if claim_key(t) == claim_key(row.abstention) else t for t in texts]
        candidates = yield from split(row.question, texts, 1, state.splits, run)
        new = state.cache.missing(claim for c in candidates for claim in c.claims)
        self.judged += len(new)
        yield from judge_claims(state, new)
        worth = [self._utility(state, candidate) for candidate in candidates]
        if run.trace.limit is not None:
            self._problem = str(run.trace.limit)
        lost = [claim for claim in new if _is_unknown(state, claim)]
        state.cache.forget(lost)  # asked again when it is written again
        for claim in lost:
            state.claims.pop(claim_key(claim), None)
        return worth

    def _utility(self, state: Search, candidate: Candidate) -> float | None:
        if any(_is_unknown(state, claim) for claim in candidate.claims):
            return None
        return expected_utility(state.probabilities(candidate), state.target)

    def _state(self, source: str) -> Search:
        """Restore the judged claims of a row, and the sentences that its search wrote."""
        if source not in self._states:
            row = self._rows[source]
            run = QuestionRun(self.engine.settings, self.engine.context)
            state = Search(row.question, run, row.passages, splits=Splits())
            for text, p in row.known.items():
                if p is not None:
                    state.cache.add(text, p)
                    state.claims[claim_key(text)] = Claim(text, p)
            written = [text for text, _ in row.candidates if claim_key(text) != claim_key(row.abstention)]
            state.candidates = [
                Candidate(t, tuple(Part(s.start, s.end, (s.text,)) for s in split_claims(t))) for t in written
            ]
            self._states[source] = state
        return self._states[source]


def _is_unknown(state: Search, claim: str) -> bool:
    """Return whether a claim could not be judged; one that no sentence is about counts as unsupported."""
    judged = state.claims.get(claim_key(claim))
    if judged is None or judged.support is not None:
        return judged is None
    return state.options.closed_book or bool(judged.citations)


_MEASURED = {"reward": "reward", "kl": "kl", "tokens": "completions/mean_length", "cut": "completions/clipped_ratio"}


def train_online(
    rows: Sequence[Prompted],
    model: Any,
    output: str | Path,
    reward: Reward,
    settings: OnlineSettings | None = None,
    *,
    tokenizer: Any = None,
    sources: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    reward_card: Mapping[str, Any] | None = None,
) -> TrainingResult:
    """Train on rewards of sampled answers; other arguments, result and errors as ``recipes.train``.

    ``card["online"]`` has the reward, the KL divergence from the starting model (nats per token), the tokens of an
    answer and the share that was cut off, averaged over the first and the last steps. Where there are fewer prompts
    than are sampled for at a time, they are repeated.

    Args:
        model: name or path, which TRL loads once more as the reference; under adapters, or with β = 0, also an object.
        reward: called with all answers that were sampled at a time.
        reward_card: description of the reward for the card; a training does not resume with another one.

    Raises:
        InputError: also where every prompt is too long for an answer of ``max_new_tokens`` after it.
        SelfReflectError: raised by the reward.
    """
    settings = settings or OnlineSettings()
    if not isinstance(model, (str, Path)) and settings.beta and not settings.adapts:
        raise InputError("RLOO compares with the model as it was: give its name or path.", hint="Or train adapters.")
    setup = prepare(model, output, settings, tokenizer=tokenizer)
    prompts, dropped = _encode(rows, setup.encoder, setup.limit - settings.max_new_tokens, settings.too_long)
    trainer = _make_trainer(setup, settings, prompts, reward, progress)
    lengths = [len(ids) for _, _, ids in prompts]
    card = setup.describe({"research rloo": len(rows)}, lengths, too_long=dropped, sources=sources)
    card["reward"] = dict(reward_card or {})
    begun = {"trainer": "rloo", "reward": card["reward"], "rows": digest([{"ids": ids} for _, _, ids in prompts])}
    return run(setup, trainer, begun, card, {"online": _MEASURED})


def _encode(
    rows: Sequence[Prompted], encoder: Encoder, room: int, too_long: str
) -> tuple[list[tuple[str, str, list[int]]], int]:
    """Encode prompts as (source, text, ids), and count those that leave no room for an answer."""
    found = [(row.source, plain_text(row.prompt), encoder.encode(row.prompt)) for row in rows]
    kept = [one for one in found if len(one[2]) <= room]
    if not kept or (too_long == "raise" and len(kept) < len(found)):
        raise InputError(
            f"{len(found) - len(kept)} of {len(found)} prompts leave no room for an answer: more than {room} tokens.",
            hint="Give a smaller max_new_tokens, or a larger max_length.",
        )
    return kept, len(found) - len(kept)


def _make_trainer(
    setup: Setup,
    settings: OnlineSettings,
    prompts: Sequence[tuple[str, str, list[int]]],
    reward: Reward,
    progress: Progress | None,
) -> Any:
    from datasets import Dataset
    from trl import RLOOConfig, RLOOTrainer

    ids = {text: given for _, text, given in prompts}
    ends = _ends(setup)

    class Encoded(RLOOTrainer):  # type: ignore[misc]  # TRL is not typed
        def _tokenize_prompts(self, prompts: list[str]) -> tuple[list[list[int]], None, dict[str, Any]]:
            """Use the ids of inference; TRL would encode untrusted text with its control tokens."""
            return [ids[prompt] for prompt in prompts], None, {}

    def utility(completions: list[str], completion_ids: list[list[int]], source: list[str], **_: Any) -> Any:
        cut = [not (given and given[-1] in ends) for given in completion_ids]
        return reward([Sampled(s, t, not c) for s, t, c in zip(source, completions, cut)])

    steps = _generation_steps(settings, setup.micro)
    together = steps * setup.micro * processes() // settings.samples
    chosen = list(prompts) * -(-together // len(prompts))  # TRL leaves out a batch that is not full
    arguments = {
        "beta": settings.beta,
        "num_generations": settings.samples,
        "max_completion_length": settings.max_new_tokens,
        "temperature": settings.temperature,
        "steps_per_generation": steps,
        "generation_kwargs": {"use_cache": True},
    }
    data = Dataset.from_list([{"prompt": text, "source": source} for source, text, _ in chosen])
    return make_trainer(setup, Encoded, RLOOConfig, arguments, data, progress=progress, reward_funcs=utility)


def _ends(setup: Setup) -> set[int]:
    """Collect the ids with which the model ends an answer."""
    own = setup.base.model.generation_config.eos_token_id
    return {setup.base.tokenizer.eos_token_id, *([own] if isinstance(own, int) else own or ())}


def _generation_steps(settings: OnlineSettings, micro: int) -> int:
    """Choose how many of a step's accumulated batches are sampled at a time: whole groups, within ``sample_batch``.

    All of them together are whole groups: the settings refuse other batch sizes.
    """
    accumulated = settings.batch_size // (micro * processes())
    whole = [
        n for n in range(1, accumulated + 1) if accumulated % n == 0 and n * micro * processes() % settings.samples == 0
    ]
    return max([n for n in whole if n * micro <= settings.sample_batch], default=whole[0])
