"""Rows of tables and entries with codes: the one that is asked about is quoted, not its neighbour."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared_core.citation import split_sentences
from shared_core.support.options import entry_at, find_codes, find_options, find_variables, is_of_another, setting_at
from shared_core.types import Passage
from tests.reading.asking import chance, first, quotes, read

PUMPS = (
    "The pumps of the series.\n\n| Model | Flow rate | Head | Power | Weight |\n|---|---|---|---|---|\n"
    "| HX-40 | 3.2 m³/h | 6 m | 45 W | 2.6 kg |\n| HX-60 | 4.8 m³/h | 8 m | 85 W | 3.1 kg |\n"
    "| HX-80 | 7.1 m³/h | 11 m | 140 W | 4.4 kg |"
)
SHIPPING = (
    "We ship to these countries.\n\nCountry: Ireland; Carrier: An Post; Days: 4–6; Price: €8.50\n"
    "Country: Norway; Carrier: Posten; Days: 3–5; Price: €11.00\n"
    "Country: Spain; Carrier: Correos; Days: 4–7; Price: €7.20"
)
FAULTS = (
    "E1: blocked rotor. Switch off the power and turn the shaft with a screwdriver.\n"
    "E2: undervoltage. The supply is below 195 V.\n"
    "E4: dry running. The pump stops after 20 seconds, and starts again after ten minutes."
)

INSURANCE = (
    "Each month you see a deduction for medical insurance:\n\n* Employee-only medical coverage: $96.05\n"
    "* Employee-partner medical coverage: $197.27\n* Dental insurance: free"
)
FARES = (
    "Tickets\n\nAdults: €12\nStudents and seniors: €8\nChildren (6-15): €4\nUnder 6: free\n"
    "Family (2 adults, up to 3 children): €26"
)
DIVER = "- Meeting point: the pier\n- Depth: 40 m\n- Dogs: 2 at most"
STATIONS = "Table 1: Stations\nStation\tPassengers\tStaff\nEllum\t1,240\t6\nDorby\t310\t2\nUpper Dorby\t95\t0"
MOORING = "Application\n\nName:\tGerda Lohm\nName of boat:\tSilver Wren\nLength:\t9.4 m"
MEALS = "Meals\n\nHot lunch; Pupils: £2.60; Staff: £3.10\nSandwich; Pupils: £1.90; Staff: £2.20"
STOCK = (
    "Article: Anchor; Store: North; Count: 34; Last counted: 12 January\nArticle: Anchor; Store: South; Count: 12\n"
    "Article: Buoy; Store: South; Count: 3; Last counted: 9 May"
)
BILLS = "Average bill\n\nFixed rate; 2022: 598; 2023: 641\nNight rate; 2022: 612; 2023: –"
TARIFFS = (
    "Tariff: Standard; Rate: 24.50 p; Exit fee: none; Contract: rolling\n"
    "Tariff: Fixed; Rate: 22.95 p; Exit fee: £75; Contract: 12 months\n"
    "Tariff: Night; Rate: 13.20 p; Exit fee: £50; Contract: 24 months"
)
BUDGET = "Item: Salaries; Budget 2023: $240,000; Share of total: 76%\nItem: Travel; Budget 2023: $75,000"
CRATES = "Prices\n\nItem             Small    Large\nCrate            14.00    22.00\nCrate of pine     9.50    15.00"


@pytest.mark.parametrize(
    ("text", "question", "quote"),
    [
        (PUMPS, "What is the weight of the HX-60?", "| HX-60 |"),
        (PUMPS, "What is the flow rate of the HX-80?", "| HX-80 |"),
        (SHIPPING, "What is the price for Spain?", "Country: Spain;"),
        (SHIPPING, "Which carrier delivers to Ireland?", "Country: Ireland;"),
        (FAULTS, "What happens at fault E4?", "The pump stops"),
        (FAULTS, "What should I do about E1?", "Switch off the power"),
        (FAULTS, "what does the pump do at E4", "The pump stops"),
        (FAULTS, "What does E2 mean?", "E2: undervoltage."),
        (INSURANCE, "payroll deduction medical employee + partner", "* Employee-partner"),
        (INSURANCE, "Is the dental insurance free?", "* Dental"),
        (FARES, "How much is a ticket for students?", "Students"),
        (FARES, "What does a family ticket cost?", "Family"),
        (FARES.replace("\n", "\n- "), "How much is a ticket for students?", "- Students"),
        (FARES.replace("\n", "\n- ").replace("Students", "**Students**"), "What do students pay?", "- **Students**"),
        (STATIONS, "How many staff does Upper Dorby have?", "Upper Dorby"),
        (MOORING, "What is the name of the boat?", "Name of boat"),
        (CRATES, "What is the large price of a crate of pine?", "Crate of pine"),
        (MEALS, "price of a sandwich for staff", "Sandwich;"),
        (STOCK, "How many anchors are in the south store?", "Article: Anchor; Store: South;"),
        (STOCK, "When was the anchor last counted in the south store?", "Article: Anchor; Store: South;"),
    ],
)
def test_the_row_or_entry_asked_about_is_quoted(text: str, question: str, quote: str) -> None:
    found = read(question, text).readings[0].quote
    assert found.text.startswith(quote)
    assert text[found.start : found.end] == found.text


def page(text: str, title: str, section: str = "") -> Passage:
    return Passage(f"{title} {text[:9]}", text, title, {"source": title, "section": section})


SORT = page("-z, --zero-terminated\nline delimiter is NUL, not newline", "sort(1)", "OPTIONS > -z, --zero-terminated")
GREP = page(
    "Output a zero byte instead of a newline. This option can be used with commands like sort -z to process arbitrary "
    "file names.",
    "grep(1)",
    "OPTIONS > -Z, --null",
)
XARGS = [
    page("Some commands can usefully be executed in parallel too; see the -P option.", "xargs(1)", "DESCRIPTION"),
    page(
        "-P max-procs, --max-procs=max-procs\nRun up to max-procs processes at a time; the default is 1. While xargs "
        "is running, you can send its process a SIGUSR1 signal to increase the number of commands to run.",
        "xargs(1)",
        "OPTIONS > -P max-procs, --max-procs=max-procs",
    ),
]
VARIABLES = page(
    "* `$BOOT_REMOUNT_ROOT=1` — if set and no entry for the root directory exists in `/etc/fstab` (this file always "
    "takes precedence), then the root directory is remounted writable.\n\n"
    "* `$BOOT_FSTAB` — if set, use this path instead of `/etc/fstab`. Only useful\n  for debugging.",
    "Variables",
)


@pytest.mark.parametrize(
    ("passages", "question", "quote"),
    [
        ([GREP, SORT], "What does -z do in sort?", "-z, --zero-terminated"),
        (XARGS, "What does -P do in xargs?", "Run up to"),
        (XARGS, "What does xargs -P do?", "Run up to"),
        ([VARIABLES], "What does BOOT_FSTAB do?", "* `$BOOT_FSTAB`"),
    ],
)
def test_what_explains_a_name_comes_before_what_mentions_it(passages: list[Passage], question: str, quote: str) -> None:
    found = quotes(question, *passages)
    assert quote in found[0]
    assert not any("see the -P" in text or "like sort -z" in text for text in found)


def test_the_definition_of_an_option_asked_for_is_sure() -> None:
    sure = chance("What does -z do in sort?", SORT, GREP)
    assert sure > max(0.5, 2 * chance("What does -z do in sort on a Sunday?", SORT, GREP))


def test_what_a_heading_means_is_told_by_the_first_sentence_below_it() -> None:
    depfile = Passage("d", "depfile\nPath to an optional Makefile with more dependencies. It is read once.", "Manual",
                      {"section": "Rules > depfile", "source": "m.html", "start": 0})  # fmt: skip
    generator = Passage("g", "generator\nIf present, the depfile and the outputs are kept.", "Manual",
                        {"section": "Rules > generator", "source": "m.html", "start": 90})  # fmt: skip
    for question in ("What is depfile?", "What does depfile mean?"):
        assert quotes(question, generator, depfile)[0] == "Path to an optional Makefile with more dependencies."
        assert chance(question, generator, depfile) > 0.5
    assert chance("What is depfile?", depfile) > chance("How large is depfile?", depfile)


def manual(*sections: tuple[str, str]) -> list[Passage]:
    texts = [f"{heading}\n\n{text}" for heading, text in sections]
    return [
        Passage(heading, text, "Manual", {"section": heading, "source": f"{heading}.md", "start": 0})
        for (heading, _), text in zip(sections, texts, strict=True)
    ]


CODES = manual(
    ("Error code E0382", "A variable was used after it was moved elsewhere.\n\nlet y = x;"),
    ("Error code E0383", "Something was moved in part. It replaces E0382 in old reports."),
)
LIBRARIES = manual(
    ("Object Libraries", "add_library(<name> OBJECT [<source>...])\n\nIt compiles source files but links nothing."),
    ("Shared Libraries", "It is linked and loaded at runtime, unlike an object library."),
)
NEWS = [
    replace(news, id="news", metadata={**news.metadata, "section": "Release Notes > Object Libraries"})
    for news in manual(("Object Libraries", "* The object library of a project may now be linked to another one."))
]
LEVEL = manual(
    ("MAX_LEVEL", ".. versionadded:: 3.1\n\nThe level up to which messages are written to the log."),
    ("MIN_LEVEL", "Messages below it are left out, as MAX_LEVEL tells."),
)
DOCTESTS = manual(
    ("Error numbers", "```no_run,E0044\nextern { fn f<T>(x: T); }\n```"),
    ("Attributes", "no_run compiles your code but does not run it."),
)


@pytest.mark.parametrize(("passages", "question", "quote"), [
    (CODES, "What is E0382?", "A variable was used after it was moved elsewhere."),
    (CODES, "E0382", "A variable was used after it was moved elsewhere."),
    (CODES, "What does error E0382 mean?", "A variable was used after it was moved elsewhere."),
    (LIBRARIES, "What is an object library?", "It compiles source files but links nothing."),
    ([*NEWS, *LIBRARIES], "What is an object library?", "It compiles source files but links nothing."),
    (LEVEL, "What is MAX_LEVEL?", "The level up to which messages are written to the log."),
    (DOCTESTS, "What is no_run?", "no_run compiles your code but does not run it."),
])  # fmt: skip
def test_definitions_are_no_code(passages: list[Passage], question: str, quote: str) -> None:
    assert quotes(question, *passages)[0] == quote
    assert chance(question, *passages) > 0.5


def test_a_list_of_codes_is_not_ranked_before_what_explains_one() -> None:
    codes = [Passage(f"c{i}", "\n".join(f"E0{n}" for n in range(380 + i, 400)), "Error codes") for i in range(3)]
    scores = read("E0382", *codes, *CODES).passage_scores
    assert scores[3] == max(scores)


def test_the_words_of_an_option_are_no_title() -> None:
    tests = Passage("t", "They run unless an attribute says otherwise.", "Documentation tests")
    arguments = Passage("a", "--document-private-items: Show items\n\nIt includes all non-public items.", "Arguments")
    asked = "What does --document-private-items do?"
    assert chance(asked, tests, arguments) > 0.9 * chance(asked, arguments)


def test_terms_that_signs_alone_tell_apart_are_apart() -> None:
    names = {"!expr": "0", "expr && expr": "both", "-expr": "the negation"}
    passages = [
        Passage(term, f"{term}\nThe result is {value} here.", "Manual", {"section": term, "source": "m", "start": i})
        for i, (term, value) in enumerate(names.items())
    ]
    sure = {asked: chance(f"What does {asked} mean?", *passages) for asked in ("!expr", "expr / expr")}
    assert quotes("What does !expr mean?", *passages)[0] == "The result is 0 here."
    assert sure["expr / expr"] < 0.5 < sure["!expr"]


def test_an_option_that_the_command_does_not_have_is_less_sure_than_one_without_a_page() -> None:
    usage = page("sort [OPTION]... [FILE]...\n\nWrite sorted concatenation of all FILEs to standard output.", "sort(1)")
    assert chance("What does sort -Q do?", usage) < chance("What does sort do?", usage)
    other = page("-Q, --quote\nQuote names.", "ls(1)", "-Q, --quote")
    assert chance("What does sort -Q write?", usage, other) < 0.7 * chance("What does sort write?", usage, other)


def test_values_that_are_no_numbers_are_not_left_out_for_a_label() -> None:
    found = quotes("Where do we meet with our dogs?", DIVER)
    assert "- Meeting point: the pier" in found
    assert "- Depth: 40 m" not in found


@pytest.mark.parametrize(
    ("text", "empty", "filled"),
    [
        (
            STOCK,
            "When was the anchor last counted in the south store?",
            "When was the anchor last counted in the north store?",
        ),
        (
            BILLS,
            "What was the average bill in 2023 at the night rate?",
            "What was the average bill in 2023 at a fixed rate?",
        ),
    ],
)
def test_an_empty_cell_is_no_answer(text: str, empty: str, filled: str) -> None:
    assert max(reading.probability or 0 for reading in read(empty, text).readings) < 0.5 < chance(filled, text)


def test_a_table_cut_into_passages_is_one_table() -> None:
    rows = ["Operator: Gemm; Note: If input B is not constant, transB should be 1."]
    rows += [
        f"Operator: QLinear{name}; Note: All scales and zero points should be constant." for name in ("Mul", "Add")
    ]
    passages = [Passage(row[10:20], row, "Operators", {"source": "a.md"}) for row in rows]
    (quote,) = quotes("What is the note on the Gemm operator?", *passages)
    assert quote.startswith("Operator: Gemm;")


OPTIONS = [
    page("Type: integer\nDefault: 5\nRange: 0 to 20\nSince: 1.2", "Options", "max_retries"),
    page("Type: duration\nDefault: 30s\nSince: 1.0\n\nTime between two queries of the server.", "Options", "interval"),
]


@pytest.mark.parametrize(
    ("question", "quote"),
    [
        ("What is the default of max_retries?", "Default: 5"),
        ("What type is max_retries?", "Type: integer"),
        ("range of max_retries", "Range: 0 to 20"),
        ("Since which version is there max_retries?", "Since: 1.2"),
    ],
)
def test_what_asks_for_the_value_of_a_label_is_answered_by_its_line(question: str, quote: str) -> None:
    best, *others = quotes(question, OPTIONS[0])
    assert best == quote
    assert not any(":" in other for other in others)


def test_a_row_with_a_line_for_each_cell_is_one_quote() -> None:
    """As LangChain's CSVLoader writes it."""
    stock = STOCK.replace("South; Count: 12", "South; Count: 12; Last counted: ")
    lines = [row.replace("; ", "\n") for row in stock.split("\n")]
    records = [Passage(str(i), text, "", {"source": "stock.csv", "row": i}) for i, text in enumerate(lines)]
    assert quotes("How many anchors are in the south store?", *records)[0] == lines[1].strip()
    assert chance("When was the anchor last counted in the north store?", *records) > 0.5
    assert chance("When was the anchor last counted in the south store?", *records) < 0.2
    listed = Passage("a", lines[0], "", {"source": "stock.txt"})
    assert quotes("How many anchors are in the north store?", listed)[0] != lines[0]


