"""All limits of the runtime, in seconds, bytes and counts."""

from __future__ import annotations

from itertools import accumulate
from typing import Final

from msgspec import Struct

from .._base.tenant import Tenant as Tenant
from .._base.tenant import is_number
from .._base.tenant import parse_budget as parse_budget
from .._base.tenant import parse_duration as parse_duration

MAX_NESTING: Final = 200
"""Maximum number of objects and arrays inside each other in a message.

Decoding fails only at the limit of the interpreter's stack. A message just below it could be
decoded, but no longer be stored or shown, where the stack is deeper. No known agent comes close.
"""


class Limits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The limits of a session. Change one with
    `msgspec.structs.replace(limits, turn_timeout_s=60)`.

    Times are in seconds, sizes in bytes. None means "no limit" where the type allows it. Raises
    `ValueError` for an invalid value (negative, not finite or of the wrong type).
    """

    # --- start of a session, time limits of a turn
    startup_timeout_s: float = 60.0
    """Time from starting the agent until the session accepts prompts (OpenCode: up to 15 s)."""
    turn_timeout_s: float | None = 1800.0
    """Maximum duration of a turn, even if the agent keeps streaming."""
    idle_timeout_s: float | None = None
    """Maximum silence within a turn. Off: a healthy agent was silent for 35 s and more."""
    permission_timeout_s: float | None = None
    """Time a permission request waits for an answer before it counts as rejected."""
    cancel_grace_s: float = 10.0
    """Time from `session/cancel` or `interrupt` to the end of the turn.

    After that the process is ended in the steps below, and the next prompt waits for its end.
    """
    cancel_resend_s: float = 2.0
    """Time after which an unacknowledged cancel is sent once more.

    Two real agents lose a cancel that arrives immediately after the prompt.
    """
    end_silence_s: float = 2.0
    """Silence that counts as the end of a turn when no message announces it.

    This applies to a turn that an ACP agent started by itself, and to a turn whose result arrived
    without the agent reporting that it is idle.
    """
    queued_end_silence_s: float = 0.05
    """Like `end_silence_s`, while a prompt is waiting.

    Some agents continue to write for a moment after their answer, and that output cannot be told
    apart from the answer to the next prompt.
    """

    # --- ending a process, step by step
    stdin_close_grace_s: float = 3.0
    """Seconds for the agent to exit after its stdin was closed; most need less than one."""
    terminate_grace_s: float = 2.0
    """Seconds from SIGTERM to SIGKILL, for shells and their children to exit."""
    kill_wait_s: float = 1.0
    """Seconds to wait for a killed process before the session continues without it."""
    drain_timeout_s: float = 600.0
    """Maximum time that leaving a session normally waits for running and background work."""

    # --- the pipes
    message_bytes: int = 64 * 1024 * 1024
    """Maximum size of a message from the agent; a longer one is dropped with a notice.

    Images and whole files arrive in one line.
    """
    stderr_tail_bytes: int = 64 * 1024
    """Size of the tail of an agent's stderr that is kept to be quoted in errors."""
    stdout_drain_s: float = 0.25
    """Time for which stdout is read after the agent's exit; a grandchild may keep it open."""
    agent_outbox_bytes: int = 64 * 1024 * 1024
    """Bytes of answers that the agent may leave unread, not counting a last one of any size.

    From half of it on, no more files are read for the agent until it has read. A prompt may be of
    any size.
    """
    write_timeout_s: float = 10.0
    """Time for which the agent may leave its stdin unread while output is waiting."""

    # --- requests from the agent to the host
    open_requests: int = 256
    """Maximum number of open requests from the agent (for terminals, tools, hooks).

    Further ones are refused. Ending all of them with their turn takes 20 ms, during which other
    sessions wait. Requests for files are queued instead, up to the size of one `message_bytes`.
    """
    tool_timeout_s: float | None = None
    """Maximum duration of an in-process tool call; each tool may have its own."""
    file_bytes: int = 16 * 1024 * 1024
    """Size of the largest file that the agent may read or write through the host."""
    open_terminals: int = 32
    """Maximum number of open terminals of an agent; each runs a program."""
    terminal_output_bytes: int = 1024 * 1024
    """Size of the tail of a terminal's output that is kept, even if the agent asks for more."""

    # --- checkpoints of the folder's files, worktrees
    checkpoint_file_bytes: int = 10 * 1024 * 1024
    """Size above which a file is left out of checkpoints; each version of a file is kept."""
    checkpoint_files: int = 200_000
    """Number of files in a folder above which no checkpoints are made: each one looks at all."""
    checkpoints_kept: int = 200
    """Number of checkpoints that are kept for a folder; a turn takes two at most."""
    checkpoint_timeout_s: float = 60.0
    """Time for each git command of a checkpoint or a worktree; the next turn waits for it."""

    # --- the log and its viewers
    recent_events: int = 4096
    """Number of recent events that a session keeps for returning readers.

    A reader that missed more starts from a snapshot.
    """
    recent_events_bytes: int = 4 * 1024 * 1024
    """Size of the recent events that a session keeps for returning readers."""
    snapshot_turns: int = 50
    """Number of most recent turns in a viewer's snapshot, and of earlier turns loaded at a time."""
    snapshot_items: int = 5000
    """Like `snapshot_turns`, in items: a long turn is sent in parts."""
    snapshot_bytes: int = 256 * 1024
    """Like `snapshot_turns`, in bytes of the items. It limits the wait on a slow line."""
    preview_chars: int = 8192
    """Characters of a tool's output, a file or another content that viewers get immediately.

    Contents of up to twice this length are sent completely. Of longer ones, viewers get a preview
    and request the rest when it is opened. Of an answer, they get the last four times as many.
    """
    viewer_outbox_bytes: int = 1024 * 1024
    """Bytes waiting for one WebSocket viewer; above that it gets a new snapshot instead."""
    client_message_bytes: int = 8 * 1024 * 1024
    """Maximum size of a message from a WebSocket client."""
    viewer_message_bytes: int = 64 * 1024
    """Maximum size of a message from a read-only WebSocket client."""
    position_interval_s: float = 15.0
    """Interval at which the server sends the position of each session, to reveal missed events."""
    ping_interval_s: float = 20.0
    """Interval for pinging an idle connection; proxies cut one that is silent for a minute."""
    ws_handshake_timeout_s: float = 5.0
    """Time for a new connection to authenticate."""
    link_lifetime_s: float | None = 3600.0
    """Lifetime of a link to the page, from the moment it is printed."""
    ws_write_timeout_s: float = 10.0
    """Time for which a client may leave its data unread before it is disconnected."""
    ws_close_timeout_s: float = 1.0
    """Time for a client to answer a close before it is disconnected."""
    ws_frames_per_s: int = 500
    """WebSocket frames per second from one client, with a burst of twice as many."""
    ws_connections: int = 512
    """Maximum number of simultaneous connections."""
    ws_unauthenticated: int = 64
    """Maximum number of unauthenticated connections; above that the oldest is closed."""
    queued_prompts: int = 64
    """Maximum number of prompts waiting in one session."""
    queued_prompts_bytes: int = 16 * 1024 * 1024
    """Maximum size of the prompts waiting in one session, as JSON. One prompt may always wait.

    The store and the viewers get the whole queue with each change of it.
    """
    client_answers_bytes: int = 16 * 1024 * 1024
    """Bytes of answers remembered for all clients of a tenant.

    A command that is sent again is answered from them and not executed twice. An answer takes some
    hundred bytes, so tens of thousands fit. The oldest are dropped first.
    """

    # --- a session in a store
    store_session_bytes: int = 8 * 1024 * 1024
    """Bytes of one session that may wait to be stored; above that its agent is not read."""
    store_backlog_bytes: int = 64 * 1024 * 1024
    """Bytes of all sessions of a store that may wait to be stored."""
    store_failure_timeout_s: float = 30.0
    """Time for which a store may fail before running turns are cancelled.

    New prompts are refused immediately. The end of a session also waits this long for data that is
    not stored yet.
    """
    store_events_lifetime_s: float = 3600.0
    """Time for which the events of a turn stay in the store after the turn's record is written."""
    store_flush_bytes: int = 1024 * 1024
    """Approximate number of bytes written to a store at a time.

    Larger writes would delay the other work of this process while they are encoded.
    """
    store_answers_lifetime_s: float = 24 * 3600.0
    """Time for which a store remembers the client commands it has executed.

    A command sent again within it gets the earlier answer.
    """
    store_gather_s: float = 0.008
    """Maximum time that text waits in PostgreSQL for more text, from one flush to the next.

    Half as many flushes cost a server and its database less, but text appears that much later.
    Events that a client waits for (start and end of a turn, a question) wait for 5 ms at most.
    """
    store_start_timeout_s: float = 300.0
    """Time for which `agentrt serve` waits at startup for a database that cannot be reached."""
    store_lease_s: float = 10.0
    """Time after which other processes take over the sessions of a silent process that shares the
    store.

    The silent process has ended its own agents before that, when three tenths of this time are
    left.
    """

    # --- many sessions in one process
    open_sessions: int = 64
    """Maximum number of open sessions of a runtime; each has a process."""
    suspend_after_s: float | None = 900.0
    """Idle time after which a session's process is ended.

    An idle agent holds some 200 MB. The session stays open, and the next prompt resumes it.
    """
    unload_after_s: float | None = 3600.0
    """Time for which a stored session without a process and without viewers stays in memory.

    After that it is closed and only listed; the next prompt opens it again.
    """
    busy_silence_timeout_s: float | None = 3600.0
    """Maximum silence of an agent that reports to be working, in a turn or in the background.

    After that its process is ended, and the next prompt starts a new one.
    """
    request_timeout_s: float = 30.0
    """Time for the agent to answer a viewer's request outside turns (a mode, a model, the end of a
    task).
    """
    client_tool_timeout_s: float = 600.0
    """Time for which a call of a viewer's own tool waits for its result."""
    client_return_timeout_s: float = 30.0
    """Time for which the call waits for a disconnected viewer to return.

    Reloading a page takes some seconds, changing the network of a phone about ten.
    """

    def __post_init__(self) -> None:
        """Raise `ValueError` for a value that is not a usable number.

        The defaults are not checked again: an identity test for each field makes this cheap.
        """
        for name, default in _DEFAULTS:
            value = getattr(self, name)
            if value is default or (value is None and name in _OPTIONAL):
                continue
            wrong = name in _COUNTS and not isinstance(value, int)
            if wrong or not is_number(value) or value < 0:
                raise ValueError(f"limits.{name} must be {_wanted(name)}, not {value!r}")


