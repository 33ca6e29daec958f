"""The sandbox of one session: it starts the agent, and all that agentrt runs for it, inside.

The wall lives as long as the session. Each start of the agent builds the namespaces again, with a
view of the files as they are at that moment.

A start with bubblewrap has these steps. `Wall.start` builds the view of the files (`view.py`) and
the command: bubblewrap, which also applies the filter of system calls (`seccomp.py`), then
`enter.py`, then the agent. `enter.py` opens the sockets of the sandbox's own loopback interface,
hands them over to this process, and becomes the agent. This process serves the sockets
(`Wall.entered`): the proxy (`proxy.py`), which is the only way to other hosts, and the ports that
the policy passes in. Further programs enter the same namespaces by `join.py`, which also changes
the view while the agent runs.

With Landlock there are no namespaces: `join.py` restricts itself to listed files and ports and
becomes the agent, and the proxy listens on this machine.
"""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import sys
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

import trio
from msgspec import Struct, structs

from ..._base.nesting import bare_errors
from ..errors import LocalProtocolError, RequestError, SandboxUnavailable
from ..process.entry import NEEDS_LINUX, NamespaceEntry
from ..process.guard import guard, private_folder, python_program
from ..wire.jsonrpc import INTERNAL_ERROR
from . import enter, join
from .access import READ, WRITE, AccessRefused, Granted, PathAccess
from .desk import AccessDesk
from .gateway import Gateway
from .landlock import landlock_rules, make_home, require_landlock
from .placeholders import Placeholders
from .places import PLACES, UNSET, AgentPlaces, hidden_folders, home_of, is_below, model_hosts
from .policy import MIN_PORT, Sandbox, Tier, resolved
from .probe import bwrap_problem, remedy_for, require_bwrap
from .programs import serve_programs
from .proxy import serve_port, serve_proxy
from .seccomp import filter_program
from .view import (
    SandboxView,
    ViewRequest,
    build_view,
    content,
    grant_mounts,
    granted_place,
)

PROXY_PORT: Final = 3128
"""The port of the proxy on the loopback interface inside."""

_PROXIES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
_LOCAL: Final = "localhost,127.0.0.1,::1"
_JAVA: Final = " ".join(
    f"-D{kind}.proxyHost=127.0.0.1 -D{kind}.proxyPort={{port}}" for kind in ("http", "https")
)


class SandboxStart(Struct, frozen=True):
    """A start of the agent inside."""

    argv: tuple[str, ...]
    env: dict[str, str]
    entry: NamespaceEntry
    pass_fds: tuple[int, ...]
    network: trio.CancelScope
    """Around the service of the network inside."""


class JoinedCommand(Struct, frozen=True):
    """A further program for a running sandbox."""

    argv: tuple[str, ...]
    pass_fds: tuple[int, ...]


class SandboxStatus:
    """The sandbox of a session, as `Session.sandbox` shows it."""

    tier: Tier
    """The mechanism: bubblewrap, or Landlock if the policy accepts it."""
    policy: Sandbox
    """The settings that apply."""
    _wall: Wall

    def __init__(self) -> None:
        raise TypeError("the status of a sandbox is `Session.sandbox`")

    @property
    def summary(self) -> str:
        """The network and the number of permissions, in words: `workspace, 2 hosts, 1 allowed`."""
        network, granted = self.policy.network, len(self.granted)
        names = {"none": "offline", "model": "workspace", "all": "open-network"}
        text = names[network] if isinstance(network, str) else "workspace"
        if not isinstance(network, str):
            text += f", {len(network)} {'host' if len(network) == 1 else 'hosts'}"
        return f"{text}, {granted} allowed" if granted else text

    @property
    def granted(self) -> tuple[Granted, ...]:
        """The permissions that were given for the session while it ran."""
        return tuple(self._wall.desk.granted)

    async def revoke(self, target: str) -> None:
        """Take back the permissions for a host, a path or a program, as `granted` names it.

        It applies immediately; open connections and files stay open. Raises `LocalProtocolError` if
        there is no such permission.
        """
        await self._wall.revoke(target)


