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
        *,
        widen: bool = True,
    ) -> None:
        """`listed`: hosts in addition to the policy's. `dial` connects to an address. `widen`:
        False if people cannot give access to private networks."""
        self.dial = dial
        self.desk = desk
        self._policy = policy
        self._widens = widen
        self._policy_hosts = [HostPattern(each) for each in policy.hosts]
        self._other_hosts = [HostPattern(each) for each in listed]
        self._model: list[HostPattern] = []
        self._passes: set[HostAccess] = set()
        """Connections that were allowed before they were made."""

    def set_model_hosts(self, hosts: Collection[str]) -> None:
        """Set the hosts of the agent's model."""
        self._model = [] if self._policy.network == "none" else [HostPattern(h) for h in hosts]

    def _is_listed(self, host: str, port: int, *, private: bool = False) -> bool:
        """Return True if a host is listed. `private`: also if it is in a private network."""
        listed = [*self._other_hosts, *self._model]
        if self._policy.private_hosts or not private:
            listed += self._policy_hosts
        return any(each.matches(host, port) for each in listed)

    def _policy_allows(self, host: str, port: int) -> bool:
        """Return True if a connection needs no answer of a person."""
        return self._policy.network == "all" or self._is_listed(host, port)

    async def check(self, host: str, port: int, reason: str = "") -> bool:
        """Decide about a connection. Waits for an answer if a person is asked.

        `host` is in its normal form; `reason` is the model's own. Returns True if a person allowed
        it. Raises `HostRefused` with a text for the model.
        """
        await trio.lowlevel.checkpoint()
        _check_name(host)
        if self._policy_allows(host, port):
            return False
        if self._policy.network == "none":
            raise HostRefused(f"{host}:{port} is not allowed: this session has no network")
        access = HostAccess(host, port)
        if self.desk.is_granted(access):
            return True
        if access in self._passes:
            self._passes.remove(access)
            return True
        try:
            await self.desk.ask(access, reason)
        except AccessRefused as error:
            raise HostRefused(str(error)) from None
        return True

    async def request(self, host: str, port: int, reason: str) -> None:
        """Ask before a connection is made. An answer for once is for the next connection.

        As `check`; `reason` is the model's own.
        """
        await self.check(host, port, reason)
        access = HostAccess(host, port)
        lasting = self._policy_allows(host, port) or self.desk.is_granted(access)
        if not lasting:
            self._passes.add(access)

    async def resolve(self, host: str, port: int, *, by_person: bool = False) -> list[str]:
        """Return the addresses of a host that may be dialled. Raises `HostRefused`.

        `by_person`: the result of `check`. The person has seen the host, not the address to which
        its name leads: a private one needs a host that the policy lists, or must itself have been
        asked about.

        The caller dials exactly one of the addresses, so that a name that changes its address in
        between gains nothing.
        """
        try:
            found = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise HostRefused(f"{host} cannot be resolved: {error.strerror}") from error
        addresses = list(dict.fromkeys(str(each[4][0]) for each in found))
        listed = self._is_listed(host, port, private=True)
        named = listed or (by_person and self._widens)
        usable, problem = [], "it has no address"
        for address in addresses:
            why = address_problem(address, named=named and address == host, listed=listed)
            if why is None and _is_own(address):
                why = "it is this machine; pass a port in with `ports`"
            if why is None:
                usable.append(address)
            else:
                problem = why
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
