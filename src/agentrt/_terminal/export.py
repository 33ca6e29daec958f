"""A conversation as a document: Markdown for people, or the snapshot with all there is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, TypeAlias

import msgspec

from .._model.content import Diff, ToolText, plain_text
from .._model.events import Item, Tool
from .._model.state import Snapshot
from .diffs import changes
from .text import one_line, without_controls

ExportFormat: TypeAlias = Literal["markdown", "json"]


def exported(snapshot: Snapshot, format: ExportFormat) -> str:
    """The conversation as a text that ends with a newline."""
    if format == "json":
        return msgspec.json.format(msgspec.json.encode(snapshot)).decode() + "\n"
    return "\n\n".join(_sections(snapshot)) + "\n"


def _sections(snapshot: Snapshot) -> Iterator[str]:
    yield f"# {one_line(snapshot.title or 'A conversation')}"
    agent = snapshot.state.agent
    yield f"With {one_line(agent.name)} {one_line(agent.version or '')}".rstrip() + "."
    speaker = ""
    for item in snapshot.items:
        said = without_controls(item.text or plain_text(item.content)).strip("\n")
        if item.type == "tool" and item.tool is not None:
            yield from _call(item, item.tool)
            continue
        if not said:
            continue
        now = "You" if item.type == "user" else "Agent" if item.type == "text" else speaker
        if now != speaker:
            speaker = now
            yield f"## {now}"
        yield said if item.type in ("user", "text") else _quoted(said)


def _call(item: Item, tool: Tool) -> Iterator[str]:
    """A tool call as a list entry's worth of text, and what came of it."""
    yield f"- **{one_line(tool.kind)}** {_code(one_line(tool.title or tool.name))}: {item.status}"
    for part in tool.content:
        if isinstance(part, Diff):
            yield _block("\n".join([f"# {one_line(part.path)}", *changes(part)]), "diff")
        elif isinstance(part, ToolText):
            text = plain_text([part.content]).strip("\n")
            if text:
                yield _block(text)
    if not tool.content and isinstance(tool.output, str) and tool.output.strip():
        yield _block(tool.output.strip("\n"))


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines())


def _code(text: str) -> str:
    fence = "`" * (_longest_run(text) + 1)
    return f"{fence} {text} {fence}" if len(fence) > 1 else f"`{text}`"


def _block(text: str, language: str = "") -> str:
    """A code block that the text cannot end."""
    fence = "`" * max(3, _longest_run(text) + 1)
    return f"{fence}{language}\n{without_controls(text)}\n{fence}"


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)
