"""The meaning of single wire messages, for people: which protocol, which method, and the gist.

Nothing here depends on a session or on a driver: a trace can be from another version, and a message
may be malformed. So each function accepts any JSON, and returns the little that it recognizes.
Claude's messages have a `type`; ACP and codex use JSON-RPC, codex without its version in
notifications.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from ..limits import is_too_nested
from ..wire.json import DECODE_ERRORS

_json: Final[msgspec.json.Decoder[Any]] = msgspec.json.Decoder()

PROMPT: Final = "a prompt of Claude's"
"""Id of Claude's prompts, which have none: the next result answers all waiting ones."""
_PATIENT: Final = frozenset(
    {
        "session/prompt",
        "session/request_permission",
        "elicitation/create",
        "item/commandExecution/requestApproval",
        "item/fileChange/requestApproval",
        "item/permissions/requestApproval",
        "item/tool/requestUserInput",
        "item/tool/call",
        "mcpServer/elicitation/request",
    }
)
"""Requests that are answered by a user, a model or a tool."""
MAX_WHAT_CHARS: Final = 100
"""Maximum number of characters of a method that are shown."""
MAX_DETAIL_CHARS: Final = 400
"""Maximum number of characters of a text that are shown."""
_SPEECH: Final = ("agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update")


class TraceMessage(Struct):
    """A parsed line, with the information needed to read a trace.

    `kind`: a request, the answer to one, or a message that requires no answer. `detail`: the
    important part of it, in one line.
    """

    kind: Literal["request", "answer", "message"]
    what: str
    """The method, or its equivalent."""
    id: Any = None
    """Id of a request, or of the request that it answers."""
    detail: str = ""
    grows: bool = False
    """True if neighbouring messages of this kind form one text."""
    of_turn: bool = False
    """True if it belongs to a running turn."""
    patient: bool = False
    """True if a user or a model answers it, so that the duration is unknown."""
    body: Any = None
    """The complete message."""


def understand(line: bytes) -> TraceMessage | None:
    """Parse a line. Returns None if it is not JSON, or not a message of any protocol."""
    if is_too_nested(line):
        return None
    try:
        body = _json.decode(line)
    except DECODE_ERRORS:
        return None
    if not isinstance(body, dict):
        return None
    found = _of_acp(body) if "type" not in body or "jsonrpc" in body else _of_claude(body)
    if found is None:
        return None
    found.body = body
    found.what = found.what[:MAX_WHAT_CHARS]
    found.detail = found.detail[:MAX_DETAIL_CHARS]
    return found


def _of_acp(body: dict[str, Any]) -> TraceMessage | None:
    """Describe a JSON-RPC message, of ACP or of codex."""
    method, id = body.get("method"), body.get("id")
    if not isinstance(method, str):
        if "id" not in body or not ("result" in body or "error" in body):
            return None
        return TraceMessage("answer", "answer", id=id, detail=_outcome(body))
    params = body.get("params")
    params = params if isinstance(params, dict) else {}
    if method == "session/update":
        return _update(params.get("update"))
    if "jsonrpc" not in body and "id" not in body:
        return _of_codex(method, params)
    patient = method in _PATIENT
    detail = _acp_detail(method, params)
    if "id" in body:
        return TraceMessage("request", method, id=id, detail=detail, patient=patient)
    return TraceMessage("message", method, detail=detail)


def _of_codex(method: str, params: dict[str, Any]) -> TraceMessage:
    """Parse a notification of Codex, which omits the JSON-RPC version."""
    of_turn = method.startswith(("item/", "turn/plan"))
    match params:
        case {"delta": str(text)}:
            return TraceMessage("message", method, detail=text, grows=True, of_turn=of_turn)
        case {"item": {"type": kind, "id": id, **item}}:
            words = (kind, item.get("command"), item.get("tool"), item.get("status"), f"({id})")
            detail = " ".join(str(word) for word in words if word)
        case {"turn": {"status": status}}:
            detail = str(status)
        case {"message": text} | {"summary": text} | {"error": {"message": text}}:
            detail = str(text)
        case _:
            detail = ""
    return TraceMessage("message", method, detail=detail, of_turn=of_turn)


def _update(update: Any) -> TraceMessage:
    """Describe a `session/update`, whose kind is the name of the row."""
    if not isinstance(update, dict):
        return TraceMessage("message", "session/update")
    kind = str(update.get("sessionUpdate"))
    detail = ""
    match update:
        case {"content": {"text": str(text)}}:
            detail = text
        case {"toolCallId": id}:
            words = (update.get("title"), update.get("status"), f"({id})")
            detail = " ".join(str(word) for word in words if word)
    grows = kind.endswith("_chunk")
    return TraceMessage("message", kind, detail=detail, grows=grows, of_turn=kind in _SPEECH)