class _PathGrant(Struct, frozen=True):
    """Access to a path that was given while the agent ran."""

    access: PathAccess
    protected: tuple[str, ...] = ()
    """Paths below it that stay read-only."""
    lasting: bool = True
    """True if it is for the session, so that later starts of the agent have it, too."""


class Wall:
    """The sandbox of a session. Created by `open_wall`."""

    def __init__(
        self,
        policy: Sandbox,
        agent: str,
        nursery: trio.Nursery,
        folder: str,
        folders: Sequence[str],
        programs: Collection[str] = (),
        listed: Collection[str] = (),
        widen: bool = True,
        tier: Tier = "bwrap",
    ) -> None:
        """`folders`: the session's working folder, then its roots. `widen`: False if people cannot
        give access to further files and to private networks."""
        self.policy = policy
        self.folder = folder
        """The private folder for agentrt's own sockets, which programs inside can reach."""
        self.desk = AccessDesk()
        self.gateway: Gateway = Gateway(policy, self.desk, listed, widen=widen)
        status = SandboxStatus.__new__(SandboxStatus)
        status.policy, status.tier, status._wall = policy, tier, self
        self.status: SandboxStatus = status
        self.tier = tier
        self.widens = widen and tier == "bwrap"
        self.proxy_port = PROXY_PORT
        """The port of the proxy, as programs inside see it."""
        self.ports: set[int] = set()
        """Ports of agentrt's own services on the loopback interface."""
        self._places = PLACES.get(agent, AgentPlaces())
        self._nursery = nursery
        self.cwd, *self._roots = folders
        self._real = {path: resolved(path) for path in (*folders, *policy.write, *policy.read)}
        self._programs = tuple(programs)
        self._view: SandboxView | None = None
        self._wanted: ViewRequest | None = None
        self._grants: dict[PathAccess, _PathGrant] = {}
        self._changing = trio.Lock()
        self._placeholders = Placeholders()
        self._entry: NamespaceEntry | None = None
        self._rules = -1
        """The rules of Landlock for the agent that runs."""
        confined = tier == "landlock"
        program = filter_program(platform.machine(), nested=policy.nested, only_tcp=confined)
        self._filter = _content_fd(program)

    @asynccontextmanager
    async def start(
        self, command: Sequence[str], env: Mapping[str, str], hidden: Sequence[str] = ()
    ) -> AsyncIterator[SandboxStart]:
        """Prepare a start of the agent; call `entered` when it runs.

        `hidden`: further files and folders that are empty inside. Leaving the block kills
        everything inside. Raises `SandboxUnavailable`.
        """
        hosts, ports = model_hosts(self._places, env)
        self.gateway.set_model_hosts(hosts)
        grants = [each.access for each in self._grants.values() if each.lasting]
        policy = structs.replace(
            self.policy,
            write=(*self.policy.write, *(each.path for each in grants if each.writing)),
            read=(*self.policy.read, *(each.path for each in grants if not each.writing)),
        )
        self._grants = {each: self._grants[each] for each in grants}
        wanted = ViewRequest(
            policy=policy,
            cwd=self.cwd,
            roots=self._roots,
            command=command,
            env=env,
            agent=self._places,
            folder=self.folder,
            programs=self._programs,
            hidden=hidden,
            places=self._real,
            placeholders=self._placeholders if self.tier == "bwrap" else None,
        )
        try:
            view = await trio.to_thread.run_sync(build_view, wanted)
        except OSError as error:
            raise SandboxUnavailable(f"the sandbox cannot be prepared: {error}") from error
        self._view, self._wanted = view, wanted
        # Without a network, a model on this machine is as far away as every other one.
        passed = set(self.policy.ports) | self.ports
        if self.policy.network != "none":
            passed |= set(ports)
        passed.discard(PROXY_PORT)
        if low := [port for port in passed if port < MIN_PORT]:
            raise SandboxUnavailable(
                f"the agent's model is at port {low[0]} of this machine, which is reserved for"
                f" root, so nothing can listen on it in the sandbox: use a port from {MIN_PORT}"
            )
        program = "" if self.tier == "landlock" else require_bwrap()
        entry = NamespaceEntry(command[0], partial(remedy_for, program=program))
        network = trio.CancelScope()
        fds: list[int] = []
        try:
            if self.tier == "landlock":
                around, listening = await self._confined(view, home_of(env), passed, fds), []
            else:
                around, listening = self._contained(program, view, fds), [PROXY_PORT, *passed]
            argv = (
                *around,
                _python(),
                "-I",
                "-S",
                *python_program(enter),
                str(entry.child_fd),
                ",".join(map(str, listening)),
                self.policy.limits.resource_limits,
                *command,
            )
            for fd in (*fds, self._filter):
                os.lseek(fd, 0, os.SEEK_SET)
            inherited = (entry.child_fd, *fds, self._filter)
            yield SandboxStart(argv, self.environment(env), entry, inherited, network)
        finally:
            network.cancel()
            if self._entry is entry:
                self._entry = None
                self._rules = -1
            entry.close()
            for fd in fds:
                os.close(fd)

    def entered(self, start: SandboxStart) -> None:
        """Serve the network of an agent that now runs, until its start's block is left."""
        self._entry = entry = start.entry
        sockets, entry.sockets = entry.sockets, []
        listeners = []
        for each in sockets:
            each.setblocking(False)
            listeners.append(trio.SocketListener(trio.socket.from_stdlib_socket(each)))
        self._nursery.start_soon(self._serve, listeners, start.network)

    async def _serve(
        self, listeners: Sequence[trio.SocketListener], scope: trio.CancelScope
    ) -> None:
        """Serve the sockets inside until the scope is cancelled, at the end of the start."""
        with scope:
            async with bare_errors(), trio.open_nursery() as nursery:
                for listener in listeners:
                    port = listener.socket.getsockname()[1]
                    if port == PROXY_PORT:
                        nursery.start_soon(serve_proxy, listener, self.gateway)
                    else:
                        nursery.start_soon(serve_port, listener, port)

    def join(self, command: Sequence[str], folder: str) -> JoinedCommand:
        """Return the command that runs a program inside, next to the agent.

        Raises `RequestError` while the agent does not run.
        """
        if self._entry is None or self._entry.pid is None:
            raise RequestError(INTERNAL_ERROR, "the sandbox does not run, as its agent has ended")
        limits, handle = self.policy.limits.resource_limits, self._entry.handle
        if self.tier == "landlock":
            argv = (*self._confine(self._rules, folder, limits), *command)
            return JoinedCommand(argv, (self._rules, self._filter))
        about = (str(self._entry.pid), str(handle), folder, limits, str(self._filter))
        argv = (_python(), "-I", "-S", *python_program(join), "run", *about, *command)
        return JoinedCommand(argv, (handle, self._filter))

    def environment(self, env: Mapping[str, str]) -> dict[str, str]:
        """Return the environment of programs inside: the proxy's address, and no address of a
        service that is not visible."""
        inside = {name: value for name, value in env.items() if name not in UNSET}
        for name in _PROXIES:
            inside[name] = inside[name.lower()] = f"http://127.0.0.1:{self.proxy_port}"
        inside["NO_PROXY"] = inside["no_proxy"] = _LOCAL
        inside["NODE_USE_ENV_PROXY"] = "1"
        java = inside.get("JAVA_TOOL_OPTIONS", "")
        inside["JAVA_TOOL_OPTIONS"] = f"{java} {_JAVA.format(port=self.proxy_port)}".strip()
        if self.tier == "landlock":
            private = self._private
            inside |= {"HOME": f"{private}/home", "TMPDIR": f"{private}/tmp"}
        return inside

    def hides(self, path: str) -> bool:
        """Return True if the policy hides this real path from programs inside."""
        return self._view is not None and is_below(path, self._view.hidden)

    def protects(self, path: str) -> bool:
        """Return True if programs inside cannot write this real path."""
        if self._view is not None and is_below(path, self._view.protected):
            return True
        if self._is_written(path):
            return False
        return any(
            is_below(path, [each.access.path] if not each.access.writing else each.protected)
            for each in self._grants.values()
        )

    def _is_written(self, path: str) -> bool:
        """Return True if a path is in a folder that programs inside can write."""
        written = [
            each.access.path
            for each in self._grants.values()
            if each.access.writing and not is_below(path, each.protected)
        ]
        return is_below(path, (*(self._view.written if self._view is not None else ()), *written))

    def asked_programs(self) -> dict[str, str]:
        """Return the names of the programs for which the sandbox asks, by their path."""
        return {} if self._view is None else self._view.asked

    # --- access that is given while the agent runs

    @property
    def granted_paths(self) -> list[str]:
        """The real paths to which access was given."""
        return [each.path for each in self._grants]

    async def admit(self, path: str, *, writing: bool, reason: str = "") -> str:
        """Wait until access to a path is given, if programs inside do not have it already.

        Returns the real path of the file or folder that can be used. Raises `AccessRefused`.
        """
        if self._wanted is None:
            raise AccessRefused("the sandbox does not run, as its agent has ended")
        try:
            find = partial(granted_place, self._wanted, path, writing=writing)
            place = await trio.to_thread.run_sync(find)
        except OSError as error:
            raise AccessRefused(f"{path!r:.500}: {error.strerror}") from error
        withheld = () if self._view is None else self._view.withheld
        if is_below(place, withheld) or (writing and self.protects_for_good(place)):
            raise AccessRefused(f"{place} is withheld from this session by its settings")
        if self._has(place, writing=writing):
            return place
        for path in withheld:
            if is_below(path, [place]):
                raise AccessRefused(f"{place} contains {path}, which is withheld from this session")
        if not self.widens:
            raise AccessRefused(f"{place} is outside the folders of this session")
        await self.desk.ask(PathAccess(place, writing), reason)
        return place

    def protects_for_good(self, path: str) -> bool:
        """Return True if no answer makes this real path writable: settings that run programs."""
        return (self._view is not None and is_below(path, self._view.protected)) or any(
            is_below(path, each.protected) for each in self._grants.values()
        )

    def _has(self, path: str, *, writing: bool) -> bool:
        """Return True if programs inside have this access to a real path already."""
        assert self._wanted is not None
        if self._is_written(path):
            return True
        if writing:
            return False
        shown = (*self.granted_paths, *map(resolved, self._wanted.policy.read))
        return is_below(path, shown) or not is_below(
            path, hidden_folders(home_of(self._wanted.env))
        )

    async def widen(self, access: PathAccess, *, lasting: bool) -> None:
        """Give programs inside access to a path, also those that run. `lasting`: for the session.

        Raises `AccessRefused` with the reason if that is impossible.
        """
        wanted = self._wanted
        assert wanted is not None
        async with self._changing:
            try:
                inner: list[tuple[str, str]] = []
                if access.writing:
                    find = partial(grant_mounts, wanted, access.path)
                    inner = await trio.to_thread.run_sync(find)
            except OSError as error:
                raise AccessRefused(f"{access.path}: {error.strerror}") from error
            mode = "rw" if access.writing else "ro"
            pairs = [(mode, access.path), *inner]
            await self._change("show", *(word for pair in pairs for word in pair))
            protected = tuple(path for each, path in inner if each == "ro")
            self._grants[access] = _PathGrant(access, protected, lasting)
        if lasting:
            self.desk.grant(access)

    async def narrow(self, access: PathAccess) -> None:
        """Take access to a path away again, if it was given while the agent ran.

        Raises `AccessRefused` if programs that run keep it until their end.
        """
        async with self._changing:
            if self._grants.pop(access, None) is None:
                return
            if self._view is not None and self._wanted is not None:  # a later start has shown it
                policy = self._wanted.policy
                self._view = structs.replace(
                    self._view, written=_without(self._view.written, access.path)
                )
                self._wanted = structs.replace(
                    self._wanted,
                    policy=structs.replace(policy, read=_without(policy.read, access.path)),
                )
            if self._entry is not None:
                await self._change("hide", access.path)

    async def revoke(self, target: str) -> None:
        """As `SandboxStatus.revoke`."""
        await trio.lowlevel.checkpoint()
        found = [each for each in self.desk.granted if each.target == target]
        if not found:
            known = ", ".join(each.target for each in self.desk.granted) or "none"
            raise LocalProtocolError(f"no permission is for {target!r:.200}; permissions: {known}")
        for each in found:
            self.desk.revoke(each)
            if each.tool in (READ, WRITE):
                try:
                    await self.narrow(PathAccess(each.target, each.tool == WRITE))
                except AccessRefused as error:
                    raise LocalProtocolError(
                        f"the agent keeps access to {target} until it is started again: {error}"
                    ) from error

    async def _change(self, *words: str) -> None:
        """Run `join.py` on the running sandbox. Raises `AccessRefused` if it fails."""
        entry = self._entry
        if entry is None or entry.pid is None:
            raise AccessRefused("the sandbox does not run, as its agent has ended")
        mode, *places = words
        argv = (_python(), "-I", "-S", *python_program(join), mode, str(entry.pid))
        try:
            done = await trio.run_process(
                [*argv, str(entry.handle), *places],
                capture_stderr=True,
                capture_stdout=True,
                check=False,
                env={},
                pass_fds=(entry.handle,),
            )
        except OSError as error:
            raise AccessRefused(f"the sandbox cannot be changed: {error.strerror}") from error
        if done.returncode:
            reason = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
            raise AccessRefused(
                f"{places[-1]} cannot be shown in the running sandbox ({reason:.300}); start the"
                " session again with it in `read` or `write` of the sandbox"
            )

    def close(self) -> None:
        """Close the wall's own descriptors, when nothing runs inside any more."""
        self._placeholders.close()
        os.close(self._filter)

    # --- parts of a start

    @property
    def _private(self) -> str:
        """The folder in place of the home folder and of `/tmp`, where there are no namespaces."""
        return os.path.join(self.folder, "private")

    def _confine(self, rules: int, folder: str, limits: str) -> tuple[str, ...]:
        """Return the beginning of a command that Landlock restricts."""
        about = (str(rules), str(self._filter), folder, limits)
        return (_python(), "-I", "-S", *python_program(join), "confine", *about)

    async def _confined(
        self, view: SandboxView, home: str, ports: Collection[int], fds: list[int]
    ) -> tuple[str, ...]:
        """Return the beginning of the agent's command, restricted by Landlock."""
        allowed = (*ports, self.proxy_port)

        def prepare() -> bytes:
            """Make the private folders anew, and return the rules. Runs in a thread."""
            shutil.rmtree(self._private, ignore_errors=True)
            os.makedirs(f"{self._private}/tmp", mode=0o700)
            make_home(view, home, f"{self._private}/home")
            return landlock_rules(view, self.folder, self._private, allowed)

        try:
            rules = await trio.to_thread.run_sync(prepare)
        except OSError as error:
            raise SandboxUnavailable(f"the sandbox cannot be prepared: {error}") from error
        fds.append(_content_fd(rules))
        self._rules = fds[-1]
        return self._confine(self._rules, "", "")

    def _contained(self, program: str, view: SandboxView, fds: list[int]) -> tuple[str, ...]:
        """Return the beginning of the agent's command, in namespaces of bubblewrap."""
        fds += map(_content_fd, view.contents)
        arguments = self._arguments(view, fds)
        fds.append(_content_fd("".join(f"{each}\0" for each in arguments).encode()))
        return (program, "--args", str(fds[-1]), "--")

    def _arguments(self, view: SandboxView, fds: Sequence[int]) -> list[str]:
        """Return the arguments of bubblewrap.

        `fds`: descriptors of the contents of the view, in order.

        The arguments name contents by number until here, because the descriptors are opened only
        for a start.
        """
        stands_for = {content(number): str(fd) for number, fd in enumerate(fds)}
        arguments = ["--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts"]
        arguments += ["--unshare-net", "--unshare-cgroup-try"]
        arguments += ["--cap-drop", "ALL", "--hostname", "sandbox"]
        if not self.policy.nested:
            arguments.append("--disable-userns")
        arguments += ["--seccomp", str(self._filter)]
        arguments += [stands_for.get(each, each) for each in view.arguments]
        return [*arguments, "--chdir", os.path.realpath(self.cwd)]


