"""The messages that agentrt's own tables name, with the reasons why some lead to no event.

The tables are compared with recordings and schemas, and their reasons are printed on a page.
"""

from __future__ import annotations

from typing import Final

from agentrt._core.claude.ignored import IGNORED, IGNORED_SYSTEM
from agentrt._core.claude.messages import DECLARED
from agentrt._core.codex.ignored import IGNORED as IGNORED_OF_CODEX

BY_CLAUDE: Final[dict[str, str]] = {
    **IGNORED,
    **{f"system/{subtype}": why for subtype, why in IGNORED_SYSTEM.items()},
}
"""Claude's messages that lead to no event."""
BY_CODEX: Final[dict[str, str]] = {**IGNORED_OF_CODEX}
"""Codex's."""
KNOWN_TO_CLAUDE: Final = frozenset(DECLARED)
"""The types of all messages of Claude that are read."""
