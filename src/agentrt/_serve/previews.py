"""Previews of large contents, and the encoding of events and snapshots with them.

The size of the frames for a viewer does not depend on the size of the outputs, files and images in
a session. A member that is too large is replaced by a preview of the same type. `_cut` of the
object that contains it has the size and the place of the complete value, which the command
`content` returns piece by piece. Permission requests are never cut: a person must be able to read
everything before allowing it.

Sizes are counted in characters and are approximate: a value is measured without encoding it. The
budget of a frame has three levels: one value (`preview_chars`), everything in one object
(`OBJECT_PREVIEWS` times that), and one section of a snapshot (`SECTION_PREVIEWS` times that). A
`CharBudget` is shared by all values that count toward one limit.

Two kinds of objects are treated differently. The members of agentrt's own objects are always all
there, because clients rely on them; only their values are shortened. In values that the agent
determines (`FOREIGN`), members and list entries are left out as well, as the number of these is not
limited.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import astuple, replace

from ..events import (
    CommandsChanged,
    Cut,
    Event,
    Item,
    ItemDelta,
    ItemOpened,
    ItemUpdated,
    ModesChanged,
    PermissionOpened,
    PlanChanged,
    QueueChanged,
    Snapshot,
    StateChanged,
    TaskChanged,
    TurnEnded,
)
from ..jsonrpc import encode_json
from ..lowlevel import CommandFields, CommandRefused, Log
from .native_frames import ContentResult

_encode: Final = msgspec.json.Encoder().encode
"""Encodes values without lone surrogates, in one call to C; see `encode_json`."""

OBJECT_PREVIEWS: Final = 4
"""Size of everything that is sent of one object with large contents, in previews."""

SECTION_PREVIEWS: Final = 8
"""Size of everything that is sent of a snapshot's queue, tasks or turns, in previews."""

TEXT_PREVIEWS: Final = 4
"""Length of the preview of an answer's text, in previews of other contents. It is the end of the
text, so that more text can be appended.
"""

SHORT_CHARS: Final = 256
"""Characters of a text that is always sent."""

MEMBER_CHARS: Final = 8
"""Approximate characters that a member of an object or a list takes without its value."""

FOREIGN: Final = frozenset(
    {
        "_meta",
        "annotations",
        "data",
        "detail",
        "input",
        "locations",
        "output",
        "resource",
        "structured_output",
    }
)
"""Members of a form that the agent determines: parts of them may be left out."""

BINARY: Final = frozenset({"data", "blob"})
"""Members with base64, of which a part is of no use."""

Json: TypeAlias = Any
"""A value that JSON can represent."""


def weight(value: object, most: int) -> int:
    """Return the approximate length of a value as JSON, or more than `most` if it is longer."""
    size = 0
    stack: list[Any] = [value]
    while stack and size <= most:
        each = stack.pop()
        if isinstance(each, str):
            size += len(each)
        elif isinstance(each, Struct):
            size += MEMBER_CHARS
            stack += astuple(each)
        elif isinstance(each, dict | list | tuple):
            size += MEMBER_CHARS * len(each)
            if size <= most:
                stack += each
                if isinstance(each, dict):
                    stack += each.values()
    return size


class CharBudget:
    """A limit on the total size of several previews, in characters."""

    def __init__(self, chars: int) -> None:
        self.left_chars = chars


