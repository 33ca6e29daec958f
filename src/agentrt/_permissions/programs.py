"""What a command would run: the program that it names, and those that this one runs for it.

No list of programs is complete, so three kinds are distinguished: those that do nothing with their
arguments but read or write data (`HARMLESS`), those that run what they are given in a language of
their own, where anything may be hidden (`INTERPRETERS`, shells without a line that can be read),
and all others, which may run whatever their arguments mention.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Final

from .known import (
    AWKS,
    COPIERS,
    EVALUATORS,
    GIT,
    GIT_SETTINGS,
    HARMLESS,
    INTERPRETERS,
    LAUNCHERS,
    LEADING,
    PLAIN_LAUNCHERS,
    POSIX_SHELLS,
    RISKY_VARIABLES,
    RUNNING_OPTIONS,
    SED_SAFE,
    SETTERS,
    SHELLS,
    SIMPLE,
    SUBSCRIPTS,
    SYSTEM,
)
from .quoting import DEEPEST
from .script import HOLE, Command, Script, Word
from .shell import read_script


class Verdict(IntEnum):
    """Whether a request would do what a rule says; the greater wins."""

    NO = 0
    HIDDEN = 1
    """It runs a program of the project's, which may do anything."""
    MAY = 2
    """Nobody knows."""
    YES = 3


@dataclass(frozen=True)
class Judgement:
    """A verdict, and why."""

    verdict: Verdict
    why: str = ""


NOTHING: Final = Judgement(Verdict.NO)


_PLAUSIBLE: Final = re.compile(r"[\w./+@:%-]+|~[\w./+@:%-]*/[\w./+@:%-]+|\[|\[\[")

MOST_WORDS: Final = 100_000
"""Words that are looked at, each as often as it may be where a command begins."""


