"""Plain text: what is underlined, the options of a help text and the questions of an FAQ head sections."""

from __future__ import annotations

import json

import pytest

from shared_core.documents import chunk_document
from tests.documents.reading import read

HELP = """\
usage: winch [-h] [--speed N] FILE

Turns the drum.

options:
  -h, --help            show this help
      --speed N         metres a minute; see
                        also --brake
  --brake=FORCE
                        kilonewtons
  -q\tno bell

Exit status: 0 if the drum turned.
  -1 is an error
"""
FAQ = """\
Questions about the ferry

Does "Gull" run on Sunday?

    No.

Why not?
It rests.

Who owns it?

    The town.

May dogs come?

    Yes. They ask?
"""
NUMBERED = "".join(f"{n}. {asked}\n\n  {said}\n\n" for n, asked, said in [
    (1, "Is it old?", "Yes."), (2, "It leaks.", "Pump."), (3, "Is it slow?", "Yes. Very."), (4, "Is it red?", "No."),
])  # fmt: skip
NEWS = "Changes in 2.1\n==============\n\n* Adds a bell.\n\nChanges in 2.0\n==============\n\n* Drops the horn.\n"


def labels(content: str) -> list[str]:
    document = read(content, "a.txt")
    assert document.text == content
    return [heading.label for heading in document.headings]


def test_each_option_of_a_help_text_is_a_section_with_its_definition() -> None:
    assert labels(HELP) == ["-h, --help", "--speed N", "--brake=FORCE", "-q", ""]
    parts = [(p.metadata.get("section", ""), " ".join(p.text.split())) for p in chunk_document(read(HELP, "a.txt"))]
    assert parts[1:] == [
        ("-h, --help", "-h, --help show this help"),
        ("--speed N", "--speed N metres a minute; see also --brake"),
        ("--brake=FORCE", "--brake=FORCE kilonewtons"),
        ("-q", "-q no bell"),
        ("", "Exit status: 0 if the drum turned. -1 is an error"),
    ]


def test_questions_of_an_faq_head_their_answers() -> None:
    assert labels(FAQ) == ['Does "Gull" run on Sunday?', "Why not?", "Who owns it?", "May dogs come?"]
    assert labels(NUMBERED) == ["1. Is it old?", "2. It leaks.", "3. Is it slow?", "4. Is it red?"]


@pytest.mark.parametrize(
    "content",
    [
        "- a list\n- of items\n",
        "He rowed on.\n\nWhy?\n\nNobody knew.\n",
        '"Who goes there?"\n\n"I."\n\n"Who?"\n\n"I!"\n\n"Where?"\n',
        "1. Row.\n\n2. Rest.\n\n3. Row.\n\n",
    ],
)
def test_other_texts_have_no_headings(content: str) -> None:
    assert labels(content) == []


def test_underlined_titles_are_sections_and_the_newest_release_is_no_title() -> None:
    document = read(NEWS, "NEWS.txt")
    assert (document.title, document.text) == ("NEWS", NEWS)
    assert [p.metadata["section"] for p in chunk_document(document)] == ["Changes in 2.1", "Changes in 2.0"]
    assert read(f"The winch\n=========\n\n{NEWS.replace('=', '-')}", "a.txt").title == "The winch"
    assert read(NEWS, "NEWS.rst").title == "NEWS"


