"""Train adapters by the clock: steps, what is held out, and the mean of the last weights."""

from __future__ import annotations

import json
import math
import time
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from model import Small
from trees import Trees

BEGAN = time.monotonic()
SKILLS = ("short", "quote", "self_rag", "read", "numbered", "claim", "judge", "condense", "hops", "tasks")
WITHOUT_END = 10**9
"""Steps where the clock alone ends a training."""
_NAMED = ("rank", "rate", "warmup", "beta2", "decay", "ema", "tokens", "seed", "fresh", "dtype", "compile")
_MOST_PARTS = 16


class Log:
    """Prints lines with the time, and appends them to a file."""

    def __init__(self, file: Path | None) -> None:
        self._file = file.open("a") if file is not None else None

    def __call__(self, text: str) -> None:
        """Write a line."""
        line = f"[{time.monotonic() - BEGAN:6.1f}] {text}"
        print(line, flush=True)
        if self._file is not None:
            self._file.write(line + "\n")
            self._file.flush()


class Moving:
    """Means by skill, kept on the device."""

    def __init__(self, device: str) -> None:
        self.sums = torch.zeros(3, len(SKILLS), device=device, dtype=torch.float64)

    def add(self, loss, weight, skill) -> None:
        one = torch.stack([loss.detach() * weight, weight]).double()
        self.sums[:2].index_add_(1, skill, one)

    def show(self) -> str:
        loss, weight, _ = self.sums.tolist()
        self.sums.mul_(0.5)
        return " ".join(f"{s} {a / b:.3f}" for s, a, b in zip(SKILLS, loss, weight) if b > 0)


