"""The verdict on a command: does it run the program that a rule names?

No list of programs is complete, so three kinds are distinguished: programs that only read or write
data; programs that run code in their own language, where anything may be hidden; and all others,
which may run anything that their arguments mention. `table.py` assigns programs to kinds.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property
from typing import Final

from .languages import awk_runs_nothing, runs_code, runs_project, sed_runs_nothing
from .options import running_option, walk
from .paths import fits_pattern
from .script import HOLE, ShellCommand, ShellScript, ShellWord
from .shell import ReadingBudget
from .table import (
    COPIERS,
    GIT,
    GIT_OPTIONS,
    GIT_SAFE_SETTINGS,
    GIT_SETTING_NAME,
    POSIX_SHELLS,
    RISKY_VARIABLES,
    RUNNING_OPTIONS,
    SHELL_CHARACTERS,
    SHELLS,
    STANDARD_INPUT,
    SYSTEM,
    ArgumentRunner,
    CodeRunner,
    Data,
    Interpreter,
    Kind,
    Launcher,
    Special,
    VariableBuiltin,
    kind_of,
)


class Verdict(IntEnum):
    """The certainty with which a request matches a rule; the greater one wins."""

    NO = 0
    HIDDEN = 1
    """It runs a program of the project, which may do anything."""
    MAY = 2
    """Unknown."""
    YES = 3


@dataclass(frozen=True)
class Judgement:
    """A verdict and its reason."""

    verdict: Verdict
    why: str = ""


NOTHING: Final = Judgement(Verdict.NO)


MAX_NESTED_COMMANDS: Final = 8
"""Maximum number of nested commands that are examined, such as `env nice sudo …`."""

_PLAUSIBLE: Final = re.compile(r"[\w./+@:%-]+|~[\w./+@:%-]*/[\w./+@:%-]+|\[|\[\[")
_SETTING: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_EXECUTES: Final = frozenset({"-exec", "-execdir", "-ok", "-okdir"})


@dataclass(frozen=True)
class _ProgramCall:
    """A command that is judged, and its context."""

    name: str
    """The program's name."""
    arguments: Sequence[ShellWord]
    fed: bool
    """True if its input comes from the line."""
    cwd: str
    budget: ReadingBudget
    depth: int


