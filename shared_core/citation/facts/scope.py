"""Tell how much a claim takes in: all, some or only these, with or without an exception."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from shared_core.citation.facts.negations import is_denied
from shared_core.citation.facts.quantities import UNITS
from shared_core.citation.facts.tokens import (
    Found,
    Sentence,
    Token,
    clauses_of,
    content_keys,
    fold,
    stem,
    telling_keys_of,
    tokens_of,
    with_word_before,
)
from shared_core.support.regex import lazy_regex

_COUNT = "two|three|four|five|six|seven|eight|nine|ten"
_SHARE = lazy_regex(rf"\b(\d+|one|{_COUNT}) of (?:the|its|their) ((?:\d+|{_COUNT}) \w+)", re.IGNORECASE)
_PART = lazy_regex(
    rf"\b(?:of (?:them|these|those|which)|(?:a|one) (?:portion|part|section|stretch) of"
    rf"|(?:\d[\d.,]*(?: ?%| percent)?|one|{_COUNT}) of (?:the|them|its|their))\b",
    re.IGNORECASE,
)
_FEW, _SOME, _MANY, _MOST, _EVERY = range(1, 6)
_HOW_MANY = {
    **dict.fromkeys("few seldom rarely handful".split(), _FEW),
    **dict.fromkeys("some several partly sometimes occasionally half".split(), _SOME),
    **dict.fromkeys("many often frequently".split(), _MANY),
    **dict.fromkeys("most mostly majority usually generally normally typically mainly largely".split(), _MOST),
    **dict.fromkeys("all every each entire whole entirely exclusively only always everyone everybody".split(), _EVERY),
}
_OTHERWISE = {(_EVERY, n) for n in (_FEW, _SOME, _MANY, _MOST)} | {(_MOST, _FEW), (_MOST, _SOME), (_FEW, _MOST)}
_OTHERWISE |= {(_MANY, _FEW), (_FEW, _MANY)}
_ALIKE = 0.6
_REACH = 6  # tokens


def overstated(claim: Sentence, nearest: Sentence) -> Found:
    """Find "all" or "nine plug-ins" in the claim where the evidence speaks of a part ("three of the nine plug-ins").

    Or "most" where the clause of the evidence that says the same has "a few".
    """
    share, said = _SHARE.search(nearest.text), claim.text.lower()
    if share is not None and share[2].lower() in said and share[1].lower() not in said:
        return share[2], share[0]
    own = _amounts(claim.tokens)
    if len(own) != 1 or _PART.search(claim.text):
        return None
    ((every, amount),) = own
    part = _PART.search(nearest.text)
    if part is not None and amount == _EVERY and not any(n == _EVERY for _, n in _amounts(nearest.tokens)):
        thing = claim.content_behind(every.end)
        behind = [t.key for t in nearest.tokens if t.start >= part.start()][:_REACH]
        of_them = (
            part.group().lower().split()[-1] in ("them", "these", "those", "which")
            and thing is not None
            and thing.key in nearest.keys
        )
        if thing is not None and (thing.key in behind or of_them):
            return every.text, part.group()
    rest = content_keys(t for t in claim.tokens if t is not every)
    clauses = clauses_of(nearest)
    best = max(clauses, key=lambda c: len(rest & content_keys(c)))
    held = _amounts(best)
    if len(held) != 1 or not rest or len(rest & content_keys(best)) < _ALIKE * len(rest):
        return None
    ((other, held_amount),) = held
    behind = [t.key for t in best if t.start > other.start and t.is_content][:_REACH]
    ahead = [t.key for t in claim.tokens if t.start > every.start and t.is_content][:_REACH]
    if (amount, held_amount) in _OTHERWISE and set(behind) & set(ahead):
        return every.text, other.text
    return None


def _amounts(tokens: Sequence[Token]) -> list[tuple[Token, int]]:
    """Return the words that say how many or how often, with their place on the scale from few to all."""
    idle = ("the", "at", "after", "above", "in", "how", "as", "not")  # "the most", "at all", "as many"
    return [
        (token, amount)
        for before, token in with_word_before(tokens)
        if (amount := _HOW_MANY.get(fold(token.text)))
        and (before not in idle or fold(token.text) in ("whole", "entire"))
        and not _time_behind(tokens, token)
    ]


def _time_behind(tokens: Sequence[Token], token: Token) -> bool:
    following = next((t for t in tokens if t.start > token.start), None)
    unit = UNITS.get(fold(following.text)) if following is not None else None
    return unit is not None and unit.dimension == "time"  # "every week"


# --- which of them ---------------------------------------------------------------------------------------------------

_WHOLE = frozenset("all every each any always everywhere anywhere worldwide everyone everybody daily no never".split())
_NARROW = lazy_regex(
    r"(?:\s(?:under|over|below|above|with|without|within|who|that|whose|weighing|aged?|outside|between)\b"
    r"|, (?:except|if|provided))([^,;.]*)",
    re.IGNORECASE,
)
_FURTHER = lazy_regex(r"(?:\s[\w-]+){1,7}?\s(?:who|whose|weighing|provided)\b([^,;.]*)", re.IGNORECASE)
_NARROWED = lazy_regex(r"^\W*(?:within|among|outside|during|under|inside)\s([^,]*),", re.IGNORECASE)
EXCEPT = lazy_regex(
    r"\b(?:except(?:ing|ions?)?|exclud\w*|other than|apart from|but not|save for"
    r"|(?<=everyone )but|(?<=everybody )but|(?<=everything )but|(?<=everywhere )but|(?<=nobody )but|(?<=no one )but)\b"
    r"(?: (?:for|on|in|at|to|of|cases|the))*"
    r"([^,.;]*)",
    re.IGNORECASE,
)
_EVEN = lazy_regex(r"\b(?:includ\w+|even|also)\b(?: (?:for|on|in|at|to|of|cases|the))*([^,.;]*)", re.IGNORECASE)


LIMITS = lazy_regex(
    r"\b(?:only|unless|except\w*|if|when|but|provided|conditions?|restrict\w*|subject to|depend\w*|need\w*|requir\w*"
    r"|must)\b",
    re.IGNORECASE,
)


def widened(claim: Sentence, nearest: Sentence) -> Found:
    """Find "all dogs", or "everywhere", in the claim where the evidence says it of some only ("dogs under 10 kg")."""
    universal = next((t for t in claim.tokens if fold(t.text) in _WHOLE and not _time_behind(claim.tokens, t)), None)
    if universal is None or any(fold(t.text) in _WHOLE for t in nearest.tokens):
        return None
    place = fold(universal.text) in ("everywhere", "anywhere", "worldwide", "always", "everyone", "everybody")
    narrowed = _NARROWED.match(nearest.text)
    if narrowed is None and not place:
        thing = claim.content_behind(universal.end)
        held = next((t for t in nearest.tokens if thing is not None and t.key == thing.key), None)
        narrowed = _NARROW.match(nearest.text, held.end) if held is not None else None
        if narrowed is None and held is not None and not re.search(r"\bwho(?:se)?\b|\bweigh", claim.text):
            further = _FURTHER.match(nearest.text, held.end)
            limits = telling_keys_of(further[1]) if further else frozenset()
            if further and limits and not limits & claim.keys:
                return universal.text, further.group().strip()
    if narrowed is None or _NARROW.search(claim.text) or _NARROWED.match(claim.text):
        return None
    limit = next((t for t in tokens_of(narrowed[1]) if t.is_telling), None)
    return (universal.text, narrowed.group().strip(" ,")) if limit and limit.key not in claim.keys else None


def without_exception(claim: Sentence, nearest: Sentence) -> Found:
    """Find an exception ("except the studio") that a claim on all or none of them leaves out."""
    exception = EXCEPT.search(nearest.text)
    if exception is None or EXCEPT.search(claim.text) or LIMITS.search(claim.text):
        return None
    amounts = [fold(t.text) for t in claim.tokens if fold(t.text) in _WHOLE]
    kept = content_keys(tokens_of(exception[1]))
    plain = content_keys([t for t in nearest.tokens if not exception.start() <= t.start < exception.end()])
    said = content_keys(claim.tokens)
    if amounts and kept and not kept & said and said and len(said & plain) >= _ALIKE * len(said):
        return exception.group().strip(), ""
    return None


def includes_exception(claim: Sentence, nearest: Sentence) -> Found:
    """Find "even on Mondays" in the claim where the evidence has "except on Mondays"."""
    own, held = _EVEN.search(claim.text), EXCEPT.search(nearest.text)
    if own is None or held is None:
        return None
    said = content_keys(tokens_of(own[1]))
    return (own.group().strip(), held.group().strip()) if said and said <= content_keys(tokens_of(held[1])) else None


def only_added(claim: Sentence, evidence: Sequence[Sentence]) -> Found:
    """Find "only" with its next word where no word of the evidence limits anything."""
    words = [fold(t.text) for t in claim.tokens]
    if re.search(r", only|\b(?:after|before|when|if|once|until)\b", claim.text):
        return None
    at = next((i for i, w in enumerate(words) if w in _SOLE and (i == 0 or words[i - 1] not in ("not", "the"))), None)
    if at is None or at + 1 == len(words) or claim.tokens[at + 1].is_number or words[at + 1] in _NUMBERS:
        return None
    if any(LIMITS.search(s.text) or _SOLELY.search(s.text) or s.is_negated for s in evidence):
        return None
    return f"{claim.tokens[at].text} {claim.tokens[at + 1].text}", ""


_SOLE = frozenset("only solely exclusively".split())
_NUMBERS = frozenset(f"a an half about {_COUNT.replace('|', ' ')}".split())
_SOLELY = lazy_regex(
    r"\b(?:sole\w*|exclusiv\w*|alone|just|single|unique\w*|entire\w*|all|every|purely|merely|limit\w*|reserved|one|first"
    r"|last|solitary|wholly|other|else|few\w*|remaining|rare\w*|aged|from \d+|at (?:least|most)|up to)\b",
    re.IGNORECASE,
)


_ALONE = lazy_regex(r"\b(?:([^\W\d_]+) alone|(?:only|solely|exclusively)(?: \w{2,7})? ([^\W\d_]+))\b")


def one_of_two(claim: Sentence, nearest: Sentence) -> Found:
    """Find "by dividends alone" in the claim where the evidence has "by buying shares and dividends"."""
    own = _ALONE.search(claim.text)
    if own is None or _SOLELY.search(nearest.text) or LIMITS.search(nearest.text) or is_denied(claim):
        return None
    alone = stem(own[1] or own[2])
    for one, joint, other in zip(nearest.tokens, nearest.tokens[1:], nearest.tokens[2:], strict=False):
        both = {one.key, other.key}
        if joint.text == "and" and alone in both and one.is_content and other.is_content and not both <= claim.keys:
            return own.group(), nearest.text[one.start : other.end]
    return None


def of_exception(claim: Sentence, nearest: Sentence) -> Found:
    """Find "lunch is served on Mondays" where the evidence has "lunch is served daily, except on Mondays"."""
    excepted = EXCEPT.search(nearest.text)
    if excepted is None or EXCEPT.search(claim.text):
        return None
    before = tokens_of(nearest.text[: excepted.start()])
    if not names_excepted(claim, excepted) or is_denied(claim) != is_denied(Sentence("", before)):
        return None
    return claim.text.strip(), excepted.group().strip()


def names_excepted(claim: Sentence, excepted: re.Match[str]) -> bool:
    """Whether the claim names one of the things behind "except": all words of it that the rest does not have."""
    plain = telling_keys_of(excepted.string[: excepted.start()])
    for thing in re.split(r",|\b(?:and|or)\b", excepted[1]):
        words = telling_keys_of(thing) - plain
        if any(not w[:1].isdigit() for w in words):
            if words <= claim.keys:
                return True
        elif words and (code := re.search(r"\d.*", thing.strip())):  # "rooms 4 and 11", "class 3B"
            said = re.search(rf"(?:\A|[^\W\d_]{{3,}} ?)\b{re.escape(code[0])}\b", claim.text)
            if said and (said[0] == code[0] or telling_keys_of(said[0][: -len(code[0])]) & plain):
                return True
    return False


# --- only these, and no others ---------------------------------------------------------------------------------------

_ONLY = frozenset("only solely exclusively alone".split())
_ANYONE = frozenset("anyone anybody everyone everybody all any every each both".split())
_NONE_OF = lazy_regex(r"\bnon-(\w+)", re.IGNORECASE)
_UNLIKE = lazy_regex(r"\bunlike ([^,;]*)", re.IGNORECASE)
_UNREAL = lazy_regex(r"\bwould\b.*\bif\b|\bif\b.*\bwould\b", re.IGNORECASE | re.DOTALL)


def denies_others(claim: Sentence, nearest: Sentence) -> bool:
    """Whether one sentence denies what the other implies not to be: "only Clara", "unlike gulls", "if it were so".

    Or speaks of an exception of the other's ("daily except Mondays"), or of those who are none of "only members".
    """
    if (excepted := EXCEPT.search(nearest.text)) and not EXCEPT.search(claim.text):
        before = nearest.text[: excepted.start()]
        if names_excepted(claim, excepted) and is_denied(claim) != is_denied(Sentence(before, tokens_of(before))):
            return True
    if (none := _NONE_OF.search(claim.text)) and (only := _only(nearest)):
        members, does = ({t.key for t in part} for part in only)
        denied = sum(t.is_negation for t in claim.tokens) > 1
        return stem(fold(none[1])) in members and (denied or not (content_keys(claim.tokens) - members) & does)
    if _denies_other_place(claim, nearest):
        return True
    if _UNREAL.search(nearest.text) and not _UNREAL.search(claim.text):
        return True
    for one, other in ((claim, nearest), (nearest, claim)):
        if (these := _only(one)) and not {t.key for t in these[0]} <= other.keys:
            return True
        if (unlike := _UNLIKE.search(one.text)) and content_keys(tokens_of(unlike[1])) <= other.keys:
            return True
    words = {stem(fold(t.text)[len(p) :]) for t in claim.tokens for p in ("un", "non") if fold(t.text).startswith(p)}
    return bool(_ONLY & {fold(t.text) for t in nearest.tokens} and words & nearest.keys)


_ONLY_THERE = lazy_regex(
    r"\b(?:in|for|on|at|by|with|from|during) ([^,.;]{2,40}?) only\b"
    r"|\bonly (?:in|for|on|at|by|with|from|during) ([^,.;]{2,40})",
    re.IGNORECASE,
)


def _denies_other_place(claim: Sentence, nearest: Sentence) -> bool:
    """Whether the claim denies of something else what the evidence has "for books only"."""
    only = _ONLY_THERE.search(nearest.text)
    if only is None or not is_denied(claim) or is_denied(nearest):
        return False
    place = telling_keys_of(only[1] or only[2])
    return bool(place) and not place & claim.keys and bool(content_keys(claim.tokens) - nearest.keys)


def _only(sentence: Sentence) -> tuple[tuple[Token, ...], tuple[Token, ...]] | None:
    """Return whom "only X …" at the head of a clause speaks of, and the rest of the clause."""
    for clause in clauses_of(sentence):
        for i, token in enumerate(clause[:-1]):
            if fold(token.text) not in ("only", "just") or any(t.is_content for t in clause[:i]):
                continue
            behind = [t for t in clause[i + 1 :] if fold(t.text) not in ("a", "an", "the")]
            named = list(itertools.takewhile(lambda t: t.is_capitalised, behind))
            these = named or list(itertools.takewhile(lambda t: not t.is_function_word, behind))
            rest = tuple(t for t in behind if t not in these)
            if these and rest and not these[0].is_number:
                return tuple(these), rest
    return None


def given_to_others(claim: Sentence, nearest: Sentence) -> Found:
    """Find "Ida was paid" or "anyone may enter" where the evidence has "only Clara was paid", "only staff may"."""
    only = _only(nearest)
    if only is None or any(t.is_negation or fold(t.text) in _ONLY for t in claim.tokens):
        return None
    these, rest = only
    others = [t for t in claim.tokens if t.key not in content_keys(rest) and (t.is_content or fold(t.text) in _ANYONE)]
    if not others or {t.key for t in these} & claim.keys or not content_keys(rest):
        return None
    open_to = fold(claim.tokens[0].text) in _ANYONE
    named = these[0].is_capitalised and others[0] is claim.tokens[0] and others[0].is_capitalised
    told = content_keys(claim.tokens) & content_keys(rest)
    if len(told) < _ALIKE * len(content_keys(rest)):
        return None
    if open_to or (named and not others[0].is_function_word):
        return others[0].text, f"only {' '.join(t.text for t in these)}"
    return None


def not_of_these(claim: Sentence, nearest: Sentence) -> Found:
    """Find "visitors may park here" where the evidence has "only residents may park here", which does not say so."""
    only = _only(nearest)
    if only is None or any(t.is_negation or fold(t.text) in _ONLY for t in claim.tokens):
        return None
    these, rest = ({t.key for t in part if t.is_content} for part in only)
    verb = next((t for t in claim.tokens if t.key in rest or fold(t.text) in _AUXILIARY), None)
    subject = content_keys(t for t in claim.tokens if verb is not None and t.start < verb.start)
    others = subject and not subject & (these | rest) and not any(t.is_number for t in only[0])
    return (f"only {' '.join(t.text for t in only[0])}", "") if others and these and rest <= claim.keys else None


_AUXILIARY = frozenset("may can must will could might should is are was were has have do does did".split())
_KIND_BEFORE = frozenset("the our its their these those his her your my".split())


def of_a_kind(claim: Sentence, nearest: Sentence) -> Found:
    """Find "all rooms" in the claim where the evidence speaks of "the upper rooms" only."""
    for every, thing in itertools.pairwise(t for t in claim.tokens if fold(t.text) not in ("of", "the", "our", "its")):
        if fold(every.text) not in ("all", "every", "each") or not thing.is_content:
            continue
        at = [i for i, t in enumerate(nearest.tokens) if t.key == thing.key]
        if len(at) != 1 or any(fold(t.text) in _WHOLE for t in nearest.tokens):
            continue
        kind = list(itertools.takewhile(lambda t: t.is_content, reversed(nearest.tokens[: at[0]])))[::-1]
        first = nearest.tokens.index(kind[0]) if kind else 0
        hyphened = len(kind) > 1 and nearest.text[kind[0].end : kind[0].end + 1] == "-"
        named = fold(nearest.tokens[first - 1].text) in _KIND_BEFORE if first else hyphened
        if kind and named and not any(t.key in claim.keys or (t.can_name and not t.first) for t in kind):
            return nearest.text[kind[0].start : nearest.tokens[at[0]].end], ""
    return None


_NEARLY = lazy_regex(r"\b(almost|nearly|virtually|practically) ([^\W\d_]+)", re.IGNORECASE)
_ROUGHLY = lazy_regex(
    r"\b(?:almost|nearly|virtually|practically|about|around|roughly|close|near|approach\w*|just|narrowly)\b",
    re.IGNORECASE,
)


def short_of(claim: Sentence, nearest: Sentence) -> Found:
    """Find "doubled" or "all" in the claim where the evidence has "almost doubled", "nearly all"."""
    if _ROUGHLY.search(claim.text):
        return None
    for nearly in _NEARLY.finditer(nearest.text):
        word, key = nearly[2].lower(), stem(nearly[2])
        full = _HOW_MANY.get(word) == _EVERY or word.endswith("ed")
        if full and key in claim.keys and sum(t.key == key for t in nearest.tokens) == 1:
            return nearly.group(), ""
    return None
