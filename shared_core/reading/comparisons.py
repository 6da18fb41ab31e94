"""Read questions that ask which of two things comes first or is more: "Who was born first, Ada Lind or Bo Ek?"."""

from __future__ import annotations

import re
from dataclasses import dataclass

from shared_core.citation.facts.dates import dates_of
from shared_core.citation.facts.quantities import UNITS, quantities_of
from shared_core.reading.steps import LONGEST_QUESTION, without_end
from shared_core.support.regex import lazy_regex

_TWO = (
    lazy_regex(r"(?P<ask>(?:who|which|what)\b.*?)(?:,|:| [-–]) *(?P<a>.+?),? or (?P<b>.+)", re.IGNORECASE),
    lazy_regex(r"(?P<ask>(?:who|which|what)\b.*?) (?:out of|between) (?P<a>.+?) and (?P<b>.+)", re.IGNORECASE),
    lazy_regex(
        r"(?:was|were|is|are|did) (?P<a>.+?) or (?P<b>.+?) (?P<ask>born \w+|die \w+|[a-z]+ed \w+|built \w+|\w+er)",
        re.IGNORECASE,
    ),
)
_WHO = r"(?:(?:who|what|which(?: (?!ha[sd]\b|have\b|whose\b)[\w-]+){0,3}?) )?"  # nothing in "Did Ada or Bo die first?"
_ORDER = r"(?:(?P<least>first|earlier|earliest|before)|(?P<most>later|latest|last|second|more recently|most recently))"
_BEGAN = {
    "started": "start", "starts": "start", "began": "begin", "begins": "begin", "opened": "open", "opens": "open",
    "closed": "close", "closes": "close", "joined": "join", "left": "leave", "leaves": "leave", "ended": "end",
    "ends": "end", "formed": "form", "retired": "retire", "died": "die", "die": "die", "came out": "come out",
    "comes out": "come out", "arrived": "arrive", "arrives": "arrive", "finished": "finish", "finishes": "finish",
}  # fmt: skip
_ACTS = lazy_regex(rf"{_WHO}(?P<verb>{'|'.join(_BEGAN)}) {_ORDER}")
_DONE = lazy_regex(
    rf"{_WHO}(?:was |were |has been |had been )?(?P<verb>[a-z]+ed|built|made|held|written|born) {_ORDER}"
)
_AGE = lazy_regex(r"who (?:is|was) (?:the )?(?:(?P<least>older|oldest|elder)|(?P<most>younger|youngest))")
_ADJECTIVES = {  # with what their values are called; those with a minus ask for the lesser one
    "taller": "tall", "higher": "high", "longer": "long", "larger": "large", "bigger": "big", "heavier": "heavy",
    "deeper": "deep", "wider": "wide", "faster": "fast", "older": "old", "warmer": "warm", "hotter": "hot",
    "thicker": "thick", "shorter": "-long", "smaller": "-large", "lighter": "-heavy", "lower": "-high",
    "narrower": "-wide", "slower": "-fast", "younger": "-old", "colder": "-warm", "thinner": "-thick",
}  # fmt: skip
_MORE = lazy_regex(rf"{_WHO}(?:(?:is|was|are|were) )?(?:the )?(?P<adjective>{'|'.join(_ADJECTIVES)})")
_COSTS = lazy_regex(
    rf"{_WHO}(?:(?P<most>(?:is )?more expensive|costs? more)|(?P<least>(?:is )?(?:cheaper|less expensive)|costs? less))"
)
_HAS = lazy_regex(rf"{_WHO}has (?:(?P<most>more|the most)|(?P<least>fewer|the fewest)) (?P<noun>[a-z][a-z -]*)")
_YEAR = lazy_regex(r"\b(?:1\d{3}|20\d{2})\b")


