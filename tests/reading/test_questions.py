"""What a question's words tell: that nothing is asked, that it is English, that a sentence repeats it."""

from __future__ import annotations

import pytest

from shared_core import SelfReflectEngine
from shared_core.lm.scripted import ScriptedLM
from shared_core.reading.base import NO_WORDS, OTHER_QUESTION, OTHER_TEXT
from shared_core.reading.language import has_english_labels
from shared_core.reading.questions import (
    asks_nothing,
    counts_nothing,
    defines_links,
    names_nobody,
    only_asks,
    only_refers,
    opens_in_english,
    repeats,
)
from shared_core.types import Passage
from tests.fakes import FirstSentenceReader, Shelf
from tests.reading.asking import READER, chance, quotes, read

FAQ = Passage(
    "faq",
    "**What does error E3 mean?**\nThe motor is blocked.\n\n**Who wrote this?**\nPetra Nowak of the service wrote it.",
    "Grinder",
)


@pytest.mark.parametrize("text", ["hello", "Hi there, how are you?", "Thanks a lot! 🙂", "Guten Tag!", "How are you?"])
def test_greetings_ask_nothing(text: str) -> None:
    assert asks_nothing(text)


@pytest.mark.parametrize("text", [
    "hello world", "What is good?", "Is it okay?", "", "???", "How are you paid?", "today",
    "Thanks to whom was it built?",
])  # fmt: skip
def test_questions_do(text: str) -> None:
    assert not asks_nothing(text)


def test_a_greeting_is_not_looked_up_and_no_model_is_asked() -> None:
    model = ScriptedLM(lambda request: pytest.fail("asked"))
    for lm in (None, model):
        answer = SelfReflectEngine(Shelf(), lm, reader=FirstSentenceReader(0.9)).answer("Hello!")
        assert (answer.abstained, answer.reason, answer.passages) == (True, "nothing asked", ())
        assert "Ask a question" in answer.text


@pytest.mark.parametrize(("sentence", "question", "same"), [
    ("**What does error E3 mean?**", "What does the error E3 mean?", True),
    ("Did you know that the museum opened in 1998?", "When did the museum open?", False),
    ("The error E3 means that it is blocked.", "What does the error E3 mean?", False),
    ("Budget", "Did the board approve the budget?", True),
    ("[09:23] Mika: great, thanks. who signs off the release today?", "Who signs off the release?", True),
    ("Closed.", "Is the station open or closed?", False),
    ("- Charitable donations", "Do you match donations to charity?", True),
    ("- No donations", "May I make donations?", False),
    ("Donations: charity", "What are donations for, charity?", False),
    ("The charity matches donations", "Which charity matches the donations?", False),
])  # fmt: skip
def test_what_repeats_a_question(sentence: str, question: str, same: bool) -> None:
    assert repeats(sentence, question) == same


@pytest.mark.parametrize(("sentence", "question", "nobody"), [
    ("Someone has been dumping tyres by the gate.", "Who dumped the tyres?", True),
    ("Somebody else's key was found.", "Whose key was found?", True),
    ("Someone with a permit may park here.", "Who may park here?", False),
    ("Someone named Bo Day dumped the tyres.", "Who dumped the tyres?", False),
    ("Someone has been dumping tyres by the gate.", "What was dumped?", False),
])  # fmt: skip
def test_someone_is_nobody_in_particular(sentence: str, question: str, nobody: bool) -> None:
    assert names_nobody(sentence, question) == nobody


@pytest.mark.parametrize(("sentence", "question", "nothing"), [
    ("It is to be sent a certain number of hours before.", "How many hours before is it to be sent?", True),
    ("Most of them left.", "What percentage of them left?", True),
    ("A third of them left.", "What percentage of them left?", False),
    ("It was played ninety-two times.", "How many times was it played?", False),
    ("There are only small ones.", "How many large ones are there?", False),
    ("It is to be sent some hours before.", "When is it to be sent?", False),
    ("Each late return leads to a fine.", "What is the fine for a late return?", True),
    ("All charges for the slip are due on booking.", "How much is the charge for the slip?", True),
    ("A fine of ten crowns is due.", "What is the fine for a late return?", False),
    ("You pay the replacement cost of the book.", "What is the fine for a lost book?", False),
    ("The team is disqualified.", "What is the penalty for a late start?", False),
    ("The team is disqualified.", "How much is the penalty for a late start?", True),
    ("It is all about what is excluded.", "What is the fine print about?", False),
    ("It is negative.", "What is the charge of an electron?", False),
    ("They pay the warden.", "What are the charges for?", False),
])  # fmt: skip
def test_what_counts_nothing_does_not_say_how_many(sentence: str, question: str, nothing: bool) -> None:
    assert counts_nothing(sentence, question) == nothing


