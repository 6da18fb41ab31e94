"""Assemble the parts that engine, checker, gate, re-ranker, calibration and the plug-ins share."""

from __future__ import annotations

import dataclasses
import inspect
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, TypeVar

from shared_core.calibration import FittedGuarantee, FittedReplies
from shared_core.calibration.calibration import Calibration
from shared_core.calibration.stack import AnyCalibration, Stack
from shared_core.errors import CalibrationError, InputError, SettingsError
from shared_core.facades.arguments import as_settings, no_retriever
from shared_core.lm.base import LanguageModel, is_language_model
from shared_core.pipelines.decision.question_run import Abilities
from shared_core.pipelines.gating.choose import choose_estimator
from shared_core.reading.base import Reader, SupportScorer
from shared_core.reading.confidence import ExpectedShare
from shared_core.retrieval.base import Embedder, Retriever
from shared_core.runtime.flow import LeafRequest, Resources
from shared_core.settings import SelfReflectSettings

T = TypeVar("T")
_LOG = logging.getLogger(__name__)
_APPLIED = frozenset(("confidence", "claims", "support", "guarantee"))
_APPLIED_TO_MODELS = frozenset(("gate", "answer", "self_evaluation", "replies"))
"""Purposes of calibrations; the second ones say what a language model's own figures mean."""

_NEEDS = {"items": "It needs a mapping from names."} | dict.fromkeys(
    ("read", "score", "embed"), "It needs a method {0}(…): see shared_core.reading and shared_core.retrieval."
)

ROLES = ("default", "reference", "claim", "judge")
"""Roles of models: ``default`` is used for missing ones; ``reference`` and ``claim`` write (ReClaim); ``judge`` decides
whether quotes support claims if no support scorer is given."""


@dataclass(frozen=True, slots=True)
class Parts:
    """Settings, resources that execute requests, and the abilities that pipelines may ask about."""

    settings: SelfReflectSettings
    resources: Resources
    context: Abilities

    @classmethod
    def of(
        cls,
        settings: SelfReflectSettings | None = None,
        *,
        retriever: Retriever | None = None,
        lm: LanguageModel | None = None,
        models: Mapping[str, LanguageModel] | None = None,
        reader: Reader | None = None,
        judge: SupportScorer | None = None,
        critic: SupportScorer | None = None,
        embedder: Embedder | None = None,
        calibrations: Mapping[str, AnyCalibration] | None = None,
    ) -> Parts:
        """Create the parts.

        Args:
            retriever: anything with ``retrieve(query, k)``; ``None`` if nothing is retrieved.
            lm: model of the role ``default``.
            models: further ones by role (``ROLES``).
            reader, embedder: by default those of the process, loaded at first use.
            judge: support scorer of the user.
            critic: by default the shipped one, loaded at first use, if its packages are installed.
            calibrations: by purpose; by default read from ``settings.calibration``.

        Raises:
            InputError: an argument has the wrong type, or a role does not exist.
            CalibrationError: the settings' file of calibrations cannot be read.
        """
        settings = as_settings(settings)
        if retriever is not None:
            require_retriever(retriever)
        for part, name, method in (
            (reader, "reader", "read"), (judge, "judge", "score"), (critic, "critic", "score"),
            (embedder, "embedder", "embed"), (models, "models", "items"), (calibrations, "calibrations", "items"),
        ):  # fmt: skip
            if part is not None and not callable(getattr(part, method, None)):
                raise InputError(f"{name} cannot be of type {type(part).__name__}.", hint=_NEEDS[method].format(method))
        resources = Resources(
            models=_by_role(lm, models or {}),
            retriever=retriever,
            reader=reader if reader is not None else default_reader(),
            judge=judge,
            critic=critic if critic is not None else default_critic(),
            embedder=embedder if embedder is not None else default_embedder(),
        )
        loaded = calibrations if calibrations is not None else _load_calibrations(settings, bool(resources.models))
        expected = ExpectedShare(settings.expected_answerable)
        of_scores = {name: c for name, c in loaded.items() if isinstance(c, Calibration)}
        stack, replies = loaded.get("claims"), loaded.get("replies")
        context = Abilities.of(
            resources,
            of_scores,
            expected,
            stack if isinstance(stack, Stack) else None,
            _guarantee_of(settings, loaded),
            replies if isinstance(replies, FittedReplies) and resources.models else None,
        )
        if settings.signals == "support_only":
            context = dataclasses.replace(context, critic=None, has_reader=False)
        return cls(settings, resources, context)

    def require_model(self, what: str, *roles: str) -> None:
        """Raise SettingsError, naming ``what`` needs it, if neither a model of each role nor a default one exists."""
        for role in roles or ("default",):
            if self.context.has_model(role):
                continue
            given = ", ".join(self.resources.models)
            lacking = f"has one for {given} only" if given else "has none"
            kind = "" if role == "default" else f" for {role}"
            raise SettingsError(
                f"{what} needs a language model{kind}, and the engine {lacking}.",
                hint="Give one: SelfReflectEngine(…, lm=…); on the command line --model or --base-url.",
            )


