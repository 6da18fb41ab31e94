"""Measure quote grammars (build time, cost per step, forced tokens) against other ways to constrain decoding.

Also runs interleaved ReClaim end to end, with prompt caches kept and dropped (``citation_pairs.py``).

    python benchmarks/citation.py [--quick] [--json FILE] [--tokenizer FOLDER]

All methods get the same sentences, tokenizer and choices: a quote is drawn first, and each method computes the allowed
tokens at every step of it. Competitors that are not installed are skipped with a message.
"""

from __future__ import annotations

import json
import random
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import command_line, write_figures
from shared_core.citation import CitationIndex, align_quote, split_sentences
from shared_core.types import Passage

CLOSE = " </reference>"
Timings = list[float]


def words(rng: random.Random, count: int) -> Iterator[str]:
    """Generate pronounceable words with a skewed distribution, so that sentences share prefixes as real ones do."""
    syllables = ["ka", "ter", "lo", "min", "sa", "vi", "ron", "del", "um", "pra", "che", "is", "ton", "ge", "al"]
    vocabulary = ["".join(rng.choices(syllables, k=rng.randint(1, 4))) for _ in range(3000)]
    return iter(rng.choices(vocabulary, weights=[1 / (i + 3) for i in range(3000)], k=count))


def passages(sentences: int, seed: int = 0) -> list[Passage]:
    """Generate that many distinct sentences of 8 to 30 words, five to a passage."""
    rng = random.Random(seed)
    texts: dict[str, None] = {}
    while len(texts) < sentences:
        start = rng.choice(["The", "In 1987, the", "It", "He", "After the war, the", "Most"])
        texts[f"{start} {' '.join(words(rng, rng.randint(8, 30)))}."] = None
    made = list(texts)
    return [Passage(f"p{i}", " ".join(made[i : i + 5])) for i in range(0, sentences, 5)]


def byte_level_bpe(texts: Sequence[str], size: int) -> Any:
    """Train a byte-level BPE tokenizer with at most ``size`` tokens; nothing is downloaded."""
    from tokenizers import Tokenizer, decoders, pre_tokenizers, trainers
    from tokenizers.models import BPE

    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<eos>"],
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def load_tokenizer(folder: str | None, texts: Sequence[str], size: int) -> tuple[Any, int]:
    """Load a tokenizer from ``folder`` (tokenizer.json or GPT-2's two) or train one. Returns (tokenizer, EOS id)."""
    from tokenizers import Tokenizer, decoders, pre_tokenizers
    from tokenizers.models import BPE

    if folder is None:
        return byte_level_bpe(texts, size), 0
    path = Path(folder)
    if (path / "tokenizer.json").exists():
        tokenizer = Tokenizer.from_file(str(path / "tokenizer.json"))
    else:
        tokenizer = Tokenizer(BPE.from_file(str(path / "encoder.json"), str(path / "vocab.bpe")))
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        tokenizer.add_special_tokens(["<|endoftext|>"])
    for name in ("<|endoftext|>", "</s>", "<eos>", "<|end_of_text|>"):
        found = tokenizer.token_to_id(name)
        if found is not None:
            return tokenizer, int(found)
    raise SystemExit("No end-of-sequence token known by name in that tokenizer.")


@dataclass
class Result:
    """Figures of one method on one problem."""

    build: Timings = field(default_factory=list)
    steps: Timings = field(default_factory=list)
    tokens: int = 0
    sampled: int = 0

    def p(self, share: float) -> float:
        """Return a quantile of the cost of a step in microseconds."""
        return float(np.quantile(self.steps, share)) * 1e6 if self.steps else float("nan")

    @property
    def build_ms(self) -> float:
        """Median build time in milliseconds."""
        return statistics.median(self.build) * 1e3 if self.build else float("nan")


def timed(work: Callable[[], Any], into: Timings) -> Any:
    """Run a function. Returns its result and the seconds it took."""
    start = time.perf_counter()
    value = work()
    into.append(time.perf_counter() - start)
    return value


