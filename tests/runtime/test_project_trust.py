"""Agents in a folder that the user does not trust: how they are started, and what is told."""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import trio
from project_places import QUICK, Place

import agentrt
from agentrt._core.agents.projects import judge
from agentrt.agents import BUILT_IN, Agent
from agentrt.errors import FolderNotTrusted
from inside.agents import PROJECT_RULES, describe_measures

BOUND_BY_ACP = ["claude-agent-acp", "gemini", "qwen", "opencode", "copilot", "kimi", "vibe"]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    return Place(tmp_path.resolve())


# --- what each agent is given


async def test_claude_code_reads_the_user_s_settings_only(place: Place) -> None:
    await place.start("claude")
    assert "--setting-sources=user" in place.argv
    assert "--strict-mcp-config" in place.argv


async def test_in_a_trusted_folder_claude_code_reads_its_own(place: Place) -> None:
    await place.start("claude", trust="yes")
    assert not [word for word in place.argv if "setting-sources" in word or "strict" in word]


async def test_what_the_program_itself_says_of_settings_wins(place: Place) -> None:
    await place.start("claude", options={"setting_sources": ["project"], "strict_mcp": False})
    assert "--setting-sources=project" in place.argv
    assert "--strict-mcp-config" not in place.argv


async def test_what_the_agent_s_entry_says_of_settings_wins(place: Place) -> None:
    own = agentrt.claude.ClaudeOptions(setting_sources=("user", "local"))
    await place.start(place.agent("claude", claude=own))
    assert "--setting-sources=user,local" in place.argv


OPENINGS = [
    ("session/new", {}),
    ("session/load", {"resume": "s"}),
    ("session/resume", {"resume": "s", "options": {"replay": False}}),
    ("session/fork", {"resume": "s", "fork": True}),
]


@pytest.mark.parametrize(("method", "options"), OPENINGS)
async def test_claude_over_acp_is_told_at_each_way_into_a_session(
    place: Place, method: str, options: dict[str, Any]
) -> None:
    await place.start("claude-agent-acp", **options)
    wanted = {"settingSources": ["user"], "strictMcpConfig": True}
    assert place.params(method)["_meta"] == {"claudeCode": {"options": wanted}}


async def test_other_extras_of_the_program_s_stay(place: Place) -> None:
    meta = {"claudeCode": {"options": {"maxTurns": 3, "strictMcpConfig": False}}, "mine": 1}
    await place.start("claude-agent-acp", options={"meta": meta})
    wanted = {"settingSources": ["user"], "strictMcpConfig": False, "maxTurns": 3}
    told = place.params("session/new")["_meta"]
    assert told == {"claudeCode": {"options": wanted}, "mine": 1}


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("thread/start", {}),
        ("thread/resume", {"resume": "t"}),
        ("thread/fork", {"resume": "t", "fork": True}),
    ],
)
@pytest.mark.parametrize(("trust", "level"), [("no", "untrusted"), ("yes", "trusted")])
async def test_codex_is_told_the_trust_level_of_each_folder(
    place: Place, method: str, options: dict[str, Any], trust: str, level: str
) -> None:
    """Also of a trusted one: a folder without a level becomes trusted for ever by the first turn
    that may write."""
    root = place.home / "more"
    root.mkdir()
    (place.home / "link").symlink_to(place.project)
    more = {"cwd": place.home / "link", "roots": [root], "trust": trust}
    await place.start("codex", **more, **options)
    projects = place.params(method)["config"]["projects"]
    names = [place.home / "link", place.project, root]
    assert projects == {str(name): {"trust_level": level} for name in names}


async def test_codex_is_told_of_the_repository_around_the_folder(place: Place) -> None:
    (place.project / ".git").mkdir()
    (place.project / "a" / "b").mkdir(parents=True)
    await place.start("codex", cwd=place.project / "a" / "b")
    projects = place.params("thread/start")["config"]["projects"]
    assert projects[str(place.project)] == {"trust_level": "untrusted"}


async def test_codex_over_zed_s_adapter_gets_the_levels_as_an_argument(place: Place) -> None:
    folder = place.project / 'a "quoted" = {name}'
    folder.mkdir()
    await place.start("codex-acp-zed", cwd=folder)
    flag, value = place.argv
    assert flag == "-c"
    assert tomllib.loads(value) == {"projects": {str(folder): {"trust_level": "untrusted"}}}


async def test_gemini_is_told_whether_the_folder_is_trusted(place: Place) -> None:
    await place.start("gemini")
    assert place.env["GEMINI_CLI_TRUST_WORKSPACE"] == "false"
    place.log.unlink()
    await place.start("gemini", trust="yes")
    assert place.env["GEMINI_CLI_TRUST_WORKSPACE"] == "true"


