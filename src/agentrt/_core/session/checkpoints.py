"""The checkpoints of a session's folder around each turn, and their view for a program.

`TurnCheckpoints` belongs to the host's task, which asks `is_due` in its loop. A turn has two
checkpoints: the files are saved before its prompt is sent (`before_turn`), numbered when the turn
has an id (`turn_began`), and saved again after its end (`take_due`). The second one is recorded
only if the files differ.

No prompt is sent while a checkpoint is due or files are restored (`occupied`), so that each
difference belongs to one turn. A checkpoint that fails is reported, and the turn runs without it.

git runs in threads. Cancellation takes effect when it has ended, which
`limits.checkpoint_timeout_s` bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any, Final, TypeVar

import trio

from ..errors import Busy, FilesError, LocalProtocolError
from ..files.shadow import Checkpoint, FileChange, FolderCheckpoints, Restored, TakenFiles
from ..model.events import Notice

T = TypeVar("T")

_SHOWN_FILES: Final = 50
"""Files that a notice names."""


class TurnCheckpoints:
    """Takes the checkpoints of a session. Its host calls it around each turn.

    The prompt of a turn waits for the checkpoint before it, and the next turn for the one after.
    """

    def __init__(
        self, shadow: FolderCheckpoints, session: str, report: Callable[[Notice], None]
    ) -> None:
        """`report` appends a notice to the session's log."""
        self.shadow = shadow
        self.session = session
        self._report = report
        self._before: TakenFiles | None = None
        self._started: Checkpoint | None = None
        self._last: TakenFiles | None = None
        self._left_out: tuple[str, ...] = ()
        self._ended: str | None = None
        self._restoring = False
        self._settled = trio.Event()
        self._prepared = False

    @property
    def occupied(self) -> bool:
        """True while no turn may start: a checkpoint is due, or files are being restored."""
        return self._ended is not None or self._restoring

    @property
    def is_due(self) -> bool:
        """True if the files have to be saved now: after a turn, or when the session opens."""
        return (self._ended is not None or not self._prepared) and not self._restoring

    async def take_due(self) -> None:
        """Save the files for which `is_due` is true."""
        if self._ended is not None:
            await self._after_turn()
        elif not self._prepared:
            await self._prepare()

    async def _prepare(self) -> None:
        """Save the files once when the session opens, so that the first prompt waits less.

        The first checkpoint of a folder reads every file; later ones read those that have changed.
        """
        self._prepared = True
        with suppress(FilesError):  # the first turn reports it
            await in_thread(self.shadow.take)

    async def before_turn(self) -> None:
        """Save the files before the next prompt is sent."""
        self._started = None
        self._before = await self._try(self.shadow.take)
        if self._before is not None:
            self._say_left_out(self._before)

    async def turn_began(self, turn: str) -> None:
        """Make the checkpoint of the files before a turn, whose id is now known."""
        before = self._before
        if before is not None:
            self._last = before
            self._started = await self._try(
                lambda: self.shadow.record(before, "before", session=self.session, turn=turn)
            )

    def turn_ended(self, turn: str) -> None:
        """Record that a turn has ended."""
        self._ended = turn

    def close(self) -> None:
        """Give up the checkpoint that is due: the session has ended."""
        self._ended, self._prepared = None, True
        self._settle()

    def _settle(self) -> None:
        """Wake everyone who waits for the end of a checkpoint or of a restore."""
        self._settled.set()
        self._settled = trio.Event()

    async def wait_settled(self) -> None:
        """Wait until no checkpoint is due and no files are being restored.

        Always a checkpoint. Cancelling this changes nothing.
        """
        await trio.lowlevel.checkpoint()
        while self.occupied:
            await self._settled.wait()

    async def _after_turn(self) -> None:
        """Make a checkpoint of the files after the turn that has ended, if it changed any."""
        turn, last, started = self._ended, self._last, self._started
        assert turn is not None
        try:
            taken = await self._try(self.shadow.take)
            if taken is None:
                return
            self._last = taken
            self._say_left_out(taken)
            if last is None or started is None or taken.tree == last.tree:
                return

            def record() -> tuple[Checkpoint, list[FileChange]]:
                """Record the checkpoint and compute the changes in one visit to the thread."""
                after = self.shadow.record(taken, "after", session=self.session, turn=turn)
                return after, self.shadow.changes_between(last, taken)

            recorded = await self._try(record)
            if recorded is not None:
                self._report(_files_changed(turn, started, *recorded))
        finally:
            self._ended, self._started = None, None
            self._settle()

    async def restore(self, number: int) -> Restored:
        """Restore a checkpoint; no turn starts in the meantime."""
        self._restoring = True
        try:
            restored = await in_thread(lambda: self.shadow.restore(number, session=self.session))
        finally:
            self._restoring = False
            self._settle()
        self._report(_files_restored(number, restored))
        return restored

    async def _try(self, work: Callable[[], T]) -> T | None:
        """Return the result of `work`, or None after reporting that it failed.

        A turn never fails because its files could not be saved.
        """
        try:
            return await in_thread(work)
        except FilesError as error:
            message = f"no checkpoint was made, so this turn's files cannot be restored: {error}"
            self._report(Notice("warning", "checkpoint_failed", message))
            return None

    def _say_left_out(self, taken: TakenFiles) -> None:
        """Report files that are left out, once as long as they stay left out."""
        new = [name for name in taken.left_out if name not in self._left_out]
        self._left_out = taken.left_out
        if new:
            named = ", ".join(new[:3]) + (" …" if len(new) > 3 else "")
            message = (
                f"{len(new)} files are too large, not readable or in nested repositories, and are"
                " not in checkpoints: "
                f"{named} (limits.checkpoint_file_bytes)"
            )
            data = {"files": new[:_SHOWN_FILES]}
            self._report(Notice("warning", "checkpoint_incomplete", message, data))


