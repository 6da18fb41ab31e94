"""Convert a provider's reply to a ``Sample``: the answer itself and its tokens.

In this order: the repeated prompt goes, then the model's thoughts, the lines of our own example, the code fence or tags
around the whole, and what follows the first stop string. Each step keeps stretches of the raw text, so that at the end
it is known which tokens are the answer's.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from shared_core.errors import EmptyReplyError, ResponseError
from shared_core.lm.base import FinishReason, Sample, SamplingParams
from shared_core.lm.chat.layout import MARK, Outgoing, restore
from shared_core.lm.chat.reply import Reply, Tokens
from shared_core.lm.chat.thoughts import find_examples, find_own_words, find_thoughts, find_wrapped


class OnlyThoughts(Exception):
    """The model used up its tokens, or met a stop string, before it began to answer; asked otherwise it may answer.

    Attributes:
        error: to hand on if it is not asked again.
    """

    def __init__(self, error: EmptyReplyError) -> None:
        super().__init__(error.message)
        self.error = error


@dataclass(frozen=True, slots=True)
class Kept:
    """The stretches of a raw text that are kept.

    Attributes:
        raw: the whole text.
        stretches: (start, end) in it, ascending.
    """

    raw: str
    stretches: tuple[tuple[int, int], ...]

    @classmethod
    def all_of(cls, raw: str) -> Kept:
        """Keep all of a text."""
        return cls(raw, ((0, len(raw)),))

    @property
    def text(self) -> str:
        """The kept stretches, joined."""
        return "".join(self.raw[a:b] for a, b in self.stretches)

    @property
    def whole(self) -> bool:
        """Whether nothing was left out."""
        return self.text == self.raw

    def between(self, start: int, end: int) -> Kept:
        """Return the kept text from ``start`` to ``end``, in offsets of the kept text."""
        found: list[tuple[int, int]] = []
        place = 0
        for a, b in self.stretches:
            first, last = max(a, a + start - place), min(b, a + end - place)
            if first < last:
                found.append((first, last))
            place += b - a
        return Kept(self.raw, tuple(found))

    def without(self, gaps: Sequence[tuple[int, int]]) -> Kept:
        """Remove gaps, given as ascending offsets of the kept text."""
        edges = [0, *itertools.chain.from_iterable(gaps), sum(b - a for a, b in self.stretches)]
        pieces = [self.between(a, b).stretches for a, b in zip(edges[::2], edges[1::2])]
        return Kept(self.raw, tuple(itertools.chain.from_iterable(pieces)))


@dataclass(frozen=True, slots=True)
class Reading:
    """A reply that was read.

    Attributes:
        text: the answer, its control strings restored.
        stop: the stop string that ended it, if known.
        kept: of the raw text.
        thought: the model thought aloud, in the text or beside it.
    """

    text: str
    finish: FinishReason
    stop: str | None
    kept: Kept
    thought: bool


def read_reply(reply: Reply, params: SamplingParams, sent: Outgoing | None, who: str) -> Reading:
    """Extract the answer from a reply.

    Args:
        sent: the prompt as it was sent; ``None`` where it went out as token ids, which no server repeats.
        who: answered, for errors: the model's name, or the server's address.

    Raises:
        EmptyReplyError: there is no answer in it, or it was withheld.
        OnlyThoughts: it ended before the answer began.
        ResponseError: the provider failed in the middle of it.
    """
    raw = _raw_text(reply, who)
    kept, finished, thought = Kept.all_of(raw), True, reply.thought
    if params.grammar is None:
        if sent is not None and sent.instructs:
            own = find_own_words(raw, [content for _, content in sent.messages], reply.sent or sent.text)
            kept = kept.between(own, len(raw))
        thoughts = find_thoughts(kept.text)
        kept, finished = kept.without(thoughts.stretches), thoughts.finished
        thought = thought or bool(thoughts.stretches)
        if sent is not None:
            kept = kept.without(find_examples(kept.text, sent.examples))
        kept = kept.between(*find_wrapped(kept.text))
    text = kept.text
    unfinished = not text.strip() and (not finished or (thought and reply.finish != "eos"))
    unseen = not raw and reply.cut_off and reply.tokens is None and not reply.shows_all
    if unfinished or unseen:
        raise OnlyThoughts(_unfinished(reply, who))
    end, stop = find_stop(text, params)
    kept = kept.between(0, end)
    answer = restore(kept.text) if sent is not None and sent.changed else kept.text
    return Reading(answer, _finish(reply, params, stop), stop or reply.stop, kept, thought)


def make_sample(reading: Reading, tokens: Tokens | None, *, restored: bool) -> Sample:
    """Make the sample of a reading, with the tokens of its answer where they are known.

    Args:
        restored: control strings were neutralised, so that a token may hold a mark that the answer does not.
    """
    sample = Sample(reading.text, finish_reason=reading.finish, stop=reading.stop)
    if tokens is None:
        return sample
    if tokens.texts is None:
        # It is not known which of them are the answer's.
        return dataclasses.replace(sample, logprobs=tokens.logprobs) if reading.kept.whole else sample
    places = kept_tokens(tokens.texts, reading.kept)
    if places is None:
        unreadable = any(unclear(t) for t in tokens.texts)
        return dataclasses.replace(sample, logprobs=tokens.logprobs) if unreadable and reading.kept.whole else sample
    texts = tuple(tokens.texts[i] for i in places)
    shown = None if restored and MARK in reading.kept.text else texts
    return dataclasses.replace(sample, logprobs=tuple(tokens.logprobs[i] for i in places), tokens=shown)


def find_stop(text: str, params: SamplingParams) -> tuple[int, str | None]:
    """Find the first stop string in a text (the longest at its place): where the text ends, and the string."""
    places = [(text.find(s), -len(s), s) for s in params.stop if s in text]
    if not places:
        return len(text), None
    place, _, stop = min(places)
    return place + (len(stop) if params.include_stop else 0), stop


def kept_tokens(texts: Sequence[str], kept: Kept) -> list[int] | None:
    """Find the tokens that make up the kept text; ``None`` if the tokens are not those of the raw text.

    A token that lies on an edge counts. Tokens behind the text (the one that ended it) do not.
    """
    joined = "".join(texts)
    lead = 0
    if not joined.startswith(kept.raw):
        lead = len(joined) - len(joined.lstrip())  # blanks at the beginning that the provider took off
        if not joined.startswith(kept.raw, lead):
            return None
    found: list[int] = []
    end = -lead
    for i, text in enumerate(texts):
        start, end = end, end + len(text)
        # An empty one is the beginning of a character that a later token completes.
        if any(start < b and (end > a or start == end >= a) for a, b in kept.stretches):
            found.append(i)
    return found


def _raw_text(reply: Reply, who: str) -> str:
    if reply.broken:
        raise ResponseError(f"{who} broke off in the middle of an answer ({reply.reason}).", hint="Try again later.")
    if reply.withheld:
        raise EmptyReplyError(f"{who} withheld its answer ({reply.reason}).", hint="Another model or wording may help.")
    if reply.text is not None and (reply.text.strip() or not (reply.wants_tool or reply.refusal)):
        return reply.text
    if reply.refusal:
        raise EmptyReplyError(f"{who}: the model refused to answer.", hint="Another model or wording may help.")
    if reply.wants_tool:
        raise EmptyReplyError(
            f"{who} called a tool instead of answering.", hint="Give a model that no tools are bound to."
        )
    if reply.cut_off or reply.thought:
        raise OnlyThoughts(_unfinished(reply, who))
    said = f" (it ended with {reply.reason!r})" if reply.reason else ""
    raise EmptyReplyError(f"{who} answered without text{said}.", hint="A content filter or a tool call can cause this.")


def _unfinished(reply: Reply, who: str) -> EmptyReplyError:
    if reply.cut_off:
        why = "it reached its limit of tokens before it began to answer"
    elif reply.finish == "stop":
        why = "a stop string ended it before it began to answer"
    else:
        why = "its thoughts have no end"
    return EmptyReplyError(
        f"{who} answered without text: {why}.",
        hint="A reasoning model may have used up max_tokens with its thoughts: raise thinking_tokens.",
    )


def _finish(reply: Reply, params: SamplingParams, stop: str | None) -> FinishReason:
    if stop is not None:
        return "stop"
    if reply.finish == "eos" and params.grammar is not None:
        return "grammar"
    return reply.finish


def unclear(token: str) -> bool:
    """Return whether a token is not text by itself (half a character), in the providers' various spellings."""
    return "\ufffd" in token or "\\x" in token or token.startswith(("bytes:", "<0x"))
