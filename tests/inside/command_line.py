"""What a terminal shows of a text.

The page is compared with it, for every character that there is.
"""

from __future__ import annotations

__all__ = []
