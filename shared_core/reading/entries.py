"""Leave out what is about another entry than the question: another option, code, clause or setting.

To the network ``-s`` is as ``-w``, ``E4`` as ``E1``, and a row of a table (``rows``) as its neighbour.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from shared_core.reading.commands import commands_of, is_usage, of_pages, repeats_call, shows_call
from shared_core.reading.defaults import asks_default, of_defaults_asked
from shared_core.reading.definitions import may_define, names_in_heading, of_terms_defined, tells_of_text, term_asked
from shared_core.reading.features import Words, is_among
from shared_core.reading.lookups import is_field, of_names_asked
from shared_core.reading.places import above, heading_above, innermost, source_of
from shared_core.reading.prepared import Asked
from shared_core.reading.questions import asks_meaning, asks_what_it_does, asks_wording, only_refers, words
from shared_core.reading.rows import Entry, find_fullest, of_cells_asked, of_labels, of_named_rows, of_rows, stems_of
from shared_core.reading.settings_asked import of_settings_asked
from shared_core.reading.signatures import (
    describes_parameter,
    functions_in,
    is_signature,
    of_functions_asked,
    parameter_at,
)
from shared_core.support.options import entry_at, find_codes, find_options, find_signs, find_variables, is_of_another
from shared_core.support.regex import lazy_regex
from shared_core.types import Passage

DEFINES = 3.0
"""Added to both log-odds of a definition that was asked for: with it they are as sure as such quotes are right.

