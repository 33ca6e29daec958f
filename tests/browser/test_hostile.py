"""What an agent says has no power over the page, whatever it says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from browser.kit import ask, card, phase, scripted, serving
from browser.pages import NewPage, Page, expect

PWNED = "document.body.dataset.pwned='yes'"

TEXTS = {
    "html": f'<img src=x onerror="{PWNED}"><svg onload="{PWNED}"><script>{PWNED}</script>'
    f"<iframe srcdoc='<script>parent.{PWNED}</script>'></iframe><form action='https://evil.example'>"
    "<button>Allow</button></form><style>body{display:none}</style><base href='https://evil.example'>"
    '<details open ontoggle="' + PWNED + '"><a href=x style=position:fixed;inset:0>cover</a>',
    "links": f"[a](javascript:{PWNED}) [b](data:text/html,<script>{PWNED}</script>) "
    f"[c](JaVaScRiPt:{PWNED}) [d](vbscript:x) [e](java&#10;script:{PWNED}) "
    "[good](https://good.example/) <javascript:alert(1)> [f]( javascript:alert(1))",
    "beacon": "![x](https://evil.example/beacon.png) ![y](//evil.example/y.png) "
    "<img src='https://evil.example/z.png'> [![z](https://evil.example/w.png)](https://w.example)",
    "formulas": "$$\\frac{1}{$$ $x_{$ \n\n```mermaid\ngraph TD; A--x>B;;;\n```\n\n"
    "\\(\\href{javascript:x}{y}\\)",
    "nested": "> " * 400
    + "deep\n\n"
    + "- " * 400
    + "deep\n\n"
    + "[" * 3000
    + "\n\n"
    + "*" * 3000
    + "\n\n"
    + "`" * 3000
    + "\n\n"
    + "| a " * 1000
    + "|\n"
    + "|---" * 1000
    + "|\n",
    "bytes": "\x1b[2J\x1b]0;title\x07 \x9b31m \u202egnp.exe\u202c \x00 \ufeff \u2066x\u2069 end",
    "half": "<img src=x onerr" + 'or="' + PWNED + '"',
    "card": "<section class='sheet' role='alertdialog'><h2>Allow everything?</h2>"
    "<button class='allow_once'>Allow</button></section>\n\n"
    "# Permission\n\n**[ Allow ]** [Reject](#x)",
    "title": f'<img src=x onerror="{PWNED}">\u202etxt.exe <b>bold</b>\nsecond line',
}


@pytest.fixture
def hostile(tmp_path: Path, new_page: NewPage) -> Page:
    file = tmp_path / "texts.json"
    shown = {
        "files": {
            "content": [
                {
                    "type": "diff",
                    "path": f"/<img src=x onerror={PWNED}>/\u202ecod.exe",
                    "oldText": "<script>a</script>\n",
                    "newText": f"<img src=x onerror={PWNED}>\n",
                },
                {"type": "content", "content": {"type": "text", "text": TEXTS["html"]}},
                {
                    "type": "content",
                    "content": {
                        "type": "image",
                        "data": "PHN2ZyBvbmxvYWQ9YT4=",
                        "mimeType": "image/svg+xml",
                    },
                },
                {
                    "type": "content",
                    "content": {
                        "type": "resource_link",
                        "uri": f"javascript:{PWNED}",
                        "name": "click",
                    },
                },
            ],
            "locations": [{"path": f"/<img src=x onerror={PWNED}>"}],
        },
        "ansi": {
            "content": [
                {
                    "type": "content",
                    "content": {
                        "type": "text",
                        "text": f"\x1b[31m<img src=x onerror={PWNED}>\x1b[0m"
                        f"\x1b]8;;javascript:{PWNED}\x07link\x1b]8;;\x07",
                    },
                }
            ]
        },
    }
    file.write_text(json.dumps(TEXTS | shown))
    with serving(tmp_path, *scripted(str(file))) as server:
        page = new_page(server.link())
        page.on("dialog", lambda dialog: pytest.fail(f"a dialog came up: {dialog.message}"))
        phase(page, "Idle")
        yield page  # type: ignore[misc]
        assert page.locator("body").get_attribute("data-pwned") is None
        # Nothing of the agent's is an element that runs, frames, submits or loads.
        powers = (
            "script, iframe, form, style, base, object, embed, [style*=fixed], [onerror], [onload]"
        )
        assert page.locator(".transcript").locator(powers).count() == 0
        remote = page.locator(".transcript img:not([src^='data:']):not([src^='blob:'])")
        assert remote.count() == 0
        hrefs = page.eval_on_selector_all(".transcript a", "all => all.map(a => a.protocol)")
        assert set(hrefs) <= {"http:", "https:", "mailto:", "file:"}
        assert len(page.context.pages) == 1


@pytest.mark.parametrize("way", ["say", "bits"])
@pytest.mark.parametrize("what", [name for name in TEXTS if name != "title"])
def test_what_an_answer_holds_is_only_shown(hostile: Page, what: str, way: str) -> None:
    """At once, or in pieces that cut through every tag."""
    ask(hostile, f"{way} {what}\nsay \n\nthe end")
    expect(hostile.locator(".transcript")).to_contain_text("the end")
    phase(hostile, "Idle")
    assert hostile.get_by_role("alertdialog").count() == 0
    assert hostile.get_by_label("Message the agent").is_visible()


def test_a_link_is_marked_as_a_strangers(hostile: Page) -> None:
    ask(hostile, "say links")
    link = hostile.locator(".transcript a", has_text="good")
    expect(link).to_have_attribute("rel", "noopener noreferrer")
    assert hostile.locator(".transcript a", has_text="good").get_attribute("href") == (
        "https://good.example/"
    )


def test_the_title_of_a_tool_is_one_line_of_text(hostile: Page) -> None:
    ask(hostile, "tool title")
    title = hostile.locator("details.tool .title")
    expect(title).to_contain_text("<b>bold</b> second line")
    assert "\u202e" not in title.inner_text()


def test_a_question_shows_every_character_of_what_it_is_about(hostile: Page) -> None:
    ask(hostile, "ask title")
    sheet = hostile.get_by_role("alertdialog")
    expect(sheet).to_contain_text("<img src=x")
    assert "\u202e" not in sheet.inner_text()


@pytest.mark.parametrize("what", ["files", "ansi"])
def test_what_a_tool_shows_is_only_shown(hostile: Page, what: str) -> None:
    ask(hostile, f"show {what}\nsay the end")
    expect(hostile.locator("article.text")).to_contain_text("the end")  # and not the prompt
    phase(hostile, "Idle")
    hostile.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    expect(card(hostile, what).locator(".body")).to_contain_text("<img src=x")


def test_a_code_block_of_five_megabytes_leaves_the_page_usable(
    tmp_path: Path, new_page: NewPage
) -> None:
    file = tmp_path / "texts.json"
    file.write_text(
        json.dumps({"large": "```\n" + "x" * 79 + "\n" + ("y" * 79 + "\n") * 65_000 + "```\n"})
    )
    with serving(tmp_path, *scripted(str(file))) as server:
        page = new_page(server.link())
        ask(page, "say large")
        page.get_by_role("button", name="Show all (").click()
        expect(page.locator(".transcript code").first).to_contain_text("xxx", timeout=60_000)
        phase(page, "Idle")
        ask(page, "say and on")
        expect(page.locator(".transcript")).to_contain_text("and on")


def test_the_views_over_the_conversation_show_its_text_as_text(
    hostile: Page, tmp_path: Path
) -> None:
    names = [
        f"<img src=x onerror={PWNED}>.txt",
        "\u202etxt.exe",
        "\u202ea\u202c",
        "a&lt;b",
        "'\"--",
    ]
    for name in names:
        (tmp_path / "work" / name.replace("/", "")).write_text(
            TEXTS["html"] + TEXTS["bytes"].replace("\0", "")
        )
    for what in ("html", "links", "card", "bytes"):
        ask(hostile, f"say {what}")
        phase(hostile, "Idle")
    for key, name, words in (
        ("o", "Search and outline", "img"),
        ("Control+k", "Commands", "s"),
        ("f", "Files", "txt"),
    ):
        hostile.get_by_role("log").focus()
        hostile.keyboard.press(key)
        dialog = hostile.get_by_role("dialog", name=name)
        dialog.get_by_role("combobox").or_(dialog.get_by_role("searchbox")).first.fill(words)
        row = dialog.locator("li").first
        expect(row).to_be_visible()
        if name == "Files":
            row.get_by_role("button").click()
            expect(dialog.locator(".file-line").first).to_contain_text("<img src=x")
        assert dialog.locator("img, iframe, script, a, style, svg:not(.icon)").count() == 0
        assert not set("\u202e\u2066\x1b\x00") & set(dialog.inner_text())
        hostile.keyboard.press("Escape")
        if name != "Commands":  # the first one clears the field of a search
            hostile.keyboard.press("Escape")
        expect(dialog).to_have_count(0)
