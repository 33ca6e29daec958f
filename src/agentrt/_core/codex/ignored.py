"""Codex's notifications that lead to no event, each with the reason.

A notification that is neither handled nor listed here is reported by a notice. The tables of the
reference and `agentrt conformance` rely on that.
"""

from __future__ import annotations

from typing import Final

_OWN = "about a request that agentrt does not send; a handler in `extensions` gets it"
_VOICE = "about a voice conversation, which agentrt does not start"
_APP = "about the vendor's application"
_LIST = "about the list of stored threads, which agentrt reads when it needs it"

IGNORED: Final[dict[str, str]] = {
    "thread/started": "the answer to `thread/start` has the same content",
    "thread/status/changed": "the state follows from the turns and the open requests",
    "thread/closed": "sent only after a request that agentrt does not send",
    "thread/reverted": "sent only after a request that agentrt does not send",
    "thread/compacted": "the item `contextCompaction` reports the same",
    "thread/prediction/updated": "sent only after a request that agentrt does not send",
    "thread/queue/changed": "agentrt keeps the queue of prompts",
    "thread/environment/connected": "about environments other than the local one",
    "thread/environment/disconnected": "about environments other than the local one",
    "thread/archived": _LIST,
    "thread/unarchived": _LIST,
    "thread/deleted": _LIST,
    "thread/readState/changed": _LIST,
    "thread/section/changed": _LIST,
    "thread/attachment/updated": _LIST,
    "thread/project/updated": _LIST,
    "project/changed": _LIST,
    "turn/diff/updated": "the `fileChange` items contain the same changes",
    "turn/moderationMetadata": "data of the provider without a documented shape",
    "item/autoApprovalReview/started": "`…/completed` has the same content and the decision",
    "skills/changed": "codex reloads its skills itself",
    "account/updated": "the answer to `account/read` reports if a login is needed",
    "app/list/updated": _APP,
    "remoteControl/status/changed": _APP,
    "externalAgentConfig/import/progress": _APP,
    "externalAgentConfig/import/completed": _APP,
    "fs/changed": _OWN,
    "fuzzyFileSearch/sessionUpdated": _OWN,
    "fuzzyFileSearch/sessionCompleted": _OWN,
    "command/exec/outputDelta": _OWN,
    "process/outputDelta": _OWN,
    "process/exited": _OWN,
    "mcpServer/event/stream/notification": _OWN,
    "thread/realtime/started": _VOICE,
    "thread/realtime/itemAdded": _VOICE,
    "thread/realtime/item/started": _VOICE,
    "thread/realtime/item/transcript/delta": _VOICE,
    "thread/realtime/item/completed": _VOICE,
    "thread/realtime/transcript/delta": _VOICE,
    "thread/realtime/transcript/done": _VOICE,
    "thread/realtime/outputAudio/delta": _VOICE,
    "thread/realtime/sdp": _VOICE,
    "thread/realtime/error": _VOICE,
    "thread/realtime/closed": _VOICE,
    "windows/worldWritableWarning": "on Windows only, where agentrt does not run",
    "windowsSandbox/setupCompleted": "on Windows only, where agentrt does not run",
}
"""The reasons, by method."""
