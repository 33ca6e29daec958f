"""Every bound of the runtime, in one place. Seconds, bytes and counts."""

from __future__ import annotations

import math
import re
from typing import Final

from msgspec import Struct


class Limits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The bounds of a session. Change one with `msgspec.structs.replace(limits, hard=60)`.

    Times are seconds, sizes are bytes; None means "no limit" where the type allows it. A value
    that no bound can have (negative, not finite, of another type) raises `ValueError`.
    """

    # --- a session's start and a turn's clocks
    handshake: float = 60.0
    """From spawning the agent to a session that takes prompts (OpenCode needs up to 15 s)."""
    hard: float | None = 1800.0
    """The longest a turn may take, whatever it does; an agent that streams for ever meets it."""
    idle: float | None = None
    """The longest silence inside a turn. Off: a healthy agent was silent for 35 s and more."""
    permission: float | None = None
    """How long a permission request waits for an answer before it counts as rejected."""
    cancel_grace: float = 10.0
    """From `session/cancel` or `interrupt` to the turn's own end; then the process is ended, by the
    ladder below, for which the next prompt waits."""
    cancel_resend: float = 2.0
    """Without a sign of the cancel it is sent once more: two real agents lose one that comes
    right behind the prompt."""
    settle: float = 2.0
    """Silence that stands for an end that no message says: of a turn that an ACP agent
    started by itself, and of one whose result came without the agent's word that it rests."""
    tail: float = 0.05
    """The same while a prompt waits: some agents go on writing for a moment behind their answer,
    and what comes then cannot be distinguished from what they say to the next prompt."""

    # --- the end of a process, one rung of the ladder after the other
    stdin_close: float = 3.0
    """Seconds that an agent gets to exit after its standard input was closed: most do so in less
    than one."""
    terminate: float = 2.0
    """Seconds from SIGTERM to SIGKILL: what shells and their children need to leave."""
    kill: float = 1.0
    """Seconds for which what was killed is waited for, before the session goes on without."""
    drain: float = 600.0
    """How long leaving a session normally waits for running and background work."""

    # --- the pipes
    line: int = 64 * 1024 * 1024
    """The longest message of the agent; a longer one costs a notice. Images and whole files come in
    one line."""
    stderr_ring: int = 64 * 1024
    """How much of the end of an agent's stderr is kept, for errors to quote."""
    stdout_drain: float = 0.25
    """How long stdout is read after the agent's exit: a grandchild may hold it open for ever."""
    outbox: int = 64 * 1024 * 1024
    """Bytes of answers to the agent that it may leave unread, beside a last one of any size. At the
    half of it no more files are read for the agent until it has read. (A prompt may be of any
    size.)"""
    write: float = 10.0
    """How long the agent may leave its stdin unread while something waits to be written."""

    # --- what the agent asks of the host
    requests: int = 256
    """Requests of the agent (for terminals, tools, hooks) that may be open at a time; others are
    refused. To end them all with their turn takes 20 ms, for which other sessions wait. Requests
    for files wait for each other instead, as many as take the room of one `line`."""
    tool: float | None = None
    """How long an in-process tool may run; each tool may have its own."""
    file: int = 16 * 1024 * 1024
    """The largest file that the agent may read or write through the host."""
    terminals: int = 32
    """Terminals that an agent may have open at a time, each with a program of its own."""
    terminal_output: int = 1024 * 1024
    """How much of the end of a terminal's output is kept, whatever the agent asks for."""

    # --- the log and its viewers
    ring_events: int = 4096
    """The newest events that a session keeps for readers that come back; one that is further behind
    starts from a snapshot."""
    ring_bytes: int = 4 * 1024 * 1024
    """The same by their size."""
    snapshot_turns: int = 50
    """The last turns of a session that a viewer gets with its snapshot, and the most of earlier
    ones that it gets at a time."""
    snapshot_items: int = 5000
    """The same in items: a long turn comes in pieces."""
    viewer_outbox: int = 1024 * 1024
    """Bytes waiting for one WebSocket viewer; above it, it gets a fresh snapshot instead."""
    frame: int = 8 * 1024 * 1024
    """The largest message of a WebSocket client."""
    viewer_frame: int = 64 * 1024
    """The same of one that only looks on."""
    beat: float = 15.0
    """How often the server says where each session is, so that a client notices what it missed."""
    ping: float = 20.0
    """How often a silent connection is pinged: proxies cut what is silent for a minute."""
    ws_handshake: float = 5.0
    """How long a connection may take to say who it is."""
    ticket: float | None = 3600.0
    """How long a link to the page can be opened, from the moment when it is printed."""
    ws_write: float = 10.0
    """How long a client may leave what it is sent unread, before it is cut off."""
    ws_close: float = 1.0
    """How long a client may take to answer a close, before it is cut off."""
    ws_frames: int = 500
    """WebSocket frames a second from one client, with a burst of twice as many."""
    ws_clients: int = 512
    """Connections at a time."""
    ws_pending: int = 64
    """Connections that have not shown a token; where there are more, the oldest is cut off."""
    queue: int = 64
    """Prompts waiting in one session."""
    client_answers: int = 16 * 1024 * 1024
    """Bytes of answers that are remembered for all clients of a tenant, so that a command that is
    sent again is not carried out again: an answer has some hundred, so this is room for tens of
    thousands. The oldest are forgotten first."""

    # --- a session that is kept in a store
    store_session: int = 8 * 1024 * 1024
    """What may wait for being stored of one session; above it, its agent is not read."""
    store_backlog: int = 64 * 1024 * 1024
    """The same of all sessions of a store."""
    store_wait: float = 30.0
    """How long a store may fail until running turns are cancelled (new prompts are refused at
    once), and how long the end of a session waits for what is not stored."""
    store_events: float = 3600.0
    """How long the events of a turn are kept in a store, behind the turn's record."""
    store_flush: int = 1024 * 1024
    """Bytes that a store is given at a time, roughly: more would keep this process from its other
    work while they are encoded."""
    store_answers: float = 24 * 3600.0
    """How long a store knows which commands of clients it has carried out: sent again meanwhile,
    one is answered as before."""
    store_gather: float = 0.008
    """How long text waits in PostgreSQL at most for more of it, from one flush to the next: half as
    many flushes cost a server and its database less, and text is seen that much later. What
    somebody waits for (a turn's start and end, a question) waits for 5 ms at most."""
    store_start: float = 300.0
    """How long `agentrt serve` waits for its database where that cannot be reached at its start."""
    store_lease: float = 10.0
    """How long others wait for a process that shares a store with them and is not heard of, until
    they go on with its sessions. It has ended its own agents by then: at three tenths of this ahead
    of the end."""

    # --- many sessions in one process
    sessions: int = 64
    """Sessions that a runtime has open at a time: each has a process."""
    suspend: float | None = 900.0
    """How long a session may rest before its process is ended: an agent holds some 200 MB while it
    waits for nothing. The session stays, and the next prompt resumes it."""
    unload: float | None = 3600.0
    """How long a session whose process is ended stays in memory while nobody looks at it, where a
    store has it: then it is closed to its row in the list, and opened again by the next prompt."""
    hang: float | None = 3600.0
    """The longest silence of an agent that says it is at work, in a turn or in the background.
    Nobody waits that long; its process is ended, and the next prompt starts another one."""
    call: float = 30.0
    """How long the agent may take to answer what a viewer asks of it outside turns (a mode, a
    model, the end of a task)."""
    client_tool: float = 600.0
    """How long a call of a viewer's own tool waits for its result."""
    client_return: float = 30.0
    """How long it waits for a viewer that has gone to come back: a page that is reloaded takes some
    seconds, a phone that changes its network some ten."""

    def __post_init__(self) -> None:
        for name, default in _DEFAULTS:
            value = getattr(self, name)
            if value is default or (value is None and name in _OPTIONAL):
                continue
            kinds = (int,) if name in _COUNTS else (int, float)
            if isinstance(value, bool) or not isinstance(value, kinds):
                raise ValueError(f"limits.{name} is {value!r}; it takes {_wanted(name)}")
            if not 0 <= value < math.inf:
                raise ValueError(f"limits.{name} is {value!r}; it takes {_wanted(name)}")


