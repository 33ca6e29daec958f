"""The network of a sandbox: the names of hosts, its proxy, and the questions about hosts.

Names are judged as values, also those that no client would send. The proxy serves in memory, so
that it is tested also where no sandbox can be built.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeAlias

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from agentrt._core.sandbox.desk import MAX_OPEN, AccessDesk, AccessRequest
from agentrt._core.sandbox.gateway import Gateway
from agentrt._core.sandbox.hosts import (
    HostPattern,
    HostRefused,
    address_problem,
    normal_host,
    split_authority,
)
from agentrt._core.sandbox.proxy import serve_proxy
from agentrt.sandbox import Sandbox


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("EXAMPLE.com.", "example.com"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("example.com", "example.com"),
        ("ex_ample.com", "ex_ample.com"),
        ("127.0.0.1", "127.0.0.1"),
        ("[::1]", "::1"),
        ("[::ffff:10.0.0.1]", "10.0.0.1"),
        ("［::1］", None),
        ("2852039166", None),
        ("0x7f000001", None),
        ("0x7f.1", None),
        ("127.1", None),
        ("0177.0.0.1", None),
        ("1.2.3.4.5", None),
        ("１２７.0.0.1", "127.0.0.1"),
        ("example.com..", None),
        ("exa mple.com", None),
        ("example.com\x00.evil.example", None),
        ("-example.com", None),
        ("", None),
        (".", None),
        ("[fe80::1%eth0]", None),
        ("a" * 254, None),
    ],
)
def test_a_name_has_one_form_or_is_refused(written: str, meant: str | None) -> None:
    if meant is None:
        with pytest.raises(HostRefused):
            normal_host(written)
    else:
        assert normal_host(written) == meant


@given(st.text(max_size=40))
def test_a_normal_name_is_its_own_normal_form(text: str) -> None:
    try:
        name = normal_host(text)
    except HostRefused:
        return
    again = f"[{name}]" if ":" in name else name
    assert normal_host(again) == name
    assert name.isascii()
    assert name == name.lower()


@pytest.mark.parametrize(
    "text",
    [
        "a\\@b:443",
        "a@b:443",
        "a b:443",
        "a:b:443",
        "a:0",
        "a:65536",
        "a:",
        "a",
        "a/b:443",
        "a%41:443",
    ],
)
def test_an_address_with_two_readings_is_refused(text: str) -> None:
    with pytest.raises(HostRefused):
        split_authority(text)


@pytest.mark.parametrize(
    ("pattern", "host", "port", "matches"),
    [
        ("example.com", "example.com", 443, True),
        ("example.com", "www.example.com", 443, False),
        ("example.com", "example.com.evil.example", 443, False),
        ("*.example.com", "a.b.example.com", 80, True),
        ("*.example.com", "example.com", 80, True),
        ("*.example.com", "notexample.com", 80, False),
        ("*.example.com:443", "a.example.com", 80, False),
        ("Example.COM:443", "example.com", 443, True),
        ("*", "anything.example", 1, True),
        ("*:22", "anything.example", 22, True),
        ("*:22", "anything.example", 443, False),
        ("[::1]:80", "::1", 80, True),
    ],
)
def test_a_pattern_names_hosts(pattern: str, host: str, port: int, matches: bool) -> None:
    assert HostPattern(pattern).matches(host, port) is matches


@pytest.mark.parametrize(
    "text", ["https://example.com", "example.com/path", "a:b", "a*b", "a:", ""]
)
def test_a_text_that_is_no_host_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="is not a host"):
        HostPattern(text)


HOSTS = st.sampled_from(["a.example", "b.a.example", "c.b.a.example", "other.example", "10.1.2.3"])
PATTERNS = st.builds(
    lambda star, host, port: star + host + port,
    st.sampled_from(["", "*."]),
    HOSTS,
    st.sampled_from(["", ":443", ":80"]),
) | st.sampled_from(["*", "*:443"])


@given(PATTERNS, PATTERNS, HOSTS, st.sampled_from([80, 443]))
def test_a_pattern_that_covers_another_names_all_its_hosts(
    outer: str, inner: str, host: str, port: int
) -> None:
    try:
        one, two = HostPattern(outer), HostPattern(inner)
    except ValueError:
        return  # "*." before an address
    if one.covers(two) and two.matches(host, port):
        assert one.matches(host, port)


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "::1", "0.0.0.0", "169.254.169.254", "100.100.100.200", "224.0.0.1", "127.9.9.9",
     "::ffff:127.0.0.1", "fd00:ec2::254", "168.63.129.16", "fd20:ce::254", "64:ff9b::7f00:1",
     "64:ff9b::a9fe:a9fe", "64:ff9b:1::a9fe:a9fe", "2002:7f00:1::", "2002:a9fe:a9fe::1",
     "::127.0.0.1", "::ffff:0:127.0.0.1", "2001:0:102:304::5601:5601"],
)  # fmt: skip
def test_this_machine_and_a_providers_secrets_are_never_dialled(address: str) -> None:
    assert address_problem(address, named=True, listed=True)


def test_a_private_network_needs_a_listed_host() -> None:
    assert address_problem("10.0.0.1", named=False, listed=False)
    assert address_problem("10.0.0.1", named=False, listed=True) is None
    assert address_problem("fe80::1", named=False, listed=True)
    assert address_problem("93.184.216.34", named=False, listed=False) is None


@given(st.ip_addresses())
def test_an_address_that_nobody_named_is_public(address: ipaddress.IPv4Address) -> None:
    if address_problem(str(address), named=False, listed=False) is None:
        judged = getattr(address, "ipv4_mapped", None) or address
        assert judged.is_global
        assert not judged.is_loopback


@given(st.ip_addresses(v=4), st.sampled_from(["::ffff:0:0", "64:ff9b::", "64:ff9b:1::", "2002::"]))
def test_an_ipv6_form_of_an_address_has_the_problem_of_the_address(
    address: ipaddress.IPv4Address, form: str
) -> None:
    inner = int(address) << (80 if form == "2002::" else 0)
    text = str(ipaddress.IPv6Address(int(ipaddress.IPv6Address(form)) | inner))
    problem = address_problem(str(address), named=False, listed=True)
    assert address_problem(text, named=False, listed=True) == problem


PUBLIC = "93.184.216.34"

Connect: TypeAlias = Callable[[], Awaitable[trio.SocketStream]]
"""Connects to the proxy."""


class Names(trio.abc.HostnameResolver):
    """Answers every name with an address, and counts how often it was asked."""

    def __init__(self, **known: str) -> None:
        self.known = known
        self.asked = 0

    async def getaddrinfo(  # type: ignore[override]
        self,
        host: bytes,
        port: object,
        family: int = 0,
        type: int = 0,
        proto: int = 0,
        flags: int = 0,
    ) -> list[object]:
        self.asked += 1
        name = host.decode().partition(".")[0]
        found = self.known.get(name, PUBLIC)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (found, port))]

    async def getnameinfo(self, sockaddr: object, flags: int) -> tuple[str, str]:
        raise OSError


class World:
    """A gateway whose connections go to an echo server here."""

    def __init__(self, policy: Sandbox, nursery: trio.Nursery, *, widen: bool) -> None:
        self.names = Names(own="127.0.0.1", metadata="169.254.169.254", lan="10.0.0.7")
        self.dialled: list[tuple[str, int]] = []
        self.received: list[bytes] = []
        self.gateway = Gateway(policy, AccessDesk(), dial=self.dial, widen=widen)
        self._nursery = nursery

    async def dial(self, address: str, port: int) -> trio.SocketStream:
        self.dialled.append((address, port))
        near, far = socket.socketpair()
        near.setblocking(False)
        far.setblocking(False)
        self._nursery.start_soon(self.echo, trio.SocketStream(trio.socket.from_stdlib_socket(far)))
        return trio.SocketStream(trio.socket.from_stdlib_socket(near))

    async def echo(self, stream: trio.SocketStream) -> None:
        async with stream:
            async for data in stream:
                self.received.append(data)
                await stream.send_all(data)

    async def answer(self, scope: str) -> None:
        async for request in self.gateway.desk.questions:
            if scope == "session":
                self.gateway.desk.grant(request.access)
            request.answer(scope)  # type: ignore[arg-type]


@asynccontextmanager
async def served(policy: Sandbox, *, widen: bool = True) -> AsyncIterator[tuple[World, Connect]]:
    async with trio.open_nursery() as nursery:
        world = World(policy, nursery, widen=widen)
        trio.socket.set_custom_hostname_resolver(world.names)
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listener.socket.getsockname()[1]
        nursery.start_soon(serve_proxy, listener, world.gateway)

        async def connect() -> trio.SocketStream:
            return await trio.open_tcp_stream("127.0.0.1", port)

        yield world, connect
        nursery.cancel_scope.cancel()


async def ask(connect: Connect, head: bytes, more: bytes = b"") -> bytes:
    """Send a request to the proxy, and return everything that it answers."""
    stream = await connect()
    async with stream:
        await stream.send_all(head)
        with trio.fail_after(30):
            answer = bytes(await stream.receive_some(4096))
            if more:
                await stream.send_all(more)
            await stream.send_eof()
            async for data in stream:
                answer += data
    return answer


async def connect_to(connect: Connect, target: str, more: bytes = b"") -> bytes:
    return await ask(connect, f"CONNECT {target} HTTP/1.1\r\n\r\n".encode(), more)


async def test_an_allowed_host_is_connected() -> None:
    async with served(Sandbox(network=["api.example"])) as (world, connect):
        said = await connect_to(connect, "api.example:443", b"hello")
    assert said.startswith(b"HTTP/1.1 200")
    assert said.endswith(b"hello")
    assert world.dialled == [(PUBLIC, 443)]


async def test_a_plain_page_is_requested_by_its_path_and_its_judged_host() -> None:
    head = (
        b"GET http://API.example/a?b HTTP/1.1\r\nHost: evil.example\r\nProxy-Connection: x\r\n\r\n"
    )
    async with served(Sandbox(network=["api.example"])) as (world, connect):
        await ask(connect, head)
    sent = b"".join(world.received)
    assert sent.startswith(b"GET /a?b HTTP/1.1\r\nHost: api.example\r\n")
    assert b"evil" not in sent
    assert b"Proxy" not in sent


async def test_socks_reaches_an_allowed_host_and_no_other() -> None:
    async with served(Sandbox(network=["api.example"])) as (world, connect):
        for name, status in ((b"api.example", 0), (b"other.example", 2), (b"127.1", 2)):
            stream = await connect()
            async with stream:
                await stream.send_all(b"\x05\x01\x00")
                assert await stream.receive_some(2) == b"\x05\x00"
                await stream.send_all(b"\x05\x01\x00\x03" + bytes([len(name)]) + name + b"\x01\xbb")
                world.gateway.desk.questions.close()
                assert (await stream.receive_some(10))[1] == status
    assert world.dialled == [(PUBLIC, 443)]


@pytest.mark.parametrize(
    "target",
    ["own.example:80", "metadata.example:80", "localhost:80", "127.0.0.1:80", "[::1]:80",
     "2852039166:80", "a\\@b:443", "0.0.0.0:80"],
)  # fmt: skip
async def test_this_machine_is_refused_even_if_every_host_is_allowed(target: str) -> None:
    async with served(Sandbox(network="all")) as (world, connect):
        assert b" 403 " in await connect_to(connect, target)
    assert world.dialled == []


async def test_a_private_address_needs_a_listed_host() -> None:
    async with served(Sandbox(network="all")) as (world, connect):
        assert b" 403 " in await connect_to(connect, "lan.example:80")
    async with served(Sandbox(network=["lan.example"])) as (world, connect):
        assert b" 200 " in await connect_to(connect, "lan.example:80")
    assert world.dialled == [("10.0.0.7", 80)]


PRIVATE = ["10.0.0.7:80", "192.168.1.1:443", "172.16.0.9:5432", "[fd00::7]:80", "169.254.9.9:80",
           "lan.example:80"]  # fmt: skip


@pytest.mark.parametrize("target", PRIVATE)
@pytest.mark.parametrize(
    "policy",
    [
        Sandbox(network="all"),
        Sandbox(network=["lan.example", "10.0.0.7", "*"], private_hosts=False),
    ],
)
async def test_public_hosts_are_no_private_networks(policy: Sandbox, target: str) -> None:
    async with served(policy) as (world, connect):
        assert b"private network" in (said := await connect_to(connect, target)) or (
            b"link-local" in said
        )
    assert world.dialled == []


@pytest.mark.parametrize("scope", ["once", "session"])
@pytest.mark.parametrize("widen", [True, False])
async def test_a_person_opens_a_private_network_only_by_its_address(
    scope: str, widen: bool
) -> None:
    """The person does not see the address to which a name leads. Without `widen`, the machine and
    its networks are not the person's."""
    async with served(Sandbox(), widen=widen) as (world, connect), trio.open_nursery() as nursery:
        nursery.start_soon(world.answer, scope)
        status = b" 200 " if widen else b" 403 "
        assert status in await connect_to(connect, "10.0.0.7:80")
        assert b" 403 " in await connect_to(connect, "lan.example:80")
        assert b" 200 " in await connect_to(connect, "new.example:80")
        nursery.cancel_scope.cancel()
    assert world.dialled == [("10.0.0.7", 80)] * widen + [(PUBLIC, 80)]


