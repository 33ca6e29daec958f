"""Terminals: real programs, their output, and that each of them ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from agentrt import Limits
from agentrt._core.acp.messages import NameValue
from agentrt._core.acp.terminals import TerminalService, _OutputTail, merge_environment
from agentrt.errors import RequestError
from agentrt.events import JsonObject
from faults.quick import mostly_slow
from inside.drivers import Roots
from inside.tasks import bare_errors

NOT_FOUND, INVALID, INTERNAL = -32002, -32602, -32603
EXITED = {"exitCode": 0, "signal": None}


class Live:
    """What `on_output` was told."""

    def __init__(self) -> None:
        self.text: dict[str, str] = {}
        self.output = trio.Event()

    def __call__(self, terminal: str, text: str) -> None:
        self.text[terminal] = self.text.get(terminal, "") + text
        self.output.set()
        self.output = trio.Event()


class Agent:
    """The agent's side: each method of the protocol."""

    def __init__(self, terminals: TerminalService, live: Live) -> None:
        self.terminals = terminals
        self.live = live

    async def create(self, command: str, *args: str, **more: Any) -> str:
        params = {"sessionId": "s", "command": command, "args": list(args), **more}
        result = await self.terminals.handle("terminal/create", params)
        id = result["terminalId"]
        assert isinstance(id, str)
        return id

    async def python(self, code: str, **more: Any) -> str:
        return await self.create(sys.executable, "-c", code, **more)

    async def ask(self, what: str, id: str) -> JsonObject:
        return await self.terminals.handle(f"terminal/{what}", {"sessionId": "s", "terminalId": id})

    async def wait(self, id: str) -> JsonObject:
        return await self.ask("wait_for_exit", id)

    async def output(self, id: str) -> Any:
        return (await self.ask("output", id))["output"]

    async def result(self, id: str) -> str:
        """The whole output of a program that ends well."""
        assert await self.wait(id) == EXITED
        output = await self.output(id)
        assert isinstance(output, str)
        return output

    async def until(self, id: str, text: str) -> str:
        """Wait until the program has written something; all that it has written."""
        while text not in self.live.text.get(id, ""):
            await self.live.output.wait()
        return self.live.text[id]


@asynccontextmanager
async def terminals_in(
    root: Path,
    *,
    env: dict[str, str] | None = None,
    live: Any = None,
    variables: tuple[str, ...] = (),
    on_left_out: Callable[[str], None] = lambda name: None,
    **limits: Any,
) -> AsyncIterator[Agent]:
    live = live or Live()
    with trio.fail_after(20):
        async with bare_errors(), trio.open_nursery() as nursery:
            terminals = TerminalService(
                nursery,
                roots=Roots([str(root)]),
                cwd=str(root),
                env=dict(os.environ) if env is None else env,
                limits=Limits(**limits),
                on_output=live,
                variables=variables,
                on_left_out=on_left_out,
            )
            try:
                yield Agent(terminals, live)
            finally:
                terminals.release_all()


def gone(pid: int) -> bool:
    """Whether a process has ended. One that init has not yet taken away has."""
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def started_by_tests() -> list[int]:
    """What runs with the mark that `conftest.py` gives to everything that a test starts."""
    mark, found = ("AGENTRT_TEST_RUN", str(os.getpid())), []
    for process in psutil.process_iter():
        try:
            if mark in process.environ().items() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
        except psutil.Error:
            continue
    return [pid for pid in found if pid != os.getpid()]


async def until_gone(pid: int) -> None:
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    with trio.fail_after(30):
        await trio.lowlevel.wait_readable(handle)
    os.close(handle)


# --- output and exit


async def test_a_program_runs_and_both_its_streams_are_one(tmp_path: Path) -> None:
    async with terminals_in(tmp_path) as agent:
        id = await agent.create("sh", "-c", "echo out; echo err >&2; exit 3")
        assert await agent.wait(id) == {"exitCode": 3, "signal": None}
        assert await agent.ask("output", id) == {
            "output": "out\nerr\n",
            "truncated": False,
            "exitStatus": {"exitCode": 3, "signal": None},
        }


