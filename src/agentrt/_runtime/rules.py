"""Permission rules: a tool's name and, in parentheses, what of its input they are about.

Agents are not to be believed. A rule looks at the tool's name and its parsed input, never at the
kind or the title that the agent made up; a command is compared word by word, and only if a shell
would do nothing but run it; a path is compared where it really leads.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from typing import Any, Final, Protocol
from urllib.parse import unquote, urlsplit


class Request(Protocol):
    """What rules look at; see `PermissionRequest`."""

    @property
    def tool(self) -> str: ...
    @property
    def input(self) -> Any: ...
    @property
    def cwd(self) -> str: ...
    @property
    def command(self) -> str | None: ...


class Rule:
    """One rule. It is written::

        Read                     every call of the tool Read
        mcp__app__*              every call of tools so named; * stands for any characters
        Bash(git status:*)       commands that begin with these words
        Bash(npm test)           this command
        Edit(src/**)             calls that name only paths in src, in the session's folder
        Edit(/etc/*.conf)        or anywhere: * and ? stay within one part of a path, ** does not

    Names are the agent's own. A call without a name whose input has a command counts as `Bash`;
    any other call without a name is covered by no rule but `*`.

    A command with anything in it that a shell would act on (`;`, `&&`, `|`, `$`, backticks,
    redirections, brackets, newlines, a backslash) begins with nothing. Two things no rule can know:
    what a program does with its arguments (`Bash(git:*)` allows `git -c core.pager=...`), and every
    way to write a command that is denied. So allow what you know; do not deny what you fear.
    """

    def __init__(self, text: str) -> None:
        parsed = re.fullmatch(r"\s*([^()\s][^()]*?)\s*(?:\((.*\S.*)\))?\s*", text, re.DOTALL)
        if parsed is None:
            raise ValueError(f"no permission rule: {text!r}; write NAME or NAME(WHAT)")
        self._text = text.strip()
        name, what = parsed.groups()
        self._name = re.compile(".*".join(map(re.escape, name.split("*"))), re.DOTALL)
        self._what = what.strip() if what is not None else "*"
        self._prefix: list[str] | None = None
        if self._what.endswith(":*"):
            self._prefix = _words(self._what[:-2])
            if not self._prefix:
                raise ValueError(f"no permission rule: {text!r}; plain words before the :*")
        elif ".." in self._what.split("/"):
            raise ValueError(f"no permission rule: {text!r}; a path without .. is wanted")
        self._place = os.path.expanduser(self._what)
        self._places = re.compile(_path_pattern(self._place), re.DOTALL)

    def __str__(self) -> str:
        return self._text

    def covers(self, request: Request) -> bool:
        """Whether all that the request would do is surely what the rule says."""
        return self._names(request) is True and all(
            verdict is True for verdict in self._verdicts(request)
        )

    def touches(self, request: Request) -> bool | None:
        """Whether some of what the request would do is what the rule says; None: hard to tell."""
        named = self._names(request)
        if named is False:
            return False
        verdicts = set(self._verdicts(request))
        if True in verdicts:
            return named
        return None if None in verdicts else False

    def _names(self, request: Request) -> bool | None:
        name = request.tool or ("Bash" if request.command is not None else "")
        if self._name.fullmatch(name):
            return True
        return False if name else None

    def _verdicts(self, request: Request) -> Iterator[bool | None]:
        """For each thing that the request would do, whether it is what the rule says. At least
        one."""
        input, command = request.input, request.command
        if self._what == "*":
            yield True
        elif not isinstance(input, dict):
            yield None  # the agent did not tell
        elif command is None and any(key in input for key in _COMMAND_KEYS):
            yield None  # it is no command that can be read
        elif self._prefix is not None:
            yield command is not None and self._begins(command, self._prefix)
        elif command is not None:
            yield self._is(command)
        else:
            paths = find_paths(input, request.cwd)
            for path in paths:
                yield self._leads(path, request.cwd)
            if not paths:
                yield None

    def _begins(self, command: str, prefix: list[str]) -> bool | None:
        words = _words(command)
        if words is None:
            return None
        if words[: len(prefix)] == prefix:
            return True
        if not words:
            return False
        # Another way to write it, or a program that runs another one: not covered, maybe meant.
        program = os.path.basename(words[0])
        if [program, *words[1 : len(prefix)]] == prefix or program in _LAUNCHERS:
            return None
        return None if "=" in program else False

    def _is(self, command: str) -> bool | None:
        if command.strip() == self._what:
            return True
        words = _words(command)
        return None if words is None else words == _words(self._what)

    def _leads(self, path: str, cwd: str) -> bool | None:
        # Programs differ in whether `..` behind a link leaves the link or what it leads to, and
        # some do not follow links at all: the rule must hold in every reading, or it is open.
        named, real, here = os.path.normpath(path), resolve(path), os.path.realpath(cwd)
        found = {self._fits(named, cwd), self._fits(real, here), self._fits(resolve(named), here)}
        return found.pop() if len(found) == 1 else None

    def _fits(self, path: str, cwd: str) -> bool | None:
        if not path.startswith("/"):
            return None
        if not self._place.startswith("/"):
            inside = cwd.rstrip("/") + "/"
            if not f"{path}/".startswith(inside):
                return False
            path = path[len(inside) :]
        return self._places.fullmatch(f"{path}/" if path else "") is not None


_SHELLS: Final = frozenset({"ash", "bash", "dash", "fish", "ksh", "sh", "zsh"})
_LAUNCHERS: Final = _SHELLS | {
    *("busybox", "command", "doas", "env", "eval", "exec", "nice", "nohup", "setsid", "ssh"),
    *("stdbuf", "su", "sudo", "time", "timeout", "watch", "xargs"),
}
"""Programs that run the program which their arguments name. Far from all: see `Rule`."""

_ACTIVE: Final = re.compile(r"[;&|<>$`(){}\\\x00-\x08\x0a-\x1f\x7f]")
"""What makes a shell do more than split words and unquote them. Tabs are spaces."""


def _words(command: str) -> list[str] | None:
    """The words of a command, as a shell splits it; None if it would do more than that."""
    if _ACTIVE.search(command):
        return None
    try:
        return shlex.split(command)
    except ValueError:
        return None  # a quotation without its end


_COMMAND_KEYS: Final = ("command", "cmd")


def find_command(input: Any) -> str | None:
    """The shell command in a tool's input. An argument vector is quoted into one, and a shell's
    own `-c` taken off it. With two commands, neither is the one."""
    if not isinstance(input, dict):
        return None
    found = [input[key] for key in _COMMAND_KEYS if key in input]
    match found:
        case [str(command)]:
            return command
        case [[str(shell), "-c" | "-lc", str(script)]] if os.path.basename(shell) in _SHELLS:
            return script
        case [list(words)] if words and all(isinstance(word, str) for word in words):
            return shlex.join(words)
    return None


_PATH_KEYS: Final = (
    *("path", "paths", "file", "files", "filename", "dir", "directory", "folder"),
    *("source", "destination", "target"),
)


def find_paths(input: Any, cwd: str) -> tuple[str, ...]:
    """Every path in a tool's input: the strings under keys that name one, at any depth. Absolute,
    otherwise as the agent wrote them; a URL stays one."""
    return tuple(dict.fromkeys(_absolute(path, cwd) for path in _named_paths(input)))


def resolve(path: str) -> str:
    """Where an absolute path leads now; as it is if it leads nowhere, like a URL."""
    try:
        return os.path.realpath(path) if path.startswith("/") else path
    except (OSError, ValueError):
        return "?" + path


def _named_paths(value: Any) -> Iterator[str]:
    match value:
        case dict():
            for key, inner in value.items():
                if key == "changes" and isinstance(inner, dict):  # codex: what changes at each path
                    yield from inner
                if str(key).lower().replace("_", "").endswith(_PATH_KEYS):
                    yield from _strings(inner)
                yield from _named_paths(inner)
        case list():
            for inner in value:
                yield from _named_paths(inner)


def _strings(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list():
            yield from (inner for inner in value if isinstance(inner, str))


def _absolute(path: str, cwd: str) -> str:
    if path.startswith("file://"):
        path = unquote(urlsplit(path).path)
    elif "://" in path:
        return path
    # Two leading slashes are one; Python keeps them, for systems where they are not.
    return re.sub("^//+", "/", os.path.join(cwd, os.path.expanduser(path)))


def _path_pattern(pattern: str) -> str:
    """A regular expression for paths that end in a slash."""
    parts = []
    for part in (pattern + "**" if pattern.endswith("/") else pattern).split("/"):
        if part == "**":
            parts.append("(?:[^/]+/)*")
        elif part not in ("", "."):
            plain = re.escape(part).replace(r"\*", "[^/]*").replace(r"\?", "[^/]")
            parts.append(plain + "/")
    return ("/" if pattern.startswith("/") else "") + "".join(parts)
