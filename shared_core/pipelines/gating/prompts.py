"""SeaKR's prompts: demonstrations, passages where there are any, the question, the steps so far; what is asked then.

Demonstrations show the form ``Question: …``, ``Answer: step. step. So the answer is …``, one set for each kind of
question; pass your own with ``SeakrSettings(demonstrations=…)``.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

from shared_core.errors import SettingsError
from shared_core.lm.base import Prompt
from shared_core.settings import Demonstration
from shared_core.types import Passage

ANSWER_LEAD = " So the answer is"  # the blank joins it to "Answer:" or the last step
SENTENCE_STOP = ". "  # with its blank, so that "3.5" goes on; abbreviations are written on (`measure`)
STEP_STOPS = (SENTENCE_STOP, "\n")
"""One step is one sentence."""
ANSWER_STOPS = ("\n",)  # no full stop: an answer may hold one ("J. R. Moss")

CONFIDENCE_ASK = (
    "\n\nHow sure are you that what was just written is right, from 0 to 100? Reply with the number only.\nConfidence:"
)
SUFFICIENCY_ASK = "\n\nIs the knowledge at hand sufficient to answer? Reply with yes or no only.\nSufficient:"
TRUTH_ASK = "\n\nIs what was just written true or false? It is"  # no blank at the end: " True" and " False" have theirs
"""Asked behind a prompt and what the model wrote to it."""


def step_prompt(
    question: str,
    steps: Sequence[str],
    passages: Sequence[Passage],
    demonstrations: Sequence[Demonstration],
    lead: str = "",
) -> Prompt:
    """Continue the reasoning after ``steps``; the demonstrations come first, so that all prompts share them.

    Args:
        lead: what follows the steps, for instance ``ANSWER_LEAD``.
    """
    # Demonstrations are the developer's own words, in which nobody hides control tokens.
    prompt = Prompt.trusted("\n\n".join(d.render() for d in demonstrations) + "\n\n")
    if passages:
        prompt += Prompt.trusted("Context:\n")
        for i, passage in enumerate(passages, 1):
            title = f"{passage.title}: " if passage.title else ""
            prompt += Prompt.trusted(f"[{i}] ") + Prompt.untrusted(title + passage.text) + Prompt.trusted("\n")
        prompt += Prompt.trusted("\n")
    prompt += Prompt.trusted("Answer in the same format as before.\nQuestion: ") + Prompt.untrusted(question)
    prompt += Prompt.trusted("\nAnswer:")
    if steps:
        prompt += Prompt.untrusted(" " + " ".join(steps))  # a model may repeat what a document says
    return prompt + Prompt.trusted(lead) if lead else prompt


def own_word_prompt(question: str, answer: str) -> Prompt:
    """Is this answer true or false, by what the model itself knows?"""
    return (
        Prompt.trusted("Question: ")
        + Prompt.untrusted(question)
        + Prompt.trusted("\nProposed answer: ")
        + Prompt.untrusted(answer)
        + Prompt.trusted("\nIs the proposed answer true or false? It is")
    )


def memory_prompt(question: str) -> Prompt:
    """Answer without documents: what ``on_abstain="fallback"`` shows, marked as the model's own."""
    asked = Prompt.trusted("Answer the question briefly from what you know.\nQuestion: ") + Prompt.untrusted(question)
    return asked + Prompt.trusted("\nAnswer:")


# --- demonstrations ------------------------------------------------------------------------------------------------


# Our own, four in each set; the paper shows ten (docs/seakr.md).
# Two or three facts, one leading to the next, or compared.
_BRIDGE = (
    Demonstration(
        "In which city was the composer of the opera Fidelio born?",
        ("The opera Fidelio was composed by Ludwig van Beethoven.", "Ludwig van Beethoven was born in Bonn."),
        "Bonn",
    ),
    Demonstration(
        "What is the highest mountain of the country whose capital is Dodoma?",
        ("Dodoma is the capital of Tanzania.", "The highest mountain of Tanzania is Kilimanjaro."),
        "Kilimanjaro",
    ),
    Demonstration(
        "Which came first, the Suez Canal or the Panama Canal?",
        ("The Suez Canal was opened in 1869.", "The Panama Canal was opened in 1914."),
        "the Suez Canal",
    ),
    Demonstration(
        "On which river does the city lie where the painter of The Night Watch was born?",
        (
            "The Night Watch was painted by Rembrandt.",
            "Rembrandt was born in Leiden.",
            "Leiden lies on the Old Rhine.",
        ),
        "the Old Rhine",
    ),
)

