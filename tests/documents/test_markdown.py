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
    content = f"# Options\n\n| **Flag** | Its meaning |\n{RULE}| `-v` | loud |\n| -q | a \\| b |\n\nSee *also*.\n"
    assert text(content) == "# Options\n\nFlag: `-v`; Its meaning: loud\nFlag: -q; Its meaning: a | b\n\nSee *also*.\n"
    assert text("Flag | Its meaning\n:-- | --\n-v |\n-q | quiet") == "Flag: -v\nFlag: -q; Its meaning: quiet"
    assert text("They are:\r\n| a | b |\r\n|---|---|\r\n| 1 | 2 |\r\n") == "They are:\r\n\na: 1; b: 2\n"


def test_notebooks_hold_tables_too() -> None:
    cell = {"cell_type": "markdown", "source": f"| a | b |\n{RULE}| 1 | 2 |\n\n# End"}
    code = {"cell_type": "code", "source": cell["source"]}
    document = read(json.dumps({"cells": [cell, code]}), "a.ipynb")
    assert document.text == f"a: 1; b: 2\n\n# End\n\n{code['source']}"
    assert document.text[slice(*document.headings[0][:2])] == document.headings[0].label.join(("# ", ""))


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
    ],
)
def test_what_is_no_table_of_named_columns_stays_as_it_is(content: str) -> None:
    assert text(content) == content


def test_inline_code_opens_no_fence() -> None:
    assert text(f"```x``` is code.\n\n| a | b |\n{RULE}| 1 | 2 |") == "```x``` is code.\n\na: 1; b: 2"
    assert [h.label for h in read("```x``` is code.\n\n# Head\n\ntext", "a.md").headings] == ["Head"]


def test_the_first_cell_heads_a_row_of_prose() -> None:
    rows = "".join(f"| limit_{i} | Sets limit {i}. The default is {i}. |\n" for i in range(2))
    after = "\nSee also: files.\n\n## More\n\nText of more."
    document = read(f"# Limits\n\n| Name | Meaning |\n{RULE}{rows}{after}", "a.md")
    assert [(p.metadata["section"], p.text.split("\n")[-1]) for p in chunk_document(document)] == [
        ("Limits > Name: limit_0", "Name: limit_0; Meaning: Sets limit 0. The default is 0."),
        ("Limits > Name: limit_1", "Name: limit_1; Meaning: Sets limit 1. The default is 1."),
        ("Limits", "See also: files."),
        ("Limits > More", "Text of more."),
    ]


def test_front_matter_before_a_table_is_kept_apart() -> None:
    document = read(f"---\ntitle: T\n---\n| a | b |\n{RULE}| 1 | 2 |\n", "a.md")
    (passage,) = chunk_document(document)
    assert passage.text == "a: 1; b: 2"
    start, end = (passage.metadata[key] for key in ("start", "end"))
    assert isinstance(start, int)
    assert isinstance(end, int)
    assert document.text[start:end] == passage.text


def test_comments_are_blank_but_not_in_code() -> None:
    shown = "# Fees <!-- omit\r\nin toc -->\n\nIt is 5.<!-- It was 4. --> Paid.\n<!--\n# Old\n-->\n"
    code = "`<!-- a -->` ``<!-- ` -->``\n\n    <!-- b -->\n\n```\n<!-- c -->\n```\n<!-- open\n"
    document = read(shown + code, "a.md")
    assert " ".join(document.text.split()) == " ".join(["# Fees It is 5. Paid.", *code.split()])
    assert [len(line) for line in document.text.splitlines()] == [len(line) for line in (shown + code).splitlines()]
    assert [h.label for h in document.headings] == ["Fees"]
    cell = {"cell_type": "markdown", "source": "<!-- old -->It is 5."}
    assert read(json.dumps({"cells": [cell]}), "a.ipynb").text.strip() == "It is 5."


def test_what_is_struck_out_is_blank_but_not_in_code() -> None:
    assert text("It costs ~~5 euros~~ 6 euros.") == "It costs             6 euros."
    for own in ("`~~a~~`", "~~~\n~~a~~\n~~~", "5 ~~ 6 ~~ 7", "a ~~b", "~~~a~~~"):
        assert text(own) == own


def test_ids_of_headings_are_no_part_of_their_names() -> None:
    content = "# A {#a}\n\n## B {.x key=v} ##\n\n## B2 ## {#b}\n\nC {#c}\n---\n\n## D {/* #d */}\n\n## {a}\n\n## {#e}"
    labels = [h.label for h in read(content, "a.md").headings]
    assert labels == ["A", "B", "B2", "C", "D", "{a}", "{#e}"]


def test_front_matter_may_be_toml() -> None:
    content = '+++\n# Made by hand\ntitle = "Fees"\n[extra]\ntitle = "No"\n+++\n\nIt is 5.\n'
    document = read(content, "a.md")
    assert (document.title, document.text, document.headings) == ("Fees", content, ())
    assert [p.text for p in chunk_document(document)] == ["It is 5."]


def test_what_is_mostly_html_is_read_as_a_web_page() -> None:
    content = '<section id="s1"><h2 class="n">1. Bees</h2><p id="p1">No person may <b>keep</b> bees.</p></section>\n'
    document = read(f"---\ntitle: Bees\n---\n{content}", "a.md")
    assert (document.title, document.text) == ("Bees", "1. Bees\n\nNo person may keep bees.")
    assert [h.label for h in document.headings] == ["1. Bees"]
    for own in (
        f"# Bees\n\n{content}",
        f"```html\n{content}```\n",
        f"{'It may not be kept here at all. ' * 20}\n{content}",
    ):
        assert text(own) == own


@pytest.mark.parametrize(
    "part", ["|", "| a | b |\n|---|---|\n", "`" * 3 + "\n", "| -", "|---|\n", "a|\n", "<!--", "<a ", "`a``b", "~~a"]
)
def test_work_grows_with_the_length_only(part: str) -> None:
    read(part * 60_000, "a.md")


def test_what_no_reader_of_an_mdx_page_sees_is_blank() -> None:
    page = """---
title: Limits
---
import Tabs from '@theme/Tabs';

import {
  Note,
} from '../Note';

export const limit = 600;

# Limits

<Note type="warning">
  The sandbox accepts 60 requests.
</Note>

{/* raise to 900
in March */}

Write `{/* this */}` to hide a note.

```js
import x from 'y';
</Note>
```
"""
    document = read(page, "a.mdx")
    assert document.format == "markdown"
    assert len(document.text) == len(page)
    seen = document.text.split("---\n", 2)[2].split("\n")
    assert [line.strip() for line in seen if line.strip()] == [
        "# Limits",
        '<Note type="warning">',
        "The sandbox accepts 60 requests.",
        "Write `{/* this */}` to hide a note.",
        "```js",
        "import x from 'y';",
        "</Note>",
        "```",
    ]
    assert "import Tabs" in read(page, "a.md").text
