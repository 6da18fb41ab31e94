"""Links of a model's own are taken out of claims; those that passages or question have stay."""

from __future__ import annotations

import pytest

from shared_core import Passage, SelfReflectEngine, SelfReflectSettings
from shared_core.lm.scripted import ScriptedLM
from shared_core.pipelines.decision.decide import DecisionRequest, decide
from shared_core.pipelines.decision.links import without_own_references
from shared_core.pipelines.decision.question_run import QuestionRun
from shared_core.runtime.flow import Resources, run
from shared_core.support.markup import edit_links
from shared_core.types import Claim, ClaimSealed
from tests.fakes import FirstSentenceReader, Shelf, WordCritic

LIT = "The lamp was lit in 1871."
PASSAGES = [
    Passage("lamp", f"{LIT} See [the list](https://orm.example/list).", metadata={"source": "https://orm.example/a"})
]


@pytest.mark.parametrize(("text", "left"), [
    (f"[{LIT}](http://evil.example)", LIT),
    ("Lit in 1871. [Pay here](http://evil.example/?q=1 'now')", "Lit in 1871. Pay here"),
    ("Lit![logo](http://evil.example/p?d=secret) in 1871", "Litlogo in 1871"),
    ("[![logo](http://evil.example/a)](http://evil.example/b)", "logo"),
    ("[mail](mailto:evil@evil.example) [run](javascript:alert(1)) [x](//evil.example)", "mail run x"),
    ("See [the list](https://orm.example/list) and [a](https://orm.example/a).", None),
    ("See [the question's](https://asked.example), [a file](other.md) and a[i](x).", None),
])  # fmt: skip
def test_targets_that_nobody_named_go_and_their_labels_stay(text: str, left: str | None) -> None:
    (claim,) = without_own_references([Claim(text, short_answer=text)], "And https://asked.example?", PASSAGES)
    assert claim.text == claim.short_answer == (text if left is None else left)


def test_a_link_that_is_edited_into_itself_ends() -> None:
    text = "[a](http://b.c) " * 3
    assert edit_links(text, lambda label, target: f"[{label}]({target})") == text


def test_a_decision_shows_no_link_of_the_models_own() -> None:
    request = DecisionRequest("When?", [Claim(f"[{LIT}](http://evil.example)", 0.9)], PASSAGES, pipeline="composed")
    answer = run(decide(request, QuestionRun()), Resources())
    assert answer.text == LIT
    assert answer.claims[0].text == answer.text[answer.claims[0].start : answer.claims[0].end]


@pytest.mark.parametrize("pipeline", ["composed", "reclaim"])
def test_a_pipeline_shows_the_claim_without_its_link(pipeline: str) -> None:
    reply = f"<reference>S1</reference><claim>[{LIT}](http://evil.example)</claim>"
    engine = SelfReflectEngine(
        Shelf(PASSAGES),
        ScriptedLM(lambda request: reply),
        SelfReflectSettings(pipeline=pipeline, target_accuracy=0.3),
        critic=WordCritic(),
        reader=FirstSentenceReader(),
        calibrations={},
    )
    events = list(engine.stream("When was the lamp lit?"))
    answer = events[-1].answer
    assert LIT in answer.text
    for text in (
        answer.text,
        *(c.text for c in answer.claims),
        *(e.claim.text for e in events if isinstance(e, ClaimSealed)),
    ):
        assert "evil" not in text


DOCUMENT = Passage("rules", "Rule [3] holds for masts. Read argv[1] first. [1] Smith, Masts, 1999.")


@pytest.mark.parametrize(("text", "left"), [
    ("[1] The mast is of oak.", "The mast is of oak."),
    ("Let it cool down [1].", "Let it cool down."),
    ("The mast is of oak.[2][3]", "The mast is of oak."),
    ("It is of oak [1, 2], and tarred [4-6].", "It is of oak, and tarred."),
    ("It was set in 1871[7].", "It was set in 1871."),
    ("It is of oak [1](http://evil.example).", "It is of oak."),
    ("It is of oak【4:0†masts.md】.", "It is of oak."),
    ("Rule [3] holds for masts [1].", "Rule [3] holds for masts."),
])  # fmt: skip
def test_marks_that_a_model_made_up_are_taken_out(text: str, left: str) -> None:
    (claim,) = without_own_references([Claim(text, short_answer=text)], "", [DOCUMENT])
    assert claim.text == claim.short_answer == left


@pytest.mark.parametrize("text", [
    "Rule [3] holds.", "Read argv[1] first.", "[1] Smith, Masts, 1999.", "It returns [7].", "Add x[0] and y[1].",
    "Print `names[2]` last.", "[1]", "The width is [12] or [14].", "It was set in [1871].", "a.values[0] is empty.",
])  # fmt: skip
def test_numbers_in_brackets_that_are_no_marks_stay(text: str) -> None:
    claim = Claim(text)
    assert without_own_references([claim], "", [DOCUMENT])[0] is claim
