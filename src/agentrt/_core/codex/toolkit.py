"""The result of a program's tool, in codex's shape."""

from __future__ import annotations

from ..model.content import Image, plain_text
from ..wire.mcp import ToolOutcome
from .messages import (
    DynamicToolCallOutputContentItem,
    DynamicToolCallResponse,
    InputImageDynamicToolCallOutputContentItem,
    InputTextDynamicToolCallOutputContentItem,
)


def tool_response(outcome: ToolOutcome) -> DynamicToolCallResponse:
    """Convert a tool's result. Text and images are kept; other content is only named."""
    items: list[DynamicToolCallOutputContentItem] = []
    for block in outcome.content:
        if isinstance(block, Image):
            url = f"data:{block.mime_type};base64,{block.data}"
            items.append(InputImageDynamicToolCallOutputContentItem(image_url=url))
        else:
            items.append(InputTextDynamicToolCallOutputContentItem(text=plain_text([block])))
    return DynamicToolCallResponse(content_items=items, success=not outcome.is_error)
