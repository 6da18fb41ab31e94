"""The weights of reader and critic and their calibration as they ship, and the code that loads them."""

from __future__ import annotations

import hashlib
import json
import math
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shared_core.errors import CalibrationError, ModelLoadError
from shared_core.reading.confidence import Logistic, Rescaling
from shared_core.reading.conflicts import CONFLICTS
from shared_core.reading.features import RARITY_BUCKETS
from shared_core.reading.network import Network
from shared_core.retrieval.graphs import read_archive
from shared_core.retrieval.minilm import load_model

WEIGHTS = Path(__file__).parent / "network.npz"
"""The weights that ship; ``network.json`` beside them holds the calibration and names their sources."""
VERIFIER = "verifier.npz"
"""Beside them, a network of the same shape, trained on on near misses: it finds less and judges better."""
RARITY_STEPS = 200
"""Rarities are stored as whole numbers of this many to 1."""
_HINT = "Reinstall the package, or rebuild them in a checkout of the project: python -m benchmarks.reader.quantise"


@dataclass(frozen=True, slots=True)
class ConflictTerms:
    """Numbers that conflicts between question and sentence (``conflicts.CONFLICTS``) take off, all at most 0.

    Attributes:
        answerable: of the best candidate, added to the log-odds that what was read holds an answer.
        right: of each candidate, added to the log-odds that it is right, if there is an answer.
        score: added to the score of a candidate that gives another value or the opposite.

    Raises:
        ValueError: a name is unknown, or a number is above 0 or not finite.
    """

    answerable: Mapping[str, float] = field(default_factory=dict)
    right: Mapping[str, float] = field(default_factory=dict)
    score: float = 0.0

    def __post_init__(self) -> None:
        if not {*self.answerable, *self.right} <= {*CONFLICTS}:
            raise ValueError(f"conflicts are {', '.join(CONFLICTS)}")
        if not all(-math.inf < v <= 0 for v in (*self.answerable.values(), *self.right.values(), self.score)):
            raise ValueError("conflicts take something off: numbers at most 0")

    @staticmethod
    def total(terms: Mapping[str, float], conflicts: Iterable[str]) -> float:
        """Sum the terms of these conflicts."""
        return sum(terms.get(name, 0.0) for name in conflicts)


