"""Tell what the evidence only denies, doubts, demands or supposes: "It is a myth that X" does not say X."""

from __future__ import annotations

import re
from collections.abc import Sequence

from shared_core.citation.facts.tokens import (
    Found,
    Sentence,
    Token,
    clauses_of,
    content_keys,
    fold,
    telling_keys,
    tokens_of,
    with_word_before,
)
from shared_core.support.regex import lazy_regex

_FALSE = lazy_regex(
    r"\b(?:(?:is|was|be|are) (?:simply |just |plainly |therefore |also )?(?:false|untrue|incorrect|wrong|not true"
    r"|not the case|a myth|a lie|a misconception|a fallacy|a mistake|a rumou?r)(?: to \w+)?(?:,? that)\b"
    r"|\b(?:wrongly|falsely|mistakenly|erroneously|incorrectly)\b(?: \w+){0,2}? that\b"
    r"|\A\W*(?:myth|misconception|false|rumou?r|error)(?: \d+)?:)",
    re.IGNORECASE,
)
_UNSURE = lazy_regex(
    r"\b(?:(?<!regardless of )(?<!matter )(?<!irrespective of )(?<!\A)whether(?! or not)"
    r"|(?:is|are|was) (?:disputed|doubtful|doubted|possible|alleged|rumou?red|conceivable) that"
    r"|(?<!\bthe )(?<!\ba )(?<!\bits )(?<!\bhis )(?<!\bher )(?<!\btheir )(?<!\bthis )"
    r"(?:suspect(?:s|ed)?|doubt(?:s|ed)?|fear(?:s|ed)?|hope[sd]?|wish(?:es|ed)?|wonder(?:s|ed)?|den(?:y|ies|ied)"
    r"|speculate[sd]?|imagine[sd]?|pretend(?:s|ed)?"
    r"|demand(?:s|ed)?|request(?:s|ed)?|urge[sd]?|propose[sd]?|recommend(?:s|ed)?"
    r"|ask(?:s|ed)? (?:for|that)|call(?:s|ed)? for|plead(?:s|ed)? for|campaign(?:s|ed)? for|lobb(?:y|ies|ied) for)\b)"
    r"(?! (?:it|him|her|them|me|us|you|by|at|in|and|or)\b)",
    re.IGNORECASE,
)
_SCOPE_END = lazy_regex(r"[,;.]\s|\b(?:but|because|since|while|whereas|and (?:\w+ly )?\w+ed)\b")
_NON_FACTIVE = lazy_regex(
    r"\b(?:false\w*|untrue|incorrect\w*|wrong\w*|myths?|mistak\w+|misconception|fallacy|lie|rumou?r\w*|erroneous\w*"
    r"|whether|disput\w+|doubt\w*|possib\w+|alleg\w+|conceivabl\w+|suspect\w*|fear\w*|hop(?:e[sd]?|ing)|wish\w*"
    r"|wonder\w*|den(?:y|ies|ied)|speculat\w+|imagin\w+|pretend\w*|demand\w*|request\w*|urg(?:e[sd]?|ing)|propos\w+"
    r"|recommend\w*|ask\w*|calls?|called|plead\w*|campaign\w*|lobb\w+|believ\w+|think|thought"
    r"|want\w*|claim\w*|(?-i:may)|might|could|would|should|probab\w+|perhaps|likely|apparent\w*|said|says?|according)\b",
    re.IGNORECASE,
)
_INSIDE = 0.8  # of the claim's words: the doubted clause says what the claim says


def not_asserted(claim: Sentence, held: Sequence[Sentence]) -> Found:
    """Find a claim of what the evidence says to be false, or only doubts or demands, and says nowhere else."""
    said = content_keys(claim.tokens)
    if len(said) < 2 or _NON_FACTIVE.search(claim.text) or claim.is_negated:
        return None
    found: Found = None
    for sentence in held:
        doubted = _doubted(sentence)
        inside, whole = content_keys(doubted), content_keys(sentence.tokens)
        if doubted and len(said & inside) >= _INSIDE * len(said) and not said <= whole - inside:
            found = claim.text.strip(), sentence.text.strip()
        elif len(said & whole) >= _INSIDE * len(said) and not sentence.text.rstrip().endswith("?"):
            return None  # said as a fact as well
    return found