def test_what_stands_below_another_key_is_not_said_of_the_one_asked_for() -> None:
    keys = [
        page("Type: string\nDefault: the host\n\nWhat to build for.", "Reference", "Keys > build.target"),
        page(
            "Type: path\nDefault: none\n\nThe default if none is given is a directory named target.",
            "Reference",
            "Keys > build.target-dir",
        ),
        page("The default of build.target is taken from the tool.", "Reference", "Overview"),
    ]
    found = quotes("What is the default of build.target?", *keys)
    assert "Default: the host" in found
    assert "The default of build.target is taken from the tool." in found
    assert not any(quote in keys[1].text for quote in found)
    assert any(quote in keys[1].text for quote in quotes("What is the default of build.target-dir?", *keys))


def test_the_value_of_a_label_that_a_list_lacks_is_not_that_of_another_label() -> None:
    found = quotes("What is the range of the interval?", *OPTIONS)
    assert not any(line in found for line in ("Type: duration", "Default: 30s", "Since: 1.0"))


def test_a_row_of_another_name_than_any_passage_has_is_no_answer() -> None:
    assert chance("What is the exit fee of the Night tariff?", TARIFFS) > 0.5
    assert chance("What is the exit fee of the Solar Plus tariff?", TARIFFS) < 0.1