def _wanted(name: str) -> str:
    """Return the values that a limit can have, in words."""
    kind = "a whole number, 0 or more" if name in _COUNTS else "a number of seconds, 0 or more"
    return f"{kind}, or None for no limit" if name in _OPTIONAL else kind


_DEFAULTS: Final = tuple(zip(Limits.__struct_fields__, Limits.__struct_defaults__, strict=True))
_OPTIONAL: Final = frozenset(
    name for name, kind in Limits.__annotations__.items() if kind.endswith("| None")
)
_COUNTS: Final = frozenset(
    name for name, kind in Limits.__annotations__.items() if kind.startswith("int")
)


_BACKSLASH: Final = b"\\"
_STEPS: Final = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_NOT_STEPS: Final = bytes({*range(256)} - {*b"[{]}"})
_PEELED: Final = 4
"""Levels that are removed from the inside, which takes less time than counting them."""


def is_too_nested(message: bytes | bytearray | str) -> bool:
    """Return True if a message has more than `MAX_NESTING` levels.

    The time is proportional to the message; most messages are too short or have too few brackets.
    """
    if len(message) <= 2 * MAX_NESTING:
        return False
    data = message.encode(errors="surrogatepass") if isinstance(message, str) else message
    if data.count(b"[") + data.count(b"{") <= MAX_NESTING:
        return False
    if _BACKSLASH in data:  # looking for two characters takes ten times as long
        data = data.replace(rb"\\", b"").replace(rb"\"", b"")
    steps = b"".join(data.split(b'"')[::2]).translate(_STEPS, _NOT_STEPS)
    for _ in range(_PEELED):
        steps = steps.replace(b"\x01\xff", b"")
    return any(map((MAX_NESTING - _PEELED).__lt__, accumulate(memoryview(steps).cast("b"))))
