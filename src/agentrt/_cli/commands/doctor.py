"""`agentrt doctor`: start agents, perform the handshake, and report problems."""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from functools import partial

import trio
from msgspec import Struct, structs

from ..._base.nesting import bare_errors
from ..._public import Limits
from ...agents import Agent, find_agents
from ...config import Config, load_config
from ...errors import AgentrtError, AgentStartError, StoreError
from ...events import JsonObject, Notice
from ...permissions import deny_all
from ...storage import StoreAddress
from ..console import quoted
from ..exit_status import TIMED_OUT, CommandTimeout, TimedOut, UsageError
from ..options import Work, chosen_agents, flags, timeout_s
from ..printing import as_size, count_of_sessions, print_json
from ..setup import Setup
from ..stores import home_file, read, store_files
from ..text import one_line, plain
from .doctor_project import examine_project
from .doctor_sandbox import examine_sandbox

PARALLEL_AGENTS = 2
"""Agents started at the same time: more would only wait for each other."""


class AgentFinding(Struct, kw_only=True):
    """The result of the check of one agent."""

    name: str
    ok: bool = False
    seconds: float = 0.0
    """Seconds from its start to a session that takes prompts."""
    protocol: str = ""
    program: str = ""
    version: str | None = None
    capabilities: JsonObject = {}
    mode: str | None = None
    modes: list[str] = []
    model: str | None = None
    models: list[str] = []
    notices: list[str] = []
    rules: list[str] = []
    """Permission rules of the settings that never apply to it, with the reasons."""
    error: str | None = None
    timed_out: bool = False
    """True if the time limit of the whole command was reached."""
    stderr: str = ""
    note: str = ""
    docs: str = ""


def prepare(options: argparse.Namespace, config: Config) -> Work:
    """Return the work of the subcommand. Raises `UsageError` or `AgentNotFound`."""
    if options.probe:
        return partial(examine_sandbox, as_json=options.json)
    chosen = chosen_agents(options, config)
    agents = chosen or installed(config)
    if options.project is not None:
        folder = options.project
        if not os.path.isdir(folder):
            raise UsageError(f"--project: the folder {folder!r} does not exist")
        config = load_config(folder, flags=flags(options))
        return partial(examine_project, agents, config, folder, as_json=options.json)
    return partial(
        examine,
        agents,
        config,
        as_json=options.json,
        timeout=timeout_s(options),
        stores=None if chosen else store_files(options.store, config),
    )


async def examine(
    agents: list[Agent],
    config: Config,
    *,
    as_json: bool,
    timeout: float | None = None,
    stores: list[StoreAddress] | None = None,
) -> int:
    """Start each agent in an empty directory, without a prompt, and read the stores.

    `timeout` is the time for all agents, in seconds. `stores`: the stores to report on, in text
    output; None to skip them. Returns the exit status: 3 if the time was too short, 1 if an agent
    or a store does not work.
    """
    bound = CommandTimeout(timeout)
    findings: dict[str, AgentFinding] = {}
    limit = trio.CapacityLimiter(PARALLEL_AGENTS)
    shown = 0

    def show() -> None:
        """Print the known results, in order."""
        nonlocal shown
        while shown < len(agents) and agents[shown].name in findings:
            print("\n".join(_report(findings[agents[shown].name])), flush=True)
            shown += 1

    async def look(agent: Agent) -> None:
        async with limit:
            findings[agent.name] = await _examine(agent, config, bound)
        if not as_json:
            show()

    async with bare_errors(), trio.open_nursery() as nursery:
        for agent in agents:
            nursery.start_soon(look, agent)
    found = [findings[agent.name] for agent in agents]
    if as_json:
        print_json(found)
    elif len(found) > 1:
        print(f"\n{sum(each.ok for each in found)} of {len(found)} agents work.", end=" ")
        print("Install others: agentrt agents")
    sound = True
    if stores is not None and not as_json:
        sound = await trio.to_thread.run_sync(_show_stores, stores)
    if any(each.timed_out for each in found):
        return TIMED_OUT
    return 0 if sound and all(each.ok for each in found) else 1


