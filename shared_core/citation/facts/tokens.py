"""Words of a text with what comparing facts needs of them: their stem, their case, their place in the sentence."""

from __future__ import annotations

import re
import threading
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import groupby

from shared_core.citation.sentences import split_sentences
from shared_core.support.files import read_lists

_WORD = re.compile(
    r"(?:[^\W\d_]\.){2,}"  # initials: U.S., J.R.R.
    r"|\d{1,3}(?: \d{3})+(?!\d)|\d+(?:[.,'’\u00a0\u202f]\d+)*"  # numbers with their separators
    r"|[^\W\d_](?:[^\W_]|[\u0300-\u036f]|['’](?=[^\W\d_]))*"  # words, with letters behind an apostrophe
)
_ELIDED = re.compile(r"^(?:l|d|dell|nell|dall|all|qu|j|s|n|m|t|c)['’](?=[^\W\d_]{2})", re.IGNORECASE)
_POSSESSIVE = re.compile(r"['’]s?$")
_FUNCTION, _NEGATIONS, _COUNTS = (
    frozenset(words.split()) for words in read_lists("shared_core.citation.facts", "tokens.txt").values()
)


BE = ("is", "are", "was", "were", "be", "been", "being")


Found = tuple[str, str] | None
"""Words of the claim that a rule finds, and those that the evidence has instead (empty: none); ``None`` if it fits."""


