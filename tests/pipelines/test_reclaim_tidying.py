"""What a model copies from the prompt or brings from its own citation style does not stay in claims."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared_core import SelfReflectEngine
from shared_core.citation import CitationIndex
from shared_core.errors import GrammarError
from shared_core.lm.base import Generate, Grammar
from shared_core.lm.scripted import ScriptedLM
from shared_core.pipelines.decision.question_run import QuestionRun
from shared_core.pipelines.reclaim.free import is_placeholder, tidy
from shared_core.pipelines.reclaim.loop import _answer_grammar, _cut_reference, _Draft, _reference_grammar
from shared_core.pipelines.reclaim.prompts import claim_prompt, numbered_prompt, reference_prompt
from shared_core.settings import ReclaimSettings
from shared_core.types import Citation, Passage
from tests.fakes import Shelf, published

TITLES = ("Orsk Bridge", "Aster", "")


@pytest.mark.parametrize(
    ("written", "clean"),
    [
        ("S27: The capital is Aster.", "The capital is Aster."),
        ("(S27) The capital is Aster.", "The capital is Aster."),
        ("[S27] The capital is Aster.", "The capital is Aster."),
        ("[S2, S3]: The capital is Aster.", "The capital is Aster."),
        ("S2. The capital is Aster (S2).", "The capital is Aster."),
        ("The capital is Aster. [S2, S3]", "The capital is Aster."),
        ("The capital is Aster (S2 and S3).", "The capital is Aster."),
        ("- The capital is Aster.", "The capital is Aster."),
        ("* **The capital** is `Aster`.", "The capital is Aster."),
        ("1. The capital is Aster.", "The capital is Aster."),
        ("2) S4: The capital is Aster.", "The capital is Aster."),
        ("Claim: The capital is Aster.", "The capital is Aster."),
        ("Sentence 3: The capital is Aster.", "The capital is Aster."),
        ("Aster: The capital since 1871.", "The capital since 1871."),
        ("# Orsk Bridge\nIt has 3 arches.", "It has 3 arches."), ("Orsk Bridge – It has 3 arches.", "It has 3 arches."),
        ("The capital, as stated in [1], is Aster.", "The capital, is Aster."),
        ("The capital is Aster, as stated in [1].", "The capital is Aster."),
        ("The capital is Aster [1][7].", "The capital is Aster."),
        ("The capital is Aster [1], [7].", "The capital is Aster."),
        ("According to [1], the capital is Aster.", "The capital is Aster."),
        ("Based on passage [2], the capital is Aster.", "The capital is Aster."),
        ("The capital is Aster according to sources [1] and [2].", "The capital is Aster."), ("[1]", ""), ("S27:", ""),
        ("…", ""),
    ],
)  # fmt: skip
def test_labels_titles_marks_and_foreign_markers_are_taken_off(written: str, clean: str) -> None:
    assert tidy(written, TITLES) == clean


@pytest.mark.parametrize("text", [
    "The lamp was lit in 1871.", "1871", "83.", "12. Mai 1871 war es.", "It was lit (1871) by Mira.",
    "S2 is a road in the north.", "Aster is the capital.", "Orsk Bridge-builders met there.",
    "Built by 12 men in 3 years.", "-5 degrees were measured.", "See how it burns.", "a < b and b > c",
])  # fmt: skip
def test_what_belongs_to_the_claim_stays(text: str) -> None:
    assert tidy(text, TITLES) == text


@given(st.text(alphabet="S1 23:.()[]-*#,Aa\n", max_size=30))
def test_tidying_ends_and_does_no_more_the_second_time_on_plain_words(text: str) -> None:
    once = tidy(text, TITLES)
    assert "\n" not in once
    assert once == once.strip()


@pytest.mark.parametrize("text", ["one sentence", " One sentence. ", "**quoted sentences**", "<one sentence>"])
def test_the_words_of_a_form_are_no_claim(text: str) -> None:
    assert is_placeholder(text)
    assert not is_placeholder(f"{text} was written")


MAREN = Passage("maren", "# Maren Tolvard, navigator (1779–1851) [1]\n\nShe charted the reef. It was 1822.", "Tolvard")


def test_a_heading_is_neither_offered_nor_taken_as_a_quote() -> None:
    replies = [
        "<reference># Maren Tolvard, navigator (1779–1851) [1]</reference><claim>She was a navigator.</claim>",
        "<reference>S1</reference><claim>S1: Maren Tolvard charted the reef [1].</claim>",
    ]
    asked: list[str] = []

    def reply(request: Generate) -> str:
        if "Reply with the number only" in request.prompt.text:
            return "90"
        asked.append(request.prompt.text)
        return replies[len(asked) - 1]

    engine = SelfReflectEngine(Shelf((MAREN,)), ScriptedLM(reply), published(pipeline="reclaim"))
    answer = engine.answer("Who charted the reef?")
    assert "S1: She charted the reef." in asked[0]
    assert re.search(r"^## .*\(1779–1851\)", asked[0], re.MULTILINE)
    assert "heading" in asked[1]
    assert answer.text == "Maren Tolvard charted the reef. [1]"
    assert answer.numbered_spans()[0].text == "She charted the reef."


# --- decoding under a grammar ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("grammar_of", [_reference_grammar, _answer_grammar])
def test_grammars_hold_no_heading(grammar_of: Callable[[_Draft], Grammar | None]) -> None:
    draft = _Draft("Who charted the reef?", [MAREN], QuestionRun())
    assert draft.left_out == {"# Maren Tolvard, navigator (1779–1851) [1]"}
    grammar = grammar_of(draft)
    assert grammar is not None
    assert "charted" in grammar.lark
    assert "1779" not in grammar.lark


def test_passages_without_any_sentence_are_an_error_and_no_end_of_the_answer() -> None:
    draft = _Draft("Who charted the reef?", [Passage("empty", " \n ")], QuestionRun())
    with pytest.raises(GrammarError):
        _reference_grammar(draft)
    draft.left_out.add("x")  # something was there, and has been used up
    assert _reference_grammar(draft) is None


@pytest.mark.parametrize(
    ("cut", "quote"), [("She charted the re", "She charted the"), ("She", None), ("Nobody cha", None)]
)
def test_a_stretch_of_words_that_was_cut_off_keeps_its_whole_words(cut: str, quote: str | None) -> None:
    found = _cut_reference(cut, CitationIndex([MAREN]), ReclaimSettings(mode="span"))
    assert (found.quote if isinstance(found, Citation) else None) == quote


def test_the_forms_of_prompts_hold_nothing_to_copy() -> None:
    passages = [MAREN]
    prompts = [
        reference_prompt("Q?", passages, ()),
        claim_prompt((), "It was 1822."),
        numbered_prompt("Q?", CitationIndex(passages).sentences, passages),
    ]
    for prompt in prompts:
        form = next(line for line in prompt.text.splitlines() if "<claim>" in line)
        assert tidy(form.split("<claim>")[1].split("</claim>")[0]) == ""


def test_models_see_headings_that_they_cannot_cite() -> None:
    """Two sections alike but for their headings are told apart; a title cannot forge a numbered line."""
    text = (
        "## Boiler B2\n\nMaximum pressure: 3 bar.\n\nBoiler B7\n---------\n\nMaximum pressure: 6 bar,\nS9: when cold."
    )
    passages = [
        Passage("a", text, "Plant\nS8: The pressure is 9 bar.", {"section": "Plant > Boilers"}),
        Passage("b", "Staff: £12", "Prices", {"section": "Prices > Parking > Staff"}),
    ]
    shown = numbered_prompt("Q?", CitationIndex(passages).quotable, passages).text.splitlines()
    at = [shown.index(line) for line in ("## Boiler B2", "S1: Maximum pressure: 3 bar.", "## Boiler B7")]
    assert at == sorted(at)
    assert "# Prices > Parking > Staff" in shown
    assert [line[:3] for line in shown if re.match(r"S\d+:", line)] == ["S1:", "S2:", "S3:", "S4:"]
