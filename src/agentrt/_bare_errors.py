"""What comes out of a nursery of agentrt's own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio


@asynccontextmanager
async def bare_errors() -> AsyncIterator[None]:
    """Around one nursery of agentrt's own: where a single error comes out of it, it is raised as it
    is, and not in the group that the nursery puts around it.

    Only that layer is taken away: a group that a program has raised itself stays what it was.
    Cancellations beside the error are dropped: it replaces them, as anywhere in Trio. Several
    errors stay a group.
    """
    try:
        yield
    except BaseExceptionGroup as group:
        errors = [error for error in group.exceptions if not _only_cancelled(error)]
        if len(errors) != 1:
            raise
        [error] = errors
        context = error.__context__
        try:
            raise error
        finally:
            # The group says nothing that the error does not; a chain to it would only repeat.
            error.__context__ = context
            del error, errors, context


def _only_cancelled(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return all(map(_only_cancelled, error.exceptions))
    return isinstance(error, trio.Cancelled)
