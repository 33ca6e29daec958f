"""The messages of ACP: complete, tolerant on the way in, without loss on the way through."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from acp_kit import conforms, definitions
from hypothesis import given
from hypothesis import strategies as st
from msgspec import inspect

from agentrt._core.acp import messages
from agentrt._core.acp.messages import VARIANTS, KnownUpdate, UnknownUpdate, read_update
from agentrt._core.acp.requests import AGENT_METHODS, CLIENT_METHODS
from agentrt._serve.acp import _METHODS as SERVED_METHODS
from agentrt.demo import server as demo
from agentrt.events import Block, ToolContent
from tables import for_each

GOLDEN = Path(__file__).parent / "golden"

TYPES: dict[str, Any] = {
    "cancel_notification": messages.SessionRequest,
    "content_": Block,
    "fs_read_text_file_request": messages.ReadTextFileRequest,
    "fs_read_text_file_response": messages.ReadTextFileResponse,
    "fs_write_text_file_request": messages.WriteTextFileRequest,
    "initialize_request": messages.InitializeRequest,
    "initialize_response": messages.InitializeResponse,
    "new_session_request": messages.NewSessionRequest,
    "new_session_response": messages.NewSessionResponse,
    "permission_outcome_": messages.PermissionOutcome,
    "prompt_request": messages.PromptRequest,
    "request_permission_request": messages.RequestPermissionRequest,
    "request_permission_response": messages.RequestPermissionResponse,
    "session_update_": KnownUpdate,
    "set_session_config_option_request": messages.SetConfigOptionRequest,
    "set_session_config_option_response": messages.SetConfigOptionResponse,
    "tool_content_": ToolContent,
}

METHODS = {"agent": AGENT_METHODS, "client": CLIENT_METHODS, "protocol": CLIENT_METHODS}
"""By the side that serves them, in the schema's words."""

GOLDENS = sorted(GOLDEN.glob("*.json"))


def test_there_are_as_many_golden_messages_as_were_published() -> None:
    assert len(GOLDENS) == 36


@for_each("file", GOLDENS)
def test_a_golden_message_decodes_and_encodes_without_loss(file: Path) -> None:
    kind = next(kind for prefix, kind in TYPES.items() if file.stem.startswith(prefix))
    decoded = msgspec.json.decode(file.read_bytes(), type=kind)
    original = json.loads(file.read_text())
    if original.get("type") == "diff":
        original.setdefault("oldText", None)  # null and absence both mean: a new file
    assert json.loads(msgspec.json.encode(decoded)) == original


def test_every_method_of_the_schema_has_its_types() -> None:
    for side, method, kind in definitions():
        entry = METHODS[side][method]
        assert (entry.result is None) == (kind == "Notification")


def test_every_update_of_the_schema_has_its_type() -> None:
    schema = json.loads((Path(__file__).parent / "schema" / "schema.json").read_text())
    kinds = {
        variant["properties"]["sessionUpdate"]["const"]
        for variant in schema["$defs"]["SessionUpdate"]["oneOf"]
    }
    assert kinds <= VARIANTS.keys()


