"""Access to files outside a sandbox: asked about, given to the running agent, and taken back."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
import trio

import agentrt
from agentrt import Agent, Notice, PermissionOpened, open_session, rules
from agentrt.errors import LocalProtocolError
from agentrt.permissions import Policy
from agentrt.sandbox import Sandbox

HERE = Path(__file__).resolve().parent
SANDBOX = Sandbox(read=[str(HERE)])
pytestmark = [pytest.mark.sandbox, pytest.mark.slow]


async def answered(session: agentrt.Session, prompt: str, option: str) -> tuple[str, list[str]]:
    """Run a prompt, answer its questions, and return the answer and the titles."""
    asked = []
    async with session.prompt(prompt) as turn:
        async for event in turn:
            if isinstance(event, PermissionOpened):
                asked.append(event.title)
                turn.answer(event, option)
    return turn.result.text, asked


async def narrowed(session: agentrt.Session) -> None:
    """Wait until access that was given for a turn has been taken back."""
    with trio.fail_after(30), session.subscribe(after=0) as events:
        async for event in events:
            if isinstance(event, Notice) and event.code == "sandbox_narrowed":
                return


@pytest.mark.parametrize(("option", "lasts"), [("once", False), ("session", True)])
async def test_a_write_outside_is_a_question_whose_answer_reaches_the_running_agent(
    option: str, lasts: bool, shell_agent: Agent, project: Path
) -> None:
    outside = project.parent / "neighbour"
    async with open_session(
        shell_agent, cwd=project, sandbox=SANDBOX, permissions=agentrt.ask
    ) as session:
        pid = (await session.run("pid")).text
        said, asked = await answered(session, f"write {outside / 'new'}", option)
        assert asked == [f"Write to {outside}, outside the sandbox"]
        assert '"result": {}' in said
        [opened] = [e for e in session.log.since(0) if isinstance(e, PermissionOpened)]
        assert opened.subject == "Write"
        assert opened.detail == {"tool": "Write", "input": {"path": str(outside)}}
        if not lasts:
            await narrowed(session)
        said = (await session.run(f"shell echo hi > {outside}/shell; cat {outside}/secret")).text
        assert (said == "secret") is lasts
        assert (outside / "shell").exists() is lasts
        assert session.sandbox is not None
        assert [each.target for each in session.sandbox.granted] == [str(outside)] * lasts
        assert (await session.run("pid")).text == pid
        if lasts:
            with pytest.raises(agentrt.errors.AgentDied):
                await session.run("die SIGKILL", check=True)
            assert (await session.run(f"shell cat {outside}/secret")).text == "secret"
            await session.sandbox.revoke(str(outside))
            assert "No such file" in (await session.run(f"shell cat {outside}/secret")).text
            assert session.sandbox.granted == ()
            said, asked = await answered(session, f"read {outside / 'secret'}", "reject")
            assert len(asked) == 1
            assert "is not allowed in this session" in said
            with pytest.raises(LocalProtocolError, match="no permission is for"):
                await session.sandbox.revoke(str(outside))
    assert (outside / "new").read_text() == "x"


async def test_a_private_folder_in_a_hidden_one_can_be_given(
    shell_agent: Agent, project: Path
) -> None:
    """Also if agentrt runs as root, and other users cannot read the folder."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        async with open_session(
            shell_agent, cwd=project, sandbox=SANDBOX, permissions=agentrt.ask
        ) as session:
            _, asked = await answered(session, f"write {folder}/new", "session")
        assert asked == [f"Write to {folder}, outside the sandbox"]
        assert Path(folder, "new").read_text() == "x"


async def test_a_read_does_not_give_the_right_to_write(shell_agent: Agent, project: Path) -> None:
    outside = project.parent / "neighbour"
    async with open_session(
        shell_agent, cwd=project, sandbox=SANDBOX, permissions=agentrt.ask
    ) as session:
        said, asked = await answered(session, f"read {outside / 'secret'}", "session")
        assert "secret" in said
        assert asked == [f"Read {outside / 'secret'}, outside the sandbox"]
        said = (await session.run(f"shell cat {outside}/secret; echo x > {outside}/secret")).text
        assert said.startswith("secret")
        assert "Read-only" in said
        said, asked = await answered(session, f"write {outside / 'secret'}", "reject")
        assert asked == [f"Write to {outside / 'secret'}, outside the sandbox"]
        for path in (f"{outside}/../elsewhere", f"{outside}/other", f"{outside}/secret/../other"):
            assert "error" in (await answered(session, f"read {path}", "reject"))[0]
    assert (outside / "secret").read_text() == "secret"


@pytest.mark.parametrize(
    ("make", "allowed"),
    [
        (lambda path: rules(allow=[f"Write({path}/**)"]), True),
        (lambda path: rules(allow=[f"Write({path})"], deny=[f"Edit({path}/new)"]), False),
        (lambda path: rules(allow=[f"Write({path})"], deny=["Edit"]), False),
        (lambda path: rules(allow=["Write", "Edit", f"Read({path}/**)"]), False),
        (lambda path: rules(allow=["Write(src/**)"], otherwise=agentrt.allow_all), False),
        (lambda path: agentrt.allow_all, False),
        (lambda path: rules(allow=["*"]), False),
        (lambda path: rules(allow=["**"]), False),
        (lambda path: None, False),
    ],
)
async def test_a_rule_must_name_the_files_and_allow_all_does_not_count(
    make: object, allowed: bool, shell_agent: Agent, project: Path
) -> None:
    outside = project.parent / "neighbour"
    policy: Policy | None = make(outside)  # type: ignore[operator]
    async with open_session(
        shell_agent, cwd=project, sandbox=SANDBOX, permissions=policy
    ) as session:
        await session.run(f"write {outside / 'new'}")
    assert (outside / "new").exists() is allowed


