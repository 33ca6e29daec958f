"""A project and an agent that only writes down how it was started."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from msgspec import structs

import agentrt
from agentrt.agents import BUILT_IN, Agent

PROGRAM = Path(__file__).with_name("listed_agent.py")
QUICK = agentrt.Limits(
    startup_timeout_s=10.0, stdin_close_grace_s=0.5, terminate_grace_s=0.5, kill_wait_s=2.0
)
HOSTILE = {"HOSTILE": "1", "GEMINI_CLI_TRUST_WORKSPACE": "true", "COPILOT_ALLOW_ALL": "true"}


class Place:
    """A project, a home folder, and a catalogue's agent whose program only writes down how it was
    started."""

    def __init__(self, folder: Path) -> None:
        self.project = folder / "project"
        self.home = folder / "home"
        self.log = folder / "log"
        self.project.mkdir()
        self.home.mkdir()

    def agent(self, name: str, **changes: Any) -> Agent:
        command = (sys.executable, "-I", "-S", str(PROGRAM), str(self.log))
        return structs.replace(
            BUILT_IN[name], command=command, quirks=agentrt.agents.Quirks(), **changes
        )

    def put(self, name: str, text: str = "{}", *, below: Path | None = None) -> Path:
        path = (below or self.project) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    async def start(self, agent: str | Agent, **options: Any) -> list[agentrt.Notice]:
        """Open a session, and return what it tells. Claude Code does not get ready."""
        found = self.agent(agent) if isinstance(agent, str) else agent
        given = {"cwd": self.project, "env": {**HOSTILE, "HOME": str(self.home)}, "limits": QUICK}
        try:
            async with agentrt.open_session(found, **{**given, **options}) as session:
                events = session.subscribe(after=0)
                await session.aclose()
        except agentrt.AgentStartError:
            if found.protocol == "acp":
                raise
            return []
        return [e async for e in events if isinstance(e, agentrt.Notice)]

    def rows(self) -> list[dict[str, Any]]:
        if not self.log.exists():
            return []
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    @property
    def argv(self) -> list[str]:
        return list(self.rows()[0]["argv"])

    @property
    def env(self) -> dict[str, str]:
        return dict(self.rows()[0]["env"])

    def params(self, method: str) -> dict[str, Any]:
        [row] = [row for row in self.rows() if row.get("method") == method]
        return dict(row["params"])
