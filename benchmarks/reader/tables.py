"""Tables made up at random, in the form in which our loaders write rows, with questions for their cells.

A passage is a caption and rows such as ``District: Ellisk; 2010: 1,456; 2011: 1,520``. Of the questions two in five ask
for a row, a column or a year that the table does not have. Names of rows are taken from passages; the rest is invented.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.reader.data import QuestionRow
from benchmarks.reader.labels import LABELS
from benchmarks.reader.presupposed import Made
from shared_core.types import Passage

_NAME = re.compile(r"(?<=[a-z,] )[A-Z][a-z]{2,}(?: (?:of )?[A-Z][a-z]{2,}){0,2}")
_KEYS = (
    "Country;District;State;Region;City;Company;School;Department;Institution;Name;Product;Model;Station;Programme;Party;"
    "Applicant;Name of bank;Ministry;Category;Sector;Item;Description;Type;Parameter;Site;Team;Borough;Airport;Material"
)
_NUMBERS = (
    "Population;Area (km²);Households;Employees;Pupils;Teachers;Visitors;Number of beds;Budget;Revenue;"
    "Expenditure;Exports;Imports;Price (USD);Amount;Total;Capacity;Votes;Seats;Grants;Loans;Production (tonnes);"
    "Yield;Weight (kg);Length (m);Depth;Height;Temperature (°C);Rainfall (mm);Cases;Deaths;Births;Arrests;"
    "Accidents;Vehicles;Licences;Applications;Patents;Share (%);Growth rate;Unemployment rate;Literacy rate;"
    "Turnout;Score;Rank;Age;Speed;Power (kW);Voltage;Samples;Plan Revenue;Non-Plan Capital;Sanctioned;Released;"
    "Approved;Installed capacity;Emissions;Consumption;Debt;Assets;Deposits;Net income;Full-time;Part-time;Male;"
    "Female;Urban;Rural;Minimum;Maximum;Mean;Median"
)
_WORDS: Mapping[str, str] = {
    "Status": "active;closed;pending;approved;rejected;under review;withdrawn",
    "Category": "A;B;C;I;II;III;small;medium;large;general",
    "Frequency": "daily;weekly;monthly;quarterly;annually;twice a year",
    "Head office": "Geneva;Pune;Leeds;Osaka;Lyon;Porto;Tampere;Bergen;Austin;Quito",
    "Responsible": "Mr. A. Rao;Ms. L. Berg;Dr. K. Osei;J. Moreau;P. Lindqvist;S. Tanaka;M. Duarte",
    "Unit": "kg;litre;piece;hour;kWh;box;tonne",
    "Method": "survey;interview;sampling;census;inspection;estimate",
    "Date of issue": "04-03-2014;12 May 2009;8/9/2012;2015-11-30;1 July 1998;17-01-2020;23 October 2003",
    "Legal basis": "Article 14;Section 5(2);Regulation 1169;Act of 1984;Rule 12;Schedule III",
    "Required": "Yes;No;Optional",
    "Level": "district;national;primary;secondary;regional",
    "Default": "0;1;none;true;false;auto;10;60",
}
_MEASURES = (
    "Number of visitors;Exports of steel;Production of wheat;Registered cars;Road deaths;Suicides;Electricity use;"
    "Water withdrawal;Tax revenue;Public debt;Births;Marriages;Students enrolled;Hospital beds;Foreign residents;"
    "Housing starts;Fish landings;Rice surplus;Milk yield;Research spending;Crude oil imports;Bank branches"
)
_LEAST = 40  # names
_OPEN = 0.4  # share of questions that the table does not answer
_OTHERWISE = 0.5  # share of questions in other words than the column's, if there are any
_REVERSED = 0.15  # share of questions for the row that has a value


@dataclass(frozen=True, slots=True)
class _Table:
    key: str
    rows: list[str]
    columns: list[str]
    cells: list[list[str]]
    measure: str  # what the numbers of a table by years are; "" of others


def make(passages: Mapping[str, Passage], count: int, rng: random.Random) -> Made:
    """Make ``count`` tables with two or three questions each.

    Args:
        passages: names of rows are taken from these.
        count: number of tables; none are made if the passages have fewer than 40 names.
        rng: random numbers.
    """
    names = names_in(passages)
    made = Made([], [])
    for i in range(count if len(names) >= _LEAST else 0):
        table = _table(names, rng)
        passage, places = _write(f"tables/{i}", table, rng)
        made.passages.append(passage)
        for _ in range(rng.choice((2, 2, 3))):
            made.questions.append(_ask(passage, table, places, names, rng))
    return made


def names_in(passages: Mapping[str, Passage]) -> list[str]:
    """Return the capitalized names within sentences of ``passages``, sorted."""
    return sorted({n for p in passages.values() for n in _NAME.findall(p.text)})


def _number(rng: random.Random) -> str:
    kind = rng.randrange(6)
    if kind == 0:
        return f"{rng.uniform(0, 100):.1f}"
    if kind == 1:
        return f"{rng.uniform(0, 2000):.2f}"
    if kind == 2:
        return str(rng.randrange(1, 500))
    value = int(10 ** rng.uniform(2, 6.5))
    return f"{value:,}" if kind < 5 else str(value)


def _table(names: Sequence[str], rng: random.Random) -> _Table:
    rows = rng.sample(names, rng.randint(3, 9))
    key = rng.choice(_KEYS.split(";"))
    if rng.random() < 0.35:
        first = rng.randint(1950, 2021)
        columns = [str(first + i) for i in range(rng.randint(2, 6))]
        return _Table(
            key, rows, columns, [[_number(rng) for _ in columns] for _ in rows], rng.choice(_MEASURES.split(";"))
        )
    words = rng.sample(sorted(_WORDS), rng.randint(0, 3))
    columns = rng.sample(_NUMBERS.split(";"), rng.randint(1, 5)) + [w for w in words if w != key]
    rng.shuffle(columns)
    cells = [[rng.choice(_WORDS[c].split(";")) if c in _WORDS else _number(rng) for c in columns] for _ in rows]
    return _Table(key, rows, columns, cells, "")


def _write(key: str, table: _Table, rng: random.Random) -> tuple[Passage, list[list[tuple[int, int]]]]:
    """Write a table as a passage; returns it with the code points of every cell."""
    caption = table.measure or rng.choice(("", "Overview", f"{table.columns[0]} by {table.key.lower()}"))
    where = (
        rng.choice(("", f" by {table.key.lower()}", f", {table.columns[0]}–{table.columns[-1]}"))
        if table.measure
        else ""
    )
    caption = f"Table {rng.randint(1, 40)}. {caption}{where}" if rng.random() < 0.3 and caption else f"{caption}{where}"
    text = f"{caption}\n" if caption and rng.random() < 0.6 else ""
    numbered = rng.random() < 0.25
    places: list[list[tuple[int, int]]] = []
    for i, (row, cells) in enumerate(zip(table.rows, table.cells)):
        text += (f"No.: {i + 1}; " if numbered else "") + f"{table.key}: {row}"
        spans = []
        for column, cell in zip(table.columns, cells):
            text += f"; {column}: "
            spans.append((len(text), len(text) + len(cell)))
            text += cell
        places.append(spans)
        text += "\n"
    return Passage(key, text.rstrip("\n"), caption), places


def _ask(
    passage: Passage,
    table: _Table,
    places: Sequence[Sequence[tuple[int, int]]],
    names: Sequence[str],
    rng: random.Random,
) -> QuestionRow:
    i, j = rng.randrange(len(table.rows)), rng.randrange(len(table.columns))
    row, column, cell = table.rows[i], table.columns[j], table.cells[i][j]
    open_one = rng.random() < _OPEN
    if rng.random() < _REVERSED and len(cell) > 2 and sum(cell in cells for cells in table.cells) == 1:
        value = _number(rng) if open_one else cell
        if value != cell and value in passage.text:
            value += "7"
        asked = f"Which {table.key.lower()} has {_article(column, table)} of {value}?"
        at = passage.text.index(f"{table.key}: {row}") + len(table.key) + 2
        return _row(asked, passage, None if open_one else (at, at + len(row)))
    if open_one:
        row, column = _elsewhere(row, column, table, names, rng)
    return _row(_form(row, column, table, rng), passage, None if open_one else places[i][j])


def _elsewhere(row: str, column: str, table: _Table, names: Sequence[str], rng: random.Random) -> tuple[str, str]:
    """Replace the row or the column by one that the table lacks."""
    if rng.random() < 0.5:
        return _unlike(rng.sample(names, _LEAST), table.rows, rng), column
    if table.measure:
        return row, _unlike([str(year) for year in range(1945, 2026)], table.columns, rng)
    return row, _unlike([*_NUMBERS.split(";"), *_WORDS], [*table.columns, table.key], rng)


def _unlike(names: Sequence[str], others: Sequence[str], rng: random.Random) -> str:
    """Choose one of ``names`` that is no part of any of ``others``, nor has one as a part."""
    plain = [_plain(other) for other in others]
    return rng.choice([n for n in names if not any(_plain(n) in o or o in _plain(n) for o in plain)])


def _plain(column: str) -> str:
    return re.sub(r"\s*\(.*\)", "", column).lower()


def _article(column: str, table: _Table) -> str:
    return f"{table.measure.lower()} in {column}" if table.measure else f"a {_plain(column)}"


def _form(row: str, column: str, table: _Table, rng: random.Random) -> str:
    if table.measure:
        what = table.measure[0].lower() + table.measure[1:]
        much = "How many" if what.startswith("number of ") else "How much"
        thing = what.removeprefix("number of ")
        return rng.choice(
            (
                f"What was the {what} in {row} in {column}?",
                f"What was {row}'s {what} in {column}?",
                f"{much} {thing} did {row} have in {column}?",
                f"What {what} is given for {row} for {column}?",
                f"{what} {row} {column}",
                f"{row} {column}",
            )
        )
    what = _plain(column)
    if what.capitalize() in LABELS and rng.random() < _OTHERWISE:
        return rng.choice(LABELS[what.capitalize()][1].split(";")).format(x=row)
    forms = [
        f"What is the {what} of {row}?",
        f"What is {row}'s {what}?",
        f"What was the {what} for {row}?",
        f"What {what} does {row} have?",
        f"Which {what} is given for {row}?",
        f"{row} {what}",
        f"{what} {row}",
    ]
    if what.endswith("s") and column not in _WORDS:
        forms += [f"How many {what} does {row} have?", f"How many {what} were there in {row}?"] * 2
    elif column not in _WORDS:
        forms += [f"How high is the {what} of {row}?", f"How much {what} does {row} have?"]
    return rng.choice(forms)


def _row(question: str, passage: Passage, span: tuple[int, int] | None) -> QuestionRow:
    answers = (passage.text[slice(*span)],) if span else ()
    return QuestionRow(question, passage.id, answers, (span,) if span else ())
