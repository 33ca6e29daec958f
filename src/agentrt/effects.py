"""The effects that the protocol drivers of `agentrt.lowlevel` report.

A driver returns a list of them from each call, to be carried out in order.
"""

from ._core.model.driver import (
    BlockReceived,
    CallReturned,
    CommandsSet,
    DecisionRequested,
    ModesSet,
    PlanSet,
    RequestWithdrawn,
    Retracted,
    ServiceRequested,
    Signal,
    Started,
    StartFailed,
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

__all__ = [
    # about the process and the session
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
    # about a turn
    "TurnBegan",
    "UserContentReceived",
    "TextReceived",
    "TextEnded",
    "BlockReceived",
    "ToolCalled",
    "Retracted",
    "TurnFinished",
    # that need an answer
    "DecisionRequested",
    "ToolCheckRequested",
    "ServiceRequested",
    "RequestWithdrawn",
    "CallReturned",
]
