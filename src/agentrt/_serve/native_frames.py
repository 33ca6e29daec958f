"""The frames that a server sends in `agentrt.v1`, and the results of its commands.

The server encodes these structs, agentrt's own client decodes them, and the reference, the JSON
Schema and the TypeScript types are generated from them.
"""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

from msgspec import UNSET, Struct, UnsetType

from .._public import SessionInfo
from ..agents import AgentInfo
from ..events import Event, Item, Phase, Snapshot, TurnRecord
from ..unattended import Checkpoint, Restored
from . import commands as c
from .security import Role

ErrorCode: TypeAlias = Literal[
    "bad_request",
    "unknown_command",
    "unknown_session",
    "unknown_turn",
    "unknown_request",
    "unknown_file",
    "already_resolved",
    "busy",
    "unsupported",
    "limit",
    "agent_failed",
    "unavailable",
    "forbidden",
    "internal",
]
"""The reason why a command was refused, for programs."""

ERROR_CODES: Final[dict[ErrorCode, str]] = {
    "bad_request": "The frame is not valid, or the command does not fit the session's state.",
    "unknown_command": "The server does not know this `type` or `op`. Older servers lack some.",
    "unknown_session": "The server has no session with this id, neither open nor stored.",
    "unknown_turn": "The session has no turn with this id.",
    "unknown_request": "The session has no request, tool call, queue entry or item with this id.",
    "unknown_file": "There is no file or folder with this path.",
    "already_resolved": "The request was answered before, or the tool call is over.",
    "busy": 'A turn runs, and the prompt was sent with `when: "reject"`.',
    "unsupported": "The agent, or a server without a store, cannot do this.",
    "limit": "A limit of the server is reached, such as its number of sessions.",
    "agent_failed": "The agent could not be started, did not answer, or refused.",
    "unavailable": (
        "The store, or the server that has the session, cannot be reached. It may be unknown"
        " whether the command was carried out: send it again under the same `id`."
    ),
    "forbidden": "This connection may not do this.",
    "internal": "A bug in the server; the error is in its log.",
}
"""The meaning of each `CommandError.code`."""


class CommandError(Struct, omit_defaults=True):
    """The reason why a command was refused."""

    code: str
    """For programs: one of the error codes."""
    message: str
    """For people."""
    data: Any = None
    """Further data, usually the agent's own."""


class FrameLimits(Struct, frozen=True):
    """The limits of a connection."""

    frame: int = 0
    """Maximum bytes of a message from this client."""


class ReadyFrame(Struct, tag_field="type", tag="ready", kw_only=True):
    """The first answer to `hello`, before any snapshot."""

    server: str = ""
    """Name and version of the server."""
    protocol: str = "agentrt.v1"
    """The protocol, `agentrt.v1`."""
    role: Role = "controller"
    """The rights of this connection. A `viewer` only looks on."""
    sessions: list[SessionInfo]
    """The sessions that the server lists: the stored ones first, the newest last."""
    agents: list[AgentInfo] = []
    """The agents for which sessions can be opened."""
    beat_s: float
    """Seconds between two `beat` frames. A connection that is silent for much longer is lost."""
    limits: FrameLimits = FrameLimits()
    """The limits of this connection."""


class SnapshotFrame(Snapshot, tag_field="type", tag="snapshot", kw_only=True):
    """The current state of a session. It replaces everything that the client knows of it."""


class EventFrame(Struct, tag_field="type", tag="event", gc=False):
    """The next event of a session."""

    session: str
    """The session's id."""
    epoch: str
    """The numbering that `seq` belongs to. It changes when the numbering restarts."""
    seq: int
    """The number of the event; if it stands for several, of the last one."""
    event: Event
    """The event itself."""
    since: int | UnsetType = UNSET
    """The number of the event before it, if it stands for several. Otherwise that is `seq - 1`."""


class AckFrame(Struct, tag_field="type", tag="ack", omit_defaults=True):
    """The answer to a command. If `ok` is true, it also has the fields of the command's result."""

    id: str | None
    """The id of the command. Null if a frame could not be read and had no id."""
    ok: bool
    """True if the command was carried out."""
    error: CommandError | None = None
    """The reason why it was not, if `ok` is false."""


class SessionsFrame(Struct, tag_field="type", tag="sessions"):
    """The list of sessions has changed."""

    sessions: list[SessionInfo]
    """The whole new list."""


class StoreFrame(Struct, tag_field="type", tag="store", omit_defaults=True):
    """The state of the server's store has changed."""

    state: Literal["ok", "slow", "failing"]
    """`slow`: storing takes more than a second. `failing`: nothing can be stored."""
    since: float
    """The time at which this state began."""
    message: str | None = None
    """The error message of a store that fails."""


