"""Read LaTeX as the text that its pages show, in Markdown."""

from __future__ import annotations

import re
import unicodedata

from shared_core.documents.loaders.extracted import (
    LOWERED,
    RAISED,
    Extracted,
    first_is_highest,
    first_line_title,
    one_line,
)
from shared_core.documents.loaders.markdown import read_markdown
from shared_core.support.regex import lazy_regex

_TITLE = lazy_regex(r"\\title(?:\[[^]\n]{0,200}\])?(\{(?:[^{}]|\{[^{}]*\})*\})")
_LEVELS = ("part", "chapter", "section", "subsection", "subsubsection", "paragraph")
_SHOWN = lazy_regex(  # as it is
    r"\\begin\{(?P<block>[vV]erbatim\*?|lstlisting|minted)\}(?:\[[^]\n]{0,200}\])?(?P<code>.*?)(?:\\end\{(?P=block)\}|\Z)",
    re.DOTALL,
)
_LITERAL = lazy_regex(  # within a line; the target of a link may hold a percent sign
    r"\\(?:verb\*?|lstinline)(?P<end>[^\sA-Za-z*{])(?P<code>[^\n]{0,500}?)(?P=end)"
    r"|\\(?:url|path|nolinkurl)\{(?P<url>[^{}\n]*)\}|(?P<link>\\href\{[^{}\n]*\})"
)
_HIDDEN = lazy_regex(
    r"\\begin\{(?P<block>comment\w*)\}(?:.*?\\end\{(?P=block)\}|.*+)|^[ \t]*%[^\n]*(?:\n|\Z)"
    r"|(?<!\\)(?P<kept>(?>(?:\\\\)*))%[^\n]*|\\(?:(?:re)?new|provide)command\*?\{?\\\w+\}?(?:\[[^]\n]{0,200}\])*"
    r"\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\}"
    r"|\\(?:label|index\w*|[vh]space|(?:this)?pagestyle|pagenumbering|input|include|includegraphics|bibliography\w*"
    r"|addto(?:counter|length)|addcontentsline|set(?:counter|length)|mark(?:both|right)|usepackage)"
    r"\*?(?:\[[^]\n]{0,200}\])?(?:\{[^{}]*\})+",
    re.DOTALL | re.MULTILINE,
)
_COMMAND = lazy_regex(
    r"\\(?!begin\b|end\b)(?P<name>[A-Za-z]+)\*?(?P<option>\[[^]\n]{0,200}\])?(?P<first>\{[^{}]*\})(?P<rest>(?:\{[^{}]*\})*)"
)
_ACCENT = lazy_regex(
    r"""\\(?:(['`^"~=.])[ ]?(?:\{\\?([A-Za-z])\}|\\?([ij])(?![A-Za-z])|([A-Za-z]))|([cvuHkr])\{\\?([A-Za-z])\})"""
)
_ACCENTS = dict(
    zip("'`^\"~=.cvuHkr", "\u0301\u0300\u0302\u0308\u0303\u0304\u0307\u0327\u030c\u0306\u030b\u0328\u030a", strict=True)
)
_TABLE = lazy_regex(
    r"\\begin\{(?P<block>tabular[*xy]?|longtable|supertabular)\}(?:(?P<body>.*?)\\end\{(?P=block)\}|.*+)", re.DOTALL
)
_COLUMNS = lazy_regex(r"(?:\s*(?:\[[^]\n]{0,200}\]|\{(?:[^{}]|\{[^{}]*\})*\}))+")
_ROW_END = lazy_regex(r"\\\\(?:\[[^]\n]{0,200}\])?|\\tabularnewline\b")
_RULE = lazy_regex(r"\\(?:hline|toprule|midrule|bottomrule|end(?:first|last)?(?:head|foot)|c(?:mid)?rule|cline)\b")
_BLOCK = lazy_regex(r"\\(?:begin|end)\{[^{}]*\}(?:\[[^]\n]{0,200}\])?(?:\{[^{}]*\})*")
_TERM = lazy_regex(r"\\item[ \t]*\[([^]\n]{0,200})\]")
_SIGN = lazy_regex(r"\\(?:([A-Za-z]+)([ \t]?)|\\(?:\[[^]\n]{0,200}\])?|([^A-Za-z]))|[{}$~]|``|''|`|-{2,3}")
_SIGNS = {
    "``": "“", "''": "”", "`": "‘", "--": "–", "---": "—", "~": " ", "\\\\": "\n", "item": "- ",
    "quad": " ", "qquad": " ", "textbackslash": "\\", "TeX": "TeX", "LaTeX": "LaTeX",
}  # fmt: skip
_SIGNS |= dict(
    pair.split("=")
    for pair in "ldots=… dots=… times=× pm=± le=≤ leq=≤ ge=≥ geq=≥ ne=≠ neq=≠ approx=≈ cdot=· circ=° "
    "degree=° mu=μ textdegree=° textendash=– textemdash=— textbar=| textasciitilde=~ to=→ "
    "rightarrow=→ ss=ß ae=æ AE=Æ oe=œ o=ø O=Ø aa=å AA=Å euro=€ pounds=£ S=§ copyright=© i=i "
    "j=j slash=/ textquotesingle=' guillemotleft=« guillemotright=» degreeCelsius=°C".split()
)
_ESCAPED = str.maketrans("%&$#_{}\\~`-", "\ue000\ue001\ue002\ue003\ue004\ue005\ue006\ue007\ue008\ue009\ue00a")
"""Characters that stand for themselves, until the end."""
_PLAIN = {value: key for key, value in _ESCAPED.items()}
_SMALL = {"textsuperscript": RAISED, "textsubscript": LOWERED}
_FORMULA = lazy_regex(
    r"""(?P<dollars>\$\$?)(?>(?:[^$\n]|\n(?![ \t]*\n)){1,1000})(?P=dollars)
    | (?<!\\)\\\((?>(?:[^\\]|\\(?![()]))*)\\\) | (?<!\\)\\\[(?>(?:[^\\]|\\(?![][]))*)\\\]
    | \\begin\{(?P<block>(?:equation|align|gather|multline|eqnarray|displaymath|math)\*?)\}
      (?:.*?\\end\{(?P=block)\}|.*+)""",
    re.DOTALL | re.VERBOSE,
)
_LAYOUT = frozenset(  # commands that print nothing
    "maketitle tableofcontents listoffigures listoftables newpage clearpage cleardoublepage pagebreak linebreak "
    "newline noindent indent par centering raggedright raggedleft smallskip medskip bigskip vfill hfill appendix "
    "frontmatter mainmatter backmatter footnotemark displaystyle left right protect relax bf it tt em sc sf rm sl "
    "bfseries itshape ttfamily scshape sffamily rmfamily mdseries upshape slshape normalfont tiny scriptsize "
    "footnotesize small normalsize large Large LARGE huge Huge hline toprule midrule bottomrule printindex "
    "selectfont makeatletter makeatother null strut sloppy fussy xspace leavevmode".split()
)
_TYPEWRITER = ("texttt", "code", "lstinline", "mintinline", "cmd", "file")
_DEPTH = 8  # of commands within commands


