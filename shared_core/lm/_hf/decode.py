"""Sampling loop: one step for all branches of all requests at once.

Python touches each branch only to append what was chosen; logits, masks and log-probabilities are handled as
matrices over the branches. A branch may have several tokens pending (forced by a grammar, or given to be scored);
they are fed in one pass where the session can.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from shared_core.errors import GenerationError, LanguageModelError
from shared_core.lm._detokenize import Detokenizer, StopScanner, spell_within
from shared_core.lm._hf.forest import Forest
from shared_core.lm._hf.grammar import Constraint
from shared_core.lm._hf.model import Runner, Tap
from shared_core.lm._hf.plan import Ids
from shared_core.lm._hf.repeated import Repeated
from shared_core.lm._hf.sample import Noise, choose, look_up, noise_key
from shared_core.lm.base import FinishReason, SamplingParams

Session = Forest | Repeated
_DRAFT = 4, 32
"""Tokens of a draft at first, and at most: twice as many after one that was right to its end, half after another."""


@dataclass(slots=True)
class Job:
    """A request prepared for decoding; ``given`` holds continuations to score instead of samples to draw."""

    ids: Ids
    params: SamplingParams
    seed: int = 0
    verdicts: tuple[int, ...] = ()
    given: tuple[tuple[int, ...], ...] = ()
    constraint: Constraint | None = None
    tap: Tap | None = None
    branches: list[Branch] = field(default_factory=list)
    error: LanguageModelError | None = None
    prompt_tokens: int = 0
    cached_tokens: int = 0
    forwards: int = 0

    @property
    def width(self) -> int:
        """Number of branches that it needs."""
        return len(self.given) or self.params.n

    @property
    def steps(self) -> int:
        """Number of tokens a branch may get."""
        return max(map(len, self.given)) if self.given else self.params.max_tokens + 1

    @property
    def reach(self) -> int:
        """Length in tokens of the longest sequence that the model sees for it."""
        if self.given:
            return len(self.ids) + max(0, max(map(len, self.given)) - 1)
        # A sample's last token is fed only where something behind it is wanted, perhaps with an end of sequence.
        behind = self.params.capture is not None and self.params.capture.append_eos
        return len(self.ids) + self.params.max_tokens + behind

    @property
    def follows(self) -> bool:
        """Whether states are read at every step, because the last token may turn out to lie beyond the text."""
        return self.params.capture is not None and not self.params.capture.append_eos

    @property
    def records(self) -> bool:
        """Whether anything is read from the distribution of each token."""
        params = self.params
        return bool(params.logprobs or self.verdicts or params.token_statistics or params.alternatives)


@dataclass(slots=True, eq=False)
class Branch:
    """A sample being decoded; ``pending`` are tokens not fed yet, all but the first awaiting their log-probability."""

    job: Job
    key: int = 0
    ids: list[int] = field(default_factory=list)
    pending: list[int] = field(default_factory=list)
    closing: bool = False
    scanner: StopScanner | None = None
    constraint: Constraint | None = None
    finish: FinishReason | None = None
    stop: str | None = None
    stop_token_id: int | None = None
    logprobs: list[float] = field(default_factory=list)
    entropy: list[float] = field(default_factory=list)
    logsumexp: list[float] = field(default_factory=list)
    verdicts: list[NDArray[np.float64]] = field(default_factory=list)
    alternatives: list[list[tuple[int, float]]] = field(default_factory=list)
    next_verdicts: NDArray[np.float64] | None = None
    hidden: NDArray[np.float32] | None = None
    saved: int = 0
    fed: list[int] = field(default_factory=list)
    draft: int = _DRAFT[0]

    @property
    def awaits_next(self) -> bool:
        """Whether it has ended but still needs the distribution after its last token."""
        wanted = self.job.params.next_verdicts and self.next_verdicts is None
        return wanted and self.closing and self.finish != "eos"


class Decoder:
    """Decoder of jobs over one session; afterwards each job holds its branches or its error."""

    def __init__(
        self,
        session: Session,
        runner: Runner,
        detokenizer: Detokenizer,
        eos: Sequence[int],
        vocabulary: int,
        spell: Callable[[str], Sequence[int]],
    ) -> None:
        self._session, self._run, self._detokenizer = session, runner, detokenizer
        self._eos = tuple(eos)  # the tokenizer's own first: the one put behind samples
        self._vocabulary, self._spell = vocabulary, spell
        self.peak_bytes = 0

    def run(self, jobs: Sequence[Job], rows: Sequence[Sequence[int]], lanes: Sequence[int]) -> None:
        """Carry out the jobs; ``rows`` are trees of job indices, each with its samples spread over ``lanes`` lanes."""
        before = self._run.forwards
        opened = self._session.open([j.ids[:-1] for j in jobs], rows)
        # (jobs, vocabulary): what follows each prompt; below, a row of it for each sample.
        logits = self._session.feed([(i, [int(j.ids[-1])]) for i, j in enumerate(jobs)], [False] * len(jobs))
        jobs[0].forwards += self._run.forwards - before
        ends = {tap: states.cpu().numpy() for tap, states in self._run.hidden.items()}
        for job, tokens, cached in zip(jobs, opened.prompt_tokens, opened.cached_tokens):
            job.prompt_tokens, job.cached_tokens = tokens, cached
        self._session.fork([j.width for j in jobs], lanes, max(j.steps for j in jobs))
        live = dict(enumerate(branch for job in jobs for branch in self._branches(job)))
        owner = torch.tensor([i for i, j in enumerate(jobs) for _ in range(j.width)], device=logits.device)
        for i, job in enumerate(jobs):
            if job.tap is not None and (job.given == ((),) or job.follows):  # the state at the prompt's end
                for branch in job.branches:
                    branch.hidden = ends[job.tap][i]
        self._advance(live, logits[owner], {b: (b, b + 1) for b in live})
        while live:
            self._retire(live)
            if live:
                self._feed(live)
        if not any(j.error for j in jobs):  # what a failed pass has left is not to be trusted
            self._session.keep_root()

    def _branches(self, job: Job) -> list[Branch]:
        stops = job.params.stop
        job.branches = [
            Branch(
                job,
                key=noise_key(job.seed, job.ids, sample),
                scanner=StopScanner(stops) if stops and not job.given else None,
                constraint=job.constraint.copy() if job.constraint is not None else None,
            )
            for sample in range(job.width)
        ]
        for branch, given in zip(job.branches, job.given):
            branch.ids, branch.pending = list(given), list(given[:-1])  # the last is scored, not fed
            branch.closing = True
        for branch in job.branches:
            if branch.constraint is not None:
                self._take(branch, None)
        return job.branches

    # --- feeding -----------------------------------------------------------------------------------------------

    def _feed(self, live: dict[int, Branch]) -> None:
        one = self._session.lockstep
        draft = self._draft(live)
        # A tree takes all pending tokens of a branch in one pass, a plain batch one token of each row.
        feeds = [(b, x.pending[:1] if one else [*x.pending, *draft]) for b, x in live.items()]
        every = [(x.job.records or bool(draft)) and len(tokens) > 1 for (_, tokens), x in zip(feeds, live.values())]
        before = self._run.forwards
        logits = self._session.feed(feeds, every)
        next(iter(live.values())).job.forwards += self._run.forwards - before
        self.peak_bytes = max(self.peak_bytes, self._session.cache_bytes)
        if draft:
            ((number, branch),) = live.items()
            self._follow(number, branch, draft, logits)
            return
        # Logits come as (sum of rows, vocabulary): one row for each token of `every`, else one for the last token.
        rows: dict[int, tuple[int, int]] = {}
        at = 0
        for i, ((b, tokens), each) in enumerate(zip(feeds, every)):
            rows[b] = (at, at + (len(tokens) if each else 1))
            at = rows[b][1]
            branch = live[b]
            branch.fed += tokens
            del branch.pending[: len(tokens)]
            if branch.job.tap is not None and not branch.pending and (branch.closing or branch.job.follows):
                branch.hidden = self._run.hidden[branch.job.tap][i].cpu().numpy()
        self._advance(live, logits, rows)

    def _draft(self, live: dict[int, Branch]) -> list[int]:
        """Return tokens that may come next, where a single greedy sample is written that nothing else depends on."""
        (branch, *others) = live.values()
        job = branch.job
        plain = branch.constraint is None and job.tap is None and not branch.closing and len(branch.pending) == 1
        if others or self._session.lockstep or not plain or job.params.temperature > 0:
            return []
        most = min(branch.draft, job.params.max_tokens - len(branch.ids))
        return look_up(np.concatenate([job.ids, branch.ids]), most) if most > 0 else []

    def _follow(self, number: int, branch: Branch, draft: list[int], logits: torch.Tensor) -> None:
        """Take the model's own choices as long as they are those of the draft, and the one behind them.

        Args:
            logits: (1 + length of the draft, vocabulary), behind the pending token and behind each of the draft.
        """
        branch.fed += branch.pending
        branch.pending.clear()
        self._refuse_nan({0: branch}, logits, {0: (0, len(logits))})
        notes: list[tuple[Branch, int, int]] = []
        right = 0
        while branch.job.error is None:
            (token,) = self._choose([(branch, right)], logits)
            notes += [(branch, right, token)] * branch.job.records
            self._take(branch, token)
            if branch.closing or right == len(draft) or token != draft[right]:
                break
            branch.fed += branch.pending  # it was fed with the draft
            branch.pending.clear()
            right += 1
        assert isinstance(self._session, Forest)  # `_draft` makes none for the other
        self._session.rewind(number, len(draft) - right)
        branch.draft = min(2 * branch.draft, _DRAFT[1]) if right == len(draft) else max(branch.draft // 2, _DRAFT[0])
        self._record(notes, logits)

    def _retire(self, live: dict[int, Branch]) -> None:
        """Drop branches that failed or have nothing left to feed."""
        gone = [b for b, x in live.items() if x.job.error is not None or (x.closing and not x.pending)]
        for b in gone:
            branch = live.pop(b)
            job = branch.job
            # A single sample is often continued by the next request (ReClaim, agents); one of many hardly ever.
            if job.error is None and job.width == 1 and not job.given:
                self._session.keep(b, [*job.ids.tolist(), *branch.fed])
        self._session.drop(gone)

    # --- one step ----------------------------------------------------------------------------------------------

    def _advance(self, live: dict[int, Branch], logits: torch.Tensor, rows: dict[int, tuple[int, int]]) -> None:
        """Record the tokens whose distribution is now known, and choose the next token where none is pending.

        ``rows[b]`` are the rows of the logits that belong to a branch; they predict one token after the other, the
        first of them the first that is not recorded yet.
        """
        self._refuse_nan(live, logits, rows)
        notes: list[tuple[Branch, int, int]] = []  # branch, row of the logits, token
        behind: list[tuple[Branch, int]] = []  # branch, row of the logits behind its last token
        free: list[tuple[Branch, int]] = []
        for b, branch in live.items():
            if branch.job.error is not None:
                continue
            start, end = rows[b]
            if branch.job.records:
                known = branch.ids[len(branch.logprobs) : len(branch.logprobs) + end - start]
                notes += [(branch, start + j, token) for j, token in enumerate(known)]
                if branch.awaits_next and len(known) < end - start:
                    behind.append((branch, start + len(known)))
            if not branch.pending and not branch.closing:
                free.append((branch, end - 1))
        if free:
            for (branch, row), token in zip(free, self._choose(free, logits)):
                if branch.job.records:
                    notes.append((branch, row, token))
                self._take(branch, token)
        self._record(notes, logits)
        raw = logits[[row for _, row in behind]]
        for branch, values in _verdicts([b for b, _ in behind], raw, raw.logsumexp(1)):
            branch.next_verdicts = values

    def _refuse_nan(self, live: dict[int, Branch], logits: torch.Tensor, rows: dict[int, tuple[int, int]]) -> None:
        # amax carries NaN and +inf along; -inf alone means that a model forbids every token.
        good = logits.amax(1).isfinite() if logits.numel() else torch.zeros(0, dtype=torch.bool)
        if bool(good.all()):
            return
        fine = good.tolist()
        for b, branch in live.items():
            if not all(fine[slice(*rows[b])]):
                branch.job.error = GenerationError(
                    "The model's logits are not numbers.",
                    hint="Check the checkpoint; in half precision try dtype='float32' or 'bfloat16'.",
                )

    def _choose(self, free: list[tuple[Branch, int]], logits: torch.Tensor) -> list[int]:
        vocabulary = min(self._vocabulary, logits.shape[1])
        index = torch.tensor([r for _, r in free], device=logits.device)
        scores = logits[index, :vocabulary]  # a copy; outputs beyond the tokenizer's vocabulary are never chosen
        early = [i for i, (b, _) in enumerate(free) if len(b.ids) < b.job.params.min_tokens and b.constraint is None]
        forbidden = [(i, token) for i in early for token in self._ends(free[i][0].job, vocabulary)]
        if forbidden:
            at = torch.tensor(forbidden, device=logits.device)
            scores[at[:, 0], at[:, 1]] = -torch.inf
        bound = [i for i, (b, _) in enumerate(free) if b.constraint is not None]
        if bound:
            allowed = np.stack([self._allowed(free[i][0], vocabulary) for i in bound])
            rows = torch.tensor(bound, device=logits.device)
            scores[rows] = scores[rows].masked_fill(~torch.from_numpy(allowed).to(logits.device), -torch.inf)
        keys = np.array([b.key for b, _ in free], dtype=np.uint64)
        steps = np.array([len(b.ids) for b, _ in free], dtype=np.uint64)
        tokens: list[int] = choose(scores, [b.job.params for b, _ in free], Noise(keys, steps)).tolist()
        return tokens

    def _ends(self, job: Job, vocabulary: int) -> list[int]:
        """Return the tokens that end a sample of the job."""
        return [*self._eos, *(i for i in job.params.stop_token_ids if i < vocabulary)]

    def _allowed(self, branch: Branch, vocabulary: int) -> NDArray[np.bool_]:
        assert branch.constraint is not None
        bits = branch.constraint.allowed[:vocabulary]
        allowed = np.zeros(vocabulary, dtype=bool)
        allowed[: len(bits)] = bits
        if len(branch.ids) < branch.job.params.min_tokens:
            going_on = allowed.copy()
            going_on[self._ends(branch.job, vocabulary)] = False
            return going_on if going_on.any() else allowed  # unless the grammar allows nothing but the end
        return allowed

    def _take(self, branch: Branch, token: int | None) -> None:
        """Append a chosen token (``None`` at the start) and those a grammar forces after it; see if the sample ends."""
        if token is not None:
            self._append(branch, token)
        constraint = branch.constraint
        if constraint is not None and branch.finish in {None, "length"}:
            try:
                forced = constraint.advance(token, branch.job.params.max_tokens - len(branch.ids))
            except LanguageModelError as error:
                branch.job.error = error
                return
            for following in forced:
                branch.saved += not self._session.lockstep  # in a tree it is fed with its neighbours, in one pass
                if self._append(branch, following) in {"stop", "eos"}:
                    break
            if constraint.done and branch.finish in {None, "length"}:
                branch.finish = "grammar"
        if branch.finish is not None:
            self._close(branch)

    def _append(self, branch: Branch, token: int) -> FinishReason | None:
        branch.ids.append(token)
        branch.pending.append(token)
        if token in self._eos:
            branch.finish = "eos"
        elif token in branch.job.params.stop_token_ids:
            branch.finish, branch.stop_token_id = "stop", token
        elif branch.scanner is not None and (found := branch.scanner.feed(self._detokenizer.piece(token))):
            branch.finish, branch.stop = "stop", found
        elif len(branch.ids) >= branch.job.params.max_tokens:
            branch.finish = "length"
        return branch.finish

    def _close(self, branch: Branch) -> None:
        """Set what an ended sample must still feed: all for a state or next verdicts, all but the last for records."""
        branch.closing = True
        capture = branch.job.params.capture
        if capture is not None:
            branch.pending[-1:] = self._within(branch)
            if capture.append_eos and branch.finish != "eos":
                branch.pending.append(self._eos[0])
        elif branch.awaits_next:
            return  # the last token too: behind it stands what is wanted
        elif branch.job.records and branch.pending:
            branch.pending.pop()  # its own distribution comes from the token before it
        else:
            branch.pending.clear()

    def _within(self, branch: Branch) -> list[int]:
        """Return what is fed of the last token: as far as it lies in the text, or an end where its state is wanted."""
        last, params = branch.ids[-1], branch.job.params
        if branch.finish == "eos":
            return [] if branch.job.follows else [last]
        if branch.stop_token_id is not None:
            return [last] if params.include_stop else []
        if branch.scanner is None or branch.stop is None:
            return [last]
        overrun = branch.scanner.overrun(branch.stop, params.include_stop)
        return spell_within(last, self._detokenizer.piece(last), overrun, self._spell)

    # --- what is read off the distribution ---------------------------------------------------------------------

    def _record(self, notes: list[tuple[Branch, int, int]], logits: torch.Tensor) -> None:
        if not notes:
            return
        index = torch.tensor([r for _, r, _ in notes], device=logits.device)
        raw = logits[index]  # (notes, vocabulary)
        total = raw.logsumexp(1)
        tokens = torch.tensor([t for _, _, t in notes], device=logits.device)
        logprobs = (raw.gather(1, tokens[:, None])[:, 0] - total).tolist()
        entropies: list[float] = []
        if any(b.job.params.token_statistics for b, _, _ in notes):
            # H = log Z - E[logit]; -inf logits have probability 0, and 0 · -inf would be NaN: hence the clamp.
            weighted = (raw - total[:, None]).exp().mul_(raw.clamp(min=torch.finfo(raw.dtype).min))
            entropies = (total - weighted.sum(1)).clamp(min=0).tolist()
        totals = total.tolist()
        for i, (branch, _, _) in enumerate(notes):
            branch.logprobs.append(logprobs[i])
            if entropies and branch.job.params.token_statistics:
                branch.entropy.append(entropies[i])
                branch.logsumexp.append(totals[i])
        for branch, values in _verdicts([b for b, _, _ in notes], raw, total):
            branch.verdicts.append(values)
        wanted = [i for i, (branch, _, _) in enumerate(notes) if branch.job.params.alternatives]
        if wanted:
            width = min(max(notes[i][0].job.params.alternatives for i in wanted), self._vocabulary, raw.shape[1])
            top = raw[wanted, : self._vocabulary].topk(width, dim=1)  # (wanted, width), likeliest first
            likely = (top.values - total[wanted, None]).tolist()
            for i, row, named in zip(wanted, likely, top.indices.tolist()):
                branch, _, token = notes[i]
                others = [(n, v) for n, v in zip(named, row) if n != token]
                branch.alternatives.append([(token, logprobs[i]), *others[: branch.job.params.alternatives - 1]])


def _verdicts(
    branches: Sequence[Branch], raw: torch.Tensor, total: torch.Tensor
) -> list[tuple[Branch, NDArray[np.float64]]]:
    """Compute log-probabilities of each branch's verdicts from (rows, vocabulary) logits and their logsumexp."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for i, branch in enumerate(branches):
        if branch.job.verdicts:
            groups.setdefault(branch.job.verdicts, []).append(i)
    found: list[tuple[Branch, NDArray[np.float64]]] = []
    for verdicts, rows in groups.items():
        values = (raw[rows][:, list(verdicts)] - total[rows][:, None]).cpu().double().numpy()
        found += [(branches[i], value) for i, value in zip(rows, values)]
    return found
