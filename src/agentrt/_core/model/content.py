"""Content blocks of prompts, answers and tool results.

The shapes are those of ACP (`ContentBlock` and `ToolCallContent` in version 1 of the protocol) and
go to browsers unchanged; this is the reason for camelCase.
"""

from __future__ import annotations

import os
import re
from base64 import b64encode
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import UNSET, Struct, UnsetType, field

from ..errors import LocalProtocolError
from ..limits import MAX_NESTING, is_too_nested

MAX_FILE_BYTES: Final = 16 * 1024 * 1024
"""Bytes of a file in a prompt. Models accept less: most no image above 5 MB."""

_BEGINNINGS: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"BM", "image/bmp"),
    (b"ID3", "audio/mpeg"),
    (b"\xff\xfb", "audio/mpeg"),
    (b"\xff\xf3", "audio/mpeg"),
    (b"OggS", "audio/ogg"),
    (b"fLaC", "audio/flac"),
)
_HUNK: Final = re.compile(r"^@@ .*\n?", re.MULTILINE)
_RIFF: Final = {b"WEBP": "image/webp", b"WAVE": "audio/wav"}
_BRANDS: Final = {b"M4A ": "audio/mp4", b"avif": "image/avif", b"heic": "image/heic"}


def media_type(data: bytes, name: str = "") -> str | None:
    """Return the MIME type, or None if it cannot be determined."""
    if data[:4] == b"RIFF" and data[8:12] in _RIFF:
        return _RIFF[data[8:12]]
    if data[4:8] == b"ftyp" and data[8:12] in _BRANDS:
        return _BRANDS[data[8:12]]
    for beginning, kind in _BEGINNINGS:
        if data.startswith(beginning):
            return kind
    import mimetypes  # reads the system's tables, and few sessions need it

    return mimetypes.guess_type(name)[0]


def read_media(
    path: str | os.PathLike[str], kind: str, mime_type: str | None, largest: int
) -> tuple[bytes, str]:
    """Return a file's bytes and MIME type, which must be of that `kind` (such as `image`).

    Raises `OSError`, and the same errors as `check_media`.
    """
    data = read_file(path, largest)
    return data, check_media(data, kind, mime_type, os.fspath(path))


def read_file(path: str | os.PathLike[str], largest: int) -> bytes:
    """Return a file's bytes. Raises `OSError`, or `LocalProtocolError` if it is too large."""
    with Path(path).open("rb") as file:
        data = file.read(largest + 1)
    check_size(len(data), largest, os.fspath(path))
    return data


def check_size(size: int, largest: int, name: str) -> None:
    """Raise `LocalProtocolError` if the size is too large for a prompt."""
    if size > largest:
        raise LocalProtocolError(
            f"{name or 'it'} has more than {largest} bytes, which is too much for a prompt: make it"
            " smaller, send a ResourceLink, or give `largest`"
        )


def check_name(mime_type: str | None) -> None:
    """Raise `TypeError` unless the MIME type is a string or None."""
    if not isinstance(mime_type, str | None):
        raise TypeError(f"mime_type: a string such as 'image/png', not {type(mime_type).__name__}")


def check_media(data: bytes, kind: str, mime_type: str | None, name: str = "") -> str:
    """Return the MIME type of bytes.

    Raises `LocalProtocolError` if it is unknown or of another kind, and `TypeError` if `data` is
    not bytes.
    """
    if not isinstance(data, bytes | bytearray | memoryview):
        raise TypeError(f"content must be bytes, not {type(data).__name__}")
    check_name(mime_type)
    found = mime_type or media_type(data, name)
    if found is None:
        raise LocalProtocolError(
            f"cannot determine the type of {name or 'these bytes'}: give `mime_type` of the {kind}"
        )
    if not found.startswith(f"{kind}/"):
        raise LocalProtocolError(f"{name or 'this'} has the type {found}, expected {kind}/…")
    return found


JsonObject: TypeAlias = dict[str, Any]
"""A JSON object of a shape that agentrt does not define."""


class Cut(Struct, omit_defaults=True, kw_only=True, gc=False):
    """A large member of an object of which only a preview was sent to a viewer.

    Objects that a viewer gets have these under `_cut`, by the member's name. The command `content`
    returns the rest.
    """

    at: str = ""
    """The place of the complete value, for `content`. Empty if it cannot be requested."""
    chars: int
    """Length of the complete text, or of its JSON if `json` is true."""
    start: int = 0
    """Index of the first character of the preview: more than 0 if the end of a text is shown."""
    json: bool = False
    """True if the value is a list or an object that lacks some of its parts. `content` returns it
    as JSON.
    """


