"""Worked answers in ReClaim's form, for models not trained on it (Xia et al. 2024 show three in their appendix)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shared_core.citation import AnswerFormat, split_sentences


@dataclass(frozen=True, slots=True)
class WorkedAnswer:
    """A question, passages (title, text), and pairs of quoted sentences and claim; every quote is in a passage."""

    question: str
    passages: tuple[tuple[str, str], ...]
    pairs: tuple[tuple[tuple[str, ...], str], ...]

    def render(self, layout: AnswerFormat) -> str:
        """Render passages, question and pairs, for a model that sees all of them."""
        shown = "\n\n".join(f"[{i}] {title}\n{text}" for i, (title, text) in enumerate(self.passages, 1))
        return f"{shown}\n\nQuestion: {self.question}\n{self.render_pairs(layout)}"

    def render_pairs(self, layout: AnswerFormat) -> str:
        """Render the pairs alone, for a model that sees nothing else."""
        return layout.joiner.join(
            f"{layout.prefix}{' '.join(quotes)}{layout.middle}{claim}{layout.suffix}" for quotes, claim in self.pairs
        )

    def render_numbered(self) -> str:
        """Render with numbered sentences, for models that cannot be constrained."""
        lines, numbers = [], dict[str, int]()
        for title, text in self.passages:
            lines.append(f"# {title}")
            for start, end in split_sentences(text):
                numbers[text[start:end]] = len(numbers) + 1
                lines.append(f"S{len(numbers)}: {text[start:end]}")
        lines.append(f"\nQuestion: {self.question}")
        for quotes, claim in self.pairs:
            cited = ", ".join(f"S{numbers[q]}" for q in quotes)
            lines.append(f"<reference>{cited}</reference><claim>{claim}</claim>")
        return "\n".join(lines)


WORKED: Sequence[WorkedAnswer] = (
    WorkedAnswer(
        "Why does bread rise, and what stops it?",
        (
            (
                "Dough",
                "Yeast in the dough feeds on sugar. It gives off carbon dioxide, and the gas is caught in the gluten. "
                "Dough should rest in a covered bowl.",
            ),
            ("Ovens", "Above 55 degrees yeast dies. Most ovens for bread are set to 220 degrees."),
        ),
        (
            (
                (
                    "Yeast in the dough feeds on sugar.",
                    "It gives off carbon dioxide, and the gas is caught in the gluten.",
                ),
                "Bread rises because yeast turns sugar into carbon dioxide, which the gluten holds.",
            ),
            (("Above 55 degrees yeast dies.",), "Rising stops when the dough is hotter than 55 degrees."),
        ),
    ),
    WorkedAnswer(
        "Who designed the lighthouse at Skarvik?",
        (
            ("Skarvik", "Skarvik is a fishing village. Its lighthouse was designed by the engineer Ida Holm in 1887."),
            ("Harbours", "The harbour of Skarvik was dredged in 1902."),
        ),
        (
            (
                ("Its lighthouse was designed by the engineer Ida Holm in 1887.",),
                "The engineer Ida Holm designed the lighthouse.",
            ),
        ),
    ),
    WorkedAnswer(
        "How do bats find their prey, and how far does it reach?",
        (
            (
                "Bats",
                "Most bats call higher than people can hear. From the echoes they tell where an insect is.",
            ),
            (
                "Calls",
                "A small moth is noticed at about five metres. Some moths hear the calls and drop down.",
            ),
        ),
        (
            (
                ("From the echoes they tell where an insect is.",),
                "Bats find insects by the echoes of their calls.",
            ),
            (("A small moth is noticed at about five metres.",), "For a small moth that reaches about five metres."),
        ),
    ),
)
