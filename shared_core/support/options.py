"""Recognise the options of commands (``-s``, ``--sort=KEY``) and codes (``E4``, ``HX-60``) in text."""

from __future__ import annotations

import re
from collections.abc import Collection

_OPTION = re.compile(r"(?<![\w-])--?[A-Za-z][\w-]*")
_CODE = re.compile(r"(?<![\w-])[A-Za-z][A-Za-z-]{0,11}\d[\w.-]{0,11}(?<![.-])(?![\w-])")
_KEY = re.compile(rf"[^\w\n]*({_CODE.pattern})[ \t*_`)\]]*(?:[:\t]|[-–—] |$)", re.MULTILINE)
_HEAD = re.compile(r"^[ \t]*(--?[A-Za-z][^\n]*)$", re.MULTILINE)


def find_options(text: str) -> list[str]:
    """Return the options that a text names, in order, with their dashes and in their case.

    >>> find_options("tar -C well-known --no-recursion=yes")
    ['-C', '--no-recursion']
    """
    return _OPTION.findall(text)


def options_described(text: str, start: int, end: int) -> set[str]:
    """Return the options that ``text[start:end]`` names, and those of the line above it that begins with one.

    >>> page = "-a, --all\\nPrints everything.\\n\\n-s KEY\\nSorts by KEY."
    >>> sorted(options_described(page, 11, 29))
    ['--all', '-a']
    """
    heads = _HEAD.findall(text, 0, start)
    return {*find_options(text[start:end]), *find_options(heads[-1] if heads else "")}


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
