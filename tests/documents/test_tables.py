"""CSV, TSV, JSON Lines and JSON: rows as parts with their columns; one bad row costs itself."""

from __future__ import annotations

import contextlib
import json
import re
from typing import Any

import pytest

from shared_core import SelfReflectEngine
from shared_core.documents import chunk_document
from shared_core.documents.load import Document
from shared_core.documents.loaders import config, csv_tables
from shared_core.errors import DocumentError
from shared_core.retrieval import BM25Retriever
from tests.documents.reading import headings, read, refuses


def rows(document: Document) -> list[tuple[str, str, dict[str, Any]]]:
    return [(document.text[p.start : p.end], p.title, dict(p.metadata)) for p in document.segments]


def test_csv_rows_are_parts_with_their_columns() -> None:
    content = (
        'id,Title,Content,year,price,postcode,source\r\n'
        '7,Lamp,"Brass, with ""eyes"".\r\nTwo lines.",1841,3.5,01234,attic\r\n\r\n'
        "8,Sail,Torn.,,2,55555,\r\n9,Nothing,,1850,1,00000,x\r\n"
    )  # fmt: skip
    document = read(content, "a.csv")
    lamp = {"id": 7, "year": 1841, "price": 3.5, "postcode": "01234", "column_source": "attic", "row": 1}
    assert rows(document) == [
        ('Brass, with "eyes".\r\nTwo lines.', "Lamp", lamp),
        ("Torn.", "Sail", {"id": 8, "price": 2.0, "postcode": "55555", "row": 2}),
    ]
    assert ["row 3" in p.message for p in document.problems] == [True]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", "text;n\nhello, you;1\nbye, you;2\n"),
        ("a.csv", "n\ttext\n1\thello, you\n"),
        ("a.csv", 'text|"a, b, c"|n\n"hello, you"|x|1\n'),
        ("a.csv", "a, b, c;text\nx;hello, you\ny;bye\n"),
        ("a.tsv", "text\tn\nhello, you\t1\n"),
        ("a.csv", "text;n\rhello, you;1\r"),
        ("a.csv", 'text;n\rhello, you;1\r"two\nlines";2\r'),
        ("a.csv.gz", None),
    ],
)
def test_dialects(name: str, content: str | None) -> None:
    import gzip

    data = content if content is not None else gzip.compress(b"text;n\nhello, you;1\n")
    assert "hello, you" in rows(read(data, name))[0][0]


def test_a_table_of_cells_is_read_row_by_row() -> None:
    prices = "product,price,stock\nHammer 500 g,17.50,0\nNail,0.05,\n,,\n"
    assert rows(read(prices, "prices.csv")) == [
        (
            "product: Hammer 500 g; price: 17.50; stock: 0",
            "",
            {"product": "Hammer 500 g", "price": 17.5, "stock": 0, "row": 1, "rows": 2},
        ),
        ("product: Nail; price: 0.05", "", {"product": "Nail", "price": 0.05, "row": 2, "rows": 2}),
    ]
    # A column that is often a text may be a cell, and the question is not to be lost beside its answer.
    faq = "question,answer\nHow long is the warranty?,24 months\nIs it loud?,No.\n"
    assert rows(read(faq, "faq.csv"))[0][:2] == (
        "question: How long is the warranty?; answer: 24 months",
        "How long is the warranty?",
    )
    long = faq.replace("24 months", "The warranty lasts 24 months from the date of purchase. " * 2)
    assert rows(read(long.replace("No.", "It is as loud as a vacuum cleaner in the next room. " * 2), "faq.csv"))[0][
        1
    ] == ("How long is the warranty?")
    people = '{"who": "Eva", "tel": "0171"}\n{"who": "Ian", "since": [2011]}\n'
    assert [text for text, _, _ in rows(read(people, "p.jsonl"))] == ["who: Eva; tel: 0171", "who: Ian; since: [2011]"]
    assert "no text column" in refuses("day,degrees\n2024-01-01,3.5\n", "sensor.csv").message


