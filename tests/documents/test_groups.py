"""Names of groups: rows and lines that begin alike below several names are read with their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from io import BytesIO

import docx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared_core import SelfReflectEngine
from shared_core.documents.chunking import chunk_document
from shared_core.documents.load import Document
from shared_core.documents.loaders.extracted import Extracted
from shared_core.documents.loaders.line_groups import with_groups
from shared_core.documents.loaders.table_cells import first_of_group, group_names
from shared_core.retrieval import BM25Retriever
from tests.documents.reading import read
from tests.documents.test_sheets import sheet, xlsx

NAMES = ("Day", "Opens", "Closes")
HEAD = "<tr><{0}>Day</{0}><{0}>Opens</{0}><{0}>Closes</{0}></tr>"
HOURS = {
    "Pool": [("Monday", "9:00", "17:00"), ("Tuesday", "9:30", "17:15")],
    "Gym": [("Monday", "8:15", "18:30"), ("Tuesday", "7:45", "18:45")],
}
TITLE = "Sports centre"


def html(group: str, head: str = HEAD.format("th")) -> str:
    rows = "".join(
        group.format(name) + "".join("<tr>" + "".join(f"<td>{c}</td>" for c in row) + "</tr>" for row in rows)
        for name, rows in HOURS.items()
    )
    return f"<h1>{TITLE}</h1><p>Members pay by card at the desk.</p><table>{head}{rows}</table><p>Towels are sold.</p>"


def markdown(group: str) -> str:
    rows = "".join(
        group.format(name) + "".join("| " + " | ".join(row) + " |\n" for row in rows) for name, rows in HOURS.items()
    )
    return f"# {TITLE}\n\n| Day | Opens | Closes |\n|---|---|---|\n{rows}\nTowels are sold.\n"


def word(*, merged: bool) -> bytes:
    document = docx.Document()
    document.add_heading(TITLE)
    table = document.add_table(rows=0, cols=3)

    def add(cells: Sequence[str]) -> None:
        row = table.add_row().cells
        if len(cells) == 1 and merged:
            row[0].merge(row[2])
        for cell, text in zip(row, cells):
            cell.text = text

    add(NAMES)
    for name, rows in HOURS.items():
        add((name,))
        for row in rows:
            add(row)
    document.add_paragraph("Towels are sold.")
    document.save(out := BytesIO())
    return out.getvalue()


def adoc() -> str:
    rows = "".join(
        f"3+|{name}\n\n" + "".join("".join(f"|{c}\n" for c in row) + "\n" for row in rows)
        for name, rows in HOURS.items()
    )
    return f"= {TITLE}\n\n[cols=3*,options=header]\n|===\n|Day |Opens |Closes\n\n{rows}|===\n\nTowels are sold.\n"


def csv() -> str:
    rows = "".join(f"{name},,\n" + "".join(",".join(row) + "\n" for row in rows) for name, rows in HOURS.items())
    return f"Day,Opens,Closes\n{rows}"


def workbook() -> bytes:
    rows = [row for name, rows in HOURS.items() for row in ((name,), *rows)]
    return xlsx({TITLE: sheet(NAMES, *rows)})


TABLES: list[tuple[str, str, Callable[[], str | bytes]]] = [
    ("a cell across all columns", "a.html", lambda: html("<tr><td colspan=3>{}</td></tr>")),
    ("a header cell across all columns", "a.html", lambda: html("<tr><th colspan=3>{}</th></tr>")),
    ("a cell above a head of each group", "a.html", lambda: html("<tr><td>{}</td></tr>" + HEAD.format("td"), "")),
    ("the same, marked", "a.html", lambda: html("<tr><td colspan=3>{}</td></tr>" + HEAD.format("th"), "")),
    ("the only filled cell", "a.html", lambda: html("<tr><td>{}</td><td></td><td>&nbsp;</td></tr>")),
    ("bold in Markdown", "a.md", lambda: markdown("| **{}** | | |\n")),
    ("the only cell in Markdown", "a.md", lambda: markdown("| {} | | |\n")),
    ("merged in Word", "a.docx", lambda: word(merged=True)),
    ("the only filled cell in Word", "a.docx", lambda: word(merged=False)),
    ("a span of AsciiDoc", "a.adoc", adoc),
    ("a row of CSV", "a.csv", csv),
    ("a row of a sheet", "a.xlsx", workbook),
]


@pytest.mark.parametrize(("name", "make"), [t[1:] for t in TABLES], ids=[t[0] for t in TABLES])
def test_a_row_that_names_the_rows_below_heads_them(name: str, make: Callable[[], str | bytes]) -> None:
    document = read(make(), name)
    passages = chunk_document(document)
    where = {
        row: {str(p.metadata.get("section", "")).rpartition(" > ")[2] for p in passages if row in p.text}
        for row in ("Day: Monday; Opens: 9:00; Closes: 17:00", "Day: Tuesday; Opens: 7:45; Closes: 18:45")
    }
    assert list(where.values()) == [{"Pool"}, {"Gym"}]
    assert all(words not in document.text for words in ("Day: Pool", "Day: Day", "Day\tOpens"))
    ended = [p for p in passages if "Towels" in p.text]
    assert all("Gym" not in str(p.metadata.get("section")) for p in ended)


def test_heads_of_groups_may_be_shortened_and_their_rows_short_or_not_parted() -> None:
    page = html("<tr><td>{}</td></tr>" + HEAD.format("td"), "").replace("Closes", "Cl.", 1)
    page = page.replace("</tr><tr><td>Monday</td><td>8:15", "<td>Monday</td><td>8:15").replace("<td>18:45</td>", "")
    text = read(page, "a.html").text
    assert "Day: Monday; Opens: 8:15; Cl.: 18:30\nDay: Tuesday; Opens: 7:45\n" in text


@pytest.mark.parametrize(
    "head",
    [
        "<tr><td>Sauna</td><td>shut</td><td>none</td></tr>",  # a row that recurs, of words as the others are
        HEAD.format("td").replace("Opens", "9:00"),
        HEAD.format("td").replace("Opens", "Day"),
        "",
    ],
)
def test_rows_that_recur_below_names_of_groups_are_heads_only_if_they_name_columns(head: str) -> None:
    words = "<tr><td>Bath</td><td>open</td><td>warm</td></tr><tr><td>Court</td><td>open</td><td>cold</td></tr>"
    groups = "".join(f"<tr><td>{name}</td></tr>{head}{words if 'Sauna' in head else ''}" for name in ("Pool", "Gym"))
    times = "<tr><td>Monday</td><td>9:00</td><td>17:00</td></tr>" * 2 if "Sauna" not in head else ""
    text = read(f"<p>Times</p><table>{groups}{times}</table>", "a.html").text
    assert ": " not in text


TRIPS = "Teal,4,7\nAuk,6,9\n"


@pytest.mark.parametrize(
    ("groups", "heads"),
    [
        (("Port: Ost,Boats: sail,", "Port: Tarn,Boats: oar,"), ["Port: Ost, Boats: sail", "Port: Tarn, Boats: oar"]),
        (("Port:,Ost,", "Port: Tarn,,"), ["Port: Ost", "Port: Tarn"]),
        (("Port: Ost,Boats: sail,", "Port: Tarn,Crew: two,"), []),  # not the same labels
        (("Port: Ost,Boats: sail,2", "Port: Tarn,Boats: oar,4"), []),  # a value that has no label
        (("Total:,10,16", "Total:,10,16"), []),
    ],
)
def test_a_row_of_labels_and_values_above_rows_of_other_cells_heads_them(
    groups: tuple[str, str], heads: list[str]
) -> None:
    document = read("Boat,Out,Back\n" + "".join(f"{group}\n{TRIPS}" for group in groups), "a.csv")
    assert [heading.label for heading in document.headings if heading.label] == heads
    below = read("Boat,Out,Back\n" + "".join(f"{TRIPS}{group}\n" for group in groups), "a.csv")
    assert not below.headings  # a note on the rows above is no heading


def records(line: str, name: str) -> str:
    people = [("Anna Smith", "Treasurer", "555 0123"), ("Ben Jones", "Secretary", "555 0177")]
    blocks = (
        name.format(who) + "".join(line.format(*row) for row in (("Role", role), ("Phone", number)))
        for who, role, number in people
    )
    return "\n".join(blocks)


@pytest.mark.parametrize(
    ("text", "heads"),
    [
        (records("{}: {}\n", "{}\n"), ["Anna Smith", "Ben Jones"]),
        (records("{}: {}\n", "{}:\n"), ["Anna Smith", "Ben Jones"]),
        (records("- {}: {}\n", "**{}**\n\n"), ["Anna Smith", "Ben Jones"]),
        (records("  - {}: {}\n", "- {}\n"), ["Anna Smith", "Ben Jones"]),
        (records("{}  {}\n", "{}\n"), ["Anna Smith", "Ben Jones"]),
        (records("{} {}\n", "{}\n"), ["Anna Smith", "Ben Jones"]),
        (records("{}: {}\n", "Name: {}\n"), ["Name: Anna Smith", "Name: Ben Jones"]),
        (records("{}: {}\n", "Committee\n\nName: {}\n"), ["Committee", "Committee"]),
        (records("**{}:** {}  \n", "**Name:** {}  \n"), ["Name: Anna Smith", "Name: Ben Jones"]),
    ],
)
def test_a_name_above_lines_whose_labels_recur_heads_them(text: str, heads: list[str]) -> None:
    found = with_groups(Extracted(text)).headings
    if heads[0] == heads[1]:  # the same title twice names nothing
        assert not found
        return
    assert [heading.label for heading in found] == [*heads, ""]
    assert all(text[h.start : h.end].strip("*:- ") == h.label.strip("*") for h in found if "**" not in text)


@pytest.mark.parametrize(
    "text",
    [
        "Anna: Shall we start?\n\nBen: Not yet.\n\nAnna: When then?\n\nBen: At nine.\n",
        "server:\n  port: 80\n  host: a\nclient:\n  port: 90\n  host: b\n",
        "```\nPool\nMonday: 9\nSunday: 10\n\nGym\nMonday: 8\nSunday: 11\n```\n",
        "Pool\nMonday: 9:00\nSunday: 10:00\n",
        "Pool\nMonday: 9:00\n\nGym\nFriday: 8:00\n",
        "- Fix: the lamp is lit\n  [#1](https://a.example)\n- Fix: the oil is full\n  [#2](https://a.example)\n",
        "Q: Is it open?\nA: Yes.\n\nQ: Is it free?\nA: No.\n",
        "",
    ],
)
def test_talk_code_and_single_groups_have_no_names(text: str) -> None:
    extracted = Extracted(text)
    assert with_groups(extracted) is extracted


def test_other_lines_before_the_first_name_do_not_hide_it() -> None:
    others = "Who we are:\nRole: none\nWe meet.\nWe talk.\nWe eat.\nWe go.\n"
    found = with_groups(Extracted(others + records("{}: {}\n", "{}\n"))).headings
    assert [heading.label for heading in found] == ["Anna Smith", "Ben Jones", ""]


def test_groups_below_a_term_end_with_it() -> None:
    page = "<h2>Hours</h2><dl><dt>Summer</dt><dd><p>Pool</p><p>Monday: 9</p><p>Sunday: 10</p><p>Gym</p><p>Monday: 8</p>"
    page += "<p>Sunday: 11</p></dd><dt>Winter</dt><dd>It is closed.</dd></dl><h2>Fees</h2><p>It is free.</p>"
    sections = {p.text.split("\n")[-1]: p.metadata["section"] for p in chunk_document(read(page, "a.html"))}
    assert sections["Sunday: 11"] == "Hours > Summer > Gym"
    assert sections["It is closed."] == "Hours > Winter"
    assert sections["It is free."] == "Fees"


@given(st.lists(st.sampled_from(["Pool", "Gym", "Day: 9", "Sun: 10", "- Fee: 4", "", "It is far.", "# A", "  x"])))
def test_no_text_changes_and_headings_stay_in_order(lines: list[str]) -> None:
    text = "\n".join(lines)
    found = with_groups(Extracted(text))
    assert found.text == text
    starts = [heading.start for heading in found.headings]
    assert starts == sorted(starts)
    assert all(heading.end == heading.start or text[heading.start : heading.end].strip() for heading in found.headings)


CELLS = st.sampled_from(["", "Pool", "Gym", "Monday", "Tuesday", "9:00"])


@given(st.lists(st.tuples(CELLS, CELLS, CELLS), max_size=8))
def test_a_first_cell_comes_from_above_and_names_are_single_cells(rows: list[tuple[str, str, str]]) -> None:
    assert all(rows[i][0] and not any(rows[i][1:]) for i in group_names(rows))
    for i, first in enumerate(first_of_group(rows)):
        assert first == i or (first < i and not rows[i][0] and rows[first][0])


@pytest.mark.parametrize("name", ["a.csv", "a.md", "a.html"])
def test_a_group_named_in_its_first_row_is_in_each(name: str) -> None:
    rows = [("Place", "Day", "Opens"), ("Pool", "Monday", "9:00"), ("", "Tuesday", "9:30"), ("Gym", "Monday", "8:15")]
    made = {
        "a.csv": "\n".join(",".join(row) for row in rows),
        "a.md": "\n".join("| " + " | ".join(row) + " |" for row in (rows[0], ("-", "-", "-"), *rows[1:])),
        "a.html": "<p>Text.</p><table>"
        + "".join("<tr>" + "".join(f"<td>{c}</td>" for c in row) + "</tr>" for row in rows).replace("td>", "th>", 6)
        + "</table>",
    }
    text = read(made[name], name).text
    assert "Place: Pool; Day: Tuesday; Opens: 9:30" in text
    assert "Place: Gym; Day: Monday; Opens: 8:15" in text


def test_an_empty_first_cell_stays_empty_where_no_other_group_begins_alike() -> None:
    text = read("Place,Task,Done\nHall,Paint the door,yes\n,Call the bank,no\nYard,Sweep,no\n", "a.csv").text
    assert "Place: Hall; Task: Call" not in text


def test_a_table_in_a_row_of_its_own_leaves_the_names_to_the_other_rows() -> None:
    inner = "<table><tr><th>Kind</th><th>Use</th></tr><tr><td>TCP</td><td>a socket</td></tr></table>"
    page = (
        "<p>Text.</p><table><tr><th>Name</th><th>Default</th></tr><tr><td>kind</td><td>TCP</td></tr>"
        f"<tr><td colspan=2>{inner}</td></tr><tr><td>interval</td><td>30</td></tr></table>"
    )
    text = read(page, "a.html").text
    assert "Name: interval; Default: 30" in text
    assert "Kind: TCP; Use: a socket" in text
    assert "Name\tDefault" not in text


def test_notes_below_the_rows_of_a_table_name_nothing() -> None:
    notes = "| **Under 5s are free** | |\n| **You can rent a tent for three people at the desk for 20** | |\n"
    source = f"# Camp\n\n| Age | Cost |\n|---|---|\n| Adult | 55 |\n| Youth | 65 |\n{notes}"
    assert [heading.label for heading in read(source, "a.md").headings] == ["Camp"]


def _asked(document: Document, question: str) -> str:
    passages = chunk_document(document)
    answer = SelfReflectEngine(BM25Retriever(passages)).answer(question)
    return "\n".join(claim.text for claim in answer.claims if claim.status == "kept")


LISTED = "\n".join(
    f"**{name}**\n\n" + "".join(f"- {d}: {a} – {b}\n" for d, a, b in rows) for name, rows in HOURS.items()
)


@pytest.mark.parametrize(
    ("source", "name"),
    [
        (html("<tr><td colspan=3>{}</td></tr>"), "a.html"),
        (csv(), "a.csv"),
        (f"# {TITLE}\n\n## Opening hours\n\n{LISTED}", "a.md"),
    ],
)
def test_the_hours_of_one_of_two_are_its_own(source: str, name: str) -> None:
    document = read(source, name)
    assert "8:15" in _asked(document, "When does the gym open on Monday?")
    assert "9:00" in _asked(document, "When does the pool open on Monday?")
    assert _asked(document, "When does the sauna open on Monday?") == ""


def test_who_somebody_is_stands_above_the_record() -> None:
    document = read("# Village hall\n\n## Committee\n\n" + records("- {}: {}\n", "**{}**\n\n"), "a.md")
    assert "Ben Jones" in _asked(document, "Who is the secretary?")
    assert "555 0177" in _asked(document, "What is Ben Jones's phone number?")
