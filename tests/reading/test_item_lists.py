"""Lists and blocks of code are found in plain text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared_core.reading.item_lists import first_number, lists_of, write_quote
from shared_core.types import Span

GUIDE = """# Pump

## Priming

Fill the pump first:

1. Open the valve.
   - Slowly.
2. Pour water
into the funnel.

3. Close the valve.

Then start it.

## Parts

* A gasket
* A funnel

```sh
# not a heading
pump --prime \\
  --slow
```
"""


def found(text: str) -> list[tuple[str, str, str]]:
    return [(one.kind, text[one.start : one.end], one.heading) for one in lists_of(text)]


def test_items_with_all_that_belongs_to_them_are_one_list() -> None:
    steps, parts, code = found(GUIDE)
    assert steps[0] == "number"
    assert steps[1].startswith("1. Open")
    assert steps[1].endswith("3. Close the valve.")
    assert steps[2] == "Priming"
    assert parts == ("bullet", "* A gasket\n* A funnel", "Parts")
    assert code == ("code", "# not a heading\npump --prime \\\n  --slow", "Parts")


def test_the_paragraph_above_leads_in() -> None:
    steps = lists_of(GUIDE)[0]
    assert GUIDE[steps.lead : steps.start].strip() == "Fill the pump first:"
    alone = lists_of("## Steps\n1. Press.\n2. Wait.")[0]
    assert alone.lead == alone.start


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("1. Only one.\n\nText.", []),
        ("Text.\n\n1. Goes on elsewhere.", ["number"]),
        ("9. Goes on.\n10. Ends.", ["number"]),
        ("9. Goes on from elsewhere.", ["number"]),
        ("1. One.\n1. Two.\n1. Three.", ["number"]),
        ("1. One.\n5. Five.", ["number"]),  # another list that begins with "5."
        ("a) First\nb) Second", ["letter"]),
        ("Step 1: Press.\nStep 2: Wait.", ["number"]),
        ("- a dash\n1. a number\n\nText.", []),
        ("No list. 1. Is here.", []),
        ("- one\n\nText.\n\n- two", []),
        ("```\n1. code\n2. code\n```", ["code"]),
        ("1. Run:\n   ```\n   make\n   ```\n2. Wait.", ["number"]),
        ("```\nnever closed", []),
        ("```\n```", []),
        ("```{toctree}\n:maxdepth: 1\n\n./upgrading\n```", []),
        ("```{code-block} sh\nmake\n```", ["code"]),
        ("```mermaid\na --> b\n```", []),
    ],
)
def test_kinds(text: str, kinds: list[str]) -> None:
    assert [one.kind for one in lists_of(text)] == kinds


def test_numbers() -> None:
    assert [first_number(text) for text in ("7. Bake.", "c) Third", "- none", "Step 2: Wait.", "")] == [7, 3, 0, 2, 0]


def written(text: str, quote: str) -> str:
    start = text.index(quote)
    return write_quote(text, Span("p", start, start + len(quote), quote))


def test_items_are_written_one_a_line() -> None:
    text = "Do this:\n\n1. Open\n   the valve.\n\n2. Close it."
    assert written(text, text) == "Do this:\n1. Open the valve.\n2. Close it."
    assert written("One sentence\nthat was wrapped.", "sentence\nthat") == "sentence that"


def test_code_keeps_its_lines() -> None:
    code = "if x:  \n\n    run()"
    assert written(f"See:\n\n```\n{code}\n```\n", code) == "if x:\n    run()"


LINES = st.lists(
    st.sampled_from(
        ["1. a", "2. b", "3. c", "- x", "  - y", "* z", "a) q", "text", "", "# head", "```", "   deep", "9. n"]
    ),
    max_size=12,
)


@given(LINES)
def test_lists_are_within_the_text_and_do_not_overlap(lines: list[str]) -> None:
    text = "\n".join(lines)
    last = 0
    for one in sorted(lists_of(text), key=lambda one: one.start):
        assert 0 <= one.lead <= one.start < one.end <= len(text)
        assert one.start >= last
        assert text[one.start : one.end].rstrip() == text[one.start : one.end]
        last = one.end


@given(LINES)
def test_writing_items_loses_no_word(lines: list[str]) -> None:
    text = "\n".join(lines)
    if text.strip():
        assert written(text, text).split() == text.split()
