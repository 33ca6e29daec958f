"""Sessions with agents that run elsewhere, and are reached by a connection."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Unpack, get_args

import trio

from .._agents import Agent
from .._agents.agent import ProtocolName
from .._errors import AgentStartError
from .._nesting import check_trio
from .._process.streams import OpenStreams, Streams
from .arguments import check
from .open import open_session
from .options import SessionOptions

if TYPE_CHECKING:
    from .._session.session import Session


def connect(
    send: trio.abc.SendStream | OpenStreams,
    receive: trio.abc.ReceiveStream | None = None,
    *,
    name: str = "agent",
    protocol: ProtocolName = "acp",
    **options: Unpack[SessionOptions],
) -> AbstractAsyncContextManager[Session]:
    """A session with an agent at the other end of a connection.

    - `send`, `receive`: its two streams; or `send` alone: a `trio.abc.Stream`, or a function whose
      block gives both, which is called again where the agent has to be reached once more.
    - `name`: what the agent is called; `protocol`: what it speaks.
    - `options`: those of `open_session`. `cwd` is a folder where the agent is, in full. `files` and
      `terminals` are off unless they are given: they would be this machine's.

    No process is known here: nothing can be signalled, and what the agent starts is its own affair.
    The end of the connection counts as its exit (status 0; -9 where it was cut from here), and ends
    a turn as `agent_died`; afterwards prompts fail if there is no function to connect again.

    Leaving the block and errors: as with `open_session`. Raises `TypeError` for what is no stream,
    `ValueError` for a protocol that is not known.
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
    check("name", name, str, "what the agent is called")
    if not name:
        raise ValueError("name: an agent is called something")
    if protocol not in get_args(ProtocolName):
        known = ", ".join(get_args(ProtocolName))
        raise ValueError(f"protocol={protocol!r} is not known; there are {known}")
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
