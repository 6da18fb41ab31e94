"""Read log-probabilities of the generated tokens from LlamaIndex's lists of the most probable tokens.

LlamaIndex passes on, for each position, the list of the most probable tokens, and does not mark which one was
generated. Where the provider's raw reply does not say it, it is worked out from the text, if that is possible without
guessing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from llama_index.core.base.llms.types import LogProb

from shared_core.lm.chat import Tokens, tokens_of


def tokens_from_top(text: str, top: Sequence[Sequence[LogProb]] | None) -> Tokens | None:
    """The one way to read ``text`` through the lists, one token of each; ``None`` if there is none or more than one."""
    if not top:
        return None
    # ways[i][place]: number of ways (at most 2) to reach that place of the text with the first i lists
    ways: list[dict[int, int]] = [{0: 1}]
    for position in top:
        reached: dict[int, int] = {}
        for place, count in ways[-1].items():
            for token in {entry.token for entry in position}:
                if token and text.startswith(token, place):
                    end = place + len(token)
                    reached[end] = min(2, reached.get(end, 0) + count)
        ways.append(reached)
    if ways[-1].get(len(text)) != 1:
        return None
    tokens, values, place = [], [], len(text)
    for i in range(len(top), 0, -1):
        entry = _ending(top[i - 1], text, place, ways[i - 1])
        tokens.append(entry.token)
        values.append(entry.logprob)
        place -= len(entry.token)
    return tokens_of(tokens[::-1], values[::-1])


def _ending(position: Sequence[LogProb], text: str, end: int, before: Mapping[int, int]) -> LogProb:
    """The entry that leads to ``end`` from a place that can be reached; there is exactly one."""
    for entry in position:
        start = end - len(entry.token)
        if entry.token and start in before and text.startswith(entry.token, start):
            return entry
    raise AssertionError("a reached place has a way to it")
