"""What a prompt may be given as, and what its text is."""

from __future__ import annotations

import msgspec
import pytest

from agentrt.events import (
    Audio,
    Block,
    Diff,
    Image,
    Resource,
    ResourceLink,
    TerminalRef,
    Text,
    ToolContent,
    ToolText,
    blocks,
    plain_text,
)

EVERY = [
    Text("a"),
    Image("aGk=", "image/png"),
    Audio("aGk=", "audio/wav"),
    ResourceLink("file:///a", "a"),
    Resource({"uri": "file:///b", "text": "b"}),
]


def test_a_string_is_one_block_of_text() -> None:
    assert blocks("hi") == [Text("hi")]


@pytest.mark.parametrize("block", EVERY)
def test_a_block_is_a_prompt_of_itself(block: Block) -> None:
    assert blocks(block) == [block]


def test_strings_and_blocks_may_be_mixed() -> None:
    assert blocks(iter(["look: ", Image("aGk=", "image/png")])) == [Text("look: "), EVERY[1]]


def test_what_is_not_text_is_named_in_brackets() -> None:
    assert plain_text(EVERY) == "a[image][audio][file:///a][file:///b]"


@pytest.mark.parametrize("block", EVERY)
def test_a_block_survives_json(block: Block) -> None:
    assert msgspec.json.decode(msgspec.json.encode(block), type=Block) == block


@pytest.mark.parametrize("part", [ToolText(Text("a")), Diff("p", "n"), TerminalRef("term1")])
def test_tool_content_survives_json(part: ToolContent) -> None:
    assert msgspec.json.decode(msgspec.json.encode(part), type=ToolContent) == part


def test_blocks_are_written_in_the_words_of_the_protocol() -> None:
    assert msgspec.to_builtins(Image("aGk=", "image/png")) == {
        "type": "image",
        "data": "aGk=",
        "mimeType": "image/png",
    }
    assert msgspec.to_builtins(Diff("p", "n")) == {
        "type": "diff",
        "path": "p",
        "newText": "n",
        "oldText": None,
    }
