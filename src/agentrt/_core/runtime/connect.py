"""Sessions with remote agents, reached by a connection."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Unpack, get_args

import trio

from ..agents import Agent
from ..agents.agent import ProtocolName
from ..errors import AgentStartError
from ..nesting import check_trio
from ..process.streams import OpenStreams, Streams
from .open import open_session
from .options import SessionOptions, check

if TYPE_CHECKING:
    from ..session.session import Session


def connect(
    send: trio.abc.SendStream | OpenStreams,
    receive: trio.abc.ReceiveStream | None = None,
    *,
    name: str = "agent",
    protocol: ProtocolName = "acp",
    **options: Unpack[SessionOptions],
) -> AbstractAsyncContextManager[Session]:
    """Open a session with an agent at the other end of a connection.

    - `send`, `receive`: the two streams of the connection. Or `send` alone: a `trio.abc.Stream`, or
      a function that returns an async context manager for both streams; it is called again to
      reconnect.
    - `name`: name of the agent; `protocol`: its protocol.
    - `options`: as in `open_session`. `cwd` is an absolute path on the agent's machine. `files` and
      `terminals` are off by default, because they would be those of this machine.

    The agent's process is not known here: it cannot be signalled, and neither can programs started
    by it. The end of the connection counts as its exit (status 0; -9 if it was closed from here),
    and ends a turn as `agent_died`. After that, prompts fail unless there is a function to
    reconnect.

    Leaving the block works as with `open_session`, and so do errors. Also raises `TypeError` if the
    arguments are not streams, `ValueError` for an unknown protocol.
    """
    opening: OpenStreams
    if isinstance(send, trio.abc.SendStream):
        if receive is None and isinstance(send, trio.abc.ReceiveStream):
            receive = send
        if not isinstance(receive, trio.abc.ReceiveStream):
            raise TypeError("connect() needs two streams, one that is both, or a function")
        opening = _once(send, receive)
    elif callable(send) and receive is None and not inspect.iscoroutinefunction(send):
        opening = send
    else:
        raise TypeError("connect() needs two streams, one that is both, or a function")
    check("name", name, str, "a string")
    if not name:
        raise ValueError("`name` must not be empty")
    if protocol not in get_args(ProtocolName):
        known = ", ".join(get_args(ProtocolName))
        raise ValueError(f"`protocol` must be one of {known}, not {protocol!r}")
    agent = Agent(name=name, command=(name,), protocol=protocol, connect=opening)
    options.setdefault("files", False)
    options.setdefault("terminals", False)
    return _connected(agent, options)


@asynccontextmanager
async def _connected(agent: Agent, options: SessionOptions) -> AsyncIterator[Session]:
    check_trio("connect")
    async with open_session(agent, **options) as session:
        yield session


def _once(send: trio.abc.SendStream, receive: trio.abc.ReceiveStream) -> OpenStreams:
    used = False

    @asynccontextmanager
    async def streams() -> AsyncIterator[Streams]:
        nonlocal used
        await trio.lowlevel.checkpoint()
        if used:
            raise AgentStartError(
                "the connection to the agent has ended: give connect() a function that opens one"
            )
        used = True
        yield send, receive

    return streams
