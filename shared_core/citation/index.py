"""The citable sentences of a set of passages: the grammar that forces quotes from them, and where a quote stands."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Literal

from shared_core.citation import grammar as rules
from shared_core.citation.grammar import AnswerFormat, Run
from shared_core.citation.headings import is_heading
from shared_core.citation.sentences import SentenceSplitter, split_sentences, trim
from shared_core.errors import GrammarError, InputError
from shared_core.lm.requests import Grammar
from shared_core.types import Citation, Passage, Span, check_passages

__all__ = ["CitationIndex", "find_all", "occurrences"]

Mode = Literal["sentence", "span"]
_MOST_SENTENCES = 64


class CitationIndex:
    """Sentences of passages with their offsets, the grammar of quotes from them, and the way back to offsets.

    Args:
        passages: what may be quoted. The same passage twice counts once; two passages of one id and different texts
            are a PassageError.
        splitter: cuts a text into sentences; ``split_sentences`` by default. Its ranges are checked.
        layout: the layout of a whole answer; its tags are what no quote may contain, so that a passage cannot forge
            the structure of an answer (those sentences stay in ``sentences`` but cannot be cited).

    Raises:
        PassageError: see above.
        InputError: the splitter gave ranges that overlap, are empty or lie outside of the text.

    >>> index = CitationIndex([Passage(id="p1", text="Mira Dorn built the bridge. It is red.")])
    >>> index.resolve("It is red.").spans
    (Span(passage_id='p1', start=28, end=38, text='It is red.'),)
    >>> index.resolve("It is blue.") is None
    True
    """

    def __init__(
        self,
        passages: Iterable[Passage],
        *,
        splitter: SentenceSplitter = split_sentences,
        layout: AnswerFormat | None = None,
    ) -> None:
        self.layout = layout or AnswerFormat()
        self.passages: tuple[Passage, ...] = check_passages(passages)
        self._by_passage = [_spans(passage, splitter) for passage in self.passages]
        # The white space between each sentence and the next; None where a splitter left text out between them.
        self._gaps = [
            tuple(_gap(p.text[a.end : b.start]) for a, b in itertools.pairwise(spans))
            for p, spans in zip(self.passages, self._by_passage)
        ]

    @cached_property
    def sentences(self) -> tuple[Span, ...]:
        """Every sentence of every passage, in their order, repetitions included."""
        return tuple(itertools.chain.from_iterable(self._by_passage))

    @cached_property
    def quotable(self) -> tuple[Span, ...]:
        """The sentences but for headings, which state nothing; all if there are no others."""
        return tuple(s for s in self.sentences if not self.is_heading(s)) or self.sentences

    def is_heading(self, span: Span) -> bool:
        """Whether a sentence of one of the passages is a heading: it names a subject and states nothing."""
        return is_heading(self._texts[span.passage_id], span.start, span.end)

    @cached_property
    def _texts(self) -> dict[str, str]:
        return {p.id: p.text for p in self.passages}

    def __len__(self) -> int:
        """The number of sentences, repetitions included."""
        return sum(map(len, self._by_passage))

    # --- grammars ----------------------------------------------------------------------------------------------

    def grammar(
        self,
        mode: Mode = "sentence",
        *,
        min_sentences: int = 1,
        max_sentences: int = 3,
        open_tag: str = "",
        close_tag: str = "",
        exclude: Iterable[Span | str] = (),
    ) -> Grammar:
        """The grammar of one reference: any tokenization of a quote, and nothing else.

        Args:
            mode: ``sentence``: whole sentences, in any order; those that follow each other in a passage are joined by
                its own white space or by one space, others by one space. ``span``: a substring of one passage that
                neither starts nor ends with white space, nor cuts through a word (a character of a script without
                spaces counts as one).
            min_sentences, max_sentences: of a reference (sentence mode), 1 … 64.
            open_tag, close_tag: text before and after the quote, white space included (``" </reference>"``); empty for
                none. Being part of the grammar, they may merge with their neighbours (``.</``) in any way the tokenizer
                likes.
            exclude: sentences already used, as spans or texts (all occurrences of their text); in span mode,
                stretches that no quote may overlap.

        Raises:
            GrammarError: nothing is left that could be cited.
            InputError: a limit or tag is out of range.
        """
        _check_range("min_sentences", min_sentences, "max_sentences", max_sentences, _MOST_SENTENCES)
        quote = self._quote_rules(mode, min_sentences, max_sentences, _texts(exclude), (open_tag, close_tag))
        return Grammar(rules.reference_grammar(quote, open_tag, close_tag), name=f"reference ({mode})")

    def answer_grammar(
        self,
        mode: Mode = "sentence",
        *,
        min_pairs: int = 1,
        max_pairs: int = 5,
        min_sentences: int = 1,
        max_sentences: int = 3,
        max_claim_chars: int = 600,
        reuse: bool = True,
        exclude: Iterable[Span | str] = (),
    ) -> Grammar:
        """The grammar of a whole answer: ``min_pairs`` … ``max_pairs`` pairs of a quote and a claim (``layout``).

        A claim is one line of 1 … ``max_claim_chars`` characters without any of the tags. Other arguments as for
        ``grammar``.

        Args:
            reuse: whether a sentence may be quoted by more than one pair. ``False`` needs ``mode="sentence"``,
                ``max_sentences=1`` and at most 64 different sentences; beyond that generate reference by reference
                with ``exclude``.

        Raises:
            GrammarError: nothing is left that could be cited.
            InputError: a limit is out of range, or ``reuse=False`` cannot be held.
        """
        _check_range("min_sentences", min_sentences, "max_sentences", max_sentences, _MOST_SENTENCES)
        _check_range("min_pairs", min_pairs, "max_pairs", max_pairs, 1000)
        if max_claim_chars < 1:
            raise InputError(f"max_claim_chars must be at least 1, not {max_claim_chars}.")
        used = _texts(exclude)
        if reuse:
            quote = self._quote_rules(mode, min_sentences, max_sentences, used, ())
            lark = rules.answer_grammar(quote, self.layout, min_pairs, max_pairs, max_claim_chars)
        else:
            if mode != "sentence" or max_sentences != 1:
                raise InputError(
                    "A whole-answer grammar without reuse quotes single sentences.",
                    hint="Use mode='sentence' and max_sentences=1, or generate reference by reference with exclude=.",
                )
            texts = list(dict.fromkeys(t for run in self._runs(used, self.layout.tags) for t in run.texts))
            lark = rules.distinct_answer_grammar(texts, self.layout, min_pairs, max_pairs, max_claim_chars)
        return Grammar(lark, name=f"answer ({mode})")

    def _quote_rules(self, mode: Mode, least: int, most: int, used: frozenset[str], tags: tuple[str, ...]) -> list[str]:
        forbidden = (*self.layout.tags, *(t.strip() for t in tags if t.strip()))
        if mode == "sentence":
            return rules.sentence_rules(self._runs(used, forbidden), least, most)
        if mode != "span":
            raise InputError(f"mode must be 'sentence' or 'span', not {mode!r}.")
        pieces = []
        for passage in self.passages:
            holes = [(at, at + len(text)) for text in used for at in find_all(text, passage.text)]
            pieces += [passage.text[low:high] for low, high in rules.cut_text(passage.text, forbidden, holes)]
        if not pieces:
            raise _nothing_left()
        return rules.span_rules(list(dict.fromkeys(pieces)))

    def _runs(self, used: frozenset[str], tags: tuple[str, ...]) -> list[Run]:
        """Consecutive sentences that can be cited, each run as long as possible."""
        runs: list[Run] = []
        for spans, gaps in zip(self._by_passage, self._gaps):
            texts: list[str] = []
            joints: list[str] = []
            for span, gap in zip(spans, (*gaps, None)):
                citable = span.text not in used and rules.is_writable(span.text, tags)
                if citable:
                    texts.append(span.text)
                if texts and (gap is None or not citable):
                    runs.append(Run(tuple(texts), tuple(joints[: len(texts) - 1])))
                    texts, joints = [], []
                elif texts:
                    joints.append(gap or "")
        if not runs:
            raise _nothing_left()
        return runs

    # --- offsets -----------------------------------------------------------------------------------------------

    def resolve(self, quote: str) -> Citation | None:
        """Find a quote's exact occurrences only (``match="verbatim"``), all of them; ``None`` if there are none.

        White space and the layout's tags around the quote are ignored. A text that occurs in a passage as it is
        gives one span for each occurrence. Otherwise it may be whole sentences joined by white space, as grammars
        write them: it is cut into as few sentences as possible, those that follow each other in a passage become one
        span (with the passage's own white space between them), and each such run gives a span per occurrence.
        ``ambiguous`` is set if any of the runs occurs at more than one place.
        """
        for text in _without_tags(quote, self.layout.tags):
            spans = occurrences(text, self.passages)
            if spans:
                return Citation(tuple(spans), ambiguous=len(spans) > 1)
            parts = self._cut_quote(text)
            if parts:
                return self._cite(parts)
        return None

    @cached_property
    def _places(self) -> dict[str, list[tuple[int, int]]]:
        """Sentence text -> (passage, sentence) numbers of its occurrences."""
        places: dict[str, list[tuple[int, int]]] = {}
        for p, spans in enumerate(self._by_passage):
            for s, span in enumerate(spans):
                places.setdefault(span.text, []).append((p, s))
        return places

    @cached_property
    def _by_start(self) -> dict[str, list[str]]:
        """Sentence texts by their first characters, longest first."""
        groups: dict[str, list[str]] = {}
        for text in sorted(self._places, key=len, reverse=True):
            groups.setdefault(text[:2], []).append(text)
        return groups

    def _cut_quote(self, quote: str) -> list[str]:
        """The fewest sentences whose texts, with white space between them, make up the quote; empty if none do."""
        size = len(quote)
        best: dict[int, list[str]] = {size: []}  # from a position: the sentences to the end
        reach: dict[int, list[tuple[str, int]]] = {}
        queue = [0]
        while queue:  # forward: all positions where a sentence can start
            at = queue.pop()
            if at in reach:
                continue
            steps = reach[at] = list(self._steps(quote, at))
            queue.extend(nxt for _, nxt in steps if nxt < size)
        for at in sorted(reach, reverse=True):  # backward: the shortest way to the end
            ways = [(len(best[nxt]), i) for i, (_, nxt) in enumerate(reach[at]) if nxt in best]
            if ways:
                text, nxt = reach[at][min(ways)[1]]
                best[at] = [text, *best[nxt]]
        return best.get(0, [])

    def _steps(self, quote: str, at: int) -> Iterator[tuple[str, int]]:
        """Sentences at ``at`` in the quote, each with where the next may start."""
        candidates = self._by_start.get(quote[at : at + 2], ())
        single = self._by_start.get(quote[at], ()) if len(quote[at : at + 2]) == 2 else ()
        for text in (*candidates, *single):
            if quote.startswith(text, at):
                end = at + len(text)
                rest = quote[end:]
                space = len(rest) - len(rest.lstrip())
                if space or not rest or self._can_adjoin(text):
                    yield text, end + space

    def _can_adjoin(self, text: str) -> bool:
        """Somewhere the next sentence follows without white space."""
        return any(s < len(self._gaps[p]) and self._gaps[p][s] == "" for p, s in self._places[text])

    def _cite(self, parts: list[str]) -> Citation:
        spans: dict[tuple[str, int, int], Span] = {}
        ambiguous = False
        i = 0
        while i < len(parts):
            places, count = self._places[parts[i]], 1
            while i + count < len(parts):
                longer = [(p, s) for p, s in places if self._text_after(p, s + count - 1) == parts[i + count]]
                if not longer:
                    break
                places, count = longer, count + 1
            ambiguous |= len(places) > 1
            for p, s in places:
                first, last = self._by_passage[p][s], self._by_passage[p][s + count - 1]
                spans.setdefault(
                    (first.passage_id, first.start, last.end), self.passages[p].span(first.start, last.end)
                )
            i += count
        return Citation(tuple(spans.values()), ambiguous=ambiguous)

    def _text_after(self, passage: int, sentence: int) -> str | None:
        """The next sentence of the passage, if nothing but white space stands between."""
        gaps = self._gaps[passage]
        if sentence >= len(gaps) or gaps[sentence] is None:
            return None
        return self._by_passage[passage][sentence + 1].text


def find_all(quote: str, text: str) -> Iterator[int]:
    """Every position of ``quote`` in ``text``, overlapping ones included."""
    at = text.find(quote)
    while at >= 0:
        yield at
        at = text.find(quote, at + 1)


def occurrences(text: str, passages: Iterable[Passage]) -> list[Span]:
    """Every place of a text in passages."""
    return [Span(p.id, at, at + len(text), text) for p in passages for at in find_all(text, p.text)]


def _spans(passage: Passage, splitter: SentenceSplitter) -> list[Span]:
    spans, last = [], 0
    for start, end in splitter(passage.text):
        if not last <= start < end <= len(passage.text):
            raise InputError(
                f"The sentence splitter gave [{start}, {end}) for passage {passage.id!r} of {len(passage.text)} "
                f"characters, after one that ended at {last}.",
                hint="Ranges must be sorted, not empty, not overlap, and lie within the text.",
            )
        last = end
        left, right = trim(passage.text, start, end)
        if left < right:
            spans.append(passage.span(left, right))
    return spans


def _gap(text: str) -> str | None:
    return None if text.strip() else text


def _texts(exclude: Iterable[Span | str]) -> frozenset[str]:
    if isinstance(exclude, str):
        raise InputError("exclude must be a collection of spans or texts, not one string.")
    return frozenset(filter(None, (e.text if isinstance(e, Span) else e for e in exclude)))


def _without_tags(quote: str, tags: Sequence[str]) -> Iterator[str]:
    """The quote without white space around it; then also without tags around it."""
    text = quote.strip()
    if text:
        yield text
    bare = text
    while True:
        for tag in tags:
            bare = bare.removeprefix(tag).removesuffix(tag).strip()
        if bare == text:
            return
        if bare:
            yield bare
        text = bare


def _check_range(low_name: str, low: int, high_name: str, high: int, limit: int) -> None:
    if not 1 <= low <= high <= limit:
        raise InputError(f"Need 1 <= {low_name} <= {high_name} <= {limit}, not {low}, {high}.")


def _nothing_left() -> GrammarError:
    return GrammarError(
        "The passages hold no sentence that may be cited.",
        hint="Retrieve something, exclude less, or check that the passages are not blank or full of answer tags.",
    )
