"""What an agent does to a program, done without one: call a tool, ask a policy."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Final

import trio

from .._agents import BUILT_IN
from .._model.content import JsonObject, Text
from .._model.events import PermissionOption
from .._permissions.mcp_calls import OWN_NAME
from .._permissions.own_tools import OwnTools
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
    tool: str | Tool,
    /,
    *,
    agent: str = "claude",
    cwd: str | os.PathLike[str] = ".",
    title: str = "",
    kind: str = "other",
    **input: Any,
) -> Decision:
    """Ask a policy about a call of `tool` with this input, by an agent of the catalogue in the
    folder `cwd`. `tool` is an agent's own name of a tool, or one of the program's own tools, which
    every agent may call unless a rule denies it. Nothing is run. An exception of the policy is
    raised. A checkpoint."""
    own = OwnTools() if isinstance(tool, str) else OwnTools([tool.name], policy=policy)
    name = tool if isinstance(tool, str) else f"mcp__{OWN_NAME}__{tool.name}"
    request = PermissionRequest(
        title=title or name,
        tool=name,
        kind=kind,
        input=input,
        options=OPTIONS,
        cwd=os.path.abspath(cwd),  # noqa: ASYNC240 - asks nothing of the disk
        tool_call="call_1",
    )
    check_policy(policy)
    await trio.lowlevel.checkpoint()
    if (decided := own.decide(request)) is not None:
        return decided
    decision = for_agent(policy, BUILT_IN[agent])(request)
    if not isinstance(decision, Decision):
        decision = await decision
    return check_decision(policy, decision)
