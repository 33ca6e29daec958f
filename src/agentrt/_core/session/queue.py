"""The queue of a session, as used by a program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

from ..model.content import Prompt, blocks
from ..model.events import QueueEntry
from .core import SessionCore


class SessionQueue(Sequence[QueueEntry]):
    """The prompts that wait in a session, the next one first. It is `Session.queue`.

    A live view: length, iteration and indexing reflect the queue at that moment. The methods take
    the `id` of an entry.
    """

    def __init__(self, core: SessionCore) -> None:
        self._core = core

    @property
    def _entries(self) -> list[QueueEntry]:
        return self._core.log.state.queue

    def __len__(self) -> int:
        return len(self._entries)

    @overload
    def __getitem__(self, index: int) -> QueueEntry: ...
    @overload
    def __getitem__(self, index: slice) -> list[QueueEntry]: ...
    def __getitem__(self, index: int | slice) -> QueueEntry | list[QueueEntry]:
        return self._entries[index]

    def __repr__(self) -> str:
        return f"<SessionQueue {self._entries!r}>"

    @property
    def paused(self) -> bool:
        """True if any prompt is paused, by `Session.cancel` or by the end of an earlier process."""
        return any(entry.paused for entry in self._entries)

    def remove(self, entry: str) -> None:
        """Remove a prompt from the queue.

        A task waiting for the prompt gets an `AgentrtError`. Raises `LocalProtocolError` if the
        prompt is not in the queue any more.
        """
        self._core.remove(entry)

    def edit(self, entry: str, content: Prompt) -> None:
        """Replace the content of a prompt. Raises the same errors as `remove`."""
        self._core.edit(entry, blocks(content))

    def promote(self, entry: str) -> None:
        """Move a prompt to the front, or a paused one to the front of the paused ones.

        Raises the same errors as `remove`.
        """
        self._core.promote(entry)

    def resume(self) -> None:
        """Resume the paused prompts."""
        self._core.resume_queue()
