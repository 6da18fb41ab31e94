"""Grammars whose every output is a quote, in llguidance's Lark dialect.

A whole reference is written as one terminal, that is one regular expression over bytes: so any tokenization of it is
allowed, merges across the tag boundary (``.</``) included, and a sentence that is a prefix of another can still be
ended or followed by any other (separate terminals per sentence would be cut by longest match).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from shared_core.errors import GrammarError, InputError
from shared_core.support.regex import lazy_regex

__all__ = ["AnswerFormat", "Run", "answer_grammar", "chunk_text", "cut_text", "sentence_rules", "span_rules"]

_SURROGATE = lazy_regex("[\ud800-\udfff]")
# What no quote may hold: unpaired surrogates, and SentencePiece's own sign for a space (U+2581), which its tokenizers
# read as a space: the tokens forced for it would spell something else.
_UNWRITABLE = lazy_regex("[\ud800-\udfff\u2581]")
_BITS = 64  # of llguidance's rule parameter
# A character of a script written without spaces counts as a word; so does a run of other word characters and marks.
_UNSPACED_SCRIPTS = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u2fdf\u3005-\u30ff\u31f0-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
_MARKS = (
    "\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed\u0900-\u0903\u093a-\u094f"
    "\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u1ab0-\u1aff\u1dc0-\u1dff\u200c\u200d\u20d0-\u20ff\u3099\u309a\ufe00-\ufe0f"
    "\ufe20-\ufe2f\U0001f3fb-\U0001f3ff"
)
_WORD = lazy_regex(
    rf"[{_UNSPACED_SCRIPTS}][{_MARKS}]*+|(?>(?:[^\W{_UNSPACED_SCRIPTS}]|[{_MARKS}])+)(?>(?:['’][^\W{_UNSPACED_SCRIPTS}]++)*)"
    rf"|\s++|[\s\S][{_MARKS}]*+"
)


@dataclass(frozen=True, slots=True)
class AnswerFormat:
    """Layout of an interleaved answer (ReClaim, Xia et al. 2024): prefix, quote, middle, claim, suffix, repeated.

    Attributes:
        prefix: before each quote.
        middle: between a quote and its claim.
        suffix: after each claim.
        joiner: between pairs.
        tags: strings that neither a quote nor a claim may contain: a passage must not be able to forge structure.

    >>> layout = AnswerFormat(prefix="<q>", middle="</q> ", suffix="\\n", joiner="", tags=("<q>", "</q>"))
    >>> layout.tags
    ('<q>', '</q>')
    """

    prefix: str = "According to the citation: <reference> "
    middle: str = " </reference> We can know that: <claim> "
    suffix: str = " </claim>"
    joiner: str = " "
    tags: tuple[str, ...] = ("<reference>", "</reference>", "<claim>", "</claim>")

    def __post_init__(self) -> None:
        """Refuse a layout whose parts cannot be told apart."""
        if not self.middle or not self.suffix or not all(self.tags):
            raise InputError("An answer format needs a non-empty middle and suffix, and non-empty tags.")


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive sentences of one passage; ``gaps[i]`` is the white space between sentence i and i + 1."""

    texts: tuple[str, ...]
    gaps: tuple[str, ...]


def literal(text: str) -> str:
    """``text`` as a Lark string. GrammarError for an unpaired surrogate, which no model can write."""
    if _SURROGATE.search(text):
        raise GrammarError("A grammar cannot hold an unpaired surrogate.", hint="Decode the text as UTF-8.")
    return json.dumps(text)


def is_writable(text: str, tags: Sequence[str]) -> bool:
    """A model can write it, and it holds none of the tags."""
    return not _UNWRITABLE.search(text) and not any(tag in text for tag in tags)


def tag_rule(tag: str) -> str:
    """A tag as a symbol of a rule; nothing for an empty one."""
    return literal(tag) if tag else ""


# --- whole sentences -----------------------------------------------------------------------------------------------


