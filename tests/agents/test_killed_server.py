"""`agentrt serve` is killed and started again, and the real agent's conversation goes on."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest
import trio

from agentrt import AgentStartError, open_session
from agentrt.events import plain_text
from agentrt.store import open_store, reopen_session
from faults.quick import FULL
from web.killable import KilledServer, SeenView, Tab, killed_server, standing_for
from web.socket_tab import text

from .expectations import EXPECTATIONS
from .lab import Asked, Lab, prepare
from .story import agent_of, running
from .test_scenarios import HELLO, SLEEP
from .versions import agents_root

pytestmark = [pytest.mark.real_agent, pytest.mark.parametrize("agent", EXPECTATIONS)]

PATIENCE = 150.0
"""Seconds for a whole scenario, with two servers and two processes of a slow agent."""


@dataclass
class Host:
    """A server with one session of the lab's agent, and a client that looks at it."""

    lab: Lab
    server: KilledServer
    tab: Tab
    session: str

    @property
    def view(self) -> SeenView:
        return self.tab.view(self.session)

    async def prompt(self, words: str) -> None:
        """Until it is accepted."""
        answer = await self.tab.ask("prompt", session=self.session, content=text(words))
        await self.tab.until(lambda: self.view.seq >= answer["seq"])

    async def answer(self, words: str) -> str:
        """Prompt, and allow nothing; the text of the turn."""
        turns = len(self.view.shown["turns"])
        await self.prompt(words)
        await self.tab.until(lambda: len(self.view.shown["turns"]) > turns and not self.view.busy)
        return self.view.texts()[-1]

    async def asked(self, *before: str) -> str:
        """The question that is open, when there is one that is none of those `before`."""
        await self.tab.until(lambda: self.view.shown["permissions"].keys() - {*before})
        [request] = self.view.shown["permissions"].keys() - {*before}
        return str(request)

    async def decide(self, request: str, option: str, **more: str) -> None:
        session = self.session
        await self.tab.ask("permission", session=session, request=request, option=option, **more)

    async def working(self) -> None:
        """Allow what is asked until the agent's command runs."""
        while not running(self.lab, SLEEP):
            for request in list(self.view.shown["permissions"]):
                await self.decide(request, "allow_once")
            await trio.sleep(0.1)  # what another process does sends no event

    async def kill(self) -> None:
        """Kill the server, and start the next one: perhaps while the agent is being ended."""
        if EXPECTATIONS[self.lab.agent].remembers_after_kill is None:
            await trio.sleep(61 - time.time() % 60)  # else it loses what has just begun
        greeting = self.tab.client.ready
        await self.server.kill()
        await self.tab.until(lambda: self.tab.client.ready is not greeting)

    def notices(self, code: str) -> list[dict[str, object]]:
        events = [event for _, event in self.view.seen.values()]
        return [e for e in events if e["kind"] == "notice" and e["code"] == code]


@asynccontextmanager
async def hosted(lab: Lab) -> AsyncIterator[Host]:
    """Behind the block, all that the client has seen is stored, and no prompt was shown twice."""
    folder = lab.home / ".config" / "agentrt"
    folder.mkdir(parents=True, exist_ok=True)
    command = json.dumps(lab.argv)
    trusted = f"trusted = [{json.dumps(str(lab.work))}]\n"
    (folder / "config.toml").write_text(f"{trusted}[agents.{lab.agent}]\ncommand = {command}\n")
    with trio.fail_after(PATIENCE):
        async with killed_server(lab.work, lab.env) as server, trio.open_nursery() as nursery:
            tab = Tab("a-client", server.port)
            await nursery.start(tab.run)
            answer = await tab.ask("session", op="new", agent=lab.agent, cwd=str(lab.work))
            host = Host(lab, server, tab, answer["session"])
            tab.watch(host.session)
            await tab.until(lambda: host.view.shown)
            yield host
            nursery.cancel_scope.cancel()
        async with open_store(lab.home / ".local/state/agentrt/journal.db") as store:
            events = dict(await store.events(host.session))
            snapshot = await store.snapshot(host.session)
    stored = {seq: msgspec.json.decode(msgspec.json.encode(e)) for seq, e in events.items()}
    for seq, (since, event) in host.view.seen.items():
        assert standing_for(stored, since, seq) == event
        prompts = Counter(
            plain_text(item.content) for item in snapshot.items if item.type == "user"
        )
    assert max(prompts.values()) == 1


