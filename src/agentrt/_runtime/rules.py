"""Permission rules: a tool's name and, in parentheses, what of its input they are about.

Agents are not to be believed. A rule looks at the tool's name and its parsed input, never at the
kind or the title that the agent made up; a command is compared word by word, and only if a shell
would do nothing but run it; a path is compared where it really leads.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, Final, Protocol
from urllib.parse import unquote, urlsplit

LONGEST: Final = 4096
"""Characters of a name, of a command or of all paths together that rules look at. More are hard to
tell: to split a megabyte as a shell does takes seconds, in which nothing else happens."""

DEEPEST: Final = 500
"""Folders on the way of all paths together: each is looked at, for it may be a link."""

MOST_PARTS: Final = 2000
"""Parts of an input that are looked through for paths."""


class TooLarge(ValueError):
    """An input has more parts than are looked through."""


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


class Seen:
    """A request as rules look at it: what is looked up, is looked up once for all of them."""

    def __init__(self, request: Request) -> None:
        self.tool = request.tool
        self.input = request.input
        self.cwd = request.cwd
        self.command = request.command

    @cached_property
    def places(self) -> list[tuple[str, str, str]] | None:
        """Each path of the input: as it is named, where it leads, and where its name leads. None
        if there is none, or too much of it."""
        try:
            paths = find_paths(self.input, self.cwd)
        except TooLarge:
            return None
        if not paths or sum(map(len, paths)) > LONGEST:
            return None
        if sum(path.count("/") for path in paths) > DEEPEST:
            return None
        named = [os.path.normpath(path) for path in paths]
        return [
            (name, resolve(path), resolve(name)) for name, path in zip(named, paths, strict=True)
        ]

    @cached_property
    def here(self) -> str:
        return os.path.realpath(self.cwd)


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
    redirections, brackets, newlines, a backslash) begins with nothing, and what is longer than a
    person would read (`LONGEST`) is not read by rules either. Two things no rule can know:
    what a program does with its arguments (`Bash(git:*)` allows `git -c core.pager=...`), and every
    way to write a command that is denied. So allow what you know; do not deny what you fear.
    """

    def __init__(self, text: str) -> None:
        parsed = re.fullmatch(r"\s*([^()\s][^()]*?)\s*(?:\((.*\S.*)\))?\s*", text, re.DOTALL)
        if parsed is None:
            raise ValueError(f"no permission rule: {text!r}; write NAME or NAME(WHAT)")
        self._text = text.strip()
        name, what = parsed.groups()
        self._name = name
        self._what = what.strip() if what is not None else "*"
        self._prefix: list[str] | None = None
        if self._what.endswith(":*"):
            self._prefix = _words(self._what[:-2])
            if not self._prefix:
                raise ValueError(f"no permission rule: {text!r}; plain words before the :*")
        elif ".." in self._what.split("/"):
            raise ValueError(f"no permission rule: {text!r}; a path without .. is wanted")
        self._place = os.path.expanduser(self._what)
        self._parts = _parts(self._place + "**" if self._place.endswith("/") else self._place)

    def __str__(self) -> str:
        return self._text

    def covers(self, request: Request) -> bool:
        """Whether all that the request would do is surely what the rule says."""
        seen = request if isinstance(request, Seen) else Seen(request)
        return self._names(seen) is True and all(
            verdict is True for verdict in self._verdicts(seen)
        )

    def touches(self, request: Request) -> bool | None:
        """Whether some of what the request would do is what the rule says; None: hard to tell."""
        seen = request if isinstance(request, Seen) else Seen(request)
        named = self._names(seen)
        if named is False:
            return False
        verdicts = set(self._verdicts(seen))
        if True in verdicts:
            return named
        return None if None in verdicts else False

    def _names(self, request: Seen) -> bool | None:
        name = request.tool or ("Bash" if request.command is not None else "")
        if len(name) > LONGEST:
            return None
        if _fits(self._name, name, "*", str.__eq__):
            return True
        return False if name else None

    def _verdicts(self, request: Seen) -> Iterator[bool | None]:
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
            for place in request.places or ():
                yield self._leads(place, request)
            if request.places is None:
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

    def _leads(self, place: tuple[str, str, str], request: Seen) -> bool | None:
        # Programs differ in whether `..` behind a link leaves the link or what it leads to, and
        # some do not follow links at all: the rule must hold in every reading, or it is open.
        named, real, resolved = place
        found = {
            self._fits(named, request.cwd),
            self._fits(real, request.here),
            self._fits(resolved, request.here),
        }
        return found.pop() if len(found) == 1 else None

    def _fits(self, path: str, cwd: str) -> bool | None:
        if not path.startswith("/"):
            return None
        if not self._place.startswith("/"):
            inside = cwd.rstrip("/") + "/"
            if not f"{path}/".startswith(inside):
                return False
            path = path[len(inside) :]
        return _fits(self._parts, _parts(path), "**", _is_part)


