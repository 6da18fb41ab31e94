"""Questions for the rows of tables that their values choose: extremes of a column, and ranges that a value is in."""

from __future__ import annotations

import csv
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared_core import SelfReflectEngine
from shared_core.documents import DocumentIndex
from shared_core.reading.bands import find_in_range, read_band
from shared_core.reading.row_values import choose_compared, choose_extreme, choose_holding, query_for_rows
from shared_core.reading.tables import find_tables
from shared_core.types import Answer, Passage

LEAGUE = """# Sunday league

| Team | Played | Won | Lost | Points |
|---|---|---|---|---|
| Ashford Rovers | 14 | 9 | 3 | 29 |
| Bexley Town | 14 | 11 | 2 | 34 |
| Cray Valley | 14 | 4 | 9 | 13 |

The cup final is on 14 June.
"""
COURSES = """Course,Level,Weeks,Fee
Pottery for beginners,1,8,£140
Glazing,2,4,£95
Throwing on the wheel,2,10,£210
Hand building,1,6,£110
Total,,,£555
"""
VET = """# Prices

| Animal | Castration | Spaying |
|---|---|---|
| Cat | £62 | £84 |
| Dog under 10 kg | £180 | £220 |
| Dog 10–20 kg | £205 | £260 |
| Dog over 20 kg | £240 | £310 |

# Delivery of parcels

- Up to 2 kg: £3.95
- 2.1–5 kg: £5.50
- Over 5 kg: please ask
"""

Ask = Callable[[str, str, str], Answer]
"""Asks a question of a file with this name and text."""


@pytest.fixture
def ask(tmp_path: Path) -> Ask:
    def answer(name: str, text: str, question: str) -> Answer:
        (tmp_path / name).write_text(text, "utf-8")
        index = DocumentIndex(None)
        index.update(tmp_path / name)
        return SelfReflectEngine(index.retriever()).answer(question)

    return answer


@pytest.mark.parametrize(
    ("name", "text", "question", "held"),
    [
        ("league.md", LEAGUE, "Which team has the most points?", "Bexley Town"),
        ("league.md", LEAGUE, "Which team lost the most games?", "Cray Valley"),
        ("league.md", LEAGUE, "Which team has the fewest points?", "Cray Valley"),
        ("courses.csv", COURSES, "Which course is the cheapest?", "Glazing"),
        ("courses.csv", COURSES, "Which level 1 course is the cheapest?", "Hand building"),
        ("courses.csv", COURSES, "What is the longest course?", "Throwing"),
        ("courses.csv", COURSES, "What is the most expensive course?", "Throwing"),
        ("vet.md", VET, "How much is castrating a 25 kg dog?", "£240"),
        ("vet.md", VET, "What does it cost to spay a dog that weighs 8 kg?", "£220"),
        ("vet.md", VET, "What does it cost to send a 4 kg parcel?", "£5.50"),
        ("vet.md", VET, "What does delivery of a 9 kg parcel cost?", "please ask"),
    ],
)
def test_rows_are_chosen_by_their_values(ask: Ask, name: str, text: str, question: str, held: str) -> None:
    answer = ask(name, text, question)
    assert not answer.abstained
    assert held in answer.text
    assert "[2]" not in answer.text


@pytest.mark.parametrize(
    ("name", "text", "question", "held"),
    [
        ("league.md", LEAGUE, "Which teams have more than 25 points?", ["Ashford Rovers", "Bexley Town"]),
        ("courses.csv", COURSES, "Which courses cost less than £120?", ["Glazing", "Hand building"]),
        (
            "courses.csv",
            COURSES,
            "Which courses are longer than 7 weeks?",
            ["Pottery for beginners", "Throwing on the wheel"],
        ),
        ("courses.csv", COURSES, "Are there any level 2 courses under £100?", ["Glazing"]),
        ("courses.csv", COURSES, "Who teaches courses under £90?", []),
        ("courses.csv", COURSES, "Are there courses over £500?", []),
    ],
)
def test_all_rows_within_a_limit_are_quoted(ask: Ask, name: str, text: str, question: str, held: list[str]) -> None:
    answer = ask(name, text, question)
    lines = text.splitlines()
    others = [line.strip("| ").split(" |")[0].split(",")[0] for line in lines]
    assert answer.abstained is (not held)
    assert all(name in answer.text for name in held)
    assert len(held) == sum(bool(o) and f": {o};" in answer.text for o in others)


