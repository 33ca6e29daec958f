"""`agentrt sandbox -- COMMAND`: run a command in the sandbox of a session."""

from __future__ import annotations

import argparse
import os
import signal
from functools import partial

import trio

from ...agents import Agent
from ...config import Config
from ...errors import AgentrtError
from ...sandbox import Sandbox, run_in_sandbox
from ..exit_status import UsageError
from ..options import Work, chosen_agents
from ..printing import print_error
from ..setup import agents_environment


def prepare(options: argparse.Namespace, config: Config) -> Work:
    """Return the work of the subcommand. Raises `UsageError` or `AgentNotFound`."""
    if options.no_sandbox:
        raise UsageError("--no-sandbox does not apply to `agentrt sandbox`")
    chosen = chosen_agents(options, config)
    agent = chosen[0] if chosen else None
    command = options.words or [os.environ.get("SHELL", "/bin/sh")]
    return partial(run, command, config, options.cwd, agent)


async def run(command: list[str], config: Config, cwd: str, agent: Agent | None) -> int:
    """Run the command with the streams of this process; returns its exit status.

    A signal that ends it is returned as 128 and its number, as a shell does.
    """
    env = agents_environment(config)
    sandbox = config.sandbox or Sandbox()
    name = "" if agent is None else agent.name

    try:
        # An interrupt goes to the command, which may handle it.
        with trio.open_signal_receiver(signal.SIGINT) as interrupts:
            status = await run_in_sandbox(
                command, sandbox, cwd=cwd, env=env, agent=name, interrupts=interrupts
            )
    except AgentrtError as error:
        return print_error(error)
    return status if status >= 0 else 128 - status
