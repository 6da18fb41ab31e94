from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from shared_core.lm._detokenize import Detokenizer, StopScanner
from shared_core.lm.base import Prompt
from shared_core.lm.encoding import Encoder
from tests.lm.hostile import hostile_strings, told_apart


def test_text_put_together_from_tokens_is_the_text(encoder: Encoder) -> None:
    detokenizer = Detokenizer(encoder.tokenizer)
    for document in told_apart(encoder, hostile_strings(500, seed=2)):
        assert detokenizer.text(encoder.encode_continuation(Prompt.untrusted(document))) == document


def test_any_ids_decode_as_the_tokenizer_decodes_them(encoder: Encoder) -> None:
    tokenizer, rng = encoder.tokenizer, random.Random(0)
    detokenizer = Detokenizer(tokenizer)
    anchor = tokenizer.encode("a", add_special_tokens=False)
    before = tokenizer.decode(anchor)
    for _ in range(300):
        ids = [rng.randrange(len(tokenizer)) for _ in range(rng.randint(1, 8))]
        expected = tokenizer.decode(anchor + ids, clean_up_tokenization_spaces=False)[len(before) :]
        if "�" not in expected:  # decoders differ in how much of a broken character they replace
            assert detokenizer.text(ids) == expected


@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    st.text(alphabet="ab<>/é🙂\n", max_size=30),
    st.lists(st.text(alphabet="ab<>/é🙂\n", min_size=1, max_size=3), min_size=1, max_size=3),
    st.integers(0, 2**32),
)
def test_stops_are_found_wherever_tokens_are_cut(text: str, stops: list[str], seed: int) -> None:
    rng, raw, scanner = random.Random(seed), text.encode(), StopScanner(stops)
    at, found = 0, None
    while at < len(raw) and found is None:
        step = rng.randint(1, 5)
        found = scanner.feed(raw[at : at + step])
        at += step
    if not any(s in text for s in stops):
        assert found is None
        return
    assert found is not None
    ends = min(text.index(s) + len(s) for s in stops if s in text)
    kept = scanner.cut(found, include=False)
    assert text.startswith(kept + found)
    assert scanner.cut(found, include=True) == kept + found
    assert len(kept) < ends  # nothing past the first completed stop string is kept
