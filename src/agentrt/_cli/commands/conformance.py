"""`agentrt conformance`: tests of an agent against its protocol, as a table."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
from collections import Counter
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import Struct, structs

from ..._lab.conformance.check import ConformanceFinding, ConformancePrompts, ConformanceVerdict
from ..._lab.conformance.checks import checks_of
from ..._lab.conformance.run import LIMITS, Conformance, ConformanceRun, subject_of
from ...agents import Agent, Transport, is_known
from ...config import Config
from ...errors import AgentrtError
from ...process import Watcher, open_agent_program
from ..exit_status import UsageError
from ..options import Work
from ..printing import print_error, print_json
from ..setup import DEMO, agents_environment, choose_agent
from ..text import one_line
from ..tracing import command_trace

CHECK_TIMEOUT_S: Final = 60.0
_MARKS: Final[dict[ConformanceVerdict, str]] = {
    "passed": "✓",
    "failed": "✗",
    "different": "~",
    "unsupported": "-",
    "inconclusive": "?",
}
OF_THE_DEMO: Final = ConformancePrompts(text="hello", long="/slow 20")
"""Prompts for the demo agent, which has no model and only knows its own sentences."""


class ConformanceRequest(Struct, frozen=True, kw_only=True):
    """The checks to run, and their settings."""

    config: Config
    prompts: ConformancePrompts
    timeout: float
    only: list[str]
    traces: Path | None
    as_json: bool


def prepare(options: argparse.Namespace, config: Config) -> Work:
    """Return the work of the subcommand. Raises `UsageError` or `AgentNotFound`."""
    if options.command is not None or options.agent is not None:
        raise UsageError("`agentrt conformance` takes the agent itself, without --agent, --command")
    words: list[str] = options.words
    text = words[0] if len(words) == 1 else shlex.join(words)
    is_command = len(words) > 1 or any(each in text for each in " /")
    is_command = is_command or (not is_known(text, config) and shutil.which(text) is not None)
    if options.protocol is not None and not is_command:
        raise UsageError(f"--protocol is the protocol of a command; that of {text} is known")
    name, command = (None, text) if is_command else (text, None)
    agent, _ = choose_agent(
        config, name, command, options.protocol, acp_version=options.acp_version
    )
    return partial(check_agent, agent, make_request(options, agent, config))


def make_request(options: argparse.Namespace, agent: Agent, config: Config) -> ConformanceRequest:
    """Create a request from the command line.

    Raises `UsageError`.
    """
    only: list[str] = getattr(options, "only", None) or []
    if agent.protocol == "own":
        raise UsageError(f"{agent.name} has its own driver, for which no checks exist")
    known = [check.name for check in checks_of(agent.protocol, agent.acp_version)]
    if strange := [name for name in only if name not in known]:
        kind = f"{agent.protocol} 2" if agent.acp_version == 2 else agent.protocol
        raise UsageError(
            f"--only: {strange[0]!r} is not a check of {kind}; checks: {', '.join(known)}"
        )
    given = {name: getattr(options, name) for name in ("text", "long", "permission")}
    timeout: float | None = options.timeout
    folder: str | None = getattr(options, "traces", None)
    traces = None if folder is None else Path(folder)
    if traces is not None:
        try:
            traces.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"--traces {folder}: {error.strerror}") from error
    return ConformanceRequest(
        config=config,
        prompts=structs.replace(
            OF_THE_DEMO if agent.name == DEMO else ConformancePrompts(),
            **{name: text for name, text in given.items() if text is not None},
        ),
        timeout=CHECK_TIMEOUT_S if timeout is None else timeout,
        only=only,
        traces=traces,
        as_json=options.report == "json",
    )


async def check_agent(agent: Agent, request: ConformanceRequest) -> int:
    """Run the checks and print their results.

    Returns the exit status, which is 1 if a mandatory requirement is not met.
    """
    agent = structs.replace(agent, command=_found_from_anywhere(agent.command))

    def connect(cwd: Path, watcher: Watcher) -> AbstractAsyncContextManager[Transport]:
        env = agents_environment(request.config)
        return open_agent_program(agent, cwd=cwd, env=env, limits=LIMITS, watcher=watcher)

    def show(finding: ConformanceFinding) -> None:
        print("\n".join(_row(finding)), flush=True)

    try:
        async with command_trace(request.config) as trace:
            run = ConformanceRun(
                subject_of(agent, connect),
                prompts=request.prompts,
                timeout=request.timeout,
                only=request.only,
                trace=trace,
                traces=request.traces,
                report=(lambda finding: None) if request.as_json else show,
            )
            report = await run.run()
    except AgentrtError as error:
        return print_error(error)
    if request.as_json:
        print_json(_object(report))
    else:
        print(f"\n{_summary(report)}")
    return 1 if report.broken else 0


def _found_from_anywhere(command: tuple[str, ...]) -> tuple[str, ...]:
    """Make relative file names in a command absolute, because each check runs it in another
    directory.

    A program without a slash is looked up in PATH.
    """
    return tuple(
        os.path.abspath(word) if (place or os.sep in word) and os.path.isfile(word) else word
        for place, word in enumerate(command)
    )


def _row(finding: ConformanceFinding) -> list[str]:
    """Return one finding as lines."""
    level = "" if finding.level == "open" else f" ({finding.level})"
    verdict = "" if finding.verdict == "passed" else f"{finding.verdict}: "
    rows = [
        f"{_MARKS[finding.verdict]} {finding.check:25} {finding.title}{level}",
        f"    {verdict}{one_line(finding.words, 300)}",
    ]
    if finding.verdict == "failed":
        rows.append(f"    see {finding.where}")
        if finding.trace:
            rows.append(f"    agentrt trace show {one_line(finding.trace)}")
    return rows


def _counts(report: Conformance) -> dict[ConformanceVerdict, int]:
    count = Counter(finding.verdict for finding in report.findings)
    return {verdict: count[verdict] for verdict in _MARKS}


def _summary(report: Conformance) -> str:
    counts = ", ".join(f"{n} {verdict}" for verdict, n in _counts(report).items())
    broken = sum(finding.broken for finding in report.findings)
    who = one_line(" ".join((report.name or report.agent, report.version)).strip())
    musts = (
        f"; {broken} of the failures violate a requirement of the specification" if broken else ""
    )
    return f"{who}: {len(report.findings)} checks: {counts}{musts}"


def _object(report: Conformance) -> dict[str, object]:
    return {
        **structs.asdict(report),
        "counts": _counts(report),
        "broken": [finding.check for finding in report.findings if finding.broken],
    }