Taken off where the command does not have the option: what is quoted then tells of something else."""
_FIELD = r"(?:the )?[`'\"]?(?P<name>[\w.-]+)[`'\"]? (?P<kind>field|key|option|setting|attribute|property|parameter)"
_FIELD_ASKED = lazy_regex(rf"\bdoes {_FIELD}\b", re.IGNORECASE)
_FIELD_HEADING = lazy_regex(rf"{_FIELD}s?", re.IGNORECASE)
_NAME_ASKED = lazy_regex(
    r"\W*what does (?:the )?[`'\"]?(?P<name>[a-z]+)(?:\(\))?[`'\"]? (?:do|mean|return)\W*", re.IGNORECASE
)
_KEY = lazy_regex(r"(?<![\w.-])[A-Za-z][\w-]*(?:\.[A-Za-z][\w-]*)+(?![\w-])")
_NAMES_ONLY = lazy_regex(
    r"\W*\$?(?:--?[a-z]\w*|\w+_\w+)\W*(?:environment variable|variable|option|flag)?\W*", re.IGNORECASE
)
"""A line that names an option or variable without a word on it."""
_PROSE = lazy_regex(r"(?<![\w.])[a-z]+,? [a-z]+(?![\w.(])|\A[A-Z][a-z]+ [a-z]+\b(?=.*\.\Z)")
_PRODUCT = lazy_regex(r"\b[\w-]+['’]s\s+(?=\w*_\w)|\s+(?:in|of|for)\s+[\w.-]+(?=\W*$)")
"""Words that say whose variable is meant; of which its name leaves no doubt."""
_BULLET = lazy_regex(r"[*+•-][ \t]")
_SIGNS = lazy_regex(r"[(){};=<>\[\]]")
_STATEMENT = lazy_regex(
    r"\s*(?:let|const|var|auto|int|return|pub|static|public|private|fn|def|import|use)\b"
    r"(?=[^\n]*[=(){}<>&\[])[^\n]*[;{]\s*(?://[^\n]*)?"
)
_MARKUP = lazy_regex(r"[ \t]*(?:\.\. [\w:-]+::|`{3}|\$ |\"[\w.-]+\":\s)")
_ABOUT_CODES = "error code number message warning policy"
"""Words of headings of codes."""
_LONGEST_HEADING = 400
_COMMENTS = lazy_regex(r"(?:^|\s)(?:#|//|;)\s*\w|\n")
_NOTE = lazy_regex(
    r"\W*(?:(?:available|added|introduced|new|deprecated|changed)\s+(?:since|in|from|as of)\b[^\n]{1,40}"
    r"|\w+(?![\w.!]))\W*",
    re.IGNORECASE,
)
"""A note on versions below a heading, or a single word, such as the label of what can be unfolded."""
_VERSION = lazy_regex(r"\W*version: [^;\n]*;", re.IGNORECASE)
_GLOSSARY = lazy_regex(r"[\W\d]*(?:terms(?: and definitions)?|definitions|glossary|terminology)\W*", re.IGNORECASE)
_NUMBER = lazy_regex(r"\W*\d{1,5}\W*")
_OPTION_WORDS = "option flag switch argument parameter"
_OPTION_ASKED = lazy_regex(rf"\b(?:{'|'.join(_OPTION_WORDS.split())})s?\b", re.IGNORECASE)
_WORDS_ONLY = lazy_regex(r"[\w' -]+")
_WHATIS = lazy_regex(r"([\w.+:/-]+(?:,? [\w.+:/-]+){0,7}?)(?: ?\(\d\w*\))? [-–—]{1,2} \S")
_GROUP = lazy_regex(r"\W*(?:[a-z]+ )?(?:arguments|options|commands|parameters|flags)\W*", re.IGNORECASE)
_ASKS_WHAT_TO_DO = lazy_regex(
    r"\bwhat (?:will |would )?happens?\b|\bwhat (?:should|do|can|must) (?:i|we|you|one) do\b|\bwhat to do\b"
    r"|\bhow (?:do|can|should|to)\b|\bwhat (?:does|do|will|would) .+ do\b",
    re.IGNORECASE,
)
_ASKS_KIND = lazy_regex(r"\W*what(?:['’]s|\s+is)\s+an?\s", re.IGNORECASE)
_CLAUSE = r"clause|section|article|paragraph|rule|regulation|chapter|item|point"
_ASKED_CLAUSE = lazy_regex(rf"(?:\b({_CLAUSE})|§)[ \t]*(\d{{1,3}}(?:\.\d{{1,3}})*)(?![\w.]*\d)", re.IGNORECASE)
_CLAUSE_BEGINS = lazy_regex(
    rf"^[ \t#*_]*(?:({_CLAUSE})[ \t]+|§[ \t]*)?(\d{{1,3}}(?:\.\d{{1,3}})*)[.):]?(?=[ \t*_:–—-]|$)",
    re.IGNORECASE | re.MULTILINE,
)
_CONTRASTS = lazy_regex(r"(?:however|but|nevertheless|otherwise|still|even so|conversely)\b", re.IGNORECASE)
"""What begins a sentence that needs the one before it."""
_SAYS = lazy_regex(r"(?:\s+[\w'’]+){0,5}?\s+(?:say|state|provide|require)\b", re.IGNORECASE)
_LABEL = 5
"""Words of a label at most."""


def of_entries_asked(asked: Asked, entries: Sequence[Entry]) -> tuple[list[int], dict[int, int]]:
    """Return the numbers of the candidates that may be about what is asked, all where nothing tells them apart.

    Also 1 for those that define it: for a question of what an option or a variable means, the first sentences below it,
    the setting that is asked for, and the row with the cell that is asked for; -1 for settings of blocks that lack it,
    and rows whose cell is empty.
    """
    kept, defines = _of_names(asked, entries)
    if asks_what_it_does(asked.text):
        kept = [i for i in kept if not _tells_of_text(entries[i])] or kept
    elif (about := term_asked(asked.text)) and _WORDS_ONLY.fullmatch(about[0]):
        any_of_it = _ASKS_KIND.match(asked.text) is not None  # "What is the price?" may be answered by a line of code
        unfit = {i for i in kept if _tells_of_text(entries[i]) or (any_of_it and _is_code(entries[i]))}
        kept = [i for i in kept if i not in unfit] or kept
    kept = [i for i in kept if not repeats_call(asked, entries[i])] or kept
    kept = _of_whole_names(asked, entries, kept)
    kept, is_parameter = of_functions_asked(asked.text, entries, of_pages(asked, entries, kept))
    kept = _of_signs(asked.text, entries, _of_codes(asked.text, entries, _of_keys(asked.text, entries, kept)))
    kept = _of_fields(asked.text, entries, kept)
    kept, says = _of_clauses(asked, entries, kept)
    kept, marks = of_settings_asked(asked.words, entries, kept)
    kept = of_labels(asked, entries, kept)
    kept, empty = of_named_rows(asked, entries, kept)
    kept = of_rows(asked.words, entries, kept)
    kept, stated = of_defaults_asked(asked, entries, kept)
    kept, named = of_names_asked(asked, entries, kept)
    sure = dict.fromkeys([*of_cells_asked(asked, entries, kept), *named], 1)
    if asks_what_it_does(asked.text):  # "restat = 1" sets it, and says of it what it does only in a comment
        marks = {i: mark for i, mark in marks.items() if mark < 0 or _COMMENTS.search(entries[i].text)}
    marks |= stated | sure | dict.fromkeys(empty, -1)
    if defines or says or is_parameter:
        return kept, dict.fromkeys(kept, 1)
    headed = {} if marks else _of_terms(asked, entries, kept)
    return kept, marks or (headed if 1 in headed.values() else of_terms_defined(asked, entries, kept) | headed)


def lacks_names(question: str, words: Words, passages: Sequence[tuple[Passage, NDArray[np.int64]]]) -> bool:
    """Return whether a question names a variable that is in no passage, or an option of others than it asks about.

    Those are the documents whose titles hold its other words.

    Args:
        question: as asked, with its ``words``.
        passages: each with the codes of its title's words.
    """
    wanted = {*find_options(question)}
    if not wanted:
        names = [name.casefold() for name in find_variables(question)]
        texts = [f"{above(p)}\n{source_of(p)}\n{p.text}".casefold() for p, _ in passages if names]
        return any(all(name not in text for text in texts) for name in names)
    others = words.content[~is_among(words.content, stems_of(" ".join(wanted)))]
    about = find_fullest({i: is_among(others, title) for i, (_, title) in enumerate(passages)})
    return not any(wanted & {*find_options(f"{above(p)}\n{p.text}")} for p, _ in (passages[i] for i in about))


def _of_names(asked: Asked, entries: Sequence[Entry]) -> tuple[Sequence[int], bool]:
    """Keep the entries of an option or variable of the question, if there are any.

    "See -s" explains no option, and "-s" of another command is another one, if titles tell. What only mentions a
    variable may answer as well as its entry does.
    """
    every: Sequence[int] = range(len(entries))
    options = {*find_options(asked.text)}
    wanted = options or {*find_variables(asked.text)}
    if not wanted:
        return every, False
    if not options:
        asked = replace(asked, text=_PRODUCT.sub("", asked.text))
    every = [i for i in every if not (is_usage(entries[i]) and _asks_meaning(asked, wanted, entries[i]))]
    explained, named = [], []
    # Of each entry: is it no prose, where it begins, its number.
    first: dict[tuple[str, int], tuple[bool, int, int]] = {}
    for i in every:
        passage, c = entries[i].passage, entries[i].candidate
        headings, heading = above(passage), innermost(passage)
        start, names = entry_at(passage.text, c.start)
        if heading.startswith("-") and not names <= (own := {*find_options(heading)}):
            start, names = 0, frozenset(own)  # a line of its text happens to begin with another option
        sentence = passage.text[c.start : c.end]
        above_it = {
            *find_options(headings),
            *find_variables(headings),
            f"--{heading}",
            heading.replace(" ", "_"),
        }
        if not wanted.isdisjoint({*names, *above_it}):
            explained.append(i)
        elif not wanted.isdisjoint(find_options(sentence) + find_variables(sentence)):
            named.append(i)
        if not wanted.isdisjoint(names) and _asks_meaning(asked, wanted, entries[i]):
            this = _defines_nothing(entries[i]), c.start, i
            first[passage.id, start] = min(first.get((passage.id, start), this), this)
    if chosen := sorted(i for *_, i in first.values() if not _NAMES_ONLY.fullmatch(entries[i].text)):
        headed = [i for i in chosen if not wanted.isdisjoint(find_variables(innermost(entries[i].passage)))]
        return headed or chosen, True  # what its own section says before what a list of others says of it
    if not options:
        return (sorted(explained + named) if explained else every), False
    # "the -Z flag of swap-pane": what is below "swap-pane" rather than another program's -Z
    rest = asked.words.content[~is_among(asked.words.content, stems_of(" ".join([*wanted, _OPTION_WORDS])))]
    fit = {i: int(is_among(rest, stems_of(above(entries[i].passage))).sum()) for i in explained + named}
    if explained and max((fit[i] for i in named), default=0) > max(fit[i] for i in explained):
        explained = []
    titles = {i: is_among(asked.words.content, entries[i].prepared.title) for i in explained or named}
    return find_fullest(titles) or every, False


def _of_keys(question: str, entries: Sequence[Entry], kept: Sequence[int]) -> Sequence[int]:
    """Leave out what stands below other keys with dots (``build.target-dir``), if the question's heads a section."""
    wanted = {key.casefold() for key in _KEY.findall(question)}
    labels = {i: innermost(entries[i].passage).strip("`'\"").casefold() for i in kept} if wanted else {}
    if wanted.isdisjoint(labels.values()):
        return kept
    return [i for i in kept if labels[i] in wanted or not _KEY.fullmatch(labels[i])]


