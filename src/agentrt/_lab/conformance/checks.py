"""All checks, in the order in which they are shown."""

from __future__ import annotations

from typing import Final

from msgspec import structs

from ...agents import ProtocolName
from . import (
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
from .check import ACP, ConformanceCheck


def _documented_at(checks: list[ConformanceCheck], where: str) -> list[ConformanceCheck]:
    """Return checks from ACP's specification for a protocol documented at `where`."""
    return [
        structs.replace(check, where=where) if check.where.startswith(ACP) else check
        for check in checks
    ]


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
