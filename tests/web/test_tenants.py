"""Two tenants at one server, or at two gateways: what each may have, and that one's flood is not
the other's."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import trio
from hub_kit import stage_with
from sockets import TOKEN, get, header, offer, post, status, websocket
from tenants_kit import ACME, ACME_WATCHES, BOLT, Line, line, servers
from trio.testing import MockClock

from agentrt.testing import FakeAcpAgent
from agentrt.web import Security, Tenant
from runtime.fakes import asking, echo

KINDS = pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"])

WORDS = 4000


async def flooding(agent: FakeAcpAgent) -> None:
    """Says so many words that nobody waits for the end of it, or only what it was told."""
    async for prompt in agent.prompts:
        words = WORDS if prompt.text == "flood" else 1
        for number in range(words):
            agent.say(f"{number if words > 1 else prompt.text} ")
            await trio.lowlevel.checkpoint()
            if prompt.cancelled.is_set():
                break
        prompt.end("cancelled" if prompt.cancelled.is_set() else "end_turn")


@pytest.mark.slow
@KINDS
async def test_each_tenant_sees_its_own_sessions_and_the_operator_all(
    store: str | None,
) -> None:
    async with (
        servers(store, echo) as there,
        line(there.port(0), ACME) as acme,
        line(there.port(1), BOLT) as bolt,
    ):
        ours, theirs = await acme.new(), await bolt.new()
        await acme.prompt(ours, "hello")
        await acme.over(ours)
        await bolt.prompt(theirs, "hello")
        await bolt.over(theirs)
        for port in (there.port(0), there.port(1)):
            for token, seen in ((ACME, {ours}), (ACME_WATCHES, {ours}), (BOLT, {theirs})):
                await listed(port, token, seen)
            await listed(port, TOKEN, {ours, theirs})
        async with line(there.port(1), TOKEN) as operator:
            await operator.prompt(ours, "from the operator")
            await acme.over(ours, 2)
            answer = await operator.ok("session", op="list")
            whose = {each["session"]: each["tenant"] for each in answer["sessions"]}
            assert whose == {ours: "acme", theirs: "bolt"}


async def listed(port: int, token: str, sessions: set[str]) -> None:
    """Wait until the list of who comes by a token has these. (Others' are looked for.)"""
    async with line(port, token) as there:
        while True:
            answer = await there.ok("session", op="list")
            found = {each["session"] for each in answer["sessions"]}
            assert found <= sessions
            if found == sessions:
                return
            await trio.sleep(0.05)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_a_session_stays_its_tenant_s_when_its_process_is_gone(
    store: str | None,
) -> None:
    async with servers(store, echo) as there, line(there.port(), ACME) as acme:
        session = await acme.new()
        await acme.prompt(session, "hello")
        await acme.over(session)
    async with servers(store, echo) as there:
        async with line(there.port(1), BOLT) as bolt:
            assert (await bolt.refused("attach", session=session))[0] == "unknown_session"
        async with line(there.port(0), ACME) as acme:
            await acme.ok("attach", session=session)
            await acme.prompt(session, "again")
            await acme.over(session, 2)
            answer = await acme.ok("session", op="list", query="hello")
            assert [each["session"]["session"] for each in answer["found"]] == [session]
        async with line(there.port(1), BOLT) as bolt:
            assert (await bolt.ok("session", op="list", query="hello"))["found"] == []
            assert (await bolt.refused("attach", session=session))[0] == "unknown_session"


# --- sessions


@KINDS
async def test_a_tenant_has_as_many_sessions_as_it_may_wherever_it_comes_in(
    store: str | None,
) -> None:
    async with servers(store, echo, Tenant(name="acme", sessions=2)) as there:
        opened: list[str] = []
        refused: list[tuple[str, str]] = []

        async def open(number: int) -> None:
            async with line(there.port(number), ACME) as acme:
                answer = await acme.ask("session", op="new", agent="fake", cwd="/")
                if answer["ok"]:
                    opened.append(answer["session"])
                else:
                    refused.append((answer["error"]["code"], answer["error"]["message"]))

        async with trio.open_nursery() as nursery:
            for number in range(6):
                nursery.start_soon(open, number)
        assert len(opened) == 2
        assert {code for code, _ in refused} == {"limit"}
        for _, message in refused:
            assert "'acme' has 2 sessions open, and may have 2" in message
            assert "close one first" in message
        async with line(there.port(1), BOLT) as bolt:
            await bolt.new()
        async with line(there.port(1), ACME) as acme:
            await acme.ok("session", op="close", session=opened[0])
            await acme.new()
            assert (await acme.refused("session", op="new", agent="fake"))[0] == "limit"


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_a_stored_session_is_opened_within_what_its_tenant_may_have(
    store: str | None,
) -> None:
    async with servers(store, echo, Tenant(name="acme", sessions=1)) as there:
        async with line(there.port(0), ACME) as acme:
            first = await acme.new()
            await acme.prompt(first, "hello")
            await acme.over(first)
            await acme.ok("session", op="close", session=first)
            second = await acme.new()
        async with line(there.port(1), ACME) as acme:
            content = [{"type": "text", "text": "again"}]
            code, _ = await acme.refused("prompt", session=first, content=content)
            assert code == "limit"
            await acme.ok("session", op="close", session=second)
            await acme.prompt(first, "again")


# --- connections


async def test_a_tenant_has_as_many_connections_as_it_may() -> None:
    async with servers(None, echo, Tenant(name="acme", viewers=2)) as there:
        port = there.port()
        async with line(port, ACME), line(port, ACME_WATCHES):
            for target in ("/ws", "/ai", "/acp"):
                async with websocket(
                    port, target=target, sec_websocket_protocol=offer(ACME)
                ) as third:
                    frames, code = await third.until_closed()
                    assert code == 4429
            assert b"has 2 connections here, and may have 2" in frames[0][1] if frames else True
            async with line(port, BOLT), line(port, TOKEN):
                pass
        async with line(port, ACME):
            pass


# --- events


@pytest.mark.slow
@KINDS
async def test_a_flood_of_one_tenant_is_slowed_and_no_other_waits_for_it(
    store: str | None,
) -> None:
    async with (
        servers(store, flooding, Tenant(name="acme", events=300)) as there,
        line(there.port(0), ACME) as acme,
        line(there.port(1), BOLT) as bolt,
    ):
        floods = [await acme.new() for _ in range(2)]
        quiet = await bolt.new()
        for session in floods:
            await acme.prompt(session, "flood")
        for number, word in enumerate(("one", "two", "three"), 1):
            await bolt.prompt(quiet, word)
            await bolt.over(quiet, number)
        running = [
            runtime.get(info.session).state.turn is not None
            for runtime in there.runtimes
            for info in runtime.list_open()
            if info.session in floods
        ]
        assert running == [True, True]
        for session in floods:
            await acme.event(session, "item.delta")  # they share what both may
        for session in floods:  # it is heard at once, and what was said is there in its order
            await acme.ok("cancel", session=session)
        for session in floods:
            await acme.over(session)
            check_order(acme, session)


def check_order(acme: Line, session: str) -> None:
    events = [m for m in acme.messages if m["type"] == "event" and m["session"] == session]
    for last, event in pairwise(events):
        assert event.get("since", event["seq"] - 1) == last["seq"]
    text = "".join(m["event"]["text"] for m in events if m["event"]["kind"] == "item.delta")
    numbers = [int(word) for word in text.split()]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    assert len(numbers) < WORDS


@pytest.mark.slow
async def test_all_of_a_flood_comes_at_the_tenant_s_rate(autojump_clock: MockClock) -> None:
    async with stage_with(flooding) as stage:
        runtime = stage.runtime.of(Tenant(name="acme", events=100))
        session = await runtime.create("fake")
        began = trio.current_time()
        result = await session.run("flood")
        assert result.text.split() == [str(number) for number in range(WORDS)]
        assert trio.current_time() - began == pytest.approx(WORDS / 100, rel=0.2)
        began = trio.current_time()
        await (await stage.runtime.create("fake")).run("flood")
        assert trio.current_time() - began < 1


async def test_a_turn_that_is_held_up_ends_soon_when_it_is_cancelled(
    autojump_clock: MockClock,
) -> None:
    async with stage_with(flooding) as stage:
        runtime = stage.runtime.of(Tenant(name="acme", events=1))
        session = await runtime.create("fake")
        async with session.prompt("flood") as turn:
            await trio.sleep(1)
            began = trio.current_time()
            turn.cancel()
        assert turn.result.outcome == "cancelled"
        assert trio.current_time() - began < 1


# --- tokens


async def test_a_browser_that_signed_in_by_a_tenant_s_token_is_the_tenant_s() -> None:
    async with servers(None, echo) as there:
        port = there.port()
        async with line(port, ACME) as acme, line(port, BOLT) as bolt:
            ours, _ = await acme.new(), await bolt.new()
            page = await signed_in(port, ACME)
            async with websocket(port, **page) as socket:
                browser = Line(socket)
                await browser.ok("hello")
                answer = await browser.ok("session", op="list")
                assert [each["session"] for each in answer["sessions"]] == [ours]


async def signed_in(port: int, token: str) -> dict[str, str]:
    """The headers with which a page opens its WebSocket."""
    body = f"token={token}"
    form = await get(
        port,
        method="POST",
        content_type="application/x-www-form-urlencoded",
        content_length=f"{len(body)}\r\n\r\n{body}",
    )
    assert status(form) == 303
    cookie = str(header(form, "set-cookie")).partition(";")[0]
    key = str(header(form, "location")).partition("#key=")[2]
    return {
        "cookie": cookie,
        "origin": f"http://127.0.0.1:{port}",
        "sec_websocket_protocol": f"agentrt.v1, agentrt.key.{key}",
    }


async def test_a_tenant_s_connections_end_with_its_token() -> None:
    async with (
        servers(None, echo) as there,
        line(there.port(), ACME) as acme,
        line(there.port(), BOLT) as bolt,
    ):
        there.security.revoke(ACME)
        assert (await acme.socket.refusal())[0] == 4401
        await bolt.new()


def test_links_are_the_operator_s() -> None:
    rules = Security(token=TOKEN, tenant_viewers={ACME_WATCHES: Tenant(name="acme")})
    with pytest.raises(ValueError, match="no token for the role 'viewer'"):
        rules.ticket("viewer")


@pytest.mark.slow
async def test_a_cookie_is_one_tenant_s_and_the_operator_s_is_for_all() -> None:
    async with (
        servers(None, echo) as there,
        line(there.port(), ACME) as acme,
        line(there.port(), BOLT) as bolt,
    ):
        hers, his = await acme.new(), await bolt.new()
        for token, shown in ((TOKEN, {hers, his}), (ACME, {hers}), (BOLT, {his})):
            answer = await post(there.port(), f"token={token}")
            pair = (header(answer, "set-cookie") or "").partition(";")[0]
            key = (header(answer, "location") or "").removeprefix("/#key=")
            offered = {
                "origin": f"http://127.0.0.1:{there.port()}",
                "sec_websocket_protocol": f"agentrt.v1, agentrt.key.{key}",
            }
            async with websocket(there.port(), cookie=pair, **offered) as socket:
                browser = Line(socket)
                await browser.ok("hello")
                [ready] = [each for each in browser.messages if each["type"] == "ready"]
                assert {each["session"] for each in ready["sessions"]} == shown
            name, _, value = pair.partition("=")
            forged = f"{name}=~{value.rpartition('~')[2]}"
            async with websocket(there.port(), cookie=forged, **offered) as socket:
                assert (await socket.refusal())[0] == 4401


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"tenants": {TOKEN: Tenant(name="a")}}, "differ from all other"),
        ({"tenants": {"short": Tenant(name="a")}}, "at least 16"),
        (
            {"tenants": {ACME: Tenant(name="a"), BOLT: Tenant(name="a", sessions=1)}},
            "different limits",
        ),
    ],
)
def test_what_would_be_no_protection_is_refused(settings: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Security(token=TOKEN, **settings)


@pytest.mark.parametrize("name", ["", "a b", "a/b", "@a", "ä", "a" * 65])
def test_a_tenant_s_name_is_a_plain_one(name: str) -> None:
    with pytest.raises(ValueError, match="is not a valid tenant name"):
        Tenant(name=name)


async def test_sessions_are_opened_in_the_tenant_s_folders(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "acme", tmp_path / "bolt"
    ours.mkdir()
    theirs.mkdir()
    tenants = [
        Tenant(name=name, roots=(str(root),)) for name, root in (("acme", ours), ("bolt", theirs))
    ]
    async with servers(None, asking, *tenants) as there, line(there.port(), ACME) as acme:
        new = {"op": "new", "agent": "fake"}
        await acme.ok("session", **new, cwd=str(ours))
        for folder in (str(theirs), "/", f"{ours}/../bolt"):
            code, message = await acme.refused("session", **new, cwd=folder)
            assert code == "forbidden"
            assert str(theirs) not in message.partition(", not in")[0]


@pytest.mark.slow
@KINDS
async def test_a_tenant_and_the_operator_look_at_one_session_by_one_server(
    store: str | None,
) -> None:
    async with (
        servers(store, echo) as there,
        line(there.port(), ACME) as acme,
        line(there.port(), TOKEN) as operator,
    ):
        session = await acme.new()
        await operator.attach(session)
        await acme.prompt(session, "one")
        await operator.over(session)
        await acme.over(session)
        await operator.ok("detach", session=session)
        await operator.prompt(session, "two")
        await acme.over(session, 2)
        await operator.attach(session)
        await acme.prompt(session, "three")
        await acme.over(session, 3)
        await operator.over(session, 3)
