"""`agentrt attach`: an interactive session in a terminal with a session of a server.

Leaving does not end the session: its turns continue, and other clients may use it. The server
decides about agents, permissions and storage.
"""

from __future__ import annotations

import argparse
import os
import sys
from functools import partial

import trio
from msgspec import structs

from ..._base.nesting import bare_errors
from ..._public import Limits
from ..._serve.remote.line import ServerLine, Where
from ...config import Config, PermissionSettings
from ...errors import AgentrtError
from ..console import LAST_OUTPUT_S
from ..exit_status import UsageError
from ..options import Work, refuse_server_options, session_of_server
from ..output import encoding_of, open_output
from ..printing import print_error
from ..repl.server_source import RequestedSession, ServerSource
from ..servers import find_server
from ..stores import ID_CHARS
from ..subcommands import SESSION_OPTIONS
from .interactive import show


def prepare(options: argparse.Namespace, config: Config) -> Work:
    """Return the work of the subcommand. Raises `UsageError` or `ServerNotFound`."""
    if options.resume is not None:
        raise UsageError("--resume does not apply to `agentrt attach`; use --session ID")
    once = options.prompt is not None or not os.isatty(0)
    refuse_server_options(options, ours=("timeout", "cancel_grace") if once else ())
    session = session_of_server(options)
    for name in () if once else ("output_format", "last_message", "fail_on_denied"):
        if getattr(options, name) is not None:
            raise UsageError(f"{SESSION_OPTIONS[name]} is for a single prompt; use -p TEXT")
    wanted = RequestedSession(
        session=session,
        agent=options.agent,
        model=options.model,
        mode=options.mode,
        cwd=options.cwd,
    )
    where = partial(find_server, options.url, insecure=options.insecure)
    where()  # report wrong usage before anything starts
    if once:
        from .attach_once import attach_once
        from .one_shot import PromptOptions

        return partial(attach_once, where, wanted, config, PromptOptions.of(options, config))
    return partial(attach, where, wanted, config)


async def attach(where: Where, wanted: RequestedSession, config: Config) -> int:
    """Run a conversation in a server's session until the user leaves; returns the exit status."""
    # The server decides: do not suggest that a rule of this terminal holds.
    config = structs.replace(config, permissions=PermissionSettings())
    try:
        async with bare_errors(), trio.open_nursery() as nursery:
            line = ServerLine(where, Limits())
            await nursery.start(line.run)
            source = ServerSource(line, wanted, config)
            setup, pick = await source.first()
            status = await show(setup, source, source.commands, pick=pick)
            nursery.cancel_scope.cancel(reason="left")
    except AgentrtError as error:
        return print_error(error)
    if source.last is not None and os.isatty(1):
        with trio.move_on_after(LAST_OUTPUT_S):  # the terminal may be gone or blocked
            async with open_output(1, encoding=encoding_of(sys.stdout)) as out:
                for text in source.unconfirmed:
                    out.write(f"Not confirmed by the server, so perhaps not sent: {text}\n")
                again = f"agentrt attach {line.server} --session {source.last[:ID_CHARS]}"
                out.write(f"Detached; the session keeps running. Reattach: {again}\n")
    return status
