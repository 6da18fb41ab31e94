"""Tell which list a question asks for as a whole: all steps of how to do something, or all items of a kind."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from shared_core.citation.english import BE, DO, MODALS
from shared_core.citation.sentences import split_sentences
from shared_core.reading.candidates import Candidate
from shared_core.reading.item_lists import ItemList, lists_of
from shared_core.reading.language import word_list
from shared_core.reading.places import above, innermost, section_of, source_of
from shared_core.reading.questions import drop_parentheses, tells_result
from shared_core.reading.rows import stems_of
from shared_core.reading.synonyms import named_stems, relates_alike
from shared_core.support.regex import lazy_regex
from shared_core.types import Passage

LONGEST_LIST = 1500
"""Characters of a list at most, to be quoted whole."""
_ACTS = r"(?:do|can|could|should|would|shall|must|may|might)"
_ASKS_HOW = lazy_regex(
    rf"\bhow (?:{_ACTS} (?:i|we|you|one|they|someone|people|users?|(?:an?|the|my|our) [\w-]+)\b|to\b)"
    rf"|\bwhat {_ACTS} (?:i|we|you|one|they) (?:(?:need|have) to )?do\b|\bwhat to do\b"
    r"|\b(?:what|which) (?:is|are) the (?:[\w-]+ )?(?:steps?|procedures?|process|instructions?|way)\b"
    r"|\b(?:which|what) steps\b",
    re.IGNORECASE,
)
_ASKS_LIST = lazy_regex(
    r"(?!\W*what are [a-z-]+\W*\Z)\b"  # what these are
    r"(?:(?:what|which)(?! do(?:es)?\b)(?: are)?(?: all)?(?: of)?(?: the)?|list(?: all)?(?: of)?(?: the)?"
    r"|name (?:all )?the)"
    r"(?: [\w-]+){0,2}? (?!this\b|goes\b|does\b)(?P<noun>[a-z]{2,}[a-rt-z]s)\b(?! (?:is|was|has|does)\b)",
    re.IGNORECASE,
)
_KEYWORDS = lazy_regex(  # "ingredients for rye bread", and what is needed also without "for"
    rf"(?!.*(?:\?|\b(?:{BE}|{DO}|has|have|{MODALS})\b))"
    r"\W*(?:(?:the|all|full) )*"
    r"(?:(?P<things>ingredients|requirements|prerequisites|materials|tools|supplies)(?! in\b)"
    r"|(?:[\w-]+ )?(?P<noun>[a-z]{2,}[a-rt-z]s) (?:for|of|needed|required)\b) *\w",
    re.IGNORECASE,
)
_ASKS_THINGS = lazy_regex(rf"\bwhat (?:will|{_ACTS}) (?:i|we|you|one|they) need\b(?! to do\b)", re.IGNORECASE)
_THINGS = r"(?:ingredients?|requirements?|prerequisites?|materials?|equipment|tools?|supplies|what you(?:['’]ll)? need)"
_PLATFORM = (
    "(?:web|desktop|mobile|browser|app|windows|mac(?: ?os)?(?: x)?|os x|linux|unix|android|ios|iphone|ipad|debian"
    "|ubuntu|fedora|command[ -]line|terminal|cli|gui)"
)
_LISTS_THINGS = lazy_regex(rf"\W*{_THINGS}\W*", re.IGNORECASE)
_GENERIC = lazy_regex(
    r"\W*(?:directions?|instructions?|steps?|procedures?|methods?|preparation|process|how[ -]to|what to do"
    rf"|{_THINGS}|(?:{_PLATFORM})(?:(?: ?[/,&+] ?| and | or | ){_PLATFORM})*)\W*",
    re.IGNORECASE,
)
"""A heading that does not name what its list is of or for: "Directions", "Web/Desktop"."""
_PURPOSE = lazy_regex(r"(?:^|[.!?]\s+)To (?P<purpose>[^.:,\n]{3,80})(?:,[^.:\n]{0,80})?:\s*\Z")
"""A lead-in that says what its list is for: "To unpin a message:"."""
_ANNOUNCES_STEPS = lazy_regex(
    r"\b(?:(?:do|try|complete|perform|use) (?:all (?:of )?)?(?:the following|these|this)\b"
    r"|(?:the following|these|the) steps\b|as follows)",
    re.IGNORECASE,
)
"""A lead-in to steps that says for what they are: "For lost phones, do the following as soon as you can:"."""
_LEADS_EXAMPLES = lazy_regex(r"\b(?:examples?|scenarios?|situations?|cases|reasons?|why|when)\b", re.IGNORECASE)
"""Of a lead-in: its list says when or why something is done, not how."""
_LIGHT = {*stems_of("make made prepare get need use want steps procedure process instructions way").tolist()}
"""Words that a heading seldom repeats."""
_MAKING = {*stems_of("cook bake brew fry roast build assemble create produce").tolist()}
"""What is done by the steps below a heading that only names what is made: "Apple pie"."""
_NEXT_STEP = lazy_regex(
    r"\W*(?:then|next(?! to)|after(?:wards?| that| this)|finally|lastly|(?:once|when) (?:done|finished|you have))\b",
    re.IGNORECASE,
)
_IMPERATIVES = word_list("imperatives")
_TOLD = lazy_regex(
    r"\W*(?:\d{1,3}[.)]\s+)?"
    r"(?:(?:to|in|on|from|under|at|within|next to|for|with|if|when|once|after|before|by)\b[^.:!?,\n]{2,100},\s+"
    r"|(?:then|next|now|first|finally|please|also|simply|just|again)\b,?\s+){0,4}\W*(?P<word>[a-z]+)\b",
    re.IGNORECASE,
)
_ACTION = lazy_regex(r"\W*(?:\d{1,3}[.)]?\s+)?(?:how\b|[a-z]{3,}ing\b)", re.IGNORECASE)
_BLANK_LINE = lazy_regex(r"\n[ \t]*\n")
_INCLUDING = {*stems_of("include includes including follow following are is below such").tolist()}
_LED = 0.75
"""Share of the words of a question for several things that a lead-in has: "Examples of such uses are:"."""


def asks_how(question: str) -> bool:
    """Return whether a question asks how something is done.

    >>> asks_how("How do I reset the router?"), asks_how("How long does a reset take?")
    (True, False)
    """
    return _ASKS_HOW.search(question) is not None


def list_asked(question: str) -> str:
    """Return the noun of a question for several things; "" if it asks for no such.

    >>> list_asked("What are the opening hours?"), list_asked("Which documents do I need?"), list_asked("Who is Ann?")
    ('hours', 'documents', '')
    >>> list_asked("What are ropes?"), list_asked("What are the ropes?"), list_asked("What does ropes in the log do?")
    ('', 'ropes', '')
    >>> list_asked("ingredients rye bread"), list_asked("rules for guests"), list_asked("guests are few")
    ('ingredients', 'rules', '')
    """
    found, words = _ASKS_LIST.search(question), _KEYWORDS.match(question)
    return found["noun"] if found else words["things"] or words["noun"] if words else ""


class Fit(NamedTuple):
    """Whether a question asks for a list as a whole, and whether what stands above it names just what is asked for.

    ``named`` are the stems of what names the list; it ``is_led`` in by what names nearly all that is asked for.
    """

    is_asked: bool
    is_named: bool
    named: frozenset[int]
    is_led: bool = False


class Whole(NamedTuple):
    """The stretch of a list to quote, without a lead-in if its heading says enough, and ``is_named`` as in ``Fit``."""

    lead: int
    start: int
    end: int
    is_named: bool


@dataclass(frozen=True, slots=True)
class ListRequest:
    """A question for a list: ``how`` something is done, the ``things`` needed, or several things called ``noun``."""

    question: str
    how: bool
    things: bool
    noun: frozenset[int]
    content: frozenset[int]

    @classmethod
    def of(cls, question: str) -> ListRequest | None:
        """Read a question; ``None`` if it asks for no list."""
        how, things, noun = asks_how(question), _ASKS_THINGS.search(question) is not None, list_asked(question)
        asked = how or things or noun
        content = named_stems(drop_parentheses(question)) - _LIGHT
        return cls(question, how, things, named_stems(noun), content) if asked else None

    def fits(self, passage: Passage, found: ItemList) -> Fit:
        """Compare the question with what stands above a list."""
        heading = found.heading or innermost(passage)
        subjects = [part for part in _headings(passage, found) if not _GENERIC.fullmatch(part)]
        lead = passage.text[found.lead : found.start]
        purpose = _PURPOSE.search(lead)
        naming = purpose["purpose"] if purpose else subjects[-1] if subjects else ""
        subject = named_stems(naming) - _LIGHT
        named = named_stems(lead) | named_stems(heading)
        named |= subject if _GENERIC.fullmatch(heading) else frozenset()
        told = named | named_stems("\n".join([above(passage), source_of(passage), *found.headings]))
        is_subject = bool(subject) and subject <= self.content and relates_alike(self.question, naming)
        if not self.content & named:
            return Fit(False, False, named)
        is_told = self.content - _MAKING <= told
        if self.how and found.kind == "bullet" and _LEADS_EXAMPLES.search(lead) and not _tells_steps(passage, found):
            return Fit(False, False, named)
        if self.how and not _LISTS_THINGS.fullmatch(heading):
            announced = is_told and bool(self.content & named_stems(lead)) and bool(_ANNOUNCES_STEPS.search(lead))
            # bullets and code may be anything, but right below the heading
            is_asked = found.kind in ("number", "letter") or announced or (is_told and _is_first(passage, found))
            is_asked = is_asked and (found.kind != "code" or is_subject)
            is_done = (
                found.kind != "bullet"
                or _names_action(subjects[-1] if subjects else "")
                or _tells_steps(passage, found)
            )
            return Fit(is_asked, is_asked and is_told and (announced or (is_subject and is_done)), named)
        if self.things and _LISTS_THINGS.fullmatch(heading):
            return Fit(is_told, is_told and is_subject, named)
        leading = named_stems(lead) - _INCLUDING
        is_led = (
            bool(self.noun) and self.noun <= leading and len(self.content & leading) >= _LED * len(self.content) > 1
        )
        is_asked = is_led or (bool(self.noun) and self.content <= told and self.noun <= named)
        is_all = is_led and leading <= self.content and relates_alike(self.question, lead)
        is_named = self.content <= told and (is_all or (is_subject and self.noun <= named_stems(heading)))
        return Fit(is_asked, is_asked and is_named, named, is_led)

    def whole(self, passage: Passage, best: Candidate) -> Whole | None:
        """Return the list that a candidate is an item of or leads in, if the question asks for all of it.

        The item names nothing of the question that the list's headings do not: "How do I choose the file?" is answered
        by one step.
        """
        text = passage.text
        found = list_at(passage, best)
        if found is None:
            return None
        leads = best.start < found.start
        start = best.start if leads else found.start
        fit = self.fits(passage, found)
        led = self.how or fit.is_led
        if found.end - start > LONGEST_LIST or (leads and (text[best.end : found.start].strip() or not led)):
            return None
        all_named = leads or fit.is_named or self.content & named_stems(text[best.start : best.end]) <= fit.named
        if not fit.is_asked or not all_named:
            return None
        return Whole(start, found.start if fit.is_named else start, found.end, fit.is_named)

    def told(self, passage: Passage, best: Candidate) -> Whole | None:
        """Return a sentence on how to do something with the steps before it and after it in its paragraph, if any.

        A step after another begins so: "Then tap Start.", or both tell what to do. What tells only the result of a
        step ("This will create a folder.") is quoted with that step.
        """
        text, start, end = passage.text, best.start, best.end
        if not self.how or list_at(passage, best) is not None:
            return None
        for before, after in reversed([*pairwise(_sentences(text))]):
            if after[0] == start and (_follows(text, before, after) or tells_result(text[slice(*after)])):
                start = before[0]
        for before, after in pairwise(_sentences(text)):
            if before[1] == end and _follows(text, before, after):
                end = after[1]
        is_more = (start, end) != (best.start, best.end) and end - start <= LONGEST_LIST
        return Whole(start, start, end, False) if is_more else None


def _follows(text: str, before: tuple[int, int], sentence: tuple[int, int]) -> bool:
    """Return whether a sentence tells the next step after the one before it, in the same paragraph.

    It says so ("Then …"), or both tell what to do: "To start a call, open the menu. Tap Start."
    """
    if _BLANK_LINE.search(text, before[1], sentence[0]):
        return False
    return _NEXT_STEP.match(text, *sentence) is not None or all(tells_to_do(text[a:b]) for a, b in (before, sentence))


def tells_to_do(sentence: str) -> bool:
    """Return whether a sentence tells to do something.

    >>> tells_to_do("In the menu, select Print."), tells_to_do("The menu has an entry for it.")
    (True, False)
    """
    found = _TOLD.match(sentence)
    return found is not None and found["word"].lower() in _IMPERATIVES


def _names_action(heading: str) -> bool:
    """Return whether a heading names something to do: "Add a user", "Adding users"."""
    return tells_to_do(heading) or _ACTION.match(heading) is not None


def _tells_steps(passage: Passage, found: ItemList) -> bool:
    """Return whether most items of a list tell to do something."""
    text = passage.text[found.start : found.end]
    items = [line for line in text.splitlines() if line.strip() and not line[0].isspace()]
    return 2 * sum(tells_to_do(item) for item in items) > len(items)


@lru_cache(maxsize=512)
def _sentences(text: str) -> tuple[tuple[int, int], ...]:
    return tuple(split_sentences(text))


def list_at(passage: Passage, candidate: Candidate) -> ItemList | None:
    """Return the list that a candidate is an item of, or all of, or in the paragraph above."""
    found = lists_of(passage.text)
    return next((one for one in found if one.lead <= candidate.start and candidate.end <= one.end), None)


def _is_first(passage: Passage, found: ItemList) -> bool:
    """Return whether a list is the first one below its heading, which is in the same passage."""
    first = next(one for one in lists_of(passage.text) if one.heading == found.heading)
    heading = innermost(passage)
    return first == found and (bool(found.heading) or (heading != "" and passage.text.lstrip().startswith(heading)))


def _headings(passage: Passage, found: ItemList) -> list[str]:
    """Return the title and the headings above a list, the innermost one last."""
    parts = [passage.title, *section_of(passage).split(" > "), *found.headings]
    return [*dict.fromkeys(part for part in reversed(parts) if part)][::-1]
