"""Warn once a process of SeaKR's cost with a model that returns nothing but text."""

from __future__ import annotations

import logging
from functools import cache

from shared_core.pipelines.gating.choose import ChosenEstimator
from shared_core.settings import SelfReflectSettings
from shared_core.uncertainty import Cost

_LOG = logging.getLogger(__name__)


def most_replies(settings: SelfReflectSettings) -> int:
    """The replies that a question may take where uncertainty is measured by samples.

    Each step measures its draft and one continuation for each passage: a greedy reply and ``samples`` others. Two more
    measurements choose between both ways to reason at the end of several steps.
    """
    options = settings.seakr
    steps = options.max_steps if options.multi_hop else 1
    measured = steps * (1 + settings.top_k) + (2 if options.multi_hop else 0)
    return measured * (1 + options.samples)


def warn_of_cost(chosen: ChosenEstimator, settings: SelfReflectSettings, model: str) -> None:
    """Say what a question may take, where samples have to be written out because the model gives only text."""
    if chosen.estimator.cost >= Cost.SAMPLES and "token_logprobs" not in chosen.abilities:
        _warn(model, chosen.options.samples, most_replies(settings))


@cache
def _warn(model: str, samples: int, most: int) -> None:
    _LOG.warning(
        "%s gives nothing but text: SeaKR measures its uncertainty by %d samples of everything it writes, up to %d "
        "replies a question. Lower seakr.samples or seakr.max_steps, set max_calls or max_tokens, calibrate a gate, "
        "or use pipeline=composed.",
        model,
        samples,
        most,
    )
