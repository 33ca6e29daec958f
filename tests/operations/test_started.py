"""Everything in `deploy/` is started as it is written, from machines that have nothing of agentrt,
and is used: a session through HAProxy and two gateways, and the metrics.

The images that `deploy/` builds on come from `images.py`, not from a registry.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import pytest
import trio

from postgres.server import free_port, programs
from runtime.test_docker import DOCKER, DOCKERD, Daemon
from web.sockets import websocket
from web.tenants_kit import Line

from . import images

DEPLOY = Path(__file__).parents[2] / "deploy"
COMPOSE = shutil.which("docker-compose")
PATIENCE = 180.0
TOKEN, METRICS = "operators-token-x", "metrics-token-xyz"
PROJECTS = "/projects"
"""The folder in which the worker of the composition opens its sessions."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        None in (DOCKERD, DOCKER, COMPOSE, shutil.which("haproxy"), programs())
        or os.geteuid() != 0,
        reason="needs root, and: apt-get install docker.io docker-compose haproxy postgresql",
    ),
]


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    with tempfile.TemporaryDirectory(prefix="agentrt-docker-") as folder:
        made = Daemon(Path(folder), network=True)
        made.wait()
        try:
            yield made
        finally:
            made("network", "prune", "-f")
            made.end()


@pytest.fixture(scope="module")
def engine(daemon: Daemon) -> Daemon:
    """With the images that `deploy/` names, and the one that it builds."""
    with tempfile.TemporaryDirectory() as folder:
        images.load_all(daemon, Path(folder))
    file = str(DEPLOY / "Dockerfile")
    daemon.done("build", "-q", "-f", file, "-t", "agentrt", str(DEPLOY.parent))
    return daemon


def address(engine: Daemon, container: str) -> str:
    form = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}"
    return engine.done("inspect", "-f", form, container)


async def until_ready(host: str, port: int) -> None:
    """Wait until new sessions may be opened there, under whatever name it is asked."""
    with trio.fail_after(PATIENCE):
        while True:
            with suppress(OSError):
                async with await trio.open_tcp_stream(host, port) as stream:
                    await stream.send_all(b"GET /readyz HTTP/1.1\r\nHost: any\r\n\r\n")
                    if b" 200 " in await stream.receive_some(4096):
                        return
            await trio.sleep(0.2)


def figures(host: str, port: int) -> dict[str, float]:
    """The metrics of a server, by name and labels."""
    bearer = {"Authorization": f"Bearer {METRICS}"}
    request = urllib.request.Request(f"http://{host}:{port}/metrics", headers=bearer)
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        lines = answer.read().decode().splitlines()
    parts = [line.rpartition(" ") for line in lines if not line.startswith("#")]
    return {name: float(value) for name, _, value in parts}


async def prompt_through(
    balancer: tuple[str, int], gateways: list[tuple[str, int]], worker: tuple[str, int]
) -> None:
    """Prompt in a session that two clients see, each through another gateway, and look at what the
    servers count."""
    host, port = balancer
    headers = {"host": "agents.example", "authorization": f"Bearer {TOKEN}"}

    async def pair(stack: AsyncExitStack) -> list[Line]:
        opening = [websocket(port, address=host, **headers) for _ in range(2)]
        lines = [Line(await stack.enter_async_context(each)) for each in opening]
        for line in lines:
            await line.ok("hello")
        return lines

    with trio.fail_after(PATIENCE):
        while True:
            async with AsyncExitStack() as stack:
                first, second = await pair(stack)
                if [figures(*each)["agentrt_viewers"] for each in gateways] != [1.0, 1.0]:
                    await trio.sleep(0.5)  # the balancer has not seen both gateways yet
                    continue
                opened = await first.ok("session", op="new", agent="demo", cwd=PROJECTS)
                session = opened["session"]
                await first.attach(session)
                await second.attach(session)
                await second.prompt(session, "hello there")
                await first.over(session)
                await second.over(session)
                assert "hello there" in first.heard
                break
    turns = {name: n for name, n in figures(*worker).items() if "agentrt_turns_total" in name}
    assert turns == {'agentrt_turns_total{agent="demo",outcome="completed"}': 1.0}


