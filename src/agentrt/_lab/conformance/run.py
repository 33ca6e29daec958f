"""The runner: each check has its own process and folder, and limited time.

Checks are independent: a process that one of them has broken is not used again, and the order has
no influence. Before them, the long turn is measured once, undisturbed, because checks about cancels
must tell an interrupted turn from one that has ended by itself. After them come findings about all
checks together: lines that are not messages, methods that were not offered, and messages that
agentrt's drivers do not know.
"""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Final, Literal, TypeAlias

import trio
from msgspec import Struct

from ..._base.nesting import bare_errors
from ..._public import Limits
from ...agents import Agent, ProtocolName, Transport
from ...errors import AgentStartError
from ...process import Watcher, trace_process
from ...tracing import Trace
from .acp import AcpPeer, acp_page
from .acp2 import Acp2Peer
from .check import (
    CheckEnded,
    ConformanceCheck,
    ConformanceFinding,
    ConformanceLevel,
    ConformancePrompts,
    fails,
    inconclusive,
    shown,
)
from .checks import checks_of, in_version_2
from .claude import WHERE as CLAUDE
from .claude import ClaudePeer
from .codex import WHERE as CODEX
from .codex import CodexPeer
from .peer import ConformancePeer
from .rpc import RpcPeer
from .unknown import unknown_messages

CONCURRENT_CHECKS: Final = 2
"""Maximum number of concurrent checks."""
LIMITS: Final = Limits(stdin_close_grace_s=1.0, terminate_grace_s=1.0, kill_wait_s=1.0)
"""Only the checks about the end of a process use its time limits."""

KINDS: Final[dict[ProtocolName, type[ConformancePeer]]] = {
    "acp": AcpPeer,
    "claude": ClaudePeer,
    "codex": CodexPeer,
}
STDOUT: Final[dict[ProtocolName, str]] = {
    "acp": acp_page("transports#stdio"),
    "claude": CLAUDE,
    "codex": CODEX,
}
"""The place in the specification about standard output, by protocol."""

MAX_UNKNOWN: Final = 20
"""Kinds of unknown messages that are named."""

Connect: TypeAlias = Callable[[Path, Watcher], AbstractAsyncContextManager[Transport]]
"""Starts the agent in a folder, and lets the watcher observe its process."""


class CheckedAgent(Struct, frozen=True, kw_only=True):
    """The checked agent. `mode`, `auth_method`: as in `Quirks`. `acp_version`: the version of ACP
    that it is checked against, if that is its protocol."""

    connect: Connect
    protocol: ProtocolName = "acp"
    acp_version: Literal[1, 2] = 1
    name: str = "agent"
    mode: str | None = None
    auth_method: str | None = None


class Conformance(Struct, kw_only=True):
    """The findings of all checks. `name` and `version` are reported by the agent itself."""

    agent: str
    """The name that the agent was checked under."""
    protocol: ProtocolName
    """The protocol that it was checked against."""
    acp_version: Literal[1, 2] | None = None
    """The version of ACP, if that is the protocol."""
    name: str = ""
    version: str = ""
    findings: list[ConformanceFinding] = []
    """One finding per check, in the order of the checks."""

    @property
    def broken(self) -> bool:
        """True if the agent violates a requirement (a "must")."""
        return any(finding.broken for finding in self.findings)


