"""Put together the pieces of a streamed answer (server-sent events) to the answer that it would have been."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any


class Collected:
    """Answer that grows with each line of a stream.

    Args:
        heard: called with the index of a choice and each piece of its text.

    Attributes:
        ended: the server said that nothing follows.
        rest: lines that are no event, of a server that does not stream or fails: JSON, or a web page.
        error: what the server said went wrong in the middle.
    """

    def __init__(self, heard: Callable[[int, str], None]) -> None:
        self._heard = heard
        self._choices: dict[int, dict[str, Any]] = {}
        self._fields: dict[str, Any] = {}
        self.ended = False
        self.rest = ""
        self.error: object = None

    def __bool__(self) -> bool:
        return bool(self._choices)

    @property
    def whole(self) -> bool:
        """Whether every choice has come to its end."""
        ends = [c.get("finish_reason") is not None for c in self._choices.values()]
        return self.error is None and ((bool(ends) and all(ends)) or bool(self._plain()))

    def take(self, line: str) -> None:
        """Take the next line."""
        if not line.startswith("data:"):
            if line and not line.startswith((":", "event:", "id:", "retry:")):
                self.rest += line + "\n"
            return
        data = line.removeprefix("data:").strip()
        if data == "[DONE]":
            self.ended = True
            return
        try:
            event = json.loads(data)
        except (ValueError, RecursionError):
            event = None
        if not isinstance(event, Mapping):
            return
        if event.get("error"):
            self.error, self.ended, self.rest = event["error"], True, str(event["error"])
            return
        self._fields |= {k: v for k, v in event.items() if k != "choices" and v is not None}
        for choice in event.get("choices") or ():
            if isinstance(choice, Mapping):
                self._add(choice)

    def _add(self, piece: Mapping[str, Any]) -> None:
        index = piece.get("index")
        index = index if isinstance(index, int) else 0
        whole = self._choices.setdefault(index, {"index": index, "finish_reason": None})
        delta = piece.get("delta")
        if isinstance(delta, Mapping):
            message = whole.setdefault("message", {"role": "assistant", "content": ""})
            text = delta.get("content")
            for name in ("reasoning_content", "reasoning", "refusal"):
                if isinstance(delta.get(name), str):
                    message[name] = message.get(name, "") + delta[name]
            message["content"] += text if isinstance(text, str) else ""
        else:
            text = piece.get("text")
            whole["text"] = whole.get("text", "") + (text if isinstance(text, str) else "")
        for name in ("finish_reason", "stop_reason"):
            if name in piece:
                whole[name] = piece[name] if piece[name] is not None else whole.get(name)
        if isinstance(piece.get("token_ids"), list):
            whole["token_ids"] = [*whole.get("token_ids", ()), *piece["token_ids"]]
        if isinstance(piece.get("logprobs"), Mapping):
            lists = whole.setdefault("logprobs", {})
            for name, values in piece["logprobs"].items():
                if isinstance(values, list):
                    lists[name] = [*lists.get(name, ()), *values]
        if isinstance(text, str) and text:
            self._heard(index, text)

    def answer(self) -> dict[str, Any]:
        """Return the whole answer."""
        return self._plain() or {**self._fields, "choices": [self._choices[i] for i in sorted(self._choices)]}

    def _plain(self) -> dict[str, Any]:
        """Return the answer of a server that does not stream, or nothing."""
        try:
            found = json.loads(self.rest) if self.rest and not self._choices else None
        except (ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) and found.get("choices") else {}
