"""Find evidence for claims: windows of whole sentences of the passages, ranked by their words."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from shared_core.abstention.statements import LEANING
from shared_core.citation.facts.rows import Block, Row, blocks_of, of_other_row
from shared_core.citation.facts.tokens import all_tokens, sentences_of, telling_keys, tokens_of
from shared_core.citation.headings import is_heading
from shared_core.citation.sentences import split_sentences
from shared_core.lm.base import Prompt
from shared_core.lm.chat.layout import without_halves
from shared_core.pipelines.json_passages import WrittenPassage, write_json
from shared_core.reading.places import section_of
from shared_core.retrieval.bm25 import BM25Retriever
from shared_core.retrieval.tokenizer import Tokenizer
from shared_core.types import Answer, Claim, Passage, Span, check_passages

WINDOW = 900
"""Code points of a window at most (a longer sentence is a window of its own): about as much as a judge reads well."""


@dataclass(frozen=True, slots=True)
class Window:
    """A run of consecutive sentences of one passage, or the row of a table with what stands above it.

    Attributes:
        sentences: at least one, in the order of the text.
        above: heading and names of the columns, if the sentences are a row.
        rows_left_out: rows of the passage that are not of this window, though they may stand between its sentences.
    """

    passage: Passage
    sentences: tuple[Span, ...]
    above: tuple[Span, ...] = ()
    rows_left_out: tuple[tuple[int, int], ...] = ()

    @property
    def body(self) -> str:
        """The sentences, with what stands between them."""
        if self.rows_left_out:
            return "\n".join(s.text for s in (*self.above, *self.sentences))
        return self.passage.text[self.sentences[0].start : self.sentences[-1].end]

    @property
    def around(self) -> str:
        """Title and text of the passage, which may name what the window speaks of; without the rows left out."""
        edges = [(0, 0), *self.rows_left_out, (len(self.passage.text),) * 2]
        return titled(self.passage, "\n".join(self.passage.text[a:b] for (_, a), (b, _) in pairwise(edges)))

    @property
    def quotable(self) -> tuple[Span, ...]:
        """The sentences but for bare headings, which state nothing; all if there are no others."""
        text = self.passage.text
        return tuple(s for s in self.sentences if not is_heading(text, s.start, s.end)) or self.sentences

    def with_heading(self, spans: Sequence[Span]) -> str:
        """Return the text of some of its sentences, after the heading above them."""
        before = [
            s for s in self.sentences if s.end <= spans[0].start and is_heading(self.passage.text, s.start, s.end)
        ]
        return titled(self.passage, "\n".join(s.text for s in (*self.above, *before[-1:], *spans)))

    @property
    def text(self) -> str:
        """The text that a judge reads: after title and headings, which often say who "she" is."""
        return titled(self.passage, self.body)


def ours(text: str) -> Prompt:
    """Return words of ours in a message of the user, in which control tokens take effect."""
    return Prompt.trusted(text, role="user")


def theirs(text: str) -> Prompt:
    """Return a stranger's words in a message of the user, which never become control tokens."""
    return Prompt.untrusted(text, role="user")


def cited_spans(claim: Claim) -> list[Span]:
    """Return the spans that a claim's citations show: of each, those of its first place."""
    return [s for citation in claim.citations for s in citation.primary]


def with_cited(passages: Sequence[Passage], claims: Iterable[Claim], found: Iterable[Passage]) -> list[Passage]:
    """Return the passages, and behind them those of ``found`` that claims cite besides."""
    cited = {s.passage_id for c in claims for s in cited_spans(c)} - {p.id for p in passages}
    return [*passages, *(p for p in found if p.id in cited)]


def quote_numbers(claim: Claim, answer: Answer) -> list[int]:
    """Return the numbers of a claim's quotes among ``answer.numbered_spans()``, each once."""
    numbers = {(s.passage_id, s.start, s.end): i for i, s in enumerate(answer.numbered_spans(), 1)}
    return list(dict.fromkeys(numbers[s.passage_id, s.start, s.end] for s in cited_spans(claim)))


def quote_of(claim: Claim) -> str:
    """Return all that a claim quotes, as one text: the passages' words, also where a model wrote a quote otherwise."""
    return " ".join(span.text for span in cited_spans(claim))


def known_probability(value: float | None) -> float | None:
    """Return the value if it is a probability; NaN and numbers outside [0, 1] are unknown."""
    return value if value is not None and 0.0 <= value <= 1.0 else None


