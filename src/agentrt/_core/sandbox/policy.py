"""The settings of a sandbox: a policy, presets, and the comparison of two policies.

A policy can come from several places: the user's configuration, a program, the store, a client of a
server. Where one of them must not widen the other, they are combined by `narrowed`, which permits
only what both permit. `check_narrower` and `client_sandbox` raise an error instead: the client then
learns that its settings do not apply as they are.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from pathlib import PurePosixPath
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Struct, structs

from ..errors import LocalProtocolError
from .hosts import HostPattern

Network: TypeAlias = Literal["none", "model", "all"]
"""The network of a sandbox by name. Otherwise it is a list of hosts."""

ProgramRule: TypeAlias = Literal["deny", "ask"]
"""The rule for a program: it cannot be run, or each start is a permission request."""

Tier: TypeAlias = Literal["bwrap", "landlock"]
"""The mechanism of a sandbox: bubblewrap, or the weaker Landlock."""

MAX_PORTS: Final = 32
MAX_ENTRIES: Final = 500
"""Entries of each list in a client's message or a file: lists are compared with each other."""
MAX_ENTRY_CHARS: Final = 4096
"""Characters of an entry: no path is longer, and resolving one takes the square of its length."""
MAX_LIST_CHARS: Final = 64 * 1024
"""Characters of such a list in total."""
MAX_DEPTH_SIGNS: Final = 2
"""Signs `**` in a pattern of `Sandbox.hide`: each multiplies the folders to look through."""
MAX_DEEP_PATTERNS: Final = 20
"""Such patterns in a client's message or a file: each is looked for in all folders below."""
MIN_PORT: Final = 1024
_PROGRAM: Final = re.compile(r"[\w.+-]+")


