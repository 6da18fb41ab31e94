"""The reader's weights and calibration as they ship, and the code that loads them."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shared_core.errors import CalibrationError, MissingDependencyError, ModelLoadError
from shared_core.reading.confidence import Logistic
from shared_core.reading.encoder import Encoded
from shared_core.reading.features import RARITY_BUCKETS, Surface
from shared_core.reading.joint import corrected

if TYPE_CHECKING:
    from torch import Tensor

WEIGHTS = Path(__file__).parent / "reader.safetensors"
"""The weights that ship; ``reader.json`` beside them holds the calibration and names their sources."""
RARITY_STEPS = 200
"""Rarities are stored as whole numbers of this many to 1."""


class Logits(NamedTuple):
    """The network's output for one window: (n,) float64 for each token, and one for the window."""

    start: NDArray[np.float64]
    end: NDArray[np.float64]
    sentence: NDArray[np.float64]
    window: float


@dataclass(frozen=True, slots=True)
class Weights:
    """Everything the reader learned.

    Attributes:
        network: the parameters.
        rarity: (RARITY_BUCKETS,) float32.
        span_share: how much the best span's logit counts in a sentence's score, 0 to 1.
        rank_prior: how much the retriever's order counts: taken off a score, times ln(rank), at least 0.
        correct, answerable: the probability models.
        version: of weights and calibration together.
    """

    network: dict[str, Tensor]
    rarity: NDArray[np.float32]
    span_share: float
    rank_prior: float
    correct: Logistic
    answerable: Logistic
    version: str

    @classmethod
    def load(cls, path: Path) -> Weights:
        """Load ``path`` and the JSON file beside it.

        Raises:
            MissingDependencyError: torch or safetensors is not installed.
            ModelLoadError: a file is missing or damaged, or the two do not belong together.
            CalibrationError: the calibration cannot be used.
        """
        try:
            from safetensors.torch import load
        except ImportError as error:
            raise MissingDependencyError("safetensors", extra="offline", purpose="The extractive reader") from error
        hint = "Reinstall the package, or rebuild them: python -m shared_core.training.reader"
        try:
            raw = path.read_bytes()
            about: dict[str, Any] = json.loads(path.with_suffix(".json").read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise ModelLoadError(f"The reader's weights cannot be read: {error}", hint=hint) from error
        digest = hashlib.sha256(raw).hexdigest()
        if about.get("sha256") != digest:
            raise ModelLoadError(f"{path} and the JSON file beside it do not belong together.", hint=hint)
        try:
            tensors = load(raw)
            rarity = tensors.pop("rarity").numpy().astype(np.float32) / np.float32(RARITY_STEPS)
            span_share = float(about["span_share"])
            rank_prior = float(about["rank_prior"])
            correct, answerable = about["correct"], about["answerable"]
        except Exception as error:
            raise ModelLoadError(f"The reader's weights in {path} are damaged: {error}", hint=hint) from error
        if rarity.shape != (RARITY_BUCKETS,) or not (0 <= span_share <= 1 and 0 <= rank_prior < math.inf):
            raise CalibrationError(f"The reader's weights in {path} are of another version.", hint=hint)
        network = {name: tensor.float() for name, tensor in tensors.items()}
        version = f"{about.get('version', '?')}-{digest[:8]}"
        models = Logistic.from_dict(correct), Logistic.from_dict(answerable)
        return cls(network, rarity, span_share, rank_prior, *models, version)

    def over(self, base: Mapping[str, Tensor]) -> Weights:
        """The same with its corrections worked into the embedding model's upper layers (``TokenEncoder``).

        Raises:
            ModelLoadError: the corrections do not fit these layers.
        """
        if "ends" not in self.network:
            return self
        try:
            return replace(self, network=corrected(base, self.network))
        except (KeyError, RuntimeError) as error:
            raise ModelLoadError(
                f"The reader's weights do not fit the embedding model: {error}",
                hint="Rebuild them: python -m shared_core.training.reader",
            ) from error

    def score(self, sentence: float, span: float, rank: int) -> float:
        """A sentence's score from its logit, its best span's and its passage's rank (from 1); 0 is "no answer".

        The retriever's order is evidence that the network does not see: the right passage is at rank r about as often
        as r to a negative power, so its logarithm is added.
        """
        found = (1 - self.span_share) * sentence + self.span_share * span
        return found - self.rank_prior * math.log(rank)

    def run(self, window: Encoded, question: Encoded, seen: Surface) -> Logits:
        """Run the network on one window, unpadded and in float32."""
        import torch

        from shared_core.reading.network import Inputs, forward

        with torch.inference_mode():
            out = forward(
                self.network,
                Inputs(
                    torch.from_numpy(window.states).float()[None],
                    torch.from_numpy(question.states).float()[None],
                    torch.ones(1, len(window.ids), dtype=torch.bool),
                    torch.ones(1, len(question.ids), dtype=torch.bool),
                    torch.from_numpy(seen.tokens)[None],
                    torch.from_numpy(seen.question)[None],
                    torch.from_numpy(seen.match)[None],
                ),
            )
        start, end, sentence = (v[0].double().numpy() for v in out[:3])
        return Logits(start, end, sentence, float(out.window[0]))
