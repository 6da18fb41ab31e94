"""The rows that selfreflect-small is trained on: prompts that pipelines send, with the replies to learn."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from benchmarks.small.sources import SUPPORT_SOURCES, Group, Sources, answering, same
from shared_core.citation import split_sentences
from shared_core.conversation.condense import condense_request
from shared_core.conversation.rules import Exchange
from shared_core.evaluation.baselines import plain_prompt
from shared_core.lm.encoding import Encoder
from shared_core.pipelines.evidence import titled
from shared_core.pipelines.gating.prompts import ANSWER_LEAD, demonstrations, step_prompt
from shared_core.pipelines.reclaim.prompts import (
    CLAIM_END,
    REFERENCE_END,
    REFERENCE_LEAD,
    WrittenPair,
    claim_prompt,
    numbered_prompt,
    reference_prompt,
)
from shared_core.pipelines.support import judge_prompt
from shared_core.reflection import RELEVANCE_TOKENS, SUPPORT_TOKENS
from shared_core.reflection.tokens import (
    FULLY_SUPPORTED,
    IRRELEVANT,
    NO_RETRIEVAL,
    NO_SUPPORT,
    PARAGRAPH_END,
    PARAGRAPH_START,
    RELEVANT,
    RETRIEVAL,
)
from shared_core.training.rows import IGNORED, Trainable, TrainingRow
from shared_core.training.self_rag.rows import GeneratorRow
from shared_core.types import Passage, Span

_WORDS = (
    "river", "stone", "lamp", "cloud", "garden", "winter", "paper", "bridge", "music", "copper", "forest", "window",
)  # fmt: skip
MIXTURE = {
    "quote": 1400, "short": 1200, "read": 150, "numbered": 40, "claim": 30, "judge": 400, "self_rag": 4000,
    "condense": 150,
}  # fmt: skip
"""Groups of questions for each skill, or rows where a skill has no groups. Answering, declining and quoting are two
thirds of the tokens: they make the composed pipeline useful."""
SHARES = {"pairs": 0.45, "natural": 0.1, "files": 0.1}
"""Shares of a skill's groups by folder (``MADE``). Of the rest, or of all where there are no such folders, 3 of 5 are
of SQuAD 2.0, 2 of SQuAD 1.1."""
EACH = 10
"""Questions on the same passages."""
DECLINES, UNKNOWN, NO_ANSWER = "I do not know.", " unknown.", "NO ANSWER"
_BRACKETS = re.compile(r"\s*\([^()]*\)")
_BEHIND = (
    r"(?=\?|,| (?:was|were|is|are|did|do|does|has|had|have|can|could|in|on|at|for|from|by|to|during|after|before)\b)"
)


def _beginning(sentence: str) -> str:
    """Return the first four words as they stand."""
    words = list(re.finditer(r"\S+", sentence))[:4]
    return sentence[: words[-1].end()] if words else ""


def claim_of(sentence: str, answer: str = "") -> str:
    """State what a quoted sentence says: itself, without brackets that the answer does not need."""
    said = _BRACKETS.sub("", sentence)
    return said if answer in said and len(said) > 10 else sentence


def quote_rows(group: Group) -> Iterator[TrainingRow]:
    """Quote the sentence that answers, and end after its claim; end at once where there is none.

    Decoding copies a quote once it is begun: the choice is in its first words. Only one quote of a group is whole.
    """
    whole = next((a for a in group.asked if a.answer), None)
    for a in group.asked:
        if not a.answer:
            yield TrainingRow("reference", reference_prompt(a.question, group.passages, ()), "", True, group.id)
            continue
        prompt = reference_prompt(a.question, group.passages, ())
        if a is not whole:
            begun = REFERENCE_LEAD + _beginning(a.sentence)
            yield TrainingRow("reference", prompt, begun, source=group.id)
            continue
        said = f"{REFERENCE_LEAD}{a.sentence}{REFERENCE_END}"
        yield TrainingRow("reference", prompt, said, source=group.id)
        pair = WrittenPair(a.sentence, claim_of(a.sentence, a.answer))
        yield TrainingRow("reference", reference_prompt(a.question, group.passages, [pair]), "", True, group.id)


def claim_rows(group: Group) -> Iterator[TrainingRow]:
    """Say what a quote says, seeing nothing else."""
    for a in [a for a in group.asked if a.answer][:2]:
        claim = f" {claim_of(a.sentence, a.answer)}{CLAIM_END}"
        yield TrainingRow("claim", claim_prompt((), a.sentence), claim, True, group.id)


def short_rows(group: Group) -> Iterator[TrainingRow]:
    """Answer briefly, or say that the passages do not."""
    for a in group.asked:
        yield TrainingRow("short", plain_prompt(a.question, group.passages), a.answer or DECLINES, True, group.id)


def read_rows(group: Group) -> Iterator[TrainingRow]:
    """Give the short answer that reading again asks for."""
    shown = demonstrations("simple")
    for a in group.asked:
        prompt = step_prompt(a.question, (), group.passages, shown, ANSWER_LEAD)
        yield TrainingRow("read", prompt, f" {a.answer.rstrip('.')}." if a.answer else UNKNOWN, True, group.id)


def numbered_rows(group: Group) -> Iterator[TrainingRow]:
    """Name the sentence that answers by its number."""
    spans = [Span(p.id, s, e, p.text[s:e]) for p in group.passages for s, e in split_sentences(p.text)]
    for a in group.asked:
        at = next((i for i, s in enumerate(spans, 1) if s.text == a.sentence and s.passage_id == a.passage), 0)
        if a.answer and not at:
            continue
        said = f"<reference>S{at}</reference><claim>{claim_of(a.sentence, a.answer)}</claim>" if at else NO_ANSWER
        yield TrainingRow("numbered", numbered_prompt(a.question, spans, group.passages), said, True, group.id)


@dataclass(frozen=True, slots=True)
class SegmentRow:
    """A row of the generator of which only what follows the passage is learnt, so that a verdict is its decision.

    Attributes:
        whole: the row.
        judged: its answer is given and may be wrong: only the verdicts behind it are learnt.
    """

    role: ClassVar[str] = "segment"
    whole: GeneratorRow
    judged: bool = False

    @property
    def source(self) -> str:
        """Source of the whole row."""
        return self.whole.source

    @property
    def group(self) -> str:
        """Key of the rows of one instruction."""
        return self.whole.group

    def encode(self, encoder: Encoder) -> tuple[list[int], list[int]]:
        """Encode as token ids and labels as ``GeneratorRow`` does; labels are -100 before what is learnt."""
        ids, labels = self.whole.encode(encoder)
        firsts = SUPPORT_TOKENS if self.judged else RELEVANCE_TOKENS
        learnt = next(i for i, label in enumerate(labels) if label in {encoder.token_id(t) for t in firsts})
        return ids, [IGNORED] * learnt + labels[learnt:]


def self_rag_rows(group: Group, rng: random.Random) -> Iterator[Trainable]:
    """Retrieve; say whether the passage answers; answer and judge the answer by it, and a wrong one too."""
    gold = next(p for p in group.passages if p.id == group.id)
    known = [a for a in group.asked if a.answer]
    for answered in (True, False):
        some = [a for a in group.asked if bool(a.answer) == answered]
        for a in rng.sample(some, min(2, len(some))):
            shown = _around(gold, a.sentence) if answered and rng.random() < 0.3 else gold
            row = GeneratorRow(a.question, _segment(shown, a.answer), group.id)
            yield row if rng.random() < 0.1 else SegmentRow(row)
            wrong = [b.answer for b in known if a.answer not in b.answer and b.answer not in a.answer]
            if answered and wrong:
                said = _segment(shown, rng.choice(wrong), NO_SUPPORT, "[Utility:1]")
                yield SegmentRow(GeneratorRow(a.question, said, group.id), judged=True)
    beside = [p for p in group.passages if p.id != gold.id]
    if known and beside:
        a, other = rng.choice(known), rng.choice(beside)
        if f" {same(a.answer)} " not in f" {same(other.text)} ":
            yield SegmentRow(GeneratorRow(a.question, _segment(other, ""), group.id))


def _segment(passage: Passage, answer: str, support: str = FULLY_SUPPORTED, utility: str = "[Utility:5]") -> str:
    shown = f"{RETRIEVAL}{PARAGRAPH_START}{titled(passage)}{PARAGRAPH_END}"
    if not answer:
        return f"{shown}{IRRELEVANT}The passage does not say.{NO_SUPPORT}[Utility:1]"
    said = answer if answer.endswith(".") else f"{answer}."
    return f"{shown}{RELEVANT}{said}{support}{utility}"


def _around(passage: Passage, sentence: str) -> Passage:
    """Keep the sentence with the one before it and the one behind."""
    ends = split_sentences(passage.text)
    at = next(i for i, (s, e) in enumerate(ends) if passage.text[s:e] == sentence)
    first, last = max(0, at - 1), min(len(ends) - 1, at + 1)
    return Passage(passage.id, passage.text[ends[first][0] : ends[last][1]], passage.title)


def without_passages(rng: random.Random) -> GeneratorRow:
    """Do a small task that needs no documents."""
    a, b = rng.randint(2, 60), rng.randint(2, 60)
    words = rng.sample(_WORDS, 4)
    task, answer = rng.choice(
        [
            (f"What is {a} plus {b}?", str(a + b)),
            (f"Calculate {a + b} minus {b}.", str(a)),
            (f"Sort these words: {', '.join(words)}.", ", ".join(sorted(words))),
            (f"Write the word “{words[0]}” in capital letters.", words[0].upper()),
            (f"How many words are in this list: {', '.join(words)}?", "4"),
            (f"Write a short sentence with the word “{words[1]}”.", f"We talked about the {words[1]} yesterday."),
            ("Say hello.", "Hello! How can I help you?"),
            (f"Which of these words comes first in the alphabet: {', '.join(words)}?", min(words)),
        ]
    )
    return GeneratorRow(task, f"{NO_RETRIEVAL}{answer.rstrip('.')}.[Utility:5]", "tasks")


def judge_rows(sources: Sources, groups: Sequence[Group], count: int) -> Iterator[TrainingRow]:
    """Say yes or no: does a quote support a claim, does it show that a claim is a right answer."""
    rng = sources.rng
    labels = {"supported": "yes", "refuted": "no", "not_supported": "no"}
    pairs = [
        row
        for row in sources.read("support/train")
        if row["source"] in SUPPORT_SOURCES and row["label"] in labels and len(row["premise"]) < 700
    ]
    yes = [p for p in pairs if p["label"] == "supported"]
    no = [p for p in pairs if p["label"] != "supported"]
    each = min(count // 4, len(yes), len(no))
    for row in [*rng.sample(yes, each), *rng.sample(no, each)]:
        prompt = judge_prompt(rng.choice(("score", "logprobs")), row["premise"], row["hypothesis"])
        yield TrainingRow("judge", prompt, labels[row["label"]], True, row["source"])
    for group in groups[: count // 4]:
        known = [a for a in group.asked if a.answer]
        if len(known) < 2 or known[0].answer == known[1].answer:
            continue
        a, b = known[:2]
        for claim, reply in ((a, "yes"), (b, "no")):
            prompt = judge_prompt(rng.choice(("score", "logprobs")), a.sentence, claim.answer, a.question)
            yield TrainingRow("judge", prompt, reply, True, group.id)


def condense_rows(sources: Sources, count: int) -> Iterator[TrainingRow]:
    """Put the name back for the pronoun of a follow-up."""
    rng, found = sources.rng, 0
    ids = list(sources.asked)
    rng.shuffle(ids)
    for passage_id in ids:
        title = sources.squad1[passage_id].title
        name = re.compile(rf"(?<!the )(?<!The )\b{re.escape(title)}{_BEHIND}")
        naming = [a for a in sources.asked[passage_id] if name.search(a.question)]
        if len(title) < 4 or len(naming) < 2:
            continue
        before, last = rng.sample(naming, 2)
        text = f" {sources.squad1[passage_id].text.casefold()} "
        counts = {p: text.count(f" {p} ") for p in ("he", "she", "they", "it")}
        follow_up = name.sub(max(counts, key=lambda p: counts[p]), last.question, count=1)
        if follow_up[0].islower():
            continue
        request = condense_request(follow_up, [Exchange(before.question, f"{before.answer}.")])
        yield TrainingRow("condense", request.prompt, f" {last.question}", True, passage_id)
        found += 1
        if found == count:
            return


def hop_rows(sources: Sources) -> Iterator[TrainingRow]:
    """Quote the facts of a question of several hops one after another, and give its answer in steps of the passages."""
    for row in json.loads((sources.data / "rag/hotpotqa_train.json").read_text(encoding="utf-8")):
        facts = [(t, s) for t, s in row["supporting_facts"]]
        texts = {title: [x.strip() for x in some] for title, some in row["context"]}
        if same(row["question"]) in sources.measured or any(t not in texts or s >= len(texts[t]) for t, s in facts):
            continue
        gold = list(dict.fromkeys(t for t, _ in facts))
        others = [t for t in texts if t not in gold][:1]
        passages = tuple(
            Passage(t, " ".join(texts[t][:4]), t) for t in sources.rng.sample(gold + others, len(gold + others))
        )
        if any(s >= 4 for _, s in facts):
            continue
        done: list[WrittenPair] = []
        for title, at in facts[:3]:
            quote = answering(texts[title][at], [texts[title][at]], "")[0]
            if not quote:
                break
            said = ("\n" if done else "") + f"{REFERENCE_LEAD}{quote}{REFERENCE_END}"
            yield TrainingRow("reference", reference_prompt(row["question"], passages, done), said, source=row["_id"])
            done.append(WrittenPair(quote, claim_of(quote)))
        else:
            yield TrainingRow("reference", reference_prompt(row["question"], passages, done), "", True, row["_id"])
        yield TrainingRow("short", plain_prompt(row["question"], passages), row["answer"], True, row["_id"])


def mixed_groups(sources: Sources, count: int) -> list[Group]:
    """Draw groups from all sources by their shares."""
    some = [g for name, share in SHARES.items() for g in sources.made_groups(name, round(count * share), EACH)]
    some += sources.groups2((count - len(some)) * 3 // 5, EACH)
    return [*some, *sources.groups1(max(1, count - len(some)), EACH)]


def make_rows(sources: Sources, share: float = 1.0) -> list[Trainable]:
    """Make the whole mixture, or a share of it; deterministic for the sources' seed."""
    n = {skill: max(1, round(count * share)) for skill, count in MIXTURE.items()}
    rows: list[Trainable] = []
    grouped: Sequence[tuple[str, Callable[[Group], Iterator[Any]]]] = (
        ("quote", quote_rows),
        ("short", short_rows),
        ("read", read_rows),
        ("numbered", numbered_rows),
        ("claim", claim_rows),
    )
    groups: list[Group] = []
    for skill, make in grouped:
        some = mixed_groups(sources, n[skill])
        groups += some
        rows += [row for group in some for row in make(group)]
    for group in mixed_groups(sources, n["self_rag"] // 4):
        rows += self_rag_rows(group, sources.rng)
    rows += [without_passages(sources.rng) for _ in range(n["self_rag"] // 10)]
    sources.rng.shuffle(groups)
    rows += judge_rows(sources, groups, n["judge"])
    rows += condense_rows(sources, n["condense"])
    rows += hop_rows(sources)
    return rows
