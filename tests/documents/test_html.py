"""Web pages: what a reader came for and not what surrounds it, whatever the page's marks are like, in linear time."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from shared_core.documents.chunking import chunk_document
from shared_core.documents.load import LoadOptions, parse_document
from shared_core.documents.loaders import html as loader
from tests.documents.reading import headings, made_by, read, refuses

ARTICLE = "<p>" + "The clock was wound by hand every fourth day by two people. " * 8 + "</p>"


def text(page: str) -> str:
    return read(page, "a.html").text


def test_declared_encoding() -> None:
    page = '<meta charset="iso-8859-1"><p>caf\u00e9 \u2013 \u20ac</p>'.encode("cp1252")
    assert read(page, "a.html").text == "café – €"
    assert text('<meta charset="ascii"><p>水</p>') == "水"
    assert read("<p>\ufeffna\u00efve 水</p>".encode("utf-16"), "a.html").text.endswith("naïve 水")
    refuses("<p>café</p>".encode("cp1252"), "a.html")


@pytest.mark.parametrize(
    "around",
    [
        "<nav><a href='/'>Home</a> <a href='/x'>Shop</a></nav>{}<footer>All rights reserved.</footer>",
        "<div class='sphinxsidebar'><a href='x'>Next topic</a> <a href='y'>Index</a></div><div class='body'>{}</div>",
        "<header><a href='/'>Home</a></header><main>{}</main><aside>Subscribe to our letter.</aside>",
        "<div role='navigation'><a href='/'>Home</a></div><div role='main'>{}</div><p role='contentinfo'>All right</p>",
        "<ul id='menu'><li><a href='/'>Home</a></li><li><a href='/s'>Shop</a></li></ul><article>{}</article>",
        "<nav><ul><li><a href='/'>Home</nav>{}",
        "<div class='toc'><ul><li><a href='#a'>One</a></li></ul></div>{}",
        "<ul><li><a href='#a'>Winding</a></li><li><a href='#b'>Oiling</a></li></ul>{}",
    ],
)  # fmt: skip
def test_what_surrounds_the_content_is_left_out(around: str) -> None:
    page = around.format(f"<h1>The clock</h1>{ARTICLE}")
    found = text(page)
    assert found.startswith("The clock\n\nThe clock was wound")
    assert found.rstrip().endswith("two people.")


def test_a_page_that_is_all_links_is_kept() -> None:
    assert "Winding the clock" in text(
        "<ul><li><a href='/a'>Winding the clock</a></li><li><a href='/b'>Oil</a></li></ul>"
    )
    assert "Home" in text("<nav><a href='/'>Home</a> is where the heart is.</nav>")


def test_a_title_of_links_without_them_is_no_passage() -> None:
    above = read(f"<main><h1>The clock</h1>{ARTICLE}<h2>See also</h2><ul></ul></main>", "clock.html")
    assert "See also" in above.text
    assert not any("See also" in p.text for p in chunk_document(above))
    told = read(
        f"<main><h1>The clock</h1>{ARTICLE}<h2>See also</h2><p>The bell strikes at high tide.</p></main>", "c.html"
    )
    assert any("The bell strikes" in p.text for p in chunk_document(told))


def test_a_page_that_only_leads_on_to_another_one_has_no_passages() -> None:
    head = "<title>Redirecting...</title><meta http-equiv='Refresh' content='0; URL=../clock.html'>"
    moved = read(f"{head}<p>Redirecting to... <a href='../clock.html'>../clock.html</a>.</p>", "old.html")
    assert moved.text.startswith("Redirecting")
    assert not chunk_document(moved)
    assert chunk_document(read(f"{head}<h1>The clock</h1>{ARTICLE}", "a.html"))  # has a text of its own
    assert chunk_document(read("<meta http-equiv='refresh' content='60'><p>Tide: 3 m, rising.</p>", "tide.html"))


def test_a_list_of_chapters_that_no_search_engine_is_to_read_has_no_passages() -> None:
    chapters = "<ol>" + "".join(f"<li><a href='{i}.html'>{i}. Winding the clock</a></li>" for i in range(9)) + "</ol>"
    unlisted = "<meta name='robots' content='noindex'>"
    assert not chunk_document(read(f"{unlisted}{chapters}", "toc.html"))
    assert chunk_document(read(chapters, "toc.html"))
    assert chunk_document(read(f"{unlisted}{chapters}{ARTICLE}", "a.html"))


def test_headers_with_the_title_and_notes_within_the_content_are_kept() -> None:
    page = f"<header><h1>The clock</h1></header>{ARTICLE}<aside class='note'><p>Never oil the chain.</p></aside>"
    assert text(page).startswith("The clock\n\n")
    inside = f"<main><h1>The clock</h1>{ARTICLE}<aside><p>Never oil the chain.</p></aside></main>"
    assert "Never oil the chain." in text(inside)


def test_an_element_left_open_does_not_swallow_the_page() -> None:
    for tag in ("object data='x'", "svg", "math"):
        assert "The rest." in text(f"<p>First.</p><{tag}><p>The rest.</p>")
    assert text("<p>First.</p><object data='x'>No plug-in.</object><p>The rest.</p>") == "First.\n\nThe rest."
    assert text("<svg><desc>no</desc><text>no</text></svg><p>yes</p>") == "yes"


def test_a_cell_that_holds_half_the_page_keeps_its_paragraphs() -> None:
    assert text(f"<table><tr><td><h1>Title</h1>{ARTICLE}{ARTICLE}</td></tr></table>").count("\n\n") == 2


HEADER = "<tr><th>Flag</th><th><a href='x'>Its meaning</a></th></tr>"


def table(rows: str, header: str = HEADER) -> str:
    """The text of a page whose middle is a table."""
    return text(f"<p>a</p><table>{header}{rows}</table><p>b</p>").removeprefix("a\n\n").removesuffix("\n\nb")


@pytest.mark.parametrize(
    ("rows", "read_as"),
    [
        ("<tr><th>-v</th><th>loud</th></tr><tr><td>1</td><td>2</td></tr>", "-v\tloud\n1\t2"),  # two rows of names
        ("<tr><td>-v</td><td>loud</td><td>!</td></tr>", "-v\tloud\t!"),
        ("<tr><td>-v</td><td><table><tr><td>x</td></tr></table></td></tr>", "-v\tx"),
    ],
)
def test_rows_that_do_not_fit_the_names_stay_as_they_are(rows: str, read_as: str) -> None:
    """And then the row of names stays too, so that nothing is lost."""
    assert table(rows) == f"Flag\tIts meaning\n{read_as}"


@pytest.mark.parametrize(
    "header", ["<tr><th>a</th><th>a</th></tr>", "<tr><th colspan=2>a</th></tr>", "<tr><th></th><th></th></tr>"]
)
def test_a_first_row_that_tells_no_columns_apart_names_none(header: str) -> None:
    assert table("<tr><td>-v</td><td>loud</td></tr>", header).endswith("-v\tloud")


LONG = "Most hours that one keeper may watch in all lighthouses of a district (winter)"


def test_long_names_in_a_marked_head_name_their_columns() -> None:
    rows = "<tr><td>First</td><td>6</td><td>3</td></tr><tr><td>Second</td><td>8</td><td>4</td></tr>"
    header = f"<tr><th>Class</th><th>{LONG}</th><th>{LONG.replace('winter', 'summer')}</th></tr>"
    summer = LONG.replace("winter", "summer")
    assert table(rows, header).split("\n") == [
        f"Class: First; {LONG}: 6; {summer}: 3",
        f"Class: Second; {LONG}: 8; {summer}: 4",
    ]


@pytest.mark.parametrize(
    ("tag", "name"), [("td", LONG), ("th", f"{LONG} and others {LONG}"), ("th", f"See the hours of the {LONG[:40]}.")]
)
def test_long_cells_that_are_no_head_or_prose_name_nothing(tag: str, name: str) -> None:
    header = f"<tr><{tag}>Class</{tag}><{tag}>{name}</{tag}><{tag}>Rank</{tag}></tr>"
    rows = "<tr><td>First</td><td>6</td><td>3</td></tr><tr><td>Second</td><td>8</td><td>4</td></tr>"
    assert table(rows, header) == f"Class\t{name}\tRank\nFirst\t6\t3\nSecond\t8\t4"


SPANNING = ("<th>Age</th><th>Boat</th><th>Sail</th><th></th><th>Crew</th>",
            "<th>Age</th><th>Boat</th><th colspan=2>Sail</th><th>Crew</th>")  # fmt: skip
SAILS = [["6", "Auk", "30", "2.8", "2"], ["", "Teal", "40", "3.7", "3"], ["8", "Auk", "50", "4.6", "2"]]


def rows_of(cells: list[list[str]]) -> str:
    return "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in cells)


@pytest.mark.parametrize("head", SPANNING)
def test_names_below_a_head_that_spans_columns_go_on_with_it(head: str) -> None:
    second = ["", "", "Square feet", "Square metres", ""]
    assert table(rows_of([second, *SAILS]), f"<thead><tr>{head}</tr></thead>").split("\n") == [
        "Age: 6; Boat: Auk; Sail Square feet: 30; Sail Square metres: 2.8; Crew: 2",
        "Age: 6; Boat: Teal; Sail Square feet: 40; Sail Square metres: 3.7; Crew: 3",
        "Age: 8; Boat: Auk; Sail Square feet: 50; Sail Square metres: 4.6; Crew: 2",
    ]


@pytest.mark.parametrize(
    "cells",
    [
        SAILS[1:],  # values
        [["", "Teal", "red", "white", ""], ["6", "Auk", "blue", "white", "2"]],  # words among words
        [["8", "", "Square feet", "Square metres", ""], *SAILS],  # a row with its name
    ],
)
def test_rows_below_a_head_that_spans_columns_are_rows(cells: list[list[str]]) -> None:
    assert "Square feet: 30" not in (found := table(rows_of(cells), f"<tr>{SPANNING[0]}</tr>"))
    assert len(found.split("\n")) == len(cells)


def test_labels_below_the_title_of_a_table_have_their_values_beside_them() -> None:
    rows = "<tr><td>RFC</td><td>#3501</td></tr><tr><td>Release version</td><td>1.85.0</td></tr>"
    assert table(rows, "<tr><th>Info</th><th></th></tr>") == "Info\nRFC: #3501\nRelease version: 1.85.0"


def test_an_empty_paragraph_in_a_cell_parts_no_rows() -> None:
    cells = [["North", "1871", ""], ["", "1902", "Tom"], ["East", "", "Ida"]]
    rows = "".join(f"<tr>{''.join(f'<td><p>{cell}</p></td>' for cell in row)}</tr>" for row in cells)
    named = "Mill: North; Built: 1871\nBuilt: 1902; Miller: Tom\nMill: East; Miller: Ida"
    assert table(rows, "<tr><th>Mill</th><th>Built</th><th>Miller</th></tr>") == named


HEADED = [["Mill", "Built", "Miller"], ["North", "1871", "Ila Venn"], ["South", "1902", "Tom Hale"]]


def plain_table(rows: list[list[str]]) -> str:
    return table("".join(f"<tr><td>{'</td><td>'.join(row)}</td></tr>" for row in rows), "")


def test_an_unmarked_first_row_names_the_columns_if_it_looks_like_it() -> None:
    """A row alone says nothing of what its numbers are."""
    assert plain_table([*HEADED, ["", "", ""], ["East", "1903", ""]]).split("\n") == [
        "Mill: North; Built: 1871; Miller: Ila Venn",
        "Mill: South; Built: 1902; Miller: Tom Hale",
        "Mill: East; Built: 1903",
    ]


def test_years_name_columns_of_other_values_below_a_title() -> None:
    rows = [["", "2011", "2012"], ["North", "14 t", "9 t"], ["South", "7 t", "8 t"]]
    assert plain_table(rows) == "North; 2011: 14 t; 2012: 9 t\nSouth; 2011: 7 t; 2012: 8 t"
    titled = "<tr><td colspan=3>Mills of the coast</td></tr>" + "".join(
        f"<tr><td>{'</td><td>'.join(row)}</td></tr>" for row in rows
    )
    assert table(titled, "") == "Mills of the coast\nNorth; 2011: 14 t; 2012: 9 t\nSouth; 2011: 7 t; 2012: 8 t"


@pytest.mark.parametrize(
    "rows",
    [
        [row[:2] for row in HEADED],  # two columns: names and values as often as a header
        HEADED[:2],  # one row below
        [["North", "1871", "Ila Venn"], *HEADED[1:]],  # the first row is like the others
        [["Mill", "Mill", "Miller"], *HEADED[1:]],
        [["Mill", "Built", "Miller"], ["North", "long ago", "Ila Venn"], ["South", "1902", "Tom Hale"]],
        [*HEADED, ["East", "1903"]],
    ],
)
def test_other_tables_keep_their_cells(rows: list[list[str]]) -> None:
    assert plain_table(rows) == "\n".join("\t".join(row) for row in rows)


@pytest.mark.parametrize("page", ["", "<!-- only -->", "<html></html>", "<script>x</script>", "   "])
def test_pages_without_text_are_refused(page: str) -> None:
    assert "no text" in refuses(page, "a.html").message or "empty" in refuses(page, "a.html").message


def test_pages_of_documentation_tools() -> None:
    sphinx = made_by("sphinx_page.html")
    assert sphinx.text.startswith("The pump of Lower Brack\n\nThe pump was set up in 1868")
    assert "¶" not in sphinx.text
    assert "Navigation" not in sphinx.text
    assert "On this page" not in sphinx.text
    assert "def strokes(litres):\n    return round(litres / 3.2)" in sphinx.text
    assert sphinx.text.endswith("Vessel: Bucket; Farthings: 1\nVessel: Barrel; Farthings: 6")
    assert headings(sphinx) == [(1, "The pump of Lower Brack"), (2, "Wear"), (2, "Tolls")]
    assert made_by("mkdocs_page.html").text == (
        "The pump of Lower Brack\n\nThe pump was set up in 1868 by the parish of Lower Brack.\n\n"
        "Wear\n\nThe leathers of the bucket last about two years."
    )
    pandoc = made_by("pandoc_toc.html").text
    assert pandoc.startswith("The Beekeeper's Year at Ostrand Abbey\n\nThe abbey keeps")
    assert pandoc.count("Spring") == 1
    assert "Imprint" not in pandoc
    assert "Place: Entrance; March: 6.1 m; June: 5.6 m" in made_by("libreoffice_minutes.html").text


# --- pages that are built to take for ever -------------------------------------------------------------------------

HOSTILE = {
    "svg": "<svg>" * 75_000,
    "comment": "<!--" * 250_000,
    "div": "<div>" * 75_000,
    "open cells": "<table><tr><td>" * 15_000,
    "cells in cells": "<table><tr><th>a</th><th>b</th></tr><tr><td>x</td><td>" * 5_000,
    "attributes": "<a " + " ".join(f"a{i}=1" for i in range(50_000)) + ">x",
    "brackets": "<" * 500_000,
    "references": "&" * 500_000,
    "headings": "<h1>" * 50_000,
    "links": "<a href='#'>" * 50_000 + "x",
    "lists": "<ul><li>" * 40_000,
    "quotes": '<a href="' * 75_000,
    "templates": "<template>" * 50_000,
    "unmatched": "<b>" * 2_000 + "</p>" * 50_000,
    "objects": "<object>" * 50_000,
}


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="a process is ended as POSIX ends it")
def test_hostile_pages_are_done_with_in_seconds() -> None:
    """A process has fifteen seconds on the processor for each page, of which it needs one or two at most.

    Parsers whose time grows with the square of the length need minutes.
    """
    code = (
        "import signal, sys\nfrom shared_core.errors import DocumentError\n"
        "from shared_core.documents.load import LoadOptions, parse_document\n"
        "for page in sys.stdin.buffer.read().split(b'\\0'):\n"
        "    signal.setitimer(signal.ITIMER_PROF, 15)\n"
        "    try:\n        parse_document(page, 'a.html', LoadOptions(), file_name='a.html')\n"
        "    except DocumentError as error:\n        assert 'no text' in error.message, error\n"
        "    print('done', flush=True)"
    )
    pages = "\0".join(f"ok <p>{page}" for page in HOSTILE.values()).encode()
    result = subprocess.run([sys.executable, "-c", code], input=pages, capture_output=True, timeout=600, check=False)
    done = list(HOSTILE)[: result.stdout.count(b"done")]
    assert done == list(HOSTILE), result.stderr.decode()


def test_work_is_bounded_by_time_and_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter(range(1_000_000))
    monkeypatch.setattr("shared_core.documents.loaders.extracted.time.monotonic", lambda: float(next(ticks)))
    error = refuses("<p>x</p>" * 100_000, "a.html", max_seconds=5)  # a tick for each look at the clock
    assert "5 seconds" in error.message
    assert next(ticks) < 20
    monkeypatch.undo()
    monkeypatch.setattr(loader, "MAX_PAGE_ELEMENTS", 1000)
    assert "elements" in refuses("<b>x</b>" * 2_000, "a.html").message


def test_the_parser_is_told_nothing_twice() -> None:
    """Each piece of text reaches the page's reader once, however the page is cut into chunks."""
    words = [f"w{i}" for i in range(30_000)]
    page = "".join(f"<p>{word}</p>" for word in words)
    document = parse_document(page.encode(), "a.html", LoadOptions(), file_name="a.html")
    assert document.text.split() == words


