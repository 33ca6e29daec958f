"""Terminals: programs that the client runs for the agent (`terminal/*`).

They belong to the session: they outlive turns, and end with `release` or with the session. Output
is read continuously, also if it is not requested, so that no program ever waits for a reader.

A person allows a command by its text, and many variables change the effect of the same text: they
name programs to run, files to read settings from, servers to send to. No list of those can be
complete. So an agent may set variables on a list of harmless ones, and those that its user adds
(see `Agent.terminal_env`). All others are ignored, and the command still runs: agents set variables
out of habit. In front of a command they are visible, and are allowed with it.
"""

from __future__ import annotations

import codecs
import errno
import os
import re
import secrets
import signal
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

import trio

from ..._base.nesting import ServiceNursery
from ..errors import RequestError
from ..limits import Limits
from ..logging import get_logger
from ..model.content import JsonObject
from ..process.chosen import LAYER
from ..process.layer import MARKER
from ..process.tree import SCAN_TIMEOUT_S, ProcessTree
from ..wire.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND
from .files import Roots, parse, reported
from .messages import NOT_FOUND_CODE, CreateTerminalRequest, NameValue, TerminalRequest

_WORD: Final = re.compile(r"[\w.@:+,-]{0,100}", re.ASCII)
"""Above all, not a path: a locale or terminal type that is a path is read from there."""

ALLOWED: Final[tuple[tuple[re.Pattern[str], tuple[str, ...]], ...]] = (
    (
        _WORD,
        (
            "LANG",
            "LC_*",
            "TERM",
            "COLORTERM",
            "TERM_PROGRAM",
            "TERM_PROGRAM_VERSION",
            "COLUMNS",
            "LINES",
            "NO_COLOR",
            "FORCE_COLOR",
            "CLICOLOR",
            "CLICOLOR_FORCE",
            "CI",
            "CLAUDECODE",
            "GEMINI_CLI",
            "QWEN_CODE",
            "OPENCODE",
            "AI_AGENT",  # "I am an agent"
            "DEBIAN_FRONTEND",
            "GIT_TERMINAL_PROMPT",
            "GIT_OPTIONAL_LOCKS",
            "CARGO_TERM_COLOR",
            "PYTHONUNBUFFERED",
            "PYTHONUTF8",
            "PYTHONDONTWRITEBYTECODE",
            "NODE_NO_WARNINGS",
            "NODE_DISABLE_COLORS",
            "npm_config_color",
            "npm_config_fund",
            "npm_config_loglevel",
            "PIP_NO_INPUT",
            "PIP_DISABLE_PIP_VERSION_CHECK",
        ),
    ),
    (re.compile(r"[A-Za-z]\w*(?:[/+-]\w+){0,4}", re.ASCII), ("TZ",)),
    (
        re.compile(r"(?:/usr/local|/usr|/opt/homebrew)?/bin/(?:ba|da|z|k|fi)?sh"),
        ("SHELL",),
    ),
    (
        re.compile(r"|:|cat|false|true"),  # do not page, do not ask
        (
            "PAGER",
            "GIT_PAGER",
            "MANPAGER",
            "SYSTEMD_PAGER",
            "GH_PAGER",
            "BROWSER",
            "VISUAL",
            "EDITOR",
            "GIT_EDITOR",
            "GIT_SEQUENCE_EDITOR",
            "GIT_ASKPASS",
            "SSH_ASKPASS",
        ),
    ),
)
"""Harmless values, and the variables that may have them; `*` stands for any characters."""

OURS: Final = "AGENTRT_"


def merge_environment(
    base: Mapping[str, str], wanted: Iterable[NameValue] | None, more: Iterable[str] = ()
) -> tuple[dict[str, str], list[str]]:
    """Return `base` with the agent's permitted changes, and the names of the ignored variables.

    `more`: names of variables, with `*` for any characters, that the agent may set to any value.
    """
    merged, left_out = dict(base), []
    more = tuple(more)
    for variable in wanted or ():
        name, value = variable.name, variable.value
        if base.get(name) == value:
            continue  # many agents send back their own environment
        if _possible(name, value) and (_harmless(name, value) or _named(name, more)):
            merged[name] = value
        else:
            left_out.append(name)
    return merged, left_out


def _possible(name: str, value: str) -> bool:
    """Return True if the system accepts the variable: a name without `=`, and no NUL bytes."""
    return bool(name) and "=" not in name and "\0" not in name + value


def _harmless(name: str, value: str) -> bool:
    """Return True if the variable may have this value, by the table of harmless ones."""
    return any(_named(name, names) and values.fullmatch(value) for values, names in ALLOWED)


