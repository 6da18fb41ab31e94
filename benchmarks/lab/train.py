"""Train the lab's model from scratch; after an interruption the same command continues.

    python -m benchmarks.lab.train --out DIR --minutes M [--threads N] [--size small] [--seed 0] [--world 0]

``DIR/model`` is the result: weights in bfloat16 with tokenizer and card (``lab.json``), as transformers and vLLM load
them. ``DIR/log.jsonl`` has the losses by family. A killed training continues from a checkpoint that is a few minutes
old, with the rows it would have had. ``--minutes`` counts all runs together.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.metadata
import json
import math
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.lab.model import FamilyScores, attend_densely, fuse_layers, make_model, save_model, score_batch, size_of
from benchmarks.lab.packing import Cursor, Packer, Step
from benchmarks.lab.rows.source import RowSource
from benchmarks.lab.tokenizer import VOCABULARY, train_tokenizer
from shared_core.errors import GenerationError, InputError, SelfReflectError
from shared_core.lab.world import World
from shared_core.lm.encoding import Encoder

if TYPE_CHECKING:
    from torch import Tensor
    from torch.optim import Optimizer
    from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

STATE, LOG, MODEL = "state.pt", "log.jsonl", "model"
_WARM_UP = 60
_DECAY_FROM = 0.7
_EVERY = 10
_TUNE_STEPS = 4
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class TrainSettings:
    """Settings of a training. Only ``minutes`` may change when a training continues.

    Attributes:
        minutes: minutes of training, in all runs together.
        seed: seed of weights and rows.
        world: seed of the world.
        size: name of the model's shape (``benchmarks.lab.model.SIZES``).
        vocabulary: size of the tokenizer's vocabulary.
        rate: highest learning rate: reached after a short warm-up, kept for 70% of the time, then lowered to 0.
        tokens: tokens of a step of the optimiser, padding included.
        decay: weight decay per unit of learning rate.
    """

    minutes: float
    seed: int = 0
    world: int = 0
    size: str = "small"
    vocabulary: int = VOCABULARY
    rate: float = 2e-3
    tokens: int = 8192
    decay: float = 0.05

    def __post_init__(self) -> None:
        """Refuse settings that cannot be trained with."""
        if not self.minutes > 0 or not self.rate > 0:
            raise InputError(f"minutes and rate must be above 0, not {self.minutes!r} and {self.rate!r}.")
        size_of(self.size)


class Training:
    """A training in its folder.

    Args:
        folder: created if missing; a training that was started there continues.
        settings: settings of the training.
        device: for instance ``cpu`` or ``cuda``; by default an accelerator if there is one.
        checkpoint_seconds: seconds between checkpoints.
        say: called with each line of progress.

    Raises:
        InputError: the training in the folder was started with other settings.
    """

    def __init__(
        self,
        folder: str | Path,
        settings: TrainSettings,
        *,
        device: str | None = None,
        checkpoint_seconds: float = 180,
        say: Say = lambda line: None,
    ) -> None:

        from shared_core.lm.checkpoints import default_device

        self.folder, self.settings, self.say = Path(folder), settings, say
        self.device = device or default_device()
        self.checkpoint_seconds = checkpoint_seconds
        self.folder.mkdir(parents=True, exist_ok=True)
        self.world = World(settings.world)
        self.tokenizer = self._tokenizer()
        self.model: LlamaForCausalLM = make_model(self.tokenizer, size_of(settings.size), settings.seed)
        if self.device == "cpu":
            attend_densely(self.model)
            fuse_layers(self.model)
        self.model.to(self.device).train()
        self.optimizers = _optimizers(self.model, settings)
        encoder = Encoder(self.tokenizer)
        self.packer = Packer(RowSource(self.world, settings.seed), encoder, tokens=settings.tokens)
        self.tuning = Packer(RowSource(self.world, settings.seed, "tune"), encoder, tokens=settings.tokens)
        self.cursor, self.done, self.seconds, self.tokens, self.dropped = Cursor(), 0, 0.0, 0, 0
        self._resume()

    # --- running -----------------------------------------------------------------------------------------------

    def run(self) -> Path:
        """Train until the time is up, and save the model.

        Returns:
            The model's folder.

        Raises:
            GenerationError: the loss is not finite; the last checkpoint is from before that.
        """
        limit = 60 * self.settings.minutes
        scores_since: dict[str, FamilyScores] = {}
        saved = begun = time.monotonic()
        before = self.seconds
        while self.seconds < limit:
            started = time.monotonic()
            step, after = self.packer.step(self.cursor)
            loss, scores = self._learn(step, self._rate(self.seconds / limit))
            self.cursor = after
            self.done += 1
            self.tokens += step.used
            self.dropped += step.dropped
            scores_since = _merged(scores_since, scores)
            self.seconds = before + time.monotonic() - begun
            if self.done % _EVERY == 0:
                self._log(scores_since, step.used / (time.monotonic() - started), loss)
                scores_since = {}
            if time.monotonic() - saved > self.checkpoint_seconds:
                self._checkpoint()
                saved = time.monotonic()
        self._checkpoint()
        return self._finish()

    def _rate(self, share: float) -> float:
        """Return the learning rate at a share of the time: warm-up, plateau, then 1 − √ decay."""
        warm = min(1.0, (self.done + 1) / _WARM_UP)  # by steps, the rest by time: --minutes is the budget
        late = max(0.0, share - _DECAY_FROM) / (1 - _DECAY_FROM)
        return self.settings.rate * warm * (1 - math.sqrt(min(1.0, late)))

    def _learn(self, step: Step, rate: float) -> tuple[float, dict[str, FamilyScores]]:
        import torch

        for group in (g for o in self.optimizers for g in o.param_groups):
            group["lr"] = rate
        total, scores = 0.0, dict[str, FamilyScores]()
        for batch in step.batches:
            loss, found = score_batch(self.model, batch, self.device)
            torch.autograd.backward(loss)
            total += float(loss.detach())
            scores = _merged(scores, found)
        norm: Tensor = torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        if not math.isfinite(total) or not math.isfinite(float(norm)):
            raise GenerationError(
                f"The training diverged at step {self.done + 1}: its loss is not finite.",
                hint="Start again in another folder with a lower --rate.",
            )
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        return total, scores

    def measure(self, steps: int = _TUNE_STEPS) -> dict[str, FamilyScores]:
        """Score rows about the tuning split by family, at the frequencies of training."""
        import torch

        # Group numbers far beyond those of any training: past the warm-up, and never trained on.
        cursor, scores = Cursor(10**9), dict[str, FamilyScores]()
        with torch.no_grad():
            for _ in range(steps):
                step, cursor = self.tuning.step(cursor)
                for batch in step.batches:
                    scores = _merged(scores, score_batch(self.model, batch, self.device)[1])
        return scores

    # --- files -------------------------------------------------------------------------------------------------

    def _tokenizer(self) -> PreTrainedTokenizerFast:
        """Load the folder's tokenizer, or train it first."""
        from transformers import PreTrainedTokenizerFast

        place = self.folder / "tokenizer"
        if not (place / "tokenizer.json").exists():
            part = self.folder / f"tokenizer.{os.getpid()}"
            made = train_tokenizer(
                self.settings.seed, vocabulary=self.settings.vocabulary, context=size_of(self.settings.size).context
            )
            made.save_pretrained(part)
            os.replace(part, place)
        found: PreTrainedTokenizerFast = PreTrainedTokenizerFast.from_pretrained(place)
        return found

    def _same(self) -> dict[str, Any]:
        """Return the settings that must not change when a training continues."""
        fixed = {k: v for k, v in asdict(self.settings).items() if k != "minutes"}
        return {**fixed, "fingerprint": self.world.fingerprint}

    def _checkpoint(self) -> None:
        import torch

        state = {
            "settings": self._same(),
            "model": self.model.state_dict(),
            "optimizers": [o.state_dict() for o in self.optimizers],
            "cursor": asdict(self.cursor),
            "done": self.done,
            "seconds": self.seconds,
            "tokens": self.tokens,
            "dropped": self.dropped,
        }
        part = self.folder / f"{STATE}.part"
        torch.save(state, part)
        os.replace(part, self.folder / STATE)  # atomic: a kill leaves the old file or the new one

    def _resume(self) -> None:
        import torch

        place = self.folder / STATE
        if not place.exists():
            (self.folder / LOG).write_text("", encoding="utf-8")
            return
        state = torch.load(place, map_location=self.device, weights_only=True)
        if state["settings"] != self._same():
            changed = [k for k, v in self._same().items() if state["settings"].get(k) != v]
            raise InputError(
                f"The training in {self.folder} was started with other settings: {', '.join(changed)}.",
                hint="Give the same ones, or another --out.",
            )
        self.model.load_state_dict(state["model"])
        for optimizer, kept in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(kept)
        waiting = tuple((int(g), int(t)) for g, t in state["cursor"]["waiting"])
        self.cursor = Cursor(int(state["cursor"]["group"]), waiting)
        self.done, self.seconds = int(state["done"]), float(state["seconds"])
        self.tokens, self.dropped = int(state["tokens"]), int(state["dropped"])
        self._cut_log()
        self.say(f"continuing after step {self.done}, {self.seconds / 60:.1f} minutes")

    def _cut_log(self) -> None:
        """Drop the lines logged after the checkpoint: those steps are repeated."""
        kept = [line for line in self._log_lines() if line["step"] <= self.done]
        text = "".join(json.dumps(line) + "\n" for line in kept)
        part = self.folder / f"{LOG}.part"
        part.write_text(text, encoding="utf-8")
        os.replace(part, self.folder / LOG)

    def _log_lines(self) -> list[dict[str, Any]]:
        place = self.folder / LOG
        found = []
        for line in place.read_text(encoding="utf-8").splitlines() if place.exists() else []:
            try:
                found.append(json.loads(line))
            except ValueError:  # cut off by a kill
                continue
        return found

    def _log(self, scores: Mapping[str, FamilyScores], speed: float, loss: float) -> None:
        minutes, families = round(self.seconds / 60, 3), _plain(scores)
        line = {
            "step": self.done,
            "minutes": minutes,
            "tokens": self.tokens,
            "tokens_per_second": round(speed),
            "loss": round(loss, 4),
            "families": families,
        }
        with (self.folder / LOG).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        if self.done % (5 * _EVERY) == 0:
            exact = ", ".join(f"{name} {values['exact']:.2f}" for name, values in families.items())
            self.say(f"step {self.done}, {minutes:.1f} min, {speed:.0f} tokens/s, loss {loss:.3f}; exact: {exact}")

    def _finish(self) -> Path:
        tuned = _plain(self.measure())
        size = size_of(self.settings.size)
        card = {
            "settings": asdict(self.settings),
            "shape": asdict(size),
            "parameters": sum(p.numel() for p in self.model.parameters()),
            "world": {"seed": self.world.seed, "fingerprint": self.world.fingerprint},
            "steps": self.done,
            "tokens": self.tokens,
            "minutes": round(self.seconds / 60, 2),
            "device": self.device,
            "rows_too_long": self.dropped,
            "tune": tuned,
            "curve": _thinned(self._log_lines(), 60),
            "versions": {name: importlib.metadata.version(name) for name in ("torch", "transformers", "tokenizers")},
        }
        place = self.folder / MODEL
        save_model(self.model, self.tokenizer, place, card)
        self.say("tune: " + ", ".join(f"{name} {values['exact']:.2f}" for name, values in tuned.items()))
        return place


