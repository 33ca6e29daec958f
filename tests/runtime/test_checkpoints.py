"""Every public async function is a checkpoint: it lets others run, and notices a cancelled scope.

The functions are found here by themselves: one without an entry in `CALLS` fails the first test.
Two things are judged as a whole. A block (`async with`) is one function: Trio asks for a checkpoint
at its entry or its exit. An iterator that has events hands over some without letting others run,
since a step of the scheduler costs ten times the event: but each step, also the one that finds the
end, notices a cancelled scope, and others run at least once in a millisecond of the reader's own
computing, and once in four by the clock.
"""

from __future__ import annotations

import inspect
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import trio
from fakes import Incarnations, asking, echo, obedient, session_with
from test_claude_control import controlled
from trio.testing import assert_checkpoints

import agentrt
from agentrt.agents import BUILT_IN
from agentrt.lowlevel import Flush, FlushPart
from agentrt.store import SessionDescription, SessionRow
from agentrt.testing import FakeAcpAgent, open_fake_runtime
from public import HOMES, PUBLIC

pytestmark = pytest.mark.usefixtures("forked_demo")

Call: TypeAlias = Callable[[Path], Awaitable[None]]
CALLS: list[tuple[str, Call]] = []
"""The public function, and something that calls it inside `assert_checkpoints`."""


def calls(function: str) -> Callable[[Call], Call]:
    def add(call: Call) -> Call:
        CALLS.append((function, call))
        return call

    return add


def found() -> Iterator[str]:
    """The names of all public async functions."""
    for name, value in PUBLIC.items():
        if HOMES.get(name) in ("hosting", "process", "storage"):
            continue  # for authors of servers and tools
        if isinstance(value, type) and not getattr(value, "_is_protocol", False):
            for part, method in inspect.getmembers(value):
                whole = part in ("__aenter__", "__aexit__", "__anext__")
                if (whole or not part.startswith("_")) and is_async(method):
                    yield f"{name}.{part}"
        elif not isinstance(value, type) and is_async(value):
            yield name


def is_async(function: Any) -> bool:
    inner = inspect.unwrap(function) if callable(function) else function
    return inspect.iscoroutinefunction(inner) or inspect.isasyncgenfunction(inner)


def test_every_public_async_function_is_tried() -> None:
    assert sorted(set(found())) == sorted({name for name, _ in CALLS})


async def block_is_checkpoint(block: AbstractAsyncContextManager[object]) -> None:
    """Both its entry and its exit."""
    with assert_checkpoints():
        await block.__aenter__()
    with assert_checkpoints():
        await block.__aexit__(None, None, None)


# --- functions


@calls("agent_version")
async def a_version(_: Path) -> None:
    with assert_checkpoints():
        assert await agentrt.agents.agent_version(BUILT_IN["demo"]) is not None


@calls("agent_version")
async def a_version_that_no_program_tells(_: Path) -> None:
    with assert_checkpoints():
        await agentrt.agents.agent_version(agentrt.Agent(name="x", command=("x",), version_args=()))


@calls("agent_version")
async def a_version_of_a_program_that_is_not_there(_: Path) -> None:
    with assert_checkpoints():
        await agentrt.agents.agent_version(agentrt.agents.acp("/nowhere/x"))


@calls("open_session")
async def opening_a_session(folder: Path) -> None:
    await block_is_checkpoint(agentrt.open_session("demo", cwd=folder))


@calls("query")
async def asking_once(folder: Path) -> None:
    await block_is_checkpoint(agentrt.query("hello", agent="demo", cwd=folder))


@calls("open_runtime")
async def opening_a_runtime(_: Path) -> None:
    await block_is_checkpoint(agentrt.open_runtime())


@calls("open_trace")
async def opening_a_trace(folder: Path) -> None:
    await block_is_checkpoint(agentrt.tracing.open_trace(folder / "t"))


@calls("Trace.flush")
async def having_a_trace_written(folder: Path) -> None:
    async with agentrt.tracing.open_trace(folder / "t") as trace:
        with assert_checkpoints():
            await trace.flush()


@calls("WireSubscription.__anext__")
async def following_the_wire(_: Path) -> None:
    async with session_with(echo) as (session, _):
        wire = session.wire()
        await session.run("hello")
        with assert_checkpoints():
            await anext(wire)


@calls("TraceSubscription.__anext__")
async def following_a_trace(_: Path) -> None:
    async with session_with(echo) as (session, _):
        trace = session.trace()
        await session.run("hello")
        with assert_checkpoints():
            await anext(trace)
    while True:
        try:
            with assert_checkpoints():
                await anext(trace)
        except StopAsyncIteration:
            break


