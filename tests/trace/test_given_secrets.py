"""What a program says is secret."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import agentrt
from runtime.fakes import echo, session_with

WRONG: list[tuple[dict[str, Any], type[Exception], str]] = [
    (
        {"secrets": "squeamish"},
        TypeError,
        r"`secrets` must be a list: secrets=\[…\]",
    ),
    ({"secrets": [3]}, TypeError, "a secret must be a string, not int"),
    ({"secrets": ["abc"]}, ValueError, "a secret must have at least 4 characters"),
    ({"redact": 3}, TypeError, "`redact` must be a function that takes a line, not int"),
]


@pytest.mark.parametrize(("options", "kind", "message"), WRONG)
async def test_what_is_no_secret_and_no_rule_is_refused(
    tmp_path: Path, options: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        async with agentrt.tracing.open_trace(tmp_path / "t", **options):
            pass
    async with session_with(echo) as (session, _):
        with pytest.raises(kind, match=message):
            session.trace(**options)
    assert not (tmp_path / "t").exists()


async def test_a_bound_that_is_no_number_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="`max_bytes` and `files` must be integers"):
        async with agentrt.tracing.open_trace(tmp_path / "t", max_bytes="x"):  # type: ignore[arg-type]
            pass


@pytest.mark.slow
@pytest.mark.parametrize("secret", ["Rome", "s3cr3t", "squeamish"])
async def test_a_given_secret_is_left_out_also_if_it_is_short(tmp_path: Path, secret: str) -> None:
    """Those of variables are looked for from eight characters on: nobody chose them."""
    async with (
        agentrt.tracing.open_trace(tmp_path / "t", secrets=[secret]) as trace,
        agentrt.open_session("demo", trace=trace) as session,
    ):
        with session.trace(secrets=[secret]) as records:
            await session.run(f"say {secret}")
    assert secret.encode() not in (tmp_path / "t").read_bytes()
    assert not any(secret in record.text for record in [record async for record in records])
