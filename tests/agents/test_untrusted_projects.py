"""Real agents in a stranger's project: what of it runs, and where the key goes."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import trio

import agentrt

from .hostile_projects import BASE_URLS, HOSTILE, NEVER_IGNORED, REFUSED, RUNS, Files
from .lab import Lab
from .modelserver.scripts import Call, Shell, Text, prompt_for
from .story import session_with

PATIENCE = 180.0
ASLEEP = ["kimi", "vibe", "copilot"]
"""Agents that act on no file unless they themselves trust the folder (`own_trust`)."""

COMMANDS = ["opencode", "gemini"]
"""Agents with commands of the project, of which a person types one."""

DENY = agentrt.rules(deny=["Bash(touch:*)"], otherwise=agentrt.deny_all)
TRY = prompt_for([[Shell("touch ran-shell")], [Text("Done.")]])

pytestmark = pytest.mark.real_agent


def put(lab: Lab, files: Files, below: Path | None = None, url: str = "") -> None:
    root = below or lab.work
    for name, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content)
        text = text.replace("@RAN@", str(lab.work / "ran")).replace("@URL@", url)
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def ran(lab: Lab) -> list[str]:
    return sorted(path.name for path in lab.work.glob("ran*"))


async def open_and_try(lab: Lab, prompt: str = TRY, **options: object) -> list[agentrt.Notice]:
    with trio.fail_after(PATIENCE):
        given = {"trust": "no", "permissions": DENY, **options}
        async with session_with(lab, **given) as (session, story):
            await session.run(prompt, check=False)
            await session.run(prompt, check=False)
            if lab.agent in COMMANDS:
                await session.run("/go", check=False)
    return [event for event in story.events if isinstance(event, agentrt.Notice)]


@pytest.mark.parametrize("agent", [name for name in HOSTILE if name != "codex-acp"])
async def test_nothing_of_a_hostile_project_runs(lab: Lab) -> None:
    put(lab, HOSTILE[lab.agent])
    (lab.work / ".git").mkdir()
    notices = await open_and_try(lab)
    assert ran(lab) == []
    [told] = [each for each in notices if each.code == "folder_not_trusted"]
    assert lab.agent in told.message


@pytest.mark.parametrize("agent", RUNS)
async def test_it_would_run_if_the_folder_were_trusted(lab: Lab) -> None:
    put(lab, HOSTILE[lab.agent])
    await open_and_try(lab, trusted=[lab.work])
    assert {name.removeprefix("ran-") for name in ran(lab)} >= RUNS[lab.agent]


@pytest.mark.parametrize("agent", NEVER_IGNORED)
async def test_what_an_agent_cannot_ignore_keeps_it_from_being_started(lab: Lab) -> None:
    put(lab, NEVER_IGNORED[lab.agent])
    with pytest.raises(agentrt.errors.FolderNotTrusted, match=f"^{lab.agent} is not started"):
        await open_and_try(lab)
    assert ran(lab) == []


@pytest.mark.parametrize(
    ("agent", "files"), [(name, files) for name, rows in REFUSED.items() for files in rows]
)
async def test_each_of_these_files_alone_keeps_it_from_being_started(
    lab: Lab, files: Files
) -> None:
    put(lab, files)
    with pytest.raises(agentrt.errors.FolderNotTrusted, match=f"^{lab.agent} is not started"):
        await open_and_try(lab)


@pytest.mark.parametrize("agent", NEVER_IGNORED)
async def test_and_that_would_run_if_the_folder_were_trusted(lab: Lab) -> None:
    put(lab, NEVER_IGNORED[lab.agent])
    await open_and_try(lab, trust="yes")
    assert ran(lab) != []


# --- asking


ASKED = ["claude", "codex", "gemini", "qwen", "opencode", "claude-agent-acp"]


async def asked_and_tried(lab: Lab, answer: str) -> list[agentrt.PermissionOpened]:
    """Open a session that asks, answer its question, prompt twice, and return the questions."""
    with trio.fail_after(PATIENCE):
        policy = agentrt.rules(deny=["Bash(touch:*)"], otherwise=agentrt.ask)
        async with session_with(lab, trust="ask", permissions=policy) as (session, story):
            for request in list(session.log.state.permissions):
                session.answer(request, answer)
            await session.run(TRY, check=False)
            await session.run(TRY, check=False)
    opened = [each for each in story.events if isinstance(each, agentrt.PermissionOpened)]
    return [each for each in opened if each.subject == "Trust"]


@pytest.mark.parametrize("agent", ASKED)
async def test_nothing_runs_before_a_yes_and_a_change_is_asked_about_again(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(lab.home / "state"))
    put(lab, HOSTILE[lab.agent])
    if lab.agent == "opencode":  # it is not started otherwise
        for name in (".opencode/plugin", ".opencode/plugins", ".opencode/tool", ".opencode/tools"):
            shutil.rmtree(lab.work / name, ignore_errors=True)
    (lab.work / ".git").mkdir()
    [first] = await asked_and_tried(lab, "reject")
    assert ran(lab) == []
    [second] = await asked_and_tried(lab, "trust")
    # Some agents rewrite their settings files at each start, so only the names stay the same.
    shown = [part["path"] for part in first.detail[1:]]
    assert [part["path"] for part in second.detail[1:]] == shown
    assert ran(lab) != []
    path = lab.work / shown[0]
    path.write_text(path.read_text() + "\n")
    for each in lab.work.glob("ran*"):
        each.unlink()
    [third] = await asked_and_tried(lab, "reject")
    assert ran(lab) == []
    changed = [part for part in third.detail[1:] if part["oldText"] != part["newText"]]
    assert shown[0] in [part["path"] for part in changed]


def own_trust(lab: Lab) -> Files:
    """Files of the agent's own folder that say that it trusts the folder above the project."""
    above = str(lab.work.parent)
    digest = hashlib.sha256(str(lab.work).encode()).hexdigest()[:12]
    stores: Mapping[str, Files] = {
        "codex": {
            ".codex/config.toml": f"{lab.recipe.files.get('.codex/config.toml', '')}"
            f'[projects."{above}"]\ntrust_level = "trusted"\n'
            f'[projects."{lab.work}"]\ntrust_level = "trusted"\n'
        },
        "gemini": {
            ".gemini/trustedFolders.json": {above: "TRUST_FOLDER", str(lab.work): "TRUST_FOLDER"}
        },
        "qwen": {
            ".qwen/trustedFolders.json": {above: "TRUST_FOLDER", str(lab.work): "TRUST_FOLDER"}
        },
        "kimi": {
            f".kimi-code/workspace-trust/wd_{lab.work.name}_{digest}": {
                "root": str(lab.work),
                "trustedAt": 1,
            }
        },
        "copilot": {".copilot/config.json": {"trustedFolders": [above]}},
        "vibe": {".vibe/trusted_folders.toml": f'trusted = ["{above}"]\nuntrusted = []\n'},
    }
    return stores[lab.agent]