class Bench:
    """The methods under test, with the tokenizer they share."""

    def __init__(self, tokenizer: Any, eos: int) -> None:
        from llguidance import LLTokenizer

        self.tokenizer, self.eos = tokenizer, eos
        self.size = tokenizer.get_vocab_size()
        self.ll = LLTokenizer(tokenizer.to_str(), eos_token=eos)

    def ids(self, text: str) -> list[int]:
        """Encode a text."""
        return list(self.tokenizer.encode(text, add_special_tokens=False).ids)

    def ours(self, index: CitationIndex, quotes: Sequence[str], mode: Any, repeats: int) -> Result:
        """Run llguidance with our grammar; forced tokens need no step of the model."""
        from llguidance import LLMatcher
        from llguidance.numpy import allocate_token_bitmask, fill_next_token_bitmask

        out = Result()
        mask = allocate_token_bitmask(1, self.ll.vocab_size)

        def build() -> Any:
            lark = index.grammar(mode, max_sentences=1, close_tag=CLOSE).lark
            return LLMatcher(self.ll, lark)

        for _ in range(repeats):
            fresh = timed(build, out.build)
            if fresh.is_error():
                raise SystemExit(fresh.get_error())
        for quote in quotes:
            # A copy shares the automaton built so far, as the references of one answer do.
            matcher = fresh.deep_copy()
            rest = self.ids(quote + CLOSE)
            while rest:
                start = time.perf_counter()
                forced = matcher.compute_ff_tokens()
                if not forced:
                    fill_next_token_bitmask(matcher, mask, 0)
                out.steps.append(time.perf_counter() - start)
                if forced:
                    if not matcher.consume_tokens(forced):
                        raise SystemExit(matcher.get_error())
                    out.tokens += len(forced)
                    text = self.ll.decode_bytes(rest)
                    rest = self.ids(text[len(self.ll.decode_bytes(forced)) :].decode("utf-8", "ignore"))
                    continue
                if not matcher.consume_token(rest[0]):
                    raise SystemExit(f"{quote!r} was refused: {matcher.get_error()}")
                rest = rest[1:]
                out.tokens += 1
                out.sampled += 1
        return out

    def xgrammar(self, sentences: Sequence[str], quotes: Sequence[str], repeats: int) -> Result:
        """Run xgrammar with the same alternation."""
        import xgrammar as xg

        vocabulary = [self.ll.decode_bytes([i]) for i in range(self.size)]
        info = xg.TokenizerInfo(
            vocabulary, vocab_type=xg.VocabType.RAW, vocab_size=self.size, stop_token_ids=[self.eos]
        )
        body = " | ".join(json.dumps(s, ensure_ascii=False) for s in sentences)
        grammar = f"root ::= s {json.dumps(CLOSE)}\ns ::= {body}\n"
        out = Result()
        for _ in range(repeats):
            compiler = xg.GrammarCompiler(info, cache_enabled=False)
            compiled = timed(partial(compiler.compile_grammar, grammar), out.build)
        mask = xg.allocate_token_bitmask(1, self.size)
        for quote in quotes:
            matcher = xg.GrammarMatcher(compiled)
            for token in self.ids(quote + CLOSE):
                timed(partial(matcher.fill_next_token_bitmask, mask), out.steps)
                matcher.accept_token(token)
                out.tokens += 1
                out.sampled += 1
        return out

    def outlines(self, sentences: Sequence[str], quotes: Sequence[str]) -> Result:
        """Run outlines-core with the same alternation as a regular expression."""
        from outlines_core import Guide, Index, Vocabulary

        pieces: dict[bytes, list[int]] = {}
        for i in range(self.size):
            if i != self.eos and self.ll.decode_bytes([i]):
                pieces.setdefault(self.ll.decode_bytes([i]), []).append(i)
        vocabulary = Vocabulary(self.eos, pieces)
        pattern = f"({'|'.join(re.escape(s) for s in sentences)}){re.escape(CLOSE)}"
        out = Result()
        index = timed(lambda: Index(pattern, vocabulary), out.build)
        for quote in quotes:
            guide = Guide(index)
            for token in self.ids(quote + CLOSE):
                timed(guide.get_tokens, out.steps)
                guide.advance(token)
                out.tokens += 1
                out.sampled += 1
        return out

    def trie(self, sentences: Sequence[str], quotes: Sequence[str], repeats: int) -> Result:
        """Run a trie of encoded sentences through transformers' ``prefix_allowed_tokens_fn`` and its processor."""
        import torch
        from transformers.generation.logits_process import PrefixConstrainedLogitsProcessor

        out = Result()

        def build() -> dict[int, Any]:
            root: dict[int, Any] = {}
            for sentence in sentences:
                node = root
                for token in self.ids(sentence + CLOSE):
                    node = node.setdefault(token, {})
            return root

        for _ in range(repeats):
            root = timed(build, out.build)

        def allowed(_: int, tokens: Any) -> list[int]:
            node = root
            for token in tokens.tolist():
                node = node[token]
            return list(node) or [self.eos]

        processor = PrefixConstrainedLogitsProcessor(allowed, num_beams=1)
        scores = torch.zeros(1, self.size)
        for quote in quotes:
            tokens = self.ids(quote + CLOSE)
            for at in range(len(tokens)):
                prefix = torch.tensor([tokens[:at]], dtype=torch.long)
                timed(partial(processor, prefix, scores), out.steps)
                out.tokens += 1
                out.sampled += 1
        return out


def attempt(name: str, package: str, work: Callable[[], Result]) -> Result | None:
    """Run a competitor; print how to install it and return None if it is missing."""
    try:
        return work()
    except ImportError as error:
        print(f"skipped {name}: {error} (pip install {package})")
        return None


def show(rows: Sequence[tuple[str, str, Result]]) -> None:
    """Print a table."""
    print(f"\n{'problem':<18}{'method':<24}{'build ms':>10}{'step p50 µs':>13}{'p99 µs':>10}{'tokens':>8}{'steps':>8}")
    for problem, method, r in rows:
        print(
            f"{problem:<18}{method:<24}{r.build_ms:>10.1f}{r.p(0.5):>13.1f}{r.p(0.99):>10.1f}{r.tokens:>8}{r.sampled:>8}"
        )