def _of_whole_names(asked: Asked, entries: Sequence[Entry], kept: Sequence[int]) -> Sequence[int]:
    """Leave out what has a name asked for as a part of other names only ("haul_all"), if the name itself is found."""
    found = _NAME_ASKED.fullmatch(asked.text)
    if found is None:
        return kept
    name = re.escape(found["name"])
    itself = re.compile(rf"(?<!\w){name}(?!_?\w)", re.IGNORECASE)
    longer = re.compile(rf"\w*(?:_{name}|{name}_)\w*", re.IGNORECASE)
    held = {i for i in kept if itself.search(f"{entries[i].text}\n{above(entries[i].passage)}")}
    return [i for i in kept if i in held or not longer.search(entries[i].text)] if held else kept


def _of_fields(question: str, entries: Sequence[Entry], kept: Sequence[int]) -> Sequence[int]:
    """Leave out what stands below "The version field" if a question asks for another field."""
    asked = _FIELD_ASKED.search(question)
    if asked is None:
        return kept

    def is_other(i: int) -> bool:
        found = _FIELD_HEADING.fullmatch(innermost(entries[i].passage))
        if found is None or found["kind"].casefold() != asked["kind"].casefold():
            return False
        return found["name"].casefold() not in question.casefold()

    return [i for i in kept if not is_other(i)]


