"""Markdown: rows of tables have the names of their columns; comments, front matter and tags are no text."""

from __future__ import annotations

import json

import pytest

from shared_core.documents import chunk_document
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
        "A line | of text\n---\n| and | more |\n",
        f"---\nkey: |\n---\n{RULE}",
        "~~~\n~~a~~\n~~~",
        "import Tabs from '@theme/Tabs';\n\nOnly MDX has imports.\n",
        f"# Bees\n\n{HTML}",  # tags, but not mostly
        f"```html\n{HTML}```\n",
        f"{'It may not be kept here at all. ' * 20}\n{HTML}",
    ],
)
def test_other_files_stay_as_they_are(content: str) -> None:
    assert text(content) == content


@pytest.mark.parametrize(("content", "title"), [
    ("% Notes of the winch\n\n2.1 (2024-05-14)\n====\n\nNew.\n\n2.0 (2023-01-02)\n====\n", "Notes of the winch"),
    ("# Winch 2.1 (2024-05-14)\n\nNew.\n\n# Winch 2.0 (2023-01-02)\n\nOld.\n", "a"),
    ("# Winch 2.1\n\nNew.\n\n## Brake\n\nStops.\n", "Winch 2.1"), ("# Winch\n\nNew.\n\n# Brake\n\nStops.\n", "Winch"),
])  # fmt: skip
def test_the_newest_of_several_releases_is_no_title(content: str, title: str) -> None:
    assert read(content, "a.md").title == title


def test_an_anchor_by_itself_is_no_text_but_in_code() -> None:
    anchor = '<a id="brake"></a>'
    assert text(f"Pull.\n\n{anchor}\n\nBrake\n-----\n\n```\n{anchor}\n```\n") == (
        f"Pull.\n\n{' ' * len(anchor)}\n\nBrake\n-----\n\n```\n{anchor}\n```\n"
    )


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
