"""Recognise formats by file names, and suggest what to do about the ones that are not read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import NamedTuple


def _inverted(words: Mapping[str, str]) -> dict[str, str]:
    """Return a mapping from each word of the values to its key."""
    return {word: key for key, listed in words.items() for word in listed.split()}


SUFFIXES = _inverted(
    {
        "text": ".txt .text .eml",
        "tex": ".tex",
        "adoc": ".adoc .asciidoc",
        "org": ".org",
        "textile": ".textile",
        "wiki": ".wiki",
        "man": ".man",
        "markdown": ".md .markdown",
        "mdx": ".mdx",
        "rst": ".rst",
        "subtitles": ".srt .vtt",
        "html": ".html .htm .xhtml",
        "pdf": ".pdf",
        "docx": ".docx .docm",
        "pptx": ".pptx",
        "epub": ".epub",
        "csv": ".csv",
        "tsv": ".tsv",
        "jsonl": ".jsonl .ndjson",
        "json": ".json",
        "notebook": ".ipynb",
        "config": ".yaml .yml .toml .ini .cfg .conf .properties .env .service .timer",
        "code": """.log .tf .proto
            .py .pyi .js .mjs .jsx .ts .tsx .java .kt .scala .groovy .c .h .cc .cpp .cxx .hpp .cs .m .swift .go .rs .rb
            .php .pl .pm .lua .r .jl .hs .ml .ex .exs .erl .clj .el .lisp .dart .zig .f90 .sh .bash .zsh .fish .ps1 .bat
            .sql .graphql .css .scss .less .vue .svelte .cmake .mk .gradle .dockerfile .xml .xsd .diff .patch .bib
            .po""",
    }
)
"""File name endings (lower case) and the format each stands for."""

NAMES = _inverted(
    {
        "text": "readme license licence copying notice authors contributors changelog changes news todo install faq "
        "history thanks copyright",
        "code": "makefile dockerfile jenkinsfile gemfile rakefile procfile",
    }
)
"""File names (lower case) without an ending that are documents."""

PACKED = {".gz": "gzip", ".bz2": "bzip2"}
"""Endings of compressed files: ``notes.md.gz`` is read as ``notes.md``."""

BINARY = frozenset(("pdf", "docx", "pptx", "epub"))
"""Formats to which a text encoding does not apply."""

TABLES = frozenset(("csv", "tsv", "jsonl", "json"))

_MANUAL = re.compile(r"\.[1-9][a-z]{0,4}")  # section of a manual
_KEPT = frozenset((".debian", ".old", ".orig"))
_GENERATED = frozenset(("searchindex.js", "search_index.js", "search_index.json", "package-lock.json"))

_SAVE_AS = _inverted(
    {
        "save them as .docx": ".doc .dot .rtf .odt .wps .pages",
        "save each sheet as .csv": ".xls .xlsx .xlsm .ods .numbers",
        "save them as .pptx or .pdf": ".ppt .pps .odp .key",
        "convert them to .pdf": ".ps .eps .djvu .xps",
        "convert them to .epub": ".mobi .azw .azw3",
        "unpack them": ".zip .tar .tgz .7z .rar .xz .zst .tar.gz .tar.bz2",
        "save each message as .eml": ".msg .mbox",
        "pictures hold no text; scans need OCR (for example ocrmypdf)": ".png .jpg .jpeg .tif .tiff .bmp .gif .webp "
        ".heic",
        "transcribe them to .txt": ".mp3 .wav .m4a .flac .mp4 .mkv .mov .avi",
    }
)


class Format(NamedTuple):
    """A file's format and its compression (empty without one)."""

    kind: str
    packed: str = ""


def file_format(name: str) -> Format | None:
    """Return the format that a file's name stands for; ``None`` if it is not read.

    >>> file_format("notes.md.gz"), file_format("README.Debian")
    (Format(kind='markdown', packed='gzip'), Format(kind='text', packed=''))
    """
    path = PurePath(name.lower())
    packed = PACKED.get(path.suffix, "")
    if packed:
        path = path.with_suffix("")
    kind = _kind(path) or _kind_by_name(PurePath(name).name, path)
    if packed and not kind:
        # A compressed file without an ending is most likely a text, one that ends in .1 or .3pm a manual page.
        kind = "man" if _MANUAL.fullmatch(path.suffix) else "" if path.suffix else "text"
    return Format(kind, packed) if kind else None


def _kind(path: PurePath) -> str:
    if path.suffix in SUFFIXES:
        return SUFFIXES[path.suffix]
    if path.suffix[1:].isdigit() and ".log" in path.suffixes:  # rotated logs: "system.log.2"
        return SUFFIXES[".log"]
    return "" if path.suffix else NAMES.get(path.name, "")


def _kind_by_name(name: str, path: PurePath) -> str:
    """Return the format of ``README.Debian``, ``COPYING.LIB`` or ``NEWS.1``: the name tells, the ending is any."""
    first = name.partition(".")[0]
    if path.suffix in _SAVE_AS or not (first.isupper() or _KEPT.intersection(path.suffixes)):
        return ""
    return NAMES.get(first.lower(), "")


def is_generated(path: PurePath) -> bool:
    """Return whether a script, style sheet or search index comes from a documentation generator or a bundler.

    >>> is_generated(PurePath("html/_static/jquery.js"))
    True
    """
    name = path.name.lower()
    asset = path.suffix.lower() in (".js", ".mjs", ".css")
    return name in _GENERATED or (asset and ("_static" in path.parts[:-1] or ".min." in name))


def ending(name: str) -> str:
    """Return a file's ending for messages: ``.xlsx``, ``.tar.gz``, ``no ending``."""
    path = PurePath(name.lower())
    if path.suffix in PACKED and len(path.suffixes) > 1:
        return "".join(path.suffixes[-2:])
    return path.suffix or "no ending"


def way_out(ending: str) -> str:
    """Suggest what to do with files of a format that is not read; empty if nothing is known."""
    return _SAVE_AS.get(ending, "")