@dataclass(frozen=True, slots=True)
class Weights:
    """Everything reader and critic learned.

    Attributes:
        network: its graphs.
        rarity: (RARITY_BUCKETS,) float32.
        span_share: how much the best span's logit counts in a sentence's score, 0 to 1.
        rank_prior: how much the retriever's order counts: taken off a score, times ln(rank), at least 0.
        together: windows that are read together with the question, at least 1; the cheap score chooses them.
        answerable: P(what was read holds an answer); ``right``: P(a candidate is right, if there is an answer).
        expected: share of questions with an answer that ``answerable`` was fitted on.
        support: P(evidence supports a claim), of ``critic.EVIDENCE_FIGURES``.
        relevance: (slope, intercept) of a passage's log-odds against "no answer".
        version: of weights and calibration together.
        conflicts: what conflicts between question and sentence take off.
        structured: from the probability of a quote to that of one from a structured passage (``rows.is_structured``).
        verifier: SHA-256 of the verifier's file beside them; "" if there is none, and the reader verifies by itself.
    """

    network: Network
    rarity: NDArray[np.float32]
    span_share: float
    rank_prior: float
    together: int
    answerable: Logistic
    right: Logistic
    expected: float
    support: Logistic
    relevance: tuple[float, float]
    version: str
    conflicts: ConflictTerms = ConflictTerms()
    structured: Rescaling = Rescaling()
    verifier: str = ""

    @classmethod
    def load(cls, path: Path) -> Weights:
        """Load ``path`` and the JSON file beside it.

        Raises:
            MissingDependencyError: onnxruntime or tokenizers is not installed.
            ModelLoadError: a file is missing or damaged, or the two do not belong together.
            CalibrationError: the calibration cannot be used.
        """
        try:
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            about: dict[str, Any] = json.loads(path.with_suffix(".json").read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise ModelLoadError(f"The reader's weights cannot be read: {error}", hint=_HINT) from error
        if about.get("sha256") != digest:
            raise ModelLoadError(f"{path} and the JSON file beside it do not belong together.", hint=_HINT)
        archive, encoder = read_archive(path), load_model()
        try:
            network = Network(encoder, archive)
            rarity = archive["rarity"].astype(np.float32) / np.float32(RARITY_STEPS)
            numbers = [float(about[name]) for name in ("span_share", "rank_prior", "together", "expected")]
            relevance = float(about["relevance"][0]), float(about["relevance"][1])
            conflicts = ConflictTerms(**about.get("conflicts", {}))
            structured = Rescaling(*map(float, about.get("structured", (1.0, 0.0))))
            fitted = [about[name] for name in ("answerable", "right", "support")]
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise ModelLoadError(f"The reader's weights in {path} are damaged: {error}", hint=_HINT) from error
        span_share, rank_prior, together, expected = numbers
        fine = 0 <= span_share <= 1 and 0 <= rank_prior < math.inf and together >= 1 and 0 < expected < 1
        if rarity.shape != (RARITY_BUCKETS,) or not fine or not np.isfinite(relevance).all():
            raise CalibrationError(f"The reader's weights in {path} are of another version.", hint=_HINT)
        version = _version(about)
        answerable, right, support = map(Logistic.from_dict, fitted)
        return cls(
            network,
            rarity,
            span_share,
            rank_prior,
            int(together),
            answerable,
            right,
            expected,
            support,
            relevance,
            version,
            conflicts,
            structured,
            str(about.get("verifier", "")),
        )

    def score(self, sentence: float, span: float, rank: int) -> float:
        """A sentence's score from its logit, its best span's and its passage's rank (from 1); 0 is "no answer".

        The retriever's order is evidence that the network does not see: the right passage is at rank r about as often
        as r to a negative power, so its logarithm is added.
        """
        found = (1 - self.span_share) * sentence + self.span_share * span
        return found - self.rank_prior * math.log(rank)


_known: dict[Path, Weights] = {}
_lock = threading.Lock()


def load_weights(path: Path) -> Weights:
    """Load the weights of a file once per process, for all readers and critics; errors as ``Weights.load``."""
    with _lock:
        key = path.resolve()
        if key not in _known:
            _known[key] = Weights.load(path)
        return _known[key]


def load_verifier(path: Path) -> Weights:
    """Load what verifies the answers of the reader with the weights in ``path``, once per process.

    Only its network is its own; its calibration is the reader's, and not used.

    Raises:
        ModelLoadError: it is missing, damaged or not the one that the reader's calibration was fitted with.
    """
    reader = load_weights(path)
    if not reader.verifier:
        return reader
    file = path.with_name(VERIFIER)
    with _lock:
        key = file.resolve()
        if key not in _known:
            _known[key] = replace(reader, network=_verifier(file, reader.verifier))
        return _known[key]


def _verifier(file: Path, expected: str) -> Network:
    try:
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError as error:
        raise ModelLoadError(f"The reader's verifier cannot be read: {error}", hint=_HINT) from error
    if digest != expected:
        raise ModelLoadError(f"{file} is not the verifier that the JSON file beside it names.", hint=_HINT)
    try:
        return Network(load_model(), read_archive(file))
    except KeyError as error:
        raise ModelLoadError(f"The reader's verifier {file} is damaged: {error}", hint=_HINT) from error


def version_of(path: Path) -> str:
    """The version of the weights in ``path``, from the JSON file beside them: nothing heavy is loaded.

    ModelLoadError if there is no such file, or it is damaged.
    """
    try:
        return _version(json.loads(path.with_suffix(".json").read_text("utf-8")))
    except (OSError, ValueError, AttributeError) as error:
        raise ModelLoadError(f"The reader's weights cannot be read: {error}", hint=_HINT) from error


def _version(about: Mapping[str, Any]) -> str:
    """Changes with the weights (whose hash stands there) and with the calibration."""
    digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()
    return f"{about.get('version', '?')}-{digest[:8]}"
