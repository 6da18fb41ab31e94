"""Find whether a sentence is about another thing, or another party to an agreement, than the question."""

from __future__ import annotations

import re

from shared_core.citation.english import DO, HAVE, MODALS
from shared_core.reading.language import word_list
from shared_core.reading.questions import content_stems, has_number, words
from shared_core.reading.synonyms import named_stems
from shared_core.retrieval.tokenizer import other_names
from shared_core.support.regex import lazy_regex

_OWN_DUTY = lazy_regex(
    r"\b(?:do|must|can|may|should|could|will|would) (?:I|we) (?:(?:have|need) to )?(\w+)", re.IGNORECASE
)
_DUTY = r"(?:must|shall|may|will|can|(?:has|have|needs?|(?:is|are) required) to)"
_OTHER_PARTY = lazy_regex(
    rf"\W*(?:the|your) ({'|'.join(sorted(word_list('other_parties')))})s? {_DUTY} (.+)", re.IGNORECASE
)
_IS_IT = lazy_regex(
    r"\W*(?:is|are|was|were) (?!there\b|it\b|this\b|that\b)(?:the |an? |any |my |our |your )?", re.IGNORECASE
)
_COPULA = lazy_regex(r"\W*((?:[\w'’-]+ ){1,4}?)(?:is|are|was|were)\b", re.IGNORECASE)
_PRICE_ASKED = lazy_regex(
    r"\W*(?:how much (?:is|are|was|were)|(?:how much|what) (?:does|do|did|will|would)"
    r"|what (?:is|are) the (?:price|cost|fee) (?:of|for)) (.+?)(?: cost)?\W*$",
    re.IGNORECASE,
)
_PRICED = lazy_regex(r"\W*((?:[\w'’-]+ ){1,5}?)(?:costs?|is|are)\b[^.\d£$€]{0,24}[£$€] ?\d", re.IGNORECASE)
_COST_OF = lazy_regex(
    r"\W*(?:the |its |our |your )?(?:total |full |average |usual )?(?:cost|price|fee|charge)\s+(?:of|for)\s+(.{2,80}?)"
    r"\s+(?:is|are|was|were|comes to)\b"
    r"[^.£$€]{0,24}[£$€] ?\d",
    re.IGNORECASE | re.DOTALL,
)
_BEHIND_HEAD = lazy_regex(r"\b(?:of|for|in|on|at|to|with|per|from|by|get|if|when)\b.*", re.IGNORECASE)
_SUM_ASKED = lazy_regex(
    rf"\W*(?:how (?:much|high|big)|what)\b(?: (?:is|are|was|of|an?|the|my|our))*"
    rf" ((?:\w+ )?(?:{'|'.join(sorted(word_list('sums')))})s?)\b(?! (?:of|for) \w+ (?:costs?|price)\b)",
    re.IGNORECASE,
)
_FEE = r"(?:fee|charge|fine|penalty|surcharge)s?"
_FEE_FOR = lazy_regex(
    r"\W*(?:how (?:much|high|big) (?:is|are|was)|what(?: is| are| was|['’]?s)|is there) (?:the |an? |your |their )?"
    rf"{_FEE} (?:for|to|of|if)\b (.+)",
    re.IGNORECASE,
)
_FEE_NAMED = lazy_regex(rf"\b((?:[A-Za-z]+[- ])?[A-Za-z]+)[- ]{_FEE}\b", re.IGNORECASE)
_SAME_FEE = lazy_regex(r"\b(?:any|all|each|every|other|such)\b", re.IGNORECASE)
_SURE = 3
"""Content words of what a fee is for, at least, none of which a sentence has under another name."""
_WHO_DOES = lazy_regex(r"\W*who [a-z]+s (?:for |to |after )?(.+?)\W*$", re.IGNORECASE)
_DONE_BY = lazy_regex(r"\W*((?:[\w'’-]+,? ){1,8}?)(?:is|are|was|were) (?:\w+ly )?\w+ by\b", re.IGNORECASE)
_MONEY = lazy_regex(r"[£$€] ?\d|\d ?(?:[£$€]|(?:EUR|USD|GBP|NOK|SEK|DKK|CHF|euros?|dollars?|pounds?)\b)")
_TITLE = r"(?:Dr|Mr|Mrs|Ms|Miss|Mx|Prof|Professor)\.? "
_YES_OR_NO_OF = lazy_regex(
    rf"\W*(?i:{DO}|{HAVE}|is|was|were|{MODALS}) "
    rf"((?:{_TITLE})?[A-Z][\w'’-]*\w(?: [A-Z][\w'’-]*\w){{0,2}}) (?=[a-z])"
)
_ACTS = lazy_regex(
    rf"\W*((?:{_TITLE})[A-Z][\w'’-]*\w|[A-Z][\w'’-]*[a-z](?: [A-Z][\w'’-]*[a-z]){{1,2}})"
    r"(?:,[^,]{1,40},)? (?:(?:also|only|never|always|usually|often) )?[a-z]+(?:s|ed)\b"
)
_OF_CLASS = lazy_regex(
    r"\b([A-Za-z][a-z]{3,}) ([B-HJ-Z]|A(?=\W*\Z| (?:is|are|was|were|has|have|and|or|on|in|at)\b))(?![\w'’.])"
)
_PART_ASKED = lazy_regex(
    r"\b(?:(\w+) (?:of|for)|who (?!is\b|was\b|has\b)(\w+?)s) (?:the |our |your |an? )?((?:[\w'’-]+ ?){1,4})\W*$",
    re.IGNORECASE,
)
_PART_LABEL = lazy_regex(
    r"\W*(?:[\w'’-]+ ){0,2}?([\w'’-]+) (?:of|for) (?:the |our )?((?:[\w'’-]+ ?){1,4}):", re.IGNORECASE
)
_LABELLED_ITEM = lazy_regex(r"^[ \t]*(?:[-*+•]|\d+[.)])[ \t]+(?=\S)([^:\n]{2,60}):[ \t]+\S", re.MULTILINE)
_WAY = lazy_regex(r"\bfrom (?:the )?([^\W\d][\w'’-]+)(?: [\w'’-]+){0,2}? to (?:the )?([^\W\d][\w'’-]+)", re.IGNORECASE)
_BOTH_WAYS = lazy_regex(r"\b(?:between|distance|difference|both|return|either)\b|\bhow far\b", re.IGNORECASE)
_OF_KIND = lazy_regex(r"\b(Mt|Mount|Lake|Cape|Fort|Port|Camp|Loch|Lough|Glen)\b\.? ([A-Z][\w'’-]+)")
_OTHER_WANTED = lazy_regex(r"\b(?:where|which|who|whom|whose|what(?! time))\b", re.IGNORECASE)
_NAMED_ITEM = lazy_regex(
    r"^[ \t]*(?:[-*+•]|\d+[.)])[ \t]+(?:\*\*|__)([^*_\n]{2,60}?):?(?:\*\*|__)|^(?=#)|\n[ \t]*\n(?=[^\s*+•-])",
    re.MULTILINE,
)
_LIGHT = content_stems("bring bringing use using get getting take taking make making want have having")
_OF_ANY_FEE = content_stems(
    "standard small one off flat fixed single basic normal usual monthly annual yearly daily weekly total additional"
    " extra further separate service administration admin administrative handling processing minimum maximum late"
)
_GENERAL_DUTY = lazy_regex(
    r"\b(?:do|does|will|would) (?:I|we|you|one|they|people|\w+s) (?:have|need) to\b"
    r"|\b(?:must|should) (?:I|we|you|one)\b",
    re.IGNORECASE,
)
_PERSON_HAD_TO = lazy_regex(r"\b(?:I|[Ww]e|[Hh]e|[Ss]he) (?:\w+ly )?(?:had|needed) to\b")
_DUTY_NOW = lazy_regex(
    r"\b(?:must|shall|should|(?:has|have|needs?|is|are|required) to|may|can|will|always)\b", re.IGNORECASE
)
_MAY_I = lazy_regex(
    r"(?:.*[,;] )?\W*(?:can|may|could|should|must|do|does|will) (?:I|we|you|one|my \w+|\w+s)"
    r" (?:(?:have|need) to )?(\w+) (?:an? |the |my |our |any |some )?((?:[\w'’-]+ ?){1,3})",
    re.IGNORECASE,
)
_DO_NOT = lazy_regex(
    r"\W*(?:please )?(?:do not|don['’]t|never|you (?:must|may|can|should)(?: not)?)? ?(\w+) (?:any |the |your |an? )?"
    r"((?:[\w'’-]+ ?){1,3})",
    re.IGNORECASE,
)
_BEHIND = lazy_regex(
    r"\b(?:in|on|at|to|into|with|for|from|of|by|as|when|if|while|during|before|after|and|or)\b.*", re.IGNORECASE
)
_PLACE_ASKED = lazy_regex(
    r"\W*(?:can|may|is|are|do|does|could|must|should)\b.*"
    r" (?:in|into|inside|on|at|onto) (?:the|your|an?) ([\w'’-]+)\W*$",
    re.IGNORECASE,
)
_PLACE_GIVEN = lazy_regex(r"\W*(?:in|inside|within|on|at) (?:the|our|all|any|most) ([\w'’-]+)\b", re.IGNORECASE)
_DONE_TO = lazy_regex(r"([^,;]+), ((?!\w*ing\b)\w+(?:ed|t|n)) ([^,;]*\bby [^,;]*)")
_CAPITAL = lazy_regex(r"(?<!\A)\b[A-Z][\w'’-]+")
_OF_ANYTHING = {stem for word in word_list("subjects_of_anything") for stem in content_stems(word)}


