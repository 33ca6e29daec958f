"""A permission request, prepared for rules.

A rule that allows uses only the keys of a tool's input that agents are known to use. A rule that
denies examines every string that may be a command or a path, whatever its key is called: an MCP
server may call a command `cmdline`, or a path `dst`.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Protocol
from urllib.parse import unquote

from ..sandbox.access import Access, HostAccess, PathAccess, ProgramAccess
from .paths import (
    MAX_PATH_CHARS,
    ResolvedPath,
    TooLarge,
    absolute_path,
    containers,
    find_paths,
    resolve,
    resolve_paths,
)
from .script import ShellCommand, ShellScript, ShellWord
from .shell import FOLDER_COST_CHARS, ReadingBudget, read_script
from .table import POSIX_SHELLS, SYSTEM
from .words import KINDS, meant_by, perhaps_meant_by

_COMMAND_KEY: Final = re.compile(
    r".*(?:command|commands|cmd|cmds|cmdline|commandline|argv|script|shell|exec|bash|code|run"
    r"|program|executable|stdin|chars)"
)
_PATCHED: Final = re.compile(
    r"^(?:\*\*\* (?:Add|Update|Delete) File: |\*\*\* Move to: |(?:---|\+\+\+) (?:[ab]/)?)"
    r"([^\t\n]+)",
    re.MULTILINE,
)
"""The files of a patch."""
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/*(?:localhost(?=/))?")
MAX_PATHS: Final = 100
"""Maximum number of strings of an input that are examined as paths."""


@dataclass(frozen=True)
class PossibleCommand:
    """A string that may be a command."""

    text: str
    is_command: bool
    """True if its key marks it as a command."""
    words: Sequence[str] = ()
    """The argument vector that it is part of."""


def folded_key(key: object) -> str:
    """Return a key in lower case, without spaces, `_` and `-`."""
    return re.sub("[_ -]", "", str(key)).casefold()


def find_possible_commands(input: Any) -> Iterator[PossibleCommand]:
    """Yield every string of an input as a command. Raises `TooLarge`."""
    if isinstance(input, str):
        yield PossibleCommand(input, False)
    for value in containers(input):
        if not isinstance(value, dict):
            continue
        for key, each in value.items():
            named = _COMMAND_KEY.fullmatch(folded_key(key)) is not None
            if isinstance(each, str):
                yield PossibleCommand(each, named)
            elif isinstance(each, list) and each and all(isinstance(one, str) for one in each):
                yield PossibleCommand(" ".join(each), named, tuple(each))
                yield from (PossibleCommand(one, False) for one in each)


def find_possible_paths(input: Any) -> Iterator[str]:
    """Yield every string of an input that may be a path. Raises `TooLarge`."""
    texts = [input] if isinstance(input, str) else []
    for value in containers(input):
        each = value.values() if isinstance(value, dict) else value
        texts += [one for one in each if isinstance(one, str)]
    for text in texts:
        if "\n" in text.strip() or len(text) > MAX_PATH_CHARS:
            yield from _PATCHED.findall(text)
        elif text.strip():
            yield text


def path_spellings(text: str, cwd: str) -> list[str]:
    """Return the ways to read a path: with its variables, as a URL, percent-encoded, with
    backslashes."""
    home = os.path.expanduser("~")
    text = text.strip().strip("'\"")
    for name, value in (("HOME", home), ("PWD", cwd)):
        text = re.sub(rf"\$(?:{name}(?![A-Za-z0-9_])|\{{{name}\}})", value.replace("\\", "/"), text)
    found = [text, unquote(text), text.replace("\\", "/"), unicodedata.normalize("NFKC", text)]
    for each in tuple(found):
        if begin := _SCHEME.match(each):
            rest = each[begin.end() :]
            # `file:///etc` and `x://host/etc`
            found += [f"/{rest}", "/" + rest.partition("/")[2]]
    return [each for each in dict.fromkeys(found) if each and "\0" not in each]


_TOLD_KEYS: Final = frozenset(
    """args arguments description explanation reason justification title timeout timeoutms
    timeoutsec runinbackground isbackground background login tty yieldtimems maxoutputtokens callid
    turnid sessionid threadid conversationid processid approvalid startedatms parsedcmd
    commandactions source availabledecisions proposedexecpolicyamendment shell""".split()  # noqa: SIM905
)
"""Keys that do not change the effect of a command, in lower case and without `_` and `-`."""
_COMMAND_KEYS: Final = ("command", "cmd")
_OTHER_COMMAND_KEYS: Final = frozenset(
    {"script", "code", "commands", "commandline", "command_line", "shell_command", "exec", "chars"}
)
"""Keys whose value may also be a command."""
_FOLDER_KEYS: Final = ("cwd", "workdir", "working_directory", "directory", "dir_path", "dir")
MAX_WORDS: Final = 4096


class JudgedRequest(Protocol):
    """The parts of a request that rules use; see `PermissionRequest`."""

    @property
    def title(self) -> str:
        """The title, chosen by the agent."""
        ...

    @property
    def tool(self) -> str:
        """The tool's name; empty if the agent gave none."""
        ...

    @property
    def kind(self) -> str:
        """The kind of work; see `kind_holds`."""
        ...

    @property
    def input(self) -> Any:
        """The tool's arguments; None if the agent gave none."""
        ...

    @property
    def changes(self) -> tuple[str, ...]:
        """The files in the changes that the request shows."""
        ...

    @property
    def created(self) -> tuple[str, ...]:
        """The files of `changes` that are written as a whole."""
        ...

    @property
    def locations(self) -> tuple[str, ...]:
        """The files that the agent claims the request is about."""
        ...

    @property
    def cwd(self) -> str:
        """The session's working directory."""
        ...

    @property
    def tools(self) -> Mapping[str, str]:
        """The agent's tool names, mapped to the names that rules use."""
        ...

    @property
    def shown_command(self) -> str | None:
        """The command that the agent's program shows to people, if it is complete."""
        ...

    @property
    def kind_holds(self) -> bool:
        """True if `kind` comes from the agent's program, not from its model."""
        ...


