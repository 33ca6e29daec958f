"""The origin of an answer: set around a client's calls and read when a question is closed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from ..model.events import AnswerOrigin

PROGRAM: Final = AnswerOrigin(via="program")
"""The origin of answers by the program itself."""
_ORIGIN: Final[ContextVar[AnswerOrigin]] = ContextVar("agentrt_answer_origin", default=PROGRAM)


@contextmanager
def answering(who: str, via: str) -> Iterator[None]:
    """Record the answers in this block as given by another party than the program."""
    token = _ORIGIN.set(AnswerOrigin(who=who, via=via))
    try:
        yield
    finally:
        _ORIGIN.reset(token)


def current_origin() -> AnswerOrigin:
    """Return the origin of the answer that is being given."""
    return _ORIGIN.get()
