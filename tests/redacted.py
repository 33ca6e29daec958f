"""Lines without their secrets, and as records of a trace. A program sees them only in the file of a
trace, after a while: the tests of thousands of lines take them from the rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from agentrt.tracing import TraceKind, TraceRecord
from inside.trace import Assembler, Piece, Redaction


def redacted(
    text: str, *, secrets: Iterable[str] = (), rule: Callable[[str], str] | None = None
) -> str:
    """Return a text as a trace has it; `secrets` and `rule` are the program's own."""
    rules = Redaction(secrets, rule)
    shown = rules.text(text)
    if rules.passes(text.encode(errors="surrogatepass")):
        assert shown == text, "a line that is not looked at has a secret"
    return shown


def redacted_command(words: list[str]) -> list[str]:
    """Return a command line as a trace has it."""
    return Redaction().command(words)


Seen: TypeAlias = tuple[float, str, int, TraceKind, bytes]
"""The time, the session, the number of the process, the pipe, and what was read from it; without
bytes the pipe has ended."""


def records(*pieces: Seen) -> list[TraceRecord]:
    """Return what a trace has of the pieces of pipes; it ends at 9 s."""
    assembler = Assembler(Redaction())
    given = [Piece(*each, fields=None if each[-1] else {}) for each in pieces]
    written = [*assembler.records(given), *assembler.flush(9.0)]
    return [record for each in written if each for record in each.records()]
