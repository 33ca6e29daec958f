"""Events of a session's log, and the content that they carry.

Each event encodes to the `event` field of a frame of the browser protocol.

A session has one log. Each event in it has a number, and all readers get the same events in the
same order: a turn's iterator, `Session.subscribe`, browsers, terminals and stores. A reader that
joins late or was cut off starts from a `Snapshot` and continues with the events after its number.

The kinds of events, by their subject:

- *Turns*: `TurnStarted` and `TurnEnded`. At most one turn runs at a time, and each ends exactly
  once, with an `Outcome`. When it ends, none of its items and questions is open.
- *Items* are the entries of the transcript: prompts, answers, thoughts, tool calls. An item is
  added by `ItemOpened`, grows by `ItemDelta` (of which `TextDelta` and `ThoughtDelta` are the
  common forms), changes by `ItemUpdated`, and gets its final status (one of `TERMINAL`) by
  `ItemClosed`.
- *Questions*: `PermissionOpened` and `PermissionClosed`, for permissions as well as forms. Answer
  them with the methods of `Session`, by a policy (`agentrt.permissions`), or in a viewer.
- *The session*: `StateChanged` has its phase and the running turn; the others (`QueueChanged`,
  `PlanChanged`, `UsageChanged`, `TitleChanged`, `ModesChanged`, `CommandsChanged`) each have the
  complete new value, so that a reader needs only the last one of a kind.
- *Background work*: `TaskChanged`, for work that continues after its turn.
- *Notices*: `Notice`, for people. The reference lists the values of its `code`.

Treat events as read-only: all readers share them. Times are in seconds since the Unix epoch.
Programs should ignore kinds and fields that they do not know, because later versions add some.

Content, in prompts as well as answers, is a list of blocks: `Text`, `Image`, `Audio`,
`ResourceLink` and `Resource`. Results of tools can also have a `Diff` or a `TerminalRef`.

Two ways lead from events back to a state. `Session.snapshot` and `Snapshot` have it ready,
including the `TurnRecord` of each turn; and `agentrt.lowlevel.SessionState` applies events one by
one, as viewers in other processes do.
"""

from ._core.errors import Cause
from ._core.model.content import (
    Audio,
    Block,
    Cut,
    Diff,
    Image,
    JsonObject,
    Resource,
    ResourceLink,
    TerminalRef,
    Text,
    ToolContent,
    ToolText,
    blocks,
    plain_text,
)
from ._core.model.driver import ForkPoint
from ._core.model.events import (
    TERMINAL,
    AgentState,
    CancelledBy,
    Choice,
    Command,
    CommandsChanged,
    ErrorInfo,
    Event,
    Item,
    ItemClosed,
    ItemDelta,
    ItemOpened,
    ItemStatus,
    ItemType,
    ItemUpdated,
    LimitWindow,
    Modes,
    ModesChanged,
    Notice,
    Option,
    Origin,
    Outcome,
    PermissionClosed,
    PermissionOpened,
    PermissionOption,
    Phase,
    PlanChanged,
    PlanEntry,
    QueueChanged,
    QueueEntry,
    RunningTurn,
    State,
    StateChanged,
    Task,
    TaskChanged,
    TextDelta,
    ThoughtDelta,
    TitleChanged,
    ToolCall,
    TurnEnded,
    TurnStarted,
    Usage,
    UsageChanged,
)
from ._core.model.result import Denial, Failure
from ._core.model.state import History, Snapshot, TurnRecord
from ._core.session.subscription import Subscription

__all__ = [
    # any event, and reading events
    "Event",
    "Subscription",
    "Snapshot",
    "TurnRecord",
    "History",
    "TERMINAL",
    # turns
    "TurnStarted",
    "TurnEnded",
    "Origin",
    "Outcome",
    "CancelledBy",
    "Denial",
    "Failure",
    "ForkPoint",
    # items
    "ItemOpened",
    "ItemDelta",
    "TextDelta",
    "ThoughtDelta",
    "ItemUpdated",
    "ItemClosed",
    "Item",
    "ItemType",
    "ItemStatus",
    "ToolCall",
    # permission requests and questions
    "PermissionOpened",
    "PermissionClosed",
    "PermissionOption",
    # the session
    "StateChanged",
    "State",
    "Phase",
    "RunningTurn",
    "AgentState",
    "TitleChanged",
    "QueueChanged",
    "QueueEntry",
    "PlanChanged",
    "PlanEntry",
    "UsageChanged",
    "LimitWindow",
    "Usage",
    # settings and slash commands
    "ModesChanged",
    "Modes",
    "Choice",
    "Option",
    "CommandsChanged",
    "Command",
    # background work
    "TaskChanged",
    "Task",
    # notices and errors
    "Notice",
    "ErrorInfo",
    "Cause",
    # content
    "plain_text",
    "blocks",
    "Block",
    "Text",
    "Image",
    "Audio",
    "ResourceLink",
    "Resource",
    "ToolContent",
    "ToolText",
    "Diff",
    "Cut",
    "TerminalRef",
    "JsonObject",
]
