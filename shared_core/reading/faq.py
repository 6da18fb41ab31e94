"""Answer with what a document says below a heading that asks the same question, as lists of frequent questions have.

The network chooses a sentence of it, often not the one that answers, or is not sure of any.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from shared_core.citation.english import AUXILIARIES
from shared_core.citation.sentences import split_sentences
from shared_core.reading.candidates import Candidate, log_sum
from shared_core.reading.item_lists import lists_of
from shared_core.reading.list_requests import LONGEST_LIST, asks_how
from shared_core.reading.places import above, heading_above, innermost, source_of
from shared_core.reading.questions import drop_parentheses, only_refers
from shared_core.reading.synonyms import named_stems, relates_alike
from shared_core.support.regex import lazy_regex
from shared_core.types import Passage

LONGEST_ANSWER = 700
"""Characters of a paragraph that is quoted whole; of a longer one, its first sentences."""
_SAME = 2
"""How much surer than another definition it is: as sure as a list whose heading names just what is asked."""
_LINE = lazy_regex(r"(?P<mark>[ \t>]*#{1,6}[ \t]+)?(?P<asked>\S.*?)[ \t]*(?:\{#[\w-]+\})?[ \t]*$", re.MULTILINE)
_LABEL = lazy_regex(r"[\W_]*(?:(?:Q|Question)[ \t]?\d{0,3}[*_]*[.:)]|\d{1,3}(?:\.\d{1,3})*[.)])?[\W_]*", re.IGNORECASE)
"""What comes before a question in a heading: its number, "Q:"."""
_GOES_ON = ("...", "…")
_RULE = lazy_regex(r"[ \t]*([=~^\"'`+*_-])\1{2,}[ \t]*$", re.MULTILINE)
_FENCE = lazy_regex(r"(?:[ \t]*[`~]{3,}[^\n]*)?\s*")
_BLANK_LINE = lazy_regex(r"\n[ \t]*\n")
_KIND = lazy_regex(
    r"\b(?:(?P<how>how (?:many|much|long|often|old|far|big|large|high|tall|deep|heavy|fast|soon|late|early|likely)|how)"
    r"|(?P<what>what|which)|(?P<other>who|whom|whose|when|where|why))\b",
    re.IGNORECASE,
)
_YES_OR_NO = lazy_regex(rf"(?:\A|[.!?:;,]\s)[\W_]*(?:{AUXILIARIES}|might|shall|am)\b", re.IGNORECASE)
_PURPOSE = lazy_regex(r"\s(?:in order |so as )?to (?:get|make|have|let|allow|avoid|prevent|fix|be)\b.*", re.DOTALL)
"""What a heading may add: "How do I raise the limit to get the watcher to work?"."""
_SPELT_OUT = lazy_regex(r"\b[A-Z][A-Z0-9]{1,6}\s\(([^()]+)\)")
_NEGATED = lazy_regex(r"\b(?:not|no|never|without|cannot)\b|n['’]t\b", re.IGNORECASE)


def asks_same(question: str, heading: str, context: str = "") -> bool:
    """Return whether a heading asks the same as a question: of the same things, and the same about them.

    >>> asks_same("How can I pause a folder?", "How do I pause folders?"), asks_same("Is it on?", "When is it on?")
    (True, False)
    >>> asks_same("How do I raise the limit?", "How do I raise the limit to make it work?")
    True
    >>> asks_same("Is there a limit in Vessen?", "Is there a limit?", context="Vessen")
    True

    Args:
        context: title and headings above it, whose words the question may add.
    """
    above_it, contents = named_stems(context), _contents(question)
    namings = (named_stems(text) for text in (heading, _PURPOSE.sub("", heading)))
    if not any(own and own <= content <= own | above_it for own in namings for content in contents):
        return False
    asks = heading.rstrip("*_ \t").endswith("?") or asks_how(heading)
    alike = _kind_of(question) == _kind_of(heading) != "" and relates_alike(question, heading, ordered=True)
    return asks and alike and bool(_NEGATED.search(question)) == bool(_NEGATED.search(heading))


def find_faq(question: str, passages: Sequence[Passage]) -> dict[int, tuple[int, int]]:
    """Return the passages with a heading that asks the same as the question, each with the stretch that answers it.

    That is the first paragraph below, with the list that it leads in, or the first list or block of code.
    """
    found = ((i, _answer_in(question, passage)) for i, passage in enumerate(passages))
    return {i: stretch for i, stretch in found if stretch is not None}


def join_faq(
    question: str, faq: dict[int, tuple[int, int]], passages: Sequence[Passage], candidates: Sequence[Candidate]
) -> list[Candidate]:
    """Replace the sentences of what ``find_faq`` found by all of it, which counts as a definition of what is asked.

    Args:
        passages: that the candidates number.
        candidates: best first; so is the result.
    """
    out = [*candidates]
    for number, (start, end) in faq.items():
        text = passages[number].text
        inside = [c for c in out if c.passage == number and start <= c.start and c.end <= end]
        said = [c for c in inside if not only_refers(text[c.start : c.end], question, innermost(passages[number]))]
        if not said or max(c.defines for c in said) < 0:
            continue
        if all(one.start != start for one in lists_of(text)):  # of a paragraph, without directives at its edges
            start, end = min(c.start for c in inside), max(c.end for c in inside)
        score = log_sum(np.array([c.score for c in inside]))
        whole = replace(max(inside, key=lambda c: c.score), start=start, end=end, score=score, defines=_SAME)
        out = [c for c in out if not any(c is other for other in inside)]
        out.append(replace(whole, joined=len(inside) > 1))
    return sorted(out, key=lambda c: -c.score)


def _contents(question: str) -> list[frozenset[int]]:
    """Return the codes of its content words, without an abbreviation beside what it stands for, or without that."""
    spelt = drop_parentheses(question), _SPELT_OUT.sub(r"\1", question)
    return [named_stems(text) for text in dict.fromkeys(spelt)]


def _kind_of(text: str) -> str:
    """Return what kind of question it is; "" if it is none."""
    if asks_how(text):
        return "how to"
    found = _KIND.search(text)
    yes_or_no = _YES_OR_NO.search(text)
    if yes_or_no and (found is None or yes_or_no.start() < found.start()):
        return "yes or no"
    if found is None:
        return ""
    return "what" if found["what"] else found[0].lower()


def _answer_in(question: str, passage: Passage) -> tuple[int, int] | None:
    text = passage.text
    context = f"{above(passage)}\n{source_of(passage)}"
    for line in _LINE.finditer(text):
        asked = _LABEL.sub("", line["asked"], count=1)
        if line["asked"].startswith(_GOES_ON):  # "How do I…", and below it "…add a user?"
            asked = f"{heading_above(passage).rstrip('.… ')} {asked}"
        is_line = line["mark"] or asked.rstrip("*_ \t").endswith("?") or asked == innermost(passage)
        if is_line and len(asked) <= 200 and asks_same(question, asked, context):
            return _block_at(text, line.end())
    return None


def _block_at(text: str, at: int) -> tuple[int, int] | None:
    """Return the first block of a text that says something, from an offset on; ``None`` if a heading comes first."""
    lists = lists_of(text)
    while at < len(text):
        at += len(text[at:]) - len(text[at:].lstrip())
        rule = _RULE.match(text, at)
        if rule:
            at = rule.end()
            continue
        found = next((one for one in lists if one.lead <= at <= one.start), None)
        if found and _FENCE.fullmatch(text, at, found.start):
            return found.start, found.end
        start, blank = at, _BLANK_LINE.search(text, at)
        end = blank.start() if blank else len(text)
        paragraph = text[start:end]
        if not paragraph.strip() or paragraph.startswith("#") or paragraph.rstrip("*_ \t").endswith("?"):
            return None
        following = next((one for one in lists if one.lead <= start < one.start), None)
        if following and following.kind != "code" and following.end - start <= LONGEST_LIST:
            return start, following.end
        if paragraph.rstrip().endswith(":") and "\n" not in paragraph.strip() and len(split_sentences(paragraph)) == 1:
            at = end  # it only leads in what comes next
            continue
        return start, _cut(text, start, end)
    return None


def _cut(text: str, start: int, end: int) -> int:
    """Return the end of the first sentences of a paragraph that are not too long."""
    if end - start <= LONGEST_ANSWER:
        return end
    ends = [start + stop for _, stop in split_sentences(text[start:end])]
    return max((stop for stop in ends if stop - start <= LONGEST_ANSWER), default=ends[0])