def test_a_total_that_no_row_gives_is_not_one_row() -> None:
    assert chance("What is the total budget for 2023?", BUDGET) < 0.2
    assert chance("What is the travel budget for 2023?", BUDGET) > 0.5
    total = f"{BUDGET}\nItem: Total; Budget 2023: $315,000; Share of total: 100%"
    assert quotes("What is the total budget for 2023?", total)[0].startswith("Item: Total;")


def test_the_row_that_is_named_comes_before_one_with_the_number_asked_for() -> None:
    towns = "Town: Ellum; Inhabitants: 232; Opened: 1999\nTown: Dorby; Inhabitants: 74; Opened: 2010"
    assert not any("Dorby" in quote for quote in quotes("How many inhabitants did Ellum have in 2010?", towns))


def test_prose_behind_a_label_does_not_stand_for_what_other_labels_name() -> None:
    form = "Hire period\t1 May to 30 September\nDeposit\t£1,200, returned within 14 days of the end of the hire"
    assert any(quote.startswith("Hire period") for quote in quotes("When does the hire end?", form))


def test_a_label_that_only_names_the_subject_leaves_the_other_lines() -> None:
    assert "- Depth: 40 m" in quotes("How deep can we go below the meeting point?", DIVER)
    assert "- Dogs: 2 at most" in quotes("Where is the meeting point for dogs?", DIVER)


