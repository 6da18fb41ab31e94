"""Options that commands share, and any setting by its name (``--set``).

Commands take one of the dataclasses below as a parameter; ``reports_errors`` expands it into its options.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from shared_core.cli import common
from shared_core.cli.common import BuiltEngine
from shared_core.cli.console import note
from shared_core.errors import InputError
from shared_core.settings import PipelineName, SelfReflectSettings, Settings

if TYPE_CHECKING:
    from shared_core.reading.base import SupportScorer

Docs = Annotated[
    list[Path],
    typer.Option(
        "--docs", "-d", help="File or folder to answer from, repeatable; indexed as needed, in your cache folder."
    ),
]
Index = Annotated[Path | None, typer.Option("--index", "-i", help="Folder of an index made by `selfreflect index`.")]


def _place_of_vectors(value: str | None) -> str | None:
    """Accept the bare URL of ``--chroma-url``, the old name of this option, with a warning."""
    if value is None or not value.startswith(("http://", "https://")):
        return value
    note(f"warning: --chroma-url is now --vectors chroma:{value}", style="yellow")
    return f"chroma:{value}"


Vectors = Annotated[
    str | None,
    typer.Option(
        "--vectors",
        "--chroma-url",
        metavar="PLACE",
        callback=_place_of_vectors,
        help="Place of dense vectors: index (its own file, the default), chroma (embedded), chroma:URL (a server) "
        "or none (BM25 only). An index remembers it.",
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        help="transformers model: hub name, path, GGUF file, adapter, smollm2; or the name on the server.",
    ),
]
Dtype = Annotated[
    str | None,
    typer.Option(
        help="Weights of a model in this process: float32, bfloat16 (the default for weights saved in it, on a CPU "
        "only if it computes in it), float16 or auto."
    ),
]
BaseUrl = Annotated[
    str | None, typer.Option("--base-url", help="OpenAI-compatible server (vLLM, llama.cpp, Ollama, …).")
]
Pipeline = Annotated[str, typer.Option("--pipeline", "-p", help=f"One of {', '.join(get_args(PipelineName))}.")]
Target = Annotated[
    float, typer.Option("--target-accuracy", "-t", help="Answer only if the answer is right at least this often.")
]
TopK = Annotated[int, typer.Option("--top-k", "-k", help="Passages to read.")]
JudgePath = Annotated[
    str | None, typer.Option("--judge", help="NLI cross-encoder (path) that scores whether quotes support claims.")
]
Calibration = Annotated[Path | None, typer.Option("--calibration", help="File written by `selfreflect calibrate`.")]
Set = Annotated[
    list[str], typer.Option("--set", metavar="NAME=VALUE", help="Any setting, repeatable: research.samples=4.")
]
Json = Annotated[bool, typer.Option("--json", help="Print the whole result as JSON (a list if several).")]
Html = Annotated[Path | None, typer.Option("--html", help="Also write an HTML report.")]
Trace = Annotated[bool, typer.Option("--trace", help="Show every decision.")]
Limit = Annotated[int | None, typer.Option(min=1, help="Ask only the first N questions.")]
Guarantee = Annotated[
    str | None,
    typer.Option(
        "--guarantee",
        help="Guarantee for the claims shown: conformal_factuality, conformal_risk_control or learn_then_test.",
    ),
]

_DEFAULTS = SelfReflectSettings()


@dataclass(frozen=True, kw_only=True)
class DocumentOptions:
    """Options that name the documents to read and the model to ask.

    >>> DocumentOptions(model="smollm2").top_k
    5
    """

    docs: Docs = field(default_factory=list)
    index: Index = None
    vectors: Vectors = None
    model: Model = None
    dtype: Dtype = None
    base_url: BaseUrl = None
    top_k: TopK = _DEFAULTS.top_k
    judge: JudgePath = None

    @property
    def has_model(self) -> bool:
        """Whether a language model is named."""
        return self.model is not None or self.base_url is not None

    @property
    def reads(self) -> bool:
        """Whether documents are named."""
        return bool(self.docs) or self.index is not None

    def load_judge(self) -> SupportScorer | None:
        """Load the judge, if one is named."""
        from shared_core.reading.support import CrossEncoderSupportScorer

        return None if self.judge is None else CrossEncoderSupportScorer(self.judge)

    def require_judge_in_use(self) -> None:
        """Refuse (InputError) a judge where answers are sentences of the documents, which nobody judges."""
        if self.judge is not None and not self.has_model:
            raise InputError(
                "--judge has no effect on answers without a language model.",
                hint="Leave it out, or give --model or --base-url. selfreflect check uses it without.",
            )

    def build(self, settings: SelfReflectSettings, *, trace_prompts: Path | None = None) -> BuiltEngine:
        """Build the engine over the documents, with its index; closed-book settings need no documents.

        ``trace_prompts``: file for the model's prompts and replies.

        Raises:
            InputError: prompts are to be traced, and there is no model.
        """
        from shared_core.facades.engine import SelfReflectEngine
        from shared_core.lm.tracing import TracingLM
        from shared_core.retrieval import BM25Retriever

        lm, tracer = common.build_model(self.model, self.base_url, self.dtype), None
        if trace_prompts is not None:
            if lm is None:
                raise InputError(
                    "There are no prompts to trace: no language model is asked.",
                    hint="Name one with --model or --base-url.",
                )
            lm = tracer = TracingLM(lm, trace_prompts)
        judge = self.load_judge()
        if common.answers_closed_book(settings) and not self.reads:
            return BuiltEngine(SelfReflectEngine(BM25Retriever(), lm, settings, judge=judge), None, tracer)
        index = common.open_index(self.docs, self.index, self.vectors)
        return BuiltEngine(SelfReflectEngine(index.retriever(), lm, settings, judge=judge), index, tracer)


@dataclass(frozen=True, kw_only=True)
class EngineOptions(DocumentOptions):
    """Options of an engine: documents, model, pipeline, and any further setting.

    >>> EngineOptions(pipeline="seakr", changes=["max_claims=2"]).settings().max_claims
    2
    """

    pipeline: Pipeline = _DEFAULTS.pipeline
    changes: Set = field(default_factory=list)

    def settings(self, **more: Any) -> SelfReflectSettings:
        """Return the settings that the options and ``more`` name; ``--set`` comes last. Errors as ``with_set``."""
        return with_set(SelfReflectSettings(pipeline=self.pipeline, top_k=self.top_k, **more), self.changes)


@dataclass(frozen=True, kw_only=True)
class AnswerOptions(EngineOptions):
    """Options of an engine whose answers are shown or measured: target accuracy, calibration, guarantee.

    >>> AnswerOptions(target_accuracy=0.8).settings().target_accuracy
    0.8
    """

    target_accuracy: Target = _DEFAULTS.target_accuracy
    calibration: Calibration = None
    guarantee: Guarantee = None

    def settings(self, **more: Any) -> SelfReflectSettings:
        """Return the settings that the options and ``more`` name; errors as ``with_set``."""
        own = {"target_accuracy": self.target_accuracy, "calibration": self.calibration, "guarantee": self.guarantee}
        return super().settings(**own, **more)


def with_set(settings: SelfReflectSettings, pairs: Sequence[str]) -> SelfReflectSettings:
    """Apply ``name=value`` pairs; values are JSON (``4``, ``true``, ``null``), anything else is text.

    Raises:
        InputError: a pair has no ``=``.
        SettingsError: unknown setting, or an invalid value.
    """
    changes: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise InputError(f"--set takes NAME=VALUE, not {pair!r}.", hint="--set research.samples=4")
        *groups, last = name.strip().split(".")
        own: object = settings
        values = changes
        for group in groups:
            own = getattr(own, group, None) if isinstance(own, Settings) else None
            if not isinstance(values.get(group), dict):  # the first change in this group: begin with what is set
                given = own.model_dump(exclude_unset=True) if isinstance(own, Settings) else own
                values[group] = dict(given) if isinstance(given, Mapping) else {}
            values = values[group]
        values[last] = _read(value)
    return settings.replace(**changes) if changes else settings


def _read(value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        return value.strip()
