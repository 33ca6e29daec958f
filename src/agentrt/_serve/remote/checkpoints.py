"""The checkpoints of a session on a server."""

from __future__ import annotations

import msgspec

from ...unattended import Checkpoint, Restored, checkpoint_before
from .. import commands as c
from .line import ServerLine


class RemoteCheckpoints:
    """The checkpoints of a session's folder on a server. It is `RemoteSession.checkpoints`.

    Each method raises the error with which the server refuses it. Cancelling one leaves the outcome
    open.
    """

    def __init__(self, line: ServerLine, session: str) -> None:
        self._line = line
        self._session = session

    async def list(self) -> list[Checkpoint]:
        """Return all checkpoints of the folder, oldest first."""
        fields = await self._line.ask(c.ListCheckpoints(id="", session=self._session))
        return msgspec.convert(fields["checkpoints"], list[Checkpoint])

    async def diff_turns(self, turns: int = 1) -> str:
        """Return a patch from the files before the last turns to the current ones."""
        number = checkpoint_before(await self.list(), self._session, turns)
        fields = await self._line.ask(c.DiffCheckpoints(id="", session=self._session, old=number))
        return str(fields["diff"])

    async def undo(self, turns: int = 1) -> Restored:
        """Restore the files as they were before the last turns."""
        number = checkpoint_before(await self.list(), self._session, turns)
        fields = await self._line.ask(
            c.RestoreCheckpoint(id="", session=self._session, checkpoint=number)
        )
        return msgspec.convert(fields["restored"], Restored)


class RemoteSandbox:
    """The sandbox of a session on a server."""

    def __init__(self, line: ServerLine, session: str) -> None:
        self._line = line
        self._session = session

    async def revoke(self, target: str) -> None:
        """Take back the permissions for a host, a path or a program.

        Raises the error with which the server refuses it.
        """
        await self._line.ask(c.RevokeAccess(id="", session=self._session, target=target))
