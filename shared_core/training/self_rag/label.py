"""Label a question for Self-RAG's critic and generator (Asai et al. 2023, section 3.2).

A model says whether the question needs a passage, which of the retriever's passages are relevant, writes an answer
(unless one is given), says of each sentence whether it needs a new passage, how far passages support it, and how useful
the answer is. Each verdict is a row of the critic; the answer with verdicts and passages inside is the generator's.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field

from shared_core.citation import split_sentences
from shared_core.lm.base import Generation, Prompt, SamplingParams
from shared_core.pipelines.decision.question_run import Abilities, QuestionRun
from shared_core.pipelines.evidence import ours, theirs, titled
from shared_core.pipelines.self_rag.choose import NEEDED, missing_tokens
from shared_core.pipelines.self_rag.prompts import NOTHING, ask_critic, says_nothing
from shared_core.pipelines.self_rag.segments import ask_all
from shared_core.reflection import REFLECTION_TOKENS, ReflectionVocabulary, strip_reflection_tokens
from shared_core.reflection.tokens import (
    CONTINUE,
    IRRELEVANT,
    NO_RETRIEVAL,
    PARAGRAPH_END,
    PARAGRAPH_START,
    RELEVANT,
    RETRIEVAL,
    SUPPORT_TOKENS,
    UTILITY_TOKENS,
)
from shared_core.runtime.flow import Flow, Generate, Resources, Retrieve, TokenIds
from shared_core.settings import SelfReflectSettings, Settings
from shared_core.training.self_rag.rows import TASKS
from shared_core.training.self_rag.tasks import Asked, ask_again, ask_relevance, ask_retrieval, ask_support, ask_utility
from shared_core.types import Passage


class LabelSettings(Settings):
    """Settings of labelling."""

    critic: Literal["prompted", "tokens"] = Field(
        "prompted", description="Who judges is any model, or a critic trained on such rows."
    )
    top_k: int = Field(
        5, ge=1, description="Passages retrieved for a question, and for a sentence that needs new ones."
    )
    judged: int = Field(2, ge=1, description="Relevant passages whose support for a sentence is judged.")
    max_sentences: int = Field(5, ge=1, description="Of an answer; a longer one that is given is used up to there.")
    max_tokens: int = Field(256, ge=16, description="Of an answer that the model writes.")
    certainty: float = Field(
        0.0, ge=0, lt=1, description="Verdicts less probable than this are left out; 0 takes the likeliest as it is."
    )
    abstention: str = Field("I do not know.", min_length=1, description="What declining says.")
    votes: int = Field(3, ge=1, le=64, description="Samples a verdict where the model gives no log-probabilities.")
    seed: int | None = 0


@dataclass(frozen=True, slots=True)
class Subject:
    """A question to label, with an answer and passages where they are given.

    Attributes:
        instruction: the question.
        output: an answer that is given; empty to have one written.
        passages: given ones; ``None`` to have them retrieved. A given answer is taken to rest on given passages:
            that it needs retrieval is then not asked.
        unrelated: another question, whose first passage is judged, too: if it is irrelevant, declining is taught on it.
    """

    instruction: str
    output: str = ""
    passages: tuple[Passage, ...] | None = None
    unrelated: str = ""


_Shelf = tuple[Passage, ...]
_Relevance = dict[str, str | None]  # verdicts on passages, by id


@dataclass(frozen=True, slots=True)
class _Verdict:
    asked: Asked
    token: str | None
    p: float


def label(subject: Subject, options: LabelSettings, resources: Resources) -> Flow[dict[str, Any]]:
    """Label a question: ``labels`` for the critic's rows, ``outputs`` for the generator's, as plain values.

    ``unknown`` is the number of verdicts that the model did not give. The role ``judge`` judges, by prompts with worked
    examples or (``critic="tokens"``) by its reflection tokens; the role ``default`` writes.

    Raises:
        CapabilityError: who judges was to have reflection tokens, and has none.
        LimitError: a budget does not suffice for all of it.
        SelfReflectError: the model or the retriever failed.
    """
    work = _Work(subject, options, resources)
    found = subject.passages
    if found is None:
        found = yield Retrieve(subject.instruction, options.top_k)
    yield from work.prepare()
    asked = [ask_relevance(subject.instruction, p) for p in found]
    retrieval: str | None = RETRIEVAL
    if subject.output and subject.passages:
        # An answer that is given with its passages rests on them: whoever judges must not teach to do without.
        work.labels.append({**ask_retrieval(subject.instruction).label(RETRIEVAL), "p": 1.0})
        verdicts = yield from work.ask(asked)
    else:
        needs, *verdicts = yield from work.ask([ask_retrieval(subject.instruction), *asked])
        retrieval = needs.token
    relevance = {p.id: v.token for p, v in zip(found, verdicts)}
    retrieves = retrieval != NO_RETRIEVAL and bool(found)
    helpful = [p for p in found if relevance[p.id] == RELEVANT] or list(found)
    text = subject.output.strip() or (yield from work.write(helpful if retrieves else []))
    irrelevant = [p for p in found if relevance[p.id] == IRRELEVANT]
    if text and retrieval is not None:
        yield from work.assemble(text, tuple(found), relevance, retrieves)
    elif not text and retrieves and irrelevant:
        work.decline(irrelevant[0])
    if subject.unrelated:
        yield from work.decline_unrelated()
    return {"labels": work.labels, "outputs": work.outputs, "unknown": work.unknown}


class _Work:
    """Labels of one question while they are made."""

    def __init__(self, subject: Subject, options: LabelSettings, resources: Resources) -> None:
        self.subject, self.options = subject, options
        settings = SelfReflectSettings(seed=options.seed, self_rag={"published": {"votes": options.votes}})
        self.run = QuestionRun(settings, Abilities.of(resources))
        self.vocabulary: ReflectionVocabulary | None = None
        self.labels: list[dict[str, Any]] = []
        self.outputs: list[dict[str, Any]] = []
        self.unknown = 0

    def prepare(self) -> Flow[None]:
        """Find the reflection tokens of a trained critic; CapabilityError if it has none."""
        if self.options.critic == "prompted":
            return
        judge, name = self.run.abilities.model("judge"), self.run.abilities.model_name("judge")
        if judge is not None and all(getattr(judge, ability) for ability in NEEDED):
            self.vocabulary = ReflectionVocabulary.of_lookup((yield TokenIds(REFLECTION_TOKENS, model="judge")))
        if self.vocabulary is None:
            raise missing_tokens(name, f"{name} is no critic that was trained with reflection tokens")

    def ask(self, asked: Sequence[Asked]) -> Flow[list[_Verdict]]:
        """Ask for verdicts, all at once, and add the known ones to the labels."""
        if not asked:
            return []
        if self.vocabulary is not None:
            rows = yield from self._ask_tokens(asked, self.vocabulary)
        else:
            rows = yield from ask_critic([a.question() for a in asked], self.run)
        if self.run.trace.limit is not None:
            raise self.run.trace.limit
        found = [self._verdict(a, row) for a, row in zip(asked, rows)]
        self.unknown += sum(v.token is None for v in found)
        self.labels += [{**v.asked.label(v.token), "p": round(v.p, 4)} for v in found if v.token is not None]
        return found

    def _ask_tokens(self, asked: Sequence[Asked], vocabulary: ReflectionVocabulary) -> Flow[list[dict[str, float]]]:
        """Ask a trained critic in the form of its rows: one token each, of which only the verdicts count."""
        requests = []
        for one in asked:
            verdicts = vocabulary.of(TASKS[one.task])
            params = SamplingParams(max_tokens=1, verdicts=verdicts, seed=self.options.seed)
            requests.append(Generate(one.row(TASKS[one.task][0]).prompt(), params, model="judge"))
        results = yield from ask_all(requests, self.run)
        return [_first(one, result) for one, result in zip(asked, results)]

    def _verdict(self, asked: Asked, row: dict[str, float]) -> _Verdict:
        p = _normalised(row)
        token = max(p, key=lambda t: p[t]) if p else None
        if token is None or p[token] < self.options.certainty:
            return _Verdict(asked, None, 0.0)
        return _Verdict(asked, token, p[token])

    # --- writing -----------------------------------------------------------------------------------------------

    def write(self, passages: Sequence[Passage]) -> Flow[str]:
        """Have an answer written from passages, or from memory; empty if the model says that they do not help."""
        prompt = _writing(self.subject.instruction, passages, self.options.max_sentences)
        params = SamplingParams(max_tokens=self.options.max_tokens, seed=self.options.seed)
        (found,) = yield from ask_all([Generate(prompt, params)], self.run)
        if self.run.trace.limit is not None:
            raise self.run.trace.limit
        if not isinstance(found, Generation):
            assert isinstance(found, Exception)
            raise found
        text = re.sub(r"\s+", " ", found.samples[0].text).strip()
        if says_nothing(text):
            return ""
        ranges = split_sentences(text)
        cut = found.samples[0].finish_reason == "length" and len(ranges) > 1
        return text[: ranges[-2][1]] if cut else text

    # --- rows --------------------------------------------------------------------------------------------------

    def assemble(self, text: str, found: _Shelf, relevance: _Relevance, retrieves: bool) -> Flow[None]:
        """Assemble the generator's output: each sentence with its passage and verdicts, then the usefulness."""
        plain = strip_reflection_tokens(text)  # a verdict that is part of an answer's text would be taught as one
        sentences = [plain[a:b].strip() for a, b in split_sentences(plain)][: self.options.max_sentences]
        if not sentences:
            return
        segments = []
        move: str | None = RETRIEVAL if retrieves else NO_RETRIEVAL
        last: Passage | None = None
        for i, sentence in enumerate(sentences):
            if i:
                move = yield from self._next_move(sentences[:i], sentence, last, found, relevance)
            segment, last = yield from self._segment(i, sentence, move, last, found, relevance)
            segments.append(segment)
        (useful,) = yield from self.ask([ask_utility(self.subject.instruction, " ".join(sentences))])
        if useful.token is None or any(s is None for s in segments):
            return  # an answer with a gap in its verdicts would teach to leave one out
        body = "".join(s for s in segments if s is not None)
        self.outputs.append({"output": f"{body}{useful.token}", "declines": False})

    def _next_move(
        self, before: Sequence[str], sentence: str, last: Passage | None, found: _Shelf, relevance: _Relevance
    ) -> Flow[str | None]:
        """Ask whether a later sentence needs a passage other than that of the sentence before it.

        Where that one had none, the first relevant passage is asked about; to continue is then to bring it in.
        """
        at_hand = [last] if last is not None else [p for p in found if relevance[p.id] == RELEVANT] or list(found)
        if not at_hand:
            return NO_RETRIEVAL
        (verdict,) = yield from self.ask([ask_again(self.subject.instruction, before, at_hand[0], sentence)])
        return RETRIEVAL if verdict.token == CONTINUE and last is None else verdict.token

    def _segment(
        self, number: int, sentence: str, move: str | None, last: Passage | None, found: _Shelf, relevance: _Relevance
    ) -> Flow[tuple[str | None, Passage | None]]:
        """Write a sentence with its passage and verdicts (``None`` if one is missing), and return the current passage.

        Of the relevant passages the one that supports it best is taken, the surer first; when the model continues, the
        one at hand.
        """
        if move is None or move == NO_RETRIEVAL:
            return (f"{NO_RETRIEVAL}{sentence}" if move else None), last
        candidates = [last] if move == CONTINUE and last is not None else []
        if not candidates:
            if number and self.subject.passages is None:
                found = yield Retrieve(f"{self.subject.instruction} {sentence}", self.options.top_k)
                new = [p for p in found if p.id not in relevance]
                verdicts = yield from self.ask([ask_relevance(self.subject.instruction, p) for p in new])
                relevance.update((p.id, v.token) for p, v in zip(new, verdicts))
            candidates = [p for p in found if relevance[p.id] == RELEVANT][: self.options.judged]
            useless = [p for p in found if relevance[p.id] == IRRELEVANT]
            if not candidates:
                return (f"{_paragraph(useless[0])}{IRRELEVANT}{sentence}", None) if useless else (None, last)
        asked = yield from self.ask([ask_support(p, sentence) for p in candidates])
        judged = [(p, v) for p, v in zip(candidates, asked) if v.token is not None]
        if not judged:
            return None, last
        best, verdict = min(judged, key=lambda pv: (SUPPORT_TOKENS.index(str(pv[1].token)), -pv[1].p))
        head = CONTINUE if best is last and move == CONTINUE else f"{_paragraph(best)}{RELEVANT}"
        return f"{head}{sentence}{verdict.token}", best

    def decline(self, passage: Passage) -> None:
        """Add an output that declines to answer from a passage."""
        said = f"{_paragraph(passage)}{IRRELEVANT}{self.options.abstention}{UTILITY_TOKENS[0]}"
        self.outputs.append({"output": said, "declines": True})

    def decline_unrelated(self) -> Flow[None]:
        """Add an output that declines on another question's passage, if the model finds it irrelevant."""
        found: tuple[Passage, ...] = yield Retrieve(self.subject.unrelated, 1)
        if not found:
            return
        (verdict,) = yield from self.ask([ask_relevance(self.subject.instruction, found[0])])
        if verdict.token == IRRELEVANT:
            self.decline(found[0])


