"""Lines without their secrets. A program sees them only in the file of a trace, after a while: the
tests of thousands of lines take them from the rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from inside.trace import Redaction


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
