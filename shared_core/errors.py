"""The one error tree.

Every error says what happened, to what, and (``hint``) what to do about it::

    SelfReflectError
    ├── SettingsError (ValueError)             a setting is unknown, of the wrong type or out of range
    ├── InputError (ValueError)                an argument cannot be used
    │   ├── QuestionError                      the question is empty or not text
    │   ├── PassageError                       a passage is malformed, or two share an id
    │   ├── DocumentError                      a file cannot be read as a document
    │   └── OptionError (SettingsError)        an argument that sets something is out of range or has no effect there
    │       └── ArgumentError (TypeError)      there is no argument of that name, or a needed one is missing
    ├── MissingDependencyError (ImportError)   an optional package is not installed
    ├── StoreError                             an index on disk or a vector store
    │   ├── IndexMissingError                  there is no index at that place
    │   └── IndexCorruptedError                there is one, and it cannot be trusted
    ├── RetrievalError                         a retriever failed while answering a query
    ├── CalibrationError                       a calibration is missing, too small, or of another configuration
    │   └── CalibrationInputError (InputError) what was given to fit it cannot be fitted, whatever is asked
    ├── LanguageModelError                     anything a language model backend refuses or fails at
    │   ├── ModelLoadError                     no model could be made from that name or path
    │   ├── CapabilityError                    the backend cannot do what the pipeline needs
    │   ├── ContextOverflowError               the prompt does not fit the model's context
    │   ├── GrammarError                       a grammar cannot be compiled, or reached a dead end
    │   ├── GenerationError                    the model ran and its output cannot be used (NaN logits, …)
    │   ├── BackendUnavailableError            a server is down, slow past its deadline, or refuses us
    │   └── ResponseError                      a server answered something that cannot be used
    │       └── EmptyReplyError                the reply holds no answer: a refusal, a tool call, endless thoughts
    ├── LimitError                             a question reached a limit of the settings before it was answered
    │   ├── DeadlineError (TimeoutError)       its time (``deadline``) is over
    │   └── BudgetError                        its calls or tokens (``max_calls``, ``max_tokens``) are spent
    └── AbstainedError                         raised instead of returned when ``on_abstain="raise"``
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any


class SelfReflectError(Exception):
    """Base of every error this project raises on purpose.

    Args:
        message: what happened, and to what.
        hint: what the reader can do about it; shown on its own line.
    """

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        """Message and hint, as a person should read them."""
        return f"{self.message}\nHint: {self.hint}" if self.hint else self.message

    def __reduce__(self) -> tuple[object, ...]:
        # Exceptions pickle as a call with their ``args``; subclasses take others (``CapabilityError``).
        return (_restore, (type(self), self.args), self.__dict__)


def _restore(kind: type[SelfReflectError], args: tuple[object, ...]) -> SelfReflectError:
    error = kind.__new__(kind, *args)
    error.args = args
    return error


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``Did you mean NAME? `` with the known name that is most like this one; empty if none is like it."""
    near = get_close_matches(name, known, n=1)
    return f"Did you mean {near[0]}? " if near else ""


class InputError(SelfReflectError, ValueError):
    """An argument cannot be used."""


class PassageError(InputError):
    """A passage is malformed, or two different passages share an id."""


class SettingsError(SelfReflectError, ValueError):
    """A setting is unknown, of the wrong type, or out of range."""


class QuestionError(InputError):
    """The question is empty or not text."""


class OptionError(SettingsError, InputError):
    """An argument that sets something (a count, a filter) is out of range, or could not have an effect there."""


class ArgumentError(OptionError, TypeError):
    """There is no argument of that name, or one that is needed was not given; what Python itself calls a TypeError."""


class DocumentError(InputError):
    """A file cannot be read as a document."""


class MissingDependencyError(SelfReflectError, ImportError):
    """An optional package is not installed."""

    def __init__(self, package: str, *, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the package {package!r}, which is not installed.",
            hint=f"pip install 'selfreflect-rag[{extra}]'",
        )
        self.package = package
        self.extra = extra


class StoreError(SelfReflectError):
    """An index on disk or a vector store failed."""


class IndexMissingError(StoreError):
    """There is no index at that place."""


class IndexCorruptedError(StoreError):
    """There is an index at that place, and it cannot be trusted."""


