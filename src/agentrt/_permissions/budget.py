"""The work that one permission request may cause, whatever its command contains."""

from __future__ import annotations

from typing import Final

from .script import Script
from .shell import read_script

MOST_CHARS: Final = 400_000
"""Characters that all rules together look at for one request: about 0.2 s of work."""

PER_WORD: Final = 8
"""A word costs this much in addition to its characters."""

PER_COMMAND: Final = 32
"""And so much does a command."""

PER_PATH: Final = 25
"""And so much does each folder of a path, which may be a link."""


class Budget:
    """Counts down the characters that are looked at for one request, over all rules and depths.

    A line that is found inside of another one is read once, however many rules ask for it.
    """

    def __init__(self, chars: int = MOST_CHARS) -> None:
        self.left = chars
        self._read: dict[str, Script] = {}

    def spend(self, words: int, chars: int) -> bool:
        """Take off the price of some words. False: it is used up."""
        self.left -= PER_COMMAND + words * PER_WORD + chars
        return self.left >= 0

    def read(self, text: str) -> Script:
        """Read a line that was found inside of another one."""
        script = self._read.get(text)
        if script is None:
            if not self.spend(0, len(text)):
                return Script(unclear="there is too much in it")
            script = self._read[text] = read_script(text, 1)
        return script
