"""Leave out what is about another entry than the question: another option, code or row of a table.

To the network ``-s`` is as ``-w``, ``E4`` as ``E1``, and a row of a table as its neighbour.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shared_core.reading.candidates import Candidate
from shared_core.reading.features import CAPITAL, RARITY_BUCKETS, Words, is_among, words_of
from shared_core.reading.prepared import Asked, Prepared
from shared_core.reading.questions import asks_meaning, asks_wording, words
from shared_core.support.options import entry_at, find_codes, find_options, find_variables, is_of_another, setting_at
from shared_core.types import Passage

DEFINES = 2.5
"""Added to both log-odds of a definition that was asked for: with it they are as sure as such quotes are right.

Taken off where the command does not have the option: what is quoted then tells of something else."""
_ROW = re.compile(r"[ \t]*\|[^\n]*\|[ \t]*$", re.MULTILINE)
_NAME = re.compile(r"(?:^[ \t]*|; )([^:;|\n]{1,80}+): ", re.MULTILINE)
_BRACKETS = re.compile(r"\([^()]*\)")
_LETTERS = re.compile(r"[^\W\d_]{2}")
_OF_TOTAL = re.compile(r"(?:\bof|%)[ ](?:the[ ])?total\b", re.IGNORECASE)
_TOTALS = "total sum altogether overall combined average"
_EMPTY = re.compile(r"[-–—?]*|n/?a", re.IGNORECASE)
_ITEM = re.compile(r"[ \t]*(?:([-*•+])[ \t]+|(?=[^\W_]))([^\n:|]{2,60}):[ \t]+([^\n:|]{1,60})$", re.MULTILINE)
_NUMBER = re.compile(r"\d|\bfree\b", re.IGNORECASE)
_CELLS = re.compile(r"[^\t\n]*?\S(?:\t+| {3,})(?=\S)([^\n]*)")
_GAP = re.compile(r"\S(?:\t| {3,})\S")
_KEY = re.compile(r"(?<![\w.-])[A-Za-z][\w-]*(?:\.[A-Za-z][\w-]*)+(?![\w-])")
_BETWEEN = re.compile(r" > |\.(?=[\w/])")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_ASKS_WHICH = re.compile(r"what\b|which\b|tell me\b", re.IGNORECASE)
_LABELS_OF_ANYTHING = "name", "type", "kind"
"""Function words that are labels."""
_GENERIC = "used set setting value configured specified given allowed many much"
"""Words of questions about any setting."""
_PROSE = re.compile(r"(?<![\w.])[a-z]+,? [a-z]+(?![\w.(])")
_BULLET = re.compile(r"[*+•-][ \t]")
_SIGNS = re.compile(r"[(){};=<>\[\]]")
_MARKUP = re.compile(r"[ \t]*(?:\.\. [\w:-]+::|`{3}|\$ )")
_ABOUT_CODES = "error code number message warning policy"
"""Words of headings of codes."""
_WORDS_ONLY = re.compile(r"[\w' -]+")
_NO_STEMS = np.zeros(0, np.int64)
_IN_BRACKETS = re.compile(r"\[-{1,2}\w")
_USAGE = 2
"""Options in brackets from which on a line is a command's usage."""
_ASKS_WHAT_TO_DO = re.compile(
    r"\bwhat (?:will |would )?happens?\b|\bwhat (?:should|do|can|must) (?:i|we|you|one) do\b|\bwhat to do\b"
    r"|\bhow (?:do|can|should|to)\b|\bwhat (?:does|do|will|would) .+ do\b",
    re.IGNORECASE,
)
_CLAUSE = r"clause|section|article|paragraph|rule|regulation|chapter|item|point"
_ASKED_CLAUSE = re.compile(rf"(?:\b({_CLAUSE})|§)[ \t]*(\d{{1,3}}(?:\.\d{{1,3}})*)(?![\w.]*\d)", re.IGNORECASE)
_CLAUSE_BEGINS = re.compile(
    rf"^[ \t#*_]*(?:({_CLAUSE})[ \t]+|§[ \t]*)?(\d{{1,3}}(?:\.\d{{1,3}})*)[.):]?(?=[ \t*_:–—-]|$)",
    re.IGNORECASE | re.MULTILINE,
)
_SAYS = re.compile(r"(?:\s+[\w'’]+){0,5}?\s+(?:say|state|provide|require)\b", re.IGNORECASE)
_LABEL = 5
"""Words of a label at most."""
_LONGEST_VALUE = 40
"""Characters of what stands behind a label at most, if it is no prose."""
_LONGEST, _LONGEST_CELL = 240, 80
"""Characters of a table's row, or of each of its cells, at most; longer ones hold prose, which may speak of a thing
without its name."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A candidate with its passage, as it is and as prepared."""

    passage: Passage
    prepared: Prepared
    candidate: Candidate


