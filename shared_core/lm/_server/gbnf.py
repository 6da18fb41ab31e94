"""Translate grammars from llguidance's Lark dialect to GBNF, the grammars of llama.cpp.

A grammar that llama.cpp cannot parse ends some of its servers (llama-cpp-python 0.3.36 dies of a segmentation fault),
so everything outside of the subset that is known to be written right is refused here. Repetitions are written out as
rules: llama.cpp refuses those above a limit of its own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

from shared_core.errors import GrammarError
from shared_core.lm.base import Grammar
from shared_core.support.regex import lazy_regex

_RULE = lazy_regex(r"^(\w+)(?:\.\d+)?:[ \t]*", re.MULTILINE)
_TOKEN = lazy_regex(
    r"""\s*("(?:[^"\\]|\\.)*"|/(?:[^/\\[]|\\.|\[(?:[^\]\\]|\\.)*\])+/|%regex|[A-Za-z_]\w*|\{\d+(?:,\d*)?\}|[()|&?*+])"""
)
_BOUNDS = lazy_regex(r"\{(\d+)(,?)(\d*)\}")
_MOST = 20_000
"""Rules of one grammar at most: beyond that llama.cpp takes seconds for each token."""
_TRIM = r"[^\s\x1c-\x1f]((?s:.)*[^\s\x1c-\x1f])?"
"""The only expression that a substring may be intersected with: it neither begins nor ends with white space."""
_SPACE = r" \t\n\r\x0B\x0C\u0085\u00A0\u1680\u2000-\u200A\u2028\u2029\u202F\u205F\u3000"  # Unicode's White_Space
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v"}


@lru_cache(maxsize=64)
def to_gbnf(grammar: Grammar) -> str:
    """Translate a grammar.

    Raises:
        GrammarError: it uses what GBNF cannot say, or what is not translated: tokens by id, rules with parameters,
            intersections other than the trimming of substrings, character classes but ``\\s``.

    >>> print(to_gbnf(Grammar('start: QUOTE "."?\\nQUOTE: "Yes" | "No"')))
    root ::= r-start
    x-0 ::= "." | ""
    r-start ::= r-QUOTE x-0
    r-QUOTE ::= "Yes" | "No"
    """
    return _Translation(grammar).text()


def _rule_name(name: str) -> str:
    return f"r-{name.replace('_', '-')}"  # Lark's names hold no hyphen


