"""The sandbox of a session: its settings, and its questions in the session's log."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, Final

import msgspec
import trio
from msgspec import structs

from ..agents import Agent
from ..errors import LocalProtocolError
from ..model.content import JsonObject
from ..model.driver import DecisionAnswer, DecisionRequested, Opening
from ..model.events import AnswerOrigin, Notice, PermissionOption
from ..permissions.network import NETWORK, BoundaryRequest
from ..permissions.policies import Policy
from ..permissions.rules import PermissionRule
from ..permissions.standing import Standing
from ..sandbox.gateway import GatewayRequest
from ..sandbox.policy import Sandbox, narrowed
from ..sandbox.wall import Wall, open_wall
from ..session.host import SessionHost

ONCE: Final = "once"
SESSION: Final = "session"
REJECT: Final = "reject"

OPTIONS: Final = (
    PermissionOption(ONCE, "Allow once", "allow_once"),
    PermissionOption(SESSION, "Allow for this session", "allow_always"),
    PermissionOption(REJECT, "Reject", "reject_once"),
)
"""The answers to a question about the sandbox."""


def stored_sandbox(fields: Mapping[str, Any]) -> Sandbox:
    """Return the sandbox with these stored fields."""
    return msgspec.convert(fields, Sandbox)


def session_wall(
    agent: Agent, opening: Opening, given: Sandbox | None, policy: Policy | None
) -> tuple[Opening, AbstractAsyncContextManager[Wall]]:
    """Return the opening of a session with a sandbox, and the block of its wall.

    A sandbox that the opening has already, because it was stored, is narrowed by the given one.
    Raises `LocalProtocolError` for an agent that does not run on this machine.
    """
    if agent.connect is not None:
        raise LocalProtocolError(
            f"{agent.name} does not run on this machine, so no sandbox can be put around it"
        )
    stored = None if opening.sandbox is None else stored_sandbox(opening.sandbox)
    sandbox = narrowed(stored, given)
    assert sandbox is not None
    rules = [PermissionRule(text, denies=True) for text in Standing(policy, agent).deny_rules]
    programs = [name for rule in rules if (name := rule.denied_program) is not None]
    wall = open_wall(sandbox, agent.name, cwd=opening.cwd, roots=opening.roots, programs=programs)
    fields = {name: msgspec.to_builtins(value) for name, value in structs.asdict(sandbox).items()}
    return structs.replace(opening, sandbox=fields), wall


async def ask_about_hosts(host: SessionHost, wall: Wall) -> None:
    """Show the questions of the sandbox in the session until cancelled."""
    sandbox = wall.policy
    shown = sandbox.network if isinstance(sandbox.network, str) else ", ".join(sandbox.network)
    host.core.add_notice(
        Notice(
            "info",
            "sandboxed",
            f"the agent runs in a sandbox ({wall.status.tier}); network: {shown}",
            _described(wall),
        )
    )
    async with trio.open_nursery() as nursery:
        async for request in wall.gateway.questions:
            nursery.start_soon(_ask, host, wall, request)


async def _ask(host: SessionHost, wall: Wall, request: GatewayRequest) -> None:
    """Ask about a host, and wait for the answer as long as the connection waits."""
    core = host.core
    key = core.conversation.new_id("n")
    target = f"[{request.host}]" if ":" in request.host else request.host
    given = {"host": request.host, "port": request.port}
    turn = core.turn
    question = DecisionRequested(
        key=key,
        kind="permission",
        title=f"Connect to {target}:{request.port}",
        options=list(OPTIONS),
        name=NETWORK,
        tool_kind="fetch",
        input=given,
        detail={"tool": NETWORK, "input": given},
        raw=BoundaryRequest(request.host, request.port),
        background=turn is None or turn.cancelling,
        subject=NETWORK,
    )
    core.questions.ask_own(question, partial(_answered, host, wall, request))
    await request.answered.wait()
    core.questions.expired(key)  # if the connection did not wait any longer


def _described(wall: Wall) -> JsonObject:
    """Return the sandbox as viewers show it."""
    return {
        "tier": wall.status.tier,
        "network": msgspec.to_builtins(wall.policy.network),
        "summary": wall.status.summary,
        "granted": [each.target for each in wall.status.granted],
    }


def _answered(
    host: SessionHost,
    wall: Wall,
    request: GatewayRequest,
    answer: DecisionAnswer,
    by: str,
    origin: AnswerOrigin,
) -> None:
    if answer.option == SESSION:
        wall.gateway.allow(request.host, request.port)
        request.answer("session")
        message = f"{request.host}:{request.port} is allowed for this session"
        host.core.add_notice(Notice("info", "sandbox_widened", message, _described(wall)))
    else:
        request.answer("once" if answer.option == ONCE else "no")
