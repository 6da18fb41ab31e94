"""Measure what each pipeline costs with a released model, as a multiple of a plain chain over the same passages.

    python benchmarks/pipeline_costs.py [--model NAME] [--questions N] [--pipelines NAME …] [--json FILE]

Per question: CPU seconds of this process, calls, tokens read and written, and which share of the CPU time went to the
model's quotes (reference), claims (claim), other texts (default), verdicts (judge), and to all else. Questions are
SQuAD 2.0's, passages BM25's best five. `cpu_ratio_PIPELINE`: CPU time / that of the plain chain.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for the imports from `benchmarks`

from benchmarks import command_line
from benchmarks.models import PIPELINES, TOP_K, Case, Retrieved, run_and_write, squad
from shared_core.evaluation.baselines import Plain
from shared_core.facades.engine import SelfReflectEngine
from shared_core.lm.base import LanguageModel
from shared_core.reading.extractive import ExtractiveReader
from shared_core.settings import SelfReflectSettings
from shared_core.types import Answer


class Timed:
    """A model whose CPU seconds are counted by the role it is asked in."""

    def __init__(self, model: LanguageModel) -> None:
        self._model = model
        self.seconds: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def generate(self, requests: Sequence[Any]) -> list[Any]:
        return self._count(self._model.generate, requests)

    def score(self, requests: Sequence[Any]) -> list[Any]:
        return self._count(self._model.score, requests)

    def hidden_states(self, requests: Sequence[Any]) -> list[Any]:
        return self._count(self._model.hidden_states, requests)

    def _count(self, call: Callable[[Sequence[Any]], list[Any]], requests: Sequence[Any]) -> list[Any]:
        start = time.process_time()
        results = call(requests)
        self.seconds[requests[0].model] += time.process_time() - start
        return results


def measure(asked: Callable[[str], Answer], cases: Sequence[Case], timed: Timed) -> dict[str, float]:
    """CPU seconds, calls and tokens a question, with the shares of the seconds by role."""
    timed.seconds.clear()
    start = time.process_time()
    answers = [asked(c.question) for c in cases]
    seconds, n = time.process_time() - start, len(cases)
    found = {
        "seconds": seconds / n,
        "calls": sum(a.usage.calls for a in answers) / n,
        "read": sum(a.usage.prompt_tokens for a in answers) / n,
        "written": sum(a.usage.generated_tokens for a in answers) / n,
    }
    found |= {f"share_{role}": spent / seconds for role, spent in timed.seconds.items()}
    return found | {"share_else": 1 - sum(timed.seconds.values()) / seconds}


def run(options: argparse.Namespace) -> dict[str, float]:
    from shared_core.cli.common import build_model

    cases = squad(options.data, options.questions, "tune")
    lm = build_model(options.model, None)
    assert lm is not None
    timed, reader, retriever = Timed(lm), ExtractiveReader(cache_passages=0), Retrieved(cases)
    console, out = Console(), dict[str, float]()
    plain = Plain(SelfReflectEngine(retriever, timed, SelfReflectSettings(top_k=5), reader=reader))

    def chain(question: str) -> Answer:
        (answer,) = plain.answer_many([question])
        assert isinstance(answer, Answer), answer
        return answer

    systems: dict[str, Callable[[str], Answer]] = {"plain": chain}
    for name in options.pipelines:
        settings = SelfReflectSettings(top_k=5, candidates=TOP_K, pipeline=name)
        systems[name] = SelfReflectEngine(retriever, timed, settings, reader=reader).answer
    chain(cases[0].question)  # what is loaded at first need is not counted
    table = Table(title=f"{options.model}, {len(cases)} questions", title_justify="left")
    for column in ("", "CPU s", "ratio", "calls", "read", "written", "shares of the CPU time"):
        table.add_column(column)
    for name, asked in systems.items():
        found = measure(asked, cases, timed)
        out |= {f"{figure}_{name}": value for figure, value in found.items()}
        ratio = out[f"cpu_ratio_{name}"] = found["seconds"] / out["seconds_plain"]
        shares = ", ".join(f"{k[6:]} {v:.2f}" for k, v in found.items() if k.startswith("share_"))
        row = [name, f"{found['seconds']:.1f}", f"{ratio:.2f}"]
        row += [f"{found['calls']:.1f}", f"{found['read']:.0f}", f"{found['written']:.0f}", shares]
        table.add_row(*row)
        console.print("  ".join(row))
    console.print(table)
    return out


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--model", default="smollm2", help="a released model: smollm2, a path, a GGUF file")
    parser.add_argument("--questions", type=int, default=8)
    parser.add_argument("--pipelines", nargs="*", default=list(PIPELINES), choices=PIPELINES)
    run_and_write(parser.parse_args(), run)


if __name__ == "__main__":
    main()
