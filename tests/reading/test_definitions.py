"""Definitions: what a question asks the meaning of."""

from __future__ import annotations

import pytest

from shared_core import Passage, SelfReflectEngine, SelfReflectSettings
from shared_core.reading.definitions import defines, term_asked
from shared_core.retrieval import HybridRetriever
from tests.reading.asking import chance, first, quotes


@pytest.mark.parametrize(
    ("question", "asked"),
    [
        ("What is an introducer?", ("introducer", "")),
        ("What's a heddle loom in Vessen?", ("heddle loom", "Vessen")),
        ("What does shedding mean?", ("shedding", "")),
        ("So what are `heddles`?", ("heddles", "")),
        ("What is meant by the RDF (rug data format)?", ("RDF", "")),
        ("What is the best loom?", None),
        ("What is the difference between a rug and a mat?", None),
        ("What is my loom?", None),
        ("What is it?", None),
        ("Who is Ann?", None),
        ("What do heddles do?", None),
        ("What is the loom made of?", None),
    ],
)
def test_only_questions_for_the_meaning_of_a_term_ask_for_a_definition(
    question: str, asked: tuple[str, str] | None
) -> None:
    assert term_asked(question) == asked


@pytest.mark.parametrize(
    ("term", "sentence", "is_one"),
    [
        ("introducer", "The introducer feature lets a device add others.", True),
        ("introducer", "Introducer status is transferable.", False),
        ("heddle", "- **Heddle**: the part of a loom that lifts threads.", True),
        ("heddle", "Heddles are a key part of weaving.", False),
        ("heddle", "Heddles are heavy.", False),
        ("service", "When weaving with it, a **Service** is defined as a process.", True),
        ("heddle", "The default heddle is a wooden one.", False),
        ("heddle", "The [heddle](parts.md) is one of its parts.", True),
        ("heddle", "The _heddle_ of a loom is the wire that lifts threads.", True),
        ("heddle", "The heddle of a loom lifts.", False),
        ("heddle loom", "Heddle-loom – a loom with two frames.", True),
        ("bus", "Buses are vehicles that anyone may ride, a bus is a vehicle.", False),
    ],
)
def test_a_definition_says_what_its_subject_is(term: str, sentence: str, is_one: bool) -> None:
    assert defines(term, sentence) == is_one


def test_a_definition_is_surer_and_quoted_before_other_statements() -> None:
    about = Passage(
        "i",
        "The introducer field is set for devices that are trusted as cluster introducers. "
        "The introducer feature lets a device automatically add new devices. It is off at first.",
        "Devices",
        {"source": "i.md"},
    )
    text, sure = first("What is an introducer?", about)
    assert text == "The introducer feature lets a device automatically add new devices."
    assert sure > 0.5
    assert "lets" not in first("For which devices is the introducer field set?", about)[0]


def test_a_statement_comes_before_an_entry_of_a_list() -> None:
    form = Passage(
        "f", "- `owner`: Specify the id of the owner that the form should have.", "Forms", {"source": "f.md"}
    )
    terms = Passage("t", "- A _form_ is a sheet.\n- The _owner_ of a form is the person who sent it.", "Terms")
    text, sure = first("What is the owner of a form?", form, terms)
    assert text == "- The _owner_ of a form is the person who sent it."
    assert sure > 0.5


def test_passages_that_only_mention_a_term_do_not_hide_its_definition() -> None:
    mentions = [
        Passage(f"m{i}", f"Choose the heddle of rug {i}. The heddle, not the reed, is moved {i} times.", f"Rug {i}")
        for i in range(30)
    ]
    words = "Weaving has words of its own, as every craft has, and most are old. Some of them are here, in no order."
    words += " A reed is a comb. A heddle is a looped cord that lifts a thread. A shed is a gap."
    defined = Passage("d", words, "Words")
    retriever = HybridRetriever([*mentions, defined])
    answer = SelfReflectEngine(retriever).answer("What is a heddle?")
    assert answer.text.startswith("A heddle is a looped cord that lifts a thread.")
    kept = SelfReflectEngine(retriever, settings=SelfReflectSettings(rerank="none")).answer("What is a heddle?")
    assert len(kept.passages) == SelfReflectSettings().top_k


