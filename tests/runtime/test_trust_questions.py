"""`trust="ask"`: a project's files become a question, and its answer is about their contents."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
import trio
from msgspec import structs
from project_places import QUICK, Place

import agentrt
from agentrt import Notice, PermissionOpened, Session
from agentrt.agents import BUILT_IN
from agentrt.errors import FolderNotTrusted
from agentrt.events import PermissionClosed
from agentrt.permissions import PermissionRequest
from agentrt.store import open_store
from agentrt.unattended import TrustRecords

SETTINGS = ".gemini/settings.json"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return Place(tmp_path.resolve())


@asynccontextmanager
async def opened(place: Place, agent: str = "gemini", **options: Any) -> AsyncIterator[Session]:
    given = {
        "cwd": place.project,
        "env": {"HOME": str(place.home)},
        "limits": QUICK,
        "trust": "ask",
        "permissions": agentrt.ask,
    }
    async with agentrt.open_session(place.agent(agent), **{**given, **options}) as session:
        yield session


async def question(session: Session, number: int = 1) -> PermissionOpened:
    """Wait for a question of the session."""
    with trio.fail_after(30):
        async for event in session.subscribe(after=0):
            if isinstance(event, PermissionOpened):
                number -= 1
                if not number:
                    return event
    raise AssertionError


async def started(session: Session) -> None:
    """Wait until the agent runs."""
    with trio.fail_after(30):
        async for _ in session.subscribe(after=session.log.seq - 1):
            if session.state.phase in ("idle", "running"):
                return


def trusts(place: Place) -> list[str]:
    """For each start: the agent was told that it may act on the project's files."""
    rows = [row for row in place.rows() if "env" in row]
    return [row["env"]["GEMINI_CLI_TRUST_WORKSPACE"] for row in rows]


def notices(session: Session, code: str) -> list[Notice]:
    found = [each for each in session.log.since(0) if isinstance(each, Notice)]
    return [each for each in found if each.code == code]


# --- the question


async def test_the_question_shows_each_file_before_the_agent_is_started(place: Place) -> None:
    place.put(SETTINGS, '{"hooks": 1}')
    place.put(".gemini/commands/x.toml", "run = 1")
    async with opened(place) as session:
        asked = await question(session)
        assert place.rows() == []
        assert asked.title == f"Let gemini act on files of {place.project}"
        assert asked.subject == "Trust"
        text, *files = asked.detail
        assert "runs its hooks" in text["text"]
        assert [(each["path"], each["newText"]) for each in files] == [
            (".gemini/commands/x.toml", "run = 1"),
            (SETTINGS, '{"hooks": 1}'),
        ]


slow = partial(pytest.param, marks=pytest.mark.slow)
HOOK = '{"hooks": {"SessionStart": [{"command": "%s"}]}}'
"""Settings with a command."""


@pytest.mark.parametrize(
    "command",
    [
        "./scripts/x.sh",
        slow("scripts/x.sh --check"),
        slow("sh -c 'cd . && exec ./scripts/x.sh'"),
        slow("$CLAUDE_PROJECT_DIR/scripts/x.sh"),
        slow(r"\"${CLAUDE_PROJECT_DIR:-.}\"/scripts/x.sh"),
        slow(r"'scripts'/x.s\\h"),
        slow("python3 ../project/scripts/x.sh;true"),
        slow(r"./scripts\u002fx.sh"),
        slow("env PATH=scripts/x.sh:/bin ls"),
        slow("@PROJECT@/scripts/x.sh"),
        slow("./link"),
    ],
)
async def test_a_script_that_a_settings_file_names_is_shown_and_counts(
    place: Place, command: str
) -> None:
    place.put(SETTINGS, HOOK % command.replace("@PROJECT@", str(place.project)))
    place.put("scripts/x.sh", "echo harmless")
    place.put("scripts/other.sh", "echo other")
    (place.project / "link").symlink_to("scripts/x.sh")
    async with opened(place) as session:
        asked = await question(session)
        text, *files = asked.detail
        assert "scripts/x.sh: is named by .gemini/settings.json" in text["text"]
        shown = {each["path"]: each["newText"] for each in files}
        assert shown["scripts/x.sh"] == "echo harmless"
        assert shown.keys() == {SETTINGS, "scripts/x.sh"}
        session.answer(asked, "trust")
        await started(session)
    place.put("scripts/other.sh", "echo changed")
    async with opened(place) as session:
        assert notices(session, "folder_not_trusted") == []
        assert [e for e in session.log.since(0) if isinstance(e, PermissionOpened)] == []
    place.put("scripts/x.sh", "echo hostile")
    async with opened(place) as session:
        _, *files = (await question(session)).detail
        [changed] = [each for each in files if each["oldText"] != each["newText"]]
        assert (changed["oldText"], changed["newText"]) == ("echo harmless", "echo hostile")