class Tenant(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whose a token is, where several share a server: who comes by it sees and commands the
    sessions of its tenant, and no others. None is no limit.

    - `name`: up to 64 letters, digits, `_`, `-` and `.`.
    - `sessions`: how many of its sessions may be open at a time, together at all servers that share
      a store; one that is only stored is not open.
    - `viewers`: connections at a time, at each server.
    - `events`: how many events a second its sessions may have together, at each server that runs
      some of them. Above it their agents are read more slowly.
    - `roots`: where, and below which, its clients may open sessions; by default where the server's
      may.
    """

    name: str
    sessions: int | None = None
    viewers: int | None = None
    events: float | None = None
    roots: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", self.name):
            raise ValueError(f"{self.name!r} is no name of a tenant: up to 64 of A-Z a-z 0-9 _ - .")
        for name in ("sessions", "viewers"):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < 0):
                raise ValueError(
                    f"{name} is {value!r}; it takes a whole number, 0 or more, or None"
                )
        if self.events is not None and not 1 <= self.events < math.inf:
            raise ValueError(f"events is {self.events!r}; it takes events a second, 1 or more")


def _wanted(name: str) -> str:
    kind = "a whole number, 0 or more" if name in _COUNTS else "seconds, 0 or more"
    return f"{kind}, or None for no limit" if name in _OPTIONAL else kind


_DEFAULTS: Final = tuple(zip(Limits.__struct_fields__, Limits.__struct_defaults__, strict=True))
_OPTIONAL: Final = frozenset(
    name for name, kind in Limits.__annotations__.items() if kind.endswith("| None")
)
_COUNTS: Final = frozenset(
    name for name, kind in Limits.__annotations__.items() if kind.startswith("int")
)
