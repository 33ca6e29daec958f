"""Files that a prompt names after `@`, attached as links, as in the page."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from ..events import Block, ResourceLink, Text, plain_text

_NAMED: Final = re.compile(r'(?:^|(?<=\s))@(?:"([^"\n]+)"|([^\s@"][^\s]*))')
_BEHIND: Final = ".,:;!?)]}'\""
"""Characters that may follow a name in a sentence."""


def prompt_of(text: str, cwd: str) -> list[Block]:
    """Return the blocks of a prompt: its text, and a link for each named file or directory.

    Names have the form `@path` or `@"a path"`. A name without an existing file is left as text: it
    may be a person or a package.
    """
    links: dict[str, ResourceLink] = {}
    if not text.startswith("/"):  # a command of the agent parses its text itself
        for quoted, bare in _NAMED.findall(text):
            for name in (quoted,) if quoted else (bare, bare.rstrip(_BEHIND)):
                if (found := _found(name, cwd)) is not None:
                    links.setdefault(found.as_uri(), ResourceLink(found.as_uri(), name))
                    break
    return [Text(text), *links.values()]


def text_of(content: Iterable[Block]) -> str:
    """Return the typed text of a prompt, followed by other content that the text does not name."""
    blocks = list(content)
    text = plain_text(block for block in blocks if isinstance(block, Text))
    others = [
        block
        for block in blocks
        if not isinstance(block, Text)
        and not (isinstance(block, ResourceLink) and block.name and block.name in text)
    ]
    return text + plain_text(others)


def _found(name: str, cwd: str) -> Path | None:
    try:
        path = Path(os.path.abspath(os.path.join(cwd, os.path.expanduser(name))))
        return path if name and path.exists() else None
    except (OSError, ValueError):
        return None