def lowest(*values: float | None) -> float | None:
    """Return the lowest known value; ``None`` if none is known."""
    return min((p for p in values if p is not None), default=None)


def words_only(text: str) -> str:
    """Return the words of a text in lower case, with a blank between two of them.

    >>> words_only("Built in 1911, by Holm.")
    'built in 1911 by holm'
    """
    return " ".join(re.findall(r"\w+", text.casefold()))


def contains_words(text: str, part: str) -> bool:
    """Return whether the words of ``part`` are a run of words of the text; it has to have some.

    >>> contains_words("It was built in 1911, by Holm.", "in 1911"), contains_words("Built in 1911.", "19")
    (True, False)
    """
    words = words_only(part)
    return bool(words) and f" {words} " in f" {words_only(text)} "


def complete_sentences(text: str) -> str:
    """Return a text that a limit cut off up to its last complete sentence; empty if there is none."""
    whole = split_sentences(text)[:-1]  # nobody can tell whether the last one is complete
    return text[: whole[-1][1]] if whole else ""


def quoted_places(claim: Claim) -> set[tuple[str, int, int]]:
    """Return the places that a claim quotes: passage id, start and end in code points."""
    return {(s.passage_id, s.start, s.end) for citation in claim.citations for s in citation.spans}


def headings_of(passage: Passage) -> str:
    """Return the title and the headings of the section that a passage is from, as one line; "" if it has none.

    >>> headings_of(Passage("b7", "Maximum pressure: 6 bar.", "Boilers", {"section": "Boilers > Boiler B7"}))
    'Boilers > Boiler B7'
    """
    parts = [part for part in (passage.title, *section_of(passage).split(" > ")) if part.strip()]
    return " > ".join(" ".join(part.split()) for part in dict.fromkeys(parts))


def titled(passage: Passage, text: str | None = None) -> str:
    """Put the passage's title and headings before a piece of its text; before all of it by default."""
    text = passage.text if text is None else text
    above = headings_of(passage)
    return f"{above}\n{text}" if above else text


def around_quotes(claim: Claim, passages: Iterable[Passage]) -> str:
    """Return the passages that a claim cites, titles first, without its quotes.

    Beside a quote this is its context. With the quote in both, a number of it would be there twice, and "48 hours" the
    sum of "24 hours" and "24 hours".

    >>> from shared_core.types import Citation
    >>> passage = Passage("p", "It is a pump. Krall built it.", "Pumps")
    >>> around_quotes(Claim("Krall built it.", None, (Citation((passage.span(14, 29),)),)), [passage])
    'Pumps\\nIt is a pump. '
    """
    spans = cited_spans(claim)
    found = []
    for passage in passages:
        places = sorted({(s.start, s.end) for s in spans if s.passage_id == passage.id})
        if places:
            edges = [0, *itertools.chain.from_iterable(places), len(passage.text)]
            left = [passage.text[a:b] for a, b in zip(edges[::2], edges[1::2], strict=True)]
            found.append(titled(passage, "".join(left)))
    return "\n".join(found)


def evidence_for(claim: Claim, by_id: Mapping[str, Passage], question: str = "") -> str:
    """Return the text that shows whether a claim holds: its quotes, and before them what they need to be understood.

    That is the title of their passage, the headings of its section, and the sentence that a pronoun at the beginning of
    a quote refers to; each only if it holds words of the claim that the quotes lack.

    Args:
        question: counts as well, where it is known that the claim gives its answer.

    >>> from shared_core.types import Citation
    >>> passage = Passage("p", "The AquaLift is a pump. It was built by Krall.", "Pumps")
    >>> claim = Claim("Krall built the AquaLift.", None, (Citation((passage.span(24, 46),)),))
    >>> evidence_for(claim, {"p": passage})
    'The AquaLift is a pump.\\nIt was built by Krall.'
    """
    quoted = quote_of(claim)
    missing = _telling(claim.text) - _telling(quoted)
    before: dict[str, None] = {}
    for span in cited_spans(claim):
        passage = by_id.get(span.passage_id)
        if passage is not None:
            above = [passage.title, section_of(passage)]
            before.update(dict.fromkeys([*above, _said_before(span, passage)]))
    needed = [text for text in (*before, question) if missing & _telling(text)]
    return "\n".join([*needed, quoted])


def _telling(text: str) -> set[str]:
    return telling_keys(all_tokens(sentences_of(text)))


