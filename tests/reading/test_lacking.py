"""Which of a question's words passages lack, and what a question is like."""

from __future__ import annotations

import numpy as np
import pytest

from shared_core.reading.features import RARITY_BUCKETS, Words, code, stem, words_of
from shared_core.reading.lacking import Lacking, Shape, lacking, shape_of

RARITY = np.full(RARITY_BUCKETS, 0.2, dtype=np.float32)
for word, rarity in {"zstd": 1.0, "gzip": 0.9, "ratio": 0.5}.items():
    RARITY[code(stem(word)) % RARITY_BUCKETS] = rarity


def words(text: str) -> Words:
    return words_of(text, RARITY)


def shape(question: str) -> Shape:
    return shape_of(question, words(question))


def test_a_word_that_another_passage_holds_is_lacking_elsewhere() -> None:
    question = words("What is the expansion ratio of zstd?")
    gzip, zstd = words("The worst expansion of gzip files.").stem, words("zstd is a compressor.").stem
    first, second = lacking(question, [gzip, zstd])
    assert first == Lacking(pytest.approx(1.0), pytest.approx(0.5))  # "zstd"; neither holds "ratio"
    assert second == Lacking(pytest.approx(0.2), pytest.approx(0.5))  # "expansion"
    (alone,) = lacking(question, [gzip])
    assert alone == Lacking(0.0, pytest.approx(1.0))


def test_nothing_lacks_where_all_is_held_or_nothing_is_asked() -> None:
    question = words("the ratio of gzip")
    assert lacking(question, [words("gzip's ratio is fine").stem]) == [Lacking(0.0, 0.0)]
    assert lacking(words("what is it"), [words("gzip").stem]) == [Lacking(0.0, 0.0)]
    assert lacking(question, []) == []
    assert lacking(question, [words("").stem])[0].nowhere == pytest.approx(0.9)


def test_questions_of_several_steps_link_more() -> None:
    one = shape("Who is Ada Lovelace?")
    several = shape("Who is the mother of the director of the film that Ada Lovelace's friend made?")
    assert one == Shape(words=4, links=1)
    assert several.links > 4 > one.links
    assert shape("") == Shape(0, 0)