@pytest.mark.parametrize(
    "part", ["-a", "-a  b\n", "A?\n\n", "1. a\n\n", "-a \n", " ", "\n", "-a b ", "\n1.1 a\n\n", "a  [Page 1]\n\f"]
)
def test_work_grows_with_the_length_only(part: str) -> None:
    read(part * (200_000 // len(part)) + "x", "a.txt")


def test_comments_of_restructured_text_are_blank() -> None:
    shown = "Fees\n====\n\n.. _fees:\n\n.. note:: It is 5.\n\n.. [1] A note.\n\n.. |x| replace:: y\n\n"
    comments = ".. It was 4:\n   cash.\n\n   Really.\n.. Again.\n\n..\n   It was 3.\n\n"
    end = "..\n\n    Quoted.\n\nThe end. See\n.. dots.\n"
    document = read(shown + comments + end, "a.rst")
    assert document.text == shown + "".join("\n" if c == "\n" else " " for c in comments) + end
    assert read(".. It was 4.", "a.txt").text == ".. It was 4."


RFC = """\
3.  Fees

   The fee is five, and it is paid by everyone who


Moore                    Standards Track                  [Page 1]
\f
RFC 2047                 Message Headers             November 1996


   enters.

3.1.  For cars

   Cars pay six.


Moore                    Standards Track                  [Page 2]

RFC 2047                 Message Headers             November 1996


3.2.  By night

   It is free.  1. Really.

Moore                    Standards Track                  [Page 3]
"""


def test_numbered_headings_are_sections_and_ends_of_pages_are_left_out() -> None:
    passages = chunk_document(read(RFC, "a.txt"))
    assert [p.metadata["section"] for p in passages] == [
        "3. Fees",
        "3. Fees > 3.1. For cars",
        "3. Fees > 3.2. By night",
    ]
    assert " ".join(passages[0].text.split()) == "3. Fees The fee is five, and it is paid by everyone who enters."
    assert "Moore" not in passages[-1].text
    assert read("1. Milk\n\n2. Eggs\n\n3. Flour\n\nThen bake.", "a.txt").headings == ()
    assert read("He wrote [Page 3]\nand [Page 4]\n", "a.txt").text == "He wrote [Page 3]\nand [Page 4]\n"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.adoc", "= Fees\n\n== For cars == \r\nIt is 5.\n\n----\n== code\n----\n\n=== By day\nSix.\n"),
        ("a.org", "#+title: Fees\n* Fees\n** TODO For cars :new:\nIt.\n#+begin_src x\n* no\n#+end_src\n*** By day\n6"),
        ("a.tex", "\\section{Fees}\n\\subsection*{For \\emph{cars}}\nIt.\n% \\section{No}\n\\subsubsection{By day}\n6"),
        ("a.textile", "h1. Fees\n\nh2(#a). For cars\n\nIt is 5.\n\nh3. By day\n\n6"),
        ("a.wiki", "= Fees =\n== For cars ==\nIt is 5. a == b\n===By day===\n6"),
    ],
)  # fmt: skip
def test_headings_of_other_markup_are_sections(name: str, content: str) -> None:
    document = read(content, name)
    assert (document.text, document.title) == (content, "Fees")
    assert [h.label for h in document.headings] == ["Fees", "For cars", "By day"]
    assert chunk_document(document)[-1].metadata["section"] == "Fees > For cars > By day"


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("a.adoc", "\n\n----"), ("a.adoc", "= "), ("a.adoc", "== a  "), ("a.org", "#+begin_a\n"), ("a.org", "* a :b"),
        ("a.tex", "\\begin{verbatim}"), ("a.tex", "\\section{a{"), ("a.wiki", "= "), ("a.wiki", "=a"),
        ("a.textile", "h1. a "),
    ],
)  # fmt: skip
def test_other_markup_takes_linear_work(name: str, part: str) -> None:
    read(part * 60_000, name)


def test_entities_in_subtitles_are_characters() -> None:
    cue = "WEBVTT\n\n00:01.000 --> 00:04.000\n<v Ann>Who built&nbsp;it, R&amp;D?\n"
    assert read(cue, "a.vtt").text == "Ann: Who built it, R&D?"


HOSTS = """# Deployment
defaults: &defaults
  replicas: 3   # of a request
# the public one
staging:
  <<: *defaults
  replicas: 1
production:
  replicas: 9
  limits:
    memory: 2Gi
"""


def test_blocks_of_yaml_side_by_side_are_sections() -> None:
    """Else the value of one host would be in a passage with its neighbour's."""
    document = read(HOSTS, "a.yaml")
    assert (document.text, document.format) == (HOSTS, "code")
    assert [(p.metadata["section"], p.text.split("\n")[0]) for p in chunk_document(document)] == [
        ("defaults", "# Deployment"),
        ("staging", "# the public one"),
        ("production", "production:"),
    ]


def test_blocks_within_others_are_named_by_their_path() -> None:
    services = {"web": {"port": 80, "log": {"level": 2}}, "db": {"port": 5432}}
    value = {"version": 3, "services": services, "owner": "Ida Brandt"}
    found = chunk_document(read(json.dumps(value, indent=1), "a.json"))
    assert [(p.metadata.get("section"), p.title) for p in found] == [
        (None, "a"),
        ("services.web", "a: services.web"),
        ("services.db", "a: services.db"),
        (None, "a"),
    ]
    assert found[2].text.startswith('"db": {')
    assert "Ida Brandt" in found[3].text


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


def test_a_block_larger_than_a_passage_is_divided_under_its_path() -> None:
    """Else passages were cut anywhere, and a memory limit had lost whose limit it is."""
    containers = "".join(
        f"  - name: {name}\n    image: registry.example/{name}:2.4\n    limits:\n      memory: {size}Mi\n"
        + "".join(f"    label{i}: a value of no interest\n" for i in range(9))
        for name, size in (("orders", 512), ("shipper", 64), ("proxy", 32))
    )
    found = chunk_document(read(f"kind: Pod\nspec:\n  replicas: 3\n  containers:\n{containers}", "a.yaml"))
    assert [p.metadata.get("section") for p in found] == [
        None, "spec", "spec.containers.orders", "spec.containers.shipper", "spec.containers.proxy",
    ]  # fmt: skip
    (shipper,) = (p for p in found if "64Mi" in p.text)
    assert shipper.title == "a: spec.containers.shipper"


def test_sections_of_settings_are_sections() -> None:
    text = "title = 1\n\n[servers.alpha]\nport = 80\n\n[[products]]\nname = 'nail'\n"
    for name in ("a.toml", "a.ini", "b.service"):
        document = read(text, name)
        assert document.text == text
        sections = [p.metadata.get("section") for p in chunk_document(document)]
        assert sections == [None, "servers.alpha", "products"]


