"""Listing of the files below a folder, for name completion.

Files that git or an `.ignore` file ignores are left out. The folder may be untrusted: symbolic
links are not followed, even if one replaces a folder in the meantime; only folders and ignore files
are opened; no program is run; and all work is bounded.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import translate
from functools import cache
from heapq import nsmallest
from typing import Final

MAX_FILES: Final = 20_000
"""Maximum number of listed files: enough for a large checkout, and a bound for a home folder."""

MAX_ENTRIES: Final = 200_000
"""Maximum number of entries examined, including ignored ones."""

MAX_DEPTH: Final = 64
"""Maximum folder depth; each level costs a file descriptor."""

MAX_IGNORE_RULES: Final = 5_000
"""Maximum number of ignore rules that apply to a file; the outermost are dropped first."""

FUZZY_CHARS: Final = 64
"""Maximum length for matching characters one by one; longer words must occur as a whole."""

_IGNORE_FILE_BYTES: Final = 64 * 1024
"""Maximum size of a `.gitignore` in bytes."""

_LINE_BYTES: Final = 4096
"""Maximum length of a line in git's own files: a path."""

_IGNORE_FILES: Final = (".gitignore", ".ignore")

_NEVER: Final = frozenset(
    (".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", ".tox", ".nox")
)
"""Folders that are always left out, even if nothing ignores them."""

_OPEN: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class IgnoreRule:
    """A line of a `.gitignore` in `folder`, which is given by its parts from the top."""

    def __init__(self, folder: Sequence[str], line: str) -> None:
        self.ignores = not line.startswith("!")
        line = line if self.ignores else line[1:]
        self._folders_only = line.endswith("/")
        line = line.rstrip("/") if self._folders_only else line
        parts = line.removeprefix("/").split("/")
        if "/" not in line:
            parts.insert(0, "**")
        if parts[-1] == "**":  # the contents of a folder, without the folder itself
            parts.append("*")
        self._depth = len(folder)
        self._matchers = [None if part == "**" else _matcher(part) for part in parts]

    def covers(self, path: Sequence[str], *, is_folder: bool) -> bool:
        """Return True if the rule applies to this path, whose parts are counted from the top."""
        if self._folders_only and not is_folder:
            return False
        matchers = self._matchers
        part, name = 0, self._depth
        stars, begun = -1, 0  # position of the last `**`, and the end of its match so far
        while name < len(path):
            matcher = matchers[part] if part < len(matchers) else _never
            if matcher is None:
                stars, begun = part, name
                part += 1
            elif matcher(path[name]):
                part += 1
                name += 1
            elif stars >= 0:
                begun += 1
                part, name = stars + 1, begun
            else:
                return False
        return part == len(matchers)


def _never(name: str) -> object:
    return None


_TOKEN: Final = re.compile(
    r"\\(?P<escaped>.)|\[(?P<not>[!^]?)(?P<class>\]?(?:\\.|[^\]\\])*)\]|(?P<open>\[.*+)|\*+",
    re.DOTALL,
)
_MEMBER: Final = re.compile(r"\\?(.)(?:-\\?(.))?", re.DOTALL)


@cache
def _matcher(part: str) -> Callable[[str], object]:
    """Compile a pattern for one name. The output of `fnmatch` matches in linear time."""
    if any(token["open"] for token in _TOKEN.finditer(part)):
        return _never
    return re.compile(translate(_TOKEN.sub(_for_fnmatch, part))).match


def _for_fnmatch(token: re.Match[str]) -> str:
    """Translate a token of git's syntax to that of `fnmatch`, which has no escapes."""
    if token["escaped"]:
        return f"[{token['escaped']}]" if token["escaped"] in "*?[" else token["escaped"]
    if token["class"] is None:
        return "*"
    members: set[tuple[str, str]] = {*_MEMBER.findall(token["class"])}
    if not token["not"] and members == {("!", "")}:
        return "!"
    # In `fnmatch` the meaning of these depends on their position.
    last = {("]", ""): -1, ("!", ""): 1, ("-", ""): 2}
    ordered = sorted(members, key=lambda each: (last.get(each, 0), each))
    text = "".join(f"{first}-{end}" if end else first for first, end in ordered)
    if text == "!-":
        text = "-!"
    return f"[!{text}]" if token["not"] else f"[{text}]"


