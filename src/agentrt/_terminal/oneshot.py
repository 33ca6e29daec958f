"""One-shot mode: one prompt, its answer on standard output, an exit status that scripts can trust.

A signal cancels the turn, and what the agent still says is written. A second one ends the agent at
once, a third one this process.
"""

from __future__ import annotations

import errno
import math
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from itertools import dropwhile
from typing import Final, TextIO

import trio
from msgspec import structs

from .._errors import AgentrtError
from .._model.events import (
    Error,
    Event,
    Outcome,
    PermissionClosed,
    PermissionOpened,
    TurnEnded,
)
from .._model.result import TurnResult
from .._nesting import bare_errors
from .._permissions.policies import NOTHING_IS_ALLOWED
from .._runtime.drain import wait_for_rest
from .._session.session import Session, host_of
from .._session.subscription import Subscription
from .asking import Asker
from .bound import TIMED_OUT, Bound, TimedOut
from .console import PARTING, Console, open_console, open_terminal, stderr_of
from .formats import (
    Format,
    FormatName,
    JsonFormat,
    LastMessage,
    Nothing,
    StreamFormat,
    TextFormat,
    ValueFormat,
    error_of,
    failure,
    shown,
)
from .lines import LineReader
from .own import open_own
from .setup import Setup, UsageError, exit_code
from .signals import BROKEN_PIPE, ending_signals, let_the_next_one_kill
from .text import one_line
from .transcript import Transcript
from .view import View, how_it_ended

FAILED, DENIED = 1, 5

PATIENCE: Final = 3.0
"""Seconds of silence after which it is said that standard input is being read."""

_NORMAL: Final = frozenset({None, "end_turn", "stop_sequence", "stop", "success", "completed"})
"""Agents' words for a turn that ended as it should."""


async def one_shot(
    setup: Setup,
    prompt: str | None,
    format: FormatName,
    last_message: str | None = None,
    timeout: float | None = None,
) -> int:
    """Run one prompt, or the one on standard input; returns the exit status. `last_message`: the
    file that the agent's last message is also written to. `timeout`: the time for all of it."""
    ending, bound = Ending(), Bound(timeout)
    status = FAILED
    with trio.open_signal_receiver(*ending_signals()) as signals:
        async with bare_errors(), trio.open_nursery() as nursery:
            nursery.start_soon(ending.obey, signals, nursery.cancel_scope)
            async with open_console(ending.cannot_write, setup.config.terminal.color) as console:
                ending.console = console
                last = LastMessage()
                job = _OneShot(setup, console, ending, format, last, bound)
                with ending.scope:
                    try:
                        with bound.over("reading the prompt from standard input"):
                            text = await _whole_prompt(prompt, console)
                        with _emptied(last_message) as file:
                            status = await job.run(text)
                            if file is not None:
                                await trio.to_thread.run_sync(file.write, last.text)
                    except AgentrtError as error:
                        console.report_error(error)
                        status = exit_code(error)
                        timed_out = isinstance(error, TimedOut)
                        job.fail(error_of(error), "timed_out" if timed_out else "failed")
                if ending.code is not None:
                    job.fail(Error("interrupted", "it was ended before the turn was"), "cancelled")
                if ending.trouble:
                    console.report(ending.trouble)
                console.end()
            nursery.cancel_scope.cancel(reason="done")
    return status if ending.code is None else ending.code


class Ending:
    """How it ends before its time, and with which exit status."""

    def __init__(self) -> None:
        self.code: int | None = None
        self.scope = trio.CancelScope()
        """Around all the work."""
        self.rest = trio.CancelScope()
        """Around the wait for what the agent goes on with behind the turn."""
        self.resting = False
        self.console: Console | None = None
        self.session: Session | None = None
        self.trouble = ""

    def cannot_write(self, error: OSError) -> None:
        """Nobody takes the answer: then nobody needs it."""
        if error.errno in (errno.EPIPE, errno.EIO):
            self._now(BROKEN_PIPE)
        else:
            self.trouble = f"standard output: {os.strerror(error.errno or 0)}"
            self._now(FAILED)

    def _now(self, code: int) -> None:
        if self.code is None:
            self.code = code
        self.scope.cancel(reason=f"exit status {code}")

    async def obey(self, signals: AsyncIterator[int], everything: trio.CancelScope) -> None:
        """Wait for the signals that end it."""
        number = await anext(signals)
        if number == signal.SIGINT and self.console is not None:
            self.console.interrupted()
        session = self.session
        turn = session.state.turn if session is not None else None
        if session is not None and (self.resting or (turn is not None and turn.origin == "user")):
            self.code = 128 + number
            session.cancel()
            self.rest.cancel(reason=f"signal {number}")
        else:
            self._now(128 + number)
        await anext(signals)
        let_the_next_one_kill()
        if session is not None:
            await session.aclose()
        everything.deadline = trio.current_time() + PARTING


