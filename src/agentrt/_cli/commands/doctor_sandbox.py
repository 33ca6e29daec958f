"""`agentrt doctor --sandbox`: test if this machine can build sandboxes."""

from __future__ import annotations

import trio

from ...sandbox import ProbeResult, probe
from ..printing import print_json
from ..text import one_line

NOTE = (
    "A sandbox denies programs by name: a script in Python or Perl can still delete the files of"
    " the session's own folders."
)

WEAKER = (
    'Landlock works: `needs = "landlock"` in the table [sandbox] of the configuration accepts it,'
    " with less protection."
)


async def examine_sandbox(*, as_json: bool) -> int:
    """Print the result of each test; returns 1 if sandboxes cannot be built."""
    found = await trio.to_thread.run_sync(probe)
    works = all(each.works for each in found if each.required)
    if as_json:
        print_json({"works": works, "tests": found})
    else:
        print("\n".join(_lines(found, works=works)))
    return 0 if works else 1


def _lines(found: list[ProbeResult], *, works: bool) -> list[str]:
    lines = []
    for each in found:
        mark = "✓" if each.works else "✗" if each.required else "!"
        detail = f": {one_line(each.detail, 300)}" if each.detail else ""
        lines.append(f"{mark} {each.name}{detail}")
        if not each.works and each.remedy:
            lines.append(f"    {one_line(each.remedy, 500)}")
    if works:
        return [*lines, "Sandboxes work here.", NOTE]
    lines.append("Sandboxes cannot be built here.")
    if any(each.name.startswith("Landlock") and each.works for each in found):
        lines.append(WEAKER)
    return lines