@asynccontextmanager
async def open_wall(
    policy: Sandbox,
    agent: str,
    *,
    cwd: str,
    roots: Sequence[str] = (),
    programs: Collection[str] = (),
    listed: Collection[str] = (),
    widen: bool = True,
) -> AsyncIterator[Wall]:
    """Open the sandbox of a session.

    `agent`: the name in the catalogue, for its state and its model's hosts. `programs`: further
    programs that cannot be run. `listed`: further hosts that are allowed. `widen`: False if people
    cannot give access to further files and to private networks.

    Raises `SandboxUnavailable` if this machine cannot build sandboxes.
    """
    tier = await _available_tier(policy)
    async with guard() as run:
        try:
            folder = str(private_folder(run))
        except OSError as error:
            raise SandboxUnavailable(f"the sandbox has no folder for sockets: {error}") from error
        try:
            async with bare_errors(), trio.open_nursery() as nursery:
                about = (cwd, *roots)
                wall = Wall(policy, agent, nursery, folder, about, programs, listed, widen, tier)
                with contextlib.closing(wall):
                    if tier == "landlock":
                        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
                        wall.proxy_port = listener.socket.getsockname()[1]
                        nursery.start_soon(partial(serve_proxy, listener, wall.gateway, own=True))
                    if "ask" in policy.program_rules.values():
                        nursery.start_soon(serve_programs, folder, wall.desk, wall.asked_programs)
                    yield wall
                nursery.cancel_scope.cancel()
        finally:
            shutil.rmtree(folder, ignore_errors=True)


async def _available_tier(policy: Sandbox) -> Tier:
    """Return the mechanism for a policy. Raises `SandboxUnavailable`."""
    if policy.needs == "bwrap":
        require_bwrap()
        await trio.lowlevel.checkpoint()
        return "bwrap"
    problem = await trio.to_thread.run_sync(bwrap_problem)
    if problem:
        require_landlock(policy, problem)
    return "landlock" if problem else "bwrap"


def _python() -> str:
    """Return the interpreter for the helper programs; `sys.executable` can be empty."""
    return sys.executable or "python3"


def _without(paths: Sequence[str], path: str) -> tuple[str, ...]:
    """Return the paths except one."""
    return tuple(each for each in paths if each != path)


def _content_fd(data: bytes) -> int:
    """Return a descriptor of a file in memory, positioned at its beginning."""
    if sys.platform != "linux":
        raise SandboxUnavailable(NEEDS_LINUX)
    fd = os.memfd_create("agentrt", os.MFD_CLOEXEC)
    with open(fd, "wb", closefd=False) as file:
        file.write(data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd
