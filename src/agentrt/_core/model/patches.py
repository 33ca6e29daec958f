"""Parts of unified diffs, as pairs of old and new text."""

from __future__ import annotations

import re

_HUNK = re.compile(r"^@@ .*\n?", re.MULTILINE)


def hunks(patch: str) -> list[tuple[str, str]]:
    """Return the old and the new text of each hunk of a unified diff of one file, without the
    file's header."""
    found = []
    for hunk in filter(None, _HUNK.split(patch)):
        lines = [line for line in hunk.splitlines(keepends=True) if not line.startswith("\\")]
        old = "".join(line[1:] for line in lines if line[:1] in (" ", "-"))
        new = "".join(line[1:] for line in lines if line[:1] in (" ", "+"))
        found.append((old, new))
    return found