class Target:
    """The commands that a rule says: those that begin with some words, or that are just them."""

    def __init__(self, words: Sequence[str], *, exact: bool) -> None:
        self.words = tuple(words)
        self.exact = exact
        self.name = _name(words[0])
        self._left = 0
        """Words that may still be looked at: commands in commands could grow without end."""

    @cached_property
    def _mention(self) -> re.Pattern[str]:
        # It, or a shell, as a word of its own. A file such as `x.sh` is none.
        names = "|".join(map(re.escape, sorted({self.name, *SHELLS, "eval"})))
        return re.compile(rf"(?<![A-Za-z0-9_.-])(?:{names})(?![A-Za-z0-9_-])", re.IGNORECASE)

    def mentioned(self, word: Word) -> bool:
        """Whether a word names it, or may; also behind the letter of an option."""
        behind = word.text[2:] if re.match("-[A-Za-z]", word.text) else ""
        named = self._mention.search(word.text) or self._mention.search(behind)
        return named is not None or self.may_be(word)

    def located(self, word: Word, cwd: str) -> bool:
        """Whether a word is a path to it, or a pattern that takes it in."""
        folder, slash, _ = word.text.rpartition("/")
        if not slash or not self.may_be(word):
            return False
        if word.plain:
            return True
        path = os.path.normpath(os.path.join(cwd, folder or "/"))
        pattern = ".*".join(map(re.escape, path.split(HOLE)))
        return any(re.fullmatch(pattern, each) for each in SYSTEM)

    def may_be(self, word: Word) -> bool:
        """Whether a word may be its name, or a path to it."""
        if word.plain:
            return _name(word.text) == self.name
        parts = word.text.rpartition("/")[2].casefold().split(HOLE)
        if len(parts) > 32:
            return True
        return re.fullmatch(".*".join(map(re.escape, parts)), self.name) is not None

    def _begins(self, arguments: Sequence[Word]) -> Verdict:
        """The verdict on a call of the program itself."""
        wanted = self.words[1:]
        if not wanted and not self.exact:
            return Verdict.YES
        if all(word.plain for word in arguments):
            given = tuple(word.text for word in arguments)
            if given == wanted or (not self.exact and given[: len(wanted)] == wanted):
                return Verdict.YES
            if self.exact:
                return Verdict.NO
        elif self.exact and len(wanted) < sum(word.plain for word in arguments):
            return Verdict.NO
        # The same with other options, in another order, with more words between: perhaps.
        rest = iter(arguments)
        for word in wanted:
            if not word.startswith("-") and not any(
                not each.plain or each.text == word for each in rest
            ):
                return self._spelled(word, arguments)
        return Verdict.MAY

    def _spelled(self, wanted: str, arguments: Sequence[Word]) -> Verdict:
        """A word is missing; an argument such as `alias.p=push` may still bring it in."""
        found = re.compile(rf"(?<![A-Za-z0-9_]){re.escape(wanted)}(?![A-Za-z0-9_])")
        return Verdict.MAY if any(found.search(word.text) for word in arguments) else Verdict.NO

    # --- verdicts

    def judge(self, script: Script, cwd: str, depth: int = 0) -> Judgement:
        """Whether a script runs it."""
        if not depth:
            self._left = MOST_WORDS
        found = NOTHING
        if script.unclear:
            found = Judgement(Verdict.MAY, f"it cannot be read for certain: {script.unclear}")
        for command in script.commands:
            found = max(found, self._judge(command, cwd, depth), key=_rank)
            if found.verdict is Verdict.YES:
                break
        return found

    def _judge(self, command: Command, cwd: str, depth: int) -> Judgement:
        found = NOTHING
        for name, value in command.sets:
            found = max(found, self._judge_setting(name, value), key=_rank)
        return max(found, self.judge_words(command.words, command.fed, cwd, depth), key=_rank)

    def _judge_setting(self, name: str, value: Word) -> Judgement:
        if RISKY_VARIABLES.fullmatch(name):
            return Judgement(Verdict.MAY, f"{name} may change what runs")
        if self._mention.search(value.text):
            return Judgement(Verdict.MAY, f"{name} is set to what mentions it")
        return NOTHING

    def judge_words(self, words: Sequence[Word], fed: bool, cwd: str, depth: int = 0) -> Judgement:
        """Whether a command runs it. `fed`: its input is what the line says."""
        if not words:
            return NOTHING
        self._left -= len(words)
        if depth > DEEPEST or self._left < 0:
            return Judgement(Verdict.MAY, "too many commands in each other")
        program = words[0]
        if not program.plain or "{}" in program.text:
            return Judgement(Verdict.MAY, "only the shell knows which program that is")
        if not _PLAUSIBLE.fullmatch(program.text):
            # No program is called so. Codex quotes some lines as a whole.
            inner = self.judge(read_script(program.text, depth + 1), cwd, depth + 1)
            odd = Judgement(Verdict.MAY, f"{_shown(program)} is no name of a program")
            return max(inner, odd, key=_rank)
        names, outside = _identify(program.text, cwd)
        found = NOTHING
        if self.name in names:
            found = Judgement(self._begins(words[1:]))
        if outside:
            hidden = Judgement(Verdict.HIDDEN, f"{program.text} is a program of the project's")
            found = max(found, hidden, key=_rank)
        for name in sorted(names):
            found = max(found, self._judge_program(name, words, fed, cwd, depth), key=_rank)
        return found

    def _judge_program(
        self, name: str, words: Sequence[Word], fed: bool, cwd: str, depth: int
    ) -> Judgement:
        arguments = words[1:]
        may = Judgement(Verdict.MAY, f"{name} may run it")
        if name in SHELLS:
            return self._judge_shell(name, arguments, cwd, depth)
        if name == "eval":
            if not all(word.plain for word in arguments):
                return may
            text = " ".join(word.text for word in arguments)
            return self.judge(read_script(text, depth + 1), cwd, depth + 1)
        if name in EVALUATORS:
            return may if arguments or fed else NOTHING
        if INTERPRETERS.fullmatch(name):
            return _judge_interpreter(name, arguments, fed)
        if name in AWKS:
            return NOTHING if _awk_runs_nothing(arguments) else may
        if name in ("sed", "gsed"):
            return NOTHING if _sed_runs_nothing(arguments) else may
        if name == "find":
            return self._judge_find(arguments, cwd, depth)
        if name in LAUNCHERS:
            return self._judge_launcher(name, arguments, cwd, depth)
        for word in arguments if name in COPIERS else ():
            if self.located(word, cwd):
                return Judgement(Verdict.MAY, f"{_shown(word)} is a path to it")
        if name in SUBSCRIPTS and any(
            "$(" in word.text or "`" in word.text or word.text == "-v" for word in arguments
        ):
            return may
        if name in SETTERS:
            for word in arguments:
                variable, _, value = word.text.partition("=")
                found = self._judge_setting(variable, Word(value))
                if found.verdict or not Word(variable).plain:
                    return found if found.verdict else may
            return NOTHING
        if name in SUBSCRIPTS and name not in HARMLESS:
            return NOTHING if name in ("read", "unset", "wait") else self._mentions(name, arguments)
        harmless = name in HARMLESS or (name == "git" and bool(words[1:]) and words[1].text in GIT)
        if harmless and not any(RUNNING_OPTIONS.match(word.text) for word in arguments):
            return NOTHING
        if fed and any(word.text in ("-", "/dev/stdin", "/dev/fd/0") for word in arguments):
            return Judgement(Verdict.MAY, f"{name} reads what the line gives it")
        return self._mentions(name, arguments)

    def _mentions(self, name: str, arguments: Sequence[Word]) -> Judgement:
        settings = name == "git" and any(word.text == "config" for word in arguments)
        for word in arguments:
            if (
                self.mentioned(word)
                or RUNNING_OPTIONS.match(word.text)
                or (settings and GIT_SETTINGS.search(word.text))
            ):
                return Judgement(Verdict.MAY, f"{name} may run what {_shown(word)} says")
        return NOTHING

    def _judge_shell(self, name: str, arguments: Sequence[Word], cwd: str, depth: int) -> Judgement:
        for at, word in enumerate(arguments):
            if not word.plain or not re.fullmatch(r"-[leuxc]+", word.text):
                break
            if "c" in word.text and name in POSIX_SHELLS:
                if at + 1 == len(arguments) or not arguments[at + 1].plain:
                    break
                text = arguments[at + 1].text
                return self.judge(read_script(text, depth + 1), cwd, depth + 1)
        return Judgement(Verdict.MAY, f"{name} runs what the line does not show")

    def _judge_launcher(
        self, name: str, arguments: Sequence[Word], cwd: str, depth: int
    ) -> Judgement:
        """A program that runs the one which its arguments name, behind options of its own."""
        if name == "command" and arguments and re.fullmatch("-[vV]+", arguments[0].text):
            return NOTHING
        found, certain, programs = NOTHING, name in PLAIN_LAUNCHERS, list[str]()
        for at, word in enumerate(arguments):
            if not word.plain:
                return Judgement(Verdict.MAY, f"only the shell knows what {name} runs")
            if not SIMPLE.fullmatch(word.text):  # `flock -c`, `env -S`: a line in one word
                inner = self.judge(read_script(word.text, depth + 1), cwd, depth + 1)
                if inner.verdict:
                    found = max(found, Judgement(Verdict.MAY, f"{name} may run it"), key=_rank)
            if LEADING.fullmatch(word.text):
                found = max(found, self._judge_leading(name, word), key=_rank)
                certain = certain and not word.text.startswith("-")
                continue
            program = _name(word.text)
            if program in LAUNCHERS and program not in ("find", "xargs"):
                certain = certain and program in PLAIN_LAUNCHERS
                continue
            if len(programs) > 8:  # no option takes so many words
                if self.mentioned(word):
                    return Judgement(Verdict.MAY, f"{name} may run it")
                continue
            inner = self._judge_launched(name, arguments[at:], cwd, depth)
            if inner.verdict is Verdict.YES and programs:
                inner = Judgement(Verdict.MAY, f"{name} may run it")
            found = max(found, inner, key=_rank)
            if certain or found.verdict is Verdict.YES:
                break  # else this word may be what an option takes
            if name == "xargs" and program in programs:
                return Judgement(Verdict.MAY, "xargs may put any program there")
            programs.append(program)
        return found

    def _judge_leading(self, name: str, word: Word) -> Judgement:
        """An option of a launcher, or a variable that it sets."""
        variable, is_set, value = word.text.partition("=")
        if is_set and not variable.startswith("-"):
            return self._judge_setting(variable, Word(value))
        # `env -S` and `flock -c` have options with a command in them.
        text = word.text.casefold()
        attached = len(text) > 2 and text.endswith((self.name, *SHELLS))
        splits = name == "env" and re.match("-[a-z0]*s|--split", text)
        if self.mentioned(word) or attached or splits or not SIMPLE.fullmatch(text):
            return Judgement(Verdict.MAY, f"{name} may run what {_shown(word)} says")
        return NOTHING

    def _judge_launched(self, name: str, words: Sequence[Word], cwd: str, depth: int) -> Judgement:
        found = self.judge_words(words, False, cwd, depth + 1)
        if name == "xargs" and found.verdict is not Verdict.YES:
            program = _name(words[0].text)
            takes_any = program in SHELLS | LAUNCHERS | EVALUATORS or program in (
                self.name,
                "eval",
            )
            if takes_any or "%" in program or INTERPRETERS.fullmatch(program):
                return Judgement(Verdict.MAY, f"xargs adds arguments to {program}")
        return found

    def _judge_find(self, arguments: Sequence[Word], cwd: str, depth: int) -> Judgement:
        if any(word.split for word in arguments):
            return Judgement(Verdict.MAY, "only the shell knows all that find is to do")
        found = NOTHING
        for at, word in enumerate(arguments):
            if word.text in ("-exec", "-execdir", "-ok", "-okdir"):
                inner = self.judge_words(arguments[at + 1 : at + 65], False, cwd, depth + 1)
                found = max(found, inner, key=_rank)
        return found


