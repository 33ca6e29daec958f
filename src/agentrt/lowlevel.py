"""For authors of integrations: the protocol drivers without I/O, and the event log.

A driver turns bytes of an agent into effects and commands into bytes. It needs no Trio, no process
and no clock.
"""

from ._core.acp.driver import AcpDriver
from ._core.acp.messages import ClientCapabilities, Implementation, client_capabilities
from ._core.claude.driver import ClaudeDriver
from ._core.codex.driver import CodexDriver
from ._core.codex.messages import CodexClientInfo
from ._core.model.driver import (
    BlockReceived,
    CallReturned,
    CommandsSet,
    DecisionAnswer,
    DecisionRequested,
    Driver,
    Effect,
    EndsBySilence,
    ModesSet,
    Opening,
    PlanSet,
    RequestWithdrawn,
    Retracted,
    ServiceRequested,
    Signal,
    Started,
    StartFailed,
    Steers,
    TaskSet,
    TextEnded,
    TextReceived,
    TitleSet,
    ToolCalled,
    ToolCheckRequested,
    TurnBegan,
    TurnFinished,
    UsageSet,
    UserContentReceived,
    Write,
)
from ._core.model.log import Cursor, Log
from ._core.model.state import SessionState

__all__ = [
    # drivers
    "Driver",
    "EndsBySilence",
    "Steers",
    "AcpDriver",
    "ClaudeDriver",
    "CodexDriver",
    # arguments of drivers
    "Opening",
    "DecisionAnswer",
    "client_capabilities",
    "ClientCapabilities",
    "Implementation",
    "CodexClientInfo",
    # effects about the process and the session
    "Effect",
    "Write",
    "Signal",
    "Started",
    "StartFailed",
    "ModesSet",
    "CommandsSet",
    "TitleSet",
    "UsageSet",
    "TaskSet",
    "PlanSet",
    # effects about a turn
    "TurnBegan",
    "UserContentReceived",
    "TextReceived",
    "TextEnded",
    "BlockReceived",
    "ToolCalled",
    "Retracted",
    "TurnFinished",
    # effects that need an answer
    "DecisionRequested",
    "ToolCheckRequested",
    "ServiceRequested",
    "RequestWithdrawn",
    "CallReturned",
    # the event log
    "Log",
    "Cursor",
    "SessionState",
]
