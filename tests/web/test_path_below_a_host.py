"""A site whose public address has a path: a proxy serves it below that path.

The proxy may remove the path from its requests, or leave it.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from sockets import TOKEN, frame, get, header, offer, post, site, status, websocket

import agentrt
from agentrt.asgi import Application
from agentrt.web import Security

PUBLIC = "https://example.org/agents/"
HERE = {"host": "example.org", "origin": "https://example.org"}

segments = st.from_regex(r"[A-Za-z0-9_~-][A-Za-z0-9._~-]{0,8}", fullmatch=True)
paths = st.lists(segments, min_size=1, max_size=3).filter(lambda names: names[0] != "page")


def below(url: str = PUBLIC) -> Security:
    return Security(token=TOKEN, url=url)


@pytest.mark.parametrize("prefix", ["", "/agents"])
async def test_a_browser_signs_in_whether_or_not_the_proxy_removes_the_path(prefix: str) -> None:
    with trio.fail_after(30):
        async with site(security=below()) as running:
            assert running.url == PUBLIC
            ticket = running.link().removeprefix(PUBLIC)
            answer = await get(running.port, f"{prefix}/{ticket}", host="example.org")
            assert status(answer) == 303
            where = header(answer, "location") or ""
            assert where.startswith("/agents/#key=")
            cookie = header(answer, "set-cookie") or ""
            assert "; Path=/agents/; " in cookie
            assert cookie.endswith("; Secure")
            held = {"host": "example.org", "cookie": cookie.partition(";")[0]}
            for file in ("/", "/page/main.js"):
                assert status(await get(running.port, prefix + file, **held)) == 200


@pytest.mark.parametrize("prefix", ["", "/agents"])
async def test_a_client_connects_whether_or_not_the_proxy_removes_the_path(prefix: str) -> None:
    with trio.fail_after(30):
        async with (
            site(security=below()) as running,
            websocket(running.port, target=f"{prefix}/ws", **HERE) as client,
        ):
            await client.send(frame("hello"))
            assert await client.text() == "hello"


async def test_the_form_for_the_token_leads_below_the_path() -> None:
    with trio.fail_after(30):
        async with site(security=below()) as running:
            form = await get(running.port, "/agents/", host="example.org")
            assert status(form) == 401
            assert b'action="/agents/"' in form.head
            answer = await post(running.port, f"token={TOKEN}", target="/agents/", **HERE)
            assert (header(answer, "location") or "").startswith("/agents/#key=")


async def test_the_path_without_its_slash_leads_to_the_page() -> None:
    with trio.fail_after(30):
        async with site(security=below()) as running:
            answer = await get(running.port, "/agents", host="example.org")
            assert (status(answer), header(answer, "location")) == (308, "/agents/")


@pytest.mark.parametrize("target", ["/agents//evil.example/", "/agents//"])
async def test_a_target_that_is_no_path_is_refused_below_the_path_too(target: str) -> None:
    with trio.fail_after(30):
        async with site(security=below()) as running:
            assert status(await get(running.port, target, host="example.org")) == 400


@pytest.mark.parametrize("target", ["/other/", "/agent/", "/agentss/page/main.js"])
async def test_other_paths_are_not_served(target: str) -> None:
    with trio.fail_after(30):
        async with site(security=below()) as running:
            ticket = running.link().removeprefix(PUBLIC)
            cookie = header(await get(running.port, f"/{ticket}", host="example.org"), "set-cookie")
            held = {"host": "example.org", "cookie": (cookie or "").partition(";")[0]}
            assert status(await get(running.port, target, **held)) == 404


async def test_a_page_of_another_origin_is_refused() -> None:
    wrong = {"host": "example.org", "origin": "https://evil.example"}
    with trio.fail_after(30):
        async with (
            site(security=below()) as running,
            websocket(
                running.port, target="/agents/ws", **wrong, sec_websocket_protocol=offer()
            ) as client,
        ):
            told, _ = await client.refusal()
            assert told == 4403


@given(paths)
def test_every_path_of_plain_names_is_accepted_with_and_without_its_slash(names: list[str]) -> None:
    path = "/" + "/".join(names)
    for url in (f"https://example.org{path}", f"https://example.org{path}/"):
        rules = below(url)
        assert (rules.url, rules.root) == ("https://example.org", f"{path}/")


@given(st.text(alphabet=st.characters(exclude_characters="/", codec="utf-8"), min_size=1))
def test_a_path_cannot_add_to_a_header_or_leave_the_page(name: str) -> None:
    try:
        root = below(f"https://example.org/{name}/").root
    except ValueError:
        return
    assert root == f"/{name}/"
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~")
    assert name not in (".", "..", "page")


@pytest.mark.parametrize(
    "url",
    [
        "https://example.org//agents/",
        "https://example.org/a/../b/",
        "https://example.org/a b/",
        "https://example.org/a;b/",
        "https://example.org/a?b",
        "https://example.org/a#b",
        "https://example.org/a%2fb/",
        "https://example.org/page/",
    ],
)
def test_a_url_with_an_unusable_path_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="path"):
        below(url)


@pytest.mark.parametrize("path", ["a", "a/b/c", "_.~-", "ws", "healthz/page", "login", "ai/ai"])
async def test_the_path_is_removed_from_a_request_that_has_it(path: str) -> None:
    url = f"https://example.org/{path}/"
    application = Application(agentrt.open_runtime, security=below(url), url=url, agent="demo")
    statuses: list[int] = []
    async with application.running() as site:
        _, headers, _ = await answer(application, site.link().removeprefix("https://example.org"))
        cookie = headers["set-cookie"].partition(";")[0]
        for target in ("/", "/page/main.js", "/ws", "/healthz", "/login", "/nothing"):
            for sent in ("", cookie):
                plain = await answer(application, target, sent)
                assert await answer(application, f"/{path}{target}", sent) == plain
                statuses.append(plain[0])
    assert {200, 401, 404} <= {*statuses}


async def answer(
    application: Application, target: str, cookie: str = ""
) -> tuple[int, dict[str, str], bytes]:
    """The answer to a request: its status, its headers and its body."""
    sent: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    path, _, query = target.partition("?")
    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": query.encode(),
        "headers": [(b"host", b"example.org"), (b"cookie", cookie.encode())],
    }
    await application(scope, receive, send)
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], headers, b"".join(message.get("body", b"") for message in sent)
