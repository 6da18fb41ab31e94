"""Recognise options of commands (``-s``), variables (``max_size``), codes (``E4``, ``HX-60``) and nested settings."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection
from functools import lru_cache

from shared_core.support.regex import lazy_regex

_OPTION = lazy_regex(r"(?<![\w-])--?[A-Za-z][\w-]*")
_CODE = lazy_regex(r"(?<![\w-])[A-Za-z][A-Za-z-]{0,11}\d[\w.-]{0,11}(?<![.-])(?![\w-])")
_KEY = lazy_regex(rf"[^\w\n]*({_CODE.pattern})[ \t*_`)\]]*(?:[:\t]|[-–—] |$)", re.MULTILINE)
_SIGNED = lazy_regex(r"(?<![^\s\"'`])(?:[*#!@^+<>{}\[|~\\=][^\s\"'`]*|\([?*#!@^+<>{}\[|~\\=][^\s\"'`]*\))")
_VARIABLE = lazy_regex(  # max_size, maxSize, MaxQueueSize, but not what may be a product: PayPal, iPhone, macOS
    r"(?<![\w-])(?:[A-Za-z]\w*_\w+|(?:[a-z]{2,}(?:[A-Z][a-z]+)|[A-Z]?[a-z]+(?:[A-Z]+[a-z]+\d*){2})\w*)"
)
_HEAD = lazy_regex(
    r"^(?![ \t]*`{3})[ \t|*+`'\"$#]*+(?:- +)?(?:[^\W\d_][^:;|\n]{0,39}: )?[`*'\"$]*+"
    r"((?:--?[A-Za-z]|[A-Za-z]\w*_(?!\w*/|\w*\([^\n]*;[ \t]*$))(?:(?! {2}| [—–-] |: )[^;|\t\n])*)",
    re.MULTILINE,
)
_IN_PROSE = lazy_regex(r"\w+(?:\([^()\n]*\))?(?:[.,;]|\s(?=[a-z]+\b(?! {2})))")
_OPEN_SENTENCE = lazy_regex(r"\s*(?:\S+\s+){4,}[^\W\d_A-Z]+\s*")
_SETTING = lazy_regex(
    r"""(?P<indent>[ \t]*)(?P<item>(?:-[ ]+(?=\S))*)(?:
        (?P<section>\[{1,2}[^\[\]\n]{1,80}\]{1,2}[ \t]*$)
      | (?P<quote>["']?)(?P<key>[^\W\d_-][^"':={}\[\]#;\n]{0,79}?
        |[^\s"':={}\[\]#;-][^\s"':=\[\]#;]{0,79}?)(?P=quote)[ \t]*
        (?:(?::(?=\s|$)|(?<=["']):|=)[ \t]*(?P<value>.*)|(?P<opens>\{)[ \t]*$)
      | (?P<command>[a-z_]+)[ \t]+(?P<argument>[^\n;{]{1,200});[ \t]*$
    )?""",
    re.VERBOSE,
)
_NAMES_ITS_BLOCK = lazy_regex(r"(?:(\w*)[_-])?(?:name|id|title)", re.IGNORECASE)
_LABEL = lazy_regex(r"[^\W\d_a-z]|\w+ ")
_LONGEST_NAME = 60


def find_options(text: str) -> list[str]:
    """Return the options that a text names, in order, with their dashes and in their case.

    >>> find_options("tar -C well-known --no-recursion=yes")
    ['-C', '--no-recursion']
    """
    return _OPTION.findall(text)


def is_entry_of(heading: str, options: Collection[str]) -> bool:
    """Return whether a heading is that of an option among ``options``, maybe with its other names and what it takes.

    >>> is_entry_of("-o, --out <rope>", ["--out"]), is_entry_of("Where --out goes", ["--out"])
    (True, False)
    """
    return heading.startswith("-") and not {*options}.isdisjoint(find_options(heading))


def find_variables(text: str) -> list[str]:
    """Return the names with underscores or humps in a text, as programs and configuration files have them, in order.

    >>> find_variables("Is $MAX_SIZE what max_size, maxSize and MaxQueueSize set for PayPal on an iPhone?")
    ['MAX_SIZE', 'max_size', 'maxSize', 'MaxQueueSize']
    """
    return _VARIABLE.findall(text)


def find_signs(text: str) -> list[str]:
    """Return what a text names that begins with a sign, such as patterns and decorators, in order.

    >>> find_signs("What do (?d), !*.doc and @cache do, and C++ (UK)?")
    ['(?d)', '!*.doc', '@cache']
    """
    found = (match[0].rstrip(".,;:!?\"'`") for match in _SIGNED.finditer(text))
    return [sign for sign in found if len(sign) > 1]


def entry_at(text: str, place: int) -> tuple[int, frozenset[str]]:
    """Return where the entry begins that holds ``text[place]``, and the options or the variable that it explains.

    An entry is a line that begins with one, maybe behind the name of a column, and what follows it. Outside entries the
    start is -1.

    >>> page = "-a, --all  Like -l.\\nPrints everything.\\n\\n* `MAX_SIZE`: bytes\\n\\nFlag: -q; Meaning: quiet"
    >>> [(start, sorted(names)) for start, names in (entry_at(page, place) for place in (25, 44, 65))]
    [(0, ['--all', '-a']), (40, ['MAX_SIZE']), (61, ['-q'])]
    """
    entries = _entries(text)
    number = bisect_right(entries, place, key=lambda entry: entry[0])
    return entries[number - 1] if number else (-1, frozenset())


@lru_cache(maxsize=64)
def _entries(text: str) -> list[tuple[int, frozenset[str]]]:
    heads = (m for m in _HEAD.finditer(text) if not _goes_on(text, m))
    return [(m.start(), frozenset(find_options(m[1]) or find_variables(m[1])[:1])) for m in heads]


def _goes_on(text: str, head: re.Match[str]) -> bool:
    """Return whether a line that begins with a variable goes on with the sentence of the line above."""
    above = text[text.rfind("\n", 0, max(0, head.start() - 1)) + 1 : max(0, head.start() - 1)]
    return _IN_PROSE.match(text, head.start(1)) is not None and _OPEN_SENTENCE.fullmatch(above) is not None


def find_codes(text: str) -> list[str]:
    """Return the codes that a text names, in order: letters with digits behind them.

    >>> find_codes("What does E4 of the HX-60 mean, in the 21st century?")
    ['E4', 'HX-60']
    """
    return _CODE.findall(text)


def is_of_another(codes: Collection[str], text: str, start: int, end: int) -> bool:
    """Return whether ``text[start:end]`` is in a line that is headed by a code like one of ``codes``, but another.

    Such are the entries of a list of errors.

    >>> page = "E1: blocked. Turn the shaft.\\nE4: no water. It stops."
    >>> is_of_another({"E4"}, page, 13, 28), is_of_another({"E4"}, page, 43, 52)
    (True, False)
    """
    key = _KEY.match(text, text.rfind("\n", 0, start) + 1)
    if key is None or key[1] in codes or not {*codes}.isdisjoint(find_codes(text[start:end])):
        return False
    return code_shape(key[1]) in map(code_shape, codes)


def code_shape(code: str) -> str:
    """Return a code with its numbers left open: equal for codes of one series.

    >>> code_shape("HX-60") == code_shape("hx-8")
    True
    """
    return re.sub(r"\d+", "0", code.casefold())


def setting_at(text: str, place: int) -> tuple[str, ...] | None:
    """Return the names of the blocks around a line of a configuration, that of ``text[place]``, and the line's own.

    The outermost block is first. They are nested by indentation (YAML, JSON, ``server {``) or begin with ``[section]``.
    A setting called ``name`` names its block as well. ``None`` where less than half of the lines are settings, or half
    of them are in no block and have labels for people.

    >>> hosts = "web:\\n  port: 80\\ndb:\\n  - name: main\\n    maxSize: 5"
    >>> setting_at(hosts, 8), setting_at(hosts, len(hosts) - 1), setting_at("[db]\\nport = 5432", 7)
    (('web', 'port'), ('db', 'main', 'maxSize'), ('db', 'port'))
    """
    lines = _settings(text)
    number = bisect_right(lines, place, key=lambda line: line[0])
    return lines[max(0, number - 1)][1] if lines else None


@lru_cache(maxsize=64)
def _settings(text: str) -> list[tuple[int, tuple[str, ...]]]:
    """Return where each line begins, with the names of the blocks that hold it and its own."""
    found: list[tuple[int, tuple[str, ...]]] = []
    above: list[tuple[int, str]] = []  # columns and names of what may hold the next line
    named = labels = position = 0
    for line in text.splitlines(keepends=True):
        start, position = position, position + len(line)
        match = _SETTING.match(line.rstrip())
        if match is None or not line.strip(" \t\r\n{}[](),;") or line.lstrip().startswith(("#", ";", "//")):
            continue
        column = len(match["indent"]) + bool(match["item"])
        above = [] if match["section"] else [block for block in above if block[0] < column]
        if match["item"]:
            above.append((column, ""))
            column += len(match["item"]) - 1
        name = (match["section"] or match["key"] or match["command"] or "").strip("[]\"' \t")
        value = (match["value"] or match["argument"] or "").strip("\"', \t")
        naming = _NAMES_ITS_BLOCK.fullmatch(name)
        if naming and above and 0 < len(value) <= _LONGEST_NAME:
            above += [(above[-1][0], part) for part in (naming[1], value) if part]
        named += bool(name)
        blocks = tuple(block for _, block in above if block)
        # "Meeting point: the pier" in a text for people, in no block; keys of programs are seldom so.
        before, colon, _ = line.partition(":")
        labels += bool(colon) and "=" not in before and not (blocks or match["quote"]) and bool(_LABEL.match(name))
        found.append((start, (*blocks, name)))
        parts = name.split(None, 1) if match["opens"] else [name]  # "location /api {"
        above += [(-1 if match["section"] else column, part) for part in parts]
    return found if 2 * named >= len(found) and 2 * labels < named else []
