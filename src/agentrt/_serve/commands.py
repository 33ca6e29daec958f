"""The commands of `agentrt.v1`: one struct for each, decoded strictly.

A frame that is not a command is refused with a message that describes the error, and with its `id`
if it has one.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import fields

from ..errors import RemoteProtocolError
from ..events import Block, JsonObject, ResourceLink
from ..jsonrpc import decode_strictly
from ..lowlevel import CommandRefused
from .security import Role

MAX_SAFE_INT: Final = 2**53 - 1
"""The largest whole number that each JSON library reads as it was written."""

Id: TypeAlias = Annotated[str, Meta(min_length=1, max_length=128)]
Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=1024)]
Content: TypeAlias = Annotated[list[Block], Meta(min_length=1)]
Seq: TypeAlias = Annotated[int, Meta(ge=0, le=MAX_SAFE_INT)]
Path: TypeAlias = Annotated[str, Meta(max_length=4096)]


PIECE_CHARS: Final = 64 * 1024
"""Maximum characters of one answer to `content`."""


MAX_TITLE_CHARS: Final = 1024
"""Maximum length of a title in a command."""
FILE_PIECE_BYTES: Final = 256 * 1024
"""Maximum bytes of one answer to `file`."""


class Malformed(CommandRefused):
    """A frame that is not a command; `id` is its id, if one can be found."""

    def __init__(self, id: str | None, code: str, message: str) -> None:
        super().__init__(code, message)
        self.id = id


class ViewerCommand(Struct, kw_only=True, tag_field="type", forbid_unknown_fields=True):
    """Base of all commands. The client chooses the `id`."""

    id: Id
    """Chosen by the client. The answer has the same id; a command that is sent again under its id
    is carried out once.
    """


class ForSession(ViewerCommand):
    """Base of the commands to one session."""

    session: Name
    """The session's id."""


class Known(Struct, kw_only=True, forbid_unknown_fields=True):
    """A session, and the position up to which the client knows it."""

    session: Name
    """The session's id."""
    epoch: str | None = None
    """The epoch of `seq`. Without it a snapshot follows."""
    seq: Seq | None = None
    """The number of the last event that the client has."""


class ToolOffer(Struct, kw_only=True, forbid_unknown_fields=True):
    """A tool that the client runs."""

    name: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.-]{1,128}$")]
    """The tool's name, unique among the client's tools."""
    description: str = ""
    """The description for the model."""
    input_schema: JsonObject
    """The JSON Schema of the tool's input."""


class Hello(ViewerCommand, tag="hello"):
    """The first command of a connection. It is answered by `ready`, then by its `ack`."""

    sessions: Annotated[list[Known], Meta(max_length=256)] = []
    """The sessions to attach to."""
    client: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    """A random string that the client keeps over its reconnects. Its answers are remembered under
    it; without it they are forgotten with the connection.
    """
    tools: Annotated[list[ToolOffer], Meta(max_length=64)] = []
    """The tools that this client runs. The sessions that it opens offer them to their agents."""
    name: Annotated[str, Meta(max_length=100)] = ""
    """The client's name for people, which the log keeps with its answers."""


class Attach(ForSession, tag="attach"):
    """Start viewing a session, from the given position."""

    epoch: str | None = None
    """The epoch of `seq`. Without it a snapshot follows."""
    seq: Seq | None = None
    """The number of the last event that the client has."""


class Detach(ForSession, tag="detach"):
    """Stop viewing a session."""


class LookBack(ForSession, tag="history"):
    """Ask for the turns before an item."""

    before: Name
    """The id of an item, usually `earlier` of the snapshot or of the last `history`."""
    count: Annotated[int, Meta(ge=1, le=MAX_SAFE_INT)] | None = None
    """Maximum number of turns; never more than a snapshot has."""


class ReadContent(ForSession, tag="content"):
    """Read a content of which only a preview was sent, piece by piece."""

    at: Annotated[str, Meta(min_length=1, max_length=4096)]
    """Its place, from `_cut`."""
    start: Seq = 0
    """The index of the first character to return."""
    count: Annotated[int, Meta(ge=1, le=PIECE_CHARS)] = PIECE_CHARS
    """Maximum number of characters."""