def is_of_another(question: str, sentence: str, around: str, text: str = "") -> bool:
    """Return whether a sentence says of another thing or party what a question asks.

    Args:
        question: in English, as asked.
        around: the passage's title and headings.

    >>> is_of_another("Is gas included in the rent?", "Water is included in the rent.", "Lease")
    True
    >>> is_of_another("How much notice do I have to give?", "The landlord must give two months' notice.", "Lease")
    True
    >>> is_of_another("Are dogs allowed?", "Pets are allowed in the garden.", "Hotel")
    False
    """
    return (
        _is_of_other_party(question, sentence)
        or _is_so_of_another(question, sentence, around)
        or _is_price_of_another(question, sentence, around)
        or _is_cost_of_another(question, sentence, around, text)
        or _is_of_another_name(question, sentence, around)
        or _is_in_another_item(question, sentence, around, text)
        or _is_done_with_another(question, sentence, around, text)
        or _is_another_sum(question, sentence, around)
        or _is_fee_for_another(question, sentence, around)
        or _is_done_by_another(question, sentence, around)
        or _is_of_another_class(question, sentence, around)
        or _is_another_part(question, sentence, around)
        or _is_under_another_label(question, sentence, text)
        or _goes_the_other_way(question, sentence)
        or _was_duty_of_a_person(question, sentence)
        or _has_another_object(question, sentence, around, text)
        or _is_elsewhere(question, sentence, around, text)
        or _is_done_to_another(question, sentence)
    )