class _Translation:
    """Translation of one grammar."""

    def __init__(self, grammar: Grammar) -> None:
        self._name = grammar.name
        heads = list(_RULE.finditer(grammar.lark))
        ends = [*(h.start() for h in heads[1:]), len(grammar.lark)]
        self._bodies = {h[1]: grammar.lark[h.end() : end].strip() for h, end in zip(heads, ends)}
        before = grammar.lark[: heads[0].start()] if heads else grammar.lark
        if "start" not in self._bodies or before.strip():
            raise self._refuse("it does not begin with plain rules")
        self._lines: list[str] = []
        self._made = 0
        self._used = ["start"]  # in the order in which they are met

    def text(self) -> str:
        """Return the grammar in GBNF."""
        for name in self._used:  # grows meanwhile
            self._lines.append(f"{_rule_name(name)} ::= {self._body(self._bodies[name])}")
        if len(self._lines) > _MOST:
            raise self._refuse(f"it has {len(self._lines)} rules there, of which at most {_MOST} are sent")
        return "\n".join(["root ::= r-start", *self._lines])

    def _refuse(self, why: str) -> GrammarError:
        return GrammarError(
            f"The grammar {self._name!r} cannot be written for llama.cpp: {why}.",
            hint="Use a transformers model, or vLLM with the guidance backend.",
        )

    def _rule(self, body: str) -> str:
        """Add a rule and return its name."""
        name = f"x-{self._made}"
        self._made += 1
        self._lines.append(f"{name} ::= {body}")
        return name

    # --- rules of Lark -----------------------------------------------------------------------------------------

    def _body(self, body: str) -> str:
        trimmed = re.fullmatch(r"(\w+) & /(.*)/", body, re.DOTALL)
        if trimmed:
            if trimmed[2] != _TRIM:
                raise self._refuse("it intersects expressions")
            pieces = [self._chunks(self._body_of(n.strip())) for n in self._body_of(trimmed[1]).split("|")]
            return " | ".join(start for chunks in pieces for start in self._substrings(chunks))
        tokens = list(self._tokens(body))
        translated = self._alternatives(tokens, self._atom)
        if tokens:
            raise self._refuse(f"{tokens[0]!r} was not expected")
        return translated

    def _body_of(self, name: str) -> str:
        if name not in self._bodies:
            raise self._refuse(f"there is no rule {name!r}")
        return self._bodies[name]

    def _tokens(self, body: str) -> Iterator[str]:
        at = 0
        while at < len(body):
            found = _TOKEN.match(body, at)
            if found is None or found[1] in ("%regex", "&"):
                raise self._refuse(f"{body[at : at + 20].strip()!r} has no counterpart in GBNF")
            yield found[1]
            at = found.end()

    def _alternatives(self, tokens: list[str], atom: Callable[[list[str]], str]) -> str:
        """Translate ``a b | c`` up to a closing bracket or the end; ``tokens`` is used up."""
        options: list[str] = []
        items: list[str] = []
        while tokens and tokens[0] != ")":
            if tokens[0] == "|":
                tokens.pop(0)
                options.append(" ".join(items) or '""')
                items = []
                continue
            items.append(self._repeated(atom(tokens), tokens))
        return " | ".join([*options, " ".join(items) or '""'])

    def _group(self, tokens: list[str], atom: Callable[[list[str]], str]) -> str:
        inner = self._alternatives(tokens, atom)
        if not tokens or tokens.pop(0) != ")":
            raise self._refuse("a bracket is not closed")
        return self._rule(inner)

    def _atom(self, tokens: list[str]) -> str:
        token = tokens.pop(0)
        if token[0] == '"':
            return self._literal(json.loads(token))
        if token[0] == "/":
            return self._expression(token[1:-1])
        if token == "(":
            return self._group(tokens, self._atom)
        if token[0].isalpha() or token[0] == "_":
            self._body_of(token)
            if token not in self._used:
                self._used.append(token)
            return _rule_name(token)
        raise self._refuse(f"{token!r} was not expected")

    def _repeated(self, item: str, tokens: list[str]) -> str:
        """Apply the quantifier that stands next, if there is one."""
        bounds = _BOUNDS.fullmatch(tokens[0]) if tokens else None
        if bounds is None and (not tokens or tokens[0] not in ("?", "*", "+")):
            return item
        token = tokens.pop(0)
        if bounds is None:
            least, most = {"?": (0, 1), "*": (0, None), "+": (1, None)}[token]
        else:
            least = int(bounds[1])
            most = int(bounds[3]) if bounds[3] else None if bounds[2] else least
        if max(least, most or 0) > _MOST:
            raise self._refuse(f"{token} repeats too often")
        required = [item] * least
        if most is None:
            name = f"x-{self._made}"
            return " ".join([*required, self._rule(f'{item} {name} | ""')])
        tail = ""
        for _ in range(most - least):
            tail = self._rule(" ".join(filter(None, [item, tail, '| ""'])))
        return " ".join([*required, *([tail] if tail else [])])

    def _literal(self, text: str) -> str:
        return f'"{"".join(map(self._character, text))}"'

    def _character(self, char: str) -> str:
        if not char or char == "\0" or "\ud800" <= char <= "\udfff":
            raise self._refuse("it holds a character that llama.cpp cannot take")
        if char in '\\"[]-':
            return f"\\{char}" if char != "-" else "-"
        return f"\\x{ord(char):02X}" if char < " " or char == "\x7f" else char

    # --- substrings --------------------------------------------------------------------------------------------

    def _chunks(self, body: str) -> list[str]:
        found = re.fullmatch(r"%regex\s*(\{.*\})", body, re.DOTALL)
        try:
            chunks = json.loads(found[1])["substring_chunks"] if found else None
        except (ValueError, KeyError):
            chunks = None
        if not isinstance(chunks, list) or not all(isinstance(c, str) and c for c in chunks):
            raise self._refuse("it intersects something else than substrings")
        return chunks

    def _substrings(self, chunks: Sequence[str]) -> list[str]:
        """Add rules for the substrings made of whole chunks; return where one that is not blank may begin.

        From each chunk on: the chunk, then nothing or the white space up to the next one and that. So the grammar
        is as long as the text.
        """
        starts: list[str] = []
        following, gap = "", ""
        for chunk in reversed(chunks):
            if chunk.isspace():
                gap = chunk + gap
                continue
            rest = ""
            if following:
                between = f"{self._literal(gap)} " if gap else ""
                rest = " " + self._rule(f'{between}{following} | ""')
            following, gap = self._rule(f"{self._literal(chunk)}{rest}"), ""
            starts.append(following)
        return starts[::-1]

    # --- regular expressions -----------------------------------------------------------------------------------

    def _expression(self, pattern: str) -> str:
        tokens = self._split(pattern)
        translated = self._alternatives(tokens, self._regex_atom)
        if tokens:
            raise self._refuse(f"/{pattern}/ is not balanced")
        return self._rule(translated)

    def _split(self, pattern: str) -> list[str]:
        piece = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]|\\.|\{\d+(?:,\d*)?\}|\(\?s:\.\)|\(\?:|.", re.DOTALL)
        return ["(" if p == "(?:" else p for p in piece.findall(pattern)]

    def _regex_atom(self, tokens: list[str]) -> str:
        token = tokens.pop(0)
        if token == "(":
            if tokens[:1] == ["?"]:
                raise self._refuse("it holds a group with flags")
            return self._group(tokens, self._regex_atom)
        if token == "(?s:.)":
            return "."
        if token == ".":
            return r"[^\n]"
        if token == r"\s":
            return f"[{_SPACE}]"
        if token[0] == "[" and len(token) > 1:
            return self._class(token[1:-1])
        if len(token) == 1 and token in "^$?*+{}":
            raise self._refuse(f"{token!r} was not expected in an expression")
        return self._literal(self._plain(token))

    def _class(self, inside: str) -> str:
        """Translate a character class; its escapes and ranges are those of both."""
        negated = "^" if inside.startswith("^") else ""
        out = []
        for part in re.findall(r"\\x[0-9A-Fa-f]{2}|\\.|.", inside[len(negated) :], re.DOTALL):
            if part == r"\s":
                out.append(_SPACE)
            elif part == "-" or part.startswith(r"\x"):
                out.append(part)
            else:
                char = self._plain(part)
                out.append(r"\x5E" if char == "^" else r"\x2D" if char == "-" else self._character(char))
        return f"[{negated}{''.join(out)}]"

    def _plain(self, token: str) -> str:
        """Return the character that a token of an expression stands for."""
        if token[0] != "\\":
            return token
        if token[1] in _ESCAPES:
            return _ESCAPES[token[1]]
        if token[1].isalnum():
            raise self._refuse(f"{token} has no counterpart in GBNF")
        return token[1]