def load_tex(text: str) -> Extracted:
    """Read LaTeX as Markdown: what a page shows of its body, with headings, lists and tables; code is kept as it is."""
    text = text.replace("\r\n", "\n").translate(dict.fromkeys(_PLAIN))
    named = _TITLE.search(text)
    _, begun, body = text.partition(r"\begin{document}")
    text = body.partition(r"\end{document}")[0] if begun else text
    pieces: list[str] = []
    last = 0
    for shown in _SHOWN.finditer(text):
        pieces += _prose(text[last : shown.start()]), f"\n```\n{shown['code'].strip()}\n```\n"
        last = shown.end()
    text = "".join([*pieces, _prose(text[last:])])
    text, headings = read_markdown(re.sub(r"\n(?:[ \t]*\n){2,}", "\n\n", text).strip("\n"))
    if named:
        title = one_line(_prose(named[1]))
    else:
        above = headings and (not headings[0].start or first_is_highest(headings))
        title = headings[0].label if above else first_line_title(text)
    return Extracted(text, title, tuple(headings))


def _prose(text: str) -> str:
    """Return the text that LaTeX without verbatim blocks prints."""
    text = _LITERAL.sub(_literal, text)
    text = _HIDDEN.sub(lambda m: m["kept"] or "", text)
    text = re.sub(r"\\\\|\\([%&$#_{}])", lambda m: m[1].translate(_ESCAPED) if m[1] else m[0], text)
    text = _FORMULA.sub(_formula, re.sub(r"\^\{?\\circ\b\}?", "°", text))
    text = _ACCENT.sub(_accented, text)
    for _ in range(_DEPTH):
        text, count = _COMMAND.subn(_command, text)
        if not count:
            break
    text = _TABLE.sub(_table, text)
    text = _TERM.sub(r"- \1:", _BLOCK.sub("", text))
    text = re.sub(r"(?<![\w-])--(?=[a-z])", "--".translate(_ESCAPED), text)  # an option
    text = _SIGN.sub(_sign, text)
    text = re.sub(r"^[ \t]+", "", text, flags=re.MULTILINE)
    return text.translate(_PLAIN)


