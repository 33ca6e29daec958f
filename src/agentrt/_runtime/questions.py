"""The agent's questions: permission requests and elicitations, and who answers them.

Fail closed: without a policy only the turn's own reader may say yes, and a question that it passes
by is rejected; a policy that fails or takes too long rejects.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import trio

from .._errors import LocalProtocolError, RequestError
from .._model.content import JsonObject
from .._model.driver import Answer, Asked
from .._model.events import Notice, PermissionOpened
from .._model.result import Denial
from .._model.turn import TurnState
from .permissions import (
    Allow,
    Ask,
    Decision,
    Deny,
    PermissionRequest,
    Policy,
    check_decision,
    choose_option,
)

if TYPE_CHECKING:
    from .engine import Engine
    from .turn import Turn


OPEN: Final = 1024
"""Questions that may be open at a time. Nobody answers more; to close them all at the end of their
turn takes a hundredth of a second."""


class Questions:
    """Opens, decides and closes the questions of one session."""

    def __init__(self, engine: Engine, policy: Policy | None) -> None:
        self._engine = engine
        self._policy = policy

    def asked(self, effect: Asked) -> None:
        """The agent asks: show it, and let the policy decide."""
        engine, key = self._engine, effect.key
        limit = engine.limits.permission
        expires = None if limit is None else engine.wall_time() + limit
        turn = engine.conversation.turn
        cancelling = not effect.background and (
            engine.conversation.deaf or (turn is not None and turn.state is TurnState.CANCELLING)
        )
        decision = Ask() if cancelling else self._consult(effect)
        decided = isinstance(decision, Allow | Deny)
        if not engine.conversation.ask(effect, expires, decided=decided):
            self.drop(key)  # its turn is being cancelled
            return
        if inspect.isawaitable(decision):
            self._await(effect, decision)
        else:
            self._decide(key, decision, by="unattended" if self._policy is None else "policy")
        if limit is not None and engine.conversation.items.open_request(key) is not None:
            self._limit(effect, limit)

    @property
    def _attended(self) -> bool:
        """Whether somebody iterates over the running turn, and may answer."""
        turn = self._engine.turn
        return turn is not None and turn._attended

    def _consult(self, effect: Asked) -> Decision | Awaitable[Decision]:
        """What the policy says; without one, the turn's reader is asked, if there is one."""
        if self._engine.conversation.items.questions >= OPEN:
            return Deny(f"{OPEN} questions are open already")
        if self._policy is None:
            return Ask() if self._attended else Deny()
        try:
            return self._policy(PermissionRequest.of(effect, cwd=self._engine.opening.cwd))
        except Exception as error:
            self._engine.services.tell_error("the permission policy", error)
            return Deny("the permission policy failed")

    def _await(self, effect: Asked, pending: Awaitable[Decision]) -> None:
        """Have a handler wait for the policy."""
        key = effect.key

        async def decide() -> None:
            try:
                decision = check_decision(self._policy, await pending)
            except RequestError as error:  # an answer of other handlers, of a policy's a failure
                self._failed(key, error)
            else:
                self._decide(key, decision, by="policy")

        def gave_up(*refusal: Any) -> None:
            if inspect.iscoroutine(pending):
                pending.close()  # it may never have been awaited
            self.drop(key)

        self._engine.services.spawn(
            key,
            decide,
            lambda result: None,
            gave_up,
            on_error=partial(self._failed, key),
            background=effect.background,
        )

    def _failed(self, key: str, error: Exception) -> None:
        self._engine.services.tell_error("the permission policy", error)
        self._decide(key, Deny("the permission policy failed"), by="policy")

    def _limit(self, effect: Asked, limit: float) -> None:
        key = effect.key

        async def expire() -> None:
            await trio.sleep(limit)
            self._reject(key, by="timeout", outcome="expired")

        # It shares the key's fate with a policy's handler: both end when the question does.
        self._engine.services.spawn(
            f"{key}:limit",
            expire,
            lambda result: None,
            lambda *refusal: None,
            on_error=partial(self._failed, key),
            background=effect.background,
        )

    def _decide(self, key: str, decision: Decision, *, by: str) -> None:
        request = self._engine.conversation.items.open_request(key)
        if request is None or isinstance(decision, Ask):
            return
        if (request.form is not None or request.url is not None) and isinstance(decision, Allow):
            decision = Deny()  # no policy can fill a form or visit a page
        if (
            isinstance(decision, Allow)
            and decision.updated_input is not None
            and self._engine.conversation.agent.protocol == "acp"
        ):
            # It would run what it asked for, not what was allowed.
            decision = Deny("ACP cannot change what a tool is called with")
            self._engine.log.append(
                Notice("warning", "input_not_changed", f"rejected: {decision.message}")
            )
        option = choose_option(request.options, decision)
        id = option.id if option is not None else None
        allowed = option is not None and option.kind.startswith("allow")
        match decision:
            case Allow(updated_input=updated_input) if allowed:
                answer = Answer(option=id, updated_input=updated_input)
            case Deny(message=message, interrupt=interrupt):
                answer = Answer(option=id, message=message, interrupt=interrupt)
            case _:
                answer = Answer(option=id)
        self._close(key, answer, by=by, denied=not allowed)

    def _reject(self, key: str, *, by: str, outcome: str = "selected") -> None:
        request = self._engine.conversation.items.open_request(key)
        if request is not None:
            option = choose_option(request.options, Deny())
            answer = Answer(option=option.id if option is not None else None)
            self._close(key, answer, by=by, denied=True, outcome=outcome)

    # --- answers of people

    def answer(self, key: str, option: str, *, by: str, note: str = "") -> None:
        request = self._request(key)
        chosen = next((o for o in request.options if o.id == option), None) or next(
            (o for o in request.options if o.kind == option), None
        )
        if chosen is None:
            known = ", ".join(f"{o.id} ({o.kind})" for o in request.options) or "none"
            raise LocalProtocolError(f"request {key} has no option {option!r}; it has: {known}")
        self._close(
            key,
            Answer(option=chosen.id, message=note),
            by=by,
            denied=chosen.kind.startswith("reject"),
        )

    def fill(self, key: str, content: JsonObject, *, by: str) -> None:
        self._request(key)
        self._close(key, Answer(option="accept", content=content), by=by, denied=False)

    def dismiss(self, key: str, message: str, *, by: str) -> None:
        self._request(key)
        self._close(key, Answer(message=message), by=by, denied=True)

    def _request(self, key: str) -> PermissionOpened:
        request = self._engine.conversation.items.open_request(key)
        if request is None:
            raise LocalProtocolError(f"no question {key!r} is open: it was answered or withdrawn")
        return request

    def refuse_unattended(self, turn: Turn, key: str | None = None) -> None:
        """The turn's reader went on without an answer, or left: reject, unless a policy said that
        somebody else will answer."""
        if self._policy is not None or turn is not self._engine.turn:
            return
        conversation = self._engine.conversation
        for open_key in [key] if key is not None else conversation.items.open_requests():
            self._reject(open_key, by="unattended")
        self._engine.publish()

    # --- the one way out

    def _close(
        self, key: str, answer: Answer, *, by: str, denied: bool, outcome: str | None = None
    ) -> None:
        engine = self._engine
        request = engine.conversation.items.open_request(key)
        if request is None:
            return  # somebody was faster
        turn = None if request.background else engine.turn
        if outcome is None:
            outcome = "cancelled" if answer.option is None else "selected"
        reason = answer.message if denied else ""
        engine.conversation.resolve(
            key, outcome, by=by, option=answer.option, denied=denied, reason=reason
        )
        engine.services.handlers.cancel(f"{key}:limit")
        engine.services.handlers.cancel(key)
        if denied and turn is not None:
            denial = Denial(title=request.title, by=by, reason=reason, item=request.item)
            turn._denied.append(denial)
        link = engine.link
        if link is not None:
            engine.received(link, link.driver.answer(key, answer))
        if link is not None and turn is not None:
            link.last_activity = trio.current_time()  # the idle clock starts again
            engine.conductor.adjust()
        if answer.interrupt and turn is not None:
            engine.cancel_turn(turn, "cancelled", by="caller")

    def drop(self, key: str) -> None:
        """Tell the agent that nobody will answer (`cancelled`)."""
        self._engine.services.handlers.cancel(f"{key}:limit")
        self._engine.services.handlers.cancel(key)
        link: Any = self._engine.link
        if link is not None:
            self._engine.received(link, link.driver.answer(key, Answer()))