def resolved(schema: dict[str, Any], defs: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The properties that an object of this schema may have, through references and
    alternatives."""
    found = dict(schema.get("properties", {}))
    if "$ref" in schema:
        found |= resolved(defs[schema["$ref"].rpartition("/")[2]], defs)
    for part in ("allOf", "anyOf", "oneOf"):
        for each in schema.get(part, []):
            found |= resolved(each, defs)
    if "items" in schema:
        found |= resolved(schema["items"], defs)
    return found


def structs_in(kind: inspect.Type) -> list[inspect.StructType]:
    match kind:
        case inspect.StructType():
            return [kind]
        case inspect.UnionType():
            return [struct for each in kind.types for struct in structs_in(each)]
        case inspect.ListType():
            return structs_in(kind.item_type)
        case _:
            return []


def missing(
    schema: dict[str, Any], ours: inspect.StructType, defs: dict[str, Any], path: str
) -> list[str]:
    """The keys of the schema that our type does not have, all the way down."""
    fields = {field.encode_name: field for field in ours.fields}
    found = []
    for name, value in resolved(schema, defs).items():
        if name == ours.tag_field:
            continue
        at = f"{path}.{name}"
        if name not in fields:
            found.append(at)
            continue
        inner = structs_in(fields[name].type)
        if len(inner) == 1 and inner[0].cls is not ours.cls:  # alternatives are told by their tag
            found += missing(value, inner[0], defs, at)
    return found


def test_every_field_of_the_schema_is_a_field_of_ours() -> None:
    defs = json.loads((Path(__file__).parent / "schema" / "schema.json").read_text())["$defs"]
    lacking = []
    for (side, method, kind), name in definitions().items():
        known = {"agent": AGENT_METHODS, "client": CLIENT_METHODS, "protocol": CLIENT_METHODS}[side]
        ours = inspect.type_info(
            known[method].result if kind == "Response" else known[method].params
        )
        assert isinstance(ours, inspect.StructType)
        lacking += missing(defs[name], ours, defs, name)
    for variant in defs["SessionUpdate"]["oneOf"]:
        kind = variant["properties"]["sessionUpdate"]["const"]
        ours = inspect.type_info(VARIANTS[kind])
        assert isinstance(ours, inspect.StructType)
        lacking += missing(variant, ours, defs, kind)
    assert lacking == []


PARAMETERS: list[tuple[str, type[msgspec.Struct]]] = [
    *((method, row[0]) for method, row in SERVED_METHODS.items() if method in AGENT_METHODS),
    ("initialize", demo.DemoInitializeParams),
    ("session/new", demo.OpenSessionParams),
    ("session/load", demo.ReopenSessionParams),
    ("session/resume", demo.ReopenSessionParams),
    ("session/fork", demo.ForkSessionParams),
    ("session/list", demo.ListSessionsParams),
    ("session/close", demo.SessionParams),
    ("session/delete", demo.SessionParams),
    ("session/cancel", demo.SessionParams),
    ("session/prompt", demo.PromptParams),
    ("session/set_mode", demo.SetModeParams),
    ("session/set_config_option", demo.SetOptionParams),
    ("$/cancel_request", demo.CancelRequestParams),
]
"""The parameters that the server for ACP clients and the demo agent read, which are agents."""


@pytest.mark.parametrize(
    ("method", "kind"), PARAMETERS, ids=[f"{kind.__name__}-{method}" for method, kind in PARAMETERS]
)
def test_an_agent_reads_only_fields_that_a_client_sends(
    method: str, kind: type[msgspec.Struct]
) -> None:
    def unknown(theirs: type, ours: type, path: str) -> list[str]:
        fields = {field.encode_name: field for field in msgspec.structs.fields(ours)}
        found = []
        for field in msgspec.structs.fields(theirs):
            at = f"{path}.{field.encode_name}"
            if field.encode_name not in fields:
                found.append(at)
                continue
            inner = [
                struct.cls
                for other in (field, fields[field.encode_name])
                for struct in structs_in(inspect.type_info(other.type))
            ]
            if len(inner) == 2:
                found += unknown(inner[0], inner[1], at)
        return found

    read = set(unknown(kind, AGENT_METHODS[method].params, method))
    assert read <= {"initialize.capabilities", "initialize.info"}  # of version 2


EXAMPLES: list[dict[str, Any]] = [
    {"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": "x"}},
    {
        "sessionUpdate": "agent_message_chunk",
        "messageId": "m",
        "_meta": {"vendor": {"deep": [1, None]}},
        "content": {"type": "image", "data": "aGk=", "mimeType": "image/png", "uri": None},
    },
    {
        "sessionUpdate": "tool_call",
        "toolCallId": "c",
        "title": "Run",
        "name": "shell",
        "kind": "execute",
        "status": "pending",
        "content": [
            {"type": "content", "content": {"type": "text", "text": "x", "annotations": {}}},
            {"type": "diff", "path": "/a", "oldText": "b", "newText": "c"},
            {"type": "terminal", "terminalId": "t"},
        ],
        "locations": [{"path": "/a", "line": 3}, {"path": "/b"}],
        "rawInput": {"command": ["ls", 1, None, {"a": False}]},
        "rawOutput": "text",
    },
    {
        "sessionUpdate": "plan",
        "entries": [{"content": "a", "priority": "low", "status": "pending"}],
    },
    {
        "sessionUpdate": "available_commands_update",
        "availableCommands": [{"name": "plan", "description": "d", "input": {"hint": "h"}}],
    },
    {"sessionUpdate": "current_mode_update", "currentModeId": "ask"},
    {
        "sessionUpdate": "config_option_update",
        "configOptions": [
            {
                "id": "model",
                "name": "Model",
                "type": "select",
                "category": "model",
                "currentValue": "a",
                "options": [{"group": "g", "name": "G", "options": [{"value": "a", "name": "A"}]}],
            },
            {"id": "web", "name": "Web", "type": "boolean", "currentValue": False},
        ],
    },
    {"sessionUpdate": "session_info_update", "title": None, "updatedAt": "2026-01-01T00:00:00Z"},
    {
        "sessionUpdate": "usage_update",
        "used": 1,
        "size": 2,
        "cost": {"amount": 0.5, "currency": "USD"},
    },
    {"sessionUpdate": "notice", "severity": "warning", "title": "t", "description": "d"},
    {
        "sessionUpdate": "compaction_update",
        "compactionId": "k",
        "status": "completed",
        "summary": [{"type": "text", "text": "s"}],
    },
    {
        "sessionUpdate": "compaction_summary_chunk",
        "compactionId": "k",
        "content": {"type": "text", "text": "s"},
    },
]


@pytest.mark.parametrize("raw", EXAMPLES, ids=lambda raw: raw["sessionUpdate"])
def test_an_update_decodes_and_encodes_without_loss(raw: dict[str, Any]) -> None:
    conforms({"sessionId": "s", "update": raw}, "client", "session/update", "Notification")
    update = msgspec.json.decode(json.dumps(raw), type=KnownUpdate)
    assert type(update) is VARIANTS[raw["sessionUpdate"]]
    assert json.loads(msgspec.json.encode(update)) == raw
    assert read_update(raw, dropped := []) == update
    assert dropped == []


OPTIONAL = [
    (raw, field)
    for raw in EXAMPLES
    for field in raw
    if field
    not in {
        "sessionUpdate",
        "toolCallId",
        "content" if "chunk" in raw["sessionUpdate"] else "",
        "entries",
        "availableCommands",
        "configOptions",
        "used",
        "size",
        "compactionId",
        "status" if "compaction" in raw["sessionUpdate"] else "",
        "title" if raw["sessionUpdate"] == "notice" else "",
        "rawInput",
        "rawOutput",
    }
]


@pytest.mark.parametrize(("raw", "field"), OPTIONAL)
def test_a_wrong_optional_field_never_costs_the_update(raw: dict[str, Any], field: str) -> None:
    wrong = 17 if not isinstance(raw[field], int) else "seventeen"
    update = read_update({**raw, field: wrong}, dropped := [])
    assert type(update) is VARIANTS[raw["sessionUpdate"]]
    assert dropped == [field]


def test_an_unknown_kind_of_content_costs_only_that_content() -> None:
    hologram = {"type": "hologram", "rays": 9}
    raw = {
        "sessionUpdate": "tool_call_update",
        "toolCallId": "c",
        "content": [hologram, {"type": "terminal", "terminalId": "t"}],
    }
    update = read_update(raw, dropped := [])
    assert isinstance(update, messages.ToolCallUpdate)
    assert update.content is not None
    assert len(update.content) == 1
    assert dropped == ["content[0]"]


def test_an_unknown_value_of_an_enumeration_is_kept_as_it_is() -> None:
    raw = {"sessionUpdate": "tool_call", "toolCallId": "c", "kind": "teleport", "status": "odd"}
    update = msgspec.convert(raw, KnownUpdate)
    assert isinstance(update, messages.AcpToolCall)
    assert (update.kind, update.status) == ("teleport", "odd")


def test_an_unknown_kind_of_update_is_kept_raw() -> None:
    raw = {"sessionUpdate": "telepathy", "wave": [1, 2]}
    assert read_update(raw, []) == UnknownUpdate(raw)


@pytest.mark.parametrize(
    "raw",
    [
        None,
        [],
        {},
        {"sessionUpdate": 4},
        {"sessionUpdate": "tool_call", "title": "no id"},
        {"sessionUpdate": "agent_message_chunk"},
        {"sessionUpdate": "agent_message_chunk", "content": {"type": "hologram"}},
        {"sessionUpdate": "usage_update", "used": "1"},
    ],
)
def test_an_update_without_what_makes_it_usable_is_kept_raw_and_says_why(raw: Any) -> None:
    update = read_update(raw, [])
    assert isinstance(update, UnknownUpdate)
    assert update.raw == raw
    assert update.defect


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)


@given(
    st.sampled_from(EXAMPLES),
    st.dictionaries(
        st.sampled_from(sorted({field for raw in EXAMPLES for field in raw} - {"sessionUpdate"})),
        json_values,
    ),
)
@pytest.mark.slow
def test_no_mixture_of_wrong_fields_raises(raw: dict[str, Any], wrong: dict[str, Any]) -> None:
    update = read_update({**raw, **wrong}, [])
    assert type(update) in (VARIANTS[raw["sessionUpdate"]], UnknownUpdate)
