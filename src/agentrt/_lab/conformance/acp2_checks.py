"""Version 2 of ACP: what is new in it, or differs from version 1."""

from __future__ import annotations

from typing import Any, Final

from ...events import JsonObject
from ...jsonrpc import INVALID_PARAMS, INVALID_REQUEST, JsonRpcResponse, encode_line
from .acp2 import USER_UPDATES, Acp2Peer
from .check import ACP_2, CheckRegistry, differs, fails, inconclusive, shown, unsupported
from .rpc import described, result_of
from .session_checks import conversation, spoken
from .wire_checks import UNSUPPORTED_VERSION_CODE, refused_version

check = CheckRegistry()

LIFECYCLE: Final = f"{ACP_2}prompt-lifecycle"
RESUMING: Final = f"{ACP_2}session-setup#resuming-sessions"
CLOSING: Final = f"{ACP_2}session-setup#closing-active-sessions"
OPTIONS: Final = f"{ACP_2}session-config-options#setting-a-config-option"


@check(
    "initialize-zero",
    "refuses version 0 and lists the versions it supports",
    "must",
    f"{ACP_2}initialization#version-negotiation",
)
async def initialize_zero(peer: Acp2Peer) -> str:
    response = await peer.initialize(0)
    if response.error is None or response.error.code != UNSUPPORTED_VERSION_CODE:
        raise fails(f"{_told(response)}, not {UNSUPPORTED_VERSION_CODE}")
    return refused_version(peer, response.error)


@check(
    "null-id",
    "refuses a request with the id null",
    "should",
    f"{ACP_2}schema#requestid",
)
async def null_id(peer: Acp2Peer) -> str:
    await peer.ready()
    before = len(peer.unknown_answers)
    peer.send(encode_line({"jsonrpc": "2.0", "id": None, "method": "session/list", "params": {}}))
    await peer.wait_until_read()
    answers = peer.unknown_answers[before:]
    if not answers:
        raise differs("no answer")
    if answers[0].error is None or answers[0].error.code != INVALID_REQUEST:
        raise differs(f"{_told(answers[0])}, not {INVALID_REQUEST}")
    return _told(answers[0])


@check(
    "insertion",
    "answers a prompt with the id of a user message, and sends this message",
    "must",
    f"{LIFECYCLE}#2-prompt-accepted",
)
async def insertion(peer: Acp2Peer) -> str:
    session = await peer.session()
    id = peer.prompt(session, peer.prompts.text)
    result = result_of(await peer.answered(id, "session/prompt"), "session/prompt")
    message = result.get("messageId")
    if not isinstance(message, str):
        raise fails(f"session/prompt gave no messageId: {shown(result)}")
    end = await peer.prompt_end(id)
    updates = peer.updates(session, before=end.at)
    if not any(_shows(update, message) for update in updates):
        raise fails(f"no user message has the id {shown(message)}")
    return "the user message has the id of the answer"


@check(
    "turn-states",
    "reports a state other than idle before the output of a turn",
    "must",
    f"{LIFECYCLE}#session-states",
)
async def turn_states(peer: Acp2Peer) -> str:
    session = await peer.session()
    end = await peer.prompt_end(peer.prompt(session, peer.prompts.text))
    state = "idle"
    for update in peer.updates(session, before=end.at):
        if update.get("sessionUpdate") == "state_update":
            state = str(update.get("state"))
        elif update.get("sessionUpdate") in peer.outputs and state == "idle":
            raise fails(f"sent {update['sessionUpdate']} while its state was idle")
    if state == "idle":
        raise fails("reported no other state than idle")
    return f"{state}, then idle with {end.words}"


@check("empty-prompt", "refuses a prompt without content", "should", f"{LIFECYCLE}#1-user-message")
async def empty_prompt(peer: Acp2Peer) -> str:
    session = await peer.session()
    params = {"sessionId": session, "prompt": list[Any]()}
    return _refused_params(await peer.ask("session/prompt", params))


