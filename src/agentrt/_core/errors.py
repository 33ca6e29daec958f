"""The exceptions of agentrt.

::

    AgentrtError
    ├── AgentNotFound        the agent is unknown, or its program is not installed
    ├── AgentStartError      the program ran but did not become a working agent
    │   ├── FolderNotTrusted      not started: it would act on the files of an untrusted folder
    │   └── SandboxUnavailable    not started: the sandbox cannot be built here
    ├── ProtocolError        the wire protocol was violated
    │   ├── LocalProtocolError    by the caller; nothing was sent
    │   └── RemoteProtocolError   by the agent
    ├── RequestError         the agent answered a request with an error
    ├── SessionClosed        the session has ended
    ├── SessionNotFound      no session with this id
    ├── StoreError           a session store cannot be used
    │   ├── StoreInUse           another process writes to it
    │   ├── StoreDamaged         its file is corrupt
    │   ├── StoreUnavailable     it cannot save anything at the moment
    │   ├── SessionMoved         another process has taken over or deleted the session
    │   └── SessionElsewhere     another process has the session
    ├── TraceError           the trace cannot be written, or the file is not a trace
    ├── Busy                 refused because a turn is running
    ├── LimitExceeded        one of `Limits` was reached
    └── TurnFailed           a turn failed and `check=True`
        ├── AgentFailed      the agent answered the prompt with an error
        ├── AgentDied        the agent's process ended during the turn
        └── TurnTimedOut     the idle or the hard limit ended the turn

The outcome of a turn is a value (`TurnResult.outcome`). The `TurnFailed` family is for callers who
want `check=True`, as with `trio.run_process`. It is defined next to that value, in
`_core/model/result.py`.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

Cause: TypeAlias = Literal[
    "auth",
    "rate_limit",
    "overloaded",
    "quota",
    "context_too_large",
    "model_unknown",
    "network",
    "agent_bug",
    "refused",
]
"""The cause of an error, in terms common to all agents:

- `auth`: the login is missing, wrong or expired;
- `rate_limit`: too many requests;
- `overloaded`: the provider cannot answer now;
- `quota`: money or an allowance is used up;
- `context_too_large`: the prompt or the conversation is too long;
- `model_unknown`: the provider has no such model;
- `network`: the provider cannot be reached, or the connection broke;
- `agent_bug`: the agent broke its protocol;
- `refused`: the provider, a hook or a rule refused.
"""


class AgentrtError(Exception):
    """Base class of all errors that agentrt raises on purpose."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Support `pickle` for subclasses, whose constructors take other arguments than `args`."""
        return _again, (type(self), self.args), self.__dict__


def _again(kind: type[AgentrtError], args: tuple[Any, ...]) -> AgentrtError:
    """Rebuild an error for `pickle` from its final arguments, without calling the constructor."""
    return kind.__new__(kind, *args)


class AgentNotFound(AgentrtError):
    """The agent is unknown, or its program is not installed."""


class AgentStartError(AgentrtError):
    """The agent's program was started but did not become a working agent.

    `returncode` is its exit status (negative: the signal that ended it), or None while it ran.
    `stderr` is the end of its standard error output. `cause` is the cause that the agent's refusal
    names, such as `auth`, in terms common to all agents (`ErrorInfo.cause`); None if there is none.
    """

    def __init__(
        self,
        message: str,
        *,
        returncode: int | None = None,
        stderr: str = "",
        cause: Cause | None = None,
    ) -> None:
        super().__init__(with_stderr(message, stderr))
        self.returncode = returncode
        self.stderr = stderr
        self.cause: Cause | None = cause


class FolderNotTrusted(AgentStartError):
    """The agent was not started because it would act on the files of an untrusted folder.

    The user does not trust the folder, and the agent cannot be kept from its files. `folder` is the
    path of that folder.
    """

    def __init__(self, message: str, *, folder: str = "") -> None:
        super().__init__(message)
        self.folder = folder


class SandboxUnavailable(AgentStartError):
    """The agent was not started because its sandbox cannot be built on this machine.

    The message gives the reason and the remedy. agentrt never starts the agent without the sandbox
    instead.
    """


def with_stderr(message: str, stderr: str) -> str:
    """Return the message with the end of the agent's standard error appended, if there is any."""
    tail = stderr.strip()
    return f"{message}\n--- end of its standard error ---\n{tail}" if tail else message


class ProtocolError(AgentrtError):
    """The wire protocol was violated; the two subclasses tell by which side."""


class LocalProtocolError(ProtocolError):
    """The call is not allowed in the current state. Nothing was sent and nothing changed."""


class RemoteProtocolError(ProtocolError):
    """The agent sent a message that cannot be parsed. `line` is the start of it, if known."""

    def __init__(self, message: str, line: bytes = b"") -> None:
        super().__init__(message)
        self.line = line


class RequestError(AgentrtError):
    """The agent answered a request with an error: JSON-RPC `code`, `message` and `data`."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(f"{message} ({code})")
        self.code = code
        self.message = message
        self.data = data


class SessionClosed(AgentrtError):
    """The session has ended; open a new one."""


class SessionNotFound(AgentrtError):
    """Neither the agent nor the journal has a stored session with this id."""


class StoreError(AgentrtError):
    """A session store cannot be opened or used; the message gives the reason."""


class StoreInUse(StoreError):
    """Another process writes to the store. `pid` is its process id, or None if unknown."""

    def __init__(self, message: str, pid: int | None = None) -> None:
        super().__init__(message)
        self.pid = pid


class StoreDamaged(StoreError):
    """The store's file is corrupt. `agentrt sessions repair` recovers the readable parts."""


class StoreUnavailable(StoreError):
    """The store cannot save anything now, for example because the disk is full.

    Nothing was started; try again later.
    """


class SessionMoved(StoreError):
    """Another process has taken over the session, or has deleted it.

    The session ends in this process, which stores nothing more of it.
    """


class SessionElsewhere(StoreError):
    """Another process that shares the store has the session, or only another machine can continue
    it.

    `node` is the name of the server that has it, or None.
    """

    def __init__(self, message: str, node: str | None = None) -> None:
        super().__init__(message)
        self.node = node


class TraceError(AgentrtError):
    """The trace cannot be written to this path, or the file is not a trace."""


class FilesError(AgentrtError):
    """Files could not be saved, compared, restored or copied; see checkpoints and worktrees."""


class Busy(AgentrtError):
    """Refused because a turn is running and the caller asked not to wait."""


class BudgetExceeded(AgentrtError):
    """The budget of a block, a session or a tenant is used up, so the prompt was not sent.

    `limit` is `usd`, `tokens`, `turns`, `seconds` or `unmeasured`; see `agentrt.budget`.
    """

    def __init__(self, message: str, limit: str = "") -> None:
        super().__init__(message)
        self.limit = limit


class LimitExceeded(AgentrtError):
    """A limit of `Limits` was reached; the message names it."""


class ToolError(AgentrtError):
    """Raise this in a tool to report a problem to the model.

    It does not count as a defect of the tool: the message becomes the tool's answer, and nothing is
    logged.
    """


for _each in tuple(globals().values()):
    if isinstance(_each, type) and issubclass(_each, AgentrtError):
        _each.__module__ = "agentrt.errors"  # the public import path, also shown in tracebacks
