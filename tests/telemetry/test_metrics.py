"""What Prometheus sees: of sessions, of a store, of a server; and who may see it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import h11
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

import agentrt
from agentrt._core.telemetry.counts import SECONDS, Histogram
from agentrt._core.telemetry.metrics import _buckets
from agentrt.testing import FakeAcpAgent
from runtime.fakes import Incarnations, asking, echo, obedient, session_with

pytestmark = pytest.mark.usefixtures("forked_demo")

DEPLOY = Path(__file__).parents[2] / "deploy"
PROMTOOL = shutil.which("promtool")
TOKEN, SIGHT = "metrics-0123456789", "page-0123456789-0123"


class Meter:
    """A registry of its own, and what is in it."""

    def __init__(self, **options: Any) -> None:
        self.registry = CollectorRegistry()
        self.metrics = agentrt.telemetry.Metrics(registry=self.registry, **options)

    def __getitem__(self, name: str) -> dict[str, float]:
        """The samples of that name that are not 0, by the values of their labels."""
        return {
            "/".join(sample.labels.values()): sample.value
            for family in text_string_to_metric_families(self.metrics.render().decode())
            for sample in family.samples
            if sample.name == name and sample.value
        }


@pytest.fixture
def meter() -> Meter:
    return Meter(agents=["fake"])


@asynccontextmanager
async def measured(
    meter: Meter, *scripts: Any, **options: Any
) -> AsyncIterator[tuple[agentrt.Session, Incarnations]]:
    async with session_with(*scripts, telemetry=meter.metrics, **options) as both:
        yield both


async def test_sessions_are_there_by_phase_while_they_are_open(meter: Meter) -> None:
    async with measured(meter, obedient) as (session, _):
        assert meter["agentrt_sessions"] == {"fake/idle": 1}
        async with session.prompt("go") as turn:
            session.submit("next")
            assert meter["agentrt_sessions"] == {"fake/running": 1}
            assert meter["agentrt_queued_prompts"] == {"fake": 1}
            session.cancel()
        assert turn.result.outcome == "cancelled"
    assert meter["agentrt_sessions"] == {}
    assert meter["agentrt_turns_total"]["fake/cancelled"] == 1
    assert meter["agentrt_cancel_seconds_count"] == {"fake": 1}


async def test_turns_are_counted_by_outcome_and_timed(meter: Meter) -> None:
    async with measured(meter, echo) as (session, _):
        for _ in range(3):
            await session.run("hello")
    assert meter["agentrt_turns_total"] == {"fake/completed": 3}
    for what in ("turn", "first_token"):
        assert meter[f"agentrt_{what}_seconds_count"] == {"fake": 3}
    assert meter["agentrt_received_bytes_total"]["fake"] > 300


async def test_a_question_is_open_and_then_answered(meter: Meter) -> None:
    async with measured(meter, asking) as (session, _), session.prompt("go") as turn:
        async for event in turn:
            if isinstance(event, agentrt.PermissionOpened):
                assert meter["agentrt_open_questions"] == {"fake": 1}
                turn.answer(event.request, "allow_once")
    assert meter["agentrt_permissions_total"] == {"fake/user": 1}
    assert meter["agentrt_permission_wait_seconds_count"] == {"fake": 1}
    assert meter["agentrt_tool_seconds_count"] == {"fake": 1}


async def test_the_longest_step_of_any_task_is_reported_once(meter: Meter) -> None:
    def now() -> float:
        return meter["agentrt_longest_step_seconds"].get("", 0.0)

    async with measured(meter, echo):
        now()
        await trio.lowlevel.checkpoint()
        time.sleep(0.05)  # noqa: ASYNC251 - blocks all tasks on purpose
        await trio.lowlevel.checkpoint()
        assert now() >= 0.05
        assert now() == 0


async def test_a_policy_s_answer_is_no_wait_for_a_person(meter: Meter) -> None:
    async with measured(meter, asking, permissions=agentrt.allow_all) as (session, _):
        await session.run("go")
    assert meter["agentrt_permissions_total"] == {"fake/policy": 1}
    assert meter["agentrt_permission_wait_seconds_count"] == {}


async def test_restarts_and_odd_messages_are_counted(meter: Meter) -> None:
    async def dying(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            agent.process.send(b"{broken\n")
            prompt.end()
            agent.update("tool_call", toolCallId="c", title="x")
            agent.process.exit(3)
            return

    async with measured(meter, dying, echo) as (session, _):
        await session.run("go", check=False)
        with session.subscribe_all() as events:
            async for event in events:
                if isinstance(event, agentrt.events.StateChanged) and event.state.phase == "dead":
                    break
        await session.run("again")
    assert meter["agentrt_odd_messages_total"] == {"fake/malformed": 1}
    assert meter["agentrt_restarts_total"] == {"fake": 1}


async def test_tokens_and_cost_are_summed_up(meter: Meter) -> None:
    async def counting(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            prompt.end(usage={"inputTokens": 5, "outputTokens": 3, "totalTokens": 8})

    async with measured(meter, counting) as (session, _):
        await session.run("a")
        await session.run("b")
    assert meter["agentrt_tokens_total"] == {"fake/input": 10, "fake/output": 6}


async def test_an_agent_that_is_not_on_the_list_makes_no_series_of_its_own() -> None:
    meter = Meter()
    for name in ("u1", "u2"):
        async with measured(meter, echo, name=name) as (session, _):
            await session.run("hello")
    assert meter["agentrt_turns_total"] == {"other/completed": 2}


async def test_a_store_is_measured(meter: Meter, tmp_path: Path) -> None:
    async with (
        agentrt.store.open_store(tmp_path / "s.db") as store,
        measured(meter, echo, store=store) as (session, _),
    ):
        await session.run("hello")
        said = store.statistics()
        assert meter["agentrt_store_state"] == {"ok": 1}
        assert meter["agentrt_store_bytes"][""] > 0
        assert meter["agentrt_store_commits_total"][""] >= said.commits > 0
        assert meter["agentrt_store_commit_seconds_total"][""] > 0
        assert said.failures == 0


@pytest.mark.slow
async def test_both_kinds_of_telemetry_can_be_asked_for(meter: Meter) -> None:
    both = [agentrt.telemetry.OpenTelemetry(), meter.metrics]
    async with agentrt.open_session("demo", telemetry=both) as session:
        await session.run("hello")
    assert meter["agentrt_turns_total"] == {"demo/completed": 1}


@given(st.lists(st.floats(0, 5000)))
def test_a_histogram_has_each_value_once_and_in_its_place(values: list[float]) -> None:
    histogram = Histogram()
    for value in values:
        histogram.add(value)
    for bound, count in _buckets(histogram):
        assert count == sum(value <= float(bound) for value in values)
    assert len(_buckets(histogram)) == len(SECONDS) + 1


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(agentrt.AgentrtError, match=r'pip install "agentrt\[metrics\]"'):
        agentrt.telemetry.Metrics()


# --- /metrics


@asynccontextmanager
async def site(meter: Meter | None, **tokens: str) -> AsyncIterator[agentrt.web.Site]:
    telemetry = None if meter is None else meter.metrics
    with trio.fail_after(20):
        async with (
            agentrt.open_runtime(telemetry=telemetry) as runtime,
            trio.open_nursery() as nursery,
        ):
            security = agentrt.web.Security(**tokens)
            serve = partial(agentrt.web.serve, runtime, security=security, metrics=telemetry)
            yield await nursery.start(serve)
            nursery.cancel_scope.cancel()


async def get(site: agentrt.web.Site, path: str, token: str | None) -> tuple[int, bytes]:
    headers = [("Host", f"127.0.0.1:{site.port}"), ("Connection", "close")]
    if token is not None:
        headers.append(("Authorization", f"Bearer {token}"))
    http = h11.Connection(h11.CLIENT)
    async with await trio.open_tcp_stream("127.0.0.1", site.port) as stream:
        request = h11.Request(method="GET", target=path, headers=headers)
        await stream.send_all((http.send(request) or b"") + (http.send(h11.EndOfMessage()) or b""))
        status, body = 0, b""
        while not isinstance(event := http.next_event(), h11.EndOfMessage):
            if event is h11.NEED_DATA:
                http.receive_data(bytes(await stream.receive_some(65536)))
            elif isinstance(event, h11.Response):
                status = event.status_code
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
        return status, body


async def test_metrics_are_shown_for_their_own_token_and_for_no_other(meter: Meter) -> None:
    async with site(meter, token=SIGHT, metrics_token=TOKEN) as served:
        for wrong in (None, SIGHT, TOKEN[:-1], f"{TOKEN}x", "x"):
            assert (await get(served, "/metrics", wrong))[0] == 401
        status, body = await get(served, "/metrics", TOKEN)
        assert status == 200
        assert b"agentrt_viewers 0.0" in body
        assert (await get(served, "/", TOKEN))[0] == 401
        assert (await get(served, "/page/index.html", TOKEN))[0] == 401
        assert meter["agentrt_connections_total"]["refused"] >= 5
    assert meter["agentrt_connections_total"] == {}


async def test_without_metrics_there_is_nothing_there() -> None:
    async with site(None, token=SIGHT, metrics_token=TOKEN) as served:
        assert (await get(served, "/metrics", TOKEN))[0] == 401


async def test_metrics_without_a_token_of_their_own_are_refused(meter: Meter) -> None:
    with pytest.raises(ValueError, match="metrics need a separate token"):
        async with agentrt.open_runtime() as runtime:
            await agentrt.web.serve(runtime, metrics=meter.metrics)
    for wrong in ({"token": TOKEN}, {"viewer_token": TOKEN}):
        with pytest.raises(ValueError, match="metrics_token must differ"):
            agentrt.web.Security(metrics_token=TOKEN, **wrong)
    with pytest.raises(ValueError, match="at least 16"):
        agentrt.web.Security(metrics_token="short")


# --- the files for Grafana and Prometheus


@pytest.mark.parametrize("file", ["grafana-dashboard.json", "prometheus-alerts.yml"])
def test_what_the_files_ask_for_exists(file: str, meter: Meter) -> None:
    known = set()
    for metric in meter.metrics.collect():
        suffixes = {"counter": ["_total"], "histogram": ["_bucket"]}.get(metric.type, [""])
        known |= {metric.name + suffix for suffix in suffixes}
    asked = set(re.findall(r"\bagentrt_\w+", (DEPLOY / file).read_text()))
    assert asked - known == set()
    if file.endswith("json"):
        assert known - asked == set()


def test_the_dashboard_has_a_place_for_each_panel() -> None:
    panels = json.loads((DEPLOY / "grafana-dashboard.json").read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert len({(p["gridPos"]["x"], p["gridPos"]["y"]) for p in panels}) == len(panels)
    assert all(target["expr"] for panel in panels for target in panel["targets"])


@pytest.mark.skipif(PROMTOOL is None, reason="needs promtool (apt install prometheus)")
def test_prometheus_takes_the_alerts() -> None:
    assert PROMTOOL is not None
    done = subprocess.run(
        [PROMTOOL, "check", "rules", DEPLOY / "prometheus-alerts.yml"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(PROMTOOL is None, reason="needs promtool (apt install prometheus)")
def test_prometheus_takes_what_is_served_and_what_the_dashboard_asks(
    meter: Meter, tmp_path: Path
) -> None:
    assert PROMTOOL is not None

    async def one_turn() -> None:
        async with measured(meter, echo) as (session, _):
            await session.run("hello")

    trio.run(one_turn)
    checked = subprocess.run(
        [PROMTOOL, "check", "metrics"], input=meter.metrics.render(), capture_output=True
    )
    assert checked.returncode == 0, checked.stderr
    panels = json.loads((DEPLOY / "grafana-dashboard.json").read_text())["panels"]
    asked = [target["expr"] for panel in panels for target in panel["targets"]]
    rules = [
        {"record": f"r{n}", "expr": expr.replace("$__rate_interval", "5m").replace("$agent", ".*")}
        for n, expr in enumerate(asked)
    ]
    file = tmp_path / "rules.yml"  # JSON is YAML
    file.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    done = subprocess.run([PROMTOOL, "check", "rules", file], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
