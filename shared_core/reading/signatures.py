"""Tell a function's signature and its parameters' descriptions from what says what the function does.

"file: where the rope's log is" stands nearer to "What does rope_open do?", for the network, than "Opens it."
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from shared_core.reading.questions import words
from shared_core.reading.rows import Entry
from shared_core.support.options import find_variables
from shared_core.support.regex import lazy_regex

_SIGNATURE = lazy_regex(r"(?:[\w*&:<>,.]+\s+){0,8}[*&]*\w[\w.:]*\s*\([^()]{0,500}\)\s*(?:\[\w+\])?[\s;:{]*")
_CALLED = lazy_regex(r"(?P<name>\w[\w.:]*) ?\((?P<parameters>[^()]{0,500})\)")
_PARAMETER = lazy_regex(
    r"[\W_]*(?:[@:\\]?param\s+)?(?P<label>\w+(?: \w+){0,2})(?: ?\([^()\n]{1,60}\))?[`*]*\s?(?::| [-–—]|\t)\s+\S"
)
_HEADS_FUNCTION = lazy_regex(
    r"(?:[\w&*<>\[\],:'~?@]+ ){0,8}?(?P<owner>(?:\w+(?:::|\.|#))*)~?(?P<name>[A-Za-z_]\w*)!?(?:<[^()]{0,200}>)?"
    r"\((?!\d\w*\)\s*\Z)[^\n]*\)"
)
_ITEM = lazy_regex(r"[-*•+]\s+[`*.]*(\w+)[`*]*\s*(?:[:<({\[-]|$)")
_ASKS_CALL = lazy_regex(
    r"\b(?:(?:parameter|argument|option|flag|type)s?|signature|prototype|syntax|declar\w+|usage|used?|call(?:ed)?)\b",
    re.IGNORECASE,
)
"""Words of a question for what a function takes, or how it is called."""
_WORD = lazy_regex(r"\w+")


def of_functions_asked(question: str, entries: Sequence[Entry], kept: Sequence[int]) -> tuple[Sequence[int], bool]:
    """Keep the parameter of a function that a question asks for, else leave out signatures and parameters.

    Only if it names the function, and does not ask how that is called. Also return whether it asks for a parameter that
    is described.
    """
    places = {i: (entries[i].passage.text, entries[i].candidate) for i in kept}
    texts = {text for text, _ in places.values()}
    functions = {name for name in find_variables(question) if any(f"{name}(" in t or f"{name} (" in t for t in texts)}
    if not functions:
        return kept, False
    rest = re.sub("|".join(map(re.escape, functions)), " ", question)
    asked = {*words(rest.replace("_", " "))}
    labels = {i: parameter_at(text, c.start, c.end, functions) for i, (text, c) in places.items()}
    named = [i for i, label in labels.items() if label and {*label} <= asked]
    if named and _ASKS_CALL.search(question):
        return named, True

    def is_beside(i: int) -> bool:
        signed = is_signature(entries[i].text) and not functions.isdisjoint(find_variables(entries[i].text))
        return signed or bool(labels[i] and i not in named)

    if _ASKS_CALL.search(question):
        return kept, False
    return [i for i in kept if not is_beside(i)] or kept, False


def functions_in(heading: str) -> list[str]:
    """Return the name of the function, method or macro whose signature a heading is, and before it with what has it.

    >>> functions_in("pub fn haul<T: Rope>(&mut self, by: T) -> usize"), functions_in("rope.cut(at, *, clean=True)")
    (['haul'], ['rope.cut', 'cut'])
    >>> functions_in("Ropes (old)"), functions_in("winch(1)")
    ([], [])
    """
    found = _HEADS_FUNCTION.match(heading)
    return [*dict.fromkeys((found["owner"] + found["name"], found["name"]))] if found else []


def describes_parameter(heading: str, text: str) -> bool:
    """Return whether a text is the item of a list on what the function that is the heading takes or returns.

    >>> heading = "rope.cut(at[, options])"
    >>> describes_parameter(heading, "- at <number> Where."), describes_parameter(heading, "Cuts it.")
    (True, False)
    >>> describes_parameter(heading, "- Returns: <Rope>")
    True
    """
    found = _ITEM.match(text)
    taken = heading.partition("(")[2]
    return found is not None and bool(taken) and found[1].casefold() in {*_WORD.findall(taken.casefold()), "returns"}


def is_signature(text: str) -> bool:
    """Return whether a text is nothing but a function with its parameters.

    >>> is_signature("int rope_open (char * file, drum * on) [Function]"), is_signature("It opens it (or shuts it).")
    (True, False)
    """
    return _SIGNATURE.fullmatch(text.strip()) is not None


def parameter_at(text: str, start: int, end: int, functions: Collection[str] = ()) -> list[str]:
    """Return the words of the parameter that ``text[start:end]`` describes, as one of these functions has it.

    Of any function whose signature is in ``text``, if none is named; nothing if it describes no parameter.

    >>> page = "int rope_open (char * log_file)\\n\\nlog file: where it is.\\n\\nOpens it."
    >>> parameter_at(page, 33, 55), parameter_at(page, 57, 66)
    (['log', 'file'], [])
    """
    found = _PARAMETER.match(text, start, end)
    label = _WORD.findall(found["label"].replace("_", " ").casefold()) if found else []
    parameters = (
        _WORD.findall(one.split("=")[0].replace("_", " ").casefold())
        for call in _CALLED.finditer(text)
        if not functions or call["name"] in functions
        for one in call["parameters"].split(",")
    )
    return label if label and any(one[-len(label) :] == label for one in parameters) else []
