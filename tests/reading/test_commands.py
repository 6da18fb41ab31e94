"""What a command does: the line below NAME in its manual, not how it is called or what it takes."""

from __future__ import annotations

from shared_core.support.options import entry_at
from shared_core.types import Passage
from tests.reading.asking import chance, first, quotes


def test_what_a_command_does_is_said_by_the_name_line_of_its_manual() -> None:
    name = Passage("n", "NAME\n\nwinch-haul - haul in the rope of a drum", "winch-haul(1)", {"section": "NAME"})
    call = Passage(
        "c", "winch haul\n\nwinch [common options] haul [options] DRUM [ROPE...]", "haul", {"section": "winch haul"}
    )
    for question in ("What does winch haul do?", "What is winch-haul?", "What does the winch-haul command do?"):
        text, sure = first(question, name, call)
        assert text == "winch-haul - haul in the rope of a drum"
        assert sure > 0.6
    several = Passage("n", "NAME\n\nhaul, winch heave - pull in a rope", "haul(1)", {"section": "NAME"})
    assert chance("What does winch heave do?", several) > 0.6
    assert chance("What does winch lower do?", several) < 0.5


def test_how_a_command_is_called_does_not_tell_what_it_does() -> None:
    text = "winch haul\n\nwinch [common options] haul [options] DRUM [ROPE...]"
    for more in ("", "\n\npositional arguments", "\n\nDRUM\tdrum to haul"):
        assert chance("What does winch haul do?", Passage("c", text + more, "haul", {"section": "winch haul"})) < 0.65


def test_a_definition_with_capitals_or_brackets_is_no_call() -> None:
    for said in ("the long rope [of hemp] that NASA uses", "a hook for BIG ropes [and small ones]", "hook for ropes"):
        passage = Passage("g", f"Gaff\n\n{said}", "Glossary", {"section": "Gaff"})
        assert chance("What is a gaff?", passage) > 0.5, said


def page(command: str, heading: str, text: str) -> Passage:
    section = f"{command} @2.1.0" + (f" > {heading}" if heading else "")
    return Passage(f"{command}/{heading}", text, command, {"section": section, "source": f"{command}.html"})


HAUL = page("winch-haul", "", "winch-haul @2.1.0\n\nPull in the rope of a drum")
CHECKED = page(
    "winch-checked-haul", "Description", "Description\n\nThis command runs winch haul followed by winch test."
)
OMIT = page(
    "winch-haul",
    "Options > omit",
    "omit\n\n- Default: 'wet' if the RAIN variable is set to 'yes'; otherwise, empty.\n- Type: \"wet\" or \"dry\""
    " (can be set multiple times)\n\nKinds of ropes to leave on the quay.\n\n"
    "If a kind appears in both the --include and --omit lists, then it will be included.",
)
OLD = page("winch", "Options > tarred", "tarred\n\n- DEPRECATED: Use --omit=tarred to exclude ropes that are tarred.")


def test_what_a_command_does_is_said_below_its_name_and_version() -> None:
    text, sure = first("What does winch haul do?", CHECKED, HAUL)
    assert text == "Pull in the rope of a drum"
    assert sure > 0.5


def test_this_command_is_the_one_of_its_page() -> None:
    assert not any("This command" in quote for quote in quotes("What does winch haul do?", CHECKED, HAUL))
    assert "This command" in first("What does winch checked-haul do?", CHECKED, HAUL)[0]
    assert "This command" in first("Which command runs winch haul and then winch test?", CHECKED, HAUL)[0]


def test_an_option_is_explained_below_its_name_without_dashes() -> None:
    for question in ("What does the --omit option do?", "What does --omit do?", "What does the omit option do?"):
        text, sure = first(question, OLD, OMIT)
        assert text == "Kinds of ropes to leave on the quay.", question
        assert sure > 0.5


def test_a_default_that_two_pages_state_alike_is_found() -> None:
    text = "wet-level\n\n- Default: null\n- Type: null, 'low', or 'high'\n\nThe level of wetness at which to stop."
    stated = [page(command, "Options > wet-level", text) for command in ("winch-haul", "winch-lower")]
    text, sure = first("What is the default value of wet-level?", *stated)
    assert text == "- Default: null"
    assert sure > 0.5


