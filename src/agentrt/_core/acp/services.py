"""The agent's requests to its client: permission, files, terminals, elicitation."""

from __future__ import annotations

from typing import TypeAlias

from ..model.content import JsonObject
from .messages import AcpMessage, NameValue, ToolFields


class PermissionChoice(AcpMessage):
    """An option of a permission request. Choose by `kind`: `allow_once`, `allow_always`,
    `reject_once` or `reject_always`."""

    option_id: str
    name: str | None = None
    kind: str | None = None


class RequestPermissionRequest(AcpMessage):
    """Parameters of `session/request_permission`."""

    session_id: str
    tool_call: ToolFields
    options: list[PermissionChoice]


class SelectedOutcome(AcpMessage, tag_field="outcome", tag="selected"):
    """The outcome of a permission request that was decided."""

    option_id: str


class CancelledOutcome(AcpMessage, tag_field="outcome", tag="cancelled"):
    pass


PermissionOutcome: TypeAlias = SelectedOutcome | CancelledOutcome


class RequestPermissionResponse(AcpMessage):
    """Result of `session/request_permission`."""

    outcome: PermissionOutcome


class ReadTextFileRequest(AcpMessage):
    """Parameters of `fs/read_text_file`. `line` counts from 1; `limit` is a number of lines."""

    session_id: str
    path: str
    line: int | None = None
    limit: int | None = None


class ReadTextFileResponse(AcpMessage):
    """Result of `fs/read_text_file`."""

    content: str


class WriteTextFileRequest(AcpMessage):
    """Parameters of `fs/write_text_file`."""

    session_id: str
    path: str
    content: str


class CreateTerminalRequest(AcpMessage):
    """Parameters of `terminal/create`. At most the last `output_byte_limit` bytes of output are
    kept."""

    session_id: str
    command: str
    args: list[str] | None = None
    env: list[NameValue] | None = None
    cwd: str | None = None
    output_byte_limit: int | None = None


class CreateTerminalResponse(AcpMessage):
    """Result of `terminal/create`."""

    terminal_id: str


class TerminalRequest(AcpMessage):
    """The parameters of the other four `terminal/*` methods."""

    session_id: str
    terminal_id: str


class ExitStatus(AcpMessage):
    """The end of a program: by itself (`exit_code`) or by a `signal`."""

    exit_code: int | None = None
    signal: str | None = None


class TerminalOutputResponse(AcpMessage):
    """Result of `terminal/output`."""

    output: str
    truncated: bool
    exit_status: ExitStatus | None = None


class ElicitationRequest(AcpMessage):
    """Parameters of `elicitation/create`.

    With `mode` `form`, fill in `requested_schema`; with `url`, visit `url`. The elicitation belongs
    to a session (and perhaps a tool call) or to a request.
    """

    message: str
    mode: str | None = None
    session_id: str | None = None
    tool_call_id: str | None = None
    request_id: int | float | str | None = None
    requested_schema: JsonObject | None = None
    elicitation_id: str | None = None
    url: str | None = None


class ElicitationResponse(AcpMessage):
    """Result of `elicitation/create`. `action` is `accept` (with `content`), `decline` or
    `cancel`."""

    action: str
    content: JsonObject | None = None


class ElicitationComplete(AcpMessage):
    """Parameters of `elicitation/complete`."""

    elicitation_id: str