@calls("serve")
async def serving(_: Path) -> None:
    async with open_fake_runtime({}) as runtime, trio.open_nursery() as nursery:

        async def serve(  # noqa: ASYNC128 - what it calls does
            task_status: trio.TaskStatus[agentrt.web.Site],
        ) -> None:
            with assert_checkpoints():
                await agentrt.web.serve(runtime, task_status=task_status)

        await nursery.start(serve)
        nursery.cancel_scope.cancel()


@calls("Site.link_used")
async def waiting_for_a_browser(_: Path) -> None:
    async with open_fake_runtime({}) as runtime, trio.open_nursery() as nursery:
        site = await nursery.start(agentrt.web.serve, runtime)
        with assert_checkpoints(), trio.move_on_after(0.01):
            await site.link_used()
        nursery.cancel_scope.cancel()


# --- what Claude Code has stored


@calls("ClaudeSessions.list")
async def listing_what_is_stored(folder: Path) -> None:
    with assert_checkpoints():
        assert await agentrt.claude.ClaudeSessions(folder).list() == []


@calls("ClaudeSessions.read")
async def reading_what_is_stored(folder: Path) -> None:
    with assert_checkpoints(), pytest.raises(agentrt.errors.SessionNotFound):
        await agentrt.claude.ClaudeSessions(folder).read("x")


@calls("ClaudeSessions.delete")
async def deleting_what_is_stored(folder: Path) -> None:
    with assert_checkpoints(), pytest.raises(agentrt.errors.SessionNotFound):
        await agentrt.claude.ClaudeSessions(folder).delete("x")


# --- a runtime


@calls("Runtime.create")
@calls("Runtime.close")
async def creating_and_closing(_: Path) -> None:
    async with open_fake_runtime({"fake": Incarnations(echo).start}) as runtime:
        with assert_checkpoints():
            session = await runtime.create("fake")
        with assert_checkpoints():
            await runtime.close(session.id)


@calls("Runtime.drain")
async def draining(_: Path) -> None:
    async with open_fake_runtime({"fake": Incarnations(echo).start}) as runtime:
        await runtime.create("fake")
        with assert_checkpoints():
            await runtime.drain()
        assert runtime.list_open() == []
        with assert_checkpoints():
            await runtime.drain()


@calls("Runtime.fork")
async def forking(_: Path) -> None:
    can = {"sessionCapabilities": {"fork": {}}}
    async with open_fake_runtime({"fake": Incarnations(echo, capabilities=can).start}) as runtime:
        session = await runtime.create("fake")
        await session.run("hello")
        with assert_checkpoints():
            await runtime.fork(session.id)


@calls("Runtime.load")
async def loading_one_that_is_not_there_and_one_that_is(_: Path) -> None:
    start = Incarnations(echo, capabilities={"loadSession": True}).start
    async with open_fake_runtime({"fake": start}) as runtime:
        with assert_checkpoints():
            session = await runtime.load("fake", "theirs")
        with assert_checkpoints():
            assert await runtime.load("fake", "theirs") is session


# --- a store


@calls("open_store")
async def opening_a_store(tmp_path: Path) -> None:
    await block_is_checkpoint(agentrt.store.open_store(tmp_path / "sessions.db"))


@calls("Store.sessions")
@calls("Store.snapshot")
@calls("Store.events")
@calls("Store.find")
@calls("Store.search")
@calls("Store.delete")
async def a_stored_session(tmp_path: Path) -> None:
    with agentrt.storage.writing(tmp_path / "sessions.db") as backend:
        about = SessionDescription(agent="demo", protocol="acp", cwd="/")
        row = SessionRow(title=None, prompt="hello", phase="idle", turns=1, about=about)
        backend.commit(Flush([FlushPart(backend.create("s", "e", about), 1, [], row)]))
    async with agentrt.store.open_store(tmp_path / "sessions.db") as store:
        with assert_checkpoints():
            await store.sessions()
        with assert_checkpoints():
            await store.snapshot("s")
        with assert_checkpoints():
            await store.events("s")
        with assert_checkpoints():
            await store.find("s")
        with assert_checkpoints():
            await store.search("word")
        with assert_checkpoints():
            await store.delete("s")