async def test_the_environment_of_an_agent_s_entry_wins(place: Place) -> None:
    await place.start(place.agent("gemini", env={"GEMINI_CLI_TRUST_WORKSPACE": "mine"}))
    assert place.env["GEMINI_CLI_TRUST_WORKSPACE"] == "mine"


async def test_qwen_gets_settings_and_a_list_of_folders_of_our_own(place: Place) -> None:
    machine = place.put(
        "settings.json", '{"a": 1, /* no */ "security": {"b": 2}}', below=place.home
    )
    seen: dict[str, Any] = {}
    env = {"HOME": str(place.home), "QWEN_CODE_SYSTEM_SETTINGS_PATH": str(machine)}
    async with agentrt.open_session(place.agent("qwen"), cwd=place.project, env=env):
        for name in ("QWEN_CODE_SYSTEM_SETTINGS_PATH", "QWEN_CODE_TRUSTED_FOLDERS_PATH"):
            path = trio.Path(place.env[name])
            seen[path.name] = json.loads(await path.read_text())
    security = {"b": 2, "folderTrust": {"enabled": True}}
    assert seen["settings.json"] == {"a": 1, "security": security}
    assert seen["trustedFolders.json"] == {str(place.project): "DO_NOT_TRUST"}
    assert not await path.exists()


async def test_settings_of_the_machine_that_cannot_be_read_start_no_qwen(place: Place) -> None:
    machine = place.put("settings.json", "{", below=place.home)
    env = {"HOME": str(place.home), "QWEN_CODE_SYSTEM_SETTINGS_PATH": str(machine)}
    with pytest.raises(agentrt.AgentStartError, match="cannot be read"):
        await place.start("qwen", env=env)
    assert place.rows() == []


async def test_opencode_and_copilot_get_their_variables(place: Place) -> None:
    await place.start("opencode")
    assert place.env["OPENCODE_DISABLE_PROJECT_CONFIG"] == "1"
    place.log.unlink()
    await place.start("copilot")
    assert "COPILOT_ALLOW_ALL" not in place.env


# --- what is refused


async def refused(place: Place, agent: str | Agent, **options: Any) -> str:
    with pytest.raises(agentrt.errors.FolderNotTrusted) as error:
        await place.start(agent, **options)
    assert place.rows() == []  # nothing was started
    assert error.value.folder == str(options.get("cwd", place.project))
    return str(error.value)


async def test_codex_over_acp_is_not_started_and_another_is_named(place: Place) -> None:
    assert "use the agent 'codex'" in await refused(place, "codex-acp")


async def test_it_may_be_asked_for_its_list_of_sessions(place: Place) -> None:
    await place.start("codex-acp", options={"session": False})
    assert [row["method"] for row in place.rows() if "method" in row] == ["initialize"]


async def test_what_was_refused_starts_in_a_trusted_folder(place: Place) -> None:
    await place.start("codex-acp", trusted=[place.project])
    assert place.params("session/new")["cwd"] == str(place.project)


REFUSED = [
    ("copilot", ".github/hooks/x.json", "{}"),
    ("opencode", ".opencode/plugin/x.ts", ""),
    ("opencode", ".opencode/tools/x.ts", ""),
    ("opencode", "opencode.json", '{"plugin": ["./p.ts"]}'),
    ("opencode", "opencode.jsonc", '{"plu\\u0067in": ["./p.ts"]}'),
    ("opencode", ".opencode/opencode.json", '{"x": "{file:./y}"}'),
]


@pytest.mark.parametrize("below", ["", "a/b"])
@pytest.mark.parametrize(("agent", "name", "text"), REFUSED)
async def test_a_file_that_an_agent_acts_on_whatever_it_is_told(
    place: Place, agent: str, name: str, text: str, below: str
) -> None:
    path = place.put(name, text)
    cwd = place.project / below
    cwd.mkdir(parents=True, exist_ok=True)
    folder = agent == "copilot" or path.suffix == ".ts"
    assert str(path.parent if folder else path) in await refused(place, agent, cwd=cwd)


async def test_a_configuration_without_plugins_is_no_reason(place: Place) -> None:
    place.put("opencode.json", '{"mcp": {}}')
    await place.start("opencode")
    assert place.params("session/new")


TRUSTING = [
    ("copilot", ".mcp.json", ".copilot/config.json", '// mine\n{{"trustedFolders": ["{0}"]}}'),
    ("kimi", ".mcp.json", ".kimi-code/workspace-trust/wd_x", '{{"root": "{0}"}}'),
    ("kimi", ".kimi-code/mcp.json", ".kimi-code/workspace-trust/wd.json", '{{"root": "{0}"}}'),
    ("vibe", ".vibe/config.toml", ".vibe/trusted_folders.toml", 'trusted = ["{0}"]'),
    ("vibe", ".vibe/hooks.toml", ".vibe/trusted_folders.toml", "trusted = {{"),
]


