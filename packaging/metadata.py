"""Write the description and the links of a distribution.

README.md links to files of the repository. A package index shows it without them, so a release sets
`AGENTRT_SOURCE_URL` to the address of the repository (`https://HOST/OWNER/NAME`): the links then
point to the files of that version there. Without it they stay relative, and the distribution names
no address.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Final

from hatchling.metadata.plugin.interface import MetadataHookInterface

SOURCE_URL: Final = "AGENTRT_SOURCE_URL"

LINK: Final = re.compile(r"(!?\[[^\]]*\]\()(?![a-z]+:|#)([^)\s]+)(\))")
"""A Markdown link or image whose address is a path."""


def absolute_links(text: str, source: str, tag: str) -> str:
    """Return Markdown whose relative links point to the files of a tag at `source`."""

    def absolute(link: re.Match[str]) -> str:
        kind = "raw" if link[1].startswith("!") else "blob"
        return f"{link[1]}{source}/{kind}/{tag}/{link[2]}{link[3]}"

    return LINK.sub(absolute, text)


def project_urls(source: str, tag: str) -> dict[str, str]:
    """Return the links that a package index shows next to the description."""
    return {
        "Documentation": f"{source}/tree/{tag}/docs",
        "Source": source,
        "Issues": f"{source}/issues",
        "Changelog": f"{source}/blob/{tag}/CHANGELOG.md",
    }


class MetadataHook(MetadataHookInterface):
    """Sets what `pyproject.toml` declares as dynamic."""

    def update(self, metadata: dict[str, Any]) -> None:
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        source, tag = os.environ.get(SOURCE_URL, "").rstrip("/"), f"v{metadata['version']}"
        if source:
            text = absolute_links(text, source, tag)
            metadata["urls"] = project_urls(source, tag)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
