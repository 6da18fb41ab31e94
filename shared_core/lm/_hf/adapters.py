"""Share one model between several adapters: activate the right one, under one lock."""

from __future__ import annotations

import threading
import weakref
from typing import Any

from shared_core.errors import InputError

_locks: weakref.WeakKeyDictionary[Any, threading.RLock] = weakref.WeakKeyDictionary()
_locks_lock = threading.Lock()


class Adapters:
    """The adapter that a backend runs a model with, and the lock of that model.

    Attributes:
        base: the model to run; of a ``PeftModel`` the one that its adapters were put into.
        name: of the adapter; ``None`` without one.
        lock: shared by all backends over the same model: hooks and the active adapter belong to the model.

    Raises:
        InputError: the model has no adapter of that name.
    """

    def __init__(self, model: Any, adapter: str | None) -> None:
        known = getattr(model, "peft_config", None)
        self._peft = model if isinstance(known, dict) and hasattr(model, "get_base_model") else None
        if adapter is not None and (self._peft is None or adapter not in (known or {})):
            raise InputError(
                f"The model has no adapter {adapter!r}.",
                hint=f"It has: {', '.join(known)}." if known else "Load it as a PeftModel (peft).",
            )
        active = getattr(model, "active_adapter", None) if self._peft is not None else None
        self.name = adapter if adapter is not None else active if isinstance(active, str) else None
        self.base = self._peft.get_base_model() if self._peft is not None else model
        with _locks_lock:
            self.lock = _locks.setdefault(self.base, threading.RLock())

    def switch(self) -> None:
        """Activate the adapter; call it with the lock held."""
        if self._peft is not None and self.name is not None and self._peft.active_adapter != self.name:
            self._peft.set_adapter(self.name)