_SHELLS: Final = frozenset({"ash", "bash", "dash", "fish", "ksh", "sh", "zsh"})
_LAUNCHERS: Final = _SHELLS | {
    *("busybox", "command", "doas", "env", "eval", "exec", "nice", "nohup", "setsid", "ssh"),
    *("stdbuf", "su", "sudo", "time", "timeout", "watch", "xargs"),
}
"""Programs that run the program which their arguments name. Far from all: see `Rule`."""

_ACTIVE: Final = re.compile(r"[;&|<>$`(){}\\\x00-\x08\x0a-\x1f\x7f]")
"""What makes a shell do more than split words and unquote them. Tabs are spaces."""


def _words(command: str) -> list[str] | None:
    """The words of a command, as a shell splits it; None if it would do more than that, or they
    are too many to tell."""
    if len(command) > LONGEST or _ACTIVE.search(command):
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
        case [list(words)] if 0 < len(words) <= LONGEST and all(
            isinstance(word, str) for word in words
        ):
            return shlex.join(words)
    return None


_PATH_KEYS: Final = (
    *("path", "paths", "file", "files", "filename", "dir", "directory", "folder"),
    *("source", "destination", "target"),
)


def find_paths(input: Any, cwd: str) -> tuple[str, ...]:
    """Every path in a tool's input: the strings under keys that name one, at any depth. Absolute,
    otherwise as the agent wrote them; a URL stays one. Raises `TooLarge`."""
    return tuple(dict.fromkeys(_absolute(path, cwd) for path in _named_paths(input)))


def resolve(path: str) -> str:
    """Where an absolute path leads now; as it is if it leads nowhere, like a URL."""
    try:
        return os.path.realpath(path) if path.startswith("/") else path
    except (OSError, ValueError):
        return "?" + path


def _named_paths(input: Any) -> Iterator[str]:
    for value in _containers(input):
        if isinstance(value, dict):
            for key, named in value.items():
                if key == "changes" and isinstance(named, dict):  # codex: what changes at each path
                    yield from named
                if str(key).lower().replace("_", "").endswith(_PATH_KEYS):
                    yield from _strings(named)


def _containers(input: Any) -> list[dict[str, Any] | list[Any]]:
    """Every object and array in it. Raises `TooLarge`."""
    found = [input] if isinstance(input, dict | list) else []
    parts = 0
    for value in found:  # which grows meanwhile
        parts += len(value)
        if parts > MOST_PARTS:
            raise TooLarge(f"the input has more than {MOST_PARTS} parts")
        inner = value.values() if isinstance(value, dict) else value
        found += [each for each in inner if isinstance(each, dict | list)]
    return found


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


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def _is_part(pattern: str, part: str) -> bool:
    """Whether one part of a path is what a pattern with `*` and `?` says."""
    return _fits(pattern, part, "*", lambda wanted, given: wanted in ("?", given))


def _fits(
    pattern: Sequence[str], given: Sequence[str], star: str, same: Callable[[str, str], bool]
) -> bool:
    """Whether a sequence is what a pattern says, in which `star` stands for any number of items.

    A regular expression may take for ever on what an agent makes up; this takes at the most one
    step for each pair of items.
    """
    at = here = 0
    behind, begun = -1, 0  # the last star that was met, and where what it stands for ends so far
    while here < len(given):
        if at < len(pattern) and pattern[at] == star:
            behind, begun = at, here
            at += 1
        elif at < len(pattern) and same(pattern[at], given[here]):
            at += 1
            here += 1
        elif behind >= 0:
            begun += 1
            at, here = behind + 1, begun
        else:
            return False
    return all(rest == star for rest in pattern[at:])