def texts_and_offsets(quick: bool) -> dict[str, float]:
    """Measure the throughput of the sentence splitter and the cost of resolving a quote."""
    text = " ".join(p.text for p in passages(2000))
    runs: Timings = []
    for _ in range(3):
        timed(lambda: split_sentences(text), runs)
    large = passages(1600, seed=3)
    index = CitationIndex(large)
    quotes = [s.text for s in random.Random(0).sample(index.sentences, 20 if quick else 100)]
    resolve: Timings = []
    fuzzy: Timings = []
    align_quote("warm the normalised texts up, as the first quote of an answer does", large)
    for quote in quotes:
        timed(partial(index.resolve, quote), resolve)
        timed(partial(align_quote, quote[:10] + "x" + quote[12:], large), fuzzy)
    size = sum(len(p.text) for p in large)
    figures = {
        "split_mb_per_s": len(text.encode()) / min(runs) / 1e6,
        "resolve_ms": statistics.median(resolve) * 1e3,
        "align_fuzzy_ms": statistics.median(fuzzy) * 1e3,
    }
    print(
        f"\nsplit_sentences {figures['split_mb_per_s']:.1f} MB/s; over {size / 1000:.0f} kB of passages: resolve "
        f"{figures['resolve_ms']:.2f} ms, align_quote (fuzzy) {figures['align_fuzzy_ms']:.1f} ms a quote"
    )
    return figures


def main() -> None:
    parser = command_line(__doc__, quick="fewer quotes and repetitions", data=False)
    parser.add_argument("--tokenizer", metavar="FOLDER", help="with tokenizer.json, or encoder.json and vocab.bpe")
    args = parser.parse_args()
    repeats, drawn = (3, 10) if args.quick else (7, 40)

    everything = passages(1000)
    tokenizer, eos = load_tokenizer(args.tokenizer, [p.text for p in everything], 8000)
    bench = Bench(tokenizer, eos)
    print(f"vocabulary {bench.size}; {drawn} quotes a problem; builds: median of {repeats}")
    rng = random.Random(1)
    rows: list[tuple[str, str, Result]] = []
    by: dict[tuple[int, str], Result] = {}
    for count in (20, 100, 1000):
        index = CitationIndex(passages(count))
        sentences = list(dict.fromkeys(s.text for s in index.sentences))
        quotes = rng.choices(sentences, k=drawn)
        found: dict[str, Result | None] = {"ours": bench.ours(index, quotes, "sentence", repeats)}
        found["xgrammar"] = attempt(
            "xgrammar", "xgrammar", partial(bench.xgrammar, sentences, quotes, 1 if count > 100 else repeats)
        )
        if count <= (20 if args.quick else 100):
            found["outlines-core"] = attempt(
                "outlines-core", "outlines-core", partial(bench.outlines, sentences, quotes)
            )
        found["prefix_allowed_tokens_fn"] = attempt(
            "transformers", "transformers", partial(bench.trie, sentences, quotes, repeats)
        )
        for name, result in found.items():
            if result:
                rows.append((f"{count} sentences", name, result))
                by[count, name] = result
    text = " ".join(p.text for p in passages(1000, seed=2))[:20_000]
    spans = CitationIndex([Passage("long", text)])
    drawn_spans = []
    for _ in range(drawn):
        cuts = [m.start() for m in re.finditer(r"\b(?=\w)", text)]
        start = rng.randrange(len(cuts) - 40)
        drawn_spans.append(text[cuts[start] : cuts[start + rng.randint(5, 39)]].strip())
    rows.append(("20 kB spans", "ours", bench.ours(spans, drawn_spans, "span", repeats)))
    show(rows)

    ours = by[1000, "ours"]
    figures: dict[str, float] = {
        "build_ms_1000_sentences": ours.build_ms,
        "step_us_p50": ours.p(0.5),
        "step_us_p99": ours.p(0.99),
        "forwards_saved_share": 1 - ours.sampled / ours.tokens,
        "span_build_ms": rows[-1][2].build_ms,
        "span_step_us_p50": rows[-1][2].p(0.5),
        "span_forwards_saved_share": 1 - rows[-1][2].sampled / rows[-1][2].tokens,
    }
    if (1000, "xgrammar") in by:
        figures["build_ratio_vs_xgrammar"] = by[1000, "xgrammar"].build_ms / ours.build_ms
    if (20, "outlines-core") in by:
        figures["build_ratio_vs_outlines"] = by[20, "outlines-core"].build_ms / by[20, "ours"].build_ms
    figures |= texts_and_offsets(args.quick)
    if args.tokenizer is None:
        from citation_pairs import pairs_per_second  # a module in this folder

        figures |= pairs_per_second(tokenizer, passages(35, seed=5), args.quick)
    print("\nForced tokens need no forward of the model: share saved inside references:", end=" ")
    print(f"{figures['forwards_saved_share']:.3f} of {ours.tokens} tokens (1,000 sentences)")
    for name in sorted(k for k in figures if "ratio" in k):
        print(f"{name}: {figures[name]:.0f} times our build time (the same sentences, one run)")
    write_figures(figures, args.json)


if __name__ == "__main__":
    main()
