"""The tree of errors: what it promises about every one of them."""

from __future__ import annotations

import pickle
from copy import copy, deepcopy

import pytest

from shared_core import errors
from shared_core.types import Answer

MADE = [
    errors.InputError("what happened", hint="what to do"),
    errors.MissingDependencyError("torch", extra="offline", purpose="Reading"),
    errors.CapabilityError("hidden_states", "a server", hint="use another"),
    errors.ContextOverflowError(5000, 4096),
    errors.DeadlineError("too late", hint="more time"),
    errors.AbstainedError(Answer("q", "t", abstained=True, reason="nothing retrieved")),
]


@pytest.mark.parametrize("error", MADE, ids=lambda e: type(e).__name__)
def test_an_error_survives_being_sent_to_another_process(error: errors.SelfReflectError) -> None:
    for again in (pickle.loads(pickle.dumps(error)), copy(error), deepcopy(error)):
        assert type(again) is type(error)
        assert str(again) == str(error)
        assert vars(again) == vars(error)


def test_every_error_is_in_the_tree_that_the_module_draws() -> None:
    found = [v for v in vars(errors).values() if isinstance(v, type) and issubclass(v, errors.SelfReflectError)]
    assert len(found) > 20
    for kind in found:
        assert kind.__module__ == "shared_core.errors"
        assert kind.__name__ in (errors.__doc__ or "")


def test_a_deadline_can_be_caught_as_pythons_own_and_is_no_fault_of_a_model() -> None:
    with pytest.raises(TimeoutError, match="too late"):
        raise errors.DeadlineError("too late")
    assert not issubclass(errors.LimitError, errors.LanguageModelError)
