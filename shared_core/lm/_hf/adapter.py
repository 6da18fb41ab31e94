"""Adapters in one file, over a base that a Python package holds: written, checked against the base, and merged into it.

A safetensors file holds for each adapted module ``NAME.a`` [rank, inputs] and ``NAME.b`` [outputs, rank], whose product
times ``scale`` is added to the module's weights (LoRA: Hu et al. 2022), and ``tokens`` [number, width], the embeddings
of the tokens that it adds. Its metadata name the base and the SHA-256 of the base's file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shared_core.errors import InputError, ModelLoadError
from shared_core.lm._hf.gguf import find_gguf, sha256_of

if TYPE_CHECKING:
    from torch import Tensor

_FORMAT = "selfreflect-adapter-1"
_TOKENS = "tokens"
_SHIPPED: Mapping[str, Path] = {"small": Path(__file__).parents[1] / "weights" / "small.safetensors"}
"""Adapters that ship, by the name to load them by."""


@dataclass(frozen=True, slots=True)
class Adapter:
    """An adapter as it lies in a file.

    Attributes:
        base: name of its base, as ``find_gguf`` takes it.
        base_sha256: of the base's file.
        scale: factor of the product of its matrices.
        tokens: that it adds to the vocabulary, in the order of their ids.
        reply_rates: how the model's replies went with the reader's being right, where that was measured
            (``pipelines.decision.trust.ReplyRates``).
    """

    file: Path
    base: str
    base_sha256: str
    scale: float
    tokens: tuple[str, ...]
    tensors: Mapping[str, Tensor]
    reply_rates: Mapping[str, Mapping[str, float]] | None = None

    def base_file(self) -> Path:
        """Find the file of the base; ModelLoadError if it is not installed, or of another version than trained over."""
        file = find_gguf(self.base)
        if file is None:
            raise ModelLoadError(f"{str(self.file)!r} is an adapter over {self.base!r}, which is no packaged model.")
        digest = sha256_of(file)
        if digest != self.base_sha256:
            raise ModelLoadError(
                f"{str(self.file)!r} was trained over another version of {self.base!r}: {str(file)!r} has the SHA-256 "
                f"{digest[:16]}…, its base {self.base_sha256[:16]}….",
                hint="Install the version that docs/small.md names; over other weights the adapter means nothing.",
            )
        return file

    def merge(self, model: Any, tokenizer: Any) -> None:
        """Add the tokens and the products of its matrices to a model; both change in place.

        ``model.reply_rates`` is what was measured of the two together.

        Raises:
            ModelLoadError: the model has no such modules, or of other sizes, or the tokenizer other tokens.
        """
        import torch

        if self.tokens:
            self._add_tokens(model, tokenizer)
        modules = dict(model.named_modules())
        with torch.no_grad():
            for name in sorted(key[:-2] for key in self.tensors if key.endswith(".a")):
                a, b = self.tensors[f"{name}.a"].float(), self.tensors[f"{name}.b"].float()
                weight = getattr(modules.get(name), "weight", None)
                if weight is None or tuple(weight.shape) != (b.shape[0], a.shape[1]):
                    has = "none" if weight is None else str(tuple(weight.shape))
                    raise self._misfit(f"{name}: {(b.shape[0], a.shape[1])} in the adapter, {has} in the model")
                weight += (self.scale * (b @ a)).to(weight)
        model.reply_rates = self.reply_rates

    def _add_tokens(self, model: Any, tokenizer: Any) -> None:
        import torch

        first = int(model.get_input_embeddings().weight.shape[0])
        tokenizer.add_special_tokens(
            {"additional_special_tokens": list(self.tokens)}, replace_extra_special_tokens=False
        )
        ids = [int(tokenizer.convert_tokens_to_ids(token)) for token in self.tokens]
        rows = self.tensors[_TOKENS]
        width = int(model.get_input_embeddings().weight.shape[1])
        if len(set(ids)) < len(ids) or min(ids) < first or tuple(rows.shape) != (len(ids), width):
            raise self._misfit(f"its tokens have the ids {ids} and rows of {tuple(rows.shape)}")
        model.resize_token_embeddings(max(ids) + 1, mean_resizing=False)
        with torch.no_grad():
            for table in (model.get_input_embeddings(), model.get_output_embeddings()):
                table.weight[first:] = 0.0  # ids that the tokenizer skips
                table.weight[ids] = rows.to(table.weight)

    def _misfit(self, what: str) -> ModelLoadError:
        return ModelLoadError(
            f"The adapter {str(self.file)!r} does not fit its base {self.base!r}: {what}.",
            hint="Train it again over this base, or install the base that it was trained over.",
        )

    def unpack(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Return the configuration and the weights as peft names them, to train on from."""
        names = sorted(key[:-2] for key in self.tensors if key.endswith(".a"))
        rank = int(self.tensors[f"{names[0]}.a"].shape[0])
        layers = {int(number) for name in names for number in re.findall(r"\.layers\.(\d+)\.", name)}
        settings = {
            "r": rank,
            "lora_alpha": self.scale * rank,
            "target_modules": {name.rpartition(".")[2] for name in names},
            "layers_to_transform": sorted(layers),
        }
        weights = {
            f"base_model.model.{name}.lora_{side.upper()}.weight": self.tensors[f"{name}.{side}"].float()
            for name in names
            for side in "ab"
        }
        return settings, weights