def entry(page: str, section: str, text: str) -> Passage:
    return Passage(f"{page}/{section}", text, f"{page}(1)", {"section": section, "source": f"{page}.txt"})


def test_a_subcommand_is_told_by_its_page_and_its_entry() -> None:
    rope = entry("winch-rope", "COMMANDS > prune", "prune\n    Forgets the ropes that are gone.")
    config = entry(
        "winch-config",
        "VARIABLES > rope.<name>.prune",
        "rope.<name>.prune\n    When set, pulling also lets go of old ropes.",
    )
    for question in ("What does winch rope prune do?", "What does the winch-rope prune command do?"):
        text, sure = first(question, config, rope)
        assert text == "Forgets the ropes that are gone.", question
        assert sure > 0.6


def test_a_heading_may_have_what_a_command_takes() -> None:
    drop = entry("winch-rope", "COMMANDS > drop [--wet] [<rope>]", "drop [--wet] [<rope>]\n    Let a single rope go.")
    kept = entry("winch-rope", "COMMANDS > keep", "keep\n    Like drop, but the rope is tied up first.")
    text, sure = first("What does winch rope drop do?", kept, drop)
    assert text == "Let a single rope go."
    assert sure > 0.8


def test_how_a_subcommand_is_called_does_not_tell_what_it_does() -> None:
    usage = "The winch takes one of these:\n\nwinch rope skip [(<rope>|<range>)...]\n\nwinch rope reset [<rope>]"
    passage = entry("winch-rope", "DESCRIPTION", usage)
    assert "winch rope skip [(<rope>|<range>)...]" not in quotes("What does winch rope skip do?", passage)


def test_a_line_of_prose_that_begins_with_an_option_explains_another_one() -> None:
    out = entry("winch", "OPTIONS > --onto <drum>", "--onto <drum>\n    Drum on which to wind the rope.")
    keep = entry(
        "winch",
        "OPTIONS > --keep-drum",
        "--keep-drum\n    Use the drum of the last rope. This is the same as winch --no-tar\n    --onto the last drum."
        " It is useful where one rope is wound often.",
    )
    assert quotes("What does winch --onto do?", keep, out)[0] == "Drum on which to wind the rope."
    assert chance("What does winch --onto do?", keep) < 0.5


def test_an_option_that_is_not_named_is_quoted_with_its_definition() -> None:
    option = entry("winch-clean", "OPTIONS > -X", "-X\n    Remove only ropes that are ignored. Others stay.")
    assert first("Does winch clean remove ignored ropes?", option)[0].split() == (
        ["-X", "Remove", "only", "ropes", "that", "are", "ignored."]
    )
    assert first("What does winch clean -X do?", option)[0] == "Remove only ropes that are ignored."


def test_what_a_variable_does_is_not_said_by_a_line_with_its_name_only() -> None:
    listed = entry(
        "winch", "FILES", "The drum is the first of:\n\n- WINCH_HOME environment variable\n- $WINCH_HOME/drum/"
    )
    told = entry("winch", "HOME", "You can move the ropes by setting the WINCH_HOME variable.")
    shown = quotes("What does WINCH_HOME do?", listed, told)
    assert shown[0] == "You can move the ropes by setting the WINCH_HOME variable."


def test_this_command_is_told_below_description_where_the_name_is_not_found() -> None:
    page = "winch mend - The Winch Book"
    told = Passage(
        "d",
        "DESCRIPTION\n\nThis Winch subcommand takes the advice of splice and applies it to your ropes.",
        page,
        {"section": "winch-mend(1) > DESCRIPTION"},
    )
    torn = Passage(
        "t",
        "--torn\nMend ropes even if they are torn. It leaves the torn rope on the quay to mend by hand.",
        page,
        {"section": "winch-mend(1) > OPTIONS > --torn"},
    )
    text, sure = first("What does winch mend do?", torn, told)
    assert text.startswith("This Winch subcommand")
    assert sure > 0.6


def test_what_stands_below_another_field_is_not_about_the_one_asked_for() -> None:
    other = Passage("v", "The length field\n\nThe field is required to haul.", "Ropes", {"section": "The length field"})
    assert "The field is required to haul." not in quotes("What does the splice field do?", other)
    assert chance("What does the length field do?", other) > 0.3


