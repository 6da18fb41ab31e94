"""Put what a follow-up refers to into it, by rule: names of the last topic in place of pronouns and ellipses."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from shared_core.citation.english import AUXILIARIES, BE, DO, HAVE
from shared_core.citation.sentences import split_sentences
from shared_core.conversation.numbered import WORD, WORDS, numbers_in
from shared_core.conversation.phrases import (
    Phrase,
    names_in_reply,
    new_in,
    phrases_of,
    thing_asked,
    thing_in_small,
    words_of,
)
from shared_core.conversation.recognise import FollowUp, names_only, recognise
from shared_core.conversation.swap import other_date, other_number, other_value, stands_in
from shared_core.conversation.topics import ASKS_WHO, LOOK_BACK, Exchange, candidates
from shared_core.conversation.turns import Turn
from shared_core.support.regex import lazy_regex

__all__ = ["EXCHANGES", "Exchange", "Rewriting", "exchanges_of", "rewrite"]

EXCHANGES = 8
"""Exchanges before a follow-up that are read."""
_READ = 2_000  # characters of a message

_LEAD = lazy_regex(
    r"^\W*(?:(?:ok(?:ay)?|yes|no|hm+|well|thanks|thank you|sorry|please|oh|ah|great|right|i see)[,.!]\s+)*"
    r"(?:(?:and|but|or|so|also|then|plus)\b[,:]?\s+)*",
    re.I,
)
_WRAPPED = lazy_regex(
    r"^(?:(?:do|did) you (?:happen to )?know|(?:can|could|would|will) you (?:please )?(?:tell|explain to|show) me|"
    r"are you able to tell me|(?:please )?tell me|i (?:mean|meant|wonder(?:ed)?|(?:want|need|would like) to know)|"
    r"i'd like to know)[,:]?\s+"
    r"(?=(?:who|what|which|when|where|why|how|whether|if|is|are|can|could|do|does|did|will)\b)",
    re.I,
)
_QUESTION_WORD = lazy_regex(
    r"^(?:(?:by|in|on|at|to|for|from|with|since|until|under)\s+)?(?:who|whom|whose|what|which|when|where|why|how)\b"
    r"(?:\s+(?:many|much|long|old|big|high|tall|far|deep|often|wide|heavy|fast|large)\b(?!\s+(?:is|was|are|were)\b\s*$))?\s*",
    re.I,
)
_ASKS_WITH = lazy_regex(
    r"(?:(?:by|in|on|at|to|for|from|with|since|until)\s+)?(?:(?P<who>who|whom|whose)\b|(?P<why>how\s+(?:come|so))\b|"
    r"how\s+(?P<how>many|much|long|old|big|high|tall|far|deep|often|wide|heavy|fast|large|thick)\b|"
    r"(?P<clause>when|where|why|how)\b(?!\s+about\b))",
    re.I,
)
_IS_ASKED = lazy_regex(
    rf"['’](?:s|d|re)\b|\s+(?:{AUXILIARIES}|might|\w+n['’]t)\b"
    r"|(?:\s+(?:exactly|precisely|though|then|else|not|from|to))?\W*\Z",
    re.I,
)
"""Behind a question word that does not begin a clause: "When was …", "Why not?"."""
_ASKS_YES_NO = lazy_regex(rf"(?:{AUXILIARIES}|might)\b", re.I)
_WHO_DID = lazy_regex(r"^who\s+(\w+ed|built|made|held|led|won|found|lost|sold|bought|taught)\s+(.+?)[\s?.!]*$", re.I)
_HAPPENED = lazy_regex(
    r"(when|where|why|how)\s+(?:(?:was|were)\s+(?:that|this)|did\s+(?:that|this|it)\s+happen)\W*$", re.I
)
_WAS_DONE = lazy_regex(r"(?:where|when|why|how)\s+(?:was|were|did)\b", re.I)
_POSSESSIVE = frozenset("his its their hers theirs".split())
_KIND_OF = {
    **dict.fromkeys(("he", "him", "his", "himself"), "person"),
    **dict.fromkeys(("she", "her", "hers", "herself"), "woman"),
    **dict.fromkeys(("they", "them", "their", "theirs"), "any"),
}
_NOT_NOUNS = WORDS["not nouns"]
_ORDINALS = {"first": 0, "former": 0, "second": 1, "latter": -1, "third": 2, "fourth": 3, "fifth": 4, "last": -1}
_KIND = lazy_regex(
    r"^(?:(?:and|but|or|so|what about|how about)\s+)+((?:an?|the)\s+(?!second|third)\w+)\s+ones?\W*$", re.I
)
"""A thing of another kind: "and a small one?"."""
_NOUN = lazy_regex(r"\b(?:the|an?)\s+([a-z][\w-]*)")
_ARTICLE = lazy_regex(r"\b(?:the|an?|our|my|your)\s+$", re.I)
_DOES = lazy_regex(rf"\b(?:{AUXILIARIES})\s+$", re.I)
_ORDINAL = lazy_regex(rf"\b(?:{'|'.join(_ORDINALS)})\b", re.I)
_SUBJECT = lazy_regex(
    rf"^(.*?\b(?:{BE}|{DO}|{HAVE})\s+)(?!(?:in|on|at|of|to|for|from|by|with|about)\b)"
    r"((?:the |an? )?[a-z][\w-]*)(?=[\s?.]|$)",
    re.I,
)
_GOES = lazy_regex(r"\b(?:get|go|travel|drive|walk|fly|come|sail|send|move|brought|bring)\s+$", re.I)
_PASSIVE = lazy_regex(r"\b(?:is|are|was|were|been|be)\s+$", re.I)
_TIME = lazy_regex(r"\b(?:then|time|year)$")
_DEFINITE = lazy_regex(r"\bthe\s+([a-z][\w-]+)\b")
_DEFINITE_PHRASE = lazy_regex(r"\b(?:the|an?)\s+((?:[a-z][\w-]*\s+){0,2}[a-z][\w-]*)")
_STOP = WORDS["stop"]
_GROUPS = WORDS["groups"]
_MARKS = lazy_regex(r" ?\[\d+\]")
_STATED = 40  # words of a reply whose reason may be asked


@dataclass(frozen=True, slots=True)
class Rewriting:
    """A full question in place of a follow-up.

    >>> Rewriting("When was the Tide Museum closed?", (frozenset({"museum"}),)).topics
    (frozenset({'museum'}),)

    Attributes:
        topics: the words of each name that was put in; evidence must have them.
        kept: those of what the question before it is about, which evidence must be about as well.
    """

    question: str
    topics: tuple[frozenset[str], ...] = ()
    kept: tuple[frozenset[str], ...] = ()


def exchanges_of(history: Sequence[Turn]) -> list[Exchange]:
    """List the last questions with their replies, oldest first; follow-ups among them are made full by rule."""
    found: list[Exchange] = []
    for turn in history[-4 * EXCHANGES :]:
        text = turn.text[:_READ].strip()
        if turn.role == "user" and text:
            kind = recognise(text)
            if kind.kind in ("nothing", "about_answer"):
                continue
            full = rewrite(text, kind, found)
            if full or not kind.needs_history:
                said = kind.word if kind.kind == "ellipsis" else ""
                found.append(Exchange(full[0].question if full and kind.needs_history else text, said=said))
            elif kind.kind == "ellipsis" and thing_asked(kind.word):
                found.append(Exchange("", said=kind.word))  # what it asks is not clear, but "it" is this thing now
        elif turn.role == "assistant" and text and found and not found[-1].reply and not turn.abstained:
            found[-1] = replace(found[-1], reply=text)
    return found[-EXCHANGES:]


def rewrite(question: str, follow_up: FollowUp, exchanges: Sequence[Exchange]) -> list[Rewriting]:
    """Make a follow-up a full question by rule: at most two readings, the likelier first; none if no rule fits.

    >>> last = Exchange("Who founded the Tide Museum?", "The Tide Museum was founded by Lavinia Hathe.")
    >>> rewrite("And when was it closed?", recognise("And when was it closed?"), [last])[0].question
    'When was the Tide Museum closed?'
    >>> rewrite("When did she die?", recognise("When did she die?"), [last])[0].question
    'When did Lavinia Hathe die?'
    """
    if not exchanges:
        return []
    if follow_up.kind == "ellipsis":
        return _complete(question, follow_up, exchanges)
    if follow_up.kind == "reference":
        return _refer(question, follow_up, exchanges)
    return _attach(question, exchanges) if follow_up.kind == "open" else []


def asks_with(question: str) -> str:
    """Return the word that a question asks with: the adjective behind "how"; empty for "what", "which" and the rest.

    >>> [asks_with(text) for text in ("And since when?", "How many were there?", "How come?", "How about tea?")]
    ['when', 'many', 'why', '']
    """
    bare = _LEAD.sub("", question.strip())
    asked = _WRAPPED.sub("", bare)
    found = _ASKS_WITH.match(asked)
    if found is None or (asked == bare and found["clause"] and not _IS_ASKED.match(asked, found.end())):
        return ""  # "When it rains, is it closed?"
    word = next(filter(None, (found["why"] and "why", found["how"], found["clause"], found["who"])))
    return "who" if word.lower() in ("whom", "whose") else word.lower()


# --- words that refer ----------------------------------------------------------------------------------------------


def _refer(question: str, found: FollowUp, exchanges: Sequence[Exchange]) -> list[Rewriting]:
    word = found.word.lower()
    before, after = question[: found.start], question[found.end :]
    bare = re.sub(r"['’]s$", "", word)
    if (when := _HAPPENED.match(_LEAD.sub("", question))) and (made := _event(when[1], exchanges)):
        return made
    if bare in ("that", "this", "these", "those"):
        return _demonstrative(before, after, exchanges)
    if bare == "there":
        preposition = "to" if _GOES.search(before) else "in"
        return [_made(f"{before}{preposition} {n.with_article}{after}", n) for n in candidates("place", exchanges)]
    if _TIME.search(bare):
        return []
    if " " in word or bare in ("one", "ones", "both", "either", "neither", "else", "others"):
        return _of_several(question, found, exchanges)
    kind = _KIND_OF.get(bare, "thing")
    following = words_of(after)[:1]
    possessive = bare in _POSSESSIVE or (bare == "her" and following and following[0] not in _NOT_NOUNS)
    verb = " is" if word != bare else ""
    made = []
    for name in candidates("man" if bare in ("he", "him", "his", "himself") else kind, exchanges):
        full = f"{before}{name.with_article}{_genitive(name.text) if possessive else verb}{after}"
        made.append(_made(full, name))
    return made


def _event(said: str, exchanges: Sequence[Exchange]) -> list[Rewriting]:
    """Ask when, where or why it was that the last question is about: "Who founded it?", "And when was that?"."""
    last = _LEAD.sub("", exchanges[-1].question)
    if not (_WHO_DID.match(last) or _WAS_DONE.match(last)):
        return []
    return _complete(said, FollowUp("ellipsis", said), exchanges[-1:])


def _demonstrative(before: str, after: str, exchanges: Sequence[Exchange]) -> list[Rewriting]:
    noun = re.match(r"\s+([a-z][\w-]*)", after)
    done = noun is not None and noun[1].endswith("ed") and _PASSIVE.search(before)  # "When was that decided?"
    if noun is None or noun[1] in _NOT_NOUNS | WORDS["states"] or done:
        return [_made(f"{before}{n.with_article}{after}", n) for n in candidates("thing", exchanges)]
    rest = after[noun.end() :]
    if named := _name_with(noun[1], exchanges):
        return [_made(f"{before}{named.with_article}{rest}", named)]
    names = candidates("any", exchanges)
    if any(noun[1] in n.words for n in names):  # "the workshop" of "Who founded the workshop?"
        return [_made(f"{before}{n.with_article}{rest}", n) for n in names if noun[1] in n.words]
    return [_made(f"{before}the {noun[1]} {n.text}{rest}", n) for n in names]


def _of_several(question: str, found: FollowUp, exchanges: Sequence[Exchange]) -> list[Rewriting]:
    """Choose among several names of the last exchange: "the second one", "both", "which is longer?"."""
    last = exchanges[-1]
    asked = phrases_of(last.question)
    names = new_in(names_in_reply(last.reply), asked)
    names = names if len(names) > 1 else [p for p in asked if not p.place]
    word = found.word.lower()
    if kind := _KIND.search(question):
        before, noun, after = _split_at_thing(last.question)
        return [_finish(f"{before}{kind[1]} {noun}{after}", [frozenset(words_of(kind[1])) - _STOP])] if noun else []
    if word == "one" or word == "ones":
        return [_put(question, found, n) for n in candidates("thing", exchanges)]
    place = next((w for w in words_of(word) if w in _ORDINALS), None)
    if place is not None and (counted := _ORDINAL.search(last.question)):  # "the first station", "and the second one?"
        other = last.question[: counted.start()] + place + last.question[counted.end() :]
        return [_finish(other, [frozenset({place})])]
    if len(names) < 2:
        return []
    if place is not None:
        if _LEAD.sub("", question).strip(" ?.!").lower() == word:
            return []  # what is asked of it was left out too
        return [_put(question, found, names[_ORDINALS[place]])] if _ORDINALS[place] < len(names) else []
    if len(names) != 2:
        return []
    one, two = (n.with_article for n in names)
    if word.startswith(("both", "either", "neither")):
        return [_made(f"{question[: found.start]}{one} and {two}{question[found.end :]}", *names)]
    if word.startswith(("which", "who", "what")):
        return [_made(f"{question.rstrip(' ?')}, {one} or {two}", *names)]
    return []


def _split_at_thing(question: str) -> tuple[str, str, str]:
    """Return what stands before the article of the thing that a question asks of, the thing, and what stands behind."""
    if thing := thing_asked(question):
        return _ARTICLE.sub("", question[: thing.start]), thing.text, question[thing.end :]
    if noun := _NOUN.search(question):
        return question[: noun.start()], noun[1], question[noun.end() :]
    return question, "", ""


def _put(question: str, found: FollowUp, name: Phrase) -> Rewriting:
    """Put a name in place of the words found."""
    return _made(question[: found.start] + name.with_article + question[found.end :], name)


# --- what was left out ---------------------------------------------------------------------------------------------


def _complete(question: str, found: FollowUp, exchanges: Sequence[Exchange]) -> list[Rewriting]:
    exchange = next((e for e in reversed(exchanges) if e.question), Exchange(""))
    last = _LEAD.sub("", exchange.question)
    topics = _subjects(last)
    said = re.sub(r"\s+(?:exactly|precisely|though)\Z", "", found.word)
    opener = _QUESTION_WORD.match(said)
    if opener and opener.end() == len(said):
        rest = _QUESTION_WORD.sub("", last, count=1)
        if said.lower() == "who" and not ASKS_WHO.match(last):
            said = "by whom"
        if said.lower().startswith("why") and not _ASKS_YES_NO.match(rest):
            return _why_so(said, exchange.reply, topics)  # "What happens to it?", "why?"
        if (done := _WHO_DID.match(last)) and not said.lower().endswith(("who", "whom")):
            rest = f"was {done[2]} {done[1]}"
        return [_finish(f"{said} {rest}", topics)] if rest != last else []
    if "more" in words_of(said):
        return [_made(f"Tell me more about {n.with_article}", n) for n in candidates("any", exchanges)[:1]]
    if opener or "what" in words_of(said) or said.lower() == "and then":
        return []
    if pronoun := re.match(r"(?:his|her|its|their)\s+", said, re.I):
        names = candidates("person" if said.lower().startswith(("his", "her")) else "any", exchanges)
        return [_made(f"What is {n.with_article}{_genitive(n.text)} {said[pronoun.end() :]}", n) for n in names]
    return [made for made in _instead(said, last) if stands_in(made.question, said)]


def _why_so(said: str, reply: str, topics: Sequence[frozenset[str]]) -> list[Rewriting]:
    """Ask for the reason of what was replied: "It is kept dry." → "Why is it that it is kept dry?"."""
    text = _MARKS.sub("", reply)
    start, end = next(iter(split_sentences(text)), (0, 0))
    stated = text[start:end].strip().rstrip(".!")
    if said.lower().startswith("why not") or not 3 <= len(words_of(stated)) <= _STATED or stated.endswith("?"):
        return []
    first = stated.split()[0]
    small = first.lower() in _STOP or first.lower() in WORDS["plain"]
    return [_finish(f"Why is it that {stated[0].lower() if small else stated[0]}{stated[1:]}", topics)]


def _instead(said: str, last: str) -> list[Rewriting]:
    """Ask the last question of something else: "and the Gut Bridge?", "and in 1904?"."""
    stem = last.rstrip(" ?.")
    if group := _for_group(said, stem):
        return [group]
    if swapped := other_number(said, last) or other_date(said, last):
        return [_finish(*swapped)]
    if asked := other_value(said, last):
        return [_finish(asked, [p.words for p in phrases_of(last)[:1]])]
    if _BEGINS_WITH_PREPOSITION.match(said):
        return [_behind_preposition(said, last, stem)]
    new = phrases_of(f"of {said}")
    small, other = thing_in_small(last), thing_in_small(said) or (new[0] if new else None)
    if small and other and not phrases_of(last):
        return [_finish(last[: small.start] + other.text + last[small.end :], [other.words])]
    wanted = [frozenset(words_of(said)) - _STOP] if not new else [p.words for p in new]
    for thing in _DEFINITE_PHRASE.finditer(last) if not new else ():  # "the budget": "I meant the budget for the flat"
        shared = [m.end() for m in WORD.finditer(thing[1]) if m.group().lower() in wanted[0]]
        if shared:
            return [_finish(last[: thing.start()] + said + last[thing.start(1) + shared[-1] :], wanted)]
    before, noun, after = _split_at_thing(last)
    if noun and not phrases_of(last) and _DOES.search(before):
        by_place = [_finish(f"{stem} ({said})", wanted)] if new else []
        return [_finish(before + said + after, wanted, _places(after)), *by_place]
    subject = None if new else _SUBJECT.match(last)
    if subject and not any(p.start < subject.end() and subject.start(2) < p.end for p in phrases_of(last)):
        after = last[subject.end() :]  # "When did television come?", "and radio?"
        return [_finish(subject[1] + said + after, wanted, _places(after))]
    return _in_place_of_name(said, last, stem, new, wanted)


_BEGINS_WITH_PREPOSITION = lazy_regex(
    r"(?:in|on|at|for|with|without|by|from|to|of|after|before|since|until|during|under|over|per)\b", re.I
)


def _behind_preposition(said: str, last: str, stem: str) -> Rewriting:
    """Put a fragment behind the preposition of a name ("in 1904"), else at the end of the question."""
    preposition, _, rest = said.partition(" ")
    named = [
        p for p in phrases_of(last) if words_of(last[: p.start].removesuffix("the "))[-1:] == [preposition.lower()]
    ]
    if phrases_of(said) and named:
        start = named[-1].start - 4 * named[-1].article
        return _finish(last[:start] + rest + last[named[-1].end :], [p.words for p in phrases_of(said)])
    same = list(re.finditer(rf"\b{re.escape(preposition)}\s", stem, re.I))
    kept = stem[: same[-1].start()].rstrip() if same and not named else stem
    wanted = [p.words for p in phrases_of(said)] or [frozenset(words_of(rest)) - WORDS["vague"] - _STOP]
    return _finish(f"{kept or stem} {said}", wanted, _subjects(kept or stem))


def _in_place_of_name(
    said: str, last: str, stem: str, new: Sequence[Phrase], wanted: Sequence[frozenset[str]]
) -> list[Rewriting]:
    """Put a fragment in the place of a name of the question, or of a thing with an article."""
    old_names = [p for p in phrases_of(last) if not p.place] or phrases_of(last)
    persons = bool(new) and new[0].is_person
    definite = list(_DEFINITE.finditer(last)) if said.lower().startswith("the ") else []
    alike = [p for p in old_names if p.is_person == persons] or ([] if definite and not new else old_names)
    if alike:
        target = alike[-1]
        start = target.start - (4 if target.article and said.lower().startswith("the ") else 0)
        return [_finish(last[:start] + said + last[target.end :], wanted)]
    if definite:
        before, _, after = _split_at_thing(last[definite[-1].start() :])
        return [_finish(last[: definite[-1].start()] + before + said + after, wanted)]
    return [_finish(f"{stem} ({said})", wanted)] if new else []


def _for_group(said: str, stem: str) -> Rewriting | None:
    """Ask the last question for other people: "an adult membership" and "for juniors" is "a membership for juniors"."""
    people = re.sub(r"^(?:for|of|by|with|to)\s+", "", said, flags=re.I)
    words = words_of(people)
    old = [m for m in WORD.finditer(stem) if m.group().lower() in _GROUPS]
    if len(old) != 1 or words[-1:] == [old[0].group().lower()] or not _GROUPS & {*words[:1], *words[-1:]}:
        return None
    if words[-1] not in _GROUPS and not re.match(r"\w+\s+(?:under|over|aged|above|below|with|who)\b", people, re.I):
        return None  # "a family membership" names the thing itself
    before, after = stem[: old[0].start()], stem[old[0].end() :]
    noun = re.match(r"\s+([a-z][\w-]*)", after)
    thing = thing_asked(stem)
    ends_thing = noun is None or noun[1] in _NOT_NOUNS or (thing is not None and thing.end == old[0].end())
    if ends_thing or noun is None or old[0].group().lower().endswith("s"):
        return _finish(f"{_ARTICLE.sub('', before)}{people}{after}", [frozenset(words)], _subjects(before))
    before = re.sub(r"\ban?\s+$", "an " if noun[1][0] in "aeiou" else "a ", before)
    full = f"{before}{noun[1]} for {people}{after[noun.end() :]}"
    return _finish(full, [frozenset(words)], [frozenset({noun[1]})])


def _places(after: str) -> list[frozenset[str]]:
    """Return the words of a place that a question still names behind what is new in it: "in the mill"."""
    place = re.search(r"\b(?:in|at|on|inside|aboard)\s+(?=the\s)", after)
    thing = thing_asked(after[place.end() :]) if place else None
    return [thing.words] if thing else []


def _subjects(question: str) -> list[frozenset[str]]:
    """Return the words of each name that a question is about; without any those of the thing that it asks of."""
    names = [p.words for p in phrases_of(question) if not p.place]
    thing = None if names else thing_asked(question)
    return names or ([thing.words] if thing else [])


# --- what may belong to the topic ----------------------------------------------------------------------------------


def _attach(question: str, exchanges: Sequence[Exchange]) -> list[Rewriting]:
    """Read a question without names as one about the topic: "the station" as the one that was spoken of."""
    for noun in _DEFINITE.finditer(question):
        if name := _name_with(noun[1], exchanges):
            return [_made(question[: noun.start()] + name.with_article + question[noun.end() :], name)]
    if names_only(question):
        return [Rewriting(f"What is {question.strip(' .!')}?")]
    return [_made(f"{question.rstrip(' ?.')} ({n.text})", n) for n in candidates("topic", exchanges)[:1]]


def _name_with(noun: str, exchanges: Sequence[Exchange]) -> Phrase | None:
    """Return the last name that has the noun in it ("Tide Museum") or behind it ("the Lowen Gut station")."""
    for exchange in reversed(exchanges[-LOOK_BACK:]):
        for text in (exchange.question, exchange.reply):
            for name in names_in_reply(text):
                if noun.lower() in name.words and len(name.words) > 1:
                    return name
                if re.match(rf"\s+{re.escape(noun)}\b", text[name.end :]):
                    return Phrase(f"{name.text} {noun}", name.start, name.end + len(noun) + 1, True)
    return None


def _genitive(name: str) -> str:
    return "'" if name.endswith("s") else "'s"


def _made(question: str, *names: Phrase) -> Rewriting:
    return _finish(question, [name.words for name in names])


def _finish(question: str, topics: Sequence[frozenset[str]], kept: Sequence[frozenset[str]] = ()) -> Rewriting:
    text = _WRAPPED.sub("", _LEAD.sub("", re.sub(r"\s+", " ", question).strip())).rstrip(" ?.!")
    return Rewriting(f"{text[:1].upper()}{text[1:]}?", _content_of(topics), _content_of(kept))


def _content_of(names: Sequence[frozenset[str]]) -> tuple[frozenset[str], ...]:
    kept = (name - (_STOP - numbers_in(name)) for name in names)  # the letter of "hepatitis A" is no article
    return tuple(name for name in kept if name)
