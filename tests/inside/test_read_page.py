"""URLs have one host, or are not certain.

Any text is read as a URL, and the reading itself is compared with the answer of the rules.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import agentrt
from agentrt._core.permissions.pages import read_page
from agentrt.permissions import Allow, PermissionRequest

pytestmark = pytest.mark.slow


def ask(policy: agentrt.Policy, input: Any) -> object:
    return policy(PermissionRequest(title="", tool="WebFetch", input=input, cwd="/shop"))


PIECES = (
    *("https:", "http:", "//", "/", "\\", "@", ":", "443", ".", "%2e", "#", "?", " ", "\t"),
    *(
        "docs.example.com",
        "evil.com",
        "docs",
        "example.com",
        "\uff20",
        "\u3002",
        "\u00ad",
        "[",
        "]",
    ),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=7).map("".join))
def test_what_is_allowed_has_one_host_in_every_reading(url: str) -> None:
    allowed = ask(agentrt.rules(allow=["Fetch(docs.example.com)"]), {"url": url}) == Allow()
    page = read_page(url)
    assert not allowed or (
        page.certain and {host for host, _ in page.hosts} == {"docs.example.com"}
    )
