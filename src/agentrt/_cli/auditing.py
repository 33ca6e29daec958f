"""The audit log of the settings, and its records of subcommands that change something without a
session, such as `sessions delete`.

The table of subcommands names those. A record is written when the subcommand ends, whether it
succeeded or not.
"""

from __future__ import annotations

import argparse
import os
import pwd
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from ..config import Config

if TYPE_CHECKING:
    from ..telemetry import AuditLog


def audit_log(config: Config) -> AuditLog | None:
    """Open the audit log of the settings, if there is one. Raises `FilesError`."""
    path = config.unattended.audit
    if path is None:
        return None
    from ..telemetry import AuditLog

    return AuditLog(os.path.expanduser(path))


def audited(
    work: Callable[[], Awaitable[int]],
    log: AuditLog,
    options: argparse.Namespace,
    recorded: Sequence[str],
) -> Callable[[], Awaitable[int]]:
    """Return the work of a verb followed by its record.

    `recorded`: the names of the arguments in the record. They are read at the end, when the work
    has replaced the beginning of a session's id by the whole id.
    """
    from ..telemetry import ViewerAction

    async def run() -> int:
        outcome: Literal["done", "refused", "interrupted"] = "interrupted"
        reason = ""
        try:
            status = await work()
            outcome, reason = ("refused", f"exit status {status}") if status else ("done", "")
        finally:
            about = _arguments(options, recorded)
            action = ViewerAction(
                name=f"{options.subcommand} {options.verb}",
                about=about,
                who=current_user(),
                via="command line",
                outcome=outcome,
                reason=reason,
            )
            log.acted("", about.get("session") or "", action)
        return status

    return run


def _arguments(options: argparse.Namespace, names: Sequence[str]) -> dict[str, Any]:
    """Return the arguments of these names that were given; folders with their absolute path."""
    found = {name: getattr(options, name, None) for name in names}
    return {
        name: os.path.abspath(value) if name in ("cwd", "folder") else value
        for name, value in found.items()
        if value not in (None, [])
    }


def current_user() -> str:
    """Return the name of the user of this process."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # one without an entry, as containers have
        return f"uid {os.getuid()}"
