"""``selfreflect train research``: ReSearch's three trainings on the rows of ``research-data``."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from shared_core.cli.common import build_model, read_calibration, reports_errors
from shared_core.cli.console import err, out
from shared_core.cli.options import BaseUrl, Calibration, Set, with_set
from shared_core.cli.train import Base, EvalRows, Output, Rows, run_training, train_rows
from shared_core.cli.training_options import takes_training_options
from shared_core.errors import InputError
from shared_core.settings import SelfReflectSettings

if TYPE_CHECKING:
    from shared_core.training.recipes import TrainingResult

_RLOO = "RLOO and its reward"
_ONLINE = {"samples": "--samples", "max_new_tokens": "--max-new-tokens", "sample_batch": "--sample-batch"}


@reports_errors
@takes_training_options
def research_command(
    rows: Rows,
    model: Base,
    output: Output,
    changes: dict[str, Any],
    how: Annotated[
        Literal["sft", "dpo", "rloo"],
        typer.Argument(metavar="[sft|dpo|rloo]", help="On best answers, on preferences, or on rewards of its own."),
    ] = "sft",
    eval_rows: EvalRows = [],  # noqa: B006 - typer's way of a repeatable option
    beta: Annotated[
        float | None, typer.Option(help="dpo (0.25), rloo (0.1): how closely it stays to the model it starts from.")
    ] = None,
    samples: Annotated[int | None, typer.Option(help="Answers sampled to a prompt (4).", rich_help_panel=_RLOO)] = None,
    max_new_tokens: Annotated[
        int | None, typer.Option(help="Tokens of a sampled answer (256).", rich_help_panel=_RLOO)
    ] = None,
    sample_batch: Annotated[
        int | None, typer.Option(help="Answers sampled at a time, as memory allows (64).", rich_help_panel=_RLOO)
    ] = None,
    judge_model: Annotated[
        str | None,
        typer.Option(
            help="Splits and judges answers: name or path, or the name on the server of --base-url. By default the "
            "model that is trained, as it is before.",
            rich_help_panel=_RLOO,
        ),
    ] = None,
    base_url: BaseUrl = None,
    target_accuracy: Annotated[
        float | None,
        typer.Option("--target-accuracy", "-t", help="ρ* of the utility; that of the searches.", rich_help_panel=_RLOO),
    ] = None,
    calibration: Calibration = None,
    settings: Set = [],  # noqa: B006
) -> None:
    """Train a model on rows that `research-data` made of its own searches.

    sft (sft.jsonl): on the best answers. dpo (dpo.jsonl): on which answers are worth more than which.
    rloo (rloo.jsonl): it samples answers itself, and their expected utility, judged as in the searches, is the reward.

    What is not given is as the paper has it. Ended at any moment, the same command goes on from its last checkpoint.
    """
    online = {"samples": samples, "max_new_tokens": max_new_tokens, "sample_batch": sample_batch}
    judged: dict[str, Any] = {
        "--judge-model": judge_model,
        "--base-url": base_url,
        "--target-accuracy": target_accuracy,
    }
    judged |= {"--calibration": calibration, "--set": settings or None}
    if how != "rloo":
        _refuse(how, {**{_ONLINE[name]: value for name, value in online.items()}, **judged})
    if how == "sft":
        _refuse(how, {"--beta": beta})
        train_rows(rows, model, output, "research", changes, eval_rows)
        return
    changes |= {} if beta is None else {"beta": beta}
    if how == "dpo":
        _prefer(rows, model, output, changes, eval_rows)
        return
    _refuse(how, {"--eval-rows": eval_rows or None})
    changes |= {name: value for name, value in online.items() if value is not None}
    chosen = _reward_settings(rows, target_accuracy, calibration, settings)
    _reward(rows, model, output, changes, chosen, judge_model, base_url)


def _refuse(how: str, given: dict[str, Any]) -> None:
    for option, value in given.items():
        if value is not None:
            raise InputError(f"{option} says nothing about {how}.", hint="Leave it out, or train by rloo.")


def _prefer(rows: list[Path], model: str, output: Path, changes: dict[str, Any], eval_rows: list[Path]) -> None:
    from shared_core.training.research.preferences import train_preferences
    from shared_core.training.research.rows import read_preferences
    from shared_core.training.settings import PreferenceSettings

    settings = PreferenceSettings(**changes)
    pairs = [row for path in rows for row in read_preferences(path)]
    apart = [row for path in eval_rows for row in read_preferences(path)]
    training = partial(train_preferences, pairs, model, output, settings, evaluate_on=apart)
    result = run_training(training, [*rows, *eval_rows])
    _tell(result, "preferences", {"accuracy": "pairs told apart", "margin": "margin"})


def _reward_settings(
    rows: list[Path], target: float | None, calibration: Path | None, changes: list[str]
) -> SelfReflectSettings:
    """As the searches were made (``searches.json`` beside the rows), with what is given."""
    from shared_core.training.research.searches import settings_of

    read_calibration(calibration)
    found, calibrated = next((read for path in rows if (read := settings_of(path.parent))[0]), (None, False))
    if found is None:
        err.print("no searches.json beside the rows: using the settings' defaults", style="yellow", highlight=False)
    if calibrated != (calibration is not None):
        raise InputError(
            f"The searches were judged {'with' if calibrated else 'without'} a calibration, the reward the other way.",
            hint="The same --calibration FILE belongs to research-data and to rloo." if calibrated else "Leave it out.",
        )
    made = (found or SelfReflectSettings(pipeline="research")).replace(calibration=calibration)
    return with_set(made if target is None else made.replace(target_accuracy=target), changes)


def _reward(
    rows: list[Path],
    model: str,
    output: Path,
    changes: dict[str, Any],
    settings: SelfReflectSettings,
    judge_model: str | None,
    base_url: str | None,
) -> None:
    from shared_core.facades.engine import SelfReflectEngine
    from shared_core.retrieval import BM25Retriever
    from shared_core.training.research.online import train_online
    from shared_core.training.research.reward import UtilityReward
    from shared_core.training.research.rows import read_prompted
    from shared_core.training.settings import OnlineSettings

    how = OnlineSettings(**changes)
    prompts = [row for path in rows for row in read_prompted(path)]
    judge = build_model(judge_model or (None if base_url else model), base_url)
    reward = UtilityReward(SelfReflectEngine(BM25Retriever(), judge, settings), prompts)
    told = {
        "judge": judge.name if judge is not None else None,
        "target_accuracy": settings.target_accuracy,
        "research": settings.research.model_dump(mode="json"),
        "scale": reward.scale,
    }
    result = run_training(partial(train_online, prompts, model, output, reward, how, reward_card=told), rows)
    _tell(result, "online", {"reward": "reward", "kl": "KL", "tokens": "tokens of an answer"})
    if reward.unknown:
        err.print(f"{reward.unknown} answers could not be judged", style="yellow", highlight=False)


def _tell(result: TrainingResult, part: str, names: dict[str, str]) -> None:
    found = result.card[part]
    told = [f"{words} {found[n]['first']:.3f} → {found[n]['last']:.3f}" for n, words in names.items() if n in found]
    out.print(", ".join(told), markup=False, highlight=False)
