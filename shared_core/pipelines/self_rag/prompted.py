"""Writing with any model: it writes, and a prompted critic asks the questions that reflection tokens answer.

For support the shipped critic counts beside the model: the lower of the two scores is used. Without any judge support
is unknown, and adds nothing to a segment's score.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from shared_core.citation import split_sentences
from shared_core.lm.base import Sample, SamplingParams
from shared_core.pipelines.decision.question_run import QuestionRun
from shared_core.pipelines.evidence import complete_sentences, lowest, titled
from shared_core.pipelines.self_rag.prompts import (
    ask_critic,
    ask_more,
    ask_relevant,
    ask_retrieve,
    ask_support,
    ask_useful,
    critic_method,
    says_nothing,
    write_prompt,
)
from shared_core.pipelines.self_rag.segments import (
    Job,
    Judged,
    Row,
    Step,
    Written,
    WrittenPath,
    WrittenSegment,
    generate_all,
    judge_rows,
    retrieval_step,
    score_of,
    weights_of,
)
from shared_core.pipelines.structured import plain_text
from shared_core.pipelines.support import try_critic
from shared_core.reflection import SUPPORT_TOKENS, critique_score
from shared_core.reflection.tokens import NO_SUPPORT
from shared_core.runtime.flow import Flow, Generate
from shared_core.types import Passage


@dataclass(slots=True)
class PromptedWriter:
    """A ``Writer`` by prompts. What it learns of a passage's relevance it keeps for the whole question."""

    question: str
    run: QuestionRun
    relevance: dict[str, Row] = field(default_factory=dict)  # by passage id
    _said_nothing: bool = False  # of one passage at least
    _stated: bool = False  # something, from one passage at least

    @property
    def by(self) -> str:
        """Name the judge and its method."""
        return f"prompted critic ({critic_method(self.run.abilities)})"

    @property
    def declined(self) -> bool:
        """Whether the model said in words of every passage that it wrote about that it does not help."""
        return self._said_nothing and not self._stated

    def begin(self) -> Flow[Step]:
        """Asked of the model; where it does not say, something is looked up."""
        (row,) = yield from ask_critic([ask_retrieve(self.question)], self.run)
        # Yes and no count as the two retrieval tokens, so δ of eq. 8 applies here as well.
        return retrieval_step(row, self.run.settings.self_rag.retrieval_threshold)

    def ask_next(self, paths: Sequence[WrittenPath]) -> Flow[list[Step]]:
        """Whether each answer needs another sentence: then from a passage. Where it does not say, it does not."""
        rows = yield from ask_critic([ask_more(self.question, p) for p in paths], self.run)
        return [self._next(path, row) for path, row in zip(paths, rows)]

    def _next(self, path: WrittenPath, row: Row) -> Step:
        more = retrieval_step(row, 0.5).probability
        # A model that cannot say whether more is needed would go on for ever: the unknown ends the answer here.
        if more is None or more <= 0.5:
            return Step("end", more, "nothing is left open" if more is not None else "the model does not say")
        # An answer begun from memory goes on from memory: nothing was retrieved that it could cite.
        grounded = path.segments[-1].payload.move != "none"
        return Step("retrieve" if grounded else "none", more, "the answer leaves something open")

    def write(self, jobs: Sequence[Job]) -> Flow[list[WrittenSegment | None]]:
        """Relevance of new passages, a sentence from each, its support and use: three batches.

        A passage that the model calls irrelevant is written from as well: relevance is a weight of the score (the
        paper's ISREL), and small models deny it of the very passage that answers.
        """
        yield from self._learn_relevance([j.passage for j in jobs if j.passage is not None])
        found: list[WrittenSegment | None] = [None] * len(jobs)
        written = yield from generate_all([self._request(job) for job in jobs], self.run)
        # (number of the job, sample, text); jobs of which nothing came keep None.
        drafts = [(i, g.samples[0], self._text(g.samples[0])) for i, g in enumerate(written) if g is not None]
        drafts = [d for d in drafts if d[2]]
        judged = yield from self._judge([jobs[i] for i, _, _ in drafts], [text for _, _, text in drafts])
        for (i, sample, text), (verdict, contradicted) in zip(drafts, judged):
            payload = Written(text, jobs[i].move, jobs[i].passage, fully=verdict.fully, useful=verdict.useful)
            # Scored by the whole reply, though the text may be its first sentence only.
            score = score_of(verdict, sample, len(sample.logprobs or ()), self.run.settings.self_rag)
            found[i] = jobs[i].segment(payload, verdict, score, contradicted=contradicted)
        return found

    # --- writing -----------------------------------------------------------------------------------------------

    def _request(self, job: Job) -> Generate:
        options, model = self.run.settings.self_rag, self.run.abilities.model("default")
        prompt = write_prompt(
            self.question, job.path, job.passage, short=options.form == "short", closed=options.published.closed_set
        )
        params = SamplingParams(
            max_tokens=options.max_segment_tokens,
            logprobs=model is not None and model.token_logprobs,
            seed=self.run.settings.seed,
        )
        return Generate(prompt, params)

    def _text(self, sample: Sample) -> str:
        """Read the text written: its first sentence in the long form; nothing if the passage does not help."""
        text = re.sub(r"\s+", " ", plain_text(sample.text)).strip()
        if not any(character.isalnum() for character in text):
            return ""
        if says_nothing(text):
            self._said_nothing = True
            return ""
        self._stated = True
        if self.run.settings.self_rag.form == "long":
            ranges = split_sentences(text)
            # One sentence per segment, as each is judged (and cited) by itself.
            if len(ranges) > 1:
                return text[: ranges[0][1]]
        elif sample.finish_reason == "length":
            # An answer of a few words ("Paris") holds no complete sentence.
            return complete_sentences(text) or text
        return text

    # --- judging -----------------------------------------------------------------------------------------------

    def _learn_relevance(self, passages: Sequence[Passage]) -> Flow[None]:
        new = {p.id: p for p in passages if p.id not in self.relevance}
        rows = yield from ask_critic([ask_relevant(self.question, p) for p in new.values()], self.run)
        self.relevance |= dict(zip(new, rows))

    def _judge(self, jobs: Sequence[Job], texts: Sequence[str]) -> Flow[list[tuple[Judged, bool]]]:
        """Each draft's critique, and whether its passage contradicts it or does not say it."""
        stated = [(j.passage, t) for j, t in zip(jobs, texts) if j.passage is not None]
        questions = [ask_support(p, t) for p, t in stated]
        useful = [ask_useful(self.question, j.path, t) for j, t in zip(jobs, texts)]
        # Support and usefulness of all drafts in one batch; jobs without a passage have no support question.
        rows = yield from ask_critic([*questions, *useful], self.run)
        by_critic = yield from try_critic([(titled(p), t) for p, t in stated], self.run)
        supports = iter(zip(rows[: len(questions)], by_critic))
        found = []
        for job, use in zip(jobs, rows[len(questions) :]):
            support, p = next(supports) if job.passage is not None else ({}, None)
            relevance = self.relevance.get(job.passage.id, {}) if job.passage is not None else {}
            # The groups have no token in common: merging loses nothing.
            judged = judge_rows({**relevance, **support, **use}, self.run.settings.self_rag)
            found.append((self._with_critic(judged, p), _contradicted(support, p)))
        return found

    def _with_critic(self, judged: Judged, p: float | None) -> Judged:
        if p is None:
            return judged
        critique = judged.critique
        # The lower of model and critic: a model is a lenient judge of its own sentence.
        support = lowest(critique.support, p)
        score = critique_score(critique.relevance, support, critique.usefulness, weights_of(self.run.settings.self_rag))
        # The critic knows no partial support: its p is the support score and P(fully) alike.
        critique = dataclasses.replace(critique, support=support, score=score)
        return dataclasses.replace(judged, critique=critique, fully=lowest(judged.fully, p))


def _contradicted(support: Row, by_critic: float | None) -> bool:
    """Whether the model's likeliest verdict is that nothing supports it; where it gives none, the critic's."""
    if support:
        return max(SUPPORT_TOKENS, key=lambda t: support.get(t, float("-inf"))) == NO_SUPPORT
    return by_critic is not None and by_critic < 0.5
