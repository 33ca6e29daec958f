"""Claude Code's messages that lead to no event, each with the reason.

A message that is neither handled nor listed here is reported by a notice. The table of the
reference and `agentrt conformance` rely on that.
"""

from __future__ import annotations

from typing import Final

IGNORED: Final[dict[str, str]] = {
    "keep_alive": "keeps the connection open",
    "tool_progress": "a sign of life, every 30 s; its seconds are those since the call opened",
    "tool_use_summary": "the calls and their results are shown themselves",
    "transcript_mirror": "a copy of other messages",
    "active_goal": "about the interface of Claude Code",
    "autocompact_state": "a compaction is reported when it begins and ends",
}
"""The reasons, by `type`."""

IGNORED_SYSTEM: Final[dict[str, str]] = {
    "thinking_tokens": "an estimate; the result has the count",
    "hook_started": "a hook that fails is reported at its end",
    "hook_progress": "a hook that fails is reported at its end",
    "files_persisted": "about files of the provider, which agentrt does not use",
    "memory_recall": "the call that reads a memory is shown itself",
    "elicitation_complete": "the question was answered by agentrt",
    "control_request_progress": "the request is answered later",
}
"""The reasons, by `subtype` of the messages of type `system`. Their lines are not decoded a second
time."""
