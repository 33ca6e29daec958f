"""The questions of a session: shown to viewers, put to the policy, and answered exactly once.

A question is a request of the agent for permission or for input, or one of agentrt itself
(`ask_own`). `asked` shows it and consults the policy. Its answer can come from the policy, from a
viewer, from a time limit or from the end of its turn; whichever is first closes it (`_close`), and
`Conversation.resolve` makes the others void.

A permission must survive a crash before the agent acts on it. With a store, an answer that allows
is sent only when its event is stored (`UnsentUntilStored`); a denial is sent immediately, because
it cannot do harm.

Without a policy, the reader of the turn answers. Reading on without an answer rejects the question,
so that a program that does not handle questions cannot hang (`reject_unanswered`).

The limit on the time of a turn stands still while the policy has left the question to a person.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Final, TypeAlias

import trio
from msgspec import structs

from ..errors import LocalProtocolError
from ..limits import Limits
from ..model.content import JsonObject
from ..model.conversation import Conversation
from ..model.driver import ASK, DENY, DecisionAnswer, DecisionRequested, Effect, ToolCheckRequested
from ..model.events import NO_ORIGIN, AnswerOrigin, PermissionOpened, PermissionOption
from ..model.result import Denial
from ..model.turn import TurnMachine
from ..permissions.policies import (
    DECISIONS,
    MAX_OPEN_QUESTIONS,
    Allow,
    Ask,
    Decision,
    Deny,
    PermissionRequest,
    Policy,
    answer_for,
    check_decision,
    check_json,
    chosen_option,
    decided_words,
    given,
    rejection,
    request_of,
)
from ..permissions.standing import OwnTools, Standing, StandingRefusal
from .interfaces import CoreHost, Steps, lifetime_of
from .tripwire import Tripwire
from .unsent import UnsentUntilStored

PROGRAM: Final = AnswerOrigin(via="program")
"""The origin of answers and cancellations by the program itself."""
_ORIGIN: Final[ContextVar[tuple[trio.lowlevel.Task | None, AnswerOrigin]]] = ContextVar(
    "agentrt_answer_origin", default=(None, PROGRAM)
)


@contextmanager
def answering(who: str, via: str) -> Iterator[None]:
    """Record the answers and cancellations in this block as those of another party than the
    program.

    It applies to the task that runs the block, not to tasks that are started in it: an agent that
    an answer starts again belongs to no client.
    """
    token = _ORIGIN.set((_current_task(), AnswerOrigin(who=who, via=via)))
    try:
        yield
    finally:
        _ORIGIN.reset(token)


def current_origin() -> AnswerOrigin:
    """Return the origin of the answer or cancellation that is being given."""
    task, origin = _ORIGIN.get()
    return origin if task is _current_task() else PROGRAM


def _current_task() -> trio.lowlevel.Task | None:
    """Return the running task; None in a callback, such as one of asyncio's."""
    try:
        return trio.lowlevel.current_task()
    except RuntimeError:
        return None


REJECT: Final = PermissionOption("reject", "Reject", "reject_once")
"""The answer to a call that was denied before the agent asked."""


BOUNDARY: Final = (
    "`allow_all` does not answer questions about the sandbox and the project's files: use a rule,"
    " or have a person asked"
)


OwnAnswer: TypeAlias = Callable[[DecisionAnswer, str, AnswerOrigin], None]
"""Receives an answer to a question of this process, with the party that gave it (as in
`PermissionClosed.by`) and its origin.
"""


def is_sweeping(decision: object) -> bool:
    """Return True if a decision allows because its policy allows everything."""
    if not isinstance(decision, Allow):
        return False
    word, _, name = decision.rule.partition(" ")
    return decision.rule == "allow_all" or (word == "allow" and name != "" and not name.strip("*"))


def request_id(request: PermissionOpened | PermissionRequest | str) -> str:
    """Return the id of a request that was given as its event, the policy's request or its id.

    Raises `TypeError`.
    """
    if isinstance(request, str):
        return request
    if isinstance(request, PermissionOpened):
        return request.request
    if isinstance(request, PermissionRequest):
        return request.id
    raise TypeError(
        "request must be a PermissionOpened, a PermissionRequest or the id of one, got"
        f" {type(request).__name__}"
    )