class Text(Struct, tag_field="type", tag="text", rename="camel", gc=False):
    """Plain text or Markdown."""

    text: str
    """The text."""
    annotations: JsonObject | UnsetType | None = UNSET
    """Hints of the protocol, such as the audience. Passed on unchanged."""
    meta: JsonObject | UnsetType | None = field(default=UNSET, name="_meta")
    """Further data of the sender, `_meta` on the wire. Passed on unchanged."""
    cut: dict[str, Cut] | UnsetType = field(default=UNSET, name="_cut")
    """Members of which this is only a preview, `_cut` in JSON. Set only in objects for viewers."""


class Image(Struct, tag_field="type", tag="image", rename="camel", gc=False):
    """An image. `data` is base64."""

    data: str
    """The bytes, in base64."""
    mime_type: str
    """Such as `image/png`."""
    uri: str | UnsetType | None = UNSET
    """The place that the image comes from, if it has one."""
    annotations: JsonObject | UnsetType | None = UNSET
    """As in `Text`."""
    meta: JsonObject | UnsetType | None = field(default=UNSET, name="_meta")
    """As in `Text`."""
    cut: dict[str, Cut] | UnsetType = field(default=UNSET, name="_cut")
    """Members of which this is only a preview, `_cut` in JSON. Set only in objects for viewers."""

    @classmethod
    def from_path(
        cls,
        path: str | os.PathLike[str],
        *,
        mime_type: str | None = None,
        largest: int = MAX_FILE_BYTES,
    ) -> Image:
        """Read an image file.

        The MIME type is detected from the first bytes, or else from the file name. Blocks until the
        disk has answered, like the other `from_path` methods that read a file. Raises `OSError` if
        the file cannot be read, and `LocalProtocolError` if it is larger than `largest` bytes or
        not an image.
        """
        data, kind = read_media(path, "image", mime_type, largest)
        return cls(b64encode(data).decode(), kind)

    @classmethod
    def from_bytes(
        cls, data: bytes, *, mime_type: str | None = None, largest: int = MAX_FILE_BYTES
    ) -> Image:
        """Make an image block from bytes; see `from_path`."""
        kind = check_media(data, "image", mime_type)
        check_size(len(data), largest, "the image")
        return cls(b64encode(data).decode(), kind)


class Audio(Struct, tag_field="type", tag="audio", rename="camel", gc=False):
    """Sound. `data` is base64."""

    data: str
    """The bytes, in base64."""
    mime_type: str
    """Such as `audio/wav`."""
    annotations: JsonObject | UnsetType | None = UNSET
    """As in `Text`."""
    meta: JsonObject | UnsetType | None = field(default=UNSET, name="_meta")
    """As in `Text`."""
    cut: dict[str, Cut] | UnsetType = field(default=UNSET, name="_cut")
    """Members of which this is only a preview, `_cut` in JSON. Set only in objects for viewers."""

    @classmethod
    def from_path(
        cls,
        path: str | os.PathLike[str],
        *,
        mime_type: str | None = None,
        largest: int = MAX_FILE_BYTES,
    ) -> Audio:
        """Read a sound file; see `Image.from_path`."""
        data, kind = read_media(path, "audio", mime_type, largest)
        return cls(b64encode(data).decode(), kind)

    @classmethod
    def from_bytes(
        cls, data: bytes, *, mime_type: str | None = None, largest: int = MAX_FILE_BYTES
    ) -> Audio:
        """Make a sound block from bytes; see `Image.from_path`."""
        kind = check_media(data, "audio", mime_type)
        check_size(len(data), largest, "the sound")
        return cls(b64encode(data).decode(), kind)


class ResourceLink(Struct, tag_field="type", tag="resource_link", rename="camel", gc=False):
    """A file or other resource that the agent can open by itself."""

    uri: str
    """The address. `file:///…` for a file on this machine."""
    name: str = ""
    """A short name for people, usually the file name."""
    title: str | UnsetType | None = UNSET
    """A longer name for people."""
    description: str | UnsetType | None = UNSET
    """One or two sentences for people or for the model."""
    mime_type: str | UnsetType | None = UNSET
    """Such as `text/plain`."""
    size: int | UnsetType | None = UNSET
    """In bytes, if known."""
    annotations: JsonObject | UnsetType | None = UNSET
    """As in `Text`."""
    meta: JsonObject | UnsetType | None = field(default=UNSET, name="_meta")
    """As in `Text`."""

    @classmethod
    def from_path(
        cls, path: str | os.PathLike[str], *, mime_type: str | None = None
    ) -> ResourceLink:
        """Link to a file without reading its content; the agent opens it.

        Raises `OSError` if the file does not exist.
        """
        file = Path(path).absolute()
        size = file.stat().st_size
        check_name(mime_type)
        kind = mime_type or media_type(b"", file.name) or UNSET
        return cls(file.as_uri(), file.name, mime_type=kind, size=size)


