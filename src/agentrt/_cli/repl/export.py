"""A conversation as a document: Markdown for people, or the complete snapshot as JSON.

In Markdown, every text of the conversation is a block quote, so that no heading, fence or comment
in it can look like a part of the document, such as the next prompt.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Literal, TypeAlias

import msgspec

from ...events import Diff, Item, Snapshot, ToolCall, ToolText, TurnRecord, plain_text
from ..session_view import text_of
from ..text import one_line, without_controls
from .view import changes, how_it_ended

ExportFormat: TypeAlias = Literal["markdown", "json"]


def exported(snapshot: Snapshot, format: ExportFormat) -> str:
    """Return the conversation as a text that ends with a newline."""
    if format == "json":
        return msgspec.json.format(msgspec.json.encode(snapshot)).decode() + "\n"
    return "\n\n".join(_sections(snapshot)) + "\n"


_SPEAKERS: Final = {"user": "You", "text": "Agent"}


def _sections(snapshot: Snapshot) -> Iterator[str]:
    """Yield the parts of a conversation in Markdown, to be separated by blank lines.

    A heading names the speaker, once for all texts in a row. All texts are quoted, so none can
    look like one of these headings.
    """
    yield f"# {one_line(snapshot.title or 'A conversation')}"
    agent = snapshot.state.agent
    yield f"With {one_line(agent.name)} {one_line(agent.version or '')}".rstrip() + "."
    turns = {turn.id: turn for turn in snapshot.turns}
    speaker, last = "", None
    for item in snapshot.items:
        if item.turn != last:
            yield from _end(turns.get(last or ""))
            speaker, last = "", item.turn
        if item.type == "tool" and item.tool is not None:
            yield from _call(item, item.tool)
            continue
        text = _text_of(item)
        if not text:
            continue
        now = _SPEAKERS.get(item.type, speaker)
        if now != speaker:
            speaker = now
            yield f"## {now}"
        yield _quoted(text if item.type in _SPEAKERS else f"*{item.type}:* {text}")
    yield from _end(turns.get(last or ""))


def _text_of(item: Item) -> str:
    text = item.text or (text_of if item.type == "user" else plain_text)(item.content)
    return without_controls(text).strip("\n")


def _end(turn: TurnRecord | None) -> Iterator[str]:
    """Yield the unexpected end of a turn."""
    words = how_it_ended(turn) if turn is not None and turn.outcome is not None else None
    if words is not None:
        yield f"*{one_line(words, 1000)}*"


def _call(item: Item, tool: ToolCall) -> Iterator[str]:
    """Yield a tool call as a list entry, and its results."""
    yield f"- **{one_line(tool.kind)}** {_code(one_line(tool.title or tool.name))}: {item.status}"
    for part in tool.content:
        if isinstance(part, Diff):
            yield _block("\n".join([f"# {one_line(part.path)}", *changes(part)]), "diff")
        elif isinstance(part, ToolText):
            text = plain_text([part.content]).strip("\n")
            if text:
                yield _block(text)
    output = item.text or (tool.output if isinstance(tool.output, str) else "")
    if not tool.content and output.strip():
        yield _block(output.strip("\n"))


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines() or [""])


def _code(text: str) -> str:
    fence = "`" * (_longest_run(text) + 1)
    return f"{fence} {text} {fence}" if len(fence) > 1 else f"`{text}`"


def _block(text: str, language: str = "") -> str:
    """Return a code block that the text cannot end."""
    fence = "`" * max(3, _longest_run(text) + 1)
    return f"{fence}{language}\n{without_controls(text)}\n{fence}"


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)
