"""The weaker mechanism of a sandbox: used only if it is accepted and bubblewrap does not work.

It refuses root, so as root one test runs this file as an ordinary user.
"""

from __future__ import annotations

import os
import re
import shlex
import site
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import agentrt
import agentrt.agents
from agentrt import Agent, Notice, PermissionOpened, open_session
from agentrt.errors import SandboxUnavailable
from agentrt.sandbox import Sandbox, probe, run_in_sandbox

from .test_escapes import SRC, as_user, user_python

HERE = Path(__file__).resolve().parent
ROOT = os.getuid() == 0
SANDBOX = Sandbox(needs="landlock", read=[str(HERE)])
as_ordinary_user = pytest.mark.skipif(ROOT, reason="runs as an ordinary user")
pytestmark = pytest.mark.landlock


@pytest.fixture(autouse=True)
def broken_bwrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A bubblewrap that fails, as where namespaces are forbidden. Returns its folder."""
    program = tmp_path / "bin" / "bwrap"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 'setting up uid map: Permission denied' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return program.parent


@pytest.fixture
def folder(project: Path) -> Iterator[Path]:
    """A project with a temporary folder of its user, which programs may use for other things."""
    yield project
    assert not list(Path(tempfile.gettempdir()).glob("agentrt-*/private")), "left after the end"


@pytest.mark.skipif(not ROOT, reason="this is an ordinary user already")
@pytest.mark.slow
def test_the_tests_of_this_file_pass_as_an_ordinary_user(tmp_path: Path) -> None:
    if (python := user_python()) is None:
        pytest.skip("no Python here that every user can run")
    folder = Path(tempfile.mkdtemp(prefix="landlock-", dir="/var/tmp"))
    os.chown(folder, 65534, 65534)
    env = {
        "HOME": str(folder),
        "TMPDIR": str(folder),
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "PYTHONPATH": ":".join([str(SRC), *site.getsitepackages()]),
    }
    options = ["-p", "no:cacheprovider", "-n", "0", "--slow", "-q"]
    done = subprocess.run(
        as_user(python, "-B", "-m", "pytest", *options, __file__),
        cwd=HERE.parents[1],
        env=env,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    subprocess.run(["rm", "-r", str(folder)], check=True)
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.search(r"(\d+) passed, 2 skipped", done.stdout)
    assert found is not None, done.stdout
    assert int(found[1]) >= 8


@pytest.mark.skipif(not ROOT, reason="only root is refused")
async def test_root_is_refused_with_the_reason_of_both_mechanisms(
    shell_agent: Agent, project: Path
) -> None:
    with pytest.raises(SandboxUnavailable, match=r"uid map.*run agentrt as an ordinary user"):
        async with open_session(shell_agent, cwd=project, sandbox=SANDBOX):
            pass


async def test_it_is_never_used_unless_it_is_accepted(shell_agent: Agent, project: Path) -> None:
    sandbox = Sandbox(read=[str(HERE)])
    with pytest.raises(SandboxUnavailable, match="uid map"):
        async with open_session(shell_agent, cwd=project, sandbox=sandbox):
            pass


@as_ordinary_user
@pytest.mark.slow
async def test_bubblewrap_is_preferred_where_it_works(
    shell_agent: Agent, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", os.environ["PATH"].partition(":")[2])
    if not all(each.works for each in probe() if each.required):
        pytest.skip("bubblewrap does not work here")
    async with open_session(shell_agent, cwd=project, sandbox=SANDBOX) as session:
        assert session.sandbox is not None
        assert session.sandbox.tier == "bwrap"


@as_ordinary_user
@pytest.mark.slow
async def test_a_session_shows_what_the_weaker_mechanism_does_not_protect(
    shell_agent: Agent, folder: Path
) -> None:
    async with open_session(shell_agent, cwd=folder, sandbox=SANDBOX) as session:
        assert session.sandbox is not None
        assert session.sandbox.tier == "landlock"
        await session.run("pid")
        notices = {each.code: each for each in session.log.since(0) if isinstance(each, Notice)}
        assert "Landlock" in notices["sandbox_weaker"].message
        assert notices["sandbox_weaker"].level == "warning"


@as_ordinary_user
@pytest.mark.slow
async def test_files_outside_are_neither_read_nor_written(shell_agent: Agent, folder: Path) -> None:
    async with open_session(
        shell_agent, cwd=folder, sandbox=SANDBOX, permissions=agentrt.allow_all
    ) as session:
        for way in ("shell", "terminal"):
            for line in ("cat ../neighbour/secret", "echo x >../neighbour/new", "ls /home ~root"):
                text = (await session.run(f"{way} {line}")).text
                assert "Permission denied" in text, line
            assert (await session.run(f"{way} echo x >own; cat own")).text == "x\n"
            assert (await session.run(f"{way} cat $(mktemp); echo x >~/y; cat ~/y")).text == "x\n"
        refused = (await session.run(f"read {folder.parent}/neighbour/secret")).text
    assert "outside the folders" in refused
    assert not (folder.parent / "neighbour" / "new").exists()


@as_ordinary_user
@pytest.mark.slow
async def test_a_host_is_a_question_and_a_program_without_a_proxy_has_no_network(
    shell_agent: Agent, folder: Path
) -> None:
    asked = []
    direct = "python3 -c 'import socket; socket.create_connection((\"1.1.1.1\", 80), 3)'"
    async with open_session(
        shell_agent, cwd=folder, sandbox=SANDBOX, permissions=agentrt.ask
    ) as session:
        assert "Permission" in (await session.run(f"shell {direct}")).text
        async with session.prompt("shell curl -s http://new.invalid/") as turn:
            async for event in turn:
                if isinstance(event, PermissionOpened):
                    asked.append(event.title)
                    turn.answer(event, "reject")
    assert asked == ["Connect to new.invalid:80"]
    assert "not allowed" in turn.result.text


@as_ordinary_user
@pytest.mark.slow
async def test_a_denied_program_cannot_be_run(shell_agent: Agent, folder: Path) -> None:
    policy = agentrt.rules(deny=["Bash(rm:*)"], allow=["Bash"])
    lines = ("rm kept", "/bin/rm kept", "cp /bin/rm copy && ./copy kept", "exec -a x /bin/rm kept")
    (folder / "kept").write_text("x")
    async with open_session(
        shell_agent, cwd=folder, sandbox=SANDBOX, permissions=policy
    ) as session:
        for line in lines:
            assert (
                "Permission denied"
                in (await session.run(f"shell bash -c {shlex.quote(line)}")).text
            )
    assert (folder / "kept").exists()


@as_ordinary_user
@pytest.mark.slow
async def test_the_programs_own_tools_work(folder: Path, shell_agent: Agent) -> None:
    @agentrt.tool
    def note(text: str) -> str:
        """Note something."""
        return f"noted {text}"

    async with open_session(
        shell_agent, cwd=folder, sandbox=SANDBOX, tools=[note], permissions=agentrt.allow_all
    ) as session:
        assert "noted hi" in (await session.run('tool note {"text": "hi"}')).text


@as_ordinary_user
@pytest.mark.parametrize(
    ("setting", "name"),
    [
        ({"hide": [".env"]}, "hide"),
        ({"nested": True}, "nested"),
        ({"programs": {"git": "ask"}}, "programs"),
    ],
)
async def test_what_it_cannot_enforce_is_refused(
    setting: dict[str, object], name: str, shell_agent: Agent, project: Path
) -> None:
    sandbox = Sandbox(needs="landlock", **setting)  # type: ignore[arg-type]
    with pytest.raises(SandboxUnavailable, match=f"does not support {name}"):
        async with open_session(shell_agent, cwd=project, sandbox=sandbox):
            pass


@as_ordinary_user
@pytest.mark.slow
async def test_a_single_command_runs_in_it(folder: Path) -> None:
    line = "touch ran; cat ../neighbour/secret && exit 1; exit 7"
    assert await run_in_sandbox(["sh", "-c", line], SANDBOX, cwd=folder) == 7
    assert (folder / "ran").exists()


def test_an_unknown_mechanism_is_refused() -> None:
    with pytest.raises(ValueError, match="'bwrap' or 'landlock'"):
        Sandbox(needs="docker")  # type: ignore[arg-type]


def test_this_machine_is_tested_for_it() -> None:
    found = {each.name: each for each in probe()}["Landlock (`needs`)"]
    assert not found.required
    assert found.works == (not ROOT)
    assert found.detail.startswith("version ")
    assert sys.platform == "linux"
