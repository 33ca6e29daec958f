"""Waiting for an agent's work when a session is left normally, with notices about it."""

from __future__ import annotations

from typing import Literal

import trio

from ..model.events import Notice, Task
from ..model.repeats import listed
from ..session.host import SessionHost

LIVE = frozenset({"pending", "running"})


async def wait_for_rest(host: SessionHost, limit: float | None = None) -> None:
    """Wait until the agent has no work left, at most `limit` or `limits.drain_timeout_s` seconds.

    Some background work never ends, such as a server that the agent has started. Notices therefore
    report the tasks that are waited for, and those that are abandoned.
    """
    limit = host.limits.drain_timeout_s if limit is None else limit
    with trio.move_on_after(limit) as scope:
        if host.core.turn is None and (live := _live(host)):
            text = f"waiting for background work, {limit:g} s at most"
            _add_notice(host, "info", "waiting", text, live)
        await host.drained()
    if scope.cancelled_caught and (live := _live(host)):
        text = f"background work took over {limit:g} s"
        _add_notice(host, "warning", "not_waited_for", text, live)


def _live(host: SessionHost) -> list[Task]:
    return [task for task in host.log.state.tasks.values() if task.status in LIVE]


def _add_notice(
    host: SessionHost, level: Literal["info", "warning"], code: str, what: str, tasks: list[Task]
) -> None:
    titles = listed(task.title or task.id for task in tasks)
    data = {"tasks": [task.id for task in tasks]}
    host.core.add_notice(Notice(level, code, f"{what}: {titles}", data))