NORTH = "North,10,12,5,6\nSouth,20,25,11,9\n"


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (f"Region,Sales,,Costs,\n,2022,2023,2022,2023\n{NORTH}",
         "Region: North; Sales 2022: 10; Sales 2023: 12; Costs 2022: 5; Costs 2023: 6"),
        (f"Region,Sales,Sales,Costs,Costs\n{NORTH}",
         "Region: North; Sales: 10; Sales (2): 12; Costs: 5; Costs (2): 6"),
        (f"Region,Sales,,Costs,Rent\n{NORTH}", "Region: North; Sales: 10; column 3: 12; Costs: 5; Rent: 6"),
        (",name,price\n0,Saw,5\n1,Axe,7\n", "name: Saw; price: 5"),  # the index of a data frame
        ("name,,place\nHammer,light,\nSaw,heavy,Ellum\n", "name: Hammer; column 2: light"),
        (",opens,\nHall,nine,noon\nBar,ten,late\n", "column 1: Hall; opens: nine; column 3: noon"),
        ("Quarter;Revenue (EUR);Margin\nQ1;1.204,5;12,4 %\nQ2;1.310,0;11,9 %\nQ3;998,2;-3,1 %\n",
         "Quarter: Q1; Revenue (EUR): 1.204,5; Margin: 12,4 %"),
    ],
)  # fmt: skip
def test_values_have_the_name_of_their_column_or_its_number(content: str, text: str) -> None:
    document = read(content, "a.csv")
    assert rows(document)[0][0] == text
    assert document.segments[0].metadata["row"] == 1


def test_csv_text_column() -> None:
    content = "id,note\n1,2024-01\n"
    error = refuses(content, "a.csv")
    assert "'id', 'note'" in error.message
    assert "--text-column" in error.hint
    assert read(content, "a.csv", text_column="NOTE").text == "2024-01"
    assert "'nope'" in refuses(content, "a.csv", text_column="nope").message


def test_a_text_column_that_most_rows_leave_empty_is_a_cell_like_others() -> None:
    long = "What was learnt when the lamps of the whole coast were counted twice by two keepers. " * 3
    board = f"Task,Comment,Due\nCount the lamps,{long},May\nOil the winch,,June\nMend the rope,,July\n"
    assert read(board, "a.csv").text.endswith("Task: Oil the winch; Due: June\n\nTask: Mend the rope; Due: July")
    half = f"Task,Comment\nCount the lamps,{long}\nOil the winch,\n"
    assert read(half, "a.csv").text == f"Task: Count the lamps; Comment: {long.strip()}\n\nTask: Oil the winch"


REVIEWS = (("Lumen headlamp", 4, "The battery lasts nine hours."), ("Tern kettle", 3, "It boils a litre in a minute."))


def table(column: str, *texts: tuple[str, int, str]) -> str:
    return f"product,stars,{column}\n" + "\n".join(f'{name},{stars},"{text}"' for name, stars, text in texts)


@pytest.mark.parametrize("column", ["review", "comment", "text", "Content", "description", "notes"])
def test_short_texts_are_written_out_with_what_they_are_about(column: str) -> None:
    document = read(table(column, *REVIEWS), "a.csv")
    assert rows(document)[0] == (
        f"product: Lumen headlamp; stars: 4; {column}: The battery lasts nine hours.",
        "",
        {"product": "Lumen headlamp", "stars": 4, column: "The battery lasts nine hours.", "row": 1, "rows": 2},
    )
    entries = [{"product": name, "stars": stars, column: text} for name, stars, text in REVIEWS]
    assert read(json.dumps(entries), "a.json").text == document.text
    assert read("\n".join(map(json.dumps, entries)), "a.jsonl").text == document.text


@pytest.mark.parametrize("column", ["review", "text", "description"])
def test_long_texts_have_what_they_are_about_as_title_and_before_them(column: str) -> None:
    long = [(name, stars, f"{text} That is enough for me.\n\n{'It is light and small. ' * 90}".strip())
            for name, stars, text in REVIEWS]  # fmt: skip
    document = read(table(column, *long), "a.csv")
    text, title, metadata = rows(document)[0]
    assert text == f"product: Lumen headlamp; stars: 4; {column}: {long[0][2]}"
    assert (title, metadata) == ("Lumen headlamp", {"product": "Lumen headlamp", "stars": 4, "row": 1, "rows": 2})
    parts = chunk_document(document)
    assert len(parts) > 4
    assert {part.title for part in parts} == {"Lumen headlamp", "Tern kettle"}


LONG = "It is light and small, and neither rain nor snow has done it any harm in all the years that I have had it."


