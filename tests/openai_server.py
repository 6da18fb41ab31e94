"""A small OpenAI-compatible server for tests: an obedient one, or one that fails in every way servers fail.

It runs in this process on an ephemeral port of 127.0.0.1. Its tokenizer knows a few control tokens and else one token
for each character; its model says what it is told to.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import accumulate
from typing import Any

CONTROL = {"<s>": 1, "</s>": 2, "[Relevant]": 3, "[Irrelevant]": 4, "<|im_start|>": 5, "<|im_end|>": 6, "[Odd]": 7}
ALL = frozenset(
    {"n", "logprobs", "given_ids", "returns_ids", "grammar", "id_prompts", "tokenize", "info", "prompt_logprobs"}
    | {"echo", "chat", "completions", "continues", "stop_tokens", "penalties", "top_k", "stream"}
)
"""What a vLLM server does."""
LLAMA = frozenset({"logprobs", "echo", "gbnf", "chat", "completions", "penalties", "llama", "stream", "version"})
"""What llama-cpp-python's server does: it answers an invalid field with 500, and dies of a grammar it cannot read."""

_FIELDS = {
    "model", "messages", "prompt", "max_tokens", "max_completion_tokens", "temperature", "top_p", "stop", "seed", "n",
    "logprobs",
}  # fmt: skip
_BY_FEATURE = {
    "given_ids": {"logprob_token_ids", "return_tokens_as_token_ids"},
    "returns_ids": {"return_token_ids", "skip_special_tokens", "spaces_between_special_tokens"},
    "stop_tokens": {"stop_token_ids", "ignore_eos", "include_stop_str_in_output"},
    "penalties": {"presence_penalty", "frequency_penalty"}, "top_k": {"top_k", "min_p", "repetition_penalty"},
    "grammar": {"structured_outputs"}, "prompt_logprobs": {"prompt_logprobs"},
    "continues": {"continue_final_message", "add_generation_prompt"}, "echo": {"echo"}, "logprobs": {"top_logprobs"},
    "stream": {"stream"}, "llama": {"top_k", "min_p", "repeat_penalty"}, "gbnf": {"grammar"},
}  # fmt: skip

Fault = Mapping[str, Any]
"""``status``, ``body`` (text or what is to become JSON), ``headers``, ``delay`` (seconds), ``drop`` (no answer)."""


def tokenize(text: str, *, special: bool = True) -> list[int]:
    """Ids as the server's tokenizer makes them."""
    pieces = re.split("(" + "|".join(map(re.escape, CONTROL)) + ")", text)
    return [1] * special + [i for p in pieces for i in ([CONTROL[p]] if p in CONTROL else [1000 + ord(c) for c in p])]


def decode(ids: Iterable[int]) -> str:
    """The text of ids."""
    names = {i: s for s, i in CONTROL.items()}
    return "".join(names[i] if i in names else chr(i - 1000) for i in ids)


