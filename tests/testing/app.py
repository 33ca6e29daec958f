"""A program as others write them: it opens its sessions itself."""

from __future__ import annotations

from pathlib import Path

import agentrt

saved: list[str] = []


@agentrt.tool
async def save(note: str) -> str:
    """Keep a note."""
    saved.append(note)
    return f"kept: {note}"


def policy(request: agentrt.PermissionRequest) -> agentrt.permissions.Decision:
    if request.command is not None and request.command.startswith("ls"):
        return agentrt.Allow()
    return agentrt.Deny("only ls")


@agentrt.hook("PreToolUse")
async def no_secrets(input: dict[str, object]) -> dict[str, object] | None:
    return {"decision": "block", "reason": "no"} if "secret" in str(input) else None


async def review(cwd: Path, agent: str = "claude", prompt: str = "review it") -> str:
    hooks = [no_secrets] if agent == "claude" else []
    async with agentrt.open_session(
        agent, cwd=cwd, tools=[save], permissions=policy, hooks=hooks
    ) as session:
        return (await session.run(prompt)).text
