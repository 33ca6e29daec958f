"""What `versions.toml` says, as data: the agents, their packages and where they are installed."""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent


@dataclass(frozen=True)
class Package:
    """One pinned agent; the fields are explained at the head of `versions.toml`."""

    name: str
    title: str
    protocol: str
    source: str
    package: str
    version: str
    mb: int
    extra: tuple[str, ...] = ()
    sdist: tuple[str, ...] = ()
    python: str | None = None

    @property
    def stamp(self) -> str:
        """What an up-to-date installation has written down about itself."""
        return " ".join([f"{self.source} {self.package} {self.version}", *self.extra, *self.sdist])

    def folder(self, root: Path) -> Path:
        return root / self.name

    def installed(self, root: Path) -> bool:
        """Whether exactly this version is installed below *root*, completely."""
        stamp = self.folder(root) / ".installed"
        return stamp.is_file() and stamp.read_text() == self.stamp

    @property
    def how_to_install(self) -> str:
        return f"python {HERE.relative_to(REPOSITORY)}/install.py {self.name}"


@dataclass(frozen=True)
class NodePackage:
    """The Node that is fetched when the machine's own is older than `minimum`."""

    package: str
    version: str
    minimum: str


def _read() -> tuple[dict[str, Package], NodePackage]:
    tables = tomllib.loads((HERE / "versions.toml").read_text())
    node = tables["node"]
    packages = {
        name: Package(
            name=name,
            title=row["title"],
            protocol=row["protocol"],
            source=row["from"],
            package=row["package"],
            version=row["version"],
            mb=row["mb"],
            extra=tuple(row.get("extra", ())),
            sdist=tuple(row.get("sdist", ())),
            python=row.get("python"),
        )
        for name, row in tables["agents"].items()
    }
    return packages, NodePackage(node["package"], node["version"], node["minimum"])


PACKAGES, NODE = _read()


def agents_root() -> Path:
    """Where agents are installed: `$AGENTRT_AGENTS`, else a folder in the user's cache."""
    chosen = os.environ.get("AGENTRT_AGENTS")
    return Path(chosen) if chosen else Path.home() / ".cache" / "agentrt-agents"


def release(text: str) -> tuple[int, ...]:
    """`"v24.19.0"` as `(24, 19, 0)`, to compare versions."""
    return tuple(int(part) for part in text.strip().lstrip("v").split("."))
