"""Makes `_core/codex/messages.py` of the schema that a `codex` prints of its own protocol.

    python tests/agents/codex_schema.py [--codex PATH] [--check]

Of its hundreds of messages only those are made that agentrt sends or reads, and of these only the
fields that it uses: `USED` says which. `--check` writes nothing and says what another version has
made different.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

from versions import PACKAGES, REPOSITORY, agents_root

TARGET = REPOSITORY / "src" / "agentrt" / "_core" / "codex" / "messages.py"
SENT = REPOSITORY / "tests" / "shown" / "recorded" / "codex-schema.json"
PINNED = "node_modules/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex"

Schema: TypeAlias = dict[str, Any]
Fields: TypeAlias = str
"""Names of fields, with blanks between them."""

USED: Final[Mapping[str, Fields | Mapping[str, Fields]]] = {
    # What is shared. Of a union the variants are named, each by its tag.
    "UserInput": {"text": "text", "image": "url", "audio": "url", "mention": "name path"},
    "PatchChangeKind": {"add": "", "delete": "", "update": "move_path"},
    "FileUpdateChange": "path kind diff",
    "DynamicToolCallOutputContentItem": {
        "inputText": "text",
        "inputImage": "imageUrl",
        "inputAudio": "audioUrl",
    },
    "McpToolCallResult": "content structuredContent _meta",
    "McpToolCallError": "message",
    "HookPromptFragment": "text",
    "AsyncUserInputQuestion": "title options",
    "WebSearchAction": {
        "search": "query queries",
        "openPage": "url",
        "findInPage": "pattern url",
        "other": "",
    },
    "ImageGenerationInputImage": "path",
    "ThreadItem": {
        "userMessage": "id clientId content",
        "hookPrompt": "id fragments",
        "agentMessage": "id text questions",
        "functionCallOutput": "id name namespace output",
        "plan": "id text",
        "reasoning": "id summary content",
        "commandExecution": "id command cwd status aggregatedOutput exitCode durationMs",
        "fileChange": "id changes status",
        "mcpToolCall": "id server tool status arguments result error",
        "dynamicToolCall": "id tool namespace arguments status contentItems success",
        "collabAgentToolCall": (
            "id tool status prompt model reasoningEffort receiverThreadIds agentsStates"
        ),
        "subAgentActivity": "id kind agentPath agentThreadId model reasoningEffort",
        "webSearch": "id query action results",
        "imageView": "id path",
        "sleep": "id durationMs",
        "imageGeneration": "id status revisedPrompt savedPath result inputImages failure",
        "enteredReviewMode": "id review",
        "exitedReviewMode": "id review",
        "contextCompaction": "id",
    },
    "TurnError": "message codexErrorInfo additionalDetails misalignment",
    "Turn": "id rootTurnId status error items",
    "Thread": "id name preview cwd updatedAt",
    "SandboxPolicy": {
        "readOnly": "",
        "workspaceWrite": "writableRoots networkAccess",
        "dangerFullAccess": "",
        "externalSandbox": "",
    },
    # The handshake.
    "ClientInfo": "name title version",
    "InitializeCapabilities": "experimentalApi requestAttestation",
    "InitializeParams": "clientInfo capabilities",
    "InitializeResponse": "userAgent",
    "GetAccountResponse": "account requiresOpenaiAuth",
    "ReasoningEffortOption": "reasoningEffort description",
    "Model": "model displayName description hidden supportedReasoningEfforts",
    "ModelListResponse": "data",
    # Threads.
    "DynamicToolSpec": {"function": "name description inputSchema"},
    "ThreadStartParams": (
        "cwd runtimeWorkspaceRoots approvalPolicy approvalsReviewer sandbox model config"
        " dynamicTools"
    ),
    "ThreadResumeParams": (
        "threadId cwd runtimeWorkspaceRoots approvalPolicy approvalsReviewer sandbox model config"
        " excludeTurns"
    ),
    "ThreadForkParams": (
        "threadId cwd runtimeWorkspaceRoots approvalPolicy approvalsReviewer sandbox model config"
        " excludeTurns lastTurnId"
    ),
    "ThreadStartResponse": "thread model approvalPolicy sandbox reasoningEffort",
    "ThreadTurnsListParams": "threadId cursor sortDirection itemsView",
    "ThreadTurnsListResponse": "data nextCursor",
    "ThreadListParams": "cursor cwd",
    "ThreadListResponse": "data nextCursor",
    "ThreadDeleteParams": "threadId",
    "ThreadSettingsUpdateParams": (
        "threadId approvalPolicy approvalsReviewer sandboxPolicy model effort"
    ),
    "ThreadSettings": "approvalPolicy sandboxPolicy model effort",
    "ThreadBackgroundTerminalsListParams": "threadId",
    "ThreadBackgroundTerminal": "itemId processId",
    "ThreadBackgroundTerminalsListResponse": "data",
    "ThreadBackgroundTerminalsTerminateParams": "threadId processId",
    # Turns.
    "TurnStartParams": "threadId input outputSchema",
    "TurnSteerParams": "threadId expectedTurnId clientUserMessageId input",
    "TurnInterruptParams": "threadId turnId",
    "ThreadCompactStartParams": "threadId",
    "ReviewTarget": {"uncommittedChanges": "", "custom": "instructions"},
    "ReviewStartParams": "threadId target delivery",
    # What it says.
    "AgentMessageDeltaNotification": "threadId turnId itemId delta",
    "ReasoningSummaryTextDeltaNotification": "threadId turnId itemId delta",
    "ReasoningTextDeltaNotification": "threadId turnId itemId delta",
    "ReasoningSummaryPartAddedNotification": "threadId turnId itemId summaryIndex",
    "PlanDeltaNotification": "threadId turnId itemId delta",
    "CommandExecutionOutputDeltaNotification": "threadId turnId itemId delta",
    "FileChangeOutputDeltaNotification": "threadId turnId itemId delta",
    "TerminalInteractionNotification": "threadId turnId itemId stdin",
    "FileChangePatchUpdatedNotification": "threadId turnId itemId changes",
    "McpToolCallProgressNotification": "threadId turnId itemId message",
    "ItemStartedNotification": "threadId turnId item",
    "ItemCompletedNotification": "threadId turnId item",
    "TurnStartedNotification": "threadId turn",
    "TurnCompletedNotification": "threadId turn",
    "TurnPlanStep": "step status",
    "TurnPlanUpdatedNotification": "threadId turnId explanation plan",
    "TokenUsageBreakdown": (
        "totalTokens inputTokens cachedInputTokens cacheWriteInputTokens outputTokens"
        " reasoningOutputTokens"
    ),
    "ThreadTokenUsage": "total last modelContextWindow",
    "ThreadTokenUsageUpdatedNotification": "threadId tokenUsage",
    "RateLimitWindow": "usedPercent windowDurationMins resetsAt",
    "CreditsSnapshot": "balance hasCredits unlimited",
    "SpendControlLimitSnapshot": "limit used remainingPercent resetsAt",
    "RateLimitSnapshot": (
        "limitId limitName primary secondary credits individualLimit spendControlReached planType"
        " rateLimitReachedType"
    ),
    "AccountRateLimitsUpdatedNotification": "rateLimits",
    "ThreadSettingsUpdatedNotification": "threadId threadSettings",
    "ThreadNameUpdatedNotification": "threadId threadName",
    "ErrorNotification": "threadId turnId error willRetry",
    "WarningNotification": "threadId message",
    "TextPosition": "line column",
    "TextRange": "start end",
    "ConfigWarningNotification": "summary details path range",
    "DeprecationNoticeNotification": "summary details",
    "GuardianWarningNotification": "threadId message",
    "ModelReroutedNotification": "threadId fromModel toModel reason",
    "ModelVerificationNotification": "threadId verifications",
    "ModelSafetyBufferingUpdatedNotification": (
        "threadId model fasterModel reasons useCases showBufferingUi"
    ),
    "AuthRecoveryNotification": "threadId provider message",
    "GatewayOAuthChangedNotification": "providerId status authUrl error",
    "AccountLoginCompletedNotification": "success error",
    "McpServerStatusUpdatedNotification": "name status error failureReason",
    "McpServerOauthLoginCompletedNotification": "name success error",
    "ThreadGoal": "objective status tokenBudget tokensUsed timeUsedSeconds",
    "ThreadGoalUpdatedNotification": "threadId goal",
    "ThreadGoalClearedNotification": "threadId",
    "HookOutputEntry": "kind text",
    "HookRunSummary": "id eventName status statusMessage entries source sourcePath durationMs",
    "HookCompletedNotification": "threadId turnId run",
    "GuardianApprovalReview": "status riskLevel userAuthorization rationale",
    "ItemGuardianApprovalReviewCompletedNotification": (
        "threadId turnId targetItemId action review decisionSource"
    ),
    "StrictReviewRequiredNotification": "threadId turnId",
    "ServerRequestResolvedNotification": "threadId requestId",
    # What it asks.
    "NetworkApprovalContext": "host protocol",
    "CommandExecutionRequestApprovalParams": (
        "kind threadId itemId reason networkApprovalContext command cwd availableDecisions"
    ),
    "FileChangeRequestApprovalParams": "threadId itemId reason grantRoot",
    "AdditionalNetworkPermissions": "enabled",
    "AdditionalFileSystemPermissions": "read write entries",
    "RequestPermissionProfile": "network fileSystem",
    "PermissionsRequestApprovalParams": "threadId itemId cwd reason permissions",
    "ToolRequestUserInputOption": "label description",
    "ToolRequestUserInputQuestion": "id header question isOther isSecret options",
    "ToolRequestUserInputParams": "threadId itemId questions",
    "McpServerElicitationRequestParams": {
        "form": "threadId serverName message requestedSchema _meta",
        "url": "threadId serverName message url _meta",
    },
    "DynamicToolCallParams": "threadId callId tool arguments",
    # What it is answered.
    "DynamicToolCallResponse": "contentItems success",
}

NAMES: Final = {
    "Turn": "CodexTurnRecord",
    "ClientInfo": "CodexClientInfo",
    "InitializeResponse": "CodexInitializeResponse",
}
"""Python names of messages whose own name stands for something else in the package."""

DESCRIBED: Final = {
    "ClientInfo": "The client as codex sees it: its `name`, its `version` and a `title` for "
    "people.",
}
"""Docstrings of the messages that programs use."""

SIMPLE: Final = {"string": "str", "boolean": "bool", "integer": "int", "number": "float"}

HEAD: Final = '''\
"""The messages of `codex app-server`, as far as agentrt uses them.