class RequestFacts:
    """Facts about a request, for rules. Each is computed once for all rules."""

    def __init__(self, request: JudgedRequest, *, own_tool: str = "") -> None:
        """`own_tool`: the name of the program's own tool that the request is about."""
        self.request = request
        self._own_tool = own_tool
        self.tool = request.tool
        self.input = request.input
        self.cwd = request.cwd
        self.budget = ReadingBudget()
        """The work that all rules together may do for this request."""
        self._places: dict[str, frozenset[str]] = {}

    @cached_property
    def boundary(self) -> Access | None:
        """The access outside of a sandbox that the request is about; None if it is not about
        one."""
        raw = getattr(self.request, "raw", None)
        return raw if isinstance(raw, HostAccess | PathAccess | ProgramAccess) else None

    # --- names

    @cached_property
    def names(self) -> set[str]:
        """The names that the request certainly has, in the terms of rules."""
        if self._own_tool:
            return {self.tool, self._own_tool}
        found = meant_by(self.tool, self.request.tools) if self.tool else set[str]()
        if not self.tool and self.has_command != bool(self.request.changes):
            found = {"Bash"} if self.has_command else {"Edit"}
        changes = set(self.request.changes)
        writes = "Write" in KINDS.get(self.request.kind, ("Write",))  # not deletes or moves
        if "Edit" in found and writes and changes and changes <= set(self.request.created):
            found = found | {"Write"}
        return found

    @cached_property
    def shown(self) -> set[str]:
        """Further names that follow from the request's contents, independent of the tool's name."""
        found = {"Bash"} if self.has_command else set[str]()
        return found | {"Edit"} if self.request.changes else found

    @cached_property
    def may_be(self) -> set[str]:
        """Further names that the request may have, by the agent's own description."""
        found = perhaps_meant_by(self.tool, self.request.kind)
        return found | {"Write"} if self.request.changes else found

    @property
    def all_names(self) -> set[str]:
        """All certain and possible names of the request."""
        return self.names | self.shown | self.may_be

    @property
    def unknown(self) -> bool:
        """True if the request may be anything."""
        known = self.tool or self.has_command or self.request.changes
        return not known and not (self.request.kind_holds and self.request.kind in KINDS)

    # --- commands

    @cached_property
    def has_command(self) -> bool:
        """True if the input has a key for a command."""
        keys = self.input if isinstance(self.input, dict) else {}
        return any(key in keys for key in (*_COMMAND_KEYS, *_OTHER_COMMAND_KEYS))

    @cached_property
    def lines(self) -> list[PossibleCommand] | None:
        """Every string of the input that may be a command; None if there are too many."""
        if self.names & {"Edit", "Write", "Read", "Fetch"} or self._own_tool:
            return []
        try:
            return [line for line in find_possible_commands(self.input) if line.text != self.text]
        except TooLarge:
            return None

    @cached_property
    def possible_paths(self) -> list[str] | None:
        """Every reading of a string of the input as a path, absolute; None if there are too
        many."""
        try:
            texts = list(dict.fromkeys(find_possible_paths(self.input)))
        except TooLarge:
            return None
        if len(texts) > MAX_PATHS:
            return None
        found = [
            absolute_path(each, folder)
            for text in texts
            for each in path_spellings(text, self.cwd)
            for folder in dict.fromkeys((self.cwd, self.folder))
        ]
        return list(dict.fromkeys(found))

    @cached_property
    def folded_folders(self) -> tuple[str, ...]:
        """The session's working directory and its real path, in lower case."""
        return tuple({self.cwd.casefold(), os.path.realpath(self.cwd).casefold()})

    def folded_places(self, path: str) -> frozenset[str] | None:
        """Return the name of an absolute path and its targets, in lower case; None if the request
        has used up its budget."""
        if path not in self._places:
            if not self.budget.spend(0, len(path) + FOLDER_COST_CHARS * (2 + path.count("/"))):
                return None
            named = os.path.normpath(path)
            places = {named, resolve(path), resolve(named)}
            self._places[path] = frozenset(each.casefold() for each in places)
        return self._places[path]

    @cached_property
    def folder(self) -> str:
        """The folder in which its command would run."""
        if isinstance(self.input, dict):
            for key in _FOLDER_KEYS:
                if isinstance(named := self.input.get(key), str) and named:
                    return absolute_path(named, self.cwd)
        return self.cwd

    @cached_property
    def text(self) -> str | None:
        """The line that a shell would run."""
        return script_of(self.input)

    @cached_property
    def script(self) -> ShellScript | None:
        """The commands that it would run; None if they are not known."""
        if self.text is not None:
            return read_script(self.text)
        words = words_of(self.input)
        return None if words is None else literal_script(words)

    @cached_property
    def shown_script(self) -> ShellScript | None:
        """The commands that it shows to people. The agent chooses this text, so it never allows
        anything."""
        shown = self.request.shown_command
        if shown is None and self.request.kind == "execute":
            shown = self.request.title
        return None if shown is None else read_script(shown)

    @cached_property
    def runs_as_told(self) -> bool:
        """True if only its command determines the effect: no other folder, no environment."""
        if not isinstance(self.input, dict):
            return False
        known = (*_COMMAND_KEYS, *_FOLDER_KEYS)
        for key, value in self.input.items():
            if value and key not in known and folded_key(key) not in _TOLD_KEYS:
                return False
        shell = self.input.get("shell")
        if shell and not (isinstance(shell, str) and is_shell(shell)):
            return False
        # In another folder, the configuration there may make a harmless command run anything.
        return os.path.realpath(self.cwd) == os.path.realpath(self.folder)

    # --- paths

    @cached_property
    def places(self) -> list[ResolvedPath] | None:
        """Each path of the input and of the changes that it shows; None if there are none, or if
        these or the hinted ones are too many."""
        if self.hinted is None:
            return None
        try:
            paths = [*find_paths(self.input, self.cwd), *self._absolute(self.request.changes)]
        except TooLarge:
            return None
        return resolve_paths(paths)

    @cached_property
    def hinted(self) -> list[ResolvedPath] | None:
        """The paths that the agent claims the request is about; None if they are too many."""
        if not self.request.locations:
            return []
        try:
            return resolve_paths(self._absolute(self.request.locations))
        except TooLarge:
            return None

    def _absolute(self, paths: Sequence[str]) -> list[str]:
        """Make paths absolute. Raises `TooLarge` before it looks up the user of a `~user`."""
        if sum(map(len, paths)) > MAX_PATH_CHARS:
            raise TooLarge
        return [absolute_path(path, self.cwd) for path in paths]

    @property
    def is_too_long(self) -> bool:
        """True if the tool's name is too long to be compared."""
        return len(self.tool) > MAX_PATH_CHARS


