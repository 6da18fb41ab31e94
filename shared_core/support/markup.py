"""Find what the reader of a page does not see of marked-up text: targets of links and images, tags of HTML."""

from __future__ import annotations

import re
from collections.abc import Callable

from shared_core.support.regex import lazy_regex

_LINK = lazy_regex(
    r"""(?<![\w\])])(?P<open>!?\[)(?P<label>(?>(?:[^\[\]]|\[[^\[\]]*\](?:\([^()\s]*\))?)*))\]  # not a[i](x)
    \((?=[^()\s]*[/\#.:])(?:<[^<>\n]*>|(?>(?:[^()\s]|\([^()\s]*\))*))
    (?:[ \t]+(?:"[^"\n]*"|'[^'\n]*'))?\)(?:\{[^{}\n]*\})?""",
    re.VERBOSE,
)
_TAG = lazy_regex(
    r"""</?(?:abbr|[abipsu]|br|center|code|del|div|em|font|h[1-6]|hr|img|ins|kbd|li|[ou]l|small|span|strong|su[bp]|table
    |tbody|t[dhr]|thead|tt)(?:\s[^<>=]*+=[^<>]*+|\s*+/?)>""",
    re.VERBOSE | re.IGNORECASE,
)
_WEB_LINK = lazy_regex(
    r"""!?\[(?P<label>(?>(?:[^\[\]]|\[[^\[\]]*\])*))\]
    \(\s*<?(?P<target>(?:[A-Za-z][\w+.-]{0,20}:|//)(?>(?:[^()\s<>]|\([^()\s<>]*\))*))>?
    (?:\s+(?:"[^"\n]*"|'[^'\n]*'))?\s*\)""",
    re.VERBOSE,
)
_NESTED = 3  # an image within a link
_VISIBLE = lazy_regex(r"\S")


def blank_unseen(text: str) -> str:
    """Return a text of the same length with spaces for what is not seen: networks read it better, and sooner.

    >>> blank_unseen("See [the list](../a.md#b), <b>or</b> a[i](x.y).").split()
    ['See', 'the', 'list', ',', 'or', 'a[i](x.y).']
    """
    if "](" in text:
        text = _LINK.sub(_keep_label, text)
    return _TAG.sub(_blank, text) if "<" in text and ">" in text else text


def edit_links(text: str, edit: Callable[[str, str], str]) -> str:
    """Replace the links and images of a Markdown text that lead to the web (or run something) by others.

    ``edit`` returns what is to stand there for a label and a target.

    >>> edit_links("See [the list](http://a.b/c) and [this](d.md).", lambda label, target: label)
    'See the list and [this](d.md).'
    """
    for _ in range(_NESTED):
        before = text
        text = _WEB_LINK.sub(lambda link: edit(link["label"], link["target"]), text) if "](" in text else text
        if text == before:
            break
    return text


def _keep_label(link: re.Match[str]) -> str:
    label = blank_unseen(link["label"])
    rest = link[0][len(link["open"]) + len(label) :]
    return " " * len(link["open"]) + label + _VISIBLE.sub(" ", rest)


def _blank(match: re.Match[str]) -> str:
    return _VISIBLE.sub(" ", match[0])
