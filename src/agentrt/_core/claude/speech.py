"""Claude's output as effects: text, thoughts, tool calls and results.

With partial messages on, every text arrives twice: in pieces, and whole in an `assistant` message
just before its block ends. The pieces are shown. The whole message only adds text that the pieces
lacked, which also handles a message without pieces (from a sub-agent or an older CLI). Pieces that
come after their whole message are recognised as already shown. A whole message that comes again, by
its uuid, is ignored.

A stream may break off in the middle of a block. Claude then asks the model again, and the shown
part of that block is not part of the answer. The same is true of text that Claude retracts by its
uuids.

The steps of a background agent are reported like those of any sub-agent, below the call that
started it. Its task marks them as outside every turn (`tasks.py`).

The agent's plan comes from the tools with which Claude maintains it. Older versions replace the
whole list with `TodoWrite`; newer ones maintain single entries with `TaskCreate` and `TaskUpdate`,
which get their ids with their results.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import UNSET, Struct, field, to_builtins

from ..model.content import Block, JsonObject, Text, ToolContent
from ..model.driver import (
    BlockReceived,
    Effect,
    PlanSet,
    RecentKeys,
    Retracted,
    TextEnded,
    TextReceived,
    ToolCalled,
    UserContentReceived,
)
from ..model.events import ItemStatus, Notice, PlanEntry
from . import messages as wire
from .blocks import citation_of, from_claude, tool_content
from .toolkit import content_of, is_edit, kind_of, locations_of, title_of


class ClaudePlan:
    """The entries, by id. Each method returns the new plan, or None if nothing changed."""

    def __init__(self) -> None:
        """Begin without entries."""
        self._entries: dict[str, PlanEntry] = {}
        self._calls: dict[str, tuple[str, JsonObject]] = {}

    def called(self, call: str, name: str, arguments: Any) -> list[PlanEntry] | None:
        """Take a tool call with its whole input."""
        if not isinstance(arguments, dict):
            return None
        if name == "TodoWrite":
            return self._replace(arguments.get("todos"))
        if name in ("TaskCreate", "TaskUpdate", "TaskList"):
            self._calls[call] = (name, arguments)
        return None

    def answered(self, call: str, failed: bool, result: Any) -> list[PlanEntry] | None:
        """Take a tool's result in the CLI's structured form."""
        name, arguments = self._calls.pop(call, ("", {}))
        if failed or not name or not isinstance(result, dict):
            return None
        match name:
            case "TaskCreate":
                created = result.get("task")
                if not isinstance(created, dict) or "id" not in created:
                    return None
                entry = PlanEntry(str(created.get("subject") or arguments.get("subject") or ""))
                self._entries[str(created["id"])] = entry
            case "TaskUpdate":
                return self._update(str(arguments.get("taskId")), arguments)
            case _:
                return self._replace(result.get("tasks"))
        return self._list()

    def _update(self, id: str, arguments: JsonObject) -> list[PlanEntry] | None:
        """Change an entry, or delete it; fields that the call does not name stay."""
        entry = self._entries.get(id)
        if entry is None:
            return None
        status = arguments.get("status")
        if status == "deleted":
            del self._entries[id]
        else:
            subject = str(arguments.get("subject") or entry.content)
            self._entries[id] = PlanEntry(subject, str(status or entry.status))
        return self._list()

    def _replace(self, entries: Any) -> list[PlanEntry] | None:
        """Replace all entries. Those of `TodoWrite` have no ids, so their positions serve."""
        if not isinstance(entries, list):
            return None
        self._entries = {
            str(entry.get("id", number)): PlanEntry(
                str(entry.get("content") or entry.get("subject") or ""),
                str(entry.get("status") or "pending"),
                str(entry.get("priority") or "medium"),
            )
            for number, entry in enumerate(entries)
            if isinstance(entry, dict)
        }
        return self._list()

    def _list(self) -> list[PlanEntry]:
        """Return the entries in the order in which they were created."""
        return list(self._entries.values())


CALLS = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
CONTEXT_USAGE_FIELDS = (
    "input_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
    "output_tokens",
)
REMEMBERED_MESSAGES = 1024
"""At least this many whole messages are recognised when they come again or are retracted."""
FIRST_INPUT_CHARS: Final = 256
"""Characters of a call's arguments that are shown before the call is complete."""
SYNTHETIC = "<synthetic>"
"""The model's name in messages that the CLI wrote itself."""


