"""A client that goes on whatever happens, and writes down what it is shown and answered."""

from __future__ import annotations

import random
import traceback
from collections.abc import Callable
from typing import Any

import msgspec
import trio

from web.killable import SeenView
from web.sockets import CLOSE, PING, PONG, Client, frame, websocket
from web.wire_client import Wire, WireClient

from .history import History, Json, Said, Shown, text_of

SILENCE = 10.0
"""Seconds without a word of the server, which says one each second, until the client connects
again."""
PATIENCE = 30.0
"""Seconds that a turn may be without an end until it does so as well."""
LOST = 5
"""Refusals after which a session that had no turn is given up."""
LIST = b'{"type":"sessions"'
"""How the list of all sessions begins."""


class Leave(Exception):
    """This connection is over."""


class LoggedView(SeenView):
    def __init__(self, session: str, client: str, history: History) -> None:
        super().__init__(session)
        self._client = client
        self._history = history

    def take_event(self, frame: Json) -> None:
        self._history.shown.append(
            Shown(
                self._client,
                frame["session"],
                frame["epoch"],
                self.seq,
                frame["seq"],
                frame["event"],
            )
        )
        super().take_event(frame)


class ClusterWire(Wire):
    def take(self, data: bytes) -> list[Json]:
        # Two hundred clients that are told of two hundred sessions are one process here: it would
        # do little else than to read lists.
        if data.startswith(LIST):
            return []
        frame = msgspec.json.decode(data)
        messages = frame if isinstance(frame, list) else [frame]
        for message in messages:
            self._take(message)
        return messages

    def _take(self, message: Json) -> None:
        if message["type"] == "closing":
            raise Leave(message["reason"])
        if message["type"] == "beat":
            return  # it may be of a moment before a session was followed again
        super()._take(message)


