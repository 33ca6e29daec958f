"""One-shot mode: one prompt, its answer on standard output, and a reliable exit status.

A signal cancels the turn, and the rest of the agent's output is written. A second signal ends the
agent immediately, a third one this process.
"""

from __future__ import annotations

import argparse
import codecs
import errno
import math
import os
import signal
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, Protocol, TextIO

import trio
from msgspec import structs

from ..._base.nesting import bare_errors
from ..._public import Session, TurnResult
from ...config import ColorChoice, Config
from ...errors import AgentrtError
from ...events import Block, ErrorInfo, Outcome, Subscription, Text, TurnEnded
from ...hosting import wait_for_rest
from ..console import LAST_OUTPUT_S, Console, LineReader, open_console, open_terminal, stderr_of
from ..exit_status import (
    DENIED,
    FAILED,
    CommandTimeout,
    Rejections,
    TimedOut,
    UsageError,
    decisive,
    exit_code,
    exit_status,
)
from ..last_signal import exit_at_next_signal
from ..options import timeout_s
from ..repl.asking import Asker, at_terminal
from ..repl.transcript import LineTranscript
from ..repl.view import View, how_it_ended
from ..session_view import SessionView, attachment
from ..setup import Setup, describe_worktree
from ..signals import BROKEN_PIPE, received_signals
from ..stores import open_own_store
from .formats import (
    FormatName,
    JsonFormat,
    LastMessage,
    NoFormat,
    OutputFormat,
    StreamFormat,
    TextFormat,
    ValueFormat,
    error_of,
    failure,
    shown,
)

STDIN_SILENCE_S: Final = 3.0
"""Seconds of silence before a message reports that standard input is being read."""


class RunningPrompt(Protocol):
    """Running work that can be ended."""

    def cancel(self) -> bool:
        """Cancel the prompt's turn and wait for its end.

        Returns False if there is no such turn.
        """
        ...

    def give_up(self, code: int) -> None:
        """End everything immediately with this exit status; further output is not needed."""
        ...

    async def leave(self) -> None:
        """Stop waiting."""
        ...


class EarlyEnd:
    """An early end of the command, and its exit status."""

    def __init__(self) -> None:
        self.code: int | None = None
        self.scope = trio.CancelScope()
        """Cancel scope around all the work."""
        self._console: Console | None = None
        self._work: RunningPrompt | None = None
        self.trouble = ""

    def report_to(self, console: Console) -> None:
        """Show an interrupt on this console from now on."""
        self._console = console

    def give_up_by(self, work: RunningPrompt) -> None:
        """End by cancelling this work, instead of all of the command."""
        self._work = work

    def cannot_write(self, error: OSError) -> None:
        """End, because standard output cannot be written and the answer is therefore not needed."""
        if error.errno in (errno.EPIPE, errno.EIO):
            self._now(BROKEN_PIPE)
        else:
            self.trouble = f"standard output: {os.strerror(error.errno or 0)}"
            self._now(FAILED)

    def _now(self, code: int) -> None:
        """End the command with this exit status. The first reason decides on the status."""
        if self.code is None:
            self.code = code
        if self._work is not None:
            self._work.give_up(code)
        else:
            self.scope.cancel(reason=f"exit status {code}")

    async def obey(self, signals: AsyncIterator[int], everything: trio.CancelScope) -> None:
        """Wait for the signals that end the command."""
        number = await anext(signals)
        if number == signal.SIGINT and self._console is not None:
            self._console.interrupted()
        work = self._work
        with at_terminal() if number == signal.SIGINT else nullcontext():
            cancelled = work is not None and work.cancel()
        if cancelled:
            self.code = 128 + number
        else:
            self._now(128 + number)
        await anext(signals)
        exit_at_next_signal()
        if work is not None:
            await work.leave()
        everything.deadline = trio.current_time() + LAST_OUTPUT_S


