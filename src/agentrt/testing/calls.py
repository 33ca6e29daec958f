"""Calls that an agent makes to a program, without an agent: call a tool, ask a policy."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Final

import trio

from ..agents import BUILT_IN
from ..events import JsonObject, PermissionOption, Text
from ..hosting import call_tool as run_tool
from ..hosting import decide
from ..permissions import Decision, PermissionRequest, Policy
from ..tools import Tool, ToolContext

OPTIONS: Final = (
    PermissionOption("yes", "Allow", "allow_once"),
    PermissionOption("always", "Always", "allow_always"),
    PermissionOption("no", "Reject", "reject_once"),
)
"""The options that agents offer."""


@dataclass(frozen=True)
class ToolAnswer:
    """The result of a tool call as the model reads it."""

    text: str
    """The text of the answer; an error's message if `is_error`."""
    is_error: bool
    """True if the tool raised, or the arguments do not fit its schema."""
    structured: JsonObject | None = None
    """The result as an object, for a tool that returns a struct or a dictionary."""


async def call_tool(tool: Tool, /, **arguments: Any) -> ToolAnswer:
    """Call one of a program's tools as an agent would.

    The arguments are checked, errors become an answer, and the tool's timeout applies. Cancelling
    the call cancels the tool. The tool's context has no session and no turn. Example::

        @agentrt.tool
        async def add(first: int, second: int) -> int:
            return first + second

        async def test_add():
            assert (await call_tool(add, first=1, second=2)).text == "3"
            assert (await call_tool(add, first="one", second=2)).is_error
    """
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
    """Ask a policy about a call of `tool` with this input.

    - `tool`: an agent's own name for a tool, or one of the program's own tools, which every agent
      may call unless a rule denies it.
    - `agent`: name of the agent in the catalogue.
    - `cwd`: the session's working directory.
    - `title`, `kind`: fields of the request.

    Returns the decision. Nothing is run, and an exception of the policy is raised. This function is
    a checkpoint.
    """
    own = None if isinstance(tool, str) else tool.name
    name = tool if isinstance(tool, str) else tool.name
    request = PermissionRequest(
        title=title or name,
        tool=name,
        kind=kind,
        input=input,
        options=OPTIONS,
        cwd=os.path.abspath(cwd),  # noqa: ASYNC240 - asks nothing of the disk
        tool_call="call_1",
    )
    await trio.lowlevel.checkpoint()
    return await decide(policy, request, agent=BUILT_IN[agent], own_tool=own)
