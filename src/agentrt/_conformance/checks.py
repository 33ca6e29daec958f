"""All checks, in the order in which they are shown."""

from __future__ import annotations

from typing import Final

from msgspec import structs

from .._agents import ProtocolName
from . import (
    claude,
    end_checks,
    permission_checks,
    session_checks,
    turn_checks,
    wire_checks,
)
from .check import Check

CHECKS: Final[dict[ProtocolName, list[Check]]] = {
    "acp": [
        *wire_checks.check.all,
        *session_checks.check.all,
        *turn_checks.check.all,
        *permission_checks.check.all,
        *end_checks.check.all,
    ],
    "claude": [
        *claude.check.all,
        *(structs.replace(check, where=claude.WHERE) for check in end_checks.check.all),
    ],
}