def _doubted(sentence: Sentence) -> list[Token]:
    """Return the words of the clause behind such an opener; none without one."""
    opener = _FALSE.search(sentence.text) or _UNSURE.search(sentence.text)
    if opener is None:
        return []
    end = _SCOPE_END.search(sentence.text, opener.end())
    return [t for t in sentence.tokens if opener.end() <= t.start < (end.start() if end else len(sentence.text))]


_NO = lazy_regex(  # not "No problem", "No more than 15"
    r"\s*(?:no(?=\s*(?:[,.;:!–—]|\Z)|\s+(?:you|it|they|we|he|she|there|this|that)\b)|not (?:at all|yet|necessarily)\b)",
    re.IGNORECASE,
)
_YES = lazy_regex(r"\s*(?:yes|of course|certainly|sure)\b", re.IGNORECASE)
_UNKNOWN = lazy_regex(
    r"\b(?:(?:not|n['’]t|nobody|no one|yet to be) (?:\w+ )?"
    r"(?:know[sn]?|sure|certain|decided|clear|settled)"
    r"|unknown|unclear|undecided|uncertain|open question|remains to be seen)\b",
    re.IGNORECASE,
)


def left_open(claim: Sentence, held: Sequence[Sentence]) -> Found:
    """Find a claim that answers with yes a question to which the evidence has "No" or "We do not know"."""
    said = content_keys(claim.tokens)
    if len(said) < 2 or claim.is_negated or _UNKNOWN.search(claim.text):
        return None
    found: Found = None
    for asked, answer in zip(held, [*held[1:], None]):
        if len(said & asked.keys) < _INSIDE * len(said):
            continue
        if not asked.text.rstrip().endswith("?"):
            return None
        unknown = answer is not None and _UNKNOWN.search(answer.text) and not _YES.match(answer.text)
        if answer is not None and (unknown or _NO.match(answer.text)):
            found = claim.text.strip(), f"{asked.text.strip()} {answer.text.strip()}"
    return found


_UNDONE = lazy_regex(
    r"\b(?:declin(?:e[sd]?|ing)|refus(?:e[sd]?|ing)|fail(?:s|ed|ing)?|neglect(?:s|ed)?|omit(?:s|ted)?|forg[eo]t"
    r"|was unable|were unable|is unable|are unable|tr(?:y|ies|ied)|attempt(?:s|ed)?|want(?:s|ed)?|threaten(?:s|ed)?"
    r"|offer(?:s|ed)?|agree[sd]?|vow(?:s|ed)?|decide[sd]? not|hesitate[sd]?)(?: \w+ly)? to\b",
    re.IGNORECASE,
)
_TURNED_DOWN = lazy_regex(
    r"\b(?:but|and|though|although)\b(?: \w+){0,3}? "
    r"(?:declined|refused|rejected|turned (?:it|them|this|that) down|withdrew|withdrawn)"
    r"(?: (?:it|them|this|the (?:offer|post|job|role|invitation|honou?r|prize|award|nomination|place))\b|(?=[.,;]|\Z))",
    re.IGNORECASE,
)
_NOT = lazy_regex(r"(?:\bnot|n['’]t|\bnever)(?: \w+ly)? \Z", re.IGNORECASE)
_OFFERS = lazy_regex(
    r"\b(?:offer\w*|declin\w+|refus\w+|reject\w+|turned|nominat\w+|invit\w+|propos\w+|withdr\w+|award\w*)\b",
    re.IGNORECASE,
)


