"""Changes to files that make programs run. Only a rule that names such a file allows one."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from ..project_files import protected_file
from .request_facts import RequestFacts
from .rules import PermissionRule

_WRITES = frozenset({"Edit", "Write"})


def protected_change(seen: RequestFacts) -> str | None:
    """Return the entry of the list of protected files that a request would change; None if none.

    Files that are only read do not count. Nor do shell commands: it is unknown which files they
    write.
    """
    if _WRITES.isdisjoint(seen.all_names) and not seen.request.changes:
        return None
    places = [*(seen.places or ()), *(seen.hinted or ())]
    paths = {path for place in places for path in (place.named, *place.leads)}
    for path in sorted(paths):
        if entry := protected_file(_parts(path, seen.cwd)):
            return entry
    return None


def names_file(rules: Iterable[PermissionRule], entry: str) -> bool:
    """True if one of the rules names the file or its folder, as `Edit(.vscode/**)` does."""
    first = entry.partition("/")[0]
    return any(first in _words(str(rule)) for rule in rules)


def _parts(path: str, cwd: str) -> list[str]:
    """Return the parts of a path, starting at the session's folder if the path is inside it."""
    for folder in (cwd, os.path.realpath(cwd)):
        if path.startswith(folder.rstrip("/") + "/"):
            return path[len(folder.rstrip("/")) + 1 :].split("/")
    return path.split("/")


def _words(rule: str) -> Iterator[str]:
    """Yield the parts of the path in a rule."""
    _, opened, rest = rule.partition("(")
    what, closed, _ = rest.rpartition(")")
    if opened and closed:
        yield from what.strip().casefold().split("/")
