"""The dialects of the site's WebSockets: one for each path."""

from __future__ import annotations

from typing import Final

from .acp import ACP
from .aisdk import AI_SDK
from .native import NATIVE

DIALECTS: Final = {dialect.path: dialect for dialect in (NATIVE, AI_SDK, ACP)}
