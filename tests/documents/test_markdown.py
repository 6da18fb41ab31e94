"""Markdown: rows of tables have the names of their columns; comments, front matter and tags are no text."""

from __future__ import annotations

import json
import re

import pytest

from shared_core.documents import chunk_document
from shared_core.documents.loaders.formats import file_format
from tests.documents.reading import read

RULE = "|---|:-:|\n"


def text(content: str) -> str:
    return read(content, "a.md").text


def test_rows_carry_the_names_of_their_columns() -> None:
    assert text("Flag | Its meaning\n:-- | --\n-v |\n-q | quiet") == "Flag: -v\nFlag: -q; Its meaning: quiet"
    assert text("They are:\r\n| a | b |\r\n|---|---|\r\n| 1 | 2 |\r\n") == "They are:\r\n\na: 1; b: 2\n"


HTML = '<section id="s1"><h2 class="n">1. Bees</h2><p id="p1">No person may <b>keep</b> bees.</p></section>\n'


@pytest.mark.parametrize(
    "content",
    [
        f"| a | a |\n{RULE}| 1 | 2 |\n",  # names that tell nothing apart
        f"| | |\n{RULE}| 1 | 2 |\n",
        f"| a | b | c |\n{RULE}| 1 | 2 | 3 |\n",  # the rule has another width: no table
        f"| a | b |\n{RULE}| 1 | 2 | 3 |\n",  # a cell without a name
        f"| a | b |\n{RULE}\nno rows\n",
        f"```\n| a | b |\n{RULE}| 1 | 2 |\n```\n",
        f"~~~\n| a | b |\n{RULE}| 1 | 2 |\n",
        '```\n!!! note\n    Dry.\n:::tip\n=== "Oak"\n```\n\nIt is !!! or ::: or === here.\n',
        "A line | of text\n---\n| and | more |\n",
        f"---\nkey: |\n---\n{RULE}",
        "~~~\n~~a~~\n~~~",
        "import Tabs from '@theme/Tabs';\n\nOnly MDX has imports.\n",
        f"```html\n{HTML}```\n",
        "# Copies\n\nCopy <source> to <name>: `<b>x</b>` is bold.\n\n    <i>code</i>\n",
        "# Copies\n\nIf a<b and c>d, write <p>, <li> and <input>.",
    ],
)
def test_other_files_stay_as_they_are(content: str) -> None:
    assert text(content) == content


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        ('!!! warning inline "Oil"\n\tKeep it dry.\n\n\t- Rope\n\nOut.\n', ["Oil:", "Keep it dry.", "- Rope", "Out."]),
        ("??? question \"How is it oiled?\"\n    Twice a year.\n!!! note\n    Dry.\n",
         ["How is it oiled?", "Twice a year.", "Dry."]),
        ('!!! tip\n    Dry.\n    ??? info "Why"\n        Rust.\n    Always.\n', ["Dry.", "Why:", "Rust.", "Always."]),
        ('- Oil it.\n\n    !!! note\n        Dry.\n- Coil it.\n', ["- Oil it.", "    Dry.", "- Coil it."]),
        ('=== "TOML"\n    ```toml\n    [rope]\n      dry = true\n    ```\n=== "Shell"\n    Run `rope dry`.\n',
         ["TOML:", "```toml", "[rope]", "  dry = true", "```", "Shell:", "Run `rope dry`."]),
        (":::tip Oil it twice\nDry.\n:::\n\n::: details\nWet.\n:::\n\n:::note[Rust]{icon=x}\nRed.\n:::\n",
         ["Oil it twice:", "Dry.", "Wet.", "Rust:", "Red."]),
        ("> [!NOTE]\n> Oil it.\n\n> [!tip]- Dry it\n> Hang it.\n", [">", "> Oil it.", "> Dry it:", "> Hang it."]),
        ("```{warning} Rust\n:class: big\nKeep it dry.\n\n```python\nx = 1\n```\n```\n```{code} python\ny = 2\n```\n",
         ["Rust:", "Keep it dry.", "```python", "x = 1", "```", "```{code} python", "y = 2", "```"]),
    ],
)  # fmt: skip
def test_boxes_and_tabs_are_paragraphs_with_their_titles(content: str, lines: list[str]) -> None:
    assert [line.rstrip() for line in text(content).split("\n") if line.strip()] == lines
    assert [line.rstrip() for line in text(content.replace("\n", "\r\n")).split("\n") if line.strip()] == lines


