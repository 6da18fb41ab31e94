"""Say in full what a clause leaves to the one before it: "Guests may not enter; members may"."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from shared_core.citation.facts.tokens import BE, Sentence, Token, fold, tokens_of
from shared_core.support.regex import lazy_regex

_MODALS = ("can", "could", "may", "might", "must", "shall", "should", "will", "would", "cannot")
_HAVE, _DO = ("has", "have", "had"), ("do", "does", "did")
_AUXILIARIES = (BE, _MODALS, _HAVE, _DO)
_LEFT = lazy_regex(
    r"(?P<joint>[,;]\s*(?:(?:and|but|while|whereas|although|though)\s)?|\s(?:and|but|while|whereas)\s|\A(?:but\s)?)"
    r"(?P<subject>[^,;:()]{1,60}?)\s(?P<verb>is|are|was|were|do|does|did|has|have|had"
    r"|can|could|may|might|must|shall|should|will|would|cannot)"
    r"(?P<negation>n['’]t|\snot)?(?:\s(?:be|have|have\sbeen))?(?:\s(?:too|as well|either))?"
    r"\s*(?P<end>[.!]?\s*\Z|[,;](?=\s))",
    re.IGNORECASE,
)
_NO_SUBJECT = frozenset(
    """what which who whom whose how where when why as than that if whether because since until unless so before after
    not never no none nobody nothing neither nor is are was were be been do does did can could may might must will would
    has have had there once where wherever whatever it""".split()
)
_LONGEST = 6  # words of such a subject


def in_full(sentences: Sequence[Sentence]) -> list[Sentence]:
    """Cut the clauses off that leave out their verb, and give each of them that of the clause before.

    >>> from shared_core.citation.facts.tokens import sentences_of
    >>> [s.text for s in in_full(sentences_of("Guests may not enter the hall; members may."))]
    ['Guests may not enter the hall', 'members may enter the hall']
    """
    found: list[Sentence] = []
    for sentence in sentences:
        found += _cut(sentence, found[-1] if found else None)
    return found


_INCLUDING = lazy_regex(
    r"\A([^,]+), (?:including|even|also) ([^,]+), ((?:can|may|must|is|are|was|were|has|have)\b.*)\Z", re.DOTALL
)


def each_included(sentences: Sequence[Sentence]) -> list[Sentence]:
    """Add what a sentence says of what it includes: "All loans, including films, may be renewed"."""
    found: list[Sentence] = []
    for sentence in sentences:
        found.append(sentence)
        if included := _INCLUDING.match(sentence.text.strip()):
            text = f"{included[2]} {included[3]}"
            found.append(Sentence(text, tokens_of(text)))
    return found


def _cut(sentence: Sentence, previous: Sentence | None) -> list[Sentence]:
    for left in _LEFT.finditer(sentence.text):
        subject = tokens_of(left["subject"])
        before = sentence.text[: left.start()]
        full = Sentence(before, tokens_of(before)) if before.strip() else previous
        if full is previous and left["end"][:1] == ",":
            continue  # "The truth is, nobody pays"
        if full is None or not _is_subject(subject) or full.text.rstrip().endswith("?"):
            continue
        said = _predicate(full, fold(left["verb"]))
        if said is None:
            continue
        negated = bool(left["negation"]) or left["verb"].lower() == "cannot"
        verb = "can" if left["verb"].lower() == "cannot" else left["verb"]
        thing = _numbered(full, subject) + left["subject"]
        text = f"{thing} {verb}{' not' if negated else ''} {said}"
        first = [] if full is previous else [full]
        rest = sentence.text[left.end() :] if left["end"][:1] in (",", ";") else ""
        behind = tokens_of(rest)
        own = Sentence(text, tokens_of(text))
        return [*first, own, *(_cut(Sentence(rest, behind), own) if behind else ())]
    return [sentence]


def _is_subject(tokens: Sequence[Token]) -> bool:
    """Whether the words may name a thing: a few, no clause of their own."""
    words = [fold(t.text) for t in tokens]
    return 0 < len(words) <= _LONGEST and not _NO_SUBJECT & set(words)


def _numbered(full: Sentence, subject: Sequence[Token]) -> str:
    """Return the noun that a subject of nothing but numbers leaves out: "Rooms 5 and 6 are heated, 7 and 8 are not"."""
    if not all(t.is_number or fold(t.text) in ("and", "or") for t in subject):
        return ""
    beside = next(((a, b) for a, b in pairwise(full.tokens) if a.is_content and b.is_number), None)
    return f"{beside[0].text} " if beside else ""


def _predicate(full: Sentence, verb: str) -> str | None:
    """Return what a sentence says behind its auxiliary of the same kind, or from its verb on; ``None`` if unknown."""
    kind = next(words for words in _AUXILIARIES if verb in words)
    stems = [re.sub(r"n['’]t\Z", "", fold(t.text)) for t in full.tokens]
    at = next((i for i, w in enumerate(stems) if w in kind and i > 0), None)
    if at is None and kind is _DO:
        start = _verb_at(full.tokens)
        return full.text[start:].strip(" ,;.") if start is not None else None
    if at is None:
        return None
    behind = [t for t in full.tokens[at + 1 :] if not t.is_negation]
    return full.text[behind[0].start :].strip(" ,;.") if behind else None


def _verb_at(tokens: Sequence[Token]) -> int | None:
    """Return where the verb begins, told by its agreement with the noun before it: "lamps need", "the lamp needs"."""
    plural = [_ends_in_s(t) for t in tokens]
    for i in range(len(tokens) - 1):
        one, verb = tokens[i], tokens[i + 1]
        if not (one.is_content or one.is_capitalised) or not verb.is_content or plural[i] == plural[i + 1]:
            continue
        if plural[i + 1] and i + 2 < len(tokens) and tokens[i + 2].is_content and not plural[i + 2]:
            continue  # "red lamps need"
        return verb.start
    return None


def _ends_in_s(token: Token) -> bool:
    return token.text.endswith("s") and not token.text.endswith(("ss", "us", "is"))
