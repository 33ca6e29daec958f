"""The turn: its states, its transition table and its record.

All state that decides whether a turn is queued, running, waiting for an answer, being cancelled or
over is here; no other module keeps a flag for it.
"""

from __future__ import annotations

import contextvars
import enum
import math
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from msgspec import Struct

from ..errors import AgentrtError, LocalProtocolError
from ..limits import Limits
from .content import Block
from .events import (
    NO_ORIGIN,
    AnswerOrigin,
    CancelledBy,
    ErrorInfo,
    Origin,
    Outcome,
    Phase,
    TurnEnded,
)
from .result import Denial, Failure, TurnResult

if TYPE_CHECKING:
    from .log import Cursor


class TurnMachineState(enum.Enum):
    """The state of a turn."""

    if not TYPE_CHECKING:
        __hash__ = object.__hash__  # implemented in C; members are singletons

    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    CANCELLING = "cancelling"
    ENDED = "ended"
    DROPPED = "dropped"


class TurnMachineInput(enum.Enum):
    """An input of the turn's state machine."""

    if not TYPE_CHECKING:
        __hash__ = object.__hash__

    START = "start"
    """The prompt is sent, or the agent has begun the turn by itself."""
    DROP = "drop"
    """The prompt is withdrawn or cannot be sent."""
    ASK = "ask"
    """The agent asks something that a person or a policy must answer."""
    RESOLVE = "resolve"
    """The last open question is answered, withdrawn or expired."""
    CANCEL = "cancel"
    """A request to stop the turn."""
    END = "end"
    """The turn is over: reported by the agent, because it died, or because waiting has ended."""


TABLE: Final[dict[TurnMachineState, dict[TurnMachineInput, TurnMachineState]]] = {
    TurnMachineState.QUEUED: {
        TurnMachineInput.START: TurnMachineState.RUNNING,
        TurnMachineInput.DROP: TurnMachineState.DROPPED,
    },
    TurnMachineState.RUNNING: {
        TurnMachineInput.ASK: TurnMachineState.WAITING,
        TurnMachineInput.CANCEL: TurnMachineState.CANCELLING,
        TurnMachineInput.END: TurnMachineState.ENDED,
    },
    TurnMachineState.WAITING: {
        TurnMachineInput.ASK: TurnMachineState.WAITING,
        TurnMachineInput.RESOLVE: TurnMachineState.RUNNING,
        TurnMachineInput.CANCEL: TurnMachineState.CANCELLING,
        TurnMachineInput.END: TurnMachineState.ENDED,
    },
    TurnMachineState.CANCELLING: {
        TurnMachineInput.CANCEL: TurnMachineState.CANCELLING,
        TurnMachineInput.END: TurnMachineState.ENDED,
    },
    TurnMachineState.ENDED: {},
    TurnMachineState.DROPPED: {},
}
"""The transitions: the next state by current state and input. Other inputs are illegal."""

FINAL: Final = frozenset(state for state, inputs in TABLE.items() if not inputs)
"""The states of a turn that is over."""

PHASES: Final[dict[TurnMachineState, Phase]] = {
    TurnMachineState.RUNNING: "running",
    TurnMachineState.WAITING: "waiting",
    TurnMachineState.CANCELLING: "cancelling",
}
"""The session's phase for each state of a running turn."""

_DEFAULTS: Final = Limits()


class MovableDeadline(Protocol):
    """A deadline that others can move, on the session's monotonic clock."""

    @property
    def deadline(self) -> float:
        """The time on Trio's clock at which the scope is cancelled."""
        ...

    @deadline.setter
    def deadline(self, at: float, /) -> None: ...


