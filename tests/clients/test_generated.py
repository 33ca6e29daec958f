"""The TypeScript types and the JSON Schema of `agentrt.v1` are those of the server's structs."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import jsonschema
import pytest

from web import published

ROOT = Path(__file__).parents[2]
HOW = "run `python clients/js/generate.py`"


def load_generator() -> ModuleType:
    path = ROOT / "clients/js/generate.py"
    spec = importlib.util.spec_from_file_location("agentrt_client_generator", path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


generator = load_generator()


@pytest.fixture(scope="module")
def schema() -> Any:
    """A validator of frames."""
    found = json.loads(generator.SCHEMA.read_text())
    jsonschema.Draft202012Validator.check_schema(found)
    return jsonschema.Draft202012Validator(found)


@pytest.mark.slow
def test_the_schema_is_valid(schema: Any) -> None:
    assert schema.schema["title"] == "agentrt.v1"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["TYPES", "SCHEMA"])
def test_a_generated_file_is_that_of_the_structs(name: str) -> None:
    path: Path = getattr(generator, name)
    assert path.read_text() == generator.files()[path], HOW


@pytest.mark.slow
def test_every_struct_and_field_of_the_protocol_has_a_description() -> None:
    assert generator.undescribed() == []


def test_every_command_has_a_result_and_every_code_of_a_refusal_a_meaning() -> None:
    assert generator.unexplained() == []


SNAPSHOT = {
    "type": "snapshot",
    "session": "s1",
    "epoch": "e1",
    "seq": 0,
    "state": {"phase": "idle", "turn": None, "agent": {"name": "demo", "protocol": "acp"}},
    **{
        each: [] for each in ("turns", "items", "permissions", "queue", "plan", "tasks", "commands")
    },
    **dict.fromkeys(("usage", "modes", "title")),
    "paused": False,
}


@pytest.mark.parametrize(
    "frame",
    [
        {"type": "hello", "id": "1", "sessions": [{"session": "s1"}]},
        {"type": "prompt", "id": "1", "session": "s", "content": [{"type": "text", "text": "a"}]},
        {"type": "session", "id": "1", "op": "new", "agent": "demo"},
        SNAPSHOT,
        [{"type": "closing", "reason": "bye"}, {"type": "beat", "sessions": {}}],
    ],
    ids=lambda frame: frame["type"] if isinstance(frame, dict) else "several",
)
def test_the_schema_accepts_a_frame(schema: Any, frame: Any) -> None:
    schema.validate(frame)


def test_a_frame_of_the_server_has_what_is_published_and_nothing_else() -> None:
    published.check("ServerFrame", SNAPSHOT)
    for wrong in ({"title": 7}, {"colour": "red"}, {"state": {"phase": "idle"}}, {"items": [{}]}):
        with pytest.raises(AssertionError):
            published.check("ServerFrame", SNAPSHOT | wrong)


@pytest.mark.parametrize(
    "frame",
    [
        {"type": "hello"},
        {"type": "prompt", "id": "1", "session": "s", "content": []},
        {"type": "prompt", "id": "1", "session": "s", "content": [{"type": "text"}]},
        {"type": "session", "id": "1", "op": "explode"},
        {"type": "attach", "id": "1", "session": "s1", "colour": "red"},
        {"type": "closing"},
        "hello",
    ],
    ids=str,
)
def test_the_schema_refuses_what_the_server_refuses(schema: Any, frame: Any) -> None:
    assert not schema.is_valid(frame)