class SandboxLimits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits on the resources of the programs in a sandbox. None: no limit."""

    processes: int | None = None
    """Number of processes and threads. Has no effect if agentrt runs as root."""
    memory_bytes: int | None = None
    """Memory of each process that it may write to."""
    tmp_bytes: int | None = None
    """Size of `/tmp`, and of each other folder that is private to the sandbox."""

    def __post_init__(self) -> None:
        """Raise `ValueError` for a limit that is not a positive whole number."""
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or value <= 0):
                raise ValueError(f"SandboxLimits.{name} must be a positive number, not {value!r}")

    @property
    def resource_limits(self) -> str:
        """The limits for `enter.py`."""
        given = {"NPROC": self.processes, "DATA": self.memory_bytes}
        return ",".join(f"{name}={value}" for name, value in given.items() if value is not None)


def _rules(given: Any) -> dict[str, ProgramRule]:
    """Return the rules for programs; a list of names denies them.

    Raises `TypeError` or `ValueError`.
    """
    if not isinstance(given, Mapping):
        given = dict.fromkeys(_texts("programs", given), "deny")
    for name, rule in given.items():
        if not isinstance(name, str) or not _PROGRAM.fullmatch(name):
            raise ValueError(f"Sandbox.programs: {name!r} is not the name of a program")
        if rule not in ("deny", "ask"):
            raise ValueError(f"Sandbox.programs: {name!r} must be 'deny' or 'ask', not {rule!r}")
    return dict(given)


def _texts(name: str, given: Any) -> tuple[str, ...]:
    """Return a list of texts or paths as a tuple. Raises `TypeError` or `ValueError`.

    A single string is refused: Python would take it for a list of its characters.
    """
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise TypeError(f"Sandbox.{name} must be a list: give [{given!r}]")
    found = tuple(os.fspath(each) for each in given)
    for each in found:
        if not isinstance(each, str) or not each or "\0" in each:
            raise ValueError(f"Sandbox.{name}: {each!r} is not a usable text")
    return found


def _check_hidden(path: str) -> None:
    """Check an entry of `Sandbox.hide`. Raises `ValueError`."""
    if path.startswith(("/", "~")) or ".." in path.split("/"):
        raise ValueError(f"Sandbox.hide: {path!r} must be a path inside the session's folders")
    if path.split("/").count("**") > MAX_DEPTH_SIGNS:
        raise ValueError(
            f"Sandbox.hide: {path!r} has more than {MAX_DEPTH_SIGNS} '**'; each one multiplies the"
            " folders to look through"
        )


class Sandbox(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The files, the network and the programs that an agent can use.

    The agent and everything that it starts see a read-only system. They can write only to the
    session's folders, the agent's own state, `/tmp`, and `write`. The rest of the home folder and
    other users' files are not visible. `~` stands for the home folder.
    """

    write: tuple[str, ...] = ()
    """Further folders and files that can be written."""
    read: tuple[str, ...] = ()
    """Further folders and files that can be read, such as a toolchain in the home folder."""
    hide: tuple[str, ...] = ()
    """Files and folders inside the session's folders that are not visible, relative to each.

    Patterns as in `Path.glob`, with at most two `**`.
    """
    network: Network | tuple[str, ...] = "model"
    """The hosts that can be reached.

    `"none"`: none. `"model"`: those of the agent's model. `"all"`: all public hosts. Otherwise a
    list of hosts in addition to the model's: `"api.github.com"`, `"*.pypi.org:443"`.
    """
    private_hosts: bool = True
    """False if the hosts that `network` lists must not be in a private network."""
    ports: tuple[int, ...] = ()
    """TCP ports of this machine's loopback interface that can be reached, from 1024."""
    programs: dict[str, ProgramRule] | tuple[str, ...] = {}
    """Rules for programs, by name: `{"rm": "deny", "git": "ask"}`. A list of names denies them."""
    limits: SandboxLimits = SandboxLimits()
    """Limits on processes, memory and temporary files."""
    nested: bool = False
    """True if programs may build sandboxes of their own, such as that of a browser.

    Has no effect if agentrt runs as root.
    """
    needs: Tier = "bwrap"
    """The weakest mechanism that is accepted. `"landlock"`: where bubblewrap does not work, use
    Landlock, which protects less."""

    def __post_init__(self) -> None:
        """Check the settings and bring them into one form: tuples, and rules by name.

        Raises `TypeError` or `ValueError`.
        """
        for name in ("write", "read", "hide"):
            structs.force_setattr(self, name, _texts(name, getattr(self, name)))
        if not isinstance(self.network, str):
            structs.force_setattr(self, "network", _texts("network", self.network))
            for each in self.network:
                HostPattern(each)
        elif self.network not in ("none", "model", "all"):
            raise ValueError(
                "Sandbox.network must be 'none', 'model', 'all' or a list of hosts, not"
                f" {self.network!r}"
            )
        structs.force_setattr(self, "ports", tuple(self.ports))
        for port in self.ports:
            if not isinstance(port, int) or not 0 < port < 65536:
                raise ValueError(f"Sandbox.ports: {port!r} is not a port number")
            if port < MIN_PORT:
                raise ValueError(
                    f"Sandbox.ports: port {port} is reserved for root, so nothing can listen on it"
                    f" in the sandbox: let the service listen on a port from {MIN_PORT}"
                )
        if len(self.ports) > MAX_PORTS:
            raise ValueError(f"Sandbox.ports: at most {MAX_PORTS} ports can be passed in")
        for path in self.hide:
            _check_hidden(path)
        structs.force_setattr(self, "programs", _rules(self.programs))
        if not isinstance(self.limits, SandboxLimits):
            raise TypeError("Sandbox.limits must be a SandboxLimits instance")
        if self.needs not in ("bwrap", "landlock"):
            raise ValueError(f"Sandbox.needs must be 'bwrap' or 'landlock', not {self.needs!r}")

    @property
    def program_rules(self) -> dict[str, ProgramRule]:
        """The rules for programs, by name."""
        return self.programs if isinstance(self.programs, dict) else {}

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts that are listed."""
        return () if isinstance(self.network, str) else self.network


PRESETS: Final[dict[str, Sandbox]] = {
    "workspace": Sandbox(),
    "offline": Sandbox(network="none"),
    "open-network": Sandbox(network="all"),
}
"""The sandboxes that have names."""

SandboxLike: TypeAlias = Sandbox | str | None
"""A sandbox, the name of a preset, or None for no sandbox."""


def as_sandbox(given: SandboxLike) -> Sandbox | None:
    """Return the sandbox that an argument means. Raises `ValueError` or `TypeError`."""
    if given is None or isinstance(given, Sandbox):
        return given
    if not isinstance(given, str):
        raise TypeError(
            f"sandbox must be a Sandbox, the name of a preset or None, not {type(given).__name__}"
        )
    if given not in PRESETS:
        names = ", ".join(map(repr, PRESETS))
        raise ValueError(f"there is no sandbox preset {given!r}; presets: {names}")
    return PRESETS[given]


def _check_sizes(fields: Mapping[str, Any]) -> None:
    """Check the sizes of the lists in a client's message or a file. Raises `ValueError`."""
    for name, value in fields.items():
        if isinstance(value, Sized) and not isinstance(value, str) and len(value) > MAX_ENTRIES:
            raise ValueError(f"{name}: at most {MAX_ENTRIES} entries, not {len(value)}")
        if isinstance(value, list):
            sizes = [len(each) for each in value if isinstance(each, str)]
            if max(sizes, default=0) > MAX_ENTRY_CHARS or sum(sizes) > MAX_LIST_CHARS:
                raise ValueError(
                    f"{name}: at most {MAX_ENTRY_CHARS} characters in an entry, and"
                    f" {MAX_LIST_CHARS} in all of them"
                )
    hidden = fields.get("hide")
    if isinstance(hidden, list) and sum("**" in str(each) for each in hidden) > MAX_DEEP_PATTERNS:
        raise ValueError(f"hide: at most {MAX_DEEP_PATTERNS} patterns with '**'")