def test_what_follows_a_sentence_about_the_page_does_not_define_its_title() -> None:
    page = {"source": "rope.md", "section": "Rope walking", "start": 0}
    about = Passage("a", "In this page, we list the walks. Most of them belong in the log only.", "Rope walking", page)
    said = "Rope walking in general refers to the making of a rope on a long path."
    below = Passage("b", said, "Rope walking", page | {"section": "Rope walking > What is it?", "start": 70})
    assert first("What does rope walking mean?", about, below)[0] == said


def test_a_place_must_be_that_of_the_definition() -> None:
    here = Passage("h", "A relay is a box between two lamps.", "Vessen", {"source": "vessen.md"})
    there = Passage("t", "A relay is a race of four runners.", "Hull", {"source": "hull.md"})
    assert first("What is a relay in Hull?", here, there)[0] == "A relay is a race of four runners."
    assert first("What is a relay in Vessen?", there, here)[0] == "A relay is a box between two lamps."


def test_the_text_around_a_definition_may_name_the_place() -> None:
    said = "A relay is a box between two lamps, as a rule on a mast."
    text = f"Since May lamps are managed in Corrow. {said}"
    moved = Passage("m", text, "Moving the lamps", {"source": "moving.md"})
    other = Passage(
        "o", "Corrow arranges all lamps by relays, as they stand on the coast.", "Corrow", {"source": "c.md"}
    )
    assert first("What is meant by a relay in Corrow?", other, moved)[0] == said
    assert first("What is a relay in Corrow, as opposed to a mast?", other, moved)[0] == said


def test_what_only_refers_defines_nothing() -> None:
    glossary = Passage("g", "conflict\n\nSee also: conflict-handling", "Glossary", {"section": "Glossary > conflict"})
    assert first("What is a conflict?", glossary)[1] < 0.5


def test_a_name_with_signs_leaves_out_what_has_it_not() -> None:
    text = (
        "- A pattern with a (?i) prefix matches small and capital letters.\n"
        "- A pattern with a (?d) prefix lets what it matches be deleted with its folder.\n"
        "- A prefix is what a pattern begins with."
    )
    assert "(?d)" in first("What does the (?d) prefix do?", Passage("p", text, "Patterns"))[0]


def test_what_stands_behind_a_name_with_signs_explains_it() -> None:
    text = "~/.loom_marks\nThe marks of the last rug are kept here.\n\n~/.loom_rc\nIt is read at the start."
    found, _ = first("What is kept in ~/.loom_marks?", Passage("p", text, "Looms"))
    assert "The marks of the last rug" in found


def test_a_number_is_named_by_the_heading_above() -> None:
    words = {"0": "All went well.", "3": "The loom starts again.", "4": "The loom stands still."}
    passages = [
        Passage(n, f"{n}\n{said}", "Looms", {"section": f"Exit codes > {n}", "source": "l", "start": int(n)})
        for n, said in words.items()
    ]
    text, sure = first("What does exit code 3 mean?", *passages)
    assert text == "The loom starts again."
    assert sure > 0.5


def test_a_term_may_stand_before_its_definition_in_the_same_line() -> None:
    terms = Passage(
        "t", "Words\nSpare rope. Rope not in use on any lamp or winch.\nReel. What a rope is wound on.", "Words"
    )
    other = Passage("o", "A loss of spare rope is reported unless the keeper shows that it was old.", "Losses")
    text, sure = first("What is spare rope?", other, terms)
    assert text == "Rope not in use on any lamp or winch."
    assert sure > 0.5
    assert first("What is a winch?", other, terms)[1] < 0.5


