"""Answer the last question of a conversation: full questions as they are, follow-ups made full, or decline.

An answer to a follow-up counts only if it is about the topic, and if its evidence says what was asked.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence

from shared_core.conversation.condense import condense_request, read_rewriting, refusal
from shared_core.conversation.context import answer_in_context, context_of, first_quote, own_words, with_topic
from shared_core.conversation.numbered import has_its_number, numbers_in
from shared_core.conversation.phrases import LISTS, WORDS, new_in, phrases_of, words_of
from shared_core.conversation.recognise import FollowUp, names_only, recognise
from shared_core.conversation.rules import Exchange, Rewriting, exchanges_of, rewrite
from shared_core.conversation.turns import Asked, Turn
from shared_core.errors import LanguageModelError, LimitError
from shared_core.pipelines.decision.decide import DecisionRequest, decide
from shared_core.pipelines.decision.question_run import QuestionRun
from shared_core.pipelines.decision.reasons import (
    ABOUT_ANSWER,
    FOLLOW_UP_UNCLEAR,
    NOTHING_ASKED,
    PASSAGES_DO_NOT_ANSWER,
    explain,
)
from shared_core.pipelines.decision.wording import abstention_text, is_abstention
from shared_core.pipelines.evidence import cited_spans
from shared_core.reading.conflicts import gives_other_dimension
from shared_core.reading.features import stem
from shared_core.reading.told import gives_reason
from shared_core.runtime.flow import Flow
from shared_core.settings import SelfReflectSettings
from shared_core.types import Answer, Claim, Decision, Passage

CONDENSED = "condensed_question"
"""Key of ``Answer.metadata`` that holds the full question that was answered in place of a follow-up."""

_MANY_WORDS = 4  # of a question: so many tell that it is about another topic

_KINDS = {
    "full": "the question can be understood alone",
    "open": "the question names nothing, so it may be about the topic",
    "reference": "the question refers to something said before",
    "ellipsis": "the question leaves out what was said before",
    "about_answer": "the question asks about the answer given before",
    "nothing": "the message asks nothing",
}


def answer_turn(asked: Asked, answer: Callable[[str], Flow[Answer]], run: QuestionRun) -> Flow[Answer]:
    """Answer a question in its conversation.

    A question that can be understood alone is asked as it is. A follow-up is made a full question: with the model, if
    there is one and what it writes can be used, else by rule; if two readings are likely, both are asked and the surer
    answer is shown. An answer to it counts only if its evidence names what the follow-up refers to. Where no rule
    gives an answer, it is asked of passages on the questions before it (``answer_in_context``). Else it is declined,
    and so is what asks about the answer given before, which documents do not know.

    Args:
        asked: the question and its history.
        answer: creates the flow that answers a full question.
        run: for notes; its trace comes before the answer's own.

    Returns:
        The answer; its ``question`` is the user's, and ``metadata["condensed_question"]`` is the question answered.
    """
    found = recognise(asked.question)
    if not asked.history:
        return (yield from answer(asked.question))
    if asked.condense is False:
        yield run.note("history", "not read", "condense is off", messages=len(asked.history))
        return _with_trace((yield from answer(asked.question)), run)
    yield run.note("history", "read", _KINDS[found.kind], messages=len(asked.history))
    if found.kind in ("nothing", "about_answer"):
        reason = NOTHING_ASKED if found.kind == "nothing" else ABOUT_ANSWER
        return (yield from _decline(asked.question, reason, run))
    exchanges = exchanges_of([_marked(turn, run.settings) for turn in asked.history])
    readings, by = yield from _readings(asked, found, exchanges, run)
    context = context_of(asked.history)
    if found.kind == "open" or (found.kind == "full" and by != "model"):
        return (yield from _answer_alone(asked.question, found, readings, by, context, answer, run))
    best: Answer | None = None
    if readings:
        yield run.note("condense", readings[0].question, f"a follow-up, made full by the {by}")
        tried = []
        for reading in readings:
            tried.append((reading, (yield from answer(reading.question))))
        best = _surest(asked.question, tried, by, run)
        if by == "model" or not best.abstained:
            return best
    asks = "" if found.kind != "ellipsis" else (readings[0].question if readings else context)
    other = yield from _in_context(asked.question, context, readings, answer, run, asks)
    if other is not None and not other.abstained:
        return other
    if best is not None:
        return best
    yield run.note("condense", "declined", f"it cannot be told what {found.word or 'it'!r} refers to")
    return (yield from _decline(asked.question, FOLLOW_UP_UNCLEAR, run))


def _marked(turn: Turn, settings: SelfReflectSettings) -> Turn:
    """Return a turn that knows whether it is an abstention of ours: histories of plain texts do not say so."""
    abstained = turn.abstained or (turn.role == "assistant" and is_abstention(turn.text, settings))
    return dataclasses.replace(turn, abstained=abstained)


def _readings(
    asked: Asked, found: FollowUp, exchanges: Sequence[Exchange], run: QuestionRun
) -> Flow[tuple[list[Rewriting], str]]:
    """Return the full questions that a follow-up may stand for, and whether the model or the rule wrote them."""
    by_rule = rewrite(asked.question, found, exchanges)
    wanted = asked.condense is True or found.needs_history
    if not (wanted and exchanges):
        return by_rule, "rule"
    written = asked.condensed
    if not written and run.abilities.model("default") is not None:
        try:
            reply = yield condense_request(asked.question, exchanges, asked.prompt)
        except (LanguageModelError, LimitError) as error:
            yield run.note("condense", "model failed", error.message)
            return by_rule, "rule"
        written = read_rewriting(reply.text)
    if not written:
        return by_rule, "rule"
    if problem := refusal(written, asked.question, exchanges):
        yield run.note("condense", "rewriting not used", problem, rewriting=written)
        return by_rule, "rule"
    return [Rewriting(written, _topics(written, asked.question, by_rule))], "model"


def _topics(written: str, question: str, by_rule: Sequence[Rewriting]) -> tuple[frozenset[str], ...]:
    """Return the topics of the rule's reading that the model's has too, else the names that the model put in."""
    said, asked = frozenset(words_of(written)), frozenset(words_of(question))
    found = next((r.topics for r in by_rule if r.topics and all(topic <= said for topic in r.topics)), ())
    return found or tuple(p.words for p in phrases_of(written) if not p.words <= asked)


def _answer_alone(
    question: str,
    found: FollowUp,
    readings: Sequence[Rewriting],
    by: str,
    context: str,
    answer: Callable[[str], Flow[Answer]],
    run: QuestionRun,
) -> Flow[Answer]:
    """Answer a question that can be understood alone; without names in it, also as one about the topic."""
    alone = yield from answer(question)
    itself = Rewriting(question)
    if found.kind == "full":
        return _surest(question, [(itself, alone)], by, run)
    if own_words(question) >= _MANY_WORDS and not _problem(question, itself, alone):
        return _with_trace(alone, run)
    tried = []
    if readings:
        if not _problem(question, readings[0], alone):
            return _with_trace(alone, run)
        yield run.note("condense", readings[0].question, "asked about the topic too")
        tried.append((readings[0], (yield from answer(readings[0].question))))
        if not _problem(question, *tried[0]):
            return _surest(question, tried, by, run)
    other: Answer | None = None
    if run.abilities.model("default") is None:  # two more answers, which cost nothing without a model
        other = yield from _in_context(question, context, readings, answer, run)
    if other is not None and not other.abstained:
        same = first_quote(other) == first_quote(alone) and not _problem(question, itself, alone)
        return _with_trace(alone, run) if same else other
    # whether it was meant so is not known, which no calibration of full questions accounts for
    alone = dataclasses.replace(alone, calibrated=False)
    if other is None or own_words(question) > 1:
        return _surest(question, [*tried, (itself, alone)], by, run)
    why = "it may be about what was said before, where something else answers it"
    return _with_trace(alone if alone.abstained else _withheld(alone, why, run), run)


def _in_context(
    question: str,
    context: str,
    readings: Sequence[Rewriting],
    answer: Callable[[str], Flow[Answer]],
    run: QuestionRun,
    asks: str = "",
) -> Flow[Answer | None]:
    """Answer a question as a follow-up among passages on its topic; ``None`` if words that tell either are missing.

    Where the rule put in a name of several words, what was found must be about that too. A fragment ("And for
    juniors?") has no form of its own, so that any sentence with its words would do: what was found must have that of an
    answer to ``asks``, the question that it goes on with.
    """
    if not context or names_only(question) or not frozenset(words_of(question)) - _PLAIN - {"else"}:
        return None
    best, problem = yield from answer_in_context(question, context, answer, run)
    reading = next(filter(_has_full_name, readings), Rewriting(question))
    problem = problem or _problem(question, reading, best)
    if not problem and asks and (missing := form_missing_in(best, asks)):
        problem = f"what was found does not say {missing}"
    return _as_reply(question, best, problem, {CONDENSED: with_topic(question, context), "condensed_by": "rule"}, run)


def _has_full_name(reading: Rewriting) -> bool:
    """Return whether a name that was put in has several words, with capitals: others may be a product's or a form's."""
    names = [phrase.words for phrase in phrases_of(reading.question) if len(phrase.words) > 1]
    return any(topic <= name for topic in reading.topics for name in names)


def _surest(question: str, tried: Sequence[tuple[Rewriting, Answer]], by: str, run: QuestionRun) -> Answer:
    """Return the surest answer that is about the topic and says what is asked, or an abstention."""
    ours = [(reading, _only_about(answer, reading.topics)) for reading, answer in tried]
    judged = [(reading, answer, _problem(question, reading, answer)) for reading, answer in ours]
    right = [found for found in judged if not found[2]]
    reading, best, problem = max(right or judged[:1], key=lambda found: found[1].confidence or 0.0)
    more = {} if reading.question == question else {CONDENSED: reading.question, "condensed_by": by}
    return _as_reply(question, best, problem, more, run)


def _as_reply(question: str, answer: Answer, problem: str, more: Mapping[str, str], run: QuestionRun) -> Answer:
    """Return the answer with the user's own question; withheld where there is a problem with it."""
    if problem and not answer.abstained:
        answer = _withheld(answer, problem, run)
    return _with_trace(dataclasses.replace(answer, question=question, metadata={**answer.metadata, **more}), run)


def _problem(question: str, reading: Rewriting, answer: Answer) -> str:
    """Say why an answer cannot be shown for a reading; empty if it can."""
    if answer.abstained:
        return "it was not answered"
    if not is_about(answer, (*reading.topics, *reading.kept)):
        return "what was found is not about what the follow-up refers to"
    missing = missing_in(answer, reading.question, reading.topics, question)
    return f"what was found does not say {missing}" if missing else ""


def _decline(question: str, reason: str, run: QuestionRun) -> Flow[Answer]:
    return (yield from decide(DecisionRequest(question, (), (), pipeline=run.settings.pipeline, reason=reason), run))


def _withheld(answer: Answer, problem: str, run: QuestionRun) -> Answer:
    """Turn an answer about something else, or that says something else, into an abstention.

    The confidence was that of an answer to another question.
    """
    sentence = explain(PASSAGES_DO_NOT_ANSWER)
    dropped = tuple(dataclasses.replace(c, status="dropped", start=None, end=None) for c in answer.claims)
    text = abstention_text(answer.question, PASSAGES_DO_NOT_ANSWER, sentence, dropped, answer.passages, run.settings)
    trace = [
        dataclasses.replace(d, outcome=f"0 of {len(dropped)} claims", reason=problem) if d.kind == "keep" else d
        for d in answer.trace
        if d.kind != "answer"
    ]
    return dataclasses.replace(
        answer,
        text=text,
        claims=dropped,
        abstained=True,
        reason=PASSAGES_DO_NOT_ANSWER,
        utility=0.0,
        confidence=None,
        calibrated=False,
        trace=(*trace, Decision("abstain", PASSAGES_DO_NOT_ANSWER, problem)),
    )


def _with_trace(answer: Answer, run: QuestionRun) -> Answer:
    """Put this run's notes at the head of the answer's trace."""
    return dataclasses.replace(answer, trace=(*run.trace.decisions, *answer.trace))


# --- does the evidence say what was asked? ---------------------------------------------------------------------------


_READ = 600  # characters before a quote
_LENGTH = r"met(?:re|er)s?|kilomet\w+|centimet\w+|millimet\w+|km|cm|mm|m|miles?|feet|foot|ft|inch(?:es)?|yards?"
_TIME = r"seconds?|minutes?|hours?|days?|weeks?|months?|years?|decades?|centur\w+"
_AREA = r"square|hectares?|acres?|sq|km²|m²|km2|inhabitants|people|population|members|size|area|[gmkt]i?b|\w*bytes"
_MEASURES = {
    "high": f"{_LENGTH}|stor(?:ey|y|ie)s?|height|elevation|per|percent|%",
    "long": f"{_LENGTH}|{_TIME}|length|pages|words|characters|until|since|forever|permanent\\w*",
    "far": f"{_LENGTH}|{_TIME}|distance",
    "large": _AREA,
    "old": f"{_TIME}|age|aged|born|founded|built|\\d{{4}}",
    "heavy": r"kilo\w*|kg|grams?|g|tons?|tonnes?|pounds?|lbs?|weigh\w*|weight",
    "fast": r"knots?|mph|kph|km/h|per|speed|seconds?|minutes?|hours?",
    "often": r"times?|once|twice|every|each|daily|weekly|monthly|annually|yearly|hourly|per|whenever|always|never",
    "hot": r"degrees?|°\w*|celsius|fahrenheit|temperature",
}
_ALIKE = {"tall": "high", "deep": "high", "wide": "high", "thick": "high", "low": "high", "big": "large",
          "small": "large", "quickly": "fast", "frequently": "often", "cold": "hot", "warm": "hot", "soon": "long",
          "short": "long"}  # fmt: skip
_HOW = re.compile(rf"\bhow (?:very )?({'|'.join((*_MEASURES, *_ALIKE))})\b", re.I)
_WHY = re.compile(r"(?:^|\b(?:and|but|so|or)\s+)(?:why|for what reason|what (?:was|is) the reason|how come)\b", re.I)
_WHERE = re.compile(r"^\W*(?:(?:and|but|so|or)\s+)?where\b", re.I)
_PAST = re.compile(r"\bwhen (?:did|was|were)\b", re.I)
_ONLY_TIME = re.compile(
    r"(?:\W|\b(?:on|in|at|and|the|of|to|from|until|every|monday|tuesday|wednesday|thursday|friday|saturday|sunday|"
    r"january|february|march|april|may|june|july|august|september|october|november|december)s?\b|\d)+",
    re.I,
)
_PLACED = re.compile(
    r"\b(?:in|at|on|onto|near|from|to|into|off|over|outside|inside|beside|between|along|behind|above|below|beneath|under|"
    r"opposite|around|across|through|throughout|within|beyond|towards?|of|north|south|east|west|here|there|home|abroad|"
    r"upstairs|downstairs|online|behind|next|ahead|by (?:the|an?)|via|\w*where\w*)\b"
    r"(?!\W+(?:(?:the|early|late|mid)\W+)?(?:\d|january|february|march|april|may|june|july|"
    r"august|september|october|november|december|spring|summer|autumn|winter|\w+days?\b|"
    r"(?:most|all|some|every) \w+s\b))"
    r"|/|\.\w+\b|:",
    re.I,
)
"""Words before a place, but not before a time; paths, files' names and headings name places as well."""
_HABIT = re.compile(r"\b(?:mon|tues|wednes|thurs|fri|satur|sun)days\b|\b(?:daily|weekly|every)\b", re.I)
_PRICE = re.compile(r"\bhow much\b.*\b(?:costs?|pay|price|charged?|fees?)\b|\bwhat\b.*\b(?:price|cost|fee)\b", re.I)
_MONEY = re.compile(
    r"[£$€¥₹]|\b(?:eur|usd|gbp|chf|kr|euros?|pounds?|dollars?|cents?|pence|francs?|crowns?|free|gratis|charge[ds]?|"
    r"prices?|priced|costs?|costing|fees?|fares?|paid|included|nothing|per ?cent|half)\b|%"
    rf"|(?<![\w:.,-])(?!(?:1[5-9]|20)\d\d\b)\d[\d.,]*(?![\d:]|-\d)(?!\s*(?:{_LENGTH}|{_TIME}|{_AREA}|[ap]\.?m|places?)\b)",
    re.I,
)
"""A sum of money, or a plain number that is no measure, time or year."""
_HOW_MUCH = re.compile(r"\bhow much (?:is|are|was|were|will|do|does|did|would|can|for|to)\b(?!.*\bweigh)", re.I)
_WHO = re.compile(r"^\W*(?:(?:and|but|so|or)\s+)?(?:by |for |from |to |with )?(?:who|whom|whose)\b", re.I)
_WHEN = re.compile(r"^\W*(?:(?:and|but|so|or)\s+)?(?:(?:since|until|by) )?(?:when|(?:at |from )?what time)\b", re.I)
_TIMED = re.compile(
    r"\d|\b(?:open(?:s|ed)?|clos(?:es?|ed)|always|never|ever|daily|weekly|monthly|yearly|every|before|after|during|until|"
    r"since|when|while|once|noon|midnight|morning|evening|night|today|weekends?|weekdays?|\w+days?|spring|summer|autumn|"
    r"winter|january|february|march|april|may|june|july|august|september|october|november|december)\b",
    re.I,
)
_NUMBER = re.compile(
    r"\d|\b(?:no|none|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|\w+teen|\w+ty|hundreds?|thousands?|"
    r"dozens?|several|both|half|as many as)\b",
    re.I,
)
_COUNTED = re.compile(r"\bhow many (?:of the |more |other |such )?([a-z][\w-]*)(?:\s+([a-z][\w-]*))?", re.I)
_PRONOUN = re.compile(r"\W*(?:it|its|he|his|she|her|they|their|this|these|there)\b", re.I)
_VAGUE = WORDS["vague"]
_PLAIN = WORDS["plain"]
_LINES = [line.split() for name in ("forms", "alike") for line in LISTS[name].splitlines()]
_FORMS = {form: forms[0] for forms in _LINES for form in forms}


def is_about(answer: Answer, topics: Sequence[frozenset[str]]) -> bool:
    """Whether the evidence of each claim shown is about every topic.

    The topic's words must be in the claim, the passage or its title, and the claim itself must not speak of a namesake
    instead ("Tobin Aldreth" where "Perrin Aldreth" is the topic), nor of another number ("Windows 10" for "Windows
    11"). A claim that begins with a pronoun is read with the sentence before it.
    """
    wanted = [frozenset(map(_form, topic)) for topic in topics]
    by_id = {p.id: p for p in answer.passages}
    return all(_speaks_of(claim, by_id, topic) for claim in answer.kept_claims for topic in wanted)


def _only_about(answer: Answer, topics: Sequence[frozenset[str]]) -> Answer:
    """Leave out claims behind the first that are about another number: one about Nova 5 where Nova 7 is the topic."""
    kept = answer.kept_claims
    if answer.abstained or not any(map(numbers_in, topics)):
        return answer
    other = [c for c in kept if not is_about(dataclasses.replace(answer, claims=(c,)), topics)]
    start = next((c.start for c in other), None)
    if start is None or list(kept[len(kept) - len(other) :]) != other or len(other) == len(kept):
        return answer
    claims = (
        dataclasses.replace(c, status="dropped", start=None, end=None) if c in other else c for c in answer.claims
    )
    return dataclasses.replace(answer, text=answer.text[:start].rstrip(), claims=tuple(claims))


def _speaks_of(claim: Claim, by_id: Mapping[str, Passage], topic: frozenset[str]) -> bool:
    cited = [(by_id[s.passage_id], s) for s in cited_spans(claim) if s.passage_id in by_id]
    # what is named only behind a quote is another topic: "Renewal in May. Excess 250." says nothing of the excess's
    texts = [
        f"{p.title} {p.metadata.get('section', '')} {p.metadata.get('source', '')} {p.text[: s.end]}" for p, s in cited
    ]
    if not topic <= {_form(w) for w in words_of(" ".join([claim.text, *texts]))}:
        return False
    heads = (f"{p.title} {p.metadata.get('section', '')}. {p.text[: s.start]}" for p, s in cited)
    if cited and not any(has_its_number(topic, claim.text, head) for head in heads):
        return False
    before = [_sentence_before(p.text, s.start) for p, s in cited] if _PRONOUN.match(claim.text) else []
    kind = topic - numbers_in(topic)
    names = [frozenset(map(_form, p.words - p.numbers)) for p in phrases_of(" ".join([*before, claim.text]))]
    namesakes = [n for n in names if len(n) > 1 and n & kind and not (kind <= n or n <= kind)]
    return not namesakes or any(kind <= n for n in names)


def _sentence_before(text: str, start: int) -> str:
    return re.split(r"(?<=[.?!])\s+", text[max(0, start - _READ) : start].rstrip())[-1]


def _form(word: str) -> str:
    return word.removesuffix("s") if len(word) > 3 else word


def missing_in(answer: Answer, question: str, topics: Sequence[frozenset[str]], said: str = "") -> str:
    """Say what a full question asks for that the claims shown do not speak of; empty if nothing is missing.

    Every passage about the topic of a conversation fits its name; what is asked about it must be there too. "What was
    Senna Brode's salary?" is not answered by when she retired, "How large is the lake?" not by its depth, "Where does
    it meet?" not by "on Tuesdays".

    Args:
        answer: of the pipeline to ``question``.
        question: a full question.
        topics: words of the names that were put into it. Without any it was understood alone: then only the form of
            the answer is checked (a measure, a reason, a place, a price, a date), not its words.
        said: the follow-up as the user said it, whose own words are what is asked, if it has any.
    """
    missing = ""
    for claim in answer.kept_claims:
        if not (missing := _missing(claim, question, topics, said)):
            return ""
    return missing


def _missing(claim: Claim, question: str, topics: Sequence[frozenset[str]], user: str) -> str:
    quotes = [span.text for span in cited_spans(claim)]
    text, short = " ".join([claim.text, *quotes]), claim.short_answer or ""
    if measure := _HOW.search(question):
        word = measure[1].lower()
        units = _MEASURES[_ALIKE.get(word, word)]
        if not re.search(rf"(?<!\w)(?:\d[\d.,]*)?(?:{units}|{word}\w*)(?!\w)", text, re.I):
            return f"how {word}"
    if gives_other_dimension(question, text):
        return "that size"
    if _WHY.search(question) and not gives_reason(text):
        return "a reason"
    if _WHERE.search(question) and (not _PLACED.search(text) or (short and _ONLY_TIME.fullmatch(short))):
        return "a place"
    if short and _PRICE.search(question) and _counts(short, text, question):
        return "a price"
    if (_HOW_MUCH.search(question) or _PRICE.search(question)) and not _MONEY.search(text):
        return "a price"
    if short and _PAST.search(question) and _HABIT.search(short) and not any(c.isdigit() for c in short):
        return "a date"
    if not topics or not quotes:
        return ""
    said = {_root(w) for w in words_of(text)}
    if _HOW_MUCH.search(question) and all(_root(w) in said for topic in topics for w in topic):
        return ""  # "Juniors pay £12": a price, below the heading of the thing that has it
    if (counted := _COUNTED.search(question)) and not _holds(counted, said):
        return f"how many {counted[1]}"
    names = frozenset().union(*topics, *(p.words for p in phrases_of(question)))
    # "And the Gut Bridge?", "And version 3.11?": what is asked was said before
    left_out = not frozenset(words_of(user)) - names - _PLAIN - WORDS["numbers of"]
    asked = _content(question if left_out else user, names)
    if asked and not any(_root(w) in said for w in asked):
        return " or ".join(dict.fromkeys(asked))
    return ""


def form_missing_in(answer: Answer, question: str) -> str:
    """Say which form an answer to a question has that the first claim shown has not; empty if it has it.

    >>> form_missing_in(Answer("?", "…", (Claim("Coxes wear life jackets."),)), "How much is it for coxes?")
    'a price'
    """
    for claim in answer.kept_claims[:1]:
        text = " ".join([claim.text, *(span.text for span in cited_spans(claim))])
        if _WHO.search(question) and not new_in(phrases_of(text), phrases_of(question)):
            return "a name"
        if _WHEN.search(question) and not _TIMED.search(text):
            return "a time"
        if _COUNTED.search(question) and not _NUMBER.search(text):
            return "a number"
        return _missing(claim, question, (), "")
    return ""


def _content(question: str, names: frozenset[str]) -> list[str]:
    return [w for w in words_of(question) if w not in names | _VAGUE | _PLAIN and not w.isdigit()]


def _holds(counted: re.Match[str], said: set[str]) -> bool:
    words = [w.lower() for w in counted.groups() if w]
    return words[0] in _VAGUE | _PLAIN or any(_root(w) in said for w in words if w not in _PLAIN)


def _counts(short: str, text: str, question: str) -> bool:
    """Whether a number counts what the question itself names ("ten tickets"): no price of it."""
    unit = re.search(rf"{re.escape(short)}\s+([a-z]+)", text)
    return unit is not None and _root(unit[1]) in {_root(w) for w in words_of(question)}


def _root(word: str) -> str:
    return stem(_FORMS.get(word, word))
