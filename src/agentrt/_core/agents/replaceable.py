"""Functions of the whole process that another function can replace for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

F = TypeVar("F")


class Replaceable(Generic[F]):
    """A collaborator that all sessions of a process share.

    Sessions are opened deep inside a program, so it cannot be passed as an argument. Users call
    `current` each time and do not keep it.
    """

    def __init__(self, usual: F) -> None:
        self.current = usual
        """The collaborator in use."""

    @contextmanager
    def replaced(self, by: F) -> Iterator[None]:
        """Use another collaborator while the block runs, in all threads. Blocks can be nested."""
        before, self.current = self.current, by
        try:
            yield
        finally:
            self.current = before