class _Setting(NamedTuple):
    """A setting, with codes of words.

    Attributes:
        named: those of its own name and of its blocks' that the question asks for; ``in_block`` if one is a block's.
        words: all of its lines.
    """

    named: NDArray[np.int64]
    in_block: bool
    words: NDArray[np.int64]


class _Row(NamedTuple):
    """A row of a table with named cells.

    Attributes:
        named: whether the question has the whole first cell, a name.
        cells: the names of those that are filled.
        values: of each word of the question whether it is in the values; ``all``: or in the names.
    """

    named: bool
    cells: frozenset[str]
    values: NDArray[np.bool_]
    all: NDArray[np.bool_]


def of_entries_asked(asked: Asked, entries: Sequence[Entry]) -> tuple[list[int], dict[int, int]]:
    """Return the numbers of the candidates that may be about what is asked, all where nothing tells them apart.

    Also 1 for those that define it: for a question of what an option or a variable means, the first sentences below it,
    and the setting that is asked for; -1 for settings of blocks that lack it, and rows whose cell is empty.
    """
    kept, defines = _of_names(asked, entries)
    kept = _of_codes(asked.text, entries, _of_keys(asked.text, entries, kept))
    kept, says = _of_clauses(asked, entries, kept)
    kept, marks = _of_settings(asked.words, entries, kept)
    kept = _of_labels(asked, entries, kept)
    kept, empty = _of_named_rows(asked.words, entries, kept)
    kept = _of_rows(asked.words, entries, kept)
    marks |= dict.fromkeys(empty, -1)
    return kept, dict.fromkeys(kept, 1) if defines or says else marks or _of_terms(asked, entries, kept)


def lacks_options(question: str, words: Words, passages: Sequence[tuple[Passage, NDArray[np.int64]]]) -> bool:
    """Return whether a question names an option that is not in the documents whose titles hold its other words.

    Args:
        question: as asked, with its ``words``.
        passages: each with the codes of its title's words.
    """
    wanted = {*find_options(question)}
    if not wanted:
        return False
    others = words.content[~is_among(words.content, _stems(" ".join(wanted)))]
    about = _fullest({i: is_among(others, title) for i, (_, title) in enumerate(passages)})
    return not any(wanted & {*find_options(f"{above(p)}\n{p.text}")} for p, _ in (passages[i] for i in about))


def above(passage: Passage) -> str:
    """Return what stands above a passage: its title and the headings of its section."""
    return f"{passage.title}\n{passage.metadata.get('section', '')}"


