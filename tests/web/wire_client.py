"""A client that knows `agentrt.v1` and nothing of agentrt: plain dicts, and a reducer of its own.

It is strict: whatever the protocol rules out fails an assertion here, and so does a frame with a
field that is not published. `Wire` is one of its connections; it is cut off by no longer using it.
"""

from __future__ import annotations

import json
from itertools import count
from typing import Any, Protocol

from web import published

CHECKED_FRAMES = 300
"""Events and snapshots of one client that are checked against what is published."""

TERMINAL = {"completed", "failed", "denied", "cancelled", "orphaned"}


class View:
    """One session as the client shows it: the last snapshot, and the events after it."""

    def __init__(self, session: str) -> None:
        self.session = session
        self.epoch: str | None = None
        self.seq = 0
        self.shown: dict[str, Any] = {}
        self.snapshots = 0
        self.events: list[dict[str, Any]] = []
        """Those that were given, in order; for tests."""

    @property
    def phase(self) -> str:
        return str(self.shown["state"]["phase"])

    @property
    def busy(self) -> bool:
        return self.shown["state"]["turn"] is not None

    @property
    def earlier(self) -> str | None:
        """The oldest of the items without a gap, if there are older ones."""
        return self.shown["earlier"]  # type: ignore[no-any-return]

    def texts(self, type: str = "text") -> list[str]:
        return [i.get("text", "") for i in self.shown["items"].values() if i["type"] == type]

    def tools(self) -> list[tuple[str, str]]:
        """Status and owner of each tool call."""
        tools = [i for i in self.shown["items"].values() if i["type"] == "tool"]
        return [(i["status"], i["tool"].get("owner", "agent")) for i in tools]

    def take_snapshot(self, frame: dict[str, Any]) -> None:
        assert frame["session"] == self.session
        self.epoch, self.seq = frame["epoch"], frame["seq"]
        self.shown = {k: v for k, v in frame.items() if k not in ("type", "session", "epoch")}
        for name, key in (
            ("turns", "id"),
            ("items", "id"),
            ("permissions", "request"),
            ("tasks", "id"),
        ):
            self.shown[name] = {thing[key]: thing for thing in frame[name]}
        for item in self.shown["items"].values():
            item.setdefault("status", "running")
        self.snapshots += 1

    def take_history(self, answer: dict[str, Any]) -> None:
        """What was before the oldest item; it tells of no event that has not been given."""
        assert (answer["session"], answer["epoch"]) == (self.session, self.epoch)
        assert answer["seq"] == self.seq, f"history of {answer['seq']} at {self.seq}"
        if answer["before"] != self.earlier:
            return  # asked before another snapshot came
        older = {item["id"]: {"status": "running", **item} for item in answer["items"]}
        items: dict[str, Any] = {}
        for id, item in self.shown["items"].items():
            if id == self.earlier:
                items |= {id: self.shown["items"].get(id, old) for id, old in older.items()}
            if id not in older:
                items[id] = item
        self.shown["items"] = items
        turns = {turn["id"]: turn for turn in answer["turns"]}
        assert len(turns.keys() & self.shown["turns"]) <= 1, "turns that are there already"
        self.shown["turns"] = turns | self.shown["turns"]
        self.shown["earlier"] = answer["earlier"]

    def take_event(self, frame: dict[str, Any]) -> None:
        assert frame["epoch"] == self.epoch, "an event of another epoch"
        since = frame.get("since", frame["seq"] - 1)
        assert since == self.seq, f"after {self.seq} came those after {since}"
        assert frame["seq"] > since
        self.seq = self.shown["seq"] = frame["seq"]
        self.events.append(frame["event"])
        self.apply(frame["event"])

    def apply(self, event: dict[str, Any]) -> None:
        shown = self.shown
        match event["kind"]:
            case "state":
                shown["state"] = event["state"]
            case "turn.started":
                assert event["turn"] not in shown["turns"]
                shown["turns"][event["turn"]] = {"id": event["turn"], "origin": event["origin"]}
            case "turn.ended":
                turn = shown["turns"][event["turn"]]
                assert "outcome" not in turn, "a turn has ended twice"
                turn |= {k: v for k, v in event.items() if k not in ("kind", "turn")}
                assert not self.open_of(event["turn"]), "something of an ended turn is open"
            case "item.updated" if self.earlier and event["item"] not in shown["items"]:
                pass  # of the running turn, and ahead of what is shown of it
            case "item.opened":
                item = {"status": "running", **event["item"]}
                assert item["id"] not in shown["items"]
                shown["items"][item["id"]] = item
            case "item.delta":
                item = shown["items"][event["item"]]
                assert item["status"] not in TERMINAL
                item["text"] = item.get("text", "") + event["text"]
            case "item.updated":
                item = shown["items"][event["item"]]
                patch = dict(event["patch"])
                if "tool" in patch:
                    item["tool"] = patched(item.get("tool", {}), patch.pop("tool"))
                shown["items"][event["item"]] = patched(item, patch)
            case "item.closed":
                item = shown["items"][event["item"]]
                assert event["status"] in TERMINAL
                item["status"] = event["status"]
            case "permission.opened":
                shown["permissions"][event["request"]] = event
            case "permission.closed":
                del shown["permissions"][event["request"]]
            case "queue":
                shown["queue"], shown["paused"] = event["queue"], event["paused"]
            case "plan" | "usage" | "modes" | "commands" | "title" as kind:
                shown[kind] = event[kind]
            case "task":
                shown["tasks"][event["task"]["id"]] = event["task"]
            case "notice":
                pass
            case kind:
                raise AssertionError(f"nobody knows events of kind {kind}")

    def open_of(self, turn: str) -> list[str]:
        return [
            item["id"]
            for item in self.shown["items"].values()
            if item.get("turn") == turn and item["status"] not in TERMINAL
        ]

    def comparable(self, earlier: str | None = None) -> dict[str, Any]:
        """What is shown, whichever way it came: absent fields and their defaults are the same.
        `earlier`: without what is over ahead of that item, and in this order."""
        shown = self.shown
        if earlier is not None:
            items, turns = shown["items"], shown["turns"]
            at = list(items).index(earlier)
            rest = list(items)[at:]
            left = [id for id in list(items)[:at] if items[id]["status"] not in TERMINAL]
            of = {items[id].get("turn") for id in rest}
            first = next(n for n, turn in enumerate(turns) if turn in of)
            shown = {
                **shown,
                "earlier": earlier,
                "items": [items[id] for id in (*left, *rest)],
                "turns": list(turns.values())[first:],
            }
        return _plain(shown) | {"epoch": self.epoch}


