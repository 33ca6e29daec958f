"""Files and terminals for the agent of one ACP session.

A request is served by the program's own objects, or a client of the session that offers it (an
editor), or else agentrt's own handlers; `Editors` makes the choice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import trio

from ..acp.files import FileService, Roots
from ..acp.terminals import TerminalService
from ..agents import Agent
from ..model.content import JsonObject
from ..model.driver import Opening, ServiceRequested
from ..model.events import Notice
from ..process.layer import MARKER
from ..session.host import SessionHost
from .client_services import Editors, OwnServices
from .offer import Offer


class AcpServices:
    """Serves the requests about files and terminals. Made at the first of them."""

    def __init__(
        self,
        agent: Agent,
        opening: Opening,
        offer: Offer,
        host: SessionHost,
        *,
        targets: Sequence[str],
        env: Mapping[str, str],
        run: str,
    ) -> None:
        """Create the services. The session's nursery runs the programs of terminals, until `close`.

        `targets`: the real paths of the session's folders when it was opened. `env`: the agent's
        environment. `run`: the marker by which the guard of this process finds the programs; empty
        if there is no guard.
        """
        roots = Roots((opening.cwd, *opening.roots), offer.wall, targets=targets)
        self._host = host
        self._own = OwnServices(
            host,
            None if isinstance(offer.files, bool) else offer.files,
            None if isinstance(offer.terminals, bool) else offer.terminals,
            limits=offer.limits,
        )
        self._editors = Editors(
            host, roots, cwd=opening.cwd, env=env, variables=agent.terminal_env, own=self._own
        )
        self._files = FileService(roots, limits=offer.limits, ready=host.wait_read)
        if run:
            outer = env.get(MARKER)
            env = {**env, MARKER: f"{outer},{run}" if outer else run}
        self._terminals = TerminalService(
            host.nursery,
            roots=roots,
            cwd=opening.cwd,
            env=offer.inside(env),
            limits=offer.limits,
            on_output=host.terminal_output,
            variables=agent.terminal_env,
            on_left_out=partial(_left_out, host),
            on_exit=host.program_ended,
            join=offer.join,
        )
        host.program_counts += (lambda: self._terminals.running,)

    async def serve_file(self, asked: ServiceRequested) -> JsonObject:
        """Serve a request about a file. Raises `RequestError`."""
        return await self._editors.serve(self._serve_own_file, asked)

    async def serve_terminal(self, asked: ServiceRequested) -> JsonObject:
        """Serve a request about a terminal. Raises `RequestError`."""
        provided = self._own.serves("terminal/create", {})
        return await self._editors.serve(None if provided else self._serve_own_terminal, asked)

    def agent_gone(self) -> None:
        """Release all that the agent used, after its process has ended."""
        self._editors.agent_gone()
        self._terminals.release_all()

    async def close(self) -> None:
        """End the programs in all terminals, in bounded time."""
        self._terminals.release_all()
        await self._own.close()
        with trio.CancelScope(shield=True):  # bounded by the steps that end a program
            await self._terminals.wait_ended()

    async def _serve_own_file(self, asked: ServiceRequested) -> JsonObject:
        """Serve a request about a file with agentrt's own handler."""
        return await self._files.handle(asked.method, asked.params)

    async def _serve_own_terminal(self, asked: ServiceRequested) -> JsonObject:
        """Serve a request about a terminal with agentrt's own handler.

        Output may be large, so the answer waits until the agent reads (`SessionHost.wait_read`).
        """
        if asked.method == "terminal/output":
            await self._host.wait_read()
        return await self._terminals.handle(asked.method, asked.params)


def _left_out(host: SessionHost, variable: str) -> None:
    """Report a variable that the agent requests for a command and may not set."""
    message = (
        f"a command runs without {variable!r:.100}, which the agent may not set: it could make the"
        " command something else (see `terminal_env` of the agent)"
    )
    host.core.add_notice(Notice("info", "variable_left_out", message, {"variable": variable[:100]}))
