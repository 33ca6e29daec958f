"""Recorded conversations of version 2 of ACP, repeated with a driver."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from acp_kit import Peer

from agentrt.effects import DecisionRequested
from agentrt.errors import LocalProtocolError
from agentrt.events import Text
from agentrt.lowlevel import DecisionAnswer, Opening

FOLDER = Path(__file__).parent / "transcripts2"
TRANSCRIPTS = sorted(FOLDER.glob("*.ndjson"))


def rows(file: Path) -> list[tuple[str, Any]]:
    """The messages of a recording, each with its direction."""
    found = (json.loads(line) for line in file.read_text().splitlines())
    return [(row["dir"], row["msg"]) for row in found if isinstance(row["msg"], dict)]


class Replay:
    """Does what the recorded client did, and lets the recorded agent answer."""

    def __init__(self) -> None:
        self.greeting: Any = None
        self.peer = Peer()
        self.ids: dict[Any, int] = {}
        """Ids of the recorded client, and ours for the same request."""
        self.keys: dict[Any, str] = {}
        self.prompts: list[str] = []
        self.all: list[Any] = []
        """The effects of all sessions."""

    def run(self, file: Path) -> None:
        self.run_rows(rows(file))

    def run_rows(self, found: Iterable[tuple[str, Any]]) -> None:
        for direction, message in found:
            self.row(direction, message)
        self.all += self.peer.effects

    def row(self, direction: str, message: Any) -> None:
        match direction, message:
            case "c>a", {"method": "initialize", "id": id}:
                if not self.ids:
                    self.open(Opening(cwd="/project"))
                    self.ids[id] = 1
            case "c>a", {"method": "session/new", "id": id}:
                sent = [line for line in self.peer.sent if line.get("method") == "session/new"]
                self.ids[id] = sent[-1]["id"] if sent else 1000
            case "c>a", {"method": "session/resume", "id": id, "params": params}:
                opening = Opening(cwd="/project", resume=params["sessionId"])
                self.open(opening)
                self.peer.answer(1, self.greeting)
                self.ids[id] = self.peer.last("session/resume")["id"]
            case "c>a", {"method": "session/prompt", "id": id, "params": params}:
                content = [Text(each["text"]) for each in params["prompt"] if "text" in each]
                if content:  # agentrt sends no empty one
                    self.prompt(id, content)
            case "c>a", {"method": "session/cancel"}:
                self.peer.do(self.peer.driver.cancel())
            case "c>a", {"id": id, "result": result} if id in self.keys:
                outcome = result.get("outcome") or {}
                self.answer(id, outcome.get("optionId") if isinstance(outcome, dict) else None)
            case "a>c", {"method": str()}:
                before = len(self.peer.of(DecisionRequested))
                self.peer.say(message)
                for asked in self.peer.of(DecisionRequested)[before:]:
                    self.keys[message["id"]] = asked.key
            case "a>c", dict():
                id = self.ids.pop(message.get("id"), 1000)
                if id == 1:
                    self.greeting = message["result"]
                    self.peer.version = 2
                self.peer.say({**message, "id": id})

    def open(self, opening: Opening) -> None:
        self.all += self.peer.effects
        self.peer = Peer(version=2)
        self.peer.start(opening)
        self.peer.version = 2

    def prompt(self, id: Any, content: list[Text]) -> None:
        turn = f"t{id}"
        before = len(self.peer.sent)
        try:
            self.peer.do(self.peer.driver.prompt(turn, content))
        except LocalProtocolError:  # the recorded client sent a second one; agentrt never does
            return
        self.prompts.append(turn)
        self.ids[id] = self.peer.sent[before]["id"]

    def answer(self, id: Any, option: str | None) -> None:
        key = self.keys.pop(id)
        try:
            self.peer.do(self.peer.driver.answer(key, DecisionAnswer(option=option)))
        except LocalProtocolError:  # an option that was not offered
            self.peer.do(self.peer.driver.answer(key, DecisionAnswer()))
