"""One sub-agent of a real agent is stopped by the page, a terminal and an ACP client."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil
import pytest

from agents.lab import Lab, model_server, prepare
from agents.modelserver.scripts import Script, Shell, Text, prompt_for
from agents.recipes import package_of
from agents.test_claude_background import sub_agent
from agents.test_codex_says import spawn
from agents.versions import agents_root
from browser.kit import MARK, phase, serving, until
from browser.other_viewers import Editor, Terminal
from browser.pages import NewPage, Page

pytestmark = [
    pytest.mark.real_agent,
    pytest.mark.parametrize("agent", ["claude", "claude-agent-acp", "codex"]),
]

LEAVES_COMMANDS = ("codex",)
"""Agents that end a sub-agent's work and leave its command running until the session ends."""


@pytest.fixture
def lab(agent: str, tmp_path: Path) -> Iterator[Lab]:
    package = package_of(agent)
    if not package.installed(agents_root()):
        pytest.skip(f"{agent} is not installed: {package.how_to_install}")
    with model_server(tmp_path) as model:
        yield prepare(agent, model, agents_root(), tmp_path)


def waiting(number: int) -> str:
    """A command without an end. Claude Code refuses a plain `sleep` in the background."""
    return f"until test -e go-{number}; do sleep 0.05; done"


def waits(lab: Lab, number: int) -> bool:
    """True if the sub-agent's command runs."""
    return any(f"go-{number};" in each for process in lab.processes() for each in words(process))


def words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def script(agent: str, number: int) -> Script:
    """A turn that starts a sub-agent, which would work forever, and ends."""
    work: Any = [[Shell(waiting(number))], [Text("Slept.")]]
    child = spawn(*work) if agent == "codex" else sub_agent(*work, background=True)
    return [[child], [Text("It sleeps.")], [Text("It was stopped.")]]


def works(editor: Editor) -> dict[str, str]:
    """The background work that an ACP client knows, with its status."""
    about = [each.get("_meta", {}).get("agentrt", {}) for each in editor.updates]
    return {each["task"]["id"]: each["task"]["status"] for each in about if "task" in each}


def stop_in_page(page: Page) -> None:
    page.locator("details.tasks").get_by_role("button", name="Stop").click()


def stop_in_terminal(terminal: Terminal, number: int) -> None:
    terminal.type(f"/tasks stop {number}\r")


def stop_in_editor(editor: Editor, session: str) -> None:
    [task] = [id for id, status in works(editor).items() if status == "running"]
    editor.request("_session/async_task/stop", sessionId=session, asyncTaskId=task)


def stop_in_editor_2(editor: Editor, session: str) -> None:
    known = {each["toolCallId"]: each for each in editor.updates if "capabilities" in each}
    [call] = [id for id, each in known.items() if each["capabilities"] is not None]
    editor.request("tool_call/cancel", sessionId=session, toolCallId=call)


def test_each_viewer_stops_a_sub_agent_and_the_session_goes_on(lab: Lab, new_page: NewPage) -> None:
    settings = lab.home / ".config" / "agentrt" / "config.toml"
    settings.parent.mkdir(parents=True, exist_ok=True)
    trusted = f"trusted = [{json.dumps(str(lab.work))}]\n"
    settings.write_text(f"{trusted}[agents.{lab.agent}]\ncommand = {json.dumps(lab.argv)}\n")
    env = {**lab.env, MARK: os.environ[MARK]}
    options = ("--agent", lab.agent, "--permissions", "allow-all", "--no-sandbox")
    with serving(lab.home, *options, env=env) as server, ExitStack() as stack:
        page = new_page(server.link())
        phase(page, "Idle")
        [note] = (lab.home / ".local" / "state" / "agentrt" / "servers").iterdir()
        about = json.loads(note.read_text())
        env |= {"AGENTRT_SERVE_TOKEN": about["token"], "TERM": "xterm-256color"}
        editors: list[Editor] = []
        for version in (1, 2):
            editors.append(editor := Editor(about["url"], env, server.folder))
            stack.callback(editor.end)
            info = {"name": "test", "version": "1"}
            shapes = {"info": info, "clientCapabilities": {}, "capabilities": {}}
            editor.request("initialize", protocolVersion=version, **shapes)
            [listed] = editor.request("session/list")["sessions"]
            session = listed["sessionId"]
            load = "session/load" if version == 1 else "session/resume"
            editor.request(load, sessionId=session, cwd=str(server.folder), mcpServers=[])
        terminal = Terminal(about["url"], env, server.folder)
        stack.callback(terminal.end)
        until(lambda: "ready" in terminal.text, "the attached terminal")
        stops: list[Callable[[], None]] = [
            lambda: stop_in_page(page),
            lambda: stop_in_terminal(terminal, 2),
            lambda: stop_in_editor(editors[0], session),
            lambda: stop_in_editor_2(editors[1], session),
        ]
        for number, stop in enumerate(stops, 1):
            prompt = [{"type": "text", "text": prompt_for(script(lab.agent, number))}]
            # The turn may last as long as the sub-agent.
            asked = editors[0].start("session/prompt", sessionId=session, prompt=prompt)
            until(
                lambda number=number: waits(lab, number),
                lambda: "the sub-agent's command",
            )
            until(lambda number=number: len(works(editors[0])) == number, "the sub-agent")
            stop()
            for editor in editors:
                until(
                    lambda editor=editor: "running" not in works(editor).values(),
                    lambda editor=editor: works(editor),
                )
            assert list(works(editors[0]).values())[-1] == "cancelled"
            if lab.agent not in LEAVES_COMMANDS:
                until(lambda number=number: not waits(lab, number), "its end")
            until(lambda asked=asked: "result" in editors[0].results.get(asked, {}), "the answer")
            phase(page, "Idle")
        said = [{"type": "text", "text": prompt_for([[Text("Still here.")]])}]
        editors[0].request("session/prompt", sessionId=session, prompt=said)
        assert "Still here." in editors[0].text