def _is_of_other_party(question: str, sentence: str) -> bool:
    """Whether a sentence says what the other party to an agreement must or may do, where one asks for oneself."""
    other, own = _OTHER_PARTY.match(sentence), _OWN_DUTY.search(question)
    if other is None or own is None:
        return False
    does = content_stems(own[1])
    return bool(does) and does <= content_stems(other[2]) and not content_stems(other[1]) & content_stems(question)


def _is_so_of_another(question: str, sentence: str, around: str) -> bool:
    """Whether a sentence has what a question asks to be so, but of another subject."""
    opens, subject = _IS_IT.match(question), _COPULA.match(sentence)
    if opens is None or subject is None:
        return False
    asked = [stems for word in words(question[opens.end() :]) if (stems := content_stems(word))]
    told = content_stems(f"{around} {sentence}")
    held = [bool(stems & told) for stems in asked]
    named = content_stems(subject[1])
    if not held or held[0] or not any(held) or any(not h for h in held[held.index(True) :]):
        return False  # what is missing is not the subject, or more than it
    return _names_another(named, {stem for stems in asked for stem in stems})


def _is_price_of_another(question: str, sentence: str, around: str) -> bool:
    """Whether a sentence gives the price of something else."""
    asked, priced = _PRICE_ASKED.match(question), _PRICED.match(sentence)
    if asked is None or priced is None:
        return False
    thing = content_stems(asked[1])
    if not thing or thing & content_stems(f"{around} {sentence}"):
        return False
    return _names_another(content_stems(priced[1]), thing)


