"""Who gets in: each bad handshake, over a real socket. The browser reads why inside the socket."""

from __future__ import annotations

import base64
import gzip
import hashlib
import re
import shutil
import ssl
import struct
import subprocess
from contextlib import suppress
from functools import cache, partial
from pathlib import Path

import pytest
import trio
import trio.testing
from sockets import (
    CLOSE,
    TEXT,
    TOKEN,
    WATCH,
    Client,
    Echoes,
    connect,
    frame,
    get,
    handshake,
    header,
    offer,
    post,
    site,
    status,
    websocket,
)

from agentrt.web import Security, Site

SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self';"
    " img-src 'self' data:; media-src data:; connect-src 'self'; worker-src 'self';"
    " manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self';"
    " frame-src 'self'; require-trusted-types-for 'script'; trusted-types agentrt-worker",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "SAMEORIGIN",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}
"""Sent with every response."""


DERIVE = cache(hashlib.scrypt)


@pytest.fixture(autouse=True)
def derive_each_key_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each server derives its key from the same token, which takes 40 ms on purpose."""
    monkeypatch.setattr(hashlib, "scrypt", DERIVE)


async def works(port: int, **headers: str | None) -> None:
    """A handshake with these headers is let in."""
    async with websocket(port, **headers) as client:
        await client.send(frame("hello"))
        assert await client.text() == "hello"


async def refused(port: int, code: int, **headers: str | None) -> str:
    """A handshake with these headers is refused, and says so where a browser can read it."""
    async with websocket(port, **headers) as client:
        told, reason = await client.refusal()
        assert told == code, reason
        return reason


async def open_link(running: Site, link: str | None = None) -> dict[str, str]:
    """What a page shows after its browser opened a link: the cookie, and the key from the address
    as a subprotocol."""
    target = "/" + (link or running.link()).partition("/?")[2].join(["?", ""])
    answer = await get(running.port, target)
    assert status(answer) == 303
    return entered(answer)


def entered(answer: Client) -> dict[str, str]:
    """The same from the answer that lets a browser in."""
    kept, address = header(answer, "set-cookie"), header(answer, "location")
    assert kept is not None
    assert address is not None
    key = address.removeprefix("/#key=")
    return {
        "cookie": kept.partition(";")[0],
        "sec_websocket_protocol": f"agentrt.v1, agentrt.key.{key}",
    }


async def cookie(running: Site, link: str | None = None) -> str:
    """The cookie alone."""
    return (await open_link(running, link))["cookie"]


# --- origins


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
async def test_the_servers_own_pages_may_connect(host: str) -> None:
    with trio.fail_after(30):
        async with site() as running:
            await works(running.port, origin=f"http://{host}:{running.port}")


async def test_a_program_without_an_origin_needs_the_token() -> None:
    with trio.fail_after(30):
        async with site() as running:
            await works(running.port)
            await refused(running.port, 4401, sec_websocket_protocol="agentrt.v1")


async def test_a_missing_origin_is_not_trusted_with_a_cookie() -> None:
    with trio.fail_after(30):
        async with site() as running:
            own = f"http://localhost:{running.port}"
            fields = await open_link(running)
            await works(running.port, origin=own, **fields)
            await refused(running.port, 4401, **fields)


@pytest.mark.parametrize(
    "origin",
    [
        "null",
        "https://evil",
        "http://localhost.evil:{port}",
        "http://127.0.0.1.evil:{port}",
        "http://127.0.0.1:1",
        "https://127.0.0.1:{port}",
        "HTTP://LOCALHOST:{port}",
        "",
    ],
)
async def test_a_foreign_origin_is_refused_even_with_the_token(origin: str) -> None:
    with trio.fail_after(30):
        async with site() as running:
            foreign = origin.format(port=running.port)
            reason = await refused(running.port, 4403, origin=foreign)
            assert "--allow-origin" in reason


async def test_two_origins_are_refused() -> None:
    with trio.fail_after(30):
        async with site() as running:
            own = f"http://localhost:{running.port}"
            await refused(running.port, 4403, origin=f"{own}\r\norigin: {own}")


async def test_an_allowed_origin_may_connect() -> None:
    with trio.fail_after(30):
        rules = Security(token=TOKEN, allow_origins=["https://pages.example"])
        async with site(security=rules) as running:
            await works(running.port, origin="https://pages.example")


# --- hosts


@pytest.mark.parametrize(
    "host",
    [
        "evil.example:{port}",
        "me@127.0.0.1:{port}",
        "127.0.0.1.:{port}",
        "127.0.0.1",
        "[::2]:{port}",
    ],
)
async def test_another_host_is_refused_even_if_the_origin_equals_it(host: str) -> None:
    with trio.fail_after(30):
        async with site() as running:
            name = host.format(port=running.port)
            await refused(running.port, 4403, host=name, origin=f"http://{name}")
            await refused(running.port, 4403, host=name)
            assert status(await get(running.port, host=name)) == 421


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
async def test_a_balancer_may_ask_for_the_condition_by_any_name(path: str) -> None:
    with trio.fail_after(30):
        rules, figures = Security(metrics_token=TOKEN), lambda: b"figures 1"
        async with site(security=rules, metrics=figures) as running:
            for host in ("10.0.0.7:8000", "localhost", "worker"):
                bearer = {"authorization": f"Bearer {TOKEN}"}
                assert status(await get(running.port, path, host=host, **bearer)) == 200
                assert status(await get(running.port, path, "POST", host=host, **bearer)) == 421
            wrong = await get(running.port, "/metrics", host="worker")
            assert status(wrong) == 401


async def test_a_public_url_is_what_links_begin_with_and_where_browsers_come_from() -> None:
    with trio.fail_after(30):
        rules = Security(token=TOKEN, url="https://agents.example")
        async with site(security=rules) as running:
            link = running.link()
            assert link.startswith("https://agents.example/?t=")
            answer = await get(running.port, "/" + link.partition("/?")[2].join(["?", ""]))
            assert "; Secure" in (header(answer, "set-cookie") or "")
            public = {"host": "agents.example", "origin": "https://agents.example"}
            await works(running.port, **public, **entered(answer))
            await refused(running.port, 4403, host="agents.example:8080", **entered(answer))


@pytest.mark.parametrize(
    ("forwarded", "secure"), [("https", True), ("http", False), ("", False), (None, False)]
)
async def test_the_cookie_is_secure_where_a_proxy_in_front_ends_tls(
    forwarded: str | None, secure: bool
) -> None:
    fields = {} if forwarded is None else {"x_forwarded_proto": forwarded}
    with trio.fail_after(30):
        async with site() as running:
            target = "/" + running.link().removeprefix(running.url)
            answer = await get(running.port, target, **fields)
            assert ("; Secure" in (header(answer, "set-cookie") or "")) is secure


async def test_a_browser_that_one_gateway_let_in_is_let_in_by_the_others() -> None:
    rules = partial(Security, token=TOKEN, url="https://agents.example")
    public = {"host": "agents.example", "origin": "https://agents.example"}
    with trio.fail_after(30):
        async with site(security=rules()) as first, site(security=rules()) as second:
            answer = await post(first.port, f"token={TOKEN}", **public)
            await works(second.port, **public, **entered(answer))


async def test_an_ipv6_literal_of_this_machine_is_let_in() -> None:
    with trio.fail_after(30):
        async with site() as running:
            await works(running.port, host=f"[::1]:{running.port}")


async def test_an_empty_missing_or_second_host_is_a_bad_request() -> None:
    with trio.fail_after(30):
        async with site() as running:
            for host in (None, f"127.0.0.1:{running.port}\r\nhost: evil"):
                async with connect(running.port) as client:
                    await client.send(handshake(running.port, host=host))
                    assert await client.read_head() == 400
            await refused(running.port, 4403, host="")


async def test_the_loopback_address_of_a_proxy_is_not_trusted() -> None:
    with trio.fail_after(30):
        async with site() as running:
            fields = {"x_forwarded_for": "127.0.0.1", "forwarded": "for=127.0.0.1;host=localhost"}
            await refused(running.port, 4401, sec_websocket_protocol="agentrt.v1", **fields)
            await refused(running.port, 4403, host="evil", x_forwarded_host="localhost", **fields)


# --- tokens


@pytest.mark.parametrize(
    "protocols",
    [
        "agentrt.v1",
        "agentrt.v1, agentrt.token.",
        offer(TOKEN[:-1]),
        offer(TOKEN[:8]),
        offer(TOKEN + "x"),
        offer(TOKEN.upper()),
        f"agentrt.v1, agentrt.token.{TOKEN}",
    ],
    ids=["missing", "empty", "a prefix", "a short prefix", "longer", "upper case", "not coded"],
)
async def test_a_wrong_token_is_refused(protocols: str) -> None:
    with trio.fail_after(30):
        async with site() as running:
            await refused(running.port, 4401, sec_websocket_protocol=protocols)


async def test_a_token_is_taken_from_the_authorization_too() -> None:
    with trio.fail_after(30):
        async with site() as running:
            plain = "agentrt.v1"
            bearer = f"Bearer {TOKEN}"
            await works(running.port, sec_websocket_protocol=plain, authorization=bearer)
            for wrong in ("Bearer wrong", "Basic " + base64.b64encode(TOKEN.encode()).decode()):
                await refused(running.port, 4401, sec_websocket_protocol=plain, authorization=wrong)


async def test_a_wrong_token_is_not_made_good_by_a_cookie() -> None:
    with trio.fail_after(30):
        async with site() as running:
            kept, own = await cookie(running), f"http://localhost:{running.port}"
            await refused(
                running.port, 4401, origin=own, cookie=kept, sec_websocket_protocol=offer("wrong")
            )


async def test_a_token_in_the_query_is_refused_also_a_right_one() -> None:
    with trio.fail_after(30):
        async with site() as running:
            for name in ("t", "token", "anything"):
                async with websocket(running.port, target=f"/ws?{name}={TOKEN}") as client:
                    assert (await client.refusal())[0] == 4400
            assert status(await get(running.port, f"/?t={TOKEN}")) == 303
            assert header(await get(running.port, f"/?t={TOKEN}"), "set-cookie") is None


async def test_the_server_decides_about_the_role() -> None:
    hub = Echoes()
    with trio.fail_after(30):
        async with site(hub) as running:
            await works(running.port, sec_websocket_protocol=offer(WATCH) + ", controller")
            await works(running.port, sec_websocket_protocol=offer(TOKEN) + ", viewer")
            fields = await open_link(running, running.link("viewer"))
            await works(running.port, origin=running.url.rstrip("/"), **fields)
    assert [viewer.role for viewer in hub.viewers] == ["viewer", "controller", "viewer"]


async def test_a_token_that_is_revoked_closes_live_sockets_and_no_others() -> None:
    hub, rules = Echoes(), Security(token=TOKEN, viewer_token=WATCH)
    with trio.fail_after(30):
        async with (
            site(hub, security=rules) as running,
            websocket(running.port, sec_websocket_protocol=offer(WATCH)) as watching,
            websocket(running.port) as controlling,
        ):
            fields = await open_link(running, running.link("viewer"))
            fields["origin"] = running.url.rstrip("/")
            async with websocket(running.port, **fields) as page:
                rules.revoke(WATCH)
                assert await page.refusal() == (4401, "the token was revoked")
            assert await watching.refusal() == (4401, "the token was revoked")
            await refused(running.port, 4401, sec_websocket_protocol=offer(WATCH))
            await refused(running.port, 4401, **fields)
            await controlling.send(frame("still here"))
            assert await controlling.text() == "still here"
    assert all(viewer.closed for viewer in hub.viewers)


@pytest.mark.slow
async def test_a_hundred_wrong_tokens_at_once_keep_nobody_out() -> None:
    async def guess(running: Site) -> None:
        async with connect(running.port) as client:
            try:
                await client.send(handshake(running.port, sec_websocket_protocol=offer("wrong")))
                await client.read_rest()
            except trio.BrokenResourceError:
                pass  # cut off

    with trio.fail_after(30):
        async with site() as running, trio.open_nursery() as nursery:
            for _ in range(100):
                nursery.start_soon(guess, running)
            while running.statistics().pending < 64:
                await trio.testing.wait_all_tasks_blocked()
            await works(running.port)
            nursery.cancel_scope.cancel()


# --- paths and forms


@pytest.mark.parametrize("target", ["/", "/x", "/ws/", "/wss", "/page/ws", "/..//ws", "/WS"])
async def test_an_upgrade_on_another_path_is_refused(target: str) -> None:
    with trio.fail_after(30):
        async with site() as running, websocket(running.port, target=target) as client:
            assert await client.refusal() == (4400, "WebSockets are at /ws, /ai, /acp")


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"sec_websocket_version": "8"}, 426),
        ({"sec_websocket_version": None}, 426),
        ({"sec_websocket_key": None}, 400),
        ({"sec_websocket_key": "short"}, 400),
        ({"sec_websocket_key": "x" * 24 + "\r\nsec-websocket-key: " + "x" * 24}, 400),
        ({"connection": "close"}, 400),
        ({"content_length": "5"}, 413),
        ({"transfer_encoding": "chunked"}, 413),
    ],
)
async def test_what_is_no_handshake_is_a_bad_request(
    headers: dict[str, str | None], expected: int
) -> None:
    with trio.fail_after(30):
        async with site() as running, connect(running.port) as client:
            await client.send(handshake(running.port, **headers))
            assert await client.read_head() == expected


async def test_the_subprotocol_is_named_and_the_token_never() -> None:
    with trio.fail_after(30):
        async with site() as running:
            async with websocket(running.port) as client:
                assert header(client, "sec-websocket-protocol") == "agentrt.v1"
                assert b"token" not in client.head
            fields = {"authorization": f"Bearer {TOKEN}", "sec_websocket_protocol": None}
            async with websocket(running.port, **fields) as client:
                assert header(client, "sec-websocket-protocol") is None


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (b"GET /\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64) + b"\r\n\r\n", 400),
        (b"GET http://evil/ HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n", 400),
        (b"GET //evil/ HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nhost: x\r\nx: " + b"y" * 300_000 + b"\r\n\r\n", 431),
        (b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n", 413),
    ],
    ids=["HTTP/0.9", "TLS", "another server", "no path", "300 KB of headers", "a body"],
)
async def test_a_bad_request_is_answered_and_closed(request_: bytes, expected: int) -> None:
    with trio.fail_after(30):
        async with site() as running, connect(running.port) as client:
            await client.send(request_)
            assert await client.read_head() == expected
            await client.read_rest()


# --- the page


async def test_a_link_is_exchanged_for_a_cookie_and_leaves_the_address_bar() -> None:
    with trio.fail_after(30):
        async with site() as running:
            link = running.link()
            assert re.fullmatch(rf"http://127\.0\.0\.1:{running.port}/\?t=[\w-]{{43}}", link)
            answer = await get(running.port, link.removeprefix(running.url[:-1]))
            assert status(answer) == 303
            assert re.fullmatch(r"/#key=[\w-]{43}", header(answer, "location") or "")
            kept = header(answer, "set-cookie")
            assert kept is not None
            pair, *attributes = kept.split("; ")
            assert attributes == ["Path=/", "HttpOnly", "SameSite=Strict"]
            assert TOKEN not in kept
            page = await get(running.port, cookie=f"other=1; {pair}")
            assert status(page) == 200
            assert b"<title>agentrt</title>" in page.head
            for file, type in (("main.js", "text/javascript"), ("page.css", "text/css")):
                answer = await get(running.port, f"/page/{file}", cookie=pair)
                assert status(answer) == 200
                assert (header(answer, "content-type") or "").startswith(type)


@pytest.mark.slow
async def test_the_cookie_alone_opens_no_socket() -> None:
    """Browsers show it to every port of the machine, and a program can say any origin."""
    with trio.fail_after(30):
        async with site() as running:
            fields, other = await open_link(running), await open_link(running)
            own = running.url.rstrip("/")
            await works(running.port, origin=own, **fields)
            for offered in (
                "agentrt.v1",
                "agentrt.v1, agentrt.key.",
                other["sec_websocket_protocol"],
                f"agentrt.v1, agentrt.key.{fields['cookie'].partition('=')[2]}",
                f"agentrt.v1, agentrt.key.{fields['cookie'].rpartition('.')[2]}",
            ):
                for target in ("/ws", "/ai", "/acp"):
                    headers = {**fields, "sec_websocket_protocol": offered, "origin": own}
                    async with websocket(running.port, target=target, **headers) as client:
                        assert (await client.until_closed())[1] == 4401
            page = await get(running.port, cookie=fields["cookie"])
            key = fields["sec_websocket_protocol"].rpartition(".")[2]
            assert key.encode() not in page.head
            await refused(running.port, 4401, **{**fields, "cookie": "x=y", "origin": own})


async def test_a_cookie_that_another_server_has_set_keeps_nobody_out() -> None:
    with trio.fail_after(30):
        async with site() as running:
            fields = await open_link(running)
            fields["cookie"] = f"agentrt-{running.port}=evil; {fields['cookie']}"
            await works(running.port, origin=running.url.rstrip("/"), **fields)
            assert status(await get(running.port, cookie=fields["cookie"])) == 200


async def test_a_browser_is_let_in_again_after_a_restart_with_the_same_token() -> None:
    with trio.fail_after(30):
        async with site(security=Security(token=TOKEN)) as running:
            fields = await open_link(running)
            port, own = running.port, running.url.rstrip("/")
        async with site(security=Security(token=TOKEN), port=port):
            await works(port, origin=own, **fields)
        async with site(security=Security(token=TOKEN + "x"), port=port):
            await refused(port, 4401, origin=own, **fields)


async def test_a_token_that_is_typed_in_opens_the_page() -> None:
    with trio.fail_after(30):
        async with site() as running:
            own = {"origin": running.url.rstrip("/")}
            assert b'name="token"' in (await get(running.port)).head
            answer = await post(running.port, f"token={WATCH}", **own)
            assert status(answer) == 303
            assert WATCH not in answer.head.decode()
            await works(running.port, **own, **entered(answer))
            for body, headers, wanted in (
                ("token=wrong", own, 401),
                ("", own, 401),
                (f"t={TOKEN}", own, 401),
                (f"token={TOKEN}", {"origin": "http://evil"}, 403),
                (f"token={TOKEN}", {"origin": f"http://127.0.0.1:{running.port + 1}"}, 403),
                (f"token={TOKEN}", {"origin": "null"}, 403),
                (f"token={TOKEN}", {"host": "evil"}, 421),
                (f"token={TOKEN}", {"content-type": "text/plain"}, 413),
                ("token=" + "x" * 5000, own, 413),
            ):
                answer = await post(running.port, body, **headers)
                assert (status(answer), header(answer, "set-cookie")) == (wanted, None), body[:50]


async def test_a_link_is_good_once_and_a_used_one_tells_nothing() -> None:
    with trio.fail_after(30):
        async with site() as running:
            target = "/" + running.link().removeprefix(running.url)
            assert header(await get(running.port, target, "HEAD"), "set-cookie") is None
            assert header(await get(running.port, target), "set-cookie") is not None
            again = await get(running.port, target)
            assert status(again) == 303
            assert header(again, "set-cookie") is None


async def test_the_use_of_a_link_is_told() -> None:
    with trio.fail_after(30):
        async with site() as running, trio.open_nursery() as nursery:
            nursery.start_soon(running.link_used)
            await trio.testing.wait_all_tasks_blocked()
            await cookie(running)


@pytest.mark.parametrize(
    "target", ["/", "/page/main.js", "/page/../server.py", "/etc/passwd", "/page/%2e%2e/x", "/ws"]
)
async def test_without_a_cookie_there_is_no_page(target: str) -> None:
    with trio.fail_after(30):
        async with site() as running:
            answer = await get(running.port, target)
            assert status(answer) == 401
            assert b"agentrt serve" in answer.head
            kept = await cookie(running)
            wrong = await get(running.port, target, cookie=kept[:-1])
            assert status(wrong) == 401


@pytest.mark.parametrize(
    "target", ["/page/../server.py", "/page/", "/x", "/ws", "/page//index.html"]
)
async def test_there_is_nothing_but_the_files_of_the_page(target: str) -> None:
    with trio.fail_after(30):
        async with site() as running:
            assert status(await get(running.port, target, cookie=await cookie(running))) == 404


async def test_health_tells_nothing_but_that() -> None:
    with trio.fail_after(30):
        async with site() as running:
            answer = await get(running.port, "/healthz")
            assert status(answer) == 200
            assert answer.head.endswith(b"\r\n\r\nok\n")


async def test_readiness_says_what_speaks_against_new_sessions() -> None:
    with trio.fail_after(30):
        reasons = [None, "draining"]
        async with site(not_ready_reason=lambda: reasons.pop(0)) as running:
            assert status(await get(running.port, "/readyz")) == 200
            answer = await get(running.port, "/readyz")
            assert status(answer) == 503
            assert answer.head.endswith(b"\r\n\r\ndraining\n")


async def test_who_serves_no_clients_says_how_it_does_and_nothing_else() -> None:
    with trio.fail_after(30):
        async with site(serves_clients=False) as running:
            for path in ("/healthz", "/readyz"):
                assert status(await get(running.port, path)) == 200
            for path in ("/", "/login", "/page/index.html"):
                answer = await get(running.port, path)
                assert status(answer) == 404
                assert b"serves no clients" in answer.head
            assert "serves no clients" in await refused(running.port, 4403)


async def test_every_answer_has_the_security_headers() -> None:
    with trio.fail_after(30):
        async with site() as running:
            kept = await cookie(running)
            link = "/" + running.link().removeprefix(running.url)
            answers = [
                await get(running.port, target, method, cookie=kept, **fields)
                for target, method, fields in (
                    ("/", "GET", {}),
                    ("/", "HEAD", {}),
                    (link, "GET", {}),
                    ("/page/main.js", "GET", {}),
                    ("/healthz", "GET", {}),
                    ("/x", "GET", {}),
                    ("/", "GET", {"host": "evil"}),
                    ("/", "DELETE", {}),
                    ("//", "GET", {}),
                )
            ]
            found = [status(answer) for answer in answers]
            assert found == [200, 200, 303, 200, 200, 404, 421, 405, 400]
            for answer in answers:
                for name, value in SECURITY_HEADERS.items():
                    assert header(answer, name) == value
                assert header(answer, "access-control-allow-origin") is None


@pytest.mark.parametrize("target", ["/", "/page/main.js", "/healthz", "/nothing"])
async def test_the_answer_to_head_has_no_body(target: str) -> None:
    with trio.fail_after(30):
        async with site() as running:
            kept = await cookie(running)
            whole = await get(running.port, target, cookie=kept)
            answer = await get(running.port, target, "HEAD", cookie=kept)
            assert status(answer) == status(whole)
            assert header(answer, "content-length") == header(whole, "content-length")
            assert answer.head.endswith(b"\r\n\r\n")


async def test_a_file_that_the_browser_has_is_not_sent_again() -> None:
    with trio.fail_after(30):
        async with site() as running:
            kept = await cookie(running)
            first = await get(running.port, "/page/main.js", cookie=kept)
            assert header(first, "cache-control") == "private, no-cache"
            tag = header(first, "etag") or ""
            known = f'"other", {tag}'
            again = await get(running.port, "/page/main.js", cookie=kept, if_none_match=known)
            assert status(again) == 304
            assert b"import" not in again.head
            other = await get(running.port, "/page/app.js", cookie=kept, if_none_match=tag)
            assert status(other) == 200
            assert header(await get(running.port, "/page/main.js"), "cache-control") == "no-store"


@pytest.mark.parametrize(
    ("accepted", "packed"),
    [("gzip, deflate, br", True), ("br, gzip;q=0.5", True), ("gzip;q=0", False), ("br", False)],
)
async def test_a_file_is_compressed_for_a_browser_that_takes_that(
    accepted: str, packed: bool
) -> None:
    with trio.fail_after(30):
        async with site() as running:
            kept = await cookie(running)
            plain = await get(running.port, "/page/main.js", cookie=kept)
            other = await get(running.port, "/page/main.js", cookie=kept, accept_encoding=accepted)
            assert header(other, "vary") == header(plain, "vary") == "Accept-Encoding"
            assert header(other, "content-encoding") == ("gzip" if packed else None)
            assert (header(other, "etag") == header(plain, "etag")) is not packed
            sent, whole = (each.head.partition(b"\r\n\r\n")[2] for each in (other, plain))
            assert (gzip.decompress(sent) if packed else sent) == whole
            assert not packed or len(sent) < len(whole)


def test_the_page_needs_nothing_that_its_policy_forbids() -> None:
    page = (Path(__file__).parents[2] / "src/agentrt/_serve/page/index.html").read_text()
    assert not re.search(r"<script>|<style>| style=| on\w+=|https?:|innerHTML", page)


# --- addresses and TLS


async def test_other_machines_are_not_served_without_a_token_and_a_name() -> None:
    for rules in (Security(), Security(token=TOKEN), Security(allow_hosts=["agents.example"])):
        with pytest.raises(ValueError, match="--allow-host"), trio.fail_after(30):
            async with site(host="0.0.0.0", security=rules):
                pass


async def test_other_machines_are_served_under_the_allowed_name() -> None:
    rules = Security(token=TOKEN, allow_hosts=["agents.example"])
    with trio.fail_after(30):
        async with site(host="0.0.0.0", security=rules) as running:
            await works(running.port, host="agents.example")
            await refused(running.port, 4403, host=f"0.0.0.0:{running.port}")


async def test_a_port_that_is_taken_is_an_error() -> None:
    with trio.fail_after(30):
        async with site() as running:
            with pytest.raises(OSError, match="in use"):
                async with site(port=running.port):
                    pass


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for localhost, made by the `openssl` program."""
    if shutil.which("openssl") is None:
        pytest.skip("needs the program openssl")
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=DNS:localhost"),
        ],
        check=True,
        capture_output=True,
        timeout=30,
    )
    return cert, key


