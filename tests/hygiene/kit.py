"""Agents that have to be ended by force, and a look at what this process holds."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psutil
import trio

import agentrt
from hostile.bad_agent import Agent, Message

LIMITS = agentrt.Limits(
    startup_timeout_s=20,
    cancel_grace_s=2,
    cancel_resend_s=0.5,
    end_silence_s=0.5,
    stdin_close_grace_s=0.3,
    terminate_grace_s=0.3,
    kill_wait_s=5,
    stdout_drain_s=0.1,
    write_timeout_s=5,
    drain_timeout_s=10,
)
"""Short where an agent is to be ended by force, long where only a busy machine is waited for."""


# --- what agents do (their source is sent to the agent's process)


def ignore_signals(self: Agent) -> None:
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)


def stay(self: Agent) -> None:
    """At the end of its input."""
    while True:
        signal.pause()


def plant(self: Agent, prompt: Message) -> None:
    """Start a child in a session of its own that does not care for signals and, some time later,
    writes a file; perhaps another one without an environment; then go on for ever. `arg`: the
    file, and whether."""
    file, bare = self.arg
    if bare:
        script = f"sleep 31; : {file}"
        self.spawn(script, start_new_session=True, env={}, stdin=-3, stdout=-3, stderr=-3)
    script = f"trap '' TERM HUP INT; echo > {file}.begun; sleep 30; echo > {file}"
    self.spawn(script, start_new_session=True, stdin=-3, stdout=-3, stderr=-3)
    while not os.path.exists(f"{file}.begun"):
        self.pending(0.01)
    try:
        self.say("planted")
    except BrokenPipeError:
        pass  # the host is dead, and this agent does not care
    while True:
        self.pending(60)


# --- what this process holds


@dataclass(frozen=True)
class Holdings:
    """What may leak."""

    rss: float
    """In MiB."""
    descriptors: int
    tasks: int
    threads: int
    """Without Trio's worker threads that wait for work: those end after some seconds."""
    processes: int
    """Everything below this process."""
    zombies: int

    @classmethod
    def now(cls) -> Holdings:
        me = psutil.Process()
        children = me.children(recursive=True)
        return cls(
            rss=me.memory_info().rss / 2**20,
            descriptors=len(os.listdir("/proc/self/fd")),
            tasks=trio.lowlevel.current_statistics().tasks_living,
            threads=sum(not thread.name.startswith("Trio") for thread in threading.enumerate()),
            processes=len(children),
            zombies=sum(_is_zombie(child) for child in children),
        )

    def but_for_rss(self) -> tuple[int, ...]:
        return (self.descriptors, self.tasks, self.threads, self.processes, self.zombies)


def _is_zombie(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


@contextmanager
def marked(variable: str, value: str) -> Iterator[None]:
    """Have it in the environment of whatever is started in the block."""
    os.environ[variable] = value
    try:
        yield
    finally:
        del os.environ[variable]
