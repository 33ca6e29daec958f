"""Messages to the agent that wait until their events are stored: prompts and permissions.

Without a store they are sent immediately.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from msgspec import Struct

from ..model.log import Log
from ..model.turn import TurnMachine

Kind: TypeAlias = Literal["prompt", "steer", "allow"]
"""The kind of a waiting message."""


class _UnsentMessage(Struct):
    """A message that may be sent when the event `seq` is stored."""

    seq: int
    kind: Kind
    key: str
    turn: TurnMachine | None
    send: Callable[[], None]
    drop: Callable[[], None]


class UnsentUntilStored:
    """The messages that wait for the store, in order."""

    def __init__(self, log: Log) -> None:
        """Begin without messages. `log` has the persister, if the session is stored."""
        self._log = log
        self._waiting: list[_UnsentMessage] = []

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def send_when_stored(
        self,
        kind: Kind,
        key: str,
        turn: TurnMachine | None,
        send: Callable[[], None],
        drop: Callable[[], None],
    ) -> None:
        """Call `send` once everything logged so far is stored, or `drop` if the turn stops first.

        `key` is the id of the prompt or question. `turn` is None if no turn's end concerns it. Must
        be called within a step.
        """
        keeper = self._log.persister
        if keeper is None:
            send()
        else:
            keeper.hurry()
            self._waiting.append(_UnsentMessage(self._log.seq, kind, key, turn, send, drop))

    def has_prompt_of(self, turn: TurnMachine) -> bool:
        """Return True if the turn's prompt has not been sent to the agent yet."""
        return any(each.kind == "prompt" and each.turn is turn for each in self._waiting)

    def has_permission_for(self, key: str) -> bool:
        """Return True if the question was answered with a permission that is not sent yet."""
        return any(each.kind == "allow" and each.key == key for each in self._waiting)

    def has_stored(self, seq: int) -> bool:
        """Return True if a message may be sent once the events up to `seq` are stored."""
        return bool(self._waiting) and self._waiting[0].seq <= seq

    def release(self, seq: int) -> None:
        """Send the messages that waited for the events up to `seq`, which are now stored."""
        while self.has_stored(seq):
            self._waiting.pop(0).send()

    def drop(self, turn: TurnMachine, *, ended: bool = False) -> None:
        """Drop the messages of a turn that was stopped or has `ended`.

        After `ended`, a prompt for that turn is kept: it may begin the agent's next turn, as one
        that comes too late may.
        """
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if each.turn is not turn or (ended and each.kind == "steer"):
                self._waiting.append(each)
            else:
                each.drop()

    def clear(self) -> None:
        """Drop all messages: their process has ended."""
        self._waiting.clear()