async def test_a_model_in_a_private_network_is_reached() -> None:
    async with served(Sandbox(private_hosts=False)) as (world, connect):
        world.gateway.set_model_hosts(["lan.example:80", "10.0.0.7:81"])
        for target in ("lan.example:80", "10.0.0.7:81"):
            assert b" 200 " in await connect_to(connect, target)


async def test_a_name_is_resolved_once_and_dialled_at_the_judged_address() -> None:
    async with served(Sandbox(network=["api.example"])) as (world, connect):
        await connect_to(connect, "api.example:443")
    assert world.names.asked == 1
    assert world.dialled == [(PUBLIC, 443)]


async def test_once_allows_one_connection_and_session_all() -> None:
    async with served(Sandbox()) as (world, connect), trio.open_nursery() as nursery:
        nursery.start_soon(world.answer, "once")
        assert b" 200 " in await connect_to(connect, "new.example:443")
        nursery.cancel_scope.cancel()
    assert world.gateway.desk.granted == []
    async with served(Sandbox()) as (world, connect), trio.open_nursery() as nursery:
        nursery.start_soon(world.answer, "session")
        for _ in range(3):
            assert b" 200 " in await connect_to(connect, "new.example:443")
        nursery.cancel_scope.cancel()
    assert [each.target for each in world.gateway.desk.granted] == ["new.example:443"]