class TurnMachine(Struct, eq=False):
    """One turn, from the request for it to its end.

    An illegal input raises `LocalProtocolError` and changes nothing. Times named `…_at` are on the
    session's monotonic clock; `since` and the two deadlines are wall-clock times.
    """

    origin: Origin
    limits: Limits = _DEFAULTS
    content: list[Block] | None = None
    """The prompt; None for a turn that the agent began."""
    explicit: bool = True
    """False for a turn that the agent began, if the wire does not report its end."""
    attended: bool = False
    """True if a reader iterates over it and may answer its questions."""
    unstarted: bool = False
    """True if the prompt was dropped because no agent could be started for it."""

    id: str = ""
    """The turn's id in the log; empty until it has started."""
    state: TurnMachineState = TurnMachineState.QUEUED
    entry: str = ""
    """The prompt's id in the queue; empty if it did not have to wait."""
    cursor: Cursor | None = None
    """The position of its reader; made when the turn starts, if it is attended."""
    context: contextvars.Context | None = None
    """The context in which its handlers run."""
    handle: Callable[[], object | None] | None = None
    """Returns the owner's handle of the turn, as long as the owner keeps it."""
    unused: bool = False
    """True until the block of a prompt is entered, which sends it."""
    awaited: bool = False
    """True if a task is inside its block and receives its errors."""

    # --- clocks
    since: float = 0.0
    deadline: float | None = None
    """The time of the hard limit; None without a limit and while a person is asked."""
    cancel_deadline: float | None = None
    began_at: float = 0.0
    hard_at: float = math.inf
    grace_at: float = math.inf
    """The end of the agent's grace period for ending a cancelled turn."""
    resend_at: float = math.inf
    hard_left: float | None = None
    """The time left until `hard_at` while a person is asked: that time does not count."""
    retry_at: float = math.inf
    """The time at which the prompt is sent again after a rate limit; infinity unless waiting."""
    waits_until: float | None = None
    """The time of `retry_at` on the wall clock; None unless waiting."""
    waited_s: float = 0.0
    """The time spent waiting for the ends of rate limits, in seconds."""
    retries: int = 0
    """The number of times that the prompt was sent again."""
    budget_at: float = math.inf
    """The time at which a budget's time is over."""
    moved: bool = False
    """True if the program has moved `hard_at`, which then differs from `limits.turn_timeout_s`."""
    scope: MovableDeadline | None = None
    """The cancel scope with the hard limit as its deadline, once it has been accessed."""

    # --- the end
    by: CancelledBy | None = None
    """The party that cancelled first."""
    cancelled_from: AnswerOrigin = NO_ORIGIN
    """The origin of that cancellation."""
    verdict: Outcome | None = None
    """The outcome decided by agentrt; it overrides the agent's."""
    timeout: ErrorInfo | None = None
    """The limit that was reached."""
    denied: tuple[Denial, ...] = ()
    """The agent's requests that were rejected."""
    failures: tuple[Failure, ...] = ()
    """Exceptions of the program's own tools and handlers."""
    served: bool = False
    """True if the agent had a tool, a command or a write of this process's, even if it has reported
    no call.
    """
    ended: TurnEnded | None = None
    ended_at: float = 0.0
    ended_seq: int = 0
    """The number of the event `ended` in the log."""
    answer: Callable[[], str] | None = None
    """Joins the text of the answer, which may be long and no longer changes."""
    failure: AgentrtError | None = None
    """The reason why the prompt was dropped."""
    error: BaseException | None = None
    """The exception raised by a task of the program in the turn's nursery."""
    _result: TurnResult | None = None

    def __del__(self) -> None:
        """Warn about a prompt that was made and never sent: usually `async with` is missing."""
        if self.unused:
            warnings.warn(
                "a prompt was never sent: enter it with `async with session.prompt(...)`, or use"
                " `session.run` or `session.submit`",
                RuntimeWarning,
                stacklevel=2,
            )

    def apply(self, input: TurnMachineInput) -> TurnMachineState:
        """Move to the next state and return it.

        Raises `LocalProtocolError` if `input` is illegal in the current state.
        """
        try:
            self.state = TABLE[self.state][input]
        except KeyError:
            raise LocalProtocolError(
                f"{input.value} is illegal in turn {self.id}, which is {self.state.value}"
            ) from None
        return self.state

    @property
    def result(self) -> TurnResult | None:
        """The result, or None while the turn has not ended. Built on first access."""
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
        """True if the turn is being cancelled."""
        return self.state is TurnMachineState.CANCELLING
