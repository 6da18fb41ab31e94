"""reStructuredText is read as the page that Sphinx or docutils makes of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared_core.documents import chunk_document
from shared_core.documents.loaders.extracted import Budget
from shared_core.documents.loaders.rst import read_rst
from shared_core.errors import MissingDependencyError
from tests.documents.reading import headings, read, refuses


def text_of(source: str) -> str:
    found = read_rst(source.encode(), Budget(60))
    assert not found.problems
    return found.text


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("See :ref:`the start <top>` of :doc:`/guide`.", "See the start of /guide."),
        ("Call :py:meth:`~os.path.Path.open` or :func:`!close`.", "Call open or close."),
        ("Set :envvar:`HOME` to ``3``, *not* **4**.", "Set HOME to 3, not 4."),
        ("Open :file:`/etc/{name}.conf`, :menuselection:`File --> Save`.", "Open /etc/name.conf, File ‣ Save."),
        ("Fixed (:issue:`12`) in `the guide`_ and here_, `pages <https://a.example>`_.",
         "Fixed (issue 12) in the guide and here, pages."),
        ("It costs 40 [1]_ a year.\n\n.. [1] In 1871.", "It costs 40¹ a year.\n\n[1] In 1871."),
        ("Water is H\\ :sub:`2`\\ O.", "Water is H2O."),
        (".. note:: Take care\n   of it.", "Note: Take care of it."),
        (".. admonition:: For sailors\n\n   Mind the tide.", "For sailors\n\nMind the tide."),
        (".. versionadded:: 3.2\n   It floats.", "New in version 3.2: It floats."),
        (".. deprecated-removed:: 3.2 3.9 Use other.", "Deprecated since version 3.2: Use other."),
        (".. versionchanged:: 4.0", "Changed in version 4.0."),
        (".. function:: abs(x, /)\n              abs(y)\n   :module: os\n\n   The value.\n\n   :param int x: A number.",
         "abs(x, /)\nabs(y)\nThe value.\n\nx (int): A number."),
        (".. confval:: port\n   :type: int\n   :default: 8080\n\n   The port.",
         "port\nType: int\n\nDefault: 8080\n\nThe port."),
        ("speed : int\n   Its knots.", "speed : int\nIts knots."),
        ("``speed``\n\n  Its knots.", "speed\nIts knots."),
        ("- eco\n- full", "- eco\n- full"),
        ("3. Cast off.\n4. Sail.\n\n   a) Slowly.\n   b) Fast.", "3. Cast off.\n4. Sail.\n\na) Slowly.\nb) Fast."),
        ("1. ::\n\n      haul\n\n2. - eco", "1.\n\nhaul\n\n2.\n\n  - eco"),
        ("#. Cast off.\n#. Sail.", "1. Cast off.\n2. Sail."),
        (":orphan:\n\nText.", "Text."),
        ("Text.\n\n.. setting:: SPEED\n.. index:: speed\n.. toctree::\n\n   a\n   b\n", "Text."),
        (".. code-block:: python\n   :linenos:\n   :caption: a.py\n\n   x = 1\n\n   y = 2", "a.py\n\nx = 1\n\ny = 2"),
        (".. strange:: Linux\n   :sync: a\n\n   Install it.", "Linux\nInstall it."),
        ("Text.\n\n.. include:: /etc/passwd\n\n.. raw:: html\n\n   <b>raw</b>", "Text."),
        ("|name| sails.\n\n.. |name| replace:: The ferry", "The ferry sails."),
        ("Version |release| sails.", "Version |release| sails."),
        (".. csv-table:: Power\n   :header: Mode, Watts\n\n   eco, 40\n\nMore.",
         "Power\n\nMode: eco; Watts: 40\n\nMore."),
    ],
)  # fmt: skip
def test_what_a_page_shows(source: str, shown: str) -> None:
    assert text_of(source).strip() == shown


def test_sections_and_terms_are_headings() -> None:
    source = (
        "=====\nFerry\n=====\n\nIt sails.\n\nTimes\n-----\n\n.. option:: -v <level>\n\n   Be verbose.\n\nThe end.\n"
    )
    found = read(source, "guide.rst")
    assert (found.title, found.format) == ("Ferry", "rst")
    assert headings(found) == [(1, "Ferry"), (2, "Times"), (10, "-v <level>"), (10, "")]
    passages = chunk_document(found)
    assert [p.text for p in passages][-2:] == ["Times\n\n-v <level>\nBe verbose.", "The end."]
    assert all(found.text[p.metadata["start"] : p.metadata["end"]] == p.text for p in passages)


def test_a_title_beside_others_is_not_the_documents() -> None:
    assert read("One\n===\n\nText.\n\nTwo\n===\n\nText.\n", "NEWS.rst").title == "NEWS"


def test_fields_at_the_beginning_are_lines() -> None:
    source = "PEP: 8\nTitle: Style Guide\nAuthor: Ila Venn,\n  Bo Hale\n\nText\n====\n\nMore.\n"
    assert text_of(source).startswith("PEP: 8\n\nTitle: Style Guide\n\nAuthor: Ila Venn, Bo Hale\n\nText")


def test_what_docutils_refuses_is_kept_as_it_is() -> None:
    table = "=====  =====\nMode   Watts\n=====  =====\neconomy  40\n=====  =====\n"
    assert table.strip() in text_of(f"Text.\n\n{table}\nMore.\n")
    wrong = ".. csv-table:: Modes\n   :header-rows: 3\n\n   eco, 40, 41\n"
    assert "eco, 40, 41" in text_of(wrong)
    deep = "Words.\n\n" + "".join(f"{' ' * i}- item {i}\n\n" for i in range(0, 800, 2))
    found = read(deep, "a.rst")
    assert "item 0" in found.text
    assert "item 798" in found.text


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        (".. setting:: SPEED\n\nSPEED\n=====\n\nSee :setting:`KNOTS`.\n", "rst"),
        ("Ferry 1.2\n=========\n\n``speed`` and ``knots`` are ``None`` by default.\n", "rst"),
        ("Ferry 1.2\n=========\n\nIt sails: see `speed`, ``knots''.\n.. and so on\n", "text"),
        ("See :ref:`a`.\n", "text"),
    ],
)
def test_plain_text_is_read_so_if_it_is_marked_up_so(source: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read(source, "ferry.txt").format == read(source, "README").format == kind
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert read(source, "ferry.txt").text == source
    with pytest.raises(MissingDependencyError, match="docutils"):
        read(source, "ferry.rst")


def test_a_file_that_takes_docutils_for_ever_is_given_up() -> None:
    assert "longer than" in refuses("`a " * 60_000, "a.rst", max_seconds=1).message
    assert read("The ferry.\n", "a.rst").text == "The ferry."  # by a new process


def test_a_file_that_docutils_fails_at_is_read_as_plain_text(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise AssertionError("no")

    monkeypatch.setattr("shared_core.documents.loaders.rst.core.publish_parts", fail)
    found = read_rst(b"Ferry\n=====\n\n``speed``\n", Budget(60))
    assert (found.text, found.title) == ("Ferry\n=====\n\n``speed``\n", "Ferry")
    assert "AssertionError" in found.problems[0].message


def test_settings_of_docutils_around_it_do_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "docutils.conf").write_text("[general]\nhalt_level: 1\nraw_enabled: yes\nfile_insertion_enabled: yes\n")
    (tmp_path / "secret.txt").write_text("The secret.")
    monkeypatch.chdir(tmp_path)
    assert text_of("Text.\n\n.. include:: secret.txt\n\n`broken").strip() == "Text.\n\n`broken"


@given(
    st.lists(
        st.sampled_from(
            ["Corrow sails", "=====", "-----", ".. note::", "   ferry", "``", "`x`_", ":ref:`", "* - a", "+--+--+",
             "..", "| a | b", ".. [1] tide", "\t", "", "term", ":field: value", "::", ">>> 1", ".. |a| image:: x",
             "|a|", ".. x:: y", "1. one", "A. b"]
        ),
        max_size=12,
    )
)  # fmt: skip
def test_any_lines_are_read_and_their_words_kept(lines: list[str]) -> None:
    found = read_rst("\n".join(["Corrow.", "", *lines]).encode(), Budget(60))
    assert "Corrow" in found.text
    assert not found.problems
    for heading in found.headings:
        assert 0 <= heading.start <= heading.end <= len(found.text)


def test_what_only_other_formats_show_is_left_out() -> None:
    source = ".. only:: html\n\n   Web.\n\n.. only:: latex or man\n\n   Print.\n\n.. only:: draft\n\n   Draft.\n"
    assert read(source, "a.rst").text.split() == ["Web.", "Draft."]