def sentence_rules(runs: Sequence[Run], least: int, most: int) -> list[str]:
    """Terminals so that ``QUOTE`` is ``least`` … ``most`` sentences.

    Sentences that follow each other in their passage are joined by its own white space or by one space, all others by
    one space. The grammar holds each sentence's text once.
    """
    names: dict[str, str] = {}
    for run in runs:
        for text in run.texts:
            names.setdefault(text, f"S{len(names)}")
    rules = [f"{name}: {literal(text)}" for text, name in names.items()]
    rules.append(_alternatives("W1", names.values()))
    longest = 1
    for count in range(2, most + 1):
        added = _chains(runs, names, count)
        if not added:
            break
        longest = count
        rules += [f"{name}: {body}" for name, body in added.items()]
        rules.append(_alternatives(f"W{count}", added))
    if longest == 1:
        more = f' (" " W1){{{least - 1},{most - 1}}}' if most > 1 else ""
        return [*rules, f"QUOTE: W1{more}"]
    return [*rules, *_compositions(least, most, longest)]


def _alternatives(name: str, options: Iterable[str]) -> str:
    return f"{name}: {' | '.join(dict.fromkeys(options))}"


def _chains(runs: Sequence[Run], names: dict[str, str], count: int) -> dict[str, str]:
    """Terminals of ``count`` consecutive sentences whose joints are all something else than one space."""
    out: dict[str, str] = {}
    for r, run in enumerate(runs):
        for i in range(len(run.texts) - count + 1):
            if all(gap != " " for gap in run.gaps[i : i + count - 1]):
                tail = names[run.texts[i + 1]] if count == 2 else f"C{r}_{i + 1}_{count - 1}"
                body = " ".join(filter(None, (names[run.texts[i]], literal(run.gaps[i]) if run.gaps[i] else "", tail)))
                out[f"C{r}_{i}_{count}"] = body
    return out


def _compositions(least: int, most: int, longest: int) -> list[str]:
    """Sequences of chains, joined by one space, of ``least`` … ``most`` sentences in all."""
    rules = []
    for high in range(most, 0, -1):
        low = least - (most - high)
        options = []
        for count in range(1, min(longest, high) + 1):
            rest = high - count
            if rest == 0:
                options.append(f"W{count}")
            elif low - count <= 0:
                options.append(f'W{count} (" " D{rest})?')
            else:
                options.append(f'W{count} " " D{rest}')
        if options and low <= high:
            rules.append(_alternatives("QUOTE" if high == most else f"D{high}", options))
    return rules


# --- spans ---------------------------------------------------------------------------------------------------------


def chunk_text(text: str) -> list[str]:
    """Cut into words, white space and marks."""
    return _WORD.findall(text)


