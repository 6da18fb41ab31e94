"""Questions for an opinion on reviews, of which some say nothing of what is asked for.

A review is asked how something is that it calls good or bad ("The zoom is a bit slow" answers "How is the zoom?"), and
as often something that it only mentions, or does not have.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from benchmarks.reader.data import QuestionRow
from benchmarks.reader.presupposed import Made
from shared_core.citation.sentences import split_sentences
from shared_core.reading.features import STOP_WORDS
from shared_core.types import Passage

_OPINION = (
    "amazing annoying awesome awful awkward bad beautiful better best boring bright brilliant broken charming cheap"
    " cheaper clean clear clever clumsy cold comfortable compact confusing convenient cool crisp cute dated decent"
    " delicious dense difficult dirty disappointing disgusting dull durable easy effective elegant enjoyable excellent"
    " exciting expensive fabulous fair fantastic fast favorite fine flat flimsy fresh friendly fun funny generic good"
    " gorgeous great greasy handy happy hard heavy helpful hilarious horrible huge impressive incredible inexpensive"
    " interesting intuitive juicy lame large light lightweight loud lousy lovely mediocre messy moist natural neat nice"
    " noisy odd okay old outdated outstanding overpriced perfect plain pleasant poor predictable pretty quick quiet"
    " realistic reasonable reliable responsive rich rough rude safe sad salty sharp shallow short simple slick slow"
    " small smart smooth soft solid spacious spicy spotty stiff stale strong stunning sturdy stylish superb sweet tasty"
    " tender terrible terrific thick thin thin-skinned tight tiny tough true ugly unbelievable uncomfortable uneven"
    " unique unreliable useful useless weak weird well-made wonderful worse worst worthless"
)
_ADJECTIVE = rf"(?:{'|'.join(sorted(_OPINION.split(), key=len, reverse=True))})"
_HOW = (
    r"(?:(?:a bit|a little|kind of|sort of|not|n't|very|really|so|too|quite|pretty|rather|extremely|absolutely|just"
    r"|also|always|still|fairly|super|way|incredibly|all|as|more|less)\s+)*"
)
_NOUN = r"[a-z]{3,}(?: [a-z]{3,})?"
_SAYS = rf"{_HOW}{_ADJECTIVE}(?:(?:,| and| but|, but) {_HOW}{_ADJECTIVE})*"
_IS = r"(?:is|are|was|were|looks?|looked|feels?|felt|sounds?|sounded|tastes?|tasted|seems?|seemed|works?|worked)"
_CALLED = (
    re.compile(rf"\b(?:the|this|its|my|their|these|those)\s+(?P<noun>{_NOUN})\s+{_IS}\s+(?P<says>{_SAYS})\b", re.I),
    re.compile(rf"(?P<says>\b{_SAYS}\s+(?P<noun>[a-z]{{3,}}))\b(?=[.,;!?)]|\s(?:and|but|for|with|in|of|to)\b)", re.I),
    re.compile(rf"(?P<says>\b(?:love|loved|like|liked|enjoy|enjoyed|hate|hated)\s+the\s+(?P<noun>{_NOUN}))(?=[.,;!])"),
)
"""How a review tells what it thinks of a thing."""
_JUDGES = re.compile(
    rf"\b(?:{_ADJECTIVE}|lov\w+|lik\w+|enjoy\w*|hat\w+|wish\w*|recommend\w*|problem\w*|issue\w*)\b", re.I
)
_NO_THINGS = (
    "thing things way time times day days one ones lot bit part people person guy man woman idea reason job year years"
    " week month hour minute experience only most some all any other same first last next little much many"
    " enough even now plus looking well again here there then also addition buy anything everything nothing something"
    " someone everyone anyone"
)
_NO_THING = frozenset(_NO_THINGS.split())
_QUESTION = (
    "How {is} the {x}?;How {was} the {x}?;How {is} {x}?;How good {is} the {x}?;What do you think of the {x}?"
    ";What do you think about {x}?;How about the {x}?;What {is} the {x} like?;How did you like the {x}?"
    ";{Is} the {x} good?;How do you find the {x}?;How would you rate the {x}?;Why do you like the {x}?;how {is} the {x}"
)
_FORMS = _QUESTION.split(";")
_LEAST = 3  # reviews
_QUESTIONS = 2  # of one review at most
_NAMED, _ABSENT = 0.5, 0.4  # shares of the reviews that are asked for what they only name, and do not have


def make(reviews: Sequence[Passage], rng: random.Random) -> Made:
    """Make questions for an opinion on reviews, about half of them without an answer there.

    Things are words that some review has as a subject of "is good" or the like, and at least three call something.
    """
    called = {p.id: _called(p) for p in reviews}
    counts = Counter(noun for some in called.values() for noun in some)
    subjects = {_plain(m["noun"]) for p in reviews for m in _CALLED[0].finditer(p.text)}
    things = sorted(noun for noun, n in counts.items() if n >= _LEAST and noun in subjects)
    rows = []
    for p in reviews:
        known = sorted(set(called[p.id]) & set(things))
        for noun in rng.sample(known, min(_QUESTIONS, len(known))):
            spans = tuple(called[p.id][noun])
            rows.append(_row(noun, p, spans, rng))
        silent = [x for x in things if x not in p.text.lower()]
        only_named = sorted(_mentioned(p, things))
        if only_named and rng.random() < _NAMED:
            rows.append(_row(rng.choice(only_named), p, (), rng))
        if known and silent and rng.random() < _ABSENT:
            absent = rng.choices(silent, [counts[x] for x in silent])[0]
            rows.append(_row(absent, p, (), rng))
    return Made(list(reviews), rows)


def _called(passage: Passage) -> dict[str, list[tuple[int, int]]]:
    """Map each thing of a review to the code points of what it is called."""
    found: dict[str, list[tuple[int, int]]] = {}
    for pattern in _CALLED:
        for match in pattern.finditer(passage.text):
            if _is_thing(noun := _plain(match["noun"])):
                found.setdefault(noun, []).append(match.span("says"))
    return found


def _plain(noun: str) -> str:
    return " ".join(noun.lower().split())


def _is_thing(noun: str) -> bool:
    words = noun.split()
    return not any(w in STOP_WORDS or w in _NO_THING or re.fullmatch(_ADJECTIVE, w) for w in words)


def _mentioned(passage: Passage, things: Sequence[str]) -> Iterator[str]:
    """Yield the things that are named only in sentences which judge nothing."""
    sentences = [passage.text[a:b] for a, b in split_sentences(passage.text)]
    for thing in things:
        naming = [i for i, s in enumerate(sentences) if re.search(rf"\b{thing}s?\b", s, re.I)]
        near = {j for i in naming for j in (i, i + 1) if j < len(sentences)}
        if naming and not any(_JUDGES.search(sentences[j]) for j in near):
            yield thing


def _row(noun: str, passage: Passage, spans: Sequence[tuple[int, int]], rng: random.Random) -> QuestionRow:
    many = noun.endswith("s") and not noun.endswith("ss")
    verb: Mapping[str, str] = {"is": "are" if many else "is", "was": "were" if many else "was"}
    question = rng.choice(_FORMS).format(x=noun, Is=verb["is"].capitalize(), **verb)
    answers = tuple(passage.text[slice(*span)] for span in spans)
    return QuestionRow(question, passage.id, answers, tuple(spans))