def sandbox_from(table: Mapping[str, Any]) -> Sandbox | None:
    """Return the sandbox of a table in a configuration file or a client's message.

    `mode` names a preset, or is `"off"`; the other entries are the fields of `Sandbox`, which
    replace those of the preset. Raises `ValueError`.
    """
    fields = dict(table)
    mode = fields.pop("mode", "workspace")
    if mode == "off":
        if fields:
            raise ValueError('mode = "off" leaves no sandbox to which other settings could apply')
        return None
    if not isinstance(mode, str):
        raise ValueError("mode must be the name of a preset")
    _check_sizes(fields)
    base = as_sandbox(mode)
    assert base is not None
    try:
        given = msgspec.convert(fields, Sandbox)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None
    return structs.replace(base, **{name: getattr(given, name) for name in fields})


def narrowed(outer: Sandbox | None, inner: Sandbox | None) -> Sandbox | None:
    """Return a sandbox that permits only what both permit. None permits everything."""
    if outer is None or inner is None:
        return outer or inner
    places = _RealPaths()
    write = places.common(outer.write, inner.write)
    visible, wanted = (*outer.write, *outer.read), (*inner.write, *inner.read)
    seen = places.below(inner.read, visible)
    more = places.outside(places.common(visible, wanted), (*seen, *write))
    return Sandbox(
        write=write,
        read=(*seen, *more),
        hide=_union(outer.hide, inner.hide),
        network=_common_network(outer, inner),
        private_hosts=_common_private(outer, inner),
        ports=tuple(port for port in inner.ports if port in outer.ports),
        programs=_stricter(outer.program_rules, inner.program_rules),
        limits=SandboxLimits(
            **{
                name: _least(getattr(outer.limits, name), getattr(inner.limits, name))
                for name in SandboxLimits.__struct_fields__
            }
        ),
        nested=outer.nested and inner.nested,
        needs="landlock" if outer.needs == inner.needs == "landlock" else "bwrap",
    )


def check_narrower(outer: Sandbox, inner: Sandbox | None) -> Sandbox:
    """Return `inner` if it permits nothing that `outer` does not.

    Raises `LocalProtocolError` if it permits more, and names the setting.
    """
    if inner is None:
        raise LocalProtocolError("the sandbox is required here and cannot be switched off")
    common = narrowed(outer, inner)
    assert common is not None
    for name in Sandbox.__struct_fields__:
        if _meaning(getattr(common, name)) != _meaning(getattr(inner, name)):
            raise LocalProtocolError(
                f"the sandbox may only be narrowed here, and its {name!r} permits more than"
                f" {getattr(outer, name)!r}"
            )
    return inner


def overlaid(outer: Sandbox | None, settings: Mapping[str, Any]) -> Sandbox | None:
    """Return a sandbox with these settings, and those of `outer` that they do not name.

    Raises `ValueError` or `TypeError`.
    """
    given = sandbox_from(settings)
    if outer is None or given is None:
        return given
    names = settings.keys() - {"mode"} | ({"network"} if "mode" in settings else set())
    return structs.replace(outer, **{name: getattr(given, name) for name in names})


