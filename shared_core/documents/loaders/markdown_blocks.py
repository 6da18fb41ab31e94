"""Write the boxes and tabs of Markdown's dialects as plain paragraphs: their marks say nothing to a reader.

``!!! note "Title"``, ``??? question`` and ``=== "Tab"`` of MkDocs with indented content, ``:::tip Title`` of
Docusaurus, VitePress and MyST, ``> [!NOTE]`` of GitHub, and MyST's fences that hold prose (```` ```{warning} ````).
"""

from __future__ import annotations

import re

from shared_core.support.regex import lazy_regex

_KIND = (
    "admonition|attention|caution|danger|deprecated|details|error|hint|important|info|note|remarks?|seealso|success|tip"
    "|versionadded|versionchanged|warning"
)
_LIKELY = ("!!! ", "??? ", "???+ ", '=== "', ":::", "[!", "```{", "~~~{")
_INDENTED = lazy_regex(
    r"(?:!!!|\?\?\?\+?)(?>(?:[ \t]++[a-z][\w-]*+)*)[ \t]*+(?:\"(?P<title>[^\"\n]*+)\")?[ \t\r]*+$"
    r"|===[!+]?[ \t]++\"(?P<tab>[^\"\n]++)\"[ \t\r]*+$"
)
_COLONS = lazy_regex(
    r":{3,}+[ \t]*+(?:\{?[a-z][\w-]*+\}?(?:\[(?P<bracketed>[^\]\n]*+)\]|[ \t]++(?P<title>[^\s{=][^{}\n]*+))?)?"
    r"[ \t]*+(?:\{[^{}\n]*+\})?[ \t\r]*+$"
)
_ALERT = lazy_regex(r"(?P<quoted>>[ \t]*+)\[![A-Za-z]++\][-+]?(?P<title>[^\n]*+)$")
_PROSE_FENCE = lazy_regex(rf"(?P<fence>`{{3,}}|~{{3,}})\{{(?:{_KIND})\}}(?P<title>[^\n`]*+)$")
_OPTION = lazy_regex(r":[a-z][\w-]*:(?:[ \t]|\r?$)")
_FENCE = lazy_regex(r" {0,3}(?P<marks>`{3,}(?=[^`]*$)|~{3,})")
_WIDTH = 4  # spaces by which MkDocs indents the content of a box


def without_boxes(text: str) -> str:
    """Return a text without the marks of boxes and tabs: titles become lines, and contents lose their indent.

    Code in fences stays as it is.

    >>> without_boxes('!!! note "Rope"\\n    Keep it dry.\\n\\n> [!TIP]\\n> Oil it.\\n')
    'Rope:\\n\\nKeep it dry.\\n\\n> \\n> Oil it.\\n'
    """
    if not any(mark in text for mark in _LIKELY):
        return text
    lines: list[str] = []
    boxes: list[int] = []  # the columns at which the contents of the open boxes begin
    code = prose = ""  # the marks that close a fence
    for line in text.split("\n"):
        if line.strip() and not code:
            while boxes and _column(line) < boxes[-1]:
                boxes.pop()
        line = _dedented(line, _WIDTH * len(boxes))
        bare = line.lstrip(" \t")
        fence = _FENCE.match(line)
        if code or prose:
            if fence and fence["marks"].startswith(code or prose) and not line[fence.end() :].strip():
                code, prose, line = "", "" if not code else prose, line if code else ""
            elif fence and not code:
                code = fence["marks"]
            elif prose and not code and _OPTION.match(bare):
                line = ""
        elif found := _PROSE_FENCE.match(bare):
            prose, line = found["fence"], _titled(found["title"])
        elif fence:
            code = fence["marks"]
        elif found := _INDENTED.match(bare):
            boxes.append(_column(line) + _WIDTH * (len(boxes) + 1))
            line = _titled(found["title"] or found["tab"])
        elif found := _COLONS.match(bare):
            line = _titled(found["bracketed"] or found["title"])
        elif found := _ALERT.match(bare):
            line = found["quoted"] + _titled(found["title"]).rstrip("\n")
        lines.append(line)
    return "\n".join(lines)


def _column(line: str) -> int:
    expanded = line.expandtabs(_WIDTH)
    return len(expanded) - len(expanded.lstrip(" "))


def _dedented(line: str, width: int) -> str:
    """Return a line without as much of its indent."""
    return re.sub(r"^[ \t]*", lambda blank: blank[0].expandtabs(_WIDTH)[width:], line) if width else line


def _titled(title: str | None) -> str:
    """Return the line for a title, which leads over to what is below it; an empty one without a title."""
    title = (title or "").strip()
    return f"{title}:\n" if title and title[-1] not in "?!.:" else title and f"{title}\n"
