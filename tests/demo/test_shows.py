"""Each `/command` shows what it says. (Every line of it is held against the schema by `Peer`.)"""

from __future__ import annotations

import base64
import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
import trio

from agentrt.demo.commands import COMMANDS

from .conftest import Demo
from .peer import EVERYTHING, Json, Peer, Refusal, always, choose, give

pytestmark = pytest.mark.slow  # each starts the demo, and some wait for its steps


def mcp_server(folder: Path) -> Json:
    script = Path(__file__).parent / "mcp_server.py"
    env = [{"name": "HEARD", "value": str(folder / "heard.ndjson")}]
    return {"name": "test", "command": sys.executable, "args": [str(script)], "env": env}


async def ready(peer: Peer, capabilities: Json | None = EVERYTHING, **params: Any) -> None:
    """Open a session and let the client answer all that it is asked."""
    await peer.initialize(capabilities)
    await peer.open(**params)
    peer.answers |= {
        "session/request_permission": choose("allow_once"),
        "fs/read_text_file": give({"content": "from the client"}),
        "fs/write_text_file": give({}),
        "terminal/create": give({"terminalId": "t1"}),
        "terminal/wait_for_exit": give({"exitCode": 0}),
        "terminal/output": give({"output": "hello\n", "truncated": False}),
        "terminal/kill": give({}),
        "terminal/release": give({}),
        "elicitation/create": give({"action": "accept", "content": {"place": "Rome"}}),
    }


def methods(peer: Peer) -> list[str]:
    return [request["method"] for request in peer.requests]


@pytest.mark.slow
async def test_help_lists_every_command(demo: Demo) -> None:
    async with demo() as peer:
        await ready(peer)
        assert await peer.prompt("/help") == "end_turn"
    for name in COMMANDS:
        assert f"- `/{name}" in peer.text
    assert "I have no model" in peer.text


async def test_an_unknown_command_is_reported_as_such(demo: Demo) -> None:
    async with demo() as peer:
        await ready(peer)
        assert await peer.prompt("/dance") == "end_turn"
    assert "`/dance`" in peer.text


async def test_markdown_is_streamed_as_one_message_in_pieces(demo: Demo) -> None:
    async with demo() as peer:
        await ready(peer)
        await peer.prompt("/markdown")
    chunks = peer.of("agent_message_chunk")
    assert len(chunks) > 20
    assert len({chunk["messageId"] for chunk in chunks}) == 1
    for part in ("# A heading", "| Greek |", "```python", "<script>", "- [x] done"):
        assert part in peer.text


async def test_thoughts_come_before_the_answer_unless_switched_off(demo: Demo) -> None:
    async with demo() as peer:
        await ready(peer)
        await peer.prompt("/think")
        kinds = [update["sessionUpdate"] for update in peer.updates]
        assert len({chunk["messageId"] for chunk in peer.of("agent_thought_chunk")}) == 2
        assert kinds.index("agent_thought_chunk") < kinds.index("agent_message_chunk")
        off = {"sessionId": peer.session_id, "configId": "thoughts", "value": False}
        await peer.call("session/set_config_option", type="boolean", **off)
        await peer.prompt("/think")
        assert not peer.of("agent_thought_chunk")


async def test_the_plan_progresses_to_its_end(demo: Demo) -> None:
    async with demo() as peer:
        await ready(peer)
        await peer.prompt("/plan")
    plans = [[e["status"] for e in update["entries"]] for update in peer.of("plan")]
    assert plans[0] == ["in_progress", "pending", "pending"]
    assert plans[-1] == ["completed"] * 3
    assert len(plans) == 4