def find_command(input: Any) -> str | None:
    """Return the shell command in a tool's input; None if there is none.

    An argument vector is quoted into a command, and a shell's own `-c` is removed. An input with
    two commands has none.
    """
    import shlex

    text = script_of(input)
    if text is not None:
        return text
    words = words_of(input)
    return None if words is None else shlex.join(words)


def script_of(input: Any) -> str | None:
    """Return the line in an input that goes to a shell."""
    match _given(input):
        case str(text):
            return text
        case [str(shell), "-c" | "-lc", str(text)] if is_shell(shell):
            return text
    return None


def words_of(input: Any) -> list[str] | None:
    """Return the argument vector in an input."""
    match _given(input):
        case [*words] if 0 < len(words) <= MAX_WORDS and all(isinstance(w, str) for w in words):
            return words
    return None


def _given(input: Any) -> str | list[Any] | None:
    """Return the only command of an input: a line, or an argument vector.

    None if there is no command or more than one.
    """
    if not isinstance(input, dict):
        return None
    found = [input[key] for key in _COMMAND_KEYS if key in input]
    if len(found) != 1 or any(input.get(key) for key in _OTHER_COMMAND_KEYS):
        return None
    arguments = input.get("args", input.get("arguments"))
    match found[0]:
        case str(text) if arguments is None or arguments == []:
            return text
        case str(program) if isinstance(arguments, list):
            return [program, *arguments]
        case [*words] if not arguments:
            return words
    return None


def is_shell(program: str) -> bool:
    """True if a program is certainly a shell: by its bare name, or in a system folder."""
    folder, _, name = program.rpartition("/")
    return name in POSIX_SHELLS and (folder in SYSTEM if "/" in program else True)


def literal_script(words: Sequence[str]) -> ShellScript:
    """Make a script from an argument vector that no shell parses."""
    return ShellScript([ShellCommand([ShellWord(text) for text in words])])