def undone(claim: Sentence, nearest: Sentence, held: Sequence[Sentence]) -> Found:
    """Find a deed ("named the buyers") of which the evidence has that it was not done ("declined to name them").

    Or of something that was offered ("the post of curator"), and turned down.
    """
    if claim.is_negated or _UNDONE.search(claim.text):
        return None
    for undo in _UNDONE.finditer(nearest.text):
        verb = nearest.content_behind(undo.end())
        if verb is None or mentions(verb.key, held) > 1 or _NOT.search(nearest.text[: undo.start()]):
            continue
        if found := does(claim, verb.key):
            return found, nearest.text[undo.start() : verb.end]
    down = _TURNED_DOWN.search(nearest.text)
    if down is None or _OFFERS.search(claim.text) or not _OFFERS.search(nearest.text[: down.start()]):
        return None
    said = telling_keys(claim.tokens)
    offered = telling_keys(t for t in nearest.tokens if t.start < down.start())
    names = {t.key for t in claim.tokens if t.is_capitalised}
    things = said - names
    return (claim.text.strip(), down.group().strip()) if things and things <= offered else None


def mentions(key: str, held: Sequence[Sentence]) -> int:
    """Count how often the evidence has a word; a heading or title that it begins with only names the matter."""
    body = held[1:] if len(held) > 1 and _is_title(held[0]) else held
    return sum(key in (t.key, _PASTS.get(fold(t.text))) for s in body for t in s.tokens)


def _is_title(sentence: Sentence) -> bool:
    return sentence.text.rstrip()[-1:] not in ".!?…\"”'’)" and len(sentence.tokens) <= _TITLE


_TITLE = 16  # words


_PASTS = dict(
    pair.split("/")
    for pair in """bought/buy sold/sell built/build made/make held/hold left/leave went/go won/win lost/lose paid/pay
    began/begin took/take gave/give wrote/write spent/spend met/meet sent/send rose/rise fell/fall grew/grow
    became/becom came/come found/find led/lead ran/run cut/cut set/set put/put shut/shut""".split()
)
"""Irregular forms and the stems of their verbs."""


def does(claim: Sentence, verb: str) -> str:
    """Return the words by which a claim says that something was done ("named", "has named"); empty if it does not."""
    for before, token in with_word_before(claim.tokens):
        past = token.text.lower().endswith("ed") and before not in ("", "is", "are", "be", "being", "to")
        irregular = _PASTS.get(fold(token.text)) == verb and before not in ("", "is", "are", "be", "being", "to", "the")
        if irregular or (token.key == verb and (past or before in ("was", "were"))):  # "was rebuilt"
            return token.text
    return ""


_SUPPOSED = lazy_regex(
    r"\A\W*(?:if|in case|provided(?: that)?|assuming(?: that)?)\s[^,;.]*,"
    r"|,?\s(?:if|in case|provided that|on condition that|as long as)\s[^,;.]*(?=[,;.]|\Z)",
    re.IGNORECASE,
)
_SUPPOSES = lazy_regex(
    r"\b(?:if|when\w*|unless|once|provid\w+|assum\w+|in case|as (?:soon|long)|should|conditions?|subject|depend\w*"
    r"|after|only|would|could|might|in the event)\b",
    re.IGNORECASE,
)


def supposed(claim: Sentence, nearest: Sentence, held: Sequence[Sentence]) -> Found:
    """Find the condition ("If the council agrees,") of a clause that the claim states as a fact."""
    condition = _SUPPOSED.search(nearest.text)
    if condition is None or _SUPPOSES.search(claim.text):
        return None
    said = telling_keys(claim.tokens)
    inside, outside = (
        telling_keys(t for t in nearest.tokens if (condition.start() <= t.start < condition.end()) is side)
        for side in (True, False)
    )
    if len(said) < 2 or not said <= outside or said & (inside - outside):
        return None
    if sum(len(said & s.keys) >= _INSIDE * len(said) for s in held) > 1:
        return None
    return condition.group().strip(" ,"), ""