def _of_names(asked: Asked, entries: Sequence[Entry]) -> tuple[Sequence[int], bool]:
    """Keep the entries of an option or variable of the question, if there are any.

    "See -s" explains no option, and "-s" of another command is another one, if titles tell. What only mentions a
    variable may answer as well as its entry does.
    """
    every: Sequence[int] = range(len(entries))
    options = {*find_options(asked.text)}
    wanted = options or {*find_variables(asked.text)}
    if not wanted:
        return every, False
    every = [i for i in every if not (_is_usage(entries[i]) and _asks_meaning(asked, wanted, entries[i]))]
    explained, named = [], []
    first: dict[tuple[str, int], tuple[bool, int, int]] = {}  # of each entry: is it code, where it begins, its number
    for i in every:
        passage, c = entries[i].passage, entries[i].candidate
        start, names = entry_at(passage.text, c.start)
        headings = above(passage)
        sentence = passage.text[c.start : c.end]
        if not wanted.isdisjoint({*names, *find_options(headings), *find_variables(headings)}):
            explained.append(i)
        elif not wanted.isdisjoint(find_options(sentence) + find_variables(sentence)):
            named.append(i)
        if not wanted.isdisjoint(names) and _asks_meaning(asked, wanted, entries[i]):
            this = _is_code(entries[i]), c.start, i
            first[passage.id, start] = min(first.get((passage.id, start), this), this)
    if first:
        chosen = sorted(i for *_, i in first.values())
        headed = [i for i in chosen if not wanted.isdisjoint(find_variables(innermost(entries[i].passage)))]
        return headed or chosen, True  # what its own section says before what a list of others says of it
    if not options:
        return (sorted(explained + named) if explained else every), False
    titles = {i: is_among(asked.words.content, entries[i].prepared.title) for i in explained or named}
    return _fullest(titles) or every, False


def _of_keys(question: str, entries: Sequence[Entry], kept: Sequence[int]) -> Sequence[int]:
    """Leave out what stands below other keys with dots (``build.target-dir``), if the question's heads a section."""
    wanted = {key.casefold() for key in _KEY.findall(question)}
    labels = {i: innermost(entries[i].passage).strip("`'\"").casefold() for i in kept} if wanted else {}
    if wanted.isdisjoint(labels.values()):
        return kept
    return [i for i in kept if labels[i] in wanted or not _KEY.fullmatch(labels[i])]


def _of_terms(asked: Asked, entries: Sequence[Entry], kept: Sequence[int]) -> dict[int, int]:
    """Return 1 for the first sentence below a heading that is all a question asks the meaning of."""
    first: dict[str, tuple[int, str]] = {}
    names = [_ABOUT_CODES] if find_codes(asked.text) else []
    for i in sorted(kept, key=lambda i: (entries[i].passage.metadata.get("start", 0), entries[i].candidate.start)):
        term = innermost(entries[i].passage)
        if term.endswith("?") or not _is_named(term, asked) or not asks_meaning(asked.text, [term, *names]):
            continue
        if _lists(entries[i]) and not {*words(term)} <= {*words(asked.text)}:
            continue  # "Libraries" heads a list of news; "What is a library?" asks for another section
        found = first.setdefault(_place(entries[i].passage), (i, term))
        if _is_code(entries[found[0]]) and not _is_code(entries[i]):
            first[_place(entries[i].passage)] = i, term
    longest = max((len(term) for _, term in first.values()), default=0)
    return {i: 1 for i, term in first.values() if len(term) == longest}


def _is_code(entry: Entry) -> bool:
    """Return whether a candidate is a line of code or a directive, which defines nothing by itself."""
    text = entry.passage.text[entry.candidate.start : entry.candidate.end]
    return bool(_MARKUP.match(text) or (_SIGNS.search(text) and not _PROSE.search(text)))


def _lists(entry: Entry) -> bool:
    """Return whether a candidate is code or the item of a list."""
    return _is_code(entry) or _BULLET.match(entry.passage.text, entry.candidate.start) is not None


def innermost(passage: Passage) -> str:
    """Return the innermost heading above a passage."""
    return str(passage.metadata.get("section", "")).rpartition(" > ")[2]


def _place(passage: Passage) -> str:
    return f"{passage.metadata.get('source', passage.id)}\n{passage.metadata.get('section', '')}"


def _is_named(term: str, asked: Asked) -> bool:
    """Whether a question names a term: its words, or all of it where signs tell it from others ("!expr").

    A code is enough: "E4" names "Error code E4".
    """
    if (codes := {*find_codes(term)}) and codes <= {*find_codes(asked.text)}:
        return bool(is_among(_stems(term), np.union1d(asked.words.content, _stems(_ABOUT_CODES))).all())
    if not _WORDS_ONLY.fullmatch(term):
        return bool(term) and term.casefold() in asked.text.casefold()
    named = _stems(term)
    return len(named) > 0 and bool(is_among(named, asked.words.content).all())


