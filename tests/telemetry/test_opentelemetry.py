"""Spans of sessions with OpenTelemetry's SDK: what a program gets, and what its agent does."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
from mcp.server import MCPServer
from opentelemetry import baggage, context, trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, StatusCode

import agentrt
from agentrt.config import load_config
from agentrt.testing import FakeAcpAgent, FakeAgent, FakeClaudeAgent, says, scripted_agents
from in_process import free_port, help_on, main_beside, until_listening
from runtime.fakes import Incarnations, asking, echo, session_with
from web.sockets import TOKEN
from web.tenants_kit import line

from .kit import Collector, Program, as_tree

pytestmark = pytest.mark.usefixtures("forked_demo")

FAKE = str(Path(__file__).parents[1] / "claude" / "fakecli.py")
PATIENCE = 20.0


@pytest.fixture
def program() -> Program:
    return Program()


def fake(scenario: str) -> agentrt.Agent:
    return agentrt.agents.claude([sys.executable, FAKE, scenario])


@asynccontextmanager
async def observed(
    program: Program, *scripts: Any, content: Any = False, **options: Any
) -> AsyncIterator[tuple[agentrt.Session, Incarnations]]:
    telemetry = agentrt.telemetry.OpenTelemetry(tracer_provider=program.provider, content=content)
    async with session_with(*scripts, telemetry=telemetry, **options) as both:
        yield both


WHOLE = {
    "invoke_agent claude": {
        "execute_tool Bash": {"permission": {}},
        "execute_tool mcp__agentrt__record": {"inside the tool": {}},
        "execute_tool Agent": {"invoke_agent reader": {"execute_tool Read": {}}},
    }
}


@agentrt.tool
async def record(summary: str) -> str:
    """Persist the outcome."""
    await trio.lowlevel.checkpoint()
    with trace.get_tracer("program", tracer_provider=RECORDING.provider).start_as_current_span(
        "inside the tool"
    ):
        return f"recorded: {summary}"


RECORDING = Program()


@pytest.mark.slow
async def test_a_turn_with_two_tools_a_question_and_a_sub_agent_is_one_tree_at_a_collector() -> (
    None
):
    program = RECORDING
    with trio.fail_after(PATIENCE):
        async with Collector.listening() as collector:
            exporter = OTLPSpanExporter(f"http://127.0.0.1:{collector.port}/v1/traces")
            processor = BatchSpanProcessor(exporter)
            program.provider.add_span_processor(processor)
            telemetry = agentrt.telemetry.OpenTelemetry(tracer_provider=program.provider)
            with program.tracer.start_as_current_span("request"):
                async with (
                    agentrt.open_session(
                        fake("sub_agent"), tools=[record], telemetry=telemetry
                    ) as session,
                    session.prompt("go") as turn,
                ):
                    async for event in turn:
                        if isinstance(event, agentrt.PermissionOpened):
                            turn.answer(event.request, "allow_once")
            await trio.to_thread.run_sync(processor.shutdown)
    spans = [
        span
        for request in collector.requests
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]
    assert len({span.trace_id for span in spans}) == 1
    assert as_tree((s.span_id, s.parent_span_id, s.name) for s in spans) == {"request": WHOLE}
    known = {
        a.key: a.value
        for a in next(s for s in spans if s.parent_span_id and s.kind == 3).attributes
    }
    assert known["gen_ai.operation.name"].string_value == "invoke_agent"
    assert known["gen_ai.usage.input_tokens"].int_value == 12
    assert known["gen_ai.usage.output_tokens"].int_value == 3
    assert known["agentrt.turn.waited"].double_value > 0
    request = next(s for s in spans if s.name == "request")
    assert turn.result.text.rpartition("-")[0].endswith(
        f"00-{request.trace_id.hex()}-{request.span_id.hex()}"
    )


async def test_an_acp_agent_gets_the_trace_with_its_prompt(program: Program) -> None:
    token = context.attach(baggage.set_baggage("tenant", "blue"))
    async with observed(program, echo) as (session, agents):
        await session.run("hello")
        context.detach(token)
        await session.run("again")
    first, second = [message["params"]["_meta"] for message in agents.sent("session/prompt")]
    sent = program.spans()[0].context
    assert first == {
        "traceparent": f"00-{sent.trace_id:032x}-{sent.span_id:016x}-{sent.trace_flags:02x}",
        "baggage": "tenant=blue",
    }
    assert list(second) == ["traceparent"]


async def test_without_telemetry_nothing_travels_with_a_prompt() -> None:
    async with session_with(echo) as (session, agents):
        await session.run("hello")
    assert "_meta" not in agents.sent("session/prompt")[0]["params"]


async def test_each_turn_is_below_the_span_in_which_it_was_prompted(program: Program) -> None:
    async with observed(program, echo) as (session, _):
        for name in ("one", "two"):
            with program.tracer.start_as_current_span(name):
                await session.run("hello")
        await session.run("hello")
    turn: dict[str, Any] = {"invoke_agent fake": {}}
    assert program.tree() == {"one": turn, "two": turn, **turn}


async def test_the_program_s_own_code_is_in_the_span_of_its_turn(program: Program) -> None:
    seen: list[int] = []

    async def policy(request: agentrt.PermissionRequest) -> agentrt.permissions.Decision:
        seen.append(trace.get_current_span().get_span_context().span_id)
        return agentrt.Allow()

    async with observed(program, asking, permissions=policy) as (session, _):
        await session.run("go")
    assert seen == [program.span("invoke_agent fake").context.span_id]
    assert trace.get_current_span() is trace.INVALID_SPAN


async def test_a_turn_that_fails_says_so(program: Program) -> None:
    async def failing(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            prompt.fail(message="out of credit")

    async with observed(program, failing) as (session, _):
        await session.run("go", check=False)
    [span] = program.spans()
    assert (span.status.status_code, span.kind) == (StatusCode.ERROR, SpanKind.CLIENT)
    assert "out of credit" in str(span.status.description)
    assert span.attributes is not None
    assert span.attributes["error.type"] == "internal"


async def test_an_agent_that_dies_and_is_started_again_is_seen(program: Program) -> None:
    async def dying(agent: FakeAcpAgent) -> None:
        async for _prompt in agent.prompts:
            agent.update("tool_call", toolCallId="c1", title="ls", name="shell")
            agent.process.exit(3)
            return

    async with observed(program, dying, echo) as (session, _):
        await session.run("go", check=False)
        await session.run("again")
    first, tool, second = program.spans()
    assert (first.attributes or {})["error.type"] == "agent_died"
    assert (tool.attributes or {})["error.type"] == "tool_orphaned"
    assert [event.name for event in second.events] == ["agent_restarted"]


async def test_a_prompt_that_cannot_be_sent_leaves_a_span_with_an_error(program: Program) -> None:
    async with observed(program, echo) as (session, _):
        with pytest.raises(agentrt.LocalProtocolError):
            await session.run([agentrt.Image("AAAA", "image/png")])
        await session.run("hello")
    assert [(s.attributes or {}).get("error.type") for s in program.spans()] == ["unsent", None]


async def test_contents_are_there_when_asked_for_and_without_secrets(program: Program) -> None:
    async with observed(program, echo, content=True) as (session, _):
        await session.run("use password=hunter22 here")
    known = program.spans()[0].attributes or {}
    for name in ("gen_ai.input.messages", "gen_ai.output.messages"):
        [message] = msgspec.json.decode(str(known[name]))
        assert message["parts"][0]["content"] == "use password=[redacted] here"


async def test_a_content_function_that_fails_does_not_harm_the_session(program: Program) -> None:
    def broken(text: str) -> str:
        raise RuntimeError("no")

    async with observed(program, echo, content=broken) as (session, _):
        assert (await session.run("hello")).text == "hello"


async def test_a_stored_session_is_seen_as_any_other(program: Program, tmp_path: Path) -> None:
    async with (
        agentrt.store.open_store(tmp_path / "s.db") as store,
        observed(program, echo, store=store) as (session, agents),
    ):
        await session.run("hello")
        assert agents.sent("session/prompt")[0]["params"]["_meta"]["traceparent"]
    assert program.tree() == {"invoke_agent fake": {}}


@pytest.mark.slow
async def test_a_runtime_gives_it_to_all_its_sessions(program: Program, tmp_path: Path) -> None:
    telemetry = agentrt.telemetry.OpenTelemetry(tracer_provider=program.provider)
    with trio.fail_after(PATIENCE):
        async with agentrt.open_runtime(telemetry=telemetry) as runtime:
            session = await runtime.create("demo", cwd=tmp_path)
            await session.run("hello")
    assert list(program.tree()) == ["invoke_agent demo"]


@pytest.mark.parametrize("wrong", [True, agentrt.telemetry.OpenTelemetry, "otel", [1]])
async def test_what_is_no_telemetry_is_refused_where_it_is_given(wrong: Any) -> None:
    with pytest.raises(TypeError, match="telemetry must be an OpenTelemetry or Metrics"):
        async with agentrt.open_session("demo", telemetry=wrong):
            pass


@pytest.mark.slow
def test_a_server_s_spans_go_where_opentelemetry_s_variables_say(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    port, collecting = free_port(), free_port()
    requests: list[Any] = []

    async def client() -> None:
        with trio.fail_after(PATIENCE):
            async with Collector.listening(collecting) as collector:
                await until_listening(port)
                async with line(port, TOKEN) as it:
                    session = str((await it.ok("session", op="new", agent="demo"))["session"])
                    await it.attach(session)
                    await it.prompt(session, "hello")
                    while not collector.requests:  # noqa: ASYNC110
                        await trio.sleep(0.01)
                requests.extend(collector.requests)

    for name, value in {
        "HOME": str(tmp_path),
        "AGENTRT_SERVE_TOKEN": TOKEN,
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collecting}",
        "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "true",
        "OTEL_BSP_SCHEDULE_DELAY": "20",
    }.items():
        monkeypatch.setenv(name, value)
    given = ["--otel", "--store", "off", "--cwd", str(tmp_path)]
    with scripted_agents({"demo": says("hello")}):
        main_beside(["serve", "--port", str(port), *given], client)
    [request] = requests
    [resource] = request.resource_spans
    named = {a.key: a.value.string_value for a in resource.resource.attributes}
    assert named["service.name"] == "agentrt"
    [span] = resource.scope_spans[0].spans
    known = {a.key: a.value.string_value for a in span.attributes}
    assert "hello" in known["gen_ai.input.messages"]


def test_the_setting_is_a_flag_a_variable_and_a_line_of_the_file(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path)}
    assert not load_config(tmp_path, home).serve.otel
    assert load_config(tmp_path, home | {"AGENTRT_SERVE_OTEL": "true"}).serve.otel
    assert help_on(["serve", "--otel"]).startswith("usage: agentrt serve ")


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "agentrt._core.telemetry.tracing", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(agentrt.AgentrtError, match=r'pip install "agentrt\[otel\]"'):
        agentrt.telemetry.OpenTelemetry()


async def test_a_tool_of_a_lent_server_runs_in_the_span_of_its_call(program: Program) -> None:
    server = MCPServer("outcomes", log_level="WARNING")

    @server.tool()
    async def store(summary: str) -> str:
        with program.tracer.start_as_current_span("INSERT"):
            return agentrt.telemetry.log_context()["turn"]

    async def script(agent: FakeAgent) -> None:
        assert isinstance(agent, FakeClaudeAgent)
        async for prompt in agent.prompts:
            agent.use("c1", "", name="mcp__outcomes__store", summary="x")
            client = {"name": "fake", "version": "0"}
            hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
            named = {"claudecode/toolUseId": "c1"}
            call = {"name": "store", "arguments": {"summary": "x"}, "_meta": named}
            for id, method, params in ((1, "initialize", hello), (2, "tools/call", call)):
                message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
                answer = await agent.request("mcp_message", server_name="outcomes", message=message)
            result = answer["response"]["mcp_response"]["result"]
            agent.used("c1", result["content"][0]["text"])
            agent.say(result["content"][0]["text"])
            prompt.end()

    telemetry = agentrt.telemetry.OpenTelemetry(tracer_provider=program.provider)
    with scripted_agents({"claude": script}):
        async with agentrt.open_session("claude", tools=server, telemetry=telemetry) as session:
            result = await session.run("go")
            [turn] = session.snapshot().turns
    assert program.tree() == {
        "invoke_agent claude": {"execute_tool mcp__outcomes__store": {"INSERT": {}}}
    }
    assert result.text == turn.id
