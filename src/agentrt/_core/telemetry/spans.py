"""The fold from a session's events to spans: starting, changing and ending them.

It is independent of OpenTelemetry and of clocks: events with their time go in, operations come out.
Names and attributes follow OpenTelemetry's semantic conventions for GenAI, where these define them;
additional ones begin with `agentrt.`.

A turn is a span, `invoke_agent`. It contains a span for each tool call (`execute_tool`), which
contains a span for each question about it (`permission`) and, if a sub-agent works for the call,
a span for the sub-agent (`invoke_agent`) with the spans of its work.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Struct

from ..model.content import Block, JsonObject, Text
from ..model.events import (
    Event,
    Item,
    ItemClosed,
    ItemOpened,
    ItemUpdated,
    ModesChanged,
    Notice,
    PermissionClosed,
    PermissionOpened,
    StateChanged,
    TaskChanged,
    TextDelta,
    ThoughtDelta,
    TurnEnded,
    TurnStarted,
    Usage,
)

Value: TypeAlias = "str | bool | int | float | tuple[str, ...]"
Attributes: TypeAlias = dict[str, Value]

Redact: TypeAlias = Callable[[str], str]
"""Removes confidential parts from a text."""

MAX_CONTENT_CHARS: Final = 64 * 1024
"""Maximum number of characters of a prompt, an answer, or a tool's input or output in a span."""

PROVIDERS: Final = {
    "claude": "anthropic",
    "claude-agent-acp": "anthropic",
    "codex": "openai",
    "codex-acp": "openai",
    "codex-acp-zed": "openai",
    "gemini": "gcp.gemini",
    "kimi": "moonshot_ai",
    "vibe": "mistral_ai",
}
"""The conventions' names for the providers of agents; other agents use their own name."""

_FAILURES: Final = frozenset({"failed", "timed_out", "agent_died"})
_BROKEN: Final = frozenset({"failed", "orphaned"})


class SpanStart(Struct, frozen=True):
    """Start a span. `key` identifies it among the operations, and so does `parent`. If `parent` is
    None, the parent is the span of the program when it prompted, or there is none."""

    key: str
    name: str
    at: float
    attributes: Attributes
    parent: str | None = None
    kind: Literal["client", "internal"] = "internal"


class SpanChange(Struct, frozen=True):
    """Add attributes to a span, and rename it unless `name` is empty."""

    key: str
    attributes: Attributes
    name: str = ""


class SpanEvent(Struct, frozen=True):
    """Add an event to a span."""

    key: str
    name: str
    at: float
    attributes: Attributes


class SpanEnd(Struct, frozen=True):
    """End a span. `error`: the kind of its failure, if it failed; `why`: the message."""

    key: str
    at: float
    attributes: Attributes
    error: str | None = None
    why: str = ""


Operation: TypeAlias = SpanStart | SpanChange | SpanEvent | SpanEnd


class _TurnSpan(Struct, gc=False):
    """The running turn."""

    id: str
    since: float
    first: float | None = None
    """Time of the agent's first output."""


class _CallSpan(Struct):
    """An open tool call."""

    name: str
    parent: str
    id: str
    agent: str | None = None
    """The key of the span of the sub-agent that works for it."""
    input: Any = None
    output: Any = None


class _QuestionSpan(Struct):
    """An open question."""

    since: float
    kinds: dict[str, str]
    """The kinds of its options, by their ids."""
    turn: str | None