class Training:
    """A model in training, with the batches that it learns from and what is held out."""

    def __init__(
        self, given: Namespace, model: Small, batches: Iterator[dict], held: Trees, per_token: float, say: Log
    ) -> None:
        self.given, self.model, self.batches, self.held, self.per_token, self.say = (
            given, model, batches, held, per_token, say
        )  # fmt: skip
        self.cuda = given.device.startswith("cuda")
        self.parameters = model.parameters()
        self.optimiser = torch.optim.AdamW(
            self.parameters, lr=given.rate, betas=(0.9, given.beta2), eps=1e-8, weight_decay=given.decay,
            fused=self.cuda,
        )  # fmt: skip
        self.moving, self.parts = Moving(given.device), 1
        self.mean: list[torch.Tensor] | None = None
        self.steps = self.done = self.skipped = 0

    def evaluate(self) -> tuple[float, str]:
        """Weighted loss on what is held out; and the share of first tokens, which decide, that are right."""
        sums = np.zeros((4, len(SKILLS)))
        with torch.no_grad():
            weights = self.model.merged()
            for batch in self.held.batches(self.given.tokens, 0):
                loss, weight, skill, right = self.model.losses(self.held.collate(batch), weights)
                loss, weight, right = (t.double().cpu().numpy() for t in (loss, weight, right))
                skill, first = skill.cpu().numpy(), weight == 1.0
                for row, values in enumerate((loss * weight, weight, right * first, first)):
                    np.add.at(sums[row], skill, values)
        shown = [
            f"{s} {sums[0, i] / sums[1, i]:.4f} (first right {sums[2, i] / sums[3, i]:.3f})"
            for i, s in enumerate(SKILLS)
            if sums[1, i] > 0
        ]
        return float(sums[0].sum() / sums[1].sum()), " ".join(shown)

    def backward(self, batch: dict) -> None:
        """Gradients of a batch, computed in parts; the loss of a token of the batch over the usual weight."""
        weights = self.model.merged()
        # The merged weights' gradients are summed over the parts, then projected once.
        leaves = [[w.detach().requires_grad_() for w in group] for group in weights] if self.parts > 1 else weights
        size = -(-len(batch["ids"]) // self.parts)
        for start in range(0, len(batch["ids"]), size):
            loss, weight, skill, _ = self.model.losses(batch, leaves, slice(start, start + size))
            ((loss * weight).sum() / (self.per_token * batch["tokens"])).backward()
            self.moving.add(loss, weight, skill)
        if self.parts > 1:
            flat, grads = [w for g in weights for w in g], [w.grad for g in leaves for w in g]
            torch.autograd.backward(flat, grads)

    def step(self, batch: dict) -> float:
        """Gradients, clipped; the norm they had. With too little memory the batch is computed in parts from now on."""
        while True:
            self.optimiser.zero_grad(set_to_none=True)
            try:
                self.backward(batch)
                return float(torch.nn.utils.clip_grad_norm_(self.parameters, 1.0))
            except torch.OutOfMemoryError:
                pass  # what the error refers to is freed first
            if self.parts >= _MOST_PARTS:
                raise RuntimeError("too little memory")
            self.parts *= 2
            torch.cuda.empty_cache()
            self.say(f"too little memory: {self.parts} parts a step from now on")

    def begin(self) -> None:
        """Report the loss before, take a first step without effect, and compile the layers where that helps."""
        first = next(self.batches)
        loss, shown = self.evaluate()
        self._synchronise()
        self.say(f"held out, before: {loss:.4f} {shown}")
        norm = self.step(first)
        if self.given.compile:
            self._compile(first, loss, norm)
        self.optimiser.zero_grad(set_to_none=True)
        self.moving.sums.zero_()

    def smoke(self) -> None:
        """Take a few steps and report their speed."""
        start = time.monotonic()
        if self.cuda:
            torch.cuda.reset_peak_memory_stats()
        done = rows = 0
        count = self.given.steps if self.given.steps < WITHOUT_END else 5
        for _ in range(count):
            batch = next(self.batches)
            self.step(batch)
            self.optimiser.step()
            done, rows = done + batch["tokens"], rows + batch["ids"].size
        self._synchronise()
        spent = time.monotonic() - start
        self.say(
            f"smoke: {done / spent:.0f} tokens/s, {spent / count:.3f} s a step, {1 - done / rows:.1%} padding, "
            f"{self._peak():.1f} GB"
        )

    def run(self, stop: list[int]) -> None:
        """Train until the time is over or a signal has come; write the adapter now and then, and the better at the end.

        Args:
            stop: gets the signals.
        """
        given = self.given
        start = time.monotonic()
        seconds = min(given.seconds, given.total - (start - BEGAN) - 8)
        used = {**{name: getattr(given, name) for name in _NAMED}, "seconds": round(seconds)}
        about = {"format": "selfreflect-lora-part", "settings": json.dumps(used)}
        next_show, next_held, next_save = 15.0, 100.0, 120.0
        since, done_since = start, 0
        norms: list[float] = []
        while self.steps < given.steps and not stop and (elapsed := time.monotonic() - start) < seconds:
            self._learn(self._part_done(elapsed, seconds), norms)
            now = time.monotonic() - start
            if now >= next_show or self.steps <= 3 or given.steps <= 100:
                next_show = now + 15
                per = (self.done - done_since) / (time.monotonic() - since)
                usual = sorted(norms[-200:])[len(norms[-200:]) // 2] if norms else math.nan
                self.say(f"step {self.steps} {now:.0f} s, {per:.0f} tokens/s, {self.done / 1e6:.1f} M, "
                         f"rate {self.optimiser.param_groups[0]['lr']:.2e}, norm {usual:.2f}, "
                         f"skipped {self.skipped}: {self.moving.show()}")  # fmt: skip
                since, done_since = time.monotonic(), self.done
            if now >= next_held:
                next_held = now + 100
                self._report("held out")
            if now >= next_save:
                next_save = now + 120
                self._save(about)
        self._finish(about)

    def _part_done(self, elapsed: float, seconds: float) -> float:
        by_clock = self.given.steps >= WITHOUT_END
        return min(elapsed / seconds, 1.0) if by_clock else self.steps / self.given.steps

    def _learn(self, part: float, norms: list[float]) -> None:
        """Take a step at the learning rate of this part of the training."""
        given = self.given
        rate = given.rate * min(1.0, (part + 1e-3) / given.warmup) * min(1.0, (1 - part) / (1 - given.warmup))
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        batch = next(self.batches)
        norm = self.step(batch)
        if math.isfinite(norm):
            self.optimiser.step()
            norms.append(norm)
        else:
            self.skipped += 1
        self.steps, self.done = self.steps + 1, self.done + batch["tokens"]
        if part <= 0.8:
            return
        with torch.no_grad():
            if self.mean is None:
                self.mean = [p.detach().clone() for p in self.parameters]
            else:
                torch._foreach_lerp_(self.mean, [p.detach() for p in self.parameters], 1 - given.ema)

    def _finish(self, about: dict[str, str]) -> None:
        """Save the last weights, or their mean where it is better on what is held out."""
        self._save(about)
        loss = self._report("held out, last")
        if self.mean is not None:
            last = [p.detach().clone() for p in self.parameters]
            with torch.no_grad():
                torch._foreach_copy_(self.parameters, self.mean)
            averaged = self._report("held out, averaged")
            if averaged <= loss:
                loss = averaged
                self._save({**about, "averaged": "yes"})
            else:
                with torch.no_grad():
                    torch._foreach_copy_(self.parameters, last)
        self.say(f"done: {self.steps} steps, {self.done / 1e6:.2f} M tokens, {self.skipped} skipped, "
                 f"held out {loss:.4f}, {self._peak():.1f} GB")  # fmt: skip

    def _report(self, name: str) -> float:
        loss, shown = self.evaluate()
        self.say(f"{name}: {loss:.4f} {shown}")
        return loss

    def _save(self, about: dict[str, str]) -> None:
        self.model.save(self.given.out, {**about, "steps": str(self.steps), "tokens": str(self.done)})

    def _compile(self, first: dict, loss: float, usual_norm: float) -> None:
        """Compile the layers; undo it where they then compute something else, or no faster."""
        model = self.model
        usual, kept = self._timed(first), (model.before, model.behind)
        try:
            began = time.monotonic()
            model.before, model.behind = (torch.compile(f, dynamic=True) for f in kept)
            norm = self.step(first)
            self.step(next(self.batches))
            found = self.evaluate()[0]
            self._synchronise()
            took = time.monotonic() - began
            faster = self._timed(first)
            self.say(f"compiled in {took:.0f} s: step {faster:.3f} s instead of {usual:.3f}, held out {found:.4f}, "
                     f"norm {norm:.3f} instead of {usual_norm:.3f}")  # fmt: skip
            if not (abs(found - loss) < 0.02 and abs(norm / usual_norm - 1) < 0.1 and faster < usual):
                raise RuntimeError("it is not as it should be")
        except Exception as error:
            model.before, model.behind = kept
            self.say(f"not compiled: {str(error)[:300]!r}")

    def _timed(self, batch: dict) -> float:
        began = time.monotonic()
        self.step(batch)
        self._synchronise()
        return time.monotonic() - began

    def _synchronise(self) -> None:
        if self.cuda:
            torch.cuda.synchronize()

    def _peak(self) -> float:
        return torch.cuda.max_memory_allocated() / 1e9 if self.cuda else 0.0