class PromptOptions(NamedTuple):
    """One prompt, and the format of its answer.

    `prompt` is the prompt in the arguments, `last_message` a file to which the agent's last message
    is also written, `timeout` the time for the whole command, in seconds.
    """

    prompt: str | None
    format: FormatName = "text"
    last_message: str | None = None
    timeout: float | None = None
    color: ColorChoice = "auto"
    fail_on_denied: bool = False
    """True if a rejected permission request means exit status 5 for any outcome of the turn."""
    attachments: tuple[str, ...] = ()
    """Files that are sent with the prompt."""

    @classmethod
    def of(cls, options: argparse.Namespace, config: Config) -> PromptOptions:
        """Return the prompt of a command line."""
        return cls(
            prompt=options.prompt,
            format=options.output_format or "text",
            last_message=options.last_message,
            timeout=timeout_s(options),
            color=config.terminal.color,
            fail_on_denied=bool(options.fail_on_denied),
            attachments=tuple(options.attachments or ()),
        )


async def one_shot(setup: Setup, asked: PromptOptions) -> int:
    """Run one prompt in a new session; returns the exit status."""
    return await run_once(asked, partial(_OneShot, setup))


async def run_once(
    asked: PromptOptions,
    make: Callable[[PromptOptions, Console, EarlyEnd, CommandTimeout], OnePrompt],
) -> int:
    """Run one prompt, from the arguments or standard input; returns the exit status.

    `make` creates the object that runs it.
    """
    ending, bound = EarlyEnd(), CommandTimeout(asked.timeout)
    status = FAILED
    with received_signals() as signals:
        async with bare_errors(), trio.open_nursery() as nursery:
            nursery.start_soon(ending.obey, signals, nursery.cancel_scope)
            async with open_console(ending.cannot_write, asked.color) as console:
                ending.report_to(console)
                job = make(asked, console, ending, bound)
                with ending.scope:
                    try:
                        with bound.over("reading the prompt from standard input"):
                            text = await _whole_prompt(asked.prompt, console)
                        files = [_attached(name) for name in asked.attachments]
                        with _emptied(asked.last_message) as file:
                            status = await job.run([Text(text), *files])
                            if file is not None:
                                await trio.to_thread.run_sync(file.write, job.last.text)
                    except AgentrtError as error:
                        console.report_error(error)
                        status = exit_code(error)
                        timed_out = isinstance(error, TimedOut)
                        job.fail(error_of(error), "timed_out" if timed_out else "failed")
                if ending.code is not None:
                    job.fail(
                        ErrorInfo(
                            "interrupted", "the command was interrupted before the end of the turn"
                        ),
                        "cancelled",
                    )
                if ending.trouble:
                    console.report(ending.trouble)
                console.end()
            nursery.cancel_scope.cancel(reason="done")
    return status if ending.code is None else ending.code


def _attached(name: str) -> Block:
    """Return the block for an attached file. Raises `UsageError` if there is no such file."""
    path = Path(os.path.abspath(os.path.expanduser(name)))
    if not path.exists():
        raise UsageError(f"--attach: there is no file {name!r}")
    return attachment(path, path.name, images=True)


async def _whole_prompt(text: str | None, console: Console) -> str:
    """Return the prompt of the arguments followed by standard input.

    `-` means standard input only. Raises `UsageError` if there is no prompt.
    """
    if text == "-":
        prompt = await _piped(console)
    elif os.isatty(0):
        prompt = text or ""
    else:
        prompt = "\n\n".join(filter(None, (text, await _piped(console))))
    if not prompt.strip():
        raise UsageError("no prompt given; use -p TEXT, or pipe it to standard input")
    return prompt


async def _piped(console: Console) -> str:
    """Read the prompt from standard input.

    After `STDIN_SILENCE_S` seconds a message explains the wait: in a script, standard input may
    have been left open by mistake.
    """

    async def explain() -> None:
        await trio.sleep(STDIN_SILENCE_S)
        console.report("reading the prompt from standard input (use </dev/null if there is none)")

    async with bare_errors(), trio.open_nursery() as nursery:
        nursery.start_soon(explain)
        piped = _text_of(await LineReader(0).read_all())
        nursery.cancel_scope.cancel(reason="it has come")
    return piped


def _text_of(data: bytes) -> str:
    """Decode a prompt, with the byte order marks that Windows programs write.

    Bytes that are not UTF-8 are replaced. Raises `UsageError` for binary data.
    """
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        text = data.decode("utf-16", errors="replace")
    else:
        text = data.decode("utf-8-sig", errors="replace")
    if "\0" in text:
        raise UsageError("standard input is binary data; a prompt must be text")
    return text.removesuffix("\r")


