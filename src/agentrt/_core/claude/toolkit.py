"""Claude's own tools: the kind of each, the title of a call, and the files it is about.

This is for display only. No permission rule may depend on it: names and inputs come from the agent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ..model.content import Diff, JsonObject, Text, ToolContent, ToolText

MAX_TITLE_CHARS = 200
"""Maximum characters of a title; a heredoc in a shell command makes a bad headline."""


class ToolDisplay(NamedTuple):
    """The display of one of Claude's tools."""

    kind: str
    """One of ACP's kinds: `read`, `edit`, `search`, `execute`, `think`, `fetch`, `switch_mode`,
    …"""
    title: str
    """Format of the title, with fields of the input in braces."""


TOOLS: dict[str, ToolDisplay] = {
    "Bash": ToolDisplay("execute", "{command}"),
    "PowerShell": ToolDisplay("execute", "{command}"),
    "BashOutput": ToolDisplay("read", "Read the output of {bash_id}"),
    "TaskOutput": ToolDisplay("read", "Read the output of {task_id}"),
    "KillShell": ToolDisplay("execute", "Stop {shell_id}"),
    "TaskStop": ToolDisplay("execute", "Stop {task_id}"),
    "Monitor": ToolDisplay("execute", "{command}"),
    "Read": ToolDisplay("read", "Read {file_path}"),
    "Write": ToolDisplay("edit", "Write {file_path}"),
    "Edit": ToolDisplay("edit", "Edit {file_path}"),
    "MultiEdit": ToolDisplay("edit", "Edit {file_path}"),
    "NotebookEdit": ToolDisplay("edit", "Edit {notebook_path}"),
    "NotebookRead": ToolDisplay("read", "Read {notebook_path}"),
    "Glob": ToolDisplay("search", "Find {pattern}"),
    "Grep": ToolDisplay("search", "Search {pattern}"),
    "LS": ToolDisplay("search", "List {path}"),
    "ToolSearch": ToolDisplay("search", "Search tools: {query}"),
    "WebFetch": ToolDisplay("fetch", "Fetch {url}"),
    "WebSearch": ToolDisplay("fetch", "Search the web: {query}"),
    # run by the model's provider
    "web_search": ToolDisplay("fetch", "Search the web: {query}"),
    "web_fetch": ToolDisplay("fetch", "Fetch {url}"),
    "Task": ToolDisplay("think", "{description}"),
    "Agent": ToolDisplay("think", "{description}"),
    "Workflow": ToolDisplay("think", "{description}"),
    "TodoWrite": ToolDisplay("think", "Update the plan"),
    "TaskCreate": ToolDisplay("think", "Plan: {subject}"),
    "TaskUpdate": ToolDisplay("think", "Update the plan"),
    "TaskList": ToolDisplay("think", "Read the plan"),
    "TaskGet": ToolDisplay("think", "Read the plan"),
    "AskUserQuestion": ToolDisplay("other", "Ask a question"),
    "EnterPlanMode": ToolDisplay("switch_mode", "Enter plan mode"),
    "ExitPlanMode": ToolDisplay("switch_mode", "Ready to code?"),
    "Skill": ToolDisplay("other", "Use the skill {skill}"),
    "SendMessage": ToolDisplay("other", "Send a message to {to}"),
}


def kind_of(name: str) -> str:
    """Return the kind of a tool, `other` if it is unknown."""
    tool = TOOLS.get(name)
    return tool.kind if tool is not None else "other"


def title_of(name: str, arguments: Any) -> str:
    """Return a title for a call: the tool's name if its input is still being written."""
    tool = TOOLS.get(name)
    if tool is None:
        return _mcp_title(name)
    if not isinstance(arguments, dict):
        return name
    try:
        title = tool.title.format_map(
            {name: _line(value) for name, value in arguments.items() if isinstance(value, str)}
        )
    except (KeyError, ValueError, IndexError):
        return name
    return title if len(title) <= MAX_TITLE_CHARS else f"{title[: MAX_TITLE_CHARS - 1]}…"


def _line(value: str) -> str:
    """Return the beginning of a value in one line."""
    return " ".join(value[: 2 * MAX_TITLE_CHARS].split())


def _mcp_title(name: str) -> str:
    """Return `mcp__server__tool` as `tool (server)`."""
    parts = name.split("__", 2)
    if len(parts) == 3 and parts[0] == "mcp":
        return f"{parts[2]} ({parts[1]})"
    return name


def locations_of(arguments: Any) -> list[JsonObject]:
    """Return the files that a call is about."""
    if not isinstance(arguments, dict):
        return []
    path = arguments.get("file_path") or arguments.get("notebook_path") or arguments.get("path")
    if not isinstance(path, str):
        return []
    place: JsonObject = {"path": path}
    if isinstance(arguments.get("offset"), int):
        place["line"] = arguments["offset"]
    return [place]


def content_of(name: str, arguments: Any) -> list[ToolContent]:
    """Return the content that a call shows before its result: its change, or its plan."""
    show = _SHOWN.get(name)
    if show is None or not isinstance(arguments, dict):
        return []
    try:
        return show(arguments)
    except (KeyError, TypeError):
        return []


def is_edit(name: str) -> bool:
    """True if a call shows its change, which is more useful than its result."""
    return name in _SHOWN and kind_of(name) == "edit"


def _text(value: Any) -> str:
    """Return a text. Raises `TypeError` for other values, so that the call shows no content."""
    if not isinstance(value, str):
        raise TypeError
    return value


def _edits(arguments: JsonObject) -> list[ToolContent]:
    """Return the changes of an edit, one for each replacement."""
    path = _text(arguments["file_path"])
    edits = arguments.get("edits", [arguments])
    return [Diff(path, _text(e["new_string"]), _text(e["old_string"])) for e in edits]


def _write(arguments: JsonObject) -> list[ToolContent]:
    """Return a new file. The old content is not in the call."""
    return [Diff(_text(arguments["file_path"]), _text(arguments["content"]))]


def _notebook(arguments: JsonObject) -> list[ToolContent]:
    """Return the new source of a cell."""
    return [Diff(_text(arguments["notebook_path"]), _text(arguments["new_source"]))]


def _plan(arguments: JsonObject) -> list[ToolContent]:
    """Return the plan that the agent proposes."""
    return [ToolText(Text(_text(arguments["plan"])))]


_SHOWN: dict[str, Callable[[JsonObject], list[ToolContent]]] = {
    "Edit": _edits,
    "MultiEdit": _edits,
    "Write": _write,
    "NotebookEdit": _notebook,
    "ExitPlanMode": _plan,
}
