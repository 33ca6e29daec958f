"""Who may come in, with a real browser's cookies and origins."""

from __future__ import annotations

import base64
import contextlib
import os
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from browser.kit import Server, free_port, phase, scripted, serving
from browser.pages import NewPage, Page, expect

TOKEN = "a-token-of-somebody-s-own"

ATTACK = """async (port) => {
    const tries = [["agentrt.v1"], [], ["agentrt.v1", "agentrt.key."]];
    const ends = [];
    for (const protocols of tries) {
        ends.push(await new Promise((resolve) => {
            const socket = new WebSocket(`ws://127.0.0.1:${port}/ws`, protocols);
            let heard = "";
            socket.onopen = () => socket.send('{"type":"hello","id":"1"}');
            socket.onmessage = ({ data }) => { heard += data; };
            socket.onclose = ({ code }) => resolve([code, heard.includes('"ready"')]);
        }));
    }
    return ends;
}"""


class Neighbour(ThreadingHTTPServer):
    """Another local server, perhaps one that the agent wrote: it keeps the cookies it is shown."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.cookies: list[str] = []


class _Answer(BaseHTTPRequestHandler):
    server: Neighbour

    def do_GET(self) -> None:
        self.server.cookies.append(self.headers.get("Cookie", ""))
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>neighbour</title>")

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def neighbour() -> Iterator[Neighbour]:
    with Neighbour() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def said_to_a_program(port: int, cookie: str, key: str = "") -> bytes:
    """What a program hears that shows a browser's cookie, and says the page's own origin."""
    with contextlib.closing(socket.create_connection(("127.0.0.1", port))) as sock:
        nonce = base64.b64encode(os.urandom(16)).decode()
        sock.sendall(
            f"GET /ws HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: Upgrade\r\n"
            f"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {nonce}\r\n"
            f"Sec-WebSocket-Protocol: agentrt.v1{key}\r\n"
            f"Origin: http://127.0.0.1:{port}\r\nCookie: {cookie}\r\n\r\n".encode()
        )
        sock.settimeout(10)
        heard = b""
        while b"closing" not in heard and (data := sock.recv(65536)):
            heard += data
        return heard


def test_another_port_of_the_machine_gets_the_cookie_and_no_control(
    server: Server, new_page: NewPage, neighbour: Neighbour
) -> None:
    page = new_page(server.link())
    phase(page, "Idle")
    expect(page).not_to_have_url("key")
    port = urlsplit(page.url).port
    assert port is not None
    other = page.context.new_page()
    other.goto(f"http://127.0.0.1:{neighbour.server_port}/")
    stolen = neighbour.cookies[0]
    assert f"agentrt-{port}=" in stolen, "browsers show it to every port"
    for code, ready in other.evaluate(ATTACK, port):
        assert code == 4403
        assert not ready
    assert other.evaluate("localStorage.getItem('key')") is None
    heard = said_to_a_program(port, stolen)
    assert b"no valid token" in heard
    assert b'"ready"' not in heard
    phase(page, "Idle")


def test_a_reload_and_a_second_tab_without_the_link_go_on(
    server: Server, new_page: NewPage
) -> None:
    page = new_page(server.link())
    phase(page, "Idle")
    page.reload()
    phase(page, "Idle")
    second = page.context.new_page()
    second.goto(page.url.partition("#")[0])
    phase(second, "Idle")


def test_the_same_token_lets_the_same_browser_in_after_a_restart(
    tmp_path: Path, new_page: NewPage
) -> None:
    port = free_port()
    arguments = ("--token", TOKEN, "--port", str(port), *scripted())
    with serving(tmp_path, *arguments) as server:
        page = new_page(server.link())
        phase(page, "Idle")
        server.end()
        server.start()
        server.link()
        page.goto(f"http://127.0.0.1:{port}/")
        phase(page, "Idle")


@pytest.mark.parametrize("forgets", ["all", "the key"])
def test_a_browser_that_is_not_known_is_let_in_by_the_token(
    tmp_path: Path, new_page: NewPage, forgets: str
) -> None:
    port = free_port()
    with serving(tmp_path, "--token", TOKEN, "--port", str(port), *scripted()) as server:
        page: Page = new_page(server.link())
        phase(page, "Idle")
        page.evaluate("localStorage.clear()")
        if forgets == "all":
            page.context.clear_cookies()
        with page.expect_event("load"):
            page.goto(f"http://127.0.0.1:{port}/", wait_until="commit")
        page.get_by_label("Server token").fill(TOKEN)
        page.get_by_role("button", name="Sign in").click()
        phase(page, "Idle")
        assert TOKEN not in page.url
        assert "key" not in page.url
