"""Writing with a model that was trained for Self-RAG: every verdict is a token of its own, read by id.

What was generated goes back into later prompts as ids; documents and the question are untrusted parts of a prompt,
which are tokenized without control tokens. So nothing that a document says can stand where a verdict is read, or look
like one to the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shared_core.lm.base import Prompt, Sample, SamplingParams
from shared_core.pipelines.decision.question_run import QuestionRun
from shared_core.pipelines.evidence import complete_sentences, titled
from shared_core.pipelines.self_rag.segments import (
    Job,
    Move,
    Row,
    Step,
    Written,
    WrittenPath,
    WrittenSegment,
    generate_all,
    judge_rows,
    retrieval_step,
    score_of,
)
from shared_core.reflection import (
    RELEVANCE_TOKENS,
    RETRIEVAL_TOKENS,
    SUPPORT_TOKENS,
    UTILITY_TOKENS,
    ReflectionVocabulary,
    first_position,
    group_logprobs,
    strip_reflection_tokens,
)
from shared_core.reflection.tokens import (
    CONTINUE,
    IRRELEVANT,
    NO_RETRIEVAL,
    NO_SUPPORT,
    PARAGRAPH_END,
    PARAGRAPH_START,
    RETRIEVAL,
)
from shared_core.runtime.flow import Flow, Generate
from shared_core.types import Passage


def instruction(question: str) -> Prompt:
    """The prompt of the published models."""
    return Prompt.trusted("### Instruction:\n") + Prompt.untrusted(question) + Prompt.trusted("\n\n### Response:\n")


def lead(move: Move, passage: Passage | None) -> Prompt:
    """The tokens a segment begins with, and its passage: as text of ours around text of theirs.

    Written so, and not as ids, a tokenizer puts the same space (or none) behind its control tokens as in training.
    """
    if move == "retrieve" and passage is not None:
        opened = Prompt.trusted(RETRIEVAL + PARAGRAPH_START) + Prompt.untrusted(titled(passage))
        return opened + Prompt.trusted(PARAGRAPH_END)
    return Prompt.trusted(CONTINUE if move == "continue" else NO_RETRIEVAL)


@dataclass(frozen=True, slots=True)
class TokenWriter:
    """A ``Writer`` by reflection tokens."""

    question: str
    run: QuestionRun
    vocabulary: ReflectionVocabulary

    @property
    def by(self) -> str:
        """Name of the judge."""
        return "reflection tokens"

    @property
    def declined(self) -> bool:
        """A model that was trained for it declines by ending its answer."""
        return True

    def begin(self) -> Flow[Step]:
        """From the distribution over the retrieval tokens at the first position (one token is generated)."""
        params = SamplingParams(max_tokens=1, verdicts=self.vocabulary.verdicts, seed=self.run.settings.seed)
        # The token itself is thrown away: only the distribution at its position counts (eq. 8).
        (found,) = yield from generate_all([Generate(instruction(self.question), params)], self.run)
        # Of a failed request nothing is known, and what is unknown retrieves (_step).
        sample = found.samples[0] if found is not None else Sample("")
        rows = self.vocabulary.rows(sample.verdict_logprobs, len(sample.token_ids))
        return self._step(rows[0] if rows else {}, after_passage=False)

    def ask_next(self, paths: Sequence[WrittenPath]) -> Flow[list[Step]]:
        """As read where each path's last segment ended: no request is needed."""
        yield from ()
        return [p.segments[-1].payload.next or Step("end") for p in paths]

    def write(self, jobs: Sequence[Job]) -> Flow[list[WrittenSegment | None]]:
        """One greedy continuation for each job up to where its segment ends, all in one batch."""
        params = SamplingParams(
            max_tokens=self.run.settings.self_rag.max_segment_tokens,
            logprobs=True,
            verdicts=self.vocabulary.verdicts,
            # The boundary stays the last of token_ids: its row says what the model wants next.
            stop_token_ids=self.vocabulary.boundaries,
            seed=self.run.settings.seed,
        )
        requests = [Generate(self._prompt(job), params) for job in jobs]
        found = yield from generate_all(requests, self.run)
        return [self._read(g.samples[0], job) if g is not None else None for g, job in zip(found, jobs)]

    def _prompt(self, job: Job) -> Prompt:
        """Instruction and path as they were written, evidence and verdicts included, and what the segment begins with.

        Nothing of other paths is in it.
        """
        prompt = instruction(self.question)
        for segment in job.path.segments:
            kept = segment.payload
            # Ids, not text: re-tokenizing the model's own output could turn plain text into control tokens.
            prompt += lead(kept.move, kept.passage) + Prompt.tokens(kept.token_ids)
        return prompt + lead(job.move, job.passage)

    # --- reading -----------------------------------------------------------------------------------------------

    def _read(self, sample: Sample, job: Job) -> WrittenSegment | None:
        """The segment that a sample holds; ``None`` if it has no text."""
        options, vocabulary = self.run.settings.self_rag, self.vocabulary
        rows = vocabulary.rows(sample.verdict_logprobs, len(sample.token_ids))
        cut = _cut(sample, vocabulary)
        text = strip_reflection_tokens(cut.text)
        # Cut off by the limit before any decision or verdict: the last sentence is incomplete.
        if sample.finish_reason == "length" and cut.following is None and cut.support_at is None:
            text = complete_sentences(text)
        if not text:
            return None
        # The relevance verdict is the first token after a fresh passage; without one there is nothing to judge.
        row: Row = group_logprobs(rows[0], RELEVANCE_TOKENS) if rows and job.move == "retrieve" else {}
        if cut.support_at is not None:
            row |= group_logprobs(rows[cut.support_at], SUPPORT_TOKENS)
        # Usefulness is about the whole answer and comes only at its end.
        if cut.follower in UTILITY_TOKENS and cut.following is not None:
            row |= group_logprobs(rows[cut.following], UTILITY_TOKENS)
        judged = judge_rows(row, options)
        following = self._after(sample, rows, cut, job)
        payload = Written(
            text=text,
            move=job.move,
            passage=job.passage,
            token_ids=sample.token_ids[: cut.end],
            next=following,
            fully=judged.fully,
            useful=judged.useful,
            # The token itself: decoding is greedy, so it is the likelier verdict.
            irrelevant=job.move == "retrieve" and sample.token_ids[:1] == vocabulary.of((IRRELEVANT,)),
        )
        score = score_of(judged, sample, cut.end, options)
        return job.segment(payload, judged, score, contradicted=cut.support == NO_SUPPORT, last=following.move == "end")

    def _after(self, sample: Sample, rows: Sequence[Row], cut: _Cut, job: Job) -> Step:
        """Read what the model wants behind the segment."""
        if cut.following is None:
            limit = sample.finish_reason == "length"
            return Step(
                "end", None, "the segment has no end within its limit" if limit else "the model ends its answer"
            )
        # The position that should say what follows holds the end-of-sequence token.
        closed = cut.follower is None and sample.finish_reason == "eos" and cut.following + 1 == len(sample.token_ids)
        if closed or cut.follower in UTILITY_TOKENS:
            return Step("end", None, "the model ends its answer")
        return self._step(rows[cut.following], after_passage=job.passage is not None)

    def _step(self, row: Row, *, after_passage: bool) -> Step:
        """Retrieve, continue or neither, by the distribution over the retrieval tokens (eq. 8)."""
        known = group_logprobs(row, RETRIEVAL_TOKENS)
        # Continuing is only possible where a passage is at hand, and only as the most likely decision.
        if known and after_passage and max(known, key=lambda t: known[t]) == CONTINUE:
            return Step("continue", None, "the model continues with the passage it has")
        return retrieval_step(known, self.run.settings.self_rag.retrieval_threshold)


