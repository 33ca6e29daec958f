"""The tasks of the page's main thread, from a trace of the browser."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Page

FROZEN_CPU_MS = 200
"""The CPU time of one task of the page, during which it answers no click."""

WORK = {
    *("EventDispatch", "FunctionCall", "HitTest", "Layout", "Paint", "PrePaint"),
    *("RunMicrotasks", "TimerFire", "UpdateLayoutTree"),
}
"""The parts of a task in a trace, in the page's own work; tasks of the tracing have none."""


def tasks_ms(trace: dict[str, Any]) -> list[float]:
    """The CPU time in milliseconds of each task that did some of the page's work."""
    return [task.get("tdur", 0) / 1_000 for task in _tasks(trace)]


def keys_ms(trace: dict[str, Any]) -> list[float]:
    """The CPU time in milliseconds that tasks had during each measure `key` of the page."""
    begun: dict[Any, float] = {}
    found = []
    tasks = _tasks(trace)
    for event in trace["traceEvents"]:
        if event["name"] != "key" or event.get("ph") not in ("b", "e"):
            continue
        name = event.get("id") or event.get("id2", {}).get("local")
        if event["ph"] == "b":
            begun[name] = event["ts"]
            continue
        since, until = begun.pop(name), event["ts"]
        cpu_us = 0.0
        for task in tasks:
            both = min(until, task["ts"] + task["dur"]) - max(since, task["ts"])
            if both > 0:
                cpu_us += task.get("tdur", 0) * both / task["dur"]
        found.append(cpu_us / 1_000)
    return found


def _tasks(trace: dict[str, Any]) -> list[dict[str, Any]]:
    events = trace["traceEvents"]
    main = {(e["pid"], e["tid"]) for e in events if _names_main_thread(e)}
    events = [e for e in events if (e["pid"], e["tid"]) in main and e.get("ph") == "X"]
    worked = sorted((e["pid"], e["tid"], e["ts"]) for e in events if e["name"] in WORK)
    found = []
    for task in events:
        first = bisect_left(worked, (task["pid"], task["tid"], task["ts"]))
        end = (task["pid"], task["tid"], task["ts"] + task["dur"])
        if task["name"].endswith("RunTask") and first < len(worked) and worked[first] < end:
            found.append(task)
    return found


def _names_main_thread(event: dict[str, Any]) -> bool:
    return bool(
        event.get("name") == "thread_name" and event["args"].get("name") == "CrRendererMain"
    )


class Tasks:
    """The tasks of the page's main thread, from a trace of the browser."""

    longest_ms = 0.0
    """The CPU time of the longest one."""

    @contextmanager
    def traced(self, page: Page) -> Iterator[None]:
        browser = page.context.browser
        assert browser is not None
        browser.start_tracing(page=page, categories=["toplevel", "devtools.timeline"])
        try:
            yield
        finally:
            trace = browser.stop_tracing()
        self.longest_ms = max(self.longest_ms, *tasks_ms(json.loads(trace)))