def cut_text(text: str, tags: Sequence[str], excluded: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The stretches of ``text`` that hold no tag, nothing unwritable and nothing excluded, blank ones left out."""
    holes = sorted({*excluded, *(m.span() for m in _UNWRITABLE.finditer(text))})
    if tags:
        pattern = re.compile("|".join(re.escape(tag) for tag in sorted(tags, key=len, reverse=True)))
        holes = sorted([*holes, *(m.span() for m in pattern.finditer(text))])
    pieces, start = [], 0
    for low, high in holes:
        pieces.append((start, max(start, low)))
        start = max(start, high)
    pieces.append((start, len(text)))
    return [(low, high) for low, high in pieces if text[low:high].strip()]


def span_rules(pieces: Sequence[str]) -> list[str]:
    """Terminals so that ``QUOTE`` is a substring of one of ``pieces`` that neither starts nor ends with white space."""
    rules = [f"P{i}: %regex {json.dumps({'substring_chunks': chunk_text(piece)})}" for i, piece in enumerate(pieces)]
    # A substring grammar also accepts the empty string: the second factor makes that impossible. Python counts the
    # separators U+001C … U+001F as white space, Rust's \s does not.
    trimmed = r"/[^\s\x1c-\x1f]((?s:.)*[^\s\x1c-\x1f])?/"
    return [*rules, _alternatives("ANY", (f"P{i}" for i in range(len(pieces)))), f"QUOTE: ANY & {trimmed}"]


# --- start rules ---------------------------------------------------------------------------------------------------


def reference_grammar(rules: Sequence[str], open_tag: str, close_tag: str) -> str:
    """One reference: the opening tag, a quote, the closing tag; either tag may be empty."""
    start = f"start: {tag_rule(open_tag)} REFERENCE".replace(":  ", ": ")
    return "\n".join([start, f"REFERENCE: QUOTE {tag_rule(close_tag)}".rstrip(), *rules, ""])


def _claim_rules(form: AnswerFormat, max_chars: int) -> list[str]:
    """A claim of at most ``max_chars`` characters (``<`` and what follows it count as one), where no tag can begin.

    Where a tag's first two characters would stand the claim is refused: a little more than the tags themselves, but a
    plain bounded repetition. (Its intersection with "holds no tag" compiles, and from about 300 characters on ends
    the answer after the first pair: llguidance 1.9.)
    """
    tags = {tag.strip() for tag in (*form.tags, form.suffix) if tag.strip()}
    follows: dict[str, set[str]] = {}
    for tag in tags:
        follows.setdefault(tag[0], set()).add(tag[1:2])
    starts = "".join(map(_in_class, sorted(follows)))
    pieces = [f"[^\\n{starts}]"]
    for first, seconds in sorted(follows.items()):
        if "" not in seconds:  # a tag of one character cannot stand at all
            pieces.append(f"{_in_class(first)}[^\\n{starts}{''.join(map(_in_class, sorted(seconds)))}]")
    body = f"[^\\s{starts}]({'|'.join(pieces)}){{0,{max_chars - 1}}}"
    return [f"CLAIM: /{body}/ {literal(form.suffix)}"]


def _in_class(char: str) -> str:
    return f"\\{char}" if char in "\\]^-[&~/" else char


def answer_grammar(rules: Sequence[str], form: AnswerFormat, least: int, most: int, max_chars: int) -> str:
    """``least`` … ``most`` pairs of a quote and a claim of at most ``max_chars`` characters on one line."""
    more = f" ({tag_rule(form.joiner + form.prefix)} pair){{{least - 1},{most - 1}}}" if most > 1 else ""
    return "\n".join(
        [
            f"start: {tag_rule(form.prefix)} pair{more}",
            "pair: REFERENCE CLAIM",
            f"REFERENCE: QUOTE {literal(form.middle)}",
            *_claim_rules(form, max_chars),
            *rules,
            "",
        ]
    )


def distinct_answer_grammar(texts: Sequence[str], form: AnswerFormat, least: int, most: int, max_chars: int) -> str:
    """The same for one sentence a pair, none of them twice: the rules carry the set of those used, one bit each."""
    if len(texts) > _BITS:
        raise InputError(
            f"A whole-answer grammar without reuse holds at most {_BITS} different sentences, not {len(texts)}.",
            hint="Retrieve fewer passages, allow reuse, or generate reference by reference with exclude=.",
        )
    if len(texts) < least:
        raise InputError(
            f"{least} pairs without reuse need as many sentences; there are {len(texts)}.",
            hint="Lower min_pairs or allow reuse.",
        )
    most = min(most, len(texts))  # or the last pair would be a dead end
    lines = ["start: pair1::0x0"]
    for k in range(1, most + 1):
        prefix = tag_rule(form.prefix if k == 1 else form.joiner + form.prefix)
        lines.append(f"pair{k}::_: {prefix} ref{k}::_".replace(":  ", ": "))
        then = f" end{k}::set_bit({{0}})" if k < most else ""
        options = (f"R{i} CLAIM{then.format(i)} %if bit_clear({i})" for i in range(len(texts)))
        lines.append(f"ref{k}::_: " + "\n  | ".join(options))
        if k < most:
            lines.append(f"end{k}::_: " + ('"" | ' if k >= least else "") + f"pair{k + 1}::_")
    lines += [f"R{i}: {literal(text + form.middle)}" for i, text in enumerate(texts)]
    return "\n".join([*lines, *_claim_rules(form, max_chars), ""])
