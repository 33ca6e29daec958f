"""The reducer of `agentrt.v1`, once more: from the wire's document, on plain JSON."""

from __future__ import annotations

from typing import Any

import msgspec

Json = dict[str, Any]

WHOLE = {
    "queue": ("queue", "queue"),
    "plan": ("plan", "plan"),
    "usage": ("usage", "usage"),
    "modes": ("modes", "modes"),
    "commands": ("commands", "commands"),
    "title": ("title", "title"),
}
TERMINAL = {"completed", "failed", "denied", "cancelled", "orphaned"}

ITEM_DEFAULTS: Json = {"status": "running", "text": "", "content": [], "replay": False}

TOOL_DEFAULTS: Json = {
    "call": "",
    "name": "",
    "kind": "other",
    "title": "",
    "owner": "agent",
    "input": None,
    "output": None,
    "locations": [],
    "content": [],
}


def as_json(value: Any) -> Any:
    """Return the value as a client reads it: a tuple is a list there."""
    return msgspec.json.decode(msgspec.json.encode(value))


class Fold:
    """A viewer's state: a snapshot, the events after it, and what it has asked for since of what
    was before it.

    `earlier`: the oldest of the items that it has without a gap, where there are older ones.
    """

    def __init__(self, snapshot: Json | None = None) -> None:
        self.seq = 0
        self.state: Json | None = None
        self.turns: dict[str, Json] = {}
        self.items: dict[str, Json] = {}
        self.permissions: dict[str, Json] = {}
        self.tasks: dict[str, Json] = {}
        self.values: Json = {
            "queue": [],
            "paused": False,
            "plan": [],
            "usage": None,
            "modes": None,
            "commands": [],
            "title": None,
        }
        if snapshot is not None:
            self.seq = snapshot["seq"]
            self.state = snapshot["state"]
            self.turns = {t["id"]: dict(t) for t in snapshot["turns"]}
            self.items = {i["id"]: _item(i) for i in snapshot["items"]}
            self.permissions = {p["request"]: p for p in snapshot["permissions"]}
            self.tasks = {t["id"]: t for t in snapshot["tasks"]}
            self.values = {name: snapshot[name] for name in self.values}
        self.earlier: str | None = snapshot["earlier"] if snapshot is not None else None

    def advance(self, events: list[Any]) -> None:
        """Take all of `events` (the whole log) that are new."""
        for event in events[self.seq :]:
            self.apply(as_json(event))

    def apply(self, event: Json, stands_for: int = 1) -> None:
        self.seq += stands_for
        match event["kind"]:
            case "state":
                self.state = event["state"]
            case "turn.started":
                self.turns[event["turn"]] = {"id": event["turn"], "origin": event["origin"]}
            case "turn.ended":
                told = {k: v for k, v in event.items() if k not in ("kind", "turn")}
                self.turns[event["turn"]].update(told)
            case "item.opened":
                self.items[event["item"]["id"]] = _item(event["item"])
            case "item.delta" | "item.updated" | "item.closed":
                if self.earlier is None or event["item"] in self.items:
                    _change(self.items[event["item"]], event)
            case "permission.opened":
                self.permissions[event["request"]] = {k: v for k, v in event.items() if k != "kind"}
            case "permission.closed":
                del self.permissions[event["request"]]
            case "task":
                self.tasks[event["task"]["id"]] = event["task"]
            case "notice":
                pass
            case kind:
                name, field = WHOLE[kind]
                self.values[name] = event[field]
                if kind == "queue":
                    self.values["paused"] = event.get("paused", False)

    def add_history(self, history: Json) -> None:
        """Put what was before `earlier` to its place. What is there already is kept as it is."""
        before, self.earlier = self.earlier, history["earlier"]
        older = {i["id"]: self.items.get(i["id"]) or _item(i) for i in history["items"]}
        items: dict[str, Json] = {}
        for id, item in self.items.items():
            if id == before:
                items |= older
            if id not in older:
                items[id] = item
        self.items = items
        self.turns = {t["id"]: dict(t) for t in history["turns"]} | self.turns

    def shown_from(self, earlier: str | None) -> Fold:
        """What is left of it where everything ahead of an item is left out that is over."""
        shown = Fold()
        vars(shown).update(vars(self))
        if earlier is not None:
            ids = list(self.items)
            rest = ids[ids.index(earlier) :]
            left = [id for id in ids[: -len(rest)] if self.items[id]["status"] not in TERMINAL]
            shown.items = {id: self.items[id] for id in (*left, *rest)}
            turns = {self.items[id].get("turn") for id in rest}
            first = next((n for n, turn in enumerate(self.turns) if turn in turns), 0)
            shown.turns = dict(list(self.turns.items())[first:])
        return shown

    def differs(self, snapshot: Json) -> str:
        """What is not as in the snapshot; empty if nothing is."""
        if snapshot["seq"] != self.seq:
            return f"the snapshot is of {snapshot['seq']}, not of {self.seq}"
        return self.shown_from(snapshot["earlier"]).differs_from(Fold(snapshot))

    def differs_from(self, theirs: Fold) -> str:
        """What is not as there; empty if nothing is."""
        for name in ("turns", "items", "permissions", "tasks", "values"):
            mine, other = getattr(self, name), getattr(theirs, name)
            if name == "permissions":
                mine = {k: _plain(v) for k, v in mine.items()}
                other = {k: _plain(v) for k, v in other.items()}
            if mine != other or list(mine) != list(other):
                keys = [k for k in {**mine, **other} if mine.get(k) != other.get(k)]
                told = [(k, mine.get(k), other.get(k)) for k in keys[:3]]
                return f"{name}: {told or 'another order'}"
        if self.state is not None and self.state != theirs.state:
            return f"state: {self.state} is {theirs.state}"
        return ""


def _change(item: Json, event: Json) -> None:
    match event["kind"]:
        case "item.delta":
            item["text"] += event["text"]
        case "item.updated":
            for name, value in event["patch"].items():
                item[name] = {**item["tool"], **value} if name == "tool" else value
        case "item.closed":
            item["status"] = event["status"]


def _item(item: Json) -> Json:
    item = {**ITEM_DEFAULTS, **item}
    if "tool" in item:
        item["tool"] = {**TOOL_DEFAULTS, **item["tool"]}
    return item


def _plain(value: Json) -> Json:
    return {k: v for k, v in value.items() if k != "kind"}