@dataclass(frozen=True, slots=True)
class Token:
    """A word or number of a sentence.

    Attributes:
        text: as written, without a possessive ending.
        key: folded (case, accents) and stemmed, to compare.
        start, end: place in the sentence, in code points.
        first: begins the sentence (or what follows a colon or an opening quotation mark).
    """

    text: str
    key: str
    start: int
    end: int
    first: bool

    @property
    def is_number(self) -> bool:
        """Begins with a digit."""
        return self.text[:1].isdigit()

    @property
    def is_function_word(self) -> bool:
        """Carries no content by itself (articles, prepositions, auxiliaries, pronouns)."""
        return fold(self.text) in _FUNCTION and not (len(self.text) > 1 and self.text.isupper())

    @property
    def is_content(self) -> bool:
        """A word with content: no number, no function word, no negation, more than one letter."""
        counts = self.is_number or fold(self.text) in _COUNTS
        plain = not counts and len(self.text) > 1 and not self.is_function_word
        return plain and not self.is_negation

    @property
    def is_negation(self) -> bool:
        """Negates: "not", "n't", "never", and their like in other languages."""
        word = fold(self.text).replace("’", "'")
        return word in _NEGATIONS or word.endswith("n't")

    @property
    def is_capitalised(self) -> bool:
        """Begins with a capital letter, or mixes letters with digits or capitals (``iPhone``, ``B52``)."""
        return self.text[:1].isupper() or (self.text[:1].isalpha() and any(c.isupper() for c in self.text))

    @property
    def can_name(self) -> bool:
        """A capitalised word with content."""
        return self.is_capitalised and self.is_content

    @property
    def is_telling(self) -> bool:
        """A word with content or a number."""
        return self.is_content or self.is_number


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence and its tokens."""

    text: str
    tokens: tuple[Token, ...]

    @property
    def keys(self) -> frozenset[str]:
        """Keys of all tokens."""
        return frozenset(t.key for t in self.tokens)

    @property
    def is_negated(self) -> bool:
        """Whether any of its words negates."""
        return any(t.is_negation for t in self.tokens)

    def beside(self, token: Token, step: int = 1) -> Token | None:
        """The token so many steps behind one of its own, or before it; ``None`` past either end."""
        at = self.tokens.index(token) + step
        return self.tokens[at] if 0 <= at < len(self.tokens) else None


def content_keys(tokens: Iterable[Token]) -> set[str]:
    """Keys of the words with content."""
    return {t.key for t in tokens if t.is_content}


def telling_keys(tokens: Iterable[Token]) -> set[str]:
    """Keys of the words with content and of the numbers."""
    return {t.key for t in tokens if t.is_telling}


def with_word_before(tokens: Sequence[Token]) -> Iterable[tuple[str, Token]]:
    """Each token behind the folded word before it; an empty one before the first."""
    return zip(("", *(fold(t.text) for t in tokens)), tokens, strict=False)


@lru_cache(maxsize=8192)
def fold(word: str) -> str:
    """Case-folded, without accents, in compatibility form."""
    if word.isascii():
        return word.lower()
    parts = unicodedata.normalize("NFKD", word.casefold())
    return "".join(c for c in parts if not "\u0300" <= c <= "\u036f")


def as_matched(word: str) -> str:
    """A word as a pattern without regard to case has it: to ``re`` the "ſ" of old prints is "s", and "ı" is "i".

    >>> as_matched("Thurſday")
    'thursday'
    """
    return fold(word).replace("ı", "i")


_local = threading.local()


def english_stem(word: str) -> str:
    """The English stem (Snowball) of a lower-case word; words of other languages mostly stay as they are."""
    stemmer = getattr(_local, "stemmer", None)
    if stemmer is None:  # a stemmer keeps state, and may not be shared between threads
        import Stemmer

        stemmer = _local.stemmer = Stemmer.Stemmer("english")
    return str(stemmer.stemWord(word))


@lru_cache(maxsize=65536)
def stem(word: str) -> str:
    """Folded, without a possessive ending or dots, and stemmed."""
    folded = fold(word).replace("’", "'").replace(".", "")
    return english_stem(_POSSESSIVE.sub("", folded))


def tokens_of(sentence: str) -> tuple[Token, ...]:
    """Tokens of one sentence, in order."""
    found: list[Token] = []
    end_before = 0
    for match in _WORD.finditer(sentence):
        text, start = match.group(), match.start()
        if elided := _ELIDED.match(text):
            text, start = text[elided.end() :], start + elided.end()
        text = _POSSESSIVE.sub("", text) if len(text) > 2 else text
        between = sentence[end_before : match.start()]
        first = not found or any(c in between for c in ':"“«„')
        found.append(Token(text, stem(text), start, match.end(), first))
        end_before = match.end()
    return tuple(found)


@lru_cache(maxsize=256)
def sentences_of(text: str) -> tuple[Sentence, ...]:
    """Sentences of a text with their tokens; those without any token are left out."""
    cut = (text[a:b] for a, b in split_sentences(text))
    return tuple(Sentence(s, tokens) for s in cut if (tokens := tokens_of(s)))


def statements_of(text: str) -> tuple[Sentence, ...]:
    """Sentences of a text, two statements cut at the semicolon between them; fields of a table stay together."""
    found: list[Sentence] = []
    for sentence in sentences_of(text):
        parts = (
            [] if re.search(r": |\(", sentence.text) else [Sentence(p, tokens_of(p)) for p in sentence.text.split("; ")]
        )
        # "Some have a heater; this one has none": what there is none of stands in the other part
        whole = len(parts) > 1 and all(len(p.tokens) >= _STATEMENT and not p.tokens[-1].is_negation for p in parts)
        found += parts if whole else [sentence]
    return tuple(found)


_STATEMENT = 4  # words
_QUOTED = frozenset([('"', '"'), ("`", "`"), ("“", "”")])


def all_tokens(sentences: Sequence[Sentence]) -> list[Token]:
    """Tokens of all sentences, in order."""
    return [t for s in sentences for t in s.tokens]


def capitalises_nouns(sentences: Sequence[Sentence]) -> bool:
    """Whether the text capitalises common nouns, as German does: then a capital letter tells no name.

    Judged by nouns behind lower-case determiners: "der Turm", "eine Brücke" against "the tower", "la torre".
    """
    behind = [
        (a, b)
        for s in sentences
        for a, b in zip(s.tokens, s.tokens[1:], strict=False)
        if a.text in _DETERMINERS and b.is_content
    ]
    others = any(t.text in _NOT_GERMAN for s in sentences for t in s.tokens)
    return bool(behind) and not others and sum(b.is_capitalised for _, b in behind) > 0.6 * len(behind)


_NOT_GERMAN = frozenset("the of and was is by les des et est el los una y het een van".split())
_DETERMINERS = frozenset("der die das den dem des ein eine einen einem einer eines".split())


def fields_of(text: str) -> list[tuple[str, str]]:
    """Labels and values of a row of a table, as texts have them.

    >>> fields_of("Region: South; Sales: 95")
    [('Region', 'South'), ('Sales', '95')]
    """
    return _FIELD.findall(text)


_FIELD = re.compile(r"(?:^|[;|\n])[ \t]*([^;:|\n]{1,40}): ([^;|\n]*)")


def align(one: Sequence[str], other: Sequence[str]) -> Sequence[tuple[str, int, int, int, int]]:
    """Align two sequences of words: (tag, start and end in ``one``, in ``other``), as ``difflib`` has them.

    Nothing is aligned, so nothing found to differ, where the work (a product of the lengths) would be out of bounds.
    """
    if len(one) * len(other) > _ALIGNED_AT_MOST:
        return []
    return SequenceMatcher(None, one, other, autojunk=False).get_opcodes()


_ALIGNED_AT_MOST = 1_000_000


_LACK = frozenset(
    stem(word)
    for word in """fail lack lacks refuse refused deny denied absent absence hardly rarely seldom unable except instead
    avoid prevent rather stop cease abandoned cancelled dropped removed discontinued ended unless fixed resolved
    eliminated""".split()
)
_APART = ("un", "in", "im", "dis", "non", "ir", "il")
_REACH = 5


def contradicts(claim: Sentence, nearest: Sentence) -> Found:
    """The words that a negation turns round, as claim and evidence have them; ``None`` if no negation differs.

    The evidence's are empty if it lacks the word that the claim negates: then it says nothing of the kind.
    """
    own, other = _negated(claim), _negated(nearest)
    if _says_twice(own, other, nearest) or _says_twice(other, own, claim):
        return None
    if own and other and other[-1][0] is nearest.tokens[-1] and other[-1][1].key in claim.keys:
        return None  # "dogs may enter; cats may not": of cats, the claim has it too
    if _forbids_without(claim, own, nearest, other) or _forbids_without(nearest, other, claim, own):
        return None
    if (not own and _needs(nearest, other, claim)) or _is_cut_short(claim, own, nearest, other):
        return None
    held, said = nearest.keys, claim.keys
    if own and not other:
        negator, word = own[0]
        # "Not really, …", "No, …" speak to somebody
        if (word.key in held or not negator.first) and not (
            _says_no_otherwise(nearest, said, word) or _is_supposed(nearest, word)
        ):
            return f"{negator.text} {word.text}", _around(nearest, word) if word.key in held else ""
    if not own:
        for negator, word in other:
            if (
                word.key in said
                and not _says_no_otherwise(claim, held, word)
                and not _is_denied_elsewhere(nearest, negator, word, claim)
                and not _tells_of_before(claim, nearest, negator)
            ):
                return _around(claim, word), f"{negator.text} {word.text}"
    # "No volume and no definite shape" denies the volume too
    denied = {t.key for n, w in own for t in (w, *_near(claim, n)) if t is w or t.start >= n.start}
    more = [(n, w) for n, w in other if w.key in said and w.key not in denied]
    if own and more and {w.key for _, w in own} <= {w.key for _, w in other}:  # "not … without" against "… without"
        return _around(claim, more[0][1]), f"{more[0][0].text} {more[0][1].text}"
    if own and other and _denies_rest(claim, nearest, other[0][0]):
        return None
    if own and other and not _negate_together(claim, nearest, own[0], other[0]):
        turned = [(n, w) for n, w in own if w.key in held and w.key not in {x.key for _, x in other}]
        back = [w for _, w in other if w.key in said and w.key not in {x.key for _, x in own}]
        elsewhere = not any(w.key in said for _, w in other)  # the evidence negates what the claim leaves out
        if turned and (back or elsewhere or len(own) > len(other)):
            negator, word = turned[0]
            return f"{negator.text} {word.text}", _around(nearest, word)
    return None


def _denies_rest(claim: Sentence, nearest: Sentence, negator: Token) -> bool:
    """Whether the negation ("but not in Paper 1") denies of its phrase, all of which the claim has, what is before."""
    before = nearest.beside(negator, -1)
    if before is None or fold(before.text) not in ("but", "and", "though"):
        return False
    clause = next(c for c in clauses_of(nearest) if negator in c)
    rest = telling_keys(t for t in clause if t.start > negator.start)
    return bool(rest) and rest <= claim.keys


def _is_denied_elsewhere(nearest: Sentence, negator: Token, word: Token, claim: Sentence) -> bool:
    """Whether the claim says what another clause says of the word, or the word is denied with another number.

    "The warranty covers defects, but it does not cover damage"; "not in Paper 1" says nothing of Paper 2.
    """
    behind = next((t for t in nearest.tokens if t.start > word.start), None)
    if behind is not None and behind.is_number:
        return behind.key not in claim.keys
    clauses = clauses_of(nearest)
    denying = next(c for c in clauses if negator in c)
    content = content_keys(claim.tokens)
    held = len(content & {t.key for t in denying})
    return any(
        word.key in keys and len(content & keys) > held
        for c in clauses
        if c is not denying and not any(t.is_negation for t in c)
        for keys in [{t.key for t in c}]
    )


def cut_tokens(sentence: Sentence, at: re.Pattern[str]) -> list[tuple[Token, ...]]:
    """Tokens of a sentence, cut where a pattern begins."""
    cuts = [m.start() for m in at.finditer(sentence.text)]
    return [tuple(part) for _, part in groupby(sentence.tokens, key=lambda t: bisect_right(cuts, t.start))]


def clauses_of(sentence: Sentence) -> list[tuple[Token, ...]]:
    """Tokens of a sentence, cut at commas, semicolons and the conjunctions that join clauses."""
    return cut_tokens(sentence, _CLAUSE)


_CLAUSE = re.compile(r"[,;:](?!\d)|\b(?:and|but|while|whereas|although|though)\b")


def _says_twice(twice: Sequence[tuple[Token, Token]], never: Sequence[tuple[Token, Token]], other: Sentence) -> bool:
    """Whether one sentence has "not without …" where the other, with no negation, has "only with …" or "needs …"."""
    doubled = len(twice) == 2 and fold(twice[1][0].text) in ("without", "unless")
    return doubled and not never and any(t.key in _REQUIRES for t in other.tokens)


def _forbids_without(
    claim: Sentence, own: Sequence[tuple[Token, Token]], held: Sentence, other: Sequence[tuple[Token, Token]]
) -> bool:
    """Whether one sentence has "prohibited without consent" where the other has "requires consent" or "may not"."""
    forbids = any(t.key in _FORBIDS for t in held.tokens) and len(other) == 1
    without = bool(other) and fold(other[0][0].text) in ("without", "unless")
    return forbids and without and (len(own) == 2 or (not own and any(t.key in _REQUIRES for t in claim.tokens)))


def _is_supposed(sentence: Sentence, word: Token) -> bool:
    """Whether a word stands only shortly behind an "if" or "when": what is not so there may not be so."""
    places = [(c, i) for c in clauses_of(sentence) for i, t in enumerate(c) if t.key == word.key]
    return bool(places) and all(
        i <= _REACH
        and fold(c[0].text) in ("if", "when", "unless", "whether")
        and "(" not in sentence.text[c[0].start : c[i].start]
        for c, i in places
    )


def _tells_of_before(claim: Sentence, held: Sentence, negator: Token) -> bool:
    """Whether the claim tells of what once was ("fixed a bug by which …") where the evidence has "no longer"."""
    behind = held.beside(negator)
    ended = behind is not None and fold(behind.text) == "longer"
    return ended and any(t.key in _ONCE for t in claim.tokens)


_ONCE = frozenset(map(stem, "fixed fixes resolved bug problem previously formerly earlier before until used".split()))


def _needs(held: Sentence, other: Sequence[tuple[Token, Token]], claim: Sentence) -> bool:
    """Whether the evidence has "not … without X", and the claim, without a negation, speaks of X."""
    without = [n for n, _ in other[1:] if fold(n.text) in ("without", "unless")]
    clauses = [c for c in clauses_of(held) if any(n in c for n in without)]
    return any(content_keys(t for t in c if t.start > n.start) & claim.keys for c in clauses for n in without if n in c)


def _is_cut_short(
    claim: Sentence, own: Sequence[tuple[Token, Token]], held: Sentence, other: Sequence[tuple[Token, Token]]
) -> bool:
    """Whether the claim ends in "but members may not" where a clause of the evidence denies something of members."""
    if not own or own[-1][0] is not claim.tokens[-1]:
        return False
    return any(own[-1][1].key in {t.key for t in c} and n in c for c in clauses_of(held) for n, _ in other)


_FORBIDS = frozenset(map(stem, "prohibited forbidden banned prohibits forbids disallowed".split()))
_REQUIRES = frozenset(map(stem, "only need needed require required must necessary".split()))


def is_denied(sentence: Sentence) -> bool:
    """Whether the sentence holds an odd number of negations."""
    return sum(_is_negation(sentence, i) for i in range(len(sentence.tokens))) % 2 == 1


def _negate_together(claim: Sentence, nearest: Sentence, own: tuple[Token, Token], other: tuple[Token, Token]) -> bool:
    """Whether each negation stands near both negated words: "does not pay tax", "pays no tax"."""
    keys = {own[1].key, other[1].key}
    return all(keys <= {t.key for t in _near(s, negator)} for s, (negator, _) in ((claim, own), (nearest, other)))


def _near(sentence: Sentence, token: Token) -> tuple[Token, ...]:
    at = sentence.tokens.index(token)
    return sentence.tokens[max(0, at - _REACH) : at + _REACH]


def _negated(sentence: Sentence) -> list[tuple[Token, Token]]:
    """Each negation with the first content word behind it (before it, where none follows)."""
    found = []
    for i, token in enumerate(sentence.tokens):
        if not _is_negation(sentence, i):
            continue
        behind = [t for t in sentence.tokens[i + 1 : i + 1 + _REACH] if t.is_content]
        if behind and fold(token.text) == "no" and fold(behind[0].text) == "longer":
            behind = behind[1:]
        if not behind and sentence.text[: token.start].rstrip().endswith(","):
            continue  # "before it, not after it"
        before = [t for t in sentence.tokens[max(0, i - _REACH) : i] if t.is_content]
        if behind or before:
            # "neither party is liable" denies what is said of the parties
            whole = fold(token.text) == "neither" and len(behind) > 1 and sentence.tokens[i + 1].is_content
            found.append((token, behind[whole] if behind else before[-1]))
    return found


def _is_negation(sentence: Sentence, i: int) -> bool:
    token = sentence.tokens[i]
    if not token.is_negation:
        return False
    word = fold(token.text)
    after = sentence.tokens[i + 1] if i + 1 < len(sentence.tokens) else None
    follows = fold(after.text) if after else ""
    if token.first and sentence.text[token.end :].lstrip()[:1] in (",", ";", ":", "–", "—"):
        return False  # "No, …" answers
    if (sentence.text[token.start - 1 : token.start], sentence.text[token.end : token.end + 1]) in _QUOTED:
        return False  # the value "none" denies nothing
    if word == "no":  # "No. 5", "no fewer than"
        return follows not in ("fewer", "less", "later", "more") and not (after and after.is_number)
    return not (word in ("not", "nicht", "non") and follows in ("only", "nur", "solo", "just", "least"))


def _says_no_otherwise(sentence: Sentence, words: Set[str], near: Token) -> bool:
    """Whether the sentence denies by a verb ("failed to") or a prefix ("unknown" where the other has "known").

    Looked for near the word that the other sentence negates; all over the sentence where it does not hold the word.
    """
    at = next((i for i, t in enumerate(sentence.tokens) if t.key == near.key), None)
    tokens = sentence.tokens if at is None else sentence.tokens[max(0, at - _REACH) : at + _REACH]
    return any(_denies(t, words) for t in tokens)


def _denies(token: Token, words: Set[str]) -> bool:
    plain = fold(token.text)
    apart = [plain[len(p) :] for p in _APART if plain.startswith(p) and len(plain) > len(p) + 2]
    return (token.key in _LACK and token.key not in words) or any(
        stem(rest) in words and token.key not in words for rest in apart
    )


def _around(sentence: Sentence, word: Token) -> str:
    """The word in the sentence, with the one before it."""
    at = next((i for i, t in enumerate(sentence.tokens) if t.key == word.key), None)
    if at is None:
        return sentence.text[:60]
    return " ".join(t.text for t in sentence.tokens[max(0, at - 1) : at + 1])