@pytest.mark.parametrize(
    ("name", "text", "question"),
    [
        ("courses.csv", COURSES, "Which weekend course is the cheapest?"),
        ("courses.csv", COURSES, "Which course has the second lowest fee?"),
        ("league.md", LEAGUE, "Which team has the most supporters?"),
        ("vet.md", VET, "How much is castrating a 25 kg goat?"),
    ],
)
def test_words_that_the_table_lacks_leave_it_open(ask: Ask, name: str, text: str, question: str) -> None:
    assert ask(name, text, question).abstained


MENU = """# Menu of the Copper Pot

| Dish | Price | Vegan | Contains |
|---|---|---|---|
| Lentil dal | £9.50 | yes | mustard |
| Fish pie | £13.00 | no | milk, fish |
| Beetroot burger | £11.00 | yes | wheat, sesame |
| Rice pudding | £5.00 | no | milk |
"""
BUSES = """Line,From,To,First,Operator
12,Station,Harbour,05:40,CityLink
27,Market Square,Airport,04:30,SkyRide
31,Harbour,University,07:00,CityLink
N2,Station,Airport,00:45,SkyRide
"""


@pytest.mark.parametrize(
    ("text", "question", "held"),
    [
        (MENU, "Which dishes are vegan?", ["Lentil dal", "Beetroot burger"]),
        (MENU, "Which dishes are not vegan?", ["Fish pie", "Rice pudding"]),
        (MENU, "Which dishes contain milk?", ["Fish pie", "Rice pudding"]),
        (MENU, "Which dishes contain no milk?", ["Lentil dal", "Beetroot burger"]),
        (MENU, "What is the cheapest vegan dish?", ["Lentil dal"]),
        (MENU, "Are there vegan dishes for less than £10?", ["Lentil dal"]),
        (MENU, "Which vegan dishes contain milk?", []),
        (MENU.replace("£11.00 | yes", "£11.00 | on request"), "Which dishes are vegan?", ["Lentil dal"]),
        (MENU.replace("£9.50 | yes", "£9.50 | on request"), "What is the cheapest vegan dish?", ["Beetroot burger"]),
        (MENU.replace("yes", "no"), "Which dishes are vegan?", []),
        (MENU.replace("yes", "no"), "What is the cheapest vegan dish?", []),
        (BUSES, "Which buses go to the airport?", ["27", "N2"]),
        (BUSES, "Which lines go from the harbour?", ["31"]),
        (BUSES, "Which lines go from the airport?", []),
        (BUSES, "Which operator runs line 12?", ["12"]),
        (BUSES, "Which CityLink lines go to the harbour?", ["12"]),
        (BUSES, "Which lines go from the station to the airport?", ["N2"]),
        (BUSES, "Which lines go from the airport to the station?", []),
    ],
)
def test_rows_are_chosen_by_what_a_cell_holds(ask: Ask, text: str, question: str, held: list[str]) -> None:
    answer = ask("buses.csv" if text is BUSES else "menu.md", text, question)
    names = [line.strip("| ").split(" |")[0].split(",")[0] for line in text.splitlines()]
    assert answer.abstained is (not held)
    assert [name for name in names if f": {name};" in answer.text] == held


@pytest.mark.parametrize(
    "question",
    [
        "Which dishes contain nuts?",
        "Which dishes contain no nuts?",
        "Which dishes are served on Sundays?",
        "Who cooks?",
    ],
)
def test_what_no_cell_holds_chooses_no_row(question: str) -> None:
    rows = "Dish: Pie; Vegan: no; Contains: milk\nDish: Dal; Vegan: yes; Contains: mustard"
    assert choose_holding(question, [Passage("p", rows)]) is None


CREW = """Name,Job,Days,Languages,Diver,Town,Since
Ida Holm,Cook,"Monday, Friday","Danish, Welsh",no,Ostrand,2011
Bo Lund,Mate,Saturday,Danish,yes,Saltmere,2009
Jon Falk,Mate,"Monday, Saturday","Danish, Finnish",yes,Ostrand,2020
"""


