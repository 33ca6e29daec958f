"""Conversion of content blocks between the neutral form and Claude's."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import quote, unquote, urlparse

from ..errors import LocalProtocolError
from ..model.content import (
    Audio,
    Block,
    Image,
    JsonObject,
    Resource,
    ResourceLink,
    Text,
    ToolContent,
    ToolText,
)


def to_claude(content: Sequence[Block]) -> str | list[JsonObject]:
    """Convert a prompt's content to that of a user message.

    A single text block stays a string, so that slash commands are recognised. Raises
    `LocalProtocolError` for content that Claude does not accept.
    """
    if len(content) == 1 and isinstance(content[0], Text):
        return content[0].text
    return [part for block in content for part in _to_claude(block)]


def _to_claude(block: Block) -> list[JsonObject]:
    match block:
        case Text(text=text):
            return [_text(text)]
        case Image(data=data, mime_type=mime):
            return [_base64("image", mime, data)]
        case ResourceLink(uri=uri, name=name):
            return [_text(_mention(uri, name))]
        case Resource(resource=resource):
            return _resource(resource)
        case Audio():
            raise LocalProtocolError("Claude takes no audio")


def _resource(resource: JsonObject) -> list[JsonObject]:
    uri = str(resource.get("uri", ""))
    mime = str(resource.get("mimeType") or "")
    blob = resource.get("blob")
    if isinstance(blob, str):
        if mime.startswith("image/"):
            return [_base64("image", mime, blob)]
        if mime == "application/pdf":
            return [_base64("document", mime, blob)]
        raise LocalProtocolError(f"Claude takes no resource of type {mime!r}")
    text = str(resource.get("text", ""))
    tag = _tag_for(text)
    return [_text(f'{_mention(uri, "")}\n<{tag} ref="{_encoded(uri)}">\n{text}\n</{tag}>')]


def _tag_for(text: str) -> str:
    """Return a tag name that the text itself cannot close."""
    lowered = text.lower()
    names = itertools.chain(["context"], (f"context-{number}" for number in itertools.count(2)))
    return next(name for name in names if f"</{name}" not in lowered)


def _encoded(uri: str) -> str:
    """Quote the characters of a URI that would end an attribute or its tag."""
    unfit = {c for c in uri if c in '"<>' or c.isspace() or not c.isprintable()}
    return "".join(quote(c, errors="replace") if c in unfit else c for c in uri)


def _mention(uri: str, name: str) -> str:
    """Return a resource's mention in a prompt: `@path` makes Claude Code open the file by
    itself."""
    try:
        parts = urlparse(uri)
    except ValueError:  # such as `http://[x`
        return f"[{name}]({uri})" if name else uri
    path = unquote(parts.path)
    if parts.scheme == "file" and path.isprintable() and '"' not in path:
        return f'@"{path}"' if " " in path else f"@{path}"
    return f"[{name}]({uri})" if name else uri


def _text(text: str) -> JsonObject:
    return {"type": "text", "text": text}


def _base64(kind: str, mime: str, data: str) -> JsonObject:
    return {"type": kind, "source": {"type": "base64", "media_type": mime, "data": data}}


def from_claude(content: Any) -> list[Block]:
    """Convert the content of a tool result or a user message. Blocks without a counterpart are
    omitted."""
    if isinstance(content, str):
        return [Text(content)] if content else []
    if not isinstance(content, list):
        return []
    return [block for part in content for block in _from_claude(part)]


def _from_claude(part: Any) -> Iterable[Block]:
    if not isinstance(part, dict):
        return
    text, source = part.get("text"), part.get("source")
    if isinstance(text, str):
        yield Text(text)
    elif part.get("type") == "image":
        if isinstance(source, dict) and isinstance(source.get("data"), str):
            yield Image(source["data"], str(source.get("media_type") or "image/png"))
        elif isinstance(part.get("data"), str):  # MCP's form
            yield Image(part["data"], str(part.get("mimeType") or "image/png"))
    elif part.get("type") == "resource_link" and isinstance(part.get("uri"), str):
        yield ResourceLink(part["uri"], str(part.get("name") or ""))


def tool_content(content: Any) -> list[ToolContent]:
    """Convert a tool result's content for display."""
    return [ToolText(block) for block in from_claude(content)]
