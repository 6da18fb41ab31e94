"""Compare a claim with its evidence, fact by fact: what contradicts it, and what the evidence does not say."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise

from shared_core.citation.facts import amounts, asserted, modality, opposites, ordering, scope
from shared_core.citation.facts import names as naming
from shared_core.citation.facts.ages import for_other_ages
from shared_core.citation.facts.arithmetic import (
    equal_quantity,
    in_named_unit,
    is_difference,
    is_in_range,
    is_rest,
    is_share,
    is_sum,
    is_within_bound,
    same_quantity,
)
from shared_core.citation.facts.attached import (
    attached_otherwise,
    changed_otherwise,
    dated_otherwise,
    exchanged,
    in_other_year,
    other_bound,
    other_rate,
    other_row,
    other_subject,
    placed_otherwise,
)
from shared_core.citation.facts.attributions import without_attribution
from shared_core.citation.facts.bound import acts_on_it, done_to_another, said_of_another
from shared_core.citation.facts.dates import dates_in_digits, dates_of, is_every_day, same_date, weekdays_of
from shared_core.citation.facts.ellipsis import each_included, in_full
from shared_core.citation.facts.implied import implied, in_period, of_others, within_condition
from shared_core.citation.facts.literals import missing_literals
from shared_core.citation.facts.measured import measured_more
from shared_core.citation.facts.mismatches import Comparison, Kind, Mismatch
from shared_core.citation.facts.negations import contradicts
from shared_core.citation.facts.numbered import numbered_otherwise
from shared_core.citation.facts.paired import (
    are_measures,
    comparable,
    crossed,
    in_place,
    is_complement,
    is_count,
    is_dated,
)
from shared_core.citation.facts.quantities import Quantity, measured, quantities_of
from shared_core.citation.facts.rows import of_other_column, of_other_row, row_subject
from shared_core.citation.facts.tokens import (
    Found,
    Sentence,
    Token,
    align,
    all_tokens,
    cut_tokens,
    fields_of,
    sentences_of,
    statements_of,
    tokens_of,
)
from shared_core.support.regex import lazy_regex

_SPLIT = lazy_regex(r"[,;:](?!\d)|[()–—]|\b(?:and|but|which|who|while|where|und|aber|et|mais|y|pero|e|ma)\b")
_ARTICLE = lazy_regex(r"[,(–—] ?(?:an?|the)\Z", re.IGNORECASE)
_COMPARES = lazy_regex(r"er\Z|^(?:more|less|before)\Z", re.IGNORECASE)
_CHANGE = lazy_regex(r"\b(?:by|difference of) (?:about |around |some |nearly |over )?\Z", re.IGNORECASE)
_ONE_OF = lazy_regex(r"(?:one of|couple (?!of))", re.IGNORECASE)  # counts nothing
_LIST_MARK = lazy_regex(r"^[^\S\n]*(?:\(?\d{1,2}[.)]|[-*•–])\s+", re.MULTILINE)
_STRONGER = (
    scope.overstated,
    modality.obliged,
    modality.turned_condition,
    scope.given_to_others,
    scope.widened,
    scope.includes_exception,
    scope.of_exception,
    modality.unconditional,
    modality.presumed_cause,
    scope.one_of_two,
    *amounts.RULES,
    asserted.outdated,
    asserted.too_sure,
    other_subject,
)
_SURER = (modality.done, modality.certain, asserted.undone)
_LEFT_OUT = (
    modality.left_out,
    scope.without_exception,
    scope.short_of,
    scope.not_of_these,
    scope.of_a_kind,
    asserted.unhedged,
)
_ROLES = (
    opposites.conversed,
    opposites.exchanged_things,
    opposites.changed_voice,
    opposites.acted_on,
    said_of_another,
    acts_on_it,
    done_to_another,
)
_HALF = 0.5
_ALIKE = 0.6  # of a claim's content words: a sentence that holds them speaks of the same matter
_SAME = 0.75  # … says the same but for a word or two
_WORDED_ALIKE = 0.5  # of all its words, in the same order: a word in another's place contradicts it
_VERBATIM = 0.9  # … says the same word for word, so that a clause of other words was added
_UNSAID = 0.34  # a clause of which the evidence holds no more says something else


@lru_cache(maxsize=1024)
def compare_claim(claim: str, evidence: str, context: str = "", written: str = "") -> Comparison:
    """Find the facts of a claim that its evidence contradicts or does not hold.

    Numbers are compared by value (digits, English words, any separators, conversion of common units, rounding, "about",
    "over", sums and differences), dates by their parts in eight languages and ISO, names as words, also by initials,
    with the evidence's sentence nearest to the claim deciding which of several names is meant. Negations, swapped
    names and added clauses count where that sentence otherwise says what the claim says. Code, options, names of files
    and addresses are compared letter for letter. Where evidence or claim has no words nothing can be compared.

    Args:
        claim: one or a few sentences; questions among them are taken as context.
        evidence: the text that should bear the claim out.
        context: what may name the things spoken of, such as the passage's title and the question.
        written: the claim with its backticks and the targets of its links, if they were taken off it.
    """
    said = sentences_of(_LIST_MARK.sub("", claim))
    stated = [s for s in said if not s.text.rstrip().endswith(("?", "？"))]
    asked = " ".join(s.text for s in said if s not in stated)
    stated, held = each_included(in_full(stated)), in_full(sentences_of(evidence))
    if not stated or not held:
        return Comparison()
    context = f"{context}\n{asked}"
    scope = _Scope(held, sentences_of(context), evidence)
    stated = [scope.without_attribution(sentence) for sentence in stated]
    follows = all(implied(sentence, scope.statements) for sentence in stated)
    found = [m for sentence in stated for m in scope.mismatches(sentence)]
    found += [Mismatch("literal", m) for m in missing_literals(written or claim, f"{evidence}\n{context}")]
    same = any(scope.names_all_near(sentence) for sentence in stated)
    same = same and not any(m.kind == "name" for m in found)
    return Comparison(tuple(dict.fromkeys(found)), same, follows and not found)


class _Scope:
    """Evidence and context, to hold the sentences of one claim against."""

    def __init__(self, held: Sequence[Sentence], context: Sequence[Sentence], evidence: str) -> None:
        self.held, self.context = held, context
        self.statements = in_full(statements_of(evidence))
        # sentence by sentence, so that numbers of headings and list items are no facts
        self.evidence, self.around = ("\n".join(s.text for s in some) for some in (held, context))
        self.text = evidence
        self.keys = {t.key for t in all_tokens([*held, *context])}
        self.around_keys = frozenset(t.key for t in all_tokens(context) if t.is_content)
        self.prefixes = {k[:5] for k in self.keys if len(k) >= 5}
        self.quantities = [*quantities_of(self.evidence), *quantities_of(self.around)]

    def without_attribution(self, claim: Sentence) -> Sentence:
        """Take off "According to the handbook," from a sentence of the claim."""
        text = without_attribution(claim.text, self.keys.__contains__)
        tokens = claim.tokens if text == claim.text else tokens_of(text)
        return Sentence(text, tokens) if tokens else claim

    def names_all_near(self, claim: Sentence) -> bool:
        """Whether the sentence nearest to the claim holds all of its names; without any, its words and no others."""
        names = {t.key for t in naming.names_of(claim, self.held, self.context)}
        nearest = self._nearest(claim, self.held)
        if names:
            return names <= nearest.keys
        said, has = quantities_of(claim.text), quantities_of(nearest.text)
        others = [q for q in said if q.is_year and not any(same_quantity(q, h) for h in has)]
        if others and len(said) > 1:
            return False  # what was counted in another year is another count
        if any(h.ordinal and not any(same_quantity(q, h) for q in said) for h in has):
            return False  # "a second lamp"
        if weekdays_of(nearest.text).keys() - weekdays_of(claim.text).keys():
            return False  # what holds on another day
        # and the other way round: "the electric lamp" may be another one
        return min(self._share(claim, nearest.keys), self._share(nearest, claim.keys)) >= _VERBATIM

    def _nearest(self, claim: Sentence, among: Sequence[Sentence]) -> Sentence:
        return max(among, key=lambda s: self._share(claim, s.keys) + _overlap(claim, s))

    def mismatches(self, claim: Sentence) -> Iterator[Mismatch]:
        """Mismatches of one sentence of the claim; what a row of something else says contradicts none."""
        if implied(claim, self.statements):
            return
        subject = row_subject(self._nearest(claim, self.statements))
        other = bool(subject) and not subject & claim.keys
        for mismatch in self._mismatches(claim):
            if not (other and mismatch.refuted) or mismatch.kind == "role":  # that of two rows
                yield mismatch
            elif mismatch.kind in ("number", "unit", "date", "name"):
                yield Mismatch(mismatch.kind, mismatch.claimed)

    def _mismatches(self, claim: Sentence) -> Iterator[Mismatch]:
        nearest = self._nearest(claim, self.held)
        alike = self._share(claim, nearest.keys)
        yield from self._numbers(claim, nearest, alike, _in_order(claim, nearest))
        if alike >= _ALIKE and (numbers := exchanged(claim, nearest)):
            yield Mismatch("number", _shown(claim.text, numbers[0]), _shown(nearest.text, numbers[1]))
        yield from self._dates(claim, nearest, alike)
        nearest = self._nearest(claim, self.statements)
        alike, worded = self._share(claim, nearest.keys), _in_order(claim, nearest)
        for name, instead in numbered_otherwise(claim, nearest, self.held):
            yield Mismatch("name", name, instead if alike >= _ALIKE else "")
        for name, instead in naming.compare_names(
            claim, nearest, self.held, self.context, alike=alike >= _ALIKE, worded_alike=worded >= _WORDED_ALIKE
        ):
            yield Mismatch("name", name, instead)
        for kind, words in self._turned(claim, nearest, alike, worded):
            if words is not None:
                yield Mismatch(kind, *words)
        yield from self._additions(claim)

    def _turned(self, claim: Sentence, nearest: Sentence, alike: float, worded: float) -> Iterator[tuple[Kind, Found]]:
        """Find by each rule what the claim turns round, leaves out or adds."""
        close, whole = alike >= _ALIKE, (claim.text.strip(), nearest.text.strip())
        if close:
            denied = is_complement(claim, nearest) or scope.denies_others(claim, nearest)
            yield "negation", None if denied else contradicts(claim, self._of_same_subject(claim, nearest))
            yield "role", placed_otherwise(claim, nearest)
        orders = (ordering.order_turned, ordering.compared_otherwise, ordering.cause_turned)
        ordered, compared, caused = (f(claim, nearest) for f in orders)
        agreed = ordered is False or compared is False
        for words in (
            opposites.opposed(claim, self.statements, self.keys) or opposites.opposed_beside(claim, self.held),
            opposites.other_side(claim, self.held, self.keys),
            opposites.in_place(claim, nearest),
            opposites.denied_by_prefix(claim, nearest),
        ):
            fits = words and ((agreed and _COMPARES.search(words[0])) or opposites.on_other_days(claim, nearest))
            yield "opposite", None if fits else words
        if close:
            yield "opposite", whole if ordered or compared else None
            yield "opposite", None if agreed else ordering.degree_turned(claim, nearest)
            yield from (("opposite", find(claim, nearest)) for find in _STRONGER)
            yield from (
                ("opposite", find(claim, nearest, self.held))
                for find in (modality.done, modality.certain, asserted.undone)
            )
            yield "exception", asserted.supposed(claim, nearest, self.held)
            yield from (("exception", find(claim, nearest)) for find in _LEFT_OUT)
            yield "date", dated_otherwise(claim, nearest)
        if alike >= _SAME:
            yield "addition", scope.only_added(claim, self.held)
            yield "addition", modality.other_reason(claim, self.keys)
        yield "opposite", whole if measured_more(claim, self.statements) is False else None
        yield "negation", modality.presumed_effect(claim, nearest)
        if alike >= _HALF:
            yield "number", changed_otherwise(claim, nearest)
            yield "number", in_other_year(claim, nearest)
            yield "opposite", whole if caused else None
        yield "opposite", asserted.not_asserted(claim, self.held) or asserted.left_open(claim, self.held)
        yield (
            "role",
            other_row(claim, self.held)
            or of_other_row(claim, self.text)
            or of_other_column(claim, self.text)
            or for_other_ages(claim, self.text, self.around)
            or naming.paired_otherwise(claim, self.held),
        )
        swaps = (
            alike >= _SAME
            and ordered is compared is caused is None
            and not opposites.has_converse(claim, nearest)
            and len(fields_of(nearest.text)) < 2  # no row of a table
        )
        roles = naming.swapped(claim, nearest) if swaps else None
        if max(alike, worded) >= _ALIKE:  # where names are left out, the verb may be all that remains of a claim
            for find in _ROLES:
                roles = roles or find(claim, nearest)
        yield "role", roles

    def _of_same_subject(self, claim: Sentence, nearest: Sentence) -> Sentence:
        """Return the only sentence with the words that the nearest lacks, else the nearest.

        "Fuel is not included in the loan" beside "Helmets are included in the loan. Fuel is not included."
        """
        content = {t.key for t in claim.tokens if t.is_content}
        missing = content - nearest.keys
        others = [
            s for s in self.statements if s is not nearest and missing <= s.keys and content & s.keys & nearest.keys
        ]
        return others[0] if missing and len(others) == 1 else nearest

    def _share(self, claim: Sentence, keys: frozenset[str]) -> float:
        """Share of the claim's content words (names and numbers left out where there are others) among the keys."""
        numbers = measured(claim.text)  # units are compared with their numbers
        content = [t for t in claim.tokens if t.is_content and t.start not in numbers]
        followed = {a for a, b in pairwise(claim.tokens) if b.is_capitalised}  # "Rufus" of "Rufus Hathe" is a name
        plain = [t for t in content if not t.is_capitalised or (t.first and t not in followed)] or content
        if not plain:
            return 1.0 if not content else 0.0
        prefixes = {k[:5] for k in keys if len(k) >= 5}
        return sum(t.key in keys or t.key[:5] in prefixes for t in plain) / len(plain)

    # --- numbers and dates -----------------------------------------------------------------------------------------

    def _numbers(self, claim: Sentence, nearest: Sentence, alike: float, worded: float) -> Iterator[Mismatch]:
        claimed, near = quantities_of(claim.text), quantities_of(nearest.text)
        dated = dates_in_digits(claim.text)
        left = [
            c for c in claimed if not any(equal_quantity(c, q) for q in near) and not any(c.end - 1 in r for r in dated)
        ]
        counting = [q for q in near if not _ONE_OF.match(nearest.text, q.start)]
        unclaimed = [q for q in counting if not any(equal_quantity(c, q) for c in claimed)]
        yield from self._attached(claim, claimed)
        swaps = in_place(claim, nearest) if alike >= _SAME else frozenset()
        for quantity in left:
            same = any(same_quantity(quantity, q) for q in self.quantities)
            if (
                is_share(quantity, near)
                or is_in_range(quantity, nearest)
                or is_rest(quantity, claim, nearest)
                or in_named_unit(quantity, nearest)
                or amounts.is_every_other(quantity, claim, self.evidence)
                or is_sum(quantity, self.quantities)
                or (worded < _ALIKE and self._follows(quantity, nearest))
                or (_CHANGE.search(claim.text[: quantity.start]) and is_difference(quantity, near, change=True))
                or (quantity.last and same)
            ):
                continue
            spare = unclaimed if is_dated(quantity, claim) else [q for q in unclaimed if not is_dated(q, nearest)]
            instead = [q for q in spare if crossed(swaps, claim, quantity, nearest, q)]
            elsewhere = same and worded < _ALIKE  # another sentence, of which the claim is a paraphrase, has it
            if instead and not elsewhere and not any(same_quantity(quantity, q) for q in instead):
                kind: Kind = "unit" if quantity.values & instead[0].values else "number"
                within = any(is_within_bound(quantity, q) for q in instead) or self._is_met(quantity, claim, nearest)
                yield Mismatch(kind, _shown(claim.text, quantity), "" if within else _shown(nearest.text, instead[0]))
                continue
            vague = quantity.values == {1.0} and not quantity.text[0].isdigit()  # "one", "first"
            if not (vague or same or self._follows(quantity, nearest)):
                yield self._unsaid(quantity, claim, nearest, spare if alike >= _ALIKE else [], worded >= _WORDED_ALIKE)

    def _attached(self, claim: Sentence, claimed: Sequence[Quantity]) -> Iterator[Mismatch]:
        """Numbers that the evidence has, but says of something else, or as the other bound."""
        for quantity in claimed:
            holding = [s for s in self.held if any(equal_quantity(quantity, q) for q in quantities_of(s.text))]
            if not holding or quantity.is_year:
                continue
            best = max(holding, key=lambda s: _overlap(claim, s))
            if (other := attached_otherwise(claim, quantity, best, self.around_keys)) is not None:
                yield Mismatch("number", _shown(claim.text, quantity), _shown(best.text, other))
            if rates := other_rate(claim, quantity, best):
                yield Mismatch("unit", *rates)
            if not is_complement(claim, best) and (bounds := other_bound(claim, quantity, best)):
                yield Mismatch("number", *bounds)

    def _follows(self, quantity: Quantity, nearest: Sentence) -> bool:
        return is_difference(quantity, self.quantities) or is_count(quantity, nearest)

    def _is_met(self, quantity: Quantity, claim: Sentence, nearest: Sentence) -> bool:
        """Whether the number lies in a period, or meets a condition, that the evidence gives."""
        met = in_period(claim, nearest) or within_condition(quantity, claim, nearest) is not None
        return met or of_others(claim, nearest)

    def _unsaid(
        self, quantity: Quantity, claim: Sentence, nearest: Sentence, spare: Sequence[Quantity], worded: bool
    ) -> Mismatch:
        """The mismatch of a number that is nowhere in the evidence, beside the one that is there instead."""
        shown = _shown(claim.text, quantity)
        for other in spare:
            if other.values & quantity.values and other.unit and quantity.unit:
                return Mismatch("unit", shown, _shown(nearest.text, other))
        other_number = next(
            (q for q in spare if comparable(quantity, q) and (worded or are_measures(quantity, q))), None
        )
        if other_number is not None and (
            is_within_bound(quantity, other_number) or self._is_met(quantity, claim, nearest)
        ):
            other_number = None
        return Mismatch("number", shown, _shown(nearest.text, other_number) if other_number else "")

    def _dates(self, claim: Sentence, nearest: Sentence, alike: float) -> Iterator[Mismatch]:
        claimed = dates_of(claim.text)
        if not claimed:
            return
        near = dates_of(nearest.text)
        everywhere = [*dates_of(self.evidence), *dates_of(self.around)]
        for date in claimed:
            if date.weekday >= 0 and (date.weekday in weekdays_of(nearest.text) or is_every_day(nearest.text)):
                continue
            spare = [d for d in near if alike >= _ALIKE and not any(same_date(c, d) for c in claimed)]
            weekday = date.weekday >= 0
            instead = next((d.text for d in spare if (d.weekday >= 0) == weekday), "")
            if weekday and not instead and alike >= _ALIKE:
                instead = next(iter(weekdays_of(nearest.text).values()), "")
            if any(same_date(date, d) for d in near):
                continue
            if any(same_date(date, d) for d in everywhere) and not instead:
                continue
            if (weekday or date.month) and is_complement(claim, nearest):
                continue
            yield Mismatch("date", date.text, "" if in_period(claim, nearest) else instead)

    # --- added clauses ---------------------------------------------------------------------------------------------

    def _additions(self, claim: Sentence) -> Iterator[Mismatch]:
        """Clauses whose words the evidence does not hold, in a sentence whose other words it does."""
        parts = cut_tokens(claim, _SPLIT)
        clauses = [c for part in parts if (c := [t for t in part if t.is_content and not _is_unspaced(t)])]
        if len(clauses) < 2:
            return
        numbers = measured(claim.text)  # compared as numbers
        known = [[t.start in numbers or self._knows(t) for t in tokens] for tokens in clauses]
        for i, (tokens, flags) in enumerate(zip(clauses, known, strict=True)):
            others = [f for j, row in enumerate(known) if j != i for f in row]
            if len(flags) - sum(flags) < 1 + (not _is_apposition(claim, tokens)) or sum(flags) > _UNSAID * len(flags):
                continue
            if others and sum(others) >= _VERBATIM * len(others):
                yield Mismatch("addition", claim.text[tokens[0].start : tokens[-1].end])

    def _knows(self, token: Token) -> bool:
        return token.key in self.keys or (len(token.key) >= 5 and token.key[:5] in self.prefixes)


def _is_apposition(claim: Sentence, tokens: Sequence[Token]) -> bool:
    """Whether the words are put between commas with an article: ", a painter,"."""
    before, behind = claim.text[: tokens[0].start].rstrip(), claim.text[tokens[-1].end :].lstrip()
    return bool(_ARTICLE.search(before)) and behind[:1] in (",", ")", "–", "—")


def _is_unspaced(token: Token) -> bool:
    return ord(token.text[0]) >= 0x2E80


def _overlap(claim: Sentence, held: Sentence) -> float:
    """Share of all of the claim's tokens, names and numbers too, that the sentence holds."""
    keys = held.keys
    return sum(t.key in keys for t in claim.tokens) / len(claim.tokens)


def _in_order(claim: Sentence, nearest: Sentence) -> float:
    """Share of the claim's tokens that the sentence has in the same order."""
    blocks = align([t.key for t in claim.tokens], [t.key for t in nearest.tokens])
    return sum(a2 - a1 for tag, a1, a2, _, _ in blocks if tag == "equal") / len(claim.tokens)


def _shown(text: str, quantity: Quantity) -> str:
    return text[quantity.start : quantity.end].strip()
