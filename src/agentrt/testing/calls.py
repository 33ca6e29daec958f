"""What an agent does to a program, done without one: call a tool, ask a policy."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Final

import trio

from .._agents import BUILT_IN
from .._model.content import JsonObject, Text
from .._model.events import PermissionOption
from .._permissions.policies import (
    Decision,
    PermissionRequest,
    Policy,
    check_decision,
    check_policy,
    for_agent,
)
from .._tools.tools import Tool, ToolContext
from .._tools.tools import call_tool as run_tool

OPTIONS: Final = (
    PermissionOption("yes", "Allow", "allow_once"),
    PermissionOption("always", "Always", "allow_always"),
    PermissionOption("no", "Reject", "reject_once"),
)
"""What agents offer as answers."""


@dataclass(frozen=True)
class ToolAnswer:
    """What a model reads of a tool call."""

    text: str
    is_error: bool
    structured: JsonObject | None = None


async def call_tool(tool: Tool, /, **arguments: Any) -> ToolAnswer:
    """Call one of a program's tools as an agent would: its arguments are checked, its errors become
    an answer, its time-out counts. Cancelling it cancels the tool."""
    outcome = await run_tool(tool, arguments, ToolContext())
    text = "\n".join(block.text for block in outcome.content if isinstance(block, Text))
    structured = outcome.structured if isinstance(outcome.structured, dict) else None
    return ToolAnswer(text, outcome.is_error, structured)


async def ask_policy(
    policy: Policy,
    tool: str,
    /,
    *,
    agent: str = "claude",
    cwd: str | os.PathLike[str] = ".",
    title: str = "",
    kind: str = "other",
    **input: Any,
) -> Decision:
    """What a policy decides about a call of `tool` with this input, by an agent of the catalogue in
    the folder `cwd`. An exception of the policy's is raised. Nothing is done. A checkpoint."""
    request = PermissionRequest(
        title=title or tool,
        tool=tool,
        kind=kind,
        input=input,
        options=OPTIONS,
        cwd=os.path.abspath(cwd),  # noqa: ASYNC240 - asks nothing of the disk
        tool_call="call_1",
    )
    check_policy(policy)
    await trio.lowlevel.checkpoint()
    decision = for_agent(policy, BUILT_IN[agent])(request)
    if not isinstance(decision, Decision):
        decision = await decision
    return check_decision(policy, decision)
