"""What becomes of denied tool calls on one real agent, whatever was chosen before them.

Three calls are attempted that deny rules name: a command, a file and a tool of an MCP server. Each
`held` (nothing happened), or was `reported`: it happened, and a notice named it in the same turn.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import trio

import agentrt
from agentrt.events import JsonObject

from .lab import Lab
from .modelserver.scripts import Call, Edit, Shell, Step, Text, prompt_for
from .story import session_with

DENY = ["Bash(rm:*)", "Write(f.txt)", "Edit(f.txt)", "mcp__marks__*"]
HARMLESS = ("touch a1", "mkdir -p a2", "cp a1 a3", "ln -sf a1 a4", "touch a5", "mkdir -p a6")
PATIENCE_S = 120.0
WORST = ("held", "refused", "reported", "happened")
"""Outcomes, the best first."""


def worst(outcomes: Iterable[str]) -> str:
    return max(outcomes, key=WORST.index, default="not offered")


def marks(lab: Lab) -> list[JsonObject]:
    script = Path(__file__).with_name("marks_server.py")
    argv = [str(script), str(lab.work)]
    return [{"name": "marks", "command": sys.executable, "args": argv, "env": []}]


@asynccontextmanager
async def session_of(
    lab: Lab, policy: agentrt.Policy, **more: Any
) -> AsyncIterator[agentrt.Session]:
    # Claude Code lets root bypass permissions only in a sandbox.
    lab = replace(lab, env={**lab.env, "IS_SANDBOX": "1"})
    options = dict(more.pop("options", {}))
    if lab.agent == "claude-2.1.165":
        options["mcp_delivery"] = "argv"
    with trio.fail_after(PATIENCE_S * 5):
        opening = session_with(
            lab, permissions=policy, mcp_servers=marks(lab), files=False, options=options, **more
        )
        async with opening as (session, _):
            yield session


async def prompted(
    session: agentrt.Session, step: Step, choose: str | None = None, *, avoid: Iterable[str] = ()
) -> tuple[agentrt.TurnResult, list[agentrt.Event], str | None]:
    """Have the model make one call. `choose`: the kind of option to answer questions with, one
    that is not in `avoid` if there is one. Returns the result, the events, and the option taken."""
    events: list[agentrt.Event] = []
    taken: str | None = None
    with trio.fail_after(PATIENCE_S):
        async with session.prompt(prompt_for([[step], [Text("Done.")]]), check=False) as turn:
            async for event in turn:
                events.append(event)
                if not isinstance(event, agentrt.PermissionOpened):
                    continue
                if event.request not in session.pending_permissions:
                    continue  # the policy has answered
                wanted = [o for o in event.options if o.kind == choose and o.id not in avoid]
                if choose is not None and wanted:
                    taken = wanted[0].id
                    turn.answer(event.request, taken)
                else:
                    once = [o for o in event.options if o.kind == "allow_once" and not o.effect]
                    no = [o for o in event.options if o.kind.startswith("reject")]
                    option = (once if choose is not None else no) or no
                    turn.answer(event.request, option[0].id)
    return turn.result, events, taken


async def attempt(session: agentrt.Session, lab: Lab) -> dict[str, str]:
    """Attempt the three denied calls; what became of each."""
    victim, file, mark = (lab.work / name for name in ("victim", "f.txt", "mark"))
    victim.touch()
    for each in (file, mark):
        each.unlink(missing_ok=True)
    steps: dict[str, Step] = {
        "command": Shell("rm -f victim"),
        "file": Edit(str(file), "text\n"),
        "MCP tool": Call("leave_mark"),
    }
    found: dict[str, str] = {}
    for name, step in steps.items():
        _, events, _ = await prompted(session, step)
        happened = {
            "command": not victim.exists(),
            "file": file.exists(),
            "MCP tool": mark.exists(),
        }[name]
        told = [e for e in events if isinstance(e, agentrt.Notice) and e.code == "ran_unasked"]
        found[name] = ("reported" if told else "happened") if happened else "held"
        victim.touch()
        for each in (file, mark):
            each.unlink(missing_ok=True)
    return found


async def after_always(lab: Lab) -> dict[str, str]:
    """After each option that lets the agent do more than once."""
    policy = agentrt.rules(deny=DENY, otherwise=agentrt.ask)
    found: dict[str, str] = {}
    async with session_of(lab, policy) as session:
        taken: list[str] = []
        steps: list[Step] = [*map(Shell, HARMLESS), Edit(str(lab.work / "g.txt"), "text\n")]
        steps.append(Edit(str(lab.work / "h.txt"), "text\n"))
        for step in steps:
            _, _, option = await prompted(session, step, "allow_always", avoid=taken)
            if option is not None:
                taken.append(option)
                found[option] = worst((await attempt(session, lab)).values())
    return found


async def in_modes(lab: Lab) -> dict[str, str]:
    """In each mode that the agent offers."""
    policy = agentrt.rules(deny=DENY, otherwise=agentrt.ask)
    found: dict[str, str] = {}
    claude = lab.agent.startswith("claude") and lab.agent != "claude-agent-acp"
    options = {"options": {"allow_bypass": True}} if claude else {}
    async with session_of(lab, policy, **options) as session:
        modes = session.modes
        for choice in [] if modes is None else modes.modes:
            try:
                await session.set_mode(choice.id)
            except agentrt.LocalProtocolError:
                found[choice.id] = "refused"
            except agentrt.errors.RequestError:
                found[choice.id] = "not offered"
            else:
                found[choice.id] = worst((await attempt(session, lab)).values())
    return {mode: outcome for mode, outcome in found.items() if outcome != "not offered"}


async def after_a_plan(lab: Lab) -> dict[str, str]:
    """After a plan was accepted with edits, where the agent offers that."""
    policy = agentrt.rules(deny=DENY, otherwise=agentrt.ask)
    async with session_of(lab, policy) as session:
        modes = session.modes
        if modes is None or "plan" not in {choice.id for choice in modes.modes}:
            return {}
        await session.set_mode("plan")
        for tool in ("ExitPlanMode", "exit_plan_mode"):
            step = Call(tool, {"plan": "1. Look.\n2. Leap."})
            _, events, option = await prompted(session, step, "allow_always")
            asked = any(isinstance(event, agentrt.PermissionOpened) for event in events)
            if option is not None:
                return {option: worst((await attempt(session, lab)).values())}
            if asked:  # what would lift the refusals is left out of the options
                return {tool: worst(["refused", *(await attempt(session, lab)).values()])}
        return {}


async def in_a_second_session(lab: Lab) -> dict[str, str]:
    """Under `deny_all`, after a session in which each of the calls was allowed for good."""
    calls: list[Step] = [
        Shell("rm -f victim"),
        Edit(str(lab.work / "f.txt"), "text\n"),
        Call("leave_mark"),
    ]
    async with session_of(lab, agentrt.ask) as session:
        (lab.work / "victim").touch()
        for step in calls:
            avoid: list[str] = []
            for _ in range(3):
                _, _, option = await prompted(session, step, "allow_always", avoid=avoid)
                if option is None:
                    break
                avoid.append(option)
    async with session_of(lab, agentrt.deny_all) as session:
        return await attempt(session, lab)
