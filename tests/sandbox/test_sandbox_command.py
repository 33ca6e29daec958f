"""The sandbox on the command line and in configuration files."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import structs

from agentrt.config import ConfigError, load_config
from agentrt.sandbox import Sandbox

Agentrt = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def agentrt_in(project: Path) -> Agentrt:
    env = {name: value for name, value in os.environ.items() if not name.startswith("AGENTRT_")}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "agentrt", *words],
            cwd=project,
            env=env,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=120,
            check=False,
        )

    return run


@pytest.mark.sandbox
@pytest.mark.slow
def test_a_command_runs_in_the_sandbox_of_a_folder(agentrt_in: Agentrt, project: Path) -> None:
    done = agentrt_in("sandbox", "--", "sh", "-c", "cat ../neighbour/secret; echo 1 > made; exit 7")
    assert done.returncode == 7
    assert "No such file" in done.stderr
    assert (project / "made").read_text() == "1\n"
    assert agentrt_in("sandbox", "--", "sh", "-c", "kill -9 $$").returncode == 137
    shell = agentrt_in("sandbox")  # which reads commands from an empty input
    assert (shell.returncode, shell.stderr) == (0, "")
    missing = agentrt_in("sandbox", "--", "no-such-program")
    assert missing.returncode == 4
    assert missing.stderr.startswith("agentrt: 'no-such-program' is not found inside the sandbox")


@pytest.mark.sandbox
@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "status", "shown"), [(signal.SIGINT, 3, "got it\n"), (signal.SIGTERM, 143, "")]
)
def test_signals_reach_the_command_or_end_everything(
    project: Path, tmp_path: Path, number: int, status: int, shown: str
) -> None:
    script = "trap 'echo got it; exit 3' INT; echo up; while :; do sleep 0.1; done"
    words = [sys.executable, "-m", "agentrt", "sandbox", "--", "sh", "-c", script]
    running = subprocess.Popen(
        words, cwd=project, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert running.stdout is not None
    assert running.stdout.readline() == "up\n"
    os.killpg(running.pid, number)
    rest, _ = running.communicate(timeout=60)  # until nothing inside holds the pipe
    assert (rest, running.returncode) == (shown, status)


@pytest.mark.slow
def test_the_doctor_tests_the_machine(agentrt_in: Agentrt) -> None:
    done = agentrt_in("doctor", "--sandbox", "--json")
    found = json.loads(done.stdout)
    assert done.returncode == 0
    assert found["works"] is True
    assert {"Linux", "bwrap", "namespaces", "/proc"} <= {each["name"] for each in found["tests"]}
    assert "✓ bwrap" in agentrt_in("doctor", "--sandbox").stdout


@pytest.mark.sandbox
@pytest.mark.slow
def test_a_prompt_runs_in_a_sandbox(agentrt_in: Agentrt, project: Path) -> None:
    words = ("--agent", "demo", "--permissions", "allow-all", "-p", "run cat ../neighbour/secret")
    assert "No such file" in agentrt_in("--sandbox", *words).stdout
    assert "secret" in agentrt_in("--no-sandbox", *words).stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--sandbox", "--no-sandbox"), "--no-sandbox excludes --sandbox"),
        (("--no-sandbox", "--allow-write", "/srv"), "--no-sandbox excludes --sandbox"),
        (("--sandbox=offline", "--allow-network", "a.example"), "exclude each other"),
        (("--allow-port", "70000"), "not a port number"),
        (("--allow-network", "https://a.example"), "is not a host"),
    ],
)
def test_options_that_exclude_each_other_are_refused(
    words: tuple[str, ...], message: str, agentrt_in: Agentrt
) -> None:
    done = agentrt_in(*words, "--agent", "demo", "-p", "hi")
    assert done.returncode == 2
    assert message in done.stderr


def config_of(
    tmp_path: Path, user: str, project: str = "", flags: dict[str, object] | None = None
) -> tuple[Sandbox | None, tuple[str, ...]]:
    (tmp_path / "config.toml").write_text(user)
    (tmp_path / "folder").mkdir()
    if project:
        (tmp_path / "folder" / ".agentrt.toml").write_text(project)
    env = {"AGENTRT_CONFIG": str(tmp_path / "config.toml"), "HOME": str(tmp_path)}
    config = load_config(tmp_path / "folder", env, flags)
    return config.sandbox, config.warnings


USER = '[sandbox]\nmode = "workspace"\nnetwork = ["a.example"]\nwrite = ["/srv"]\n'
UNCHANGED = Sandbox(network=["a.example"], write=["/srv"])


@pytest.mark.parametrize("trusted", [False, True])
@pytest.mark.parametrize(
    ("project", "expected"),
    [
        ("", UNCHANGED),
        ('[sandbox]\nmode = "offline"\n', Sandbox(network="none", write=["/srv"])),
        ('[sandbox]\nnetwork = ["b.example"]\nwrite = []\n', Sandbox(network=())),
        ('[sandbox]\nwrite = ["/", "/srv/../etc"]\n', UNCHANGED),
        ('[sandbox]\nwrite = ["/srv/a"]\n', Sandbox(network=["a.example"], write=["/srv/a"])),
        (
            '[sandbox]\nmode = "open-network"\nnested = true\n',
            structs.replace(UNCHANGED, private_hosts=False),  # all public hosts, but no others
        ),
        ('[sandbox]\nports = [8080]\nneeds = "landlock"\nread = ["/"]\n', UNCHANGED),
        ('[sandbox]\nhide = [".env"]\n', structs.replace(UNCHANGED, hide=(".env",))),
        ('[sandbox]\nmode = "off"\n', UNCHANGED),
    ],
)
def test_a_project_narrows_and_never_widens(
    project: str, expected: Sandbox, trusted: bool, tmp_path: Path
) -> None:
    trust = f'trusted = ["{tmp_path}/folder"]\n' if trusted else ""
    found, warnings = config_of(tmp_path, trust + USER, project)
    assert found == expected
    assert any("cannot switch it off" in each for each in warnings) is ('"off"' in project)


def test_a_project_may_demand_a_sandbox(tmp_path: Path) -> None:
    assert config_of(tmp_path, "", '[sandbox]\nmode = "offline"\n')[0] == Sandbox(network="none")


def test_the_command_line_adds_to_the_users_sandbox_or_switches_it_off(tmp_path: Path) -> None:
    flags: dict[str, object] = {"sandbox": {"network": ["c.example"], "ports": [8080]}}
    found = config_of(tmp_path, USER, flags=flags)[0]
    assert found == Sandbox(network=["a.example", "c.example"], write=["/srv"], ports=[8080])


def test_no_sandbox_on_the_command_line_wins(tmp_path: Path) -> None:
    assert config_of(tmp_path, USER, flags={"sandbox": {"mode": "off"}})[0] is None


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ('mode = "wide"', "no sandbox preset"),
        ('hosts = ["a.example"]', "hosts"),
        ('network = ["https://a.example"]', "not a host"),
    ],
)
def test_a_wrong_table_is_an_error(table: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        config_of(tmp_path, f"[sandbox]\n{table}\n")
