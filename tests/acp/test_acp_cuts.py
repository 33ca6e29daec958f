"""The driver as a function of bytes: where they are cut makes no difference, and none raises."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from acp_kit import EVERYTHING, Peer, chunk, definitions, opened, update
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from agentrt.effects import (
    CallReturned,
    DecisionRequested,
    RequestWithdrawn,
    ServiceRequested,
    TurnFinished,
)
from agentrt.errors import LocalProtocolError
from agentrt.events import Text
from agentrt.lowlevel import DecisionAnswer, Effect
from effects import joined

METHODS = sorted(
    {
        method
        for version in (1, 2)
        for side, method, _ in definitions(version)
        if side in ("client", "protocol")
    }
)
"""What an agent can ask of its client, or tell it."""
PERMISSION = {
    "sessionId": "s1",
    "toolCall": {"toolCallId": "c", "title": "Run"},
    "options": [{"optionId": "y", "name": "Yes", "kind": "allow_once"}],
}

MESSAGES: list[Any] = [
    chunk("hello \N{GRINNING FACE}"),
    chunk(" and"),
    chunk(" goodbye", messageId="m1"),
    chunk("", messageId="m1"),
    chunk("elsewhere", "s2"),
    update("agent_thought_chunk", content={"type": "text", "text": "hm"}),
    update("tool_call", toolCallId="c", title="Run", kind="execute"),
    update("tool_call_update", toolCallId="c", status="completed"),
    update("usage_update", used=1, size=2),
    update("telepathy"),
    update("agent_message_chunk", content={"type": "smell"}),
    {"id": 0, "method": "session/request_permission", "params": PERMISSION},
    {"id": 0, "method": "fs/read_text_file", "params": {"sessionId": "s1", "path": "/a"}},
    {"id": "x", "method": "_vendor/x"},
    {"method": "$/cancel_request", "params": {"requestId": 0}},
    {"id": 3, "result": {"stopReason": "end_turn"}},
    {"id": 4, "result": {}},
    {"error": {"code": -32700, "message": "?"}},
    42,
    [],
]

lines = st.sampled_from(
    [json.dumps(message, ensure_ascii=False).encode() for message in MESSAGES]
    + [b"", b"\r", b"noise", b"\xff{", b'{"id":3', rb'{"method":"\ud83d"}']
)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[a:b] for a, b in pairwise(edges)]


def fed(pieces: list[bytes], end: bool) -> list[Effect]:
    peer = opened()
    peer.driver.prompt("t1", [Text("x")])
    effects = [effect for piece in pieces for effect in peer.driver.receive(piece)]
    return effects + peer.driver.receive_eof() if end else effects


@given(st.lists(lines), st.lists(st.integers(0, 10_000)), st.booleans())
def test_any_cut_of_the_bytes_gives_the_same_effects(
    parts: list[bytes], places: list[int], end: bool
) -> None:
    data = b"\n".join(parts)
    assert joined(fed(cut(data, places), end)) == joined(fed([data], end))


def test_the_response_to_a_prompt_is_read_alike_wherever_its_read_ends() -> None:
    answer = b'{"id":3,"result":{"stopReason":"end_turn","vendor":"caf\xe9"}}' + b"\n"
    data = answer + json.dumps(chunk("late")).encode() + b"\n"
    assert joined(fed([answer, data[len(answer) :]], False)) == joined(fed([data], False))
    assert joined(fed([answer], True)) == joined(fed([answer[:-1]], True))


@given(st.lists(st.binary(max_size=40)), st.booleans())
def test_no_bytes_raise_anything(pieces: list[bytes], end: bool) -> None:
    fed(pieces, end)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
envelopes = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | json_values,
        "id": st.integers(0, 5) | json_values,
        "method": st.sampled_from(METHODS) | json_values,
        "params": json_values
        | st.fixed_dictionaries(
            {},
            optional={
                "sessionId": st.sampled_from(["s1", "s2"]) | json_values,
                "update": json_values
                | st.fixed_dictionaries(
                    {"sessionUpdate": st.sampled_from(["plan", "tool_call", "subagent_update"])},
                    optional={
                        "toolCallId": st.text() | json_values,
                        "entries": json_values,
                        "sessionId": st.text() | json_values,
                        "state": json_values,
                    },
                ),
                "toolCall": json_values,
                "options": json_values,
                "requestId": json_values,
            },
        ),
        "result": json_values,
        "error": json_values,
    },
)


@pytest.mark.slow
@given(st.lists(envelopes))
def test_no_message_raises_anything(messages: list[Any]) -> None:
    fed([json.dumps(message).encode() + b"\n" for message in messages], True)


@pytest.mark.slow
@given(st.lists(envelopes))
def test_no_message_breaks_the_handshake_in_another_way_than_a_failed_start(
    messages: list[Any],
) -> None:
    peer = Peer()
    peer.start()
    for message in messages:
        peer.driver.receive(json.dumps(message).encode() + b"\n")


NESTED: list[Any] = [
    update("tool_call", toolCallId="c", title="x", rawInput="@"),
    update("session_message", messageId="m", content="@"),
    update("config_option_update", configOptions="@"),
    update("subagent_update", sessionId="c", state={"state": "@"}),
    update("telepathy", wave="@"),
    chunk("x", messageId="@"),
    {"id": 3, "result": "@"},
    {"id": 3, "error": "@"},
    {"id": "@", "method": "x"},
    {"id": 0, "method": "session/request_permission", "params": {**PERMISSION, "options": "@"}},
    {"id": 0, "method": "_vendor/x", "params": "@"},
    "@",
]


@pytest.mark.parametrize("message", NESTED)
@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("[", "]"),
        ('{"a":', "}"),
        ('[{"id":"x","type":"select","currentValue":"v","options":', "}]"),
    ],
)
def test_no_depth_of_nesting_raises_anything(message: Any, left: str, right: str) -> None:
    peer = opened(session={"sessionId": "s1"})
    peer.driver.prompt("t1", [Text("x")])
    for depth in [*range(1, 1100, 23), 20_000]:
        line = json.dumps(message).replace('"@"', left * depth + "[]" + right * depth)
        peer.driver.receive(line.encode() + b"\n")


class Exchange(RuleBasedStateMachine):
    """Any order of commands and messages: who has sent a prompt gets exactly one end of it, who
    asked for something gets exactly one answer."""

    def __init__(self) -> None:
        super().__init__()
        self.peer = opened(capabilities=EVERYTHING)
        self.turns = 0
        self.prompt: tuple[str, int] | None = None
        self.ended: list[str] = []
        self.due: list[str] = []
        """The turns that have been answered, in order."""
        self.calls: dict[str, int] = {}
        self.returned: list[str] = []
        self.keys: dict[str, tuple[str, int]] = {}
        self.asked = 0
        self.answered: list[int] = []

    def take(self, effects: list[Effect]) -> None:
        """Take the effects of a command."""
        self.peer.do(effects)
        self.note()

    def feed(self, *messages: Any) -> None:
        """Let the agent write."""
        self.peer.say(*messages)
        self.note()

    def note(self) -> None:
        for effect in self.peer.effects:
            match effect:
                case TurnFinished(turn=str() as turn):
                    self.ended.append(turn)
                case CallReturned(call=call):
                    self.returned.append(call)
                case DecisionRequested(key=key):
                    self.keys[key] = ("ask", self.number(key))
                case ServiceRequested(key=key):
                    self.keys[key] = ("serve", self.number(key))
                case RequestWithdrawn(key=key):
                    self.keys.pop(key, None)  # or it was never passed on
                case _:
                    pass
        self.peer.effects.clear()

    def number(self, key: str) -> int:
        """The request's own id; 0 if it was taken back in the same step."""
        request = self.peer.driver._requests._open.get(key)
        return 0 if request is None else request.id

    @rule()
    def send_a_prompt(self) -> None:
        if self.prompt is not None:
            with pytest.raises(LocalProtocolError):
                self.peer.driver.prompt("no", [])
            return
        self.turns += 1
        id = self.peer.prompt(f"t{self.turns}")
        self.prompt = (f"t{self.turns}", id)

    @rule()
    def cancel(self) -> None:
        self.take(self.peer.driver.cancel())

    @precondition(lambda self: self.prompt is not None)
    @rule(twice=st.booleans(), text=st.booleans())
    def the_agent_ends_the_turn(self, twice: bool, text: bool) -> None:
        assert self.prompt is not None
        turn, id = self.prompt
        self.prompt = None
        self.due.append(turn)
        response = {"id": id, "result": {"stopReason": "end_turn"}}
        self.feed(*[chunk("x")] * text, response, *[response] * twice)

    @rule(message=st.sampled_from([*MESSAGES[:11], *MESSAGES[17:], {"id": 999, "result": {}}]))
    def the_agent_says_something(self, message: Any) -> None:
        self.feed(message)

    @rule(session=st.sampled_from(["s1", "child"]))
    def the_agent_asks(self, session: str) -> None:
        self.asked += 1
        params = {**PERMISSION, "sessionId": session}
        self.feed({"id": self.asked, "method": "session/request_permission", "params": params})

    @rule()
    def the_agent_wants_a_file(self) -> None:
        self.asked += 1
        params = {"sessionId": "s1", "path": "/a"}
        self.feed({"id": self.asked, "method": "fs/read_text_file", "params": params})

    @rule(back=st.integers(0, 3))
    def the_agent_takes_back_a_request(self, back: int) -> None:
        self.feed({"method": "$/cancel_request", "params": {"requestId": self.asked - back}})

    @rule(yes=st.booleans(), data=st.data())
    def answer(self, yes: bool, data: st.DataObject) -> None:
        if not self.keys:
            return
        key = data.draw(st.sampled_from(sorted(self.keys)))
        kind, _ = self.keys.pop(key)
        if kind == "ask":
            self.take(self.peer.driver.answer(key, DecisionAnswer(option="y" if yes else None)))
        elif yes:
            self.take(self.peer.driver.reply(key, {"content": ""}))
        else:
            self.take(self.peer.driver.refuse(key, -32603, "no"))

    @rule()
    def call(self) -> None:
        name = f"c{len(self.calls)}"
        self.take(self.peer.driver.call(name, "_x/call", {}))
        self.calls[name] = self.peer.last("_x/call")["id"]

    @precondition(lambda self: self.calls)
    @rule(data=st.data())
    def the_agent_answers_a_call(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.calls)))
        self.feed({"id": self.calls[name], "result": name})

    @invariant()
    def each_turn_ends_once_and_in_order(self) -> None:
        assert self.ended == self.due
        assert self.peer.driver.idle == (self.prompt is None)

    @invariant()
    def each_call_returns_at_most_once(self) -> None:
        assert len(self.returned) == len(set(self.returned))

    @invariant()
    def each_request_has_one_answer_or_waits(self) -> None:
        for line in self.peer.sent:
            if "method" not in line:
                self.answered.append(line["id"])
        self.peer.sent.clear()
        waiting = [number for _, number in self.keys.values()]
        requests = self.peer.driver._requests  # further files wait there for the first to be read
        waiting += [requests._open[key].id for key in requests._waiting]
        assert sorted(self.answered + waiting) == list(range(1, self.asked + 1))


class TestExchange(Exchange.TestCase):
    settings = settings(Exchange.TestCase.settings, max_examples=10)


@pytest.mark.slow
class TestExchangeAtLength(Exchange.TestCase):
    pass
