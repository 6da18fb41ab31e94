"""Plain text, markup and configuration: what only looks like structure, and how work grows (see test_whole_files)."""

from __future__ import annotations

import pytest

from shared_core.errors import DocumentError
from tests.documents.reading import FILES, read


@pytest.mark.parametrize(
    "content",
    [
        "- a list\n- of items\n",
        "He rowed on.\n\nWhy?\n\nNobody knew.\n",
        '"Who goes there?"\n\n"I."\n\n"Who?"\n\n"I!"\n\n"Where?"\n',
        "1. Row.\n\n2. Rest.\n\n3. Row.\n\n",
        "1. Milk\n\n2. Eggs\n\n3. Flour\n\nThen bake.",
        "He wrote [Page 3]\nand [Page 4]\n",
        "From: Peter\nSubject: Roof\n\nIt leaks=\n.",
        "MIME-Version: 1.0\nA line.\n\nFrom: here",
        ".. It was 4.",
    ],
)
def test_other_texts_are_read_as_they_are_and_have_no_headings(content: str) -> None:
    document = read(content, "a.txt")
    assert (document.text, document.headings) == (content, ())


@pytest.mark.parametrize("gap", ["\t", "      "])
def test_the_underlined_head_of_a_table_is_no_title(gap: str) -> None:
    text = f"PRICES OF 2024\n\nItem{gap}Small{gap}Large\n-----------------------\nCrate{gap}14.00{gap}22.00\n"
    document = read(text, "a.txt")
    assert (document.title, document.headings, document.text) == ("PRICES OF 2024", (), text)


def test_a_mail_is_known_by_its_head() -> None:
    mail = (FILES / "whole" / "order.eml").read_bytes()
    assert read(mail, "order.txt").text == read(mail, "order.eml").text


def test_a_mailbox_holds_mails_with_their_subjects() -> None:
    mails = [
        "From ida@a.org Mon Jan  5 10:00:00 2026\nFrom: Ida <ida@a.org>\nSubject: The ferry\n\nIt sails at nine.\n\n"
        ">From May on it sails at ten.\nFrom here it is far.\n",
        "From bo@a.org Tue Jan  6 10:00:00 2026\r\nFrom: Bo <bo@a.org>\r\nSubject: =?utf-8?q?Caf=C3=A9?=\r\n"
        "Content-Transfer-Encoding: base64\r\n\r\nSXQgaXMgY2xvc2VkLg==\r\n",
        "From odd@a.org Wed Jan  7 10:00:00 2026\nFrom: Odd\nContent-Type: text/plain; charset=utf-8\n\nodd \xff\n",
    ]
    document = read("\n".join(mails).encode("latin-1"), "post.mbox")
    kept = [(s.title, s.metadata, document.text[s.start : s.end].partition("\n\n")[2]) for s in document.segments]
    first = "It sails at nine.\n\nFrom May on it sails at ten.\nFrom here it is far."
    assert kept == [("The ferry", {"mail": 1}, first), ("Café", {"mail": 2}, "It is closed.")]
    assert [(h.level, h.label) for h in document.headings] == [(1, "The ferry"), (1, "Café")]
    assert [p.message[:21] for p in document.problems] == ["mail 3 cannot be read"]
    with pytest.raises(DocumentError, match="no mail"):
        read("It sails at nine.", "post.mbox")


SAVED = """From: Ida Holm <ida@a.org>
To: Bo Lund <bo@b.org>
Date: Tue, 7 May 2024 18:12
Subject: Re: Hens

Hello Bo,

Five, please.

> To: Ida Holm <ida@a.org>
> From: Bo Lund <bo@b.org>
> Subject: Hens
> Sent: Mon, 6 May 2024
>
> How many?
>
> > Cc: Jon
> > Subject: Hens
> > From: Ida Holm
> > Date: 5 May 2024
> >
> > Have you any?
"""


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_mail_saved_as_text_has_its_subject_and_its_older_mails(end: str) -> None:
    document = read(SAVED.replace("\n", end), "mail.txt")
    assert document.title == "Re: Hens"
    assert [h.label for h in document.headings] == [
        "From: Bo Lund <bo@b.org> Sent: Mon, 6 May 2024",
        "From: Ida Holm Date: 5 May 2024",
    ]
    assert ">" not in document.text.replace("@a.org>", "").replace("@b.org>", "")
    assert document.text.endswith("Date: 5 May 2024\n\nHave you any?")


