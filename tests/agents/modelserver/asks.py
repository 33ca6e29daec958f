"""What a request of any of the four APIs boils down to, and what each dialect must provide."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, TypeAlias

import msgspec

from .scripts import Arguments, marker_in

Json: TypeAlias = dict[str, object]
Role: TypeAlias = Literal["user", "assistant", "other"]


class Row(NamedTuple):
    """One entry of the conversation; system text and tool results are `other`."""

    role: Role
    text: str


@dataclass(frozen=True)
class Tool:
    """A tool the request offers."""

    name: str
    arguments: frozenset[str] | None = None  # None: it says nothing about them
    namespace: str | None = None  # the Responses API may group tools
    freeform: bool = False  # takes plain text instead of JSON (Responses API)


@dataclass(frozen=True)
class Ask:
    """One request, whatever its API."""

    model: str
    stream: bool
    rows: Sequence[Row]
    tools: Sequence[Tool]

    def markers(self) -> list[str]:
        """The markers of the whole conversation, oldest first."""
        found = (marker_in(row.text) for row in self.rows if row.role == "user")
        return [marker for marker in found if marker]

    def due(self) -> tuple[str | None, int]:
        """The marker that chooses the script, and which of its turns is due."""
        for at in range(len(self.rows) - 1, -1, -1):
            row = self.rows[at]
            if row.role == "user" and (marker := marker_in(row.text)):
                runs = itertools.groupby(self.rows[at + 1 :], key=lambda row: row.role)
                return marker, sum(role == "assistant" for role, _ in runs)
        return None, 0


class Event(NamedTuple):
    """One server-sent event; data that is no JSON object is sent as it is."""

    data: Json | str
    name: str | None = None


class Answer(Protocol):
    """An answer under construction: each method yields the events that stream it."""

    def start(self) -> Iterable[Event]: ...
    def ping(self) -> Iterable[Event]:
        """A keep-alive; nothing where the API has none of its own."""
        ...

    def text(self, chunks: Sequence[str]) -> Iterable[Event]: ...
    def thinking(self, text: str) -> Iterable[Event]: ...
    def call(self, tool: Tool, arguments: Arguments) -> Iterable[Event]: ...
    def failed(self, kind: str) -> Iterable[Event]: ...
    def finish(self) -> Iterable[Event]: ...
    def whole(self) -> Json:
        """The same answer for a request that wants no stream."""
        ...


class Dialect(Protocol):
    """What a dialect module provides."""

    def read(self, body: bytes) -> Ask: ...
    def answer(self, ask: Ask) -> Answer: ...


class Part(msgspec.Struct):
    """A piece of message content; only its text matters here."""

    type: str = ""
    text: str | None = None


Content: TypeAlias = str | list[Part] | None


def text_of(content: Content) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part.text for part in content or () if part.text)


class Schema(msgspec.Struct):
    """The JSON schema of a tool's arguments, as far as the names."""

    properties: dict[str, msgspec.Raw] = {}

    def names(self) -> frozenset[str] | None:
        return frozenset(self.properties) or None


_ids = itertools.count(1)


def new_id(prefix: str) -> str:
    return f"{prefix}{next(_ids):08d}"


def pieces(text: str, size: int) -> Iterator[str]:
    for start in range(0, len(text), size):
        yield text[start : start + size]