def _files_changed(
    turn: str, before: Checkpoint, after: Checkpoint, changes: list[FileChange]
) -> Notice:
    """Return the notice about the files that a turn has changed, with the numbers for a diff."""
    count = "1 file" if len(changes) == 1 else f"{len(changes)} files"
    data: dict[str, Any] = {
        "turn": turn,
        "before": before.number,
        "after": after.number,
        "count": len(changes),
        "files": [{"path": c.path, "change": c.change} for c in changes[:_SHOWN_FILES]],
    }
    return Notice("info", "files_changed", f"{count} changed during this turn", data)


def _files_restored(number: int, restored: Restored) -> Notice:
    """Return the notice about a restore, with the number of the checkpoint that undoes it."""
    count = len(restored.changes)
    message = f"{count} {'file' if count == 1 else 'files'} restored to checkpoint {number}"
    if restored.kept:
        message += f"; {len(restored.kept)} left alone"
    data = {
        "checkpoint": number,
        "undo": restored.undo,
        "count": count,
        "kept": restored.kept[:_SHOWN_FILES],
    }
    return Notice("info", "files_restored", message, data)


async def in_thread(work: Callable[[], T]) -> T:
    """Run blocking work in a thread. Each git command in it is bounded, so this is as well."""
    return await trio.to_thread.run_sync(work)


def checkpoint_before(known: Sequence[Checkpoint], session: str, turns: int) -> int:
    """Return the number of the checkpoint before the last `turns` turns of a session.

    Raises `LocalProtocolError` if there are fewer.
    """
    own = [c for c in known if c.when == "before" and c.session == session]
    if not 0 < turns <= len(own):
        raise LocalProtocolError(
            f"there are checkpoints of {len(own)} turns of this session, not of {turns}"
        )
    return own[-turns].number


class SessionCheckpoints:
    """The checkpoints of a session's folder. It is `Session.checkpoints`.

    All sessions in the folder share them. Numbers count up for each folder.
    """

    _turns: TurnCheckpoints
    _is_busy: Callable[[], bool]
    _restored: Callable[[], None]
    _acting: Callable[..., AbstractContextManager[None]]

    def __init__(self) -> None:
        raise TypeError("the checkpoints of a session are `Session.checkpoints`")

    async def list(self) -> list[Checkpoint]:
        """Return all checkpoints of the folder, oldest first.

        Waits for the checkpoint after a turn that has just ended. Raises `FilesError`. Cancelling
        this takes effect when git has ended.
        """
        if not self._is_busy():
            await self._turns.wait_settled()
        return await in_thread(self._turns.shadow.checkpoints)

    async def diff(self, old: int, new: int | None = None) -> str:
        """Return a patch from one checkpoint to another, or to the current files.

        Raises `FilesError`, and `LocalProtocolError` for an unknown checkpoint. Cancelling this
        takes effect when git has ended.
        """
        return await in_thread(lambda: self._turns.shadow.diff(old, new))

    async def restore(self, number: int) -> Restored:
        """Make the folder's files equal to those of a checkpoint.

        The current files are saved first: restore the checkpoint `undo` of the result to undo this.
        Ignored files are not touched, and no file is overwritten that could not be saved. The
        conversation does not change; fork the session at an earlier turn if the agent should forget
        as well.

        Raises `Busy` while a turn runs, `FilesError`, and `LocalProtocolError` for an unknown
        checkpoint. Cancelling this takes effect when the files are restored.
        """
        return await self._restore(number)

    async def undo(self, turns: int = 1) -> Restored:
        """Restore the files as they were before the last turn of this session, or the last few.

        Turns that have changed no file count as well. Raises the errors of `restore`, and
        `LocalProtocolError` if there are fewer turns with a checkpoint.
        """
        await self._check()
        return await self._restore(checkpoint_before(await self.list(), self._turns.session, turns))

    async def _check(self) -> None:
        """Wait for a checkpoint that is due. Raises `Busy` if a turn runs."""
        if not self._is_busy():
            await self._turns.wait_settled()
        if self._is_busy():
            raise Busy("a turn is running: files can be restored when it has ended")

    async def diff_turns(self, turns: int = 1) -> str:
        """Return a patch from the files before the last turn, or the last few, to the current ones.

        Raises the errors of `diff`, and `LocalProtocolError` if there are fewer turns with a
        checkpoint.
        """
        return await self.diff(checkpoint_before(await self.list(), self._turns.session, turns))

    async def _restore(self, number: int) -> Restored:
        """Restore a checkpoint when no turn runs. Afterwards the next turn may start in any
        case.
        """
        with self._acting("restore", checkpoint=number):
            await self._check()
            try:
                return await self._turns.restore(number)
            finally:
                self._restored()


def session_checkpoints(
    turns: TurnCheckpoints,
    is_busy: Callable[[], bool],
    restored: Callable[[], None],
    acting: Callable[..., AbstractContextManager[None]],
) -> SessionCheckpoints:
    """Make the view of a session's checkpoints.

    `is_busy` returns True while the agent may be writing; `restored` is called when another turn
    may start; `acting` is that of the session's core.
    """
    made = SessionCheckpoints.__new__(SessionCheckpoints)
    made._turns = turns
    made._is_busy = is_busy
    made._restored = restored
    made._acting = acting
    return made