def _show_stores(files: list[StoreAddress]) -> bool:
    """Print the state of the stores; returns False if one of them cannot be used."""
    print("\nSessions are stored in")
    if not files:
        print(f"  {plain(str(home_file()))}, which has none yet")
    sound = True
    for file in files:
        try:
            found = read(file, lambda reader: reader.report())
        except StoreError as error:
            sound = False
            print(f"✗ {plain(str(error))}")
        else:
            print(
                f"✓ {plain(found.path)}: {count_of_sessions(found.sessions)}, {as_size(found.size)}"
            )
            print(f"    {found.database:13} {found.facts}")
    return sound


def installed(config: Config) -> list[Agent]:
    """Return the agents that can be checked on this machine."""
    return [each.agent for each in find_agents(config) if each.available]


async def _examine(agent: Agent, config: Config, bound: CommandTimeout) -> AgentFinding:
    """Start one agent in an empty folder, and return the finding.

    The folder is new and trusted: some agents start only in folders that they know, and no project
    may influence the result. Errors become part of the finding, so that the other agents are
    examined, too.
    """
    finding = AgentFinding(
        name=agent.name,
        protocol=agent.protocol,
        program=agent.command[0],
        note=agent.note,
        docs=agent.docs,
    )
    setup = Setup(agent=agent, config=config)
    try:
        finding.rules = setup.doubts()
    except UsageError as error:
        finding.rules = [str(error)]
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="agentrt-doctor-") as folder:
        # The directory is our own: some agents start in trusted ones only.
        trusting = structs.replace(config, trusted=(*config.trusted, folder))
        setup = structs.replace(setup, cwd=folder, config=trusting)
        try:
            with bound.over("examining it"):
                await _start_agent(setup, bound.applied(setup.limits), finding, began)
        except AgentrtError as error:
            finding.ok = False
            finding.seconds = finding.seconds or round(time.monotonic() - began, 2)
            finding.timed_out = isinstance(error, TimedOut)
            finding.error = str(error).partition("\n---")[0]
            if isinstance(error, AgentStartError):
                finding.stderr = error.stderr
    return finding


async def _start_agent(setup: Setup, limits: Limits, finding: AgentFinding, began: float) -> None:
    """Start an agent, end it again, and note its answers to the handshake.

    Notices that need a login make the finding an error, although the agent has started: its first
    prompt would fail.
    """
    async with setup.open(deny_all, limits=limits, replay=False) as session:
        events = session.subscribe(after=0)
        finding.seconds = round(time.monotonic() - began, 2)
        finding.version = session.agent.version
        finding.capabilities = session.capabilities
        modes = session.modes
        if modes is not None:
            finding.mode, finding.model = modes.mode, modes.model
            finding.modes = [choice.id for choice in modes.modes]
            finding.models = [choice.id for choice in modes.models]
        await session.aclose()
    warnings = [e async for e in events if isinstance(e, Notice) and e.level != "info"]
    finding.notices = [notice.message for notice in warnings]
    no_login = [n.message for n in warnings if n.code == "auth_required"]
    finding.error = no_login[0] if no_login else None
    finding.ok = not no_login


def _report(finding: AgentFinding) -> list[str]:
    """Return the report on one agent as lines."""
    return _success(finding) if finding.ok else _failure(finding)


def _failure(finding: AgentFinding) -> list[str]:
    lines = [f"✗ {finding.name}: {one_line(finding.error or '', 1000)} ({finding.seconds} s)"]
    lines.append(f"    program       {finding.program}")
    for what, words in (("note", finding.note), ("see", finding.docs)):
        if words:
            lines.append(f"    {what:13} {words}")
    return [*lines, *(f"  {line}" for line in quoted(finding.stderr))]


def _success(finding: AgentFinding) -> list[str]:
    version = one_line(finding.version or "of unknown version")
    lines = [f"✓ {finding.name} {version}: ready after {finding.seconds} s"]
    lines.append(f"    program       {finding.program} ({finding.protocol})")
    can = [name for name, value in finding.capabilities.items() if value is True]
    lines.append(f"    can           {', '.join(map(one_line, can)) or 'not reported'}")
    for what, now, all_ in (
        ("mode", finding.mode, finding.modes),
        ("model", finding.model, finding.models),
    ):
        if now is not None:
            others = [one_line(each) for each in all_ if each != now]
            rest = f" (also: {', '.join(others)})" if others else ""
            lines.append(f"    {what:13} {one_line(now)}{rest}")
    lines += [f"    warning       {one_line(notice, 1000)}" for notice in finding.notices]
    lines += [f"    rules         {one_line(each)}" for each in finding.rules]
    if finding.note:
        lines.append(f"    note          {finding.note}")
    return lines
