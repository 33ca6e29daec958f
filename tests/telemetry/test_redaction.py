"""What is taken out of contents before they are recorded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redacted import redacted


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Authorization: Bearer abc.def-123456", "Authorization: Bearer [redacted]"),
        ("sk-" + "ant-api03-0123456789abcdef", "[redacted]"),
        ("key is ghp_0123456789abcdefghij.", "key is [redacted]."),
        ("AKIAABCDEFGHIJKLMNOP", "[redacted]"),
        ("postgres://me:pass@host/db", "postgres://me:[redacted]@host/db"),
        ('{"api_key":"0123456789"}', '{"api_key":"[redacted]"}'),
        ("DB_PASSWORD=hunter22 make", "DB_PASSWORD=[redacted] make"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----!", "[redacted]!"),
    ],
)
def test_what_looks_like_a_secret_is_not_shown(text: str, shown: str) -> None:
    assert redacted(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "a secret garden",
        "tokens: 5",
        "the password is wrong",
        "skip-this",
        "x" * 100_000,
        "token" * 20_000,
    ],
)
def test_what_does_not_is_left_alone(text: str) -> None:
    assert redacted(text) == text


@given(st.text())
def test_it_takes_any_text_twice(text: str) -> None:
    assert redacted(redacted(text)) == redacted(text)
