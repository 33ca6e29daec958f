"""Who answers, and from where: set around the calls of a client, read where a question closes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from .._model.events import AnswerOrigin

PROGRAM: Final = AnswerOrigin(via="program")
_ORIGIN: Final[ContextVar[AnswerOrigin]] = ContextVar("agentrt_answer_origin", default=PROGRAM)


@contextmanager
def answering(who: str, via: str) -> Iterator[None]:
    """Answer in the name of somebody else than the program that runs the session."""
    token = _ORIGIN.set(AnswerOrigin(who=who, via=via))
    try:
        yield
    finally:
        _ORIGIN.reset(token)


def current_origin() -> AnswerOrigin:
    """The origin of the answer that is being given."""
    return _ORIGIN.get()