@pytest.mark.parametrize("mark", ["!!! a", ":::a b", "> [!NOTE] b", "```{note} b", '=== "a"'])
def test_long_lines_of_blanks_behind_a_mark_are_read_at_once(mark: str) -> None:
    line = f"{mark}{' ' * 200_000}!`\n"  # in quadratic time this takes minutes
    assert "!`" in text(line)


def test_a_table_whose_columns_have_no_names_holds_labels_and_values() -> None:
    table = f"| | |\n{RULE}| **Berth** | 12 |\n| Depth | 3 m, at low tide |\n| Owner | |\n"
    assert text(table) == "Berth: 12\nDepth: 3 m, at low tide\nOwner\n"


def test_directives_of_templates_are_no_text() -> None:
    page = "# Hire\n\n{% include top.html %}\nA boat is 8 euros.\n{{< note type='tip' >}}\nPay ahead.\n{{% /note %}}\n"
    assert text(f"{page}<%= partial 'foot' %>\n").replace(" ", "").split() == ["#Hire", "Aboatis8euros.", "Payahead."]
    kept = "Write `{% if x %}` or {{ name }}, at 5 % of {a}:\n\n```\n{{< note >}}\n<% end %>\n```\n"
    assert text(kept) == kept


@pytest.mark.parametrize(("content", "title"), [
    ("% Notes of the winch\n\n2.1 (2024-05-14)\n====\n\nNew.\n\n2.0 (2023-01-02)\n====\n", "Notes of the winch"),
    ("# Winch 2.1 (2024-05-14)\n\nNew.\n\n# Winch 2.0 (2023-01-02)\n\nOld.\n", "a"),
    ("# Winch 2.1\n\nNew.\n\n## Brake\n\nStops.\n", "Winch 2.1"), ("# Winch\n\nNew.\n\n# Brake\n\nStops.\n", "Winch"),
])  # fmt: skip
def test_the_newest_of_several_releases_is_no_title(content: str, title: str) -> None:
    assert read(content, "a.md").title == title


@pytest.mark.parametrize(
    "before",
    ["# Bees\n", "It may not be kept here at all. " * 20],  # tags, but not mostly
)
def test_html_within_markdown_is_what_the_page_shows(before: str) -> None:
    document = read(f"{before}\n{HTML}", "a.md")
    assert " ".join(document.text.split()).endswith("## 1. Bees No person may keep bees.")
    assert document.headings[-1].label == "1. Bees"


@pytest.mark.parametrize(
    ("html", "shown"),
    [
        ('The <span class="term" id="2.1">Provider</span> pays.', "The Provider pays."),
        (
            'See <a href="https://x.org/a">the list</a> or <a href="#b">below</a>.',
            "See [the list](https://x.org/a) or below.",
        ),
        ('<a href="https://x.org"><img src="a.png" alt="Logo"></a> of Ost', "of Ost"),
        ("H<sub>2</sub>O, 10<sup>5</sup>; one<br>two", "H2O, 10⁵; one two"),
        ('In Ost\n\n  <iframe\n    src="a"\n  ></iframe>\n', "In Ost"),
        ("<ol>\n    <li>Wash.</li>\n    <li>Dry.</li>\n</ol>", "1. Wash.\n2. Dry."),
        ("<ul><li>Wash<ul><li>twice</li></ul></li><li>Dry</li></ul>", "- Wash\n  - twice\n- Dry"),
        ("<details>\n<summary>Is it safe?</summary>\n\nYes.\n</details>", "Is it safe?\n\nYes."),
        ('<h1 align="center">\n  <img src="a.png">\n  Winch\n</h1>', "# Winch"),
        ("1. One.\n\n    a. <b>Two</b>\n\n    <b>Three</b>", "1. One.\n\n    a. Two\n\n    Three"),
        ("1. One.\n\n    ```\n    <b>Two</b>\n    ```", "1. One.\n\n    ```\n    <b>Two</b>\n    ```"),
        ("<%= partial 'a' %>\nSeen `<% not code %>`.", "Seen `<% not code %>`."),
        ("Old: <del>3 days</del> 4 days.<script>x()</script>", "Old:  4 days."),
        ('Pull.\n\n<a id="x"></a>\n\nRun\n\n```\n<a id="x"></a>\n```', 'Pull.\n\n\n\nRun\n\n```\n<a id="x"></a>\n```'),
    ],
)
def test_tags_are_no_text(html: str, shown: str) -> None:
    assert text(f"# Notes\n\n{html}\n").removeprefix("# Notes").strip() == shown


