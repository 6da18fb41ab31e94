"""Read reStructuredText as the page that Sphinx or docutils makes of it: parsed by docutils, then read as HTML.

Directives and roles that docutils does not know (those of Sphinx and its extensions) are recognised by what they hold:
a name with a description becomes a term with its definition.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from docutils import core, nodes
from docutils.parsers.rst import Directive, Parser, directives, roles
from docutils.statemachine import StringList
from docutils.transforms import Transform

from shared_core.documents.loaders.extracted import RAISED, Budget, Extracted, Problem, one_line, titled
from shared_core.documents.loaders.html import read_html
from shared_core.documents.loaders.numbering import Level
from shared_core.documents.loaders.text import load_text
from shared_core.support.regex import lazy_regex

_DIRECTIVE = lazy_regex(r"\.\.[ \t]+(?:\|[^|\n]+\|[ \t]+)?([\w:+.-]+?)[ \t]?::(?=\s|\Z)")
_ROLE = lazy_regex(r":([A-Za-z][\w:+.-]*):`|`:([A-Za-z][\w:+.-]*):")
_HEADER = lazy_regex(r"(?>(?:[A-Z][\w-]*+:[ \t][^\n]*+\n(?>(?:[ \t]++[^\n]*+\n)*)){3,})\n")
"""Fields at the beginning, as those of a PEP."""
_SETTINGS = {
    "_disable_config": True,  # a docutils.conf in the folder this runs in
    **dict.fromkeys(("file_insertion_enabled", "raw_enabled", "doctitle_xform", "docinfo_xform"), False),
    **dict.fromkeys(("embed_stylesheet", "section_self_link"), False),
    **dict.fromkeys(("strip_comments", "trim_footnote_reference_space"), True),
    **dict.fromkeys(("report_level", "halt_level"), 5),
    "initial_header_level": "1",
    "line_length_limit": 2**31,
    "math_output": "LaTeX",
    "syntax_highlight": "none",
    "stylesheet_path": None,
    "table_style": "",
}
_TARGET = lazy_regex(r"(.+?)\s*(?<!\\)<[^<>]*>", re.DOTALL)
_EXPLICIT = frozenset(  # roles that show their text as it is
    "abbr command dfn file guilabel kbd mailheader makevar manpage menuselection mimetype newsgroup program "
    "regexp samp math code literal strong emphasis sub sup subscript superscript title title-reference".split()
)
_OWN_ROLES = frozenset(
    "code emphasis literal math pep rfc strong sub subscript sup superscript title title-reference".split()
)
_NUMBER = lazy_regex(r"#?\d+")
_MENU = lazy_regex(r"\s*-->\s*")
_ADMONITIONS = frozenset("attention caution danger error hint important note tip warning seealso".split())
_TITLED = frozenset(("admonition", "topic", "sidebar"))
_OTHER_FORMATS = frozenset("latex man texinfo text epub xml gettext docx".split())
_VERSIONS = {
    **dict.fromkeys(("versionadded", "version-added"), "New in version"),
    **dict.fromkeys(("versionchanged", "version-changed"), "Changed in version"),
    **dict.fromkeys(("deprecated", "version-deprecated", "deprecated-removed"), "Deprecated since version"),
    **dict.fromkeys(("versionremoved", "version-removed"), "Removed in version"),
}
_CODE = frozenset(
    "code code-block sourcecode highlight parsed-literal prompt console doctest testcode testoutput productionlist "
    "ipython jupyter-execute literal".split()
)
_CONTENT = frozenset(
    "admonition container compound only ifconfig topic sidebar rst-class class cssclass hlist tab-set tabs "
    "glossary".split()
)
_HIDDEN = frozenset(  # what a page does not show as text
    "contents toctree include literalinclude raw image figure-md index highlight currentmodule py:currentmodule module "
    "py:module sectionauthor codeauthor moduleauthor tabularcolumns default-domain default-role role program meta "
    "target-notes sectnum header footer testsetup testcleanup plot graphviz digraph graph mermaid todo "
    "inheritance-diagram automodule title date".split()
)
_OWN = frozenset(
    "csv-table epigraph figure highlights line-block list-table math pull-quote replace rubric table unicode".split()
)
_FIELDS = frozenset("type default value values choices required aliases minimum maximum range".split())
"""Options of a described name that its page shows."""
_REFERENCE = lazy_regex(r"`?([^`<>]+?)(?:[ ]<[^<>]*>)?`?__?")
"""A link whose target is not in the file."""
_PARAMETERS = frozenset("param parameter arg argument key keyword var ivar cvar attr".split())
_KINDS = {"raises": "Raises", "raise": "Raises", "returns": "Returns", "return": "Returns", "rtype": "Return type",
          "type": "Type of", "yields": "Yields"}  # fmt: skip
_NUMBERS = {
    "arabic": "decimal",
    "loweralpha": "lowerLetter",
    "upperalpha": "upperLetter",
    "lowerroman": "lowerRoman",
    "upperroman": "upperRoman",
}
_UNSHOWN = frozenset("orphan tocdepth nocomments no-search nosearch meta".split())


class _AnyOption(dict[str, Callable[[str], str]]):
    """Accept each option of a directive as it is."""

    def __missing__(self, name: str) -> Callable[[str], str]:
        return str


class _Generic(Directive):  # type: ignore[misc]
    """A directive of which only the name, the first lines, the options and the content are known."""

    optional_arguments = 1
    final_argument_whitespace = True
    has_content = True
    option_spec: ClassVar = _AnyOption({"class": str})

    def run(self) -> Sequence[nodes.Node]:
        """Return the nodes that stand for it."""
        name = self.name.lower()
        argument = "\n".join(self.arguments)
        if name in _CODE:
            return self._code(argument)
        if name in _VERSIONS:
            return self._version(_VERSIONS[name], argument)
        if name == "only" and not _is_for_html(argument):
            return []
        if name in _ADMONITIONS or name in _CONTENT:
            label = "See also" if name == "seealso" else name.capitalize()
            found = self._parsed([*([argument, ""] if name in _ADMONITIONS | _TITLED else []), *self.content])
            return _labelled(f"{label}: ", found) if name in _ADMONITIONS else found
        if name in _HIDDEN or name.startswith("auto"):
            return self._parsed(self.content) if name.startswith("auto") else []
        return self._described(argument)

    def _parsed(self, lines: Iterable[str]) -> list[nodes.Node]:
        holder = nodes.container()
        block = self.content if lines is self.content else StringList(list(lines), source="")
        self.state.nested_parse(block, self.content_offset, holder, match_titles=False)
        return list(holder.children)

    def _code(self, argument: str) -> list[nodes.Node]:
        code = "\n".join(self.content) or argument
        caption = self.options.get("caption", "").strip()
        above = [nodes.paragraph("", caption)] if caption else []
        return [*above, nodes.literal_block(code, code)] if code.strip() else []

    def _version(self, said: str, argument: str) -> list[nodes.Node]:
        version, *rest = argument.split(None, 2 if self.name.endswith("-removed") else 1) or [""]
        found = self._parsed([*([rest[-1], ""] if rest else []), *self.content])
        return _labelled(f"{said} {version}: ", found) or [nodes.paragraph("", f"{said} {version}.")]

    def _described(self, argument: str) -> list[nodes.Node]:
        """Return a term with its definition; nothing for what only marks a place."""
        fields = [f"{name.capitalize()}: {value}" for name, value in self.options.items() if name in _FIELDS and value]
        body = self._parsed([*(line for field in fields for line in (field, "")), *self.content])
        if not argument or not body:
            return body
        item = nodes.definition_list_item()
        for line in re.sub(r"\\\n\s*", "", argument).splitlines():
            parsed, messages = self.state.inline_text(line.strip(), self.lineno)
            item += nodes.term("", "", *(parsed if "`" in line else [nodes.Text(line.strip().replace("\\", ""))]))
            body += messages
        item += nodes.definition("", *body)
        return [nodes.definition_list("", item)]


def _labelled(label: str, found: Sequence[nodes.Node]) -> list[nodes.Node]:
    """Put a label before the first paragraph, or on a line of its own."""
    if not found:
        return []
    if isinstance(found[0], nodes.paragraph):
        found[0].insert(0, nodes.Text(label))
        return list(found)
    return [nodes.paragraph("", label.strip()), *found]


def _role(
    name: str,
    rawtext: str,
    text: str,
    lineno: int,
    inliner: object,
    options: Mapping[str, Any] | None = None,
    content: Sequence[str] = (),
) -> tuple[list[nodes.Node], list[nodes.Node]]:
    """Return what a page shows of a role: the text before a target, the last part of ``~a.b.c``."""
    kind = name.rpartition(":")[2].lower()
    shown = nodes.unescape(text)
    if kind == "menuselection":
        shown = _MENU.sub(" ‣ ", shown)
    elif kind in ("file", "samp"):
        shown = re.sub(r"\{([^{}]*)\}", r"\1", shown)
    elif kind not in _EXPLICIT:
        if titled := _TARGET.fullmatch(shown):
            shown = titled[1]
        elif shown.startswith("~"):
            shown = shown.lstrip("~.").rpartition(".")[2]
        elif _NUMBER.fullmatch(shown) and kind not in ("ref", "doc", "numref", "term"):
            shown = f"{kind} {shown}"
        else:
            shown = shown.lstrip("!.") or shown
    return [nodes.inline(rawtext, one_line(shown))], []


def _replace(node: nodes.Node, others: nodes.Node | Sequence[nodes.Node]) -> None:
    """Put others in a node's place; links to it are lost, which no text shows."""
    node.parent.replace(node, others)


