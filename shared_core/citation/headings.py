"""Tell headings, and the numbers that headings and list items begin with, from what a text states."""

from __future__ import annotations

from shared_core.support.regex import lazy_regex

__all__ = ["is_heading", "is_titled", "mark_end"]

_MARK = lazy_regex(
    r"[ \t]*(?:#{1,6}[ \t]+)?"
    r"(?:§{1,2}\s?\d{1,4}[a-z]?\b[.:)]?|(?:\d{1,2}\.)+\d{1,2}\.?(?=\s+[A-Z])|\(?(?:\d{1,3}|[IVX]{1,5})[.)])(?=\s)"
)
_MARKDOWN_NUMBER = lazy_regex(r"[ \t]*#{1,6}[ \t]+(?:\d{1,3}(?:\.\d{1,3})*|[IVX]{1,5})\b[.:)]?(?=\s)")
_WORD = lazy_regex(r"[^\W\d_][\w'’-]*")
_STATES = lazy_regex(r"[.!;,…]\Z|\S:[*_]* \S|:\s*\d|\t|\|| {3}|[€£$%]|\d\s?(?:[a-z]{1,3}|°C)\b")
_BULLET = lazy_regex(r"[ \t]*[-*•–+][ \t]")
_MOST_WORDS = 8
_PLAIN_WORDS = 5  # of a heading that only blank lines tell
_LABEL_WORDS = 2  # of one that a full stop may end
_LABEL_LETTERS = 3  # more capitals than an abbreviation has
_NEAR = 80
_TITLE = lazy_regex(r"#{1,6}[ \t][^\n]*")
_SENTENCE = lazy_regex(r"#[ \t]+(?:\S+[ \t]+){4,}\S*[a-z\d]\.")  # in a comment of source code
_RULE = lazy_regex(r"[ \t]*(?:=+|-+|~+)[ \t]*")
_BEFORE = lazy_regex(r"(?:\A|\n[ \t]*\r?\n)[ \t]*\Z")
_GAP = lazy_regex(r"[ \t]*\r?\n[ \t]*\r?\n")
_COMMENT = lazy_regex(r"[ \t]*\r?\n# ")
_COMMENT_ABOVE = lazy_regex(r"(?:\A|\n)# [^\n]*\r?\n\Z")
_LINE = lazy_regex(r"\S[^\n]*")


def mark_end(text: str) -> int:
    """Return where the number ends that a sentence begins with as a heading or an item of a list; 0 if it has none.

    >>> [text[:mark_end(text)] for text in ("8. Rule changes", "## 2 Rent", "§ 4 Notice", "8.2 Hens.", "2.4 m wide")]
    ['8.', '## 2', '§ 4', '8.2', '']
    """
    found = _MARK.match(text) or _MARKDOWN_NUMBER.match(text)
    return found.end() if found else 0


def is_titled(text: str) -> bool:
    """Whether a sentence is a heading of Markdown, which states nothing; not a sentence in a comment of source code.

    >>> is_titled("# Crates and barrels"), is_titled("# The server bans clients that ask too often.")
    (True, False)
    """
    return _TITLE.fullmatch(text) is not None and not _SENTENCE.fullmatch(text)


def is_heading(text: str, start: int, end: int) -> bool:
    """Return whether a sentence of a text is a heading alone, which states nothing.

    It has few words and no full stop, and something follows. Besides it is marked (``#``, a rule under it), numbered,
    in capitals, or alone between blank lines.

    >>> text = "5. ILLNESS\\n\\nChildren with a temperature must stay at home.\\n\\n8. Hens\\n\\nSix are allowed."
    >>> is_heading(text, 0, 10), is_heading(text, 12, 58)
    (True, False)
    """
    piece = text[start:end]
    lines = piece.splitlines()
    if is_titled(piece):  # a comment of several lines is none
        return not (_COMMENT.match(text, end) or _COMMENT_ABOVE.search(text[max(0, start - _NEAR) : start]))
    if len(lines) == 2 and _RULE.fullmatch(lines[1]):
        return True
    number = mark_end(piece)
    bare = piece[number:].strip()
    words = _WORD.findall(bare)
    if number and len(words) <= _LABEL_WORDS:
        bare = bare.rstrip(".")  # "8.2 Hens."
    if len(lines) != 1 or not 1 <= len(words) <= _MOST_WORDS or _BULLET.match(piece) or _STATES.search(bare):
        return False
    behind = text[end:]
    following = _LINE.search(behind)
    if following is None:
        return False
    if bare.isupper() and sum(map(len, words)) > _LABEL_LETTERS:
        return True
    alone = _GAP.match(behind) is not None
    above = _BEFORE.search(text[max(0, start - _NEAR) : start]) is not None
    if number and above:  # an item of a list has another one below
        item = mark_end(following.group()) > 0 and not following.group().startswith(piece[:number].strip())
        return not item if alone else "\n" not in behind[: following.start() + 1]
    if number or not (alone and above):
        return False
    # Short lines one below the other are a list of their own, not headings.
    longer = len(following.group().split()) > _PLAIN_WORDS or _BULLET.match(following.group()) is not None
    return piece.endswith("?") or (len(words) <= _PLAIN_WORDS and longer)
