"""The effects that the protocol drivers of `agentrt.lowlevel` report.

A driver returns a list of them from each call, to be carried out in order.

There are three groups. The first reports the process and the session, and the second a turn: most
of these effects become events of a log. The third is about requests: `DecisionRequested`,
`ToolCheckRequested` and `ServiceRequested` have a `key`, with which they are answered by
`Driver.answer`, `Driver.reply` or `Driver.refuse`; `RequestWithdrawn` has the key of one that must
not be answered any more.

`Write` has bytes for the agent's standard input. Write them in order; `urgent` ones may overtake
prompts that are not written yet. `Signal` replaces a message where the protocol has none for its
purpose.

A host may ignore reports that it does not show. It must answer requests, because the agent waits
for the answer.
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
    SecretsSent,
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
    # for traces
    "SecretsSent",
]