LEASE = page(
    "2. The tenant pays a rent of 940 pounds a month, unless clause 5 applies.\n\n"
    "3. The tenant shall not sublet the workshop. He may share it.\n\n"
    "5. If the roof leaks, the rent is 700 pounds.\n\n5.1 The landlord repairs the roof in a month.",
    "Lease",
)
ACT = [
    page("A ship that carries oil shall not enter without a pilot. Article 4 applies.", "Act", "Act > Article 2"),
    page("A fine of 2,000 pounds is due for each breach of Article 2.", "Act", "Act > Article 4"),
    page("§ 7 Dogs are not allowed on the quays.\n\n§ 8 Cats are allowed, except as stated in § 7.", "Act", "Act"),
]


@pytest.mark.parametrize(
    ("passages", "question", "quote"),
    [
        ([LEASE], "What does clause 5 say?", "5. If the roof leaks"),
        ([LEASE], "What does clause 3 of the lease say?", "3. The tenant shall not"),
        ([LEASE], "What does clause 5 of the lease say about the landlord?", "5.1 The landlord repairs"),
        (ACT, "What does Article 4 say?", "A fine of 2,000 pounds"),
        (ACT, "What does § 7 say?", "§ 7 Dogs are not allowed"),
        (ACT, "Which fine is due for a breach of Article 2?", "A fine of 2,000 pounds"),
    ],
)
def test_what_a_clause_says_is_not_what_refers_to_it(passages: list[Passage], question: str, quote: str) -> None:
    text, sure = first(question, *passages)
    assert text.startswith(quote)
    assert sure > 0.3


