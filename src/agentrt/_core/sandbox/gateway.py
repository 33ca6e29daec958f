"""The decisions about connections from a sandbox: allowed, refused, or a question.

Connections to the same host wait for one answer.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Collection
from typing import TypeAlias

import trio

from .access import AccessRefused, HostAccess
from .desk import AccessDesk
from .hosts import HostPattern, HostRefused, address_problem
from .policy import Sandbox

Dial: TypeAlias = Callable[[str, int], Awaitable[trio.SocketStream]]


class Gateway:
    """Judges the connections of one session."""

    def __init__(
        self,
        policy: Sandbox,
        desk: AccessDesk,
        listed: Collection[str] = (),
        dial: Dial = trio.open_tcp_stream,
    ) -> None:
        """`listed`: hosts in addition to the policy's. `dial` connects to an address."""
        self.dial = dial
        self.desk = desk
        self._policy = policy
        self._listed = [HostPattern(each) for each in (*policy.hosts, *listed)]
        self._model: list[HostPattern] = []
        self._passes: set[HostAccess] = set()
        """Connections that were allowed before they were made."""

    def set_model_hosts(self, hosts: Collection[str]) -> None:
        """Set the hosts of the agent's model."""
        self._model = [] if self._policy.network == "none" else [HostPattern(h) for h in hosts]

    def _is_listed(self, host: str, port: int) -> bool:
        """Return True if the policy, the caller or the agent's model names this host."""
        return any(each.matches(host, port) for each in (*self._listed, *self._model))

    def _policy_allows(self, host: str, port: int) -> bool:
        """Return True if a connection needs no answer of a person."""
        return self._policy.network == "all" or self._is_listed(host, port)

    def _is_allowed(self, host: str, port: int) -> bool:
        """Return True for a host that may be in a private network: one that was named or allowed.

        `network="all"` does not count here: it stands for the public hosts.
        """
        return self._is_listed(host, port) or self.desk.is_granted(HostAccess(host, port))

    async def check(self, host: str, port: int, reason: str = "") -> None:
        """Decide about a connection. Waits for an answer if a person is asked.

        `host` is in its normal form; `reason` is the model's own. Raises `HostRefused` with a text
        for the model.
        """
        await trio.lowlevel.checkpoint()
        _check_name(host)
        if self._policy_allows(host, port):
            return
        if self._policy.network == "none":
            raise HostRefused(f"{host}:{port} is not allowed: this session has no network")
        access = HostAccess(host, port)
        if self.desk.is_granted(access):
            return
        if access in self._passes:
            self._passes.remove(access)
            return
        try:
            await self.desk.ask(access, reason)
        except AccessRefused as error:
            raise HostRefused(str(error)) from None

    async def request(self, host: str, port: int, reason: str) -> None:
        """Ask before a connection is made. An answer for once is for the next connection.

        As `check`; `reason` is the model's own.
        """
        await self.check(host, port, reason)
        access = HostAccess(host, port)
        lasting = self._policy_allows(host, port) or self.desk.is_granted(access)
        if not lasting:
            self._passes.add(access)

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
        listed = self._is_allowed(host, port)
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