def test_rows_of_html_tables_carry_the_names_of_their_columns() -> None:
    cells = "<tr><td>Mail\n   </td><td>30 <b>days</b></td></tr><tr><td>Calls</td><td>a | b</td></tr>"
    rows = "What: Mail; Kept: 30 days\nWhat: Calls; Kept: a | b"
    for head in ("<th>What</th><th>Kept</th>", "<td><strong>What </strong>\n</td><td><b>Kept</b></td>"):
        shown = text(f"# A\n\nRecords\n<table>\n  <tr>{head}</tr>{cells}\n</table>\nEnd.")
        assert re.split(r"\n{2,}", shown) == ["# A", "Records", rows, "End."]


@pytest.mark.parametrize(
    ("table", "shown"),
    [
        ('<tr><td colspan="2">A</td></tr><tr><td>C</td><td>D</td></tr>', "A\nC\tD"),
        ("<tr><td>A</td><td><p>B</p></td></tr>", "A\tB"),
        ("", ""),
        ("<tr><td>A<table><tr><td>B</td></tr></table></td></tr>", "A\n\nB"),
    ],
)
def test_other_html_tables_have_a_line_for_each_row(table: str, shown: str) -> None:
    assert re.sub(r"\n{2,}", "\n\n", text(f"# A\n\n<table>{table}</table>\n")).strip() == f"# A\n\n{shown}".strip()


def test_inline_code_opens_no_fence() -> None:
    assert text(f"```x``` is code.\n\n| a | b |\n{RULE}| 1 | 2 |") == "```x``` is code.\n\na: 1; b: 2"
    assert [h.label for h in read("```x``` is code.\n\n# Head\n\ntext", "a.md").headings] == ["Head"]


def test_front_matter_before_a_table_is_kept_apart() -> None:
    document = read(f"---\ntitle: T\n---\n| a | b |\n{RULE}| 1 | 2 |\n", "a.md")
    assert [(p.text, p.metadata["start"], document.text.index("a: 1")) for p in chunk_document(document)] == [
        ("a: 1; b: 2", 18, 18)
    ]


def test_notebooks_are_their_cells_with_what_code_printed() -> None:
    table = f"| a | b |\n{RULE}| 1 | 2 |\n\n# End"
    cells = [
        {"cell_type": "markdown", "source": ["# Tides\n", "They <!-- old -->come and go."]},
        {"cell_type": "code", "source": "print(1)", "outputs": [{"text": ["\x1b[1m1\x1b[0m\n"]}]},
        {"cell_type": "code", "source": "f", "outputs": [
            {"data": {"text/plain": ["port\n", "Ellum  412.5"], "text/html": "<table>"}},
            {"data": {"text/plain": "<Figure size 640x480 with 1 Axes>", "image/png": "iVBO"}},
            {"output_type": "error", "evalue": "not read", "traceback": ["not read"]},
        ]},
        {"cell_type": "markdown", "source": table},
        {"cell_type": "code", "source": table},
    ]  # fmt: skip
    document = read(json.dumps({"cells": cells}), "a.ipynb")
    assert document.text == (
        "# Tides\nThey             come and go.\n\nprint(1)\n\n1\n\nf\n\nport\nEllum  412.5\n\n"
        f"a: 1; b: 2\n\n# End\n\n{table}"
    )
    assert [document.text[h.start : h.end] for h in document.headings] == ["# Tides", "# End"]
    assert read("{}", "b.ipynb").format == "code"


