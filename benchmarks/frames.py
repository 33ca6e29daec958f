"""What a text frame costs through trio-websocket, and put straight to the socket: why the server
sends the frames that all viewers share by itself.

    python benchmarks/frames.py
"""

from __future__ import annotations

import socket
import statistics
import time

import trio

from agentrt._serve.frames import Bucket, Meter
from agentrt._serve.stream import Wire
from agentrt._serve.websocket import Socket
from crowd import say

HANDSHAKE = [
    (b"Host", b"x"),
    (b"Connection", b"Upgrade"),
    (b"Upgrade", b"websocket"),
    (b"Sec-WebSocket-Version", b"13"),
    (b"Sec-WebSocket-Key", b"AAAAAAAAAAAAAAAAAAAAAA=="),
]
TEXT = '{"type":"event","session":"s1","epoch":"0123456789abcdef","seq":1,"event":{"kind":"x"}}'
CONNECTIONS, ROUNDS = 50, 15


async def main() -> None:
    listener = socket.create_server(("127.0.0.1", 0), backlog=CONNECTIONS)
    clients: list[socket.socket] = []
    served: list[tuple[Wire, Socket]] = []
    took: dict[str, list[float]] = {"put": [], "send_message": []}
    async with trio.open_nursery() as nursery:
        for _ in range(CONNECTIONS):
            clients.append(socket.create_connection(listener.getsockname()))
            accepted = trio.socket.from_stdlib_socket(listener.accept()[0])
            meter = Meter(1 << 20, Bucket(1e6, 1e6))
            stream = trio.SocketStream(accepted)
            wire = Wire(stream, meter=meter, refused=print, write_timeout_s=10.0)
            nursery.start_soon(wire.pump)
            connection = Socket(wire, HANDSHAKE, 1 << 20)
            await connection.accept(nursery, [])
            served.append((wire, connection))
        data = TEXT.encode()
        for _ in range(ROUNDS):
            for way in took:
                start = time.process_time()
                for _ in range(20):
                    for wire, connection in served:
                        if way == "put":
                            wire.put(data)
                        else:
                            await connection.send_message(TEXT)
                each = (time.process_time() - start) / 20 / CONNECTIONS * 1e6
                took[way].append(each)
                for client in clients:
                    client.recv(1 << 20)
        nursery.cancel_scope.cancel()
    say(**{f"{way}_us": round(statistics.median(each), 1) for way, each in took.items()})


if __name__ == "__main__":
    trio.run(main)
