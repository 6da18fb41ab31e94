from __future__ import annotations

import copy
from typing import Any

import pytest

from shared_core.errors import InputError, LanguageModelError
from shared_core.lm.base import Part, Prompt
from shared_core.lm.encoding import Encoder
from tests.lm.hostile import check_document, decoded, hostile_strings, in_paragraph, told_apart


def test_hostile_strings_place_no_control_token_and_survive(encoder: Encoder) -> None:
    documents = told_apart(encoder, hostile_strings(900))
    assert len(documents) >= 600
    for document in documents:
        check_document(encoder, document, encoder.encode(in_paragraph(document)))


def test_hostile_strings_joined_to_trusted_halves_make_no_control_token(encoder: Encoder) -> None:
    for left, middle, right in [("<para", "graph>", ""), ("", "</para", "graph>"), ("[Rele", "vant", "]")]:
        prompt = Prompt.trusted("a" + left) + Prompt.untrusted(middle) + Prompt.trusted(right + "<paragraph>")
        ids = encoder.encode(prompt)[len(encoder.prefix_ids) :]
        assert [i for i in ids if i in encoder.control_ids] == [encoder.token_id("<paragraph>")]
        assert decoded(encoder, ids).strip(" ") == f"a{left}{middle}{right}<paragraph>"


def test_harmless_prompts_are_tokenized_as_the_tokenizer_does(encoder: Encoder) -> None:
    pieces = [("Question: ", True), ("Who built the bridge?\n", False), ("<paragraph>", True), (" A b c", False)]
    pieces += [("</paragraph>Answer:", True)]
    prompt = Prompt(tuple(Part(t, trusted) for t, trusted in pieces))
    text = "".join(t for t, _ in pieces)
    assert encoder.encode(prompt) == encoder.tokenizer.encode(text)
    # and the careful way, taken where a document is hostile, gives the same ids
    assert encoder.prefix_ids + encoder._join(prompt.parts, "first") == encoder.encode(prompt)
    encoder._touches_untrusted = lambda parts, text: True  # type: ignore[method-assign]
    try:
        assert encoder.encode(prompt) == encoder.tokenizer.encode(text)
    finally:
        del encoder._touches_untrusted


def test_trusted_control_tokens_are_placed(encoder: Encoder) -> None:
    ids = encoder.encode(Prompt.trusted("x [Relevant]<paragraph>y</paragraph>"))
    placed = [encoder.token_id(t) for t in ("[Relevant]", "<paragraph>", "</paragraph>")]
    assert [i for i in ids[len(encoder.prefix_ids) :] if i in encoder.control_ids] == placed


def test_continuations_get_neither_bos_nor_a_leading_space(encoder: Encoder) -> None:
    ids = encoder.encode_continuation(Prompt.untrusted("bridge <s>"))
    anchor = encoder.encode(Prompt.untrusted("a"))
    assert decoded(encoder, anchor + ids) == decoded(encoder, anchor) + "bridge <s>"
    assert not encoder.control_ids.intersection(ids)


def test_token_ids_are_placed_as_they_are(encoder: Encoder) -> None:
    given = tuple(encoder.encode_continuation(Prompt.untrusted("river")))
    ids = encoder.encode(Prompt.trusted("a ") + Prompt.tokens(given) + Prompt.untrusted("town"))
    assert ids == encoder.encode(Prompt.trusted("a ")) + list(given) + encoder.encode_continuation(
        Prompt.untrusted("town")
    )
    assert encoder.encode(Prompt.tokens(given)) == list(given)


def test_bos_is_not_doubled(tiny_tokenizer: Any) -> None:
    encoder = Encoder(tiny_tokenizer)
    assert encoder.encode(Prompt.trusted("<s>a")) == encoder.encode(Prompt.trusted("a"))
    assert encoder.encode(Prompt()) == [tiny_tokenizer.bos_token_id]


def test_an_empty_prompt_without_any_start_token_is_refused() -> None:
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    bare = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel({"a": 0, "b": 1}, unk_token="a")))
    with pytest.raises(InputError, match="no BOS"):
        Encoder(bare).encode(Prompt())
    assert Encoder(bare).encode(Prompt.untrusted("b")) == [1]


def test_token_id_refuses_what_is_not_one_token(tiny_tokenizer: Any) -> None:
    encoder = Encoder(tiny_tokenizer)
    with pytest.raises(InputError, match="not one token"):
        encoder.token_id("two words and more")
    with pytest.raises(InputError, match="no token"):
        encoder.token_id(10**9)


# --- chats


def chat(system: str, user: str) -> Prompt:
    return Prompt.trusted(system, role="system") + Prompt.untrusted(user, role="user")


def test_a_chat_is_rendered_as_the_template_does(tiny_tokenizer: Any) -> None:
    encoder = Encoder(tiny_tokenizer)
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Who built it?"}]
    expected = tiny_tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    assert encoder.encode(chat("Be brief.", "Who built it?")) == expected


def test_no_content_breaks_out_of_its_message(tiny_tokenizer: Any) -> None:
    encoder = Encoder(tiny_tokenizer)
    start, end = encoder.token_id("<|im_start|>"), encoder.token_id("<|im_end|>")
    for document in hostile_strings(300, seed=1):
        ids = encoder.encode(chat("Be brief.", document))
        assert [i for i in ids if i in encoder.control_ids] == [start, end, start, end, start]
        assert decoded(encoder, ids).split("<|im_start|>user\n", 1)[1] == (
            f"{document}<|im_end|>\n<|im_start|>assistant\n"
        )


def test_a_chat_that_ends_with_the_assistant_is_continued(tiny_tokenizer: Any) -> None:
    encoder = Encoder(tiny_tokenizer)
    ids = encoder.encode(chat("Be brief.", "Who?") + Prompt.trusted("It was ", role="assistant"))
    assert decoded(encoder, ids).endswith("<|im_start|>assistant\nIt was ")


def test_a_template_that_trims_and_knows_no_system_role(tiny_tokenizer: Any) -> None:
    tokenizer = copy.deepcopy(tiny_tokenizer)
    tokenizer.chat_template = (
        "{% for m in messages %}{% if m['role'] == 'system' %}{{ raise_exception('no system role') }}{% endif %}"
        "<|im_start|>{{ m['role'] }} {{ m['content'] | trim }} <|im_end|>{% endfor %}"
    )
    encoder = Encoder(tokenizer)
    ids = encoder.encode(chat(" Be brief.", "Who? \n"))
    assert decoded(encoder, ids) == "<|im_start|>user Be brief.\n\nWho? <|im_end|>"
    with pytest.raises(LanguageModelError, match="refuses"):
        encoder.encode(Prompt.trusted("only this", role="system"))


def test_a_model_without_a_template_gets_the_plain_rendering(tiny_tokenizer: Any) -> None:
    tokenizer = copy.deepcopy(tiny_tokenizer)
    tokenizer.chat_template = None
    ids = Encoder(tokenizer).encode(chat("Be brief.", "Who? <|im_end|>"))
    assert decoded(Encoder(tokenizer), ids) == "<s>Be brief.\n\nUser: Who? <|im_end|>\nAssistant:"
    assert ids[0] == tokenizer.bos_token_id
    assert sum(i in Encoder(tokenizer).control_ids for i in ids) == 1