def _named(name: str, patterns: Iterable[str]) -> bool:
    """Return True if a pattern matches the name, which must not be one of agentrt's own."""
    return not name.upper().startswith(OURS) and any(fnmatchcase(name, each) for each in patterns)


if TYPE_CHECKING:
    from ..sandbox.wall import JoinedCommand

logger = get_logger("terminals")

OnOutput = Callable[[str, str], None]
OnLeftOut = Callable[[str], None]
JoinSandbox = Callable[[Sequence[str], str], "JoinedCommand"]
"""Takes a command and the folder in which it runs. Raises `RequestError`."""

_READ_BYTES: Final = 65536
_MAX_REPORTED_NAMES: Final = 64
"""Limit of ignored variables that a session reports: an agent may send any number."""
_LINE: Final = re.compile(r"[\s;&|<>$`(){}*?\[\]'\"\\#~]")
"""Characters that turn a command without arguments into a shell line: agents send both kinds."""


class TerminalService:
    """Serves the terminal requests of one ACP session."""

    def __init__(
        self,
        nursery: trio.Nursery | ServiceNursery,
        *,
        roots: Roots,
        cwd: str,
        env: Mapping[str, str],
        limits: Limits,
        on_output: OnOutput = lambda terminal, text: None,
        variables: Sequence[str] = (),
        on_left_out: OnLeftOut = lambda name: None,
        on_exit: Callable[[], None] = lambda: None,
        join: JoinSandbox | None = None,
    ) -> None:
        """Create the service. Its programs run in `nursery`, and end after `release_all`.

        `env`: the programs' environment. The agent may add harmless variables and those that
        `variables` names (see `merge_environment`). Others are ignored, and `on_left_out(name)` is
        called once for each.

        `cwd`: the folder in which programs start if the agent does not name one.

        `on_output(terminal, text)` is called with output as it comes. `on_exit` is called when a
        program has ended. `join` returns the command that runs a program in the agent's sandbox.
        """
        self._nursery = nursery
        self._roots = roots
        self._cwd = cwd
        self._env = env
        self._limits = limits
        self._on_output = on_output
        self._variables = tuple(variables)
        self._on_left_out = on_left_out
        self._on_exit = on_exit
        self._join = join
        self._left_out: frozenset[str] = frozenset()
        """The names of variables that the session has reported."""
        self._terminals: dict[str, _RunningTerminal] = {}
        self._served: dict[_RunningTerminal, None] = {}
        """The terminals with a program or descendants of one, released or not."""
        self._last = 0
        self._starting = 0

    async def handle(self, method: str, params: JsonObject) -> JsonObject:
        """Serve a request, named by its ACP method, and return its result. Raises `RequestError`.

        A cancelled `terminal/create` has created no terminal, or one with an id that the agent
        never gets and that ends with the session. Cancelling another request does not change the
        terminal.
        """
        if method == "terminal/create":
            return {"terminalId": await self._create(parse(params, CreateTerminalRequest))}
        if method not in _ON_ONE:
            raise RequestError(METHOD_NOT_FOUND, f"{method} is not supported")
        id = parse(params, TerminalRequest).terminal_id
        terminal = self._terminals.get(id)
        if terminal is None:
            raise RequestError(NOT_FOUND_CODE, f"there is no terminal {id!r:.100}")
        match method:
            case "terminal/output":
                return terminal.output()
            case "terminal/wait_for_exit":
                return await terminal.wait()
            case "terminal/kill":
                await terminal.kill().wait()
            case "terminal/release":
                self._terminals.pop(id).release()
        return {}

    @property
    def running(self) -> int:
        """The number of programs that have not exited."""
        return sum(not terminal.over for terminal in self._terminals.values())

    def release_all(self) -> None:
        """End every terminal, as when its agent has exited. Returns immediately.

        The nursery waits for the end of all programs and their descendants, which takes at most
        `limits.terminate_grace_s` and `limits.kill_wait_s` seconds.
        """
        while self._terminals:
            self._terminals.popitem()[1].release()

    async def wait_ended(self) -> None:
        """Wait for the end of all programs and their descendants, after `release_all`."""
        for terminal in tuple(self._served):
            await terminal.ended.wait()

    async def _serve(  # noqa: ASYNC114, ASYNC128 - the terminal does
        self, terminal: _RunningTerminal, *, task_status: trio.TaskStatus[None]
    ) -> None:
        """Serve a terminal until its program and the descendants have ended."""
        self._served[terminal] = None
        try:
            await terminal.serve(task_status=task_status)
        finally:
            del self._served[terminal]
            terminal.ended.set()

    async def _create(self, request: CreateTerminalRequest) -> str:
        """Start a program and return its terminal's id.

        The limit on open terminals counts those that are being started. The program gets a marker
        in its environment that all of its descendants inherit, by which they are found and ended
        (`ProcessTree`). Markers of an outer agentrt are kept in front of it.
        """
        environment, left_out = merge_environment(self._env, request.env, self._variables)
        for name in left_out:
            if name not in self._left_out and len(self._left_out) < _MAX_REPORTED_NAMES:
                self._left_out |= {name}
                self._on_left_out(name)
        wanted, most = request.output_byte_limit, self._limits.terminal_output_bytes
        limit = most if wanted is None else max(0, min(wanted, most))
        argv = command_words(request)
        if len(self._terminals) + self._starting >= self._limits.open_terminals:
            count = self._limits.open_terminals
            raise RequestError(INTERNAL_ERROR, f"{count} terminals are open: release some")
        # All descendants of the program, in any session, inherit the marker.
        outer = environment.get(MARKER, "")
        run = outer.rpartition(",")[2].partition(":")[0] or secrets.token_hex(8)
        marker = f"{run}:{secrets.token_hex(8)}"
        environment[MARKER] = f"{outer},{marker}" if outer else marker
        self._starting += 1
        try:
            process = await self._spawn(argv, request.cwd or self._cwd, environment)
        finally:
            self._starting -= 1
        self._last += 1
        id = f"terminal-{self._last}"
        tree = ProcessTree(process.pid, marker)
        outputs = (self._on_output, self._on_exit)
        terminal = _RunningTerminal(id, process, tree, limit, self._limits, *outputs)
        self._terminals[id] = terminal
        with trio.CancelScope(shield=True):  # it starts immediately
            await self._nursery.start(self._serve, terminal)
        return id

    async def _spawn(self, argv: list[str], cwd: str, env: Mapping[str, str]) -> trio.Process:
        """Start a program in a folder that is opened first, so that its path cannot be swapped.

        Its stdin is empty, and its stdout and stderr share one pipe, as in a terminal. Raises
        `RequestError`.
        """
        with reported(cwd):
            folder = await trio.to_thread.run_sync(self._roots.open_folder, cwd)
        pass_fds: Sequence[int] = ()
        try:
            if self._join is not None:
                joined = self._join(argv, cwd)
                argv, pass_fds = list(joined.argv), joined.pass_fds
            start = LAYER.start_in(folder, cwd)
            return await trio.lowlevel.open_process(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd=start.cwd,
                preexec_fn=start.preexec_fn,
                env=env,
                start_new_session=True,
                pass_fds=pass_fds,
            )
        except ValueError as error:  # a NUL, or half a character
            raise RequestError(INVALID_PARAMS, f"{argv[0]!r:.100} cannot run: {error}") from error
        except OSError as error:
            code = INTERNAL_ERROR if error.errno in _EXHAUSTED else INVALID_PARAMS
            raise RequestError(code, f"{argv[0]!r:.100} cannot run: {error.strerror}") from error
        finally:
            os.close(folder)


