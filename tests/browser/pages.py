"""Playwright, or the reason why a module of tests is skipped."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pytest

pytest.importorskip(
    "playwright.sync_api", reason="the page's tests need Playwright (pip install playwright)"
)

from playwright.sync_api import Browser, Page, Route, WebSocketRoute, Worker, expect

NewPage: TypeAlias = Callable[..., Page]
Shoot: TypeAlias = Callable[[Page, str], None]

expect.set_options(timeout=30_000)

__all__ = ["Browser", "NewPage", "Page", "Route", "Shoot", "WebSocketRoute", "Worker", "expect"]