@check(
    "held-prompt",
    "refuses a waiting prompt as cancelled when its session is cancelled",
    "must",
    f"{LIFECYCLE}#cancellation",
    in_turn=True,
)
async def held_prompt(peer: Acp2Peer) -> str:
    session = await peer.session()
    running = await peer.begin_long(session)
    waiting = peer.prompt(session, peer.prompts.text)
    await peer.quiet()
    if peer.over(waiting) is not None or peer.inserted(waiting):
        raise inconclusive("it does not let prompts wait")
    peer.cancel(session)
    ends = [await peer.prompt_end(running), await peer.prompt_end(waiting)]
    if (end := next((end for end in ends if end.stop != "cancelled"), None)) is not None:
        raise fails(f"a prompt ended with {end.words}")
    return "both prompts were cancelled"


@check("resume-replay", "repeats the conversation if it is requested", "must", RESUMING)
async def resume_replay(peer: Acp2Peer) -> str:
    before, answer = await _resumed(peer, {"replayFrom": {"type": "start"}})
    if not (again := conversation(before)):
        how = f", but {len(after)} updates after it" if (after := conversation(answer)) else ""
        raise fails(f"sent no history before the answer{how}")
    return f"{len(again)} updates, then the answer"


@check("resume-state", "reports its state before the answer to a resume", "must", RESUMING)
async def resume_state(peer: Acp2Peer) -> str:
    before, _ = await _resumed(peer, {})
    states = [each["state"] for each in before if each.get("sessionUpdate") == "state_update"]
    if not states:
        raise fails("sent no state before the answer")
    return f"{states[-1]}, then the answer"


async def _resumed(peer: Acp2Peer, more: JsonObject) -> tuple[list[JsonObject], list[JsonObject]]:
    """Close and resume a session with one turn. Returns the updates before and after the answer."""
    await peer.ready()
    session = await spoken(peer)
    with peer.preparing():
        await peer.ask("session/close", {"sessionId": session})
    place = len(peer.heard)
    id = peer.call("session/resume", {"sessionId": session, **peer.place, **more})
    heard = await peer.heard_answer(id, "session/resume")
    result_of(heard.message, "session/resume")
    await peer.wait_until_read()
    return peer.updates(session, place, heard.at), peer.updates(session, heard.at)


@check("resume-cursor", "refuses a replay from an unknown place", "must", RESUMING)
async def resume_cursor(peer: Acp2Peer) -> str:
    await peer.ready()
    session = await spoken(peer)
    place = {"replayFrom": {"type": "_agentrt/nowhere"}, **peer.place}
    return _refused_params(
        await peer.ask("session/resume", {"sessionId": session, **place}), must=True
    )


@check(
    "close-order",
    "reports the end of the running turn before it answers a close",
    "must",
    CLOSING,
    in_turn=True,
)
async def close_order(peer: Acp2Peer) -> str:
    session = await peer.session()
    prompt = await peer.begin_long(session)
    id = peer.call("session/close", {"sessionId": session})
    closed = await peer.heard_answer(id, "session/close")
    result_of(closed.message, "session/close")
    end = await peer.prompt_end(prompt, "the prompt of a session that was closed")
    if end.at > closed.at:
        raise fails("the turn ended after the answer")
    await peer.wait_until_read()
    if late := peer.updates(session, closed.at):
        raise fails(f"{len(late)} updates arrived after the answer")
    return f"{end.words}, then the answer"


@check("option-unknown", "refuses an unknown option of a session", "must", OPTIONS)
async def option_unknown(peer: Acp2Peer) -> str:
    await peer.ready()
    with peer.preparing():
        opened = await peer.result("session/new", peer.place)
    if not opened.get("configOptions"):
        raise unsupported("no configOptions")
    option = {"configId": "agentrt-no-option", "type": "id", "value": "none"}
    params = {"sessionId": opened.get("sessionId"), **option}
    return _refused_params(await peer.ask("session/set_config_option", params), must=True)


def _shows(update: JsonObject, message: str) -> bool:
    """True if an update is the user's message with this id."""
    return update.get("sessionUpdate") in USER_UPDATES and update.get("messageId") == message


def _told(response: JsonRpcResponse) -> str:
    """Describe an answer, for people to read."""
    if response.error is None:
        return f"answered with a result: {shown(response.result)}"
    return f"refused: {described(response.error)}"


def _refused_params(response: JsonRpcResponse, *, must: bool = False) -> str:
    """Check that a request was refused because of its parameters."""
    if response.error is not None and response.error.code == INVALID_PARAMS:
        return _told(response)
    wrong = f"{_told(response)}, not {INVALID_PARAMS}"
    raise fails(wrong) if must else differs(wrong)