def _paragraph(passage: Passage) -> str:
    """Wrap a passage in its tags; its own closing tags are removed, since they would end it."""
    text = titled(passage)
    return f"{RETRIEVAL}{PARAGRAPH_START}{text.replace(PARAGRAPH_END, ' ')}{PARAGRAPH_END}"


def _first(asked: Asked, result: object) -> dict[str, float]:
    if not isinstance(result, Generation):
        return {}
    rows = result.samples[0].verdict_logprobs
    if rows is None or not len(rows):
        return {}
    return {t: float(v) for t, v in zip(TASKS[asked.task], rows[0])}


def _normalised(row: dict[str, float]) -> dict[str, float]:
    """Normalise log-probabilities to shares of the verdicts; empty where none is known."""
    finite = {t: v for t, v in row.items() if math.isfinite(v)}
    if not finite:
        return {}
    top = max(finite.values())
    mass = {t: math.exp(v - top) for t, v in finite.items()}
    total = sum(mass.values())
    return {t: m / total for t, m in mass.items()}


def _writing(instruction: str, passages: Sequence[Passage], most: int) -> Prompt:
    if not passages:
        told = f"Carry out the instruction in at most {most} sentences. Write nothing else.\nInstruction: "
        return ours(told) + theirs(instruction) + ours("\nResponse:")
    prompt = ours(
        f"Answer the question in at most {most} sentences, from the passages alone. Write no marks of citations and "
        f"nothing else. If the passages do not answer it, write only: {NOTHING}\n"
    )
    for passage in passages:
        prompt += ours("\nPassage: ") + theirs(titled(passage))
    return prompt + ours("\nQuestion: ") + theirs(instruction) + ours("\nAnswer:")