def rules_of(text: str, folder: Sequence[str] = ()) -> list[IgnoreRule]:
    """Parse the rules of a `.gitignore` in that folder, in file order."""
    rules = []
    for line in text.splitlines():
        line = re.sub(r"(?<![\\ ]) +$|(?<=\\ ) +$", "", line)
        if line.strip("/!") and not line.startswith("#"):
            rules.append(IgnoreRule(folder, line))
    return rules


def is_ignored(path: Sequence[str], rules: Sequence[IgnoreRule], *, is_folder: bool) -> bool:
    """Return True if the last rule that covers the path ignores it."""
    found = (rule.ignores for rule in reversed(rules) if rule.covers(path, is_folder=is_folder))
    return next(found, False)


def walk(top: str | os.PathLike[str], alive: Callable[[], None] = lambda: None) -> Iterator[str]:
    """Yield the files below `top`, as paths relative to it.

    Files of a folder come before those of its subfolders. The rules of the enclosing checkout also
    apply. Ends at the limits above. `alive` is called for each folder and entry, and may raise.
    Unreadable entries are skipped.
    """
    start = os.path.abspath(top)
    rules, inside = _rules_above(start)
    yield from _FolderWalk(alive).below(start, None, inside, rules, len(inside))


def exclusion(top: str | os.PathLike[str], folder: Sequence[str]) -> Callable[[str, bool], bool]:
    """Return a function that is true for entries that `walk(top)` leaves out of a folder.

    `folder`: the names of the folders from `top` on, none of them a link. The function takes the
    name of an entry, and true if it is a folder.
    """
    start = os.path.abspath(top)
    rules, inside = _rules_above(start)
    for depth in range(len(folder) + 1):
        way = [*inside, *folder[:depth]]
        if depth and (folder[depth - 1] in _NEVER or is_ignored(way, rules, is_folder=True)):
            return lambda name, is_folder: True
        rules += _rules_at(os.path.join(start, *folder[:depth]), None, way)
    way = [*inside, *folder]
    return lambda name, is_folder: (
        name in _NEVER or is_ignored([*way, name], rules, is_folder=is_folder)
    )


def likeliest(paths: Iterable[str], words: str, most: int) -> list[str]:
    """Return the best matching paths, at most `most`.

    Order: paths that start with the words; paths whose name does; other paths that contain them;
    paths that contain their characters in this order, closest together first. Among equal matches,
    shallower paths come first.
    """
    wanted = words.casefold()

    def rank(path: str) -> tuple[int, int, str] | None:
        """Return the sort key of a path, the best one lowest; None if it does not match.

        A path that begins with the words is best, then one with a name that does, then one that
        contains them anywhere, then one that has the characters in this order. Among equals, fewer
        folders win.
        """
        low = path.casefold()
        name = low.rstrip("/").rpartition("/")[2]
        place: int | None
        if wanted in low:
            place = 0 if low.startswith(wanted) else 1 if name.startswith(wanted) else 2
        else:
            place = _spread(low, wanted)
        return None if place is None else (place, path.count("/"), path)

    ranked = ((rank(path), path) for path in paths)
    return [path for _, path in nsmallest(most, ((r, p) for r, p in ranked if r is not None))]


def _spread(path: str, wanted: str) -> int | None:
    """Return the length of the part of a path that contains the characters in order.

    Returns None if some are missing.
    """
    if len(wanted) > FUZZY_CHARS:
        return None
    end = 0
    for character in wanted:
        end = path.find(character, end) + 1
        if not end:
            return None
    start = end
    for character in reversed(wanted):
        start = path.rfind(character, 0, start)
    return 3 + end - start


def _rules_above(folder: str) -> tuple[list[IgnoreRule], list[str]]:
    """Return the rules of the enclosing checkout, and the parts of the path from its root."""
    above = _checkout(folder)
    inside = os.path.relpath(folder, above[0]).split("/") if above else []
    rules: list[IgnoreRule] = []
    for depth, parent in enumerate(above):
        rules += _rules_at(parent, None, inside[:depth])
    if any(is_ignored(inside[:end], rules, is_folder=True) for end in range(1, len(inside) + 1)):
        rules = []  # the user works in an ignored folder
    return rules, inside