class Target:
    """The commands that a rule names: those that begin with some words, or equal them."""

    def __init__(self, words: Sequence[str], *, exact: bool) -> None:
        """Name the commands of a rule. `exact`: only the command with just these words."""
        self.words = tuple(words)
        self.exact = exact
        self.name = _name(words[0])
        self._kinds: dict[type[Kind], Callable[[_ProgramCall, Kind], Judgement]] = {
            Data: self._judge_data,
            ArgumentRunner: self._judge_tool,
            Launcher: self._judge_launcher,
            CodeRunner: _judge_code,
            Interpreter: _judge_interpreter,
            VariableBuiltin: _judge_names,
            Special: self._judge_special,
        }
        self._special: dict[str, Callable[[_ProgramCall], Judgement]] = {
            "awk": _judge_awk,
            "eval": self._judge_eval,
            "find": self._judge_find,
            "git": self._judge_git,
            "sed": _judge_sed,
            "setter": self._judge_setter,
            "shell": self._judge_shell,
        }

    @cached_property
    def _mention(self) -> re.Pattern[str]:
        """The pattern that finds the program's name, or a shell, in a text."""
        # The program, or a shell, as a separate word. A file such as `x.sh` does not count.
        names = "|".join(map(re.escape, sorted({self.name, *SHELLS, "eval"})))
        return re.compile(rf"(?<![A-Za-z0-9_.-])(?:{names})(?![A-Za-z0-9_-])", re.IGNORECASE)

    def mentioned(self, word: ShellWord) -> bool:
        """True if a word names the program, or may; also after an option's letter."""
        after = word.text[2:] if re.match("-[A-Za-z]", word.text) else ""
        named = self._mention.search(word.text) or self._mention.search(after)
        return named is not None or self.may_be(word)

    def located(self, word: ShellWord, cwd: str) -> bool:
        """True if a word is a path to the program, or a pattern that matches one."""
        folder, slash, _ = word.text.rpartition("/")
        if not slash or not self.may_be(word):
            return False
        if word.plain:
            return True
        path = os.path.normpath(os.path.join(cwd, folder or "/"))
        return any(_fits(path, each) for each in SYSTEM)

    def may_be(self, word: ShellWord) -> bool:
        """True if a word may be the program's name, or a path to it."""
        if word.plain:
            return _name(word.text) == self.name
        return _fits(word.text.rpartition("/")[2].casefold(), self.name)

    def _begins(self, arguments: Sequence[ShellWord]) -> Verdict:
        """Judge a call of the program itself."""
        wanted = self.words[1:]
        if not wanted and not self.exact:
            return Verdict.YES
        plain = sum(word.plain for word in arguments)
        if plain == len(arguments):
            given = tuple(word.text for word in arguments)
            if given == wanted or (not self.exact and given[: len(wanted)] == wanted):
                return Verdict.YES
            if self.exact:
                return Verdict.NO
        elif self.exact and len(wanted) < plain:
            return Verdict.NO
        return self._contains(arguments)

    def _contains(self, arguments: Sequence[ShellWord]) -> Verdict:
        """Judge `MAY` for the same words with other options, in another order, or with words
        between."""
        rest = iter(arguments)
        for word in self.words[1:]:
            if word.startswith("-"):
                continue
            if not any(not each.plain or each.text == word for each in rest):
                return self._spelled(word, arguments)
        return Verdict.MAY

    def _spelled(self, wanted: str, arguments: Sequence[ShellWord]) -> Verdict:
        """Judge a call with a missing word; an argument such as `alias.p=push` or `publi` may mean
        it."""
        found = re.compile(rf"(?<![A-Za-z0-9_]){re.escape(wanted)}(?![A-Za-z0-9_])")
        if any(found.search(word.text) or _abbreviates(word.text, wanted) for word in arguments):
            return Verdict.MAY
        return Verdict.NO

    # --- verdicts

    def judge(
        self, script: ShellScript, cwd: str, budget: ReadingBudget | None = None, depth: int = 0
    ) -> Judgement:
        """Judge a script. `budget`: that of the request that it belongs to."""
        budget = ReadingBudget() if budget is None else budget
        found = NOTHING
        if script.unclear:
            found = Judgement(Verdict.MAY, f"it cannot be read for certain: {script.unclear}")
        for command in script.commands:
            found = max(found, self._judge(command, cwd, budget, depth), key=_rank)
            if found.verdict is Verdict.YES or budget.left < 0:
                return found
        written = _written_programs(script) if len(script.commands) > 1 else set[str]()
        for command in script.commands if written else ():
            if command.words and command.words[0].text in written:
                why = f"it writes a file {command.words[0].text}, and runs a program of that name"
                return max(found, Judgement(Verdict.MAY, why), key=_rank)
        return found

    def _judge(
        self, command: ShellCommand, cwd: str, budget: ReadingBudget, depth: int
    ) -> Judgement:
        """Judge one command of a script: its settings of variables, then its words."""
        found = NOTHING
        for name, value in command.sets:
            found = max(found, self._judge_setting(name, value), key=_rank)
        words = self.judge_words(command.words, command.fed, cwd, budget, depth)
        return max(found, words, key=_rank)

    def _judge_setting(self, name: str, value: ShellWord) -> Judgement:
        """Judge the setting of a variable, by its name (`PATH`) or by a value that names the
        target.
        """
        if RISKY_VARIABLES.fullmatch(name):
            return Judgement(Verdict.MAY, f"{name} may change what runs")
        if self._mention.search(value.text):
            return Judgement(Verdict.MAY, f"{name} is set to a value that mentions it")
        return NOTHING

    def judge_words(
        self, words: Sequence[ShellWord], fed: bool, cwd: str, budget: ReadingBudget, depth: int = 0
    ) -> Judgement:
        """Judge one command. `fed`: its input comes from the line."""
        if not words:
            return NOTHING
        price = sum(len(word.text) for word in words)
        if depth > MAX_NESTED_COMMANDS or not budget.spend(len(words), price):
            return Judgement(Verdict.MAY, "the commands are nested too deeply")
        program = words[0]
        if not program.plain or "{}" in program.text:
            return Judgement(Verdict.MAY, "only the shell knows which program that is")
        if not _PLAUSIBLE.fullmatch(program.text):
            # No program has such a name. Codex quotes some lines as a whole.
            inner = self.judge(budget.read(program.text), cwd, budget, depth + 1)
            odd = Judgement(Verdict.MAY, f"{_shown(program)} is not the name of a program")
            return max(inner, odd, key=_rank)
        names, outside = _identify(program.text, cwd)
        found = NOTHING
        if self.name in names:
            found = Judgement(self._begins(words[1:]))
        if outside:
            hidden = Judgement(Verdict.HIDDEN, f"{program.text} is a program of the project's")
            found = max(found, hidden, key=_rank)
        for name in sorted(names):
            call = _ProgramCall(name, words[1:], fed, cwd, budget, depth)
            kind = kind_of(name)
            found = max(found, self._kinds[type(kind)](call, kind), key=_rank)
        return found

    # --- the kinds of the table

    def _judge_data(self, call: _ProgramCall, kind: Kind) -> Judgement:
        """Judge a program that only reads and writes data, except by some of its options.

        A copying program may copy the target under another name.
        """
        assert isinstance(kind, Data)
        if option := running_option(kind, call.arguments):
            return Judgement(Verdict.MAY, f"{call.name} may run the value of {_shown(option)}")
        for word in call.arguments if call.name in COPIERS else ():
            if self.located(word, call.cwd):
                return Judgement(Verdict.MAY, f"{_shown(word)} is a path to it")
        return NOTHING

    def _judge_tool(self, call: _ProgramCall, kind: Kind) -> Judgement:
        """Judge a program that may run its arguments, as build tools do.

        Any argument that mentions the target, is a risky setting, or looks like code may run it.
        """
        assert isinstance(kind, ArgumentRunner)
        if call.fed and kind.reads:
            return Judgement(Verdict.MAY, f"{call.name} runs its input")
        if option := running_option(kind, call.arguments):
            return Judgement(Verdict.MAY, f"{call.name} may run the value of {_shown(option)}")
        for word in call.arguments:
            if call.fed and STANDARD_INPUT.fullmatch(word.text):
                return Judgement(Verdict.MAY, f"{call.name} reads what the line gives it")
            if _SETTING.match(word.text):
                name, _, value = word.text.partition("=")
                found = self._judge_setting(name, ShellWord(value))
                if found.verdict:
                    return found
            if self.mentioned(word) or RUNNING_OPTIONS.match(word.text) or _is_code(word):
                return Judgement(Verdict.MAY, f"{call.name} may run the value of {_shown(word)}")
        return NOTHING

    def _judge_launcher(self, call: _ProgramCall, kind: Kind) -> Judgement:
        """Judge a program that runs others, such as `env` or `xargs`, by those that it runs.

        The worst of its settings, its script lines and the command in its arguments counts. If the
        arguments cannot be read for certain, it may run anything.
        """
        assert isinstance(kind, Launcher)
        walked = walk(kind, call.arguments)
        found = NOTHING
        for name, value in walked.settings:
            found = max(found, self._judge_setting(name, value), key=_rank)
        for line in walked.lines:
            script = call.budget.read(line)
            inner = self.judge(script, call.cwd, call.budget, call.depth + 1)
            found = max(found, inner, key=_rank)
        if walked.unsure:
            unsure = Judgement(Verdict.MAY, f"{call.name} may run it: {walked.unsure}")
            return max(found, unsure, key=_rank)
        if walked.ends:
            return found
        rest = _with_input(walked.rest, walked.values) if kind.adds else walked.rest
        depth = call.depth + 1
        inner = self.judge_words(rest, call.fed and not kind.adds, call.cwd, call.budget, depth)
        return max(found, inner, key=_rank)

    def _judge_special(self, call: _ProgramCall, kind: Kind) -> Judgement:
        """Judge a program with rules that no other program shares."""
        assert isinstance(kind, Special)
        return self._special[kind.how](call)

    def _judge_eval(self, call: _ProgramCall) -> Judgement:
        """Judge `eval`, which runs its arguments as one line."""
        if not all(word.plain for word in call.arguments):
            return Judgement(Verdict.MAY, "only the shell knows what eval runs")
        texts = [word.text for word in call.arguments]
        text = " ".join(texts[1:] if texts[:1] == ["--"] else texts)
        return self.judge(call.budget.read(text), call.cwd, call.budget, call.depth + 1)

    def _judge_shell(self, call: _ProgramCall) -> Judgement:
        """Judge a shell: the line after `-c`, or `MAY` if it runs a file or its input."""
        line = False
        options = True
        for word in call.arguments:
            if not word.plain:
                break
            if options and word.text in ("--", "-"):
                options = False
            elif options and re.fullmatch(r"-[leuxc]+", word.text):
                line = line or "c" in word.text
            elif line and call.name in POSIX_SHELLS and not (options and word.text[:1] in "-+"):
                script = call.budget.read(word.text)
                return self.judge(script, call.cwd, call.budget, call.depth + 1)
            else:
                break
        return Judgement(Verdict.MAY, f"{call.name} runs something that the line does not show")

    def _judge_setter(self, call: _ProgramCall) -> Judgement:
        """Judge `declare`, `export` and the like: the values they set, and indices they compute."""
        for word in call.arguments:
            variable, _, value = word.text.partition("=")
            found = self._judge_setting(variable, ShellWord(value))
            if found.verdict:
                return found
            if HOLE in variable or _computes(ShellWord(variable)):
                return Judgement(Verdict.MAY, f"only the shell knows what {call.name} sets")
        return NOTHING

    def _judge_find(self, call: _ProgramCall) -> Judgement:
        """Judge `find` by the commands of its `-exec` and similar actions."""
        words = call.arguments
        if any(word.split for word in words):
            return Judgement(Verdict.MAY, "only the shell knows all actions of find")
        found = NOTHING
        for _, command in _find_commands(words):
            inner = self.judge_words(command, False, call.cwd, call.budget, call.depth + 1)
            found = max(found, inner, key=_rank)
        return found

    def _judge_git(self, call: _ProgramCall) -> Judgement:
        """Judge a call of Git: can it run another program?

        Settings, options of subcommands and addresses with a helper can. An unknown subcommand may,
        because users can add their own.
        """
        may = Verdict.MAY
        walked = walk(GIT_OPTIONS, call.arguments)
        if walked.unsure:
            return Judgement(may, f"git may run it: {walked.unsure}")
        for name, value in walked.values:
            if name == "-c" and not GIT_SAFE_SETTINGS.fullmatch(value.partition("=")[0]):
                return Judgement(may, f"the setting {value!r} may make git run something")
        if walked.ends or not walked.rest:
            return NOTHING
        name, arguments = walked.rest[0].text, walked.rest[1:]
        data = GIT.get(name)
        if data is None:
            return Judgement(may, f"git {name.replace(HOLE, '…')} may run other programs")
        if option := running_option(data, arguments):
            return Judgement(may, f"git {name} may run the value of {_shown(option)}")
        for word in arguments:
            if "::" in word.text and re.match(r"[A-Za-z0-9_-]+::", word.text):
                return Judgement(may, f"git runs a helper program for {_shown(word)}")
        return _judge_git_config(arguments) if name == "config" else NOTHING