class Shortening:
    """The replacement of the large parts of one value by previews.

    `keep_end`: show the ends of texts instead of their beginnings.
    """

    def __init__(self, preview_chars: int, room: CharBudget, *, keep_end: bool = False) -> None:
        self._preview_chars = preview_chars
        self._room = room
        self._keep_end = keep_end

    def value(
        self, value: Json, name: str, at: str | None, *, foreign: bool
    ) -> tuple[Json, Cut | None]:
        """Return a value of the same type, and the `Cut` if it is only a preview.

        `name`: the name of the member that has the value. `at`: its place, for `content`; None if
        it cannot be requested. `foreign`: parts may be left out.
        """
        if isinstance(value, str):
            return self._text(value, name, at, foreign=foreign)
        if isinstance(value, list | tuple):
            return self._list(value, at, foreign=foreign)
        if isinstance(value, dict):
            return self._object(value, at, foreign=foreign)
        return value, None

    def _text(
        self, text: str, name: str, at: str | None, *, foreign: bool
    ) -> tuple[str, Cut | None]:
        """Shorten a text if it is long. Base64 is left out completely.

        A text of up to twice the preview's length is sent whole, if the budget allows it: a request
        for the missing half would cost more.
        """
        left, size, most = self._room.left_chars, len(text), self._preview_chars
        if size <= SHORT_CHARS or size <= min(left, 2 * most):
            self._room.left_chars -= size
            return text, None
        kept = 0 if name in BINARY else max(0, min(left, most))
        self._room.left_chars -= kept
        start = size - kept if self._keep_end and not foreign else 0
        return text[start : start + kept], Cut(at=at or "", chars=size, start=start)

    def _list(
        self, values: Sequence[Json], at: str | None, *, foreign: bool
    ) -> tuple[list[Json], Cut | None]:
        """Shorten the entries of a list, and leave out those that exceed the budget.

        A list with shortened or missing entries has one `Cut`, for its JSON text.
        """
        kept: list[Json] = []
        complete = True
        for place, value in enumerate(values):
            if self._room.left_chars <= 0:
                complete = False
                break
            self._room.left_chars -= MEMBER_CHARS
            short, cut = self.value(value, "", _below(at, place), foreign=foreign)
            complete = complete and cut is None
            kept.append(short)
        return kept, None if complete else _json_cut(values, at)

    def _object(
        self, members: dict[str, Json], at: str | None, *, foreign: bool
    ) -> tuple[dict[str, Json], Cut | None]:
        """Shorten the members of an object. Their cuts are in its `_cut`, by the members' names.

        Only a foreign object can lose members; it then has one `Cut` for all of it.
        """
        kept: dict[str, Json] = {}
        cuts: dict[str, Cut] = {}
        for name, value in members.items():
            if foreign and self._room.left_chars <= 0:
                return kept, _json_cut(members, at)
            self._room.left_chars -= MEMBER_CHARS + len(name)
            inside = foreign or name in FOREIGN
            kept[name], cut = self.value(value, name, _below(at, name), foreign=inside)
            if cut is not None:
                cuts[name] = cut
        if cuts:
            kept["_cut"] = cuts
        return kept, None