class _OpenSpeech(Struct):
    """A text or thinking block that arrives in pieces."""

    thought: bool
    said: int = 0
    """Characters shown so far."""
    ahead: str = ""
    """Text that was already shown whole, and may now come in pieces."""
    ended: bool = False


class _OpenInput(Struct):
    """The arguments of a call that arrive in pieces."""

    call: str
    pieces: list[str] = field(default_factory=list)
    chars: int = 0
    next_chars: int = FIRST_INPUT_CHARS
    """The length at which they are shown next. It doubles, so that showing them stays linear."""


class _StreamedMessage(Struct):
    """The message that one agent (the main one or a sub-agent) is writing."""

    message: str | None = None
    blocks: dict[int, _OpenSpeech] = field(default_factory=dict)
    inputs: dict[int, _OpenInput] = field(default_factory=dict)
    unconfirmed: list[_OpenSpeech] = field(default_factory=list)
    """Blocks without their `assistant` message."""
    unstreamed: list[_OpenSpeech] = field(default_factory=list)
    """Blocks that were shown whole; their pieces may follow."""


class ApiError(Struct):
    """The CLI's message in place of the model's after a failure of the API."""

    code: str
    message: str
    status: int | None = None


class ClaudeTranslator:
    """Converts the conversation's messages to effects, appended to `out`."""

    def __init__(self) -> None:
        """Create a translator. Its sets are shared with the driver, which reads and extends
        them.
        """
        self.background: set[str] = set()
        """Tool calls with a sub-agent that works in the background, and all calls below them."""
        self.denied: set[str] = set()
        """Tool calls that were refused, by an answer or by a rule."""
        self.interrupted = False
        """True if an interrupt was sent: running calls did not fail, and were not refused."""
        self.api_error: ApiError | None = None
        self.context: dict[str, int] = {}
        """Tokens in the main agent's context, by the API's names."""
        self.stop_reason: str | None = None
        """Stop reason of the main agent's last message, once it is complete."""
        self._streams: dict[str | None, _StreamedMessage] = {}
        self._wholes = RecentKeys(REMEMBERED_MESSAGES)
        """The last whole messages: their uuids, with the API's ids of their messages."""
        self._names: dict[str, str] = {}
        """Tool names of the calls that have no result yet."""
        self._typed: set[str] = set()
        """Calls of which a part of the arguments was shown."""
        self._plan = ClaudePlan()

    def turn_ended(self) -> None:
        """Forget the state of the turn, except for calls of background agents."""
        self.interrupted = False
        self.api_error = None
        self._typed.clear()
        self.denied &= self.background
        if self._names:
            self._names = {id: name for id, name in self._names.items() if id in self.background}

    # --- in pieces

    def pieces(
        self, parent: str | None, index: int, thought: bool, text: str, out: list[Effect]
    ) -> None:
        """Take text of one block, perhaps from many deltas."""
        stream = self._streams.get(parent)
        if stream is None:
            stream = self._streams[parent] = _StreamedMessage()
        speech = stream.blocks.get(index)
        if speech is None:  # its start was lost
            speech = self._begin(stream, index, thought)
        if speech.ahead:
            at, speech.said = speech.said, speech.said + len(text)
            if speech.ahead.startswith(text, at):
                return
            shown, speech.ahead = speech.ahead[at:], ""
            text = text.removeprefix(shown)
        else:
            speech.said += len(text)
        out.append(TextReceived(text, thought, stream.message, parent))

    def stream_event(self, event: wire.Event, parent: str | None, out: list[Effect]) -> None:
        """Take a streaming event that is not a piece of text."""
        match event.type:
            case "message_start":
                message = event.message
                self._start(parent, message.id if message is not None else None, out)
                if parent is None:
                    self.stop_reason = None
                    self._count(message.usage if message is not None else None)
            case "content_block_start" if event.content_block is not None:
                self._block_start(event.index, event.content_block, parent, out)
            case "content_block_delta" if event.delta is not None:
                self._delta(event.index, event.delta, parent, out)
            case "content_block_stop":
                self._block_stop(event.index, parent, out)
            case "message_delta" if parent is None:
                self._count(event.usage)
                if event.delta is not None:
                    self.stop_reason = event.delta.stop_reason
            case _:
                pass

    def _start(self, parent: str | None, message: str | None, out: list[Effect]) -> None:
        """Note that a message begins to stream."""
        self._break_off(parent, out)
        before = self._streams.get(parent)
        stream = self._streams[parent] = _StreamedMessage(message)
        if before is not None and message is not None and before.message == message:
            stream.unstreamed = before.unstreamed

    def _break_off(self, parent: str | None, out: list[Effect]) -> None:
        """End an incomplete message that will never be completed."""
        stream = self._streams.get(parent)
        if stream is None:
            return
        if any(speech.said and not speech.ended for speech in stream.unconfirmed):
            out.append(TextEnded(parent=parent, broken=True))
        stream.unconfirmed.clear()
        stream.blocks.clear()
        stream.inputs.clear()

    def _begin(self, stream: _StreamedMessage, index: int, thought: bool) -> _OpenSpeech:
        """Begin a block of text or thought.

        If its whole message came first, it is already shown; the pieces are then compared with it.
        """
        shown = next((s for s in stream.unstreamed if s.thought is thought), None)
        speech = stream.blocks[index] = _OpenSpeech(thought)
        if shown is None:
            stream.unconfirmed.append(speech)
        else:
            stream.unstreamed.remove(shown)
            speech.ahead = shown.ahead
        return speech

    def _block_start(
        self, index: int, block: wire.ClaudeBlock, parent: str | None, out: list[Effect]
    ) -> None:
        """Take the start of a block, which may have its first text. A call is shown immediately."""
        if block.type in ("text", "thinking"):
            self._begin(
                self._streams.setdefault(parent, _StreamedMessage()), index, block.type != "text"
            )
            if text := _text_of(block):
                self.pieces(parent, index, block.type != "text", text, out)
        elif block.type in CALLS and block.id:
            self.announced(block.id, block.name or "", parent, out)
            stream = self._streams.setdefault(parent, _StreamedMessage())
            stream.inputs[index] = _OpenInput(block.id)

    def _delta(self, index: int, delta: wire.Delta, parent: str | None, out: list[Effect]) -> None:
        """Take a piece of a call's arguments."""
        stream, piece = self._streams.get(parent), delta.partial_json
        given = None if stream is None else stream.inputs.get(index)
        if given is None or not isinstance(piece, str) or given.call not in self._names:
            return
        given.pieces.append(piece)
        given.chars += len(piece)
        if given.chars >= given.next_chars:
            given.next_chars = 2 * given.chars
            text = "".join(given.pieces)
            given.pieces = [text]
            self._typed.add(given.call)
            out.append(ToolCalled(id=given.call, input_text=text, parent=parent))

    def announced(self, call: str, name: str, parent: str | None, out: list[Effect]) -> None:
        """Report a tool call before its input is known."""
        if call in self._names:
            return  # its whole message came first
        self._name(call, name, parent)
        out.append(
            ToolCalled(
                id=call,
                opens=True,
                name=name,
                title=title_of(name, None),
                kind=kind_of(name),
                status="pending",
                parent=parent,
            )
        )

    def _block_stop(self, index: int, parent: str | None, out: list[Effect]) -> None:
        """End a block; a text without any characters is not reported."""
        stream = self._streams.get(parent)
        if stream is not None:
            stream.inputs.pop(index, None)
        speech = stream.blocks.pop(index, None) if stream is not None else None
        if speech is not None:
            speech.ended = True
            if speech.said:
                out.append(TextEnded(parent=parent))

    def _count(self, usage: Any) -> None:
        """Note the tokens in the main agent's context, from the API's usage of its last message."""
        if isinstance(usage, dict):
            for name in CONTEXT_USAGE_FIELDS:
                if isinstance(usage.get(name), int):
                    self.context[name] = usage[name]

    # --- whole messages

    def assistant(self, m: wire.Assistant, out: list[Effect]) -> None:
        """Take a whole message of the model's."""
        parent, message = m.parent_tool_use_id, m.message
        blocks = _blocks(message)
        if isinstance(m.uuid, str) and not self._wholes.add(m.uuid, message.id):
            return  # it has come before
        if m.error is not None and message.model == SYNTHETIC:
            self._break_off(parent, out)
            self._api_failed(m, blocks)
            return
        stream = self._streams.get(parent)
        if parent is None and (stream is None or stream.message != message.id):
            self._count(message.usage)
        for block in blocks:
            if block.type in ("text", "thinking"):
                self._confirm(block, message.id, parent, out)
                self._cite(block.citations, message.id, parent, out)
            elif block.type in CALLS and block.id:
                self._call(block, block.id, parent, out)
            elif block.type.endswith("_tool_result") and block.tool_use_id:
                self._result(block, block.tool_use_id, parent, {}, None, out)
            else:
                out += [
                    BlockReceived(block=b, message=message.id, parent=parent) for b in _shown(block)
                ]

    def _cite(
        self, citations: Any, message: str | None, parent: str | None, out: list[Effect]
    ) -> None:
        """Show the sources of a text, each once."""
        if not isinstance(citations, list):
            return
        found = map(citation_of, citations)
        sources = {(each.uri, each.description): each for each in found if each is not None}
        out += [BlockReceived(block=b, message=message, parent=parent) for b in sources.values()]

    def _confirm(
        self, block: wire.ClaudeBlock, message: str | None, parent: str | None, out: list[Effect]
    ) -> None:
        """Take a whole text and show the part that its pieces lacked."""
        text, thought = _text_of(block), block.type != "text"
        speech = self._streamed(text, thought, message, parent)
        rest = text[speech.said :] if speech is not None else text
        if rest:
            out.append(TextReceived(rest, thought, message, parent))
        if speech is not None:
            speech.said += len(rest)
        if rest and (speech is None or speech.ended):
            out.append(TextEnded(parent=parent))

    def _streamed(
        self, text: str, thought: bool, message: str | None, parent: str | None
    ) -> _OpenSpeech | None:
        """Return the streamed speech that a whole text confirms.

        If the text was not streamed, note it, so that pieces that come later are not shown again.
        """
        stream = self._streams.get(parent)
        if stream is not None and stream.message == message:
            speech = next((s for s in stream.unconfirmed if s.thought is thought), None)
            if speech is not None:
                stream.unconfirmed.remove(speech)
                return speech
        elif message is not None and (stream is None or not stream.unconfirmed):
            stream = self._streams[parent] = _StreamedMessage(message)
        if stream is not None and stream.message == message is not None:
            stream.unstreamed.append(_OpenSpeech(thought, ahead=text))
        return None

    def _call(
        self, block: wire.ClaudeBlock, id: str, parent: str | None, out: list[Effect]
    ) -> None:
        """Report a call with its whole input, and close the view of its partial input."""
        name = block.name or ""
        opens = id not in self._names
        self._name(id, name, parent)
        out.append(
            ToolCalled(
                id=id,
                opens=opens,
                name=name,
                title=title_of(name, block.input),
                kind=kind_of(name),
                status="running",
                input=block.input,
                input_text="" if id in self._typed else UNSET,
                content=content_of(name, block.input) or UNSET,
                locations=locations_of(block.input) or UNSET,
                parent=parent,
            )
        )
        self._typed.discard(id)
        if parent is None and (plan := self._plan.called(id, name, block.input)) is not None:
            out.append(PlanSet(plan))

    def _name(self, call: str, name: str, parent: str | None) -> None:
        """Remember a call until its result comes."""
        self._names[call] = name
        if parent in self.background:
            self.background.add(call)

    def retracted(self, uuids: list[str], out: list[Effect]) -> None:
        """Report that Claude has retracted messages."""
        messages = frozenset(filter(None, (self._wholes.get(uuid) for uuid in uuids)))
        if messages:
            out.append(Retracted(messages))

    def _api_failed(self, m: wire.Assistant, blocks: list[wire.ClaudeBlock]) -> None:
        """Keep the CLI's message about a failed request for the error of the turn's result."""
        status = m.api_error_status
        self.api_error = ApiError(
            str(m.error),
            "".join(map(_text_of, blocks)),
            status if isinstance(status, int) else None,
        )

    # --- user messages

    def user(self, m: wire.User, ours: bool, out: list[Effect]) -> None:
        """Take tool results and echoes. `ours`: the message repeats a prompt sent by this
        driver."""
        parent, content = m.parent_tool_use_id, m.message.content
        if isinstance(content, str):
            self._user_text(content, m, ours, out)
            return
        meta = _by_id(m.tool_result_meta)
        results = [b for b in content if b.type == "tool_result" and b.tool_use_id]
        for block in results:
            assert block.tool_use_id is not None
            structured = m.tool_use_result if len(results) == 1 else None
            self._result(
                block, block.tool_use_id, parent, meta.get(block.tool_use_id, {}), structured, out
            )
        if m.isReplay and not results and not ours and parent is None:
            said = [part for b in content for part in _shown(b)]
            if said:
                out.append(UserContentReceived(content=said, message=m.uuid))

    def _user_text(self, text: str, m: wire.User, ours: bool, out: list[Effect]) -> None:
        """Report the output of a local command as a notice, or show a replayed user message."""
        for tag, level in (("local-command-stdout", "info"), ("local-command-stderr", "warning")):
            if text.startswith(f"<{tag}>"):
                said = text.removeprefix(f"<{tag}>").removesuffix(f"</{tag}>").strip()
                if said:
                    out.append(Notice(level, "local_command", said))  # type: ignore[arg-type]
                return
        if m.isReplay and not ours and m.parent_tool_use_id is None:
            out.append(UserContentReceived(content=[Text(text)], message=m.uuid))

    def _result(
        self,
        block: wire.ClaudeBlock,
        id: str,
        parent: str | None,
        meta: dict[str, Any],
        structured: Any,
        out: list[Effect],
    ) -> None:
        """Report the result of a tool call, by the id of the call.

        The result of an edit is not shown, because the call shows the change. Entries of the plan
        get their ids here.
        """
        failed = bool(block.is_error)
        status = self._status(id, failed, meta.get("non_execution_kind"))
        content: list[ToolContent] = _unwrapped(block.content)
        name = self._names.pop(id, "")
        if id not in self.background:
            self._streams.pop(id, None)  # a sub-agent has ended with its call
        out.append(
            ToolCalled(
                id=id,
                status=status,
                content=UNSET if is_edit(name) and not failed else content,
                output=structured if isinstance(structured, dict | list) else UNSET,
                parent=parent,
            )
        )
        if parent is None and (plan := self._plan.answered(id, failed, structured)) is not None:
            out.append(PlanSet(plan))

    def _status(self, id: str, failed: bool, unexecuted: Any) -> ItemStatus:
        """Return the status of a call with a result.

        `non_execution_kind` in the result's metadata means that the tool did not run: refused by a
        rule, or interrupted.
        """
        if id in self.denied:
            return "denied" if failed else "completed"
        if unexecuted is not None:
            # Claude calls it an interrupt if a user's rejection did not come from this driver.
            stopped = self.interrupted or unexecuted in ("interrupted", "user-rejected")
            return "cancelled" if stopped else "denied"
        if failed:
            return "cancelled" if self.interrupted else "failed"
        return "completed"


def _blocks(message: wire.ApiMessage) -> list[wire.ClaudeBlock]:
    """Return the blocks of a message, whose content may be a plain text."""
    if isinstance(message.content, str):
        return [wire.ClaudeBlock(type="text", text=message.content)]
    return message.content


def _text_of(block: wire.ClaudeBlock) -> str:
    """Return the text of a text or thinking block."""
    if block.type == "thinking":
        return block.thinking or block.text or ""
    return block.text or ""


def _shown(block: wire.ClaudeBlock) -> list[Block]:
    """Return a block in neutral form."""
    return from_claude([to_builtins(block)])


def _unwrapped(content: Any) -> list[ToolContent]:
    """Return a result's content without the tags that mark it as an error for the model."""
    if isinstance(content, str):
        content = content.removeprefix("<tool_use_error>").removesuffix("</tool_use_error>")
    return tool_content(content)


def _by_id(meta: Any) -> dict[str, dict[str, Any]]:
    """Return the metadata of tool results by the ids of their calls."""
    if not isinstance(meta, list):
        return {}
    return {m["id"]: m for m in meta if isinstance(m, dict) and isinstance(m.get("id"), str)}
