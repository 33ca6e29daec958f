"""A session as the terminal uses it: in this process, or on a server; and the
files that a prompt names after `@`, attached as links, as in the page.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, Literal, Protocol, runtime_checkable
from urllib.parse import unquote

from msgspec import structs

from .._public import Prompt
from ..agents import Provider, ProviderSetting
from ..errors import LocalProtocolError
from ..events import (
    AgentState,
    Block,
    Image,
    JsonObject,
    Modes,
    PermissionOpened,
    QueueEntry,
    ResourceLink,
    Snapshot,
    State,
    Task,
    Text,
    plain_text,
)
from ..unattended import Checkpoint, Restored


class SubmittedPrompt(Protocol):
    """A submitted prompt. `id` is the id of its turn, or empty while it waits."""

    @property
    def id(self) -> str: ...


class QueueView(Protocol):
    """The part of a session's queue that the terminal uses; see `SessionQueue`."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> QueueEntry: ...
    def __iter__(self) -> Iterator[QueueEntry]: ...

    def remove(self, entry: str) -> None: ...
    def resume(self) -> None: ...


class CheckpointsView(Protocol):
    """The checkpoints of a session's folder."""

    async def list(self) -> list[Checkpoint]: ...
    async def undo(self, turns: int = 1) -> Restored: ...
    async def diff_turns(self, turns: int = 1) -> str: ...


class RevocableSandbox(Protocol):
    """The part of a session's sandbox that the terminal uses."""

    async def revoke(self, target: str) -> None: ...


@runtime_checkable
class ProvidersView(Protocol):
    """The part of a session of this program that lists and sets providers."""

    async def list_providers(self) -> list[Provider]: ...
    async def set_provider(self, setting: ProviderSetting) -> None: ...


class SessionView(Protocol):
    """The part of a session that the terminal uses.

    Everything has the meaning that it has for a `Session`. Errors that a server cannot report
    immediately arrive as events of the session.
    """

    @property
    def id(self) -> str: ...
    @property
    def agent_session(self) -> str | None: ...
    @property
    def state(self) -> State: ...
    @property
    def agent(self) -> AgentState: ...
    @property
    def title(self) -> str | None: ...
    @property
    def modes(self) -> Modes | None: ...
    @property
    def background_tasks(self) -> dict[str, Task]: ...
    @property
    def pending_permissions(self) -> dict[str, PermissionOpened]: ...
    @property
    def queue(self) -> QueueView: ...
    @property
    def checkpoints(self) -> CheckpointsView: ...
    @property
    def sandbox(self) -> RevocableSandbox | None: ...
    @property
    def capabilities(self) -> JsonObject: ...

    def snapshot(self) -> Snapshot: ...
    async def full_snapshot(self) -> Snapshot: ...

    def submit(
        self, content: Prompt, *, when: Literal["queue", "interrupt"] = "queue"
    ) -> SubmittedPrompt: ...
    def steer(self, content: Prompt) -> None: ...
    def send_history(self) -> object: ...
    def cancel(self, *, now: bool = False) -> None: ...

    def answer(self, request: str, option: str, *, note: str = "") -> None: ...
    def submit_form(self, request: str, content: JsonObject) -> None: ...
    def dismiss(self, request: str, message: str = "") -> None: ...

    def rename(self, title: str) -> None: ...

    async def set_mode(self, mode: str) -> None: ...
    async def set_model(self, model: str) -> None: ...
    async def stop_task(self, task: str) -> None: ...

    async def aclose(self) -> None: ...


_NAMED: Final = re.compile(r'(?:^|(?<=\s))@(?:"([^"\n]+)"|([^\s@"][^\s]*))')
_IMAGES: Final = frozenset({".png", ".jpg", ".jpeg", ".gif", ".webp"})
IMAGE_BYTES: Final = 5 * 1024 * 1024
"""Bytes of the largest image that is sent itself; most models accept no larger ones."""
_BEHIND: Final = ".,:;!?)]}'\""
"""Characters that may follow a name in a sentence."""


def prompt_of(text: str, cwd: str, *, images: bool = False) -> list[Block]:
    """Return the blocks of a prompt: its text, and a block for each named file or directory.

    Names have the form `@path` or `@"a path"`. A name without an existing file is left as text: it
    may be a person or a package. `images`: the agent takes images; then an image is sent itself,
    and otherwise as a link.
    """
    named: dict[str, Block] = {}
    if not text.startswith("/"):  # a command of the agent parses its text itself
        for quoted, bare in _NAMED.findall(text):
            for name in (quoted,) if quoted else (bare, bare.rstrip(_BEHIND)):
                if (found := _found(name, cwd)) is not None:
                    if found.as_uri() not in named:
                        named[found.as_uri()] = attachment(found, name, images=images)
                    break
    return [Text(text), *named.values()]


def attachment(path: Path, name: str, *, images: bool) -> Block:
    """Return the block for a file: the image itself, or a link that the agent opens."""
    if images and path.suffix.casefold() in _IMAGES:
        try:
            if path.is_file() and path.stat().st_size <= IMAGE_BYTES:
                image = Image.from_bytes(path.read_bytes(), largest=IMAGE_BYTES)
                return structs.replace(image, uri=path.as_uri())
        except (OSError, LocalProtocolError):
            pass  # it is no image: the agent may open it itself
    return ResourceLink(path.as_uri(), name)


def text_of(content: Iterable[Block]) -> str:
    """Return the typed text of a prompt, followed by other content that the text does not name."""
    blocks = list(content)
    text = plain_text(block for block in blocks if isinstance(block, Text))
    others = [
        block
        for block in blocks
        if not isinstance(block, Text)
        and not (isinstance(block, ResourceLink) and block.name and block.name in text)
        and not (isinstance(block, Image) and block.uri and _file_name(block.uri) in text)
    ]
    return text + plain_text(others)


def _file_name(uri: str) -> str:
    """Return the name of the file that a URI names."""
    return unquote(uri.rpartition("/")[2])


def _found(name: str, cwd: str) -> Path | None:
    """Return the file or directory that a name in a prompt means, if it exists.

    A name may be anything that the user typed, so errors of the file system mean that it is not
    one.
    """
    try:
        path = Path(os.path.abspath(os.path.join(cwd, os.path.expanduser(name))))
        return path if name and path.exists() else None
    except (OSError, ValueError):
        return None
