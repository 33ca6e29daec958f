"""One turn as UI message chunks of the AI SDK.

The chunks are the difference between the client's view of the turn and the session's state. The
client's view is remembered here, or read from the message that it sends back. So a client can
resume a turn, or continue it after a question, without anything having stored its chunks.

A question ends the stream: the AI SDK answers it with its next request, in which the same message
continues. After a tool that the client has run, a new *step* of the message begins, because
otherwise the SDK would send that tool's result again and again. No other place begins a step, since
the SDK looks at the questions of one step only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeAlias

from msgspec import Struct

from ..events import (
    TERMINAL,
    Audio,
    Block,
    Image,
    Item,
    JsonObject,
    Notice,
    PermissionOpened,
    ResourceLink,
    ToolCall,
    ToolText,
    TurnRecord,
    plain_text,
)
from ..lowlevel import SessionState
from .transcript import ItemIndex, ItemReader

Chunk: TypeAlias = JsonObject

REASONS: Final = {
    "completed": "stop",
    "limit": "length",
    "refused": "content-filter",
    "cancelled": "interrupted",
}
"""Outcomes as finish reasons; all other outcomes are errors."""


class _ToolPart(Struct):
    """A tool part as the client shows it, and its step.

    `asked`: the id of its newest approval; `approved`: the answer to that. `own`: the client runs
    the tool. `said`: the fields last sent, if this stream sent any.
    """

    step: int
    over: bool = False
    asked: str | None = None
    approved: bool | None = None
    own: bool = False
    said: Any = None


class TurnMessage:
    """One client's view of one turn. `owns` returns true if that client must run an item."""

    def __init__(
        self,
        transcript: ItemIndex,
        turn: str,
        owns: Callable[[str], bool],
        parts: Iterable[JsonObject] | None = None,
    ) -> None:
        self.turn = turn
        self.done = False
        """True when the stream is over: the turn has ended, or a question must be answered."""
        self.asks = False
        """True when the stream is over because of a question or a tool that the client must run."""
        self._names = {"session": transcript.log.session, "turn": turn}
        self._transcript = transcript
        self._reading: ItemReader[_ToolPart] = ItemReader(transcript, transcript.start(turn))
        self._owns = owns
        self._begun = False
        self._step = 0
        self._results = False  # true if the step has results of the client's tools
        self._texts = self._reading.texts
        self._open: dict[str, str] = {}  # growing texts, with their kind
        self._tools = self._reading.tools
        self._plan: object = None
        self._out: list[Chunk] = []
        self.data: list[Chunk] = []
        """Parts of the message that are not items: the newest plan."""
        for part in parts or ():
            self._remember(part)

    @property
    def _state(self) -> SessionState:
        """The session's state, as far as it is shown to viewers."""
        return self._transcript.log.state

    def chunks(self) -> Iterator[Chunk]:
        """Yield the chunks that are due, each as current as when it is requested, until the client
        knows everything.
        """
        if self.done:
            return
        if not self._begun:
            self._begin()
            yield from self._take_chunks()
        for change in self._reading.pending():
            if not isinstance(change, Notice):
                self._item(*change)
                yield from self._take_chunks()
        self._add_closing_chunks()
        yield from self._take_chunks()

    def _add_chunk(self, type: str, **fields: Any) -> None:
        """Add a chunk to those that are due."""
        self._out.append({"type": type, **fields})

    def _take_chunks(self) -> list[Chunk]:
        """Return the chunks made since the last call."""
        out, self._out = self._out, []
        return out

    def _add_closing_chunks(self) -> None:
        """Add the chunks that follow when all items are sent."""
        state = self._state
        current = state.state.turn
        if current is not None and current.id == self.turn and state.plan is not self._plan:
            self._plan = state.plan
            if state.plan:
                self.data = [{"type": "data-plan", "id": self.turn, "data": state.plan}]
                self._out += self.data
        record = state.turns.get(self.turn)
        if record is None or record.outcome is not None:
            self._finish(record)
        else:
            self._ask()

    def _begin(self) -> None:
        """Begin the message in this stream, and close questions that were answered since the client
        last saw it.

        A part without an item stands for a question. If the question is closed, the SDK needs a
        result for it, also if another client has answered.
        """
        self._begun = True
        self._add_chunk("start", messageId=self.turn, messageMetadata=self._names)
        if self._results:
            self._begin_step()
        open = self._state.permissions
        for id, part in self._tools.items():
            if id not in self._state.items and id not in open and not part.over:
                part.over = True
                if part.approved is False:
                    self._add_chunk("tool-output-denied", toolCallId=id)
                else:
                    self._answered(part, True)
                    self._add_chunk(
                        "tool-output-available", toolCallId=id, output={"answered": True}
                    )

    def _begin_step(self) -> None:
        """Begin a step, so that the SDK does not send the results of the earlier one again."""
        self._step += 1
        self._add_chunk("start-step")

    # --- items

    def _item(self, item: Item, new: bool) -> None:
        """Add the chunks for a new or changed item of this turn. An item that had ended in the
        client's view when the stream began is left alone.
        """
        known = item.id in self._tools or item.id in self._texts
        if item.turn != self.turn or not (new or known):  # or it has ended in the client's view
            return
        if item.type == "tool":
            self._tool(item, item.tool or ToolCall())
        elif item.type in ("text", "thought"):
            self._texts.setdefault(item.id, 0)
            self._text(item)
            if not known:
                for number, block in enumerate(item.content):
                    self._out += _shown(f"{item.id}.{number}", block, _about(item))

    def _text(self, item: Item) -> None:
        """Add the part of a text or thought that the client lacks, with the chunks that begin and
        end it.
        """
        kind = "text" if item.type == "text" else "reasoning"
        text = self._state.text(item.id)
        shown = self._texts.get(item.id, 0)
        if len(text) > shown:
            if item.id not in self._open:
                self._open[item.id] = kind
                self._add_chunk(f"{kind}-start", id=item.id, providerMetadata=_about(item))
            self._add_chunk(f"{kind}-delta", id=item.id, delta=text[shown:])
            self._texts[item.id] = len(text)
        if item.status in TERMINAL and self._open.pop(item.id, ""):
            self._add_chunk(f"{kind}-end", id=item.id)

    # --- tools

    def _tool(self, item: Item, tool: ToolCall) -> None:
        """Add the chunks for a tool call: its input if it is new or has changed, its result if it
        has ended, and the answer to its question if another client gave it.

        The input is repeated only in the step in which the part began, and before there is an
        approval: the SDK does not change a part after that.
        """
        part = self._tools.get(item.id)
        own = item.status not in TERMINAL and self._owns(item.id)
        said = (tool.name, tool.title, tool.input, own)
        if part is None:
            part = self._tools[item.id] = _ToolPart(self._step, said=())
        part.own = own
        fresh = part.said is not None and part.step == self._step  # the SDK does not change others
        if fresh and part.said != said and not part.asked and not part.over:
            part.said = said
            name, title = tool.name or tool.kind, tool.title or None
            self._input(item.id, name, title, tool.input, _about(item), theirs=not own)
        if item.status in TERMINAL and not part.over:
            part.over = True
            self._close(item, tool, part)
        elif part.asked and part.approved is None and not self._is_open(part.asked):
            self._answered(part, True)

    def _input(
        self, id: str, name: str, title: str | None, input: Any, about: JsonObject, *, theirs: bool
    ) -> None:
        """Show a tool with its input. `theirs`: the client neither runs it nor counts it as its
        own.
        """
        self._add_chunk(
            "tool-input-available",
            toolCallId=id,
            toolName=name,
            input={} if input is None else input,
            dynamic=True,
            providerExecuted=theirs,
            providerMetadata=about,
            **({} if title is None else {"title": title}),
        )

    def _close(self, item: Item, tool: ToolCall, part: _ToolPart) -> None:
        """Send the result of a tool, or its refusal.

        The SDK wants an answer to each approval that it has shown before there is a result. A tool
        that ran was allowed, also if the client still shows the question.
        """
        ran = item.status in ("completed", "failed")  # it was allowed, whatever the client shows
        if item.status == "denied" or (part.asked and not part.approved and not ran):
            self._approve(item.id, part)
            if part.approved is not False:
                self._answered(part, False, item.status)
            self._add_chunk("tool-output-denied", toolCallId=item.id)
            return
        self._answered(part, True)
        text = self._state.text(item.id)
        if item.status == "completed":
            output = {"content": tool.content, "text": text, "output": tool.output}
            known = {key: value for key, value in output.items() if value}
            self._add_chunk("tool-output-available", toolCallId=item.id, output=known)
        else:
            words = "".join(
                plain_text([each.content]) for each in tool.content if isinstance(each, ToolText)
            )
            if item.status == "failed":
                words = words or text or _as_text(tool.output)
            else:
                words = item.status
            error = words or item.status
            self._add_chunk("tool-output-error", toolCallId=item.id, errorText=error)

    def _approve(self, id: str, part: _ToolPart) -> None:
        """Show that no approval was needed, unless one was requested."""
        if part.asked is None:
            part.asked = approval = f"auto-{id}"
            self._add_chunk(
                "tool-approval-request", approvalId=approval, toolCallId=id, isAutomatic=True
            )

    def _answered(self, part: _ToolPart, approved: bool, reason: str | None = None) -> None:
        """Show the answer to a question, if there was one and the answer was not sent yet."""
        if part.asked is not None and part.approved is not approved:
            part.approved = approved
            why = {} if reason is None else {"reason": reason}
            self._add_chunk(
                "tool-approval-response", approvalId=part.asked, approved=approved, **why
            )

    # --- questions and the end

    def _ask(self) -> None:
        """End the stream if the client must do something first."""
        asks = [ask for ask in self._state.permissions.values() if self._belongs(ask)]
        wanted = [part for part in self._tools.values() if part.own and not part.over]
        wanted += [self._question(ask) for ask in asks]
        if not wanted:
            return
        self._end_texts()
        if any(part.step != self._step for part in wanted):
            self._begin_step()  # the SDK could take this step's content for an answer
        elif asks:
            # The SDK continues automatically only if the step has nothing open except the
            # questions.
            for id, part in self._tools.items():
                if not part.over and not part.asked and not part.own:
                    self._approve(id, part)
                    self._answered(part, True)
        self.done = self.asks = True
        # With metadata, because otherwise the SDK would not show that a step has begun.
        self._add_chunk("finish", finishReason="tool-calls", messageMetadata=self._names)

    def _question(self, ask: PermissionOpened) -> _ToolPart:
        """Show a question at its tool, or at a part that stands in for one."""
        id = ask.item or ask.request
        part = self._tools.get(id)
        if part is None:
            part = self._tools[id] = _ToolPart(self._step, said=())
            ours = {"agentrt": {"request": ask.request}}
            self._input(id, "question", ask.title, ask.detail, ours, theirs=True)
        if part.asked is not None and part.approved is None and self._is_open(part.asked):
            return part  # one at a time: the client answers the one it shows
        part.asked, part.approved = ask.request, None
        about: JsonObject = {"title": ask.title, "options": ask.options}
        about |= {"form": ask.form, "url": ask.url}
        self._add_chunk(
            "tool-approval-request",
            approvalId=ask.request,
            toolCallId=id,
            reason=ask.title,
            approvalDescriptor={key: value for key, value in about.items() if value},
        )
        return part

    def _belongs(self, ask: PermissionOpened) -> bool:
        """True if a question belongs to this turn: by its tool call, or because the turn is
        running.

        Questions of background work belong to no message: the SDK could not show them in a turn
        that has ended.
        """
        if ask.background:
            return False
        item = self._state.items.get(ask.item) if ask.item is not None else None
        if item is not None:
            return item.turn == self.turn
        current = self._state.state.turn
        return current is not None and current.id == self.turn

    def _is_open(self, request: str) -> bool:
        """True if a question still waits for an answer."""
        return request in self._state.permissions

    def _end_texts(self) -> None:
        """End the parts that are still growing, before a step or the message ends."""
        for id, kind in self._open.items():
            self._add_chunk(f"{kind}-end", id=id)
        self._open.clear()

    def _finish(self, record: TurnRecord | None) -> None:
        """End the message with the turn's outcome. Without a `record`, because the turn is not
        known any more, it counts as failed.
        """
        self.done = True
        self._end_texts()
        outcome = record.outcome if record is not None and record.outcome else "failed"
        reason = REASONS.get(outcome, "error")
        about: JsonObject = {"outcome": outcome}
        if record is not None:
            about |= {"stopReason": record.stop_reason, "usage": record.usage}
        if reason == "interrupted":
            self._add_chunk("abort", reason="cancelled")
        elif reason == "error":
            error = record.error if record is not None else None
            self._add_chunk("error", errorText=error.message if error else outcome)
        known = {key: value for key, value in about.items() if value is not None}
        self._add_chunk("finish", finishReason=reason, messageMetadata=known)

    # --- the client's existing view

    def _remember(self, part: JsonObject) -> None:
        """Take over a part of a message that the client already has; it is not sent again."""
        kind, id = part.get("type"), part.get("toolCallId")
        if isinstance(id, str):
            state, approval = part.get("state"), part.get("approval")
            asked = approval.get("id") if isinstance(approval, dict) else None
            over = isinstance(state, str) and state.startswith("output-")
            self._results |= over and not part.get("providerExecuted")
            self._tools[id] = _ToolPart(
                self._step,
                over=over,
                asked=asked if isinstance(asked, str) else None,
                approved=approval.get("approved") if isinstance(approval, dict) else None,
            )
            return
        if kind == "step-start":
            self._step += 1
            self._results = False
        about = part.get("providerMetadata")
        ours = about.get("agentrt") if isinstance(about, dict) else None
        item = ours.get("item") if isinstance(ours, dict) else None
        if isinstance(item, str):
            text = part.get("text") if kind in ("text", "reasoning") else ""
            shown = len(text) if isinstance(text, str) else 0
            self._texts[item] = self._texts.get(item, 0) + shown