class Previews:
    """Encodes events and snapshots of a session for its viewers.

    `log`: the session's log. It may be replaced by another one of the same session.
    """

    def __init__(self, log: Log, preview_chars: int) -> None:
        self.log = log
        self._preview_chars = preview_chars
        # The last value that was requested and not read to its end: its place, the object that it
        # is a part of, its text, and whether that is JSON.
        self._asked: tuple[str, object, str, bool] | None = None

    @property
    def most_text_chars(self) -> int:
        """Characters of an item's text up to which it is sent completely."""
        return 2 * TEXT_PREVIEWS * self._preview_chars

    def shorten(
        self, value: Json, at: str | None, *, room: CharBudget | None = None, keep_end: bool = False
    ) -> Json:
        """Return an object of which the large parts are replaced by previews.

        A small one is returned unchanged, others as plain objects. See `Shortening` for the
        arguments.
        """
        most = 2 * self._preview_chars
        if room is not None:
            most = max(0, min(most, room.left_chars))
        size = weight(value, most)
        if size <= most:
            if room is not None:
                room.left_chars -= size
            return value
        plain = msgspec.to_builtins(value)
        limited = CharBudget(OBJECT_PREVIEWS * self._preview_chars) if room is None else room
        shortening = Shortening(self._preview_chars, limited, keep_end=keep_end)
        short, _ = shortening.value(plain, "", at, foreign=False)
        return short

    def item(self, item: Item, text: str | None = None, *, room: CharBudget | None = None) -> Json:
        """Return an item for viewers. Its text is read from the log unless it is given.

        `room`: the size of its contents, without the text.
        """
        state = self.log.state
        length = (state.length(item.id) or 0) if text is None else len(text)
        if length <= self.most_text_chars:
            complete = state.text(item.id) if text is None else text
            full = item if item.text == complete else replace(item, text=complete)
            return self._contents(full, room)
        kept, cut = self.end_of_text(item.id, length)
        short = self._contents(replace(item, text=""), room)
        plain = msgspec.to_builtins(short)
        return {**plain, "text": kept, "_cut": {**plain.get("_cut", {}), "text": cut}}

    def _contents(self, item: Item, room: CharBudget | None = None) -> Json:
        """Return an item with its other contents shortened and its text unchanged.

        The end of a command's output is kept, where errors are; of everything else the beginning
        is.
        """
        if room is None and weight(item, 2 * self._preview_chars) <= 2 * self._preview_chars:
            return item
        text, short = item.text, replace(item, text="") if item.text else item
        ends = item.tool is not None and item.tool.kind == "execute"
        short = self.shorten(short, place("items", item.id), room=room, keep_end=ends)
        if not text:
            return short
        return {**short, "text": text} if isinstance(short, dict) else item

    def end_of_text(self, item: str, end: int) -> tuple[str, Cut]:
        """Return the end of the first `end` characters of an item's text, and its `Cut`."""
        start = max(0, end - TEXT_PREVIEWS * self._preview_chars)
        at = f"{place('items', item)}/text"
        return self.log.state.part(item, start, end), Cut(at=at, chars=end, start=start)

    def permission(self, request: PermissionOpened) -> PermissionOpened:
        """Return a request for viewers, with its tool call if they have only a preview of it."""
        item = self.log.state.item(request.item or "")
        if item is None or item.tool is None or self._contents(item) is item:
            return request
        return replace(request, tool=item.tool)

    def event(self, event: Event) -> bytes:
        """Encode an event."""
        if isinstance(event, PermissionOpened):
            event = self.permission(event)
        try:
            frame = _encode(event)
        except UnicodeEncodeError:
            frame = encode_json(event)
        if len(frame) <= 2 * self._preview_chars or isinstance(event, ItemDelta | PermissionOpened):
            return frame
        return encode_json(self._short(event))

    def _short(self, event: Event) -> Json:
        """Return the form of an event for a client: whole, or with long texts cut.

        The output of commands is cut at its beginning, everything else at its end. Each cut names
        the place from which the client can request the rest.
        """
        match event:
            case ItemOpened(item=item):
                return {"kind": "item.opened", "item": self.item(item, item.text)}
            case ItemUpdated(patch={"text": _}):
                return event  # from `end_of_text`
            case ItemUpdated(item=id, patch=patch):
                known = self.log.state.item(id)
                tool = None if known is None else known.tool
                ends = tool is not None and tool.kind == "execute"
                short = self.shorten(patch, place("items", id), keep_end=ends)
                return {"kind": "item.updated", "item": id, "patch": short}
            case TurnEnded(turn=turn):
                return self.shorten(event, place("turns", turn))
            case TaskChanged(task=task):
                short = self.shorten(task, place("tasks", task.id))
                return {"kind": "task", "task": short}
            case QueueChanged(queue=queue, paused=paused):
                entries = self._section("queue", queue)
                return {"kind": "queue", "queue": entries, "paused": paused}
            case StateChanged() | PlanChanged():
                return self.shorten(event, "")
            case ModesChanged() | CommandsChanged():
                return event  # their sizes are limited
            case _:
                return self.shorten(event, None)

    def snapshot(self, snapshot: Snapshot, items: dict[str, bytes]) -> bytes:
        """Encode a snapshot from `Log.recent`. `items`: those that are encoded already."""
        fields: CommandFields = {
            name: getattr(snapshot, name) for name in snapshot.__struct_fields__
        }
        state = {"state": snapshot.state, "plan": snapshot.plan}
        fields |= self.shorten(state, "", room=CharBudget(SECTION_PREVIEWS * self._preview_chars))
        fields["permissions"] = list(map(self.permission, snapshot.permissions))
        return self._page({"type": "snapshot", **fields}, items)

    def history(self, page: Struct, items: dict[str, bytes], **about: Any) -> bytes:
        """Encode an answer with a page of history from `Log.history`; see `snapshot`."""
        fields: CommandFields = {name: getattr(page, name) for name in page.__struct_fields__}
        return self._page({**about, **fields}, items)

    def _page(self, fields: CommandFields, items: dict[str, bytes]) -> bytes:
        """Encode a snapshot or a page of history. Items that are encoded already are inserted as
        bytes.
        """
        for name in ("turns", "queue", "tasks"):
            if name in fields:
                fields[name] = self._section(name, fields[name])
        room = CharBudget(SECTION_PREVIEWS * self._preview_chars)  # for others that are open
        shown = [
            items.get(each.id) or encode_json(self.item(each, room=room))
            for each in fields.pop("items")
        ]
        return encode_json(fields)[:-1] + b',"items":[' + b",".join(shown) + b"]}"

    def _section(self, name: str, values: Iterable[Any]) -> list[Json]:
        """Shorten the entries of the queue, the tasks or the turns, with one budget for all of
        them.
        """
        room = CharBudget(SECTION_PREVIEWS * self._preview_chars)
        return [self.shorten(value, place(name, value.id), room=room) for value in values]

    def content(self, at: str, start: int, count: int) -> ContentResult:
        """Return up to `count` characters of the value at a place, from `start`.

        Raises `CommandRefused` if there is none.
        """
        if (item := item_at(at)) is not None and at == f"{place('items', item)}/text":
            state, json = self.log.state, False
            length = state.length(item)
            if length is None:
                raise _missing(at)
            text = state.part(item, start, min(length, start + count))
        else:
            whole, json = self._text_at(at)
            text, length = whole[start : start + count], len(whole)
        end = start + len(text)
        more = end < length and bool(text)
        if not more:
            self._asked = None
        return ContentResult(
            session=self.log.session,
            at=at,
            start=start,
            text=text,
            next=end if more else None,
            chars=length,
            json=json,
        )

    def _text_at(self, at: str) -> tuple[str, bool]:
        """Return the text at a place, or the JSON of another value; the flag is true for JSON."""
        root, path = self._root(at)
        if self._asked is not None and self._asked[0] == at and self._asked[1] is root:
            return self._asked[2], self._asked[3]
        value = msgspec.to_builtins(root)
        for name in path:
            if isinstance(value, dict):
                value = value.get(name)
            elif isinstance(value, list | tuple) and name.isdecimal() and int(name) < len(value):
                value = value[int(name)]
            else:
                value = None
        if value is None:
            raise _missing(at)
        json = not isinstance(value, str)
        text = encode_json(value).decode() if json else value
        self._asked = (at, root, text, json)
        return text, json

    def _root(self, at: str) -> tuple[object, list[str]]:
        """Return the part of the session that a place begins with, and the path in it."""
        state = self.log.state
        section, *path = (_unescaped(name) for name in at.removeprefix("/").split("/"))
        if section == "state":
            return state.state, path
        if section == "plan":
            return state.plan, path
        named: dict[str, dict[str, Any]] = {
            "items": state.items,
            "turns": state.turns,
            "tasks": state.tasks,
            "queue": {entry.id: entry for entry in state.queue},
        }
        return (named.get(section, {}).get(path.pop(0)) if path else None), path


