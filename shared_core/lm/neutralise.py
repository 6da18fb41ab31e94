"""Neutralise control strings reversibly, for backends that take text only.

Where a prompt is sent as token ids, untrusted text is split at id level (``encoding.py``) and needs none of this. A
chat API takes text, tokenizes it itself, and may read ``<|im_start|>`` in a document as the start of a message. So
one invisible character (U+2060, WORD JOINER) is put behind the first character of every control string in
untrusted text; a person or a model reads the text as before, and ``restore`` gives back exactly what was there.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from shared_core.errors import InputError

MARK = "\u2060"
"""What is inserted. SentencePiece's usual normalisation and NFKC keep it; chat templates do not strip it."""

Stretch = tuple[str, bool]
"""A text, and whether it is trusted: written by us, so that its control strings are meant."""

COMMON_CONTROL_STRINGS: tuple[str, ...] = (
    # ChatML, GPT, Qwen, Phi
    "<|im_start|>", "<|im_end|>", "<|im_sep|>", "<|endoftext|>", "<|endofprompt|>", "<|end|>", "<|start|>",
    "<|message|>", "<|channel|>", "<|return|>", "<|call|>", "<|system|>", "<|user|>", "<|assistant|>",
    # Llama 2, Mistral
    "<s>", "</s>", "<unk>", "<pad>", "[INST]", "[/INST]", "<<SYS>>", "<</SYS>>", "[AVAILABLE_TOOLS]", "[TOOL_CALLS]",
    "[TOOL_RESULTS]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]",
    # Llama 3 and 4
    "<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>", "<|eom_id|>", "<|start_header_id|>", "<|end_header_id|>",
    "<|python_tag|>", "<|header_start|>", "<|header_end|>", "<|eot|>",
    # Gemma, DeepSeek, Cohere
    "<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>", "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>",
    "<｜User｜>", "<｜Assistant｜>", "<|START_OF_TURN_TOKEN|>", "<|END_OF_TURN_TOKEN|>", "<|USER_TOKEN|>",
    "<|CHATBOT_TOKEN|>", "<|SYSTEM_TOKEN|>", "<tool_call>", "</tool_call>",
    # What models put around their thoughts: a document must not make the reader of the reply cut there
    "<think>", "</think>", "<thinking>", "</thinking>", "<thought>", "</thought>", "<seed:think>", "</seed:think>",
    "[THINK]", "[/THINK]", "◁think▷", "◁/think▷", "<|START_THINKING|>", "<|END_THINKING|>", "<|START_RESPONSE|>",
    "<|END_RESPONSE|>", "<|begin_of_thought|>", "<|end_of_thought|>", "<|begin_of_solution|>", "<|end_of_solution|>",
)  # fmt: skip
"""Control tokens of widespread chat models; a server's tokenizer is unknown, so all of them are meant."""


def neutralise_stretches(stretches: Sequence[Stretch], control_strings: Iterable[str] = COMMON_CONTROL_STRINGS) -> str:
    """Join stretches, breaking control strings that lie at least partly in untrusted ones; ``restore`` undoes it.

    What a run of trusted stretches says by itself stays. Every other occurrence, over however many stretches it
    reaches, overlapping ones and those in another case or a compatibility form (full-width brackets that a normalising
    tokenizer would fold) included, is broken by a mark (``mark_places``). Marks that were there before are doubled.
    Reading is by code points; nothing else changes.

    Raises:
        InputError: a control string is shorter than two characters or contains the mark, so that no mark could
            break it.
    """
    text = "".join(t for t, _ in stretches)
    places = mark_places(stretches, control_strings)
    if not places and MARK not in text:
        return text
    pieces: list[str] = []
    start = 0
    # A mark that stands where we would insert one joins ours in one run: odd lengths mean "one of them is ours".
    for place in places:
        pieces += [text[start:place].replace(MARK, MARK * 2), MARK]
        start = place
    pieces.append(text[start:].replace(MARK, MARK * 2))
    return "".join(pieces)


def mark_places(stretches: Sequence[Stretch], control_strings: Iterable[str] = COMMON_CONTROL_STRINGS) -> list[int]:
    """Return where marks go, as ascending offsets into the joined stretches. Raises as above.

    An occurrence that begins in untrusted text is broken behind its first character. One that begins in trusted text
    and reaches beyond it is broken where that run of trusted text ends, which is never inside of an occurrence that
    the run holds as a whole: what is trusted is not broken.
    """
    pattern = _pattern(tuple(dict.fromkeys(control_strings)))
    if pattern is None or all(trusted for _, trusted in stretches):
        return []
    ends: list[int] = []  # of runs of equal trust
    trust: list[bool] = []
    length = 0
    for text, trusted in stretches:
        if not text:
            continue
        length += len(text)
        if trust and trust[-1] == trusted:
            ends[-1] = length
        else:
            ends.append(length)
            trust.append(trusted)
    places: set[int] = set()
    for start, end in _occurrences("".join(t for t, _ in stretches), pattern):
        run = bisect_right(ends, start)
        if not trust[run]:
            places.add(start + 1)
        elif end > ends[run]:
            places.add(ends[run])
    return sorted(places)


def restore(text: str) -> str:
    """Undo ``neutralise_stretches``: give back the text of all stretches, whatever they hold."""
    return _RUN.sub(lambda run: MARK * (len(run[0]) // 2), text)


_RUN = re.compile(f"{MARK}+")


@lru_cache(maxsize=64)
def _pattern(control_strings: tuple[str, ...]) -> re.Pattern[str] | None:
    for string in control_strings:
        if len(string) < 2 or MARK in string:
            raise InputError(
                f"The control string {string!r} cannot be neutralised.",
                hint="Control strings need at least two characters and no U+2060.",
            )
    if not control_strings:
        return None
    folded = sorted({_fold(s) for s in control_strings}, key=len, reverse=True)
    first = "".join(sorted({re.escape(s[0]) for s in folded}))  # rules out nearly every place at once
    # A lookahead, so that overlapping occurrences are all found.
    return re.compile(f"(?=[{first}])(?=({'|'.join(map(re.escape, folded))}))")


def _occurrences(text: str, pattern: re.Pattern[str]) -> Iterator[tuple[int, int]]:
    """Find start and end of the longest control string at each place of the text that has one."""
    if text.isascii():
        for m in pattern.finditer(text.lower()):
            yield m.span(1)
        return
    folded = [_fold_character(c) for c in text]
    origin = [i for i, f in enumerate(folded) for _ in f]  # folded offset -> offset of the character it came from
    for m in pattern.finditer("".join(folded)):
        start, end = m.span(1)
        yield origin[start], origin[end - 1] + 1


def _fold(text: str) -> str:
    return "".join(_fold_character(c) for c in text)


@lru_cache(maxsize=4096)
def _fold_character(character: str) -> str:
    return unicodedata.normalize("NFKC", character).lower()