@calls("Runtime.reopen")
@calls("Runtime.read")
@calls("Runtime.delete")
async def a_stored_session_of_a_runtime(tmp_path: Path) -> None:
    async with (
        agentrt.store.open_store(tmp_path / "sessions.db") as store,
        open_fake_runtime({"fake": Incarnations(echo).start}, store=store) as runtime,
    ):
        session = await runtime.create("fake")
        await session.run("hello")
        with assert_checkpoints():
            await runtime.find(session.id)
        with assert_checkpoints():
            await runtime.read(session.id)
        with assert_checkpoints():
            await runtime.follow(session.id, lambda: None)
        with assert_checkpoints():
            assert await runtime.reopen(session.id) is session
        await runtime.close(session.id)
        with assert_checkpoints():
            await runtime.read(session.id)
        with assert_checkpoints():
            await runtime.reopen(session.id)
        await runtime.close(session.id)
        with assert_checkpoints():
            await runtime.delete(session.id)


@calls("reopen_session")
async def going_on_with_a_session(tmp_path: Path) -> None:
    async with agentrt.store.open_store(tmp_path / "sessions.db") as store:
        opened = agentrt.open_session("demo", cwd=tmp_path, store=store)
        with assert_checkpoints():
            session = await opened.__aenter__()
        await session.run("hello")
        with assert_checkpoints():
            await opened.__aexit__(None, None, None)
        await block_is_checkpoint(agentrt.store.reopen_session(session.id, store))


# --- a session


@calls("Session.run")
async def running_a_prompt(_: Path) -> None:
    async with session_with(echo) as (session, _incarnations):
        for _again in range(2):
            with assert_checkpoints():
                await session.run("hello")


SETTINGS = {
    "modes": {"currentModeId": "a", "availableModes": [{"id": "a", "name": "A"}]},
    "models": {"currentModelId": "m", "availableModels": [{"modelId": "m", "name": "M"}]},
    "configOptions": [
        {
            "id": "o",
            "name": "O",
            "type": "select",
            "currentValue": "v",
            "options": [{"value": "v", "name": "V"}],
        }
    ],
}


async def answering(agent: FakeAcpAgent) -> None:
    """Says yes to every request until it hears no more."""

    async def answer() -> None:
        async for request in agent.requests:
            setting = request["method"].startswith("session/set_")
            result = {"configOptions": SETTINGS["configOptions"]} if setting else {}
            agent.result(request["id"], result)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(answer)
        async for _prompt in agent.prompts:
            pass
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def with_settings(*, runs: bool) -> AsyncIterator[agentrt.Session]:
    fake = {"new_session": SETTINGS, "answers": ["_own/method"]}
    async with session_with(answering, fake=fake) as (session, incarnations):
        if not runs:
            incarnations.processes[0].exit(1)
            while session.agent.alive:  # noqa: ASYNC110 - no event of ours
                await trio.lowlevel.checkpoint()
        yield session


@pytest.mark.parametrize("runs", [True, False])
@pytest.mark.parametrize(
    ("name", "arguments"), [("mode", ["a"]), ("model", ["m"]), ("option", ["o", "v"])]
)
async def test_a_setting_is_a_checkpoint(name: str, arguments: list[str], runs: bool) -> None:
    async with with_settings(runs=runs) as session:
        with assert_checkpoints():
            await getattr(session, f"set_{name}")(*arguments)


@calls("Session.set_mode")
@calls("Session.set_model")
@calls("Session.set_option")
@calls("Session.call")
async def asking_the_agent(_: Path) -> None:
    async with with_settings(runs=True) as session:
        with assert_checkpoints():
            await session.set_mode("a")
        with assert_checkpoints():
            await session.set_model("m")
        with assert_checkpoints():
            await session.set_option("o", "v")
        with assert_checkpoints():
            await session.call("_own/method")


@calls("Session.list_providers")
@calls("Session.set_provider")
async def choosing_the_service_of_a_model(_: Path) -> None:
    setting = agentrt.agents.ProviderSetting(
        id="main", api_type="openai", base_url="https://models.example"
    )
    async with session_with(echo) as (session, _incarnations):
        with assert_checkpoints(), pytest.raises(agentrt.errors.RequestError):
            await session.list_providers()
        with assert_checkpoints(), pytest.raises(agentrt.errors.RequestError):
            await session.set_provider(setting)


@calls("Session.logout")
async def forgetting_who_is_logged_in(_: Path) -> None:
    async with session_with(echo) as (session, _incarnations):
        with assert_checkpoints(), pytest.raises(agentrt.errors.RequestError):
            await session.logout()


