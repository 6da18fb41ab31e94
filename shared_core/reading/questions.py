"""Detect from words alone that a text asks nothing, is an English question, a heading, or repeated by a document."""

from __future__ import annotations

import re
from collections.abc import Iterable

from shared_core.citation.english import AUXILIARIES, BE, DO, MODALS
from shared_core.reading.features import STOP_WORDS, stem
from shared_core.reading.language import word_list
from shared_core.support.regex import lazy_regex

_WORD = lazy_regex(r"[^\W_]+(?:['’][^\W\d_]+)*")
_GREETINGS, _BESIDE_GREETINGS = word_list("greetings"), word_list("beside_greetings")
_ENGLISH_OPENERS = word_list("english_openers")
_ASKING_MEANING, _ASKING_WORDING = word_list("asking_meaning"), word_list("asking_wording")
_BEFORE_IT = lazy_regex(r"\A(?s:.*)[.!:;](?=\s)")
_ENDS_ASKING = lazy_regex(r"\?[\W_]*\Z")
_EMPTY = lazy_regex(r"(?:\{\}|\[\]|\(\)|''|\"\")[`*_.]*$")
"""A value of configuration that is empty: "Default: []"."""
_ALIKE = 0.6
_FEW, _BEGINNING = 3, 5  # words of an item or label; letters of words of one family
_STATES = lazy_regex(r"[.!;,:=\d](?:\s|\Z)|[=<>]")
_ASKING = lazy_regex(
    r"[\W_]*(?>(?:(?:and|but|so|or|also|ok|okay|oh|hey|hi|sorry|please|well|then)\b[\s,]*)*)"
    r"(?:who|whom|whose|what|which|when|where|why|how|is|are|am|was|were|do|does|can|could|shall|should|will|would"
    r"|has|have|may|might|must|anyone|anybody|any|did(?! you know\b))\b",
    re.IGNORECASE,
)
_ASKED_WHETHER = lazy_regex(
    r"\b(?:ask(?:s|ed)|wonder(?:s|ed)|[ei]nquired|want(?:s|ed) to know)\b(?! (?:to|for)\b)(?: [\w'’-]+){0,3}?"
    r" (?:whether|if|why|how|when|where|what|who|which)\b[^,:;?()]*[.\s\"”’]*\Z",
    re.IGNORECASE,
)
_ASKS_WHAT_WAS_SAID = lazy_regex(
    r"\b(?:ask|question|quer[iy]|enquir|inquir|wonder|doubt|whether|sa(?:y|id)|t(?:ell|old)|mention|writ|wrote|discuss|talk"
    r"|suggest|propos|offer|invit|request|called\b|entitled|title|nam|slogan|motto|song|headline|subject|quot|word)",
    re.IGNORECASE,
)
_PARENTHESES = lazy_regex(r"\s\([^()]+\)")
_REFERS = lazy_regex(
    r"[\s>*_(-]*(?:(?:for|to|if|as)\b[^.;\n]{1,120},\s+)?(?:please\s+)?"
    r"(?:see|refer to|(?:learn|read|find out) (?:more|how|about))\s"
    r"(?=[^;]*(?:\]\(|https?:|\w\(\d\w?\)"
    r"|\b(?:section|chapter|page|appendix|documentation|docs|manual|guide|readme|website|faq|below|above)\b))[^;]{3,300}"
    r"|[\s>*_(-]*this (?:section|page|chapter|document|guide|article|tutorial|manual) (?:describes|explains|lists"
    r"|covers|contains|discusses|provides|shows|outlines|documents|introduces)\b[^;]{1,300}"
    r"|[\s>*_(-]*see\s+also\b[^;]{1,200}|[\s>*_(-]*(?:learn|discover|explore)\s+(?:how(?!\s+to\b)|why|about|more)\b[^;]{1,300}",
    re.IGNORECASE,
)
_ASKS_WHERE = lazy_regex(
    r"\bwhere\b|\bmore (?:about|on|info\w*|details?)\b|\b(?:section|chapter|page|appendix|documentation|docs|manual"
    r"|guide|readme|website|url|link)\b",
    re.IGNORECASE,
)
# Definitions of links, as Markdown and reStructuredText have them beside the text: "[docs]: ../docs.md", ".. _top:".
_LINK_DEFINITION = lazy_regex(
    r"[ \t>]*(?:\[(?!\^)[^\]\n]+\]:[ \t]*<?(?=[^\s<>]*[/.#])[^\s<>]*>?(?:[ \t]+[\"'(].*)?"
    r"|(?:\.\. )?_[^\n]{1,80}(?<!_):(?:[ \t]+(?:(?=\S*[/.#])\S+|\S+_))?|(?:\.\. )?__:?[ \t]\S+)[ \t]*"
)
_LISTS_LINKS = lazy_regex(
    r"(?:further|additional|related|recommended|suggested) (?:reading|resources|information|links|articles|pages)"
    r"|see also|references|(?:(?:external|useful|helpful) )?links|resources|(?:learn|read) more|more information",
    re.IGNORECASE,
)
_LINK = lazy_regex(r"\]\(|\]\[|https?://|`_|:(?:ref|doc|pep|rfc):`")
_YES_OR_NO = lazy_regex(rf"\W*(?:{AUXILIARIES}|am|shall)\b", re.IGNORECASE)
_THEN_YES_OR_NO = lazy_regex(  # "It shows E4, should I unplug it?"
    r"(?!.*\b(?:who|whom|whose|what|which|when|where|why|how)\b)"
    rf".*\b(?:{BE}|am|{DO}|{MODALS}|shall)(?: not)? (?:i|we|you|it|they|he|she|there|this|that)\b",
    re.IGNORECASE | re.DOTALL,
)
_RESULT = lazy_regex(
    r"\W*(?:this|that|doing (?:so|this|that)|the (?:above|latter))\s+(?:will|would|should)\b", re.IGNORECASE
)
_ASKS_NUMBER = lazy_regex(r"\bhow many\b|\b(?:what|which) percent(?:age)?\b", re.IGNORECASE)
_ASKS_WHAT_IT_DOES = lazy_regex(r"\W*what (?:does|do) .{1,80} (?:do|mean)\W*", re.IGNORECASE)
_KINDS = lazy_regex(r"(?:\b\w+ )?\b(?:kinds?|types?|sorts?|categor(?:y|ies)) of\b", re.IGNORECASE)
_COUNTS = lazy_regex(
    r"[\d¼½¾]|\b(?:no|none?|(?:four|fif|six|seven|eigh|nin|ten)th|all|several|few|many|both|each|every"
    r"|single|only|pair|couple|double|triple|twin|duo|trio|quartet|tens|numerous|majority|minority|unlimited|infinite|neither|countless|multiple|scores?|dozens|hundreds|thousands|millions"
    rf"|billions|thirds?|quarters?|never|nobody|nothing|{'|'.join(word_list('numbers'))})\b",
    re.IGNORECASE,
)
_ASKS_AMOUNT = lazy_regex(
    r"\bhow much (?:money\b|(?:do|does|did|is|are|was|were|will|would|must|can)\b.*\b(?:cost|pay|paid|charged?|owe)\b)"
    r"|\bwhat (?:do|does|did|will|would)\b.*\bcost(?=\W*$| (?:for|to|if|when|in|at|on|per|an?|me|us|with|without)\b)"
    r"|\bwhat(?:['’]s| is| are| was| were) the (?:[\w-]+ ){0,3}(?:price|fee)s?\b(?! (?:schedule|structure|status))"
    r"|\bhow much (?:is|are|was|were) (?:the|an?|my|our|your|this|that) (?:[\w-]+ ){0,3}"
    r"(?:price|fee|fine|penalty|charge|surcharge|levy|fare|toll|deposit|rent)s?\b"
    r"|\bwhat(?:['’]s| is| are| was| were) the (?:[\w-]+ ){0,2}(?:(?:fine|fare|surcharge)s?"
    r"(?=\W*$| (?:for(?!\W*$)|if|when|on|in|at|of|per|after|to|we|I|you|they)\b)|charges? for\b(?!\W*$))",
    re.IGNORECASE,
)
_PRICED = lazy_regex(  # also as reviews say it: "the price was perfect"
    r"[$€£¥]|\b(?:free|gratis|exempt\w*|waive[sd]?|half|twice|percent|(?:in)?expensive|cheap\w*|affordable|reasonabl[ey]"
    r"|fair|perfect|good|great|wonderful|high|low|steep|worth|equal|equivalent|same|included?"
    r"|(?:cost|price|value|rate) of|(?:replacement|full|market|actual|original|list|cost) (?:price|cost|value))\b",
    re.IGNORECASE,
)
_AMOUNT = lazy_regex(
    rf"[\d¼½¾]|\b(?:no|none|nothing|tens|hundreds|thousands|millions|{'|'.join(word_list('numbers'))})\b", re.IGNORECASE
)
_ASKS_WHO = lazy_regex(r"\bwho(?:m|se)?\b", re.IGNORECASE)
_NOBODY = lazy_regex(
    r"\W*(?:[Ss]ome(?:one|body))(?: else)?(?:['’]s| (?:has|had|is|was|will|must|may|might|seems?|\w+ed))\b"
    r"(?!.*[\w,;:] [A-Z]|.*@)",
    re.DOTALL,
)


