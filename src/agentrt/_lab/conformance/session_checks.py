"""ACP: new and stored sessions."""

from __future__ import annotations

import os
from typing import Any, Final

from .acp import AcpPeer, acp_page
from .check import JSON_RPC, CheckRegistry, differs, fails, inconclusive, shown, unsupported
from .rpc import described, result_of

check = CheckRegistry()

_CONVERSATION: Final = frozenset(
    f"{who}_{how}"
    for who in ("user", "agent")
    for how in ("message", "message_chunk", "thought", "thought_chunk")
) | {"tool_call", "tool_call_update"}
"""Updates that repeat a conversation, in both versions."""
NOBODY: Final = "00000000-0000-4000-8000-000000000000"
"""An id that belongs to no session."""


@check(
    "new-sessions",
    "gives each session a unique id",
    "must",
    acp_page("session-setup#creating-a-session"),
)
async def new_sessions(peer: AcpPeer) -> str:
    first = await peer.session()
    second = await peer.another_session()
    if first == second:
        raise fails(f"two sessions have the id {shown(first)}")
    return "two ids"


@check(
    "prompt-unknown",
    "refuses a prompt for an unknown session",
    "should",
    f"{JSON_RPC}#error_object",
)
async def prompt_unknown(peer: AcpPeer) -> str:
    await peer.ready()
    response = await peer.answered(peer.prompt(NOBODY, peer.prompts.text), "session/prompt")
    if response.error is None:
        raise fails(f"ran it: {shown(response.result)}")
    return f"refused: {described(response.error)}"


@check(
    "cancel-unknown",
    "ignores a cancel for an unknown session",
    "should",
    acp_page("prompt-turn#cancellation"),
)
async def cancel_unknown(peer: AcpPeer) -> str:
    await peer.ready()
    peer.cancel(NOBODY)
    await peer.wait_until_read()
    if peer.unknown_answers:
        raise fails(f"answered a notification: {shown(peer.unknown_answers[0])}")
    return "ignored"


async def spoken(peer: AcpPeer) -> str:
    """Open a session and run one turn in it."""
    session = await peer.session()
    with peer.preparing():
        await peer.turn(session, peer.prompts.text)
        await peer.quiet()
        if not peer.said(session):
            raise inconclusive("the previous turn had no output (--text)")
    return session


def _need_load(peer: AcpPeer) -> None:
    """Raise `CheckEnded` if the agent does not announce `loadSession`."""
    if peer.capabilities.get("loadSession") is not True:
        raise unsupported("no loadSession")


@check(
    "load",
    "sends the history of a loaded session before the answer",
    "must",
    acp_page("session-setup#loading-sessions"),
)
async def load(peer: AcpPeer) -> str:
    """Check the order of the history and the answer.

    The session is closed first where that is possible: otherwise the agent may refuse to load an
    open one.
    """
    await peer.ready()
    _need_load(peer)
    session = await spoken(peer)
    if peer.sessions_can("close"):
        with peer.preparing():
            await peer.ask("session/close", {"sessionId": session})
    before = len(peer.heard)
    id = peer.call("session/load", {"sessionId": session, **peer.place})
    heard = await peer.heard_answer(id, "session/load")
    result_of(heard.message, "session/load")
    told_before = conversation(peer.updates(session, before, heard.at))
    await peer.wait_until_read()
    told_after = conversation(peer.updates(session, heard.at))
    if not told_before:
        how = f", but {len(told_after)} updates after it" if told_after else ""
        raise fails(f"sent no history before the answer{how}")
    if told_after:
        raise fails(f"sent {len(told_after)} updates of the history after the answer")
    return f"{len(told_before)} updates, then the answer"


@check(
    "load-unknown",
    "refuses to load an unknown session",
    "should",
    acp_page("session-setup#loading-sessions"),
)
async def load_unknown(peer: AcpPeer) -> str:
    await peer.ready()
    _need_load(peer)
    return await _refused(peer, "session/load")


@check(
    "resume",
    "resumes a session without repeating its history",
    "must",
    acp_page("session-setup#resuming-sessions"),
)
async def resume(peer: AcpPeer) -> str:
    await peer.ready()
    peer.require_capability("resume")
    session = await spoken(peer)
    if peer.sessions_can("close"):
        with peer.preparing():
            await peer.ask("session/close", {"sessionId": session})
    before = len(peer.heard)
    id = peer.call("session/resume", {"sessionId": session, **peer.place})
    heard = await peer.heard_answer(id, "session/resume")
    result_of(heard.message, "session/resume")
    if again := conversation(peer.updates(session, before, heard.at)):
        raise fails(f"repeated {len(again)} updates of the history")
    return "nothing was repeated"


