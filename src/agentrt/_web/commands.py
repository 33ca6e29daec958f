"""What a client may say in `agentrt.v1`: one struct a command, decoded strictly.

A frame that is no command is refused with words that say what is wrong with it, and with its `id`
as far as it has one.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import fields

from .._errors import RemoteProtocolError
from .._model.content import Block, JsonObject
from .._wire.json import decode_strictly
from .answers import Refused
from .security import Role

Id: TypeAlias = Annotated[str, Meta(min_length=1, max_length=128)]
Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=1024)]
Content: TypeAlias = Annotated[list[Block], Meta(min_length=1)]
Seq: TypeAlias = Annotated[int, Meta(ge=0)]


class Malformed(Refused):
    """A frame that is no command; `id` is what it was sent under, if that can be found."""

    def __init__(self, id: str | None, code: str, message: str) -> None:
        super().__init__(code, message)
        self.id = id


class Command(Struct, kw_only=True, tag_field="type", forbid_unknown_fields=True):
    """All have an `id`, which the client chose."""

    id: Id


class ForSession(Command):
    session: Name


class Known(Struct, kw_only=True, forbid_unknown_fields=True):
    """A session, and up to where the client knows it."""

    session: Name
    epoch: str | None = None
    seq: Seq | None = None


class ToolOffer(Struct, kw_only=True, forbid_unknown_fields=True):
    """A tool that the client runs."""

    name: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.-]{1,128}$")]
    description: str = ""
    input_schema: JsonObject


class Hello(Command, tag="hello"):
    """`client`: a random word that this client keeps over its reconnects. Its answers are
    remembered under it; without one they are forgotten with the connection. `name`: the client's
    name for people, which the log keeps with its answers."""

    sessions: Annotated[list[Known], Meta(max_length=256)] = []
    client: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    tools: Annotated[list[ToolOffer], Meta(max_length=64)] = []
    name: Annotated[str, Meta(max_length=100)] = ""


class Attach(ForSession, tag="attach"):
    epoch: str | None = None
    seq: Seq | None = None


class Detach(ForSession, tag="detach"):
    epoch: str | None = None
    seq: Seq | None = None


class LookBack(ForSession, tag="history"):
    """The turns ahead of an item: `count` of them, if a snapshot has not fewer."""

    before: Name
    count: Annotated[int, Meta(ge=1)] | None = None


class Prompt(ForSession, tag="prompt"):
    """Send a prompt, or queue it."""

    content: Content
    when: Literal["queue", "interrupt", "reject", "steer"] = "queue"


class Retell(ForSession, tag="retell"):
    """Tell the agent what was said, because it does not remember the conversation."""


class Cancel(ForSession, tag="cancel", omit_defaults=True):
    """Stop a turn. `now`: do not wait for the agent; its process is ended. `pause`: false if only
    that turn is given up, so that the prompts that wait are not paused."""

    turn: str | None = None
    now: bool = False
    pause: bool = True


class Permission(ForSession, tag="permission"):
    """`option` of a request, `content` for the form of an elicitation, or `cancel`."""

    request: Name
    option: str | None = None
    cancel: bool = False
    content: JsonObject | None = None
    note: str = ""

    def __post_init__(self) -> None:
        if (self.option is not None) + self.cancel + (self.content is not None) != 1:
            raise ValueError("exactly one of `option`, `content` and `cancel` is wanted")


class ToolResult(ForSession, tag="tool_result"):
    item: Name
    content: list[Block]
    error: bool = False


class InQueue(ForSession, tag="queue"):
    """Commands to a session's queue. `op` has but one value in each struct, here and below."""


class QueueRemove(InQueue, tag="queue"):
    entry: Name
    op: Literal["remove"] = "remove"


class QueueEdit(InQueue, tag="queue"):
    entry: Name
    content: Content
    op: Literal["edit"] = "edit"


class QueuePromote(InQueue, tag="queue"):
    entry: Name
    op: Literal["promote"] = "promote"


class QueueResume(InQueue, tag="queue"):
    op: Literal["resume"] = "resume"


class NewSession(Command, tag="session"):
    agent: Name
    cwd: str = "."
    title: str | None = None
    model: str | None = None
    mode: str | None = None
    roots: list[str] | UnsetType = UNSET
    op: Literal["new"] = "new"


class ListSessions(Command, tag="session"):
    """Without `before` the newest of those that are stored, and all that are open; with it the
    stored ones behind that one, as many as `limit`. With `query` those in which its words are."""

    query: Annotated[str, Meta(max_length=1024)] = ""
    before: Name | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 200
    op: Literal["list"] = "list"


