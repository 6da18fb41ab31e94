"""Tell a web page's content from its navigation, header, footer, sidebars and table of contents.

HTML and ARIA landmarks decide, then the class names that documentation and content systems give such boxes, and in both
cases the share of links in a box. If hardly anything would be left, the page is kept whole: a menu too many is better
than a missing article.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_ROLES = {
    "main": "main", "navigation": "nav", "banner": "header", "contentinfo": "footer", "complementary": "aside",
    "search": "nav", "doc-toc": "toc", "directory": "toc", "menu": "nav", "menubar": "nav", "article": "article",
}  # fmt: skip
_TAGS = {"main": "main", "nav": "nav", "header": "header", "footer": "footer", "aside": "aside", "article": "article",
         "ul": "list", "ol": "list", "menu": "list"}  # fmt: skip
# Class names in the themes of documentation generators, wikis and content systems; compared as whole words.
_NAMES = {
    **dict.fromkeys(
        (
            "nav", "navbar", "navigation", "navbox", "nav-links", "sidebar", "sphinxsidebar", "side-bar", "breadcrumb",
            "breadcrumbs", "related", "pagination", "pager", "menu", "toolbar", "topbar", "skip-link", "skiplink",
            "skip-to-content", "mw-jump-link", "mw-editsection", "mw-navigation", "prev-next", "site-footer",
            "page-footer", "navheader", "navfooter", "catlinks", "printfooter", "wy-nav-side", "md-sidebar",
        ),
        "box",
    ),
    **dict.fromkeys(
        (
            "toc", "toctree-wrapper", "table-of-contents", "tableofcontents", "table_of_contents", "contents",
            "localtoc", "page-toc", "minitoc", "list-of-tables", "list-of-figures", "indextable", "genindextable",
        ),
        "toc",
    ),
    **dict.fromkeys(
        ("linenos", "lineno", "linenodiv", "line-numbers", "gutter", "headerlink", "header-anchor"), "marks"
    ),
}  # fmt: skip
_NEVER_BOXES = frozenset(("html", "body", "main", "article", "h1", "h2", "h3", "h4", "h5", "h6"))
_MOSTLY_LINKS = 0.5
_MANY_LINKS = 0.3
_ALL_LINKS = 0.85
_SHARE = 0.25  # of the page's text: with less, an element marked as its content is not
_CONTENT_LETTERS = 500
_LEFT_SHARE, _LEFT_LETTERS = 0.05, 200
_FOOTER_SHARE = 0.3


class TextRun:
    """A stretch of text within one block.

    Attributes:
        gap: the separator before it, an index into the loader's separators.
        text: with white space as shown.
        zone: number of the innermost zone around it.
        link: the target of the link around it; ``None`` outside links.
        level, heading: of the heading around it, and that heading's number on the page; 0 outside.
        preformatted: whether its white space counts.
        closes: level of the headings that do not hold from here on; 0 if all do.
    """

    __slots__ = ("closes", "gap", "heading", "level", "link", "preformatted", "text", "zone")

    def __init__(
        self, gap: int, text: str, zone: int, link: str | None, level: int, heading: int, preformatted: bool
    ) -> None:
        self.gap, self.text, self.zone, self.link = gap, text, zone, link
        self.level, self.heading, self.preformatted = level, heading, preformatted
        self.closes = 0


def zone_kind(tag: str, attributes: Mapping[str, str]) -> str:
    """Return the kind of zone that an element opens; empty for most."""
    kind = _ROLES.get(attributes.get("role", ""), "")
    if kind:
        return kind
    if tag not in _NEVER_BOXES and ("class" in attributes or "id" in attributes):
        for word in f"{attributes.get('class', '')} {attributes.get('id', '')}".split():
            if kind := _NAMES.get(word.lower(), ""):
                return kind
    return _TAGS.get(tag, "")


class Zones:
    """The page's zones as a tree, numbered in document order; zone 0 is the page."""

    def __init__(self) -> None:
        self._kinds = ["page"]
        self._parents = [0]
        self.current = 0

    def enter(self, kind: str) -> int:
        """Begin a zone within the current one; return its number."""
        self._kinds.append(kind)
        self._parents.append(self.current)
        self.current = len(self._kinds) - 1
        return self.current

    def leave(self) -> None:
        """End the current zone."""
        self.current = self._parents[self.current]

    def kept(self, runs: Sequence[TextRun]) -> list[bool]:
        """Return for each run whether it is content."""
        letters, links, inner_links, titled = self._figures(runs)
        content = self._content(letters)
        dropped = [False] * len(self._kinds)
        for zone in range(1, len(self._kinds)):  # parents come first: a zone's number is larger than its parent's
            share = links[zone] / letters[zone] if letters[zone] else 0.0
            to_page = inner_links[zone] / letters[zone] if letters[zone] else 0.0
            dropped[zone] = dropped[self._parents[zone]] or self._is_aside(
                self._kinds[zone], share, to_page, letters[zone] / max(1, letters[0]), content[zone], titled[zone]
            )
        kept = [not dropped[run.zone] for run in runs]
        if True in content:
            chosen = [keep and content[run.zone] for run, keep in zip(runs, kept, strict=True)]
            if _letters(runs, chosen) >= max(1, _SHARE * _letters(runs, kept)):
                kept = chosen
        left = _letters(runs, kept)
        # The page may be nothing but a list of links, or its theme may name its content like a menu.
        return kept if left >= min(_LEFT_LETTERS, letters[0]) or left > _LEFT_SHARE * letters[0] else [True] * len(runs)

    def _figures(self, runs: Sequence[TextRun]) -> tuple[list[int], list[int], list[int], list[bool]]:
        """Count for each zone with all within it: letters, letters in links, in links within the page; any heading?"""
        size = len(self._kinds)
        letters, links, inner, titled = [0] * size, [0] * size, [0] * size, [False] * size
        for run in runs:
            letters[run.zone] += len(run.text)
            if run.link is not None:
                links[run.zone] += len(run.text)
                inner[run.zone] += len(run.text) if run.link.startswith("#") else 0
            titled[run.zone] |= run.level > 0
        for zone in range(size - 1, 0, -1):
            parent = self._parents[zone]
            letters[parent] += letters[zone]
            links[parent] += links[zone]
            inner[parent] += inner[zone]
            titled[parent] |= titled[zone]
        return letters, links, inner, titled

    def _content(self, letters: Sequence[int]) -> list[bool]:
        """Return for each zone whether it is in the marked content (``main``, else articles with most of the text)."""
        for kind, share in (("main", 0.0), ("article", 0.5)):
            marked = [False] * len(self._kinds)
            held = 0
            for zone in range(1, len(self._kinds)):
                inside = marked[self._parents[zone]]
                marked[zone] = inside or self._kinds[zone] == kind
                held += letters[zone] if marked[zone] and not inside else 0
            if held and (held >= share * letters[0] or (held >= _CONTENT_LETTERS and share == 0.0)):
                return marked
        return [False] * len(self._kinds)

    @staticmethod
    def _is_aside(kind: str, links: float, to_page: float, share: float, in_content: bool, titled: bool) -> bool:
        """Return whether a zone is not content.

        Args:
            kind: of the zone.
            links, to_page: shares of its letters in links, and in links within the page.
            share: of the page's letters that are in it.
            in_content: whether it is within the page's marked content.
            titled: whether it contains a heading.
        """
        if kind == "marks":
            return True
        if kind == "nav":
            return links > 0 or share < _FOOTER_SHARE
        if kind == "toc":
            return links >= _MANY_LINKS
        if kind == "box":
            return links >= _MANY_LINKS
        if kind == "list":
            return to_page >= _ALL_LINKS or (links >= _ALL_LINKS and not in_content)
        if kind == "aside":
            return links >= _MOSTLY_LINKS or (not in_content and share < _FOOTER_SHARE)
        if kind == "header":
            return links >= _MOSTLY_LINKS or (not in_content and not titled)
        if kind == "footer":
            return links >= _MOSTLY_LINKS or (not in_content and share < _FOOTER_SHARE)
        return False


def _letters(runs: Sequence[TextRun], kept: Sequence[bool]) -> int:
    return sum(len(run.text) for run, keep in zip(runs, kept, strict=True) if keep)
