"""The life cycle of a session's process, from its start to its end and its replacement."""

from __future__ import annotations

import enum
from typing import Final

from .._errors import LocalProtocolError
from .events import Phase


class Life(enum.Enum):
    """The state of a session's process."""

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


class LifeInput(enum.Enum):
    """An input of the life cycle."""

    __hash__ = object.__hash__

    START = "start"
    OPEN = "open"
    """The handshake is over."""
    REPLACE = "replace"
    END = "end"
    """The process has ended or could not be started."""
    CLOSE = "close"
    """A request to close the session."""


TABLE: Final[dict[Life, dict[LifeInput, Life]]] = {
    Life.STARTING: {
        LifeInput.START: Life.STARTING,
        LifeInput.OPEN: Life.READY,
        LifeInput.END: Life.DEAD,
        LifeInput.CLOSE: Life.CLOSED,
    },
    Life.READY: {
        LifeInput.OPEN: Life.READY,
        LifeInput.REPLACE: Life.REPLACING,
        LifeInput.END: Life.DEAD,
        LifeInput.CLOSE: Life.CLOSING,
    },
    Life.REPLACING: {
        LifeInput.OPEN: Life.REPLACING,
        LifeInput.REPLACE: Life.REPLACING,
        LifeInput.END: Life.DEAD,
        LifeInput.CLOSE: Life.CLOSING,
    },
    Life.DEAD: {
        LifeInput.START: Life.STARTING,
        LifeInput.END: Life.DEAD,
        LifeInput.CLOSE: Life.CLOSED,
    },
    Life.CLOSING: {
        LifeInput.OPEN: Life.CLOSING,
        LifeInput.REPLACE: Life.CLOSING,
        LifeInput.END: Life.CLOSED,
        LifeInput.CLOSE: Life.CLOSING,
    },
    Life.CLOSED: {
        LifeInput.OPEN: Life.CLOSED,
        LifeInput.END: Life.CLOSED,
        LifeInput.CLOSE: Life.CLOSED,
    },
}
"""The transitions: the next state by current state and input. Other inputs are illegal."""

ENDED: Final = frozenset((Life.CLOSING, Life.CLOSED))
"""The states in which no prompt is accepted any more."""

GONE: Final = frozenset((Life.DEAD, Life.CLOSED))
"""The states without a process."""

PHASES: Final[dict[Life, Phase]] = {
    Life.STARTING: "starting",
    Life.DEAD: "dead",
    Life.CLOSED: "closed",
}
"""The phases that the process alone determines; the turn determines all others."""


def after(life: Life, input: LifeInput) -> Life:
    """Return the state after an input. Raises `LocalProtocolError` if the input is illegal."""
    try:
        return TABLE[life][input]
    except KeyError:
        raise LocalProtocolError(f"{input.value} is illegal while {life.value}") from None
