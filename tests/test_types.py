from __future__ import annotations

import copy
import dataclasses
import json
import pickle

import pytest

from shared_core.errors import InputError, PassageError, SettingsError
from shared_core.settings import SelfReflectSettings
from shared_core.types import Answer, Citation, Claim, Decision, Passage, Span, Usage

PASSAGE = Passage("p1", "The lamp was lit in 1871. It burned oil.", "Lamps", {"source": "a.md", "start": 0})


def answer() -> Answer:
    span = PASSAGE.span(0, 25)
    claim = Claim("The lamp was lit in 1871.", 0.9, (Citation((span,)),), 0, 25, short_answer="1871")
    return Answer(
        "When?",
        "The lamp was lit in 1871. [1]",
        (claim,),
        (PASSAGE,),
        confidence=0.9,
        utility=0.5,
        trace=(Decision("keep", "1 of 1", values={"support": 0.9, "odd": float("nan")}),),
        usage=Usage(calls=1),
        metadata={"pipeline": "composed"},
    )


def test_an_answer_survives_json() -> None:
    data = json.loads(json.dumps(answer().to_dict(), allow_nan=False))
    again = Answer.from_dict(data)
    assert again.claims == answer().claims
    assert again.passages == answer().passages
    assert again.usage == answer().usage
    assert again.trace[0].values["odd"] is None
    assert again.to_dict() == data


@pytest.mark.parametrize("copier", [copy.copy, copy.deepcopy, lambda v: pickle.loads(pickle.dumps(v))])
def test_values_can_be_copied_and_pickled(copier) -> None:  # type: ignore[no-untyped-def]
    assert copier(answer()) == answer() or copier(answer()).to_dict() == answer().to_dict()
    assert copier(PASSAGE) == PASSAGE


def test_values_become_dicts_and_json_with_their_metadata() -> None:
    passage = Passage("p", "t", metadata={"source": "a.md"})
    answer = Answer(
        "Q?", "A.", passages=(passage,), trace=(Decision("keep", "1", values={"k": 1}),), metadata={"n": [1]}
    )
    plain = json.loads(json.dumps(dataclasses.asdict(answer)))
    assert (plain["passages"][0]["metadata"], plain["metadata"]) == ({"source": "a.md"}, {"n": [1]})
    assert plain["trace"][0]["values"] == {"k": 1}
    assert copy.deepcopy(answer) == pickle.loads(pickle.dumps(answer)) == answer
    for change in (dict.clear, dict.popitem):
        with pytest.raises(TypeError, match="copy"):
            getattr(passage.metadata, change.__name__)()


def test_a_passage_cannot_be_changed_through_its_metadata() -> None:
    given = {"source": "a.md"}
    passage = Passage("p", "t", metadata=given)
    given["source"] = "b.md"
    assert passage.metadata["source"] == "a.md"
    with pytest.raises(TypeError):
        passage.metadata["source"] = "c.md"  # type: ignore[index]


@pytest.mark.parametrize("bad", ["", None, 3])
def test_a_passage_needs_an_id(bad: object) -> None:
    with pytest.raises(PassageError):
        Passage(bad, "text")  # type: ignore[arg-type]


def test_a_span_outside_its_passage_is_refused() -> None:
    with pytest.raises(InputError):
        PASSAGE.span(3, 999)
    with pytest.raises(InputError):
        Span("p1", 0, 3, "four")


@pytest.mark.parametrize("value", [float("nan"), 1.5, -0.1])
def test_support_is_a_probability_or_unknown(value: float) -> None:
    with pytest.raises(InputError):
        Claim("c", value)


def test_an_abstention_needs_a_reason() -> None:
    with pytest.raises(InputError):
        Answer("q", "", abstained=True)


def test_numbered_spans_leave_no_gaps_and_no_repetition() -> None:
    span = PASSAGE.span(0, 25)
    other = PASSAGE.span(26, 40)
    claims = (
        Claim("a", 0.9, (Citation((span,)),)),
        Claim("b", 0.1, (Citation((other,)),), status="dropped"),
        Claim("c", 0.9, (Citation((span,)),)),
    )
    assert Answer("q", "a c", claims, (PASSAGE,)).numbered_spans() == [span]


def test_an_ambiguous_citation_shows_each_text_once() -> None:
    first, second = Span("a", 0, 2, "hi"), Span("b", 4, 6, "hi")
    assert Citation((first, second), ambiguous=True).primary == (first,)


@pytest.mark.parametrize("value", [0, 1, -0.2, 1.2, float("nan"), "high"])
def test_target_accuracy_outside_its_range_is_refused(value: object) -> None:
    with pytest.raises(SettingsError, match="target_accuracy"):
        SelfReflectSettings(target_accuracy=value)
