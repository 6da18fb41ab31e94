"""PDFs: words and spaces as they stand on the page, columns, divided words, pages; every bad file costs itself only."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from shared_core.documents.chunking import chunk_document
from shared_core.documents.loaders.extracted import Budget
from shared_core.documents.loaders.isolated import Helper
from shared_core.errors import DocumentError
from tests.documents.pdf_files import At, endless, from_streams, huge, lines, outlined, pdf
from tests.documents.reading import headings, made_by, read, refuses

LEFT = [
    "The harbour was dug in eighteen hundred and four by",
    "three hundred men who were paid in salt and who",
    "lived in tents behind the dunes until the winter",
    "came and the work was stopped for four months and",
    "taken up again when the ice had gone out to sea.",
]
RIGHT = [
    "The lighthouse was built later and of better stone",
    "which came from the island in flat boats that the",
    "keepers had hired from the fishermen of the bay at",
    "a price of nine shillings for each load of stones",
    "that was brought ashore before the autumn storms.",
]


def test_pages_without_text_are_counted_and_have_none() -> None:
    document = read(pdf([[(60, 700, 12, "First page.")], [], [(60, 700, 12, "Third page.")]], title="Ports"), "a.pdf")
    assert document.text == "First page.\n\nThird page."
    assert [(page.number, document.text[page.start :].split()[0]) for page in document.pages] == [
        (1, "First"),
        (3, "Third"),
    ]
    assert document.title == "Ports"


def test_text_by_xetex_has_its_spaces_and_whole_words() -> None:
    document = made_by("xelatex_report.pdf")
    flowing = " ".join(document.text.split())
    assert "rapeseed oil and needed trimming every four hours. In 1871 it was replaced" in flowing
    assert "A dynamo driven by a diesel engine" in flowing
    assert headings(document) == [(1, "1 The lamps"), (2, "1.1 The change to electricity"), (1, "2 The fog signal")]
    assert document.title == "Keeping the Lights of Norrhaven"
    letters = [word for word in document.text.split() if word.isalpha()]
    assert max(map(len, letters)) < 15


def test_two_columns_by_tex_are_read_one_after_the_other_without_running_heads() -> None:
    document = made_by("pdflatex_two_columns.pdf")
    flowing = " ".join(document.text.split())
    assert "A commission of five inspectors was appointed; its final report was printed in September 1922" in flowing
    assert "No other undertaking of the period was financed in this way" in flowing  # on the next column
    assert "be lifted by forty-three centimetres." in flowing
    assert "Saltmere Canal Office" not in document.text
    assert "Page 1" not in document.text
    order = ["Why the locks were raised", "How the work was done", "What was found", "Effects"]
    assert [label[2:] for _, label in headings(document) if label[0].isdigit() and label[1] == " "] == order
    passages = chunk_document(document)
    assert not any("Contents" in passage.text for passage in passages)
    assert {passage.metadata["page"] for passage in passages} == {1, 2}


def test_a_document_of_a_word_processor() -> None:
    document = made_by("libreoffice_minutes.pdf")
    assert "confidential" not in document.text
    assert "Sheet" not in document.text
    assert headings(document) == [(1, "The dredger"), (2, "Soundings"), (1, "The lifeboat"), (1, "Other business")]
    assert "1 The invoice of the manufacturers" in document.text


def test_a_page_printed_by_a_browser() -> None:
    document = made_by("chromium_handbook.pdf")
    assert [label for _, label in headings(document)] == [
        "The Beekeeper's Year at Ostrand Abbey",
        "Spring",
        "Summer",
        "Autumn and winter",
    ]


def test_letters_placed_one_by_one_have_the_spaces_that_are_seen() -> None:
    text = made_by("groff_ferry.pdf").text
    assert "The ferry leaves the northern stage" in text
    assert "nineteen in the\nevening. On Sundays" in text
    assert "A foot passenger pays two farthings" in text


def test_columns_written_line_by_line_are_read_column_by_column() -> None:
    mixed = [at for pair in zip(lines(LEFT), lines(RIGHT, x=350), strict=True) for at in pair]
    text = read(pdf([mixed]), "a.pdf").text
    assert text == "\n".join(LEFT) + "\n\n" + "\n".join(RIGHT)


def test_tables_stay_row_by_row() -> None:
    table = [("Lamp", "Oil", "Range"), *((f"No. {i}", "Rapeseed", "far") for i in range(1, 9))]
    placed = [(60 + 150 * j, 700 - 14 * i, 10.0, cell) for i, row in enumerate(table) for j, cell in enumerate(row)]
    assert read(pdf([placed]), "a.pdf").text == "\n".join("\t".join(row) for row in table)


@pytest.mark.parametrize("turn", [0, 90, 270])
def test_turned_pages_are_read_in_order_and_stamps_last(turn: int) -> None:
    page = b"".join(
        b"BT /F1 12 Tf 0 1 -1 0 %d 50 Tm (%s) Tj ET " % (x, text)
        for x, text in ((100, b"First line of the page reads"), (114, b"on to the second."), (170, b"A new paragraph."))
    )
    document = read(from_streams([b"BT /F1 8 Tf 1 0 0 1 9 9 Tm (stamp) Tj ET " + page], rotate=turn), "a.pdf")
    assert document.text == "First line of the page reads\non to the second.\n\nA new paragraph.\n\nstamp"


def test_words_divided_at_a_lines_end_are_mended_by_the_documents_own_words() -> None:
    page = lines(
        [
            "The water-wheel turned and the com-",
            "mission met. The well-",
            "known miller saw the water-",
            "wheel stop in 1922-",
            "1923 when Jean-",
            "Paul came.",
        ]
    )
    text = " ".join(read(pdf([page]), "a.pdf").text.split())
    for words in (
        "the commission met.",
        "The well-known miller",
        "the water-wheel stop",
        "stop in 1922-1923 when",
        "Jean-Paul came",
    ):
        assert words in text


def test_paragraphs_are_told_by_distance_indent_and_size() -> None:
    first = ["The tide ran out for nine hours that night and", "left the boats upon the sand. They lay there."]
    page = [
        (60.0, 740.0, 18.0, "The Low Tide"),
        *lines(first, top=700),
        *lines(["   "], top=674),
        (80.0, 673.6, 11.0, "Then the water came back, faster than anyone"),
        (60.0, 660.4, 11.0, "had seen it come."),
        *lines(["A last word."], top=620),
    ]
    document = read(pdf([page]), "a.pdf")
    assert document.text.split("\n\n") == [
        "The Low Tide",
        "\n".join(first),
        "Then the water came back, faster than anyone\nhad seen it come.",
        "A last word.",
    ]
    assert headings(document) == [(1, "The Low Tide")]
    assert document.title == "The Low Tide"


def test_a_term_is_not_joined_to_the_definition_above_it() -> None:
    listed = [
        ("~/.bash_history", "The default value of HISTFILE, the file in which the shell saves the history"),
        ("~/.inputrc", "Individual initialisation file of the line editor, which is read at every start"),
        ("~/.profile", "The personal initialisation file, which is executed by login shells"),
    ]
    placed: list[At] = [
        (60, 740, 11, "The shell reads these files, of which the first is written by it too, as it ends.")
    ]
    for i, (term, definition) in enumerate(listed):
        placed += [(60, 714 - 26 * i, 11, term), (100, 701 - 26 * i, 11, definition)]
    document = read(pdf([placed]), "a.pdf")
    lines_ = document.text.replace("\n\n", "\n").split("\n")
    assert [line for pair in listed for line in pair] == lines_[1:]
    for _, definition in listed:  # each ends its paragraph: the next term is not read as its end
        assert definition in document.text.split("\n\n")


def test_a_sentence_of_an_item_is_cut_only_where_its_next_word_had_room() -> None:
    first = ["1.0.1. To define the process by which the clubs may become levy groups and the", "requirements for them."]
    second = "1.0.2. To say who is responsible for the money that was collected by all of those groups"
    items: list[At] = [(60, 700, 11, first[0]), (90, 686.8, 11, first[1]), (60, 673.6, 11, second)]
    assert read(pdf([items]), "a.pdf").text.split("\n\n") == ["\n".join(first), second]
    items[1] = (90, 686.8, 11, "by laws of the town.")
    assert read(pdf([items]), "a.pdf").text.split("\n\n") == [first[0], "by laws of the town.", second]


def test_an_indented_first_line_does_not_end_its_paragraph() -> None:
    indented = [(80.0 if i % 2 == 0 else 60.0, 700 - 13.2 * i, 11.0, line) for i, line in enumerate(LEFT[:4])]
    assert len(read(pdf([indented]), "a.pdf").text.split("\n\n")) <= 2


def test_repeated_heads_and_page_numbers_go_and_repeated_sentences_stay() -> None:
    pages = [
        [
            (60.0, 770.0, 9.0, f"The Tide Board {n}"),
            *lines([f"Note {n} of the keeper begins here and", "It rained."], top=700),
            (300.0, 40.0, 9.0, f"- {n} -"),
        ]
        for n in range(1, 6)
    ]
    document = read(pdf(pages), "a.pdf")
    assert "Tide Board" not in document.text
    assert "- 3 -" not in document.text
    assert document.text.count("It rained.") == 5


def test_a_head_of_several_lines_goes() -> None:
    head = ["Harbour Rules", "Number 7", "Last changed in May 1922"]
    pages = [
        [*lines(head, x=300, top=780), *lines([f"Rule {n} of the harbour begins here and", "It rained."], top=700)]
        for n in ("one", "two", "three", "four")
    ]
    text = read(pdf(pages), "a.pdf").text
    assert text.startswith("Rule one")
    assert not any(line in text for line in head)
    assert text.count("It rained.") == 4


def test_lines_alike_at_the_top_of_pages_stay_if_they_are_text_or_begin_chapters() -> None:
    body = [*lines(LEFT, top=680), *lines(RIGHT, top=560)]
    table = [[*lines(["Lamp and oil", "of the year"], top=693.2 + 13.2), *body] for _ in range(4)]
    text = read(pdf(table), "a.pdf").text
    assert text.count("Lamp and oil") == text.count("of the year") == 4
    chapters = [
        [*(lines([f"Chapter {n}", "[Adopted in 1922]"], top=740) if n % 5 == 1 else ()), *body] for n in range(1, 16)
    ]
    text = read(pdf(chapters), "b.pdf").text
    assert text.count("Chapter ") == text.count("[Adopted in 1922]") == 3


def test_a_sentence_over_a_pages_end_is_one_and_knows_both_pages() -> None:
    first = [*lines(LEFT[:4]), *lines(["The keeper of the lower lock was called to the"], top=640)]
    second = [
        *lines(["gate at midnight by the lock-master of the day.", "He went at once. The rain had stopped by then."])
    ]
    document = read(pdf([first, second]), "a.pdf")
    passages = chunk_document(document)
    crossing = [p for p in passages if "page_end" in p.metadata]
    assert [p.metadata["page"] for p in passages] == [1, 2]
    assert len(crossing) == 1
    passage = crossing[0]
    assert passage.text.endswith("was called to the\ngate at midnight by the lock-master of the day.")
    assert (passage.metadata["page"], passage.metadata["page_end"]) == (1, 2)
    assert passage.text[int(str(passage.metadata["page_break"])) :].startswith("gate at midnight")
    assert passages[1].text.startswith("He went at once.")


def test_bad_pdfs_are_refused_with_the_true_reason() -> None:
    whole = pdf([[(60, 700, 12, "One line of text.")]])
    assert "OCR" in refuses(pdf([[], []]), "b.pdf").hint
    for broken in (b"%PDF-1.7 not really", whole[:60], b"plain text", b"\x00" * 500):
        assert "damaged" in refuses(broken, "c.pdf").message


def test_protected_and_scanned_files_by_other_programs() -> None:
    with pytest.raises(DocumentError, match="password"):
        made_by("qpdf_password.pdf")
    assert "two farthings" in made_by("qpdf_owner.pdf").text  # protected against changes only
    with pytest.raises(DocumentError) as caught:
        made_by("ghostscript_scan.pdf")
    assert "OCR" in caught.value.hint


def test_a_file_that_keeps_the_parser_busy_is_given_up() -> None:
    error = refuses(huge(1_500_000), "a.pdf", max_seconds=0.3)
    assert "0.3 seconds" in error.message
    assert "--max-file-seconds" in error.hint


def test_a_file_that_fills_the_memory_costs_itself_only() -> None:
    bomb = endless()
    assert len(bomb) < 5_000
    error = refuses(bomb, "a.pdf", max_seconds=20)
    assert "memory" in error.message or "20 seconds" in error.message
    assert read(pdf([[(60, 700, 12, "Still here.")]]), "b.pdf").text == "Still here."


def test_a_page_of_damaged_marks_costs_that_page() -> None:
    unreadable = b"BT /F1 12 Tf 60 700 Td <0102030405060708> Tj ET"
    document = read(from_streams([unreadable, b"BT /F1 12 Tf 60 700 Td (Fine text here.) Tj ET"]), "a.pdf")
    assert document.text == "Fine text here."
    assert "page 1" in document.problems[0].message


def test_a_page_of_shapes_taken_for_letters_is_not_read_but_dotted_lines_are() -> None:
    shapes, dots = rb"\341\351\371 \361\341 \371\351\361a \341\371\351\361\341\351 b\371\351 " * 4, rb"\267 " * 20
    contents = b"BT /F1 12 Tf 60 700 Td (Contents of the book " + dots + b"1) Tj ET"
    document = read(from_streams([b"BT /F1 12 Tf 60 700 Td (" + shapes + b") Tj ET", contents]), "a.pdf")
    assert document.text.startswith("Contents of the book")
    assert [problem.message[:23] for problem in document.problems] == ["page 1 cannot be read: "]
    error = refuses(from_streams([b"BT /F1 12 Tf 60 700 Td (" + shapes + b") Tj ET"]), "a.pdf")
    assert "--force-ocr" in error.hint


# --- the process that reads them -----------------------------------------------------------------------------------

ECHO = "tests.documents.echo_helper"


def test_the_helper_starts_again_after_it_died_and_after_it_was_idle() -> None:
    helper = Helper(ECHO)
    assert helper.ask(b"hello", Budget(20))["length"] == 5
    first = helper.ask(b"", Budget(20))["process"]
    assert helper.ask(b"", Budget(20))["process"] == first  # one process for many files
    with pytest.raises(DocumentError, match="crashed"):
        helper.ask(b"die", Budget(20))
    with pytest.raises(DocumentError, match="seconds"):
        helper.ask(b"sleep", Budget(0.2))
    assert helper.ask(b"x" * 300_000, Budget(20))["length"] == 300_000
    process = helper.ask(b"leave", Budget(20))["process"]  # it goes after its answer, as an idle one does
    assert helper.ask(b"again", Budget(20))["process"] != process
    helper.close()


def test_the_helper_serves_threads_one_by_one() -> None:
    helper = Helper(ECHO)
    found: list[int] = []
    threads = [
        threading.Thread(target=lambda n=n: found.append(helper.ask(b"x" * n * 1000, Budget(30))["length"]))
        for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [n * 1000 for n in range(8)]
    helper.close()


def test_the_helper_ends_with_its_parent() -> None:
    code = (
        "from shared_core.documents.loaders.extracted import Budget\n"
        "from shared_core.documents.loaders.isolated import Helper\n"
        f"print(Helper({ECHO!r}).ask(b'', Budget())['process'], flush=True)\n"
        "import os; os._exit(1)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    pid = int(result.stdout)
    for _ in range(100):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        if _is_zombie(pid):
            return
        threading.Event().wait(0.05)
    pytest.fail("the helper is still there")


def _is_zombie(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().split(")")[-1].split()[0] == "Z"
    except OSError:
        return False


def test_raised_digits_are_no_part_of_the_number_before_them() -> None:
    def line(y: int, *parts: tuple[str, int]) -> str:
        shown = (f"{rise} Ts /F1 {7 if rise else 10} Tf ({text}) Tj" for text, rise in parts)
        return f"BT 1 0 0 1 60 {y} Tm {' '.join(shown)} ET"

    stream = [
        line(700, ("The lake holds 10", 0), ("6", 3), (" litres at 10", 0), ("-3", 3), (" bar.", 0)),
        line(660, ("The dam was built in 1932", 0), ("7", 5), (" by the Tarn company.", 0)),
        line(620, ("Out of H", 0), ("2", -2), ("O and U", 0), ("235", -2), (" come log", 0), ("10", -2), (" and 5", 0)),
    ]
    text = read(from_streams(["\n".join(stream).encode()]), "a.pdf").text
    assert "The lake holds 10⁶ litres at 10⁻³ bar." in text
    assert "The dam was built in 1932⁷ by the Tarn company." in text
    assert "Out of H2O and U235 come log10 and 5" in text  # behind letters, as people type it


def test_entries_of_the_outline_are_headings_though_their_marks_differ() -> None:
    entries = ["§ 60-440 Violations and penalties.", "§ 60-445 Appeals", "article 3 Newsracks"]
    texts = [
        "§ 60-440. Violations and penalties. [Amended 5-29-2013 STM]",
        "The fine is fifty dollars.",
        "§ 60-445. Appeals.",
        "An appeal must be filed within five days.",
        "ARTICLE 3. Newsracks",
        "A newsrack needs a registration.",
    ]
    document = read(outlined([(60, 700 - 40 * i, 11, text) for i, text in enumerate(texts)], entries), "a.pdf")
    labels = [heading.label for heading in document.headings]
    assert labels == ["§ 60-440. Violations and penalties.", "§ 60-445. Appeals.", "ARTICLE 3. Newsracks"]
    assert texts[0] in document.text