@pytest.mark.parametrize("main", ["<main>{}</main>", "<div>{}</div>"])
@pytest.mark.parametrize(
    ("footer", "kept"),
    [
        ("<p>Hours: 10–17</p><p>Tel. +47 55 12 34 56</p><p>© 2024 Tide</p>", ["Hours: 10–17", "Tel. +47 55 12 34 56"]),
        ("<address>Quay 12<br>Vessen</address><ul><li><a href='/p'>Privacy 1</a></li></ul>", ["Quay 12\nVessen"]),
        ("<p>Last built on 2024-03-12 with Sphinx 7.2.6</p><p><a href='/p'>Privacy</a></p>", []),
    ],
)  # fmt: skip
def test_how_to_reach_somebody_is_read_though_it_is_in_a_footer(main: str, footer: str, kept: list[str]) -> None:
    prose = "The museum shows ships. " * 20
    for page in (f"<footer>{footer}</footer>", f"<footer class='site-footer'>{footer}</footer>"):
        document = read(main.format(f"<h1>Tide</h1><p>{prose}</p>") + page, "a.html")
        assert document.text.split("\n\n") == ["Tide", prose.strip(), *kept]
        if kept:
            assert [p.metadata.get("section", "") for p in chunk_document(document)] == ["Tide", ""]


