"""PDFs: what fonts give out for hyphens, spaces and bullets, and what is seen on the page."""

from __future__ import annotations

import pytest

from tests.documents.pdf_files import At, from_streams, lines, pdf
from tests.documents.reading import headings, read

LETTERS = "abcdefghijklmnopqrstuvwxyz "


def mapped(content: bytes, codes: dict[int, str]) -> bytes:
    """A PDF of one page whose font maps ``codes`` to Unicode, and small letters to themselves."""
    rows = {**{ord(c): c for c in LETTERS}, **codes}
    listed = b"\n".join(b"<%02x> <%s>" % (c, to.encode("utf-16-be").hex().encode()) for c, to in rows.items())
    table = (
        b"/CIDInit /ProcSet findresource begin begincmap 1 begincodespacerange <00> <ff> endcodespacerange "
        b"%d beginbfchar %s endbfchar endcmap end" % (len(rows), listed)
    )
    objects = [
        b"<< /Length %d >> stream\n%s\nendstream" % (len(table), table),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding /ToUnicode 5 0 R >>",
    ]
    return from_streams([content], objects=objects, fonts=b"/F2 6 0 R")


def shown(*parts: bytes) -> bytes:
    """Lines of text, 20 points apart."""
    return b"BT /F2 12 Tf 60 700 Td %s ET" % b" 0 -20 Td ".join(parts)


@pytest.mark.parametrize("sign", ["\xad", "-\u2010", "-\u2011"])
def test_hyphens_within_a_line_are_seen_whatever_their_font_gives_out(sign: str) -> None:
    text = read(
        mapped(shown(b"(two~room flats are let by the week) Tj", b"(in may) Tj"), {ord("~"): sign}), "a.pdf"
    ).text
    assert "two-room flats" in text


def test_a_soft_hyphen_still_divides_a_word_at_the_end_of_a_line() -> None:
    parts = b"(all of the keepers of the light~) Tj", b"(house were paid in salt) Tj"
    assert "lighthouse were" in " ".join(read(mapped(shown(*parts), {ord("~"): "\xad"}), "a.pdf").text.split())


def test_what_has_no_width_parts_words_where_a_space_is_seen() -> None:
    seen = b"[(they get two~) 300 (free keys)] TJ", b"[(a sand~) 580 (bank)] TJ"
    found = read(mapped(shown(*seen), {ord("~"): "\u200b"}), "a.pdf").text
    assert "two free keys" in found
    assert "sandbank" in found


def test_bullets_of_fonts_of_signs_are_bullets() -> None:
    codes = {0xA1: "\uf076", 0xA2: "q\uf071", 0xA3: "\xa7\uf0a7"}
    parts = (b"(\241 bring a lamp) Tj", b"(\242 bring a rope) Tj", b"(\243 bring some oil) Tj", b"(keep quiet) Tj")
    text = read(mapped(shown(*parts), codes), "a.pdf").text
    assert text.splitlines()[:3] == ["• bring a lamp", "• bring a rope", "▪ bring some oil"]


def test_other_letters_before_signs_stay() -> None:
    text = read(mapped(shown(b"(see key a\241 below) Tj"), {0xA1: "\uf0fc"}), "a.pdf").text
    assert text.startswith("see key a")


HEAD = "Harbour questions and answers"


PIERS = "Arle", "Sund", "Vessen", "Tarn"


def page(pier: str, head: str = HEAD) -> list[At]:
    """A page with a head in large letters, close above text that goes on from the page before."""
    said = [f"and so the boats of {pier} have to leave the harbour before the tide", "turns. It is the rule."]
    asked = [(60.0, 600.0, 13.0, f"When may boats of {pier} come back?")]
    return [(60, 740, 18, head), *lines(said, top=712), *asked, *lines([f"{pier} is open at noon, but not"], top=580)]


def test_a_head_in_large_letters_on_all_pages_stays_on_the_first_only() -> None:
    document = read(pdf([page(pier) for pier in PIERS]), "a.pdf")
    assert document.text.count(HEAD) == 1
    assert document.text.startswith(HEAD)
    assert "but not\nand so the boats of Sund" in document.text
    assert (2, HEAD) not in headings(document)[1:]


@pytest.mark.parametrize("heads", [[HEAD, HEAD, "Moorings", "Fees"], [HEAD, HEAD], [f"{HEAD} {n}" for n in range(4)]])
def test_titles_of_slides_stay(heads: list[str]) -> None:
    text = read(pdf([page(pier, head) for pier, head in zip(PIERS, heads)]), "a.pdf").text
    assert all(text.count(head) >= heads.count(head) for head in heads)