def method(kind: str, signature: str, text: str) -> Passage:
    section = f"{kind} > Methods > {signature}"
    return Passage(
        f"{kind}/{signature}", f"{signature}\n\n{text}", kind, {"section": section, "source": f"{kind}.html"}
    )


def test_what_a_method_does_is_said_below_its_signature() -> None:
    join = method(
        "Struct Rope", "pub fn join<R: AsRef<Rope>>(&self, rope: R) -> Rope", "Makes a longer rope with both spliced."
    )
    push = method(
        "Struct Drum", "pub fn push(&mut self, rope: Rope)", "Consider using Rope::join if you need a new rope instead."
    )
    for question in ("What does Rope::join do?", "What does Rope.join() do?", "What does join do?"):
        text, sure = first(question, push, join)
        assert text == "Makes a longer rope with both spliced.", question
        assert sure > 0.6


NOTES = "History\n\nVersion: v9.4.0; Changes: The rope can be of hemp. Giving none will break the winch.\n\n"


def test_versions_and_parameters_below_a_signature_do_not_say_what_a_function_does() -> None:
    taken = "- rope <Rope> | <string> The rope. Only wet ropes are allowed.\n- Returns: <Rope>\n\n"
    cut = method("Rope", "rope.cut(rope[, at])", f"{NOTES}{taken}Takes the end off with a knife.")
    called = method("Rope", "rope.cutMark", "Giving a mark to rope.cut(rope) overrides any mark of rope.cutMark.")
    for question in ("What does rope.cut do?", "What does rope.cut() do?"):
        text, sure = first(question, called, cut)
        assert text == "Takes the end off with a knife.", question
        assert sure > 0.6
    off = method("Rope", "rope.off(rope)", "Added in: v10.0.0\n\n- rope <Rope>\n\nAlias for rope.letGo().")
    assert first("What does rope.off do?", off)[0] == "Alias for rope.letGo()."


def test_a_note_on_versions_does_not_say_what_a_thing_is() -> None:
    pool = Passage(
        "p",
        "Pools\n\nAvailable since Winch 1.1.\n\nPools let ropes share a finite number of drums.",
        "The Winch manual",
        {"section": "Pools"},
    )
    assert first("What is a pool?", pool)[0] == "Pools let ropes share a finite number of drums."


def test_a_line_that_sets_something_does_not_say_what_it_does() -> None:
    example = Passage("e", "rule haul\n  restat = 1\n  depfile = out.d", "Example", {"section": "Example"})
    told = Passage("t", "restat\nif present, makes Winch look at the rope again.", "Variables", {"section": "restat"})
    assert "restat = 1" not in quotes("What does restat do?", example, told)[:1]


def test_a_variable_at_the_beginning_of_a_line_of_prose_or_code_is_not_explained_there() -> None:
    prose = (
        "As of Winch 1.5, rope_haul_16 was added. It behaves as\nrope_haul(); however, it hauls more. Use it for steel."
    )
    code = "If you like, call\n\n    rope_haul(drum);\n\nOf course, the more ropes there are, the longer it takes."
    for text in (prose, code):
        assert entry_at(text, len(text) - 1)[1] == frozenset()
    listed = "drum_size   size of a drum, in metres\nrope_haul   hauls in a rope"
    assert entry_at(listed, len(listed) - 1)[1] == {"rope_haul"}


def test_an_option_of_another_command_is_not_that_of_the_one_named() -> None:
    tree = entry("winch-tree", "NAME", "NAME\n\nwinch-tree - show the ropes as a tree")
    search = entry("winch-search", "OPTIONS > --limit", "--limit limit\n    Limit the number of ropes (default: 10).")
    assert not any(
        "default: 10" in quote for quote in quotes("How many ropes does winch tree show by default?", search, tree)
    )
    assert chance("How many ropes does winch search show by default?", search, tree) > 0.5


def test_a_flag_of_a_subcommand_is_not_that_of_another_program() -> None:
    swap = entry(
        "rope",
        "COMMANDS > swap-rope [-dZ]",
        "swap-rope [-dZ]\n    Swap two ropes. -Z keeps the drum turning if it did.",
    )
    other = entry("crane", "OPTIONS > -Z FLAG", "-Z FLAG\n    Unstable flags of the crane.")
    assert "-Z keeps the drum turning" in quotes("What does the -Z flag of swap-rope do?", other, swap)[0]
