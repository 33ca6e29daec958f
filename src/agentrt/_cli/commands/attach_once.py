"""`agentrt attach -p`: send one prompt to a session of a server and print its answer.

Ending the program cancels the turn of this prompt and no other; the session continues.
"""

from __future__ import annotations

import math
import os
from contextlib import ExitStack
from functools import partial
from typing import Final

import trio
from msgspec import structs

from ..._base.nesting import bare_errors
from ..._public import Limits, TurnResult
from ..._serve.remote.line import ServerLine, Where
from ..._serve.remote.session import RemoteSession, SentPrompt
from ...config import Config, PermissionSettings
from ...events import Block, ErrorInfo, Event, PermissionOpened, TurnEnded, TurnStarted
from ..console import LAST_OUTPUT_S, Console, open_terminal
from ..exit_status import CommandTimeout
from ..repl.asking import Asker
from ..repl.server_source import RequestedSession, ServerSource
from ..repl.view import View
from ..setup import Setup
from ..stores import ID_CHARS
from ..text import one_line
from .formats import OutputFormat, StreamFormat
from .one_shot import EarlyEnd, OnePrompt, PromptOptions, run_once

CANCEL_SLACK_S: Final = 5.0
"""Seconds that the end of a cancelled turn may arrive after the agent's grace period."""


async def attach_once(
    where: Where, wanted: RequestedSession, config: Config, asked: PromptOptions
) -> int:
    """Send one prompt to a session of a server.

    Returns the exit status, which has the same meaning as for `agentrt -p`.
    """
    config = structs.replace(config, permissions=PermissionSettings())
    return await run_once(asked, partial(_AttachedPrompt, where, wanted, config))


