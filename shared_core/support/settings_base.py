"""Base of all groups of settings: strict validation in this project's own errors, and names of earlier versions."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from shared_core.errors import SettingsError, did_you_mean

_PUBLISHED = "published"  # a group's details of a published method, apart from what an app would tune


@dataclass(frozen=True)
class Renamed:
    """The present name of a setting that 0.1.0 called otherwise, and the present words for its old values."""

    name: str
    values: Mapping[str, str] = field(default_factory=dict)


class Settings(BaseModel):
    """Base of all groups of settings; raises SettingsError for wrong values and unknown names.

    Names of version 0.1.0 are accepted with a FutureWarning, once for each name in a process: settings that were
    renamed, and settings that have moved into the sub-group ``published``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    renamed: ClassVar[Mapping[str, Renamed]] = {}
    """Settings of 0.1.0 by the name they had."""
    described: ClassVar[str] = "selfreflect doctor --settings"
    """Command that describes the settings of this group."""

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise _settings_error(type(self), error) from error

    @model_validator(mode="before")
    @classmethod
    def _accept_old_names(cls, values: object) -> object:
        return cls.upgrade(values, warn=True) if isinstance(values, Mapping) else values

    def replace(self, **values: Any) -> Self:
        """Return a copy with these values, validated again (``model_copy`` would not validate).

        ``model_fields_set`` of the copy holds what was set before and what is set now, so a caller who never chose
        ``top_k`` has not chosen it afterwards either.
        """
        given, moved = _present_names(type(self), values, warn=True)
        if moved:
            given[_PUBLISHED] = _merge(given.get(_PUBLISHED, getattr(self, _PUBLISHED)), moved)
        return type(self)(**{**{name: getattr(self, name) for name in self.model_fields_set}, **given})

    @classmethod
    def upgrade(cls, values: Mapping[str, object], *, warn: bool = False) -> dict[str, object]:
        """Give settings that were written for 0.1.0 their present names and places; others stay as they are.

        Args:
            values: settings by name, with groups as settings or as mappings.
            warn: name the present place of each old name, once in a process.
        """
        made, moved = _present_names(cls, values, warn=warn)
        if moved:
            made[_PUBLISHED] = _merge(made.get(_PUBLISHED, {}), moved)
        for name, value in made.items():
            if isinstance(value, Mapping) and (group := _group(cls, name)) is not None:
                made[name] = group.upgrade(value, warn=warn)
        return made

    if not TYPE_CHECKING:  # type checkers refuse the old names

        def __getattr__(self, name: str) -> object:
            """Read a setting by the name it had in 0.1.0."""
            if (new := self.renamed.get(name)) is not None:
                value = getattr(self, new.name)
                old = {present: word for word, present in new.values.items()}.get(value, value)
                _warn_once(type(self), name, old, f"{new.name}={value!r}")
                return old
            group = _group(type(self), _PUBLISHED)
            if group is not None and name in group.model_fields:
                value = getattr(getattr(self, _PUBLISHED), name)
                _warn_once(type(self), name, value, _in_published(name, value))
                return value
            return super().__getattr__(name)


def _group(cls: type[Settings], name: str) -> type[Settings] | None:
    """The type of a field, if it is a group of settings."""
    found = cls.model_fields.get(name)
    kind = None if found is None else found.annotation
    return kind if isinstance(kind, type) and issubclass(kind, Settings) else None


def _present_names(
    cls: type[Settings], values: Mapping[str, object], *, warn: bool
) -> tuple[dict[str, object], dict[str, object]]:
    """Split settings, by their present names, into those of the group itself and those that moved to ``published``."""
    own: dict[str, object] = {}
    moved: dict[str, object] = {}
    published = _group(cls, _PUBLISHED)
    for name, value in values.items():
        if (new := cls.renamed.get(name)) is not None:
            if new.name in values:
                raise SettingsError(f"{new.name} is given twice, once as {name}.", hint=f"Leave {name} out.")
            own[new.name] = new.values.get(value, value) if isinstance(value, str) else value
            instead = f"{new.name}={own[new.name]!r}"
        elif published is not None and name in published.model_fields:
            moved[name] = value
            instead = _in_published(name, value)
        else:
            own[name] = value
            continue
        if warn:
            _warn_once(cls, name, value, instead)
    return own, moved


def _in_published(name: str, value: object) -> str:
    return f"{_PUBLISHED}={{{name!r}: {value!r}}}"


def _merge(group: object, moved: Mapping[str, object]) -> object:
    if isinstance(group, Settings):
        return group.replace(**moved)
    if not isinstance(group, Mapping):
        return group  # of a wrong type, which validation refuses
    if twice := sorted(group.keys() & moved.keys()):
        raise SettingsError(f"{twice[0]} is given twice.", hint=f"Leave it in {_PUBLISHED} alone.")
    return {**group, **moved}


_WARNED: set[tuple[str, str]] = set()


def _warn_once(cls: type[Settings], name: str, value: object, instead: str) -> None:
    """Warn that ``name`` is an old name; point at the nearest caller outside of this package and pydantic."""
    if (cls.__name__, name) in _WARNED:
        return
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(("shared_core.", "pydantic.")):
        frame, level = frame.f_back, level + 1
    warnings.warn(
        f"{cls.__name__}({name}={value!r}) is now {cls.__name__}({instead}); the old name will be removed.",
        FutureWarning,
        stacklevel=level,
    )
    _WARNED.add((cls.__name__, name))  # not before: where warnings are errors, each use is one


def _settings_error(cls: type[Settings], error: ValidationError) -> SettingsError:
    """Turn pydantic's error into ours; an error of a nested group keeps its own message and hint."""
    found = error.errors()
    for problem in found:
        if isinstance(inner := problem.get("ctx", {}).get("error"), SettingsError) and inner.hint:
            return SettingsError(inner.message, hint=inner.hint)
    told = "; ".join(_told(e["loc"], e["msg"].removeprefix("Value error, "), e["input"]) for e in found)
    return SettingsError(f"{cls.__name__} cannot be created: {told}", hint=_hint(cls, error))


def _told(place: tuple[int | str, ...], message: str, given: object) -> str:
    if not place:  # settings that contradict each other, which the message names
        return message
    return f"{'.'.join(map(str, place))}: {message} (given: {given!r})"


def _hint(cls: type[Settings], error: ValidationError) -> str:
    unknown = [str(e["loc"][-1]) for e in error.errors() if e["type"] == "extra_forbidden"]
    if not unknown:
        return f"Each setting's range is in its description: {cls.described}"
    near = did_you_mean(unknown[0], cls.model_fields)
    if not near and (published := _group(cls, _PUBLISHED)) is not None:
        near = did_you_mean(unknown[0], published.model_fields).replace("mean ", f"mean {_PUBLISHED}.")
    return f"{near}Known settings: {', '.join(sorted(cls.model_fields))}"