def _of_terms(asked: Asked, entries: Sequence[Entry], kept: Sequence[int]) -> dict[int, int]:
    """Return 1 for the first sentence below a heading that is all a question asks the meaning of.

    -1 for lines that show how the command of that name is called.
    """
    calls: dict[int, int] = {}
    first: dict[tuple[str, str], tuple[int, str]] = {}
    # what follows "This page is about …" is not the beginning of its section
    about = {e.place: _where(e) for e in sorted(entries, key=_where, reverse=True) if _tells_of_text(e)}
    names = [_ABOUT_CODES] if find_codes(asked.text) else []
    for i in sorted(kept, key=lambda i: _where(entries[i])):
        term = _term_above(entries[i], asked)
        if term.endswith("?") or asks_default(asked.text, term) or not _is_named(term, asked):
            continue
        if not asks_meaning(asked.text, [term, entries[i].passage.title, *names]):
            continue
        if _lists(entries[i]) and not {*words(term)} <= {*words(asked.text)}:
            continue  # "Libraries" heads a list of news; "What is a library?" asks for another section
        if _continues(entries[i]):
            continue
        if shows_call(entries[i].text.strip().removeprefix("$ ")):
            calls[i] = -1
            continue
        cell, tab, _ = entries[i].text.partition("\t")
        if _GROUP.fullmatch(entries[i].text) or (tab and not {*words(term)} <= {*words(cell)}):
            continue  # what the command takes
        if _where(entries[i]) > about.get(entries[i].place, _where(entries[i])):
            continue
        found = first.setdefault(entries[i].place, (i, term))
        if _defines_nothing(entries[found[0]]) and not _defines_nothing(entries[i]):
            first[entries[i].place] = i, term
    longest = max((len(term) for _, term in first.values()), default=0)
    best = (i for i, term in first.values() if len(term) == longest and _may_define(asked, term, entries[i]))
    return calls | {i: 1 for i in best if not (_is_code(entries[i]) or _NOTE.fullmatch(entries[i].text))}


