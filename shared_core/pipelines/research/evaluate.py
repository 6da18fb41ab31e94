"""Estimate P(claim) by the model's own self-consistency (Piché et al., section 4).

Each claim is judged several times, each time beside another random subset of the sentences of candidates other than the
one that made it; the probabilities are averaged. A reply without a probability is missing: it is counted and reported,
not averaged.
"""

from __future__ import annotations

from collections.abc import Sequence

from shared_core.abstention import SelfConsistency, parse_probability, random_subsets, self_consistency
from shared_core.calibration.binding import BindingValue
from shared_core.calibration.calibration import Calibration
from shared_core.errors import CapabilityError, LimitError
from shared_core.lm.base import Generation, SamplingParams
from shared_core.pipelines.decision.question_run import Abilities, QuestionRun, within_limits
from shared_core.pipelines.research.asking import evaluate_prompt, spoken
from shared_core.pipelines.support import NO, YES, judgement_of
from shared_core.runtime.flow import Flow, Generate, Score
from shared_core.settings import SelfReflectSettings

SELF_EVALUATION = "self_evaluation"
"""The purpose under which what a model says of its own claims is calibrated."""


def evaluation_binding(settings: SelfReflectSettings, context: Abilities) -> dict[str, BindingValue]:
    """Bind a calibration of self-evaluation to writer, judge and prompts."""
    options = settings.research
    return {
        "model": context.model_name("default"),
        "judge model": context.model_name("judge"),
        "evaluation": options.published.evaluation,
        "prompts": options.published.prompts,
        "self_consistency_samples": options.published.self_consistency_samples,
        "subset_sentences": options.published.subset_sentences,
        "sources": "other candidates",  # before, the claim's own sentence was among them
    }


def self_evaluation_of(settings: SelfReflectSettings, context: Abilities) -> Calibration | None:
    """The calibration that was fitted for it, where there is one and self-evaluation decides (closed book).

    CalibrationError if it was fitted for another configuration.
    """
    fitted = context.calibrations.get(SELF_EVALUATION)
    if fitted is None or settings.pipeline != "research" or not settings.research.closed_book:
        return None
    return fitted.require(**evaluation_binding(settings, context))


def evaluate(
    question: str, claims: Sequence[str], sources: Sequence[Sequence[str]], start: int, run: QuestionRun
) -> Flow[tuple[list[SelfConsistency], LimitError | None]]:
    """P(true) of claims by the model's own word, all subsets of all claims in one batch.

    Args:
        sources: for each claim the sentences to draw its subsets from; if no claim has any, each is judged once.
        start: number of the first claim among all of this question's, for the seed of its subsets.

    Returns:
        One for each claim that was judged, the first ones in order, and the limit that left others undone.

    Raises:
        CapabilityError: ``evaluation="logits"`` and the model gives neither scores nor log-probabilities.
    """
    options = run.settings.research
    # Without other sentences all subsets are empty, and the judge would be asked the same question k times.
    count = options.published.self_consistency_samples if any(sources) else 1
    # Seeded by the claim's number in the whole search: repeatable, and claims do not share their subsets.
    seeds = [None if run.settings.seed is None else run.settings.seed + start + i for i in range(len(claims))]
    size = options.published.subset_sentences
    subsets = [random_subsets(some, count, size, seed) for some, seed in zip(sources, seeds, strict=True)]
    # Whole claims only: a mean over fewer subsets would not be comparable (or calibrated).
    replies, limit = yield from within_limits(_requests(question, list(zip(claims, subsets)), run), count)
    stated = options.published.evaluation == "verbalised"
    said = [judgement_of(r, (lambda text: parse_probability(spoken(text))) if stated else None) for r in replies]
    # Replies are in order, ``count`` for each claim; the last claims are missing after a limit.
    found = [self_consistency(said[i : i + count]) for i in range(0, len(said), count)]
    missing = sum(f.missing for f in found)
    example = next((r.text for r, p in zip(replies, said) if p is None and isinstance(r, Generation)), "")
    yield run.note(
        "evaluate",
        f"{sum(f.probability is not None for f in found)} of {len(claims)} claims",
        f"the model's own word ({options.published.evaluation}), mean over {count} subsets"
        + (f"; {missing} replies state no probability, for instance “{example.strip()[:60]}”" if missing else ""),
        missing=missing,
    )
    return found, limit


def _requests(
    question: str, claims: Sequence[tuple[str, list[list[str]]]], run: QuestionRun
) -> tuple[Generate | Score, ...]:
    """One for each claim and subset, as the settings say."""
    options, seed = run.settings.research, run.settings.seed
    asked = [(claim, subset) for claim, subsets in claims for subset in subsets]
    if options.published.evaluation == "verbalised":
        params = SamplingParams(max_tokens=12, seed=seed)  # "Probability: 95/100" and the like
        return tuple(Generate(evaluate_prompt(question, s, c, options), params, model="judge") for c, s in asked)
    prompts = [evaluate_prompt(question, s, c, options, yes_no=True) for c, s in asked]
    # Scoring reads P(yes) and P(no) exactly; from the first token only the words that were reported are known.
    model = run.abilities.model("judge")
    if model is not None and model.score:
        # Those of yes first: share_of_yes tells them apart by their place.
        return tuple(Score(p, (*YES, *NO), model="judge") for p in prompts)
    if model is None or not model.token_logprobs:
        raise CapabilityError(
            "token_logprobs",
            run.abilities.model_name("judge"),
            hint="research.published.evaluation='verbalised' needs none; or use a model that gives log-probabilities.",
        )
    params = SamplingParams(max_tokens=3, logprobs=True)  # room for a quotation mark or "**" before the word
    return tuple(Generate(p, params, model="judge") for p in prompts)