def test_no_passage_ends_in_a_term() -> None:
    items = "".join(
        f"<dt>limit_{i} (integer)</dt><dd><p>Sets limit number {i}. {'It needs a restart. ' * (i % 7)}</p></dd>"
        for i in range(60)
    )
    passages = chunk_document(read(f"<h1>Limits</h1><dl>{items}</dl>", "a.html"))
    assert len(passages) > 3
    for i in range(60):
        assert sum(f"limit_{i} (integer)\nSets limit number {i}." in p.text for p in passages) == 1


@pytest.mark.parametrize(
    "attributes", ["hidden", 'hidden="hidden"', "style='display:none'", "style='color: red; Visibility : Hidden'"]
)
def test_what_attributes_hide_is_not_read(attributes: str) -> None:
    assert text(f"<p>The fee <span {attributes}>was 4 <b>and</b></span> is 5.<div {attributes}>old</div><p>End") == (
        "The fee is 5.\n\nEnd"
    )
    assert text(f"<body {attributes}><p>The fee <br {attributes}>is 5.") == "The fee\nis 5."
    assert text(f"<div {attributes}>The fee is 5.</div>") == "The fee is 5."
    assert text(f"<div role='tabpanel' {attributes}>The fee is 5.</div>") == "The fee is 5."


def test_what_attributes_hide_for_now_or_from_some_readers_is_read() -> None:
    assert text("<p hidden='until-found'>One.<p aria-hidden='true'>Two.<p style='display:block'>Three.") == (
        "One.\n\nTwo.\n\nThree."
    )
    assert text("<span class='mwe-math-mathml' style='display:none'><math alttext='x^2'></math></span>") == "x^2"