@calls("ClaudeControl.add_folder")
@calls("ClaudeControl.context_usage")
@calls("ClaudeControl.mcp_servers")
@calls("ClaudeControl.reconnect_mcp_server")
@calls("ClaudeControl.rename")
@calls("ClaudeControl.rewind_files")
@calls("ClaudeControl.send_to_background")
@calls("ClaudeControl.set_max_thinking_tokens")
@calls("ClaudeControl.set_mcp_servers")
@calls("ClaudeControl.task_output")
@calls("ClaudeControl.toggle_mcp_server")
async def asking_claude(folder: Path) -> None:
    async with controlled(folder) as (claude, _asked):
        for answered in (
            claude.add_folder(folder),
            claude.context_usage(),
            claude.mcp_servers(),
            claude.rename("x"),
            claude.send_to_background(),
            claude.set_max_thinking_tokens(None),
            claude.set_mcp_servers({}),
            claude.task_output("x"),
            claude.toggle_mcp_server("x", enabled=True),
        ):
            with assert_checkpoints():
                await answered
        for refused in (claude.reconnect_mcp_server("x"), claude.rewind_files("x")):
            with assert_checkpoints(), pytest.raises(agentrt.errors.RequestError):
                await refused


@calls("Session.stop_task")
async def stopping_what_cannot_be_stopped(_: Path) -> None:
    async with session_with(echo) as (session, _incarnations):
        with assert_checkpoints(), pytest.raises(agentrt.AgentrtError):
            await session.stop_task("t1")


@calls("Session.list_sessions")
@calls("Session.delete_session")
async def asking_for_what_the_agent_keeps(_: Path) -> None:
    can = {"sessionCapabilities": {"list": {}, "delete": {}}}
    async with session_with(keeping, fake={"capabilities": can}) as (session, _incarnations):
        with assert_checkpoints():
            assert await session.list_sessions() == []
        with assert_checkpoints():
            await session.delete_session("other")


async def keeping(agent: FakeAcpAgent) -> None:
    """Keeps no sessions, and deletes any."""
    async for request in agent.requests:
        agent.result(request["id"], {"sessions": []})


@calls("list_sessions")
@calls("delete_session")
async def asking_for_what_an_agent_keeps(folder: Path) -> None:
    command = [sys.executable, "-m", "agentrt.demo"]
    demo = agentrt.agents.acp(command, env={"XDG_STATE_HOME": str(folder)})
    with assert_checkpoints():
        assert await agentrt.agents.list_sessions(demo) == []
    with assert_checkpoints(), pytest.raises(agentrt.errors.SessionNotFound):
        await agentrt.agents.delete_session(demo, "nobody's")


@calls("Session.wait_idle")
async def waiting_for_rest(_: Path) -> None:
    async with session_with(echo) as (session, _incarnations):
        with assert_checkpoints():
            await session.wait_idle()
        session.submit("hello")
        with assert_checkpoints():
            await session.wait_idle()


@calls("Session.full_snapshot")
async def a_snapshot_in_steps(_: Path) -> None:
    async with session_with(echo) as (session, _incarnations):
        with assert_checkpoints():
            assert await session.full_snapshot() == session.snapshot()


@calls("RecentWire.listen")
async def listening_to_the_wire(_: Path) -> None:
    async with session_with(echo) as (session, _agents):
        wire = agentrt.tracing.RecentWire(session.trace())
    with assert_checkpoints():
        await wire.listen()


@calls("run_in_sandbox")
async def running_in_a_sandbox(folder: Path) -> None:
    with assert_checkpoints():
        try:
            await agentrt.sandbox.run_in_sandbox(["true"], cwd=folder)
        except agentrt.errors.SandboxUnavailable:
            await trio.lowlevel.checkpoint()  # this machine has none


@calls("SandboxStatus.revoke")
async def taking_a_permission_back(folder: Path) -> None:
    program = Path(__file__).parents[1] / "sandbox" / "shell_agent.py"
    agent = agentrt.agents.acp([sys.executable, "-I", "-S", str(program)])
    try:
        async with agentrt.open_session(agent, cwd=folder, sandbox="workspace") as session:
            assert session.sandbox is not None
            with assert_checkpoints(), pytest.raises(agentrt.LocalProtocolError):
                await session.sandbox.revoke("a.example:443")
    except agentrt.errors.SandboxUnavailable:
        return  # this machine has none


