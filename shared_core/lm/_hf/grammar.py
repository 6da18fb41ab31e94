"""Constraints on generation by llguidance, with the tokens that the grammar forces.

Imported by ``lm/transformers.py`` inside functions only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from shared_core.errors import CapabilityError, GrammarError, MissingDependencyError
from shared_core.lm.base import Grammar

_TOKENIZERS: WeakKeyDictionary[Any, dict[tuple[int, tuple[int, ...]], Any]] = WeakKeyDictionary()
"""llguidance's tokenizers take seconds to build for large vocabularies: one for each tokenizer, as long as it lives."""


def grammar_tokenizer(tokenizer: Any, vocabulary: int, eos: Sequence[int]) -> Any:
    """llguidance's view of a tokenizer, built once.

    Raises:
        MissingDependencyError: llguidance is not installed.
        CapabilityError: the tokenizer is not a fast one.
    """
    try:
        import llguidance.hf
    except ImportError as error:
        raise MissingDependencyError(
            "llguidance", extra="transformers", purpose="Grammar-constrained decoding"
        ) from error
    known = _TOKENIZERS.setdefault(tokenizer, {})
    key = (vocabulary, tuple(eos))
    if key not in known:
        try:
            known[key] = llguidance.hf.from_tokenizer(tokenizer, n_vocab=vocabulary, eos_token=list(eos) or None)
        except ValueError as error:
            raise CapabilityError(
                "grammar", type(tokenizer).__name__, hint=f"llguidance cannot read this tokenizer: {error}"
            ) from error
    return known[key]


class Constraint:
    """One sample's place in a grammar.

    Attributes:
        done: the grammar is complete and nothing can follow.
        allowed: which tokens may come next, by id.
    """

    def __init__(self, tokenizer: Any, grammar: Grammar, eos: Sequence[int]) -> None:
        """Compile; GrammarError with llguidance's message if the grammar is wrong."""
        from llguidance import LLMatcher

        self._name, self._eos = grammar.name, list(eos)
        self._matcher = LLMatcher(tokenizer, LLMatcher.grammar_from_lark(grammar.lark), log_level=0)
        self._check("cannot be compiled")
        self.allowed = np.zeros(0, dtype=bool)
        self.done = False

    def copy(self) -> Constraint:
        """Another sample at the same place."""
        twin = object.__new__(Constraint)
        twin._name, twin._eos, twin.allowed, twin.done = self._name, self._eos, self.allowed, self.done
        twin._matcher = self._matcher.deep_copy()
        return twin

    def advance(self, token: int | None, room: int) -> list[int]:
        """Take a token (``None`` at the start) and return those that must follow it, at most ``room``.

        Raises:
            GrammarError: the token is not allowed, or no text can complete the grammar any more.
        """
        if token is not None:
            self._matcher.consume_token(token)
            self._check("was left")
        forced: list[int] = []
        while len(forced) < room and (following := self._matcher.compute_ff_tokens()):
            taken = self._matcher.try_consume_tokens(following)
            self._check("was left")
            forced += following[:taken]
            if taken < len(following):  # the end of the sequence, which has to be chosen
                break
        bits = np.unpackbits(np.frombuffer(self._matcher.compute_bitmask(), dtype=np.uint8), bitorder="little")
        self._check("reached a dead end")
        accepting, stopped = self._matcher.is_accepting(), self._matcher.is_stopped()
        self.allowed = bits.astype(bool)
        open_ends = int(bits.sum()) - int(bits[self._eos].sum())
        if not accepting and (stopped or not bits.any()):
            self._check("reached a dead end", always=True)
        self.done = accepting and (stopped or not open_ends) and len(forced) <= room
        return forced[:room]

    def _check(self, what: str, always: bool = False) -> None:
        # llguidance keeps errors as state and raises nothing.
        if always or self._matcher.is_error():
            message = self._matcher.get_error().split("<state>")[0].strip()
            raise GrammarError(
                f"The grammar {self._name!r} {what}: {message or self._matcher.stop_reason()}",
                hint="The grammar must be in llguidance's Lark dialect, and every path through it must be able to end.",
            )