class Position(Struct):
    """The position up to which the server has sent a session to this client."""

    epoch: str
    """The epoch of `seq`."""
    seq: int
    """The number of the last event sent. A client that has less attaches again."""
    phase: Phase
    """The session's phase."""


class BeatFrame(Struct, tag_field="type", tag="beat"):
    """A heartbeat of the server, sent when nothing else was sent for `beat_s` seconds."""

    sessions: dict[str, Position]
    """The sessions that this connection follows. Attach again to one that is missing."""


class ClosingFrame(Struct, tag_field="type", tag="closing"):
    """The server ends the connection; the close frame with its code follows."""

    reason: str
    """The reason, for people."""


ServerFrame: TypeAlias = (
    ReadyFrame
    | SnapshotFrame
    | EventFrame
    | AckFrame
    | SessionsFrame
    | StoreFrame
    | BeatFrame
    | ClosingFrame
)
"""Any frame from the server."""


# --- the results of commands: further fields of an `ack`


class DoneResult(Struct):
    """No further fields."""


class HelloResult(Struct):
    """The sessions of `hello`, and what follows for each."""

    sessions: dict[str, Literal["replay", "snapshot", "unknown_session", "unavailable"]]
    """By session id: `replay` (the missing events follow), `snapshot`, `unknown_session`, or
    `unavailable` (it may exist: attach to it again).
    """


class AttachResult(Struct):
    """The session follows."""

    session: str
    """The session's id."""
    answer: Literal["replay", "snapshot"]
    """`replay`: the missing events follow. `snapshot`: a snapshot follows."""


class SessionResult(Struct):
    """A session."""

    session: str
    """The session's id."""


class HistoryResult(Struct, kw_only=True):
    """The content before an item, as it is after the event `seq`."""

    session: str
    """The session's id."""
    epoch: str
    """The epoch of `seq`."""
    seq: int
    """The number of the last event that was sent to this connection."""
    before: str
    """The item of the request. Insert `items` before it."""
    turns: list[TurnRecord]
    """The turns, in order. The last one may be known already."""
    items: list[Item]
    """The items, in order."""
    earlier: str | None
    """The item for the next `history`; null at the beginning of the session."""


class ContentResult(Struct):
    """A piece of a large content."""

    session: str
    """The session's id."""
    at: str
    """The place of the request."""
    start: int
    """The index of the first character of `text`."""
    text: str
    """The piece."""
    next: int | None
    """`start` for the next piece; null after the last one."""
    chars: int
    """Length of the whole content as it is now."""
    json: bool
    """True if the content is not a text: the pieces together are its JSON."""


class PromptResult(Struct, omit_defaults=True):
    """The turn of a prompt, or its place in the queue."""

    seq: int
    """The events up to this one include the effect."""
    turn: str | None = None
    """The turn that runs the prompt, if it has started."""
    queued: int | UnsetType = UNSET
    """Its position in the queue, from 1."""
    entry: str | UnsetType = UNSET
    """The id of its queue entry."""


class CancelResult(Struct):
    """The turn that is being cancelled. Its `turn.ended` confirms it."""

    turn: str | None = None
    """The turn; null if none was running."""
    seq: int | UnsetType = UNSET
    """The events up to this one include the effect."""


class ListResult(Struct, omit_defaults=True):
    """A list of sessions, or the sessions that were found."""

    sessions: list[SessionInfo] | UnsetType = UNSET
    """The sessions, the newest last; missing in a search."""
    more: bool | UnsetType = UNSET
    """True if there are further stored sessions."""
    found: list[FoundSession] | UnsetType = UNSET
    """The result of a search with `query`, the best first."""


class FoundSession(Struct):
    """A session that contains the words of a search."""

    session: SessionInfo
    """The session."""
    snippet: str
    """The text around the words."""


class CloseResult(Struct, omit_defaults=True):
    """The session is closed or deleted."""

    dropped: int = 0
    """The number of queued prompts that were dropped."""


class FilesResult(Struct):
    """The files that were found."""

    files: list[str]
    """Paths relative to the session's folder, the most likely first, at most 50."""
    complete: bool
    """False if there was too much to list (20,000 files, two seconds)."""


class FolderEntry(Struct):
    """An entry of a folder."""

    name: str
    """Its name."""
    kind: Literal["file", "folder", "link"]
    """Its kind. A link leads to a file or a folder."""
    size_bytes: int
    """The size of a file; 0 for others."""


