"""Conversations with ten real agents, replayed: each prompt ends as it ended then."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from acp_kit import Peer

from agentrt.effects import DecisionRequested, Started, TextReceived, TurnFinished
from agentrt.errors import LocalProtocolError
from agentrt.events import Text
from agentrt.lowlevel import DecisionAnswer

TRANSCRIPTS = sorted((Path(__file__).parent / "transcripts").glob("*.ndjson"))


class Replay:
    """Does what the recorded host did, and lets the recorded agent answer."""

    def __init__(self) -> None:
        self.peer = Peer()
        self.ids: dict[Any, int] = {}
        """Ids of the recorded host, and ours for the same request."""
        self.prompts: dict[int, str] = {}
        """Our ids of the prompts sent, and their turns."""
        self.keys: dict[Any, str] = {}
        self.expected: list[tuple[str, str | None]] = []

    def row(self, direction: str, message: Any) -> None:
        match direction, message:
            case ">", {"method": "initialize", "id": id}:
                self.peer.start()
                self.ids[id] = 1
            case ">", {"method": "session/new", "id": id}:
                self.ids[id] = self.peer.last("session/new")["id"]
            case ">", {"method": "session/prompt", "id": id, "params": params}:
                self.prompt(id, [Text(block["text"]) for block in params["prompt"]])
            case ">", {"method": "session/set_mode", "id": id, "params": params}:
                self.sent(id, self.peer.driver.call("c", "set_mode", {"mode": params["modeId"]}))
            case ">", {"method": "session/cancel"}:
                self.peer.do(self.peer.driver.cancel())
            case ">", {"id": id, "result": {"outcome": outcome}}:
                self.answer(id, outcome.get("optionId"))
            case "<", {"method": str()}:
                self.peer.say(message)
                self.keys |= {
                    message.get("id"): asked.key for asked in self.peer.of(DecisionRequested)[-1:]
                }
            case "<", dict():
                self.response(message)
            case "!", "stdout EOF":
                self.peer.do(self.peer.driver.receive_eof())

    def sent(self, id: Any, effects: Any) -> None:
        before = len(self.peer.sent)
        self.peer.do(effects)
        for line in self.peer.sent[before:]:
            self.ids[id] = line["id"]

    def prompt(self, id: Any, content: list[Text]) -> None:
        turn = f"t{id}"
        try:
            effects = self.peer.driver.prompt(turn, content)
        except LocalProtocolError:  # the recorded host sent a second one; agentrt never does
            return
        self.sent(id, effects)
        self.prompts[self.ids[id]] = turn

    def answer(self, id: Any, option: str | None) -> None:
        key = self.keys[id]
        try:
            self.peer.do(self.peer.driver.answer(key, DecisionAnswer(option=option)))
        except LocalProtocolError:  # the option was cut out of the recording
            self.peer.do(self.peer.driver.answer(key, DecisionAnswer()))

    def response(self, message: dict[str, Any]) -> None:
        id = self.ids.get(message.get("id"), 1000)
        result = message.get("result")
        if id == 1:
            message = {**message, "result": {**message["result"], "protocolVersion": 1}}
        if id in self.prompts:
            reason = result["stopReason"] if result else None
            self.expected.append((self.prompts[id], reason))
        self.peer.say({**message, "id": id})


@pytest.mark.parametrize("file", TRANSCRIPTS, ids=lambda file: file.stem)
def test_a_recorded_conversation_ends_as_it_did(file: Path) -> None:
    replay = Replay()
    for line in file.read_text().splitlines():
        row = json.loads(line)
        replay.row(row["dir"], row["msg"])
    peer = replay.peer
    assert peer.only(Started).session
    assert replay.prompts
    finished = [(turn.turn, turn.stop_reason) for turn in peer.of(TurnFinished)]
    assert finished == replay.expected
    assert [turn for turn in peer.of(TurnFinished) if turn.outcome == "failed"] == [
        turn for turn in peer.of(TurnFinished) if turn.stop_reason is None
    ]
    assert peer.of(TextReceived) or "cancel" in file.stem
    assert "malformed" not in peer.notices()
    assert "foreign_session" not in peer.notices()


def test_every_agent_was_recorded() -> None:
    assert len(TRANSCRIPTS) == 52
