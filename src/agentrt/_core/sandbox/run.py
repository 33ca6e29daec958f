"""Run a command in a sandbox without an agent: to look around in it, or for an MCP server."""

from __future__ import annotations

import os
from collections.abc import AsyncIterable, Collection, Mapping, Sequence

import trio

from ..._base.nesting import bare_errors
from ..errors import AgentNotFound, AgentStartError, LocalProtocolError, SandboxUnavailable
from ..process.entry import EntryFailed, signalled_status
from ..process.inherited import inherited
from .policy import SandboxLike, as_sandbox
from .wall import SandboxStart, Wall, open_wall


async def run_in_sandbox(
    command: Sequence[str],
    sandbox: SandboxLike = "workspace",
    *,
    cwd: str | os.PathLike[str] = ".",
    env: Mapping[str, str] | None = None,
    agent: str = "",
    roots: Collection[str | os.PathLike[str]] = (),
    interrupts: AsyncIterable[object] | None = None,
) -> int:
    """Run a command in a sandbox, with the standard streams of this process, until it has exited.

    - `command`: the program and its arguments.
    - `sandbox`: a `Sandbox` or the name of a preset. Hosts that it does not list are refused.
    - `cwd`, `roots`: the folders that can be written.
    - `env`: the complete environment; default as in `open_session`.
    - `agent`: the name of an agent in the catalogue, to see the sandbox as that agent does.
    - `interrupts`: for each item, the command gets a SIGINT. It gets none from a terminal, because
      it has a session of its own.

    Returns the exit status; negative: the signal that ended the command. Everything inside is
    killed when it has exited, or when this is cancelled; with Landlock, only the command itself.

    Raises `SandboxUnavailable`, or `AgentNotFound` if the program does not exist inside.
    """
    policy = as_sandbox(sandbox)
    if policy is None:
        raise LocalProtocolError("run_in_sandbox requires a sandbox")
    folder, *more = [os.fspath(each) for each in (cwd, *roots)]
    given = inherited(os.environ) if env is None else env
    async with open_wall(policy, agent, cwd=folder, roots=more) as wall:
        wall.desk.questions.close()
        async with wall.start(command, given) as start:
            async with bare_errors(), trio.open_nursery() as nursery:
                if interrupts is not None:
                    nursery.start_soon(_interrupt, start, interrupts)
                status = await _run(wall, start, folder)
                nursery.cancel_scope.cancel(reason="the command has exited")
            return status


async def _interrupt(start: SandboxStart, interrupts: AsyncIterable[object]) -> None:
    """Pass on each interrupt to the command."""
    async for _ in interrupts:
        start.entry.interrupt()


async def _run(wall: Wall, start: SandboxStart, folder: str) -> int:
    """Start the program in the sandbox, wait for it, and return its exit status.

    A negative status is a signal. Cancellation kills the namespaces with all their processes.
    Raises `SandboxUnavailable` if the sandbox cannot be built, and `AgentNotFound` for a missing
    program.
    """
    try:
        process = await trio.lowlevel.open_process(
            list(start.argv),
            cwd=folder,
            env=start.env,
            pass_fds=start.pass_fds,
            start_new_session=True,
        )
    except OSError as error:
        raise SandboxUnavailable(f"bwrap cannot be run: {error.strerror}") from error
    start.entry.started()
    try:
        try:
            await start.entry.receive()
        except AgentStartError as error:
            failure = error
        else:
            wall.entered(start)
            return signalled_status(await process.wait())
        if await process.wait() == 127:
            raise AgentNotFound(str(failure)) from failure
        raise failure
    except EntryFailed as error:
        raise SandboxUnavailable(
            f"the sandbox for {start.entry.name!r} could not be built; `agentrt doctor --sandbox`"
            " shows what this machine supports"
        ) from error
    finally:
        start.entry.kill()
        with trio.CancelScope(shield=True):  # it ends when the namespace has been killed
            process.kill()
            await process.wait()