def replayed(transcript: ItemIndex, turn: str, kept: Iterable[JsonObject]) -> Iterator[Chunk]:
    """Yield a finished turn from its beginning, in the stream of a later one.

    Its message is created again; `kept` are its parts that are not in the state.
    """
    for chunk in TurnMessage(transcript, turn, lambda item: False).chunks():
        if chunk["type"] not in ("abort", "error", "finish"):  # those would apply to the stream
            yield chunk
        if chunk["type"] == "start":
            yield from kept


def behind_replay(chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    """Yield a message that follows a replayed one. The SDK takes the replayed parts for the
    beginning of this message, so they are reset.
    """
    for chunk in chunks:
        yield chunk
        if chunk["type"] == "start":
            yield {"type": "reset-step"}


def is_pending(part: JsonObject) -> bool:
    """True if a part, as a client shows it, has not ended."""
    state = part.get("state")
    return state == "streaming" or ("toolCallId" in part and not str(state).startswith("output-"))


def _about(item: Item) -> JsonObject:
    """Return agentrt's own data in a part, which identifies it when the message comes back."""
    ours: JsonObject = {"item": item.id}
    if item.parent is not None:
        ours["parent"] = item.parent
    if item.tool is not None:
        ours["kind"] = item.tool.kind
    return {"agentrt": ours}


def _shown(id: str, block: Block, about: JsonObject) -> list[Chunk]:
    """Return the chunks for content of the answer that is not text of the agent."""
    match block:
        case Image(data=data, mime_type=type) | Audio(data=data, mime_type=type):
            url = f"data:{type};base64,{data}"
            return [{"type": "file", "url": url, "mediaType": type, "providerMetadata": about}]
        case ResourceLink(uri=uri, name=name):
            source: Chunk = {"type": "source-url", "sourceId": id, "url": uri, "title": name}
            return [{**source, "providerMetadata": about}]
    return [
        {"type": "text-start", "id": id, "providerMetadata": about},
        {"type": "text-delta", "id": id, "delta": plain_text([block])},
        {"type": "text-end", "id": id},
    ]


def _as_text(output: Any) -> str:
    """Return an output if it is text, else an empty string."""
    return output if isinstance(output, str) else ""
