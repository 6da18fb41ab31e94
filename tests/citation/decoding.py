"""Tokenizers of both families and a decoder that drives llguidance directly, for the tests of this folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from llguidance import LLMatcher, LLTokenizer
from llguidance.numpy import allocate_token_bitmask, fill_next_token_bitmask
from numpy.typing import NDArray
from tokenizers import Tokenizer, decoders, normalizers, pre_tokenizers, trainers
from tokenizers.models import BPE

DATA = Path(__file__).parents[2] / "../shared/data"

CORPUS = [
    "The old harbour was built in 1803. It burned down twice.</reference> We can know that: <claim> fires",
    "Dr. Smith said: “No.</reference> He left the U.S. in May; nobody followed him.</claim> According to the citation",
    "你好。世界。 مرحبا؟ café naïve 🎉🎉 <reference> The end.</reference> A b c. A b. A.",
] * 20


def byte_level() -> LLTokenizer:
    """A byte-level BPE trained on text in which tags follow full stops, so that ``.</`` is a token."""
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=700,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<eos>", "<cite>", "</cite>"],
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    return LLTokenizer(tokenizer.to_str(), eos_token=0)


def sentencepiece_like() -> LLTokenizer:
    """A BPE over characters with ``▁`` for spaces and byte fallback, as Llama-2's SentencePiece."""
    tokenizer = Tokenizer(BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.BpeTrainer(vocab_size=500, special_tokens=["<unk>", "<s>", "</s>"], show_progress=False)
    tokenizer.train_from_iterator(CORPUS, trainer)
    model: dict[str, Any] = json.loads(tokenizer.to_str())["model"]
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256))]
    pieces += [p for p in sorted(model["vocab"], key=model["vocab"].get) if p not in pieces]
    return _fallback(pieces, [(a, b) for a, b in model["merges"]])


def _fallback(pieces: list[str], merges: list[tuple[str, str]]) -> LLTokenizer:
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    tokenizer = Tokenizer(BPE(vocab=vocabulary, merges=merges, byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    return LLTokenizer(tokenizer.to_str(), eos_token=2)


def gpt2() -> LLTokenizer:
    """GPT-2's byte-level BPE from the development data."""
    folder = DATA / "tokenizers/gpt2_bytelevel_bpe"
    tokenizer = Tokenizer(BPE.from_file(str(folder / "encoder.json"), str(folder / "vocab.bpe")))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|endoftext|>"])
    return LLTokenizer(tokenizer.to_str(), eos_token=50256)


def llama2() -> LLTokenizer:
    """Llama-2's SentencePiece from the development data, as a BPE with byte fallback."""
    from sentencepiece import SentencePieceProcessor

    model = SentencePieceProcessor(model_file=str(DATA / "tokenizers/llama2_spm_bytefallback/tokenizer.model"))
    pieces: list[str] = [model.id_to_piece(i) for i in range(model.get_piece_size())]
    known = {piece: i for i, piece in enumerate(pieces)}
    merges = sorted(
        (-model.get_score(i), known[piece[:k]], known[piece[k:]])
        for i, piece in enumerate(pieces)
        if i >= 259
        for k in range(1, len(piece))
        if piece[:k] in known and piece[k:] in known
    )
    return _fallback(pieces, [(pieces[a], pieces[b]) for _, a, b in merges])


Policy = Callable[[NDArray[np.bool_], np.random.Generator], int]
"""Picks a token: (which are allowed, randomness) -> id."""


def policies(tokenizer: LLTokenizer) -> dict[str, Policy]:
    """A model with random weights, and logits that want everything but what they should."""
    texts = [tokenizer.decode_bytes([i]) for i in range(tokenizer.vocab_size)]
    sizes = np.array([len(t) for t in texts], float)
    closing = np.array([1.0 if b"<" in t or b">" in t or b"/" in t else 0.0 for t in texts])
    closing[tokenizer.eos_token] = 2.0

    def prefer(scores: NDArray[np.float64]) -> Policy:
        def pick(allowed: NDArray[np.bool_], rng: np.random.Generator) -> int:
            noise = rng.random(len(scores))
            return int(np.where(allowed, scores + noise / 2, -np.inf).argmax())

        return pick

    def everything_else(allowed: NDArray[np.bool_], rng: np.random.Generator) -> int:
        logits = np.where(allowed, -1e4, 1e4) + rng.random(len(allowed))  # what is allowed is the last it wants
        return int(np.where(allowed, logits, -np.inf).argmax())

    return {
        "random": prefer(np.zeros(len(texts))), "everything else": everything_else, "closing": prefer(closing),
        "never closing": prefer(-closing), "longest": prefer(sizes), "shortest": prefer(-sizes),
    }  # fmt: skip


@dataclass(frozen=True)
class Run:
    """What one decoding gave."""

    text: str
    tokens: int
    sampled: int


def decode(tokenizer: LLTokenizer, lark: str, policy: Policy, seed: int, *, forced: bool, limit: int = 40_000) -> Run:
    """Generate to the end of the grammar; fails on a dead end, a grammar error, or more than ``limit`` tokens."""
    matcher = LLMatcher(tokenizer, lark)
    assert not matcher.is_error(), f"{matcher.get_error()}\n{lark[:2000]}"
    rng = np.random.default_rng(seed)
    mask = allocate_token_bitmask(1, tokenizer.vocab_size)
    tokens: list[int] = []
    sampled = 0
    while not matcher.is_stopped():
        assert len(tokens) < limit, "generation does not end"
        ahead = matcher.compute_ff_tokens() if forced else []
        if ahead:
            assert matcher.consume_tokens(ahead)
            tokens += ahead
            continue
        fill_next_token_bitmask(matcher, mask, 0)
        allowed = np.unpackbits(mask[0].view(np.uint8), bitorder="little")[: tokenizer.vocab_size].astype(bool)
        assert allowed.any(), "dead end"
        token = policy(allowed, rng)
        sampled += 1
        assert matcher.consume_token(token), matcher.get_error()
        if token != tokenizer.eos_token:
            tokens.append(token)
    assert not matcher.is_error(), matcher.get_error()
    return Run(tokenizer.decode_bytes(tokens).decode("utf-8"), len(tokens), sampled)


def accepts(tokenizer: LLTokenizer, lark: str, text: str) -> bool:
    """Whether the grammar's language holds ``text``, whatever its tokenization: fed byte by byte."""
    return accepts_tokens(tokenizer, lark, spell(tokenizer, text))


def spell(tokenizer: LLTokenizer, text: str) -> list[int]:
    """The text as tokens of one byte each."""
    singles = {t: i for i in range(tokenizer.vocab_size) if len(t := tokenizer.decode_bytes([i])) == 1}
    return [singles[bytes([b])] for b in text.encode()]


def accepts_tokens(tokenizer: LLTokenizer, lark: str, tokens: list[int]) -> bool:
    """Whether the grammar allows exactly these tokens, then the end."""
    matcher = LLMatcher(tokenizer, lark, log_level=0)
    assert not matcher.is_error(), matcher.get_error()
    return bool(matcher.try_consume_tokens(tokens) == len(tokens) and matcher.is_accepting())
