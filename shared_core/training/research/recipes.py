"""How ReSearch's three trainings are done: the values of Piché et al., Table 17, as defaults.

Supervised: ``recipes.recipe("research")``. Here are preferences (DPO) and online training (RLOO). Batch sizes, learning
rates, steps and β are the paper's; answers per prompt, their length and the rest are ours.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from shared_core.training.options import TrainingSettings

__all__ = ["OnlineSettings", "PreferenceSettings", "research_recipe"]


class PreferenceSettings(TrainingSettings):
    """Of DPO. A row is a pair of answers."""

    learning_rate: float = Field(1e-6, gt=0)
    max_steps: int | None = Field(400, ge=1, description="Instead of epochs.")
    batch_size: int = Field(64, ge=1, description="Pairs per step, over all processes.")
    beta: float = Field(0.25, gt=0, description="How closely it stays to the model that it starts from.")

    @model_validator(mode="after")
    def _pairs(self) -> PreferenceSettings:
        if self.batches != "random":
            raise ValueError("pairs are neither packed nor grouped by length: batches='random'")
        return self


class OnlineSettings(TrainingSettings):
    """Of RLOO. A row of a batch is an answer that the model sampled."""

    learning_rate: float = Field(1e-6, gt=0)
    max_steps: int | None = Field(600, ge=1, description="Instead of epochs.")
    batch_size: int = Field(512, ge=2, description="Answers per step, over all processes.")
    beta: float = Field(0.1, ge=0, description="What moving away from the model that it starts from costs (KL).")
    samples: int = Field(4, ge=2, description="Answers sampled to a prompt, each compared with the others.")
    max_new_tokens: int = Field(256, ge=1, description="Of a sampled answer.")
    temperature: float = Field(1.0, gt=0)
    sample_batch: int = Field(64, ge=2, description="Answers that a process samples at a time, as its memory allows.")

    @model_validator(mode="after")
    def _groups(self) -> OnlineSettings:
        if self.batch_size % self.samples:
            raise ValueError(f"a batch of {self.batch_size} answers does not hold whole groups of {self.samples}")
        if self.batches != "random":
            raise ValueError("sampled answers are neither packed nor grouped by length: batches='random'")
        if self.eval_share:
            raise ValueError("rewards are told at each step; nothing is kept apart: eval_share=0")
        return self


def research_recipe(role: Literal["dpo", "rloo"], **changes: Any) -> PreferenceSettings | OnlineSettings:
    """The paper's settings with changes; SettingsError for one that is out of range or unknown."""
    return PreferenceSettings(**changes) if role == "dpo" else OnlineSettings(**changes)
