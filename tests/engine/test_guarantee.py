"""``guarantee=`` on every pipeline: fitted on its own answers, applied, told of, refused where it is another's."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from shared_core import SelfReflectEngine, SelfReflectSettings
from shared_core.calibration import FittedGuarantee
from shared_core.calibration import io as calibration_io
from shared_core.errors import CalibrationError, InputError, SettingsError
from shared_core.evaluation.dataset import Question
from shared_core.evaluation.fitting import FitOptions, Fitted, fit
from shared_core.lm.scripted import ScriptedLM
from shared_core.reading.base import Read, Reading, ReadResult
from shared_core.reflection import RELEASED_IDS
from shared_core.support.run_log import RunLog
from shared_core.types import Answer, Passage
from tests.fakes import Critic, published
from tests.pipelines.self_rag_scripts import TRAINED, response, said, shown

KIND = "conformal_factuality"
GUARANTEED = {"guarantee": KIND, "guarantee_alpha": 0.1, "target_accuracy": 0.5}


class Numbered:
    """Passages by number: question ``What is item 7?`` finds the one on item 7."""

    def retrieve(self, query: str, k: int = 5) -> Sequence[Passage]:
        number = int("".join(c for c in query if c.isdigit()) or 0)
        return [Passage(f"p{number}", f"Item {number} is called name{number}.", "Items")]


class Rising:
    """Surer of items of higher numbers: of item i, i/100."""

    name = "rising"

    def read(self, requests: Sequence[Read]) -> list[Any]:
        return [ReadResult(tuple(self._one(r, p) for p in r.passages), 0.9) for r in requests]

    def _one(self, request: Read, passage: Passage) -> Reading:
        return Reading(passage.span(0, len(passage.text)), int(passage.id[1:]) / 100, 0.0)


def questions(right_from: int = 70, numbers: Sequence[int] = range(0, 100, 2)) -> list[Question]:
    """Items from ``right_from`` on are answered rightly."""
    return [
        Question(str(i), f"What is item {i}?", (f"name{i}" if i >= right_from else "nobody",), True) for i in numbers
    ]


def engine(calibrations: Any = None, **settings: Any) -> SelfReflectEngine:
    return SelfReflectEngine(
        Numbered(), settings=SelfReflectSettings(**settings), reader=Rising(), calibrations=calibrations
    )


def fitted(kind: Any = KIND, **more: Any) -> Fitted:
    asked = engine(target_accuracy=0.5, guarantee_alpha=0.1)
    options = more.pop("options", FitOptions(guarantee=kind))
    return fit("guarantee", asked, more.pop("rows", questions()), options, **more)


def test_a_stopped_run_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stopped(BaseException):
        """As a Ctrl-C."""

    def stop(done: int, total: int) -> None:
        if done >= 24:
            raise Stopped

    with pytest.raises(Stopped):
        fitted(progress=stop, kept=RunLog(tmp_path / "rows"))
    asked: list[str] = []
    retrieve = Numbered.retrieve
    monkeypatch.setattr(
        Numbered, "retrieve", lambda self, query, k=5: [asked.append(query), retrieve(self, query, k)][1]
    )
    resumed = fitted(kept=RunLog(tmp_path / "rows"))
    # Batches of 1, 2, 4, 8 and 16 were done when it stopped.
    assert sorted(q for q in asked if q.endswith("?")) == sorted(
        q.question for q in questions()[31:]
    )  # and definitions
    assert resumed == fitted()
    relabelled = [
        dataclasses.replace(q, metadata={"claims": [{"claim": f"Item {q.id} is called name{q.id}.", "label": True}]})
        for q in questions()
    ]
    asked.clear()
    corrected = fitted(rows=relabelled, kept=RunLog(tmp_path / "rows")).calibration
    assert corrected.right == corrected.claims > resumed.calibration.right
    assert not asked  # corrected labels cost no question


@pytest.mark.parametrize("kind", ["conformal_factuality", "conformal_risk_control", "learn_then_test"])
def test_what_is_shown_keeps_the_promise(kind: Any) -> None:
    made = fitted(kind).calibration
    asked = engine({"guarantee": made}, **{**GUARANTEED, "guarantee": kind})
    answers = [asked.answer(q.question) for q in questions(numbers=range(1, 100, 2))]
    shown = [a for a in answers if not a.abstained]
    assert 0 < len(shown) < 50  # without the guarantee all from 0.51 on would be
    assert all(a.claims[0].support > made.bar >= made.threshold for a in shown)  # type: ignore[operator]
    told = shown[0].metadata["guarantee"]
    assert told["kind"] == kind
    assert told["n"] == 50
    assert told["holds"]
    assert told["kept_share"] == made.kept_share
    assert "exchangeable" in told["text"]
    assert json.loads(json.dumps(shown[0].to_dict()))["metadata"]["guarantee"]["kind"] == kind


def test_an_abstention_for_the_guarantees_sake_says_so() -> None:
    asked = engine({"guarantee": fitted().calibration}, **GUARANTEED)
    low, middle = asked.answer("What is item 3?"), asked.answer("What is item 55?")
    assert low.reason == "support below target"
    assert middle.reason == "support below guarantee"
    assert "would break the guarantee" in middle.text
    assert middle.metadata["guarantee"]["kind"] == KIND
    assert not engine(target_accuracy=0.5).answer("What is item 55?").abstained
    assert next(d for d in middle.trace if d.kind == "guarantee").outcome == "holds"


def test_without_the_setting_nothing_is_promised() -> None:
    answer = engine({"guarantee": fitted().calibration}, target_accuracy=0.5).answer("What is item 55?")
    assert not answer.abstained
    assert "guarantee" not in answer.metadata


def test_asking_for_what_was_not_fitted_is_refused() -> None:
    with pytest.raises(CalibrationError, match="none was fitted"):
        engine(guarantee=KIND)
    with pytest.raises(SettingsError):
        engine(guarantee="certainty")


@pytest.mark.parametrize("other", [
    {"target_accuracy": 0.6}, {"guarantee_alpha": 0.2}, {"top_k": 2}, {"guarantee": "conformal_risk_control"},
    {"max_claims": 1}, {"signals": "support_only"},
])  # fmt: skip
def test_another_configuration_is_refused(other: dict[str, Any]) -> None:
    with pytest.raises(CalibrationError, match="was fitted for"):
        engine({"guarantee": fitted().calibration}, **{**GUARANTEED, **other})


def test_too_few_questions_are_refused() -> None:
    with pytest.raises(CalibrationError, match="too few"):
        fitted(rows=questions(numbers=range(3)))
    with pytest.raises(CalibrationError, match="No question can be judged"):
        fitted(rows=[Question("1", "What is item 1?")])


def test_one_that_keeps_nothing_says_that_it_is_vacuous() -> None:
    alike = [Question(str(n), "What is item 60" + "?" * n, ("nobody",), True) for n in range(50)]
    made = fitted(rows=alike).calibration
    assert made.vacuous
    answer = engine({"guarantee": made}, **GUARANTEED).answer("What is item 59?")
    assert answer.abstained
    assert answer.metadata["guarantee"]["vacuous"]
    assert answer.metadata["guarantee"]["text"].startswith("Vacuous")


def test_an_engine_that_applies_one_cannot_be_calibrated_again() -> None:
    asked = engine({"guarantee": fitted().calibration}, **GUARANTEED)
    with pytest.raises(InputError, match="already"):
        fit("guarantee", asked, questions(), FitOptions(guarantee=KIND))


def test_whoever_judges_may_leave_claims_out() -> None:
    options = FitOptions(guarantee=KIND, label=lambda question, claim: None if int(question.id) < 50 else True)
    made = fitted(options=options).calibration
    assert made.claims == 25
    assert made.right == 25


def test_questions_that_look_otherwise_are_told_of() -> None:
    asked = engine({"guarantee": fitted().calibration}, **GUARANTEED)
    usual = [asked.answer(q.question) for q in questions(numbers=range(1, 100, 2))]
    assert all(a.metadata["guarantee"]["holds"] for a in usual)
    strange = [asked.answer("Tell me, if you would be so kind, what it is that is item 95?") for _ in range(50)]
    told = strange[-1].metadata["guarantee"]
    assert not told["holds"]
    assert {"best support", "words of the question"} <= set(told["drift"])
    assert told["text"].startswith("In doubt")
    assert next(d for d in strange[-1].trace if d.kind == "guarantee").outcome == "in doubt"


def test_engines_over_other_retrievers_watch_together() -> None:
    """A query engine makes one for each question."""
    asked = engine({"guarantee": fitted().calibration}, **GUARANTEED)
    for _ in range(50):
        last = asked.over(Numbered()).answer("What on earth may it be that is called item 95?")
    assert not last.metadata["guarantee"]["holds"]


def test_it_goes_through_a_file(tmp_path: Path) -> None:
    made = fitted().calibration
    calibration_io.save(tmp_path / "c.json", {"guarantee": made})
    assert calibration_io.load(tmp_path / "c.json") == {"guarantee": made}
    asked = engine(calibration=tmp_path / "c.json", **GUARANTEED)
    assert isinstance(asked.context.guarantee, FittedGuarantee)
    assert asked.answer("What is item 55?").abstained


# --- every pipeline ------------------------------------------------------------------------------------------------


def by_number(quote: str, claim: str) -> float:
    """As sure of a claim as the number in it says."""
    return int("".join(c for c in claim if c.isdigit())[:2] or 0) / 100


def reply(request: Any) -> Any:
    text = request.prompt.text
    critic = {"How far": "fully", "How useful": "5", "leave part": "no", "yes or no": "yes"}  # Self-RAG's questions
    if found := next((word for question, word in critic.items() if question in text), None):
        return found
    number = "".join(c for c in text.split("item ", 1)[1][:2] if c.isdigit())
    name = f"Item {number} is called name{number}."
    if "<reference>" in text:
        return f"<reference>S1</reference><claim>{name}</claim>"
    if "Break the sentence" in text:
        return f"- {text.split('Sentence: ')[1].split(chr(10))[0]}"
    if "probability of the following" in text:
        return "95"
    if "Write the next sentence" in text:
        return [name] * request.params.n
    return [name] * request.params.n if request.params.n > 1 else f"So the answer is {name}"


def with_tokens(request: Any) -> Any:
    """The same, written by a model that was trained for Self-RAG."""
    number = "".join(c for c in shown(request.prompt).split("item ", 1)[1][:2] if c.isdigit())
    if not response(request):
        return said("[Retrieval]")
    return said(f"[Relevant]Item {number} is called name{number}.[Fully supported][Utility:5]")


@pytest.mark.parametrize("pipeline", ["composed", "reclaim", "research", "seakr", "self_rag", "self_rag with tokens"])
def test_every_pipeline_takes_one(pipeline: Any) -> None:
    trained = ScriptedLM(with_tokens, capabilities=TRAINED, token_ids=RELEASED_IDS)
    lm = trained if pipeline.endswith("tokens") else ScriptedLM(reply)
    pipeline = pipeline.split()[0]
    group = {"research": {"samples": 2, "rounds": 1}, "seakr": {"gate": "always", "samples": 2, "multi_hop": False}}
    own = {pipeline: group[pipeline]} if pipeline in group else {}

    def made(calibrations: Any = None, **settings: Any) -> SelfReflectEngine:
        values = published(pipeline=pipeline, target_accuracy=0.5, **own, **settings)
        return SelfReflectEngine(
            Numbered(), lm, values, judge=Critic(by_number), reader=Rising(), calibrations=calibrations
        )

    found = fit("guarantee", made(), questions(numbers=range(11, 100, 2)), FitOptions(guarantee=KIND)).calibration
    assert found.kept > 0
    asked = made({"guarantee": found}, guarantee=KIND)
    shown, kept_back = asked.answer("What is item 98?"), asked.answer("What is item 56?")
    assert isinstance(shown, Answer)
    assert not shown.abstained
    assert shown.metadata["guarantee"]["n"] == 45
    assert len(shown.metadata["claim_scores"]) == len(shown.claims)
    assert kept_back.abstained
    assert kept_back.reason == "support below guarantee"
    assert not made().answer("What is item 56?").abstained


def test_a_repeated_question_is_no_further_evidence(caplog: pytest.LogCaptureFixture) -> None:
    once = questions()
    copies = [dataclasses.replace(q, id=f"{q.id}-{n}", question=q.question.upper()) for q in once[:9] for n in range(3)]
    options = FitOptions(guarantee=KIND)
    made = fit("guarantee", engine(target_accuracy=0.5), [*once, *copies], options).calibration
    assert made == fit("guarantee", engine(target_accuracy=0.5), once, options).calibration
    assert "27 of 77 questions repeat others" in caplog.text
    with pytest.raises(CalibrationError, match="5 questions are too few"):
        fit("guarantee", engine(target_accuracy=0.5), once[:5] * 20, options)
    caplog.clear()
    fit("guarantee", engine(target_accuracy=0.5), [*once, dataclasses.replace(once[0], answers=("name0",))], options)
    assert "2 rows give other labels to a question than another row does" in caplog.text
