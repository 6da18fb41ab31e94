"""Support scorers without a generative model, which score whether a quote (premise) supports a claim (hypothesis)."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from shared_core.errors import InputError, MissingDependencyError, ModelLoadError
from shared_core.reading.base import check_pairs
from shared_core.support.pickling import Remade
from shared_core.support.regex import lazy_regex

_YES = lazy_regex(r"^(entail\w*|supports?|supported|attributable|consistent|factual(ly)?[ _-]?consistent)$")
_ROOM = 2  # positions that RoBERTa-like models keep for padding


def entailment_label(labels: Mapping[int, str]) -> int:
    """The class that means "supported", by its name (``entailment``, ``SUPPORTS``, ``consistent``, …).

    Args:
        labels: a classifier's ``id2label``.

    Raises:
        ModelLoadError: no name says so (``LABEL_0`` says nothing), or more than one does.
    """
    found = [i for i, name in labels.items() if _YES.match(str(name).strip().lower())]
    if len(found) != 1:
        names = ", ".join(f"{i}: {name}" for i, name in sorted(labels.items()))
        raise ModelLoadError(
            f"The classifier's labels do not tell which class means entailment ({names}).",
            hint="Pass entailment=<class number or name> as the model's card gives it.",
        )
    return int(found[0])


class CrossEncoderSupportScorer(Remade):
    """P(premise entails hypothesis) by a sequence classifier trained on NLI, from a local folder; a ``SupportScorer``.

    ::

        scorer = CrossEncoderSupportScorer("models/nli-deberta-v3-small")
        scorer.score([("The lamp was lit in 1871.", "The lamp was lit.")])

    Pairs longer than the model reads are unknown (``None``): a cut premise may have lost what supports the claim. So
    are empty texts and outputs that are not finite. The model is loaded at first use. May be used from several threads.

    Args:
        path: folder with model and tokenizer (``save_pretrained``); nothing is downloaded.
        entailment: number or name of the class that means support; ``None`` tells it from the label names.
        batch_size: pairs at once, ≥ 1.
        device: ``cpu``, ``cuda``, …

    Raises:
        InputError: batch_size < 1.
        ModelLoadError: at first use, if there is no such model or its labels do not tell what they mean.
        MissingDependencyError: at first use, if torch or transformers is not installed.
    """

    def __init__(
        self, path: str | Path, *, entailment: int | str | None = None, batch_size: int = 16, device: str = "cpu"
    ) -> None:
        if batch_size < 1:
            raise InputError(f"batch_size must be at least 1, not {batch_size!r}.", hint="Usual: 8 to 64.")
        self._path = Path(path)
        self._entailment = entailment
        self._batch_size = batch_size
        self._device = device
        self._lock = threading.Lock()
        self._parts: tuple[Any, Any, int, int] | None = None

    @property
    def name(self) -> str:
        """Kind and folder name; calibrations are bound to it."""
        return f"cross-encoder:{self._path.name}"

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float | None]:
        """P(premise supports hypothesis) in [0, 1] for each (premise, hypothesis); ``None`` where unknown.

        InputError if something is no pair of strings.
        """
        check_pairs(pairs)
        out: list[float | None] = [None] * len(pairs)
        asked = [i for i, (premise, hypothesis) in enumerate(pairs) if premise.strip() and hypothesis.strip()]
        if not asked:
            return out
        with self._lock:
            if self._parts is None:
                self._parts = self._load()
            tokenizer, model, label, longest = self._parts
            rows = [tokenizer(pairs[i][0], pairs[i][1], truncation=False, verbose=False) for i in asked]
            lengths = [len(row["input_ids"]) for row in rows]
            # by length, so that a batch holds little padding
            fitting = sorted((j for j in range(len(asked)) if lengths[j] <= longest), key=lambda j: lengths[j])
            for begin in range(0, len(fitting), self._batch_size):
                batch = fitting[begin : begin + self._batch_size]
                for j, value in zip(batch, self._run(tokenizer, model, label, [rows[j] for j in batch])):
                    out[asked[j]] = value if math.isfinite(value) else None
        return out

    def _run(self, tokenizer: Any, model: Any, label: int, rows: list[Any]) -> list[float]:
        import torch

        inputs = tokenizer.pad(rows, return_tensors="pt").to(self._device)
        with torch.inference_mode():
            logits = model(**inputs).logits.double()
        return [float(p) for p in logits.softmax(dim=-1)[:, label]]

    def _load(self) -> tuple[Any, Any, int, int]:
        try:
            from transformers import AutoModelForSequenceClassification, AutoTokenizer
        except ImportError as error:
            raise MissingDependencyError(
                error.name or "transformers", extra="transformers", purpose="Scoring support with an NLI model"
            ) from error
        try:
            tokenizer = AutoTokenizer.from_pretrained(str(self._path), local_files_only=True)
            model = AutoModelForSequenceClassification.from_pretrained(str(self._path), local_files_only=True)
            model = model.to(self._device).eval()
        except Exception as error:  # whatever a missing or broken file raises
            raise ModelLoadError(
                f"No sequence classifier could be loaded from {self._path}: {error}",
                hint="Give the folder of a cross-encoder trained on NLI, with its tokenizer.",
            ) from error
        labels = {int(i): str(name) for i, name in model.config.id2label.items()}
        return tokenizer, model, self._label(labels), _longest(tokenizer, model)

    def _label(self, labels: Mapping[int, str]) -> int:
        if len(labels) < 2:
            raise ModelLoadError(
                f"{self._path} gives a single number, not classes.",
                hint="A classifier with two or more labels is needed.",
            )
        if self._entailment is None:
            return entailment_label(labels)
        for i, name in labels.items():
            if self._entailment in (i, name):
                return i
        raise ModelLoadError(
            f"The classifier has no label {self._entailment!r}.",
            hint=f"Known: {', '.join(f'{i} ({name})' for i, name in sorted(labels.items()))}",
        )


def _longest(tokenizer: Any, model: Any) -> int:
    """Tokens the model reads: the least of what tokenizer and model say."""
    limit = int(min(tokenizer.model_max_length, 1 << 20))
    positions = getattr(model.config, "max_position_embeddings", None)
    if isinstance(positions, int) and positions > 0:
        # RoBERTa and its kin count positions from the padding id on
        offset = _ROOM if "roberta" in str(model.config.model_type) else 0
        limit = min(limit, positions - offset)
    return limit
