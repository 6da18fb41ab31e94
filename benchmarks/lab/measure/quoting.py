"""ReClaim's quotes, with and without constrained decoding: whether they are verbatim and support their claims."""

from __future__ import annotations

import re

from benchmarks.lab.measure.setting import Counts, Figures, Lab, answers_of, mean
from shared_core.citation import align_quote
from shared_core.evaluation.metrics.qa import contains_answer
from shared_core.lab.questions import Question
from shared_core.lm.base import Generation, SamplingParams
from shared_core.pipelines.reclaim.prompts import CLAIM_END, CLAIM_LEAD, REFERENCE_END, REFERENCE_LEAD, reference_prompt
from shared_core.runtime.flow import Generate
from shared_core.settings import SelfReflectSettings
from shared_core.types import Claim, Span, iter_spans

_PAIR = re.compile(
    re.escape(REFERENCE_LEAD.strip()) + r"\s*(?P<quote>.*?)\s*" + re.escape((REFERENCE_END + CLAIM_LEAD).strip())
    + r"\s*(?P<claim>.*?)\s*(?:" + re.escape(CLAIM_END.strip()) + r"|$)",
    re.DOTALL,
)  # fmt: skip
_TOKENS = 120


def supports(lab: Lab, claim: str, spans: list[Span]) -> bool | None:
    """Return whether the quoted sentences state the claim; ``None`` if the claim is not understood.

    Pronouns in a sentence refer to whom they refer to in its passage.
    """
    judged = lab.judge.judge(claim)
    if not judged:
        return None
    stated = {
        (s.fact, s.value.lower())
        for span in spans
        for s in lab.world.statements_in(span.passage_id)
        if s.start < span.end and span.start < s.end
    }
    facts = [(f"{j.subject}.{j.attribute.partition('.')[2]}", j.value.lower()) for j in judged]
    return all(fact in {f for f, v in stated if _same(v, value)} for fact, value in facts)


def _same(one: str, two: str) -> bool:
    return one.removeprefix("the ") == two.removeprefix("the ")


def reclaim(lab: Lab, counts: Counts) -> Figures:
    """Measure the pipeline's citations, and those of the same model writing freely to the same prompt.

    ``verbatim_share``: share of cited spans that occur in their passage word for word. ``cas``: share of understood
    claims that their quotes support; a quote that occurs nowhere supports nothing. ``quote_answers``: share of
    questions about one fact of which a quote holds the answer.
    """
    questions = lab.questions(("single", "two_hop"), counts.quotes, "test", name="quotes")
    settings = SelfReflectSettings(pipeline="reclaim", top_k=4)
    found = answers_of(lab.engine(settings), questions)
    claims: list[Claim] = [c for a in found for c in a.claims]
    texts = {p.id: p.text for a in found for p in a.passages}
    spans = list(iter_spans(tuple(claims)))
    judged = [supports(lab, c.text, list(iter_spans((c,)))) for c in claims]
    free = [pair for q in questions for pair in _freely(lab, q)]
    return {
        "verbatim_share": mean(texts[s.passage_id][s.start : s.end] == s.text for s in spans),
        "cas": mean(j for j in judged if j is not None),
        "quote_answers": mean(
            any(contains_answer(s.text, q.answers) for s in iter_spans(a.claims))
            for a, q in zip(found, questions)
            if q.kind == "single"
        ),
        "claims_understood": mean(j is not None for j in judged),
        "claims_true": mean(t for c in claims if (t := lab.judge.true(c.text)) is not None),
        "verbatim_unconstrained": mean(verbatim for verbatim, _ in free),
        "cas_unconstrained": mean(s for _, s in free if s is not None),
    }


def _freely(lab: Lab, question: Question) -> list[tuple[bool, bool | None]]:
    """Return (verbatim, supported) of each pair that the model writes without a grammar."""
    passages = lab.retriever.retrieve(question.text, 4)
    (result,) = lab.lm.generate(
        [Generate(reference_prompt(question.text, passages, ()), SamplingParams(max_tokens=_TOKENS))]
    )
    if not isinstance(result, Generation):
        raise result
    pairs = []
    for match in _PAIR.finditer(result.text):
        alignment = align_quote(match["quote"], passages)
        verbatim = any(match["quote"] in p.text for p in passages)
        spans = list(alignment.spans) if alignment is not None and verbatim else []
        understood = supports(lab, match["claim"], spans)
        pairs.append((verbatim, understood))
    return pairs
