"""Budgets: limits on the money, tokens, turns and time of all turns that are started in a block.

A budget is charged as agents report usage. Every turn belongs to the budgets of the task that sent
its prompt, from the outermost to the innermost, and to the budget of its session. If a budget is
used up, its running turns are cancelled and it accepts no more.

The budgets around a task are a context variable, and a turn keeps the context of the task that sent
its prompt. So a budget follows a prompt through the queue. A budget whose block was left counts
nothing more.

Agents report usage in two ways that overlap: totals of the session, and figures of a turn at its
end. `UsageMeter` charges each amount once. A turn that the agent begins by itself is charged to the
budgets of the last prompt's turn.
"""

from __future__ import annotations

import contextvars
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Final, Literal, TypeVar

import trio
from msgspec import Struct, structs

from ..._base.tenant import is_number
from ..errors import BudgetExceeded, LocalProtocolError
from ..limits import parse_budget
from ..model.events import ErrorInfo, Notice, Usage
from ..model.turn import TurnMachine
from .interfaces import Steps

_Number = TypeVar("_Number", int, float)
BudgetLimit = Literal["usd", "tokens", "turns", "seconds", "unmeasured"]

_WORDS: Final = {
    "usd": "{:.4g} USD",
    "tokens": "{:,} tokens",
    "turns": "{} turns",
    "seconds": "{:g} s",
}


_ROUNDING: Final = 1e-9
"""The part of a limit in money that may be missing when it is reached: ten times 0.1 is below 1."""

_MAX_REPORTED: Final = 2**53
"""The most that is charged for one report. Numbers up to it are exact in JSON."""


