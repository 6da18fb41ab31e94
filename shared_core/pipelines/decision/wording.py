"""Wording: the text of an answer with its citation markers, and the text of an abstention."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence

from shared_core.pipelines.decision.reasons import (
    BELOW_GUARANTEE,
    CANNOT_JUDGE,
    CERTAINTY_UNKNOWN,
    DOCUMENTS_DISAGREE,
    NOT_ASKED,
    NOT_KNOWN,
    SUPPORT_BELOW_TARGET,
    explain,
)
from shared_core.settings import SelfReflectSettings
from shared_core.types import Answer, Claim, Passage, Span

DOCUMENTS, MEMORY = "these documents", "what I know"

_SHOW_NEAREST = (SUPPORT_BELOW_TARGET, BELOW_GUARANTEE, CANNOT_JUDGE)
_HEADINGS = {CANNOT_JUDGE: "Nearest, unjudged:", DOCUMENTS_DISAGREE: "They say:"}
_MARKER = re.compile(r"\[(\d+)\]")
_MARKS = {"contradicted": " (contradicts the answer before)"}


def abstention_text(
    question: str,
    reason: str,
    sentence: str,
    claims: Sequence[Claim],
    passages: Sequence[Passage],
    settings: SelfReflectSettings,
) -> str:
    """Word an abstention: ``settings.abstain_text`` or our own words, as ``settings.on_abstain`` says.

    An answer that is merely not certain enough, or that nobody could judge, is shown as "nearest", so that the reader
    can judge it. ``on_abstain="show"`` shows the nearest passages whatever the reason.
    """
    own = settings.abstain_text
    # The surest claim's quote, not the claim: an unsupported claim must not be read as an answer, a quote is the
    # document's own words.
    surest = sorted(claims, key=lambda c: -1.0 if c.support is None else c.support, reverse=True)
    spans = [s for c in surest for citation in c.citations for s in citation.primary]
    by_id = {p.id: p for p in passages}
    if settings.on_abstain == "show" and passages:
        nearest = spans or [p.span(0, min(len(p.text), 300)) for p in passages]  # their beginnings
        heading = "The nearest passages say:"
        nearest = nearest[: settings.max_claims]
    else:
        # Both sides of a contradiction: either one alone would look undisputed.
        shown = 2 if reason == DOCUMENTS_DISAGREE else 1 if reason in _SHOW_NEAREST else 0
        # A text of the user's own says all that is to be said, unless the passages are asked for.
        nearest = spans[:shown] if own is None else []
        heading = _HEADINGS.get(reason, "Nearest, but not certain enough:")
    if own is not None:
        wording = own.format(question=question, reason=sentence)
    elif reason in NOT_ASKED:
        wording = sentence
    else:
        closed = settings.pipeline == "research" and settings.research.closed_book
        source = MEMORY if closed or reason in (NOT_KNOWN, CERTAINTY_UNKNOWN) else DOCUMENTS
        wording = f"I can't answer that from {source} with the certainty asked for."
        if not (nearest and reason == SUPPORT_BELOW_TARGET and settings.on_abstain != "show"):
            wording += f" {sentence}"  # else the heading says it
    if not nearest:
        return wording
    lines = [f"- “{one_line(s.text)}” ({source_of(by_id[s.passage_id])})" for s in nearest]
    # Our English heading would be a second language beside a text of the user's own.
    return "\n".join([wording, *([heading] if own is None else []), *lines])


NO_ANSWER = "NO ANSWER"
"""First words of an abstention that is a tool's result."""
_OWN = tuple(f"I can't answer that from {source} with the certainty asked for." for source in (DOCUMENTS, MEMORY))


def is_abstention(text: str, settings: SelfReflectSettings | None = None) -> bool:
    """Whether a text is an abstention of ours: it claims nothing that could be checked.

    >>> is_abstention("I can't answer that from these documents with the certainty asked for. Nearest: …")
    True

    Args:
        settings: whose ``abstain_text`` is recognised too.
    """
    said = one_line(text)
    if said.startswith((*_OWN, f"{NO_ANSWER}:", *map(explain, NOT_ASKED))):
        return True
    own = settings.abstain_text if settings is not None else None
    if own is None:
        return False
    fields = {"question": "\0", "reason": "\0"}  # filled in by anything
    pattern = ".*".join(map(re.escape, one_line(own.format(**fields)).split("\0")))
    # A text of nothing but fields would match every text.
    return bool(pattern.strip(".*")) and re.match(pattern, said, re.DOTALL) is not None


