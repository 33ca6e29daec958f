"""One session as ACP's `session/update` notifications: the difference between the client's
knowledge and the session's current state.

ACP has no event numbers and no snapshot, and clients show a message exactly as its chunks arrive.
So for each session and client, `Updates` remembers the length of each text, the fields of each tool
call, and the values of which a session has one (`WHOLE`), as they were last sent, and sends the
differences. This makes updates of any size: a client that reads slowly gets several changes in one.

Background work has no place in ACP either. It is shown in the tool call that began it, which stays
in progress until the work has ended, or in a call made for it (prefix `TASK`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, Protocol

import msgspec

from ..display import request_parts
from ..events import (
    TERMINAL,
    Choice,
    Item,
    JsonObject,
    Modes,
    Notice,
    Option,
    PermissionOpened,
    PlanEntry,
    Task,
    TerminalRef,
    Text,
    ToolCall,
)
from ..lowlevel import SessionState
from .transcript import ItemIndex, ItemReader

CHUNKS: Final = {
    "user": "user_message_chunk",
    "text": "agent_message_chunk",
    "thought": "agent_thought_chunk",
}

STATUS: Final = {
    "pending": "pending",
    "waiting": "pending",
    "running": "in_progress",
    "completed": "completed",
}
"""Statuses in ACP's terms; all others are failures."""

KINDS: Final = frozenset(
    ("read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode")
)
SUBJECTS: Final = {"Network": "fetch", "Read": "read", "Write": "edit", "Program": "execute"}
"""The kinds of the subjects of agentrt's own requests; that of others is not known."""
PLAN_STATUS: Final = frozenset(("pending", "in_progress", "completed"))
PRIORITIES: Final = frozenset(("high", "medium", "low"))

WHOLE: Final = ("plan", "modes", "commands", "title", "usage")
"""Values of which a session has only one."""

TASK: Final = "task-"
"""Prefix of the ids of tool calls that stand for background work."""

RUNNING_OUTPUT_CHARS: Final = 16 * 1024
"""Maximum characters sent of a running tool's output: each update repeats them."""


NONE: Final[Mapping[str, str]] = MappingProxyType({})


class Prompted(Protocol):
    """A prompt of the client; `id` is the id of its turn, once that has begun."""

    @property
    def id(self) -> str: ...