class BudgetStatus(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The limits of a budget and what is spent of them. None means no limit.

    - `spent_usd`, `spent_tokens`: as reported by the agents, in USD and tokens.
    - `spent_turns`: the number of turns that were started.
    - `spent_seconds`: the time since the budget was entered.
    - `exceeded`: the limit that was reached first, or None.
    - `unmeasured`: the limits (`usd`, `tokens`) for which some turn reported nothing, so that they
      may not hold.
    """

    usd: float | None = None
    """Limit in US dollars."""
    tokens: int | None = None
    """Limit in tokens."""
    turns: int | None = None
    """Limit of the number of turns."""
    seconds: float | None = None
    """Limit of the duration."""
    spent_usd: float = 0.0
    spent_tokens: int = 0
    spent_turns: int = 0
    spent_seconds: float = 0.0
    exceeded: BudgetLimit | None = None
    unmeasured: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Describe what is spent of each limit: `0.12 of 5 USD, 3 of 20 turns`.

        If some turns reported nothing: `unknown of 5 USD`, or `at least 0.12 of 5 USD`.
        """
        parts = []
        for name, words in _WORDS.items():
            limit = getattr(self, name)
            if limit is not None:
                spent = getattr(self, f"spent_{name}")
                spent_text = words.format(round(spent, 4)).split(" ")[0]
                if name in self.unmeasured:
                    spent_text = f"at least {spent_text}" if spent else "unknown"
                parts.append(f"{spent_text} of {words.format(limit)}")
        return ", ".join(parts)


class Budget:
    """A limit on the turns that are started in a block; see `agentrt.budget`.

    It is charged while the block runs. Nothing is charged to a budget whose block has been left.
    """

    def __init__(
        self,
        *,
        usd: float | None = None,
        tokens: int | None = None,
        turns: int | None = None,
        seconds: float | None = None,
        unmeasured: Literal["warn", "stop"] = "warn",
    ) -> None:
        """See `agentrt.budget`."""
        _check(usd=usd, tokens=tokens, turns=turns, seconds=seconds)
        if unmeasured not in ("warn", "stop"):
            raise ValueError(f"unmeasured must be 'warn' or 'stop', not {unmeasured!r}")
        self.usd: Final = usd
        self.tokens: Final = tokens
        self.turns: Final = turns
        self.seconds: Final = seconds
        self._stops = unmeasured == "stop"
        self._began_at: float | None = None
        self._left_at: float | None = None
        self._spent_usd = 0.0
        self._spent_tokens = 0
        self._spent_turns = 0
        self._exceeded: BudgetLimit | None = None
        self._unmeasured: set[str] = set()
        self._running: dict[object, Callable[[Budget], None]] = {}
        self._token: contextvars.Token[tuple[Budget, ...]] | None = None

    def __repr__(self) -> str:
        return f"<Budget {self.status() or 'without limits'}>"

    # --- the block

    def __enter__(self) -> Budget:
        """Start the time, and count the turns started by this task and its children from now on."""
        if self._began_at is not None:
            raise LocalProtocolError("a budget can be used once; make another one")
        self.begin()
        self._token = _budgets.set((*_budgets.get(), self))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop counting. Running turns continue: only the budget ends, not the turns."""
        assert self._token is not None
        _budgets.reset(self._token)
        self._left_at = self._now()
        self._running.clear()

    def begin(self) -> None:
        """Start the time, unless it is running. A session that has the budget calls this."""
        if self._began_at is None:
            self._began_at = self._now()

    def _now(self) -> float:
        """Return the time on Trio's clock, so that tests with a virtual clock need no waiting."""
        return trio.current_time()

    # --- what is spent

    @property
    def exceeded(self) -> BudgetLimit | None:
        """The limit that was reached first: `usd`, `tokens`, `turns` or `seconds`.

        `unmeasured` if the budget was made with `unmeasured="stop"` and an agent reported no usage.
        None while something is left of every limit.
        """
        return self._exceeded

    @property
    def spent_usd(self) -> float:
        """The money spent, in USD, as far as agents have reported it."""
        return self._spent_usd

    @property
    def spent_tokens(self) -> int:
        """The tokens spent, as far as agents have reported them."""
        return self._spent_tokens

    @property
    def spent_turns(self) -> int:
        """The number of turns that were started."""
        return self._spent_turns

    @property
    def unmeasured(self) -> frozenset[str]:
        """The limits (`usd`, `tokens`) for which some turn reported nothing."""
        return frozenset(self._unmeasured)

    @property
    def left_usd(self) -> float | None:
        """The money left, in USD; None without such a limit."""
        return None if self.usd is None else max(0.0, self.usd - self._spent_usd)

    @property
    def deadline(self) -> float:
        """The time at which the limit `seconds` is reached; infinity without one."""
        if self.seconds is None or self._began_at is None or self._left_at is not None:
            return math.inf
        return self._began_at + self.seconds

    def status(self) -> BudgetStatus:
        """Return the limits and what is spent of them."""
        spent_s = 0.0
        if self._began_at is not None:
            spent_s = (self._now() if self._left_at is None else self._left_at) - self._began_at
        return BudgetStatus(
            usd=self.usd,
            tokens=self.tokens,
            turns=self.turns,
            seconds=self.seconds,
            spent_usd=self._spent_usd,
            spent_tokens=self._spent_tokens,
            spent_turns=self._spent_turns,
            spent_seconds=round(spent_s, 3),
            exceeded=self._exceeded,
            unmeasured=tuple(sorted(self._unmeasured)),
        )

    # --- turns

    def check(self, *, starts: bool = True) -> None:
        """Raise `BudgetExceeded` if no turn may start, or with `starts=False` continue."""
        if self._left_at is not None:
            return
        if self._exceeded is None and self._now() >= self.deadline:
            self._exceed("seconds")
        if starts and self._exceeded is None and self.turns is not None:
            if self._spent_turns >= self.turns:
                self._exceed("turns", running=False)
        if self._exceeded is not None:
            raise BudgetExceeded(self.reason, self._exceeded)

    @property
    def reason(self) -> str:
        """The reason why the budget accepts no more turns, for people."""
        if self._exceeded == "unmeasured":
            names = " and ".join(sorted(self._unmeasured))
            return f"the budget has a limit in {names}, but the agent does not report that"
        return f"the budget is used up ({self._exceeded}): {self.status()}"

    def start_turn(self, key: object, stop: Callable[[Budget], None], *, counts: bool) -> None:
        """Add a running turn. `stop` is called if the budget is used up before `end_turn`."""
        if self._left_at is None:
            self._running[key] = stop
            self._spent_turns += counts

    def end_turn(self, key: object) -> None:
        """Remove a turn that has ended."""
        self._running.pop(key, None)

    def charge(self, usd: float, tokens: int) -> None:
        """Add reported usage, and stop the running turns if a limit is reached."""
        if self._left_at is not None:
            return
        self._spent_usd += usd
        self._spent_tokens += tokens
        if self.usd is not None and self._spent_usd >= self.usd * (1 - _ROUNDING):
            self._exceed("usd")
        elif self.tokens is not None and self._spent_tokens >= self.tokens:
            self._exceed("tokens")

    def miss(self, names: Iterable[str]) -> frozenset[str]:
        """Record that a turn has ended without reporting these; return the limits they concern."""
        if self._left_at is not None:
            return frozenset()
        limited = {name for name in names if getattr(self, name) is not None}
        new = limited - self._unmeasured
        self._unmeasured |= limited
        if limited and self._stops:
            self._exceed("unmeasured")
        return frozenset(new)

    def _exceed(self, limit: BudgetLimit, *, running: bool = True) -> None:
        """Record the first limit that was reached, and stop the running turns.

        `running=False`: let them continue, because the limit on the number of turns concerns new
        ones only.
        """
        if self._exceeded is None:
            self._exceeded = limit
            stops = list(self._running.values()) if running else []
            for stop in stops:
                stop(self)


_budgets: contextvars.ContextVar[tuple[Budget, ...]] = contextvars.ContextVar(
    "agentrt_budgets", default=()
)


def budget(
    *,
    usd: float | None = None,
    tokens: int | None = None,
    turns: int | None = None,
    seconds: float | None = None,
    unmeasured: Literal["warn", "stop"] = "warn",
) -> Budget:
    """Limit the money, tokens, turns and time of all turns that are started in a block::

        with agentrt.budget(usd=5, turns=50) as spent:
            async with agentrt.open_session("claude") as session:
                await session.run("Fix the failing tests.")
        print(spent.spent_usd, spent.exceeded)

    It counts every turn that is started by a task inside the block, in all sessions together.
    Blocks nest: a turn counts for all blocks around it, and the first limit that is reached ends
    it. Instead of a block, pass the object to `open_session` or
    `open_runtime` as `budget`: then it counts all turns there, whoever starts them.

    When a limit is reached, running turns are cancelled (outcome `cancelled`, `by="budget"`, with
    the partial answer and an error that has the numbers), and further ones raise `BudgetExceeded`.

    - `usd`: money in US dollars, as reported by agents. `tokens`: input and output tokens.
    - `turns`: turns started by prompts. `seconds`: time since the block was entered.
    - `unmeasured`: the reaction to an agent that does not report a limited quantity. `"warn"` adds
      a notice (`budget_unmeasured`) to its log; `"stop"` accepts no more turns.

    Agents report usage at the end of a turn, some also during it, so the last turn may exceed a
    limit. Raises `ValueError` for a limit that is not a positive number.
    """
    return Budget(usd=usd, tokens=tokens, turns=turns, seconds=seconds, unmeasured=unmeasured)


@contextmanager
def fail_on_budget(
    *,
    usd: float | None = None,
    tokens: int | None = None,
    turns: int | None = None,
    seconds: float | None = None,
    unmeasured: Literal["warn", "stop"] = "warn",
) -> Iterator[Budget]:
    """Limit all turns that are started in a block, and raise if a limit is reached::

        with fail_on_budget(usd=5):
            async with agentrt.open_session("claude") as session:
                await session.run("Fix the failing tests.")

    Works as `agentrt.budget`, in the way that `trio.fail_after` works as `trio.move_on_after`: when
    the block is left normally after a limit was reached, `BudgetExceeded` is raised. Another
    exception that leaves the block is not replaced. Raises `ValueError` for a limit that is not a
    positive number.
    """
    limited = Budget(usd=usd, tokens=tokens, turns=turns, seconds=seconds, unmeasured=unmeasured)
    with limited:
        yield limited
    if limited.exceeded is not None:
        raise BudgetExceeded(limited.reason, limited.exceeded)


def budget_from(text: str | None) -> Budget | None:
    """Return the budget of a text such as `5usd,2Mtok,30min,20turns`. Raises `ValueError`."""
    return None if text is None else Budget(**structs.asdict(parse_budget(text)))


def money_left(own: tuple[Budget, ...]) -> Callable[[], float | None]:
    """Return a function that returns the money left, in USD, of the tightest of these budgets.

    That is `own`, the budgets of a session, and those around the current task until their blocks
    are left. None: no limit.
    """
    budgets = (*_budgets.get(), *own)
    if not budgets:
        return _unlimited

    def left() -> float | None:
        """Return the money left of the tightest budget now, in USD."""
        counting = [each.left_usd for each in budgets if each._left_at is None]
        return min((usd for usd in counting if usd is not None), default=None)

    return left


def _unlimited() -> None:
    """Return None: without a budget, there is no limit."""


def _check(**limits: float | None) -> None:
    """Raise `ValueError` for a limit that is not a positive number; a bool is not a number here."""
    for name, value in limits.items():
        if value is None:
            continue
        whole = name in ("tokens", "turns")
        if not is_number(value) or value <= 0 or (whole and value != int(value)):
            kind = "a whole number" if whole else "a number"
            raise ValueError(f"{name} must be {kind} above 0, not {value!r}")


_NOTHING: Final[frozenset[str]] = frozenset()


class UsageMeter:
    """Computes what to charge from an agent's reports.

    Agents report a session's totals, which may be set back when a process is replaced or a
    conversation is reset, a turn's own figures at its end, or both. What was charged never becomes
    less.
    """

    measured: frozenset[str] = _NOTHING
    """The quantities that were reported for the running turn."""

    def __init__(self, *, fresh: bool) -> None:
        """`fresh`: the agent has no earlier conversation, so that its totals begin at zero."""
        self._usd: float | None = 0.0 if fresh else None
        self._tokens: int | None = 0 if fresh else None
        self._turn_usd = 0.0
        self._turn_tokens = 0
        self._ahead_usd = 0.0
        self._ahead_tokens = 0

    def begin_turn(self) -> None:
        """Count from zero for a new turn."""
        self._turn_usd, self._turn_tokens = 0.0, 0
        self._ahead_usd, self._ahead_tokens = 0.0, 0
        self.measured = _NOTHING

    def total(self, usage: Usage) -> tuple[float, int]:
        """Take a session's totals; return the money and the tokens to charge."""
        usd, tokens = 0.0, 0
        cost, count = _cost(usage), _charged(usage.total_tokens)
        if cost is not None:
            if self._usd is not None:
                usd = cost - self._usd if cost >= self._usd else cost
                self.measured |= {"usd"}
            self._usd = cost
        if count is not None:
            if self._tokens is not None:
                tokens = count - self._tokens if count >= self._tokens else count
                self.measured |= {"tokens"}
            self._tokens = count
        # A turn's own figures may have come before the totals that include them.
        paid_usd, paid_tokens = min(usd, self._ahead_usd), min(tokens, self._ahead_tokens)
        self._ahead_usd -= paid_usd
        self._ahead_tokens -= paid_tokens
        usd, tokens = usd - paid_usd, tokens - paid_tokens
        self._turn_usd += usd
        self._turn_tokens += tokens
        return usd, tokens

    def end_turn(self, usage: Usage | None) -> tuple[float, int]:
        """Take a turn's own figures; return the money and the tokens still to charge."""
        usd, tokens = 0.0, 0
        cost, count = (None, None) if usage is None else (_cost(usage), _tokens(usage))
        if cost is not None:
            self.measured |= {"usd"}
            usd = max(0.0, cost - self._turn_usd)
        if count is not None:
            self.measured |= {"tokens"}
            tokens = max(0, count - self._turn_tokens)
        self._ahead_usd += usd
        self._ahead_tokens += tokens
        self._turn_usd += usd
        self._turn_tokens += tokens
        return usd, tokens


def _cost(usage: Usage) -> float | None:
    """Return the cost in USD; None if it is unknown or in another currency."""
    return _charged(usage.cost) if usage.currency in (None, "USD") else None


def _tokens(usage: Usage) -> int | None:
    """Return the tokens of a turn: the total, else input and output; None if none are known."""
    if usage.total_tokens is not None:
        return _charged(usage.total_tokens)
    parts = [_charged(each) for each in (usage.input_tokens, usage.output_tokens)]
    known = [each for each in parts if each is not None]
    return sum(known) if known else None


def _charged(reported: _Number | None) -> _Number | None:
    """Return the number to charge for a reported one: None, so unknown, if it is negative.

    An agent can report any number; above `_MAX_REPORTED` it counts as that.
    """
    if reported is None or not reported >= 0:
        return None
    return min(reported, type(reported)(_MAX_REPORTED))


class SessionBudgets:
    """The budgets that the turns of one session are charged to."""

    def __init__(self, core: Steps, own: tuple[Budget, ...], *, fresh: bool) -> None:
        """`own`: budgets of the session itself. `fresh`: as in `UsageMeter`."""
        self._core = core
        self._own = own
        self._meter = UsageMeter(fresh=fresh)
        self._turn: TurnMachine | None = None
        self._charged: tuple[Budget, ...] = own
        """The budgets of the last turn, which late reports are charged to."""
        self._reported = _NOTHING
        self._refused: tuple[Budget, ...] = ()
        """Budgets whose refusals are in the log. One notice each is enough."""

    def _of(self, turn: TurnMachine) -> tuple[Budget, ...]:
        """Return the budgets of a turn: those of the session, then those around the prompt's task.

        A budget that is both counts once.
        """
        context, own = turn.context, self._own
        around = () if context is None else context.get(_budgets, ())
        return (*(each for each in own if each not in around), *around) if own else around

    @property
    def status(self) -> list[BudgetStatus]:
        """The budgets of the last turn, the outermost first."""
        return [budget.status() for budget in self._charged]

    @property
    def spent(self) -> str:
        """The budgets of the last turn and what is spent of them, in words."""
        return "; ".join(filter(None, map(str, self.status)))

    def check(self, turn: TurnMachine) -> None:
        """Raise `BudgetExceeded` if a turn may not start."""
        for budget in self._of(turn):
            budget.begin()
            try:
                budget.check()
            except BudgetExceeded as error:
                self._report_refused(budget, str(error))
                raise

    def turn_began(self, turn: TurnMachine) -> None:
        """Charge a turn that has started from now on."""
        self._turn = turn
        if turn.origin == "user":
            self._charged = self._of(turn)
        if charged := self._charged:
            self._meter.begin_turn()
            for budget in charged:
                budget.start_turn(turn, lambda b: self._stop(turn, b), counts=turn.origin == "user")
            turn.budget_at = min(budget.deadline for budget in charged)

    def used(self, usage: Usage) -> None:
        """Charge the session's totals."""
        running = self._core.turn
        if running is not None and running is not self._turn:
            self.turn_began(running)  # the agent has begun it by itself
        usd, tokens = self._meter.total(usage)  # also if no budget of this turn is charged
        if usd or tokens:
            self._charge(usd, tokens)

    def attempt_failed(self, usage: Usage | None) -> None:
        """Charge a failed attempt of the running turn, whose prompt is sent again."""
        self._charge(*self._meter.end_turn(usage))
        self._meter.begin_turn()

    def turn_ended(self, turn: TurnMachine, usage: Usage | None) -> None:
        """Charge the turn's own figures, and report what is spent."""
        known, self._turn = self._turn, None
        if not self._charged:
            return
        for budget in self._charged:
            budget.end_turn(turn)
        if turn is not known:
            self._meter.begin_turn()
        self._charge(*self._meter.end_turn(usage))
        missing = {"usd", "tokens"} - self._meter.measured
        if missing and turn.origin == "user" and turn.verdict is None:
            limited = frozenset().union(*(budget.miss(missing) for budget in self._charged))
            self._report_unmeasured(limited)
        if spent := self.spent:
            data = [structs.asdict(status) for status in self.status]
            self._core.add_notice(Notice("info", "budget_spent", f"budget: {spent}", data))

    def expired(self) -> None:
        """Stop the turn if the time of one of its budgets is over."""
        for budget in self._charged:
            try:
                budget.check(starts=False)
            except BudgetExceeded:
                pass  # the running turns were stopped

    def _charge(self, usd: float, tokens: int) -> None:
        """Charge the budgets of the last turn."""
        for budget in self._charged:
            budget.charge(usd, tokens)

    def _stop(self, turn: TurnMachine, budget: Budget) -> None:
        """Cancel a running turn whose budget is used up; the error of the turn names the limit."""
        if turn.verdict is None:
            data = {"limit": budget.exceeded, "budget": structs.asdict(budget.status())}
            turn.timeout = ErrorInfo("budget_exceeded", budget.reason, data)
            self._core.cancel_turn(turn, "cancelled", by="budget")

    def _report_refused(self, budget: Budget, reason: str) -> None:
        """Report the first prompt that a budget refuses."""
        if budget not in self._refused:
            self._refused += (budget,)
            data = {"limit": budget.exceeded, "budget": structs.asdict(budget.status())}
            message = f"a prompt was not sent: {reason}"
            self._core.add_notice(Notice("warning", "budget_refused", message, data))

    def _report_unmeasured(self, names: frozenset[str]) -> None:
        """Report, once for each limit, that the agent gives no numbers for it."""
        new = names - self._reported
        if new:
            self._reported |= new
            what = " and ".join(sorted(new))
            message = f"the agent does not report {what}, so the budget's limit may not hold"
            notice = Notice("warning", "budget_unmeasured", message, {"limits": sorted(new)})
            self._core.add_notice(notice)
