"""``selfreflect train reclaim | research | self-rag critic | self-rag generator``: train models on rows."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer

from shared_core.cli.common import build_model, check_calibration, reports_errors
from shared_core.cli.console import err, out
from shared_core.cli.options import BaseUrl, Calibration, Set, with_set
from shared_core.cli.training_options import TrainingOptions, launched, training_steps
from shared_core.errors import InputError
from shared_core.settings import SelfReflectSettings

if TYPE_CHECKING:
    from shared_core.training.rows import TrainingRow
    from shared_core.training.self_rag.rows import CriticRow, GeneratorRow
    from shared_core.training.trainer import TrainingResult

R = TypeVar("R")
_RLOO = "RLOO and its reward"


# --- ReClaim and Self-RAG ------------------------------------------------------------------------------------------


@reports_errors
def reclaim_command(
    training: TrainingOptions,
    role: Annotated[str, typer.Option(help="reference, claim or unified: which rows, and the paper's settings.")],
) -> None:
    """Train ReClaim's reference, claim or unified model on rows of `train reclaim-rows`.

    Options that are not given take the paper's values. After an interruption the same command resumes from its last
    checkpoint.
    """
    with launched():
        _train_role(training, role)


@reports_errors
def critic_command(training: TrainingOptions) -> None:
    """Train Self-RAG's critic on rows in the published form (docs/self_rag.md).

    Reflection tokens that the model lacks are added to it. Options that are not given take the paper's values. After an
    interruption the same command resumes from its last checkpoint.
    """
    _train_self_rag("critic", training)


@reports_errors
def generator_command(training: TrainingOptions) -> None:
    """Train Self-RAG's generator on rows in the published form (docs/self_rag.md).

    Reflection tokens that the model lacks are added to it. Options that are not given take the paper's values. After an
    interruption the same command resumes from its last checkpoint.
    """
    _train_self_rag("generator", training)


def _train_self_rag(role: Literal["critic", "generator"], training: TrainingOptions) -> None:
    from shared_core.training.self_rag.recipe import self_rag_recipe, train_self_rag
    from shared_core.training.self_rag.rows import balance, read_critic_rows, read_generator_rows

    def read(path: Path) -> Sequence[CriticRow | GeneratorRow]:
        return read_critic_rows(path) if role == "critic" else read_generator_rows(path)

    with launched():
        settings = self_rag_recipe(**training.changes())
        rows, held_out = _read_rows(training, read)
        show_balance(balance(rows))
        train = partial(train_self_rag, rows, training.model, training.output, settings, evaluate_on=held_out)
        _run(train, training)


def show_balance(balance: Mapping[str, Mapping[str, int]]) -> None:
    """Print how often each verdict of each task is taught."""
    for task, counts in balance.items():
        shares = ", ".join(f"{token} {count}" for token, count in counts.items())
        out.print(f"{task}: {shares}")


# --- ReSearch ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class RewardOptions:
    """Options of RLOO: how answers are sampled, and how their reward is judged.

    >>> RewardOptions(samples=8).given()
    {'--samples': 8}
    """

    samples: Annotated[int | None, typer.Option(help="Answers sampled for a prompt (4).", rich_help_panel=_RLOO)] = None
    max_new_tokens: Annotated[
        int | None, typer.Option(help="Tokens of a sampled answer (256).", rich_help_panel=_RLOO)
    ] = None
    sample_batch: Annotated[
        int | None, typer.Option(help="Answers sampled at a time, as memory allows (64).", rich_help_panel=_RLOO)
    ] = None
    judge_model: Annotated[
        str | None,
        typer.Option(
            help="Splits and judges answers: name or path, or the name on the server of --base-url. By default the "
            "model that is trained, as it was before.",
            rich_help_panel=_RLOO,
        ),
    ] = None
    base_url: BaseUrl = None
    target_accuracy: Annotated[
        float | None,
        typer.Option(
            "--target-accuracy", "-t", help="ρ* of the utility; by default that of the searches.", rich_help_panel=_RLOO
        ),
    ] = None
    calibration: Calibration = None
    set: Set = field(default_factory=list)

    def given(self) -> dict[str, Any]:
        """Return the options that were given, as the user wrote them."""
        return {f"--{n.replace('_', '-')}": v for n, v in vars(self).items() if v not in (None, [])}

    def changes(self) -> dict[str, Any]:
        """Return the training settings among them that were given, by name."""
        own = ("samples", "max_new_tokens", "sample_batch")
        return {name: getattr(self, name) for name in own if getattr(self, name) is not None}


@reports_errors
def research_command(
    training: TrainingOptions,
    reward: RewardOptions,
    how: Annotated[
        Literal["sft", "dpo", "rloo"],
        typer.Argument(
            metavar="[sft|dpo|rloo]",
            help="Train on the best answers, on preferences, or by rewards of its own answers.",
        ),
    ] = "sft",
    beta: Annotated[
        float | None, typer.Option(help="dpo (0.25), rloo (0.1): pull towards the model that training starts from.")
    ] = None,
) -> None:
    """Train a model on rows that `train research-data` made of its own searches.

    sft (sft.jsonl): on the best answers. dpo (dpo.jsonl): on pairs of answers of different utility.
    rloo (rloo.jsonl): it samples answers itself, and their expected utility, judged as in the searches, is the reward.

    Options that are not given take the paper's values. After an interruption the same command resumes from its last
    checkpoint.
    """
    if how != "rloo":
        _refuse(how, reward.given())
    if how == "rloo":
        _refuse(how, {"--eval-rows": training.eval_rows})
    if how == "sft":
        _refuse(how, {"--beta": beta})
    stays = {} if beta is None else {"beta": beta}
    with launched():
        if how == "sft":
            _train_role(training, "research")
        elif how == "dpo":
            _train_preferences(training, stays)
        else:
            _train_online(training, {**stays, **reward.changes()}, reward)


def _refuse(how: str, given: Mapping[str, Any]) -> None:
    for option, value in given.items():
        if value not in (None, []):
            raise InputError(f"{option} does not apply to {how}.", hint="Leave it out, or choose another training.")


def _train_preferences(training: TrainingOptions, changes: dict[str, Any]) -> None:
    from shared_core.training.research.preferences import train_preferences
    from shared_core.training.research.rows import read_preferences
    from shared_core.training.settings import PreferenceSettings

    settings = PreferenceSettings(**training.changes(), **changes)
    pairs, held_out = _read_rows(training, read_preferences)
    train = partial(train_preferences, pairs, training.model, training.output, settings, evaluate_on=held_out)
    _show_measures(_run(train, training), "preferences", {"accuracy": "pairs in the right order", "margin": "margin"})


def _train_online(training: TrainingOptions, changes: dict[str, Any], options: RewardOptions) -> None:
    from shared_core.facades.engine import SelfReflectEngine
    from shared_core.lm.identity import identity_of
    from shared_core.retrieval import BM25Retriever
    from shared_core.training.research.online import UtilityReward, train_online
    from shared_core.training.research.rows import read_prompted
    from shared_core.training.settings import OnlineSettings

    how = OnlineSettings(**training.changes(), **changes)
    settings = _reward_settings(training.rows, options)
    prompts, _ = _read_rows(training, read_prompted)
    judge = build_model(options.judge_model or (None if options.base_url else training.model), options.base_url)
    reward = UtilityReward(SelfReflectEngine(BM25Retriever(), judge, settings), prompts)
    card = {
        "judge": judge and identity_of(judge),
        "target_accuracy": settings.target_accuracy,
        "research": settings.research.model_dump(mode="json"),
        "scale": reward.scale,
    }
    train = partial(train_online, prompts, training.model, training.output, reward, how, reward_card=card)
    names = {"reward": "reward", "kl": "KL", "tokens": "tokens of an answer"}
    _show_measures(_run(train, training), "online", names)
    if reward.unknown:
        err.print(f"{reward.unknown} answers could not be judged", style="yellow")


def _reward_settings(rows: Sequence[Path], options: RewardOptions) -> SelfReflectSettings:
    """Take the settings of the searches (``searches.json`` beside the rows), with the given changes."""
    from shared_core.training.research.searches import settings_of

    check_calibration(options.calibration)
    found, calibrated = next((read for path in rows if (read := settings_of(path.parent))[0]), (None, False))
    if found is None:
        err.print("no searches.json beside the rows: using the settings' defaults", style="yellow")
    if calibrated != (options.calibration is not None):
        was = "with" if calibrated else "without"
        raise InputError(
            f"The searches were judged {was} a calibration, and the reward would not be.",
            hint="Give the --calibration FILE of research-data." if calibrated else "Leave --calibration out.",
        )
    made = (found or SelfReflectSettings(pipeline="research")).replace(calibration=options.calibration)
    target = options.target_accuracy
    return with_set(made if target is None else made.replace(target_accuracy=target), options.set)


# --- shared --------------------------------------------------------------------------------------------------------


def _train_role(training: TrainingOptions, role: str) -> None:
    """Train on the files' rows of a role, by its recipe."""
    from shared_core.training.recipes import recipe, train
    from shared_core.training.rows import read_rows

    settings = recipe(role, **training.changes())
    rows, held_out = (_only(role, part) if part else [] for part in _read_rows(training, read_rows))
    if not rows:
        _only(role, rows)
    _run(partial(train, rows, training.model, training.output, settings, evaluate_on=held_out), training)


