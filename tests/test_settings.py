"""Settings: how many a user sees, what old names do, and the errors for wrong ones."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from shared_core import SeakrSettings, SelfReflectSettings
from shared_core.calibration.binding import require_same
from shared_core.cli.options import with_set
from shared_core.errors import CalibrationError, SettingsError
from shared_core.settings import Settings
from shared_core.support import settings_base


@pytest.fixture
def _first_time() -> Iterator[None]:
    """Warnings as in a new process, and not as errors."""
    before = set(settings_base._WARNED)
    settings_base._WARNED.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        yield
    settings_base._WARNED.update(before)


def leaves(group: type[Settings], *, published: bool) -> list[str]:
    """The names of all settings that are no groups."""
    found = []
    for name, field in group.model_fields.items():
        kind = field.annotation
        if not (isinstance(kind, type) and issubclass(kind, Settings)):
            found.append(name)
        elif name != "published" or published:
            found += [f"{name}.{inner}" for inner in leaves(kind, published=published)]
    return found


def test_a_user_sees_at_most_60_settings() -> None:
    seen, every = (leaves(SelfReflectSettings, published=p) for p in (False, True))
    assert len(seen) <= 60, sorted(seen)
    assert len(every) > len(seen)  # nothing was dropped: the rest is in the groups `published`


def test_every_setting_says_what_it_is() -> None:
    def undescribed(group: type[Settings]) -> Iterator[str]:
        for name, field in group.model_fields.items():
            if not field.description:
                yield f"{group.__name__}.{name}"
            if isinstance(field.annotation, type) and issubclass(field.annotation, Settings):
                yield from undescribed(field.annotation)

    assert not list(undescribed(SelfReflectSettings))


RENAMED: list[tuple[dict[str, Any], str, object]] = [
    ({"witnesses": "judge"}, "signals", "support_only"),
    ({"witnesses": "auto"}, "signals", "all"),
    ({"second_reading": False}, "retry_short_answer", False),
    ({"unsupported": "flag"}, "unsupported_claims", "flag"),
    ({"allow_uncited": True}, "allow_answers_without_citation", True),
]


@pytest.mark.usefixtures("_first_time")
@pytest.mark.parametrize(("old", "new", "value"), RENAMED)
def test_an_old_name_is_accepted_with_one_warning(old: dict[str, Any], new: str, value: object) -> None:
    (name,) = old
    with pytest.warns(FutureWarning, match=rf"{name}=.* is now SelfReflectSettings\({new}={value!r}\)") as caught:
        made = [SelfReflectSettings(**old), SelfReflectSettings().replace(**old)]
    assert len(caught) == 1
    assert caught[0].filename == __file__
    for settings in made:
        assert getattr(settings, new) == value
        assert getattr(settings, name) == old[name]  # read by its old name too
        assert settings.model_fields_set == {new}


@pytest.mark.usefixtures("_first_time")
def test_an_old_flat_place_is_accepted_with_one_warning() -> None:
    with pytest.warns(FutureWarning) as caught:
        made = SelfReflectSettings(seakr={"hidden": "residual", "published": {"alpha": 0.5}, "samples": 4})
    (warning,) = caught
    assert "SeakrSettings(published={'hidden': 'residual'})" in str(warning.message)
    assert (made.seakr.published.hidden, made.seakr.published.alpha, made.seakr.samples) == ("residual", 0.5, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it was said once
        changed = made.seakr.replace(hidden="mlp")
        assert getattr(changed, "hidden") == "mlp"  # noqa: B009 (type checkers do not know it)
    assert (changed.published.hidden, changed.published.alpha, changed.samples) == ("mlp", 0.5, 4)


@pytest.mark.usefixtures("_first_time")
@pytest.mark.parametrize(
    ("pairs", "hidden", "signals"),
    [
        (["seakr.published.hidden=residual", "seakr.published.alpha=0.5"], "residual", "all"),
        (["seakr.hidden=residual", "seakr.alpha=0.5"], "residual", "all"),
        (["witnesses=judge", "seakr.published.alpha=0.5"], "mlp", "support_only"),
    ],
)
def test_the_command_line_takes_both(pairs: list[str], hidden: str, signals: str) -> None:
    made = with_set(SelfReflectSettings(seakr={"samples": 4}), pairs)
    assert (made.seakr.published.hidden, made.seakr.published.alpha) == (hidden, 0.5)
    assert (made.seakr.samples, made.signals) == (4, signals)


def test_a_misspelt_name_says_what_was_meant() -> None:
    for wrong, near in (
        ({"top_kk": 3}, "Did you mean top_k?"),
        ({"seakr": {"sample": 3}}, "Did you mean samples?"),
        ({"seakr": {"hiden": "mlp"}}, "Did you mean published.hidden?"),
        ({"seakr": {"published": {"hiden": "mlp"}}}, "Did you mean hidden?"),
    ):
        with pytest.raises(SettingsError) as caught:
            SelfReflectSettings(**wrong)
        assert caught.value.hint.startswith(near)
        assert "Known settings" in caught.value.hint
        assert str(caught.value).count("Hint:") == 1


@pytest.mark.usefixtures("_first_time")
@pytest.mark.parametrize(
    "twice", [{"signals": "all", "witnesses": "judge"}, {"seakr": {"alpha": 0.5, "published": {"alpha": 0.25}}}]
)
def test_old_and_new_name_together_are_refused(twice: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match="is given twice"):
        SelfReflectSettings(**twice)


def test_files_of_0_1_0_are_upgraded_without_a_warning() -> None:
    old = {"witnesses": "judge", "seakr": {"samples": 5, "layer": 2}, "top_k": 3, "pipeline model": "m"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        new = SelfReflectSettings.upgrade(old)
        assert SelfReflectSettings.upgrade(new) == new
    assert new == {
        "signals": "support_only",
        "seakr": {"samples": 5, "published": {"layer": 2}},
        "top_k": 3,
        "pipeline model": "m",  # names that are no settings stay as they are
    }


def test_a_binding_of_0_1_0_is_recognised_or_refused_as_such() -> None:
    now = {"top_k": 5, "signals": "all", "retry_short_answer": "steps"}
    require_same("It", {"top_k": 5, "witnesses": "auto", "second_reading": "steps"}, now, hint="Again.")
    with pytest.raises(CalibrationError, match=r"signals 'support_only', not 'all'\. .*version 0\.1\.0") as caught:
        require_same("It", {"top_k": 5, "witnesses": "judge", "second_reading": "steps"}, now, hint="Again.")
    assert caught.value.hint == "Again; or use the settings that it was fitted for: signals='support_only'"


def test_replacing_validates_and_keeps_what_was_chosen() -> None:
    made = SelfReflectSettings(seakr=SeakrSettings(published={"layer": 3})).replace(top_k=2)
    assert made.model_fields_set == {"seakr", "top_k"}
    assert made.seakr.published.layer == 3
    assert SelfReflectSettings().replace(top_k=5).model_fields_set == {"top_k"}  # the default, but asked for
    nested = made.replace(seakr=made.seakr.replace(samples=4))
    assert (nested.top_k, nested.seakr.samples) == (2, 4)
    assert nested.seakr.model_fields_set == {"published", "samples"}
    with pytest.raises(SettingsError):
        made.replace(top_k=0)


def test_an_argument_that_is_a_setting_is_named_as_one() -> None:
    from shared_core.facades.arguments import unknown_argument

    error = unknown_argument("calibration", ["calibrations", "settings"], "SelfReflectChain")
    assert error.hint == "settings=SelfReflectSettings(calibration=…)"
    assert "Did you mean calibrations?" in unknown_argument("calibration", ["calibrations"], "f").hint
