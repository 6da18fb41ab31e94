from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared_core.citation import SentenceSplitter, split_sentences
from shared_core.citation.sentences import ends_sentence

DATA = Path(__file__).parents[2] / "../shared/data"


def pieces(text: str) -> list[str]:
    return [text[start:end] for start, end in split_sentences(text)]


@pytest.mark.parametrize("marked", [
    "Dr. Smith went to Washington.|He arrived at 3.5 p.m. on Monday.|He left.",
    "J. K. Rowling wrote it.|She lives in the U.S. with J.-P. Sartre.|The end.",
    "The U.S. Senate met.|It moved to the U.S.|The vote failed.",
    "It cost $3.50.|Then no. 5 won 1,000.25 points.|Version 2.0.1 is out.",
    "Wait... what?|Yes…|No!|Really?!|Well . . .|He went.", 'He said "Stop!"|Then he left.|(See fig. 2.)|Next.',
    'The article "Why?" appeared.|“I am here.”|He nodded.',
    "Acme Inc. was sold to Foo Ltd. in May.|He was ill.|Doctors came.",
    "Mr. and Mrs. Smith met Prof. Jones, Ph.D.|They talked.", "see e.g. Smith et al. 2003.|Next comes p. 12.",
    "Petra answers (ext. 4417).|She is in rm. 12.",
    "The gauge shows 3.40 m.|Life jackets are worn.|Add 5 g.|Stir it.|Turn to 5 b. 1923 is written there.",
    "Es ist vom 15. Mai bis 30. September offen.|Er starb 2012.|Mai war es.",
    "It was 5 a.m. Monday when e. Cummings wrote it.", "He left.[1]|She stayed.[2][3]|Done.",
    "It is at www.example.com today.|Write to a.b@c.org.|Thanks.",
    "Table 8. Oil of the lamps.| Fog is left out.|\nFig. 2. The pier.| We sat at table 4.| See Box 3.| It is old.",
    "1. First item.|\n2. Second item.|\n  a) third|\n- fourth|\n• fifth",
    "T1. Chicken €14|\nT12. Pork €15|\nIt is in room T1.| Ask there.",
    "A Heading|\n\nSome text here.|\n\n## Another|\nMore text.",
    "2024-01-02 10:15:02 WARN disk is full|\n2024-01-02 10:15:09 INFO retry\n\tat line 7|\n2024-01-02 10:16:00 INFO ok",
    ":Author: Ida|\n:Address: Quay Street 12\n          5003 Bergen|\n:Version: 4.2",
    "It starts.|\n\n  :param speed: in percent of the\n    Maximum|\n  :returns: the number",
    "Dec 10 06:55:46 host sshd[2]: check pass|\nDec 10 06:55:48 host sshd[2]: closed [preauth]",
    '9.9.9.9 - - [10/Oct/2000:13:55:36] "GET /a" 200|\n9.9.9.9 - - [10/Oct/2000:13:55:37] "GET /b" 404',
    '{"level": "info", "at": 3}|\n{"level": "warn", "at": 4}', "<anna> hi all|\n<ben> hello",
    "db:\n  image: postgres|\n  ports:\n    - 5432|\nweb:\n  image: nginx|\n  ports:\n    - 8080",
    'http {\n  timeout 65;|\n  server {\n    listen 443 ssl;|\n    name a.org;\n  }\n}',
    '{\n  "info": {\n    "title": "Pets",|\n    "version": "1.2"\n  },|\n  "url": "http://a.org"\n}',
    '{\n"a b":{\n"c":"d",|\n"e":1\n}\n}',
    ":::note|\niPhones are banned.|\n:::", "!!! warning|\n    iPhones are banned.",
    "It is agreed as\nfollows: the tenant pays, and the landlord, who lives\nabove, repairs.",
    "rope >= 2.16|\nchain|\nwinch >= 2.30 (from the yard's workshop, which\n  is closed now)|\noars, paddles|\nbuoy",
    f"rope|\noar|\nbuoy|\nwinch|\n{'x' * 80}\n",
    "3 eggs|\n200 g flour|\n1 l milk|\na pinch of salt|\nbutter for the pan",
    "The router has four ports,\nof which one is for the modem\nand three are for computers,\nso plug it\nin.",
    "Libraries made by third parties must support the current version\n(7) to work.", "(1) Open it.|\n(2) Close it.",
    "Available since Rope 1.4.|\nbrowse\tshows the graph",
    "Available since Rope 1.4.|\nbrowse|\n\nshows the graph",
    "Setext heading\n==============|\nText under it goes here.",
    "Introduction|\nThis paragraph is one long line, as in most files, and longer than a heading.",
    "A paragraph that an editor wrapped at sixty or seventy columns, as the\nOld Testament was, stays.| Next.",
    "One.|\r\n\r\nTwo\r\nthree.|\u2029Four.", "Price:\u00a05.|\u00a0Next\u00a0one.",
    "你好。|你好吗？|「我很好。」|他说！", "彼は「はい。」と言った。|次です｡|終わり", "مرحبا؟|كيف حالك؟|نعم.|لا",
    "یہ ہے۔|وہ ہے۔", "यह है।|वह है॥|अंत", "Բարև։|Ցտեսություն։", "¿Qué?|¡Nada!|Bien.", "Smile 😀.|🎉 Party!|End", "x",
    "",
])  # fmt: skip
def test_boundaries(marked: str) -> None:
    expected = [part.strip() for part in marked.split("|") if part.strip()]
    text = " ".join(marked.split("|")) if "\n" not in marked and "。" not in marked else marked.replace("|", "")
    assert pieces(text) == expected


