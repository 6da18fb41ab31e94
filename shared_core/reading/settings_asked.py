"""Choose the settings of a file that a question asks for: those of the block that it names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shared_core.reading.features import Words, is_among
from shared_core.reading.places import section_of, source_of
from shared_core.reading.rows import NO_STEMS, Entry, find_fullest, stems_of
from shared_core.support.options import setting_at
from shared_core.support.regex import lazy_regex

_BETWEEN = lazy_regex(r" > |\.(?=[\w/])")
_HUMP = lazy_regex(r"(?<=[a-z0-9])(?=[A-Z])")
_GENERIC = "used set setting value configured specified given allowed many much"
"""Words of questions about any setting."""


class _Setting(NamedTuple):
    """A setting, with codes of words.

    Attributes:
        named: those of its own name and of its blocks' that the question asks for; ``in_block`` if one is a block's,
            ``by_name`` if one is its own name's.
        words: all of its lines.
    """

    named: NDArray[np.int64]
    in_block: bool
    by_name: bool
    words: NDArray[np.int64]


def of_settings_asked(
    question: Words, entries: Sequence[Entry], kept: Sequence[int]
) -> tuple[list[int], dict[int, int]]:
    """Leave out settings of other blocks than the question's: "port: 80" below "server:" is no port of a database.

    Only words of the question count that are the whole name of a block or of a setting in the same file. Also return 1
    for the one setting whose names hold all words of the question, and -1 for settings of a file in which the block
    that is asked about has no such setting.
    """
    files: dict[object, dict[int, _Setting]] = defaultdict(dict)
    for i in kept:
        if (setting := _setting_of(entries[i], question)) is not None:
            files[source_of(entries[i].passage)][i] = setting
    poorer: set[int] = set()
    marks: dict[int, int] = {}
    for settings in files.values():
        wanted = np.unique(np.concatenate([s.named for s in settings.values()]))
        held = {i: is_among(wanted, np.concatenate([s.named, s.words])) for i, s in settings.items()}
        poorer |= held.keys() - find_fullest(held)
        if any(s.in_block for s in settings.values()) and not any(one.all() for one in held.values()):
            marks |= dict.fromkeys(settings, -1)
    content = _particular(question)
    named = {i: s for file in files.values() for i, s in file.items() if s.by_name}
    full = [i for i, s in named.items() if len(content) and is_among(content, s.named).all()]
    if len(full) == 1:
        marks[full[0]] = 1
    return [i for i in kept if i not in poorer], marks


def _setting_of(entry: Entry, question: Words) -> _Setting | None:
    """Return a candidate as a setting; ``None`` if it is none."""
    c = entry.candidate
    path = setting_at(entry.passage.text, c.end - 1)
    if path is None:
        return None
    above = _BETWEEN.split(section_of(entry.passage))
    blocks = _asked_names([*above, *chain(*map(_BETWEEN.split, path[:-1]))], question)
    own = _asked_names(path[-1:], question)
    words = entry.prepared.words
    lines = words.stem[words.within(c.start, c.end)]
    return _Setting(np.concatenate([blocks, own]), len(blocks) > 0, len(own) > 0, lines)


def _asked_names(names: Sequence[str], question: Words) -> NDArray[np.int64]:
    """Return the codes of the words of those names that a question holds as a whole, humps or not (``maxSize``)."""
    asked = _particular(question)
    found = [stems_of(spelt) for name in names for spelt in (name, _HUMP.sub(" ", name))]
    return np.concatenate([NO_STEMS, *(one for one in found if is_among(one, asked).all())])


def _particular(question: Words) -> NDArray[np.int64]:
    return question.content[~is_among(question.content, stems_of(_GENERIC))]
