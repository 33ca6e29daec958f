"""agentrt runs an agent's conversation as a tree of Trio tasks and gives every viewer the same
numbered event log.

Each layer imports only those below it: the terminal and the web frontends; the runtime (sessions,
turns, processes, tools); the drivers `_acp`, `_claude` and `_codex`, which are independent of each
other; the wire and the model, which contain no processes and no clocks.

Importing this package is cheap: each public name is imported on first use.
"""

import importlib as _importlib
import sys as _sys
import typing as _typing

from ._version import __version__ as __version__

if _typing.TYPE_CHECKING:
    from ._public import *  # noqa: F403 - its imports are the public names

_PUBLIC = {
    "_agents": "Agent FoundAgent Quirks acp agent_version claude find_agents",
    "_claude.options": "ClaudeOptions",
    "_claude.sessions": "StoredSession",
    "_errors": (
        "AgentNotFound AgentrtError AgentStartError Busy FolderNotTrusted LimitExceeded "
        "LocalProtocolError ProtocolError RemoteProtocolError RequestError SessionClosed "
        "SessionElsewhere SessionMoved SessionNotFound StoreError StoreDamaged StoreInUse "
        "StoreUnavailable TraceError"
    ),
    "_journal.base": "StoreEntry StoreHit StoreStatistics StoreStatus",
    "_journal.store": "Store open_store",
    "_limits": "Limits Tenant",
    "_logging": "LogContext log_context",
    "_model.content": "Audio Diff Image Resource ResourceLink Text",
    "_model.events": (
        "CommandsChanged Error Event Item ItemClosed ItemDelta ItemOpened ItemUpdated Modes "
        "ModesChanged Notice PermissionClosed PermissionOpened PermissionOption PlanChanged "
        "PlanEntry QueueChanged State StateChanged Task TaskChanged TextDelta ThoughtDelta "
        "TitleChanged TurnEnded TurnStarted Usage UsageChanged"
    ),
    "_model.fork_point": "ForkPoint",
    "_model.log": "Overrun",
    "_model.result": "AgentDied AgentFailed Denial Failure TurnFailed TurnResult TurnTimedOut",
    "_model.state": "Snapshot",
    "_permissions.policies": (
        "Allow Ask Decision Deny PermissionRequest Policy allow_all ask deny_all rules"
    ),
    "_runtime.agent_sessions": "delete_session list_sessions",
    "_runtime.claude_control": (
        "ClaudeControl ContextUsage McpServersChanged McpServerState RewoundFiles TaskOutput"
    ),
    "_runtime.claude_sessions": "ClaudeSessions",
    "_runtime.connect": "connect",
    "_runtime.open": "open_session reopen_session",
    "_runtime.options": "SessionOptions",
    "_runtime.own_services": "Files Terminal TerminalExit TerminalOutput Terminals",
    "_runtime.query": "Query query",
    "_runtime.register": "SessionInfo",
    "_runtime.runtime": "AgentInfo Runtime open_runtime",
    "_session.agent_sessions": "AgentSession",
    "_session.session": "Session",
    "_session.subscription": "Subscription",
    "_session.turn": "Turn",
    "_runtime.websocket": "websocket",
    "_telemetry.metrics": "Metrics",
    "_telemetry.otel": "OpenTelemetry",
    "_trace.record": "TraceRecord",
    "_trace.subscription": "TraceSubscription",
    "_trace.trace": "Trace open_trace",
    "_tools.extensions": "Extension ExtensionContext extension",
    "_tools.hooks": "Hook HookContext hook",
    "_tools.tools": "Tool ToolContext ToolError tool",
    "_web.security": "Security",
    "_web.server": "serve",
    "_web.site": "Site SiteStatistics",
}
"""The public names by module, matching the imports in `_public` for type checkers."""

_PLACES = {name: module for module, names in _PUBLIC.items() for name in names.split()}


def __getattr__(name: str) -> object:
    if name == "__all__":
        return sorted(_PLACES)
    if name not in _PLACES:
        # Passing the module lets a traceback suggest a name.
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message, name=name, obj=_sys.modules[__name__])
    module = _importlib.import_module(f".{_PLACES[name]}", __name__)
    value = globals()[name] = getattr(module, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PLACES})