# --- the commands that a command's arguments start


def passed_on(words: Sequence[ShellWord], named: int) -> list[list[ShellWord]] | None:
    """Return the commands that a command runs because of its arguments, such as `id` in
    `find -exec id ;`.

    `named`: the number of words at its beginning that a rule names. A command that begins among
    them belongs to the rule. Returns `None` if the arguments make the program run something that
    cannot be read.
    """
    name = _name(words[0].text)
    kind = kind_of(name)
    arguments = words[1:]
    if isinstance(kind, Launcher):
        return _launched(words, named, kind)
    if isinstance(kind, Data):
        return None if _runs_option(kind, words, named) else []
    if kind == Special("find"):
        return _executed(words, named)
    if kind == Special("git"):
        return None if _git_runs_option(words, named) else []
    if kind == Special("awk"):
        return [] if named > 1 or awk_runs_nothing(arguments) else None
    if kind == Special("sed"):
        return [] if named > 1 or sed_runs_nothing(arguments) else None
    return []


def _launched(
    words: Sequence[ShellWord], named: int, kind: Launcher
) -> list[list[ShellWord]] | None:
    """Return the command that a launcher such as `env` runs; None if that cannot be read."""
    walked = walk(kind, words[1:])
    if walked.unsure or walked.lines or walked.settings:
        return None
    if walked.ends or not walked.rest:
        return []
    begin = len(words) - len(walked.rest)
    inner = _with_input(walked.rest, walked.values) if kind.adds else list(walked.rest)
    return passed_on(inner, named - begin) if begin < named else [inner]


