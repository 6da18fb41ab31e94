"""Scripted models for the tests of ReSearch: what they write, how they split, what they think of a claim."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shared_core import ResearchSettings, SelfReflectEngine, SelfReflectSettings
from shared_core.errors import LanguageModelError
from shared_core.lm.base import Capabilities, Generate, Prompt, Sample, Score
from shared_core.lm.scripted import ScriptedLM
from shared_core.types import Answer
from tests.fakes import Critic, FirstSentenceReader, Shelf

QUESTION = "When was the lamp lit?"


def kind(request: Any) -> str:
    """What a request is for: ``write``, ``rewrite``, ``split`` or ``evaluate``."""
    text = request.prompt.text
    if "probability of the following claim" in text:
        return "evaluate"
    if "Break the sentence" in text or "Please breakdown" in text:
        return "split"
    return "rewrite" if "should include, but not be limited to" in text else "write"


def sentence(request: Any) -> str:
    """The sentence that is to be split."""
    return request.prompt.text.split("Sentence: ")[1].removesuffix("Claims:").rstrip()


def claim(request: Any) -> str:
    """The claim that is to be judged."""
    return request.prompt.text.split("Claim: ")[1].split("\n")[0].removesuffix(" Probability:")


def same(request: Any) -> str:
    """A splitter that gives the sentence back."""
    return f"- {sentence(request)}"


@dataclass
class Model:
    """Writes one of ``rounds`` each time it is asked for candidates (the last one again), splits and judges."""

    rounds: Sequence[Sequence[str | Sample]]
    split: Callable[[Any], Any] = same
    think: Callable[[Any], Any] = lambda request: "90"
    capabilities: Capabilities = field(default_factory=Capabilities)
    score: Callable[[Score], Any] | None = None

    def __post_init__(self) -> None:
        self.written = 0
        self.lm = ScriptedLM(self._reply, capabilities=self.capabilities, score=self.score)

    def _reply(self, request: Generate) -> Any:
        what = kind(request)
        if what == "split":
            return self._split(request)
        if what == "evaluate":
            return self.think(request)
        texts = self.rounds[min(self.written, len(self.rounds) - 1)]
        self.written += 1
        if isinstance(texts, LanguageModelError):
            return texts
        return [texts[i % len(texts)] for i in range(request.params.n)]

    def _split(self, request: Generate) -> Any:
        """By itself as told; of a list each sentence so, its claims behind its number."""
        if "\nSentence: " in request.prompt.text or "Sentences:\n" not in request.prompt.text:
            return self.split(request)
        lines = request.prompt.text.rpartition("Sentences:\n")[2].removesuffix("\nClaims:").splitlines()
        found: list[str] = []
        for i, line in enumerate(lines, 1):
            said = line.removeprefix(f"{i}. ").partition(" (said after: ")[0]
            alone = Generate(Prompt.trusted(f"Break the sentence down.\nSentence: {said}\nClaims:"))
            reply = self.split(alone)
            if not isinstance(reply, str):
                return reply
            found += [f"{i}. {claim.removeprefix('- ')}" for claim in reply.splitlines()]
        return "\n".join(found)

    def asked(self, what: str) -> list[Any]:
        """The requests of a kind, in order."""
        return [r for r in self.lm.requests if kind(r) == what]

    @property
    def counts(self) -> Counter[str]:
        """How often each kind was asked for."""
        return Counter(kind(r) for r in self.lm.requests)


def by_words(words: Mapping[str, float | None]) -> Critic:
    """Supports a claim by the first of the words that stands in it; 0.05 without one."""
    return Critic(lambda quote, claim: next((p for word, p in words.items() if word in claim), 0.05))


def settings(*, target: float = 0.5, **research: Any) -> SelfReflectSettings:
    """Small numbers, and a judge's word alone (``published``)."""
    top = {k: research.pop(k) for k in list(research) if k in SelfReflectSettings.model_fields}
    values = ResearchSettings.upgrade({"samples": 2, "rounds": 2, "own_word": False, **research})
    return SelfReflectSettings(
        target_accuracy=target, pipeline="research", signals="support_only", **{"research": values, **top}
    )


def ask(model: Model, question: str = QUESTION, *, judge: Any = None, **options: Any) -> Answer:
    engine = SelfReflectEngine(
        Shelf(),
        model.lm,
        settings(**options),
        judge=judge or by_words({"1871": 0.95, "oil": 0.9}),
        reader=FirstSentenceReader(0.9),
    )
    return engine.answer(question)


def closed(model: Model, question: str = QUESTION, **options: Any) -> Answer:
    return ask(model, question, closed_book=True, **options)


def believes(**beliefs: str) -> Callable[[Any], str]:
    """Says of a claim what is believed of the first of the words that stands in it."""
    return lambda request: next((said for word, said in beliefs.items() if word in claim(request)), "5")