async def test_tool_calls_are_of_every_kind_with_diff_terminal_and_picture(demo: Demo) -> None:
    async with demo() as peer:
        await ready(peer)
        await peer.prompt("/tools")
    calls = peer.calls()
    kinds = {"read", "search", "edit", "move", "delete", "think", "fetch", "other", "execute"}
    assert {call["kind"] for call in calls} == kinds
    assert [call["status"] for call in calls].count("failed") == 1
    contents = [part for call in calls for part in call.get("content", [])]
    assert {part["type"] for part in contents} == {"content", "diff", "terminal"}
    [picture] = [p["content"] for p in contents if p.get("content", {}).get("type") == "image"]
    assert base64.b64decode(picture["data"]).startswith(b"\x89PNG\r\n")


async def test_tool_calls_do_without_a_terminal_where_there_is_none(demo: Demo) -> None:
    async with demo() as peer:
        await ready(peer, None)
        await peer.prompt("/tools")
    assert "execute" not in {call["kind"] for call in peer.calls()}
    assert peer.requests == []


async def test_a_permission_is_asked_for_and_remembered_only_if_chosen(demo: Demo) -> None:
    async with demo() as peer:
        await ready(peer)
        for option, status, again in (
            ("allow_once", "completed", True),
            ("allow_always", "completed", False),
            ("reject_once", "failed", True),
            ("reject_always", "failed", False),
        ):
            await peer.open()
            peer.answers["session/request_permission"] = choose(option)
            for asked in (True, again):
                assert await peer.prompt("/ask") == "end_turn"
                assert [call["status"] for call in peer.calls()] == [status]
                assert methods(peer) == ["session/request_permission"] * asked
                assert ("Allowed" in peer.text) is (status == "completed")


async def test_our_requests_are_numbered_from_zero(demo: Demo) -> None:
    async with demo() as peer:
        await ready(peer)
        await peer.prompt("/ask")
        assert [request["id"] for request in peer.requests] == [0]


async def test_what_is_not_clearly_a_yes_is_a_no(demo: Demo) -> None:
    unclear: list[Json] = [
        {"result": {"outcome": {"outcome": "selected", "optionId": "made up"}}},
        {"result": {"outcome": {"outcome": "a new one"}}},
        {"result": {}},
        {"result": None},
        {"error": {"code": -32601, "message": "no permissions here"}},
        {"error": {}},
    ]
    async with demo() as peer:
        await ready(peer)
        for answer in unclear:
            peer.answers["session/request_permission"] = always(answer)
            assert await peer.prompt("/ask") == "end_turn"
            assert [call["status"] for call in peer.calls()] == ["failed"], answer
            assert "Allowed" not in peer.text


async def test_a_cancelled_permission_means_a_cancelled_turn(demo: Demo) -> None:
    async with demo() as peer:
        await ready(peer)
        peer.answers["session/request_permission"] = give({"outcome": {"outcome": "cancelled"}})
        assert await peer.prompt("/ask") == "cancelled"
    assert [call["status"] for call in peer.calls()] == ["failed"]


async def test_the_mode_can_be_changed_by_a_command(demo: Demo) -> None:
    async with demo() as peer:
        await ready(peer)
        await peer.prompt("/mode auto")
        [told] = peer.of("current_mode_update")
        assert told["currentModeId"] == "auto"
        await peer.prompt("/ask")
        assert peer.requests == []
        assert "Allowed" in peer.text
        await peer.prompt("/mode plan")
        await peer.prompt("/ask")
        assert peer.requests == []
        assert [call["status"] for call in peer.calls()] == ["failed"]
        await peer.prompt("/mode yolo")
        assert peer.of("current_mode_update") == []


async def test_every_kind_of_content_is_shown(demo: Demo) -> None:
    async with demo() as peer:
        await ready(peer)
        await peer.prompt("/media")
    kinds = {chunk["content"]["type"] for chunk in peer.of("agent_message_chunk")}
    assert kinds == {"text", "image", "audio", "resource_link", "resource"}