_BACK = 3  # sentences at most, each of which begins with a pronoun


def _said_before(span: Span, passage: Passage) -> str:
    """Return the sentences before a quote that begins with a pronoun, back to one that does not; else nothing."""
    text, first = span.text, span.start
    earlier = [(a, b) for a, b in split_sentences(passage.text) if b <= span.start]
    for start, end in reversed(earlier[-_BACK:]):
        if not LEANING.match(text):
            break
        text, first = passage.text[start:end], start
    return passage.text[first : span.start].strip()


class Evidence:
    """The passages that claims are checked against, cut into windows and indexed by words.

    Windows of a passage that is JSON have statements of its records for its text.

    Args:
        passages: in any order; duplicates count once, passages without text not at all.

    Raises:
        PassageError: two passages with the same id differ, or an item is no passage.

    >>> evidence = Evidence([Passage("a", "The dam was built in 1911."), Passage("b", "Herons nest there.")])
    >>> [window.passage.id for window in evidence.best(["Herons nest on the dam."], [[]], k=2)[0]]
    ['b', 'a']
    """

    def __init__(self, passages: Iterable[Passage]) -> None:
        self.passages = check_passages(passages)
        written = ((p.id, found) for p in self.passages if (found := write_json(p)) is not None)
        self._written: Mapping[str, WrittenPassage] = dict(written)
        read = (self._written[p.id].passage if p.id in self._written else p for p in self.passages)
        self.windows = [w for p in read for w in _windows(p)]
        self._numbers: dict[str, list[int]] = {}
        for number, window in enumerate(self.windows):
            self._numbers.setdefault(window.passage.id, []).append(number)
        # id: its number. A store takes no half of a surrogate pair (an emoji that was cut); a judge reads over it.
        pieces = [
            Passage(str(i), without_halves(w.body), without_halves(w.passage.title)) for i, w in enumerate(self.windows)
        ]
        self._index = BM25Retriever(pieces)  # adds each title to the body itself
        self._tokenize = Tokenizer()  # the same words as the index's

    def best(self, claims: Sequence[str], near: Sequence[Sequence[str]], k: int) -> list[list[Window]]:
        """Rank for each claim the ``k`` windows most like it, best first; fewer only if there are no more.

        Args:
            near: for each claim the ids of passages that a retriever found for it, best first. They fill up the list
                where words do not match, and the best window of the first one is always in it.
            k: windows for each claim, at least 2.
        """
        if not self.windows:
            return [[] for _ in claims]
        found = self._index.retrieve_many(list(claims), max(k, _DEEP))
        return [
            [self.windows[i] for i in self._choose([int(p.id) for p in ranked], ids, k)]
            for ranked, ids in zip(found, near, strict=True)
        ]

    def _choose(self, ranked: list[int], near: Sequence[str], k: int) -> list[int]:
        of_near = [number for i in near for number in self._numbers.get(i, ())]
        # A retriever may know by meaning what words miss, so its first passage always has its say.
        first = set(self._numbers.get(near[0], ())) if near else set()
        # That passage's window of the best words; its first one where no word matches.
        retrieved = next((n for n in ranked if n in first), next(iter(of_near), None))
        # By words, then by retrieval, then any: a claim without a matching word is judged all the same.
        chosen = list(dict.fromkeys([*ranked, *of_near, *range(min(k, len(self.windows)))]))[:k]
        if retrieved is not None and retrieved not in chosen:
            chosen[-1] = retrieved  # the least like it gives way
        return chosen

    def like(self, claim: str, spans: Sequence[Span]) -> list[Span]:
        """Sort spans by how many of the claim's words they hold, most first; ties keep their order."""
        words = set(self._tokenize(claim))
        return sorted(spans, key=lambda s: -len(words & set(self._tokenize(s.text))))

    def nearest(self, text: str) -> tuple[Span, ...]:
        """Return the one sentence most like a text, of the window most like it; none without passages."""
        ((window, *_),) = self.best([text], [[]], 2) if self.windows else [[None]]
        return self.quoted(self.like(text, window.quotable)[:1], text) if window is not None else ()

    def quoted(self, spans: Sequence[Span], claim: str) -> tuple[Span, ...]:
        """Return what the passages themselves have for spans of the windows: other places where they are JSON."""
        written = self._written
        found = (written[s.passage_id].quoted(s, claim) if s.passage_id in written else [s] for s in spans)
        return tuple(dict.fromkeys(itertools.chain.from_iterable(found)))

    def narrowed(self, claim: str, windows: Sequence[Window]) -> list[Window]:
        """Replace windows with rows of a table or list by windows of the rows that the claim speaks of.

        Rows joined would hold the name of one and the value of another. Where the claim names one row, that row, and
        the prose around with it, are all that bears on it; where it names none or several, the rows most like it are
        put beside the window. If it has a value of another row than it names, the window tells.
        """
        words = frozenset(t.key for t in tokens_of(claim))
        found = [narrow for w in windows for narrow in self._about_named(words, w) or self._narrow(claim, words, w)]
        return list(dict.fromkeys(found))[: 2 * len(windows)]

    def _about_named(self, words: frozenset[str], window: Window) -> list[Window]:
        """Return windows of a JSON passage's statements on the records that a claim names; none if it names none."""
        written = self._written.get(window.passage.id)
        spans = written.about(words) if written is not None else []
        return [Window(window.passage, (span,)) for span in spans[:_RECORDS]]

    def _narrow(self, claim: str, words: frozenset[str], window: Window) -> list[Window]:
        passage, first, last = window.passage, window.sentences[0].start, window.sentences[-1].end
        blocks = blocks_of(passage.text)
        inside = [(b, row) for b in blocks for row in b.rows if first <= row.start and row.end <= last]
        if not inside:
            return [window]
        named = [(b, row) for b in blocks for row in b.named(words) if (b, row) in inside]
        if any(of_other_row(sentence, window.text) for sentence in sentences_of(claim)):
            return [window]
        alone = len(named) == 1
        spans = {(row.start, row.end): passage.span(row.start, row.end) for _, row in inside}
        like = self.like(claim, list(spans.values()))
        chosen = named or [(b, r) for s in like[:_ROWS] for b, r in inside if (r.start, r.end) == (s.start, s.end)]
        rows = [_row_window(passage, blocks, block, row) for block, row in chosen[:_ROWS]]
        if not alone:
            return [window, *rows]
        kept = [s for s in window.sentences if not any(s.start < b and a < s.end for a, b in spans)]
        prose = Window(
            passage, tuple(sorted([*kept, *rows[0].sentences], key=lambda s: s.start)), (), rows[0].rows_left_out
        )
        return [*rows, prose] if any(not is_heading(passage.text, s.start, s.end) for s in kept) else rows


