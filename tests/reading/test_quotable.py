"""Which stretches of a passage are quoted together."""

from __future__ import annotations

import re

import pytest

from shared_core import SelfReflectEngine
from shared_core.citation.sentences import split_sentences
from shared_core.reading.quotable import is_signature, join_comments, quotable
from shared_core.retrieval import BM25Retriever
from shared_core.types import Passage
from tests.reading.asking import quotes


def _joined(text: str, source: str) -> list[str]:
    lines = [(m.start(), m.end()) for m in re.finditer(r"[^\n]+", text)]
    return [text[a:b] for a, b in join_comments(Passage("p", text, metadata={"source": source}), lines)]


def test_settings_are_joined_with_the_comment_above() -> None:
    text = "[server]\n# Seconds before an idle connection\n# is closed\nidle = 90\nport = 7411\n\n# Limits\n\nmax = 25"
    joined = [
        "[server]",
        "# Seconds before an idle connection\n# is closed\nidle = 90",
        "port = 7411",
        "# Limits",
        "max = 25",
    ]
    assert _joined(text, "etc/lampd.toml") == joined
    assert _joined("# How often\nRetries 5", "lampd.conf") == ["# How often\nRetries 5"]
    assert _joined("#!/bin/sh\nRETRIES=5", "run.sh") == ["#!/bin/sh", "RETRIES=5"]
    under = "web:\n  # Seconds before a session ends\n  ttl: 3600"
    sentences = [(0, under.index("\n  ttl")), (under.index("ttl"), len(under))]
    passage = Passage("p", under, metadata={"source": "compose.yml"})
    quoted = [under[a:b] for a, b in join_comments(passage, sentences)]
    assert quoted == ["web:", "# Seconds before a session ends\n  ttl: 3600"]
    assert _joined("# The limits\nlimits:\n  cpu: 2", "app.yaml") == ["# The limits", "limits:", "  cpu: 2"]


def test_headings_of_texts_are_not_joined_with_the_line_below() -> None:
    assert _joined("# Limits\nmax = 25", "notes.md") == ["# Limits", "max = 25"]


def test_the_value_is_quoted_with_its_comment() -> None:
    text = "[server]\n# Port to listen on\nport = 7411\n# Maximum size of an upload, in megabytes\nmax_upload = 25\n"
    passage = Passage("p", text, "lampd", metadata={"source": "lampd.toml"})
    claim = SelfReflectEngine(BM25Retriever([passage])).answer("How large can an upload be?").claims[0]
    assert claim.text == "# Maximum size of an upload, in megabytes\nmax_upload = 25"


def test_names_without_values_state_nothing() -> None:
    text = "db:\n  environment:\n    POSTGRES_DB: shopdb\n\nvolumes:\n  dbdata:\n"
    passage = Passage("p", text, "compose", metadata={"source": "compose.yml"})
    answer = SelfReflectEngine(BM25Retriever([passage])).answer("Where is the volume of dbdata?")
    assert all("volumes:" not in claim.text for claim in answer.claims)


def test_a_sentence_without_its_verb_is_quoted_with_the_one_before() -> None:
    text = "ANN: Learn to sing. I never did.\n\nBO: You should. We all could. There is a choir. Nobody can say why."
    parts = [text[a:b] for a, b in quotable(text, split_sentences(text))]
    assert "ANN: Learn to sing. I never did." in parts
    assert "BO: You should. We all could." in parts
    assert parts[-2:] == ["There is a choir.", "Nobody can say why."]
    apart = "Learn to sing.\n\nI never did."
    assert len(quotable(apart, split_sentences(apart))) == 2


@pytest.mark.parametrize(
    ("text", "question", "signs"),
    [
        ("It is shut.\n\nCheers,\nBo Lund", "Who works in the shop?", True),
        ("It is shut.\n\nWith best wishes,\n\nBo", "Who works in the shop?", True),
        ("It is shut.\n\nCheers,\nBo Lund", "Who sent this?", False),
        ("It is shut.\n\nCheers,\nBo Lund, Chair", "Who is the chair?", False),
        ("Chair\nBo Lund", "Who is the chair?", False),
        ("Present were the chair, the clerk,\nBo Lund", "Who was present?", False),
    ],
)
def test_the_name_below_a_letter_answers_nothing(text: str, question: str, signs: bool) -> None:
    last = text.splitlines()[-1]
    assert is_signature(last, Passage("p", text), len(text) - len(last), question) is signs


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("Lamps Taken Home By Keepers. Lamps may be lent to keepers who live on the pier.", False),
        ("(b) Use of the Old Pier. The old pier may be used by members at their own risk.", False),
        ("Ida Berg Keeps The Lamp.", True),
        ("Lamps are taken home by keepers. They may be lent to keepers who live on the pier.", True),
        ("See Mrs Ida Berg. She has the keys of the lamp house and lives on the pier.", True),
        ("Ask Ida Berg. She lives on the pier above the lamp house.", True),
    ],
)
def test_a_heading_before_a_sentence_in_its_line_is_never_quoted(text: str, first: bool) -> None:
    quoted = quotes("Can I take a lamp home from the pier?", f"{text}\n\nThe pier is open.")
    assert (text.split(". ")[0].rstrip(".") + "." in quoted) is first