@pytest.mark.parametrize(
    ("question", "held"),
    [
        ("Who speaks Finnish?", ["Jon Falk"]),
        ("Who works on Saturday?", ["Bo Lund", "Jon Falk"]),
        ("Which people of the crew live in Ostrand?", ["Ida Holm", "Jon Falk"]),
        ("Who are the divers?", ["Bo Lund", "Jon Falk"]),
        ("Which mates work on Monday?", ["Jon Falk"]),
        ("Who in the crew has worked the longest?", ["Bo Lund"]),
        ("Who speaks Ostrand?", []),  # in another column
        ("Who hates Welsh?", None),
        ("Who works on Sunday?", None),
        ("Who founded Ostrand?", None),
        ("Who is taller than Jon?", None),
    ],
)
def test_people_are_chosen_by_what_their_cells_hold(question: str, held: list[str] | None) -> None:
    head, *lines = csv.reader(CREW.splitlines())
    rows = ["; ".join(f"{name}: {cell}" for name, cell in zip(head, line)) for line in lines]
    passages = [Passage("p", "\n".join(rows), "Crew")]
    chosen = choose_holding(question, passages) or choose_extreme(question, passages)
    found = chosen and [passages[0].text[start:end].split(";")[0][6:] for _, start, end in chosen.lines]
    assert found == held


def test_verbs_are_for_columns_of_people_only() -> None:
    text = "Name: Work safety; Day: Monday; Fee: £4\nName: Net making; Day: Friday; Fee: £5"
    chosen = choose_holding("Which courses are about work safety?", [Passage("p", text, "Courses about the sea")])
    assert chosen is not None
    assert [text[start:end][:17] for _, start, end in chosen.lines] == ["Name: Work safety"]
    cities = "City: New York; Language: English\nCity: Sao Paulo; Language: Portuguese"
    assert choose_holding("Who speaks English?", [Passage("p", cities)]) is None


def test_names_of_columns_are_no_extremes() -> None:
    text = "Name: Ida Holm; First aider: yes\nName: Bo Lund; First aider: no"
    chosen = choose_holding("Which are first aiders?", [Passage("p", text)])
    assert chosen is not None
    assert [text[start:end] for _, start, end in chosen.lines] == ["Name: Ida Holm; First aider: yes"]


def test_a_table_that_another_quote_hides_is_read_whole() -> None:
    rows = [f"Name: Ida H{i}lm; Job: {'Diver' if i % 4 else 'Cook'}; Town: Ostrand" for i in range(1, 9)]
    crew = [Passage(f"r{i}", row, "", {"source": "crew.csv", "row": i, "rows": 8}) for i, row in enumerate(rows[:3])]
    passages = [Passage("p", "The crew had divers."), *crew]
    query, number = query_for_rows("Which people of the crew are divers?", passages, 0)
    assert "Job" in query
    assert passages[number].metadata["source"] == "crew.csv"
    for other in ("Which people of the crew are surgeons?", "Which ship is the oldest?", "Why are there divers?"):
        assert query_for_rows(other, passages, 0) == ("", 0)


def test_the_cell_asked_for_is_the_short_answer() -> None:
    text = "Line: 12; To: Harbour; Operator: CityLink\nLine: 27; To: Airport; Operator: SkyRide"
    chosen = choose_holding("Which operator runs line 12?", [Passage("p", text)])
    assert chosen is not None
    assert [text[slice(*cell)] for cell in chosen.lines.values() if cell] == ["CityLink"]


def rows_of(values: list[int], **metadata: int) -> list[Passage]:
    return [
        Passage(str(i), f"Mast: M{i}x; Height: {v} m; Built: 19{i:02}", "Masts", {"source": "m", "row": i, **metadata})
        for i, v in enumerate(values)
    ]


@given(st.lists(st.integers(1, 10_000), min_size=2, max_size=12), st.randoms(use_true_random=False))
def test_extremes_are_those_of_all_rows(values: list[int], order: random.Random) -> None:
    passages = rows_of(values, rows=len(values))
    order.shuffle(passages)
    for question, best in (("Which is the tallest mast?", max(values)), ("Which is the lowest mast?", min(values))):
        chosen = choose_extreme(question, passages)
        assert chosen is not None
        held = {passages[number].text for number, _, _ in chosen.lines}
        assert held == {p.text for p in passages if f"Height: {best} m" in p.text}
        assert len(chosen.lines) + len(chosen.others) == len(values)