class FakeServer:
    """An OpenAI-compatible server in a thread.

    Args:
        features: of ``ALL``; what is not there is ignored, or refused if ``strict``.
        strict: refuse unknown fields, as OpenAI does.
        reply: the model: text for a request body.
        models: entries of ``/v1/models``.
        logprob: of every generated token.
        refused: fields that are always refused.
        refuses: returns the words with which it refuses a request for text, or none.
        defaults: what the model's ``generation_config.json`` says; it holds where a request says nothing.
        root: path of the API.

    Attributes:
        faults: played for the next requests for text, one each, in the place of answers; ``None`` answers normally.
        requests: (path, body, headers) of every request, in order.
        connections: opened so far; sent: words of streams written so far.
        broken: words after which a stream breaks off; pause: seconds between two of them.
        script: answers requests for text in the place of the model (body, whether it is a chat → status, answer).
        listing: status and answer in the place of the list of models.
    """

    def __init__(
        self,
        features: Iterable[str] = ALL,
        *,
        strict: bool = False,
        reply: Callable[[Mapping[str, Any]], str] = lambda body: "The sky is blue",
        models: Iterable[Mapping[str, Any]] = ({"id": "tiny", "max_model_len": 500},),
        logprob: Any = -0.5,
        rivals: Mapping[str, Any] | None = None,
        refused: Iterable[str] = (),
        refuses: Callable[[Mapping[str, Any]], str | None] = lambda body: None,
        defaults: Mapping[str, Any] | None = None,
        root: str = "/v1",
    ) -> None:
        self.features, self.strict, self.reply, self.logprob = frozenset(features), strict, reply, logprob
        self.models, self.rivals = list(models), dict(rivals or {})
        self.refused, self.refuses, self.defaults = frozenset(refused), refuses, dict(defaults or {})
        self.version, self.root = "1.0", root
        self.dead = False
        self.faults: deque[Fault | None] = deque()
        self.requests: list[tuple[str, dict[str, Any], dict[str, str]]] = []
        self.lock = threading.Lock()
        self.busy = self.busiest = self.connections = self.sent = 0
        self.broken: int | None = None
        self.pause = 0.0
        self.script: Callable[[dict[str, Any], bool], tuple[int, Any]] | None = None
        self.listing: tuple[int, Any] | None = None
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # or each body waits 40 ms for the header's receipt

            def do_GET(self) -> None:
                outer._handle(self, {})

            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers.get("content-length") or 0))
                outer._handle(self, json.loads(raw))

            def setup(self) -> None:
                super().setup()
                outer.connections += 1

            def log_message(self, *args: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *args: Any) -> None:
                pass  # clients that gave up

        self._server = Server(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    def __enter__(self) -> FakeServer:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def texts(self) -> list[dict[str, Any]]:
        """The bodies of the requests for text so far."""
        return [b for p, b, _ in self.requests if p.endswith("completions")]

    # --- answering ---------------------------------------------------------------------------------------------

    def _handle(self, handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        with self.lock:
            self.requests.append((handler.path, body, {k.lower(): v for k, v in handler.headers.items()}))
            asked = handler.path.partition("?")[0].endswith("completions")
            fault = self.faults.popleft() if asked and self.faults else None
            self.busy += 1
            self.busiest = max(self.busiest, self.busy)
        try:
            if fault is not None:
                self._play(handler, fault)
                return
            status, answer = self._answer(handler.path, body)
            if status == 200 and body.get("stream") and "stream" in self.features:
                self._stream(handler, answer)
            elif status:
                self._write(handler, status, answer)
            else:  # the server is dead
                handler.close_connection = True
        finally:
            with self.lock:
                self.busy -= 1

    def _play(self, handler: BaseHTTPRequestHandler, fault: Fault) -> None:
        time.sleep(fault.get("delay", 0))
        if fault.get("drop"):
            handler.close_connection = True
            return
        body = fault.get("body", {"error": {"message": "played"}})
        length = fault.get("length")
        headers = fault.get("headers", {}) | ({"Content-Length": str(length)} if length else {})
        self._write(handler, fault.get("status", 200), body, headers)
        if length:
            handler.close_connection = True

    def _write(
        self, handler: BaseHTTPRequestHandler, status: int, body: Any, headers: Mapping[str, str] | None = None
    ) -> None:
        text = body if isinstance(body, str) else json.dumps(body)
        raw = text.encode()
        handler.send_response(status)
        kind = "text/html" if text.startswith("<") else "application/json"
        for key, value in {"Content-Type": kind, "Content-Length": str(len(raw)), **(headers or {})}.items():
            handler.send_header(key, value)
        handler.end_headers()
        handler.wfile.write(raw)

    def _stream(self, handler: BaseHTTPRequestHandler, answer: Mapping[str, Any]) -> None:
        """Send an answer word by word; ``self.broken`` words and no end if that is set."""
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.end_headers()
        handler.close_connection = True
        (choice, *_) = answer["choices"]
        chat = "message" in choice
        text = choice["message"]["content"] if chat else choice["text"]
        words = re.findall(r"\s*\S+", text)
        for word in words[: self.broken]:
            piece = {"delta": {"content": word}} if chat else {"text": word}
            self._event(handler, {"choices": [{"index": 0, "finish_reason": None, **piece}]})
            self.sent += 1
            time.sleep(self.pause)
        if self.broken is None:
            end = {"index": 0, "finish_reason": choice["finish_reason"], "logprobs": choice.get("logprobs")}
            self._event(handler, {"choices": [{**end, **({"delta": {}} if chat else {"text": ""})}]})
            self._event(handler, {"choices": [], "usage": answer["usage"]})
            handler.wfile.write(b"data: [DONE]\n\n")

    def _event(self, handler: BaseHTTPRequestHandler, event: Mapping[str, Any]) -> None:
        handler.wfile.write(f": ping\n\ndata: {json.dumps(event)}\n\n".encode())
        handler.wfile.flush()

    def _answer(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        path = path.partition("?")[0]
        path = f"/v1{path.removeprefix(self.root)}" if path.startswith(self.root) else path
        if path == "/v1/models":
            return self.listing or (200, {"object": "list", "data": self.models})
        if path == "/openapi.json" and "version" in self.features:
            return 200, {"info": {"title": "played", "version": self.version}}
        if path == "/tokenize" and "tokenize" in self.features:
            return 200, {"tokens": tokenize(body["prompt"], special=body["add_special_tokens"])}
        if path == "/tokenizer_info" and "info" in self.features:
            return 200, {"added_tokens_decoder": {str(i): s for s, i in CONTROL.items() if s != "[Odd]"}}
        if path == "/v1/chat/completions" and "chat" in self.features:
            return self._text(body, chat=True)
        if path == "/v1/completions" and "completions" in self.features:
            return self._text(body, chat=False)
        return 404, {"detail": "Not Found"}

    def _text(self, body: dict[str, Any], *, chat: bool) -> tuple[int, Any]:
        if self.script is not None:
            return self.script(body, chat)
        if self.dead:
            return 0, None
        if "gbnf" in self.features and not str(body.get("grammar", "root ::= ")).startswith("root ::= "):
            self.dead = True
            return 0, None
        if "llama" in self.features and (body.get("top_k", 0) < 0 or not isinstance(body.get("prompt", ""), str)):
            said = "1 validation error:\n  {'type': 'greater_than_equal', 'loc': ('body', 'top_k')}"
            return 500, {"error": {"message": said, "type": "internal_server_error"}}
        if said := self.refuses(body):
            return 400, {"error": {"message": said}}
        known = _FIELDS.union(*(v for k, v in _BY_FEATURE.items() if k in self.features))
        unknown = sorted(set(body) - known)
        unknown = unknown if self.strict else sorted(self.refused & set(body))
        if unknown:
            return 400, {"error": {"message": f"Unrecognized request argument supplied: {unknown[0]}"}}
        if "continues" in self.features and body.get("continue_final_message") and body.get("add_generation_prompt"):
            return 400, {"error": {"message": "Cannot set both"}}
        if body["model"] not in {m["id"] for m in self.models}:
            return 404, {"error": {"message": f"The model `{body['model']}` does not exist.", "code": 404}}
        prompt = body.get("prompt", "")
        if isinstance(prompt, list) and "id_prompts" not in self.features:
            return 400, {"error": {"message": "prompt must be a string"}}
        n = body.get("n", 1) if "n" in self.features else 1
        size = len(prompt) if isinstance(prompt, list) else len(tokenize(str(prompt or body.get("messages"))))
        choices = [self._choice(body, i, chat=chat) for i in range(n)]
        usage = {"prompt_tokens": size, "completion_tokens": 4 * n, "prompt_tokens_details": {"cached_tokens": 1}}
        answer: dict[str, Any] = {"choices": choices, "usage": usage}
        if chat and body.get("return_token_ids") and "returns_ids" in self.features:
            answer["prompt_token_ids"] = tokenize(str(body["messages"]))
        return 200, answer

    def _choice(self, body: dict[str, Any], index: int, *, chat: bool) -> dict[str, Any]:
        said = self.reply({**self.defaults, **body})
        if "grammar" in self.features and "structured_outputs" in body:
            said = _obey(body["structured_outputs"]["grammar"])
        if "gbnf" in self.features and "grammar" in body:
            said = _obey(body["grammar"])
        limited = "top_k" in self.features or "llama" in self.features
        if limited and body.get("temperature") == 2.0 and body.get("top_k") == 40:
            said += " again"  # other draws
        if body.get("repeat_penalty", 1.0) > 1 and "llama" in self.features:
            said = "One " + said
        tokens = re.findall(r"\s*\S+", said)
        if body.get("echo") and "echo" in self.features:
            tokens = re.findall(r"\s*\S+", body["prompt"]) + tokens[:1]
            said = "".join(tokens)
        ids = [*range(10, 10 + len(tokens)), 2]
        ends = body.get("stop_token_ids") if "stop_tokens" in self.features else None
        at = next((i for i, token in enumerate(ids) if token in (ends or ())), None)
        if at is not None:  # the token that ends a text is not in it unless asked for
            shown = at + bool(body.get("include_stop_str_in_output"))
            said, tokens, ids = "".join(tokens[:shown]), tokens[: at + 1], ids[: at + 1]
        offsets = [0, *accumulate(map(len, tokens))][: len(tokens)]
        choice: dict[str, Any] = {"index": index, "finish_reason": "stop"}
        choice |= {"message": {"role": "assistant", "content": said}} if chat else {"text": said}
        if "returns_ids" in self.features:
            choice["stop_reason"] = None if at is None else ids[at]
            if body.get("return_token_ids"):
                choice["token_ids"] = ids
        if body.get("logprobs") and "logprobs" in self.features:
            choice["logprobs"] = self._logprobs(body, tokens, offsets, chat=chat)
        if "prompt_logprobs" in body and "prompt_logprobs" in self.features and isinstance(body["prompt"], list):
            rest = body["prompt"][1:]
            choice["prompt_logprobs"] = [None, *({str(i): {"logprob": self._score(i)}} for i in rest)]
        return choice

    def _score(self, token: int) -> Any:
        """The log-probability of an id of a prompt; those that the model writes have the one they are written with."""
        return self.logprob if 10 <= token < 100 else -token / 1000

    def _logprobs(self, body: dict[str, Any], tokens: list[str], offsets: list[int], *, chat: bool) -> dict[str, Any]:
        given = body.get("logprob_token_ids") if "given_ids" in self.features else None
        if given:
            tops: dict[str, Any] = {f"token_id:{i}": -float(i) for i in given}
            tokens = [f"token_id:{10 + i}" for i in range(len(tokens))]
        else:
            wanted = int(body.get("top_logprobs", 0) if chat else body["logprobs"])
            filler = {f"w{i}": -9.0 - i for i in range(wanted)}
            tops = dict(list({**self.rivals, **filler}.items())[:wanted])
        if chat:
            rivals = [{"token": t, "logprob": p} for t, p in tops.items()]
            return {"content": [{"token": t, "logprob": self.logprob, "top_logprobs": rivals} for t in tokens]}
        values = [self.logprob] * len(tokens)
        if body.get("echo"):
            own = set(re.findall(r"\s*\S+", " " + self.reply(body)))
            values = [None, *(self.logprob if t in own else -float(len(t)) for t in tokens[1:])]
            if "llama" in self.features:  # those of the positions behind
                values = [None, *(-float(len(t)) for t in tokens[1:])]
        return {
            "tokens": tokens,
            "token_logprobs": values,
            "top_logprobs": [tops for _ in tokens],
            "text_offset": offsets,
        }


def _obey(lark: str) -> str:
    """A text of the language of one of the two grammars that the tests use."""
    chunks = re.search(r"\{.*substring_chunks.*\}", lark)
    if chunks:
        return "".join(json.loads(chunks[0])["substring_chunks"])
    literal = re.search(r'"([^"]*)"', lark)
    return literal[1] if literal else ""