class _AttachedPrompt(OnePrompt):
    """One prompt in a session of a server, from the connection to the exit status.

    The limit of the command covers the connection and the turn. Leaving does not close the session:
    the server owns it, and other clients may be in it.
    """

    def __init__(
        self,
        where: Where,
        wanted: RequestedSession,
        config: Config,
        asked: PromptOptions,
        console: Console,
        ending: EarlyEnd,
        bound: CommandTimeout,
    ) -> None:
        super().__init__(asked, console, ending, bound)
        self._where = where
        self._wanted = wanted
        self._config = config
        self._setup: Setup | None = None

    @property
    def agent(self) -> str | None:
        """The agent of the session; before that is known, the requested one."""
        return self._wanted.agent if self._setup is None else self._setup.agent.name

    async def run(self, prompt: list[Block]) -> int:
        """Connect, open or find the session, send the prompt, and return the exit status.

        If several sessions are open and none was named, the newest one gets the prompt, and a note
        on stderr names it.
        """
        async with bare_errors(), trio.open_nursery() as nursery:
            with self.bound.over("the connection to the server") as start:
                line = ServerLine(self._where, self._config.bound(Limits()))
                await nursery.start(line.run)
                source = ServerSource(line, self._wanted, self._config, interactive=False)
                setup, several = await source.first()
                self._setup = setup
                opening = source.open_session(setup)
                async with opening as session:
                    start.deadline = math.inf
                    if several:
                        self.console.report(
                            f"in session {session.id[:ID_CHARS]}, the newest open one"
                            " (use --session for a different one)"
                        )
                    result = await self._converse(session, prompt)
            nursery.cancel_scope.cancel(reason="done")
        return self.verdict(result)

    async def _converse(self, session: RemoteSession, prompt: list[Block]) -> TurnResult:
        """Send the prompt to the session, print its events, and return the result of the turn.

        A turn that takes longer than the command may is cancelled, and its result says so. If the
        server does not report the end in time, the result has the error code `not_told`.
        """
        answer = self.make_format(session, session.id)
        sent = session.submit(prompt)
        work = _Sent(session, sent, self._config.bound(Limits()).cancel_grace_s)
        self.ending.give_up_by(work)
        with ExitStack() as stack:
            terminal = None
            if self.console.err.is_terminal:
                terminal = 0 if os.isatty(0) else stack.enter_context(open_terminal())
            async with bare_errors(), trio.open_nursery() as nursery:
                nursery.start_soon(work.stop_in, self.bound.left)
                why = "the server did not report the end of the turn in time"
                result = TurnResult(turn="", outcome="cancelled", error=ErrorInfo("not_told", why))
                with work.patience:
                    result = await self._watch(session, sent, answer, terminal)
                nursery.cancel_scope.cancel(reason="it is over")
        if work.timed_out and result.outcome == "cancelled":
            why = f"the turn took over {self.bound.seconds:g} s (--timeout) and was cancelled"
            result = structs.replace(result, outcome="timed_out", error=ErrorInfo("timed_out", why))
        self.end(answer, result)
        return result

    async def _watch(
        self, session: RemoteSession, sent: SentPrompt, answer: OutputFormat, terminal: int | None
    ) -> TurnResult:
        """Write the events of the prompt; returns its result.

        Raises the error of a prompt that the server has refused.
        """
        lines = self.make_lines(answer)
        view = View(lines)
        asker = Asker(session, view, lines) if terminal is not None else None
        async with bare_errors(), trio.open_nursery() as nursery:
            if asker is not None and terminal is not None:
                nursery.start_soon(asker.serve, terminal)
            started_at: float | None = None
            end: TurnEnded | None = None
            async for event in session:
                self.seq = session.seq
                if isinstance(event, TurnStarted) and event.turn == sent.id:
                    started_at = trio.current_time()
                await self._write(event, answer, of_turn=started_at is not None)
                if started_at is not None:
                    view.take(event)
                    self._questions(event, asker)
                if isinstance(event, TurnEnded) and event.turn == sent.id:
                    end = event
                if end is not None or sent.failure is not None:
                    break
            nursery.cancel_scope.cancel(reason="it is over")
        if end is not None:
            return self._result(end, started_at)
        if sent.failure is not None and not sent.stopped:
            raise sent.failure
        return TurnResult(turn="", outcome="cancelled", by="user")

    def _result(self, end: TurnEnded, started_at: float | None) -> TurnResult:
        """Return the result of the turn as this client has seen it. `duration`: seconds since it
        began here.
        """
        return TurnResult(
            turn=end.turn,
            outcome=end.outcome,
            by=end.by,
            stop_reason=end.stop_reason,
            usage=end.usage,
            error=end.error,
            structured_output=end.structured_output,
            duration=trio.current_time() - started_at if started_at is not None else 0.0,
            denials=tuple(self.rejected.denials),
        )

    async def _write(self, event: Event, answer: OutputFormat, *, of_turn: bool) -> None:
        """Write an event in the requested format; only `stream-json` has those of other turns."""
        if of_turn or isinstance(answer, StreamFormat):
            answer.take(event, self.seq)
            if self.console.out.full:
                await self.console.out.room()
        if of_turn:
            self.last.take(event, self.seq)

    def _questions(self, event: Event, asker: Asker | None) -> None:
        """Ask the questions here if there is a terminal; otherwise other clients have to answer."""
        if text := self.rejected.take(event):
            self.console.report(text)
        if asker is not None:
            asker.take(event)
        elif isinstance(event, PermissionOpened):
            title = one_line(event.title)
            self.console.report(f"waiting for another client of the session to answer: {title}")


class _Sent:
    """A prompt that was sent to a server, as a `RunningPrompt`."""

    def __init__(self, session: RemoteSession, sent: SentPrompt, grace: float) -> None:
        self.timed_out = False
        self.patience = trio.CancelScope()
        """Cancel scope around the wait for the end of its turn."""
        self._session = session
        self._sent = sent
        self._grace = grace

    async def stop_in(self, seconds: float | None) -> None:
        """Cancel it after this time."""
        await trio.sleep(math.inf if seconds is None else seconds)
        self.timed_out = True
        self.cancel()

    def cancel(self) -> bool:
        """Cancel the turn, and wait for its end as long as the agent may take."""
        self._session.stop(self._sent)
        self._wait(self._grace + CANCEL_SLACK_S)
        return True

    def give_up(self, code: int) -> None:
        """Cancel the turn, and wait only as long as the command's last output may take."""
        self._session.stop(self._sent)
        self._wait(LAST_OUTPUT_S)

    async def leave(self) -> None:
        """Stop waiting for the end of the turn; it continues on the server."""
        self.patience.cancel(reason="nothing is waited for any more")
        await trio.lowlevel.checkpoint()

    def _wait(self, seconds: float) -> None:
        """Limit the remaining wait. It is never extended."""
        self.patience.deadline = min(self.patience.deadline, trio.current_time() + seconds)