_ON_ONE: Final = {
    "terminal/output",
    "terminal/wait_for_exit",
    "terminal/kill",
    "terminal/release",
}
_EXHAUSTED: Final = {errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE}
"""Errors that are not the command's fault."""


def command_words(request: CreateTerminalRequest) -> list[str]:
    """Return the program and the arguments of a request."""
    if not request.args and _LINE.search(request.command):
        return ["/bin/sh", "-c", request.command]
    return [request.command, *(request.args or ())]


class _RunningTerminal:
    """A program in its own session and process group, and the end of its output.

    It is not reaped before it is released. Until then its pid and its group's id are not reused, so
    that its descendants may be signalled even if it has exited itself.
    """

    def __init__(
        self,
        id: str,
        process: trio.Process,
        tree: ProcessTree,
        limit: int,
        limits: Limits,
        on_output: OnOutput,
        on_exit: Callable[[], None],
    ) -> None:
        """Take over a program that was just started. `limit`: bytes of output to keep."""
        assert isinstance(process.stdout, trio.lowlevel.FdStream)
        self._id = id
        self._process = process
        self._stdout = process.stdout
        self._output = _OutputTail(limit)
        self._limits = limits
        self._on_output = on_output
        self._on_exit = on_exit
        self._tree = tree
        self._status: JsonObject = {"exitCode": None, "signal": None}
        self._dead = trio.Event()
        self._eof = trio.Event()
        self.ended = trio.Event()
        """Set when nothing of the program is left."""
        self._exited = trio.Event()
        """Set when the program has exited and its output has been read."""
        self._killed: trio.Event | None = None
        self._released = trio.Event()
        self._nursery: trio.Nursery

    def output(self) -> JsonObject:
        """Return the result of `terminal/output`: the end of the output, and the exit status."""
        result = {"output": self._output.text(), "truncated": self._output.truncated}
        return {**result, "exitStatus": self._status} if self._exited.is_set() else result

    @property
    def over(self) -> bool:
        """True if the program has exited and its output was read, or is not waited for any more."""
        return self._exited.is_set()

    async def wait(self) -> JsonObject:
        """Wait for the exit status. Cancelling it changes nothing."""
        await self._exited.wait()
        return self._status

    def kill(self) -> trio.Event:
        """End the program and its descendants.

        The event is set when they are dead or cannot be killed.
        """
        if self._killed is None:
            self._killed = trio.Event()
            self._nursery.start_soon(self._kill, self._killed)
        return self._killed

    def release(self) -> None:
        """Let `serve` end the program. Returns immediately."""
        self._released.set()

    async def serve(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Read output and watch the program until it is released.

        Not even a cancellation ends this earlier, so that the termination steps are always
        completed.
        """
        try:
            with trio.CancelScope(shield=True):
                async with trio.open_nursery() as nursery:
                    self._nursery = nursery
                    nursery.start_soon(self._read)
                    nursery.start_soon(self._watch)
                    task_status.started()
                    await self._released.wait()
                    await self.kill().wait()
                    nursery.cancel_scope.cancel()
        finally:
            self._tree.kill_known()
            self._stdout.close()
            self._process.poll()
            self._tree.reaped()
            self._exited.set()

    async def _read(self) -> None:
        """Read the output to its end, even if the agent ignores it: the pipe must not fill up."""
        while data := await self._stdout.receive_some(_READ_BYTES):
            self._feed(data)
        self._feed(b"", final=True)
        self._eof.set()

    def _feed(self, data: bytes, *, final: bool = False) -> None:
        """Keep output and pass it on. An error of the receiver does not stop the reading."""
        text = self._output.feed(data, final=final)
        if text:
            try:
                self._on_output(self._id, text)
            except Exception:
                logger.exception("on_output failed; reading continues")

    async def _watch(self) -> None:
        """Wait for the exit of the program, then a little for its remaining output."""
        self._status = _exit_status(await self._wait_dead())
        self._dead.set()
        with trio.move_on_after(self._limits.stdout_drain_s):
            await self._eof.wait()  # a descendant may keep the pipe open forever
        self._exited.set()
        self._on_exit()

    async def _wait_dead(self) -> int:
        """Wait for the exit status, negative for a signal, without reaping if the system supports
        that."""
        await LAYER.wait_exit(self._process.pid)
        status = LAYER.exit_status(self._process.pid)
        if status is None:
            with trio.move_on_after(SCAN_TIMEOUT_S):
                await self._tree.note()
            return await self._reap()
        return status

    async def _reap(self) -> int:
        """Collect the exit status, after which the pid may be used again."""
        status = await self._process.wait()
        self._tree.reaped()
        return status

    async def _kill(self, done: trio.Event) -> None:
        """End the program and its descendants: SIGTERM, a grace period, then SIGKILL.

        `done` is set at the end, also if something could not be killed within `limits.kill_wait_s`.
        """
        with trio.move_on_after(SCAN_TIMEOUT_S):
            await self._tree.note()
        self._tree.terminate()
        with trio.move_on_after(self._limits.terminate_grace_s) as patience:
            await self._tree.wait(self._dead)
        with trio.move_on_after(self._limits.kill_wait_s):
            if patience.cancelled_caught:
                await self._tree.kill(self._dead)
            await self._exited.wait()
        done.set()


class _OutputTail:
    """The end of a program's output: at most `limit` bytes of UTF-8, cut between characters."""

    def __init__(self, limit: int) -> None:
        """Keep at most `limit` bytes."""
        self.truncated = False
        self._limit = limit
        self._kept = bytearray()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, data: bytes, *, final: bool) -> str:
        """Take output and return the text that is complete with it."""
        text = self._decoder.decode(data, final)
        self._kept += text.encode()
        cut = len(self._kept) - self._limit
        if cut > 0:
            self.truncated = True
            while cut < len(self._kept) and self._kept[cut] & 0xC0 == 0x80:
                cut += 1
            del self._kept[:cut]
        return text

    def text(self) -> str:
        """Return the kept output."""
        return self._kept.decode()


def _exit_status(status: int) -> JsonObject:
    """Convert an exit status, negative for a signal, to ACP's form with the name of the signal."""
    if status >= 0:
        return {"exitCode": status, "signal": None}
    try:
        name = signal.Signals(-status).name
    except ValueError:  # a real-time signal
        name = f"SIG{-status}"
    return {"exitCode": None, "signal": name}
