"""What the start tells about the CLI: its version and its login."""

from __future__ import annotations

from typing import Any

import pytest

from agentrt.effects import StartFailed
from agentrt.events import Notice

from .rig import INIT, Rig, only, result, state

OLDEST = "2.1.165"
"""The oldest version that is supported, and tested as `OLDER_CLAUDES` of `tests/agents`."""


def warned(rig: Rig) -> list[str]:
    return [notice.code for notice in rig.of(Notice) if notice.level == "warning"]


@pytest.mark.parametrize("version", [OLDEST, "2.1.330", "2.2.0", "3.0.0-beta.1", "0.0.fake", ""])
def test_a_version_that_is_supported_or_unheard_of_is_no_matter(version: str) -> None:
    rig = Rig()
    rig.start({"claude_code_version": version})
    assert warned(rig) == []


@pytest.mark.parametrize("version", ["2.1.164", "2.0.999", "1.9.200", "2.1.99-dev"])
def test_a_version_that_is_too_old_is_reported_at_the_start(version: str) -> None:
    rig = Rig()
    notice = only(rig.start({"claude_code_version": version}), Notice)
    assert notice.code == "version"
    assert version in notice.message
    assert OLDEST in notice.message


def test_a_version_that_is_reported_with_the_first_turn_is_judged_then_and_once() -> None:
    rig = Rig()
    rig.start({})
    for _ in range(2):
        rig.feed(state("running"), {**INIT, "claude_code_version": "2.1.100"})
    assert warned(rig) == ["version"]


@pytest.mark.parametrize(
    "account",
    [
        {"tokenSource": "none", "apiProvider": "firstParty"},
        {"tokenSource": "none", "apiKeySource": "none"},
        {"tokenSource": None},
    ],
)
def test_a_claude_without_credentials_says_so_at_the_start(account: Any) -> None:
    rig = Rig()
    notice = only(rig.start({"account": account}), Notice)
    assert (notice.code, notice.level) == ("auth_required", "warning")
    assert "/login" in notice.message


@pytest.mark.parametrize(
    "account",
    [
        {"tokenSource": "none", "apiKeySource": "ANTHROPIC_API_KEY", "apiProvider": "firstParty"},
        {"tokenSource": "CLAUDE_CODE_OAUTH_TOKEN", "apiProvider": "firstParty"},
        {"tokenSource": "claude.ai", "subscriptionType": "max"},
        {"apiProvider": "bedrock"},
        {},
        None,
        "surprising",
    ],
)
def test_a_claude_with_credentials_or_that_says_nothing_of_them_is_ready(account: Any) -> None:
    rig = Rig()
    rig.start({"account": account})
    assert warned(rig) == []


def test_a_successful_result_before_the_reply_is_no_refusal() -> None:
    rig = Rig()
    rig.do(rig.driver.start(rig.opening))
    told = rig.feed(result(num_turns=0))
    assert not rig.of(StartFailed)
    assert only(told, Notice).code == "stale"
