"""An agent process in memory: pipes with a capacity, an exit status, signals it may ignore.

`AgentSide` is the common part of the fake agents: it reads the host's messages and waits for its
answers.

A `MemoryAgent` behaves as a process does where the difference matters: its pipes have a capacity,
so a host that writes to a program that does not read must wait; output arrives in the pieces in
which it was written, in reads of limited size; signals may be ignored; and the exit status is
negative after a signal. It differs in that it takes no time, and that nothing of it remains after
the block.

An agent's side of a protocol is written as a script on top of it. The task that reads the host's
messages is separate from the script, so a cancel is seen while the script is in the middle of a
turn.

A program of any protocol can be written on `MemoryAgent` alone, for instance one that breaks the
protocol. This one exits in the middle of the handshake::

    async def crashes(process):
        await process.receive_line()
        process.complain("no license")
        process.exit(7)

    async def test_the_reason_is_named():
        with pytest.raises(agentrt.AgentStartError, match="no license"):
            async with open_fake_session(lambda: MemoryAgent(crashes)):
                pass

For correct agents, use `FakeAcpAgent`, `FakeClaudeAgent` or `FakeCodexAgent` on top of it.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import count
from typing import Any, Generic, Self, TypeVar

import msgspec
import trio

from .._base.nesting import bare_errors
from ..agents import Transport
from ..events import JsonObject

_READ_BYTES = 64 * 1024
"""Maximum number of bytes of a read, as from a pipe."""

_pids = count(100_000)


class MemoryAgent:
    """A simulated agent process. The host uses it as its `Transport`; `script` is the program.

    The program reads the host's lines with `receive_line`, writes with `send`, and ends by
    returning (exit status 0) or by calling `exit`. An exception of the program ends the session's
    block, in a group with the errors that follow from it, so a failed assertion in a script fails
    the test.

    - `script`: called once, with this agent. Make a new agent for each start.
    - `stdin_capacity`: bytes that the host can write before the program has read any. Choose few to
      test a host that writes faster than its agent reads.
    - `ignores`: the events that the program survives: `"eof"`, `"terminate"`. `kill_tree` always
      kills it.
    - `pid`: by default a number that no other agent of this process has. No real process has to
      exist.

    `written` and `signals` show what the host did, also after the end.
    """

    def __init__(
        self,
        script: Callable[[MemoryAgent], Awaitable[None]],
        *,
        stdin_capacity: int = 64 * 1024,
        ignores: frozenset[str] = frozenset(),
        pid: int | None = None,
    ) -> None:
        self.ignores = ignores
        self.written: bytearray = bytearray()
        """Everything that the host wrote."""
        self.signals: list[str] = []
        """Actions of the host to stop the program: `eof`, `interrupt`, `terminate`, `kill`."""
        self._script = script
        self._capacity = stdin_capacity
        self._stdin = bytearray()
        self._begun = bytearray()
        """The incomplete line that the program has read so far."""
        self._stdin_open = True
        self._stdout: deque[bytes] = deque()
        self._stdout_open = True
        self._stderr = ""
        self._pid = next(_pids) if pid is None else pid
        self._returncode: int | None = None
        self._exited = trio.Event()
        self._host = trio.lowlevel.ParkingLot()
        self._program = trio.lowlevel.ParkingLot()
        self._scope = trio.CancelScope()

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Transport]:
        """Run the program while the block runs, as `open_process` does for a real one."""
        async with bare_errors(), trio.open_nursery() as nursery:
            nursery.start_soon(self._run)
            try:
                yield self
            finally:
                self._kill(-9)
                nursery.cancel_scope.cancel()

    async def _run(self) -> None:
        """Run the program until it returns, is killed or exits."""
        with self._scope:
            await self._script(self)
            self.exit(0)

    # --- the program's side

    async def receive_line(self) -> bytes | None:
        """Return the host's next line, without its newline; None at the end of input.

        Waits until a line is complete. Reading makes room in the pipe even for an incomplete one. A
        program that ignores the end of its input waits for ever then, until it is killed.
        Cancelling loses no input.
        """
        while (cut := self._stdin.find(b"\n")) < 0:
            self._begun += self._stdin  # reading makes room in the pipe
            if self._stdin:
                self._stdin.clear()
                self._host.unpark_all()
            if not self._stdin_open:
                if "eof" in self.ignores:
                    await trio.sleep_forever()
                return None
            await self._program.park()
        line = bytes(self._begun + self._stdin[:cut])
        self._begun.clear()
        del self._stdin[: cut + 1]
        self._host.unpark_all()
        return line

    def send(self, data: bytes) -> None:
        """Write bytes to stdout, split anywhere. Never waits; does nothing after the exit."""
        if self._stdout_open and data:
            self._stdout.append(data)
            self._host.unpark_all()

    def complain(self, text: str) -> None:
        """Write to stderr."""
        self._stderr += text

    def close_stdout(self) -> None:
        """Close stdout without exiting."""
        self._stdout_open = False
        self._host.unpark_all()

    def exit(self, code: int) -> None:
        """End the process. A negative `code` means that it was killed by that signal.

        Cancels the program at its next checkpoint. Output that was sent can still be read, as from
        a pipe; later calls of `send` do nothing. The first exit status counts.
        """
        if self._returncode is None:
            self._returncode = code
            self._stdout_open = False
            self._stdin_open = False
            self._exited.set()
            self._host.unpark_all()
            self._scope.cancel()

    def _kill(self, code: int) -> None:
        """End the process by a signal, given as a negative number."""
        self.exit(code)

    # --- the host's side: Transport

    @property
    def pid(self) -> int | None:
        """The process id, which is not a real one."""
        return self._pid

    @property
    def returncode(self) -> int | None:
        """The exit status (negative: the signal that ended it); None while it runs."""
        return self._returncode

    def read_nowait(self) -> bytes | None:
        """Return the next output; None if none is available, empty at the end."""
        if not self._stdout:
            return None if self._stdout_open else b""
        data = self._stdout.popleft()
        if len(data) > _READ_BYTES:
            self._stdout.appendleft(data[_READ_BYTES:])
            data = data[:_READ_BYTES]
        return data

    async def wait_readable(self) -> None:
        """Wait until `read_nowait` has a result. A checkpoint."""
        if self._stdout or not self._stdout_open:
            await trio.lowlevel.checkpoint()
        else:
            await self._host.park()

    def write_nowait(self, data: bytes | memoryview) -> int:
        """Write as much as fits and return the number of bytes.

        Raises `trio.BrokenResourceError` if the program no longer reads.
        """
        if self._returncode is not None or not self._stdin_open:
            raise trio.BrokenResourceError("the agent no longer reads")
        taken = bytes(data[: max(0, self._capacity - len(self._stdin))])
        self._stdin += taken
        self.written += taken
        self._program.unpark_all()
        return len(taken)

    async def wait_writable(self) -> None:
        """Wait until the pipe has room or the program has exited. A checkpoint."""
        if self._returncode is not None or len(self._stdin) < self._capacity:
            await trio.lowlevel.checkpoint()
        else:
            await self._host.park()

    def close_stdin(self) -> None:
        """Close the program's standard input. Repeated calls do nothing."""
        if self._stdin_open:
            self._stdin_open = False
            self.signals.append("eof")
            self._program.unpark_all()

    async def wait(self) -> int:
        """Wait until the program has exited and return its status.

        The status is that of `returncode`. Any number of tasks may wait; cancelling one has no
        effect on the program.
        """
        await self._exited.wait()
        assert self._returncode is not None
        return self._returncode

    def stderr_tail(self) -> str:
        """Return everything that the program wrote to stderr."""
        return self._stderr

    async def note(self) -> None:
        """Do nothing but a checkpoint: no real processes exist to record."""
        await trio.lowlevel.checkpoint()

    def interrupt(self) -> None:
        """Record an interrupt in `signals`."""
        self.signals.append("interrupt")

    def terminate(self) -> None:
        """Record a SIGTERM in `signals`, and end the program unless it ignores it."""
        self.signals.append("terminate")
        if "terminate" not in self.ignores:
            self.exit(-15)

    async def wait_tree(self) -> None:
        """Wait until the program has exited."""
        await self._exited.wait()

    async def kill_tree(self) -> None:
        """Record a kill in `signals`, and end the program."""
        self.signals.append("kill")
        self.exit(-9)
        await trio.lowlevel.checkpoint()


