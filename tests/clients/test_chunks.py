"""A turn as chunks of the AI SDK: whatever happens, what the client shows is what there is."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from itertools import repeat
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.jsonrpc import encode_line
from clients.install import root
from clients.kit import HERE
from clients.random_turns import TURN, Story, in_pieces, message_of
from clients.ui_message import Reader

Segment = tuple[list[dict[str, Any]], list[dict[str, Any]], Reader]
"""A message's parts, the chunks of one stream, and what they make of the message."""


class Client:
    """A chat that looks now and then, answers what it is asked, and may begin anew."""

    def __init__(self, story: Story) -> None:
        self.story = story
        self.segments: list[Segment] = []
        self.request(None)

    def request(self, parts: list[dict[str, Any]] | None) -> None:
        story = self.story
        owns = story.own.__contains__
        self.message = message_of(story.log, owns, parts)
        self.reader = Reader(parts)
        self.segments.append((parts or [], [], self.reader))
        self._chunks: Iterator[Any] = iter(())

    def look(self, count: int | None = None) -> None:
        """Take so many chunks, or all; what was left over goes on."""
        for _ in repeat(None) if count is None else range(count):
            chunk = next(self._chunks, None)
            if chunk is None:
                self._chunks = self.message.chunks()
                chunk = next(self._chunks, None)
            if chunk is None:
                break
            plain = json.loads(encode_line(chunk))
            self.segments[-1][1].append(plain)
            self.reader.take(plain)
        if count is None:
            assert self.message.done == (self.reader.finished is not None)

    def answer(self) -> None:
        """What the application does when a stream has ended with a question."""
        assert self.reader.finished == "tool-calls"
        assert not self.reader.goes_on(), "the SDK would send it again without an answer"
        parts: list[dict[str, Any]] = json.loads(json.dumps(self.reader.parts))
        for part in parts:
            state, id = part.get("state"), part.get("toolCallId")
            if state == "approval-requested":
                request = part["approval"]["id"]
                part["state"] = "approval-responded"
                part["approval"]["approved"] = True
                if request in self.story.state.permissions:
                    self.story.answer(request)
            elif state == "input-available" and not part["providerExecuted"]:
                part |= {"state": "output-available", "output": 7}
                if id in self.story.own:
                    self.story.run(str(id))
        self.request(parts)

    def check(self) -> None:
        """Behind the end: everything is there, once, and closed."""
        state, tools = self.story.state, self.reader.tools
        items = [item for item in state.items.values() if item.turn == TURN]
        shown = {item.id for item in items if item.type == "tool"}
        assert shown == {id for id in tools if id.startswith("i")}
        assert all(part["state"].startswith("output-") for part in tools.values()), tools
        for item in items:
            if item.type in ("text", "thought"):
                mine = [p for p in self.reader.parts if of(p) == item.id and "text" in p]
                assert "".join(p["text"] for p in mine) == state.text(item.id)
                files = [p for p in self.reader.parts if of(p) == item.id and "url" in p]
                assert len(files) == len(item.content)
            elif item.type == "tool" and item.status == "completed":
                assert tools[item.id]["state"] == "output-available"
        assert not self.reader.goes_on(), "the SDK would send it again for ever"


def of(part: dict[str, Any]) -> str | None:
    item: str | None = part.get("providerMetadata", {}).get("agentrt", {}).get("item")
    return item


def play(seed: int, *, ring: int = 4096) -> Client:
    """A turn from its beginning to its end, with a client that is there for all of it."""
    random = Random(seed)
    with in_pieces(random):
        return go_through(random, ring)


def go_through(random: Random, ring: int) -> Client:
    story = Story(random, ring=ring)
    client = Client(story)
    for _ in range(random.randrange(40)):
        story.go_on()
        if random.random() < 0.4:
            client.look(random.choice((None, None, 1, 2, 5)))
            if client.reader.finished and random.random() < 0.7:
                client.answer()
        if random.random() < 0.05:  # cut off, or another tab: it begins with nothing
            client.request(None)
    story.end()
    client.look()
    while client.reader.finished == "tool-calls":
        client.answer()
        client.look()
    return client


@given(st.integers(0, 2**64))
def test_a_client_that_was_there_for_all_of_it_shows_all_of_it(seed: int) -> None:
    play(seed).check()


@given(st.integers(0, 2**64))
def test_one_that_fell_behind_the_log_misses_nothing(seed: int) -> None:
    play(seed, ring=4).check()


@given(st.integers(0, 2**64))
def test_a_resumed_message_is_what_one_looked_on_at(seed: int) -> None:
    story = play(seed).story
    client = Client(story)
    client.look()
    client.check()


@pytest.mark.slow
@pytest.mark.usefixtures("npm_packages")
def test_the_sdk_reads_each_stream_as_it_is_meant() -> None:
    """The same stories, read by the SDK itself: its schemas take every chunk and every message, and
    its message is the one that the other tests here look at."""
    stories = [play(seed) for seed in range(150)]
    segments = [segment for story in stories for segment in story.segments if segment[1]]
    lines = [json.dumps({"parts": parts, "chunks": chunks}) for parts, chunks, _ in segments]
    node = ["node", "--input-type=module", "--eval", (HERE / "ai_reader.mjs").read_text()]
    run = subprocess.run(
        node, input="\n".join(lines), cwd=root(), capture_output=True, text=True, timeout=120
    )
    assert run.returncode == 0, run.stderr
    results = [json.loads(line) for line in run.stdout.splitlines()]
    assert len(results) == len(segments)
    for result, (_, chunks, reader) in zip(results, segments, strict=True):
        assert result["errors"] == ([reader.error] if reader.error else []), chunks
        shown = [without_none(part) for part in result["parts"]]
        assert shown == [without_none(part) for part in reader.parts]


def without_none(part: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in part.items() if value is not None}
