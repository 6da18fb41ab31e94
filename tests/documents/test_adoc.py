"""AsciiDoc: what the page shows that Asciidoctor makes of it."""

from __future__ import annotations

import pytest

from shared_core.documents.chunking import chunk_document
from shared_core.documents.loaders.extracted import TERM_LEVEL
from tests.documents.reading import read

PAGE = """\
= Lamp Manual
Ida Berg <ida@example.org>
v2.1, 2024-05-01
:product: Beacon 3
:toc:

toc::[]

The *{product}* lamp is _bright_. See <<_first_use>>, <<setup,the setup>>, xref:install.adoc#_from_source[] and
https://example.org/a_b_c[the site^,role=x]. Use `lamp --on`; press kbd:[Ctrl+T]. See linkgit:git-add[1]. {unknown}

== Setup

NOTE: Charge it first.

[WARNING]
====
Never open the case.

It is hot.
====

. Press the button.
+
[source,sh]
----
lamp start <1>
----
<1> Starts it.
. Done

Options
~~~~~~~

-v::
--verbose::
  Says more.

`lamp.timeout` (_default: 30_)::

  Seconds to wait.

.Limits
[cols="1,2a,^1",options="header"]
|===
|Name |Meaning |Value

|size
|The size:

* small
* big
|3
|===

// not shown
ifdef::env-github[]
Only there
endif::[]
ifdef::docs[]
Shown
endif::[]

include::other.adoc[]

++++
<b>raw &amp; text</b>
++++

Last((term))(((hidden))). "`Quoted`" -- H~2~O, \\*literal*, `+{raw}+`.
"""


def test_a_page_is_read_as_it_is_shown() -> None:
    document = read(PAGE, "lamp.adoc")
    assert (document.title, document.format) == ("Lamp Manual", "adoc")
    for shown in (
        "The Beacon 3 lamp is bright. See first use, the setup, from source and the site. Use lamp --on; press Ctrl+T. "
        "See git-add(1). {unknown}",
        "Note: Charge it first.",
        "Warning: Never open the case.\n\nIt is hot.",
        "1. Press the button.\n\nlamp start (1)\n\n(1) Starts it.\n\n2. Done",
        "-v\n--verbose\nSays more.",
        "lamp.timeout (default: 30)\nSeconds to wait.",
        "Limits\n\nName: size; Meaning: The size: small big; Value: 3",
        "\n\nShown\n\nraw & text\n\nLastterm. “Quoted” — H2O, *literal*, {raw}.",
    ):
        assert shown in document.text, shown
    for hidden in ("toc", "Only there", "not shown", "include", "other.adoc", "hidden", "|===", "----", "{product}"):
        assert hidden not in document.text, hidden
    labels = [(heading.level, heading.label) for heading in document.headings if heading.label]
    assert labels[:3] == [(1, "Lamp Manual"), (2, "Setup"), (3, "Options")]
    assert {label for level, label in labels if level >= TERM_LEVEL} == {
        "-v",
        "--verbose",
        "lamp.timeout (default: 30)",
    }


def test_a_definition_is_found_under_its_term() -> None:
    options = "\n".join(
        f"--option-{i}::\n  Do the thing number {i}, and what else a long text says.\n" for i in range(60)
    )
    passages = chunk_document(read(f"= Tool\n\n== Options\n\n{options}", "tool.adoc"))
    assert len(passages) > 2
    for i in range(60):
        assert sum(f"--option-{i}\nDo the thing number {i}," in passage.text for passage in passages) == 1


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("NAME\n----\ngit-add - Add files\n", "NAME\n\ngit-add - Add files"),
        ("|===\n|A |B\n\n2+|both\n.2+|x |1\n|2\n|===", "both\nA: x; B: 1\nA: x; B: 2"),
        (',===\nName,Value\n\n"a, b",1\n,===', "Name: a, b; Value: 1"),
        ("a:: b\nc:: d", "a\nb\n\nc\nd"),
        ("* one\n** two\n\n* three\n+\nfour", "- one\n\n  - two\n\n- three\n\nfour"),
        ("\\include::x[]", "include::x[]"),
        ("See {docs}/x.html[the manual].", "See the manual."),
        ("a * b * c_d_e f*g", "a * b * c_d_e f*g"),
        ("footnote:[A note.] x stem:[a^2*b] pass:[*] image:x.png[alt]", "(A note.) x a^2*b *"),
        ("[quote]\n____\nLight.\n____\n\n[verse]\nOne\nTwo", "Light.\n\nOne\nTwo"),
        ("----\nnever closed *x*", "never closed *x*"),
        ("endif::[]\nText", "Text"),
        ("---\nlayout: page\n---\nText", "Text"),
        ("---\n\nAbove.\n\n---\n\nBelow.", "Above.\n\nBelow."),
        ("[1]\n\n3. three\n4. four", "[1]\n\n3. three\n4. four"),
        (":Name: Ida\n\n{name}, {NAME}", "Ida, Ida"),
    ],
)
def test_blocks_and_marks(source: str, text: str) -> None:
    assert read(source, "a.adoc").text.strip() == text


def test_nesting_has_a_bound() -> None:
    opened = "\n".join("=" * (4 + i) for i in range(200))
    markers = "".join(f"{mark} x\n+\n" for mark in ("*", "**", "-", ".", "..", "a::", "b:::", "c;;") * 50)
    assert "Deep." in read(f"{opened}\nDeep.\n", "a.adoc").text
    assert "Deep." in read(f"{markers}Deep.\n", "a.adoc").text
