"""``GatedRetriever``: retrieves only when needed, and says why."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import math
import re
from typing import Any

import pytest

from shared_core.calibration import Calibration
from shared_core.errors import (
    BackendUnavailableError,
    CalibrationError,
    ContextOverflowError,
    InputError,
    QuestionError,
    SettingsError,
)
from shared_core.facades.gated_retriever import GatedRetriever
from shared_core.lm.base import Capabilities, Generate, Sample
from shared_core.lm.scripted import ScriptedLM
from shared_core.pipelines.decision.question_run import Abilities
from shared_core.pipelines.gating.choose import choose_estimator
from shared_core.uncertainty import gram_uncertainty
from tests.fakes import Shelf
from tests.pipelines.scripts import SURE, UNSURE, WHITE, made, scripted, states

QUESTION = "When was the lamp lit?"


def gated(level: float = UNSURE, text: str = " In 1871.\n", gate: Any = "uncertainty", **more: Any) -> GatedRetriever:
    low = more.pop("low", None)
    lm = scripted(lambda body: (text, level), low)
    return GatedRetriever(Shelf(), lm, made(**more), gate=gate)


def test_an_unsure_model_retrieves_and_the_passages_say_why() -> None:
    result = gated().ask(QUESTION, k=1)
    assert result.retrieved
    assert result.draft == "In 1871."
    (passage,) = result.passages
    notes = {k: v for k, v in passage.metadata.items() if k.startswith("selfreflect")}
    assert notes == {
        "selfreflect_gate": "uncertainty",
        "selfreflect_reason": f"uncertainty {gram_uncertainty(states(4, UNSURE)):.3f} > 0.000",
        "selfreflect_query": QUESTION,
        "selfreflect_estimator": "gram",
        "selfreflect_uncertainty": gram_uncertainty(states(4, UNSURE)),
    }
    assert passage.metadata["source"] == "lamps.md"
    assert [d.kind for d in result.trace] == ["estimator", "gate"]


def test_a_sure_model_does_not() -> None:
    shelf = Shelf()
    retriever = GatedRetriever(shelf, scripted(lambda body: (" In 1871.\n", SURE)), made())
    assert list(retriever.retrieve(QUESTION)) == []
    assert shelf.queries == []
    assert retriever.ask(QUESTION).draft == "In 1871."


@pytest.mark.parametrize("text", ["", "\n", " unknown.\n", " Unknown"])
def test_no_answer_retrieves(text: str) -> None:
    assert gated(SURE, text).ask(QUESTION).retrieved


def test_an_unknown_uncertainty_retrieves() -> None:
    result = gated(math.nan).ask(QUESTION)
    assert result.retrieved
    assert result.passages[0].metadata["selfreflect_uncertainty"] is None


@pytest.mark.parametrize(("gate", "estimator"), [
    ("flare", "gram"), ("uncertainty", "perplexity"), ("uncertainty", "multi_perplexity"),
])  # fmt: skip
def test_figures_that_the_model_does_not_give_as_promised_are_unknown(gate: Any, estimator: str) -> None:
    numbers = itertools.count()

    def reply(request: Generate) -> list[Sample]:  # every other sample, none of the drafts
        silent = Sample(" In 1871.\n")
        told = dataclasses.replace(silent, tokens=(" In",), logprobs=(-0.1,))
        return [told if next(numbers) % 2 else silent for _ in range(request.params.n)]

    lm = ScriptedLM(reply, capabilities=Capabilities(token_logprobs=True))
    result = GatedRetriever(Shelf(), lm, made(estimator=estimator), gate=gate).ask(QUESTION)
    assert result.retrieved
    assert result.passages[0].metadata["selfreflect_uncertainty"] is None
    assert re.search("not known|unknown", result.trace[-1].reason)
    assert result.trace[-1].values["uncertainty"] is None


def test_always_needs_no_model() -> None:
    result = GatedRetriever(Shelf(), gate="always").ask(QUESTION)
    assert result.retrieved
    assert result.draft == ""
    assert result.passages[0].metadata["selfreflect_gate"] == "always"


def test_flare_reads_one_greedy_answer_and_no_samples() -> None:
    lm = scripted(lambda body: (" It was lit in 1871 by Venn.\n", UNSURE), {"1871": 0.2, "Venn": 0.7})
    shelf = Shelf()
    result = GatedRetriever(shelf, lm, made(), gate="flare").ask(QUESTION)
    assert lm.batches == [1]
    assert shelf.queries == ["It was lit in by Venn."]
    assert result.retrieved
    assert "p ≤ 0.8" in result.trace[-1].reason
    sure = GatedRetriever(Shelf(), scripted(lambda body: (" In 1871.\n", UNSURE)), made(), gate="flare")
    assert not sure.ask(QUESTION).retrieved


def test_flare_does_not_mind_a_calibration_for_another_gate() -> None:
    other = {"gate": Calibration("platt", False, {"model": "other"}, slope=-1.0, threshold=0.0)}
    lm = scripted(lambda body: (" In 1871.\n", UNSURE))
    assert not GatedRetriever(Shelf(), lm, made(), gate="flare", calibrations=other).ask(QUESTION).retrieved


def test_flare_without_token_probabilities_goes_by_uncertainty_and_says_so() -> None:
    lm = scripted(lambda body: (" In 1871.\n", SURE), capabilities=Capabilities(hidden_states=True))
    result = GatedRetriever(Shelf(), lm, made(), gate="flare").ask(QUESTION)
    assert "uncertainty instead" in result.trace[0].reason
    assert not result.retrieved


@pytest.mark.parametrize("model", ["scripted", "another"])
def test_calibrated_thresholds_are_bound_to_the_model(model: str) -> None:
    settings = made(threshold=None)
    chosen = choose_estimator(settings, Abilities({"default": WHITE}, {"default": "scripted"}, has_embedder=True))
    bound = {"model": "scripted", **chosen.binding}
    calibrations = {"gate": Calibration("platt", False, bound, slope=-1.0, threshold=0.0, n=50)}
    lm = scripted(lambda body: (" In 1871.\n", SURE), name=model)
    retriever = GatedRetriever(Shelf(), lm, settings, calibrations=calibrations)
    if model == "scripted":
        result = retriever.ask(QUESTION)
        assert not result.retrieved
        assert "calibrated on 50" in result.trace[0].reason
    else:
        with pytest.raises(CalibrationError, match="another"):
            retriever.ask(QUESTION)


def test_an_uncalibrated_gate_retrieves_without_a_call() -> None:
    lm = scripted(lambda body: (" In 1871.\n", 1e-6))
    result = GatedRetriever(Shelf(), lm, made(threshold=None, samples=20)).ask(QUESTION)
    assert result.retrieved
    assert "no threshold is known" in result.trace[-1].reason
    assert lm.requests == []


def test_wrong_use_is_refused_early() -> None:
    with pytest.raises(SettingsError, match="no gate"):
        GatedRetriever(Shelf(), gate="sometimes")  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="needs a language model"):
        GatedRetriever(Shelf())
    with pytest.raises(InputError, match="not a retriever"):
        GatedRetriever(object(), gate="always")  # type: ignore[arg-type]
    with pytest.raises(QuestionError):
        gated().ask("  ")
    with pytest.raises(InputError, match="k must be"):
        gated().ask(QUESTION, k=0)


@pytest.mark.parametrize("error", [ContextOverflowError(9, 8), BackendUnavailableError("down")])
def test_errors_of_the_model_are_raised(error: Any) -> None:
    with pytest.raises(type(error)):
        GatedRetriever(Shelf(), scripted(lambda body: error), made()).ask(QUESTION)


def test_async_gives_the_same() -> None:
    assert asyncio.run(gated().aask(QUESTION)) == gated().ask(QUESTION)
    assert asyncio.run(gated().aretrieve(QUESTION)) == gated().retrieve(QUESTION)


@pytest.mark.parametrize("gate", ["uncertainty", "flare", "dragin"])
def test_with_a_real_model(tiny_lm: Any, gate: Any) -> None:
    never: dict[str, Any] = {"threshold": 1e9, "flare_threshold": 0.0, "dragin_threshold": 1e9}
    ever: dict[str, Any] = {"threshold": -1e9, "flare_threshold": 1.0, "dragin_threshold": 1e-9}
    for values, expected in ((never, False), (ever, True)):
        settings = made(samples=3, max_step_tokens=6, **values)
        result = GatedRetriever(Shelf(), tiny_lm, settings, gate=gate).ask(QUESTION)
        assert result.retrieved is expected
        assert result.draft
        assert math.isfinite(float(result.trace[-1].values["uncertainty"] or math.nan))


def test_prompts_end_where_a_short_answer_is_due() -> None:
    lm = scripted(lambda body: (" In 1871.\n", SURE))
    GatedRetriever(Shelf(), lm, made()).ask(QUESTION)
    assert isinstance(lm, ScriptedLM)
    texts = {r.prompt.text for r in lm.requests if isinstance(r, Generate)}
    assert len(texts) == 1
    assert texts.pop().endswith(f"Question: {QUESTION}\nAnswer: So the answer is")
