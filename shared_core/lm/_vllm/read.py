"""Read samples and scores from the outputs of vLLM's engine."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from shared_core.errors import GenerationError, GrammarError
from shared_core.lm._detokenize import Detokenizer, StopScanner, spell_within
from shared_core.lm._vllm.engine import Job
from shared_core.lm.base import Alternative, Grammar, Sample, SamplingParams, ScoreResult, Scores
from shared_core.lm.encoding import Encoder
from shared_core.types import Usage


class OutputReader:
    """Reader of samples for one tokenizer."""

    def __init__(self, encoder: Encoder) -> None:
        self._control_ids, self._eos = encoder.control_ids, encoder.tokenizer.eos_token_id
        self._detokenizer = Detokenizer(encoder.tokenizer)
        self._spell = encoder.plain

    def sample(self, output: Any, params: SamplingParams, verdicts: Sequence[int]) -> Sample:
        """Convert one of vLLM's outputs to a sample; GrammarError or GenerationError if it cannot be used."""
        self._check(output, params.grammar)
        ids = [int(i) for i in output.token_ids]
        # A stop string, the id of a stop token, or None at the end of the sequence.
        said = output.stop_reason
        stop = said if isinstance(said, str) else None
        # Any other id is a further end token from the model's generation config: that is an end too.
        stop_id = said if isinstance(said, int) and said in params.stop_token_ids else None
        ended = output.finish_reason == "stop" and stop is None and stop_id is None
        silent = ended or (stop_id is not None and not params.include_stop)  # the last token is not in the text
        if stop is not None:
            scanner = StopScanner([stop])
            # vLLM may end a sample at a stop string that only its own detokenizer sees.
            known = any(scanner.feed(self._detokenizer.piece(i)) for i in ids)
            text = scanner.cut(stop, params.include_stop) if known else output.text
        else:
            text = self._detokenizer.text(ids[:-1] if silent and ids else ids)
        found = output.logprobs
        matrix = None
        if verdicts:
            rows = [[read_logprob(p, v) for v in verdicts] for p in found or ()]
            # (T, V), NaN where vLLM gave none; reshaped, since no rows at all would be (0,).
            matrix = np.asarray(rows, dtype=np.float64).reshape(len(rows), len(verdicts))
        # A completed grammar ends in the end-of-sequence token as well.
        finish: Any = "stop" if not ended else "grammar" if params.grammar is not None else "eos"
        return Sample(
            text=text,
            token_ids=tuple(ids),
            finish_reason=finish if output.finish_reason == "stop" else "length",
            stop=stop,
            stop_token_id=stop_id,
            logprobs=tuple(read_logprob(p, i) for p, i in zip(found or (), ids)) if params.logprobs else None,
            tokens=tuple(self._detokenizer.text([i]) for i in ids),
            verdict_logprobs=matrix,
            alternatives=self._alternatives(found or (), ids, params.alternatives) if params.alternatives else None,
        )

    def _alternatives(self, found: Sequence[Any], ids: Sequence[int], most: int) -> tuple[tuple[Alternative, ...], ...]:
        """List the generated token at each position, then the other likely ones, most likely first."""
        rows = []
        for position, token in zip(found, ids):
            # vLLM puts the generated token among the likely ones; here it comes first, and once.
            others = sorted((float(entry.logprob), int(i)) for i, entry in position.items() if int(i) != token)
            pairs = [(read_logprob(position, token), token), *others[::-1][: most - 1]]
            rows.append(tuple(Alternative(self._detokenizer.text([i]), value) for value, i in pairs))
        return tuple(rows)

    def within_text(self, sample: Sample, params: SamplingParams) -> list[int]:
        """Return a stopped sample's ids without the part of its last token that lies beyond the text."""
        ids = list(sample.token_ids)
        if sample.stop is None or not ids:
            return ids if params.include_stop or sample.stop_token_id is None else ids[:-1]
        scanner = StopScanner([sample.stop])
        for token_id in ids:
            scanner.feed(self._detokenizer.piece(token_id))
        overrun = scanner.overrun(sample.stop, params.include_stop)
        return ids[:-1] + spell_within(ids[-1], self._detokenizer.piece(ids[-1]), overrun, self._spell)

    def _check(self, output: Any, grammar: Grammar | None) -> None:
        """Refuse outputs that vLLM gave up on, and a control token that a grammar's text (most likely a quote) spells.

        Forced text is taken apart as the tokenizer would. If a special token comes of that, vLLM stops there; if one
        that the tokenizer does not call special, it is placed, as if the model had meant it.
        """
        # Without the end-of-sequence token, in which any sample may end.
        placed = [self._detokenizer.text([i]) for i in output.token_ids if i in self._control_ids and i != self._eos]
        spelt = [t for t in placed if grammar is not None and _spells(grammar, t)]
        if grammar is not None and (spelt or output.finish_reason in ("error", "abort")):
            what = f"places the token {spelt[0]!r}" if spelt else "reached a dead end"
            raise GrammarError(
                f"The grammar {grammar.name!r} {what} in vLLM, which happens where its text spells a control token.",
                hint="Leave out the passage that holds it, or use a transformers model, which writes it as text.",
            )
        if output.finish_reason in ("error", "abort"):
            raise GenerationError("vLLM aborted a sample.", hint="Its log says more.")


def _spells(grammar: Grammar, text: str) -> bool:
    """Return whether a grammar's strings spell a control token, where text is meant and not the token."""
    strings = re.findall(r'"((?:\\.|[^"\\])*)"', grammar.lark)
    # Joined: neighbouring strings may spell it together.
    return text in "".join(strings)


def read_scores(jobs: Sequence[tuple[Job, int]]) -> ScoreResult:
    """Return the log-probabilities of each job's tokens from where its continuation begins; the first error if any."""
    found = []
    for job, start in jobs:
        if job.error is not None:
            return job.error
        # Place i: token i given those before it; the first has none. Missing ones become NaN, unknown.
        logprobs = job.output.prompt_logprobs or [None] * len(job.ids)
        found.append(tuple(read_logprob(p, i) for p, i in zip(logprobs[start:], job.ids[start:])))
    return Scores(tuple(found), sum((read_usage(j, generated=False) for j, _ in jobs), Usage()))


def read_logprob(position: Any, token_id: int) -> float:
    """Return a token's log-probability at a position; NaN where vLLM gave none."""
    entry = position.get(token_id) if position is not None else None
    return float("nan") if entry is None else float(entry.logprob)


def read_usage(job: Job, *, generated: bool = True) -> Usage:
    """Return the usage of a job; ``generated=False`` where its new token belongs to no sample."""
    return Usage(
        calls=1,
        prompt_tokens=len(job.ids),
        generated_tokens=sum(len(o.token_ids) for o in job.output.outputs) if generated and job.output else 0,
        cached_tokens=int(getattr(job.output, "num_cached_tokens", 0) or 0),
    )
