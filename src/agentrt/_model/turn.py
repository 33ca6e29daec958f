"""THE turn: its states, the one table that moves it, and its record.

Whatever decides whether a turn waits for its place, runs, waits for an answer, is being cancelled
or is over lives here; no other room keeps a flag for it.
"""

from __future__ import annotations

import contextvars
import enum
import math
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from msgspec import Struct

from .._errors import AgentrtError, LocalProtocolError
from .._limits import Limits
from .content import Block
from .events import CancelledBy, Error, Origin, Outcome, Phase, TurnEnded
from .result import Denial, Failure, TurnResult

if TYPE_CHECKING:
    from .log import Cursor


class TurnState(enum.Enum):
    __hash__ = object.__hash__  # in C; members are singletons

    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    CANCELLING = "cancelling"
    ENDED = "ended"
    DROPPED = "dropped"


class TurnInput(enum.Enum):
    __hash__ = object.__hash__

    START = "start"
    """Its prompt is sent, or the agent has begun it by itself."""
    DROP = "drop"
    """Its prompt is taken back, or cannot be sent."""
    ASK = "ask"
    """The agent asks something that a person or a policy must answer."""
    RESOLVE = "resolve"
    """The last open question is answered, withdrawn or expired."""
    CANCEL = "cancel"
    """Somebody wants the turn to stop."""
    END = "end"
    """It is over: by the agent's word, its death, or because nobody waits any longer."""


TABLE: Final[dict[TurnState, dict[TurnInput, TurnState]]] = {
    TurnState.QUEUED: {
        TurnInput.START: TurnState.RUNNING,
        TurnInput.DROP: TurnState.DROPPED,
    },
    TurnState.RUNNING: {
        TurnInput.ASK: TurnState.WAITING,
        TurnInput.CANCEL: TurnState.CANCELLING,
        TurnInput.END: TurnState.ENDED,
    },
    TurnState.WAITING: {
        TurnInput.ASK: TurnState.WAITING,
        TurnInput.RESOLVE: TurnState.RUNNING,
        TurnInput.CANCEL: TurnState.CANCELLING,
        TurnInput.END: TurnState.ENDED,
    },
    TurnState.CANCELLING: {
        TurnInput.CANCEL: TurnState.CANCELLING,
        TurnInput.END: TurnState.ENDED,
    },
    TurnState.ENDED: {},
    TurnState.DROPPED: {},
}

PHASES: Final[dict[TurnState, Phase]] = {
    TurnState.RUNNING: "running",
    TurnState.WAITING: "waiting",
    TurnState.CANCELLING: "cancelling",
}

_DEFAULTS: Final = Limits()


class Deadline(Protocol):
    """What can be moved by others: on the session's monotonic clock."""

    @property
    def deadline(self) -> float: ...

    @deadline.setter
    def deadline(self, at: float, /) -> None: ...


class TurnMachine(Struct, eq=False):
    """One turn from the moment it is wanted to its one end.

    An illegal input raises `LocalProtocolError` and changes nothing. Instants named `…_at` are on
    the monotonic clock of the session, `since` and the two deadlines on the wall's.
    """

    origin: Origin
    limits: Limits = _DEFAULTS
    content: list[Block] | None = None
    """The prompt; None for a turn that the agent began."""
    explicit: bool = True
    """False for a turn of the agent's own that has no end on the wire."""
    attended: bool = False
    """Whether somebody iterates over it, and may answer its questions."""
    unstarted: bool = False
    """The prompt was dropped because no agent could be started for it."""

    id: str = ""
    """Its id in the log; empty until it has started."""
    state: TurnState = TurnState.QUEUED
    entry: str = ""
    """Its id in the queue; empty if it did not have to wait."""
    cursor: Cursor | None = None
    """Where its reader is; made when it starts, if it is attended."""
    context: contextvars.Context | None = None
    """What its handlers run in."""
    handle: Callable[[], object | None] | None = None
    """Gives what its owner holds of it, as long as it is held."""
    unused: bool = False
    """True until the block of a prompt is entered, which sends it."""
    awaited: bool = False
    """Whether somebody is in its block, and gets what goes wrong."""

    # --- its clocks
    since: float = 0.0
    deadline: float | None = None
    """When the hard limit is reached; None while there is none, or a person is asked."""
    cancel_deadline: float | None = None
    began_at: float = 0.0
    hard_at: float = math.inf
    grace_at: float = math.inf
    """When the agent has had its time to end the cancelled turn."""
    resend_at: float = math.inf
    hard_left: float | None = None
    """What is left to `hard_at` while a person is asked, whose time is not the turn's."""
    moved: bool = False
    """Whether the program has moved `hard_at`, which is not `limits.hard` any more."""
    scope: Deadline | None = None
    """The cancel scope whose deadline is the hard limit, once somebody has looked at it."""

    # --- how it ends
    by: CancelledBy | None = None
    """Who cancelled first."""
    verdict: Outcome | None = None
    """What agentrt decided about its end; it wins over what the agent calls it."""
    timeout: Error | None = None
    """Which limit it has reached."""
    denied: tuple[Denial, ...] = ()
    """What the agent asked for and was rejected."""
    failures: tuple[Failure, ...] = ()
    """Exceptions of the program's own tools and handlers."""
    ended: TurnEnded | None = None
    ended_at: float = 0.0
    ended_seq: int = 0
    """The number of the event `ended` in the log."""
    answer: Callable[[], str] | None = None
    """Puts its answer together, which may be long; what it is does not change any more."""
    failure: AgentrtError | None = None
    """Why it was dropped."""
    error: BaseException | None = None
    """What a task of the program's in its nursery has raised."""
    _result: TurnResult | None = None

    def __del__(self) -> None:
        if self.unused:
            warnings.warn(
                "a prompt was never sent: enter it with `async with session.prompt(...)`, or use"
                " `session.run` or `session.submit`",
                RuntimeWarning,
                stacklevel=2,
            )

    def apply(self, input: TurnInput) -> TurnState:
        try:
            self.state = TABLE[self.state][input]
        except KeyError:
            raise LocalProtocolError(
                f"{input.value} is illegal in turn {self.id}, which is {self.state.value}"
            ) from None
        return self.state

    @property
    def result(self) -> TurnResult | None:
        """How it ended; None while it has not. Made when somebody asks."""
        ended = self.ended
        if self._result is None and ended is not None:
            self._result = TurnResult(
                turn=ended.turn,
                outcome=ended.outcome,
                by=ended.by,
                stop_reason=ended.stop_reason,
                text=self.answer() if self.answer is not None else "",
                usage=ended.usage,
                error=ended.error,
                structured_output=ended.structured_output,
                duration=self.ended_at - self.began_at,
                denials=self.denied,
                failures=self.failures,
            )
        return self._result

    @property
    def cancelling(self) -> bool:
        return self.state is TurnState.CANCELLING

    @property
    def over(self) -> bool:
        """Whether nothing will come of it any more."""
        return not TABLE[self.state]