def _only(role: str, rows: Sequence[TrainingRow]) -> list[TrainingRow]:
    chosen = [row for row in rows if row.role == role]
    if not chosen:
        known = ", ".join(sorted({r.role for r in rows})) or "none"
        raise InputError(f"The files hold no rows for the {role} model.", hint=f"Roles they hold: {known}.")
    return chosen


def _read_rows(training: TrainingOptions, read: Callable[[Path], Sequence[R]]) -> tuple[list[R], list[R]]:
    """Read the rows to train on and those to evaluate on."""
    rows = [row for path in training.rows for row in read(path)]
    return rows, [row for path in training.eval_rows for row in read(path)]


def _run(train: Callable[..., TrainingResult], training: TrainingOptions) -> TrainingResult:
    """Train with a progress bar, and print the result; ``train`` takes ``sources`` and ``progress``."""
    files = [path for path in [*training.rows, *training.eval_rows] if path.is_file()]
    digests = {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    with training_steps() as progress:
        result = train(sources=digests, progress=progress)
    if result.dropped:
        limit = result.card["tokens"]["limit"]
        err.print(f"{result.dropped} rows of more than {limit} tokens left out", style="yellow")
    if result.card["resumed_at"]:
        out.print(f"resumed from step {result.card['resumed_at']}")
    change = _change(result.card["loss"])
    out.print(f"{result.rows} rows, {result.steps} steps, {result.seconds:.0f} s, loss {change} (first and last steps)")
    if result.best is not None:
        loss = dict(result.evaluations)[result.best]
        out.print(f"best on {result.card['rows']['evaluated_on']} rows held out: step {result.best}, loss {loss:.3f}")
    out.print(f"written: {result.output}")
    return result


def _show_measures(result: TrainingResult, part: str, names: Mapping[str, str]) -> None:
    shown = [f"{words} {_change(result.card[part][name])}" for name, words in names.items()]
    out.print(", ".join(shown))


def _change(ends: Mapping[str, float | None]) -> str:
    first, last = (("?" if ends[end] is None else f"{ends[end]:.3f}") for end in ("first", "last"))
    return f"{first} → {last}"
