"""What `deploy/` says is what agentrt, systemd, HAProxy and PostgreSQL understand."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from agentrt import Limits
from agentrt.config import load_config
from in_process import help_on
from postgres.server import Server, programs, unprivileged
from web.sockets import get, site, status

from . import images

DEPLOY = Path(__file__).parents[2] / "deploy"
CONSTRAINTS = (DEPLOY.parent / "constraints.txt").read_text()
UNITS = sorted(DEPLOY.glob("*.service"))
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yml").read_text())
OURS = [name for name, each in COMPOSE["services"].items() if "agentrt serve" in str(each)]


def settings(unit: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in unit.read_text().splitlines():
        name, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found.setdefault(name, []).append(value)
    return found


def commands() -> Iterator[tuple[str, list[str]]]:
    """The arguments of each `agentrt` that is started, by who starts it."""
    for name in OURS:
        [line] = COMPOSE["services"][name]["command"]
        program, *words = shlex.split(line.replace("$$", "$"))
        assert program == "exec", "the shell would get the signals"
        yield name, words
    for unit in UNITS:
        [line] = settings(unit)["ExecStart"]
        yield unit.name, shlex.split(line.replace("%i", "1"))[1:]


def seconds(text: str) -> float:
    found = re.fullmatch(r"(\d+)(m|min|s)", text)
    assert found is not None, text
    return int(found[1]) * (1 if found[2] == "s" else 60)


@pytest.mark.parametrize("words", [pytest.param(words, id=name) for name, words in commands()])
def test_each_command_is_one_of_agentrt(words: list[str]) -> None:
    program, *arguments = words
    assert program == "agentrt"
    assert help_on(arguments).startswith("usage: agentrt serve ")
    assert "--node" in arguments


@pytest.mark.parametrize("name", OURS)
def test_what_the_environment_says_is_known(name: str) -> None:
    env = dict.fromkeys(COMPOSE["services"][name]["environment"], "words of some length")
    env["AGENTRT_SERVE_PORT"] = "8000"
    assert load_config(env=env | {"HOME": "/nowhere"}).warnings == ()


def test_the_units_read_their_configuration_and_no_secret_is_in_their_environment() -> None:
    file = DEPLOY / "config.toml.example"
    config = load_config(env={"HOME": "/nowhere", "AGENTRT_CONFIG": str(file)})
    assert config.warnings == ()
    assert config.serve.store is not None
    assert config.serve.host == "0.0.0.0"
    for unit in UNITS:
        said = settings(unit)
        assert said["Environment"] == ["AGENTRT_CONFIG=%d/config.toml"]
        assert said["LoadCredential"] == ["config.toml:/etc/agentrt/config.toml"]


@pytest.mark.parametrize("name", ["python", "postgres", "haproxy"])
def test_an_image_is_named_by_its_exact_version(name: str) -> None:
    assert re.fullmatch(r"\w+:\d+\.\d+(\.\d+)?(-\w+)?", images.tag(name))
    assert images.tag(name).count(".") == (1 if name == "postgres" else 2)


def test_the_hashes_are_those_of_the_constraints() -> None:
    pinned = set(re.findall(r"^[\w.-]+==[\w.]+", CONSTRAINTS, re.MULTILINE))
    hashed = re.findall(
        r"^([\w-]+)(?:\[\w+\])?==([\w.]+)([^\n]*\n(?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)",
        (DEPLOY / "requirements.txt").read_text(),
        re.MULTILINE,
    )
    assert len(hashed) > 30
    assert {f"{name}=={version}" for name, version, _ in hashed} <= pinned


def test_the_image_is_built_from_what_the_package_needs() -> None:
    """Everything else of the repository, such as `.git`, stays out of it."""
    rules = (DEPLOY.parent / ".dockerignore").read_text().splitlines()
    allowed = {rule.removeprefix("!") for rule in rules if rule.startswith("!")}
    assert "*" in rules
    build = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text())["tool"]["hatch"]
    hooks = {
        table.get("path", "hatch_build.py")
        for kind in (build["metadata"], build["build"])
        for table in kind.get("hooks", {}).values()
    }
    hook = (DEPLOY.parent / "hatch_build.py").read_text()
    needed = {"pyproject.toml", "README.md", "LICENSE", "src"} | hooks
    needed |= {name for name in ("package.json", "package-lock.json") if name in hook}
    assert allowed == needed | {"constraints.txt"}


def test_no_secret_is_in_a_file_or_on_a_command_line() -> None:
    for _, words in commands():
        assert not [word for word in words if re.search("token|password|:.*@", word)]
    for name in OURS:
        for key, value in COMPOSE["services"][name]["environment"].items():
            if re.search("TOKEN|PASSWORD", key):
                assert re.fullmatch(r"\$\{\w+:\?\}", str(value))


def test_who_is_told_to_leave_gets_the_time_to_finish() -> None:
    drain = Limits().drain_timeout_s
    for name in OURS:
        assert seconds(COMPOSE["services"][name]["stop_grace_period"]) > drain
    for unit in UNITS:
        said = settings(unit)
        assert seconds(said["TimeoutStopSec"][0]) > drain
        assert said["KillMode"] == ["mixed"], "agents would get the SIGTERM as well"


async def test_what_is_asked_for_health_is_served() -> None:
    asked = set(re.findall(r"/\w+z\b", "".join(f.read_text() for f in DEPLOY.glob("*"))))
    assert asked == {"/healthz", "/readyz"}
    async with site() as running:
        for path in asked:
            answer = await get(running.port, path, host=f"localhost:{running.port}")
            assert status(answer) == 200


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_takes_the_units(unit: Path, tmp_path: Path) -> None:
    one = tmp_path / unit.name.replace("@", "@1")
    one.write_text(unit.read_text())
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", one],
        capture_output=True,
        text=True,
    )
    said = [line for line in done.stderr.splitlines() if one.name in line]
    assert (done.returncode, said) == (0, []), done.stderr


@pytest.mark.skipif(shutil.which("haproxy") is None, reason="needs haproxy (apt install haproxy)")
@pytest.mark.parametrize("file", sorted(DEPLOY.glob("haproxy*.cfg")), ids=lambda file: file.name)
def test_haproxy_takes_its_files(file: Path) -> None:
    done = subprocess.run(["haproxy", "-c", "-f", file], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_postgresql_takes_its_file(postgres: Server, tmp_path: Path) -> None:
    found = programs()
    assert found is not None
    file = postgres.folder / "deploy.conf"  # where its user may read
    file.write_text((DEPLOY / "postgresql.conf").read_text())
    data = str(postgres.folder / "data")
    command = [found("postgres"), "-D", data, "-c", f"config_file={file}", "-C", "max_connections"]
    done = subprocess.run(command, **unprivileged(), capture_output=True, text=True, cwd="/")
    assert (done.returncode, done.stdout.strip()) == (0, "300"), done.stderr
