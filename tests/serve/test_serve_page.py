"""The page: nothing from elsewhere, documents stay text, every control has a name."""

from __future__ import annotations

import base64
import hashlib
import re
from importlib.resources import files

import pytest

from tests.command import selfreflect
from tests.serve.engines import MakeClient

soups = pytest.importorskip("bs4")
PAGE = files("shared_core.serve").joinpath("page.html").read_text("utf-8")


def test_the_policy_allows_the_pages_own_script_and_style_only(client: MakeClient) -> None:
    response = client().get("/")
    assert response.text == PAGE
    policy = response.headers["content-security-policy"]
    for tag in ("script", "style"):
        (text,) = (element.string for element in soups.BeautifulSoup(PAGE, "html.parser").find_all(tag))
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_nothing_is_loaded_from_elsewhere_and_no_text_becomes_markup() -> None:
    assert not re.search(r"https?://|//cdn", PAGE)
    for sink in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "srcdoc", "DOMParser"):
        assert sink not in PAGE
    soup = soups.BeautifulSoup(PAGE, "html.parser")
    assert not [name for tag in soup.find_all() for name in tag.attrs if name.startswith("on") or name == "style"]


def test_every_control_has_a_name_and_every_reference_exists() -> None:
    soup = soups.BeautifulSoup(PAGE, "html.parser")
    ids = {tag["id"] for tag in soup.find_all(id=True)}
    labelled = {label["for"] for label in soup.find_all("label")}
    for control in soup.find_all(["input", "textarea"]):
        assert control["id"] in labelled or control.get("aria-labelledby") in ids, control
    assert all(button.get_text(strip=True) for button in soup.find_all("button"))
    references = [
        name for tag in soup.find_all() for a in ("aria-controls", "aria-labelledby", "for") if (name := tag.get(a))
    ]
    assert set(references) <= ids
    assert set(re.findall(r'\$\("([\w-]+)"\)', PAGE)) <= ids
    assert soup.html["lang"] == "en"
    assert soup.find("meta", attrs={"name": "viewport"})
    assert soup.find(attrs={"aria-live": "polite"})


def test_a_missing_extra_is_named_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "uvicorn", None)
    result = selfreflect("serve", "--docs", "nowhere")
    assert result.exit_code == 1
    assert "pip install 'selfreflect-rag[serve]'" in result.output
