"""A question for a whole procedure or list is answered with all of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from shared_core import Answer, SelfReflectEngine, SelfReflectSettings
from shared_core.documents import DocumentIndex
from shared_core.reading.list_requests import asks_how, list_asked
from shared_core.types import Passage
from tests.reading.asking import chance, first, quotes, read

GUIDE = """# Corvid R200 owner's guide

## Resetting the router

If you forget the password, you can restore the factory settings.

1. Make sure the router is switched on.
2. Press and hold the RESET button on the back with a paper clip for 10 seconds.
3. Wait until the power light blinks green.

All your settings will be lost.

## Updating the firmware

Firmware updates are published twice a year.

1. Download the file from the support site.
2. Choose the file and click **Upload**.

## Mounting on a wall

- Drill two holes 120 mm apart.
- Insert the wall plugs and screws.

## Forwarding a port

```
corvid-cli forward add --port 8080 \\
  --to 192.168.1.20
```

The command answers at once.

## Opening hours of the support line

- Monday to Friday: 9 to 17
- Saturday: 10 to 14
"""
RECIPE = (
    "# {}\n\n## Ingredients\n\n- 200 g flour\n- {}\n\n## Directions\n\n1. Mix all.\n2. {} it for an hour.\n3. Serve.\n"
)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> SelfReflectEngine:
    folder = tmp_path_factory.mktemp("guides")
    write(folder, "router.md", GUIDE)
    write(folder, "plum.md", RECIPE.format("Plum cake", "12 plums", "Bake"))
    write(folder, "rye.md", RECIPE.format("Rye loaf", "300 g rye", "Rest"))
    long = "".join(f"{i}. {'Turn the loom once more and count the threads. ' * 4}Knot {i}.\n" for i in range(1, 9))
    write(folder, "rug.md", f"# Weaving\n\n## Weaving a rug\n\n{long}")
    index = DocumentIndex(None)
    index.update([folder])
    return SelfReflectEngine(index.retriever())


def write(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text, encoding="utf-8")


def shown(answer: Answer) -> str:
    assert not answer.abstained, answer.text
    return answer.claims[0].citations[0].spans[0].text


@pytest.mark.parametrize(
    ("question", "begin", "end"),
    [
        ("How do I reset the router?", "1. Make sure", "blinks green."),
        ("What are the steps for updating the firmware?", "1. Download", "**Upload**."),
        ("How can I restore the factory settings?", "If you forget", "blinks green."),
        ("How do I mount the router on a wall?", "- Drill", "screws."),
        ("How do I forward a port?", "corvid-cli", "192.168.1.20"),
        ("How do I make plum cake?", "1. Mix", "3. Serve."),
        ("What are the ingredients of plum cake?", "- 200 g", "12 plums"),
        ("What do I need to bake a rye loaf?", "- 200 g", "300 g rye"),
        ("What are the opening hours of the support line?", "- Monday", "10 to 14"),
    ],
)
def test_all_of_it_is_quoted(engine: SelfReflectEngine, question: str, begin: str, end: str) -> None:
    quote = shown(engine.answer(question))
    assert quote.startswith(begin)
    assert quote.endswith(end)


def test_quotes_are_verbatim_and_claims_have_a_line_for_each_item(engine: SelfReflectEngine) -> None:
    answer = engine.answer("How do I reset the router?")
    (span, *_) = answer.numbered_spans()
    assert answer.passage(span.passage_id).text[span.start : span.end] == span.text
    assert [line[:2] for line in answer.claims[0].text.splitlines()] == ["1.", "2.", "3."]
    assert answer.text.startswith(answer.claims[0].text)
    code = engine.answer("How do I forward a port?").claims[0].text
    assert code == "corvid-cli forward add --port 8080 \\\n  --to 192.168.1.20"


def test_a_list_longer_than_a_passage_is_quoted_part_by_part_in_order(engine: SelfReflectEngine) -> None:
    answer = engine.answer("How do I weave a rug?")
    numbers = [line.split(".")[0] for c in answer.kept_claims for line in c.text.splitlines()]
    assert numbers == ["1", "2", "3", "4", "5", "6", "7", "8"]
    assert len(answer.kept_claims) > 1


def test_an_answer_tells_that_a_list_has_more_parts_than_it_shows(engine: SelfReflectEngine) -> None:
    whole = engine.answer("How do I weave a rug?")
    assert "list_parts" not in whole.metadata
    few = SelfReflectEngine(engine.resources.retriever, settings=SelfReflectSettings(max_claims=1))
    answer = few.answer("How do I weave a rug?")
    assert len(answer.kept_claims) == 1
    assert answer.metadata["list_parts"] == len(whole.kept_claims)
    assert any(d.outcome == "part of a list" for d in answer.trace)


@pytest.mark.parametrize(
    "question",
    [
        "Which button do I press to reset the router?",  # asks for one thing
        "How long do I hold the RESET button?",
        "How do I choose the file?",  # one step of four
        "On which days is the support line open until 14?",
    ],
)
def test_a_question_for_one_thing_is_not_answered_with_a_list(engine: SelfReflectEngine, question: str) -> None:
    answer = engine.answer(question)
    assert all("\n" not in claim.text for claim in answer.claims)


@pytest.mark.parametrize(
    "question",
    [
        "How do I set up a VPN?",
        "How do I downgrade the firmware?",
        "How do I mount the router on the ceiling?",
        "How do I make cherry cake?",
        "What are the ingredients of plum pudding?",
        "How do I repair a rug?",
    ],
)
def test_a_list_for_something_else_is_no_answer(engine: SelfReflectEngine, question: str) -> None:
    sure = SelfReflectEngine(engine.resources.retriever, settings=SelfReflectSettings(target_accuracy=0.6))
    assert sure.answer(question).abstained


CALLS = Passage(
    "calls",
    "Calls are free. To start a call, go to the channel menu. Then tap Start. Finally, wait for others. "
    "Sound comes from the speaker.\n\nThen came version 2.",
    "Calls",
)


def test_parts_of_passages_without_offsets_are_put_in_order_and_left_whole() -> None:
    def part(name: str, text: str) -> Passage:
        return Passage(name, f"## Weaving a rug\n\n{text}", "Looms", {"source": "looms.md"})

    late = part("b", "Mind your hands.\n\n4. Cut the threads of the rug.\n5. Tie the knots.")
    early = part("a", "1. Stretch the threads.\n2. Weave the rug.\n3. Press it.")
    assert quotes("How do I weave a rug?", late, early)[:2] == [
        "1. Stretch the threads.\n2. Weave the rug.\n3. Press it.",
        "4. Cut the threads of the rug.\n5. Tie the knots.",
    ]


def test_a_label_is_no_answer() -> None:
    passage = Passage("c", "(cookie-secret)=\n\n## Cookie secret\n\nSet it in the file `secret.txt`.", "Security")
    assert "(cookie-secret)=" not in quotes("How do I set the cookie secret?", passage)


def test_steps_told_in_sentences_stay_together() -> None:
    steps = "To start a call, go to the channel menu. Then tap Start. Finally, wait for others."
    assert quotes("How do I start a call?", CALLS)[0] == steps
    assert quotes("Where does the sound come from?", CALLS)[0] == "Sound comes from the speaker."
    assert "Then" not in quotes("What do calls cost?", CALLS)[0]


PINS = Passage(
    "pins",
    "Web/Desktop\n\n1. Hover over the message that you want to pin.\n2. Select More, then Pin.\n\n"
    "To unpin a message:\n\n1. Hover over it.\n2. Select More, then Unpin.",
    "Messages",
    {"section": "Messages > Pin messages > Web/Desktop", "source": "pins.md"},
)


def test_a_heading_may_name_a_platform_and_a_lead_in_what_its_list_is_for() -> None:
    for question, end in (("How do I pin a message?", "then Pin."), ("How do I unpin a message?", "then Unpin.")):
        text, sure = first(question, PINS)
        assert text.endswith(end)
        assert sure > 0.8
    assert chance("How do I print a message?", PINS) < 0.5


def test_an_exact_title_comes_before_one_that_says_more() -> None:
    def recipe(name: str, step: str) -> Passage:
        return Passage(name, f"## Directions\n\n1. Mix.\n2. {step}.", name, {"section": "Directions", "source": name})

    other, own = recipe("Oat pancakes", "Fry the pancakes in butter"), recipe("Pancakes", "Heat a pan and pour")
    assert quotes("How do I make pancakes?", other, own)[0].endswith("Heat a pan and pour.")


def test_a_list_has_no_short_answer_and_is_as_sure_as_its_best_item() -> None:
    whole = read("How do I reset the router?", Passage("g", GUIDE.split("## Updating")[0], "Corvid R200"))
    assert whole.readings[0].quote.text.startswith("1. Make")
    assert whole.readings[0].short_answer is None
    assert (whole.readings[0].probability or 0) > 0.8


@pytest.mark.parametrize("question", ["ingredients for plum cake", "ingredients plum cake", "ingredients of plum cake"])
def test_key_words_ask_for_the_whole_list(engine: SelfReflectEngine, question: str) -> None:
    assert shown(engine.answer(question)) == "- 200 g flour\n- 12 plums"


def test_questions() -> None:
    assert all(map(asks_how, ["How to reset it?", "What should I do if it leaks?", "What are the steps to reset it?"]))
    assert not any(map(asks_how, ["How many steps has it?", "How is the tank filled?", "What is it?"]))
    asked = {"Which bus goes there?": "", "What is this?": "", "What are its parts?": "parts"}
    asked |= {"the tools needed for a shelf": "tools", "symptoms of measles": "symptoms", "loss of a key": ""}
    asked |= {"members of the board can vote": "", "bus to Tarn": "", "members of what?": ""}
    assert {question: list_asked(question) for question in asked} == asked


@pytest.mark.parametrize(
    ("question", "is_named"),
    [
        ("How do I remove a pattern?", True),
        ("How can I get rid of patterns?", True),
        ("What are the steps for erasing a pattern?", True),
        ("How do I copy a pattern?", False),
        ("How do I remove a thread?", False),
    ],
)
def test_a_heading_may_have_another_verb_for_the_act(question: str, is_named: bool) -> None:
    steps = "1. Open the box of the pattern.\n2. Take out its card.\n3. Close the box."
    passage = Passage("d", f"## Delete a pattern\n\n{steps}", "Looms", {"section": "Looms > Delete a pattern"})
    text, sure = first(question, passage)
    assert (sure > 0.8 and text == steps) == is_named


def test_bullets_that_tell_nothing_to_do_are_no_steps() -> None:
    facts = "- The cards of locked patterns stay in the box.\n- The loom skips their rows."
    section = {"section": "Looms > Locked patterns", "source": "looms.md"}
    passage = Passage("e", f"## Locked patterns\n\n{facts}", "Looms", section)
    assert chance("How do I lock patterns?", passage) < 0.8
    steps = "- Take out their cards.\n- Close the box."
    passage = Passage("e", f"## Locked patterns\n\n{steps}", "Looms", section)
    assert chance("How do I lock patterns?", passage) > 0.8


def test_a_lead_in_may_announce_the_steps() -> None:
    steps = "1. Call the guild.\n2. Lock the shed.\n3. Write down the numbers of the shuttles."
    text = f"### Other\n\nFor missing shuttles and bobbins, do the following as soon as you can:\n\n{steps}"
    passage = Passage("f", text, "Looms", {"section": "Stolen or missing parts > Other", "source": "looms.md"})
    assert first("What should I do if a shuttle is stolen?", passage)[0] == steps
    assert chance("What should I do if a shuttle is stolen?", passage) > 0.8
    assert chance("What should I do if a needle is stolen?", passage) < 0.8


def test_sentences_that_tell_what_to_do_stay_together() -> None:
    steps = "To ask for an update, open the Runs tab. Select the run you mean. In its menu, choose Ask."
    passage = Passage("g", f"## Ask for an update\n\n{steps} The tab is blue.", "Runs", {"source": "runs.md"})
    assert quotes("How do I ask for an update?", passage)[0] == steps


@pytest.mark.parametrize(
    ("question", "is_named"),
    [
        ("How do I copy a pattern from a card to a loom?", True),
        ("How do I copy a pattern from a loom to a card?", False),
    ],
)
def test_a_heading_with_the_same_words_in_other_relations_names_something_else(question: str, is_named: bool) -> None:
    text = "## Copy a pattern from a card to a loom\n\n1. Lay it on the reader.\n2. Press Read."
    section = {"section": "Looms > Copy a pattern from a card to a loom", "source": "looms.md"}
    assert (chance(question, Passage("h", text, "Looms", section)) > 0.95) == is_named


CONDUCT = """Our standards

