"""The transcripts of real agents, as traces.

They are abridged: what was cut out of them, and a driver needs, is put in again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agentrt.tracing import TraceKind, TraceRecord

_TESTS = Path(__file__).parents[1]
ACP = {path.stem: path for path in sorted((_TESTS / "acp" / "transcripts").glob("*.ndjson"))}
CLAUDE = {
    f"claude-{path.stem}": path
    for path in sorted((_TESTS / "claude" / "transcripts").glob("*.ndjson"))
}
ALL = ACP | CLAUDE

Row = dict[str, Any]


def converted(name: str) -> list[TraceRecord]:
    """A transcript as a trace."""
    rows = [json.loads(line) for line in ALL[name].read_text().splitlines()]
    protocol = "acp" if name in ACP else "claude"
    first = TraceRecord(
        t=0.0, kind="session", session="s", process=1, agent=name, protocol=protocol
    )
    opening = _initialized() if protocol == "claude" and not _initializes(rows) else []
    return [first, *opening, *_records(rows)]


def _initializes(rows: list[Row]) -> bool:
    return any(row["msg"].get("request", {}).get("subtype") == "initialize" for row in rows[:1])


def _initialized() -> list[TraceRecord]:
    asked = {"type": "control_request", "request_id": "h", "request": {"subtype": "initialize"}}
    answer = {"subtype": "success", "request_id": "h", "response": {}}
    return [
        _record(0.0, "sent", json.dumps(asked)),
        _record(0.0, "received", json.dumps({"type": "control_response", "response": answer})),
    ]


def _record(t: float, kind: TraceKind, line: str | None = None, **fields: Any) -> TraceRecord:
    return TraceRecord(t=t, kind=kind, session="s", process=1, line=line, **fields)


def _records(rows: list[Row]) -> Iterator[TraceRecord]:
    chosen = {
        row["msg"]["result"]["outcome"]["optionId"]
        for row in rows
        if row["dir"] == ">" and (row["msg"].get("result") or {}).get("outcome", {}).get("optionId")
    }
    left = False
    for row in rows:
        t, message = row["t"], row["msg"]
        if isinstance(message, dict) and message.get("type") == "approve":
            continue  # no host says this: the CLI took no notice of it
        if row["dir"] != "!":
            yield _record(t, "sent" if row["dir"] == ">" else "received", _line(message, chosen))
        elif message == "stdin closed":
            left = True
            yield _record(t, "stdin_closed")
        elif found := re.fullmatch(r"sent (SIG\w+)", message):
            left = True
            yield _record(t, "signal", signal=found[1])
        elif found := re.fullmatch(r"exit (\d+)", message):
            yield _record(t, "exited", code=int(found[1]))
        elif message == "stdout EOF":
            if not left:  # the recorder wrote that down only where it did so early
                left = True
                yield _record(t, "stdin_closed")
            yield _record(t, "stdout_closed")


def _line(message: Any, chosen: set[str]) -> str:
    match message:
        case {"result": {"protocolVersion": "<cut>"}}:
            message["result"]["protocolVersion"] = 1
        case {"result": {"sessionId": str(), "modes": "<cut>"}}:
            modes = [{"id": "ask", "name": "ask"}, {"id": "other", "name": "other"}]
            message["result"]["modes"] = {"currentModeId": "other", "availableModes": modes}
        case {"method": "session/request_permission", "params": {"options": options}}:
            known = [option for option in options if isinstance(option, dict)]
            left_out = chosen - {option["optionId"] for option in known}
            message["params"]["options"] = known + [
                {"optionId": option, "name": option, "kind": "reject_once"}
                for option in sorted(left_out)
            ]
    return json.dumps(message)
