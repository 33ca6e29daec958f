"""A host that will be killed: opens a session with an agent that has to be ended by force, and
prompts it. Run as `python host.py FILE`, with `tests` on its path; says `ready` before it begins.
"""

from __future__ import annotations

import sys

import trio

import agentrt
from agentrt.testing import FakeAgent, scripted_agents


async def leave(agent: FakeAgent) -> None:
    """Say nothing."""
    async for _ in agent.prompts:
        pass


async def main(file: str) -> None:
    from hostile.kit import bad_agent
    from hygiene.kit import LIMITS, ignore_signals, plant, stay

    with scripted_agents({"demo": leave}):
        async with agentrt.open_session("demo", limits=LIMITS):
            pass  # everything that takes time is loaded now
    agent = bad_agent(start=ignore_signals, eof=stay, misbehave=plant, arg=[file, True])
    print("ready", flush=True)
    async with agentrt.open_session(agent, limits=LIMITS) as session:
        print("open", flush=True)
        async with session.prompt("misbehave") as turn:
            async for event in turn:
                if isinstance(event, agentrt.TextDelta):
                    print("planted", flush=True)


if __name__ == "__main__":
    trio.run(main, sys.argv[1])