async def test_create_returns_at_once_and_the_output_grows(tmp_path: Path) -> None:
    async with terminals_in(tmp_path) as agent:
        os.mkfifo(tmp_path / "pipe")
        id = await agent.create("sh", "-c", "echo one; read x < pipe; echo two")
        await agent.until(id, "one")
        assert "exitStatus" not in await agent.ask("output", id)
        (tmp_path / "pipe").write_text("\n")
        assert await agent.result(id) == "one\ntwo\n"


async def test_the_output_is_shown_as_it_comes(tmp_path: Path) -> None:
    live = Live()
    async with terminals_in(tmp_path, live=live) as agent:
        one = await agent.create("echo", "one")
        two = await agent.create("printf", "two")
        await agent.wait(one)
        await agent.wait(two)
    assert live.text == {one: "one\n", two: "two"}


async def test_a_viewer_that_fails_does_not_stop_the_program(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(terminal: str, text: str) -> None:
        raise ValueError("no")

    async with terminals_in(tmp_path, live=fail) as agent:
        assert await agent.result(await agent.create("echo", "hi")) == "hi\n"
    assert "on_output failed" in caplog.text


async def test_the_program_reads_nothing(tmp_path: Path) -> None:
    async with terminals_in(tmp_path) as agent:
        assert await agent.result(await agent.create("cat")) == ""


async def test_a_program_killed_by_a_signal_says_which(tmp_path: Path) -> None:
    async with terminals_in(tmp_path) as agent:
        id = await agent.create("sh", "-c", "kill -SEGV $$")
        assert await agent.wait(id) == {"exitCode": None, "signal": "SIGSEGV"}


@pytest.mark.slow
async def test_all_that_was_written_before_the_exit_is_there_after_it(tmp_path: Path) -> None:
    async with terminals_in(tmp_path) as agent:
        for _ in range(10):
            id = await agent.python("print('x' * 50000, end='')")
            assert len(await agent.result(id)) == 50000
            await agent.ask("release", id)


@pytest.mark.slow
@pytest.mark.parametrize("wanted", mostly_slow([1000, None, 10**9], one_in=3))
async def test_a_flood_keeps_its_end_and_bounded_memory(tmp_path: Path, wanted: int | None) -> None:
    async with terminals_in(tmp_path, terminal_output_bytes=100_000) as agent:
        code = "for i in range(200000): print(i, 'x' * 20)"
        id = await agent.python(code, outputByteLimit=wanted)
        assert await agent.wait(id) == EXITED
        result = await agent.ask("output", id)
        assert result["truncated"] is True
        assert result["output"].endswith("199999 " + "x" * 20 + "\n")
        assert len(result["output"]) == min(wanted or 100_000, 100_000)


@pytest.mark.parametrize("limit", [0, 1, 2, 3, 4, 5, 7, 8, 9])
async def test_the_output_is_cut_between_characters(tmp_path: Path, limit: int) -> None:
    async with terminals_in(tmp_path) as agent:
        id = await agent.create("printf", "aé😀b", outputByteLimit=limit)
        await agent.wait(id)
        result = await agent.ask("output", id)
        assert result["output"] == {0: "", 7: "é😀b", 8: "aé😀b", 9: "aé😀b"}.get(
            limit, "b" if limit < 5 else "😀b"
        )
        assert result["truncated"] is (limit < 8)


@given(st.text(), st.integers(0, 50), st.integers(1, 7))
@pytest.mark.slow
def test_the_kept_end_is_the_longest_that_fits(text: str, limit: int, piece: int) -> None:
    tail, data = _OutputTail(limit), text.encode("utf-8", "replace")
    text = data.decode()
    parts = [data[i : i + piece] for i in range(0, len(data), piece)]
    live = "".join(tail.feed(part, final=False) for part in parts) + tail.feed(b"", final=True)
    assert live == text
    fitting = (text[i:] for i in range(len(text) + 1))
    assert tail.text() == next(end for end in fitting if len(end.encode()) <= limit)
    assert tail.truncated is (len(data) > limit)


async def test_bytes_that_are_no_text_are_replaced_within_the_limit(tmp_path: Path) -> None:
    async with terminals_in(tmp_path) as agent:
        id = await agent.create("printf", r"\377\377\377ab\303", outputByteLimit=9)
        assert await agent.result(id) == "\ufffdab\ufffd"


async def test_a_program_that_leaves_something_behind_has_exited_all_the_same(
    tmp_path: Path,
) -> None:
    async with terminals_in(tmp_path) as agent:
        id = await agent.create("sh", "-c", "echo hi; sleep 60 & echo $!")
        output = await agent.result(id)
        assert output.startswith("hi\n")
        child = int(output.split()[1])
        assert not gone(child)
        await agent.ask("release", id)
        await until_gone(child)


# --- how it is started


async def test_a_command_line_is_run_by_a_shell_and_a_program_is_not(tmp_path: Path) -> None:
    async with terminals_in(tmp_path) as agent:
        assert await agent.result(await agent.create("echo a | tr a b")) == "b\n"
        assert await agent.result(await agent.create("echo", "a | tr a b")) == "a | tr a b\n"
        assert await agent.result(await agent.create("echo", "$HOME", ";", "ls")) == "$HOME ; ls\n"
        assert await agent.result(await agent.create("pwd")) == f"{tmp_path}\n"


async def test_args_may_be_missing(tmp_path: Path) -> None:
    async with terminals_in(tmp_path) as agent:
        result = await agent.terminals.handle(
            "terminal/create", {"sessionId": "s", "command": "pwd"}
        )
        assert await agent.result(result["terminalId"]) == f"{tmp_path}\n"


async def test_it_starts_where_the_agent_says_inside_the_roots(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "link").symlink_to("sub")
    async with terminals_in(tmp_path) as agent:
        for cwd in ("sub", "link", "sub/../sub"):
            id = await agent.create("pwd", cwd=f"{tmp_path}/{cwd}")
            assert await agent.result(id) == f"{tmp_path}/sub\n"


@pytest.mark.parametrize(
    ("cwd", "code"),
    [
        ("/", INVALID),
        ("..", INVALID),
        ("{root}/..", INVALID),
        ("{root}/out", INVALID),
        ("{root}/missing", NOT_FOUND),
        ("{root}/file", INVALID),
        ("{root}-evil", INVALID),
    ],
)
async def test_it_starts_nowhere_else(tmp_path: Path, cwd: str, code: int) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "root-evil").mkdir()
    (root / "out").symlink_to("..")
    (root / "file").touch()
    async with terminals_in(root) as agent:
        with pytest.raises(RequestError) as error:
            await agent.create("pwd", cwd=cwd.format(root=root))
        assert error.value.code == code