def tool_text(answer: Answer, *, nearest: bool = False) -> str:
    """Word an answer as the result of an agent's tool: an abstention is marked, and holds nothing to be read as one.

    >>> tool_text(Answer("Who?", "Nearest: “…”", abstained=True, reason="nothing retrieved"))
    'NO ANSWER: No passage of the documents matches the question.'

    Args:
        nearest: keep what an abstention shows beside its reason: the nearest quotes.
    """
    if not answer.abstained:
        return answer.text
    if nearest:
        return f"{NO_ANSWER}: {answer.text}"
    # The trace's sentence also says why nothing could be judged, which the reason alone does not.
    sentence = next((d.reason for d in reversed(answer.trace) if d.kind == "abstain" and d.reason), "")
    return f"{NO_ANSWER}: {sentence or explain(answer.reason)}"


def source_of(passage: Passage) -> str:
    """Name a passage's origin for readers: its file, else its title, else its id."""
    return str(passage.metadata.get("source") or passage.title or passage.id)


def one_line(text: str) -> str:
    """Replace each run of white space by one blank."""
    return re.sub(r"\s+", " ", text).strip()


def assemble(claims: Sequence[Claim]) -> tuple[str, tuple[Claim, ...]]:
    """Join the claims that are not dropped into the answer's text, with markers [1], [2], … after each claim.

    Numbers follow the first appearance of each quote, without gaps; a flagged claim is followed by ``(unsupported)``,
    or by a mark that it contradicts the one before.

    Returns:
        The text, and the claims with their offsets in it: ``text[c.start:c.end] == c.text``. Dropped claims come last.

    Example:
        >>> from shared_core.types import Citation
        >>> quote = Passage("a", "The dam was built in 1911.").span(0, 26)
        >>> assemble([Claim("It dates from 1911.", 0.9, (Citation((quote,)),))])[0]
        'It dates from 1911. [1]'
    """
    numbers: dict[tuple[str, int, int], int] = {}
    text = ""
    placed: list[Claim] = []
    for claim in claims:
        if claim.status == "dropped":
            placed.append(claim)
            continue
        start = len(text) + bool(text)  # behind the blank that separates claims
        text = f"{text} {claim.text}" if text else claim.text
        placed.append(dataclasses.replace(claim, start=start, end=start + len(claim.text)))
        text += number_marks([claim], numbers)
        text += _MARKS.get(claim.verdict or "", " (unsupported)") if claim.status == "flagged" else ""
    placed.sort(key=lambda c: c.status == "dropped")  # stable: `_show` sorts the scores alike
    return text, tuple(placed)


def number_marks(claims: Sequence[Claim], numbers: dict[tuple[str, int, int], int]) -> str:
    """Return the markers of all that claims quote, after a blank; places that are new get the next numbers."""
    spans = [s for c in claims for citation in c.citations for s in citation.primary]
    marks = [numbers.setdefault((s.passage_id, s.start, s.end), len(numbers) + 1) for s in spans]
    return (" " if marks else "") + "".join(f"[{n}]" for n in dict.fromkeys(marks))


def rename_markers(answer: Answer, name: Callable[[Span], str]) -> Answer:
    """Replace the markers ``[1]``, ``[2]``, … of an answer by names of their quotes; offsets are moved.

    >>> from shared_core.types import Citation
    >>> quote = Passage("a", "The dam was built in 1911.").span(0, 26)
    >>> claim = Claim("It dates from 1911.", 0.9, (Citation((quote,)),), start=0, end=19)
    >>> rename_markers(Answer("When?", "It dates from 1911. [1]", (claim,)), lambda span: span.passage_id).text
    'It dates from 1911. [a]'
    """
    spans = answer.numbered_spans()

    def renamed(text: str) -> str:
        return _MARKER.sub(lambda m: f"[{name(spans[int(m[1]) - 1])}]" if 0 < int(m[1]) <= len(spans) else m[0], text)

    text, at = "", 0
    places: dict[tuple[int, int], tuple[int, int]] = {}
    # In the order of the text: dropped claims have no place, and others may stand in any order.
    for start, end in sorted((c.start, c.end) for c in answer.claims if c.start is not None and c.end is not None):
        text += renamed(answer.text[at:start])
        places[start, end] = (len(text), len(text) + end - start)
        # The claim as it is: a "[3]" within it is the document's own.
        text, at = text + answer.text[start:end], end
    moved = [
        c
        if c.start is None or c.end is None
        else dataclasses.replace(c, start=places[c.start, c.end][0], end=places[c.start, c.end][1])
        for c in answer.claims
    ]
    return dataclasses.replace(answer, text=text + renamed(answer.text[at:]), claims=tuple(moved))


UNCITED = "(from the model, without a quote)"


def assemble_uncited(claims: Sequence[Claim]) -> tuple[str, tuple[Claim, ...]]:
    """Join claims that have no quote, as ``assemble`` does; the text says so at its end."""
    text, placed = assemble(claims)
    return f"{text} {UNCITED}", placed
