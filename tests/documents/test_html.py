"""Web pages: what a reader came for and not what surrounds it, whatever the page's marks are like, in linear time."""

from __future__ import annotations

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


def test_visible_text_and_headings() -> None:
    page = """<!doctype html><html><head><title>Tide &amp; Clock</title><style>p {}</style></head><body>
      <script>var hidden = "<p>no</p>";</script><h1>The <em>old</em>
      clock</h1><p>Built&nbsp;in 1841,<br>wound   daily.<p>No end tag<ul><li>one</li><li>two</li></ul>
      <noscript>no</noscript><template>no</template><svg><text>no</text></svg>
      <table><tr><td>a</td><td>b</td></tr><tr><td>c</td></tr></table><pre>x\n  y</pre><h2>End</h2>tail"""
    document = read(page, "a.html")
    assert document.text == (
        "The old clock\n\nBuilt\u00a0in 1841,\nwound daily.\n\nNo end tag\n\n"
        "one\ntwo\n\na\tb\nc\n\nx\n  y\n\nEnd\n\ntail"
    )
    assert document.title == "Tide & Clock"
    assert headings(document) == [(1, "The old clock"), (2, "End")]


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


def test_headers_with_the_title_and_notes_within_the_content_are_kept() -> None:
    page = f"<header><h1>The clock</h1></header>{ARTICLE}<aside class='note'><p>Never oil the chain.</p></aside>"
    assert text(page).startswith("The clock\n\n")
    inside = f"<main><h1>The clock</h1>{ARTICLE}<aside><p>Never oil the chain.</p></aside></main>"
    assert "Never oil the chain." in text(inside)


def test_marks_beside_headings_and_notes_are_no_text() -> None:
    page = (
        "<h2 id='w'>Winding<a class='headerlink' href='#w'>¶</a></h2><p>Wind it.<a href='#f'>1</a></p>"
        "<p><a href='#back'>↩</a> A note.</p><h3><a href='#x'>#</a> Oiling</h3>"
    )
    document = read(page, "a.html")
    assert document.text == "Winding\n\nWind it.1\n\nA note.\n\nOiling"
    assert headings(document) == [(2, "Winding"), (3, "Oiling")]


def test_an_element_left_open_does_not_swallow_the_page() -> None:
    for tag in ("object data='x'", "svg", "math"):
        assert "The rest." in text(f"<p>First.</p><{tag}><p>The rest.</p>")
    assert text("<p>First.</p><object data='x'>No plug-in.</object><p>The rest.</p>") == "First.\n\nThe rest."
    assert text("<svg><desc>no</desc><text>no</text></svg><p>yes</p>") == "yes"


def test_tables_by_rows_whatever_their_cells_are_made_of() -> None:
    rows = "<tr><td><p>Lamp</p></td><td><p>Oil</p></td></tr><tr><td><div>North</div></td><td>Gas<br>new</td></tr>"
    assert text(f"<p>a</p><table>{rows}</table><p>b</p>") == "a\n\nLamp\tOil\nNorth\tGas new\n\nb"
    layout = f"<table><tr><td><h1>Title</h1>{ARTICLE}{ARTICLE}</td></tr></table>"
    assert text(layout).count("\n\n") == 2


HEADER = "<tr><th>Flag</th><th><a href='x'>Its meaning</a></th></tr>"


def table(rows: str, header: str = HEADER) -> str:
    """The text of a page whose middle is a table."""
    return text(f"<p>a</p><table>{header}{rows}</table><p>b</p>").removeprefix("a\n\n").removesuffix("\n\nb")


def test_rows_carry_the_names_of_their_columns() -> None:
    assert table("<tr><td>-v</td><td>more <b>words</b></td></tr>") == "Flag: -v; Its meaning: more words"
    two = "<tbody><tr><th>-v</th><td>loud</td></tr><tr><td>-q</td><td></td></tr><tr><td><td>none</tbody>"
    assert table(two, f"<thead>{HEADER}</thead>") == "Flag: -v; Its meaning: loud\nFlag: -q\nIts meaning: none"
    corner = "<tr><th></th><th>Oil</th></tr>"
    assert table("<tr><td>North</td><td>gas</td></tr>", corner) == "North; Oil: gas"


def test_cells_of_nothing_but_spaces_that_do_not_break_are_empty() -> None:
    rows = "<tr><td>&nbsp;<td>370 €&nbsp;<b>&nbsp;</b><td>&nbsp;</tr><tr><td>Fox<td>&nbsp;<td>5</tr>"
    page = f"<p>Seats.</p><table><tr><th>Model</th><th>Price</th><th>Grade</th></tr>{rows}</table><p>End.</p>"
    assert read(page, "a.html").text == "Seats.\n\nPrice: 370 €\nModel: Fox; Grade: 5\n\nEnd."


