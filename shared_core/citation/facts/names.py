"""Names of a claim against its evidence: missing, in place of another one, or with places changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from difflib import SequenceMatcher
from itertools import groupby, islice, takewhile

from shared_core.citation.facts.dates import dates_of
from shared_core.citation.facts.quantities import measured
from shared_core.citation.facts.tokens import (
    BE,
    Found,
    Sentence,
    Token,
    align,
    all_tokens,
    capitalises_nouns,
    content_keys,
    fold,
    stem,
)
from shared_core.support.files import read_lists
from shared_core.support.regex import lazy_regex

_DEMONYM = ("ian", "ish", "ese", "an", "ic", "i", "er", "ine")
_ALIASES = map(str.split, read_lists("shared_core.citation.facts", "names.txt")["aliases"].splitlines())
_ALIAS = {stem(other): stem(name) for name, *others in _ALIASES for other in others}
_SYMMETRIC = frozenset(
    map(stem, "married marry met meet borders bordered siblings between wed partner partners twin cousins both".split())
)
_STRETCH = 3  # words that replace others; of longer stretches nobody can say which replaces which
_WORD = lazy_regex(r"\w+")
_QUOTED = lazy_regex(r"[\"“„«'‘][^\"“”„«»]{3,80}[\"”»'’]")
_PRONOUNS = frozenset("he she it they his her its their him them this that these those who which".split())
_TITLES = frozenset("mr mrs ms dr prof sir lady lord saint st president king queen the".split())


def compare_names(
    claim: Sentence,
    nearest: Sentence,
    held: Sequence[Sentence],
    context: Sequence[Sentence],
    *,
    alike: bool,
    worded_alike: bool,
) -> Iterator[tuple[str, str]]:
    """Pairs of a name of the claim that is not borne out and the name that the evidence has instead (or ``""``).

    Args:
        claim, nearest: the claim, and the sentence of the evidence that is most like it.
        held, context: sentences of the evidence, and of title and question.
        alike: whether ``nearest`` speaks of the claim's matter; only then its names count as contradicting.
        worded_alike: whether it does so in the same words; only then one of its names may contradict another one
            in the same place.
    """
    everywhere = all_tokens([*held, *context])
    keys = {t.key for t in everywhere}
    near, own = nearest.keys, claim.keys
    names, runs = names_of(claim, held, context), _runs(claim)
    short = [t.text for t in claim.tokens if len(t.text) > 1 and t.text.isupper() and t.key not in near]
    participle = len(nearest.tokens) > 1 and fold(nearest.tokens[1].text) in ("as", "by", "in", "to", "with", "from")
    there = [t for t in _capitals(nearest) if not any(t.text[0] in initials for initials in short)]
    there = [t for t in there if not (t.first and participle)]  # "Known as …", "According to …"
    spare = [t for t in there if t.key not in own]
    by_pronoun = fold(nearest.tokens[0].text) in _PRONOUNS if nearest.tokens else False
    replaced = _replacements(claim, nearest) if alike and worded_alike else set()
    for token in [t for t in _capitals(claim) if t in names or (alike and not t.first)]:
        if token.key in near or _is_spelling(token, near) or _has_initials(runs[token.start], everywhere):
            continue
        instead = next((t for t in there if (token.start, t.start) in replaced), None)
        if token in names:
            instead = instead or (
                None if not worded_alike and _is_relative(token, held) else _partner(token, claim, nearest, spare)
            )
        if instead is not None and _same_origin(token.key, {instead.key}):
            continue
        if token.key in keys or _same_origin(token.key, keys) or _is_acronym(token.text, everywhere):
            if by_pronoun and all(t.is_capitalised or not t.is_content for t in claim.tokens if t.start < token.start):
                continue  # the subject, which "It" may stand for
            if instead is not None and alike and _by(claim) == _by(nearest):  # a passive voice moves everything
                yield token.text, instead.text
        elif token in names and (instead is not None or not _is_given(token, claim, runs[token.start], keys)):
            yield token.text, instead.text if instead is not None and alike else ""


def _is_relative(token: Token, held: Sequence[Sentence]) -> bool:
    """Whether the evidence has the first name alone behind a relation: "his brother Samuel" has the same surname."""
    pairs = (pair for s in held for pair in zip(s.tokens, s.tokens[1:], strict=False))
    return any(b.key == token.key and fold(a.text) in _RELATIONS for a, b in pairs)


_RELATIONS = frozenset("brother sister son daughter father mother husband wife child twin".split())


def _is_spelling(token: Token, keys: Set[str]) -> bool:
    """Whether one of the keys is another spelling of the name ("Saurabh", "Sourabh")."""
    if len(token.key) < 4:
        return False
    near = (k for k in keys if k[0] == token.key[0] and abs(len(k) - len(token.key)) <= 1)
    return any(SequenceMatcher(None, k, token.key).ratio() >= 0.85 for k in near)


def _is_given(token: Token, claim: Sentence, run: Sequence[Token], keys: set[str]) -> bool:
    """Whether the rest of the name is known: a first name added, initials written out, a title quoted."""
    if any(t.key in keys for t in run if t is not token):
        return True
    quoted = next((m for m in _QUOTED.finditer(claim.text) if m.start() <= token.start < m.end()), None)
    if quoted is None:
        return False
    words = [t for t in claim.tokens if quoted.start() <= t.start < quoted.end() and t.is_content]
    return 2 * sum(t.key in keys for t in words) >= len(words)


def _runs(sentence: Sentence) -> dict[int, list[Token]]:
    """Neighbouring words that can name, in order, by where each of them begins."""
    runs = (list(words) for can_name, words in groupby(sentence.tokens, key=lambda t: t.can_name) if can_name)
    return {t.start: run for run in runs for t in run}


def _has_initials(run: Sequence[Token], everywhere: Sequence[Token]) -> bool:
    """Whether the evidence has the name's initials: "UN" for "United Nations"."""
    initials = "".join(t.text[0] for t in run)
    return len(run) > 1 and any(t.text.replace(".", "") == initials for t in everywhere)


