"""The address of a server.

Addresses of servers that do not exist are joined with paths, without a connection.
"""

from __future__ import annotations

from agentrt._serve.address import address


def test_the_address_of_a_server_keeps_its_path() -> None:
    assert address("https://example.org/agents/").at("/ws") == "wss://example.org/agents/ws"
    assert address("http://127.0.0.1:8000/").at("/ws") == "ws://127.0.0.1:8000/ws"