@pytest.mark.slow
async def test_a_link_that_is_turned_to_another_script_is_asked_about_again(place: Place) -> None:
    place.put(SETTINGS, HOOK % "./link")
    place.put("one.sh", "echo one")
    place.put("two.sh", "echo two")
    (place.project / "link").symlink_to("one.sh")
    async with opened(place) as session:
        session.answer(await question(session), "trust")
        await started(session)
    (place.project / "link").unlink()
    (place.project / "link").symlink_to("two.sh")
    async with opened(place) as session:
        _, *files = (await question(session)).detail
        assert {each["path"] for each in files if each["newText"]} >= {SETTINGS, "two.sh"}


@pytest.mark.slow
async def test_of_a_large_program_a_digest_is_shown_and_a_change_is_asked_about(
    place: Place,
) -> None:
    place.put(SETTINGS, HOOK % "./server.js")
    place.put("server.js", "x" * 300_000)
    async with opened(place) as session:
        asked = await question(session)
        [program] = [each for each in asked.detail[1:] if each["path"] == "server.js"]
        assert program["newText"].startswith("sha256 ")
        session.answer(asked, "trust")
        await started(session)
    place.put("server.js", "x" * 299_999 + "y")
    async with opened(place) as session:
        assert (await question(session)).subject == "Trust"