# As in 2WikiMultiHopQA: family, comparison of dates or countries, place.
_WIKI = (
    Demonstration(
        "Who is the paternal grandfather of Alexander the Great?",
        (
            "Alexander the Great was a son of Philip II of Macedon.",
            "Philip II of Macedon was a son of Amyntas III of Macedon.",
        ),
        "Amyntas III of Macedon",
    ),
    Demonstration(
        "Which film came out first, Metropolis or Casablanca?",
        ("Metropolis came out in 1927.", "Casablanca came out in 1942."),
        "Metropolis",
    ),
    Demonstration(
        "Do the directors of the films Vertigo and Stagecoach come from the same country?",
        (
            "Vertigo was directed by Alfred Hitchcock.",
            "Stagecoach was directed by John Ford.",
            "Alfred Hitchcock came from England.",
            "John Ford came from the United States.",
        ),
        "no",
    ),
    Demonstration(
        "Where did the wife of Pierre Curie die?",
        ("The wife of Pierre Curie was Marie Curie.", "Marie Curie died in Passy in Haute-Savoie."),
        "Passy",
    ),
)

# As in HotpotQA: things that are described, not named, and a yes or no.
_HOTPOT = (
    Demonstration(
        "The author of Frankenstein was married to a poet who drowned in which gulf?",
        (
            "The author of Frankenstein is Mary Shelley.",
            "Mary Shelley was married to the poet Percy Bysshe Shelley.",
            "Percy Bysshe Shelley drowned in the Gulf of La Spezia.",
        ),
        "the Gulf of La Spezia",
    ),
    Demonstration(
        "Were Gregor Mendel and Ernst Mach both born in what is now the Czech Republic?",
        (
            "Gregor Mendel was born in Hynčice, in what is now the Czech Republic.",
            "Ernst Mach was born in Brno, in what is now the Czech Republic.",
        ),
        "yes",
    ),
    Demonstration(
        "What is the capital of the country in which Lake Titicaca shares its shore with Bolivia?",
        ("Lake Titicaca lies between Bolivia and Peru.", "The capital of Peru is Lima."),
        "Lima",
    ),
    Demonstration(
        "Which element, named after a scientist, follows einsteinium in the periodic table?",
        ("Einsteinium has the atomic number 99.", "The element with the atomic number 100 is fermium."),
        "fermium",
    ),
)

# As in IIRC: numbers to be worked out, and a question without an answer.
_IIRC = (
    Demonstration(
        "How old was Johannes Kepler when Tycho Brahe died?",
        (
            "Johannes Kepler was born in December 1571.",
            "Tycho Brahe died in October 1601.",
            "From December 1571 to October 1601 are 29 full years.",
        ),
        "29",
    ),
    Demonstration(
        "How many years before the Eiffel Tower was the Crystal Palace opened?",
        (
            "The Eiffel Tower was opened in 1889.",
            "The Crystal Palace was opened in 1851.",
            "1889 minus 1851 is 38.",
        ),
        "38",
    ),
    Demonstration(
        "What did the innkeeper at whose house Napoleon slept before Marengo call his dog?",
        ("What the innkeeper called his dog is not known.",),
        "unknown",  # no answer, by `is_answer`
    ),
    Demonstration(
        "In which country lies the city after which the Treaty of Tordesillas is named?",
        ("The Treaty of Tordesillas is named after the town of Tordesillas.", "Tordesillas lies in Spain."),
        "Spain",
    ),
)

# One fact each, for questions that need a single passage.
_SIMPLE = (
    Demonstration("What is the capital of Australia?", ("The capital of Australia is Canberra.",), "Canberra"),
    Demonstration("Who wrote The Odyssey?", ("The Odyssey is ascribed to Homer.",), "Homer"),
    Demonstration(
        "In which year did the First World War end?", ("The First World War ended in November 1918.",), "1918"
    ),
    Demonstration("What metal is liquid at room temperature?", ("The metal mercury is liquid then.",), "mercury"),
)

DEMONSTRATIONS = MappingProxyType(
    {"default": _BRIDGE, "2wiki": _WIKI, "hotpotqa": _HOTPOT, "iirc": _IIRC, "simple": _SIMPLE}
)
"""Sets by the name that ``SeakrSettings.task`` gives."""


def demonstrations(task: str) -> tuple[Demonstration, ...]:
    """The set of that name; SettingsError that lists the names if there is none."""
    if task not in DEMONSTRATIONS:
        raise SettingsError(f"There are no demonstrations {task!r}.", hint=f"There are: {', '.join(DEMONSTRATIONS)}.")
    return DEMONSTRATIONS[task]
