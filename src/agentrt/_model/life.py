"""The life of a session's process: from its start to its end, and to the next one."""

from __future__ import annotations

import enum
from typing import Final

from .._errors import LocalProtocolError
from .events import Phase


class Life(enum.Enum):
    __hash__ = object.__hash__

    STARTING = "starting"
    READY = "ready"
    """It takes prompts."""
    REPLACING = "replacing"
    """It is of no use any more and is being ended; the next prompt starts another one."""
    DEAD = "dead"
    """There is no process; the next prompt starts one."""
    CLOSING = "closing"
    """The session is being closed, and no prompt is taken."""
    CLOSED = "closed"


class LifeInput(enum.Enum):
    __hash__ = object.__hash__

    START = "start"
    OPEN = "open"
    """The handshake is over."""
    REPLACE = "replace"
    END = "end"
    """The process is gone, or did not come about."""
    CLOSE = "close"
    """Somebody closes the session."""


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

ENDED: Final = frozenset((Life.CLOSING, Life.CLOSED))
"""Where no prompt is taken any more."""

GONE: Final = frozenset((Life.DEAD, Life.CLOSED))
"""Where there is no process."""

PHASES: Final[dict[Life, Phase]] = {
    Life.STARTING: "starting",
    Life.DEAD: "dead",
    Life.CLOSED: "closed",
}
"""The phases that the process alone decides; in all others the turn does."""


def after(life: Life, input: LifeInput) -> Life:
    """The state behind an input. Raises `LocalProtocolError` for one that is illegal."""
    try:
        return TABLE[life][input]
    except KeyError:
        raise LocalProtocolError(f"{input.value} is illegal while {life.value}") from None