async def test_a_refusal_explains_itself_to_the_model() -> None:
    async with served(Sandbox()) as (world, connect), trio.open_nursery() as nursery:
        nursery.start_soon(world.answer, "no")
        said = await connect_to(connect, "new.example:443")
        nursery.cancel_scope.cancel()
    assert b" 403 " in said
    assert b"new.example:443 is not allowed in this session by its sandbox" in said


async def test_connections_to_the_same_host_share_a_question() -> None:
    gateway = Gateway(Sandbox(), AccessDesk())
    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(gateway.check, "new.example", 443)
        await trio.testing.wait_all_tasks_blocked()
        request = gateway.desk.questions.receive_nowait()
        with pytest.raises(trio.WouldBlock):
            gateway.desk.questions.receive_nowait()
        request.answer("session")


async def test_once_lets_only_one_of_several_connections_through() -> None:
    gateway = Gateway(Sandbox(), AccessDesk())
    passed: list[str] = []

    async def check() -> None:
        try:
            await gateway.check("new.example", 443)
        except HostRefused:
            passed.append("no")
        else:
            passed.append("yes")

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(check)
        await trio.testing.wait_all_tasks_blocked()
        gateway.desk.questions.receive_nowait().answer("once")
    assert sorted(passed) == ["no", "no", "yes"]


