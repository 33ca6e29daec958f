"""A site as an agent that speaks version 2 of ACP."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from acp_kit import conforms, definitions
from hub_kit import Stage, stage_with, viewer_of
from trio.testing import MockClock

import agentrt
from agentrt import allow_all, ask, deny_all
from agentrt.testing import FakeAcpAgent
from runtime.fakes import asking, echo, obedient

VERSION_1 = Path(__file__).with_name("acp1.ndjson")
INFO = {"name": "client", "version": "1"}
START = {"protocolVersion": 2, "info": INFO, "capabilities": {"elicitation": {"form": {}}}}


class Client:
    """One connection. Every line that it gets is held against the schema."""

    def __init__(self, stage: Stage, version: int = 2) -> None:
        self.viewer = viewer_of(stage.hub, "/acp")
        self.version = version
        self.heard: list[dict[str, Any]] = []
        self._asked: dict[Any, str] = {}
        self._next = 0
        self.outcome: dict[str, Any] | None = {"outcome": "selected", "optionId": "yes"}
        """The answer to each permission request; None: the test answers."""

    async def read(self, until: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Read up to and including the first message that fits."""
        while True:
            message: dict[str, Any] = json.loads(await self.viewer.next_frame())
            self.heard.append(message)
            if self.version == 2:
                self._check(message)
            if message.get("method") == "session/request_permission" and self.outcome is not None:
                self.write(id=message["id"], result={"outcome": self.outcome})
            if until(message):
                return message

    def write(self, **message: Any) -> None:
        self.viewer.receive(json.dumps({"jsonrpc": "2.0", **message}))

    def request(self, method: str, **params: Any) -> int:
        self._next += 1
        self._asked[self._next] = method
        self.write(id=self._next, method=method, params=params)
        return self._next

    async def answer(self, id: int) -> dict[str, Any]:
        return await self.read(lambda message: message.get("id") == id and "method" not in message)

    async def ask(self, method: str, **params: Any) -> Any:
        answer = await self.answer(self.request(method, **params))
        return answer.get("result", answer.get("error"))

    async def idle(self) -> dict[str, Any]:
        """Wait for the end of a turn."""

        def ends(message: dict[str, Any]) -> bool:
            update = (message.get("params") or {}).get("update") or {}
            return update.get("state") == "idle" and "stopReason" in update

        update: dict[str, Any] = (await self.read(ends))["params"]["update"]
        return update

    def prompt(self, session: str, text: str) -> int:
        return self.request(
            "session/prompt", sessionId=session, prompt=[{"type": "text", "text": text}]
        )

    def updates(self) -> list[dict[str, Any]]:
        params = [message.get("params") or {} for message in self.heard]
        return [each["update"] for each in params if "update" in each]

    def states(self) -> list[str]:
        return [each["state"] for each in self.updates() if each["sessionUpdate"] == "state_update"]

    def _check(self, message: dict[str, Any]) -> None:
        method = message.get("method")
        if method is not None:
            kind = "Request" if "id" in message else "Notification"
            conforms(message["params"], "client", method, kind, 2)
        elif "result" in message:
            asked = self._asked[message["id"]]
            if ("agent", asked, "Response") in definitions(2):
                conforms(message["result"], "agent", asked, "Response", 2)


@asynccontextmanager
async def site(script: Any, **options: Any) -> AsyncIterator[Stage]:
    with trio.fail_after(3600):
        async with stage_with(script, **options) as stage:
            yield stage


async def opened(stage: Stage) -> tuple[Client, str]:
    client = Client(stage)
    await client.ask("initialize", **START)
    new = await client.ask("session/new", cwd="/", mcpServers=[])
    return client, new["sessionId"]


@pytest.mark.parametrize(
    ("params", "version"),
    [
        (START, 2),
        ({**START, "protocolVersion": 99}, 2),
        ({**START, "clientInfo": INFO, "clientCapabilities": {}}, 2),
        ({**START, "protocolVersion": 1}, 1),
        ({**START, "protocolVersion": "2"}, 1),
        ({**START, "protocolVersion": None}, 1),
        ({"protocolVersion": 0, "clientInfo": INFO}, 1),
        ({"protocolVersion": -1}, 1),
        ({"protocolVersion": 2, "clientInfo": INFO}, 1),
    ],
)
async def test_a_client_gets_the_version_that_it_asks_for(
    params: dict[str, Any], version: int
) -> None:
    async with site(echo) as stage:
        client = Client(stage, version)
        answer = await client.ask("initialize", **params)
        assert answer["protocolVersion"] == version
        assert ("info" in answer) == (version == 2)


