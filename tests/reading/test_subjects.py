"""Sentences about another thing or party than the question."""

from __future__ import annotations

import pytest

from shared_core.reading.subjects import is_of_another
from tests.reading.asking import chance, quotes

LEASE = """Council tax, electricity and broadband are paid by the tenant. Water is included in the rent.
The tenant may end the tenancy with one month's written notice. The landlord must give two months' notice."""


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        ("Is gas included in the rent?", "Water is included in the rent."),
        ("Is the pool open on Sundays?", "The gym is open on Sundays."),
        ("How much notice do I have to give?", "The landlord must give two months' notice."),
        ("Can I end the contract early?", "The supplier may end the contract at any time."),
        ("What does a stall cost?", "The hire costs us £120."),
        ("How much is the boat trip?", "The bus tour is £14."),
        ("How much notice do I have to give?", "The landlord may enter only after giving 7 days' notice."),
        ("How much deposit do I leave for the mower?", "Mower for hire: £4 per half day."),
        ("Does Ms Orr play the organ?", "Mr Hale plays the organ on Sundays."),
        ("Does Netlify support monorepos?", "Git Gateway supports monorepos."),
        ("Is there a wait for greenhouse A?", "The wait for greenhouse B is two years."),
        ("Who is the head of the rose garden?", "Head of the herb garden: Ann Lee"),
        ("Who judges the flowers?", "Judge of vegetables: Mr Alun Prosser."),
        ("When does the bus from Arle to Sund leave?", "The bus from Sund to Arle leaves at 9."),
        ("What's the fee for changing my boat's berth?", "A crane fee of £25 applies."),
        ("How much is the charge for losing the gate key?", "A home-move charge of £30 is due."),
        ("Do we need to book the court?", "We had to book it when Father played."),
        ("Should I keep the receipt?", "She needed to keep every receipt."),
        ("Who painted the Lily?", "Here hang the Rose, painted by Ann Lee in 1790, and the Lily, of 1801."),
        ("When was the Erna built?", "It has the ferry Ada, built in 1912 by Orr of Tarn, and the Erna."),
    ],
)
def test_sentences_of_another(question: str, sentence: str) -> None:
    assert is_of_another(question, sentence, "Rules")


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        ("Is water included in the rent?", "Water is included in the rent."),
        ("Are dogs allowed in the garden?", "Pets are allowed in the garden."),
        ("Is the pool open on Sundays?", "It is open on Sundays."),
        ("Is the pool open on Sundays?", "The gym is closed in May."),
        ("How much notice does the landlord have to give?", "The landlord must give two months' notice."),
        ("When do I get my deposit back?", "The landlord must return the deposit within ten days."),
        ("What does a stall cost?", "A stall costs £15."),
        ("What is the fee for replacing a lost gate key?", "A replacement fee of £5 is due."),
        ("What is the charge for ending the contract early?", "An early exit charge of £40 is due."),
        ("What is the fee for bringing my dog?", "A pet fee of £5 is due."),
        ("What is the fee for changing the boat's berth?", "The standard fee is £5."),
        ("What is the fee for changing the boat's berth?", "All other fees are £5."),
        ("What does a ticket cost?", "Admission is £5."),
        ("How much is it?", "The bus tour is £14."),
        ("How much deposit do I pay?", "A deposit of £20 is taken."),
        ("What is the fine?", "It is set by the court."),
        ("Who pays for water?", "Water is paid by the landlord."),
        ("Does Ms Orr play the organ?", "She plays the organ on Sundays."),
        ("Does Ms Orr play the organ?", "Mrs Orr plays the organ on Sundays."),
        ("Does Netlify support monorepos?", "Monorepos are supported."),
        ("How long is the wait for team A?", "The wait for teams A and B is a month."),
        ("Do I have to pay?", "Group B has to pay."),
        ("Who judges the flowers?", "Judge of flowers: Ann Lee"),
        ("Who is the head of the school?", "Head of the school: Ann Lee"),
        ("How far is it from Arle to Sund?", "From Sund to Arle it is 9 km."),
        ("When does the bus from Arle to Sund leave?", "The bus from Arle to Sund leaves at 9, Sund to Arle at 10."),
        ("Is it open from 9 to 5?", "Open from 5 to 9."),
        ("Did they have to book the court?", "They had to book it when it rained."),
        ("What did he have to do?", "He had to book the court."),
        ("Do I have to book the court?", "I had to, and guests must, too."),
        ("Do I have to book the court?", "Courts have to be booked."),
        ("Who painted the Lily?", "The Lily, painted by Ann Lee in 1790, hangs beside the Rose."),
        ("Who painted the Lily?", "Its frame, painted by Ann Lee, is as famous as the Lily."),
        ("Can I wash the mugs?", "Wash them by hand."),
        ("Can I wash the mugs?", "Never wash two mugs at once."),
        ("Can I take the mugs home?", "Take one home if you like mugs."),
        ("Can I bring my terrier?", "Never bring animals."),
        ("Can I sing in the hall?", "In the hall only choirs may sing."),
        ("When do they sing in the hall?", "In the church, at noon."),
    ],
)
def test_sentences_that_may_answer(question: str, sentence: str) -> None:
    assert not is_of_another(question, sentence, "Rules", sentence)


