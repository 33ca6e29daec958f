"""Content blocks: what prompts, answers and tool results are made of.

The shapes are ACP's (`ContentBlock`, `ToolCallContent` of the protocol's version 1) and are used
unchanged towards browsers; camelCase is theirs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from msgspec import UNSET, Struct, UnsetType, field

JsonObject: TypeAlias = dict[str, Any]
"""A JSON object whose shape is somebody else's business."""


class Text(Struct, tag_field="type", tag="text", rename="camel", gc=False):
    """Plain text or Markdown."""

    text: str
    annotations: JsonObject | UnsetType | None = UNSET
    meta: JsonObject | UnsetType | None = field(default=UNSET, name="_meta")


class Image(Struct, tag_field="type", tag="image", rename="camel", gc=False):
    """An image; `data` is base64."""

    data: str
    mime_type: str
    uri: str | UnsetType | None = UNSET
    annotations: JsonObject | UnsetType | None = UNSET
    meta: JsonObject | UnsetType | None = field(default=UNSET, name="_meta")


class Audio(Struct, tag_field="type", tag="audio", rename="camel", gc=False):
    """Sound; `data` is base64."""

    data: str
    mime_type: str
    annotations: JsonObject | UnsetType | None = UNSET
    meta: JsonObject | UnsetType | None = field(default=UNSET, name="_meta")


class ResourceLink(Struct, tag_field="type", tag="resource_link", rename="camel", gc=False):
    """A file or other resource that the agent can open by itself."""

    uri: str
    name: str = ""
    title: str | UnsetType | None = UNSET
    description: str | UnsetType | None = UNSET
    mime_type: str | UnsetType | None = UNSET
    size: int | UnsetType | None = UNSET
    annotations: JsonObject | UnsetType | None = UNSET
    meta: JsonObject | UnsetType | None = field(default=UNSET, name="_meta")


class Resource(Struct, tag_field="type", tag="resource"):
    """A resource with its content: `{uri, text, mimeType?}` or `{uri, blob, mimeType?}`."""

    resource: JsonObject
    annotations: JsonObject | UnsetType | None = UNSET
    meta: JsonObject | UnsetType | None = field(default=UNSET, name="_meta")


Block: TypeAlias = Text | Image | Audio | ResourceLink | Resource


class ToolText(Struct, tag_field="type", tag="content"):
    """A content block as part of a tool call's result."""

    content: Block
    meta: JsonObject | UnsetType | None = field(default=UNSET, name="_meta")


class Diff(Struct, tag_field="type", tag="diff", rename="camel", gc=False):
    """A file before and after; `old_text` is None for a new file."""

    path: str
    new_text: str
    old_text: str | None = None
    meta: JsonObject | UnsetType | None = field(default=UNSET, name="_meta")


class TerminalRef(Struct, tag_field="type", tag="terminal", rename="camel", gc=False):
    """A terminal whose live output belongs to the tool call."""

    terminal_id: str
    meta: JsonObject | UnsetType | None = field(default=UNSET, name="_meta")


ToolContent: TypeAlias = ToolText | Diff | TerminalRef

Prompt: TypeAlias = str | Block | Iterable[Block | str]
"""What a prompt may be given as; `blocks` makes a list of blocks of it."""


def blocks(prompt: Prompt) -> list[Block]:
    """The content blocks of a prompt. A string is one text block."""
    if isinstance(prompt, str):
        return [Text(prompt)]
    if isinstance(prompt, Text | Image | Audio | ResourceLink | Resource):
        return [prompt]
    return [Text(part) if isinstance(part, str) else part for part in prompt]


def plain_text(content: Iterable[Block]) -> str:
    """The text of some blocks, for titles and logs; anything else is named in brackets."""
    parts: list[str] = []
    for block in content:
        match block:
            case Text(text=text):
                parts.append(text)
            case ResourceLink(uri=uri):
                parts.append(f"[{uri}]")
            case Resource(resource=resource):
                parts.append(f"[{resource.get('uri', 'resource')}]")
            case Image():
                parts.append("[image]")
            case Audio():
                parts.append("[audio]")
    return "".join(parts)