def _asks_meaning(asked: Asked, wanted: Collection[str], entry: Entry) -> bool:
    return asks_meaning(asked.text, [*wanted, above(entry.passage)])


def _is_usage(entry: Entry) -> bool:
    """Return whether a candidate lists options without a word on any, as the synopsis of a command does."""
    sentence = entry.passage.text[entry.candidate.start : entry.candidate.end]
    return len(_IN_BRACKETS.findall(sentence)) >= _USAGE


def _of_codes(question: str, entries: Sequence[Entry], kept: Sequence[int]) -> Sequence[int]:
    """Leave out the entries of other codes than the question's, if a passage has that."""
    wanted = set(find_codes(question))
    if not any(not wanted.isdisjoint(find_codes(entries[i].passage.text)) for i in kept):
        return kept
    places = [(i, entries[i].passage.text, entries[i].candidate) for i in kept]
    own = [i for i, text, c in places if not is_of_another(wanted, text, c.start, c.end)] or kept
    if not _ASKS_WHAT_TO_DO.search(question):
        return own
    return [i for i in own if not _is_label(entries[i], wanted, [entries[k] for k in own])] or own


def _of_clauses(asked: Asked, entries: Sequence[Entry], kept: Sequence[int]) -> tuple[Sequence[int], bool]:
    """Keep what the clause of a contract or law says that a question names, if it is found, not what refers to it.

    Only if what it says is asked. Of a question of nothing else, the clause's first sentence; also return whether it
    is such a question.
    """
    named = _ASKED_CLAUSE.search(asked.text)
    if named is None:
        return kept, False
    own = [i for i in kept if _is_in_clause(entries[i], (named[1] or "").lower(), named[2])]
    own = _fullest({i: is_among(asked.words.content, entries[i].prepared.title) for i in own})
    rest = asked.text[: named.start()] + asked.text[named.end() :]
    if not own or not asks_wording(rest, [entries[i].passage.title for i in own]):
        return own if own and _SAYS.match(asked.text, named.end()) else kept, False
    first: dict[str, int] = {}
    for i in sorted(own, key=lambda i: entries[i].candidate.start):
        first.setdefault(entries[i].passage.id, i)
    return sorted(first.values()), True


def _is_in_clause(entry: Entry, kind: str, number: str) -> bool:
    """Return whether the last clause that begins above a candidate, or with it, has this number or is one within it."""
    above = str(entry.passage.metadata.get("section", "")).rpartition(" > ")[2]
    found = [*_CLAUSE_BEGINS.finditer(above), *_CLAUSE_BEGINS.finditer(entry.passage.text, 0, entry.candidate.end)]
    if not found or (kind and found[-1][1] and found[-1][1].lower() != kind):
        return False
    return f"{found[-1][2]}.".startswith(f"{number}.")


def _is_label(entry: Entry, codes: Collection[str], others: Sequence[Entry]) -> bool:
    """Return whether a candidate only names a code ("E4: dry running."), and its line goes on with other candidates."""
    text, c = entry.passage.text, entry.candidate
    line = text[text.rfind("\n", 0, c.start) + 1 : (text + "\n").index("\n", c.end)]
    label = text[c.start : c.end]
    return (
        line.startswith(label)
        and len(label.split()) <= _LABEL
        and any(label.startswith(code) for code in codes)
        and any(e.passage.id == entry.passage.id and c.end <= e.candidate.start < c.start + len(line) for e in others)
    )


