"""The paths that a tool's input names, and patterns for them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, Final
from urllib.parse import unquote, urlsplit

MAX_PATH_CHARS: Final = 4096
"""Maximum number of characters of a name, or of all paths together, that rules examine."""

MAX_FOLDERS: Final = 500
"""Maximum number of folders in all paths together. Each is checked, since it may be a link."""

MAX_INPUT_PARTS: Final = 2000
"""Maximum number of parts of an input that are searched for paths."""


class TooLarge(ValueError):
    """An input has too many parts to be searched."""


class ResolvedPath:
    """A path: as written, its target, and the target of its normalised name.

    Programs differ in whether `..` after a link leaves the link or its target, and some do not
    follow links at all.
    """

    def __init__(self, path: str) -> None:
        """Resolve an absolute path now; it may lead to another place later."""
        self.named = os.path.normpath(path)
        self.leads = frozenset({resolve(path), resolve(self.named)})
        self.is_folder = any(os.path.isdir(each) for each in self.leads if each.startswith("/"))


def resolve_paths(paths: Sequence[str]) -> list[ResolvedPath] | None:
    """Return the places of the paths; None if there are none, or too many."""
    if not paths or sum(map(len, paths)) > MAX_PATH_CHARS:
        return None
    if sum(path.count("/") for path in paths) > MAX_FOLDERS:
        return None
    return [ResolvedPath(path) for path in paths]


class PathPattern:
    """A pattern: `src/**` in the session's working directory, or `/etc/*.conf` anywhere."""

    def __init__(self, text: str) -> None:
        """Read a pattern; a trailing slash means everything in the folder."""
        self._text = os.path.expanduser(text)
        self._parts = _parts(self._text + "**" if self._text.endswith("/") else self._text)

    def fits(self, place: ResolvedPath, cwd: str) -> list[bool]:
        """Return for each reading of the place if it matches the pattern."""
        here = os.path.realpath(cwd)
        return [self._fits(place.named, cwd), *(self._fits(each, here) for each in place.leads)]

    def may_lie_in(self, place: ResolvedPath, cwd: str) -> bool:
        """True if the place is a folder that may contain a match."""
        if not place.is_folder:
            return False
        begin: list[str] = []
        for part in self._parts:
            if "*" in part or "?" in part:
                break
            begin.append(part)
        base = "/" if self._text.startswith("/") else os.path.realpath(cwd)
        start = resolve(os.path.join(base, *begin))
        return any(
            _inside(start, folder) or (len(begin) < len(self._parts) and _inside(folder, start))
            for folder in place.leads
        )

    def may_fit(self, places: Iterable[str], folders: Iterable[str]) -> bool:
        """True if a path may match the pattern, ignoring case.

        `places`: its name and its targets; `folders`: the session's working directory. All are in
        lower case.
        """
        folders = tuple(folders)
        return any(self._folded._fits(each, here) for each in places for here in folders)

    @cached_property
    def _folded(self) -> PathPattern:
        """The pattern in lower case, for comparisons that ignore case."""
        return PathPattern(self._text.casefold())

    @property
    def parts(self) -> list[str]:
        """The parts of the pattern that are plain names."""
        return [part for part in self._parts if "*" not in part and "?" not in part]

    def _fits(self, path: str, cwd: str) -> bool:
        """Return True if an absolute path matches; a relative pattern only matches inside `cwd`."""
        if not path.startswith("/"):
            return False
        if not self._text.startswith("/"):
            if not _inside(path, cwd):
                return False
            path = path[len(cwd.rstrip("/")) + 1 :]
        return fits_pattern(self._parts, _parts(path), "**", _is_part)


def _inside(path: str, folder: str) -> bool:
    """Return True if a path is the folder, or below it."""
    return f"{path.rstrip('/')}/".startswith(folder.rstrip("/") + "/")


_PATH_KEYS: Final = tuple(
    "path paths file files filename dir directory folder source destination target".split()  # noqa: SIM905
)


def find_paths(input: Any, cwd: str) -> tuple[str, ...]:
    """Return every path in a tool's input: the strings under keys that name one, at any depth.

    They are absolute, otherwise as the agent wrote them; a URL stays one. Raises `TooLarge`.
    """
    return tuple(dict.fromkeys(absolute_path(path, cwd) for path in _named_paths(input)))


def resolve(path: str) -> str:
    """Return the current target of an absolute path; unchanged if it has none, like a URL."""
    try:
        return os.path.realpath(path) if path.startswith("/") else path
    except (OSError, ValueError):
        return "?" + path


def absolute_path(path: str, cwd: str) -> str:
    """Make the path that the agent wrote absolute, relative to a folder."""
    if path.startswith("file://"):
        path = unquote(urlsplit(path).path)
    elif "://" in path:
        return path
    # Two leading slashes mean one; Python keeps them, for systems with another meaning.
    return re.sub("^//+", "/", os.path.join(cwd, os.path.expanduser(path)))


def _named_paths(input: Any) -> Iterator[str]:
    """Yield the texts under keys that name paths, as the agent wrote them."""
    for value in containers(input):
        if isinstance(value, dict):
            for key, named in value.items():
                if key == "changes" and isinstance(named, dict):  # codex: the changes at each path
                    yield from named
                if str(key).lower().replace("_", "").endswith(_PATH_KEYS):
                    yield from _strings(named)


def containers(input: Any) -> list[dict[str, Any] | list[Any]]:
    """Return every object and array in the input. Raises `TooLarge`."""
    found = [input] if isinstance(input, dict | list) else []
    parts = 0
    for value in found:  # the list grows in this loop
        parts += len(value)
        if parts > MAX_INPUT_PARTS:
            raise TooLarge(f"the input has more than {MAX_INPUT_PARTS} parts")
        inner = value.values() if isinstance(value, dict) else value
        found += [each for each in inner if isinstance(each, dict | list)]
    return found


def _strings(value: Any) -> Iterator[str]:
    """Yield a text, or the texts of an array."""
    match value:
        case str():
            yield value
        case list():
            yield from (inner for inner in value if isinstance(inner, str))


def _parts(path: str) -> list[str]:
    """Return the parts of a path, without empty ones and `.`."""
    return [part for part in path.split("/") if part not in ("", ".")]


def _is_part(pattern: str, part: str) -> bool:
    """True if one part of a path matches a pattern with `*` and `?`."""
    return fits_pattern(pattern, part, "*", lambda wanted, given: wanted in ("?", given))


def fits_name(pattern: str, name: str) -> bool:
    """True if a name matches a pattern with `*`."""
    return fits_pattern(pattern, name, "*", str.__eq__)


def fits_pattern(
    pattern: Sequence[str], given: Sequence[str], star: str, same: Callable[[str, str], bool]
) -> bool:
    """True if a sequence matches a pattern in which `star` stands for any number of items.

    A regular expression may take forever on input that an agent made up; this takes at most one
    step for each pair of items.
    """
    at = here = 0
    behind, begun = -1, 0  # the last star, and the current end of its match
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