def _optimizers(model: LlamaForCausalLM, settings: TrainSettings) -> list[Optimizer]:
    """Make Muon for the layers' matrices and AdamW for embeddings and norms.

    A step of Muon is worth one and a half of AdamW here. Its updates are scaled to the size of AdamW's, so that one
    learning rate serves both.
    """
    import torch

    named = list(model.named_parameters())
    # The output layer is the embedding (tied weights), so "embed" covers both.
    inner = [p for name, p in named if p.ndim == 2 and "embed" not in name]
    outer = [p for name, p in named if p.ndim != 2 or "embed" in name]
    muon = torch.optim.Muon(inner, lr=settings.rate, weight_decay=settings.decay, adjust_lr_fn="match_rms_adamw")
    adam = torch.optim.AdamW(outer, lr=settings.rate, betas=(0.9, 0.95), weight_decay=settings.decay, fused=True)
    return [muon, adam]


def _merged(one: Mapping[str, FamilyScores], two: Mapping[str, FamilyScores]) -> dict[str, FamilyScores]:
    names = sorted({*one, *two})
    return {name: one.get(name, FamilyScores()).plus(two.get(name, FamilyScores())) for name in names}


def _plain(scores: Mapping[str, FamilyScores]) -> dict[str, dict[str, float]]:
    """Return loss per learned token (nats), share of rows without a wrong token, and number of rows."""
    return {
        name: {"loss": round(s.loss / s.tokens, 4), "exact": round(s.exact / s.rows, 4), "rows": s.rows}
        for name, s in scores.items()
    }


def _thinned(lines: Sequence[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    """Return at most ``count`` lines, evenly spaced, the last one included."""
    every = max(1, math.ceil(len(lines) / count))
    return list(lines[::-1][::every][::-1])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lab.train", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--out", required=True, type=Path, help="folder; a training started there continues")
    parser.add_argument("--minutes", required=True, type=float, help="minutes of training, in all runs together")
    parser.add_argument("--threads", type=int, help="CPU threads; all cores if not given")
    parser.add_argument("--device", help="cpu, cuda, …; by default an accelerator if there is one")
    defaults = {f.name: f.default for f in dataclasses.fields(TrainSettings)}
    for name in ("seed", "world", "size", "vocabulary", "rate", "tokens", "decay"):
        parser.add_argument(f"--{name}", type=type(defaults[name]), default=defaults[name], help=f"{defaults[name]}")
    given = vars(parser.parse_args(arguments))
    folder, threads, device = given.pop("out"), given.pop("threads"), given.pop("device")
    import torch

    if threads:
        torch.set_num_threads(threads)
    try:
        training = Training(folder, TrainSettings(**given), device=device, say=lambda line: print(line, flush=True))
        print(f"written: {training.run()}")
    except SelfReflectError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2 if isinstance(error, InputError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