def test_what_counts_nothing_is_improbable() -> None:
    charter = Passage("c", "Agenda items must be published at least a certain number of hours before a meeting.")
    assert chance("How many hours before a meeting must items be published?", charter) < 0.5


def test_someone_is_no_answer_to_who() -> None:
    minutes = Passage("m", "Someone has been dumping tyres by the south gate of the allotment site.")
    named = Passage("m", minutes.text.replace("Someone", "Bo Day"))
    assert chance("Who has dumped the tyres?", minutes) < 0.5 < chance("Who has dumped the tyres?", named)


@pytest.mark.parametrize(("sentence", "defines"), [
    (".. _become-core-developer:\n.. _coredev:", True),
    ("_blurb: https://github.com/python/blurb\n.. _bedevere: `blurb`_", True),  # a cut behind the two dots
    ("[cdn]: /manual/cdn.html\n[purge]: /manual/purge-cache.html \"Purge\"", True),
    ("[^1]: The cache is purged by hand.", False), ("[09:23]: hello", False), ("_Default_: 5.0", False),
    ("The port is in [cdn]: /etc/cdn.conf", False),
])  # fmt: skip
def test_definitions_of_links_state_nothing_but_where_they_lead(sentence: str, defines: bool) -> None:
    assert defines_links(sentence, "How do I purge the cache?") == defines
    assert not defines_links(sentence, "What is the link to the cache?")


def test_a_long_list_of_links_is_told_at_once() -> None:
    links = "".join(f"[{n}.0]: https://example.org/compare/{n}.0...{n}.1\n" for n in range(60))
    assert defines_links(links.rstrip(), "How do I upgrade?")
    assert not defines_links(f"{links}Thanks to all!", "How do I upgrade?")  # took longer than anyone waits


def test_definitions_of_links_are_no_answers() -> None:
    labels = ".. _become-core-developer:\n.. _join-core-team:\n\nHow to join\n===========\n\nA member asks you to join."
    found = quotes("How do I become a core developer?", Passage("join", labels, "How to join the core team"))
    assert "A member asks you to join." in found
    assert not any(".." in quote for quote in found)


def test_links_below_further_reading_only_refer() -> None:
    talk = "* Talk: [Rate limiting in the app](https://example.org/talk)"
    assert only_refers(talk, "What is the rate limit?", "Further reading")
    assert only_refers(talk, "What is the rate limit?", "8. See also:")
    assert only_refers("Learn how to make rooms by visiting the rooms documentation.", "How do I make a room?")
    assert not only_refers("Learn how to make rooms from Ann Orde.", "How do I make a room?")
    assert not only_refers(talk, "What is the rate limit?", "Limits")
    assert not only_refers(talk, "Where can I read more about it?", "Further reading")
    assert not only_refers("The limit is 5 a minute.", "What is the rate limit?", "References")


@pytest.mark.parametrize(("sentence", "question", "asks"), [
    ("[2024-05-14 15:12] Sofia: is the standup tomorrow at 9:30 or 10?", "When is the standup?", True),
    ("> And can someone pick me up from the station?", "Who picks up Oscar?", True),
    ("Shall I bring the dog?", "What did Rosie ask?", False),
    ("Is the tower high?", "What is the title of the poem?", False),
    ("It is 40 m high, isn't it?", "How high is it?", False),
    ("Did you know that it has 300 steps?", "How many steps has it?", False),
    ("Mrs Quilter asked why the shop had earned less.", "Why has the shop earned less?", True),
    ("A listener wondered whether dogs can come along.", "Are dogs allowed?", True),
    ("Mrs Quilter asked why the shop had earned less: it was shut in July.", "Why has the shop earned less?", False),
    ("If a guest asks whether dogs may come in, say yes.", "Are dogs allowed?", False),
    ("Mrs Quilter asked for a new shop.", "What is new?", False),
    ("Ask your doctor whether it is safe.", "Is it safe?", False),
])  # fmt: skip
def test_what_a_document_asks_itself_is_no_answer(sentence: str, question: str, asks: bool) -> None:
    assert only_asks(sentence, question) == asks


