"""Claude Code at the limit of its account: every prompt fails. Standard library only."""

from __future__ import annotations

import json
import sys
from typing import Any

RESETS_AT = 4_000_000_000
WINDOWS = (
    {"rateLimitType": "five_hour", "status": "rejected", "utilization": 1.0, "resetsAt": RESETS_AT},
    {"rateLimitType": "seven_day", "status": "allowed", "utilization": 0.41},
)


def send(message: dict[str, Any]) -> None:
    print(json.dumps(message), flush=True)


for line in sys.stdin:
    message = json.loads(line)
    if message["type"] == "control_request":
        body = {"subtype": "success", "request_id": message["request_id"], "response": {}}
        send({"type": "control_response", "response": body})
    elif message["type"] == "user":
        init = {"subtype": "init", "session_id": "s1", "model": "m", "permissionMode": "default"}
        send({"type": "system", **init})
        for window in WINDOWS:
            send({"type": "rate_limit_event", "rate_limit_info": window, "session_id": "s1"})
        text = {"type": "text", "text": "You have hit your limit."}
        error = {"message": {"id": "m1", "content": [text], "model": "<synthetic>"}}
        send({"type": "assistant", "error": "rate_limit", "parent_tool_use_id": None, **error})
        end = {"subtype": "success", "is_error": True, "result": text["text"], "num_turns": 1}
        uuid = {"user_message_uuid": message["uuid"], "api_error_status": 429}
        send({"type": "result", "terminal_reason": "api_error", **end, **uuid})
