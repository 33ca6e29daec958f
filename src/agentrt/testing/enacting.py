"""Repeats the recorded host's actions on a session.

`RecordedAgent` is the counterpart of `Replay`: the one plays the agent's side of a recording, the
other one the user's. It does not write protocol messages. It reads the actions of the host's user
from the recorded ones, such as a prompt, a cancel or an answer, and calls the same methods of
`Session` that a program would. So a replay tests the drivers with both directions of a real
conversation.

Actions are read from messages, since a trace has no others: a `session/prompt` was a call of
`submit`, a `session/cancel` one of `cancel`, the answer to a permission request one of `answer`,
`submit_form` or `dismiss`. Messages that the drivers send by themselves, such as the handshake, are
no actions, and are left to the driver under test. A request with no method of its own is repeated
by `Session.call`.

Each action waits for its place in the recording, which `RecordedSource` knows, and is skipped if
the driver has sent the message already.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, Protocol

import msgspec
import trio
from trio.testing import wait_all_tasks_blocked

from .._public import Prompt, Session
from ..codex import CodexSettingsUpdate, read_settings_update
from ..errors import AgentrtError, LocalProtocolError
from ..events import PermissionOpened
from ..tracing import TraceRecord

_json: Final[msgspec.json.Decoder[Any]] = msgspec.json.Decoder()


class RecordedSource(Protocol):
    """One process of a recording, while it is played. `Replay` implements it."""

    records: list[TraceRecord]

    async def next_due(self, after: int | None) -> int | None:
        """Wait for the host's next outstanding record after `after` and return its place.

        None if the recording is over.
        """
        ...

    def is_due(self, number: int) -> bool:
        """Return True if the record is still outstanding."""
        ...


class RecordedAgent:
    """The host of one recorded session.

    Requests run as tasks of `nursery`, because their answers may come after later actions. Cancel
    the nursery at the end of the recording.
    """

    def __init__(self, session: Session, nursery: trio.Nursery) -> None:
        self._session = session
        self._nursery = nursery
        self._ahead: list[Prompt] = []
        """Prompts sent early, to start the next process."""

    def begin(self, records: list[TraceRecord]) -> None:
        """Start the next process, by sending the prompt that started it in the recording."""
        for record in records:
            if record.kind == "sent" and (prompt := _prompt(_decoded(record))) is not None:
                self._ahead.append(prompt)
                self._session.submit(prompt)
                return

    async def run(self, recording: RecordedSource) -> None:
        """Repeat the host's actions on one process."""
        number: int | None = None
        while (number := await recording.next_due(after=number)) is not None:
            # The agent's output so far must have been read, independent of the order of tasks.
            await wait_all_tasks_blocked()
            if recording.is_due(number):
                await self._do(recording, number)
        await wait_all_tasks_blocked()

    async def _do(self, recording: RecordedSource, number: int) -> None:
        """Repeat what the host did at this place of the recording.

        Requests are repeated through the public API of the session, so the driver writes its own
        messages, which are then compared with the recorded ones.
        """
        body, session = _decoded(recording.records[number]), self._session
        if (prompt := _prompt(body)) is not None:
            steers = body.get("type") == "user" or body.get("method") == "turn/steer"
            self._prompt(prompt, steers=steers)
            return
        match body:
            case {"method": "session/cancel" | "turn/interrupt"} | {
                "type": "control_request",
                "request": {"subtype": "interrupt"},
            }:
                session.cancel()
                await wait_all_tasks_blocked()
                if recording.is_due(number) and "type" in body:
                    self._ask(session.call, "interrupt")  # no turn was running
            case _ if self._change_setting(body):
                pass
            case {"type": "control_request", "request": {"subtype": str(subtype), **params}}:
                self._call(subtype, {str(name): value for name, value in params.items()})
            case {"method": str(method), "id": _}:
                self._call(method, {k: v for k, v in body["params"].items() if k != "sessionId"})
            case {"result": result, "id": id}:
                self._answer_acp(_asked_by(session, recording.records[:number], id), result)
            case {"type": "control_response", "response": {"request_id": id, **response}}:
                answer = response.get("response")
                self._answer_claude(_asked_by(session, recording.records[:number], id), answer)

    def _change_setting(self, body: dict[str, Any]) -> bool:
        """Repeat the change of a setting. Returns False for other records."""
        session = self._session
        match body:
            case {"method": "session/set_mode", "params": {"modeId": str(mode)}} | {
                "type": "control_request",
                "request": {"subtype": "set_permission_mode", "mode": str(mode)},
            }:
                self._ask(session.set_mode, mode)
            case {"method": "session/set_model", "params": {"modelId": str(model)}} | {
                "type": "control_request",
                "request": {"subtype": "set_model", "model": str(model)},
            }:
                self._ask(session.set_model, model)
            case {
                "method": "session/set_config_option",
                "params": {"configId": str(option), "value": str() | bool() as value},
            }:
                self._ask(session.set_option, option, value)
            case {"method": "thread/settings/update"}:
                self._set_of_codex(read_settings_update(body["params"]))
            case _:
                return False
        return True

    def _prompt(self, prompt: Prompt, *, steers: bool) -> None:
        """Send a recorded prompt, into the running turn if it was sent so and there is one."""
        if self._ahead:
            self._ahead.pop()
            return
        if steers:
            with suppress(LocalProtocolError):  # no turn is running that could be steered
                self._session.steer(prompt)
                return
        self._session.submit(prompt)

    def _set_of_codex(self, change: CodexSettingsUpdate) -> None:
        """Repeat a change of Codex's settings; each part of it has a method of the session."""
        if change.mode is not None:
            self._ask(self._session.set_mode, change.mode)
        if change.model is not None:
            self._ask(self._session.set_model, change.model)
        if change.effort is not None:
            self._ask(self._session.set_option, "effort", change.effort)

    def _call(self, method: str, params: dict[str, Any]) -> None:
        """Repeat a request of the protocol that has no method of the session."""

        async def call() -> None:
            """Send the request; its answer is compared by the replay, not here."""
            await self._session.call(method, **params)

        self._ask(call)

    def _ask(self, ask: Callable[..., Awaitable[object]], *args: object) -> None:
        """Send a request; its answer may arrive while the recording continues."""

        async def asking() -> None:
            """Wait for the answer. An error is accepted, as the recorded host got the same."""
            try:
                await ask(*args)
            except AgentrtError:  # as in the recording
                await trio.lowlevel.checkpoint()

        self._nursery.start_soon(asking)

    def _answer_acp(self, asked: PermissionOpened | None, result: Any) -> None:
        """Give the recorded answer to a question: an option, a form, or no answer.

        `asked`: the question in this session; None if the agent did not ask it here. Codex's
        decisions have another form, but mean the same.
        """
        if asked is None:
            return
        match result:
            case {"outcome": {"optionId": str(option)}}:
                self._session.answer(asked.request, option)
            case {"action": "accept", "content": dict(content)}:
                self._session.submit_form(asked.request, content)
            case {"answers": dict(answers)}:
                self._session.submit_form(
                    asked.request, {str(id): each["answers"] for id, each in answers.items()}
                )
            case {"decision": str(option)} if option != "cancel":
                self._session.answer(asked.request, option)
            case {"decision": dict(amended)}:
                self._session.answer(asked.request, next(iter(amended)))
            case _:
                self._session.dismiss(asked.request)

    def _answer_claude(self, asked: PermissionOpened | None, answer: Any) -> None:
        """Give the recorded answer to a question of Claude Code: an option, a form, or no answer.

        `asked`: the question in this session; None if the agent did not ask it here.
        """
        if asked is None:
            return
        match answer:
            case {"behavior": "allow", "updatedInput": {"answers": dict(answers)}}:
                self._session.submit_form(asked.request, answers)
            case {"behavior": "allow", **more}:
                for_good = bool(more.get("updatedPermissions"))
                self._session.answer(asked.request, "allow_always" if for_good else "allow_once")
            case {"behavior": "deny", **more}:
                note = more.get("message")
                self._session.answer(asked.request, "reject_once", note=str(note or ""))
            case {"action": "accept", "content": dict(content)}:
                self._session.submit_form(asked.request, content)
            case _:
                self._session.dismiss(asked.request)