def test_a_cell_that_spans_rows_is_named_in_each() -> None:
    head = "<table><tr><th>Pier</th><th>Boat</th><th>Fee</th></tr>"
    rows = "<tr><td rowspan=2>North</td><td>small</td><td>£1</td></tr><tr><td>large</td><td>£2</td></tr>"
    last = "<tr><td>South</td><td>small</td><td rowspan=0>£3</td></tr><tr><td>West</td><td>large</td></tr></table>"
    assert text(head + rows + last).splitlines() == [
        "Pier: North; Boat: small; Fee: £1",
        "Pier: North; Boat: large; Fee: £2",
        "Pier: South; Boat: small; Fee: £3",
        "Fee: £3; Pier: West; Boat: large",
    ]
    long = "<tr><td rowspan=2>" + "word " * 30 + "</td><td>small</td><td>£1</td></tr><tr><td>large</td><td>£2</td></tr>"
    assert text(head + long + "</table>").endswith("\nBoat: large; Fee: £2")


def test_names_of_columns_in_several_rows() -> None:
    """A row alone ("Stoves	60 days	30 days") does not say which is which."""
    head = "<tr><th rowspan=2>Goods</th><th colspan=2>Return window</th></tr><tr><th>Members</th><th>Guests</th></tr>"
    rows = "<tr><td>Tents</td><td>90 days</td><td>45 days</td></tr><tr><td>Stoves</td><td>60 days</td><td></td></tr>"
    named = [
        "Goods: Tents; Return window Members: 90 days; Return window Guests: 45 days",
        "Goods: Stoves; Return window Members: 60 days",
    ]
    assert table(rows, head).split("\n") == named
    assert table(rows, f"<tr><th colspan=3>Prices of 2024</th></tr>{head}").split("\n") == ["Prices of 2024", *named]
    uneven = "<tr><th>Goods</th><th colspan=9999>Return window</th></tr><tr><th>Members</th><th>Guests</th></tr>"
    assert table(rows, uneven).endswith("Stoves\t60 days")


