"""Codex's output as effects: its items, in neutral form.

An item has a beginning (`item/started`), deltas in between, and an end (`item/completed`) that
repeats it in full. The end adds only facts that the deltas have not reported: the text of a message
without pieces, the output of a command without live output, and the final status.

A `CodexTranslator` converts the items of one thread. Its state is that of the running turn
(`turn_ended` drops it), except for `last_message`, which becomes the report of a sub-agent.

When a thread is read again, the items of earlier turns come complete and without events (`replay`).
Calls that were still running then count as completed.
"""

from __future__ import annotations

import base64
import binascii
import re
import shlex
from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from msgspec import UNSET, UnsetType, ValidationError, convert, json, to_builtins

from ..model.content import (
    Audio,
    Block,
    Diff,
    Image,
    JsonObject,
    ResourceLink,
    Text,
    ToolContent,
    ToolText,
    hunks,
)
from ..model.driver import TaskSet, TextEnded, TextReceived, ToolCalled, UserContentReceived
from ..model.events import ItemStatus, Task, compacted
from ..wire.channel import Channel
from . import messages as wire

STATUS: Final[dict[str, ItemStatus]] = {
    "inProgress": "running",
    "completed": "completed",
    "failed": "failed",
    "declined": "denied",
    "interrupted": "cancelled",
}
SHELL_FLAGS: Final = ("-c", "-lc")

Item: TypeAlias = wire.ThreadItem