_ENDED = lazy_regex(
    r"\b(?:until|up to|before|prior to) (?:\w+ ){0,2}?\d{4}\b|\bused to\b|\b(?:formerly|previously)\b", re.IGNORECASE
)
_STILL = lazy_regex(r"\b(is|are|has|have|can|does|do)\b", re.IGNORECASE)
_WAS = {"is": ("was",), "are": ("were",), "has": ("had",), "have": ("had",), "can": ("could",), "does": (), "do": ()}


def outdated(claim: Sentence, nearest: Sentence) -> Found:
    """Find "dogs are allowed" where the evidence has "until 2019, dogs were allowed"."""
    ended, still = _ENDED.search(nearest.text), _STILL.search(claim.text)
    if ended is None or still is None or _ENDED.search(claim.text) or claim.is_negated:
        return None
    words = [fold(t.text) for t in nearest.tokens]
    now = [w for w in words if _STILL.fullmatch(w)]
    was = _WAS[still.group().lower()]
    said = telling_keys(claim.tokens)
    alike = len(said & nearest.keys) >= _INSIDE * len(said)
    return (claim.text.strip(), nearest.text.strip()) if not now and alike and set(was) & set(words) else None


_GUESS = lazy_regex(
    r"\b(?:probably|possibly|perhaps|maybe|presumably|allegedly|reportedly|supposedly|conceivably"
    r"|(?<!more )(?<!less )(?<!as )likely|it (?:seems|seemed|appears|appeared)|(?:seem|appear)(?:s|ed)? to"
    r"|(?:hope|want|wish|aim)(?:s|ed)? to|would like to)\b",
    re.IGNORECASE,
)
_GUESSES = lazy_regex(
    r"\b(?:may|might|could|would|should|can|if|unless|chance|risk|suspicion|plan\w*|inten[dt]\w*)\b",
    re.IGNORECASE,
)


def unhedged(claim: Sentence, nearest: Sentence) -> Found:
    """Find "probably" or "hopes to" before what the claim states flatly."""
    guess = _GUESS.search(nearest.text)
    if guess is None or any(p.search(claim.text) for p in (_GUESS, _MAYBE, _GUESSES, _NON_FACTIVE)):
        return None
    clause = next(c for c in clauses_of(nearest) if c[-1].end >= guess.end())
    said, inside = content_keys(claim.tokens), content_keys(clause) - content_keys(tokens_of(guess.group()))
    behind = {t.key for t in clause if t.start >= guess.end() and t.is_content}
    return (guess.group(), "") if said & behind and len(said & inside) >= _INSIDE * len(said) else None


_SURE = lazy_regex(
    r"\b(?:certainly|definitely|surely|undoubtedly|doubtless|without (?:a )?doubt|beyond doubt|prov(?:ed|en|es)"
    r"|(?<!was )(?<!were )(?<!been )(?<!is )(?<!are )"
    r"(?:establish(?:ed|es)|confirm(?:ed|s))|undisputed(?:ly)?|guaranteed?|always|never fails)\b",
    re.IGNORECASE,
)
_MAYBE = lazy_regex(
    r"\b(?:probabl[ey]|possibl[ey]|perhaps|maybe|likely|presumabl[ey]|allegedly|reportedly|apparently|suspect(?:s|ed)?"
    r"|believed?|thought|assumed?|suggests?|(?-i:may)|might|could|seems?|appears?)\b",
    re.IGNORECASE,
)


def too_sure(claim: Sentence, nearest: Sentence) -> Found:
    """Find "certainly" or "established" in the claim where the evidence has "probably" or "suspects"."""
    sure, maybe = _SURE.search(claim.text), _MAYBE.search(nearest.text)
    if sure is None or maybe is None or _MAYBE.search(claim.text) or _SURE.search(nearest.text) or claim.is_negated:
        return None
    return sure.group(), maybe.group()