def _tells_of_text(entry: Entry) -> bool:
    """Return whether a candidate says what a text is about; in a glossary "a list of parts" is what a term means."""
    return tells_of_text(entry.text) and not _is_of_glossary(entry)


def _is_of_glossary(entry: Entry) -> bool:
    return _GLOSSARY.fullmatch(heading_above(entry.passage)) is not None


def _where(entry: Entry) -> tuple[int, int]:
    start = entry.passage.metadata.get("start", 0)
    return start if isinstance(start, int) else 0, entry.candidate.start  # another app's may be a time or a text


def _continues(entry: Entry) -> bool:
    """Return whether a passage goes on with a section that began in another: its heading is not in the text."""
    heading = innermost(entry.passage).split()
    begins = entry.passage.text[: 2 * _LONGEST_HEADING].split()
    is_cut = isinstance(entry.passage.metadata.get("start"), int)  # by this project, which keeps headings in the text
    return is_cut and " ".join(heading)[:_LONGEST_HEADING] not in " ".join(begins)


def _may_define(asked: Asked, term: str, entry: Entry) -> bool:
    """Return whether what begins a section may say what its heading means, of one in words if that alone is asked."""
    about = term_asked(asked.text) if _WORDS_ONLY.fullmatch(term) else None
    if only_refers(entry.text, asked.text) or _CONTRASTS.match(entry.text) or _tells_of_text(entry):
        return False
    return about is None or _is_of_glossary(entry) or may_define(about[0], entry.text)


def _term_above(entry: Entry, asked: Asked) -> str:
    """Return the heading above a candidate, or the name asked for that the line below "NAME" of a manual explains."""
    heading = innermost(entry.passage)
    if _NUMBER.fullmatch(heading):  # "3" below "Exit codes"
        heading = f"{heading_above(entry.passage)} {heading}"
    explained = _WHATIS.match(entry.text) if heading.casefold() == "name" else None
    names = explained[1].replace("-", " ").split(", ") if explained else []
    names += names_in_heading(heading)
    if not _ASKS_KIND.match(asked.text):
        names += functions_in(heading)
    names += commands_of(entry)
    return next((name for name in names if _is_named(name, asked)), heading)


def _is_code(entry: Entry) -> bool:
    """Return whether a candidate is a line of code or a directive, which defines nothing by itself."""
    return bool(
        _MARKUP.match(entry.text)
        or _STATEMENT.fullmatch(entry.text)
        or (_SIGNS.search(entry.text) and not _PROSE.search(entry.text))
    )


def _defines_nothing(entry: Entry) -> bool:
    """Return whether a candidate is code, or a field or parameter of what it stands below ("Default: 3")."""
    c = entry.candidate
    signed = is_signature(entry.text) or (not entry.text.endswith((".", "!")) and bool(functions_in(entry.text)))
    line = entry.passage.text[entry.passage.text.rfind("\n", 0, c.start) + 1 : c.end]
    if parameter_at(entry.passage.text, c.start, c.end) or describes_parameter(innermost(entry.passage), line):
        return True
    noted = _NOTE.fullmatch(entry.text) or _VERSION.match(line)
    return _is_code(entry) or signed or is_field(entry) or noted is not None


def _lists(entry: Entry) -> bool:
    """Return whether a candidate is code or the item of a list."""
    return _is_code(entry) or _BULLET.match(entry.passage.text, entry.candidate.start) is not None


def _is_named(term: str, asked: Asked) -> bool:
    """Whether a question names a term: its words, or all of it where signs tell it from others ("!expr").

    A code is enough: "E4" names "Error code E4".
    """
    if (codes := {*find_codes(term)}) and codes <= {*find_codes(asked.text)}:
        return bool(is_among(stems_of(term), np.union1d(asked.words.content, stems_of(_ABOUT_CODES))).all())
    signed = term.startswith("-") and not _OPTION_ASKED.search(asked.text)  # "-expr" for "expr / expr"
    if signed or not _WORDS_ONLY.fullmatch(term):
        return bool(term) and term.casefold() in asked.text.casefold()
    named = stems_of(term)
    return len(named) > 0 and bool(is_among(named, asked.words.content).all())


