"""The whole of it: the demo agent behind a real socket, and a client that knows only the protocol.

Then each bad message and each bad command, sent where a stranger would send it.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio

import agentrt
from agentrt import open_runtime
from agentrt.web import Security, Site, serve
from web.socket_tab import opened, outcomes, tab, text
from web.sockets import TOKEN, WATCH, frame, websocket
from web.wire_client import WireClient

pytestmark = pytest.mark.usefixtures("forked_demo")


@asynccontextmanager
async def served(**bounds: float) -> AsyncIterator[Site]:
    """`bounds` change the limits."""
    rules = Security(token=TOKEN, viewer_token=WATCH)
    limits = agentrt.Limits(**bounds) if bounds else None
    with trio.fail_after(60):
        async with open_runtime(limits=limits) as runtime, trio.open_nursery() as nursery:
            site = await nursery.start(partial(serve, runtime, security=rules))
            yield site
            nursery.cancel_scope.cancel()


@pytest.mark.slow
async def test_attach_prompt_answer_a_question_cancel_and_come_back(tmp_path: Path) -> None:
    client = WireClient()
    async with served() as site:
        async with tab(site, client) as page:
            assert client.ready is not None
            assert "demo" in [agent["name"] for agent in client.ready["agents"]]
            session = await opened(page, cwd=str(tmp_path))
            view = client.views[session]
            assert view.phase == "idle"

            await page.ok("prompt", session=session, content=text("create a.txt with hello"))
            await page.until(lambda: view.shown["permissions"])
            assert view.phase == "waiting"
            request, asked = next(iter(view.shown["permissions"].items()))
            once = next(o["id"] for o in asked["options"] if o["kind"] == "allow_once")
            await page.ok("permission", session=session, request=request, option=once)
            await page.until(lambda: view.phase == "idle")
            assert outcomes(page, session) == ["completed"]
            assert (tmp_path / "a.txt").read_text().strip() == "hello"

            await page.ok("prompt", session=session, content=text("/slow"))
            await page.until(lambda: view.phase == "running" and view.texts())
            await page.ok("cancel", session=session)
            await page.until(lambda: view.phase == "idle")
            assert outcomes(page, session) == ["completed", "cancelled"]

            await page.ok("prompt", session=session, content=text("create b.txt with bye"))
            await page.until(lambda: view.shown["permissions"])
            left_at = (view.epoch, view.seq)
        snapshots = view.snapshots

        async with tab(site, client, session) as page:
            assert (view.epoch, view.seq) == left_at
            assert view.snapshots == snapshots
            request = next(iter(view.shown["permissions"]))
            await page.ok("permission", session=session, request=request, cancel=True)
            await page.until(lambda: view.phase == "idle")
            assert view.snapshots == snapshots
            assert not (tmp_path / "b.txt").exists()

        other = WireClient("another")
        async with tab(site, other, session, token=WATCH) as page:
            seen = other.views[session]
            await page.until(lambda: seen.snapshots and seen.seq >= view.seq)
            assert seen.comparable() == view.comparable()
            assert await page.code("prompt", session=session, content=text("hi")) == "forbidden"


# --- messages that are no commands


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("", "bad_request"),
        ("[]", "bad_request"),
        ('[{"type":"beat"}]', "bad_request"),
        ("1", "bad_request"),
        ("null", "bad_request"),
        ("nonsense", "bad_request"),
        ("[" * 100_000, "bad_request"),
        ('{"a":' * 100_000 + "1" + "}" * 100_000, "bad_request"),
        ('{"type":"cancel","id":"x","session":1e999}', "bad_request"),
        ('{"type":"cancel","id":"x","session":NaN}', "bad_request"),
        ('{"type":"unheard"}', "unknown_command"),
        ('{"type":"cancel","id":"x","session":5}', "bad_request"),
        ('{"type":"cancel","id":"x","session":"s","extra":1}', "bad_request"),
        ('{"type":"cancel","id":5,"session":"s"}', "bad_request"),
        ('{"type":"cancel","id":"x","session":"\\ud800"}', "bad_request"),
        ('{"type":"cancel","id":"x","id":"y","session":"s"}', "unknown_session"),
        ('{"type":"session","id":"x","op":"explode"}', "unknown_command"),
    ],
    ids=range(17),
)
async def test_a_bad_message_is_answered_and_the_next_one_is_heard(message: str, code: str) -> None:
    async with served() as site, websocket(site.port) as socket:
        await socket.send(frame('{"type":"hello","id":"h"}'))
        while (await socket.message()).get("id") != "h":
            pass
        await socket.send(frame(message), frame('{"type":"session","id":"after","op":"list"}'))
        answer = await socket.message()
        assert answer["type"] == "ack"
        assert answer["error"]["code"] == code
        assert (await socket.message())["id"] == "after"


@pytest.mark.slow
async def test_a_string_of_ten_megabytes_closes_one_connection() -> None:
    async with served() as site, websocket(site.port) as other, websocket(site.port) as socket:
        long = {"type": "prompt", "id": "x", "session": "s", "content": text("x" * 10_000_000)}
        with trio.move_on_after(5):
            await socket.send(frame(json.dumps(long)))
        assert (await socket.refusal())[0] == 1009
        await other.send(frame('{"type":"hello","id":"h"}'))
        assert (await other.message())["type"] == "ready"


@pytest.mark.slow
async def test_a_thousand_commands_in_one_piece_are_each_answered_once() -> None:
    client = WireClient()
    async with served() as site, tab(site, client) as page:
        ids = {page.wire.send("cancel", session="s") for _ in range(900)}
        await page.until(lambda: ids <= client.acks.keys())


# --- commands that cannot be carried out


@pytest.mark.slow
async def test_commands_for_sessions_turns_and_questions_that_are_not_there(tmp_path: Path) -> None:
    async with served() as site, tab(site, WireClient()) as page:
        session = await opened(page, cwd=str(tmp_path))
        view = page.client.views[session]
        assert await page.code("cancel", session="another tenant's") == "unknown_session"
        assert await page.code("attach", session="another tenant's") == "unknown_session"

        done = (await page.ok("prompt", session=session, content=text("list the files")))["turn"]
        await page.until(lambda: outcomes(page, session))
        before = view.seq
        await page.ask("cancel", session=session, turn=done)  # of a finished turn
        assert await page.code("cancel", session=session, turn="no turn") == "unknown_turn"
        assert (view.seq, view.phase) == (before, "idle")

        await page.ok("prompt", session=session, content=text("/slow"))
        await page.until(lambda: view.texts())
        assert (
            await page.code("prompt", session=session, content=text("x"), when="reject") == "busy"
        )
        await page.ok("cancel", session=session)
        await page.ok("cancel", session=session)  # twice
        await page.until(lambda: view.phase == "idle")
        assert outcomes(page, session) == ["completed", "cancelled"]


@pytest.mark.slow
async def test_answers_to_a_question_that_do_not_fit_it(tmp_path: Path) -> None:
    async with served() as site, tab(site, WireClient()) as page:
        session, other = (
            await opened(page, cwd=str(tmp_path)),
            await opened(page, cwd=str(tmp_path)),
        )
        view = page.client.views[session]
        await page.ok("prompt", session=session, content=text("create a.txt with hello"))
        await page.until(lambda: view.shown["permissions"])
        request, asked = next(iter(view.shown["permissions"].items()))
        reject = next(o["id"] for o in asked["options"] if o["kind"].startswith("reject"))

        fields = {"session": session, "request": request}
        assert await page.code("permission", **fields, option="made up") == "bad_request"
        assert (
            await page.code("permission", session=other, request=request, option=reject)
            == "unknown_request"
        )
        assert (
            await page.code("permission", session=session, request="no request", option=reject)
            == "unknown_request"
        )
        assert request in view.shown["permissions"]
        await page.ok("permission", **fields, option=reject)
        assert await page.code("permission", **fields, option=reject) == "already_resolved"
        await page.until(lambda: view.phase == "idle")
        assert not (tmp_path / "a.txt").exists()


@pytest.mark.slow
async def test_an_answer_to_a_question_that_has_expired_comes_too_late(tmp_path: Path) -> None:
    async with served(permission_timeout_s=0.2) as site, tab(site, WireClient()) as page:
        session = await opened(page, cwd=str(tmp_path))
        view = page.client.views[session]
        await page.ok("prompt", session=session, content=text("create a.txt with hello"))
        await page.until(lambda: view.phase == "idle" and outcomes(page, session))
        [asked] = [e for e in view.events if e["kind"] == "permission.opened"]
        [closed] = [e for e in view.events if e["kind"] == "permission.closed"]
        assert (closed["request"], closed["outcome"]) == (asked["request"], "expired")
        option = next(o["id"] for o in asked["options"] if o["kind"] == "allow_once")
        fields = {"session": session, "request": asked["request"], "option": option}
        assert await page.code("permission", **fields) == "already_resolved"
        assert not (tmp_path / "a.txt").exists()


@pytest.mark.slow
async def test_an_answer_after_the_server_has_started_again_finds_no_question(
    tmp_path: Path,
) -> None:
    client = WireClient()
    async with served() as site, tab(site, client) as page:
        session = await opened(page, cwd=str(tmp_path))
        view = client.views[session]
        await page.ok("prompt", session=session, content=text("create a.txt with hello"))
        await page.until(lambda: view.shown["permissions"])
        request = next(iter(view.shown["permissions"]))
        epoch = view.epoch
    async with served() as site, tab(site, WireClient()) as page:
        known = {"session": session, "epoch": epoch, "seq": view.seq}
        assert await page.code("attach", **known) == "unknown_session"
        code = await page.code("permission", session=session, request=request, option="x")
        assert code == "unknown_session"
    assert not (tmp_path / "a.txt").exists()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["the future", "another epoch", "no epoch"])
async def test_a_place_that_is_none_of_this_log_means_a_snapshot(kind: str, tmp_path: Path) -> None:
    async with served() as site, tab(site, WireClient()) as page:
        session = await opened(page, cwd=str(tmp_path))
        view = page.client.views[session]
        await page.ok("prompt", session=session, content=text("list the files"))
        await page.until(lambda: outcomes(page, session))
        epoch = {"the future": view.epoch, "another epoch": "0", "no epoch": None}[kind]
        seq = view.seq + 1000 if kind == "the future" else 1
        page.wire.attach(session, epoch=epoch, seq=seq)
        fresh = page.client.views[session]
        await page.until(lambda: fresh.snapshots and fresh.seq >= view.seq)
        assert fresh.comparable() == view.comparable()


@pytest.mark.slow
async def test_a_negative_place_is_a_bad_request(tmp_path: Path) -> None:
    async with served() as site, tab(site, WireClient()) as page:
        session = await opened(page, cwd=str(tmp_path))
        assert await page.code("attach", session=session, epoch="e", seq=-1) == "bad_request"


@pytest.mark.slow
async def test_one_id_with_two_bodies_is_carried_out_once(tmp_path: Path) -> None:
    async with served() as site, websocket(site.port) as socket:
        await socket.send(frame('{"type":"hello","id":"h"}'))
        while (await socket.message()).get("id") != "h":
            pass
        for path in ("one", "two"):
            (tmp_path / path).mkdir()
            command = {"type": "session", "id": "n", "op": "new", "agent": "demo"}
            await socket.send(frame(json.dumps(command | {"cwd": str(tmp_path / path)})))
        answers = []
        while len(answers) < 2:
            message = await socket.message()
            if message["type"] == "ack":
                answers.append(message["ok"])
        assert sorted(answers) == [False, True]