class Prompt(ForSession, tag="prompt"):
    """Send a prompt, or queue it."""

    content: Content
    """The prompt's blocks."""
    when: Literal["queue", "interrupt", "reject", "steer"] = "queue"
    """If a turn runs: `queue` waits for its end, `interrupt` cancels it first, `reject` fails with
    `busy`, and `steer` adds the text to the running turn.
    """


class Retell(ForSession, tag="retell"):
    """Repeat the conversation to an agent that does not remember it."""


class Cancel(ForSession, tag="cancel", omit_defaults=True):
    """Stop a turn. Its `turn.ended` confirms it. The queued prompts are paused."""

    turn: str | None = None
    """The turn to cancel. Default: the running one."""
    now: bool = False
    """If true, the agent's process is ended without waiting for the agent."""
    pause: bool = True
    """If false, only this turn is cancelled, and the queued prompts are not paused."""


class Permission(ForSession, tag="permission"):
    """Answer a request: `option` of a permission request, `content` for the form of an elicitation,
    or `cancel`.
    """

    request: Name
    """The id of the request."""
    option: str | None = None
    """The id or the kind of the chosen option. Exactly one of `option`, `content` and `cancel` is
    given.
    """
    cancel: bool = False
    """If true, the request is dismissed."""
    content: JsonObject | None = None
    """The content of the form of an elicitation."""
    note: str = ""
    """A reason for the agent."""

    def __post_init__(self) -> None:
        if (self.option is not None) + self.cancel + (self.content is not None) != 1:
            raise ValueError("exactly one of `option`, `content` and `cancel` is required")


class ToolResult(ForSession, tag="tool_result"):
    """Return the result of a tool that the client runs."""

    item: Name
    """The id of the tool call's item."""
    content: list[Block]
    """The result."""
    error: bool = False
    """True if the tool failed."""


class InQueue(ForSession, tag="queue"):
    """Base of the commands to a session's queue. `op` has only one value in each struct, here and
    below.
    """


class QueueRemove(InQueue, tag="queue"):
    """Remove a prompt from the queue."""

    entry: Name
    """The id of the queue entry."""
    op: Literal["remove"] = "remove"


class QueueEdit(InQueue, tag="queue"):
    """Replace the content of a queued prompt."""

    entry: Name
    """The id of the queue entry."""
    content: Content
    """The new content."""
    op: Literal["edit"] = "edit"


class QueuePromote(InQueue, tag="queue"):
    """Move a queued prompt to the front."""

    entry: Name
    """The id of the queue entry."""
    op: Literal["promote"] = "promote"


class QueueResume(InQueue, tag="queue"):
    """Resume a paused queue."""

    op: Literal["resume"] = "resume"


class NewSession(ViewerCommand, tag="session"):
    """Open a new session."""

    agent: Name
    """The name of the agent."""
    cwd: str = "."
    """The working folder, absolute or relative to the server's."""
    title: str | None = None
    """The title. Default: given by the agent, if it does so."""
    model: str | None = None
    """The model. Default: the agent's."""
    mode: str | None = None
    """The mode. Default: the agent's."""
    roots: list[str] | UnsetType = UNSET
    """Further folders for the agent."""
    trust: Literal["no"] | None = None
    """`no`: the agent ignores the project's files without a question. Default: as the server."""
    sandbox: JsonObject | UnsetType = UNSET
    """Settings of a sandbox, as in the configuration, which may narrow the server's. Default: the
    server's.
    """
    op: Literal["new"] = "new"


class ListSessions(ViewerCommand, tag="session"):
    """List sessions.

    Without `before`: the newest stored ones and all open ones. With it: the next older stored ones,
    at most `limit`. With `query`: the sessions that contain its words.
    """

    query: Annotated[str, Meta(max_length=1024)] = ""
    """Words that the sessions contain."""
    before: Name | None = None
    """The id of a stored session: list those last used before it."""
    limit: Annotated[int, Meta(ge=1, le=1000)] = 200
    """Maximum number of sessions."""
    op: Literal["list"] = "list"


class LoadSession(ViewerCommand, tag="session"):
    """Open a session by its id, or a conversation of an agent by the agent's own id."""

    session: Name | None = None
    """The session's id. Either this is given, or `agent` and `agent_session`."""
    agent: Name | None = None
    """The name of the agent."""
    agent_session: Name | None = None
    """The agent's own id of the conversation."""
    cwd: str = "."
    """The working folder of the agent's conversation."""
    op: Literal["load"] = "load"

    def __post_init__(self) -> None:
        by_agent = self.agent is not None and self.agent_session is not None
        if (self.session is not None) == by_agent:
            raise ValueError("`session` is required, or `agent` and `agent_session`")


