"""The model providers of an agent: services for its model, reached at an address with headers.

Headers usually contain a key. They are kept in memory only: they are never logged, stored, or shown
by `repr`.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from .content import JsonObject

_REDACTED: Final = "[redacted]"
_MIN_WORD_CHARS: Final = 8
"""Minimum length of a word in a header that is a secret without the rest of the header."""


class Provider(Struct, frozen=True, kw_only=True):
    """A provider that an agent can use, as the agent reports it."""

    id: str
    """The agent's name for it."""
    api_types: tuple[str, ...] = ()
    """The APIs that it can have: `anthropic`, `openai`, `azure`, `vertex`, `bedrock` or others."""
    required: bool = False
    """True if it cannot be disabled."""
    api_type: str | None = None
    """The API that it has now; None if it is disabled."""
    base_url: str | None = None
    """Its address; None if it is disabled."""


class ProviderSetting(Struct, frozen=True, kw_only=True):
    """A provider of an agent, and the service that it stands for.

    Without `base_url`, the setting disables the provider: the agent then uses the service in its
    configuration again, or none.
    """

    id: str
    """The agent's name for the provider (`Provider.id`)."""
    api_type: str = ""
    """The API of the service (one of `Provider.api_types`)."""
    base_url: str = ""
    """The address of the service."""
    headers: dict[str, str] = {}
    """All headers of requests to the service."""
    meta: JsonObject = {}
    """Further values that the agent requires, sent as `_meta`."""

    def __repr__(self) -> str:
        names = ", ".join(map(repr, self.headers))
        return (
            f"ProviderSetting(id={self.id!r}, api_type={self.api_type!r},"
            f" base_url={self.base_url!r}, headers={{{names}}})"
        )

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values of the headers, and their long words, the longest first."""
        found = {value for value in self.headers.values() if value}
        words = {word for value in found for word in value.split() if len(word) >= _MIN_WORD_CHARS}
        return tuple(sorted(found | words, key=len, reverse=True))


def without(values: tuple[str, ...], given: Any) -> Any:
    """Return JSON in whose strings each of these values is replaced."""
    match given:
        case str():
            for value in values:
                given = given.replace(value, _REDACTED)
            return given
        case list():
            return [without(values, each) for each in given]
        case dict():
            return {without(values, name): without(values, each) for name, each in given.items()}
        case _:
            return given
