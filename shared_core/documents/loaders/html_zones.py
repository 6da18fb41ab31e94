"""Tell a web page's content from what it does not show, and from navigation, headers, footers and sidebars.

HTML and ARIA landmarks decide, then the class names that documentation and content systems give such boxes, and in both
cases the share of links in a box. If hardly anything would be left, the page is kept whole: a menu too many is better
than a missing article.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from shared_core.documents.loaders.extracted import PARAGRAPH_GAP, TextRun
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


_ROLES = {
    "main": "main", "navigation": "nav", "banner": "header", "contentinfo": "footer", "complementary": "aside",
    "search": "nav", "doc-toc": "box", "directory": "box", "menu": "nav", "menubar": "nav", "article": "article",
    "doc-footnote": "note", "doc-endnotes": "note",
}  # fmt: skip
_TAGS = {"main": "main", "nav": "nav", "header": "header", "footer": "footer", "aside": "aside", "article": "article",
         "ul": "list", "ol": "list", "menu": "list", "address": "address"}  # fmt: skip
# Class names in the themes of documentation generators, wikis and content systems; compared as whole words.
_NAMES = {
    **dict.fromkeys(
        """nav navbar navigation navbox nav-links sidebar sphinxsidebar side-bar breadcrumb breadcrumbs related
        pagination pager menu toolbar topbar skip-link skiplink skip-to-content mw-jump-link mw-editsection
        mw-navigation prev-next navheader navfooter catlinks printfooter wy-nav-side md-sidebar toc toctree-wrapper
        table-of-contents tableofcontents table_of_contents contents localtoc page-toc minitoc list-of-tables
        list-of-figures indextable genindextable""".split(),
        "box",
    ),
    **dict.fromkeys("site-footer page-footer".split(), "footer"),
    **dict.fromkeys("linenos lineno linenodiv line-numbers gutter headerlink header-anchor".split(), "marks"),
}
# Of what asks for cookies: classes only, because generators make ids of headings ("Cookie banner").
_CONSENT = frozenset(
    """cookie-banner cookie-bar cookie-consent cookie-notice cookie-popup cookiebanner cookieconsent
    cookie-law-info-bar cc-window gdpr-banner consent-banner otFlat CybotCookiebotDialog""".split()
)
_NOTES = frozenset("footnote footnotes endnote endnotes rearnote rearnotes".split())  # of books
_NEVER_BOXES = frozenset("html body main article h1 h2 h3 h4 h5 h6".split())
_MOSTLY_LINKS = 0.5
_MANY_LINKS = 0.3
_ALL_LINKS = 0.85
_SHARE = 0.25  # of the page's text: with less, an element marked as its content is not
_LEFT_SHARE, _LEFT_LETTERS = 0.05, 200
_FOOTER_SHARE = 0.3
_CONTACT = lazy_regex(
    r"(?<![\w.-])(?:\+|\(?0)\d[\d ()/.–-]{5,}\d(?![\w.-])|[\w.+-]+@[\w-]+\.\w"
)  # a telephone number, a mail address
_RIGHTS = lazy_regex(r"©|\(c\)|\bcopyright\b|\ball rights reserved\b", re.IGNORECASE)


def zone_kind(tag: str, attributes: Mapping[str, str]) -> str:
    """Return the kind of zone that an element opens; empty for most."""
    kind = _ROLES.get(attributes.get("role", ""), "")
    if not kind and not _NOTES.isdisjoint((attributes.get("epub:type") or "").split()):
        return "note"
    if not kind and tag not in _NEVER_BOXES and ("class" in attributes or "id" in attributes):
        words = f"{attributes.get('class', '')} {attributes.get('id', '')}".lower().split()
        kind = next((_NAMES[word] for word in words if word in _NAMES), "")
    if not kind and tag not in _NEVER_BOXES and not _CONSENT.isdisjoint((attributes.get("class") or "").split()):
        kind = "nav"
    return kind or _TAGS.get(tag, "")


@dataclass(slots=True)
class _Zone:
    """An element that may not be content, with figures of all within it.

    Attributes:
        letters, links, inner: letters of its text, of that in links, and in links within the page.
        content: whether it is within the page's marked content (``main``, else articles).
    """

    kind: str
    parent: int
    letters: int = 0
    links: int = 0
    inner: int = 0
    titled: bool = False
    content: bool = False
    dropped: bool = False

    def is_aside(self, page: int) -> bool:
        """Return whether it is not content; ``page`` counts the letters of the whole page."""
        links, inner = (count / max(1, self.letters) for count in (self.links, self.inner))
        small = self.letters < _FOOTER_SHARE * max(1, page)
        match self.kind:
            case "marks":
                return True
            case "nav":
                return links > 0 or small
            case "box":
                return links >= _MANY_LINKS
            case "list":
                return inner >= _ALL_LINKS or (links >= _ALL_LINKS and not self.content)
            case "aside" | "footer":
                return links >= _MOSTLY_LINKS or (not self.content and small)
            case "header":
                return links >= _MOSTLY_LINKS or not (self.content or self.titled)
        return False


@dataclass(slots=True)
class Zones:
    """The page's zones as a tree, numbered in document order (a parent before its children); zone 0 is the page."""

    current: int = 0
    _zones: list[_Zone] = field(default_factory=lambda: [_Zone("page", 0)])

    def enter(self, kind: str) -> None:
        """Begin a zone within the current one."""
        self._zones.append(_Zone(kind, self.current))
        self.current = len(self._zones) - 1

    def leave(self) -> None:
        """End the current zone."""
        self.current = self._zones[self.current].parent

    def kept(self, runs: Sequence[TextRun]) -> list[bool]:
        """Return for each run whether it is content."""
        page, *zones = self._zones
        self._count(runs)
        marked = self._mark_content()
        for zone in zones:
            zone.dropped = self._zones[zone.parent].dropped or zone.is_aside(page.letters)
        kept = [not self._zones[run.zone].dropped for run in runs]
        if marked:
            chosen = [keep and self._zones[run.zone].content for run, keep in zip(runs, kept, strict=True)]
            if _letters(runs, chosen) >= max(1, _SHARE * _letters(runs, kept)):
                kept = chosen
        left = _letters(runs, kept)
        # The page may be nothing but a list of links, or its theme may name its content like a menu.
        if left < min(_LEFT_LETTERS, page.letters) and left <= _LEFT_SHARE * page.letters:
            return [True] * len(kept)
        self._keep_contacts(runs, kept)
        return kept

    def _keep_contacts(self, runs: Sequence[TextRun], kept: list[bool]) -> None:
        """Keep the addresses, telephone numbers and opening hours of footers, each footer's in a section of its own.

        Only of footers that tell how to reach somebody: others have years, versions and links.
        """
        footers = [0]  # of each zone, the footer around it
        for number, zone in enumerate(self._zones[1:], 1):
            inside = footers[zone.parent] if zone.kind in ("list", "address") else 0
            footers.append(number if zone.kind == "footer" else inside)
        found: dict[int, list[list[int]]] = {}
        for i, run in enumerate(runs):
            if footer := footers[run.zone]:
                blocks = found.setdefault(footer, [])
                if not blocks or run.gap == PARAGRAPH_GAP or blocks[-1][-1] != i - 1:
                    blocks.append([])
                blocks[-1].append(i)
        for blocks in found.values():
            telling = [block for block in blocks if not kept[block[0]] and _tells([runs[i] for i in block])]
            if any(self._is_contact([runs[i] for i in block]) for block in telling):
                runs[telling[0][0]].closes = 1
                for i in chain(*telling):
                    kept[i] = True

    def _is_contact(self, block: Sequence[TextRun]) -> bool:
        marked = any(self._zones[run.zone].kind == "address" for run in block)
        return marked or _CONTACT.search("".join(run.text for run in block)) is not None

    def _count(self, runs: Sequence[TextRun]) -> None:
        for run in runs:
            zone, letters = self._zones[run.zone], len(run.text)
            zone.letters += letters
            zone.titled |= run.level > 0
            if run.link is not None:
                zone.links += letters
                zone.inner += letters if run.link.startswith("#") else 0
        for zone in self._zones[:0:-1]:
            parent = self._zones[zone.parent]
            parent.letters += zone.letters
            parent.links += zone.links
            parent.inner += zone.inner
            parent.titled |= zone.titled

    def _mark_content(self) -> bool:
        """Mark what is within ``main``, else within articles that hold most of the text; return whether any is."""
        total = self._zones[0].letters
        for kind, least in (("main", 0.0), ("article", 0.5 * total)):
            held = 0
            for zone in self._zones[1:]:
                inside = self._zones[zone.parent].content
                zone.content = inside or zone.kind == kind
                held += zone.letters if zone.content and not inside else 0
            if held and held >= least:
                return True
        for zone in self._zones:
            zone.content = False
        return False


def _tells(block: Sequence[TextRun]) -> bool:
    """Return whether a paragraph of a footer holds more than links, and a figure, an address or a heading."""
    text = " ".join(run.text for run in block)
    links = sum(len(run.text) for run in block if run.link and not run.link.startswith(("tel:", "mailto:")))
    told = any(run.level for run in block) or re.search(r"\d|@", text)
    return bool(told) and links < _MOSTLY_LINKS * len(text) and not _RIGHTS.search(text)


def _letters(runs: Sequence[TextRun], kept: Sequence[bool]) -> int:
    return sum(len(run.text) for run, keep in zip(runs, kept, strict=True) if keep)