class _KeepSource(Transform):  # type: ignore[misc]
    """Show the source of what docutils refuses, such as a crooked table, in its place."""

    default_priority = 1

    def apply(self) -> None:
        for message in list(self.document.findall(nodes.system_message)):
            kept = [child for child in message.children if isinstance(child, nodes.literal_block)]
            if kept and message.parent is not None:
                _replace(message, kept)


class _Simplify(Transform):  # type: ignore[misc]
    """Write out what pages show by style sheets, or by links."""

    default_priority = 860  # after references are resolved, and before messages are left out

    def apply(self) -> None:
        for problem in list(self.document.findall(nodes.problematic)):
            _replace(problem, nodes.Text(_REFERENCE.sub(r"\1", problem.astext())))
        for mark in list(self.document.findall(nodes.footnote_reference)):
            number = mark.astext()
            _replace(mark, nodes.Text(number.translate(RAISED)) if number.isdecimal() else nodes.Text(f"[{number}]"))
        for note in [*self.document.findall(nodes.footnote), *self.document.findall(nodes.citation)]:
            _replace(note, _labelled(f"[{note[0].astext()}] ", note.children[1:]))
        for kind in list(self.document.findall(nodes.classifier)):
            kind.parent[0] += nodes.Text(f" : {kind.astext()}")
            kind.parent.remove(kind)
        for quote in list(self.document.findall(nodes.block_quote)):
            _define(quote)
        for fields in list(self.document.findall(nodes.field_list)):
            _replace(fields, [node for one in fields.children for node in _field(one)])
        for numbered in self.document.findall(nodes.enumerated_list):
            level = Level(1, _NUMBERS[numbered["enumtype"]], "")
            for number, item in enumerate(numbered.children, numbered.get("start", 1)):
                written = f"{numbered['prefix']}{level.write(number, decimals=False)}{numbered['suffix']} "
                item[:] = _labelled(written, item.children)
        for item in list(self.document.findall(nodes.list_item)):
            if item.children and isinstance(item[0], nodes.paragraph):  # a line, not a paragraph
                _replace(item[0], item[0].children)


