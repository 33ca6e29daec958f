"""Agents: a program, its protocol, and its differences from other agents; and functions of the
whole process that another function can replace for a while.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from ..model.driver import Driver, NewKey

if TYPE_CHECKING:
    from ..claude.options import ClaudeOptions

ProtocolName: TypeAlias = Literal["acp", "claude", "codex"]
"""A protocol that agents speak."""


class Quirks(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Differences of an agent from others that affect the runtime."""

    startup_timeout_s: float | None = None
    """Seconds for the handshake, replaces `Limits.startup_timeout_s`."""
    stdin_close_grace_s: float | None = None
    """Seconds to wait for the exit after stdin was closed, replaces
    `Limits.stdin_close_grace_s`.
    """
    cancel_grace_s: float | None = None
    """Seconds for the end of a cancelled turn, replaces `Limits.cancel_grace_s`."""
    eof_exits: bool = True
    """False if the agent keeps running when its stdin is closed, so that only a signal ends it."""
    resend_cancel: bool = False
    """True if it loses a cancel that immediately follows the prompt; a second one may work."""
    auth_method: str | None = None
    """Id of a login method that needs no user, for an agent that requires a login.

    Without it the start fails, and the error names the available methods.
    """
    mode: str | None = None
    """The mode to start in, for an agent whose default mode never asks for permission."""
    unasked_modes: tuple[str, ...] = ()
    """Modes in which it acts without asking, so that permission rules have no effect."""
    unasked: str = ""
    """Actions that it takes without asking in every mode, as text for users."""
    option_modes: dict[str, str] = {}
    """Modes to which its permission options switch, by option id; `KIND:ID` for requests of one
    kind.
    """
    claude_rules: bool = False
    """True if it takes Claude Code's deny rules, as `_meta.claudeCode.options.disallowedTools`."""
    option_scopes: dict[str, str] = {}
    """Effect and scope of permission options whose names do not tell them, by option id.

    They are added to the names.
    """
    command_shown: Literal["title", "text"] | None = None
    """The field that shows the command of a permission request without input.

    Rules that deny read the command there.
    """
    late_history: bool = False
    """True if it still repeats a conversation after the answer that reports it as loaded."""
    fork_at: bool = False
    """True if it accepts the end of a fork, as `_meta.jetbrains.air.fork` of `session/fork`."""
    kinds_hold: bool = False
    """True if its program, not its model, sets the kind of a request.

    A rule that denies commands then does not apply to an edit.
    """


class Agent(Struct, frozen=True, kw_only=True):
    """A program that speaks one of the three protocols on its standard streams."""

    name: str
    """Name of the agent, as in the catalogue and in configuration files."""
    command: tuple[str, ...]
    """The program and its arguments."""
    title: str = ""
    """Name for users."""
    protocol: ProtocolName | Literal["own"] = "acp"
    """The protocol that it speaks; `own` for the one of its `driver`."""
    aliases: tuple[str, ...] = ()
    """Other common names of the agent."""
    alternatives: tuple[tuple[str, ...], ...] = ()
    """Other commands that start the same agent, tried when the program of `command` is missing."""
    installed_as: str | None = None
    """Regular expression for the program's real path, where two agents share a name."""
    env: dict[str, str] = {}
    """Variables added to the environment."""
    unset_env: tuple[str, ...] = ()
    """Variables removed from the environment."""
    terminal_env: tuple[str, ...] = ()
    """Names of further variables that an ACP agent may set for programs in host-provided terminals.

    `*` stands for any characters. A few harmless variables (`LANG`, `TERM`, `CI`, …) are always
    accepted; others are dropped, because they could turn an allowed command into a different one.
    """
    install: str = ""
    """Installation instructions."""
    docs: str = ""
    """Address of its documentation."""
    note: str = ""
    """Note for users to read before using the agent."""
    version_args: tuple[str, ...] = ("--version",)
    """Arguments that make its program print its version; empty if there are none."""
    quirks: Quirks = Quirks()
    """Its differences from other agents."""
    tools: dict[str, str] = {}
    """The agent's tool names, mapped to the names in permission rules (`Bash`, `Edit`, `Write`,
    `Read`, `Fetch`).
    """
    connect: Callable[[], AbstractAsyncContextManager[object]] | None = None
    """Function that connects to an agent that is not a program on this machine (see
    `agentrt.agents.connect`).
    """
    claude: ClaudeOptions | None = None
    """Options for Claude Code; only for the protocol `claude`."""
    driver: Callable[[NewKey], Driver] | None = None
    """Function that makes the driver of one process; only for the protocol `own`."""
    acp_version: Literal[1, 2] = 1
    """The highest version of ACP to ask for; only for the protocol `acp`.

    Version 2 is a draft. An agent that does not speak it is used with version 1. In version 2 the
    agent uses its own files and terminals, not those that agentrt provides.
    """
    project_files: tuple[str, ...] | None = None
    """Files and folders of a project that an agent outside of the catalogue acts on without asking,
    such as settings that name programs or the address of its model, relative to the project.

    None: they are not known. It is then not started in an untrusted folder with a file that any
    agent of the catalogue acts on. Empty: it acts on none. Has no effect with `connect`, because
    the folder is on the agent's machine.
    """

    def __post_init__(self) -> None:
        """Raise `ValueError` if a path in `project_files` could lead out of the project, or a name
        cannot be stored.
        """
        for name in (self.name, self.title):
            try:
                name.encode()
            except UnicodeEncodeError:
                raise ValueError(f"an agent's name contains half a character: {name!r}") from None
        for path in self.project_files or ():
            if not path or path.startswith(("/", "~")) or ".." in path.split("/"):
                raise ValueError(f"project_files: {path!r} is not a path inside a project")


