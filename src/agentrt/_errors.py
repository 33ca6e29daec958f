"""The exceptions of agentrt.

::

    AgentrtError
    ├── AgentNotFound        no such agent, or its program is not installed
    ├── AgentStartError      the program ran but did not become a working agent
    │   └── FolderNotTrusted      it was not started: it would act on the files of a folder
    ├── ProtocolError        somebody broke the wire's rules
    │   ├── LocalProtocolError    the caller did; nothing was sent
    │   └── RemoteProtocolError   the agent did
    ├── RequestError         the agent answered a request with an error
    ├── SessionClosed        used after its end
    ├── SessionNotFound      no stored session of that name
    ├── StoreError           a store of sessions cannot be used
    │   ├── StoreInUse           another process writes it
    │   ├── StoreDamaged         its file is corrupt
    │   ├── StoreUnavailable     it cannot keep anything now
    │   ├── SessionMoved         another process goes on with the session
    │   └── SessionElsewhere     another process has it
    ├── TraceError           no trace can be written there, or what was given is none
    ├── Busy                 refused because a turn is running
    ├── LimitExceeded        one of `Limits` was reached
    └── TurnFailed           a turn ended badly, and `check=True`
        ├── AgentFailed      the agent answered the prompt with an error
        ├── AgentDied        the agent's process ended in the middle
        └── TurnTimedOut     the idle or the hard limit ended it

How a turn ended is a value (`TurnResult.outcome`); the `TurnFailed` family exists for callers who
want `check=True`, as with `trio.run_process`; it lives beside that value (`_model/result.py`).
"""

from __future__ import annotations

from typing import Any


class AgentrtError(Exception):
    """The root of every error that agentrt raises on purpose."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (type(self), self.args), self.__dict__


def _again(kind: type[AgentrtError], args: tuple[Any, ...]) -> AgentrtError:
    """For `pickle`: the text is there already, made of what the constructor was given."""
    return kind.__new__(kind, *args)


class AgentNotFound(AgentrtError):
    """No agent of that name is known, or its program is not installed."""


class AgentStartError(AgentrtError):
    """The agent's program was started but did not become a working agent.

    `returncode` is its exit status (negative: the signal that ended it), or None while it ran;
    `stderr` is the end of what it wrote there.
    """

    def __init__(self, message: str, *, returncode: int | None = None, stderr: str = "") -> None:
        super().__init__(with_stderr(message, stderr))
        self.returncode = returncode
        self.stderr = stderr


class FolderNotTrusted(AgentStartError):
    """The agent was not started, because it would act on the files of a folder that the user does
    not trust, and nothing keeps it from that. `folder` is that folder."""

    def __init__(self, message: str, *, folder: str = "") -> None:
        super().__init__(message)
        self.folder = folder


def with_stderr(message: str, stderr: str) -> str:
    """An error's words, with the end of what the agent wrote to its standard error."""
    tail = stderr.strip()
    return f"{message}\n--- end of its standard error ---\n{tail}" if tail else message


class ProtocolError(AgentrtError):
    """Somebody broke the rules of the wire; see the two subclasses for who."""


class LocalProtocolError(ProtocolError):
    """The caller asked for something that is illegal now. Nothing was sent, nothing changed."""


class RemoteProtocolError(ProtocolError):
    """The agent sent something that cannot be understood. `line` is its beginning, if known."""

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
    """The session has ended; open another one."""


class SessionNotFound(AgentrtError):
    """No stored session of that id is known to the agent or to the journal."""


class StoreError(AgentrtError):
    """A store of sessions cannot be opened or used; the message says why."""


class StoreInUse(StoreError):
    """Another process writes the store. `pid` is its process id, or None if it is not known."""

    def __init__(self, message: str, pid: int | None = None) -> None:
        super().__init__(message)
        self.pid = pid


class StoreDamaged(StoreError):
    """The store's file is corrupt. `agentrt sessions repair` saves what can be read of it."""


class StoreUnavailable(StoreError):
    """The store cannot keep anything now: the disk is full, say. Nothing was begun; try again."""


class SessionMoved(StoreError):
    """Another process goes on with the session, or has deleted it. It ends here, and nothing more
    of it is stored by this process."""


class SessionElsewhere(StoreError):
    """Another process that shares the store has the session, or only another machine can go on with
    it. `node`: the name of who has it, if anybody has."""

    def __init__(self, message: str, node: str | None = None) -> None:
        super().__init__(message)
        self.node = node


class TraceError(AgentrtError):
    """A trace cannot be written there, or what was given is none."""


class Busy(AgentrtError):
    """Refused because a turn is running and the caller asked not to wait."""


class LimitExceeded(AgentrtError):
    """A limit of `Limits` was reached; the message names it."""


for _each in tuple(globals().values()):
    if isinstance(_each, type) and issubclass(_each, AgentrtError):
        _each.__module__ = "agentrt"  # as a program imports it, and reads it in a traceback