def _acp_detail(method: str, params: dict[str, Any]) -> str:
    """Return the gist of a request's parameters: its prompt, title, path or message."""
    match params:
        case {"prompt": list(blocks)}:
            return " ".join(str(b.get("text", "…")) for b in blocks if isinstance(b, dict))
        case {"toolCall": {"title": title}}:
            return str(title)
        case {"input": list(parts)}:
            return " ".join(str(p.get("text", "…")) for p in parts if isinstance(p, dict))
        case {"tool": tool, "arguments": _}:
            return str(tool)
        case {"path": path} | {"command": path} | {"terminalId": path} | {"cwd": path}:
            return str(path)
        case {"message": message} | {"modeId": message} | {"modelId": message}:
            return str(message)
    return ""


def _outcome(body: dict[str, Any]) -> str:
    """Return the gist of an answer: its error, stop reason, decision or session."""
    match body:
        case {"error": {"message": message, "code": code}}:
            return f"error {code}: {message}"
        case {"error": error}:
            return f"error {error}"
        case {"result": {"stopReason": reason}}:
            return str(reason)
        case {"result": {"outcome": {"outcome": "selected", "optionId": option}}}:
            return str(option)
        case {"result": {"outcome": {"outcome": outcome}}}:
            return str(outcome)
        case {"result": {"messageId": _}}:
            return "inserted"
        case {"result": {"sessionId": session} | {"thread": {"id": session}}}:
            return str(session)
        case {"result": {"decision": words} | {"action": words} | {"turn": {"status": words}}}:
            return str(words)
    return ""


def _of_claude(body: dict[str, Any]) -> TraceMessage | None:
    """Describe a message of Claude Code."""
    kind = body["type"]
    if not isinstance(kind, str):
        return None
    parse = _CLAUDE_PARSERS.get(kind)
    parsed = None if parse is None else parse(body)
    return parsed or TraceMessage("message", kind)


def _control_request(body: dict[str, Any]) -> TraceMessage | None:
    """Describe a control request, of either side."""
    match body:
        case {"request_id": id, "request": {"subtype": subtype, **more}}:
            detail = str(more.get("tool_name") or more.get("mode") or more.get("model") or "")
            patient = subtype in ("can_use_tool", "elicitation")
            return TraceMessage("request", str(subtype), id=id, detail=detail, patient=patient)
    return None


def _control_response(body: dict[str, Any]) -> TraceMessage | None:
    """Describe the answer to a control request."""
    match body:
        case {"response": {"request_id": id, **more}}:
            return TraceMessage("answer", "answer", id=id, detail=_control_outcome(more))
    return None


def _user(body: dict[str, Any]) -> TraceMessage | None:
    """Parse a prompt, or a message with the results of tools."""
    match body:
        case {"message": {"content": content}}:
            text = _text(content)
            results = isinstance(content, list) and any(
                isinstance(part, dict) and part.get("type") == "tool_result" for part in content
            )
            if results or body.get("parent_tool_use_id"):
                return TraceMessage("message", "user", detail=text)
            return TraceMessage("request", "user", id=PROMPT, detail=text, patient=True)
    return None


def _result(body: dict[str, Any]) -> TraceMessage | None:
    """Describe the end of a turn, as the answer to its prompt."""
    match body:
        case {"subtype": subtype}:
            return TraceMessage("answer", "result", id=PROMPT, detail=str(subtype))
    return None


def _assistant(body: dict[str, Any]) -> TraceMessage | None:
    """Describe a whole message of the model."""
    match body:
        case {"message": {"content": content}}:
            return TraceMessage("message", "assistant", detail=_text(content))
    return None


def _stream_event(body: dict[str, Any]) -> TraceMessage | None:
    """Describe a streaming event. Pieces of text grow into one row."""
    match body:
        case {"event": {"type": "content_block_delta", "delta": delta}}:
            parts = delta if isinstance(delta, dict) else {}
            text = str(parts.get("text") or parts.get("thinking") or "")
            return TraceMessage("message", "stream_event", detail=text, grows=True)
        case {"event": {"type": event}}:
            return TraceMessage("message", f"stream_event {event}")
    return None


def _system(body: dict[str, Any]) -> TraceMessage | None:
    """Describe a `system` message."""
    match body:
        case {"subtype": subtype}:
            state = str(body.get("state", ""))
            return TraceMessage("message", f"system {subtype}", detail=state)
    return None


_CLAUDE_PARSERS: Final[dict[str, Callable[[dict[str, Any]], TraceMessage | None]]] = {
    "control_request": _control_request,
    "control_response": _control_response,
    "user": _user,
    "result": _result,
    "assistant": _assistant,
    "stream_event": _stream_event,
    "system": _system,
}
"""Parsers by the `type` of a message; each returns None if the message has another shape."""


def _control_outcome(response: dict[Any, Any]) -> str:
    """Return the gist of a control response."""
    match response:
        case {"error": error}:
            return f"error: {error}"
        case {"response": {"behavior": behavior}}:
            return str(behavior)
    return ""


def _text(content: Any) -> str:
    """Return the text of a content, with the names of tools in it."""
    if isinstance(content, str):
        return content
    words = []
    for part in content if isinstance(content, list) else ():
        match part:
            case {"text": str(text)} | {"thinking": str(text)}:
                words.append(text)
            case {"type": "tool_use", "name": name}:
                words.append(f"[{name}]")
            case {"type": "tool_result", "content": inner}:
                words.append(_text(inner))
    return " ".join(words)