class AgentInfo(Struct, frozen=True, kw_only=True):
    """An agent for which sessions can be opened. `available`: its program is installed."""

    name: str
    """Name of the agent, for `Runtime.create`."""
    title: str = ""
    """Name for users."""
    available: bool = True
    unasked_modes: tuple[str, ...] = ()
    """Modes in which the agent does not ask for every permission; `*` stands for all modes."""
    install: str = ""
    """A command that installs it, or other instructions; empty for agents outside the catalogue."""


def acp(
    command: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    name: str | None = None,
    title: str = "",
    env: Mapping[str, str] | None = None,
    unset_env: Sequence[str] = (),
    terminal_env: Sequence[str] = (),
    quirks: Quirks | None = None,
    version: Literal[1, 2] = 1,
    project_files: Sequence[str] | None = None,
) -> Agent:
    """Return an agent that speaks ACP.

    - `command`: a list of words, or one string in shell syntax.
    - `name`: name of the agent; default: the name of its program.
    - `version`: the highest version of ACP to ask for, see `Agent.acp_version`.
    - The others are as in `Agent`.

    Raises `ValueError` for an empty command, one that cannot be parsed, or another version.
    """
    if version not in (1, 2):
        raise ValueError(f"version must be 1 or 2, got {version!r}")
    words = _words(command)
    return Agent(
        name=name or os.path.basename(words[0]),
        title=title,
        command=words,
        env=dict(env or {}),
        unset_env=tuple(unset_env),
        terminal_env=tuple(terminal_env),
        quirks=quirks or Quirks(),
        acp_version=version,
        project_files=None if project_files is None else tuple(project_files),
    )


def own(
    command: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    driver: Callable[[NewKey], Driver],
    *,
    name: str | None = None,
    title: str = "",
    env: Mapping[str, str] | None = None,
    unset_env: Sequence[str] = (),
    quirks: Quirks | None = None,
    project_files: Sequence[str] | None = None,
) -> Agent:
    """Return an agent that speaks a protocol of your own.

    - `command`: a list of words, or one string in shell syntax.
    - `driver`: is called for each process with a function that makes keys, and returns its driver.
    - `name`: name of the agent; default: the name of its program.
    - The others are as in `Agent`.

    Raises `ValueError` for an empty command, or one that cannot be parsed.
    """
    agent = acp(
        command,
        name=name,
        title=title,
        env=env,
        unset_env=unset_env,
        quirks=quirks,
        project_files=project_files,
    )
    return msgspec.structs.replace(agent, protocol="own", driver=driver)


def claude(
    command: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = "claude",
    *,
    name: str = "claude",
    env: Mapping[str, str] | None = None,
    **options: Any,
) -> Agent:
    """Return Claude Code with these options, which are the fields of `ClaudeOptions`.

    Raises `ValueError` for an unknown option or a wrong value.
    """
    wanted = _claude_options(options) if options else None
    return Agent(
        name=name,
        title="Claude Code",
        protocol="claude",
        command=_words(command),
        env=dict(env or {}),
        claude=wanted,
    )


def _claude_options(given: dict[str, Any]) -> ClaudeOptions:
    """Return the options. Raises `ValueError` for an unknown one or a wrong value.

    The import is made here, because most programs use agents of the catalogue.
    """
    from ..claude.options import ClaudeOptions, check_values

    try:
        wanted = msgspec.convert(given, ClaudeOptions)
    except msgspec.ValidationError as error:
        raise ValueError(f"not an option of Claude Code: {error}") from error
    check_values(wanted)
    return wanted


def _words(command: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> tuple[str, ...]:
    """Return the words of a command. Raises `TypeError` or `ValueError`.

    A string is split as a shell does it, but no shell runs: variables and globs are not expanded. A
    path is one word, even with spaces in it.
    """
    if isinstance(command, str):
        try:
            words = tuple(shlex.split(command))
        except ValueError as error:
            raise ValueError(f"an agent's command {command!r} cannot be read: {error}") from error
    elif isinstance(command, os.PathLike):
        words = (os.fspath(command),)
    elif isinstance(command, Sequence) and all(isinstance(w, str | os.PathLike) for w in command):
        words = tuple(os.fspath(word) for word in command)
    else:
        raise TypeError(
            f"an agent's command must be a string or a list of words, not {command!r:.100}"
        )
    if not words or not words[0]:
        raise ValueError("an agent's command is empty")
    return words


F = TypeVar("F")


class Replaceable(Generic[F]):
    """A collaborator that all sessions of a process share.

    Sessions are opened deep inside a program, so it cannot be passed as an argument. Users call
    `current` each time and do not keep it.
    """

    def __init__(self, usual: F) -> None:
        """`usual`: the collaborator outside of all blocks."""
        self.current = usual
        """The collaborator in use."""

    @contextmanager
    def replaced(self, by: F) -> Iterator[None]:
        """Use another collaborator while the block runs, in all threads. Blocks can be nested."""
        before, self.current = self.current, by
        try:
            yield
        finally:
            self.current = before
