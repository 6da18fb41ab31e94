"""Read from a model's configuration which sequences can share a tree: plain reading of a mapping, no model.

A tree is decoded with one mask for all layers and with each branch's tokens anywhere in the cache. That is exact
where a token attends to everything before it, and where what is computed for it depends on its own position alone.
Architectures break this in ways that a trial of a few tokens does not show, because they only begin behind a number
of tokens that the configuration names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from shared_core.support.regex import lazy_regex


@dataclass(frozen=True, slots=True)
class Limit:
    """A token position from which something changes.

    Attributes:
        length: the longest sequence, in tokens, that it does not touch.
    """

    name: str
    length: int


@dataclass(frozen=True, slots=True)
class Switch:
    """Rotary frequencies that depend on the longest position of a whole forward pass.

    Attributes:
        kind: ``longrope`` has two sets of frequencies, one up to ``length`` tokens and one beyond; ``dynamic`` has
            another set for every length beyond.
        length: in tokens.
    """

    kind: Literal["longrope", "dynamic"]
    length: int


@dataclass(frozen=True, slots=True)
class Traits:
    """Traits that the configuration declares.

    Attributes:
        obstacle: why no sequence of this model can be in a tree; empty if nothing speaks against it.
        windows: sequences longer than one of these cannot be in a tree, whatever a mask says.
        suspects: keys that may mean such a limit, or one on the slots of the whole tree: to be tried.
        switch: of the rotary frequencies.
    """

    obstacle: str = ""
    windows: tuple[Limit, ...] = ()
    suspects: tuple[Limit, ...] = ()
    switch: Switch | None = None

    @property
    def window(self) -> Limit | None:
        """The shortest window."""
        return min(self.windows, key=lambda w: w.length, default=None)


_WINDOWS = ("sliding_window", "keep_window_size")
_SUSPECT = lazy_regex(r"window|chunk|(^|_)local|topk|top_k|block|sparse|stride|span|sink|mem_len|compress|floor")
_HARMLESS = lazy_regex(
    r"expert|moe|group|layer|step|pattern|multiple|feed_forward|lm_head|mamba|ssm|conv|iter|interval|vision|audio|image"
)
_STATIC_ROPE = {
    None, "default", "linear", "yarn", "llama3", "proportional", "mrope", "ntk_alpha", "xdrope", "axial",
}  # fmt: skip


def read_traits(config: Any) -> Traits:
    """Read the traits that a text configuration of transformers declares."""
    values: dict[str, Any] = config.to_dict()
    kinds = set(values.get("layer_types") or ())
    ropes = {str(k) for k, _ in _ropes(config) if k not in _STATIC_ROPE and k not in _LONGROPE | _DYNAMIC}
    obstacle = ""
    if kinds - {"full_attention", "sliding_attention"}:
        obstacle = f"its layers are {', '.join(sorted(kinds))}"
    elif values.get("index_topk_blocks"):
        obstacle = "it attends to chosen blocks of its cache (index_topk_blocks)"
    elif values.get("window_size") and "local" in (getattr(config, "attention_layers", None) or ()):
        obstacle = f"its local layers count the slots of the cache (window_size={values['window_size']})"
    elif ropes:
        obstacle = f"nothing is known about its rotary frequencies ({', '.join(sorted(ropes))})"
    windows = tuple(_windows(config, values, kinds))
    known = {*_WINDOWS, *(w.name for w in windows)}
    suspects = tuple(
        Limit(name, value)
        for name, value in values.items()
        if type(value) is int and value > 1 and name not in known and _is_suspect(name)
    )
    return Traits(obstacle, windows, suspects, _switch(config, values))


def _is_suspect(name: str) -> bool:
    return _SUSPECT.search(name) is not None and _HARMLESS.search(name) is None


def _windows(config: Any, values: Mapping[str, Any], kinds: set[str]) -> Iterator[Limit]:
    # Where layers are listed by kind, a window belongs to the sliding ones alone; other models name it and have a
    # switch beside it (Qwen).
    slides = "sliding_attention" in kinds if kinds else values.get("use_sliding_window", True) is not False
    size = getattr(config, "sliding_window", None)  # some configurations compute it
    if size and slides:
        yield Limit("sliding_window", int(size))
    keep = values.get("keep_window_size")  # Doge: only so many tokens are attended to, chosen anew for each token
    if keep:
        yield Limit("keep_window_size", int(keep))


_LONGROPE = {"longrope", "su"}
_DYNAMIC = {"dynamic"}


def _ropes(config: Any) -> Iterator[tuple[str | None, Mapping[str, Any]]]:
    """Return type and parameters of each rotary embedding; models have one, or one per kind of layer."""
    for name in ("rope_parameters", "rope_scaling"):
        found = getattr(config, name, None)
        if not isinstance(found, Mapping):
            continue
        nested = [v for v in found.values() if isinstance(v, Mapping)]
        for parameters in nested or [found]:
            yield parameters.get("rope_type", parameters.get("type")), parameters


def _switch(config: Any, values: Mapping[str, Any]) -> Switch | None:
    trained = int(values.get("max_position_embeddings") or 0)
    found: list[Switch] = []
    for kind, parameters in _ropes(config):
        if kind in _DYNAMIC:
            found.append(Switch("dynamic", trained))
        elif kind in _LONGROPE:
            original = parameters.get("original_max_position_embeddings")
            found.append(Switch("longrope", int(original or values.get("original_max_position_embeddings") or trained)))
    if values.get("use_dynamic_ntk"):  # the first Qwen, whose code comes with the checkpoint
        found.append(Switch("dynamic", int(values.get("seq_length") or trained)))
    if len({s.kind for s in found}) > 1:  # two kinds in one model: every length is its own
        return Switch("dynamic", min(s.length for s in found))
    return min(found, key=lambda s: s.length, default=None)


def context_length(config: Any) -> int | None:
    """Return the context length in tokens; ``None`` if the configuration does not say."""
    for name in ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "n_ctx"):
        value = getattr(config, name, None)
        if isinstance(value, int) and value > 0:
            return value
    return None