@pytest.fixture
def tls(certificate: tuple[Path, Path]) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """The context of the server, and one of clients that trust it."""
    cert, key = certificate
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(cert, key)
    return context, ssl.create_default_context(cafile=str(cert))


async def test_a_client_over_tls_that_answers_no_ping_is_dropped_whatever_it_is_sent(
    tls: tuple[ssl.SSLContext, ssl.SSLContext],
) -> None:
    """The kernel takes what it is sent, which does not show that the client is still there."""
    context, trusting = tls
    hub = Echoes()
    with trio.fail_after(30):
        async with site(hub, tls=context, ping_interval_s=0.1) as running:
            stream = await trio.open_ssl_over_tcp_stream(
                "localhost", running.port, ssl_context=trusting, https_compatible=True
            )
            client = Client(stream)
            origin = f"https://localhost:{running.port}"
            await client.send(handshake(running.port, origin=origin))
            assert await client.read_head() == 101
            while not running.statistics().dropped:
                if not hub.last.closed:
                    hub.last.send.send_nowait(b"again")
                await trio.sleep(0.02)
            await trio.aclose_forcefully(stream)


@pytest.mark.slow
async def test_a_client_over_tls_that_reads_slowly_is_kept_without_answers_to_pings(
    tls: tuple[ssl.SSLContext, ssl.SSLContext],
) -> None:
    """The pings wait behind the data."""
    context, trusting = tls
    hub = Echoes()
    with trio.fail_after(60):
        async with site(hub, tls=context, ping_interval_s=1) as running:
            stream = await trio.open_ssl_over_tcp_stream(
                "localhost", running.port, ssl_context=trusting, https_compatible=True
            )
            client = Client(stream)
            origin = f"https://localhost:{running.port}"
            await client.send(handshake(running.port, origin=origin))
            assert await client.read_head() == 101
            for _ in range(200):
                hub.last.send.send_nowait(b"x" * 250_000)
            start = trio.current_time()
            while trio.current_time() < start + 5:
                await client.frame()
                await trio.sleep(0.05)
            assert not hub.last.closed
            await trio.aclose_forcefully(stream)