async def test_a_folder_that_becomes_a_link_before_the_start_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "sub").mkdir(parents=True)
    outside.mkdir()
    popen = subprocess.Popen

    def swap_then_start(*args: Any, **kwargs: Any) -> Any:
        (root / "sub").rename(root / "moved")
        (root / "sub").symlink_to(outside)
        return popen(*args, **kwargs)

    async with terminals_in(root) as agent:
        monkeypatch.setattr(subprocess, "Popen", swap_then_start)
        id = await agent.create("pwd", cwd=f"{root}/sub")
        assert await agent.result(id) == f"{root}/moved\n"


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("no-such-program", "No such file"),
        ("./folder", "Permission denied"),
        ("a\0b", "null byte"),
        ("\ud83d", "surrogates"),
        ("", "cannot run"),
    ],
)
async def test_what_cannot_run_is_an_error_with_its_reason(
    tmp_path: Path, command: str, reason: str
) -> None:
    (tmp_path / "folder").mkdir()
    async with terminals_in(tmp_path) as agent:
        with pytest.raises(RequestError, match=reason) as error:
            await agent.create(command, "x")
        assert error.value.code == INVALID


# --- the environment


async def test_the_environment_is_the_one_given_and_what_the_agent_adds(tmp_path: Path) -> None:
    env = {"PATH": os.environ["PATH"], "A": "1"}
    async with terminals_in(tmp_path, env=env, variables=("A", "B")) as agent:
        id = await agent.create(
            "env", env=[{"name": "A", "value": "2"}, {"name": "B", "value": "x=y"}]
        )
        lines = set((await agent.result(id)).splitlines())
        assert {"A=2", "B=x=y"} <= lines
        assert not any(line.startswith("HOME=") for line in lines)


