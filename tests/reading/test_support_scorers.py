"""NLI cross-encoders by path, on tiny random models made here."""

from __future__ import annotations

from pathlib import Path

import pytest

from shared_core.errors import InputError, ModelLoadError
from shared_core.reading.base import SupportScorer
from shared_core.reading.support import CrossEncoderSupportScorer, entailment_label

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

PAIRS = [("the cat sat on the mat", "the cat sat"), ("the dog ran", "the cat sat"), ("the mat", "a dog")]


def save(folder: Path, labels: dict[int, str], *, broken: bool = False) -> Path:
    torch.manual_seed(0)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "a", "cat", "sat", "on", "mat", "dog", "ran"]
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(words), "utf-8")
    tokenizer = transformers.BertTokenizerFast(vocab=str(folder / "vocab.txt"), model_max_length=512)
    tokenizer.save_pretrained(folder)
    config = transformers.BertConfig(
        vocab_size=len(words), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
        max_position_embeddings=24, id2label=labels, label2id={v: k for k, v in labels.items()},
    )  # fmt: skip
    model = transformers.BertForSequenceClassification(config)
    if broken:
        model.classifier.weight.data.fill_(float("nan"))
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    labels = {0: "contradiction", 1: "entailment", 2: "neutral"}
    return save(tmp_path_factory.mktemp("nli") / "tiny", labels)


def test_probabilities_are_those_of_the_entailment_class(folder: Path) -> None:
    scorer = CrossEncoderSupportScorer(folder, batch_size=2)
    assert isinstance(scorer, SupportScorer)
    scores = scorer.score(PAIRS)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    for pair, score in zip(PAIRS, scores):
        with torch.inference_mode():
            expected = model(**tokenizer(*pair, return_tensors="pt")).logits.softmax(-1)[0, 1].item()
        assert score == pytest.approx(expected, abs=1e-5)


def test_what_does_not_fit_and_what_is_empty_is_unknown(folder: Path) -> None:
    scorer = CrossEncoderSupportScorer(folder)
    long = "the cat sat on the mat " * 10
    scores = scorer.score([(long, "the cat"), ("", "the cat"), ("the cat", " "), PAIRS[0]])
    assert scores[:3] == [None, None, None]
    assert scores[3] == pytest.approx(scorer.score([PAIRS[0]])[0], abs=1e-6)
    assert scorer.score([]) == []


def test_nan_is_unknown(tmp_path: Path) -> None:
    folder = save(tmp_path / "broken", {0: "entailment", 1: "not_entailment"}, broken=True)
    assert CrossEncoderSupportScorer(folder).score(PAIRS) == [None] * 3


def test_labels_that_tell_nothing_are_refused_unless_told(tmp_path: Path) -> None:
    folder = save(tmp_path / "plain", {0: "LABEL_0", 1: "LABEL_1"})
    with pytest.raises(ModelLoadError, match="do not tell"):
        CrossEncoderSupportScorer(folder).score(PAIRS)
    by_number = CrossEncoderSupportScorer(folder, entailment=1).score(PAIRS)
    assert by_number == CrossEncoderSupportScorer(folder, entailment="LABEL_1").score(PAIRS)
    assert None not in by_number
    with pytest.raises(ModelLoadError, match="no label"):
        CrossEncoderSupportScorer(folder, entailment="yes").score(PAIRS)


@pytest.mark.parametrize(("labels", "expected"), [
    ({0: "entailment", 1: "neutral", 2: "contradiction"}, 0), ({0: "not_entailment", 1: "ENTAILMENT"}, 1),
    ({0: "REFUTES", 1: "NOT ENOUGH INFO", 2: "SUPPORTS"}, 2), ({0: "inconsistent", 1: "consistent"}, 1),
    ({0: "not_supported", 1: "supported"}, 1), ({0: "unsupported", 1: "partially supported"}, None),
    ({0: "entailment", 1: "supports"}, None), ({0: "non-entailment", 1: "other"}, None),
])  # fmt: skip
def test_entailment_label(labels: dict[int, str], expected: int | None) -> None:
    if expected is None:
        with pytest.raises(ModelLoadError):
            entailment_label(labels)
    else:
        assert entailment_label(labels) == expected


def test_bad_input(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError):
        CrossEncoderSupportScorer(folder, batch_size=0)
    with pytest.raises(InputError):
        CrossEncoderSupportScorer(folder).score([("only one",)])  # type: ignore[list-item]
    with pytest.raises(ModelLoadError):
        CrossEncoderSupportScorer(tmp_path / "nothing").score(PAIRS)