def load(requests: Sequence[LeafRequest], resources: Resources) -> None:
    """Execute requests to load what they need; raise the first error."""
    for result in resources.execute(requests):
        if isinstance(result, Exception):
            raise result


def compares_meanings(settings: SelfReflectSettings, context: Abilities) -> bool:
    """Whether the uncertainty estimator compares meanings of samples, which needs an embedder or a judge."""
    if not context.has_model("default"):
        return False
    return bool(choose_estimator(settings, context).estimator.needs & {"similarity", "entailment"})


def require_retriever(retriever: object) -> None:
    """Raise InputError if it has no ``retrieve`` method that takes ``k`` (that of LlamaIndex's retrievers does not)."""
    if not _takes_k(getattr(retriever, "retrieve", None)):
        hint = "It needs retrieve(query, k): see shared_core.retrieval, or use the plugin of your framework."
        if callable(getattr(retriever, "retriever", None)):  # a DocumentIndex
            hint = "Pass what its method retriever() returns."
        raise no_retriever(retriever, hint)


def _takes_k(retrieve: object) -> bool:
    if not callable(retrieve):
        return False
    try:
        taken = inspect.signature(retrieve).parameters
    except (TypeError, ValueError):  # compiled code may not say
        return True
    return "k" in taken or any(p.kind is p.VAR_KEYWORD for p in taken.values())


def _by_role(lm: LanguageModel | None, models: Mapping[str, LanguageModel]) -> dict[str, LanguageModel]:
    roles = {**({"default": lm} if lm is not None else {}), **models}
    for role, model in roles.items():
        if role not in ROLES:
            raise InputError(f"There is no role {role!r} for a model.", hint=f"There are: {', '.join(ROLES)}.")
        if isinstance(model, type) or not is_language_model(model):
            kind = f"class ({model.__name__})" if isinstance(model, type) else type(model).__name__
            raise InputError(
                f"The {role} model is a {kind}, not a language model backend.",
                hint="Use shared_core.lm (TransformersLM, OpenAICompatibleLM, …), or the plugin of your framework.",
            )
    return roles


def _guarantee_of(settings: SelfReflectSettings, loaded: Mapping[str, AnyCalibration]) -> FittedGuarantee | None:
    """Return the fitted guarantee; CalibrationError if the settings ask for one that was not fitted."""
    found = loaded.get("guarantee")
    guarantee = found if isinstance(found, FittedGuarantee) else None
    if settings.guarantee is not None and guarantee is None:
        raise CalibrationError(
            f"guarantee={settings.guarantee!r} is set, but none was fitted for this configuration.",
            hint="Fit it: selfreflect calibrate guarantee QUESTIONS, and give the file as settings.calibration.",
        )
    return guarantee


def _load_calibrations(settings: SelfReflectSettings, has_model: bool) -> Mapping[str, AnyCalibration]:
    if settings.calibration is None:
        return {}
    from shared_core.calibration import io as calibration_io

    found = calibration_io.load(settings.calibration)
    if unused := sorted(set(found) - (_APPLIED | _APPLIED_TO_MODELS if has_model else _APPLIED)):
        _LOG.warning(
            "%s: what it holds for %s is not applied%s.",
            settings.calibration,
            ", ".join(unused),
            "" if has_model or not _APPLIED_TO_MODELS.intersection(unused) else " without a language model",
        )
    return found


# --- defaults of the process ---------------------------------------------------------------------------------------

_LOCK = threading.Lock()
_MADE: dict[type, Any] = {}


def default_reader() -> Reader:
    """Return the shipped extractive reader, one for the whole process; its model is loaded at first use."""
    from shared_core.reading.extractive import ExtractiveReader

    return _one_in_a_process(ExtractiveReader, default_reader)


def default_embedder() -> Embedder:
    """Return the MiniLM embedder, one for the whole process; its model is loaded at first use."""
    from shared_core.retrieval.embedding import MiniLMEmbedder

    return _one_in_a_process(MiniLMEmbedder, default_embedder)


def has_default_models() -> bool:
    """Whether the packages that reader, embedder and critic need (extra ``offline``) are installed."""
    return all(find_spec(name) is not None for name in ("onnxruntime", "tokenizers", "py3langid"))


def default_critic() -> SupportScorer | None:
    """Return the shipped critic, one for the whole process; ``None`` if its packages are not installed."""
    if not has_default_models():
        return None
    from shared_core.reading.critic import CriticSupportScorer

    return _one_in_a_process(CriticSupportScorer, default_critic)


def _one_in_a_process(kind: type[T], find: Callable[[], object]) -> T:
    """Return the one object of its kind; a pickle or copy of it becomes the result of ``find`` where it arrives."""

    def reduce(self: object) -> tuple[Callable[[], object], tuple[()]]:
        return find, ()

    def copy(self: T, memo: object) -> T:
        return self

    with _LOCK:
        if kind not in _MADE:
            names = {"__reduce__": reduce, "__deepcopy__": copy, "__module__": kind.__module__, "__doc__": kind.__doc__}
            _MADE[kind] = type(kind.__name__, (kind,), names)()
        made: T = _MADE[kind]
        return made
