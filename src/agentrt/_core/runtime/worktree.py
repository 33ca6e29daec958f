"""The separate working tree of a session: prepared before the agent starts, brought back after
it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

import trio

from ..agents import Agent
from ..errors import FilesError, LocalProtocolError
from ..files.worktree import Worktree, entered
from ..limits import Limits
from ..logging import get_logger
from ..model.driver import Opening
from ..process.inherited import inherited
from ..sandbox.policy import Sandbox, narrowed
from .sandboxed import stored_sandbox

_logger: Final = get_logger("session")
_SHOWN_CHARS: Final = 2000
"""Characters of a command's output in an error."""


@asynccontextmanager
async def session_worktree(
    agent: Agent,
    opening: Opening,
    limits: Limits,
    env: Mapping[str, str] | None,
    sandbox: Sandbox | None,
) -> AsyncIterator[Worktree]:
    """Open the working tree of a session, and bring its changes back after the block.

    If `cwd` of the opening is in the working tree of an earlier process, that one is continued, or
    made again in the same place if its changes were brought back.

    Raises `LocalProtocolError` for an agent on another machine, and `FilesError`.
    """
    given = opening.worktree
    assert given is not None
    if agent.connect is not None:
        raise LocalProtocolError(
            f"{agent.name} does not run on this machine, so it has no working tree here; leave out"
            " worktree=True"
        )
    cwd = None if opening.cwd == given.folder else opening.cwd
    async with entered(Worktree(given.folder, limits, given.copy, cwd)) as worktree:
        if given.setup and not worktree.continued:
            if opening.sandbox is not None:
                sandbox = narrowed(stored_sandbox(opening.sandbox), sandbox)
            variables = inherited(os.environ) if env is None else env
            await _prepare(worktree, given.setup, variables, sandbox)
        try:
            yield worktree
        except BaseException:
            if worktree.at_end == "bring_back":
                with trio.CancelScope(shield=True):  # bounded by the limit for each git command
                    await _bring_back(worktree)
            raise
        if worktree.at_end != "keep":
            await _bring_back(worktree)


async def _bring_back(worktree: Worktree) -> None:
    """Apply the changes to the folder, or log that they do not apply and are left on a branch."""
    result = await worktree.bring_back()
    if result.branch:
        _logger.warning(
            "the changes in %s no longer apply; they are on the branch %s: %s",
            worktree.root,
            result.branch,
            result.reason,
        )


async def _prepare(
    worktree: Worktree, command: Sequence[str], env: Mapping[str, str], sandbox: Sandbox | None
) -> None:
    """Run a command in a new working tree. Raises `FilesError` if it fails."""
    shown = " ".join(command)
    if sandbox is not None:
        from ..sandbox.run import run_in_sandbox

        status, output = await run_in_sandbox(command, sandbox, cwd=worktree.cwd, env=env), ""
    else:
        try:
            done = await trio.run_process(
                list(command),
                cwd=worktree.cwd,
                env=env,
                stdin=subprocess.DEVNULL,
                capture_stdout=True,
                stderr=subprocess.STDOUT,
                check=False,
            )
        except OSError as error:
            raise FilesError(f"worktree_setup: {shown!r} cannot be run: {error}") from error
        status, output = done.returncode, done.stdout.decode(errors="replace")[-_SHOWN_CHARS:]
    if status:
        raise FilesError(f"worktree_setup: {shown!r} failed with status {status}\n{output}".strip())
