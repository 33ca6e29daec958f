"""All checks, in the order in which they are shown."""

from __future__ import annotations

from typing import Final

from msgspec import structs

from ...agents import ProtocolName
from . import (
    acp2_checks,
    claude,
    codex,
    codex_checks,
    end_checks,
    permission_checks,
    rpc_checks,
    session_checks,
    turn_checks,
    wire_checks,
)
from .check import ACP, ACP_2, AcpVersion, ConformanceCheck


def _documented_at(checks: list[ConformanceCheck], where: str) -> list[ConformanceCheck]:
    """Return checks from ACP's specification for a protocol documented at `where`."""
    return [
        structs.replace(check, where=where) if check.where.startswith(ACP) else check
        for check in checks
    ]


NOT_IN_2: Final = {"load", "load-unknown"} | {each.name for each in acp2_checks.check.all}
"""Checks of version 1 that version 2 has not, or has in another form."""


def _checks_of_2(checks: list[ConformanceCheck]) -> list[ConformanceCheck]:
    """Return the checks of version 1 for version 2, whose specification has other pages."""
    return [
        structs.replace(check, where=in_version_2(check.where))
        for check in checks
        if check.name not in NOT_IN_2
    ]


def in_version_2(page: str) -> str:
    """Return the page of version 2's specification for one of version 1's."""
    return page.replace(ACP, ACP_2).replace("prompt-turn", "prompt-lifecycle")


def checks_of(protocol: ProtocolName, acp_version: AcpVersion = 1) -> list[ConformanceCheck]:
    """Return the checks of a protocol."""
    if protocol == "acp" and acp_version == 2:
        return [*_checks_of_2(CHECKS["acp"]), *acp2_checks.check.all]
    return CHECKS[protocol]


CHECKS: Final[dict[ProtocolName, list[ConformanceCheck]]] = {
    "acp": [
        *wire_checks.check.all,
        *rpc_checks.check.all,
        *session_checks.check.all,
        *turn_checks.check.all,
        *permission_checks.check.all,
        *end_checks.check.all,
    ],
    "claude": [
        *claude.check.all,
        *_documented_at(end_checks.check.all, claude.WHERE),
    ],
    "codex": [
        *codex_checks.check.all[:4],
        *_documented_at(rpc_checks.check.all, codex.WHERE),
        *codex_checks.check.all[4:],
        *_documented_at(end_checks.check.all, codex.WHERE),
    ],
}