async def test_the_composition_serves_a_session(engine: Daemon, tmp_path: Path) -> None:
    port = free_port()
    file = tmp_path / "compose.yml"
    # As written, but for a port that nobody else has.
    text = (DEPLOY / "compose.yml").read_text()
    assert text.count("127.0.0.1:8080:8080") == 1
    file.write_text(text.replace("127.0.0.1:8080:8080", f"127.0.0.1:{port}:8080"))
    env = {
        "PATH": os.environ["PATH"],
        "DOCKER_HOST": engine.address,
        "POSTGRES_PASSWORD": "p@ss word/1%",
        "AGENTRT_SERVE_TOKEN": TOKEN,
        "AGENTRT_SERVE_METRICS_TOKEN": METRICS,
        "AGENTRT_SERVE_URL": "https://agents.example",
    }
    assert COMPOSE is not None
    compose = [COMPOSE, "-p", "started", "--project-directory", str(DEPLOY), "-f", str(file)]
    up = [*compose, "up", "-d", "--build", "--scale", "worker=1", "--scale", "gateway=2"]
    try:
        done = subprocess.run(up, env=env, capture_output=True, text=True)  # noqa: ASYNC221
        assert done.returncode == 0, done.stderr
        await until_ready("127.0.0.1", port)
        names = ["started_gateway_1", "started_gateway_2", "started_worker_1"]
        with trio.fail_after(PATIENCE):
            for name in [*names, "started_postgres_1"]:
                health = ["inspect", "-f", "{{.State.Health.Status}}", name]
                while engine.done(*health) != "healthy":  # noqa: ASYNC110
                    await trio.sleep(0.2)
        *gateways, worker = [(address(engine, name), 8000) for name in names]
        for each in gateways:
            await until_ready(*each)
        await prompt_through(("127.0.0.1", port), gateways, worker)
        restarts = [engine.done("inspect", "-f", "{{.RestartCount}}", name) for name in names]
        assert restarts == ["0", "0", "0"]
    finally:
        logs = subprocess.run(  # noqa: ASYNC221
            [*compose, "logs", "--no-color", "--tail", "20"], env=env, capture_output=True
        )
        print(logs.stdout.decode())
        down = [*compose, "down", "-v", "--timeout", "5"]
        subprocess.run(down, env=env, capture_output=True)  # noqa: ASYNC221


@pytest.mark.skipif(
    shutil.which("systemctl") is None, reason="needs systemd (apt-get install systemd)"
)
async def test_the_units_serve_a_session_through_haproxy(engine: Daemon, tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        images.load_machine(engine, Path(folder))
    config = (DEPLOY / "config.toml.example").read_text()
    for before, after in (
        ("PASSWORD@database.example", "secret@db"),
        ("?sslmode=verify-full", ""),  # this database has no certificate
        ('\ntoken = ""', f'\ntoken = "{TOKEN}"'),
        ('\nmetrics_token = ""', f'\nmetrics_token = "{METRICS}"'),
    ):
        assert config.count(before) == 1
        config = config.replace(before, after)
    (tmp_path / "config.toml").write_text(config)
    password = ["-e", "POSTGRES_USER=agentrt", "-e", "POSTGRES_PASSWORD=secret"]
    systemd = ["--cap-add=SYS_ADMIN", "--security-opt=seccomp=unconfined", "--tmpfs=/run"]
    systemd += ["--security-opt=apparmor=unconfined", "-v=/sys/fs/cgroup:/sys/fs/cgroup"]
    engine.done("network", "create", "units")
    containers = []
    try:
        database = ["--name", "db", "--network=units", *password, images.tag("postgres")]
        containers.append(engine.done("run", "-d", *database))
        machine = engine.done("run", "-d", "--network=units", *systemd, "machine")
        containers.append(machine)
        for unit in DEPLOY.glob("*.service"):
            engine.done("cp", str(unit), f"{machine}:/etc/systemd/system/")
        engine.done("cp", str(tmp_path / "config.toml"), f"{machine}:/etc/agentrt/")
        engine.done("cp", str(DEPLOY / "haproxy.cfg"), f"{machine}:/etc/haproxy.cfg")
        inside = ["exec", machine]
        with trio.fail_after(PATIENCE):
            state = [*inside, "systemctl", "is-system-running"]
            while "running" not in engine(*state).stdout:  # noqa: ASYNC110
                await trio.sleep(0.2)
        for command in (
            f"useradd --system --create-home agentrt && mkdir -m 777 {PROJECTS}",
            "chown root:root /etc/agentrt/config.toml && chmod 600 /etc/agentrt/config.toml",
            "systemctl daemon-reload && systemctl start systemd-journald",
            "systemctl enable --now agentrt-worker@1 agentrt-gateway@1 agentrt-gateway@2",
        ):
            engine.done(*inside, "sh", "-c", command)
        engine.done("exec", "-d", machine, "haproxy", "-f", "/etc/haproxy.cfg")
        host = address(engine, machine)
        try:
            for port in (8101, 8001, 8002, 8080):
                await until_ready(host, port)
            gateways = [(host, 8001), (host, 8002)]
            await prompt_through((host, 8080), gateways, (host, 8101))
        finally:
            print(engine(*inside, "journalctl", "--no-pager", "-n", "60").stdout)
    finally:
        for container in containers:
            engine("rm", "-f", "-v", container)
        engine("network", "rm", "units")
