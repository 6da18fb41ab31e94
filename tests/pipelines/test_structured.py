"""Replies in JSON or LaTeX are read for the answer in them; neither is ever shown."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared_core import SelfReflectEngine, SelfReflectSettings
from shared_core.citation import CitationIndex
from shared_core.lm.base import Sample
from shared_core.lm.scripted import ScriptedLM
from shared_core.pipelines.reclaim.free import parse_reply, salvage
from shared_core.pipelines.structured import plain_reply, plain_text
from shared_core.types import Answer, Passage
from tests.fakes import Critic, FirstSentenceReader, Fixed

RIGHT = "Replacing the lock costs €85."
PASSAGE = Passage("a", f"{RIGHT} The monthly rent is €1,180.")
CITED = f"<reference>S1</reference><claim>{RIGHT}</claim>"


@pytest.mark.parametrize(
    ("reply", "plain"),
    [
        ({"answer": RIGHT}, RIGHT),
        ({"final_answer": RIGHT, "confidence": 0.9}, RIGHT),
        ({"Response": RIGHT, "thoughts": "Perhaps €95?"}, RIGHT),
        ({"lock": RIGHT}, RIGHT),
        ({"answer": 1871}, "1871"),
        ({"answer": RIGHT, "sources": ["S1"]}, CITED),
        ({"answer": RIGHT, "sources": [1]}, CITED),
        ({"answer": RIGHT, "references": "[1]"}, CITED),
        ({"answer": RIGHT, "sources": [{"id": "S1"}]}, CITED),
        ({"answer": RIGHT, "sources": ["lease.md"]}, RIGHT),
        ({"answer": RIGHT, "sources": [7]}, RIGHT),  # there is no such sentence
        ({"reference": "S1", "claim": RIGHT}, CITED),
        ({"claim": "It is so.", "quote": RIGHT}, f"<reference>{RIGHT}</reference><claim>It is so.</claim>"),
        ([{"reference": "S1", "claim": RIGHT}, {"reference": ["S1", "S2"], "claim": "B."}],
         f"{CITED}\n<reference>S1, S2</reference><claim>B.</claim>"),
        ({"claims": [{"text": RIGHT, "source": 1}]}, CITED),
        ({"answer": {"text": RIGHT}, "sources": [1]}, CITED),
        ({"answer": None}, "NO ANSWER"),
        ({"answer": "", "sources": [1]}, "NO ANSWER"),
        ({"claims": []}, "NO ANSWER"),
        ({"answer": True}, ""),
        ({"a": "x", "b": "y"}, ""),
        ({"reasoning": RIGHT}, ""),
        ({"sources": [1]}, ""),
    ],
)  # fmt: skip
@pytest.mark.parametrize("written", ["{}", "```json\n{}\n```", "Here it is:\n```\n{}\n```\nAsk for more!", "Sure.\n{}"])
def test_json_is_read_as_claims_or_prose(reply: object, plain: str, written: str) -> None:
    text = written.replace("{}", json.dumps(reply, ensure_ascii=False, indent=1))
    assert plain_reply(text, 2) == plain


@pytest.mark.parametrize(
    ("reply", "plain"),
    [
        (f'{{"answer": "{RIGHT}"}}\n{{"answer": "B."}}', f"{RIGHT}\nB."),
        (f'{{"answer": "{RIGHT}", "why": "Since the le', RIGHT),  # cut off: whole texts count
        ('{"answer": "Replacing the lo', ""),
        (f'{{"answer": "{RIGHT}",}}', RIGHT),
        ('{"answer": "Line one\nline two."}', "Line one line two."),
        (rf"$$\boxed{{\text{{{RIGHT}}}}}$$", RIGHT),
        (rf"\[\boxed{{{RIGHT}}}\]", RIGHT),
        (rf"\text{{{RIGHT}}}", RIGHT),
        (r"The fee is $\boxed{12}$.", "The fee is 12."),
        (r"The fee is \boxed{12}.", "The fee is 12."),
        (r"\boxed{\$85}", "$85"),
        (r"Write \text{x} in the formula.", r"Write \text{x} in the formula."),
        (CITED, CITED),
        ("[S1] It costs €85.", "[S1] It costs €85."),
        ("[1]", "[1]"),
        (f'"{RIGHT}"', f'"{RIGHT}"'),
        ("", ""),
    ],
)
def test_other_texts_are_taken_from_their_wrapping_or_left_as_they_are(reply: str, plain: str) -> None:
    assert plain_reply(reply, 2) == plain


@pytest.mark.parametrize("deep", ["[" * 5000, '{"a":' * 5000, r"\boxed{" * 5000, '{"answer": "' + "\\" * 5001])
def test_what_has_no_end_is_read_all_the_same(deep: str) -> None:
    assert isinstance(plain_reply(deep, 3), str)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.text(alphabet='{}[]":, \\$aS1\n', max_size=40))
def test_any_text_is_read(text: str) -> None:
    assert isinstance(plain_reply(text, 3), str)
    assert not plain_text(text).lstrip().startswith("{")


def test_nothing_that_begins_as_json_is_a_claim() -> None:
    index = CitationIndex([PASSAGE])
    broken = f"{{answer: {RIGHT}"
    assert parse_reply(f"<reference>S1</reference><claim>{broken}</claim>", index, [PASSAGE]) == []
    assert salvage(broken, index.sentences, 3) == []


# --- answers -------------------------------------------------------------------------------------------------------


def ask(reply: str | Sample, pipeline: str = "composed") -> Answer:
    reader = FirstSentenceReader(0.9, answerable=0.9)
    settings = SelfReflectSettings.model_validate({"pipeline": pipeline})
    engine = SelfReflectEngine(
        Fixed(PASSAGE), ScriptedLM(lambda request: reply), settings, reader=reader, critic=Critic()
    )
    return engine.answer("What does replacing the lock cost?")


FORMS = {
    "answer": json.dumps({"answer": RIGHT}, ensure_ascii=False),
    "pretty": json.dumps({"answer": RIGHT, "confidence": 0.9, "sources": ["S1"]}, ensure_ascii=False, indent=2),
    "pair": json.dumps({"reference": "S1", "claim": RIGHT}),
    "fenced": f'```json\n{{"answer": "{RIGHT}"}}\n```',
    "boxed": rf"$$\boxed{{\text{{{RIGHT}}}}}$$",
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("pipeline", ["composed", "reclaim", "self_rag", "research"])
def test_the_answer_is_shown_without_the_form_around_it(pipeline: str, form: str) -> None:
    answer = ask(FORMS[form], pipeline)
    assert answer.text == f"{RIGHT} [1]"
    if pipeline == "composed":
        assert answer.usage.calls == 1
        assert "answered_by" not in answer.metadata


def test_an_answer_left_empty_declines() -> None:
    answer = ask('{"answer": null, "sources": []}')
    assert [d.outcome for d in answer.trace if d.kind == "compare"] == ["the model declines"]


def test_a_wrong_answer_in_json_is_not_shown() -> None:
    answer = ask('{"answer": "Replacing the lock costs €95.", "sources": [1]}')
    assert "95" not in answer.text


def test_of_json_that_was_cut_off_no_half_is_shown() -> None:
    answer = ask(Sample('{"answer": "Replacing the lock costs €85. The monthly rent is €1', finish_reason="length"))
    assert answer.metadata["answered_by"] == "embedded default"