class Updates:
    """One client's knowledge of one session.

    - `prompts`: prompts that the client has sent and waits for; it shows them by itself.
    - `notices`, `switches`: true if the client shows notices, and options that are on or off.
    - `knows`: the client already shows the session's history.
    - `terminals`: the client's own terminals: its names for them, by the agent's names.
    """

    def __init__(
        self,
        transcript: ItemIndex,
        prompts: Mapping[Any, Prompted],
        *,
        notices: bool = False,
        switches: bool = False,
        knows: bool = False,
        terminals: Mapping[str, str] = NONE,
    ) -> None:
        self._transcript = transcript
        self._terminals = terminals
        state = self._state
        self._prompts = prompts
        self._notices = notices
        self._switches = switches
        self._reading: ItemReader[JsonObject] = ItemReader(
            transcript, len(state.items) if knows else 0
        )
        self._met: set[str] = set()
        self._tasks: dict[str, Task] = dict(state.tasks) if knows else {}
        """Background work as it was last sent."""
        self._work: dict[str, dict[str, None]] = {}
        """The ids of the background work that each call began."""
        self._separate: set[str] = set()
        """Background work with a call of its own. It keeps it: some agents say only later which
        call began the work, and the client would see the first call run forever."""
        for task in self._tasks.values():
            if task.item is not None:
                self._work.setdefault(task.item, {})[task.id] = None
        # Values as they were last sent. The initial modes are part of an answer.
        self._whole: dict[str, object] = {"modes": state.modes}
        if knows:
            self._whole |= {name: getattr(state, name) for name in WHOLE}
            open = state.open_items()
            texts = {item.id: len(state.text(item.id)) for item in open if item.type in CHUNKS}
            self._reading.texts.update(texts)
            # The client may have missed their beginning: they are sent as new ones.
            self._met = {item.id for item in open if item.type == "tool"}

    @property
    def _state(self) -> SessionState:
        """The session's state, as far as it is shown to viewers."""
        return self._transcript.log.state

    def updates(self, repeat: Callable[[], bool]) -> Iterator[JsonObject]:
        """Yield the updates that are due, each as current as when it is requested, until the client
        knows everything. `repeat`: returns true if the client's own prompts are sent, too.
        """
        changed = True
        while changed:
            for change in self._reading.pending():
                if not isinstance(change, Notice):
                    yield from self._item(*change, repeat)
                elif self._notices:
                    yield {
                        "sessionUpdate": "notice",
                        "severity": change.level,
                        "title": change.message,
                    }
            changed = False
            for update in [u for name in WHOLE for u in self._changed(name)]:
                changed = True
                yield update
            known = self._tasks
            for task in [t for id, t in self._state.tasks.items() if known.get(id) is not t]:
                changed = True
                yield self._task(task)

    def _task(self, task: Task) -> JsonObject:
        """Return background work as a tool call: the one that began it, or one of its own."""
        known = task.id in self._tasks
        self._tasks[task.id] = task
        item = None if task.id in self._separate else self._state.items.get(task.item or "")
        if item is not None:
            self._work.setdefault(item.id, {})[task.id] = None
            head = {"sessionUpdate": "tool_call_update", "toolCallId": item.id}
            return {**head, "content": self._call(item)["content"], **_about_task(task)}
        self._separate.add(task.id)
        head = {"sessionUpdate": "tool_call_update" if known else "tool_call"}
        return {
            **head,
            "toolCallId": f"{TASK}{task.id}",
            "title": task.title or task.kind or task.id,
            "kind": "other",
            "status": STATUS.get(task.status, "failed"),
            "content": _task_content(task),
            **_about_task(task),
        }

    def _call(self, item: Item) -> JsonObject:
        """Return all fields of a tool call except its id, with the work that it began."""
        text = self._state.text(item.id)
        call = _call(item, item.tool or ToolCall(), text, self._terminals)
        for id in self._work.get(item.id, ()):
            call["content"] += _task_content(self._tasks[id])
        return call

    def _item(self, item: Item, new: bool, repeat: Callable[[], bool]) -> list[JsonObject]:
        """Return the updates for an item that is new or has changed; other kinds than tools and
        texts have none in ACP.
        """
        if item.type == "tool":
            return self._tool(item, new)
        if item.type in CHUNKS and (new or item.id in self._reading.texts):
            return self._text(item, repeat())
        return []

    def asked(self, ask: PermissionOpened) -> JsonObject:
        """Return the tool call of a permission request, as an update with everything known of
        it.

        Of a request without a tool call, editors show the title and the content.
        """
        item = self._state.items.get(ask.item or "")
        if item is not None and item.tool is not None:
            return {"toolCallId": item.id, **self._call(item), "status": "pending"}
        call: JsonObject = {"toolCallId": ask.request, "title": ask.title, "status": "pending"}
        if ask.subject in SUBJECTS:
            call["kind"] = SUBJECTS[ask.subject]
        if content := request_content(ask):
            call["content"] = content
        if isinstance(ask.detail, dict):
            call["rawInput"] = ask.detail
        return call

    def _text(self, item: Item, repeat: bool) -> list[JsonObject]:
        """Return the content and the part of the text that the client lacks, as chunks.

        The content of the client's own prompt is sent only if the history is repeated: it shows
        that itself.
        """
        out: list[JsonObject] = []
        shown = self._reading.texts.get(item.id)
        text = self._state.text(item.id)
        head: JsonObject = {
            "sessionUpdate": CHUNKS[item.type],
            "messageId": item.id,
            **_about(item),
        }
        if shown is None and item.content:
            if item.type != "user" or repeat or not self._sent(item.turn):
                out += [{**head, "content": block} for block in item.content]
        if len(text) > (shown or 0):
            out.append({**head, "content": Text(text[shown or 0 :])})
        self._reading.texts[item.id] = len(text)
        return out

    def _sent(self, turn: str | None) -> bool:
        """True if a turn began with a prompt of this client."""
        return any(prompt.id == turn for prompt in self._prompts.values())

    def _tool(self, item: Item, new: bool) -> list[JsonObject]:
        """Return a new tool call with all fields, or the changed fields of a known one.

        Calls in `_met` began before the client attached: they are sent as new, because it may not
        know them.
        """
        now = self._call(item)
        known = self._reading.tools.get(item.id, {})
        self._reading.tools[item.id] = now
        if new or item.id in self._met:
            self._met.discard(item.id)
            return [{"sessionUpdate": "tool_call", "toolCallId": item.id, **now}]
        changed = {key: value for key, value in now.items() if known.get(key) != value}
        head = {"sessionUpdate": "tool_call_update", "toolCallId": item.id}
        return [{**head, **changed}] if changed else []

    def _changed(self, what: str) -> list[JsonObject]:
        """Return the updates for one of `WHOLE`, if it has changed since it was sent."""
        known, now = self._whole.get(what), getattr(self._state, what)
        if now is known or (known is None and not now):
            return []
        self._whole[what] = now
        match what:
            case "plan":
                return [{"sessionUpdate": "plan", "entries": list(map(_plan_entry, now))}]
            case "commands":
                commands = [
                    {
                        "name": command.name,
                        "description": command.description,
                        "input": {"hint": command.hint} if command.hint else None,
                    }
                    for command in now
                ]
                update = {"sessionUpdate": "available_commands_update"}
                return [{**update, "availableCommands": commands}]
            case "title":
                return [{"sessionUpdate": "session_info_update", "title": now}]
            case "usage" if now.used is not None and now.size is not None:
                usage = {"sessionUpdate": "usage_update", "used": now.used, "size": now.size}
                if now.cost is not None:
                    usage["cost"] = {"amount": now.cost, "currency": now.currency or "USD"}
                if now.limits:
                    usage["_meta"] = {"agentrt": {"limits": now.limits}}
                return [usage]
            case "modes":
                return list(_modes(known, now, switches=self._switches))
        return []


