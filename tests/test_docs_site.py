"""The site of the docs: its navigation holds every page once, and every link between pages leads somewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docs_pages import ROOT

yaml = pytest.importorskip("yaml")
DOCS = ROOT / "docs"
PAGES = sorted(path.name for path in DOCS.glob("*.md"))


def leaves(nav: Any) -> Iterator[str]:
    for entry in nav:
        (found,) = entry.values()
        yield from leaves(found) if isinstance(found, list) else [found]


def anchors(page: Path) -> set[str]:
    """Ids of a page's headings, as both mkdocs and GitHub make them."""
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[\s]+", "-", re.sub(r"[^\w\s-]", "", t).strip().lower()) for t in titles}


def test_the_navigation_holds_every_page_once() -> None:
    configuration = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))
    assert configuration["strict"]
    assert sorted(leaves(configuration["nav"])) == PAGES
    start = (DOCS / "index.md").read_text("utf-8")
    assert {page for page in PAGES if f"({page})" not in start} == {"index.md"}


@pytest.mark.parametrize("name", PAGES)
def test_links_of_a_page_lead_somewhere(name: str) -> None:
    text = (DOCS / name).read_text("utf-8")
    assert text.startswith("# ")
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = DOCS / path if path else DOCS / name
        assert file.exists(), target
        assert DOCS in file.resolve().parents, f"{target} is not part of the site"
        assert not anchor or anchor in anchors(file), target
