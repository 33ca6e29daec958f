"""Codex's output as effects: its items, in neutral form."""

from __future__ import annotations

import base64
import binascii
import re
import shlex
from typing import Any, Final, TypeAlias

from msgspec import UNSET, UnsetType, to_builtins

from ..model.content import (
    Block,
    Diff,
    Image,
    JsonObject,
    ResourceLink,
    Text,
    ToolContent,
    ToolText,
)
from ..model.driver import TaskSet, TextEnded, TextReceived, ToolCalled, UserContentReceived
from ..model.events import ItemStatus, Task
from ..wire.channel import Channel
from . import messages as wire

STATUS: Final[dict[str, ItemStatus]] = {
    "inProgress": "running",
    "completed": "completed",
    "failed": "failed",
    "declined": "denied",
}
SHELL_FLAGS: Final = ("-c", "-lc")
_HUNK = re.compile(r"^@@ .*\n?", re.MULTILINE)

Item: TypeAlias = wire.ThreadItem


class CodexTranslator:
    """The items of one thread."""

    def __init__(self, channel: Channel) -> None:
        self.changes: dict[str, list[wire.FileUpdateChange]] = {}
        """Changes of the edits that are not over, by item: an approval request does not name the
        files."""
        self.commands: set[str] = set()
        """Items of the running turn's commands that are not over."""
        self._channel = channel
        self._spoken: set[str] = set()
        """Messages of which pieces came: their text is not repeated at their end."""
        self._shown: set[str] = set()
        """Calls with output that came in pieces."""

    def turn_ended(self) -> None:
        """Forget the state of the turn."""
        for each in (self.changes, self.commands, self._spoken, self._shown):
            each.clear()

    def pieces(self, item: str, text: str, *, thought: bool) -> None:
        """Report text of one message, perhaps from many deltas."""
        self._spoken.add(item)
        self._channel.out.append(TextReceived(text, thought, item))

    def part_added(self, item: str, index: int) -> None:
        """Note that the next part of a thought begins."""
        if index and item in self._spoken:
            self._channel.out.append(TextReceived("\n\n", True, item))

    def output(self, item: str, text: str) -> None:
        """Report output of a running command."""
        self._shown.add(item)
        if text:
            self._channel.out.append(ToolCalled(id=item, append=text))

    def patched(self, item: str, changes: list[wire.FileUpdateChange]) -> None:
        """Take the new changes of an edit."""
        self.changes[item] = changes
        self._channel.out.append(ToolCalled(id=item, **_edit(changes)))

    def started(self, item: Item) -> None:
        """Take the start of an item."""
        match item:
            case wire.CommandExecutionThreadItem():
                self.commands.add(item.id)
            case wire.FileChangeThreadItem():
                self.changes[item.id] = item.changes
            case wire.UserMessageThreadItem():
                return  # the prompt, which is shown already
        self._show(item, over=False)

    def completed(self, item: Item) -> None:
        """Take the end of an item."""
        match item:
            case wire.UserMessageThreadItem():
                return
            case wire.CommandExecutionThreadItem():
                self.commands.discard(item.id)
            case wire.FileChangeThreadItem():
                self.changes.pop(item.id, None)
        self._show(item, over=True)

    def unknown(self, id: str, kind: str, *, over: bool) -> None:
        """Report an item of a kind that is newer than this file."""
        status: ItemStatus = "completed" if over else "running"
        called = ToolCalled(id=id, opens=not over, name=kind, title=kind, status=status)
        self._channel.out.append(called)

    def replay(self, items: list[Item]) -> None:
        """Report items of an earlier process."""
        out = self._channel.out
        for item in items:
            match item:
                case wire.UserMessageThreadItem():
                    content = [block for each in item.content if (block := _block(each))]
                    out.append(UserContentReceived(content=content, message=item.id, replay=True))
                case wire.AgentMessageThreadItem() | wire.PlanThreadItem():
                    out.append(TextReceived(item.text, False, item.id, replay=True))
                case wire.ReasoningThreadItem():
                    if text := _thought(item):
                        out.append(TextReceived(text, True, item.id, replay=True))
                case wire.ContextCompactionThreadItem():
                    pass
                case _:
                    called = self._called(item, over=True)
                    called.opens, called.replay = True, True
                    if called.status not in ("failed", "denied"):
                        called.status = "completed"
                    out.append(called)

    def _show(self, item: Item, *, over: bool) -> None:
        out = self._channel.out
        match item:
            case wire.AgentMessageThreadItem(text=text) | wire.PlanThreadItem(text=text):
                self._show_text(item.id, text, over, thought=False)
            case wire.ReasoningThreadItem():
                self._show_text(item.id, _thought(item), over, thought=True)
            case wire.ContextCompactionThreadItem():
                status = "completed" if over else "running"
                title = "Compacting the conversation"
                out.append(TaskSet(Task(id=item.id, title=title, status=status, kind="compaction")))
            case _:
                out.append(self._called(item, over))

    def _show_text(self, item: str, text: str, over: bool, *, thought: bool) -> None:
        if not over:
            return
        if item not in self._spoken and text:
            self.pieces(item, text, thought=thought)
        if item in self._spoken:
            self._spoken.discard(item)
            self._channel.out.append(TextEnded())

    def _called(self, item: Item, over: bool) -> ToolCalled:
        """Convert an item that is a tool call."""
        called = ToolCalled(id=item.id, opens=not over, name=_type(item))
        status = _describe(item, called)
        if over and isinstance(item, wire.CommandExecutionThreadItem):
            if item.aggregated_output and item.id not in self._shown:
                called.content = [ToolText(Text(item.aggregated_output))]
            called.output = {"exitCode": item.exit_code}
        called.status = STATUS.get(status or "", "completed" if over else "running")
        if called.status == "running" and over:
            called.status = "completed"
        return called