Examples of unacceptable behaviour by members include:

* Shouting at the weavers
* Insults and threats of any kind
* Touching looms of others

Examples of behaviour that helps all of us include:

* Listening
* Sweeping up the yarn that fell down
"""


@pytest.mark.parametrize(
    ("question", "sure"),
    [
        ("What are examples of unacceptable behaviour by members?", True),
        ("What are examples of unacceptable behaviour by the members of the guild?", None),
        ("What are examples of unacceptable behaviour by the chair?", False),
        ("What are examples of acceptable behaviour by members?", False),
    ],
)
def test_a_list_led_in_by_what_is_asked_is_quoted_whole(question: str, sure: bool | None) -> None:
    text, chance_of_it = first(question, Passage("c", CONDUCT, "Conduct"))
    if sure is not False:
        assert text.endswith("* Touching looms of others")
        assert "Shouting" in text
    if sure is not None:
        assert (chance_of_it > 0.9) == sure


def test_the_result_of_a_step_is_quoted_with_the_step() -> None:
    result = "This will create a virtual loom with that specific version of the threads in a folder called `warps`."
    text = f"Call `loom -w 120` there.\n\n{result}"
    asked = "How do I make a virtual loom for one particular version of the threads?"
    assert quotes(asked, Passage("w", text, "Looms")) == [text]


def test_a_list_of_examples_is_no_way_to_do_it() -> None:
    text = (
        "Replacing ropes\n\nThe wish to replace a rope can have a number of reasons. A few of these scenarios are:\n\n"
        "- A rope you work on is used on a bigger winch, and you would like to try it there.\n"
        "- A rope from elsewhere has a new splice that you would like to try.\n"
    )
    passage = Passage("r", text, "Winch book", {"section": "Replacing ropes"})
    assert not any("\n- " in quote for quote in quotes("How do I replace a rope?", passage))