class Spans:
    """The spans of one session. `agent`, `session`: their names in spans; `redact`: if given,
    contents are recorded after this function has processed them."""

    def __init__(self, agent: str, session: str, redact: Redact | None = None) -> None:
        """Begin without spans."""
        self._agent = agent
        self._redact = redact
        self._name = f"invoke_agent {agent}"
        self._always: Attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.provider.name": PROVIDERS.get(agent, agent),
            "gen_ai.agent.name": agent,
            "gen_ai.conversation.id": session,
        }
        self._turn: _TurnSpan | None = None
        self._calls: dict[str, _CallSpan] = {}
        self._asks: dict[str, _QuestionSpan] = {}
        self._waits: list[tuple[float, float]] = []
        """The times of the questions to people in the running turn, from start to end."""
        self._tasks: set[str] = set()
        self._restarts: list[tuple[float, Attributes]] = []
        """Restarts of the agent that are not in a span yet."""
        self._texts: dict[str, int] = {}
        """The ids of the answer's text items, in order, as keys."""
        self._answer: list[str] = []
        self._left = 0
        self._out: list[Operation] = []
        self._at = 0.0

    # --- in and out

    def turn(self, id: str, at: float) -> SpanStart:
        """Return the span of a turn before its `TurnStarted`, which then starts no other."""
        self._turn = _TurnSpan(id, at)
        self._waits.clear()
        self._answer.clear()
        self._texts.clear()
        self._left = MAX_CONTENT_CHARS
        return SpanStart(
            id, self._name, at, {**self._always, "agentrt.turn.id": id}, None, "client"
        )

    def unsent(self, id: str, at: float) -> SpanEnd:
        """End the span of a turn that did not begin."""
        self._turn = None
        return SpanEnd(id, at, {"agentrt.turn.outcome": "unsent"}, "unsent")

    def fold(self, events: list[Event], at: float) -> list[Operation]:
        """Return the span operations for a batch of events that came at time `at`."""
        self._at = at
        take = self._HANDLERS
        for event in events:
            taken = take.get(type(event))
            if taken is not None:
                taken(self, event)
        out, self._out = self._out, []
        return out

    def close(self, at: float) -> list[Operation]:
        """End all open spans, because the session is over."""
        keys = [*self._tasks, *self._asks]
        for id, call in self._calls.items():
            keys += [call.agent, id] if call.agent is not None else [id]
        if self._turn is not None:
            keys.append(self._turn.id)
        self._tasks, self._asks, self._calls, self._turn = set(), {}, {}, None
        return [SpanEnd(key, at, {}, "session_closed") for key in keys]

    def call_of(self, tool: str, id: str | None) -> str | None:
        """Return the key of the span of a tool call: the call with the agent's id `id` or, if the
        agent gives none, the only open call of that tool. None if it is ambiguous or unknown."""
        if id is not None:
            return next((key for key, call in self._calls.items() if call.id == id), None)
        same = [key for key, call in self._calls.items() if _is_called(call.name, tool)]
        return same[0] if len(same) == 1 else None

    @property
    def running(self) -> str | None:
        """The key of the running turn's span."""
        return self._turn.id if self._turn is not None else None

    # --- turns

    def _turn_started(self, event: TurnStarted) -> None:
        """Start the span of a turn, or complete the one that its prompt has started."""
        if self._turn is None or self._turn.id != event.turn:
            self._out.append(self.turn(event.turn, self._at))
        known: Attributes = {}
        if event.origin != "user":
            known["agentrt.turn.origin"] = event.origin
        if self._redact is not None and event.prompt:
            known["gen_ai.input.messages"] = self._messages("user", self._parts(event.prompt))
        if known:
            self._out.append(SpanChange(event.turn, known))
        for at, attributes in self._restarts:
            self._out.append(SpanEvent(event.turn, "agent_restarted", at, attributes))
        self._restarts.clear()

    def _turn_ended(self, event: TurnEnded) -> None:
        """End the span of a turn, with its outcome, usage and waiting times in seconds."""
        turn = self._turn
        if turn is None:
            return
        known: Attributes = {"agentrt.turn.outcome": event.outcome}
        if event.stop_reason is not None:
            known["gen_ai.response.finish_reasons"] = (event.stop_reason,)
        if event.by is not None:
            known["agentrt.turn.cancelled_by"] = event.by
        if turn.first is not None:
            known["gen_ai.response.time_to_first_chunk"] = turn.first - turn.since
        if self._waits:
            known["agentrt.turn.waited"] = together(self._waits)
        if event.usage is not None:
            spend(known, event.usage)
        if self._redact is not None and self._answer:
            answer = {"type": "text", "content": self._redact("".join(self._answer))}
            known["gen_ai.output.messages"] = self._messages(
                "assistant", [answer], finish_reason=event.stop_reason or event.outcome
            )
        error = why = None
        if event.outcome in _FAILURES:
            error = event.error.code if event.error is not None else event.outcome
            why = event.error.message if event.error is not None else ""
        self._out.append(SpanEnd(turn.id, self._at, known, error, why or ""))
        self._turn = None

    def _spoke(self, event: TextDelta | ThoughtDelta) -> None:
        """Note the first output of the turn, and collect its answer up to the maximum size."""
        turn = self._turn
        if turn is None:
            return
        if turn.first is None:
            turn.first = self._at
        if self._redact is not None and self._left > 0 and event.item in self._texts:
            self._answer.append(event.text[: self._left])
            self._left -= len(event.text)

    # --- tool calls

    def _opened(self, event: ItemOpened) -> None:
        """Start the span of a tool call, or note an item of the answer or of a sub-agent."""
        item = event.item
        if item.replay or self._turn is None or item.turn is None:
            return
        if item.type == "text" and item.parent is None:
            if self._texts:
                self._answer.append("\n\n")
            self._texts[item.id] = 1
        elif item.type == "tool" and item.tool is not None:
            self._called(item)
        elif item.parent is not None:
            self._inside(item.parent)

    def _called(self, item: Item) -> None:
        """Start the span of a tool call, inside the span of its turn or of the sub-agent's call."""
        tool = item.tool
        assert tool is not None
        assert self._turn is not None
        parent = self._turn.id if item.parent is None else self._inside(item.parent)
        name = tool.name or tool.kind
        call = self._calls[item.id] = _CallSpan(
            name, parent, tool.call, None, tool.input, tool.output
        )
        known: Attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.type": "extension" if tool.owner == "agent" else "function",
            "gen_ai.conversation.id": self._always["gen_ai.conversation.id"],
        }
        if call.id:
            known["gen_ai.tool.call.id"] = call.id
        if tool.kind != name:
            known["agentrt.tool.kind"] = tool.kind
        self._out.append(SpanStart(item.id, f"execute_tool {name}", self._at, known, parent))

    def _inside(self, item: str) -> str:
        """Return the key of the span for the content of a tool call: the span of the sub-agent that
        the call has started."""
        call = self._calls.get(item)
        if call is None:
            assert self._turn is not None
            return self._turn.id
        if call.agent is None:
            call.agent = f"{item}/agent"
            given = call.input.get("subagent_type") if isinstance(call.input, dict) else None
            known: Attributes = {**self._always, "gen_ai.agent.name": str(given or call.name)}
            name = f"invoke_agent {known['gen_ai.agent.name']}"
            self._out.append(SpanStart(call.agent, name, self._at, known, item))
        return call.agent

    def _updated(self, event: ItemUpdated) -> None:
        """Take over the changed facts about a call, and rename its span."""
        call = self._calls.get(event.item)
        tool = event.patch.get("tool")
        if call is None or not isinstance(tool, dict):
            return
        call.input = tool.get("input", call.input)
        call.output = tool.get("output", tool.get("content", call.output))
        name = tool.get("name") or call.name
        if name != call.name:
            call.name = name
            known: Attributes = {"gen_ai.tool.name": name}
            self._out.append(SpanChange(event.item, known, f"execute_tool {name}"))

    def _closed(self, event: ItemClosed) -> None:
        """End the span of a call, after that of the sub-agent in it."""
        call = self._calls.pop(event.item, None)
        if call is None:
            return
        if call.agent is not None:
            self._out.append(SpanEnd(call.agent, self._at, {}))
        known: Attributes = {"agentrt.tool.status": event.status}
        if self._redact is not None:
            if call.input is not None:
                known["gen_ai.tool.call.arguments"] = self._json(call.input)
            if call.output:
                known["gen_ai.tool.call.result"] = self._json(call.output)
        error = f"tool_{event.status}" if event.status in _BROKEN else None
        self._out.append(SpanEnd(event.item, self._at, known, error))

    # --- questions

    def _asked(self, event: PermissionOpened) -> None:
        """Start the span of a question, below its call or its turn."""
        inside = event.item if event.item in self._calls else self.running
        turn = None if event.background else self.running
        kinds = {option.id: option.kind for option in event.options}
        self._asks[event.request] = _QuestionSpan(self._at, kinds, turn)
        form = event.form is not None or event.url is not None
        name = "elicitation" if form else "permission"
        call = self._calls.get(event.item or "")
        known: Attributes = {"gen_ai.conversation.id": self._always["gen_ai.conversation.id"]}
        if call is not None:
            known["gen_ai.tool.name"] = call.name
        self._out.append(SpanStart(event.request, name, self._at, known, inside))

    def _answered(self, event: PermissionClosed) -> None:
        """End the span of a question; waiting for a person is also added to the turn."""
        ask = self._asks.pop(event.request, None)
        if ask is None:
            return
        known: Attributes = {
            "agentrt.permission.outcome": event.outcome,
            "agentrt.permission.by": event.by,
        }
        if event.option is not None:
            known["agentrt.permission.option"] = ask.kinds.get(event.option, event.option)
        if event.by != "policy" and ask.turn is not None and ask.turn == self.running:
            self._waits.append((ask.since, self._at))
        self._out.append(SpanEnd(event.request, self._at, known))

    # --- other events

    def _changed(self, event: StateChanged) -> None:
        """Note the agent's version, and the beginning of a cancel."""
        version = event.state.agent.version
        if version is not None:
            self._always["gen_ai.agent.version"] = version
        if event.state.phase == "cancelling" and self._turn is not None:
            self._out.append(SpanEvent(self._turn.id, "cancel", self._at, {}))

    def _set(self, event: ModesChanged) -> None:
        """Note the model, which later spans name."""
        if event.modes.model is not None:
            self._always["gen_ai.request.model"] = event.modes.model

    def _worked(self, event: TaskChanged) -> None:
        """Start or end the span of a background task. It may outlive the turn that started it."""
        task = event.task
        key = f"task/{task.id}"
        if task.status not in ("running", "pending"):
            if key in self._tasks:
                self._tasks.discard(key)
                error = f"task_{task.status}" if task.status in _BROKEN else None
                self._out.append(
                    SpanEnd(key, self._at, {"agentrt.task.status": task.status}, error)
                )
        elif key not in self._tasks:
            self._tasks.add(key)
            known: Attributes = {**self._always, "agentrt.task.kind": task.kind or "task"}
            if task.kind != "local_agent":
                del known["gen_ai.operation.name"]
            name = "invoke_agent" if task.kind == "local_agent" else "background_task"
            self._out.append(SpanStart(key, name, self._at, known, self.running))

    def _noticed(self, event: Notice) -> None:
        """Add a notice to the span of the turn; a restart waits for the next turn."""
        if event.code == "agent_restarted":
            resumed = isinstance(event.data, dict) and bool(event.data.get("resumed"))
            self._restarts.append((self._at, {"agentrt.resumed": resumed}))
        elif self._turn is not None and (event.level != "info" or event.code == "stale"):
            known: Attributes = {"agentrt.notice.level": event.level}
            if self._redact is not None:
                known["agentrt.notice.message"] = self._redact(event.message)
            self._out.append(SpanEvent(self._turn.id, event.code, self._at, known))

    # --- contents

    def _parts(self, blocks: list[Block]) -> list[JsonObject]:
        """Return the blocks of a prompt for a span: texts, and the kinds of others."""
        assert self._redact is not None
        parts: list[JsonObject] = []
        for block in blocks:
            if isinstance(block, Text):
                text = self._redact(block.text[:MAX_CONTENT_CHARS])
                parts.append({"type": "text", "content": text})
            else:  # images and files are not recorded
                parts.append({"type": type(block).__name__.lower()})
        return parts

    def _messages(self, role: str, parts: list[JsonObject], **more: str) -> str:
        """Return messages in the form of the conventions, as JSON."""
        return msgspec.json.encode([{"role": role, "parts": parts, **more}]).decode()

    def _json(self, value: Any) -> str:
        """Return a value as JSON, redacted and cut."""
        assert self._redact is not None
        try:
            text = msgspec.json.encode(value).decode()
        except (TypeError, ValueError, RecursionError):
            text = ""
        return self._redact(text)[:MAX_CONTENT_CHARS]

    _HANDLERS: Final[Mapping[type, Callable[..., None]]] = {
        TurnStarted: _turn_started,
        TurnEnded: _turn_ended,
        TextDelta: _spoke,
        ThoughtDelta: _spoke,
        ItemOpened: _opened,
        ItemUpdated: _updated,
        ItemClosed: _closed,
        PermissionOpened: _asked,
        PermissionClosed: _answered,
        StateChanged: _changed,
        ModesChanged: _set,
        TaskChanged: _worked,
        Notice: _noticed,
    }
    """The method for each type of event."""