def _no_names(sentence: Sentence) -> set[int]:
    """Find the words that are parts of dates, numbers and their units; return where they begin."""
    dated = {fold(w) for d in dates_of(sentence.text) for w in _WORD.findall(d.text)}
    numbers = measured(sentence.text)
    return {t.start for t in sentence.tokens if fold(t.text) in dated or t.start in numbers}


def _capitals(sentence: Sentence) -> list[Token]:
    """Capitalised words that are no part of a date or number, the first of the sentence among them."""
    others = _no_names(sentence)
    return [t for t in sentence.tokens if t.can_name and t.start not in others]


def names_of(sentence: Sentence, held: Sequence[Sentence], context: Sequence[Sentence]) -> list[Token]:
    """Tokens that are (parts of) names: capitalised where the sentence does not force it.

    The first word counts where another name follows it, or where the texts capitalise it elsewhere. In a text that
    capitalises all nouns (German), only words behind no determiner count that follow or precede another such word.
    """
    tokens = sentence.tokens
    others = _no_names(sentence)
    known = all_tokens([*held, *context])
    inner = {t.key for t in known if t.is_capitalised and not t.first}
    lower = {t.key for t in known if not t.is_capitalised}
    german = capitalises_nouns([sentence]) or capitalises_nouns([*held, sentence])
    found = []
    for i, token in enumerate(tokens):
        if not token.can_name or token.start in others or fold(token.text) in _TITLES:
            continue
        follows = i + 1 < len(tokens) and tokens[i + 1].can_name
        after = i > 0 and tokens[i - 1].can_name
        if token.first and not follows and (token.key not in inner or token.key in lower):
            continue
        if german and not (follows or (after and not tokens[i - 1].first)):
            continue
        if token.key in lower and token.key not in inner and not follows and not after:
            continue  # a common word, capitalised as in a heading
        found.append(token)
    return found


def _replacements(claim: Sentence, nearest: Sentence) -> set[tuple[int, int]]:
    """Pair the starts of tokens (claim, nearest) that have the same neighbours in both sentences."""
    a, b = [t.key for t in claim.tokens], [t.key for t in nearest.tokens]
    pairs: set[tuple[int, int]] = set()
    for tag, a1, a2, b1, b2 in align(a, b):
        if (
            tag == "replace"
            and max(a2 - a1, b2 - b1) <= (_STRETCH if a1 or b1 else 2 * _STRETCH)  # "Opposition leader Mark Dunn"
            and not any(fold(t.text) in _PRONOUNS for t in nearest.tokens[b1:b2])
        ):
            # of unequal length: any of the one may be any of the other
            pairs |= {(x.start, y.start) for x in claim.tokens[a1:a2] for y in nearest.tokens[b1:b2]}
    return pairs


def _partner(token: Token, claim: Sentence, nearest: Sentence, spare: Sequence[Token]) -> Token | None:
    """Beside a shared part of a name, the other name: "Lavinia" for the "Rufus" of "Rufus Hathe"."""
    for ahead in (1, -1):
        beside = claim.beside(token, ahead)
        if beside is None or not beside.can_name:
            continue
        for i, t in enumerate(nearest.tokens):
            if t.key == beside.key and 0 <= i - ahead < len(nearest.tokens):
                other = nearest.tokens[i - ahead]
                if other in spare and (_has_relation(claim, token) or not _has_relation(nearest, other)):
                    return other
    return None


