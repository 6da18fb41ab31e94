"""ReClaim's rows: a verbatim quote before each claim, by grammar or by number; an empty answer if nothing answers."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.lab.rows.answers import unanswered
from benchmarks.lab.rows.library import Library
from benchmarks.lab.rows.row import LabRow, from_training_row, reply
from benchmarks.lab.rows.self_rag import tell_about
from shared_core.citation import CitationIndex
from shared_core.lab.facts import Fact
from shared_core.lab.names import Dice
from shared_core.lab.prose import plain
from shared_core.lab.questions import ask
from shared_core.pipelines.reclaim.prompts import numbered_prompt, reference_prompt
from shared_core.training.reclaim.rows import RowSettings, build_rows
from shared_core.training.reclaim.sources import Segment, SourceAnswer
from shared_core.types import Passage

NO_ANSWER = "NO ANSWER"
_SETTINGS = RowSettings(segments="sentence", on_drop="discard")
_QUESTIONS, _CLAIMED = 7, 2
"""Questions over the same passages, which are encoded only once; the number of those with rows for claims too."""


def reclaim(library: Library, dice: Dice) -> list[LabRow]:
    """Make rows of answers of one to three pairs over the same passages, and of questions they do not answer."""
    asked, passages = asked_over(library, dice, _QUESTIONS)
    sources = [
        SourceAnswer(
            f"{question} {number}", question, tuple(passages), segments=_segments(facts, passages, library, dice)
        )
        for number, (question, facts) in enumerate(asked)
    ]
    # Choosing the sentence to quote is hard to learn, writing the claim after it easy: few rows practise the latter.
    some = build_rows(
        sources[:_CLAIMED], _SETTINGS.replace(roles=("claim", "unified") if dice.chance(0.3) else ("claim",))
    )
    made = build_rows(sources, _SETTINGS.replace(roles=("reference",)))
    rows = [from_training_row("reclaim", row) for row in (*made.rows, *some.rows)]
    for question, entity, attribute in unanswered(passages, library, dice, 2):
        prompt = reference_prompt(question, passages, ())
        rows.append(reply("declining", prompt, "", source=f"{entity.id}.{attribute.name}"))
    return rows


def asked_over(library: Library, dice: Dice, most: int = 3) -> tuple[list[tuple[str, list[Fact]]], list[Passage]]:
    """Draw at most ``most`` questions with the facts that answer them, and passages that state all these facts.

    The distractors are often results of a search for the first question: about entities with nearly the same name, or
    with a value of the same attribute.
    """
    if dice.chance(0.25):
        questions = library.questions(dice.weigh(("two_hop", "three_hop"), (3, 1)))
        chain = dice.pick(questions)
        facts = [library.world.fact(f) for f in chain.facts]
        passages = library.context(facts, dice.between(len(facts), 4), dice)
        return [(dice.pick(chain.paraphrases), facts)], passages
    anchor = dice.pick(library.stated)
    entity = library.entity(anchor)
    question = dice.pick(ask(anchor.spec, entity.phrase, dice))
    passages = library.context([anchor], dice.between(1, 5), dice, question if dice.chance(0.6) else "")
    asked = [(question, [anchor])]
    stated = library.stated_in(passages)
    own = [f for f in stated if f.subject == anchor.subject]
    if len(own) > 1 and dice.chance(0.3):
        asked.append((tell_about(entity), dice.sample(own, 3)))
    # Facts of the same subject first: then the question, not the subject, decides which sentence to quote.
    others = [f for f in dice.shuffled(own) if f.id != anchor.id] + [f for f in stated if f.subject != anchor.subject]
    for fact in others[: max(0, most - len(asked))]:
        asked.append((dice.pick(ask(fact.spec, library.entity(fact).phrase, dice)), [fact]))
    return asked, passages


def _segments(facts: Sequence[Fact], passages: Sequence[Passage], library: Library, dice: Dice) -> tuple[Segment, ...]:
    return tuple(
        Segment(plain(f, library.entity(f)), library.quote_from(f, passages, dice) or ("not stated",)) for f in facts
    )


def numbered(library: Library, dice: Dice) -> list[LabRow]:
    """Make the same rows for models without constrained decoding, which give sentences by number."""
    asked, passages = asked_over(library, dice)
    index = CitationIndex(passages)
    rows = []
    for question, facts in asked:
        lines = [_line(f, passages, index, library, dice) for f in facts]
        if all(lines):
            prompt = numbered_prompt(question, index.sentences, passages)
            rows.append(reply("numbered", prompt, "\n".join(line for line in lines if line), source=facts[0].id))
    for question, entity, attribute in unanswered(passages, library, dice, 2):
        prompt = numbered_prompt(question, index.sentences, passages)
        rows.append(reply("declining", prompt, NO_ANSWER, source=f"{entity.id}.{attribute.name}"))
    return rows


def _line(fact: Fact, passages: Sequence[Passage], index: CitationIndex, library: Library, dice: Dice) -> str | None:
    quote = library.quote_from(fact, passages, dice)
    texts = [s.text for s in index.sentences]
    if quote is None or any(q not in texts for q in quote):
        return None
    numbers = ", ".join(f"S{texts.index(q) + 1}" for q in quote)
    return f"<reference>{numbers}</reference><claim>{plain(fact, library.entity(fact))}</claim>"
