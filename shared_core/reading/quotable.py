"""Tell what of a passage states something and can be quoted from headings, rules, fences and what leads in."""

from __future__ import annotations

import re
from collections.abc import Sequence

from shared_core.citation.english import AUXILIARIES
from shared_core.citation.headings import is_titled
from shared_core.reading.candidates import Candidate
from shared_core.reading.places import section_of
from shared_core.support.options import entry_at
from shared_core.support.regex import lazy_regex
from shared_core.types import Passage

# Files in which a line that begins with # is a comment, whatever it says.
_COMMENTED = lazy_regex(
    r"(?:\.(?:py|pyi|sh|bash|zsh|fish|rb|pl|pm|r|jl|exs?|ya?ml|toml|ini|cfg|conf|properties|tf|mk|cmake|ps1|dockerfile)"
    r"|(?:\A|/)(?:make|docker|gem|rake)file)\Z",
    re.IGNORECASE,
)
# A directive of reStructuredText that states nothing, or the two dots of a comment; a label of MyST: "(cookies)=".
_DIRECTIVE = lazy_regex(r"\([\w .:/-]+\)=|\.\.(?:[ \t]+(?!version|deprecated)[\w:+-]+::(?:[ \t]+\S+)?)?")
_NUMBER = lazy_regex(r"[\W_]*(?:\d{1,3}\.)*\d{1,3}[.)][\W_]*")  # of an item: "2.1.", "* **3)**"
_ASKED_LINE = lazy_regex(
    r"[ \t>*_#]*(?:Q|Question(?:[ \t]\d{1,3})?)[*_]*[:.](?!.*\bA(?:nswer)?[*_]*[:.])", re.IGNORECASE
)
_BARE = lazy_regex(r"(?:A: )?(?:yes(?: and yes)?|no(?:, sorry)?|sure|of course|certainly)[.!]", re.IGNORECASE)
# Not a value behind its name ("Grade: A", "Verb: must").
_BREAKS_OFF = lazy_regex(r"\S\s+\S+(?<!:)\s+(?:must|shall|should|the|either)[\s*_]*\Z")
_REASONED = lazy_regex(
    r"(?:for (?:this|that|these|those) reasons?|(?:that|this)(?: is|['’]s) why|because of (?:this|that))\b",
    re.IGNORECASE,
)
"""What begins a sentence whose reason is the one before it."""
_ELLIPTIC = lazy_regex(
    r"(?:(?:but|and|so|though) )?(?:I|we|you|he|she|it|they|there|(?:the|my|our) \w+|nobody|everybody|everyone|no one)"
    rf" (?:(?:never|always|still|really|certainly|both|all) )?(?:{AUXILIARIES})(?:n['’]t| not)?"
    r"(?: (?:either|too|so|once|now))?[.!]",
    re.IGNORECASE,
)
"""What says nothing without the sentence before it: "Learn to sing. I never did."."""
_RUN_IN = lazy_regex(r"(?:(?:\d{1,3}[.)]|[-*•+])[ \t]+)?(\*\*|__)[^\s*_]+(?: [^\s*_]+){0,3}\1[.:]?")
"""A few words in bold, a heading if something stands behind them in their line."""
_SMALL = "and|or|of|the|for|to|in|on|at|by|with|an?|&"
_TITLED = lazy_regex(
    r"(?:\(?\w{1,3}[.)][ \t]+)?(?!(?:Ask|Call|Contact|See|Ring|Phone|Tell|Visit|Try|Mail|Text) )(?=(?:\S+ ){3,7}\S+\Z)"
    rf"[A-Z][\w'’-]*(?:,? (?:[A-Z][\w'’-]*|{_SMALL}))+\."
)
"""Four to eight words with capitals, a heading if another sentence stands behind their full stop in their line."""
_NAMES_ALONE = lazy_regex(r"[ \t]*[\w./-]+:(?:\n[ \t]*[\w./-]+:)+")
"""Nested names of a configuration without a value."""
_LONGEST_REASON = 400
_SIGNED = lazy_regex(r"(?:\A|\n)[ \t]*[A-Z][\w'’]*(?: [\w'’]+){0,2},[ \t]*\n\s*\Z")
_NAME_ALONE = lazy_regex(r"[A-Z][\w'’.-]*(?: [A-Z][\w'’.-]*){0,3}")
_ASKS_WRITER = lazy_regex(r"\b(?:wr[io]te\w*|written|sen[dt]\w*|sign\w*|author|from|mail|letter)\b", re.IGNORECASE)
_NAMED = lazy_regex(r"(?=[^\n]*[^\W\d_])[^\n.!?;]{2,40}(?<=[\w:)])[*_]*")
_VALUE_ALONE = lazy_regex(r"(?=.{0,30}\d)(?:[\W\d_]|[ap]\.?m\b\.?|noon\b|midnight\b|to\b){1,40}", re.IGNORECASE)
_GOES_ON = lazy_regex(r"(?!\(\w{1,3}\))\(?[a-z]")
_LEADS_IN = lazy_regex(r"[^:]{1,300}:[ \t*_`\"”)]*|(?:(?:or|then|and) )?(?:use|run|type|enter|try)[.,]?", re.IGNORECASE)
_FENCE = lazy_regex(r"(?:`{3,}|~{3,})[^\n`]*(?:\n\s*|\Z)")
_UNDERLINE = lazy_regex(r"(?<=\S)[ \t]*\r?\n[ \t]*([=~^\"'`+*#-])\1{2,}$")
_ELSEWHERE = lazy_regex(  # "os: ${{ matrix.os }}": the value of a setting is given in another place
    r"(?>(?:[^\n:]*:\s*\n\s*)*)[^\n:]+:\s*[\"']?(?:\$\{\{\s*(?:matrix|inputs|env|vars|needs|steps)\.|\{\{-?\s*\.Values\.)[^{}\n]*\}\}[\"']?"
)
_RECORD = lazy_regex(r"(?:[^\n:]{1,80}+:(?:[ \t][^\n]*)?(?:\n|\Z)){3,}")
_LONGEST_RECORD = 900
_COMMENT = lazy_regex(r"(?:\A|\n)[ \t]*(#(?!!)[^\n]*(?:\n[ \t]*#[^\n]*)*)\Z")
"""Of a sentence, the lines at its end: "environment:" can be above them."""
_SETTING = lazy_regex(r"(?!#|\[)[^\n]{3,160}(?<![{\[(:])")
"""One line, which opens no block."""
_LONGEST_COMMENT = 500
_CELL = r":?-+:?[ \t]*"
_RULE = rf"(?=[^\n|]*\|)[ \t]*(?:\|[ \t]*)?{_CELL}(?:\|[ \t]*{_CELL})*(?:\|[ \t]*)?"
_TABLE_RULE = lazy_regex(rf"[ \t]*\n{_RULE}$", re.MULTILINE)


