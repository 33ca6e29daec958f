"""An agent with a protocol of its own: first with a plain pipe, then in a session.

    python examples/own_driver.py "run make clean"

[`mini_driver.py`](mini_driver.py) has the driver, and [`mini_agent.py`](mini_agent.py) the agent.
"""

import os
import subprocess
import sys
from collections import deque
from itertools import count
from pathlib import Path

import trio
from mini_driver import MiniDriver

import agentrt
from agentrt.agents import own
from agentrt.effects import DecisionRequested, Started, TextReceived, TurnFinished, Write
from agentrt.events import Text
from agentrt.lowlevel import DecisionAnswer, Effect, Opening

COMMAND = [sys.executable, str(Path(__file__).with_name("mini_agent.py"))]


def without_trio(prompt: str) -> None:
    keys = count(1)
    driver = MiniDriver(lambda: f"k{next(keys)}")
    with subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as agent:
        assert agent.stdin is not None
        assert agent.stdout is not None
        effects: deque[Effect] = deque(driver.start(Opening(cwd=os.getcwd())))
        finished = False
        while not finished:
            while effects:
                match effects.popleft():
                    case Write(data=data):
                        agent.stdin.write(data)
                        agent.stdin.flush()
                    case Started():
                        effects += driver.prompt("turn-1", [Text(prompt)])
                    case DecisionRequested(key=key):
                        effects += driver.answer(key, DecisionAnswer(option="no"))
                    case TextReceived(text=text):
                        print(text, end="")
                    case TurnFinished(outcome=outcome):
                        print(f"[{outcome}]")
                        finished = True
            if not finished:
                data = os.read(agent.stdout.fileno(), 65536)
                if not data:
                    raise SystemExit("the agent ended")
                effects += driver.receive(data)
        agent.stdin.close()


async def in_a_session(prompt: str) -> None:
    agent = own(COMMAND, MiniDriver, name="mini")
    policy = agentrt.rules(allow=["Bash(make:*)"])
    async with agentrt.open_session(agent, permissions=policy) as session:
        result = await session.run(prompt)
        print(f"{result.text}[{result.outcome}]")


if __name__ == "__main__":
    without_trio(sys.argv[1])
    trio.run(in_a_session, sys.argv[1])
