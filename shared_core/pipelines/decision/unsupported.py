"""Policies for unsupported claims of a checked answer: pass, flag, strip or refuse."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Any, Literal

from shared_core.abstention.statements import MARK, cut_statements
from shared_core.errors import AbstainedError, SettingsError
from shared_core.settings import SelfReflectSettings
from shared_core.types import Answer, Claim

OnUnsupported = Literal["pass", "flag", "strip", "refuse"]
POLICIES: tuple[OnUnsupported, ...] = ("pass", "flag", "strip", "refuse")
NOT_ALL_SUPPORTED = "not all claims supported"
_WORDS = {"contradicted": "contradicted", "unknown": "unverified"}  # else: unsupported
_AFTER = re.compile(rf"(?:[ \t]*{MARK})*[ \t]*")
# What is left of a line without its claim: a bullet, number, quote sign or check box.
_EMPTY_LINE = re.compile(
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
    text, at, claims = "", 0, []
    for claim in checked.claims:
        start, end = _place(claim)
        shift = len(text) - at  # code points inserted before this claim
        text += checked.text[at:end]
        claims.append(dataclasses.replace(claim, start=start + shift, end=end + shift))
        if claim.status == "flagged":
            text += f" ({_WORDS.get(claim.verdict or '', 'unsupported')})"
        at = end
    return _as(checked, text + checked.text[at:], claims)


def _strip(checked: Answer, settings: SelfReflectSettings) -> Answer:
    gone = _gone(checked)
    if len(gone) == len(checked.claims):
        return _refuse(checked, settings)
    out = _ranges(checked.text, [_place(checked.claims[i]) for i in sorted(gone)])
    text, at = "", 0
    for start, end in out:
        text, at = text + checked.text[at:start], end
    text += checked.text[at:]
    shown: list[Claim] = []
    for i, claim in enumerate(checked.claims):
        if i not in gone:
            start, end = _place(claim)
            shift = sum(b - a for a, b in out if b <= start)  # code points cut out before this claim
            shown.append(dataclasses.replace(claim, start=start - shift, end=end - shift))
    dropped = [
        dataclasses.replace(c, start=None, end=None, status="dropped")
        for i, c in enumerate(checked.claims)
        if i in gone
    ]
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