def quotable(text: str, sentences: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join what needs another sentence with it; leave out rules and fences.

    A bare yes or no, and what breaks off ("The keeper must"), need the next; "For this reason, …" and "I never
    did." need the one before, and so does a value on a line of its own below a name ("Saturday", "9:00–12:15").
    """
    out: list[tuple[int, int]] = []
    for start, end in sentences:
        before = text[out[-1][0] : out[-1][1]] if out else ""
        near = bool(out) and "\n\n" not in text[out[-1][1] : start]
        reasoned = near and len(before) <= _LONGEST_REASON and _REASONED.match(text, start)
        elliptic = near and len(before) <= _LONGEST_REASON and _ELLIPTIC.fullmatch(text, start, end)
        bare = near and _BARE.fullmatch(before)
        named = bool(out) and text[out[-1][1] : start].strip(" \t\r*_") == "\n" and _NAMED.fullmatch(before)
        valued = named and _VALUE_ALONE.fullmatch(text, start, end)
        if bare or reasoned or elliptic or valued or (_BREAKS_OFF.search(before) and _GOES_ON.match(text, start)):
            start = out.pop()[0]
        fence = _FENCE.match(text, start, end)
        start = fence.end() if fence else start
        rule = _UNDERLINE.search(text, start, end)  # below a title
        end = rule.start() if rule else end
        if start < end:
            out.append((start, end))
    return out


def join_comments(passage: Passage, sentences: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join each setting of a configuration or program with the comment right above it, which says what it is.

    >>> text = "# Maximum size, in megabytes\\nmax_upload = 25\\n\\n# The end"
    >>> lines = [(0, 28), (29, 44), (46, 55)]
    >>> join_comments(Passage("p", text, metadata={"source": "app.toml"}), lines)
    [(0, 44), (46, 55)]
    """
    if not _COMMENTED.search(str(passage.metadata.get("source", ""))):
        return [*sentences]
    text, out = passage.text, list[tuple[int, int]]()
    for start, end in sentences:
        begin = start
        while out and _SETTING.fullmatch(text, start, end) and text[out[-1][1] : begin].strip(" \t\r") == "\n":
            first, last = out[-1]
            comment = _COMMENT.search(text[first:last])
            if comment is None or end - first - comment.start() > _LONGEST_COMMENT:
                break
            begin = first + comment.start(1)
            out[-1:] = [(first, first + comment.start())] if comment.start() else []
        out.append((begin, end))
    return out


def is_record(passage: Passage) -> bool:
    """Whether a passage is a row of a table with a line for each cell, as LangChain's CSVLoader writes it."""
    text = passage.text
    return "row" in passage.metadata and len(text) <= _LONGEST_RECORD and _RECORD.fullmatch(text.strip()) is not None


def is_signature(text: str, passage: Passage, start: int, question: str) -> bool:
    """Return whether a sentence is the name below "Best wishes," that tells no more than who wrote, which is not asked.

    >>> letter = Passage("p", "The hall is shut.\\n\\nBest wishes,\\nAda Pym")
    >>> [is_signature("Ada Pym", letter, 32, f"Who {did} this?") for did in ("cleans", "wrote")]
    [True, False]
    """
    if not _NAME_ALONE.fullmatch(text.strip()) or _ASKS_WRITER.search(question):
        return False
    return _SIGNED.search(passage.text[max(0, start - 80) : start]) is not None


def is_heading(candidate: Candidate, text: str, passage: Passage) -> bool:
    """Whether ``text`` states nothing: a heading, an item's number, a defined term, a table's head or rule, a question.

    Neither does what leads in something else: "Ordering options:", "You need the following:", "The keeper must".
    """
    if _TABLE_RULE.match(passage.text, candidate.end) or re.fullmatch(_RULE, text):
        return True
    if is_titled(text) and not _COMMENTED.search(str(passage.metadata.get("source", ""))):
        return True
    if _ELSEWHERE.fullmatch(text) or _DIRECTIVE.fullmatch(text) or (len(text) < 30 and _NUMBER.fullmatch(text)):
        return True
    line = passage.text[passage.text.rfind("\n", 0, candidate.start) + 1 : candidate.end]
    if _ASKED_LINE.match(line):
        return True
    if _BREAKS_OFF.search(text) or _NAMES_ALONE.fullmatch(text):
        return True
    if _RUN_IN.fullmatch(text) and re.match(r"[ \t]*\S", passage.text[candidate.end :]):
        return True
    if (
        _TITLED.fullmatch(text)
        and line.strip() == text
        and re.match(r"[ \t]+[A-Z][^\n]{20}", passage.text[candidate.end :])
    ):
        return True
    begins = passage.text.rfind("\n", 0, candidate.start) + 1
    is_entry = entry_at(passage.text, candidate.start)[0] >= begins  # "-l  List in the long format:"
    if _LEADS_IN.fullmatch(text) and not is_entry:
        return True
    above = section_of(passage).split(" > ")
    lines = text.splitlines()
    if all(line.startswith("-") for line in lines):
        text = lines[-1]  # of several options with one definition, the last one heads it
    return " ".join(text.strip("#*= \t").split()) in above
