"""Tell how a command is called from what it does, and what one page of a manual says from what another one does."""

from __future__ import annotations

import re
from collections.abc import Sequence

from shared_core.reading.features import STOP_WORDS, is_among
from shared_core.reading.places import innermost, section_of
from shared_core.reading.prepared import Asked
from shared_core.reading.questions import asks_meaning, words
from shared_core.reading.rows import Entry, stems_of
from shared_core.support.regex import lazy_regex

_IN_BRACKETS = lazy_regex(r"\[-{1,2}\w")
_USAGE = 2
"""Options in brackets from which on a line is a command's usage."""
_TAKEN = lazy_regex(r"(?:\[[^\]\n]*\]|<[^>\n]*>|\{[^}\n]*\}|-{1,2}[\w=-]+|[A-Z][A-Z_]+|\||\.{3})(?:\.{3})?")
"""What a command takes, in its synopsis: "[options]", "DRUM", "--fast"."""
_CALLED = lazy_regex(rf"(?:{_TAKEN.pattern}|[\w./-]+)(?=\s|\Z)\s*")
_MOST_WORDS = 5
"""Plain words of a synopsis, the command and its subcommands."""
_KINDS = "command|program|tool|utility|option|function|method|class|module|package|plugin|script"
_THIS = lazy_regex(rf"[\W_]*this (?:{_KINDS})\b", re.IGNORECASE)
_ASKS_WHICH = lazy_regex(rf"\b(?:which|what) (?:{_KINDS})\b", re.IGNORECASE)
_THIS_COMMAND = lazy_regex(r"[\W_]*this (?:\w+ )?(?:sub)?(?:command|program|tool|utility)\b", re.IGNORECASE)
_PAGE_NUMBER = lazy_regex(r"\(\d\w*\)\Z")


def of_pages(asked: Asked, entries: Sequence[Entry], kept: Sequence[int]) -> Sequence[int]:
    """Leave out the manual pages of other commands, and "This command …" on other pages, than that which is named.

    Only if that has a page of its own.
    """

    def is_named(i: int) -> bool:
        title = stems_of(_PAGE_NUMBER.sub("", entries[i].passage.title))
        return len(title) > 0 and bool(is_among(title, asked.words.content).all())

    def is_of_page(i: int) -> re.Match[str] | None:
        return _PAGE_NUMBER.search(entries[i].passage.title) or _THIS.match(entries[i].text)

    others = {i for i in kept if is_of_page(i) and not is_named(i)}
    if not others or _ASKS_WHICH.search(asked.text) or not any(map(is_named, kept)):
        return kept
    return [i for i in kept if i not in others]


def commands_of(entry: Entry) -> list[str]:
    """Return the commands that a candidate may be about which begins "This command …": those its page is named by."""
    before = entry.passage.text[: entry.candidate.start].strip()
    if not _THIS_COMMAND.match(entry.text) or before != innermost(entry.passage):
        return []
    of_page = entry.passage.title, section_of(entry.passage).partition(" > ")[0]
    return [_PAGE_NUMBER.sub("", name).replace("-", " ") for name in of_page]


def shows_call(text: str) -> bool:
    """Return whether a text is a command with what it takes, at least two things, and ends with one of these.

    >>> shows_call("prune [options] [REPOSITORY]"), shows_call("the winch of NASA, with [two] drums")
    (True, False)
    """
    plain, taken = _read_call(text)
    return sum(taken) > 1 and taken[-1] and not taken[0] and len(plain) <= _MOST_WORDS


def _read_call(text: str) -> tuple[list[str], list[bool]]:
    """Return the plain words of a call, and for each part whether it is taken by the command; nothing of another text.

    >>> _read_call("winch haul [(<drum>|<rope>)...]"), _read_call("haul it")
    ((['winch', 'haul'], [False, False, True]), ([], []))
    """
    parts, at = [], 0
    while found := _CALLED.match(text, at):
        parts.append(found[0].rstrip())
        at = found.end()
    taken = [_TAKEN.fullmatch(part) is not None for part in parts]
    plain = [part for part, is_taken in zip(parts, taken) if not is_taken]
    return (plain, taken) if at == len(text) and STOP_WORDS.isdisjoint(plain) else ([], [])


def repeats_call(asked: Asked, entry: Entry) -> bool:
    """Return whether a candidate only shows how the command is called whose meaning is asked."""
    plain, taken = _read_call(entry.text.strip().removeprefix("$ "))
    named = {*words(" ".join(plain))}
    return any(taken) and bool(named) and named <= {*words(asked.text)} and asks_meaning(asked.text, plain)


def is_usage(entry: Entry) -> bool:
    """Return whether a candidate lists options without a word on any, as the synopsis of a command does."""
    return len(_IN_BRACKETS.findall(entry.text)) >= _USAGE
