"""Find what a claim names letter for letter and its evidence does not: code, options, files, addresses.

``weight_kg`` for ``weight_grams`` is no paraphrase. Looked at are tokens in backticks, and outside of them those that
are no words: with ``_`` or ``@``, options, paths, names of files and hosts, URLs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from shared_core.citation.facts.tokens import fold, tokens_of
from shared_core.support.files import read_lists
from shared_core.support.regex import lazy_regex

__all__ = ["has_address", "missing_literals"]

_LISTS = {name: words.split() for name, words in read_lists("shared_core.citation.facts", "literals.txt").items()}
_ENDINGS = "|".join(sorted({*_LISTS["extensions"], *_LISTS["hosts"]}, key=len, reverse=True))
_VALUES, _SPEAKING = frozenset(_LISTS["values"]), frozenset(_LISTS["speaking"])
_LITERAL = lazy_regex(
    r"(?P<ticks>`{1,3})(?P<quoted>[^`\n]{1,300})(?P=ticks)"
    r"|(?P<url>\b(?:https?://|mailto:|www\.)(?>(?:[^\s<>()\[\]\"`“”]|\([^\s()]{0,80}\)){3,500}))"
    r"|(?P<email>(?<![\w.+-])[\w+-][\w.+-]{0,80}@[\w-]{1,80}(?:\.[\w-]{1,80}){1,8})"
    rf"|(?P<file>(?<![\w@/.\\+-])(?:[\w-]{{1,80}}/){{0,8}}(?:[\w-]{{1,80}}\.){{1,8}}(?:{_ENDINGS})(?![\w@/-]|\.\w))"
    r"|(?P<path>(?<![\w/.:~<\\€£$¥%)\]*’+-])(?:~|\.{1,2})?(?:/[A-Za-z][\w.:-]{1,80}){2,12})"
    r"|(?P<option>(?<![\w-])--[A-Za-z][\w-]{1,80}(?:\.\d+)*)"
    r"|(?P<name>(?<![\w-])_{0,2}[A-Za-z0-9]{1,80}(?:_[A-Za-z0-9]{1,80}){1,12}_{0,2}(?!\w)(?:[-.][a-z\d]\w{0,80}){0,8})"
    r"|(?P<handle>(?<![\w.@>}+-])@[A-Za-z_][\w/-]{2,80}(?:\.[a-z]\w{0,80}){0,8})"
)
_ESCAPE = lazy_regex(r"\\([\\`*_{}\[\]()#+.!@/~|<>-])")
_SUBSCRIPT = lazy_regex(r"_*[A-Za-z]{1,3}_(?:\d{1,2}|[A-Za-z])[A-Za-z]?_*\Z")  # CO_2, x_i
_SCHEME = lazy_regex(r"(?:https?://(?:www\.)?|mailto:|\bwww\.)", re.IGNORECASE)
_TOO_LONG = 20_000  # characters of a claim


def missing_literals(claim: str, evidence: str) -> Iterator[str]:
    """Yield what a claim names letter for letter and the evidence does not hold.

    Case counts in code, options and variables; in addresses and names of files it does not. Marks of Markdown are
    passed over.

    Args:
        claim: as written, with its backticks.
        evidence: with everything else that may name such a thing: the passage's title, the question.

    >>> list(missing_literals("Set `max_size` in config.toml.", "The size is max_size in `settings.toml`."))
    ['config.toml']
    >>> list(missing_literals("It opens 24/7 and/or e.g. at 3.30.", "It never closes."))
    []
    """
    claim = _unescape(claim)
    if len(claim) > _TOO_LONG or claim.strip() in _unescape(evidence):
        return
    for found in _LITERAL.finditer(claim):
        kind, text = found.lastgroup or "", found[0]
        if found["quoted"] is not None:
            code = found["quoted"].strip()
            if not _has_code(code, evidence):
                yield code
        elif kind in ("url", "email"):
            text = text.rstrip(".,;:!?'’*_~|")
            if not has_address(text, evidence):
                yield text
        elif not _has_token(kind, text.rstrip(".:-"), found.string[: found.start()], evidence):
            yield text.rstrip(".:-")


def has_address(address: str, text: str) -> bool:
    """Return whether a text has a URL or e-mail address, or one below it; scheme, "www." and case do not count.

    >>> has_address("http://Orm.example/", "See https://www.orm.example/lamp."), has_address("orm.example/l", "…/lamp")
    (True, False)
    """
    bare = _SCHEME.sub("", address).strip().rstrip("/").lower()
    return bool(bare) and _holds(bare, _without_schemes(text), before=r"(?<![\w+-])", behind=r"(?!\w|[-.@]\w)")


def _has_token(kind: str, text: str, before: str, evidence: str) -> bool:
    if kind == "option":
        return _has(text, evidence) and _is_of_command(text, before, evidence)
    if kind == "name":
        bare = text.strip("_")
        forms = (bare, bare[:1].lower() + bare[1:], bare.removesuffix("s"))  # as it begins a sentence; in the plural
        return _SUBSCRIPT.match(text) is not None or any(_has(f, evidence, behind=r"(?![A-Za-z0-9])") for f in forms)
    if has_address(text, evidence):
        return True
    # A path may be put together of what the text says apart: "the file main.py in the folder src".
    parts = text.split("/")
    return kind == "file" and len(parts) > 1 and all(has_address(part, evidence) for part in parts)


def _is_of_command(option: str, before: str, evidence: str) -> bool:
    """Return whether an option stands behind one of the words that it stands behind in the evidence, or behind none."""
    said = _command(before)
    places = re.finditer(rf"(?<![\w-]){re.escape(option)}(?![\w-])", evidence)
    held = {_command(evidence[max(0, m.start() - 60) : m.start()]) for m in places} - {""}
    return not said or not held or said in held


def _command(before: str) -> str:
    """Return the word of a command that a text ends with; empty if it ends with a word of the sentence around."""
    found = re.search(r"(?:\A|[\s`])([a-z][\w-]*) +\Z", before)
    if found is None or fold(found[1]) in _SPEAKING or any(t.is_function_word for t in tokens_of(found[1])):
        return ""
    return found[1]


# --- code ----------------------------------------------------------------------------------------------------------


_SIGNS = lazy_regex(r"[_/@.=()<>{}\[\]$#:\\]|--|^-\w|\w-\w")
_PLACEHOLDER = lazy_regex(r"<[^<>]{0,60}>|\{[^{}]{0,60}\}|\.{3}|…|\bYOUR_\w+", re.IGNORECASE)
_ATOM = lazy_regex(r"[^\s=,;()\[\]{}\"'“”‘’<>|&]+")


def _has_code(code: str, evidence: str) -> bool:
    """Return whether the evidence has what is between backticks, or at least all of its parts in this order."""
    if not any(c.isalpha() for c in code) or _has(code, evidence) or fold(code) in _VALUES:
        return True
    if _SCHEME.match(code) or re.fullmatch(r"[\w.+-]+@[\w.-]+", code):
        return has_address(code, evidence)
    plain = _SIGNS.search(code) is None
    if plain and " " not in code:
        word = code.lower()
        return _has(word, evidence.lower()) or (word.endswith("s") and _has(word[:-1], evidence.lower()))
    if plain and not _begins_code(code.split()[0], evidence):
        return True  # words of the text, put in backticks to show them
    atoms = list(_ATOM.finditer(_PLACEHOLDER.sub(lambda m: " " * len(m[0]), code)))
    words = [m[0].strip(".:/") if not m[0].startswith(("/", "./", "~")) else m[0].rstrip(".:/") for m in atoms]
    if not all(_has_atom(word, evidence) for word in words):
        return False
    pairs = zip(zip(atoms, words), zip(atoms[1:], words[1:]), strict=False)
    return all(
        not _are_neighbours(code[a.end() : b.start()], one, other) or a[0][-1:] == ":" or _in_turn(one, other, evidence)
        for (a, one), (b, other) in pairs
    )


def _has_atom(atom: str, evidence: str) -> bool:
    if not any(c.isalpha() for c in atom) or fold(atom) in _VALUES or _has(atom, evidence):
        return True
    return atom.isalpha() and _has(atom.lower(), evidence.lower())


def _are_neighbours(between: str, one: str, other: str) -> bool:
    """Return whether two parts of code are words of a command: only blanks between, neither an option or a number."""
    return between.isspace() and not any(w.startswith("-") or not any(c.isalpha() for c in w) for w in (one, other))


def _in_turn(one: str, other: str, evidence: str) -> bool:
    """Return whether the evidence has one word of a command before the other, with at most options between."""
    between = r"[\s`*]+(?:-\S{1,80}\s+){0,6}"
    pattern = rf"(?<!\w){re.escape(one)}(?!\w){between}{re.escape(other)}(?!\w)"
    return re.search(pattern, evidence, re.IGNORECASE) is not None


def _begins_code(word: str, evidence: str) -> bool:
    return re.search(rf"`{re.escape(word)}\b", evidence) is not None


# --- looking for it ------------------------------------------------------------------------------------------------


def _has(literal: str, evidence: str, behind: str = r"(?!\w|-\w)") -> bool:
    before = r"(?<![\w.])" if literal[:1] == "/" else r"(?<![A-Za-z0-9])"
    return _holds(literal, _unescape(evidence), before=before, behind=behind)


def _holds(literal: str, text: str, *, before: str, behind: str) -> bool:
    """Return whether a text has a literal with nothing that goes on before or behind it; lines may break within."""
    if literal not in text:
        parts = re.split(r"(?<=[/._@-])(?=\w)|\s+", literal)
        if len(parts) < 2 or parts[0] not in text:
            return False
    else:
        parts = [literal]
    spelt = r"\s{0,4}".join(map(re.escape, parts))
    return re.search(f"{before}{spelt}{behind}", text) is not None


@lru_cache(maxsize=64)
def _unescape(text: str) -> str:
    """Take off what Markdown puts before signs, and the asterisks of bold words."""
    return (_ESCAPE.sub(r"\1", text) if "\\" in text else text).replace("*", "")


@lru_cache(maxsize=64)
def _without_schemes(text: str) -> str:
    return _SCHEME.sub("", _unescape(text)).lower()