@pytest.mark.parametrize(
    "text",
    [
        "From: Leeds\nTo: York\nDate: 3 May 2024\n\nA single ticket.\n",  # a journey
        "Subject: Latin\nTo: learn\nDate: Friday\n\nRoom 4.\n",  # from nobody
        "From: Ida <ida@a.org>\nSubject: Hens\n\nFive.\n",  # too little
        "She wrote:\n\nFrom: Ida\nTo: Bo\nSubject: Hens\n\nFive.\n",
        "From: Ida\nTo: Bo\nSubject: Hens\nFive, please.\n",  # no empty line
    ],
)
def test_other_texts_are_no_mails(text: str) -> None:
    document = read(text, "a.txt")
    assert (document.text, document.headings) == (text, ())


def test_outlines_and_releases_of_packages_are_sections() -> None:
    outline = "* Release 2.1\n\n** Bugs\n\n  None.\n\n* Release 2.0\n\n** Bugs\n\n* a\n* b\n"
    document = read(f"ROPE NEWS      -*- outline -*-\n\n{outline}", "NEWS")
    assert document.title == "ROPE NEWS"
    assert [(h.level, h.label) for h in document.headings] == [
        (1, "Release 2.1"), (2, "Bugs"), (1, "Release 2.0"), (2, "Bugs"),
    ]  # fmt: skip
    assert read("* Far apart.\n\n* Items of a list\n\n* Another\n\nEnd.", "a.txt").headings == ()
    releases = "".join(
        f"rope ({v}-1) unstable; urgency=low\n\n  * New.\n\n -- Ida <i@a.org>  Mon\n\n" for v in ("2.1", "2.0")
    )
    document = read(releases, "changelog")
    assert (document.title, len(document.headings)) == ("rope", 2)


def test_the_newest_release_is_no_title_but_what_is_above_all_releases_is() -> None:
    news = (FILES / "whole" / "NEWS.txt").read_text()
    assert read(f"The winch\n=========\n\n{news.replace('=', '-')}", "a.txt").title == "The winch"
    assert read(news, "NEWS.rst").title == "NEWS"


PARTS = {
    "a.txt": [
        "** a\n\n",
        "a (1) b; urgency=c\n",
        "-a",
        "-a  b\n",
        "A?\n\n",
        "1. a\n\n",
        "-a \n",
        " ",
        "\n",
        "-a b ",
        "\n1.1 a\n\n",
        "a  [Page 1]\n\f",
    ],
    "a.md": ["|", "| a | b |\n|---|---|\n", "```\n", "| -", "|---|\n", "a|\n", "<!--", "<a ", "`a``b", "~~a"],
    "a.adoc": ["\n\n----", "= ", "a:: b\n+\n", "* a\n** b\n", "|a\n", "link:a[", "a--", "`a ", "*a ", "{a}[", "\\a:"],
    "a.org": ["#+begin_a\n", "* a :b"],
    "a.tex": [
        "\\begin{verbatim}",
        "\\section{a{",
        "\\a[",
        "\\begin{tabular}{l}",
        "\\begin{comment}",
        "\\title[",
        "\\\\[",
        "{",
    ],
    "a.wiki": ["= ", "=a"],
    "a.textile": ["h1. a "],
}


@pytest.mark.parametrize(("name", "part"), [(name, part) for name, parts in PARTS.items() for part in parts])
def test_work_grows_with_the_length_only(name: str, part: str) -> None:
    repeated = 100_000 // len(part) if name == "a.txt" else 15_000
    read("x" + part * repeated + "x", name)


@pytest.mark.parametrize(
    "text",
    [
        "kind: Deployment\nmetadata:\n  name: web\nspec:\n  replicas: 3\n",  # blocks of one thing
        "jobs:\n  build:\n    steps:\n      - run: make\n      - run: test\n",
        "names:\n- Ida\n- Tom\n",
        "# only a comment\n",
        "{",
    ],
)
def test_blocks_of_one_thing_stay_together(text: str) -> None:
    assert read(text, "a.yml").headings == ()


@pytest.mark.parametrize("quote", ["", "'", '"'])
def test_a_path_with_a_parameter_names_its_block(quote: str) -> None:
    paths = ("/boats", "/boats/{id}", "/boats/{id}/crew")
    blocks = (f"  {quote}{path}{quote}:\n    get:\n      summary: Of {path}\n" for path in paths)
    document = read(f"openapi: 3.1.0\npaths:\n{''.join(blocks)}", "a.yml")
    assert {f"paths.{path}" for path in paths} <= {heading.label for heading in document.headings}