async def test_over_tls_all_is_the_same(tls: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
    context, trusting = tls
    with trio.fail_after(30):
        async with site(tls=context) as running:
            assert running.link().startswith(f"https://127.0.0.1:{running.port}/?t=")

            async def secure() -> Client:
                stream = await trio.open_ssl_over_tcp_stream(
                    "localhost", running.port, ssl_context=trusting, https_compatible=True
                )
                return Client(stream)

            client = await secure()
            origin = f"https://localhost:{running.port}"
            await client.send(handshake(running.port, origin=origin) + frame("at once"))
            assert await client.read_head() == 101
            assert await client.text() == "at once"
            await client.send(frame("x" * 300_000))
            assert len(await client.text()) == 300_000
            await client.send(frame(struct.pack("!H", 1000), CLOSE))
            assert await client.until_closed() == ([], 1000)
            await client.stream.aclose()

            page = await secure()
            target = "/" + running.link().removeprefix(running.url)
            await page.send(
                f"GET {target} HTTP/1.1\r\nhost: localhost:{running.port}\r\n\r\n".encode()
            )
            assert await page.read_head() == 303
            assert (header(page, "set-cookie") or "").endswith("; Secure")
            await page.stream.aclose()

            plain = await secure()
            await plain.send(handshake(running.port, origin=f"http://localhost:{running.port}"))
            assert await plain.read_head() == 101
            assert (await plain.refusal())[0] == 4403
            await plain.stream.aclose()

            async with connect(running.port) as speaking_plainly:
                await speaking_plainly.send(b"GET / HTTP/1.1\r\n\r\n")
                with suppress(trio.BrokenResourceError):  # a reset is an end as well
                    assert not (await speaking_plainly.read_rest()).startswith(b"HTTP")


async def test_what_was_sent_with_the_handshake_is_not_lost() -> None:
    with trio.fail_after(30):
        async with (
            site() as running,
            websocket(running.port, more=frame("one") + frame("two") + frame("th")[:3]) as client,
        ):
            assert [await client.text(), await client.text()] == ["one", "two"]
            await client.send(frame("th")[3:])
            assert await client.frame() == (TEXT, b"th")
