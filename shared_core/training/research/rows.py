"""Rows for SFT, DPO and RLOO from searches (Piché et al.): a model learns to claim what it knows, and no more.

Abstaining is a candidate like the others, of utility 0: where nothing that was written is worth more, it is what is
learned, and what is worth less is learned to be avoided.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from shared_core.errors import InputError
from shared_core.lm.base import Prompt
from shared_core.training.rows import TrainingRow, read_rows_of, restore_prompt, store_prompt, text_of
from shared_core.types import Passage

_ROLE = "research"
_HINT = "Rows are written by `selfreflect train research-data`: sft.jsonl, dpo.jsonl, rloo.jsonl."
PAIRS = 2
"""So many of the best candidates are each paired with so many of the worst."""


@dataclass(frozen=True, slots=True)
class Scored:
    """A candidate with its claims, the probability of each, and its utility as a whole."""

    text: str
    utility: float
    claims: tuple[str, ...] = ()
    probabilities: tuple[float | None, ...] = ()
    round: int = 1


@dataclass(frozen=True, slots=True)
class Searched:
    """Result of the search over one question.

    Attributes:
        id: of the question in its file.
        prompt: P_write, what the model is to answer.
        candidates: in the order in which they were written.
        abstention: what abstaining is to say.
        tokens: that the search cost.
        passages: that claims were judged by; none closed book.
    """

    id: str
    question: str
    prompt: Prompt
    candidates: tuple[Scored, ...] = ()
    abstention: str = "I do not know."
    tokens: int = 0
    passages: tuple[Passage, ...] = ()

    def ranked(self) -> list[Scored]:
        """Rank the distinct candidates and abstaining, best first; ties go to abstaining, then to the first written."""
        distinct: dict[str, Scored] = {self.abstention: Scored(self.abstention, 0.0)}
        for candidate in self.candidates:
            if candidate.claims:  # what makes no claim abstains in words of its own
                distinct.setdefault(candidate.text, candidate)
        return sorted(distinct.values(), key=lambda c: -c.utility)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return {
            "id": self.id,
            "question": self.question,
            **store_prompt(self.prompt),
            "candidates": [asdict(c) for c in self.candidates],
            "abstention": self.abstention,
            "tokens": self.tokens,
            "passages": [{"id": p.id, "title": p.title, "text": p.text} for p in self.passages],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Searched:
        """Reverse ``to_dict``; KeyError, TypeError or ValueError for anything else."""
        candidates = tuple(
            Scored(**{**c, "claims": tuple(c["claims"]), "probabilities": tuple(c["probabilities"])})
            for c in data["candidates"]
        )
        return cls(
            data["id"],
            data["question"],
            restore_prompt(data),
            candidates,
            data["abstention"],
            data["tokens"],
            _passages(data.get("passages", ())),
        )


def _passages(data: Sequence[Mapping[str, str]]) -> tuple[Passage, ...]:
    return tuple(Passage(p["id"], p["text"], p["title"]) for p in data)


@dataclass(frozen=True)
class Rows:
    """Rows of all three kinds, and their counts.

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
    """Make rows of all three kinds from searches; InputError if ``pairs`` is below 1."""
    if pairs < 1:
        raise InputError(f"pairs must be at least 1, not {pairs!r}.")
    written = [s for s in searches if s.candidates]  # where nothing was retrieved there is nothing to answer from
    made = Rows(utility_sd=spread([c.utility for s in written for c in s.ranked()]))
    for search in written:
        best = search.ranked()[0]
        made.sft.append(TrainingRow(_ROLE, search.prompt, best.text, ends=True, source=search.id))
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
    """Pair each of the ``pairs`` best candidates with each of the ``pairs`` worst of strictly lower utility."""
    ranked = search.ranked()
    best, worst = ranked[:pairs], ranked[::-1][:pairs]
    stored = store_prompt(search.prompt)
    return [
        {
            **stored,
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
        **store_prompt(search.prompt),
        "question": search.question,
        "claims": [{"claim": claim, "probability": p} for claim, p in known.items()],
        "candidates": [{"text": c.text, "utility": c.utility} for c in search.ranked()],
        "abstention": search.abstention,
        "passages": search.to_dict()["passages"],
        "source": search.id,
    }


def spread(utilities: Sequence[float]) -> float:
    """Compute the standard deviation that utilities are divided by to be rewards; 1 where it is 0."""
    return (statistics.pstdev(utilities) if utilities else 0.0) or 1.0


# --- rows as trainers read them ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Preference:
    """A row of ``dpo.jsonl``; both answers end with EOS."""

    chosen: TrainingRow
    rejected: TrainingRow

    @property
    def source(self) -> str:
        """Id of the question that the row was made from."""
        return self.chosen.source

    @property
    def group(self) -> str:
        """Group for holding out rows: the pairs of one question."""
        return self.source

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Preference:
        """Read a line's values; KeyError, TypeError or ValueError for anything else."""
        return cls(_answer(data, data["chosen"]), _answer(data, data["rejected"]))


@dataclass(frozen=True, slots=True)
class Prompted:
    """A row of ``rloo.jsonl``: a prompt, and the claims judged before training.

    Attributes:
        prompt: the model is to answer.
        known: P(true) of each claim that was judged, ``None`` if unknown.
        candidates: what was written of it, with its utility; the abstention among them.
        abstention: what abstaining is to say.
        passages: that claims are judged by; none closed book.
        source: id of the question.
    """

    prompt: Prompt
    question: str
    known: Mapping[str, float | None] = field(default_factory=dict)
    candidates: tuple[tuple[str, float], ...] = ()
    abstention: str = "I do not know."
    passages: tuple[Passage, ...] = ()
    source: str = ""

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Prompted:
        """Read a line's values; KeyError, TypeError or ValueError for anything else."""
        return cls(
            restore_prompt(data),
            data["question"],
            {c["claim"]: c["probability"] for c in data["claims"]},
            tuple((c["text"], float(c["utility"])) for c in data["candidates"]),
            data["abstention"],
            _passages(data["passages"]),
            str(data["source"]),
        )


def _answer(data: Mapping[str, Any], messages: Any) -> TrainingRow:
    (text,) = (message["content"] for message in messages)
    return TrainingRow(_ROLE, restore_prompt(data), text_of(text), True, str(data.get("source", "")))


def read_preferences(path: str | Path) -> list[Preference]:
    """Read the rows of a ``dpo.jsonl``; DocumentError if it cannot be read, InputError for a line of another kind."""
    return read_rows_of(path, Preference.from_dict, _HINT)


def read_prompted(path: str | Path) -> list[Prompted]:
    """Read the rows of an ``rloo.jsonl``; errors as ``read_preferences``."""
    return read_rows_of(path, Prompted.from_dict, _HINT)