class CodexTranslator:
    """The items of one thread.

    `parent`: the tool call that a sub-agent's thread belongs to; None for the session's thread.
    """

    def __init__(self, channel: Channel, parent: str | None = None) -> None:
        """Create a translator whose effects go to `channel`."""
        self.changes: dict[str, list[wire.FileUpdateChange]] = {}
        """Changes of the edits that are not over, by item: an approval request does not name the
        files."""
        self.commands: set[str] = set()
        """Items of the running turn's commands that are not over."""
        self.last_message = ""
        """The text of the latest complete message."""
        self.parent: Final = parent
        self._channel = channel
        self._spoken: set[str] = set()
        """Messages of which pieces came: their text is not repeated at their end."""
        self._shown: set[str] = set()
        """Calls with output that came in pieces."""
        self._review: str | None = None
        """The item that began the running review."""

    def turn_ended(self) -> None:
        """Forget the state of the turn."""
        for each in (self.changes, self.commands, self._spoken, self._shown):
            each.clear()

    def pieces(self, item: str, text: str, *, thought: bool) -> None:
        """Report text of one message, perhaps from many deltas."""
        self._spoken.add(item)
        self._channel.out.append(TextReceived(text, thought, item, self.parent))

    def part_added(self, item: str, index: int) -> None:
        """Note that the next part of a thought begins."""
        if index and item in self._spoken:
            self._channel.out.append(TextReceived("\n\n", True, item, self.parent))

    def output(self, item: str, text: str) -> None:
        """Report output of a running call."""
        self._shown.add(item)
        if text:
            self._channel.out.append(ToolCalled(id=item, append=text, parent=self.parent))

    def patched(self, item: str, changes: list[wire.FileUpdateChange]) -> None:
        """Take the new changes of an edit."""
        self.changes[item] = changes
        self._channel.out.append(ToolCalled(id=item, parent=self.parent, **_edit(changes)))

    def started(self, item: Item) -> None:
        """Take the start of an item."""
        match item:
            case wire.CommandExecutionThreadItem():
                self.commands.add(item.id)
            case wire.FileChangeThreadItem():
                self.changes[item.id] = item.changes
            case wire.UserMessageThreadItem() | wire.HookPromptThreadItem():
                return  # a prompt is shown already, and a hook's text at its end
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
        called = ToolCalled(
            id=id, opens=not over, name=kind, title=kind, status=status, parent=self.parent
        )
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
                    out.append(TextReceived(_message(item), False, item.id, replay=True))
                case wire.ReasoningThreadItem():
                    if text := _thought(item):
                        out.append(TextReceived(text, True, item.id, replay=True))
                case (
                    wire.ContextCompactionThreadItem()
                    | wire.EnteredReviewModeThreadItem()
                    | wire.ExitedReviewModeThreadItem()
                    | wire.HookPromptThreadItem()
                    | wire.SubAgentActivityThreadItem()
                ):
                    pass
                case _:
                    called = self._called(item, over=True)
                    called.opens, called.replay = True, True
                    if called.status not in ("failed", "denied"):
                        called.status = "completed"
                    out.append(called)

    def _show(self, item: Item, *, over: bool) -> None:
        """Report an item at its beginning or, if `over`, at its end."""
        out = self._channel.out
        match item:
            case wire.AgentMessageThreadItem() | wire.PlanThreadItem():
                self._show_text(item.id, _message(item), over, thought=False)
            case wire.ReasoningThreadItem():
                self._show_text(item.id, _thought(item), over, thought=True)
            case wire.ContextCompactionThreadItem():
                status = "completed" if over else "running"
                title = "Compacting the conversation"
                out.append(TaskSet(Task(id=item.id, title=title, status=status, kind="compaction")))
                if over and self.parent is None:
                    out.append(compacted())
            case wire.EnteredReviewModeThreadItem():
                if self._review != item.id:
                    self._review = item.id
                    out.append(TaskSet(Task(id=item.id, title=item.review, kind="review")))
            case wire.ExitedReviewModeThreadItem():
                if over:
                    self._reviewed(item)
            case wire.HookPromptThreadItem():
                text = "\n".join(each.text for each in item.fragments)
                self._channel.notice("info", "hook_prompt", f"a hook told the agent: {text}")
            case wire.SubAgentActivityThreadItem():
                pass  # the agent's own thread reports it
            case _:
                out.append(self._called(item, over))

    def _reviewed(self, item: wire.ExitedReviewModeThreadItem) -> None:
        """End the review that was entered. Its text follows as a message of its own."""
        id, self._review = self._review or item.id, None
        task = Task(id=id, title="Review", status="completed", kind="review", detail=item.review)
        self._channel.out.append(TaskSet(task))

    def _show_text(self, item: str, text: str, over: bool, *, thought: bool) -> None:
        """Report the end of a message or thought; its text only if there were no pieces of it."""
        if not over:
            return
        if not thought:
            self.last_message = text
        if item not in self._spoken and text:
            self.pieces(item, text, thought=thought)
        if item in self._spoken:
            self._spoken.discard(item)
            self._channel.out.append(TextEnded(parent=self.parent))

    def _called(self, item: Item, over: bool) -> ToolCalled:
        """Convert an item that is a tool call."""
        called = ToolCalled(id=item.id, opens=not over, name=_type(item), parent=self.parent)
        status = _describe(item, called)
        if over and isinstance(item, wire.CommandExecutionThreadItem):
            if item.aggregated_output and item.id not in self._shown:
                called.content = [ToolText(Text(item.aggregated_output))]
            called.output = _without_none(exitCode=item.exit_code, durationMs=item.duration_ms)
        if status is not None and status not in STATUS:
            about = {"item": item.id, "status": status}
            self._channel.unknown_value("status of an item", status, about)
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
            if item.result is not None and item.result.structured_content is not None:
                called.output = item.result.structured_content
            return item.status
        case wire.DynamicToolCallThreadItem():
            called.name = called.title = item.tool
            called.owner, called.input = "host", item.arguments
            called.content = _dynamic_content(item)
            return "failed" if item.success is False else item.status
        case _:
            return _describe_other(item, called)


def _describe_other(item: Item, called: ToolCalled) -> str | None:
    """As `_describe`, for items other than commands, edits and the tools of servers."""
    match item:
        case wire.FunctionCallOutputThreadItem():
            called.name = called.title = ".".join(filter(None, (item.namespace, item.name)))
            called.content = _function_content(item.output)
        case wire.CollabAgentToolCallThreadItem():
            called.title, called.kind = _words(item.tool), "think"
            called.input = _without_none(
                prompt=item.prompt,
                model=item.model or None,
                reasoningEffort=item.reasoning_effort,
                agents=item.receiver_thread_ids or None,
            )
            called.output = item.agents_states or UNSET
            return item.status
        case _:
            return _describe_media(item, called)
    return None


