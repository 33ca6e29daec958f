"""`agentrt audit`: print an audit log."""

from __future__ import annotations

import argparse
import os
from functools import partial

import trio

from ...config import Config
from ...errors import AgentrtError
from ...telemetry import AuditRecord, read_audit
from ..exit_status import UsageError
from ..options import Work
from ..printing import as_date, print_error, print_json
from ..stores import ID_CHARS
from ..text import one_line

TITLE_CHARS = 120


def prepare(options: argparse.Namespace, config: Config) -> Work:
    """Return the work of the subcommand. Raises `UsageError`."""
    path = options.file or config.unattended.audit
    if path is None:
        raise UsageError(
            "no audit log; use --file FILE, or set `audit` under [unattended] in the configuration"
        )
    return partial(_show, os.path.expanduser(path), options.session, as_json=options.json)


async def _show(path: str, session: str | None, *, as_json: bool) -> int:
    try:
        await trio.to_thread.run_sync(partial(_print, path, session, as_json=as_json))
    except AgentrtError as error:
        return print_error(error)
    return 0


def _print(path: str, session: str | None, *, as_json: bool) -> None:
    for record in read_audit(path, session):
        if as_json:
            print_json(record, pretty=False)
        else:
            print(_line(record))


def _line(record: AuditRecord) -> str:
    """Return an entry of the audit log as one line: time, session, agent, decision and its reasons.

    Agents choose titles and ids, so control characters are escaped and texts are cut.
    """
    decided = " ".join(each for each in (record.by, record.who, record.via) if each)
    notes = [
        f"by {decided}" if decided else "",
        f"rule {record.rule}" if record.rule else "",
        record.reason,
        "" if record.asked is None else "asked" if record.asked else "not asked",
        record.code,
    ]
    told = ", ".join(each for each in notes if each)
    title = " ".join(each for each in (record.tool, record.title) if each)
    words = [
        as_date(record.time),
        one_line(record.session[:ID_CHARS]),
        one_line(record.agent),
        record.kind,
        one_line(record.outcome),
        one_line(title, TITLE_CHARS),
    ]
    line = "  ".join(each for each in words if each)
    return f"{line}  ({one_line(told)})" if told else line
