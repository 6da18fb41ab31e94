"""ReSearch and guarantees through the query engine: an ordinary Response, with what a program can branch on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from llamaindex_selfreflect import SelfReflectCitationQueryEngine, SelfReflectQueryEngine, SelfReflectResponse
from shared_core import SelfReflectSettings
from shared_core.calibration import io as calibration_io
from shared_core.errors import AbstainedError, CalibrationError
from shared_core.evaluation.fitting import FitOptions, fit
from tests.engine.test_guarantee import Numbered, Rising, questions
from tests.fakes import FirstSentenceReader
from tests.llamaindex.li_fakes import QUESTION, NodeShelf
from tests.pipelines.research_scripts import Judge, Model, settings

LIT, OIL = "The lamp was lit in 1871.", "It burned whale oil."


def engine(model: Model, streaming: bool = False, **options: Any) -> SelfReflectQueryEngine:
    return SelfReflectQueryEngine.from_args(
        NodeShelf(),
        llm=model.lm,
        settings=settings(**options),
        judge=Judge({"1871": 0.95, "oil": 0.9}),
        reader=FirstSentenceReader(0.9),
        streaming=streaming,
    )


def test_the_candidate_comes_as_a_response_with_its_sources() -> None:
    response = engine(Model([[f"{LIT} {OIL}"]])).query(QUESTION)
    assert isinstance(response, SelfReflectResponse)
    assert str(response) == f"{LIT} [1] {OIL} [2]"
    assert [n.node.node_id for n in response.source_nodes] == ["lamp", "lamp"]
    place = response.citations[1].additional_location_info
    assert str(response)[place["answer_start"] : place["answer_end"]] == OIL


def test_streamed_pieces_are_the_text() -> None:
    response: Any = engine(Model([[f"{LIT} {OIL}"]]), streaming=True).query(QUESTION)
    assert "".join(response.response_gen) == f"{LIT} [1] {OIL} [2]"


def test_an_abstention_is_an_ordinary_response_that_says_why() -> None:
    response = engine(Model([["Something else."]])).query(QUESTION)
    assert isinstance(response, SelfReflectResponse)
    assert response.answer.abstained
    assert response.answer.reason in ("unsupported here", "support below target")
    unknown = engine(Model([[LIT]], think=lambda r: "5"), closed_book=True).query(QUESTION)
    assert isinstance(unknown, SelfReflectResponse)
    assert unknown.answer.reason == "model does not know"


@pytest.mark.parametrize("wrapper", [SelfReflectQueryEngine, SelfReflectCitationQueryEngine])
def test_every_query_engine_abstains_by_target_and_guarantee(wrapper: Any, tmp_path: Path) -> None:
    def made(**options: Any) -> Any:
        given = {"judge": Judge({"1871": 0.95}), "reader": FirstSentenceReader(0.9), "pipeline": "research"}
        return wrapper(NodeShelf(), llm=Model([[LIT]]).lm, **{**given, "settings": settings(), **options})

    assert str(made(target_accuracy=0.5).query(QUESTION)) == f"{LIT} [1]"
    response = made(target_accuracy=0.97).query(QUESTION)
    assert isinstance(response, SelfReflectResponse)
    assert response.answer.abstained
    assert response.answer.reason == "support below target"
    told = response.metadata["selfreflect"]
    assert told["abstained"] is True
    assert told["reason"] == "support below target"
    with pytest.raises(AbstainedError):
        made(target_accuracy=0.97, on_abstain="raise").query(QUESTION)
    with pytest.raises(CalibrationError, match="none was fitted"):
        made(guarantee="conformal_factuality")


def test_a_guarantee_by_one_argument(tmp_path: Path) -> None:
    def made(**options: Any) -> SelfReflectQueryEngine:
        return SelfReflectQueryEngine(Numbered(), reader=Rising(), **options)

    engine = made(target_accuracy=0.5)
    fitted = fit("guarantee", engine._shared, questions(), FitOptions(guarantee="conformal_factuality"))
    calibration_io.save(tmp_path / "c.json", {"guarantee": fitted.calibration})
    values = SelfReflectSettings(calibration=tmp_path / "c.json", target_accuracy=0.5)
    promising: Any = made(settings=values, guarantee="conformal_factuality").query("What is item 55?")
    assert promising.answer.reason == "support below guarantee"
    assert promising.answer.metadata["guarantee"]["n"] == 50
    assert not made(settings=values).query("What is item 55?").answer.abstained  # type: ignore[union-attr]
    with pytest.raises(CalibrationError):
        made(guarantee="conformal_factuality")
    held: Any = {"guarantee": fitted.calibration}
    given: Any = made(target_accuracy=0.5, guarantee="conformal_factuality", calibrations=held)
    assert given.query("What is item 55?").answer.reason == "support below guarantee"