def _describe_media(item: Item, called: ToolCalled) -> str | None:
    """As `_describe`, for searches, images and pauses, and for unknown items."""
    match item:
        case wire.WebSearchThreadItem():
            called.title, called.kind, called.input = _search(item)
            if item.results is not None:
                called.content = [link for each in item.results for link in _found(each)]
                called.output = item.results
        case wire.ImageViewThreadItem():
            called.title, called.kind = item.path, "read"
            called.locations = [{"path": item.path}]
        case wire.SleepThreadItem():
            called.title = f"Sleep {item.duration_ms / 1000:g} s"
            called.input = {"durationMs": item.duration_ms}
        case wire.ImageGenerationThreadItem():
            called.title = ": ".join(filter(None, ("Generate an image", item.revised_prompt)))
            called.input = _without_none(
                prompt=item.revised_prompt,
                images=[each.path for each in item.input_images or ()] or None,
            )
            called.content = _generated(item)
            if item.failure is not None:
                return "failed"
            return item.status if item.status in STATUS else None  # any text, by the schema
        case _:
            called.title = _type(item)
    return None


def _words(name: str) -> str:
    """Return a name in camel case as words: `spawnAgent` as `Spawn agent`."""
    words = re.sub(r"(?<=[a-z0-9])([A-Z])", lambda found: f" {found[1].lower()}", name)
    return words[:1].upper() + words[1:]


def _without_none(**fields: Any) -> JsonObject:
    """Return the fields that have a value."""
    return {name: value for name, value in fields.items() if value is not None}


def _search(item: wire.WebSearchThreadItem) -> tuple[str, str, JsonObject]:
    """Return the title, the kind and the input of a web search."""
    match item.action:
        case wire.OpenPageWebSearchAction(url=str(url)):
            return f"Open {url}", "fetch", {"url": url}
        case wire.FindInPageWebSearchAction() as action:
            given = _without_none(pattern=action.pattern, url=action.url)
            return f"Find {action.pattern or 'a text'} in {action.url or 'a page'}", "fetch", given
        case wire.SearchWebSearchAction() as action:
            queries = [each for each in (action.query, *(action.queries or ())) if each]
            queries = list(dict.fromkeys(queries or [item.query]))
            return (
                ", ".join(filter(None, queries)) or "Search the web",
                "search",
                {"query": queries[0] if len(queries) == 1 else queries},
            )
        case _:
            return item.query or "Search the web", "search", {"query": item.query}


def _found(result: Any) -> Iterator[ToolContent]:
    """Yield a result of a search as a link."""
    match result:
        case {"url": str(url), **about}:
            title = about.get("title")
            yield ToolText(ResourceLink(uri=url, name=title if isinstance(title, str) else url))


def _generated(item: wire.ImageGenerationThreadItem) -> list[ToolContent] | UnsetType:
    """Return a generated image and the file it was saved to, or the reason of the failure."""
    found: list[ToolContent] = []
    if item.failure is not None:
        found.append(ToolText(Text(f"no image was made: {_json(item.failure)}")))
    if item.result:
        found.append(ToolText(Image(data=item.result, mime_type="image/png")))
    if item.saved_path is not None:
        name = item.saved_path.rpartition("/")[2]
        found.append(ToolText(ResourceLink(uri=f"file://{item.saved_path}", name=name)))
    return found or UNSET


def _json(value: Any) -> str:
    """Return a value as text."""
    return json.encode(value).decode()


def _mcp_content(item: wire.McpToolCallThreadItem) -> list[ToolContent] | UnsetType:
    """Return the content of an MCP tool's result, its error first; unset while it runs."""
    if item.error is None and item.result is None:
        return UNSET
    error = [] if item.error is None else [ToolText(Text(item.error.message))]
    content = [] if item.result is None else item.result.content
    return [*error, *(ToolText(mcp_block(each)) for each in content)]