def test_texts_that_stand_alone_stay_so() -> None:
    for header, values in {
        "id,title,text,url": "7,Lamps,{},https://a.org/lamps",
        "id,title,context,question,answers": "x1,Lamps,{},How heavy is it?,light",
        "Title,Text,Author,Year": "Lamps,{},Ida Berg,1999",
        "id,text,source,lang": "7,{},lamps/a.txt,en",
        "question,category,answer": "How heavy is it?,Lamps,{}",
        "id,description": "7,{}",
    }.items():
        assert read(header + "\n" + values.replace("{}", f'"{LONG}"') + "\n", "a.csv").text == LONG


@pytest.mark.parametrize(
    ("header", "values", "title"),
    [
        ("product,reviewer,city,review", ["Lumen headlamp,Priya,Orm", "Tern kettle,Ben,Hull"], "Lumen headlamp, Priya"),
        (
            "date,link,verified,product,review",
            ["2024-03-01,www.a.org,Yes,Lumen"] * 2 + ["2024-03-01,,No,Tern"],
            "Lumen",
        ),
        ("status,review", ["Open"] * 9 + ["Closed"], ""),
        ("shop,review", ["Harrow Street"] * 3, ""),
        ("name,product,review", ["Ida,Lumen headlamp"], "Ida"),
    ],
)
def test_a_rows_title_is_what_names_its_thing(header: str, values: list[str], title: str) -> None:
    lines = [f'{value},"{LONG}"' for value in values]
    assert rows(read("\n".join([header, *lines]), "a.csv"))[0][1] == title


def test_the_column_with_long_values_is_the_text() -> None:
    document = read(f'article,description\nLumen headlamp,"{LONG}"\nTern kettle,"{LONG}"\n', "a.csv")
    assert document.text.startswith("article: Lumen headlamp; description: It is light")
    assert [title for _, title, _ in rows(document)] == ["Lumen headlamp", "Tern kettle"]


def test_what_is_said_of_a_thing_is_found_under_its_name() -> None:
    for more in ("", f" {LONG}"):
        told = [(name, stars, text + more) for name, stars, text in REVIEWS]
        engine = SelfReflectEngine(BM25Retriever(chunk_document(read(table("review", *told), "a.csv"))))
        answer = engine.answer("How long does the battery of the Lumen headlamp last?")
        assert "nine hours" in answer.text
        assert engine.answer("How long does the battery of the Tern kettle last?").abstained
        assert "3" in engine.answer("How many stars did the Tern kettle get?").text


def test_a_row_with_broken_quotes_is_left_out_and_named() -> None:
    document = read('text,n\nfine,1\n"never closed,2\nalso fine,3\n"wrong" here,4\nlast,5\n', "a.csv")
    assert [(text, metadata["row"]) for text, _, metadata in rows(document)] == [
        ("fine", 1),
        ("also fine", 3),
        ("last", 5),
    ]
    assert [problem.message.split(" cannot")[0] for problem in document.problems] == [
        "row 2 (line 3)",
        "row 4 (line 5)",
    ]
    assert "line 1" in refuses('"text,n\nfine,1\n', "b.csv").message
    extra = read("text,n\nfine,1,2,3\n", "d.csv")
    assert "row 1 has 4 fields" in extra.problems[0].message


def test_other_limits_of_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "no rows" in refuses("text,n\n", "b.csv").message
    assert read("text,n\n" + "x" * 300_000 + ",1\n", "c.csv").text == "x" * 300_000
    for reader in (csv_tables, config):
        monkeypatch.setattr(reader, "MAX_CELLS", 1000)
    assert "cells" in refuses("text,n\n" + "a b,1\n" * 600, "d.csv").message
    assert "values" in refuses('{"text": "a b", "n": 1}\n' * 600, "e.jsonl").message
    monkeypatch.setattr(config, "MAX_LINE_CHARACTERS", 100)
    found = read(json.dumps({"text": "x" * 200}) + '\n{"text": "short"}', "f.jsonl")
    assert (found.text, "more than 100" in found.problems[0].message) == ("short", True)