def _plan_entry(entry: PlanEntry) -> JsonObject:
    """Return an entry of the plan. Values that ACP does not know become the neutral ones."""
    return {
        "content": entry.content,
        "status": entry.status if entry.status in PLAN_STATUS else "pending",
        "priority": entry.priority if entry.priority in PRIORITIES else "medium",
    }


def _modes(known: Any, now: Modes, *, switches: bool) -> Iterator[JsonObject]:
    """Yield the updates for a changed mode and for changed options."""
    if now.mode is not None and (known is None or now.mode != known.mode):
        yield {"sessionUpdate": "current_mode_update", "currentModeId": now.mode}
    options = option_list(now, switches=switches)
    if options != option_list(known, switches=switches):
        yield {"sessionUpdate": "config_option_update", "configOptions": options}


def mode_state(modes: Modes | None) -> JsonObject | None:
    """Return the modes in the form of ACP; None if the agent has none."""
    if modes is None or modes.mode is None:
        return None
    return {"currentModeId": modes.mode, "availableModes": [_choice("id", m) for m in modes.modes]}


def model_state(modes: Modes | None) -> JsonObject | None:
    """Return the models in the form for clients that are older than the options."""
    if modes is None or modes.model is None:
        return None
    models = [_choice("modelId", model) for model in modes.models]
    return {"currentModelId": modes.model, "availableModels": models}


def option_list(modes: Modes | None, *, switches: bool) -> list[JsonObject]:
    """Return mode, model and all options, for clients that look at nothing else. `switches`:
    include options that are on or off.
    """
    if modes is None:
        return []
    known = {option.id for option in modes.options}
    options = [*modes.options]
    for name, value, choices in (
        ("model", modes.model, modes.models),
        ("mode", modes.mode, modes.modes),
    ):
        if value is not None and choices and name not in known:
            title = name.capitalize()
            options.insert(
                0, Option(id=name, name=title, category=name, value=value, choices=choices)
            )
    return [_option(each) for each in options if switches or not isinstance(each.value, bool)]


