"""What a prompt's text names: files behind `@` go with it as links, as in the page."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from .._model.content import Block, ResourceLink, Text, plain_text

_NAMED: Final = re.compile(r'(?:^|(?<=\s))@(?:"([^"\n]+)"|([^\s@"][^\s]*))')
_BEHIND: Final = ".,:;!?)]}'\""
"""What may stand behind a name in a sentence."""


def prompt_of(text: str, cwd: str) -> list[Block]:
    """The blocks of a prompt: its text, and a link for each file or folder that it names as `@path`
    or `@"a path"`. What is not there is no file: a person, or a package."""
    links: dict[str, ResourceLink] = {}
    if not text.startswith("/"):  # a command of the agent's reads its text by itself
        for quoted, bare in _NAMED.findall(text):
            for name in (quoted,) if quoted else (bare, bare.rstrip(_BEHIND)):
                if (found := _found(name, cwd)) is not None:
                    links.setdefault(found.as_uri(), ResourceLink(found.as_uri(), name))
                    break
    return [Text(text), *links.values()]


def text_of(content: Iterable[Block]) -> str:
    """What was typed of a prompt, and what else is in it that its text does not name."""
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
