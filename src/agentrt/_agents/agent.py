"""What an agent is: a program, its protocol, and where it differs from others."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from .._claude.options import ClaudeOptions, check_values

ProtocolName: TypeAlias = Literal["acp", "claude", "codex"]


class Quirks(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where an agent differs from others, as far as the runtime has to know."""

    handshake: float | None = None
    """Seconds for the handshake, in the place of `Limits.handshake`."""
    stdin_close: float | None = None
    """Seconds to wait for the exit after stdin was closed, in the place of `Limits.stdin_close`."""
    cancel_grace: float | None = None
    """Seconds for the end of a cancelled turn, in the place of `Limits.cancel_grace`."""
    eof_exits: bool = True
    """False: it goes on when its stdin is closed, so that only a signal ends it."""
    resend_cancel: bool = False
    """It loses a cancel that comes right behind the prompt; a second one may work."""
    auth_method: str | None = None
    """The id of the method by which to log in where the agent wants that, if it has one that needs
    nobody. Without it the start fails, and the error names the methods that there are."""
    mode: str | None = None
    """The mode to start in, where the agent's own default never asks for permission."""
    unasked_modes: tuple[str, ...] = ()
    """The modes in which it does things without asking, so that no permission rule holds."""
    unasked: str = ""
    """What it does without asking in every mode, for people to read."""
    option_modes: dict[str, str] = {}
    """The modes that its permission options switch to, by the options' ids; `KIND:ID` for requests
    of one kind only."""
    claude_rules: bool = False
    """It takes Claude Code's own deny rules, as `_meta.claudeCode.options.disallowedTools`."""
    option_scopes: dict[str, str] = {}
    """The effect and scope of its permission options, by their ids, where their names do not say
    it: they are added to the names."""
    command_shown: Literal["title", "text"] | None = None
    """Where its program shows the command of a permission request that has no input. Rules that
    deny read it there."""
    late_history: bool = False
    """It goes on repeating a conversation behind the answer that says that it is loaded."""
    fork_at: bool = False
    """It takes where a fork is to end, as `_meta.jetbrains.air.fork` of `session/fork`."""
    kinds_hold: bool = False
    """Its program, and not its model, says of what kind a request is. A rule that denies commands
    is not about what it calls an edit."""


class Agent(Struct, frozen=True, kw_only=True):
    """A program that speaks one of the three protocols on its standard streams."""

    name: str
    command: tuple[str, ...]
    title: str = ""
    protocol: ProtocolName = "acp"
    aliases: tuple[str, ...] = ()
    """Other names that people know it by."""
    alternatives: tuple[tuple[str, ...], ...] = ()
    """Other commands that start the same agent, tried when the program of `command` is missing."""
    installed_as: str | None = None
    """A regular expression over the program's real path, where two agents share a name."""
    env: dict[str, str] = {}
    """Added to the environment."""
    unset_env: tuple[str, ...] = ()
    """Removed from it."""
    terminal_env: tuple[str, ...] = ()
    """Names of further variables, with `*` for any characters, that an ACP agent may set for the
    programs that it runs in terminals of ours. A few harmless ones (`LANG`, `TERM`, `CI`, …) it may
    set anyway; others are left out, because they could make an allowed command something else."""
    install: str = ""
    """How to get it."""
    docs: str = ""
    note: str = ""
    """What one should know before using it."""
    version_args: tuple[str, ...] = ("--version",)
    """What makes its program print its version; empty if nothing does."""
    quirks: Quirks = Quirks()
    tools: dict[str, str] = {}
    """What it calls its tools, and what permission rules call them (`Bash`, `Edit`, `Write`,
    `Read`, `Fetch`)."""
    connect: Callable[[], AbstractAsyncContextManager[object]] | None = None
    """How to reach it, where it is no program of this machine's (see `agentrt.connect`)."""
    claude: ClaudeOptions | None = None
    """How Claude Code is to run; only for the protocol `claude`."""


def acp(
    command: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    name: str | None = None,
    title: str = "",
    env: Mapping[str, str] | None = None,
    unset_env: Sequence[str] = (),
    terminal_env: Sequence[str] = (),
    quirks: Quirks | None = None,
) -> Agent:
    """An agent that speaks ACP. `command`: its words, or one string in the shell's notation;
    `name`: what to call it, by default its program's name; the others as in `Agent`. Raises
    ValueError for an empty command."""
    words = _words(command)
    return Agent(
        name=name or os.path.basename(words[0]),
        title=title,
        command=words,
        env=dict(env or {}),
        unset_env=tuple(unset_env),
        terminal_env=tuple(terminal_env),
        quirks=quirks or Quirks(),
    )


def claude(
    command: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = "claude",
    *,
    name: str = "claude",
    env: Mapping[str, str] | None = None,
    **options: Any,
) -> Agent:
    """Claude Code with some options, which are the fields of `ClaudeOptions`. ValueError names what
    is not one of them, or has a wrong value."""
    try:
        wanted = msgspec.convert(options, ClaudeOptions)
    except msgspec.ValidationError as error:
        raise ValueError(f"not an option of Claude Code: {error}") from error
    check_values(wanted)
    return Agent(
        name=name,
        title="Claude Code",
        protocol="claude",
        command=_words(command),
        env=dict(env or {}),
        claude=wanted,
    )


def _words(command: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> tuple[str, ...]:
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
        raise TypeError(f"an agent's command is a string or a list of words, not {command!r:.100}")
    if not words or not words[0]:
        raise ValueError("an agent's command is empty")
    return words