class FolderResult(Struct):
    """The entries of a folder, without those that git or an `.ignore` file ignores."""

    path: str
    """The absolute path of the folder."""
    entries: list[FolderEntry]
    """The entries, folders first."""
    complete: bool
    """False if the folder has more than 2,000 entries."""
    branch: str | None = None
    """The git branch of the session's folder."""


class FileResult(Struct):
    """A piece of a file."""

    path: str
    """The absolute path of the file."""
    kind: Literal["text", "binary"]
    """`binary` if there is a null byte in its first 8 KiB."""
    media_type: str
    """The type of an image that browsers show; `text/plain` or `application/octet-stream`
    otherwise."""
    size_bytes: int
    """The size of the whole file."""
    modified: float
    """Its last change, in seconds since 1970."""
    start: int
    """The first byte of the piece."""
    end: int
    """The byte after the piece; the next piece starts there."""
    content: str
    """The piece, in the encoding that was requested."""


class FoldersResult(Struct):
    """The folders in a folder of the server."""

    path: str
    """The absolute path of the folder."""
    parent: str | None
    """The folder above it; null if sessions may not be opened there."""
    folders: list[str]
    """The names of the folders in it, without hidden ones."""
    complete: bool
    """False if there are more than 1,000."""


class UncommittedFile(Struct):
    """A file that differs from the last git commit."""

    path: str
    """Its absolute path."""
    patch: str
    """The difference, in the unified format; it does not contain the content of a binary file."""


class UncommittedResult(Struct):
    """The difference between the files of the session's folder and the last git commit."""

    commit: str
    """The id of the commit; empty before the first one."""
    files: list[UncommittedFile]
    """The files that differ, by path."""
    left_out: list[str]
    """The paths of further files, which are too large or too many to be compared."""


class CheckpointsResult(Struct):
    """The checkpoints of the session's folder."""

    checkpoints: list[Checkpoint]
    """The checkpoints, oldest first."""


class DiffResult(Struct):
    """The difference between two checkpoints, or between one and the current files."""

    diff: str
    """A patch."""


class RestoreResult(Struct):
    """The files are restored."""

    restored: Restored
    """The changes, and the checkpoint that undoes them."""


class WireRow(Struct):
    """A message between the server and the agent, or several alike."""

    t: float
    """The time of the message."""
    kind: str
    """The direction or kind of the record."""
    what: str
    """The name of the message."""
    detail: str
    """The content, shortened."""
    count: int
    """The number of messages that the row stands for."""
    took: float | None
    """Seconds from a request to its answer."""
    answer: str
    """The outcome of a request."""
    odd: list[str]
    """Violations of the agent's protocol."""


class WireResult(Struct):
    """The last messages between the server and the agent, without secrets."""

    rows: list[WireRow]
    """The last 100 rows."""


class StopAllResult(Struct):
    """All turns are being cancelled."""

    cancelled: int
    """The number of turns that were running."""


RESULTS: Final[dict[type[Struct], type[Struct]]] = {
    c.Hello: HelloResult,
    c.Attach: AttachResult,
    c.Detach: SessionResult,
    c.LookBack: HistoryResult,
    c.ReadContent: ContentResult,
    c.Prompt: PromptResult,
    c.Retell: PromptResult,
    c.Cancel: CancelResult,
    c.Permission: DoneResult,
    c.ToolResult: DoneResult,
    c.QueueRemove: DoneResult,
    c.QueueEdit: DoneResult,
    c.QueuePromote: DoneResult,
    c.QueueResume: DoneResult,
    c.NewSession: SessionResult,
    c.ListSessions: ListResult,
    c.LoadSession: SessionResult,
    c.CloseSession: CloseResult,
    c.DeleteSession: CloseResult,
    c.ForkSession: SessionResult,
    c.RenameSession: DoneResult,
    c.SetMode: DoneResult,
    c.SetModel: DoneResult,
    c.SetOption: DoneResult,
    c.RevokeAccess: DoneResult,
    c.FindFiles: FilesResult,
    c.ListFolder: FolderResult,
    c.ReadFile: FileResult,
    c.ListFolders: FoldersResult,
    c.ShowUncommitted: UncommittedResult,
    c.ListCheckpoints: CheckpointsResult,
    c.DiffCheckpoints: DiffResult,
    c.RestoreCheckpoint: RestoreResult,
    c.ShowWire: WireResult,
    c.StopTask: DoneResult,
    c.StopAll: StopAllResult,
}
"""The result of each command. (`beat` has no answer.)"""