@pytest.mark.parametrize("tag", ["del", "s", "strike", "S"])
def test_what_is_struck_out_is_not_read(tag: str) -> None:
    assert text(f"<p>It costs <{tag}>5 euros</{tag}> 6 euros.") == "It costs 6 euros."
    assert text(f"<p>It costs <{tag}>5 euros.<p>Never ended.") == "It costs 5 euros.\n\nNever ended."


def test_what_asks_for_cookies_is_not_content_but_a_section_about_it_is() -> None:
    asks = "<p>You can withdraw your consent within 90 days.</p><button>Accept</button><button>Reject</button>"
    assert text(f"<div class='cookie-banner fixed' role=dialog>{asks}</div>{ARTICLE * 9}") == text(ARTICLE * 9)
    about = text(f"<div class=section id=cookie-banner><h2>Cookie banner</h2>{asks}</div>{ARTICLE * 9}")
    assert "within 90 days.\n\nAccept Reject" in about


@pytest.mark.parametrize("mark", ["epub:type='footnote'", "role='doc-footnote'", "epub:type='rearnote' class='x'"])
def test_notes_of_books_are_no_sidebars(mark: str) -> None:
    page = f"<section><p>{'It left with forty mules. ' * 20}</p><aside {mark}><p>Some say thirty-eight.</p></aside>"
    assert text(page).endswith("\n\nSome say thirty-eight.")
    assert "thirty-eight" not in text(page.replace(mark, "class='more'"))