def test_the_answer_in_a_chat_comes_before_the_question() -> None:
    chat = "[15:12] Sofia: is the standup tomorrow at 9:30 or 10?\n[15:20] Priya: The standup is at 10:00."
    assert quotes("When is the standup?", chat)[0] == "[15:20] Priya: The standup is at 10:00."


def test_the_question_itself_is_no_answer() -> None:
    found = quotes("What does the error E3 mean?", FAQ)
    assert found[0] == "The motor is blocked."
    assert not any("E3" in quote for quote in found)


def test_what_the_question_of_an_faq_begins_with_is_no_answer() -> None:
    text = (
        "Q: My seeds did not germinate. What can I do?\nA: Send us a photo and we will replace the packet.\n\n"
        "**Question 2:** My box is late. Why?\n**Answer:** The post is slow in winter.\n\nQ: Organic? A: All of it is."
    )
    for question in ("What if my seeds don't come up?", "What if my box comes late?", "Is it organic?"):
        found = " ".join(quotes(question, text))
        assert [part in found for part in ("germinate", "box is late")] == [False, False]
        assert all(part in found for part in ("replace the packet", "slow in winter", "All of it is"))


def test_a_sentence_that_only_refers_elsewhere_comes_after_what_answers() -> None:
    pointer = "For ways to disable the telemetry, see the [Telemetry](#telemetry) section below."
    text = f"{pointer} Set `NO_SENDING=1` before it starts, and nothing is sent at runtime."
    assert quotes("How do I disable the telemetry at runtime?", text)[0].startswith("Set")
    assert quotes("Where can I read how to disable the telemetry?", text)[0] == pointer


@pytest.mark.parametrize(("sentence", "refers"), [
    ("See systemctl(1) for more details about units.", True), ("Please refer to chapter 4 of the manual.", True),
    ("To change it, see https://example.org/a.", True), ("If it hurts, see a doctor.", False),
    ("If you want to see stars below, go outside.", False), ("See the light below; then press the button.", False),
])  # fmt: skip
def test_what_only_refers(sentence: str, refers: bool) -> None:
    assert only_refers(sentence, "How does it work?") == refers
    assert not only_refers(sentence, "Which section explains it?")


@pytest.mark.parametrize("question", ["When did Nikolaj Kierkegaard die?", "Petra Nowak", "Who wrote it"])
def test_names_and_short_questions_are_not_taken_for_another_language(question: str) -> None:
    result = read(question, FAQ)
    assert result.unknown == ""
    assert all(r.probability is not None for r in result.readings)


ORDER = "order: 418; customer: Ada Moreno; seller: Petra Nowak; article: pipe, copper; min. quantity: 20; paid: yes"


@pytest.mark.parametrize(
    "question", ["Has Ada Moreno paid?", "minimum quantity for copper pipe", "copper pipe minimum quantity"]
)
def test_names_and_key_words_of_a_passage_do_not_make_a_question_foreign(question: str) -> None:
    assert read(question, ORDER).readings[0].probability is not None


@pytest.mark.parametrize("question", ["Dónde vive Ada Moreno?", "Wer ist Petra Nowak?"])
def test_a_foreign_question_about_a_name_of_a_passage_stays_foreign(question: str) -> None:
    assert read(question, ORDER).unknown == OTHER_QUESTION


def test_why_it_cannot_tell_is_true() -> None:
    german = Passage("de", "Die Bibliothek wurde 1903 gegründet und hat montags geschlossen.")
    for question in ("???", "What?", "a", "Who is it?"):
        assert read(question, FAQ).unknown == NO_WORDS
    assert read("Wer hat die Bibliothek gegründet?", FAQ).unknown == OTHER_QUESTION
    assert read("When was the library founded?", german).unknown == OTHER_TEXT
    assert opens_in_english("Who wrote Die Zauberflöte?")
    assert not opens_in_english("Was kostet das?")


CONTRACT = "# Rental Contract, Flat 12, Mill Lane 4\n\n## 1 Parties\n{}: Harrow Estates Ltd. {}: Maria Dolan."