@pytest.mark.parametrize(
    ("rows", "read_as"),
    [
        ("<tr><th>-v</th><th>loud</th></tr><tr><td>1</td><td>2</td></tr>", "-v\tloud\n1\t2"),  # two rows of names
        (
            "<tr><td colspan=2>Options</td></tr><tr><td>-v</td><td>loud</td></tr>",
            "Options\nFlag: -v; Its meaning: loud",
        ),
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


def test_the_first_cell_heads_a_row_of_prose_as_a_term_heads_its_definition() -> None:
    """Else the neighbour's default would stand in the same passage."""
    rows = "".join(f"<tr><td>limit_{i}</td><td>Sets limit {i}. The default is {i}.</td></tr>" for i in range(3))
    document = read(f"<h1>Limits</h1><table>{HEADER}{rows}</table><p>See also: files.</p>", "a.html")
    assert [(p.metadata["section"], p.text.split("\n")[-1]) for p in chunk_document(document)] == [
        *(
            (f"Limits > Flag: limit_{i}", f"Flag: limit_{i}; Its meaning: Sets limit {i}. The default is {i}.")
            for i in range(3)
        ),
        ("Limits", "See also: files."),
    ]


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


def test_formulas_are_their_alternative_text() -> None:
    assert text("<p>It is <math alttext='x^2'><mi>x</mi></math> metres.</p>") == "It is x^2 metres."


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
    "svg": "<svg>" * 300_000,
    "comment": "<!--" * 1_000_000,
    "div": "<div>" * 300_000,
    "open cells": "<table><tr><td>" * 60_000,
    "cells in cells": "<table><tr><th>a</th><th>b</th></tr><tr><td>x</td><td>" * 20_000,
    "attributes": "<a " + " ".join(f"a{i}=1" for i in range(200_000)) + ">x",
    "brackets": "<" * 2_000_000,
    "references": "&" * 2_000_000,
    "headings": "<h1>" * 200_000,
    "links": "<a href='#'>" * 200_000 + "x",
    "lists": "<ul><li>" * 150_000,
    "quotes": '<a href="' * 300_000,
    "templates": "<template>" * 200_000,
    "unmatched": "<b>" * 2_000 + "</p>" * 200_000,
    "objects": "<object>" * 200_000,
}


@pytest.mark.parametrize("kind", sorted(HOSTILE))
def test_hostile_pages_are_done_with_in_seconds(kind: str) -> None:
    """A process is given a minute for what takes well under a second; quadratic parsers need many minutes."""
    code = (
        "import sys\nfrom shared_core.errors import DocumentError\n"
        "from shared_core.documents.load import LoadOptions, parse_document\n"
        "try:\n    parse_document(sys.stdin.buffer.read(), 'a.html', LoadOptions(), file_name='a.html')\n"
        "except DocumentError as error:\n    assert 'no text' in error.message, error"
    )
    page = ("ok <p>" + HOSTILE[kind]).encode()
    result = subprocess.run([sys.executable, "-c", code], input=page, capture_output=True, timeout=60, check=False)
    assert result.returncode == 0, result.stderr.decode()


def test_work_is_bounded_by_time_and_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter(range(1_000_000))
    monkeypatch.setattr("shared_core.documents.loaders.limits.time.monotonic", lambda: float(next(ticks)))
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


def test_a_term_is_in_one_paragraph_with_its_definition() -> None:
    page = (
        "<p>Options:</p><dl><dt><code>-q</code><a class='headerlink' href='#q'>¶</a></dt><dt>--quiet</dt>"
        "<dd><p>Say nothing.</p><p>Not even errors.</p></dd><dt>-v</dt><dd>Say more.</dd><dt>-x</dt></dl><p>End.</p>"
    )
    assert text(page).split("\n\n") == [
        "Options:",
        "-q\n--quiet\nSay nothing.",
        "Not even errors.",
        "-v\nSay more.",
        "-x",
        "End.",
    ]


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


def test_the_reading_above_a_word_is_no_part_of_it() -> None:
    assert text("<p>The <ruby>漢<rp>(</rp><rt>kan</rt><rp>)</rp>字<rt>ji</rt></ruby> word.</p>") == "The 漢字 word."


@pytest.mark.parametrize("mark", ["epub:type='noteref'", "role='doc-noteref'"])
def test_the_number_of_a_note_is_no_part_of_the_number_before_it(mark: str) -> None:
    assert text(f"<p>Lit in 1871<a {mark} href='n.html#1'>1</a> and 1872.</p>") == "Lit in 1871¹ and 1872."


def test_a_list_of_labels_with_short_values_is_one_section_of_lines() -> None:
    """By itself neither "Director" nor "Ida Merrow" says who the director is."""
    page = (
        "<h1>Contact</h1><dl><dt>Phone</dt><dd><a href='tel:1'>+47 55 12</a></dd><dt><b>Director</b>:</dt>"
        "<dd>Ida Merrow</dd></dl><p>End.</p>"
    )
    document = read(page, "a.html")
    assert document.text == "Contact\n\nPhone: +47 55 12\n\nDirector: Ida Merrow\n\nEnd."
    assert [heading.label for heading in document.headings] == ["Contact"]
    for definition in ("A word on deliveries. It is long.", "One<br>Two"):  # prose, lines: a section of its own
        page = f"<dl><dt>Phone</dt><dd>+47 55 12</dd><dt>Freight</dt><dd>{definition}</dd></dl>"
        assert [h.label for h in read(page, "a.html").headings] == ["Phone", "Freight"]


def test_numbers_of_items_that_a_style_sheet_sets_apart_begin_lines() -> None:
    page = (
        "<p><span>(2)</span><span>No driver shall—</span><span><span>(a)</span><span>wait in a road; and</span></span>"
        "<span><span>(b)</span><span>refuse <i>hail(s)</i>.</span><sup>(1)</sup></span></p>"
        "<p>A file<span>(s)</span> of <i>f</i><span>(x)</span>.<a href='#n'>(3)</a></p>"
    )
    assert text(page).split("\n") == [
        "(2) No driver shall—",
        "(a) wait in a road; and",
        "(b) refuse hail(s).(1)",
        "",
        "A file(s) of f(x).(3)",
    ]


def test_no_passage_ends_in_a_term() -> None:
    items = "".join(
        f"<dt>limit_{i} (integer)</dt><dd><p>Sets limit number {i}. {'It needs a restart. ' * (i % 7)}</p></dd>"
        for i in range(60)
    )
    passages = chunk_document(read(f"<h1>Limits</h1><dl>{items}</dl>", "a.html"))
    assert len(passages) > 3
    for i in range(60):
        assert sum(f"limit_{i} (integer)\nSets limit number {i}." in p.text for p in passages) == 1


def test_all_of_a_definition_knows_its_term_and_what_follows_the_list_does_not() -> None:
    more = "It is said at length. " * 50
    page = (
        "<title>Settings</title><h2>Limits</h2><dl>"
        f"<dt>spare_slots (integer)</dt><dd><p>Slots kept free.</p><p>{more}</p><p>The default is three.</p></dd>"
        "<dt>slots (integer)</dt><dd><p>All slots.</p><dl><dt>auto</dt><dd>One a core.</dd></dl><p>Restart it.</p></dd>"
        "</dl><p>See also: files.</p>"
    )
    passages = chunk_document(read(page, "a.html"))

    def place(end: str) -> tuple[str, object]:
        (found,) = (p for p in passages if p.text.endswith(end))
        return found.title, found.metadata["section"]

    assert place("The default is three.") == ("Settings: spare_slots (integer)", "Limits > spare_slots (integer)")
    assert place("slots (integer)\nAll slots.") == ("Settings", "Limits > slots (integer)")
    assert place("auto\nOne a core.") == ("Settings", "Limits > slots (integer) > auto")
    assert place("Restart it.") == ("Settings: slots (integer)", "Limits > slots (integer)")
    assert place("See also: files.") == ("Settings", "Limits")


def test_raised_and_lowered_digits_are_no_part_of_the_number_before_them() -> None:
    page = (
        "<p>5<sup>2</sup> tablets, 10<sup>-6</sup> m<sup>2</sup>, the 1<sup>st</sup>, H<sub>2</sub>O, 101<sub>2</sub>"
    )
    assert text(page) == "5² tablets, 10⁻⁶ m2, the 1st, H2O, 101₂"  # nobody types H₂O in a question
    assert text(
        "<p>1<sup>1</sup>/<sub>2</sub> <b>4</b><sup><a href='#n'>3</a></sup> 4<sup>[5]</sup> <sup>14</sup>C"
    ) == ("1¹/₂ 4³ 4[5] 14C")


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


def test_panels_that_a_tab_shows_are_read_whatever_tells_them() -> None:
    panels = "".join(
        f'<div class="{name}" style="display: none"><h2>{place}</h2><p>Postage costs {price}.</p></div>'
        for name, place, price in [("tabcontent", "Rome", "four euros"), ("tab-pane fade", "Tulsa", "nine dollars")]
    )
    page = text(f"<h1>Returns</h1>{panels}<p class=table-content style='display:none'>not this</p>")
    assert "Postage costs four euros." in page
    assert "Postage costs nine dollars." in page
    assert "not this" not in page


def test_what_asks_for_cookies_is_not_content_but_a_section_about_it_is() -> None:
    asks = "<p>You can withdraw your consent within 90 days.</p><button>Accept</button><button>Reject</button>"
    assert text(f"<div class='cookie-banner fixed' role=dialog>{asks}</div>{ARTICLE * 9}") == text(ARTICLE * 9)
    about = text(f"<div class=section id=cookie-banner><h2>Cookie banner</h2>{asks}</div>{ARTICLE * 9}")
    assert "within 90 days.\n\nAccept Reject" in about


def test_a_table_within_a_cell_keeps_its_rows() -> None:
    inner = (
        "<table><tr><th>Carrier</th><th>Days</th></tr><tr><td>DHL</td><td>3</td></tr><tr><td>UPS</td><td>5</td></tr>"
    )
    page = text(f"<table><tr><td>Parcels{inner}</table></td><td>Call 0800 on weekdays.</td></tr></table>")
    assert " ".join(page.split()) == "Parcels Carrier: DHL; Days: 3 Carrier: UPS; Days: 5 Call 0800 on weekdays."
    assert "Carrier: DHL; Days: 3\nCarrier: UPS; Days: 5\n" in page


def test_a_line_break_within_a_heading_does_not_divide_it() -> None:
    """Else its number ("II") would be a sentence that states nothing."""
    document = read("<h1>II<br>The Storm</h1><p>The lantern broke.<br>It was old.</p>", "a.html")
    assert headings(document) == [(1, "II The Storm")]
    assert document.text == "II The Storm\n\nThe lantern broke.\nIt was old."


@pytest.mark.parametrize("mark", ["epub:type='footnote'", "role='doc-footnote'", "epub:type='rearnote' class='x'"])
def test_notes_of_books_are_no_sidebars(mark: str) -> None:
    page = f"<section><p>{'It left with forty mules. ' * 20}</p><aside {mark}><p>Some say thirty-eight.</p></aside>"
    assert text(page).endswith("\n\nSome say thirty-eight.")
    assert "thirty-eight" not in text(page.replace(mark, "class='more'"))
