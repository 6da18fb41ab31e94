"""Rows for SFT, DPO and RLOO from searches (Piché et al.): a model learns to say what it knows, and no more.

Abstaining is a candidate like the others, of utility 0: where nothing that was written is worth more, it is what is
learned, and what is worth less is learned to be avoided.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from shared_core.errors import InputError
from shared_core.lm.base import Prompt
from shared_core.training.rows import TrainingRow

ROLE = "research"
PAIRS = 2
"""So many of the best candidates are each paired with so many of the worst."""


@dataclass(frozen=True, slots=True)
class Scored:
    """A candidate as it was written: its claims, what is known of each, and what it is worth as a whole."""

    text: str
    utility: float
    claims: tuple[str, ...] = ()
    probabilities: tuple[float | None, ...] = ()
    round: int = 1


@dataclass(frozen=True, slots=True)
class Searched:
    """What the search over one question found.

    Attributes:
        id: of the question in its file.
        question: as asked.
        prompt: P_write, what the model is to answer.
        candidates: in the order in which they were written.
        abstention: what abstaining is to say.
        tokens: that the search cost.
    """

    id: str
    question: str
    prompt: Prompt
    candidates: tuple[Scored, ...] = ()
    abstention: str = "I do not know."
    tokens: int = 0

    def ranked(self) -> list[Scored]:
        """The distinct candidates and abstaining, the best first; of equal ones abstaining, then the first written."""
        distinct: dict[str, Scored] = {self.abstention: Scored(self.abstention, 0.0)}
        for candidate in self.candidates:
            if candidate.claims:  # what makes no claim abstains in words of its own
                distinct.setdefault(candidate.text, candidate)
        return sorted(distinct.values(), key=lambda c: -c.utility)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        stored = TrainingRow(ROLE, self.prompt, "x").to_dict()
        return {
            "id": self.id,
            "question": self.question,
            "prompt": stored["prompt"],
            "untrusted": stored["untrusted"],
            "candidates": [asdict(c) for c in self.candidates],
            "abstention": self.abstention,
            "tokens": self.tokens,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Searched:
        """The reverse of ``to_dict``; KeyError, TypeError or ValueError if it is not that."""
        completion = [{"role": "assistant", "content": "x"}] if not isinstance(data["prompt"], str) else "x"
        row = TrainingRow.from_dict({**data, "role": ROLE, "completion": completion})
        candidates = tuple(
            Scored(**{**c, "claims": tuple(c["claims"]), "probabilities": tuple(c["probabilities"])})
            for c in data["candidates"]
        )
        return cls(data["id"], data["question"], row.prompt, candidates, data["abstention"], data["tokens"])


@dataclass(frozen=True)
class Rows:
    """What was made of searches.

    Attributes:
        sft: the best answer of each (or the abstention).
        dpo: prompt, chosen and rejected, in TRL's conversational form; up to 2 best × 2 worst of each search.
        rloo: prompts, with what is known of claims and the sentences they were judged by, for a reward.
        counts: of the searches, the abstentions among ``sft``, and the rows.
        utility_sd: of all candidates' utilities: a reward is a utility divided by it (1 where there is no spread).
    """

    sft: list[TrainingRow] = field(default_factory=list)
    dpo: list[dict[str, Any]] = field(default_factory=list)
    rloo: list[dict[str, Any]] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    utility_sd: float = 1.0


def make_rows(searches: Sequence[Searched], *, pairs: int = PAIRS) -> Rows:
    """Rows of all three kinds from searches.

    Raises:
        InputError: ``pairs`` below 1.
    """
    if pairs < 1:
        raise InputError(f"pairs must be at least 1, not {pairs!r}.")
    written = [s for s in searches if s.candidates]  # where nothing was retrieved there is nothing to answer from
    made = Rows(utility_sd=_spread([c.utility for s in written for c in s.ranked()]))
    for search in written:
        best = search.ranked()[0]
        made.sft.append(TrainingRow(ROLE, search.prompt, best.text, ends=True, source=search.id))
        made.dpo.extend(preferences(search, pairs=pairs))
        made.rloo.append(_online(search))
    made.counts.update(
        searches=len(searches),
        abstentions=sum(s.ranked()[0].text == s.abstention for s in written),
        sft=len(made.sft),
        dpo=len(made.dpo),
        rloo=len(made.rloo),
    )
    return made


def preferences(search: Searched, *, pairs: int = PAIRS) -> list[dict[str, Any]]:
    """Each of the ``pairs`` best before each of the ``pairs`` worst that is worth strictly less."""
    ranked = search.ranked()
    best, worst = ranked[:pairs], ranked[::-1][:pairs]
    prompt = search.to_dict()["prompt"]
    return [
        {
            "prompt": prompt,
            "chosen": [{"role": "assistant", "content": good.text}],
            "rejected": [{"role": "assistant", "content": bad.text}],
            "utilities": [good.utility, bad.utility],
            "source": search.id,
        }
        for good in best
        for bad in worst
        if good.utility > bad.utility
    ]


def _online(search: Searched) -> dict[str, Any]:
    known = {c: p for one in search.candidates for c, p in zip(one.claims, one.probabilities)}
    return {
        "prompt": search.to_dict()["prompt"],
        "question": search.question,
        "claims": [{"claim": claim, "probability": p} for claim, p in known.items()],
        "candidates": [{"text": c.text, "utility": c.utility} for c in search.ranked()],
        "abstention": search.abstention,
        "source": search.id,
    }


def _spread(utilities: Sequence[float]) -> float:
    if not utilities:
        return 1.0
    mean = sum(utilities) / len(utilities)
    spread = (sum((u - mean) ** 2 for u in utilities) / len(utilities)) ** 0.5
    return float(spread) or 1.0