def spend(known: Attributes, usage: Usage) -> None:
    """Add the usage of a turn. The conventions include cached tokens and thoughts."""
    parts = (usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens)
    if usage.input_tokens is not None:
        known["gen_ai.usage.input_tokens"] = sum(part or 0 for part in parts)
    if usage.output_tokens is not None:
        known["gen_ai.usage.output_tokens"] = usage.output_tokens + (usage.thought_tokens or 0)
    for name, value in (
        ("gen_ai.usage.cache_read.input_tokens", usage.cache_read_tokens),
        ("gen_ai.usage.cache_creation.input_tokens", usage.cache_write_tokens),
        ("gen_ai.usage.reasoning.output_tokens", usage.thought_tokens),
        ("agentrt.usage.cost", usage.cost),
        ("agentrt.usage.currency", usage.currency),
    ):
        if value is not None:
            known[name] = value


def together(spans: list[tuple[float, float]]) -> float:
    """Return the total time during which at least one of the spans lasted."""
    total, reached = 0.0, float("-inf")
    for begin, end in sorted(spans):
        total += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return total


def _is_called(shown: str, tool: str) -> bool:
    """True if an agent's name for a tool is that of `tool`, with or without its MCP server."""
    return shown == tool or shown.endswith((f"__{tool}", f".{tool}", f"/{tool}", f":{tool}"))
