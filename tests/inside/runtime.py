"""The composition of sessions.

Tests give it ids, a clock and a driver of their own, so that each run is the same.
"""

from __future__ import annotations

__all__ = []
