"""A session as updates of ACP: whatever happens, what the client shows is what there is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import repeat
from random import Random
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.effects import TaskSet, ToolCalled
from agentrt.events import TERMINAL, Task
from agentrt.jsonrpc import encode_line
from clients.random_turns import Story, in_pieces, updates_of
from model.talk import Talk


class Client:
    """What an ACP client makes of updates."""

    def __init__(self, story: Story) -> None:
        self.messages: dict[str, str] = {}
        self.blocks: dict[str, list[dict[str, Any]]] = {}
        self.tools: dict[str, dict[str, Any]] = {}
        self.plan: list[dict[str, Any]] = []
        self._story = story
        self._look = updates_of(story.log)
        self._updates: Iterator[Any] = iter(())

    def look(self, count: int | None = None) -> None:
        """Take so many updates, or all; what was left over goes on."""
        for _ in repeat(None) if count is None else range(count):
            update = next(self._updates, None)
            if update is None:
                self._updates = self._look()
                update = next(self._updates, None)
            if update is None:
                break
            self._take(json.loads(encode_line(update)))

    def _take(self, update: dict[str, Any]) -> None:
        kind = update.pop("sessionUpdate")
        if kind.endswith("_chunk"):
            content = update["content"]
            if content["type"] == "text":
                text = self.messages.get(update["messageId"], "")
                self.messages[update["messageId"]] = text + content["text"]
            else:
                self.blocks.setdefault(update["messageId"], []).append(content)
        elif kind == "tool_call":
            assert update["toolCallId"] not in self.tools
            self.tools[update["toolCallId"]] = update
        elif kind == "tool_call_update":
            assert len(update) > 1, "an update that says nothing"
            self.tools[update["toolCallId"]] |= update
        else:
            assert kind == "plan"
            self.plan = update["entries"]

    def shown(self) -> Any:
        return self.messages, self.blocks, self.tools, self.plan


def play(seed: int, ring: int) -> tuple[Story, Client]:
    random = Random(seed)
    story = Story(random, ring=ring)
    client = Client(story)
    with in_pieces(random):
        for _ in range(random.randrange(40)):
            story.go_on()
            if random.random() < 0.4:
                client.look(random.choice((None, None, 1, 2, 5)))
        story.end()
        client.look()
    return story, client


@given(st.integers(0, 2**64), st.sampled_from((4, 4096)))
def test_one_that_looks_now_and_then_shows_all_of_it(seed: int, ring: int) -> None:
    story, client = play(seed, ring)
    for item in story.state.items.values():
        if item.type == "tool":
            call = client.tools[item.id]
            assert call["status"] == ("completed" if item.status == "completed" else "failed")
            if item.status in TERMINAL and item.status not in ("completed", "failed"):
                assert call["_meta"]["agentrt"]["status"] == item.status
            assert call.get("rawInput") == (item.tool.input if item.tool is not None else None)
        elif item.type != "user":
            assert client.messages.get(item.id, "") == story.state.text(item.id)
            assert len(client.blocks.get(item.id, [])) == len(item.content)


@given(st.integers(0, 2**64))
def test_one_that_loads_the_session_shows_the_same_as_one_who_was_there(seed: int) -> None:
    story, client = play(seed, 4096)
    late = Client(story)
    late.look()
    assert late.shown() == client.shown()


@pytest.mark.parametrize("version", [1, 2])
def test_work_whose_call_becomes_known_late_is_one_call_until_its_end(
    version: Literal[1, 2],
) -> None:
    """As with Claude Code: a viewer between the two messages has seen a call of its own."""
    talk = Talk()
    talk.begin([])
    updates = updates_of(talk.log, version)
    calls: dict[str, dict[str, Any]] = {}

    def look() -> None:
        for update in updates():
            if "toolCallId" in update:
                calls.setdefault(update["toolCallId"], {}).update(update)

    for task, call in (
        (Task(id="T", title="look"), None),
        (Task(id="T", title="look", detail="half"), "c"),
        (Task(id="T", title="look", status="completed", detail="all"), "c"),
    ):
        talk.tell(ToolCalled(id="c", name="Agent", title="Agent"))
        talk.tell(TaskSet(task, call=call))
        talk.step()
        look()
    own = calls.pop("task-T")
    assert own["status"] == "completed"
    assert own["_meta"]["agentrt"]["task"]["status"] == "completed"
    assert "all" in str(own["content"])
    assert all("task" not in each.get("_meta", {}).get("agentrt", {}) for each in calls.values())