MAIL = """\
Received: from mail.example (mail.example [192.0.2.7])
\tby mx.example; Tue, 14 May 2024 09:12:44 +0200
From: =?iso-8859-1?Q?J=FCrgen_Ott?= <ott@mail.example>
Subject: =?utf-8?Q?Offer_for_the_M=C3=BChle_pumps?=
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="A"

--A
Content-Type: text/plain; charset=utf-8
Content-Transfer-Encoding: quoted-printable

We order 14 pumps of the type KX-20=
0. The address is K=C3=B6nigsgasse 12.
--A
Content-Type: message/rfc822

From: Otto <otto@mail.example>
Content-Type: text/html; charset=iso-8859-1
Content-Transfer-Encoding: quoted-printable

<h2>Terms</h2><p>One costs 412 euros at our b=FCro.
--A
Content-Type: application/pdf
Content-Disposition: attachment; filename="plan.pdf"

--A--
"""


@pytest.mark.parametrize("name", ["order.eml", "order.txt"])
def test_mails_are_read_as_their_readers_see_them(name: str) -> None:
    document = read(MAIL, name)
    assert document.text == (
        "From: Jürgen Ott <ott@mail.example>\nSubject: Offer for the Mühle pumps\n\n"
        "We order 14 pumps of the type KX-200. The address is Königsgasse 12.\n\n"
        "From: Otto <otto@mail.example>\n\nTerms\n\nOne costs 412 euros at our büro."
    )
    assert document.title == "Offer for the Mühle pumps"
    assert [document.text[h.start : h.end] for h in document.headings] == ["Terms"]
    assert [problem.message for problem in document.problems] == ["attachment plan.pdf is not read"]


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (
            "plain",
            "Now it is 3 June.\n\nOn Tue, 14 May 2024, Tom <t@x.example> wrote:\n> It is 27 May.\n\nRegards, Ida\n",
        ),
        (
            "html",
            "<p>Now it is 3 June.</p><p>On Tue, 14 May 2024, Tom wrote:</p><blockquote>It is 27 May.</blockquote>",
        ),
    ],
)
def test_the_older_mail_that_a_mail_repeats_is_a_section(kind: str, body: str) -> None:
    """Else nothing tells that its text is of another day and another sender."""
    head = f"From: Ida <i@x.example>\nSubject: Day\nMIME-Version: 1.0\nContent-Type: text/{kind}; charset=utf-8\n\n"
    found = {p.text: str(p.metadata.get("section", "")) for p in chunk_document(read(head + body, "a.eml"))}
    older = {text: section for text, section in found.items() if "27 May" in text}
    assert [section.startswith("On Tue, 14 May 2024, Tom") for section in older.values()] == [True]
    assert all("3 June" not in text and "Regards" not in text for text in older)
    assert all(not section for text, section in found.items() if text not in older)


@pytest.mark.parametrize(
    ("kind", "head"),
    [
        ("plain", "From: Tom\nSent: Tuesday, 14 May 2024 10:00\nTo: Ida; Jo\nCc: Al\nSubject: Day\n\n"),
        ("plain", "-----Original Message-----\nFrom: Tom\nSent: 14 May 2024\nTo: Ida\nSubject: Day\n\n"),
        ("plain", "*From:* Tom\n*Date:* 14 May 2024\n*To:* Ida\n*Subject:* Day\n\n"),
        ("html", "<p><b>From:</b> Tom<br><b>Sent:</b> 14 May 2024<br><b>To:</b> I<br><b>Subject:</b> D</p><p>"),
    ],
)  # fmt: skip
def test_outlooks_head_begins_an_older_mail(kind: str, head: str) -> None:
    new = "Now it is 3 June. Ask Lee, too." if kind == "plain" else "<p>Now it is 3 June. Ask Lee, too.</p>"
    top = f"From: Ida <i@x.example>\nMIME-Version: 1.0\nContent-Type: text/{kind}; charset=utf-8\n\n"
    text = f"{top}{new}\n\n{head}It is 27 May, and all agree.\n"
    found = {p.text: str(p.metadata.get("section", "")) for p in chunk_document(read(text, "a.eml"))}
    assert [(bool(section), "14 May 2024" in section) for section in found.values()] == [(False, False), (True, True)]
    assert ["27 May" in text for text in found] == [False, True]


def test_what_only_looks_like_a_mail_is_read_as_it_is() -> None:
    for text in ("From: Peter\nSubject: Roof\n\nIt leaks=\n.", "MIME-Version: 1.0\nA line.\n\nFrom: here"):
        assert read(text, "a.txt").text == text


def test_the_underlined_head_of_a_table_is_no_title() -> None:
    for gap in ("\t", "      "):
        text = f"PRICES OF 2024\n\nItem{gap}Small{gap}Large\n-----------------------\nCrate{gap}14.00{gap}22.00\n"
        document = read(text, "a.txt")
        assert (document.title, document.headings, document.text) == ("PRICES OF 2024", (), text)