def _is_cost_of_another(question: str, sentence: str, around: str, text: str) -> bool:
    """Whether a sentence says what something else costs ("The cost of oil is £4"), and the passage names the thing."""
    asked, costs = _PRICE_ASKED.match(question), _COST_OF.match(sentence)
    if asked is None or costs is None:
        return False
    named = [stems for word in words(_BEHIND_HEAD.sub("", asked[1])) if (stems := content_stems(word))]
    if not named or named[-1] & content_stems(f"{around} {sentence}") or not named[-1] & content_stems(text):
        return False
    return _names_another(content_stems(_BEHIND_HEAD.sub("", costs[1])), named[-1])


def _is_of_another_name(question: str, sentence: str, around: str) -> bool:
    """Whether a question names one lake, mountain or camp, and a sentence only others: "Mt. Arle" for "Mt. Tarn"."""
    asked = {name for _, name in _OF_KIND.findall(question)}
    if not asked or _OTHER_WANTED.search(question):
        return False
    kinds = {kind[:2] for kind, _ in _OF_KIND.findall(question)}
    given = {name for kind, name in _OF_KIND.findall(sentence) if kind[:2] in kinds}
    return bool(given) and not content_stems(" ".join(asked)) & content_stems(f"{around} {sentence}")


def _is_in_another_item(question: str, sentence: str, around: str, text: str) -> bool:
    """Whether a sentence is part of an item of a list that has another name than an item which the question names."""
    at = text.find(sentence)
    if at < 0 or text.find(sentence, at + 1) >= 0:
        return False
    asked, own = content_stems(question), set[str]()
    names = set[frozenset[str]]()
    for item in _NAMED_ITEM.finditer(text):
        stems = content_stems(item[1] or "")
        own = stems if item.start() <= at else own
        names.add(frozenset(stems))
    if not own or own <= asked:
        return False
    said = content_stems(f"{around} {sentence}")
    return any(name and name <= asked and not name - own <= said for name in names)


def _is_another_sum(question: str, sentence: str, around: str) -> bool:
    """Whether a question asks for a deposit, a fine or the like, and a sentence with a sum of money speaks of none."""
    asked = _SUM_ASKED.match(question)
    if asked is None or not _MONEY.search(sentence):
        return False
    return not content_stems(asked[1]) & content_stems(f"{around} {sentence}")


def _is_fee_for_another(question: str, sentence: str, around: str) -> bool:
    """Whether a question asks for the fee for something, and a sentence gives one that is called for something else."""
    asked = _FEE_FOR.match(question)
    if asked is None or not _MONEY.search(sentence):
        return False
    thing, known = content_stems(asked[1]), named_stems(f"{around} {sentence.replace('-', ' ')}")
    if len(thing - _LIGHT) < _SURE or named_stems(asked[1]) & known or _SAME_FEE.search(sentence):
        return False
    fees = [content_stems(name.replace("-", " ")) for name in _FEE_NAMED.findall(sentence)]
    return bool(fees) and all(_names_another(stems - _OF_ANY_FEE, content_stems(question)) for stems in fees)


def _is_done_with_another(question: str, sentence: str, around: str, text: str) -> bool:
    """Whether a sentence says who does something with other things, and the passage speaks of the one asked about."""
    asked, done = _WHO_DOES.match(question), _DONE_BY.match(sentence)
    if asked is None or done is None:
        return False
    thing = content_stems(asked[1])
    if thing & content_stems(f"{around} {sentence}") or not thing & content_stems(text):
        return False
    return _names_another(content_stems(done[1]), thing)


def _is_done_by_another(question: str, sentence: str, around: str) -> bool:
    """Whether it is asked if someone does something, and a sentence says that another person or thing does."""
    asked, does = _YES_OR_NO_OF.match(question), _ACTS.match(sentence)
    if asked is None or does is None:
        return False
    names = content_stems(re.sub(_TITLE, "", asked[1]))
    return bool(names) and not names & content_stems(f"{around} {sentence}")