@pytest.mark.slow
async def test_a_pull_that_changes_a_settings_file_is_asked_about_with_the_difference(
    place: Place, tmp_path: Path
) -> None:
    def git(folder: Path, *words: str) -> None:
        person = ("-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run(["git", *person, *words], cwd=folder, check=True, capture_output=True)

    def commit(text: str) -> None:
        (upstream / ".gemini").mkdir(exist_ok=True)
        (upstream / SETTINGS).write_text(text)
        git(upstream, "add", ".")
        git(upstream, "commit", "-qm", "Change")

    upstream = tmp_path / "upstream"
    upstream.mkdir()
    git(upstream, "init", "-q", "-b", "main")
    commit('{"model": "a"}')
    place.project.rmdir()
    git(tmp_path, "clone", "-q", str(upstream), str(place.project))
    async with opened(place) as session:
        session.answer(await question(session), "trust")
        await started(session)
    (upstream / "README").write_text("harmless")
    commit('{"model": "a"}\n')
    git(place.project, "pull", "-q")
    async with opened(place) as session:
        asked = await question(session)
        assert asked.title == f"Let gemini act on changed files of {place.project}"
        [part] = asked.detail[1:]
        assert (part["oldText"], part["newText"]) == ('{"model": "a"}', '{"model": "a"}\n')
        assert trusts(place) == ["true"]  # it has not been started again
        session.answer(asked, "reject")
        await started(session)
    assert trusts(place) == ["true", "false"]


@pytest.mark.parametrize(
    ("option", "level"),
    [("trust", "true"), ("session", "true"), ("reject", "false"), ("never", "false")],
)
async def test_the_answer_decides_how_the_agent_is_started(
    place: Place, option: str, level: str
) -> None:
    place.put(SETTINGS)
    async with opened(place) as session:
        session.answer(await question(session), option)
        await started(session)
        assert trusts(place) == [level]


@pytest.mark.parametrize("option", ["trust", "session", "reject", "never"])
async def test_the_same_files_are_asked_about_again_unless_the_decision_was_lasting(
    place: Place, option: str
) -> None:
    place.put(SETTINGS)
    async with opened(place) as session:
        session.answer(await question(session), option)
        await started(session)
    async with opened(place) as session:
        asks = bool(session.log.state.permissions)
        if not asks:
            await started(session)
    assert asks is (option in ("session", "reject"))
    assert len(TrustRecords().entries()) == (0 if asks else 1)


@pytest.mark.parametrize("stored", [False, True])
async def test_a_lasting_decision_names_the_party_that_made_it(place: Place, stored: bool) -> None:
    place.put(SETTINGS, "1")
    async with AsyncExitStack() as stack:
        options: dict[str, Any] = {}
        if stored:
            file = place.home.parent / "journal.db"
            options["store"] = await stack.enter_async_context(open_store(file))
        session = await stack.enter_async_context(opened(place, **options))
        session.answer(await question(session), "trust")
        await started(session)
        [record] = TrustRecords().entries()
        assert (record.folder, record.agent) == (str(place.project), "gemini")
        assert (record.by, record.via, record.session) == ("user", "program", session.id)
        assert record.files == {SETTINGS: "1"}
    assert not list(place.home.iterdir())  # nothing in the agent's own configuration


async def test_a_prompt_waits_for_the_answer(place: Place) -> None:
    place.put(".github/hooks/x.json")
    async with opened(place, "copilot") as session:
        asked = await question(session)
        assert [each.name for each in asked.options][2] == "Do not start the agent"
        async with trio.open_nursery() as nursery:

            async def prompt() -> None:
                with pytest.raises(FolderNotTrusted, match=r"acts on .*\.github/hooks"):
                    await session.run("go")

            nursery.start_soon(prompt)
            await trio.testing.wait_all_tasks_blocked()
            session.answer(asked, "reject")
    assert place.rows() == []


async def test_changed_files_are_asked_about_again_with_the_difference(place: Place) -> None:
    place.put(SETTINGS, "old")
    place.put(".gemini/.env", "A=1")
    async with opened(place) as session:
        session.answer(await question(session), "trust")
        await started(session)
    place.put(SETTINGS, "new")
    (place.project / ".gemini" / ".env").unlink()
    async with opened(place) as session:
        asked = await question(session)
        assert "changed files" in asked.title
        assert asked.detail[1:] == [
            {"type": "diff", "path": ".gemini/.env", "newText": "", "oldText": "A=1"},
            {"type": "diff", "path": SETTINGS, "newText": "new", "oldText": "old"},
        ]
        session.answer(asked, "trust")
        await started(session)
    assert trusts(place) == ["true", "true"]


async def test_files_that_change_while_the_question_is_open_are_not_covered_by_the_answer(
    place: Place,
) -> None:
    place.put(SETTINGS, "seen")
    async with opened(place) as session:
        asked = await question(session)
        place.put(SETTINGS, "not seen")
        session.answer(asked, "trust")
        again = await question(session, 2)
        assert place.rows() == []
        assert again.detail[-1]["newText"] == "not seen"


async def test_a_decision_is_about_one_agent_one_folder_and_one_tenant(place: Place) -> None:
    place.put(SETTINGS)
    other = place.home / "other"
    place.put(SETTINGS, below=other)
    async with opened(place) as session:
        session.answer(await question(session), "trust")
        await started(session)
    for options in ({"cwd": other}, {"tenant": "alice"}, {"roots": [other]}):
        async with opened(place, **options) as session:
            assert len(session.log.state.permissions) == 1, options


@pytest.mark.parametrize(
    ("policy", "level", "rule"),
    [
        (agentrt.allow_all, "false", "boundary"),
        (agentrt.rules(allow=["*"]), "false", "boundary"),
        (agentrt.rules(allow=["Trust"]), "true", "allow Trust"),
        (agentrt.deny_all, "false", "deny_all"),
        (None, "false", ""),
    ],
)
async def test_a_policy_answers_before_the_session_is_open_and_allow_all_does_not_trust(
    place: Place, policy: Any, level: str, rule: str
) -> None:
    place.put(SETTINGS)
    async with opened(place, permissions=policy) as session:
        assert trusts(place) == [level]
        [closed] = [e for e in session.log.since(0) if isinstance(e, PermissionClosed)]
        assert closed.rule == rule
    assert TrustRecords().entries() == []


async def test_a_policy_of_the_program_gets_the_files(place: Place) -> None:
    place.put(SETTINGS, "x")
    seen: list[PermissionRequest] = []

    async def decide(request: PermissionRequest) -> agentrt.Allow:
        seen.append(request)
        return agentrt.Allow()

    async with opened(place, permissions=decide) as session:
        await started(session)
    [request] = seen
    assert request.tool == "Trust"
    [file] = request.input["files"]
    assert (file["path"], file["text"]) == (SETTINGS, "x")
    assert trusts(place) == ["true"]


async def test_nothing_is_asked_without_files_or_in_a_listed_folder(place: Place) -> None:
    async with opened(place):
        pass
    place.put(SETTINGS)
    async with opened(place, trusted=[place.project]):
        pass
    async with opened(place, trust="no"):
        pass
    assert trusts(place) == ["false", "true", "false"]


async def test_an_agent_whose_use_of_files_is_unknown_starts_only_after_a_yes(
    place: Place,
) -> None:
    place.put(".cursor/mcp.json")
    async with opened(place, "cursor", permissions=agentrt.rules(allow=["Trust"])):
        assert len(place.rows()) > 0
    place.log.unlink()
    with pytest.raises(FolderNotTrusted, match=r"may act on .*\.cursor/mcp\.json"):
        async with opened(place, "cursor", permissions=agentrt.deny_all):
            pass
    assert place.rows() == []


# --- files that cannot be shown


def link(place: Place) -> None:
    (place.home / "real").mkdir()
    (place.home / "real" / "settings.json").write_text("{}")
    (place.project / ".gemini").symlink_to(place.home / "real")


def fifo(place: Place) -> None:
    (place.project / ".gemini").mkdir()
    os.mkfifo(place.project / SETTINGS)


def many(place: Place) -> None:
    for number in range(501):
        place.put(f".gemini/commands/{number}.toml", "")


def large(place: Place) -> None:
    place.put(SETTINGS, "x" * (256 * 1024 + 1))


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (link, r"\.gemini is a symbolic link"),
        (fifo, "is neither a file nor a folder"),
        (many, "more than 500 files"),
        (large, "more than 256 kB"),
    ],
)
async def test_files_that_cannot_be_shown_are_ignored_without_a_question(
    place: Place, make: Any, reason: str
) -> None:
    make(place)
    async with opened(place) as session:
        [told] = notices(session, "trust_not_asked")
        assert not session.log.state.permissions
    assert re.search(reason, told.message)
    assert trusts(place) == ["false"]


