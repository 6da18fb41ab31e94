"""The items of a page's lists have the numbers and bullets that a browser shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from shared_core.documents import load_document


def shown(folder: Path, body: str) -> str:
    path = folder / "page.html"
    path.write_text(f"<html><body><main><p>Before.</p>{body}</main></body></html>", encoding="utf-8")
    return load_document(path).text.removeprefix("Before.").strip("\n")


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("<ol><li>Press.</li><li>Wait.</li></ol>", "1. Press.\n2. Wait."),
        ("<ol start=3><li>Press.<li value=7>Wait.<li>Go.</ol>", "3. Press.\n7. Wait.\n8. Go."),
        ("<ol type=a><li>Press.</li><li>Wait.</li></ol>", "a. Press.\nb. Wait."),
        ("<ol type=I><li>Press.</li><li>Wait.</li></ol>", "I. Press.\nII. Wait."),
        ("<ol reversed><li>Press.</li></ol>", "Press."),
        ("<ol start=x><li>Press.</li></ol>", "1. Press."),
        ("<ul><li>A rope</li><li><b>A</b> drum</li></ul>", "- A rope\n- A drum"),
        ("<ol><li>Press<ul><li>hard</li></ul></li><li>Wait</li></ol>", "1. Press\n\n  - hard\n\n2. Wait"),
        ("<ol><li><p>Press.</p><p>Hard.</p></li><li><p>Wait.</p></li></ol>", "1. Press.\n\nHard.\n\n2. Wait."),
        ("<ol><li>1) Press.</li><li>(b) Wait.</li><li>• Go.</li></ol>", "1) Press.\n(b) Wait.\n• Go."),  # has its own
        ("<ul><li></li><li>A rope</li></ul><p>After.</p>", "- A rope\n\nAfter."),
        ("<ul><li><h2>Rope</h2></li></ul>", "Rope"),
        ("<ul><li><pre>  make</pre></li></ul>", "  make"),
        ("<table><tr><td><ul><li>small<li>big</ul></td><td>3</td></tr></table>", "small big\t3"),
        ("<li>no list</li></ul></ol>", "no list"),
        ("<menu><li>Open</li></menu>", "- Open"),
    ],
)
def test_marks(tmp_path: Path, body: str, text: str) -> None:
    assert shown(tmp_path, body) == text


def test_deep_lists_end(tmp_path: Path) -> None:
    assert "deep" in shown(tmp_path, "<ul><li>" * 300 + "deep")