Made by `tests/agents/codex_schema.py` of the schema that {version} prints;
not to be edited.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from msgspec import Struct, field

VERSION = "{number}"
"""Of the program that the schema is from."""


class CodexMessage(Struct, rename="camel", omit_defaults=True, kw_only=True, gc=False):
    """The base of all: None is what was left out. Enumerations are plain strings, for every program
    may be newer."""
'''


class Missing(Exception):
    """The schema lacks what `USED` names."""


class Writer:
    """The Python text of the messages."""

    def __init__(self, definitions: Mapping[str, Schema]) -> None:
        self._definitions = definitions

    def text(self) -> Iterator[str]:
        for name, fields in USED.items():
            schema = self._definitions.get(name)
            if schema is None:
                raise Missing(name)
            if isinstance(fields, str):
                yield from self._struct(name, schema, fields, "")
            else:
                yield from self._union(name, schema, fields)

    def _union(self, name: str, schema: Schema, variants: Mapping[str, Fields]) -> Iterator[str]:
        found: dict[str, tuple[str, Schema]] = {}
        for variant in schema["oneOf"]:
            whole = merged(schema, variant)
            for field in ("type", "mode"):
                for tag in whole["properties"].get(field, {}).get("enum", ()):
                    found[tag] = (field, whole)
        names = []
        for tag, fields in variants.items():
            if tag not in found:
                raise Missing(f"{name}: {tag}")
            field, variant = found[tag]
            own = "".join(part[:1].upper() + part[1:] for part in re.split(r"\W", tag))
            names.append(own + (name if not name.endswith("Params") else name[: -len("Params")]))
            tagged = f', tag_field="{field}", tag="{tag}"'
            yield from self._struct(names[-1], variant, fields, tagged)
        yield f"\n\n{name}: TypeAlias = {' | '.join(names)}\n"

    def _struct(self, name: str, schema: Schema, fields: Fields, tagged: str) -> Iterator[str]:
        yield f"\n\nclass {NAMES.get(name, name)}(CodexMessage{tagged}):\n"
        if name in DESCRIBED:
            yield f'    """{DESCRIBED[name]}"""\n\n'
        properties, required = schema["properties"], schema.get("required", [])
        lines: list[str] = []
        optional: list[str] = []
        for each in fields.split():
            if each not in properties:
                raise Missing(f"{name}.{each}")
            kind, nullable = self._kind(properties[each])
            own = snake(each)
            renamed = camel(own) != each
            if each in required and not nullable:
                given = f' = field(name="{each}")' if renamed else ""
                lines.append(f"    {own}: {kind}{given}\n")
            else:
                kind = kind if kind == "Any" else f"{kind} | None"
                given = f' = field(default=None, name="{each}")' if renamed else " = None"
                optional.append(f"    {own}: {kind}{given}\n")
        yield from [*lines, *optional] or ["    pass\n"]

    def _kind(self, schema: Any) -> tuple[str, bool]:
        """The type of a value, and whether it may be null."""
        if schema is True:
            return "Any", False
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            if name not in USED:
                return self._kind(self._definitions[name])
            return NAMES.get(name, name), False
        if "anyOf" in schema or "allOf" in schema:
            parts = schema.get("anyOf") or schema["allOf"]
            others = [part for part in parts if part != {"type": "null"}]
            kinds = {self._kind(part)[0] for part in others}
            return kinds.pop() if len(kinds) == 1 else "Any", len(others) < len(parts)
        types = schema.get("type", [])
        types = [types] if isinstance(types, str) else types
        nullable = "null" in types
        match [each for each in types if each != "null"]:
            case ["array"]:
                return f"list[{self._kind(schema.get('items', True))[0]}]", nullable
            case ["object"]:
                return "dict[str, Any]", nullable
            case [str(simple)] if simple in SIMPLE:
                return SIMPLE[simple], nullable
            case _:
                return "Any", nullable


def merged(outer: Schema, inner: Schema) -> Schema:
    """A variant with the properties that all variants have, and those of its own variants."""
    properties: Schema = {}
    for schema in (outer, inner, *inner.get("anyOf", ())):
        properties |= schema.get("properties", {})
    alternatives = [set(each.get("required", ())) for each in inner.get("anyOf", ())]
    always = set.intersection(*alternatives) if alternatives else set()
    required = {*outer.get("required", ()), *inner.get("required", ()), *always}
    return {"properties": properties, "required": sorted(required)}


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", lambda found: f"_{found[1].lower()}", name).lstrip("_")


def camel(name: str) -> str:
    return re.sub(r"_([a-z0-9])", lambda found: found[1].upper(), name)


def schema_of(codex: Path) -> tuple[str, dict[str, Schema]]:
    """What a program says of itself: its version, and all definitions of its schema."""
    version = subprocess.run([codex, "--version"], capture_output=True, text=True, check=True)
    with tempfile.TemporaryDirectory() as folder:
        command = [codex, "app-server", "generate-json-schema", "--experimental", "--out", folder]
        subprocess.run(command, capture_output=True, check=True)
        bundle = Path(folder) / "codex_app_server_protocol.schemas.json"
        definitions: dict[str, Schema] = json.loads(bundle.read_text())["definitions"]
    newer = definitions.pop("v2")
    return version.stdout.strip(), {**definitions, **newer}


def messages(codex: Path) -> str:
    """The program text of `_core/codex/messages.py` for a program, before it is formatted."""
    version, definitions = schema_of(codex)
    body = "".join(Writer(definitions).text())
    return HEAD.format(version=version, number=version.split()[-1]) + body


def formatted(text: str) -> str:
    ruff = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(TARGET), "-"]
    done = subprocess.run(
        ruff, input=text, capture_output=True, text=True, check=True, cwd=REPOSITORY
    )
    return done.stdout


def sent(definitions: Mapping[str, Schema]) -> dict[str, Schema]:
    """The definitions of what codex sends without being asked, without descriptions."""
    found: dict[str, Schema] = {}
    waiting = ["ServerNotification", "ServerRequest"]
    while waiting:
        name = waiting.pop()
        if name not in found and name in definitions:
            found[name] = plain(definitions[name])
            waiting += re.findall(r'"#/([^"]+)"', json.dumps(found[name]))
    return found


def plain(schema: Any, *, properties: bool = False) -> Any:
    if isinstance(schema, dict):
        return {
            name: plain(each, properties=name == "properties" and not properties)
            for name, each in schema.items()
            if properties or name not in ("description", "$schema", "default", "format")
        }
    if isinstance(schema, list):
        return [plain(each) for each in schema]
    if isinstance(schema, str) and schema.startswith("#/definitions/"):
        return f"#/{schema.rpartition('/')[2]}"
    return schema


def statements(text: str) -> str:
    """A program without its layout: two that mean the same are equal."""
    return ast.unparse(ast.parse(text))


def difference(codex: Path) -> str:
    """What a program makes different, in lines; empty if it is nothing but its version."""
    try:
        made = messages(codex)
    except Missing as missing:
        return f"the schema of {codex} has no {missing}"
    old, new = (
        [
            line
            for line in statements(text).splitlines()
            if "schema that" not in line and "VERSION" not in line
        ]
        for text in (TARGET.read_text(), made)
    )
    return "\n".join(difflib.unified_diff(old, new, TARGET.name, str(codex), lineterm="", n=1))


def pinned() -> Path:
    return PACKAGES["codex"].folder(agents_root()) / PINNED


def main() -> int:
    parser = argparse.ArgumentParser(description="Make the messages of codex's protocol.")
    parser.add_argument("--codex", type=Path, default=pinned(), metavar="PATH")
    parser.add_argument("--check", action="store_true", help="only say what is different")
    asked = parser.parse_args()
    if asked.check:
        print(found := difference(asked.codex))
        return 1 if found else 0
    TARGET.write_text(formatted(messages(asked.codex)))
    SENT.write_text(json.dumps(sent(schema_of(asked.codex)[1]), indent=1, sort_keys=True) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
