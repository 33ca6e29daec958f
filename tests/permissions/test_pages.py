"""Rules about pages read URLs as agents do."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import agentrt
from agentrt.permissions import Allow, Deny, PermissionRequest
from tables import for_each

EVIL = [
    "https://evil.com",
    "https://evil.com/path?q=1#x",
    "https:/evil.com",
    "https:evil.com",
    "https:\\evil.com",
    "https:\\\\evil.com",
    "https:///evil.com",
    "HTTPS://EVIL.COM",
    " https://evil.com",
    "ht\ttps://ev\nil.com",
    "https://evil.com.",
    "https://evil.com..",
    "https://evil%2ecom",
    "https://%65vil.com",
    "https://ev\u00adil.com",
    "https://ｅｖｉｌ.com",
    "https://evil。com",
    "https://evil．com",
    "https://evil.com\\@docs.example.com/",
    "https://docs.example.com@evil.com/",
    "https://docs.example.com:x@evil.com/",
    "https://evil.com:443/",
    "https://evil.com:0443/",
    "//evil.com/x",
    "evil.com",
    "evil.com/path",
    "evil.com:8080",
    "ftp://evil.com/x",
    "ws://evil.com/x",
    "https://evil.com?@docs.example.com",
    "https://evil.com#@docs.example.com",
]
LINK_LOCAL = [
    "http://169.254.169.254/",
    "http://169.254.169.254./",
    "http://2852039166/",
    "http://0xa9fea9fe/",
    "http://0xA9.0xFE.0xA9.0xFE/",
    "http://0251.0376.0251.0376/",
    "http://169.254.43518/",
    "http://[::ffff:169.254.169.254]/",
    "http://[::ffff:a9fe:a9fe]/",
    "http://①⑥⑨.254.169.254/",
]
INPUTS: list[Any] = [
    {"url": "https://docs.example.com", "proxy": "https://evil.com"},
    {"url": "https://docs.example.com", "http_proxy": "evil.com:3128"},
    {"href": "https://evil.com"},
    {"URL": "https://evil.com"},
    {"params": {"request": {"uri": "https://evil.com"}}},
    {"urls": ["https://docs.example.com", "https://evil.com"]},
    {"prompt": "read https://evil.com/x and tell me"},
    {"host": "evil.com", "path": "/"},
    {"base_url": "https://evil.com"},
    {"target-url": "https:/evil.com"},
    {"options": ["https://evil.com"]},
]


def ask(policy: agentrt.Policy, input: Any) -> object:
    return policy(PermissionRequest(title="", tool="WebFetch", input=input, cwd="/shop"))


def denying(host: str) -> agentrt.Policy:
    return agentrt.rules(deny=[f"Fetch({host})"], otherwise=agentrt.allow_all)


@for_each("url", EVIL)
def test_a_host_is_denied_however_its_url_is_written(url: str) -> None:
    assert isinstance(ask(denying("evil.com"), {"url": url}), Deny)
    assert isinstance(ask(denying("*.com"), {"url": url}), Deny)


@for_each("url", EVIL)
@for_each("rule", ["Fetch(docs.example.com)", "Fetch(*.example.com)"])
def test_no_way_to_write_another_host_is_allowed(url: str, rule: str) -> None:
    assert isinstance(ask(agentrt.rules(allow=[rule]), {"url": url}), Deny)


@pytest.mark.parametrize("url", LINK_LOCAL)
@pytest.mark.parametrize("rule", ["169.254.169.254", "169.254.*"])
def test_an_address_is_denied_in_each_of_its_forms(url: str, rule: str) -> None:
    assert isinstance(ask(denying(rule), {"url": url}), Deny)


@pytest.mark.parametrize("input", INPUTS)
def test_a_page_is_denied_under_any_key_and_allowed_under_none_but_its_own(input: Any) -> None:
    assert isinstance(ask(denying("evil.com"), input), Deny)
    allowed = agentrt.rules(allow=["Fetch(docs.example.com)"])
    assert isinstance(ask(allowed, input), Deny)


@pytest.mark.parametrize(
    "input",
    [
        {"url": "https://docs.example.com/a/b?c=d&e=%20#f"},
        {"url": "http://docs.example.com:8080/"},
        {"url": "docs.example.com/a"},
        {"url": "https://DOCS.example.com/", "prompt": "what does it say about https://evil.com?"},
        {"urls": ["https://docs.example.com/a", "https://docs.example.com/b"]},
        {"url": "https://docs.example.com", "format": "markdown", "timeout": 30},
    ],
)
def test_a_plain_url_of_an_allowed_host_is_allowed(input: Any) -> None:
    assert ask(agentrt.rules(allow=["Fetch(docs.example.com)"]), input) == Allow()
    assert ask(agentrt.rules(allow=["Fetch(*.example.com)"]), input) == Allow()


def test_another_page_is_not_denied() -> None:
    for url in ("https://docs.example.com/evil.com", "https://notevil.com", "https://evil.com.org"):
        assert ask(denying("evil.com"), {"url": url}) == Allow()


def test_a_rule_s_own_host_is_read_in_the_same_way() -> None:
    assert isinstance(
        ask(denying("bücher.example"), {"url": "https://xn--bcher-kva.example"}), Deny
    )
    assert isinstance(ask(denying("2852039166"), {"url": "http://169.254.169.254"}), Deny)
    assert isinstance(ask(denying("evil.com:8443"), {"url": "https://evil.com:8443"}), Deny)
    assert ask(denying("evil.com:8443"), {"url": "https://evil.com"}) == Allow()


PIECES = (
    *("https:", "http:", "//", "/", "\\", "@", ":", "443", ".", "%2e", "#", "?", " ", "\t"),
    *("docs.example.com", "evil.com", "docs", "example.com", "\uff20", "\u3002", "\u00ad", "["),
    "]",
)


def readings(url: str) -> Iterator[str]:
    """The hosts to which programs that read URLs in different ways go."""
    plain = unicodedata.normalize("NFKC", unquote(url)).replace("\u00ad", "")
    for text in (url, plain, plain.replace("\\", "/"), "".join(plain.split())):
        with suppress(ValueError):
            yield urlsplit(text).hostname or ""
        rest = re.sub(r"^\s*(?:https?:|[a-z]+:(?=[/\\]))", "", text).lstrip("/\\")
        host = re.split(r"[/\\?#]", rest)[0].rpartition("@")[2]
        yield re.split(r":\d*$", host)[0].strip().rstrip(".").lower()


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=7).map("".join))
@example("https://docs.example.com/")
@example("docs.example.com:443")
def test_what_is_allowed_has_one_host_in_every_reading(url: str) -> None:
    allowed = ask(agentrt.rules(allow=["Fetch(docs.example.com)"]), {"url": url}) == Allow()
    assert not allowed or {*readings(url)} - {""} == {"docs.example.com"}