def _literal(match: re.Match[str]) -> str:
    if match["link"]:
        return r"\href{}"  # its text follows
    return str(match["code"] or match["url"] or "").translate(_ESCAPED)


def _formula(match: re.Match[str]) -> str:
    """Return a formula as it is, unless all of its commands are signs: half of one would say something else."""
    names = re.findall(r"\\([A-Za-z]+)", match[0])
    plain = match[0].startswith("$") and all(name in _SIGNS for name in names) and not re.search(r"[\^{}]", match[0])
    return match[0] if plain else match[0].translate(_ESCAPED)


def _accented(match: re.Match[str]) -> str:
    mark, letter = match[1] or match[5], match[2] or match[3] or match[4] or match[6]
    return unicodedata.normalize("NFC", letter + _ACCENTS[mark])


def _command(command: re.Match[str]) -> str:
    name, first, rest = command["name"], command["first"][1:-1], command["rest"]
    arguments = [first, *rest[1:-1].split("}{")] if rest else [first]
    if name in _LEVELS:
        return f"\n\n{'#' * (_LEVELS.index(name) + 1)} {one_line(first)}\n\n{rest}"
    if name == "href":
        return arguments[-1]
    if not first:
        return f"\\{name} {rest}" if name not in _SIGNS else _SIGNS[name] + rest
    if name in _TYPEWRITER:
        return first.translate(_ESCAPED) + rest
    if name in _SMALL:
        return first.translate(_SMALL[name]) + rest
    if name == "multicolumn" and first.isdecimal():
        return arguments[-1] + "&" * (min(int(first), 100) - 1)
    if name in ("multirow", "textcolor", "parbox", "raisebox"):
        return arguments[-1]
    if name.endswith(("ref", "cite", "citep", "citet")):
        return f"[{first}]{rest}"
    if name == "caption":
        return f"\n\n{first}\n\n{rest}"
    return f"{' (' if name == 'footnote' else ''}{first}{')' if name == 'footnote' else ''}{rest}"


def _table(table: re.Match[str]) -> str:
    """Return the rows of a table; the first one names the columns if it has words and a rule below it."""
    if table["body"] is None:
        return table[0]
    columns = _COLUMNS.match(table["body"])
    rows: list[list[str]] = []
    ruled = False
    for row in _ROW_END.split(table["body"][columns.end() if columns else 0 :]):
        ruled = ruled or (len(rows) == 1 and _RULE.match(row.strip()) is not None)
        cells = [one_line(cell.replace("|", "/")) for cell in _RULE.sub("", row).split("&")]
        if any(cells) and not (rows and cells == rows[0]):  # the head of the next page
            rows.append(cells)
    lines = [f"| {' | '.join(cells)} |" for cells in rows]
    if ruled and all(any(c.isalpha() for c in cell) for cell in rows[0][1:]) and not rows[0][0].isdecimal():
        lines.insert(1, "|" + " - |" * len(rows[0]))
    return "\n\n{}\n\n".format("\n".join(lines))


def _sign(sign: re.Match[str]) -> str:
    if sign[1]:
        if sign[1] in _SIGNS:
            return _SIGNS[sign[1]].rstrip() + sign[2]
        return "" if sign[1] in _LAYOUT else sign[0]  # what is not known may say something
    if sign[3]:
        return " " if sign[3] in ",;: " else ""
    return _SIGNS.get(sign[0][:2] if sign[0].startswith("\\") else sign[0], "")
