"""The scripted model: what real agents rely on, checked with a plain HTTP client."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest

from .lab import Model
from .modelserver.asks import Json
from .modelserver.scripts import (
    SCRIPTS,
    Call,
    Script,
    Shell,
    Text,
    marker_in,
    prompt_for,
    turn_of,
)

pytestmark = pytest.mark.slow  # only tests that are left out, too, need the server

_SCHEMA: Json = {"type": "object", "properties": {"command": {"type": "string"}}}


def _anthropic(text: str, stream: bool) -> tuple[str, Json]:
    tools = [{"name": "Bash", "input_schema": _SCHEMA}]
    messages = [{"role": "user", "content": [{"type": "text", "text": text}]}]
    return "/v1/messages", {"model": "m", "messages": messages, "tools": tools, "stream": stream}


def _chat(text: str, stream: bool) -> tuple[str, Json]:
    tools = [{"type": "function", "function": {"name": "bash", "parameters": _SCHEMA}}]
    messages = [{"role": "user", "content": text}]
    body = {"model": "m", "messages": messages, "tools": tools, "stream": stream}
    return "/v1/chat/completions", body


def _responses(text: str, stream: bool) -> tuple[str, Json]:
    tools = [{"type": "function", "name": "shell_command", "parameters": _SCHEMA}]
    items = [{"role": "user", "content": [{"type": "input_text", "text": text}]}]
    return "/v1/responses", {"model": "m", "input": items, "tools": tools, "stream": stream}


def _gemini(text: str, stream: bool) -> tuple[str, Json]:
    function = {"name": "run_shell_command", "parametersJsonSchema": _SCHEMA}
    body: Json = {
        "contents": [{"role": "user", "parts": [{"text": text}]}],
        "tools": [{"functionDeclarations": [function]}],
    }
    verb = "streamGenerateContent" if stream else "generateContent"
    return f"/v1beta/models/m:{verb}", body


APIS = {"anthropic": _anthropic, "chat": _chat, "responses": _responses, "gemini": _gemini}


@contextmanager
def _posted(model: Model, path: str, body: Json) -> Iterator[http.client.HTTPResponse]:
    connection = http.client.HTTPConnection(urlsplit(model.url).netloc, timeout=10)
    try:
        connection.request("POST", path, json.dumps(body))
        with connection.getresponse() as response:
            yield response
    finally:
        connection.close()


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("api", APIS)
def test_a_text_is_answered_in_every_api(model: Model, api: str, stream: bool) -> None:
    script = prompt_for([[Text("four words are sent", chunk=100)]])
    with _posted(model, *APIS[api](script, stream)) as response:
        assert response.status == 200
        assert "four words are sent" in response.read().decode()


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("api", APIS)
def test_a_command_becomes_a_call_of_the_tool_offered(model: Model, api: str, stream: bool) -> None:
    with _posted(model, *APIS[api](prompt_for([[Shell("uptime")]]), stream)) as response:
        said = response.read().decode()
    [asked] = model.asks()
    assert asked.tools[0] in said
    assert "uptime" in said
    assert "description" not in said, "an argument the tool does not know"


def test_the_turn_due_is_the_number_of_answers_after_the_marker(model: Model) -> None:
    path, body = _chat(prompt_for([[Text("first")], [Text("second")]]), False)
    messages = body["messages"]
    assert isinstance(messages, list)
    messages += [{"role": "assistant", "content": "first"}, {"role": "user", "content": "go on"}]
    with _posted(model, path, body) as response:
        assert json.load(response)["choices"][0]["message"]["content"] == "second"


def test_an_error_is_answered_as_often_as_the_script_says(model: Model) -> None:
    answers = []
    for _ in range(3):
        with _posted(model, *_anthropic("[[retry-529]]", False)) as response:
            answers.append((response.status, response.headers["retry-after"]))
    assert answers == [(529, "1"), (529, "1"), (200, None)]


def test_a_cut_stream_has_a_beginning_and_no_end(model: Model) -> None:
    with (
        _posted(model, *_anthropic("[[cut]]", True)) as response,
        pytest.raises(http.client.IncompleteRead) as caught,
    ):
        response.read()
    assert b"half" in caught.value.partial
    assert [row.how for row in model.rows() if row.what == "end"] == ["cut"]


def test_a_client_that_leaves_a_silent_answer_is_noted(model: Model) -> None:
    with _posted(model, *_chat("[[silent]]", True)) as response:
        assert response.status == 200
    deadline = time.monotonic() + 5
    while not (ended := [row.how for row in model.rows() if row.what == "end"]):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert ended == ["client gone"]


def test_a_request_without_tools_is_no_part_of_the_conversation(model: Model) -> None:
    path, body = _chat("Give this a title: [[error-400]]", False)
    with _posted(model, path, {**body, "tools": []}) as response:
        assert json.load(response)["choices"][0]["message"]["content"] == "ok"
    assert model.asks() == []


@pytest.mark.parametrize("name", SCRIPTS)
def test_each_named_script_ends_after_its_turns(name: str) -> None:
    marker = f"[[{name}]]"
    assert turn_of(marker, 0) == SCRIPTS[name][0]
    assert turn_of(marker, len(SCRIPTS[name])) == [Text("Done.")]


def test_a_script_in_a_prompt_is_the_script() -> None:
    script: Script = [[Call("write", {"text": 'a "quoted" ]] text'}), Shell("ls")], [Text("done")]]
    marker = prompt_for(script).partition(" ")[2]
    assert [turn_of(marker, number) for number in (0, 1)] == script


def test_of_several_markers_the_last_one_counts_and_none_inside_a_script() -> None:
    """Agents join prompts that follow each other without an answer between."""
    inline = prompt_for([[Call("Agent", {"prompt": "[[agent-quick]]"})], [Text("]] [[text]]")]])
    assert marker_in(f"Please [[slow]]\n{inline}") == inline.partition(" ")[2]
    assert marker_in(f"{inline}\nPlease [[again]] and [no [[marker]") == "[[again]]"
    assert marker_in("[[json:[1]") is None