class CloseSession(ForSession, tag="session"):
    """Close a session."""

    op: Literal["close"] = "close"


class DeleteSession(ForSession, tag="session"):
    """Delete a stored session; an open one is closed first."""

    op: Literal["delete"] = "delete"


class ForkSession(ForSession, tag="session"):
    """Start another session with the history of this one.

    The original stays as it is.
    """

    at: Name | None = None
    """The id of the last turn to include, or of an item in it. Default: everything."""
    roots: list[str] | UnsetType = UNSET
    """Further folders for the agent. Default: those of this session."""
    op: Literal["fork"] = "fork"


class RenameSession(ForSession, tag="session"):
    """Change the title of a session."""

    title: Annotated[str, Meta(max_length=MAX_TITLE_CHARS)]
    """The new title; more than 256 characters are cut."""
    op: Literal["rename"] = "rename"


class SetMode(ForSession, tag="session"):
    """Change the mode of a session."""

    mode: Name
    """The id of the mode."""
    op: Literal["set_mode"] = "set_mode"


class SetModel(ForSession, tag="session"):
    """Change the model of a session."""

    model: Name
    """The id of the model."""
    op: Literal["set_model"] = "set_model"


class SetOption(ForSession, tag="session"):
    """Set a configuration option of a session."""

    option: Name
    """The id of the option."""
    value: str | bool
    """The id of a choice, or a boolean for a switch."""
    op: Literal["set_option"] = "set_option"


class RevokeAccess(ForSession, tag="session"):
    """Take back the permissions that a session's sandbox was given for a target."""

    target: Annotated[str, Meta(min_length=1, max_length=8192)]
    """The host, the path or the program, as the notices of the sandbox name it."""
    op: Literal["revoke"] = "revoke"


class FindFiles(ForSession, tag="files"):
    """Find the files in the session's folder whose path contains the words of `query`."""

    query: Annotated[str, Meta(max_length=1024)] = ""
    """Words that the path contains."""


class ListFolder(ForSession, tag="folder"):
    """List a folder among the folders of a session."""

    path: Path = ""
    """The folder, absolute or relative to the session's. Default: the session's."""


class ReadFile(ForSession, tag="file"):
    """Read a piece of a file in the folders of a session."""

    path: Annotated[str, Meta(min_length=1, max_length=4096)]
    """The file, absolute or relative to the session's folder."""
    start: Seq = 0
    """The first byte to return."""
    count: Annotated[int, Meta(ge=1, le=FILE_PIECE_BYTES)] = FILE_PIECE_BYTES
    """Maximum number of bytes."""
    encoding: Literal["text", "base64"] = "text"
    """`text` returns text in UTF-8, and nothing of a binary file; `base64` returns the bytes."""


class ListFolders(ViewerCommand, tag="folders"):
    """List the folders in a folder of the server, to choose one for a new session."""

    path: Path = "."
    """The folder, absolute or relative to the server's; `~` is the home of the server's user."""


class ShowUncommitted(ForSession, tag="uncommitted"):
    """Show the difference between the files of the session's folder and the last git commit."""


class ForCheckpoints(ForSession, tag="checkpoints"):
    """Base of the commands about the checkpoints of a session's folder."""


class ListCheckpoints(ForCheckpoints, tag="checkpoints"):
    """List the checkpoints of the session's folder."""

    op: Literal["list"] = "list"


class DiffCheckpoints(ForCheckpoints, tag="checkpoints"):
    """Show the difference between two checkpoints, or between one and the current files."""

    old: Seq
    """The number of the older checkpoint."""
    new: Seq | None = None
    """The number of the other one; null: the current files."""
    op: Literal["diff"] = "diff"


class RestoreCheckpoint(ForCheckpoints, tag="checkpoints"):
    """Make the files equal to those of a checkpoint."""

    checkpoint: Seq
    """The number of the checkpoint."""
    op: Literal["restore"] = "restore"


class ShowWire(ForSession, tag="wire"):
    """Show the messages between the server and the agent, since they were first asked for."""