def words(text: str) -> list[str]:
    """Its words, in lower case."""
    return [word.replace("’", "'") for word in _WORD.findall(text.lower())]


def content_stems(text: str) -> set[str]:
    """Return the stems of the content words of a text.

    >>> sorted(content_stems("When do the libraries open?"))
    ['librari', 'open']
    """
    return {stem(word) for word in words(text.replace("_", " ")) if word not in STOP_WORDS}


def drop_parentheses(text: str) -> str:
    """Return a text without what is in parentheses, such as an abbreviation beside what it stands for.

    >>> drop_parentheses("Who wrote the RDF (rug data format)?")
    'Who wrote the RDF?'
    """
    return _PARENTHESES.sub("", text)


def asks_nothing(text: str) -> bool:
    """Whether it only greets or thanks ("Hi there, how are you?"): nothing but such words, one of them a greeting."""
    said = words(text)
    polite = all(word in _GREETINGS or word in _BESIDE_GREETINGS for word in said)
    return polite and (any(word in _GREETINGS for word in said) or said[:3] == ["how", "are", "you"])


def opens_in_english(question: str) -> bool:
    """Whether its first word is a question word that only English has: whatever names follow, it can be read."""
    return bool(said := words(question)) and said[0] in _ENGLISH_OPENERS