@dataclass(frozen=True, slots=True)
class _Cut:
    """Find where a segment ends in a sample.

    Attributes:
        end: how many of the tokens are the segment.
        following: the position that says what follows; ``None`` if there is none.
        follower: the reflection token generated there, ``None`` if it is another token.
        support_at, support: where the support verdict stands, and which it is.
        text: of the segment, reflection tokens included.
    """

    end: int
    following: int | None
    follower: str | None
    support_at: int | None
    support: str | None
    text: str


def _cut(sample: Sample, vocabulary: ReflectionVocabulary) -> _Cut:
    """A segment ends before a boundary token, at the end of the sequence, and behind its support verdict.

    What a model writes behind a verdict without a decision in between is no part of what was judged.
    """
    ids = sample.token_ids
    boundary = first_position(ids, vocabulary.boundaries)
    inner = len(ids) if boundary is None else boundary
    support_at = first_position(ids[:inner], vocabulary.of(SUPPORT_TOKENS))
    support = vocabulary.token_of(ids[support_at]) if support_at is not None else None
    end = inner if support_at is None else support_at + 1
    text = sample.text
    if support is not None and end < inner:
        text = text.partition(support)[0]  # the text holds generated control tokens spelt out
    # None where the sample ends with the segment: no boundary, and no more text behind a verdict.
    following = end if end < len(ids) and (end < inner or boundary is not None) else None
    follower = vocabulary.token_of(ids[following]) if following is not None else None
    return _Cut(end, following, follower, support_at, support, text)