P = TypeVar("P")


class AgentSide(Generic[P]):
    """An agent's side of a protocol, with prompts of type `P`."""

    def __init__(self, process: MemoryAgent) -> None:
        self.process = process
        self.received: list[JsonObject] = []
        """Every message of the host, in order."""
        self.prompt: P | None = None
        """The last prompt received."""
        self.prompts: trio.MemoryReceiveChannel[P]
        self._arrived, self.prompts = trio.open_memory_channel[P](math.inf)
        self._answers: dict[Any, tuple[trio.Event, list[JsonObject]]] = {}

    @classmethod
    @asynccontextmanager
    async def serving(cls, process: MemoryAgent, **options: Any) -> AsyncIterator[Self]:
        """Create an agent that reads while the block runs; `options` go to the constructor.

        Use it at the start of a script::

            async def script(process):
                async with FakeAcpAgent.serving(process) as agent:
                    async for prompt in agent.prompts:
                        agent.say("Done.")
                        prompt.end()

        The host's messages are read by a task of their own, so a cancel sets `prompt.cancelled`
        while the script is busy. When the block is left, reading stops.
        """
        agent = cls(process, **options)
        try:
            async with bare_errors(), trio.open_nursery() as nursery:
                nursery.start_soon(agent._read)
                yield agent
                nursery.cancel_scope.cancel()
        finally:
            agent.prompt = None  # it refers to the agent

    async def _read(self) -> None:
        """Read the host's messages until the end of the input; each is recorded and handled."""
        with self._arrived:
            while (line := await self.process.receive_line()) is not None:
                message: JsonObject = msgspec.json.decode(line)
                self.received.append(message)
                self._take(message)

    @abstractmethod
    def _take(self, message: JsonObject) -> None:
        """Handle a message of the host: answer it, or pass a prompt to `_prompted`."""

    def _prompted(self, prompt: P) -> None:
        """Give a prompt to the script, which reads `prompts`."""
        self.prompt = prompt
        self._arrived.send_nowait(prompt)

    def send(self, message: JsonObject) -> None:
        """Send a line to the host. It need not be valid in the protocol."""
        self.process.send(msgspec.json.encode(message) + b"\n")

    async def _ask(self, id: Any, message: JsonObject) -> JsonObject:
        """Send a request and wait for its answer."""
        event, box = trio.Event(), list[JsonObject]()
        self._answers[id] = (event, box)
        self.send(message)
        await event.wait()
        return box[0]

    def _answered(self, id: Any, answer: JsonObject) -> None:
        """Pass an answer of the host to the request that waits for it, if there is one."""
        waiting = self._answers.pop(id, None)
        if waiting is not None:
            waiting[1].append(answer)
            waiting[0].set()
