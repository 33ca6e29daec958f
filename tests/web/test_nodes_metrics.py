"""What Prometheus sees of servers that share a store, and when it would raise an alarm."""

from __future__ import annotations

import secrets
import shutil
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from hub_kit import stage_of
from nodes_kit import LEASE_S, looking, node, until
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families
from wire_client import WireClient

import agentrt
from agentrt.store import open_store
from agentrt.testing import FakeAcpAgent, MemoryAgent, open_fake_runtime
from postgres.kit import rows
from postgres.server import Server
from runtime.fakes import echo, obedient

DEPLOY = Path(__file__).parents[2] / "deploy"
PROMTOOL = shutil.which("promtool")


@pytest.fixture
def url(postgres: Server) -> str:
    return postgres.url(f"t_{secrets.token_hex(6)}")


class Meter:
    """The samples of one server."""

    def __init__(self, store: agentrt.store.Store | None) -> None:
        self._metrics = agentrt.telemetry.Metrics(registry=CollectorRegistry())
        assert store is not None
        self._metrics.keeps(store)

    def __getitem__(self, name: str) -> float:
        [value] = [
            sample.value
            for family in text_string_to_metric_families(self._metrics.render().decode())
            for sample in family.samples
            if sample.name == f"agentrt_{name}"
        ]
        return value


@pytest.mark.slow
async def test_a_lease_is_held_for_most_of_its_length(url: str) -> None:
    async with node(url, "a") as a:
        meter = Meter(a.runtime.store)
        assert 0 < meter["lease_seconds"] <= LEASE_S * 0.7
        rows(url, "UPDATE node SET until=now() - interval '1 hour'")
        await until(lambda: meter["lease_seconds"] == 0)
        await until(lambda: meter["lease_seconds"] > 0)


@pytest.mark.slow
async def test_takeovers_and_what_was_fenced_are_counted(url: str) -> None:
    async with node(url, "a", obedient) as a, node(url, "b") as b:
        meters = Meter(a.runtime.store), Meter(b.runtime.store)
        session = await a.runtime.create("fake")
        session.submit("work")
        await until(lambda: session.log.shown.state.state.turn is not None)
        assert [meter["takeovers_total"] for meter in meters] == [0, 0]
        # As if it had been stopped: others find its lease over, and it goes on.
        rows(url, "UPDATE session SET node=node+1000000")
        await until(lambda: meters[1]["takeovers_total"] + meters[0]["takeovers_total"] == 1)
        session.cancel()
        await until(lambda: meters[0]["fenced_total"] == 1)


async def test_a_command_that_waits_is_seen(url: str) -> None:
    held = trio.Event()

    async def slow(process: MemoryAgent) -> None:
        await held.wait()
        async with FakeAcpAgent.serving(process) as agent:
            await echo(agent)

    async with (
        node(url, "g", role="gateway") as g,
        open_store(url, node="w", home="here", role="worker") as store,
        open_fake_runtime({"fake": lambda: MemoryAgent(slow)}, store=store) as worker,
        stage_of(worker),
        trio.open_nursery() as nursery,
    ):
        meter = Meter(g.runtime.store)
        tab = g.connect(client=WireClient("the-client"))
        await until(lambda: tab.messages("ready"))
        assert (meter["commands_waiting"], meter["command_wait_seconds"]) == (0, 0)
        new = partial(tab.ok, "session", op="new", agent="fake", cwd="/")
        nursery.start_soon(new)
        await until(lambda: meter["commands_waiting"] == 1)
        await until(lambda: meter["command_wait_seconds"] > 0.1)
        held.set()
        await until(lambda: meter["commands_waiting"] == 0)