def _option(option: Option) -> JsonObject:
    """Return an option in the form of ACP: a switch, or a choice with its values."""
    shown: JsonObject = {"id": option.id, "name": option.name, "currentValue": option.value}
    if option.category is not None:
        shown["category"] = option.category
    if option.description is not None:
        shown["description"] = option.description
    if isinstance(option.value, bool):
        return {**shown, "type": "boolean"}
    values = [_choice("value", choice) for choice in option.choices]
    return {**shown, "type": "select", "options": values}


def _choice(key: str, choice: Choice) -> JsonObject:
    """Return a choice; `key` is the name that ACP gives to the id in this place."""
    shown: JsonObject = {key: choice.id, "name": choice.name}
    return shown if choice.description is None else {**shown, "description": choice.description}


def _call(item: Item, tool: ToolCall, text: str, terminals: Mapping[str, str]) -> JsonObject:
    """Return all fields of a tool call except its id."""
    content: list[Any] = []
    for part in tool.content:
        if not isinstance(part, TerminalRef):
            content.append(msgspec.to_builtins(part))
        elif part.terminal_id in terminals:  # the client shows its content by itself
            content.append({"type": "terminal", "terminalId": terminals[part.terminal_id]})
            text = ""
    if tool.input_text and not content and not text:  # the agent is still writing the call
        text = tool.input_text
    # The client cannot access any other terminal.
    if text:
        shown = text if item.status in TERMINAL else text[-RUNNING_OUTPUT_CHARS:]
        content.append({"type": "content", "content": {"type": "text", "text": shown}})
    call: JsonObject = {
        "title": tool.title or tool.name or tool.kind,
        "kind": tool.kind if tool.kind in KINDS else "other",
        "status": STATUS.get(item.status, "failed"),
        "content": content,
        "locations": tool.locations,
        **_about(item),
    }
    if tool.name:
        call["name"] = tool.name
    if tool.input is not None:
        call["rawInput"] = tool.input
    if tool.output is not None:
        call["rawOutput"] = tool.output
    return call


def request_content(ask: PermissionOpened) -> list[JsonObject]:
    """Return all parts of a request as content: changes of files, and lines of text."""
    content: list[JsonObject] = []
    lines: list[str] = []
    for part in request_parts(ask, None):
        if part.kind == "diff":
            diff: JsonObject = {"type": "diff", "path": part.label, "newText": part.text}
            content.append(diff if part.old is None else {**diff, "oldText": part.old})
        else:
            lines.append(part.text if part.kind == "text" else f"{part.label}: {part.text}")
    if lines:
        text = {"type": "text", "text": "\n".join(lines)}
        content.insert(0, {"type": "content", "content": text})
    return content


def _task_content(task: Task) -> list[JsonObject]:
    """Return the progress or the report of background work, and its usage."""
    facts = [task.detail or ""]
    if task.usage is not None and task.usage.total_tokens is not None:
        facts.append(f"{task.usage.total_tokens:,} tokens")
    text = "\n".join(filter(None, facts))
    return [{"type": "content", "content": {"type": "text", "text": text}}] if text else []


def _about_task(task: Task) -> JsonObject:
    """Return agentrt's own data about background work."""
    return {"_meta": {"agentrt": {"task": {"id": task.id, "status": task.status}}}}


def _about(item: Item) -> JsonObject:
    """Return agentrt's own data: why a call failed, and which call an item belongs to."""
    ours: JsonObject = {}
    if item.parent is not None:
        ours["parent"] = item.parent
    if item.type == "tool" and item.status in TERMINAL and item.status not in STATUS:
        ours["status"] = item.status
    return {"_meta": {"agentrt": ours}} if ours else {}
