"""Wording: an answer with its citation markers, an abstention, and what is done about unsupported claims."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args

from shared_core.abstention.statements import MARK, cut_statements
from shared_core.errors import AbstainedError, SettingsError
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
from shared_core.support.regex import lazy_regex
from shared_core.types import Answer, Claim, Passage, Span

DOCUMENTS, MEMORY = "these documents", "what I know"

_SHOW_NEAREST = (SUPPORT_BELOW_TARGET, BELOW_GUARANTEE, CANNOT_JUDGE)
_HEADINGS = {CANNOT_JUDGE: "Nearest, unjudged:", DOCUMENTS_DISAGREE: "They say:"}
_MARKER = lazy_regex(r"\[(\d+)\]")
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
TOOL_NAME = "ask_documents"
TOOL_DESCRIPTION = (
    "Answers a question from the documents, with quotes. A result that begins with NO ANSWER means that the documents "
    "do not answer the question."
)
"""Description of the answering tool for the model of an agent, unless the app gives another."""
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


_STEP = lazy_regex(r"(?:first(?:ly)?|then|next|after that|finally|lastly|step \d+)\b|\d{1,2}[.)]\s", re.IGNORECASE)
"""The beginning of a step, or of an item with a number."""


def assemble(claims: Sequence[Claim]) -> tuple[str, tuple[Claim, ...]]:
    """Join the claims that are not dropped into the answer's text, with markers [1], [2], … after each claim.

    Numbers follow the first appearance of each quote, without gaps; a flagged claim is followed by ``(unsupported)``,
    or by a mark that it contradicts the one before. Where one of several steps was dropped, ``[…]`` has its place.

    Returns:
        The text, and the claims with their offsets in it: ``text[c.start:c.end] == c.text``. Dropped claims come last.

    >>> from shared_core.types import Citation
    >>> quote = Passage("a", "The dam was built in 1911.").span(0, 26)
    >>> assemble([Claim("It dates from 1911.", 0.9, (Citation((quote,)),))])[0]
    'It dates from 1911. [1]'
    """
    numbers: dict[tuple[str, int, int], int] = {}
    text = last = ""
    placed: list[Claim] = []
    steps = any(_STEP.match(t) for c in claims for t in (c.text, *(s.text for q in c.citations for s in q.primary)))
    lacking = False
    for claim in claims:
        if claim.status == "dropped":
            placed.append(claim)
            lacking = steps and bool(text)
            continue
        if lacking:  # without it, the next one would seem to follow the last
            text, lacking = f"{text} […]", False
        start = len(text) + bool(text)  # behind what separates claims: a blank, or a line break before and after a list
        between = "\n" if "\n" in last + claim.text else " "
        text = text + between + claim.text if text else claim.text
        last = claim.text
        placed.append(dataclasses.replace(claim, start=start, end=start + len(claim.text)))
        text += number_marks([claim], numbers)
        text += flag_mark(claim)
    placed.sort(key=lambda c: c.status == "dropped")  # stable: `_show` sorts the scores alike
    return text, tuple(placed)


def flag_mark(claim: Claim) -> str:
    """Return the mark behind a flagged claim, after a blank; empty for others."""
    return _MARKS.get(claim.verdict or "", " (unsupported)") if claim.status == "flagged" else ""


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
    places = [(c.start, c.end) for c in answer.claims if c.start is not None and c.end is not None]
    edits = [
        (m.start(), m.end(), f"[{name(spans[int(m[1]) - 1])}]")
        for m in _MARKER.finditer(answer.text)
        # A "[3]" within a claim is the document's own.
        if 0 < int(m[1]) <= len(spans) and not any(start <= m.start() < end for start, end in places)
    ]
    text, claims = _edit(answer.text, answer.claims, edits)
    return dataclasses.replace(answer, text=text, claims=tuple(claims))


_Edit = tuple[int, int, str]
"""(start, end, what is put there instead)"""


def _edit(text: str, claims: Sequence[Claim], edits: Sequence[_Edit]) -> tuple[str, list[Claim]]:
    """Make edits of a text, given in its order and outside of claims, and move the claims' offsets."""
    pieces, at = [], 0
    for start, end, new in edits:
        pieces += [text[at:start], new]
        at = end
    moved = []
    for claim in claims:
        if claim.start is not None and claim.end is not None:
            shift = sum(len(new) - (end - start) for start, end, new in edits if end <= claim.start)
            claim = dataclasses.replace(claim, start=claim.start + shift, end=claim.end + shift)
        moved.append(claim)
    return "".join([*pieces, text[at:]]), moved


UNCITED = "(from the model, without a quote)"


def assemble_uncited(claims: Sequence[Claim]) -> tuple[str, tuple[Claim, ...]]:
    """Join claims that have no quote, as ``assemble`` does; the text says so at its end."""
    text, placed = assemble(claims)
    return f"{text} {UNCITED}", placed


# --- unsupported claims of a checked answer --------------------------------------------------------------------------


OnUnsupported = Literal["pass", "flag", "strip", "refuse"]
POLICIES: tuple[OnUnsupported, ...] = get_args(OnUnsupported)
NOT_ALL_SUPPORTED = "not all claims supported"
_WORDS = {"contradicted": "contradicted", "unknown": "unverified"}  # else: unsupported
_AFTER = lazy_regex(rf"(?:[ \t]*{MARK})*[ \t]*")
# What is left of a line without its claim: a bullet, number, quote sign or check box.
_EMPTY_LINE = lazy_regex(
    r"[ \t\u00a0>|]*(?:(?:[-*+•‣◦▪●○–—·]|\(?(?:\d{1,3}|[A-Za-z])[.)])[ \t]*(?:\[[ xX]\])?[ \t]*)?\Z"
)


