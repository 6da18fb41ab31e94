"""What type checkers and IDEs see of both plug-ins."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.contract.facades import Facades

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("users_program.py")
# Packages whose types the program never meets: reading them would take mypy ten times as long as all the rest.
UNSEEN = (
    "torch,transformers,sentence_transformers,peft,huggingface_hub,onnxruntime,sklearn,scipy,numpy,pandas,matplotlib,PIL,"
    "openai,chromadb,sqlalchemy,langsmith,langgraph,langgraph_sdk,mcp,rich,markdown_it,typer,pytest,_pytest,jinja2,httpx,"
    "requests,urllib3,aiohttp,fastapi,starlette,uvicorn,websockets,opentelemetry,cryptography,httpx2,httpcore,anyio"
)


@pytest.mark.parametrize(
    "plugin", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["without pydantic's plugin", "with it"]
)
def test_a_users_program_is_type_checked(tmp_path: Path, plugin: bool) -> None:
    config = tmp_path / "mypy.ini"
    ours = "plugins = pydantic.mypy\n[pydantic-mypy]\ninit_typed = true\n" * plugin
    unseen = UNSEEN.replace(",", ".*,")
    skipped = f"[mypy-{unseen}.*]\nfollow_imports = skip\nignore_missing_imports = true\n"
    config.write_text(f"[mypy]\nstrict = true\n{ours}{skipped}", encoding="utf-8")
    cache = ROOT / ".mypy_cache" / ("user" if plugin else "user_without_plugin")
    command = [sys.executable, "-m", "mypy", "--config-file", str(config), "--cache-dir", str(cache),
               "--follow-imports=silent", str(PROGRAM)]  # fmt: skip
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    found = {(int(n), code) for n, code in re.findall(r"users_program\.py:(\d+): error: .*\[([a-z-]+)\]", told.stdout)}
    lines = PROGRAM.read_text(encoding="utf-8").splitlines()
    wrong = {(n, line.split("#")[1].strip()) for n, line in enumerate(lines, 1) if line.endswith("# wrong")}
    assert wrong
    assert found == wrong, told.stdout + told.stderr


def test_every_public_class_says_its_parameters(facades: Facades) -> None:
    for name, (made, _) in facades.public().items():
        if isinstance(made, dict):
            continue
        parameters = inspect.signature(type(made)).parameters.values()
        assert not [p for p in parameters if p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL)], name


def test_what_is_made_by_signature_is_made(facades: Facades) -> None:
    engine: Any = type(facades.engine())
    known = set(inspect.signature(engine).parameters)
    assert {"retriever", "llm", "settings", "target_accuracy", "pipeline", "on_abstain", "guarantee",
            "abstain_text", "deadline", "reader", "judge", "embedder", "models", "calibrations"} <= known  # fmt: skip