def _entry(number: int, name: str, text: str) -> Passage:
    heading = f"3.{number} {name}"
    section = f"3. Terms and definitions > {heading}"
    return Passage(f"e{number}", f"{heading}\n\n{text}", "Ropes", {"section": section, "source": "ropes.docx"})


@pytest.mark.parametrize("question", ["What is an LRB?", "what is a ledger of rope batches"])
def test_a_heading_names_a_term_by_its_long_and_its_short_name(question: str) -> None:
    entries = [
        _entry(1, "Rope works", "a hall in which ropes are made"),
        _entry(2, "Ledger of Rope Batches (LRB)", "a list of all batches and of what is known about them"),
        _entry(3, "Ledger of Rope Batches Review (LRB Review)", "an activity that compares the ledger with the hall"),
    ]
    used = Passage("u", "The LRB shall be kept by two people. It lists no nets.", "Ropes", {"source": "ropes.docx"})
    text, sure = first(question, used, *entries)
    assert text == "a list of all batches and of what is known about them"
    assert sure > 0.4
    assert first("What is an LRB review?", used, *entries)[0].startswith("an activity")


def test_an_entry_of_a_glossary_is_looked_for_by_its_heading() -> None:
    mentions = [
        Passage(f"m{i}", f"The heddle of rug {i} is moved {i} times. No heddle is red.", f"Rug {i}") for i in range(30)
    ]
    entry = _entry(
        4, "Heddle", "looped cord that lifts the threads of a warp, so that the weft can pass between them in one go"
    )
    answer = SelfReflectEngine(HybridRetriever([*mentions, entry])).answer("What is a heddle?")
    assert answer.text.startswith("looped cord that lifts the threads")


def test_metadata_of_other_apps_may_be_named_as_ours() -> None:
    first_part = Passage(
        "a", "Relay\nA relay is a box between two lamps.", "Lamps", {"start": "10:05", "section": "Relay"}
    )
    other = Passage("b", "Relay\nIt was long, and it was red.", "Talks", {"start": None, "section": "Relay"})
    assert first("What is a relay?", other, first_part)[0] == "A relay is a box between two lamps."


def headed(heading: str, text: str) -> Passage:
    return Passage(heading, f"{heading}\n\n{text}", "Winch book", {"section": heading, "source": f"{heading}.html"})


def test_what_leads_over_to_a_section_does_not_define_its_heading() -> None:
    lead = "All the winches we’ve hauled with so far were safe."
    told = "A loose winch is a winch that lets go of its rope."
    shown = quotes("What is a loose winch?", headed("Loose winch", f"{lead} {told}"))
    assert shown[0] == told


def test_a_note_on_an_old_page_and_a_sentence_on_a_table_define_nothing() -> None:
    old = headed("Ropes", "There is a new edition of the book and this is an old link.")
    assert chance("What are ropes for?", old) < 0.5
    table = headed("Marks", "Table B-1 contains the marks of ropes, with an example of each and what the + mark does.")
    told = "The + mark splices two ropes."
    assert quotes("What does the + mark do?", table, told)[0] == told


def test_a_line_of_code_does_not_say_what_a_thing_is() -> None:
    code = headed("Splices", "let splice = rope.cut(1);")
    assert (
        quotes("What is a splice?", code, "A splice is a joint of two ropes.")[0] == "A splice is a joint of two ropes."
    )


def test_what_holds_for_every_one_comes_after_what_one_is() -> None:
    every = Passage("e", "Every splice is a strong joint that is made of two ropes by hand.", "Ropes")
    one = Passage("o", "A splice is a kind of knot, so it needs no nail.", "Joints")
    assert quotes("What is a splice?", every, one)[0] == one.text


def test_a_name_that_is_a_part_of_another_is_not_that() -> None:
    longer = "Using haul_or_else pulls in the rope or shouts."
    itself = "The second haul in Listing 3 is like the first, which gave us the load."
    assert quotes("What does haul do?", longer, itself)[0] == itself