@pytest.mark.slow
async def test_a_replica_that_cannot_be_read_is_late(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with node(url, "a", echo) as a, node(url, "b") as b:
        meter = Meter(b.runtime.store)
        session = await a.runtime.create("fake")
        tab = await looking(b, session.id)
        await until(lambda: meter["replica_lag_seconds"] == 0)
        assert b.runtime.store is not None
        cluster = b.runtime.store.cluster
        assert cluster is not None
        monkeypatch.setattr(cluster, "_do", failing(cluster._do, "tails"))
        await session.run("hello")
        await until(lambda: meter["replica_lag_seconds"] > 0.1)
        monkeypatch.undo()
        await until(lambda: tab.view(session.id).texts() == ["hello"])
        await until(lambda: meter["replica_lag_seconds"] == 0)


def failing(do: Callable[[Any], Any], name: str) -> Callable[[Any], Any]:
    """A way to the rows, on which one of them fails."""

    async def some(job: Any) -> Any:
        if getattr(getattr(job, "func", job), "__name__", "") == name:
            raise agentrt.errors.StoreError("the database is away")
        return await do(job)

    return some


async def test_connections_to_the_database_are_counted(url: str) -> None:
    async with node(url, "a") as a:
        meter = Meter(a.runtime.store)
        assert a.runtime.store is not None
        cluster = a.runtime.store.cluster
        assert cluster is not None
        await until(lambda: cluster.connections[0])
        sql = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'agentrt%'"
        # What the runbook says of a server; those of others go by and by.
        await until(lambda: rows(url, sql) == [(5,)])
        [(most,)] = rows(url, "SHOW max_connections")
        limit = meter["database_connections_limit"]
        assert 5 <= meter["database_connections"] < limit < int(most)  # some are the superuser's


@pytest.mark.skipif(PROMTOOL is None, reason="needs promtool (apt install prometheus)")
def test_the_alerts_are_raised_when_they_should_be(tmp_path: Path) -> None:
    """promtool's own test of the rules, with series as servers give them."""
    assert PROMTOOL is not None
    series = {
        "agentrt_lease_seconds": ("0x40", "6x40"),
        "agentrt_takeovers_total": ("0x20 3x20", "2x40"),
        "agentrt_fenced_total": ("0x20 1x20", "0x40"),
        "agentrt_replica_lag_seconds": ("5x40", "0x40"),
        "agentrt_command_wait_seconds": ("9x40", "0 9 0 0 9 0 0 9 0 0x30"),
        "agentrt_database_connections": ("95x40", "95x40"),
        "agentrt_database_connections_limit": ("97x40", "97x40"),
    }
    alerts = {
        "AgentrtNoLease": "bad",
        "AgentrtLeaseRunsOut": "late",
        "AgentrtTakeovers": "bad",
        "AgentrtFenced": "bad",
        "AgentrtReplicasLag": "bad",
        "AgentrtCommandsWait": "bad",
        "AgentrtConnectionsRunOut": "",
    }
    lines = [
        f"rule_files: [{DEPLOY / 'prometheus-alerts.yml'}]",
        "evaluation_interval: 15s",
        "tests:",
        "  - interval: 15s",
        "    input_series:",
        '      - {series: \'agentrt_lease_seconds{instance="late"}\', values: "2x40"}',
    ]
    for name, both in series.items():
        for instance, values in zip(("bad", "good"), both, strict=True):
            lines.append(f"      - {{series: '{name}{{instance=\"{instance}\"}}', ")
            lines[-1] += f'values: "{values}"}}'
    lines.append("    promql_expr_test:")
    for name, instance in alerts.items():
        label = f', instance="{instance}"' if instance else ""
        severity = "critical" if name == "AgentrtNoLease" else "warning"
        about = f'alertname="{name}", alertstate="firing"{label}, severity="{severity}"'
        lines += [
            f'      - expr: ALERTS{{alertname="{name}", alertstate="firing"}}',
            "        eval_time: 9m",
            "        exp_samples:",
            f"          - {{labels: 'ALERTS{{{about}}}', value: 1}}",
        ]
    file = tmp_path / "test.yml"
    file.write_text("\n".join(lines))
    done = subprocess.run([PROMTOOL, "test", "rules", file], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
