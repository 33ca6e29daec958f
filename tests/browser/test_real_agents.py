"""A real agent behind the page, which has a tool of its own all the while."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agents.expectations import EXPECTATIONS
from agents.lab import Lab, model_server, prepare
from agents.modelserver.scripts import Call, Text, prompt_for
from agents.recipes import package_of
from agents.story import running
from agents.test_scenarios import HELLO, SLEEP
from agents.versions import agents_root
from browser.kit import CLICK, MARK, Server, ask, phase, serving, until
from browser.pages import NewPage, Page, Shoot, expect

pytestmark = [pytest.mark.real_agent, pytest.mark.parametrize("agent", EXPECTATIONS)]


@pytest.fixture
def lab(agent: str, tmp_path: Path) -> Iterator[Lab]:
    package = package_of(agent)
    if not package.installed(agents_root()):
        pytest.skip(f"{agent} is not installed: {package.how_to_install}")
    with model_server(tmp_path) as model:
        yield prepare(agent, model, agents_root(), tmp_path)


@pytest.fixture
def server(lab: Lab) -> Iterator[Server]:
    settings = lab.home / ".config" / "agentrt" / "config.toml"
    settings.parent.mkdir(parents=True, exist_ok=True)
    trusted = f"trusted = [{json.dumps(str(lab.work))}]\n"
    settings.write_text(f"{trusted}[agents.{lab.agent}]\ncommand = {json.dumps(lab.argv)}\n")
    env = {**lab.env, MARK: os.environ[MARK]}
    with serving(lab.home, env=env) as server:
        yield server


def started(page: Page, lab: Lab) -> None:
    """A session of the agent, opened on the page, so that the page's tool is the session's."""
    page.locator(f"input[name=agent][value='{lab.agent}']").check()
    page.get_by_label("Folder").fill(str(lab.work))
    page.get_by_role("button", name="Start", exact=True).click()
    phase(page, "Idle")


def allow(page: Page) -> None:
    """Take the next step towards allowing what is asked now, if anything is."""
    sheet = page.get_by_role("alertdialog")
    sheet.get_by_role("button", name="Jump to end").evaluate_all(CLICK)
    page.locator("[role=alertdialog] button.allow_once:not([aria-disabled=true])").evaluate_all(
        CLICK
    )


def allow_until(page: Page, done: Callable[[], object], what: str) -> None:
    """Allow whatever is asked until this is so."""

    def so() -> bool:
        allow(page)
        return bool(done())

    until(so, what)


def allow_until_said(page: Page, words: str) -> None:
    """Allow whatever is asked until the agent says these words."""
    said = page.locator(".transcript article.text", has_text=words)
    allow_until(page, said.count, words)


def test_a_tool_is_stopped_and_the_next_prompt_works_here_after_a_reload_and_elsewhere(
    lab: Lab, server: Server, new_page: NewPage, shoot: Shoot
) -> None:
    page = new_page(server.link())
    started(page, lab)
    ask(page, "Please [[sleep]]")
    allow_until(page, lambda: running(lab, SLEEP), "the command")
    page.get_by_role("button", name="Stop", exact=True).click()
    other = new_page(server.link())
    for each in (page, other):
        phase(each, "Idle")
        expect(each.locator("details.tool .status").last).to_have_text("stopped")
        expect(each.locator("details.tool.running, details.tool.waiting")).to_have_count(0)
        expect(each.get_by_role("button", name="Stop", exact=True)).to_have_count(0)
    page.reload()
    phase(page, "Idle")
    expect(page.locator("details.tool .status").last).to_have_text("stopped")
    ask(page, "Please [[text]]")
    for each in (page, other):
        expect(each.locator(".transcript article").last).to_contain_text(HELLO)
        phase(each, "Idle")
    shoot(page, f"agent-{lab.agent}")


def test_an_agent_calls_the_pages_own_tool(lab: Lab, server: Server, new_page: NewPage) -> None:
    expected = EXPECTATIONS[lab.agent]
    if expected.finds_tools_late or not expected.takes_tools:
        pytest.skip(f"{lab.agent} offers tools only after its first turns, or none")
    page = new_page(server.link())
    started(page, lab)
    ask(page, prompt_for([[Call("page_info")], [Text("It was seen. " * 2)]]))
    allow_until_said(page, "It was seen. It was seen.")
    phase(page, "Idle")
    told = page.locator("details.tool", has_text="page_info").last
    expect(told.locator(".status")).to_have_text("done")


READS = {
    "claude": ("Read", "file_path"),
    "claude-agent-acp": ("Read", "file_path"),
    "gemini": ("read_file", "file_path"),
    "qwen": ("read_file", "file_path"),
    "opencode": ("read", "filePath"),
}
"""How the agents call the tool that reads a file, and what they call the file."""


def test_a_file_that_an_agent_reads_is_shown_as_code(
    lab: Lab, server: Server, new_page: NewPage, shoot: Shoot
) -> None:
    if lab.agent not in READS:
        pytest.skip(f"{lab.agent} reads files by commands")
    name, argument = READS[lab.agent]
    (lab.work / "shapes.py").write_text(
        "class Shape:\n    def __init__(self) -> None:\n        self.sides = 0\n"
    )
    page = new_page(server.link())
    started(page, lab)
    call = Call(name, {argument: str(lab.work / "shapes.py")})
    ask(page, prompt_for([[call], [Text("It was read.")]]))
    allow_until_said(page, "It was read.")
    phase(page, "Idle")
    tool = page.locator("details.tool").first
    tool.locator("summary").first.click()
    shoot(page, f"read-{lab.agent}")
    assert tool.locator(".markdown, strong, em").count() == 0
    shown = tool.locator(".body > div figure.code code")
    if shown.count():  # some tell only that they have read it
        expect(shown).to_contain_text("def __init__(self) -> None:")
        expect(shown.locator(".hljs-keyword").first).to_be_visible()
    if lab.agent.startswith("claude"):
        expect(tool.locator(".numbers")).to_have_text(re.compile(r"^1\s+2\s+3"))
        assert not re.search(r"^\s*\d", shown.inner_text())