async def test_usage_counts_up_and_every_turn_ends_with_the_truth(demo: Demo) -> None:
    async with demo() as peer:
        await ready(peer)
        await peer.prompt("/usage")
    costs = [update["cost"]["amount"] for update in peer.of("usage_update")]
    assert costs[:3] == sorted(costs[:3])
    assert costs[0] > 0
    assert costs[3:] == [0]
    assert peer.of("usage_update")[-1]["used"] > 0


async def test_the_first_prompt_gives_a_title_and_a_command_another(demo: Demo) -> None:
    async with demo() as peer:
        await ready(peer)
        await peer.prompt("what can you do?")
        assert [u["title"] for u in peer.of("session_info_update")] == ["what can you do?"]
        await peer.prompt("/title A better one")
        assert [u["title"] for u in peer.of("session_info_update")] == ["A better one"]


async def test_updates_still_come_after_the_end_of_a_background_turn(demo: Demo) -> None:
    async with demo() as peer:
        await ready(peer)
        assert await peer.prompt("/background 2") == "end_turn"
        await peer.until(lambda: "done" in peer.text)
    [call] = peer.calls()
    assert call["status"] == "completed"
    [end, *later] = peer.of("usage_update")  # the first one comes with the end of the turn
    assert len(later) == 2
    assert peer.updates.index(end) < peer.updates.index(peer.of("tool_call")[0])


@pytest.mark.slow
async def test_notices_are_reported_only_to_a_client_that_takes_them(demo: Demo) -> None:
    async with demo() as peer:
        await ready(peer)
        await peer.prompt("/notice")
        assert [n["severity"] for n in peer.of("notice")] == ["info", "warning", "error"]
    async with demo() as peer:
        await ready(peer, None)
        await peer.prompt("/notice")
        assert peer.of("notice") == []
        assert "does not take" in peer.text


# --- what the client offers


async def test_a_file_is_read_and_written_through_the_client(demo: Demo, folder: Path) -> None:
    async with demo() as peer:
        await ready(peer)
        await peer.prompt("/read README.md")
        [request] = peer.requests
        assert request["method"] == "fs/read_text_file"
        assert request["params"]["path"] == str(folder / "README.md")
        assert "from the client" in peer.text
        await peer.prompt("/write notes.txt some text")
        assert methods(peer) == ["session/request_permission", "fs/write_text_file"]
        assert peer.requests[1]["params"]["content"] == "some text\n"
        await peer.prompt("/read ../outside")
        assert "outside" in peer.text
        assert peer.requests == []


async def test_a_command_runs_in_a_terminal_of_the_client(demo: Demo) -> None:
    async with demo() as peer:
        await ready(peer)
        assert await peer.prompt("/run echo hello") == "end_turn"
        [call] = peer.calls()
        assert call["content"] == [{"type": "terminal", "terminalId": "t1"}]
        assert call["rawOutput"] == {"output": "hello\n", "exitCode": 0}
        names = [name.removeprefix("terminal/") for name in methods(peer)[1:]]
        assert names == ["create", "wait_for_exit", "output", "release"]
        peer.answers["terminal/wait_for_exit"] = give({"signal": "SIGKILL"})
        await peer.prompt("/run sleep 9")
        assert peer.calls()[0]["status"] == "failed"
        assert "SIGKILL" in peer.text


async def test_a_form_and_a_page_are_asked_for(demo: Demo) -> None:
    async with demo() as peer:
        await ready(peer)
        await peer.prompt("/form")
        assert '"Rome"' in peer.text
        await peer.prompt("/form url")
        asked = peer.requests[0]["params"]
        assert asked["url"].startswith("https://example.com/")
        [done] = peer.notifications
        assert done["params"] == {"elicitationId": asked["elicitationId"]}


async def test_what_a_client_does_not_offer_is_not_asked_of_it(demo: Demo) -> None:
    async with demo() as peer:
        await ready(peer, None)
        for command in ("/read a", "/write a b", "/run ls", "/form", "/form url", "/tool"):
            assert await peer.prompt(command) == "end_turn"
            assert peer.requests == []
            assert peer.text.startswith("Your client")


