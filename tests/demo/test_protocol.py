"""The demo agent as an ACP agent: the handshake, odd input, prompts, cancels, its end."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path

import pytest
import trio

from .conftest import Demo
from .peer import EVERYTHING, Peer, Refusal, choose


async def test_it_says_what_it_is_and_speaks_version_one(demo: Demo) -> None:
    async with demo() as peer:
        for asked in (1, 2):
            answer = await peer.call("initialize", protocolVersion=asked)
            assert answer["protocolVersion"] == 1
        assert answer["agentInfo"]["name"] == "agentrt-demo"
        assert answer["agentCapabilities"]["loadSession"] is True
        assert answer["authMethods"] == []


async def test_a_session_reports_its_settings_and_then_its_commands(demo: Demo) -> None:
    async with demo() as peer:
        await peer.initialize(EVERYTHING)
        opened = await peer.open()
        await peer.until(lambda: peer.updates)
    assert [option["id"] for option in opened["configOptions"]] == ["mode", "model", "thoughts"]
    assert [mode["id"] for mode in opened["modes"]["availableModes"]] == ["ask", "auto", "plan"]
    [update] = peer.updates
    assert "help" in [command["name"] for command in update["availableCommands"]]


async def test_a_boolean_option_is_kept_from_a_client_that_does_not_know_them(demo: Demo) -> None:
    async with demo() as peer:
        await peer.initialize()
        opened = await peer.open()
    assert [option["type"] for option in opened["configOptions"]] == ["select", "select"]


async def test_an_id_is_echoed_as_it_came(demo: Demo) -> None:
    async with demo() as peer:
        for id in (0, -7, "seven", "", None):
            asked = await peer.start("initialize", {"protocolVersion": 1}, id)
            assert (await asked.result())["protocolVersion"] == 1


async def test_nonsense_is_answered_and_survived(demo: Demo) -> None:
    deep = b'{"x":' + b"[" * 100_000 + b"\n"
    unreadable = (b"nonsense\n", deep)
    invalid = (b"[]\n", b"7\n", b'{"id":{},"method":"x"}\n', b'{"id":true,"method":"x"}\n')
    async with demo() as peer:
        for line in (*unreadable, *invalid):
            await peer.write(line)
        await peer.initialize()
    assert [error["code"] for error in peer.errors] == [-32700] * 2 + [-32600] * 4


async def test_broken_characters_cost_no_more_than_themselves(demo: Demo) -> None:
    async with demo() as peer:
        for broken in (b"\xff", b"\\ud83d"):
            asked = peer.expect("initialize")
            line = b'{"id":%d,"method":"initialize","params":{"protocolVersion":1,"x":"%s"}}\n'
            await peer.write(line % (asked.id, broken))
            assert (await asked.result())["protocolVersion"] == 1


async def test_a_wrong_request_is_refused(demo: Demo) -> None:
    wrong: list[tuple[str, dict[str, object], int]] = [
        ("no/such_method", {}, -32601),
        ("session/new", {"cwd": "relative", "mcpServers": []}, -32602),
        ("session/new", {"cwd": "/no/such/folder", "mcpServers": []}, -32602),
        ("session/new", {"cwd": "/", "mcpServers": [{"name": "half"}]}, -32602),
        ("session/new", {"mcpServers": []}, -32602),
        ("session/list", {"cursor": "no number"}, -32602),
        ("session/prompt", {"sessionId": "unknown", "prompt": []}, -32002),
        ("session/prompt", {"sessionId": "unknown", "prompt": "text"}, -32602),
        ("session/load", {"sessionId": "../x", "cwd": "/", "mcpServers": []}, -32002),
        ("session/close", {"sessionId": "unknown"}, -32002),
        ("session/set_mode", {"sessionId": "unknown", "modeId": "ask"}, -32002),
    ]
    async with demo() as peer:
        for method, params, code in wrong:
            with pytest.raises(Refusal) as refused:
                await peer.call(method, **params)
            assert refused.value.code == code, (method, params)


async def test_parameters_may_be_null_or_absent(demo: Demo) -> None:
    async with demo() as peer:
        for given in ({"params": None}, {}):
            asked = peer.expect("session/list")
            await peer.send({"id": asked.id, "method": "session/list", **given})
            assert await asked.result() == {"sessions": []}


async def test_a_wrong_or_unknown_notification_is_ignored(demo: Demo) -> None:
    async with demo() as peer:
        await peer.send(
            {"method": "no/such_method", "params": {}},
            {"method": "session/cancel", "params": {}},
            {"method": "session/cancel", "params": {"sessionId": "unknown"}},
            {"method": "$/cancel_request", "params": {"requestId": 99}},
            {"id": 12345, "result": {}},
        )
        await peer.initialize()
    assert peer.errors == []


async def test_lines_may_come_in_any_pieces_and_with_any_newline(demo: Demo) -> None:
    async with demo() as peer:
        asked = peer.expect("initialize")
        request = {"id": asked.id, "method": "initialize", "params": {"protocolVersion": 1}}
        line = json.dumps({"jsonrpc": "2.0", **request}) + "\r\n\r\n"
        for byte in line.encode():
            await peer.write(bytes([byte]))
        assert (await asked.result())["protocolVersion"] == 1


async def test_an_option_that_is_set_is_reported(demo: Demo) -> None:
    async with demo() as peer:
        await peer.initialize(EVERYTHING)
        await peer.open()
        of_session = {"sessionId": peer.session_id}
        answer = await peer.call(
            "session/set_config_option",
            **of_session,
            configId="thoughts",
            type="boolean",
            value=False,
        )
        assert answer["configOptions"][2]["currentValue"] is False
        await peer.call("session/set_config_option", **of_session, configId="mode", value="plan")
        await peer.call("session/set_mode", **of_session, modeId="auto")
        for option, value in (("mode", "yolo"), ("thoughts", "yes"), ("nothing", "x")):
            with pytest.raises(Refusal) as refused:
                await peer.call(
                    "session/set_config_option", **of_session, configId=option, value=value
                )
            assert refused.value.code == -32602
    [told] = peer.of("current_mode_update")
    assert told["currentModeId"] == "plan"
    [options] = peer.of("config_option_update")
    assert options["configOptions"][0]["currentValue"] == "auto"


async def ready(peer: Peer, capabilities: dict[str, object] | None = None) -> None:
    await peer.initialize(capabilities)
    await peer.open()


async def test_two_sessions_work_at_once(demo: Demo) -> None:
    async with demo() as peer:
        await ready(peer)
        slow = await peer.prompting("/slow 60")
        first = peer.session_id
        await peer.open()
        assert await peer.prompt("what can you do?") == "end_turn"
        await peer.send({"method": "session/cancel", "params": {"sessionId": first}})
        assert (await slow.result())["stopReason"] == "cancelled"


async def test_a_second_prompt_is_refused_while_one_runs(demo: Demo) -> None:
    async with demo() as peer:
        await ready(peer)
        slow = await peer.prompting("/slow 60")
        with pytest.raises(Refusal) as refused:
            await peer.prompt("list")
        assert refused.value.code == -32600
        await peer.cancel()
        assert (await slow.result())["stopReason"] == "cancelled"


async def test_a_cancel_right_behind_the_prompt_is_not_lost(demo: Demo) -> None:
    async with demo() as peer:
        await ready(peer)
        asked = peer.expect("session/prompt")
        prompt = {"id": asked.id, "method": "session/prompt", "params": peer.prompt_params("list")}
        cancel = {"method": "session/cancel", "params": {"sessionId": peer.session_id}}
        await peer.send(prompt, cancel)
        assert (await asked.result())["stopReason"] == "cancelled"
        assert await peer.prompt("list") == "end_turn"


async def test_a_cancel_of_an_idle_session_is_harmless(demo: Demo) -> None:
    async with demo() as peer:
        await ready(peer)
        await peer.cancel()
        assert await peer.prompt("list") == "end_turn"
        await peer.cancel()
        assert await peer.prompt("list") == "end_turn"


async def test_a_request_that_is_taken_back_is_answered_as_cancelled(demo: Demo) -> None:
    async with demo() as peer:
        await ready(peer)
        slow = await peer.prompting("/slow 60")
        await peer.send({"method": "$/cancel_request", "params": {"requestId": slow.id}})
        with pytest.raises(Refusal) as refused:
            await slow.result()
    assert refused.value.code == -32800


async def test_a_block_that_is_none_is_refused(demo: Demo) -> None:
    async with demo() as peer:
        await ready(peer)
        for block in ({}, {"type": 7}, {"type": "text"}, {"type": "text", "text": 7}):
            with pytest.raises(Refusal) as refused:
                await (await peer.prompting("", prompt=[block])).result()
            assert refused.value.code == -32602
        unknown = await peer.prompting("", prompt=[{"type": "hologram", "data": ""}])
        assert (await unknown.result())["stopReason"] == "end_turn"
    assert "something I do not know (hologram)" in peer.text


async def test_closing_a_session_ends_its_prompt_first(demo: Demo) -> None:
    async with demo() as peer:
        await ready(peer)
        slow = await peer.prompting("/slow 60")
        await peer.call("session/close", sessionId=peer.session_id)
        assert slow.answered.is_set()
        assert (await slow.result())["stopReason"] == "cancelled"
        with pytest.raises(Refusal) as refused:
            await peer.prompt("list")
    assert refused.value.code == -32002


async def test_a_prompt_may_carry_pictures_links_and_files(demo: Demo) -> None:
    blocks = [
        {"type": "image", "data": "AAAA", "mimeType": "image/png"},
        {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
        {"type": "resource_link", "uri": "file:///a.txt", "name": "a.txt"},
        {"type": "resource", "resource": {"uri": "file:///b.txt", "text": "hello"}},
        {"type": "resource", "resource": {"uri": "file:///c.bin", "blob": "AAAA"}},
    ]
    async with demo() as peer:
        await ready(peer)
        asked = await peer.prompting("", prompt=blocks)
        assert (await asked.result())["stopReason"] == "end_turn"
    for part in ("image/png, 3 B", "audio/wav, 3 B", "a.txt", "b.txt` (5 B)", "c.bin` (3 B)"):
        assert part in peer.text


# --- its end


class Child:
    """A process of the demo agent; `ended` is readable from its end on."""

    def __init__(self, pid: int) -> None:
        self._pidfd = os.pidfd_open(pid)

    async def ended(self) -> None:
        try:
            with trio.fail_after(60):
                await trio.lowlevel.wait_readable(self._pidfd)
        finally:
            os.close(self._pidfd)


async def running_child(peer: Peer) -> Child:
    """Have a shell command sleep in a child of its own; returns that child."""
    peer.answers["session/request_permission"] = choose("allow_once")
    await peer.prompting("run sh -c 'echo pid $$; exec sleep 300'; true")

    def pid() -> re.Match[str] | None:
        return re.search(r"pid (\d+)", str([call.get("content") for call in peer.calls()]))

    await peer.until(pid)
    found = pid()
    assert found is not None
    return Child(int(found[1]))


async def test_it_ends_when_its_client_does_and_takes_its_children_along(demo: Demo) -> None:
    async with demo() as peer:
        await ready(peer)
        child = await running_child(peer)
    await child.ended()
    assert [call["status"] for call in peer.calls()] == ["failed"]


async def test_a_signal_ends_it_and_its_children(demo: Demo) -> None:
    async with demo(status=128 + signal.SIGTERM) as peer:
        await ready(peer)
        child = await running_child(peer)
        peer.process.terminate()
        with trio.fail_after(60):
            await peer.process.wait()
    await child.ended()


async def test_a_cancel_ends_the_children_of_the_turn(demo: Demo) -> None:
    async with demo() as peer:
        await ready(peer)
        child = await running_child(peer)
        await peer.cancel()
        await child.ended()
        await peer.until(lambda: peer.of("usage_update"))
        assert [call["status"] for call in peer.calls()] == ["failed"]


async def test_a_client_that_is_gone_is_not_waited_for(demo: Demo) -> None:
    async with demo() as peer:
        await ready(peer, EVERYTHING)
        await peer.prompting("/run sleep 300")
        await peer.until(lambda: peer.requests)
    assert peer.process.returncode == 0


async def test_a_line_without_an_end_stays_unread(demo: Demo, folder: Path) -> None:
    async with demo() as peer:
        await peer.initialize()
        await peer.write('{"jsonrpc":"2.0","id":9,"method":"initi')
    assert peer.errors == []