_RECORDS = 4
"""Statements on records that a claim names at most."""
_ROWS = 2
"""Rows of a window at most that are judged by themselves."""


def _row_window(passage: Passage, blocks: Sequence[Block], block: Block, row: Row) -> Window:
    """Make the window of one row: the heading above its table, the line with the names of the columns, the row."""
    text, top = passage.text, min(block.rows[0].start, (block.head or (block.rows[0].start,))[0])
    before = [passage.span(a, b) for a, b in split_sentences(text[:top])]
    above = [s for s in before if is_heading(text, s.start, s.end)][-1:]
    if before and before[-1].text.endswith(":") and before[-1] not in above:  # "How long to keep away:"
        above.append(before[-1])
    head = [passage.span(*block.head)] if block.head else []
    left_out = [(r.start, r.end) for b in blocks for r in b.rows if r != row]
    return Window(passage, (passage.span(row.start, row.end),), (*above, *head), tuple(left_out))


_DEEP = 50
"""Windows ranked for a claim; the best one of the retriever's first passage is looked up among them."""


def _windows(passage: Passage) -> Iterator[Window]:
    """Cut a passage into windows of whole sentences; each begins with the last sentence of the window before it."""
    spans = [passage.span(start, end) for start, end in split_sentences(passage.text)]
    first = 0
    while first < len(spans):
        last = first
        while last + 1 < len(spans) and spans[last + 1].end - spans[first].start <= WINDOW:
            last += 1
        yield Window(passage, tuple(spans[first : last + 1]))
        if last + 1 == len(spans):
            return
        # `first + 1`: after one sentence as long as a window there is no overlap, and the loop must go on.
        first = max(first + 1, last)  # the overlap keeps together what two neighbouring sentences say


def gather(found: Iterable[Sequence[Passage]]) -> Mapping[str, Passage]:
    """Merge the passages of several retrievals by id; the first one with an id is kept."""
    passages: dict[str, Passage] = {}
    for passage in itertools.chain.from_iterable(found):
        passages.setdefault(passage.id, passage)
    return passages
