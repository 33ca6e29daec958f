"""The queue of a session on a server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import overload

from ...events import QueueEntry


class RemoteQueue(Sequence[QueueEntry]):
    """The queued prompts of a `RemoteSession`, as `SessionQueue`."""

    def __init__(
        self,
        entries: Callable[[], list[QueueEntry]],
        remove: Callable[[str], None],
        resume: Callable[[], None],
    ) -> None:
        self._entries = entries
        self._remove = remove
        self._resume = resume

    def __len__(self) -> int:
        return len(self._entries())

    @overload
    def __getitem__(self, index: int) -> QueueEntry: ...
    @overload
    def __getitem__(self, index: slice) -> list[QueueEntry]: ...
    def __getitem__(self, index: int | slice) -> QueueEntry | list[QueueEntry]:
        return self._entries()[index]

    def remove(self, entry: str) -> None:
        """Take back a prompt, if it is still queued when the command reaches the server."""
        self._remove(entry)

    def resume(self) -> None:
        """Resume the paused prompts."""
        self._resume()
