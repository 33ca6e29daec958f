"""One conversation: its settings, its remembered permissions, and the client's features."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import trio
from msgspec import Struct

from ..jsonrpc import INVALID_PARAMS
from .files import DemoFolder
from .history import DemoRecorder, DemoStore, StoredInfo, now
from .mcp import McpServerSpec
from .wire import DemoConnection, DemoRpcError, JsonObject

Mode: TypeAlias = Literal["ask", "auto", "plan"]
Model: TypeAlias = Literal["steady", "instant"]

CONTEXT_TOKENS = 200_000
"""The size of the context window that a model would have."""
CHARACTERS_PER_TOKEN = 4

_MODES: dict[str, tuple[str, str]] = {
    "ask": ("Ask", "Asks before it changes a file or runs a command"),
    "auto": ("Auto", "Changes files and runs commands without asking"),
    "plan": ("Plan", "Only describes its actions"),
}
_MODELS: dict[str, tuple[str, str]] = {
    "steady": ("No model, steady", "Streams its fixed answers at a reader's pace"),
    "instant": ("No model, instant", "Sends its fixed answers without a pause"),
}


def new_id() -> str:
    """Return a random id."""
    return os.urandom(6).hex()


class ClientFeatures(Struct, frozen=True):
    """The client's announced features, as far as this agent uses them."""

    read_file: bool
    write_file: bool
    terminal: bool
    boolean_options: bool
    notices: bool
    form: bool
    url: bool

    @staticmethod
    def of(capabilities: JsonObject) -> ClientFeatures:
        """Read the client's capabilities from `initialize`."""

        def has(*path: str) -> bool:
            value: object = capabilities
            for key in path:
                value = value.get(key) if isinstance(value, dict) else None
            return value is True or isinstance(value, dict)

        return ClientFeatures(
            read_file=has("fs", "readTextFile"),
            write_file=has("fs", "writeTextFile"),
            terminal=has("terminal"),
            boolean_options=has("session", "configOptions", "boolean"),
            notices=has("session", "notices"),
            form=has("elicitation", "form"),
            url=has("elicitation", "url"),
        )


class DemoSession:
    """An open session. Its nursery runs the turn and any background work."""

    def __init__(
        self,
        connection: DemoConnection,
        store: DemoStore,
        info: StoredInfo,
        *,
        offers: ClientFeatures,
        servers: list[McpServerSpec],
        model: Model,
    ) -> None:
        self.connection = connection
        self.info = info
        self.offers = offers
        self.servers = servers
        self.folder: DemoFolder = DemoFolder(
            Path(info.cwd), [Path(name) for name in info.additional_directories]
        )
        self.mode: Mode = "ask"
        self.model: Model = model
        self.thoughts: bool = True
        self.remembered: dict[str, bool] = {}
        """Kinds of tool calls that the user always allowed or rejected."""
        self.characters: int = 0
        self.cost: float = 0.0
        self.nursery: trio.Nursery
        self._store = store
        self._recorder = DemoRecorder(store, info.session_id)

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Run the session's task, which ends when its nursery is cancelled."""
        async with trio.open_nursery() as self.nursery:
            task_status.started()
            await trio.sleep_forever()

    # --- updates

    def send(self, update: JsonObject) -> None:
        """Send an update that is not part of the conversation."""
        params = {"sessionId": self.info.session_id, "update": update}
        self.connection.notify("session/update", params)

    def say(self, update: JsonObject) -> None:
        """Send an update and store it for `session/load`."""
        self.send(update)
        self.record(update)

    def record(self, update: JsonObject) -> None:
        """Store an update without sending it."""
        self._recorder.add(update)
        content = update.get("content")
        if isinstance(content, dict):
            self.characters += len(content.get("text", ""))

    def replay(self) -> None:
        """Send the whole conversation again, to a client that has not seen it."""
        for update in self._store.updates(self.info.session_id):
            self.send(update)
        self.send({"sessionUpdate": "session_info_update", "title": self.info.title})

    def save(self) -> None:
        """Write everything that is not yet stored; called at the end of each turn."""
        self._recorder.flush()
        self.info.updated_at = now()
        self._store.save(self.info)

    def set_title(self, title: str) -> None:
        """Set the conversation's title and tell the client."""
        self.info.title = title
        self.info.updated_at = now()
        self._store.save(self.info)
        update = {"title": title, "updatedAt": self.info.updated_at}
        self.send({"sessionUpdate": "session_info_update", **update})

    def send_usage(self) -> None:
        """Send the estimated number of tokens and the cost."""
        used = self.characters // CHARACTERS_PER_TOKEN
        cost = {"amount": self.cost, "currency": "USD"}
        self.send(
            {"sessionUpdate": "usage_update", "used": used, "size": CONTEXT_TOKENS, "cost": cost}
        )

    # --- settings

    def modes(self) -> JsonObject:
        """Return the modes, with the current one."""
        available = [{"id": id, "name": n, "description": d} for id, (n, d) in _MODES.items()]
        return {"currentModeId": self.mode, "availableModes": available}

    def options(self) -> list[JsonObject]:
        """Return the settings as config options. A client that supports these ignores `modes`."""
        options: list[JsonObject] = [
            _select("mode", "Mode", "mode", self.mode, _MODES),
            _select("model", "Model", "model", self.model, _MODELS),
        ]
        if self.offers.boolean_options:
            thoughts = {"id": "thoughts", "name": "Show thoughts", "category": "thought_level"}
            options.append({**thoughts, "type": "boolean", "currentValue": self.thoughts})
        return options

    def set(self, option: str, value: str | bool) -> None:
        """Change a setting. Raises `DemoRpcError` if there is no such setting or value."""
        match option, value:
            case "mode", "ask" | "auto" | "plan":
                self.mode = value
            case "model", "steady" | "instant":
                self.model = value
            case "thoughts", bool():
                self.thoughts = value
            case _:
                raise DemoRpcError(INVALID_PARAMS, f"Nothing that can be set: {option} = {value!r}")

    def send_mode(self) -> None:
        """Tell the client the current mode."""
        self.send({"sessionUpdate": "current_mode_update", "currentModeId": self.mode})

    def send_options(self) -> None:
        """Tell the client the current config options."""
        self.send({"sessionUpdate": "config_option_update", "configOptions": self.options()})


def _select(
    id: str, name: str, category: str, current: str, values: dict[str, tuple[str, str]]
) -> JsonObject:
    """Return a setting with its values as a config option."""
    options = [{"value": value, "name": n, "description": d} for value, (n, d) in values.items()]
    described = {"id": id, "name": name, "category": category}
    return {**described, "type": "select", "currentValue": current, "options": options}


assert set(_MODES) == set(get_args(Mode))
assert set(_MODELS) == set(get_args(Model))