class Resource(Struct, tag_field="type", tag="resource", gc=False):
    """A resource with its content: `{uri, text, mimeType?}` or `{uri, blob, mimeType?}`."""

    resource: JsonObject
    """The resource, in the protocol's shape."""
    annotations: JsonObject | UnsetType | None = UNSET
    """As in `Text`."""
    meta: JsonObject | UnsetType | None = field(default=UNSET, name="_meta")
    """As in `Text`."""
    cut: dict[str, Cut] | UnsetType = field(default=UNSET, name="_cut")
    """Members of which this is only a preview, `_cut` in JSON. Set only in objects for viewers."""

    @classmethod
    def from_path(
        cls,
        path: str | os.PathLike[str],
        *,
        mime_type: str | None = None,
        largest: int = MAX_FILE_BYTES,
    ) -> Resource:
        """Read a file: as `text` if it is UTF-8, else as `blob`.

        Raises the same errors as `Image.from_path`.
        """
        file = Path(path).absolute()
        data = read_file(file, largest)
        resource: JsonObject = {"uri": file.as_uri()}
        if kind := mime_type or media_type(data, file.name):
            resource["mimeType"] = kind
        try:
            resource["text"] = data.decode()
        except UnicodeDecodeError:
            resource["blob"] = b64encode(data).decode()
        return cls(resource)

    @classmethod
    def from_text(cls, uri: str, text: str, *, mime_type: str | None = None) -> Resource:
        """Make a resource of text under a URI of your choice, such as an unsaved buffer."""
        resource: JsonObject = {"uri": uri, "text": text}
        if mime_type is not None:
            resource["mimeType"] = mime_type
        for name, value in resource.items():
            if not isinstance(value, str):
                raise TypeError(f"{name}: a string, not {type(value).__name__}")
        return cls(resource)


Block: TypeAlias = Text | Image | Audio | ResourceLink | Resource
"""A content block of a prompt or an answer."""


class ToolText(Struct, tag_field="type", tag="content", gc=False):
    """A content block in a tool call's result."""

    content: Block
    """A content block, of any type."""
    meta: JsonObject | UnsetType | None = field(default=UNSET, name="_meta")
    """As in `Text`."""


class Diff(Struct, tag_field="type", tag="diff", rename="camel", gc=False):
    """A file before and after a change. `old_text` is None for a new file."""

    path: str
    """The absolute path of the file."""
    new_text: str
    """The text after the change."""
    old_text: str | None = None
    """The text before the change; None for a new file."""
    meta: JsonObject | UnsetType | None = field(default=UNSET, name="_meta")
    """As in `Text`."""
    cut: dict[str, Cut] | UnsetType = field(default=UNSET, name="_cut")
    """Members of which this is only a preview, `_cut` in JSON. Set only in objects for viewers."""


class TerminalRef(Struct, tag_field="type", tag="terminal", rename="camel", gc=False):
    """A reference to a terminal. Its live output belongs to the tool call."""

    terminal_id: str
    """The id that the agent or agentrt gave to the terminal."""
    meta: JsonObject | UnsetType | None = field(default=UNSET, name="_meta")
    """As in `Text`."""


ToolContent: TypeAlias = ToolText | Diff | TerminalRef
"""The content of a tool call's result."""

Prompt: TypeAlias = str | Block | JsonObject | Iterable[Block | JsonObject | str]
"""The accepted types of a prompt; `blocks` converts each to a list of blocks."""


def blocks(prompt: Prompt) -> list[Block]:
    """Convert a prompt to content blocks. A string becomes a text block; a dict has ACP's shape.

    Raises `LocalProtocolError` for an invalid or an empty prompt.
    """
    if isinstance(prompt, str):
        return [Text(prompt) if prompt.isascii() else _text(prompt)]
    if isinstance(prompt, Text | Image | Audio | ResourceLink | Resource | dict):
        return [_block(prompt)]
    if isinstance(prompt, bytes | bytearray | memoryview) or not isinstance(prompt, Iterable):
        raise LocalProtocolError(f"a prompt is {_WANTED}, not {_named(prompt)}")
    content = [_text(part) if isinstance(part, str) else _block(part) for part in prompt]
    if not content:
        raise LocalProtocolError("a prompt must have some content, not an empty list")
    return content


_WANTED = "a str, a content block (Text, Image, …), a dict in ACP's shape, or a list of these"


def _named(value: object) -> str:
    """Return the type and the start of a value, for an error message."""
    return f"{type(value).__name__} ({value!r:.60})"


