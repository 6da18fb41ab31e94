"""Load and check checkpoints of transformers: for ``TransformersLM``, which asks them, for training and inspection.

torch and transformers are imported inside the functions, after ``require_packages`` has looked for them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from shared_core.errors import InputError, MissingDependencyError, ModelLoadError
from shared_core.lm._hf.adapter import find_adapter as find_adapter
from shared_core.lm._hf.gguf import dequantised, find_gguf, first_line
from shared_core.lm._hf.traits import context_length as context_length


def load_checkpoint(
    name: str,
    tokenizer: Any = None,
    *,
    device: str | None = None,
    dtype: Any = None,
    trust_remote_code: bool = False,
    quantization: Any = None,
) -> tuple[Any, Any]:
    """Load a model and its tokenizer by hub name, local path, GGUF file, or name of a model in a package.

    Those are ``smollm2``, and ``small``, the adapter over it that ships with this package.

    Args:
        tokenizer: object, name or path; the model's own if ``None``.
        device: where to put the model; an accelerator if there is one.
        dtype: of the weights; ``default_dtype`` if ``None`` (of a GGUF file: bfloat16 where that is computed in).
        trust_remote_code: run code that comes with the checkpoint.
        quantization: a configuration of transformers (``BitsAndBytesConfig`` …).

    Raises:
        InputError: there is no such dtype.
        ModelLoadError: there is no such model, the path is not a checkpoint, weights are missing, a GGUF file cannot
            be read, an adapter is over another base, or the hub cannot be reached.
    """
    adapter = find_adapter(name)
    if adapter is None:
        return _load_whole(name, tokenizer, device, dtype, trust_remote_code, quantization)
    if quantization is not None:
        raise InputError("An adapter cannot be merged into quantised weights.", hint="Leave the quantization out.")
    base, tokenizer = _load_whole(str(adapter.base_file()), tokenizer, device, dtype, False, None)
    adapter.merge(base, tokenizer)
    return base, tokenizer


def packaged_file(name: str) -> Path | None:
    """Return the file that a name stands for: an adapter's, a GGUF file's; ``None`` for folders and names of the hub.

    ModelLoadError if its package is not installed.
    """
    adapter = find_adapter(name)
    return adapter.file if adapter is not None else find_gguf(name)


def _load_whole(
    name: str, tokenizer: Any, device: str | None, dtype: Any, trust_remote_code: bool, quantization: Any
) -> tuple[Any, Any]:
    import torch

    device = device or default_device()
    dtype = check_dtype(dtype)
    file = find_gguf(name)
    if file is not None:
        if dtype in (None, "auto"):  # quantised values have fewer bits than either
            exact = dtype is None and device.startswith("cpu") and not computes_bfloat16(device)
            dtype = torch.float32 if exact else torch.bfloat16
        name = dequantised(file, dtype, with_tokenizer=tokenizer is None)
    return _read_folder(name, tokenizer, device, dtype, trust_remote_code, quantization)


def _read_folder(
    name: str, tokenizer: Any, device: str, dtype: Any, trust_remote_code: bool, quantization: Any
) -> tuple[Any, Any]:
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    path = Path(name).expanduser()
    local = path.exists()
    if local:
        _check_checkpoint(path)
    offline = any(os.environ.get(v, "").lower() in {"1", "true", "yes", "on"} for v in _OFFLINE)
    options: dict[str, Any] = {"local_files_only": local or offline, "trust_remote_code": trust_remote_code}
    source = str(path) if local else name
    try:
        if tokenizer is None:
            tokenizer = AutoTokenizer.from_pretrained(source, **options)
        elif isinstance(tokenizer, str):  # may be on the hub though the model is not
            here = offline or Path(tokenizer).expanduser().exists()
            tokenizer = AutoTokenizer.from_pretrained(tokenizer, **{**options, "local_files_only": here})
        config = AutoConfig.from_pretrained(source, **options)
        if quantization is not None:
            options["quantization_config"] = quantization
        if quantization is not None or getattr(config, "quantization_config", None) is not None:
            options["device_map"] = {"": device}  # it cannot be moved after it is loaded
        model, report = AutoModelForCausalLM.from_pretrained(
            source,
            dtype=dtype or default_dtype(device, getattr(config, "dtype", None)),
            output_loading_info=True,
            **options,
        )
    except MemoryError:
        raise
    except Exception as error:
        raise ModelLoadError(
            f"No causal language model could be loaded from {name!r}: {type(error).__name__}: {first_line(error)}",
            hint=_load_hint(name, local, offline),
        ) from error
    _check_complete(name, report)
    return model if "device_map" in options else model.to(device), tokenizer


_SHOWN = 5  # weights named in a message


def _check_complete(name: str, report: Mapping[str, Any]) -> None:
    """Refuse a checkpoint some of whose weights would be random numbers."""
    missing = sorted(report.get("missing_keys") or ())
    if missing:
        more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
        raise ModelLoadError(
            f"The checkpoint {name!r} lacks {', '.join(missing[:_SHOWN])}{more}: they would be random.",
            hint="Download or save it again in full; config.json must be that of these weights.",
        )


def moved(model: Any, device: str | None, dtype: Any) -> Any:
    """Move a loaded model to a device and dtype; InputError if quantised or spread over devices, settled at loading."""
    if device is None and dtype is None:
        return model
    import torch

    places = getattr(model, "hf_device_map", None) or {}
    fixed = getattr(model, "is_quantized", False) or len(set(map(str, places.values()))) > 1
    if not fixed:
        return model.to(device=device, dtype=dtype)
    there = device is None or torch.device(device).type == model.device.type
    if dtype is None and there:
        return model
    raise InputError(
        "A model that is quantised or spread over devices cannot be moved or converted.",
        hint="Load it where it is to run (device_map= and dtype= of from_pretrained) and leave them out here.",
    )


_NEUTRAL: dict[str, tuple[object, ...]] = {
    "repetition_penalty": (1, 1.0), "no_repeat_ngram_size": (0,), "encoder_repetition_penalty": (1, 1.0),
    "encoder_no_repeat_ngram_size": (0,), "exponential_decay_length_penalty": (), "min_p": (0, 0.0), "top_h": (),
    "typical_p": (1, 1.0), "epsilon_cutoff": (0, 0.0), "eta_cutoff": (0, 0.0), "bad_words_ids": (),
    "suppress_tokens": (), "begin_suppress_tokens": (), "sequence_bias": (), "guidance_scale": (1, 1.0),
    "forced_bos_token_id": (), "forced_eos_token_id": (), "watermarking_config": (), "penalty_alpha": (0, 0.0),
}  # fmt: skip


def ignored_settings(model: Any) -> list[str]:
    """List the settings of the model's ``generation_config`` that would change its distribution; none is applied."""
    config = getattr(model, "generation_config", None)
    found = {name: getattr(config, name, None) for name in _NEUTRAL}
    return [f"{n}={v!r}" for n, v in found.items() if v is not None and v not in _NEUTRAL[n] and v != []]


_OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")


def _check_checkpoint(path: Path) -> None:
    if not path.is_dir():
        raise ModelLoadError(
            f"{str(path)!r} is a file, and neither a checkpoint nor a GGUF file.",
            hint="Give the folder that holds config.json, the weights and the tokenizer; or a file NAME.gguf.",
        )
    if not (path / "config.json").exists():
        adapter = (path / "adapter_config.json").exists()
        raise ModelLoadError(
            f"The folder {str(path)!r} is not a checkpoint: it has no config.json.",
            hint="It holds an adapter: merge it into its base model first."
            if adapter
            else "Give the folder that `save_pretrained` wrote, or one that holds a GGUF file.",
        )


def _load_hint(name: str, local: bool, offline: bool) -> str:
    if local:
        return (
            "The folder must hold config.json, weights (safetensors) and tokenizer files of one causal language model."
        )
    if name.startswith((".", "/", "~")) or name.count("/") > 1:
        return "There is no such folder."
    if offline:
        return "The hub is switched off (HF_HUB_OFFLINE) and the model is not in the local cache: give a local path."
    return "Check the name, the network and access to the model, or give the path of a checkpoint on this machine."


def default_device() -> str:
    """Return the accelerator if there is one, else ``cpu``."""
    import torch

    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def computes_bfloat16(device: str) -> bool:
    """Return whether the device is a CPU with instructions for bfloat16; others emulate it, which is slow."""
    import torch

    able: Mapping[str, Any] = getattr(torch.cpu, "get_capabilities", dict)() if device.startswith("cpu") else {}
    return any(able.get(name) for name in ("avx512_bf16", "amx_bf16", "arm_bf16", "sve_bf16"))


def default_dtype(device: str, saved: Any) -> Any:
    """Return the dtype to load weights in: as they were saved, but on a CPU float32 for what it does not compute in.

    Args:
        device: where they will be.
        saved: the dtype of the checkpoint, if it tells.
    """
    import torch

    if not device.startswith("cpu"):
        return "auto"
    return torch.bfloat16 if saved in (torch.bfloat16, "bfloat16") and computes_bfloat16(device) else torch.float32


def check_dtype(dtype: Any) -> Any:
    """Return a dtype of torch by its name; ``None`` and ``"auto"`` unchanged. InputError if there is no such dtype."""
    import torch

    if dtype is None or dtype == "auto":
        return dtype
    found = getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
    if isinstance(found, torch.dtype):
        return found
    raise InputError(f"There is no dtype {dtype!r}.", hint="Use 'float32', 'bfloat16', 'float16' or 'auto'.")


def default_cache_bytes(device: Any) -> int:
    """Return the memory to give to the keys and values of one batch."""
    import torch

    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0] // 2)  # the other half is for activations and logits
    return 2 << 30


def load_tokenizer(tokenizer: Any, name: str, *, trust: bool = False) -> Any:
    """Return the tokenizer of the model ``name`` from an object, a name or a path; ModelLoadError if there is none."""
    if isinstance(tokenizer, str) or hasattr(tokenizer, "__fspath__"):
        from transformers import AutoTokenizer

        try:
            return AutoTokenizer.from_pretrained(str(tokenizer), trust_remote_code=trust)
        except Exception as error:
            raise ModelLoadError(f"No tokenizer could be loaded from {str(tokenizer)!r}: {error}") from error
    if tokenizer is None:
        raise ModelLoadError(f"The model {name!r} came without a tokenizer.", hint="TransformersLM(model, tokenizer)")
    return tokenizer


def eos_ids(model: Any, tokenizer: Any) -> list[int]:
    """Return the tokenizer's EOS first, then the other ids at which the model should stop (end of turn, …)."""
    declared = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    if declared is None:
        declared = getattr(model.config, "eos_token_id", None)
    others = declared if isinstance(declared, (list, tuple)) else [declared]
    size = int(model.get_input_embeddings().num_embeddings)  # configurations may name ids that were cut off
    ids = dict.fromkeys(int(i) for i in [tokenizer.eos_token_id, *others] if i is not None)
    return [i for i in ids if 0 <= i < size]


def installed(package: str) -> bool:
    """Return whether a package can be imported."""
    return find_spec(package) is not None


def require_packages() -> None:
    """Raise MissingDependencyError if torch or transformers is not installed."""
    for package in ("torch", "transformers"):
        if not installed(package):
            raise MissingDependencyError(package, extra="transformers", purpose="A local language model")
