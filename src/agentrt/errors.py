"""Exceptions: the whole tree below `AgentrtError`."""

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
    TraceError,
)
from ._core.model.log import EventsExpired
from ._core.model.result import AgentDied, AgentFailed, TurnFailed, TurnTimedOut
from ._core.tools.tools import ToolError

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