@pytest.mark.parametrize("requested", [0, -1])
async def test_a_version_below_all_is_refused_with_those_that_are_supported(requested: int) -> None:
    async with site(echo) as stage:
        client = Client(stage, 1)
        refused = await client.ask("initialize", **{**START, "protocolVersion": requested})
        assert refused["code"] == -32022
        assert refused["data"] == {"requested": requested, "supported": [1, 2]}
        assert (await client.ask("initialize", **START))["protocolVersion"] == 2


async def test_version_2_refuses_a_second_initialize_and_an_id_that_it_does_not_know() -> None:
    async with site(echo) as stage:
        client = Client(stage)
        await client.ask("initialize", **START)
        assert (await client.ask("initialize", **START))["code"] == -32600
        for id in (None, 1.5):
            client.write(id=id, method="session/list", params={})
            refused = await client.read(lambda message: message.get("id", 0) is None)
            assert refused["error"]["code"] == -32600


async def test_a_prompt_is_answered_when_its_turn_starts_and_a_state_ends_it(
    autojump_clock: MockClock,
) -> None:
    async with site(echo) as stage:
        client, session = await opened(stage)
        id = client.prompt(session, "hello")
        assert (await client.idle())["stopReason"] == "end_turn"
        answer = next(each for each in client.heard if each.get("id") == id)
        kinds = [each["sessionUpdate"] for each in client.updates()]
        assert kinds == ["state_update", "user_message", "agent_message_chunk", "state_update"]
        message = client.updates()[1]
        assert message["messageId"] == answer["result"]["messageId"]
        assert message["content"] == [{"type": "text", "text": "hello"}]
        assert client.states() == ["running", "idle"]


async def test_a_waiting_prompt_is_answered_later_and_can_be_taken_back(
    autojump_clock: MockClock,
) -> None:
    async with site(obedient) as stage:
        client, session = await opened(stage)
        first = client.prompt(session, "one")
        await client.answer(first)
        second, third = client.prompt(session, "two"), client.prompt(session, "three")
        client.write(method="$/cancel_request", params={"requestId": second})
        assert (await client.answer(second))["error"]["code"] == -32800
        client.write(method="session/cancel", params={"sessionId": session})
        assert (await client.answer(third))["error"]["code"] == -32800
        if client.states()[-1] != "idle":
            await client.idle()
        assert client.updates()[-1]["stopReason"] == "cancelled"


async def test_the_end_of_a_cancelled_turn_names_its_origin(autojump_clock: MockClock) -> None:
    async with site(obedient) as stage:
        client, session = await opened(stage)
        await client.answer(client.prompt(session, "one"))
        client.write(method="session/cancel", params={"sessionId": session})
        await client.idle()
        [record] = stage.runtime.get(session).log.state.turns.values()
        assert (record.by, record.who) == ("user", "the server's token")
        assert record.via.startswith("acp")


async def test_a_waiting_prompt_is_refused_when_its_session_is_closed(
    autojump_clock: MockClock,
) -> None:
    async with site(obedient) as stage:
        client, session = await opened(stage)
        await client.answer(client.prompt(session, "one"))
        second = client.prompt(session, "two")
        close = client.request("session/close", sessionId=session)
        assert (await client.answer(second))["error"]["code"] == -32800
        if not any(each.get("id") == close for each in client.heard):
            await client.answer(close)


