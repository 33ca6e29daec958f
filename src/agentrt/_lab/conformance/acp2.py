"""The client's side of version 2 of ACP, for checks. A state ends a turn there, not an answer."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from ...events import JsonObject
from ...jsonrpc import INTERNAL_ERROR, Id, JsonRpcError
from .acp import CLIENT, AcpPeer, EndedPrompt, ReceivedUpdate
from .check import AcpVersion, fails, shown, unsupported
from .rpc import result_of

REQUEST_CANCELLED_CODE: Final = -32800
USER_UPDATES: Final = ("user_message", "user_message_chunk")
MANDATORY: Final = ("list", "resume", "close")
"""Capabilities of every agent that has sessions."""


class Acp2Peer(AcpPeer):
    """The client of one agent process, in version 2."""

    version: ClassVar[AcpVersion] = 2
    capabilities_field: ClassVar[str] = "capabilities"
    outputs: ClassVar[tuple[str, ...]] = (
        "agent_message",
        "agent_message_chunk",
        "agent_thought",
        "agent_thought_chunk",
        "tool_call_update",
        "tool_call_content_chunk",
        "plan_update",
    )
    login: ClassVar[str] = "auth/login"

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._sessions: dict[Id, str] = {}
        """The session of each prompt."""

    # --- opening a session

    @property
    def greeting(self) -> JsonObject:
        return {"info": CLIENT, "capabilities": {}}

    def greet(self, result: JsonObject) -> None:
        """Take the answer to `initialize`. Without version 2, every check is unsupported."""
        super().greet(result)
        if result.get("protocolVersion") != self.version:
            raise unsupported(f"it answered version {result.get('protocolVersion')!r}")

    async def choose_mode(self, session: str, opened: JsonObject) -> None:
        """Choose the mode that asks by the option of the category `mode`."""
        options = opened.get("configOptions")
        for option in options if self.mode is not None and isinstance(options, list) else []:
            if isinstance(option, dict) and option.get("category") == "mode":
                id = option.get("configId")
                params = {"sessionId": session, "configId": id, "type": "id", "value": self.mode}
                await self.ask("session/set_config_option", params)

    def sessions_can(self, what: str) -> bool:
        """True if the agent announces a capability, or if every agent with sessions must
        have it.
        """
        offered = self.capabilities.get("session")
        if not isinstance(offered, dict):
            return False
        return what in MANDATORY or offered.get(what) is not None

    # --- turns

    def prompt(self, session: str, text: str) -> Id:
        """Send a prompt, and note its session: the end of its turn is an update there."""
        id = super().prompt(session, text)
        self._sessions[id] = session
        return id

    def inserted(self, id: Id) -> bool:
        """True if a prompt was answered."""
        return id in self._answers

    def over(self, id: Id) -> EndedPrompt | None:
        """Return the end of a prompt: an error before its insertion, or the first `idle` with a
        stop reason after its insertion."""
        heard = self._answers.get(id)
        if heard is None:
            return None
        if (error := heard.message.error) is not None:
            if error.code == REQUEST_CANCELLED_CODE:
                return EndedPrompt(heard.at, heard.time, "cancelled")
            return EndedPrompt(heard.at, heard.time, "", error)
        message = result_of(heard.message, "session/prompt").get("messageId")
        if not isinstance(message, str):
            raise fails(f"session/prompt gave no messageId: {shown(heard.message.result)}", "must")
        return self._idle_after(heard.at, message, self._sessions[id])

    def _idle_after(self, inserted: int, message: str, session: str) -> EndedPrompt | None:
        """Return the end of a turn. `inserted`: the place of the prompt's answer, which may come
        after the user message."""
        busy = spoke = False
        for each in self._updates:
            kind = each.update.get("sessionUpdate")
            if each.session != session:
                continue
            if kind in USER_UPDATES and each.update.get("messageId") == message:
                inserted = min(inserted, each.at)
            elif kind in self.outputs:
                spoke = spoke or each.at > inserted
            elif kind == "state_update":
                ends = each.update.get("state") == "idle" and each.at > inserted
                if ends and (busy or spoke) and "stopReason" in each.update:
                    return _end(each)
                busy = each.update.get("state") != "idle"
        return None

    def question_problem(self, params: JsonObject) -> str | None:
        """Describe an error in the title or the subject of a permission request; the subject is
        optional.
        """
        if not isinstance(params.get("title"), str):
            return f"its title is {shown(params.get('title'))}"
        subject = params.get("subject")
        if subject is None or (isinstance(subject, dict) and isinstance(subject.get("type"), str)):
            return None
        return f"its subject has no type: {shown(subject)}"


def _end(idle: ReceivedUpdate) -> EndedPrompt:
    """Return the end that an `idle` reports. Its reason may be any text."""
    reason, error = idle.update["stopReason"], idle.update.get("error")
    if not isinstance(reason, str):
        raise fails(f"the stop reason is {reason!r}", "must")
    if reason != "error":
        return EndedPrompt(idle.at, idle.time, reason)
    given = error if isinstance(error, dict) else {}
    code, message = given.get("code"), str(given.get("message", "no message"))
    failure = JsonRpcError(code if isinstance(code, int) else INTERNAL_ERROR, message)
    return EndedPrompt(idle.at, idle.time, "", failure)