@pytest.mark.parametrize("of_a_parent", [False, True])
@pytest.mark.parametrize(("agent", "name", "store", "text"), TRUSTING)
async def test_an_agent_s_own_trust_does_not_count(
    place: Place, agent: str, name: str, store: str, text: str, of_a_parent: bool
) -> None:
    place.put(name)
    trusted = place.project.parent if of_a_parent else place.project
    there = place.put(store, text.format(trusted), below=place.home)
    assert str(there) in await refused(place, agent)


@pytest.mark.parametrize(("agent", "name", "store", "text"), TRUSTING[:-1])
async def test_the_trust_of_another_folder_is_no_reason(
    place: Place, agent: str, name: str, store: str, text: str
) -> None:
    place.put(name)
    place.put(store, text.format(place.project / "below"), below=place.home)
    await place.start(agent)
    assert place.params("session/new")


async def test_the_folder_is_looked_at_before_each_start(place: Place) -> None:
    options = {"cwd": place.project, "env": {"HOME": str(place.home)}, "limits": QUICK}
    async with agentrt.open_session(place.agent("copilot"), **options) as session:
        place.put(".github/hooks/x.json")
        for process in psutil.Process().children(recursive=True):
            if str(place.log) in process.cmdline():
                process.kill()
        with trio.fail_after(30):
            async for _ in session.subscribe(after=0):
                if session.state.phase == "dead":
                    break
        with pytest.raises(agentrt.errors.FolderNotTrusted, match=r"acts on .*\.github/hooks"):
            await session.run("go")
    assert sum("argv" in row for row in place.rows()) == 1


# --- what is told


async def test_the_files_that_are_ignored_are_named(place: Place) -> None:
    place.put(".gemini/settings.json")
    [notice] = await place.start("gemini")
    assert notice.code == "folder_not_trusted"
    assert notice.level == "warning"
    assert notice.message.startswith("gemini ignores .gemini/settings.json: the folder is not")


@pytest.mark.slow
async def test_nothing_is_told_where_there_is_nothing(place: Place) -> None:
    place.put("README.md")
    place.put(".github/workflows/ci.yml")
    for agent in BOUND_BY_ACP:
        assert await place.start(agent) == []


async def test_nothing_is_told_in_a_trusted_folder(place: Place) -> None:
    place.put(".gemini/settings.json")
    assert await place.start("gemini", trusted=[place.project]) == []


@pytest.mark.parametrize("file", [".cursor/mcp.json", "opencode.json", ".claude/settings.json"])
async def test_an_agent_outside_of_the_catalogue_is_not_started_with_files_of_any_agent(
    place: Place, file: str
) -> None:
    path = place.put(file)
    unknown = agentrt.agents.acp(place.agent("gemini").command, name="mine")
    with pytest.raises(FolderNotTrusted, match=r"^mine is not started.*project_files") as why:
        await place.start(unknown)
    assert str(path) in str(why.value)
    assert place.rows() == []
    place.put(".env")
    path.unlink()
    [notice] = await place.start(unknown)
    assert notice.message.startswith("mine may act on .env")
    assert place.rows() != []


@pytest.mark.slow
async def test_an_agent_that_declares_its_files_is_kept_from_those_only(place: Place) -> None:
    place.put(".cursor/mcp.json")
    command = place.agent("gemini").command
    assert await place.start(agentrt.agents.acp(command, name="mine", project_files=[])) == []
    assert place.rows() != []
    place.log.unlink()
    own = agentrt.agents.acp(command, name="mine", project_files=[".mine"])
    assert await place.start(own) == []
    assert place.rows() != []
    place.log.unlink()
    place.put(".mine/settings.toml")
    with pytest.raises(FolderNotTrusted, match=r"it acts on .*/\.mine regardless"):
        await place.start(own)
    assert place.rows() == []
    await place.start(own, trust="yes")
    assert place.rows() != []


@pytest.mark.parametrize("path", ["", "/etc/x", "~/x", "../x", "a/../../x"])
def test_project_files_are_paths_inside_a_project(path: str) -> None:
    with pytest.raises(ValueError, match="project_files"):
        agentrt.agents.acp("mine", project_files=[path])


UNMEASURED = sorted(name for name, rules in PROJECT_RULES.items() if not rules.known)


@pytest.mark.parametrize("agent", UNMEASURED)
@pytest.mark.parametrize("by", ["name", "command"])
async def test_an_agent_of_the_catalogue_that_was_not_measured_is_not_started(
    place: Place, agent: str, by: str
) -> None:
    file = PROJECT_RULES[agent].files[0]
    path = place.put(f"{file.path}/x" if "." not in Path(file.path).name[1:] else file.path)
    found = place.agent(agent)
    if by == "command":
        program = place.home / BUILT_IN[agent].command[0]
        program.symlink_to(sys.executable)
        found = agentrt.agents.acp([str(program), *found.command[1:]], name="mine")
    with pytest.raises(FolderNotTrusted, match=f"^{found.name} is not started.*may act on"):
        await place.start(found)
    assert place.rows() == []
    path.unlink()
    await place.start(found)
    assert place.rows() != []


