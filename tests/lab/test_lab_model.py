"""What the shipped model can and cannot do: it is trained, not random, and the pipelines' claims hold on it."""

from __future__ import annotations

import pytest

from shared_core import SelfReflectEngine, SelfReflectSettings
from shared_core.evaluation.confidence import auroc
from shared_core.lab import World, lab_card
from shared_core.lab.checkpoint import CHECKPOINT
from shared_core.lab.measure.knowing import measured
from shared_core.lab.measure.setting import Counts, Lab, is_right, shown
from shared_core.lab.measure.verdicts import attack, verdicts
from shared_core.lm.transformers import TransformersLM
from shared_core.types import iter_spans


def test_the_card_says_what_the_model_was_made_from(world: World) -> None:
    card = lab_card()
    assert card["world"] == {"seed": 0, "fingerprint": world.fingerprint}
    assert card["curve"]
    assert 3e6 < card["parameters"] < 15e6
    assert sum(f.stat().st_size for f in CHECKPOINT.iterdir()) <= 20e6


def test_it_is_a_white_box(lab_lm: TransformersLM) -> None:
    names = lab_lm.capabilities.names()
    assert {"token_logprobs", "grammar", "hidden_states", "score"} <= set(names)


def test_what_it_was_trained_on_it_knows_and_it_is_surer_of_it(lab: Lab) -> None:
    known = measured(lab, lab.questions(("single",), 24, "test", known=True, name="test"))
    strange = measured(lab, lab.questions(("single",), 24, "test", known=False, name="test"))
    assert sum(m.right for m in known) >= 16
    assert sum(m.right for m in strange) <= 8
    sure = [-m.values["gram"] for m in (*known, *strange)]
    assert auroc(sure, [1.0] * len(known) + [0.0] * len(strange)) >= 0.8


def test_a_passage_gives_it_answers_that_it_does_not_know(lab: Lab) -> None:
    questions = lab.questions(("single",), 24, "test", known=False, name="test")
    alone = measured(lab, questions)
    reading = measured(lab, questions, [lab.gold(q) for q in questions])
    assert sum(m.right for m in reading) >= sum(m.right for m in alone) + 8


def test_verdicts_agree_with_the_truth_more_often_than_any_guess(lab: Lab) -> None:
    assert verdicts(lab, Counts(verdicts=80))["verdict_accuracy"] >= 0.7


def test_control_strings_in_documents_turn_no_verdict(lab: Lab) -> None:
    found = attack(lab, Counts(attack=12))
    assert found["spoof_success_safe"] <= 0.1
    assert found["spoof_success_safe"] <= found["spoof_success_unsafe"]


def test_quotes_are_verbatim_and_offsets_exact(lab: Lab) -> None:
    engine = SelfReflectEngine(lab.retriever, lab.lm, SelfReflectSettings(pipeline="reclaim", top_k=3))
    for question in lab.questions(("single",), 4, "test", name="test"):
        answer = engine.answer(question.text)
        for span in iter_spans(answer.claims):
            text = next(p.text for p in answer.passages if p.id == span.passage_id)
            assert text[span.start : span.end] == span.text


@pytest.mark.parametrize("pipeline", ["composed", "self_rag", "reclaim"])
def test_a_pipeline_answers_some_of_what_documents_answer_and_little_of_what_they_do_not(
    pipeline: str, lab: Lab
) -> None:
    settings = SelfReflectSettings(pipeline=pipeline, top_k=3)  # type: ignore[arg-type]
    engine = lab.engine(settings)
    asked = lab.questions(("single",), 8, "test", known=False, name="test")
    right = [is_right(shown(engine.answer(q.text)), q) for q in asked]
    assert sum(right) >= 2
    nobody = lab.questions(("invented",), 6, "test", name="test")
    assert sum(engine.answer(q.text).abstained for q in nobody) >= 4