@given(st.lists(st.integers(1, 10_000), min_size=2, max_size=12), st.integers(1, 10_000))
def test_rows_within_a_limit_are_those_whose_value_is(values: list[int], limit: int) -> None:
    passages = rows_of(values, rows=len(values))
    chosen = choose_compared(f"Which masts are higher than {limit} m?", passages)
    assert chosen is not None
    assert {number for number, _, _ in chosen.lines} == {i for i, value in enumerate(values) if value > limit}
    assert choose_compared(f"Which masts are higher than {limit} m?", passages[1:]) is None
    assert choose_compared(f"Which masts aren't higher than {limit} m?", passages) is None
    assert choose_compared(f"Which masts cost more than £{limit}?", passages) is None


@given(st.lists(st.integers(1, 10_000), min_size=3, max_size=12))
def test_a_row_that_was_not_read_leaves_extremes_open(values: list[int]) -> None:
    passages = rows_of(values, rows=len(values))[1:]
    assert choose_extreme("Which is the tallest mast?", passages) is None
    assert "Height" in query_for_rows("Which is the tallest mast?", passages, 0)[0]
    assert query_for_rows("Who built mast 3?", passages, 0) == ("", 0)
    assert choose_extreme("Which is the tallest mast?", rows_of(values)) is None, "how many there are is unknown"


def test_cells_without_a_number_leave_extremes_open() -> None:
    text = "Peak: Varo; Height: 3,412 m\nPeak: Nera; Height: unknown\nPeak: Alba; Height: 2,987 m"
    assert choose_extreme("Which is the highest peak?", [Passage("p", text)]) is None
    assert choose_extreme("Which is the highest peak?", [Passage("p", text.replace("unknown", "3,298 m"))]) is not None


@pytest.mark.parametrize(
    ("question", "held"),
    [
        ("Which peak was climbed first?", "Nera"),
        ("Which peak was climbed last?", None),
        ("Who joined first?", None),
        ("Which peak was the first one?", None),
    ],
)
def test_first_and_last_are_extremes_at_the_end_of_a_question(question: str, held: str | None) -> None:
    text = "Peak: Varo; First ascent: 1871\nPeak: Nera; First ascent: 1865\nPeak: Alba; First ascent: 1902"
    chosen = choose_extreme(question, [Passage("p", text)])
    assert [text[slice(*cell)] for cell in chosen.lines.values() if cell] == [held] if chosen else held is None


def test_the_verb_names_the_column_of_what_came_first() -> None:
    text = "Member: Ann; Joined: 2011\nMember: Bo; Joined: 2009\nMember: Cy; Joined: 2020"
    for question, name in (("Who joined first?", "Bo"), ("Which member joined last?", "Cy")):
        chosen = choose_extreme(question, [Passage("p", text)])
        assert chosen is not None
        assert [text[slice(*cell)] for cell in chosen.lines.values() if cell] == [name]


@pytest.mark.parametrize(
    "question",
    ["Which peak should I climb first?", "When must I be on a peak at the latest?", "What is the maximum height?"],
)
def test_questions_for_a_rule_ask_for_no_extreme(question: str) -> None:
    text = "Peak: Varo; Height: 3,412 m; Date: 3 May 1871\nPeak: Nera; Height: 3,298 m; Date: 9 May 1865"
    assert choose_extreme(question, [Passage("p", text)]) is None


def test_two_tables_that_fit_leave_extremes_open() -> None:
    first, second = "Dish: Soup; Price: £4\nDish: Pie; Price: £9", "Dish: Cod; Price: £8\nDish: Ham; Price: £7"
    passages = [Passage("a", first, "Old menu"), Passage("b", second, "New menu")]
    assert choose_extreme("Which dish is the cheapest?", passages) is None
    assert choose_extreme("Which dish is the cheapest?", passages[:1]) is not None


@pytest.mark.parametrize("suffix", ["csv", "md"])
def test_tables_longer_than_the_passages_found_are_read_whole(ask: Ask, suffix: str) -> None:
    prices = {f"Bench number {n}": 20 + (n * 37) % 331 for n in range(60)}
    if suffix == "csv":
        text = "Article,Price,Colour\n" + "\n".join(f"{name},£{price},green" for name, price in prices.items())
    else:
        text = "# Benches\n\n| Article | Price | Colour |\n|---|---|---|\n"
        text += "\n".join(f"| {name} | £{price} | green |" for name, price in prices.items())
    answer = ask(f"benches.{suffix}", text, "Which article is the cheapest?")
    cheapest = min(prices, key=prices.__getitem__)
    assert not answer.abstained
    assert f"{cheapest};" in answer.text
    assert "[2]" not in answer.text


