"""Views of mappings that are restricted to one tenant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol, TypeVar


class HasTenant(Protocol):
    """An object that belongs to a tenant."""

    @property
    def tenant(self) -> str:
        """The name of the tenant."""
        ...


T = TypeVar("T", bound=HasTenant)


class TenantView(Mapping[str, T]):
    """Live view of `all`, restricted to one tenant."""

    def __init__(self, all: Mapping[str, T], tenant: str) -> None:
        self._all = all
        self._tenant = tenant

    def __getitem__(self, id: str) -> T:
        found = self._all[id]
        if found.tenant != self._tenant:
            raise KeyError(id)
        return found

    def __iter__(self) -> Iterator[str]:
        return (id for id, each in self._all.items() if each.tenant == self._tenant)

    def __len__(self) -> int:
        return sum(1 for _ in self)