def mcp_block(given: Any) -> Block:
    """Return a block of an MCP result; one of an unknown shape as its JSON."""
    try:
        block: Block = convert(given, Block)
    except ValidationError:
        return Text(_json(given))
    return block


def _dynamic_content(item: wire.DynamicToolCallThreadItem) -> list[ToolContent] | UnsetType:
    """Return the content of the result of a program's tool; unset while it runs."""
    if item.content_items is None:
        return UNSET
    return [ToolText(_dynamic_block(each)) for each in item.content_items]


def _dynamic_block(given: wire.DynamicToolCallOutputContentItem) -> Block:
    """Convert a part of the result of a program's tool."""
    match given:
        case wire.InputImageDynamicToolCallOutputContentItem(image_url=url):
            return _media(url, Image)
        case wire.InputAudioDynamicToolCallOutputContentItem(audio_url=url):
            return _media(url, Audio)
        case wire.InputTextDynamicToolCallOutputContentItem(text=text):
            return Text(text)


def _function_content(output: Any) -> list[ToolContent]:
    """Convert the output of a function: text, or a list of parts such as `input_text`.

    The schema does not describe the parts, so those of an unknown form are shown as JSON. Encrypted
    ones are left out.
    """
    if isinstance(output, str):
        return [ToolText(Text(output))]
    found: list[ToolContent] = []
    for each in output if isinstance(output, list) else ():
        match each:
            case {"type": "input_text", "text": str(text)}:
                found.append(ToolText(Text(text)))
            case {"type": "input_image", "image_url": str(url)}:
                found.append(ToolText(_media(url, Image)))
            case {"type": "input_audio", "audio_url": str(url)}:
                found.append(ToolText(_media(url, Audio)))
            case {"type": "encrypted_content"}:
                pass
            case _:
                found.append(ToolText(Text(_json(each))))
    return found


def _media(url: str, kind: type[Image | Audio]) -> Block:
    """Return a `data:` URL as a block, and any other URL as a link."""
    head, separator, data = url.partition(";base64,")
    if separator and head.startswith("data:"):
        return kind(data=data, mime_type=head.removeprefix("data:"))
    return ResourceLink(uri=url)


def _message(item: wire.AgentMessageThreadItem | wire.PlanThreadItem) -> str:
    """Return the text of a message, with the questions that come with it."""
    questions = item.questions if isinstance(item, wire.AgentMessageThreadItem) else None
    if not questions:
        return item.text
    asked = ["\n".join([q.title, *(f"- {each}" for each in q.options or ())]) for q in questions]
    return "\n\n".join(filter(None, [item.text, *asked]))


def _type(item: Item) -> str:
    """Return codex's name for the kind of an item."""
    return str(item.__struct_config__.tag)


def _thought(item: wire.ReasoningThreadItem) -> str:
    """Return a thought: its summary, or else its full text."""
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
    """Return the content and the locations of an edit."""
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
    return [Diff(path=path, new_text=new, old_text=old) for old, new in hunks(change.diff)]


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
        raise ValueError(f"codex does not accept {type(block).__name__.lower()} in a prompt")
    text = resource.get("text")
    if text is None:
        try:
            text = base64.b64decode(str(resource.get("blob"))).decode()
        except (binascii.Error, ValueError) as error:
            raise ValueError("codex accepts only text files in a prompt") from error
    return f'<resource uri="{resource.get("uri", "")}">\n{text}\n</resource>'


def _block(given: wire.UserInput) -> Block | None:
    """Convert a part of an earlier prompt; None if it has no content."""
    match given:
        case wire.TextUserInput(text=text):
            return Text(text)
        case wire.ImageUserInput(url=str(url)):
            return _media(url, Image)
        case wire.AudioUserInput(url=str(url)):
            return _media(url, Audio)
        case wire.MentionUserInput():
            return ResourceLink(uri=f"file://{given.path}", name=given.name)
    return None