REFUSED = [
    *("LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "DYLD_INSERT_LIBRARIES", "GCONV_PATH"),
    *("PATH", "HOME", "XDG_CONFIG_HOME", "IFS", "ENV", "BASH_ENV", "BASH_FUNC_ls%%", "PS4"),
    *("PYTHONSTARTUP", "PYTHONPATH", "PYTHONHOME", "NODE_OPTIONS", "NODE_PATH", "PERL5OPT"),
    *("RUBYOPT", "LUA_INIT", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "MAVEN_OPTS", "CLASSPATH"),
    *("GIT_SSH_COMMAND", "GIT_CONFIG_COUNT", "GIT_EXTERNAL_DIFF", "GIT_DIR", "SSH_ASKPASS"),
    *("EDITOR", "GIT_EDITOR", "PAGER", "GIT_PAGER", "LESSOPEN", "VIMINIT", "HOSTALIASES"),
    *("SHELL", "CC", "JAVA_HOME", "CARGO_HOME", "OPENSSL_CONF", "OPENSSL_MODULES", "INPUTRC"),
    *("GTK_MODULES", "QT_PLUGIN_PATH", "GCC_EXEC_PREFIX", "CFLAGS", "PYTEST_ADDOPTS"),
    *("DOCKER_HOST", "KUBECONFIG", "ANSIBLE_CONFIG", "PROMPT_COMMAND", "TERMINFO", "CPATH"),
    *("npm_config_script_shell", "MAKEFLAGS", "RUSTC_WRAPPER", "HTTPS_PROXY", "AGENTRT_GUARD"),
    *("ZIPOPT", "VIMRUNTIME", "AWS_CONFIG_FILE", "PSQLRC", "GOROOT", "HGMERGE", "NLSPATH"),
    *("DATABASE_URL", "NODE_ENV", "anything", "lang", "TERMCAP", "LC", "LANGUAGE", "LOCPATH"),
    *("", "A=B", "A\0B"),
]


@pytest.mark.parametrize("name", REFUSED)
async def test_a_variable_that_may_not_be_set_is_left_out_and_the_command_runs(
    tmp_path: Path, name: str
) -> None:
    left_out: list[str] = []
    async with terminals_in(tmp_path, on_left_out=left_out.append) as agent:
        id = await agent.create("env", env=[{"name": name, "value": "./evil"}])
        assert "./evil" not in await agent.result(id)
        await agent.create("true", env=[{"name": name, "value": "./other"}])
    assert left_out == [name], "told once"


async def test_an_agent_that_makes_up_variables_is_not_reported_without_end(
    tmp_path: Path,
) -> None:
    left_out: list[str] = []
    async with terminals_in(tmp_path, on_left_out=left_out.append) as agent:
        env = [{"name": f"X{number}", "value": "x"} for number in range(1000)]
        assert await agent.result(await agent.create("echo", "ran", env=env)) == "ran\n"
    assert len(left_out) < 100


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SHELL", "/bin/bash"),
        ("SHELL", "/usr/bin/zsh"),
        ("LANG", "C.UTF-8"),
        ("LC_ALL", "de_DE.UTF-8@euro"),
        ("TZ", "America/Argentina/Buenos_Aires"),
        ("TZ", "UTC"),
        ("COLUMNS", "80"),
        ("NO_COLOR", "1"),
        ("PAGER", "cat"),
        ("GIT_PAGER", ""),
        ("GIT_EDITOR", "true"),
        ("CI", "1"),
        ("TERM", "xterm-256color"),
        ("PYTHONUNBUFFERED", "1"),
        ("GIT_TERMINAL_PROMPT", "0"),
        ("npm_config_loglevel", "error"),
        ("CLAUDECODE", "1"),
    ],
)
def test_harmless_variables_may_be_set(name: str, value: str) -> None:
    assert merged({name: value}) == ({name: value}, [])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[
            ("SHELL", value)
            for value in ("bash", "./bash", "/tmp/bash", "/bin/bash -x", "/bin/evil")
        ],
        *[("SHELL", value) for value in ("/bin/../tmp/bash", "/bin/bash\n", "")],
        *[("LC_ALL", value) for value in ("../../tmp/x", "/tmp/x", "x" * 1000, "C\n")],
        *[("TERM", value) for value in ("../x", "/tmp/x", "a b")],
        *[("TZ", value) for value in (":/etc/shadow", "/etc/shadow", "../x", "a/../../x", "a//b")],
        *[("PAGER", value) for value in ("less", "cat\n", "./cat", "cat; evil")],
        *[("CI", value) for value in ("$(x)", "a b", "()  { :; }; x")],
    ],
)
def test_a_harmless_variable_may_not_have_any_value(name: str, value: str) -> None:
    assert merged({name: value}) == ({}, [name])