def _executed(words: Sequence[ShellWord], named: int) -> list[list[ShellWord]] | None:
    """Return the commands of `find -exec`."""
    if any(word.split for word in words):
        return None
    found: list[list[ShellWord]] = []
    for begin, inner in _find_commands(words):
        further = passed_on(inner, named - begin) if begin < named else [inner]
        if further is None:
            return None
        found += further
    return found


def _find_commands(words: Sequence[ShellWord]) -> Iterator[tuple[int, list[ShellWord]]]:
    """Yield the commands that `find` runs, each with the index of its first word."""
    at = 0
    while at < len(words):
        at += 1
        if words[at - 1].text not in _EXECUTES:
            continue
        begin = at
        while at < len(words) and not _ends_command(words, at):
            at += 1
        if begin < at:
            yield begin, [_replaced(word, "{}") for word in words[begin:at]]


def _runs_option(data: Data, words: Sequence[ShellWord], named: int) -> bool:
    """True if an option that the rule does not name makes a program run something."""
    rest = words[max(named, 1) :]
    if data.runs and any(word.split for word in rest):
        return True
    return running_option(data, rest) is not None


def _git_runs_option(words: Sequence[ShellWord], named: int) -> bool:
    """Return True if an option of git that the rule does not name may run something."""
    walked = walk(GIT_OPTIONS, words[1:])
    if walked.unsure:
        return True
    if any(
        name == "-c" and not GIT_SAFE_SETTINGS.fullmatch(value.partition("=")[0])
        for name, value in walked.values
    ):
        return True
    data = GIT.get(walked.rest[0].text) if walked.rest else None
    begin = len(words) - len(walked.rest)
    return data is not None and _runs_option(data, walked.rest, named - begin)


