"""`agentrt` without a subcommand: an interactive session, or a single prompt with `-p`."""

from __future__ import annotations

import argparse
import os
from functools import partial

from msgspec import structs

from ...agents import resolve_stored_agent
from ...config import Config
from ...errors import SessionNotFound
from ..exit_status import UsageError
from ..options import Work, checked, claude_options, make_setup
from ..setup import Setup, choose_agent, with_acp_version
from ..stores import find, latest, store_files
from ..subcommands import SESSION_OPTIONS


def prepare(options: argparse.Namespace, config: Config) -> Work:
    """Return the work of the command. Raises `AgentrtError`."""
    interactive = options.prompt is None and os.isatty(0)
    pick = interactive and options.resume == "" and not options.continue_
    if pick:
        options.resume = None
    if options.serve and not interactive:
        raise UsageError("--serve is for an interactive session: it needs a terminal, and no -p")
    setup = _stored_setup(options, config) or make_setup(options, config, demo=interactive)
    if not interactive:
        from .one_shot import PromptOptions, one_shot

        return partial(one_shot, setup, PromptOptions.of(options, config))
    for name in ("output_format", "attachments", "last_message", "json_schema", "fail_on_denied"):
        if getattr(options, name) is not None:
            raise UsageError(f"{SESSION_OPTIONS[name]} is for a single prompt; use -p TEXT")
    from .interactive import converse

    return partial(converse, setup, pick=pick, serve=bool(options.serve))


def _stored_setup(options: argparse.Namespace, config: Config) -> Setup | None:
    """Return the setup for the stored session of `--resume` or `--continue`, with its own agent.

    Returns None if neither refers to a stored session. Raises `AgentrtError`.
    """
    prefix: str | None = options.resume
    if not (prefix or options.continue_):
        return None
    if prefix is not None and options.continue_:
        raise UsageError("--resume and --continue exclude each other")
    agent = None
    if options.agent is not None or options.command is not None:
        agent, _ = choose_agent(
            config,
            options.agent,
            options.command,
            options.protocol,
            acp_version=options.acp_version,
        )
    files = store_files(options.store, config)
    name = agent.name if agent is not None else None
    if prefix is None:
        ref = latest(files, os.path.abspath(options.cwd), name)
    else:
        try:
            ref = find(files, prefix, name)
        except SessionNotFound:
            return None  # the agent may know it
    agent = agent or with_acp_version(
        resolve_stored_agent(ref.entry.agent, config), options.acp_version
    )
    if given := claude_options(options, agent):
        flags = ", ".join(f"--{name.removesuffix('_prompt').replace('_', '-')}" for name in given)
        raise UsageError(f"a resumed session keeps its options; leave out {flags}")
    setup = Setup(agent=agent, config=config, store=options.store).resuming(ref, agent)
    if prefix is not None and options.cwd != ".":
        setup = structs.replace(setup, cwd=os.path.abspath(options.cwd), moved=True)
    return checked(structs.replace(setup, model=options.model, mode=options.mode))