def _has_relation(sentence: Sentence, name: Token) -> bool:
    """Whether shortly before a name stands a relation, whose name it may be: "his father, Charles Sherman"."""
    at = sentence.tokens.index(name)
    return any(fold(t.text) in _RELATIONS for t in sentence.tokens[max(0, at - _NEAR - 1) : at])


def _same_origin(key: str, keys: set[str]) -> bool:
    """Whether one of the keys is of the same place ("Norwegian", "Norway") or the same word in another form."""
    if _ALIAS.get(key) in keys or any(_ALIAS.get(k) == key for k in keys if k in _ALIAS):
        return True
    for other in keys:
        common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(key, other, strict=False)))
        if (
            common >= 4
            and (key.endswith(_DEMONYM) or other.endswith(_DEMONYM))
            and common >= min(len(key), len(other)) - 2
        ):
            return True
        if common >= 5 and common >= max(len(key), len(other)) - 2:
            return True
    return False


def _is_acronym(text: str, tokens: Sequence[Token]) -> bool:
    """Whether capitals are the initials of consecutive capitalised words (small words between them may be skipped)."""
    letters = [c for c in text if c.isalpha()]
    if len(letters) < 2 or not all(c.isupper() for c in letters):
        return len(letters) == 1 and any(t.text[:1] == letters[0] and t.is_capitalised for t in tokens)
    initials = "".join(t.text[0] for t in tokens if t.is_capitalised)
    return "".join(letters) in initials


# --- roles ---------------------------------------------------------------------------------------------------------


def swapped(claim: Sentence, nearest: Sentence) -> Found:
    """Two names that changed places between claim and evidence, as the two texts have them; ``None`` if none did.

    They change places where each stands between the other's neighbours; a phrase that moved with its preposition
    ("In 1877 …", "… in 1877") has its own. A passive voice turns the order round, so both must be in the same voice;
    verbs that hold both ways ("married") have no order.
    """
    if _by(claim) != _by(nearest) or {t.key for t in (*claim.tokens, *nearest.tokens)} & _SYMMETRIC:
        return None
    turned = _copula_turned(claim, nearest)
    if turned is not None:
        return (claim.text.strip(), nearest.text.strip()) if turned else None
    if around := _turned_round(claim, nearest):
        return around
    a, b = [t.key for t in claim.tokens], [t.key for t in nearest.tokens]
    blocks = [c for c in align(a, b) if c[0] != "equal"]
    for i, (_, a1, a2, b1, b2) in enumerate(blocks):
        for _, c1, c2, d1, d2 in blocks[i + 1 :]:
            here, there = claim.tokens[a1:a2], nearest.tokens[b1:b2]
            next_here, next_there = claim.tokens[c1:c2], nearest.tokens[d1:d2]
            across = sum(t.is_content for t in claim.tokens[a2:c1])
            if all(t.can_name or t.text in ("and", "or") for t in claim.tokens[a2:c1]):
                continue  # a list
            named = bool(_shared_names(here, next_there)) + bool(_shared_names(next_here, there))
            if named and _crossing(here, next_there, across + named) and _crossing(next_here, there, across + named):
                return _said(claim, here, next_here), _said(nearest, there, next_there)
            moved, gone = (here, next_there) if here and not there else (next_here, there)
            if moved and gone and _is_rotation([t.key for t in moved], [t.key for t in gone]):
                names = [t for t in moved if t.can_name]
                if names:
                    return _said(claim, moved), _said(nearest, gone)
    return None


_PAIR = lazy_regex(
    r"([A-Z][\w’'-]+(?: [A-Z][\w’'-]+)*) (in|of|from|for|at|with|to) (?:the )?([A-Z][\w’'-]+(?: [A-Z][\w’'-]+)*)"
)


def paired_otherwise(claim: Sentence, held: Sequence[Sentence]) -> Found:
    """Find "Helm in Orm" where a sentence has "Helm in Skell and Arno in Orm"."""
    for sentence in held:
        pairs = [m.groups() for m in _PAIR.finditer(sentence.text)]
        for own in _PAIR.finditer(claim.text):
            one, way, other = own.groups()
            instead = [b for a, w, b in pairs if (a, w) == (one, way)]
            if instead and other not in instead and any(w == way and b == other and a != one for a, w, b in pairs):
                return own.group(), f"{one} {way} {instead[0]}"
    return None


_PERIODS = {stem(word) for word in "hour day night week month quarter year hourly daily weekly monthly yearly".split()}