async def _whole_prompt(text: str | None, console: Console) -> str:
    """The prompt of the arguments and, behind it, what is on standard input; `-` is all that."""
    if text == "-":
        prompt = await _piped(console)
    elif os.isatty(0):
        prompt = text or ""
    else:
        prompt = "\n\n".join(filter(None, (text, await _piped(console))))
    if not prompt.strip():
        raise UsageError("no prompt: say -p TEXT, or write it to standard input")
    return prompt


async def _piped(console: Console) -> str:
    async def explain() -> None:
        await trio.sleep(PATIENCE)
        console.report("reading the prompt from standard input (use </dev/null if there is none)")

    async with bare_errors(), trio.open_nursery() as nursery:
        nursery.start_soon(explain)
        piped = await LineReader(0).read_all()
        nursery.cancel_scope.cancel(reason="it has come")
    return piped


class _OneShot:
    """One prompt, from the opening of its session to the exit status."""

    def __init__(
        self,
        setup: Setup,
        console: Console,
        ending: Ending,
        format: FormatName,
        last: LastMessage,
        bound: Bound,
    ) -> None:
        self._setup = setup
        self._console = console
        self._ending = ending
        self._format: FormatName = format
        self._last = last
        self._bound = bound
        self._rejected = Rejections()
        self._ends: list[TurnEnded] = []
        self._seq = 0
        self._reported = False
        """How it ended stands on standard output."""

    async def run(self, prompt: str) -> int:
        setup, console, ending = self._setup, self._console, self._ending
        if setup.note:
            console.report(setup.note)
        wanted = setup.config.permissions.mode or ("ask" if os.isatty(0) else "deny")
        with ExitStack() as stack:
            terminal = None
            if wanted != "deny" and console.err.is_terminal:
                terminal = 0 if os.isatty(0) else stack.enter_context(open_terminal())
            if wanted == "ask" and terminal is None:
                console.report("nobody can be asked here, so permission requests are rejected")
                wanted = "deny"
            limits = setup.limits
            if limits.hard is not None and "hard" in setup.config.limits:
                limits = structs.replace(limits, drain=min(limits.drain, limits.hard))
            limits = self._bound.applied(limits)
            policy = setup.policy(wanted, attended=terminal is not None)
            async with open_own(setup.config.terminal.store) as own:
                with self._bound.over("the start of the agent") as start:
                    opening = setup.open(policy, limits=limits, replay=False, own=own)
                    async with opening as session:
                        start.deadline = math.inf
                        ending.session = session
                        result = await self._converse(session, prompt, terminal)
                        await session.aclose()
        return self._verdict(result)

    def fail(self, error: Error, outcome: Outcome = "failed") -> None:
        """Say on standard output that there was no turn, where a program reads it."""
        if not self._reported:
            self._reported = True
            name = self._setup.agent.name
            line = failure(self._format, error, agent=name, outcome=outcome, seq=self._seq + 1)
            self._console.out.data(shown(self._console.out, line))

    async def _converse(self, session: Session, prompt: str, terminal: int | None) -> TurnResult:
        console, ending = self._console, self._ending
        answer = self._make_format(session)
        lines = Transcript(
            console.err,
            answer=isinstance(answer, Nothing),
            progress=console.err.is_terminal,
            all_of_it="--output-format stream-json has them all",
        )
        view = View(lines)
        asker = Asker(session, view, lines, can_ask=terminal is not None)
        with session.subscribe_all() as events, session.subscribe_all() as others:
            async with bare_errors(), trio.open_nursery() as viewers:
                viewers.start_soon(self._write, events, answer)
                viewers.start_soon(self._watch, others, view, asker, terminal)
                left = self._bound.left
                limits = (
                    session.limits if left is None else structs.replace(session.limits, hard=left)
                )
                result = await session.run(prompt, check=False, limits=limits)
                ending.resting = True
                with ending.rest:
                    await wait_for_rest(host_of(session), self._bound.left)
                if ending.code is not None:
                    await session.aclose()  # what it still did is reported as ended
                events.finish()
                others.finish()
        result = _decisive(result, self._ends)
        self._reported = True
        for each in (answer, self._last):
            each.end(result)
        return result

    async def _write(self, events: Subscription, answer: Format) -> None:
        """Standard output, as fast as its reader takes it."""
        async for event in events:
            self._seq = events.seq
            answer.take(event, events.seq)
            self._last.take(event, events.seq)
            if self._console.out.full:
                await self._console.out.room()

    async def _watch(
        self, events: Subscription, view: View, asker: Asker, terminal: int | None
    ) -> None:
        """Standard error, and the questions."""
        async with bare_errors(), trio.open_nursery() as nursery:
            if terminal is not None:
                nursery.start_soon(asker.serve, terminal)
            async for event in events:
                view.take(event)
                asker.take(event)
                if isinstance(event, TurnEnded):
                    self._ends.append(event)
                if said := self._rejected.take(event):
                    self._console.report(said)
            nursery.cancel_scope.cancel(reason="all is shown")

    def _make_format(self, session: Session) -> Format:
        console = self._console
        if self._format == "json":
            return JsonFormat(console.out, session)
        if self._format == "stream-json":
            return StreamFormat(console.out)
        if "json_schema" in self._setup.options:
            return ValueFormat(console.out)
        return Nothing() if console.shared else TextFormat(console.out)

    def _verdict(self, result: TurnResult) -> int:
        """The exit status, and why, if it is not 0."""
        rejected = self._rejected.count > 0
        why = how_it_ended(result)
        match result.outcome:
            case "completed":
                status = DENIED if rejected and result.stop_reason not in _NORMAL else 0
                if status:
                    why = f"the agent stopped ({result.stop_reason})"
            case "timed_out":
                status = TIMED_OUT
            case "cancelled" | "refused" | "failed":
                status = DENIED if rejected else FAILED
            case _:
                status = FAILED
        if why is not None and self._ending.code is None:
            denied = " after a permission request was rejected" if status == DENIED else ""
            data = result.error.data if result.error is not None else None
            self._console.report(why + denied, stderr_of(data))
        return status