@pytest.mark.parametrize(
    ("policy", "status"), [(ask, "completed"), (allow_all, "completed"), (deny_all, "failed")]
)
async def test_a_question_has_a_title_and_a_subject(
    policy: Any, status: str, autojump_clock: MockClock
) -> None:
    async def asks(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            agent.use("c", "Run ls", kind="execute", rawInput={"command": "ls"})
            chosen = await agent.ask("c", "Run ls")
            agent.used("c", "done", failed=chosen != "yes")
            prompt.end()

    async with site(asks, permissions=policy) as stage:
        client, session = await opened(stage)
        client.prompt(session, "go")
        await client.idle()
        asked = [each["params"] for each in client.heard if each.get("method", "").endswith("sion")]
        if policy is ask:
            assert asked[0]["title"] == "Run ls"
            assert asked[0]["subject"]["toolCall"]["rawInput"] == {"command": "ls"}
            assert "requires_action" in client.states()
        statuses = [each["status"] for each in client.updates() if "status" in each]
        assert statuses[-1] == status


async def test_a_failed_turn_ends_with_its_error(autojump_clock: MockClock) -> None:
    async def fails(agent: FakeAcpAgent) -> None:
        async for prompt in agent.prompts:
            agent.say("half")
            prompt.fail(-32603, "boom")

    async with site(fails) as stage:
        client, session = await opened(stage)
        client.prompt(session, "go")
        end = await client.idle()
        assert end["stopReason"] == "error"
        assert end["error"]["message"] == "boom"


@pytest.mark.parametrize("replay", [True, False])
async def test_a_resumed_session_is_repeated_if_it_is_wanted_and_its_state_follows(
    replay: bool, autojump_clock: MockClock
) -> None:
    async with site(echo) as stage:
        one, session = await opened(stage)
        one.prompt(session, "hello")
        await one.idle()
        two = Client(stage)
        await two.ask("initialize", **START)
        more = {"replayFrom": {"type": "start"}} if replay else {}
        await two.ask("session/resume", sessionId=session, cwd="/", **more)
        kinds = [each["sessionUpdate"] for each in two.updates()]
        history = ["user_message", "agent_message_chunk"] if replay else []
        assert kinds == [*history, "state_update"]
        assert two.updates()[-1].keys() == {"sessionUpdate", "state", "background"}
        one.prompt(session, "again")
        await two.idle()
        assert [each["state"] for each in two.updates() if "state" in each][-2:] == [
            "running",
            "idle",
        ]
        cursor = {"type": "message", "messageId": "i1"}
        refused = await two.ask("session/resume", sessionId=session, cwd="/", replayFrom=cursor)
        assert refused["code"] == -32602


async def test_clients_of_both_versions_see_the_same_conversation(
    autojump_clock: MockClock,
) -> None:
    async with site(echo) as stage:
        two, session = await opened(stage)
        one = Client(stage, 1)
        await one.ask("initialize", protocolVersion=1)
        await one.ask("session/load", sessionId=session, cwd="/", mcpServers=[])
        ended = await one.ask(
            "session/prompt", sessionId=session, prompt=[{"type": "text", "text": "from one"}]
        )
        assert ended["stopReason"] == "end_turn"
        await two.idle()
        two.prompt(session, "from two")
        await two.idle()
        await one.read(
            lambda message: "from two" in json.dumps(message) and "agent_" in str(message)
        )

        def said(client: Client) -> list[str]:
            chunks = [u for u in client.updates() if u["sessionUpdate"] == "agent_message_chunk"]
            return [chunk["content"]["text"] for chunk in chunks]

        assert said(one) == said(two) == ["from one", "from two"]
        users = [u for u in two.updates() if u["sessionUpdate"] == "user_message"]
        assert [u["content"][0]["text"] for u in users] == ["from one", "from two"]
        assert "state_update" not in {u["sessionUpdate"] for u in one.updates()}


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("second", ["yes", "no", "nonsense"])
async def test_the_second_of_two_answers_is_ignored(
    second: str, version: int, tmp_path: Path
) -> None:
    """Also if it comes before the first is stored, so that no client can know of that."""
    async with (
        agentrt.store.open_store(tmp_path / "sessions.db") as store,
        site(asking, permissions=ask, store=store) as stage,
    ):
        one, session = await opened(stage)
        two = Client(stage, version)
        await two.ask("initialize", **{**START, "protocolVersion": version})
        resume = "session/resume" if version == 2 else "session/load"
        await two.ask(resume, sessionId=session, cwd="/", mcpServers=[])
        one.outcome = two.outcome = None
        one.prompt(session, "go")
        asked = [
            await each.read(lambda message: message.get("method", "").endswith("permission"))
            for each in (one, two)
        ]
        for client, question, option in zip((one, two), asked, ("yes", second), strict=True):
            outcome = {"outcome": "selected", "optionId": option}
            client.write(id=question["id"], result={"outcome": outcome})
        assert (await one.idle())["stopReason"] == "end_turn"
        await two.read(lambda message: "agent_message_chunk" in json.dumps(message))
        assert two.updates()[-1]["content"]["text"] == "yes"


async def test_an_answer_after_the_session_was_closed_is_ignored(
    autojump_clock: MockClock,
) -> None:
    async with site(asking, permissions=ask) as stage:
        client, session = await opened(stage)
        client.outcome = None
        client.prompt(session, "go")
        asked = await client.read(lambda message: "permission" in message.get("method", ""))
        close = client.request("session/close", sessionId=session)
        outcome = {"outcome": "selected", "optionId": "yes"}
        client.write(id=asked["id"], result={"outcome": outcome})
        await client.answer(close)
        assert (await client.ask("session/list"))["sessions"] == []


async def test_what_version_2_does_not_have_is_refused() -> None:
    async with site(asking) as stage:
        client, session = await opened(stage)
        for method in ("session/load", "session/set_mode", "session/set_model", "authenticate"):
            assert (await client.ask(method, sessionId=session))["code"] == -32601
        option = {"sessionId": session, "configId": "x", "value": "y"}
        assert (await client.ask("session/set_config_option", **option))["code"] == -32602
        typed = {**option, "type": "boolean"}
        assert (await client.ask("session/set_config_option", **typed))["code"] == -32602
        assert await client.ask("auth/login", methodId="agent") == {}


async def test_every_turn_of_many_ends_in_idle(autojump_clock: MockClock) -> None:
    async with site(obedient) as stage:
        client, session = await opened(stage)
        for number in range(30):
            id = client.prompt(session, "go")
            if number % 3:
                await client.answer(id)
            client.write(method="session/cancel", params={"sessionId": session})
            with trio.fail_after(60):
                if number % 3:
                    assert (await client.idle())["stopReason"] == "cancelled"
                else:
                    await client.answer(id)  # withdrawn, or begun and cancelled
                    await client.ask("session/list")
        states = client.states()
        assert states[-1] == "idle"
        assert states.count("running") == states.count("idle")


class RandomClient(Client):
    """A client that sends random requests, and stores which prompts have no answer yet."""

    def __init__(self, stage: Stage, seed: int) -> None:
        super().__init__(stage)
        self.random = random.Random(seed)
        self.prompts: list[int] = []

    def step(self, session: str) -> None:
        match self.random.choice(("prompt", "prompt", "cancel", "withdraw", "list", "resume")):
            case "prompt":
                self.prompts.append(self.prompt(session, self.random.choice(("go", "", "again"))))
            case "cancel":
                self.write(method="session/cancel", params={"sessionId": session})
            case "withdraw" if self.prompts:
                id = self.random.choice(self.prompts)
                self.write(method="$/cancel_request", params={"requestId": id})
            case "list":
                self.request("session/list")
            case "resume":
                self.request("session/resume", sessionId=session, cwd="/")
            case _:
                pass


async def random_sequence(seed: int) -> None:
    """Let a client do random things; then each prompt has one answer, and the session is idle."""
    scripts = (echo, obedient, asking)
    async with site(scripts[seed % len(scripts)]) as stage:
        client = RandomClient(stage, seed)
        await client.ask("initialize", **START)
        session = (await client.ask("session/new", cwd="/", mcpServers=[]))["sessionId"]
        for _ in range(client.random.randint(1, 10)):
            client.step(session)
            with trio.move_on_after(client.random.choice((0, 0.001, 1))):
                await client.read(lambda message: False)
        client.write(method="session/cancel", params={"sessionId": session})
        with trio.move_on_after(30):
            await client.read(lambda message: False)
        await client.ask("session/list")
    answers = [each["id"] for each in client.heard if "id" in each and "method" not in each]
    assert sorted(answers) == sorted(set(answers)), seed
    assert set(client.prompts) <= set(answers), seed
    # A resumed session begins with a state of its own; an end is told once.
    states = [state for state in client.states() if state != "requires_action"]
    assert not states or states[-1] == "idle", (seed, states)


@pytest.mark.parametrize("seed", range(6))
async def test_every_turn_of_a_random_sequence_ends_in_idle(
    seed: int, autojump_clock: MockClock
) -> None:
    """Every line that the client gets is held against the schema."""
    await random_sequence(seed)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
async def test_every_turn_of_1000_random_sequences_ends_in_idle(
    part: int, autojump_clock: MockClock
) -> None:
    for seed in range(100):
        await random_sequence(1000 + 100 * part + seed)


async def conversation(stage: Stage, cut: int | None) -> list[tuple[str, str]]:
    """Return what a client knows after three turns: the roles and texts of the messages.

    `cut`: the number of messages after which the client is cut off and resumes the session.
    """
    client, session = await opened(stage)
    other = Client(stage)
    await other.ask("initialize", **START)
    await other.ask("session/resume", sessionId=session, cwd="/")
    for word in ("one", "two", "three"):
        other.prompt(session, word)
        await other.idle()
    expected = len(other.heard)
    with trio.move_on_after(1):
        await client.read(lambda message: len(client.heard) == cut)
    if cut is not None and cut < expected:
        client.viewer.close()
        client = Client(stage)
        await client.ask("initialize", **START)
        resumed = {"replayFrom": {"type": "start"}}
        await client.ask("session/resume", sessionId=session, cwd="/", **resumed)
    messages: dict[str, tuple[str, str]] = {}
    for update in client.updates():
        kind, id = update["sessionUpdate"], update.get("messageId", "")
        if kind == "user_message":
            messages[id] = ("user", "".join(each["text"] for each in update["content"]))
        elif kind == "agent_message":
            messages[id] = ("agent", "".join(each["text"] for each in update["content"] or ()))
        elif kind == "agent_message_chunk":
            before = messages.get(id, ("agent", ""))[1]
            messages[id] = ("agent", before + update["content"]["text"])
    return list(messages.values())


@pytest.mark.parametrize("cut", [2, 7, pytest.param("all", marks=pytest.mark.slow)])
async def test_a_client_that_is_cut_off_sees_after_a_replay_what_one_sees_that_never_was(
    cut: int | str, autojump_clock: MockClock
) -> None:
    async with site(echo) as stage:
        whole = await conversation(stage, None)
    said = [(role, word) for word in ("one", "two", "three") for role in ("user", "agent")]
    assert whole == said
    for after in range(2, 32) if isinstance(cut, str) else (cut,):
        async with site(echo) as stage:
            assert await conversation(stage, after) == whole, after


async def test_a_client_of_version_1_gets_the_recorded_messages(autojump_clock: MockClock) -> None:
    """Whatever changes for version 2, apart from ids of sessions and the version of agentrt."""
    async with site(asking) as stage:
        client = Client(stage, 1)
        await client.ask("initialize", protocolVersion=1, clientCapabilities={})
        new = await client.ask("session/new", cwd="/", mcpServers=[])
        session = new["sessionId"]
        await client.ask(
            "session/prompt", sessionId=session, prompt=[{"type": "text", "text": "go"}]
        )
    lines = [json.dumps(each).replace(session, "SESSION") for each in client.heard]
    lines[0] = lines[0].replace(agentrt.__version__, "VERSION")
    recorded = VERSION_1.read_text().splitlines()
    assert [line for line in lines if line not in recorded] == []
    assert len(lines) == len(recorded)


@pytest.mark.parametrize("version", [1, 2])
async def test_a_client_stops_one_piece_of_background_work(
    version: int, autojump_clock: MockClock
) -> None:
    def child(agent: FakeAcpAgent, name: str, **state: str) -> None:
        cancel: dict[str, Any] = {"cancel": {}}
        agent.update(
            "subagent_update", sessionId=name, title=name, state=state, capabilities=cancel
        )

    agents: list[FakeAcpAgent] = []
    was_sent = trio.Event()

    async def spawns(agent: FakeAcpAgent) -> None:
        agents.append(agent)
        async for prompt in agent.prompts:
            child(agent, "K", state="running")
            child(agent, "L", state="running")
            prompt.end()
            await was_sent.wait()
            child(agent, "K", state="idle", stopReason="cancelled")

    def stopped(client: Client) -> dict[str, str]:
        about = [each["_meta"]["agentrt"] for each in client.updates() if "_meta" in each]
        return {each["task"]["id"]: each["task"]["status"] for each in about if "task" in each}

    async with site(spawns) as stage:
        client = Client(stage, version)
        await client.ask("initialize", **{**START, "protocolVersion": version})
        session = (await client.ask("session/new", cwd="/", mcpServers=[]))["sessionId"]
        client.prompt(session, "go")
        await client.read(lambda _: len(stopped(client)) == 2)
        calls = [each for each in client.updates() if "task" in str(each.get("_meta"))]
        if version == 2:
            assert {str(each["capabilities"]) for each in calls} == {"{'cancel': {}}"}
            method, by = "tool_call/cancel", {"toolCallId": calls[0]["toolCallId"]}
        else:
            method, by = "_session/async_task/stop", {"asyncTaskId": "K"}
        assert await client.ask(method, sessionId=session, **by) == {}
        await trio.testing.wait_all_tasks_blocked()
        cancels = [each for each in agents[0].received if each.get("method") == "session/cancel"]
        assert [each["params"]["sessionId"] for each in cancels] == ["K"]
        was_sent.set()
        await client.read(lambda _: stopped(client)["K"] == "cancelled")
        assert stopped(client)["L"] == "running"
        if version == 2:
            last = [each for each in client.updates() if each.get("toolCallId") == by["toolCallId"]]
            assert last[-1]["capabilities"] is None
            again = await client.ask(method, sessionId=session, **by)
            assert again["code"] == -32602