def client_sandbox(outer: Sandbox | None, settings: Mapping[str, Any]) -> Sandbox | None:
    """Return a sandbox with settings of a client, which may only narrow `outer`.

    Raises `LocalProtocolError` for settings that are wrong or permit more.
    """
    try:
        inner = overlaid(outer, settings)
    except (ValueError, TypeError) as error:
        raise LocalProtocolError(f"sandbox: {error}") from error
    if outer is None or inner is None:
        return inner if outer is None else check_narrower(outer, None)
    common = narrowed(outer, inner)
    assert common is not None
    names = {"hide", "programs", "limits"} | ({"private_hosts"} - settings.keys())
    added = {name: getattr(common, name) for name in names}
    return check_narrower(outer, structs.replace(inner, **added))


def _meaning(value: object) -> object:
    """Return a setting for a comparison: the order of a list has no meaning."""
    return frozenset(value) if isinstance(value, tuple) else value


def _union(first: Iterable[str], second: Iterable[str]) -> tuple[str, ...]:
    """Return the texts of both lists, each once."""
    return tuple(dict.fromkeys((*first, *second)))


def _stricter(
    first: Mapping[str, ProgramRule], second: Mapping[str, ProgramRule]
) -> dict[str, ProgramRule]:
    """Return the rules of both; of two rules for one program, `deny` applies."""
    denied = [name for rules in (first, second) for name in rules if rules[name] == "deny"]
    return {**first, **second, **dict.fromkeys(denied, "deny")}


def _least(first: int | None, second: int | None) -> int | None:
    """Return the smaller limit; None stands for no limit."""
    given = [each for each in (first, second) if each is not None]
    return min(given) if given else None


class _RealPaths:
    """Compares paths by their real forms. Each is looked up once."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def common(self, first: Sequence[str], second: Sequence[str]) -> tuple[str, ...]:
        """Return the paths at or below one of each list, as far as others do not cover them.

        Those of the second list are kept as they are.
        """
        kept = self.below(second, first)
        return _union(kept, self.outside(self.below(first, second), kept))

    def below(self, paths: Iterable[str], folders: Iterable[str]) -> list[str]:
        """Return the paths that are one of the folders, or in one."""
        roots = set(map(self._real, folders))
        return [path for path in paths if not roots.isdisjoint(self._and_parents(path))]

    def outside(self, paths: Sequence[str], folders: Iterable[str]) -> list[str]:
        """Return the other paths."""
        inside = set(self.below(paths, folders))
        return [path for path in paths if path not in inside]

    def _and_parents(self, path: str) -> Iterator[str]:
        """Return the real path and the folders above it."""
        real = PurePosixPath(self._real(path))
        return map(str, (real, *real.parents))

    def _real(self, path: str) -> str:
        """Return the real path. `~` is the home folder."""
        if path not in self._known:
            self._known[path] = resolved(path)
        return self._known[path]


def _common_network(outer: Sandbox, inner: Sandbox) -> Network | tuple[str, ...]:
    """Return the hosts that both permit. The inner policy's own entries keep their form and order.

    A list permits the hosts of the model as well, so a list and `model` have `model` in common.
    """
    order = ("none", "model", "all")
    first, second = outer.network, inner.network
    if isinstance(first, str) and isinstance(second, str):
        return first if order.index(first) < order.index(second) else second
    if isinstance(first, str):
        return second if first == "all" else first
    if isinstance(second, str):
        return first if second == "all" else second
    ours, theirs = ([HostPattern(each) for each in hosts] for hosts in (first, second))
    common = [each for one in theirs for other in ours if (each := other.common(one)) is not None]
    found = dict.fromkeys(common)
    kept = [each for each in second if each in found]
    more = [each for each in found if each not in kept and not _is_covered(each, kept)]
    return (*kept, *more)


def _common_private(outer: Sandbox, inner: Sandbox) -> bool:
    """Return `private_hosts` for both: `"all"` permits public hosts only, also if one is listed."""
    one_lists = isinstance(outer.network, str) != isinstance(inner.network, str)
    if one_lists and "all" in (outer.network, inner.network):
        return False
    return outer.private_hosts and inner.private_hosts


def _is_covered(host: str, hosts: Iterable[str]) -> bool:
    """Return True if one of the patterns names all that this one names."""
    return any(HostPattern(each).covers(HostPattern(host)) for each in hosts)


def resolved(path: str) -> str:
    """Return the real, absolute form of a path of a policy."""
    return os.path.realpath(os.path.expanduser(path))