def _of_settings(question: Words, entries: Sequence[Entry], kept: Sequence[int]) -> tuple[list[int], dict[int, int]]:
    """Leave out settings of other blocks than the question's: "port: 80" below "server:" is no port of a database.

    Only words of the question count that are the whole name of a block or of a setting in the same file. Also return 1
    for the one setting whose names hold all words of the question, and -1 for settings of a file in which the block
    that is asked about has no such setting.
    """
    files: dict[object, dict[int, _Setting]] = defaultdict(dict)
    for i in kept:
        if (setting := _setting_of(entries[i], question)) is not None:
            files[entries[i].passage.metadata.get("source", entries[i].passage.id)][i] = setting
    poorer: set[int] = set()
    marks: dict[int, int] = {}
    for settings in files.values():
        wanted = np.unique(np.concatenate([s.named for s in settings.values()]))
        held = {i: is_among(wanted, np.concatenate([s.named, s.words])) for i, s in settings.items()}
        poorer |= held.keys() - _fullest(held)
        if any(s.in_block for s in settings.values()) and not any(one.all() for one in held.values()):
            marks |= dict.fromkeys(settings, -1)
    content = _particular(question)
    full = [i for file in files.values() for i, s in file.items() if len(content) and is_among(content, s.named).all()]
    if len(full) == 1:
        marks[full[0]] = 1
    return [i for i in kept if i not in poorer], marks


def _setting_of(entry: Entry, question: Words) -> _Setting | None:
    """Return a candidate as a setting; ``None`` if it is none."""
    c = entry.candidate
    path = setting_at(entry.passage.text, c.end - 1)
    if path is None:
        return None
    above = _BETWEEN.split(str(entry.passage.metadata.get("section", "")))
    blocks = _asked_names([*above, *chain(*map(_BETWEEN.split, path[:-1]))], question)
    own = _asked_names(path[-1:], question)
    words = entry.prepared.words
    return _Setting(np.concatenate([blocks, own]), len(blocks) > 0, words.stem[words.within(c.start, c.end)])


def _asked_names(names: Sequence[str], question: Words) -> NDArray[np.int64]:
    """Return the codes of the words of those names that a question holds as a whole, humps or not (``maxSize``)."""
    asked = _particular(question)
    found = [_stems(spelt) for name in names for spelt in (name, _HUMP.sub(" ", name))]
    return np.concatenate([_NO_STEMS, *(one for one in found if is_among(one, asked).all())])


def _particular(question: Words) -> NDArray[np.int64]:
    return question.content[~is_among(question.content, _stems(_GENERIC))]


@lru_cache(maxsize=4096)
def _stems(name: str) -> NDArray[np.int64]:
    """Return the codes of the stems of a name's content words."""
    return words_of(name, np.zeros(RARITY_BUCKETS, np.float32)).content


def _of_named_rows(question: Words, entries: Sequence[Entry], kept: Sequence[int]) -> tuple[list[int], list[int]]:
    """Leave out a row that holds only some of the question's words that another row of the table holds.

    Values count before the names of columns, which all rows have: of "last counted in Hull" it is Hull that tells rows
    apart. Also return those of which the question asks for a cell that is empty, and all rows of a table if it asks for
    a cell of something whose name no passage has, or for a total that is not given.
    """
    tables: dict[object, list[dict[int, _Row]]] = defaultdict(list)
    for i in kept:
        passage = entries[i].passage
        if (row := _row_of(entries[i], question)) is not None:
            found = tables[passage.metadata.get("source", passage.id), passage.metadata.get("section")]
            alike = [rows for rows in found if any(not row.cells.isdisjoint(other.cells) for other in rows.values())]
            if not alike:
                found.append({})
            (alike or found[-1:])[0][i] = row
    poorer: set[int] = set()
    empty: list[int] = []
    for rows in chain.from_iterable(tables.values()):
        fullest, without = _of_table(question, rows, entries)
        poorer |= rows.keys() - set(fullest)
        empty += without
    return [i for i in kept if i not in poorer], empty


def _of_table(question: Words, rows: Mapping[int, _Row], entries: Sequence[Entry]) -> tuple[list[int], list[int]]:
    """Return the rows of one table that may be asked about, and those of them that have no answer."""
    fullest = [i for i, row in rows.items() if row.named] or [*rows]
    fullest = _fullest({i: rows[i].values for i in fullest})
    fullest = _fullest({i: rows[i].all for i in fullest})
    wanted = _names_asked(question, frozenset().union(*(row.cells for row in rows.values())))
    if any(row.values.any() for row in rows.values()):
        return fullest, [i for i in fullest if rows[i].values.any() and not wanted <= rows[i].cells]
    # nothing tells the rows apart
    unknown = bool(wanted) and _names_unknown(question, entries)
    return fullest, fullest if unknown or _lacks_total(question, [entries[i].passage for i in rows]) else []