async def test_a_thousand_hosts_open_a_bounded_number_of_questions() -> None:
    gateway = Gateway(Sandbox(), AccessDesk())
    refused = 0

    async def check(number: int) -> None:
        nonlocal refused
        try:
            await gateway.check(f"h{number}.example", 443)
        except HostRefused:
            refused += 1

    async with trio.open_nursery() as nursery:
        for number in range(1000):
            nursery.start_soon(check, number)
        await trio.testing.wait_all_tasks_blocked()
        assert refused == 1000 - MAX_OPEN
        assert gateway.desk.questions.statistics().current_buffer_used == MAX_OPEN
        nursery.cancel_scope.cancel()


async def test_a_flood_of_one_session_delays_no_question_of_another() -> None:
    flooded, other = (Gateway(Sandbox(), AccessDesk()) for _ in range(2))
    async with trio.open_nursery() as nursery:
        with contextlib.suppress(HostRefused):
            for number in range(MAX_OPEN):
                nursery.start_soon(flooded.check, f"h{number}.example", 443)
            await trio.testing.wait_all_tasks_blocked()
            await flooded.check("one-more.example", 443)
        nursery.start_soon(other.check, "new.example", 443)
        await trio.testing.wait_all_tasks_blocked()
        other.desk.questions.receive_nowait().answer("once")
        nursery.cancel_scope.cancel()


