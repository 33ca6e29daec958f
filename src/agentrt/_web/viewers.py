"""What speaks each dialect: the hub is given these and knows none of them."""

from __future__ import annotations

from typing import Final

from .acp import AcpViewer
from .aisdk import AiViewer
from .dialects import ACP, AI_SDK, NATIVE
from .native import NativeViewer

VIEWERS: Final = {NATIVE: NativeViewer, AI_SDK: AiViewer, ACP: AcpViewer}