def _decisive(result: TurnResult, ends: list[TurnEnded]) -> TurnResult:
    """How it all ended: as the prompt's turn, unless the agent failed in what it went on with."""
    if result.outcome == "completed":
        behind = dropwhile(lambda end: end.turn != result.turn, ends)
        for end in behind:
            if end.outcome not in ("completed", "cancelled"):
                return structs.replace(
                    result,
                    turn=end.turn,
                    outcome=end.outcome,
                    by=end.by,
                    stop_reason=end.stop_reason,
                    error=end.error,
                )
    return result


@contextmanager
def _emptied(name: str | None) -> Iterator[TextIO | None]:
    """The file, already without what was in it: nothing may be taken for this answer that is not.
    Raises `UsageError` before the agent is started."""
    if name is None:
        yield None
        return
    try:
        file = open(name, "w", encoding="utf-8")  # noqa: SIM115
    except OSError as error:
        raise UsageError(f"--last-message {name}: {error.strerror}") from error
    with file:
        yield file


class Rejections:
    """Counts the permission requests that were rejected, by whomever."""

    def __init__(self) -> None:
        self.count = 0
        self._open: dict[str, PermissionOpened] = {}

    def take(self, event: Event) -> str:
        """What to say about it: a policy rejects silently."""
        if isinstance(event, PermissionOpened):
            self._open[event.request] = event
        elif isinstance(event, PermissionClosed):
            request = self._open.pop(event.request, None)
            if request is not None and self._rejects(request, event):
                self.count += 1
                if event.by in ("policy", "unattended"):
                    form = request.form is not None or request.url is not None
                    why = "nobody is asked here" if form else "see --permissions and --allow"
                    if not form and event.reason not in ("", NOTHING_IS_ALLOWED):
                        why = one_line(event.reason).removesuffix(".")
                    return f"rejected: {one_line(request.title)} ({why})"
        return ""

    def _rejects(self, request: PermissionOpened, closed: PermissionClosed) -> bool:
        if closed.outcome == "selected":
            kinds = [each.kind for each in request.options if each.id == closed.option]
            return any(kind.startswith("reject") for kind in kinds)
        return closed.by not in ("turn", "agent")
