"""Split questions that take several steps: "When was the founder of the museum born?" asks first who founded it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from shared_core.reading.language import word_list
from shared_core.support.regex import lazy_regex

MOST = 3
"""Phrases of one question that are tried."""
_LONGEST = 60  # characters of an answer that stands for a phrase
LONGEST_QUESTION = 600
"""Characters of a question that is split; a longer one is a text, and would take seconds."""
_ROLES, _PEOPLE = word_list("roles"), word_list("roles") | word_list("persons")
_RELATED = _ROLES | word_list("related_things")
_DESCRIBED = _RELATED | word_list("persons") | word_list("things")
_ASKING = word_list("question_words")
_EMPTY = _ASKING | word_list("beside_question_words")


def _any_of(words: Iterable[str]) -> str:
    return rf"(?:{'|'.join(sorted(words))})\b"


_VERB = _any_of(word_list("closing_verbs"))
_BESIDE_HEAD = r"(?:(?!(?:who|that|which|where|whose|the|of|in|and|is|was|for|on|at|to|by)\b)[\w-]+ ){0,3}?"
_OF = lazy_regex(
    rf"\b(?:[Tt]he|our|its|their|his|her|my|your) {_BESIDE_HEAD}"
    rf"(?P<head>{_any_of(_RELATED)}|(?:place|city|town|state|country|year|date) of (?:birth|death)) (?:of|for) "
)
_ROLE = lazy_regex(
    rf"\b(?:[Tt]he|our|its|their|his|her|my|your) (?:[a-z]+ )?(?P<head>{_any_of(_ROLES)})"
    r"(?=$|['’]s|,? (?:is|was|are|were|has|had|have|did|does|do|can|will|born|on|in|at|when|if|before|after)\b)"
)
_POSSESSIVE = lazy_regex(
    rf"(?:['’]s|(?<=s)['’]) (?:[a-z]+ ){{0,2}}?(?P<head>{_any_of(_RELATED | word_list('owned'))})(?: of birth)?"
    r"(?=['’]s|$|,? (?P<next>\S+))"
)
_WHICH = r"(?:who|that|which|where|whose|(?:in|on|at|for|from|to|by|of|with) (?:which|whom))\b "
_CLAUSE = lazy_regex(
    rf"\b[Tt]he {_BESIDE_HEAD}(?:(?!{_any_of(word_list('undescribed'))})(?P<any>[a-z][a-z-]*(?:[^\Ws]|ss)) {_WHICH}"
    rf"|(?P<head>{_any_of(_DESCRIBED)}) (?:{_WHICH}"
    rf"|(?=(?:[a-z]+ed|{_any_of(word_list('participles'))}) (?:by|in|at|after|as|for) \S|(?:contain|featur|starr)ing )"
    r"|(?=(?:responsible for|in charge of|(?:we|they|you|he|she) [a-z]+) )"
    r"|(?=(?:the )?(?:[A-Z][\w.'’-]* )+(?:is|was|are|were|has|had|lives?|lived|works?|worked|played)\b)))"
)
_CLOSING = lazy_regex(  # the verb of a question that begins with an auxiliary: "Where did … study?"
    rf",? (?:(?:is|was|are|were) )?{_VERB}(?: (?:at|for|from|in|with|to|as))?$"
)
_DO = lazy_regex(r"\b(?:did|does|do) (?:the|our|its|their|his|her|my|your)\b")
_IS = lazy_regex(
    r"\b(?:when|where|why|how \w+) (?:is|was|are|were) (?:the|our|its|their|his|her|my|your)\b", re.IGNORECASE
)
_LAST_VERB = lazy_regex(r" [a-z]+(?: (?:at|for|from|in|on|with|to|as|out|up))?$")
_GOES_ON = lazy_regex(r",? (?:is|was|are|were|has|had|have|did|does|do|will|can|share|comes?|came|lives?|works?)\b")
_LOCATED = lazy_regex(
    r".+? (?:is|was|are|were) (?:located|situated|based|found|born|set|from)\b(?: in(?= |$)(?! [A-Z]))?"
)
_NAME = lazy_regex(
    r"(?:(?:[^\W\d_a-z]|\d)[\w.'’&:-]*,?|\([^()]*\)|(?:of|the|and|de|la|von|van|der|in|for|on|to|a|an|&)(?= ))(?: |$)"
)
_NAMES = lazy_regex(rf"(?:{_NAME.pattern})*[^\W\d_a-z][\w.'’&:-]*(?: |$)")
_NOUNS = lazy_regex(r"\b(?:the|our|its|their|his|her|my|your) (?:[a-z-]+ ){0,2}[a-z-]+$")
_ASKED_WITHIN = lazy_regex(r"\bwhat\b|\b(?:which|whose) [\w-]+$", re.IGNORECASE)
_ONLY_IS = lazy_regex(r"(?:who|what|which)(?: is| was| are| were|['’]s)? ?", re.IGNORECASE)
_KIN = {"paternal": "father", "maternal": "mother", "in-law": "spouse"}
_KIN_OF = lazy_regex(r"\b(?:(paternal|maternal) grand(father|mother)|(father|mother)-in-(law))(?P<of> of)?\b")
_OR = lazy_regex(r"\bor\b")
_PRONOUN = lazy_regex(r"(?:he|she|it|they|him|her|them|his|hers|their|this|that|who|which|there)\b", re.IGNORECASE)
_WORD = lazy_regex(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class FirstStep:
    """A question to be answered before another one can be.

    Attributes:
        question: "Who is the founder of the museum?"
        before, after: the other question's words around the phrase that the answer stands for.
        phrase: "the founder of the museum".
        about: "the museum", of a phrase that is no more than a relation to it; else empty.
    """

    question: str
    before: str
    after: str
    phrase: str
    about: str = ""

    def then(self, answer: str) -> str | None:
        """Return the other question with an answer for its phrase; ``None`` if that cannot be an answer.

        >>> (step,) = first_steps("When was the founder of the museum born?")
        >>> step.question, step.then("Ada Lind"), step.then("the founder")
        ('Who is the founder of the museum?', 'When was Ada Lind born?', None)
        """
        answer = without_ending(answer)
        said = set(_WORD.findall(answer.casefold()))
        known = set(_WORD.findall(self.phrase.casefold()))
        if said <= known or len(answer) > _LONGEST or _PRONOUN.match(answer):
            return None
        if self.question.startswith("Who ") and answer == answer.lower():
            return None  # "the caretaker": people have names
        return f"{self.before}{answer}{self.after}"


def without_end(question: str) -> str:
    """Return a question on one line, without its question mark."""
    return re.sub(r"[\s?.!]+\Z", "", " ".join(question.split()))


def without_ending(answer: str) -> str:
    """Return an answer on one line, without the ending of a possessive: "Ada Lind's" is Ada Lind."""
    return re.sub(r"['’]s?$", "", " ".join(answer.split()))


def first_steps(question: str) -> tuple[FirstStep, ...]:
    """Return what ``question`` has to have answered first, one step for each reading of its words, at most ``MOST``.

    A phrase that says who or what is meant by its relation to something that is named (Press et al. 2023, "Measuring
    and Narrowing the Compositionality Gap", ask a model for such questions): "the founder of the museum", "the town's
    mayor", "the city where the museum is located", "the film that was shot in Leland". Only nouns on a list are taken
    for such phrases, but before "who", "that" or "where"; and only the innermost phrase. None for a question that asks
    for one of two ("…, A or B?").

    >>> [s.question for s in first_steps("What river flows through the city where Ada Lind was born?")]
    ['What is the city where Ada Lind was born?']
    >>> [s.question for s in first_steps("Who is Ada Lind's paternal grandfather?")]
    ["Who is Ada Lind's father?"]
    >>> first_steps("Who founded the museum?")
    ()
    """
    text = _spell_out_kin(without_end(question))
    if _OR.search(text) or len(text) > LONGEST_QUESTION:
        return ()
    found: dict[tuple[str, str], FirstStep] = {}
    phrases = list(_phrases(text))
    for start, end, is_person, about in phrases:
        before, phrase, after = text[:start], text[start:end], text[end:]
        outer = any(start < other[0] < end for other in phrases)
        if outer or not _asks_more(before, after) or _ASKED_WITHIN.search(phrase):
            continue
        asked = f"{'Who' if is_person else 'What'} is {phrase[0].lower() + phrase[1:] if start == 0 else phrase}?"
        found.setdefault((before, after), FirstStep(asked, before, f"{after}?", phrase, about))
    return tuple(found.values())[:MOST]


def _phrases(text: str) -> Iterator[tuple[int, int, bool, str]]:
    """Yield start and end of each phrase in question, whether it means a person, and what it is only a relation to."""
    for found in _POSSESSIVE.finditer(text):
        start, behind = _start_of_name(text, found.start()), found["next"]
        if start is not None and (behind is None or behind in _EMPTY or re.match(_VERB, behind)):
            yield start, found.end(), found["head"] in _PEOPLE, text[start : found.start()]
    for found in _OF.finditer(text):
        for end in _ends(text, found.end()):
            yield found.start(), end, found["head"] in _PEOPLE, text[found.end() : end]
    for found in _ROLE.finditer(text):
        yield found.start(), found.end(), True, ""
    for found in _CLAUSE.finditer(text):
        for end in _ends_of_clause(text, found.end()):
            yield found.start(), end, (found["head"] or found["any"]) in _PEOPLE, ""


def _ends(text: str, start: int) -> Iterator[int]:
    """Yield where a phrase may end whose last name begins at ``start``, the likeliest end first."""
    rest = text[start:]
    end = _CLOSING.search(rest) or _GOES_ON.search(rest) or (_LAST_VERB.search(rest) if _DO.search(text) else None)
    yield start + end.start() if end else len(text)
    if end is None and _IS.search(text) and (last := _LAST_VERB.search(rest)):  # "When is … available?"
        yield start + last.start()
    name = _NAMES.match(rest)
    if name and rest[name.end() : name.end() + 1].islower():
        yield start + len(name[0].rstrip(" ,"))


def _ends_of_clause(text: str, start: int) -> Iterator[int]:
    """Yield where a phrase may end whose clause begins at ``start``, the likeliest end first."""
    rest = text[start:]
    if located := _LOCATED.match(rest):
        yield start + located.end()
        if located.end() == len(rest):
            return
    if ", " in rest:
        yield start + rest.index(", ")
    yield len(text)
    if closing := _CLOSING.search(rest) or ((_DO.search(text) or _IS.search(text)) and _LAST_VERB.search(rest)):
        yield start + closing.start()


def _start_of_name(text: str, end: int) -> int | None:
    """Return where the name or the noun phrase begins that ends at ``end``; ``None`` if there is none."""
    nouns = _NOUNS.search(text, 0, end)
    if nouns is not None:
        return nouns.start()
    start: int | None = None
    for word in reversed(list(re.finditer(r"\([^()]*\)\S* ?|\S+ ?", text[:end]))):
        if not _NAME.fullmatch(word[0]) or word[0].strip().casefold() in _ASKING:
            break
        if not word[0][0].islower():  # a name does not begin with "of"
            start = word.start()
    return start


def _asks_more(before: str, after: str) -> bool:
    """Whether a question without its phrase still asks something: "Who was the governor … in 1895?" does not."""
    if _ONLY_IS.fullmatch(before) and not re.match(rf"['’]|,? (?:{_VERB}|[a-z]+ed\b)", after):
        return False
    return any(word not in _EMPTY for word in _WORD.findall(f"{before} {after}".casefold()))


def _spell_out_kin(text: str) -> str:
    """Write kinship of two steps as such: a paternal grandmother is the father's mother."""

    def spell(found: re.Match[str]) -> str:
        through, parent = _KIN[found[1] or "in-law"], found[2] or found[3]
        return f"{parent} of the {through} of" if found["of"] else f"{through}'s {parent}"

    return _KIN_OF.sub(spell, text)