@pytest.mark.parametrize("line", ['"x""\n', '"a""b\n', 'a,"\n', '"""\n'])
def test_quotes_never_closed_cost_no_more_than_the_file_is_long(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted: how many characters the reader of records is handed."""
    content = "text,n\n" + line * 20_000 + "the end,1\n"
    handed = 0
    real = csv_tables.csv.reader

    def counting(lines: Any, **options: Any) -> Any:
        def counted() -> Any:
            nonlocal handed
            for given in lines:
                handed += len(given)
                yield given

        return real(counted(), **options)

    monkeypatch.setattr(csv_tables.csv, "reader", counting)
    with contextlib.suppress(DocumentError):
        read(content, "a.csv")
    assert handed < 8 * len(content) + 100_000


def test_jsonl_bad_lines_are_named_and_the_others_kept() -> None:
    lines = [
        json.dumps({"text": "One.", "title": "T", "tags": ["a"], "n": 2**70, "ok": True, "row": 5}),
        '{"text": "broken',
        "",
        '["a list"]',
        '{"text": null}',
        '{"text": "Lone \\ud800 surrogate.", "bad": NaN}',
    ]
    document = read("\n".join(lines), "a.jsonl")
    assert rows(document) == [
        ("One.", "T", {"tags": '["a"]', "n": str(2**70), "ok": True, "column_row": 5, "row": 1}),
        ("Lone \ufffd surrogate.", "", {"row": 6}),
    ]
    assert [p.message.split(" is")[0] for p in document.problems[:2]] == ["line 2", "line 4"]
    assert "line 5" in document.problems[2].message
    assert "line 1" in refuses("{\n[", "b.jsonl").message
    assert "no text column" in refuses('{"a": 1}', "c.jsonl").message
    nested = '{"text": "x", "deep": ' + "[" * 100_000
    assert read(f'{nested}\n{{"text": "fine"}}', "d.jsonl").text == "fine"


def test_many_bad_lines_are_summed_up() -> None:
    document = read('{"text": "fine"}\n' + "broken\n" * 500, "a.jsonl")
    assert len(document.problems) == 21
    assert "480 more" in document.problems[-1].message


def test_json_lists_of_objects_are_tables_and_other_json_is_text() -> None:
    document = read(json.dumps([{"title": "T", "body": "One.", "n": 1}, {"body": "Two."}]), "a.json")
    assert rows(document) == [("One.", "T", {"n": 1, "row": 1}), ("Two.", "", {"row": 2})]
    settings = '{\n  "colour": "green"\n}'
    assert (read(settings, "b.json").text, read(settings, "b.json").format) == (settings, "code")
    assert read("[1, 2]", "c.json").text == "[1, 2]"
    assert read('[{"q": "a b"}]', "d.json").format == "code"
    assert read('[{"q": "a b"}]', "d.json", text_column="q").text == "a b"
    assert read("[" * 100_000, "e.json").format == "code"
    people = [{"name": "Ana Vos", "since": 2011, "ship": {"name": "Marrow"}}, {"name": "Bo Lund", "since": None}]
    lines = "\n".join(map(json.dumps, people))
    assert read(json.dumps(people), "f.json").text == read(lines, "f.jsonl").text
    assert read('[{"x": 1}, {"x": 2}]', "g.json").format == "code"
    document = read(json.dumps({"count": 2, "next": None, "results": people}), "h.json")
    assert [text for text, _, _ in rows(document)] == [
        "count: 2",
        *(text for text, _, _ in rows(read(lines, "f.jsonl"))),
    ]
    assert read(json.dumps({"info": {"title": "T"}, "tags": people}), "i.json").format == "code"


def test_json_without_line_breaks_is_broken_after_each_value() -> None:
    written = (
        '{"info":{"title":"Pets, {all}","version":1.10},"at":[1,2],"none":{},"tags":["a","b"],"url":"http://a.org/\\""}'
    )
    document = read(written, "a.json")
    assert re.sub(r"\n *", "", document.text) == written
    assert '"title":"Pets, {all}",\n  "version":1.10\n },\n "at":[1,2],\n "none":{},\n' in document.text
    assert read('{"a": "b", "c": 1}', "b.json").text == '{"a": "b", "c": 1}'
    broken = '{"a": "b", ' * 20
    assert read(broken, "c.json").text == broken


@pytest.mark.parametrize(
    ("above", "text"),
    [
        ("Report of prices\n\n", "Report of prices"),
        ("Prices; of March\nBy the town\n", "Prices\tof March\nBy the town"),
        ("Prices of March;;;\n;;;\n", "Prices of March"),
        ("Exported;2024\n\n", "Exported\t2024"),
    ],
)
def test_lines_above_the_header_are_text(above: str, text: str) -> None:
    document = read(f"{above}name;price;stock;place\nHammer;5,00;1;a\nNail;6,00;2;b\n", "a.csv")
    first, hammer, _ = rows(document)
    assert first == (text.replace("\t", "; "), "", {})
    assert hammer[0] == "name: Hammer; price: 5,00; stock: 1; place: a"
    assert hammer[2]["row"] == 1


def test_rows_of_json_say_true_and_false_as_the_file_does() -> None:
    document = read('{"order": "A-1", "paid": true}\n{"order": "A-2", "paid": false}\n', "a.jsonl")
    assert [text for text, *_ in rows(document)] == ["order: A-1; paid: true", "order: A-2; paid: false"]
    assert [values["paid"] for *_, values in rows(document)] == [True, False]


@pytest.mark.parametrize("above", ["", "Sales of the group;;;;\n;;;;\n"])
@pytest.mark.parametrize("years", [";2022;;2023;", ";Year 2022;;Year 2023;"])
def test_names_that_span_columns_may_stand_above_the_name_of_the_rows(above: str, years: str) -> None:
    document = read(
        f"{above}{years}\nRegion;Units;Revenue;Units;Revenue\nNorth;12;3.5;13;3.8\nSouth;9;2.5;;\n", "a.csv"
    )
    first, second = years.split(";")[1::2]
    north, south = rows(document)[-2:]
    assert (
        north[0] == f"Region: North; {first} Units: 12; {first} Revenue: 3.5; {second} Units: 13; {second} Revenue: 3.8"
    )
    assert south[0] == f"Region: South; {first} Units: 9; {first} Revenue: 2.5"
    assert north[2]["row"] == 1


def test_a_row_of_units_belongs_to_the_header() -> None:
    document = read("Sample,Mass,Speed,Note\n,g,m/s,\nA-01,12.4,3.1,old\nA-02,,3.0,\n", "a.csv")
    (first, _, values), (second, *_) = rows(document)
    assert (first, second) == (
        "Sample: A-01; Mass (g): 12.4; Speed (m/s): 3.1; Note: old",
        "Sample: A-02; Speed (m/s): 3.0",
    )
    assert (values["row"], values["Mass (g)"]) == (1, 12.4)
    unknown = read("Name,Age,Size\n,unknown,unknown\nIda,5,110\nTom,6,120\n", "b.csv")
    assert rows(unknown)[0][0] == "Age: unknown; Size: unknown"


@pytest.mark.parametrize("header", ["text\n\n", "quote\n", "A quote\n", "a,b,c\n"])
def test_a_header_that_is_narrower_than_the_rows_stays_the_header(header: str) -> None:
    document = read(f"{header}hello, you\nbye, you\n", "a.csv")
    assert [values["row"] for *_, values in rows(document)] == [1, 2]


def test_a_csv_file_that_was_exported_from_a_sheet_is_read_as_one() -> None:
    text = (
        "Fleet of the yard,,\nPrinted by:,I. Berg,\n,,\nBoats for hire,,\nBoat,Berth,Price\nTeal,A4,12\nAuk,B1,9\n,,\n"
    )
    document = read(text, "fleet.csv")
    assert document.text == (
        "Fleet of the yard\n\nPrinted by: I. Berg\n\nBoats for hire\n\n"
        "Boat: Teal; Berth: A4; Price: 12\n\nBoat: Auk; Berth: B1; Price: 9"
    )
    assert headings(document) == [(2, "Boats for hire")]
    several = "Boat;Price\nTeal;12\n;\nCrew;Phone\nIda Berg;55 12\n"
    assert read(several, "a.csv").text == "Boat: Teal; Price: 12\n\nCrew: Ida Berg; Phone: 55 12"


def test_empty_rows_in_a_table_change_nothing() -> None:
    plain = read("Boat,Price\nTeal,12\nAuk,9\n", "a.csv").text
    assert read("Boat,Price\nTeal,12\n,\nAuk,9\n,\n", "a.csv").text == plain
    lines = 'id,text\n1,"One, two\nthree."\n,\n2,Four.\n'
    assert read(lines, "a.csv").text == "One, two\nthree.\n\nFour."
