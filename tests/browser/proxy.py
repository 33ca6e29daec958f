"""A network that can be cut: connections to a server go through here."""

from __future__ import annotations

import selectors
import socket
import threading
import time


class Network:
    """Forwards a port of this machine to another one, while it is not cut or held. Its thread ends
    with `close`."""

    def __init__(self, port: int, target: int) -> None:
        self.port = port
        self.target = target
        self._listener = socket.create_server(("127.0.0.1", port))
        self._wake, self._woken = socket.socketpair()
        self._silent: list[socket.socket] = []
        self._peers: dict[socket.socket, socket.socket] = {}
        self.up = True
        self.ended = 0
        """Connections that a cut has ended."""
        self._held = False
        self._slow = False
        self._open = True
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    @property
    def busy(self) -> bool:
        """Whether somebody is connected."""
        return bool(self._peers)

    def through(self, link: str) -> str:
        """A link to the server, by way of here."""
        return link.replace(f":{self.target}/", f":{self.port}/")

    def cut(self) -> None:
        """End all connections, and let none come up."""
        self.up = False
        self._wake.send(b"x")

    def hold(self) -> None:
        """Let nothing pass any more, and let nobody know."""
        self._held = True

    def stall(self) -> None:
        """Let nothing pass for now."""
        self._slow = True

    def mend(self) -> None:
        self.up = True
        self._slow = False

    def close(self) -> None:
        self._open = False
        self._wake.send(b"x")
        self._thread.join()
        self._wake.close()

    def _run(self) -> None:
        with selectors.DefaultSelector() as selector, self._listener, self._woken:
            for readable in (self._listener, self._woken):
                selector.register(readable, selectors.EVENT_READ)
            while self._open:
                for key, _ in selector.select():
                    if self._slow and key.fileobj is not self._woken:
                        time.sleep(0.005)  # it will be there again
                        continue
                    self._serve(selector, key.fileobj)  # type: ignore[arg-type]
                if not self.up:
                    self.ended += len(self._peers) // 2
                    self._drop(selector, *self._peers)
            self._drop(selector, *self._peers)
            for each in self._silent:
                each.close()

    def _serve(self, selector: selectors.BaseSelector, readable: socket.socket) -> None:
        if readable is self._woken:
            readable.recv(100)
        elif readable is self._listener:
            self._accept(selector)
        elif readable in self._peers:
            try:
                data = readable.recv(65536)
                if data and self._held:
                    return
                if data:
                    self._peers[readable].sendall(data)
                    return
            except OSError:
                pass
            self._drop(selector, readable)

    def _accept(self, selector: selectors.BaseSelector) -> None:
        client, _ = self._listener.accept()
        if self._held:
            self._silent.append(client)
            return
        try:
            server = socket.create_connection(("127.0.0.1", self.target)) if self.up else None
        except OSError:
            server = None
        if server is None:
            client.close()
            return
        for one, other in ((client, server), (server, client)):
            self._peers[one] = other
            selector.register(one, selectors.EVENT_READ)

    def _drop(self, selector: selectors.BaseSelector, *sockets: socket.socket) -> None:
        for each in sockets:
            for one in (each, self._peers.get(each)):
                if one is not None and one in self._peers:
                    del self._peers[one]
                    selector.unregister(one)
                    one.close()
