"""`agentrt trust`: the user's decisions about project files that agents act on.

A decision is about the contents of the files, not their names: a digest of them is stored with it,
and their texts, so that changes can be shown. If one file has changed, the decision does not hold
any more and the user decides again, seeing only the changes. Files of the same content that several
agents act on are printed once.

All work is done in a thread: reading the files of a project and its parents blocks, and so does the
question at the terminal.
"""

from __future__ import annotations

import argparse
import difflib
import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal, TypeAlias

import trio
from msgspec import Struct

from ...agents import Agent, find_agents, resolve_agent
from ...config import Config
from ...errors import AgentrtError
from ...unattended import ProjectScan, TrustRecord, TrustRecords, scan_project
from ..exit_status import UsageError
from ..options import Work
from ..printing import as_date, print_error, print_json, print_table
from ..text import one_line, plain

Decision: TypeAlias = Literal["trusted", "ignored", "changed", "undecided", "cannot be shown"]


class FolderReport(Struct, kw_only=True):
    """The files of a folder that one agent acts on, and the decision about them."""

    agent: str
    decision: Decision
    scan: ProjectScan
    record: TrustRecord | None = None


def prepare(options: argparse.Namespace, config: Config) -> Work:
    """Return the work of the subcommand. Raises `UsageError` or `AgentNotFound`."""
    records = TrustRecords()
    if options.verb == "list":
        return partial(_carried_out, partial(show_list, records, as_json=options.json))
    folder = os.path.realpath(options.folder)
    if options.verb == "remove":
        names = options.agents or [None]
        return partial(_carried_out, partial(remove, records, folder, names))
    if not os.path.isdir(folder):
        raise UsageError(f"the folder {options.folder!r} does not exist")
    agents = _agents(config, options.agents)
    if options.verb == "show":
        work = partial(show_folder, records, folder, agents, as_json=options.json)
    else:
        work = partial(add, records, folder, agents, confirmed=options.yes)
    return partial(_carried_out, work)


def _agents(config: Config, names: Sequence[str]) -> list[Agent]:
    """Return the agents of these names, installed or not; without names, the installed ones.

    Raises `AgentNotFound`.
    """
    known = {each.agent.name: each for each in find_agents(config)}
    if not names:
        return [each.agent for each in known.values() if each.available]
    return [
        known[name].agent if name in known else resolve_agent(name, config)
        for name in dict.fromkeys(names)
    ]


async def _carried_out(work: Callable[[], int]) -> int:
    """Run the work in a thread, and report its error."""
    try:
        return await trio.to_thread.run_sync(work)
    except AgentrtError as error:
        return print_error(error)


def show_list(records: TrustRecords, *, as_json: bool) -> int:
    """Print the stored decisions."""
    found = records.entries()
    if as_json:
        print_json(found, pretty=False)
    elif not found:
        print(f"no decisions are stored in {plain(str(records.path))}", file=sys.stderr)
    else:
        print_table(
            ("folder", "agent", "decision", "time", "files", "by", "tenant"),
            [_row(each) for each in found],
        )
    return 0


def _row(record: TrustRecord) -> tuple[object, ...]:
    return (
        one_line(record.folder),
        one_line(record.agent),
        "trusted" if record.trusted else "ignored",
        as_date(record.time),
        len(record.files),
        one_line(record.who or record.via or record.by),
        one_line(record.tenant),
    )


def remove(records: TrustRecords, folder: str, agents: Sequence[str | None]) -> int:
    """Remove the decisions about a folder."""
    removed = [each for agent in agents for each in records.remove(folder, agent)]
    if not removed:
        print(f"agentrt: no decision about {plain(folder)} is stored", file=sys.stderr)
        return 1
    for each in removed:
        print(f"removed: {plain(each.folder)}, {one_line(each.agent)}")
    return 0


def examine(records: TrustRecords, folder: str, agents: Sequence[Agent]) -> list[FolderReport]:
    """Return the files that the agents act on. Agents without any are left out. Blocks."""
    found = []
    for agent in agents:
        scan = scan_project(agent, folder)
        record = records.find(folder, agent.name)
        if scan.files or scan.problem:
            decision = _decision(scan, record)
            found.append(
                FolderReport(agent=agent.name, decision=decision, scan=scan, record=record)
            )
    return found


def _decision(scan: ProjectScan, record: TrustRecord | None) -> Decision:
    """Return the state of a decision about the files as they are now.

    A stored decision holds only for the content that it was made about.
    """
    if scan.problem:
        return "cannot be shown"
    if record is None:
        return "undecided"
    if record.digest != scan.digest:
        return "changed"
    return "trusted" if record.trusted else "ignored"


def show_folder(
    records: TrustRecords, folder: str, agents: Sequence[Agent], *, as_json: bool
) -> int:
    """Print the files of a folder that agents act on, with the changes since the decision."""
    found = examine(records, folder, agents)
    if as_json:
        print_json(found, pretty=False)
    elif not found:
        print(f"{plain(folder)} has no file that an installed agent acts on")
    else:
        _print_files(found)
    return 0


def _print_files(found: Sequence[FolderReport]) -> None:
    """Print each file once for all agents with the same files."""
    shown: set[tuple[str, str]] = set()
    for each in found:
        print(f"{each.agent}: {each.decision}")
        if each.scan.problem:
            print(f"  {plain(each.scan.problem)}")
        old = {} if each.record is None else each.record.files
        for file in each.scan.files:
            print(f"  {plain(file.path)}: {file.effect}")
            if (file.path, file.text) not in shown:
                shown.add((file.path, file.text))
                _print_text(old.get(file.path), file.text)
        for path in sorted(old.keys() - each.scan.texts.keys()):
            print(f"  {plain(path)}: was removed")


def _print_text(old: str | None, new: str) -> None:
    """Print a file, or its changes since the decision, with all control characters visible."""
    if old is None or old == new:
        lines: Sequence[str] = new.splitlines()
    else:
        lines = list(difflib.unified_diff(old.splitlines(), new.splitlines(), lineterm=""))[2:]
    for line in lines:
        print(f"    | {plain(line)}")


def add(records: TrustRecords, folder: str, agents: Sequence[Agent], *, confirmed: bool) -> int:
    """Show the files of a folder and trust them, if the user confirms it."""
    found = examine(records, folder, agents)
    wanted = [each for each in found if each.decision not in ("trusted", "cannot be shown")]
    _print_files(found)
    if not wanted:
        hidden = [each for each in found if each.scan.problem]
        if hidden:
            print(
                "agentrt: these files cannot be shown, so only `trusted` in your configuration"
                " can trust them",
                file=sys.stderr,
            )
            return 1
        print(f"nothing to decide in {plain(folder)}")
        return 0
    names = ", ".join(each.agent for each in wanted)
    if not confirmed:
        if not sys.stdin.isatty():
            raise UsageError(
                "standard input is not a terminal; use --yes to trust without a question"
            )
        answer = input(f"Let {names} act on these files? [y/N] ")
        if answer.strip().casefold() not in ("y", "yes"):
            print("agentrt: nothing was changed", file=sys.stderr)
            return 1
    records.put(
        *(
            TrustRecord(
                folder=each.scan.folder,
                agent=each.agent,
                trusted=True,
                digest=each.scan.digest,
                time=time.time(),
                by="command",
                via="agentrt trust",
                files=each.scan.texts,
            )
            for each in wanted
        )
    )
    print(f"trusted: {plain(folder)}, {names}")
    return 0