# --- kinds that do not depend on the target


def _judge_code(call: _ProgramCall, kind: Kind) -> Judgement:
    """Judge a program that runs its arguments or its input as code."""
    if call.arguments or call.fed:
        return Judgement(Verdict.MAY, f"{call.name} may run it")
    return NOTHING


def _judge_interpreter(call: _ProgramCall, kind: Kind) -> Judgement:
    """Judge an interpreter: of code in its arguments, or of a file of the project."""
    if runs_code(call.arguments):
        return Judgement(Verdict.MAY, f"{call.name} may run it")
    if runs_project(call.arguments):
        return Judgement(Verdict.HIDDEN, f"{call.name} runs a program of the project's")
    return NOTHING


def _judge_names(call: _ProgramCall, kind: Kind) -> Judgement:
    """Judge a builtin that may compute the index of a variable, and run the code in it."""
    assert isinstance(kind, VariableBuiltin)
    may = Judgement(Verdict.MAY, f"{call.name} may compute an index, and run what is in it")
    for at, word in enumerate(call.arguments):
        if _computes(word):
            return may
        if not kind.after:
            if not word.plain:
                return may
        elif word.text.startswith(kind.after):
            named = call.arguments[at + 1 : at + 2] if word.text == kind.after else [word]
            if any(not each.plain or "[" in each.text for each in named):
                return may
    return NOTHING


def _judge_awk(call: _ProgramCall) -> Judgement:
    """Judge `awk`, whose scripts can run programs."""
    if awk_runs_nothing(call.arguments):
        return NOTHING
    return Judgement(Verdict.MAY, f"{call.name} may run it")


