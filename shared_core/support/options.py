"""Recognise the options of commands, such as ``-s`` and ``--sort=KEY``, in text."""

from __future__ import annotations

import re

_OPTION = re.compile(r"(?<![\w-])--?[A-Za-z][\w-]*")
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
