"""The reason that an agent gives for an error, wherever it puts it.

Agents put the reason into five places; `error_of` gets an error for each, without an agent for
each.
"""

from __future__ import annotations

from typing import Any

import pytest

from agentrt._core.acp.translate import LONGEST_REASON_CHARS, error_of
from agentrt.jsonrpc import JsonRpcError

REASON = "modes apply between turns only"


@pytest.mark.parametrize(
    "data",
    [
        REASON,
        {"details": REASON},
        {"message": REASON},
        {"reason": REASON},
        {"error": {"message": REASON}},
        {"code": 7, "detail": REASON},
        {"cause": REASON},
        [REASON],
    ],
)
def test_the_text_of_the_data_is_in_the_message_and_the_data_is_kept(data: Any) -> None:
    error = error_of(JsonRpcError(-32600, "Invalid request", data))
    assert error.message.startswith("Invalid request: ")
    assert REASON in error.message
    assert error.data == {"code": -32600, "data": data}


@pytest.mark.parametrize("data", [None, {}, [], "", {"message": ""}, "Invalid request"])
def test_data_without_a_text_adds_nothing(data: Any) -> None:
    assert error_of(JsonRpcError(-32600, "Invalid request", data)).message in (
        "Invalid request",
        'Invalid request: {"message":""}',
    )


def test_structured_data_is_shortened() -> None:
    error = error_of(JsonRpcError(1, "no", {"stack": "x" * 10_000}))
    assert len(error.message) < LONGEST_REASON_CHARS + 20