def test_front_matter_gives_the_title_and_is_no_text() -> None:
    page = '---\ntitle: "Tar"\ndescription: Learn it.\n---\n{% include head.html %}\n<h2>Use</h2><p>Heat it first.</p>'
    found = read(page, "a.html")
    assert (found.title, found.text) == ("Tar", "Use\n\nHeat it first.")
    assert read(page.replace("<h2>", "<title>Ropes</title><h2>"), "a.html").title == "Ropes"
    assert "A rule" in text("---\n<p>A rule</p>\n---\n<p>and text.</p>")


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        ("<ol><li>Press.</li><li>Wait.</li></ol>", "1. Press.\n2. Wait."),
        ("<ol start=3><li>Press.<li value=7>Wait.<li>Go.</ol>", "3. Press.\n7. Wait.\n8. Go."),
        ("<ol type=a><li>Press.</li><li>Wait.</li></ol>", "a. Press.\nb. Wait."),
        ("<ol type=I><li>Press.</li><li>Wait.</li></ol>", "I. Press.\nII. Wait."),
        ("<ol reversed><li>Press.</li></ol>", "Press."),
        ("<ol start=x><li>Press.</li></ol>", "1. Press."),
        ("<ul><li>A rope</li><li><b>A</b> drum</li></ul>", "- A rope\n- A drum"),
        ("<ol><li>Press<ul><li>hard</li></ul></li><li>Wait</li></ol>", "1. Press\n\n  - hard\n\n2. Wait"),
        ("<ol><li><p>Press.</p><p>Hard.</p></li><li><p>Wait.</p></li></ol>", "1. Press.\n\nHard.\n\n2. Wait."),
        ("<ol><li>1) Press.</li><li>(b) Wait.</li><li>• Go.</li></ol>", "1) Press.\n(b) Wait.\n• Go."),  # has its own
        ("<ul><li></li><li>A rope</li></ul><p>After.</p>", "- A rope\n\nAfter."),
        ("<ul><li><h2>Rope</h2></li></ul>", "Rope"),
        ("<ul><li><pre>  make</pre></li></ul>", "  make"),
        ("<table><tr><td><ul><li>small<li>big</ul></td><td>3</td></tr></table>", "small big\t3"),
        ("<li>no list</li></ul></ol>", "no list"),
        ("<menu><li>Open</li></menu>", "- Open"),
    ],
)
def test_items_of_lists_have_the_marks_that_a_browser_shows(body: str, shown: str) -> None:
    found = text(f"<main><p>Before.</p>{body}</main>")
    assert found.removeprefix("Before.").strip("\n") == shown