@pytest.mark.parametrize("name", ["a.html.md.erb", "a.md.erb", "a.qmd", "A.Rmd"])
def test_pages_of_site_generators_and_of_r_are_markdown(name: str) -> None:
    document = read("---\ntitle: Hosting\n---\n\n# Where\n\n<%= warning %>\nIn Ost.\n", name)
    assert (document.format, document.title, document.text.split()[-2:]) == ("markdown", "Hosting", ["In", "Ost."])
    assert "warning" not in document.text


def test_views_of_programs_are_no_documents() -> None:
    assert file_format("show.html.erb") is None


@pytest.mark.parametrize("name", ["a.md", "a.html"])
def test_a_rule_at_the_top_begins_no_front_matter(name: str) -> None:
    found = read("---\nTwo rules hold: oil it, and dry it.\n\n---\nNo rope is sold.\n", name)
    assert "oil it" in found.text
    assert all(segment.start == 0 for segment in found.segments)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("A &amp; B&nbsp;is &dollar;5 or &#36;6.", "A & B is $5 or $6."),
        ("&lt;b&gt; is a tag of AT&T, &noentity; too.", "<b> is a tag of AT&T, &noentity; too."),
        ("Write `&amp;`:\n\n```\n&amp;\n```", "Write `&amp;`:\n\n```\n&amp;\n```"),
        ("| a | b |\n|---|---|\n| 1&#124;2 | &euro;5 |", "a: 1&#124;2; b: €5"),
    ],
)
def test_entities_are_what_they_stand_for_outside_code(source: str, text: str) -> None:
    assert read(source, "a.md").text == text


def test_simple_tables_of_pandoc_have_their_names_in_each_row() -> None:
    source = (
        "# Zoo\n\n  Ticket         Price   Notes\n  -------------- ------- --------------\n"
        "  Adult (12+)    49      Includes shows\n  Child          29      Under 3 free\n\nText.\n"
    )
    assert (
        "Ticket: Adult (12+); Price: 49; Notes: Includes shows\nTicket: Child; Price: 29" in read(source, "a.md").text
    )
    heading = "Title\n-----\n\n--- ---\nno table\n"
    assert read(heading, "a.md").text == heading
    torn = "Long name   Price\n------ ------\nMuesli bread 3\n"
    assert read(torn, "a.md").text == torn  # a word across columns


def test_a_head_without_a_row_names_the_columns() -> None:
    table = (
        "<table><thead><th>Stop</th><th>Leaves</th></thead><tbody><tr><td>Hull</td><td>7:45</td></tr></tbody></table>"
    )
    assert "Stop: Hull; Leaves: 7:45" in read(f"# Bus\n\nx\n\n{table}\n", "a.md").text
    assert "Stop: Hull; Leaves: 7:45" in read(f"<h1>Bus</h1><p>x</p>{table}", "a.html").text


@pytest.mark.parametrize(
    "shown", ["{{$frontmatter.title}}", "{{ $frontmatter.title }}", "{{ page.title }}", "{{ .Title }}"]
)
def test_a_heading_that_shows_a_field_of_the_front_matter_is_that_field(shown: str) -> None:
    front = "---\ntitle: 'Tarn walk'\nlead: |\n  Long.\n---\n\n"
    document = read(f"{front}# {shown}\n\n{{{{ page.lead }}}} Bring `{{{{ page.title }}}}`.\n", "walk.md")
    assert [heading.label for heading in document.headings] == [document.title] == ["Tarn walk"]
    assert document.text.endswith("# Tarn walk\n\n{{ page.lead }} Bring `{{ page.title }}`.\n")


def test_fields_are_shown_by_pages_with_front_matter_only() -> None:
    assert "{{ page.title }}" in read("# Templates\n\nWrite {{ page.title }} for the title.\n", "a.md").text
