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
from ..files.worktree import Worktree, open_worktree
from ..limits import Limits
from ..model.driver import Opening
from ..process.inherited import inherited
from .options import SessionOptions

_SHOWN_CHARS: Final = 2000
"""Characters of a command's output in an error."""


@asynccontextmanager
async def session_worktree(
    agent: Agent,
    opening: Opening,
    limits: Limits,
    env: Mapping[str, str] | None,
    options: SessionOptions,
) -> AsyncIterator[Worktree]:
    """Open the working tree of a session, and bring its changes back after the block.

    Raises `LocalProtocolError` for an agent on another machine, and `FilesError`.
    """
    if agent.connect is not None:
        raise LocalProtocolError(
            f"{agent.name} does not run on this machine, so it has no working tree here; leave out"
            " worktree=True"
        )
    async with open_worktree(
        opening.cwd, copy=options.get("worktree_copy", ()), limits=limits
    ) as worktree:
        if setup := options.get("worktree_setup"):
            await _prepare(worktree, setup, inherited(os.environ) if env is None else env, options)
        yield worktree
        await worktree.bring_back()


async def _prepare(
    worktree: Worktree, command: Sequence[str], env: Mapping[str, str], options: SessionOptions
) -> None:
    """Run a command in a new working tree. Raises `FilesError` if it fails."""
    shown = " ".join(command)
    sandbox = options.get("sandbox")
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
