"""Questions for a default: the statement below the setting that is named, not that of a neighbour."""

from __future__ import annotations

import pytest

from shared_core.types import Passage
from tests.reading.asking import chance, first, quotes


def entry(name: str, text: str, source: str = "winch.rst", above: str = "Settings") -> Passage:
    return Passage(name, f"{name}\n{text}", "Winch settings", {"section": f"{above} > {name}", "source": source})


SETTINGS = (
    entry("WINCH_TIMEOUT", "Default: 180\n\nHow many seconds the winch waits for the rope to run before it gives up."),
    entry("WINCH_DEBUG", "Default: False\n\nBy default, only the first jam is logged. If set, all jams are logged."),
    entry("CONCURRENT_ROPES", "Default: 16\n\nThe most ropes that the winch hauls at a time."),
    entry("DRUM_TARGET_CONCURRENCY", "Default: 1.0\n\nHow many ropes of a drum are hauled at a time on average."),
    entry("drum_prefetch_multiplier", "Default: 4.\n\nRopes to reel in ahead. The default is 4 (four of each drum)."),
    entry("maxROPEhours", "How long are ropes kept on the drum `[hours]`?\n\n**Default value:** `91`"),
    entry("drum.width", "Width of the drum in metres.\n\n**Default value:** `12`"),
    entry("drumWidth", "The width of the drum of the winch.\n\n**Default value:** `7`"),
    entry("copy", "Whether to copy the log to the mast. Defaults to yes.", above="Importer"),
    entry("move", "Whether to move the log to the mast. Defaults to no.", above="Importer"),
)  # fmt: skip
NEWS = Passage(
    "news", "The default drum is chosen by the drum_prefetch_multiplier and the rope.", "News", {"source": "n"}
)


@pytest.mark.parametrize(
    ("question", "quote"),
    [
        ("What is the default value of WINCH_TIMEOUT?", "Default: 180"),
        ("What is the default value of WINCH_TIMEOUT in Corrow?", "Default: 180"),
        ("What is the default value of drum.width?", "**Default value:** `12`"),
        ("What is the default value of maxROPEhours?", "**Default value:** `91`"),  # its humps part no plain words
        ("How many concurrent ropes does the winch haul by default?", "Default: 16"),
        ("How many concurrent ropes does the winch haul if I have not changed any setting?", "Default: 16"),
        ("How long is WINCH_TIMEOUT unless told otherwise?", "Default: 180"),
        ("What is the default drum_prefetch_multiplier?", "The default is 4 (four of each drum)."),
        ("What is the default import copy setting?", "Defaults to yes."),
    ],
)
def test_the_default_of_the_setting_that_is_named_is_sure(question: str, quote: str) -> None:
    assert quotes(question, *SETTINGS, NEWS)[0].endswith(quote)
    assert chance(question, *SETTINGS, NEWS) > 0.6


@pytest.mark.parametrize(
    "question",
    [
        "What is the default value of WINCH_COLOR?",
        "What is the default timeout of the ferry's radio?",
        "What is the default copy of the anchor?",
    ],
)
def test_a_setting_that_is_not_there_has_no_default(question: str) -> None:
    assert chance(question, *SETTINGS, NEWS) < 0.5


def test_settings_of_one_name_leave_it_open_which_is_meant() -> None:
    others = [
        entry("timeout", f"Default: {n}\n\nSeconds to wait.", f"{n}.rst", above) for n, above in ((3, "A"), (9, "B"))
    ]
    found = quotes("What is the default timeout?", *others)
    assert {quote[-1] for quote in found} >= {"3", "9"}


def test_a_sentence_that_says_the_default_is_sure() -> None:
    said = "Hemp is the default rope, so no other needs to be bought."
    other = Passage("other", "The rope may be changed at any time. The default is easily overridden.", "Ropes")
    assert quotes("What is the default rope of Corrow?", Passage("p", said, "Ropes"), other)[0] == said
    assert chance("What is the default rope of Corrow?", Passage("p", said, "Ropes"), other) > 0.6


@pytest.mark.parametrize(
    "question",
    ["What does WINCH_DEBUG do?", "What does Corrow's WINCH_DEBUG do?", "What does WINCH_DEBUG do in Corrow?"],
)
def test_the_default_of_a_setting_is_not_what_it_does(question: str) -> None:
    assert quotes(question, *SETTINGS)[0] == "By default, only the first jam is logged."


SOCKET = Passage(
    "socket",
    "Socket support:\n\n"
    "* `path`: A path for the UNIX socket, in a folder with write permissions. Defaults to `None`.\n"
    "* `mode`: The file permissions of the UNIX socket. Defaults to `666`.\n"
    "* `backlog`: Connections that wait. Defaults to 50.",
    "Tidewater",
    {"section": "Listeners", "source": "config.md"},
)


def test_what_is_described_before_its_default_is_found() -> None:
    text, sure = first("What are the default permissions of the UNIX socket?", SOCKET)
    assert text == "Defaults to `666`."
    assert sure > 0.5


def test_a_default_of_something_else_is_not_taken_for_it() -> None:
    assert chance("What are the default permissions of the log file?", SOCKET) < 0.5
    assert chance("What is the default owner of the UNIX socket?", SOCKET) < 0.5


def test_names_with_humps_are_told_apart_by_their_headings() -> None:
    settings = (
        entry("DrumRopeLimit", "Compatibility: In Winch 2.4 and earlier, the default value was 0 (unlimited)."),
        entry("DrumWetRopeLimit", "Default: 1000\n\nThe longest wet rope."),
    )
    about = "What was the default {} in Winch 2.4 and earlier?"
    assert "unlimited" in quotes(about.format("DrumRopeLimit"), *settings)[0]
    assert all("unlimited" not in quote for quote in quotes(about.format("DrumWetRopeLimit"), *settings))
    assert chance(about.format("DrumWetRopeLimit"), *settings) < 0.5 < chance(about.format("DrumRopeLimit"), *settings)


def test_true_is_no_default_editor() -> None:
    told = "A boolean to list ropes in the commit template when using an editor to prepare it. Defaults to true."
    text = f"commit.status\n\n{told}"
    listed = Passage("s", text, "winch-commit", {"section": "VARIABLES > commit.status", "source": "commit.txt"})
    assert chance("What is the default editor of winch commit?", listed) < 0.5
    assert chance("What is the default value of commit.status?", listed) > 0.5


def test_a_switch_is_no_amount() -> None:
    switch = entry("rope", "Whether what is done with the ropes on the drum is logged.\n\n**Default value:** `false`")
    others = [entry("wind", "Whether gusts on the drum are logged.\n\n**Default value:** `true`")]
    assert not any(
        "false" in quote for quote in quotes("How long are ropes kept on the drum by default?", switch, *others)
    )
    assert "false" in quotes("Is the rope logged by default?", switch, *others)[0]
