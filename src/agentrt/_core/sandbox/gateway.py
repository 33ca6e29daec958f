"""The decisions about connections from a sandbox: allowed, refused, or a question.

A question is sent to the session, which shows it like every other permission request. Several
connections to the same host wait for one answer.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Collection
from typing import Final, Literal, TypeAlias

import trio
from msgspec import Struct

from .hosts import HostPattern, HostRefused, address_problem
from .policy import Sandbox

MAX_OPEN: Final = 16
"""Number of hosts about which questions are open at the same time; others are refused."""

ANSWER_TIMEOUT_S: Final = 120.0
"""Seconds for which a connection waits for an answer; clients give up after a similar time."""

MAX_REMEMBERED: Final = 1000

Dial: TypeAlias = Callable[[str, int], Awaitable[trio.SocketStream]]

Scope: TypeAlias = Literal["once", "session", "no"]
"""An answer to a question."""


class GatewayRequest:
    """A question about a host."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port
        self.scope: Scope | None = None
        self.answered = trio.Event()
        self.waiting = 0
        """The number of connections that wait for the answer."""
        self._passes = 0

    def answer(self, scope: Scope) -> None:
        """Answer the question. Later answers have no effect."""
        if self.scope is None:
            self.scope = scope
            self._passes = 1 if scope == "once" else 0
            self.answered.set()

    def passes(self) -> bool:
        """Return True if one more connection is allowed by the answer."""
        if self.scope == "session":
            return True
        self._passes -= 1
        return self._passes >= 0


class Granted(Struct, frozen=True):
    """A permission that was given while the session ran."""

    tool: str
    """The kind of access, such as `Network`."""
    target: str
    """The host pattern or path that it is for."""


class Gateway:
    """Judges the connections of one session."""

    def __init__(
        self, policy: Sandbox, listed: Collection[str] = (), dial: Dial = trio.open_tcp_stream
    ) -> None:
        """`listed`: hosts in addition to the policy's. `dial` connects to an address."""
        self.dial = dial
        self._policy = policy
        self._listed = [HostPattern(each) for each in (*policy.hosts, *listed)]
        self._model: list[HostPattern] = []
        self._open: dict[tuple[str, int], GatewayRequest] = {}
        self.questions: trio.MemoryReceiveChannel[GatewayRequest]
        self._questions_in, self.questions = trio.open_memory_channel[GatewayRequest](MAX_OPEN)
        self.granted: list[Granted] = []
        """The permissions that were given."""

    def set_model_hosts(self, hosts: Collection[str]) -> None:
        """Set the hosts of the agent's model."""
        self._model = [] if self._policy.network == "none" else [HostPattern(h) for h in hosts]

    def allow(self, host: str, port: int | None = None) -> None:
        """Allow a host for the life of the session."""
        text = host if port is None else f"{host}:{port}"
        pattern = HostPattern(f"[{host}]:{port}" if ":" in host else text)
        self._listed.append(pattern)
        if len(self.granted) < MAX_REMEMBERED:
            self.granted.append(Granted("Network", pattern.text))

    def _is_listed(self, host: str, port: int) -> bool:
        return any(each.matches(host, port) for each in (*self._listed, *self._model))

    async def check(self, host: str, port: int) -> None:
        """Decide about a connection. Waits for an answer if a person is asked.

        `host` is in its normal form. Raises `HostRefused` with a text for the model.
        """
        await trio.lowlevel.checkpoint()
        _check_name(host)
        if self._policy.network == "all" or self._is_listed(host, port):
            return
        if self._policy.network == "none":
            raise HostRefused(f"{host}:{port} is not allowed: this session has no network")
        key = (host, port)
        request = self._open.get(key)
        if request is None:
            request = GatewayRequest(host, port)
            if len(self._open) >= MAX_OPEN or not self._send(request):
                raise HostRefused(
                    f"{host}:{port} is not allowed in this session by its sandbox, and it cannot be"
                    " asked about now; do not retry"
                )
            self._open[key] = request
        request.waiting += 1
        try:
            with trio.move_on_after(ANSWER_TIMEOUT_S):
                await request.answered.wait()
        finally:
            request.waiting -= 1
            if not request.waiting or request.scope is not None:
                if self._open.get(key) is request:
                    del self._open[key]
                request.answer("no")  # no connection waits any longer, or it has an answer
        if request.scope == "no" or not request.passes():
            raise HostRefused(
                f"{host}:{port} is not allowed in this session by its sandbox; do not retry, and"
                " tell the user if you need it"
            )

    def _send(self, request: GatewayRequest) -> bool:
        try:
            self._questions_in.send_nowait(request)
        except (trio.WouldBlock, trio.BrokenResourceError):
            return False
        return True

    async def resolve(self, host: str, port: int) -> list[str]:
        """Return the addresses of a host that may be dialled. Raises `HostRefused`.

        The caller dials exactly one of these, so that a name that changes its address in between
        gains nothing.
        """
        try:
            found = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise HostRefused(f"{host} cannot be resolved: {error.strerror}") from error
        addresses = list(dict.fromkeys(str(each[4][0]) for each in found))
        listed = self._is_listed(host, port)
        problem = "it has no address"
        for address in addresses:
            why = address_problem(address, named=address == host, listed=listed)
            if why is None and _is_own(address):
                why = "it is this machine; pass a port in with `ports`"
            if why is not None:
                problem = why
        usable = [
            address
            for address in addresses
            if address_problem(address, named=address == host, listed=listed) is None
            and not _is_own(address)
        ]
        if not usable:
            raise HostRefused(f"{host} is refused: {problem}")
        return usable


def _check_name(host: str) -> None:
    """Refuse names of this machine without a question: no answer could allow them."""
    if host == "localhost" or host.endswith(".localhost"):
        raise HostRefused(f"{host} is this machine; its ports are not reachable from the sandbox")


def _is_own(address: str) -> bool:
    """Return True if an address belongs to this machine."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as trial:
            trial.bind((address, 0))
    except OSError:
        return False
    return True