def _row_of(entry: Entry, question: Words) -> _Row | None:
    """Return a candidate as a row of named cells; ``None`` if it is none, or holds prose."""
    text, start, end = entry.passage.text, entry.candidate.start, entry.candidate.end
    names = list(_NAME.finditer(text, start, end))
    if "\n" in text[start:end] and (end - start < len(text.strip()) or "row" not in entry.passage.metadata):
        return None
    if not names or names[-1].start() == start:  # there is a name behind the first cell
        return None
    ends = [*(name.start() for name in names[1:]), end]
    if end - start > _LONGEST and max(b - a.end() for a, b in zip(names, ends)) > _LONGEST_CELL:
        return None
    cells = frozenset(m[1] for m, b in zip(names, ends) if not _EMPTY.fullmatch(text[m.end() : b].strip()))
    words = entry.prepared.words
    named = words.within(start, end) & np.logical_or.reduce([words.within(*name.span(1)) for name in names])
    held = is_among(question.content, words.stem[words.within(start, end) & ~named])
    key = text[start : names[0].start()] or text[names[0].end() : ends[0]]
    stems = _stems(key) if _LETTERS.search(key) else _NO_STEMS
    is_named = len(stems) > 0 and bool(is_among(stems, question.content).all())
    return _Row(is_named, cells, held, held | is_among(question.content, words.stem[named]))


def _names_asked(question: Words, names: Collection[str]) -> set[str]:
    """Return the names that a question holds as a whole, but for units in brackets, and not as a part of another."""
    stems = {name: frozenset(_stems(_BRACKETS.sub("", name)).tolist()) for name in names}
    asked = {name: found for name, found in stems.items() if found and found <= {*question.content.tolist()}}
    return {name for name, found in asked.items() if not any(found < other for other in asked.values())}


def _lacks_total(question: Words, passages: Sequence[Passage]) -> bool:
    """Whether a question asks for a total or a mean of several rows, and no passage that holds them speaks of one."""
    asked = question.content[is_among(question.content, _stems(_TOTALS))]
    told = {f"{above(passage)}\n{passage.text}" for passage in passages} if len(asked) and len(passages) > 1 else set()
    return bool(told) and not any(is_among(asked, _stems(_OF_TOTAL.sub("", text))).any() for text in told)


def _names_unknown(question: Words, entries: Sequence[Entry]) -> bool:
    """Whether a question has a name that is in no passage: a word with a capital letter, but for its first one."""
    named = (question.static[:, CAPITAL] > 0) & ~question.stop & (np.arange(len(question)) > 0)
    known = [np.concatenate([entry.prepared.words.stem, entry.prepared.title]) for entry in entries]
    return not is_among(question.stem[named], np.concatenate(known)).all()


def _of_rows(question: Words, entries: Sequence[Entry], kept: Sequence[int]) -> list[int]:
    """Leave out a row that holds only some of the question's words that another row of the table holds.

    Of a list of labels with their values ("- Adults: 5 crowns"), the labels count, where they hold such words; among
    values in numbers, also where they hold none. A line with cells is a row as well, but not the head above them.
    """
    tables: dict[tuple[object, ...], dict[int, NDArray[np.bool_]]] = defaultdict(dict)
    for i in kept:
        passage, words = entries[i].passage, entries[i].prepared.words
        start = passage.text.rfind("\n", 0, entries[i].candidate.start) + 1
        place = passage.metadata.get("source", passage.id), passage.metadata.get("section")
        row, item = _ROW.match(passage.text, start), _item_at(passage.text, start)
        if row is not None and row.end() - start <= _LONGEST:
            tables[(*place, "a row")][i] = is_among(question.content, words.stem[words.within(start, row.end())])
        elif (cells := _cells_at(passage.text, start)) is not None:
            tables[(*place, "cells")][i] = is_among(question.content, words.stem[words.within(*cells)])
        elif item is not None and entries[i].candidate.end <= item.end():
            held = is_among(question.content, words.stem[words.within(*item.span(2))])
            if held.any():
                tables[(*place, "a label")][i] = held
            value = words.stem[words.within(*item.span(3))]
            if _NUMBER.search(item[3]) and not is_among(question.content, value).any():
                tables[(*place, "a number")][i] = held
    poorer = {i for rows in tables.values() for i in rows.keys() - _fullest(rows)}
    return [i for i in kept if i not in poorer]