class LoadSession(Command, tag="session"):
    """A session that is open here, by its id; or a conversation of the agent, by the agent's."""

    session: Name | None = None
    agent: Name | None = None
    agent_session: Name | None = None
    cwd: str = "."
    op: Literal["load"] = "load"

    def __post_init__(self) -> None:
        by_agent = self.agent is not None and self.agent_session is not None
        if (self.session is not None) == by_agent:
            raise ValueError("`session` is wanted, or `agent` and `agent_session`")


class CloseSession(ForSession, tag="session"):
    op: Literal["close"] = "close"


class DeleteSession(ForSession, tag="session"):
    """Forget what is stored of it; one that is open is closed."""

    op: Literal["delete"] = "delete"


class ForkSession(ForSession, tag="session"):
    """Another session that begins with what was said in this one: with all of it, or up to the end
    of the turn that is `at`, or that an item `at` was shown in. `roots`: those of this one, if
    that is not said."""

    at: Name | None = None
    roots: list[str] | UnsetType = UNSET
    op: Literal["fork"] = "fork"


class RenameSession(ForSession, tag="session"):
    title: Annotated[str, Meta(max_length=1024)]
    op: Literal["rename"] = "rename"


class SetMode(ForSession, tag="session"):
    mode: Name
    op: Literal["set_mode"] = "set_mode"


class SetModel(ForSession, tag="session"):
    model: Name
    op: Literal["set_model"] = "set_model"


class SetOption(ForSession, tag="session"):
    option: Name
    value: str | bool
    op: Literal["set_option"] = "set_option"


class FindFiles(ForSession, tag="files"):
    """The files of the session's folder whose path has the words of `query`."""

    query: Annotated[str, Meta(max_length=1024)] = ""


class ShowWire(ForSession, tag="wire"):
    """What went between the server and the agent, since somebody looked first."""


class StopTask(ForSession, tag="task"):
    task: Name
    op: Literal["stop"] = "stop"


class StopAll(Command, tag="stop_all"):
    pass


class Beat(Struct, tag_field="type", tag="beat", forbid_unknown_fields=True):
    """The client is there. It has no id and no answer."""


class _Head(Struct):
    """As much of a frame as is needed to know what it wants to be."""

    type: Any = None
    op: Any = None
    id: Any = None


def _leaves(kind: type[Struct]) -> list[type[Struct]]:
    """The commands that are not only what others have in common."""
    below = kind.__subclasses__()
    return [leaf for each in below for leaf in _leaves(each)] if below else [kind]


def _by_type() -> dict[str, dict[str | None, type[Struct]]]:
    """All that can be said, by type, and then by operation, or None where it has none."""
    table: dict[str, dict[str | None, type[Struct]]] = {}
    for kind in (*_leaves(Command), *_leaves(Beat)):
        operation = next((each.default for each in fields(kind) if each.name == "op"), None)
        table.setdefault(str(kind.__struct_config__.tag), {})[operation] = kind
    return table


_COMMANDS: Final = _by_type()
_head: Final[msgspec.json.Decoder[_Head]] = msgspec.json.Decoder(_Head)


@cache
def _decoder(kind: type[Struct]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


LONGEST: Final = 256 * 1024
"""Characters of a command that carries no content of a person's or a tool's."""

WITH_CONTENT: Final = frozenset({Prompt, ToolResult, QueueEdit})

LOOKS: Final = frozenset({Hello, Attach, Detach, LookBack, ListSessions, Beat})
"""What those may say who only look on."""


def decode(text: str, role: Role = "controller") -> Command | Beat:
    """The command in a frame. Raises `Malformed`, before anything is made of what this role may not
    say or of what is too long."""
    try:
        head = decode_strictly(text, _head)
    except RemoteProtocolError as error:
        raise Malformed(None, "bad_request", _words(error)) from error
    id = head.id if isinstance(head.id, str) and len(head.id) <= 128 else None
    kinds = _COMMANDS.get(head.type) if isinstance(head.type, str) else None
    if kinds is None:
        known = ", ".join(_COMMANDS)
        raise Malformed(id, "unknown_command", f"no type {_short(head.type)}; known: {known}")
    kind = kinds.get(head.op if None not in kinds and isinstance(head.op, str) else None)
    if kind is None:
        message = (
            f"{head.type} has no op {_short(head.op)}; known: {', '.join(filter(None, kinds))}"
        )
        raise Malformed(id, "unknown_command", message)
    if role == "viewer" and kind not in LOOKS:
        raise Malformed(id, "forbidden", "a viewer only looks on")
    if len(text) > LONGEST and kind not in WITH_CONTENT:
        raise Malformed(id, "bad_request", f"{head.type}: longer than {LONGEST} characters")
    try:
        command: Command | Beat = decode_strictly(text, _decoder(kind))
    except RemoteProtocolError as error:
        raise Malformed(id, "bad_request", f"{head.type}: {_words(error)}") from error
    return command


def _words(error: RemoteProtocolError) -> str:
    return str(error).removeprefix("not a message: ")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:100]}…"
