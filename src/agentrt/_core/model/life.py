"""The life cycle of a session's process, from its start to its end and its replacement."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

from ..errors import LocalProtocolError
from .events import Phase


class ProcessLife(enum.Enum):
    """The state of a session's process."""

    if not TYPE_CHECKING:
        __hash__ = object.__hash__

    STARTING = "starting"
    READY = "ready"
    """The process accepts prompts."""
    REPLACING = "replacing"
    """The process is unusable and is being ended; the next prompt starts another one."""
    DEAD = "dead"
    """The process has ended; the next prompt starts another one."""
    CLOSING = "closing"
    """The session is being closed and accepts no prompts."""
    CLOSED = "closed"


class ProcessLifeInput(enum.Enum):
    """An input of the life cycle."""

    if not TYPE_CHECKING:
        __hash__ = object.__hash__

    START = "start"
    OPEN = "open"
    """The handshake is over."""
    REPLACE = "replace"
    END = "end"
    """The process has ended or could not be started."""
    CLOSE = "close"
    """A request to close the session."""


TABLE: Final[dict[ProcessLife, dict[ProcessLifeInput, ProcessLife]]] = {
    ProcessLife.STARTING: {
        ProcessLifeInput.START: ProcessLife.STARTING,
        ProcessLifeInput.OPEN: ProcessLife.READY,
        ProcessLifeInput.END: ProcessLife.DEAD,
        ProcessLifeInput.CLOSE: ProcessLife.CLOSED,
    },
    ProcessLife.READY: {
        ProcessLifeInput.OPEN: ProcessLife.READY,
        ProcessLifeInput.REPLACE: ProcessLife.REPLACING,
        ProcessLifeInput.END: ProcessLife.DEAD,
        ProcessLifeInput.CLOSE: ProcessLife.CLOSING,
    },
    ProcessLife.REPLACING: {
        ProcessLifeInput.OPEN: ProcessLife.REPLACING,
        ProcessLifeInput.REPLACE: ProcessLife.REPLACING,
        ProcessLifeInput.END: ProcessLife.DEAD,
        ProcessLifeInput.CLOSE: ProcessLife.CLOSING,
    },
    ProcessLife.DEAD: {
        ProcessLifeInput.START: ProcessLife.STARTING,
        ProcessLifeInput.END: ProcessLife.DEAD,
        ProcessLifeInput.CLOSE: ProcessLife.CLOSED,
    },
    ProcessLife.CLOSING: {
        ProcessLifeInput.OPEN: ProcessLife.CLOSING,
        ProcessLifeInput.REPLACE: ProcessLife.CLOSING,
        ProcessLifeInput.END: ProcessLife.CLOSED,
        ProcessLifeInput.CLOSE: ProcessLife.CLOSING,
    },
    ProcessLife.CLOSED: {
        ProcessLifeInput.OPEN: ProcessLife.CLOSED,
        ProcessLifeInput.END: ProcessLife.CLOSED,
        ProcessLifeInput.CLOSE: ProcessLife.CLOSED,
    },
}
"""The transitions: the next state by current state and input. Other inputs are illegal."""

ENDED: Final = frozenset((ProcessLife.CLOSING, ProcessLife.CLOSED))
"""The states in which no prompt is accepted any more."""

GONE: Final = frozenset((ProcessLife.DEAD, ProcessLife.CLOSED))
"""The states without a process."""

PHASES: Final[dict[ProcessLife, Phase]] = {
    ProcessLife.STARTING: "starting",
    ProcessLife.DEAD: "dead",
    ProcessLife.CLOSED: "closed",
}
"""The phases that the process alone determines; the turn determines all others."""


def next_life(life: ProcessLife, input: ProcessLifeInput) -> ProcessLife:
    """Return the state after an input. Raises `LocalProtocolError` if the input is illegal."""
    try:
        return TABLE[life][input]
    except KeyError:
        raise LocalProtocolError(f"{input.value} is illegal while {life.value}") from None
