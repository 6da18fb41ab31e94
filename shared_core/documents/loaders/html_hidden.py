"""Find the elements of a web page that are not shown: scripts, drawings, hidden ones, what is struck out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from shared_core.support.regex import lazy_regex

NO_END = frozenset("area base br col embed hr img input link meta source wbr".split())
"""Elements without an end tag."""
FOREIGN = frozenset(("svg", "math"))
# The last two: how the letters above a word are read.
_UNSEEN = FOREIGN.union(
    """script style template noscript iframe noembed noframes canvas audio video select datalist textarea
    rt rp""".split()
)
# Elements that close an unclosed drawing or formula (the HTML standard, "parsing foreign content").
BREAK_OUT = frozenset(
    """blockquote body br center code dd div dl dt h1 h2 h3 h4 h5 h6 hr img li main ol p pre section table ul""".split()
)
HTML_WITHIN = frozenset(("foreignobject", "annotation-xml", "desc"))
# Text that is struck out does not hold; neither does the content of an object. One that is never ended stays visible.
_MUST_END = frozenset(("del", "object", "s", "strike"))
_MUST_END_TAG = lazy_regex(rf"<(/?)({'|'.join(sorted(_MUST_END))})(?=[\s/>])", re.IGNORECASE)
_HIDING_STYLE = lazy_regex(r"(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*hidden)\b", re.IGNORECASE)
_PANEL = lazy_regex(r"(?i:\btabs?[-_]?(?:content|pane|panel|item)s?\b)")  # class names of what a tab shows


def unseen_in(text: str) -> frozenset[str]:
    """Return the elements of a page that are not shown; of those that must end, one without end would hide the rest."""
    balance: Counter[str] = Counter()
    for match in _MUST_END_TAG.finditer(text):
        balance[match[2].lower()] += -1 if match[1] else 1
    return _UNSEEN | _MUST_END - {tag for tag, more in balance.items() if more > 0}


def is_hidden(tag: str, attributes: Mapping[str, str]) -> bool:
    """Return whether an element's attributes hide it, for good: not a panel that a tab or a click shows."""
    if tag in NO_END or tag in ("html", "body") or attributes.get("role") in ("tabpanel", "region"):
        return False
    if _PANEL.search(attributes.get("class") or ""):
        return False
    if "hidden" in attributes and (attributes["hidden"] or "").lower() != "until-found":
        return True
    # Wikipedia hides the readable form of each formula in favour of its picture.
    return bool(_HIDING_STYLE.search(attributes.get("style") or "")) and "math" not in (attributes.get("class") or "")