def branch_of(folder: str | os.PathLike[str]) -> str | None:
    """Return the git branch of the checkout that contains a folder; None if it is on no branch."""
    start = os.path.abspath(folder)
    root = next(iter(_checkout(start)), start)
    git = os.path.join(root, ".git")
    if (link := _line_of(git, "gitdir: ")) is not None:  # a separate working tree
        git = os.path.join(root, link)
    branch = _line_of(os.path.join(git, "HEAD"), "ref: refs/heads/")
    return branch if branch and branch.isprintable() else None


def _line_of(path: str, start: str) -> str | None:
    """Return the rest of a regular file's first line, if the line begins with `start`."""
    line = _head(path, None, _LINE_BYTES).partition("\n")[0]
    return line.removeprefix(start) if line.startswith(start) else None


def _head(name: str, fd: int | None, count: int) -> str:
    """Return the first bytes of a regular file as text; empty if they cannot be read."""
    try:
        own = os.open(name, _OPEN, dir_fd=fd)
    except OSError:
        return ""
    try:
        if not stat.S_ISREG(os.fstat(own).st_mode):
            return ""
        with open(own, "rb", closefd=False) as file:
            return file.read(count).decode(errors="replace")
    except OSError:
        return ""
    finally:
        os.close(own)


def _checkout(folder: str) -> list[str]:
    """Return the parent folders up to the root of the checkout.

    The result is empty if the folder is the root or is in no checkout.
    """
    found: list[str] = []
    while not os.path.lexists(os.path.join(folder, ".git")):
        parent = os.path.dirname(folder)
        if parent == folder:
            return []
        found.insert(0, parent)
        folder = parent
    return found


class _FolderWalk:
    """One walk through a tree of folders, within limits on files, entries and depth."""

    def __init__(self, alive: Callable[[], None]) -> None:
        self._alive = alive
        self._files = MAX_FILES
        self._entries = MAX_ENTRIES

    def below(
        self, name: str, fd: int | None, path: list[str], rules: list[IgnoreRule], top: int
    ) -> Iterator[str]:
        """Yield the files below a folder, which is opened relative to `fd`."""
        self._alive()
        if len(path) - top > MAX_DEPTH:
            return
        try:
            own = os.open(name, _OPEN | os.O_DIRECTORY, dir_fd=fd)
        except OSError:
            return
        try:
            rules = [*rules, *_rules_at(None, own, path)][-MAX_IGNORE_RULES:]
            folders = []
            for entry, is_folder in self._entries_of(own):
                self._alive()
                if is_ignored([*path, entry], rules, is_folder=is_folder):
                    continue
                if is_folder:
                    folders.append(entry)
                elif self._files:
                    self._files -= 1
                    yield "/".join([*path[top:], entry])
            for folder in sorted(folders, key=lambda name: name.startswith(".")):
                if self._files and self._entries:
                    yield from self.below(folder, own, [*path, folder], rules, top)
        finally:
            os.close(own)

    def _entries_of(self, fd: int) -> list[tuple[str, bool]]:
        """Return the names of files and folders, sorted."""
        found = []
        try:
            with os.scandir(fd) as scan:
                for entry in scan:
                    if not self._entries:
                        break
                    self._entries -= 1
                    is_folder = entry.is_dir(follow_symlinks=False)
                    if entry.name in _NEVER:
                        continue
                    if is_folder or entry.is_file(follow_symlinks=False):
                        found.append((entry.name, is_folder))
        except OSError:
            pass
        return sorted(found)


def _rules_at(folder: str | None, fd: int | None, path: Sequence[str]) -> list[IgnoreRule]:
    """Read the rules in a folder that is open as `fd`, or has this name."""
    rules = []
    for name in _IGNORE_FILES:
        text = _head(os.path.join(folder or "", name), fd, _IGNORE_FILE_BYTES)
        rules += rules_of(text, path)
    return rules