def asks_meaning(question: str, names: Iterable[str]) -> bool:
    """Whether it asks no more of these names than what they mean.

    >>> asks_meaning("What does -s do in sort?", ["-s", "sort(1)"]), asks_meaning("Is -s stable?", ["-s", "sort(1)"])
    (True, False)
    >>> asks_meaning("What is an object library?", ["Object Libraries"])
    True
    """
    named = {stem(word) for word in words(" ".join(names))}
    return {word for word in words(question) if stem(word) not in named} <= _ASKING_MEANING


def asks_what_it_does(question: str) -> bool:
    """Whether it asks what something does or means, and nothing else of it.

    >>> asks_what_it_does("What does cut() do?"), asks_what_it_does("What does cut() do to a rope?")
    (True, False)
    """
    return _ASKS_WHAT_IT_DOES.fullmatch(question) is not None


def asks_wording(question: str, names: Iterable[str]) -> bool:
    """Whether it asks, besides these names, no more than what something says.

    >>> asks_wording("What does the lease say?", ["Lease of a shop"]), asks_wording("What does it cost?", ["Lease"])
    (True, False)
    """
    return set(words(question)) - set(words(" ".join(names))) <= _ASKING_WORDING


def repeats(sentence: str, question: str) -> bool:
    """Whether a sentence of a document asks what ``question`` asks, as in lists of questions and answers: no answer.

    It ends in a question mark, and six tenths of the words of both are common to them, or of its last clause ("[09:23]
    Mika: thanks. who is at home?"). Nor are a few words of it an answer, such as a label that is no heading to its
    program, or an item of a list, unless the question names it as one of two, or it has an empty value ("Default: []").

    >>> repeats("- Charitable gifts", "Does it double my gifts to charity?"), repeats("No gifts.", "May I bring gifts?")
    (True, False)
    """
    asked, said = set(words(question)), set(words(sentence))
    if not _ENDS_ASKING.search(sentence):
        begun = {word[:_BEGINNING] for word in asked}
        few = 1 < len(words(sentence)) <= _FEW and not _STATES.search(sentence)
        known = all(w in asked or (few and len(w) >= _BEGINNING and w[:_BEGINNING] in begun) for w in said)
        alone = (few or len(words(sentence)) == 1) and known
        return alone and not _EMPTY.search(sentence) and "or" not in asked
    clauses = said, set(words(_BEFORE_IT.sub("", sentence)))
    return any(len(asked & clause) >= _ALIKE * len(asked | clause) > 0 for clause in clauses)


def only_asks(sentence: str, question: str) -> bool:
    """Whether a sentence of a document is or reports a question, and what was asked or said there is not what is asked.

    >>> only_asks("Sofia: is the call at 9:30 or 10?", "When is the call?"), only_asks("At 9?", "What did she ask?")
    (True, False)
    >>> only_asks("Did you know that it has 300 steps?", "How many steps has it?")
    False
    >>> only_asks("Mrs Quill asked why the shop had earned less.", "Why has the shop earned less?")
    True
    """
    if _ASKS_WHAT_WAS_SAID.search(question):
        return False
    if _ASKED_WHETHER.search(sentence):
        return True
    if not _ENDS_ASKING.search(sentence):
        return False
    return _ASKING.match(_BEFORE_IT.sub("", sentence)) is not None


