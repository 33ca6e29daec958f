"""A trace is read as a conversation, and what is odd in it is said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from agentrt.tracing import TraceConversation, TraceKind, TraceRecord, TraceRow, read_trace


def record(t: float, kind: TraceKind, message: Any = None, **fields: Any) -> TraceRecord:
    line = message if isinstance(message, str | None) else json.dumps(message)
    return TraceRecord(t=t, kind=kind, session="s", process=1, line=line, **fields)


def rows(*records: TraceRecord, **options: float) -> list[TraceRow]:
    conversation = TraceConversation(**options)
    found = [row for each in records for row in conversation.feed(each)]
    found += conversation.flush()
    conversation.end()
    return found


def ask(id: Any, method: str = "fs/read_text_file", **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def answer(id: Any, **result: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "result": result}


def chunk(text: str) -> dict[str, Any]:
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    return {"jsonrpc": "2.0", "method": "session/update", "params": {"update": update}}


def test_a_request_stands_beside_its_answer_and_how_long_it_took() -> None:
    prompt = ask(1, "session/prompt", prompt=[{"type": "text", "text": "hello"}])
    request, response = rows(
        record(1.0, "sent", prompt), record(3.5, "received", answer(1, stopReason="end_turn"))
    )
    assert (request.what, request.detail) == ("session/prompt", "hello")
    assert (request.answer, request.took) == ("end_turn", 2.5)
    assert (response.what, response.took) == ("answer to session/prompt", 2.5)
    assert not request.odd
    assert not response.odd


def test_the_ids_of_either_side_are_its_own() -> None:
    found = rows(
        record(1.0, "sent", ask(1, "session/prompt")),
        record(2.0, "received", ask(1, path="/a")),
        record(3.0, "sent", answer(1)),
        record(4.0, "received", answer(1, stopReason="end_turn")),
    )
    assert [row.took for row in found] == [3.0, 1.0, 1.0, 3.0]


def test_neighbouring_pieces_of_a_text_are_one_row() -> None:
    found = rows(
        record(1.0, "sent", ask(1, "session/prompt")),
        record(1.1, "received", chunk("Hel")),
        record(1.2, "received", chunk("lo")),
        record(2.0, "received", answer(1, stopReason="end_turn")),
    )
    assert [(row.what, row.detail, row.count) for row in found[1:2]] == [
        ("agent_message_chunk", "Hello", 2)
    ]


def test_what_is_odd_is_said() -> None:
    found = rows(
        record(0.0, "sent", ask(1, "session/new", cwd="/")),
        record(0.1, "sent", ask(2, "session/set_mode", modeId="x")),
        record(0.2, "received", "Welcome!"),
        TraceRecord(t=0.3, kind="received", session="s", process=1, raw="/w=="),
        record(0.4, "received", chunk("outside")),
        record(20.0, "received", answer(1)),
        record(20.1, "received", answer(1)),
        record(20.2, "received", answer(7)),
        record(20.3, "received", '{"half', cut=True),
        record(20.4, "lost", count=3),
        record(20.5, "exited", code=-9),
    )
    assert [row.odd for row in found] == [
        [],
        ["never answered"],
        ["not a message of the protocol"],
        ["not UTF-8"],
        ["outside of a turn"],
        ["late"],
        ["answered a second time"],
        ["answers no request"],
        ["ends in the middle of a line"],
        ["not kept"],
        ["ended by itself"],
    ]
    assert found[-1].detail == "by signal 9"


def test_nobody_is_late_who_waits_for_a_person_or_a_model() -> None:
    found = rows(
        record(0.0, "sent", ask(1, "session/prompt")),
        record(1.0, "received", ask(1, "session/request_permission")),
        record(500.0, "sent", answer(1, outcome={"outcome": "cancelled"})),
        record(501.0, "received", answer(1, stopReason="end_turn")),
    )
    assert [row.odd for row in found] == [[], [], [], []]


def test_when_an_answer_is_late_can_be_said() -> None:
    found = rows(
        record(0.0, "sent", ask(1, "session/new")), record(2.0, "received", answer(1)), late=1.0
    )
    assert found[1].odd == ["late"]


def test_claudes_requests_and_prompts_are_understood_too() -> None:
    init = {"type": "control_request", "request_id": "h1", "request": {"subtype": "initialize"}}
    done = {"type": "control_response", "response": {"request_id": "h1", "subtype": "success"}}
    tool = {"subtype": "can_use_tool", "tool_name": "Bash"}
    allow = {"request_id": "r", "response": {"behavior": "allow"}}
    found = rows(
        record(0.0, "sent", init),
        record(0.5, "received", done),
        record(1.0, "sent", {"type": "user", "message": {"role": "user", "content": "hello"}}),
        record(2.0, "received", {"type": "control_request", "request_id": "r", "request": tool}),
        record(3.0, "sent", {"type": "control_response", "response": allow}),
        record(4.0, "received", {"type": "result", "subtype": "success"}),
    )
    assert [(row.what, row.detail, row.took) for row in found] == [
        ("initialize", "", 0.5),
        ("answer to initialize", "", 0.5),
        ("user", "hello", 3.0),
        ("can_use_tool", "Bash", 1.0),
        ("answer to can_use_tool", "allow", 1.0),
        ("result to user", "success", 3.0),
    ]
    assert not any(row.odd for row in found)


def test_what_codex_says_in_its_turns_is_not_outside_of_one() -> None:
    trace = Path(__file__).parent / "traces" / "codex.ndjson"
    conversation = TraceConversation()
    rows = [row for record in read_trace(trace) for row in conversation.feed(record)]
    assert "item/agentMessage/delta" in {row.what for row in rows}
    assert not [row for row in rows if row.odd]