def _decoded(record: TraceRecord) -> dict[str, Any]:
    """Return a record as a JSON object; empty if it is not one."""
    try:
        body = _json.decode(record.data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {}
    return body if isinstance(body, dict) else {}


def _prompt(body: dict[str, Any]) -> Prompt | None:
    """Return the prompt in a message of any protocol; None if it is another message."""
    match body:
        case {"method": "session/prompt", "params": {"prompt": list(content)}} | {
            "type": "user",
            "message": {"content": str() | list() as content},
        }:
            return content
        case {"method": "turn/start" | "turn/steer", "params": {"input": list(parts)}}:
            return [block for part in parts if (block := _block(part)) is not None]
    return None


def _block(part: Any) -> dict[str, Any] | None:
    """Return a part of a Codex input as a part of a prompt."""
    match part:
        case {"type": "text", "text": text}:
            return {"type": "text", "text": text}
        case {"type": "image", "url": str(url)} if url.startswith("data:"):
            mime, _, data = url.removeprefix("data:").partition(";base64,")
            return {"type": "image", "mimeType": mime, "data": data}
        case {"type": "mention", "name": name, "path": path}:
            return {"type": "resource_link", "name": name, "uri": f"file://{path}"}
    return None


def _asked_by(session: Session, before: list[TraceRecord], id: Any) -> PermissionOpened | None:
    """Return the open question that is the agent's request `id`, by its tool call."""
    call = None
    for record in before:
        if record.kind == "received":
            match _decoded(record):
                case {
                    "id": asked,
                    "params": {"toolCall": {"toolCallId": call_id}}
                    | {"subject": {"toolCall": {"toolCallId": call_id}}}
                    | {"itemId": call_id},
                } if asked == id:
                    call = call_id
                case {"request_id": asked, "request": {"tool_use_id": call_id}} if asked == id:
                    call = call_id
    open = list(session.pending_permissions.values())
    calls = {item.id: item.tool.call for item in session.snapshot().items if item.tool is not None}
    about = [asked for asked in open if asked.item is not None and calls.get(asked.item) == call]
    return next(iter(about or open), None)
