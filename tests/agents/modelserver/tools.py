"""Finds the tool a step means among those a request offers: each agent has its own names."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from .asks import Tool
from .scripts import Arguments, Call, Edit, Shell

_Step = TypeVar("_Step", Shell, Edit)


def _patch(step: Edit) -> str:
    lines = "".join(f"+{line}\n" for line in step.content.splitlines())
    return f"*** Begin Patch\n*** Add File: {step.path}\n{lines}*** End Patch\n"


# Codex asks for approval only if the call itself says that it leaves the sandbox.
_OUTSIDE: Final[Arguments] = {
    "sandbox_permissions": "require_escalated",
    "justification": "scripted",
}

# Arguments a tool does not know are dropped before the call: some agents refuse extra ones.
_SHELLS: Final[dict[str, Callable[[Shell], Arguments]]] = {
    "Bash": lambda step: {
        "command": step.command,
        "description": "scripted",
        **({"run_in_background": True} if step.background else {}),
    },
    "bash": lambda step: {"command": step.command, "description": "scripted"},
    "run_shell_command": lambda step: {
        "command": step.command,
        "description": "scripted",
        "is_background": step.background,
    },
    "exec_command": lambda step: {"cmd": step.command, "yield_time_ms": 30000, **_OUTSIDE},
    "shell_command": lambda step: {"command": step.command, **_OUTSIDE},
    "shell": lambda step: {"command": ["bash", "-lc", step.command]},
    "execute": lambda step: {"command": step.command},
}

_EDITS: Final[dict[str, Callable[[Edit], Arguments]]] = {
    "Write": lambda step: {
        "file_path": step.path,
        "filePath": step.path,
        "path": step.path,
        "content": step.content,
    },
    "write_file": lambda step: {
        "file_path": step.path,
        "path": step.path,
        "content": step.content,
    },
    "write": lambda step: {"filePath": step.path, "content": step.content},
    "create": lambda step: {"path": step.path, "file_text": step.content},
    "write_text_file": lambda step: {"path": step.path, "content": step.content},
    "apply_patch": lambda step: {"input": _patch(step)},
    # Codex takes a patch in its shell for the edit it is.
    "exec_command": lambda step: {"cmd": f"apply_patch <<'EOF'\n{_patch(step)}EOF"},
}


def call_for(step: Shell | Edit | Call, offered: Sequence[Tool]) -> tuple[Tool, Arguments]:
    """The tool to call and its arguments; a tool that is not offered is called all the same."""
    match step:
        case Shell():
            return _known(step, _SHELLS, offered)
        case Edit():
            return _known(step, _EDITS, offered)
        case Call():
            return _named(step, offered)


def _known(
    step: _Step, shapes: dict[str, Callable[[_Step], Arguments]], offered: Sequence[Tool]
) -> tuple[Tool, Arguments]:
    by_name = {tool.name: tool for tool in offered}
    name = next((name for name in shapes if name in by_name), next(iter(shapes)))
    tool = by_name.get(name, Tool(name))
    arguments = shapes[name](step)
    if tool.arguments is not None:
        arguments = {key: value for key, value in arguments.items() if key in tool.arguments}
    return tool, arguments


def _named(step: Call, offered: Sequence[Tool]) -> tuple[Tool, Arguments]:
    """The tool itself; else, from inside a program, where an agent (Vibe) has its tools there."""
    exact = [tool for tool in offered if tool.name == step.tool]
    ending = [tool for tool in offered if tool.name.endswith(step.tool)]
    for tool in exact + ending:
        return tool, step.arguments
    for tool in offered:
        if tool.name == "run_typescript":
            return tool, {"code": _program(step)}
    return Tool(step.tool), step.arguments


def _program(step: Call) -> str:
    name, arguments = json.dumps(step.tool), json.dumps(step.arguments)
    return f"""async function main() {{
  const group = Object.values(tools).find((group) => {name} in group);
  return await group[{name}]({arguments});
}}"""
