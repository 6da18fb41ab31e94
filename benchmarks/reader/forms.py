"""Rewrite a question with a known answer as a statement, a yes/no question, or key words.

Users also ask "tallest tower lisbon" and "Was the tower finished in 1913?", and a critic reads statements. The rules
follow Demszky et al. 2018, "Transforming question answering datasets into natural language inference datasets", sec. 4,
without a parser, so some results are clumsy, like the texts of people and models.
"""

from __future__ import annotations

import random
import re

_WH = re.compile(
    r"(?P<before>\b(?:in|on|at|by|from|to|of|with|for|during|under|after|into|through|about|since)\s+)?"
    r"\b(?P<wh>how\s+(?:many|much|long|old|far|tall|high|large|big|often)(?:\s+(?!(?:is|was|are|were|did|does|do)\b)\w+)?"
    r"|(?:what|which)(?:\s+(?!(?:is|was|are|were|did|does|do|has|have|had|can|could|will|would|should|may|might|must|the|a|an|of|in|on)\b)"
    r"[\w'’-]+){0,2}|whose\s+\w+|who|whom|when|where|why|how|what|which)\b",
    re.IGNORECASE,
)
_DO = re.compile(r"^(did|does|do)\s+", re.IGNORECASE)
_AUXILIARY = re.compile(r"^(is|was|are|were|has|have|had|can|could|will|would|should|may|might|must)\s+", re.IGNORECASE)
_COPULA = re.compile(r"^(?P<wh>who|what|which(?:\s+\w+)?)\s+(?P<be>is|was|are|were)\s+", re.IGNORECASE)
_PARTICIPLE = re.compile(r"\s(?=(?:\w+ed|\w+en|born|built|made|known|held|found|sold|sent|set|put|led|won|lost)\b)")
_SUBJECT = re.compile(r"(?:\w+ed|\w+en|the|a|an|born|built|made|known|held|found|used)\b", re.IGNORECASE)
_HANGING = re.compile(r"\b(?:in|on|at|by|from|to|of|with|for|as|about|into)$", re.IGNORECASE)
_PREPOSITION = re.compile(r"\b(in|on|at|by|from|to|of|with|for|during|after|since)\s+(?:the\s+)?$", re.IGNORECASE)
_FILLER = re.compile(
    r"\b(?:what|which|who|whom|whose|when|where|why|how|is|was|are|were|do|does|did|the|a|an|of|in|on|to|for|that|it|its"
    r"|can|you|be|been|has|have|had|there|this|these)\b\s*",
    re.IGNORECASE,
)


def _plain(question: str) -> str:
    return question.strip().rstrip("?").rstrip()


def preposition_before(text: str, start: int) -> str:
    """Return the preposition right before code point ``start`` of ``text``, with a space after it, or ""."""
    match = _PREPOSITION.search(text[max(0, start - 20) : start])
    return f"{match.group(1).lower()} " if match else ""


def state(question: str, answer: str, before: str = "") -> str:
    """Rewrite the question as a statement with ``answer``; ``before`` is the answer's preposition in the text."""
    asked = _plain(question)
    match = _WH.search(asked)
    if match is None:
        return f"{asked}: {answer}."
    head, tail = asked[: match.start()], asked[match.end() :].strip()
    place = (match.group("before") or "").lower() + answer
    if head.strip():  # "X was founded in what year"
        return _sentence(f"{head}{place} {tail}")
    if verb := _DO.match(tail):
        rest = tail[verb.end() :]
        return _sentence(f"{rest} {place if match.group('before') else before + answer}")
    if verb := _AUXILIARY.match(tail):
        rest = tail[verb.end() :]
        alike = _COPULA.match(asked) or (" " in match["wh"] and not match["before"] and _SUBJECT.match(rest))
        if alike and not _HANGING.search(rest):  # "What is the capital of X": both orders say the same
            return _sentence(f"{answer} {verb.group()}{rest}")
        if at := _PARTICIPLE.search(rest):  # "When was X founded"
            rest = f"{rest[: at.start()]} {verb.group().strip()} {rest[at.end() :]}"
        else:
            rest = f"{verb.group()}{rest}" if verb.group().lower().startswith(("is", "was")) else rest
        return _sentence(f"{rest} {place if match.group('before') else before + answer}")
    return _sentence(f"{place} {tail}")  # "Who founded X"


def ask_whether(question: str, answer: str, before: str = "") -> str | None:
    """Rewrite the question as a yes/no question about ``answer``; ``None`` if no rule fits."""
    asked = _plain(question)
    match = _WH.match(asked)
    if match is None:
        return None
    tail = asked[match.end() :].strip()
    place = (match.group("before") or before).lower() + answer
    if (
        (copula := _COPULA.match(asked))
        and not _PARTICIPLE.search(asked[copula.end() :])
        and not _HANGING.search(asked)
    ):
        return f"{copula['be'].capitalize()} {answer} {asked[copula.end() :]}?"
    if verb := (_DO.match(tail) or _AUXILIARY.match(tail)):
        return f"{verb.group().strip().capitalize()} {tail[verb.end() :]} {place}?"
    return f"Was it {answer} who {tail}?" if match["wh"].lower() == "who" else None


def key_words(question: str, rng: random.Random) -> str | None:
    """Rewrite the question as typed into a search box; ``None`` if fewer than two words would be left."""
    words = _FILLER.sub("", _plain(question)).split()
    if len(words) < 2:
        return None
    text = " ".join(words)
    return text.lower() if rng.random() < 0.7 else text


def loosely(question: str, rng: random.Random) -> str:
    """Write the question in lower case, without its question mark, or both."""
    kind = rng.randrange(3)
    text = question if kind == 1 else question.lower()
    return text if kind == 0 else _plain(text)


def _sentence(text: str) -> str:
    text = " ".join(text.split())
    return f"{text[:1].upper()}{text[1:]}."