def _asks_meaning(asked: Asked, wanted: Collection[str], entry: Entry) -> bool:
    return not asks_default(asked.text) and asks_meaning(asked.text, [*wanted, above(entry.passage)])


def _of_codes(question: str, entries: Sequence[Entry], kept: Sequence[int]) -> Sequence[int]:
    """Leave out the entries of other codes than the question's, if a passage has that."""
    wanted = set(find_codes(question))
    if not any(not wanted.isdisjoint(find_codes(entries[i].passage.text)) for i in kept):
        return kept
    places = [(i, entries[i].passage.text, entries[i].candidate) for i in kept]
    own = [i for i, text, c in places if not is_of_another(wanted, text, c.start, c.end)] or kept
    if not _ASKS_WHAT_TO_DO.search(question):
        return own
    return [i for i in own if not _is_label(entries[i], wanted, [entries[k] for k in own])] or own


def _of_signs(question: str, entries: Sequence[Entry], kept: Sequence[int]) -> Sequence[int]:
    """Keep what has the names with signs of a question ("(?d)"), or is in a paragraph with them, if there is any.

    Not if one is a heading, below which other sentences tell of it.
    """
    wanted = find_signs(question)

    def holds(text: str) -> bool:
        return any(sign in text for sign in wanted)

    if not wanted or any(holds(innermost(entries[i].passage)) for i in kept):
        return kept
    own = [i for i in kept if holds(entries[i].text)]
    if any(len(entries[i].text.split()) <= _LABEL for i in own):
        return kept  # it is explained by what comes behind it
    return own or [i for i in kept if holds(_paragraph_to(entries[i]))] or kept


def _paragraph_to(entry: Entry) -> str:
    """Return a candidate with what comes before it in its paragraph."""
    text, c = entry.passage.text, entry.candidate
    return text[text.rfind("\n\n", 0, c.start) + 1 : c.end]


def _of_clauses(asked: Asked, entries: Sequence[Entry], kept: Sequence[int]) -> tuple[Sequence[int], bool]:
    """Keep what the clause of a contract or law says that a question names, if it is found, not what refers to it.

    Only if what it says is asked. Of a question of nothing else, the clause's first sentence; also return whether it
    is such a question.
    """
    named = _ASKED_CLAUSE.search(asked.text)
    if named is None:
        return kept, False
    own = [i for i in kept if _is_in_clause(entries[i], (named[1] or "").lower(), named[2])]
    own = find_fullest({i: is_among(asked.words.content, entries[i].prepared.title) for i in own})
    rest = asked.text[: named.start()] + asked.text[named.end() :]
    if not own or not asks_wording(rest, [entries[i].passage.title for i in own]):
        return own if own and _SAYS.match(asked.text, named.end()) else kept, False
    first: dict[str, int] = {}
    for i in sorted(own, key=lambda i: entries[i].candidate.start):
        first.setdefault(entries[i].passage.id, i)
    return sorted(first.values()), True


def _is_in_clause(entry: Entry, kind: str, number: str) -> bool:
    """Return whether the last clause that begins above a candidate, or with it, has this number or is one within it."""
    found = [
        *_CLAUSE_BEGINS.finditer(innermost(entry.passage)),
        *_CLAUSE_BEGINS.finditer(entry.passage.text, 0, entry.candidate.end),
    ]
    if not found or (kind and found[-1][1] and found[-1][1].lower() != kind):
        return False
    return f"{found[-1][2]}.".startswith(f"{number}.")


def _is_label(entry: Entry, codes: Collection[str], others: Sequence[Entry]) -> bool:
    """Return whether a candidate only names a code ("E4: dry running."), and its line goes on with other candidates."""
    text, c = entry.passage.text, entry.candidate
    line = text[text.rfind("\n", 0, c.start) + 1 : (text + "\n").index("\n", c.end)]
    label = text[c.start : c.end]
    return (
        line.startswith(label)
        and len(label.split()) <= _LABEL
        and any(label.startswith(code) for code in codes)
        and any(e.passage.id == entry.passage.id and c.end <= e.candidate.start < c.start + len(line) for e in others)
    )
