"""Exceptions: the whole tree below `AgentrtError`.

An error's class decides how a caller can react to it; its message names the cause and, where there
is one, the remedy. `except AgentrtError` catches everything that agentrt raises on purpose. Most
wrong arguments raise `TypeError` or `ValueError`, as in other libraries, and cancellation is Trio's
own.

- *The agent did not start*: `AgentNotFound`, or `AgentStartError` with the agent's standard error.
  `FolderNotTrusted` and `SandboxUnavailable` are special cases: the agent was not started because
  the requested protection is not possible.
- *A turn failed*: `TurnFailed` and its subclasses, which have the `result` with everything that the
  turn produced. They are only raised with `check=True`, the default; the session stays usable.
- *The call is not possible now*: `LocalProtocolError`, `Busy`, `LimitExceeded`, `SessionClosed`.
  After the first two, nothing was sent and nothing has changed.
- *The agent refused or broke the protocol*: `RequestError` has the agent's own error,
  `RemoteProtocolError` the start of the line that could not be parsed.
- *Sessions are stored or shared*: `StoreError` and its subclasses. `StoreUnavailable` is temporary.
  After `SessionMoved` or `SessionElsewhere`, another process has the session.

If several tasks have failed, their errors arrive in an `ExceptionGroup`, as in every Trio program.
`ToolError` is different from all others: your tools raise it, to describe a problem to the model.
"""

from ._core.errors import (
    AgentNotFound,
    AgentrtError,
    AgentStartError,
    BudgetExceeded,
    Busy,
    FilesError,
    FolderNotTrusted,
    LimitExceeded,
    LocalProtocolError,
    ProtocolError,
    RemoteProtocolError,
    RequestError,
    SandboxUnavailable,
    SessionClosed,
    SessionElsewhere,
    SessionMoved,
    SessionNotFound,
    StoreDamaged,
    StoreError,
    StoreInUse,
    StoreUnavailable,
    ToolError,
    TraceError,
)
from ._core.model.log import EventsExpired
from ._core.model.result import AgentDied, AgentFailed, TurnFailed, TurnTimedOut

__all__ = [
    # base class
    "AgentrtError",
    # starting an agent
    "AgentNotFound",
    "AgentStartError",
    "FolderNotTrusted",
    "SandboxUnavailable",
    # talking to an agent
    "ProtocolError",
    "LocalProtocolError",
    "RemoteProtocolError",
    "RequestError",
    # turns
    "TurnFailed",
    "AgentFailed",
    "AgentDied",
    "TurnTimedOut",
    "BudgetExceeded",
    "ToolError",
    # sessions
    "Busy",
    "LimitExceeded",
    "SessionClosed",
    "SessionNotFound",
    "EventsExpired",
    "FilesError",
    # stores and traces
    "StoreError",
    "StoreInUse",
    "StoreDamaged",
    "StoreUnavailable",
    "SessionElsewhere",
    "SessionMoved",
    "TraceError",
]
