"""ReSearch and guarantees through the chain: an ordinary AIMessage, with what a program can branch on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from langchain_selfreflect import SelfReflectChain
from shared_core import SelfReflectSettings
from shared_core.calibration import io as calibration_io
from shared_core.errors import CalibrationError
from shared_core.evaluation.fitting import FitOptions, fit
from tests.engine.test_guarantee import Numbered, Rising, questions
from tests.fakes import FirstSentenceReader
from tests.langchain.lc_fakes import QUESTION, ShelfRetriever
from tests.pipelines.research_scripts import Judge, Model, settings

LIT, OIL = "The lamp was lit in 1871.", "It burned whale oil."


def chain(model: Model, **options: Any) -> SelfReflectChain:
    return SelfReflectChain(
        retriever=ShelfRetriever(),
        llm=model.lm,
        settings=settings(**options),
        judge=Judge({"1871": 0.95, "oil": 0.9}),
        reader=FirstSentenceReader(0.9),
    )


def test_the_candidate_comes_as_a_message_with_its_citations() -> None:
    message = chain(Model([[f"{LIT} {OIL}"]])).invoke(QUESTION)
    assert message.text == f"{LIT} [1] {OIL} [2]"
    (block,) = message.content_blocks
    places = [(a["start_index"], a["end_index"]) for a in dict(block)["annotations"]]
    assert [message.text[start:end] for start, end in places] == [LIT, OIL]


def test_streamed_chunks_are_the_text() -> None:
    chunks = list(chain(Model([[f"{LIT} {OIL}"]])).stream(QUESTION))
    assert "".join(c.text for c in chunks) == f"{LIT} [1] {OIL} [2]"


def test_an_abstention_is_an_ordinary_message_that_says_why() -> None:
    told = chain(Model([[LIT]], think=lambda r: "5"), closed_book=True).invoke(QUESTION)
    metadata = told.response_metadata["selfreflect"]
    assert metadata["abstained"]
    assert metadata["reason"] == "model does not know"


def test_a_guarantee_by_one_argument(tmp_path: Path) -> None:
    def made(**options: Any) -> SelfReflectChain:
        return SelfReflectChain(retriever=Numbered(), reader=Rising(), **options)

    fitted = fit(
        "guarantee", made(target_accuracy=0.5).engine, questions(), FitOptions(guarantee="conformal_factuality")
    )
    calibration_io.save(tmp_path / "c.json", {"guarantee": fitted.calibration})
    values = SelfReflectSettings(calibration=tmp_path / "c.json", target_accuracy=0.5)
    promising = made(settings=values, guarantee="conformal_factuality").invoke("What is item 55?")
    metadata = promising.response_metadata["selfreflect"]
    assert metadata["reason"] == "support below guarantee"
    assert metadata["metadata"]["guarantee"]["n"] == 50
    assert not made(settings=values).invoke("What is item 55?").response_metadata["selfreflect"]["abstained"]
    with pytest.raises(CalibrationError):
        made(guarantee="conformal_factuality")
    given = made(target_accuracy=0.5, guarantee="conformal_factuality", calibrations={"guarantee": fitted.calibration})
    assert given.invoke("What is item 55?").response_metadata["selfreflect"]["reason"] == "support below guarantee"