def test_blank_text_has_no_sentences() -> None:
    assert split_sentences(" \n\t\u00a0\u3000\r\n") == []


_ALPHABET = st.one_of(
    st.sampled_from(list(".!?…。؟ \n\r\t\u00a0\u3000\u2029\"'”)]#-*1Aaé你🎉\u0301\u200b\u202e")),
    st.characters(exclude_categories=["Cs"]),
)


@settings(max_examples=400, deadline=None, derandomize=True)
@given(st.text(_ALPHABET, max_size=80))
def test_spans_partition_what_is_not_white_space(text: str) -> None:
    last = 0
    for start, end in split_sentences(text):
        assert last <= start < end <= len(text)
        assert not text[last:start].strip()
        assert text[start:end] == text[start:end].strip()
        last = end
    assert not text[last:].strip()


UNITS = [
    ".", ". ", '."', "\n", "a\n", " ", "[1]", ".[1", "A. ", "a", "#", "\r\n", " ## ", ". .", "“", "- \n", "。", "1.",
    "a: b\n", "12:00 a\n", '{"', "a;\n", "{\n",
]  # fmt: skip


@pytest.mark.parametrize("unit", UNITS)
def test_adversarial_input_takes_linear_work(unit: str) -> None:
    # Quadratic work on so many characters would not end within the run.
    text = unit * (100_000 // len(unit))
    spans = split_sentences(text)
    assert sum(end - start for start, end in spans) <= len(text)


def test_a_splitter_is_any_callable() -> None:
    def whole(text: str) -> list[tuple[int, int]]:
        return [(0, len(text))] if text else []

    splitters: list[SentenceSplitter] = [whole, split_sentences]
    assert [s("One. Two.") for s in splitters] == [[(0, 9)], [(0, 4), (5, 9)]]


def hotpotqa() -> Iterator[tuple[str, list[str]]]:
    for question in json.loads((DATA / "rag/hotpotqa_train.json").read_text("utf-8")):
        for _, sentences in question["context"]:
            yield "".join(sentences), [s for s in sentences if s.strip()]


def wice() -> Iterator[tuple[str, list[str]]]:
    with gzip.open(DATA / "sentences/wice_dev.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            sentences = [s.strip() for s in json.loads(line)["sentences"] if s.strip()]
            yield " ".join(sentences), sentences


def boundary_f1(documents: Iterator[tuple[str, list[str]]]) -> float:
    """F1 of the ends of all sentences but each document's last (which no splitter can miss)."""
    hits = predicted = gold = 0
    for text, sentences in documents:
        ends, at = [], 0
        for sentence in sentences:
            at = text.index(sentence, at) + len(sentence)
            ends.append(len(text[:at].rstrip()))
        truth, found = set(ends[:-1]), {end for _, end in split_sentences(text)[:-1]}
        hits, predicted, gold = hits + len(truth & found), predicted + len(found), gold + len(truth)
    return 2 * hits / (predicted + gold)


@pytest.mark.data
@pytest.mark.skipif(not DATA.exists(), reason="needs the development data")
def test_boundary_f1_on_gold_sentences() -> None:
    assert boundary_f1(hotpotqa()) >= 0.98
    # Web pages with headings and menu items joined by spaces: half the ends carry no punctuation at all.
    assert boundary_f1(wice()) >= 0.65


def test_a_sentence_as_long_as_a_page_is_cut_at_its_semicolons() -> None:
    clauses = [
        f"the tenant of house number {i} shall keep the stairs clean, dry and free of ice in winter" for i in range(8)
    ]
    text = f"It is agreed: {'; '.join(clauses)}."
    found = [text[a:b] for a, b in split_sentences(text)]
    assert len(found) == 8
    assert all(part.endswith((";", ".")) for part in found)
    assert " ".join(found) == text


def test_a_long_row_of_named_cells_is_one_quote_and_its_part_would_not_say_of_what_it_is() -> None:
    names = "Employee,Department,Job title,Location,Manager,Telephone,Mobile,Contract,Weekly hours,Annual leave,Locker"
    row = "; ".join(f"{name}: {'value ' * 6}{i}" for i, name in enumerate(names.split(",")))
    assert len(row) > 400
    assert split_sentences(row) == [(0, len(row))]
    too_long = "; ".join([row, row.replace("Employee", "Deputy")])
    assert len(split_sentences(too_long)) > 5


def test_rows_whose_first_cell_has_no_name_are_one_sentence_each() -> None:
    rows = [
        "Hot lunch; Primary: £2.60; Secondary: £3.10",
        "Sandwich; Primary: £1.90; Secondary: £2.20",
        "Evenings are dearer, but for staff of the school",
        "Breakfast club; Secondary: £1.50",
    ]
    assert pieces("\n".join(rows)) == rows


STANDS, LIT = "The lamp stands on the tower of the old town hall of Vessen.", "It is lit when the ferry is late."


@pytest.mark.parametrize("row", [
    f"Name: Norrhaven; Range: 14; Remarks: {STANDS} {LIT}; Fee: 15 a year",
    f"Norrhaven; Range: 14; Remarks: {STANDS} {LIT[:-1]}; Fee: 15 a year",
    "N05\tSt. Olaf No. Two Ltd. Pier\t2.00\tEA.", "N05\tUS. Pier of Salt\t2.00",
    "N05\tYes. Of stone.\tNo.\tPerhaps. Ask.",
])  # fmt: skip
def test_a_full_stop_in_a_cell_does_not_part_the_cells_behind_it_from_their_row(row: str) -> None:
    assert pieces(f"{row}\n{row}") == [row, row]
    assert pieces(f"It is listed.\n\n{row}\n\nAsk. Then go.") == ["It is listed.", row, "Ask.", "Then go."]


@pytest.mark.parametrize("parts", [
    (f"Name: Norrhaven; Range: 14; Remarks: {STANDS}", LIT),  # nothing is behind it
    (f"Name: Norrhaven; Range: 14; Remarks: {STANDS}", LIT, STANDS, LIT, f"{STANDS}; Fee: 15"),  # prose
    (STANDS, f"{LIT[:-1]} (see Isaiah 7: 14; Luke 6: 20; John 3: 16), and then everybody sees it from afar.", STANDS),
    ("Lamp\tIt is lit.", "It is out."),
])  # fmt: skip
def test_sentences_in_long_cells_and_beside_few_tabs_are_cut(parts: tuple[str, ...]) -> None:
    assert pieces(" ".join(parts)) == list(parts)


def test_short_sentences_and_stumps_are_not_cut_at_semicolons() -> None:
    short = "The lamp was lit; the ship came in; nobody slept."
    assert split_sentences(short) == [(0, len(short))]
    listed = "The parts are " + "; ".join(["a nut", "a bolt"] * 30) + "."
    assert all(b - a > 50 for a, b in split_sentences(listed))
    assert ends_sentence(f"{'x' * 390} alpha; {'y' * 70}.")


def test_initials_of_a_name_at_the_head_of_a_line_begin_no_item() -> None:
    text = (
        "The resulting units may be called binary digits, or more briefly bits, a word suggested by\n"
        "J. W. Tukey. A device with two stable positions can store one bit of information, and two can store two."
    )
    assert [text[a:b].split()[-1] for a, b in split_sentences(text)] == ["Tukey.", "two."]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("North hall, 1st floor, 101, two-room double, first year\nNorth hall, 1st floor, 102, warden", 2),
        ("Pier 4, berth 12, 9 m, let to Ida Berg\nPier 4, berth 13, 11 m, let to Jo Wu until the end of May", 2),
        ("In Sund, as the keeper of the lamp had said, the boats were\nIn Sund, as anywhere else they are, let", 1),
        ("They saw the harbour, the hall, the lamp and, as the tide\nallowed it, the sands, the pier, the mole.", 1),
    ],
)
def test_records_of_one_group_are_lines_of_their_own(text: str, count: int) -> None:
    assert len(split_sentences(text)) == count