def patched(known: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """An object with some members replaced, which are not previews any more."""
    cuts = {k: v for k, v in known.get("_cut", {}).items() if k not in patch}
    cuts |= patch.get("_cut", {})
    both = {k: v for k, v in {**known, **patch}.items() if k != "_cut"}
    return both | ({"_cut": cuts} if cuts else {})


def _plain(value: Any) -> Any:
    match value:
        case dict():
            kept = {k: _plain(v) for k, v in value.items()}
            return {k: v for k, v in kept.items() if v not in (None, "", [], {}, False, "agent")}
        case list():
            return [_plain(v) for v in value]
        case _:
            return value


class Server(Protocol):
    """The other end of one connection."""

    def receive(self, text: str) -> None: ...


class WireClient:
    """Keeps what must survive a connection: its name, its commands and its views."""

    def __init__(self, name: str | None = "client-of-a-test", **hello: Any) -> None:
        self.name = name
        self.views: dict[str, View] = {}
        self.acks: dict[str, dict[str, Any]] = {}
        self.unanswered: dict[str, str] = {}
        self.ready: dict[str, Any] | None = None
        self.sessions: list[dict[str, Any]] = []
        self.beats: list[dict[str, Any]] = []
        self.results: dict[str, str] = {}
        self.checked = 0
        self.store: dict[str, Any] | None = None  # if it does not do well
        self._hello = hello
        self._ids = count(1)

    def new_id(self) -> str:
        return f"c{next(self._ids)}"


class Wire:
    """One connection of a client."""

    def __init__(self, client: WireClient, server: Server) -> None:
        self.client = client
        self.server = server
        self.hello_id = ""
        self._here: set[str] = set()

    def hello(self, *sessions: str, resend: bool = True) -> str:
        """Say who this is and what it knows; then everything that was not answered, once more."""
        client = self.client
        for session in sessions:
            client.views.setdefault(session, View(session))
        known: list[dict[str, Any]] = []
        for view in client.views.values():
            known.append({"session": view.session})
            if view.epoch is not None:
                known[-1] |= {"epoch": view.epoch, "seq": view.seq}
        waiting = list(client.unanswered.items())
        fields = {"sessions": known, **client._hello}
        if client.name is not None:
            fields["client"] = client.name
        self.hello_id = self.send("hello", **fields)
        if resend:
            for id, _ in waiting:
                self.send_again(id)
        return self.hello_id

    def send_again(self, id: str) -> None:
        """Send a command that was not answered once more."""
        self._here.add(id)
        self.server.receive(self.client.unanswered[id])

    def send(self, type: str, *, again: str | None = None, **fields: Any) -> str:
        """Send a command; returns its id. `again`: that of one that was refused."""
        id = again or self.client.new_id()
        self.client.acks.pop(id, None)
        text = json.dumps({"type": type, "id": id, **fields})
        if (result := published.RESULTS.get((type, fields.get("op")))) is not None:
            self.client.results[id] = result
        if type not in ("hello", "attach", "detach"):
            self.client.unanswered[id] = text
        self._here.add(id)
        self.server.receive(text)
        return id

    def attach(self, session: str, **known: Any) -> str:
        self.client.views[session] = View(session)
        return self.send("attach", session=session, **known)

    def check(self, message: dict[str, Any]) -> None:
        """The frame has the fields of its type, and of its command's result, and no others."""
        client = self.client
        frame = dict(message)
        if frame["type"] in ("event", "snapshot"):
            client.checked += 1
            if client.checked > CHECKED_FRAMES:
                return
        if frame["type"] == "ack" and frame["ok"]:
            head = {name: frame.pop(name) for name in ("type", "id", "ok")}
            if (result := client.results.get(head["id"])) is not None:
                published.check(result, frame)
            frame = head
        published.check("ServerFrame", frame)

    def take(self, data: bytes) -> list[dict[str, Any]]:
        """Take a frame: one object, or several in an array."""
        frame = json.loads(data)
        messages = frame if isinstance(frame, list) else [frame]
        for message in messages:
            self._take(message)
        return messages

    def _take(self, message: dict[str, Any]) -> None:
        client = self.client
        self.check(message)
        match message["type"]:
            case "ready":
                assert message["protocol"] == "agentrt.v1"
                client.ready, client.sessions = message, message["sessions"]
                client.store = None
            case "snapshot":
                client.views[message["session"]].take_snapshot(message)
            case "event":
                client.views[message["session"]].take_event(message)
            case "ack":
                id = message["id"]
                assert id in self._here, f"{id} was answered twice, or never asked"
                self._here.discard(id)
                client.unanswered.pop(id, None)
                client.acks[id] = message
                view = client.views.get(message.get("session", ""))
                if message["ok"] and "before" in message and view is not None and view.shown:
                    view.take_history(message)
            case "sessions":
                client.sessions = message["sessions"]
            case "store":
                client.store = message if message["state"] != "ok" else None
            case "beat":
                client.beats.append(message)
                for session, told in message["sessions"].items():
                    view = client.views[session]
                    assert (told["epoch"], told["seq"]) == (view.epoch, view.seq)
            case type:
                raise AssertionError(f"nobody knows messages of type {type}")