def _is_of_another_class(question: str, sentence: str, around: str) -> bool:
    """Whether a question names one of several by a letter ("pontoon A"), and sentence or headings only another."""
    for noun, letter in _OF_CLASS.findall(question):
        same = re.compile(rf"\b(?i:{re.escape(noun)})s? ((?:[A-Z](?:, | and | or |/))*[A-Z])\b(?!['’.]?\w)")
        given = same.findall(sentence) or same.findall(around)
        if given and not any(letter in letters for letters in given):
            return True
    return False


def _is_another_part(question: str, sentence: str, around: str) -> bool:
    """Whether a label names the head, judge or the like of something else than the question."""
    asked, label = _PART_ASKED.search(question), _PART_LABEL.match(sentence)
    if asked is None or label is None or content_stems(asked[1] or asked[2]) != content_stems(label[1]):
        return False
    wanted, given = content_stems(asked[3]), content_stems(label[2])
    lacking = wanted - given
    return bool(lacking and given - wanted) and not lacking & content_stems(f"{around} {sentence}")


def _is_under_another_label(question: str, sentence: str, text: str) -> bool:
    """Whether a sentence is a labelled item ("Measles: 4 days") whose list has one with the label that is asked for."""
    own = _LABELLED_ITEM.match(sentence)
    if own is None:
        return False
    asked, named = content_stems(question), content_stems(own[1])
    if not named or named & asked:
        return False
    labels = (content_stems(label) for label in _LABELLED_ITEM.findall(text))
    return any(label and label <= asked for label in labels)


def _goes_the_other_way(question: str, sentence: str) -> bool:
    """Whether a sentence is about the way back: "from B to A" for "from A to B"."""
    asked = _WAY.search(question)
    if asked is None or _BOTH_WAYS.search(question):
        return False
    start, end = (re.escape(place) for place in asked.groups())
    way = r"\b(?i:{}\b(?: [\w'’-]+){{0,2}}? ?(?:to|→|–|-) ?(?:the )?{})\b"
    return bool(re.search(way.format(end, start), sentence)) and not re.search(way.format(start, end), sentence)


def _was_duty_of_a_person(question: str, sentence: str) -> bool:
    """Whether a question asks for a duty of everyone, and a sentence says only what someone once had to do."""
    if not _GENERAL_DUTY.search(question) or _PERSON_HAD_TO.search(question):
        return False
    return bool(_PERSON_HAD_TO.search(sentence)) and not _DUTY_NOW.search(_PERSON_HAD_TO.sub(" ", sentence))


def _has_another_object(question: str, sentence: str, around: str, text: str) -> bool:
    """Whether a rule has the verb of a question and another object, and the passage speaks of the one asked about."""
    asked, given = _MAY_I.match(question), _DO_NOT.match(sentence)
    if asked is None or given is None or has_number(given[2]):
        return False
    act = content_stems(asked[1])
    if not act or act != content_stems(given[1]):
        return False
    named, other = (_BEHIND.sub("", found[2]) for found in (asked, given))
    thing = content_stems(named)
    if not thing:
        return False
    thing |= content_stems(" ".join(other_names(named)))
    if thing & content_stems(f"{around} {sentence}") or not thing & content_stems(text):
        return False
    return _names_another(content_stems(other), content_stems(question))


def _is_elsewhere(question: str, sentence: str, around: str, text: str) -> bool:
    """Whether a sentence begins with another place than the question's, and the passage speaks of that one too."""
    asked, given = _PLACE_ASKED.match(question), _PLACE_GIVEN.match(sentence)
    if asked is None or given is None:
        return False
    place = content_stems(asked[1])
    if not place or place & content_stems(f"{around} {sentence}") or not place & content_stems(text):
        return False
    return _names_another(content_stems(given[1]), content_stems(question))


def _is_done_to_another(question: str, sentence: str) -> bool:
    """Whether a clause with the question's verb stands behind another name: "the Ada, built by Orr, and the Erna"."""
    names, said = set(_CAPITAL.findall(question)), content_stems(question)
    for before, verb, rest in _DONE_TO.findall(sentence):
        held = set(_CAPITAL.findall(before))
        if names and held and content_stems(verb) & said and not names & {*held, *_CAPITAL.findall(rest)}:
            return True
    return False


def _names_another(named: set[str], asked: set[str]) -> bool:
    """Whether a subject is a thing of its own, which a question does not name."""
    return bool(named) and not named & asked and not named & _OF_ANYTHING