def test_a_quiet_value_does_not_excuse_another_variable() -> None:
    for name in ("PATH", "BASH_ENV", "ENV", "HOME"):
        for value in ("", ":", "true", "cat"):
            assert merged({name: value}) == ({}, [name])


def test_what_is_set_already_is_not_left_out() -> None:
    assert merged({"PATH": "/bin"}, base={"PATH": "/bin"}) == ({"PATH": "/bin"}, [])


def test_a_user_may_allow_more_but_none_of_our_own() -> None:
    more = ("MY_*", "PORT")
    assert merged({"MY_URL": "a b/c", "PORT": "80"}, more=more)[1] == []
    assert merged({"OTHER": "x", "MY\0": "x", "my_url": "x"}, more=more)[1] == [
        *("OTHER", "MY\0", "my_url")
    ]
    assert merged({"AGENTRT_GUARD": "x", "agentrt_guard": "x"}, more=("*",))[0] == {}


def merged(
    wanted: dict[str, str], *, base: dict[str, str] | None = None, more: tuple[str, ...] = ()
) -> tuple[dict[str, str], list[str]]:
    variables = [NameValue(name=name, value=value) for name, value in wanted.items()]
    return merge_environment(base or {}, variables, more)


# --- the end


async def test_kill_ends_the_program_and_the_terminal_stays(tmp_path: Path) -> None:
    async with terminals_in(tmp_path) as agent:
        id = await agent.create("sh", "-c", "echo hi; exec sleep 60")
        await agent.until(id, "hi\n")
        assert await agent.ask("kill", id) == {}
        assert await agent.wait(id) == {"exitCode": None, "signal": "SIGTERM"}
        assert await agent.output(id) == "hi\n"
        assert await agent.ask("kill", id) == {}
        await agent.ask("release", id)


async def test_kill_ends_what_the_program_started(tmp_path: Path) -> None:
    async with terminals_in(tmp_path) as agent:
        id = await agent.create("sh", "-c", "sleep 60 & sleep 60 & echo $! $$; wait")
        pids = [int(pid) for pid in (await agent.until(id, "\n")).split()]
        await agent.ask("kill", id)
        for pid in pids:
            await until_gone(pid)


async def test_what_ignores_the_first_signal_gets_the_second(tmp_path: Path) -> None:
    async with terminals_in(tmp_path, terminate_grace_s=0.1) as agent:
        id = await agent.python(
            "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
            "print('ready', flush=True); time.sleep(60)"
        )
        await agent.until(id, "ready\n")
        await agent.ask("kill", id)
        assert await agent.wait(id) == {"exitCode": None, "signal": "SIGKILL"}


async def test_the_first_signal_leaves_time_to_clean_up(tmp_path: Path) -> None:
    async with terminals_in(tmp_path) as agent:
        id = await agent.python(
            "import signal, sys; signal.signal(signal.SIGTERM, lambda *a: sys.exit(print('bye')));"
            "print('hi', flush=True); signal.pause()"
        )
        await agent.until(id, "hi\n")
        await agent.ask("kill", id)
        assert await agent.result(id) == "hi\nbye\n"