@dataclass(frozen=True, slots=True)
class Comparison:
    """A question which of two is first or is more, as two questions.

    Attributes:
        names: of the two.
        questions: what has to be known of each.
        most: whether the greater value is asked for, or the later date.
        dated: whether values are dates or times.
    """

    names: tuple[str, str]
    questions: tuple[str, str]
    most: bool
    dated: bool

    def choose(self, first: str, second: str) -> int | None:
        """Return the number (0 or 1) of the name asked for, given both answers; ``None`` if they do not tell.

        >>> asked = comparison("Who was born first, Ada Lind or Bo Ek?")
        >>> asked.questions[1], asked.choose("3 May 1841", "in 1839"), asked.choose("1841", "May 1841")
        ('When was Bo Ek born?', 1, None)
        """
        read = read_when if self.dated else read_how_much
        one, other = read(first), read(second)
        if one is None or other is None or one[0] != other[0]:
            return None
        (a, b), shared = (one[1], other[1]), min(len(one[1]), len(other[1]))
        if a[:shared] == b[:shared]:
            return None
        return int((a[:shared] < b[:shared]) == self.most)


def comparison(question: str) -> Comparison | None:
    """Return what a question asks to compare; ``None`` if it asks something else.

    >>> comparison("Which is cheaper, the day ticket or the family ticket?").questions
    ('How much does the day ticket cost?', 'How much does the family ticket cost?')
    >>> comparison("Which film is better, Low Water or High Tide?"), comparison("Who founded it?")
    (None, None)
    """
    text = without_end(question)
    if len(text) > LONGEST_QUESTION:
        return None
    for pattern in _TWO:
        found = pattern.fullmatch(text)
        if found is None or " or " in found["b"] or " or " in found["a"]:
            continue
        asked = _asked(found["ask"].strip().lower())
        if asked is not None:
            template, most, dated = asked
            names = found["a"].strip(" ,"), found["b"].strip(" ,")
            return Comparison(names, (template.replace("{}", names[0]), template.replace("{}", names[1])), most, dated)
    return None


def _asked(ask: str) -> tuple[str, bool, bool] | None:
    """Return the question about one of the two, whether more is asked for, and whether that is a date."""
    if found := _ACTS.fullmatch(ask):
        does = "does" if found["verb"].endswith("s") else "did"
        return f"When {does} {{}} {_BEGAN[found['verb']]}?", found["most"] is not None, True
    if found := _DONE.fullmatch(ask):
        return f"When was {{}} {found['verb']}?", found["most"] is not None, True
    if found := _AGE.fullmatch(ask):
        return "When was {} born?", found["most"] is not None, True
    if found := _COSTS.fullmatch(ask):
        return "How much does {} cost?", found["most"] is not None, False
    if found := _HAS.fullmatch(ask):
        return f"How many {found['noun']} does {{}} have?", found["most"] is not None, False
    if found := _MORE.fullmatch(ask):
        kind = _ADJECTIVES[found["adjective"]]
        return f"How {kind.lstrip('-')} is {{}}?", not kind.startswith("-"), False
    return None


def read_when(text: str) -> tuple[str, tuple[float, ...]] | None:
    """Return a date (year, month, day) as far as ``text`` gives it, or a time of day, with its kind.

    >>> read_when("on 3 May 1841")
    ('date', (1841.0, 5.0, 3.0))
    """
    dated = next((d for d in dates_of(text) if d.year), None)
    if dated is not None:
        return "date", tuple(float(n) for n in (dated.year, dated.month, dated.day) if n)
    clock = next((q for q in quantities_of(text) if q.dimension == "clock"), None)
    if year := _YEAR.search(text):
        return "date", (float(year[0]),)
    return ("clock", (min(clock.values),)) if clock is not None else None


def read_how_much(text: str) -> tuple[str, tuple[float, ...]] | None:
    """Return the first number of ``text`` in the base unit of its dimension, with the dimension as its kind.

    >>> read_how_much("3,412 m")
    ('length', (3412.0,))
    """
    found = next(iter(quantities_of(text)), None)
    if found is None:
        return None
    value = max(found.values) if "," in found.text else min(found.values)  # English: 1,204 is more than a thousand
    return found.dimension, (UNITS[found.unit].base(value) if found.unit else value,)
