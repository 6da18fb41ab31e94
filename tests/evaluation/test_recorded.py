"""Recorded replies reach a prompt only with the sentences that they were written for."""

from __future__ import annotations

import pytest

from benchmarks.recorded import digest, read_rows, reply_to
from benchmarks.strangers import read_questions

SENTENCES = "S1: The lamp is old.\nS2: It was lit in 1871."
PROMPT = f"If nothing answers, write NO ANSWER. <reference>S2</reference>\n\n{SENTENCES}"


@pytest.mark.parametrize("evidence", ["lit in 1871", digest("It was lit in  1871.")])
def test_a_sentence_is_found_by_a_part_of_it_or_its_digest(evidence: str) -> None:
    row = {
        "reply": "<reference>{0}</reference><claim>In 1871.</claim>",
        "evidence": [evidence],
        "plain": "",
        "short": "",
    }
    assert reply_to(row, PROMPT) == "<reference>S2</reference><claim>In 1871.</claim>"
    assert reply_to(row, PROMPT.replace("1871", "1902")) == "NO ANSWER"


def test_other_prompts_get_the_short_answer_where_they_hold_the_sentence() -> None:
    row = {"reply": "", "evidence": [digest("It was lit in 1871.")], "plain": "It was lit then.", "short": "1871"}
    assert reply_to(row, "The lamp is old. It was lit in 1871.").endswith("So the answer is 1871.")
    assert reply_to(row, "The lamp is old.").endswith("So the answer is unknown.")


def test_every_recorded_question_is_one_of_the_strangers() -> None:
    sets = {name: {q.text for q in some} for name, some in read_questions().items()}
    rows = read_rows("strangers")
    assert len(rows) > 250
    assert all(row["question"] in sets[row["set"]] for row in rows)
