"""`agentrt trace show`, and the settings of traces."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import trio

import agentrt
from agentrt._cli.commands.trace import TraceFilter, replay_trace, show_trace
from agentrt._cli.tracing import command_trace
from agentrt.config import ConfigError, load_config
from agentrt.tracing import read_trace
from in_process import main
from inside.trace import Piece

LINES = (
    ("sent", '{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/x"}}'),
    ("received", "odd \x1b[2J"),
    ("received", '{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s7"}}'),
)


def put(trace: agentrt.tracing.Trace, *sessions: str) -> None:
    for session in sessions:
        for number, (kind, line) in enumerate(LINES):
            trace._writer.put(Piece(float(number), session, 1, kind, line.encode() + b"\n"))  # type: ignore[arg-type]


async def shown(
    file: Path, capsys: pytest.CaptureFixture[str], **filter: object
) -> tuple[int, list[str]]:
    status = await show_trace(str(file), TraceFilter(**filter), late=10, follow=False)  # type: ignore[arg-type]
    return status, capsys.readouterr().out.splitlines()


async def test_it_reads_like_a_conversation_and_controls_no_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with agentrt.tracing.open_trace(tmp_path / "t") as trace:
        put(trace, "first", "second")
    status, lines = await shown(tmp_path / "t", capsys)
    assert status == 0
    assert [line for line in lines if line.startswith("──")] == [
        "── session first, process 1",
        "── session second, process 1",
    ]
    assert "→ #1 session/new  /x  ⇒ s7 after 2.00 s" in lines[2]
    assert "⚠ not a message of the protocol" in lines[3]
    assert "\x1b" not in "".join(lines)
    assert lines[-1] == "7 records of 2 session(s); 2 odd ones (--odd)"


async def test_filters_choose_by_session_text_and_oddity(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with agentrt.tracing.open_trace(tmp_path / "t") as trace:
        put(trace, "first", "second")
    _, lines = await shown(tmp_path / "t", capsys, session="sec", odd=True)
    assert [line[:12] for line in lines[:-2]] == ["── session s", lines[1][:12]]
    _, lines = await shown(tmp_path / "t", capsys, text='"id":1,"result"', whole=True)
    assert sum(line.strip() == LINES[2][1] for line in lines) == 2


async def test_a_trace_is_followed_into_its_next_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "t"
    async with (
        agentrt.tracing.open_trace(file, max_bytes=4096) as trace,
        trio.open_nursery() as nursery,
    ):
        put(trace, "before")
        await trace.flush()

        async def follow() -> None:
            await show_trace(str(file), TraceFilter(), late=10, follow=True)

        nursery.start_soon(follow)
        out = ""
        with trio.fail_after(20):
            while "session before" not in out:
                await trio.sleep(0.01)
                out += capsys.readouterr().out
            for session in ("one", "two", "three"):
                trace._writer.put(Piece(0.0, session, 1, "stderr", b"x" * 3500 + b"\n"))
                await trace.flush()
                while f"session {session}" not in out:
                    await trio.sleep(0.01)
                    out += capsys.readouterr().out
        nursery.cancel_scope.cancel()


async def test_files_that_were_full_between_two_looks_are_followed_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "t"
    async with (
        agentrt.tracing.open_trace(file, max_bytes=4096, files=20) as trace,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(partial(show_trace, str(file), TraceFilter(), late=10, follow=True))
        out = ""
        with trio.fail_after(20):
            while "trace  agentrt" not in out:
                await trio.sleep(0.01)
                out += capsys.readouterr().out
            for number in range(10):
                trace._writer.put(Piece(0.0, f"s{number}.", 1, "stderr", b"x" * 3500 + b"\n"))
                await trace.flush()
            while "session s9." not in out:
                await trio.sleep(0.01)
                out += capsys.readouterr().out
        nursery.cancel_scope.cancel()
    seen = re.findall(r"session (s\d)", out)
    assert seen == [f"s{number}" for number in range(10)]


async def test_what_is_no_trace_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert await show_trace(str(tmp_path / "no"), TraceFilter(), late=10, follow=False) == 2
    assert "No such file" in capsys.readouterr().err


async def test_a_session_that_is_not_in_it_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with agentrt.tracing.open_trace(tmp_path / "t") as trace:
        put(trace, "one", "two")
    status, lines = await shown(tmp_path / "t", capsys, session="o")
    assert (status, "one" in lines[0]) == (0, True)
    for show in (
        partial(show_trace, late=10, follow=False),
        partial(replay_trace, speed=1e9),
    ):
        assert await show(str(tmp_path / "t"), TraceFilter(session="three")) == 2
        told = capsys.readouterr()
        assert "no session begins with 'three'; there are: one, two" in told.err
        assert told.out == ""


async def test_the_settings_say_where_and_what_to_take_out(tmp_path: Path) -> None:
    settings = tmp_path / "config.toml"
    settings.write_text('[trace]\nfile = "other"\nmax_bytes = 5000\nredact = ["Project \\\\w+"]\n')
    env = {"AGENTRT_CONFIG": str(settings), "AGENTRT_TRACE": str(tmp_path / "t")}
    config = load_config(tmp_path, env)
    assert (config.trace.file, config.trace.max_bytes) == (str(tmp_path / "t"), 5000)
    async with command_trace(config) as trace:
        assert trace is not None
        trace._writer.put(Piece(0.0, "s", 1, "received", b"Project Marmot\n"))
    assert [record.line for record in read_trace(tmp_path / "t")][1:] == ["[redacted]"]


def test_a_pattern_that_is_none_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"trace\.redact: '\('"):
        load_config(tmp_path, {}, flags={"trace": {"redact": ["("]}})


def test_a_downloaded_project_cannot_have_traces_written(tmp_path: Path) -> None:
    (tmp_path / ".agentrt.toml").write_text('[trace]\nfile = "/tmp/x"\n')
    config = load_config(tmp_path, {"HOME": str(tmp_path)})
    assert config.trace.file is None
    assert "trace ignored" in config.warnings[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", [["-p", "hello"], ["doctor"], ["sessions"], ["sessions", "delete", "s"]]
)
def test_a_trace_that_cannot_be_written_is_said(tmp_path: Path, command: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "agentrt", *command, "--agent", "demo"],
        env={**os.environ, "HOME": str(tmp_path), "AGENTRT_TRACE": str(tmp_path / "no" / "t")},
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode
    assert "no trace can be written to " in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (["agents"], "`agentrt agents`, which runs no agent"),
        (["replay", "t"], "`agentrt replay`, which runs no agent"),
        (["attach"], "is set on the server"),
        (["acp", "--attach"], "is set on the server"),
    ],
)
def test_a_command_that_has_nothing_to_trace_does_not_take_one_in_silence(
    command: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--trace", "t", *command]) == 2
    assert why in capsys.readouterr().err


@pytest.mark.slow
def test_every_command_that_runs_an_agent_writes_one(tmp_path: Path) -> None:
    file = tmp_path / "t"
    for command in (
        ["-p", "hello", "--agent", "demo", "--store", "off"],
        ["doctor", "--agent", "demo"],
        ["sessions", "--agent", "demo"],
        ["conformance", "demo", "--only", "initialize"],
    ):
        done = subprocess.run(
            [sys.executable, "-m", "agentrt", *command],
            env={**os.environ, "HOME": str(tmp_path), "AGENTRT_TRACE": str(file)},
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
    assert len({record.session for record in read_trace(file) if record.session}) == 4


def test_a_trace_is_replayed_in_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def record() -> None:
        async with agentrt.tracing.open_trace(tmp_path / "t") as trace:
            put(trace, "first", "second")

    trio.run(record)
    assert main(["replay", str(tmp_path / "t"), "--speed", "1000", "--session", "sec"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "── session second, process 1"
    assert "session/new" in lines[1]