@calls("open_worktree")
@calls("Worktree.changes")
@calls("Worktree.apply")
@calls("Worktree.branch")
@calls("Worktree.bring_back")
async def a_worktree(folder: Path) -> None:
    for words in ("init -q", "-c user.name=a -c user.email=a@b commit -q --allow-empty -m x"):
        await trio.run_process(["git", *words.split()], cwd=folder)
    await block_is_checkpoint(agentrt.unattended.open_worktree(folder))
    async with agentrt.unattended.open_worktree(folder) as worktree:
        with assert_checkpoints():
            assert await worktree.changes() == []
        with assert_checkpoints():
            assert await worktree.apply() == []
        with assert_checkpoints():
            assert await worktree.branch("tried") == "tried"
        with assert_checkpoints():
            await worktree.bring_back()


@calls("SessionCheckpoints.list")
@calls("SessionCheckpoints.diff")
@calls("SessionCheckpoints.diff_turns")
@calls("SessionCheckpoints.restore")
@calls("SessionCheckpoints.undo")
async def saved_files(folder: Path) -> None:
    project = folder / "project"
    project.mkdir()
    (project / "a").write_text("a")
    async with session_with(echo, cwd=str(project), checkpoints=True) as (session, _incarnations):
        await session.run("hello")
        checkpoints = session.checkpoints
        with assert_checkpoints():
            [before] = await checkpoints.list()
        with assert_checkpoints():
            assert await checkpoints.diff(before.number) == ""
        with assert_checkpoints():
            assert await checkpoints.diff_turns() == ""
        with assert_checkpoints():
            await checkpoints.restore(before.number)
        with assert_checkpoints():
            await checkpoints.undo()


@calls("Session.aclose")
async def closing_twice(_: Path) -> None:
    async with session_with(echo) as (session, _incarnations):
        for _again in range(2):
            with assert_checkpoints():
                await session.aclose()


# --- turns and iterators


@calls("Turn.__aenter__")
@calls("Turn.__aexit__")
async def a_turn_s_block(_: Path) -> None:
    async with session_with(echo, obedient) as (session, _incarnations):
        for _again in range(2):
            with assert_checkpoints():
                async with session.prompt("hello"):
                    pass
        with assert_checkpoints():
            async with session.prompt("hello") as turn:
                turn.cancel()


@calls("Turn.__aenter__")
async def a_turn_s_block_with_a_question(_: Path) -> None:
    async with session_with(asking) as (session, _incarnations):
        turn = session.prompt("hello")
        await turn.__aenter__()
        while not session.pending_permissions:  # noqa: ASYNC110 - no event of ours
            await trio.lowlevel.checkpoint()
        with assert_checkpoints():
            await turn.__aexit__(None, None, None)


@calls("Turn.__anext__")
async def a_turn_s_events(_: Path) -> None:
    async with session_with(echo) as (session, _incarnations), session.prompt("hello") as turn:
        with assert_checkpoints():
            async for _event in turn:
                pass
        for _again in range(2):
            with assert_checkpoints(), pytest.raises(StopAsyncIteration):
                await turn.__anext__()


@calls("Subscription.__anext__")
async def a_subscription_s_events(_: Path) -> None:
    async with session_with(echo) as (session, _incarnations):
        with session.subscribe() as events, assert_checkpoints(), trio.move_on_after(0):
            await events.__anext__()
        events = session.subscribe()
        await session.run("hello")
        await session.aclose()
        with assert_checkpoints():
            async for _event in events:
                pass
        for _again in range(2):
            with assert_checkpoints(), pytest.raises(StopAsyncIteration):
                await events.__anext__()


@calls("Query.__anext__")
async def a_query_s_events(folder: Path) -> None:
    async with agentrt.query("hello", agent="demo", cwd=folder) as events:
        with assert_checkpoints():
            async for _event in events:
                pass
        for _again in range(2):
            with assert_checkpoints(), pytest.raises(StopAsyncIteration):
                await events.__anext__()


# --- cancelled


async def test_a_cancelled_scope_is_noticed_whatever_is_called() -> None:
    """Closing is carried out all the same."""
    start = Incarnations(echo, capabilities={"loadSession": True}).start
    async with open_fake_runtime({"fake": start}) as runtime:
        session = await runtime.load("fake", "theirs")
        turn = session.prompt("hello")
        for attempt in (
            lambda: session.run("hello"),
            lambda: session.set_mode("a"),
            lambda: session.call("x"),
            lambda: session.wait_idle(),
            lambda: turn.__aenter__(),
            lambda: runtime.load("fake", "theirs"),
            lambda: runtime.create("fake"),
            lambda: session.aclose(),
            lambda: session.aclose(),
            lambda: runtime.close(session.id),
        ):
            with trio.CancelScope() as scope:
                scope.cancel()
                await attempt()
            assert scope.cancelled_caught, inspect.getsource(attempt)
        assert not session.log.state.turns
        assert session.state.phase == "closed"