@pytest.mark.parametrize("agent", ["codex", "gemini", "qwen", "copilot", "kimi", "vibe"])
async def test_the_agent_s_own_trust_does_not_count(lab: Lab) -> None:
    put(lab, HOSTILE[lab.agent])
    (lab.work / ".git").mkdir()
    put(lab, own_trust(lab), lab.home)
    try:
        await open_and_try(lab)
    except agentrt.errors.FolderNotTrusted:
        assert lab.agent in ASLEEP
    assert ran(lab) == []


@pytest.mark.parametrize("agent", ASLEEP)
async def test_but_where_the_user_trusts_the_folder_here_too(lab: Lab) -> None:
    put(lab, HOSTILE[lab.agent])
    put(lab, own_trust(lab), lab.home)
    await open_and_try(lab, trust="yes")
    assert ran(lab) != []


# --- keys


@asynccontextmanager
async def stranger() -> AsyncIterator[tuple[str, list[bytes]]]:
    """A server of somebody else's: its address, and what was sent there."""
    got: list[bytes] = []

    async def serve(stream: trio.SocketStream) -> None:
        async with stream:
            got.append(await stream.receive_some(65536))
            await stream.send_all(b"HTTP/1.1 401 No\r\ncontent-length: 0\r\n\r\n")

    async with trio.open_nursery() as nursery:
        [listener] = await nursery.start(partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
        port = listener.socket.getsockname()[1]
        yield f"http://127.0.0.1:{port}", got
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("agent", BASE_URLS)
async def test_no_key_goes_to_an_address_that_the_project_names(lab: Lab) -> None:
    async with stranger() as (url, got):
        put(lab, BASE_URLS[lab.agent], url=url)
        await open_and_try(lab)
    assert got == []
    assert lab.model.asks()  # they went to the user's own


@pytest.mark.parametrize("agent", ["claude", "claude-agent-acp", "opencode", "qwen"])
async def test_it_would_if_the_folder_were_trusted(lab: Lab) -> None:
    env = {name: value for name, value in lab.env.items() if name != "OPENAI_BASE_URL"}
    async with stranger() as (url, got):
        put(lab, BASE_URLS[lab.agent], url=url)
        with trio.fail_after(PATIENCE):
            async with session_with(replace(lab, env=env), trust="yes", permissions=DENY) as (
                s,
                _,
            ):
                with trio.move_on_after(20.0):
                    await s.run(TRY, check=False)
    assert got


# --- the user's own configuration


@pytest.mark.parametrize("agent", ["codex"])
@pytest.mark.parametrize("trust", ["no", "yes"])
async def test_no_run_makes_a_folder_trusted_in_the_user_s_own_configuration(
    lab: Lab, trust: str
) -> None:
    put(lab, {} if trust == "yes" else HOSTILE[lab.agent])
    (lab.work / ".git").mkdir()
    config = lab.home / ".codex" / "config.toml"
    before = config.read_text()
    with trio.fail_after(PATIENCE):
        async with session_with(lab, mode="workspace-write", trust=trust) as (session, _):
            await session.run("Please [[text]]", check=False)
    assert config.read_text() == before
    assert ran(lab) == []


@pytest.mark.parametrize("agent", ["codex-acp-zed"])
async def test_a_mode_that_would_do_so_is_refused(lab: Lab) -> None:
    config = lab.home / ".codex" / "config.toml"
    before = config.read_text()
    with trio.fail_after(PATIENCE):
        with pytest.raises(agentrt.AgentStartError, match="the folder is not trusted"):
            async with session_with(lab, mode="auto", trust="no"):
                pass
        async with session_with(lab, trust="no") as (session, _):
            for mode in ("auto", "full-access"):
                with pytest.raises(agentrt.AgentrtError, match="the folder is not trusted"):
                    await session.set_mode(mode)
            await session.run("Please [[text]]")
    assert config.read_text() == before


# --- the program's own tools


TOOLS = [
    "claude",
    "claude-agent-acp",
    "codex",
    "codex-acp-zed",
    "opencode",
    "copilot",
    "kimi",
    "vibe",
]


async def calls_note(lab: Lab, *, trust: str) -> tuple[int, list[agentrt.Notice]]:
    called = 0

    @agentrt.tool
    async def note(text: str) -> str:
        """Take a note."""
        nonlocal called
        called += 1
        return f"noted {text}"

    prompt = prompt_for([[Call("note", {"text": "x"})], [Text("Done.")]])
    with trio.fail_after(PATIENCE):
        async with session_with(lab, permissions=agentrt.allow_all, tools=[note], trust=trust) as (
            session,
            story,
        ):
            await trio.sleep(4.0)  # Qwen lists tools a little later
            await session.run(prompt, check=False)
    return called, story.notices("tools_not_trusted")


@pytest.mark.parametrize("agent", TOOLS)
async def test_the_program_s_tools_work_in_a_folder_that_is_not_trusted(lab: Lab) -> None:
    assert await calls_note(lab, trust="no") == (1, [])


@pytest.mark.parametrize("agent", ["gemini", "qwen"])
async def test_or_it_is_said_that_they_do_not(lab: Lab) -> None:
    called, [told] = await calls_note(lab, trust="no")
    assert called == 0
    assert f"{lab.agent} does not get" in told.message


@pytest.mark.parametrize("agent", ["gemini", "qwen"])
async def test_and_in_a_trusted_one_they_do(lab: Lab) -> None:
    assert await calls_note(lab, trust="yes") == (1, [])
