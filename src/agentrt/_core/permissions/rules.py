"""Permission rules: a tool's name and, in parentheses, the part of its input that they match.

Agents are not trusted: their own descriptions (a kind, a title, a location) may make a rule deny,
but never allow. A rule that denies applies even if it only may match; a rule that allows applies
only if nothing else can be meant.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from ..sandbox.access import NETWORK, PROGRAM, READ, WRITE, Access, HostAccess, PathAccess
from ..sandbox.hosts import HostPattern
from .pages import named_pages, normal_host, only_pages
from .paths import PathPattern, ResolvedPath, absolute_path, fits_name
from .programs import NOTHING, Judgement, Target, Verdict, passed_on
from .request_facts import JudgedRequest, RequestFacts, is_shell, literal_script
from .script import HOLE, ShellCommand, ShellScript
from .shell import read_script
from .table import READ_ONLY, SIMPLE, Data, kind_of
from .words import PROGRAMS, TOOL_CLASSES, is_doubtful, meaning, right_word

SYNTAX: Final = """\
write NAME or NAME(TARGET): Bash(git status:*), Bash(npm test), Edit(src/**), Write(*.md), \
Read(~/notes/**), Fetch(*.example.com), mcp__SERVER__TOOL, or an agent's own name for a tool"""

_NAME: Final = re.compile(r"[A-Za-z_*][A-Za-z0-9_.*?/-]*")
_IN_CODE: Final = re.compile(r"(?<![~.\w-])[~.\w-]*+/[\w./~-]*+")
MAX_CD_FOLDERS: Final = 8
"""Maximum number of folders that a script changes to and that its paths are resolved against."""

_UNSURE: Final = "the agent does not say for certain what it is"


class PermissionRule:
    """One rule, in the syntax that `rules` documents.

    `denies`: true for `deny` and `ask` rules, which also apply to a request that only may match.
    Raises `ValueError` if the text is not a rule.
    """

    def __init__(self, text: str, *, denies: bool = False) -> None:
        """Read a rule. The errors suggest the rule that was probably meant."""
        if not isinstance(text, str):
            raise _wrong(text, "a rule is a string")
        parsed = re.fullmatch(r"\s*([^()]*?)\s*(?:\((.*)\))?\s*", text, re.DOTALL)
        if parsed is None or not parsed[1] or (parsed[2] is not None and not parsed[2].strip()):
            raise _wrong(text)
        self._text = text.strip()
        self.name: str = parsed[1]
        what = parsed[2].strip() if parsed[2] is not None else "*"
        if not _NAME.fullmatch(self.name):
            raise _wrong(text, *_guess(self.name, what))
        if self.name not in TOOL_CLASSES and (right := right_word(self.name)):
            raise _wrong(text, f"{self.name} is called {right} in rules, for every agent")
        if self.name in PROGRAMS:
            raise _wrong(
                text,
                f"{self.name} is a program, not a tool: write {_command_rule(self.name, what)}, or"
                f" mcp__agentrt__{self.name} for your own tool with this name",
            )
        self._all = what == "*"
        self._what = what
        self._target: Target | None = None
        self._pattern: PathPattern | None = None
        self._network: HostPattern | None = None
        if not self._all:
            self._read_what(text, what, denies)

    def _read_what(self, text: str, what: str, denies: bool) -> None:
        """Read the target in the brackets, by the kind of thing that the rule's name stands for."""
        if self.is_about("Bash"):
            self._read_command(text, denies)
        elif self.is_about("Fetch"):
            self._host = _read_host(text, self.name, what)
        elif self.name == NETWORK:
            self._network = _read_network(text, what)
        elif self.name == PROGRAM:
            _check_program(text, what)
        else:
            self._pattern = _read_path(text, what)

    def _read_command(self, text: str, denies: bool) -> None:
        """Read the target of a rule for commands: the words that they begin with, or equal.

        A rule that allows may also be a whole line with several commands, which then must be equal
        to the request's; one that denies may not, because a line can be written in endless ways.
        """
        begin = re.sub(r"(:| )\*$", "", self._what)
        exact = begin == self._what
        script = read_script(begin)
        words = _simple_words(script)
        if any(HOLE in word for word in words):
            first = words[0].strip(HOLE) or "git status"
            raise _wrong(text, f"a * stands only at the end: Bash({first}:*)")
        if words:
            self._target = Target(words, exact=exact)
        elif denies or not exact or script.unclear or not script.commands:
            raise _wrong(
                text, "a rule takes the plain words of one command; write a rule for each command"
            )

    def __str__(self) -> str:
        return self._text

    @property
    def doubt(self) -> str:
        """A warning that a program may be meant and not a tool of this name; empty otherwise."""
        if not is_doubtful(self.name):
            return ""
        return (
            f"no known agent has a tool {self.name!r}; for a program of that name, write"
            f" {_command_rule(self.name, self._what)}"
        )

    def is_about(self, word: str) -> bool:
        """True if the rule's name stands for `word`: `Bash` (commands), `Fetch` (pages), …"""
        return word in (self.name, meaning(self.name))

    # --- verdicts

    def covers(self, request: JudgedRequest | RequestFacts) -> bool:
        """True if the rule certainly matches everything that the request would do."""
        return covered([self], request)

    def touches(self, request: JudgedRequest | RequestFacts) -> Judgement:
        """Judge if the rule matches, or may match, any part of the request."""
        seen = request if isinstance(request, RequestFacts) else RequestFacts(request)
        boundary = seen.boundary
        if self.name in (NETWORK, PROGRAM) or boundary is not None:
            touched = boundary is not None and self._is_at(boundary, seen.cwd)
            return Judgement(Verdict.YES) if touched else NOTHING
        named = self._named(seen)
        if named.verdict is Verdict.NO:
            return self._look_around(seen)
        found = self._judge(seen)
        if found.verdict is Verdict.YES and named.verdict is not Verdict.YES:
            return named
        return found

    def _look_around(self, seen: RequestFacts) -> Judgement:
        """Judge a request with another name: a command in its input, or the files of a command."""
        if self.is_about("Bash"):
            return self._judge_lines(seen)
        about_files = any(map(self.is_about, ("Edit", "Write", "Read")))
        if self._pattern is not None and about_files and seen.has_command:
            return self._judge_words(seen, self._pattern)
        return NOTHING

    def _judge_lines(self, seen: RequestFacts) -> Judgement:
        """Judge every string of the input as a command. If its key does not mark it as a command,
        the verdict is at most `MAY`."""
        if seen.lines is None:
            return Judgement(Verdict.MAY, "its input has too many parts")
        found = NOTHING
        for line in seen.lines:
            if self._target is None:
                if line.is_command:
                    return Judgement(Verdict.MAY, "its input may contain a command")
                continue
            judged = self._target.judge(seen.budget.read(line.text), seen.folder, seen.budget)
            if line.words:
                words = literal_script(line.words)
                inner = self._target.judge(words, seen.folder, seen.budget)
                judged = max(judged, inner, key=lambda each: each.verdict)
            if not line.is_command:
                sure = judged.verdict is Verdict.YES
                why = "its input contains such a command"
                judged = Judgement(Verdict.MAY, why) if sure else NOTHING
            found = max(found, judged, key=lambda each: each.verdict)
        return found

    def _is_at(self, boundary: Access, cwd: str = "/") -> bool:
        """True if the rule is about this access outside of a sandbox, or a part of it."""
        match boundary:
            case HostAccess(host, port):
                named = fits_name(self.name, NETWORK)
                return named and (self._network is None or self._network.matches(host, port))
            case PathAccess(path, writing):
                names = (WRITE, "Edit") if writing else (READ,)
                if not any(fits_name(self.name, name) for name in names):
                    return False
                place = ResolvedPath(path)
                return self._pattern is None or (
                    any(self._pattern.fits(place, cwd)) or self._pattern.may_lie_in(place, cwd)
                )
            case _:
                named = fits_name(self.name, PROGRAM)
                return named and fits_name(self._what, boundary.name)

    def _gives(self, boundary: Access, cwd: str) -> bool:
        """True if the rule gives this access outside of a sandbox. For files, it must name them:
        `Write` alone is about the files inside."""
        if isinstance(boundary, PathAccess):
            if self.name != boundary.tool:
                return not self.name.strip("*")
            return self._pattern is not None and all(
                self._pattern.fits(ResolvedPath(boundary.path), cwd)
            )
        return self._is_at(boundary)

    @property
    def denied_program(self) -> str | None:
        """The program that a rule like `Bash(NAME:*)` is about; None for other rules."""
        target = self._target
        if target is None or target.exact or len(target.words) != 1:
            return None
        name = os.path.basename(target.words[0])
        return name if re.fullmatch(r"[\w.+-]+", name) else None

    def names(self, seen: RequestFacts) -> bool:
        """True if the request certainly has the rule's name."""
        if not self.name.strip("*"):
            return True
        return not seen.is_too_long and self._is_one_of(seen.names)

    def _named(self, seen: RequestFacts) -> Judgement:
        """Judge if the request has the rule's name, or may have it."""
        if self.names(seen) or self._is_one_of(seen.shown):
            return Judgement(Verdict.YES)
        if seen.is_too_long:
            return Judgement(Verdict.MAY, "its name is too long")
        if self._is_one_of(seen.may_be):
            shown = seen.request.shown_command is not None and self.is_about("Bash")
            return Judgement(Verdict.YES if shown else Verdict.MAY, _UNSURE)
        if seen.unknown:
            return Judgement(Verdict.MAY, "the agent does not say what it is")
        # The rule uses an agent's own tool name, and this request does not name its tool.
        if not seen.tool and self.name not in TOOL_CLASSES and meaning(self.name) in seen.all_names:
            return Judgement(Verdict.MAY, "the agent does not name its tools")
        return NOTHING

    def _is_one_of(self, names: Iterable[str]) -> bool:
        """Return True if the rule's name matches one of these names."""
        return any(fits_name(self.name, name) for name in names)

    def _judge(self, seen: RequestFacts) -> Judgement:
        """Judge the request by this rule alone. The verdict may be uncertain.

        A rule about commands also looks at the lines that a command runs. For tools that have
        commands and paths, the stronger verdict counts.
        """
        if self._all:
            return Judgement(Verdict.YES)
        if self.is_about("Bash"):
            found = self._judge_command(seen)
            return max(found, self._judge_lines(seen), key=lambda each: each.verdict)
        if self.is_about("Fetch"):
            return self._judge_page(seen)
        assert self._pattern is not None
        if not seen.has_command:
            return self._judge_paths(seen, self._pattern)
        words = self._judge_words(seen, self._pattern)
        if "Bash" in seen.names and not seen.names & {"Edit", "Write", "Read"}:
            return words
        # An editor may call its own verb a command, as in {"command": "create", "path": …}.
        paths = self._judge_paths(seen, self._pattern)
        return max(words, paths, key=lambda each: each.verdict)

    def _judge_paths(self, seen: RequestFacts, pattern: PathPattern) -> Judgement:
        """Judge the paths in the input, in the changes that it shows, and in the agent's claims."""
        places = [*(seen.places or ()), *(seen.hinted or ())]
        if any(True in pattern.fits(place, seen.cwd) for place in places):
            return Judgement(Verdict.YES)
        if seen.places is None:
            return Judgement(Verdict.MAY, "it does not say which files")
        if any(pattern.may_lie_in(place, seen.cwd) for place in places):
            return Judgement(Verdict.MAY, "it names a folder in which such files may be")
        if seen.possible_paths is None:
            return Judgement(Verdict.MAY, "its input has too many parts")
        return _may_name(seen, pattern, seen.possible_paths, "its input")

    def _judge_command(self, seen: RequestFacts) -> Judgement:
        """Judge the command of a request, or else the command that it shows.

        A shown command may come from the model, so it can only make the verdict stricter.
        """
        script = seen.script
        if script is None and not seen.has_command and seen.shown_script is not None:
            assert self._target is not None
            shown = self._target.judge(seen.shown_script, seen.folder, seen.budget)
            if seen.request.shown_command is not None or shown.verdict is Verdict.YES:
                return shown
        if script is None:
            return Judgement(Verdict.MAY, "the agent does not say which command it is")
        if self._target is None:  # several commands, verbatim: such a rule only allows
            return Judgement(Verdict.YES) if seen.text == self._what else NOTHING
        return self._target.judge(script, seen.folder, seen.budget)

    def _judge_words(self, seen: RequestFacts, pattern: PathPattern) -> Judgement:
        """Judge a command by a rule for paths: each word and each redirect target may be a path."""
        script = seen.script
        if script is None or script.unclear:
            return self._judge_text(seen, pattern)
        folders = {seen.folder, *_entered(script, seen.folder)}
        for command in script.commands:
            found = self._judge_files(command, folders, seen, pattern)
            if found.verdict:
                return found
        return NOTHING

    def _judge_files(
        self,
        command: ShellCommand,
        folders: Collection[str],
        seen: RequestFacts,
        pattern: PathPattern,
    ) -> Judgement:
        """Judge the words of one command, and the files that it is redirected to, as paths."""
        chars = sum(len(word.text) for word in command.words)
        if not seen.budget.spend(len(command.words) * len(folders), chars):
            return Judgement(Verdict.MAY, "its command is too long")
        reads = not (self.is_about("Edit") or self.is_about("Write"))
        targets = [word for sign, word in command.redirects if reads or ">" in sign]
        if not all(word.plain for word in targets):
            return Judgement(Verdict.MAY, "only the shell knows which file it writes")
        name = os.path.basename(command.words[0].text) if command.words else ""
        words = command.words if reads or name not in READ_ONLY else []
        runs = name != "git" and not isinstance(kind_of(name.casefold()), Data)
        for word in (*words, *targets):
            paths = _absolute_paths(word.text, folders, code=runs)
            found = _may_name(seen, pattern, paths, "its command")
            if found.verdict:
                return found
        return NOTHING

    def _judge_text(self, seen: RequestFacts, pattern: PathPattern) -> Judgement:
        """Judge a command that cannot be parsed, by the names in the rule's path."""
        text = (seen.text or str(seen.input)).casefold()
        names = [part.casefold() for part in pattern.parts]
        if not names or any(name in text for name in names):
            return Judgement(Verdict.MAY, "its command cannot be read for certain")
        return NOTHING

    def _judge_page(self, seen: RequestFacts) -> Judgement:
        """Judge the pages that a request names, each with every host that it may lead to."""
        pages = named_pages(seen.input)
        if not pages:
            return Judgement(Verdict.MAY, "it does not say which page")
        if any(self._is_host(*host) for page in pages for host in page.hosts):
            return Judgement(Verdict.YES)
        if not all(page.certain for page in pages):
            return Judgement(Verdict.MAY, "its URL can be read in more than one way")
        return NOTHING

    def _is_host(self, host: str, port: str) -> bool:
        """Return True if the rule's target matches a host; without a port it matches any."""
        name, _, wanted = self._host.partition(":")
        return fits_name(name, host) and (not wanted or wanted == (port or "443"))

    def _covers_all(self, seen: RequestFacts) -> bool:
        """True if the rule alone covers the request, except for a command made of simple words."""
        if not self.names(seen):
            return False
        if self._all:
            return True
        if self.is_about("Bash"):
            return self._target is None and seen.runs_as_told and seen.text == self._what
        if self.is_about("Fetch"):
            pages = only_pages(seen.input)
            return bool(pages) and all(
                page.certain and all(self._is_host(*host) for host in page.hosts) for page in pages
            )
        if self._pattern is None or seen.has_command:
            return False
        places = seen.places
        return places is not None and all(
            all(self._pattern.fits(place, seen.cwd)) for place in places
        )

    def words_covered(self, command: ShellCommand) -> int:
        """Return the number of words that the command and the rule begin with; 0 if the rule does
        not cover the command."""
        target = self._target
        if target is None or not command.words or len(target.words) > len(command.words):
            return 0
        if target.exact and len(target.words) != len(command.words):
            return 0
        begin = command.words[: len(target.words)]
        covers = all(
            word.plain and word.text == wanted
            for word, wanted in zip(begin, target.words, strict=True)
        )
        return len(begin) if covers else 0


def covered(rules: Sequence[PermissionRule], request: JudgedRequest | RequestFacts) -> bool:
    """True if the rules together certainly match everything that the request would do.

    In a line with several commands, each command may be covered by a different rule.
    """
    seen = request if isinstance(request, RequestFacts) else RequestFacts(request)
    if seen.boundary is not None:
        return any(rule._gives(seen.boundary, seen.cwd) for rule in rules)
    rules = [rule for rule in rules if rule.name not in (NETWORK, PROGRAM)]
    if any(rule._covers_all(seen) for rule in rules):
        return True
    about = [rule for rule in rules if rule.is_about("Bash") and rule.names(seen)]
    script = seen.script
    if not about or script is None or not seen.runs_as_told:
        return False
    return _covers_script(about, script, 0)


def _covers_script(rules: Sequence[PermissionRule], script: ShellScript, depth: int) -> bool:
    """Return True if the rules cover every command of a script that is certain."""
    if script.unclear or not script.sure or not script.commands or depth > 3:
        return False
    return all(_covers_command(rules, command, depth) for command in script.commands)


def _covers_command(rules: Sequence[PermissionRule], command: ShellCommand, depth: int) -> bool:
    """Return True if the rules cover a command and every command that it starts.

    Settings of variables and redirections to files are never covered.
    """
    if command.sets or depth > 3 or not all(word.sure for word in command.words):
        return False
    if not all(map(_is_harmless, command.redirects)):
        return False
    named = [count for rule in rules if (count := rule.words_covered(command))]
    if named:
        inner = passed_on(command.words, max(named))
        return inner is not None and all(
            _covers_command(rules, ShellCommand(words), depth + 1) for words in inner
        )
    match [word.text for word in command.words]:
        case [shell, "-c" | "-lc", text] if is_shell(shell):
            return _covers_script(rules, read_script(text, depth + 1), depth + 1)
    return False


def _is_harmless(redirect: tuple[str, object]) -> bool:
    """Return True if a redirection is to `/dev/null`, or between open files."""
    operator, target = redirect[0].lstrip("0123456789"), getattr(redirect[1], "text", "")
    if operator in (">", ">>", "<", "&>", "&>>"):
        return bool(target == "/dev/null")
    return operator in (">&", "<&") and re.fullmatch(r"[0-9]+|-", target) is not None


def worst(
    rules: Iterable[PermissionRule], seen: RequestFacts
) -> tuple[PermissionRule | None, Judgement]:
    """Return the rule that matches the request with the strongest verdict, and that verdict."""
    found: tuple[PermissionRule | None, Judgement] = (None, NOTHING)
    for rule in rules:
        verdict = rule.touches(seen)
        if verdict.verdict > found[1].verdict:
            found = (rule, verdict)
    return found


def _may_name(
    seen: RequestFacts, pattern: PathPattern, paths: Iterable[str], what: str
) -> Judgement:
    """Judge absolute paths: each may match the pattern, or lead to a path that does."""
    for path in paths:
        places = seen.folded_places(path)
        if places is None:
            return Judgement(Verdict.MAY, f"{what} names too many paths")
        if pattern.may_fit(places, seen.folded_folders):
            return Judgement(Verdict.MAY, f"{what} may name {path}")
    return NOTHING


def _entered(script: ShellScript, folder: str) -> list[str]:
    """Return the folders that a script changes to, at most `MAX_CD_FOLDERS`."""
    found: list[str] = []
    for command in script.commands:
        texts = [word.text for word in command.words]
        if len(texts) > 1 and texts[0] in ("cd", "pushd") and HOLE not in texts[-1]:
            found += [absolute_path(texts[-1], each) for each in (folder, *found)]
            if len(found) >= MAX_CD_FOLDERS:
                break
    return list(dict.fromkeys(found))[:MAX_CD_FOLDERS]


def _absolute_paths(text: str, folders: Iterable[str], *, code: bool) -> list[str]:
    """Return the paths that a word of a command may name, in any of the folders."""
    texts = _path_texts(text, code=code)
    return [absolute_path(each, folder) for folder in folders for each in texts]


def _path_texts(text: str, *, code: bool) -> set[str]:
    """Return the paths that a word may contain: the word itself and the value of an option or a
    setting; in `code`, everything that looks like a path."""
    if code and not SIMPLE.fullmatch(text):
        return set(_IN_CODE.findall(text))
    found = {text, text.partition("=")[2], text.partition(":")[2]}
    if re.match("-[A-Za-z].", text):
        found.add(text[2:])
    return {each.partition(HOLE)[0] if HOLE in each else each for each in found} - {""}


def _simple_words(script: ShellScript) -> list[str]:
    """Return the words of a script that is one simple command; otherwise an empty list."""
    if script.unclear or not script.sure or len(script.commands) != 1:
        return []
    [command] = script.commands
    if command.sets or command.redirects:
        return []
    return [word.text for word in command.words]


def _read_network(text: str, what: str) -> HostPattern:
    """Read the host of a rule about the sandbox's network. Raises `ValueError`."""
    try:
        return HostPattern(what)
    except ValueError as error:
        raise _wrong(text, str(error)) from None


def _check_program(text: str, what: str) -> None:
    """Raise `ValueError` unless the target is the name of one program."""
    if not re.fullmatch(r"[\w.+*-]+", what):
        raise _wrong(text, f"name one program, such as {PROGRAM}(git)")


def _read_path(text: str, what: str) -> PathPattern:
    """Read the target of a rule for files. Raises `ValueError`."""
    if what.endswith(":*") or ".." in what.split("/"):
        raise _wrong(text, "a path must not contain .. or :*")
    return PathPattern(what)


def _read_host(text: str, name: str, what: str) -> str:
    """Return the host of a rule, with its port. Raises `ValueError` for anything else."""
    host, colon, port = re.sub("^domain:", "", what).casefold().partition(":")
    if not re.fullmatch(r"[\w.*-]+", host) or not re.fullmatch("(?::[0-9]+)?", colon + port):
        raise _wrong(text, f"the target must be a host: {name}(docs.example.com), (*.example.com)")
    return f"{normal_host(host)}{colon}{port}"


def _wrong(text: object, why: str = "", *more: str) -> ValueError:
    """Return the error for a text that is not a rule, with the reason and the syntax."""
    return ValueError(
        "; ".join([f"{text!r} is not a permission rule", *filter(None, (why, *more)), SYNTAX])
    )


def _command_rule(program: str, what: str) -> str:
    """Return the rule for a program, with the arguments that were written as its own input."""
    words = what.rstrip("*: ").strip()
    return f"Bash({program} {words}:*)" if words else f"Bash({program}:*)"


def _guess(name: str, what: str) -> list[str]:
    """Return the rule that was probably meant, as a part of an error; empty without a guess."""
    before, colon, behind = name.partition(":")
    if colon and (right := right_word(before.strip()) or (before in TOOL_CLASSES and before)):
        words = behind.strip().removesuffix("*").strip() or "COMMAND"
        return [f"{right}({words}:*) may be meant"]
    program = re.split(r"[ :]", name, maxsplit=1)[0].rpartition("/")[2]
    if program in PROGRAMS:
        words = name.partition(program)[2].strip(" :")
        return [f"{_command_rule(program, words)} may be meant"]
    return []