class EncodedItems:
    """The items of a page, encoded until its size is reached. See `Log.recent`."""

    def __init__(self, previews: Previews, most_bytes: int) -> None:
        self._previews = previews
        self._left_bytes = most_bytes
        self.encoded: dict[str, bytes] = {}
        """The encoded items, by id."""

    def take(self, item: Item) -> bool:
        """Encode one more item. Returns False if there was too little room for it."""
        frame = self.encoded[item.id] = encode_json(self._previews.item(item))
        self._left_bytes -= len(frame)
        return self._left_bytes >= 0


def place(section: str, id: str) -> str:
    """Return the place of a part of a session, for `content`."""
    return f"/{section}/{_escaped(id)}"


def item_at(at: str) -> str | None:
    """Return the id of the item in a place, if it is in an item."""
    section, _, rest = at.removeprefix("/").partition("/")
    return _unescaped(rest.partition("/")[0]) if section == "items" else None


def _escaped(name: str) -> str:
    """Escape a name for a place, as in a JSON pointer."""
    return name.replace("~", "~0").replace("/", "~1")


def _unescaped(name: str) -> str:
    return name.replace("~1", "/").replace("~0", "~")


def _below(at: str | None, name: str | int) -> str | None:
    """Return the place of a member; None if the value that contains it has no place."""
    return None if at is None else f"{at}/{_escaped(str(name))}"


def _json_cut(value: Json, at: str | None) -> Cut:
    """Return the cut of a value that is sent as JSON text; its length is that of the
    encoded value.
    """
    return Cut(at=at or "", chars=len(encode_json(value).decode()), json=True)


def _missing(at: str) -> CommandRefused:
    """Return the refusal for a place that does not exist, or that has changed since it was
    named.
    """
    return CommandRefused("unknown_request", f"the session no longer has content at {at!r}")