READS: Final = (
    FindFiles,
    ListFolder,
    ReadFile,
    ListFolders,
    ShowUncommitted,
    ListCheckpoints,
    DiffCheckpoints,
)
"""Commands that change nothing, so that a repeated one may be carried out again."""


class StopTask(ForSession, tag="task"):
    """Stop a background task of a session."""

    task: Name
    """The id of the task."""
    op: Literal["stop"] = "stop"


class StopAll(ViewerCommand, tag="stop_all"):
    """Cancel all running turns."""


class Beat(Struct, tag_field="type", tag="beat", forbid_unknown_fields=True):
    """A heartbeat of the client. It has no id and no answer."""


class _CommandHead(Struct):
    """The part of a frame that selects its command."""

    type: Any = None
    op: Any = None
    id: Any = None


def _leaves(kind: type[Struct]) -> list[type[Struct]]:
    """Return the command classes without subclasses."""
    below = kind.__subclasses__()
    return [leaf for each in below for leaf in _leaves(each)] if below else [kind]


def _by_type() -> dict[str, dict[str | None, type[Struct]]]:
    """Return all commands by type, then by operation, or None where the type has no operations."""
    table: dict[str, dict[str | None, type[Struct]]] = {}
    for kind in (*_leaves(ViewerCommand), *_leaves(Beat)):
        operation = next((each.default for each in fields(kind) if each.name == "op"), None)
        table.setdefault(str(kind.__struct_config__.tag), {})[operation] = kind
    return table


COMMANDS: Final = _by_type()
"""The commands by type, then by operation, or None where the type has no operations."""
_head: Final[msgspec.json.Decoder[_CommandHead]] = msgspec.json.Decoder(_CommandHead)


@cache
def _decoder(kind: type[Struct]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


COMMAND_CHARS: Final = 256 * 1024
"""Maximum characters of a command that carries no content of a person or a tool."""

WITH_CONTENT: Final = frozenset({Prompt, ToolResult, QueueEdit})

LOOKS: Final = frozenset({Hello, Attach, Detach, LookBack, ReadContent, ListSessions, Beat})
"""The commands that a viewer may send."""


def decode(text: str, role: Role = "controller") -> ViewerCommand | Beat:
    """Decode the command in a frame.

    Raises `Malformed`, before decoding a command that is too long or that this role may not send.
    """
    try:
        head = decode_strictly(text, _head)
    except RemoteProtocolError as error:
        raise Malformed(None, "bad_request", _words(error)) from error
    id = head.id if isinstance(head.id, str) and len(head.id) <= 128 else None
    kinds = COMMANDS.get(head.type) if isinstance(head.type, str) else None
    if kinds is None:
        known = ", ".join(COMMANDS)
        raise Malformed(id, "unknown_command", f"no type {_short(head.type)}; known: {known}")
    kind = kinds.get(head.op if None not in kinds and isinstance(head.op, str) else None)
    if kind is None:
        message = (
            f"{head.type} has no op {_short(head.op)}; known: {', '.join(filter(None, kinds))}"
        )
        raise Malformed(id, "unknown_command", message)
    if role == "viewer" and kind not in LOOKS:
        raise Malformed(id, "forbidden", "a viewer is read-only")
    if len(text) > COMMAND_CHARS and kind not in WITH_CONTENT:
        raise Malformed(id, "bad_request", f"{head.type}: longer than {COMMAND_CHARS} characters")
    try:
        command: ViewerCommand | Beat = decode_strictly(text, _decoder(kind))
    except RemoteProtocolError as error:
        raise Malformed(id, "bad_request", f"{head.type}: {_words(error)}") from error
    _check_complete(command)
    return command


def _check_complete(command: ViewerCommand | Beat) -> None:
    """Raise `Malformed` for content that is only a preview."""
    if isinstance(command, Prompt | QueueEdit | ToolResult) and any(map(is_cut, command.content)):
        message = "the content has `_cut`, so it is only a preview; request the rest with `content`"
        raise Malformed(command.id, "bad_request", message)


def is_cut(block: Block) -> bool:
    """True if a block is only a preview."""
    return not isinstance(block, ResourceLink) and block.cut is not UNSET


def _words(error: RemoteProtocolError) -> str:
    return str(error).removeprefix("not a message: ")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:100]}…"