class OnePrompt(ABC):
    """One prompt, from opening the session to the exit status."""

    def __init__(
        self, asked: PromptOptions, console: Console, ending: EarlyEnd, bound: CommandTimeout
    ) -> None:
        self.console = console
        self.ending = ending
        self.bound = bound
        self.format: FormatName = asked.format
        self._fail_on_denied = asked.fail_on_denied
        self.last = LastMessage()
        self.rejected = Rejections()
        self.seq = 0
        """The number of the last event that was written."""
        self._reported = False
        """True once the end of the turn has been written to standard output."""

    @property
    @abstractmethod
    def agent(self) -> str | None:
        """The name of the agent; None as long as it is not known."""

    @abstractmethod
    async def run(self, prompt: list[Block]) -> int:
        """Run the prompt; returns the exit status.

        Raises `AgentrtError` if there is no turn.
        """

    def fail(self, error: ErrorInfo, outcome: Outcome = "failed") -> None:
        """Report on standard output, for programs, that there was no turn."""
        if not self._reported:
            self._reported = True
            line = failure(self.format, error, agent=self.agent, outcome=outcome, seq=self.seq + 1)
            self.console.out.data(shown(self.console.out, line))

    def make_format(self, session: SessionView, id: str | None = None) -> OutputFormat:
        """Create the format of the answer.

        `id`: the session id to write, if it is not the agent's own.
        """
        console = self.console
        if self.format == "json":
            return JsonFormat(console.out, session, id)
        if self.format == "stream-json":
            return StreamFormat(console.out)
        return NoFormat() if console.shared else TextFormat(console.out)

    def make_lines(self, answer: OutputFormat) -> LineTranscript:
        """Create the transcript for the user on standard error."""
        return LineTranscript(
            self.console.err,
            answer=isinstance(answer, NoFormat),
            progress=self.console.err.is_terminal,
            all_of_it="--output-format stream-json has them all",
        )

    def end(self, answer: OutputFormat, result: TurnResult) -> None:
        """Write the end of the answer; all events have arrived."""
        self._reported = True
        for each in (answer, self.last):
            each.end(result)

    def verdict(self, result: TurnResult) -> int:
        """Return the exit status, and report the reason if it is not 0."""
        rejected = bool(self.rejected.denials)
        status = exit_status(result, rejected=rejected)
        if rejected and not status and self._fail_on_denied:
            status = DENIED
            self.console.report("a permission request was rejected (--fail-on-denied)")
            return status
        why = how_it_ended(result)
        if why is None and status:
            why = f"the agent stopped ({result.stop_reason})"
        if why is not None and self.ending.code is None:
            denied = " after a permission request was rejected" if status == DENIED else ""
            data = result.error.data if result.error is not None else None
            self.console.report(why + denied, stderr_of(data))
        return status