# --- during the session


def end_agent(place: Place) -> None:
    for process in psutil.Process().children(recursive=True):
        if str(place.log) in process.cmdline():
            process.kill()


async def dead(session: Session) -> None:
    with trio.fail_after(30):
        async for _ in session.subscribe(after=0):
            if session.state.phase == "dead":
                return


async def test_files_are_looked_at_again_before_each_start(place: Place) -> None:
    place.put(SETTINGS, "1")
    async with opened(place, permissions=agentrt.ask) as session:
        session.answer(await question(session), "trust")
        await started(session)
        place.put(SETTINGS, "2")
        end_agent(place)
        await dead(session)
        session.submit("go")
        asked = await question(session, 2)
        assert asked.detail[-1]["oldText"] == "1"
        session.answer(asked, "reject")
        await started(session)
    assert trusts(place) == ["true", "false"]


async def test_yes_counts_for_the_files_that_were_there_at_the_opening(place: Place) -> None:
    place.put(SETTINGS, "1")
    async with opened(place, trust="yes") as session:
        place.put(SETTINGS, "2")
        end_agent(place)
        await dead(session)
        session.submit("go")
        await started(session)
        [told] = notices(session, "project_files_changed")
        assert told.data["files"] == [SETTINGS]
    assert trusts(place) == ["true", "false"]


def demo_as(name: str) -> agentrt.Agent:
    """The demo agent, which runs commands, under the name of an agent with project files."""
    return structs.replace(
        BUILT_IN[name], command=BUILT_IN["demo"].command, quirks=agentrt.agents.Quirks()
    )


@pytest.mark.slow
@pytest.mark.parametrize("listed", [False, True])
async def test_files_that_an_agent_writes_in_a_turn_are_reported_at_its_end(
    place: Place, listed: bool
) -> None:
    """And they do not count when it is next started, unless the user lists the folder."""
    place.put("opencode.json", "{}")
    options: dict[str, Any] = {"trusted": [place.project]} if listed else {"trust": "yes"}
    async with agentrt.open_session(
        demo_as("opencode"),
        cwd=place.project,
        env={"HOME": str(place.home), "PATH": "/usr/bin:/bin"},
        permissions=agentrt.rules(allow=["Bash", "Edit(opencode.json)"]),
        **options,
    ) as session:
        await session.run("hi")
        assert not notices(session, "project_files_changed")
        await session.run("run cp opencode.json opencode.jsonc")
        with trio.fail_after(30):
            while not notices(session, "project_files_changed"):
                await session.run("hi")
        [told] = notices(session, "project_files_changed")
        assert told.data["files"] == ["opencode.jsonc"]
        assert told.data["trusted"] is listed
        assert ("must be trusted again" in told.message) is not listed