async def test_a_stopped_program_is_killed(tmp_path: Path) -> None:
    async with terminals_in(tmp_path, terminate_grace_s=0.1) as agent:
        # Without its trap the kernel would end it at the first signal, stopped or not.
        id = await agent.create(
            "sh", "-c", "trap 'exit 0' TERM; echo $$; while :; do sleep 0.05; done"
        )
        os.kill(int(await agent.until(id, "\n")), signal.SIGSTOP)
        await agent.ask("kill", id)
        assert await agent.wait(id) == {"exitCode": None, "signal": "SIGKILL"}


async def test_release_kills_and_the_id_is_of_no_use_afterwards(tmp_path: Path) -> None:
    async with terminals_in(tmp_path) as agent:
        id = await agent.create("sh", "-c", "echo $$; exec sleep 60")
        pid = int(await agent.until(id, "\n"))
        assert await agent.ask("release", id) == {}
        for what in ("output", "wait_for_exit", "kill", "release"):
            with pytest.raises(RequestError, match="there is no terminal") as error:
                await agent.ask(what, id)
            assert error.value.code == NOT_FOUND
        await until_gone(pid)


async def test_who_waits_for_a_released_program_learns_of_its_end(tmp_path: Path) -> None:
    heard: list[JsonObject] = []
    async with terminals_in(tmp_path) as agent:
        id = await agent.create("sleep", "60")

        async def wait() -> None:
            heard.append(await agent.wait(id))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            await agent.ask("release", id)
    assert heard == [{"exitCode": None, "signal": "SIGTERM"}]


async def test_a_wait_may_be_given_up_and_the_program_runs_on(tmp_path: Path) -> None:
    async with terminals_in(tmp_path) as agent:
        id = await agent.create("sh", "-c", "echo $$; exec sleep 60")
        pid = int(await agent.until(id, "\n"))
        with trio.move_on_after(0.01) as scope:
            await agent.wait(id)
        assert scope.cancelled_caught
        assert not gone(pid)


async def test_the_end_of_the_session_kills_every_terminal(tmp_path: Path) -> None:
    pids: list[int] = []
    async with terminals_in(tmp_path, terminate_grace_s=0.2) as agent:
        for trap in ("", "trap '' TERM; "):
            id = await agent.create("sh", "-c", f"{trap}echo $$; while :; do sleep 0.05; done")
            pids.append(int(await agent.until(id, "\n")))
    assert all(gone(pid) for pid in pids)


async def test_a_cancelled_session_kills_every_terminal_too(tmp_path: Path) -> None:
    pids: list[int] = []
    with trio.CancelScope() as session:
        async with terminals_in(tmp_path) as agent:
            id = await agent.create("sh", "-c", "echo $$; exec sleep 60")
            pids.append(int(await agent.until(id, "\n")))
            session.cancel()
            await trio.sleep_forever()
    assert session.cancelled_caught
    assert all(gone(pid) for pid in pids)


async def test_an_error_of_the_session_leaves_it_bare_and_no_terminal(tmp_path: Path) -> None:
    pids: list[int] = []

    async def session() -> None:
        async with terminals_in(tmp_path) as agent:
            id = await agent.create("sh", "-c", "echo $$; exec sleep 60")
            pids.append(int(await agent.until(id, "\n")))
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        await session()
    assert all(gone(pid) for pid in pids)


async def test_the_terminals_of_an_agent_that_is_gone_can_be_ended(tmp_path: Path) -> None:
    async with terminals_in(tmp_path) as agent:
        id = await agent.create("sh", "-c", "echo $$; exec sleep 60")
        pid = int(await agent.until(id, "\n"))
        agent.terminals.release_all()
        with pytest.raises(RequestError):
            await agent.ask("output", id)
        await until_gone(pid)
        assert await agent.create("true") != id


async def test_a_create_that_is_cancelled_leaves_nothing_that_outlives_the_session(
    tmp_path: Path,
) -> None:
    async with terminals_in(tmp_path) as agent:
        with trio.CancelScope() as request:
            request.cancel()
            await agent.create("sleep", "60")


async def test_a_create_that_is_cancelled_while_the_program_starts_leaves_no_orphan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    popen = subprocess.Popen
    pids: list[int] = []
    request = trio.CancelScope()

    def cancel_and_start(*args: Any, **kwargs: Any) -> Any:
        trio.from_thread.run_sync(request.cancel)
        process = popen(*args, **kwargs)
        pids.append(process.pid)
        return process

    async with terminals_in(tmp_path) as agent:
        monkeypatch.setattr(subprocess, "Popen", cancel_and_start)
        with request:
            await agent.create("sleep", "60")
    assert request.cancel_called
    assert [gone(pid) for pid in pids] == [True]


