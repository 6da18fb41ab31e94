"""Documents full of control strings, and the kinds of tokenizers that must read them as text."""

from __future__ import annotations

import random
import string
from collections.abc import Sequence
from typing import Any

import pytest

from shared_core.lm.base import Prompt
from shared_core.lm.encoding import Encoder
from tests.conftest import DATA, REFLECTION

MARKERS = [
    "<s>", "</s>", "<unk>", "<pad>", "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|im_start|>system\n",
    "<reference>", "</reference>", "<claim>", "[INST]", "<<SYS>>", "<|begin_of_text|>", "<0x0A>", "<0x00>", "<0xE2>",
    "▁", "Ġ", "Ċ", "\u2581<s>", *REFLECTION,
]  # fmt: skip
SPLITS = ["\u200b", "\u200d", "\ufeff", "\u2060", "\u00ad", "\u0301", " ", "\n", "\t", "\x00", "\x01", "", "️"]


def hostile_strings(count: int, seed: int = 0) -> list[str]:
    """Control strings whole, cut in two, split by invisible characters, nested, repeated, and mixed with odd text."""
    rng = random.Random(seed)
    alphabet = string.ascii_letters + " <>|[]/\\\n\t" + "éß日本🙂\u202e\u2028𝔘"
    found = []
    for _ in range(count):
        pieces = []
        for _ in range(rng.randint(1, 6)):
            marker = rng.choice(MARKERS)
            cut = rng.randint(0, len(marker))
            pieces.append(
                rng.choice(
                    [
                        marker, marker[:cut] + rng.choice(SPLITS) + marker[cut:], marker[:cut] + marker + marker[cut:],
                        marker[:cut], marker[cut:], marker.upper(), marker * 2,
                        "".join(rng.choice(alphabet) for _ in range(rng.randint(0, 8))),
                    ]
                )
            )  # fmt: skip
        found.append("".join(pieces))
    return found


def gpt2(_: Any) -> Any:
    from transformers import GPT2Tokenizer

    folder = DATA / "tokenizers/gpt2_bytelevel_bpe"
    if not folder.exists():
        pytest.skip("development data missing")
    tokenizer = GPT2Tokenizer(vocab=str(folder / "encoder.json"), merges=str(folder / "vocab.bpe"))
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})
    tokenizer.add_tokens(list(REFLECTION))
    return tokenizer


def llama2(_: Any) -> Any:
    from transformers import LlamaTokenizer

    folder = DATA / "tokenizers/llama2_spm_bytefallback"
    if not folder.exists():
        pytest.skip("development data missing")
    tokenizer = LlamaTokenizer.from_pretrained(str(folder))
    tokenizer.add_tokens(list(REFLECTION))
    return tokenizer


def unigram(_: Any) -> Any:
    """A vocabulary in which ordinary pieces spell the control tokens, the worst case for splitting."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = [("<unk>", 0.0), ("<s>", 0.0), ("</s>", 0.0), ("▁", -2.0)]
    vocabulary += [(f"<0x{i:02X}>", -20.0) for i in range(256)]
    vocabulary += [(c, -3.0) for c in string.printable if not c.isspace()]
    core = Tokenizer(models.Unigram(vocabulary, unk_id=0, byte_fallback=True))
    core.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    core.decoder = decoders.Sequence([
        decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)
    ])  # fmt: skip
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, bos_token="<s>", eos_token="</s>", unk_token="<unk>")
    tokenizer.add_tokens(list(REFLECTION))
    return tokenizer


def tiny(tokenizer: Any) -> Any:
    return tokenizer


TOKENIZERS = [tiny, gpt2, llama2, unigram]


def told_apart(encoder: Encoder, texts: Sequence[str]) -> list[str]:
    """The texts without those in which SentencePiece cannot tell ``▁`` from a space, which it spells that way."""
    spelt = "▁" in encoder.tokenizer.get_vocab()
    return [text for text in texts if not (spelt and "▁" in text)]


def decoded(encoder: Encoder, ids: Sequence[int]) -> str:
    return str(encoder.tokenizer.decode(ids, clean_up_tokenization_spaces=False))


def in_paragraph(document: str) -> Prompt:
    return Prompt.trusted("<paragraph>Doc: ") + Prompt.untrusted(document) + Prompt.trusted("</paragraph>")


def check_document(encoder: Encoder, document: str, ids: list[int]) -> None:
    """See that the ids of a document ``in_paragraph`` hold no control tokens but ours, and its whole text."""
    ids = ids[len(encoder.prefix_ids) :]
    placed = [encoder.token_id("<paragraph>"), encoder.token_id("</paragraph>")]
    assert [i for i in ids if i in encoder.control_ids] == placed, document
    text = decoded(encoder, ids)
    assert text.strip(" ").removeprefix("<paragraph>").removesuffix("</paragraph>") == "Doc: " + document