def _describe(item: Item, called: ToolCalled) -> str | None:
    """Fill in the fields of a call from its item, and return the item's status if it has one."""
    match item:
        case wire.CommandExecutionThreadItem():
            called.title, called.kind = title_of(item.command), "execute"
            called.input = command_input(item.command, item.cwd)
            return item.status
        case wire.FileChangeThreadItem():
            called.title, called.kind = edit_title(item.changes), "edit"
            fields = _edit(item.changes)
            called.content, called.locations = fields["content"], fields["locations"]
            called.input = {"changes": to_builtins(item.changes)}
            return item.status
        case wire.McpToolCallThreadItem():
            called.name = f"mcp__{item.server}__{item.tool}"
            called.title, called.input = f"{item.server}: {item.tool}", item.arguments
            called.content = _mcp_content(item)
            return item.status
        case wire.DynamicToolCallThreadItem():
            called.name = called.title = item.tool
            called.owner, called.input = "host", item.arguments
            called.content = _dynamic_content(item)
            return item.status
        case wire.CollabAgentToolCallThreadItem():
            called.title, called.input = item.tool, {"prompt": item.prompt}
            return item.status
        case wire.WebSearchThreadItem():
            called.title, called.kind = item.query or "Search the web", "search"
            called.input = {"query": item.query}
        case wire.ImageViewThreadItem():
            called.title, called.kind = item.path, "read"
            called.locations = [{"path": item.path}]
        case _:
            called.title = _type(item)
    return None


def _mcp_content(item: wire.McpToolCallThreadItem) -> list[ToolContent] | UnsetType:
    if item.error is not None:
        return [ToolText(Text(item.error.message))]
    if item.result is None:
        return UNSET
    return [
        ToolText(Text(each["text"]))
        for each in item.result.content
        if isinstance(each, dict) and isinstance(each.get("text"), str)
    ]


def _dynamic_content(item: wire.DynamicToolCallThreadItem) -> list[ToolContent] | UnsetType:
    if item.content_items is None:
        return UNSET
    return [
        ToolText(Text(each.text))
        for each in item.content_items
        if isinstance(each, wire.InputTextDynamicToolCallOutputContentItem)
    ]


def _type(item: Item) -> str:
    return str(item.__struct_config__.tag)


def _thought(item: wire.ReasoningThreadItem) -> str:
    return "\n\n".join(item.summary or item.content or [])


# --- commands


