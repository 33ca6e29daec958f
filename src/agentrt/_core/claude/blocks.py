"""Conversion of content blocks between the neutral form and Claude's.

Claude's blocks are those of Anthropic's Messages API, with further ones for the results of tools
that the provider runs. A prompt can have text, images and PDF files. A link to a file becomes the
mention `@path`, which Claude Code expands by itself; an embedded text becomes a tagged section.
Blocks that only the model can read are left out, and blocks of an unknown kind are shown as JSON.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote, unquote, urlparse

from msgspec import UNSET, json

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
    """Convert a block of a prompt. Raises `LocalProtocolError` for audio."""
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
            raise LocalProtocolError("Claude Code does not accept audio")


def _resource(resource: JsonObject) -> list[JsonObject]:
    """Convert an embedded file: an image, a PDF, or text in a tag that names its source."""
    uri = str(resource.get("uri", ""))
    mime = str(resource.get("mimeType") or "")
    blob = resource.get("blob")
    if isinstance(blob, str):
        if mime.startswith("image/"):
            return [_base64("image", mime, blob)]
        if mime == "application/pdf":
            return [_base64("document", mime, blob)]
        raise LocalProtocolError(f"Claude Code does not accept a resource of type {mime!r}")
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
    """Return a text block."""
    return {"type": "text", "text": text}


def _base64(kind: str, mime: str, data: str) -> JsonObject:
    """Return a block with encoded data."""
    return {"type": kind, "source": {"type": "base64", "media_type": mime, "data": data}}


def from_claude(content: Any) -> list[Block]:
    """Convert the content of a tool result or a user message.

    A block of an unknown kind becomes its JSON, without what is encrypted.
    """
    if isinstance(content, str):
        return [Text(content)] if content else []
    if isinstance(content, dict):  # the result of a tool that the model's provider runs
        content = [content]
    if not isinstance(content, list):
        return []
    return [block for part in content for block in _from_claude(part)]


def _from_claude(part: Any) -> Iterable[Block]:
    """Convert a block; one that cannot be converted is shown as JSON."""
    if not isinstance(part, dict):
        return
    kind, text = part.get("type"), part.get("text")
    if isinstance(text, str):
        yield Text(text)
    elif kind not in HIDDEN:
        made = list(MAKERS[kind](part)) if kind in MAKERS else []
        yield from made or (Text(json.encode(_open(part)).decode()),)


def _image(part: JsonObject) -> Iterable[Block]:
    """Convert an image, in the form of the API or of MCP."""
    source = part.get("source")
    if isinstance(source, dict) and isinstance(source.get("data"), str):
        yield Image(source["data"], str(source.get("media_type") or "image/png"))
    elif isinstance(part.get("data"), str):  # MCP's form
        yield Image(part["data"], str(part.get("mimeType") or "image/png"))


def _link(part: JsonObject) -> Iterable[Block]:
    """Convert MCP's link to a resource."""
    if isinstance(part.get("uri"), str):
        yield ResourceLink(part["uri"], str(part.get("name") or ""))


def _found(part: JsonObject) -> Iterable[Block]:
    """Convert a result of a web search; the age of the page becomes the description."""
    url, age = part.get("url"), part.get("page_age")
    if isinstance(url, str):
        description = age if isinstance(age, str) else UNSET
        yield ResourceLink(url, str(part.get("title") or ""), description=description)


def _fetched(part: JsonObject) -> Iterable[Block]:
    """Convert a fetched page: a link to it, and its content."""
    if isinstance(part.get("url"), str):
        yield ResourceLink(part["url"], part["url"])
        yield from from_claude(part.get("content"))


def _document(part: JsonObject) -> Iterable[Block]:
    """Convert a document: text, data or a link, as its source has it."""
    source, title = part.get("source"), part.get("title")
    if not isinstance(source, dict):
        return
    data, mime = source.get("data"), str(source.get("media_type") or "text/plain")
    if isinstance(data, str) and source.get("type") == "text":
        yield Text(data)
    elif isinstance(data, str):
        name = title if isinstance(title, str) else "document"
        yield Resource({"uri": name, "mimeType": mime, "blob": data})
    elif isinstance(source.get("url"), str):
        yield ResourceLink(source["url"], str(title or ""))


MAKERS: Final[Mapping[Any, Callable[[JsonObject], Iterable[Block]]]] = {
    "image": _image,
    "resource_link": _link,
    "web_search_result": _found,
    "web_fetch_result": _fetched,
    "document": _document,
}
"""Makers of blocks, by Claude's kind of block."""
HIDDEN: Final = frozenset({"redacted_thinking", "tool_reference", "container_upload"})
"""Kinds of blocks that only the model reads."""
_SEALED: Final = frozenset(
    {"encrypted_content", "encrypted_stdout", "encrypted_index", "signature"}
)


def _open(part: JsonObject) -> JsonObject:
    """Return a block without its encrypted members."""
    return {name: value for name, value in part.items() if name not in _SEALED}


def citation_of(given: Any) -> ResourceLink | None:
    """Return the source that a citation names, with the cited text, or None."""
    if not isinstance(given, dict):
        return None
    uri = given.get("url") or given.get("source") or given.get("file_id")
    title = given.get("title") or given.get("document_title")
    cited = given.get("cited_text")
    if not isinstance(uri, str) and not isinstance(title, str):
        return None
    return ResourceLink(
        uri if isinstance(uri, str) else str(title),
        title if isinstance(title, str) else "",
        description=cited if isinstance(cited, str) else UNSET,
    )


def tool_content(content: Any) -> list[ToolContent]:
    """Convert a tool result's content for display."""
    return [ToolText(block) for block in from_claude(content)]