async def test_a_question_that_nobody_answers_is_a_refusal(autojump_clock: object) -> None:
    gateway = Gateway(Sandbox(), AccessDesk())
    with pytest.raises(HostRefused):
        await gateway.check("new.example", 443)
    late: AccessRequest = gateway.desk.questions.receive_nowait()
    assert late.scope == "no"
    async with trio.open_nursery() as nursery:  # the next connection asks again
        nursery.start_soon(gateway.check, "new.example", 443)
        await trio.testing.wait_all_tasks_blocked()
        gateway.desk.questions.receive_nowait().answer("once")


async def test_a_question_whose_connections_are_gone_is_over() -> None:
    gateway = Gateway(Sandbox(), AccessDesk())
    for _ in range(3 * MAX_OPEN):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(gateway.check, "new.example", 443)
            await trio.testing.wait_all_tasks_blocked()
            request = gateway.desk.questions.receive_nowait()
            nursery.cancel_scope.cancel()
        assert request.scope == "no"
        assert request.answered.is_set()


async def test_without_a_network_nothing_is_asked() -> None:
    gateway = Gateway(Sandbox(network="none"), AccessDesk())
    gateway.set_model_hosts(["api.example"])
    with pytest.raises(HostRefused, match="no network"):
        await gateway.check("api.example", 443)
    with pytest.raises(trio.WouldBlock):
        gateway.desk.questions.receive_nowait()


@pytest.mark.parametrize(
    "junk",
    [
        b"\x16\x03\x01\x02\x00",
        b"GET / HTTP/1.1\r\n\r\n",
        b"CONNECT\r\n\r\n",
        b"\x05\x00",
        b"x" * 70000,
    ],
)
async def test_junk_ends_its_own_connection_only(junk: bytes) -> None:
    async with served(Sandbox(network=["api.example"])) as (_, connect):
        stream = await connect()
        async with stream:
            await stream.send_all(junk)
            await stream.send_eof()
            with trio.fail_after(30):
                while await stream.receive_some(4096):
                    pass
        assert b" 200 " in await connect_to(connect, "api.example:443")


async def test_a_client_that_sends_nothing_is_disconnected_without_an_error(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with served(Sandbox(network=["api.example"])) as (_, connect):
        stream = await connect()
        async with stream:
            with trio.fail_after(60):
                assert await stream.receive_some(1) == b""
    assert caplog.records == []
