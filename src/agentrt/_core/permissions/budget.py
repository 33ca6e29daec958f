"""A limit on the work for one permission request, independent of its command."""

from __future__ import annotations

from typing import Final

from .script import ShellScript
from .shell import read_script

MAX_EXAMINED_CHARS: Final = 400_000
"""Characters that all rules together may examine for one request: about 0.2 s of work."""

WORD_COST_CHARS: Final = 8
"""Cost of a word, in addition to its characters."""

COMMAND_COST_CHARS: Final = 32
"""Cost of a command."""

FOLDER_COST_CHARS: Final = 25
"""Cost of each folder of a path, which may be a link."""


class Budget:
    """Counts the characters examined for one request, over all rules and depths.

    A line that is found inside another one is parsed once, however many rules need it.
    """

    def __init__(self, chars: int = MAX_EXAMINED_CHARS) -> None:
        self.left = chars
        self._read: dict[str, ShellScript] = {}

    def spend(self, words: int, chars: int) -> bool:
        """Subtract the cost of some words. Returns False if the budget is used up."""
        self.left -= COMMAND_COST_CHARS + words * WORD_COST_CHARS + chars
        return self.left >= 0

    def read(self, text: str) -> ShellScript:
        """Parse a line that was found inside another one."""
        script = self._read.get(text)
        if script is None:
            if not self.spend(0, len(text)):
                return ShellScript(unclear="there is too much in it")
            script = self._read[text] = read_script(text, 1)
        return script
