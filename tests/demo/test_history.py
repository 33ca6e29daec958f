"""Saved conversations: listed, told again, resumed, deleted, bounded."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from agentrt.demo import history
from agentrt.demo.history import DemoRecorder, DemoStore, StoredInfo

from .conftest import Demo
from .peer import EVERYTHING, Json, Peer, Refusal, choose, give


async def ready(peer: Peer) -> None:
    await peer.initialize(EVERYTHING)
    await peer.open()
    peer.answers["session/request_permission"] = choose("allow_once")


def told(updates: list[Json], kind: str) -> str:
    return "".join(
        u["content"]["text"]
        for u in updates
        if u["sessionUpdate"] == kind and u["content"]["type"] == "text"
    )


@pytest.mark.slow
async def test_a_conversation_is_repeated_by_another_process(demo: Demo, folder: Path) -> None:
    async with demo() as peer:
        await ready(peer)
        await peer.prompt("run echo out")
        id, said, thought = peer.session_id, peer.text, told(peer.updates, "agent_thought_chunk")
    async with demo() as peer:
        await peer.initialize()
        peer.session_id = id
        await peer.call("session/load", sessionId=id, cwd=str(folder), mcpServers=[])
        replayed = peer.updates.copy()
        assert told(replayed, "user_message_chunk") == "run echo out"
        assert told(replayed, "agent_message_chunk") == said
        assert told(replayed, "agent_thought_chunk") == thought
        [call] = [u for u in replayed if u["sessionUpdate"] == "tool_call"]
        assert call["status"] == "completed"
        assert call["rawOutput"] == {"exitCode": 0, "output": "out\n"}
        assert [u["title"] for u in peer.of("session_info_update")] == ["run echo out"]
        assert await peer.prompt("list") == "end_turn"


async def test_a_terminal_is_replaced_by_what_was_in_it(demo: Demo, folder: Path) -> None:
    async with demo() as peer:
        await ready(peer)
        for method, result in (
            ("create", {"terminalId": "t"}),
            ("wait_for_exit", {"exitCode": 0}),
            ("output", {"output": "from the terminal", "truncated": False}),
            ("release", {}),
        ):
            peer.answers[f"terminal/{method}"] = give(result)
        await peer.prompt("/run ls")
        again = {"sessionId": peer.session_id, "cwd": str(folder), "mcpServers": []}
        peer.updates.clear()
        await peer.call("session/load", **again)
    [call] = peer.calls()
    assert [part["type"] for part in call["content"]] == ["content"]
    assert "from the terminal" in str(call["content"])


@pytest.mark.slow
async def test_resuming_repeats_nothing(demo: Demo, folder: Path) -> None:
    async with demo() as peer:
        await ready(peer)
        await peer.prompt("list")
        id = peer.session_id
    async with demo() as peer:
        await peer.initialize()
        peer.session_id = id
        await peer.call("session/resume", sessionId=id, cwd=str(folder))
        assert await peer.prompt("list") == "end_turn"
        assert not peer.of("user_message_chunk")


@pytest.mark.slow
async def test_what_was_said_before_a_crash_is_kept(demo: Demo, folder: Path) -> None:
    async with demo(status=1) as peer:
        await ready(peer)
        await peer.prompting("/crash")
        with trio.fail_after(30):
            await peer.process.wait()
        id = peer.session_id
    async with demo() as peer:
        await peer.initialize()
        await peer.call("session/load", sessionId=id, cwd=str(folder), mcpServers=[])
    assert told(peer.updates, "user_message_chunk") == "/crash"


async def test_sessions_are_listed_by_folder_and_can_be_deleted(demo: Demo, folder: Path) -> None:
    async with demo() as peer:
        await peer.initialize()
        ids = []
        for cwd in (folder, folder / "src", folder):
            await peer.open(cwd=str(cwd))
            ids.append(peer.session_id)
        everything = await peer.call("session/list")
        assert {info["sessionId"] for info in everything["sessions"]} == set(ids)
        here = await peer.call("session/list", cwd=str(folder))
        assert {info["sessionId"] for info in here["sessions"]} == {ids[0], ids[2]}
        slow = await peer.prompting("/slow 60")  # the third: deleting it ends its prompt
        await peer.call("session/close", sessionId=ids[0])
        for id in (*ids, "never existed"):
            await peer.call("session/delete", sessionId=id)
        assert (await slow.result())["stopReason"] == "cancelled"
        assert (await peer.call("session/list"))["sessions"] == []
        with pytest.raises(Refusal) as refused:
            await peer.call("session/load", sessionId=ids[0], cwd=str(folder), mcpServers=[])
    assert refused.value.code == -32002


async def test_a_long_list_comes_in_pages(demo: Demo, tmp_path: Path) -> None:
    store = DemoStore(tmp_path / "state" / "agentrt" / "demo")
    for number in range(60):
        store.save(StoredInfo(session_id=f"s{number}", cwd="/", updated_at=f"{number:02}"))
    async with demo() as peer:
        first = await peer.call("session/list")
        second = await peer.call("session/list", cursor=first["nextCursor"])
    assert "nextCursor" not in second
    listed = [info["sessionId"] for page in (first, second) for info in page["sessions"]]
    assert listed == [f"s{number}" for number in reversed(range(60))]


async def test_a_busy_session_is_not_opened_again(demo: Demo, folder: Path) -> None:
    async with demo() as peer:
        await ready(peer)
        await peer.prompting("/slow 60")
        with pytest.raises(Refusal) as refused:
            await peer.call("session/resume", sessionId=peer.session_id, cwd=str(folder))
    assert refused.value.code == -32600


async def test_without_a_place_to_save_the_conversation_goes_on(demo: Demo, tmp_path: Path) -> None:
    (tmp_path / "state").write_text("not a folder")
    async with demo(status=None) as peer:
        await ready(peer)
        assert await peer.prompt("list") == "end_turn"
        assert await peer.prompt("list") == "end_turn"
    assert peer.stderr.count("sessions are not being saved") == 1


# --- the files themselves


def chunk(text: str, message: str) -> Json:
    content = {"type": "text", "text": text}
    return {"sessionUpdate": "agent_message_chunk", "content": content, "messageId": message}


def test_pieces_of_a_message_are_kept_as_one(tmp_path: Path) -> None:
    store = DemoStore(tmp_path)
    store.save(StoredInfo(session_id="s", cwd="/"))
    recorder = DemoRecorder(store, "s")
    for text, message in (("a", "1"), ("b", "1"), ("c", "2")):
        recorder.add(chunk(text, message))
    recorder.flush()
    assert store.updates("s") == [chunk("ab", "1"), chunk("c", "2")]


def test_a_long_history_loses_its_older_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "MAX_STORED_BYTES", 10_000)
    store = DemoStore(tmp_path)
    store.save(StoredInfo(session_id="s", cwd="/"))
    for number in range(200):
        user = {"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": "?"}}
        store.append("s", user)
        store.append("s", chunk("x" * 100, str(number)))
    kept = store.updates("s")
    assert kept[0]["sessionUpdate"] == "user_message_chunk"
    assert kept[-1]["messageId"] == "199"
    assert (tmp_path / "s.ndjson").stat().st_size <= 10_000


def test_only_so_many_sessions_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "MAX_STORED_SESSIONS", 3)
    store = DemoStore(tmp_path)
    for number in range(5):
        store.save(StoredInfo(session_id=f"s{number}", cwd="/", updated_at=str(number)))
    store.forget_old()
    assert [info.session_id for info in store.list()] == ["s4", "s3", "s2"]


def test_half_a_line_at_the_end_is_passed_over(tmp_path: Path) -> None:
    store = DemoStore(tmp_path)
    store.save(StoredInfo(session_id="s", cwd="/"))
    store.append("s", chunk("a", "1"))
    with (tmp_path / "s.ndjson").open("ab") as file:
        file.write(b'{"sessionUpd')
    assert store.updates("s") == [chunk("a", "1")]


@pytest.mark.parametrize("id", ["../x", "a/b", "", "x" * 65, "a.b", "a\0b"])
def test_an_id_that_is_not_ours_is_no_file_name(tmp_path: Path, id: str) -> None:
    store = DemoStore(tmp_path / "inner")
    store.save(StoredInfo(session_id=id, cwd="/"))
    store.append(id, chunk("a", "1"))
    store.delete(id)
    assert store.info(id) is None
    assert store.updates(id) == []
    assert list(tmp_path.iterdir()) == []


def at(message: str) -> Json:
    return {"jetbrains": {"air": {"fork": {"version": 1, "messageId": message}}}}


async def test_a_fork_begins_with_what_was_said_up_to_a_turn(demo: Demo, folder: Path) -> None:
    async with demo() as peer:
        await ready(peer)
        first = peer.session_id
        await peer.prompt("hello")
        said = peer.of("agent_message_chunk")
        await peer.prompt("list the files")
        where = {"cwd": str(folder), "mcpServers": []}
        for meta, prompts in ((at(said[0]["messageId"]), 1), (None, 2)):
            new = await peer.call("session/fork", sessionId=first, **where, _meta=meta)
            peer.updates.clear()
            await peer.call("session/load", sessionId=new["sessionId"], **where)
            assert len(peer.of("user_message_chunk")) == prompts
        with pytest.raises(Refusal):
            await peer.call("session/fork", sessionId=first, **where, _meta=at("never"))
        with pytest.raises(Refusal):
            await peer.call("session/fork", sessionId="demo-never", **where)
