"""Manual pages: sections, options with their definitions, no markup."""

from __future__ import annotations

import bz2
import gzip

import pytest

from shared_core.documents.chunking import chunk_document
from tests.documents.reading import headings, read

PAGE = r"""'\" t
.\" Written by hand
.de Vb
.ft CW
..
.if n \{\
.    ds #H 0
.\}
.TH FERRY 1 2026-01-05 "Lindmouth 2.1" "User Commands"
.SH NAME
ferry \- print the timetable of the ferry
.SH "OPTIONS FOR ALL"
Mandatory arguments to long options are
mandatory for \fIshort\fR options too \(em see
.BR ferry.conf (5).
.TP
\fB\-a\fR, \fB\-\-all\fR
also print crossings
on Sundays
.TP
.BI \-\-pier= NAME
print one pier; the default is \(lqnorth\(rq
.PP
.B \-n
.RS 4
Print nothing.\" a comment
.RE
.IP \(bu 2
a point
.SS Examples
.nf
ferry --all \e
    --pier=north
.fi
"""


def test_sections_options_and_examples() -> None:
    document = read(gzip.compress(PAGE.encode()), "ferry.1.gz")
    assert document.text.split("\n\n") == [
        "NAME",
        "ferry - print the timetable of the ferry",
        "OPTIONS FOR ALL",
        "Mandatory arguments to long options are mandatory for short options too — see ferry.conf(5).",
        "-a, --all\nalso print crossings on Sundays",
        "--pier=NAME\nprint one pier; the default is “north”",
        "-n\nPrint nothing.",
        "• a point",
        "Examples",
        "ferry --all \\\n    --pier=north",
    ]
    assert (document.title, document.format) == ("ferry(1)", "man")
    assert headings(document) == [
        (1, "NAME"),
        (1, "OPTIONS FOR ALL"),
        *((10, term) for term in ("-a, --all", "--pier=NAME", "-n")),
        (2, "Examples"),
    ]


def test_a_term_holds_until_its_list_ends() -> None:
    page = ".TH A 1\n.SH OPTIONS\n.TP\n.B \\-a\nAll.\n.sp\nOf the first day.\n.PP\nSee also the log.\n.SH FILES\nNone."
    sections = {p.text.split("\n")[-1]: p.metadata["section"] for p in chunk_document(read(page, "a.man"))}
    assert sections == {
        "Of the first day.": "OPTIONS > -a",
        "See also the log.": "OPTIONS",
        "None.": "FILES",
    }


def test_an_option_and_its_definition_are_one_passage() -> None:
    option = "\n.TP\n\\-\\-option{}\nDo the thing number {} and every other thing that a long description names."
    page = ".TH LONG 1\n.SH OPTIONS" + "".join(option.format(i, i) for i in range(40))
    passages = chunk_document(read(page, "long.man"))
    assert len(passages) > 2
    for i in range(40):
        assert sum(f"--option{i}\nDo the thing number {i} " in passage.text for passage in passages) == 1


def test_mdoc_pages() -> None:
    page = (
        ".Dd May 1, 2026\n.Dt BUOY 1\n.Os\n.Sh NAME\n.Nm buoy\n.Nd ring a bell\n.Sh DESCRIPTION\n.Nm\nrings.\n"
        ".Bl -tag\n.It Fl q Ar minutes\nRing once and wait.\n.El\n"
    )
    document = read(bz2.compress(page.encode()), "buoy.1.bz2")
    assert document.text.split("\n\n")[1:] == [
        "buoy - ring a bell",
        "DESCRIPTION",
        "buoy rings.",
        "-q minutes\nRing once and wait.",
    ]
    assert document.title == "buoy(1)"


@pytest.mark.parametrize("name", ["messages.1.gz", "a.3pm.gz", "b.man"])
def test_other_files_with_such_names_are_read_as_they_are(name: str) -> None:
    log = "May 1 03:00:00 buoy: ring\n"
    document = read(gzip.compress(log.encode()) if name.endswith("gz") else log, name)
    assert (document.text, document.format) == (log, "code")


BROKEN = (".TH X 1\n.de A\n", ".TH X 1\n.if n \\{\\\n", ".TH X 1\n\\", ".TH\n.SH\n.TP\n.IP\n.It\nx")


@pytest.mark.parametrize("page", BROKEN)
def test_broken_and_huge_pages_are_read_in_linear_time(page: str) -> None:
    huge = "\\f[" * 100_000 + "\n" + ".TP\n" * 20_000 + 'B "' * 20_000 + "\nword" * 300_000
    document = read(f"{page}\n..\n.\\}}\n{huge}\nend", "b.man", max_seconds=30)
    assert document.text.endswith("word end")