@pytest.mark.parametrize("question", ["Who is the tenant?", "Name the tenant.", "Who is the landlord?"])
def test_the_names_in_a_header_make_it_no_other_language(question: str) -> None:
    answer = SelfReflectEngine(Shelf((Passage("a", CONTRACT.format("Landlord", "Tenant")),))).answer(question)
    assert not answer.abstained
    assert "Maria Dolan" in answer.text or "Harrow" in answer.text


@pytest.mark.parametrize(
    "labels",
    [("Vermieter", "Mieter"), ("Bailleur", "Locataire"), ("Locatore", "Inquilino"), ("Arrendador", "Arrendatario"),
     ("Verhuurder", "Huurder")],
)  # fmt: skip
def test_that_a_header_is_in_another_language_is_the_reason(labels: tuple[str, str]) -> None:
    rules = Passage("b", "Small repairs up to €100 are paid by the tenant. The landlord pays all others.")
    header = Passage("a", CONTRACT.format(*labels).partition("\n\n")[2])
    shelf = Shelf((header, rules))
    assert read("Who is Maria Dolan?", header.text).unknown == OTHER_TEXT
    answer = SelfReflectEngine(shelf).answer("Who is Maria Dolan?")
    assert (answer.abstained, answer.reason, answer.confidence) == (True, "cannot be judged", None)
    assert OTHER_TEXT in answer.text
    assert "Maria Dolan" in answer.text.partition("Nearest, unjudged:")[2]


def test_a_row_is_english_if_its_labels_are_whatever_names_it_holds() -> None:
    english = "Supplier: Elevantis; Contract ends: 31 March 2027; Contact: Olaf Brandt; Hotline: 0800 555 019"
    german = "Lieferant: Elevantis; Vertrag endet: 31. März 2027; Kontakt: Olaf Brandt; Hotline: 0800 555 019"
    for question in ("When does the contract of the lift company end?", "Who is the contact for lifts?"):
        assert all(reading.probability is not None for reading in read(question, english).readings)
        assert all(reading.probability is None for reading in read(question, german).readings)


@pytest.mark.parametrize(
    ("row", "english"),
    [
        ("Seed: Fava; Abbr: Fv; Colour: nero; Qty (kg): 3; Supplier: Semi di Toscana; Notes: semina in marzo", True),
        ("Callsign: OX3; Freq (MHz): 433; PL tone: 88; Offset: minus; Sponsor: Vera Lindqvist; Notes: none", True),
        ("Part: R12; Tol (%): 5; Package: 0805; Qty: 40; Supplier: Brandt Elektronik; Order code: 118", True),
        ("Parser: Byron (4 layers); Training: semi-supervised; WSJ 23 F1: 92.7", True),
        ("PLZ: 10115; ORT: Wien", False),
        ("Team: Rot; Trainer: Petra Schmidt; Tore: 5; Spiele: 3; Punkte: 9; Status: aktiv", False),
        ("Equipo: Rojo; Total: 3; Color: verde; Final: 4; Puntos: 9; Director: Ana Ruiz", False),
        ("Plan: A; Club: Lyon; Joueur: Marc Petit; Buts: 4; Date: 3 mai; Total: 9; Score: 2", False),
        ("Modell: X3; Motor: Diesel; Gewicht: 300; Status: neu; Name: Falke; Material: Stahl", False),
        ("Name: Anna Bauer; Alter: 34; Ort: Wien; Kurs: Yoga", False),
    ],
)
def test_technical_labels_are_english_and_foreign_ones_not(row: str, english: bool) -> None:
    assert has_english_labels(row, READER.loaded().network.tokenizer.number) == english


def test_a_row_with_technical_labels_is_judged() -> None:
    row = "Seed: Fava; Abbr: Fv; Colour: nero; Qty (kg): 3; Supplier: Semi di Toscana; Notes: semina in marzo"
    assert chance("Which supplier has fava seed?", Passage("p", f"{row}\n\n{row.replace('Fava', 'Ceci')}")) > 0


def test_what_tells_of_a_section_only_refers_to_it() -> None:
    said = "This section describes the procedure for upgrading when the default rope is changed."
    assert only_refers(said, "What is the default rope?")
    assert not only_refers(said, "Which section describes the upgrade?")
    assert not only_refers("This section of the river covers three locks.", "How many locks are there?")
