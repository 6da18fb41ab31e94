"""Letters and digits that look like others."""

from __future__ import annotations

import pytest

from shared_core.abstention.lookalikes import mixed_words, written_plainly


@pytest.mark.parametrize(("written", "plain"), [
    ("at ④", "at 4"), ("at ❹", "at 4"), ("at ４ pm", "at 4 pm"), ("at ⁴ pm", "at 4 pm"), ("at Ⅳ pm", "at 4 pm"),
    ("𝟒 tons", "4 tons"), ("Charles Ⅴ", "Charles V"), ("ⅩⅣ", "XIV"), ("ﬁne", "fine"),
    *((same, same) for same in ("10⁴ m²", "every day.¹", "CO₂", "½ litre", "Lamp™", "n.º 4", "so on …", "日本語", "x")),
])  # fmt: skip
def test_compatible_digits_and_letters_are_written_plainly(written: str, plain: str) -> None:
    assert written_plainly(written) == plain


def test_words_of_two_scripts() -> None:
    assert mixed_words("It is n\u043et \u0441losed, nev\u03bfr.") == ["n\u043et", "\u0441losed", "nev\u03bfr"]
    assert mixed_words("Δt of 5 µm in TNFα, IκB and NF-κB; Москва, Αθήνα, USB-разъём; plain") == []
