"""Grammars in GBNF say what they say in Lark; what cannot be said there is refused before a server sees it."""

from __future__ import annotations

import json
import re
from functools import cache

import pytest

from shared_core.citation import AnswerFormat, CitationIndex
from shared_core.errors import GrammarError
from shared_core.lm._server.gbnf import to_gbnf
from shared_core.lm.base import Grammar
from shared_core.types import Passage

PASSAGES = [
    Passage("a", 'The Tide Museum was founded in 1877. It has 94 "members" [1] – naïve.\n\nNew-ish para.'),
    Passage("b", "He saw A^b \\ c once. Second one! 日本語です。\ttab"),
]


def accepts(grammar: Grammar, text: str) -> bool:
    """Whether a grammar's GBNF writes the text, by a regular expression made of its rules."""
    rules = dict(line.split(" ::= ", 1) for line in to_gbnf(grammar).split("\n"))

    @cache
    def expression(name: str) -> str:
        out = []
        for token in re.findall(r'"(?:[^"\\]|\\.)*"|\[(?:[^\]\\]|\\.)*\]|[\w-]+|\||\S', rules[name]):
            if token[0] == '"':
                out.append(re.escape(_unescaped(token[1:-1])))
            elif token[0] == "[":
                out.append(token)
            else:
                out.append(f"(?:{expression(token)})" if token in rules else token)
                assert token in rules or token in "|.", token
        return "".join(out)

    return re.fullmatch(expression("root"), text, re.DOTALL) is not None


def _unescaped(literal: str) -> str:
    escape = re.compile(r"\\x([0-9A-F]{2})|\\(.)")
    return escape.sub(lambda m: chr(int(m[1], 16)) if m[1] else m[2], literal)


def test_sentences() -> None:
    index = CitationIndex(PASSAGES)
    first, second, third = (s.text for s in index.sentences[:3])
    one, several = index.grammar(max_sentences=1), index.grammar(max_sentences=3, open_tag="<q>", close_tag="</q>")
    assert all(accepts(one, s.text) for s in index.sentences)
    assert not any(accepts(one, t) for t in ("", first[:-1], f"{first} {second}", first.lower()))
    assert accepts(several, f"<q>{second}\n\n{third}</q>")
    assert accepts(several, f"<q>{third} {first}</q>")
    assert not accepts(several, f"<q>{first}\n\n{third}</q>")
    assert not accepts(several, "<q></q>")


def test_spans() -> None:
    grammar = CitationIndex(PASSAGES).grammar("span")
    for text in ("Tide Museum", "[1] – naïve.\n\nNew-ish", "94", "A^b \\ c", "日本語", PASSAGES[0].text):
        assert accepts(grammar, text)
    for text in ("", " ", "Tide  Museum", "Museum ", " Tide", "tide", "para. A^b", "\n\nNew"):
        assert not accepts(grammar, text)
    assert not accepts(grammar, "useu")


def test_whole_answers() -> None:
    form = AnswerFormat()
    grammar = CitationIndex(PASSAGES, layout=form).answer_grammar(max_pairs=2, max_claim_chars=12)
    quote = "Second one!"

    def pair(claim: str) -> str:
        return f"{form.prefix}{quote}{form.middle}{claim}{form.suffix}"

    assert accepts(grammar, pair("It is so."))
    assert accepts(grammar, pair("1 < 2 it is") + form.joiner + pair("x"))
    for claim in ("", "more than twelve", "a\nb", " a", "</claim>", "<claim>x"):
        assert not accepts(grammar, pair(claim))


def test_repetitions() -> None:
    grammar = Grammar('start: "a"+ ("b" | "c"){2,3} "d"{2} /[x-z^-]{1,2}\\./ E?\nE: "!"')
    assert accepts(Grammar('start: ("a" | "b")?'), "")
    with pytest.raises(RecursionError):  # without an end, so it has no expression here
        accepts(grammar, "a")
    bounded = Grammar(grammar.lark.replace("+", "{1,3}"))
    for text in ("abbddx.", "aaabcbddz-.!", "abcdd^.!"):
        assert accepts(bounded, text)
    for text in ("bbddx.", "abddx.", "abbdx.", "abbdd.", "abbddxyz.", "abbddx.!!", "abbddx"):
        assert not accepts(bounded, text)


@pytest.mark.parametrize("lark", [
    'start: "a" <[7]>', 'start: a::0x0\na::_: "x" %if bit_clear(0)', 'start: "a" & "b"', "start: /[a-z]+/ & /.*b/",
    "start: /\\w+/", "start: /\\d/", "start: /(?i:a)/", 'start: "a\\u0000b"', "start: missing", 'start: ("a"',
    '%llguidance {}\nstart: "a"', 'other: "a"', 'start: "a"{1,99999}',
])  # fmt: skip
def test_what_gbnf_cannot_say_is_refused(lark: str) -> None:
    with pytest.raises(GrammarError, match="'odd'") as caught:
        to_gbnf(Grammar(lark, name="odd"))
    assert caught.value.hint


def test_hostile_text_stays_text() -> None:
    text = 'He said "x" ::= [a] | \\u0041 # no\r\nroot ::= "y"\x07.'
    grammar = Grammar(f"start: S\nS: {json.dumps(text)}")
    assert accepts(grammar, text)
    assert not accepts(grammar, "y")
    assert to_gbnf(grammar).count("\n") == 2
