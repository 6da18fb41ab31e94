"""ReSearch's search on biographies from memory, and checking answers written elsewhere."""

from __future__ import annotations

import math
import re

from benchmarks.lab.measure.setting import Counts, Figures, Lab, mean
from benchmarks.lab.rows.library import Library
from shared_core.abstention import penalty
from shared_core.citation import split_sentences
from shared_core.lab.facts import TIERS, Entity, Split
from shared_core.lab.names import Dice
from shared_core.lab.prose import plain
from shared_core.settings import ResearchSettings, SelfReflectSettings
from shared_core.types import Answer

_MARK = re.compile(r"\s*\[\d+\]")


def iterative_and_wide(lab: Lab, counts: Counts) -> Figures:
    """Compare K rounds of J candidates with one round of K·J, closed book with the paper's prompts, at ρ* = .5.

    By tier: the number of shown claims, the share of true ones, and abstention.
    """
    entities = [
        entity
        for tier in TIERS
        for entity in Dice("measure", lab.seed, "biographies", tier).sample(
            [e for e in lab.world.entities if e.tier == tier], counts.biographies
        )
    ]
    figures: Figures = {}
    for name, rounds, samples in (("iterative", 3, 4), ("wide", 1, 12)):
        options = ResearchSettings(
            closed_book=True, rounds=rounds, samples=samples, max_tokens=96, patience=None, splitter="sentences",
            published={"prompts": "biography", "own_word": False, "self_consistency_samples": 2},
        )  # fmt: skip
        engine = lab.engine(SelfReflectSettings(pipeline="research", research=options))
        answers: list[Answer] = []
        for result in engine.answer_many([e.phrase for e in entities]):
            if isinstance(result, Exception):
                raise result
            answers.append(result)
        counted = [_counted(lab, a, e) for a, e in zip(answers, entities)]
        figures[f"utility_{name}"] = mean(right - wrong * penalty(0.5) for right, wrong in counted)
        figures[f"tokens_{name}"] = mean(a.usage.prompt_tokens + a.usage.generated_tokens for a in answers)
        for tier in TIERS if name == "iterative" else ():
            mine = [(a, c) for a, c, e in zip(answers, counted, entities) if e.tier == tier]
            figures[f"research_silent_{tier}"] = mean(a.abstained for a, _ in mine)
            claims = sum(right + wrong for _, (right, wrong) in mine)
            figures[f"research_claims_{tier}"] = claims / max(1, len(mine))
            figures[f"research_true_{tier}"] = sum(right for _, (right, _) in mine) / claims if claims else math.nan
    return figures


def _counted(lab: Lab, answer: Answer, entity: Entity) -> tuple[int, int]:
    """Count (true, false) claims of the shown text; claims that are not understood count as false."""
    if answer.abstained:
        return 0, 0
    text = _MARK.sub("", answer.text)
    right = wrong = 0
    for start, end in split_sentences(text):
        found = lab.judge.judge(text[start:end], entity)
        right += sum(j.true for j in found)
        wrong += sum(not j.true for j in found) if found else 1
    return right, wrong


def check(lab: Lab, counts: Counts) -> Figures:
    """Check sentences that the documents state, contradict, or do not mention."""
    split: Split = "test"
    library, dice = Library(lab.world, (split,)), Dice("measure", lab.seed, "check")
    facts = dice.sample(library.stated, counts.check)
    right = [plain(f, library.entity(f)) for f in facts]
    wrong = [plain(f, library.entity(f), library.wrong_value(f, dice)) for f in facts]
    withheld = [f for f in library.facts if f.withheld]
    absent = [plain(f, library.entity(f)) for f in dice.sample(withheld, counts.check)]
    engine = lab.engine(SelfReflectSettings(top_k=4))

    def share(texts: list[str], *verdicts: str) -> float:
        found = engine.check_many(texts)
        found_verdicts = [c.verdict for a in found if isinstance(a, Answer) for c in a.claims]
        return mean(v in verdicts for v in found_verdicts)

    return {
        "check_right_supported": share(right, "supported"),
        "check_wrong_not_supported": share(wrong, "contradicted", "unsupported"),
        "check_wrong_contradicted": share(wrong, "contradicted"),
        "check_absent_not_supported": share(absent, "contradicted", "unsupported"),
    }