def only_refers(sentence: str, question: str, heading: str = "") -> bool:
    """Whether a sentence does no more than say where to read on, which the question does not ask for.

    So does one with a link below a ``heading`` like "Further reading".

    >>> only_refers("For ways to turn it off, see [Settings](#settings) below.", "How do I turn it off?")
    True
    >>> only_refers("Learn how threads help, and how to build without them.", "How do I build without threads?")
    True
    >>> only_refers("If it hurts, see a doctor.", "What if it hurts?")
    False
    """
    listed = _LISTS_LINKS.fullmatch(heading.strip(" \t.:#0123456789")) is not None and _LINK.search(sentence)
    return bool(listed or _REFERS.fullmatch(sentence)) and not _ASKS_WHERE.search(question)


def defines_links(sentence: str, question: str) -> bool:
    """Whether a sentence is nothing but where links of the text lead to, which the question does not ask for.

    >>> defines_links("[top]: ../docs.md", "What is on top?"), defines_links("[1]: free", "What is free?")
    (True, False)
    """
    # line by line: of a list of them one expression would try all ways to share its blanks
    found = all(_LINK_DEFINITION.fullmatch(line) for line in sentence.split("\n"))
    return found and not _ASKS_WHERE.search(question)


def asks_yes_or_no(question: str) -> bool:
    """Whether a question can be answered with yes or no.

    >>> asks_yes_or_no("Is it open?"), asks_yes_or_no("When is it open?")
    (True, False)
    >>> asks_yes_or_no("It shows E4, should I unplug it?"), asks_yes_or_no("Paid leave for nurses")
    (True, False)
    """
    return any(asked.match(question) for asked in (_YES_OR_NO, _THEN_YES_OR_NO))


def tells_result(sentence: str) -> bool:
    """Whether a sentence tells what follows from something said before it, and not what to do.

    >>> tells_result("This will create a folder."), tells_result("This menu has an entry for it.")
    (True, False)
    """
    return _RESULT.match(sentence) is not None


def asks_who(question: str) -> bool:
    """Whether a question asks for a person: "who", "whom" or "whose"."""
    return _ASKS_WHO.search(question) is not None


def names_nobody(sentence: str, question: str) -> bool:
    """Whether a question asks who did something, and a sentence says that someone did, but not who.

    >>> names_nobody("Someone has dumped tyres.", "Who dumped the tyres?")
    True
    >>> names_nobody("Someone with a key may enter.", "Who may enter?")
    False
    """
    return asks_who(question) and _NOBODY.match(sentence) is not None


def has_number(text: str) -> bool:
    """Whether a text has a number, in digits or words, or a word for a quantity: "few", "all", "twice"."""
    return _COUNTS.search(text) is not None


def asks_price(question: str) -> bool:
    """Whether a question asks what something costs, or how high a fee is.

    >>> [asks_price(q) for q in ("How much did they pay?", "What does a pass cost?", "How much sugar do I need?")]
    [True, True, False]
    >>> asks_price("What is the fee?"), asks_price("What did the delay cost the town?")
    (True, False)
    """
    return _ASKS_AMOUNT.search(question) is not None


def names_price(sentence: str) -> bool:
    """Whether a sentence has a sign of money, or says that something is free, or what its price is like."""
    return _PRICED.search(sentence) is not None


def counts_nothing(sentence: str, question: str) -> bool:
    """Whether a question asks for a number of things, a share or a price, and a sentence has none.

    Of SQuAD 1.1's 5,968 such questions 13 are answered by a sentence like that, of 214 for a sum of money 1.

    >>> counts_nothing("Items must be sent some hours before.", "How many hours before must items be sent?")
    True
    >>> [counts_nothing(text, "How much do I pay?") for text in ("Each fee is in the schedule.", "It is cheap.")]
    [True, False]
    >>> counts_nothing("There are several.", "How many are there?"), counts_nothing("By bus.", "How does she go there?")
    (False, False)
    >>> counts_nothing("There are two kinds of chapters.", "How many chapters are there?")
    True
    """
    if not _KINDS.search(question):
        sentence = _KINDS.sub(" ", sentence)
    if asks_price(question) and not names_price(sentence) and not _AMOUNT.search(sentence):
        return True
    return not has_number(sentence) and _ASKS_NUMBER.search(question) is not None
