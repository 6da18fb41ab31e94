from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from shared_core.errors import InputError
from shared_core.lm.chat.layout import COMMON_CONTROL_STRINGS, MARK, control_strings, neutralise_stretches, restore

hostile = st.lists(
    st.one_of(
        st.sampled_from(COMMON_CONTROL_STRINGS),
        st.sampled_from(
            ["<|im_", "start|>", "<", ">", "[", "|", MARK, MARK * 2, "＜|im_start|＞", "<|IM_START|>", "ﬁ", "İ"]
        ),
        st.text(max_size=4),
    ),
    max_size=12,
).map("".join)


def neutralise(text: str, control: Sequence[str] = COMMON_CONTROL_STRINGS) -> str:
    return neutralise_stretches([(text, False)], control)


@settings(max_examples=400, deadline=None, derandomize=True)
@given(hostile)
@example(f"<{MARK}|im_start|>")
@example(f"<{MARK}{MARK}|im_start|><|im_start|>")
@example(f"{MARK}<s>{MARK}")
def test_neutralising_is_reversible_and_leaves_no_control_string(text: str) -> None:
    neutral = neutralise(text)
    assert restore(neutral) == text
    assert not any(s in neutral for s in COMMON_CONTROL_STRINGS)
    assert neutral.replace(MARK, "") == text.replace(MARK, "")


def test_overlapping_occurrences_are_all_broken() -> None:
    assert "aa" not in neutralise("aaaa", ["aa"])
    assert restore(neutralise("aaaa", ["aa"])) == "aaaa"
    assert "abc" not in neutralise("abcbcd", ["abc", "bcb", "cbcd"])


def test_other_cases_and_compatibility_forms_are_broken() -> None:
    for text in ("<|IM_START|>", "＜|im_start|＞", "<｜im_start｜>"):
        assert neutralise(text, ["<|im_start|>"]) != text


def test_harmless_text_is_untouched() -> None:
    assert neutralise("a < b and [c] is fine; naïve 日本語 🙂") == "a < b and [c] is fine; naïve 日本語 🙂"


@pytest.mark.parametrize("string", ["", "<", f"<{MARK}>"])
def test_strings_that_cannot_be_broken_are_refused(string: str) -> None:
    with pytest.raises(InputError, match="cannot be neutralised"):
        neutralise("text", [string])


def test_strings_that_cannot_be_broken_up_are_left_out() -> None:
    assert not {"x", " ", f"a{MARK}b", "y" * 100} & set(control_strings(["x", " ", f"a{MARK}b", "y" * 100, "[A]"]))
    assert "[A]" in control_strings(["[A]"])