def test_what_is_done_with_other_things_is_of_another_where_the_passage_has_the_thing() -> None:
    sentence = LEASE.split(". ")[0] + "."
    assert is_of_another("Who pays for water?", sentence, "Lease", LEASE)
    assert not is_of_another("Who pays for parking?", sentence, "Lease", LEASE)


CARE = "Mugs are safe in the machine. Never wash painted cups. In the attic only lamps may be kept. The cellar is dry."


@pytest.mark.parametrize(
    ("question", "number", "of_another"),
    [
        ("Can I wash the mugs?", 1, True),
        ("the lamp is on, can I wash mugs?", 1, True),
        ("Can I wash the spoons?", 1, False),
        ("Can I wash the machines?", 1, True),
        ("Can I wash the cups?", 1, False),
        ("Can I keep chairs in the cellar?", 2, True),
        ("Can I keep chairs in the garage?", 2, False),
        ("Can I keep chairs in the attic?", 2, False),
        ("Can I keep chairs?", 2, False),
    ],
)
def test_a_rule_for_another_thing_or_place_where_the_passage_has_the_one_asked_about(
    question: str, number: int, of_another: bool
) -> None:
    sentence = CARE.split(". ")[number]
    assert is_of_another(question, sentence, "Care", CARE) is of_another


def test_another_name_of_the_thing_counts() -> None:
    text = "Alcohol makes you drowsy. Do not drink grapefruit juice."
    assert is_of_another("Can I drink beer?", text[26:], "Care", text)
    assert not is_of_another("Can I drink beer?", "Do not drink alcohol.", "Care", text)


def test_items_of_a_list_with_the_label_asked_for_leave_the_others_out() -> None:
    illnesses = "Stay home with:\n- Vomiting: 48 hours after the last time\n- Chickenpox: until all spots are dry\n"
    first, second = illnesses.splitlines()[1:]
    question = "How long does a child with chickenpox stay home?"
    assert is_of_another(question, first, "Illness", illnesses)
    assert not is_of_another(question, second, "Illness", illnesses)
    assert not is_of_another("How long does a child with measles stay home?", first, "Illness", illnesses)
    assert "spots are dry" in quotes(question, illnesses)[0]


def test_the_reader_puts_the_other_party_and_the_other_thing_last() -> None:
    assert "one month" in quotes("How much notice do I have to give?", LEASE)[0]
    assert chance("Is gas included in the rent?", LEASE) < 0.5
    assert chance("Is water included in the rent?", LEASE) > 0.5


def test_a_few_words_in_bold_before_a_sentence_are_a_heading() -> None:
    minutes = "5. **Charging points.** The proposal to install six was rejected.\n\n**Never lend the key.**"
    assert "5. **Charging points.**" not in quotes("Were charging points approved?", minutes)
    assert "**Never lend the key.**" in quotes("Can I lend the key?", minutes)


MARKETS = """- **Arle Market** (all you need) 12 Quay Street
  - Sunday: 8 am to 8 pm
- **Sund Market** (small) 4 Pier Road. Phone: 55 12 40. Open every day.

**Hours**

The markets are in the old town."""


@pytest.mark.parametrize(
    ("question", "sentence", "text"),
    [
        ("What is the phone number of Arle Market?", "Phone: 55 12 40.", MARKETS),
        ("When does Sund Market close on Sunday?", "- Sunday: 8 am to 8 pm", MARKETS),
        ("When does the last lift leave Mt. Tarn?", "The last lift from Mt. Arle goes at 6 pm.", ""),
        ("How deep is Lake Suhr?", "Lake Arn is 61 metres deep.", ""),
        ("How much did the new boat cost?", "The cost of full oilskins is about £400.", "The new boat is here."),
        ("What does a lamp cost?", "The price of oil for a week is £4.", "Each lamp is lit at dusk."),
    ],
)
def test_sentences_of_other_items_places_and_things(question: str, sentence: str, text: str) -> None:
    assert is_of_another(question, sentence, "Rules", f"{text}\n{sentence}" if sentence not in text else text)


@pytest.mark.parametrize(
    ("question", "sentence", "text"),
    [
        ("What is the phone number of Sund Market?", "Phone: 55 12 40.", MARKETS),
        ("When does Arle Market close on Sunday?", "- Sunday: 8 am to 8 pm", MARKETS),
        ("Where is Arle Market?", "The markets are in the old town.", MARKETS),
        ("Which lake does Lake Suhr flow into?", "It flows into Lake Arn.", ""),
        ("How far is it from Mt. Tarn to Mt. Arle?", "Mt. Arle is 4 km from Mt. Tarn.", ""),
        ("When does Lake Suhr freeze?", "All lakes freeze in January.", ""),
        ("What does it cost to get in?", "The price of admission is £4.", "Come in by the gate."),
        ("How much is a new lamp?", "The cost of a lamp is about £400.", "The new boat is here."),
    ],
)
def test_sentences_of_the_same_item_place_or_thing(question: str, sentence: str, text: str) -> None:
    assert not is_of_another(question, sentence, "Rules", f"{text}\n{sentence}" if sentence not in text else text)