class OpenQuestions:
    """Handles the questions of one session. The conversation keeps the open ones."""

    __slots__ = (
        "_answered_by",
        "_asks",
        "_conversation",
        "_core",
        "_cwd",
        "_host",
        "_limit",
        "_own",
        "_own_tools",
        "_policy",
        "_standing",
        "_tripwire",
        "_unsent",
        "_wall",
    )

    def __init__(
        self,
        core: Steps,
        host: CoreHost,
        conversation: Conversation,
        withheld: UnsentUntilStored,
        *,
        limits: Limits,
        policy: Policy | None,
        own_tools: OwnTools,
        standing: Standing,
        tripwire: Tripwire,
        cwd: str,
        wall: Callable[[], float],
    ) -> None:
        """Create the questions of a session. `policy` None: the reader of each turn answers.

        `own_tools` decides about calls of the program's own tools, before the policy. `standing`
        has the refusals that apply even if the agent does not ask.
        """
        self._core = core
        self._host = host
        self._conversation = conversation
        self._unsent = withheld
        self._limit = limits.permission_timeout_s
        self._policy = policy
        self._own_tools = own_tools
        self._standing = standing
        self._tripwire = tripwire
        self._own: dict[str, OwnAnswer] = {}
        """The receivers of answers to questions of this process, by key."""
        self._answered_by: dict[str, tuple[str, AnswerOrigin]] = {}
        """By question of this process: the party that has answered, and its origin."""
        self._asks: dict[str, str] = {}
        """By question that the policy left to a person: the rule that requires asking, or ''."""
        self._cwd = cwd
        self._wall = wall

    def asked(self, effect: DecisionRequested) -> None:
        """Show a question from the agent and let the policy decide."""
        key, limit = effect.key, self._limit
        effect.options = self._standing.offered(effect, self._conversation.modes)
        if self._standing.refuses:
            self._tripwire.asked(effect)
        turn = self._conversation.turn
        late = not effect.background and turn is not None and turn.cancelling
        decision = Ask() if late else self._consult(effect)
        expires = None if limit is None else self._wall() + limit
        decided = isinstance(decision, (Allow, Deny))
        if not self._conversation.ask(effect, expires, decided=decided):
            self.drop(key)  # its turn is being cancelled
            return
        if isinstance(decision, Ask):
            self._leave_to_person(key, decision, background=effect.background)
        elif isinstance(decision, DECISIONS):
            self.decided(key, decision)
        else:
            self._host.decide(key, decision, lifetime_of(turn, background=effect.background))
        if limit is not None and self._conversation.items.open_request(key) is not None:
            self._host.expire(key, limit, lifetime_of(turn, background=effect.background))
        self._core.reset_idle_timer()

    def ask_own(self, question: DecisionRequested, answered: OwnAnswer) -> None:
        """Show a question of this process, not of the agent; `answered` gets the answer.

        It is answered as all others, except that `allow_all` does not answer it: that policy is
        about requests of the agent, and the question is about the agent's limits.
        """
        self._own[question.key] = answered
        self.asked(question)

    def checking(self, effect: ToolCheckRequested) -> None:
        """Check a tool call that the agent is about to run. A refusal applies in every mode."""
        call = effect.call
        self._tripwire.checked(call.tool_call)
        request = request_of(call, cwd=self._cwd)
        if effect.ran:
            refusal = self._tripwire.refusal(request)
            # A person may have allowed a call that was asked about; a rule that denies is never
            # overruled.
            asked = self._tripwire.was_asked(call.tool_call)
            if refusal is not None and (refusal.certain or not asked):
                self._tripwire.report(request, refusal)
            self._core.receive(self._encoded(call.key, DecisionAnswer()))
            return
        try:
            refusal = self._standing.refusal(request)
        except Exception as error:
            refusal = StandingRefusal(Deny(self.policy_failed(error).message), "", certain=True)
        if refusal is None:
            answer = DecisionAnswer()
        elif isinstance(refusal.decision, Deny):
            answer = DecisionAnswer(option=DENY, message=refusal.decision.message)
            self.show_denied(call, refusal.decision)
        else:
            answer = DecisionAnswer(
                option=ASK, message=f"{refusal.rule} requires approval for this."
            )
        self._core.receive(self._encoded(call.key, answer))

    def show_denied(self, call: DecisionRequested, denied: Deny) -> None:
        """Log a call that was denied without a request, as a question answered by the policy."""
        request = structs.replace(call, key=self._conversation.new_id("d"), options=[REJECT])
        if not self._conversation.ask(request, None, decided=True):
            return
        opened = self._conversation.items.open_request(request.key)
        self._conversation.resolve(
            request.key,
            "selected",
            by="policy",
            option=REJECT.id,
            denied=True,
            reason=denied.message,
            rule=denied.rule,
        )
        turn = None if call.background else self._conversation.turn
        item = None if opened is None else opened.item
        denial = Denial(title=call.title, by="policy", reason=denied.message, item=item)
        _record_denial(turn, denial)

    def _consult(self, effect: DecisionRequested) -> Decision | Awaitable[Decision]:
        """Return the policy's decision.

        Without a policy, the turn's reader is asked, if there is one.
        """
        if self._conversation.items.questions >= MAX_OPEN_QUESTIONS:
            return Deny(f"{MAX_OPEN_QUESTIONS} questions are open already")
        turn = self._conversation.turn
        request = request_of(effect, cwd=self._cwd)
        try:
            if (decided := self._own_tools.decide(request)) is not None:
                return decided
            if self._policy is None:
                return Ask() if turn is not None and turn.attended else Deny()
            scope = self._core.scope.of(None if turn is None else turn.id)
            decision = scope.call(self._policy, request)
            if not isinstance(decision, DECISIONS):
                decision = given(self._policy, decision)
            if effect.subject and is_sweeping(decision):
                return (
                    Ask() if turn is not None and turn.attended else Deny(BOUNDARY, rule="boundary")
                )
            return decision
        except Exception as error:
            return self.policy_failed(error)

    def policy_decided(self, decision: object) -> Decision:
        """Check and return the decision of an asynchronous policy.

        Raises `TypeError` if it is not a decision.
        """
        return check_decision(self._policy, decision)

    def policy_failed(self, error: Exception) -> Deny:
        """Report a failed policy and return a denial."""
        self._core.handler_failed("the permission policy", error)
        return Deny("the permission policy failed")

    def decided(self, key: str, decision: Decision) -> None:
        """Apply a policy's decision, if the question is still open."""
        request = self._conversation.items.open_request(key)
        if request is None:
            return
        with self._core.step():
            if isinstance(decision, Ask):
                self._leave_to_person(key, decision, background=request.background)
                return
            answer, allowed, notice = answer_for(
                request, decision, protocol=self._conversation.agent.protocol
            )
            if notice is not None:
                self._conversation.log.append(notice)
            by = "unattended" if self._policy is None else "policy"
            rule = decision.rule or _name_of(self._policy)
            self._close(request, answer, by=by, denied=not allowed, rule=rule)

    def _leave_to_person(self, key: str, decision: Ask, *, background: bool) -> None:
        """Let a person answer a question. The time of its turn stands still until then.

        Without a policy the turn's own reader is asked; that time counts for the turn.
        """
        if self._policy is None:
            return
        self._asks[key] = decision.rule
        turn = None if background else self._conversation.turn
        if turn is not None and turn.hard_left is None:
            self._core.pause(turn)

    @property
    def asks_person(self) -> bool:
        """True if the policy left an open question of the turn to a person."""
        for key in self._asks:
            request = self._conversation.items.open_request(key)
            if request is not None and not request.background:
                return True
        return False

    def expired(self, key: str) -> None:
        """Close a question that was not answered in time."""
        request = self._conversation.items.open_request(key)
        if request is not None:
            with self._core.step():
                self._close(
                    request, rejection(request), by="timeout", denied=True, outcome="expired"
                )

    def answer(self, key: str, option: str, *, note: str = "") -> None:
        """Answer a question for a person.

        Raises `LocalProtocolError` if the question is not open or has no such option, and
        `StoreUnavailable` if the answer allows something that cannot be stored now. In both cases
        nothing has changed.
        """
        request = self._request(key)
        chosen = chosen_option(request, option)
        denied = chosen.kind.startswith("reject")
        if not denied and not request.orphaned:
            self._check_store()
        with self._core.step():
            self._close(
                request,
                DecisionAnswer(option=chosen.id, message=note),
                by="user",
                denied=denied,
            )

    def fill(self, key: str, content: JsonObject) -> None:
        """Answer with the fields of a form.

        Raises like `answer`, and for content that is not JSON.
        """
        request = self._request(key)
        if request.form is None and request.url is None:
            raise LocalProtocolError(
                f"request {key} has no form: answer it with one of its options"
            )
        check_json(content, "the content of a form")
        self._check_store()
        with self._core.step():
            answer = DecisionAnswer(option="accept", content=content)
            self._close(request, answer, by="user", denied=False)

    def dismiss(self, key: str, message: str) -> None:
        """Answer neither yes nor no. Raises like `answer`."""
        request = self._request(key)
        with self._core.step():
            self._close(request, DecisionAnswer(message=message), by="user", denied=True)

    def _check_store(self) -> None:
        """Raise `StoreUnavailable` if a permission could not be stored now."""
        keeper = self._conversation.log.persister
        if keeper is not None:
            keeper.check()

    def _request(self, key: str) -> PermissionOpened:
        """Return an open question. Raises `LocalProtocolError`."""
        request = self._conversation.items.open_request(key)
        if request is None:
            raise LocalProtocolError(f"no question {key!r} is open: it was answered or withdrawn")
        return request

    def reject_unanswered(self, turn: TurnMachine, key: str | None = None) -> None:
        """Reject questions because the turn's reader continued without an answer, or left.

        Does nothing if there is a policy: it has decided that another party answers.
        """
        items = self._conversation.items
        if self._policy is not None or turn is not self._conversation.turn or not items.questions:
            return
        for each in [key] if key is not None else items.open_requests():
            self.reject_if_open(each)

    def reject_if_open(self, key: str) -> None:
        """Reject a question, if still open, because its reader continued without an answer."""
        request = self._conversation.items.open_request(key)
        if request is not None and not request.orphaned:
            with self._core.step():
                self._close(request, rejection(request), by="unattended", denied=True)

    def _close(
        self,
        request: PermissionOpened,
        answer: DecisionAnswer,
        *,
        by: str,
        denied: bool,
        outcome: str | None = None,
        rule: str = "",
    ) -> None:
        """Close a question. All answers pass through here."""
        key = request.request
        rule = self._asks.pop(key, "") or rule
        if request.orphaned and answer.option is not None:
            self._core.prompt_agent(decided_words(request, answer, denied=denied))
        turn = None if request.background else self._conversation.turn
        effects: list[Effect] = []
        stores = self._conversation.log.persister is not None
        waits = stores and not denied and not request.orphaned
        origin = self._origin_of(key, by)
        if not waits:
            # Encode first: an answer that cannot be sent must not be shown.
            sent, effects = self._encoded_or_rejected(request, answer)
            denied |= sent is not answer
            answer = sent
        reason = answer.message if denied else ""
        self._conversation.resolve(
            key,
            outcome or _outcome_of(answer),
            by=by,
            option=answer.option,
            denied=denied,
            reason=reason,
            origin=origin,
            rule=rule,
        )
        self._host.stop(key)
        if denied:
            denial = Denial(title=request.title, by=by, reason=reason, item=request.item)
            _record_denial(turn, denial)
        self._core.reset_idle_timer()  # the agent was answered, even if about its background work
        if waits:
            say = partial(self._send_stored, request, answer)
            self._unsent.send_when_stored("allow", key, turn, say, partial(self.drop, key))
        else:
            self._core.receive(effects)
        if answer.interrupt and turn is not None:
            self._core.cancel_turn(turn, "cancelled", by="caller", origin=origin)

    def _origin_of(self, key: str, by: str) -> AnswerOrigin:
        """Return the origin of an answer, and remember it for a question of this process."""
        origin = current_origin() if by == "user" else NO_ORIGIN
        if key in self._own:
            self._answered_by[key] = (by, origin)
        return origin

    def _encoded_or_rejected(
        self, request: PermissionOpened, answer: DecisionAnswer
    ) -> tuple[DecisionAnswer, list[Effect]]:
        """Return the answer and its effects; a rejection if the policy's answer is not valid.

        Raises `LocalProtocolError` if the driver does not accept the answer.
        """
        key = request.request
        try:
            return answer, self._encoded(key, answer)
        except LocalProtocolError:
            raise
        except Exception as error:
            self._core.handler_failed("the permission policy", error)
            rejected = rejection(request)
            return rejected, self._encoded(key, rejected)

    def _send_stored(self, request: PermissionOpened, answer: DecisionAnswer) -> None:
        """Send the agent its permission, now that the answer is stored."""
        key = request.request
        try:
            effects = self._encoded(key, answer)
        except Exception as error:
            self._core.handler_failed("the permission policy", error)
            effects = self._encoded(key, rejection(request))
        self._core.receive(effects)

    def given_up(self, key: str) -> None:
        """Stop waiting for the policy: another answer came, or none will."""
        if not self._unsent.has_permission_for(key):
            self.drop(key)

    def drop(self, key: str) -> None:
        """Send the agent `cancelled`, because there will be no answer."""
        self._asks.pop(key, None)
        self._host.stop(key)
        self._core.receive(self._encoded(key, DecisionAnswer()))

    def _encoded(self, key: str, answer: DecisionAnswer) -> list[Effect]:
        """Return the effects that send an answer.

        There are none for a question of this process, whose receiver is called instead, nor after
        the end of the agent's process.
        """
        if (answered := self._own.pop(key, None)) is not None:
            answered(answer, *self._answered_by.pop(key, ("", NO_ORIGIN)))
            return []
        driver = self._core.driver
        return driver.answer(key, answer) if driver is not None else []


def _outcome_of(answer: DecisionAnswer) -> str:
    """Return the outcome for the log: `selected`, or `cancelled` without an option."""
    return "cancelled" if answer.option is None else "selected"


def _record_denial(turn: TurnMachine | None, denial: Denial) -> None:
    """Add a denial to the result of its turn."""
    if turn is not None:
        turn.denied += (denial,)


def _name_of(policy: Policy | None) -> str:
    """Return the name of a policy, for the log: its own decisions have no rule."""
    name: str = getattr(policy, "__qualname__", "")
    return name.rpartition(".")[2]
