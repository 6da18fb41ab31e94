"""A model server in a process of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path

VLLM_ENVIRONMENT = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"}
VLLM_OPTIONS = (
    "-m vllm.entrypoints.openai.api_server --block-size 32 --enforce-eager --no-enable-chunked-prefill "
    '--enable-tokenizer-info-endpoint --structured-outputs-config {"backend":"guidance"}'
)


class Server:
    """A process that serves a model on 127.0.0.1.

    Args:
        command: to start it, without host and port.
        log: file for what it prints.
    """

    def __init__(self, command: Sequence[str], log: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        with log.open("wb") as out:
            self.process = subprocess.Popen(
                [*command, "--host", "127.0.0.1", "--port", port],
                stdout=out,
                stderr=out,
                env={**os.environ, **VLLM_ENVIRONMENT},
            )
        self.url = f"http://127.0.0.1:{port}/v1"
        for _ in range(600):
            assert self.process.poll() is None, log.read_text()[-4000:]
            try:
                urllib.request.urlopen(f"{self.url}/models", timeout=5).close()
                return
            except OSError:
                time.sleep(1)
        self.process.kill()
        raise AssertionError(f"The server did not start:\n{log.read_text()[-4000:]}")

    def stop(self) -> None:
        ended = self.process.poll()
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
        assert ended is None, "Something that was sent has ended the server."