class RetrievalError(SelfReflectError):
    """A retriever failed while answering a query."""


class CalibrationError(SelfReflectError):
    """A calibration is missing, too small, or was made for another configuration."""


class CalibrationInputError(CalibrationError, InputError):
    """Questions or labelled rows do not suffice to fit what is asked for: too few, all of one kind, not judgeable."""


class LanguageModelError(SelfReflectError):
    """A language model backend refused or failed.

    Attributes:
        usage: what the model was paid for the request all the same, a ``shared_core.Usage`` (``types`` imports this
            module, so it is ``Any``); ``None`` where that is not known.
    """

    usage: Any = None


class ModelLoadError(LanguageModelError):
    """No model could be made from that name or path."""


class CapabilityError(LanguageModelError):
    """The backend cannot do what is asked of it.

    Args:
        capability: the name of the missing capability (a field of ``Capabilities``).
    """

    def __init__(self, capability: str, backend: str, *, hint: str = "") -> None:
        super().__init__(f"The language model {backend!r} has no {capability.replace('_', ' ')}.", hint=hint)
        self.capability = capability
        self.backend = backend


class ContextOverflowError(LanguageModelError):
    """The prompt (and room for the answer) does not fit the model's context.

    Args:
        needed: tokens asked for, prompt and new tokens together; ``None`` where the provider does not say.
        available: the model's context length in tokens; ``None`` where the provider does not say.
        hint: what to do; by default to retrieve less.
        said: the provider's own words, shown where it gives no figures.
    """

    def __init__(
        self, needed: int | None = None, available: int | None = None, *, hint: str = "", said: str = ""
    ) -> None:
        if needed is not None and available is not None:
            message = (
                f"The prompt and the tokens to generate need {needed} tokens, {needed - available} more than the "
                f"model's context of {available}."
            )
        else:
            size = "" if available is None else f" of {available} tokens"
            told = f": {said}" if said else "."
            message = f"The prompt and the tokens to generate do not fit the model's context{size}{told}"
        super().__init__(message, hint=hint or "Retrieve fewer or shorter passages (top_k), or lower max_tokens.")
        self.needed = needed
        self.available = available

    @property
    def excess(self) -> float:
        """The share of the tokens asked for that is too much, from 0 (also: unknown) to 1."""
        if self.needed is None or self.available is None or self.needed <= 0:
            return 0.0
        return min(1.0, max(0.0, (self.needed - self.available) / self.needed))


class GrammarError(LanguageModelError):
    """A grammar cannot be compiled, or generation reached a dead end in it."""


class GenerationError(LanguageModelError):
    """The model ran, and what it gave cannot be used."""


class BackendUnavailableError(LanguageModelError):
    """A model server is down, slower than its deadline, or refuses us."""


class ResponseError(LanguageModelError):
    """A model server answered something that cannot be used."""


class EmptyReplyError(ResponseError):
    """A model's reply holds no answer: it was withheld or refused, calls a tool, or is nothing but thoughts."""


class LimitError(SelfReflectError):
    """A question reached a limit of the settings before it was answered.

    No fault of any backend's, and so no LanguageModelError: what is done about a failing model (ask again, take the
    answer as unknown and go on) is not to be done about a limit. Pipelines end with what they have; what nobody
    catches, the engine turns into an abstention that says so.
    """


class DeadlineError(LimitError, TimeoutError):
    """The time given for a question is over."""


class BudgetError(LimitError):
    """The model calls or tokens given for a question are spent.

    Args:
        calls_left: requests of the refused batch that may still be made, the first ones; 0 where the tokens are
            spent.
    """

    def __init__(self, message: str, *, hint: str = "", calls_left: int = 0) -> None:
        super().__init__(message, hint=hint)
        self.calls_left = calls_left


class AbstainedError(SelfReflectError):
    """The engine abstained and ``on_abstain="raise"`` was set.

    Args:
        answer: the ``shared_core.Answer`` with all that was found (``types`` imports this module, so it is ``Any``).
    """

    def __init__(self, answer: Any) -> None:
        super().__init__(
            f"No answer meets the target accuracy: {answer.reason}.",
            hint="Lower target_accuracy, add documents, or set on_abstain='say' to get the abstention as an answer.",
        )
        self.answer = answer