@given(st.text(alphabet="-aA_:;| `\n", max_size=60), st.integers(0, 60))
def test_any_place_of_any_text_may_explain_names(text: str, place: int) -> None:
    start, names = entry_at(text, place)
    assert start <= place
    assert names <= {*find_options(text), *find_variables(text)}


def test_a_name_that_no_row_has_leaves_all_rows() -> None:
    assert sum(quote.startswith("Country: ") for quote in quotes("What is the price for Portugal?", SHIPPING)) == 3


def test_settings_of_another_section_are_not_the_answer() -> None:
    text = (
        "[server]\nhost = 0.0.0.0\nport = 8080\ntimeout = 30\n\n"
        "[database]\nhost = db.example.org\nport = 5432\ntimeout = 600\npool_size = 12\n"
    )
    noted = text.replace("[server]", "; of the office\n[server]").replace("host = db", "; the master\nhost = db")
    for file in (text, noted):
        assert quotes("What is the database timeout?", file) == ["timeout = 600"]
    assert len(quotes("What is the timeout?", text)) == 2  # nothing tells which


NESTED = """\
log_level: warning
database:
  host: db.example
  port: 5432
  pool:
    maxIdle: 15
server:
  port: 8080
  timeout: 12
"""


@pytest.mark.parametrize(
    ("question", "quote"),
    [
        ("What is the port of the database?", "port: 5432"),
        ("What is the port of the server?", "server:\n  port: 8080"),
        ("What is the log level?", "log_level: warning"),
        ("What is the max idle of the database pool?", "pool:\n    maxIdle: 15"),
    ],
)
def test_a_setting_is_read_with_the_blocks_around_it(question: str, quote: str) -> None:
    best = read(question, NESTED).readings[0]
    assert best.quote.text == NESTED[best.quote.start : best.quote.end] == quote
    assert (best.probability or 0) > 0.6