def command_words(command: str) -> list[str] | None:
    """Return the argument vector of a command, which codex writes as one shell line, or None."""
    try:
        return shlex.split(command)
    except ValueError:
        return None


def command_input(command: str, cwd: str | None) -> JsonObject:
    """Return a command as the input of a tool, for rules and people."""
    words = command_words(command)
    given: JsonObject = {"command": command if words is None else words}
    return given if cwd is None else {**given, "cwd": cwd}


def title_of(command: str) -> str:
    """Return a command for display, without the shell around it."""
    match command_words(command):
        case [_, flag, str(text)] if flag in SHELL_FLAGS:
            return text
        case _:
            return command


# --- edits


def edit_title(changes: list[wire.FileUpdateChange]) -> str:
    """Return the title of an edit."""
    return "Edit " + ", ".join(change.path for change in changes) if changes else "Edit files"


def changed_files(changes: list[wire.FileUpdateChange]) -> list[str]:
    """Return the files of an edit, including the targets of moves."""
    paths: list[str] = []
    for change in changes:
        paths.append(change.path)
        if isinstance(change.kind, wire.UpdatePatchChangeKind) and change.kind.move_path:
            paths.append(change.kind.move_path)
    return paths


def _edit(changes: list[wire.FileUpdateChange]) -> dict[str, Any]:
    content: list[ToolContent] = [diff for change in changes for diff in diffs(change)]
    return {"content": content, "locations": [{"path": path} for path in changed_files(changes)]}


def diffs(change: wire.FileUpdateChange) -> list[Diff]:
    """Return a change of a file: the whole of a new or deleted file, else each part that
    differs."""
    match change.kind:
        case wire.AddPatchChangeKind():
            return [Diff(path=change.path, new_text=change.diff)]
        case wire.DeletePatchChangeKind():
            return [Diff(path=change.path, new_text="", old_text=change.diff)]
    path = change.kind.move_path or change.path
    found = []
    for hunk in filter(None, _HUNK.split(change.diff)):
        lines = [line for line in hunk.splitlines(keepends=True) if not line.startswith("\\")]
        old = "".join(line[1:] for line in lines if line[:1] in (" ", "-"))
        new = "".join(line[1:] for line in lines if line[:1] in (" ", "+"))
        found.append(Diff(path=path, new_text=new, old_text=old))
    return found


# --- prompts


def user_input(content: list[Block]) -> list[wire.UserInput]:
    """Convert a prompt to codex's shape. Raises `ValueError` for content that codex does not
    accept."""
    inputs: list[wire.UserInput] = []
    for block in content:
        match block:
            case Text(text=text):
                inputs.append(wire.TextUserInput(text=text))
            case Image():
                url = f"data:{block.mime_type};base64,{block.data}"
                inputs.append(wire.ImageUserInput(url=url))
            case ResourceLink(uri=uri, name=name):
                path = uri.removeprefix("file://")
                inputs.append(wire.MentionUserInput(name=name or path, path=path))
            case _:
                inputs.append(wire.TextUserInput(text=_text_of(block)))
    return inputs


def _text_of(block: Block) -> str:
    """Return a file of a prompt as text. Raises `ValueError` if it is not text."""
    resource = getattr(block, "resource", None)
    if not isinstance(resource, dict):
        raise ValueError(f"codex takes no {type(block).__name__.lower()} in a prompt")
    text = resource.get("text")
    if text is None:
        try:
            text = base64.b64decode(str(resource.get("blob"))).decode()
        except (binascii.Error, ValueError) as error:
            raise ValueError("codex takes no file in a prompt that is not text") from error
    return f'<resource uri="{resource.get("uri", "")}">\n{text}\n</resource>'


def _block(given: wire.UserInput) -> Block | None:
    match given:
        case wire.TextUserInput(text=text):
            return Text(text)
        case wire.ImageUserInput(url=url) if url.startswith("data:") and ";base64," in url:
            head, _, data = url.partition(";base64,")
            return Image(data=data, mime_type=head.removeprefix("data:"))
        case wire.ImageUserInput(url=url) | wire.AudioUserInput(url=url):
            return ResourceLink(uri=url)
        case wire.MentionUserInput():
            return ResourceLink(uri=f"file://{given.path}", name=given.name)
    return None
