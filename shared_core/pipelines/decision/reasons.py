"""Reasons for abstaining: names and a sentence for each; and the trace's names for replies that are no answers."""

from __future__ import annotations

from shared_core.errors import DeadlineError, LimitError
from shared_core.reading.base import NO_WORDS

NOTHING_RETRIEVED = "nothing retrieved"
PASSAGES_DO_NOT_ANSWER = "passages do not answer"
REPLIES_UNUSABLE = "replies unusable"
SUPPORT_BELOW_TARGET = "support below target"
SUPPORT_UNKNOWN = "support unknown"
FROM_MEMORY = "own answer not certain enough"
WITHOUT_QUOTE = "no quote for the answer"
CANNOT_JUDGE = "cannot be judged"
OUT_OF_TIME = "out of time"
OUT_OF_BUDGET = "out of budget"
NOT_KNOWN = "model does not know"
UNSUPPORTED_HERE = "unsupported here"
CERTAINTY_UNKNOWN = "certainty unknown"
BELOW_GUARANTEE = "support below guarantee"
NOTHING_ASKED = "nothing asked"
DOCUMENTS_DISAGREE = "documents contradict each other"
ABOUT_ANSWER = "asks about the answer"
FOLLOW_UP_UNCLEAR = "follow-up unclear"
DECLINES = "declines to answer"
"""Reason of a check of an answer that only says that there is none."""
IN_CONVERSATION = (ABOUT_ANSWER, FOLLOW_UP_UNCLEAR)
NOT_ASKED = (NOTHING_ASKED, *IN_CONVERSATION)
"""Reasons that lie in the question: no documents were searched."""


def limit_reason(limit: LimitError) -> str:
    """Return the reason for abstaining that belongs to a limit."""
    return OUT_OF_TIME if isinstance(limit, DeadlineError) else OUT_OF_BUDGET


def explain(reason: str, unknown: str = "") -> str:
    """Explain a reason in a sentence for readers; the figures behind it are in the trace."""
    return {
        NOTHING_RETRIEVED: "No passage of the documents matches the question.",
        PASSAGES_DO_NOT_ANSWER: "The passages found do not seem to answer it.",
        SUPPORT_UNKNOWN: "Whether the passages support the candidate answers could not be determined.",
        FROM_MEMORY: "The model answered from its own knowledge, without a search, and that is not certain enough.",
        WITHOUT_QUOTE: "The model gave an answer, but no sentence of the documents could be quoted for it.",
        CANNOT_JUDGE: f"No confidence can be given: {unknown}.{_way_out(unknown)}",
        NOTHING_ASKED: "That asks nothing that documents could answer. Ask a question about them.",
        ABOUT_ANSWER: "That asks about the answer given before, not about the documents. Ask a question about them.",
        FOLLOW_UP_UNCLEAR: "It cannot be told what that refers to. Ask in a full question.",
        REPLIES_UNUSABLE: "The language model's replies could not be used.",
        BELOW_GUARANTEE: "Something was found, but showing it would break the guarantee asked for.",
        SUPPORT_BELOW_TARGET: "Something was found, but it is not certain enough.",
        DOCUMENTS_DISAGREE: "The documents contradict each other on it.",
        DECLINES: "It states nothing: it only says that there is no answer.",
        NOT_KNOWN: "The model is not sure enough of what it knows about it.",
        CERTAINTY_UNKNOWN: "The model's certainty is unknown: it states no probability that could be read.",
        UNSUPPORTED_HERE: "Nothing that the model would answer is supported by the passages found.",
        OUT_OF_TIME: "There was not enough time to find an answer and check it.",
        OUT_OF_BUDGET: "The model calls or tokens allowed for a question were spent before it could be answered.",
    }[reason]


def _way_out(unknown: str) -> str:
    # The other reasons are the language, which a model may read.
    return " Ask in words." if unknown == NO_WORDS else " Give a language model (llm=, --model, …)."


# --- replies that are no answers -------------------------------------------------------------------------------------


DECLINED = "no answer"
"""The outcome in the trace of a model that declines to answer."""
IN_NO_PASSAGE = "in no passage"
"""The outcome in the trace of a short answer that no passage holds."""
SAYS_NOTHING = "says nothing"
"""The outcome in the trace of a short answer that goes round in circles or only repeats the question."""