def _of_labels(asked: Asked, entries: Sequence[Entry], kept: Sequence[int]) -> list[int]:
    """Leave out items of other labels where a question asks for the value of one: "What is the default of max_size?".

    Items with a word of the question stay, and those of lists without this label, unless the lists are alike.
    """
    items: dict[int, re.Match[str]] = {}
    for i in kept:
        text = entries[i].passage.text
        item = _item_at(text, text.rfind("\n", 0, entries[i].candidate.start) + 1)
        if item is not None and entries[i].candidate.end <= item.end():
            items[i] = item
    lists: dict[object, set[frozenset[str]]] = defaultdict(set)
    for passage in (entry.passage for entry in entries if items):
        lists[passage.metadata.get("source", passage.id)].add(_labels(passage.text))
    others: set[int] = set()
    for i, item in items.items():
        passage, words = entries[i].passage, entries[i].prepared.words
        own = _labels(passage.text)
        alike = [one for one in lists[passage.metadata.get("source", passage.id)] if not own.isdisjoint(one)]
        if any(_asks_value(asked, label) for label in frozenset().union(*alike)):
            told = words.stem[words.within(item.start(2), item.end(3))]
            if not (_asks_value(asked, item[2]) or is_among(asked.words.content, told).any()):
                others.add(i)
    return [i for i in kept if i not in others]


@lru_cache(maxsize=256)
def _labels(text: str) -> frozenset[str]:
    """Return the labels of the items in a text."""
    starts = [0, *(line.end() for line in re.finditer("\n", text))]
    return frozenset(item[2] for start in starts if (item := _item_at(text, start)) is not None)


def _asks_value(asked: Asked, label: str) -> bool:
    """Whether a question begins with a label, but for what, which and function words behind them."""
    named, words = words_of(label, np.zeros(RARITY_BUCKETS, np.float32)), asked.words
    if not (len(named.content) or label.casefold() in _LABELS_OF_ANYTHING):
        return False
    for at in range(len(words) - len(named) + 1):
        if (words.stem[at : at + len(named)] == named.stem).all():
            return at == 0 or _ASKS_WHICH.match(asked.text) is not None
        if not words.stop[at]:
            break
    return False


def _item_at(text: str, start: int) -> re.Match[str] | None:
    """Return the match of a line that is an item of a list of labels; one without a bullet has another beside it."""
    item = _ITEM.match(text, start)
    if item is None or item[1]:
        return item
    before = text.rfind("\n", 0, max(0, start - 1)) + 1
    beside = (_ITEM.match(text, before) if start else None, _ITEM.match(text, item.end() + 1))
    return item if any(beside) else None


def _cells_at(text: str, start: int) -> tuple[int, int] | None:
    """Return the range of a line of cells side by side, parted by tabs or wide gaps.

    ``None`` for a table's head, and for a label with prose behind it, which may speak of what other labels name.
    """
    cells = _CELLS.match(text, start)
    if cells is None or cells.end() - start > _LONGEST:
        return None
    above = text[text.rfind("\n", 0, max(0, start - 1)) + 1 : max(0, start - 1)]
    single = not _GAP.search(cells[1])
    is_head = not single and not _GAP.search(above)
    return None if is_head or (single and len(cells[1]) > _LONGEST_VALUE) else cells.span()


def _fullest(held: Mapping[int, NDArray[np.bool_]]) -> list[int]:
    """Return the numbers of those that hold more than a part of what another one holds."""
    return [i for i, one in held.items() if not any((o >= one).all() and (o > one).any() for o in held.values())]