@pytest.mark.slow
async def test_an_error_of_the_client_is_reported(demo: Demo) -> None:
    async with demo() as peer:
        await ready(peer)
        for method in peer.answers.keys() - {"session/request_permission"}:
            peer.answers[method] = always({"error": {"code": -32000, "message": "not today"}})
        for command in ("/read README.md", "/write a b", "/run ls", "/form"):
            assert await peer.prompt(command) == "end_turn"
            assert "not today" in peer.text


@pytest.mark.slow
async def test_tools_of_the_clients_mcp_server_are_listed_and_called(
    demo: Demo, folder: Path
) -> None:
    async with demo() as peer:
        await ready(peer, mcpServers=[mcp_server(folder)])
        await peer.prompt("/tool")
        assert "`add`" in peer.text
        assert "`hang`" in peer.text
        await peer.prompt('/tool add {"a": 2, "b": 3}')
        [call] = peer.calls()
        assert call["status"] == "completed"
        assert call["content"] == [{"type": "content", "content": {"type": "text", "text": "5"}}]
        await peer.prompt("/tool fail")
        assert peer.calls()[0]["status"] == "failed"
        await peer.prompt("/tool nothing")
        assert "no tool `nothing`" in peer.text
        await peer.prompt("/tool add [1]")
        assert "not a JSON object" in peer.text


async def test_a_cancelled_tool_call_is_reported_to_its_server(demo: Demo, folder: Path) -> None:
    async with demo() as peer:
        await ready(peer, mcpServers=[mcp_server(folder)])
        asked = await peer.prompting("/tool hang")
        await peer.until(lambda: peer.of("tool_call_update"))
        await peer.cancel()
        assert (await asked.result())["stopReason"] == "cancelled"
    heard = [json.loads(line) for line in (folder / "heard.ndjson").read_text().splitlines()]
    call = next(message for message in heard if message.get("method") == "tools/call")
    assert heard[-1]["method"] == "notifications/cancelled"
    assert heard[-1]["params"]["requestId"] == call["id"]


async def test_a_broken_mcp_server_is_reported(demo: Demo) -> None:
    async with demo() as peer:
        for command in ("/no/such/program", "true", "cat"):
            server = {"name": "broken", "command": command, "args": [], "env": []}
            await ready(peer, mcpServers=[server])
            assert await peer.prompt("/tool add") == "end_turn"
            assert "MCP server" in peer.text


# --- what can go wrong


async def test_a_slow_tool_says_nothing_while_it_runs(demo: Demo) -> None:
    async with demo() as peer:
        await ready(peer)
        assert await peer.prompt("/slow 0.1") == "end_turn"
    [call] = peer.calls()
    assert call["status"] == "completed"


async def test_a_stubborn_turn_ends_by_itself_after_a_cancel(demo: Demo) -> None:
    async with demo() as peer:
        await ready(peer)
        asked = await peer.prompting("/stubborn 0.3")
        await peer.until(lambda: peer.of("agent_message_chunk"))
        await peer.cancel()
        assert (await asked.result())["stopReason"] == "cancelled"


@pytest.mark.slow
async def test_a_flood_loses_nothing(demo: Demo) -> None:
    async with demo() as peer:
        await ready(peer)
        assert await peer.prompt("/flood 500") == "end_turn"
    assert peer.text.splitlines() == [f"line {number}" for number in range(1, 501)]


@pytest.mark.slow
async def test_a_flood_waits_for_a_slow_client_and_can_be_cancelled(demo: Demo) -> None:
    async with demo() as peer:
        await ready(peer)
        asked = await peer.prompting("/flood 1000000")
        await peer.until(lambda: peer.of("agent_message_chunk"))
        await peer.cancel()
        assert (await asked.result())["stopReason"] == "cancelled"
    assert len(peer.updates) < 100_000


