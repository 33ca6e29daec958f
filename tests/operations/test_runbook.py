"""The commands of the runbook, as they stand there, in their order."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

import agentrt
from cluster.nodes import Node
from postgres.server import Server, free_port, programs, run, serving

DOC = (Path(__file__).parents[2] / "docs/guides/operating.md").read_text()
ALERTS = (Path(__file__).parents[2] / "deploy" / "prometheus-alerts.yml").read_text()

pytestmark = pytest.mark.slow


def test_each_alert_is_explained() -> None:
    raised = re.findall(r"alert: (\w+)", ALERTS)
    table = DOC.partition("## Alerts\n")[2].partition("\n## ")[0]
    assert sorted(raised) == sorted(re.findall(r"^\| `(Agentrt\w+)`", table, re.MULTILINE))


@pytest.fixture
def own_server(postgres: Server) -> Iterator[Server]:
    """One that may be cut off; `postgres` says whether there can be one."""
    with serving() as server:
        yield server


class Shell:
    """Runs the blocks of a section."""

    def __init__(self, server: Server, folder: Path) -> None:
        found = programs()
        assert found is not None
        path = [str(Path(sys.executable).parent), str(found.folder), os.environ["PATH"]]
        self.env = {
            "PATH": os.pathsep.join(path),
            "HOME": str(folder),
            "PGHOST": str(server.folder),
            "PGPORT": str(server.port),
            "PGUSER": "postgres",
            "PGDATABASE": "postgres",
            "BACKUP": str(folder),
        }

    async def section(self, title: str) -> str:
        text = DOC.partition(f"## {title}\n")[2].partition("\n## ")[0]
        said = ""
        for block in re.findall(r"```{code-block} sh\n(.*?)```", text, re.DOTALL):
            done = await trio.run_process(
                ["sh", "-euc", block],
                env=self.env,
                capture_stdout=True,
                capture_stderr=True,
                check=False,
            )
            assert done.returncode == 0, (block, done.stdout.decode(), done.stderr.decode())
            said += done.stdout.decode()
        assert "code-block} sh" in text
        return said


async def a_turn(url: str) -> tuple[str, str]:
    """The id of a session with one turn, and the epoch of its log."""
    async with agentrt.open_runtime(store=url) as runtime:
        session = await runtime.create("demo")
        assert (await session.run("say hello")).outcome == "completed"
        return session.id, session.log.epoch


async def read(url: str, id: str) -> tuple[int, str]:
    """Its turns, and the epoch of its log."""
    async with agentrt.store.open_store(url) as store, agentrt.open_runtime(store=store) as runtime:
        log = await runtime.read(id)
        return len(log.state.turns), log.epoch


async def test_servers_are_listed_and_drained(own_server: Server, tmp_path: Path) -> None:
    shell = Shell(own_server, tmp_path)
    node = Node("worker-1", tmp_path, url=own_server.url(), lease=10.0, role="both")
    node.port = free_port()
    await node.start("localhost")
    try:
        with trio.fail_after(60):
            while not await node.is_ready():  # noqa: ASYNC110
                await trio.sleep(0.1)
            assert "worker-1" in await shell.section("Listing the servers")
            await shell.section("Taking a server out of service")
            assert await node.wait() == 0
    finally:
        node.signal(signal.SIGKILL)
        with trio.CancelScope(shield=True, deadline=trio.current_time() + 10):
            await node.wait()


async def test_a_backup_is_restored_and_another_server_takes_over(
    own_server: Server, tmp_path: Path
) -> None:
    shell = Shell(own_server, tmp_path)
    id, epoch = await a_turn(own_server.url())
    await shell.section("Backup and restore")
    turns, restored = await read(own_server.url(), id)
    assert (turns, restored != epoch) == (1, True)

    found = programs()
    assert found is not None
    data, port = own_server.folder / "standby", free_port()
    where = f"host={own_server.folder} port={own_server.port} user=postgres"
    make = [found("pg_basebackup"), "-D", str(data), "--write-recovery-conf", "--checkpoint=fast"]
    control = (found("pg_ctl"), "-D", str(data), "-w")
    await trio.to_thread.run_sync(run, *make, "-d", f"{where} application_name=standby")
    options = f"-c port={port}"
    await trio.to_thread.run_sync(
        run, *control, "-l", str(own_server.folder / "standby.log"), "-o", options, "start"
    )
    try:
        with trio.fail_after(60):
            while "sync" not in await shell.section("Failover"):  # noqa: ASYNC110
                await trio.sleep(0.2)
        later, _ = await a_turn(own_server.url())
        primary = own_server.folder / "data"
        await trio.to_thread.run_sync(
            run, found("pg_ctl"), "-D", str(primary), "-m", "immediate", "-w", "stop"
        )
        await trio.to_thread.run_sync(run, *control, "promote")
        taken = Server(own_server.folder, port)
        assert (await read(taken.url(), later))[0] == 1
        assert (await read(taken.url(), id))[1] not in (epoch, restored)
    finally:
        again = (found("pg_ctl"), "-D", str(own_server.folder / "data"), "-w")
        with trio.CancelScope(shield=True, deadline=trio.current_time() + 60):
            await trio.to_thread.run_sync(run, *control, "-m", "immediate", "stop")
            await trio.to_thread.run_sync(
                run, *again, "-l", str(own_server.folder / "log"), "start"
            )