class _OneShot(OnePrompt):
    """One prompt in its own session, which ends with it."""

    def __init__(
        self,
        setup: Setup,
        asked: PromptOptions,
        console: Console,
        ending: EarlyEnd,
        bound: CommandTimeout,
    ) -> None:
        super().__init__(asked, console, ending, bound)
        self._setup = setup
        self._ends: list[TurnEnded] = []

    @property
    def agent(self) -> str:
        """The name of the agent, which is known before it starts."""
        return self._setup.agent.name

    async def run(self, prompt: list[Block]) -> int:
        """Open the session, send the prompt, and return the exit status.

        Without a terminal there is no person to ask: permission requests are then rejected, with a
        note on stderr. Standard input may be the prompt; the terminal itself is then opened for
        answers.
        """
        setup, console, ending = self._setup, self.console, self.ending
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
            if limits.turn_timeout_s is not None and "turn_timeout_s" in setup.config.limits:
                limits = structs.replace(
                    limits, drain_timeout_s=min(limits.drain_timeout_s, limits.turn_timeout_s)
                )
            limits = self.bound.applied(limits)
            policy = setup.policy(
                wanted,
                attended=terminal is not None,
                chosen=setup.config.permissions.mode == "deny",
            )
            async with open_own_store(setup.config.terminal.store) as own:
                with self.bound.over("the start of the agent") as start:
                    opening = setup.unasked.open(policy, limits=limits, replay=False, own=own)
                    async with opening as session:
                        start.deadline = math.inf
                        work = _Session(session, ending.scope)
                        ending.give_up_by(work)
                        result = await self._converse(session, work, prompt, terminal)
                        await session.aclose()
                if told := describe_worktree(session):
                    console.report(told)
        return self.verdict(result)

    async def _converse(
        self, session: Session, work: _Session, prompt: list[Block], terminal: int | None
    ) -> TurnResult:
        """Send the prompt, print the events, and wait until the agent has nothing left to do.

        Two subscriptions are read: one for the output, which a slow pipe may hold up, and one for
        the questions on the terminal, which must appear nevertheless. If the command ends early,
        the session is closed so that its remaining work is in the output as ended.
        """
        answer = self.make_format(session)
        lines = self.make_lines(answer)
        view = View(lines)
        asker = Asker(session, view, lines, can_ask=terminal is not None)
        with session.subscribe_all() as events, session.subscribe_all() as others:
            async with bare_errors(), trio.open_nursery() as viewers:
                viewers.start_soon(self._write, events, answer)
                viewers.start_soon(self._watch, others, view, asker, terminal)
                left = self.bound.left
                limits = (
                    session.limits
                    if left is None
                    else structs.replace(session.limits, turn_timeout_s=left)
                )
                result = await session.run(prompt, check=False, limits=limits)
                work.resting = True
                with work.rest:
                    await wait_for_rest(session, self.bound.left)
                if self.ending.code is not None:
                    await session.aclose()  # its remaining work is reported as ended
                events.finish()
                others.finish()
        result = self._bounded(decisive(result, self._ends))
        self.end(answer, result)
        return result

    def _bounded(self, result: TurnResult) -> TurnResult:
        """Name `--timeout` as the reason if its limit ended the turn.

        The hard limit was set to the time that was left when the turn began.
        """
        seconds, error = self.bound.seconds, result.error
        if seconds is None or error is None or error.data != {"limit": "hard"}:
            return result
        message = f"the command took longer than {seconds:g} s (--timeout)"
        return structs.replace(result, error=structs.replace(error, message=message))

    async def _write(self, events: Subscription, answer: OutputFormat) -> None:
        """Write standard output, as fast as its reader takes it."""
        async for event in events:
            self.seq = events.seq
            answer.take(event, events.seq)
            self.last.take(event, events.seq)
            if self.console.out.full:
                await self.console.out.room()

    async def _watch(
        self, events: Subscription, view: View, asker: Asker, terminal: int | None
    ) -> None:
        """Write standard error and ask the questions."""
        async with bare_errors(), trio.open_nursery() as nursery:
            if terminal is not None:
                nursery.start_soon(asker.serve, terminal)
            async for event in events:
                view.take(event)
                asker.take(event)
                if isinstance(event, TurnEnded):
                    self._ends.append(event)
                if text := self.rejected.take(event):
                    self.console.report(text)
            nursery.cancel_scope.cancel(reason="all is shown")

    def make_format(self, session: SessionView, id: str | None = None) -> OutputFormat:
        """Create the format; with a JSON schema, text is the requested value alone."""
        if self.format == "text" and "json_schema" in self._setup.options:
            return ValueFormat(self.console.out)
        return super().make_format(session, id)


class _Session:
    """A session of this process, as `RunningPrompt`."""

    def __init__(self, session: Session, everything: trio.CancelScope) -> None:
        self.rest = trio.CancelScope()
        """Cancel scope around the wait for work that the agent continues after the turn."""
        self.resting = False
        self._session = session
        self._everything = everything

    def cancel(self) -> bool:
        """Cancel the turn and the wait for work after it. Returns False if the prompt has no turn
        yet.
        """
        turn = self._session.state.turn
        if not self.resting and (turn is None or turn.origin != "user"):
            return False
        self._session.cancel()
        self.rest.cancel(reason="it was interrupted")
        return True

    def give_up(self, code: int) -> None:
        self._everything.cancel(reason=f"exit status {code}")

    async def leave(self) -> None:
        await self._session.aclose()


@contextmanager
def _emptied(name: str | None) -> Iterator[TextIO | None]:
    """Open the file for the last message and empty it, so that old content is never taken for this
    answer.

    Raises `UsageError` before the agent is started.
    """
    if name is None:
        yield None
        return
    try:
        file = open(name, "w", encoding="utf-8")  # noqa: SIM115
    except OSError as error:
        raise UsageError(f"--last-message {name}: {error.strerror}") from error
    with file:
        yield file
