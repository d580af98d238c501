"""Pages fetch nothing, and escape what is not markup."""

from __future__ import annotations

import html.parser
import re

from pipeline.pages import document
from pipeline.pages.document import Markup


class Balanced(html.parser.HTMLParser):
    """Fails for an end without its beginning."""

    VOID = frozenset({"meta", "br"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag, attrs):
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_a_page_is_whole_and_fetches_nothing():
    page = document.document(
        "A <title>",
        "lead",
        [
            document.section("<one>", document.figures(document.figure("a&b", "<i>drawn</i>"))),
            document.section("two", document.table(("x", "y"), [("<z>", Markup("<b>1</b>"))])),
            document.section("three", document.tiles([("steps", "1,000")])),
        ],
    )
    parser = Balanced()
    parser.feed(page)
    assert parser.open == []
    assert "<title>A &lt;title&gt;</title>" in page and "&lt;z&gt;" in page and "<b>1</b>" in page
    assert "<h2>&lt;one&gt;</h2>" in page and "a&amp;b" in page and "<i>drawn</i>" in page
    assert not re.search(r"https?:|<script|src=|url\(|@import", page)


def test_it_suits_phones_dark_screens_and_paper():
    page = document.document("t", "", [])
    assert "width=device-width" in page
    assert "prefers-color-scheme: dark" in page and "@media print" in page


def test_columns_can_be_aligned_to_the_right():
    drawn = document.table(("a", "b"), [("1", "2")], right={1})
    assert drawn.count("class=right") == 2
    assert "<td>1</td><td class=right>2</td>" in drawn
