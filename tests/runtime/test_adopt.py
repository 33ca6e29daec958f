"""A program's own sessions in a runtime: with all options of `open_session`, or adopted."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import trio
from fakes import Incarnations, asking, echo, obedient, session_with
from test_runtime import RESUMES, runtime_with
from trio.testing import MockClock

import agentrt
from agentrt.config import Config
from agentrt.testing import open_fake_runtime


async def test_an_option_of_one_session_takes_the_place_of_the_runtime_s(
    autojump_clock: MockClock,
) -> None:
    limits = agentrt.Limits(idle_timeout_s=7)
    async with runtime_with(asking, permissions=agentrt.allow_all) as (runtime, _):
        usual = await runtime.create("fake")
        own = await runtime.create("fake", permissions=agentrt.deny_all, limits=limits)
        assert (await usual.run("go")).text == "yes"
        assert (await own.run("go")).text == "no"
        assert own.limits.idle_timeout_s == 7


@pytest.mark.slow
async def test_a_real_session_of_a_runtime_gets_what_open_session_takes(tmp_path: Path) -> None:
    said: list[bytes] = []
    async with agentrt.open_runtime() as runtime:
        session = await runtime.create(
            "demo", cwd=tmp_path, roots=["/usr"], env={"PATH": "/bin"}, on_stderr=said.append
        )
        assert (await session.run("list the files")).outcome == "completed"
        [info] = runtime.list()
        assert info.cwd == str(tmp_path)
        with pytest.raises(TypeError, match="colour"):
            await runtime.create("demo", colour="red")  # type: ignore[call-arg]
        with pytest.raises(agentrt.LocalProtocolError, match="there is no folder"):
            await runtime.create("demo", roots=["/nowhere"])


async def test_a_conversation_is_resumed_once(autojump_clock: MockClock) -> None:
    async with runtime_with(echo, fake=RESUMES) as (runtime, agents):
        session = await runtime.create("fake", resume="earlier")
        with pytest.raises(agentrt.LocalProtocolError, match=f"{session.id}.*`load`"):
            await runtime.create("fake", resume="earlier")
        assert await runtime.load("fake", "earlier") is session
        assert len(agents.processes) == 1


async def test_an_adopted_session_is_listed_until_its_block_is_left(
    autojump_clock: MockClock,
) -> None:
    async with open_fake_runtime({}) as runtime:
        heard: list[int] = []
        runtime.listen(lambda: heard.append(len(runtime.list())))
        async with session_with(echo, cwd="/tmp") as (session, _):
            runtime.adopt(session)
            [info] = runtime.list()
            assert (info.session, info.agent, info.cwd) == (session.id, "fake", "/tmp")
            assert runtime.get(session.id) is session
            assert (await session.run("hello")).text == "hello"
        await trio.testing.wait_all_tasks_blocked()
        assert runtime.list() == []
        assert heard == [1, 0]


async def test_an_adopted_session_is_not_the_runtime_s_to_end(autojump_clock: MockClock) -> None:
    limits = agentrt.Limits(suspend_after_s=1, busy_silence_timeout_s=2)
    async with session_with(obedient, fake=RESUMES) as (session, agents):
        async with open_fake_runtime({}, limits=limits) as runtime:
            runtime.adopt(session)
            with pytest.raises(agentrt.LocalProtocolError, match="only the program can close it"):
                await runtime.close(session.id)
            async with session.prompt("work") as turn:
                await trio.sleep(10)  # silent for longer than `suspend` and `hang`
                assert runtime.cancel_all() == 1
            assert turn.result.outcome == "cancelled"
        assert session.state.phase == "idle"
        assert len(agents.processes) == 1


async def test_an_adopted_session_can_be_taken_out_again(autojump_clock: MockClock) -> None:
    async with open_fake_runtime({}) as runtime, session_with(echo) as (session, _):
        release = runtime.adopt(session)
        release()
        assert runtime.list() == []
        release()
        runtime.adopt(session)
        assert len(runtime.list()) == 1
        assert (await session.run("still here")).text == "still here"


@pytest.mark.slow
async def test_what_cannot_be_adopted_is_refused(autojump_clock: MockClock, tmp_path: Path) -> None:
    one = agentrt.Limits(open_sessions=1)
    async with (
        open_fake_runtime({"fake": Incarnations(echo).start}, limits=one) as runtime,
        session_with(echo) as (session, _),
    ):
        release = runtime.adopt(session)
        with pytest.raises(agentrt.LocalProtocolError, match="already"):
            runtime.adopt(session)
        async with session_with(echo, id="other") as (other, _):
            with pytest.raises(agentrt.errors.LimitExceeded):
                runtime.adopt(other)
        release()
        with pytest.raises(agentrt.SessionClosed):
            runtime.adopt(other)
        with pytest.raises(TypeError, match="not str"):
            runtime.adopt(session.id)  # type: ignore[arg-type]
        async with (
            agentrt.store.open_store(tmp_path / "other.db") as store,
            session_with(echo, id="kept", store=store) as (kept, _),
        ):
            with pytest.raises(agentrt.LocalProtocolError, match="another store"):
                runtime.adopt(kept)


async def test_an_adopted_session_that_is_stored_can_be_opened_again(tmp_path: Path) -> None:
    agents = Incarnations(echo, **RESUMES)
    async with (
        agentrt.store.open_store(tmp_path / "sessions.db") as store,
        open_fake_runtime({"fake": agents.start}, store=store) as runtime,
    ):
        async with session_with(echo, id="own", fake=RESUMES, store=store) as (session, _):
            runtime.adopt(session)
            await session.run("hello")
            gone = trio.Event()
            runtime.listen(gone.set)
        with trio.fail_after(20):
            await gone.wait()
        assert [info.phase for info in runtime.list()] == ["stored"]
        again = await runtime.reopen(session.id)
        assert (await again.run("again")).text == "again"


def demo(name: str) -> agentrt.Agent:
    """The built-in agent by another name; two may have the same one."""
    return agentrt.agents.acp([sys.executable, "-m", "agentrt.demo"], name=name)


@pytest.mark.slow
async def test_a_copy_is_made_by_the_agent_of_its_session_and_not_by_one_of_the_same_name(
    tmp_path: Path,
) -> None:
    broken = agentrt.agents.acp("/nowhere/at-all", name="mine")
    async with agentrt.open_runtime(config=Config(agents={"mine": broken})) as runtime:
        for agent in (demo("mine"), demo("in-no-catalogue")):
            session = await runtime.create(agent, cwd=tmp_path)
            await session.run("/title one")
            fork = await runtime.fork(session.id)
            assert fork.agent.name == agent.name
            assert (await fork.run("/title two")).outcome == "completed"
            assert [i.agent for i in runtime.list() if i.session == fork.id] == [agent.name]


@pytest.mark.slow
async def test_a_copy_of_a_program_s_own_session_has_what_that_was_opened_with(
    tmp_path: Path,
) -> None:
    called: list[str] = []
    asked: list[agentrt.PermissionRequest] = []

    @agentrt.tool
    async def record_result(summary: str) -> str:
        """Persist the final outcome of a job."""
        called.append(summary)
        return "recorded"

    def policy(request: agentrt.PermissionRequest) -> agentrt.permissions.Decision:
        asked.append(request)
        return agentrt.Allow()

    env = {**os.environ, "MARK": "of-the-program"}
    async with (
        agentrt.open_runtime(permissions=agentrt.deny_all) as runtime,
        agentrt.open_session(
            demo("mine"), cwd=tmp_path, tools=[record_result], permissions=policy, env=env
        ) as session,
    ):
        runtime.adopt(session)
        await session.run("/title one")
        fork = await runtime.fork(session.id)
        told = await fork.run("run printenv MARK")
        assert "of-the-program" in told.text
        assert len(asked) == 1
        await fork.run('/tool record_result {"summary": "done"}')
        assert called == ["done"]
        await runtime.close(fork.id)  # the copy is the runtime's
        assert [info.session for info in runtime.list()] == [session.id]


@pytest.mark.slow
async def test_a_copy_of_a_tenant_s_session_is_the_tenant_s_and_counts_as_one(
    tmp_path: Path,
) -> None:
    async with agentrt.open_runtime() as runtime:
        acme = runtime.of(agentrt.web.Tenant(name="acme", sessions=2))
        session = await acme.create("demo", cwd=tmp_path)
        await session.run("/title one")
        fork = await acme.fork(session.id)
        assert [info.session for info in acme.list()] == [session.id, fork.id]
        assert {info.tenant for info in runtime.list()} == {"acme"}
        for of in (acme, runtime):  # whoever makes it
            with pytest.raises(agentrt.errors.LimitExceeded, match="acme"):
                await of.fork(session.id)


async def test_a_tenant_is_shown_no_session_that_is_not_its_own(autojump_clock: MockClock) -> None:
    async with open_fake_runtime({}) as runtime, session_with(echo) as (session, _):
        acme = runtime.of(agentrt.web.Tenant(name="acme"))
        with pytest.raises(agentrt.LocalProtocolError, match="open it with tenant='acme'"):
            acme.adopt(session)
        assert runtime.list() == []
        runtime.adopt(session)
        with pytest.raises(agentrt.LocalProtocolError, match="is shown already"):
            acme.adopt(session)
        assert [info.session for info in runtime.list()] == [session.id]