def test_deep_lists_end() -> None:
    assert "deep" in text("<ul><li>" * 300 + "deep")


def test_a_button_beside_a_heading_is_not_of_it_and_one_that_is_a_heading_stays() -> None:
    page = (
        "<h1>Struct <span>Rope</span> <button>Copy item path</button></h1><p>A rope of hemp.</p>"
        "<h2><button>How long is it?</button></h2><p>Nine fathoms.</p>"
    )
    document = read(page, "rope.html")
    assert [heading.label for heading in document.headings] == ["Struct Rope", "How long is it?"]
    assert "Copy" not in document.text


def test_code_in_two_forms_is_apart_and_has_no_buttons() -> None:
    page = "<pre><code>import cut;\ncut(1)</code><code>const cut = 1;</code><button>copy</button></pre><p>So.</p>"
    assert text(f"<main>{page}</main>") == "import cut;\ncut(1)\n\nconst cut = 1;\n\nSo."
    assert text("<main><pre>Run <code>cut</code> or <code>haul</code></pre></main>") == "Run cut or haul"


def test_a_definition_list_that_is_set_in_columns_is_one() -> None:
    rows = "".join(f'<tr><td class="hdlist1">{a}</td><td class="hdlist2"><p>{b}</p></td></tr>' for a, b in TOOLS)
    page = f'<h1>Winch</h1><div class="hdlist"><table><tr><th></th></tr>{rows}</table></div><p>So much for tools.</p>'
    document = read(page, "winch.html")
    assert [h.label for h in document.headings if h.level >= 10 and h.label] == ["clean", "query"]
    assert "clean\nRemoves the rust that has grown since the last haul." in document.text


TOOLS = (
    ("clean", "Removes the rust that has grown since the last haul."),
    ("query", "Tells which ropes a drum holds, and where each of them ends."),
)