def find_adapter(name: str) -> Adapter | None:
    """Return the adapter that a name stands for; ``None`` if it stands for something else.

    Args:
        name: of an adapter that ships (unless there is a file or folder of that name), or a file of ``pack_adapter``.

    Raises:
        ModelLoadError: the file is no adapter of ours, damaged, or was left out of this installation.
    """
    path = Path(name).expanduser()
    if path.is_file() and path.suffix == ".safetensors":
        return _read(path)
    if path.exists() or name not in _SHIPPED:
        return None
    if not _SHIPPED[name].exists():
        raise ModelLoadError(
            f"This installation lacks the adapter {name!r} ({_SHIPPED[name]}).",
            hint="Train it (python -m benchmarks.small train), and give the path of its file instead of the name.",
        )
    return _read(_SHIPPED[name])


def _read(file: Path) -> Adapter:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="pt") as opened:
            said = opened.metadata() or {}
            if said.get("format") != _FORMAT:
                raise ModelLoadError(
                    f"{str(file)!r} holds weights, and is no adapter that selfreflect wrote.",
                    hint="Of a whole checkpoint give the folder with its config.json.",
                )
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118  # it is no mapping
        tokens = tuple(json.loads(said["tokens"]))
        rates = _measured(file)
        return Adapter(file, said["base"], said["base_sha256"], float(said["scale"]), tokens, tensors, rates)
    except (SafetensorError, OSError, KeyError, ValueError) as error:
        raise ModelLoadError(f"The adapter {str(file)!r} cannot be read: {error}", hint="Fetch it again.") from error


def _measured(file: Path) -> Mapping[str, Mapping[str, float]] | None:
    """Read the reply rates from the card beside an adapter, if it has a card and that is of these very weights."""
    card = file.with_suffix(".json")
    if not card.is_file():
        return None
    said = json.loads(card.read_text(encoding="utf-8"))
    return said.get("reply_rates") if said.get("sha256") == sha256_of(file) else None


def pack_adapter(folder: str | Path, file: str | Path, *, base: str, model: Any, tokens: Mapping[str, int]) -> Path:
    """Write a LoRA adapter of peft, with the rows of the tokens that were added to its base, to one file.

    Args:
        folder: that holds ``adapter_config.json`` and ``adapter_model.safetensors``.
        file: to write, in bfloat16.
        model: the base with the tokens added.
        tokens: added tokens and their ids.

    Raises:
        InputError: the adapter is not plain LoRA.
        ModelLoadError: the base is not installed, or the folder holds no adapter.
    """
    import torch
    from safetensors.torch import load_file, save_file

    folder, file = Path(folder), Path(file)
    try:
        how = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))
        found = load_file(folder / "adapter_model.safetensors")
    except (OSError, ValueError) as error:
        raise ModelLoadError(f"{str(folder)!r} holds no adapter of peft: {error}") from error
    if how.get("peft_type") != "LORA" or how.get("use_rslora") or how.get("use_dora") or how.get("rank_pattern"):
        raise InputError(f"The adapter {str(folder)!r} is not plain LoRA.", hint="Train with method='lora'.")
    ids = list(tokens.values())
    tensors = {_TOKENS: model.get_input_embeddings().weight.detach()[ids].bfloat16().contiguous()}
    for key, value in found.items():
        name, lora, side = key.removeprefix("base_model.model.").rpartition(".lora_")
        if lora:  # peft writes whole embeddings too, where tokens were added
            tensors[f"{name}.{side[0].lower()}"] = value.to(torch.bfloat16).contiguous()
    source = find_gguf(base)
    if source is None:
        raise ModelLoadError(f"{base!r} is no packaged model.")
    said = {
        "format": _FORMAT,
        "base": base,
        "base_sha256": sha256_of(source),
        "scale": repr(how["lora_alpha"] / how["r"]),
        "tokens": json.dumps(list(tokens)),
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    save_file(tensors, file, metadata=said)
    return file