@pytest.mark.parametrize("agent", sorted(BUILT_IN))
def test_each_file_of_each_agent_of_the_catalogue_is_ignored_or_refused(
    place: Place, agent: str
) -> None:
    rules = PROJECT_RULES[agent]
    assert rules.files or agent == "demo"
    for file in rules.files:
        path = place.put(file.path.replace("*", "x"), '{"plugin": []}')
        verdict = judge(rules, [str(place.project)], {"HOME": str(place.home)})
        assert str(path) in [each.path for each in verdict.found]
        if not rules.known:
            assert f"may act on {path}" in verdict.refusal
        elif not verdict.refusal:
            measures = describe_measures(rules)
            assert measures != ["nothing is needed"], file.path
        path.unlink()
        while path.parent != place.project:
            path = path.parent
            path.rmdir()


@agentrt.tool
async def note() -> str:
    """Take a note."""
    return "noted"


@pytest.mark.parametrize("agent", ["gemini", "qwen"])
async def test_tools_that_an_agent_does_not_get_are_told_of(place: Place, agent: str) -> None:
    [notice] = await place.start(agent, tools=[note])
    assert notice.code == "tools_not_trusted"
    assert "does not get this program's tools" in notice.message
    assert await place.start(agent, tools=[note], trust="yes") == []


# --- which folders are trusted


@pytest.mark.parametrize("trusted", [["{project}"], ["/nowhere", "{link}"], ["{project}/"]])
async def test_a_listed_folder_is_trusted_by_any_of_its_names(
    place: Place, trusted: list[str]
) -> None:
    link = place.home / "link"
    link.symlink_to(place.project)
    folders = [each.format(project=place.project, link=link) for each in trusted]
    await place.start("gemini", trusted=folders)
    assert place.env["GEMINI_CLI_TRUST_WORKSPACE"] == "true"


async def is_trusted(place: Place, cwd: Path, trusted: Path, **more: Any) -> bool:
    place.put("x", below=cwd)
    await place.start("gemini", cwd=cwd, trusted=[trusted], **more)
    return place.env["GEMINI_CLI_TRUST_WORKSPACE"] == "true"


async def test_a_folder_of_a_trusted_repository_is_trusted(place: Place) -> None:
    (place.project / ".git").mkdir()
    assert await is_trusted(place, place.project / "a" / "b", place.project)


async def test_what_lies_below_a_trusted_folder_is_not(place: Place) -> None:
    assert not await is_trusted(place, place.project / "a", place.project)


async def test_a_clone_below_a_trusted_repository_is_not(place: Place) -> None:
    (place.project / ".git").mkdir()
    (place.project / "clone" / ".git").mkdir(parents=True)
    assert not await is_trusted(place, place.project / "clone" / "a", place.project)


async def test_a_session_is_trusted_if_all_its_folders_are(place: Place) -> None:
    assert not await is_trusted(place, place.project, place.project, roots=[place.home])


@pytest.mark.parametrize("wrong", ["/a", 1, [1], None, True])
async def test_what_cannot_be_meant_is_refused(place: Place, wrong: Any) -> None:
    with pytest.raises(TypeError, match="trusted"):
        await place.start("gemini", trusted=wrong)


async def test_a_runtime_trusts_what_its_configuration_lists(place: Place) -> None:
    from agentrt.config import Config

    other = place.home / "other"
    other.mkdir()
    config = Config(agents={"gemini": place.agent("gemini")}, trusted=(str(place.project),))
    async with agentrt.open_runtime(config=config, env={}, trusted=[other]) as runtime:
        for cwd in (place.project, other, place.home):
            await runtime.create("gemini", cwd=cwd)
    levels = [row["env"]["GEMINI_CLI_TRUST_WORKSPACE"] for row in place.rows() if "env" in row]
    assert levels == ["true", "true", "false"]


@pytest.mark.slow
async def test_a_module_of_the_project_is_not_imported_by_the_demo_agent(place: Place) -> None:
    for name in ("msgspec.py", "trio.py", "agentrt/__init__.py"):
        place.put(name, f"open({str(place.log)!r}, 'w')")
    async with agentrt.open_session("demo", cwd=place.project, limits=QUICK) as session:
        await session.run("hi")
    assert not place.log.exists()


def test_each_row_is_of_an_agent_of_the_catalogue() -> None:
    assert PROJECT_RULES.keys() <= BUILT_IN.keys()
