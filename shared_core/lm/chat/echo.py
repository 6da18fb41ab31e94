"""Find the part of a reply that repeats the prompt.

Base models behind some clients (``HuggingFacePipeline``, MockLLM) give the prompt back in front of their own words.
What is repeated is no answer: our instructions hold an example of the form a reply should have. The comparison passes
over blanks, which decoding changes, and over marks of neutralisation.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from shared_core.lm.neutralise import MARK

_BLANKS = re.compile(rf"[\s{MARK}]+")
_SHORTEST = 12
"""Characters without blanks. A shorter prompt may well be how the answer begins."""
_SHORTEST_PART = 24
"""Characters of a reply that is nothing but the beginning of the prompt."""
_LONG = 60
"""From so many characters on, what was sent is known again behind a preamble that a template put before it."""
_PREAMBLE = 300
# What templates write around messages, as text or as control tokens.
_ROLE = re.compile(
    r"<\|[^<>|]{1,40}\|>|</?s>|\[/?INST\]|<</?SYS>>|<(?:start|end)_of_turn>|<bos>|<｜[^<>｜]{1,40}｜>|#{2,4}(?=\w)|"
    r"(?:human|user|system|assistant|ai|model|bot|chatbot|instruction|response|developer|prompt|output):?",
    re.IGNORECASE,
)
_HEADS = re.compile(f"(?:{_ROLE.pattern})+", re.IGNORECASE)
_OPENS = re.compile(
    r"\s*(?:(?:<\|[^<>|]{1,40}\|>|\[/INST\]|</?s>|<(?:start|end)_of_turn>|<｜[^<>｜]{1,40}｜>|#{2,4}(?=\s*\w)|"
    r"(?:assistant|ai|model|bot|chatbot|response)\s*(?::|(?=\r?\n|<\|)))\s*)+",
    re.IGNORECASE,
)


def find_own_words(reply: str, messages: Sequence[str], text: str) -> int:
    """Return the offset at which a model's own words begin: after what it repeats, 0 if it repeats nothing.

    Args:
        reply: the whole of it.
        messages: contents of the messages that were sent, in order.
        text: the same as one text, as a model that completes was sent it.
    """
    said = _BLANKS.sub("", reply)
    if len(said) < _SHORTEST:
        return 0
    whole = _BLANKS.sub("", text)
    if len(whole) >= _SHORTEST and said.startswith(whole):
        end = len(whole)
    elif len(said) >= _SHORTEST_PART and whole.startswith(said):  # cut off within the prompt
        return len(reply)
    elif (start := whole.rfind(said[:_LONG])) >= 0 and len(whole) - start >= _LONG and said.startswith(whole[start:]):
        end = len(whole) - start  # the end of the prompt alone, as of clients that cut long prompts at their beginning
    else:
        end = _end_of_messages(said, [_BLANKS.sub("", m) for m in messages])
    if end == 0:
        return 0
    place = _place_of(reply, end)
    opening = _OPENS.match(reply, place)
    return opening.end() if opening is not None else place


def find_examples(reply: str, examples: Sequence[str]) -> list[tuple[int, int]]:
    """Find lines of our instructions (the form of a reply) that the reply repeats: (start, end), ascending."""
    found: list[tuple[int, int]] = []
    for example in examples:
        words = example.split()
        if not words or words[0][:8] not in reply:
            continue
        found += [m.span() for m in re.finditer(r"\s*".join(map(re.escape, words)), reply)]
    apart: list[tuple[int, int]] = []
    for start, end in sorted(found):
        if not apart or start >= apart[-1][1]:
            apart.append((start, end))
    return apart


def _end_of_messages(said: str, messages: Sequence[str]) -> int:
    """Return the end of the last message in the reply, both without blanks; 0 if not only a template precedes."""
    *others, last = messages or ("",)
    if len(last) < _SHORTEST:
        return 0
    heads = _HEADS.match(said)
    rest = said[heads.end() if heads else 0 :]
    if len(rest) >= _SHORTEST_PART and last.startswith(rest):  # cut off within the message
        return len(said)
    start = said.find(last)
    if start < 0:
        return 0
    before = said[:start]
    for other in others:
        before = before.replace(other, "", 1) if other else before
    foreign = _ROLE.sub("", before)
    if foreign and not (len(last) >= _LONG and len(foreign) <= _PREAMBLE):
        return 0
    return start + len(last)


def _place_of(text: str, count: int) -> int:
    """Return the offset after the first ``count`` characters that are not blanks."""
    place = 0
    for blank in _BLANKS.finditer(text):
        run = blank.start() - place
        if run >= count:
            break
        count -= run
        place = blank.end()
    return place + count
