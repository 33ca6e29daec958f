"""The result of a turn, as a value and as exceptions."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from ..errors import AgentrtError, with_stderr
from .events import CancelledBy, ErrorInfo, Outcome, Usage


class Denial(Struct, frozen=True, kw_only=True):
    """A permission request that was rejected in a turn."""

    title: str
    """The title of the request, as in `PermissionOpened`."""
    by: str
    """As in `PermissionClosed`: `user`, `policy`, `unattended` or `timeout`."""
    reason: str = ""
    """The reason, if a rule, a policy or a person gave one."""
    item: str | None = None
    """The tool call that the request was about, if any."""


class Failure(Struct, frozen=True, kw_only=True):
    """An exception raised by the program's own code during a turn.

    Such code is a tool, a hook, a permission policy or another handler. The agent got an error
    instead of an answer, and the exception is logged with its traceback.
    """

    what: str
    """The code that failed, such as `the tool greet`."""
    error: str
    """The exception's class and message."""


class TurnResult(Struct, frozen=True, kw_only=True):
    """The result of a turn.

    `text` is the whole answer (without thoughts), its parts separated by blank lines. `outcome` is
    determined by agentrt; `stop_reason` is the agent's own value. `duration` is in seconds.
    """

    turn: str
    """The id of the turn."""
    outcome: Outcome
    by: CancelledBy | None = None
    """The party that cancelled the turn; None for every other outcome."""
    stop_reason: str | None = None
    text: str = ""
    usage: Usage | None = None
    """Tokens and cost of the turn, if the agent reports them."""
    error: ErrorInfo | None = None
    """The error of a turn that did not end well, if one is known."""
    structured_output: Any = None
    """The parsed answer, if the session has a JSON schema for answers (`json_schema`)."""
    duration: float = 0.0
    denials: tuple[Denial, ...] = ()
    """The permission requests that were rejected in the turn, in order."""
    failures: tuple[Failure, ...] = ()
    """Exceptions of the program's own tools and handlers in the turn, in order."""

    @property
    def cost(self) -> float | None:
        """The cost of the turn, or None if the agent did not report it (see `usage.currency`)."""
        return self.usage.cost if self.usage is not None else None


class TurnFailed(AgentrtError):
    """A turn ended unsuccessfully; see `result`."""

    __module__ = "agentrt.errors"  # the public import path, as shown in tracebacks

    def __init__(self, message: str, result: TurnResult) -> None:
        """Describe a turn that has failed; `result` is also an attribute."""
        super().__init__(message)
        self.result = result


class AgentFailed(TurnFailed):
    """The agent answered the prompt with an error."""

    __module__ = "agentrt.errors"


class AgentDied(TurnFailed):
    """The agent's process ended in the middle of the turn.

    The prompt is not sent again. The message ends with the last lines of the process's standard
    error.
    """

    __module__ = "agentrt.errors"

    def __init__(self, message: str, result: TurnResult) -> None:
        """As `TurnFailed`, with the end of the process's standard error in the message."""
        data = result.error.data if result.error is not None else None
        stderr = data.get("stderr") if isinstance(data, dict) else None
        super().__init__(with_stderr(message, str(stderr or "")), result)


class TurnTimedOut(TurnFailed):
    """The idle limit or the hard limit ended the turn."""

    __module__ = "agentrt.errors"
