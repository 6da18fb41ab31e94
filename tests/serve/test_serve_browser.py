"""The page in headless Chromium, as a reader uses it (`make test-browser`; pictures go to ``.screenshots``)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shared_core import SelfReflectEngine
from shared_core.documents import DocumentIndex
from shared_core.lm import ScriptedLM
from shared_core.serve import Limits, create_app
from tests.fakes import PASSAGES, Shelf
from tests.serve.engines import Serve, dead_model, make_engine

pytestmark = pytest.mark.browser
sync_api = pytest.importorskip("playwright.sync_api")
CHROMIUM = os.environ.get("SELFREFLECT_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
PICTURES = Path(__file__).resolve().parents[2] / ".screenshots"
QUESTION = "When was the lamp lit?"
HOSTILE = '<img src=x onerror="document.title=1">The <b>lamp</b> was lit in 1871.<script>document.title=2</script> Oil.'


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("no Chromium: install it, or name it in SELFREFLECT_CHROMIUM")
    with sync_api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A page that fails the test if a script fails, or if anything is asked of another host."""
    opened = browser.new_page(viewport={"width": 900, "height": 900})
    failures: list[str] = []
    opened.on("pageerror", lambda error: failures.append(str(error)))
    opened.on("request", lambda asked: None if "//127.0.0.1" in asked.url else failures.append(asked.url))
    yield opened
    opened.close()
    assert not failures


def ask(page: Any, base: str, question: str = QUESTION) -> None:
    page.goto(base)
    page.get_by_label("Question", exact=True).fill(question)
    page.get_by_role("button", name="Ask", exact=True).click()


def picture(page: Any, name: str) -> None:
    PICTURES.mkdir(exist_ok=True)
    page.screenshot(path=PICTURES / f"{name}.png", full_page=True)


def test_an_answer_with_its_quote_marked_and_the_slider(page: Any, serve: Serve) -> None:
    ask(page, serve(create_app(make_engine(support=0.8))))
    page.get_by_role("heading", name="Sources").wait_for()
    assert page.locator("#ask-sources mark").all_inner_texts() == ["The lamp was lit in 1871."]
    assert "burned whale oil" in page.locator("#source-1").inner_text()
    assert page.locator("#steps li").count() > 1
    slider = page.get_by_role("slider")
    assert "1 of 1 claims shown" in slider.get_attribute("aria-valuetext")
    slider.fill("0.95")
    assert slider.get_attribute("aria-valuetext").endswith("no answer.")
    picture(page, "answer")


def test_an_abstention_says_why_and_shows_the_nearest_quote(page: Any, serve: Serve) -> None:
    ask(page, serve(create_app(make_engine(support=0.2))))
    page.get_by_text("Not answered: support below target").wait_for()
    assert "The lamp was lit in 1871." in page.locator("#ask-sources blockquote").inner_text()
    picture(page, "abstention")


def test_text_of_documents_stays_text(page: Any, serve: Serve) -> None:
    passage = type(PASSAGES[0])("bad", HOSTILE, "<script>document.title=3</script>", {"source": "<i>bad.md"})
    ask(page, serve(create_app(make_engine(retriever=Shelf([passage])))))
    page.get_by_role("heading", name="Sources").wait_for()
    assert '<img src=x onerror="document.title=1">' in page.locator("#source-1").inner_text()
    assert page.locator("main img, main b, main i").count() == 0
    assert page.title() == "selfreflect"


def test_a_pasted_answer_is_checked_claim_by_claim(page: Any, serve: Serve) -> None:
    page.goto(serve(create_app(make_engine())))
    page.get_by_role("tab", name="Check an answer").click()
    page.get_by_label("Answer to check").fill("The lamp was lit in 1871. It burned coal.")
    page.get_by_role("button", name="Check", exact=True).click()
    page.locator("#check-result mark").first.wait_for()
    assert page.locator("#check-result mark").all_inner_texts() == ["The lamp was lit in 1871.", "It burned coal."]
    assert page.locator("#check-result .badge").all_inner_texts()[0] == "supported"
    picture(page, "check")


def test_a_failure_is_told_and_the_form_works_again(page: Any, serve: Serve) -> None:
    ask(page, serve(create_app(make_engine(lm=ScriptedLM(dead_model), compete=False))))
    page.get_by_text("The model server is down.").wait_for()
    assert page.get_by_role("button", name="Ask", exact=True).is_enabled()


def test_a_key_is_asked_for_and_kept(page: Any, serve: Serve) -> None:
    base = serve(create_app(make_engine(), limits=Limits(key="secret")))
    ask(page, base)
    page.get_by_label("API key").fill("secret")
    page.get_by_role("button", name="Use this key").click()
    page.get_by_role("button", name="Ask", exact=True).click()
    page.get_by_role("heading", name="Sources").wait_for()


def test_files_are_uploaded_and_answered_from_with_the_embedded_default(
    page: Any, serve: Serve, tmp_path: Path
) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/harbour.md").write_text("# Harbour\n\nThe harbour of Skarvik was dredged in 1902.\n", "utf-8")
    with DocumentIndex(tmp_path / "index") as index:
        index.update(tmp_path / "docs")
        base = serve(create_app(SelfReflectEngine(index.retriever()), index))
        page.goto(base)
        page.get_by_role("tab", name="Documents").click()
        page.get_by_text("harbour.md").wait_for()
        added = tmp_path / "mill.md"
        added.write_text("# Mill\n\nThe mill of Skarvik was built by Ida Holm in 1754.\n", "utf-8")
        page.get_by_label("Add files").set_input_files(added)
        page.get_by_role("button", name="Upload").click()
        page.get_by_text("1 indexed, 0 failed.").wait_for()
        page.get_by_role("tab", name="Ask", exact=True).click()
        page.get_by_label("Question", exact=True).fill("Who built the mill of Skarvik?")
        page.get_by_label("Question", exact=True).press("Enter")
        page.get_by_role("heading", name="Sources").wait_for()
        assert "Ida Holm" in page.locator("#ask-sources mark").first.inner_text()
        picture(page, "upload")
