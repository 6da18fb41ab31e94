"""Settings of a training: one set for every recipe, and what preferences and online training add.

Nothing here imports torch. ``trainer`` turns them into the arguments of TRL's trainers.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, model_validator

from shared_core.errors import InputError
from shared_core.settings import Settings

LARGE = 1_000_000_000
"""Number of weights from which a model trains one row at a time with gradient checkpointing, unless set otherwise."""
RESUMABLE_CHANGES = frozenset({"report_to", "run_name", "save_every", "use_cpu"})
"""Settings that may change when an interrupted training goes on, because they do not change what is learnt."""
_SMALL_MICRO = 8
_MERGED = "start_adapter: training stays close to the model that it starts from, so name the merged model as the base"


class TrainingSettings(Settings):
    """Settings of a supervised training. ``recipe`` gives the paper's values for a role.

    >>> TrainingSettings(method="lora", batch_size=12).micro(weights=135_000_000)
    6
    """

    described: ClassVar[str] = "the command's --help"

    method: Literal["full", "lora", "qlora"] = Field(
        "full", description="All weights; low-rank adapters; or adapters over a base in 4 bits (needs bitsandbytes)."
    )
    learning_rate: float = Field(2e-5, gt=0, description="Highest, after warm-up.")
    epochs: float = Field(3, gt=0, description="Passes over the rows.")
    max_steps: int | None = Field(None, ge=1, description="Instead of epochs.")
    batch_size: int = Field(16, ge=1, description="Rows per step, over all processes.")
    micro_batch_size: int | None = Field(
        None,
        ge=1,
        description="Rows in a process's memory at a time; the rest of a batch is accumulated. None takes one for "
        "models of a billion weights and more, up to eight for smaller ones.",
    )
    warmup: float = Field(0.03, ge=0, lt=1, description="Share of the steps.")
    schedule: Literal["linear", "cosine", "constant_with_warmup"] = Field(
        "linear", description="How the learning rate falls."
    )
    weight_decay: float = Field(0.0, ge=0, description="AdamW's.")
    max_grad_norm: float = Field(1.0, gt=0, description="Gradients are scaled down to this norm.")
    optimizer: Literal["adamw_torch", "adamw_torch_fused", "paged_adamw_8bit", "adafactor"] = Field(
        "adamw_torch", description="As transformers names it."
    )
    max_length: int | None = Field(None, ge=2, description="Tokens of a row; None takes the model's context.")
    too_long: Literal["drop", "raise"] = Field(
        "drop", description="Longer rows: left out and counted, or refused. They are never cut."
    )
    batches: Literal["random", "length", "packed", "trees"] = Field(
        "random",
        description="Rows of a batch: any; of about one length, so that little is padded; packed one after another "
        "up to max_length, none attending to another; or trees up to max_length, in which the beginning that rows "
        "share is encoded once (batch_size then counts packs or trees).",
    )
    token_weights: Literal["equal", "decisions"] = Field(
        "equal",
        description="With trees: every learned token alike, or the first of each row, where a model decides to answer "
        "or to decline, as much in a long row as in a short one.",
    )
    lora_rank: int = Field(16, ge=1, description="Rank of adapters.")
    lora_alpha: float = Field(32, gt=0, description="Scale of adapters.")
    lora_dropout: float = Field(0.05, ge=0, lt=1, description="Of adapters.")
    lora_modules: str | tuple[str, ...] = Field("all-linear", description="Names of modules, or all linear ones.")
    lora_layers: int | None = Field(
        None, ge=1, description="Adapters on the last so many layers only: those below cost no backward pass."
    )
    start_adapter: str | None = Field(
        None, description="Adapter of the same rank, scale and layers to go on from: folder of peft, or packed file."
    )
    weights: Literal["auto", "base", "float32"] = Field(
        "auto",
        description="Type of the weights in memory. auto: the base's own under adapters, float32 where all are trained "
        "(steps of bfloat16 weights round small updates away). The saved model has the base's type in any case.",
    )
    gradient_checkpointing: bool | None = Field(
        None, description="Less memory, a third more time; None: on an accelerator, from a billion weights."
    )
    use_cpu: bool | None = Field(None, description="None uses an accelerator if there is one.")
    bf16: bool | None = Field(None, description="None uses bfloat16 where the accelerator has it, never on a CPU.")
    eval_share: float = Field(
        0.0, ge=0, le=0.5, description="Share of the sources held out to evaluate on; the best checkpoint is kept."
    )
    save_every: float = Field(
        0.1,
        ge=0,
        description="Steps between checkpoints (and evaluations); below 1 a share of all steps; 0 keeps none, and "
        "an interrupted training then starts again.",
    )
    report_to: tuple[str, ...] = Field((), description="Trackers, as TRL names them: tensorboard, wandb, mlflow, …")
    run_name: str | None = Field(None, description="Name of this training in trackers.")
    seed: int = Field(0, description="Of everything random.")

    @model_validator(mode="after")
    def _consistent(self) -> TrainingSettings:
        if self.save_every > 1 and self.save_every != int(self.save_every):
            raise ValueError("save_every is a number of steps, or a share below 1")
        if self.eval_share and not self.save_every:
            raise ValueError("eval_share needs checkpoints to choose the best of: save_every is 0")
        if self.lora_layers and not self.adapts:
            raise ValueError("lora_layers is for adapters: method='lora'")
        if self.start_adapter and not self.adapts:
            raise ValueError("start_adapter is for adapters: method='lora'")
        if self.batches == "trees" and self.micro_batch_size not in (None, 1):
            raise ValueError("a tree is a batch in memory by itself: micro_batch_size=1")
        if self.token_weights != "equal" and self.batches != "trees":
            raise ValueError("token_weights is for trees: batches='trees'")
        if self.method == "qlora" and self.weights == "float32":
            raise ValueError("qlora holds the base in 4 bits, not in float32")
        return self

    @property
    def adapts(self) -> bool:
        """Whether adapters are trained instead of all weights."""
        return self.method != "full"

    def micro(self, weights: int, processes: int = 1) -> int:
        """Choose how many rows a process holds in memory at a time.

        Args:
            weights: number of weights of the model.
            processes: of the launch.

        Raises:
            InputError: the batch cannot be divided that way.
        """
        share, rest = divmod(self.batch_size, processes)
        if rest:
            raise InputError(
                f"A batch of {self.batch_size} rows cannot be shared by {processes} processes.",
                hint=f"Give a batch_size that {processes} divides.",
            )
        if self.batches == "trees":
            return 1
        if self.micro_batch_size is None:
            most = 1 if weights >= LARGE else _SMALL_MICRO
            return max(n for n in range(1, min(most, share) + 1) if share % n == 0)
        if share % self.micro_batch_size:
            of = f"batch_size {self.batch_size}" + (f" / {processes} processes" if processes > 1 else "")
            raise InputError(f"micro_batch_size {self.micro_batch_size} does not divide {of}.")
        return self.micro_batch_size


class PreferenceSettings(TrainingSettings):
    """Settings of DPO, with the values of Piché et al., Table 17. A row is a pair of answers.

    >>> PreferenceSettings().beta
    0.25
    """

    learning_rate: float = Field(1e-6, gt=0)
    max_steps: int | None = Field(400, ge=1, description="Instead of epochs.")
    batch_size: int = Field(64, ge=1, description="Pairs per step, over all processes.")
    beta: float = Field(0.25, gt=0, description="Strength of the pull towards the model that training starts from.")

    @model_validator(mode="after")
    def _pairs(self) -> PreferenceSettings:
        if self.batches != "random":
            raise ValueError("pairs are neither packed nor grouped by length: batches='random'")
        if self.start_adapter:
            raise ValueError(_MERGED)
        return self


class OnlineSettings(TrainingSettings):
    """Settings of RLOO. A row of a batch is a sampled answer.

    Batch size, learning rate, steps and β are those of Piché et al., Table 17; the others are ours.

    >>> OnlineSettings(batch_size=64).samples
    4
    """

    learning_rate: float = Field(1e-6, gt=0)
    max_steps: int | None = Field(600, ge=1, description="Instead of epochs.")
    batch_size: int = Field(512, ge=2, description="Answers per step, over all processes.")
    beta: float = Field(0.1, ge=0, description="Cost of moving away from the model that training starts from (KL).")
    samples: int = Field(4, ge=2, description="Answers sampled for a prompt, each compared with the others.")
    max_new_tokens: int = Field(256, ge=1, description="Tokens of a sampled answer.")
    temperature: float = Field(1.0, gt=0)
    sample_batch: int = Field(64, ge=2, description="Answers that a process samples at a time, as its memory allows.")

    @model_validator(mode="after")
    def _groups(self) -> OnlineSettings:
        if self.batch_size % self.samples:
            raise ValueError(f"a batch of {self.batch_size} answers does not hold whole groups of {self.samples}")
        if self.batches != "random":
            raise ValueError("sampled answers are neither packed nor grouped by length: batches='random'")
        if self.start_adapter:
            raise ValueError(_MERGED)
        if self.eval_share:
            raise ValueError("rewards are measured at each step; nothing is held out: eval_share=0")
        return self
