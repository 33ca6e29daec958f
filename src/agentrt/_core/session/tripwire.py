"""Detects tool calls that ran without a question although the policy refuses them.

An agent may run a call without asking: in a mode that never asks, after an "always", or because its
own settings allow it. agentrt cannot prevent that, but it sees the call and reports it in the same
turn as a notice with the code `ran_unasked`.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import UNSET, Struct, to_builtins

from ..model.content import Diff, ToolContent
from ..model.conversation import Conversation
from ..model.driver import DecisionRequested, ToolCalled
from ..model.events import ErrorInfo, Notice
from ..permissions.policies import Deny, PermissionRequest
from ..permissions.standing import Standing, StandingRefusal
from .interfaces import Steps

RAN_UNASKED: Final = "ran_unasked"
"""The code of the notice."""
MAX_TITLES: Final = 4
"""The number of titles of one call that are remembered: agents put the command into one of them."""
SHOWN_CHARS: Final = 300
"""Characters of a call's title in the notice."""


class _WatchedCall(Struct):
    """A tool call of the running turn, as far as the agent has described it."""

    titles: list[str] = []
    name: str = ""
    kind: str = ""
    input: Any = None
    changes: tuple[str, ...] = ()
    locations: tuple[str, ...] = ()
    content: Any = None
    """The first content, in ACP's shape: the agent's display of the call before it runs."""
    running: bool = False
    judged: bool = False