def _judge_sed(call: _ProgramCall) -> Judgement:
    """Judge `sed`, whose scripts can run programs."""
    if sed_runs_nothing(call.arguments):
        return NOTHING
    return Judgement(Verdict.MAY, f"{call.name} may run it")


def _judge_git_config(arguments: Sequence[ShellWord]) -> Judgement:
    """Judge `git config`: reading is harmless, but many settings name a program to run."""
    if any(
        word.text in ("--get", "--get-all", "--list", "-l", "list", "get") for word in arguments
    ):
        return NOTHING
    for word in arguments:
        named = GIT_SETTING_NAME.fullmatch(word.text) or not word.plain
        if named and not GIT_SAFE_SETTINGS.fullmatch(word.text):
            return Judgement(Verdict.MAY, f"the setting {_shown(word)} may make git run something")
    return NOTHING


# --- words


def _is_code(word: ShellWord) -> bool:
    """True if an argument is more than a word, so that a program may read it as a line."""
    return SHELL_CHARACTERS.search(word.text) is not None


def _abbreviates(text: str, wanted: str) -> bool:
    """True if a word may stand for a longer one (`npm publi`)."""
    return len(text) >= 3 and wanted.startswith(text)


def _computes(word: ShellWord) -> bool:
    """Return True if a word contains the output of a command."""
    return "$(" in word.text or "`" in word.text


def _ends_command(words: Sequence[ShellWord], at: int) -> bool:
    """Return True if a command of `find -exec` ends at this word."""
    text = words[at].text
    return text == ";" or (text == "+" and "{}" in words[at - 1].text)


def _replaced(word: ShellWord, placeholder: str) -> ShellWord:
    """Return a word in which the input in place of `placeholder` is unknown."""
    if not placeholder or placeholder not in word.text:
        return word
    return replace(word, text=word.text.replace(placeholder, HOLE))


def _with_input(words: Sequence[ShellWord], values: Sequence[tuple[str, str]]) -> list[ShellWord]:
    """Return a command of `xargs`, with an unknown part where its input is inserted."""
    for option, value in values:
        if option in ("-I", "-i", "--replace"):
            return [_replaced(word, value or "{}") for word in words]
    return [*words, ShellWord(HOLE, split=True)] if words else []


def _written_programs(script: ShellScript) -> set[str]:
    """Return the names of files that a script writes, or may write."""
    found: set[str] = set()
    for command in script.commands:
        texts = [word.text for operator, word in command.redirects if ">" in operator]
        if command.words and _name(command.words[0].text) in COPIERS - {"cat"}:
            texts += [word.text for word in command.words[1:]]
        for text in texts:
            value = text.partition("=")[2] or text
            if "/" in value:
                found.add(os.path.basename(value.rstrip("/")))
            elif text is not value or not text.startswith("-"):
                found.add(value)
    return found - {""}


def _fits(pattern: str, text: str) -> bool:
    """True if a text matches a pattern in which a `HOLE` stands for anything."""
    return fits_pattern(pattern, text, HOLE, str.__eq__)


def _shown(word: ShellWord) -> str:
    """Return a word for people; unknown parts as `…`."""
    return repr(word.text.replace(HOLE, "…"))


def _rank(found: Judgement) -> int:
    """Return the verdict as the key for `max`."""
    return found.verdict


def _name(program: str) -> str:
    """Return the name of a program without its folder, in lower case.

    Some file systems ignore case, so `/bin/RM` may be `rm`.
    """
    return os.path.basename(program.rstrip("/")).casefold()


def _identify(program: str, cwd: str) -> tuple[set[str], bool]:
    """Return the names of a program, as called and as its target is called, and True if it is
    outside the system's program folders."""
    names = {_name(program)}
    if "/" not in program and not program.startswith("~"):
        return names, False
    path = os.path.join(cwd, os.path.expanduser(program))
    try:
        real = os.path.realpath(path)
    except (OSError, ValueError):
        return names, True
    names.add(_name(real))
    outside = os.path.dirname(os.path.normpath(path)) not in SYSTEM or not real.startswith(
        tuple(f"{folder}/" for folder in SYSTEM)
    )
    return names, outside or not os.path.exists(real)
