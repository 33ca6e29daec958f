"""What an agent may do beside somebody else's session: for the test that nobody notices, and for
the measurement of how much (`benchmarks/beside.py`)."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import TypeAlias

import agentrt

from .bad_agent import Agent, Message, Tools

Shape: TypeAlias = Callable[[Agent, Message], None]


@agentrt.tool
def nothing() -> None:
    """Do nothing. There must be a tool for an agent to reach its host by that way."""


def crashes(agent: Agent, prompt: Message) -> None:
    os.kill(os.getpid(), 9)


def floods_with_text(agent: Agent, prompt: Message) -> None:
    while True:
        agent.say("nothing but noise " * 20)


def floods_with_short_lines(agent: Agent, prompt: Message) -> None:
    while True:
        agent.raw(b"y\n" * 32768)


def floods_with_objects(agent: Agent, prompt: Message) -> None:
    while True:
        agent.raw(b"{}\n" * 21845)


def floods_with_unknown_updates(agent: Agent, prompt: Message) -> None:
    update = (
        b'{"method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"?"}}}\n'
    )
    while True:
        agent.raw(update * 700)


def floods_stderr(agent: Agent, prompt: Message) -> None:
    while True:
        os.write(2, b"e" * 65536)


def writes_a_hundred_thousand_short_lines(agent: Agent, prompt: Message) -> None:
    agent.raw(b"y\n" * 100_000)
    agent.end(prompt)


def writes_a_line_of_60_mib(agent: Agent, prompt: Message) -> None:
    agent.say("x" * (60 << 20))
    agent.end(prompt)


def writes_a_line_of_60_mib_of_broken_text(agent: Agent, prompt: Message) -> None:
    text = b"caf\xe9 \\ud83d " * (5 << 20)
    head = b'{"method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":'
    content = b'"agent_message_chunk","content":{"type":"text","text":"'
    agent.raw(head + content + text + b'"}}}}\n')
    agent.end(prompt)


def writes_a_line_without_an_end(agent: Agent, prompt: Message) -> None:
    while True:
        agent.raw(b"x" * 65536)


def writes_a_line_of_numbers(agent: Agent, prompt: Message) -> None:
    agent.raw(b"[" + b"0," * (30 << 20) + b"0]\n")
    agent.end(prompt)


def nests_deeply(agent: Agent, prompt: Message) -> None:
    for depth in (100_000, 100_000, 10_000_000):
        agent.raw(b"[" * depth + b"]" * depth + b"\n")
    agent.end(prompt)


def asks_without_end(agent: Agent, prompt: Message) -> None:
    while True:
        agent.begin_request("_vendor/question", {"text": "?" * 100})


def asks_for_permission_without_end(agent: Agent, prompt: Message) -> None:
    number = 0
    while True:
        number += 1
        call = {"toolCallId": str(number), "title": "Run it"}
        agent.begin_request("session/request_permission", {"toolCall": call, "options": []})


def floods_its_tools(agent: Agent, prompt: Message) -> None:
    tools = Tools(next(m for m in agent.heard if m.get("method") == "session/new"))
    threading.Thread(target=tools.program.stdout.read, daemon=True).start()
    while True:
        tools.program.stdin.write(b"{}\n" * 21845)


def floods_from_a_terminal(agent: Agent, prompt: Message) -> None:
    for _ in range(3):
        agent.begin_request("terminal/create", {"command": "yes", "args": ["x" * 70]})
    agent.wait_for("session/cancel")
    agent.end(prompt, "cancelled")


def asks_for_large_files(agent: Agent, prompt: Message) -> None:
    path = os.path.join(os.getcwd(), f"large-{os.getpid()}")
    with open(path, "w") as file:
        file.write("x\n" * (7 << 20))
    for _ in range(4):
        agent.request("fs/read_text_file", {"path": path})
    os.unlink(path)
    agent.end(prompt)


def asks_for_files_without_end(agent: Agent, prompt: Message) -> None:
    path = os.path.join(os.getcwd(), "small")
    with open(path, "w") as file:
        file.write("x")
    while True:
        agent.begin_request("fs/read_text_file", {"path": path})


def waits_for_an_exit_without_end(agent: Agent, prompt: Message) -> None:
    created = agent.request("terminal/create", {"command": "sleep", "args": ["60"]})
    while True:
        agent.begin_request("terminal/wait_for_exit", created["result"])


def closes_stdout(agent: Agent, prompt: Message) -> None:
    os.close(1)
    while True:
        time.sleep(60)


def is_silent(agent: Agent, prompt: Message) -> None:
    while True:
        agent.receive()


def reads_nothing(agent: Agent, prompt: Message) -> None:
    while True:
        time.sleep(60)


def leaves_a_grandchild(agent: Agent, prompt: Message) -> None:
    agent.spawn("trap '' TERM; while :; do sleep 1; done", start_new_session=True)
    sys.exit(0)


def has_to_be_killed_with_thirty_others(agent: Agent, prompt: Message) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for _ in range(30):
        agent.spawn("trap '' TERM; while :; do sleep 1; done", start_new_session=True)
    while True:
        time.sleep(60)


def waits_at_a_permission(agent: Agent, prompt: Message) -> None:
    agent.ask()


SHAPES: tuple[Shape, ...] = (
    crashes,
    floods_with_text,
    floods_with_short_lines,
    floods_with_objects,
    floods_with_unknown_updates,
    floods_stderr,
    writes_a_hundred_thousand_short_lines,
    writes_a_line_of_60_mib,
    writes_a_line_of_60_mib_of_broken_text,
    writes_a_line_without_an_end,
    writes_a_line_of_numbers,
    nests_deeply,
    asks_without_end,
    asks_for_permission_without_end,
    floods_its_tools,
    floods_from_a_terminal,
    asks_for_large_files,
    asks_for_files_without_end,
    waits_for_an_exit_without_end,
    closes_stdout,
    is_silent,
    reads_nothing,
    leaves_a_grandchild,
    has_to_be_killed_with_thirty_others,
    waits_at_a_permission,
)
