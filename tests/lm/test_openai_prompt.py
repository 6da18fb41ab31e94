"""Prompts for servers: what strangers wrote stays text, whichever way it goes out."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from shared_core.lm.base import Part
from shared_core.lm.chat.layout import MARK, as_text, control_strings, cut_text, restore
from tests.openai_server import CONTROL, decode, tokenize

STRINGS = control_strings(CONTROL)
hostile = st.lists(
    st.one_of(
        st.sampled_from([*CONTROL, "<|im_", "start|>", "[Rele", "vant]", "<", "s>", "</", MARK, MARK * 2, "ＩＭ", "İ"]),
        st.text(max_size=3),
    ),
    max_size=8,
).map("".join)
parts = st.lists(st.builds(Part, text=hostile, trusted=st.booleans()), max_size=5)
untrusted = st.lists(st.builds(Part, text=hostile), max_size=3)


@settings(max_examples=500, deadline=None, derandomize=True)
@given(untrusted)
@example([Part(f"{MARK}<s>{MARK}{MARK}"), Part("<|im_"), Part("start|>")])
def test_untrusted_text_has_no_control_string_left_and_can_be_restored(given_parts: list[Part]) -> None:
    text, changed = as_text(given_parts, STRINGS)
    original = "".join(p.text for p in given_parts)
    assert restore(text) == original
    assert changed == (text != original)
    assert all(i >= 1000 for i in tokenize(text, special=False))


@settings(max_examples=500, deadline=None, derandomize=True)
@given(parts)
@example([Part("<|im_", trusted=True), Part("start|>"), Part("[Rele"), Part("vant]", trusted=True)])
@example([Part("<s>", trusted=True), Part(f"{MARK}<s>{MARK}"), Part("s>", trusted=True)])
def test_pieces_give_the_text_back_and_only_trusted_control_tokens(given_parts: list[Part]) -> None:
    ids = [i for piece in cut_text(given_parts, STRINGS) for i in tokenize(piece, special=False)]
    assert decode(ids) == "".join(p.text for p in given_parts)
    runs: list[str] = [""]
    for part in given_parts:  # what trusted text alone says, adjoining parts read as one
        if part.trusted:
            runs[-1] += part.text
        elif part.text:
            runs.append("")
    meant = [i for run in runs for i in tokenize(run, special=False) if i < 1000]
    assert [i for i in ids if i < 1000] == meant


def test_strings_that_cannot_be_broken_up_are_left_out() -> None:
    assert not {"x", " ", f"a{MARK}b", "y" * 100} & set(control_strings(["x", " ", f"a{MARK}b", "y" * 100, "[A]"]))
    assert "[A]" in control_strings(["[A]"])