def _is_for_html(tags: str) -> bool:
    """Return whether a page for browsers has what ``only`` holds; tags that a configuration may set are taken as set.

    >>> [_is_for_html(tags) for tags in ("html", "latex or man", "not html", "html and draft")]
    [True, False, False, True]
    """

    def holds(tag: str) -> bool:
        tag = tag.strip(" ()")
        name = tag.removeprefix("not ")
        return (tag != name) == (name in _OTHER_FORMATS) if name in _OTHER_FORMATS | {"html"} else True

    return any(all(holds(tag) for tag in part.split(" and ")) for part in tags.split(" or "))


def _define(quote: nodes.block_quote) -> None:
    """Make an indented block the definition of the literal or the bold words above it, if these stand alone."""
    place = quote.parent.index(quote)
    above = quote.parent[place - 1] if place else None
    if isinstance(above, nodes.paragraph) and len(above) == 1 and isinstance(above[0], (nodes.literal, nodes.strong)):
        term, definition = nodes.term("", "", *above.children), nodes.definition("", *quote.children)
        quote.parent.remove(above)
        _replace(quote, nodes.definition_list("", nodes.definition_list_item("", term, definition)))


def _field(field: nodes.field) -> list[nodes.Node]:
    """Return a field as a paragraph with its name before it; nothing for those that tell Sphinx what to do."""
    kind, _, name = field[0].astext().strip().partition(" ")
    if kind in _UNSHOWN:
        return []
    *of, name = name.split() or [""]
    if kind in _PARAMETERS and name:
        label = f"{name} ({' '.join(of)})" if of else name
    else:
        label = " ".join(filter(None, (_KINDS.get(kind, kind), *of, name)))
    return _labelled(f"{label}: ", field[1].children) or [nodes.paragraph("", label)]


class _Parser(Parser):  # type: ignore[misc]
    def get_transforms(self) -> list[type[Transform]]:
        return [*super().get_transforms(), _KeepSource, _Simplify]


def read_rst(data: bytes, budget: Budget) -> Extracted:
    """Read a reStructuredText file: headings, definitions, tables, code; DocumentError if it takes too long."""
    text = data.decode()
    try:
        body = _body(text)
    except MemoryError:
        raise
    except Exception as error:  # docutils stumbles over what nobody has tried: nesting without end
        problem = Problem(
            f"docutils cannot read it ({type(error).__name__}), so it is read as plain text",
            "Look at what `docutils FILE` says.",
        )
        return replace(load_text(text), problems=(problem,))
    return titled(read_html(f"<html><body><main>{body}</main></body></html>", budget))


def _body(text: str) -> str:
    """Return the HTML of a file, without what docutils cannot know as errors."""
    for name in {m[1].lower() for m in _DIRECTIVE.finditer(text)} - _OWN:
        directives.register_directive(name, _Generic)
    for name in {(m[1] or m[2]).lower() for m in _ROLE.finditer(text)} - _OWN_ROLES:
        roles.register_local_role(name, _role)
    parser = _Parser(rfc2822=_HEADER.match(text) is not None)
    return str(core.publish_parts(text, parser=parser, writer="html5", settings_overrides=_SETTINGS)["body"])