def _copula_turned(claim: Sentence, nearest: Sentence) -> bool | None:
    """Whether "A is the R of B" is turned round from "the R of A is B" (or says the same as "the R of B is A": False).

    ``None`` where the sentences are not turned round "is" or its like.
    """
    own, other = _sides(claim), _sides(nearest)
    if own is None or other is None:
        return None
    (left, right), (held_left, held_right) = own, other
    if left <= held_right and right <= held_left and not right <= held_right:
        return False
    relation = held_left - left - _TIMES  # "until 2019, dogs were allowed"
    if relation <= _PERIODS:  # "the monthly rent", "the rent each month"
        return None
    turned = left and relation and left < held_left and held_right < right and right - held_right == relation
    return True if turned else None


_TIMES = {stem(word) for word in ("until", "till", "since")}


def _sides(sentence: Sentence) -> tuple[set[str], set[str]] | None:
    """Content words before and behind the first "is", "was", "are" or "were"; ``None`` without one."""
    at = next((i for i, t in enumerate(sentence.tokens) if t.text in ("is", "was", "are", "were")), None)
    if at is None:
        return None
    left, right = sentence.tokens[:at], sentence.tokens[at + 1 :]
    return content_keys(left), content_keys(right)


def _turned_round(claim: Sentence, nearest: Sentence) -> Found:
    """Find a word that both have once, in the claim with the things before it that the evidence has behind it."""
    places: dict[str, list[int]] = {}
    for j, held in enumerate(nearest.tokens):
        places.setdefault(held.key, []).append(j)
    named = _shared_names(claim.tokens, nearest.tokens)
    compares = any(t.text in ("than", "compared") for t in (*claim.tokens, *nearest.tokens))
    for i, token in enumerate(claim.tokens):
        order = token.text in ("before", "after")
        at = places.get(token.key, ())
        if not (token.is_content or order) or token.is_capitalised or len(at) != 1:
            continue
        if _is_passive(claim, i) != _is_passive(nearest, at[0]) or _is_of(claim, i) != _is_of(nearest, at[0]):
            continue
        if token.text.endswith("er") and compares:
            continue
        before, behind = _beside_words(claim, i)
        held_before, held_behind = _beside_words(nearest, at[0])
        turned = before <= held_behind and not before & held_before and behind & held_before - held_behind
        if before and turned and (order or named & (before | behind)):
            return claim.text.strip(), nearest.text.strip()
    return None


def _is_passive(sentence: Sentence, at: int) -> bool:
    adverb = at > 1 and sentence.tokens[at - 1].text.endswith(("ly", "also", "not", "never", "now", "still"))
    return at > 0 and sentence.tokens[at - 1 - adverb].text in BE


def _is_of(sentence: Sentence, at: int) -> bool:
    """Whether "of", "from" or "by" follows, which turns round the words around it: "FIFA president A"."""
    return at + 1 < len(sentence.tokens) and sentence.tokens[at + 1].text in ("of", "from", "by")


def _beside_words(sentence: Sentence, at: int) -> tuple[set[str], set[str]]:
    """Return the last content words before a token, and the first ones behind it."""
    tokens = sentence.tokens
    before = (tokens[i].key for i in range(at - 1, -1, -1) if tokens[i].is_content)
    behind = (tokens[i].key for i in range(at + 1, len(tokens)) if tokens[i].is_content)
    return set(islice(before, _NEAR)), set(islice(behind, _NEAR))


_NEAR = 4
_MUCH = 2  # content words, or names


def _names(tokens: Sequence[Token]) -> set[str]:
    return {t.key for t in tokens if t.can_name}


def _shared_names(tokens: Sequence[Token], others: Sequence[Token]) -> set[str]:
    return _names(tokens) & _names(others)


def _crossing(tokens: Sequence[Token], others: Sequence[Token], across: int) -> bool:
    """Whether all names of the one stretch are in the other; without names, all content words.

    These count where much is said between the stretches ("sold the lighthouse to"), or the other one has a name: in
    "pears and apples" nothing is said.
    """
    keys = {t.key for t in others}
    if _shared_names(tokens, others):
        return _names(tokens) <= keys
    words = content_keys(tokens)
    return bool(words) and words <= keys and across >= _MUCH


def _is_rotation(one: list[str], other: list[str]) -> bool:
    """Whether two different sequences are turns of one ring: "X did" and "did X"."""
    return len(one) == len(other) and one != other and any(one[i:] + one[:i] == other for i in range(1, len(one)))


def _by(sentence: Sentence) -> int:
    """Count what may name who did it; "3 by 5 metres" does not."""
    pairs = zip(sentence.tokens, [*sentence.tokens[1:], None], strict=True)
    return sum(fold(t.text) in _BY and not (after is not None and after.is_number) for t, after in pairs)


_BY = ("by", "von", "par", "por", "da", "door")


def _said(sentence: Sentence, *stretches: Sequence[Token]) -> str:
    return " … ".join(sentence.text[s[0].start : s[-1].end] for s in stretches if s)
