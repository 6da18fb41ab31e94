"""The site of the docs: its navigation holds every page once, and links of README and docs lead somewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docs_pages import PAGES, ROOT

DOCS = ROOT / "docs"
_CODE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def leaves(nav: Any) -> Iterator[str]:
    for entry in nav:
        (found,) = entry.values()
        yield from leaves(found) if isinstance(found, list) else [found]


def anchors(page: Path) -> set[str]:
    """Ids of a page's headings, as both mkdocs and GitHub make them."""
    titles = re.findall(r"^#+ (.*)$", _CODE.sub("", page.read_text("utf-8")), re.MULTILINE)
    return {re.sub(r"[\s]+", "-", re.sub(r"[^\w\s-]", "", t).strip().lower()) for t in titles}


def test_the_navigation_holds_every_page_once() -> None:
    yaml = pytest.importorskip("yaml")
    configuration = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))
    assert configuration["strict"]
    names = sorted(path.name for path in DOCS.glob("*.md"))
    assert sorted(leaves(configuration["nav"])) == names
    start = (DOCS / "index.md").read_text("utf-8")
    assert {name for name in names if f"({name})" not in start} == {"index.md"}


@pytest.mark.parametrize("name", PAGES)
def test_links_of_a_page_lead_somewhere(name: str) -> None:
    page = ROOT / name
    text = page.read_text("utf-8")
    assert text.startswith("# ")
    for target in re.findall(r"\]\(([^)\s]+)\)", _CODE.sub("", text)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = page.parent / path if path else page
        assert file.exists(), target
        assert page.parent in file.resolve().parents, f"{target} is not part of the site"
        assert not anchor or anchor in anchors(file), target