def check_characters(text: str, what: str) -> None:
    """Raise `LocalProtocolError` for a lone surrogate, which UTF-8 cannot encode."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise LocalProtocolError(f"{what} contains half a character: {error}") from None


def _text(text: str) -> Text:
    """Return a text block.

    Raises `LocalProtocolError` for a lone surrogate, which UTF-8 cannot encode.
    """
    check_characters(text, "a prompt")
    return Text(text)


class _TextFields(Struct, rename="camel"):
    """The required fields of a text resource."""

    uri: str
    text: str
    mime_type: str | None = None


class _BlobFields(Struct, rename="camel"):
    """The required fields of a base64 resource."""

    uri: str
    blob: str
    mime_type: str | None = None


def _block(value: object) -> Block:
    """Validate a block: an invalid one would reach the agent and every viewer."""
    if not isinstance(value, Text | Image | Audio | ResourceLink | Resource | dict):
        raise LocalProtocolError(f"a part of a prompt is {_named(value)}; it takes {_WANTED}")
    try:
        block: Block = msgspec.convert(msgspec.to_builtins(value), Block)
        if is_too_nested(msgspec.json.encode(block)):
            raise LocalProtocolError(
                f"a part of a prompt has more than {MAX_NESTING} levels of nesting"
            )
        if isinstance(block, Resource):
            msgspec.convert(
                block.resource, _BlobFields if "blob" in block.resource else _TextFields
            )
    except msgspec.ValidationError as error:
        raise LocalProtocolError(f"{_named(value)} is not a content block: {error}") from None
    except RecursionError:
        raise LocalProtocolError("a part of a prompt contains itself") from None
    except (TypeError, ValueError) as error:
        raise LocalProtocolError(f"{_named(value)} cannot be sent as JSON: {error}") from None
    return block


def plain_text(content: Iterable[Block]) -> str:
    """Return the text of blocks, for titles and logs. Other blocks appear as a name in brackets."""
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


JOINED_PIECES: Final = 1024
"""The number of pieces that are joined: a small `str` costs 50 bytes in addition to its text."""

GROWTH_DIVISOR: Final = 8
"""The text is extended by this fraction of its length, so that it is copied only a few times."""

MIN_GROWTH_CHARS: Final = 64 * 1024
"""The minimum number of characters for an extension."""

MAX_GROWTH_CHARS: Final = 1024 * 1024
"""The maximum number of characters per extension, because more would take a while."""


def hunks(patch: str) -> list[tuple[str, str]]:
    """Return the old and the new text of each hunk of a unified diff of one file, without the
    file's header."""
    found = []
    for hunk in filter(None, _HUNK.split(patch)):
        lines = [line for line in hunk.splitlines(keepends=True) if not line.startswith("\\")]
        old = "".join(line[1:] for line in lines if line[:1] in (" ", "-"))
        new = "".join(line[1:] for line in lines if line[:1] in (" ", "+"))
        found.append((old, new))
    return found


class GrowingText:
    """A growing text: linear in time, compact in memory, and never stored twice.

    At the end nothing remains to be copied.
    """

    __slots__ = ("_due", "_parts", "_put", "_text", "size")

    def __init__(self, text: str = "") -> None:
        self.size = len(text)
        """The number of characters so far."""
        self._text = text
        self._parts: list[str] = []
        """The pieces after `_text`."""
        self._put = 0
        """The number of pieces that are themselves joined from many."""
        self._due = self.size + MIN_GROWTH_CHARS

    def append(self, text: str) -> None:
        """Append a piece."""
        parts = self._parts
        parts.append(text)
        self.size += len(text)
        if self.size >= self._due:
            self._lengthen()
        elif len(parts) - self._put >= JOINED_PIECES:
            parts[self._put :] = ["".join(parts[self._put :])]
            self._put += 1

    def short(self) -> str | None:
        """Return the text if joining it is cheap, else None."""
        if self.size - len(self._text) > MIN_GROWTH_CHARS:
            return None
        return str(self) if self._text else "".join(self._parts)

    def part(self, start: int, end: int) -> str:
        """Return the characters from `start` to `end`."""
        if end > len(self._text):
            self._lengthen()
        return self._text[start:end]

    def __str__(self) -> str:
        """Return the whole text, and keep it in place of its pieces."""
        if self._parts:
            if self._text:
                self._lengthen()
            else:
                self._text = "".join(self._parts)
                self._parts.clear()
                self._put = 0
        return self._text

    def _lengthen(self) -> None:
        """Move the pieces into `_text`, and set the size at which this is due again.

        The text grows by an eighth each time, within `MIN_GROWTH_CHARS` and `MAX_GROWTH_CHARS`.
        """
        # CPython extends a string in place if there is no other reference to it.
        text, self._text = self._text, ""
        text += "".join(self._parts)
        self._parts.clear()
        self._put = 0
        self._text = text
        self._due = self.size + max(
            MIN_GROWTH_CHARS, min(self.size // GROWTH_DIVISOR, MAX_GROWTH_CHARS)
        )