async def test_places_that_no_answer_gives_are_refused_without_a_question(
    shell_agent: Agent, project: Path
) -> None:
    git = project.parent / "neighbour" / ".git"
    (git / "hooks").mkdir(parents=True)
    await trio.run_process(["git", "init", "-q", str(git.parent)])
    env = {**os.environ, "HOME": str(project.parent)}
    async with open_session(
        shell_agent, cwd=project, env=env, sandbox=SANDBOX, permissions=agentrt.ask
    ) as session:
        for path in ("/new", f"{project.parent}/new", "/proc/self/x", "/dev/x", "/tmp/x"):
            said, asked = await answered(session, f"write {path}", "session")
            assert "error" in said
            assert asked == []
        await answered(session, f"write {git.parent / 'ok'}", "session")
        line = (
            f"cd {git.parent}; mv .git .g; echo x > .git/hooks/x; git config a.b c; echo y > .git/y"
        )
        said = (await session.run(f"shell {line}")).text
        assert "busy" in said
        assert "hooks/x: Read-only" in said
        assert "could not write config" in said
        said, asked = await answered(session, f"write {git / 'hooks' / 'new'}", "session")
        assert "error" in said
    assert not (git / "hooks" / "x").exists()
    assert (git / "y").exists()


async def test_a_tenant_cannot_give_files_of_the_machine(shell_agent: Agent, project: Path) -> None:
    outside = project.parent / "neighbour"
    async with agentrt.open_runtime(sandbox=SANDBOX, permissions=agentrt.ask) as runtime:
        session = await runtime.create(shell_agent, cwd=project, tenant="a")
        said, asked = await answered(session, f"write {outside / 'new'}", "session")
        assert "outside the folders of this session" in said
        assert asked == []


async def test_viewers_are_told_of_each_change(shell_agent: Agent, project: Path) -> None:
    outside = project.parent / "neighbour"
    async with open_session(
        shell_agent, cwd=project, sandbox=SANDBOX, permissions=agentrt.ask
    ) as session:
        await answered(session, f"write {outside / 'new'}", "session")
        assert session.sandbox is not None
        await session.sandbox.revoke(str(outside))
        await narrowed(session)
        told = [e for e in session.log.since(0) if isinstance(e, Notice) and "sandbox" in e.code]
    assert [(each.code, each.data["granted"]) for each in told] == [
        ("sandboxed", []),
        ("sandbox_widened", [{"tool": "Write", "target": str(outside)}]),
        ("sandbox_narrowed", []),
    ]


@pytest.mark.parametrize("kind", ["write", "read"])
async def test_no_permission_uncovers_what_the_sandbox_withholds(
    kind: str, shell_agent: Agent, project: Path
) -> None:
    """A denied program among others, and a hidden file of the project."""
    outside = project.parent / "neighbour"
    program = outside / "bin" / "rm"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho it ran\n")
    program.chmod(0o755)
    (project / ".env").write_text("hidden")
    env = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"}
    async with open_session(
        shell_agent,
        cwd=project,
        env=env,
        sandbox=Sandbox(read=[str(HERE)], hide=[".env"]),
        permissions=rules(deny=["Bash(rm:*)"], otherwise=agentrt.ask),
    ) as session:
        for place in (program, program.parent / "new", outside / "new", outside / "secret"):
            said, asked = await answered(session, f"{kind} {place}", "session")
            assert asked == ([] if place.name != "secret" else asked[:1])
        await answered(session, f"{kind} {project}/.env", "session")
        said = (await session.run(f"shell {program} -rf x; rm -rf x; cat {project}/.env")).text
        assert said.count("may not be run in this session") == 2
        assert "it ran" not in said
        assert "hidden" not in said


@pytest.mark.skipif(os.geteuid() != 0, reason="only root could read these files")
@pytest.mark.parametrize("kind", ["write", "read"])
@pytest.mark.parametrize("place", ["/etc/shadow", "/etc/ssl/private/x", "/etc/x", "/usr/bin/x"])
async def test_secrets_of_the_system_and_the_folders_around_them_are_never_asked_about(
    place: str, kind: str, shell_agent: Agent, project: Path
) -> None:
    asked: list[agentrt.PermissionRequest] = []

    def policy(request: agentrt.PermissionRequest) -> agentrt.Deny:
        asked.append(request)  # a mistake must not change this machine
        return agentrt.Deny()

    async with open_session(
        shell_agent,
        cwd=project,
        sandbox=Sandbox(read=[str(HERE)], programs=["rm"]),
        permissions=policy,
    ) as session:
        said = (await session.run(f"{kind} {place}")).text
    assert "error" in said
    assert [each.tool for each in asked if each.subject] == []