async def test_there_is_a_limit_and_a_release_makes_room(tmp_path: Path) -> None:
    async with terminals_in(tmp_path, open_terminals=2) as agent:
        ids = [await agent.create("true") for _ in range(2)]
        with pytest.raises(RequestError, match="2 terminals are open") as error:
            await agent.create("true")
        assert error.value.code == INTERNAL
        await agent.ask("release", ids[0])
        await agent.create("true")


async def test_creates_at_once_keep_to_the_limit(tmp_path: Path) -> None:
    made: list[str] = []
    refused: list[RequestError] = []
    async with terminals_in(tmp_path, open_terminals=3) as agent:

        async def create() -> None:
            try:
                made.append(await agent.create("true"))
            except RequestError as error:
                refused.append(error)

        async with trio.open_nursery() as nursery:
            for _ in range(6):
                nursery.start_soon(create)
    assert (len(set(made)), len(refused)) == (3, 3)


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("terminal/create", {"sessionId": "s"}, INVALID),
        ("terminal/create", {"sessionId": "s", "command": "x", "args": "y"}, INVALID),
        ("terminal/output", {"sessionId": "s"}, INVALID),
        ("terminal/output", {"sessionId": "s", "terminalId": "foreign"}, NOT_FOUND),
        ("terminal/resize", {"sessionId": "s", "terminalId": "x"}, -32601),
    ],
)
async def test_a_request_that_makes_no_sense_is_refused(
    tmp_path: Path, method: str, params: JsonObject, code: int
) -> None:
    async with terminals_in(tmp_path) as agent:
        with pytest.raises(RequestError) as error:
            await agent.terminals.handle(method, params)
        assert error.value.code == code


# --- what a program leaves behind

APART = """
import os, signal, sys, time
if os.fork(): os.wait(), sys.exit(print("left", flush=True))
os.setsid()
if os.fork(): os._exit(0)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for fd in range(3): os.close(fd)
time.sleep(60)
"""
"""Leaves behind what has another parent, another session and no pipe, and ignores all signals."""

CROWD = """
import os, time
end = time.monotonic() + 15
for _ in range(3):
    os.fork()
os.write(1, b"here\\n")
while time.monotonic() < end:
    time.sleep(0.2)
    if os.fork():
        os._exit(0)
    os.setsid()
"""
"""Eight that never stay: each goes on as its own child, in a session of its own. They give up by
themselves after a while, for the machine on which the test fails."""


@pytest.mark.parametrize("how", ["release", "kill", "the end of the session"])
async def test_what_a_program_left_in_another_session_ends_with_its_terminal(
    tmp_path: Path, how: str
) -> None:
    """The suite's own check finds what is left, whatever ties it has cut."""
    async with terminals_in(tmp_path, terminate_grace_s=0.2) as agent:
        id = await agent.python(APART)
        assert await agent.result(id) == "left\n"
        [left] = started_by_tests()
        if how == "release":
            await agent.ask("release", id)
        elif how == "kill":
            await agent.ask("kill", id)
            assert gone(left)
    await until_gone(left)


async def test_a_crowd_that_never_stays_is_ended_with_its_terminal(tmp_path: Path) -> None:
    """No limit on processes would hold for root: what bounds them is that all are found."""
    async with terminals_in(tmp_path, terminate_grace_s=0.2, kill_wait_s=10) as agent:
        id = await agent.python(CROWD)
        await agent.until(id, "here\n" * 8)
        await agent.ask("kill", id)
        assert started_by_tests() == []


async def test_a_terminal_of_a_host_below_another_one_is_known_to_both(tmp_path: Path) -> None:
    env = {"PATH": os.environ["PATH"], "AGENTRT_GUARD": "above"}
    async with terminals_in(tmp_path, env=env) as agent:
        id = await agent.create("env")
        assert "AGENTRT_GUARD=above," in await agent.result(id)
