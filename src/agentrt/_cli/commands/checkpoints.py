"""`agentrt checkpoints`: list, compare and restore the saved files of a folder."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from functools import partial

import trio

from ..._public import Limits
from ...config import Config
from ...errors import AgentrtError
from ...unattended import FolderCheckpoints
from ..options import Work
from ..printing import as_date, print_error, print_json, print_table
from ..text import one_line, plain


def prepare(options: argparse.Namespace, config: Config) -> Work:
    """Return the work of the subcommand."""
    saved = FolderCheckpoints(options.cwd, config.bound(Limits()))
    match options.verb:
        case "diff":
            work = partial(show_diff, saved, options.old, options.new)
        case "restore":
            work = partial(restore, saved, options.number)
        case _:
            work = partial(show_list, saved, as_json=options.json)
    return partial(_carried_out, work)


async def _carried_out(work: Callable[[], None]) -> int:
    try:
        await trio.to_thread.run_sync(work)
    except AgentrtError as error:
        return print_error(error)
    return 0


def show_list(saved: FolderCheckpoints, *, as_json: bool) -> None:
    """Print the checkpoints of a folder."""
    found = saved.checkpoints()
    if as_json:
        print_json(found, pretty=False)
        return
    if not found:
        print(f"no checkpoints of {one_line(saved.folder)} (see --checkpoints)", file=sys.stderr)
        return
    print_table(
        ("n", "time", "when", "turn", "files", "session"),
        [(c.number, as_date(c.time), c.when, c.turn, c.files, c.session) for c in found],
    )


def show_diff(saved: FolderCheckpoints, old: int, new: int | None) -> None:
    """Print a patch."""
    text = saved.diff(old, new)
    sys.stdout.write(plain(text) if os.isatty(1) else text)


def restore(saved: FolderCheckpoints, number: int) -> None:
    """Restore a checkpoint and print the changes."""
    restored = saved.restore(number)
    for change in restored.changes:
        print(f"{change.change}  {one_line(change.path)}")
    for path in restored.kept:
        print(f"agentrt: warning: not changed: {one_line(path)}", file=sys.stderr)
    print(f"to undo this: agentrt checkpoints restore {restored.undo}", file=sys.stderr)