class Tripwire:
    """Watches the tool calls of one session."""

    def __init__(
        self, core: Steps, conversation: Conversation, standing: Standing, *, cwd: str
    ) -> None:
        """Watch the calls of a session. `cwd` is its folder, for rules with relative paths."""
        self._core = core
        self._conversation = conversation
        self._standing = standing
        self._cwd = cwd
        self._calls: dict[str, _WatchedCall] = {}
        self._asked: dict[str, None] = {}  # smaller than a set while it is empty
        self._checked: dict[str, None] = {}
        self._asked_without_call: list[bytes] = []

    def asked(self, asked: DecisionRequested) -> None:
        """Record that the agent asked for permission, so this call is not a violation."""
        if asked.tool_call is not None:
            self._asked[asked.tool_call] = None
        else:
            self._asked_without_call.append(_fingerprint(asked.name, asked.input))

    def was_asked(self, call: str | None) -> bool:
        """Return True if the agent has asked for permission for this call."""
        return call in self._asked

    def checked(self, call: str | None) -> None:
        """Record that agentrt decided about this call before it could run."""
        if call is not None:
            self._checked[call] = None

    def refused_by_agent(self, effect: ToolCalled) -> tuple[DecisionRequested, Deny] | None:
        """Return a call that the agent itself refused by a rule of the policy, which it was given.

        Returns None for all other calls. Must be called before `called`.
        """
        call = self._calls.get(effect.id)
        if call is None or call.judged or effect.status != "failed" or not self._standing.binds:
            return None
        if effect.id in self._checked or effect.id in self._asked:
            return None
        refusal = self.refusal(self._request(effect.id, call, call.titles[-1:]))
        if refusal is None or not refusal.certain or not isinstance(refusal.decision, Deny):
            return None
        call.judged = True
        asked = DecisionRequested(
            key="",
            kind="permission",
            title=call.titles[-1] if call.titles else call.name,
            tool_call=effect.id,
            name=call.name,
            tool_kind=call.kind,
            input=call.input,
        )
        return asked, refusal.decision

    def called(self, effect: ToolCalled) -> None:
        """Record a new or changed tool call."""
        if effect.replay or effect.owner == "client" or not self._standing.refuses:
            return
        call = self._calls.get(effect.id)
        if call is None or (call.judged and effect.opens):
            if call is not None:
                self._asked.pop(effect.id, None)  # the agent reuses the id for another call
            call = self._calls[effect.id] = _WatchedCall()
        _merge(call, effect)
        match effect.status:
            case "running":
                call.running = True
            case "completed":
                self._judge(effect.id, call)
            case "failed":
                self._judge_unfinished(effect.id, call)
            case "cancelled" | "orphaned" if call.running:
                self._judge_unfinished(effect.id, call)
            case "denied":
                call.judged = True

    def turn_ended(self) -> None:
        """Judge the calls that were still running, and forget the turn's calls."""
        for id, call in list(self._calls.items()):
            if call.running:
                self._judge_unfinished(id, call)
        self._calls.clear()
        self._asked.clear()
        self._checked.clear()
        self._asked_without_call.clear()

    def _judge_unfinished(self, id: str, call: _WatchedCall) -> None:
        """Judge a call that may have run in part.

        An agent that asks before each call has not started this one: its announcement was invalid,
        or its turn has ended.
        """
        if not self._standing.binds:
            self._judge(id, call)

    def _judge(self, id: str, call: _WatchedCall) -> None:
        """Judge a call that has run, once, by each of its titles: any of them may be the command.

        A call that the agent asked about is not judged. Some agents ask without naming the call;
        those questions are matched by the tool and its input, each with one call.
        """
        if call.judged:
            return
        call.judged = True
        if id in self._asked:
            return
        printed = _fingerprint(call.name, call.input)
        if printed in self._asked_without_call:
            self._asked_without_call.remove(printed)
            return
        for title in reversed(call.titles or [""]):
            request = self._request(id, call, [title])
            refusal = self.refusal(request)
            if refusal is not None:
                self.report(request, refusal)
                return

    def _request(self, id: str, call: _WatchedCall, titles: list[str]) -> PermissionRequest:
        """Return a call as the permission request that the agent would have made."""
        return PermissionRequest(
            title=titles[0] if titles else "",
            tool=call.name,
            kind=call.kind or "other",
            input=call.input,
            cwd=self._cwd,
            tool_call=id,
            changes=call.changes,
            locations=call.locations,
            raw={"toolCall": {"content": call.content}},
        )

    def refusal(self, request: PermissionRequest) -> StandingRefusal | None:
        """Return the reason why a call should not have run; None if it may have."""
        try:
            return self._standing.refusal(request, ran=True)
        except Exception as error:
            self._core.handler_failed("the permission policy", error)
            return None

    def report(self, request: PermissionRequest, refusal: StandingRefusal) -> None:
        """Report a call that ran, and cancel the turn if the policy requires it."""
        shown = request.title or request.tool or request.kind
        if request.command and request.command not in shown:
            shown = f"{shown}: {request.command}"
        elif request.changes and not any(path in shown for path in request.changes):
            shown = f"{shown}: {', '.join(request.changes)}"
        shown = shown if len(shown) <= SHOWN_CHARS else f"{shown[:SHOWN_CHARS]}…"
        applies = "applies" if refusal.certain else "may apply"
        message = f"the agent ran a tool call without asking, and {refusal.rule} {applies}: {shown}"
        call = request.tool_call
        known = None if call is None else self._conversation.items.item_of(call)
        data = {
            "rule": refusal.rule,
            "certain": refusal.certain,
            "title": shown,
            "tool": request.tool or None,
            "call": call,
            "item": known,
        }
        self._core.add_notice(Notice("warning", RAN_UNASKED, message, data))
        turn = self._core.turn
        if self._standing.cancels and turn is not None and turn.verdict is None:
            turn.timeout = ErrorInfo(RAN_UNASKED, message, {"rule": refusal.rule})
            self._core.cancel_turn(turn, "cancelled", by="caller")


def _merge(call: _WatchedCall, effect: ToolCalled) -> None:
    """Add the fields that an effect has to the description of a call."""
    if effect.title and effect.title not in call.titles[-1:]:
        call.titles = [*call.titles, effect.title][-MAX_TITLES:]
    call.name = effect.name or call.name
    call.kind = effect.kind or call.kind
    if effect.input is not UNSET and effect.input is not None:
        call.input = effect.input
    if effect.locations is not UNSET:
        paths = (each.get("path") for each in effect.locations)
        call.locations = tuple(path for path in paths if isinstance(path, str))
    if effect.content:
        _merge_content(call, effect.content)


def _merge_content(call: _WatchedCall, content: list[ToolContent]) -> None:
    """Add the changed files and the first content of a call."""
    changed = tuple(part.path for part in content if isinstance(part, Diff))
    call.changes = changed or call.changes
    if call.content is None and len(content) == 1:
        call.content = to_builtins(content)


def _fingerprint(name: str | None, input: Any) -> bytes:
    """Return a fingerprint of a call, for agents that send no id."""
    try:
        return msgspec.json.encode([name or "", input], order="sorted")
    except (TypeError, ValueError, RecursionError):
        return (name or "").encode()