async def test_an_error_answers_the_prompt(demo: Demo) -> None:
    async with demo() as peer:
        await ready(peer)
        for command, code in (("/error", -32603), ("/error 1234", -1234), ("/error -42", -42)):
            with pytest.raises(Refusal) as refused:
                await peer.prompt(command)
            assert refused.value.code == code
            assert "details" in refused.value.data
        assert await peer.prompt("list") == "end_turn"


async def test_other_stop_reasons_can_be_had(demo: Demo) -> None:
    async with demo() as peer:
        await ready(peer)
        assert await peer.prompt("/refuse") == "refusal"
        assert await peer.prompt("/limit") == "max_tokens"
        assert await peer.prompt("/limit turns") == "max_turn_requests"


@pytest.mark.parametrize(
    ("command", "status"),
    [
        ("/crash", 1),
        ("/crash 3", 3),
        ("/crash KILL", -signal.SIGKILL),
        ("/crash sigsegv", -signal.SIGSEGV),
        ("/crash term", 128 + signal.SIGTERM),
        ("/crash mid", 1),
    ],
)
async def test_it_crashes_as_asked(demo: Demo, command: str, status: int) -> None:
    async with demo(status=status) as peer:
        await ready(peer)
        await peer.prompting(command)
        with trio.fail_after(30):
            await peer.process.wait()
    assert peer.stderr == "agentrt demo: crashing, as asked\n"
    assert "about to crash" in peer.text
    assert peer.tail.startswith(b'{"jsonrpc"') is (command == "/crash mid")


async def test_it_does_not_crash_in_a_way_it_does_not_know(demo: Demo) -> None:
    async with demo() as peer:
        await ready(peer)
        assert await peer.prompt("/crash softly") == "end_turn"


# --- cancelling


ARGUMENTS = {
    "slow": "60",
    "flood": "1000000",
    "mode": "ask",
    "title": "x",
    "tool": "hang",
    "read": "README.md",
    "write": "a.txt text",
    "run": "sleep 60",
}


async def test_every_command_can_be_cancelled_at_once(demo: Demo, folder: Path) -> None:
    async with demo(model="steady") as peer:
        await ready(peer, mcpServers=[mcp_server(folder)])
        for name in COMMANDS:
            asked = peer.expect("session/prompt")
            params = peer.prompt_params(f"/{name} {ARGUMENTS.get(name, '')}")
            prompt = {"id": asked.id, "method": "session/prompt", "params": params}
            cancel = {"method": "session/cancel", "params": {"sessionId": peer.session_id}}
            await peer.send(prompt, cancel)
            assert (await asked.result())["stopReason"] == "cancelled", name


@pytest.mark.slow
async def test_every_command_can_be_cancelled_in_the_middle(demo: Demo, folder: Path) -> None:
    waiting_for_the_client = {"ask", "read", "write", "run", "form"}
    lasting = waiting_for_the_client | {"slow", "tool"}
    async with demo(model="steady") as peer:
        await ready(peer, mcpServers=[mcp_server(folder)])
        peer.answers.clear()
        for name in sorted(COMMANDS.keys() - {"crash", "stubborn"}):
            for heard in (peer.updates, peer.requests, peer.notifications):
                heard.clear()
            asked = await peer.prompting(f"/{name} {ARGUMENTS.get(name, '')}")
            heard = peer.requests if name in waiting_for_the_client else peer.updates
            await peer.until(heard.__len__)
            await peer.cancel()
            try:
                cancelled = (await asked.result())["stopReason"] == "cancelled"
            except Refusal:
                cancelled = False
            assert cancelled or name not in lasting, name  # a short one may be over by then
            assert {call["status"] for call in peer.calls()} <= {"completed", "failed"}, name
            withdrawn = [note["params"]["requestId"] for note in peer.notifications]
            assert withdrawn == [request["id"] for request in peer.requests], name