def treat_unsupported(checked: Answer, policy: OnUnsupported, settings: SelfReflectSettings) -> Answer:
    """Apply a policy to a checked answer; its claims get their offsets in the new text.

    Args:
        policy: ``pass`` changes nothing. ``flag`` puts ``(unsupported)``, ``(contradicted)`` or ``(unverified)`` behind
            each claim that is not supported. ``strip`` takes these claims out, with those that begin with a pronoun for
            something in a removed claim; if nothing is left, it refuses. ``refuse`` shows nothing of an answer unless
            all its claims are supported, and says so (``settings.abstain_text``).

    Returns:
        The answer. After ``strip``, removed claims are ``dropped`` and ``confidence`` is that of the weakest claim
        left. A refusal is ``abstained``. ``metadata["changed"]`` says whether the text was changed.

    Raises:
        SettingsError: there is no such policy.
        AbstainedError: the answer is refused and ``settings.on_abstain`` is ``raise``.
    """
    if policy not in POLICIES:
        raise SettingsError(f"There is no on_unsupported={policy!r}.", hint=f"There are: {', '.join(POLICIES)}.")
    if policy == "pass" or all(c.status == "kept" for c in checked.claims):
        return _as(checked, checked.text, checked.claims)
    if policy == "flag":
        return _flag(checked)
    return _strip(checked, settings) if policy == "strip" else _refuse(checked, settings)


def _as(checked: Answer, text: str, claims: Sequence[Claim], **changes: Any) -> Answer:
    metadata = {**checked.metadata, "changed": text != checked.text}
    return dataclasses.replace(checked, text=text, claims=tuple(claims), metadata=metadata, **changes)


def _flag(checked: Answer) -> Answer:
    edits: list[_Edit] = []
    for claim in checked.claims:
        if claim.status == "flagged":
            _, end = _place(claim)
            edits.append((end, end, f" ({_WORDS.get(claim.verdict or '', 'unsupported')})"))
    return _as(checked, *_edit(checked.text, checked.claims, edits))


def _strip(checked: Answer, settings: SelfReflectSettings) -> Answer:
    gone = _gone(checked)
    if len(gone) == len(checked.claims):
        return _refuse(checked, settings)
    out = _ranges(checked.text, [_place(checked.claims[i]) for i in sorted(gone)])
    left = [c for i, c in enumerate(checked.claims) if i not in gone]
    text, shown = _edit(checked.text, left, [(start, end, "") for start, end in out])
    dropped = [dataclasses.replace(checked.claims[i], start=None, end=None, status="dropped") for i in sorted(gone)]
    weakest = min(c.support for c in shown if c.support is not None)  # a kept claim's support is known
    return _as(checked, text, [*shown, *dropped], confidence=weakest)


def _gone(checked: Answer) -> set[int]:
    """Return the unsupported claims, and those that cannot be understood without one of them."""
    gone: set[int] = set()
    # Cut again, since claims do not keep their context; the same text gives the same statements.
    statements = cut_statements(checked.text).found
    for i, (claim, statement) in enumerate(zip(checked.claims, statements, strict=True)):
        # The context may also be the line above a list, which is no claim and cannot be removed.
        leans = i > 0 and statement.context == statements[i - 1].plain
        if claim.status == "flagged" or (leans and i - 1 in gone):  # in order: "She … She …" go together
            gone.add(i)
    return gone


def _ranges(text: str, places: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the ranges to cut out: claims with the citations behind them, and lines that hold nothing else."""
    merged: list[tuple[int, int]] = []
    for start, end in places:
        after = _AFTER.match(text, end)
        end = after.end() if after else end
        if merged and not text[merged[-1][1] : start].strip():  # neighbours go with the blanks between them
            start = merged.pop()[0]
        merged.append((start, end))
    return [_whole_lines(text, start, end) for start, end in merged]


def _whole_lines(text: str, start: int, end: int) -> tuple[int, int]:
    first = text.rfind("\n", 0, start) + 1
    last = text.find("\n", end)
    last = len(text) if last < 0 else last
    if text[end:last].strip(" \t|"):  # the line goes on behind it; "|" only ends a table's row
        return start, end
    if _EMPTY_LINE.match(text[first:start]):
        return first, min(last + 1, len(text))  # with its line break
    return len(text[:start].rstrip(" \t")), end  # at the end of a line that goes on before it


def _refuse(checked: Answer, settings: SelfReflectSettings) -> Answer:
    counts = checked.metadata["verdicts"]
    described = [f"{n} of {len(checked.claims)} {_DESCRIBED[v]}" for v, n in counts.items() if n and v in _DESCRIBED]
    sentence = (
        f"Of what it states, {', '.join(described)}." if described else "It states nothing that could be checked."
    )
    own = settings.abstain_text
    text = (
        f"This answer is not shown: not all of it is supported by the documents. {sentence}"
        if own is None
        else own.format(question=checked.question, reason=sentence)
    )
    claims = [dataclasses.replace(c, start=None, end=None, status="dropped") for c in checked.claims]
    reason = checked.reason or NOT_ALL_SUPPORTED  # set by the check where not one claim is supported
    refused = _as(checked, text, claims, abstained=True, reason=reason, utility=0.0)
    if settings.on_abstain == "raise":
        raise AbstainedError(refused)
    return refused


_DESCRIBED = {
    "contradicted": "is contradicted",
    "unsupported": "is not supported",
    "unknown": "could not be judged",
}


def _place(claim: Claim) -> tuple[int, int]:
    assert claim.start is not None, "a checked claim has its place"
    assert claim.end is not None
    return claim.start, claim.end