def quick(lab: Lab) -> None:
    if not FULL and EXPECTATIONS[lab.agent].remembers_after_kill is None:
        pytest.skip("waits for the minute to end: AGENTRT_FULL=1")


def asked_for(lab: Lab, marker: str) -> list[Asked]:
    return [ask for ask in lab.model.asks() if ask.marker == marker]


async def remembered(host: Host, *before: str) -> None:
    """Prompt behind a kill: the model is shown what was said before."""
    assert "Another answer." in await host.answer("Please [[again]]")
    [restarted] = host.notices("agent_restarted")
    assert restarted["data"] == {"resumed": True}
    [asked, *_] = asked_for(host.lab, "[[again]]")  # some think of what might be asked next
    assert asked.history == [*before, "[[again]]"]


async def test_the_model_sees_what_was_said_before_the_server_was_killed(lab: Lab) -> None:
    async with hosted(lab) as host:
        assert HELLO in await host.answer("Please [[text]]")
        await host.kill()
        await remembered(host, "[[text]]")
        assert len(asked_for(lab, "[[text]]")) == 1


async def test_a_turn_that_the_kill_ended_is_not_begun_again(lab: Lab) -> None:
    quick(lab)
    async with hosted(lab) as host:
        await host.prompt("Please [[sleep]]")
        await host.working()
        begun = [ask for ask in asked_for(lab, "[[sleep]]") if ask.turn == 0]
        await host.kill()
        await remembered(host, "[[sleep]]")
        assert [ask for ask in asked_for(lab, "[[sleep]]") if ask.turn == 0] == begun
        first, second = host.view.shown["turns"].values()
        assert (first["outcome"], first["error"]["code"]) == ("agent_died", "interrupted")
        assert second["outcome"] == "completed"
        assert host.view.tools()[0] == ("orphaned", "agent")


@pytest.mark.parametrize("kind", ["allow_once", "reject_once"])
async def test_a_question_is_answered_behind_the_kill_and_what_is_asked_again_decided_again(
    lab: Lab, kind: str
) -> None:
    quick(lab)
    result = lab.work / "ran.txt"
    async with hosted(lab) as host:
        await host.prompt("Please [[shell]]")
        first = await host.asked()
        await host.kill()
        question = await host.asked(first)
        assert host.view.shown["permissions"][question]["orphaned"]
        await host.decide(question, kind, note="Please [[shell]]")  # the model asks again
        again = await host.asked(question)
        assert not result.exists()
        await host.decide(again, kind)
        await host.tab.until(lambda: not host.view.busy)
        assert result.exists() == (kind == "allow_once")
        [restarted] = host.notices("agent_restarted")
        assert restarted["data"] == {"resumed": True}
        _, told = (i for i in host.view.shown["items"].values() if i["type"] == "user")
        assert told["content"][0]["text"].startswith("[agentrt] ")


async def test_an_agent_that_has_lost_the_conversation_is_told_what_was_said(
    lab: Lab, tmp_path: Path
) -> None:
    with trio.fail_after(PATIENCE):
        async with open_store(tmp_path / "kept.db") as store:
            agent = agent_of(lab)
            async with open_session(
                agent, cwd=lab.work, env=lab.env, trust="yes", store=store
            ) as session:
                await session.run("Please [[text]]")
            (tmp_path / "elsewhere").mkdir()
            other = prepare(lab.agent, lab.model, agents_root(), tmp_path / "elsewhere")
            async with reopen_session(
                session.id, store, agent=agent, env=other.env, trust="yes"
            ) as session:
                if not EXPECTATIONS[lab.agent].says_what_it_lost:
                    with pytest.raises(AgentStartError):  # it may still be there
                        await session.run("Please [[again]]")
                    return
                told = session.subscribe()
                session.send_history()
                await session.run("Please [[again]]")
            restarted = [e async for e in told if getattr(e, "code", "") == "agent_restarted"]
    assert [notice.data for notice in restarted] == [{"resumed": False}]
    assert asked_for(lab, "[[again]]")[-1].history == ["[[text]]", "[[again]]"]