def test_a_setting_below_a_name_does_not_tell_what_the_name_means() -> None:
    text = "YAML\nwinch:\n  jib:\n    enabled: true\n    ..."
    assert chance("What is Jib?", text) < 0.5


@pytest.mark.parametrize("question", ["What is the timeout of the database?", "What is the host of the server?"])
def test_a_setting_of_another_block_is_no_answer(question: str) -> None:
    assert all((reading.probability or 0) < 0.2 for reading in read(question, NESTED).readings)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("jobs:\n- name: lint\n  steps:\n  - run: ruff", ("jobs", "lint", "steps", "run")),
        ('{\n  "a": {\n    "b": 1', ("a", "b")),
        ("http {\n  location /api/ {\n    expires 30d;", ("http", "location", "/api/", "expires")),
        ("- job_name: node\n  interval: 60s", ("job", "node", "interval")),
        ("[Service]\nUser=tide", ("Service", "User")),
        ("# server:\n  port: 1", ("port",)),
        ("The port is open.\nIt is big.\nNote: closed", None),
    ],
)
def test_names_of_settings(text: str, path: tuple[str, ...] | None) -> None:
    assert setting_at(text, len(text) - 1) == path


@given(st.text(alphabet='a:-= [{\n"}];', max_size=60), st.integers(0, 60))
def test_any_place_of_any_text_may_be_a_setting(text: str, place: int) -> None:
    path = setting_at(text, place)
    assert path is None or len(path) >= 1


def test_rows_of_fields_are_sentences_of_their_own() -> None:
    rows = [SHIPPING[a:b] for a, b in split_sentences(SHIPPING)]
    assert [row.partition(";")[0] for row in rows[1:]] == ["Country: Ireland", "Country: Norway", "Country: Spain"]
    wrapped = "The station of Ellisk: it was opened in 1921\nand closed in 1947."
    assert len(split_sentences(wrapped)) == 1


@pytest.mark.parametrize(("text", "codes"), [
    ("the HX-60 and E4", ["HX-60", "E4"]), ("COVID-19, MP3, B-52.", ["COVID-19", "MP3", "B-52"]),
    ("in the 21st century, 5km, 1990s, 3.5 kg", []),
])  # fmt: skip
def test_codes(text: str, codes: list[str]) -> None:
    assert find_codes(text) == codes


def test_prose_about_another_code_is_not_left_out() -> None:
    text = "The F-4 was replaced by the F-16 in 1989."
    assert not is_of_another({"F-16"}, text, 0, len(text))
    assert not is_of_another({"F-16"}, "The F-4 was heavy.", 0, 18)


@given(st.text(alphabet="aE1-: |\n;", max_size=60), st.integers(0, 60), st.integers(0, 60))
def test_any_place_of_any_text_can_be_asked_about(text: str, start: int, end: int) -> None:
    assert is_of_another({"E1"}, text, min(start, end), max(start, end)) in (True, False)


def test_a_line_of_usage_does_not_tell_what_an_option_does() -> None:
    usage = page(
        "gather lists [--filter=TEXT] [--limit=LIMIT] [--sort-by=FIELD]\n\nLists are printed in the order of names.",
        "gather(1)",
        "SYNOPSIS",
    )
    assert not any("--filter" in quote for quote in quotes("What does gather --sort-by do?", usage))
    assert any("--filter" in quote for quote in quotes("How is gather called?", usage))


def test_an_option_that_the_command_does_not_have_is_not_explained_by_its_name() -> None:
    name = page("gather beta lists - list the lists that were gathered", "gather_beta_lists(1)", "NAME")
    assert chance("What does gather_beta_lists -q do?", name) < 0.3 < chance("What does gather_beta_lists do?", name)


def test_a_surer_definition_comes_first() -> None:
    depth = manual(("Depth", "How far a hull reaches below water."))
    others = manual(*((name, f"Depth is what the {name.lower()} of a hull adds to.") for name in ("Draught", "Keel")))
    found = read("What is depth?", *others, *depth).readings
    assert found[0].quote.text == "How far a hull reaches below water."
    assert (found[0].probability or 0) > max(0.5, *(other.probability or 0 for other in found[1:]))
