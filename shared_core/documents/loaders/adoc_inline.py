"""Inline marks of AsciiDoc: quotes, links, cross references, macros, attributes."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping

from shared_core.support.regex import lazy_regex

CHARACTERS: Mapping[str, str] = {
    "empty": "", "blank": "", "sp": " ", "nbsp": " ", "zwsp": "", "wj": "", "apos": "'", "quot": '"', "lsquo": "‘",
    "rsquo": "’", "ldquo": "“", "rdquo": "”", "deg": "°", "plus": "+", "brvbar": "¦", "vbar": "|", "amp": "&",
    "lt": "<", "gt": ">", "startsb": "[", "endsb": "]", "caret": "^", "asterisk": "*", "tilde": "~", "backslash": "\\",
    "backtick": "`", "two-colons": "::", "two-semicolons": ";;", "cpp": "C++", "pp": "++", "cxx": "C++",
}  # fmt: skip
"""Attributes that stand for characters (Asciidoctor's intrinsic attributes)."""
_ATTRIBUTE = lazy_regex(r"(?<!\\)\{([\w][\w-]*)\}")
_ESCAPED = lazy_regex(r"\\(?=\{[\w-]+\})")
_MOST = 800  # characters of what is marked

_INLINE = lazy_regex(
    rf"""
    \\(?P<escaped>\*\*?|__?|``?|\#\#?|\+|\^|~|<<|\(\(|\[\[|->|--|(?:[a-z][\w+.-]{{0,40}}:(?=\S{{0,300}}\[)|https?:))
    | \+\+\+(?P<raw>.{{1,{_MOST}}}?)\+\+\+ | \+\+(?P<literal>.{{1,{_MOST}}}?)\+\+
    | \bpass:[a-z,]*\[(?P<passed>.{{0,{_MOST}}}?)\]
    | (?P<quote>["'])`(?=\S)(?P<quoted>.{{1,{_MOST}}}?)(?<=\S)`(?P=quote)
    | (?P<role>\[[\w .\#%-]{{1,60}}\](?=(?:\*|_|`|\#)\S))
    | ``(?P<mono2>.{{1,{_MOST}}}?)`` | (?<![\w;:`}}])`(?=\S)(?P<mono>[^`]{{1,{_MOST}}}?)(?<=\S)`(?!\w)
    | (?:https?|ftp|irc)://[^\s\[\]<>"]+(?:\[(?P<named>[^\]]{{0,{_MOST}}})\])?
    | \{{[\w-]{{1,60}}\}}[^\s\[\]]{{0,300}}\[(?P<elsewhere>[^\]]{{1,{_MOST}}})\]
    | \b(?P<macro>[a-z][a-z0-9_-]{{0,40}}):(?!:)(?P<target>[^\s\[\]]{{0,300}})\[(?P<text>(?:\\\]|[^\]]){{0,{_MOST}}})\]
    | <<(?P<reference>[^<>,]{{1,200}})(?:,[ ]*(?P<label>[^<>]{{1,300}}))?>>
    | \*\*(?P<bold2>.{{1,{_MOST}}}?)\*\* | (?<![\w;:}}*])\*(?=\S)(?P<bold>.{{1,{_MOST}}}?)(?<=\S)\*(?!\w)
    | __(?P<slanted2>.{{1,{_MOST}}}?)__ | (?<![\w;:}}_])_(?=\S)(?P<slanted>.{{1,{_MOST}}}?)(?<=\S)_(?!\w)
    | \#\#(?P<mark2>.{{1,{_MOST}}}?)\#\# | (?<![\w;:}}\#&])\#(?=\S)(?P<mark>.{{1,{_MOST}}}?)(?<=\S)\#(?!\w)
    | \^(?P<raised>[^\s^]{{1,60}})\^ | ~(?P<lowered>[^\s~]{{1,60}})~
    | (?<![\w+])\+(?=\S)(?P<plus>[^+\n]{{1,{_MOST}}}?)(?<=\S)\+(?![\w+])
    | \(\(\([^()]{{1,300}}\)\)\) | \(\((?P<index>[^()]{{1,300}})\)\)
    | \[\[[\w:.,\ -]{{1,120}}\]\]
    | (?P<broken>[ ]\+(?=\n|\Z))
    | (?P<dash>(?<=\w)--(?=\w)|(?<=[ ])--(?=[ ]))
    | \((?P<sign>C|R|TM)\)
    """,
    re.VERBOSE | re.DOTALL,
)
_TAGS = {"bold": "b", "bold2": "b", "slanted": "i", "slanted2": "i", "raised": "sup", "lowered": "sub"}
_SIGNS = {"C": "©", "R": "®", "TM": "™"}
_UNSEEN = frozenset(("image", "icon", "anchor", "indexterm", "video", "audio"))
FORMULAS = frozenset(("stem", "latexmath", "asciimath"))
_NAMED = lazy_regex(r'\A"((?:[^"\\]|\\.)*)"(?:,.*)?\Z|,[ ]*(?:\w[\w-]*=|role|window).*\Z', re.DOTALL)
_WORD = lazy_regex(r"[a-z]")


def inline(text: str, attributes: Mapping[str, str]) -> str:
    """Return a text, its lines separated by line breaks, with inline marks as HTML.

    ``attributes`` are values by name; names without one stay as they are written.
    """
    for _ in range(3):  # values may have attributes
        replaced = _ATTRIBUTE.sub(lambda name: attributes.get(name[1].lower(), name[0]), text)
        if replaced == text or len(replaced) > 10 * len(text) + 10_000:
            break
        text = replaced
    return _marked(_ESCAPED.sub("", text), 0)


def _marked(text: str, depth: int) -> str:
    out, at = [], 0
    for match in _INLINE.finditer(text) if depth < 8 else ():
        out += [html.escape(text[at : match.start()], quote=False), _shown(match, depth + 1)]
        at = match.end()
    out.append(html.escape(text[at:], quote=False))
    return "".join(out)


def _shown(match: re.Match[str], depth: int) -> str:
    """Return the HTML of what one mark stands for."""
    found = {name: value for name, value in match.groupdict().items() if value is not None}
    for name, tag in _TAGS.items():
        if name in found:
            return f"<{tag}>{_marked(found[name], depth)}</{tag}>"
    for name in ("mono", "mono2"):
        if name in found:
            inner = found[name]
            literal = len(inner) > 2 and inner[0] == inner[-1] == "+"
            return f"<code>{html.escape(inner[1:-1]) if literal else _marked(inner, depth)}</code>"
    for name in ("escaped", "literal", "passed", "plus"):
        if name in found:
            return html.escape(found[name], quote=False)
    if "raw" in found:
        return html.escape(html.unescape(re.sub(r"<[^<>]*>", "", found["raw"])), quote=False)
    if "quoted" in found:
        left, right = "“”" if found["quote"] == '"' else "‘’"
        return left + _marked(found["quoted"], depth) + right
    for name in ("mark", "mark2", "index", "label"):
        if name in found:
            return _marked(found[name], depth)
    if "elsewhere" in found:  # a link to what an attribute of another file says
        return _marked(_link_text(found["elsewhere"]), depth)
    if "reference" in found:
        return html.escape(_readable(found["reference"]))
    if "macro" in found:
        return _macro(found["macro"], found["target"], found["text"].replace("\\]", "]"), depth)
    if "broken" in found:
        return "<br>"
    if "dash" in found:
        return "—"
    if "sign" in found:
        return _SIGNS[found["sign"]]
    if match[0].startswith(("http", "ftp", "irc")):
        label = _link_text(found.get("named", ""))
        return _marked(label, depth) if label else html.escape(match[0].partition("[")[0])
    return ""  # the role of what follows, an index term or an anchor


def _macro(name: str, target: str, text: str, depth: int) -> str:
    if name in _UNSEEN:
        return ""
    if name in FORMULAS:
        return html.escape(text, quote=False)
    if name in ("footnote", "footnoteref"):
        return f" ({_marked(text, depth)})" if text else ""
    if name == "menu":
        return html.escape(" > ".join([target, *re.split(r"\s*>\s*", text)]) if text else target)
    if name in ("link", "xref", "mailto", "kbd", "btn"):
        return _marked(_link_text(text), depth) or html.escape(_readable(target) if name == "xref" else target)
    if text.isdigit() and target:  # "linkgit:git-add[1]"
        return html.escape(f"{target}({text})")
    return _marked(_link_text(text), depth) or html.escape(target)


def _link_text(text: str) -> str:
    """Return what a link shows, without its attributes."""
    match = _NAMED.search(text)
    if match:
        text = match[1] if match[1] is not None else text[: match.start()]
    return text.strip().removesuffix("^")


def _readable(target: str) -> str:
    """Return the name of what is referred to: "pages/install.adoc#_from_source" as "from source"."""
    last = target.rpartition("#")[2] or target.rpartition("/")[2].removesuffix(".adoc").rstrip("#")
    last = last.removesuffix(".adoc").rpartition("/")[2]
    return last.strip("_").replace("_", " ") if last.startswith("_") or " " not in last else last