@check(
    "resume-unknown",
    "refuses to resume an unknown session",
    "should",
    acp_page("session-setup#resuming-sessions"),
)
async def resume_unknown(peer: AcpPeer) -> str:
    await peer.ready()
    peer.require_capability("resume")
    return await _refused(peer, "session/resume")


async def _refused(peer: AcpPeer, method: str) -> str:
    """Check that a method refuses an unknown session."""
    response = await peer.ask(method, {"sessionId": NOBODY, **peer.place})
    if response.error is None:
        raise fails(f"answered with a result: {shown(response.result)}")
    return f"refused: {described(response.error)}"


def conversation(updates: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the updates that repeat a conversation."""
    return [update for update in updates if update.get("sessionUpdate") in _CONVERSATION]


@check("list", "lists sessions", "must", acp_page("session-list#listing-sessions"))
async def list_sessions(peer: AcpPeer) -> str:
    await peer.ready()
    peer.require_capability("list")
    result = await peer.result("session/list", {})
    sessions = result.get("sessions")
    if not isinstance(sessions, list):
        raise fails(f"`sessions` is not a list: {shown(result)}")
    for entry in sessions:
        if not isinstance(entry, dict) or not isinstance(entry.get("sessionId"), str):
            raise fails(f"an entry without a sessionId: {shown(entry)}")
        cwd = entry.get("cwd")
        if not isinstance(cwd, str) or not os.path.isabs(cwd):
            raise fails(f"an entry without an absolute cwd: {shown(entry)}")
    return f"{len(sessions)} entries"


@check(
    "list-has-it",
    "lists a session with at least one turn",
    "should",
    acp_page("session-list#listing-sessions"),
)
async def list_has_it(peer: AcpPeer) -> str:
    await peer.ready()
    peer.require_capability("list")
    session = await spoken(peer)
    result = await peer.result("session/list", {"cwd": str(peer.cwd)})
    entries = result.get("sessions")
    ids = [
        entry.get("sessionId")
        for entry in (entries if isinstance(entries, list) else [])
        if isinstance(entry, dict)
    ]
    if session not in ids:
        raise differs(f"missing from the {len(ids)} entries for its folder")
    return "listed"


@check(
    "list-cursor",
    "refuses an unknown cursor",
    "should",
    acp_page("session-list#pagination"),
)
async def list_cursor(peer: AcpPeer) -> str:
    await peer.ready()
    peer.require_capability("list")
    response = await peer.ask("session/list", {"cursor": "agentrt-no-cursor"})
    if response.error is None:
        raise differs("answered with a list")
    return f"refused: {described(response.error)}"


@check(
    "close-in-turn",
    "cancels the running turn of a session when it is closed",
    "must",
    acp_page("session-setup#closing-active-sessions"),
    in_turn=True,
)
async def close_in_turn(peer: AcpPeer) -> str:
    await peer.ready()
    peer.require_capability("close")
    session = await peer.session()
    id = await peer.begin_long(session)
    await peer.result("session/close", {"sessionId": session})
    stop = await peer.end(id, "the prompt of a session that was closed")
    if stop != "cancelled":
        raise fails(f"the prompt ended with {stop}")
    return "the prompt ended with cancelled"


@check(
    "close-unknown",
    "answers session/close for an unknown session",
    "open",
    acp_page("session-setup#closing-active-sessions"),
)
async def close_unknown(peer: AcpPeer) -> str:
    await peer.ready()
    peer.require_capability("close")
    response = await peer.ask("session/close", {"sessionId": NOBODY})
    raise differs("done" if response.error is None else f"refused: {described(response.error)}")


@check(
    "delete-unknown",
    "deletes an unknown session without an error",
    "should",
    acp_page("session-delete#semantics"),
)
async def delete_unknown(peer: AcpPeer) -> str:
    await peer.ready()
    peer.require_capability("delete")
    response = await peer.ask("session/delete", {"sessionId": NOBODY})
    if response.error is not None:
        raise differs(f"refused: {described(response.error)}")
    return "done"