# --- readers that always find more


MANY = 600


async def chatty(agent: FakeAcpAgent) -> None:
    """Says many words, each an item of its own, before anybody can read one, and goes on."""
    async for prompt in agent.prompts:
        for number in range(MANY):
            agent.update("tool_call", toolCallId=str(number), title="x")
        await prompt.cancelled.wait()
        prompt.end("cancelled")


@asynccontextmanager
async def readers(kind: str) -> AsyncIterator[AsyncIterator[agentrt.Event]]:
    """An iterator with many events to give."""
    async with session_with(chatty) as (session, _incarnations):
        if kind == "turn":
            async with session.prompt("go") as turn:
                await told(session)
                yield turn
                turn.cancel()
        else:
            events = session.subscribe()
            session.submit("go")
            await told(session)
            yield agentrt.Query(session, events) if kind == "query" else events
            session.cancel()


async def told(session: agentrt.Session) -> None:
    while len(session.log.state.items) < MANY:  # noqa: ASYNC110 - no event of ours
        await trio.sleep(0.001)


KINDS = ["turn", "subscription", "query"]


@pytest.mark.parametrize("kind", KINDS)
async def test_every_step_notices_a_cancelled_scope(kind: str) -> None:
    async with readers(kind) as events:
        for _again in range(20):
            with trio.CancelScope() as scope:
                await events.__anext__()
                scope.cancel()
                with pytest.raises(trio.Cancelled):
                    await events.__anext__()
                await trio.lowlevel.checkpoint()
            assert scope.cancelled_caught
        await events.__anext__()  # none of it was lost


@pytest.mark.parametrize("kind", KINDS)
async def test_a_slow_reader_is_left_at_its_deadline_and_others_run_beside_it(kind: str) -> None:
    """Counts, not times: a busy machine makes the reader slower, and so fewer."""
    ticks = read = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await trio.sleep(0.01)
            ticks += 1

    async with readers(kind) as events, trio.open_nursery() as nursery:
        nursery.start_soon(tick)
        with trio.move_on_after(0.2) as scope:
            async for _event in events:
                read += 1
                time.sleep(0.01)  # noqa: ASYNC251 - a reader that computes
        nursery.cancel_scope.cancel()
    assert scope.cancelled_caught
    # Each takes 10 ms, so that 20 fit into the scope; without a notice it would read them all.
    assert read <= 25
    assert 2 * (ticks + 1) >= read  # one may just have been waiting when the time was over


@pytest.mark.parametrize("kind", KINDS)
async def test_a_quick_reader_lets_others_run_after_a_millisecond_of_its_own_time(
    kind: str,
) -> None:
    def read() -> None:
        began_s = time.thread_time()
        while time.thread_time() - began_s < 0.0003:
            pass

    assert await handed_between(kind, read) <= 8  # twice, as in `handed_between`


@pytest.mark.parametrize("kind", KINDS)
async def test_other_processes_do_not_use_up_the_time_of_a_reader(
    kind: str, autojump_clock: trio.testing.MockClock
) -> None:
    """The time that passes between two events is not spent by the reader."""
    handed = await handed_between(kind, lambda: autojump_clock.jump(0.0003))
    assert 8 < handed <= 2 * 14


async def handed_between(kind: str, read: Callable[[], None]) -> int:
    """The most events that a reader is handed while others wait. `read` is called for each.

    That is up to twice what it may take: which task is first in a round is left to chance.
    """
    handed = 0
    between: list[int] = []

    async def beside() -> None:
        nonlocal handed
        while True:
            between.append(handed)
            handed = 0
            await trio.lowlevel.checkpoint()

    async with readers(kind) as events, trio.open_nursery() as nursery:
        nursery.start_soon(beside)
        for _again in range(500):
            await events.__anext__()
            handed += 1
            read()
        nursery.cancel_scope.cancel()
    return max(between)


# --- all of them


@pytest.mark.parametrize("call", [pytest.param(call, id=call.__name__) for _, call in CALLS])
async def test_it_is_a_checkpoint(call: Call, tmp_path: Path) -> None:
    with trio.fail_after(30):
        await call(tmp_path)
