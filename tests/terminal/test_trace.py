"""`agentrt trace show`, and the settings of traces."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest
import trio

import agentrt
from agentrt.config import ConfigError, load_config
from agentrt.testing import FakeAgent, says, scripted_agents
from agentrt.tracing import read_trace
from in_process import main, main_beside

LINES = (
    ("sent", '{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/x"}}'),
    ("received", "odd \x1b[2J"),
    ("received", '{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s7"}}'),
)


def write(file: Path, *sessions: str) -> None:
    """Write a trace of these sessions."""
    records: list[dict[str, object]] = [{"t": 0.0, "kind": "trace", "by": "agentrt 0.1.0"}]
    for session in sessions:
        for number, (kind, line) in enumerate(LINES):
            about = {"session": session, "process": 1, "line": line}
            records.append({"t": float(number), "kind": kind, **about})
    file.write_text("".join(f"{json.dumps(record)}\n" for record in records))


def shown(file: Path, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, list[str]]:
    status = main(["trace", "show", str(file), *options])
    return status, capsys.readouterr().out.splitlines()


def test_it_reads_like_a_conversation_and_controls_no_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "t", "first", "second")
    status, lines = shown(tmp_path / "t", capsys)
    assert status == 0
    assert [line for line in lines if line.startswith("──")] == [
        "── session first, process 1",
        "── session second, process 1",
    ]
    assert "→ #1 session/new  /x  ⇒ s7 after 2.00 s" in lines[2]
    assert "⚠ not a message of the protocol" in lines[3]
    assert "\x1b" not in "".join(lines)
    assert lines[-1] == "7 records of 2 session(s); 2 odd ones (--odd)"


def test_filters_choose_by_session_text_and_oddity(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "t", "first", "second")
    _, lines = shown(tmp_path / "t", capsys, "--session", "sec", "--odd")
    assert [line[:12] for line in lines[:-2]] == ["── session s", lines[1][:12]]
    _, lines = shown(tmp_path / "t", capsys, "--grep", '"id":1,"result"', "--whole")
    assert sum(line.strip() == LINES[2][1] for line in lines) == 2


async def complains(agent: FakeAgent) -> None:
    """Fill most of a file of 4096 bytes."""
    agent.process.complain("x" * 3500)
    async for prompt in agent.prompts:
        prompt.end()


def followed(file: Path, sessions: int, *, each: bool, **options: int) -> list[str]:
    """Follow a trace while sessions are written into it. Returns the ids of those that were shown,
    and then of those that there were. `each`: write the next one once the last is shown; else only
    the first is waited for.
    """
    ready, ids = threading.Event(), list[str]()

    async def client() -> None:
        with trio.fail_after(20):
            async with agentrt.tracing.open_trace(file, max_bytes=4096, **options) as trace:
                for number in range(sessions):
                    async with agentrt.open_session("demo", trace=trace) as session:
                        ids.append(session.id[:12])
                        await session.run("hello")
                    await trace.flush()
                    ready.set()
                    if each or number in (0, sessions - 1):
                        while ids[-1] not in printed.getvalue():  # noqa: ASYNC110
                            await trio.sleep(0.01)

    with scripted_agents({"demo": complains}), redirect_stdout(StringIO()) as printed:
        main_beside(["trace", "show", "--follow", str(file)], client, ready=ready)
    shown = re.findall(r"── session (.*), process 1", printed.getvalue())
    assert "trace  agentrt" in printed.getvalue()
    assert len({*ids}) == sessions
    return [*dict.fromkeys(shown), *ids]


def test_a_trace_is_followed_into_its_next_file(tmp_path: Path) -> None:
    found = followed(tmp_path / "t", 4, each=True)
    assert found[:4] == found[4:]


def test_files_that_were_full_between_two_looks_are_followed_too(tmp_path: Path) -> None:
    found = followed(tmp_path / "t", 10, each=False, files=40)
    assert found[:10] == found[10:]


def test_what_is_no_trace_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "show", str(tmp_path / "no")]) == 2
    assert "No such file" in capsys.readouterr().err


def test_a_session_that_is_not_in_it_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "t", "one", "two")
    status, lines = shown(tmp_path / "t", capsys, "--session", "o")
    assert (status, "one" in lines[0]) == (0, True)
    for command in (["trace", "show"], ["replay", "--speed", "1000"]):
        assert main([*command, str(tmp_path / "t"), "--session", "three"]) == 2
        told = capsys.readouterr()
        assert "no session begins with 'three'; there are: one, two" in told.err
        assert told.out == ""


def test_the_settings_say_where_and_what_to_take_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tmp_path / "config.toml"
    settings.write_text('[trace]\nfile = "other"\nmax_bytes = 5000\nredact = ["Project \\\\w+"]\n')
    env = {"AGENTRT_CONFIG": str(settings), "AGENTRT_TRACE": str(tmp_path / "t")}
    config = load_config(tmp_path, env)
    assert (config.trace.file, config.trace.max_bytes) == (str(tmp_path / "t"), 5000)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    with scripted_agents({"demo": says("Project Marmot")}):
        assert main(["-p", "go on", "--agent", "demo", "--store", "off"]) == 0
    lines = [record.line or "" for record in read_trace(tmp_path / "t")]
    assert len([line for line in lines if "[redacted]" in line]) == 1
    assert "Marmot" not in "".join(lines)


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
    write(tmp_path / "t", "first", "second")
    assert main(["replay", str(tmp_path / "t"), "--speed", "1000", "--session", "sec"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "── session second, process 1"
    assert "session/new" in lines[1]
