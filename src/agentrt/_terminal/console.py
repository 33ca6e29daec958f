"""Standard output for the answer, standard error for all the rest, and what the two share."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

from .._config import ColorChoice
from .._errors import AgentrtError, AgentStartError
from .._model.content import JsonObject
from .command_output import laid_out
from .output import Output, encoding_of, open_output
from .text import plain

TAIL: Final = 12
"""Lines of an agent's standard error that are quoted."""

PARTING: Final = 1.0
"""Seconds that a reader of our output still has when we are to hurry."""


class Console:
    """`out` and `err`; the same object if both are the same terminal, so that lines stay whole."""

    def __init__(self, out: Output, err: Output) -> None:
        self.out = out
        self.err = err

    @property
    def shared(self) -> bool:
        return self.out is self.err

    def interrupted(self) -> None:
        """Ctrl-C: the terminal has written `^C` into the line."""
        self.err.at_line_start &= not self.err.is_terminal

    def end(self) -> None:
        """End the line, so that a shell's prompt gets one of its own."""
        for output in (self.out, self.err):
            if output.is_terminal and not output.at_line_start:
                output.write("\n")

    def report(self, text: str, stderr: str = "") -> None:
        """A line of ours for the person, with the end of what an agent wrote below it."""
        self.err.line(f"agentrt: {plain(text)}")
        for line in quoted(stderr):
            self.err.line(line)

    def report_error(self, error: AgentrtError) -> None:
        """An error in one line, and what the agent said."""
        if isinstance(error, AgentStartError):
            self.report(str(error).partition("\n---")[0], error.stderr)
        else:
            self.report(str(error))


def quoted(stderr: str) -> list[str]:
    """The end of what an agent wrote to its standard error, marked as its words."""
    return [f"  │ {line}" for line in plain(laid_out(stderr)).strip().splitlines()[-TAIL:]]


def stderr_of(data: object) -> str:
    """The end of a dead agent's standard error, out of the data of its error."""
    fields: JsonObject = data if isinstance(data, dict) else {}
    return str(fields.get("stderr") or "")


@asynccontextmanager
async def open_console(
    on_closed: Callable[[OSError], None], color: ColorChoice = "auto"
) -> AsyncIterator[Console]:
    """The console of this process. `on_closed` is called when standard output cannot be written any
    more; standard error may be closed without anybody minding."""
    encoding = encoding_of(sys.stdout)
    async with open_output(1, encoding=encoding, color=color, on_closed=on_closed) as out:
        if out.is_terminal and os.isatty(2) and os.fstat(1).st_rdev == os.fstat(2).st_rdev:
            yield Console(out, out)
        else:
            async with open_output(2, encoding=encoding_of(sys.stderr), color=color) as err:
                yield Console(out, err)


@contextmanager
def open_terminal() -> Iterator[int | None]:
    """The terminal this process belongs to, for questions when the standard streams lead
    elsewhere; None if there is none."""
    try:
        fd = os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError:
        yield None
        return
    try:
        yield fd
    finally:
        os.close(fd)
