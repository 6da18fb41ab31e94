"""Constrain generation with llguidance, including the tokens that the grammar forces."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from shared_core.errors import CapabilityError, GrammarError, MissingDependencyError
from shared_core.lm.base import Grammar

_TOKENIZERS: WeakKeyDictionary[Any, dict[tuple[int, tuple[int, ...]], Any]] = WeakKeyDictionary()
"""llguidance's tokenizers take seconds to build for large vocabularies: one for each tokenizer, as long as it lives."""

_MOST_WORK = 20_000_000
"""Steps of llguidance's lexer for one token, at most a second or two. By default it gives up after 200,000, which one
sentence of 380 characters among 24 takes where up to three may be quoted."""


def grammar_tokenizer(tokenizer: Any, vocabulary: int, eos: Sequence[int]) -> Any:
    """Build llguidance's view of a tokenizer, once.

    Every added token counts as a special one there: a grammar may ask for it by its id (``<[402]>``), and no text makes
    one, so that a quote from a document that spells ``[Relevant]`` is not that verdict.

    Raises:
        MissingDependencyError: llguidance is not installed.
        CapabilityError: the tokenizer is not a fast one.
    """
    try:
        from llguidance import LLTokenizer
    except ImportError as error:
        raise MissingDependencyError(
            "llguidance", extra="transformers", purpose="Grammar-constrained decoding"
        ) from error
    known = _TOKENIZERS.setdefault(tokenizer, {})
    key = (vocabulary, tuple(eos))
    if key not in known:
        try:
            known[key] = LLTokenizer(_specification(tokenizer), n_vocab=vocabulary, eos_token=list(eos) or None)
        except ValueError as error:
            raise CapabilityError(
                "grammar", type(tokenizer).__name__, hint=f"llguidance cannot read this tokenizer: {error}"
            ) from error
    return known[key]


def _specification(tokenizer: Any) -> str:
    """Return the tokenizer as JSON with every added token but runs of blanks marked special; ValueError if slow."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise ValueError("only fast tokenizers can be read")
    specification = json.loads(backend.to_str()) | {"truncation": None, "padding": None}
    for token in specification["added_tokens"]:
        token["special"] = token["special"] or bool(token["content"].strip())
    return json.dumps(specification)


class Constraint:
    """State of one sample in a grammar.

    Args:
        tokenizer: from ``grammar_tokenizer``.
        eos: ids that end a sequence.
        spell: the ids of a text in which nothing is a control token, whatever it says (``Encoder.plain``).

    Attributes:
        done: the grammar is complete and nothing can follow.
        allowed: which tokens may come next, by id.
    """

    def __init__(self, tokenizer: Any, grammar: Grammar, eos: Sequence[int], spell: Callable[[str], list[int]]) -> None:
        """Compile the grammar; GrammarError with llguidance's message if it is invalid."""
        from llguidance import LLMatcher, LLParserLimits

        limits = LLParserLimits(initial_lexer_fuel=_MOST_WORK, step_lexer_fuel=_MOST_WORK)
        self._name, self._eos, self._spell, self._tokenizer = grammar.name, list(eos), spell, tokenizer
        self._matcher = LLMatcher(tokenizer, LLMatcher.grammar_from_lark(grammar.lark), log_level=0, limits=limits)
        self._check("cannot be compiled")
        self.allowed = np.zeros(0, dtype=bool)
        self.done = False

    def copy(self) -> Constraint:
        """Return an independent copy in the same state, for another sample."""
        twin = copy.copy(self)  # without __init__, which would compile the grammar again
        twin._matcher = self._matcher.deep_copy()
        return twin

    def advance(self, token: int | None, room: int) -> list[int]:
        """Consume a token (``None`` at the start) and return the tokens that must follow it, at most ``room``.

        GrammarError if the token is not allowed, or no text can complete the grammar any more.
        """
        if token is not None:
            self._matcher.consume_token(token)
            self._check("was left")
        forced: list[int] = []
        # Forced tokens and forced text take turns: text may end where only a token spelt by us can go on.
        while len(forced) < room:
            following = self._matcher.compute_ff_tokens()
            taken = self._take(following)
            forced += following[:taken]
            if following and taken == len(following):
                continue
            spelt = self._spelt()
            taken = self._take(spelt)
            forced += spelt[:taken]
            if not taken:  # nothing is forced, or the end of the sequence, which has to be chosen
                break
        # One bit for each token, in 32-bit words, lowest bit first.
        bits = np.unpackbits(np.frombuffer(self._matcher.compute_bitmask(), dtype=np.uint8), bitorder="little")
        self._check("reached a dead end")
        accepting, stopped = self._matcher.is_accepting(), self._matcher.is_stopped()
        self.allowed = bits.astype(bool)
        open_ends = int(bits.sum()) - int(bits[self._eos].sum())
        if not accepting and (stopped or not bits.any()):
            self._check("reached a dead end", always=True)
        self.done = accepting and (stopped or not open_ends) and len(forced) <= room
        return forced[:room]

    def _take(self, tokens: list[int]) -> int:
        """Consume as many of the tokens as the grammar accepts; return how many."""
        taken = int(self._matcher.try_consume_tokens(tokens)) if tokens else 0
        self._check("was left")
        return taken

    def _spelt(self) -> list[int]:
        """Encode forced text as ordinary tokens if the tokenizer would see a control token at its beginning.

        llguidance would see it too, and then refuse it, because no text makes a special token.
        """
        following: bytes = self._matcher.compute_ff_bytes()
        if not following or following.startswith(b"\xff"):  # how a token is written that is asked for by its id
            return []
        special = self._tokenizer.is_special_token
        if not special(self._tokenizer.tokenize_bytes(following)[0]):
            return []
        text = following.decode("utf-8", "ignore")
        spelt = self._spell(text)
        # The unknown token controls nothing, but some vocabularies have its name as a piece of text.
        return [i for c in text for i in self._spell(c)] if any(map(special, spelt)) else spelt

    def _check(self, what: str, always: bool = False) -> None:
        # llguidance keeps errors as state and raises nothing.
        if always or self._matcher.is_error():
            message = self._matcher.get_error().split("<state>")[0].strip()
            raise GrammarError(
                f"The grammar {self._name!r} {what}: {message or self._matcher.stop_reason()}",
                hint="The grammar must be in llguidance's Lark dialect, and every path through it must be able to end.",
            )