def test_tables_cut_into_passages_are_whole_only_together() -> None:
    rows = [f"Mast: M{i}x; Height: {i} m" for i in range(6)]
    one = Passage("a", "\n".join(rows[:3]), metadata={"source": "m", "start": 0, "cut": "end"})
    start = len(one.text) - len(rows[2])
    two = Passage("b", "\n".join(rows[2:]), metadata={"source": "m", "start": start, "cut": "start"})
    assert [table.is_whole for table in find_tables([one])] == [False]
    assert [table.is_whole for table in find_tables([two])] == [False]
    assert [table.is_whole for table in find_tables([two, one])] == [True]


@pytest.mark.parametrize(
    ("label", "inside", "outside"),
    [
        ("Dog under 10 kg", [0, 9.9], [10, 11]),
        ("up to 10 kg", [0, 10], [10.1]),
        ("10 kg or less", [0, 10], [10.1]),
        ("10–20 kg", [10, 20], [9, 21]),
        ("over 20 kg", [20.1, 500], [20]),
        ("20 kg and over", [20, 500], [19]),
        ("20+ kg", [20, 500], [19]),
        ("500 g to 2 kg", [0.5, 2], [0.4, 3]),
        ("at least 3 kg", [3, 4], [2]),
        ("< 3 kg", [2], [3, 4]),
    ],
)
def test_bands_hold_their_values(label: str, inside: list[float], outside: list[float]) -> None:
    band = read_band(label)
    assert band is not None
    assert band.dimension == "mass"
    assert all(map(band.holds, inside))
    assert not any(map(band.holds, outside))


@pytest.mark.parametrize("label", ["Cats", "A4", "20 kg", "first 20 minutes", "Table 3", "1 kg and 3 m", ""])
def test_labels_that_are_no_range(label: str) -> None:
    assert read_band(label) is None


@given(st.integers(0, 400), st.lists(st.integers(1, 300), min_size=2, max_size=6, unique=True))
def test_at_most_one_of_adjoining_ranges_is_chosen(value: int, ends: list[int]) -> None:
    first, *later = sorted(ends)
    labels = [f"under {first}"]
    labels += [f"{low}–{high - 1}" for low, high in zip([first, *later], later) if high - 1 > low]
    text = "\n".join(f"Quantity: {label}; Price: £{i + 1}" for i, label in enumerate([*labels, f"{later[-1]}+"]))
    found = find_in_range(f"What is the price for {value}?", [Passage("p", text)])
    held = [text[start:end] for _, start, end in found.lines] if found else []
    within = [label for label in [*labels, f"{later[-1]}+"] if (band := read_band(label)) and band.holds(value)]
    assert [line.split(";")[0] for line in held] == [f"Quantity: {label}" for label in within]


@pytest.mark.parametrize(
    ("question", "held"),
    [
        ("What is the price of a dog over 20 kg?", ["over 20 kg"]),
        ("What is the price of a dog under 10 kg?", ["under 10 kg"]),
        ("What is the price of a dog of 20 kg?", ["10–20 kg"]),
        ("What is the price of a dog over 10 kg?", []),
    ],
)
def test_ranges_that_a_question_names_are_that_very_range(question: str, held: list[str]) -> None:
    text = "Dog: under 10 kg; Price: £5\nDog: 10–20 kg; Price: £6\nDog: over 20 kg; Price: £7"
    found = find_in_range(question, [Passage("p", text)])
    assert [text[start + 5 : end].split(";")[0] for _, start, end in (found.lines if found else [])] == held


def test_values_of_other_kinds_choose_no_range() -> None:
    text = Passage("p", "Stay: 1–3 nights; Price: £90\nStay: 4–7 nights; Price: £80")
    assert find_in_range("What is the price for 5 nights?", [text]) is not None
    assert find_in_range("What is the price for 5 dogs?", [text]) is None
    assert find_in_range("What is the price for 2 nights in 3 rooms?", [text]) is None
    assert find_in_range("What was the price in 2019?", [text]) is None