def _shown(word: Word) -> str:
    return repr(word.text.replace(HOLE, "…"))


def _rank(found: Judgement) -> int:
    return found.verdict


def _name(program: str) -> str:
    return os.path.basename(program.rstrip("/")).casefold()


def _identify(program: str, cwd: str) -> tuple[set[str], bool]:
    """The names of a program, as it is called and as what it leads to is called; and whether it
    lies anywhere but where the system's programs are."""
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


def _judge_interpreter(name: str, arguments: Sequence[Word], fed: bool) -> Judgement:
    """Python, node and the like: code in the arguments or on the input may be anything; a script
    or a module is the project's."""
    may = Judgement(Verdict.MAY, f"{name} may run it")
    for word in arguments:
        if not word.plain or word.text == "-":
            return may
        if word.text in ("--version", "-V", "--help", "-h") and len(arguments) == 1:
            return NOTHING
        if word.text == "-m":
            break
        if not word.text.startswith("-"):
            break
        if not re.fullmatch(r"-[uBsISEOWq]+|--(?:no-warnings|test|watch)", word.text):
            return may
    else:
        return may
    return Judgement(Verdict.HIDDEN, f"{name} runs a program of the project's")


def _awk_runs_nothing(arguments: Sequence[Word]) -> bool:
    options = iter(arguments)
    for word in options:
        if not word.plain:
            return False
        if re.fullmatch(r"-[Fv]", word.text):
            next(options, None)
        elif re.fullmatch(r"-[Fv].+", word.text, re.DOTALL):
            continue
        elif word.text.startswith("-"):
            return False
        else:
            program = word.text
            return not re.search(r"system|getline|[|@]", program)
    return True


def _sed_runs_nothing(arguments: Sequence[Word]) -> bool:
    scripts: list[str] = []
    explicit = False
    rest: list[str] = []
    options: Iterator[Word] = iter(arguments)
    for word in options:
        text = word.text
        if text in ("-n", "-E", "-r", "-s", "-u", "-z", "--quiet", "--silent") or (
            text.startswith(("-i", "-ni", "-Ei", "-ri")) and word.plain
        ):
            continue
        if text in ("-e", "--expression"):
            explicit = True
            script = next(options, None)
            if script is None or not script.plain:
                return False
            scripts.append(script.text)
        elif text.startswith("-"):
            return False
        elif not explicit and not scripts and not rest:
            if not word.plain:
                return False
            rest.append(text)
        else:
            rest.append(text)
    if not explicit:
        scripts = rest[:1]
    return sum(map(len, scripts)) < 1000 and all(
        SED_SAFE.fullmatch(part.strip())
        for script in scripts
        for part in ([script] if SED_SAFE.fullmatch(script.strip()) else script.split(";"))
    )
