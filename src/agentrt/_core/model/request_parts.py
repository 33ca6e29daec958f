"""The contents of a permission request, as an ordered list of labelled parts.

Every interface that shows a request to a person renders these parts: the terminal uses this module,
the page its copy of the same rules (`_serve/page/request_parts.js`; the tests compare both). Every
string of the request is in a part, except for protocol ids, options, which are buttons, and a form,
which has fields.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct, to_builtins

from .content import JsonObject
from .events import Item, PermissionOpened
from .reveal import reveal

PartKind: TypeAlias = Literal["text", "command", "diff", "media", "link", "value", "same"]
"""The kind of a part, which determines its display."""

TITLE_CHARS: Final = 200
"""Characters of a title that a heading shows; a longer title is also a part."""

_REPEATED_CHARS: Final = 20
"""Characters of an argument from which on it is not repeated if another part has it."""

_MAX_VALUE_DEPTH: Final = 32
"""Levels of nesting that are split into parts; deeper values are shown as JSON."""

_KINDS: Final = frozenset(
    {"read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode"}
    | {"other", ""}
)
"""Kinds of tools that every interface displays in its own way."""

_NAME: Final = re.compile(r"[A-Za-z_][\w-]*", re.ASCII)
_BASE64: Final = re.compile(r"[A-Za-z0-9+/_ \t\r\n-]*=*")
_UNEVEN: Final = re.compile(r"^ | $|[\n\t]|  ")
"""Text that a one-line heading cannot show unchanged."""


class RequestPart(Struct, omit_defaults=True):
    """A part of a request.

    `kind` is the way to show it. `label` comes from agentrt, except for argument names in it.
    `text` comes from the agent and is not yet safe to show.

    A `diff` has its path as `label`, the new text as `text` and the old one as `old` (None: a new
    file). A `media` part has a description as `text`. A `same` part has a text that another part
    shows.
    """

    label: str
    text: str
    kind: PartKind = "value"
    old: str | None = None


def request_parts(request: PermissionOpened, item: Item | None) -> list[RequestPart]:
    """Return the parts of a request. `item` is the tool call that it is about, if known.

    If the request has the complete tool call, this one is used: the item may be a preview.
    """
    tool = request.tool or (item.tool if item is not None else None)
    parts = _Parts()
    parts.take(to_builtins(request), to_builtins(tool) if tool is not None else {})
    return parts.all


def form_parts(form: JsonObject) -> list[RequestPart]:
    """Return the parts of a form that its fields do not show."""
    parts = _Parts()
    for name, value in form.items():
        if name not in _FORM:
            parts.leaves(_key(name), value)
    properties = form.get("properties")
    for name, schema in properties.items() if isinstance(properties, dict) else ():
        for key, value in schema.items() if isinstance(schema, dict) else ():
            if key not in _FIELD:
                parts.leaves(f"{_key(name)}{_dotted(key)}", value)
    return parts.all


_FORM: Final = frozenset({"type", "properties", "required", "$schema"})
_FIELD: Final = frozenset(
    {"type", "title", "description", "default", "enum", "enumNames", "oneOf", "anyOf", "items"}
    | {"format", "minimum", "maximum", "minLength", "maxLength"}
)
"""The known keys of a form and of a field: the fields show them, or they are not for people."""


class _Parts:
    """Collects the parts of a request in its wire format."""

    def __init__(self) -> None:
        """Begin without parts. `_shown` has the texts of all parts so far."""
        self.all: list[RequestPart] = []
        self._shown: set[str] = set()

    def take(self, ask: JsonObject, tool: JsonObject) -> None:
        """Add the parts of a request and its tool call."""
        title, detail = ask.get("title", ""), ask.get("detail")
        if ask.get("url") is not None:
            self._add("page", ask["url"], "link")
        self._call(tool, title)
        given = tool.get("input")
        if given is None and isinstance(detail, dict):
            given = detail.get("input")
        if isinstance(given, dict) and isinstance(given.get("command"), str):
            self._add("command", given["command"], "command")
            given = {name: value for name, value in given.items() if name != "command"} or None
        self._contents(tool.get("content", []), detail if isinstance(detail, list) else [])
        self._arguments(given)
        for place in tool.get("locations", []):
            self._location(place)
        self._detail(detail, tool)
        if tool.get("output") is not None:
            self.leaves("output", tool["output"])
        heading = reveal(title)
        uneven = len(heading) > TITLE_CHARS or _UNEVEN.search(heading) is not None
        if uneven and title not in self._shown:
            self.all.insert(0, RequestPart("title", title, "text"))

    def _call(self, tool: JsonObject, title: str) -> None:
        """Add the tool's name, and its kind and title if they tell more than the request's."""
        if tool.get("name"):
            self._add("tool", tool["name"])
        if tool.get("kind", "other") not in _KINDS:
            self._add("kind", tool["kind"])
        if tool.get("title", "") not in ("", title):
            self._add("call", tool["title"])

    def _contents(self, of_tool: list[Any], of_request: list[Any]) -> None:
        """Add the content of the tool call, and that of the request unless it is the same."""
        for part in of_tool:
            self._content(part)
        for part in of_request:
            if part not in of_tool:
                self._content(part)

    def _arguments(self, given: Any) -> None:
        """Add the arguments of the tool call, each under its name."""
        if isinstance(given, dict):
            for name, value in given.items():
                self.leaves(_key(name), value)
        elif given is not None:
            self.leaves("arguments", given)

    def _add(self, label: str, text: str, kind: PartKind = "value") -> None:
        """Add a part, and remember its text so that it is not repeated."""
        self._shown.add(text)
        self.all.append(RequestPart(label, text, kind))

    def _content(self, part: Any) -> None:
        """Add a part of the content: a diff, a block, or a value of an unknown form.

        Fields that are not part of the known form are added as well: everything in a request must
        be shown to the person who decides.
        """
        match part:
            case {"type": "diff", "path": str(path), "newText": str(new), **rest}:
                old = rest.pop("oldText", None)
                self._shown |= {path, new} | ({old} if isinstance(old, str) else set())
                shown = old if isinstance(old, str) else None
                self.all.append(RequestPart(path, new, "diff", shown))
                if shown != old:
                    rest["oldText"] = old
                self._rest("diff", rest)
            case {"type": "content", "content": dict(block), **rest}:
                self._block(block)
                self._rest("content", rest)
            case {"type": str()}:
                self._block(part)
            case _:
                self.leaves("content", part)

    def _block(self, block: JsonObject) -> None:
        """Add a content block. Media that is not valid base64 is shown as the value that it is."""
        rest = {name: value for name, value in block.items() if name != "type"}
        match block:
            case {"type": "text", "text": str(text)}:
                del rest["text"]
                self._add("text", text, "text")
                self._rest("text", rest)
            case {"type": ("image" | "audio") as kind, "data": str(data)} if _is_base64(data):
                del rest["data"]
                media = rest.pop("mimeType", "")
                self._add(kind, f"{media}, {len(data) * 3 // 4} bytes", "media")
                self._rest(kind, rest)
            case {"type": "resource", "resource": dict(resource)}:
                del rest["resource"]
                resource = dict(resource)
                text, blob = resource.pop("text", None), resource.get("blob")
                if isinstance(blob, str) and _is_base64(blob):
                    resource["blob"] = f"{len(blob) * 3 // 4} bytes"
                self._rest("resource", resource)
                if isinstance(text, str):
                    self._add("resource.text", text, "text")
                elif text is not None:
                    self.leaves("resource.text", text)
                self._rest("resource", rest)
            case _:
                self._rest(_key(str(block.get("type", "content"))), rest)

    def _location(self, place: Any) -> None:
        """Add a file, unless another part has shown its path already."""
        match place:
            case {"path": str(path), **rest}:
                line = rest.pop("line", None)
                if line is not None:
                    self._add("file", f"{path}:{_scalar(line)}")
                elif path not in self._shown:
                    self._add("file", path)
                self._rest("file", rest)
            case _:
                self.leaves("file", place)

    def _detail(self, detail: Any, tool: JsonObject) -> None:
        """Add the protocol's own fields of the request, except those that repeat the tool's
        input.
        """
        match detail:
            case None | list():
                pass
            case str():
                self._add("detail", detail, "text")
            case dict():
                given = tool.get("input")
                known = given if isinstance(given, dict) else {}
                for name, value in detail.items():
                    if name == "input" and given in (None, value):
                        continue
                    if name not in known or known[name] != value:
                        self.leaves(_key(name), value)
            case _:
                self.leaves("detail", detail)

    def _rest(self, label: str, values: Mapping[Any, Any]) -> None:
        """Add the remaining fields of an object, labelled with its name."""
        for name, value in values.items():
            if value is not None:
                self.leaves(f"{label}{_dotted(name)}", value)

    def leaves(self, label: str, value: Any, depth: int = 0) -> None:
        """Add each string and other value within `value`, labelled with the path to it."""
        match value:
            case str():
                if value in self._shown and len(value) > _REPEATED_CHARS:
                    self.all.append(RequestPart(label, value, "same"))
                else:
                    self._add(label, value)
            case dict() | list() if depth == _MAX_VALUE_DEPTH:
                self._add(label, json.dumps(value, ensure_ascii=False, separators=(",", ":")))
            case dict() if value:
                for name, each in value.items():
                    self.leaves(f"{label}{_dotted(name)}", each, depth + 1)
            case list() if any(isinstance(each, str | dict | list) for each in value):
                for place, each in enumerate(value):
                    self.leaves(f"{label}[{place}]", each, depth + 1)
            case list():
                self._add(label, f"[{', '.join(map(_scalar, value))}]")
            case _:
                self._add(label, "{}" if isinstance(value, dict) else _scalar(value))


def _key(name: str) -> str:
    """Return the name of an argument for the start of a label."""
    return name if _NAME.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def _dotted(name: str) -> str:
    """Return the name of a member inside a label: `.name`, or in brackets as JSON."""
    return f".{name}" if _NAME.fullmatch(name) else f"[{json.dumps(name, ensure_ascii=False)}]"


def _scalar(value: Any) -> str:
    """Return a number, boolean or null in its JSON form."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    return json.dumps(value)


def _is_base64(text: str) -> bool:
    """Return True if a text is base64, and nothing readable can hide in it."""
    return _BASE64.fullmatch(text) is not None