class ClusterClient:
    """`run` keeps it connected to one server or another; `work` has a session do things."""

    def __init__(self, name: str, port: int, history: History) -> None:
        self.name = name
        self.port = port
        self.history = history
        self.client = WireClient(name)
        self.chance = random.Random(name)
        self.connections = 0
        self.stuck = 0
        """How often it has connected again only because a turn did not end."""
        self._answered: set[tuple[str, int]] = set()
        self.session: str | None = None
        self.busy = False
        self._changed = trio.Event()
        self._out: trio.MemorySendChannel[bytes] | None = None
        self._connected = trio.Event()
        self._scope: trio.CancelScope | None = None
        self._prompts = 0

    def __str__(self) -> str:
        """Where it is, for who wonders why it does not go on."""
        view = self.client.views.get(self.session or "")
        shown = {key: view.shown.get(key) for key in ("state", "queue", "paused")} if view else {}
        waits = list(self.client.unanswered.values())
        said = [each for each in self.history.said if each.client == self.name]
        last = said[-1] if said else None
        return f"{self.name} ({self.connections=}, {waits=}, {shown=}, {last=})"

    # --- the connection

    def receive(self, text: str) -> None:
        """As `Wire` sends it: what finds no connection is sent by the next one."""
        if self._out is not None:
            self._out.send_nowait(frame(text))

    async def run(self) -> None:
        while True:
            try:
                with trio.CancelScope() as self._scope:
                    await self._connection()
            except* (OSError, EOFError, trio.BrokenResourceError, trio.ClosedResourceError, Leave):
                pass
            except* AssertionError as errors:
                for error in errors.exceptions:
                    [*_, last] = traceback.extract_tb(error.__traceback__)
                    self.history.broken.append(f"{self.name}: {error or last.line}")
                for session in self.client.views:
                    self.follow(session)
            self._out = None
            await trio.sleep(self.chance.uniform(0.05, 0.3))

    def leave(self) -> None:
        """Connect again, perhaps to another server."""
        if self._scope is not None:
            self._scope.cancel(reason="another server")

    async def _connection(self) -> None:
        with trio.move_on_after(SILENCE) as opening:
            async with websocket(self.port) as socket:
                opening.deadline = float("inf")
                self.connections += 1
                self._out, wanted = trio.open_memory_channel[bytes](1000)
                self._connected.set()
                self._connected = trio.Event()
                self.wire = ClusterWire(self.client, self)
                self.wire.hello()
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._write, socket, wanted)
                    await self._read(socket)

    async def _read(self, socket: Client) -> None:
        while True:
            with trio.move_on_after(SILENCE) as silence:
                opcode, payload = await socket.frame()
            if silence.cancelled_caught:
                raise Leave("silence")
            if opcode == PING and self._out is not None:
                self._out.send_nowait(frame(payload, PONG))
            elif opcode == CLOSE:
                raise Leave("closed")
            else:
                self.wire.take(payload)
                self._changed.set()
                self._changed = trio.Event()

    async def _write(self, socket: Client, wanted: trio.MemoryReceiveChannel[bytes]) -> None:
        async for data in wanted:
            try:
                await socket.send(data)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                return  # the reader sees it, too

    # --- what it wants

    async def ask(self, type: str, *, again: str | None = None, **fields: Any) -> Json:
        """Have a command carried out, by whichever server; its answer, which may be a refusal.
        `again`: under the id of before."""
        while self._out is None:
            await self._connected.wait()
        id = self.wire.send(type, again=again, **fields)
        while id not in self.client.acks:
            await self._changed.wait()
        return self.client.acks[id]

    async def until(self, check: Callable[[], Any]) -> None:
        """Connect again when it takes too long."""
        while True:
            with trio.move_on_after(PATIENCE):
                while not check():
                    await self._changed.wait()
                return
            self.stuck += 1
            self.leave()

    def follow(self, session: str) -> None:
        self.client.views[session] = LoggedView(session, self.name, self.history)

    def attach(self, session: str) -> None:
        self.follow(session)
        if self._out is not None:
            self.wire.send("attach", session=session)

    def view(self, session: str) -> SeenView:
        view = self.client.views[session]
        assert isinstance(view, SeenView)
        return view

    # --- a life

    async def work(self, agent: str, over: trio.Event) -> None:
        """Prompt, see it answered and the turn over, and prompt again; a last time when it is
        over."""
        self.busy = True
        while True:
            last = over.is_set()
            session = self.session or await self._open(agent)
            if session is not None and await self._turn(session) and last:
                break
            if not over.is_set():
                await trio.sleep(self.chance.uniform(0, 1))
        self.busy = False

    async def _open(self, agent: str) -> str | None:
        answer = await self.ask("session", op="new", agent=agent)
        if not answer["ok"]:
            self.leave()
            await trio.sleep(self.chance.uniform(0.1, 0.5))
            return None
        self.session = session = str(answer["session"])
        self.attach(session)
        return session

    async def _turn(self, session: str) -> bool:
        """One turn, or two; whether the last of them was seen to end."""
        first = len(self.history.said)
        prompts = [await self._prompt(session)]
        if self.chance.random() < 0.15:
            prompts.append(await self._prompt(session, "queue"))
        if None in prompts:
            return False
        if self.chance.random() < 0.2:
            await trio.sleep(self.chance.uniform(0, 0.3))
            turn = prompts[-1].get("turn")  # type: ignore[union-attr]
            named = {"turn": turn} if turn is not None else {}
            await self.ask("cancel", session=session, **named)
        seen = max(answer["seq"] for answer in prompts if answer is not None)
        mine = {said.text for said in self.history.said[first:] if said.client == self.name}
        await self.until(lambda: self._over(session, seen, mine))
        return True

    async def _prompt(self, session: str, when: str = "queue") -> Json | None:
        """Send one until it is taken; None: the session is gone, which never had a turn."""
        self._prompts += 1
        asks = "ask-" * (self.chance.random() < 0.15)
        text = f"{self.name}-{asks}{self._prompts}"
        said = Said(self.name, session, text)
        self.history.said.append(said)
        content = [{"type": "text", "text": text}]
        again = None
        while True:
            fields = {"session": session, "content": content, "when": when}
            answer = await self.ask("prompt", again=again, **fields)
            if answer["ok"]:
                said.answer = answer
                return answer
            said.refused.append(f"{answer['error']['code']}: {answer['error']['message']}")
            # Whether it was carried out may not be known: then it is the same command again.
            again = answer["id"] if answer["error"]["code"] == "unavailable" else None
            codes = [each.partition(":")[0] for each in said.refused]
            if codes.count("unknown_session") > LOST and not self._acknowledged(session):
                self.session = None
                return None
            self.leave()
            await trio.sleep(self.chance.uniform(0.1, 0.5))

    def _acknowledged(self, session: str) -> bool:
        return any(said.answer for said in self.history.said if said.session == session)

    def _over(self, session: str, seen: int, texts: set[str]) -> bool:
        """Whether all up to `seen` is shown, these prompts have begun or are paused, and nothing
        runs. Answers open questions."""
        view = self.view(session)
        if view.epoch is None or view.seq < seen:
            return False
        for request in view.shown["permissions"].values():
            asked = (request["request"], self.connections)
            if asked not in self._answered:
                self._answered.add(asked)
                self.wire.send(
                    "permission",
                    session=session,
                    request=request["request"],
                    option="allow_once" if self.chance.random() < 0.8 else "reject_once",
                )
        # Between its entry in the queue and the start of its turn, a prompt is neither.
        users = (item for item in view.shown["items"].values() if item["type"] == "user")
        begun = {text_of(item["content"]) for item in users}
        paused = {text_of(entry["content"]) for entry in view.shown["queue"] if entry.get("paused")}
        waits = any(not entry.get("paused") for entry in view.shown["queue"])
        dropped = view.phase == "dead"  # no agent could be started for them
        return (dropped or texts <= begun | paused) and not view.busy and not waits