class ConformanceRun:
    """The checks of one agent. `report` is called with each finding, in the order of the checks."""

    def __init__(
        self,
        subject: CheckedAgent,
        *,
        prompts: ConformancePrompts | None = None,
        timeout: float = 60.0,
        only: Collection[str] = (),
        trace: Trace | None = None,
        traces: Path | None = None,
        report: Callable[[ConformanceFinding], None] = lambda finding: None,
    ) -> None:
        """Prepare a run.

        - `timeout`: seconds for each check.
        - `only`: names of the checks to run; all if empty.
        - `trace`: gets the protocol messages of all checks.
        - `traces`: a folder for one protocol trace per check.
        """
        self._subject = subject
        self._prompts = prompts or ConformancePrompts()
        self._timeout = timeout
        self._only = only
        self._trace = trace
        self._traces = traces
        self._id = secrets.token_urlsafe(6)
        """Added to a check's name, since a trace may contain several runs."""
        self._report = report
        self._folder = os.path.realpath(tempfile.gettempdir())
        self._noise: list[str] = []
        self._unoffered: list[str] = []
        self._unknown: dict[str, None] = {}
        self._long_turn: float | None = None
        self.result = Conformance(
            agent=subject.name,
            protocol=subject.protocol,
            acp_version=subject.acp_version if subject.protocol == "acp" else None,
        )

    @property
    def checks(self) -> list[ConformanceCheck]:
        """The checks to run."""
        known = checks_of(self._subject.protocol, self._subject.acp_version)
        return [check for check in known if not self._only or check.name in self._only]

    async def run(self) -> Conformance:
        """Run the checks. Raises `AgentStartError`, `AgentNotFound` or `TraceError`."""
        checks = self.checks
        if any(check.in_turn for check in checks):
            self._long_turn = await self._measure()
        findings: dict[str, ConformanceFinding] = {}
        limit = trio.CapacityLimiter(CONCURRENT_CHECKS)
        shown = 0

        async def one(check: ConformanceCheck) -> None:
            """Run a check when its turn has come, and report the findings that are complete, in
            order.
            """
            nonlocal shown
            async with limit:
                findings[check.name] = await self._check(check)
            while shown < len(checks) and checks[shown].name in findings:
                self._report(findings[checks[shown].name])
                shown += 1

        async with bare_errors(), trio.open_nursery() as nursery:
            for check in checks:
                nursery.start_soon(one, check)
        self.result.findings = [findings[check.name] for check in checks]
        if not self._only:
            for finding in self._all_findings():
                self.result.findings.append(finding)
                self._report(finding)
        return self.result

    async def _check(self, check: ConformanceCheck) -> ConformanceFinding:
        """Run one check against a new process of the agent, within the time limit.

        A check ends with a verdict by returning its words or by raising `CheckEnded`. If the time
        is over, it has failed; if the agent was not yet ready for it, it is inconclusive.
        """
        began = trio.current_time()
        ended: CheckEnded | None = None
        trace = None if self._traces is None else self._traces / f"{check.name}.ndjson"
        async with self._peer(check.name, trace) as peer:
            with trio.move_on_after(self._timeout):
                try:
                    ended = CheckEnded("passed", await check.run(peer))
                except CheckEnded as came:
                    ended = came
            if ended is None:
                ended = self._timed_out(peer)
            seconds = trio.current_time() - began
        return ConformanceFinding(
            check=check.name,
            title=check.title,
            level=ended.level or check.level,
            where=check.where,
            verdict=ended.verdict,
            words=ended.words,
            seconds=round(seconds, 2),
            trace="" if trace is None else str(trace),
        )

    def _timed_out(self, peer: ConformancePeer) -> CheckEnded:
        """Return the verdict of a check that ran out of time, with the message that it
        waited for.
        """
        words = f"{peer.waits_for or 'the check'} did not arrive within {self._timeout:g} s"
        if isinstance(peer, RpcPeer) and peer.unknown_answers:
            words += f", but an answer to an unknown request did: {shown(peer.unknown_answers[0])}"
        return fails(words) if peer.prepared else inconclusive(words)

    async def _measure(self) -> float | None:
        """Measure the long turn.

        Raises `AgentStartError` if the agent sends nothing at all: otherwise every check would wait
        for its full time.
        """
        trace = None if self._traces is None else self._traces / "long-turn.ndjson"
        async with self._peer("long-turn", trace) as peer:
            with trio.move_on_after(self._timeout):
                try:
                    return await peer.measure()
                except CheckEnded:
                    return None
            if not peer.heard:
                raise AgentStartError(
                    f"the agent {self._subject.name} has not answered within {self._timeout:g} s:"
                    " no check was run"
                )
        return None

    @asynccontextmanager
    async def _peer(self, name: str, trace: Path | None) -> AsyncIterator[ConformancePeer]:
        """Start a process and yield its client."""
        subject = self._subject
        traces: list[Trace | Path] = [each for each in (self._trace, trace) if each is not None]
        if trace is not None:
            await trio.Path(trace).unlink(missing_ok=True)  # from an earlier run
        watched = trace_process(
            traces, session=f"{name}-{self._id}", agent=subject.name, protocol=subject.protocol
        )
        kind = Acp2Peer if _in_version_2(subject) else KINDS[subject.protocol]
        with tempfile.TemporaryDirectory(prefix="agentrt-conformance-", dir=self._folder) as folder:
            cwd = Path(folder)
            async with watched as process, subject.connect(cwd, process) as transport:
                peer = kind(
                    transport,
                    process,
                    cwd=cwd,
                    prompts=self._prompts,
                    limits=LIMITS,
                    mode=subject.mode,
                    auth_method=subject.auth_method,
                    long_turn=self._long_turn,
                )
                async with peer.connected():
                    yield peer
                self._look_back(name, peer)

    def _look_back(self, name: str, peer: ConformancePeer) -> None:
        """Collect observations that are not about the check itself."""
        self._noise += [f"{name}: {line}" for line in peer.noise]
        version = self._subject.acp_version
        for words in unknown_messages(self._subject.protocol, peer.heard, version):
            self._unknown.setdefault(words)
        info = peer.info
        if isinstance(peer, AcpPeer):
            self._unoffered += [f"{name}: {method}" for method in peer.unoffered]
        if info and not self.result.name:
            self.result.name = str(info.get("name") or "")
            self.result.version = str(info.get("version") or "")

    def _all_findings(self) -> list[ConformanceFinding]:
        """Return the findings over all checks together."""
        subject = self._subject
        acp = subject.protocol == "acp"
        where = STDOUT[subject.protocol]
        offered = acp_page("initialization#capabilities")
        if _in_version_2(subject):
            where, offered = in_version_2(where), in_version_2(offered)
        found = [
            _counted(
                "stdout",
                "writes only messages to stdout",
                "must" if acp else "should",
                where,
                self._noise,
            )
        ]
        unknown = list(self._unknown)
        found.append(
            ConformanceFinding(
                check="known-messages",
                title="sends only messages that agentrt knows",
                level="open",
                where=where,
                verdict="different" if unknown else "passed",
                words="; ".join(unknown[:MAX_UNKNOWN]) if unknown else "not one other message",
            )
        )
        if acp:
            found.append(
                _counted(
                    "unoffered",
                    "does not request files or terminals that were not offered",
                    "must",
                    offered,
                    self._unoffered,
                )
            )
        return found


def _in_version_2(subject: CheckedAgent) -> bool:
    """True if the agent is checked against version 2 of ACP, which has its own pages."""
    return subject.protocol == "acp" and subject.acp_version == 2


def _counted(
    check: str, title: str, level: ConformanceLevel, where: str, found: list[str]
) -> ConformanceFinding:
    """Return a finding about something that must not occur in any check, with its first place."""
    return ConformanceFinding(
        check=check,
        title=title,
        level=level,
        where=where,
        verdict="failed" if found else "passed",
        words=f"{len(found)} times, first in {found[0]}" if found else "not once in all checks",
    )


def subject_of(agent: Agent, connect: Connect) -> CheckedAgent:
    """Return an agent of the catalogue, or of a command, as a subject."""
    if agent.protocol == "own":
        raise ValueError(f"{agent.name} has its own driver, for which no checks exist")
    return CheckedAgent(
        connect=connect,
        protocol=agent.protocol,
        acp_version=agent.acp_version,
        name=agent.name,
        mode=agent.quirks.mode,
        auth_method=agent.quirks.auth_method,
    )
