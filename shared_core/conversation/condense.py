"""Make a follow-up a full question with a language model, and check what the model wrote."""

from __future__ import annotations

import re
import string
from collections.abc import Sequence

from shared_core.conversation.numbered import LISTS, WORD, WORDS
from shared_core.conversation.phrases import MARKERS, is_identifier, phrases_of, words_of
from shared_core.conversation.recognise import recognise
from shared_core.conversation.rules import asks_with
from shared_core.conversation.topics import Exchange
from shared_core.errors import SettingsError
from shared_core.lm.base import Generate, Prompt, SamplingParams

_TASK = (
    "Rewrite the last question of a conversation so that it can be understood without the conversation: put the names "
    "in place of words such as it, she, there or the second one. Do not answer it. Add nothing else. Reply with the "
    "rewritten question only.\n\n"
    "User: Who designed the Eiffel Tower?\nAssistant: It was designed by Maurice Koechlin and Émile Nouguier.\n"
    "Last question: And when was it finished?\nRewritten question: When was the Eiffel Tower finished?\n\n"
    "User: What is the capital of Norway?\nAssistant: Oslo.\n"
    "Last question: How many people live there?\nRewritten question: How many people live in Oslo?\n\n"
)
_PARAMS = SamplingParams(max_tokens=128, stop=("\nUser:", "\nLast question:"), seed=0)
_EXCHANGES, _READ = 3, 400  # characters of a reply
_OWN_WORDS = 0.5
"""Share of the follow-up's own content words that a rewriting must keep."""
_LONGER = 20  # words that a rewriting may add
_PLAIN = WORDS["not kept"]
_ASKS_FOR = {line.split()[0]: line.split() for line in LISTS["asks for"].splitlines()}
_QUESTION_WORDS = ("who", "where", "when", "why", "how")


def check_template(template: str) -> str:
    """Return a template of the user's if it has the fields ``chat_history`` and ``question``; SettingsError if not."""
    try:
        fields = {name for _, name, _, _ in string.Formatter().parse(template) if name is not None}
    except ValueError as error:
        raise SettingsError(f"The template for condensing cannot be read: {error}.", hint="Write {{ for {.") from error
    if "question" not in fields or not fields <= {"question", "chat_history"}:
        raise SettingsError(
            f"The template for condensing has the fields {', '.join(sorted(fields)) or 'none'}.",
            hint="It needs {question}, and {chat_history} for what was said before.",
        )
    return template


def transcript(exchanges: Sequence[Exchange]) -> str:
    """Write the last exchanges down, a line for each message."""
    lines = []
    for exchange in exchanges[-_EXCHANGES:]:
        lines.append(f"User: {_line(exchange.question or exchange.said)}")
        lines += [f"Assistant: {_line(exchange.reply)}"] * bool(exchange.reply)
    return "\n".join(lines)


def condense_request(question: str, exchanges: Sequence[Exchange], template: str = "") -> Generate:
    """Create the request for a full question, with our prompt or a template of the user's."""
    said = transcript(exchanges)
    if template:
        prompt = Prompt()
        for text, name, _, _ in string.Formatter().parse(template):
            prompt += Prompt.trusted(text, role="user") if text else Prompt()
            if name is not None:
                prompt += Prompt.untrusted(question if name == "question" else said, role="user")
        return Generate(prompt, _PARAMS)
    prompt = Prompt.trusted(_TASK) + Prompt.untrusted(said) + Prompt.trusted("\nLast question: ")
    return Generate(prompt + Prompt.untrusted(_line(question)) + Prompt.trusted("\nRewritten question:"), _PARAMS)


def refusal(rewritten: str, question: str, exchanges: Sequence[Exchange]) -> str:
    """Say why a rewritten question cannot be used; empty if it can.

    It must be a full question, keep what the follow-up asks, repeat no earlier question, and add names and numbers
    only from the history.

    >>> last = [Exchange("Who founded the Tide Museum?", "Lavinia Hathe.")]
    >>> refusal("When was the Tide Museum closed?", "and when was it closed?", last)
    ''
    >>> refusal("When was the Louvre closed?", "and when was it closed?", last)
    'it adds Louvre, which was not spoken of'
    >>> refusal("It was closed in 1932.", "and when was it closed?", last)
    'it is not a full question'
    >>> refusal("Who founded the Tide Museum?", "Why?", last)
    'it does not ask why'
    """
    said = words_of(rewritten)
    if not said:
        return "it is empty"
    if len(said) > len(words_of(question)) + _LONGER:
        return "it is too long"
    if recognise(rewritten).needs_history or (question.rstrip().endswith("?") and not _asks(rewritten)):
        return "it is not a full question"
    history = " ".join(f"{e.question} {e.said} {MARKERS.sub('', e.reply)}" for e in exchanges)
    known = {_root(w) for w in words_of(f"{history} {question}")}
    if dropped := _without_numbers(rewritten, question, exchanges):
        return f"it leaves out the number of {dropped}"
    if added := [w for w in _names(rewritten) if _root(w.lower()) not in known]:
        return f"it adds {', '.join(added)}, which was not spoken of"
    word = asks_with(question)
    if word and not {word, *_ASKS_FOR.get(word, ("how",))} & set(said):
        return f"it does not ask {word}" if word in _QUESTION_WORDS else f"it does not ask how {word}"
    asked, kept = [w for w in words_of(question) if w not in _PLAIN], {_root(w) for w in said}
    if asked and sum(w == word or _root(w) in kept for w in asked) < _OWN_WORDS * len(asked):
        return "it does not keep what was asked"
    repeats = said != words_of(question) and any(said == words_of(e.question) for e in exchanges)
    if repeats and (not set(asked) - {word} or recognise(question).kind == "reference"):
        return "it repeats a question that was asked before"
    return ""


def _without_numbers(rewritten: str, question: str, exchanges: Sequence[Exchange]) -> str:
    """Return a name of the last question that a rewriting has without its number: "Windows" of "Windows 11"."""
    numbered = [p for e in exchanges[-1:] for p in phrases_of(e.question) if p.numbers]
    written = [p.words for p in phrases_of(rewritten)]
    missing = (p for p in numbered if p.words - p.numbers in written and p.words not in written)
    return next((p.text for p in missing if not (p.words - p.numbers) & set(words_of(question))), "")


def _asks(text: str) -> bool:
    return text.rstrip().endswith("?") or words_of(text)[0] in _OPENERS


_OPENERS = frozenset("who what which when where why how whose whom is are was were do does did can could tell".split())


def _names(text: str) -> list[str]:
    """List words that name something: capitalised ones but the first, identifiers and numbers."""
    found = []
    for i, match in enumerate(WORD.finditer(text)):
        word = re.sub(r"['’]s?$", "", match.group())
        capital = word[:1].isupper() and (i > 0 or word.lower() not in _PLAIN | _OPENERS)
        if word[:1].isdigit() or (capital and word.lower() not in _PLAIN) or is_identifier(word):
            found.append(word)
    return found


def _root(word: str) -> str:
    """Cut a word to compare its forms: "stations" and "station", "opening" and "opened"."""
    return re.sub(r"(?:ing|ed|es|s|e)$", "", word) if len(word) > 4 else word


def _line(text: str) -> str:
    return re.sub(r"\s+", " ", MARKERS.sub("", text)).strip()[:_READ]
