"""The server that a command attaches to, and its token.

Servers on other machines are only named here: no connection is made.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio

from in_process import main

TOKEN = "a-token-that-somebody-has-said"


class Nowhere(trio.abc.Stream):
    """A connection to something that is no agentrt, and keeps what is sent."""

    def __init__(self) -> None:
        self.sent = b""
        self.answer = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await trio.lowlevel.checkpoint()
        self.sent += data

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        await trio.lowlevel.checkpoint()
        answer, self.answer = self.answer, b""
        return answer

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


class Network:
    """Every machine that there is: `connected` are the places that were connected to."""

    def __init__(self) -> None:
        self.connected: list[tuple[str, int]] = []
        self.streams: list[Nowhere] = []

    async def connect(self, host: str, port: int, **options: Any) -> Nowhere:
        await trio.lowlevel.checkpoint()
        self.connected.append((host, port))
        self.streams.append(Nowhere())
        return self.streams[-1]


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Network:
    network = Network()
    monkeypatch.setattr(trio, "open_tcp_stream", network.connect)
    monkeypatch.setenv("AGENTRT_SERVE_TOKEN", TOKEN)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return network


@pytest.mark.parametrize(
    ("url", "private", "place"),
    [
        ("http://127.0.0.1:8000", True, ("127.0.0.1", 8000)),
        ("http://127.3.2.1:8000", True, ("127.3.2.1", 8000)),
        ("http://[::1]:8000", True, ("::1", 8000)),
        ("http://localhost", True, ("localhost", 80)),
        ("ws://agents.localhost:1", True, ("agents.localhost", 1)),
        ("https://agents.example", True, ("agents.example", 443)),
        ("wss://agents.example:8443", True, ("agents.example", 8443)),
        ("http://agents.example", False, ("agents.example", 80)),
        ("agents.example:8000", False, ("agents.example", 8000)),
        ("http://192.168.0.7:8000", False, ("192.168.0.7", 8000)),
        ("http://localhost.example", False, ("localhost.example", 80)),
        ("http://[fe80::1]:8000", False, ("fe80::1", 8000)),
    ],
)
def test_a_token_is_not_sent_to_another_machine_in_clear(
    url: str,
    private: bool,
    place: tuple[str, int],
    network: Network,
    capfd: pytest.CaptureFixture[str],
) -> None:
    status = main(["attach", url, "-p", "hello"])
    refused = "would get the token unencrypted" in capfd.readouterr().err
    assert (status, network.connected, refused) == (
        (1, [place], False) if private else (2, [], True)
    )
    assert main(["attach", url, "--insecure", "-p", "hello"]) == 1
    assert network.connected[-1] == place
    tls = url.startswith(("https:", "wss:"))
    assert (f"Bearer {TOKEN}".encode() in network.streams[-1].sent) is not tls


@pytest.mark.parametrize(
    ("url", "target"),
    [("http://localhost/agents/", "/agents/ws"), ("http://127.0.0.1:8000/", "/ws")],
)
def test_the_address_of_a_server_keeps_its_path(url: str, target: str, network: Network) -> None:
    assert main(["attach", url, "-p", "hello"]) == 1
    [stream] = network.streams
    assert stream.sent.startswith(f"GET {target} HTTP/1.1\r\n".encode())
