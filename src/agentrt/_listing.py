"""The files below a folder, for whoever wants to name one: without those that git ignores, or that
an `.ignore` file leaves out in the same way.

The folder may be anybody's. Links are not followed, also not one that takes a folder's place
meanwhile, nothing but these is opened, no program is run, and all of it is bounded.
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

FILES: Final = 20_000
"""Files that are listed: enough for a large checkout, and a bound for a home folder."""

ENTRIES: Final = 200_000
"""Entries that are looked at, with all that is ignored."""

DEEPEST: Final = 64
"""Folders in each other, each of which costs a descriptor."""

RULES: Final = 5_000
"""Lines of all `.gitignore` files that hold for a file; the outer ones are forgotten first."""

FUZZY_CHARS: Final = 64
"""Characters that are looked for one by one in a path; longer words are only looked for whole."""

_RULES_SIZE: Final = 64 * 1024
"""Bytes of a `.gitignore`."""

_RULES_IN: Final = (".gitignore", ".ignore")

_NEVER: Final = frozenset(
    (".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", ".tox", ".nox")
)
"""Folders that nobody wants to see, also where nothing ignores them."""

_OPEN: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class Rule:
    """A line of a `.gitignore` that lies in `folder`, by its parts from the top."""

    def __init__(self, folder: Sequence[str], line: str) -> None:
        self.ignores = not line.startswith("!")
        line = line if self.ignores else line[1:]
        self._folders_only = line.endswith("/")
        line = line.rstrip("/") if self._folders_only else line
        parts = line.removeprefix("/").split("/")
        if "/" not in line:
            parts.insert(0, "**")
        if parts[-1] == "**":  # all that is in a folder, and not the folder
            parts.append("*")
        self._depth = len(folder)
        self._matchers = [None if part == "**" else _matcher(part) for part in parts]

    def covers(self, path: Sequence[str], *, is_folder: bool) -> bool:
        """Whether it is about this path, whose parts are counted from the top."""
        if self._folders_only and not is_folder:
            return False
        matchers = self._matchers
        part, name = 0, self._depth
        stars, begun = -1, 0  # where the last `**` stands, and up to where it reaches
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
    """Of a pattern for one name. What `fnmatch` makes of it needs no more than linear time."""
    if any(token["open"] for token in _TOKEN.finditer(part)):
        return _never
    return re.compile(translate(_TOKEN.sub(_for_fnmatch, part))).match


def _for_fnmatch(token: re.Match[str]) -> str:
    """What git means, in the words of `fnmatch`, which has no escapes."""
    if token["escaped"]:
        return f"[{token['escaped']}]" if token["escaped"] in "*?[" else token["escaped"]
    if token["class"] is None:
        return "*"
    members: set[tuple[str, str]] = {*_MEMBER.findall(token["class"])}
    if not token["not"] and members == {("!", "")}:
        return "!"
    # In `fnmatch` what these mean depends on where they stand.
    last = {("]", ""): -1, ("!", ""): 1, ("-", ""): 2}
    ordered = sorted(members, key=lambda each: (last.get(each, 0), each))
    text = "".join(f"{first}-{end}" if end else first for first, end in ordered)
    if text == "!-":
        text = "-!"
    return f"[!{text}]" if token["not"] else f"[{text}]"


def rules_of(text: str, folder: Sequence[str] = ()) -> list[Rule]:
    """What a `.gitignore` in that folder says, in its order."""
    rules = []
    for line in text.splitlines():
        line = re.sub(r"(?<![\\ ]) +$|(?<=\\ ) +$", "", line)
        if line.strip("/!") and not line.startswith("#"):
            rules.append(Rule(folder, line))
    return rules


def is_ignored(path: Sequence[str], rules: Sequence[Rule], *, is_folder: bool) -> bool:
    """The last rule that covers a path decides."""
    found = (rule.ignores for rule in reversed(rules) if rule.covers(path, is_folder=is_folder))
    return next(found, False)


def walk(top: str | os.PathLike[str], alive: Callable[[], None] = lambda: None) -> Iterator[str]:
    """The files below `top` as paths from there, those of a folder before those of the folders in
    it; the rules of the checkout in which it lies hold, too. Ends at the limits above. `alive` is
    called for each folder and entry, and may raise. What cannot be read is left out."""
    start = os.path.abspath(top)
    above = _checkout(start)
    inside = os.path.relpath(start, above[0]).split("/") if above else []
    rules: list[Rule] = []
    for depth, folder in enumerate(above):
        rules += _rules_at(folder, None, inside[:depth])
    if any(is_ignored(inside[:end], rules, is_folder=True) for end in range(1, len(inside) + 1)):
        rules = []  # somebody is at work in it all the same
    yield from _Walk(alive).below(start, None, inside, rules, len(inside))


def likeliest(paths: Iterable[str], words: str, most: int) -> list[str]:
    """The paths that match best, at most `most`: those that begin with the words, then those whose
    name does, then others that contain them, then those that have their characters in this order,
    close together first. Of equal matches, those that are less deep come first."""
    wanted = words.casefold()

    def rank(path: str) -> tuple[int, int, str] | None:
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
    """Rank a path that has the characters in their order by the length of the part with all of
    them; None: not all are there."""
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


def _checkout(folder: str) -> list[str]:
    """The folders around it, from that of its checkout on; none if it is that, or in none."""
    found: list[str] = []
    while not os.path.lexists(os.path.join(folder, ".git")):
        parent = os.path.dirname(folder)
        if parent == folder:
            return []
        found.insert(0, parent)
        folder = parent
    return found


class _Walk:
    def __init__(self, alive: Callable[[], None]) -> None:
        self._alive = alive
        self._files = FILES
        self._entries = ENTRIES

    def below(
        self, name: str, fd: int | None, path: list[str], rules: list[Rule], top: int
    ) -> Iterator[str]:
        self._alive()
        if len(path) - top > DEEPEST:
            return
        try:
            own = os.open(name, _OPEN | os.O_DIRECTORY, dir_fd=fd)
        except OSError:
            return
        try:
            rules = [*rules, *_rules_at(None, own, path)][-RULES:]
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
        """Names of files and folders, in order."""
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


def _rules_at(folder: str | None, fd: int | None, path: Sequence[str]) -> list[Rule]:
    """Those of the files in a folder that is open as `fd`, or has that name."""
    rules = []
    for name in _RULES_IN:
        try:
            own = os.open(os.path.join(folder or "", name), _OPEN, dir_fd=fd)
        except OSError:
            continue
        with open(own, "rb") as file:
            if stat.S_ISREG(os.fstat(own).st_mode):
                rules += rules_of(file.read(_RULES_SIZE).decode(errors="replace"), path)
    return rules
